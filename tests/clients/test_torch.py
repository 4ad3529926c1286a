"""Tensors of the Python client become torch tensors without a copy. Skipped where there is no torch.

Needs numpy, torch and the daemon ($VOXELD_BIN, or build/bin/voxeld).
"""

import sys
import unittest

import numpy as np

import voxeld
from daemon import Daemon
from rude_server import GRID, url_of

try:
    import torch
except ImportError:
    print("skipped: there is no torch here")
    sys.exit(77)

NAMES = ["voxel_coords", "voxel_num_points", "voxels", "voxel_features", "pillar_features", "point_voxel_ids"]
NAMES += ["voxel_point_mask", "sampled_indices", "sampled_points", "sampled_distances"]
ASKED = {"feature": ["points", "mean", "pillar"], "feature_dtype": "float16", "outputs": NAMES, **GRID}


class Torch(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.client = voxeld.Client(url_of(cls.daemon))
        cls.points = np.random.default_rng(1).uniform(-9, 9, (1000, 4)).astype(np.float32)

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.daemon.stop()

    def test_every_tensor_is_the_same_memory(self):
        result = self.client.voxelize(self.points, fps=10, **ASKED)
        tensors = result.to_torch()
        self.assertEqual(set(tensors), set(NAMES))
        for name, tensor in tensors.items():
            with self.subTest(name):
                self.assertEqual(tensor.data_ptr(), result[name].ctypes.data)
                self.assertEqual(tuple(tensor.shape), result[name].shape)
                self.assertEqual(str(tensor.dtype), f"torch.{result[name].dtype}")
                self.assertEqual(torch.from_dlpack(result[name]).data_ptr(), tensor.data_ptr())
                result[name].reshape(-1)[:1] = 1
                self.assertEqual(tensor.reshape(-1)[0].item(), 1)

    def test_tensors_outlive_the_result(self):
        tensor = self.client.voxelize(self.points, **GRID).to_torch()["voxel_features"]
        expected = self.client.voxelize(self.points, **GRID)["voxel_features"]
        self.client.voxelize(self.points[::-1], **GRID)
        self.assertTrue(np.array_equal(tensor.numpy(), expected))

    def test_tensors_without_rows(self):
        for name, tensor in self.client.voxelize(self.points[:0], **ASKED, fps=0).to_torch().items():
            self.assertEqual(tensor.numel(), 0, name)

    def test_points_from_torch(self):
        expected = self.client.voxelize(self.points, **GRID)["voxel_features"]
        for points in (
            torch.from_numpy(self.points),
            [torch.from_numpy(self.points)],
            torch.from_numpy(self.points)[None],
        ):
            self.assertTrue(np.array_equal(self.client.voxelize(points, **GRID)["voxel_features"], expected))
        half = self.client.voxelize(torch.from_numpy(self.points).half(), **GRID)
        self.assertEqual(half.metadata["parameters"]["dtype"], "float16")

    @unittest.skipUnless(torch.cuda.is_available(), "there is no GPU here")
    def test_points_on_a_gpu_are_refused(self):
        with self.assertRaises(TypeError):
            self.client.voxelize(torch.from_numpy(self.points).cuda(), **GRID)


if __name__ == "__main__":
    unittest.main()
