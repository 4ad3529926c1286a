"""A server that misbehaves as a test says. Standard library only."""

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
    """Omits headers whose value is None."""
    given = {"Content-Length": str(len(body)), **(headers or {})}
    lines = [f"HTTP/1.1 {status} {reason}", *(f"{name}: {value}" for name, value in given.items() if value is not None)]
    return "\r\n".join([*lines, "", ""]).encode() + body


def status_document(text='{"state":"ready"}'):
    return answer(200, {"Content-Type": "application/json"}, text.encode())


def problem(status, headers=None, **fields):
    body = "{" + ",".join(f'"{name}":"{value}"' for name, value in fields.items()) + "}"
    return answer(status, {"Content-Type": "application/problem+json", **(headers or {})}, body.encode())


# The seconds that each Retry-After means in an answer of DATE; None: it is invalid.
RETRY_AFTER = {
    "0": 0,
    "3": 3,
    "Sat, 21 Nov 2026 12:00:09 GMT": 9,
    "Sat, 21 Nov 1998 12:00:00 GMT": 0,
    **dict.fromkeys(("soon", "-5", "1.5", "", "99 Nov")),
}
# Clients try again after PASSING (502 and 504 only with Retry-After), and not after LASTING.
PASSING = [problem(429), problem(503), *(answer(status, {"Retry-After": "0"}) for status in (502, 504))]
LASTING = [problem(status) for status in (400, 401, 403, 404, 405, 408, 411, 413, 415, 422, 500, 502, 504, 302)]
LASTING.append(answer(502, {"Retry-After": "soon"}))


def last(data):
    """An act: sends these bytes, then closes the connection."""

    def act(talk):
        talk.read_body()
        talk.socket.sendall(data)
        return True

    return act


def chunked(kind, *parts, end=b"0\r\n\r\n"):
    """An answer in chunks. A part is the bytes of a chunk, or a pair: a text in place of the size, and the bytes."""
    headers = {"Content-Type": kind, "Content-Length": None, "Transfer-Encoding": "chunked"}
    pairs = [part if isinstance(part, tuple) else (f"{len(part):x}", part) for part in parts]
    return answer(200, headers) + b"".join(b"%s\r\n%s\r\n" % (size.encode(), part) for size, part in pairs) + end


# Each function below takes the media type and the body of a sound answer, and makes answers that break a rule of HTTP.


def no_answers(kind, body):
    """Acts, by name, after which a client has no result and does not ask again."""
    sound, size = answer(200, {"Content-Type": kind}, body), len(body)
    lengths = ("", f"+{size}", f"{size}, {size}", f"{size} x", "-1", "0_2", hex(size), str(10**30), str(2**64 + size))
    return {
        "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        "another version": sound.replace(b"HTTP/1.1", b"HTTP/2"),
        "no status": sound.replace(b" 200 ", b" 2000 "),
        "too many headers": b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 20_000 + b"\r\n" + body,
        "another protocol": answer(101, {"Content-Length": None, "Upgrade": "websocket"}) + sound,
        "two lengths": sound.replace(b"\r\n\r\n", b"\r\nContent-Length: %d\r\n\r\n" % (size + 1), 1),
        "two lengths, the first too short": sound.replace(b"\r\n", b"\r\nContent-Length: 1\r\n", 1),
        **{f"length {text}": answer(200, {"Content-Type": kind, "Content-Length": text}, body) for text in lengths},
    }


def torn(kind, body):
    """Acts, by name, that end the connection within the answer. Clients ask again."""
    sound, size = answer(200, {"Content-Type": kind}, body), len(body)
    longer = answer(200, {"Content-Type": kind, "Content-Length": str(size + 9)}, body)
    acts = {f"after {at} bytes": sound[:at] for at in (0, 9, 17, 40, len(sound) - size - 2, len(sound) - 1)}
    acts |= {
        "a length that is too long": longer,
        "no last chunk": chunked(kind, body, end=b""),
        "in a chunk": chunked(kind, body, end=b"")[: -2 - size // 2],
        "in an interim answer": b"HTTP/1.1 103 Early Hints\r\nLink:",
        "after an interim answer": b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n",
    }
    return {name: last(data) for name, data in acts.items()}


def bad_chunks(kind, body):
    """Acts, by name, after which a client has no result."""
    sizes = ("zz", "-1", "", "f" * 16 + "1", f"{len(body) - 1:x}")
    return {f"size {size}": last(chunked(kind, (size, body))) for size in sizes}


def of_nobody(kind, body):
    """Acts, by name: a sound answer, then bytes that a client must not take for its next answer."""
    other = answer(200, {"Content-Type": kind, "X-Request-Id": "of-nobody"}, body)
    return {
        "another answer": answer(200, {"Content-Type": kind}, body) + other,
        "another answer after chunks": chunked(kind, body) + other,
    }


# Two interim answers. Their headers do not belong to the answer after them.
INTERIM = b"HTTP/1.1 103 Early Hints\r\nRetry-After: 9\r\nX-Request-Id: early\r\n\r\n" * 2


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
        """The number of bytes up to and with `end`."""
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
    """Answers each request by the next act; the last act serves all further requests. An act is the bytes to send after
    the body was read, or a function that gets the Talk. The connection is kept, unless the function returns True.
    `heads` has the heads of the requests so far, `connections` counts the connections.

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
