"""voxeld-convert on SECOND and CenterPoint over voxels: checkpoints with random weights under the real names and
shapes. The results are compared with backbones and networks in float64 that keep norms as layers."""

import contextlib
import copy
import io
import json
import pathlib
import re
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

import backbones
import networks
import second
import sparse
from networks import Weights
from voxeld.convert import backbone
from voxeld.convert.main import main
from voxeld.convert.model import Voxels
from voxeld.convert.state import ConvertError, State

TOLERANCE, MAP_TOLERANCE = 2e-5, 5e-6  # of the largest value
CENTER_MAPS = ["heatmap", "center", "height", "dim", "rot"]
TASKS = [1, 2]


# ---- CenterPoint of OpenPCDet ---------------------------------------------------------------------------------------


def center_config(**head):
    config = second.config("VoxelResBackBone8x")
    model = config["MODEL"]
    nms = dict(model.pop("POST_PROCESSING")["NMS_CONFIG"], NMS_THRESH=0.2)
    branches = {name: {"out_channels": 1, "num_conv": 2} for name in ("center", "center_z", "dim", "rot", "iou")}
    after = {"SCORE_THRESH": 0.1, "POST_CENTER_LIMIT_RANGE": [-10, -10, -10, 10, 10, 10], "MAX_OBJ_PER_SAMPLE": 500}
    after.update(NMS_CONFIG=nms, USE_IOU_TO_RECTIFY_SCORE=True, IOU_RECTIFIER=[0.68, 0.71, 0.65])
    model["DENSE_HEAD"] = {
        "NAME": "CenterHead",
        "CLASS_NAMES_EACH_HEAD": [["Pedestrian"], ["Car", "Cyclist"]],
        "SHARED_CONV_CHANNEL": 16,
        "NUM_HM_CONV": 2,
        "SEPARATE_HEAD_CFG": {"HEAD_ORDER": list(branches)[:4], "HEAD_DICT": branches},
        "TARGET_ASSIGNER_CONFIG": {"FEATURE_MAP_STRIDE": 8},
        "POST_PROCESSING": after,
    }
    return config


def center_names():
    names = {"heatmap": "hm", "height": "center_z"}
    place = "dense_head.heads_list.{}.{}".format
    return (
        ("dense_head.shared_conv.0", "dense_head.shared_conv.1"),
        lambda task, output: [f"{place(task, names.get(output, output))}.0.{i}" for i in (0, 1)],
        lambda task, output: f"{place(task, names.get(output, output))}.1",
    )


# ---- mmdetection3d --------------------------------------------------------------------------------------------------

MMDET_FILE = f"""
point_cloud_range = {second.RANGE}
voxel_size = {second.SIZE}
class_names = ['Pedestrian', 'Cyclist', 'Car']
model = dict(
    type='VoxelNet',
    data_preprocessor=dict(type='Det3DDataPreprocessor', voxel=True, voxel_layer=dict(
        max_num_points=5, point_cloud_range=point_cloud_range, voxel_size=voxel_size, max_voxels=(16000, 40000))),
    voxel_encoder=dict(type='HardSimpleVFE'),
    middle_encoder=dict(type='SparseEncoder', in_channels=4, sparse_shape={list(second.GRID)},
                        order=('conv', 'norm', 'act')),
    backbone=dict(type='SECOND', in_channels=256, layer_nums=[1, 1], layer_strides=[1, 2], out_channels=[16, 24]),
    neck=dict(type='SECONDFPN', in_channels=[16, 24], upsample_strides=[1, 2], out_channels=[16, 16]),
    bbox_head=dict(
        type='Anchor3DHead', num_classes=3, in_channels=32, feat_channels=32, use_direction_classifier=True,
        anchor_generator=dict(
            type='Anchor3DRangeGenerator',
            ranges=[[0, -3.2, -0.6, 9.6, 3.2, -0.6], [0, -3.2, -0.6, 9.6, 3.2, -0.6],
                    [0, -3.2, -1.78, 9.6, 3.2, -1.78]],
            sizes=[[0.8, 0.6, 1.73], [1.76, 0.6, 1.73], [3.9, 1.6, 1.56]], rotations=[0, 1.57], reshape_out=False),
        diff_rad_by_sin=True,
        bbox_coder=dict(type='DeltaXYZWLHRBBoxCoder'),
        loss_cls=dict(type='mmdet.FocalLoss', use_sigmoid=True)),
    test_cfg=dict(use_rotate_nms=True, nms_thr=0.01, score_thr=0.1, nms_pre=100, max_num=50))
"""
MMDET_BLOCKS = ("backbone.blocks", "neck.deblocks", 0)
RESIDUAL = """'norm', 'act'), output_channels=128, block_type='basicblock',
                        encoder_channels=((16, 16, 32), (32, 32, 64), (64, 64, 128), (128, 128)),
                        encoder_paddings=((0, 0, 1), (0, 0, 1), (0, 0, [0, 1, 1]), (0, 0)))"""


def mmdet_state(layers):
    weights = Weights(2)
    backbones.make(weights, layers)
    networks.make_backbone(weights, *MMDET_BLOCKS, second.SPEC)
    for name, count in (("cls", 18), ("reg", 42), ("dir_cls", 12)):
        weights.weight(f"bbox_head.conv_{name}", count, 32, 1, 1)
        weights.bias(f"bbox_head.conv_{name}", count)
    return weights.state


# ---- det3d ----------------------------------------------------------------------------------------------------------

DET3D_FILE = f"""
tasks = [dict(num_class=1, class_names=["car"]), dict(num_class=2, class_names=["truck", "bus"])]
model = dict(
    type="VoxelNet",
    reader=dict(type="VoxelFeatureExtractorV3", num_input_features=5),
    backbone=dict(type="SpMiddleResNetFHD", num_input_features=5, ds_factor=8),
    neck=dict(type="RPN", layer_nums=[1, 1], ds_layer_strides=[1, 2], ds_num_filters=[16, 24],
              us_layer_strides=[1, 2], us_num_filters=[16, 16], num_input_features=256),
    bbox_head=dict(type="CenterHead", in_channels=32, tasks=tasks, dataset='waymo', weight=2, iou_weight=1,
                   common_heads={{'reg': (2, 2), 'height': (1, 2), 'dim': (3, 2), 'rot': (2, 2), 'iou': (1, 2)}},
                   share_conv_channel=16),
)
test_cfg = dict(
    post_center_limit_range=[-80, -80, -10.0, 80, 80, 10.0],
    nms=dict(use_rotate_nms=True, use_multi_class_nms=False, nms_pre_max_size=4096, nms_post_max_size=500,
             nms_iou_threshold=0.7),
    score_threshold=0.03, pc_range={second.RANGE[:2]}, out_size_factor=8, voxel_size={second.SIZE[:2]}, cf_weight=2)
voxel_generator = dict(range={second.RANGE}, voxel_size={second.SIZE}, max_points_in_voxel=10,
                       max_voxel_num=[120000, 160000])
"""
DYNAMIC = f'type="DynamicVoxelEncoder", pc_range={second.RANGE}, voxel_size={second.SIZE}'


def det3d_names():
    names = {"heatmap": "hm", "center": "reg"}
    place = "bbox_head.tasks.{}.{}".format
    return (
        ("bbox_head.shared_conv.0", "bbox_head.shared_conv.1"),
        lambda task, output: [f"{place(task, names.get(output, output))}.{part}" for part in (0, 1)],
        lambda task, output: f"{place(task, names.get(output, output))}.3",
    )


def center_state(layers, blocks, names, maps):
    weights = Weights(4)
    backbones.make(weights, layers)
    networks.make_backbone(weights, *blocks, {**second.SPEC, "transposed": TRANSPOSED[blocks]})
    networks.make_center(weights, names, 32, 16, maps, TASKS)
    return weights.state


DET3D_BLOCKS = ("neck.blocks", "neck.deblocks", 1)
TRANSPOSED = {second.BLOCKS: lambda stride: stride >= 1, DET3D_BLOCKS: lambda stride: stride > 1}


# ---- tests ----------------------------------------------------------------------------------------------------------


def count_below(state, place):
    return sum(name.startswith(f"{place}.") for name in state)


class Sparse(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.random = np.random.default_rng(3)

    def run_it(self, *arguments):
        return networks.convert(self.folder, *arguments)

    def convert(self, *arguments):
        (self.folder / "model" / "model.json").unlink(missing_ok=True)
        status, text = self.run_it(*arguments)
        self.assertEqual(status, 0, text)
        return json.loads((self.folder / "model" / "model.json").read_text(encoding="utf-8"))

    def refuse(self, reason, *arguments):
        status, text = self.run_it(*arguments)
        self.assertEqual(status, 1, text)
        self.assertIn(reason, text)
        self.assertFalse((self.folder / "model" / "model.json").exists())

    def near(self, found, expected, tolerance):
        self.assertEqual(found.shape, expected.shape)
        self.assertLessEqual(np.abs(found - expected).max(), tolerance * np.abs(expected).max())

    def check_backbone(self, document, state, layers):
        """The converted layers, in the service's arithmetic, must give nearly the map of the state's layers."""
        self.assertNotIn("encoder", document)
        self.assertEqual(document["voxelize"]["feature"], ["mean"])
        found = document["backbone"]
        self.assertEqual((found["file"], found["shape"]), ("backbone.safetensors", list(second.GRID)))
        tensors = load_file(self.folder / "model" / found["file"])
        self.assertEqual({tensor.dtype for tensor in tensors.values()}, {np.dtype(np.float32)})
        self.assertEqual(len(tensors), 2 * len(found["layers"]))
        columns = layers[0].inputs
        self.assertEqual(document["voxelize"]["num_features"], columns)
        flat = self.random.choice(np.prod((6, 8, 8)), 40, replace=False)
        cells = np.stack(np.unravel_index(flat, (6, 8, 8)), axis=1) + (20, 9, 17)
        features = self.random.normal(0, 1, (40, columns)).astype(np.float32)
        expected = backbones.run(state, layers, second.GRID, cells, features)
        coords = np.concatenate([np.zeros((40, 1), int), cells], axis=1)
        made = backbones.converted(found, tensors)
        dense, counts = sparse.backbone(second.GRID, made, 1, coords, features)
        self.assertEqual(len(counts), 5)
        self.near(dense[0], expected, MAP_TOLERANCE)
        self.assertGreater((expected > 0).sum(), 100)

    def maps(self):
        """A random input, and what ONNX Runtime makes of it, by name."""
        session = onnxruntime.InferenceSession(self.folder / "model" / "network.onnx")
        x = self.random.normal(0, 1, (2, 256, 4, 6)).astype(np.float32)
        names = [output.name for output in session.get_outputs()]
        return x, dict(zip(names, session.run(names, {"bev_features": x})))

    def check_anchor_maps(self, state, blocks, names):
        x, found = self.maps()
        y = networks.run_backbone(state, *blocks, second.SPEC, x.astype(float))
        for output, name in names.items():
            self.near(found[output], networks.conv(state, name, y).transpose(0, 2, 3, 1), TOLERANCE)

    # ---- models ------------------------------------------------------------------------------------------------------

    def test_second_of_openpcdet(self):
        layers, state = backbones.openpcdet(4), second.state()
        self.assertEqual((len(layers), count_below(state, "backbone_3d")), (12, 72))
        document = self.convert("openpcdet", state, second.config())
        self.check_backbone(document, state, layers)
        self.check_anchor_maps(state, second.BLOCKS, {output: name for output, (name, _) in second.HEAD.items()})
        voxelize = document["voxelize"]
        self.assertEqual((voxelize["columns"], voxelize["max_points_per_voxel"]), (second.COLUMNS, 5))
        self.assertEqual((voxelize["voxel_size"], voxelize["max_voxels"]), (second.SIZE, 40000))
        self.assertEqual(
            [layer["name"] for layer in document["backbone"]["layers"]][:3], ["conv_input.0", "conv1.0.0", "conv2.0.0"]
        )

    def test_networks_of_float16(self):
        """The backbone's map is float32, so the network begins with a cast."""
        state = second.state()
        document = self.convert("openpcdet", state, second.config(), "--network", "float16")
        self.assertNotIn("feature_dtype", document["voxelize"])
        x, found = self.maps()
        self.assertEqual({values.dtype for values in found.values()}, {np.dtype(np.float16)})
        y = networks.run_backbone(state, *second.BLOCKS, second.SPEC, x.astype(float))
        self.near(found["box_preds"], networks.conv(state, "dense_head.conv_box", y).transpose(0, 2, 3, 1), 0.02)

    def test_the_parameters_are_those_of_the_preset(self):
        config = second.config()
        config["DATA_CONFIG"]["POINT_CLOUD_RANGE"] = [0, -40, -3, 70.4, 40, 1]
        config["DATA_CONFIG"]["DATA_PROCESSOR"][0]["VOXEL_SIZE"] = [0.05, 0.05, 0.1]
        document = self.convert("openpcdet", second.state(), config)
        self.assertEqual(document["backbone"]["shape"], [41, 1600, 1408])
        preset = json.loads(pathlib.Path("config/presets/kitti_second.json").read_text(encoding="utf-8"))
        for part, key in (("voxelize", "parameters"), ("decode", "decode")):
            self.assertEqual(document[part], preset[key])

    def test_centerpoint_of_openpcdet(self):
        for biased, count in ((True, 142), (False, 126)):  # USE_BIAS
            with self.subTest(biased=biased):
                layers, maps = backbones.openpcdet(4, residual=True, biased=biased), [*CENTER_MAPS, "iou"]
                state = center_state(layers, second.BLOCKS, center_names(), maps)
                self.assertEqual((len(layers), count_below(state, "backbone_3d")), (21, count))
                document = self.convert("openpcdet", state, center_config())
                self.check_backbone(document, state, layers)
        x, found = self.maps()
        y = networks.run_backbone(state, *second.BLOCKS, second.SPEC, x.astype(float))
        for output, expected in networks.run_center(state, center_names(), maps, TASKS, y).items():
            self.near(found[output], expected.transpose(0, 2, 3, 1), TOLERANCE)
        self.assertEqual(document["decode"]["iou_power"], [0.71, 0.68, 0.65])  # in the order of the labels
        self.assertEqual(document["decode"]["feature_map_stride"], 8)

    def test_second_of_mmdet3d(self):
        layers = backbones.mmdet3d(4, "middle_encoder")
        state = mmdet_state(layers)
        document = self.convert("mmdet3d", state, MMDET_FILE)
        self.check_backbone(document, state, layers)
        names = {"cls_preds": "bbox_head.conv_cls", "box_preds": "bbox_head.conv_reg"}
        self.check_anchor_maps(state, MMDET_BLOCKS, names)

    def test_blocks_of_mmdet3d(self):
        layers = backbones.mmdet3d(4, "middle_encoder", residual=True)
        state = mmdet_state(layers)
        self.check_backbone(
            self.convert("mmdet3d", state, MMDET_FILE.replace("'norm', 'act'))", RESIDUAL)), state, layers
        )

    def test_parts_of_mmdet3d_with_a_prefix(self):
        """MVXFasterRCNN and CenterPoint call the parts pts_voxel_encoder and so on."""
        layers = backbones.mmdet3d(4, "middle_encoder")
        state = mmdet_state(layers)
        self.convert("mmdet3d", state, MMDET_FILE)
        expected = (self.folder / "model" / "backbone.safetensors").read_bytes()
        text = re.sub(r"\b(voxel_encoder|middle_encoder|backbone|neck|bbox_head)=", r"pts_\1=", MMDET_FILE)
        text = text.replace("VoxelNet", "MVXFasterRCNN").replace("test_cfg=dict(", "test_cfg=dict(pts=dict(")
        self.convert("mmdet3d", {f"pts_{name}": value for name, value in state.items()}, text.replace("=50)", "=50))"))
        self.assertEqual((self.folder / "model" / "backbone.safetensors").read_bytes(), expected)

    def test_eps_of_mmdet3d(self):
        """mmcv takes 1e-5 for a norm_cfg without eps; without norm_cfg, SparseEncoder has its own eps."""
        state = mmdet_state(backbones.mmdet3d(4, "middle_encoder"))
        for more, eps in (("", 1e-3), ("norm_cfg=dict(type='BN1d'),", 1e-5)):
            with self.subTest(eps=eps):
                self.convert("mmdet3d", state, MMDET_FILE.replace("in_channels=4,", f"in_channels=4, {more}"))
                bias = load_file(self.folder / "model" / "backbone.safetensors")["conv_input.0.bias"]
                norm = [
                    state[f"middle_encoder.conv_input.1.{part}"].astype(float)
                    for part in ("weight", "bias", "running_mean", "running_var")
                ]
                np.testing.assert_array_equal(
                    bias, (norm[1] - norm[2] * norm[0] / np.sqrt(norm[3] + eps)).astype(np.float32)
                )

    def test_centerpoint_of_det3d(self):
        layers, maps = backbones.det3d(5), [*CENTER_MAPS, "iou"]
        state = center_state(layers, DET3D_BLOCKS, det3d_names(), maps)
        document = self.convert("det3d", state, DET3D_FILE)
        self.check_backbone(document, state, layers)
        self.assertEqual((document["decode"]["iou_power"], document["decode"]["rectified_threshold"]), (2, 0.03))
        self.assertEqual(document["voxelize"]["max_voxels"], 160000)

    def test_means_of_all_points_and_one_sequence_of_layers(self):
        """The git branch new_release of CenterPoint has both."""
        layers = backbones.det3d_flat(5)
        state = center_state(layers, DET3D_BLOCKS, det3d_names(), [*CENTER_MAPS, "iou"])
        text = DET3D_FILE.replace("SpMiddleResNetFHD", "SpMiddleFHD").replace(
            'type="VoxelFeatureExtractorV3", num_input_features=5', DYNAMIC
        )
        text = text.replace("voxel_generator", "unused")  # this reader has no voxel_generator
        virtual = text.replace(DYNAMIC, f"{DYNAMIC}, virtual=True")
        self.refuse("model.reader.virtual is True", "det3d", state, virtual)
        document = self.convert("det3d", state, text)
        self.check_backbone(document, state, layers)
        voxelize = document["voxelize"]
        self.assertEqual((voxelize["max_points_per_voxel"], voxelize["max_voxels"]), (0, 1 << 24))

    # ---- layouts -----------------------------------------------------------------------------------------------------

    def test_layouts_give_the_same_files(self):
        for residual, kind in ((False, "VoxelBackBone8x"), (True, "VoxelResBackBone8x")):
            files = set()
            for layout in backbones.LAYOUTS:
                state = second.state(backbones.openpcdet(4, residual), layout)
                self.convert("openpcdet", state, second.config(kind))
                files.add((self.folder / "model" / "backbone.safetensors").read_bytes())
            self.assertEqual(len(files), 1)

    def read(self, layout, columns, changed=(), eps=1e-3, variance=None):
        """The tensors that the converter reads from two layers of 16 channels."""
        weights = Weights(1)
        layers = backbones.named(["conv b.a.0 b.a.1 16", "conv b.c.0 b.c.1 16"], columns)
        backbones.make(weights, layers, layout)
        for name in changed:
            weights.state[name] = np.ascontiguousarray(weights.state[name].transpose(1, 2, 3, 4, 0))
        if variance is not None:
            weights.state["b.c.1.running_var"][3] = variance
        parts = [backbone.Part(backbone.CONV, name, 16) for name in ("a.0", "c.0")]
        voxels = Voxels([0, 0, 0, 8, 8, 8], [1, 1, 1], cap=5, most=9, columns=columns)
        return backbone.read(State(weights.state), "b.", parts, voxels, eps).tensors()

    def test_layouts_that_shapes_do_not_tell(self):
        same = self.read("spconv 2", 16)
        with self.assertRaisesRegex(ConvertError, "as many inputs as outputs, so their shapes do not tell"):
            self.read("spconv 1", 16)
        with self.assertRaisesRegex(ConvertError, "as many inputs as outputs, so their shapes do not tell"):
            self.read("native", 16)
        self.assertEqual(same["a.0.weight"].shape, (27, 16, 16))
        for layout in backbones.LAYOUTS:
            np.testing.assert_array_equal(self.read(layout, 4)["c.0.weight"], self.read("spconv 2", 4)["c.0.weight"])
        with self.assertRaisesRegex(ConvertError, r"b\.c\.0\.weight has .*; the weights before it have another layout"):
            self.read("spconv 2", 4, changed=["b.c.0.weight"])

    def test_norms_without_a_positive_variance(self):
        self.read("spconv 2", 4, eps=1e-3, variance=0)
        with self.assertRaisesRegex(
            ConvertError, r"^b\.c\.1\.running_var has a value of 0, and eps is 0; the sum must be above 0$"
        ):
            self.read("spconv 2", 4, eps=0, variance=0)

    def test_columns(self):
        for columns in (1, 128):
            self.assertEqual(self.read("spconv 2", columns)["a.0.weight"].shape, (27, columns, 16))
        with self.assertRaisesRegex(ConvertError, "^the backbone takes points of 129 columns; it may take 1 to 128$"):
            self.read("spconv 2", 129)

    # ---- refusals ----------------------------------------------------------------------------------------------------

    def test_broken_states_are_refused(self):
        state, place = second.state(), "backbone_3d.conv2.0"
        for reason, name, value in (
            (f"{place}.0.weight has a value that is not finite", f"{place}.0.weight", np.inf),
            (f"{place}.1.bias has a value that is not finite", f"{place}.1.bias", np.nan),
            (f"{place}.1.running_var has a value below 0", f"{place}.1.running_var", -1),
            ("conv2.0.0.weight, folded, has a value beyond float32", f"{place}.1.weight", 3e38),
        ):
            with self.subTest(reason):
                broken = copy.deepcopy(state)
                broken[name].flat[3] = value
                if "beyond" in reason:
                    broken[f"{place}.0.weight"].fill(1e3)
                self.refuse(reason, "openpcdet", broken, second.config())
        for reason, name, shape in (
            (
                f"{place}.0.weight has the shape [32, 3, 3, 1, 16]; the configuration asks for [32, 3, 3, 3, 16] or "
                "[3, 3, 3, 16, 32]",
                f"{place}.0.weight",
                (32, 3, 3, 1, 16),
            ),
            (
                "backbone_3d.conv_input.0.weight has the shape [16, 3, 3, 3, 5]",
                "backbone_3d.conv_input.0.weight",
                (16, 3, 3, 3, 5),
            ),
            ("no layer for backbone_3d.conv5.0.0.weight", "backbone_3d.conv5.0.0.weight", (1,)),
        ):
            with self.subTest(reason):
                self.refuse(reason, "openpcdet", {**state, name: np.zeros(shape, np.float32)}, second.config())
        self.refuse(
            "the checkpoint has no backbone_3d.conv1.0.conv1.weight",
            "openpcdet",
            state,
            second.config("VoxelResBackBone8x"),
        )

    def test_other_configurations_of_openpcdet_are_refused(self):
        state = second.state()
        for reason, place, key, value in (
            ("MODEL.BACKBONE_3D.last_pad is 1; only 0", "BACKBONE_3D", "last_pad", 1),
            ("MODEL.BACKBONE_3D.NAME is UNetV2; only", "BACKBONE_3D", "NAME", "UNetV2"),
            ("MODEL.BACKBONE_3D.NAME is VoxelBackBone8xFocal; only", "BACKBONE_3D", "NAME", "VoxelBackBone8xFocal"),
            (
                "MODEL.BACKBONE_3D.NAME is VoxelResBackBone8xVoxelNeXt",
                "BACKBONE_3D",
                "NAME",
                "VoxelResBackBone8xVoxelNeXt",
            ),
            ("MODEL.BACKBONE_3D.CHANNELS is [16]: only", "BACKBONE_3D", "CHANNELS", [16]),
            ("MODEL.VFE.NAME is DynMeanVFE; only MeanVFE", "VFE", "NAME", "DynMeanVFE"),
            (
                "MODEL.MAP_TO_BEV.NAME is PointPillarScatter; only HeightCompression",
                "MAP_TO_BEV",
                "NAME",
                "PointPillarScatter",
            ),
            ("MODEL.PFE.NAME is VoxelSetAbstraction: only networks with one", "PFE", "NAME", "VoxelSetAbstraction"),
            ("MODEL.ROI_HEAD.NAME is SECONDHead: only networks with one", "ROI_HEAD", "NAME", "SECONDHead"),
        ):
            with self.subTest(reason):
                config = second.config()
                config["MODEL"].setdefault(place, {})[key] = value
                self.refuse(reason, "openpcdet", state, config)
        config = second.config()
        del config["MODEL"]["BACKBONE_3D"]
        self.refuse("MODEL.VFE.NAME is MeanVFE; only PillarVFE", "openpcdet", state, config)
        config = second.config()
        config["DATA_CONFIG"]["DATA_PROCESSOR"][0]["VOXEL_SIZE"] = [0.2, 0.2, 1]
        self.refuse("leaves no cells of a grid of 5 x 32 x 48", "openpcdet", state, config)
        config["DATA_CONFIG"]["DATA_PROCESSOR"][0]["VOXEL_SIZE"] = [0.0002, 0.2, 1]
        self.refuse("a grid of 48000 cells along an axis; the most is 32768", "openpcdet", state, config)
        del config["DATA_CONFIG"]["POINT_FEATURE_ENCODING"]
        self.refuse("has no DATA_CONFIG.POINT_FEATURE_ENCODING", "openpcdet", state, config)

    def test_other_configurations_of_mmdet3d_are_refused(self):
        state, name = mmdet_state(backbones.mmdet3d(4, "middle_encoder")), "model.middle_encoder"
        channels = "encoder_channels=((16,), (32, 32, 32), (64, 64, 64), (64, 64, 64))"
        for reason, old, new in (
            (f"{name}.order is ['norm', 'act', 'conv']; only", "('conv', 'norm', 'act')", "('norm', 'act', 'conv')"),
            (f"{name}.return_middle_feats is True", "in_channels=4,", "in_channels=4, return_middle_feats=True,"),
            (f"{name}.block_type is x; only", "in_channels=4,", "in_channels=4, block_type='x',"),
            (f"{name}.sparse_shape is [40, 32, 48], but", str(list(second.GRID)), "[40, 32, 48]"),
            (f"{name}.norm_cfg.type is GN", "in_channels=4,", "in_channels=4, norm_cfg=dict(type='GN'),"),
            (f"{name}.type is SparseEncoderSASSD; only SparseEncoder can be", "SparseEncoder", "SparseEncoderSASSD"),
            (f"{name}.new: the converter does not know", "in_channels=4,", "in_channels=4, new=1,"),
            (
                f"{name}.encoder_paddings has 2; a layer may have",
                "in_channels=4,",
                "in_channels=4, encoder_paddings=((1,), (2, 1, 1), (1, 1, 1), ((0, 1, 1), 1, 1)),",
            ),
            (
                f"{name}.encoder_paddings does not have a padding for each",
                "in_channels=4,",
                "in_channels=4, encoder_paddings=((1,), (1, 1), (1, 1, 1), ((0, 1, 1), 1, 1)),",
            ),
            (
                "layers of 16, 32, 64, 128, 256 values; a layer may have 16 to 128",
                "in_channels=4,",
                f"in_channels=4, {channels.replace('(64, 64, 64)', '(64, 64, 256)', 1)},",
            ),
            (
                "layers of 16, 32, 40, 64, 128 values; a layer may have",
                "in_channels=4,",
                f"in_channels=4, {channels.replace('32', '40', 1)},",
            ),
            (
                "the backbone has 40 layers on 5 levels; the most are 32",
                "in_channels=4,",
                "in_channels=4, encoder_channels=((16,) * 29, (32, 32, 32), (64, 64, 64), (64, 64, 64)), "
                "encoder_paddings=((1,) * 29, (1, 1, 1), (1, 1, 1), ((0, 1, 1), 1, 1)),",
            ),
            (
                "the backbone has 18 layers on 9 levels; the most are 32 layers on 8 levels",
                "in_channels=4,",
                "in_channels=4, encoder_channels=((16, 16),) * 8, encoder_paddings=((1, 1),) * 8,",
            ),
            (
                "model.middle_encoder.type is SparseEncoder; only PointPillarsScatter",
                "HardSimpleVFE",
                "PillarFeatureNet",
            ),
            ("model.voxel_encoder.type is DynamicSimpleVFE; only", "HardSimpleVFE", "DynamicSimpleVFE"),
            (
                "conv_input.0.weight has the shape [16, 3, 3, 3, 4]",
                "'HardSimpleVFE'",
                "'HardSimpleVFE', num_features=5",
            ),
        ):
            with self.subTest(reason):
                self.refuse(reason, "mmdet3d", state, MMDET_FILE.replace(old, new, 1))

    def test_other_configurations_of_det3d_are_refused(self):
        state = center_state(backbones.det3d(5), DET3D_BLOCKS, det3d_names(), [*CENTER_MAPS, "iou"])
        for reason, old, new in (
            (
                "model.reader.num_input_features is not 5, as in model.backbone",
                "num_input_features=5)",
                "num_input_features=4)",
            ),
            ("model.backbone.type is SpMiddleX; only", "SpMiddleResNetFHD", "SpMiddleX"),
            ("model.backbone.norm_cfg.type is GN; only", "ds_factor=8", "ds_factor=8, norm_cfg=dict(type='GN')"),
            ("model.bbox_head.dcn_head is True", "weight=2", "weight=2, dcn_head=True"),
            ("model.reader.type is PillarFeatureNet; only", "VoxelFeatureExtractorV3", "PillarFeatureNet"),
        ):
            with self.subTest(reason):
                self.refuse(reason, "det3d", state, DET3D_FILE.replace(old, new, 1))

    def test_onnx_files_are_refused(self):
        node = onnx.helper.make_node("Relu", ["x"], ["y"])
        values = [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy"]
        model = onnx.helper.make_model(onnx.helper.make_graph([node], "g", values[:1], values[1:]))
        (self.folder / "x.onnx").write_bytes(model.SerializeToString())
        (self.folder / "config.yaml").write_text(yaml.safe_dump(second.config()), encoding="utf-8")
        with contextlib.redirect_stderr(io.StringIO()) as text:
            status = main(
                [
                    "onnx",
                    str(self.folder / "x.onnx"),
                    "--config",
                    str(self.folder / "config.yaml"),
                    "--output",
                    str(self.folder / "model"),
                ]
            )
        self.assertEqual(status, 1)
        self.assertIn("ONNX has no sparse convolutions", text.getvalue())


if __name__ == "__main__":
    unittest.main()
