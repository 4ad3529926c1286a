"""OpenPCDet's AnchorHeadMulti and MULTI_CLASSES_NMS: a small model with random weights is converted and served. Every
stage of POST /v1/detect is compared with float64 in numpy, in OpenPCDet's order: norms not folded, anchors and
predictions class by class, and with MULTI_CLASSES_NMS one suppression for each class."""

import contextlib
import io
import json
import pathlib
import sys
import tempfile
import unittest
import urllib.parse

import numpy as np
import yaml
from safetensors.numpy import save_file

try:
    import onnx  # noqa: F401
    import onnxruntime  # noqa: F401
except ImportError:
    print("skipped: there is no onnx or onnxruntime for this Python")
    sys.exit(77)

import boxes as oracle
import check
import models
import networks
from daemon import Daemon
from networks import Weights
from voxeld.convert.main import main

TOLERANCE = 1e-5
RANGE, SIZE, CELLS, STRIDE = [0, -6.4, -3, 12.8, 6.4, 1], [0.8, 0.8, 4], 16, 2
SPEC = {"layers": [1, 1], "strides": [2, 2], "channels": [8, 12], "up": [1, 2], "up_channels": [8, 8], "input": 8}
SPEC["transposed"] = lambda stride: stride >= 1
TASKS = [["car"], ["truck", "bus"], ["pedestrian", "cone"]]
CLASSES = ["car", "pedestrian", "cone", "truck", "bus"]  # not in the order of the tasks
SIZES = {  # anchors of each class: dx, dy, dz; bottom
    "car": ([[4.6, 2.0, 1.7]], -0.95),
    "truck": ([[6.9, 2.5, 2.8], [5.5, 2.4, 2.6]], -0.6),
    "bus": ([[10.5, 2.9, 3.5]], -0.1),
    "pedestrian": ([[0.7, 0.7, 1.8]], -0.9),
    "cone": ([[0.4, 0.4, 1.1]], -1.3),
}
ROTATIONS = [0, 1.57]
REGRESSIONS = {"reg": 2, "height": 1, "size": 3, "angle": 2, "velo": 2}
THRESHOLD, IOU, PRE_MAX, POST_MAX = 0.35, 0.2, 40, 12


class Variant:
    """A head: its parts, the layers of a part, and the values of an anchor."""

    def __init__(self, **changed):
        self.separate, self.branches, self.turned, self.moving, self.bins, self.deep = True, True, True, True, 0, False
        self.every = True
        self.__dict__.update(changed)
        self.values = 7 + self.turned + 2 * self.moving

    def anchors(self, task):
        return sum(len(SIZES[name][0]) for name in task) * len(ROTATIONS)

    def classes(self, task):
        return task if self.separate else CLASSES

    def layers(self, place, task):
        """The layers of each map of a part: name, channels, and whether a convolution comes before."""
        count = self.anchors(task)
        whole = [("conv_box", self.values)]
        apart = [(f"conv_box.conv_{name}", values) for name, values in REGRESSIONS.items()]
        boxes = apart if self.branches else whole
        maps = {"cls_preds": [(f"{place}.conv_cls", count * len(self.classes(task)), self.branches)]}
        maps["box_preds"] = [(f"{place}.{name}", count * values, self.branches) for name, values in boxes]
        if self.bins:
            maps["dir_cls_preds"] = [(f"{place}.conv_dir_cls", count * self.bins, False)]
        return maps

    def config(self):
        anchors = [
            {
                "class_name": name,
                "anchor_sizes": SIZES[name][0],
                "anchor_rotations": ROTATIONS,
                "anchor_bottom_heights": [SIZES[name][1]],
                "feature_map_stride": STRIDE,
            }
            for task in TASKS
            for name in task
        ]
        parts = [{"HEAD_CLS_NAME": task} for task in TASKS]
        if self.deep:
            parts[1].update(LAYER_NUMS=[1], LAYER_STRIDES=[1], NUM_FILTERS=[8])
        coder = {"code_size": 9 if self.moving else 7, "encode_angle_by_sincos": self.turned}
        head = {
            "NAME": "AnchorHeadMulti",
            "CLASS_AGNOSTIC": False,
            "DIR_OFFSET": 0.78539,
            "DIR_LIMIT_OFFSET": 0.0,
            "NUM_DIR_BINS": 2,
            "USE_MULTIHEAD": True,
            "SEPARATE_MULTIHEAD": self.separate,
            "SHARED_CONV_NUM_FILTER": 8,
            "ANCHOR_GENERATOR_CONFIG": anchors,
            "RPN_HEAD_CFGS": parts,
            "TARGET_ASSIGNER_CONFIG": {"BOX_CODER": "ResidualCoder", "BOX_CODER_CONFIG": coder},
        }
        if self.bins:
            head["USE_DIRECTION_CLASSIFIER"] = True
        if self.branches:
            names = [f"{name}:{values}" for name, values in REGRESSIONS.items()]
            head["SEPARATE_REG_CONFIG"] = {"NUM_MIDDLE_CONV": 1, "NUM_MIDDLE_FILTER": 6, "REG_LIST": names}
        return whole_config(head, self.every)

    def state(self, seed=1):
        weights = Weights(seed)
        make_front(weights)
        weights.weight("dense_head.shared_conv.0", 8, 16, 3, 3)
        weights.norm("dense_head.shared_conv.1", 8)
        for number, task in enumerate(TASKS):
            place = f"dense_head.rpn_heads.{number}"
            labels = [CLASSES.index(name) + 1 for name in task]
            weights.state[f"{place}.head_label_indices"] = np.array(labels)
            if self.deep and number == 1:
                for k in (1, 4):
                    weights.weight(f"{place}.blocks.0.{k}", 8, 8, 3, 3)
                    weights.norm(f"{place}.blocks.0.{k + 1}", 8)
            for name, channels, behind in sum(self.layers(place, task).values(), []):
                make_layer(weights, name, channels, behind, 8)
        return weights.state

    def maps(self, state, features):
        """The maps of each part, [B, channels, H, W]."""
        x = networks.run_backbone(state, "backbone_2d.blocks", "backbone_2d.deblocks", 1, SPEC, features)
        x = networks.conv(state, "dense_head.shared_conv.0", x, 1, 1)
        x = networks.relu(networks.norm(state, "dense_head.shared_conv.1", x, networks.EPS, 1))
        parts = []
        for number, task in enumerate(TASKS):
            place, own = f"dense_head.rpn_heads.{number}", x
            for k in (1, 4) if self.deep and number == 1 else ():
                own = networks.conv(state, f"{place}.blocks.0.{k}", own, 1, 1)
                own = networks.relu(networks.norm(state, f"{place}.blocks.0.{k + 1}", own, networks.EPS, 1))
            layers = self.layers(place, task)
            parts.append({name: join([run_layer(state, own, *each) for each in layers[name]]) for name in layers})
        return parts


def join(maps):
    return np.concatenate(maps, 1)


def make_layer(weights, name, channels, behind, inputs):
    if behind:
        weights.weight(f"{name}.0", 6, inputs, 3, 3)
        weights.norm(f"{name}.1", 6)
    last = f"{name}.3" if behind else name
    weights.weight(last, channels, 6 if behind else inputs, *([3, 3] if behind else [1, 1]))
    weights.bias(last, channels)


def run_layer(state, x, name, _channels, behind):
    if not behind:
        return networks.conv(state, name, x)
    x = networks.norm(state, f"{name}.1", networks.conv(state, f"{name}.0", x, 1, 1), networks.CENTER_EPS, 1)
    return networks.conv(state, f"{name}.3", networks.relu(x), 1, 1)


def make_front(weights):
    weights.weight("vfe.pfn_layers.0.linear", 8, 10)
    weights.norm("vfe.pfn_layers.0.norm", 8)
    networks.make_backbone(weights, "backbone_2d.blocks", "backbone_2d.deblocks", 1, SPEC)


def whole_config(head, every):
    voxels = {"NAME": "transform_points_to_voxels", "VOXEL_SIZE": SIZE, "MAX_POINTS_PER_VOXEL": 8}
    voxels["MAX_NUMBER_OF_VOXELS"] = {"train": 300, "test": 300}
    nms = {"MULTI_CLASSES_NMS": every, "NMS_TYPE": "nms_gpu", "NMS_THRESH": IOU}
    nms.update({"NMS_PRE_MAXSIZE": PRE_MAX, "NMS_POST_MAXSIZE": POST_MAX})
    return {
        "CLASS_NAMES": CLASSES,
        "DATA_CONFIG": {"POINT_CLOUD_RANGE": RANGE, "DATA_PROCESSOR": [voxels]},
        "MODEL": {
            "NAME": "PointPillar",
            "VFE": {"NAME": "PillarVFE", "USE_NORM": True, "NUM_FILTERS": [8]},
            "MAP_TO_BEV": {"NAME": "PointPillarScatter"},
            "BACKBONE_2D": {
                "NAME": "BaseBEVBackbone",
                "LAYER_NUMS": SPEC["layers"],
                "LAYER_STRIDES": SPEC["strides"],
                "NUM_FILTERS": SPEC["channels"],
                "UPSAMPLE_STRIDES": SPEC["up"],
                "NUM_UPSAMPLE_FILTERS": SPEC["up_channels"],
            },
            "DENSE_HEAD": head,
            "POST_PROCESSING": {"SCORE_THRESH": THRESHOLD, "NMS_CONFIG": nms},
        },
    }


# ---- OpenPCDet's boxes, in float64 ----------------------------------------------------------------------------------


def anchors_of(task, height, width):
    """[anchors, 7], by class, size, rotation, row and column."""
    place = lambda axis, count: np.linspace(RANGE[axis], RANGE[3 + axis], count)
    y, x = np.meshgrid(place(1, height), place(0, width), indexing="ij")
    found = []
    for name in task:
        sizes, bottom = SIZES[name]
        for dx, dy, dz in sizes:
            for rotation in ROTATIONS:
                rest = np.array([bottom + dz / 2, dx, dy, dz, rotation])
                found.append(np.concatenate([np.stack([x, y], 2), np.broadcast_to(rest, (height, width, 5))], 2))
    return np.concatenate([each.reshape(-1, 7) for each in found])


def apart(values, anchors):
    """[channels, H, W] as [anchors * H * W, channels of an anchor]."""
    height, width = values.shape[1:]
    return values.reshape(anchors, -1, height, width).transpose(0, 2, 3, 1).reshape(anchors * height * width, -1)


def boxes_of(variant, codes, anchors, bins):
    diagonal = np.hypot(anchors[:, 3], anchors[:, 4])
    xyz = codes[:, :3] * np.stack([diagonal, diagonal, anchors[:, 5]], 1) + anchors[:, :3]
    sizes = np.exp(codes[:, 3:6]) * anchors[:, 3:6]
    rotation = anchors[:, 6]
    heading = codes[:, 6] + rotation
    if variant.turned:
        heading = np.arctan2(codes[:, 7] + np.sin(rotation), codes[:, 6] + np.cos(rotation))
    if bins is not None:
        period = 2 * np.pi / variant.bins
        turned = heading - 0.78539
        heading = turned - np.floor(turned / period) * period + 0.78539 + period * bins.argmax(1)
    return np.concatenate([xyz, sizes, heading[:, None], codes[:, 7 + variant.turned :]], 1)


def suppressed(boxes, scores):
    """The numbers of the boxes that stay, the best first."""
    order = np.argsort(-scores, kind="stable")[:PRE_MAX]
    rectangles = [oracle.Rectangle(box) for box in boxes]
    return oracle.keep(order, rectangles, None, IOU, POST_MAX)[0]


def detections(variant, parts):
    """The boxes, scores and labels of one cloud, in order. A label is a place in the list of the tasks' classes or, if
    each part has all classes, in CLASSES."""
    every, boxes, logits = [], [], []
    order = [name for task in TASKS for name in task] if variant.separate else CLASSES
    for task, part in zip(TASKS, parts):
        count = variant.anchors(task)
        anchors = anchors_of(task, *part["cls_preds"].shape[1:])
        bins = apart(part["dir_cls_preds"], count) if variant.bins else None
        boxes.append(boxes_of(variant, apart(part["box_preds"], count), anchors, bins))
        logits.append(apart(part["cls_preds"], count))
    if variant.every:
        groups = [
            (own, 1 / (1 + np.exp(-values[:, k])), np.full(len(own), order.index(name)))
            for own, values, task in zip(boxes, logits, TASKS)
            for k, name in enumerate(variant.classes(task))
        ]
    else:
        scores = 1 / (1 + np.exp(-np.concatenate(logits)))
        groups = [(np.concatenate(boxes), scores.max(1), scores.argmax(1))]
    for own, scores, labels in groups:
        reach = np.flatnonzero(scores >= THRESHOLD)
        kept = reach[suppressed(own[reach], scores[reach])]
        every += [(own[i], scores[i], labels[i]) for i in kept]
    return [np.array(column) for column in zip(*every)]


def scan(seed=5, count=900):
    random = np.random.default_rng(seed)
    low, high = np.array(RANGE[:3]), np.array(RANGE[3:])
    return np.concatenate([random.uniform(low, high, (count, 3)), random.uniform(0, 1, (count, 1))], 1).astype("<f4")


# ---- tests ----------------------------------------------------------------------------------------------------------


class MultiHead(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def convert(self, state, config):
        """The exit status and the output. The model's name is `model`."""
        save_file(state, self.folder / "state.safetensors")
        path = self.folder / "config.yaml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        arguments = ["openpcdet", str(self.folder / "state.safetensors"), "--config", str(path)]
        text = io.StringIO()
        with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
            status = main([*arguments, "--output", str(self.folder / "models" / "model")])
        return status, text.getvalue()

    def converted(self, state, config):
        status, text = self.convert(state, config)
        self.assertEqual(status, 0, text)
        return json.loads((self.folder / "models" / "model" / "model.json").read_text(encoding="utf-8"))

    def detect(self, points, outputs):
        served = ("--models-dir", str(self.folder / "models"), "--onnxruntime", models.library())
        daemon = Daemon("--workers", "1", *served)
        self.addCleanup(daemon.stop)
        query = urllib.parse.urlencode({"model": "model", "outputs": ",".join(outputs)}, safe=",")
        reply = daemon.post(f"/v1/detect?{query}", points.tobytes())
        self.assertEqual(reply.status, 200, reply)
        return (daemon, *check.parse_by_hand(reply.body))

    def near(self, found, expected):
        self.assertEqual(found.shape, expected.shape)
        self.assertLessEqual(np.abs(found - expected).max(), TOLERANCE * max(1, np.abs(expected).max()))

    def check_features(self, daemon, state, points, found, document):
        parameters = {**document["voxelize"], "feature": "pillar"}
        text = lambda value: ",".join(map(str, value)) if isinstance(value, list) else str(value)
        query = urllib.parse.urlencode({name: text(value) for name, value in parameters.items()}, safe=",")
        tensors, _ = check.parse_by_hand(daemon.post(f"/v1/voxelize?{query}", points.tobytes()).body)
        rows = networks.encoder(state, "vfe", tensors["pillar_features"])
        grid = np.zeros((1, 8, CELLS, CELLS))
        coords = tensors["voxel_coords"]
        grid[0, :, coords[:, 2], coords[:, 3]] = rows
        self.near(found, grid)

    def check_served(self, variant):
        state = variant.state()
        document = self.converted(state, variant.config())
        maps = ["cls_preds", "box_preds", *(["dir_cls_preds"] if variant.bins else [])]
        points = scan()
        daemon, tensors, metadata = self.detect(points, ["bev_features", *maps, "boxes", "scores", "labels"])
        self.check_features(daemon, state, points, tensors["bev_features"], document)
        parts = variant.maps(state, tensors["bev_features"].astype(float))
        for name in maps:
            self.near(tensors[name], join([part[name] for part in parts]).transpose(0, 2, 3, 1))
        own = [{name: part[name][0] for name in maps} for part in parts]
        boxes, scores, labels = detections(variant, own)
        self.assertGreaterEqual(len(labels), POST_MAX)
        self.assertEqual(list(tensors["labels"]), list(labels))
        self.near(tensors["boxes"], boxes)
        self.near(tensors["scores"], scores)
        return document, metadata

    def test_parts_with_classes_of_their_own(self):
        document, metadata = self.check_served(Variant())
        self.assertEqual(document["class_names"], ["car", "truck", "bus", "pedestrian", "cone"])
        decode = document["decode"]
        self.assertEqual((decode["task_classes"], decode["task_sizes"]), ([1, 2, 2], [1, 3, 2]))
        self.assertEqual((decode["labels"], decode["nms_groups"], decode["heading"]), ("all", "class", "cos_sin"))
        self.assertEqual(metadata["anchors"]["received"], (CELLS // STRIDE) ** 2 * 2 * (1 * 1 + 3 * 2 + 2 * 2))

    def test_directions_and_parts_with_a_backbone(self):
        self.check_served(Variant(branches=False, turned=False, moving=False, bins=2, deep=True))

    def test_parts_with_all_classes(self):
        document, _ = self.check_served(Variant(separate=False, every=False))
        self.assertEqual(document["class_names"], CLASSES)
        self.assertNotIn("task_classes", document["decode"])

    def test_every_class_of_parts_with_all_classes(self):
        """OpenPCDet itself stops with an assertion here."""
        document = self.converted(Variant(separate=False).state(), Variant(separate=False).config())
        self.assertEqual((document["decode"]["labels"], document["decode"]["nms_groups"]), ("all", "class"))

    def test_an_unused_layer_of_directions_is_left_out(self):
        config = Variant().config()
        config["MODEL"]["DENSE_HEAD"]["USE_DIRECTION_CLASSIFIER"] = False
        directions = Variant(bins=2).state()
        self.assertEqual(set(self.converted(directions, config)["network"]["outputs"]), {"cls_preds", "box_preds"})

    def test_what_cannot_be_converted_is_refused_by_name(self):
        head = lambda config: config["MODEL"]["DENSE_HEAD"]
        changes = {
            "MODEL.DENSE_HEAD.USE_MULTIHEAD is False": lambda c: head(c).update(USE_MULTIHEAD=False),
            "SEPARATE_MULTIHEAD is True, which needs NMS_CONFIG.MULTI_CLASSES_NMS": lambda c: c["MODEL"][
                "POST_PROCESSING"
            ]["NMS_CONFIG"].update(MULTI_CLASSES_NMS=False),
            "RPN_HEAD_CFGS must name each of CLASS_NAMES once": lambda c: head(c)["RPN_HEAD_CFGS"].pop(),
            "REG_LIST does not add up to 10 values": lambda c: head(c)["SEPARATE_REG_CONFIG"].update(
                REG_LIST=["reg:2"]
            ),
            "REG_LIST has 'reg'": lambda c: head(c)["SEPARATE_REG_CONFIG"].update(REG_LIST=["reg"]),
            "code_size is 8; only 7 or 9": lambda c: head(c)["TARGET_ASSIGNER_CONFIG"]["BOX_CODER_CONFIG"].update(
                code_size=8
            ),
            "anchor_rotations is not the same": lambda c: head(c)["ANCHOR_GENERATOR_CONFIG"][1].update(
                anchor_rotations=[0]
            ),
            "rpn_heads.0.head_label_indices has other classes": lambda c: c.update(CLASS_NAMES=CLASSES[::-1]),
            "USE_MULTIHEAD is given; an AnchorHeadSingle": lambda c: head(c).update(NAME="AnchorHeadSingle"),
        }
        for reason, change in changes.items():
            with self.subTest(reason):
                config = Variant().config()
                change(config)
                status, text = self.convert(Variant().state(), config)
                self.assertEqual(status, 1, text)
                self.assertIn(reason, text)

    def test_every_class_of_a_single_head(self):
        """MULTI_CLASSES_NMS of an AnchorHeadSingle gives the boxes of one part with all classes."""
        variant = Variant(separate=False, branches=False, turned=False, moving=False)
        config = variant.config()
        head = config["MODEL"]["DENSE_HEAD"]
        for key in ("USE_MULTIHEAD", "SEPARATE_MULTIHEAD", "SHARED_CONV_NUM_FILTER", "RPN_HEAD_CFGS"):
            del head[key]
        head["NAME"] = "AnchorHeadSingle"
        weights = Weights(3)
        make_front(weights)
        count = sum(variant.anchors(task) for task in TASKS)
        make_layer(weights, "dense_head.conv_cls", count * len(CLASSES), False, 16)
        make_layer(weights, "dense_head.conv_box", count * 7, False, 16)
        self.converted(weights.state, config)
        _, tensors, _ = self.detect(scan(), ["cls_preds", "box_preds", "boxes", "scores", "labels"])
        height, width = tensors["cls_preds"].shape[1:3]
        anchors = anchors_of(sum(TASKS, []), height, width)
        channels = lambda name: tensors[name][0].transpose(2, 0, 1).astype(float)
        boxes = boxes_of(variant, apart(channels("box_preds"), count), anchors, None)
        scores = 1 / (1 + np.exp(-apart(channels("cls_preds"), count)))
        expected, labels = [], []
        for label in range(len(CLASSES)):
            reach = np.flatnonzero(scores[:, label] >= THRESHOLD)
            kept = reach[suppressed(boxes[reach], scores[reach, label])]
            expected += list(boxes[kept])
            labels += [label] * len(kept)
        self.assertGreaterEqual(len(labels), POST_MAX)
        self.assertEqual(list(tensors["labels"]), labels)
        self.near(tensors["boxes"], np.array(expected))


if __name__ == "__main__":
    unittest.main()
