"""Detectors as in OpenPCDet and mmdetection3d: states with the names of these projects, and the networks in float64,
with norms as layers of their own. `convert` gives such a state to voxeld-convert."""

import contextlib
import io

import numpy as np
import yaml
from safetensors.numpy import save_file
from voxeld.convert.main import main

EPS, CENTER_EPS = 1e-3, 1e-5


def convert(folder, source, state, config, *more):
    """Converts into folder / "model". Returns the exit status and the output."""
    save_file(state, folder / "state.safetensors")
    path = folder / ("config.yaml" if source == "openpcdet" else "config.py")
    path.write_text(yaml.safe_dump(config) if isinstance(config, dict) else config, encoding="utf-8")
    arguments = [source, str(folder / "state.safetensors"), "--config", str(path), *more]
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        status = main([*arguments, "--output", str(folder / "model")])
    return status, text.getvalue()


class Weights:
    """Random weights by name, scaled so that values stay near 1."""

    def __init__(self, seed):
        self.random = np.random.default_rng(seed)
        self.state = {}

    def weight(self, name, *shape):
        spread = (2 / np.prod(shape[1:])) ** 0.5
        self.state[f"{name}.weight"] = self.random.normal(0, spread, shape).astype(np.float32)

    def bias(self, name, count):
        self.state[f"{name}.bias"] = self.random.normal(0, 0.2, count).astype(np.float32)

    def norm(self, name, count):
        self.state[f"{name}.weight"] = self.random.uniform(0.5, 1.5, count).astype(np.float32)
        self.bias(name, count)
        self.state[f"{name}.running_mean"] = self.random.normal(0, 0.3, count).astype(np.float32)
        self.state[f"{name}.running_var"] = self.random.uniform(0.3, 2, count).astype(np.float32)
        self.state[f"{name}.num_batches_tracked"] = np.array(1000)


# ---- layers, in float64 ---------------------------------------------------------------------------------------------


def relu(x):
    return np.maximum(x, 0)


def norm(state, name, x, eps, axis):
    shape = [1] * x.ndim
    shape[axis] = -1
    mean, var, gain, bias = (
        state[f"{name}.{key}"].astype(float).reshape(shape) for key in ("running_mean", "running_var", "weight", "bias")
    )
    return (x - mean) / np.sqrt(var + eps) * gain + bias


def conv(state, name, x, stride=1, padding=0):
    """x [B, C, H, W]."""
    weight = state[f"{name}.weight"].astype(float)
    side = weight.shape[-1]
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    windows = np.lib.stride_tricks.sliding_window_view(x, (side, side), (2, 3))[:, :, ::stride, ::stride]
    y = np.einsum("bchwij,ocij->bohw", windows, weight, optimize=True)
    bias = state.get(f"{name}.bias")
    return y if bias is None else y + bias.astype(float)[None, :, None, None]


def deconv(state, name, x):
    """A transposed convolution with stride = kernel size."""
    weight = state[f"{name}.weight"].astype(float)
    side = weight.shape[-1]
    y = np.einsum("bchw,coij->bohiwj", x, weight, optimize=True)
    return y.reshape(x.shape[0], -1, x.shape[2] * side, x.shape[3] * side)


def encoder(state, name, features, layers=1, eps=EPS, kind="pfn_layers"):
    """features [V, P, C], padding included."""
    rows = features.astype(float)
    for number in range(layers):
        place = f"{name}.{kind}.{number}"
        y = np.einsum("vpc,dc->vpd", rows, state[f"{place}.linear.weight"].astype(float), optimize=True)
        y = relu(norm(state, f"{place}.norm", y, eps, 2))
        largest = y.max(axis=1)
        rows = np.concatenate([y, np.broadcast_to(largest[:, None], y.shape)], axis=2)
    return largest


# ---- the backbone ---------------------------------------------------------------------------------------------------


def make_backbone(weights, blocks, deblocks, first, spec):
    channels = spec["input"]
    for level, (layers, width) in enumerate(zip(spec["layers"], spec["channels"])):
        for k in range(layers + 1):
            weights.weight(f"{blocks}.{level}.{first + 3 * k}", width, channels, 3, 3)
            weights.norm(f"{blocks}.{level}.{first + 1 + 3 * k}", width)
            channels = width
        up, out = spec["up"][level], spec["up_channels"][level]
        if spec["transposed"](up):
            weights.weight(f"{deblocks}.{level}.0", width, out, int(up), int(up))
        else:
            weights.weight(f"{deblocks}.{level}.0", out, width, round(1 / up), round(1 / up))
        weights.norm(f"{deblocks}.{level}.1", out)


def run_backbone(state, blocks, deblocks, first, spec, x, eps=EPS, up_eps=EPS):
    ups = []
    for level, layers in enumerate(spec["layers"]):
        for k in range(layers + 1):
            place = f"{blocks}.{level}"
            x = conv(state, f"{place}.{first + 3 * k}", x, spec["strides"][level] if k == 0 else 1, 1)
            x = relu(norm(state, f"{place}.{first + 1 + 3 * k}", x, eps, 1))
        up, name = spec["up"][level], f"{deblocks}.{level}"
        y = deconv(state, f"{name}.0", x) if spec["transposed"](up) else conv(state, f"{name}.0", x, round(1 / up))
        ups.append(relu(norm(state, f"{name}.1", y, up_eps, 1)))
    return np.concatenate(ups, 1)


# ---- the centre head ------------------------------------------------------------------------------------------------

CENTER_CHANNELS = {"center": 2, "height": 1, "dim": 3, "rot": 2, "vel": 2, "iou": 1}


def make_center(weights, names, inputs, width, maps, tasks):
    """`names`: (names of the shared layers, function that names a map's hidden layers, function that names its last
    layer). Both functions take (task, map)."""
    shared, hidden, last = names
    weights.weight(shared[0], width, inputs, 3, 3)
    weights.norm(shared[1], width)
    for task, classes in enumerate(tasks):
        for output in maps:
            conv_name, norm_name = hidden(task, output)
            weights.weight(conv_name, width, width, 3, 3)
            weights.norm(norm_name, width)
            count = classes if output == "heatmap" else CENTER_CHANNELS[output]
            weights.weight(last(task, output), count, width, 3, 3)
            weights.bias(last(task, output), count)


def run_center(state, names, maps, tasks, x, shared_eps=CENTER_EPS, eps=CENTER_EPS):
    shared, hidden, last = names
    x = relu(norm(state, shared[1], conv(state, shared[0], x, 1, 1), shared_eps, 1))
    out = {}
    for output in maps:
        parts = []
        for task in range(len(tasks)):
            conv_name, norm_name = hidden(task, output)
            y = relu(norm(state, norm_name, conv(state, conv_name, x, 1, 1), eps, 1))
            parts.append(conv(state, last(task, output), y, 1, 1))
        out[output] = np.concatenate(parts, 1)
    return out
