"""SECOND, converted and served: a small model with random weights. The maps of POST /v1/detect, after the backbone and
after the network, are compared with numpy in float64, which keeps the norms as layers; the converter folds them into
the convolutions. The voxels for numpy come from POST /v1/voxelize."""

import json
import pathlib
import sys
import tempfile
import unittest
import urllib.parse

import numpy as np

try:
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401
except ImportError:
    print("skipped: there is no onnx or onnxruntime for this Python")
    sys.exit(77)

import backbones
import check
import models
import networks
import second
from daemon import Daemon

TOLERANCE = 1e-5  # of the largest value


def scan(count=3000):
    random = np.random.default_rng(5)
    low, high = np.array(second.RANGE[:3]), np.array(second.RANGE[3:])
    points = random.uniform(low - 0.5, high + 0.5, (count, 3))
    points[: count // 2, 2] = -1.7
    for number in range(6):
        rows = slice(count // 2 + number * 150, count // 2 + (number + 1) * 150)
        points[rows] = random.uniform(low + 1, high - 1) + random.uniform(-0.6, 0.6, (150, 3))
    return np.concatenate([points, random.uniform(0, 1, (count, 1))], axis=1).astype(np.float32)


class Second(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def near(self, found, expected, tolerance=TOLERANCE):
        self.assertEqual(found.shape, expected.shape)
        self.assertLessEqual(np.abs(found - expected).max(), tolerance * np.abs(expected).max())

    def check_served(self, residual=False, tolerance=TOLERANCE, options=()):
        model = second.write(self.folder / "model", residual, options)
        daemon = Daemon("--workers", "1", "--models-dir", str(self.folder), "--onnxruntime", models.library())
        self.addCleanup(daemon.stop)
        points = scan()
        outputs = ",".join(["bev_features", *second.HEAD, "boxes", "scores", "labels"])
        reply = daemon.post(f"/v1/detect?model=model&outputs={outputs}&score_threshold=0.6", points.tobytes())
        self.assertEqual(reply.status, 200, reply)
        tensors, _ = check.parse_by_hand(reply.body)
        parameters = json.loads((model / "model.json").read_text(encoding="utf-8"))["voxelize"]
        text = lambda value: ",".join(map(str, value)) if isinstance(value, list) else str(value)
        query = urllib.parse.urlencode({name: text(value) for name, value in parameters.items()}, safe=",")
        voxels, _ = check.parse_by_hand(daemon.post(f"/v1/voxelize?{query}", points.tobytes()).body)
        layers = backbones.openpcdet(4, residual)
        state = second.state(layers)
        dense = backbones.run(state, layers, second.GRID, voxels["voxel_coords"][:, 1:], voxels["voxel_features"])
        self.near(tensors["bev_features"], dense[None])
        y = networks.run_backbone(state, *second.BLOCKS, second.SPEC, dense[None])
        for output, (name, _) in second.HEAD.items():
            self.near(tensors[output], networks.conv(state, name, y).transpose(0, 2, 3, 1), tolerance)
        self.assertGreater(len(tensors["boxes"]), 3)

    def test_plain(self):
        self.check_served()

    def test_residual(self):
        self.check_served(residual=True)

    def test_networks_of_float16(self):
        self.check_served(tolerance=0.02, options=("--network", "float16"))


if __name__ == "__main__":
    unittest.main()
