"""Makes the body of a request, and the parameters that describe the body, from the caller's points. Points that are
contiguous little-endian float32 or float16 already are not copied."""

from __future__ import annotations

from typing import Any, Dict, List, Protocol, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

BYTES = ("B", "b", "c")  # formats of buffers that hold bytes of rows, not numbers
DESCRIBED = ("num_features", "dtype", "point_counts")  # parameters that follow from arrays


class SupportsArray(Protocol):
    def __array__(self) -> NDArray[Any]: ...


class SupportsDLPack(Protocol):
    def __dlpack__(self) -> Any: ...


Array = Union["NDArray[Any]", SupportsArray, SupportsDLPack]
Points = Union[Array, Sequence[Array], bytes, bytearray, memoryview]
Parameters = Dict[str, Any]


def body_of(points: Points, given: Parameters) -> Tuple[List[memoryview], Parameters]:
    """The body in pieces, and the parameters that follow from the points. `given`, the caller's parameters, must not
    repeat these.

    Raises TypeError or ValueError for points that Client.voxelize does not allow.
    """
    if isinstance(points, (list, tuple)):
        return _batch([array_of(cloud) for cloud in points], given)
    if not _is_array(points):
        rows = _buffer(points)
        if rows.format in BYTES:
            return [rows.cast("B")] if rows.nbytes else [], {}
        points = np.asarray(rows)
        if points.ndim == 1:  # as in array.array; the caller gives num_features
            _refuse(given, "dtype")
            return [_floats(points)], {"dtype": points.dtype.name}
    array = array_of(points)
    return _batch(list(array), given) if array.ndim == 3 else _cloud(array, given)


def _buffer(points: Any) -> memoryview:
    try:
        return memoryview(points)
    except TypeError:
        raise TypeError(
            f"points are {type(points).__name__}; expected arrays or bytes. A file is read by "
            'numpy.fromfile(path, "<f4").reshape(-1, 4)'
        ) from None


def _cloud(array: NDArray[Any], given: Parameters) -> Tuple[List[memoryview], Parameters]:
    _refuse(given, "num_features", "dtype")
    rows, told = _rows(array)
    return [rows], told


def _batch(arrays: List[NDArray[Any]], given: Parameters) -> Tuple[List[memoryview], Parameters]:
    _refuse(given, *DESCRIBED)
    if not arrays:
        raise ValueError("a batch needs at least one cloud, which may be empty")
    clouds = [_rows(array) for array in arrays]
    told = clouds[0][1]
    for number, (_, other) in enumerate(clouds):
        if other != told:
            raise ValueError(f"the clouds of a batch must be alike: number 0 has {told}, number {number} has {other}")
    return [rows for rows, _ in clouds], {**told, "point_counts": [len(array) for array in arrays]}


def _rows(array: NDArray[Any]) -> Tuple[memoryview, Parameters]:
    """The bytes of one cloud, its number of columns and its type."""
    if array.ndim != 2:
        raise ValueError(f"a cloud has the shape {array.shape}; expected [N, C]")
    return _floats(array), {"num_features": array.shape[1], "dtype": array.dtype.name}


def _floats(array: NDArray[Any]) -> memoryview:
    if array.dtype.kind != "f" or array.dtype.itemsize not in (2, 4):
        raise TypeError(f"points are {array.dtype}; expected float32 or float16: points.astype(numpy.float32)")
    rows = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return rows.reshape(-1).view(np.uint8).data


def _is_array(points: Any) -> bool:
    return isinstance(points, np.ndarray) or hasattr(points, "__array__") or hasattr(points, "__dlpack__")


def array_of(points: Any) -> NDArray[Any]:
    if not _is_array(points):
        raise TypeError(f"a cloud is {type(points).__name__}; expected an array of the shape [N, C]")
    array = np.asanyarray(points) if hasattr(points, "__array__") else np.from_dlpack(points)
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError("a masked array's mask would be lost: numpy.ma.compress_rows(points), or points.data")
    return np.asarray(array)


def _refuse(given: Parameters, *names: str) -> None:
    for name in names:
        if given.get(name) is not None:
            raise ValueError(f"{name} is taken from the points and cannot be given as well")
