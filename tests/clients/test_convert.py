"""voxeld-convert on checkpoints with random weights under the real names, of shallow networks. The results are compared
with networks in float64 that keep norms as layers (networks.py).

The tolerance, 2e-5 of a map's largest magnitude and at least 2e-5, allows for float32 through up to 12 layers.
"""

import contextlib
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

import networks
from checkpoints import save_new, state_of
from encoding import encode
from networks import Weights
from voxeld.convert.main import main

TOLERANCE = 2e-5
BOUNDS, SIZE = [0, -1.92, -3, 3.84, 1.92, 1], [0.16, 0.16, 4]
CELLS = 24
BACKBONE = {"layers": [1, 2, 1], "strides": [2, 2, 2], "channels": [64, 96, 128]}
UP = {"up": [1, 2, 4], "up_channels": [128, 128, 128]}
CLASSES = ["Car", "Pedestrian", "Cyclist"]
ANCHORS = ([3.9, 1.6, 1.56, -1.78], [0.8, 0.6, 1.73, -0.6], [1.76, 0.6, 1.73, -0.6])
MAPS = ["heatmap", "center", "height", "dim", "rot", "vel"]


def near(test, found, expected):
    test.assertEqual(found.shape, expected.shape)
    test.assertLessEqual(np.abs(found - expected).max(), TOLERANCE * max(1, np.abs(expected).max()))


# ---- OpenPCDet ------------------------------------------------------------------------------------------------------

PCDET_BASE = "cfgs/dataset_configs/kitti_dataset.yaml"
PCDET_SPEC = {**BACKBONE, **UP, "input": 64, "transposed": lambda stride: stride >= 1}
PCDET_BLOCKS = ("backbone_2d.blocks", "backbone_2d.deblocks", 1)


def pcdet_config():
    anchors = [
        {
            "class_name": name,
            "anchor_sizes": [size[:3]],
            "anchor_rotations": [0, 1.57],
            "anchor_bottom_heights": [size[3]],
            "align_center": False,
            "feature_map_stride": 2,
        }
        for name, size in zip(CLASSES, ANCHORS)
    ]
    voxels = {"NAME": "transform_points_to_voxels", "VOXEL_SIZE": SIZE, "MAX_POINTS_PER_VOXEL": 32}
    voxels["MAX_NUMBER_OF_VOXELS"] = {"train": 16000, "test": 40000}
    nms = {"MULTI_CLASSES_NMS": False, "NMS_TYPE": "nms_gpu", "NMS_THRESH": 0.01}
    nms.update({"NMS_PRE_MAXSIZE": 4096, "NMS_POST_MAXSIZE": 500})
    return {
        "CLASS_NAMES": CLASSES,
        "DATA_CONFIG": {
            "_BASE_CONFIG_": PCDET_BASE,
            "POINT_CLOUD_RANGE": BOUNDS,
            "DATA_PROCESSOR": [{"NAME": "shuffle_points"}, voxels],
        },
        "MODEL": {
            "NAME": "PointPillar",
            "VFE": {
                "NAME": "PillarVFE",
                "WITH_DISTANCE": False,
                "USE_ABSLOTE_XYZ": True,
                "USE_NORM": True,
                "NUM_FILTERS": [64],
            },
            "MAP_TO_BEV": {"NAME": "PointPillarScatter", "NUM_BEV_FEATURES": 64},
            "BACKBONE_2D": {
                "NAME": "BaseBEVBackbone",
                "LAYER_NUMS": BACKBONE["layers"],
                "LAYER_STRIDES": BACKBONE["strides"],
                "NUM_FILTERS": BACKBONE["channels"],
                "UPSAMPLE_STRIDES": UP["up"],
                "NUM_UPSAMPLE_FILTERS": UP["up_channels"],
            },
            "DENSE_HEAD": {
                "NAME": "AnchorHeadSingle",
                "USE_DIRECTION_CLASSIFIER": True,
                "DIR_OFFSET": 0.78539,
                "DIR_LIMIT_OFFSET": 0.0,
                "NUM_DIR_BINS": 2,
                "ANCHOR_GENERATOR_CONFIG": anchors,
                "TARGET_ASSIGNER_CONFIG": {"NAME": "AxisAlignedTargetAssigner", "BOX_CODER": "ResidualCoder"},
            },
            "POST_PROCESSING": {"SCORE_THRESH": 0.1, "NMS_CONFIG": nms},
        },
    }


def write_base(folder):
    base = folder / PCDET_BASE
    base.parent.mkdir(parents=True)
    base.write_text("FOV_POINTS_ONLY: True\n", encoding="utf-8")


def pcdet_state(seed=1):
    weights = Weights(seed)
    weights.weight("vfe.pfn_layers.0.linear", 64, 10)
    weights.norm("vfe.pfn_layers.0.norm", 64)
    networks.make_backbone(weights, *PCDET_BLOCKS, PCDET_SPEC)
    for name, count in (("cls", 18), ("box", 42), ("dir_cls", 12)):
        weights.weight(f"dense_head.conv_{name}", count, 384, 1, 1)
        weights.bias(f"dense_head.conv_{name}", count)
    weights.state["global_step"] = np.array(7728)
    return weights.state


def two_layers():
    """An encoder of two layers, for points of 5 columns: state and configuration."""
    config, weights = pcdet_config(), Weights(6)
    config["MODEL"]["VFE"]["NUM_FILTERS"] = [64, 64]
    for number, (outputs, inputs) in enumerate(((32, 11), (64, 64))):
        weights.weight(f"vfe.pfn_layers.{number}.linear", outputs, inputs)
        weights.norm(f"vfe.pfn_layers.{number}.norm", outputs)
    others = {name: value for name, value in pcdet_state().items() if not name.startswith("vfe.")}
    return {**others, **weights.state}, config


def dynamic():
    """two_layers for DynPillarVFE, which has no cap and takes points of any height."""
    state, config = two_layers()
    config["MODEL"]["VFE"]["NAME"] = "DynPillarVFE"
    step = {"NAME": "transform_points_to_voxels_placeholder", "VOXEL_SIZE": SIZE}
    config["DATA_CONFIG"]["DATA_PROCESSOR"] = [step]
    return state, config


def pcdet_center_config():
    config = pcdet_config()
    model = config["MODEL"]
    branches = {
        name: {"out_channels": count, "num_conv": 2}
        for name, count in (("center", 2), ("center_z", 1), ("dim", 3), ("rot", 2), ("vel", 2))
    }
    nms = dict(model.pop("POST_PROCESSING")["NMS_CONFIG"], NMS_THRESH=0.2)
    model["NAME"] = "CenterPoint"
    model["DENSE_HEAD"] = {
        "NAME": "CenterHead",
        "CLASS_NAMES_EACH_HEAD": [["Pedestrian"], ["Car", "Cyclist"]],
        "SHARED_CONV_CHANNEL": 64,
        "USE_BIAS_BEFORE_NORM": True,
        "NUM_HM_CONV": 2,
        "SEPARATE_HEAD_CFG": {"HEAD_ORDER": list(branches), "HEAD_DICT": branches},
        "TARGET_ASSIGNER_CONFIG": {"FEATURE_MAP_STRIDE": 2},
        "POST_PROCESSING": {
            "SCORE_THRESH": 0.1,
            "POST_CENTER_LIMIT_RANGE": [-10, -10, -10, 10, 10, 10],
            "MAX_OBJ_PER_SAMPLE": 500,
            "NMS_CONFIG": nms,
        },
    }
    return config


PCDET_CENTER = {"heatmap": "hm", "center": "center", "height": "center_z", "dim": "dim", "rot": "rot", "vel": "vel"}
PCDET_CENTER["iou"] = "iou"


def pcdet_center_names():
    place = "dense_head.heads_list.{}.{}".format
    return (
        ("dense_head.shared_conv.0", "dense_head.shared_conv.1"),
        lambda task, output: [f"{place(task, PCDET_CENTER[output])}.0.{i}" for i in (0, 1)],
        lambda task, output: f"{place(task, PCDET_CENTER[output])}.1",
    )


# ---- mmdetection3d --------------------------------------------------------------------------------------------------

MMDET_SPEC = {**PCDET_SPEC, "transposed": lambda stride: stride >= 1}
MMDET_CENTER_SPEC = {**PCDET_SPEC, "up": [0.5, 1, 2], "transposed": lambda stride: stride > 1}
MMDET_ANCHOR_FILE = f"""
_base_ = ['./base.py']
class_names = ['Pedestrian', 'Cyclist', 'Car']
point_cloud_range = {BOUNDS}
model = dict(
    voxel_encoder=dict(type='PillarFeatureNet', in_channels=4, feat_channels=[64], voxel_size={SIZE},
                       point_cloud_range=point_cloud_range, LEGACY),
    backbone=dict(type='SECOND', layer_nums=[1, 2, 1], layer_strides=[2, 2, 2], out_channels=[64, 96, 128]),
    neck=dict(type='SECONDFPN', upsample_strides=[1, 2, 4], out_channels=[128, 128, 128]),
    bbox_head=dict(
        type='Anchor3DHead',
        num_classes=3,
        assign_per_class=True,
        anchor_generator=dict(
            type='AlignedAnchor3DRangeGenerator',
            ranges=[[0, -1.92, -0.6, 3.84, 1.92, -0.6], [0, -1.92, -0.6, 3.84, 1.92, -0.6],
                    [0, -1.92, -1.78, 3.84, 1.92, -1.78]],
            sizes=[[0.8, 0.6, 1.73], [1.76, 0.6, 1.73], [3.9, 1.6, 1.56]],
            rotations=[0, 1.57],
            reshape_out=False),
        bbox_coder=dict(type='DeltaXYZWLHRBBoxCoder'),
        loss_cls=dict(type='mmdet.FocalLoss', use_sigmoid=True)),
    test_cfg=dict(nms_thr=0.01, score_thr=0.1, nms_pre=100, max_num=50))
"""
MMDET_BASE_FILE = f"""
voxel_size = {SIZE}
model = dict(
    type='VoxelNet',
    data_preprocessor=dict(
        type='Det3DDataPreprocessor',
        voxel_layer=dict(max_num_points=32, point_cloud_range={BOUNDS}, voxel_size=voxel_size,
                         max_voxels=(16000, 40000))))
"""
MMDET_CENTER_FILE = f"""
point_cloud_range = {BOUNDS}
voxel_size = {SIZE}
model = dict(
    type='CenterPoint',
    data_preprocessor=dict(voxel_layer=dict(max_num_points=20, voxel_size=voxel_size, max_voxels=(30000, 40000))),
    pts_voxel_encoder=dict(type='PillarFeatureNet', in_channels=5, feat_channels=[64], with_distance=False,
                           voxel_size=voxel_size, point_cloud_range=point_cloud_range,
                           norm_cfg=dict(type='BN1d', eps=1e-3, momentum=0.01), legacy=False),
    pts_backbone=dict(type='SECOND', layer_nums=[1, 2, 1], layer_strides=[2, 2, 2], out_channels=[64, 96, 128],
                      norm_cfg=dict(type='BN', eps=1e-3, momentum=0.01)),
    pts_neck=dict(type='SECONDFPN', out_channels=[128, 128, 128], upsample_strides=[0.5, 1, 2],
                  norm_cfg=dict(type='BN', eps=1e-3, momentum=0.01), use_conv_for_no_stride=True),
    pts_bbox_head=dict(
        type='CenterHead',
        in_channels=sum([128, 128, 128]),
        tasks=[dict(num_class=1, class_names=['car']), dict(num_class=2, class_names=['truck', 'bus'])],
        common_heads=dict(reg=(2, 2), height=(1, 2), dim=(3, 2), rot=(2, 2), vel=(2, 2)),
        share_conv_channel=64,
        bbox_coder=dict(type='CenterPointBBoxCoder', post_center_range=[-61.2, -61.2, -10.0, 61.2, 61.2, 10.0],
                        max_num=500, score_threshold=0.1, out_size_factor=4, voxel_size=voxel_size[:2]),
        separate_head=dict(type='SeparateHead', init_bias=-2.19, final_kernel=3),
        norm_bbox=True),
    test_cfg=dict(pts=dict(min_radius=[4, 0.25], nms_type='NMS', pre_max_size=1000, post_max_size=83, nms_thr=0.2)))
"""
MMDET_MVX_FILE = f"""
point_cloud_range = {BOUNDS}
voxel_size = {SIZE}
class_names = ['car', 'truck']
norm = dict(type='naiveSyncBN2d', eps=1e-3, momentum=0.01)
model = dict(
    type='MVXFasterRCNN',
    data_preprocessor=dict(type='Det3DDataPreprocessor', voxel=True, voxel_layer=dict(
        max_num_points=64, point_cloud_range=point_cloud_range, voxel_size=voxel_size, max_voxels=(30000, 40000))),
    pts_voxel_encoder=dict(
        type='HardVFE', in_channels=4, feat_channels=[64, 64], with_distance=False, voxel_size=voxel_size,
        with_cluster_center=True, with_voxel_center=True, point_cloud_range=point_cloud_range,
        norm_cfg=dict(type='naiveSyncBN1d', eps=1e-3, momentum=0.01)),
    pts_middle_encoder=dict(type='PointPillarsScatter', in_channels=64, output_shape=[{CELLS}, {CELLS}]),
    pts_backbone=dict(type='SECOND', in_channels=64, norm_cfg=norm, layer_nums=[1, 2, 1], layer_strides=[2, 2, 2],
                      out_channels=[64, 96, 128]),
    pts_neck=dict(type='SECONDFPN', norm_cfg=norm, in_channels=[64, 96, 128], upsample_strides=[1, 2, 4],
                  out_channels=[128, 128, 128]),
    pts_bbox_head=dict(
        type='Anchor3DHead',
        num_classes=2,
        in_channels=384,
        feat_channels=384,
        use_direction_classifier=True,
        anchor_generator=dict(
            type='AlignedAnchor3DRangeGenerator',
            ranges=[[0.1, -1.8, -1.8, 3.7, 1.8, -1.8], [0.1, -1.8, -1.7, 3.7, 1.8, -1.7]],
            sizes=[[4.6, 1.95, 1.7], [6.7, 2.45, 2.7]],
            custom_values=[0, 0],
            rotations=[0, 1.57],
            reshape_out=True),
        assigner_per_size=False,
        diff_rad_by_sin=True,
        dir_offset=-0.7854,
        bbox_coder=dict(type='DeltaXYZWLHRBBoxCoder', code_size=9),
        loss_cls=dict(type='mmdet.FocalLoss', use_sigmoid=True)),
    test_cfg=dict(pts=dict(use_rotate_nms=True, nms_across_levels=False, nms_pre=1000, nms_thr=0.2, score_thr=0.05,
                           min_bbox_size=0, max_num=500)))
"""
MMDET_CENTER = {"heatmap": "heatmap", "center": "reg", **{name: name for name in ("height", "dim", "rot", "vel")}}


def mmdet_state(inputs=10, seed=2):
    weights = Weights(seed)
    weights.weight("voxel_encoder.pfn_layers.0.linear", 64, inputs)
    weights.norm("voxel_encoder.pfn_layers.0.norm", 64)
    networks.make_backbone(weights, "backbone.blocks", "neck.deblocks", 0, MMDET_SPEC)
    for name, count in (("cls", 18), ("reg", 42), ("dir_cls", 12)):
        weights.weight(f"bbox_head.conv_{name}", count, 384, 1, 1)
        weights.bias(f"bbox_head.conv_{name}", count)
    return weights.state


def mmdet_moving_state():
    weights = Weights(7)
    for number, inputs in enumerate((10, 128)):
        weights.weight(f"pts_voxel_encoder.vfe_layers.{number}.linear", 64, inputs)
        weights.norm(f"pts_voxel_encoder.vfe_layers.{number}.norm", 64)
    networks.make_backbone(weights, "pts_backbone.blocks", "pts_neck.deblocks", 0, MMDET_SPEC)
    for name, count in (("cls", 8), ("reg", 36), ("dir_cls", 8)):
        weights.weight(f"pts_bbox_head.conv_{name}", count, 384, 1, 1)
        weights.bias(f"pts_bbox_head.conv_{name}", count)
    return weights.state


def mmdet_center_names():
    place = "pts_bbox_head.task_heads.{}.{}".format
    return (
        ("pts_bbox_head.shared_conv.conv", "pts_bbox_head.shared_conv.bn"),
        lambda task, output: [f"{place(task, MMDET_CENTER[output])}.0.{part}" for part in ("conv", "bn")],
        lambda task, output: f"{place(task, MMDET_CENTER[output])}.1",
    )


# ---- det3d ----------------------------------------------------------------------------------------------------------

DET3D_SPEC = {**PCDET_SPEC, "up": [0.5, 1, 2], "transposed": lambda stride: stride > 1}
DET3D_FILE = f"""
import itertools
import logging
from det3d.utils.config_tool import get_downsample_factor

tasks = [dict(num_class=1, class_names=["car"]), dict(num_class=2, class_names=["truck", "bus"])]
class_names = list(itertools.chain(*[t["class_names"] for t in tasks]))
model = dict(
    type="PointPillars",
    pretrained=None,
    reader=dict(type="PillarFeatureNet", num_filters=[64], num_input_features=5, with_distance=False,
                voxel_size={tuple(SIZE)}, pc_range={tuple(BOUNDS)}),
    backbone=dict(type="PointPillarsScatter", ds_factor=1),
    neck=dict(type="RPN", layer_nums=[1, 2, 1], ds_layer_strides=[2, 2, 2], ds_num_filters=[64, 96, 128],
              us_layer_strides=[0.5, 1, 2], us_num_filters=[128, 128, 128], num_input_features=64,
              logger=logging.getLogger("RPN")),
    bbox_head=dict(type="CenterHead", in_channels=sum([128, 128, 128]), tasks=tasks, dataset='nuscenes', weight=0.25,
                   common_heads={{'reg': (2, 2), 'height': (1, 2), 'dim': (3, 2), 'rot': (2, 2), 'vel': (2, 2)}}),
)
assigner = dict(out_size_factor=get_downsample_factor(model))
test_cfg = dict(
    post_center_limit_range=[-61.2, -61.2, -10.0, 61.2, 61.2, 10.0],
    max_per_img=500,
    CIRCLE
    nms=dict(nms_pre_max_size=1000, nms_post_max_size=83, nms_iou_threshold=0.2),
    score_threshold=0.1,
    pc_range={BOUNDS[:2]},
    out_size_factor=get_downsample_factor(model),
    voxel_size={SIZE[:2]})
voxel_generator = dict(range={BOUNDS}, voxel_size={SIZE}, max_points_in_voxel=20, max_voxel_num=[30000, 60000])
work_dir = './work_dirs/{{}}/'.format(__file__[__file__.rfind('/') + 1:-3])
"""
DET3D_CENTER = {"heatmap": "hm", "center": "reg", **{name: name for name in ("height", "dim", "rot", "vel", "iou")}}


def det3d_names():
    place = "bbox_head.tasks.{}.{}".format
    return (
        ("bbox_head.shared_conv.0", "bbox_head.shared_conv.1"),
        lambda task, output: [f"{place(task, DET3D_CENTER[output])}.{part}" for part in (0, 1)],
        lambda task, output: f"{place(task, DET3D_CENTER[output])}.3",
    )


# ---- tests ----------------------------------------------------------------------------------------------------------


class Convert(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        write_base(self.folder)
        self.random = np.random.default_rng(3)

    def run_it(self, *arguments):
        return networks.convert(self.folder, *arguments)

    def convert(self, *arguments):
        status, text = self.run_it(*arguments)
        self.assertEqual(status, 0, text)
        return json.loads((self.folder / "model" / "model.json").read_text(encoding="utf-8"))

    def refuse(self, reason, *arguments):
        status, text = self.run_it(*arguments)
        self.assertEqual(status, 1, text)
        self.assertIn(reason, text)
        self.assertFalse((self.folder / "model" / "model.json").exists())

    def encoded(self, features, num_points):
        """What the folder's encoder makes of the features, in voxeld's own arithmetic."""
        tensors = load_file(self.folder / "model" / "encoder.safetensors")
        self.assertEqual({tensor.dtype for tensor in tensors.values()}, {np.dtype(np.float32)})
        ends = ["", *(f"_{number}" for number in range(1, len(tensors) // 2))]
        layers = [(tensors[f"weight{end}"], tensors[f"bias{end}"]) for end in ends]
        return encode(features, num_points, *layers)

    def pillars(self, columns):
        """Random features [V, P, C + 6] with padding, and their numbers of points."""
        num_points = self.random.integers(1, 9, 50)
        features = self.random.normal(0, 1, (50, 8, columns + 6)).astype(np.float32)
        features[np.arange(8) >= num_points[:, None]] = 0
        return features, num_points

    def maps(self, batch=2, dtype=np.float32):
        """A random input, and what ONNX Runtime makes of it, by name."""
        session = onnxruntime.InferenceSession(self.folder / "model" / "network.onnx")
        x = self.random.normal(0, 1, (batch, 64, CELLS, CELLS)).astype(dtype)
        names = [output.name for output in session.get_outputs()]
        return x, dict(zip(names, session.run(names, {"bev_features": x})))

    def check_anchor_maps(self, state, head, layers, spec, document):
        x, found = self.maps()
        self.assertEqual(document["network"]["outputs"], {name: name for name in found})
        y = networks.run_backbone(state, *layers, spec, x.astype(float))
        for output, name in head.items():
            with self.subTest(output):
                near(self, found[output], networks.conv(state, name, y).transpose(0, 2, 3, 1))

    def test_openpcdet_anchors(self):
        state = pcdet_state()
        document = self.convert("openpcdet", state, pcdet_config())
        features, num_points = self.pillars(4)
        near(self, self.encoded(features, num_points), networks.encoder(state, "vfe", features))
        head = {name: f"dense_head.conv_{name.removesuffix('_preds')}" for name in document["network"]["outputs"]}
        self.assertEqual(list(head), ["cls_preds", "box_preds", "dir_cls_preds"])
        self.check_anchor_maps(state, head, PCDET_BLOCKS, PCDET_SPEC, document)

    def test_the_document_is_that_of_the_preset(self):
        config, columns = pcdet_config(), ["x", "y", "z", "intensity"]
        encoding = {"used_feature_list": columns, "src_feature_list": columns}
        config["DATA_CONFIG"].update(DATASET="KittiDataset", POINT_FEATURE_ENCODING=encoding)
        status, text = self.run_it("openpcdet", pcdet_state(), config)
        self.assertEqual(status, 0, text)
        self.assertIn("points of 4 columns (x, y, z, intensity)", text)
        document = json.loads((self.folder / "model" / "model.json").read_text(encoding="utf-8"))
        preset = json.loads(pathlib.Path("config/presets/kitti_pointpillar.json").read_text(encoding="utf-8"))
        for part, key in (("voxelize", "parameters"), ("decode", "decode")):
            preset[key]["point_cloud_range"] = BOUNDS
            self.assertEqual(document[part], preset[key])
        self.assertEqual(document["encoder"], {"file": "encoder.safetensors", "features": "pillar10", "width": 64})
        self.assertEqual(document["class_names"], CLASSES)

    def test_weights_as_float16(self):
        state = pcdet_state()
        document = self.convert("openpcdet", state, pcdet_config(), "--weights", "float16", "--description", "half")
        self.assertEqual(document["description"], "half")
        self.assertLess((self.folder / "model" / "network.onnx").stat().st_size, 10.5e6)
        x, found = self.maps(1)
        y = networks.run_backbone(state, *PCDET_BLOCKS, PCDET_SPEC, x.astype(float))
        expected = networks.conv(state, "dense_head.conv_box", y).transpose(0, 2, 3, 1)
        self.assertLess(np.abs(found["box_preds"] - expected).max(), 0.02 * np.abs(expected).max())

    def test_networks_of_float16(self):
        state = pcdet_state()
        document = self.convert("openpcdet", state, pcdet_config(), "--network", "float16")
        self.assertEqual(document["voxelize"]["feature_dtype"], "float16")
        self.assertLess((self.folder / "model" / "network.onnx").stat().st_size, 10.5e6)
        x, found = self.maps(1, np.float16)
        self.assertEqual({values.dtype for values in found.values()}, {np.dtype(np.float16)})
        y = networks.run_backbone(state, *PCDET_BLOCKS, PCDET_SPEC, x.astype(float))
        expected = networks.conv(state, "dense_head.conv_box", y).transpose(0, 2, 3, 1)
        self.assertLess(np.abs(found["box_preds"] - expected).max(), 0.02 * np.abs(expected).max())

    def test_points_without_coordinates(self):
        config, state = pcdet_config(), pcdet_state()
        config["MODEL"]["VFE"]["USE_ABSLOTE_XYZ"] = False
        name = "vfe.pfn_layers.0.linear.weight"
        state[name] = np.ascontiguousarray(state[name][:, 3:])
        document = self.convert("openpcdet", state, config)
        self.assertEqual(document["voxelize"]["num_features"], 4)
        features, num_points = self.pillars(4)
        expected = networks.encoder(state, "vfe", features[:, :, 3:])
        near(self, self.encoded(features, num_points), expected)

    def test_openpcdet_centers(self):
        weights, names, tasks = Weights(4), pcdet_center_names(), [1, 2]
        weights.weight("vfe.pfn_layers.0.linear", 64, 11)
        weights.norm("vfe.pfn_layers.0.norm", 64)
        networks.make_backbone(weights, *PCDET_BLOCKS, PCDET_SPEC)
        networks.make_center(weights, names, 384, 64, MAPS, tasks)
        for task in range(2):
            for output in MAPS:
                weights.bias(names[1](task, output)[0], 64)
        weights.bias(names[0][0], 64)
        document = self.convert("openpcdet", weights.state, pcdet_center_config())
        self.assertEqual(document["class_names"], ["Pedestrian", "Car", "Cyclist"])
        self.assertEqual(document["decode"]["task_classes"], tasks)
        self.assertEqual(document["decode"]["rot_order"], "cos_sin")
        x, found = self.maps()
        y = networks.run_backbone(weights.state, *PCDET_BLOCKS, PCDET_SPEC, x.astype(float))
        for output, expected in networks.run_center(weights.state, names, MAPS, tasks, y).items():
            near(self, found[output], expected.transpose(0, 2, 3, 1))

    def test_encoders_of_two_layers(self):
        state, config = dynamic()
        document = self.convert("openpcdet", state, config)
        self.assertEqual(
            document["encoder"], {"file": "encoder.safetensors", "features": "pillar11", "width": 64, "layers": 2}
        )
        self.assertEqual(document["voxelize"]["max_points_per_voxel"], 0)
        self.assertEqual(document["voxelize"]["max_voxels"], CELLS * CELLS)
        self.assertEqual(document["voxelize"]["point_cloud_range"], [*BOUNDS[:2], -1001, *BOUNDS[3:5], 999])
        self.assertEqual(document["decode"]["point_cloud_range"], BOUNDS)
        features, num_points = self.pillars(5)
        expected = networks.encoder(state, "vfe", features, layers=2)
        near(self, self.encoded(features, num_points), expected)

    def test_mmdet3d_anchors_with_a_velocity(self):
        state = mmdet_moving_state()
        for change, reason in (
            (("type='SECONDFPN'", "type='FPN'"), "model.pts_neck.type is FPN; only SECONDFPN can be converted"),
            (("'Anchor3DHead'", "'FreeAnchor3DHead'"), "pts_bbox_head.type is FreeAnchor3DHead; only Anchor3DHead or"),
            (("code_size=9", "code_size=7"), "pts_bbox_head.bbox_coder.code_size is 7, but anchors have 9 values"),
            (
                ("[0.1, -1.8, -1.7,", "[0, -1.8, -1.7,"),
                "ranges has [0, -1.8, -1.7, 3.7, 1.8, -1.7], with anchors at other",
            ),
            (
                ("custom_values=[0, 0]", "custom_values=[0, 0, 0]"),
                "custom_values is [0, 0, 0]; only [] or [0, 0] can be",
            ),
            (("rotations=", "scales=[1, 2, 4], rotations="), "anchor_generator.scales is [1, 2, 4]; only [1] can be"),
        ):
            with self.subTest(reason):
                self.refuse(reason, "mmdet3d", state, MMDET_MVX_FILE.replace(*change))
        document = self.convert("mmdet3d", state, MMDET_MVX_FILE)
        encoder = {"file": "encoder.safetensors", "features": "pillar10", "width": 64, "layers": 2}
        self.assertEqual(document["encoder"], encoder)
        features, num_points = self.pillars(4)
        expected = networks.encoder(state, "pts_voxel_encoder", features, 2, kind="vfe_layers")
        near(self, self.encoded(features, num_points), expected)
        names = ("cls_preds", "cls"), ("box_preds", "reg"), ("dir_cls_preds", "dir_cls")
        head = {output: f"pts_bbox_head.conv_{name}" for output, name in names}
        self.check_anchor_maps(state, head, ("pts_backbone.blocks", "pts_neck.deblocks", 0), MMDET_SPEC, document)
        decode = document["decode"]
        self.assertEqual(decode["point_cloud_range"], [0.1, -1.8, BOUNDS[2], 3.7, 1.8, BOUNDS[5]])
        self.assertEqual((decode["velocity"], decode["anchor_bottoms"]), ("yes", [-1.8, -1.7]))
        self.assertEqual((decode["dir_offset"], decode["nms_pre_max"], decode["nms_post_max"]), (-0.7854, 1000, 500))

    def test_mmdet3d_anchors(self):
        (self.folder / "base.py").write_text(MMDET_BASE_FILE, encoding="utf-8")
        for inputs, legacy in ((10, False), (10, True), (9, False), (9, True)):
            with self.subTest(f"{inputs} inputs, legacy {legacy}"):
                (self.folder / "model" / "model.json").unlink(missing_ok=True)
                state = mmdet_state(inputs)
                text = MMDET_ANCHOR_FILE.replace("LEGACY", f"legacy={legacy}")
                document = self.convert("mmdet3d", state, text)
                features, num_points = self.pillars(4)
                center = inputs - 7
                seen = features[:, :, : 7 + center].copy()
                if legacy:  # the coordinates are overwritten by the offsets from the centre
                    seen[:, :, :center] = seen[:, :, 7 : 7 + center]
                expected = networks.encoder(state, "voxel_encoder", seen)
                near(self, self.encoded(features, num_points), expected)
        names = ("cls_preds", "cls"), ("box_preds", "reg"), ("dir_cls_preds", "dir_cls")
        head = {output: f"bbox_head.conv_{name}" for output, name in names}
        self.check_anchor_maps(state, head, ("backbone.blocks", "neck.deblocks", 0), MMDET_SPEC, document)
        decode = document["decode"]
        self.assertEqual(decode["anchor_bottoms"], [-0.6, -0.6, -1.78])
        self.assertEqual((decode["align_center"], decode["labels"], decode["class_agnostic"]), ("yes", "all", "no"))
        self.assertEqual(document["voxelize"]["max_voxels"], 40000)

    def test_mmdet3d_centers(self):
        weights, names, tasks = Weights(5), mmdet_center_names(), [1, 2]
        weights.weight("pts_voxel_encoder.pfn_layers.0.linear", 64, 11)
        weights.norm("pts_voxel_encoder.pfn_layers.0.norm", 64)
        layers = ("pts_backbone.blocks", "pts_neck.deblocks", 0)
        networks.make_backbone(weights, *layers, MMDET_CENTER_SPEC)
        networks.make_center(weights, names, 384, 64, MAPS, tasks)
        negative = MMDET_CENTER_FILE.replace("NMS", "circle").replace("0.25", "-1")
        self.refuse(
            "test_cfg.pts.min_radius is [4, -1]; expected no number below 0", "mmdet3d", weights.state, negative
        )
        document = self.convert("mmdet3d", weights.state, MMDET_CENTER_FILE.replace("NMS", "circle"))
        self.assertEqual(document["decode"]["min_radius"], [2, 0.5])
        self.assertEqual(document["decode"]["rot_order"], "sin_cos")
        self.assertEqual(document["class_names"], ["car", "truck", "bus"])
        features, num_points = self.pillars(5)
        near(
            self,
            self.encoded(features, num_points),
            networks.encoder(weights.state, "pts_voxel_encoder", features),
        )
        x, found = self.maps()
        y = networks.run_backbone(weights.state, *layers, MMDET_CENTER_SPEC, x.astype(float))
        for output, expected in networks.run_center(weights.state, names, MAPS, tasks, y).items():
            near(self, found[output], expected.transpose(0, 2, 3, 1))

    def test_det3d_centers(self):
        weights, names, tasks = Weights(7), det3d_names(), [1, 2]
        weights.weight("reader.pfn_layers.0.linear", 64, 10)  # no offset from the centre along z
        weights.norm("reader.pfn_layers.0.norm", 64)
        layers = ("neck.blocks", "neck.deblocks", 1)
        networks.make_backbone(weights, *layers, DET3D_SPEC)
        networks.make_center(weights, names, 384, 64, MAPS, tasks)
        document = self.convert("det3d", weights.state, DET3D_FILE.replace("CIRCLE", ""))
        decode = document["decode"]
        self.assertEqual((decode["nms"], decode["nms_pre_max"], decode["feature_map_stride"]), ("rotated", 1000, 4))
        self.assertEqual((decode["rot_order"], document["class_names"]), ("sin_cos", ["car", "truck", "bus"]))
        self.assertEqual(document["voxelize"]["max_voxels"], 60000)
        features, num_points = self.pillars(5)
        near(self, self.encoded(features, num_points), networks.encoder(weights.state, "reader", features[:, :, :10]))
        x, found = self.maps()
        y = networks.run_backbone(weights.state, *layers, DET3D_SPEC, x.astype(float))
        expected = networks.run_center(weights.state, names, MAPS, tasks, y)
        for task in range(len(tasks)):
            dim = expected["dim"][:, 3 * task : 3 * task + 3]
            near(self, found["dim"][..., 3 * task : 3 * task + 3], dim[:, [1, 0, 2]].transpose(0, 2, 3, 1))
            rot = slice(2 * task, 2 * task + 2)
            theirs = np.arctan2(expected["rot"][:, rot][:, 0], expected["rot"][:, rot][:, 1])
            ours = np.arctan2(found["rot"][..., rot][..., 0], found["rot"][..., rot][..., 1])
            turns = (ours - (-theirs - np.pi / 2)) / (2 * np.pi)
            self.assertLess(np.abs(turns - np.round(turns)).max(), 1e-3)
        for output in ("heatmap", "center", "height", "vel"):
            near(self, found[output], expected[output].transpose(0, 2, 3, 1))

    def test_det3d_circles_and_refusals(self):
        weights, names = Weights(7), det3d_names()
        weights.weight("reader.pfn_layers.0.linear", 64, 10)
        weights.norm("reader.pfn_layers.0.norm", 64)
        networks.make_backbone(weights, "neck.blocks", "neck.deblocks", 1, DET3D_SPEC)
        networks.make_center(weights, names, 384, 64, MAPS, [1, 2])
        for reason, text in {
            "test_cfg.double_flip is True": DET3D_FILE.replace("CIRCLE", "double_flip=True,"),
            "test_cfg.per_class_nms is True": DET3D_FILE.replace("CIRCLE", "per_class_nms=True,"),
            "test_cfg.rectifier is [0.68, 0.71]: boxes rank by": DET3D_FILE.replace(
                "CIRCLE", "rectifier=[0.68, 0.71],"
            ),
            "test_cfg.min_radius is [4, -1]; expected": DET3D_FILE.replace(
                "CIRCLE", "circular_nms=True, min_radius=[4, -1],"
            ),
            "model.reader.virtual": DET3D_FILE.replace("CIRCLE", "").replace(
                "with_distance", "virtual=True, with_distance"
            ),
            "model.reader.voxel_size is [0.2, 0.2, 4], but voxelization has": DET3D_FILE.replace("CIRCLE", "").replace(
                str(tuple(SIZE)), "(0.2, 0.2, 4)"
            ),
            "model.type is TwoStage": DET3D_FILE.replace("CIRCLE", "").replace("PointPillars", "TwoStageDetector", 1),
        }.items():
            with self.subTest(reason):
                self.refuse(reason, "det3d", weights.state, text)
        self.refuse("the checkpoint has the names of det3d: give det3d", "mmdet3d", weights.state, MMDET_CENTER_FILE)
        text = DET3D_FILE.replace("CIRCLE", "circular_nms=True, min_radius=[4, 0.25],")
        decode = self.convert("det3d", weights.state, text)["decode"]
        self.assertEqual((decode["nms"], decode["min_radius"]), ("circle", [2, 0.5]))

    def test_norms_without_eps(self):
        """mmcv takes 1e-5 for a norm_cfg without eps; without norm_cfg, a part has its own eps."""
        (self.folder / "base.py").write_text(MMDET_BASE_FILE, encoding="utf-8")
        state = mmdet_state()
        for name in state:
            if name.endswith("running_var"):
                state[name] = (state[name] * 1e-3).astype(np.float32)
        plain = MMDET_ANCHOR_FILE.replace("LEGACY", "legacy=False")
        for part, key in (("neck", "up_eps"), ("backbone", "eps"), ("voxel_encoder", "encoder")):
            for norm, eps in (("dict(type='BN')", 1e-5), ("dict(type='SyncBN', eps=1e-2)", 1e-2)):
                with self.subTest(f"{part} {norm}"):
                    (self.folder / "model" / "model.json").unlink(missing_ok=True)
                    text = plain.replace(f"{part}=dict(", f"{part}=dict(norm_cfg={norm}, ")
                    self.convert("mmdet3d", state, text)
                    used = {"encoder": networks.EPS, "eps": networks.EPS, "up_eps": networks.EPS, key: eps}
                    features, num_points = self.pillars(4)
                    expected = networks.encoder(state, "voxel_encoder", features, eps=used["encoder"])
                    near(self, self.encoded(features, num_points), expected)
                    x, found = self.maps(1)
                    layers = ("backbone.blocks", "neck.deblocks", 0, MMDET_SPEC, x.astype(float))
                    y = networks.run_backbone(state, *layers, used["eps"], used["up_eps"])
                    near(self, found["box_preds"], networks.conv(state, "bbox_head.conv_reg", y).transpose(0, 2, 3, 1))

    def test_norms_of_center_heads(self):
        weights, names, tasks = Weights(4), pcdet_center_names(), [1, 2]
        weights.weight("vfe.pfn_layers.0.linear", 64, 11)
        weights.norm("vfe.pfn_layers.0.norm", 64)
        networks.make_backbone(weights, *PCDET_BLOCKS, PCDET_SPEC)
        networks.make_center(weights, names, 384, 64, MAPS, tasks)
        for name in weights.state:
            if name.startswith("dense_head") and name.endswith("running_var"):
                weights.state[name] = (weights.state[name] * 1e-2).astype(np.float32)
        config = pcdet_center_config()
        config["MODEL"]["DENSE_HEAD"]["BN_EPS"] = 1e-3
        self.convert("openpcdet", weights.state, config)
        x, found = self.maps(1)
        y = networks.run_backbone(weights.state, *PCDET_BLOCKS, PCDET_SPEC, x.astype(float))
        expected = networks.run_center(weights.state, names, MAPS, tasks, y, 1e-3, 1e-3)
        near(self, found["dim"], expected["dim"].transpose(0, 2, 3, 1))

        names = mmdet_center_names()
        weights = Weights(5)
        weights.weight("pts_voxel_encoder.pfn_layers.0.linear", 64, 11)
        weights.norm("pts_voxel_encoder.pfn_layers.0.norm", 64)
        layers = ("pts_backbone.blocks", "pts_neck.deblocks", 0)
        networks.make_backbone(weights, *layers, MMDET_CENTER_SPEC)
        networks.make_center(weights, names, 384, 64, MAPS, tasks)
        for name in weights.state:
            if name.startswith("pts_bbox_head") and name.endswith("running_var"):
                weights.state[name] = (weights.state[name] * 1e-2).astype(np.float32)
        for place, eps in (("type='CenterHead',", (1e-3, 1e-5)), ("type='SeparateHead',", (1e-5, 1e-3))):
            with self.subTest(place):
                (self.folder / "model" / "model.json").unlink(missing_ok=True)
                text = MMDET_CENTER_FILE.replace("NMS", "rotate").replace(
                    place, place + " norm_cfg=dict(type='BN2d', eps=1e-3),"
                )
                self.convert("mmdet3d", weights.state, text)
                x, found = self.maps(1)
                y = networks.run_backbone(weights.state, *layers, MMDET_CENTER_SPEC, x.astype(float))
                expected = networks.run_center(weights.state, names, MAPS, tasks, y, *eps)
                near(self, found["dim"], expected["dim"].transpose(0, 2, 3, 1))

    def test_keys_that_change_boxes_are_refused_by_name(self):
        (self.folder / "base.py").write_text(MMDET_BASE_FILE, encoding="utf-8")
        anchors, centers = MMDET_ANCHOR_FILE.replace("LEGACY", "legacy=False"), MMDET_CENTER_FILE.replace(
            "NMS", "rotate"
        )
        for reason, text in {
            "model.voxel_encoder.mode is avg": anchors.replace("legacy=False", "mode='avg'"),
            "model.voxel_encoder.with_distance is True": anchors.replace("legacy=False", "with_distance=True"),
            "model.voxel_encoder.norm_cfg.type is GN": anchors.replace("legacy=False", "norm_cfg=dict(type='GN')"),
            "model.test_cfg.use_rotate_nms is False": anchors.replace("nms_thr", "use_rotate_nms=False, nms_thr"),
            "model.test_cfg.soft: the converter does not know": anchors.replace("nms_thr", "soft=1, nms_thr"),
            "model.voxel_encoder.voxel_size is [0.2, 0.2, 4], but": anchors.replace(f"={SIZE},", "=(0.2, 0.2, 4),"),
            "model.voxel_encoder.voxel_size is absent, so it is [0.2, 0.2, 4] by default": anchors.replace(
                f"voxel_size={SIZE},", ""
            ),
            "model.test_cfg.nms_pre is -1; expected a whole number above 0": anchors.replace(
                "nms_pre=100", "nms_pre=-1"
            ),
            "model.bbox_head.anchor_generator.scales is [1, 2]": anchors.replace(
                "reshape_out", "scales=[1, 2], reshape_out"
            ),
            "model.bbox_head.anchor_generator.sizes has widths before lengths": anchors.replace(
                "sizes=[[0.8, 0.6, 1.73], [1.76, 0.6, 1.73], [3.9, 1.6, 1.56]]",
                "sizes=[[0.6, 0.8, 1.73], [0.6, 1.76, 1.73], [1.6, 3.9, 1.56]]",
            ),
            "model.bbox_head.bbox_coder.code_size is 9": anchors.replace("BBoxCoder')", "BBoxCoder', code_size=9)"),
            "dataset.pipeline.transforms.rot_range is [0, 1]": anchors
            + "test_dataloader = dict(dataset=dict(pipeline=[dict(transforms=[dict(rot_range=[0, 1])])]))\n",
            "model.data_preprocessor.voxel_type is dynamic": centers.replace("data_preprocessor=", "x=").replace(
                "    x=dict(", "    train_cfg=dict("
            )
            + "data_preprocessor = dict(voxel_type='dynamic')\n",
            "model.test_cfg.pts.score_threshold is 0.3, above": centers.replace(
                "nms_thr", "score_threshold=0.3, nms_thr"
            ),
            "model.pts_bbox_head.bbox_coder.pc_range is [0, 0]": centers.replace(
                "max_num=", "pc_range=[0, 0], max_num="
            ),
            "model.test_cfg.pts.max_pool_nms is True": centers.replace("nms_thr", "max_pool_nms=True, nms_thr"),
        }.items():
            with self.subTest(reason):
                self.refuse(reason, "mmdet3d", mmdet_state(), text)
        for reason, place, key, value in (
            ("MODEL.POST_PROCESSING.OUTPUT_RAW_SCORE is True", ("POST_PROCESSING",), "OUTPUT_RAW_SCORE", True),
            ("MODEL.DENSE_HEAD.IOU_BRANCH is True", ("DENSE_HEAD",), "IOU_BRANCH", True),
            ("MODEL.ROI_HEAD.NAME is PVRCNN", (), "ROI_HEAD", {"NAME": "PVRCNN"}),
            ("MODEL.VFE.NEW: the converter does not know this key", ("VFE",), "NEW", 0),
        ):
            with self.subTest(reason):
                config = pcdet_config()
                part = config["MODEL"]
                for name in place:
                    part = part.setdefault(name, {})
                part[key] = value
                self.refuse(reason, "openpcdet", pcdet_state(), config, "--ignore", "dense_head.conv_iou")

    def test_suppression_class_by_class(self):
        weights, names = Weights(4), pcdet_center_names()
        weights.weight("vfe.pfn_layers.0.linear", 64, 11)
        weights.norm("vfe.pfn_layers.0.norm", 64)
        networks.make_backbone(weights, *PCDET_BLOCKS, PCDET_SPEC)
        networks.make_center(weights, names, 384, 64, MAPS, [1, 2])
        config = pcdet_center_config()
        nms = config["MODEL"]["DENSE_HEAD"]["POST_PROCESSING"]["NMS_CONFIG"]
        each = {"NMS_TYPE": "class_specific_nms", "NMS_THRESH": [0.7] * 3}
        each.update(NMS_PRE_MAXSIZE=[4096, 4096, 1000], NMS_POST_MAXSIZE=[500, 500, 600])
        for reason, changed in {
            "NMS_THRESH is [0.75, 0.6, 0.55]; expected the same": {"NMS_THRESH": [0.75, 0.6, 0.55]},
            "NMS_THRESH is [0.7, 0.7]; expected 3 numbers": {"NMS_THRESH": [0.7, 0.7]},
            "NMS_THRESH is 0.7; expected 3 numbers": {"NMS_THRESH": 0.7},
            "NMS_PRE_MAXSIZE has a number below MAX_OBJ_PER_SAMPLE, which is 500": {
                "NMS_PRE_MAXSIZE": [4096, 499, 4096]
            },
            "NMS_POST_MAXSIZE has a number below": {"NMS_POST_MAXSIZE": [83, 83, 83]},
            "NMS_CONFIG.SCORE_THRESH is 0.3": {"SCORE_THRESH": 0.3},
        }.items():
            with self.subTest(reason):
                nms.clear()
                nms.update(each, **changed)
                self.refuse(reason, "openpcdet", weights.state, config)
        nms.clear()
        nms.update(each)
        decode = self.convert("openpcdet", weights.state, config)["decode"]
        self.assertEqual((decode["nms"], decode["nms_threshold"], decode["class_agnostic"]), ("rotated", 0.7, "no"))
        self.assertEqual([decode[name] for name in ("max_objects", "nms_pre_max", "nms_post_max")], [500] * 3)

    def test_overlaps_that_rectify_scores(self):
        weights, names, maps = Weights(4), pcdet_center_names(), [*MAPS, "iou"]
        weights.weight("vfe.pfn_layers.0.linear", 64, 11)
        weights.norm("vfe.pfn_layers.0.norm", 64)
        networks.make_backbone(weights, *PCDET_BLOCKS, PCDET_SPEC)
        networks.make_center(weights, names, 384, 64, maps, [1, 2])
        config = pcdet_center_config()
        head = config["MODEL"]["DENSE_HEAD"]
        head["SEPARATE_HEAD_CFG"]["HEAD_DICT"]["iou"] = {"out_channels": 1, "num_conv": 2}
        self.refuse("no layer for dense_head.heads_list.0.iou", "openpcdet", weights.state, config)
        head["POST_PROCESSING"].update(USE_IOU_TO_RECTIFY_SCORE=True, IOU_RECTIFIER=[0.68, 0.71])
        self.refuse("IOU_RECTIFIER is [0.68, 0.71]; expected a number", "openpcdet", weights.state, config)
        head["POST_PROCESSING"]["IOU_RECTIFIER"].append(0)
        decode = self.convert("openpcdet", weights.state, config)["decode"]
        self.assertEqual(decode["iou_power"], [0.71, 0.68, 0])  # in the order of the labels
        self.assertEqual(np.float32(decode["score_power"]).tolist(), (1 - np.float32([0.71, 0.68, 0])).tolist())
        x, found = self.maps()
        y = networks.run_backbone(weights.state, *PCDET_BLOCKS, PCDET_SPEC, x.astype(float))
        expected = networks.run_center(weights.state, names, ["iou"], [1, 2], y)["iou"]
        near(self, found["iou"], expected.transpose(0, 2, 3, 1))

    def test_overlaps_of_det3d(self):
        weights, names, maps = Weights(8), det3d_names(), [*MAPS, "iou"]
        weights.weight("reader.pfn_layers.0.linear", 64, 10)
        weights.norm("reader.pfn_layers.0.norm", 64)
        layers = ("neck.blocks", "neck.deblocks", 1)
        networks.make_backbone(weights, *layers, DET3D_SPEC)
        networks.make_center(weights, names, 384, 64, maps, [1, 2])
        text = DET3D_FILE.replace("CIRCLE", "cf_weight=3,").replace("'vel': (2, 2)", "'vel': (2, 2), 'iou': (1, 2)")
        unread = text.replace("cf_weight=3,", "rectifier=0,")
        self.refuse("no layer for bbox_head.tasks.0.iou", "det3d", weights.state, unread)
        decode = self.convert("det3d", weights.state, text)["decode"]
        self.assertEqual((decode["iou_power"], decode["rectified_threshold"]), (3, decode["score_threshold"]))
        x, found = self.maps()
        y = networks.run_backbone(weights.state, *layers, DET3D_SPEC, x.astype(float))
        expected = networks.run_center(weights.state, names, ["iou"], [1, 2], y)["iou"].transpose(0, 2, 3, 1)
        near(self, found["iou"], 2 * expected - 1)

    def test_versions_of_mmdet3d(self):
        (self.folder / "base.py").write_text(MMDET_BASE_FILE, encoding="utf-8")
        (self.folder / "c.py").write_text(MMDET_ANCHOR_FILE.replace("LEGACY", "legacy=False"), encoding="utf-8")
        state = state_of(mmdet_state())
        old, none = "before 1.0, boxes had other axes", "does not say its version"
        for meta, status, reason in (
            ({"mmdet3d_version": "0.18.1"}, 1, f"the checkpoint is of mmdetection3d 0.18.1; {old}"),
            ({"mmdet3d_version": "1.0.0rc6"}, 0, ""),
            ({"mmengine_version": "0.7.1"}, 0, ""),
            ({}, 0, none),
        ):
            with self.subTest(meta):
                save_new(self.folder / "m.pth", {"state_dict": state, "meta": meta})
                (self.folder / "model" / "model.json").unlink(missing_ok=True)
                text = io.StringIO()
                arguments = ["mmdet3d", str(self.folder / "m.pth"), "--config", str(self.folder / "c.py")]
                with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
                    self.assertEqual(main([*arguments, "-o", str(self.folder / "model")]), status, text.getvalue())
                self.assertIn(reason, text.getvalue())
                self.assertEqual(none in text.getvalue(), not meta)

    def test_broken_states_are_refused(self):
        name = "backbone_2d.blocks.1.4.weight"
        state = pcdet_state()
        cases = {
            f"has no {name}": {key: value for key, value in state.items() if key != name},
            f"{name} has the shape [128, 64, 3, 3]": {**state, name: np.zeros((128, 64, 3, 3), np.float32)},
            f"{name} has a value that is not finite": {**state, name: np.full_like(state[name], np.nan)},
            "conv_cls.weight has the shape [18, 384, 3, 3]": {
                **state,
                "dense_head.conv_cls.weight": np.zeros((18, 384, 3, 3), np.float32),
            },
            "no layer for dense_head.conv_iou.bias": {**state, "dense_head.conv_iou.bias": np.zeros(6, np.float32)},
            "running_var has a value below 0": {
                **state,
                "vfe.pfn_layers.0.norm.running_var": np.full(64, -1, np.float32),
            },
            "weight, folded, has a value beyond float32": {
                **state,
                "vfe.pfn_layers.0.norm.weight": np.full(64, 3e38, np.float32),
                "vfe.pfn_layers.0.linear.weight": np.full((64, 10), 1e3, np.float32),
            },
        }
        for reason, broken in cases.items():
            with self.subTest(reason):
                self.refuse(reason, "openpcdet", broken, pcdet_config())
        extra = {**state, "dense_head.conv_iou.bias": np.zeros(6, np.float32)}
        self.convert("openpcdet", extra, pcdet_config(), "--ignore", "dense_head.conv_iou")

    def test_other_configurations_are_refused(self):
        def changed(*keys, value):
            config = pcdet_config()
            place = config
            for key in keys[:-1]:
                place = place[key]
            place[keys[-1]] = value
            return config

        cases = {
            "has no vfe.pfn_layers.1.linear.weight": changed("MODEL", "VFE", "NUM_FILTERS", value=[128, 64]),
            "MODEL.VFE.NAME is MeanVFE": changed("MODEL", "VFE", "NAME", value="MeanVFE"),
            "MODEL.VFE.WITH_DISTANCE": changed("MODEL", "VFE", "WITH_DISTANCE", value=True),
            "MODEL.DENSE_HEAD.NAME is PointHead": changed("MODEL", "DENSE_HEAD", "NAME", value="PointHead"),
            "has no MODEL.BACKBONE_2D.LAYER_NUMS": changed("MODEL", "BACKBONE_2D", value={"NAME": "BaseBEVBackbone"}),
            "the encoder has no layers": changed("MODEL", "VFE", "NUM_FILTERS", value=[]),
            "the stride 0 of a map": changed("MODEL", "BACKBONE_2D", "UPSAMPLE_STRIDES", value=[0, 2, 4]),
            "the stride 2.5 of a map": changed("MODEL", "BACKBONE_2D", "UPSAMPLE_STRIDES", value=[1, 2.5, 4]),
            "the backbone has a stride of 0": changed("MODEL", "BACKBONE_2D", "LAYER_STRIDES", value=[2, 0, 2]),
            "different sizes are joined": changed("MODEL", "BACKBONE_2D", "UPSAMPLE_STRIDES", value=[1, 2, 2]),
            "grid has 4 cells along z": changed(
                "DATA_CONFIG", "DATA_PROCESSOR", 1, "VOXEL_SIZE", value=[0.16, 0.16, 1]
            ),
            "CLASS_NAMES is not a list of names": changed("CLASS_NAMES", value=["Car", "Car"]),
            "MODEL.POST_PROCESSING.SCORE_THRESH has 'high'": changed(
                "MODEL", "POST_PROCESSING", "SCORE_THRESH", value="high"
            ),
        }
        for reason, config in cases.items():
            with self.subTest(reason):
                state = pcdet_state()
                if "joined" in reason:
                    weights = Weights(1)
                    networks.make_backbone(weights, *PCDET_BLOCKS, {**PCDET_SPEC, "up": [1, 2, 2]})
                    state.update(weights.state)
                self.refuse(reason, "openpcdet", state, config)

    def test_configurations_of_another_project_are_refused(self):
        for source, name in (("openpcdet", "x.py"), ("openpcdet", "x.json"), ("mmdet3d", "x.yaml"), ("det3d", "x.yml")):
            with self.subTest(f"{source} {name}"):
                (self.folder / name).write_text("a: 1", encoding="utf-8")
                config = ["--config", str(self.folder / name), "--output", str(self.folder / "model")]
                text = io.StringIO()
                with contextlib.redirect_stderr(text):
                    self.assertEqual(main([source, "none.pth", *config]), 1)
                self.assertIn(f"{name} is not a configuration of {source}", text.getvalue())

    def test_a_model_is_not_replaced(self):
        self.convert("openpcdet", pcdet_state(), pcdet_config())
        status, text = self.run_it("openpcdet", pcdet_state(), pcdet_config())
        self.assertEqual(status, 1)
        self.assertIn("has a model already", text)

    def test_npz_and_what_cannot_be_read(self):
        np.savez(self.folder / "state.npz", **pcdet_state())
        (self.folder / "config.yaml").write_text(yaml.safe_dump(pcdet_config()), encoding="utf-8")
        (self.folder / "broken.safetensors").write_bytes(b"no tensors")
        for name, status in (("state.npz", 0), ("broken.safetensors", 1), ("absent.npz", 1)):
            with self.subTest(name), contextlib.redirect_stderr(io.StringIO()) as text:
                arguments = ["openpcdet", str(self.folder / name), "--config", str(self.folder / "config.yaml")]
                with contextlib.redirect_stdout(io.StringIO()):
                    self.assertEqual(main([*arguments, "-o", str(self.folder / f"m{status}")]), status, text.getvalue())


if __name__ == "__main__":
    unittest.main()
