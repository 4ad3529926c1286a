"""Scans as sweeps: their times and poses, from a file in TUM's format or from a topic."""

from __future__ import annotations

import dataclasses
import re
from typing import Dict, List, Optional, Sequence

from .. import ros
from . import transforms
from .bags import Bag, Damaged, decimal, name_of
from .parameters import STREAM
from .scans import Own, Path, Scan, UsageError
from .transforms import Pose, Tree, Unknown

POSE, MOUNT, DESKEW, ROWS = "pose", "mount", "deskew", "deskew_poses"
MOST_ROWS = {"screw": 65, "slerp": 5}  # of deskew_poses, by the parameter interpolation
REACH = 200_000_000  # nanoseconds before and after a sweep's time in which its points may have been seen


def stamped(scans: List[Scan], path: Path) -> List[Scan]:
    """Each scan with the time and the pose of its line. UsageError if the file does not fit."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as reason:
        raise UsageError(f"cannot read {path}: {getattr(reason, 'strerror', None) or reason}") from None
    rows = [_own(f"{path}:{number}", line) for number, line in enumerate(text.splitlines(), 1) if _says(line)]
    if len(rows) != len(scans):
        raise UsageError(f"{path} has {len(rows)} poses for {len(scans)} scans")
    return [dataclasses.replace(scan, own=own) for scan, own in zip(scans, rows)]


def is_topic(pose: str) -> bool:
    """Whether a value of --pose is the name of a topic, not numbers."""
    return not re.match(r"[-+]?[\d.]", pose)


class Motion:
    """The parameters of a sweep that follow from its stamp. With a stream: `time` and, if there are poses, `pose`. With
    deskew=poses: `deskew_poses`."""

    def __init__(self, tree: Optional[Tree], fixed: Optional[str], parameters: Dict[str, str]) -> None:
        self._tree, self._fixed = tree, fixed
        self._stream = STREAM in parameters
        self._deskew = parameters.get(DESKEW) == "poses" and ROWS not in parameters
        self._most_rows = MOST_ROWS.get(parameters.get("interpolation", ""), MOST_ROWS["screw"])
        self._mounted = MOUNT in parameters
        if tree is None and fixed is not None:
            raise UsageError("--fixed-frame needs --pose TOPIC")
        if tree is not None and not (self._stream or self._deskew):
            raise UsageError("--pose TOPIC needs --stream, or --deskew poses without --deskew-poses")

    def own(self, header: ros.Header) -> Own:
        """Unknown if the sweep's pose, or poses to de-skew by, are not known."""
        stamp = header.stamp
        own = [("time", decimal(stamp))] if self._stream else []
        if self._tree is None:
            return tuple(own)
        tracks = self._tree.chain(header.frame, self._fixed, self._mounted)
        self._fixed = tracks[-1].parent  # the same for all sweeps, whatever frames are yet to come
        if self._stream:
            own.append((POSE, _text(transforms.at(tracks, stamp))))
        if self._deskew:
            poses = list(transforms.within(tracks, stamp - REACH, stamp + REACH, self._most_rows))
            if len(poses) < 2:
                raise Unknown(f"there are no poses around {decimal(stamp)} to de-skew by")
            own.append((ROWS, ";".join(f"{decimal(time - stamp)},{_text(pose)}" for time, pose in poses)))
        return tuple(own)


def refuse_mount(topic: str, kind: str, parameters: Dict[str, str]) -> None:
    """UsageError if the topic's poses exclude a mount, and the request has one."""
    if kind in transforms.TF_KINDS and MOUNT in parameters:
        raise UsageError(f"{topic} has the poses of the sensor itself, so --mount cannot be given as well")


def read(bags: Sequence[Bag], topic: str, parameters: Dict[str, str]) -> Tree:
    """The poses in a topic of the bags, and their static transforms. UsageError if the poses cannot be used."""
    kinds = {found.name: found.kind for bag in bags for found in bag.topics if found.kind in transforms.KINDS}
    if topic not in kinds:
        there = f"; they are in {', '.join(sorted(kinds))}" if kinds else ""
        raise UsageError(f"{name_of(bags)}: no poses in {topic}{there}")
    refuse_mount(topic, kinds[topic], parameters)
    tree = Tree()
    wanted = [name for name, kind in kinds.items() if name == topic or _is_static(name, kind)]
    for bag in bags:
        try:
            for message in bag.messages(wanted):
                tree.add(message.topic, message.kind, message.data, message.ros1)
        except Damaged:  # the run reports the damage when it reads the points
            continue
        except ValueError as reason:
            raise UsageError(f"{bag.path} has a malformed message in {topic}: {reason}") from None
    return tree


def _is_static(name: str, kind: str) -> bool:
    return kind in transforms.TF_KINDS and name.endswith(transforms.STATIC)


def _text(pose: Pose) -> str:
    return ",".join(map(repr, pose))


def _says(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _own(place: str, line: str) -> Own:
    words = line.split()
    try:
        if len(list(map(float, words))) != 8:
            raise ValueError
    except ValueError:
        raise UsageError(f"{place} is not a line of 8 numbers: time x y z qx qy qz qw") from None
    time, x, y, z, qx, qy, qz, qw = words
    return ("time", time), (POSE, ",".join((x, y, z, qw, qx, qy, qz)))
