"""For the HTTP tests: requests whose header lines are sent as written, their answers, and the program as a command.
Standard library only."""

import contextlib
import json
import os
import socket
import struct
import subprocess
import unittest
from collections import namedtuple

from client import Raw, head
from daemon import PATIENCE, SCAN, Daemon, OneDaemonCase, voxeld_binary

SMALL = "point_cloud_range=0,0,0,4,4,4&voxel_size=1,1,1"  # few cells, for tests of other subjects
VOXELIZE_SMALL = f"/v1/voxelize?{SMALL}"
KITTI = "/v1/voxelize?preset=kitti_second"
JSON = "Accept: application/json"
CHUNKED = "Transfer-Encoding: chunked"
FORM = "Content-Type: application/x-www-form-urlencoded"  # of curl's uploads
CODES = {"F32": "f", "F16": "e", "I32": "i", "I64": "q", "U8": "B"}


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def scan(*options):
    return subprocess.run([SCAN, *options, "--output", "/dev/stdout"], check=True, stdout=subprocess.PIPE).stdout


def chunks(body, size=16384):
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


def message(path, *lines, method="GET", body=None, version="HTTP/1.1"):
    """The bytes of a request. With CHUNKED among its lines the body is chunked, else it has a length."""
    if body is not None and CHUNKED not in lines:
        lines = (f"Content-Length: {len(body)}", *lines)
    own_host = any(line.lower().startswith("host:") for line in lines)
    top = head(method, path, *lines, host=not own_host, version=version)
    return top + (chunks(body) if CHUNKED in lines else body or b"")


def ask(listener, path, *lines, method="GET", **more):
    """The answer to one request on a new connection. The server may refuse a request before it has taken the whole."""
    with Raw(listener) as connection:
        with contextlib.suppress(ConnectionError):
            connection.send(message(path, *lines, method=method, **more))
        while (reply := connection.read(method != "HEAD")).status < 200:
            pass
        return reply


class TensorFile:
    """A safetensors file. `shapes`: {name: (dtype, shape)}; `data`: the bytes of the tensors."""

    def __init__(self, file):
        (length,) = struct.unpack_from("<Q", file)
        self.header = json.loads(file[8 : 8 + length])
        self.metadata = json.loads(self.header.pop("__metadata__")["voxeld"])
        self.begin, self.data = 8 + length, file[8 + length :]
        self.shapes = {
            name: (tensor["dtype"], tensor["shape"])
            for name, tensor in self.header.items()
            if not name.startswith("_padding_")
        }

    def span(self, name):
        return slice(*self.header[name]["data_offsets"])

    def values(self, name):
        data, code = self.data[self.span(name)], CODES[self.header[name]["dtype"]]
        return struct.unpack(f"<{len(data) // struct.calcsize(code)}{code}", data)


Run = namedtuple("Run", "status output errors")


def run_voxeld(*arguments, env=None, cwd=None):
    """Runs the program as a command. Its environment has no VOXELD_... variables except those of `env`."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VOXELD_")}
    told = {"env": {**environment, **(env or {})}, "cwd": cwd, "timeout": PATIENCE}
    run = subprocess.run([voxeld_binary(), *arguments], capture_output=True, text=True, check=False, **told)
    return Run(run.returncode, run.stdout, run.stderr)


def has_ipv6():
    with socket.socket(socket.AF_INET6) as listener:
        try:
            listener.bind(("::1", 0))
        except OSError:
            return False
    return True


class HttpCase(unittest.TestCase):
    """Tests that start their daemons themselves."""

    LANES = ("--devices", "0", "--workers", "2", "--gpu-streams", "2")

    def start(self, *options, **more):
        """Starts the daemon that the test asks from now on. The daemon must end without an error."""
        self.daemon = self.enterContext(Daemon(*self.LANES, *options, **more))
        return self.daemon

    def ask(self, path, *lines, **more):
        return ask(self.daemon, path, *lines, **more)

    def post(self, path, body, *lines, **more):
        return ask(self.daemon, path, *lines, method="POST", body=body, **more)

    def ok(self, reply):
        self.assertEqual(reply.status, 200, reply)
        return reply

    def json(self, reply):
        """The document of a good answer."""
        self.assertIn("json", self.ok(reply).headers["Content-Type"], reply)
        return reply.json()

    def tensors(self, reply):
        """The file of a good answer."""
        self.assertEqual(self.ok(reply).headers["Content-Type"], "application/vnd.safetensors", reply)
        return TensorFile(reply.body)

    def problem(self, reply, status, kind, parameter="", reason=""):
        """Checks that the answer is this problem, with `reason` in its detail. Returns the document."""
        self.assertEqual((reply.status, reply.headers.get("Content-Type")), (status, "application/problem+json"), reply)
        problem = reply.json()
        got = (problem["type"], problem["status"], problem.get("parameter", ""), problem["request_id"])
        self.assertEqual(got, (f"urn:voxeld:problem:{kind}", status, parameter, reply.headers["X-Request-Id"]), reply)
        self.assertTrue(problem["title"] and problem["detail"], problem)
        self.assertIn(reason, problem["detail"])
        return problem


class SharedDaemonCase(HttpCase, OneDaemonCase):
    """Tests of one daemon. A test may start another daemon."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(*cls.LANES, *cls.ARGS)
