"""At the start, each call that needs memory, a thread or a descriptor fails in turn. In requests of every kind, each
call that needs memory or a descriptor does.

At the start the daemon ends with status 2 and a reason, or serves without the resource. In a request the client may get
an error or lose its connection, but no wrong bytes. Then nothing is left in use, and the next client is served.
$VOXELD_OOM_LIBRARY is the path of the library that tests/fault/oom.c becomes."""

import collections
import contextlib
import itertools
import mmap
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import unittest
import urllib.request

import codings
from client import MB, VOXELIZE, Closed, Daemon, Raw, head, is_sanitized, post, rows, tiled_rows, wait_until
from daemon import ROOT, voxeld_binary

LIBRARY = os.environ.get("VOXELD_OOM_LIBRARY", "")
MEMORY, THREAD, DESCRIPTOR = range(3)
NAMES = ("memory", "thread", "descriptor")
# If memory runs out, GnuTLS says that its priorities (tls_priorities) are wrong.
REASON = r"voxeld: .*(memory|Memory|unavailable|Too many open|No space left|libmicrohttpd|tls_priorities)"
STOPPING = 8  # daemons that may still be stopping while the next daemon runs
CPU = ("--backend", "cpu", "--workers", "2", "--long-workers", "1")


class Control:
    """oom.c's struct control: for each kind of call, the number of calls so far and the number of the call to fail."""

    def __init__(self):
        self._file = tempfile.NamedTemporaryFile()
        self._file.truncate(mmap.PAGESIZE)
        self._memory = mmap.mmap(self._file.fileno(), mmap.PAGESIZE)
        self.environment = {"LD_PRELOAD": LIBRARY, "VOXELD_OOM": self._file.name}

    def arm(self, kind, number):
        """From now on, call `number` of this kind fails; 0: no call."""
        struct.pack_into("<QQ", self._memory, 16 * kind, 0, number)

    def calls(self, kind):
        return struct.unpack_from("<Q", self._memory, 16 * kind)[0]


def chunked(body, size):
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"%x\r\n" % len(piece) + piece + b"\r\n" for piece in pieces) + b"0\r\n\r\n"


BODY = rows(500)
LARGE_BODY = tiled_rows(MB)
DEFLATED = codings.CODERS["deflate"](BODY)
FIELDS = b"".join(struct.pack("<HcIBf", 1, name, 4 * at, 7, 0) for at, name in enumerate((b"x", b"y", b"z", b"i")))
PACKED = codings.CODERS["zstd"](BODY)
BLOB = b"CLOUDINI_V03" + struct.pack("<3I2BH", 500, 1, 16, 0, 2, 4) + FIELDS + struct.pack("<I", len(PACKED)) + PACKED
CHUNKED = "Transfer-Encoding: chunked"
# (name, bytes) of each kind of request.
REQUESTS = (
    ("voxelize", post(BODY)),
    ("voxelize_chunked", head("POST", VOXELIZE, CHUNKED) + chunked(BODY, 1000)),
    ("voxelize_large", post(LARGE_BODY, VOXELIZE + "&feature=points,pillar&order=key")),
    ("voxelize_large_chunked", head("POST", VOXELIZE, CHUNKED) + chunked(LARGE_BODY, 100_000)),
    ("voxelize_batch", post(BODY, VOXELIZE + "&point_counts=100,0,400&outputs=voxel_coords,point_voxel_ids")),
    ("voxelize_filtered", post(BODY, VOXELIZE + "&block_filter=2,3,0.1,9&max_points_per_voxel=0")),
    ("voxelize_half", post(BODY, VOXELIZE + "&dtype=float16")),
    ("integers", post(BODY, VOXELIZE + "&dtype=int32&scale=0.001&filter=delta,shuffle")),
    ("cloudini", post(BLOB, VOXELIZE + "&format=cloudini")),
    ("voxelize_fps", post(BODY, VOXELIZE + "&fps=50")),
    ("metadata", post(BODY, VOXELIZE, "Accept: application/json")),
    ("npz", post(BODY, VOXELIZE, "Accept: application/x-npz")),
    ("shuffled", post(BODY, VOXELIZE, "Accept: application/x-shuffled-safetensors")),
    ("mcap", post(BODY, VOXELIZE + "&point_counts=100,0,400", "Accept: application/x-mcap")),
    ("gzip", post(codings.CODERS["gzip"](BODY), VOXELIZE, "Content-Encoding: gzip", "Accept-Encoding: gzip")),
    (
        "zstd",
        post(codings.CODERS["zstd"](BODY), VOXELIZE, "Content-Encoding: zstd", "Accept-Encoding: zstd, gzip;q=0.5"),
    ),
    ("deflate_chunked", head("POST", VOXELIZE, CHUNKED, "Content-Encoding: deflate") + chunked(DEFLATED, 1000)),
    ("fps", post(BODY, "/v1/fps?num_samples=100")),
    ("fps_batch", post(BODY, "/v1/fps?point_counts=100,400&num_samples=10,20")),
    ("page", head("GET", "/v1/presets")),
    ("metrics", head("GET", "/metrics")),
    ("bad_parameter", post(BODY, VOXELIZE + "&order=x")),
    ("bad_length", head("POST", VOXELIZE, "Content-Length: 64", CHUNKED)),
    ("impossible", post(BODY, "/v1/fps?num_samples=5000")),
    ("expected", head("POST", "/nowhere", "Content-Length: 64", "Expect: 100-continue")),
)
# As first requests, these make all calls that a warm daemon does not make.
FIRST = ("voxelize_chunked", "voxelize_large_chunked", "integers", "cloudini", "mcap", "gzip", "zstd", "fps_batch")


def essence(reply):
    """What equal requests have in common: the status, and the tensors or the metadata's counts."""
    kind, coding = reply.headers.get("Content-Type", ""), reply.headers.get("Content-Encoding")
    if coding in codings.answers():  # otherwise this machine cannot decode the answer
        codings.decode(reply)
    elif coding:
        return (reply.status,)
    if kind == "application/vnd.safetensors":
        return reply.status, *reply.tensors()
    if reply.status == 200 and kind == "application/json" and "points" in reply.json():
        return reply.status, {key: reply.json()[key] for key in ("parameters", "points", "voxels", "batch")}
    return (reply.status,)


def ask(daemon, request):
    """The answer to the request on a new connection; None: the daemon closed without an answer."""
    with Raw(daemon) as connection:
        try:
            connection.send(request)
        except ConnectionError:
            pass  # an earlier answer may still be readable
        try:
            return connection.read()
        except Closed:
            return None


class Case(unittest.TestCase):
    def setUp(self):
        self.control = Control()


class Start(Case):
    """The daemon's start, with a file of options and a directory of presets."""

    def setUp(self):
        super().setUp()
        presets = tempfile.TemporaryDirectory()
        self.addCleanup(presets.cleanup)
        shutil.copy(ROOT / "config/presets/kitti_second.json", presets.name)
        self.command = [voxeld_binary(), "--config", ROOT / "config/voxeld.json", "--presets-dir", presets.name]
        self.command += ["--listen", "127.0.0.1:0", *CPU]
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("VOXELD_")}

    def presets_of(self, log):
        """Asks the daemon for its presets, at the address that its log shows."""
        host, _, port = re.search(r"address=([^\s]+)", log)[1].rpartition(":")
        with urllib.request.urlopen(f"http://{host}:{port}/v1/presets") as reply:
            return reply.read()

    def start_with(self, kind, number):
        """Starts a daemon with one failing call. Returns its presets; None if it ends with a reason."""
        self.control.arm(kind, number)
        presets, log = None, ""
        with subprocess.Popen(
            self.command,
            stdin=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env={**self.environment, **self.control.environment},
        ) as process:
            for line in process.stderr:
                log += line
                if "msg=listening" in line:
                    self.came = self.control.calls(kind) >= number
                    self.control.arm(kind, 0)
                    presets = self.presets_of(line)
                    process.terminate()
        self.assertEqual(process.returncode, 0 if presets else 2, f"{NAMES[kind]} {number}: {log}")
        if not presets:
            self.assertRegex(log, REASON, f"{NAMES[kind]} {number}")
        return presets

    def each_in_turn(self, kind):
        presets, refused = self.start_with(kind, 0), 0
        for number in itertools.count(1):
            got = self.start_with(kind, number)
            if got and not self.came:
                break
            refused += not got
            if got:
                self.assertEqual(got, presets, f"{NAMES[kind]} {number}")
        self.assertGreater(refused, 0)
        print(f"start: each of {number - 1} calls ({NAMES[kind]}) failed: {refused} daemons ended, the others served")

    def test_each_call_for_memory(self):
        self.each_in_turn(MEMORY)

    def test_each_thread(self):
        self.each_in_turn(THREAD)

    def test_each_descriptor(self):
        self.each_in_turn(DESCRIPTOR)


class Requests(Case):
    def start(self):
        daemon = Daemon(*CPU, env=self.control.environment)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        return daemon

    def fail_one(self, daemon, name, kind, number, expected, request):
        """Lets call `number` of a request fail. Returns False if the request makes fewer calls."""
        self.control.arm(kind, number)
        reply = ask(daemon, request)
        came = self.control.calls(kind) >= number
        self.control.arm(kind, 0)
        where = f"{name}: {NAMES[kind]} {number}: {reply}"
        if not came or (reply and reply.status not in (500, 503)):
            self.assert_essence(reply, expected, where)
        daemon.assert_alive()
        self.assert_essence(ask(daemon, request), expected, where)
        wait_until(lambda: self.is_quiet(daemon), where)
        return came

    def assert_essence(self, reply, expected, where):
        self.assertIsNotNone(reply, where)
        own = essence(reply)
        known = min(len(own), len(expected))  # 1 if this machine cannot decode an answer
        self.assertEqual(own[:known], expected[:known], where)

    def is_quiet(self, daemon):
        status = daemon.status()
        return not daemon.busy() and status["requests"]["open"] == status["connections"]["open"] == 1

    def test_each_call_of_a_warm_daemon(self):
        daemon = self.start()
        failed = 0
        for (name, request), kind in itertools.product(REQUESTS, (MEMORY, DESCRIPTOR)):
            expected = essence(ask(daemon, request))
            number = 1
            while self.fail_one(daemon, name, kind, number, expected, request):
                number += 1
            self.assertGreater(number, 1, name)
            failed += number - 1
        print(f"warm: each of {failed} calls failed, in {len(REQUESTS)} kinds of requests")
        daemon.stop()

    def begin_of_events(self, daemon):
        """The beginning of the answer of /v1/events; "" if the daemon closed without an answer."""
        told = b""
        with daemon.socket() as connection, contextlib.suppress(ConnectionError):
            connection.sendall(head("GET", "/v1/events"))
            while b"event: open" not in told and b"urn:voxeld:problem" not in told:
                part = connection.recv(4096)
                if not part:
                    break
                told += part
        return told.decode()

    def test_each_call_of_a_subscription(self):
        daemon = self.start()
        for number in itertools.count(1):
            self.control.arm(MEMORY, number)
            told = self.begin_of_events(daemon)
            came = self.control.calls(MEMORY) >= number
            self.control.arm(MEMORY, 0)
            refused = "HTTP/1.1 50[03] .*urn:voxeld:problem|$" if came else "-"
            self.assertRegex(told, f"(?s)^(HTTP/1.1 200 .*event: open|{refused})", f"{number}")
            wait_until(lambda: self.is_quiet(daemon), f"{number}: the subscription has ended")
            self.assertEqual(daemon.status()["streams"]["subscribers"], 0)
            if not came:
                break
        self.assertGreater(number, 2)
        print(f"subscription: each of {number - 1} calls failed")
        daemon.stop()

    def first(self, name, number, expected, request, stopping):
        """Like fail_one, but in the first request to a new daemon, which is then told to stop and appended to
        `stopping`."""
        self.control = Control()  # each daemon that is still stopping keeps its own
        daemon = self.start()
        came = self.fail_one(daemon, name, MEMORY, number, expected, request)
        daemon.terminate()
        stopping.append(daemon)
        return came

    def stopped(self, daemon):
        self.assertEqual(daemon.wait(), 0, daemon.log())

    def test_each_call_for_memory_of_a_first_request(self):
        failed, stopping = 0, collections.deque()
        for name in FIRST:
            request = dict(REQUESTS)[name]
            daemon = self.start()
            expected = essence(ask(daemon, request))
            daemon.stop()
            number = 1
            while self.first(name, number, expected, request, stopping):
                number += 1
                if len(stopping) > STOPPING:
                    self.stopped(stopping.popleft())
            failed += number - 1
        for daemon in stopping:
            self.stopped(daemon)
        print(f"first: each of {failed} calls failed, in {len(FIRST)} kinds of requests")


def reason_to_skip():
    if is_sanitized():
        return "sanitizers have an allocator of their own"
    return "" if os.path.exists(LIBRARY) else "VOXELD_OOM_LIBRARY names no library of failing calls"


if __name__ == "__main__":
    if reason_to_skip():
        print(f"skipped: {reason_to_skip()}")
        sys.exit(77)
    unittest.main()
