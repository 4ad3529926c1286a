"""A CUDA driver without a GPU, for tests of clients that hand over GPU memory. An allocation is a file in /dev/shm,
mapped into this process. Its handle is the padded name of the file, with the number of the GPU in the last byte.

Bridge is a proxy between a client and a daemon without a GPU. It registers the files as system shared memory, so the
daemon itself reads and writes them."""

import base64
import contextlib
import ctypes
import http.client
import http.server
import itertools
import json
import mmap
import os
import threading
import unittest.mock

import numpy as np

from voxeld import driver

PREFIX = "voxeld-fake-cuda"
INVALID, NO_MEMORY, NOT_READY = 1, 2, 600
NAMES = {INVALID: b"CUDA_ERROR_INVALID_VALUE", NO_MEMORY: b"CUDA_ERROR_OUT_OF_MEMORY"}


def _value(argument):
    return argument.value if hasattr(argument, "value") else argument


class Allocation:
    def __init__(self, number, size, device, handed):
        self.number, self.size, self.device, self.handed = number, size, device, handed
        self.name = f"{PREFIX}-{os.getpid()}-{number}"
        self.path = f"/dev/shm/{self.name}"
        with open(self.path, "x+b") as file:
            os.ftruncate(file.fileno(), size)
            self.memory = mmap.mmap(file.fileno(), size)
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self.memory))

    def handle(self):
        return self.name.encode().ljust(63, b"\0") + bytes([self.device])

    def close(self):
        os.unlink(self.path)  # the mapping stays, since an array may still point to it


class Library:
    """The functions of libcuda.so.1 that voxeld/driver.py calls."""

    def __init__(self, devices=2):
        self.devices, self.device, self.stack = devices, None, []
        self.allocations, self.numbers = {}, itertools.count(1)
        self.room = 1 << 40
        # busy: events that are not complete; working: streams with unfinished work; captured: streams under capture.
        self.calls, self.busy, self.working, self.captured = [], set(), set(), set()

    # --- for tests ---

    def allocate(self, size, device=0, handed=True):
        """`handed`: whether the driver gives a handle of this memory."""
        made = Allocation(next(self.numbers), size, device, handed)
        self.allocations[made.address] = made
        return made

    def find(self, address):
        for made in list(self.allocations.values()):
            if made.address <= address < made.address + made.size:
                return made
        return None

    def close(self):
        for made in list(self.allocations.values()):
            made.close()
        self.allocations.clear()

    # --- the driver's functions ---

    def __getattr__(self, name):
        if not name.startswith("cu"):
            raise AttributeError(name)
        return lambda *arguments: self.call(name, [getattr(one, "_obj", one) for one in arguments])

    def call(self, name, arguments):
        self.calls.append(name)
        return getattr(self, "_" + name.removesuffix("_v2"))(*arguments) or 0

    def _cuInit(self, flags):
        pass

    def _cuGetErrorName(self, code, text):
        text.value = NAMES.get(_value(code), b"CUDA_ERROR_UNKNOWN")

    def _cuDeviceGet(self, number, ordinal):
        number.value = ordinal
        return 0 if ordinal < self.devices else INVALID

    def _cuDevicePrimaryCtxRetain(self, context, device):
        context.value = 1000 + _value(device)

    def _cuCtxPushCurrent(self, context):
        self.stack.append(context.value - 1000)

    def _cuCtxPopCurrent(self, context):
        self.stack.pop()

    def _cuMemAlloc(self, address, size):
        if sum(made.size for made in list(self.allocations.values())) + size.value > self.room:
            return NO_MEMORY
        address.value = self.allocate(size.value, self.stack[-1]).address
        return 0

    def _cuMemFree(self, address):
        self.allocations.pop(address.value).close()

    def _cuIpcGetMemHandle(self, handle, address):
        made = self.find(address.value)
        if made is None or not made.handed:
            return INVALID
        handle.raw = made.handle()
        return 0

    def _cuMemGetAddressRange(self, base, size, address):
        made = self.find(address.value)
        base.value, size.value = (made.address, made.size) if made else (0, 0)
        return 0 if made else INVALID

    def _cuPointerGetAttribute(self, out, attribute, address):
        made = self.find(address.value)
        if made is None:
            return INVALID
        out.value = made.number if attribute == driver.BUFFER_ID else made.device
        return 0

    def _copy(self, to, source, size):
        ctypes.memmove(to.value, source.value, size.value)

    _cuMemcpyHtoD = _cuMemcpyDtoH = _cuMemcpyDtoD = _copy

    def _cuStreamSynchronize(self, stream):
        pass

    def _cuStreamIsCapturing(self, stream, status):
        status.value = stream.value in self.captured

    def _cuStreamQuery(self, stream):
        assert stream.value not in self.captured  # would end the capture
        return NOT_READY if stream.value in self.working else 0

    def _cuEventCreate(self, event, flags):
        event.value = next(self.numbers)

    def _cuEventRecord(self, event, stream):
        pass

    def _cuEventQuery(self, event):
        return NOT_READY if event.value in self.busy else 0

    def _cuEventSynchronize(self, event):
        pass

    def _cuEventDestroy(self, event):
        pass


@contextlib.contextmanager
def installed(**options):
    """The fake as the driver of this process."""
    library = Library(**options)
    with unittest.mock.patch.object(driver, "library", lambda: library):
        with unittest.mock.patch.dict(driver._loaded, clear=True):
            try:
                yield library
            finally:
                library.close()


class Array:
    def __init__(self, library, values, device=0, handed=True, offset=0, **told):
        values = np.ascontiguousarray(values)
        self.allocation = library.allocate(max(offset + values.nbytes, 1), device, handed)
        self.shape, self.dtype = values.shape, values.dtype
        address = self.allocation.address + offset
        ctypes.memmove(address, values.ctypes.data, values.nbytes)
        data = (address if values.size else 0, False)
        interface = {"shape": self.shape, "typestr": self.dtype.str, "data": data, "version": 3, "stream": None}
        self.__cuda_array_interface__ = {**interface, **told}


class Bridge:
    """A proxy in front of a daemon that allows shared memory. If `refusal` is set, to (status, kind, parameter,
    detail), the proxy answers registrations with this problem."""

    def __init__(self, daemon):
        self.daemon, self.refusal, self.registered, self.targets = daemon, None, {}, []
        bridge = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self):
                bridge.forward(self)

            do_GET = do_DELETE = do_POST

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def forward(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.targets.append(handler.path)
        path = handler.path.replace("/v2/cudasharedmemory/", "/v2/systemsharedmemory/")
        route = path.partition("?")[0]
        if path != handler.path and route.endswith("/register"):
            if self.refusal:
                return self.refuse(handler)
            told = json.loads(body)
            name = base64.b64decode(told["raw_handle"]["b64"])[:-1].rstrip(b"\0").decode()
            self.registered[route.split("/")[-2]] = name
            body = json.dumps({"key": "/" + name, "byte_size": told["byte_size"]}).encode()
        connection = http.client.HTTPConnection(*self.daemon.address)
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in ("host", "connection")}
        headers["Content-Length"] = str(len(body))
        connection.request(handler.command, path, body, headers)
        reply = connection.getresponse()
        self.answer(handler, reply.status, reply.headers, reply.read())
        connection.close()

    def refuse(self, handler):
        status, kind, parameter, detail = self.refusal
        told = {"type": f"urn:voxeld:problem:{kind}", "title": kind, "detail": detail, "parameter": parameter}
        self.answer(handler, status, {"Content-Type": "application/json"}, json.dumps(told).encode())

    @staticmethod
    def answer(handler, status, headers, body):
        handler.send_response(status)
        for name, value in headers.items():
            if name.lower() not in ("content-length", "connection", "transfer-encoding", "date", "server"):
                handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
