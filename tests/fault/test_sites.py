"""Samplings of one cloud run where they end first: on a GPU, or on the CPU beside it. The bytes are the same, and
nothing is lost.

Needs the stand-in for GPUs, which samples as slowly as a test asks: VOXELD_STANDIN_SLOW names a file with the
milliseconds that each sampling takes longer, on a GPU and on the CPU.
"""

import concurrent.futures
import pathlib
import signal
import sys
import tempfile
import unittest

from client import VOXELIZE, Daemon, FaultCase, rows, wait_until
from test_devices import STAND_IN, metric

POINTS, SAMPLES = 3000, 200
FPS = f"/v1/fps?num_samples={SAMPLES}"
VOXELS = VOXELIZE + "&fps=20"
BATCH = FPS + f"&point_counts={POINTS // 2},{POINTS // 2}"
BODIES = [rows(POINTS, seed=seed) for seed in range(5)]
IN_A_ROW = 20
SLOW = 1000  # ms; a loaded machine with a sanitizer takes some tens for such a sampling by itself


class Sites(FaultCase):
    ARGS = ("--backend", "cpu")  # the class's own daemon says what is right

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.right = {path: [cls.daemon.post(path, body).tensors() for body in BODIES] for path in (FPS, VOXELS, BATCH)}

    def start(self, gpu_ms, cpu_ms, *args, workers=64):
        """A daemon with two GPUs and as many streams for long jobs, and six workers of the CPU beside them."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.slow(gpu_ms, cpu_ms)
        env = {
            "VOXELD_STANDIN_DEVICES": "2",
            "VOXELD_STANDIN_SLOW": str(self.folder / "slow"),
            "VOXELD_INJECT": str(self.folder / "inject"),
        }
        limits = ("--workers", str(workers), "--sampling-streams", "1", "--sampling-workers", "8")
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
        """Posts one of the bodies; the tensors must be right. Returns the backend that computed them."""
        reply = daemon.post(path, BODIES[index % len(BODIES)])
        metadata = self.assert_voxels(reply)
        self.assertEqual(reply.tensors(), self.right[path][index % len(BODIES)])
        return metadata["backend"]

    def await_site(self, daemon, backend, path=FPS):
        """Asks until that many samplings in a row ran there."""
        row = lambda: all(self.ask(daemon, index, path) == backend for index in range(IN_A_ROW))
        wait_until(row, f"{IN_A_ROW} samplings in a row by {backend}")

    def sites(self, daemon):
        return daemon.status()["sampling_sites"]

    def times(self, daemon, sampled="points"):
        return [time for time in self.sites(daemon)["times"] if time["sampled"] == sampled]

    def test_a_slow_gpu_leaves_samplings_to_the_cpu(self):
        daemon = self.start(SLOW, 0)
        self.assertEqual(self.sites(daemon)["times"], [])
        self.await_site(daemon, "cpu")
        (time,) = self.times(daemon)
        self.assertEqual((time["points"], time["samples"]), (2048, 128))
        self.assertGreaterEqual(time["gpu_us"], SLOW * 1000)
        self.assertLess(time["cpu_us"], SLOW * 1000)
        sites = self.sites(daemon)
        self.assertEqual(sites["cpu"]["workers"], 6)
        # Those count among the workers while they run a job, so that a rate of use tells of the GPUs'.
        streams = daemon.status()["sampling_workers"]["count"] - 6
        wait_until(lambda: metric(daemon, 'voxeld_workers{lanes="sample"}') == streams, "idle workers not to count")
        self.assertTrue(sites["cpu"]["room"])
        self.assertEqual(sites["cpu"]["answered"], metric(daemon, 'voxeld_jobs_total{backend="cpu"}'))
        self.assertEqual(sites["gpu"]["answered"], metric(daemon, 'voxeld_jobs_total{backend="cuda"}'))
        # The rest stays where it was.
        for _ in range(5):
            self.assertEqual(self.ask_voxels(daemon), "cuda")
        self.assertEqual(self.ask(daemon, 1, BATCH), "cuda")
        wait_until(lambda: self.ask_voxels(daemon) and self.sites(daemon)["used_processors"] > 0, "used processors")
        self.assertEqual(daemon.status()["state"], "ready")
        daemon.assert_quiet()
        daemon.stop()

    def ask_voxels(self, daemon):
        return self.assert_voxels(daemon.post(VOXELIZE, BODIES[0]))["backend"]

    def test_a_fast_gpu_keeps_them(self):
        daemon = self.start(0, SLOW)
        wait_until(lambda: self.ask(daemon) and any("cpu_us" in time for time in self.times(daemon)), "both times")
        self.await_site(daemon, "cuda")
        (time,) = self.times(daemon)
        self.assertGreaterEqual(time["cpu_us"], SLOW * 1000)
        self.assertLess(time["gpu_us"], SLOW * 1000)
        self.assertGreaterEqual(self.sites(daemon)["cpu"]["answered"], 2)
        daemon.assert_quiet()
        daemon.stop()

    def test_the_cpu_takes_what_a_busy_gpu_would_do_later(self):
        daemon = self.start(50, 60)
        wait_until(lambda: self.ask(daemon) and any("cpu_us" in time for time in self.times(daemon)), "both times")

        def both_at_once():
            before = self.sites(daemon)
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                list(pool.map(lambda index: self.ask(daemon, index), range(40)))
            after = self.sites(daemon)
            return all(after[site]["answered"] - before[site]["answered"] >= 10 for site in ("gpu", "cpu"))

        wait_until(both_at_once, "both sites to do their parts")
        daemon.assert_quiet()
        daemon.stop()

    def test_a_gpu_that_becomes_slow_is_left(self):
        daemon = self.start(0, 100)
        wait_until(lambda: self.ask(daemon) and any("cpu_us" in time for time in self.times(daemon)), "both times")
        self.slow(SLOW, 0)
        self.await_site(daemon, "cpu")
        self.slow(0, SLOW)
        self.await_site(daemon, "cuda")
        daemon.stop()

    def test_samples_of_voxels_are_a_kind_of_their_own(self):
        daemon = self.start(SLOW, 0)
        self.await_site(daemon, "cpu")
        wait_until(lambda: self.ask(daemon, 0, VOXELS) and self.times(daemon, "voxels"), "the times of voxels")
        daemon.stop()

    def test_without_free_processors_the_gpus_do_all(self):
        daemon = self.start(100, 0, workers=1)
        self.assertFalse(self.sites(daemon)["cpu"]["room"])
        with concurrent.futures.ThreadPoolExecutor(6) as pool:
            backends = list(pool.map(lambda index: self.ask(daemon, index), range(20)))
        self.assertEqual(set(backends), {"cuda"})
        self.assertEqual(self.sites(daemon)["cpu"]["answered"], 0)
        daemon.stop()

    def test_gpus_lost_in_between_lose_nothing(self):
        daemon = self.start(50, 50)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(self.ask, daemon, index) for index in range(100)]
            wait_until(lambda: self.sites(daemon)["gpu"]["answered"] > 10, "the load")
            self.put("inject", "lost@1+")
            backends = [answer.result() for answer in answers]
        self.assertIn("cuda", backends)
        self.assertIn("cpu", backends)
        self.assertEqual(metric(daemon, 'voxeld_gpus{state="lost"}'), 2)
        status = daemon.status()
        self.assertEqual((status["state"], status["sampling_workers"]["count"]), ("degraded", 8))
        self.assertEqual(status["sampling_sites"]["cpu"]["workers"], 0)  # no GPU works beside them
        self.assertEqual(self.ask(daemon), "cpu")
        daemon.assert_quiet()
        daemon.stop()

    def test_deadlines_stop_a_sampling_beside_gpus(self):
        daemon = self.start(SLOW, 0)
        self.await_site(daemon, "cpu")
        self.slow(SLOW, 600_000)
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(daemon.post, FPS + "&timeout_ms=3000", BODIES[0])
            wait_until(lambda: answer.done() or self.sites(daemon)["cpu"]["running"] == 1, "a sampling on the CPU")
            self.assert_problem(answer.result(), 504)
        wait_until(lambda: self.sites(daemon)["cpu"]["running"] == 0, "a free worker")
        daemon.assert_quiet()
        daemon.stop()

    def test_a_stop_answers_what_both_sites_have(self):
        daemon = self.start(20, 20, "--drain-timeout-s", "100")
        wait_until(lambda: self.ask(daemon) and any("cpu_us" in time for time in self.times(daemon)), "both times")
        self.slow(4 * SLOW, 4 * SLOW)

        def there():
            status = daemon.status()
            return status["sampling_workers"]["running"] + status["sampling_queue"]["depth"] == 12

        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            answers = [pool.submit(self.ask, daemon, index) for index in range(12)]
            wait_until(lambda: all(self.sites(daemon)[site]["running"] for site in ("gpu", "cpu")), "both at work")
            wait_until(there, "all to be there")
            daemon.process.send_signal(signal.SIGTERM)
            backends = {answer.result() for answer in answers}
        self.assertEqual(backends, {"cpu", "cuda"})
        self.assertEqual(daemon.wait(), 0, daemon.log())

    def test_without_gpus_there_are_no_sites(self):
        self.assertNotIn("sampling_sites", self.daemon.status())


if __name__ == "__main__":
    if not STAND_IN:
        print("skipped: needs the stand-in for GPUs (a sanitizer build)")
        sys.exit(77)
    unittest.main()
