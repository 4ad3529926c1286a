"""A converted model, and how its folder is written."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any, Dict, List

import numpy as np

from .fold import Layer
from .network import Map, Network
from .state import Array, ConvertError

FORMAT = 1  # of model.json
MODEL, ENCODER, NETWORK = "model.json", "encoder.safetensors", "network.onnx"
INPUT = "bev_features"
PILLAR_EXTRA = 6  # offsets from the mean, then offsets from the centre


@dataclasses.dataclass
class Voxels:
    """How points become pillars."""

    bounds: List[float]  # point_cloud_range
    size: List[float]
    cap: int  # points that a pillar keeps
    most: int  # pillars of a cloud
    columns: int = 0  # of a point

    def grid(self) -> List[int]:
        """Cells along x, y and z."""
        return [round((self.bounds[3 + axis] - self.bounds[axis]) / self.size[axis]) for axis in range(3)]

    def map(self, network: Network, width: int) -> Map:
        """The network's input."""
        nx, ny, nz = self.grid()
        if nz != 1:
            raise ConvertError(f"a pillar is as high as the range, but the grid has {nz} cells along z")
        return network.input(INPUT, width, ny, nx)

    def check_stride(self, name: str, stride: int, x: Map) -> None:
        nx, ny, _ = self.grid()
        if (nx // stride, ny // stride) != (x.width, x.height):
            raise ConvertError(f"{name} is {stride}, but the head's maps have {x.height} x {x.width} cells")

    def parameters(self) -> Dict[str, Any]:
        """Those of /v1/voxelize."""
        return {
            "num_features": self.columns,
            "point_cloud_range": self.bounds,
            "voxel_size": self.size,
            "max_points_per_voxel": self.cap,
            "max_voxels": self.most,
            "feature": ["pillar"],
        }


@dataclasses.dataclass
class Head:
    outputs: List[str]  # its maps, as /v1/decode calls them: the network's outputs
    decode: Dict[str, Any]  # parameters of /v1/decode
    class_names: List[str]  # in the order of the labels
    notes: List[str] = dataclasses.field(default_factory=list)  # what will differ from the model's own program


@dataclasses.dataclass
class Model:
    description: str
    voxels: Voxels
    encoder: Layer  # [columns + 6, width] and [width], float64
    network: Network
    head: Head

    def found(self) -> List[str]:
        """What there was, for people."""
        features, width = self.encoder[0].shape
        return [
            f"encoder: points of {self.voxels.columns} columns, {features} values of a row, {width} features",
            f"network: {self.network.describe()}",
            f"head: {self.head.decode['head']}, classes {', '.join(self.head.class_names)}",
            *(f"note: {note}" for note in self.head.notes),
        ]

    def document(self) -> Dict[str, Any]:
        features, width = self.encoder[0].shape
        outputs = {name: name for name in self.head.outputs}
        return {
            "format": FORMAT,
            "description": self.description,
            "class_names": self.head.class_names,
            "voxelize": self.voxels.parameters(),
            "encoder": {"file": ENCODER, "features": f"pillar{features}", "width": width},
            "network": {"file": NETWORK, "input": INPUT, "outputs": outputs, "layout": "nhwc"},
            "decode": {**self.head.decode, "class_names": self.head.class_names},
        }

    def write(self, folder: pathlib.Path) -> None:
        """Writes the files, model.json last: a folder without it is no model."""
        from safetensors.numpy import save

        if (folder / MODEL).exists():
            raise ConvertError(f"{folder} has a model already")
        folder.mkdir(parents=True, exist_ok=True)
        weight, bias = (np.ascontiguousarray(part, np.float32) for part in self.encoder)
        (folder / ENCODER).write_bytes(save({"weight": weight, "bias": bias}))
        (folder / NETWORK).write_bytes(self.network.model(self.description).SerializeToString())
        (folder / MODEL).write_text(json.dumps(self.document(), indent=2) + "\n", encoding="utf-8")


def pillar_encoder(layer: Layer, rows: List[int], columns: int) -> Layer:
    """The encoder over a point's row of pillar_features: its columns, its offsets from the mean and from the centre.

    `rows` says for each input of the layer [width, inputs] which value of the row it is. A value that the layer does
    not have gets weights of 0.
    """
    weight, bias = layer
    spread: Array = np.zeros((columns + PILLAR_EXTRA, weight.shape[0]))
    for row, values in zip(rows, weight.T):
        spread[row] += values
    return spread, bias
