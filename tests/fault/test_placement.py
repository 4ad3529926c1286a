"""Samplings of one cloud run on a GPU or on the CPU. The bytes are the same, and no request is lost.

Needs the stand-in for GPUs. VOXELD_STANDIN_SLOW names a file with the milliseconds to add to each sampling, on a GPU
and on the CPU. The daemon measures both when it starts, and places later samplings by these times."""

import concurrent.futures
import pathlib
import signal
import sys
import tempfile
import unittest

from client import VOXELIZE, Daemon, FaultCase, rows, wait_until
from test_devices import STAND_IN, metric

POINTS, SAMPLES = 4096, 512  # a quarter each of what the daemon measures at its start
FPS = f"/v1/fps?num_samples={SAMPLES}"
VOXELS = VOXELIZE + "&fps=20"
BATCH = FPS + f"&point_counts={POINTS // 2},{POINTS // 2}"
BODIES = [rows(POINTS, seed=seed) for seed in range(5)]
SLOW = 300  # ms; a sampling itself takes some tens of ms on a loaded machine with a sanitizer


class Placement(FaultCase):
    ARGS = ("--backend", "cpu")  # of the daemon that computes the expected answers

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.right = {path: [cls.daemon.post(path, body).tensors() for body in BODIES] for path in (FPS, VOXELS, BATCH)}

    def start(self, gpu_ms, cpu_ms, *args, workers=16, inject=None):
        """A daemon with two GPUs, each with a CUDA stream for long jobs, and six workers of the CPU for samplings."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.slow(gpu_ms, cpu_ms)
        if inject:
            self.put("inject", inject)
        env = {
            "VOXELD_STANDIN_DEVICES": "2",
            "VOXELD_STANDIN_SLOW": str(self.folder / "slow"),
            "VOXELD_INJECT": str(self.folder / "inject"),
        }
        limits = ("--workers", str(workers), "--gpu-long-streams", "1", "--long-workers", "8")
        daemon = Daemon("--backend", "cuda", *limits, *args, env=env)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        return daemon

    def put(self, name, text):
        draft = self.folder / (name + ".draft")
        draft.write_text(text)
        draft.rename(self.folder / name)

    def slow(self, gpu_ms, cpu_ms):
        self.put("slow", f"{gpu_ms} {cpu_ms}")

    def ask(self, daemon, index=0, path=FPS):
        """Posts a body and checks the tensors. Returns the backend that computed them."""
        reply = daemon.post(path, BODIES[index % len(BODIES)])
        metadata = self.assert_voxels(reply)
        self.assertEqual(reply.tensors(), self.right[path][index % len(BODIES)])
        return metadata["backend"]

    def placement(self, daemon):
        return daemon.status()["sampling_placement"]

    def test_a_slow_gpu_leaves_samplings_to_the_cpu(self):
        daemon = self.start(SLOW, 0)
        before = self.placement(daemon)
        self.assertGreaterEqual(before["gpu"]["measured_us"], SLOW * 1000)
        self.assertLess(before["cpu"]["measured_us"], SLOW * 1000)
        self.assertEqual(before["cpu"]["workers"], 6)
        self.assertTrue(before["cpu"]["room"])
        self.assertEqual([self.ask(daemon, index) for index in range(10)], ["cpu"] * 10)
        self.assertEqual(self.ask(daemon, 0, VOXELS), "cpu")
        # The metric counts these six workers only while they run a job.
        streams = daemon.status()["long_workers"]["count"] - 6
        wait_until(lambda: metric(daemon, 'voxeld_workers{lanes="long"}') == streams, "idle workers not to count")
        # Other jobs run on a GPU.
        for _ in range(5):
            self.assertEqual(self.ask_voxels(daemon), "cuda")
        self.assertEqual(self.ask(daemon, 1, BATCH), "cuda")
        wait_until(lambda: self.placement(daemon)["gpu"]["answered"] == 1, "the batch to be counted")
        self.assertEqual(self.placement(daemon)["cpu"]["answered"], metric(daemon, 'voxeld_jobs_total{backend="cpu"}'))
        wait_until(
            lambda: self.ask_voxels(daemon) and self.placement(daemon)["used_processors"] > 0, "used processors"
        )
        self.assertEqual(daemon.status()["state"], "ready")
        daemon.assert_quiet()
        daemon.stop()

    def ask_voxels(self, daemon):
        return self.assert_voxels(daemon.post(VOXELIZE, BODIES[0]))["backend"]

    def test_a_fast_gpu_keeps_them(self):
        daemon = self.start(0, 2 * SLOW)  # a sampling would take the CPU more than 100 ms, so the CPU takes none
        measured = self.placement(daemon)
        self.assertGreaterEqual(measured["cpu"]["measured_us"], SLOW * 1000)
        self.assertLess(measured["gpu"]["measured_us"], SLOW * 1000)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertEqual(set(pool.map(lambda index: self.ask(daemon, index), range(20))), {"cuda"})
        self.assertEqual(self.placement(daemon)["cpu"]["answered"], 0)
        daemon.assert_quiet()
        daemon.stop()

    def test_the_cpu_takes_what_a_busy_gpu_would_do_later(self):
        # On a busy machine a daemon may measure far too long a time for one of the two. Then the test starts another.
        def both_at_once():
            daemon = self.start(50, 150)  # the two GPUs do as much in a second as the six workers of the CPU
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda index: self.ask(daemon, index), range(40)))
            answered = [self.placement(daemon)[target]["answered"] for target in ("gpu", "cpu")]
            daemon.assert_quiet()
            daemon.stop()
            return min(answered) >= 10

        wait_until(both_at_once, "both to do their parts")

    def test_without_free_processors_the_gpus_do_all(self):
        daemon = self.start(100, 0, workers=1)
        self.assertFalse(self.placement(daemon)["cpu"]["room"])
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            backends = list(pool.map(lambda index: self.ask(daemon, index), range(20)))
        self.assertEqual(set(backends), {"cuda"})
        self.assertEqual(self.placement(daemon)["cpu"]["answered"], 0)
        daemon.stop()

    def test_a_gpu_that_cannot_be_measured_counts_as_fast_as_the_constants_say(self):
        lanes = 4
        for failure, lost in (("memory", 0), ("lost", 1)):
            with self.subTest(failure):
                daemon = self.start(0, 0, "--gpu-streams", "1", inject=f"{failure}@{lanes + 1}")
                self.assertEqual(self.placement(daemon)["gpu"]["measured_us"], 1253)
                self.assertNotEqual(self.placement(daemon)["cpu"]["measured_us"], 783)
                self.assertEqual(len(daemon.logged("a sampling was not measured")), 1)
                self.assertEqual(metric(daemon, 'voxeld_gpus{state="lost"}'), lost)
                self.ask(daemon)
                daemon.stop()

    def test_gpus_lost_in_between_lose_nothing(self):
        daemon = self.start(30, 30)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(self.ask, daemon, index) for index in range(100)]
            wait_until(lambda: self.placement(daemon)["gpu"]["answered"] > 10, "the load")
            self.put("inject", "lost@1+")
            backends = [answer.result() for answer in answers]
        self.assertIn("cuda", backends)
        self.assertIn("cpu", backends)
        self.assertEqual(metric(daemon, 'voxeld_gpus{state="lost"}'), 2)
        status = daemon.status()
        self.assertEqual((status["state"], status["long_workers"]["count"]), ("degraded", 8))
        self.assertEqual(status["sampling_placement"]["cpu"]["workers"], 0)  # there is no GPU
        self.assertEqual(self.ask(daemon), "cpu")
        daemon.assert_quiet()
        daemon.stop()

    def test_deadlines_stop_a_sampling_beside_gpus(self):
        daemon = self.start(SLOW, 0)
        self.slow(SLOW, 600_000)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(daemon.post, FPS + "&timeout_ms=3000", BODIES[0])
            wait_until(lambda: answer.done() or self.placement(daemon)["cpu"]["running"] == 1, "a sampling on the CPU")
            self.assert_problem(answer.result(), 504)
        wait_until(lambda: self.placement(daemon)["cpu"]["running"] == 0, "a free worker")
        daemon.assert_quiet()
        daemon.stop()

    def test_a_stop_answers_what_both_have(self):
        daemon = self.start(20, 20, "--drain-timeout-s", "100")
        self.slow(10 * SLOW, 10 * SLOW)

        def there():
            status = daemon.status()
            return status["long_workers"]["running"] + status["long_queue"]["depth"] == 12

        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = [pool.submit(self.ask, daemon, index) for index in range(12)]
            wait_until(
                lambda: all(self.placement(daemon)[target]["running"] for target in ("gpu", "cpu")), "both at work"
            )
            wait_until(there, "all to be there")
            daemon.process.send_signal(signal.SIGTERM)
            backends = {answer.result() for answer in answers}
        self.assertEqual(backends, {"cpu", "cuda"})
        self.assertEqual(daemon.wait(), 0, daemon.log())

    def test_without_gpus_there_is_no_placement(self):
        self.assertNotIn("sampling_placement", self.daemon.status())


if __name__ == "__main__":
    if not STAND_IN:
        print("skipped: needs the stand-in for GPUs (a sanitizer build)")
        sys.exit(77)
    unittest.main()
