"""The backbone of sparse convolutions in SECOND and CenterPoint (kernels/sparse.h). The names of its layers depend on
the project, the layouts of its weights on the version of spconv that wrote the checkpoint."""

from __future__ import annotations

import dataclasses
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from . import fold
from .model import Voxels
from .network import Map, Network, narrow
from .state import Array, ConvertError, State

MOST_LAYERS, MOST_LEVELS, MOST_SIDE, MOST_WIDTH, WIDTH_STEP = 32, 8, 1 << 15, 128, 16  # of kernels/sparse.h
Three = Tuple[int, int, int]  # along z, y and x


class Kind(NamedTuple):
    kernel: Three
    stride: Optional[Three]  # None: submanifold
    block: bool = False  # two convolutions; the second adds the input of the first


CONV, BLOCK = Kind((3, 3, 3), None), Kind((3, 3, 3), None, block=True)
DOWN, OUT = Kind((3, 3, 3), (2, 2, 2)), Kind((3, 1, 1), (2, 1, 1))


class Part(NamedTuple):
    kind: Kind
    name: str  # of the block, or of the convolution; the norm has the next number
    width: int
    padding: Three = (0, 0, 0)  # of a strided part

    def names(self) -> List[Tuple[str, str]]:
        """(convolution, norm) of each convolution."""
        if self.kind.block:
            return [(f"{self.name}.conv{number}", f"{self.name}.bn{number}") for number in (1, 2)]
        place, _, number = self.name.rpartition(".")
        return [(self.name, f"{place}.{int(number) + 1}")]


class Chain(NamedTuple):
    """Every level but the first begins with a strided layer."""

    kind: Kind  # of all parts but the first of each level
    widths: Tuple[int, ...]  # of the levels
    names: Tuple[str, ...]  # for each level, the names of its parts, separated by spaces
    out: str  # the name of the last layer

    def parts(self) -> List[Part]:
        parts = []
        for level, (width, names) in enumerate(zip(self.widths, self.names)):
            first, *others = names.split()
            padding = (0, 1, 1) if level == 3 else (1, 1, 1)  # none along z in the last level
            parts.append(Part(DOWN, first, width, padding) if level else Part(CONV, first, width))
            parts += [Part(self.kind, name, width) for name in others]
        return [*parts, Part(OUT, self.out, 128)]


PLAIN, RESIDUAL = (16, 32, 64, 64), (16, 32, 64, 128)
CHAINS = {
    # OpenPCDet
    "VoxelBackBone8x": Chain(
        CONV,
        PLAIN,
        (
            "conv_input.0 conv1.0.0",
            "conv2.0.0 conv2.1.0 conv2.2.0",
            "conv3.0.0 conv3.1.0 conv3.2.0",
            "conv4.0.0 conv4.1.0 conv4.2.0",
        ),
        "conv_out.0",
    ),
    "VoxelResBackBone8x": Chain(
        BLOCK,
        RESIDUAL,
        (
            "conv_input.0 conv1.0 conv1.1",
            "conv2.0.0 conv2.1 conv2.2",
            "conv3.0.0 conv3.1 conv3.2",
            "conv4.0.0 conv4.1 conv4.2",
        ),
        "conv_out.0",
    ),
    # det3d
    "SpMiddleResNetFHD": Chain(
        BLOCK,
        RESIDUAL,
        (
            "conv_input.0 conv1.0 conv1.1",
            "conv2.0 conv2.3 conv2.4",
            "conv3.0 conv3.3 conv3.4",
            "conv4.0 conv4.3 conv4.4",
        ),
        "extra_conv.0",
    ),
    "SpMiddleFHD": Chain(
        CONV,
        PLAIN,
        (
            "middle_conv.0 middle_conv.3",
            "middle_conv.6 middle_conv.9 middle_conv.12",
            "middle_conv.15 middle_conv.18 middle_conv.21 middle_conv.24",
            "middle_conv.27 middle_conv.30 middle_conv.33 middle_conv.36",
        ),
        "middle_conv.39",
    ),
}


class Convolution(NamedTuple):
    name: str
    norm: str
    inputs: int
    part: Part
    adds: bool  # whether it adds the input of the convolution before

    def sizes(self) -> Tuple[int, ...]:
        """Kernel, inputs, outputs."""
        return (*self.part.kind.kernel, self.inputs, self.part.width)


def _convolutions(parts: Sequence[Part], columns: int) -> Iterator[Convolution]:
    inputs = columns
    for part in parts:
        for number, (name, norm) in enumerate(part.names()):
            yield Convolution(name, norm, inputs, part, number == 1)
            inputs = part.width


class Layout(NamedTuple):
    """The axes of a weight's inputs and outputs; the other three are the kernel's."""

    inputs: int
    outputs: int

    def axes(self) -> List[int]:
        """Kernel, inputs, outputs."""
        return [*(axis for axis in range(5) if axis not in self), *self]

    def shape(self, layer: Convolution) -> Tuple[int, ...]:
        lengths = dict(zip(self.axes(), layer.sizes()))
        return tuple(lengths[axis] for axis in range(5))


SPCONV_2, SPCONV_1, NATIVE = Layout(4, 0), Layout(3, 4), Layout(4, 3)  # NATIVE: ConvAlgo.Native of 2.0 and 2.1
LAYOUTS = (SPCONV_2, SPCONV_1, NATIVE)


def _layout(state: State, place: str, layers: Sequence[Convolution]) -> Layout:
    fits = set(LAYOUTS)
    for layer in layers:
        name = f"{place}{layer.name}.weight"
        shape = tuple(state.shape(name))
        own = {layout for layout in LAYOUTS if layout.shape(layer) == shape}
        if not own:
            wanted = " or ".join(str(list(layout.shape(layer))) for layout in (SPCONV_2, SPCONV_1))
            raise ConvertError(f"{name} has the shape {list(shape)}; the configuration asks for {wanted}")
        if not fits & own:
            raise ConvertError(f"{name} has the shape {list(shape)}; the weights before it have another layout")
        fits &= own
    if len(fits) > 1:
        raise ConvertError(
            f"the weights below {place} have as many inputs as outputs, so their shapes do not tell the layout of "
            "spconv 1 from the layout of the native algorithm of spconv 2.0"
        )
    return fits.pop()


class SparseLayer(NamedTuple):
    of: Convolution
    weight: Array  # [offsets, inputs, width]
    bias: Array

    def document(self) -> Dict[str, Any]:
        kind, padding = self.of.part.kind, self.of.part.padding
        found = {"name": self.of.name, "kind": "strided" if kind.stride else "submanifold"}
        sizes = {"in": self.of.inputs, "out": self.of.part.width, "kernel": list(kind.kernel)}
        strided = {"stride": list(kind.stride), "padding": list(padding)} if kind.stride else {}
        return {**found, **sizes, **strided, **({"adds": True} if self.of.adds else {})}


@dataclasses.dataclass
class SparseBackbone:
    shape: Three  # cells of the grid
    layers: List[SparseLayer]
    member, file = "backbone", "backbone.safetensors"

    def map(self, network: Network) -> Map:
        """The last level seen from above, with a channel for each value and each cell along z."""
        shape = list(self.shape)
        for layer in self.layers:
            kernel, stride, _ = layer.of.part.kind
            if stride:
                sizes = zip(shape, kernel, stride, layer.of.part.padding)
                shape = [(cells + 2 * padding - side) // step + 1 for cells, side, step, padding in sizes]
        if min(shape) < 1:
            raise ConvertError(f"the backbone leaves no cells of a grid of {' x '.join(map(str, self.shape))}")
        return network.input(self.layers[-1].bias.size * shape[0], shape[1], shape[2], wide=True)

    def describe(self) -> str:
        cells = " x ".join(map(str, self.shape))
        return f"{len(self.layers)} layers of sparse convolution, {cells} cells to {self.layers[-1].bias.size} values"

    def document(self) -> Dict[str, Any]:
        return {"shape": list(self.shape), "layers": [layer.document() for layer in self.layers]}

    def tensors(self) -> Dict[str, Array]:
        return {
            name: narrow(name, values, np.float32)
            for layer in self.layers
            for part, values in (("weight", layer.weight), ("bias", layer.bias))
            for name in [f"{layer.of.name}.{part}"]
        }


def read(state: State, place: str, parts: Sequence[Part], voxels: Voxels, eps: float) -> SparseBackbone:
    """The layers below a place of the state, with their norms folded in. The grid has one more cell along z than the
    voxels."""
    nx, ny, nz = voxels.grid()
    shape = nz + 1, ny, nx
    convolutions = list(_convolutions(parts, voxels.columns))
    _check_limits(convolutions, shape)
    layout = _layout(state, place, convolutions)
    layers = []
    for each in convolutions:
        name, norm = f"{place}{each.name}", f"{place}{each.norm}"
        weight, bias = fold.layer(state, name, layout.shape(each), norm, eps, layout.outputs)
        weight = weight.transpose(layout.axes()).reshape(-1, each.inputs, each.part.width)
        layers.append(SparseLayer(each, weight, bias))
    return SparseBackbone(shape, layers)


def _check_limits(layers: Sequence[Convolution], shape: Three) -> None:
    widths = sorted({layer.part.width for layer in layers})
    levels = 1 + sum(layer.part.kind.stride is not None for layer in layers)
    if not 0 < layers[0].inputs <= MOST_WIDTH:
        raise ConvertError(f"the backbone takes points of {layers[0].inputs} columns; it may take 1 to {MOST_WIDTH}")
    if any(width % WIDTH_STEP or not 0 < width <= MOST_WIDTH for width in widths):
        raise ConvertError(
            f"the backbone has layers of {', '.join(map(str, widths))} values; a layer may have {WIDTH_STEP} to "
            f"{MOST_WIDTH} values, in steps of {WIDTH_STEP}"
        )
    if len(layers) > MOST_LAYERS or levels > MOST_LEVELS:
        raise ConvertError(
            f"the backbone has {len(layers)} layers on {levels} levels; the most are {MOST_LAYERS} layers "
            f"on {MOST_LEVELS} levels"
        )
    if max(shape) > MOST_SIDE:
        raise ConvertError(f"the backbone has a grid of {max(shape)} cells along an axis; the most is {MOST_SIDE}")
