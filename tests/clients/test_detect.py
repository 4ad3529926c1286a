"""From a checkpoint to boxes: models that voxeld-convert makes from random checkpoints serve. The encoder's map is
exact, the network's maps are near those of ONNX Runtime's own Python package, and the boxes follow from the maps: to
the byte where the test sends the answer's maps to /v1/decode."""

import contextlib
import io
import json
import pathlib
import shutil
import sys
import tempfile
import unittest
import urllib.parse

import numpy as np
import yaml
from safetensors.numpy import load_file, save, save_file

import models

try:
    import onnx
    import onnxruntime
except ImportError:
    print("skipped: there is no onnx or onnxruntime for this Python")
    sys.exit(77)

import check
import heads
import networks
import test_convert as convert
import test_convert_onnx as exports
from daemon import Daemon
from encoding import encode
from voxeld.convert.main import main

BOXES = ["boxes", "scores", "labels", "box_indices", "box_counts"]


def query(values):
    text = lambda value: ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return urllib.parse.urlencode({name: text(value) for name, value in values.items()}, safe=",")


def center_state(maps=convert.MAPS):
    weights, names = networks.Weights(4), convert.pcdet_center_names()
    weights.weight("vfe.pfn_layers.0.linear", 64, 11)
    weights.norm("vfe.pfn_layers.0.norm", 64)
    networks.make_backbone(weights, *convert.PCDET_BLOCKS, convert.PCDET_SPEC)
    networks.make_center(weights, names, 384, 64, maps, [1, 2])
    for task in range(2):
        for output in maps:
            weights.bias(names[1](task, output)[0], 64)
    weights.bias(names[0][0], 64)
    return weights.state


def rectified_config():
    config = convert.pcdet_center_config()
    head = config["MODEL"]["DENSE_HEAD"]
    head["SEPARATE_HEAD_CFG"]["HEAD_DICT"]["iou"] = {"out_channels": 1, "num_conv": 2}
    head["POST_PROCESSING"].update(USE_IOU_TO_RECTIFY_SCORE=True, IOU_RECTIFIER=[0.68, 0.71, 0.65])
    head["POST_PROCESSING"].update(MAX_OBJ_PER_SAMPLE=100)
    head["POST_PROCESSING"]["NMS_CONFIG"].update(NMS_PRE_MAXSIZE=60, NMS_POST_MAXSIZE=20)
    return config


def scaled_state():
    weights, names = networks.Weights(8), convert.det3d_names()
    weights.weight("reader.pfn_layers.0.linear", 64, 10)
    weights.norm("reader.pfn_layers.0.norm", 64)
    networks.make_backbone(weights, "neck.blocks", "neck.deblocks", 1, convert.DET3D_SPEC)
    networks.make_center(weights, names, 384, 64, [*convert.MAPS, "iou"], [1, 2])
    return weights.state


def scaled_file():
    """A file of det3d whose head predicts overlaps."""
    return convert.DET3D_FILE.replace("'vel': (2, 2)", "'vel': (2, 2), 'iou': (1, 2)").replace("CIRCLE", "cf_weight=3,")


def moving_file():
    """A file of mmdetection3d whose caps drop boxes."""
    return convert.MMDET_MVX_FILE.replace("nms_pre=1000", "nms_pre=300").replace("max_num=500", "max_num=120")


class Detect(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)
        (cls.folder / "models").mkdir()
        (cls.folder / convert.PCDET_BASE).parent.mkdir(parents=True)
        (cls.folder / convert.PCDET_BASE).write_text("FOV_POINTS_ONLY: True\n", encoding="utf-8")
        cls.convert("dynamic", *convert.dynamic())
        cls.convert("centers", center_state(), convert.pcdet_center_config())
        cls.convert("rectified", center_state([*convert.MAPS, "iou"]), rectified_config())
        save_file(scaled_state(), cls.folder / "scaled.safetensors")
        (cls.folder / "scaled.py").write_text(scaled_file(), encoding="utf-8")
        cls.run_converter("det3d", "scaled.safetensors", "scaled", "scaled.py")
        cls.convert("anchors", convert.pcdet_state(), convert.pcdet_config())
        save_file(convert.mmdet_moving_state(), cls.folder / "moving.safetensors")
        (cls.folder / "moving.py").write_text(moving_file(), encoding="utf-8")
        cls.run_converter("mmdet3d", "moving.safetensors", "moving", "moving.py")
        exports.scattered(cls.folder / "exported.onnx")
        cls.run_converter("onnx", "exported.onnx", "cut")
        cls.plug(cls.folder / "models" / "plugged")
        daemon = Daemon("--models-dir", str(cls.folder / "models"), "--onnxruntime", models.library())
        cls.daemon = cls.enterClassContext(daemon) if hasattr(cls, "enterClassContext") else daemon.__enter__()
        if not hasattr(cls, "enterClassContext"):
            cls.addClassCleanup(daemon.__exit__, None, None, None)

    @classmethod
    def convert(cls, name, state, config):
        save_file(state, cls.folder / "state.safetensors")
        (cls.folder / "config.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        cls.run_converter("openpcdet", "state.safetensors", name)

    @classmethod
    def run_converter(cls, source, file, name, config="config.yaml"):
        arguments = [source, str(cls.folder / file), "--config", str(cls.folder / config)]
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            status = main([*arguments, "--output", str(cls.folder / "models" / name)])
        if status:
            raise AssertionError(text.getvalue())

    @classmethod
    def plug(cls, folder):
        """A model whose network contains the scatter of CUDA-PointPillars, with a very long input name."""
        name = "pillars_of_the_batch_" * 40
        values = [onnx.helper.make_tensor_value_info(each, 1, [1, 64, 24, 24]) for each in (name, "cls_preds")]
        node = onnx.helper.make_node("PPScatterPlugin", [name], ["cls_preds"], "PPScatter_0")
        graph = onnx.helper.make_graph([node], "plugged", values[:1], values[1:])
        shutil.copytree(cls.folder / "models" / "anchors", folder)
        opsets = [onnx.helper.make_opsetid("", 11)]
        onnx.save(onnx.helper.make_model(graph, opset_imports=opsets, ir_version=8), folder / "network.onnx")

    def ask(self, path, body, headers=None, **parameters):
        reply = self.daemon.post(f"{path}?{query(parameters)}", body, headers or {})
        self.assertEqual(reply.status, 200, reply)
        return check.parse_by_hand(reply.body)

    def document(self, name):
        return json.loads((self.folder / "models" / name / "model.json").read_text(encoding="utf-8"))

    def scan(self, columns):
        rng = np.random.default_rng(5)
        bounds = np.array(convert.BOUNDS)
        xyz = rng.uniform(bounds[:3], bounds[3:], (2000, 3))
        return np.concatenate([xyz, rng.uniform(0, 1, (2000, columns - 3))], axis=1).astype("<f4")

    def features(self, name, points):
        parameters = self.document(name)["voxelize"]
        capped = parameters["max_points_per_voxel"] > 0
        if not capped:  # asks for a cap above the points of any pillar
            parameters.update(max_points_per_voxel=64, feature="pillar")
        tensors, _ = self.ask("/v1/voxelize", points.tobytes(), **parameters)
        rows, counts = tensors["pillar_features"], tensors["voxel_num_points"]
        if not capped:  # in place of padding, repeats each pillar's first point: this does not change the maximum
            self.assertLess(counts.max(), 64)
            padding = np.arange(64) >= counts[:, None]
            rows, counts = np.where(padding[:, :, None], rows[:, :1], rows), np.full(len(rows), 64)
        weights = load_file(self.folder / "models" / name / "encoder.safetensors")
        layers = [(weights[f"weight{end}"], weights[f"bias{end}"]) for end in ("", "_1") if f"weight{end}" in weights]
        rows = encode(rows, counts, *layers)
        features = np.zeros((1, 64, convert.CELLS, convert.CELLS), np.float32)
        coords = tensors["voxel_coords"]
        features[coords[:, 0], :, coords[:, 2], coords[:, 3]] = rows
        return features

    def network(self, name, features):
        session = onnxruntime.InferenceSession(self.folder / "models" / name / "network.onnx")
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, {"bev_features": features})))

    def check_boxes(self, name, tensors, maps):
        head = {"Content-Type": "application/vnd.safetensors"}
        expected, _ = self.ask("/v1/decode", save(maps), head, **self.document(name)["decode"])
        self.assertGreater(len(expected["boxes"]), 0)
        for each in BOXES:
            self.assertEqual(tensors[each].tobytes(), expected[each].tobytes(), each)

    def test_anchors(self):
        points = self.scan(4)
        maps = ["cls_preds", "box_preds", "dir_cls_preds"]
        outputs = [*BOXES, "bev_features", *maps]
        tensors, _ = self.ask("/v1/detect", points.tobytes(), model="anchors", outputs=outputs)
        features = self.features("anchors", points)
        self.assertEqual(tensors["bev_features"].tobytes(), features.tobytes())
        expected = self.network("anchors", features)
        for name in maps:
            convert.near(self, tensors[name], expected[name])
        self.check_boxes("anchors", tensors, {name: np.ascontiguousarray(tensors[name]) for name in maps})

    def test_dynamic_pillars_and_two_layers(self):
        points = self.scan(5)
        points[::7, 2] += 100  # above the range, but taken
        tensors, _ = self.ask("/v1/detect", points.tobytes(), model="dynamic", outputs=["bev_features"])
        self.assertEqual(tensors["bev_features"].tobytes(), self.features("dynamic", points).tobytes())

    def test_centers(self):
        columns = self.document("centers")["voxelize"]["num_features"]
        points = self.scan(columns)
        tensors, metadata = self.ask("/v1/detect", points.tobytes(), model="centers", outputs=[*BOXES, "bev_features"])
        features = self.features("centers", points)
        self.assertEqual(tensors["bev_features"].tobytes(), features.tobytes())
        self.assertEqual(tensors["boxes"].shape, (metadata["candidates"]["kept"], 9))
        self.assertEqual(tensors["boxes"].shape[0], metadata["batch"]["boxes"][0])
        # The answer does not have the maps, and two libraries may compute different maps: hence a tolerance.
        maps = {name: np.ascontiguousarray(each) for name, each in self.network("centers", features).items()}
        head = {"Content-Type": "application/vnd.safetensors"}
        expected, _ = self.ask("/v1/decode", save(maps), head, **self.document("centers")["decode"])
        self.assertGreater(len(expected["boxes"]), 0)
        self.assertLessEqual(abs(len(expected["boxes"]) - len(tensors["boxes"])), 2)
        reply = self.daemon.post("/v1/detect?model=centers&outputs=cls_preds", points.tobytes())
        self.assertEqual((reply.status, reply.json()["parameter"]), (400, "outputs"))

    def stages(self, name):
        """The answer for a scan, with features and maps checked; and the maps, [H, W, channels]."""
        document = self.document(name)
        points, maps = self.scan(document["voxelize"]["num_features"]), list(document["network"]["outputs"])
        outputs = [*BOXES, "bev_features", *maps]
        tensors, metadata = self.ask("/v1/detect", points.tobytes(), model=name, outputs=outputs)
        features = self.features(name, points)
        self.assertEqual(tensors["bev_features"].tobytes(), features.tobytes())
        for each, expected in self.network(name, features).items():
            convert.near(self, tensors[each], expected)
        return tensors, metadata, {each: np.ascontiguousarray(tensors[each])[0] for each in maps}

    def check_rows(self, tensors, expected):
        self.assertGreater(len(expected), 5)
        boxes, scores, labels = (np.array(each) for each in zip(*expected))
        self.assertEqual(tensors["labels"].tolist(), labels.tolist())
        np.testing.assert_allclose(tensors["scores"], scores, atol=1e-6)
        np.testing.assert_allclose(tensors["boxes"], boxes, atol=1e-5, rtol=1e-5)

    def test_overlaps_that_rectify_scores(self):
        tensors, metadata, maps = self.stages("rectified")
        head = rectified_config()["MODEL"]["DENSE_HEAD"]["POST_PROCESSING"]
        head["IOU_RECTIFIER"] = [0.71, 0.68, 0.65]  # by label
        grid = (*convert.BOUNDS[:2], convert.SIZE[0] * 2)
        self.check_rows(tensors, heads.rectified_centers(maps, [1, 2], grid, head))
        for fate in ("over_max_objects", "over_pre_max", "suppressed"):
            self.assertGreater(metadata["candidates"][fate], 0, fate)

    def test_overlaps_that_scale_scores(self):
        tensors, _, maps = self.stages("scaled")
        maps["iou"] = (maps["iou"].astype(float) + 1) / 2
        test = {
            "post_center_limit_range": [-61.2, -61.2, -10.0, 61.2, 61.2, 10.0],
            "score_threshold": 0.1,
            "cf_weight": 3,
            "nms": {"nms_pre_max_size": 1000, "nms_post_max_size": 83, "nms_iou_threshold": 0.2},
        }
        grid = (*convert.BOUNDS[:2], convert.SIZE[0] * 4)
        self.check_rows(tensors, heads.scaled_centers(maps, [1, 2], grid, test))

    def test_anchors_with_a_velocity(self):
        points = self.scan(4)
        outputs = [*BOXES, *exports.ANCHOR_MAPS, "bev_features"]
        tensors, _ = self.ask("/v1/detect", points.tobytes(), model="moving", outputs=outputs)
        self.assertEqual(tensors["bev_features"].tobytes(), self.features("moving", points).tobytes())
        self.assertEqual(tensors["boxes"].shape[1], 9)
        self.assertEqual(tensors["box_preds"].shape[3], 36)
        self.check_boxes("moving", tensors, {name: np.ascontiguousarray(tensors[name]) for name in exports.ANCHOR_MAPS})

    def test_each_class_of_an_anchor(self):
        tensors, metadata, maps = self.stages("moving")
        ranges = [[0.1, -1.8, -1.8, 3.7, 1.8, -1.8], [0.1, -1.8, -1.7, 3.7, 1.8, -1.7]]
        anchors = heads.aligned_anchors(
            maps["cls_preds"].shape[:2], ranges, [[4.6, 1.95, 1.7], [6.7, 2.45, 2.7]], [0, 1.57]
        )
        test = {"nms_pre": 300, "nms_thr": 0.2, "score_thr": 0.05, "max_num": 120}
        self.check_rows(tensors, heads.multilabel_anchors(maps, anchors, 9, -0.7854, test))
        of_anchor = np.unique(tensors["box_indices"], return_counts=True)[1]
        self.assertGreater(of_anchor.max(), 1)  # an anchor has a box of each class
        for fate in ("over_pre_max", "suppressed", "over_post_max"):
            self.assertGreater(metadata["anchors"][fate], 0, fate)

    def test_an_onnx_file_that_was_cut(self):
        points = self.scan(4)
        tensors, _ = self.ask("/v1/detect", points.tobytes(), model="cut", outputs=[*BOXES, *exports.ANCHOR_MAPS])
        parameters = {**self.document("cut")["voxelize"], "feature": "points"}
        voxels, _ = self.ask("/v1/voxelize", points.tobytes(), **parameters)
        feed = dict(zip(("voxels", "num_points"), (voxels["voxels"], voxels["voxel_num_points"])))
        session = onnxruntime.InferenceSession(self.folder / "exported.onnx")
        maps = session.run(list(exports.ANCHOR_MAPS), {**feed, "coors": voxels["voxel_coords"]})
        for name, expected in zip(exports.ANCHOR_MAPS, maps):
            convert.near(self, tensors[name], expected)
        maps = {name: np.ascontiguousarray(tensors[name]) for name in exports.ANCHOR_MAPS}
        self.check_boxes("cut", tensors, maps)

    def test_a_network_with_a_scatter_inside(self):
        reason = self.daemon.get("/v1/models/plugged").json()["reason"]
        self.assertRegex(reason, "^network.onnx: onnxruntime: .* No Op registered for PPScatterPlugin ")
        self.assertTrue(reason.endswith("; voxeld-convert onnx cuts the file after the scatter"), reason)
        reply = self.daemon.post("/v1/detect?model=plugged", b"")
        self.assertEqual(reply.status, 503)
        self.assertIn("No Op registered for PPScatterPlugin", reply.json()["detail"])
        self.assertIn("voxeld-convert onnx", reply.json()["detail"])
        logged = self.daemon.logged('msg="a model does not serve"')
        self.assertIn("No Op registered for PPScatterPlugin", logged[0])

    def test_the_models_are_listed(self):
        listed = {model["name"]: model for model in self.daemon.get("/v1/models").json()["models"]}
        del listed["plugged"]
        self.assertEqual(sorted(listed), ["anchors", "centers", "cut", "dynamic", "moving", "rectified", "scaled"])
        for name, model in listed.items():
            self.assertTrue(model["ready"], model)
            self.assertEqual(model["decode"]["class_names"], self.document(name)["class_names"])
        self.assertEqual(self.daemon.get("/v1/models/anchors").json(), listed["anchors"])


if __name__ == "__main__":
    unittest.main()
