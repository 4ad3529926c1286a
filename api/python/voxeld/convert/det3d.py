"""CenterPoint of tianweiy/CenterPoint, which is built on det3d.

A box of det3d has its width before its length, and its heading r is the heading -r - pi/2 here. The last convolutions
of the maps `dim` and `rot` are rearranged to give the boxes of the other projects."""

from __future__ import annotations

import pathlib
from typing import Any, Dict, List, Tuple

from . import backbone, fold
from .config import Config
from .keys import DET3D, check
from .layers import CENTER_EPS, NORM_EPS, Backbone, Build, HeadLayers, center_tasks, encoder_layers, flat, halved
from .mmdet3d import ENCODER_RANGE, ENCODER_SIZE, circles, norm_eps
from .model import WIDTH_FIRST, CheckpointPlan, Head, PillarEncoder, Reordered, Rows, StemOf, Voxels, center_head
from .points import Points, below, columns_of, points_of
from .state import ConvertError, State

PILLARS, DYNAMIC = "PointPillars", "DynamicVoxelEncoder"
Parts = Dict[str, Tuple[str, ...]]
COMMON: Parts = {"neck": ("RPN",), "bbox_head": ("CenterHead",)}
PARTS: Dict[str, Parts] = {  # by the model's type
    PILLARS: {"reader": ("PillarFeatureNet",), "backbone": ("PointPillarsScatter",), **COMMON},
    "VoxelNet": {
        "reader": ("VoxelFeatureExtractorV3", DYNAMIC),
        "backbone": ("SpMiddleResNetFHD", "SpMiddleFHD"),
        **COMMON,
    },
}
MAPS = {"heatmap": "hm", "center": "reg", "height": "height", "dim": "dim", "rot": "rot"}
OVERLAP = {"iou": Reordered([0], 2, -1)}  # the map has the overlap; /v1/decode takes 2 * overlap - 1
MOST_VOXELS = 1 << 24
MOST_OBJECTS = 4096  # candidates of a task; det3d has no limit


def plan(config: Config, path: pathlib.Path) -> CheckpointPlan:
    model = config.at("model")
    kind = model.choice("type", PARTS)
    for part, types in PARTS[kind].items():
        model.at(part).choice("type", types)
    notes = check(DET3D, config)
    voxels, levels = _voxels(config), _backbone(model.at("neck"))
    rows, stem = (_pillars if kind == PILLARS else _sparse)(model, voxels)
    head, layers = _head(config, voxels)
    head.notes += notes
    return CheckpointPlan(
        description=f"CenterPoint of det3d, converted from {path.name}",
        voxels=voxels,
        head=head,
        rows=rows,
        stem=stem,
        build=lambda state, network, x: layers(state, network, levels.build(state, network, x)),
    )


def _pillars(model: Config, voxels: Voxels) -> Tuple[Rows, StemOf]:
    reader = model.at("reader")

    def rows(inputs: int) -> List[int]:
        return _rows(reader, inputs, voxels)

    return rows, lambda state: PillarEncoder(_encoder(state, reader), rows, voxels)


def _sparse(model: Config, voxels: Voxels) -> Tuple[None, StemOf]:
    reader, own = model.at("reader"), model.at("backbone")
    voxels.pillars, voxels.columns = False, own.whole("num_input_features", 128)
    if reader.text("type") != DYNAMIC and reader.whole("num_input_features", 4) != voxels.columns:
        raise ConvertError(f"{reader.path}.num_input_features is not {voxels.columns}, as in {own.path}")
    parts, eps = backbone.CHAINS[own.text("type")].parts(), norm_eps(own, NORM_EPS)
    return None, lambda state: backbone.read(state, "backbone.", parts, voxels, eps)


def _voxels(config: Config) -> Voxels:
    reader = config.at("model").at("reader")
    if reader.text("type") == DYNAMIC:
        bounds, size = reader.numbers("pc_range", 6), reader.numbers("voxel_size", 3)
        return Voxels(bounds, size, cap=0, most=MOST_VOXELS, points=points(config))
    generator = config.at("voxel_generator")
    return Voxels(
        bounds=generator.numbers("range", 6),
        size=generator.numbers("voxel_size", 3),
        cap=generator.whole("max_points_in_voxel"),
        most=generator.last("max_voxel_num"),
        points=points(config),
    )


def points(config: Config) -> Points:
    """Joined sweeps have a time after the other columns. nuScenes always has the time, in place of its ring."""
    kind = below(config.values, "data", "test").get("type")
    nuscenes, sweeps = kind == "NuScenesDataset", config.values.get("nsweeps", 1)
    columns = columns_of(kind)[: 4 if nuscenes else 5]
    return points_of(kind, [*columns, "time"] if nuscenes or sweeps != 1 else columns, kind == "WaymoDataset")


def _rows(reader: Config, inputs: int, voxels: Voxels) -> List[int]:
    reader.agree("voxel_size", voxels.size, default=ENCODER_SIZE)
    reader.agree("pc_range", voxels.bounds, default=ENCODER_RANGE)
    voxels.columns = reader.whole("num_input_features", 4)
    if inputs != voxels.columns + 5:
        raise ConvertError(f"{reader.path}: the first layer has {inputs} inputs for points of {voxels.columns} columns")
    return list(range(inputs))  # the offset from the centre has no z


def _encoder(state: State, reader: Config) -> List[fold.Layer]:
    widths = halved(reader.integers("num_filters"))
    return encoder_layers(state, "reader.pfn_layers", widths, eps=norm_eps(reader, NORM_EPS))


def _backbone(neck: Config) -> Backbone:
    eps = norm_eps(neck, NORM_EPS)
    return Backbone(
        blocks="neck.blocks",
        first=1,  # after the padding
        deblocks="neck.deblocks",
        layers=neck.integers("layer_nums"),
        strides=neck.integers("ds_layer_strides"),
        channels=neck.integers("ds_num_filters"),
        up_strides=neck.numbers("us_layer_strides"),
        up_channels=neck.integers("us_num_filters"),
        conv_for_no_stride=True,
        eps=eps,
        up_eps=eps,
    )


def _head(config: Config, voxels: Voxels) -> Tuple[Head, Build]:
    head, test = config.at("model").at("bbox_head"), config.at("test_cfg")
    tasks = [task.names("class_names") for task in head.items("tasks")]
    branches = head.at("common_heads")
    others = ("vel", "iou") if "rectifier" not in test else ("vel",)  # a rectifier of 0 leaves the map iou out
    maps = {**MAPS, **{name: name for name in others if name in branches}}
    depth = {output: int(branches.numbers(name, 2)[1]) for output, name in maps.items() if output != "heatmap"}
    depth["heatmap"], width = head.whole("num_hm_conv", 2), head.whole("share_conv_channel", 64)
    layers = HeadLayers(
        center_tasks(tasks, maps, depth, width, "bbox_head.tasks.{}.{}", flat),
        ("bbox_head.shared_conv.0", "bbox_head.shared_conv.1"),
        width,
        shared_eps=CENTER_EPS,
        reordered={**WIDTH_FIRST, **OVERLAP},
    )
    test.agree("pc_range", voxels.bounds[:2], voxels.bounds)
    test.agree("voxel_size", voxels.size[:2], voxels.size)
    threshold, rectified = test.number("score_threshold"), {}
    if "iou" in maps:
        rectified = {"iou_power": test.number("cf_weight", 2), "rectified_threshold": threshold}
    made = center_head(
        voxels,
        layers.channels(),
        {f"{test.path}.out_size_factor": test.whole("out_size_factor")},
        tasks,
        rot_order="sin_cos",
        cell_labels="best",
        max_objects=MOST_OBJECTS,
        score_threshold=threshold,
        **rectified,
        post_center_range=test.numbers("post_center_limit_range", 6),
        **_suppression(test, len(tasks)),
    )
    return made, layers.build


def _suppression(test: Config, tasks: int) -> Dict[str, Any]:
    nms = test.at("nms")
    most = {"nms_post_max": nms.whole("nms_post_max_size")}
    if test.get("circular_nms", False):
        return {**circles(test, "min_radius", tasks), **most}
    pre_max = nms.whole("nms_pre_max_size")
    return {"nms": "rotated", "nms_threshold": nms.number("nms_iou_threshold"), "nms_pre_max": pre_max, **most}
