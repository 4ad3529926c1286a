"""Shared memory: points and answers go through memory instead of a socket. The service must be on this machine and run
with --allow-shared-memory.

A slot is memory that the service has registered as a region. It carries one request at a time: first the points, then
the answer. Its file is sparse. Once the service has opened the memory, the slot's name is removed from /dev/shm."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import threading
import time
from typing import Iterable, Iterator, List, Optional, Set

import numpy as np
from numpy.typing import NDArray

from . import tensors
from .connection import Answer, Endpoint, Request
from .errors import BadAnswer, Error, Problem
from .transport import Transport

FOLDER = "/dev/shm"
PREFIX = "voxeld"  # of keys, if the service allows no keys; it refuses such a key and says why
POINTS_ROOM = 1 << 26  # bytes for points, at least
ANSWER_ROOM = 1 << 30  # bytes for the answer
REGIONS = ("points_region", "output_region")  # parameters
PATIENCE = 1.0  # seconds that close() takes to unregister regions, at most


class Unavailable(Exception):
    """Memory cannot be shared with this service. The message says why."""

    temporary = False  # whether it may be possible later


class Slot:
    def __init__(self, beginning: str, room: int) -> None:
        self.room = room
        self.name = f"py-{os.getpid()}-{secrets.token_hex(8)}"
        self.key = f"{beginning}-{self.name}"
        self.size = room + ANSWER_ROOM
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = open(os.open(self._path(), flags, 0o600), "r+b", buffering=0)
        os.ftruncate(self._file.fileno(), self.size)

    def _path(self) -> str:
        return os.path.join(FOLDER, self.key)

    def hide(self) -> None:
        """Removes the slot's name."""
        with contextlib.suppress(OSError):
            os.unlink(self._path())

    def close(self) -> None:
        self._file.close()

    def target(self, target: str, size: int, with_answer: bool) -> str:
        """The path and query of a request whose `size` bytes of points are in this slot. The answer goes here too if
        `with_answer`."""
        target += f"{'' if target.endswith('?') else '&'}points_region={self.name},0,{size}"
        return target + (f"&output_region={self.name},{self.room},{ANSWER_ROOM}" if with_answer else "")

    def write(self, pieces: Iterable[memoryview]) -> int:
        """Returns the number of bytes."""
        end = 0
        for piece in pieces:
            rest = piece.cast("B")
            while rest.nbytes:
                done = os.pwrite(self._file.fileno(), rest, end)
                end, rest = end + done, rest[done:]
        return end

    def read(self, size: int) -> NDArray[np.uint8]:
        """The `size` bytes of the answer."""
        answer = tensors.buffer(size)
        done = 0
        while done < size:
            more = os.preadv(self._file.fileno(), [answer[done:].data], self.room + done)
            if more <= 0:
                raise OSError("the shared memory has become shorter")
            done += more
        return answer


def _beginning_of(answer: Answer) -> str:
    try:
        keys = json.loads(answer.body.tobytes())["shared_memory"]["keys"]
        return str(keys[0]) if keys else PREFIX
    except (ValueError, KeyError, TypeError) as reason:
        raise BadAnswer(f"/v1/status does not say how keys begin: {reason}") from reason


class Slots:
    """The slots of a client. Any thread. A forked process makes its own slots."""

    def __init__(self, transport: Transport, endpoint: Endpoint, headers: dict[str, str]) -> None:
        if not endpoint.is_local():
            raise Unavailable(
                f"{endpoint.address[0]} is not this machine; shared memory needs localhost or a Unix socket"
            )
        if not os.path.isdir(FOLDER):
            raise Unavailable(f"this system has no {FOLDER}")
        self._transport, self._headers = transport, headers
        self._beginning: Optional[str] = None  # of keys
        self._forget()

    def _forget(self) -> None:
        self._idle: List[Slot] = []
        self._named: Set[Slot] = set()  # slots that still have names
        self._lock, self._process = threading.Lock(), os.getpid()

    def _take(self, size: int) -> Optional[Slot]:
        if self._process != os.getpid():
            self._forget()
        with self._lock:
            for slot in self._idle:
                if slot.room >= size:
                    self._idle.remove(slot)
                    return slot
        return None

    @contextlib.contextmanager
    def slot(self, size: int) -> Iterator[Slot]:
        """A slot for `size` bytes of points. It is not used again if the service may still write to it, or does not
        know it. Raises Unavailable if the service takes no regions."""
        slot = self._take(size) or self._new(size)
        try:
            yield slot
        except Problem as problem:
            if problem.parameter in REGIONS:
                slot.close()
            else:
                self._release(slot)
            raise
        except BaseException:
            slot.close()
            raise
        self._release(slot)

    def _release(self, slot: Slot) -> None:
        with self._lock:
            self._idle.append(slot)

    def _begin(self) -> str:
        """The prefix of keys that the service allows this client."""
        if self._beginning is None:
            request = Request("GET", "/v1/status", self._headers)
            self._beginning = self._transport.ask(request, _beginning_of, retries=0)
        return self._beginning

    def _new(self, size: int) -> Slot:
        try:
            beginning = self._begin()
            with self._lock:  # so that close() knows every name
                slot = Slot(beginning, max(size, POINTS_ROOM))
                self._named.add(slot)
        except OSError as reason:
            raise Unavailable(f"shared memory cannot be made: {reason}") from reason
        terms = json.dumps({"key": "/" + slot.key, "offset": 0, "byte_size": slot.size}).encode()
        try:
            self._post(f"region/{slot.name}/register", terms)
        except Problem as problem:
            slot.close()
            if problem.temporary:
                raise
            raise Unavailable(str(problem)) from problem
        except BaseException:
            slot.close()
            raise
        finally:
            slot.hide()
            with self._lock:
                self._named.discard(slot)
        return slot

    def _post(self, path: str, body: bytes, until: Optional[float] = None) -> None:
        request = Request("POST", f"/v2/systemsharedmemory/{path}", self._headers, [memoryview(body)])
        self._transport.ask(request, lambda answer: None, retries=0, until=until)

    def close(self) -> None:
        """Closes the idle slots, and unregisters them if the service answers soon."""
        with self._lock:
            slots, self._idle = self._idle, []
            for slot in self._named:  # another thread is registering this slot, and may never finish
                slot.hide()
        until = time.monotonic() + PATIENCE
        for slot in slots:
            slot.close()
            if self._process == os.getpid():
                with contextlib.suppress(Error, ValueError):
                    self._post(f"region/{slot.name}/unregister", b"", until)
