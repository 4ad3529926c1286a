"""OpenPCDet's PointPillar with an anchor head, and CenterPoint over pillars: names of the state, keys of the YAML."""

from __future__ import annotations

import pathlib
from typing import Any, Dict, List, Tuple

import numpy as np

from . import fold
from .config import Config
from .keys import OPENPCDET, Keys
from .layers import CENTER_EPS, Backbone, Build, CenterHead, anchor_head, encoder_layers, halved
from .model import PILLAR_EXTRA, CheckpointPlan, Head, Voxels
from .points import XYZ, Points, below, points_of
from .state import ConvertError, State

ANCHOR_MAPS = {"cls_preds": "cls", "box_preds": "box", "dir_cls_preds": "dir_cls"}


def plan(config: Config, path: pathlib.Path) -> CheckpointPlan:
    model = config.at("MODEL")
    for part, names in PARTS.items():
        model.at(part).choice("NAME", names)
    notes = Keys(OPENPCDET).check(config)
    vfe, data = model.at("VFE"), config.at("DATA_CONFIG")
    voxels, backbone = VOXELS[vfe.text("NAME")](data), _backbone(model.at("BACKBONE_2D"))
    head, layers = HEADS[model.at("DENSE_HEAD").text("NAME")](config, voxels)
    head.notes += notes

    def rows(inputs: int) -> List[int]:
        found = _rows(vfe, inputs, voxels)
        head.notes += _columns(data, voxels)
        return found

    return CheckpointPlan(
        description=f"{model.text('NAME')} of OpenPCDet, converted from {path.name}",
        voxels=voxels,
        head=head,
        rows=rows,
        encoder=lambda state: _encoder(state, vfe),
        build=lambda state, network, x: layers(state, network, backbone.build(state, network, x)),
    )


def _step(data: Config, name: str) -> Config:
    steps = [step for step in data.items("DATA_PROCESSOR") if step.text("NAME") == name]
    if len(steps) != 1:
        raise ConvertError(f"{data.path}.DATA_PROCESSOR has not one step {name}")
    return steps[0]


def _voxels(data: Config) -> Voxels:
    step = _step(data, "transform_points_to_voxels")
    return Voxels(
        bounds=data.numbers("POINT_CLOUD_RANGE", 6),
        size=step.numbers("VOXEL_SIZE", 3),
        cap=step.whole("MAX_POINTS_PER_VOXEL"),
        most=step.at("MAX_NUMBER_OF_VOXELS").whole("test"),
        points=points(data),
    )


def _dynamic_voxels(data: Config) -> Voxels:
    size = _step(data, "transform_points_to_voxels_placeholder").numbers("VOXEL_SIZE", 3)
    bounds = data.numbers("POINT_CLOUD_RANGE", 6)
    voxels = Voxels(bounds, size, cap=0, most=0, any_height=True, points=points(data))
    nx, ny, _ = voxels.grid()
    voxels.most = nx * ny
    return voxels


VOXELS = {"PillarVFE": _voxels, "DynPillarVFE": _dynamic_voxels, "DynamicPillarVFE": _dynamic_voxels}


def points(data: Config) -> Points:
    """x, y and z come first, wherever they are named. Intensities of Waymo become their tanh."""
    kind, turned = data.values.get("DATASET"), data.values.get("POINTS_TANH_DIM")
    used = below(data.values, "POINT_FEATURE_ENCODING").get("used_feature_list")
    names = used if isinstance(used, list) and all(isinstance(name, str) for name in used) else []
    columns = XYZ + [name for name in names if name not in XYZ] if names else []
    tanh = kind == "WaymoDataset" and (not isinstance(turned, list) or 3 in turned)
    return points_of(kind, columns, tanh)


def _columns(data: Config, voxels: Voxels) -> List[str]:
    """Notes on the columns of a point, if the configuration names them."""
    if "POINT_FEATURE_ENCODING" not in data:
        return []
    encoding = data.at("POINT_FEATURE_ENCODING")
    used = encoding.names("used_feature_list")
    if len(used) != voxels.columns:
        raise ConvertError(f"{encoding.path}.used_feature_list has {len(used)} columns; the encoder {voxels.columns}")
    if used == encoding.get("src_feature_list", used):
        return []
    return [f"a point has the columns {', '.join(used)}, fewer than {encoding.path}.src_feature_list"]


def _rows(vfe: Config, inputs: int, voxels: Voxels) -> List[int]:
    hidden = 0 if vfe.get("USE_ABSLOTE_XYZ", True) else 3
    voxels.columns = inputs - PILLAR_EXTRA + hidden
    return list(range(hidden, voxels.columns + PILLAR_EXTRA))


def _encoder(state: State, vfe: Config) -> List[fold.Layer]:
    inputs = state.shape("vfe.pfn_layers.0.linear.weight")[1]
    return encoder_layers(
        state, "vfe.pfn_layers", halved(vfe.integers("NUM_FILTERS")), inputs, bool(vfe.get("USE_NORM", True))
    )


def _backbone(config: Config) -> Backbone:
    return Backbone(
        blocks="backbone_2d.blocks",
        first=1,  # after the padding
        deblocks="backbone_2d.deblocks",
        layers=config.integers("LAYER_NUMS"),
        strides=config.integers("LAYER_STRIDES"),
        channels=config.integers("NUM_FILTERS"),
        up_strides=config.numbers("UPSAMPLE_STRIDES"),
        up_channels=config.integers("NUM_UPSAMPLE_FILTERS"),
        conv_for_no_stride=bool(config.get("USE_CONV_FOR_NO_STRIDE", False)),
    )


def _anchor_head(config: Config, voxels: Voxels) -> Tuple[Head, Build]:
    head, after = config.at("MODEL").at("DENSE_HEAD"), config.at("MODEL").at("POST_PROCESSING")
    anchors, classes = _anchors(head), config.names("CLASS_NAMES")
    count = len(anchors["anchor_sizes"]) // 3 * len(anchors["anchor_rotations"])
    bins = head.whole("NUM_DIR_BINS", 2)
    coder = head.at("TARGET_ASSIGNER_CONFIG")
    coder.expect("BOX_CODER", "ResidualCoder")
    names = {output: f"dense_head.conv_{end}" for output, end in ANCHOR_MAPS.items()}
    channels = {"cls_preds": count * len(classes), "box_preds": count * 7, "dir_cls_preds": count * bins}
    nms, notes = after.at("NMS_CONFIG"), []
    if nms.get("MULTI_CLASSES_NMS", False):
        notes.append("MULTI_CLASSES_NMS: a box has the label of its best class alone")
    decode = {
        "head": "anchor",
        "point_cloud_range": voxels.bounds,
        **anchors,
        "dir_offset": head.number("DIR_OFFSET", 0),
        "dir_limit_offset": head.number("DIR_LIMIT_OFFSET", 0),
        "dir_bins": bins,
        "score_threshold": after.number("SCORE_THRESH"),
        **_nms(nms),
        "class_agnostic": "no" if nms.get("MULTI_CLASSES_NMS", False) else "yes",
    }
    strides = {
        f"{group.path}.feature_map_stride": group.whole("feature_map_stride", 8)
        for group in head.items("ANCHOR_GENERATOR_CONFIG")
    }
    layers = lambda state, network, x: anchor_head(state, network, x, names, channels)
    return Head(channels, strides, decode, classes, notes), layers


def _anchors(head: Config) -> Dict[str, Any]:
    groups = head.items("ANCHOR_GENERATOR_CONFIG")
    sizes: List[float] = []
    bottoms: List[float] = []
    for group in groups:
        for number, values in enumerate(group.value("anchor_sizes", list)):
            sizes += Config({"size": values}, f"{group.path}.anchor_sizes[{number}]").numbers("size", 3)
            bottoms += group.numbers("anchor_bottom_heights", 1)
    return {
        "anchor_sizes": sizes,
        "anchor_bottoms": bottoms,
        "anchor_rotations": _same(groups, "anchor_rotations", [0, 1.57]),
        "align_center": "yes" if _same(groups, "align_center", False) else "no",
    }


def _same(groups: List[Config], key: str, default: Any) -> Any:
    values = [group.get(key, default) for group in groups]
    if any(value != values[0] for value in values):
        raise ConvertError(f"{groups[0].path}: {key} is not the same for all anchors")
    return values[0]


def _nms(config: Config) -> Dict[str, Any]:
    config.choice("NMS_TYPE", ("nms_gpu", "nms_cpu"))
    return {
        "nms_threshold": config.number("NMS_THRESH"),
        "nms_pre_max": config.whole("NMS_PRE_MAXSIZE"),
        "nms_post_max": config.whole("NMS_POST_MAXSIZE"),
    }


def _center_head(config: Config, voxels: Voxels) -> Tuple[Head, Build]:
    head, classes = config.at("MODEL").at("DENSE_HEAD"), config.names("CLASS_NAMES")
    after, branches = head.at("POST_PROCESSING"), head.at("SEPARATE_HEAD_CFG").at("HEAD_DICT")
    tasks = [[name for name in task if name in classes] for task in head.lists("CLASS_NAMES_EACH_HEAD")]
    order = [name for task in tasks for name in task]
    if sorted(order) != sorted(classes) or not all(tasks):
        raise ConvertError(f"{head.path}.CLASS_NAMES_EACH_HEAD does not have each of CLASS_NAMES once")
    stride = head.at("TARGET_ASSIGNER_CONFIG").whole("FEATURE_MAP_STRIDE")
    maps = {"heatmap": "hm", "center": "center", "height": "center_z", "dim": "dim", "rot": "rot"}
    if "vel" in head.at("SEPARATE_HEAD_CFG").names("HEAD_ORDER"):
        maps["vel"] = "vel"
    powers = _powers(after, classes, order) if "iou" in branches else {}
    if powers:
        maps["iou"] = "iou"
    depth = {output: int(branches.at(name).number("num_conv")) for output, name in maps.items() if name != "hm"}
    center = CenterHead(
        shared=("dense_head.shared_conv.0", "dense_head.shared_conv.1"),
        shared_channels=head.whole("SHARED_CONV_CHANNEL"),
        branch=lambda task, name: f"dense_head.heads_list.{task}.{name}",
        hidden=lambda place, number: (f"{place}.{number}.0", f"{place}.{number}.1"),
        maps=maps,
        depth={**depth, "heatmap": head.whole("NUM_HM_CONV")},
        task_classes=[len(task) for task in tasks],
        shared_eps=float(head.number("BN_EPS", CENTER_EPS)),
        eps=float(head.number("BN_EPS", CENTER_EPS)),
    )
    decode = {
        "head": "center",
        "point_cloud_range": voxels.bounds,
        "voxel_size": voxels.size,
        "feature_map_stride": stride,
        "task_classes": center.task_classes,
        "rot_order": "cos_sin",
        "max_objects": after.whole("MAX_OBJ_PER_SAMPLE"),
        "score_threshold": after.number("SCORE_THRESH"),
        **powers,
        "post_center_range": after.numbers("POST_CENTER_LIMIT_RANGE", 6),
        "nms": "rotated",
        **_nms(after.at("NMS_CONFIG")),
        "class_agnostic": "yes",
    }
    strides = {f"{head.path}.TARGET_ASSIGNER_CONFIG.FEATURE_MAP_STRIDE": stride}
    return Head(center.channels(), strides, decode, order), center.build


def _powers(after: Config, classes: List[str], order: List[str]) -> Dict[str, Any]:
    """The powers of the predicted overlap and of the score, in the order of the labels. OpenPCDet computes float32."""
    if not after.get("USE_IOU_TO_RECTIFY_SCORE", False):
        return {}
    powers = after.numbers("IOU_RECTIFIER")
    if len(powers) < len(classes) or not all(0 <= power <= 1 for power in powers):
        raise ConvertError(f"{after.path}.IOU_RECTIFIER is {powers}; expected a number from 0 to 1 for each class")
    of_labels = [powers[classes.index(name)] for name in order]
    return {"iou_power": of_labels, "score_power": [float(str(1 - np.float32(power))) for power in of_labels]}


HEADS = {"AnchorHeadSingle": _anchor_head, "CenterHead": _center_head}
PARTS = {
    "VFE": tuple(VOXELS),
    "MAP_TO_BEV": ("PointPillarScatter",),
    "BACKBONE_2D": ("BaseBEVBackbone",),
    "DENSE_HEAD": tuple(HEADS),
}
