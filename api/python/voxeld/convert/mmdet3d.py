"""mmdetection3d's PointPillars and SECOND (VoxelNet, MVXFasterRCNN) and CenterPoint, 1.0 and later."""

from __future__ import annotations

import math
import pathlib
from typing import Any, Dict, List, Tuple

from . import backbone, fold
from .config import Config
from .keys import MMDET3D, check
from .layers import (
    CENTER_EPS,
    NORM_EPS,
    Backbone,
    Build,
    HeadLayers,
    anchor_task,
    center_tasks,
    encoder_layers,
    halved,
    nested,
)
from .model import CheckpointPlan, Head, PillarEncoder, Rows, Stem, StemOf, Voxels, center_head
from .points import Points, below, columns_of, picked, points_of
from .state import ConvertError, State

PREFIXES = {"VoxelNet": "", "MVXFasterRCNN": "pts_", "CenterPoint": "pts_"}  # the beginning of the parts' names
ANCHOR_MAPS = {"cls_preds": "cls", "box_preds": "reg", "dir_cls_preds": "dir_cls"}
ENCODERS = {  # the encoders of voxels, and the middle encoder that each needs
    "PillarFeatureNet": "PointPillarsScatter",
    "HardVFE": "PointPillarsScatter",
    "HardSimpleVFE": "SparseEncoder",
}
PARTS = {
    "backbone": ("SECOND",),
    "neck": ("SECONDFPN",),
    "bbox_head": ("Anchor3DHead", "CenterHead"),
}
CHANNELS = [[16], [32, 32, 32], [64, 64, 64], [64, 64, 64]]  # the defaults of a SparseEncoder
PADDINGS: List[List[Any]] = [[1], [1, 1, 1], [1, 1, 1], [[0, 1, 1], 1, 1]]
ENCODER_SIZE, ENCODER_RANGE = (0.2, 0.2, 4), (0, -40, -3, 70.4, 40, 1)  # the defaults of an encoder
MMCV_EPS = 1e-5  # of a norm_cfg without eps
ALIGNED = {"AlignedAnchor3DRangeGenerator": "yes", "Anchor3DRangeGenerator": "no"}


def plan(config: Config, path: pathlib.Path) -> CheckpointPlan:
    model = config.at("model")
    if "data_preprocessor" in config:
        model.values.setdefault("data_preprocessor", config.values["data_preprocessor"])
    kind = model.choice("type", PREFIXES)
    prefix = PREFIXES[kind]
    middle = ENCODERS[model.at(f"{prefix}voxel_encoder").choice("type", ENCODERS)]
    for part, types in {"middle_encoder": (middle,), **PARTS}.items():
        if f"{prefix}{part}" in model:
            model.at(f"{prefix}{part}").choice("type", types)
    notes = check(MMDET3D, config)
    voxels, levels = _voxels(config), _backbone(model, prefix)
    rows, stem = (_sparse if middle == "SparseEncoder" else _pillars)(model, voxels, prefix)
    head, layers = HEADS[model.at(f"{prefix}bbox_head").text("type")](config, voxels, prefix)
    head.notes += notes

    def stem_of(state: State) -> Stem:
        head.notes += _check_axes(state, model)
        return stem(state)

    return CheckpointPlan(
        description=f"{kind} of mmdetection3d, converted from {path.name}",
        voxels=voxels,
        head=head,
        rows=rows,
        stem=stem_of,
        build=lambda state, network, x: layers(state, network, levels.build(state, network, x)),
    )


def _pillars(model: Config, voxels: Voxels, prefix: str) -> Tuple[Rows, StemOf]:
    name = f"{prefix}voxel_encoder"
    encoder = model.at(name)
    if f"{prefix}middle_encoder" in model:
        model.at(f"{prefix}middle_encoder").agree("output_shape", voxels.grid()[1::-1])

    def rows(inputs: int) -> List[int]:
        return _rows(encoder, inputs, voxels)

    return rows, lambda state: PillarEncoder(_encoder(state, encoder, name), rows, voxels)


def _sparse(model: Config, voxels: Voxels, prefix: str) -> Tuple[None, StemOf]:
    name = f"{prefix}middle_encoder"
    encoder, (nx, ny, nz) = model.at(name), voxels.grid()
    encoder.agree("sparse_shape", [nz + 1, ny, nx])
    voxels.pillars, voxels.columns = False, model.at(f"{prefix}voxel_encoder").whole("num_features", 4)
    parts, eps = sparse_parts(encoder), norm_eps(encoder, NORM_EPS)
    return None, lambda state: backbone.read(state, f"{name}.", parts, voxels, eps)


def sparse_parts(encoder: Config) -> List[backbone.Part]:
    """With conv_module, the strided layer between two levels is the first of the later level; with basicblock, it is
    the last of the earlier level."""
    widths = encoder.lists("encoder_channels") if "encoder_channels" in encoder else CHANNELS
    paddings = encoder.lists("encoder_paddings") if "encoder_paddings" in encoder else PADDINGS
    if [len(own) for own in widths] != [len(own) for own in paddings]:
        raise ConvertError(f"{encoder.path}.encoder_paddings does not have a padding for each of encoder_channels")
    blocks = encoder.get("block_type", "conv_module") == "basicblock"
    parts = [backbone.Part(backbone.CONV, "conv_input.0", encoder.whole("base_channels", 16))]
    for level, own in enumerate(widths):
        lowers = (len(own) - 1 if level < len(widths) - 1 else -1) if blocks else (0 if level else -1)
        for number, width in enumerate(encoder.numbers_of("encoder_channels", own)):
            name = f"encoder_layers.encoder_layer{level + 1}.{number}"
            if number == lowers:
                padding = _padding(encoder, paddings[level][number])
                parts.append(backbone.Part(backbone.DOWN, f"{name}.0", width, padding))
            elif blocks:
                parts.append(backbone.Part(backbone.BLOCK, name, width))
            else:
                parts.append(backbone.Part(backbone.CONV, f"{name}.0", width))
    return [*parts, backbone.Part(backbone.OUT, "conv_out.0", encoder.whole("output_channels", 128))]


def _padding(encoder: Config, padding: Any) -> backbone.Three:
    z, y, x = padding if isinstance(padding, list) and len(padding) == 3 else [padding] * 3
    if not {0, 1}.issuperset(encoder.numbers_of("encoder_paddings", (z, y, x))):
        raise ConvertError(f"{encoder.path}.encoder_paddings has {padding}; a layer may have a padding of 0 or 1")
    return z, y, x


def _check_axes(state: State, model: Config) -> List[str]:
    """Before 1.0, boxes had their widths first and other headings."""
    version = state.versions.get("mmdet3d", "1" if "mmengine" in state.versions else "")
    if version.partition(".")[0].isdigit():
        if int(version.partition(".")[0]) < 1:
            raise ConvertError(f"the checkpoint is of mmdetection3d {version}; before 1.0, boxes had other axes")
        return []
    head = model.at("bbox_head" if "bbox_head" in model else "pts_bbox_head")
    sizes = head.at("anchor_generator").value("sizes", list) if "anchor_generator" in head else []
    turned = [size[0] - size[1] for size in sizes if isinstance(size, list) and len(size) == 3]
    if turned and max(turned) <= 0 and min(turned) < 0:
        raise ConvertError(
            f"{head.path}.anchor_generator.sizes has widths before lengths, as mmdetection3d had before 1.0, "
            "when boxes had other axes"
        )
    return ["the checkpoint does not say its version of mmdetection3d; before 1.0, boxes had other axes"]


def _voxels(config: Config) -> Voxels:
    model = config.at("model")
    keys = [key for key in ("voxel_layer", "pts_voxel_layer") if key in model]  # of versions before 1.1
    layer = model.at(keys[0]) if keys else model.at("data_preprocessor").at("voxel_layer")
    ranged = layer if "point_cloud_range" in layer else config
    return Voxels(
        bounds=ranged.numbers("point_cloud_range", 6),
        size=layer.numbers("voxel_size", 3),
        cap=layer.whole("max_num_points"),
        most=layer.last("max_voxels"),
        points=points(config),
    )


def points(config: Config) -> Points:
    """Joined sweeps have a time in place of the fifth column."""
    data = below(config.values, "test_dataloader", "dataset") or below(config.values, "data", "test")
    kind, steps = data.get("type"), data.get("pipeline")
    columns, tanh = columns_of(kind), False
    for step in steps if isinstance(steps, list) else []:
        name = below(step).get("type")
        if name == "LoadPointsFromFile":
            columns, tanh = picked(columns, step.get("use_dim", [0, 1, 2])), step.get("norm_intensity") is True
        elif name == "LoadPointsFromMultiSweeps":
            columns = picked([*columns[:4], "time", *columns[5:]], step.get("use_dim", [0, 1, 2, 4]))
    return points_of(kind, columns, tanh)


def _rows(encoder: Config, inputs: int, voxels: Voxels) -> List[int]:
    pillars = encoder.text("type") == "PillarFeatureNet"  # other encoders have no offsets by default
    if encoder.get("with_voxel_center", pillars):
        encoder.agree("voxel_size", voxels.size, default=ENCODER_SIZE)
        encoder.agree("point_cloud_range", voxels.bounds, default=ENCODER_RANGE)
    voxels.columns = columns = encoder.whole("in_channels")
    mean = 3 if encoder.get("with_cluster_center", pillars) else 0
    center = inputs - columns - mean  # 3; 2 in old versions; 0 if there is none
    if center not in (0, 2, 3) or bool(center) != bool(encoder.get("with_voxel_center", pillars)):
        raise ConvertError(f"{encoder.path}: the first layer has {inputs} inputs for points of {columns} columns")
    rows = list(range(columns)) + list(range(columns, columns + mean))
    centers = list(range(columns + 3, columns + 3 + center))
    if encoder.get("legacy", pillars):  # the offsets from the centre replace the coordinates too
        rows[:center] = centers
    return rows + centers


def _encoder(state: State, encoder: Config, name: str) -> List[fold.Layer]:
    widths = encoder.integers("feat_channels")
    if encoder.text("type") == "HardVFE":
        name = f"{name}.vfe_layers"
    else:
        name, widths = f"{name}.pfn_layers", halved(widths)
    return encoder_layers(state, name, widths, eps=norm_eps(encoder, NORM_EPS))


def norm_eps(part: Config, default: float) -> float:
    """If norm_cfg has no eps, mmcv takes its own default, not the part's."""
    return float(part.at("norm_cfg").number("eps", MMCV_EPS)) if "norm_cfg" in part else default


def _backbone(model: Config, prefix: str) -> Backbone:
    backbone, neck = model.at(f"{prefix}backbone"), model.at(f"{prefix}neck")
    return Backbone(
        blocks=f"{prefix}backbone.blocks",
        first=0,
        deblocks=f"{prefix}neck.deblocks",
        layers=backbone.integers("layer_nums"),
        strides=backbone.integers("layer_strides"),
        channels=backbone.integers("out_channels"),
        up_strides=neck.numbers("upsample_strides"),
        up_channels=neck.integers("out_channels"),
        conv_for_no_stride=bool(neck.get("use_conv_for_no_stride", False)),
        eps=norm_eps(backbone, NORM_EPS),
        up_eps=norm_eps(neck, NORM_EPS),
    )


def _classes(config: Config, count: int) -> List[str]:
    if "class_names" in config:
        names = config.names("class_names")
    else:
        names = config.at("metainfo").names("classes")
    if len(names) != count:
        raise ConvertError(f"the configuration names {len(names)} classes, but the head has {count}")
    return names


def _anchor_head(config: Config, voxels: Voxels, prefix: str) -> Tuple[Head, Build]:
    head, test = config.at("model").at(f"{prefix}bbox_head"), config.at("model").at("test_cfg")
    test = test.at("pts") if prefix else test
    head.at("bbox_coder").expect("type", "DeltaXYZWLHRBBoxCoder")
    if not head.at("loss_cls").get("use_sigmoid", False):
        raise ConvertError(f"{head.path}.loss_cls.use_sigmoid: only scores by the sigmoid can be decoded")
    classes = _classes(config, head.whole("num_classes"))
    anchors = _anchors(head.at("anchor_generator"), voxels.bounds)
    values = 9 if anchors["velocity"] == "yes" else 7
    size = head.at("bbox_coder").whole("code_size", 7)
    if size != values:
        raise ConvertError(f"{head.path}.bbox_coder.code_size is {size}, but anchors have {values} values")
    count = len(anchors["anchor_sizes"]) // 3 * len(anchors["anchor_rotations"])
    channels = {"cls_preds": count * len(classes), "box_preds": count * values, "dir_cls_preds": count * 2}
    decode = {
        "head": "anchor",
        **anchors,
        "dir_offset": head.number("dir_offset", -math.pi / 2),
        "dir_limit_offset": head.number("dir_limit_offset", 0),
        "dir_bins": 2,
        "labels": "all",
        "score_threshold": test.number("score_thr"),
        "nms_threshold": test.number("nms_thr"),
        "nms_pre_max": test.whole("nms_pre"),
        "nms_post_max": test.whole("max_num"),
        "class_agnostic": "no",
    }
    names = {output: f"{prefix}bbox_head.conv_{end}" for output, end in ANCHOR_MAPS.items()}
    return Head(channels, {}, decode, classes), HeadLayers([anchor_task(channels, names)]).build


def _anchors(generator: Config, bounds: List[float]) -> Dict[str, Any]:
    kind = generator.choice("type", ALIGNED)
    sizes = [generator.numbers_of("sizes", size) for size in generator.lists("sizes")]
    ranges = [generator.numbers_of("ranges", values) for values in generator.lists("ranges")]
    ranges = ranges * len(sizes) if len(ranges) == 1 else ranges
    if len(ranges) != len(sizes) or any(len(size) != 3 for size in sizes):
        raise ConvertError(f"{generator.path} has {len(ranges)} ranges for {len(sizes)} sizes of three numbers")
    for values in ranges:
        if len(values) != 6 or [values[i] for i in (0, 1, 3, 4)] != [ranges[0][i] for i in (0, 1, 3, 4)]:
            raise ConvertError(f"{generator.path}.ranges has {values}, with anchors at other places than {ranges[0]}")
        if values[2] != values[5]:
            raise ConvertError(f"{generator.path}.ranges has {values}, with anchors at several heights")
    return {
        "point_cloud_range": [*ranges[0][:2], bounds[2], *ranges[0][3:5], bounds[5]],  # of the anchors
        "anchor_sizes": [number for size in sizes for number in size],
        "anchor_bottoms": [values[2] for values in ranges],
        "anchor_rotations": generator.numbers("rotations"),
        "velocity": "yes" if generator.get("custom_values", []) else "no",
        "align_center": ALIGNED[kind],
    }


def _center_head(config: Config, voxels: Voxels, prefix: str) -> Tuple[Head, Build]:
    if not prefix:
        raise ConvertError("model.bbox_head.type is CenterHead; a VoxelNet has an Anchor3DHead")
    head, test = config.at("model").at("pts_bbox_head"), config.at("model").at("test_cfg").at("pts")
    separate = head.at("separate_head") if "separate_head" in head else Config({"type": "SeparateHead"})
    separate.expect("type", "SeparateHead")
    coder = head.at("bbox_coder")
    coder.expect("type", "CenterPointBBoxCoder")
    coder.agree("pc_range", voxels.bounds[:2], voxels.bounds)
    coder.agree("voxel_size", voxels.size[:2], voxels.size)
    tasks = [task.names("class_names") for task in head.items("tasks")]
    branches = head.at("common_heads")
    maps = {"heatmap": "heatmap", "center": "reg", "height": "height", "dim": "dim", "rot": "rot"}
    if "vel" in branches:
        maps["vel"] = "vel"
    depth = {output: int(branches.numbers(name, 2)[1]) for output, name in maps.items() if output != "heatmap"}
    depth["heatmap"], width = head.whole("num_heatmap_convs", 2), head.whole("share_conv_channel", 64)
    layers = HeadLayers(
        center_tasks(tasks, maps, depth, width, "pts_bbox_head.task_heads.{}.{}", nested("conv", "bn")),
        ("pts_bbox_head.shared_conv.conv", "pts_bbox_head.shared_conv.bn"),
        width,
        norm_eps(head, CENTER_EPS),
        norm_eps(separate, CENTER_EPS),
    )
    made = center_head(
        voxels,
        layers.channels(),
        {f"{coder.path}.out_size_factor": coder.whole("out_size_factor")},
        tasks,
        rot_order="sin_cos",
        max_objects=coder.whole("max_num", 100),
        score_threshold=_score_threshold(coder, test),
        post_center_range=coder.numbers("post_center_range", 6),
        **_suppression(test, len(tasks)),
    )
    return made, layers.build


def _score_threshold(coder: Config, test: Config) -> float:
    """The box coder's threshold. That of the suppression of rotated boxes must not be higher."""
    threshold = coder.number("score_threshold") if coder.get("score_threshold", None) is not None else 0
    if test.get("nms_type", "") == "rotate" and test.number("score_threshold", 0) > threshold:
        raise ConvertError(
            f"{test.path}.score_threshold is {test.number('score_threshold')}, above the box coder's {threshold}; "
            "only one score threshold can be converted"
        )
    return float(threshold)


def _suppression(test: Config, tasks: int) -> Dict[str, Any]:
    most = {"nms_post_max": test.whole("post_max_size")}
    if test.choice("nms_type", ("rotate", "circle")) == "circle":
        return {**circles(test, "min_radius", tasks), **most}
    pre_max = test.whole("pre_max_size")
    return {"nms": "rotated", "nms_threshold": test.number("nms_thr"), "nms_pre_max": pre_max, **most}


def circles(test: Config, key: str, tasks: int) -> Dict[str, Any]:
    """The key has squares of distances."""
    squares = test.numbers(key, tasks)
    if any(square < 0 for square in squares):
        raise ConvertError(f"{test.path}.{key} is {squares}; expected no number below 0")
    return {"nms": "circle", "min_radius": [math.sqrt(square) for square in squares]}


HEADS = {"Anchor3DHead": _anchor_head, "CenterHead": _center_head}
