"""The page at / with models: it draws and lists boxes by class and score; the URL keeps the model and the score."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from safetensors.numpy import load_file, save

import browser
import models

WITH_MODEL = "#preset=kitti_second&view.model=random"


def scan(count, seed=3):
    rng = np.random.default_rng(seed)
    low, high = np.array(models.RANGE[:3] + [0]), np.array(models.RANGE[3:] + [1])
    return rng.uniform(low, high, (count, 4)).astype("<f4")


def setUpModule():
    if browser.why_not():
        raise unittest.SkipTest(browser.why_not())


class DetectionCase(browser.BrowserCase):
    def open(self, state="", points=None, name="mine", **more):
        points = scan(500) if points is None else points
        self.browser.open_with(self.daemon, state, **{f"{name}_bin": points.tobytes()}, **more)

    def choices(self):
        return self.browser.run(
            "return [...document.querySelectorAll('#model option')].map((one) => [one.text, one.disabled, one.title])"
        )


class Detections(DetectionCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.ARGS = (*models.served(folder.name), "--detection-workers", "1")
        models.write(folder.name, "broken", b"nothing")
        models.write(folder.name, "failing", models.standin(batch=1, lines=["fail 2"]))  # after the warm-up
        super().setUpClass()

    def found(self, points, **parameters):
        """The scores of the boxes that the service finds, by class name."""
        query = "&".join(f"{name}={value}" for name, value in {"model": "random", **parameters}.items())
        reply = self.daemon.post(f"/v1/detect?{query}", points.tobytes())
        with tempfile.NamedTemporaryFile() as file:
            file.write(reply.body)
            file.flush()
            tensors = load_file(file.name)
        names = models.description()["class_names"]
        return {name: tensors["scores"][tensors["labels"] == label] for label, name in enumerate(names)}

    def legend(self):
        lines = self.browser.text("#classes").splitlines()
        return {name: int(count.replace(",", "")) for name, count in (line.rsplit(" ", 1) for line in lines)}

    def open_with_model(self, points, state=WITH_MODEL, **more):
        self.open(state, points, **more)
        self.browser.await_text("#state", " boxes by random in ")

    def test_the_models_are_listed(self):
        self.open()
        listed = {name: (disabled, reason) for name, disabled, reason in self.choices()}
        self.assertEqual(set(listed), {"none", "random", "failing", "broken (cannot be used)"})
        disabled, reason = listed["broken (cannot be used)"]
        self.assertTrue(disabled)
        self.assertIn("network.onnx", reason)
        self.assertIn(reason, self.browser.text("#model-doc"))
        self.assertEqual((self.legend(), self.browser.find("#model").get_attribute("value")), ({}, ""))

    def test_a_dropped_scan_gets_its_boxes(self):
        points = scan(3000)
        expected = {name: len(scores) for name, scores in self.found(points).items()}
        self.assertTrue(all(expected.values()), expected)
        self.open_with_model(points)
        self.assertEqual(self.browser.text("#model-doc"), "random weights")
        self.assertEqual(self.legend(), expected)
        for name, count in expected.items():
            self.assertIn(f"boxes of {name} {count}", self.browser.text("#counts"))
        times = self.browser.text("#timing")
        for name in ("voxelize", "detect", "network", "nms"):
            self.assertIn(name, times)
        self.assertEqual(self.browser.messages(), [])
        with_boxes = self.browser.look()
        self.browser.find("#layer-boxes").click()
        self.assertNotEqual(self.browser.look()["sum"], with_boxes["sum"])
        self.browser.find("#layer-boxes").click()
        self.assertEqual(self.browser.look(), with_boxes)
        self.browser.set("#model", "")
        self.browser.await_text("#state", "ms")
        browser.wait_until(lambda: self.legend() == {}, "no boxes any more")
        self.assertNotIn("view.model", self.browser.run("return location.hash"))

    def test_the_score_hides_boxes_and_stands_in_the_url(self):
        points = scan(3000)
        self.open_with_model(points)
        everything = self.browser.look()["sum"]
        for least in ("0.6", "0.9"):
            self.browser.set("#least", least)
            expected = {name: int((scores >= float(least)).sum()) for name, scores in self.found(points).items()}
            self.assertEqual({name: count for name, count in self.legend().items()}, expected)
            self.assertEqual(self.browser.text("#least-value"), least)
        self.assertNotEqual(self.browser.look()["sum"], everything)
        state = self.browser.run("return location.hash")
        self.assertIn("view.model=random", state)
        self.assertIn("view.score=0.9", state)
        self.open_with_model(points, state)
        self.assertEqual(self.browser.find("#least").get_attribute("value"), "0.9")
        self.assertEqual(self.legend(), expected)

    def test_an_address_with_a_model_alone_has_the_first_parameters(self):
        self.open("#view.model=random")
        state = self.browser.run("return location.hash")
        self.assertIn("preset=kitti_second", state)
        self.assertIn("view.model=random", state)

    def test_boxes_of_a_file_are_drawn_beside_those_of_the_model(self):
        points = scan(500)
        expected = sum(map(len, self.found(points).values()))
        truth = save({"boxes": np.array([[8, 0, -1, 4, 2, 1.5, 0]], "<f4"), "labels": np.array([1], "<i4")})
        self.open_with_model(points, mine_safetensors=truth)
        self.browser.await_text("#state", f"{expected} boxes by random")
        self.assertEqual(self.legend()["label 1"], 1)
        self.assertEqual(sum(self.legend().values()), expected + 1)
        self.assertNotIn("#", self.browser.find("#labels").get_attribute("textContent"))

    def test_a_box_with_a_track_shows_its_id(self):
        boxes = {"boxes": np.array([[8, 0, -1, 4, 2, 1.5, 0]], "<f4"), "track_ids": np.array([1 << 40], "<i8")}
        self.open(mine_safetensors=save(boxes))
        shown = lambda: self.browser.find("#labels").get_attribute("textContent")
        browser.wait_until(lambda: f"label 0 #{1 << 40}" in shown(), "its id")

    def test_refusals_are_reported_and_the_voxels_stay(self):
        self.open()
        self.browser.set("#model", "failing")
        self.browser.await_text("#error", "the stand-in's node")
        self.assertIn("voxels kept", self.browser.text("#counts"))
        self.assertEqual(self.legend(), {})
        self.browser.set("#model", "random")
        self.browser.await_text("#state", " boxes by random in ")
        self.assertFalse(self.browser.find("#error").is_displayed())
        self.browser.set("#parameter-num_features", "5")
        self.browser.await_text("#error", "the model random takes 4")

    def test_the_commands_that_it_shows_find_the_same(self):
        points = scan(2000)
        self.open_with_model(points, name="it's mine")
        count = sum(self.legend().values())
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "it's mine.bin").write_bytes(points.tobytes())
            told = {"cwd": folder, "check": True, "capture_output": True}
            subprocess.run(["bash", "-ec", self.browser.text("#curl")], **told)
            self.assertEqual(len(load_file(f"{folder}/boxes.safetensors")["boxes"]), count)
            self.assertTrue((pathlib.Path(folder) / "voxels.safetensors").exists())
            ran = subprocess.run([sys.executable, "-c", self.browser.text("#python")], **told, text=True)
        self.assertEqual(re.findall(r"\((\d+), 7\)", ran.stdout), [str(count)])


class NoModels(DetectionCase):
    def test_a_service_without_models_says_so(self):
        self.open("#preset=kitti_second&view.model=random")
        self.assertEqual(self.browser.text("#model-doc"), "The service has no models.")
        self.assertEqual([name for name, *_ in self.choices()], ["none"])
        self.assertNotIn("boxes", self.browser.text("#state"))


if __name__ == "__main__":
    unittest.main()
