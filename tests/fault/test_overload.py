"""Overload: the queue is full, memory is used up, jobs are late. The daemon refuses with a reason, then serves
again."""

import concurrent.futures
import threading
import unittest

from client import (
    HEAVY,
    LONG,
    LONG_POINTS,
    MB,
    ROW,
    VOXELIZE,
    Crowd,
    FaultCase,
    head,
    heavy_rows,
    is_sanitized,
    many_rows,
    rows,
    tiled_rows,
    wait_until,
)


class Pressure:
    """Heavy jobs from one address while the `with` block runs."""

    def __init__(self, daemon, connections, source=None):
        self.statuses, self._stop, self._source = set(), threading.Event(), source
        self._daemon, self._body = daemon, heavy_rows()
        self._threads = [threading.Thread(target=self._press) for _ in range(connections)]

    def _press(self):
        while not self._stop.is_set():
            reply = self._daemon.post(HEAVY, self._body, {"Accept": "application/json"}, source=self._source)
            self.statuses.add(reply.status)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()


class Queue(FaultCase):
    ARGS = ("--workers", "1", "--queue-depth", "2", "--backend", "cpu", "--small-job-points", "0")

    def ask(self, source=None):
        return self.daemon.post(VOXELIZE, rows(4), source=source)

    def test_client_has_its_share(self):
        # One client may hold one of the two queue slots.
        with Pressure(self.daemon, 4) as own:
            reply = wait_until(lambda: (reply := self.ask()).status == 429 and reply, "a 429")
            for _ in range(5):
                self.assertEqual(self.ask("127.0.0.2").status, 200)
        self.assert_problem(reply, 429, mentions=["another job"])
        self.assertIn("client-over-share", reply.json()["type"])
        self.assertLessEqual(own.statuses, {200, 429})
        self.assertEqual(self.ask().status, 200)

    def test_queue_full(self):
        with Pressure(self.daemon, 2, "127.0.0.2"), Pressure(self.daemon, 2, "127.0.0.3"):
            reply = wait_until(lambda: (reply := self.ask()).status == 503 and reply, "a 503")
        self.assert_problem(reply, 503)
        self.assertIn("queue-full", reply.json()["type"])
        self.assertEqual(self.ask().status, 200)

    def test_refused_for_a_full_queue_keeps_its_connection(self):
        connection = self.daemon.connection()
        self.addCleanup(connection.close)
        self.daemon.request("GET", "/healthz", connection=connection)
        kept = connection.sock
        ask = lambda: self.daemon.post(VOXELIZE, rows(100), connection=connection).status
        with Pressure(self.daemon, 2):
            wait_until(lambda: ask() == 429, "a 429")
        wait_until(lambda: ask() == 200, "a 200 again")
        self.assertIs(connection.sock, kept)


class Turns(FaultCase):
    """Another client's job waits for the running job, not for a client's long queue."""

    ARGS = ("--workers", "1", "--backend", "cpu", "--max-timeout-ms", "3600000")

    def test_clients_are_served_in_turn(self):
        flood = Crowd(self.daemon, 20, HEAVY, heavy_rows())
        wait_until(lambda: self.daemon.status()["queue"]["depth"] >= 15 or not flood.waiting(), "jobs that wait")
        waits, runs = [], []
        while len(waits) < 3 and self.daemon.status()["queue"]["depth"] >= 10:
            reply = self.daemon.post(VOXELIZE, rows(4), {"Accept": "application/json"}, source="127.0.0.2")
            waits.append(reply.json()["timing_us"]["queue"])
        for reply in flood.join():
            self.assertEqual(reply.status, 200, reply)
            timing = reply.json()["timing_us"]
            runs.append(timing["total"] - timing["receive"] - timing["queue"])
        # The other client's job waits for the running job, and at most for one more.
        self.assertLess(max(waits, default=0), 5 * max(runs))


class Memory(FaultCase):
    """Samplings that wait for the only worker hold memory for their bodies."""

    EACH = 4 * MB if is_sanitized() else 16 * MB  # the size of the buffer for a body of LONG_POINTS
    # Bodies of samplings may take half of the memory: 8 * EACH. The last sixteenth of this half is for small bodies, so
    # seven bodies fit.
    ARGS = (
        "--memory-budget-bytes",
        str(16 * EACH),
        "--max-body-bytes",
        str(EACH),
        "--max-response-bytes",
        str(8 * EACH),
    )
    ARGS += ("--long-workers", "1", "--max-sampling-work", str(10**13), "--max-timeout-ms", "3600000")
    # Nearly every point has its own voxel of 16 KB. The answer's buffer takes 8 * EACH.
    LARGE = "/v1/voxelize?point_cloud_range=-10,-10,-2,10,10,2&voxel_size=0.1,0.1,0.1&feature=points"
    LARGE += "&max_points_per_voxel=1024"
    LARGE_ROWS = rows(1150 if is_sanitized() else 4600)
    SHORT = "/v1/fps?num_samples=3"

    def hold(self, number, same=False):
        """Begins samplings, each of its own client or all of one client. Each holds EACH bytes."""
        body = many_rows(LONG_POINTS)
        announced = head("POST", LONG, f"Content-Length: {len(body)}")
        held = [self.raw(source=f"127.0.0.{2 if same else 2 + i}").send(announced) for i in range(number)]
        # No job runs yet, so nothing else is in use.
        wait_until(lambda: self.in_use() == number * self.EACH, "memory for all bodies")
        for connection in held:
            connection.send(body)
        wait_until(lambda: self.samplings() == number, "samplings that hold memory")
        return held

    def samplings(self):
        status = self.daemon.status()
        return status["long_workers"]["running"] + status["long_queue"]["depth"]

    def let_go(self, held):
        for connection in held:
            connection.reset()
        wait_until(lambda: self.in_use() == 0, "memory given back")

    def in_use(self):
        return self.daemon.status()["buffers"]["in_use_bytes"]

    def test_budget_of_samplings_spent_by_those_that_wait(self):
        held = self.hold(7)
        body = many_rows(LONG_POINTS)
        self.assert_problem(self.daemon.post(LONG, body), 503, mentions=[f"a body of {len(body)} bytes"])
        chunked = self.daemon.post(LONG, iter([body]), {"Transfer-Encoding": "chunked"})
        self.assert_problem(chunked, 503)
        short = self.raw().send(head("POST", self.SHORT, f"Content-Length: {4 * ROW}", "Expect: 100-continue"))
        self.assertEqual(short.read().status, 100)  # the daemon has memory for the short sampling's body
        self.assert_voxels(self.daemon.post(VOXELIZE, rows(4)))
        short.send(rows(4))
        for connection in held:
            connection.reset()  # otherwise the short sampling would wait for one job of each client
        self.assertEqual(short.read().status, 200)
        wait_until(lambda: self.in_use() == 0, "memory given back")
        self.assertEqual(self.daemon.post(self.SHORT, body).status, 200)

    def test_client_has_its_share_of_the_memory(self):
        held = self.hold(4, same=True)
        refused = self.daemon.post(self.SHORT, rows(4), source="127.0.0.2")
        self.assert_problem(refused, 429, mentions=["a body of 64 bytes"])
        self.assert_voxels(self.daemon.post(VOXELIZE, rows(4), source="127.0.0.2"))
        self.let_go(held)

    def test_no_room_for_an_answer_beside_the_clients_other_requests(self):
        held = self.hold(4, same=True)
        refused = self.daemon.post(self.LARGE, self.LARGE_ROWS, source="127.0.0.2")
        self.assert_problem(refused, 429, mentions=["an answer of"])
        self.let_go(held)
        self.assert_voxels(self.daemon.post(self.LARGE, self.LARGE_ROWS, source="127.0.0.2"))

    def test_budget_too_small_for_the_answer(self):
        held = self.hold(7)
        refused = self.daemon.post(self.LARGE, self.LARGE_ROWS, source="127.0.0.77")
        self.assert_problem(refused, 503, mentions=["an answer of"])
        self.let_go(held)
        self.assert_voxels(self.daemon.post(self.LARGE, self.LARGE_ROWS, source="127.0.0.77"))


class FewBuffers(FaultCase):
    # Two of the largest bodies take the whole budget.
    ARGS = ("--max-body-bytes", str(4 * MB), "--max-response-bytes", str(4 * MB), "--memory-budget-bytes", str(8 * MB))

    def test_budget_spent_by_chunked_bodies(self):
        # The daemon does not know the lengths of chunked bodies. One fits into the budget; all together do not.
        body = tiled_rows(3 * MB)
        send = lambda _: self.daemon.post(VOXELIZE, iter([body[:MB], body[MB:]]), {"Transfer-Encoding": "chunked"})
        statuses = set()

        def all_fates(clients):
            statuses.update(reply.status for reply in clients.map(send, range(24)))
            return 200 in statuses and len(statuses) > 1

        with concurrent.futures.ThreadPoolExecutor(8) as clients:
            wait_until(lambda: all_fates(clients), lambda: f"some answered and some refused; there were {statuses}")
        self.assertLessEqual(statuses, {200, 429, 503})
        wait_until(lambda: send(None).status == 200, "a 200 once there is memory again")

    def test_many_clients_on_few_buffers(self):
        def client(number):
            connection = self.daemon.connection()
            answered = 0
            while answered < 4:
                reply = self.daemon.post(VOXELIZE, rows(2000, number), connection=connection)
                answered += reply.status == 200
                if reply.status != 200:
                    self.assert_problem(reply, (429, 503))
            connection.close()

        with concurrent.futures.ThreadPoolExecutor(64) as clients:
            list(clients.map(client, range(64)))


class Scratch(FaultCase):
    """700,000 points of 6 bytes need 72 MB of scratch on the CPU, more than a lane keeps."""

    ARGS = ("--backend", "cpu", "--workers", "2", "--max-body-bytes", str(8 * MB), "--max-response-bytes", str(MB),
            "--memory-budget-bytes", str(160 * MB))  # fmt: skip
    PATH = HEAVY + "&num_features=3&dtype=float16"

    def ask(self, points, source=None):
        return self.daemon.post(self.PATH, bytes(6 * points), {"Accept": "application/json"}, source=source)

    def test_scratch_counts_as_memory(self):
        statuses, peak, over = [], 0, threading.Event()

        def press(source):
            while not over.is_set():
                statuses.append(self.ask(700_000, source).status)

        with concurrent.futures.ThreadPoolExecutor(2) as clients:
            pressing = [clients.submit(press, source) for source in ("127.0.0.2", "127.0.0.3")]

            def seen():
                nonlocal peak
                peak = max(peak, self.daemon.status()["buffers"]["in_use_bytes"])
                return peak > 64 * MB and len(statuses) >= 8

            try:
                wait_until(seen, lambda: f"a job that uses far more memory than its body; the most was {peak} bytes")
            finally:
                over.set()
            for done in pressing:
                done.result()
        self.assertLessEqual(set(statuses), {200, 429, 503})
        self.assertIn(200, statuses)
        self.assertLessEqual(peak, 160 * MB)

    def test_job_that_would_never_fit(self):
        problem = self.assert_problem(self.daemon.post(self.PATH, bytes(6 * 1_300_000)), 422)
        self.assertIn("memory_budget_bytes", problem["detail"])


class Late(FaultCase):
    ARGS = ("--workers", "1", "--queue-depth", "64", "--backend", "cpu", "--small-job-points", "0")

    def under_load(self, ask, status):
        """Asks until the answer has this status, while other requests keep the only worker busy."""
        heavy, stop = heavy_rows(), threading.Event()

        def press():
            while not stop.is_set():
                reply = self.daemon.post(HEAVY, heavy, {"Accept": "application/json"})
                self.assertEqual(reply.status, 200, reply)

        with concurrent.futures.ThreadPoolExecutor(6) as clients:
            pressing = [clients.submit(press) for _ in range(6)]
            try:
                return wait_until(lambda: (reply := ask()) and reply.status == status and reply, f"a {status}")
            finally:
                stop.set()
                for done in pressing:
                    done.result()

    def test_job_that_has_not_begun_in_time(self):
        reply = self.under_load(lambda: self.daemon.post(VOXELIZE + "&timeout_ms=1", rows(4)), 504)
        self.assert_problem(reply, 504)

    def test_job_with_time_enough(self):
        self.assert_voxels(self.under_load(lambda: self.daemon.post(VOXELIZE + "&timeout_ms=29000", rows(4)), 200))

    def test_late_job_leaves_no_trace(self):
        crowd = Crowd(self.daemon, 6, HEAVY, heavy_rows())
        late = Crowd(self.daemon, 20, VOXELIZE + "&timeout_ms=1", rows(4))
        for reply in crowd.join():
            self.assertEqual(reply.status, 200, reply)
        for reply in late.join():
            self.assertIn(reply.status, (200, 504), reply)
        self.daemon.assert_quiet()


class ServerLimit(FaultCase):
    ARGS = ("--workers", "1", "--queue-depth", "64", "--backend", "cpu", "--max-timeout-ms", "1")

    def test_servers_own_limit_holds_without_a_timeout_of_the_clients(self):
        heavy = heavy_rows()

        def attempt():
            statuses = [reply.status for reply in Crowd(self.daemon, 6, HEAVY, heavy).join()]
            self.assertLessEqual(set(statuses), {200, 504})
            return 504 in statuses

        wait_until(attempt, "a 504")


if __name__ == "__main__":
    unittest.main()
