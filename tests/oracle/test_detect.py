"""POST /v1/detect gives the results of its stages: /v1/voxelize, the encoder and the network in numpy, /v1/decode. With
a stand-in for ONNX Runtime every byte is compared. With the real library the maps are compared within a tolerance, and
the boxes byte for byte with those decoded from the same maps."""

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
HALF_CENTERS = ("heatmap", "dim", "vel")


def layers(hidden=None):
    """The layers of the encoder: (weight, bias)."""
    tensors = {
        name: np.frombuffer(data, "<f4").reshape(shape) for name, (shape, data) in models.weights(hidden=hidden).items()
    }
    return [(tensors["weight" + suffix], tensors["bias" + suffix]) for suffix in ("", "_1")[: len(tensors) // 2]]


ANCHORS = (models.MAPS, models.SCALES, models.BIASES)
CENTERS = (models.CENTER_MAPS, models.CENTER_SCALES, models.CENTER_BIASES)


def standin_maps(features, head=ANCHORS, halves=()):
    """The maps [B,CELLS,CELLS,channels]; those named in `halves` are float16."""
    maps = {}
    for (name, channels), scale, bias in zip(head[0].items(), *head[1:]):
        shape = (len(features), models.CELLS, models.CELLS, channels)
        taken = np.resize(features.reshape(-1), int(np.prod(shape))).astype(np.float32)
        values = (taken * np.float32(scale) + np.float32(bias)).reshape(shape)
        maps[name] = values.astype(np.float16 if name in halves else np.float32)
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


class Detections(OneDaemonCase):
    """A daemon with the models of a test. A test overrides `write_models`."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.write_models()
        cls.ARGS = ("--workers", "1", "--models-dir", cls.folder.name, "--onnxruntime", models.STANDIN)
        super().setUpClass()

    @classmethod
    def write_models(cls):
        raise unittest.SkipTest("it has no models")

    def ask(self, path, body, **parameters):
        reply = self.daemon.post(f"{path}?{query(parameters)}", body)
        self.assertEqual(reply.status, 200, reply)
        return check.parse_by_hand(reply.body)

    def decode(self, maps, parameters=models.DECODE):
        reply = self.daemon.post(
            "/v1/decode?" + query({**parameters, "outputs": BOXES}),
            save({name: np.ascontiguousarray(each) for name, each in maps.items()}),
            {"Content-Type": "application/vnd.safetensors"},
        )
        self.assertEqual(reply.status, 200, reply)
        return check.parse_by_hand(reply.body)

    def check_boxes(self, tensors, metadata, maps, parameters=models.DECODE):
        expected, told = self.decode(maps, parameters)
        for name in BOXES.split(","):
            self.assertEqual(tensors[name].tobytes(), expected[name].tobytes(), name)
        self.assertGreater(len(expected["boxes"]), 3)
        items = "candidates" if "candidates" in told else "anchors"
        self.assertEqual(metadata[items], told[items])
        self.assertEqual(metadata["batch"]["boxes"], told["batch"]["kept"])


class Stages(Detections):
    @classmethod
    def write_models(cls):
        models.write(cls.folder.name, "whole", models.standin())
        cls.write_deep(models.standin(), models.description())
        models.write(cls.folder.name, "single", models.standin(batch=1))
        cls.write_others()

    @classmethod
    def write_others(cls):
        """Models with a centre head, with small caps, and of float16."""
        centers = models.description(decode=models.CENTER_DECODE)
        models.write(cls.folder.name, "centers", models.standin(center=True), centers)
        network = models.standin(center=True, halves=HALF_CENTERS)
        models.write(cls.folder.name, "mixed_centers", network, centers)
        models.write(cls.folder.name, "mixed", models.standin(halves=["cls_preds"]))
        chosen = {"max_voxels_by": "near", "max_points_by": "random", "seed": 4}
        few = {**models.VOXELIZE, "max_voxels": 50}
        models.write(cls.folder.name, "few", models.standin(), models.description(voxelize=few))
        described = models.description(voxelize={**few, **chosen})
        models.write(cls.folder.name, "chosen", models.standin(), described)
        described = models.description(voxelize={**models.VOXELIZE, "feature_dtype": "float16"})
        models.write(cls.folder.name, "half", models.standin(halves=["map", *models.MAPS]), described)

    @classmethod
    def write_deep(cls, network, described):
        described["encoder"]["layers"] = 2
        models.write(cls.folder.name, "deep", network, described, models.weights(hidden=5))

    def features(self, points, counts, hidden=None, **choice):
        tensors, _ = self.ask(
            "/v1/voxelize", points.tobytes(), **models.VOXELIZE | choice, feature="pillar", point_counts=counts
        )
        rows = encode(tensors["pillar_features"], tensors["voxel_num_points"], *layers(hidden))
        coords = tensors["voxel_coords"]
        features = np.zeros((len(counts), models.WIDTH, models.CELLS, models.CELLS), np.float32)
        features[coords[:, 0], :, coords[:, 2], coords[:, 3]] = rows
        return features

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

    def test_what_the_caps_keep(self):
        """The model chooses, unless the request does."""
        points = np.concatenate([scan(3000), scan(3000, seed=5)])
        choices = [{"max_voxels_by": "near"}, {"max_voxels_by": "full"}, {"max_points_by": "random"}]
        choices += [{"max_points_by": "random", "seed": 9}, {}]
        asked = [(choice, {"model": "few", **choice}) for choice in choices]
        chosen = {"max_voxels_by": "near", "max_points_by": "random", "seed": 4}
        asked += [(chosen, {"model": "chosen"}), ({**chosen, "seed": 5}, {"model": "chosen", "seed": 5})]
        seen = set()
        for choice, parameters in asked:
            tensors, metadata = self.ask(
                "/v1/detect", points.tobytes(), **parameters, outputs="bev_features", point_counts=[3000, 3000]
            )
            features = self.features(points, [3000, 3000], max_voxels=50, **choice)
            self.assertEqual(tensors["bev_features"].tobytes(), features.tobytes(), parameters)
            shown = {name: metadata["parameters"][name] for name in chosen}
            self.assertEqual(shown, {"max_voxels_by": "first", "max_points_by": "first", "seed": 0, **choice})
            seen.add(features.tobytes())
        self.assertEqual(len(seen), len(asked))

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

    def test_the_sweeps_of_a_stream(self):
        """Each sweep has the same fates as with /v1/voxelize."""
        for time in range(3):
            points, told = scan(1200, seed=time), []
            terms = {"pose": "0.5,0,0,1,0,0,0", "time": time, "sweeps": 3, "remove_close": 0.5}
            for path, parameters in (
                ("/v1/voxelize", {**models.VOXELIZE, "stream": "voxels"}),
                ("/v1/detect", {"model": "whole", "stream": "boxes"}),
            ):
                _, metadata = self.ask(path, points.tobytes(), **{**terms, **parameters})
                sweeps = [sweep["points"] for sweep in metadata["stream"]["sweeps"]]
                told.append((metadata["points"], sweeps))
                for name in set(sweeps[0]) - {"removed_close", "joined", "received"}:
                    self.assertEqual(sum(sweep[name] for sweep in sweeps), metadata["points"][name], name)
            self.assertEqual(*told)
        self.assertEqual(len(told[0][1]), 3)
        self.assertTrue(all(sweep["out_of_range"] for sweep in told[0][1]))

    def test_an_encoder_of_two_layers(self):
        points = scan(2000)
        tensors, _ = self.ask("/v1/detect", points.tobytes(), model="deep", outputs="bev_features")
        features = self.features(points, [2000], hidden=5)
        self.assertTrue(features.any())
        self.assertEqual(tensors["bev_features"].tobytes(), features.tobytes())

    def test_maps_of_a_centre_head(self):
        points = scan(3000)
        features = self.features(points, [3000])
        names = ",".join(models.CENTER_MAPS)
        for model, halves in (("centers", ()), ("mixed_centers", HALF_CENTERS)):
            with self.subTest(model):
                tensors, metadata = self.ask("/v1/detect", points.tobytes(), model=model, outputs=f"{BOXES},{names}")
                maps = standin_maps(features, CENTERS, halves)
                for name, expected in maps.items():
                    self.assertEqual(check.difference(name, expected, tensors[name]), None)
                self.check_boxes(tensors, metadata, maps, models.CENTER_DECODE)
                self.assertEqual(tensors["boxes"].shape[1], 9)

    def test_networks_of_float16(self):
        points = scan(3000)
        for model, halves in (("mixed", ["cls_preds"]), ("half", list(models.MAPS))):
            with self.subTest(model):
                tensors, metadata = self.ask("/v1/detect", points.tobytes(), model=model, outputs=ALL)
                features = self.features(points, [3000]).astype(np.float16 if model == "half" else np.float32)
                self.assertEqual(check.difference("bev_features", features, tensors["bev_features"]), None)
                maps = standin_maps(features, halves=halves)
                for name, expected in maps.items():
                    self.assertEqual(check.difference(name, expected, tensors[name]), None)
                self.check_boxes(tensors, metadata, maps)

    def test_a_request_may_choose_boxes_otherwise(self):
        points = scan(3000)
        features = self.features(points, [3000])
        changes = {"nms_threshold": 0.75, "nms_pre_max": 8, "nms_post_max": 5, "class_agnostic": "no"}
        heads = (
            ("whole", models.DECODE, standin_maps(features), {"score_threshold": 0.625}),
            (
                "centers",
                models.CENTER_DECODE,
                standin_maps(features, CENTERS),
                {"score_threshold": 0.9999998, "max_objects": 9},
            ),
        )
        for model, own, maps, more in heads:
            usual, told = self.ask("/v1/detect", points.tobytes(), model=model, outputs=BOXES)
            everything = {**changes, **more}
            for change in [{name: value} for name, value in everything.items()] + [everything]:
                with self.subTest(model, change=change):
                    tensors, metadata = self.ask("/v1/detect", points.tobytes(), model=model, outputs=BOXES, **change)
                    self.check_boxes(tensors, metadata, maps, {**own, **change})
                    self.assertNotEqual(tensors["scores"].tobytes(), usual["scores"].tobytes())
                    self.assertEqual(metadata["parameters"], {**told["parameters"], **change})

    def test_boxes_alone_are_the_default(self):
        tensors, _ = self.ask("/v1/detect", scan(3000).tobytes(), model="whole")
        self.assertEqual(sorted(tensors), ["box_counts", "boxes", "labels", "scores"])

    def test_no_points(self):
        tensors, metadata = self.ask("/v1/detect", b"", model="whole", outputs=ALL)
        self.assertFalse(tensors["bev_features"].any())
        self.assertEqual(metadata["points"]["received"], 0)


class RealLibrary(Stages):
    """The same with the real ONNX Runtime."""

    # These tests need models that are written for the stand-in alone.
    test_maps_of_a_centre_head = test_a_request_may_choose_boxes_otherwise = test_what_the_caps_keep = None

    @classmethod
    def setUpClass(cls):
        library = models.library()
        if not library:
            raise unittest.SkipTest("the tests' environment has no ONNX Runtime")
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        models.write(cls.folder.name, "whole", models.onnx(), models.description("nchw"))
        cls.write_deep(models.onnx(), models.description("nchw"))
        described = models.description("nchw", voxelize={**models.VOXELIZE, "feature_dtype": "float16"})
        models.write(cls.folder.name, "half", models.onnx(models.FLOAT16), described)
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

    def test_networks_of_float16(self):
        points = scan(3000)
        features = self.features(points, [3000]).astype(np.float16)
        tensors, metadata = self.ask("/v1/detect", points.tobytes(), model="half", outputs=ALL)
        self.assertEqual(check.difference("bev_features", features, tensors["bev_features"]), None)
        for name, expected in onnx_maps(features.astype(np.float32)).items():
            self.assertEqual(tensors[name].dtype, np.float16)
            np.testing.assert_allclose(tensors[name], expected, rtol=2e-3, atol=2e-3)
        self.check_boxes(tensors, metadata, {name: tensors[name] for name in models.MAPS})


if __name__ == "__main__":
    unittest.main()
