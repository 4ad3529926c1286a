"""The operations and parameters of the command line. A scan is one cloud and one sweep, so parameters for several
clouds or sweeps are not options."""

from __future__ import annotations

from typing import Dict, List

from ..operations import PARAMETERS
from ..parameters import Parameter

DETECT = "detect"  # the operation whose answers can be printed
OPERATIONS: Dict[str, str] = {
    "voxelize": "make voxels of each scan",
    "fps": "choose farthest point samples of each scan",
    "range_image": "make a range image of each scan",
    "points": "apply steps to the points of each scan, or only convert them to rows of float32",
    "transform": "move, crop and cut the points of each scan",
    DETECT: "find boxes in each scan",
    "backbone": "make features of each scan by a model's sparse backbone",
    "serialize": "order the points of each scan along curves",
}
SEVERAL = ("point_counts", "times", "poses")
STREAM = "stream"
STEP = "."  # in the name of a step's parameter, after the step's tag
SWEEP = ("time", "pose")  # parameters that differ between the sweeps of a stream


def takes_preset(operation: str) -> bool:
    return any(row.name == "preset" and operation in row.operations for row in PARAMETERS)


def parameters_of(operation: str) -> List[Parameter]:
    return [row for row in PARAMETERS if operation in row.operations and row.name not in SEVERAL]


def parameters_of_any() -> List[Parameter]:
    """The first row of each name."""
    rows = [row for operation in OPERATIONS for row in parameters_of(operation)]
    return list({row.name: row for row in reversed(rows)}.values())[::-1]
