"""`latest=NAME`: of a client's requests with the same name, the newest waits. An older request that waits gets 409, and
its sweep is kept. In most tests, a long job keeps the worker for long jobs busy."""

import concurrent.futures
import json
import unittest

from client import (
    LONG,
    LONG_POINTS,
    VOXELIZE,
    Daemon,
    FaultCase,
    Raw,
    counters,
    is_sanitized,
    many_rows,
    post,
    rows,
    wait_until,
)
from events import Subscriber

OTHER = "127.0.0.2"
SHORT = "/v1/fps?num_features=3&num_samples=3"
BODY = rows(100, columns=3)
JSON = {"Accept": "application/json"}


def infer_body(**parameters):
    inputs = [{"name": "points", "datatype": "FP32", "shape": [2, 3], "data": [1, 2, 3, 4, 5, 6]}]
    return json.dumps({"parameters": parameters, "inputs": inputs}).encode()


ARGS = ("--backend", "cpu", "--workers", "2", "--long-workers", "1", "--stream-ttl-s", "3600")
ARGS += ("--max-sampling-work", str(LONG_POINTS * LONG_POINTS), "--max-timeout-ms", "3600000")


class Held(FaultCase):
    """Requests behind a long job."""

    ARGS = ARGS

    def setUp(self):
        super().setUp()
        self.pool = concurrent.futures.ThreadPoolExecutor(16)
        self.addCleanup(self.pool.shutdown)
        self.slow = None

    def tearDown(self):
        self.go_on()
        for stream in self.daemon.get("/v1/streams").json()["streams"]:
            self.daemon.request("DELETE", f"/v1/streams/{stream['name']}")
        super().tearDown()

    def hold(self, source="127.0.0.3", more=""):
        """Keeps the long worker busy until go_on()."""
        running = lambda: self.daemon.status()["long_workers"]["running"]
        wait_until(lambda: running() == 0, "the end of the long job of the test before")
        self.slow = self.raw(source=source).send(post(many_rows(LONG_POINTS), LONG + more))
        wait_until(lambda: running() == 1, "a long job that runs")

    def go_on(self):
        if self.slow:
            self.slow.reset()
        self.slow = None

    def depth(self):
        return self.daemon.status()["long_queue"]["depth"]

    def superseded(self):
        return self.daemon.status()["requests"]["superseded"]

    def ask(self, path=SHORT + "&latest=roof", body=BODY, waits=1, **more):
        """Sends a request in a thread. Returns its future when `waits` jobs wait, or when it is answered."""
        reply = self.pool.submit(self.daemon.post, path, body, JSON, **more)
        wait_until(lambda: self.depth() == waits or reply.done(), "a job that waits")
        return reply

    def assert_superseded(self, reply, kept=False):
        problem = self.assert_problem(reply.result(), 409)
        self.assertEqual(problem["type"], "urn:voxeld:problem:superseded")
        self.assertNotIn("Retry-After", reply.result().headers)
        self.assertEqual("sweep is kept" in problem["detail"], kept)
        self.assertRegex(problem["detail"], r"a newer request with the same latest came, after \d+ ms$")


class Latest(Held):
    def test_only_the_newest_waits(self):
        self.daemon.await_accounts()
        before = self.superseded()
        refused = counters(self.daemon, "voxeld_refusals_total")
        self.hold()
        replies = [self.ask()]
        for _ in range(4):
            replies.append(self.ask())
            self.assert_superseded(replies[-2])  # although the worker is still busy
            self.assertEqual(self.depth(), 1)
        self.assertFalse(replies[-1].done())
        self.go_on()
        self.assertEqual(replies[-1].result().status, 200)
        self.daemon.await_accounts()
        self.assertEqual(self.superseded() - before, 4)
        after = counters(self.daemon, "voxeld_refusals_total")
        self.assertEqual(after['reason="superseded"'] - refused['reason="superseded"'], 4)

    def test_other_names_and_clients_wait_beside(self):
        self.hold()
        paths = [SHORT + "&latest=roof", SHORT + "&latest=roof2", SHORT, SHORT]
        replies = [self.ask(path, waits=number) for number, path in enumerate(paths, 1)]
        replies.append(self.ask(source=OTHER, waits=5))
        self.assertEqual([reply.done() for reply in replies], [False] * 5)
        self.go_on()
        self.assertEqual([reply.result().status for reply in replies], [200] * 5)

    def test_what_counts_is_when_the_body_is_whole(self):
        self.hold()
        bytes_of = post(BODY, SHORT + "&latest=roof", "Accept: application/json")
        begun = self.raw().send(bytes_of[:-5])
        waiting = self.ask()
        self.assertFalse(waiting.done())
        begun.send(bytes_of[-5:])
        self.assert_superseded(waiting)
        self.go_on()
        self.assertEqual(begun.read().status, 200)

    def test_an_upload_that_never_ends_supersedes_nothing(self):
        self.hold()
        waiting = self.ask()
        self.raw().send(post(BODY, SHORT + "&latest=roof")[:-5]).reset()
        self.go_on()
        self.assertEqual(waiting.result().status, 200)

    def test_one_whose_client_is_gone(self):
        self.hold()
        with Raw(self.daemon) as gone:
            gone.send(post(BODY, SHORT + "&latest=roof"))
            wait_until(lambda: self.depth() == 1, "a job that waits")
            gone.reset()
            newer = self.ask()
        self.go_on()
        self.assertEqual(newer.result().status, 200)

    def test_a_running_one_goes_on(self):
        self.hold(source=None, more="&latest=roof")
        newer = self.ask()
        self.assertEqual(self.daemon.status()["long_workers"]["running"], 1)
        self.assertFalse(newer.done())
        self.go_on()
        self.assertEqual(newer.result().status, 200)

    def test_a_small_job_waits_its_turn_too(self):
        self.assertEqual(self.daemon.post(VOXELIZE + "&latest=roof", rows(4)).status, 200)

    def test_inference(self):
        self.hold()
        path = "/v2/models/fps/infer?latest=roof"
        older = self.ask(path, infer_body(num_samples=1))
        newer = self.ask(path, infer_body(num_samples=1))
        self.assertEqual(older.result().status, 409)
        self.assertRegex(older.result().json()["error"], r"newer request with the same latest came, after \d+ ms")
        self.go_on()
        self.assertEqual(newer.result().status, 200)

    def test_inference_names_it_in_the_query(self):
        path = "/v2/models/fps/infer"
        stream = dict(num_samples=1, stream="s", pose="0,0,0,1,0,0,0", time=1)
        for query, body, words in (
            ("", infer_body(num_samples=1, latest="roof"), "in the query"),
            ("?latest=roof&num_samples=1", infer_body(), "only latest in the query"),
            ("?latest=roof&latest=roof", infer_body(num_samples=1), "only latest in the query"),
            ("?latest=a/b", infer_body(num_samples=1), "latest is 'a/b'; allowed: 1 to 63"),
            ("?latest=roof", infer_body(**stream), "for a sweep of a stream"),
        ):
            with self.subTest(query):
                reply = self.daemon.post(path + query, body)
                self.assertEqual(reply.status, 400, reply)
                self.assertIn(words, reply.json()["error"])

    def test_names(self):
        for name in ("", ".", "a/b", "a" * 64):
            self.assert_problem(self.daemon.post(f"{SHORT}&latest={name}", BODY), 400, "latest")

    # ---- streams ----

    def path(self, time, name="s", more="&latest=roof"):
        return f"{SHORT}&stream={name}&sweeps=4&pose={time},0,0,1,0,0,0&time={time}{more}"

    def sweep(self, time):
        return rows(50 + time, columns=3, seed=time)

    def reference(self, *times):
        """The tensors that the last sweep should get: those of a stream in which every sweep was computed."""
        replies = [self.daemon.post(self.path(time, "u", ""), self.sweep(time)) for time in times]
        self.assertEqual([reply.status for reply in replies], [200] * len(times))
        return replies[-1].tensors()

    def post_sweep(self, time, waits):
        reply = self.pool.submit(self.daemon.post, self.path(time), self.sweep(time))
        wait_until(waits, "a request that waits")
        return reply

    def waiting(self):
        return self.daemon.get("/v1/streams/s").json()["waiting"]

    def test_sweeps_are_kept(self):
        """The long job has the stream's turn, so the sweeps wait in the stream."""
        subscriber = self.enterContext(Subscriber(self.daemon, "/v1/streams/s/events"))
        self.assertEqual(self.daemon.post(self.path(1), self.sweep(1)).status, 200)
        self.hold(source=None, more="&stream=s&sweeps=4&pose=0,0,0,1,0,0,0&time=1.5")
        replies = [self.post_sweep(time, lambda time=time: self.waiting() == time - 1) for time in (2, 3, 4)]
        self.assertEqual([reply.done() for reply in replies], [False] * 3)
        self.go_on()
        for reply in replies[:-1]:
            self.assert_superseded(reply, kept=True)
        self.assertEqual(replies[-1].result().status, 200, replies[-1].result())
        self.assertEqual(replies[-1].result().tensors(), self.reference(1, 2, 3, 4))
        kept = self.daemon.get("/v1/streams/s").json()["sweeps"]
        self.assertEqual([sweep["time"] for sweep in kept], [4, 3, 2, 1])
        told = [data for name, data in (subscriber.next() for _ in range(5)) if name == "sweep"]
        self.assertEqual([each["superseded"] for each in told], [False, True, True, False])

    def test_sweeps_that_wait_for_a_worker_are_kept(self):
        """The first of them has the stream's turn, and waits in the queue. The others wait in the stream."""
        self.assertEqual(self.daemon.post(self.path(1), self.sweep(1)).status, 200)
        self.hold()
        replies = [self.post_sweep(2, lambda: self.depth() == 1)]
        replies += [self.post_sweep(time, lambda time=time: self.waiting() == time - 2) for time in (3, 4)]
        self.go_on()
        for reply in replies[:-1]:
            self.assert_superseded(reply, kept=True)
        self.assertEqual(replies[-1].result().tensors(), self.reference(1, 2, 3, 4))

    def test_a_superseded_sweep_that_does_not_fit_its_stream(self):
        self.assertEqual(self.daemon.post(self.path(1), self.sweep(1)).status, 200)
        self.hold()
        path = self.path(2).replace("num_features=3", "num_features=4")
        wrong = self.pool.submit(self.daemon.post, path, rows(10, columns=4))
        wait_until(lambda: self.depth() == 1, "a job that waits")
        newest = self.post_sweep(3, lambda: self.waiting() == 1)
        self.go_on()
        self.assertIn("stream-shape", self.assert_problem(wrong.result(), 409, "num_features")["type"])
        self.assertEqual(newest.result().tensors(), self.reference(1, 3))

    # ---- many at once ----

    def test_many_connections(self):
        self.daemon.await_accounts()
        before = self.superseded()
        number = 40 if is_sanitized() else 200
        body, path = (
            rows(2000 if is_sanitized() else 20_000, columns=3),
            "/v1/fps?num_features=3&num_samples=300&latest=x",
        )
        self.hold()
        replies = [self.pool.submit(self.daemon.post, path, body) for _ in range(number)]
        wait_until(lambda: any(reply.done() for reply in replies), "one that is superseded")
        self.go_on()
        statuses = [reply.result().status for reply in replies]
        self.assertEqual(set(statuses) | {200, 409}, {200, 409}, statuses)
        self.daemon.await_accounts()
        self.assertEqual(self.superseded() - before, statuses.count(409))
        self.assertGreater(statuses.count(409), 0)
        self.assertEqual(self.daemon.post(path, body).status, 200)

    def test_many_sweeps(self):
        """No sweep is lost, whether it was computed or superseded."""
        number = 40 if is_sanitized() else 200
        path = "/v1/fps?num_features=3&num_samples=20&latest=x&stream=s&sweeps=32&pose=0,0,0,1,0,0,0&time="
        done = []

        def sensor(connection, times):
            for time in times:
                reply = self.daemon.post(path + str(time), self.sweep(time), connection=connection)
                done.append((reply.status, time, reply.status == 409 and reply.json()["type"]))

        connections = [self.daemon.connection() for _ in range(4)]
        for connection in connections:
            self.addCleanup(connection.close)
        list(self.pool.map(sensor, connections, [range(1 + n, number, 4) for n in range(4)]))
        self.assertEqual({status for status, *_ in done} | {200, 409}, {200, 409})
        late = {time for _, time, kind in done if kind == "urn:voxeld:problem:stream-time"}
        kept = {sweep["time"] for sweep in self.daemon.get("/v1/streams/s").json()["sweeps"]}
        self.assertEqual(kept, set(sorted({time for _, time, _ in done} - late)[-32:]))


class Slots(Held):
    """A client may hold one of the two queue slots."""

    ARGS = (*ARGS, "--queue-depth", "2")

    def test_the_newer_one_has_the_slot_of_the_older_one(self):
        self.hold()
        older = self.ask()
        self.assert_problem(self.daemon.post(SHORT, BODY), 429)
        self.assert_problem(self.daemon.post(SHORT + "&latest=other", BODY), 429)
        newer = self.ask()
        self.assert_superseded(older)
        self.assertFalse(newer.done())
        self.go_on()
        self.assertEqual(newer.result().status, 200)

    def test_no_newer_one_is_refused(self):
        """A newer request gets the older request's slot, even if the older request is just beginning to wait, or just
        getting a worker."""
        path = "/v1/fps?num_features=3&num_samples=100&latest=x"
        body, number = rows(2000, columns=3), 100 if is_sanitized() else 600

        def sensor(connection):
            return [self.daemon.post(path, body, connection=connection).status for _ in range(number)]

        connections = [self.daemon.connection() for _ in range(3)]
        for connection in connections:
            self.addCleanup(connection.close)
        statuses = sum(self.pool.map(sensor, connections), [])
        self.assertEqual(set(statuses) | {200, 409}, {200, 409}, statuses)

    def test_superseded_sweeps_wait_without_a_slot(self):
        path = SHORT + "&stream=s&sweeps=4&pose=0,0,0,1,0,0,0&latest=roof&time="
        self.hold()
        replies = [self.ask(path + "1")]
        replies += [self.pool.submit(self.daemon.post, path + "2", BODY, JSON)]
        active = lambda: self.daemon.status()["requests"]["active"]
        wait_until(lambda: active() == 3, "a sweep that waits")
        self.go_on()
        self.assert_superseded(replies[0], kept=True)
        self.assertEqual(replies[1].result().status, 200, replies[1].result())


class AtTheEnd(unittest.TestCase):
    def test_superseded_sweeps_do_not_delay_the_stop(self):
        daemon = Daemon(*ARGS, "--drain-timeout-s", "0")
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        path = SHORT + "&stream=s&pose=0,0,0,1,0,0,0&latest=roof&time="
        with Raw(daemon) as slow, Raw(daemon) as older, Raw(daemon) as newer:
            slow.send(post(many_rows(LONG_POINTS), LONG))
            wait_until(lambda: daemon.status()["long_workers"]["running"] == 1, "a long job that runs")
            older.send(post(BODY, path + "1"))
            wait_until(lambda: daemon.status()["long_queue"]["depth"] == 1, "a job that waits")
            newer.send(post(BODY, path + "2"))
            wait_until(lambda: daemon.status()["requests"]["active"] >= 3, "a sweep that waits")
            daemon.terminate()
            for connection in (older, newer):
                self.assertIn("draining", FaultCase.assert_problem(self, connection.read(), 503)["type"])
            daemon.wait()


if __name__ == "__main__":
    unittest.main()
