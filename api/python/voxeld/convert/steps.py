"""The steps of a conversion: from a checkpoint, or from ONNX files."""

from __future__ import annotations

import argparse
import pathlib
from typing import Any, Callable, Dict, List, Tuple

from . import autoware, cut, det3d, mmdet3d, openpcdet, trial
from .checkpoint import read_state
from .config import Config, read_python, read_yaml
from .model import CheckpointPlan, Model, Plan, pillar_encoder
from .network import Network
from .state import ConvertError, State

Checkpoints = Callable[[Config, pathlib.Path], CheckpointPlan]
PROJECTS: Dict[str, Checkpoints] = {"openpcdet": openpcdet.plan, "mmdet3d": mmdet3d.plan, "det3d": det3d.plan}
YAML = (".yaml", ".yml")
READERS = {"openpcdet": read_yaml, "mmdet3d": read_python, "det3d": read_python}
ENCODERS = {  # the beginning of the names of an encoder's tensors
    "openpcdet": ("vfe.",),
    "mmdet3d": ("voxel_encoder.", "pts_voxel_encoder."),
    "det3d": ("reader.",),
}


def convert(told: argparse.Namespace) -> Tuple[List[str], Model]:
    """The model, and lines about its source."""
    return _from_onnx(told) if told.source == "onnx" else _from_checkpoint(told)


def _from_checkpoint(told: argparse.Namespace) -> Tuple[List[str], Model]:
    for name, values in (("checkpoint", told.checkpoint), ("--config", told.config)):
        if len(values) != 1:
            raise ConvertError(f"{name} is given {len(values)} times; a checkpoint has one")
    if told.map:
        raise ConvertError("--map names outputs of an ONNX file; a checkpoint has none")
    (path,) = told.config
    if (path.suffix in YAML) != (READERS[told.source] is read_yaml):
        wanted = "YAML, .yaml" if READERS[told.source] is read_yaml else "Python, .py, or the same as .json"
        raise ConvertError(f"{path} is not a configuration of {told.source}; its configurations are {wanted}")
    state = read_state(told.checkpoint[0])
    _check_names(state, told.source)
    network = Network(told.network == "float16", told.weights == "float16")
    model = PROJECTS[told.source](READERS[told.source](path), path).convert(state, network)
    state.ignore(told.ignore)
    state.check_all_taken()
    return [f"checkpoint: {len(state)} tensors"], model


def _check_names(state: State, source: str) -> None:
    for other, names in ENCODERS.items():
        if other != source and state.has(names) and not state.has(ENCODERS[source]):
            raise ConvertError(f"the checkpoint has the names of {other}: give {other} in place of {source}")


def _from_onnx(told: argparse.Namespace) -> Tuple[List[str], Model]:
    if len(told.checkpoint) > 2:
        raise ConvertError("more than two ONNX files are given: one is cut at its scatter; two are encoder and network")
    if "float16" in (told.network, told.weights) or told.ignore:
        raise ConvertError("--network, --weights and --ignore are for checkpoints, not for ONNX files")
    plan = _plan(told.config)
    place = cut.cut([cut.Graph(path) for path in told.checkpoint])
    layers = cut.encoder_layers(place.encoder, place.features)
    rows = plan.rows(layers[0][0].shape[1])
    encoder = pillar_encoder(layers, rows, plan.voxels.columns)
    network = cut.CutNetwork(place, plan, encoder[-1][1].size, _named(told.map))
    check = trial.Trial(place, plan.voxels, encoder, rows)
    check.check_encoder()
    check.check_network(network, plan.head.channels, plan.head.reordered)
    whole = "the whole network" if place.runs_whole else "the encoder"
    return [f"onnx: cut at {place.map}; {whole} gives the same values as the file"], plan.model(encoder, network)


def _named(pairs: List[str]) -> Dict[str, str]:
    named = {}
    for pair in pairs:
        name, _, output = pair.partition("=")
        if name not in cut.NAMES or not output:
            raise ConvertError(f"--map {pair} is not NAME=OUTPUT; names: {', '.join(cut.NAMES)}")
        named[name] = output
    return named


def _plan(paths: List[pathlib.Path]) -> Plan:
    """The plan from OpenPCDet's YAML, mmdetection3d's Python, or Autoware's parameters, which are in several files."""
    path = paths[0]
    if path.suffix not in YAML:
        project: Any = mmdet3d.plan
        config = read_python(path)
    else:
        config = read_yaml(path)
        project = autoware.plan if autoware.is_autoware(config) else openpcdet.plan
    if project is autoware.plan:
        config = autoware.joined([config, *(read_yaml(more) for more in paths[1:])])
    elif len(paths) > 1:
        raise ConvertError(f"--config is given {len(paths)} times; only parameters of Autoware are in several files")
    made: Plan = project(config, path)
    return made
