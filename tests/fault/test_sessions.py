"""Networks on GPUs, with stand-ins for networks and GPUs: where networks run, and what happens to detections if a
network, a GPU or its memory fails. The boxes have the same bytes on every device."""

import json
import os
import re
import signal
import tempfile
import threading
import unittest

import models
from client import Daemon, rows, wait_until
from daemon import voxeld_binary
from shared import Memory

SCAN = rows(500)
ALL = "&outputs=boxes,scores,labels,box_indices,box_counts,cls_preds,bev_features"
DETECT = "/v1/detect?model="
LIMIT = 1 << 20


def has_standin():
    with open(voxeld_binary(), "rb") as program:
        return b"VOXELD_STANDIN_DEVICES" in program.read()


class Watching(Daemon):
    """Collects the answers of /readyz in `told` until the daemon is ready."""

    def _is_ready(self):
        reply = self.get("/readyz")
        self.told = getattr(self, "told", []) + [reply.body.decode()]
        return reply.status == 200


@unittest.skipUnless(has_standin(), "needs a stand-in for GPUs, which the sanitizer builds have")
class Sessions(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.request = os.path.join(self.folder, ".inject")

    def write(self, name="good", lines=(), **parts):
        return models.write(self.folder, name, models.standin(lines=lines), **parts)

    def start(self, *args, devices=1, env=(), kind=Daemon):
        means = ("--models-dir", self.folder, "--onnxruntime", models.STANDIN, "--network-memory-bytes", str(LIMIT))
        env = {"VOXELD_STANDIN_DEVICES": str(devices), "VOXELD_INJECT": self.request, **dict(env)}
        daemon = kind("--backend", "cuda" if devices else "cpu", *means, *args, env=env)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        return daemon

    def stop(self, daemon):
        daemon.assert_quiet()
        daemon.stop()

    def inject(self, text):
        with open(self.request + ".draft", "w", encoding="utf-8") as file:
            file.write(text)
        os.rename(self.request + ".draft", self.request)

    def ask(self, daemon, name="good", query=ALL):
        """(tensors, backend) of a detection."""
        reply = daemon.post(DETECT + name + query, SCAN)
        self.assertEqual(reply.status, 200, reply)
        return reply.tensors(), re.search(rb'\\"backend\\":\\"(\w+)\\"', reply.body)[1].decode()

    def right(self):
        """The tensors of the CPU."""
        if not hasattr(self, "_right"):
            daemon = self.start(devices=0)
            self._right = self.ask(daemon)[0]
            self.stop(daemon)
        return self._right

    def assert_runs_on(self, daemon, backend, name="good"):
        tensors, where = self.ask(daemon, name)
        self.assertEqual(where, backend)
        self.assertEqual(tensors, self.right())

    def sessions(self, daemon, name="good"):
        return daemon.get(f"/v1/models/{name}").json()["network"]["sessions"]

    def metric(self, daemon, sample):
        found = re.search(rf"^{re.escape(sample)} (\S+)$", daemon.get("/metrics").body.decode(), re.MULTILINE)
        return float(found[1])

    def reruns(self, daemon, failure):
        return self.metric(daemon, f'voxeld_reruns_total{{failure="{failure}"}}')


class Places(Sessions):
    def test_requests_of_every_protocol_run_on_the_gpu(self):
        self.write()
        daemon = self.start()
        points = {"name": "points", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 1.0, 0.0, 0.5]}
        asked = json.dumps({"inputs": [points], "parameters": {"score_threshold": 0.2}})
        sample = 'voxeld_jobs_total{backend="cuda"}'
        before = self.metric(daemon, sample)
        for ask in (
            lambda: daemon.post("/v2/models/good/infer", asked),
            lambda: daemon.post(DETECT + "good&score_threshold=0.2", SCAN),
            lambda: daemon.post(DETECT + "good&stream=roof&time=1&pose=0,0,0,1,0,0,0", SCAN),
        ):
            reply = ask()
            self.assertEqual(reply.status, 200, reply)
            before += 1
            self.assertEqual(self.metric(daemon, sample), before)
        daemon.request("DELETE", "/v1/streams/roof")  # otherwise the stream would keep its sweep for a minute
        self.stop(daemon)

    def test_a_network_runs_on_each_stream_of_each_gpu(self):
        self.write()
        self.right()
        daemon = self.start("--gpu-detection-streams", "2", devices=2)
        sessions = self.sessions(daemon)
        self.assertEqual(sorted(session["device"] for session in sessions), ["cuda:0", "cuda:0", "cuda:1", "cuda:1"])
        for session in sessions:
            self.assertEqual((session["in_use"], session["memory_limit_bytes"], session["tf32"]), (True, LIMIT, False))
        for _ in range(4):
            self.assert_runs_on(daemon, "cuda")
        for device in daemon.status()["backend"]["devices"]:
            self.assertEqual((device["network_sessions"], device["network_memory_limit_bytes"]), (2, 2 * LIMIT))
        for gpu in "01":
            self.assertEqual(self.metric(daemon, f'voxeld_gpu_network_sessions{{gpu="{gpu}"}}'), 2)
            limit = self.metric(daemon, f'voxeld_gpu_network_memory_limit_bytes{{gpu="{gpu}"}}')
            self.assertEqual(limit, 2 * LIMIT)
        self.stop(daemon)

    def test_tf32_is_asked_for(self):
        self.write()
        daemon = self.start("--network-tf32")
        self.assertTrue(self.sessions(daemon)[0]["tf32"])
        self.stop(daemon)

    def test_without_the_provider_the_cpu_runs_the_network(self):
        self.write()
        self.right()
        daemon = self.start(env={"STANDIN_NO_CUDA": "1"})
        (session,) = self.sessions(daemon)
        self.assertFalse(session["in_use"])
        self.assertIn("libonnxruntime_providers_cuda.so", session["reason"])
        line = daemon.logged("a network does not run")[0]
        self.assertIn("libonnxruntime_providers_cuda.so", line)
        self.assertIn('effect="it runs on the CPU"', line)
        self.assert_runs_on(daemon, "cpu")
        self.assertEqual(self.reruns(daemon, "failed"), 0)  # the GPU never got the job
        self.assertEqual(daemon.status()["state"], "ready")
        self.stop(daemon)

    def test_a_network_may_fail_when_it_is_opened_or_warmed_up(self):
        self.write()
        self.right()
        for name, lines in (("unopened", ["session open fails"]), ("unwarmed", ["session 1 fails"])):
            self.write(name, lines)
        daemon = self.start()
        for name in ("unopened", "unwarmed"):
            (session,) = self.sessions(daemon, name)
            self.assertFalse(session["in_use"])
            self.assertIn("CUDNN_STATUS_EXECUTION_FAILED", session["reason"])
            self.assert_runs_on(daemon, "cpu", name)
        self.assert_runs_on(daemon, "cuda")
        self.assertEqual(daemon.status()["backend"]["devices"][0]["network_sessions"], 1)
        self.stop(daemon)

    def test_readiness_waits_for_the_networks(self):
        self.write(lines=["wait 700"])
        daemon = self.start("--gpu-detection-streams", "2", kind=Watching)
        told = "".join(daemon.told)
        self.assertIn("the server runs its networks once: 0 of 2 runs are done", told)
        self.assertIn("the server runs its networks once: 1 of 2 runs are done", told)
        self.assertEqual(len(daemon.logged("a network is warm")), 2)
        self.stop(daemon)


class Failures(Sessions):
    def test_a_network_that_fails_a_run_moves_to_the_cpu(self):
        self.write()
        self.right()
        self.write(lines=["session 3 fails"])  # the first run is the warm-up
        daemon = self.start()
        self.assert_runs_on(daemon, "cuda")
        for _ in range(4):
            self.assert_runs_on(daemon, "cpu")
        self.assertEqual(self.reruns(daemon, "failed"), 1)
        self.assertIn("CUDNN_STATUS_EXECUTION_FAILED", self.sessions(daemon)[0]["reason"])
        self.assertEqual(daemon.status()["state"], "ready")  # the GPU serves other jobs
        self.assertEqual(len(daemon.logged("a network does not run")), 1)
        os.kill(daemon.pid(), signal.SIGHUP)
        wait_until(lambda: self.sessions(daemon)[0]["in_use"], "a new session")
        self.assert_runs_on(daemon, "cuda")
        self.stop(daemon)

    def test_a_network_whose_newer_files_are_broken_keeps_its_sessions(self):
        self.write()
        self.right()
        daemon = self.start("--gpu-detection-streams", "2")
        models.write(self.folder, "good", b"no network")
        os.kill(daemon.pid(), signal.SIGHUP)
        wait_until(lambda: "refused" in daemon.get("/v1/models/good").json(), "a refusal")
        self.assertEqual([session["in_use"] for session in self.sessions(daemon)], [True, True])
        self.assert_runs_on(daemon, "cuda")
        self.stop(daemon)

    def test_a_network_without_memory_keeps_its_session_and_the_gpu(self):
        self.write()
        self.right()
        self.write(lines=["session 2 memory"])
        daemon = self.start()
        for _ in range(5):  # more failures in a row than it takes to pause a GPU
            self.assert_runs_on(daemon, "cpu")
        self.assertEqual(self.reruns(daemon, "out_of_memory"), 5)
        self.assertTrue(self.sessions(daemon)[0]["in_use"])
        self.assertEqual(daemon.status()["state"], "ready")
        self.stop(daemon)

    def test_each_failing_call_of_a_gpu_is_made_good(self):
        self.write()
        self.right()
        for failure, name in (("refused", "refused"), ("memory", "out_of_memory")):
            daemon = self.start()
            for call in (1, 2, 3):  # calls of CUDA before the network's run, for its output, and after the run
                self.inject(f"{failure}@{call}")
                self.assert_runs_on(daemon, "cpu")
                self.assert_runs_on(daemon, "cuda")
            self.assertEqual(self.reruns(daemon, name), 3)
            self.stop(daemon)

    def test_a_gpu_is_lost_amid_a_detection(self):
        self.write()
        self.right()
        for call in (1, 2, 3):
            daemon = self.start()
            self.inject(f"lost@{call}")
            self.assert_runs_on(daemon, "cpu")
            self.assertEqual(daemon.status()["state"], "degraded")
            (session,) = self.sessions(daemon)
            self.assertEqual((session["in_use"], session.get("reason")), (False, "the GPU is lost"))
            self.assertEqual(daemon.status()["backend"]["devices"][0]["network_sessions"], 0)
            self.assertEqual(self.metric(daemon, 'voxeld_gpu_network_sessions{gpu="0"}'), 0)
            os.kill(daemon.pid(), signal.SIGHUP)  # a reload opens no session on a lost GPU
            wait_until(lambda daemon=daemon: self.sessions(daemon) == [], "models without sessions")
            self.assert_runs_on(daemon, "cpu")
            self.stop(daemon)

    def test_a_gpu_is_lost_in_the_warm_up(self):
        self.write()
        self.right()
        self.inject("lost@11")  # the lanes make the first calls, then the detection of the warm-up begins
        daemon = self.start("--gpu-streams", "8", "--gpu-long-streams", "1", "--long-workers", "1")
        self.assertEqual(daemon.status()["state"], "degraded")
        self.assert_runs_on(daemon, "cpu")
        self.stop(daemon)

    def test_a_deadline_ends_a_detection_on_a_gpu(self):
        self.write("slow", ["wait 1000"])
        daemon = self.start()
        reply = daemon.post(DETECT + "slow&timeout_ms=300", SCAN)
        self.assertEqual(reply.status, 504, reply)
        self.assertEqual(self.ask(daemon, "slow")[1], "cuda")
        self.stop(daemon)


class Lives(Sessions):
    def test_a_reload_warms_the_new_and_keeps_the_old_until_its_jobs_end(self):
        self.write("slow", ["wait 1500"])
        daemon = self.start("--gpu-detection-streams", "2")
        replies = []
        asker = threading.Thread(target=lambda: replies.append(self.ask(daemon, "slow")))
        asker.start()
        wait_until(lambda: daemon.status()["detection_workers"]["running"] == 1, "a detection that runs")
        self.write("slow", tensors=models.weights(seed=2))
        os.kill(daemon.pid(), signal.SIGHUP)
        wait_until(lambda: daemon.times_logged("what=models"), "a reload of the models")
        self.assertEqual(len(daemon.logged("a network is warm")), 4)
        new = self.ask(daemon, "slow")
        asker.join()
        self.assertEqual((replies[0][1], new[1]), ("cuda", "cuda"))
        self.assertNotEqual(replies[0][0], new[0])
        self.assertEqual(daemon.status()["backend"]["devices"][0]["network_sessions"], 2)
        self.stop(daemon)

    def test_a_drain_lets_a_detection_end(self):
        self.write("slow", ["wait 1500"])
        daemon = self.start()
        replies = []
        asker = threading.Thread(target=lambda: replies.append(self.ask(daemon, "slow")))
        asker.start()
        wait_until(lambda: daemon.status()["detection_workers"]["running"] == 1, "a detection that runs")
        daemon.stop()
        asker.join()
        self.assertEqual(replies[0][1], "cuda")

    def test_a_stop_does_not_wait_for_the_warm_up_of_a_reload(self):
        self.write("slow", ["wait 400"])
        daemon = self.start("--gpu-detection-streams", "8")
        os.kill(daemon.pid(), signal.SIGHUP)
        wait_until(lambda: daemon.times_logged("a network is warm") > 8, "a reload that warms up")
        daemon.stop()
        self.assertLess(daemon.times_logged("a network is warm"), 16)

    def test_pinned_points_are_read_in_place(self):
        self.write()
        right = self.ask(self.start(devices=0), query="")[0]
        for env, ways in (((), (1, 0)), ({"STANDIN_NO_CUDA": "1"}, (0, 1))):
            memory = Memory(1 << 20)
            memory.write(SCAN)
            daemon = self.start("--allow-shared-memory", "--shared-memory-prefix", "voxeld-test", env=env)
            self.assertEqual(memory.register(daemon, "a").status, 200)
            reply = daemon.post(f"{DETECT}good&points_region=a,0,{len(SCAN)}")
            self.assertEqual((reply.status, reply.tensors()), (200, right))
            use = daemon.status()["shared_memory"]
            self.assertEqual((use["parts_in_place"], use["parts_copied"]), ways)
            daemon.stop()
            memory.__exit__()


if __name__ == "__main__":
    unittest.main()
