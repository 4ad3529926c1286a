"""Tensors of the Python client become torch tensors without a copy. Skipped without torch.

Needs numpy, torch and the daemon ($VOXELD_BIN, or build/bin/voxeld).
"""

import os
import subprocess
import sys
import tempfile
import unittest
import warnings

import numpy as np

import voxeld
from daemon import ROOT, Daemon
from pinned import has_gpu
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
        with self.assertRaisesRegex(TypeError, 'out="cuda"'):
            self.client.voxelize(torch.from_numpy(self.points).cuda(), **GRID)


@unittest.skipUnless(torch.cuda.is_available() and has_gpu(), "there is no GPU here")
class OnGpu(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--backend", "cuda", "--allow-cuda-shared-memory", "yes")
        cls.points = np.random.default_rng(1).uniform(-9, 9, (20000, 4)).astype(np.float32)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def setUp(self):
        warnings.simplefilter("error", voxeld.SharedMemoryWarning)
        self.addCleanup(warnings.resetwarnings)
        self.client = voxeld.Client(url_of(self.daemon))
        self.addCleanup(self.client.close)

    def same(self, result, expected):
        tensors = result.to_torch()
        self.assertEqual(set(tensors), set(expected))
        for name, tensor in tensors.items():
            self.assertTrue(tensor.is_cuda)
            self.assertEqual(tensor.data_ptr() if tensor.numel() else 0, result[name].data_ptr if tensor.numel() else 0)
            self.assertEqual(tensor.cpu().numpy().tobytes(), expected[name].tobytes(), name)

    def test_every_kind_of_points(self):
        """A tensor of torch's own memory, a part of one, half precision, a batch, an array of the host."""
        there, asked = torch.from_numpy(self.points).cuda(), {**ASKED, "outputs": NAMES[:-3]}
        for given, plain in (
            (there, self.points),
            (there[1000:3001], self.points[1000:3001]),
            (there.half(), self.points.astype(np.float16)),
            ([there[:50], there[50:70]], [self.points[:50], self.points[50:70]]),
            (there[:19998].reshape(3, 6666, 4), self.points[:19998].reshape(3, 6666, 4)),
            (there[:0], self.points[:0]),
            (self.points, self.points),
        ):
            self.same(self.client.voxelize(given, **asked, out="cuda"), self.client.voxelize(plain, **asked))

    def test_operations(self):
        there = torch.from_numpy(self.points).cuda()
        for operation, given in (
            ("fps", {"num_samples": 300}),
            ("points", {}),
            ("transform", {"crop": [-5] * 3 + [5] * 3}),
        ):
            asked = getattr(self.client, operation)
            self.same(asked(there, **given, out="cuda"), asked(self.points, **given))

    def test_the_client_waits_for_the_current_stream(self):
        there, stream = torch.from_numpy(self.points).cuda(), torch.cuda.Stream()
        expected = self.client.voxelize(self.points + 1, **GRID)
        for _ in range(20):
            with torch.cuda.stream(stream):
                torch.cuda._sleep(3_000_000)
                moved = there + 1
                result = self.client.voxelize(moved, **GRID, out="cuda")
            self.same(result, expected)

    def test_memory_is_not_used_again_while_kernels_read_it(self):
        other = self.client.voxelize(torch.from_numpy(self.points[::-1].copy()).cuda(), **GRID, out="cuda")
        expected = self.client.voxelize(self.points, **GRID)["voxel_features"]
        there = torch.from_numpy(self.points).cuda()
        del other
        for _ in range(20):
            features = self.client.voxelize(there, **GRID, out="cuda").to_torch()["voxel_features"]
            torch.cuda._sleep(3_000_000)
            copy = features.clone()
            del features
            self.client.voxelize(there[:10], **GRID, out="cuda")
            self.assertEqual(copy.cpu().numpy().tobytes(), expected.tobytes())

    def test_dlpack_and_cupy(self):
        result = self.client.voxelize(self.points, **GRID, out="cuda")
        for name in result:
            self.assertEqual(torch.from_dlpack(result[name]).data_ptr(), result[name].data_ptr)
            self.assertEqual(torch.as_tensor(result[name], device="cuda").data_ptr(), result[name].data_ptr)
        try:
            import cupy
        except ImportError:
            return
        expected = self.client.voxelize(self.points, **GRID)
        self.same(self.client.voxelize(cupy.asarray(self.points), **GRID, out="cuda"), expected)
        self.assertEqual(
            cupy.from_dlpack(result["voxel_features"]).get().tobytes(), expected["voxel_features"].tobytes()
        )

    def test_through_the_host(self):
        there = torch.from_numpy(self.points).cuda()
        with Daemon("--backend", "cuda") as daemon, voxeld.Client(url_of(daemon)) as client:
            expected = client.voxelize(self.points, **GRID)
            with self.assertWarnsRegex(voxeld.SharedMemoryWarning, "--allow-cuda-shared-memory"):
                self.same(client.voxelize(there, **GRID, out="cuda"), expected)
            self.same(client.voxelize(there, **GRID, out="cuda"), expected)

    def test_the_example(self):
        """Also with torch's expandable segments, for which CUDA makes no handle."""
        program = ROOT / "api" / "python" / "examples" / "torch_model.py"
        for setting in ("", "expandable_segments:True"):
            with tempfile.NamedTemporaryFile(suffix=".bin") as scan:
                scan.write(self.points.tobytes())
                scan.flush()
                path = os.pathsep.join(filter(None, (str(ROOT / "api" / "python"), os.environ.get("PYTHONPATH"))))
                environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": setting, "PYTHONPATH": path}
                done = subprocess.run(
                    (sys.executable, program, url_of(self.daemon), scan.name),
                    capture_output=True,
                    text=True,
                    env=environment,
                )
                self.assertRegex(done.stdout, r"^\d+ voxels on cuda:0 give \(64,\)\n", done.stderr)
                self.assertNotIn("SharedMemoryWarning", done.stderr)


if __name__ == "__main__":
    unittest.main()
