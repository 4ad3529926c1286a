"""Encodings of bodies, at their fastest levels, and of answers."""

from __future__ import annotations

import importlib
import zlib
from dataclasses import replace
from typing import Any, Callable, List, Optional

import numpy as np

from . import tensors
from .connection import LARGEST_ANSWER, Answer
from .errors import BadAnswer

HEADER = "Content-Encoding"
GZIP, ZSTD = "gzip", "zstd"
GZIP_BITS = 16 + zlib.MAX_WBITS
PIECE = 1 << 14  # bytes of an answer to decode at a time; they become at most a few hundred megabytes
MODULES = ("compression.zstd", "zstandard")  # Python 3.14's own, or the package from PyPI


def encoder_of(name: Optional[str]) -> Optional[Callable[[List[memoryview]], List[memoryview]]]:
    """The function that encodes the pieces of a body; None if they are sent unchanged."""
    if name is None:
        return None
    if name == GZIP:
        return _gzip
    if name == ZSTD:
        module = _zstd()
        # All at once, so that the frame says how many bytes it has, which is faster to decode.
        return lambda body: [memoryview(module.compress(body[0] if len(body) == 1 else b"".join(body), 1))]
    raise ValueError(f"the encoding is {name!r}; allowed: gzip, zstd, or None")


def fastest() -> str:
    """zstd if this Python has it, else gzip."""
    try:
        _zstd()
    except ValueError:
        return GZIP
    return ZSTD


def decode(answer: Answer) -> Answer:
    """The answer without its encoding. BadAnswer if it cannot be decoded."""
    name = answer.headers.get(HEADER.lower())
    if name is None:
        return answer
    if name not in (GZIP, ZSTD):
        raise BadAnswer(f"the answer has the encoding {name!r}")
    decoder, pieces, total = _decompressor(name), [], 0
    try:
        for start in range(0, len(answer.body), PIECE):
            pieces.append(decoder.decompress(answer.body[start : start + PIECE].data))
            total += len(pieces[-1])
            if total > LARGEST_ANSWER:
                raise BadAnswer(f"the answer has more than {LARGEST_ANSWER} bytes")
    except (zlib.error, EOFError) if name == GZIP else (_zstd().ZstdError, EOFError) as reason:
        raise BadAnswer(f"the answer cannot be decoded as {name}: {reason}") from None
    if not decoder.eof:
        raise BadAnswer(f"the answer ends before its {name} data do")
    body, end = tensors.buffer(total), 0
    for piece in pieces:
        body[end : end + len(piece)] = np.frombuffer(piece, np.uint8)
        end += len(piece)
    return replace(answer, body=body)


def _decompressor(name: str) -> Any:
    if name == GZIP:
        return zlib.decompressobj(GZIP_BITS)
    decompressor = _zstd().ZstdDecompressor()
    return decompressor.decompressobj() if hasattr(decompressor, "decompressobj") else decompressor


def _zstd() -> Any:
    for module in MODULES:
        try:
            return importlib.import_module(module)
        except ImportError:
            pass
    raise ValueError("the encoding zstd needs Python 3.14 or the package zstandard (pip install zstandard)")


def _gzip(body: List[memoryview]) -> List[memoryview]:
    compressor = zlib.compressobj(1, zlib.DEFLATED, GZIP_BITS)
    coded = [compressor.compress(piece) for piece in body]
    coded.append(compressor.flush())
    return [memoryview(piece) for piece in coded if piece]
