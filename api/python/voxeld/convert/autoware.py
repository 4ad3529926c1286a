"""Autoware's CenterPoint, with parameters of ROS."""

from __future__ import annotations

import pathlib
from typing import Any, Dict, List

from .config import Config
from .model import WIDTH_FIRST, Head, Plan, Voxels, center_head
from .state import ConvertError

POINTS_OF_A_PILLAR = 32  # a constant in Autoware's source
GROUPS = ("model_params", "post_process_params")
MOST = 1 << 20  # of max_objects and nms_post_max


def is_autoware(config: Config) -> bool:
    return "/**" in config


def joined(configs: List[Config]) -> Config:
    """The parameters of all files; those in GROUPS are also at the top, as in older files."""
    joined: Dict[str, Any] = {}
    for config in configs:
        values = config.at("/**").value("ros__parameters", dict)
        for each in (values, *(values.get(name, {}) for name in GROUPS)):
            joined.update(each)
    return Config(joined, "ros__parameters")


def plan(model: Config, path: pathlib.Path) -> Plan:
    columns, inputs = model.whole("point_feature_size"), model.whole("encoder_in_feature_size")
    if model.get("has_variance", False):
        raise ConvertError("ros__parameters.has_variance: variances of boxes cannot be decoded")
    voxels = Voxels(
        bounds=model.numbers("point_cloud_range", 6),
        size=model.numbers("voxel_size", 3),
        cap=POINTS_OF_A_PILLAR,
        most=model.whole("max_voxel_size"),
    )

    def rows(found: int) -> List[int]:
        voxels.columns = columns
        if found != inputs:
            raise ConvertError(f"the encoder has {found} inputs; encoder_in_feature_size is {inputs}")
        if inputs - columns not in (5, 6):
            allowed = f"{columns + 5} or {columns + 6}"
            raise ConvertError(f"encoder_in_feature_size is {inputs}; allowed with {columns} columns: {allowed}")
        return list(range(inputs))  # the offset from the centre may lack z

    return Plan(f"CenterPoint of Autoware, converted from {path.name}", voxels, _head(model, voxels), rows)


def _head(model: Config, voxels: Voxels) -> Head:
    classes, stride = model.names("class_names"), model.whole("downsample_factor")
    nx, ny, _ = voxels.grid()
    most = min(MOST, (nx // stride) * (ny // stride))
    head = center_head(
        voxels,
        {"heatmap": len(classes), "center": 2, "height": 1, "dim": 3, "rot": 2, "vel": 2},
        {"ros__parameters.downsample_factor": stride},
        [classes],
        rot_order="sin_cos",
        cell_labels="best",
        max_objects=most,
        score_threshold=_threshold(model),
        nms="circle",
        min_radius=[model.number("circle_nms_dist_threshold")],
        nms_post_max=most,
    )
    head.notes = [
        "yaw_norm_thresholds and Autoware's suppression by overlap, which follows its circle NMS, are not applied"
    ]
    head.reordered = WIDTH_FIRST
    return head


def _threshold(model: Config) -> float:
    if "score_threshold" in model:
        return float(model.number("score_threshold"))
    found = {value for values in model.at("score_thresholds").value("thresholds", dict).values() for value in values}
    if len(found) != 1:
        raise ConvertError("ros__parameters.score_thresholds differ by class or distance; only one can be converted")
    return float(found.pop())
