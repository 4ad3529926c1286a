"""Arrays in the memory of a GPU: those of others, by __cuda_array_interface__ or DLPack, and the service's tensors,
which have both."""

from __future__ import annotations

import ctypes
import itertools
import math
import sys
from dataclasses import dataclass
from typing import Any, Dict, List, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from . import driver

ON_CUDA = 2  # DLPack's number of a CUDA GPU
FLOAT, UNSIGNED, SIGNED = 2, 1, 0  # DLPack's kinds of numbers
KINDS = {"f": FLOAT, "u": UNSIGNED, "i": SIGNED}
NAME, USED = b"dltensor", b"used_dltensor"


class _Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int32), ("number", ctypes.c_int32)]


class _Type(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("axes", ctypes.c_int32),
        ("dtype", _Type),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _Tensor), ("owner", ctypes.c_void_p), ("deleter", ctypes.c_void_p)]


_new = ctypes.pythonapi.PyCapsule_New
_new.restype, _new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
_pointer = ctypes.pythonapi.PyCapsule_GetPointer
_pointer.restype, _pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
_is_valid = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_of_capsule = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)

_lent: Dict[int, Tuple[Any, ...]] = {}  # what exported tensors point to, until their takers delete them
_numbers = itertools.count(1)


# These two may be called when the interpreter has cleared this module, so their defaults keep what they need.
def _on_delete(managed: int, lent: Dict[int, Tuple[Any, ...]] = _lent, kind: Any = _Managed) -> None:
    lent.pop(kind.from_address(managed).owner or 0, None)


def _on_drop(capsule: int, valid: Any = _is_valid, pointer: Any = _of_capsule, delete: Any = _on_delete) -> None:
    if valid(capsule, b"dltensor"):  # nobody took the tensor
        delete(pointer(capsule, b"dltensor"))


_deleter = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(_on_delete)
_destructor = ctypes.PYFUNCTYPE(None, ctypes.c_void_p)(_on_drop)


class CudaTensor:
    """A tensor in the memory of a GPU. `torch.from_dlpack(tensor)` and `cupy.from_dlpack(tensor)` share its memory.

    The memory goes back to the client once nothing holds the tensor or an array that was made of it, and once all work
    is done that was then in torch's current stream or, without torch, in the default stream. While other streams read
    the tensor, hold it.
    """

    def __init__(self, address: int, shape: Tuple[int, ...], dtype: np.dtype[Any], device: int, owner: Any) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device
        self.size = math.prod(shape)
        self.nbytes = self.size * dtype.itemsize
        self.data_ptr = address
        self._owner = owner

    @property
    def __cuda_array_interface__(self) -> Dict[str, Any]:
        data = (self.data_ptr if self.size else 0, False)
        return {"shape": self.shape, "typestr": self.dtype.str, "data": data, "version": 3, "stream": None}

    def __dlpack_device__(self) -> Tuple[int, int]:
        return ON_CUDA, self.device

    def __dlpack__(self, *, stream: Any = None, dl_device: Any = None, copy: Any = None, **_: Any) -> Any:
        """The tensor is complete already, so no stream need wait for it."""
        if copy or dl_device not in (None, self.__dlpack_device__()):
            raise BufferError(f"the tensor can only be shared, on cuda:{self.device}")
        number = next(_numbers)
        shape = (ctypes.c_int64 * max(len(self.shape), 1))(*self.shape)
        dtype = _Type(KINDS[self.dtype.kind], self.dtype.itemsize * 8, 1)
        data = self.data_ptr if self.size else None
        tensor = _Tensor(data, _Device(ON_CUDA, self.device), len(self.shape), dtype, shape, None, 0)
        managed = _Managed(tensor, number, ctypes.cast(_deleter, ctypes.c_void_p))
        _lent[number] = (managed, shape, self._owner)
        return _new(ctypes.addressof(managed), NAME, ctypes.cast(_destructor, ctypes.c_void_p))

    def numpy(self) -> NDArray[Any]:
        """A copy on the host."""
        array = np.empty(self.shape, self.dtype)
        if self.nbytes:
            library = driver.load()
            with library.on(self.device):
                library.download(array.reshape(-1).view(np.uint8), self.data_ptr)
        return array

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<voxeld.CudaTensor {self.dtype}{list(self.shape)} on cuda:{self.device}>"


@dataclass(frozen=True)
class CudaArray:
    """Another owner's contiguous array."""

    address: int
    shape: Tuple[int, ...]
    dtype: np.dtype[Any]
    device: int
    stream: Optional[int]  # when its work is done, the array is complete; None: it is complete already
    owner: Any  # the object that keeps the memory allocated

    @property
    def nbytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def is_on_gpu(array: Any) -> bool:
    if isinstance(array, (np.ndarray, bytes, bytearray, memoryview, CudaTensor)):
        return isinstance(array, CudaTensor)
    if _is_torch(array):
        return bool(array.is_cuda)
    if hasattr(array, "__cuda_array_interface__"):
        return True
    return hasattr(array, "__dlpack_device__") and array.__dlpack_device__()[0] == ON_CUDA


def array_of(array: Any) -> CudaArray:
    """TypeError or ValueError if the array cannot be handed over."""
    if isinstance(array, CudaTensor):  # complete already
        found = CudaArray(array.data_ptr, array.shape, array.dtype, array.device, None, array)
    elif _is_torch(array):
        found = _of_torch(array)
    elif hasattr(array, "__cuda_array_interface__"):
        found = _of_interface(array, array.__cuda_array_interface__)
    else:
        found = _of_dlpack(array)
    return found


def points_on_gpu(points: Any, wanted: Optional[int]) -> Tuple[Optional[List[CudaArray]], bool]:
    """The clouds if they are on a GPU, else None; and whether they are a batch. ValueError if they are not all on one
    GPU, which must be `wanted` if given."""
    batch = isinstance(points, (list, tuple))
    clouds = points if batch else [points]
    on_gpu = [is_on_gpu(cloud) for cloud in clouds]
    if True not in on_gpu:
        return None, batch
    if False in on_gpu:
        raise ValueError("some clouds of the batch are on a GPU, others are not")
    arrays = [array_of(cloud) for cloud in clouds]
    _require_one(arrays, wanted, "points")
    return arrays, batch


def arrays_on_gpu(given: Dict[str, Any], wanted: Optional[int]) -> Dict[str, CudaArray]:
    """The arrays that are on a GPU. Raises ValueError as points_on_gpu() does."""
    arrays = {name: array_of(array) for name, array in given.items() if is_on_gpu(array)}
    _require_one(list(arrays.values()), wanted, "arrays")
    return arrays


def _require_one(arrays: List[CudaArray], wanted: Optional[int], what: str) -> None:
    devices = {array.device for array in arrays if array.nbytes}
    if wanted is not None:
        devices.add(wanted)
    if len(devices) > 1:
        names = " and ".join(f"cuda:{device}" for device in sorted(devices))
        raise ValueError(f"the {what} and the answer must be on one GPU; these are on {names}")


def _is_torch(array: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(array, torch.Tensor)


def _of_torch(tensor: Any) -> CudaArray:
    """torch's __cuda_array_interface__ names no stream."""
    if not tensor.is_contiguous():
        raise _not_contiguous()
    dtype = np.dtype(str(tensor.dtype).rpartition(".")[2])
    device = tensor.device.index
    stream = sys.modules["torch"].cuda.current_stream(device).cuda_stream or driver.DEFAULT_STREAM
    return CudaArray(tensor.data_ptr(), tuple(tensor.shape), dtype, device, stream, tensor)


def _of_interface(array: Any, told: Dict[str, Any]) -> CudaArray:
    shape, dtype, strides = tuple(told["shape"]), np.dtype(told["typestr"]), told.get("strides")
    if strides is not None and tuple(strides) != _strides(shape, dtype.itemsize):
        raise _not_contiguous()
    address = told["data"][0] or 0
    device = driver.load().device_of(address) if address else -1
    stream = told.get("stream") if told.get("version", 0) >= 3 else driver.DEFAULT_STREAM
    return CudaArray(address, shape, dtype, device, stream, array)


def _of_dlpack(array: Any) -> CudaArray:
    capsule = array.__dlpack__(stream=driver.DEFAULT_STREAM)  # from now on that stream waits for the array
    tensor = _Managed.from_address(_pointer(capsule, NAME)).tensor
    kinds = {kind: letter for letter, kind in KINDS.items()}
    if tensor.dtype.kind not in kinds or tensor.dtype.lanes != 1:
        raise TypeError(f"the array is of a type that DLPack numbers {tensor.dtype.kind}; expected floats or integers")
    dtype = np.dtype(f"{kinds[tensor.dtype.kind]}{tensor.dtype.bits // 8}")
    shape = tuple(tensor.shape[axis] for axis in range(tensor.axes))
    if tensor.strides:
        steps = tuple(tensor.strides[axis] for axis in range(tensor.axes))
        if steps != _strides(shape, 1):
            raise _not_contiguous()
    address = (tensor.data or 0) + tensor.offset
    return CudaArray(address, shape, dtype, tensor.device.number, driver.DEFAULT_STREAM, capsule)


def _strides(shape: Tuple[int, ...], step: int) -> Tuple[int, ...]:
    """The strides of a contiguous array; `step` along the last axis."""
    steps = []
    for size in reversed(shape):
        steps.append(step)
        step *= size
    return tuple(reversed(steps))


def _not_contiguous() -> ValueError:
    return ValueError("arrays on a GPU must be contiguous: array.contiguous()")
