"""ROS messages as bodies of requests, and answers as ROS 2 messages. Needs no ROS.

    cloud = ros.cloud_of("sensor_msgs/msg/PointCloud2", message)
    result = client.detect(cloud.body, "kitti", format=cloud.format)
    ros.detections(result, cloud.header)  # a vision_msgs/msg/Detection3DArray, serialized

    file = client.file_bytes("voxelize", cloud.body, ros.MCAP, format=cloud.format, preset="kitti_second")
    ros.clouds(file, cloud.header)["/voxels"]  # a sensor_msgs/msg/PointCloud2, serialized

The frame and the time of an answer's message are those of the message with the points."""

from __future__ import annotations

import math
import struct
from typing import Dict, Iterator, List, NamedTuple, Tuple

from .cdr import Bytes, Reader, Writer
from .errors import BadAnswer
from .result import Result

POINT_CLOUD, DETECTIONS = "sensor_msgs/msg/PointCloud2", "vision_msgs/msg/Detection3DArray"
COMPRESSED = "point_cloud_interfaces/msg/CompressedPointCloud2"
LIVOX = tuple(f"{package}/msg/CustomMsg" for package in ("livox_ros_driver", "livox_ros_driver2", "livox_interfaces"))
FORMATS = {POINT_CLOUD: "pointcloud2", COMPRESSED: "compressedpointcloud2", **dict.fromkeys(LIVOX, "pointcloud2")}
MCAP = "application/x-mcap"  # the type of the answers that clouds() reads

# A point of Livox: name, type of PointField, offset. The points of a message have padding between them only in CDR.
LIVOX_FIELDS = (
    ("x", 7, 4),
    ("y", 7, 8),
    ("z", 7, 12),
    ("intensity", 2, 16),  # Livox calls it reflectivity
    ("tag", 2, 17),
    ("line", 2, 18),
    ("offset_time", 6, 0),  # nanoseconds from the message's first point
)
LIVOX_BYTES, LIVOX_STEP = 19, 20

MAGIC = b"\x89MCAP0\r\n"
CHUNK, CHANNEL, MESSAGE = 0x06, 0x04, 0x05  # records of MCAP
MESSAGE_HEAD = 22  # bytes of a message record before the ROS message
CHUNK_HEAD = 28  # bytes of a chunk record before the name of its compression


class Header(NamedTuple):
    stamp: int  # nanoseconds
    frame: str


class Cloud(NamedTuple):
    """A body, its parameter `format`, and the message's header."""

    header: Header
    body: Bytes
    format: str


def kind_of(name: str) -> str:
    """The name of a message type as ROS 2 writes it; ROS 1 leaves out `msg`."""
    package, _, rest = name.partition("/")
    return f"{package}/{rest}" if "/" in rest else f"{package}/msg/{rest}"


def is_cloud(kind: str) -> bool:
    return kind_of(kind) in FORMATS


def header_of(reader: Reader) -> Header:
    if reader.ros1:
        reader.number("I")  # the number of the message
    seconds, rest = reader.number("I" if reader.ros1 else "i"), reader.number("I")
    return Header(seconds * 10**9 + rest, reader.text())


def cloud_of(kind: str, message: Bytes, ros1: bool = False) -> Cloud:
    """`kind` is the message's type; `ros1`: ROS 1 has serialized the message. ROS 2's PointCloud2 and
    CompressedPointCloud2 are bodies as they are. ValueError if the message is malformed or its type has no points."""
    kind = kind_of(kind)
    if kind not in FORMATS:
        raise ValueError(f"{kind} has no points; expected {', '.join(FORMATS)}")
    reader = Reader(message, ros1)
    header = header_of(reader)
    if kind in LIVOX:
        return Cloud(header, _livox(reader, header), FORMATS[kind])
    return Cloud(header, _ros2(kind, reader, header) if ros1 else message, FORMATS[kind])


def _ros2(kind: str, reader: Reader, header: Header) -> bytes:
    """The reader has read the header."""
    writer = _head(Writer(), header).numbers("I", reader.number("I"), reader.number("I"))  # height and width
    fields = reader.number("I")
    writer.numbers("I", fields)
    for _ in range(fields):
        writer.text(reader.text()).numbers("I", reader.number("I"))
        writer.numbers("B", reader.number("B")).numbers("I", reader.number("I"))
    writer.numbers("B", reader.number("B"))  # is_bigendian
    writer.numbers("I", reader.number("I"), reader.number("I"))  # point_step and row_step
    writer.data(reader.take(reader.number("I"))).numbers("B", reader.number("B"))  # data and is_dense
    return (writer.text(reader.text()) if kind == COMPRESSED else writer).message()


def _livox(reader: Reader, header: Header) -> bytes:
    """A CustomMsg as a PointCloud2. The reader has read the header."""
    if reader.order != "<" or reader.most != 8:
        raise ValueError("the CustomMsg is not little-endian CDR")
    reader.numbers("Q", 1)  # the time base, which the header has too
    reader.number("I")
    reader.take(4)  # the lidar's number, and reserved bytes
    count = reader.number("I")
    step = LIVOX_BYTES if reader.ros1 else LIVOX_STEP
    points = reader.take(max(0, (count - 1) * step + LIVOX_BYTES))
    writer = _head(Writer(), header).numbers("I", 1, count, len(LIVOX_FIELDS))
    for name, kind, offset in LIVOX_FIELDS:
        writer.text(name).numbers("I", offset).numbers("B", kind).numbers("I", 1)
    writer.numbers("B", 0).numbers("I", step, count * step, count * step).rest(points)
    return writer.rest(bytes(count * step - len(points))).numbers("B", 1).message()


def _head(writer: Writer, header: Header) -> Writer:
    seconds, rest = divmod(header.stamp, 10**9)
    return writer.numbers("I", seconds & 0xFFFFFFFF, rest).text(header.frame)  # ROS 2's seconds have a sign


# --- answers ---


def detections(result: Result, header: Header) -> bytes:
    """The boxes of an answer as a vision_msgs/msg/Detection3DArray, in the answer's order. class_id is the class's
    name, or else its number; id is the id of the box's track, if any. Velocities are lost. BadAnswer if there are no
    boxes."""
    try:
        boxes, scores, labels = result["boxes"], result["scores"], result["labels"]
    except KeyError:
        raise BadAnswer("the answer has no boxes") from None
    names = result.metadata.get("class_names")
    named = names if isinstance(names, list) else []
    writer = _head(Writer(), header).numbers("I", len(boxes))
    ids = tracks_of(result) or [""] * len(boxes)
    for box, score, label, own in zip(boxes.tolist(), scores.tolist(), labels.tolist(), ids):
        _head(writer, header).numbers("I", 1)
        writer.text(str(named[label]) if 0 <= label < len(named) else str(label)).numbers("d", score)
        pose = (*box[:3], 0.0, 0.0, math.sin(box[6] / 2), math.cos(box[6] / 2))
        writer.numbers("d", *pose, *[0.0] * 36)  # the hypothesis' pose and its covariance
        writer.numbers("d", *pose, *box[3:6]).text(own)
    return writer.message()


def tracks_of(result: Result) -> List[str]:
    """The id of each box's track; none if the answer has no tracks. BadAnswer if there is not one for each box."""
    ids = result.tensors.get("track_ids")
    if ids is not None and ids.shape != result["boxes"].shape[:1]:
        raise BadAnswer("the answer's boxes and tracks are not the same in number")
    return [] if ids is None else [str(own) for own in ids.tolist()]


def clouds(file: Bytes, header: Header) -> Dict[str, bytes]:
    """The PointCloud2 messages of an MCAP answer for a single cloud, by their topics, with `header` in place of their
    own. BadAnswer if it is malformed."""
    try:
        return {topic: _reheaded(message, header) for topic, message in _messages(memoryview(file).cast("B"))}
    except (ValueError, KeyError, struct.error) as reason:
        raise BadAnswer(f"the answer is not a valid mcap file: {reason}") from None


def records(content: memoryview) -> Iterator[Tuple[int, memoryview]]:
    """Records of MCAP: code and content."""
    place = 0
    while place < len(content):
        code, length = struct.unpack_from("<BQ", content, place)
        yield code, content[place + 9 : place + 9 + length]
        place += 9 + length


def content_of(file: memoryview) -> memoryview:
    """Without the magic. ValueError if the file does not begin and end with it."""
    if bytes(file[: len(MAGIC)]) != MAGIC or bytes(file[-len(MAGIC) :]) != MAGIC:
        raise ValueError("it does not begin and end as one")
    return file[len(MAGIC) : -len(MAGIC)]


def _messages(file: memoryview) -> Iterator[Tuple[str, memoryview]]:
    """The messages of voxeld's uncompressed chunk, with their topics."""
    topics: Dict[int, str] = {}
    for code, chunk in records(content_of(file)):
        if code != CHUNK:
            continue
        for inner, record in records(chunk[CHUNK_HEAD + 4 + 8 :]):
            (channel,) = struct.unpack_from("<H", record)
            if inner == CHANNEL:
                (length,) = struct.unpack_from("<I", record, 4)
                topics[channel] = bytes(record[8 : 8 + length]).decode()
            elif inner == MESSAGE:
                yield topics[channel], record[MESSAGE_HEAD:]


def _reheaded(message: memoryview, header: Header) -> bytes:
    """No member of a PointCloud2 needs an alignment of more than 4 bytes."""
    reader = Reader(message)
    header_of(reader)
    reader.align(4)
    return _head(Writer(), header).align(4).rest(message[reader.at :]).message()
