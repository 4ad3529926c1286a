"""Floods by many clients: endless heads, bodies, chunks and pipelines, clients that send byte by byte or do not read.

During each flood another client is served, memory stays within a bound, and refusals are counted by reason."""

import concurrent.futures
import threading
import time
import unittest

from client import MB, PATIENCE, VOXELIZE, Bystander, Closed, FaultCase, Raw, counters, head, is_sanitized, post, rows
from client import tiled_rows, wait_until

BUDGET = 48 * MB
LIMIT = 2 * MB
CONNECTIONS = 100
# Of the 327 KiB for each connection in docs/operate/tuning.md, libmicrohttpd takes 256. A request without lists takes
# up to 17 of the rest. Scans are small here, so OWN has room for the scratch and the program.
BOUND = BUDGET + CONNECTIONS * (256 + 17) * 1024
OWN = 16 * MB
OTHERS = ("127.0.0.21", "127.0.0.22")  # two clients, since one may not hold two answers of LARGE
CHUNKED = head("POST", VOXELIZE, "Transfer-Encoding: chunked")
PACE = 0.02  # s; between the requests of the bystander
LARGE = VOXELIZE + "&feature=points,pillar&max_points_per_voxel=1024"  # 9 MB for rows(200)


def endless(piece):
    while True:
        yield piece


class Abuse(FaultCase):
    ARGS = (
        *("--backend", "cpu", "--workers", "1", "--long-workers", "1", "--max-connections", str(CONNECTIONS)),
        *("--memory-budget-bytes", str(BUDGET), "--max-body-bytes", str(LIMIT), "--max-response-bytes", str(16 * MB)),
        # Long, since on a busy machine the test itself may stall.
        *("--idle-timeout-s", "6", "--upload-timeout-s", "5", "--send-timeout-s", "3", "--upload-min-rate", "0"),
    )

    def setUp(self):
        self.daemon.await_accounts()
        self.daemon.forget_peak()
        self.refused = counters(self.daemon, "voxeld_refusals_total")
        self.aborted = sum(counters(self.daemon, "voxeld_requests_aborted_total").values())

    def tearDown(self):
        super().tearDown()
        if not is_sanitized():
            self.assertLess(self.daemon.peak_bytes(), BOUND + OWN)

    def refusals(self, reason):
        """The refusals for this reason since the test began."""
        label = f'reason="{reason}"'
        return counters(self.daemon, "voxeld_refusals_total")[label] - self.refused[label]

    def assert_counted(self, number, count, *reasons):
        """Waits until the sum of count(reason), or count(), is `number`."""
        total = lambda: sum(count(reason) for reason in reasons) if reasons else count()
        wait_until(lambda: total() >= number, lambda: f"{number} counted, there are {total()}")
        self.assertEqual(total(), number)

    def aborts(self):
        return sum(counters(self.daemon, "voxeld_requests_aborted_total").values()) - self.aborted

    def flood(self, begin, pieces, most=64 * MB):
        """Sends `begin`, then pieces until the server answers or closes, within `most` bytes. Returns the statuses."""
        with Raw(self.daemon) as connection:
            sent = 0
            try:
                connection.send(begin)
                for piece in pieces:
                    self.assertLess(sent, most, "taken without end")
                    sent += len(piece)
                    connection.send(piece)
                    if connection.readable(0):
                        break
            except ConnectionError:
                pass
            statuses = []
            try:
                while True:
                    statuses.append(connection.read().status)
            except Closed:
                return statuses

    def flood_by_many(self, clients, begin, piece, most=64 * MB):
        with Bystander(self.daemon, pace=PACE) as bystander, concurrent.futures.ThreadPoolExecutor(clients) as pool:
            results = list(pool.map(lambda _: self.flood(begin, endless(piece), most), range(clients)))
        self.assertGreater(bystander.served, 0)
        return [status for statuses in results for status in statuses]

    # --- floods ---

    def test_heads_without_end(self):
        begun = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
        # libmicrohttpd moves the buffer at each folded header: under TSan, eight such heads starve all clients.
        clients = 2 if is_sanitized() else 8
        for begin, piece in (
            (begun, b"X-Flood: " + b"x" * 1000 + b"\r\n"),
            (begun, b"a: b\r\n" * 1000),
            (begun + b"X: ", b"x" * 4000),
            (begun + b"X: y", b"\r\n folded" * 500),
            (begun, b"no colon\r\n" * 500),
            (b"GET /", b"a" * 4000),
            (b"GET /healthz?", b"a=b&" * 1000),
            (b"", b"X" * 4000),
            (b"GET /healthz HTTP/1.1", b" " * 4000),
        ):
            with self.subTest(begin=begin[-20:], piece=piece[:20]):
                for status in self.flood_by_many(clients, begin, piece):
                    self.assertIn(status, (400, 413, 414, 431, 505))

    def test_blank_lines_without_end(self):
        # A connection that sends only empty lines counts as idle.
        def blank():
            while True:
                time.sleep(0.01)  # the pace of the client
                yield b"\r\n" * 100

        self.assertIn(self.flood(b"", blank()), ([], [400]))

    def test_chunked_bodies_without_end(self):
        chunk = b"%x\r\n" % 65536 + bytes(65536) + b"\r\n"
        for path in (VOXELIZE, "/v1/fps?num_samples=1", VOXELIZE + "&order=x"):
            begin = head("POST", path, "Transfer-Encoding: chunked")
            self.assertEqual(set(self.flood_by_many(6, begin, chunk)), {413})
        self.assert_counted(18, self.refusals, "body-too-large")

    def test_chunks_of_one_byte_without_end(self):
        statuses = self.flood_by_many(4, CHUNKED, b"1\r\nx\r\n" * 1000)
        self.assertEqual(len(statuses), 4)
        self.assertLessEqual(set(statuses), {408, 413})
        self.assert_counted(4, self.refusals, "body-stalled", "body-too-large")

    def test_chunk_extensions_without_end(self):
        for piece in (b"x" * 4000, b";a=b" * 1000):
            # libmicrohttpd itself answers 500. From 1.0 on the connection ends, or the body stalls.
            allowed = {408} if self.daemon.library() >= (1,) else {500}
            self.assertLessEqual(set(self.flood_by_many(6, CHUNKED + b"10;x=", piece)), allowed)
        self.assert_counted(12, lambda: self.aborts() + self.refusals("body-stalled"))

    def test_trailers_without_end(self):
        begin = CHUNKED + b"10\r\n" + bytes(16) + b"\r\n0\r\n"
        self.assertEqual(self.flood_by_many(6, begin, b"X-Trailer: " + b"x" * 1000 + b"\r\n"), [431] * 6)
        self.assert_counted(6, self.aborts)

    # --- pipelines ---

    def test_hundreds_of_pipelined_requests(self):
        body = rows(20)
        chunked = b"140\r\n" + body + b"\r\n0\r\n\r\n"
        kinds = (
            (post(body), 200),
            (post(body, "/v1/fps?num_samples=5"), 200),
            (head("GET", "/healthz"), 200),
            (post(body, VOXELIZE + "&order=x"), 400),
            (head("POST", VOXELIZE, "Transfer-Encoding: chunked") + chunked, 200),
            (post(body, "/v1/fps?num_samples=21"), 422),
            (post(body[:-1]), 400),
            (head("GET", "/nowhere"), 404),
        )
        with Bystander(self.daemon, pace=PACE), self.raw() as connection:
            order = [kinds[n * 5 % len(kinds)] for n in range(400)]
            sender = threading.Thread(target=lambda: connection.send(b"".join(data for data, _ in order)))
            sender.start()
            self.assertEqual([connection.read().status for _ in order], [status for _, status in order])
            sender.join()
        self.assert_counted(50, self.refusals, "impossible")

    def test_pipelined_answers_that_nobody_reads(self):
        with Bystander(self.daemon, pace=PACE):
            connections = [self.raw(receive_buffer=4096, source=source) for source in OTHERS]
            for connection in connections:
                connection.send_some(post(rows(200), LARGE) * 20)
            wait_until(lambda: self.aborts() >= 2, "the ends of answers that are not taken")
            for connection in connections:
                self.assertTrue(connection.ended())

    # --- drips, many at a time ---

    def drip(self, begin, clients, reasons=()):
        """Clients send `begin`, then a byte every 0.1 s, until the server has closed all connections."""
        connections = [self.raw().send(begin) for _ in range(clients)]
        deadline = time.monotonic() + PATIENCE
        with Bystander(self.daemon, pace=PACE):
            open_ones = connections
            while open_ones:
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.1)  # the pace of the drip
                for connection in open_ones:
                    connection.send_some(b"x")
                open_ones = [connection for connection in open_ones if not connection.readable(0)]
        statuses = set()
        for connection in connections:
            try:
                statuses.add(connection.read().status)
            except Closed:
                pass
        self.assertLessEqual(statuses, set(reasons))

    def test_heads_that_drip(self):
        self.drip(b"POST /v1/voxelize HTTP/1.1\r\nX-Drip: ", 40)

    def test_bodies_that_drip(self):
        self.drip(head("POST", VOXELIZE, "Content-Length: 64000"), 40, (408,))
        self.daemon.await_accounts()  # the memory of the first requests is released
        self.drip(head("POST", "/v1/fps?num_samples=1", "Transfer-Encoding: chunked") + b"ffff\r\n", 40, (408,))
        self.assert_counted(80, self.refusals, "body-stalled")

    def test_answers_that_are_read_slowly(self):
        connections = [self.raw(receive_buffer=4096, source=source) for source in OTHERS]
        for connection in connections:
            connection.send(post(rows(200), LARGE))
        with Bystander(self.daemon, pace=PACE):

            def all_cut_off():
                for connection in connections:
                    if connection.readable(0):
                        try:
                            connection.socket.recv(100)
                        except ConnectionError:
                            pass
                return self.aborts() >= len(connections)

            wait_until(all_cut_off, "the ends of answers that are taken too slowly")

    # --- memory ---

    def test_uploads_that_hold_all_memory(self):
        almost = post(tiled_rows(LIMIT))[:-1]
        holders = [self.raw().send(almost) for _ in range(BUDGET // LIMIT + 10)]
        wait_until(lambda: self.refusals("body-stalled") + self.aborts() > 0, "the first end of a stalled body")
        for holder in holders:
            self.assertTrue(holder.ended())
        wait_until(lambda: self.daemon.post(VOXELIZE, tiled_rows(MB)).status == 200, "a 200 again")


if __name__ == "__main__":
    unittest.main()
