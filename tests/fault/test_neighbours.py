"""A polite client is served while many other clients hold memory, queue slots and connections."""

import concurrent.futures
import threading
import time
import unittest

from client import MB, VOXELIZE, FaultCase, counters, head, is_sanitized, rows, tiled_rows, wait_until
from neighbours import ANNOUNCED, CHUNKED, READER, SAMPLING, SLOW, Neighbours, upload

REQUESTS = 20 if is_sanitized() else 100
POLITE = "127.0.0.77"
BODY = rows(30_000)  # 480 KB: fits even when large bodies fill the memory
LARGE = tiled_rows(2 * MB)


class Neighbourhood(FaultCase):
    def polite(self, path=VOXELIZE, body=BODY, number=REQUESTS):
        """The statuses of one client's requests, each on its own connection."""
        statuses = []
        for _ in range(number):
            connection = self.daemon.connection(source=POLITE)
            statuses.append(self.daemon.post(path, body, {"Accept": "application/json"}, connection).status)
            connection.close()
        return statuses

    def assert_served(self, statuses):
        self.assertLessEqual(len(statuses) - statuses.count(200), len(statuses) // 100, statuses)


class Memory(Neighbourhood):
    """12 bodies of neighbours fill the memory for bodies of quick jobs, 8 the memory for bodies of samplings."""

    ARGS = ("--memory-budget-bytes", str(64 * MB), "--max-body-bytes", str(4 * MB), "--max-response-bytes", str(8 * MB))

    def memory(self):
        return counters(self.daemon, "voxeld_buffer_bytes")['state="in_use"']

    def preempted(self):
        return counters(self.daemon, "voxeld_uploads_preempted_total")[""]

    def test_bodies_that_are_announced_and_do_not_come(self):
        with Neighbours(self.daemon, ANNOUNCED, 40):
            wait_until(lambda: self.memory() > 32 * MB, "memory in use by neighbours")
            before = self.preempted()
            self.assert_served(self.polite())
            self.assertEqual(self.preempted(), before)  # an upload without data loses its memory without preemption

    def test_bodies_that_come_slowly(self):
        before = self.preempted()
        with Neighbours(self.daemon, SLOW, 40):
            wait_until(lambda: self.memory() > 40 * MB, "memory in use by neighbours")
            self.assertLessEqual(self.memory(), 48 * MB)  # a quarter of the memory is only for answers
            self.assert_served(self.polite())
            large = lambda: self.polite(body=LARGE, number=1)
            wait_until(lambda: large() and self.preempted() > before, "an upload to give way")

    def test_chunked_bodies_that_crawl_after_a_fast_start(self):
        with Neighbours(self.daemon, CHUNKED, 24):
            # Each client may take half of what is left, so about 10 bodies fit.
            wait_until(lambda: self.memory() > 32 * MB, "memory in use by neighbours")
            time.sleep(1)  # the daemon measures rates over half a second
            self.assert_served(self.polite())

    def test_bodies_of_samplings(self):
        with Neighbours(self.daemon, SAMPLING, 24):
            wait_until(lambda: self.memory() > 24 * MB, "memory in use by neighbours")
            self.assert_served(self.polite("/v1/fps?num_samples=8"))

    def test_answers_that_are_read_slowly(self):
        ended = lambda: counters(self.daemon, "voxeld_connections_ended_total")['reason="preempted"']
        before = ended()
        with Neighbours(self.daemon, READER, 16):
            wait_until(lambda: ended() > before, "the slowest answer to end")
            wait_until(lambda: self.polite(number=1) == [200], "the rates of the others to be known")
            self.assert_served(self.polite())

    def test_a_preempted_upload_is_told_to_come_again(self):
        uploads = [self.raw(source=f"127.0.0.{100 + i}") for i in range(15)]
        for connection in uploads:
            connection.send(SLOW.beginning)
        wait_until(lambda: self.memory() > 40 * MB, "memory in use by neighbours")
        time.sleep(1)  # then the daemon knows the rates of these uploads
        answered = lambda: [connection for connection in uploads if connection.readable(0)]

        def ask():
            self.assert_served(self.polite(number=1))
            return answered()

        large = self.raw(source=POLITE)
        large.send(upload(VOXELIZE, 4 * MB) + bytes(4 * MB - 16))  # fast, so it is not preempted
        wait_until(ask, "an upload to give way")
        self.assert_problem(answered()[0].read(), 503, mentions=("more slowly",))
        self.assert_voxels(large.send(bytes(16)).read())
        for connection in uploads:
            connection.close()


class Floods(Neighbourhood):
    """Neighbours' bodies fill the memory for bodies of quick jobs. They come fast, so they are not preempted."""

    ARGS = ("--memory-budget-bytes", str(256 * MB), "--max-body-bytes", str(16 * MB))
    ARGS += ("--max-response-bytes", str(64 * MB))
    NUMBER = 40

    def refused(self):
        return counters(self.daemon, "voxeld_refusals_total")['reason="memory-full"']

    def post_until(self, stop, number):
        while not stop.is_set():
            try:
                connection = self.daemon.connection(source=f"127.0.1.{1 + number}")
                self.daemon.post(VOXELIZE, self.large, {"Accept": "application/json"}, connection)
                connection.close()
            except OSError:
                time.sleep(0.05)

    def post_slowly(self, _):
        """Posts BODY at 400 KB a second."""
        with self.raw(source=POLITE) as connection:
            connection.send(head("POST", VOXELIZE + "&max_voxels=1000", f"Content-Length: {len(BODY)}"))
            for begin in range(0, len(BODY), 20_000):
                connection.send(BODY[begin : begin + 20_000])
                time.sleep(0.05)
            return connection.read().status

    def test_a_slow_upload_beside_many_fast_ones(self):
        self.large = tiled_rows(16 * MB)
        stop = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(self.NUMBER + 4) as pool:
            try:
                floods = [pool.submit(self.post_until, stop, number) for number in range(self.NUMBER)]
                wait_until(self.refused, "requests that are refused")
                self.assertEqual(list(pool.map(self.post_slowly, range(4))), [200] * 4)
            finally:
                stop.set()
        for flood in floods:
            flood.result()


class Places(Neighbourhood):
    ARGS = ("--queue-depth", "8")

    def places(self):
        return counters(self.daemon, "voxeld_queue_slots")

    def assert_served_beside(self, kind):
        with Neighbours(self.daemon, kind, 24):
            wait_until(lambda: self.places()['lanes="quick"'] >= 7, "queue slots in use by neighbours")
            self.assert_served(self.polite())

    def test_places_of_bodies_that_do_not_come(self):
        self.assert_served_beside(ANNOUNCED)

    def test_places_of_bodies_that_come_slowly(self):
        self.assert_served_beside(SLOW)

    def test_places_of_samplings(self):
        with Neighbours(self.daemon, SAMPLING, 24):
            wait_until(lambda: self.places()['lanes="long"'] >= 7, "queue slots in use by neighbours")
            self.assert_served(self.polite("/v1/fps?num_samples=8", rows(1000)))


class Connections(Neighbourhood):
    ARGS = ("--max-connections", "32")

    def test_connections_that_move_slowly_make_room(self):
        held = [self.raw(source=f"127.0.{i // 250 + 1}.{i % 250 + 1}").send(SLOW.beginning) for i in range(64)]
        reached = lambda: self.polite(body=rows(10), number=1) == [200]
        wait_until(reached, "a slow connection to make room")
        ended = lambda: counters(self.daemon, "voxeld_connections_ended_total")['reason="preempted"']
        wait_until(lambda: ended() > 0, "its end to be counted")
        for connection in held:
            connection.close()
        wait_until(lambda: self.connections_at_most(2), "their ends")


if __name__ == "__main__":
    unittest.main()
