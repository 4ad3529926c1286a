"""Compares a converted ONNX file with the original, over random pillars: the encoder's layers in numpy with the
original's encoder in ONNX Runtime and, if ONNX Runtime can run the whole original, the maps."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Sequence

import numpy as np
from onnx import helper  # type: ignore[import-not-found,unused-ignore]

from .cut import Cut, CutNetwork, Graph, dims_of
from .fold import Layer
from .model import Reordered, Voxels
from .state import Array, ConvertError

TOLERANCE, HALF_TOLERANCE = 2e-5, 2e-3  # of the largest magnitude, or of 1 if that is larger
PILLARS = 64


class Pillars(NamedTuple):
    points: Array  # [V, P, C], padded with zeros
    counts: Array  # [V]
    coords: Array  # [V, 4]: batch, z, y, x
    features: Array  # [V, P, C + 6]: rows of pillar_features


def random_pillars(voxels: Voxels, count: int, cap: int) -> Pillars:
    """Each pillar has its own cell. If there are too few cells, the last pillars repeat the first."""
    random = np.random.default_rng(1)
    nx, ny, _ = voxels.grid()
    own = min(count, nx * ny)
    cells = np.resize(random.permutation(nx * ny)[:own], count)
    coords = np.stack([0 * cells, 0 * cells, cells // nx, cells % nx], axis=1)
    counts = np.resize(random.integers(1, cap + 1, own), count)
    there = (np.arange(cap) < counts[:, None])[:, :, None]
    low, size = np.array(voxels.bounds[:3]), np.array(voxels.size)
    within = random.uniform(0, 1, (own, cap, voxels.columns))[np.arange(count) % own]
    corner = coords[:, [3, 2, 1]] * size + low
    points = np.concatenate([corner[:, None] + within[..., :3] * size, within[..., 3:]], axis=2) * there
    xyz = points[..., :3]
    mean = xyz.sum(axis=1, keepdims=True) / counts[:, None, None]
    rows = np.concatenate([points, xyz - mean, xyz - (corner + size / 2)[:, None]], axis=2) * there
    return Pillars(points, counts, coords, rows)


def encoded(layers: Sequence[Layer], rows: Array) -> Array:
    """Returns [V, width] float64 for rows [V, P, C + 6]. A layer is weight [inputs, width] and bias [width]."""
    for weight, bias in layers:
        rows = np.maximum(rows @ weight + bias, 0)
        largest = rows.max(axis=1)
        rows = np.concatenate([rows, np.broadcast_to(largest[:, None], rows.shape)], axis=2)
    pillars: Array = largest
    return pillars


def run(model: Any, feed: Mapping[str, Array], what: str) -> Dict[str, Array]:
    try:
        import onnxruntime  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except ImportError:
        raise ConvertError("checking an ONNX file needs the package onnxruntime: pip install onnxruntime") from None
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, dict(feed))))
    except Exception as reason:  # the library has many classes of errors
        raise ConvertError(f"{what} does not run: {str(reason).splitlines()[0]}") from None


class Trial:
    def __init__(self, place: Cut, voxels: Voxels, layers: Sequence[Layer], rows: List[int]) -> None:
        self.place, self.layers = place, layers
        read = {name for node in place.encoder.computing([place.features]) for name in node.input}
        self.inputs = {name: value for name, value in place.encoder.inputs.items() if name in read}
        shape = self._rows_shape(place.encoder)
        cap = shape[1] or voxels.cap
        if cap != voxels.cap or not cap:
            raise ConvertError(
                f"{place.encoder.path.name}: its pillars have {cap or 'any number of'} points; "
                f"the configuration says {voxels.cap or 'no number'}"
            )
        self.pillars = random_pillars(voxels, shape[0] or PILLARS, cap)
        self.rows = rows
        self.columns = voxels.columns

    def _rows_shape(self, graph: Graph) -> List[Any]:
        shapes = [dims_of(value) for value in self.inputs.values()]
        found = [shape for shape in shapes if len(shape) == 3]
        if len(found) != 1:
            raise ConvertError(f"{graph.path.name}: it has the inputs {shapes}; expected one [pillars, points, values]")
        return found[0]

    def feed(self, names: Mapping[str, Any]) -> Dict[str, Array]:
        return {name: self._value(name, value) for name, value in names.items()}

    def _value(self, name: str, value: Any) -> Array:
        shape, pillars = dims_of(value), self.pillars
        dtype = helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        by_rank: Dict[int, Dict[Any, Array]] = {
            3: {self.columns: pillars.points, len(self.rows): pillars.features[..., self.rows]},
            2: {4: pillars.coords, 3: pillars.coords[:, 1:]},
            1: {shape[-1]: pillars.counts},
        }
        found = by_rank.get(len(shape), {}).get(shape[-1])
        if found is None:
            raise ConvertError(
                f"the input {name} {shape} is not known: neither points, nor their number, nor coordinates"
            )
        return found.astype(dtype)

    def check_encoder(self) -> None:
        graph, name = self.place.encoder, self.place.features
        nodes = graph.computing([name])
        part = graph.part(nodes, list(self.inputs.values()), [helper.make_empty_tensor_value_info(name)])
        found = run(part, self.feed(self.inputs), "the encoder")[name]
        expected = encoded(self.layers, self.pillars.features)
        near(found.reshape(expected.shape) if found.size == expected.size else found, expected, "the encoder's values")

    def check_network(
        self, network: CutNetwork, channels: Mapping[str, int], reordered: Mapping[str, Reordered]
    ) -> None:
        """Compares the network's maps with the original's, if the original runs."""
        pillars = self.pillars
        dtype = np.float16 if network.half else np.float32
        grid = np.zeros((1, *network.size), dtype)
        grid[0, :, pillars.coords[:, 2], pillars.coords[:, 3]] = encoded(self.layers, pillars.features)
        found = run(network.model(""), {network.input_name: grid}, "the network after the scatter")
        network.learn(found, channels)
        if self.place.runs_whole:
            graph = self.place.whole
            outputs = [graph.outputs[name] for name in network.outputs.values()]
            original = run(
                graph.part(graph.nodes, list(graph.inputs.values()), outputs), self.feed(graph.inputs), "the original"
            )
            for output, name in network.outputs.items():
                expected = original[name]
                if output in reordered:
                    expected = expected[:, reordered[output].channels] * reordered[output].factor
                near(found[name], expected, name)


def near(found: Array, expected: Array, what: str) -> None:
    if found.shape != expected.shape:
        raise ConvertError(f"{what} have the shape {list(found.shape)}; expected {list(expected.shape)}")
    tolerance = HALF_TOLERANCE if np.float16 in (found.dtype, expected.dtype) else TOLERANCE
    off = np.abs(found.astype(np.float64) - expected).max() / max(1.0, np.abs(expected).max())
    if not off <= tolerance:
        raise ConvertError(
            f"{what} are off by {off:.2g} of their largest magnitude; does the configuration belong to the file?"
        )
