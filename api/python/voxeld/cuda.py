"""Memory of GPUs, handed over to the service by CUDA's IPC handles: points and tensors stay on the GPU. The service
must be on this machine and allow it (--allow-cuda-shared-memory).

A block is an allocation of the client, for the answer of one request at a time or a copy of points. The client
registers a block as a region of the service when a request first names it. A result holds its block until nothing uses
its tensors. A lone cloud is read where it is: its allocation is registered too. If this is not possible, or if there
are several clouds, the client copies the points into a block."""

from __future__ import annotations

import base64
import collections
import contextlib
import json
import os
import secrets
import sys
import threading
import time
from typing import Any, Callable, Deque, Dict, List, Mapping, Optional, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from . import driver, reading
from .connection import Answer, Endpoint, Request
from .dlpack import CudaArray, CudaTensor
from .errors import BadAnswer, CudaError, Error, Problem
from .shared import PATIENCE, Unavailable
from .tensors import DTYPES
from .transport import Transport

SMALLEST_BLOCK = 1 << 23  # bytes
PAGE = 1 << 21  # blocks are whole pages of the GPU
ALIGNMENT = 256  # of tensors that the client uploads
MOST_GUESTS = 32  # others' allocations that a client remembers
MOST_ATTEMPTS = 5  # of a request: the service may have lost both regions, and the answer may need more room
POINTS, ANSWER = "points_region", "output_region"
BEGINNING, MIDDLE = '{"output_region":', ',"metadata":'  # of an answer's JSON


_decoder = json.JSONDecoder()


def device_of(out: str) -> Optional[int]:
    """None stands for the GPU that has the points."""
    word, colon, number = out.partition(":")
    if word != "cuda" or (colon and not number.isdecimal()):
        raise ValueError(f'out is {out!r}; allowed: "cuda", or "cuda:1" and the like')
    return int(number) if colon else None


class Block:
    def __init__(self, library: driver.Driver, device: int, size: int) -> None:
        self.device, self.size = device, size
        self.region: Optional[str] = None
        with library.on(device):
            self.address = library.allocate(size)
            self.number = library.number_of(self.address)
            self.event = library.event()


class Lease:
    """A block in use, which goes back when nothing refers to the lease."""

    def __init__(self, block: Block, release: Callable[[Block], None]) -> None:
        self.block = block
        self.release: Optional[Callable[[Block], None]] = release  # None: the block is not used again

    def __del__(self) -> None:
        if self.release:
            self.release(self.block)


class Memory:
    """The blocks of a client, and the service's regions: these blocks, and allocations of other owners. Threads may
    share it."""

    def __init__(self, transport: Transport, endpoint: Endpoint, headers: Dict[str, str]) -> None:
        self._transport, self._endpoint, self._headers = transport, endpoint, headers
        self._driver: Optional[driver.Driver] = None
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._idle: Deque[Block] = collections.deque()  # no lock: _release() may run while its thread holds the lock
        self._mine: Dict[int, Block] = {}  # by number of the allocation
        # Others' allocations, by number: first address and region. No region: the points are copied.
        self._guests: Dict[int, Tuple[int, Optional[str]]] = {}
        self._room = SMALLEST_BLOCK  # for an answer
        self._closed = False

    # --- blocks ---

    def driver(self) -> driver.Driver:
        if self._process != os.getpid():
            raise CudaError("CUDA does not work in a process made by fork; make a client in a spawned process")
        if self._driver is None:
            self._driver = driver.load()
        return self._driver

    def lease(self, device: int, size: int) -> Lease:
        """At least `size` bytes that nothing uses, not even a kernel."""
        return Lease(self._take(device, size) or self._new(device, size), self._release)

    def _take(self, device: int, size: int) -> Optional[Block]:
        library = self.driver()
        for _ in range(len(self._idle)):
            try:
                block = self._idle.popleft()
            except IndexError:  # another thread has taken it
                return None
            if block.device == device and block.size >= size and library.has_passed(block.event):
                return block
            self._idle.append(block)
        return None

    def _new(self, device: int, size: int) -> Block:
        size = -(-size // PAGE) * PAGE
        try:
            block = Block(self.driver(), device, size)
        except CudaError:  # the GPU is full: idle blocks make room
            self._trim()
            block = Block(self.driver(), device, size)
        with self._lock:
            self._mine[block.number] = block
        return block

    def _release(self, block: Block) -> None:
        """Called wherever a result ends, maybe within another method of this object. Records an event only if the
        stream has work: an event makes the GPU change to this process and back, and the service waits 0.1 ms."""
        try:
            if self._process != os.getpid():
                return
            library = self.driver()
            with library.on(block.device):
                stream = current_stream(block.device)
                if not library.is_idle(stream):
                    library.record(block.event, stream)
            if self._closed:
                self._free(block)
            else:
                self._idle.append(block)
        except Exception:  # the driver has ended before this process
            pass

    def _trim(self) -> None:
        while self._idle:
            with contextlib.suppress(IndexError):
                self._end(self._idle.popleft())

    def _end(self, block: Block) -> None:
        """Frees the block. It is not used again, so what the service may still write reaches no other tensor."""
        if block.region is not None:
            self._unregister(block.region, time.monotonic() + PATIENCE)
        self._free(block)

    def _free(self, block: Block) -> None:
        library = self.driver()
        self._mine.pop(block.number, None)
        with library.on(block.device):
            library.wait_for(block.event)
            library.end(block.event)
            library.free(block.address)

    def close(self) -> None:
        """Ends the idle blocks, and unregisters all regions if the service answers soon. Tensors stay valid."""
        self._closed = True
        until = time.monotonic() + PATIENCE
        if self._driver is None or self._process != os.getpid():
            return
        with self._lock:
            regions = [region for _, region in self._guests.values()]
            self._guests.clear()
        for block in list(self._mine.values()):
            regions.append(block.region)
            block.region = None
        self._unregister_all(regions, until)
        self._trim()

    # --- regions ---

    def _register(self, address: int, size: int, device: int) -> str:
        """Returns the name of the region. The allocation begins at the address."""
        library = self.driver()
        with library.on(device):
            handle = library.handle(address)
        name = f"py-{os.getpid()}-{secrets.token_hex(8)}"
        terms = {"raw_handle": {"b64": base64.b64encode(handle).decode()}, "device_id": device, "byte_size": size}
        try:
            self._post(f"region/{name}/register", json.dumps(terms).encode())
        except Problem as problem:
            reason = Unavailable(str(problem))
            reason.temporary = problem.temporary
            raise reason from problem
        return name

    def _unregister_all(self, names: List[Optional[str]], until: float) -> None:
        for name in names:
            if name is not None:
                self._unregister(name, until)

    def _unregister(self, name: str, until: float) -> None:
        with contextlib.suppress(Error, ValueError):
            self._post(f"region/{name}/unregister", b"", until)

    def _post(self, path: str, body: bytes, until: Optional[float] = None) -> None:
        request = Request("POST", f"/v2/cudasharedmemory/{path}", self._headers, [memoryview(body)])
        self._transport.ask(request, lambda answer: None, retries=0, until=until)

    def region_of(self, block: Block) -> str:
        if block.region is None:
            if not self._endpoint.is_local():
                raise Unavailable(
                    f"{self._endpoint.address[0]} is not this machine; shared memory needs localhost or a Unix socket"
                )
            try:
                name = self._register(block.address, block.size, block.device)
            except CudaError as reason:
                raise Unavailable(str(reason)) from reason
            with self._lock:
                first = block.region = block.region or name
            if first != name:  # another thread was faster
                self._unregister(name, time.monotonic() + PATIENCE)
            return first
        return block.region

    def _part_of(self, points: CudaArray) -> Optional[str]:
        """None if their memory cannot be handed over."""
        library = self.driver()
        try:
            number = library.number_of(points.address)
            block = self._mine.get(number)
            with self._lock:
                base, region = self._guests.get(number, (0, None))
            if block is not None:
                base, region = block.address, self.region_of(block)
            elif not base:
                base, size = library.range_of(points.address)
                region = self._guest(number, base, size, points.device)
        except CudaError:  # memory of a pool
            return None
        return region and f"{region},{points.address - base},{points.nbytes}"

    def _guest(self, number: int, base: int, size: int, device: int) -> Optional[str]:
        """Registers an allocation of another owner. Returns its region; None if it cannot be registered."""
        region = None
        if self._endpoint.is_local():
            try:
                region = self._register(base, size, device)
            except CudaError:  # no handle, as of torch's expandable segments
                pass
            except Unavailable as reason:
                if reason.temporary:
                    return None
        return self._remember(number, (base, region))[1]

    def _remember(self, number: int, guest: Tuple[int, Optional[str]]) -> Tuple[int, Optional[str]]:
        """Returns the guest or, if another thread was faster, that thread's guest. Drops the guests at the same
        address, whose allocations are gone; else, if there are MOST_GUESTS, the oldest."""
        with self._lock:
            first = self._guests.get(number)
            gone = [] if first else [other for other, known in self._guests.items() if known[0] == guest[0]]
            if not first and len(self._guests) >= MOST_GUESTS and not gone:
                gone = [next(iter(self._guests))]
            dropped = [guest] if first else [self._guests.pop(other) for other in gone]
            kept = self._guests.setdefault(number, guest)
        self._unregister_all([region for _, region in dropped], time.monotonic() + PATIENCE)
        return kept

    def _forget(self, region: str) -> None:
        """Forgets a region that the service has lost: its memory is registered again at its next use."""
        with self._lock:
            for number, (_, known) in list(self._guests.items()):
                if known == region:
                    del self._guests[number]
            for block in list(self._mine.values()):
                if block.region == region:
                    block.region = None
        self._unregister(region, time.monotonic() + PATIENCE)

    # --- requests ---

    def send(
        self,
        request: Request,
        clouds: Optional[List[CudaArray]],
        device: int,
        with_answer: bool,
        ask: Callable[[Request], Answer],
    ) -> Tuple[Dict[str, CudaTensor], Union[str, Dict[str, Any]]]:
        """The tensors, and the metadata: if `with_answer`, as JSON that is not parsed yet. Unavailable if memory cannot
        be handed over."""
        for attempt in range(MOST_ATTEMPTS):
            answered = self.lease(device, self._room) if with_answer else None
            named: Dict[str, str] = {}  # parts of regions, by the parameters that name them
            try:
                part, gathered = self._points(clouds, device)
                if part is not None:
                    named[POINTS] = part
                if answered is not None:
                    named[ANSWER] = f"{self.region_of(answered.block)},0,{answered.block.size}"
                parts = "".join([f"&{parameter}={place}" for parameter, place in named.items()])
                target = request.target + (parts[1:] if request.target.endswith("?") else parts)
                answer = ask(Request(request.method, target, request.headers, request.body))
                del gathered  # the service has read the points
                return _read(answer, answered)
            except Problem as problem:
                if problem.parameter not in named or attempt == MOST_ATTEMPTS - 1:
                    raise
                needed = _room_of(problem)
                if needed is None:
                    self._forget(named[problem.parameter].partition(",")[0])
                else:
                    self._room = max(self._room, needed + needed // 4)
            except Unavailable:
                raise
            except BaseException:  # the service may still write
                if answered is not None:
                    answered.release = None
                    self._end(answered.block)
                raise
        raise AssertionError("not reached")

    def _points(self, clouds: Optional[List[CudaArray]], device: int) -> Tuple[Optional[str], Optional[Lease]]:
        """The part of a region with the points, and the lease of a copy, if they had to be copied. (None, None) without
        points."""
        size = sum([cloud.nbytes for cloud in clouds or ()])
        if not clouds or size == 0:
            return None, None
        self.wait_for(clouds)
        part = self._part_of(clouds[0]) if len(clouds) == 1 else None
        if part is not None:
            return part, None
        gathered = self.gather(clouds, device, size)
        return f"{self.region_of(gathered.block)},0,{size}", gathered

    def wait_for(self, clouds: List[CudaArray]) -> None:
        library = self.driver()
        for device, stream in {(cloud.device, cloud.stream) for cloud in clouds if cloud.nbytes}:
            if stream is not None:
                with library.on(device):
                    library.wait(stream)

    def gather(self, clouds: List[CudaArray], device: int, size: int) -> Lease:
        """Copies of the clouds, one after the other."""
        lease, library, end = self.lease(device, size), self.driver(), 0
        with library.on(device):
            for cloud in clouds:
                if cloud.nbytes:
                    library.copy(lease.block.address + end, cloud.address, cloud.nbytes)
                end += cloud.nbytes
        return lease

    # --- through the host ---

    def download(self, clouds: List[CudaArray]) -> List[NDArray[Any]]:
        self.wait_for(clouds)
        return [CudaTensor(one.address, one.shape, one.dtype, one.device, one).numpy() for one in clouds]

    def upload(self, tensors: Mapping[str, NDArray[Any]], device: int) -> Dict[str, CudaTensor]:
        ends = np.cumsum([0] + [-(-tensor.nbytes // ALIGNMENT) * ALIGNMENT for tensor in tensors.values()])
        lease, library = self.lease(device, max(int(ends[-1]), 1)), self.driver()
        made = {}
        with library.on(device):
            for end, (name, tensor) in zip(ends.tolist(), tensors.items()):
                address = lease.block.address + end
                if tensor.nbytes:
                    library.upload(address, np.ascontiguousarray(tensor).reshape(-1).view(np.uint8))
                made[name] = CudaTensor(address, tensor.shape, tensor.dtype, device, lease)
        return made


def current_stream(device: int) -> int:
    """torch's current stream, if torch is there."""
    torch: Any = sys.modules.get("torch")
    if torch is not None and hasattr(torch, "cuda") and torch.cuda.is_initialized():
        return int(torch.cuda.current_stream(device).cuda_stream) or driver.DEFAULT_STREAM
    return driver.DEFAULT_STREAM


def _room_of(problem: Problem) -> Optional[int]:
    """The bytes that an answer needs, if it was larger than its part of a region."""
    words = problem.detail.split()
    if problem.parameter != ANSWER or "part" not in words or "bytes;" not in words:
        return None
    number = words[words.index("bytes;") - 1]
    return int(number) if number.isdecimal() else None


def _read(answer: Answer, lease: Optional[Lease]) -> Tuple[Dict[str, CudaTensor], Union[str, Dict[str, Any]]]:
    if lease is None:
        return {}, reading.document(answer)
    reading.expect(answer, reading.JSON)
    try:
        text = str(answer.body.data, "utf-8")
        told, end = _decoder.raw_decode(text, text.index(BEGINNING) + len(BEGINNING))
        if not text.startswith(MIDDLE, end):
            raise ValueError("there are no metadata")
        found = {name: _tensor(place, lease) for name, place in told["tensors"].items()}
    except (KeyError, TypeError, AttributeError, ValueError, OverflowError, RecursionError) as reason:
        raise BadAnswer(f"the answer does not say what is in the memory of the GPU: {reason}") from reason
    return found, text[end + len(MIDDLE) : text.rindex("}")]


def _tensor(place: Mapping[str, Any], lease: Lease) -> CudaTensor:
    block, offset = lease.block, int(place["offset"])
    shape = tuple(map(int, place["shape"]))
    tensor = CudaTensor(block.address + offset, shape, DTYPES[place["dtype"]], block.device, lease)
    if offset < 0 or min(shape, default=0) < 0 or offset + tensor.nbytes > block.size:
        raise ValueError("a tensor is not in its region")
    return tensor
