"""A converted model, and how its folder is written."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Protocol, Tuple

import numpy as np

from .fold import Layer
from .network import Map, Network, narrow
from .points import Points
from .state import Array, ConvertError, State

FORMAT = 1  # of model.json
MODEL, NETWORK = "model.json", "network.onnx"
ANY_HEIGHT = 2000  # metres
MOST_CELLS = 1 << 16  # along an axis
PILLAR_EXTRA = 6  # offsets from the mean, then offsets from the centre


@dataclasses.dataclass
class Voxels:
    bounds: List[float]  # point_cloud_range
    size: List[float]
    cap: int  # points that a voxel keeps; 0: all
    most: int  # voxels of a cloud
    columns: int = 0  # of a point
    any_height: bool = False  # whether points above and below the range are taken too
    pillars: bool = True  # the stem encodes pillars; otherwise it takes the mean of each voxel's points
    points: Points = dataclasses.field(default_factory=Points)  # the points that the model was trained on

    def __post_init__(self) -> None:
        for low, high, size in zip(self.bounds, self.bounds[3:], self.size):
            if not high > low or not (high - low) / MOST_CELLS < size:
                raise ConvertError(f"a range from {low} to {high} cannot be divided into voxels of {size}")

    def grid(self) -> List[int]:
        """Cells along x, y and z."""
        return [round((self.bounds[3 + axis] - self.bounds[axis]) / self.size[axis]) for axis in range(3)]

    def check_strides(self, strides: Dict[str, int], height: int, width: int) -> None:
        """Checks the cells of the head's maps. Errors name a stride by its key."""
        nx, ny, _ = self.grid()
        for name, stride in strides.items():
            if (nx // stride, ny // stride) != (width, height):
                raise ConvertError(f"{name} is {stride}, but the head's maps have {height} x {width} cells")

    def parameters(self) -> Dict[str, Any]:
        bounds, size = list(self.bounds), list(self.size)
        if self.any_height:  # one cell with the same middle
            middle = (bounds[2] + bounds[5]) / 2
            bounds[2], bounds[5], size[2] = middle - ANY_HEIGHT / 2, middle + ANY_HEIGHT / 2, ANY_HEIGHT
        return {
            "num_features": self.columns,
            **self.points.parameters(self.columns),
            "point_cloud_range": bounds,
            "voxel_size": size,
            "max_points_per_voxel": self.cap,
            "max_voxels": self.most,
            "feature": ["pillar" if self.pillars and self.cap else "mean"],
        }


class Reordered(NamedTuple):
    channels: List[int]  # for each channel of /v1/decode, the number of the network's channel
    factor: float = 1
    offset: float = 0  # added to the product


# For boxes with the width before the length, and an angle r whose heading here is -r - pi/2: sin(-r - pi/2) = -cos r,
# cos(-r - pi/2) = -sin r.
WIDTH_FIRST = {"dim": Reordered([1, 0, 2]), "rot": Reordered([1, 0], -1)}


@dataclasses.dataclass
class Head:
    channels: Dict[str, int]  # of its maps, by their names in /v1/decode; a network may lack dir_cls_preds
    strides: Dict[str, int]  # of its maps, by their key in the configuration
    decode: Dict[str, Any]  # parameters of /v1/decode
    class_names: List[str]  # in the order of the labels
    notes: List[str] = dataclasses.field(default_factory=list)  # differences from the model's own program
    # Maps whose channels /v1/decode has in another order or with other values.
    reordered: Dict[str, Reordered] = dataclasses.field(default_factory=dict)


def center_head(
    voxels: Voxels, channels: Dict[str, int], strides: Dict[str, int], tasks: List[List[str]], **decode: Any
) -> Head:
    """`decode` has the parameters of /v1/decode that do not follow from the other arguments."""
    (stride,) = strides.values()
    known = {
        "head": "center",
        "point_cloud_range": voxels.bounds,
        "voxel_size": voxels.size,
        "feature_map_stride": stride,
        "task_classes": [len(classes) for classes in tasks],
        "class_agnostic": "yes",
    }
    return Head(channels, strides, {**known, **decode}, [name for classes in tasks for name in classes])


Rows = Callable[[int], List[int]]  # the number of an encoder's inputs -> which value of a point's row each input is


class Stem(Protocol):
    """An encoder of pillars, or a backbone of sparse convolutions."""

    member: str  # of model.json
    file: str

    def map(self, network: Network) -> Map: ...  # the network's input

    def describe(self) -> str: ...

    def document(self) -> Dict[str, Any]: ...

    def tensors(self) -> Dict[str, Array]: ...  # of its file, float32


StemOf = Callable[[State], Stem]


@dataclasses.dataclass
class Plan:
    description: str
    voxels: Voxels
    head: Head
    rows: Optional[Rows]  # sets voxels.columns; None: the model has no encoder of pillars

    def model(self, stem: Stem, network: AnyNetwork) -> Model:
        self.voxels.check_strides(self.head.strides, *network.cells())
        return Model(self.description, self.voxels, stem, network, self.head)


@dataclasses.dataclass
class CheckpointPlan(Plan):
    """A plan for a model whose layers are in a checkpoint."""

    stem: StemOf
    build: Callable[[State, Network, Map], None]  # the network in front of the head, and the head

    def convert(self, state: State, network: Network) -> Model:
        stem = self.stem(state)
        self.build(state, network, stem.map(network))
        return self.model(stem, network)


class AnyNetwork(Protocol):
    half: bool  # its input is float16
    input_name: str
    layout: str  # of its outputs
    outputs: Dict[str, str]  # name in /v1/decode -> the network's name of the map

    def cells(self) -> Tuple[int, int]: ...  # height and width of the maps

    def describe(self) -> str: ...

    def model(self, doc: str) -> Any: ...  # as ONNX has it


@dataclasses.dataclass
class Model:
    description: str
    voxels: Voxels
    stem: Stem
    network: AnyNetwork
    head: Head

    def found(self) -> List[str]:
        named = self.voxels.points.parameters(self.voxels.columns).get("columns", [])
        names = f" ({', '.join(named)})" if named else ""
        return [
            f"{self.stem.member}: points of {self.voxels.columns} columns{names}, {self.stem.describe()}",
            f"network: {self.network.describe()}",
            f"head: {self.head.decode['head']}, classes {', '.join(self.head.class_names)}",
            *(f"note: {note}" for note in self.head.notes),
        ]

    def document(self) -> Dict[str, Any]:
        network = {"input": self.network.input_name, "outputs": self.network.outputs, "layout": self.network.layout}
        return {
            "format": FORMAT,
            "description": self.description,
            "class_names": self.head.class_names,
            "voxelize": {**self.voxels.parameters(), **({"feature_dtype": "float16"} if self.network.half else {})},
            self.stem.member: {"file": self.stem.file, **self.stem.document()},
            "network": {"file": NETWORK, **network},
            "decode": {**self.head.decode, "class_names": self.head.class_names},
        }

    def write(self, folder: pathlib.Path) -> None:
        """Writes the files, model.json last: a folder without model.json is not a model."""
        from safetensors.numpy import save

        if (folder / MODEL).exists():
            raise ConvertError(f"{folder} has a model already")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / self.stem.file).write_bytes(save(self.stem.tensors()))
        (folder / NETWORK).write_bytes(self.network.model(self.description).SerializeToString())
        (folder / MODEL).write_text(json.dumps(self.document(), indent=2) + "\n", encoding="utf-8")


class PillarEncoder:
    """Layers over a row of pillar_features: a point's columns, its offsets from the mean and from the centre."""

    member, file = "encoder", "encoder.safetensors"

    def __init__(self, layers: List[Layer], rows: Rows, voxels: Voxels) -> None:
        """`layers` have weight [width, inputs] and bias [width]. A value of the row that is no input of the first layer
        gets weights of 0."""
        self._voxels = voxels
        weight, bias = layers[0]
        self.rows = rows(weight.shape[1])
        spread: Array = np.zeros((voxels.columns + PILLAR_EXTRA, weight.shape[0]))
        for row, values in zip(self.rows, weight.T):
            spread[row] += values
        # weight [inputs, width] and bias [width], float64
        self.layers: List[Layer] = [(spread, bias), *((weight.T, bias) for weight, bias in layers[1:])]
        self.width: int = self.layers[-1][1].size

    def map(self, network: Network) -> Map:
        nx, ny, nz = self._voxels.grid()
        if nz != 1:
            raise ConvertError(f"a pillar is as high as the range, but the grid has {nz} cells along z")
        return network.input(self.width, ny, nx)

    def describe(self) -> str:
        shapes = ", then ".join(f"{weight.shape[0]} to {weight.shape[1]}" for weight, _ in self.layers)
        return f"values of a row {shapes}"

    def document(self) -> Dict[str, Any]:
        layers = {"layers": len(self.layers)} if len(self.layers) > 1 else {}
        return {"features": f"pillar{self.layers[0][0].shape[0]}", "width": self.width, **layers}

    def tensors(self) -> Dict[str, Array]:
        """weight, bias, weight_1, bias_1, and so on."""
        return {
            name: narrow(name, values, np.float32)
            for number, layer in enumerate(self.layers)
            for part, values in zip(("weight", "bias"), layer)
            for name in [f"{part}_{number}" if number else part]
        }
