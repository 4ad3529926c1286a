"""POST /v1/detect is its stages: /v1/voxelize, the encoder and the network in numpy, /v1/decode. With a stand-in for
ONNX Runtime every byte is compared; with the real library the maps are, within a tolerance, and then every byte of the
boxes that follow from them."""

import tempfile
import unittest
import urllib.parse

import numpy as np
from safetensors.numpy import save

import check
import models
from daemon import OneDaemonCase
from encoding import encode

BOXES = "boxes,scores,labels,box_indices,box_counts"
ALL = BOXES + ",bev_features," + ",".join(models.MAPS)


def layers(hidden=None):
    """The encoder's layers, each weight and bias."""
    tensors = {
        name: np.frombuffer(data, "<f4").reshape(shape) for name, (shape, data) in models.weights(hidden=hidden).items()
    }
    return [(tensors["weight" + suffix], tensors["bias" + suffix]) for suffix in ("", "_1")[: len(tensors) // 2]]


def standin_maps(features):
    """The maps of a batch, [B, CELLS, CELLS, channels] each."""
    maps = {}
    for (name, channels), scale, bias in zip(models.MAPS.items(), models.SCALES, models.BIASES):
        shape = (len(features), models.CELLS, models.CELLS, channels)
        taken = np.resize(features.reshape(-1), int(np.prod(shape)))
        maps[name] = (taken * np.float32(scale) + np.float32(bias)).reshape(shape)
    return maps


def onnx_maps(features):
    maps = {}
    for m, (name, channels) in enumerate(models.MAPS.items()):
        planes = features[:, (np.arange(channels) + m) % models.WIDTH]
        maps[name] = np.moveaxis(planes * np.float32(models.SCALES[m]) + np.float32(models.BIASES[m]), 1, 3)
    return maps


def scan(points, seed=3):
    rng = np.random.default_rng(seed)
    low, high = np.array(models.RANGE[:3]), np.array(models.RANGE[3:])
    xyz = rng.uniform(low - 0.5, high + 0.5, (points, 3))
    xyz[: points // 2, :2] = rng.normal(0, 0.4, (points // 2, 2)) + rng.choice([[3, 0], [8, 3], [12, -4]], points // 2)
    return np.concatenate([xyz, rng.uniform(0, 1, (points, 1))], axis=1).astype("<f4")


def query(values):
    text = lambda value: ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
    return urllib.parse.urlencode({name: text(value) for name, value in values.items()}, safe=",")


class Stages(OneDaemonCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        models.write(cls.folder.name, "whole", models.standin())
        cls.write_deep(models.standin(), models.description())
        models.write(cls.folder.name, "single", models.standin(batch=1))
        cls.ARGS = ("--workers", "1", "--models-dir", cls.folder.name, "--onnxruntime", models.STANDIN)
        super().setUpClass()

    @classmethod
    def write_deep(cls, network, described):
        described["encoder"]["layers"] = 2
        models.write(cls.folder.name, "deep", network, described, models.weights(hidden=5))

    def ask(self, path, body, **parameters):
        reply = self.daemon.post(f"{path}?{query(parameters)}", body)
        self.assertEqual(reply.status, 200, reply)
        return check.parse_by_hand(reply.body)

    def features(self, points, counts, hidden=None):
        """bev_features, by the stages before the network."""
        tensors, _ = self.ask(
            "/v1/voxelize", points.tobytes(), **models.VOXELIZE, feature="pillar", point_counts=counts
        )
        rows = encode(tensors["pillar_features"], tensors["voxel_num_points"], *layers(hidden))
        coords = tensors["voxel_coords"]
        features = np.zeros((len(counts), models.WIDTH, models.CELLS, models.CELLS), np.float32)
        features[coords[:, 0], :, coords[:, 2], coords[:, 3]] = rows
        return features

    def decode(self, maps):
        reply = self.daemon.post(
            "/v1/decode?" + query({**models.DECODE, "outputs": BOXES}),
            save({name: np.ascontiguousarray(each) for name, each in maps.items()}),
            {"Content-Type": "application/vnd.safetensors"},
        )
        self.assertEqual(reply.status, 200, reply)
        return check.parse_by_hand(reply.body)

    def check_boxes(self, tensors, metadata, maps):
        expected, told = self.decode(maps)
        for name in BOXES.split(","):
            self.assertEqual(tensors[name].tobytes(), expected[name].tobytes(), name)
        self.assertGreater(len(expected["boxes"]), 3)
        self.assertEqual(metadata["anchors"], told["anchors"])
        self.assertEqual(metadata["batch"]["boxes"], told["batch"]["kept"])

    def test_a_scan(self):
        points = scan(3000)
        features = self.features(points, [3000])
        tensors, metadata = self.ask("/v1/detect", points.tobytes(), model="whole", outputs=ALL)
        self.assertEqual(tensors["bev_features"].tobytes(), features.tobytes())
        maps = standin_maps(features)
        for name in models.MAPS:
            self.assertEqual(tensors[name].shape, maps[name].shape)
            self.assertEqual(tensors[name].tobytes(), maps[name].tobytes(), name)
        self.check_boxes(tensors, metadata, maps)
        self.assertEqual(metadata["class_names"], ["Car", "Pedestrian", "Cyclist"])
        self.assertEqual(metadata["parameters"]["model"], "whole")

    def test_a_batch_at_once_or_one_by_one(self):
        counts = [1000, 0, 1500]
        points = scan(2500)
        features = self.features(points, counts)
        each = [standin_maps(features[i : i + 1]) for i in range(3)]
        apart = {name: np.concatenate([maps[name] for maps in each]) for name in models.MAPS}
        for model, maps in (("whole", standin_maps(features)), ("single", apart)):
            with self.subTest(model):
                tensors, metadata = self.ask(
                    "/v1/detect", points.tobytes(), model=model, outputs=ALL, point_counts=counts
                )
                self.assertEqual(tensors["cls_preds"].tobytes(), maps["cls_preds"].tobytes())
                self.check_boxes(tensors, metadata, maps)

    def test_an_encoder_of_two_layers(self):
        points = scan(2000)
        tensors, _ = self.ask("/v1/detect", points.tobytes(), model="deep", outputs="bev_features")
        features = self.features(points, [2000], hidden=5)
        self.assertTrue(features.any())
        self.assertEqual(tensors["bev_features"].tobytes(), features.tobytes())

    def test_boxes_alone_are_the_default(self):
        tensors, _ = self.ask("/v1/detect", scan(3000).tobytes(), model="whole")
        self.assertEqual(sorted(tensors), ["box_counts", "boxes", "labels", "scores"])

    def test_no_points(self):
        tensors, metadata = self.ask("/v1/detect", b"", model="whole", outputs=ALL)
        self.assertFalse(tensors["bev_features"].any())
        self.assertEqual(metadata["points"]["received"], 0)


class RealLibrary(Stages):
    """The same with ONNX Runtime itself."""

    @classmethod
    def setUpClass(cls):
        library = models.library()
        if not library:
            raise unittest.SkipTest("the tests' environment has no ONNX Runtime")
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        models.write(cls.folder.name, "whole", models.onnx(), models.description("nchw"))
        cls.write_deep(models.onnx(), models.description("nchw"))
        cls.ARGS = ("--workers", "1", "--models-dir", cls.folder.name, "--onnxruntime", library)
        OneDaemonCase.setUpClass.__func__(cls)

    def check_all(self, points, counts):
        features = self.features(points, counts)
        tensors, metadata = self.ask("/v1/detect", points.tobytes(), model="whole", outputs=ALL, point_counts=counts)
        self.assertEqual(tensors["bev_features"].tobytes(), features.tobytes())
        for name, expected in onnx_maps(features).items():
            np.testing.assert_allclose(tensors[name], expected, rtol=1e-5, atol=1e-5)
        self.check_boxes(tensors, metadata, {name: tensors[name] for name in models.MAPS})

    def test_a_scan(self):
        self.check_all(scan(3000), [3000])

    def test_a_batch_at_once_or_one_by_one(self):
        self.check_all(scan(2500), [1000, 0, 1500])


if __name__ == "__main__":
    unittest.main()
