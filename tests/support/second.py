"""A small SECOND of OpenPCDet with random weights: its configuration, its state, and its converted folder. The names
and the backbone are real; the grid and the network after the backbone are small."""

import pathlib
import shutil
import tempfile

import backbones
import networks

COLUMNS = ["x", "y", "z", "intensity"]
RANGE, SIZE, GRID = [0, -3.2, -3, 9.6, 3.2, 1], [0.2, 0.2, 0.1], (41, 32, 48)
CLASSES = ["Car", "Pedestrian", "Cyclist"]
ANCHORS = ([3.9, 1.6, 1.56, -1.78], [0.8, 0.6, 1.73, -0.6], [1.76, 0.6, 1.73, -0.6])
SPEC = {"layers": [1, 1], "strides": [1, 2], "channels": [16, 24], "up": [1, 2], "up_channels": [16, 16], "input": 256}
SPEC["transposed"] = lambda stride: stride >= 1
BLOCKS = ("backbone_2d.blocks", "backbone_2d.deblocks", 1)
HEAD = {"cls_preds": ("dense_head.conv_cls", 18), "box_preds": ("dense_head.conv_box", 42)}
HEAD["dir_cls_preds"] = ("dense_head.conv_dir_cls", 12)


def config(kind="VoxelBackBone8x"):
    anchors = [
        {
            "class_name": name,
            "anchor_sizes": [size[:3]],
            "anchor_rotations": [0, 1.57],
            "anchor_bottom_heights": [size[3]],
            "align_center": False,
            "feature_map_stride": 8,
        }
        for name, size in zip(CLASSES, ANCHORS)
    ]
    voxels = {"NAME": "transform_points_to_voxels", "VOXEL_SIZE": SIZE, "MAX_POINTS_PER_VOXEL": 5}
    nms = {"MULTI_CLASSES_NMS": False, "NMS_TYPE": "nms_gpu", "NMS_THRESH": 0.01}
    return {
        "CLASS_NAMES": CLASSES,
        "DATA_CONFIG": {
            "DATASET": "KittiDataset",
            "POINT_CLOUD_RANGE": RANGE,
            "POINT_FEATURE_ENCODING": {"used_feature_list": COLUMNS, "src_feature_list": COLUMNS},
            "DATA_PROCESSOR": [{**voxels, "MAX_NUMBER_OF_VOXELS": {"train": 16000, "test": 40000}}],
        },
        "MODEL": {
            "NAME": "SECONDNet",
            "VFE": {"NAME": "MeanVFE"},
            "BACKBONE_3D": {"NAME": kind},
            "MAP_TO_BEV": {"NAME": "HeightCompression", "NUM_BEV_FEATURES": 256},
            "BACKBONE_2D": {
                "NAME": "BaseBEVBackbone",
                "LAYER_NUMS": SPEC["layers"],
                "LAYER_STRIDES": SPEC["strides"],
                "NUM_FILTERS": SPEC["channels"],
                "UPSAMPLE_STRIDES": SPEC["up"],
                "NUM_UPSAMPLE_FILTERS": SPEC["up_channels"],
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
            "POST_PROCESSING": {
                "SCORE_THRESH": 0.1,
                "NMS_CONFIG": {**nms, "NMS_PRE_MAXSIZE": 4096, "NMS_POST_MAXSIZE": 500},
            },
        },
    }


def state(layers=None, layout="spconv 2", seed=1):
    """`layers`: by default OpenPCDet's plain backbone."""
    weights = networks.Weights(seed)
    backbones.make(weights, layers or backbones.openpcdet(len(COLUMNS)), layout)
    networks.make_backbone(weights, *BLOCKS, SPEC)
    for name, count in HEAD.values():
        weights.weight(name, count, sum(SPEC["up_channels"]), 1, 1)
        weights.bias(name, count)
    return weights.state


def write(folder, residual=False, options=()):
    """Converts the model into a folder. `options`: more arguments of voxeld-convert."""
    kind = "VoxelResBackBone8x" if residual else "VoxelBackBone8x"
    with tempfile.TemporaryDirectory() as name:
        source = pathlib.Path(name)
        made = state(backbones.openpcdet(len(COLUMNS), residual))
        status, text = networks.convert(source, "openpcdet", made, config(kind), *options)
        if status:
            raise RuntimeError(text)
        shutil.copytree(source / "model", folder, dirs_exist_ok=True)
    return folder
