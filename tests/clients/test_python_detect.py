"""Boxes by the Python client: by its method, as a batch, through shared memory, as a file; pages of models. With the
stand-in for ONNX Runtime, and with the real library if the tests' environment has it."""

import tempfile
import unittest

import numpy as np

import check
import models
import voxeld
from daemon import OneDaemonCase
from rude_server import url_of
from tables import describe, operation_of

STILL = (0, 0, 0, 1, 0, 0, 0)
DEFAULT = ["boxes", "scores", "labels", "box_counts"]


def scan(count, seed=3):
    """Half of the points lie in three heaps, in which the networks find boxes."""
    rng = np.random.default_rng(seed)
    low, high = np.array(models.RANGE[:3]), np.array(models.RANGE[3:])
    xyz = rng.uniform(low, high, (count, 3))
    xyz[: count // 2, :2] = rng.normal(0, 0.4, (count // 2, 2)) + rng.choice([[3, 0], [8, 3], [12, -4]], count // 2)
    return np.concatenate([xyz, rng.uniform(0, 1, (count, 1))], axis=1).astype("<f4")


class Detect(OneDaemonCase):
    REAL = False

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.ARGS = (*models.served(folder.name, cls.REAL), "--allow-shared-memory")
        models.write(folder.name, "broken", b"nothing")
        if not cls.REAL:
            models.write(folder.name, "sparse", models.sparse_standin(), models.sparse_description())
        super().setUpClass()
        cls.client = voxeld.Client(url_of(cls.daemon))
        cls.addClassCleanup(cls.client.close)

    def same(self, result, expected):
        self.assertEqual(list(result), list(expected))
        for name, tensor in expected.items():
            self.assertEqual((result[name].dtype, result[name].shape), (tensor.dtype, tensor.shape), name)
            self.assertEqual(result[name].tobytes(), tensor.tobytes(), name)

    def test_boxes_are_those_of_the_service(self):
        points = scan(3000)
        reply = self.daemon.post("/v1/detect?model=random", points.tobytes())
        result = self.client.detect(points, "random")
        self.same(result, check.parse_by_hand(reply.body)[0])
        self.assertEqual(list(result), DEFAULT)
        self.assertGreater(len(result["boxes"]), 3)
        self.assertEqual(result.metadata["class_names"], ["Car", "Pedestrian", "Cyclist"])
        alone = self.client.detect(points, model="random", metadata_only=True)
        self.assertEqual(alone.metadata["batch"], result.metadata["batch"])
        self.assertEqual(len(alone), 0)

    def test_small_bodies(self):
        points = scan(3000)
        with voxeld.Client(url_of(self.daemon), uplink="auto") as client:
            result = client.detect(points.tobytes(), "random")
            self.same(result, self.client.detect(points, "random"))
            self.assertEqual(len(result.uplink.dtype), 4)

    def test_features_of_a_backbone(self):
        points = scan(800)
        reply = self.daemon.post("/v1/backbone?model=sparse", points.tobytes())
        result = self.client.backbone(points, "sparse")
        self.assertIsInstance(result, voxeld.BackboneResult)
        self.same(result, check.parse_by_hand(reply.body)[0])
        self.assertEqual(result.metadata["backbone"]["level_rows"][-1], len(result.sparse_coords))
        alone = self.client.backbone(points, "sparse", outputs=["bev_features"])
        self.assertEqual(alone.bev_features.shape, (1, models.SPARSE_PLANES, models.SPARSE_CELLS, models.SPARSE_CELLS))

    def test_a_batch_is_its_clouds(self):
        clouds = [scan(2000), np.empty((0, 4), np.float32), scan(1500, 4)]
        result = self.client.detect(clouds, "random")
        each = [self.client.detect(cloud, "random") for cloud in clouds]
        self.assertEqual(list(result["box_counts"]), [len(one["boxes"]) for one in each])
        for name in ("boxes", "scores", "labels"):
            self.assertEqual(result[name].tobytes(), b"".join(one[name].tobytes() for one in each), name)

    def test_tracks_begin_anew_with_sweeps_that_are_sent_again(self):
        """The boxes then get new ids."""
        stream = self.client.stream("lost", sweeps=3, operation="detect", model="random", track=True, keep=True)
        self.addCleanup(stream.delete)
        for time in (1, 2, 3):
            before = stream.send(scan(3000, time), STILL, time)
        self.assertFalse(before.metadata["tracks"]["begun"])
        self.assertEqual(self.daemon.request("DELETE", "/v1/streams/lost").status, 200)
        with self.assertWarns(voxeld.StreamWarning):
            result = stream.send(scan(3000, 3), STILL, 4)
        self.assertEqual((result.lost, result.stream.times()), ((3.0, 2.0), (4.0, 3.0, 2.0)))
        tracks = result.metadata["tracks"]
        self.assertEqual((tracks["begun"], tracks["matched"], tracks["missed"]), (True, 0, 0))
        self.assertEqual(sorted(result.track_ids), list(range(1, len(result.track_ids) + 1)))
        result = stream.send(scan(3000, 3), STILL, 5)
        self.assertEqual((result.lost, result.metadata["tracks"]["begun"]), ((), False))

    def test_tracks_of_a_stream(self):
        points = scan(2000)
        stream = self.client.stream("tracks", sweeps=1, operation="detect", model="random", track=True)
        self.addCleanup(stream.delete)
        results = [stream.send(points, STILL, time) for time in (1, 1, 2)]
        count = len(results[0].boxes)
        self.assertGreater(count, 3)
        for result in results:
            self.assertEqual(result.track_ids.tolist(), list(range(1, count + 1)))
        self.assertEqual([result.metadata["tracks"]["begun"] for result in results], [True, True, False])
        with self.assertRaises(voxeld.Problem) as caught:
            self.client.detect(points, "random", track=True)
        self.assertEqual((caught.exception.status, caught.exception.parameter), (400, "track"))

    def test_outputs_are_those_that_are_asked_for(self):
        names = ["box_indices", "bev_features", *models.MAPS]
        result = self.client.detect(scan(500), "random", outputs=names)
        self.assertEqual(sorted(result), sorted(names))
        self.assertEqual(result["bev_features"].shape, (1, models.WIDTH, models.CELLS, models.CELLS))
        for row in operation_of("detect", describe())["tensors"]:
            self.assertEqual(row["name"] in DEFAULT, not row["when"], row["name"])
            if row["name"] in result:
                tensor = getattr(result, row["name"])
                self.assertIs(tensor, result[row["name"]])
                self.assertEqual((tensor.ndim, tensor.dtype.name in row["dtypes"]), (len(row["shape"]), True))
        halves = self.client.detect(scan(500).astype("<f2"), "random", outputs="box_counts")
        self.assertEqual(list(halves), ["box_counts"])

    def test_through_shared_memory_and_as_a_file(self):
        points = scan(2500)
        expected = self.client.detect(points, "random")
        with voxeld.Client(url_of(self.daemon), shared_memory=True) as shared:
            result = shared.detect(points, "random")
            self.same(result, expected)
            self.assertIn("points_region", result.metadata["parameters"])
        file, told = voxeld.tensors.parse(self.client.file_bytes("detect", points, model="random"))
        self.same(file, expected)
        self.assertEqual(told["class_names"], expected.metadata["class_names"])

    def test_the_models_are_reported(self):
        listed = {model["name"]: model for model in self.client.models()}
        self.assertEqual(sorted(listed), ["broken", "random", *["sparse"][self.REAL :]])
        self.assertEqual(self.client.model("random"), listed["random"])
        self.assertTrue(listed["random"]["ready"])
        self.assertIn("network.onnx", listed["broken"]["reason"])

    def test_refusals(self):
        points, narrow = scan(10), scan(10)[:, :3]
        for ask, expected in (
            (lambda: self.client.detect(points, "other"), (400, "model")),
            (lambda: self.client.model("a/b"), (404, None)),
            (lambda: self.client.detect(narrow, "random"), (400, "num_features")),
            (lambda: self.client.file_bytes("detect", points, model="random", voxel_size=1), (400, "voxel_size")),
        ):
            with self.assertRaises(voxeld.Problem) as caught:
                ask()
            self.assertEqual((caught.exception.status, caught.exception.parameter), expected)
        with voxeld.Client(url_of(self.daemon), retries=0) as client:
            with self.assertRaises(voxeld.Problem) as caught:
                client.detect(points, "broken")
        self.assertEqual((caught.exception.status, caught.exception.kind), (503, "model-failed"))


@unittest.skipUnless(models.library(), "there is no onnxruntime for this Python")
class DetectReally(Detect):
    REAL = True
    test_features_of_a_backbone = None  # the stand-in alone has the network of this model


if __name__ == "__main__":
    unittest.main()
