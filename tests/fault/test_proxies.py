"""Each client behind a trusted proxy has its own share."""

import unittest

from client import LONG, LONG_POINTS, VOXELIZE, FaultCase, counters, head, many_rows, post, rows, wait_until

PROXY, ANOTHER = "127.0.0.7", "127.0.0.8"
SHORT = "/v1/fps?num_samples=3"


class Proxies(FaultCase):
    # One client may have two of four queue slots, and eight of 16 connections.
    ARGS = ("--trusted-proxies", "127.0.0.7,10.0.0.0/8", "--queue-depth", "4", "--max-connections", "16")
    ARGS += ("--long-workers", "1", "--gpu-long-streams", "1", "--max-sampling-work", str(10**13))
    ARGS += ("--max-timeout-ms", "3600000")

    def ask(self, forwarded, source=PROXY, path=VOXELIZE):
        """Sends a request with a header X-Forwarded-For for each line of `forwarded`; None: without the header."""
        lines = [] if forwarded is None else [f"X-Forwarded-For: {line}" for line in forwarded.split("\n")]
        return self.raw(source=source).send(post(rows(10), path, *lines)).read()

    def begin(self, forwarded, source=PROXY):
        """A long job, which holds its queue slot until it begins."""
        return self.raw(source=source).send(post(many_rows(LONG_POINTS), LONG, f"X-Forwarded-For: {forwarded}"))

    def end_all(self):
        while self.opened:
            self.opened.pop().reset()

    def places(self):
        return counters(self.daemon, "voxeld_queue_slots")['lanes="long"']

    def logged(self, identity):
        wait_until(lambda: f" id={identity} " in self.daemon.log(), "the request's line")
        return next(line for line in self.daemon.log().splitlines() if f" id={identity} " in line)

    def log_of(self, forwarded, source=PROXY):
        reply = self.ask(forwarded, source)
        self.assert_voxels(reply)
        return self.logged(reply.headers["X-Request-Id"])

    def test_the_log_names_the_client_and_the_proxy(self):
        self.assertIn(f" client=203.0.113.9 proxy={PROXY} ", self.log_of("203.0.113.9"))
        self.assertIn(" client=203.0.113.9 ", self.log_of("192.0.2.1, 203.0.113.9, 10.1.2.3"))
        self.assertIn(" client=203.0.113.9 ", self.log_of("192.0.2.1\n203.0.113.9\n10.1.2.3"))
        self.assertIn(
            " client=203.0.113.9 ", self.log_of("\n".join(9 * ["192.0.2.1"] + ["203.0.113.9"] + 7 * ["10.1.2.3"]))
        )

    def test_a_nul_in_it_is_refused(self):
        head = b"GET /v1/status HTTP/1.1\r\nHost: voxeld\r\nX-Forwarded-For: 203.0.113.9\0, 203.0.113.10\r\n\r\n"
        self.assert_refused(self.raw(source=PROXY).send(head).read(), 400, mentions=["NUL"])

    def test_whoever_is_not_trusted_names_nobody(self):
        line = self.log_of("203.0.113.9", source=ANOTHER)
        self.assertIn(f" client={ANOTHER} ", line)
        self.assertNotIn("proxy=", line)

    def test_a_proxy_that_names_nobody_counts_itself(self):
        for forwarded in (None, "", "unknown", "203.0.113.9, not an address"):
            with self.subTest(forwarded):
                self.assertIn(f" client={PROXY} ", self.log_of(forwarded))

    def fill_share(self, forwarded, source=PROXY):
        self.opened.append(self.begin(forwarded, source))
        wait_until(lambda: self.daemon.status()["long_workers"]["running"] == 1, "a long job that runs")
        self.opened += [self.begin(forwarded, source), self.begin(forwarded, source)]
        wait_until(lambda: self.places() == 2, "the places of those that wait")

    def test_clients_of_one_proxy_have_shares_of_their_own(self):
        self.fill_share("203.0.113.9")
        self.assert_problem(self.ask("203.0.113.9", path=SHORT), 429)
        # A client may forge all addresses but the last.
        self.assert_problem(self.ask("198.51.100.1, 203.0.113.9", path=SHORT), 429)
        others = [
            self.raw(source=PROXY).send(post(rows(10), SHORT, f"X-Forwarded-For: {client}"))
            for client in ("203.0.113.10", "2001:db8::1")
        ]
        wait_until(lambda: self.places() == 4, "the places of the others")
        self.end_all()
        self.assertEqual([other.read().status for other in others], [200, 200])

    def test_without_trust_they_are_one_client(self):
        self.fill_share("203.0.113.9", ANOTHER)
        self.assert_problem(self.ask("203.0.113.10", ANOTHER, SHORT), 429)

    def connections(self, source, number):
        """The statuses of requests on `number` connections, all open at the same time."""
        opened = [self.raw(source=source).send(head("GET", "/healthz")) for _ in range(number)]
        statuses = [connection.read().status for connection in opened]
        self.opened += opened
        return statuses

    def setUp(self):
        super().setUp()
        wait_until(lambda: self.connections_at_most(1), "the ends of the last test's connections")
        self.opened = []

    def tearDown(self):
        self.end_all()
        wait_until(lambda: self.connections_at_most(8), "a free connection for the status")
        super().tearDown()

    def test_a_proxy_may_have_all_connections_but_an_eighth(self):
        self.assertEqual(self.connections(PROXY, 12), [200] * 12)
        statuses = self.connections(PROXY, 6)
        self.assertIn(503, statuses)
        self.assertNotIn(429, statuses)
        self.assertEqual(self.daemon.get("/healthz", source=ANOTHER).status, 200)

    def test_another_has_half_of_the_connections(self):
        self.assertIn(429, self.connections(ANOTHER, 14))


class UnixSocket(FaultCase):
    ARGS = ("--trusted-proxies", "unix")

    def test_tcp_is_not_trusted_then(self):
        reply = self.raw().send(post(rows(10), VOXELIZE, "X-Forwarded-For: 203.0.113.9")).read()
        identity = reply.headers["X-Request-Id"]
        wait_until(lambda: f" id={identity} " in self.daemon.log(), "the request's line")
        self.assertNotIn("203.0.113.9", self.daemon.log())


if __name__ == "__main__":
    unittest.main()
