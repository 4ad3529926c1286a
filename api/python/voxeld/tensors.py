"""Safetensors files in memory. The tensors of a file that was read are writable views of one aligned buffer.

numpy exports only writable arrays through DLPack. voxeld starts each tensor on a multiple of 64 bytes of the file.
Tensors of a shuffled file may be copies.
"""

from __future__ import annotations

import ctypes
import json
import math
from typing import Any, Dict, List, Mapping, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from .errors import BadAnswer

ALIGNMENT = 64
LONGEST_HEADER = 1 << 24  # bytes; about a hundred times the header of voxeld's largest batch
MOST_DIGITS = 20  # of an integer, as 2^64 has; to parse much longer integers takes minutes
MOST_AXES = 8
LARGEST_SIZE = 1 << 48
LONGEST_REASON = 300  # characters; the text may come from the service
PADDING = "_padding_"  # prefix of the fillers between tensors, since the format forbids holes
DTYPES: Dict[str, np.dtype[Any]] = {
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "U8": np.dtype("u1"),
}


def buffer(length: int) -> NDArray[np.uint8]:
    """An uninitialized buffer of `length` bytes that starts on a multiple of ALIGNMENT."""
    room = np.empty(length + ALIGNMENT, np.uint8)
    start = -ctypes.addressof(ctypes.c_char.from_buffer(room.data)) % ALIGNMENT  # room.ctypes takes longer
    return room[start : start + length]


def pack(given: Mapping[str, Tuple[Any, Sequence[str]]]) -> List[memoryview]:
    """The pieces of a file of arrays. `given`: name -> (values, allowed dtypes). A list of numbers is converted to the
    first dtype. TypeError if an array has another dtype."""
    header: Dict[str, Any] = {}
    pieces, end = [], 0
    arrays = {name: _array(name, *item) for name, item in given.items()}
    # The widest types come first, so that each tensor is aligned to its numbers.
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].dtype.itemsize):
        piece = np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
        (word,) = [word for word, dtype in DTYPES.items() if dtype == array.dtype]
        header[name] = {"dtype": word, "shape": array.shape, "data_offsets": [end, end + piece.nbytes]}
        pieces.append(piece)
        end += piece.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-(8 + len(text)) % ALIGNMENT)
    return [memoryview(len(text).to_bytes(8, "little") + text), *pieces]


def _array(name: str, values: Any, dtypes: Sequence[str]) -> NDArray[Any]:
    array = np.asarray(values) if hasattr(values, "dtype") else np.asarray(values, dtypes[0])
    if not any(array.dtype == np.dtype(dtype) for dtype in dtypes):
        raise TypeError(f"{name} has the dtype {array.dtype}; expected {' or '.join(dtypes)}")
    return array


def parse(file: NDArray[np.uint8]) -> Tuple[Dict[str, NDArray[Any]], Dict[str, Any]]:
    """The tensors and voxeld's metadata of a file in a buffer(). BadAnswer if the file is invalid."""
    try:
        return _parse(file)
    except (ValueError, OverflowError, RecursionError) as reason:
        raise BadAnswer(f"the answer is not a valid safetensors file: {str(reason)[:LONGEST_REASON]}") from None


def _parse(file: NDArray[np.uint8]) -> Tuple[Dict[str, NDArray[Any]], Dict[str, Any]]:
    _require(len(file) >= 8, f"it has {len(file)} bytes")
    length = int.from_bytes(file[:8].tobytes(), "little")
    most = min(LONGEST_HEADER, len(file) - 8)
    _require(length <= most, f"its header should have {length} bytes; allowed: up to {most}")
    data = file[8 + length :]
    header = _object(file[8 : 8 + length].tobytes(), "its header")
    extra = header.pop("__metadata__", None)
    _require(isinstance(extra, dict) and isinstance(extra.get("voxeld"), str), "it has no metadata of voxeld")
    shuffled = "filter" in extra
    _require(not shuffled or extra["filter"] == "shuffle", f"it has the filter {extra.get('filter')!r}")

    tensors = {}
    end = 0  # of the previous tensor, where the next must begin
    for name, (dtype, shape, first, last) in sorted(_entries(header), key=lambda entry: entry[1][2:]):
        _require(first == end, f"{name} begins at {first}, but the tensor before it ends at {end}")
        _require(last - first == math.prod(shape) * dtype.itemsize, f"{name} has {last - first} bytes for {shape}")
        _require(last <= len(data), f"{name} ends at {last} of {len(data)} bytes")
        end = last
        if not name.startswith(PADDING):
            _require((8 + length + first) % ALIGNMENT == 0, f"{name} does not start on {ALIGNMENT} bytes")
            place = _rows(data[first:last], shape) if shuffled and len(shape) <= 2 else data[first:last]
            tensors[name] = place.view(dtype).reshape(shape)
    _require(end == len(data), f"its tensors end at {end} of {len(data)} bytes")
    return tensors, _object(extra["voxeld"], "its metadata")


def _rows(planes: NDArray[np.uint8], shape: List[int]) -> NDArray[np.uint8]:
    """The rows of a shuffled tensor: plane k has byte k of every row."""
    rows = buffer(len(planes))
    if shape and len(planes):
        rows.reshape(shape[0], -1)[:] = planes.reshape(-1, shape[0]).T
    return rows


def _entries(header: Dict[str, Any]) -> List[Tuple[str, Tuple[np.dtype[Any], List[int], int, int]]]:
    entries = []
    for name, entry in header.items():
        sound = isinstance(entry, dict) and set(entry) == {"dtype", "shape", "data_offsets"}
        _require(sound and _sizes(entry["shape"]) and _sizes(entry["data_offsets"]), f"{name} is described by {entry}")
        _require(len(entry["shape"]) <= MOST_AXES, f"{name} has {len(entry['shape'])} axes")
        _require(len(entry["data_offsets"]) == 2, f"{name} has the offsets {entry['data_offsets']}")
        dtype = DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
        if dtype is None:
            raise ValueError(f"{name} has the type {entry['dtype']!r}")
        entries.append((name, (dtype, entry["shape"], *entry["data_offsets"])))
    return entries


def _sizes(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < LARGEST_SIZE for value in values)


def _object(text: Any, what: str) -> Dict[str, Any]:
    value = json.loads(text, object_pairs_hook=_unique, parse_int=_integer)
    _require(isinstance(value, dict), f"{what} is not a JSON object")
    assert isinstance(value, dict)
    return value


def _integer(digits: str) -> int:
    _require(len(digits) <= MOST_DIGITS, f"a number has {len(digits)} digits")
    return int(digits)


def _unique(pairs: List[Tuple[str, Any]]) -> Dict[str, Any]:
    value = dict(pairs)
    _require(len(value) == len(pairs), "a JSON object names something twice")
    return value


def _require(condition: bool, otherwise: str) -> None:
    if not condition:
        raise ValueError(otherwise)
