"""A converted model, and how its folder is written."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any, Dict, List

import numpy as np

from .fold import Layer
from .network import Map, Network, narrow
from .state import Array, ConvertError

FORMAT = 1  # of model.json
MODEL, ENCODER, NETWORK = "model.json", "encoder.safetensors", "network.onnx"
INPUT = "bev_features"
ANY_HEIGHT = 2000  # metres
PILLAR_EXTRA = 6  # offsets from the mean, then offsets from the centre


@dataclasses.dataclass
class Voxels:
    """How points become pillars."""

    bounds: List[float]  # point_cloud_range
    size: List[float]
    cap: int  # points that a pillar keeps; 0: all
    most: int  # pillars of a cloud
    columns: int = 0  # of a point
    any_height: bool = False  # whether points above and below the range are taken too

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
        bounds, size = list(self.bounds), list(self.size)
        if self.any_height:  # one cell with the same middle
            middle = (bounds[2] + bounds[5]) / 2
            bounds[2], bounds[5], size[2] = middle - ANY_HEIGHT / 2, middle + ANY_HEIGHT / 2, ANY_HEIGHT
        return {
            "num_features": self.columns,
            "point_cloud_range": bounds,
            "voxel_size": size,
            "max_points_per_voxel": self.cap,
            "max_voxels": self.most,
            "feature": ["pillar" if self.cap else "mean"],
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
    encoder: List[Layer]  # weight [inputs, width] and bias [width] of each, float64
    network: Network
    head: Head

    def found(self) -> List[str]:
        """What there was, for people."""
        shapes = ", then ".join(f"{weight.shape[0]} to {weight.shape[1]}" for weight, _ in self.encoder)
        return [
            f"encoder: points of {self.voxels.columns} columns, values of a row {shapes}",
            f"network: {self.network.describe()}",
            f"head: {self.head.decode['head']}, classes {', '.join(self.head.class_names)}",
            *(f"note: {note}" for note in self.head.notes),
        ]

    def document(self) -> Dict[str, Any]:
        encoder = {
            "file": ENCODER,
            "features": f"pillar{self.encoder[0][0].shape[0]}",
            "width": self.encoder[-1][1].size,
        }
        if len(self.encoder) > 1:
            encoder["layers"] = len(self.encoder)
        outputs = {name: name for name in self.head.outputs}
        return {
            "format": FORMAT,
            "description": self.description,
            "class_names": self.head.class_names,
            "voxelize": {**self.voxels.parameters(), **({"feature_dtype": "float16"} if self.network.half else {})},
            "encoder": encoder,
            "network": {"file": NETWORK, "input": INPUT, "outputs": outputs, "layout": "nhwc"},
            "decode": {**self.head.decode, "class_names": self.head.class_names},
        }

    def encoder_tensors(self) -> Dict[str, Array]:
        """weight and bias of the first layer, weight_1 and bias_1 of the next, and so on."""
        tensors = {}
        for number, layer in enumerate(self.encoder):
            for name, values in zip(("weight", "bias"), layer):
                tensors[f"{name}_{number}" if number else name] = narrow(values, np.float32)
        return tensors

    def write(self, folder: pathlib.Path) -> None:
        """Writes the files, model.json last: a folder without it is no model."""
        from safetensors.numpy import save

        if (folder / MODEL).exists():
            raise ConvertError(f"{folder} has a model already")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ENCODER).write_bytes(save(self.encoder_tensors()))
        (folder / NETWORK).write_bytes(self.network.model(self.description).SerializeToString())
        (folder / MODEL).write_text(json.dumps(self.document(), indent=2) + "\n", encoding="utf-8")


def pillar_encoder(layers: List[Layer], rows: List[int], columns: int) -> List[Layer]:
    """The encoder over a point's row of pillar_features: its columns, its offsets from the mean and from the centre.

    Of the first layer [width, inputs], `rows` says for each input which value of the row it is. A value that the layer
    does not have gets weights of 0.
    """
    weight, bias = layers[0]
    spread: Array = np.zeros((columns + PILLAR_EXTRA, weight.shape[0]))
    for row, values in zip(rows, weight.T):
        spread[row] += values
    return [(spread, bias), *((weight.T, bias) for weight, bias in layers[1:])]
