"""A server that misbehaves in the way that a test chooses. Standard library only."""

import re
import socket
import struct
import threading

from credentials import new_token
from daemon import PATIENCE

GRID = {"point_cloud_range": (-10, -10, -2, 10, 10, 2), "voxel_size": (0.5, 0.5, 0.5)}
DATE = "Sat, 21 Nov 2026 12:00:00 GMT"


def token_file(folder):
    """A new token, and the path of a token file that has it."""
    token, line = new_token("lidar-7")
    path = folder / "tokens"
    path.write_text(line, encoding="utf-8")
    path.chmod(0o600)
    return token, path


def url_of(server):
    return "http://{}:{}".format(*server.address)


def answer(status, headers=None, body=b"", reason="Said So"):
    """The bytes of an answer. Omits headers whose value is None."""
    given = {"Content-Length": str(len(body)), **(headers or {})}
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in given.items() if value is not None)]
    return "\r\n".join([*lines, "", ""]).encode() + body


def status_document(text='{"state":"ready"}'):
    return answer(200, {"Content-Type": "application/json"}, text.encode())


def problem(status, headers=None, **fields):
    body = "{" + ",".join(f'"{name}":"{value}"' for name, value in fields.items()) + "}"
    return answer(status, {"Content-Type": "application/problem+json", **(headers or {})}, body.encode())


# Values of Retry-After, and the seconds that each means in an answer of DATE. None: the value is invalid.
RETRY_AFTER = {
    "0": 0,
    "3": 3,
    "Sat, 21 Nov 2026 12:00:09 GMT": 9,
    "Sat, 21 Nov 1998 12:00:00 GMT": 0,
    **dict.fromkeys(("soon", "-5", "1.5", "", "99 Nov")),
}
# Clients try again after PASSING (a balancer's 502 and 504 only with Retry-After) and never after LASTING.
PASSING = [problem(429), problem(503), *(answer(status, {"Retry-After": "0"}) for status in (502, 504))]
LASTING = [problem(status) for status in (400, 401, 403, 404, 405, 408, 411, 413, 415, 422, 500, 502, 504, 302)]
LASTING.append(answer(502, {"Retry-After": "soon"}))


class Talk:
    """One request, as the server sees it."""

    def __init__(self, connection, number, head, rest):
        self.socket, self.number, self.head, self._rest = connection, number, head, rest

    @property
    def target(self):
        return self.head.split(" ")[1]

    def header(self, name):
        found = re.search(rf"^{name}: *(.*?)\r?$", self.head, re.IGNORECASE | re.MULTILINE)
        return found and found[1]

    def read_body(self):
        if self.header("Transfer-Encoding"):
            return b"".join(self._read_chunks())
        left = int(self.header("Content-Length") or 0) - len(self._rest)
        parts = [self._rest]
        while left > 0:
            piece = self.socket.recv(min(left, 1 << 20))
            if not piece:
                raise ConnectionError("the client has left")
            parts.append(piece)
            left -= len(piece)
        self._rest = b""
        return b"".join(parts)

    def _read_chunks(self):
        while size := int(self._take(self._find(b"\r\n")), 16):
            yield self._take(size)
            self._take(self._find(b"\r\n"))
        self._take(self._find(b"\r\n"))

    def _find(self, end):
        """The bytes before and with `end`."""
        while end not in self._rest:
            self._receive()
        return self._rest.index(end) + len(end)

    def _take(self, size):
        while len(self._rest) < size:
            self._receive()
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken

    def _receive(self):
        piece = self.socket.recv(1 << 20)
        if not piece:
            raise ConnectionError("the client has left")
        self._rest += piece

    def reset(self):
        """Ends the connection with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class RudeServer:
    """Answers each request by the next act: bytes to send, or a function that gets the Talk and may do anything.
    Bytes are sent after the body was read, and the connection is kept. If a function returns True, the connection
    is closed. The last act serves all further requests. `heads` has the requests so far, `connections` counts the
    connections.

    with RudeServer(answer(503), answer(200)) as server: ...
    """

    def __init__(self, *acts):
        self.acts, self.heads, self.connections = list(acts), [], 0
        self._lock, self._open = threading.Lock(), []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = self._listener.getsockname()
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.connections += 1
                self._open.append(connection)
                self._threads.append(threading.Thread(target=self._serve, args=(connection, self.connections)))
                self._threads[-1].start()

    def _serve(self, connection, number):
        with connection:
            try:
                while self._answer(connection, number):
                    pass
            except OSError:
                pass  # a client that left, or an act that closed the connection

    def _answer(self, connection, number):
        data = b""
        while b"\r\n\r\n" not in data:
            piece = connection.recv(65536)
            if not piece:
                return False
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        talk = Talk(connection, number, head.decode("latin-1"), rest)
        with self._lock:
            self.heads.append(talk.head)
            act = self.acts.pop(0) if len(self.acts) > 1 else self.acts[0]
        if callable(act):
            return not act(talk)
        talk.read_body()
        connection.sendall(act)
        return True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for connection in self._open:
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass  # closed already
        for thread in self._threads:
            thread.join(PATIENCE)
