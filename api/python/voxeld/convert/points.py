"""The points that a model was trained on, as far as its data set describes them."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

XYZ = ["x", "y", "z"]
TIMES = {"timestamp": "time"}  # a project's name of a column -> the name in a model
TANH: List[float] = [0, 1]  # the range of intensities after tanh


class DataSet(NamedTuple):
    columns: List[str]  # of its files
    intensity_range: Optional[List[float]]
    ground_z: float  # metres


DATA_SETS = {  # by the names of classes, which OpenPCDet, mmdetection3d and det3d share
    "KittiDataset": DataSet([*XYZ, "intensity"], [0, 1], -1.73),
    "NuScenesDataset": DataSet([*XYZ, "intensity", "ring"], [0, 255], -1.84),
    "WaymoDataset": DataSet([*XYZ, "intensity", "elongation"], None, 0),
}


@dataclasses.dataclass
class Points:
    columns: List[str] = dataclasses.field(default_factory=list)  # empty if the configuration does not name them
    intensity_range: Optional[List[float]] = None
    ground_z: Optional[float] = None

    def parameters(self, count: int) -> Dict[str, Any]:
        """What is known of points of `count` columns; without a name for each column, only ground_z."""
        found: Dict[str, Any] = {}
        if len(set(self.columns)) == len(self.columns) == count and self.columns[:3] == XYZ:
            found["columns"] = self.columns
            if self.intensity_range and "intensity" in self.columns:
                found["intensity_range"] = self.intensity_range
        if self.ground_z is not None:
            found["ground_z"] = self.ground_z
        return found


def _data_set(kind: Any) -> Optional[DataSet]:
    return DATA_SETS.get(kind) if isinstance(kind, str) else None


def columns_of(kind: Any) -> List[str]:
    data_set = _data_set(kind)
    return data_set.columns if data_set else []


def points_of(kind: Any, columns: Sequence[str], tanh: bool = False) -> Points:
    """`kind`: the name of the data set's class. `tanh`: the project takes the tanh of intensities."""
    data_set = _data_set(kind)
    names = [TIMES.get(name, name) for name in columns]
    if not data_set:
        return Points(names, TANH if tanh else None)
    return Points(names, TANH if tanh else data_set.intensity_range, data_set.ground_z)


def picked(columns: Sequence[str], use: Any) -> List[str]:
    """The columns with the numbers in `use`, or the first `use` columns. Empty if one of them has no name."""
    numbers = range(use) if isinstance(use, int) else use
    if not isinstance(numbers, (list, tuple, range)) or not all(type(number) is int for number in numbers):
        return []
    if any(not 0 <= number < len(columns) for number in numbers):
        return []
    return [columns[number] for number in numbers]


def below(values: Any, *keys: str) -> Dict[str, Any]:
    """The dict at the keys; an empty one if there is none."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}
