"""A deadline ends every job: a job that runs, in any stage, and a job that waits in its stream."""

import json
import struct
import tempfile
import threading
import unittest

import models

from client import (
    LONG,
    LONG_POINTS,
    VOXELIZE,
    Bystander,
    Daemon,
    FaultCase,
    Raw,
    begun,
    is_sanitized,
    many_rows,
    post,
    rows,
    wait_until,
)

CPU = ("--backend", "cpu")  # a GPU would finish before any deadline

# Each voxel has its own block, and the block filter's window has 32 x 32 blocks: seconds of work.
FILTERED = (
    "/v1/voxelize?num_features=3&point_cloud_range=1,1,1,2,2,2&voxel_size=0.0005,0.0005,1&max_voxels=16777216"
    "&block_filter=1,32,0,9&outputs=voxel_num_points"
)
POINTS = 1_000_000 if is_sanitized() else 3_600_000
SCATTERED = many_rows(POINTS)


class Running(FaultCase):
    ARGS = (*CPU, "--workers", "2", "--small-job-points", "0")

    def assert_ended(self, reply):
        self.assertEqual(reply.status, 504, reply)
        self.assertEqual(reply.json()["type"], "urn:voxeld:problem:deadline")
        self.assertIn("ended before all rows were done, after ", reply.json()["detail"])

    def test_millions_of_scattered_points(self):
        ask = lambda deadline: self.daemon.post(f"{FILTERED}&timeout_ms={deadline}", SCATTERED)
        self.assert_ended(begun(ask, 500))  # after 500 ms the voxels are made, and the block filter runs

    def test_others_are_served_beside(self):
        """Two greedy clients keep both workers busy."""
        ended, done = [], threading.Event()

        def go_on(source):
            while not done.is_set():
                ended.append(self.daemon.post(FILTERED + "&timeout_ms=500", SCATTERED, source=source))

        greedy = [threading.Thread(target=go_on, args=(f"127.0.0.{n}",)) for n in (11, 12)]
        for thread in greedy:
            thread.start()
        wait_until(lambda: self.daemon.status()["workers"]["running"] == 2, "two jobs that run")
        with Bystander(self.daemon) as bystander:
            wait_until(lambda: bystander.served >= 5, "a client that is served")
        done.set()
        for thread in greedy:
            thread.join()
        for reply in ended:
            self.assert_problem(reply, 504)

    def test_text_that_is_read(self):
        number = POINTS // 4
        head = f"FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nPOINTS {number}\nDATA ascii\n"
        body = head.encode() + b"1.5 1.25e0 1.75\n" * number
        path = VOXELIZE + "&num_features=3&format=pcd&timeout_ms="
        self.assert_ended(begun(lambda deadline: self.daemon.post(path + str(deadline), body)))
        self.assertEqual(self.daemon.post(path + "60000", body).status, 200)

    def test_frames_that_decode_to_nothing(self):
        nothing = bytes.fromhex("28b52ffd2000010000")
        body = nothing * ((16 if is_sanitized() else 48) * 1024 * 1024 // len(nothing))
        path = VOXELIZE + "&timeout_ms="
        ask = lambda deadline: self.exchange(post(body, path + str(deadline), "Content-Encoding: zstd"))
        reply = begun(ask)
        self.assertEqual(reply.status, 504, reply)
        self.assertIn("while the body was decoded", reply.json()["detail"])

    def test_numbers_that_are_read_as_json(self):
        number = 1_000_000
        described = {"name": "points", "datatype": "FP32", "shape": [number, 3], "data": []}
        values = b",".join([b"1.5,1.25,1.75"] * number)
        body = json.dumps({"inputs": [described]}).encode().replace(b"[]", b"[" + values + b"]")

        # A request's deadline is in the JSON, so until the daemon has read the JSON, the server's limit holds.
        def ask(deadline):
            with Daemon(*CPU, "--max-timeout-ms", str(deadline)) as daemon:
                return daemon.post("/v2/models/fps/infer", body)

        self.assert_ended(begun(ask))

    def test_numbers_that_are_written_as_json(self):
        number = POINTS // 4
        described = {"name": "points", "datatype": "FP32", "shape": [number, 3]}
        described["parameters"] = {"binary_data_size": 12 * number}

        def ask(deadline):
            asked = {"parameters": {"timeout_ms": deadline}, "inputs": [described], "outputs": [{"name": "points"}]}
            text = json.dumps(asked).encode()
            headers = {"Inference-Header-Content-Length": str(len(text))}
            return self.daemon.post("/v2/models/transform/infer", text + SCATTERED[: 12 * number], headers)

        self.assert_ended(begun(ask, 100))  # after 100 ms the points are moved


CELLS = b"".join(
    struct.pack("<4f", 0.25 + x / 2, y / 2 - 7.75, z / 2 - 2.75, 0)
    for z in range(1 if is_sanitized() else 8)  # with a sanitizer, a layer takes more than ten times as long
    for y in range(32)
    for x in range(32)
)


class Backbones(FaultCase):
    """A backbone of 16 layers over all cells."""

    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        models.write(folder, "slow", models.sparse_standin(), *models.slow_backbone())
        cls.ARGS = (*CPU, "--models-dir", folder, "--onnxruntime", models.STANDIN, "--max-timeout-ms", "600000")
        super().setUpClass()

    def test_deadline_between_layers(self):
        for path in ("/v1/backbone", "/v1/detect"):
            with self.subTest(path):
                ask = lambda deadline: self.daemon.post(f"{path}?model=slow&timeout_ms={deadline}", CELLS)
                reply = begun(ask, 20)  # after 20 ms the voxels are made, and the backbone runs
                self.assertIn("ended before all rows were done, after ", self.assert_problem(reply, 504)["detail"])

    def test_client_that_leaves(self):
        """A job ends when its client leaves, even before a second job that has half the work."""
        running = lambda: self.daemon.status()["detection_workers"]["running"]
        gone, other = self.raw(), self.raw()
        gone.send(post(CELLS, "/v1/backbone?model=slow"))
        wait_until(lambda: running() == 1, "a backbone that runs")
        other.send(post(CELLS[: len(CELLS) // 2], "/v1/backbone?model=slow"))
        wait_until(lambda: running() == 2, "two backbones that run")
        gone.reset()
        wait_until(lambda: running() < 2, "a worker that is free again")
        self.assertFalse(other.readable(0))
        self.assertEqual(other.read().status, 200)


LONG_ARGS = (
    *CPU,
    *("--workers", "2", "--long-workers", "1", "--stream-ttl-s", "3600"),
    *("--max-sampling-work", str(LONG_POINTS * LONG_POINTS), "--max-timeout-ms", "3600000"),
)
STREAM = "&stream=s&sweeps=3&pose=0,0,0,1,0,0,0&time="
LIGHT = VOXELIZE + "&num_features=3" + STREAM
SWEEP = rows(100, columns=3)
JSON = {"Accept": "application/json"}


class InStreams(FaultCase):
    """A stream in which a long job has its turn."""

    ARGS = LONG_ARGS

    def setUp(self):
        super().setUp()
        self.assertEqual(self.daemon.post(LIGHT + "1", SWEEP, JSON).status, 200)
        self.slow = Raw(self.daemon).send(post(many_rows(LONG_POINTS), LONG + STREAM + "2"))
        wait_until(self.runs, "a long job that runs")

    def tearDown(self):
        self.slow.close()
        self.daemon.request("DELETE", "/v1/streams/s")
        super().tearDown()

    def runs(self):
        return self.daemon.status()["long_workers"]["running"] == 1

    def waiting(self):
        return self.daemon.get("/v1/streams/s").json()["waiting"]

    def patient(self, replies, *times):
        """Sends requests with these times."""
        for number, time in enumerate(times):
            path = LIGHT + str(time)
            thread = threading.Thread(target=lambda path=path: replies.append(self.daemon.post(path, SWEEP, JSON)))
            thread.start()
            self.addCleanup(thread.join)
            wait_until(lambda: self.waiting() == number + 1, "a request that waits in its stream")

    def assert_in_order(self, replies, *times):
        """Ends the long job. Checks that the requests with these times then run in this order."""
        self.slow.reset()
        wait_until(lambda: len(replies) == len(times), "answers to all that waited")
        self.assertEqual([reply.status for reply in replies], [200] * len(times))
        joined = [[sweep["time"] for sweep in reply.json()["stream"]["sweeps"]] for reply in replies]
        self.assertEqual(sorted(joined), [[*times[number::-1], 1] for number in range(len(times))])

    def test_one_that_waits_past_its_deadline(self):
        replies = []
        self.patient(replies, 4, 5)
        problem = self.assert_problem(self.daemon.post(LIGHT + "3&timeout_ms=200", SWEEP), 504)
        self.assertEqual(problem["type"], "urn:voxeld:problem:deadline")
        self.assertEqual(self.waiting(), 2)
        self.assert_in_order(replies, 4, 5)

    def test_one_whose_client_is_gone(self):
        replies = []
        self.patient(replies, 4, 5)
        with Raw(self.daemon) as gone:
            gone.send(post(SWEEP, LIGHT + "3"))
            wait_until(lambda: self.waiting() == 3, "a third request that waits")
            gone.reset()
            wait_until(lambda: self.waiting() == 2 and self.runs(), "a stream without the third")
        self.assert_in_order(replies, 4, 5)


class AtTheEnd(unittest.TestCase):
    def test_what_waits_in_its_stream_is_refused(self):
        daemon = Daemon(*LONG_ARGS, "--drain-timeout-s", "0")
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        self.assertEqual(daemon.post(LIGHT + "1", SWEEP, JSON).status, 200)
        with Raw(daemon) as slow, Raw(daemon) as waits:
            slow.send(post(many_rows(LONG_POINTS), LONG + STREAM + "2"))
            wait_until(lambda: daemon.status()["long_workers"]["running"] == 1, "a long job that runs")
            waits.send(post(SWEEP, LIGHT + "3"))
            wait_until(lambda: daemon.get("/v1/streams/s").json()["waiting"] == 1, "a request that waits")
            daemon.terminate()
            self.assertIn("draining", FaultCase.assert_problem(self, waits.read(), 503)["type"])
            daemon.wait()


if __name__ == "__main__":
    unittest.main()
