"""OpenPCDet's PointPillar, SECOND and CenterPoint."""

from __future__ import annotations

import pathlib
from typing import Any, Dict, List, NamedTuple, Tuple

import numpy as np

from . import backbone, fold
from .config import Config
from .keys import BACKBONES_3D, OPENPCDET, check
from .layers import (
    CENTER_EPS,
    NORM_EPS,
    Backbone,
    Branch,
    Build,
    HeadLayers,
    Naming,
    Task,
    alone,
    anchor_task,
    center_tasks,
    encoder_layers,
    flat,
    halved,
    nested,
)
from .model import PILLAR_EXTRA, CheckpointPlan, Head, PillarEncoder, Rows, StemOf, Voxels, center_head
from .network import Map, Network
from .points import XYZ, Points, below, points_of
from .state import ConvertError, State

ANCHOR_MAPS = {"cls_preds": "cls", "box_preds": "box", "dir_cls_preds": "dir_cls"}
SHARED = ("dense_head.shared_conv.0", "dense_head.shared_conv.1")
OF_MULTI_HEAD = (
    "USE_MULTIHEAD",
    "SEPARATE_MULTIHEAD",
    "RPN_HEAD_CFGS",
    "SEPARATE_REG_CONFIG",
    "SHARED_CONV_NUM_FILTER",
)


def plan(config: Config, path: pathlib.Path) -> CheckpointPlan:
    model = config.at("MODEL")
    sparse = "BACKBONE_3D" in model
    for part, names in (SPARSE_PARTS if sparse else PARTS).items():
        model.at(part).choice("NAME", names)
    notes = check(OPENPCDET, config)
    voxels, levels = VOXELS[model.at("VFE").text("NAME")](config.at("DATA_CONFIG")), _backbone(model.at("BACKBONE_2D"))
    head, layers = HEADS[model.at("DENSE_HEAD").text("NAME")](config, voxels)
    head.notes += notes
    rows, stem = (_sparse if sparse else _pillars)(config, voxels, head)
    return CheckpointPlan(
        description=f"{model.text('NAME')} of OpenPCDet, converted from {path.name}",
        voxels=voxels,
        head=head,
        rows=rows,
        stem=stem,
        build=lambda state, network, x: layers(state, network, levels.build(state, network, x)),
    )


def _pillars(config: Config, voxels: Voxels, head: Head) -> Tuple[Rows, StemOf]:
    vfe = config.at("MODEL").at("VFE")

    def rows(inputs: int) -> List[int]:
        found = _rows(vfe, inputs, voxels)
        head.notes += _columns(config.at("DATA_CONFIG"), voxels)
        return found

    return rows, lambda state: PillarEncoder(_encoder(state, vfe), rows, voxels)


def _sparse(config: Config, voxels: Voxels, head: Head) -> Tuple[None, StemOf]:
    chain, data = backbone.CHAINS[config.at("MODEL").at("BACKBONE_3D").text("NAME")], config.at("DATA_CONFIG")
    voxels.pillars, voxels.columns = False, len(data.at("POINT_FEATURE_ENCODING").names("used_feature_list"))
    head.notes += _columns(data, voxels)
    return None, lambda state: backbone.read(state, "backbone_3d.", chain.parts(), voxels, NORM_EPS)


def _step(data: Config, name: str) -> Config:
    steps = [step for step in data.items("DATA_PROCESSOR") if step.text("NAME") == name]
    if len(steps) != 1:
        raise ConvertError(f"{data.path}.DATA_PROCESSOR has {len(steps)} steps {name}; expected exactly one")
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


PILLARS = {"PillarVFE": _voxels, "DynPillarVFE": _dynamic_voxels, "DynamicPillarVFE": _dynamic_voxels}
VOXELS = {**PILLARS, "MeanVFE": _voxels}


def points(data: Config) -> Points:
    """x, y and z come first, wherever they are named."""
    kind, turned = data.values.get("DATASET"), data.values.get("POINTS_TANH_DIM")
    used = below(data.values, "POINT_FEATURE_ENCODING").get("used_feature_list")
    names = used if isinstance(used, list) and all(isinstance(name, str) for name in used) else []
    columns = XYZ + [name for name in names if name not in XYZ] if names else []
    tanh = kind == "WaymoDataset" and (not isinstance(turned, list) or 3 in turned)
    return points_of(kind, columns, tanh)


def _columns(data: Config, voxels: Voxels) -> List[str]:
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
    return encoder_layers(state, "vfe.pfn_layers", halved(vfe.integers("NUM_FILTERS")), bool(vfe.get("USE_NORM", True)))


def _backbone(config: Config, name: str = "backbone_2d") -> Backbone:
    ups = "UPSAMPLE_STRIDES" in config
    return Backbone(
        blocks=f"{name}.blocks",
        first=1,  # after the padding
        deblocks=f"{name}.deblocks",
        layers=config.integers("LAYER_NUMS"),
        strides=config.integers("LAYER_STRIDES"),
        channels=config.integers("NUM_FILTERS"),
        up_strides=config.numbers("UPSAMPLE_STRIDES") if ups else [],
        up_channels=config.integers("NUM_UPSAMPLE_FILTERS") if ups else [],
        conv_for_no_stride=bool(config.get("USE_CONV_FOR_NO_STRIDE", False)),
    )


class Anchors(NamedTuple):
    """What both heads of anchors have."""

    decode: Dict[str, Any]
    sizes: List[int]  # how many sizes each group of ANCHOR_GENERATOR_CONFIG has
    rotations: int
    values: int  # of an anchor in box_preds
    bins: int
    strides: Dict[str, int]


def _anchor_boxes(config: Config, voxels: Voxels) -> Anchors:
    head, after = config.at("MODEL").at("DENSE_HEAD"), config.at("MODEL").at("POST_PROCESSING")
    anchors, groups = _anchors(head), head.items("ANCHOR_GENERATOR_CONFIG")
    assigner, nms = head.at("TARGET_ASSIGNER_CONFIG"), after.at("NMS_CONFIG")
    assigner.expect("BOX_CODER", "ResidualCoder")
    coder = assigner.at("BOX_CODER_CONFIG") if "BOX_CODER_CONFIG" in assigner else Config({})
    code_size, turned = coder.whole("code_size", 7), bool(coder.get("encode_angle_by_sincos", False))
    bins, every = head.whole("NUM_DIR_BINS", 2), bool(nms.get("MULTI_CLASSES_NMS", False))
    decode = {
        "head": "anchor",
        "point_cloud_range": voxels.bounds,
        **anchors,
        **({"heading": "cos_sin"} if turned else {}),
        **({"velocity": "yes"} if code_size == 9 else {}),
        "dir_offset": head.number("DIR_OFFSET", 0),
        "dir_limit_offset": head.number("DIR_LIMIT_OFFSET", 0),
        "dir_bins": bins,
        **({"labels": "all", "nms_groups": "class"} if every else {}),
        "score_threshold": after.number("SCORE_THRESH"),
        **_nms(nms),
        "class_agnostic": "yes",
    }
    strides = {f"{group.path}.feature_map_stride": group.whole("feature_map_stride", 8) for group in groups}
    sizes = [len(group.value("anchor_sizes", list)) for group in groups]
    return Anchors(decode, sizes, len(anchors["anchor_rotations"]), code_size + turned, bins, strides)


def _anchor_head(config: Config, voxels: Voxels) -> Tuple[Head, Build]:
    head, classes = config.at("MODEL").at("DENSE_HEAD"), config.names("CLASS_NAMES")
    for key in OF_MULTI_HEAD:
        if head.get(key, None):
            raise ConvertError(f"{head.path}.{key} is given; an AnchorHeadSingle has one convolution for each map")
    boxes = _anchor_boxes(config, voxels)
    count = sum(boxes.sizes) * boxes.rotations
    each = {"cls_preds": len(classes), "box_preds": boxes.values, "dir_cls_preds": boxes.bins}
    channels = {output: count * values for output, values in each.items()}
    layers = HeadLayers(
        [anchor_task(channels, {output: f"dense_head.conv_{end}" for output, end in ANCHOR_MAPS.items()})]
    )
    return Head(channels, boxes.strides, boxes.decode, classes), layers.build


def _multi_head(config: Config, voxels: Voxels) -> Tuple[Head, Build]:
    """With SEPARATE_MULTIHEAD, the anchors of a part have the classes of that part; otherwise all classes."""
    head, classes = config.at("MODEL").at("DENSE_HEAD"), config.names("CLASS_NAMES")
    parts, boxes = head.items("RPN_HEAD_CFGS"), _anchor_boxes(config, voxels)
    tasks = [part.names("HEAD_CLS_NAME") for part in parts]
    order = [name for task in tasks for name in task]
    if sorted(order) != sorted(classes) or len(boxes.sizes) != len(order):
        raise ConvertError(
            f"{head.path}: RPN_HEAD_CFGS must name each of CLASS_NAMES once, "
            "and ANCHOR_GENERATOR_CONFIG must have as many entries as there are classes"
        )
    head.expect("USE_MULTIHEAD", True)
    separate = bool(head.get("SEPARATE_MULTIHEAD", False))
    if separate and "labels" not in boxes.decode:
        raise ConvertError(f"{head.path}.SEPARATE_MULTIHEAD is {separate}, which needs NMS_CONFIG.MULTI_CLASSES_NMS")
    sizes, own = iter(boxes.sizes), []
    task_sizes = [sum(next(sizes) for _ in task) for task in tasks]
    for number, (part, task, count) in enumerate(zip(parts, tasks, task_sizes)):
        place = f"dense_head.rpn_heads.{number}"
        maps = _branches(head, place, count * boxes.rotations, len(task) if separate else len(classes), boxes)
        own.append(Task(maps, _backbone(part, place) if part.get("LAYER_NUMS", None) else None))
    shared = head.whole("SHARED_CONV_NUM_FILTER") if head.get("SHARED_CONV_NUM_FILTER", None) else 0
    layers = HeadLayers(own, SHARED, shared)
    if separate:
        boxes.decode.update(task_classes=[len(task) for task in tasks], task_sizes=task_sizes)

    def build(state: State, network: Network, x: Map) -> None:
        for number, task in enumerate(tasks):
            place = f"dense_head.rpn_heads.{number}"
            _check_labels(state, f"{place}.head_label_indices", [classes.index(name) for name in task])
            if not head.get("USE_DIRECTION_CLASSIFIER", False):
                state.ignore([f"{place}.conv_dir_cls."])  # the state may have this layer, but it is unused
        layers.build(state, network, x)

    return Head(layers.channels(), boxes.strides, boxes.decode, order if separate else classes), build


def _branches(head: Config, place: str, anchors: int, classes: int, boxes: Anchors) -> Dict[str, List[Branch]]:
    """If several layers make a part's boxes, each gives its channels anchor by anchor."""
    naming: Naming = alone
    depth, width, values = 1, 0, [("", boxes.values)]
    if head.get("SEPARATE_REG_CONFIG", None) is not None:
        separate = head.at("SEPARATE_REG_CONFIG")
        naming, depth, width = flat, int(separate.number("NUM_MIDDLE_CONV")) + 1, separate.whole("NUM_MIDDLE_FILTER")
        values = [_named_values(separate, item) for item in separate.names("REG_LIST")]
        if sum(count for _, count in values) != boxes.values:
            raise ConvertError(f"{separate.path}.REG_LIST does not add up to {boxes.values} values of a box")

    def branch(name: str, count: int) -> Branch:
        return Branch(anchors * count, naming(f"{place}.{name}", depth), width)

    maps = {"cls_preds": [branch("conv_cls", classes)]}
    maps["box_preds"] = [branch(f"conv_box{name}", count) for name, count in values]
    if head.get("USE_DIRECTION_CLASSIFIER", False):
        maps["dir_cls_preds"] = [Branch(anchors * boxes.bins, alone(f"{place}.conv_dir_cls"))]
    return maps


def _named_values(separate: Config, item: str) -> Tuple[str, int]:
    name, _, count = item.partition(":")
    if not count.isdigit():
        raise ConvertError(f"{separate.path}.REG_LIST has {item!r}; expected a name and a number, as in reg:2")
    return f".conv_{name}", int(count)


def _check_labels(state: State, name: str, labels: List[int]) -> None:
    if name in state and list(state.take(name, len(labels))) != [label + 1 for label in labels]:
        raise ConvertError(f"{name} has other classes than HEAD_CLS_NAME")


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
        raise ConvertError(f"{head.path}.CLASS_NAMES_EACH_HEAD must name each of CLASS_NAMES once, some in each list")
    maps = {"heatmap": "hm", "center": "center", "height": "center_z", "dim": "dim", "rot": "rot"}
    if "vel" in head.at("SEPARATE_HEAD_CFG").names("HEAD_ORDER"):
        maps["vel"] = "vel"
    powers = _powers(after, classes, order) if "iou" in branches else {}
    if powers:
        maps["iou"] = "iou"
    depth = {output: int(branches.at(name).number("num_conv")) for output, name in maps.items() if name != "hm"}
    depth["heatmap"], width = head.whole("NUM_HM_CONV"), head.whole("SHARED_CONV_CHANNEL")
    eps = float(head.number("BN_EPS", CENTER_EPS))
    own = center_tasks(tasks, maps, depth, width, "dense_head.heads_list.{}.{}", nested("0", "1"))
    layers = HeadLayers(own, SHARED, width, eps, eps)
    assigner, objects = head.at("TARGET_ASSIGNER_CONFIG"), after.whole("MAX_OBJ_PER_SAMPLE")
    made = center_head(
        voxels,
        layers.channels(),
        {f"{assigner.path}.FEATURE_MAP_STRIDE": assigner.whole("FEATURE_MAP_STRIDE")},
        tasks,
        rot_order="cos_sin",
        max_objects=objects,
        score_threshold=after.number("SCORE_THRESH"),
        **powers,
        post_center_range=after.numbers("POST_CENTER_LIMIT_RANGE", 6),
        nms="rotated",
        **_center_nms(after.at("NMS_CONFIG"), len(classes), objects),
    )
    return made, layers.build


def _center_nms(nms: Config, classes: int, objects: int) -> Dict[str, Any]:
    """With class_specific_nms, each class has a threshold and limits of its own; the service has one threshold, and
    limits for a task. A task has at most MAX_OBJ_PER_SAMPLE boxes, so a class's limit that is not lower has no
    effect."""
    if nms.get("NMS_TYPE", "") != "class_specific_nms":
        return _nms(nms)
    for key in ("NMS_PRE_MAXSIZE", "NMS_POST_MAXSIZE"):
        if min(nms.numbers(key, classes)) < objects:
            raise ConvertError(f"{nms.path}.{key} has a number below MAX_OBJ_PER_SAMPLE, which is {objects}")
    thresholds = nms.numbers("NMS_THRESH", classes)
    if len(set(thresholds)) != 1:
        raise ConvertError(f"{nms.path}.NMS_THRESH is {thresholds}; expected the same for all classes")
    limits = {"nms_pre_max": objects, "nms_post_max": objects}
    return {"nms_threshold": thresholds[0], **limits, "class_agnostic": "no"}


def _powers(after: Config, classes: List[str], order: List[str]) -> Dict[str, Any]:
    """The powers of overlap and score, in the order of the labels. OpenPCDet computes 1 - power in float32."""
    if not after.get("USE_IOU_TO_RECTIFY_SCORE", False):
        return {}
    powers = after.numbers("IOU_RECTIFIER")
    if len(powers) < len(classes) or not all(0 <= power <= 1 for power in powers):
        raise ConvertError(f"{after.path}.IOU_RECTIFIER is {powers}; expected a number from 0 to 1 for each class")
    of_labels = [powers[classes.index(name)] for name in order]
    return {"iou_power": of_labels, "score_power": [float(str(1 - np.float32(power))) for power in of_labels]}


HEADS = {"AnchorHeadSingle": _anchor_head, "AnchorHeadMulti": _multi_head, "CenterHead": _center_head}
PARTS = {
    "VFE": tuple(PILLARS),
    "MAP_TO_BEV": ("PointPillarScatter",),
    "BACKBONE_2D": ("BaseBEVBackbone",),
    "DENSE_HEAD": tuple(HEADS),
}
SPARSE_PARTS = {
    "BACKBONE_3D": BACKBONES_3D,
    **PARTS,
    "VFE": ("MeanVFE",),
    "MAP_TO_BEV": ("HeightCompression",),
}
