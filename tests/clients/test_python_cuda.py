"""client.voxelize(points, out="cuda"): tensors in GPU memory, which a fake driver keeps in shared memory."""

import contextlib
import ctypes
import gc
import glob
import os
import socket
import threading
import unittest
import warnings

import numpy as np

import fake_cuda
import voxeld
from daemon import OneDaemonCase
from rude_server import url_of
from voxeld import dlpack, driver

REFUSAL = (501, "no-shared-memory", "", "the service does not allow CUDA memory: --allow-cuda-shared-memory")


def points_of(count=3000, columns=4, kind="<f4"):
    return np.random.default_rng(count).uniform(-9, 9, (count, columns)).astype(kind)


def values(tensor):
    raw = ctypes.string_at(tensor.data_ptr, tensor.nbytes) if tensor.nbytes else b""
    return np.frombuffer(raw, tensor.dtype).reshape(tensor.shape)


class Cuda(OneDaemonCase):
    ARGS = ("--workers", "2", "--allow-shared-memory")

    def setUp(self):
        warnings.simplefilter("ignore", voxeld.RequestWarning)
        warnings.simplefilter("error", voxeld.SharedMemoryWarning)
        self.addCleanup(warnings.resetwarnings)
        self.library = self.enterContext(fake_cuda.installed())
        self.bridge = fake_cuda.Bridge(self.daemon)
        self.addCleanup(self.bridge.close)
        self.client = voxeld.Client(self.bridge.url, retries=0)
        self.addCleanup(self.client.close)
        self.plain = voxeld.Client(url_of(self.daemon))
        self.addCleanup(self.plain.close)

    def on_gpu(self, array, **options):
        return fake_cuda.Array(self.library, array, **options)

    def same(self, result, expected, device=0):
        self.assertEqual((type(result), list(result)), (type(expected), list(expected)))
        for name, tensor in expected.items():
            self.assertIsInstance(result[name], voxeld.CudaTensor)
            self.assertEqual(result[name].device, device)
            self.assertEqual((result[name].shape, result[name].dtype), (tensor.shape, tensor.dtype), name)
            self.assertEqual(values(result[name]).tobytes(), tensor.tobytes(), name)
            self.assertEqual(result[name].numpy().tobytes(), tensor.tobytes(), name)
        for counted in ("points", "boxes", "voxels", "anchors"):
            self.assertEqual(result.metadata.get(counted), expected.metadata.get(counted))

    def asked(self):
        """The targets of computing requests so far."""
        return [target for target in self.bridge.targets if target.startswith("/v1/")]

    def test_points_and_tensors_stay(self):
        for operation, given in (
            ("voxelize", {"preset": "kitti_second"}),
            ("fps", {"num_samples": 64}),
            ("points", {}),
            ("transform", {"crop": (-5, -5, -5, 5, 5, 5)}),
            ("serialize", {"voxel_size": 0.5}),
        ):
            with self.subTest(operation):
                points = points_of()
                expected = getattr(self.plain, operation)(points, **given)
                result = getattr(self.client, operation)(self.on_gpu(points, offset=512), **given, out="cuda")
                self.same(result, expected)
                self.assertRegex(self.asked()[-1], r"&points_region=py-\S+,512,48000&output_region=py-\S+,0,\d+$")

    def test_operations_on_tensors(self):
        """Inputs go through the host, even from a GPU; the answer's tensors stay on the GPU."""
        random = np.random.default_rng(8)
        boxes = np.abs(random.normal(0, 3, (60, 7))).astype("<f4")
        scores, labels = random.random(60).astype("<f4"), random.integers(0, 3, 60).astype("<i4")
        coords = random.integers(0, 3, (50, 4)).astype("<i4")
        shapes = {"cls_preds": 18, "box_preds": 42, "dir_cls_preds": 12}
        maps = {name: random.normal(-1, 1, (5, 7, channels)).astype("<f2") for name, channels in shapes.items()}
        for operation, given, asked in (
            ("nms", {"boxes": boxes, "scores": scores, "labels": labels}, {"class_agnostic": False}),
            ("scatter", {"features": scores[:50, None], "voxel_coords": coords}, {"grid_size": (5, 4, 3)}),
            ("decode", maps, {"preset": "kitti_pointpillar"}),
        ):
            expected = getattr(self.plain, operation)(**given, **asked)
            first = next(iter(given))
            there = {name: self.on_gpu(array, device=1) for name, array in given.items()}
            for sent, out, device in (
                (given, "cuda", 0),
                (given, "cuda:1", 1),
                (there, "cuda", 1),
                ({**given, first: there[first]}, "cuda", 1),
            ):
                with self.subTest(operation, out=out, there=[one for one in sent if sent[one] is not given[one]]):
                    result = getattr(self.client, operation)(**sent, **asked, out=out)
                    self.same(result, expected, device)
                    self.assertRegex(self.asked()[-1], r"&output_region=py-\S+,0,\d+$")
        with self.assertRaisesRegex(ValueError, "the arrays and the answer must be on one GPU; these are on cuda:0"):
            self.client.nms(self.on_gpu(boxes, device=1), scores, out="cuda:0")
        self.assertEqual(list(self.client.nms(boxes, scores, out="cuda", metadata_only=True)), [])

    def test_operations_on_tensors_without_regions(self):
        self.bridge.refusal = REFUSAL
        random = np.random.default_rng(9)
        boxes, scores = np.abs(random.normal(0, 3, (60, 7))).astype("<f4"), random.random(60).astype("<f4")
        with self.assertWarnsRegex(voxeld.SharedMemoryWarning, "through the host"):
            warnings.simplefilter("always", voxeld.SharedMemoryWarning)
            result = self.client.nms(self.on_gpu(boxes), scores, out="cuda")
        self.same(result, self.plain.nms(boxes, scores))

    def test_clouds_of_every_kind(self):
        points = points_of()
        for given in (
            points.astype("<f2"),
            points[:0],
            points.reshape(3, 1000, 4),
            [points[:5], points[:0], points[:70]],
        ):
            batch = isinstance(given, list)
            there = [self.on_gpu(one) for one in given] if batch else self.on_gpu(given)
            self.same(
                self.client.voxelize(there, "kitti_second", out="cuda"), self.plain.voxelize(given, "kitti_second")
            )

    def test_points_of_the_host(self):
        points = points_of()
        result = self.client.voxelize(points, "kitti_second", out="cuda:1")
        self.same(result, self.plain.voxelize(points, "kitti_second"), device=1)
        self.assertNotIn("points_region", self.asked()[-1])

    def test_metadata_only(self):
        result = self.client.voxelize(self.on_gpu(points_of()), "kitti_second", out="cuda", metadata_only=True)
        self.assertEqual((list(result), result.metadata["points"]["received"]), ([], 3000))

    def test_tensors_are_points_again(self):
        points = points_of()
        first = self.client.transform(self.on_gpu(points), out="cuda")
        result = self.client.voxelize(first["points"], "kitti_second", out="cuda")
        self.same(result, self.plain.voxelize(points, "kitti_second"))
        self.assertEqual(len(self.bridge.registered), 3)  # the points, and a block for each result

    def test_blocks_are_used_again(self):
        points = self.on_gpu(points_of())
        seen = set()
        for _ in range(5):
            with self.client.voxelize(points, "kitti_second", out="cuda") as result:
                seen.add(result["voxel_coords"].data_ptr)
            self.assertEqual(list(result), [])
            del result
        self.assertEqual((len(seen), len(self.bridge.registered)), (1, 2))

    def test_a_block_in_use_is_not_used_again(self):
        points = self.on_gpu(points_of())
        first = self.client.voxelize(points, "kitti_second", out="cuda")
        kept, expected = first["voxel_coords"], values(first["voxel_coords"]).tobytes()
        del first
        for count in (1, 2000):
            self.client.voxelize(self.on_gpu(points_of(count)), "kitti_second", out="cuda")
        self.assertEqual(values(kept).tobytes(), expected)

    def test_a_block_waits_for_kernels(self):
        points = self.on_gpu(points_of())
        address = self.client.voxelize(points, "kitti_second", out="cuda")["voxel_coords"].data_ptr
        (block,) = self.client._calls._gpu._idle
        self.library.busy.add(block.event.value)
        other = self.client.voxelize(points, "kitti_second", out="cuda")["voxel_coords"].data_ptr
        self.assertNotEqual(address, other)
        self.library.busy.clear()

    def test_only_work_on_the_gpu_is_recorded(self):
        points = self.on_gpu(points_of())
        for streams, records in ((set(), 0), (self.library.working, 1), (self.library.captured, 1)):
            streams.add(driver.DEFAULT_STREAM)
            self.library.calls.clear()
            self.client.voxelize(points, "kitti_second", out="cuda")
            self.assertEqual(self.library.calls.count("cuEventRecord"), records)
            streams.clear()

    def test_answers_grow(self):
        points = np.random.default_rng(1).uniform(-40, 40, (900_000, 4)).astype("<f4")
        result = self.client.transform(self.on_gpu(points), out="cuda")
        self.same(result, self.plain.transform(points))
        self.assertEqual(len(self.asked()), 2)
        self.client.transform(self.on_gpu(points), out="cuda")
        self.assertEqual(len(self.asked()), 3)

    def test_everything_is_freed(self):
        with voxeld.Client(self.bridge.url) as client:
            result = client.voxelize(self.on_gpu(points_of()), "kitti_second", out="cuda")
            kept = result["voxel_coords"]
            expected = values(kept).tobytes()
        self.assertEqual(self.daemon.get("/v2/systemsharedmemory/status").json(), [])
        self.assertEqual(values(kept).tobytes(), expected)
        del result, kept
        gc.collect()
        self.assertEqual([made.size for made in self.library.allocations.values()], [48000])  # the points

    def test_memory_of_others_that_gets_no_handle_is_copied(self):
        points = points_of()
        for _ in range(2):
            result = self.client.voxelize(self.on_gpu(points, handed=False), "kitti_second", out="cuda")
            self.same(result, self.plain.voxelize(points, "kitti_second"))

    def test_an_allocation_at_the_address_of_another_is_registered_anew(self):
        array = self.on_gpu(points_of())
        self.client.voxelize(array, "kitti_second", out="cuda")
        before = len(self.bridge.registered)
        array.allocation.number = 10_000
        self.client.voxelize(array, "kitti_second", out="cuda")
        self.assertEqual(len(self.bridge.registered), before + 1)
        self.assertEqual(len(self.daemon.get("/v2/systemsharedmemory/status").json()), 2)

    def test_regions_that_are_lost_are_registered_again(self):
        points = points_of()
        array = self.on_gpu(points)
        self.client.voxelize(array, "kitti_second", out="cuda")
        self.daemon.post("/v2/systemsharedmemory/unregister")
        self.same(self.client.voxelize(array, "kitti_second", out="cuda"), self.plain.voxelize(points, "kitti_second"))
        self.assertIn("output_region", self.asked()[-1])

    def test_threads_share_the_points(self):
        """Each call succeeds: when all begin at once, and after the service has lost all regions."""
        points = points_of()
        array, expected = self.on_gpu(points), self.plain.voxelize(points, "kitti_second")
        begin, failures = threading.Barrier(12), []

        def work():
            try:
                for _ in range(4):
                    begin.wait(60)
                    self.same(self.client.voxelize(array, "kitti_second", out="cuda"), expected)
                    if begin.wait(60) == 0:
                        self.daemon.post("/v2/systemsharedmemory/unregister")
            except BaseException as failure:
                failures.append(failure)
                begin.abort()

        threads = [threading.Thread(target=work) for _ in range(begin.parties)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])

    def test_a_full_gpu_frees_idle_blocks(self):
        self.client.voxelize(self.on_gpu(points_of()), "kitti_second", out="cuda")
        held = sum(made.size for made in self.library.allocations.values())
        self.library.room = held + (1 << 20)
        points = points_of(100_000)
        self.client.transform(points, out="cuda:1")
        self.library.room = 1 << 20
        with self.assertRaisesRegex(voxeld.CudaError, "OUT_OF_MEMORY"):
            self.client.transform(points, out="cuda:0")

    def test_refusals_are_raised(self):
        with self.assertRaises(voxeld.Problem) as caught:
            self.client.voxelize(self.on_gpu(points_of()), "kitti_second", max_voxels=0, out="cuda")
        self.assertEqual(caught.exception.parameter, "max_voxels")

    def test_another_gpu(self):
        points = self.on_gpu(points_of(), device=1)
        self.assertEqual(self.client.voxelize(points, "kitti_second", out="cuda")["voxel_coords"].device, 1)
        with self.assertRaisesRegex(ValueError, "must be on one GPU; these are on cuda:0 and cuda:1"):
            self.client.voxelize(points, "kitti_second", out="cuda:0")
        with self.assertRaisesRegex(ValueError, "on cuda:0 and cuda:1"):
            self.client.voxelize([points, self.on_gpu(points_of())], "kitti_second", out="cuda")
        with self.assertRaisesRegex(ValueError, "some clouds"):
            self.client.voxelize([points, points_of()], "kitti_second", out="cuda")
        with self.assertRaisesRegex(voxeld.CudaError, "INVALID_VALUE"):
            self.client.voxelize(points_of(), "kitti_second", out="cuda:7")

    def test_arrays_that_cannot_be_handed_over(self):
        points = self.on_gpu(points_of())
        strided = self.on_gpu(points_of(), strides=(32, 4))
        for array, error, text in (
            (strided, ValueError, "must be contiguous"),
            (self.on_gpu(points_of(kind="<f8")), TypeError, "expected float32 or float16"),
            (self.on_gpu(points_of().reshape(-1)), ValueError, r"expected \[N, C\]"),
        ):
            with self.assertRaisesRegex(error, text):
                self.client.voxelize(array, "kitti_second", out="cuda")
        with self.assertRaisesRegex(ValueError, "num_features is taken from the points"):
            self.client.voxelize(points, "kitti_second", num_features=4, out="cuda")
        for out in ("gpu", "cuda:", "cuda:x", "cpu"):
            with self.assertRaisesRegex(ValueError, "out is"):
                self.client.voxelize(points, "kitti_second", out=out)
        with self.assertRaisesRegex(TypeError, 'out="cuda"'):
            self.client.voxelize(points, "kitti_second")

    def test_through_the_host(self):
        """The tensors on the GPU are the same, and there is one warning."""
        points = points_of()
        self.bridge.refusal = REFUSAL
        with self.assertWarnsRegex(voxeld.SharedMemoryWarning, "through the host: 501 .*--allow-cuda") as caught:
            result = self.client.voxelize(self.on_gpu(points), "kitti_second", out="cuda")
        self.assertEqual(caught.filename, __file__)
        uploads = [at for at, name in enumerate(self.library.calls) if name == "cuMemcpyHtoD_v2"]
        self.assertEqual({self.library.calls[at + 1] for at in uploads}, {"cuStreamSynchronize"})
        self.same(result, self.plain.voxelize(points, "kitti_second"))
        asked = len(self.bridge.targets)
        clouds = [points[:100], points[:7]]
        result = self.client.voxelize([self.on_gpu(cloud) for cloud in clouds], "kitti_second", out="cuda")
        self.same(result, self.plain.voxelize(clouds, "kitti_second"))
        self.assertEqual(len(self.bridge.targets), asked + 1)

    def test_a_full_service_is_asked_again(self):
        self.bridge.refusal = (429, "client-over-share", "", "too many regions")
        points = points_of()
        array, expected = self.on_gpu(points), self.plain.voxelize(points, "kitti_second")
        self.same(self.client.voxelize(array, "kitti_second", out="cuda"), expected)
        self.bridge.refusal = None
        self.same(self.client.voxelize(array, "kitti_second", out="cuda"), expected)
        self.assertIn("output_region", self.asked()[-1])
        self.assertIn(array.allocation.name, self.bridge.registered.values())  # the points are not copied

    def test_a_service_elsewhere(self):
        with voxeld.Client("http://192.0.2.1:8080", timeout=0.01, retries=0) as client:
            with self.assertWarnsRegex(voxeld.SharedMemoryWarning, "is not this machine"):
                with self.assertRaises(voxeld.TransportError):
                    client.voxelize(self.on_gpu(points_of()), "kitti_second", out="cuda")

    def test_dlpack(self):
        """A capsule holds the memory until its taker deletes it."""
        tensor = self.client.voxelize(self.on_gpu(points_of()), "kitti_second", out="cuda")["voxel_coords"]
        self.assertEqual(tensor.__dlpack_device__(), (2, 0))
        for asked in ({"copy": True}, {"dl_device": (1, 0)}, {"dl_device": (2, 1)}):
            with self.assertRaisesRegex(BufferError, "can only be shared, on cuda:0"):
                tensor.__dlpack__(**asked)
        idle = self.client._calls._gpu._idle
        capsule = tensor.__dlpack__(stream=1, max_version=(1, 0), dl_device=(2, 0), copy=False)

        class OnlyDlpack:
            __dlpack_device__ = lambda _: (2, 0)
            __dlpack__ = lambda _, stream: capsule

        found = dlpack.array_of(OnlyDlpack())
        self.assertEqual(found.shape, tensor.shape)
        self.assertEqual((found.address, found.dtype, found.device), (tensor.data_ptr, tensor.dtype, 0))
        del tensor, found, OnlyDlpack
        gc.collect()
        self.assertEqual((len(idle), len(dlpack._lent)), (0, 1))
        del capsule
        self.assertEqual((len(idle), len(dlpack._lent)), (1, 0))

    def test_nothing_is_left_after_an_answer_that_never_comes(self):
        client = voxeld.Client(self.bridge.url, retries=0)
        points = self.on_gpu(points_of())
        client.voxelize(points, "kitti_second", out="cuda")
        self.bridge.forward = lambda handler: handler.connection.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(voxeld.Error):
            client.voxelize(points, "kitti_second", out="cuda")
        self.assertEqual(list(client._calls._gpu._idle), [])
        client.close()


class Without(unittest.TestCase):
    def test_there_is_no_driver(self):
        if glob.glob("/dev/nvidia*"):
            self.skipTest("there is a driver here")
        with voxeld.Client("http://127.0.0.1:1", retries=0) as client:
            with self.assertRaisesRegex(voxeld.CudaError, "there is no CUDA driver"):
                client.voxelize(points_of(), "kitti_second", out="cuda")

    def test_a_child_makes_its_own_client(self):
        with fake_cuda.installed(), voxeld.Client("http://127.0.0.1:1", retries=0) as client:
            child = os.fork()
            if child == 0:
                try:
                    client.voxelize(points_of(), "kitti_second", out="cuda")
                except voxeld.CudaError as error:
                    os._exit(0 if "made by fork" in str(error) else 2)
                os._exit(1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)


if __name__ == "__main__":
    unittest.main()
