"""Resident memory stays flat over ten thousand requests of every kind."""

import concurrent.futures
import os
import unittest

from client import MB, VOXELIZE, FaultCase, is_sanitized, rows

REQUESTS = int(os.environ.get("VOXELD_TEST_REQUESTS", "10000"))
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
            if turn % 100 == 99:  # connections come and go too
                connection.close()
        connection.close()

    def run_requests(self, number):
        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            for done in [clients.submit(self.ask, number // CLIENTS) for _ in range(CLIENTS)]:
                done.result()
        self.daemon.assert_quiet()
        return self.daemon.resident_bytes()

    def test_flat_over_ten_thousand_requests(self):
        warm = self.run_requests(REQUESTS // 5)
        after = self.run_requests(REQUESTS)
        # One kilobyte lost in each request would be ten megabytes. Sanitizers need memory of their own.
        bound = (64 if is_sanitized() else 6) * MB
        self.assertLess(after - warm, bound, f"from {warm} to {after} bytes in {REQUESTS} requests")


if __name__ == "__main__":
    unittest.main()
