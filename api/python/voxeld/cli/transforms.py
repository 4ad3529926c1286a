"""Poses of a sensor, from odometry or transforms (tf), interpolated.

A pose is (x, y, z, qw, qx, qy, qz): it moves points from a frame to its parent."""

from __future__ import annotations

import bisect
import math
from array import array
from typing import Dict, Iterable, Iterator, List, Optional, Tuple

from .. import ros
from ..cdr import Bytes, Reader

Pose = Tuple[float, ...]
IDENTITY: Pose = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
ODOMETRY = "nav_msgs/msg/Odometry"
TF_KINDS = ("tf2_msgs/msg/TFMessage", "tf/msg/tfMessage")
POSES = ("geometry_msgs/msg/PoseStamped", "geometry_msgs/msg/PoseWithCovarianceStamped")
KINDS = (ODOMETRY, *POSES, *TF_KINDS)
STATIC = "_static"  # at the end of a topic of transforms that hold at all times
LONGEST_GAP = 1_000_000_000  # nanoseconds between two poses that may be interpolated
DEGREES_OF_FREEDOM = 7
NEARLY_PARALLEL = 0.999999  # from this cosine on, linear: slerp would divide by almost 0


class Unknown(ValueError):
    """There is no pose at a time. `later`: a later message may have one."""

    def __init__(self, reason: str, later: bool = False) -> None:
        super().__init__(reason)
        self.later = later


class Track:
    """The poses of a frame in its parent. Poses of at least the last `keep` nanoseconds are kept; None: all."""

    def __init__(self, keep: Optional[int] = None) -> None:
        self.parent, self.static, self._keep = "", False, keep
        self._times, self._poses, self._sorted = array("q"), array("d"), True

    def add(self, time: int, pose: Pose) -> None:
        """Ignores invalid poses, such as the zeros that some drivers send at first."""
        norm = math.sqrt(sum(part * part for part in pose[3:]))
        if not (all(map(math.isfinite, pose)) and 1e-6 < norm < 1e6):
            return
        if self._keep is not None:
            self._forget(time, self._keep)
        self._sorted = self._sorted and not (self._times and time < self._times[-1])
        self._times.append(time)
        self._poses.extend((*pose[:3], *(part / norm for part in pose[3:])))

    def at(self, time: int) -> Pose:
        """Interpolates places linearly, rotations by slerp. Unknown if there are no poses around the time."""
        self._sort()
        times = self._times
        if self.static and times:
            return self._pose(len(times) - 1)
        after = bisect.bisect_left(times, time)
        if after < len(times) and times[after] == time:
            return self._pose(after)
        if not 0 < after < len(times):
            near = f"from {times[0] / 1e9:.3f} to {times[-1] / 1e9:.3f}" if times else "at no time"
            later = after == len(times) or self._is_back(time)
            raise Unknown(f"poses are known {near}, not at {time / 1e9:.3f}", later)
        gap = times[after] - times[after - 1]
        if gap > LONGEST_GAP:
            raise Unknown(f"there is no pose for {gap / 1e9:.3f} s around {time / 1e9:.3f}; allowed: up to 1 s")
        return between(self._pose(after - 1), self._pose(after), (time - times[after - 1]) / gap)

    def times(self, first: int, last: int) -> Iterable[int]:
        self._sort()
        return self._times[bisect.bisect_left(self._times, first) : bisect.bisect_right(self._times, last)]

    def _is_back(self, time: int) -> bool:
        return self._keep is not None and bool(self._times) and time < self._times[-1] - self._keep

    def _forget(self, time: int, keep: int) -> None:
        """Drops what a pose of this time replaces: all poses if the track is static or the robot's time has gone back,
        else the oldest ones now and then, or a last pose of the same time."""
        self._sort()
        times, dropped = self._times, 0
        if self.static or self._is_back(time):
            dropped = len(times)
        elif times and time > times[0] + 2 * keep:
            dropped = bisect.bisect_left(times, time - keep)
        elif times and time == times[-1]:
            times.pop()
            del self._poses[-DEGREES_OF_FREEDOM:]
        del times[:dropped], self._poses[: dropped * DEGREES_OF_FREEDOM]

    def _pose(self, number: int) -> Pose:
        return tuple(self._poses[number * DEGREES_OF_FREEDOM : (number + 1) * DEGREES_OF_FREEDOM])

    def _sort(self) -> None:
        if not self._sorted:
            order = sorted(range(len(self._times)), key=self._times.__getitem__)
            self._poses = array("d", (value for number in order for value in self._pose(number)))
            self._times = array("q", (self._times[number] for number in order))
            self._sorted = True


class Tree:
    """The frames of a robot. `vehicle`: the frame that odometry moves; "" if the messages do not name it. `keep`: as
    for Track."""

    def __init__(self, keep: Optional[int] = None) -> None:
        self.vehicle: Optional[str] = None
        self._keep = keep
        self._fixed: Optional[str] = None  # the parent of the vehicle
        self._tracks: Dict[str, Track] = {}

    def add(self, topic: str, kind: str, message: Bytes, ros1: bool) -> None:
        reader = Reader(message, ros1)
        if kind in (ODOMETRY, *POSES):
            header = ros.header_of(reader)
            self.vehicle = _name(reader.text()) if kind == ODOMETRY else ""
            self._fixed = _name(header.frame)
            self._put(header, self.vehicle, _pose(reader))
            return
        for _ in range(reader.number("I")):
            header, child = ros.header_of(reader), reader.text()
            self._put(header, _name(child), _pose(reader)).static = topic.endswith(STATIC)

    def chain(self, frame: str, fixed: Optional[str], mounted: bool) -> List[Track]:
        """The tracks up to the fixed frame. They begin at the vehicle's frame if the request has the sensor's mount
        (`mounted`) or if the messages do not name the vehicle, else at the sensor's. Without `fixed`, the fixed frame
        is the odometry's or, without odometry, the topmost one. Unknown if the tracks do not lead there."""
        start = frame = _name(frame)
        if self.vehicle is not None and (mounted or not self.vehicle):
            start = self.vehicle
        top = self._fixed if fixed is None else _name(fixed)
        tracks: List[Track] = []
        at = start
        while at != top and at in self._tracks and len(tracks) < len(self._tracks):
            tracks.append(self._tracks[at])
            at = tracks[-1].parent
        still = self._keep is not None and all(track.static for track in tracks)  # moving tracks are yet to come
        if not tracks or top not in (None, at) or still:
            raise Unknown(f"no transforms lead from {start or frame} to {top or 'another frame'}", later=True)
        return tracks

    def _put(self, header: ros.Header, child: str, pose: Pose) -> Track:
        track = self._tracks.setdefault(child, Track(self._keep))
        track.parent = _name(header.frame)
        track.add(header.stamp, pose)
        return track


def at(tracks: List[Track], time: int) -> Pose:
    pose = IDENTITY
    for track in tracks:
        pose = compose(track.at(time), pose)
    return pose


def within(tracks: List[Track], first: int, last: int, most: int) -> Iterator[Tuple[int, Pose]]:
    """The known poses of an interval: at the ends and at the times of the moving tracks or, if these are more than
    `most`, at `most` evenly spaced times."""
    times = sorted({first, last, *(time for track in tracks if not track.static for time in track.times(first, last))})
    if len(times) > most:
        times = [first + (last - first) * number // (most - 1) for number in range(most)]
    for time in times:
        try:
            yield time, at(tracks, time)
        except Unknown:
            continue


def compose(outer: Pose, inner: Pose) -> Pose:
    """outer * inner"""
    x, y, z = rotate(outer[3:], inner[:3])
    return (x + outer[0], y + outer[1], z + outer[2], *_product(outer[3:], inner[3:]))


def rotate(turn: Pose, point: Pose) -> Pose:
    w, x, y, z = turn
    _, px, py, pz = _product(_product(turn, (0.0, *point)), (w, -x, -y, -z))
    return px, py, pz


def _product(a: Pose, b: Pose) -> Pose:
    return (
        a[0] * b[0] - a[1] * b[1] - a[2] * b[2] - a[3] * b[3],
        a[0] * b[1] + a[1] * b[0] + a[2] * b[3] - a[3] * b[2],
        a[0] * b[2] - a[1] * b[3] + a[2] * b[0] + a[3] * b[1],
        a[0] * b[3] + a[1] * b[2] - a[2] * b[1] + a[3] * b[0],
    )


def between(a: Pose, b: Pose, share: float) -> Pose:
    cosine = sum(p * q for p, q in zip(a[3:], b[3:]))
    sign = -1.0 if cosine < 0 else 1.0  # the shorter way
    first, second = 1 - share, share
    if abs(cosine) < NEARLY_PARALLEL:
        angle = math.acos(abs(cosine))
        first, second = math.sin(first * angle) / math.sin(angle), math.sin(second * angle) / math.sin(angle)
    turn = [first * p + second * sign * q for p, q in zip(a[3:], b[3:])]
    norm = math.sqrt(sum(part * part for part in turn))
    return (*((1 - share) * p + share * q for p, q in zip(a[:3], b[:3])), *(part / norm for part in turn))


def _pose(reader: Reader) -> Pose:
    """Reads x, y, z, qx, qy, qz, qw."""
    x, y, z, qx, qy, qz, qw = reader.numbers("d", DEGREES_OF_FREEDOM)
    return x, y, z, qw, qx, qy, qz


def _name(frame: str) -> str:
    """ROS 1 has names with a leading slash too."""
    return frame.lstrip("/")
