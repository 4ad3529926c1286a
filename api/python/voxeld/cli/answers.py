"""Answers as files: their kinds, their warnings, and a writer that leaves only complete files in a folder."""

from __future__ import annotations

import io
import json
import os
import pathlib
import secrets
import struct
import threading
import zipfile
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set

import numpy as np
from numpy.typing import NDArray

from .. import errors, ros, tensors
from ..errors import BadAnswer, RequestWarning

Body = NDArray[np.uint8]
PART = ".part"
MCAP_METADATA = 0x0C


class Kind(NamedTuple):
    media_type: str
    metadata: Callable[[Body], Dict[str, Any]]


def warnings_of(kind: str, body: Body) -> List[RequestWarning]:
    """BadAnswer if this is not a file of this kind."""
    try:
        return errors.warnings_of(KINDS[kind].metadata(body))
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, zipfile.BadZipFile) as reason:
        raise BadAnswer(f"the answer is not a valid {kind} file: {reason}") from None


def _safetensors(body: Body) -> Dict[str, Any]:
    return tensors.parse(body)[1]


def _npz(body: Body) -> Dict[str, Any]:
    with zipfile.ZipFile(io.BytesIO(body.data)) as file:
        told: Dict[str, Any] = json.loads(file.read("metadata.json"))
        return told


def _mcap(body: Body) -> Dict[str, Any]:
    """The entry `metadata` of the first metadata record."""
    for code, record in ros.records(ros.content_of(body.data)):
        if code == MCAP_METADATA:
            return _entry(record, b"metadata")
    raise ValueError("it has no metadata")


def _entry(record: memoryview, wanted: bytes) -> Dict[str, Any]:
    """The record is a name and a map of strings."""

    def text(place: int) -> bytes:
        (length,) = struct.unpack_from("<I", record, place)
        return bytes(record[place + 4 : place + 4 + length])

    place = 4 + len(text(0)) + 4  # after the length of the map
    while place < len(record):
        name = text(place)
        value = text(place + 4 + len(name))
        if name == wanted:
            told: Dict[str, Any] = json.loads(value)
            return told
        place += 8 + len(name) + len(value)
    raise ValueError("its metadata has no entry of voxeld")


KINDS: Dict[str, Kind] = {
    "safetensors": Kind("application/vnd.safetensors", _safetensors),
    "npz": Kind("application/x-npz", _npz),
    "mcap": Kind("application/x-mcap", _mcap),
}


class Writer:
    """Files appear under their names when they are complete. Threads may share a writer."""

    def __init__(self) -> None:
        self._parts: Set[pathlib.Path] = set()
        self._lock = threading.Lock()

    def write(self, path: pathlib.Path, body: Any, confirm: Optional[Callable[[], None]] = None) -> None:
        """Calls `confirm` once everything is written; if it raises, the file does not appear."""
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.parent / f".{secrets.token_hex(8)}{PART}"
        with self._lock:
            self._parts.add(part)
        try:
            with open(part, "xb") as file:
                file.write(body)
            if confirm:
                confirm()
            os.replace(part, path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        finally:
            with self._lock:
                self._parts.discard(part)

    def abandon(self) -> None:
        """Removes the unfinished files of threads that did not end."""
        with self._lock:
            parts = list(self._parts)
        for part in parts:
            part.unlink(missing_ok=True)
