"""Listeners for pages only (--pages-listen) answer, whatever clients of other listeners do."""

import contextlib
import http.client
import re
import resource
import subprocess
import unittest

from client import VOXELIZE, Daemon, FaultCase, Raw, counters, head, post, rows, wait_until
from daemon import BACKEND, voxeld_binary
from sources import HTTPConnection

PAGES = ("/healthz", "/readyz", "/metrics", "/v1/status", "/v1/presets", "/v1/presets/kitti_second", "/openapi.yaml")
PAGE_CONNECTIONS = 64
# Uploads go on until the test ends them.
SLOW = ("--upload-min-rate", "0", "--upload-timeout-s", "3000", "--idle-timeout-s", "3600", "--send-timeout-s", "3000")


class PagesDaemon(Daemon):
    def __init__(self, *args):
        super().__init__("--pages-listen", "127.0.0.1:0", *SLOW, *args)

    def page_connection(self, source=None):
        return HTTPConnection(*self.pages, timeout=60, source_address=source and (source, 0))

    def page(self, path, source=None):
        with contextlib.closing(self.page_connection(source)) as connection:
            return self.request("GET", path, connection=connection)

    def probe(self):
        command = [voxeld_binary(), "--probe", "--pages-listen", "%s:%d" % self.pages]
        return subprocess.run(command, capture_output=True, text=True, check=False)


class ToPages:
    """In place of a daemon, for Raw: connects to the listener for pages."""

    def __init__(self, daemon):
        self.daemon = daemon

    def socket(self, receive_buffer=None, source=None):
        connection = self.daemon.page_connection(source)
        connection.connect()
        return connection.sock


class PageListener(FaultCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = PagesDaemon("--max-connections", "600")

    def setUp(self):
        super().setUp()
        left = lambda: counters(self.daemon, "voxeld_page_connections")[""]
        wait_until(lambda: left() == 0, "the end of the last test's connections")

    def slow_uploads(self, number, source):
        """Opens `number` connections with bodies that do not end. The daemon may refuse some."""
        for n in range(number):
            with contextlib.suppress(OSError):  # refused
                self.raw(source=source(n)).send(head("POST", VOXELIZE, "Content-Length: 1600") + rows(3))

    def ended(self):
        """Ended connections so far, by reason."""
        return counters(self.daemon, "voxeld_connections_ended_total", self.daemon.page)

    def without_place(self):
        """Connections so far that the daemon refused, or ended to make room."""
        ended = self.ended()
        return sum(ended[f'reason="{reason}"'] for reason in ("client_over_share", "connections_full", "preempted"))

    def pages_answer(self, source=None):
        for path in PAGES:
            self.assertEqual(self.daemon.page(path, source).status, 200, path)
        # On a loaded machine the daemon may take longer than 1 s, the limit of a probe.
        wait_until(lambda: self.daemon.probe().returncode == 0, lambda: self.daemon.probe().stderr)

    def test_slow_uploads_of_one_address(self):
        before = self.without_place()
        self.slow_uploads(500, lambda n: None)
        for _ in range(20):
            self.pages_answer()
        wait_until(lambda: self.without_place() > before, lambda: f"one over an address's share; {self.ended()}")
        self.doCleanups()
        wait_until(lambda: self.connections_at_most(1), "the end of the uploads")

    def test_slow_uploads_of_many_addresses(self):
        before = self.without_place()
        self.slow_uploads(800, lambda n: f"127.1.{n // 250}.{n % 250 + 1}")
        for source in (None, "127.1.0.1", "127.2.0.1"):
            self.pages_answer(source)
        wait_until(lambda: self.without_place() > before, lambda: f"one without a place; {self.ended()}")
        self.doCleanups()
        wait_until(lambda: self.connections_at_most(1), "the end of the uploads")

    def test_pages_need_no_place_of_the_others(self):
        kept = [self.daemon.page_connection(f"127.0.3.{n + 1}") for n in range(PAGE_CONNECTIONS // 2)]
        for connection in kept:
            self.addCleanup(connection.close)
            self.assertEqual(self.daemon.request("GET", "/readyz", connection=connection).status, 200)
        self.assertLessEqual(self.daemon.status()["connections"]["open"], 1)

    def test_idle_ones_make_room(self):
        for n in range(3 * PAGE_CONNECTIONS):
            self.addCleanup(Raw(ToPages(self.daemon), source=f"127.0.4.{n + 1}").close)
        for path in PAGES:
            wait_until(lambda: self.daemon.page(path).status == 200, "an idle connection to make room")

    def test_a_kept_connection(self):
        with contextlib.closing(self.daemon.page_connection()) as connection:
            for path in PAGES * 3:
                self.assertEqual(self.daemon.request("GET", path, connection=connection).status, 200)
                self.assertTrue(connection.sock)

    def test_nothing_else_is_served(self):
        for data in (
            post(rows(4)),
            post(b""),
            head("GET", VOXELIZE),
            head("POST", "/v1/fps", "Content-Length: 99"),
            head("DELETE", "/v1/streams/s"),
        ):
            with Raw(ToPages(self.daemon)) as connection:
                reply = connection.send(data).read()
                self.assert_problem(reply, 404, mentions=("--pages-listen", "at an address of --listen"))
                self.assert_closes(connection, reply)

    def test_nothing_is_changed(self):
        unregister = head("POST", "/v2/systemsharedmemory/unregister", "Content-Length: 0")
        with Raw(ToPages(self.daemon)) as connection:
            reply = connection.send(unregister).read()
        self.assertEqual(reply.status, 404)
        self.assertIn("at an address of --listen", reply.json()["error"])

    def test_no_body_is_awaited(self):
        for line in ("Content-Length: 1600", "Transfer-Encoding: chunked", "Content-Length: 99999999999"):
            with Raw(ToPages(self.daemon)) as connection:
                reply = connection.send(head("GET", "/healthz", line)).read()
                self.assert_problem(reply, 413, mentions=("takes no body",))
                self.assert_closes(connection, reply)
        with Raw(ToPages(self.daemon)) as connection:
            reply = connection.send(head("POST", "/nowhere", "Content-Length: 1600")).read()
            self.assert_problem(reply, 404)
            self.assert_closes(connection, reply)

    def test_rude_clients(self):
        upload = head("POST", VOXELIZE, "Content-Length: 16")
        for data in (b"", b"GET", head("GET", "/openapi.yaml"), upload, b"\0\r\n\r\n"):
            for leave in (Raw.close, Raw.reset):
                connection = Raw(ToPages(self.daemon)).send(data)
                leave(connection)
        self.pages_answer()


class Descriptors(unittest.TestCase):
    def test_no_more_than_needed(self):
        # The daemon gets only the descriptors that it asks for. Each refused connection takes a descriptor for a
        # moment, but pages must get theirs.
        few_connections = ("--max-connections", "100")
        command = [voxeld_binary(), "--backend", BACKEND, "--listen", "127.0.0.1:0", "--pages-listen", "127.0.0.1:0"]
        few = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))
        refused = subprocess.run(
            [*command, *few_connections], capture_output=True, text=True, check=False, preexec_fn=few
        )
        self.assertEqual(refused.returncode, 2)
        wanted = int(re.search(r"max_connections needs (\d+) open files", refused.stderr)[1])
        with PagesDaemon(*few_connections) as daemon:
            resource.prlimit(daemon.pid(), resource.RLIMIT_NOFILE, (wanted, wanted))
            uploads = []
            for n in range(900):
                with contextlib.suppress(OSError):
                    uploads.append(Raw(daemon, source=f"127.1.{n // 250}.{n % 250 + 1}").send(head("POST")))
                if n % 50 == 0:
                    self.assertEqual(daemon.page("/readyz").status, 200)
            for _ in range(20):
                self.assertEqual(daemon.page("/metrics").status, 200)
            for upload in uploads:
                upload.close()


class Draining(unittest.TestCase):
    def test_pages_answer_until_its_end(self):
        daemon = PagesDaemon("--drain-timeout-s", "86400")
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        body = rows(100)
        upload = Raw(daemon).send(head("POST", VOXELIZE, f"Content-Length: {len(body)}") + body[:64])
        self.addCleanup(upload.close)
        wait_until(lambda: daemon.status()["requests"]["active"] > 0, "the upload begun")
        self.assertEqual(daemon.page("/readyz").status, 200)
        daemon.terminate()
        wait_until(lambda: daemon.page("/readyz").status == 503, "a daemon that drains")
        wait_until(lambda: daemon.post(VOXELIZE, body).status == 503, "refused requests")
        for _ in range(10):
            self.assertEqual(daemon.page("/readyz").status, 503)
            self.assertEqual(daemon.page("/healthz").status, 200)
        self.assertIn(b"\nvoxeld_ready 0\n", daemon.page("/metrics").body)
        self.assertEqual(upload.send(body[64:]).read().status, 200)
        try:
            while True:  # ends with an error when the daemon no longer listens
                self.assertEqual(daemon.page("/readyz").status, 503)
        except (OSError, http.client.HTTPException):
            pass
        self.assertEqual(daemon.wait(), 0, daemon.log())


if __name__ == "__main__":
    unittest.main()
