"""The log: clients cannot break its lines, and a reader that stalls delays no client."""

import json
import os
import pathlib
import re
import resource
import socket
import subprocess
import tempfile
import threading
import unittest

from client import PATIENCE, VOXELIZE, Daemon, Raw, counters, head, post, rows, wait_until
from daemon import BACKEND, voxeld_binary

LOGFMT = re.compile(r'(?:[a-z_]+=(?:"(?:[^"\\]|\\.)*"|[^ "=]+)(?: |$))+')
FIELD = re.compile(r'([a-z_]+)=("(?:[^"\\]|\\.)*"|[^ "]+)')
DROPPED = "voxeld_log_lines_dropped_total"
# Encoded quotes, ends of lines and bytes that are not UTF-8.
HOSTILE = '/%22%5c%0a%0d%09%01%7f%ff%fe%c3%28%ed%a0%80=x%20msg=listening%20"'


def logfmt(line):
    assert LOGFMT.fullmatch(line), line
    return {key: json.loads(value) if value[0] == '"' else value for key, value in FIELD.findall(line)}


def metric(daemon, name):
    lines = daemon.get("/metrics").body.decode().splitlines()
    return next(float(line.split()[1]) for line in lines if line.startswith(name + " "))


class Shelved(Daemon):
    """A daemon whose log is not read after the line msg=listening, until read_on is set."""

    def __init__(self, *args):
        self.read_on = threading.Event()
        super().__init__(*args)

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.decode())
            if "msg=listening" in line.decode():
                self.read_on.wait(PATIENCE)

    def ask_at_length(self, number, connection=None):
        """Sends a request with a long line in the log. Returns its id."""
        id = f"{number:0128d}"
        reply = self.request("GET", "/" + 180 * "x", None, {"X-Request-Id": id}, connection)
        assert reply.status == 404, reply
        return id

    def fill(self):
        """Sends requests with long lines until the log drops lines. Returns their ids."""
        connection, ids = self.connection(), []
        while len(ids) % 100 or not metric(self, DROPPED):
            ids.append(self.ask_at_length(len(ids), connection))
        connection.close()
        return ids


class Reader(unittest.TestCase):
    def shelved(self, *args):
        daemon = Shelved("--backend", "cpu", *args)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        self.addCleanup(daemon.read_on.set)
        return daemon

    def test_reader_that_does_not_read_stops_nobody(self):
        daemon = self.shelved()
        daemon.fill()
        self.assertEqual(daemon.post(VOXELIZE, rows(100)).status, 200)
        self.assertEqual(daemon.get("/v1/status").status, 200)
        dropped = metric(daemon, DROPPED)
        # The log may still have room for short lines.
        wait_until(lambda: daemon.ask_at_length(0) and metric(daemon, DROPPED) > dropped, "a long line to be dropped")
        daemon.terminate()
        self.assertEqual(daemon.process.wait(PATIENCE), 0)

    def test_reader_that_reads_again_is_told_what_it_missed(self):
        daemon = self.shelved()
        ids = daemon.fill()
        daemon.read_on.set()
        told = lambda: [logfmt(line.strip()) for line in list(daemon.lines) if "were dropped" in line]
        wait_until(lambda: sum(int(line["lines"]) for line in told()) == metric(daemon, DROPPED), "all drops reported")
        self.assertTrue(all(line["level"] == "warning" for line in told()))
        daemon.logged("")  # waits until the log has caught up: the stop does not wait long for the reader
        daemon.stop()
        lines = [logfmt(line.rstrip("\n")) for line in daemon.lines]
        logged = [line["id"] for line in lines if line.get("path") == "/" + 180 * "x"]
        self.assertEqual(logged, sorted(logged))
        self.assertLess(len(logged), len(ids))
        self.assertEqual(lines[-1]["msg"], "stopped")

    def test_reader_that_has_gone(self):
        read, write = os.pipe()
        with tempfile.TemporaryDirectory() as folder:
            with self.served(folder, stderr=write) as process:
                os.close(write)
                os.close(read)
                for _ in range(20):
                    self.assertEqual(self.ask(folder), 200)
                process.terminate()
                self.assertEqual(process.wait(PATIENCE), 0)

    def test_file_that_may_grow_no_more(self):
        """At the limit RLIMIT_FSIZE lines are dropped. SIGXFSZ does not end the daemon."""
        limit = 16384
        verbose = {**os.environ, "VOXELD_LOG_LEVEL": "debug"}
        with tempfile.TemporaryDirectory() as folder, open(f"{folder}/log", "wb") as log:
            size = lambda: os.fstat(log.fileno()).st_size
            with self.served(folder, stderr=log, env=verbose) as process:
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
                wait_until(lambda: self.ask(folder) == 200 and size() == limit, lambda: f"a full file, not {size()}")
                for _ in range(20):
                    self.assertEqual(self.ask(folder), 200)
                process.terminate()
                self.assertEqual(process.wait(PATIENCE), 0)

    def test_no_stderr_at_all(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.served(folder, "sh", "-c", 'exec "$0" "$@" <&- >&- 2>&-') as process:
                for _ in range(20):
                    self.assertEqual(self.ask(folder), 200)
                process.terminate()
                self.assertEqual(process.wait(PATIENCE), 0)

    # On a Unix socket, so that the test needs no log to know the address.
    def served(self, folder, *prefix, **streams):
        path = pathlib.Path(folder, "socket")
        command = [*prefix, voxeld_binary(), "--listen", f"unix:{path}", "--backend", BACKEND, "--workers", "1"]
        process = subprocess.Popen(command, **streams)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        wait_until(path.exists, "a socket")
        return process

    def ask(self, folder):
        """The status of /healthz. Checks that no line of the log got into the socket."""
        with socket.socket(socket.AF_UNIX) as plain:
            plain.settimeout(PATIENCE)
            wait_until(lambda: plain.connect_ex(str(pathlib.Path(folder, "socket"))) == 0, "a connection")
            plain.sendall(head("GET", "/healthz", "Connection: close"))
            answer = b"".join(iter(lambda: plain.recv(65536), b""))
        self.assertTrue(answer.startswith(b"HTTP/1.1 ") and answer.endswith(b"\r\n\r\nok\n"), answer)
        return int(answer.split()[1])


class Lines(unittest.TestCase):
    def test_probes_are_logged_at_debug_alone(self):
        for level, logged in (("info", 0), ("debug", 3)):
            with self.subTest(level), Daemon("--log-level", level) as daemon:
                for path in ("/healthz", "/readyz", "/metrics"):
                    self.assertEqual(daemon.get(path, {"X-Request-Id": "probe"}).status, 200)
                self.assertEqual(daemon.request("PUT", "/healthz", b"", {"X-Request-Id": "wrong"}).status, 405)
            # Now the daemon has stopped, so all lines are there.
            log = "".join(daemon.lines)
            self.assertEqual((log.count(" id=probe "), log.count(" id=wrong ")), (logged, 1))

    def test_access_log_has_all_requests_or_the_bad_ones_or_none(self):
        good, bad, aborted = '"good"', '"bad"', '"aborted"'
        kinds = {"all": {good, bad, aborted}, "errors": {bad, aborted}, "none": set()}
        for choice, logged in kinds.items():
            with self.subTest(choice):
                lines = self.lines_of("--log-format", "json", "--access-log", choice)
                requests = "".join(line for line in lines if json.loads(line)["msg"] == "request")
                self.assertEqual({kind for kind in (good, bad, aborted) if kind in requests}, logged)
                self.assertEqual(json.loads(lines[0])["msg"], "listening")
                self.assertEqual(json.loads(lines[-1])["msg"], "stopped")

    def test_access_log_has_what_the_library_answers(self):
        for choice, logged in (("errors", True), ("none", False)):
            with self.subTest(choice):
                with Daemon("--access-log", choice) as daemon, Raw(daemon) as connection:
                    connection.send_some(head("GET", "/healthz", *(f"X-{n}: {1000 * 'x'}" for n in range(400))))
                    counted = lambda: counters(daemon, "voxeld_requests_unparsed_total")['code="431"'] == 1
                    wait_until(counted, "an answer of the library to be counted")
                self.assertEqual("answered by libmicrohttpd" in daemon.log(), logged)

    def test_clients_that_leave_write_no_warnings(self):
        """Otherwise a client could push other lines out of the log."""
        with Daemon("--access-log", "none") as daemon:
            whole = post(rows(100))
            for sent in (whole[:20], whole[:-1]):
                with Raw(daemon) as connection:
                    connection.send_some(sent)
            ended = lambda: sum(counters(daemon, "voxeld_connections_ended_total").values()) >= 2
            wait_until(ended, "two connections to end")
        self.assertNotIn("msg=libmicrohttpd ", daemon.log())

    def lines_of(self, *args):
        """The log of a daemon after good and bad requests."""
        with (JsonDaemon if "json" in args else Daemon)(*args) as daemon:
            self.assertEqual(daemon.post(VOXELIZE, rows(10), {"X-Request-Id": "good"}).status, 200)
            self.assertEqual(daemon.post(VOXELIZE + "&max_voxels=0", b"", {"X-Request-Id": "bad"}).status, 400)
            with Raw(daemon) as connection:
                self.assertEqual(connection.send(head("GET", HOSTILE, "X-Request-Id: hostile")).read().status, 404)
            with Raw(daemon) as connection:
                odd = head("M" * 40, "/" + "%01" * 200, "X-Request-Id: long", "traceparent: no")
                self.assertEqual(connection.send(odd).read().status, 404)
            with Raw(daemon) as connection:
                connection.send(post(rows(10))[:-1])
                wait_until(lambda: daemon.status()["requests"]["active"] > 0, "an upload")
            daemon.assert_quiet()
        return [line.rstrip("\n") for line in daemon.lines]

    def test_json_and_logfmt_have_the_same_keys_and_values(self):
        plain = [logfmt(line) for line in self.lines_of()]
        parsed = [json.loads(line) for line in self.lines_of("--log-format", "json")]
        for lines in (plain, parsed):
            requests = {line["id"]: line for line in lines if line["msg"] == "request"}
            self.assertEqual(len(requests), sum(line["msg"] == "request" for line in lines))
            lines[:] = [requests[id] for id in ("good", "bad", "hostile", "long")]
            lines += [line for line in requests.values() if "aborted" in line]
            self.assertEqual(len(lines), 5)
        for one, other in zip(plain, parsed):
            self.assertEqual(list(one), list(other))
            for key in ("level", "client", "method", "endpoint", "path", "status", "reason", "detail", "aborted"):
                self.assertEqual(str(one.get(key)), str(other.get(key)), key)
        good, bad, hostile, long, aborted = parsed
        self.assertEqual((good["status"], good["level"], good["endpoint"]), (200, "info", "/v1/voxelize"))
        for key in ("ms", "receive_ms", "queue_ms", "run_ms", "send_ms"):
            self.assertGreaterEqual(good[key], 0)
        self.assertEqual((bad["status"], bad["reason"]), (400, "bad-parameter"))
        self.assertIn('"\\\n\r\t\x01\x7f\ufffd', hostile["path"])
        self.assertEqual(len(long["method"]), 15)
        self.assertEqual(aborted["aborted"], "upload")

    def test_line_that_is_too_long_is_cut_between_fields(self):
        long = next(line for line in self.lines_of("--log-format", "json") if '"id":"long"' in line)
        self.assertLess(len(long), 2048)
        self.assertTrue(json.loads(long)["cut"])

    def test_user_and_password_of_a_whole_url_and_its_query_are_not_logged(self):
        with Daemon() as daemon:
            for scheme in ("http", "HTTPS"):
                url = f"{scheme}://me:secret@there/nowhere?key=secret"
                with Raw(daemon) as connection:
                    reply = connection.send(head("GET", url, f"X-Request-Id: {scheme}")).read()
                self.assertEqual(reply.status, 404)
        paths = {line.get("id"): line.get("path") for line in map(logfmt, map(str.strip, daemon.lines))}
        self.assertEqual((paths["http"], paths["HTTPS"]), ("/nowhere", "/nowhere"))
        self.assertNotIn("secret", "".join(daemon.lines))

    def test_where_it_listens_is_logged_at_every_level(self):
        with Daemon("--log-level", "error") as daemon:
            daemon.get("/nowhere")
        self.assertEqual([logfmt(line.strip())["msg"] for line in daemon.lines], ["listening", "stopped"])


class JsonDaemon(Daemon):
    def _address(self):
        for line in list(self.lines):
            if json.loads(line)["msg"] == "listening":
                return json.loads(line)["address"]
        return None


if __name__ == "__main__":
    unittest.main()
