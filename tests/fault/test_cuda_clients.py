"""The Python client's GPU memory: points and tensors stay on the GPU, and clients may die. Needs a GPU, or the stand-in
of the sanitizer builds."""

import contextlib
import os
import signal
import subprocess
import sys
import unittest
import warnings

import numpy as np

import fake_cuda
import voxeld
from daemon import Daemon
from pinned import ENVIRONMENT, STAND_IN, has_gpu

GRID = {"point_cloud_range": (-10, -10, -2, 10, 10, 2), "voxel_size": (0.5, 0.5, 0.5)}
ALLOWED = ("--backend", "cuda", "--allow-cuda-shared-memory", "yes")


def points_of(count=5000):
    return np.random.default_rng(count).uniform(-9, 9, (count, 4)).astype("<f4")


def driver():
    """Installs the stand-in's driver, if there is no GPU."""
    return fake_cuda.installed() if STAND_IN else contextlib.nullcontext()


@unittest.skipUnless(has_gpu(), "there is no GPU")
class CudaClients(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore", voxeld.RequestWarning)
        warnings.simplefilter("error", voxeld.SharedMemoryWarning)
        self.addCleanup(warnings.resetwarnings)
        self.enterContext(driver())

    def start(self, *options):
        self.daemon = self.enterContext(Daemon(*options, env=ENVIRONMENT))
        self.url = "http://{}:{}".format(*self.daemon.address)
        return self.enterContext(voxeld.Client(self.url, retries=0))

    def works(self, client, count=5000, **asked):
        """Checks that the tensors on the GPU have the bytes of a plain request."""
        points = points_of(count)
        there = client.transform(points, out="cuda")["points"]
        expected = client.voxelize(points, **GRID, **asked)
        with client.voxelize(there, **GRID, **asked, out="cuda") as result:
            self.assertEqual(list(result), list(expected))
            for name, tensor in expected.items():
                self.assertEqual(result[name].numpy().tobytes(), tensor.tobytes(), name)

    def use(self):
        return self.daemon.status()["shared_memory"]

    def test_points_and_tensors_stay(self):
        client = self.start(*ALLOWED)
        for count in (5000, 1, 70_000):
            for asked in ({}, {"feature": ["points", "mean"]}, {"feature_dtype": "float16"}):
                self.works(client, count, **asked)
        self.works(client, fps=3)
        self.assertGreater(self.use()["parts_in_place"], 0)
        self.assertGreater(self.use()["cuda_regions"], 0)
        client.close()
        self.assertEqual(self.use()["cuda_regions"], 0)

    def test_the_daemon_restarts(self):
        """The client registers its blocks again."""
        client = self.start(*ALLOWED)
        self.works(client)
        port = self.daemon.address[1]
        self.daemon.stop()
        with Daemon(*ALLOWED, "--listen", f"127.0.0.1:{port}", env=ENVIRONMENT) as self.daemon:
            self.works(client)
            self.assertGreater(self.use()["cuda_regions"], 0)
            client.close()

    def test_a_client_is_killed(self):
        client = self.start(*ALLOWED)
        for _ in range(3):
            child = subprocess.Popen([sys.executable, __file__, self.url], stdout=subprocess.PIPE)
            self.addCleanup(child.stdout.close)
            self.assertEqual(child.stdout.readline(), b"works\n")
            child.send_signal(signal.SIGKILL)
            child.wait()
            self.works(client)

    def test_it_is_not_allowed(self):
        client = self.start("--backend", "cuda")
        with self.assertWarnsRegex(voxeld.SharedMemoryWarning, "--allow-cuda-shared-memory yes"):
            client.voxelize(points_of(), **GRID, out="cuda")
        self.works(client)

    @unittest.skipUnless(STAND_IN, "the driver makes handles here")
    def test_there_are_no_handles(self):
        self.daemon = self.enterContext(Daemon(*ALLOWED, env={**ENVIRONMENT, "VOXELD_STANDIN_NO_IPC": "1"}))
        client = self.enterContext(voxeld.Client("http://{}:{}".format(*self.daemon.address), retries=0))
        with self.assertWarnsRegex(voxeld.SharedMemoryWarning, "operation not supported"):
            client.voxelize(points_of(), **GRID, out="cuda")
        self.works(client)


def work(url):
    """The process that test_a_client_is_killed kills."""
    warnings.simplefilter("ignore")
    with driver() as library, voxeld.Client(url) as client:
        there = client.transform(points_of(), out="cuda")["points"]
        client.voxelize(there, **GRID, out="cuda")
        for made in library.allocations.values() if library else ():
            os.unlink(made.path)  # a killed process would leave the file
        print("works", flush=True)
        while True:
            client.voxelize(there, **GRID, out="cuda")


if __name__ == "__main__":
    if sys.argv[1:2] and sys.argv[1].startswith("http"):
        work(sys.argv[1])
    unittest.main()
