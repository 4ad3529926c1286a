"""Makes a body, and the parameters that describe it, from the caller's points. Contiguous little-endian float32 or
float16 points are not copied."""

from __future__ import annotations

from typing import Any, Dict, List, Protocol, Sequence, Tuple, Union

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .dlpack import is_on_gpu

BYTES = ("B", "b", "c")  # formats of buffers that hold bytes of rows, not numbers
FLOATS = {2: "float16", 4: "float32"}  # by the bytes of a number
DESCRIBED = ("num_features", "dtype", "point_counts")  # parameters that follow from arrays
EMPTY_BATCH = "a batch needs at least one cloud, which may be empty"


class SupportsArray(Protocol):
    def __array__(self) -> NDArray[Any]: ...


class SupportsDLPack(Protocol):
    def __dlpack__(self) -> Any: ...


class SupportsCuda(Protocol):
    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]: ...


class Described(Protocol):
    @property
    def shape(self) -> Tuple[int, ...]: ...

    @property
    def dtype(self) -> np.dtype[Any]: ...


Array = Union["NDArray[Any]", SupportsArray, SupportsDLPack, SupportsCuda]
Points = Union[Array, Sequence[Array], bytes, bytearray, memoryview]
Tensor = Union[ArrayLike, SupportsCuda]
Parameters = Dict[str, Any]


def body_of(points: Points, given: Parameters) -> Tuple[List[memoryview], Parameters]:
    """The body in pieces, and the parameters that follow from the points, which the caller's `given` must not repeat.

    Raises TypeError or ValueError for points that Client.voxelize does not allow."""
    if is_on_gpu(points):
        raise TypeError('points on a GPU need the argument out="cuda", or a copy on the host: points.cpu()')
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


def describe(clouds: Sequence[Described], batch: bool, given: Parameters) -> Parameters:
    """The parameters that body_of() would return. `clouds`: one cloud in the memory of a GPU, an array [B, N, C] of
    clouds or, with `batch`, several clouds."""
    shapes = [cloud.shape for cloud in clouds]
    if not batch and len(shapes[0]) == 3:
        shapes, batch = [shapes[0][1:]] * shapes[0][0], True
    _refuse(given, *(DESCRIBED if batch else ("num_features", "dtype")))
    if not shapes:
        raise ValueError(EMPTY_BATCH)
    if not batch:
        return _told(shapes[0], clouds[0].dtype)
    told = _alike([_told(shape, clouds[0].dtype) for shape in shapes] + [_told(shapes[0], one.dtype) for one in clouds])
    return {**told, "point_counts": [shape[0] for shape in shapes]}


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
        raise ValueError(EMPTY_BATCH)
    clouds = [_rows(array) for array in arrays]
    told = _alike([told for _, told in clouds])
    return [rows for rows, _ in clouds], {**told, "point_counts": [len(array) for array in arrays]}


def _alike(told: List[Parameters]) -> Parameters:
    for number, other in enumerate(told):
        if other != told[0]:
            raise ValueError(
                f"the clouds of a batch must be alike: number 0 has {told[0]}, number {number} has {other}"
            )
    return told[0]


def _rows(array: NDArray[Any]) -> Tuple[memoryview, Parameters]:
    told = _told(array.shape, array.dtype)
    return _floats(array), told


def _told(shape: Tuple[int, ...], dtype: np.dtype[Any]) -> Parameters:
    if len(shape) != 2:
        raise ValueError(f"a cloud has the shape {shape}; expected [N, C]")
    _check(dtype)
    return {"num_features": shape[1], "dtype": FLOATS[dtype.itemsize]}


def _check(dtype: np.dtype[Any]) -> None:
    if dtype.kind != "f" or dtype.itemsize not in FLOATS:
        raise TypeError(f"points are {dtype}; expected float32 or float16: points.astype(numpy.float32)")


def _floats(array: NDArray[Any]) -> memoryview:
    _check(array.dtype)
    rows = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
    return rows.reshape(-1).view(np.uint8).data


def _is_array(points: Any) -> bool:
    return isinstance(points, np.ndarray) or hasattr(points, "__array__") or hasattr(points, "__dlpack__")


def array_of(points: Any) -> NDArray[Any]:
    if is_on_gpu(points):
        raise TypeError("a cloud is on a GPU; expected an array on the host: points.cpu()")
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
