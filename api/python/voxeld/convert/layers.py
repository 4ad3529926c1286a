"""The parts that PointPillars networks are made of: the backbone with its neck, the anchor head, the centre head.

OpenPCDet and mmdetection3d give the same layers different names, which the callers know.
"""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence

from . import fold
from .model import Reordered
from .network import Map, Network
from .state import ConvertError, State

Build = Callable[[State, Network, Map], None]  # makes a head's maps from the map in front of the head
NORM_EPS, CENTER_EPS = 1e-3, 1e-5  # of backbones and encoders; of centre heads


def encoder_layers(
    state: State, name: str, widths: List[int], norm: bool = True, eps: float = NORM_EPS
) -> List[fold.Layer]:
    """The layers of a pillar feature network, below a name. The largest values of the pillar are joined to the values
    of all layers but the last."""
    if not widths:
        raise ConvertError("the encoder has no layers")
    layers, inputs = [], state.shape(f"{name}.0.linear.weight")[1]
    for number, outputs in enumerate(widths):
        place = f"{name}.{number}"
        layers.append(fold.linear(state, f"{place}.linear", outputs, inputs, f"{place}.norm" if norm else None, eps))
        inputs = 2 * outputs
    return layers


def halved(widths: List[int]) -> List[int]:
    """The layers' own widths. In all widths but the last, the configuration counts the largest values too."""
    return [width // 2 for width in widths[:-1]] + widths[-1:]


@dataclasses.dataclass
class Backbone:
    """Levels of convolutions, each followed by an upsampling, unless there are no upsamplings; the maps are joined."""

    blocks: str  # the beginning of the convolutions' names
    first: int  # number of a block's first convolution: others follow at +3, each norm at +1
    deblocks: str
    layers: List[int]  # convolutions of each level after the first
    strides: List[int]
    channels: List[int]
    up_strides: List[float]
    up_channels: List[int]
    conv_for_no_stride: bool  # whether an upsampling by 1 is a convolution; otherwise a transposed one
    eps: float = NORM_EPS  # of the norms after convolutions
    up_eps: float = NORM_EPS  # of the norms after upsamplings

    def check(self) -> None:
        ups = (self.up_strides, self.up_channels) if self.up_strides or self.up_channels else ()
        lengths = {len(part) for part in (self.layers, self.strides, self.channels, *ups)}
        if len(lengths) != 1 or 0 in lengths:
            raise ConvertError("the backbone's lists of layers, strides and channels are not of one length")
        if 0 in self.strides:
            raise ConvertError("the backbone has a stride of 0")
        for stride in self.up_strides:
            if stride <= 0 or (stride > 1 and stride % 1):
                raise ConvertError(f"the stride {stride} of a map that is scaled up is neither below 1 nor whole")

    def build(self, state: State, network: Network, x: Map) -> Map:
        self.check()
        maps = []
        for level, channels in enumerate(self.channels):
            for k in range(self.layers[level] + 1):
                place = f"{self.blocks}.{level}"
                number = self.first + 3 * k
                layer = fold.conv(
                    state, f"{place}.{number}", channels, x.channels, 3, f"{place}.{number + 1}", self.eps
                )
                x = network.conv(x, layer, self.strides[level] if k == 0 else 1, padding=1, relu=True)
            maps.append(self._upsample(state, network, x, level) if self.up_strides else x)
        return network.concat(maps)

    def _upsample(self, state: State, network: Network, x: Map, level: int) -> Map:
        name, stride, channels = f"{self.deblocks}.{level}", self.up_strides[level], self.up_channels[level]
        if stride > 1 or (stride == 1 and not self.conv_for_no_stride):
            layer = fold.deconv(state, f"{name}.0", channels, x.channels, int(stride), f"{name}.1", self.up_eps)
            return network.deconv(x, layer, int(stride), relu=True)
        side = round(1 / stride)
        layer = fold.conv(state, f"{name}.0", channels, x.channels, side, f"{name}.1", self.up_eps)
        return network.conv(x, layer, side, relu=True)


def anchor_head(state: State, network: Network, x: Map, names: Dict[str, str], channels: Dict[str, int]) -> None:
    """Convolutions of one cell. `names` has the name of each map's layer. Layers that the state lacks are left out."""
    for output, name in names.items():
        if output == "dir_cls_preds" and f"{name}.weight" not in state:
            continue
        network.output(network.conv(x, fold.conv(state, name, channels[output], x.channels, 1)), output)


@dataclasses.dataclass
class CenterHead:
    """A shared convolution, then further convolutions for each task and each of its maps."""

    shared: Sequence[str]  # the shared convolution and its norm
    shared_channels: int
    branch: Callable[[int, str], str]  # task and map -> the beginning of its layers' names
    hidden: Callable[[str, int], Sequence[str]]  # this beginning and a number -> convolution and norm
    maps: Dict[str, str]  # the head's maps: name in /v1/decode -> name in the state
    depth: Dict[str, int]  # convolutions of a map, the last with a bias and without a norm
    task_classes: List[int]
    shared_eps: float = CENTER_EPS  # of the norm of the shared convolution
    eps: float = CENTER_EPS  # of the other norms
    last: Callable[[str, int], str] = "{}.{}".format  # this beginning and a number -> last convolution
    reordered: Dict[str, Reordered] = dataclasses.field(default_factory=dict)  # of maps, as in a Head

    CHANNELS = {"center": 2, "height": 1, "dim": 3, "rot": 2, "vel": 2, "iou": 1}

    def channels(self) -> Dict[str, int]:
        """The channels of each map, over all tasks."""
        tasks = len(self.task_classes)
        return {
            name: sum(self.task_classes) if name == "heatmap" else self.CHANNELS[name] * tasks for name in self.maps
        }

    def build(self, state: State, network: Network, x: Map) -> None:
        x = hidden_conv(state, network, x, self.shared, self.shared_channels, self.shared_eps)
        for output, name in self.maps.items():
            tasks = [self._branch(state, network, x, output, name, task) for task in range(len(self.task_classes))]
            network.output(network.concat(tasks), output)

    def _branch(self, state: State, network: Network, x: Map, output: str, name: str, task: int) -> Map:
        place, depth = self.branch(task, name), self.depth[output]
        for number in range(depth - 1):
            x = hidden_conv(state, network, x, self.hidden(place, number), x.channels, self.eps)
        channels = self.task_classes[task] if output == "heatmap" else self.CHANNELS[output]
        layer = last_layer(state, self.last(place, depth - 1), channels, x)
        if output in self.reordered:
            order, factor, offset = self.reordered[output]
            layer = layer[0][order] * factor, layer[1][order] * factor + offset
        return last_conv(network, x, layer)


class Branch(NamedTuple):
    """Layers of a part of an anchor head."""

    name: str
    channels: int
    middle: Optional[List[int]]  # channels of the convolutions before the last; None: the layer has no number


class Part(NamedTuple):
    """A part of an anchor head, with its own anchors."""

    backbone: Optional[Backbone]
    maps: Dict[str, List[Branch]]  # the branches whose maps are joined


@dataclasses.dataclass
class MultiHead:
    """Optionally a shared convolution, then the parts. A map of the head has the channels of all parts."""

    shared: Sequence[str]  # the shared convolution and its norm
    shared_channels: int  # 0: there is none
    parts: List[Part]
    shared_eps: float = NORM_EPS
    eps: float = CENTER_EPS  # of the norms of branches

    def build(self, state: State, network: Network, x: Map) -> None:
        if self.shared_channels:
            x = hidden_conv(state, network, x, self.shared, self.shared_channels, self.shared_eps)
        maps: Dict[str, List[Map]] = {}
        for part in self.parts:
            own = part.backbone.build(state, network, x) if part.backbone else x
            for output, branches in part.maps.items():
                maps.setdefault(output, []).extend(self._branch(state, network, own, branch) for branch in branches)
        for output, joined in maps.items():
            network.output(network.concat(joined), output)

    def _branch(self, state: State, network: Network, x: Map, branch: Branch) -> Map:
        name, middle = branch.name, branch.middle
        for number, channels in enumerate(middle or []):
            x = hidden_conv(state, network, x, (f"{name}.{3 * number}", f"{name}.{3 * number + 1}"), channels, self.eps)
        last = name if middle is None else f"{name}.{3 * len(middle)}"
        return last_conv(network, x, last_layer(state, last, branch.channels, x))


def hidden_conv(state: State, network: Network, x: Map, names: Sequence[str], channels: int, eps: float) -> Map:
    """A convolution of 3 x 3 cells and its norm."""
    conv, norm = names
    return network.conv(x, fold.conv(state, conv, channels, x.channels, 3, norm, eps), padding=1, relu=True)


def last_layer(state: State, name: str, channels: int, x: Map) -> fold.Layer:
    """A convolution with a bias and without a norm."""
    return fold.conv(state, name, channels, x.channels, state.shape(f"{name}.weight")[-1])


def last_conv(network: Network, x: Map, layer: fold.Layer) -> Map:
    return network.conv(x, layer, padding=layer[0].shape[-1] // 2)
