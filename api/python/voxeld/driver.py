"""CUDA's driver library, libcuda.so.1, through ctypes. Any thread may call any function.

Memory belongs to the primary context of its GPU, which PyTorch, CuPy and CUDA's runtime use too. GPUs are numbered as
CUDA_VISIBLE_DEVICES orders them."""

from __future__ import annotations

import ctypes
import threading
from typing import Any, Dict, Tuple

import numpy as np
from numpy.typing import NDArray

from .errors import CudaError

LIBRARY = "libcuda.so.1"
HANDLE_BYTES = 64
BUFFER_ID, DEVICE_ORDINAL = 7, 9  # CU_POINTER_ATTRIBUTE_...
NO_TIMING = 2  # CU_EVENT_DISABLE_TIMING
NOT_READY = 600  # CUDA_ERROR_NOT_READY
DEFAULT_STREAM = 1  # CU_STREAM_LEGACY

_loaded: Dict[str, Driver] = {}
_lock = threading.Lock()


def load() -> Driver:
    """CudaError if there is no driver."""
    with _lock:
        if LIBRARY not in _loaded:
            _loaded[LIBRARY] = Driver(library())
        return _loaded[LIBRARY]


def library() -> Any:
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError as reason:
        raise CudaError(f"there is no CUDA driver: {reason}") from None


class On:
    """A `with` block in which this thread's calls go to this GPU."""

    def __init__(self, library: Driver, device: int) -> None:
        self._library, self._device = library, device

    def __enter__(self) -> None:
        self._library.push(self._device)

    def __exit__(self, *_: Any) -> None:
        self._library.pop()


class Driver:
    """Each method raises CudaError if the driver refuses a call, except in two cases: if it refuses cuEventQuery,
    has_passed() is True; if it refuses cuStreamQuery, is_idle() is False."""

    def __init__(self, functions: Any) -> None:
        self._functions = functions
        self._contexts: Dict[int, ctypes.c_void_p] = {}
        self._call("cuInit", 0)

    def _call(self, name: str, *arguments: Any) -> None:
        code = getattr(self._functions, name)(*arguments)
        if code:
            text = ctypes.c_char_p()
            self._functions.cuGetErrorName(code, ctypes.byref(text))
            raise CudaError(f"{name}: {(text.value or str(code).encode()).decode()}")

    def _context(self, device: int) -> ctypes.c_void_p:
        context = self._contexts.get(device)
        if context is None:
            number, context = ctypes.c_int(), ctypes.c_void_p()
            self._call("cuDeviceGet", ctypes.byref(number), device)
            self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), number)
            self._contexts[device] = context
        return context

    def push(self, device: int) -> None:
        self._call("cuCtxPushCurrent_v2", self._context(device))

    def pop(self) -> None:
        self._call("cuCtxPopCurrent_v2", ctypes.byref(ctypes.c_void_p()))

    def on(self, device: int) -> On:
        return On(self, device)

    # --- memory: the caller is `on` its GPU ---

    def allocate(self, size: int) -> int:
        address = ctypes.c_uint64()
        self._call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        return address.value

    def free(self, address: int) -> None:
        self._call("cuMemFree_v2", ctypes.c_uint64(address))

    def handle(self, address: int) -> bytes:
        """The handle of the whole allocation at the address."""
        handle = (ctypes.c_char * HANDLE_BYTES)()
        self._call("cuIpcGetMemHandle", ctypes.byref(handle), ctypes.c_uint64(address))
        return handle.raw

    def upload(self, address: int, array: NDArray[np.uint8]) -> None:
        """Copies, and waits: the driver itself may return once it has read the array."""
        self._call(
            "cuMemcpyHtoD_v2",
            ctypes.c_uint64(address),
            ctypes.c_void_p(array.ctypes.data),
            ctypes.c_size_t(array.nbytes),
        )
        self.wait(DEFAULT_STREAM)

    def download(self, array: NDArray[np.uint8], address: int) -> None:
        self._call(
            "cuMemcpyDtoH_v2",
            ctypes.c_void_p(array.ctypes.data),
            ctypes.c_uint64(address),
            ctypes.c_size_t(array.nbytes),
        )

    def copy(self, to: int, address: int, size: int) -> None:
        """Copies within the GPU, and waits."""
        self._call("cuMemcpyDtoD_v2", ctypes.c_uint64(to), ctypes.c_uint64(address), ctypes.c_size_t(size))
        self.wait(DEFAULT_STREAM)

    # --- pointers: any GPU ---

    def device_of(self, address: int) -> int:
        device = ctypes.c_int()
        self._call("cuPointerGetAttribute", ctypes.byref(device), DEVICE_ORDINAL, ctypes.c_uint64(address))
        return device.value

    def number_of(self, address: int) -> int:
        """No two allocations have the same number."""
        number = ctypes.c_uint64()
        self._call("cuPointerGetAttribute", ctypes.byref(number), BUFFER_ID, ctypes.c_uint64(address))
        return number.value

    def range_of(self, address: int) -> Tuple[int, int]:
        """The first address and the size of the allocation."""
        base, size = ctypes.c_uint64(), ctypes.c_size_t()
        self._call("cuMemGetAddressRange_v2", ctypes.byref(base), ctypes.byref(size), ctypes.c_uint64(address))
        return base.value, size.value

    # --- order ---

    def wait(self, stream: int) -> None:
        self._call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def is_idle(self, stream: int) -> bool:
        """True if all work is done. Unlike an event, the question gives the GPU no work."""
        capturing = ctypes.c_int()
        self._call("cuStreamIsCapturing", ctypes.c_void_p(stream), ctypes.byref(capturing))
        return not capturing.value and self._functions.cuStreamQuery(ctypes.c_void_p(stream)) == 0

    def event(self) -> ctypes.c_void_p:
        event = ctypes.c_void_p()
        self._call("cuEventCreate", ctypes.byref(event), NO_TIMING)
        return event

    def record(self, event: ctypes.c_void_p, stream: int) -> None:
        self._call("cuEventRecord", event, ctypes.c_void_p(stream))

    def has_passed(self, event: ctypes.c_void_p) -> bool:
        code = self._functions.cuEventQuery(event)
        return bool(code != NOT_READY)

    def wait_for(self, event: ctypes.c_void_p) -> None:
        self._call("cuEventSynchronize", event)

    def end(self, event: ctypes.c_void_p) -> None:
        self._call("cuEventDestroy_v2", event)
