"""Encodings of bodies, at their fastest levels, and of answers."""

from __future__ import annotations

import importlib
import zlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Callable, List, Optional

import numpy as np
from numpy.typing import NDArray

from . import tensors
from .errors import BadAnswer

if TYPE_CHECKING:
    from .connection import Answer

HEADER = "Content-Encoding"
LARGEST_ANSWER = 1 << 36  # bytes: the most that a service can be configured to give
GZIP, ZSTD = "gzip", "zstd"
GZIP_BITS = 16 + zlib.MAX_WBITS
PIECE = 1 << 14  # bytes to decode at a time; they become at most a few hundred megabytes
MODULES = ("compression.zstd", "zstandard")  # Python 3.14's own, or the package from PyPI


def encoder_of(name: Optional[str]) -> Optional[Callable[[List[memoryview]], List[memoryview]]]:
    """Encodes the pieces of a body; None: they are sent unchanged."""
    if name is None:
        return None
    if name == GZIP:
        return _gzip
    if name == ZSTD:
        module = _zstd()
        # All at once, so that the frame tells the size of its content: such a frame is faster to decode.
        return lambda body: [memoryview(module.compress(body[0] if len(body) == 1 else b"".join(body), 1))]
    raise ValueError(f"the encoding is {name!r}; allowed: gzip, zstd, or None")


def fastest() -> str:
    """zstd if this Python has it, else gzip."""
    try:
        _zstd()
    except ValueError:
        return GZIP
    return ZSTD


class Decoding:
    """Decodes a body as it arrives."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._pieces: List[bytes] = []
        self._total = 0
        self._fault: Optional[str] = None
        try:
            self._decoder = _decompressor(name)
            self._faults = (zlib.error, EOFError) if name == GZIP else (_zstd().ZstdError, EOFError)
        except ValueError as reason:  # the answer is in zstd, which the client did not ask for
            self._fault = str(reason)

    def take(self, coded: memoryview) -> None:
        """Raises nothing: end() does."""
        for start in range(0, len(coded), PIECE):
            if self._fault:
                return
            try:
                self._pieces.append(self._decoder.decompress(coded[start : start + PIECE]))
            except self._faults as reason:
                self._fault = f"the answer cannot be decoded as {self._name}: {reason}"
                return
            self._total += len(self._pieces[-1])
            if self._decoder.unused_data:  # zlib would collect these bytes
                self._fault = f"the answer goes on after its {self._name} data"
            if self._total > LARGEST_ANSWER:
                self._fault = f"the answer has more than {LARGEST_ANSWER} bytes"

    def end(self) -> NDArray[np.uint8]:
        """BadAnswer if the body cannot be decoded."""
        if self._fault or not self._decoder.eof:
            raise BadAnswer(self._fault or f"the answer ends before its {self._name} data do")
        body, end = tensors.buffer(self._total), 0
        for piece in self._pieces:
            body[end : end + len(piece)] = np.frombuffer(piece, np.uint8)
            end += len(piece)
        return body


def decode(answer: Answer) -> Answer:
    """BadAnswer if the answer cannot be decoded."""
    name = answer.headers.get(HEADER.lower())
    if name is None:
        return answer
    if name not in (GZIP, ZSTD):
        raise BadAnswer(f"the answer has the encoding {name!r}")
    decoding = answer.decoding
    if decoding is None:
        decoding = Decoding(name)
        decoding.take(answer.body.data)
    return replace(answer, body=decoding.end(), decoding=None)


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
