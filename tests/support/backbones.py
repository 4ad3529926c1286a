"""Backbones of sparse convolution with the layer names of OpenPCDet, mmdetection3d and det3d: states with random
weights, and their dense maps in float64, computed with each norm as a layer of its own."""

from dataclasses import dataclass, replace

import numpy as np

import networks
import sparse

LAYOUTS = {  # layout: the order of the axes, as numbers in spconv 2's [out, kz, ky, kx, in]
    "spconv 2": (0, 1, 2, 3, 4),
    "spconv 1": (1, 2, 3, 4, 0),
    "native": (1, 2, 3, 0, 4),
}
PLAIN, RESIDUAL = (16, 32, 64, 64), (16, 32, 64, 128)


@dataclass
class Conv:
    name: str
    norm: str
    inputs: int
    width: int
    kernel: tuple = (3, 3, 3)
    stride: tuple = None  # None: submanifold
    padding: tuple = (1, 1, 1)
    adds: bool = False
    biased: bool = False


def named(lines, columns, biased=False):
    """Makes layers from lines: "conv NAME NORM WIDTH" (submanifold), "down ..." (strided), "last ..." (strided, with
    padding 0 along z), "out ..." or "block NAME WIDTH"."""
    layers, inputs = [], columns
    for line in lines:
        kind, name, *rest = line.split()
        width = int(rest[-1])
        if kind == "block":
            for number in (1, 2):
                names = f"{name}.conv{number}", f"{name}.bn{number}"
                layers.append(Conv(*names, inputs, width, adds=number == 2, biased=biased))
                inputs = width
            continue
        layer = Conv(name, rest[0], inputs, width)
        if kind in ("down", "last"):
            layer = replace(layer, stride=(2, 2, 2), padding=(1 if kind == "down" else 0, 1, 1))
        if kind == "out":
            layer = replace(layer, kernel=(3, 1, 1), stride=(2, 1, 1), padding=(0, 0, 0))
        layers.append(layer)
        inputs = width
    return layers


def openpcdet(columns, residual=False, biased=True):
    names = ["conv backbone_3d.conv_input.0 backbone_3d.conv_input.1 16"]
    for level, width in enumerate(RESIDUAL if residual else PLAIN, 1):
        place = f"backbone_3d.conv{level}"
        if level > 1:
            names.append(f"{'last' if level == 4 else 'down'} {place}.0.0 {place}.0.1 {width}")
        for number in range(level > 1, 3 if level > 1 else 2 if residual else 1):
            block, conv = f"block {place}.{number} {width}", f"conv {place}.{number}.0 {place}.{number}.1 {width}"
            names.append(block if residual else conv)
    return named([*names, "out backbone_3d.conv_out.0 backbone_3d.conv_out.1 128"], columns, biased)


def mmdet3d(columns, place, residual=False):
    names, widths = [f"conv {place}.conv_input.0 {place}.conv_input.1 16"], RESIDUAL if residual else PLAIN
    for level, width in enumerate(widths, 1):
        layer = f"{place}.encoder_layers.encoder_layer{level}"
        if residual:
            names += [f"block {layer}.{number} {width}" for number in (0, 1)]
            if level < 4:
                names.append(f"{'last' if level == 3 else 'down'} {layer}.2.0 {layer}.2.1 {widths[level]}")
        else:
            for number in range(1 if level == 1 else 3):
                kind = "conv" if level == 1 or number else "last" if level == 4 else "down"
                names.append(f"{kind} {layer}.{number}.0 {layer}.{number}.1 {width}")
    return named([*names, f"out {place}.conv_out.0 {place}.conv_out.1 128"], columns)


def det3d(columns):
    names = ["conv backbone.conv_input.0 backbone.conv_input.1 16"]
    for level, width in enumerate(RESIDUAL, 1):
        place = f"backbone.conv{level}"
        if level > 1:
            names.append(f"{'last' if level == 4 else 'down'} {place}.0 {place}.1 {width}")
        names += [f"block {place}.{number} {width}" for number in ((3, 4) if level > 1 else (0, 1))]
    return named([*names, "out backbone.extra_conv.0 backbone.extra_conv.1 128"], columns, biased=True)


def det3d_flat(columns):
    """SpMiddleFHD."""
    steps = "conv 16 conv 16 down 32 conv 32 conv 32 down 64 conv 64 conv 64 conv 64"
    steps += " last 64 conv 64 conv 64 conv 64 out 128"
    kinds, widths = steps.split()[::2], steps.split()[1::2]
    place = "backbone.middle_conv"
    return named(
        [f"{kind} {place}.{3 * n} {place}.{3 * n + 1} {width}" for n, (kind, width) in enumerate(zip(kinds, widths))],
        columns,
    )


def make(weights, layers, layout="spconv 2"):
    for layer in layers:
        weights.weight(layer.name, layer.width, *layer.kernel, layer.inputs)
        name = f"{layer.name}.weight"
        weights.state[name] = np.ascontiguousarray(weights.state[name].transpose(LAYOUTS[layout]) * np.float32(1.5))
        if layer.biased:
            weights.bias(layer.name, layer.width)
        weights.norm(layer.norm, layer.width)


def run(state, layers, shape, cells, features):
    """The dense map [width * Z,Y,X] float64 of one cloud. The state has the layout of spconv 2."""
    cells, rows, before = [(0, *map(int, cell)) for cell in cells], features.astype(np.float64), None
    for layer in layers:
        outputs = cells
        if layer.stride:
            outputs, shape = sparse.strided_cells(cells, layer, shape)
        weight = state[f"{layer.name}.weight"].astype(np.float64)
        number, sums = {cell: i for i, cell in enumerate(cells)}, np.zeros((len(outputs), layer.width))
        if layer.biased:
            sums += state[f"{layer.name}.bias"].astype(np.float64)
        for offset in sparse.offsets(layer.kernel):
            stride, padding = layer.stride or (1, 1, 1), layer.padding
            for o, (cloud, *cell) in enumerate(outputs):
                at = [c * s - p + k for c, s, p, k in zip(cell, stride, padding, offset)]
                if (cloud, *at) in number:
                    sums[o] += weight[(slice(None), *offset)] @ rows[number[(cloud, *at)]]
        made = networks.norm(state, layer.norm, sums, networks.EPS, 1)
        rows, before, cells = networks.relu(made + before if layer.adds else made), rows, outputs
    dense = np.zeros((layers[-1].width, *shape))
    for (_, z, y, x), row in zip(cells, rows):
        dense[:, z, y, x] = row
    return dense.reshape(-1, *shape[1:])


def converted(document, tensors):
    """The layers for sparse.backbone, from a backbone as model.json has it, and its tensors."""
    layers = []
    for layer in document["layers"]:
        weight, bias = (tensors[f"{layer['name']}.{part}"] for part in ("weight", "bias"))
        strided = layer["kind"] == "strided"
        kernel = tuple(layer["kernel"])
        sizes = (tuple(layer["stride"]), tuple(layer["padding"])) if strided else ((1, 1, 1), (1, 1, 1))
        layers.append(sparse.Layer(weight, bias, kernel, *sizes, not strided, layer.get("adds", False)))
    return layers
