"""A network that is an ONNX file already, cut at its scatter: the nodes before it are the encoder, and the nodes after
it are the network that the service runs.

Exporters write the scatter as a node of TensorRT's plug-in PPScatterPlugin, as ScatterND or as ScatterElements; or they
leave the scatter out and write two files."""

from __future__ import annotations

import copy
import pathlib
from typing import Any, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

import numpy as np
import onnx  # type: ignore[import-not-found,unused-ignore]
from onnx import TensorProto, helper, numpy_helper

from . import fold
from .fold import Layer
from .model import Plan, Reordered
from .network import BATCH, INPUT
from .state import Array, ConvertError

SCATTERS = {"PPScatterPlugin": 0, "ScatterND": 2, "ScatterElements": 2}  # which input has the pillars' features
MOVES = {"Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Concat", "Identity", "Cast", "Expand"}
# Names of the outputs in exports of OpenPCDet, CUDA-PointPillars, mmdeploy and Autoware, by the names of /v1/decode.
NAMES = {
    "cls_preds": ("cls_preds", "cls_score0", "cls_score"),
    "box_preds": ("box_preds", "bbox_pred0", "bbox_pred"),
    "dir_cls_preds": ("dir_cls_preds", "dir_cls_pred0", "dir_cls_pred"),
    "heatmap": ("heatmap", "hm"),
    "center": ("center", "reg"),
    "height": ("height", "center_z"),
    "dim": ("dim",),
    "rot": ("rot",),
    "vel": ("vel",),
    "iou": ("iou",),
}
OPTIONAL = ("dir_cls_preds", "vel")


class Graph:
    """The nodes of an ONNX file, in order."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path
        try:
            self.file = onnx.load(str(path))
        except OSError as reason:
            raise ConvertError(f"cannot read {path}: {reason.strerror or reason}") from None
        except Exception as reason:  # protobuf has errors of its own
            what = str(reason).splitlines()[0]
            raise ConvertError(
                f"cannot read {path} as an ONNX file ({what}): for a checkpoint, name the project in place of onnx"
            ) from None
        graph = self.file.graph
        self.nodes: List[Any] = list(graph.node)
        _unpack_numbers(self.nodes, {each.domain: each.version for each in self.file.opset_import})
        self.constants = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        for node in self.nodes:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                self.constants[node.output[0]] = numpy_helper.to_array(node.attribute[0].t)
        self.inputs = {each.name: each for each in graph.input if each.name not in self.constants}
        self.outputs = {each.name: each for each in graph.output}
        self.producer = {name: node for node in self.nodes for name in node.output}

    def readers(self, name: str) -> List[Any]:
        return [node for node in self.nodes if name in node.input]

    def computing(self, names: Iterable[str], stop: Optional[str] = None) -> List[Any]:
        """The nodes that compute these values, in order, without those that compute `stop`."""
        needed, found = set(names) - {stop}, []
        for node in reversed(self.nodes):
            if needed.intersection(node.output):
                found.append(node)
                needed |= set(node.input) - {stop}
        return found[::-1]

    def part(self, nodes: Sequence[Any], inputs: Sequence[Any], outputs: Sequence[Any], doc: str = "") -> Any:
        used = {name for node in nodes for name in node.input}
        weights = [each for each in self.file.graph.initializer if each.name in used]
        graph = helper.make_graph(nodes, "network", inputs, outputs, weights)
        part = helper.make_model(graph, opset_imports=self.file.opset_import, producer_name="voxeld-convert")
        part.doc_string, part.ir_version = doc, self.file.ir_version
        return part


def _unpack_numbers(nodes: Iterable[Any], versions: Mapping[str, int]) -> None:
    """Replaces lists of one integer by that integer, in attributes that must be integers. CUDA-PointPillars writes such
    lists, and ONNX Runtime refuses them."""
    for node in nodes:
        if not onnx.defs.has(node.op_type, node.domain):
            continue
        known = onnx.defs.get_schema(node.op_type, versions.get(node.domain, 1), node.domain).attributes
        for attribute in node.attribute:
            wanted = known[attribute.name].type if attribute.name in known else None
            if wanted == onnx.defs.OpSchema.AttrType.INT and len(attribute.ints) == 1:
                attribute.CopyFrom(helper.make_attribute(attribute.name, attribute.ints[0]))


def dims_of(value: Any) -> List[Optional[int]]:
    """None stands for any length."""
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in value.type.tensor_type.shape.dim]


# ---- the encoder ----------------------------------------------------------------------------------------------------


def encoder_layers(graph: Graph, features: str) -> List[Layer]:
    """The linear layers that compute `features`: weight [width, inputs] and bias [width], with the sums and products
    before each ReLU folded in."""
    layers = []
    for node in graph.computing([features]):
        weights = [graph.constants[name] for name in node.input[1:2] if name in graph.constants]
        if node.op_type in ("MatMul", "Gemm") and weights and weights[0].ndim == 2:
            layers.append(_linear(graph, node, weights[0]))
        elif node.op_type == "Conv":
            raise ConvertError(
                f"{graph.path.name}: its encoder has a convolution ({node.name}); expected linear layers"
            )
    if not layers:
        raise ConvertError(f"{graph.path.name}: {features} is computed without a linear layer")
    return layers


def _linear(graph: Graph, node: Any, weight: Array) -> Layer:
    attributes = {each.name: helper.get_attribute_value(each) for each in node.attribute}
    weight = weight.astype(np.float64) * attributes.get("alpha", 1.0)
    weight = weight if attributes.get("transB", 0) else weight.T
    bias = np.zeros(len(weight))
    if len(node.input) > 2:
        if node.input[2] not in graph.constants:
            raise ConvertError(f"{graph.path.name}: the bias of {node.name} in its encoder is computed")
        bias = bias + graph.constants[node.input[2]].astype(np.float64) * attributes.get("beta", 1.0)
    gain, shift = _behind(graph, node, len(weight))
    return weight * gain[:, None], bias * gain + shift


def _behind(graph: Graph, node: Any, width: int) -> Tuple[Array, Array]:
    """Gain and shift [width] of the nodes between a linear layer and its ReLU."""
    gain, shift = np.ones(width), np.zeros(width)
    while True:
        readers = graph.readers(node.output[0])
        if len(readers) != 1:
            raise ConvertError(
                f"{graph.path.name}: {len(readers)} nodes read {node.output[0]} of the encoder; expected 1"
            )
        node = readers[0]
        if node.op_type == "Relu":
            return gain, shift
        more, add = _affine(graph, node, width)
        gain, shift = gain * more, shift * more + add


def _affine(graph: Graph, node: Any, width: int) -> Tuple[Array, Array]:
    if node.op_type in MOVES:
        return np.ones(width), np.zeros(width)
    values = [graph.constants[name].astype(np.float64) for name in node.input if name in graph.constants]
    if node.op_type == "BatchNormalization" and len(values) == 4:
        scale, bias, mean, variance = values
        epsilon = next((each.f for each in node.attribute if each.name == "epsilon"), 1e-5)
        gain = fold.gain(f"{graph.path.name}: {node.input[4]}", scale, variance, epsilon)
        return gain, bias - mean * gain
    if node.op_type in ("Add", "Mul") and len(values) == 1 and values[0].size in (1, width):
        value = np.broadcast_to(values[0].reshape(-1), width)
        return (np.ones(width), value) if node.op_type == "Add" else (value, np.zeros(width))
    raise ConvertError(f"{graph.path.name}: its encoder has {node.op_type} ({node.name}) after a linear layer")


# ---- the network ----------------------------------------------------------------------------------------------------


class Cut(NamedTuple):
    """Where a network begins. `encoder` computes `features`, the pillars' features. The scatter writes them to the
    value `map`, which nodes of `whole` read."""

    encoder: Graph
    features: str
    whole: Graph
    map: str

    @property
    def runs_whole(self) -> bool:
        return (
            self.encoder is self.whole
            and all(node.domain in ("", "ai.onnx") for node in self.whole.nodes)
            and not any(node.op_type == "PPScatterPlugin" for node in self.whole.nodes)
        )


def cut(graphs: Sequence[Graph]) -> Cut:
    if len(graphs) == 2:
        encoder, network = graphs
        for graph, side in ((encoder, encoder.outputs), (network, network.inputs)):
            if len(side) != 1:
                raise ConvertError(
                    f"{graph.path.name}: it has {', '.join(side) or 'none'}; expected one value at the cut"
                )
        return Cut(encoder, next(iter(encoder.outputs)), network, next(iter(network.inputs)))
    (graph,) = graphs
    scatters = [node for node in graph.nodes if node.op_type in SCATTERS]
    if not scatters:
        raise ConvertError(
            f"{graph.path.name}: it has no {' and no '.join(SCATTERS)}; give encoder and network as two files"
        )
    scatter = scatters[-1]  # earlier scatters write values into the rows of points
    features, name = scatter.input[SCATTERS[scatter.op_type]], scatter.output[0]
    while features in graph.producer and graph.producer[features].op_type in MOVES:
        features = graph.producer[features].input[0]
    while True:
        readers = [node for node in graph.readers(name) if node.op_type != "Shape"]
        if len(readers) != 1 or readers[0].op_type not in MOVES:
            return Cut(graph, features, graph, name)
        name = readers[0].output[0]


class CutNetwork:
    input_name = INPUT

    def __init__(self, place: Cut, plan: Plan, width: int, named: Mapping[str, str]) -> None:
        graph = place.whole
        self.outputs = _named_outputs(graph, plan, named)
        self._graph, self._map = graph, place.map
        self._nodes = copy.deepcopy(graph.computing(self.outputs.values(), place.map))
        self._refuse_other_inputs(graph)
        self._rename({self._map: INPUT})
        for output, order in plan.head.reordered.items():
            self._reorder(self.outputs[output], order)
        nx, ny, _ = plan.voxels.grid()
        known = {each.name: each for each in (*graph.file.graph.value_info, *graph.inputs.values())}
        value = known.get(place.map)
        self.half = value is not None and value.type.tensor_type.elem_type == TensorProto.FLOAT16
        many = value is not None and place.map in graph.inputs and dims_of(value)[0] is None
        self._batch = BATCH if many else 1
        self.size = (width, ny, nx)  # of one cloud's map
        self.layout = ""
        self.sizes: Dict[str, List[int]] = {}

    def _refuse_other_inputs(self, graph: Graph) -> None:
        read = {name for node in self._nodes for name in node.input}
        others = sorted(read & set(graph.inputs) - {self._map})
        if others:
            raise ConvertError(f"{graph.path.name}: the network after {self._map} also reads {', '.join(others)}")

    def _rename(self, names: Mapping[str, str]) -> None:
        for node in self._nodes:
            for side in (node.input, node.output):
                for i, name in enumerate(side):
                    side[i] = names.get(name, name)

    def _reorder(self, name: str, order: Reordered) -> None:
        """Takes the map's channels, its axis 1, in another order, and multiplies by a factor of 1 or -1."""
        before, chosen, channels = f"{name}_before", f"{name}_chosen", f"{name}_channels"
        self._rename({name: before})
        values = numpy_helper.from_array(np.array(order.channels, np.int64))
        self._nodes += [
            helper.make_node("Constant", [], [channels], value=values),
            helper.make_node("Gather", [before, channels], [chosen], axis=1),
            helper.make_node("Neg" if order.factor < 0 else "Identity", [chosen], [name]),
        ]

    def cells(self) -> Tuple[int, int]:
        size = next(iter(self.sizes.values()))
        return (size[1], size[2]) if self.layout == "nhwc" else (size[2], size[3])

    def describe(self) -> str:
        maps = ", ".join(f"{name} {size}" for name, size in self.sizes.items())
        return f"{INPUT} {[self._batch, *self.size]} -> {maps}" + (" in float16" if self.half else "")

    def model(self, doc: str) -> Any:
        dtype = TensorProto.FLOAT16 if self.half else TensorProto.FLOAT
        outputs = []
        for name in self.outputs.values():
            size = [self._batch, *self.sizes[name][1:]] if name in self.sizes else None
            kind = self._graph.outputs[name].type.tensor_type.elem_type
            outputs.append(helper.make_tensor_value_info(name, kind, size))
        return self._graph.part(
            self._nodes, [helper.make_tensor_value_info(INPUT, dtype, [self._batch, *self.size])], outputs, doc
        )

    def learn(self, found: Mapping[str, Array], channels: Mapping[str, int]) -> None:
        """Takes sizes and layout from the outputs of a run."""
        self.sizes = {name: list(values.shape) for name, values in found.items()}
        layouts: Set[str] = {"nhwc", "nchw"}
        for output, name in self.outputs.items():
            size, wanted = self.sizes[name], channels[output]
            fits = {layout for layout, axis in (("nhwc", 3), ("nchw", 1)) if len(size) == 4 and size[axis] == wanted}
            if not fits:
                raise ConvertError(f"{name} has the shape {size}; the configuration asks for {wanted} channels")
            layouts &= fits
        if len(layouts) != 1:
            raise ConvertError(f"the outputs' shapes do not say one layout: {self.sizes}")
        (self.layout,) = layouts


def _named_outputs(graph: Graph, plan: Plan, named: Mapping[str, str]) -> Dict[str, str]:
    outputs = {}
    for output in plan.head.channels:
        names = (named[output],) if output in named else NAMES[output]
        found = [name for name in names if name in graph.outputs]
        if found:
            outputs[output] = found[0]
        elif output in named or output not in OPTIONAL:
            raise ConvertError(
                f"{graph.path.name}: it has no output {' or '.join(names)}, only {', '.join(graph.outputs)}; "
                f"--map {output}=NAME names it"
            )
    return outputs
