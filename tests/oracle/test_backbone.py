"""POST /v1/backbone, and detection with a backbone, give the results of their stages: /v1/voxelize, sparse convolution
in numpy, the network, /v1/decode. With the stand-in for ONNX Runtime every byte is compared."""

import json
import pathlib
import tempfile
import unittest

import numpy as np

import check
import infer
import models
import sparse
from daemon import BACKEND
from test_detect import BOXES, Detections, query, scan, standin_maps

TENSORS = "sparse_coords,sparse_features,bev_features"
SPARSE = ("sparse_coords", "sparse_features")


def layers():
    made, weights = [], models.backbone_weights().items()
    tensors = {name: np.frombuffer(data, "<f4").reshape(shape) for name, (shape, data) in weights}
    for layer in models.SPARSE_LAYERS:
        steps = {name: tuple(layer[name]) for name in ("stride", "padding") if name in layer}
        weight, bias = (tensors[f"{layer['name']}.{part}"] for part in ("weight", "bias"))
        submanifold = layer["kind"] == "submanifold"
        made.append(sparse.Layer(weight, bias, tuple(layer["kernel"]), **steps, submanifold=submanifold,
                                 adds=layer.get("adds", False)))
    return made


class Backbone(Detections):
    @classmethod
    def write_models(cls):
        models.write(cls.folder.name, "sparse", models.sparse_standin(), models.sparse_description())
        models.write(cls.folder.name, "single", models.sparse_standin(batch=1), models.sparse_description())
        models.write(cls.folder.name, "pillars", models.standin())
        # This model has the name that the backbone of `single` would have.
        models.write(cls.folder.name, "single_backbone", models.standin())
        models.write(cls.folder.name, "broken", models.sparse_standin(), models.sparse_description())
        pathlib.Path(cls.folder.name, "broken", "backbone.safetensors").write_bytes(b"")
        few = {**models.sparse_description()["backbone"], "max_rows": 100}
        models.write(cls.folder.name, "few", models.sparse_standin(), models.sparse_description(backbone=few))
        voxelize = {**models.sparse_description()["voxelize"], "max_voxels": 50}
        models.write(cls.folder.name, "cramped", models.sparse_standin(), models.sparse_description(voxelize=voxelize))

    def expected(self, points, counts, **more):
        """The tensors of the backbone, the rows of each level, and the metadata of /v1/voxelize."""
        voxelize = {**models.VOXELIZE, "voxel_size": models.SPARSE_SIZE, "feature": "mean"}
        tensors, told = self.ask("/v1/voxelize", points.tobytes(), **voxelize, point_counts=counts, **more)
        shape, cells, rows, levels = sparse.last_level(
            models.SPARSE_SHAPE, layers(), tensors["voxel_coords"], tensors["voxel_features"]
        )
        dense = sparse.dense_map(shape, len(counts), cells, rows)
        return dict(zip(TENSORS.split(","), (cells, rows, dense))), levels, told

    def assert_same(self, tensors, expected, names=TENSORS.split(",")):
        for name in names:
            self.assertEqual(check.difference(name, expected[name], tensors[name]), None)

    def check_points(self, points, counts, **more):
        expected, levels, told = self.expected(points, counts, **more)
        asked = {"model": "sparse", "point_counts": counts, **more}
        tensors, metadata = self.ask("/v1/backbone", points.tobytes(), **asked, outputs=TENSORS)
        self.assert_same(tensors, expected)
        self.assertEqual(metadata["backbone"], {"level_rows": levels, "max_rows": 1 << 27})
        for part in ("points", "voxels"):
            self.assertEqual(metadata[part], told[part])
        self.assertEqual(metadata["batch"], told["batch"])
        alone, _ = self.ask("/v1/backbone", points.tobytes(), **asked)
        self.assertEqual(sorted(alone), sorted(SPARSE))
        self.assert_same(alone, expected, SPARSE)
        return asked, expected, levels

    def check_boxes_of(self, points, counts, **more):
        asked, expected, levels = self.check_points(points, counts, **more)
        outputs = ",".join([BOXES, TENSORS, *models.MAPS])
        tensors, metadata = self.ask("/v1/detect", points.tobytes(), **asked, outputs=outputs)
        self.assert_same(tensors, expected)
        self.assertEqual(metadata["backbone"]["level_rows"], levels)
        maps = standin_maps(expected["bev_features"])
        for name in models.MAPS:
            self.assertEqual(tensors[name].tobytes(), maps[name].tobytes(), name)
        self.check_boxes(tensors, metadata, maps)

    def test_a_scan(self):
        self.check_boxes_of(scan(800), [800])

    def test_a_batch(self):
        self.check_boxes_of(scan(900), [400, 0, 500])

    def test_a_batch_one_by_one(self):
        points, counts = scan(600), [300, 0, 300]
        expected, _, _ = self.expected(points, counts)
        features = expected["bev_features"]
        each = [standin_maps(features[i : i + 1]) for i in range(3)]
        tensors, _ = self.ask(
            "/v1/detect", points.tobytes(), model="single", outputs=",".join(models.MAPS), point_counts=counts
        )
        for name in models.MAPS:
            self.assertEqual(tensors[name].tobytes(), np.concatenate([maps[name] for maps in each]).tobytes(), name)

    def test_steps_come_before(self):
        self.check_boxes_of(scan(800), [800], **{"steps": "transform", "transform.crop": [0, -4, -3, 16, 8, 1]})

    def test_no_points(self):
        tensors, metadata = self.ask("/v1/backbone", b"", model="sparse", outputs=TENSORS)
        self.assertEqual(tensors["sparse_coords"].shape, (0, 4))
        self.assertFalse(tensors["bev_features"].any())
        self.assertEqual(metadata["backbone"]["level_rows"], [0, 0, 0])

    def test_which_points_are_kept(self):
        expected, _, _ = self.expected(scan(800), [800], max_points_by="random", seed=3)
        tensors, _ = self.ask(
            "/v1/backbone", scan(800).tobytes(), model="sparse", outputs=TENSORS, max_points_by="random", seed=3
        )
        self.assert_same(tensors, expected)

    def test_voxels_over_the_model_s_limit_are_told(self):
        for path in ("/v1/backbone", "/v1/detect"):
            for voxels_by, hint in (("first", "; max_voxels_by=near keeps"), ("near", "")):
                _, metadata = self.ask(path, scan(800).tobytes(), model="cramped", max_voxels_by=voxels_by)
                (warning,) = metadata["warnings"]
                self.assertEqual(warning["kind"], "max_voxels")
                self.assertRegex(warning["detail"], f"^max_voxels=50 was reached: [0-9]+ voxels .* dropped{hint}")
                self.assertEqual("near" in warning["detail"], bool(hint))

    def test_inference(self):
        """The backbone of a model is a model of KServe's protocol."""
        points = scan(500)
        expected, _, _ = self.expected(points, [500])
        names = [entry["name"] for entry in self.daemon.post("/v2/repository/index").json()]
        self.assertEqual([name for name in names if name.endswith("_backbone")], [
            "single_backbone", "broken_backbone", "cramped_backbone", "few_backbone", "sparse_backbone"
        ])  # single_backbone is the model
        described = self.daemon.get("/v2/models/sparse_backbone").json()
        self.assertEqual([output["name"] for output in described["outputs"]], list(SPARSE))
        head = json.dumps(
            {"inputs": [infer.as_bytes("points", points)], "parameters": {"binary_data_output": True}}
        ).encode()
        for model in ("sparse", "sparse_backbone"):
            headers = {"Inference-Header-Content-Length": str(len(head))}
            reply = self.daemon.post(f"/v2/models/{model}/infer", head + points.tobytes(), headers)
            self.assertEqual(reply.status, 200, reply)
            tensors, _ = infer.parse(reply)
            if model == "sparse":
                self.assertIn("boxes", tensors)
            else:
                self.assert_same(tensors, expected, SPARSE)
        self.assertEqual(self.daemon.get("/v2/models/pillars_backbone").status, 404)
        self.assertEqual(self.daemon.get("/v2/models/broken_backbone/ready").status, 503)
        reply = self.daemon.post("/v2/models/broken_backbone/infer", head + points.tobytes(), headers)
        self.assertEqual(reply.status, 503, reply)

    def test_refusals(self):
        points = scan(800)
        _, levels, _ = self.expected(points, [800])
        self.assertGreater(levels[0], 100)
        for path in ("/v1/backbone", "/v1/detect"):
            self.assert_refused(
                f"{path}?model=few", points, 422, f"level 0 of the backbone has {levels[0]} rows; the most is 100"
            )
        self.assert_refused("/v1/backbone?model=pillars", points, 400, "the model pillars has no backbone")
        self.assert_refused("/v1/backbone", points, 400, "model is missing")
        for path in ("/v1/backbone", "/v1/detect"):
            for preset in ("kitti_second", "unknown"):
                reason = "there is no parameter 'preset' here"
                self.assert_refused(f"{path}?model=sparse&preset={preset}", points, 400, reason)
        self.assert_refused(
            "/v1/detect?model=pillars&outputs=sparse_coords", points, 400,
            "outputs names sparse_coords, which the model pillars does not have",
        )
        self.assert_refused("/v1/backbone?model=sparse&score_threshold=0.5", points, 400, "score_threshold")
        self.assert_refused(
            "/v1/detect?model=pillars&precision=float16", points, 400,
            "precision is given, but the model pillars has no such parameter",
        )
        columns = "the points have 5 columns; the model sparse takes 4"
        self.assert_refused("/v1/backbone?model=sparse&num_features=5", points, 400, columns)

    def test_float16(self):
        points = scan(800)
        if BACKEND == "cpu":
            for path in ("/v1/backbone", "/v1/detect"):
                self.assert_refused(
                    f"{path}?model=sparse&precision=float16", points, 422,
                    "precision is float16, which only a GPU computes; this server has the CPU backend",
                )
            return
        asked = {"model": "sparse", "point_counts": [800], "outputs": TENSORS}
        exact, _ = self.ask("/v1/backbone", points.tobytes(), **asked)
        found, _ = self.ask("/v1/backbone", points.tobytes(), **asked, precision="float16")
        again, _ = self.ask("/v1/backbone", points.tobytes(), **asked, precision="float16")
        self.assert_same(found, again)
        self.assert_same(found, exact, ["sparse_coords"])
        for name in ("sparse_features", "bev_features"):
            error = np.abs(found[name] - exact[name]).max() / np.abs(exact[name]).max()
            self.assertTrue(0 < error <= 2e-3, error)

    def assert_refused(self, path, points, status, reason):
        reply = self.daemon.post(path, points.tobytes())
        self.assertEqual(reply.status, status, reply)
        self.assertIn(reason, reply.json()["detail"])

    def test_times_and_pages(self):
        points = scan(500).tobytes()
        for path in ("/v1/backbone?model=sparse", "/v1/detect?model=sparse"):
            reply = self.daemon.post(path, points)
            self.assertIn("backbone;dur=", reply.headers["Server-Timing"])
        page = self.daemon.get("/v1/models/sparse").json()
        self.assertEqual(page["backbone"], {
            "channels": 4, "layers": 6, "width": 16, "max_rows": 1 << 27,
            "levels": [[9, 32, 32], [5, 16, 16], [2, 16, 16]],
        })
        metrics = self.daemon.get("/metrics").body.decode()
        self.assertIn('stage="backbone"', metrics)


if __name__ == "__main__":
    unittest.main()
