"""Points and their answers for Foxglove and Rerun. For one thread."""

from __future__ import annotations

import importlib
import math
from typing import Any, Dict, List, NamedTuple, Optional, Type, Union

import numpy as np
from numpy.typing import NDArray

from .. import ros
from ..cdr import Bytes, Reader
from ..result import Result
from .boxes import CENTRE, HEADING, SIZE, name_of
from .scans import UsageError

FOXGLOVE, RERUN = "foxglove", "rerun"
PORTS = {FOXGLOVE: 8765, RERUN: 9876}
LOOPBACK = "127.0.0.1"
BACKLOG = 4  # messages that a slow Foxglove may lag behind
LARGEST_STEP = 1 << 16  # bytes of a point
MEMORY = "256MiB"  # of the newest messages, which Rerun shows to viewers that connect later
COLOURS = ((0.2, 0.7, 1.0), (1.0, 0.6, 0.2), (0.5, 1.0, 0.3), (1.0, 0.3, 0.5), (0.8, 0.5, 1.0), (1.0, 0.9, 0.3))
DTYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}  # of PointField


def rows_of(message: Bytes) -> NDArray[Any]:
    """The points of a PointCloud2, [N] with little-endian fields. ValueError if it is malformed."""
    reader = Reader(message)
    ros.header_of(reader)
    height, width = reader.number("I"), reader.number("I")
    fields: List[Any] = []
    for _ in range(reader.number("I")):
        fields.append((reader.text(), reader.number("I"), reader.number("B"), reader.number("I")))
    order = ">" if reader.number("B") else "<"
    step, stride = reader.number("I"), reader.number("I")
    data = reader.take(reader.number("I"))
    if height * width and max((height - 1) * stride, (height - 1) * width * step) + width * step > len(data):
        raise ValueError(f"{height} rows of {width} points do not fit the message's data")
    try:
        shown = [field for field in fields if field[3] == 1]
        most = min(step, LARGEST_STEP)  # numpy does not check the sums of larger offsets
        if any(offset + np.dtype(DTYPES[kind]).itemsize > most for _, offset, kind, _ in shown):
            raise ValueError("the message's fields end after its points")
        told: Any = {
            "names": [name for name, *_ in shown],
            "offsets": [offset for _, offset, *_ in shown],
            "formats": [order + DTYPES[kind] for *_, kind, _ in shown],
            "itemsize": step,
        }
        rows: NDArray[Any] = np.ndarray((height, width), np.dtype(told), data, strides=(stride, step))
        return rows.ravel().astype(rows.dtype.newbyteorder("<"), copy=False)
    except (KeyError, TypeError, OverflowError) as reason:
        raise ValueError(f"the message's fields do not fit its data: {reason}") from None


class Frame(NamedTuple):
    """What is shown together."""

    header: ros.Header
    points: NDArray[Any]
    answer: Optional[NDArray[Any]]  # points; None if the answer is boxes
    result: Optional[Result]  # boxes; None if the answer is points


class Foxglove:
    """A WebSocket server on loopback, to which Foxglove connects. /points and /answer are PointClouds; boxes are a
    SceneUpdate at /boxes. UsageError if the package is missing or the port is taken."""

    def __init__(self, port: int) -> None:
        try:
            foxglove: Any = importlib.import_module("foxglove")
            channels: Any = importlib.import_module("foxglove.channels")
            self._messages: Any = importlib.import_module("foxglove.messages")
        except ImportError:
            raise UsageError('--view foxglove needs the package foxglove-sdk: pip install "voxeld[foxglove]"') from None
        self._context = context = foxglove.Context()  # its channels end with it
        try:
            self._server = foxglove.start_server(
                name="voxeld", host=LOOPBACK, port=port, context=context, message_backlog_size=BACKLOG
            )
        except (RuntimeError, OSError) as reason:
            raise UsageError(f"cannot listen on {LOOPBACK}:{port}: {reason}") from None
        self.url = f"ws://{LOOPBACK}:{port}"
        self._points = channels.PointCloudChannel("/points", context=context)
        self._answer = channels.PointCloudChannel("/answer", context=context)
        self._boxes = channels.SceneUpdateChannel("/boxes", context=context)

    def show(self, frame: Frame) -> None:
        stamp = self._messages.Timestamp(*divmod(frame.header.stamp, 10**9))
        told = {"timestamp": stamp, "frame_id": frame.header.frame}
        self._points.log(self._cloud(frame.points, told), log_time=frame.header.stamp)
        if frame.answer is not None:
            self._answer.log(self._cloud(frame.answer, told), log_time=frame.header.stamp)
        if frame.result is not None:
            entity = self._messages.SceneEntity(id="boxes", **told, **self._shapes(frame.result))
            self._boxes.log(self._messages.SceneUpdate(entities=[entity]), log_time=frame.header.stamp)

    def close(self) -> None:
        self._server.stop()

    def _cloud(self, rows: NDArray[Any], told: Any) -> Any:
        numbers = self._messages.PackedElementFieldNumericType
        kinds = {"i1": numbers.Int8, "u1": numbers.Uint8, "i2": numbers.Int16, "u2": numbers.Uint16}
        kinds.update({"i4": numbers.Int32, "u4": numbers.Uint32, "f4": numbers.Float32, "f8": numbers.Float64})
        fields = []
        for name, (dtype, offset, *_) in (rows.dtype.fields or {}).items():
            kind = kinds[dtype.str[1:]]
            fields.append(self._messages.PackedElementField(name=str(name), offset=offset, type=kind))
        place = self._pose((0.0, 0.0, 0.0), 0.0)
        stride = rows.dtype.itemsize
        return self._messages.PointCloud(**told, pose=place, point_stride=stride, fields=fields, data=rows.tobytes())

    def _shapes(self, result: Result) -> Any:
        m, cubes, texts = self._messages, [], []
        for label, text, box in zip(result["labels"].tolist(), labels_of(result), result["boxes"].tolist()):
            colour = m.Color(**dict(zip("rgb", COLOURS[label % len(COLOURS)])), a=0.5)
            size = m.Vector3(**dict(zip("xyz", box[SIZE])))
            cubes.append(m.CubePrimitive(pose=self._pose(box[CENTRE], box[HEADING]), size=size, color=colour))
            above = (*box[:2], box[2] + box[5] / 2 + 0.3)
            white = m.Color(r=1.0, g=1.0, b=1.0, a=1.0)
            texts.append(
                m.TextPrimitive(pose=self._pose(above, 0.0), billboard=True, font_size=0.5, color=white, text=text)
            )
        return {"cubes": cubes, "texts": texts}

    def _pose(self, place: Any, heading: float) -> Any:
        turn = self._messages.Quaternion(x=0.0, y=0.0, z=math.sin(heading / 2), w=math.cos(heading / 2))
        return self._messages.Pose(position=self._messages.Vector3(**dict(zip("xyz", place))), orientation=turn)


class Rerun:
    """A gRPC server, to which Rerun's viewer connects, open to all addresses. UsageError if the package is missing."""

    def __init__(self, port: int) -> None:
        try:
            rerun: Any = importlib.import_module("rerun")
        except ImportError:
            raise UsageError('--view rerun needs the package rerun-sdk: pip install "voxeld[rerun]"') from None
        self._rerun = rerun
        self._recording = rerun.RecordingStream("voxeld")
        self.url = rerun.serve_grpc(grpc_port=port, recording=self._recording, server_memory_limit=MEMORY)

    def show(self, frame: Frame) -> None:
        self._recording.set_time("stamp", timestamp=np.datetime64(frame.header.stamp, "ns"))
        self._log("points", frame.points)
        if frame.answer is not None:
            self._log("answer", frame.answer)
        if frame.result is not None:
            self._recording.log("boxes", self._boxes(frame.result))

    def close(self) -> None:
        self._recording.flush()
        self._recording.disconnect()

    def _log(self, name: str, rows: NDArray[Any]) -> None:
        positions = np.stack([rows[axis].astype(np.float32) for axis in "xyz"], axis=-1)
        self._recording.log(name, self._rerun.Points3D(positions))

    def _boxes(self, result: Result) -> Any:
        boxes, labels = result["boxes"], result["labels"]
        half = boxes[:, HEADING] / 2
        none = np.zeros_like(half)
        return self._rerun.Boxes3D(
            centers=boxes[:, CENTRE],
            half_sizes=boxes[:, SIZE] / 2,
            quaternions=np.stack((none, none, np.sin(half), np.cos(half)), axis=-1),
            colors=np.array(COLOURS)[labels % len(COLOURS)],
            labels=labels_of(result),
        )


def labels_of(result: Result) -> List[str]:
    texts = [f"{name_of(result, label)} {score:.2f}" for label, score in zip(result["labels"], result["scores"])]
    tracks = ros.tracks_of(result) or [""] * len(texts)
    return [f"{text} #{own}" if own else text for text, own in zip(texts, tracks)]


VIEWERS: Dict[str, Union[Type[Foxglove], Type[Rerun]]] = {FOXGLOVE: Foxglove, RERUN: Rerun}
