"""Clients that hold memory, queue slots and connections of a daemon without using them, each at its own address."""

import select
import socket
import threading
import time

from client import MB, VOXELIZE, head, many_rows
from sources import bind_source


class Neighbour:
    """A client at its own address that begins exchanges, and trickles during each."""

    def __init__(self, daemon, number, kind):
        self.daemon, self.kind = daemon, kind
        self.source = f"127.0.{1 + number // 250}.{1 + number % 250}"
        self.socket = None

    def begin(self):
        self.socket = socket.socket()
        if self.kind.slow_reader:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        bind_source(self.socket, self.source)
        self.socket.settimeout(10)
        try:
            self.socket.connect(self.daemon.address)
            self.socket.sendall(self.kind.beginning)
        except OSError:
            self.end()

    def go_on(self):
        """Sends a few bytes, or begins again after an end."""
        if self.socket is None:
            return self.begin()
        try:
            if self.kind.trickle:
                self.socket.sendall(self.kind.trickle)
            if select.select([self.socket], [], [], 0)[0] and not self.reads_on(self.socket.recv(512)):
                self.end()
        except OSError:
            self.end()

    def reads_on(self, part):
        """Whether to read on after this part of an answer. A refusal ends the exchange: the next may find free
        memory."""
        return self.kind.slow_reader and part and not (part.startswith(b"HTTP/1.1 ") and b" 200 " not in part[:16])

    def end(self):
        if self.socket:
            self.socket.close()
        self.socket = None


class Kind:
    def __init__(self, beginning, trickle=b"", slow_reader=False):
        self.beginning, self.trickle, self.slow_reader = beginning, trickle, slow_reader


class Neighbours:
    """Many clients of one kind. with Neighbours(daemon, kind, 40): ..."""

    def __init__(self, daemon, kind, number):
        self.all = [Neighbour(daemon, i, kind) for i in range(number)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def _go_on(self):
        while not self._stop.is_set():
            for neighbour in self.all:
                neighbour.go_on()
            time.sleep(0.02)

    def __enter__(self):
        for neighbour in self.all:
            neighbour.begin()
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()
        for neighbour in self.all:
            neighbour.end()


def upload(path, length=4 * MB, beginning=b""):
    return head("POST", path, f"Content-Length: {length}") + beginning


def chunk(data):
    return b"%x\r\n" % len(data) + data + b"\r\n"


ANNOUNCED = Kind(upload(VOXELIZE))
# If memory is short, the daemon reserves 64 times the received bytes of such a large body.
SLOW = Kind(upload(VOXELIZE, beginning=bytes(65_536)), bytes(400))  # 20 KB/s
CHUNKED = Kind(head("POST", VOXELIZE, "Transfer-Encoding: chunked") + chunk(bytes(3 * MB)), chunk(bytes(400)))
SAMPLING = Kind(upload("/v1/fps?num_samples=8", beginning=bytes(65_536)), bytes(400))
SCAN = many_rows(300_000)  # 3.6 MB
READER = Kind(head("POST", "/v1/transform?num_features=3", f"Content-Length: {len(SCAN)}") + SCAN, slow_reader=True)
