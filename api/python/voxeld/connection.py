"""A connection to the service, which carries one request at a time. transport.py keeps the idle connections.

This module parses plain heads of answers itself: http.client, which parses the others, takes longer for a head than the
service for a small request. It also reads and writes the socket itself, so that every wait ends after `timeout` seconds
without progress, or at the deadline of the request."""

from __future__ import annotations

import contextlib
import http.client
import io
import itertools
import re
import select
import socket
import ssl
import time
import urllib.parse
from dataclasses import dataclass, field
from typing import Any, Dict, Iterable, Iterator, Optional, Tuple

import numpy as np
from numpy.typing import NDArray

from . import tensors
from .encodings import GZIP, HEADER, LARGEST_ANSWER, ZSTD, Decoding
from .errors import BadAnswer, media_type

READ_AHEAD = 1 << 16  # bytes; the rest of a body is received straight into place
PIECE = 1 << 20  # bytes of a piece of an answer without a length
UNIX = "unix:"
LOOPBACK = ("localhost", "127.", "::1")
# A head of an answer with a body. Others, such as folded or chunked ones, are left to http.client.
PLAIN_HEAD = re.compile(rb"HTTP/1\.1 ([2-5]\d\d) ([ -~]*)\r\n((?:[A-Za-z0-9-]+:[ -~]*\r\n)+)\r\n")
PLAIN_SIZE = 1 << 12  # the longest plain head
LENGTH = "content-length"
ODD_HEADERS = ("transfer-encoding", "connection")  # http.client reads such a head, unless the value is keep-alive
SWITCHING_PROTOCOLS, WITHOUT_BODY = 101, (204, 304)
PRINTABLE, WITHOUT_BLANKS = re.compile(r"[\x20-\x7e]*"), re.compile(r"[\x21-\x7e]+")
DIGITS = re.compile("[0-9]+")


@dataclass(frozen=True)
class Endpoint:
    url: str  # as given
    host: str  # as in the Host header
    address: Any  # for the socket: (host, port), or a path
    tls: Optional[ssl.SSLContext]
    prefix: str = ""  # before all paths

    @staticmethod
    def parse(url: str, tls: Optional[ssl.SSLContext]) -> Endpoint:
        """http://HOST[:PORT][/PREFIX], https://... or unix:PATH. `tls` is only for https."""
        if url.startswith(UNIX):
            if tls is not None:
                raise ValueError("TLS is for https://")
            return Endpoint(url, "localhost", url[len(UNIX) :], None)
        parts = urllib.parse.urlsplit(url)
        secure = parts.scheme == "https"
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.port == 0:
            raise ValueError(f"{url!r} is not http://HOST:PORT, https://HOST:PORT or unix:PATH")
        parts.hostname.encode("idna")  # UnicodeError, a ValueError, if it cannot be the name of a host
        if "@" in parts.netloc or parts.query or parts.fragment:
            raise ValueError("the URL has more than a host, a port and a path")
        if tls is not None and not secure:
            raise ValueError("TLS is for https://")
        address = (parts.hostname, parts.port or (443 if secure else 80))
        context = (tls or ssl.create_default_context()) if secure else None
        return Endpoint(url, parts.netloc, address, context, parts.path.rstrip("/"))

    def is_local(self) -> bool:
        return isinstance(self.address, str) or self.address[0].startswith(LOOPBACK)

    def hint(self) -> str:
        if not self.is_local() or self.tls:
            return "is the URL right, and does the service run?"
        if isinstance(self.address, str):
            listen = self.url
        else:
            host = "127.0.0.1" if self.address[0] == "localhost" else self.address[0]
            listen = f"[{host}]:{self.address[1]}" if ":" in host else f"{host}:{self.address[1]}"
        return f"`voxeld --listen {listen}` starts a service, and voxeld.Server() one of your own"

    def connect(self, seconds: float) -> socket.socket:
        if isinstance(self.address, str):
            plain = socket.socket(socket.AF_UNIX)
            with _closing_on_error(plain):
                plain.settimeout(seconds)
                plain.connect(self.address)
                return plain
        plain = socket.create_connection(self.address, seconds)
        with _closing_on_error(plain):
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self.tls.wrap_socket(plain, server_hostname=self.address[0]) if self.tls else plain


@contextlib.contextmanager
def _closing_on_error(plain: socket.socket) -> Any:
    try:
        yield
    except BaseException:
        plain.close()
        raise


@dataclass(frozen=True)
class Request:
    method: str
    target: str  # path and query
    headers: Dict[str, str] = field(default_factory=dict)
    body: Optional[Iterable[memoryview]] = None  # pieces, sent unchanged; in HTTP chunks if this is not a list

    def head(self, endpoint: Endpoint) -> bytes:
        headers = {"Host": endpoint.host, **self.headers}
        if self.body is not None:
            headers.setdefault("Content-Type", "application/octet-stream")
            if isinstance(self.body, list):
                headers["Content-Length"] = str(sum(piece.nbytes for piece in self.body))
            else:
                headers["Transfer-Encoding"] = "chunked"
        if not PRINTABLE.fullmatch("".join(headers.values())):  # the message shows no value, which may be a token
            odd = [name for name, value in headers.items() if not PRINTABLE.fullmatch(value)]
            raise ValueError(f"the header {odd[0]} has a character that is not printable ASCII")
        target = endpoint.prefix + self.target
        if not WITHOUT_BLANKS.fullmatch(target):
            raise ValueError(f"{target!r} is not a path of a URL")
        lines = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        return f"{self.method} {target} HTTP/1.1\r\n{lines}\r\n".encode("ascii")

    def pieces(self, endpoint: Endpoint) -> Iterator[memoryview]:
        yield memoryview(self.head(endpoint))
        if isinstance(self.body, list):
            yield from self.body
        elif self.body is not None:
            for piece in self.body:  # no piece is empty: an empty chunk would end the body
                yield memoryview(b"%x\r\n%b\r\n" % (piece.nbytes, bytes(piece)))
            yield memoryview(b"0\r\n\r\n")


@dataclass(frozen=True)
class Answer:
    status: int
    reason: str
    headers: Dict[str, str]  # by their names in lower case; of equal names, the first header
    body: NDArray[np.uint8]
    decoding: Optional[Decoding] = None  # has already taken all bytes of the body

    def media_type(self) -> str:
        return media_type(self.headers)


class Connection:
    def __init__(self, endpoint: Endpoint, timeout: float, until: float) -> None:
        self._endpoint, self._timeout, self._until = endpoint, timeout, until
        self._socket = endpoint.connect(self._patience())
        self._incoming = select.poll()
        self._incoming.register(self._socket, select.POLLIN)
        self._room = bytearray(READ_AHEAD)
        self._received = memoryview(b"")  # bytes in _room that http.client has still to read
        self._reader = _Reader(_Stream(self), READ_AHEAD)
        self._peeking = False
        self._begun = False  # the reader has the beginning of the answer
        self._ended = False  # the service sends no more bytes

    def exchange(self, request: Request, until: float) -> Tuple[Answer, bool]:
        """The complete answer, and whether the connection may be used again. Raises OSError if no complete answer came
        by `until` (of time.monotonic), and BadAnswer if the answer is not HTTP; the caller must then close the
        connection."""
        self._until = until
        sent = self._send(request)
        if request.method != "HEAD" and not self._begun:
            answer = self._read_plain("Accept-Encoding" in request.headers)
            if answer is not None:
                return answer, sent and not self._has_more()
        try:
            response = self._read_head(request.method)
            body = _read(response)
        except http.client.HTTPException as reason:
            if self._ended:
                raise ConnectionAbortedError("the connection ended before the answer did") from reason
            raise BadAnswer(f"the answer is not HTTP: {type(reason).__name__}: {reason}") from reason
        headers: Dict[str, str] = {}
        for name, value in response.headers.items():
            headers.setdefault(name.lower(), value)
        answer = Answer(response.status, response.reason, headers, body)
        return answer, sent and not response.will_close and not self._peek()

    def _read_plain(self, decodes: bool) -> Optional[Answer]:
        """The answer, decoded as it arrives if `decodes`. None if its head is not plain or has not come in one piece;
        then http.client reads it all."""
        got = self.receive_into(self._room)
        self._received = memoryview(self._room)[:got]
        match = PLAIN_HEAD.match(bytes(self._received[:PLAIN_SIZE]))
        if match is None:
            return None
        status, reason, lines = match.groups()
        headers: Dict[str, str] = {}
        for line in lines.decode("ascii").split("\r\n")[:-1]:
            name, _, value = line.partition(":")
            name, value = name.lower(), value.strip(" ")
            if name == LENGTH and name in headers or name in ODD_HEADERS and value.lower() != "keep-alive":
                return None
            headers.setdefault(name, value)
        length = headers.get(LENGTH, "")
        if not length.isdigit() or int(status) in WITHOUT_BODY:
            return None
        body = _room(int(length))
        coding = headers.get(HEADER.lower(), "")
        # An answer that refuses is read as it is.
        decoding = Decoding(coding) if decodes and coding in (GZIP, ZSTD) and 200 <= int(status) < 300 else None
        room = body.data
        begun = self._received[match.end() : match.end() + len(room)]
        self._received = self._received[match.end() + len(begun) :]
        room[: len(begun)] = begun
        if decoding:
            decoding.take(begun)
        room = room[len(begun) :]
        while room:
            got = self.receive_into(room)
            if not got:
                raise ConnectionAbortedError("the connection ended before the answer did")
            if decoding:
                decoding.take(room[:got])
            room = room[got:]
        return Answer(int(status), reason.decode("ascii"), headers, body, decoding)

    def _read_head(self, method: str) -> http.client.HTTPResponse:
        """The answer after interim answers, with its body still to read."""
        while True:
            response = http.client.HTTPResponse(self, method=method)  # type: ignore[arg-type]
            response.begin()
            if self._ended:  # http.client takes this for the end of the headers
                raise http.client.IncompleteRead(b"")
            if response.status == SWITCHING_PROTOCOLS:
                raise BadAnswer("the answer changes the protocol")
            if response.status >= 200:
                break
        lengths = {length.strip() for length in response.headers.get_all(LENGTH, [])}
        if not response.chunked and not (len(lengths) < 2 and all(map(DIGITS.fullmatch, lengths))):
            raise BadAnswer("the length of the answer is not one number")
        return response

    def is_stale(self) -> bool:
        """True if the service has closed the connection, or has sent bytes without a request."""
        return bool(self._incoming.poll(0))

    def close(self) -> None:
        self._socket.close()

    def makefile(self, mode: str) -> io.BufferedReader:
        return self._reader

    def receive_into(self, room: Any) -> Optional[int]:
        """Like io.RawIOBase.readinto. While peeking, does not wait, and returns None if nothing has come."""
        if self._received:
            got = min(len(self._received), len(room))
            room[:got], self._received = self._received[:got], self._received[got:]
            return got
        if not self._peeking:
            self._socket.settimeout(self._patience())
            got = self._socket.recv_into(room)
            self._ended = got == 0
            return got
        self._socket.settimeout(0)
        try:
            got = self._socket.recv_into(room)
        except OSError:  # nothing has come (BlockingIOError, ssl.SSLWantReadError), or the connection broke
            return None
        self._ended = got == 0
        return got

    def _send(self, request: Request) -> bool:
        """False if the service answered before everything was sent."""
        watched = select.POLLIN | select.POLLOUT
        self._begun = False
        try:
            pieces = request.pieces(self._endpoint)
            head = next(pieces)  # usually the socket takes the whole head at once
            for piece in itertools.chain([head[self._send_some(head) :]], pieces):
                while piece:
                    events = self._wait(watched)
                    if events & select.POLLIN:
                        start = self._peek()  # empty if TLS alone had something to read
                        self._begun = bool(start)
                        if start[9:10] not in (b"", b"1"):  # as in "HTTP/1.1 413"; 1xx is not the answer
                            return False
                        if start or self._ended:
                            watched = select.POLLOUT
                    if events & ~select.POLLIN:
                        piece = piece[self._send_some(piece) :]
            return True
        except OSError:
            if not self.is_stale():
                raise
            return False

    def _wait(self, watched: int) -> int:
        """Returns the watched events that have come, or an error event."""
        poll = select.poll()
        poll.register(self._socket, watched)
        events = poll.poll(self._patience() * 1000)
        if not events:
            raise TimeoutError("the service takes no more of the request")
        return events[0][1]

    def _send_some(self, piece: memoryview) -> int:
        self._socket.settimeout(0)
        try:
            return self._socket.send(piece)
        except (BlockingIOError, ssl.SSLWantWriteError, ssl.SSLWantReadError):
            return 0

    def _peek(self) -> bytes:
        """The unread bytes that have come. Does not wait."""
        self._peeking = True
        try:
            return self._reader.peek()
        finally:
            self._peeking = False

    def _has_more(self) -> bool:
        """Whether bytes beyond the answer have left the kernel; is_stale() notices those that have not."""
        return bool(self._received) or (self._endpoint.tls is not None and bool(self._peek()))

    def _patience(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the time for the request is over")
        return min(self._timeout, left)


class _Stream(io.RawIOBase):
    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, room: Any) -> Optional[int]:
        return self._connection.receive_into(room)


class _Reader(io.BufferedReader):
    def close(self) -> None:
        """Does nothing: the end of an answer does not close its connection."""


def _read(response: http.client.HTTPResponse) -> NDArray[np.uint8]:
    """A body of known length is received straight into an aligned buffer."""
    length = response.length
    if length is None:
        return _read_unknown(response)
    body = _room(length)
    room = body.data
    while room:
        got = response.readinto(room)
        if not got:
            raise http.client.IncompleteRead(b"", len(room))
        room = room[got:]
    return body


def _room(length: int) -> NDArray[np.uint8]:
    if length > LARGEST_ANSWER:
        raise BadAnswer(f"the answer would have {length} bytes")
    return tensors.buffer(length)


def _read_unknown(response: http.client.HTTPResponse) -> NDArray[np.uint8]:
    pieces, total = [], 0
    while True:
        piece = np.empty(PIECE, np.uint8)
        got = response.readinto(piece.data)
        if not got:
            break
        pieces.append(piece[:got])
        total += got
        if total > LARGEST_ANSWER:
            raise BadAnswer(f"the answer has more than {LARGEST_ANSWER} bytes")
    body = tensors.buffer(total)
    np.concatenate(pieces or [body], out=body)
    return body
