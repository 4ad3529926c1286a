"""Runs a voxeld for a test: starts it on a free port, waits until it is ready, asks it, stops it and checks for
sanitizer reports.

    with Daemon("--workers", "1") as daemon:
        reply = daemon.post("/v1/voxelize?preset=kitti_second", body)

The program is $VOXELD_BIN, or build/bin/voxeld. Standard library only.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import unittest
import uuid

import older_python  # noqa: F401
from sources import HTTPConnection, UnixConnection, connected

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = ROOT / "build" / "bin"
SCAN = os.environ.get("VOXEL_SCAN", str(BIN / "voxel-scan"))  # the program that simulates scans
BACKEND = os.environ.get("VOXELD_TEST_BACKEND", "cpu")
PATIENCE = 120  # seconds after which a wait fails, even of sanitizer builds on a loaded machine
SANITIZER = re.compile(r"(ERROR|WARNING): (Address|Thread|Leak|Memory|UndefinedBehavior)Sanitizer|: runtime error: ")


def voxeld_binary():
    return os.path.abspath(os.environ.get("VOXELD_BIN", BIN / "voxeld"))


def is_sanitized():
    """Whether the program is an ASan or TSan build."""
    with open(voxeld_binary(), "rb") as file:
        program = file.read()
    return b"__asan_init" in program or b"__tsan_init" in program


@contextlib.contextmanager
def started(command, **options):
    """Runs a process during a `with` block, and kills the process at the end of the block."""
    with subprocess.Popen(command, **options) as process:
        try:
            yield process
        finally:
            process.kill()


def wait_until(condition, what, patience=PATIENCE):
    """Polls until the condition is true. Returns its value."""
    deadline, pause = time.monotonic() + patience, 0.01
    while True:
        result = condition()
        if result:
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"{patience} s have passed without this: {what() if callable(what) else what}")
        time.sleep(pause)
        pause = min(1.2 * pause, 0.05)


def reload(daemon, message):
    """Sends SIGHUP, and waits for one more line of the log with this text."""
    count = lambda: sum(message in line for line in list(daemon.lines))
    before = count()
    daemon.process.send_signal(signal.SIGHUP)
    wait_until(lambda: count() > before, f"a line with {message}")


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def tensors(self):
        """The description of the tensors of a safetensors file, and their bytes. Equal requests give the same."""
        (length,) = struct.unpack_from("<Q", self.body)
        described = json.loads(self.body[8 : 8 + length])
        del described["__metadata__"]
        return described, self.body[8 + length :]

    def __repr__(self):
        return f"<{self.status} {dict(self.headers)} {self.body[:300]!r}>"


# Tests inspect the daemon from this address. It is a client of its own, so it does not use up other clients' shares.
OPERATOR = "127.0.0.99"


class Listener:
    """A listening address of a daemon, as its log names it: HOST:PORT or unix:PATH.

    The daemon distinguishes clients by address: with `source`, such as 127.0.0.2, a test is another client."""

    def __init__(self, name):
        host, _, port = name.rpartition(":")
        self.address = port if host == "unix" else (host.strip("[]"), int(port))

    def connection(self, timeout=PATIENCE, source=None):
        if isinstance(self.address, str):
            return UnixConnection(self.address, timeout)
        return HTTPConnection(*self.address, timeout=timeout, source_address=source and (source, 0))

    def socket(self, timeout=PATIENCE, receive_buffer=None, source=None):
        return connected(self.address, timeout, source, receive_buffer)

    def request(self, method, path, body=None, headers=None, connection=None, source=None):
        own = connection is None
        connection = connection or self.connection(source=source)
        try:
            connection.request(method, path, body, headers or {}, encode_chunked="Transfer-Encoding" in (headers or {}))
            response = connection.getresponse()
            return Reply(response.status, response.headers, response.read())
        finally:
            if own:
                connection.close()

    def get(self, path, headers=None, source=None):
        return self.request("GET", path, None, headers, source=source)

    def post(self, path, body=b"", headers=None, connection=None, source=None):
        return self.request("POST", path, body, headers, connection, source)


class Daemon(Listener):
    def __init__(self, *args, env=None):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("VOXELD_")}
        # Memory that ASan keeps in quarantine would look like a leak.
        environment["ASAN_OPTIONS"] = "quarantine_size_mb=4:" + os.environ.get("ASAN_OPTIONS", "")
        if BACKEND == "cuda":  # the stand-in of ONNX Runtime cannot read a real GPU's memory
            environment["STANDIN_NO_CUDA"] = "1"
        if BACKEND == "cuda" or "VOXELD_STANDIN_DEVICES" in (env or {}):  # jobs of few points use the GPU too
            environment["VOXELD_SMALL_JOB_POINTS"] = "0"
        environment.update(env or {})
        self.may_fail = "VOXELD_INJECT" in environment
        self.lines = []
        self.process = subprocess.Popen(
            self.command(args),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self.listeners = wait_until(self._address, "a line with msg=listening").split(",")
            super().__init__(self.listeners[-1])
            pages = self._logged_field("pages")
            self.page_listeners = pages.split(",") if pages else []
            self.pages = Listener(self.page_listeners[-1]).address if pages else None
            wait_until(self._is_ready, "a 200 from /readyz")
        except BaseException:
            self.kill()
            raise

    def command(self, args):
        return [voxeld_binary(), "--listen", "127.0.0.1:0", "--backend", BACKEND, *args]

    def pid(self):
        return self.process.pid

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.decode(errors="replace"))

    def _address(self):
        """The listeners in the log, or None if there are none yet."""
        if self.process.poll() is not None:
            self._reader.join(PATIENCE)
            raise RuntimeError(f"voxeld ended with {self.process.returncode} before it listened:\n{self.log()}")
        return self._logged_field("address")

    def _logged_field(self, name):
        for line in list(self.lines):
            if "msg=listening" in line and (found := re.search(rf' {name}="?([^\s"]+)', line)):
                return found[1]
        return None

    def _is_ready(self):
        try:
            return self.get("/readyz").status == 200
        except ConnectionError:
            return False

    def log(self):
        return "".join(self.lines[-200:])

    def times_logged(self, message):
        return sum(message in line for line in list(self.lines))

    def logged(self, message):
        """The log lines with `message`. A line arrives some time after its event, so this first sends a request and
        waits for the request's line. Lines of earlier requests may still be missing, unless the test has called
        await_accounts."""
        mark = f"mark-{uuid.uuid4().hex}"
        self.get("/nowhere", {"X-Request-Id": mark}, source=OPERATOR)
        wait_until(lambda: self.times_logged(mark), "the line of a request in the log")
        return [line for line in list(self.lines) if message in line]

    # --- state ---

    def status(self):
        reply = self.get("/v1/status", source=OPERATOR)
        assert reply.status == 200, reply
        return reply.json()

    def library(self):
        """The version of libmicrohttpd, as numbers."""
        if not hasattr(self, "_library"):
            self._library = tuple(int(part) for part in self.status()["build"]["libmicrohttpd"].split("."))
        return self._library

    # --- judging ---

    def busy(self):
        """The requests in flight, the queued jobs and the bytes of buffers in use, by /v1/status; None without any."""
        status = self.status()
        left = {
            "requests.active": status["requests"]["active"],
            "queue.depth": status["queue"]["depth"],
            "long_queue.depth": status["long_queue"]["depth"],
            "detection_queue.depth": status["detection_queue"]["depth"],
            "buffers.in_use_bytes": status["buffers"]["in_use_bytes"],
        }
        return {name: value for name, value in left.items() if value} or None

    def assert_quiet(self):
        """Waits until busy() is None."""
        wait_until(lambda: not self.busy(), lambda: f"all requests and buffers given back; left: {self.busy()}")

    def await_accounts(self):
        """Waits until every earlier request is counted and logged, which happens after its answer is sent."""
        requests = lambda: self.status()["requests"]
        wait_until(lambda: requests()["open"] == 1, lambda: f"the end of all other requests: {requests()}")

    def assert_alive(self):
        assert self.process.poll() is None, f"voxeld ended with {self.process.returncode}:\n{self.log()}"
        reply = self.get("/healthz", source=OPERATOR)
        assert reply.status == 200, reply

    def _memory(self, field):
        with open(f"/proc/{self.process.pid}/status") as file:
            return next(int(line.split()[1]) * 1024 for line in file if line.startswith(field))

    def resident_bytes(self):
        return self._memory("VmRSS:")

    def forget_peak(self):
        """Resets peak_bytes() to the present size."""
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as file:
            file.write("5")

    def peak_bytes(self):
        return self._memory("VmHWM:")

    # --- stopping ---

    def terminate(self):
        os.kill(self.pid(), signal.SIGTERM)

    def wait(self, patience=PATIENCE):
        """Waits for the end. Returns the exit code. Fails on a sanitizer's report in the log."""
        try:
            code = self.process.wait(patience)
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"voxeld has not ended in {patience} s:\n{self.log()}") from None
        self._reader.join(PATIENCE)
        self.process.stderr.close()
        report = "".join(self.lines)
        assert not SANITIZER.search(report), f"a sanitizer reports:\n{report[-20000:]}"
        return code

    def stop(self):
        if self.process.poll() is None:
            self.terminate()
        code = self.wait()
        assert code == 0, f"voxeld ended with {code}:\n{self.log()}"
        # The CPU writes the same bytes, so look in the log for jobs that a GPU failed.
        failed = "" if self.may_fail else "".join(line for line in self.lines if "a GPU failed a job" in line)
        assert not failed, f"jobs were not done by the GPU:\n{failed}"

    def kill(self):
        self.process.kill()
        self.process.wait()
        self._reader.join(PATIENCE)
        self.process.stderr.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, traceback):
        if kind is None:
            self.stop()
            return
        print(f"--- the end of the daemon's log\n{self.log()}---", file=sys.stderr)
        self.kill()


class OneDaemonCase(unittest.TestCase):
    """Tests of one daemon, which the class starts with ARGS."""

    ARGS = ()

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(*cls.ARGS)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()
