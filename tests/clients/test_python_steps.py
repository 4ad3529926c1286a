"""The Python client's steps against a daemon: their types, the tensors and counts of answers, refusals."""

import json
import pathlib
import tempfile
import unittest

import numpy as np

import check
import steps as reference
import voxeld
from daemon import Daemon
from rude_server import GRID, url_of
from voxeld import steps

FIELDS = ["x", "y", "z", "ring"]
BOXES = [(-1, -1, -2, 2.5, 1, 0.5), (3, -1, -1, 7, 1, 1)]
CHAIN = [
    voxeld.RingOutlier("ring", distance_ratio=1.2, max_azimuth_diff=20, num_points_threshold="off"),
    voxeld.Transform(np.eye(4), cut=BOXES),
    voxeld.Transform(crop=np.array([-8, -8, -8, 8, 8, 8]), distance=(1, 9), tag="far"),
    voxeld.RadiusOutlier(0.8, min_neighbors=6, axes="xy"),
    voxeld.Downsample((1, 1, 2), method="center", min_points=1),
]
TEXTS = [  # the same, as the service takes the parameters
    ("ring_outlier", "ring_outlier", {"ring": "ring", "distance_ratio": "1.2", "max_azimuth_diff": "20"}),
    ("transform", "transform", {"cut": "-1,-1,-2,2.5,1,0.5;3,-1,-1,7,1,1"}),
    ("far", "transform", {"crop": "-8,-8,-8,8,8,8", "distance": "1,9"}),
    ("radius_outlier", "radius_outlier", {"radius": "0.8", "min_neighbors": "6", "axes": "xy"}),
    ("downsample", "downsample", {"voxel_size": "1,1,2", "method": "center"}),
]
PRESET = {"description": "mine", "parameters": {**GRID, "steps": [{"op": "downsample", "voxel_size": [3, 3, 3]}]}}


def scan():
    """[300, 4]: three rings on a wall around the sensor. A tenth of the points hangs elsewhere."""
    rng = np.random.default_rng(1)
    angle, ring = np.repeat(np.linspace(0, 2 * np.pi, 100, endpoint=False), 3), np.tile([0, 1, 2], 100)
    distance = np.where(rng.random(300) < 0.1, rng.uniform(1, 12, 300), 6 + 3 * np.sin(angle))
    return np.stack([distance * np.cos(angle), distance * np.sin(angle), 0.2 * ring, ring], axis=1).astype(np.float32)


class Steps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        pathlib.Path(folder, "mine.json").write_text(json.dumps(PRESET), encoding="utf-8")
        cls.daemon = cls.enterClassContext(Daemon("--presets-dir", folder))
        cls.client = cls.enterClassContext(voxeld.Client(url_of(cls.daemon)))

    def refused(self, ask, parameter, detail):
        with self.assertRaises(voxeld.Problem) as caught:
            ask()
        self.assertEqual((caught.exception.kind, caught.exception.parameter), ("bad-parameter", parameter))
        self.assertIn(detail, caught.exception.detail)

    def test_the_points_and_the_counts_are_those_of_the_reference(self):
        points = scan()
        chain = reference.run(TEXTS, points, [len(points)], FIELDS)
        outputs = ["points", "point_indices", "point_rows", "point_fates", "point_steps"]
        result = self.client.points(points, fields=FIELDS, steps=CHAIN, outputs=outputs)
        expected = reference.answer(chain)
        got = {name: result[name] for name in expected}
        self.assertEqual(check.same_tensors(expected, got), [])
        self.assertEqual([result.fate_names[fate] for fate in result.point_fates], chain.fates)
        self.assertTrue(all(step["kept"] < step["in"] for step in chain.told), chain.told)
        counts = [(told.pop("tag"), told.pop("op"), told.pop("in"), told.pop("kept"), told) for told in chain.told]
        self.assertEqual([tuple(step) for step in result.steps], counts)
        self.assertEqual(result.steps[2].fates["out_of_crop"], counts[2][4]["out_of_crop"])
        self.assertEqual(result.steps[-1].kept, len(result.points))

    def test_every_operation_has_them(self):
        points, few = scan(), [voxeld.Downsample(4.5, method="first")]
        left = self.client.points(points, steps=few)
        again = self.client.points(left.points)
        self.assertEqual((again.points.tobytes(), again.steps), (left.points.tobytes(), []))
        voxels = self.client.voxelize(points, **GRID, steps=few)
        self.assertEqual(
            voxels.voxel_coords.tobytes(), self.client.voxelize(left.points, **GRID).voxel_coords.tobytes()
        )
        self.assertEqual(voxels.steps, left.steps)
        samples = self.client.fps(points, 3, steps=few)
        self.assertEqual(samples.sampled_points.tobytes(), self.client.fps(left.points, 3).sampled_points.tobytes())
        lidar = self.client.stream("roof", 1, **GRID, steps=few).send(points, np.eye(4), 1.0)
        self.assertEqual(lidar.steps, left.steps)
        file = self.client.file_bytes("points", points, steps=few)
        self.assertIn(left.points.tobytes(), file.tobytes())

    def test_steps_as_texts(self):
        points = scan()
        with_default = self.client.points(points, steps=[voxeld.Transform()]).steps
        for told in ("transform", ["transform"], ("transform",)):
            self.assertEqual(self.client.points(points, steps=told).steps, with_default)
        two = self.client.points(points, steps=["far:transform", voxeld.Transform()])
        self.assertEqual(
            [(step.tag, step.op) for step in two.steps], [("far", "transform"), ("transform", "transform")]
        )

    def test_the_steps_of_a_preset(self):
        def left(**given):
            return [(step.tag, step.kept) for step in self.client.voxelize(scan(), "mine", **given).steps]

        ((tag, kept),) = left()
        self.assertEqual(tag, "downsample")
        ((_, fewer),) = left(steps={"downsample.voxel_size": 9, "downsample.seed": None})
        self.assertLess(fewer, kept)
        for none in ("none", []):
            self.assertEqual(left(steps=none), [])
        self.assertEqual(left(steps=[voxeld.Transform(tag="all")]), [("all", 300)])

    def test_refusals_name_the_step_and_the_parameter(self):
        def ask(*steps):
            return lambda: self.client.points(scan(), steps=steps)

        self.refused(ask(voxeld.Downsample(-1)), "downsample.voxel_size", "downsample.voxel_size is '-1'")
        self.refused(ask(voxeld.Downsample(-1, tag="thin")), "thin.voxel_size", "thin.voxel_size is '-1'")
        self.refused(ask(voxeld.Downsample()), "downsample.voxel_size", "step downsample: voxel_size is missing")
        self.refused(ask(voxeld.RingOutlier("x")), "ring_outlier.ring", "step ring_outlier: the points have no column")
        self.refused(ask(voxeld.Transform(), voxeld.Transform()), "steps", "steps has the tag transform twice")
        self.refused(ask("radius_outlier"), "radius_outlier.radius", "radius is missing; allowed: a number from 0.001")
        self.refused(ask("thin"), "steps", "steps is 'thin'")
        self.refused(
            lambda: self.client.points(scan(), steps={"far.crop": [0, 0, 0, 1, 1, 1]}), "far.crop", "names no step"
        )

    def test_what_is_no_list_of_steps(self):
        for told in (voxeld.Downsample(1), [3], 3, [[voxeld.Downsample(1)]]):
            with self.assertRaisesRegex(TypeError, r"expected a list such as \[voxeld.Downsample\(0.1\)\]"):
                self.client.points(scan(), steps=told)

    def test_a_step_shows_what_it_is(self):
        self.assertEqual(repr(voxeld.Downsample(0.1, every=None, tag="thin")), "Downsample(voxel_size=0.1, tag='thin')")
        with self.assertRaises(TypeError):
            voxeld.RadiusOutlier(0.5)
        with self.assertRaises(TypeError):
            voxeld.Downsample(0.1, voxel_sise=3)

    def test_metadata_that_say_nothing_of_steps(self):
        for told in ({"steps": [{"tag": "a"}]}, {"steps": [3]}, {"steps": 3}):
            with self.assertRaisesRegex(voxeld.BadAnswer, "what the steps did"):
                steps.counts_of(told)
        with self.assertRaisesRegex(voxeld.BadAnswer, "fate_names"):
            voxeld.Result({}, {}).fate_names  # noqa: B018


if __name__ == "__main__":
    unittest.main()
