"""Models whose files are broken at a reload: the old version goes on serving, and the pages name the fault."""

import os
import shutil
import threading
import unittest

import models
from client import wait_until
from test_models import DETECT, JSON, SCAN, Models


class Kept(Models):
    def write_version(self, version, seed=1, **parts):
        described = {**models.description(version=version), **parts.pop("members", {})}
        return self.write("good", model=described, tensors=models.weights(seed=seed), **parts)

    def shown(self, daemon, name="good"):
        """A model's entry in /v1/models, which must be the same in /v1/models/NAME."""
        shown = daemon.get(f"/v1/models/{name}").json()
        self.assertIn(shown, daemon.get("/v1/models").json()["models"])
        return shown

    def entry(self, daemon, name="good"):
        return next(entry for entry in daemon.post("/v2/repository/index").json() if entry["name"] == name)

    def counted(self, daemon):
        lines = [line for line in daemon.get("/metrics").body.decode().splitlines() if "voxeld_models{" in line]
        return {line.split('"')[1]: int(line.split()[1]) for line in lines}

    def assert_kept(self, daemon, tensors, version, refused, reason):
        """Checks that the model serves as before, and that the pages say why its newer files are refused."""
        self.assertEqual(self.assert_serves(daemon).tensors(), tensors)
        self.assertEqual(daemon.post(DETECT + "good", SCAN, JSON).json()["model_version"], version)
        shown = self.shown(daemon)
        self.assertEqual((shown["version"], shown["ready"], shown["refused"]["version"]), (version, True, refused))
        self.assertIn(reason, shown["refused"]["reason"])
        self.assertIn("network", shown)
        entry = self.entry(daemon)
        self.assertEqual((entry["version"], entry["state"]), (version, "READY"))
        told = f"newer files of version {refused} are refused: " if refused else "newer files are refused: "
        self.assertEqual(entry["reason"], told + shown["refused"]["reason"])
        self.assertEqual(daemon.get("/v2/models/good").json()["versions"], [version])
        for path in ("", "/ready", "/config", f"/versions/{version}"):
            self.assertEqual(daemon.get("/v2/models/good" + path).status, 200, path)
        self.assertEqual(self.counted(daemon), {"ready": 0, "outdated": 1, "failed": 0})
        line = daemon.logged('msg="a model is not replaced"')[-1]
        for part in ("level=warning", "model=good", f"version={version}", reason.replace('"', '\\"')):
            self.assertIn(part, line)

    def assert_newest(self, daemon, version):
        shown, entry = self.shown(daemon), self.entry(daemon)
        self.assertEqual((shown["version"], shown["ready"]), (version, True))
        self.assertNotIn("refused", shown)
        self.assertEqual((entry["version"], entry["state"], entry["reason"]), (version, "READY", ""))
        self.assertEqual(self.counted(daemon), {"ready": 1, "outdated": 0, "failed": 0})

    def test_the_version_that_served_goes_on_until_the_next_good_one(self):
        self.write_version(1)
        daemon = self.start()
        self.assert_newest(daemon, "1")
        first = self.assert_serves(daemon).tensors()
        self.write_version(2, seed=2, members={"decode": {"head": "hat"}})
        self.reload(daemon)
        self.assert_kept(daemon, first, "1", "2", "model.json: decode.head is 'hat'")
        self.write_version(3, seed=2, network=b"no network")
        self.reload(daemon)
        self.assert_kept(daemon, first, "1", "3", "network.onnx: onnxruntime: Load model failed")
        self.write_version(4, seed=2)
        self.reload(daemon)
        self.assert_newest(daemon, "4")
        self.assertNotEqual(self.assert_serves(daemon).tensors(), first)
        self.stop(daemon)

    def test_files_that_are_missing_are_broken_and_a_folder_that_is_gone_is_not(self):
        path = self.write_version("a")
        daemon = self.start()
        first = self.assert_serves(daemon).tensors()
        for name, version in (("network.onnx", "a"), ("encoder.safetensors", "a"), ("model.json", "")):
            os.remove(os.path.join(path, name))
            self.reload(daemon)
            self.assert_kept(daemon, first, "a", version, f"{name}: No such file")
        shutil.rmtree(path)
        self.reload(daemon)
        self.assertEqual(daemon.post(DETECT + "good", SCAN).status, 400)
        self.assertEqual(daemon.get("/v1/models").json(), {"models": []})
        self.assertEqual(self.counted(daemon), {"ready": 0, "outdated": 0, "failed": 0})
        os.mkdir(path)  # no old version is left to serve
        self.reload(daemon)
        self.assertIn("model.json: No such file", self.fault(daemon, "good"))
        self.stop(daemon)

    def test_a_link_that_leads_nowhere_is_gone_and_one_that_cannot_be_followed_is_broken(self):
        path = self.write_version(1)
        daemon = self.start()
        first = self.assert_serves(daemon).tensors()
        shutil.rmtree(path)
        os.symlink(path, path)
        self.reload(daemon)
        self.assert_kept(daemon, first, "1", "", "Too many levels of symbolic links")
        os.remove(path)
        os.symlink(os.path.join(self.folder, "elsewhere"), path)
        self.reload(daemon)
        self.assertEqual(daemon.get("/v1/models").json(), {"models": []})
        self.stop(daemon)

    def test_a_model_that_never_served_is_refused_by_its_last_fault(self):
        self.write_version(1, members={"format": 2})
        self.write("other")
        daemon = self.start()
        self.assertIn("format is not 1", self.fault(daemon, "good"))
        line = daemon.logged('msg="a model does not serve"')[0]
        for part in ("level=warning", "model=good", "model.json: format is not 1"):
            self.assertIn(part, line)
        ready = {entry["name"] for entry in daemon.post("/v2/repository/index", b'{"ready":true}').json()}
        self.assertEqual({"good", "other", "voxelize"} & ready, {"other", "voxelize"})
        self.write_version(1, network=b"no network")
        self.reload(daemon)
        self.assertIn("Load model failed", self.fault(daemon, "good"))
        self.assertEqual(self.counted(daemon), {"ready": 1, "outdated": 0, "failed": 1})
        self.assert_serves(daemon, "other")
        self.stop(daemon)

    def test_a_network_that_opens_but_does_not_run_is_broken(self):
        self.write_version(1)
        daemon = self.start()
        first = self.assert_serves(daemon).tensors()
        self.write_version(2, lines=["fail"])
        self.write("new", lines=["fail"])
        self.reload(daemon)
        reason = "the network does not run: onnxruntime: Non-zero status code"
        self.assertIn(reason, self.fault(daemon, "new"))
        self.assertEqual(self.counted(daemon), {"ready": 0, "outdated": 1, "failed": 1})
        shutil.rmtree(os.path.join(self.folder, "new"))
        self.reload(daemon)
        self.assert_kept(daemon, first, "1", "2", reason)
        self.write_version(3, lines=["fail"])
        self.reload(daemon)
        self.assert_kept(daemon, first, "1", "3", reason)
        self.write_version(4)
        self.reload(daemon)
        self.assert_newest(daemon, "4")
        self.stop(daemon)

    def test_a_kept_network_is_not_run_again(self):
        self.write_version(1)
        daemon = self.start()
        before = daemon.logged('msg="a network is warm"')
        self.assertTrue(before)
        self.write("good", network=b"no network")
        self.reload(daemon)
        self.assertEqual(daemon.logged('msg="a network is warm"'), before)
        self.stop(daemon)

    def test_jobs_go_on_while_models_are_kept_and_replaced(self):
        self.write_version(0)
        daemon = self.start()
        over, wrong = threading.Event(), []

        def ask():
            while not over.is_set():
                reply = daemon.post(DETECT + "good", SCAN, JSON)
                shown = daemon.get("/v1/models").json()["models"]
                index = daemon.post("/v2/repository/index")
                if reply.status != 200 or not shown[0]["ready"] or index.status != 200:
                    wrong.append((reply, shown))

        askers = [threading.Thread(target=ask) for _ in range(3)]
        for asker in askers:
            asker.start()
        for version in range(1, 5):
            for network in (b"no network", b"none either", None):
                self.write_version(version, network=network)
                self.reload(daemon)
        over.set()
        for asker in askers:
            asker.join()
        self.assertEqual(wrong, [])
        self.assert_newest(daemon, "4")
        self.stop(daemon)

    def test_a_job_ends_with_a_kept_model_that_is_replaced_meanwhile(self):
        slow = {"lines": ["wait 1500"]}
        self.write_version("old", **slow)
        daemon = self.start()
        self.write_version("broken", network=b"no network")
        self.reload(daemon)
        replies = []
        asker = threading.Thread(target=lambda: replies.append(daemon.post(DETECT + "good", SCAN, JSON)))
        asker.start()
        wait_until(lambda: daemon.status()["detection_workers"]["running"] == 1, "a detection that runs")
        self.write_version("new")
        self.reload(daemon)
        self.assertEqual(daemon.post(DETECT + "good", SCAN, JSON).json()["model_version"], "new")
        asker.join()
        self.assertEqual(replies[0].json()["model_version"], "old")
        self.stop(daemon)


if __name__ == "__main__":
    unittest.main()
