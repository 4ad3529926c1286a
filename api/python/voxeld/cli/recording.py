"""Answers as one MCAP file of ROS 2 messages, in the order of the scans. Threads may share a recording. Needs mcap.

The file is hidden until the run ends; an interrupted run leaves it hidden. The next run takes over the answers in the
hidden file. If there is only a finished file, the next run takes over its answers, and adds those of the scans that
failed."""

from __future__ import annotations

import json
import os
import secrets
import threading
from collections import deque
from typing import Any, Deque, Dict, Iterator, List, Mapping, NamedTuple, Optional, Tuple

from .. import ros
from ..client import Client
from ..errors import RequestWarning
from ..version import VERSION
from .answers import PART, warnings_of
from .bags import BagScan, needed
from .batch import Job, Stop
from .boxes import BoxReader
from .options import PROGRAM
from .parameters import DETECT
from .scans import Path, Scan, UsageError

MESSAGES = ("voxelize", "fps", "points", "transform", DETECT)  # operations whose answers are messages
BOXES = "/boxes"  # the service names the topics of points
RECORD = "voxeld"  # the metadata record with the request
RULE = "=" * 80
# For each type of message: its definition, and the names of the types in it, whose definitions are in PARTS.
DEFINITIONS = {
    ros.POINT_CLOUD: (
        "std_msgs/Header header\nuint32 height\nuint32 width\nsensor_msgs/PointField[] fields\nbool is_bigendian\n"
        "uint32 point_step\nuint32 row_step\nuint8[] data\nbool is_dense",
        ("sensor_msgs/PointField", "std_msgs/Header", "builtin_interfaces/Time"),
    ),
    ros.DETECTIONS: (
        "std_msgs/Header header\nvision_msgs/Detection3D[] detections",
        (
            "vision_msgs/Detection3D",
            "vision_msgs/ObjectHypothesisWithPose",
            "vision_msgs/ObjectHypothesis",
            "vision_msgs/BoundingBox3D",
            "geometry_msgs/PoseWithCovariance",
            "geometry_msgs/Pose",
            "geometry_msgs/Point",
            "geometry_msgs/Quaternion",
            "geometry_msgs/Vector3",
            "std_msgs/Header",
            "builtin_interfaces/Time",
        ),
    ),
}
PARTS = {
    "builtin_interfaces/Time": "int32 sec\nuint32 nanosec",
    "std_msgs/Header": "builtin_interfaces/Time stamp\nstring frame_id",
    "sensor_msgs/PointField": "string name\nuint32 offset\nuint8 datatype\nuint32 count",
    "geometry_msgs/Point": "float64 x\nfloat64 y\nfloat64 z",
    "geometry_msgs/Vector3": "float64 x\nfloat64 y\nfloat64 z",
    "geometry_msgs/Quaternion": "float64 x\nfloat64 y\nfloat64 z\nfloat64 w",
    "geometry_msgs/Pose": "geometry_msgs/Point position\ngeometry_msgs/Quaternion orientation",
    "geometry_msgs/PoseWithCovariance": "geometry_msgs/Pose pose\nfloat64[36] covariance",
    "vision_msgs/ObjectHypothesis": "string class_id\nfloat64 score",
    "vision_msgs/ObjectHypothesisWithPose": (
        "vision_msgs/ObjectHypothesis hypothesis\ngeometry_msgs/PoseWithCovariance pose"
    ),
    "vision_msgs/BoundingBox3D": "geometry_msgs/Pose center\ngeometry_msgs/Vector3 size",
    "vision_msgs/Detection3D": (
        "std_msgs/Header header\nvision_msgs/ObjectHypothesisWithPose[] results\nvision_msgs/BoundingBox3D bbox\n"
        "string id"
    ),
}


class Answer(NamedTuple):
    topic: str
    kind: str
    data: bytes


def definition(kind: str) -> str:
    text, parts = DEFINITIONS[kind]
    return "\n".join((text, *(f"{RULE}\nMSG: {part}\n{PARTS[part]}" for part in parts)))


class Recording:
    def __init__(self, path: Path, request: Mapping[str, Any], newest: int, force: bool, anew: bool) -> None:
        """`request`: what the answers depend on. `newest`: when the bags last changed, in nanoseconds; answers in older
        files do not count. `anew`: no answers count. UsageError if the file has answers of another request, unless
        `force` is set."""
        self.path, self._part = path, path.parent / f".{path.name}{PART}"
        self._module = needed("mcap.writer", path)
        self._request = json.dumps(request, sort_keys=True)
        if path.exists() and not path.is_file():
            raise UsageError(f"{path} is not a file")
        if path.exists() and not force and _request_of(path) != self._request:
            raise UsageError(f"{path} has answers of other parameters; choose another file; --force replaces this one")
        usable = [] if force or anew else [file for file in (self._part, path) if self._is_usable(file, newest)]
        self._before = usable[0] if usable else None
        self.answered = {number for number, *_ in _messages(self._before)} if self._before else set[int]()
        if self._before == self._part:  # an interrupted run may have written only some messages of its last scan
            self.answered -= {max(self.answered, default=0)}
        self._lock = threading.Lock()
        self._channels: Dict[Tuple[str, str], int] = {}
        self._waiting: Deque[int] = deque()  # scans that were begun and are not written
        self._ready: Dict[int, Tuple[int, List[Answer]]] = {}
        self._writer: Any = None
        self._file: Any = None

    def behind(self) -> int:
        return len(self._waiting)

    def _begin(self) -> None:
        """Takes over the answers that count."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.parent / f".{self.path.name}.{secrets.token_hex(4)}{PART}"
        self._file = open(new, "xb")
        try:
            self._writer = self._module.Writer(self._file)
            self._writer.start("ros2", f"{PROGRAM} {VERSION}")
            self._writer.add_metadata(RECORD, {"request": self._request})
            for number, time, answer in _messages(self._before) if self._before else ():
                if number in self.answered:
                    self._write(number, time, answer)
            os.replace(new, self._part)
        except BaseException:
            self._file.close()
            new.unlink(missing_ok=True)
            raise

    def expect(self, scan: BagScan) -> None:
        """Call this before put(): scans are written in the order of these calls. May raise OSError."""
        with self._lock:
            if not self._writer:
                self._begin()
            self._waiting.append(scan.number)

    def put(self, scan: BagScan, answers: List[Answer]) -> None:
        """Writes the answers once the earlier scans are written. `answers` is empty if the scan failed. May raise
        OSError."""
        with self._lock:
            self._ready[scan.number] = scan.time, answers
            while self._writer and self._waiting and self._waiting[0] in self._ready:
                number = self._waiting.popleft()
                time, ready = self._ready.pop(number)
                for answer in ready:
                    self._write(number, time, answer)

    def end(self, whole: bool) -> None:
        """Closes the file, and gives it its name if it is whole. May raise OSError."""
        with self._lock:
            if whole and not self._writer and self._before == self._part:
                self._begin()
            writer, self._writer = self._writer, None
            if not writer:
                return
            with self._file:
                writer.finish()
            if whole:
                os.replace(self._part, self.path)

    def _write(self, number: int, time: int, answer: Answer) -> None:
        key = answer.topic, answer.kind
        if key not in self._channels:
            schema = self._writer.register_schema(answer.kind, "ros2msg", definition(answer.kind).encode())
            self._channels[key] = self._writer.register_channel(answer.topic, "cdr", schema)
        self._writer.add_message(self._channels[key], time, answer.data, time, number)

    def _is_usable(self, file: Path, newest: int) -> bool:
        return file.exists() and file.stat().st_mtime_ns >= newest and _request_of(file) == self._request


class Recorder(Job):
    def __init__(self, client: Client, operation: str, parameters: Dict[str, str], recording: Recording) -> None:
        super().__init__(client, operation, "safetensors" if operation == DETECT else "mcap", parameters)
        self._recording, self._boxes = recording, BoxReader()

    def run(self, scan: Scan) -> List[RequestWarning]:
        assert isinstance(scan, BagScan)
        answers: List[Answer] = []
        try:
            body = self.ask(scan)
            if self._operation == DETECT:
                found = ros.detections(self._boxes.read(body), scan.header)
                answers = [Answer(BOXES, ros.DETECTIONS, found)]
            else:
                clouds = ros.clouds(body.data, scan.header)
                answers = [Answer(topic, ros.POINT_CLOUD, cloud) for topic, cloud in clouds.items()]
            return warnings_of(self._kind, body)
        finally:
            try:
                self._recording.put(scan, answers)
            except OSError as reason:
                raise Stop(f"cannot write {self._recording.path}: {reason.strerror or reason}") from None


def _request_of(path: Path) -> Optional[str]:
    with open(path, "rb") as file:
        try:
            for record in needed("mcap.stream_reader", path).StreamReader(file).records:
                if type(record).__name__ == "Metadata" and record.name == RECORD:
                    return str(record.metadata.get("request"))
        except Exception:  # this is no MCAP file, or ends too early
            pass
    return None


def _messages(path: Path) -> Iterator[Tuple[int, int, Answer]]:
    """The answers in a file, with the number and the time of each scan, as far as the file is whole."""
    with open(path, "rb") as file:
        messages = needed("mcap.reader", path).NonSeekingReader(file).iter_messages(log_time_order=False)
        try:
            for schema, channel, message in messages:
                yield message.sequence, message.log_time, Answer(channel.topic, schema.name, message.data)
        except OSError:
            raise
        except Exception:  # mcap and its decompressors have errors of many types
            return
