"""GPUs that fail: the CPU answers with the same bytes, the service reports the failure, and no request is lost.

CUDA calls fail on request (tests/support/standin/inject.h), with the stand-in for GPUs in the sanitizer builds, or with
a GPU in the build `faults`.
"""

import concurrent.futures
import functools
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from client import HEAVY, VOXELIZE, Daemon, FaultCase, heavy_rows, rows, wait_until
from daemon import voxeld_binary

with open(voxeld_binary(), "rb") as program:
    PROGRAM = program.read()
STAND_IN = b"VOXELD_STANDIN_DEVICES" in PROGRAM


@functools.cache
def real_gpus():
    count = 0
    while count < 2:
        asked = [voxeld_binary(), "--backend", "cuda", "--devices", str(count), "--check-config"]
        if subprocess.run(asked, capture_output=True).returncode:
            break
        count += 1
    return count


CAN_FAIL = b"VOXELD_INJECT" in PROGRAM and (STAND_IN or real_gpus() > 0)
EVERYTHING = (
    VOXELIZE + "&feature=points,mean,pillar&max_points_per_voxel=4&outputs=voxel_coords,voxel_num_points,voxels,"
    "voxel_features,pillar_features,point_voxel_ids,voxel_point_mask"
)
BODIES = [rows(count, seed=count) for count in (1, 500, 1000, 2000)]


def metric(daemon, sample):
    found = re.search(rf"^{re.escape(sample)} (\S+)$", daemon.get("/metrics").body.decode(), re.MULTILINE)
    return float(found[1]) if found else None


class Devices(FaultCase):
    ARGS = ("--backend", "cpu")  # of the daemon that computes the expected answers

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.right = [cls.daemon.post(EVERYTHING, body).tensors() for body in BODIES]

    def devices(self):
        """The number of GPUs: two stand-ins, or one or two real ones."""
        return 2 if STAND_IN else min(2, real_gpus())

    def start(self, *args, inject="", env=()):
        """Starts a daemon whose GPUs' calls fail as `inject` says."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.request = pathlib.Path(folder.name) / "inject"
        env = {"VOXELD_INJECT": str(self.request), "VOXELD_STANDIN_DEVICES": "2", **dict(env)}
        daemon = Daemon("--backend", "cuda", "--devices", "0,1" if self.devices() == 2 else "0", *args, env=env)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        if inject:
            self.inject(inject)
        return daemon

    def inject(self, text):
        """Chooses which calls of the last daemon fail from now on."""
        draft = self.request.with_suffix(".draft")
        draft.write_text(text)
        draft.rename(self.request)

    def ask(self, daemon, index):
        """Posts a body and checks the tensors. Returns the backend that computed them."""
        reply = daemon.post(EVERYTHING, BODIES[index])
        backend = self.assert_voxels(reply)["backend"]
        self.assertEqual(reply.tensors(), self.right[index])
        return backend

    def test_the_gpu_computes(self):
        daemon = self.start()
        self.assertEqual([self.ask(daemon, i) for i in range(len(BODIES))], ["cuda"] * len(BODIES))
        status = daemon.status()
        self.assertEqual((status["state"], status["backend"]["name"]), ("ready", "cuda"))
        self.assertTrue(all(device["state"] == "working" for device in status["backend"]["devices"]))
        self.assertEqual(metric(daemon, 'voxeld_jobs_total{backend="cuda"}'), len(BODIES))
        self.assertEqual(metric(daemon, 'voxeld_gpus{state="lost"}'), 0)
        daemon.stop()

    @unittest.skipUnless(STAND_IN, "a real GPU has every operation")
    def test_what_the_gpu_has_not_the_cpu_does(self):
        for lacking, path in (
            ("transform", "/v1/transform?crop=0,0,0,9,9,9"),
            ("occupancy", f"{VOXELIZE}&outputs=occupancy"),
        ):
            with self.subTest(lacking):
                self.check_the_cpu_does(lacking, path)

    def check_the_cpu_does(self, lacking, path):
        daemon = self.start(env={"VOXELD_STANDIN_LACKS": lacking})
        for asked, backend in ((path, "cpu"), (VOXELIZE, "cuda")):
            self.assertEqual(daemon.post(asked, BODIES[1]).status, 200)
            self.assertEqual(metric(daemon, f'voxeld_jobs_total{{backend="{backend}"}}'), 1)
        self.assertEqual(metric(daemon, 'voxeld_reruns_total{failure="refused"}'), 0)  # the GPU never got the job
        self.assertEqual(daemon.status()["state"], "ready")
        daemon.assert_quiet()
        daemon.stop()

    def test_failed_calls_are_made_good_by_the_cpu(self):
        for failure, name in (("refused", "refused"), ("memory", "out_of_memory")):
            with self.subTest(failure):
                # One of 40 calls fails. Several failed jobs in a row would pause a GPU.
                daemon = self.start("--gpu-streams", "2", inject=f"{failure}@40%")
                with concurrent.futures.ThreadPoolExecutor(6) as pool:
                    backends = list(pool.map(lambda i: self.ask(daemon, i % len(BODIES)), range(50)))
                self.assertEqual(metric(daemon, f'voxeld_reruns_total{{failure="{name}"}}'), backends.count("cpu"))
                self.assertGreater(backends.count("cpu"), 0)
                self.assertEqual(daemon.status()["state"], "ready")
                daemon.assert_quiet()
                daemon.stop()

    def states(self, daemon):
        return [device["state"] for device in daemon.status()["backend"]["devices"]]

    def pause_all(self, failure, *args):
        """A daemon whose GPUs fail every job and are all paused."""
        daemon = self.start("--gpu-streams", "1", *args, inject=f"{failure}@1+")
        paused = ["paused"] * self.devices()
        wait_until(lambda: self.ask(daemon, 0) == "cpu" and self.states(daemon) == paused, "all GPUs to be paused")
        return daemon

    def reruns(self, daemon):
        names = ("refused", "out_of_memory", "device_lost")
        return sum(metric(daemon, f'voxeld_reruns_total{{failure="{name}"}}') for name in names)

    def test_a_gpu_that_fails_every_job_is_paused(self):
        for failure in ("refused", "memory"):
            with self.subTest(failure):
                daemon = self.pause_all(failure, "--workers", "5")
                self.assertEqual(daemon.status()["state"], "degraded")
                self.assertEqual(daemon.get("/readyz").body, b"degraded\n")
                self.assertEqual(daemon.get("/readyz").status, 200)
                for device in daemon.status()["backend"]["devices"]:
                    self.assertTrue(device["reason"])
                    self.assertGreaterEqual(device["paused_s"], 0)
                    self.assertGreaterEqual(device["next_trial_s"], 0)
                counts = {state: metric(daemon, f'voxeld_gpus{{state="{state}"}}') for state in ("working", "lost")}
                self.assertEqual(counts, {"working": 0, "lost": 0})
                self.assertEqual(metric(daemon, 'voxeld_gpus{state="paused"}'), self.devices())
                self.assertGreaterEqual(self.reruns(daemon), 3 * self.devices())
                # The CPU runs all further jobs. Some of them were first tried on a paused GPU.
                before = self.reruns(daemon)
                with concurrent.futures.ThreadPoolExecutor(4) as pool:
                    backends = list(pool.map(lambda i: self.ask(daemon, i % len(BODIES)), range(40)))
                self.assertEqual(set(backends), {"cpu"})
                self.assertLess(self.reruns(daemon) - before, 20)
                daemon.assert_quiet()
                daemon.stop()
                self.assertEqual(daemon.times_logged("a GPU is paused"), self.devices())

    def test_a_paused_gpu_is_tried_and_works_again(self):
        daemon = self.pause_all("memory")
        self.inject("memory@0")  # no call fails from now on
        working = ["working"] * self.devices()
        wait_until(lambda: self.ask(daemon, 1) and self.states(daemon) == working, "all GPUs to work again")
        self.assertEqual([self.ask(daemon, i % len(BODIES)) for i in range(8)], ["cuda"] * 8)
        status = daemon.status()
        self.assertEqual((status["state"], status["backend"]["name"]), ("ready", "cuda"))
        self.assertFalse(any("reason" in device or "paused_s" in device for device in status["backend"]["devices"]))
        daemon.assert_quiet()
        daemon.stop()
        for message in ("a GPU is paused", "a GPU works again"):
            self.assertEqual(daemon.times_logged(message), self.devices())

    def test_a_paused_gpu_may_still_be_lost(self):
        daemon = self.pause_all("memory")
        self.inject("lost@1+")
        lost = ["lost"] * self.devices()
        wait_until(lambda: self.ask(daemon, 1) == "cpu" and self.states(daemon) == lost, "all GPUs to be lost")
        self.assertEqual(metric(daemon, 'voxeld_gpus{state="paused"}'), 0)
        daemon.stop()

    def test_a_lost_gpu_is_reported_and_never_used_again(self):
        for call in (1, 2, 3, 4, 5):
            with self.subTest(call):
                daemon = self.start("--gpu-streams", "1", inject=f"lost@{call}")
                backends = [self.ask(daemon, i % len(BODIES)) for i in range(12)]
                wait_until(lambda: daemon.status()["state"] == "degraded", "the loss to be reported")
                self.assertEqual(daemon.get("/readyz").body, b"degraded\n")
                devices = daemon.status()["backend"]["devices"]
                self.assertEqual([device["state"] for device in devices].count("lost"), 1)
                self.assertTrue(all(device.get("reason") for device in devices if device["state"] == "lost"))
                self.assertEqual(metric(daemon, 'voxeld_gpus{state="lost"}'), 1)
                self.assertEqual(metric(daemon, 'voxeld_gpus{state="working"}'), self.devices() - 1)
                # The CPU ran the lost GPU's job again. Later jobs run on the other GPU, if there is one.
                self.assertGreaterEqual(backends.count("cpu"), 1)
                self.assertEqual(self.ask(daemon, 0), "cuda" if self.devices() == 2 else "cpu")
                wait_until(lambda daemon=daemon: "a GPU is lost" in daemon.log(), "the loss to be logged")
                daemon.stop()

    def answered(self, daemon):
        return [device["answered"] for device in daemon.status()["backend"]["devices"]]

    def test_several_gpus_share_the_work_and_give_the_same_bytes(self):
        if self.devices() < 2:
            self.skipTest("there is one GPU")
        daemon = self.start("--gpu-streams", "2")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            backends = list(pool.map(lambda i: self.ask(daemon, i % len(BODIES)), range(50)))
        self.assertEqual(set(backends), {"cuda"})
        answered = self.answered(daemon)
        self.assertEqual(sum(answered), 50)
        self.assertGreater(min(answered), 0)
        for index, jobs in enumerate(answered):
            self.assertEqual(metric(daemon, f'voxeld_gpu_jobs_total{{gpu="{index}"}}'), jobs)
            self.assertEqual(metric(daemon, f'voxeld_gpu_jobs_running{{gpu="{index}"}}'), 0)
        daemon.stop()

    def lose_under_load(self, failure):
        """Returns the number of lost GPUs, and the backends that answer afterwards."""
        daemon = self.start("--gpu-streams", "2")
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(self.ask, daemon, i % len(BODIES)) for i in range(40)]
            wait_until(lambda: sum(self.answered(daemon)) > 5, "the load")
            self.inject(failure)
            answers += [pool.submit(self.ask, daemon, i % len(BODIES)) for i in range(16)]  # the others may have ended
            self.assertIn("cpu", [answer.result() for answer in answers])
        lost = [device for device in daemon.status()["backend"]["devices"] if device["state"] == "lost"]
        backends = {self.ask(daemon, i % len(BODIES)) for i in range(10)}
        for device in lost:  # gets no more jobs
            self.assertIn(device, daemon.status()["backend"]["devices"])
        daemon.assert_quiet()
        daemon.stop()
        return len(lost), backends

    def test_a_gpu_lost_under_load_costs_no_answer_and_the_other_serves_on(self):
        self.assertEqual(self.lose_under_load("lost@1"), (1, {"cuda" if self.devices() == 2 else "cpu"}))

    def test_a_fault_inside_a_kernel_costs_no_answer(self):
        lost, backends = self.lose_under_load("dead@1")
        if STAND_IN:
            self.assertEqual((lost, backends), (1, {"cuda"}))
        else:  # on real GPUs, CUDA soon fails the process's other GPUs too
            self.assertGreater(lost, 0)

    def test_without_any_gpu_left_the_cpu_takes_all(self):
        daemon = self.start("--gpu-streams", "1", "--workers", "5", inject="lost@1+")
        self.assertEqual(daemon.status()["workers"]["count"], self.devices())
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            backends = list(pool.map(lambda i: self.ask(daemon, i % len(BODIES)), range(40)))
        self.assertEqual(set(backends), {"cpu"})
        wait_until(lambda: metric(daemon, 'voxeld_gpus{state="working"}') == 0, "all GPUs to be lost")
        self.assertEqual(daemon.status()["workers"]["count"], 5)
        self.assertEqual(daemon.get("/readyz").status, 200)
        daemon.assert_quiet()
        daemon.stop()

    def accepted(self, *args, number=12):
        """Starts a daemon with one worker and submits `number` jobs. Returns the daemon and the answers' futures once
        several jobs wait in the queue."""
        devices = ("--devices", "0")
        daemon = self.start("--gpu-streams", "1", "--workers", "1", "--on-device-lost", "exit", *devices, *args)
        pool = concurrent.futures.ThreadPoolExecutor(number)
        self.addCleanup(pool.shutdown)
        body = heavy_rows()
        answers = [pool.submit(daemon.post, HEAVY, body) for _ in range(number)]
        wait_until(lambda: daemon.status()["requests"]["active"] >= number // 2, "jobs at work")
        wait_until(lambda: daemon.status()["queue"]["depth"] >= 3 or all(a.done() for a in answers), "jobs that wait")
        return daemon, answers

    def assert_ends_with_3(self, daemon, answers):
        """Checks also that every accepted job was answered."""
        replies = [answer.result() for answer in answers]
        self.assertEqual({reply.status for reply in replies} - {503}, {200})
        for reply in replies:
            if reply.status == 200:
                self.assert_voxels(reply)
            else:
                self.assertIn("stopping", reply.json()["detail"])
        self.assertEqual(daemon.wait(), 3, daemon.log())

    @unittest.skipUnless(STAND_IN, "on a real GPU the jobs end too soon")
    def test_exit_answers_what_was_accepted_and_ends_with_3(self):
        daemon, answers = self.accepted()
        self.inject("lost@1")
        self.assert_ends_with_3(daemon, answers)

    @unittest.skipUnless(STAND_IN, "on a real GPU the jobs end too soon")
    def test_a_loss_during_the_drain_loses_no_job(self):
        daemon, answers = self.accepted()
        daemon.terminate()
        self.inject("lost@1")
        self.assert_ends_with_3(daemon, answers)

    @unittest.skipUnless(STAND_IN, "on a real GPU the jobs end too soon")
    def test_the_first_sigterm_after_a_loss_ends_nothing(self):
        daemon, answers = self.accepted()
        self.inject("lost@1")
        wait_until(lambda: "draining" in daemon.log(), "the drain")
        daemon.terminate()
        self.assert_ends_with_3(daemon, answers)

    @unittest.skipUnless(STAND_IN, "on a real GPU the job ends too soon")
    def test_a_lost_gpu_is_reported_before_its_job_is_run_again(self):
        daemon = self.start("--gpu-streams", "2", inject="lost@1")
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            answer = pool.submit(daemon.post, HEAVY, 4 * heavy_rows())
            wait_until(lambda: daemon.status()["state"] == "degraded", "the loss to be reported")
            self.assertFalse(answer.done())
            self.assertEqual(self.assert_voxels(answer.result())["backend"], "cpu")
        daemon.stop()

    def test_a_request_that_both_refuse_is_the_requests_fault(self):
        daemon = self.start("--max-response-bytes", "65536")
        self.assert_problem(daemon.post(EVERYTHING, BODIES[3]), 422)
        for failure in ("refused", "out_of_memory", "device_lost"):
            self.assertEqual(metric(daemon, f'voxeld_reruns_total{{failure="{failure}"}}'), 0)
        daemon.stop()


@unittest.skipUnless(STAND_IN, "needs the stand-in for a GPU")
class Starting(unittest.TestCase):
    """--backend and --devices with missing devices."""

    def run_daemon(self, *args, devices=0):
        env = {k: v for k, v in os.environ.items() if not k.startswith("VOXELD_")}
        env["VOXELD_STANDIN_DEVICES"] = str(devices)
        done = subprocess.run([voxeld_binary(), *args], env=env, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    def test_cuda_without_a_device_names_the_reason(self):
        code, text = self.run_daemon("--backend", "cuda")
        self.assertEqual(code, 2)
        self.assertRegex(text, r"(?m)^voxeld: backend cuda: .*VOXELD_STANDIN_DEVICES")

    def test_a_device_that_is_not_there_is_named(self):
        code, text = self.run_daemon("--backend", "cuda", "--devices", "0,7", devices=2)
        self.assertEqual(code, 2)
        self.assertIn("there is no CUDA device 7: there are 2", text)

    def test_auto_takes_those_that_are_there(self):
        daemon = Daemon("--backend", "auto", "--devices", "0,7", env={"VOXELD_STANDIN_DEVICES": "2"})
        self.addCleanup(daemon.stop)
        self.assertEqual([device["index"] for device in daemon.status()["backend"]["devices"]], [0])
        self.assertIn("device 7", daemon.logged("a GPU is left out")[0])

    def test_a_gpu_tells_whether_its_memory_is_the_hosts(self):
        for variables, expected in (({}, (False, 1 << 20)), ({"VOXELD_STANDIN_INTEGRATED": "1"}, (True, 0))):
            daemon = Daemon("--backend", "auto", env={"VOXELD_STANDIN_DEVICES": "1"} | variables)
            self.addCleanup(daemon.stop)
            (device,) = daemon.status()["backend"]["devices"]
            self.assertEqual((device["integrated"], device["memory_bytes"]), expected)
            self.assertEqual(metric(daemon, 'voxeld_gpu_memory_bytes{gpu="0"}'), expected[1])

    def start_without_lanes(self, backend):
        """Starts a daemon whose GPU has no memory for a lane."""
        with tempfile.TemporaryDirectory() as folder:
            request = pathlib.Path(folder) / "inject"
            request.write_text("memory@1+")
            return Daemon("--backend", backend, env={"VOXELD_STANDIN_DEVICES": "1", "VOXELD_INJECT": str(request)})

    def test_auto_does_without_a_gpu_that_has_no_memory(self):
        daemon = self.start_without_lanes("auto")
        self.addCleanup(daemon.stop)
        status = daemon.status()
        self.assertEqual((status["state"], status["backend"]["name"]), ("degraded", "cpu"))
        self.assertEqual(status["backend"]["devices"][0]["state"], "lost")
        self.assertEqual(daemon.post(VOXELIZE, rows(10)).status, 200)

    def test_cuda_without_memory_for_a_lane_is_an_error(self):
        with self.assertRaisesRegex(RuntimeError, "(?s)ended with 2 .*worker on stand-in 0: lane"):
            self.start_without_lanes("cuda")

    def test_auto_falls_back_with_one_line(self):
        daemon = Daemon("--backend", "auto")
        self.addCleanup(daemon.stop)
        self.assertEqual(daemon.status()["backend"]["name"], "cpu")
        told = daemon.logged("no GPU")
        self.assertEqual(len(told), 1, daemon.log())
        self.assertIn("VOXELD_STANDIN_DEVICES", told[0])

    def test_devices_are_chosen_by_number(self):
        options = ("--backend", "auto", "--devices", "2,0", "--gpu-streams", "3")
        daemon = Daemon(*options, env={"VOXELD_STANDIN_DEVICES": "3"})
        self.addCleanup(daemon.stop)
        status = daemon.status()
        self.assertEqual([device["index"] for device in status["backend"]["devices"]], [2, 0])
        self.assertEqual(status["workers"]["count"], 6)


if __name__ == "__main__":
    if not CAN_FAIL:
        print("skipped: needs a build whose CUDA calls fail on request, with the stand-in for GPUs or with a GPU")
        sys.exit(77)
    unittest.main()
