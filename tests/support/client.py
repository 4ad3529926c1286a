"""A client on bare sockets that can misbehave as a test needs, and the base class of the fault tests. Standard library
only."""

import contextlib
import hashlib
import http.client
import json
import math
import random
import re
import select
import socket
import struct
import threading

from daemon import PATIENCE, Daemon, OneDaemonCase, Reply, is_sanitized, wait_until  # noqa: F401
from older_python import TIMEOUTS

GRID = "point_cloud_range=-10,-10,-2,10,10,2&voxel_size=0.5,0.5,0.5"
VOXELIZE = "/v1/voxelize?" + GRID
ROW = 16  # bytes of a default row: 4 float32 columns
MB = 1 << 20


def rows(count, seed=1, columns=4):
    """Random rows inside GRID."""
    source = random.Random(seed)
    return struct.pack(f"<{count * columns}f", *(source.uniform(-2, 2) for _ in range(count * columns)))


def tensor_file(**tensors):
    """A safetensors file of tensors (shape, bytes), float32, or (shape, bytes, dtype)."""
    header, data = {}, b""
    for name, (shape, values, *dtype) in tensors.items():
        header[name] = {
            "dtype": (dtype or ["F32"])[0],
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(values)],
        }
        data += values
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def tiled_rows(size):
    """At most `size` bytes of rows, made quickly."""
    block = rows(4096)
    return (block * (size // len(block) + 1))[: size // ROW * ROW]


def random_floats(number, exponent):
    """Random floats. `exponent`: 0x80 for numbers from 1 to 2, 0 for numbers from 0.5 to 1."""
    data = bytearray(hashlib.shake_128(b"rows").digest(4 * number))
    data[3::4] = b"\x3f" * number
    data[2::4] = data[2::4].translate(bytes(exponent | byte & 0x7F for byte in range(256)))
    return bytes(data)


def many_rows(number):
    """Rows of 3 columns, all coordinates between 1 and 2."""
    return random_floats(3 * number, 0x80)


# A slow request of few bytes: nearly every point has its own cell, and the cells are sorted.
HEAVY = "/v1/voxelize?point_cloud_range=0,0,0,1,1,1&voxel_size=0.001,0.001,0.001&order=key&max_voxels=16777216"
HEAVY_ROWS = 60_000 if is_sanitized() else 250_000


# Choosing most of the points of many_rows(LONG_POINTS) takes about a second on the CPU, and longer on a GPU.
LONG_POINTS = 250_000 if is_sanitized() else 1_000_000
SAMPLING = f"/v1/fps?num_features=3&outputs=sampled_indices&num_samples={LONG_POINTS * 9 // 10}"


def with_long_steps(path, steps=8):
    """Adds steps to a path. They drop no point, and on many_rows(LONG_POINTS) together take about a minute on the CPU:
    each step finds 128 neighbours of each point."""
    tags = [f"s{number}" for number in range(steps)]
    chain = ",".join(f"{tag}:statistical_outlier" for tag in tags)
    return f"{path}&steps={chain}" + "".join(f"&{tag}.mean_k=128&{tag}.std_mul=1e6" for tag in tags)


# A job that takes longer than any test, on a worker for long jobs.
LONG = with_long_steps(SAMPLING)


def begun(ask, deadline=1):
    """Calls ask(deadline in milliseconds) with growing deadlines, until the job, or a detection's backbone or network,
    began before the deadline. Returns that answer. The first deadlines are short, so that a fast machine does not
    finish the job."""
    while (reply := ask(deadline)).status == 504 and "before the " in reply.json()["detail"]:
        deadline *= 2
    return reply


def heavy_rows():
    return random_floats(4 * HEAVY_ROWS, 0)


def heavy_jobs(daemon, body, seconds):
    """The number of heavy jobs, from 4 to 60, that keep one worker busy for about `seconds`."""
    timing = daemon.post(HEAVY, body, {"Accept": "application/json"}).json()["timing_us"]
    one = (timing["total"] - timing["receive"] - timing["queue"]) / 1e6
    return max(4, min(60, math.ceil(seconds / max(one, 1e-4))))


class Crowd:
    """Clients that each post one request on their own connection. In `replies`, None is a reply that did not come."""

    def __init__(self, daemon, number, path, body):
        self.replies = [None] * number
        self._threads = [threading.Thread(target=self._one, args=(daemon, n, path, body)) for n in range(number)]
        for thread in self._threads:
            thread.start()

    def _one(self, daemon, number, path, body):
        try:
            self.replies[number] = daemon.post(path, body, {"Accept": "application/json"})
        except (OSError, http.client.HTTPException):
            pass

    def waiting(self):
        return any(thread.is_alive() for thread in self._threads)

    def join(self):
        for thread in self._threads:
            thread.join(PATIENCE)
        return self.replies


class Bystander:
    """A client at another address that posts again and again, with pauses of `pace` seconds. Each answer must be right.

    with Bystander(daemon) as bystander: ...
    """

    def __init__(self, daemon, source="127.0.0.77", pace=0):
        self.daemon, self.source, self.pace = daemon, source, pace
        self.served, self.failures = 0, []
        self.expected = self._post()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._go_on)

    def _post(self):
        # Head and body in one piece, so that load on this machine cannot stall the upload.
        with Raw(self.daemon, source=self.source) as connection:
            reply = connection.send(post(rows(100))).read()
        if reply.status != 200:
            raise AssertionError(f"a bystander got the answer {reply}")
        return reply.tensors()

    def _go_on(self):
        while not self._stop.is_set() or not self.served:
            try:
                if self._post() != self.expected:
                    raise AssertionError("a bystander got other bytes than before")
                self.served += 1
                self._stop.wait(self.pace)
            except (OSError, Closed, AssertionError) as failure:
                self.failures.append(failure)
                return

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, kind, error, traceback):
        self._stop.set()
        self._thread.join()
        if kind is None and self.failures:
            raise self.failures[0]


def counters(daemon, name, get=None):
    """The samples of a metric: {labels: value}. The labels are the text between the braces, or "". `get` fetches the
    page; by default daemon.get."""
    page = (get or daemon.get)("/metrics").body.decode()
    return {labels: float(value) for labels, value in re.findall(rf"^{name}(?:{{(.*)}})? (\S+)$", page, re.MULTILINE)}


def head(method="POST", path=VOXELIZE, *lines, host=True, version="HTTP/1.1"):
    """The bytes of a request's head; `lines` are the header lines to send."""
    first = f"{method} {path} {version}\r\n" + ("Host: localhost\r\n" if host else "")
    return (first + "".join(line + "\r\n" for line in lines) + "\r\n").encode("latin-1")


def post(body, path=VOXELIZE, *lines):
    return head("POST", path, f"Content-Length: {len(body)}", *lines) + body


class Closed(Exception):
    """The peer closed or reset the connection before an answer."""


class Raw:
    """One connection, used as the test says."""

    def __init__(self, daemon, receive_buffer=None, source=None):
        self.socket = daemon.socket(receive_buffer=receive_buffer, source=source)
        self.pending = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _ready(self, event, seconds):
        poll = select.poll()  # unlike select(), takes descriptors above 1023
        poll.register(self.socket, event)
        return bool(poll.poll(1000 * seconds))

    def send(self, data):
        self.socket.sendall(data)
        return self

    def send_some(self, data):
        """Sends as much as the socket takes at once. Returns the number of bytes; 0 if the socket takes none or the
        peer has closed."""
        if not self._ready(select.POLLOUT, 0.2):
            return 0
        try:
            return self.socket.send(data)
        except (ConnectionError, BrokenPipeError):
            return 0

    def readable(self, seconds):
        """Whether an answer or the end of the connection comes within this time."""
        return bool(self.pending) or self._ready(select.POLLIN, seconds)

    def await_end(self):
        """Waits until the peer has finished sending; reads nothing."""
        assert self._ready(select.POLLRDHUP, PATIENCE), f"no end in {PATIENCE} s"
        return self

    def is_reset(self, seconds):
        """Whether the connection is reset within this time."""
        return self._ready(0, seconds)

    def _more(self):
        try:
            piece = self.socket.recv(1 << 20)
        except ConnectionError as reason:
            raise Closed(str(reason)) from reason
        except TIMEOUTS:
            raise AssertionError(f"no answer and no end in {PATIENCE} s; so far {self.pending[:300]!r}") from None
        if not piece:
            raise Closed(f"end of the connection; before it {self.pending[:300]!r}")
        self.pending += piece

    def read_final(self):
        """The next final Reply, after interim ones."""
        while (reply := self.read()).status < 200:
            pass
        return reply

    def read(self, has_body=True):
        """The next Reply. Raises Closed if the connection ends first."""
        while b"\r\n\r\n" not in self.pending:
            self._more()
        top, self.pending = self.pending.split(b"\r\n\r\n", 1)
        lines = top.decode("latin-1").split("\r\n")
        status = int(lines[0].split(" ")[1])
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers[name.strip().title()] = value.strip()
        length = int(headers.get("Content-Length", 0)) if has_body and status >= 200 and status != 304 else 0
        parts, got = [self.pending], len(self.pending)
        while got < length:
            self.pending = b""
            self._more()
            parts.append(self.pending)
            got += len(self.pending)
        data = b"".join(parts)
        self.pending = data[length:]
        return Reply(status, headers, data[:length])

    def until(self, words):
        """Waits for `words`. Returns all bytes since the last answer that was read."""
        while words not in self.pending:
            self._more()
        return self.pending

    def rest(self):
        """All bytes until the peer closes."""
        with contextlib.suppress(Closed):
            while True:
                self._more()
        rest, self.pending = self.pending, b""
        return rest

    def ended(self):
        """Waits until the peer has closed, and drops its bytes. Returns True."""
        try:
            while True:
                self.pending = b""
                self._more()
        except Closed:
            return True

    def finish_sending(self):
        self.socket.shutdown(socket.SHUT_WR)

    def close(self):
        self.socket.close()

    def reset(self):
        """Closes with RST instead of FIN."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


class FaultCase(OneDaemonCase):
    """After every test the daemon must be alive and idle."""

    def tearDown(self):
        self.daemon.assert_alive()
        self.daemon.assert_quiet()

    def raw(self, receive_buffer=None, source=None):
        connection = Raw(self.daemon, receive_buffer, source)
        self.addCleanup(connection.close)
        return connection

    def exchange(self, data):
        with Raw(self.daemon) as connection:
            return connection.send(data).read()

    def connections_at_most(self, number):
        reply = self.exchange(head("GET", "/v1/status"))  # this connection counts too
        return reply.status == 200 and reply.json()["connections"]["open"] <= number

    def assert_voxels(self, reply):
        """Checks for a 200 with a complete safetensors file. Returns its metadata."""
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(reply.headers["Content-Type"], "application/vnd.safetensors")
        (length,) = struct.unpack_from("<Q", reply.body)
        header = json.loads(reply.body[8 : 8 + length])
        metadata = json.loads(header.pop("__metadata__")["voxeld"])
        end = max(info["data_offsets"][1] for info in header.values())
        self.assertEqual(8 + length + end, len(reply.body))
        return metadata

    def assert_problem(self, reply, status, parameter=None, mentions=()):
        """Checks for a problem document with this status, or one of these. Returns the document."""
        statuses = status if isinstance(status, tuple) else (status,)
        self.assertIn(reply.status, statuses, reply)
        self.assertEqual(reply.headers["Content-Type"], "application/problem+json", reply)
        problem = reply.json()
        self.assertEqual(problem["status"], reply.status)
        self.assertTrue(problem["type"].startswith("urn:voxeld:problem:"), problem)
        self.assertTrue(problem["title"] and problem["detail"], problem)
        self.assertEqual(problem.get("request_id"), reply.headers.get("X-Request-Id"))  # a refused connection has no id
        if parameter:
            self.assertEqual(problem.get("parameter"), parameter, problem)
        for text in mentions:
            self.assertIn(text, problem["detail"], problem)
        if reply.status in (429, 503):
            self.assertGreaterEqual(int(reply.headers["Retry-After"]), 1)
        return problem

    def assert_refused(self, reply, status, mentions=()):
        """Checks for a problem from the daemon. From 1.0 on, libmicrohttpd may refuse a malformed head itself; then
        checks for its page."""
        if self.daemon.library() < (1, 0) or "X-Request-Id" in reply.headers:
            return self.assert_problem(reply, status, mentions=mentions)
        self.assertIn(reply.status, status if isinstance(status, tuple) else (status,), reply)
        self.assertIn(b"<html>", reply.body)

    def assert_unparsed(self, connection, statuses):
        """Checks that libmicrohttpd answers with one of these statuses and closes."""
        self.assertIn(connection.read().status, statuses)
        self.assertTrue(connection.ended())

    def assert_closes(self, connection, reply):
        """Checks that the answer announces the end of the connection, and that the connection then ends."""
        self.assertEqual(reply.headers.get("Connection", "").lower(), "close", reply)
        self.assertTrue(connection.ended())
