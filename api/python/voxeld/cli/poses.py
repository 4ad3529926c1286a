"""Scans as sweeps: their times and poses, from a file in TUM's format or from a topic of a bag."""

from __future__ import annotations

import dataclasses
import re
from typing import Dict, List, Optional, Sequence

from . import transforms
from .bags import Bag, BagScan, Damaged, decimal
from .parameters import STREAM
from .scans import Own, Path, Scan, UsageError
from .transforms import Pose, Track, Tree, Unknown

POSE, MOUNT, DESKEW, ROWS = "pose", "mount", "deskew", "deskew_poses"
MOST_ROWS = {"screw": 65, "slerp": 5}  # of deskew_poses, by the parameter interpolation
REACH = 200_000_000  # nanoseconds before and after a sweep's time in which its points may have been seen


def stamped(scans: List[Scan], path: Path) -> List[Scan]:
    """Each scan with the time and the pose of its line. UsageError if the file is malformed."""
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
    """The parameters of each sweep of a bag that follow from its time: `time` and, if there is a topic of poses,
    `pose` and `deskew_poses`."""

    def __init__(
        self, bags: Sequence[Bag], topic: Optional[str], fixed: Optional[str], parameters: Dict[str, str]
    ) -> None:
        """Reads all poses of the bags. UsageError if there are none, or if they would be of no use."""
        self._stream = STREAM in parameters
        self._deskew = parameters.get(DESKEW) == "poses" and ROWS not in parameters
        self._most_rows = MOST_ROWS.get(parameters.get("interpolation", ""), MOST_ROWS["screw"])
        self._mounted, self._fixed = MOUNT in parameters, fixed
        self._chains: Dict[str, List[Track]] = {}
        self._tree = Tree() if topic is not None else None
        if self._tree is None:
            if fixed is not None:
                raise UsageError("--fixed-frame needs --pose TOPIC")
            return
        if not (self._stream or self._deskew):
            raise UsageError("--pose TOPIC needs --stream, or --deskew poses without --deskew-poses")
        self._read(bags, str(topic), self._tree)

    def own(self, scan: BagScan) -> Own:
        """ValueError if no pose is known at the time of the sweep."""
        stamp = scan.header.stamp
        own = [("time", decimal(stamp))] if self._stream else []
        if self._tree is None:
            return tuple(own)
        try:
            tracks = self._chain(self._tree, scan.header.frame)
            if self._stream:
                own.append((POSE, _text(transforms.at(tracks, stamp))))
        except Unknown as reason:
            raise ValueError(str(reason)) from None
        if self._deskew:
            poses = list(transforms.within(tracks, stamp - REACH, stamp + REACH, self._most_rows))
            if len(poses) < 2:
                raise ValueError(f"there are no poses around {decimal(stamp)} to de-skew by")
            own.append((ROWS, ";".join(f"{decimal(time - stamp)},{_text(pose)}" for time, pose in poses)))
        return tuple(own)

    def _chain(self, tree: Tree, frame: str) -> List[Track]:
        if frame not in self._chains:
            self._chains[frame] = tree.chain(frame, self._fixed, self._mounted)
        return self._chains[frame]

    def _read(self, bags: Sequence[Bag], topic: str, tree: Tree) -> None:
        kinds = {found.name: found.kind for bag in bags for found in bag.topics if found.kind in transforms.KINDS}
        if topic not in kinds:
            there = f"; it has them in {', '.join(sorted(kinds))}" if kinds else ""
            raise UsageError(f"{bags[0].path} has no poses in {topic}{there}")
        if kinds[topic] in transforms.TF_KINDS and self._mounted:
            raise UsageError(f"{topic} has the poses of the sensor itself, so --mount cannot be given as well")
        wanted = [name for name, kind in kinds.items() if name == topic or _is_static(name, kind)]
        for bag in bags:
            try:
                for message in bag.messages(wanted):
                    tree.add(message.topic, message.kind, message.data, message.ros1)
            except Damaged:  # the run says it when it reads the points
                continue
            except ValueError as reason:
                raise UsageError(f"{bag.path} has a malformed message in {topic}: {reason}") from None


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
