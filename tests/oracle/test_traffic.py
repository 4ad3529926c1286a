"""The labelled streets of voxel-scan --traffic: their bytes, their boxes, and the points on the boxes."""

import csv
import os
import pathlib
import subprocess
import tempfile
import unittest

import numpy as np

from daemon import SCAN

SEEDS = range(1, 13)
# The smallest and the largest size of each class, in metres: length, width, height.
SIZES = {"Car": ((3.4, 1.5, 1.4), (5, 2, 1.8)), "Pedestrian": ((0.3, 0.5, 1.5), (0.8, 0.8, 2))}
SIZES["Cyclist"] = ((1.6, 0.6, 1.6), (1.9, 0.6, 1.9))
NOISE = 0.12  # metres that a point may be off its surface


def street(seed, *more):
    """The points [N, 4] of a street, and its boxes as (class, points, [x, y, z, dx, dy, dz, heading])."""
    with tempfile.TemporaryDirectory() as folder:
        labels = pathlib.Path(folder, "labels.csv")
        command = [SCAN, "--traffic", "--seed", str(seed), "--labels", str(labels), *more]
        scan = subprocess.run(command, check=True, capture_output=True).stdout
        rows = list(csv.DictReader(labels.read_text().splitlines()))
    boxes = [(r.pop("class"), int(r.pop("points")), np.array([float(v) for v in r.values()])) for r in rows]
    return np.frombuffer(scan, "<f4").reshape(-1, 4), boxes


def inside(points, box, margin):
    """Which points are in the box, whose sides are moved outwards by `margin` metres."""
    moved = points[:, :3] - box[:3]
    cosine, sine = np.cos(box[6]), np.sin(box[6])
    ahead, left = moved[:, 0] * cosine + moved[:, 1] * sine, moved[:, 1] * cosine - moved[:, 0] * sine
    half = box[3:6] / 2 + margin
    return (abs(ahead) <= half[0]) & (abs(left) <= half[1]) & (moved[:, 2] <= half[2]) & (moved[:, 2] >= -half[2])


class Traffic(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.streets = [street(seed) for seed in SEEDS]

    def test_a_seed_makes_the_same_street(self):
        points, boxes = street(SEEDS[0])
        self.assertEqual(points.tobytes(), self.streets[0][0].tobytes())
        self.assertEqual(repr(boxes), repr(self.streets[0][1]))
        self.assertNotEqual(points.tobytes(), self.streets[1][0].tobytes())

    def test_every_street_has_each_class_in_its_size(self):
        for _, boxes in self.streets:
            self.assertEqual({name for name, _, _ in boxes}, set(SIZES))
            for name, _, box in boxes:
                least, most = SIZES[name]
                self.assertTrue((box[3:6] >= least).all() and (box[3:6] <= most).all(), (name, box))
                self.assertLessEqual(abs(box[6]), np.pi + 1e-4)

    def test_the_points_on_a_thing_are_in_its_box(self):
        for points, boxes in self.streets:
            for name, count, box in boxes:
                near = inside(points, box, NOISE).sum()
                self.assertGreaterEqual(near, 0.98 * count, (name, box))

    def test_most_points_in_a_box_are_on_its_thing(self):
        shares = []
        for points, boxes in self.streets:
            for _, count, box in boxes:
                if count >= 50:
                    above_ground = box + np.array([0, 0, 0.1, 0, 0, 0, 0])
                    shares.append(inside(points, above_ground, 0).sum() / count)
        self.assertLess(np.median(shares), 1.1)

    def test_boxes_do_not_meet(self):
        for _, boxes in self.streets:
            places = np.array([box for _, _, box in boxes])
            away = np.hypot(*(places[:, None, :2] - places[None, :, :2]).transpose(2, 0, 1))
            least = np.minimum(places[:, 3], places[:, 4]) / 2
            np.fill_diagonal(away, np.inf)
            self.assertTrue((away > least[:, None] + least[None]).all())

    def test_things_hide_each_other(self):
        near = [count for _, boxes in self.streets for _, count, box in boxes if np.hypot(*box[:2]) < 30]
        self.assertLess(min(near), 5)
        self.assertGreater(np.median(near), 50)

    def test_headings_go_all_ways(self):
        headings = [box[6] for _, boxes in self.streets for _, _, box in boxes]
        counts = np.histogram(headings, 8, (-np.pi, np.pi))[0]
        self.assertGreater(counts.min(), 0.02 * len(headings))

    def test_labels_need_traffic(self):
        done = subprocess.run([SCAN, "--labels", os.devnull], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--labels needs --traffic", done.stderr)


if __name__ == "__main__":
    unittest.main()
