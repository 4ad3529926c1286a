"""Reads the members of ROS messages in their order, as ROS 2 (CDR) or ROS 1 serializes them. Writes only CDR.

CDR aligns each number to its size, counted from the end of the encapsulation. ROS 1 aligns nothing, and its strings
have no NUL."""

from __future__ import annotations

import struct
from typing import List, Tuple, Union

Bytes = Union[bytes, bytearray, memoryview]
ENCAPSULATION = b"\0\1\0\0"  # little-endian CDR
PLAIN, XCDR2 = 0, 3  # kinds of encapsulation: the second byte, divided by 2


class Reader:
    """A message of ROS 2 begins with its encapsulation. ValueError if it does not, or if a message ends too early."""

    def __init__(self, message: Bytes, ros1: bool = False) -> None:
        self.bytes, self.ros1 = memoryview(message).cast("B"), ros1
        self.order, self.most = "<", 8  # the byte order; the largest alignment
        self.at = 0 if ros1 else len(ENCAPSULATION)
        if ros1:
            return
        if len(self.bytes) < self.at or self.bytes[0] or self.bytes[1] // 2 not in (PLAIN, XCDR2):
            raise ValueError(f"the message begins with {bytes(self.bytes[:4]).hex(' ')}, so it is not plain CDR")
        self.order = "<" if self.bytes[1] % 2 else ">"
        self.most = 4 if self.bytes[1] // 2 == XCDR2 else 8

    def align(self, size: int) -> None:
        if not self.ros1:
            size = min(size, self.most)
            self.at += -(self.at - len(ENCAPSULATION)) % size

    def number(self, form: str) -> int:
        """`form` is as for struct."""
        return int(self._unpack(form, 1)[0])

    def numbers(self, form: str, count: int) -> List[float]:
        return list(map(float, self._unpack(form, count)))

    def take(self, count: int) -> memoryview:
        if count > len(self.bytes) - self.at:
            raise ValueError(f"the message ends at byte {len(self.bytes)}, within its members")
        self.at += count
        return self.bytes[self.at - count : self.at]

    def text(self) -> str:
        text = bytes(self.take(self.number("I")))
        return (text if self.ros1 else text[:-1]).decode("utf-8", "replace")

    def _unpack(self, form: str, count: int) -> Tuple[float, ...]:
        size = struct.calcsize(f"<{form}")
        self.align(size)
        return struct.unpack(f"{self.order}{count}{form}", self.take(count * size))


class Writer:
    """Writes a little-endian CDR message. Each method returns the writer."""

    def __init__(self) -> None:
        self._bytes = bytearray(ENCAPSULATION)

    def align(self, size: int) -> Writer:
        self._bytes += bytes(-(len(self._bytes) - len(ENCAPSULATION)) % size)
        return self

    def numbers(self, form: str, *values: float) -> Writer:
        """`form` is as for struct."""
        self.align(struct.calcsize(f"<{form}"))
        self._bytes += struct.pack(f"<{len(values)}{form}", *values)
        return self

    def text(self, text: str) -> Writer:
        content = text.encode() + b"\0"
        self.numbers("I", len(content))
        self._bytes += content
        return self

    def data(self, content: Bytes) -> Writer:
        """An array of bytes, after its length."""
        self.numbers("I", len(content))
        self._bytes += content
        return self

    def rest(self, content: Bytes) -> Writer:
        """Members that are serialized already."""
        self._bytes += content
        return self

    def message(self) -> bytes:
        return bytes(self._bytes)
