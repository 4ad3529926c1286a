"""A network as ONNX, built layer by layer, with the sizes of its maps."""

from __future__ import annotations

from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

import numpy as np
import onnx  # type: ignore[import-not-found,unused-ignore]
from onnx import TensorProto, helper, numpy_helper

from .fold import Layer
from .state import Array, ConvertError

OPSET, IR_VERSION = 17, 8  # ONNX Runtime 1.12 and later read them
INPUT = "bev_features"
BATCH = "batch"  # the symbol of the first dimension
DTYPE = {False: TensorProto.FLOAT, True: TensorProto.FLOAT16}  # by whether it is float16
Shape = List[Any]


class Map(NamedTuple):
    """A value of the network, [batch, channels, height, width]."""

    name: str
    channels: int
    height: int
    width: int


class Network:
    input_name, layout = INPUT, "nhwc"

    def __init__(self, half: bool = False, half_weights: bool = False) -> None:
        self._half = half  # weights, outputs and what lies between input and outputs are float16
        self.half = half  # the input is float16
        self._half_weights = half_weights and not half  # weights are stored as float16, and cast when they are loaded
        self._nodes: List[Any] = []
        self._weights: List[Any] = []
        self._inputs: Dict[str, Shape] = {}
        self._outputs: Dict[str, Shape] = {}
        self.outputs: Dict[str, str] = {}
        self._count = 0

    def input(self, channels: int, height: int, width: int, wide: bool = False) -> Map:
        """`wide`: the input is float32, even if the network is float16."""
        self._inputs[INPUT] = [BATCH, channels, height, width]
        self.half = self._half and not wide
        name = self._node("Cast", [INPUT], to=DTYPE[True]) if self._half and wide else INPUT
        return Map(name, channels, height, width)

    def conv(self, x: Map, layer: Layer, stride: int = 1, padding: int = 0, relu: bool = False) -> Map:
        outputs, _, side, _ = layer[0].shape
        height, width = ((length + 2 * padding - side) // stride + 1 for length in (x.height, x.width))
        attributes = {"kernel_shape": [side] * 2, "strides": [stride] * 2, "pads": [padding] * 4}
        return Map(self._layer("Conv", x, layer, attributes, relu), outputs, height, width)

    def deconv(self, x: Map, layer: Layer, stride: int, relu: bool = False) -> Map:
        """A transposed convolution with windows as wide as the stride."""
        weight, bias = layer
        if stride == 1:
            return self.conv(x, (weight.transpose(1, 0, 2, 3), bias), relu=relu)
        name = self._layer("ConvTranspose", x, layer, {"kernel_shape": [stride] * 2, "strides": [stride] * 2}, relu)
        return Map(name, weight.shape[1], x.height * stride, x.width * stride)

    def concat(self, maps: Sequence[Map]) -> Map:
        if len({(m.height, m.width) for m in maps}) != 1:
            sizes = ", ".join(f"{m.height} x {m.width}" for m in maps)
            raise ConvertError(f"maps of different sizes are joined: {sizes}; the grid does not fit the strides")
        if len(maps) == 1:
            return maps[0]
        name = self._node("Concat", [m.name for m in maps], axis=1)
        return maps[0]._replace(name=name, channels=sum(m.channels for m in maps))

    def output(self, x: Map, name: str) -> None:
        """The map as [batch, height, width, channels]."""
        self._nodes.append(helper.make_node("Transpose", [x.name], [name], perm=[0, 2, 3, 1]))
        self._outputs[name] = [BATCH, x.height, x.width, x.channels]
        self.outputs[name] = name

    def cells(self) -> Tuple[int, int]:
        """Height and width of the outputs."""
        _, height, width, _ = next(iter(self._outputs.values()))
        return height, width

    def describe(self) -> str:
        sides = (
            ", ".join(f"{name} [{', '.join(map(str, shape))}]" for name, shape in values.items())
            for values in (self._inputs, self._outputs)
        )
        return " -> ".join(sides) + (" in float16" if self._half else "")

    def model(self, doc: str) -> Any:
        inputs, outputs = (
            [helper.make_tensor_value_info(name, DTYPE[half], shape) for name, shape in values.items()]
            for values, half in ((self._inputs, self.half), (self._outputs, self._half))
        )
        graph = helper.make_graph(self._nodes, "network", inputs, outputs, self._weights)
        imports = [helper.make_opsetid("", OPSET)]
        model = helper.make_model(graph, opset_imports=imports, producer_name="voxeld-convert", doc_string=doc)
        model.ir_version = IR_VERSION
        onnx.checker.check_model(model, full_check=True)
        return model

    def _layer(self, kind: str, x: Map, layer: Layer, attributes: Any, relu: bool) -> str:
        weight, bias = layer
        name = self._node(kind, [x.name, self._weight(weight), self._weight(bias)], **attributes)
        return self._node("Relu", [name]) if relu else name

    def _node(self, kind: str, inputs: List[str], **attributes: Any) -> str:
        name = self._name(kind.lower())
        self._nodes.append(helper.make_node(kind, inputs, [name], **attributes))
        return name

    def _weight(self, values: Array) -> str:
        name = self._name("weight")
        dtype = np.float16 if self._half or self._half_weights else np.float32
        self._weights.append(numpy_helper.from_array(narrow(f"{name} of the network", values, dtype), name))
        return self._node("Cast", [name], to=TensorProto.FLOAT) if self._half_weights else name

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}_{self._count}"


def narrow(name: str, values: Array, dtype: Any) -> Array:
    with np.errstate(over="ignore"):
        narrow: Array = np.ascontiguousarray(values, dtype)
    if not np.isfinite(narrow).all():
        raise ConvertError(f"{name}, folded, has a value beyond {np.dtype(dtype).name}: {np.abs(values).max():g}")
    return narrow
