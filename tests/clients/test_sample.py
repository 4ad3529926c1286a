"""The sample models of models/ find objects in simulated streets; training/judge measures how many. Without ONNX
Runtime only the tests of judging run."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import models
from command_line import run
from daemon import PATIENCE, ROOT, SCAN, Daemon
from rude_server import url_of

sys.path.insert(0, str(ROOT / "training"))
import judging  # noqa: E402
from streets import Street, simulate  # noqa: E402

FOLDER = ROOT / "models"
CLASSES = ["Car", "Pedestrian", "Cyclist"]


def box(x, y, heading=0.0):
    return [x, y, 0, 4, 2, 1.5, heading]


class Judging(unittest.TestCase):
    def tally(self, found, lowest=0.0, heading=0.0):
        """Three cars, one with too few points and one out of range, and a pedestrian. `found`: x, y, score, label."""
        boxes = np.array([box(1, 1), box(5, 5), box(99, 0), box(-4, 2)], np.float32)
        seen = np.array([True, False, True, True])
        street = Street(np.zeros((0, 4), np.float32), boxes, np.array([0, 0, 0, 1]), seen)
        tally = judging.Tally(CLASSES, [-50, -50, 50, 50], lowest)
        rows = np.array(found, np.float32).reshape(-1, 4)
        tally.add(
            street,
            np.array([box(*row[:2], heading) for row in rows]).reshape(-1, 7),
            rows[:, 2],
            rows[:, 3].astype(int),
        )
        return tally.report()

    def rates(self, found, name, least):
        rates = self.tally(found)["by_least_score"][name][str(least)]
        return rates["recall"], rates["precision"]

    def test_what_is_wanted(self):
        self.assertEqual(self.tally([])["boxes"], {"Car": 1, "Pedestrian": 1, "Cyclist": 0})
        self.assertEqual(self.rates([], "Car", 0.3), (0, 0))
        self.assertEqual(list(self.tally([], 0.4)["by_least_score"]["Car"]), ["0.4", "0.5", "0.6"])

    def test_a_near_box_of_the_class_finds_an_object_once(self):
        near, again, far, other = (1.5, 1, 0.9, 0), (1, 1.2, 0.8, 0), (3, 1, 0.7, 0), (-4, 2, 0.9, 0)
        self.assertEqual(self.rates([near], "Car", 0.3), (1, 1))
        self.assertEqual(self.rates([again, near], "Car", 0.3), (1, 0.5))
        self.assertEqual(self.rates([far], "Car", 0.3), (0, 0))
        self.assertEqual(self.rates([near, far, again], "Car", 0.3), (1, 0.333))
        self.assertEqual(self.rates([other], "Pedestrian", 0.3), (0, 0))
        self.assertEqual(self.rates([near], "Car", 0.6), (1, 1))
        self.assertEqual(self.rates([(1, 1, 0.5, 0)], "Car", 0.6), (0, 0))

    def test_a_heading_is_reversed_beyond_a_quarter_turn(self):
        found = [(1, 1, 0.9, 0), (3, 1, 0.7, 0)]
        for heading, reversed_ in ((1.5, 0), (1.6, 1), (3.1, 1), (-1.6, 1), (6.3, 0)):
            rates = self.tally(found, heading=heading)["by_least_score"]["Car"]["0.3"]
            self.assertEqual((rates["recall"], rates["reversed"]), (1, reversed_), heading)

    def test_a_box_with_few_points_counts_neither_way(self):
        self.assertEqual(self.rates([(5, 5, 0.9, 0), (1, 1, 0.9, 0)], "Car", 0.3), (1, 1))
        self.assertEqual(self.rates([(5, 5, 0.9, 0)], "Car", 0.3), (0, 0))

    def test_the_sentence(self):
        text = judging.sentence(self.tally([(1, 1, 0.9, 0)]), 0.4)
        self.assertTrue(text.startswith("A sample, trained on simulated streets; no model for the road."), text)
        self.assertIn("on 1 unseen simulated streets, of boxes that score at least 0.4: Car 1.000 and 1.000", text)
        self.assertIn("Headings are often reversed: 0.000 of Car", text)

    def test_a_street_follows_from_its_seed(self):
        one, again, other = (simulate(SCAN, seed, CLASSES) for seed in (7, 7, 8))
        self.assertEqual([part.tobytes() for part in one], [part.tobytes() for part in again])
        self.assertNotEqual(one.points.tobytes(), other.points.tobytes())
        self.assertEqual(one.boxes.shape, (len(one.labels), 7))
        self.assertGreater(one.seen.sum(), 5)


class Sample:
    NAME, SCORE = "", 0.4  # the figures of a description count boxes of this score or more
    LEAST = {}  # by class: both its recall and its precision must be above this
    CARS = 0  # one street must show more cars than this

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--models-dir", str(FOLDER), "--onnxruntime", models.library())
        cls.addClassCleanup(cls.daemon.stop)
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))

    def test_it_says_what_it_is(self):
        model = self.daemon.get(f"/v1/models/{self.NAME}").json()
        self.assertTrue(model["ready"], model)
        self.assertTrue(
            model["description"].startswith("A sample, trained on simulated streets; no model for the road.")
        )
        self.assertRegex(model["description"], r"Recall and precision on \d+ unseen simulated streets")
        self.assertRegex(model["description"], r"Headings are often reversed: 0\.\d+ of Car")

    def test_it_finds_most_of_unseen_streets(self):
        command = [sys.executable, str(ROOT / "training" / "judge"), "--server", url_of(self.daemon), "--unseen", "3"]
        command += ["--model", self.NAME, "--least-score", str(self.SCORE)]
        report = self.folder / "report.json"
        told = {"capture_output": True, "text": True, "timeout": PATIENCE}
        done = subprocess.run([*command, "--voxel-scan", SCAN, "--report", str(report)], **told)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        figures = json.loads(report.read_text(encoding="utf-8"))
        self.assertEqual(done.stdout.splitlines()[-1], judging.sentence(figures, self.SCORE))
        for name, least in self.LEAST.items():
            rates = figures["by_least_score"][name][str(self.SCORE)]
            self.assertGreater(figures["boxes"][name], 5)
            self.assertGreater(rates["recall"], least, figures)
            self.assertGreater(rates["precision"], least, figures)

    def test_the_command_line_prints_its_boxes(self):
        scan = self.folder / "street.bin"
        subprocess.run([SCAN, "--traffic", "--seed", "1000007", "--output", str(scan)], check=True)
        done = run("detect", scan, "--model", self.NAME, "--server", url_of(self.daemon))
        self.assertEqual(done.status, 0, done)
        kinds = [line.split()[0] for line in done.output.splitlines()[2:]]
        self.assertGreater(kinds.count("Car"), self.CARS)
        self.assertLessEqual(set(kinds), set(CLASSES))


@unittest.skipUnless(models.library(), "there is no onnxruntime for this Python")
class PointPillar(Sample, unittest.TestCase):
    NAME, LEAST, CARS = "simulated_pointpillar", {"Car": 0.8, "Pedestrian": 0.5, "Cyclist": 0.5}, 5


@unittest.skipUnless(models.library(), "there is no onnxruntime for this Python")
class Second(Sample, unittest.TestCase):
    NAME, SCORE, LEAST, CARS = "simulated_second", 0.3, {"Car": 0.8, "Pedestrian": 0.5, "Cyclist": 0.4}, 5


if __name__ == "__main__":
    unittest.main()
