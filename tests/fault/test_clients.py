"""Clients that vanish in each phase of a request, do not read their answer, or occupy connections."""

import concurrent.futures
import contextlib
import socket
import threading
import unittest

from client import HEAVY, LONG, LONG_POINTS, MB, VOXELIZE, Crowd, FaultCase, Raw
from client import counters, head, heavy_rows, many_rows, post, rows, tiled_rows, wait_until

# The answer to LARGE_BODY has 16 MB: 276 voxels, each with 1024 rows of 4 columns and 1024 of 10.
LARGE = VOXELIZE + "&feature=points,pillar&max_points_per_voxel=1024"
LARGE_BODY = rows(400)


class Gone(FaultCase):
    ARGS = (
        "--workers",
        "1",
        "--backend",
        "cpu",
        "--queue-depth",
        "64",
        "--upload-timeout-s",
        "2",
        "--idle-timeout-s",
        "3",
        "--max-timeout-ms",
        "3600000",
    )

    def leave_both_ways(self, begin):
        for leave in (Raw.close, Raw.reset):
            for _ in range(5):
                connection = Raw(self.daemon)
                begin(connection)
                leave(connection)
        self.daemon.assert_quiet()

    def test_before_a_byte_is_sent(self):
        self.leave_both_ways(lambda connection: None)

    def test_in_the_head(self):
        self.leave_both_ways(lambda connection: connection.send(head("POST", VOXELIZE, "Content-Length: 64")[:40]))

    def test_between_head_and_body(self):
        self.leave_both_ways(lambda connection: connection.send(head("POST", VOXELIZE, "Content-Length: 64")))

    def test_after_100_continue(self):
        def begin(connection):
            connection.send(head("POST", VOXELIZE, "Content-Length: 64", "Expect: 100-continue")).read()

        self.leave_both_ways(begin)

    def test_as_soon_as_all_is_sent(self):
        self.leave_both_ways(lambda connection: connection.send(post(rows(4))))
        self.leave_both_ways(lambda connection: connection.send(post(LARGE_BODY, LARGE)))
        self.leave_both_ways(lambda connection: connection.send(post(rows(4), VOXELIZE + "&order=x")))

    def test_while_the_job_waits_or_runs(self):
        heavy = heavy_rows()
        for leave in (Raw.close, Raw.reset):
            crowd = Crowd(self.daemon, 6, HEAVY, heavy)
            wait_until(lambda: self.daemon.status()["queue"]["depth"] >= 1 or not crowd.waiting(), "jobs that wait")
            leaving = [Raw(self.daemon).send(post(rows(100))) for _ in range(10)]
            leaving += [Raw(self.daemon).send(post(heavy, HEAVY)) for _ in range(2)]
            for connection in leaving:
                leave(connection)
            for reply in crowd.join():
                self.assertEqual(reply.status, 200, reply)
            self.daemon.assert_quiet()

    def test_in_the_middle_of_the_answer(self):
        def begin(connection):
            connection.send(post(LARGE_BODY, LARGE)).socket.recv(1000)

        self.leave_both_ways(begin)

    def test_between_pipelined_requests(self):
        self.leave_both_ways(lambda connection: connection.send(post(LARGE_BODY, LARGE) * 5 + post(rows(4))[:-7]))

    def test_answers_outlive_the_connection(self):
        """A line that is not a request, or Connection: close, ends the connection."""
        for name, data in {
            "no request": head("GET", "/metrics") + b"NONSENSE\r\n\r\n",
            "unread": head("GET", "/metrics", "Connection: close") + head("GET", "/healthz"),
            "later": head("GET", "/metrics", "Connection: close"),
        }.items():
            with self.subTest(name):
                connection = self.raw(receive_buffer=4096).send(data)
                wait_until(lambda: self.daemon.status()["connections"]["open"] == 1, "the end of the connection")
                connection.send_some(b"GET / HTTP/1.1\r\n")
                self.assertEqual(connection.read().status, 200)
                self.assertTrue(connection.ended())
        self.daemon.assert_quiet()

    def test_client_that_does_not_read_its_answer(self):
        connections = [self.raw(receive_buffer=4096).send(post(LARGE_BODY, LARGE)) for _ in range(4)]
        self.daemon.assert_quiet()
        self.assert_voxels(self.daemon.post(VOXELIZE, rows(4)))
        for connection in connections:
            self.assertTrue(connection.ended())

    def test_client_that_reads_slowly_gets_all(self):
        connection = self.raw().send(post(LARGE_BODY, LARGE))
        pieces = []
        for _ in range(10):  # the pauses together are longer than the idle timeout
            pieces.append(connection.socket.recv(MB, socket.MSG_WAITALL))
            self.assertTrue(pieces[-1])
            threading.Event().wait(0.4)  # the pace of the reader
        connection.pending = b"".join(pieces)
        self.assert_voxels(connection.read())

    def test_half_closed_clients_whose_jobs_wait(self):
        crowd = Crowd(self.daemon, 6, HEAVY, heavy_rows())
        wait_until(lambda: self.daemon.status()["queue"]["depth"] >= 1 or not crowd.waiting(), "jobs that wait")
        connections = [self.raw().send(post(rows(100))) for _ in range(20)]
        for connection in connections:
            connection.finish_sending()
        for connection in connections:
            self.assert_voxels(connection.read_final())
            self.assertTrue(connection.ended())
        crowd.join()

    def test_chaos(self):
        def rude(number):
            for turn in range(12):
                connection = Raw(self.daemon)
                data = post(tiled_rows(300_000), (VOXELIZE, LARGE, VOXELIZE + "&order=x", "/nowhere")[turn % 4])
                try:
                    connection.send(data[: len(data) * (number + turn) // 18])
                    if turn % 5 == 0:
                        connection.finish_sending()
                except OSError:
                    pass
                (connection.reset if (number + turn) % 2 else connection.close)()

        def polite(number):
            connection = self.daemon.connection()
            for _ in range(15):
                reply = self.daemon.post(VOXELIZE, rows(50, number), connection=connection)
                if reply.status != 503:
                    self.assert_voxels(reply)
            connection.close()

        with concurrent.futures.ThreadPoolExecutor(12) as clients:
            for done in [clients.submit(rude if n % 2 else polite, n) for n in range(12)]:
                done.result()
        self.daemon.assert_quiet()


class Connections(FaultCase):
    # One address may have half of the connections that the others leave free.
    ARGS = ("--max-connections", "16", "--idle-timeout-s", "90", "--long-workers", "1", "--gpu-long-streams", "1")
    ARGS += ("--max-sampling-work", str(10**13), "--max-timeout-ms", "3600000")

    def setUp(self):
        super().setUp()
        wait_until(lambda: self.connections_at_most(1), "the ends of the last test's connections")

    def tearDown(self):
        # Closed connections do not end at once.
        wait_until(lambda: self.exchange(head("GET", "/healthz")).status == 200, "room for a connection")
        super().tearDown()

    def refused(self, reply):
        self.assert_problem(reply, 429)
        self.assertEqual(reply.headers["Connection"], "close")

    def refusals(self, reason):
        """The refusals for this reason; -1 if the request for /metrics is refused too."""
        return counters(self.daemon, "voxeld_refusals_total").get(f'reason="{reason}"', -1)

    def until_counted(self, reason, before):
        wait_until(lambda: self.refusals(reason) > before, f"a refusal by {reason} to be counted")

    def begin(self, source=None):
        """A connection with a long job. Such a connection does not make room for others."""
        connection = self.raw(source=source)
        with contextlib.suppress(ConnectionError):  # a refused request may be cut off in its body
            connection.send(post(many_rows(LONG_POINTS), LONG))
        return connection

    def fill(self, operator, busy):
        """Begins long jobs until one is refused."""
        active = lambda: self.daemon.request("GET", "/v1/status", connection=operator).json()["requests"]["active"]
        while True:
            last = self.begin()
            wait_until(lambda: last.readable(0) or active() > len(busy), "a job under way, or refused")
            if last.readable(0):
                self.refused(last.read())
                return
            busy.append(last)

    def test_clients_own_connections_are_too_many(self):
        operator = self.daemon.connection(source="127.0.0.99")
        self.addCleanup(operator.close)
        before, busy = self.refusals("client-over-share"), [self.begin()]
        wait_until(lambda: self.daemon.status()["long_workers"]["running"] == 1, "a long job that runs")
        short = self.raw().send(post(rows(10), "/v1/fps?num_samples=3"))
        busy.append(short)
        # The operator has one of 16 connections. The client may have 7 of the others. Connections of earlier tests may
        # take a moment to end.
        wait_until(lambda: self.fill(operator, busy) or len(busy) == 7, lambda: f"7 under way, there are {len(busy)}")
        self.refused(self.exchange(post(tiled_rows(MB))))  # the daemon reads the whole body: no reset loses the answer
        self.assertEqual(self.daemon.get("/healthz", source="127.0.0.2").status, 200)
        self.assertFalse(short.readable(0))
        for connection in busy:
            if connection != short:
                connection.reset()
        self.assert_voxels(short.read())
        short.close()
        wait_until(lambda: self.connections_at_most(2), "their ends")
        self.until_counted("client-over-share", before)

    def test_all_connections_are_in_use(self):
        busy, before = [], self.refusals("connections-full")

        def full():
            if self.exchange(head("GET", "/healthz")).status == 503:
                return True
            # Each job comes from a different client, since a client has a share of the connections.
            busy.append(self.begin(f"127.0.0.{2 + len(busy)}"))
            return False

        wait_until(full, "a 503")
        busy.pop(0).reset()
        wait_until(lambda: self.exchange(head("GET", "/healthz")).status == 200, "a 200")
        for connection in busy:
            connection.reset()
        wait_until(lambda: self.connections_at_most(2), "their ends")
        self.until_counted("connections-full", before)

    def test_idle_connections_make_room_for_new_ones(self):
        for number in range(40):
            self.raw().send(head("GET", "/healthz")[: number % 10])
        wait_until(lambda: self.exchange(head("GET", "/healthz")).status == 200, "a 200")

    def test_limit_reached_then_freed(self):
        def ended():  # without the connections that ended as usual, such as those of counters()
            reasons = counters(self.daemon, "voxeld_connections_ended_total")
            return sum(number for reason, number in reasons.items() if "usual" not in reason)

        for _ in range(5):
            before, occupying = ended(), [Raw(self.daemon) for _ in range(40)]
            for connection in occupying:
                connection.close()
            # An I/O thread may see a new connection before it sees these ends.
            wait_until(lambda: ended() >= before + len(occupying), "the ends")
            self.assert_voxels(self.daemon.post(VOXELIZE, rows(4)))

    def test_more_clients_than_connections_are_all_served(self):
        def client(number):
            while (reply := self.daemon.post(VOXELIZE, rows(20, number))).status == 429:
                self.refused(reply)
            self.assert_voxels(reply)

        with concurrent.futures.ThreadPoolExecutor(16) as clients:
            list(clients.map(client, range(100)))

    def test_idle_clients_cost_the_others_nothing(self):
        with Raw(self.daemon, source="127.0.0.2"), Raw(self.daemon, source="127.0.0.2"):
            for _ in range(20):
                self.assert_voxels(self.daemon.post(VOXELIZE, rows(20)))


class SlowReader(FaultCase):
    ARGS = ("--send-timeout-s", "1", "--idle-timeout-s", "86400")

    def test_client_that_takes_too_long_over_its_answer_is_cut_off(self):
        connection = self.raw(receive_buffer=4096).send(post(LARGE_BODY, LARGE))
        wait_until(lambda: self.daemon.status()["buffers"]["in_use_bytes"] >= MB, "an answer under way")

        def cut_off():
            connection.socket.recv(1000)  # the client is slow, but not idle
            return self.daemon.status()["buffers"]["in_use_bytes"] == 0

        wait_until(cut_off, "the answer's memory to be given back")
        self.daemon.assert_quiet()


if __name__ == "__main__":
    unittest.main()
