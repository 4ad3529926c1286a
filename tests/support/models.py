"""Writes models for tests: folders with model.json, random weights, and a network, either in ONNX or for the stand-in
for ONNX Runtime. Standard library only.

The ONNX network is one layer: map[m][cell, c] = SCALES[m] * input[(c + m) % WIDTH, cell] + BIASES[m].
tests/support/standin/onnxruntime.c describes the network of the stand-in."""

import glob
import json
import math
import os
import random
import struct

from client import tensor_file
from daemon import BIN, ROOT

STANDIN = os.environ.get("VOXELD_ONNXRUNTIME_STANDIN", str(BIN.parent / "tests" / "libonnxruntime_standin.so"))
WIDTH, COLUMNS, CLASSES = 8, 4, 3
RANGE, SIZE = [0, -8, -3, 16, 8, 1], [0.5, 0.5, 4]  # a grid of 32 x 32 x 1
CELLS = 32
SIZES = [3.9, 1.6, 1.56, 0.8, 0.6, 1.73, 1.76, 0.6, 1.73]
ANCHORS = 6
MAPS = {"cls_preds": ANCHORS * CLASSES, "box_preds": ANCHORS * 7, "dir_cls_preds": ANCHORS * 2}
SCALES, BIASES = (4.0, 0.25, 1.0), (-3.0, -0.125, 0.0)
CENTER_MAPS = {"heatmap": CLASSES, "center": 2, "height": 1, "dim": 3, "rot": 2, "vel": 2}
CENTER_SCALES, CENTER_BIASES = (4.0, 1.0, 1.0, 0.25, 1.0, 2.0), (-3.0, 0.0, -1.0, 0.5, -0.25, 0.0)
VOXELIZE = {
    "num_features": COLUMNS,
    "point_cloud_range": RANGE,
    "voxel_size": SIZE,
    "max_points_per_voxel": 8,
    "max_voxels": 2000,
}
CENTER_DECODE = {
    "head": "center",
    "point_cloud_range": RANGE,
    "voxel_size": SIZE,
    "feature_map_stride": 1,
    "max_objects": 40,
    "nms_threshold": 0.2,
}
DECODE = {"point_cloud_range": RANGE, "anchor_sizes": SIZES, "anchor_bottoms": [-1.78, -0.6, -0.6]}


def library():
    """The path of the real ONNX Runtime, or None if the tests' environment has none."""
    pattern = ROOT / "build/venv/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.*"
    return next(iter(glob.glob(str(pattern))), None)


def description(layout="nhwc", **parts):
    """The contents of model.json; `parts` replace members."""
    maps = CENTER_MAPS if parts.get("decode", DECODE).get("head") == "center" else MAPS
    network = {"file": "network.onnx", "input": "map", "outputs": {name: "out_" + name for name in maps}}
    return {
        "format": 1,
        "description": "random weights",
        "class_names": ["Car", "Pedestrian", "Cyclist"],
        "voxelize": VOXELIZE,
        "encoder": {"file": "encoder.safetensors", "features": f"pillar{COLUMNS + 6}", "width": WIDTH},
        "network": {**network, "layout": layout},
        "decode": DECODE,
        **parts,
    }


def weights(seed=1, hidden=None):
    """The encoder's tensors: {name: (shape, bytes)}. `hidden`: the width of the first of two layers."""
    source = random.Random(seed)
    floats = lambda count: struct.pack(f"<{count}f", *(source.gauss(0, 0.2) for _ in range(count)))
    layers = [(COLUMNS + 6, hidden), (2 * hidden, WIDTH)] if hidden else [(COLUMNS + 6, WIDTH)]
    tensors = {}
    for (inputs, width), suffix in zip(layers, ("", "_1")):
        tensors["weight" + suffix] = ([inputs, width], floats(inputs * width))
        tensors["bias" + suffix] = ([width], floats(width))
    return tensors


# --- backbones ---

SPARSE_SIZE = [0.5, 0.5, 0.5]  # a grid of 32 x 32 x 8
SPARSE_SHAPE = [9, 32, 32]
SPARSE_PLANES, SPARSE_CELLS = 32, 16  # of the map
SPARSE_LAYERS = [
    {"name": "input", "kind": "submanifold", "in": COLUMNS, "out": 16, "kernel": [3, 3, 3]},
    {"name": "block.1", "kind": "submanifold", "in": 16, "out": 16, "kernel": [3, 3, 3]},
    {"name": "block.2", "kind": "submanifold", "in": 16, "out": 16, "kernel": [3, 3, 3], "adds": True},
    {"name": "down", "kind": "strided", "in": 16, "out": 32, "kernel": [3, 3, 3], "stride": [2, 2, 2],
     "padding": [1, 1, 1]},
    {"name": "level", "kind": "submanifold", "in": 32, "out": 32, "kernel": [3, 3, 3]},
    {"name": "out", "kind": "strided", "in": 32, "out": 16, "kernel": [3, 1, 1], "stride": [2, 1, 1],
     "padding": [0, 0, 0]},
]


def backbone_weights(seed=2, layers=tuple(SPARSE_LAYERS)):
    source = random.Random(seed)
    floats = lambda count, scale: struct.pack(f"<{count}f", *(source.gauss(0, scale) for _ in range(count)))
    tensors = {}
    for layer in layers:
        offsets, inputs, width = math.prod(layer["kernel"]), layer["in"], layer["out"]
        scale = 2 / math.sqrt(offsets * inputs)
        tensors[layer["name"] + ".weight"] = ([offsets, inputs, width], floats(offsets * inputs * width, scale))
        tensors[layer["name"] + ".bias"] = ([width], floats(width, 0.2))
    return tensors


def sparse_description(**parts):
    """The contents of model.json with a backbone; `parts` replace members."""
    described = description(
        voxelize={**VOXELIZE, "voxel_size": SPARSE_SIZE},
        backbone={"file": "backbone.safetensors", "shape": SPARSE_SHAPE, "layers": SPARSE_LAYERS},
    )
    del described["encoder"]
    return {**described, **parts}


def slow_backbone():
    """The contents of model.json and the tensors of a backbone that takes seconds on a grid of occupied cells."""
    first, *_, down, level, out = SPARSE_LAYERS
    wide = [{**first, "name": f"wide.{number}", "in": 128, "out": 128} for number in range(12)]
    begin, end = [{**first, "out": 128}], [{**down, "in": 128}, level, out]
    layers = [*begin, *wide, *end]
    tensors = backbone_weights(layers=[*begin, wide[0], *end])
    for layer in wide:  # equal weights, to save time
        for kind in (".weight", ".bias"):
            tensors[layer["name"] + kind] = tensors[wide[0]["name"] + kind]
    described = sparse_description(backbone={**sparse_description()["backbone"], "layers": layers})
    described["voxelize"] = {**described["voxelize"], "max_voxels": 1 << 13}
    return described, tensors


def sparse_standin(**more):
    return standin(planes=SPARSE_PLANES, cells=SPARSE_CELLS, **more)


# --- networks ---

FLOAT, FLOAT16 = 1, 10  # ONNX's numbers for these types
FORMATS = {FLOAT: "f", FLOAT16: "e"}


def standin(batch=-1, lines=(), center=False, halves=(), planes=WIDTH, cells=CELLS):
    """The stand-in's network. Its maps repeat the values of the whole input, in their order in memory. `halves` names
    the float16 tensors: output maps, and "map", which is the input [batch, planes, cells, cells]."""
    dtype = lambda name: FLOAT16 if name in halves else FLOAT
    words = [f"input map {dtype('map')} {batch} {planes} {cells} {cells}"]
    maps = zip(CENTER_MAPS.items(), CENTER_SCALES, CENTER_BIASES) if center else zip(MAPS.items(), SCALES, BIASES)
    for (name, channels), scale, bias in maps:
        words.append(f"output out_{name} {dtype(name)} {scale} {bias} {batch} {CELLS} {CELLS} {channels}")
    return "\n".join(["standin", *words, *lines, ""]).encode()


def field(number, value):
    """A field of a protobuf message; `value`: a number, a text, or the bytes of a message."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value):
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def value_info(name, dims, dtype):
    shape = b"".join(field(1, field(2, dim) if isinstance(dim, str) else field(1, dim)) for dim in dims)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, shape)))


def initializer(name, dims, values, dtype):
    sizes = b"".join(field(1, size) for size in dims)
    return sizes + field(2, dtype) + field(8, name) + field(9, struct.pack(f"<{len(values)}{FORMATS[dtype]}", *values))


def onnx(dtype=FLOAT):
    """The ONNX network: a 1x1 convolution for each map. A map is [batch, channels, CELLS, CELLS]."""
    graph = field(2, "maps") + field(11, value_info("map", ["batch", WIDTH, CELLS, CELLS], dtype))
    for m, (name, channels) in enumerate(MAPS.items()):
        kernel = [SCALES[m] * (plane == (c + m) % WIDTH) for c in range(channels) for plane in range(WIDTH)]
        names = ["map", f"weight{m}", f"bias{m}"]
        node = b"".join(field(1, each) for each in names) + field(2, "out_" + name) + field(4, "Conv")
        graph += field(1, node) + field(5, initializer(names[1], (channels, WIDTH, 1, 1), kernel, dtype))
        graph += field(5, initializer(names[2], (channels,), [BIASES[m]] * channels, dtype))
        graph += field(12, value_info("out_" + name, ["batch", channels, CELLS, CELLS], dtype))
    return field(1, 8) + field(7, graph) + field(8, field(2, 17))


def write(folder, name, network, model=None, tensors=None):
    path = os.path.join(folder, name)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "model.json"), "w", encoding="utf-8") as file:
        json.dump(model or description(), file)
    backbone = "backbone" in (model or {})
    with open(os.path.join(path, f"{'backbone' if backbone else 'encoder'}.safetensors"), "wb") as file:
        file.write(tensor_file(**(tensors or (backbone_weights() if backbone else weights()))))
    with open(os.path.join(path, "network.onnx"), "wb") as file:
        file.write(network)
    return path


# --- serving ---


def served(folder, real=False, name="random"):
    """Writes a model. Returns the daemon's options that serve it, with the stand-in or the real ONNX Runtime. The
    stand-in's network takes one cloud at a time, because its maps depend on the whole input."""
    network, layout = (onnx(), "nchw") if real else (standin(batch=1), "nhwc")
    write(folder, name, network, description(layout))
    return ("--models-dir", str(folder), "--onnxruntime", library() if real else STANDIN)
