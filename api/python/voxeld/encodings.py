"""Encodings of a request's body, at their fastest levels."""

from __future__ import annotations

import importlib
import zlib
from typing import Any, Callable, List, Optional

HEADER = "Content-Encoding"
GZIP = 16 + zlib.MAX_WBITS
ZSTD = ("compression.zstd", "zstandard")  # Python 3.14's own, or the package from PyPI


def encoder_of(name: Optional[str]) -> Optional[Callable[[List[memoryview]], List[memoryview]]]:
    """The function that encodes the pieces of a body; None if they are sent unchanged."""
    if name is None:
        return None
    if name == "gzip":
        return lambda body: _encode(zlib.compressobj(1, zlib.DEFLATED, GZIP), body)
    if name == "zstd":
        module = _zstd()
        return lambda body: _encode(_zstd_compressor(module), body)
    raise ValueError(f"the encoding is {name!r}; allowed: gzip, zstd, or None")


def fastest() -> str:
    """zstd if this Python has it, else gzip."""
    try:
        _zstd()
    except ValueError:
        return "gzip"
    return "zstd"


def _zstd() -> Any:
    for module in ZSTD:
        try:
            return importlib.import_module(module)
        except ImportError:
            pass
    raise ValueError("the encoding zstd needs Python 3.14 or the package zstandard (pip install zstandard)")


def _zstd_compressor(module: Any) -> Any:
    compressor = module.ZstdCompressor(level=1)
    return compressor.compressobj() if hasattr(compressor, "compressobj") else compressor  # zstandard, or Python's own


def _encode(compressor: Any, body: List[memoryview]) -> List[memoryview]:
    coded = [compressor.compress(piece) for piece in body]
    coded.append(compressor.flush())
    return [memoryview(piece) for piece in coded if piece]
