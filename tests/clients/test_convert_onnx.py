"""voxeld-convert onnx: small files with random weights, as exporters write them, cut at their scatter. The outputs of
the two parts are compared with float64 values from the weights."""

import contextlib
import copy
import io
import json
import pathlib
import sys
import tempfile
import unittest

import numpy as np
import yaml
from safetensors.numpy import load_file

try:
    import onnx
    import onnxruntime
except ImportError:
    print("skipped: there is no onnx or onnxruntime for this Python")
    sys.exit(77)

from onnx import TensorProto, helper, numpy_helper

import networks
import test_convert as convert
from encoding import encode
from networks import Weights
from test_convert import near
from voxeld.convert.main import main

WIDTH, CELLS, CAP, COLUMNS = 64, convert.CELLS, 32, 4
ANCHOR_MAPS = {"cls_preds": 18, "box_preds": 42, "dir_cls_preds": 12}
CENTER_MAPS = {"heatmap": 3, "reg": 2, "height": 1, "dim": 3, "rot": 2, "vel": 2}


class Builder:
    """A graph under construction. A node and its output have the same name."""

    def __init__(self, seed=1):
        self.weights = Weights(seed)
        self.nodes, self.initializers = [], []
        self.weights.weight("linear", WIDTH, COLUMNS + 6)
        self.weights.norm("norm", WIDTH)
        self.weights.weight("block", 16, WIDTH, 3, 3)
        self.weights.bias("block", 16)

    def node(self, kind, inputs, name, **attributes):
        inputs = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        self.nodes.append(helper.make_node(kind, inputs, [name], name, **attributes))
        return name

    def constant(self, values):
        name = f"constant_{len(self.initializers)}"
        self.initializers.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def numbers(self, *values):
        return np.array(values, np.int64)

    def linear(self, rows, inputs=COLUMNS + 6, plain=False, keepdims=0):
        """A layer of rows [V, P, inputs] -> the largest values [V, WIDTH]."""
        state = self.weights.state
        x = self.node("MatMul", [rows, state["linear.weight"].T[:inputs].copy()], "matmul")
        if plain:  # the norm is folded, as by a tool that simplifies graphs
            gain = state["norm.weight"] / np.sqrt(state["norm.running_var"] + np.float32(networks.EPS))
            x = self.node("Mul", [x, gain], "scaled")
            x = self.node("Add", [x, state["norm.bias"] - state["norm.running_mean"] * gain], "shifted")
        else:
            x = self.node("Transpose", [x], "turned", perm=[0, 2, 1])
            norm = [state[f"norm.{name}"] for name in ("weight", "bias", "running_mean", "running_var")]
            x = self.node("BatchNormalization", [x, *norm], "normed", epsilon=networks.EPS)
            x = self.node("Transpose", [x], "back", perm=[0, 2, 1])
        x = self.node("Relu", [x], "relu")
        return self.node("ReduceMax", [x], "pillar_features", axes=[1], keepdims=keepdims)

    def network(self, x, maps, last=True):
        """A convolution of stride 2, then each map. `last`: the channels are last."""
        state = self.weights.state
        x = self.node("Conv", [x, state["block.weight"], state["block.bias"]], "conv", strides=[2, 2], pads=[1] * 4)
        x = self.node("Relu", [x], "block")
        for name, channels in maps.items():
            self.weights.weight(name, channels, 16, 1, 1)
            self.weights.bias(name, channels)
            weights = [state[f"{name}.weight"], state[f"{name}.bias"]]
            y = self.node("Conv", [x, *weights], f"{name}_first" if last else name)
            if last:
                self.node("Transpose", [y], name, perm=[0, 2, 3, 1])

    def save(self, path, inputs, outputs):
        values = [helper.make_tensor_value_info(name, kind, shape) for name, (kind, shape) in inputs.items()]
        results = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        graph = helper.make_graph(self.nodes, "exported", values, results, self.initializers)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=7)
        onnx.save(model, path)

    def expected(self, maps, x):
        """The network's outputs, channels first."""
        state = self.weights.state
        y = networks.relu(networks.conv(state, "block", x.astype(float), 2, 1))
        return {name: networks.conv(state, name, y) for name in maps}


POINTS = {"voxels": (TensorProto.FLOAT, [None, CAP, COLUMNS])}


def plugged(path, pillars=100, maps=ANCHOR_MAPS, **options):
    """A file like CUDA-PointPillars': rows of 10 values in, a fixed number of pillars."""
    builder = Builder()
    features = builder.linear("voxels", keepdims=[0], **options)  # the tool of these files writes keepdims as a list
    scatter = [features, "voxel_idxs", "voxel_num"]
    builder.network(builder.node("PPScatterPlugin", scatter, "map", dense_shape=[CELLS, CELLS]), maps)
    inputs = {"voxels": (TensorProto.FLOAT, [pillars, CAP, COLUMNS + 6])}
    inputs["voxel_idxs"], inputs["voxel_num"] = (TensorProto.INT32, [pillars, 4]), (TensorProto.INT32, [1])
    builder.save(path, inputs, maps)
    return builder


def rows_of_points(builder, size=convert.SIZE, low=convert.BOUNDS[:3]):
    """The nodes that make rows of 10 values from points, counts and coordinates of pillars."""
    node, numbers = builder.node, builder.numbers
    counts = node("Reshape", [node("Cast", ["num_points"], "counts", to=TensorProto.FLOAT), numbers(-1, 1, 1)], "count")
    xyz = node("Slice", ["voxels", numbers(0), numbers(3), numbers(2)], "xyz")
    mean = node("Div", [node("ReduceSum", [xyz, numbers(1)], "sum", keepdims=1), counts], "mean")
    cells = node("Gather", [node("Cast", ["coors"], "cells", to=TensorProto.FLOAT), numbers(3, 2, 1)], "cell", axis=1)
    scaled = node("Mul", [cells, np.array(size, np.float32)], "corner")
    center = node("Add", [scaled, np.array(size, np.float32) / 2 + np.array(low, np.float32)], "center")
    center = node("Unsqueeze", [center, numbers(1)], "centers")
    parts = ["voxels", node("Sub", [xyz, mean], "from_mean"), node("Sub", [xyz, center], "from_center")]
    rows = node("Concat", parts, "rows", axis=2)
    places = np.arange(CAP, dtype=np.float32).reshape(1, -1, 1)
    there = node("Cast", [node("Greater", [counts, places], "is_there")], "there", to=TensorProto.FLOAT)
    return node("Mul", [rows, there], "masked")


def scattered(path, kind="ScatterND", names=ANCHOR_MAPS, last=True, **grid):
    """A file as OpenPCDet (ScatterND) and mmdeploy (ScatterElements) export it: points in, the scatter inside."""
    builder = Builder()
    node, numbers = builder.node, builder.numbers
    features = builder.linear(rows_of_points(builder, **grid), plain=kind == "ScatterElements")
    coords = node("Cast", ["coors"], "whole", to=TensorProto.INT64)
    y, x = (node("Gather", [coords, numbers(axis)], f"axis_{axis}", axis=1) for axis in (2, 3))
    flat = node("Add", [node("Mul", [y, numbers(CELLS)], "row"), x], "flat")
    if kind == "ScatterND":
        zeros = np.zeros((CELLS * CELLS, WIDTH), np.float32)
        canvas = node("Transpose", [node("ScatterND", [zeros, flat, features], "scattered")], "canvas", perm=[1, 0])
        canvas = node("Concat", [node("Unsqueeze", [canvas, numbers(0)], "one")], "stacked", axis=0)
    else:
        turned = node("Transpose", [features], "columns", perm=[1, 0])
        wide = node("Expand", [node("Transpose", [flat], "flat_row", perm=[1, 0]), numbers(WIDTH, 1)], "wide")
        zeros = np.zeros((WIDTH, CELLS * CELLS), np.float32)
        canvas = node("ScatterElements", [zeros, wide, turned], "canvas", axis=1)
    builder.network(node("Reshape", [canvas, numbers(1, WIDTH, CELLS, CELLS)], "map"), names, last)
    inputs = {**POINTS, "num_points": (TensorProto.INT32, [None]), "coors": (TensorProto.INT32, [None, 4])}
    builder.save(path, inputs, names)
    return builder


AUTOWARE = {
    "class_names": ["CAR", "TRUCK", "PEDESTRIAN"],
    "point_feature_size": COLUMNS,
    "max_voxel_size": 4000,
    "point_cloud_range": convert.BOUNDS,
    "voxel_size": convert.SIZE,
    "downsample_factor": 2,
    "encoder_in_feature_size": 9,
    "has_variance": False,
    "score_thresholds": {"upper_bounds": [50.0, 90.0], "thresholds": {"CAR": [0.35, 0.35], "TRUCK": [0.35, 0.35]}},
}
AUTOWARE_COMMON = {"post_process_params": {"circle_nms_dist_threshold": 0.5, "yaw_norm_thresholds": [0.3, 0.3, 0.0]}}


def autoware(encoder, network):
    """Writes two files, as Autoware has them. The network takes any number of clouds."""
    builder = Builder()
    builder.linear("input_features", 9)
    rows = {"input_features": (TensorProto.FLOAT, ["num_voxels", "num_max_points", 9])}
    builder.save(encoder, rows, ["pillar_features"])
    builder.nodes, builder.initializers = [], []
    builder.network("spatial_features", CENTER_MAPS, last=False)
    rows = {"spatial_features": (TensorProto.FLOAT, ["batch_size", WIDTH, CELLS, CELLS])}
    builder.save(network, rows, CENTER_MAPS)
    return builder


class Onnx(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / convert.PCDET_BASE).parent.mkdir(parents=True)
        (self.folder / convert.PCDET_BASE).write_text("FOV_POINTS_ONLY: True\n", encoding="utf-8")
        self.random = np.random.default_rng(3)
        self.file, self.model = self.folder / "exported.onnx", self.folder / "model"

    def config(self, name, config):
        path = self.folder / name
        path.write_text(config if isinstance(config, str) else yaml.safe_dump(config), encoding="utf-8")
        return path

    def run_it(self, files, configs, *more):
        paths = [self.config(name, config) for name, config in configs.items()]
        arguments = ["onnx", *map(str, files), "--output", str(self.model), *more]
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            status = main([*arguments, *(word for path in paths for word in ("--config", str(path)))])
        return status, text.getvalue()

    def convert(self, files, configs, *more):
        status, text = self.run_it(files, configs, *more)
        self.assertEqual(status, 0, text)
        return json.loads((self.model / "model.json").read_text(encoding="utf-8")), text

    def refuse(self, reason, files=None, configs=None, *more):
        status, text = self.run_it(files or [self.file], configs or {"config.yaml": convert.pcdet_config()}, *more)
        self.assertEqual(status, 1, text)
        self.assertIn(reason, text)
        self.assertFalse((self.model / "model.json").exists())

    def check_encoder(self, builder, inputs=COLUMNS + 6):
        counts = self.random.integers(1, 9, 50)
        features = self.random.normal(0, 1, (50, 8, COLUMNS + 6)).astype(np.float32)
        features[np.arange(8) >= counts[:, None]] = 0
        tensors = load_file(self.model / "encoder.safetensors")
        found = encode(features, counts, (tensors["weight"], tensors["bias"]))
        state = builder.weights.state
        y = features[..., :inputs].astype(float) @ state["linear.weight"].T[:inputs].astype(float)
        near(self, found, networks.relu(networks.norm(state, "norm", y, networks.EPS, 2)).max(axis=1))

    def maps(self, batch=1):
        session = onnxruntime.InferenceSession(self.model / "network.onnx")
        self.assertEqual([each.name for each in session.get_inputs()], ["bev_features"])
        x = self.random.normal(0, 1, (batch, WIDTH, CELLS, CELLS)).astype(np.float32)
        names = [output.name for output in session.get_outputs()]
        return x, dict(zip(names, session.run(names, {"bev_features": x})))

    def check_anchors(self, builder, document, layout):
        self.assertEqual(document["network"]["layout"], layout)
        self.check_encoder(builder)
        x, found = self.maps()
        outputs = document["network"]["outputs"]
        for name, expected in builder.expected(outputs.values(), x).items():
            near(self, found[name], expected.transpose(0, 2, 3, 1) if layout == "nhwc" else expected)
        return outputs

    def test_cuda_pointpillars(self):
        builder = plugged(self.file)
        document, text = self.convert([self.file], {"config.yaml": convert.pcdet_config()})
        self.assertIn("onnx: cut at map; the encoder gives the same values as the file", text)
        self.assertEqual(self.check_anchors(builder, document, "nhwc"), {name: name for name in ANCHOR_MAPS})
        self.assertEqual(document["encoder"], {"file": "encoder.safetensors", "features": "pillar10", "width": WIDTH})
        self.assertEqual(document["voxelize"]["max_points_per_voxel"], CAP)
        self.assertEqual(document["decode"]["anchor_rotations"], [0, 1.57])

    def test_more_pillars_than_cells(self):
        builder = plugged(self.file, pillars=1000)
        document, _ = self.convert([self.file], {"config.yaml": convert.pcdet_config()})
        self.check_anchors(builder, document, "nhwc")

    def test_openpcdet(self):
        builder = scattered(self.file)
        document, text = self.convert([self.file], {"config.yaml": convert.pcdet_config()})
        self.assertIn("onnx: cut at map; the whole network gives the same values as the file", text)
        self.check_anchors(builder, document, "nhwc")

    def test_mmdeploy(self):
        names = {"cls_score0": 18, "bbox_pred0": 42, "dir_cls_pred0": 12}
        builder = scattered(self.file, "ScatterElements", names, last=False)
        self.config("base.py", convert.MMDET_BASE_FILE)
        config = convert.MMDET_ANCHOR_FILE.replace("LEGACY", "legacy=False")
        document, text = self.convert([self.file], {"config.py": config})
        self.assertIn("the whole network gives the same values as the file", text)
        outputs = self.check_anchors(builder, document, "nchw")
        self.assertEqual(outputs, dict(zip(ANCHOR_MAPS, names)))

    def test_a_configuration_of_another_grid(self):
        scattered(self.file, size=[0.32, 0.16, 4])
        self.refuse("the encoder's values are off by")

    def test_autoware(self):
        files = [self.folder / "pts_voxel_encoder.onnx", self.folder / "pts_backbone_neck_head.onnx"]
        builder = autoware(*files)
        configs = {"package.yaml": {"/**": {"ros__parameters": {"model_params": AUTOWARE}}}}
        configs["common.yaml"] = {"/**": {"ros__parameters": AUTOWARE_COMMON}}
        document, text = self.convert(files, configs)
        self.check_encoder(builder, 9)
        x, found = self.maps(batch=2)
        maps = builder.expected(CENTER_MAPS, x)
        maps["dim"] = maps["dim"][:, [1, 0, 2]]
        sine, cosine = maps["rot"][:, 0], maps["rot"][:, 1]
        heading = -np.arctan2(sine, cosine) - np.pi / 2
        near(self, np.exp(1j * np.arctan2(found["rot"][:, 0], found["rot"][:, 1])), np.exp(1j * heading))
        for name in set(CENTER_MAPS) - {"rot"}:
            near(self, found[name], maps[name])
        decode = document["decode"]
        self.assertEqual((decode["rot_order"], decode["nms"], decode["min_radius"]), ("sin_cos", "circle", [0.5]))
        self.assertEqual((decode["score_threshold"], decode["feature_map_stride"]), (0.35, 2))
        self.assertEqual(decode["cell_labels"], "best")
        other = copy.deepcopy(configs)
        other["package.yaml"]["/**"]["ros__parameters"]["model_params"]["score_thresholds"]["thresholds"]["CAR"] = [0.5]
        (self.model / "model.json").unlink()
        self.refuse("score_thresholds differ by class or distance", files, other)

    def test_outputs_of_other_names(self):
        plugged(self.file, maps={"scores": 18, "offsets": 42, "turns": 12})
        self.refuse(
            "it has no output cls_preds or cls_score0 or cls_score, only scores, offsets, turns; --map cls_preds=NAME"
        )
        maps = ["--map", "cls_preds=scores", "--map", "box_preds=offsets", "--map", "dir_cls_preds=turns"]
        self.refuse("--map cls=scores is not NAME=OUTPUT; names: cls_preds", None, None, "--map", "cls=scores")
        self.refuse("--map cls_preds is not NAME=OUTPUT", None, None, "--map", "cls_preds")
        self.refuse(
            "offsets has the shape [1, 12, 12, 42]; the configuration asks for 18",
            None,
            None,
            *maps[2:],
            "--map",
            "cls_preds=offsets",
        )
        document, _ = self.convert([self.file], {"config.yaml": convert.pcdet_config()}, *maps)
        self.assertEqual(list(document["network"]["outputs"].values()), ["scores", "offsets", "turns"])

    def write_norm(self, epsilon, variance):
        """Gives the encoder's norm another epsilon, and a variance from a new constant, running_var."""
        model = onnx.load(self.file)
        norm = next(node for node in model.graph.node if node.op_type == "BatchNormalization")
        next(each for each in norm.attribute if each.name == "epsilon").f = epsilon
        norm.input[4] = "running_var"
        model.graph.initializer.append(numpy_helper.from_array(np.full(WIDTH, variance, np.float32), "running_var"))
        onnx.save(model, self.file)

    def test_what_is_refused(self):
        config = convert.pcdet_config()
        self.file.write_bytes(b"no network")
        self.refuse("cannot read")
        builder = Builder()
        builder.network("map", ANCHOR_MAPS)
        builder.save(self.file, {"map": (TensorProto.FLOAT, [1, WIDTH, CELLS, CELLS])}, ANCHOR_MAPS)
        self.refuse(
            "it has no PPScatterPlugin and no ScatterND and no ScatterElements; give encoder and network as two"
        )
        builder = plugged(self.file)
        builder.node("Add", ["block", "voxel_num"], "both")
        inputs = {name: (1, None) for name in ("voxels", "voxel_idxs", "voxel_num")}
        builder.save(self.file, inputs, ["both", *ANCHOR_MAPS])
        self.refuse("the network after map also reads voxel_num", None, None, "--map", "cls_preds=both")
        plugged(self.file)
        self.write_norm(epsilon=0.0, variance=0)
        self.refuse("running_var has a value of 0, and eps is 0; the sum must be above 0")
        plugged(self.file)
        wrong = copy.deepcopy(config)
        wrong["DATA_CONFIG"]["DATA_PROCESSOR"][1]["MAX_POINTS_PER_VOXEL"] = 20
        self.refuse("its pillars have 32 points; the configuration says 20", None, {"config.yaml": wrong})
        wrong = copy.deepcopy(config)
        wrong["MODEL"]["DENSE_HEAD"]["ANCHOR_GENERATOR_CONFIG"][0]["feature_map_stride"] = 4
        self.refuse("feature_map_stride is 4, but the head's maps have 12 x 12 cells", None, {"config.yaml": wrong})
        wrong["MODEL"]["VFE"]["NAME"] = "DynPillarVFE"
        step = {"NAME": "transform_points_to_voxels_placeholder", "VOXEL_SIZE": convert.SIZE}
        wrong["DATA_CONFIG"]["DATA_PROCESSOR"] = [step]
        self.refuse("its pillars have 32 points; the configuration says no number", None, {"config.yaml": wrong})
        self.refuse("are for checkpoints, not for ONNX files", None, None, "--network", "float16")
        self.refuse("more than two ONNX files", [self.file] * 3)


if __name__ == "__main__":
    unittest.main()
