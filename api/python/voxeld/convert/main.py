"""The command voxeld-convert."""

from __future__ import annotations

import argparse
import pathlib
import sys
from typing import Optional, Sequence

from ..version import VERSION

PROGRAM = "voxeld-convert"
DONE, FAILED = 0, 1
DESCRIPTION = """\
Convert the checkpoint of a detector, or its ONNX file, to the folder of a model that voxeld serves.

A checkpoint is a file that torch.save wrote, a .safetensors file or an .npz file. No code of a checkpoint is run. Every
name and every shape is checked against the configuration. Norms are folded into the layers before them. An ONNX file is
cut at its scatter. The outputs of the two parts are then compared with the original's in onnxruntime, as far as it can
run the original.
"""
EXAMPLES = """\
examples:
  voxeld-convert openpcdet pointpillar_7728.pth --config cfgs/kitti_models/pointpillar.yaml --output models/kitti
  voxeld-convert openpcdet second_7862.pth --config cfgs/kitti_models/second.yaml --output models/second
  voxeld-convert mmdet3d pointpillars.pth --config pointpillars_hv_secfpn_8xb6-160e_kitti-3d-3class.py --output models/k
  voxeld-convert det3d latest.pth --config nusc_centerpoint_pp_02voxel_two_pfn_10sweep.py --output models/nuscenes
  voxeld-convert onnx pointpillar.onnx --config cfgs/kitti_models/pointpillar.yaml --output models/kitti
  voxeld-convert onnx pts_voxel_encoder.onnx pts_backbone_neck_head.onnx --config centerpoint_ml_package.param.yaml \\
      --config centerpoint_common.param.yaml --output models/autoware
"""


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        PROGRAM,
        description=DESCRIPTION,
        epilog=EXAMPLES,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    option = root.add_argument
    option("--version", action="version", version=f"{PROGRAM} {VERSION}")
    option(
        "source",
        choices=("openpcdet", "mmdet3d", "det3d", "onnx"),
        help="the project that the checkpoint is from, or onnx",
    )
    option(
        "checkpoint",
        type=pathlib.Path,
        nargs="+",
        help="the state of the network; ONNX files: one, or encoder and network",
    )
    option(
        "--config",
        type=pathlib.Path,
        action="append",
        required=True,
        metavar="FILE",
        help="the configuration that the checkpoint was made with",
    )
    option("--output", "-o", type=pathlib.Path, required=True, metavar="DIR", help="the folder to write the model to")
    option("--description", metavar="TEXT", help="a text that the service shows with the model")
    option("--weights", choices=("float32", "float16"), default="float32", help="the type of the stored weights")
    option("--network", choices=("float32", "float16"), default="float32", help="the type that the network computes in")
    option("--ignore", action="append", default=[], metavar="PREFIX", help="leave out tensors named PREFIX...")
    option("--map", action="append", default=[], metavar="NAME=OUTPUT", help="take the map NAME from the ONNX OUTPUT")
    return root


def main(argv: Optional[Sequence[str]] = None) -> int:
    args = parser().parse_args(argv)
    try:
        from .state import ConvertError
        from .steps import convert
    except ImportError as reason:
        print(f"{PROGRAM}: {reason}; pip install 'voxeld[convert]'", file=sys.stderr)
        return FAILED
    try:
        lines, model = convert(args)
        model.description = args.description or model.description
        model.write(args.output)
    except ConvertError as reason:
        print(f"{PROGRAM}: {reason}", file=sys.stderr)
        return FAILED
    except OSError as reason:
        print(f"{PROGRAM}: cannot write {args.output}: {reason.strerror}", file=sys.stderr)
        return FAILED
    for line in (*lines, *model.found()):
        print(line)
    print(f"written to {args.output}")
    return DONE
