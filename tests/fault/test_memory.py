"""Resident memory does not grow over thousands of requests of every kind. It stays near the budget even while
the daemon reads JSON that takes many times its size in memory."""

import concurrent.futures
import gzip
import os
import unittest

from client import MB, VOXELIZE, Daemon, FaultCase, is_sanitized, rows

# ASan itself finds leaks, after fewer requests.
REQUESTS = int(os.environ.get("VOXELD_TEST_REQUESTS", "2000" if is_sanitized() else "10000"))
CLIENTS = 4


class ResidentMemory(FaultCase):
    def ask(self, number):
        connection = self.daemon.connection()
        bodies = [rows(n, n) for n in (0, 1, 20, 60)]
        for turn in range(number):
            kind = turn % 10
            if kind == 7:
                reply = self.daemon.post(VOXELIZE + "&order=x", bodies[1], connection=connection)
                self.assertEqual(reply.status, 400)
            elif kind == 8:
                reply = self.daemon.request(
                    "GET", ("/metrics", "/v1/status", "/nowhere")[turn // 10 % 3], connection=connection
                )
                self.assertIn(reply.status, (200, 404))
            elif kind == 9:
                reply = self.daemon.post(VOXELIZE, iter(bodies), {"Transfer-Encoding": "chunked"}, connection)
                self.assertEqual(reply.status, 200)
            else:
                query = ("", "&order=key", "&feature=points,pillar", "&point_counts=0,20,40")[turn % 4]
                reply = self.daemon.post(VOXELIZE + query, bodies[3], connection=connection)
                self.assertEqual(reply.status, 200, reply)
            if turn % 100 == 99:  # the next request opens it again
                connection.close()
        connection.close()

    def run_requests(self, number):
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            for done in [clients.submit(self.ask, number // CLIENTS) for _ in range(CLIENTS)]:
                done.result()
        self.daemon.assert_quiet()
        return self.daemon.resident_bytes()

    def test_flat_over_thousands_of_requests(self):
        warm = self.run_requests(REQUESTS // 5)
        after = self.run_requests(REQUESTS)
        # A leak of 1 KB in each request would be 10 MB.
        bound = (64 if is_sanitized() else 6) * MB
        self.assertLess(after - warm, bound, f"from {warm} to {after} bytes in {REQUESTS} requests")


BUDGET = 750 * MB
OVERHEAD = 200 * MB  # connections, requests in flight, what workers keep
OPTIONS = ("--workers", "6", "--memory-budget-bytes", str(BUDGET), "--max-timeout-ms", "3600000")


@unittest.skipIf(is_sanitized(), "sanitizers need memory of their own")
class LargeJson(unittest.TestCase):
    """Small bodies that decode to 4 MB of JSON, from several clients at a time."""

    def flood(self, daemon, value):
        body = gzip.compress(b"[" + b",".join([value] * (4 * MB // (len(value) + 1))) + b"]", 9)
        headers = {"Content-Encoding": "gzip"}
        ask = lambda number: daemon.post(
            "/v2/models/kitti_second/infer", body, headers, source=f"127.0.0.{number % 8 + 1}"
        )
        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            return [reply.status for reply in clients.map(ask, range(8))]

    def test_memory_goes_back_below_the_budget(self):
        for value in (b"{}", b'""', b"[]", b'{"":{}}', b"1"):
            with self.subTest(value=value), Daemon(*OPTIONS) as daemon:
                daemon.forget_peak()
                statuses = self.flood(daemon, value)
                self.assertLessEqual(set(statuses), {400, 503})  # the JSON is no request; no memory to read it
                self.assertIn(400, statuses)
                daemon.assert_quiet()
                kept = daemon.status()["buffers"]["allocated_bytes"]
                self.assertLess(daemon.resident_bytes(), kept + OVERHEAD)
                self.assertLess(daemon.peak_bytes(), BUDGET + OVERHEAD)


if __name__ == "__main__":
    unittest.main()
