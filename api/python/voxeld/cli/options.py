"""The commands of the command line, their options, and their help."""

from __future__ import annotations

import argparse
import difflib
import os
import pathlib
import re
from typing import Any, Dict, List, NoReturn, Sequence, Tuple

from ..parameters import Parameter
from ..uplink import AUTO, Packer, Uplink
from ..version import VERSION
from .answers import KINDS
from .live_view import PORTS
from .parameters import DETECT, OPERATIONS, STEP, parameters_of, parameters_of_any

PROGRAM = "voxeld-client"
LIVE_OPERATIONS = (DETECT, "voxelize", "points", "transform", "fps")  # their answers are messages of ROS 2
MOST_JOBS = 256
FOLDER = pathlib.Path
# No abbreviations: a script must not break if an option is added.
STYLE: Dict[str, Any] = {"allow_abbrev": False, "formatter_class": argparse.RawDescriptionHelpFormatter}

EXAMPLES = {
    "": """\
examples:
  voxeld-client presets
  voxeld-client voxelize velodyne/ --preset kitti_second --output out/
  voxeld-client watch /data/recorder --preset kitti_second --output out/
""",
    "voxelize": """\
examples:
  voxeld-client voxelize *.bin --preset kitti_second --output out/ --jobs 8
  voxeld-client voxelize sequences/*/velodyne --root sequences --preset kitti_second --output out/ --to npz
  voxeld-client voxelize *.bin --steps downsample --downsample.voxel-size 0.1 --preset kitti_second --output out/
  voxeld-client voxelize sweeps/ --stream roof_lidar --sweeps 10 --poses poses.txt --preset kitti_second --output out/
  voxeld-client voxelize scan.pcd --voxel-size 0.2,0.2,0.2 --point-cloud-range -50,-50,-5,50,50,3 --output out/
""",
    "fps": """\
examples:
  voxeld-client fps *.bin --num-samples 4096 --output samples/
  voxeld-client fps scan.ply --num-features 3 --num-samples 1024 --output samples/ --to npz
""",
    "range_image": """\
examples:
  voxeld-client range_image *.bin --preset semantickitti_rangenet --output images/ --to npz
  voxeld-client range_image *.bin --height 64 --width 2048 --rows ring_down --ring kitti --output images/
""",
    "points": """\
examples:
  voxeld-client points *.pcd --output rows/
  voxeld-client points *.bin --steps transform --transform.distance 1,80 --output near/ --to mcap
""",
    "transform": """\
examples:
  voxeld-client transform *.bin --crop 0,-40,-3,70,40,1 --output cropped/
  voxeld-client transform *.bin --cut -1,-1,-2,3,1,1 --output clean/ --to mcap
""",
    "detect": """\
examples:
  voxeld-client detect scan.bin --model kitti
  voxeld-client detect velodyne/ --model kitti --json
  voxeld-client detect velodyne/ --model kitti --output boxes/
  voxeld-client detect drive.mcap --topic /lidar_top --model kitti --output boxes.mcap
""",
    "serialize": """\
examples:
  voxeld-client serialize *.bin --preset nuscenes_ptv3 --output ptv3/ --to npz
""",
    "backbone": """\
examples:
  voxeld-client backbone velodyne/ --model second --output features/
  voxeld-client backbone scan.bin --model second --outputs bev_features --output maps/ --to npz
""",
    "models": """\
examples:
  voxeld-client models
  voxeld-client models kitti --json
""",
    "presets": """\
examples:
  voxeld-client presets
  voxeld-client presets kitti_second
""",
    "streams": """\
examples:
  voxeld-client streams
  voxeld-client streams roof_lidar --json
  voxeld-client streams roof_lidar --last joined.npy
  voxeld-client streams roof_lidar --delete
""",
    "status": """\
examples:
  voxeld-client status --server unix:/run/voxeld/voxeld.sock
  voxeld-client status --server https://voxeld.example:8443 --token-file token --ca ca.pem --json
""",
    "watch": """\
examples:
  voxeld-client watch /data/recorder --preset kitti_second --output out/
  voxeld-client watch /data/recorder --operation fps --num-samples 4096 --output samples/
""",
    "live": """\
examples:
  voxeld-client live --zenoh tcp/robot:7447 --topic /lidar_top --model kitti --publish /boxes
  voxeld-client live --ros2 --topic /lidar_top --operation voxelize --preset kitti_second --publish /voxels
""",
}
SCANS = """\
A scan is a file: rows of float32 (.bin), an array [N, C] of float32 or float16 (.npy), PCD (.pcd), PLY (.ply) or a
serialized PointCloud2 (.cdr). A folder means all scans in the folder and its subfolders, except hidden ones.

An answer has the name of its scan. It appears complete or not at all. The next run skips it unless the scan is
newer. The exit status is 0 if every scan has its answer, 1 if not, 2 for wrong usage, and 130 or 143 after a signal.
"""
BAGS = """\
A bag is an MCAP file, a folder or a .db3 file of rosbag2, or a .bag file of ROS 1. Its messages with points are scans:
PointCloud2, CompressedPointCloud2 and Livox's CustomMsg. --output FILE.mcap writes the answers as messages into one
file. --pose TOPIC, of odometry or /tf, gives each sweep of a --stream its pose; --deskew poses takes its poses from
there too.
"""
SWEEPS = """\
With --stream the scans are sweeps, which the service joins. They are sent in order, one at a time, and all of
them, even if they have answers. --poses names the file with their times and poses; the stream then begins anew.
Without --poses only one file can be sent, with --time and --pose.
"""
STEPS = "These set the parameters of a step whose tag is its type. For a step with another tag: --TAG.NAME VALUE."
PRINTED = """\
Without --output a table of the boxes of each scan is printed: class, score, centre and size in metres, heading in
degrees from -180 to 180. --json prints one object per line instead; its headings are in radians, as the service sends
them.
"""


def parser() -> argparse.ArgumentParser:
    root = argparse.ArgumentParser(
        PROGRAM, description="Client of voxeld, a service for point clouds.", epilog=EXAMPLES[""], **STYLE
    )
    root.add_argument("--version", action="version", version=f"{PROGRAM} {VERSION}")
    commands = root.add_subparsers(dest="command", metavar="COMMAND", required=True)

    for operation, doc in OPERATIONS.items():
        prints = operation == DETECT
        text = f"{doc.capitalize()}.\n\n{PRINTED if prints else ''}\n{SCANS}\n{BAGS}\n{SWEEPS}".replace(
            "\n\n\n", "\n\n"
        )
        command = _add_command(commands, operation, doc, text)
        command.set_defaults(operation=operation, json=False)
        command.add_argument("scans", nargs="+", metavar="SCAN", help="a file, a folder or a bag")
        _add_answers(command, prints)
        command.add_argument("--root", type=FOLDER, metavar="DIR", help="give answers the scans' folders below DIR")
        command.add_argument("--force", action="store_true", help="replace answers that exist already")
        command.add_argument(
            "--poses",
            type=FOLDER,
            metavar="FILE",
            help="with --stream: a line for each scan, as TUM writes it: time x y z qx qy qz qw",
        )
        command.add_argument("--topic", metavar="NAME", help="of a bag: the topic of the points, if it has several")
        command.add_argument(
            "--fixed-frame",
            metavar="NAME",
            help="of a bag: the frame that the poses lead to; default: that of the odometry, or the topmost of /tf",
        )
        _add_parameters(command, parameters_of(operation))

    watch = _add_command(
        commands,
        "watch",
        "answer scans as they appear in a folder",
        "Answer the scans in a folder, and those that appear in it, until Ctrl-C or SIGTERM.\n\n"
        "The folder is looked through again and again, so it may be on any file system. A scan is taken once its size\n"
        "and time have not changed for --settle seconds; if it grows later, it is answered again. The path of each\n"
        "answer is printed. Bags are left out. The exit status is 0 if no scan failed, else 1.",
    )
    watch.add_argument("folder", metavar="DIR", type=FOLDER)
    watch.add_argument("--operation", choices=list(OPERATIONS), default="voxelize", help="default: voxelize")
    _add_answers(watch)
    watch.add_argument("--settle", type=_seconds, default=1.0, metavar="S", help="seconds without a change; default: 1")
    watch.add_argument("--interval", type=_seconds, default=0.5, metavar="S", help="pause between looks; default: 0.5")
    watch.set_defaults(root=None, force=False)
    _add_parameters(watch, parameters_of_any())

    _add_live(commands)
    presets = _add_command(commands, "presets", "list the presets, or show one", "List the presets, or show one.")
    presets.add_argument("name", nargs="?", help="show the parameters of this preset")
    models = _add_command(
        commands, "models", "list the models that detect, or show one", "List the models that detect, or show one."
    )
    models.add_argument("name", nargs="?", help="show the parameters of this model")
    streams = _add_command(
        commands,
        "streams",
        "list the streams that the service keeps, or look at one",
        "List the streams that the service keeps, show one, save its points or delete it.",
    )
    streams.add_argument("name", nargs="?", help="show this stream")
    either = streams.add_mutually_exclusive_group()
    either.add_argument(
        "--last", type=FOLDER, metavar="FILE", help="save the points that were joined last, as .npy or rows (.bin)"
    )
    either.add_argument("--delete", action="store_true", help="drop the sweeps of this stream")
    status = _add_command(commands, "status", "show what the service is doing", "Show what the service is doing.")
    for command in (presets, models, streams, status):
        command.add_argument("--json", action="store_true", help="print JSON")
    for command in commands.choices.values():
        _add_server(command)
    commands.choices["live"].set_defaults(retries=0, deadline=10.0)  # a newer message is better than another attempt
    return root


def parse(given: Sequence[str]) -> argparse.Namespace:
    root = parser()
    args, unknown = root.parse_known_args(arguments(given))
    if unknown:
        _refuse(root, args.command, unknown[0])
    return args


def arguments(given: Sequence[str]) -> List[str]:
    """The words as argparse takes them. Options have `-` for `_`. With a tag of the user's choice,
    --TAG.NAME=VALUE becomes --param=TAG.NAME=VALUE. Values such as -50,-50,5, which look like options,
    are joined to their option."""
    joined: List[str] = []
    for word in given:
        before = joined[-1] if joined else ""
        of_step, of_numbers = re.fullmatch(r"--\w[\w-]*\.[\w-]+", before), re.match(r"-\.?\d", word)
        if of_step or (of_numbers and re.fullmatch(r"--[\w-]+", before)):
            joined[-1] += "=" + word
        else:
            joined.append(word)
    return [_spelled(word) for word in joined]


def _spelled(word: str) -> str:
    name, equals, value = word.partition("=")
    if not re.fullmatch(r"--\w[\w.-]*", name):
        return word
    option, of_steps = name.replace("_", "-"), {option_of(row.name) for row in parameters_of_any() if STEP in row.name}
    if STEP not in name or option in of_steps:
        return option + equals + value
    tag, _, parameter = name[2:].partition(STEP)
    return f"--param={tag}{STEP}{parameter.replace('-', '_')}{equals}{value}"


def _refuse(root: argparse.ArgumentParser, command: str, word: str) -> NoReturn:
    option = word.partition("=")[0]
    near = difflib.get_close_matches(option, _commands(root)[command]._option_string_actions, 1, 0.75)
    hint = f"did you mean {near[0]}?" if near else f"{PROGRAM} {command} --help lists the options"
    root.error(f"{command} has no option {option}; {hint}" if word.startswith("-") else f"{word} is one word too many")


def parameters(args: argparse.Namespace) -> Dict[str, str]:
    """The parameters of the request. ValueError if a parameter is given twice."""
    values = {name[2:]: value for name, value in vars(args).items() if name.startswith("p_") and value is not None}
    for name, value in args.more:
        if name in values:
            raise ValueError(f"{name} is given twice")
        values[name] = value
    return values


def option_of(name: str) -> str:
    return "--" + name.replace("_", "-")


def _commands(root: argparse.ArgumentParser) -> Dict[str, argparse.ArgumentParser]:
    (commands,) = (action for action in root._actions if isinstance(action, argparse._SubParsersAction))
    return dict(commands.choices)


def _add_command(commands: Any, name: str, doc: str, description: str) -> argparse.ArgumentParser:
    command: argparse.ArgumentParser = commands.add_parser(
        name, help=doc, description=description, epilog=EXAMPLES[name], **STYLE
    )
    return command


def _add_live(commands: Any) -> None:
    live = _add_command(
        commands,
        "live",
        "answer the messages of a robot's topic",
        "Answer the messages of a robot's topic as they come, and publish the answers: boxes as a\n"
        "vision_msgs/Detection3DArray, points as a PointCloud2. The freshest message wins: a message that is not yet\n"
        "computed when a newer one comes gets no answer. Messages are a PointCloud2, a CompressedPointCloud2 or\n"
        "Livox's CustomMsg. With --stream NAME and --pose TOPIC they are sweeps of a stream. Runs until Ctrl-C or\n"
        "SIGTERM, and waits for a robot or a service that is away.",
    )
    either = live.add_mutually_exclusive_group(required=True)
    either.add_argument(
        "--zenoh",
        metavar="LOCATOR",
        help="reach the robot's rmw_zenoh or zenoh-bridge-ros2dds, such as tcp/robot:7447; or a file with Zenoh's "
        "configuration (.json5)",
    )
    either.add_argument("--ros2", action="store_true", help="use the ROS 2 of this machine")
    option = live.add_argument
    option("--topic", required=True, metavar="NAME", help="the topic of the points")
    option("--publish", metavar="NAME", help="the topic for the answers")
    option("--fixed-frame", metavar="NAME", help="with --pose TOPIC: the frame to which the poses lead; as for bags")
    option("--operation", choices=LIVE_OPERATIONS, default=DETECT, help="default: %(default)s")
    option(
        "--domain",
        type=int,
        default=os.environ.get("ROS_DOMAIN_ID", "0"),
        metavar="N",
        help="the ROS domain; default: $ROS_DOMAIN_ID, or 0",
    )
    option(
        "--jobs",
        "-j",
        type=_jobs,
        default=1,
        metavar="N",
        help="messages in progress at a time; default: 1, which gives the youngest answers; more give more answers, "
        "but older ones, if sending takes long",
    )
    option(
        "--every", type=_seconds, default=10.0, metavar="S", help="print rates, ages and drops every S s; default: 10"
    )
    option(
        "--metrics",
        type=_address,
        metavar="[HOST:]PORT",
        help="serve metrics for Prometheus; HOST is 127.0.0.1 by default",
    )
    option(
        "--view",
        type=_viewer,
        metavar="NAME[:PORT]",
        help="serve points and answers to foxglove (port 8765 of this machine alone) or to rerun (port 9876 of every "
        "address)",
    )
    _add_parameters(live, [row for row in parameters_of_any() if set(row.operations) & set(LIVE_OPERATIONS)])


def _add_server(command: argparse.ArgumentParser) -> None:
    group = command.add_argument_group("the service")
    group.add_argument(
        "--server",
        default="http://localhost:8080",
        metavar="URL",
        help="http://HOST:PORT, https://HOST:PORT or unix:PATH; default: %(default)s",
    )
    group.add_argument(
        "--token-file", type=FOLDER, metavar="FILE", help="a file with the token that --new-token printed"
    )
    group.add_argument("--ca", metavar="FILE", help="PEM file of the authorities to trust for https")
    group.add_argument(
        "--cert", metavar="FILE", help="PEM file of the client's certificate, and its key if --key is not given"
    )
    group.add_argument("--key", metavar="FILE", help="PEM file of the client's key")
    group.add_argument(
        "--timeout", type=_seconds, default=60.0, metavar="S", help="maximum seconds without progress; default: 60"
    )
    group.add_argument(
        "--deadline",
        type=_seconds,
        default=120.0,
        metavar="S",
        help="maximum seconds for a scan, with all attempts; default: %(default)g",
    )
    group.add_argument(
        "--no-shared-memory",
        dest="shared_memory",
        action="store_false",
        help="send all through the socket; otherwise a service on this machine that allows it reads scans, and writes "
        "answers, in shared memory",
    )
    group.add_argument(
        "--uplink",
        type=_uplink,
        metavar="auto|R",
        help="for slow links: send points as integers or shuffled floats, compressed. auto loses nothing; R is the "
        "resolution to which all columns are rounded, and R,R,... has one for each column",
    )
    group.add_argument(
        "--retries",
        type=int,
        default=5,
        metavar="N",
        help="maximum further attempts after temporary errors; default: %(default)s",
    )


def _add_answers(command: argparse.ArgumentParser, may_print: bool = False) -> None:
    option = command.add_argument
    either = command.add_mutually_exclusive_group(required=not may_print)
    either.add_argument(
        "--output", "-o", type=FOLDER, metavar="DIR", help="the folder for the answers, or FILE.mcap for those of bags"
    )
    if may_print:
        either.add_argument("--json", action="store_true", help="print the boxes as JSON")
    option("--to", choices=list(KINDS), default="safetensors", help="kind of the answers; default: %(default)s")
    option("--jobs", "-j", type=_jobs, default=8, metavar="N", help="scans in progress at a time; default: 8")


def _add_parameters(command: argparse.ArgumentParser, rows: List[Parameter]) -> None:
    group = command.add_argument_group("parameters of the service")
    group.add_argument(
        "--param",
        "-p",
        dest="more",
        action="append",
        default=[],
        type=_pair,
        metavar="NAME=VALUE",
        help="any parameter by its name, such as those of a newer service",
    )
    of_steps = command.add_argument_group("parameters of steps", STEPS)
    for row in rows:
        text = row.text().replace("%", "%%")
        option = (of_steps if STEP in row.name else group).add_argument
        option(option_of(row.name), dest=f"p_{row.name}", metavar="VALUE", help=text)


def _pair(text: str) -> Tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def _jobs(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MOST_JOBS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 to {MOST_JOBS}")
    return int(text)


def _address(text: str) -> Tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r} is not PORT or HOST:PORT")
    return host.strip("[]") or "127.0.0.1", int(port)


def _viewer(text: str) -> Tuple[str, int]:
    name, colon, port = text.partition(":")
    if name not in PORTS:
        raise argparse.ArgumentTypeError(f"{name!r} is not {' or '.join(PORTS)}")
    return name, _address(port)[1] if colon else PORTS[name]


def _uplink(text: str) -> Uplink:
    uplink: Uplink = text
    try:
        if text != AUTO:
            uplink = [float(number) for number in text.split(",")]
        Packer(uplink)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not auto, or numbers above 0") from None
    return uplink


def _seconds(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value <= 1_000_000:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above 0")
    return value
