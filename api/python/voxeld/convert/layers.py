"""The parts of the networks: encoder, backbone with its neck, head. The callers know the layers' names, which differ
between projects."""

from __future__ import annotations

import dataclasses
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence, Tuple

from . import fold
from .model import Reordered
from .network import Map, Network
from .state import ConvertError, State

Build = Callable[[State, Network, Map], None]  # makes a head's maps from the map in front of the head
NORM_EPS, CENTER_EPS = 1e-3, 1e-5  # of backbones and encoders; of centre heads
CENTER_CHANNELS = {"center": 2, "height": 1, "dim": 3, "rot": 2, "vel": 2, "iou": 1}  # the heatmap: one per class


def encoder_layers(
    state: State, name: str, widths: List[int], norm: bool = True, eps: float = NORM_EPS
) -> List[fold.Layer]:
    """The layers of a pillar feature network. All but the last also give the largest values of the pillar: [2 *
    width]."""
    if not widths:
        raise ConvertError("the encoder has no layers")
    layers, inputs = [], state.shape(f"{name}.0.linear.weight")[1]
    for number, outputs in enumerate(widths):
        place = f"{name}.{number}"
        norm_name = f"{place}.norm" if norm else None
        layers.append(fold.layer(state, f"{place}.linear", (outputs, inputs), norm_name, eps))
        inputs = 2 * outputs
    return layers


def halved(widths: List[int]) -> List[int]:
    """The widths of the linear layers: in the configuration, each but the last is doubled."""
    return [width // 2 for width in widths[:-1]] + widths[-1:]


@dataclasses.dataclass
class Backbone:
    """Levels of convolutions. Each level's map passes an upsampling, if there are any. Then the maps are joined."""

    blocks: str  # the beginning of the convolutions' names
    first: int  # the number of a block's first convolution; the next have +3, +6 and so on; a norm follows at +1
    deblocks: str
    layers: List[int]  # for each level, the convolutions after its first
    strides: List[int]
    channels: List[int]
    up_strides: List[float]
    up_channels: List[int]
    conv_for_no_stride: bool  # an upsampling by 1 is a convolution, not a transposed one
    eps: float = NORM_EPS  # of the norms after convolutions
    up_eps: float = NORM_EPS  # of the norms after upsamplings

    def check(self) -> None:
        ups = (self.up_strides, self.up_channels) if self.up_strides or self.up_channels else ()
        lengths = {len(part) for part in (self.layers, self.strides, self.channels, *ups)}
        if len(lengths) != 1 or 0 in lengths:
            raise ConvertError("the backbone's lists of layers, strides and channels are empty or differ in length")
        if 0 in self.strides:
            raise ConvertError("the backbone has a stride of 0")
        for stride in self.up_strides:
            if stride <= 0 or (stride > 1 and stride % 1):
                raise ConvertError(f"the stride {stride} of a map that is scaled up must be whole, or between 0 and 1")

    def build(self, state: State, network: Network, x: Map) -> Map:
        self.check()
        maps = []
        for level, channels in enumerate(self.channels):
            for k in range(self.layers[level] + 1):
                place = f"{self.blocks}.{level}"
                number = self.first + 3 * k
                shape = (channels, x.channels, 3, 3)
                layer = fold.layer(state, f"{place}.{number}", shape, f"{place}.{number + 1}", self.eps)
                x = network.conv(x, layer, self.strides[level] if k == 0 else 1, padding=1, relu=True)
            maps.append(self._upsample(state, network, x, level) if self.up_strides else x)
        return network.concat(maps)

    def _upsample(self, state: State, network: Network, x: Map, level: int) -> Map:
        name, stride, channels = f"{self.deblocks}.{level}", self.up_strides[level], self.up_channels[level]
        if stride > 1 or (stride == 1 and not self.conv_for_no_stride):
            shape = (x.channels, channels, int(stride), int(stride))
            layer = fold.layer(state, f"{name}.0", shape, f"{name}.1", self.up_eps, axis=1)
            return network.deconv(x, layer, int(stride), relu=True)
        side = round(1 / stride)
        layer = fold.layer(state, f"{name}.0", (channels, x.channels, side, side), f"{name}.1", self.up_eps)
        return network.conv(x, layer, side, relu=True)


Names = Tuple[Sequence[Tuple[str, str]], str]  # of convolutions and their norms; of the last convolution
Naming = Callable[[str, int], Names]  # the beginning of the names and the number of convolutions -> names


def alone(place: str, depth: int = 1) -> Names:
    """One convolution."""
    return [], place


def flat(place: str, depth: int) -> Names:
    """A sequence of convolutions, norms and ReLUs."""
    return [(f"{place}.{3 * n}", f"{place}.{3 * n + 1}") for n in range(depth - 1)], f"{place}.{3 * (depth - 1)}"


def nested(conv: str, norm: str) -> Naming:
    """A sequence of parts with a convolution and a norm each."""
    return lambda place, depth: (
        [(f"{place}.{n}.{conv}", f"{place}.{n}.{norm}") for n in range(depth - 1)],
        f"{place}.{depth - 1}",
    )


class Branch(NamedTuple):
    """Convolutions with norms, then a last convolution with a bias."""

    channels: int
    names: Names
    width: int = 0  # channels of the convolutions with norms
    side: Optional[int] = None  # of the last convolution, in cells; None: as the state has it
    optional: bool = False  # left out if the state lacks the last convolution


class Task(NamedTuple):
    """The maps of a task, or of all tasks together."""

    maps: Dict[str, List[Branch]]  # name in /v1/decode -> the branches whose maps are joined
    backbone: Optional[Backbone] = None


@dataclasses.dataclass
class HeadLayers:
    """Optionally a shared convolution, then the tasks. A map has the channels of all tasks."""

    tasks: List[Task]
    shared: Tuple[str, str] = ("", "")  # the shared convolution and its norm
    shared_channels: int = 0  # 0: there is none
    shared_eps: float = NORM_EPS
    eps: float = CENTER_EPS  # of the norms of branches
    reordered: Dict[str, Reordered] = dataclasses.field(default_factory=dict)  # of maps, as in a Head

    def channels(self) -> Dict[str, int]:
        channels: Dict[str, int] = {}
        for task in self.tasks:
            for output, branches in task.maps.items():
                channels[output] = channels.get(output, 0) + sum(branch.channels for branch in branches)
        return channels

    def build(self, state: State, network: Network, x: Map) -> None:
        if self.shared_channels:
            x = _with_norm(state, network, x, self.shared, self.shared_channels, self.shared_eps)
        maps: Dict[str, List[Map]] = {}
        for task in self.tasks:
            own = task.backbone.build(state, network, x) if task.backbone else x
            for output, branches in task.maps.items():
                there = [branch for branch in branches if not branch.optional or f"{branch.names[1]}.weight" in state]
                maps.setdefault(output, []).extend(self._branch(state, network, own, output, each) for each in there)
        for output, joined in maps.items():
            if joined:
                network.output(network.concat(joined), output)

    def _branch(self, state: State, network: Network, x: Map, output: str, branch: Branch) -> Map:
        hidden, last = branch.names
        for names in hidden:
            x = _with_norm(state, network, x, names, branch.width, self.eps)
        side = branch.side or state.shape(f"{last}.weight")[-1]
        weight, bias = fold.layer(state, last, (branch.channels, x.channels, side, side))
        if output in self.reordered:
            order, factor, offset = self.reordered[output]
            weight, bias = weight[order] * factor, bias[order] * factor + offset
        return network.conv(x, (weight, bias), padding=side // 2)


def _with_norm(state: State, network: Network, x: Map, names: Tuple[str, str], channels: int, eps: float) -> Map:
    conv, norm = names
    layer = fold.layer(state, conv, (channels, x.channels, 3, 3), norm, eps)
    return network.conv(x, layer, padding=1, relu=True)


def anchor_task(channels: Dict[str, int], names: Dict[str, str]) -> Task:
    """A convolution of one cell for each map of an anchor head. The state may lack the layer of the directions."""

    def branch(output: str) -> Branch:
        return Branch(channels[output], alone(names[output]), side=1, optional=output == "dir_cls_preds")

    return Task({output: [branch(output)] for output in names})


def center_tasks(
    tasks: List[List[str]], maps: Dict[str, str], depth: Dict[str, int], width: int, place: str, naming: Naming
) -> List[Task]:
    """For each map's name in /v1/decode, `maps` has its name in the state, and `depth` has its number of convolutions.
    `place`, formatted with a task's number and a map's name in the state, is a prefix of the state."""

    def branch(task: int, output: str) -> Branch:
        names = naming(place.format(task, maps[output]), depth[output])
        return Branch(CENTER_CHANNELS.get(output, len(tasks[task])), names, width)

    return [Task({output: [branch(task, output)] for output in maps}) for task in range(len(tasks))]
