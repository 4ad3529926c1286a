"""Blocks of GPU memory that a test shares by their handles: real blocks or, in the sanitizer builds, those of the
stand-in for a GPU. A block of the stand-in is a file in /dev/shm; its handle is the padded file name and the device."""

import base64
import ctypes
import itertools
import json
import os
import pathlib

from pinned import STAND_IN

REGIONS = "/v2/cudasharedmemory"
_numbers = itertools.count()


class _Driver:
    """The driver's functions, with the primary context of GPU 0."""

    def __init__(self):
        self.library = ctypes.CDLL("libcuda.so.1")
        context = ctypes.c_void_p()
        self("cuInit", 0)
        self("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.context = context

    def __call__(self, name, *arguments):
        code = getattr(self.library, name)(*arguments)
        if code != 0:
            raise OSError(f"{name}: CUDA error {code}")


class RealBlock:
    """A block of `size` bytes on GPU 0."""

    driver = None

    def __init__(self, size):
        RealBlock.driver = RealBlock.driver or _Driver()
        self.size, self.address = size, ctypes.c_uint64()
        self.call("cuMemAlloc_v2", ctypes.byref(self.address), ctypes.c_size_t(size))
        self.write(bytes(size))

    def call(self, name, *arguments):
        self.driver("cuCtxSetCurrent", self.driver.context)  # each thread has its own current context
        self.driver(name, *arguments)

    def at(self, offset):
        return ctypes.c_uint64(self.address.value + offset)

    def handle(self):
        handle = ctypes.create_string_buffer(64)
        self.call("cuIpcGetMemHandle", handle, self.address)
        return handle.raw

    def write(self, data, offset=0):
        self.call("cuMemcpyHtoD_v2", self.at(offset), ctypes.c_char_p(data), ctypes.c_size_t(len(data)))

    def read(self, size, offset=0):
        out = ctypes.create_string_buffer(max(size, 1))
        self.call("cuMemcpyDtoH_v2", out, self.at(offset), ctypes.c_size_t(size))
        return out.raw[:size]

    def free(self):
        if self.address:
            self.call("cuMemFree_v2", self.address)
        self.address = ctypes.c_uint64()


class StandInBlock:
    """A block of the stand-in."""

    def __init__(self, size, device=0):
        self.name = f"voxeld-block-{os.getpid()}-{next(_numbers)}"
        self.size, self.device = size, device
        self.path = pathlib.Path("/dev/shm", self.name)
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(self.file, size)

    def handle(self):
        return self.name.encode().ljust(63, b"\0") + bytes([self.device])

    def write(self, data, offset=0):
        os.pwrite(self.file, data, offset)

    def read(self, size, offset=0):
        return os.pread(self.file, size, offset)

    def free(self):
        if self.file >= 0:
            os.close(self.file)
            self.path.unlink()
        self.file = -1


Block = StandInBlock if STAND_IN else RealBlock


def register(daemon, handle, name, size, headers=None, source=None, **terms):
    """Registers the memory of the handle as a region. Returns the reply."""
    raw = {"b64": base64.b64encode(handle).decode()}
    terms = {"raw_handle": raw, "device_id": 0, "byte_size": size, **terms}
    return daemon.post(f"{REGIONS}/region/{name}/register", json.dumps(terms), headers, source=source)


if __name__ == "__main__":
    # A process that owns a block. It prints the handle and waits until the test kills it.
    import sys

    owned = Block(int(sys.argv[1]))
    owned.write(pathlib.Path(sys.argv[2]).read_bytes())
    print(owned.handle().hex(), flush=True)
    sys.stdin.read()
