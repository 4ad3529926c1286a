"""The steps of a conversion: from a checkpoint, or from ONNX files."""

from __future__ import annotations

import argparse
import pathlib
from typing import Callable, Dict, List, NamedTuple, Tuple

from . import autoware, cut, det3d, mmdet3d, openpcdet, trial
from .checkpoint import read_state
from .config import Config, read_python, read_yaml
from .model import CheckpointPlan, Model, PillarEncoder, Plan
from .network import Network
from .state import ConvertError, State

YAML = (".yaml", ".yml")


class Project(NamedTuple):
    plan: Callable[[Config, pathlib.Path], CheckpointPlan]
    is_yaml: bool  # otherwise the configurations are Python
    encoder: Tuple[str, ...]  # the beginning of the names of an encoder's tensors


PROJECTS = {
    "openpcdet": Project(openpcdet.plan, True, ("vfe.",)),
    "mmdet3d": Project(mmdet3d.plan, False, ("voxel_encoder.", "pts_voxel_encoder.")),
    "det3d": Project(det3d.plan, False, ("reader.",)),
}


def convert(args: argparse.Namespace) -> Tuple[List[str], Model]:
    return _from_onnx(args) if args.source == "onnx" else _from_checkpoint(args)


def _from_checkpoint(args: argparse.Namespace) -> Tuple[List[str], Model]:
    for name, values in (("checkpoint", args.checkpoint), ("--config", args.config)):
        if len(values) != 1:
            raise ConvertError(f"{name} is given {len(values)} times; allowed: once")
    if args.map:
        raise ConvertError("--map names outputs of an ONNX file; a checkpoint has none")
    (path,), project = args.config, PROJECTS[args.source]
    if (path.suffix in YAML) != project.is_yaml:
        wanted = "YAML files, .yaml" if project.is_yaml else "Python files, .py, or JSON files made from them, .json"
        raise ConvertError(f"{path} is not a configuration of {args.source}; its configurations are {wanted}")
    state = read_state(args.checkpoint[0])
    _check_names(state, args.source)
    network = Network(args.network == "float16", args.weights == "float16")
    model = project.plan(_read(path), path).convert(state, network)
    state.ignore(args.ignore)
    state.check_all_taken()
    return [f"checkpoint: {len(state)} tensors"], model


def _read(path: pathlib.Path) -> Config:
    return read_yaml(path) if path.suffix in YAML else read_python(path)


def _check_names(state: State, source: str) -> None:
    for other, project in PROJECTS.items():
        if other != source and state.has(project.encoder) and not state.has(PROJECTS[source].encoder):
            raise ConvertError(f"the checkpoint has the names of {other}: give {other} in place of {source}")


def _from_onnx(args: argparse.Namespace) -> Tuple[List[str], Model]:
    if len(args.checkpoint) > 2:
        raise ConvertError("more than two ONNX files are given: one is cut at its scatter; two are encoder and network")
    if "float16" in (args.network, args.weights) or args.ignore:
        raise ConvertError("--network, --weights and --ignore are for checkpoints, not for ONNX files")
    plan = _plan(args.config)
    if not plan.rows:
        raise ConvertError("ONNX has no sparse convolutions, which the configuration has: convert the checkpoint")
    place = cut.cut([cut.Graph(path) for path in args.checkpoint])
    encoder = PillarEncoder(cut.encoder_layers(place.encoder, place.features), plan.rows, plan.voxels)
    network = cut.CutNetwork(place, plan, encoder.width, _named(args.map))
    check = trial.Trial(place, plan.voxels, encoder.layers, encoder.rows)
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
    """Reads OpenPCDet's YAML, mmdetection3d's Python, or one or more files of Autoware's parameters."""
    path, config = paths[0], _read(paths[0])
    if autoware.is_autoware(config):
        return autoware.plan(autoware.joined([config, *map(_read, paths[1:])]), path)
    if len(paths) > 1:
        raise ConvertError(f"--config is given {len(paths)} times; only parameters of Autoware are in several files")
    return PROJECTS["openpcdet" if path.suffix in YAML else "mmdet3d"].plan(config, path)
