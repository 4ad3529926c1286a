"""Bags of a robot's messages: MCAP files, folders and .db3 files of rosbag2, and .bag files of ROS 1. The extra `bags`
of this package installs mcap, for .mcap files, and rosbags, for the others. One thread at a time may use a bag."""

from __future__ import annotations

import contextlib
import importlib
import os
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Collection, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from .. import ros
from ..cdr import Bytes
from .scans import Path, Scan, UsageError

BAG1, DB3, MCAP = ".bag", ".db3", ".mcap"
FILES = (MCAP, DB3, BAG1)
ENDINGS = (*FILES, "a folder of rosbag2")
METADATA = "metadata.yaml"  # in a folder of rosbag2
ENCODINGS = {"cdr": False, "ros1": True}  # of MCAP's messages: whether ROS 1 serialized them


class Message(NamedTuple):
    topic: str
    kind: str
    time: int  # when it was recorded, in nanoseconds
    data: Bytes
    ros1: bool


class Damaged(Exception):
    """The rest of a bag cannot be read."""


@dataclass(frozen=True)
class Topic:
    name: str
    kind: str
    count: int = 0

    def __str__(self) -> str:
        return f"{self.name} ({self.count} of {self.kind})"


class Bag:
    """`start` and `end`: the times of the first and last messages."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = path / METADATA if path.is_dir() else path  # changes if the bag is recorded again
        self.topics: List[Topic] = []
        self.start = self.end = 0

    def messages(self, topics: Collection[str]) -> Iterator[Message]:
        """The messages of these topics, by the times when they were recorded; those of an MCAP file without a list of
        its chunks, in the order of the file. Damaged if the rest cannot be read."""
        try:
            yield from self._read(topics)
        except OSError as reason:
            raise Damaged(reason.strerror or str(reason)) from None
        except Exception as reason:  # mcap, rosbags and their decompressors have errors of many types
            raise Damaged(f"{type(reason).__name__}: {reason}") from None

    def clouds(self) -> List[Topic]:
        return [topic for topic in self.topics if ros.is_cloud(topic.kind)]

    def close(self) -> None:
        pass

    def _read(self, topics: Collection[str]) -> Iterator[Message]:
        raise NotImplementedError


class McapBag(Bag):
    """An MCAP file. If it was cut off while it was recorded, its whole chunks are read."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._reader = needed("mcap.reader", path)
        self._file = open(path, "rb")
        self._indexed = self._look()

    def _look(self) -> bool:
        """Finds the topics: in the summary, else by reading everything. Returns whether the summary lists the
        chunks."""
        try:
            summary = self._reader.SeekingReader(self._file).get_summary()
        except Exception:  # there is no valid end
            summary = None
        if summary and summary.statistics and summary.chunk_indexes:
            said = summary.statistics
            self.start, self.end = said.message_start_time, said.message_end_time
            for number, channel in summary.channels.items():
                schema = summary.schemas.get(channel.schema_id)
                self._add(schema, channel, said.channel_message_counts.get(number, 0))
            return True
        counts: Dict[int, int] = {}
        seen: Dict[int, Tuple[Any, Any]] = {}
        try:
            for schema, channel, message in self._all(None):
                counts[channel.id] = counts.get(channel.id, 0) + 1
                self.start = message.log_time if not seen else min(self.start, message.log_time)
                self.end = max(self.end, message.log_time)
                seen[channel.id] = schema, channel
        except Exception as reason:
            if not seen:
                raise Damaged(str(reason) or type(reason).__name__) from None
        for number, (schema, channel) in seen.items():
            self._add(schema, channel, counts[number])
        return False

    def _add(self, schema: Any, channel: Any, count: int) -> None:
        if schema and channel.message_encoding in ENCODINGS:
            self.topics.append(Topic(channel.topic, ros.kind_of(schema.name), count))

    def _all(self, topics: Optional[Collection[str]]) -> Iterator[Any]:
        """The messages in the order of the file. None: all topics."""
        self._file.seek(0)
        reader = self._reader.NonSeekingReader(self._file, validate_crcs=True)
        yield from reader.iter_messages(topics, log_time_order=False)

    def _read(self, topics: Collection[str]) -> Iterator[Message]:
        self._file.seek(0)
        reader = self._reader.SeekingReader(self._file, validate_crcs=True) if self._indexed else None
        for schema, channel, message in reader.iter_messages(topics) if reader else self._all(topics):
            if schema and channel.message_encoding in ENCODINGS:
                ros1 = ENCODINGS[channel.message_encoding]
                yield Message(channel.topic, ros.kind_of(schema.name), message.log_time, message.data, ros1)

    def close(self) -> None:
        self._file.close()


class RosBag(Bag):
    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._ros1 = path.suffix.lower() == BAG1
        module = needed("rosbags.rosbag1" if self._ros1 else "rosbags.rosbag2", path)
        try:
            self._reader = module.Reader(path)
            self._reader.open()
        except Exception as reason:
            raise Damaged(str(reason) or type(reason).__name__) from None
        self.start, self.end = self._reader.start_time, self._reader.end_time
        counts: Dict[Tuple[str, str], int] = {}
        for connection in self._reader.connections:
            key = connection.topic, ros.kind_of(connection.msgtype)
            counts[key] = counts.get(key, 0) + connection.msgcount
        self.topics = [Topic(*key, count) for key, count in counts.items()]

    def _read(self, topics: Collection[str]) -> Iterator[Message]:
        wanted = [connection for connection in self._reader.connections if connection.topic in topics]
        for connection, time, data in self._reader.messages(wanted) if wanted else ():
            yield Message(connection.topic, ros.kind_of(connection.msgtype), time, data, self._ros1)

    def close(self) -> None:
        self._reader.close()


def needed(module: str, path: Path) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise UsageError(f"{path} is a bag, which needs the package {package}: pip install 'voxeld[bags]'") from None


def is_bag(path: Path) -> bool:
    return path.suffix.lower() in FILES or (path / METADATA).is_file()


def open_all(names: Sequence[str]) -> List[Bag]:
    """The bags by their times. UsageError if a bag cannot be read, or if only some of the names are bags."""
    bags: List[Bag] = []
    with contextlib.ExitStack() as ends:
        for path in map(Path, names):
            if not is_bag(path):
                raise UsageError(f"{path} is not a bag, but others of the scans are; send files and bags in two runs")
            if not os.path.lexists(path):
                raise UsageError(f"there is no {path}")
            try:
                bags.append(McapBag(path) if path.is_file() and path.suffix.lower() == MCAP else RosBag(path))
            except (Damaged, OSError) as reason:
                raise UsageError(f"cannot read {path}: {getattr(reason, 'strerror', None) or reason}") from None
            ends.callback(bags[-1].close)
        ends.pop_all()  # the caller closes the bags
    return sorted(bags, key=lambda bag: bag.start)


def name_of(bags: Sequence[Bag]) -> str:
    """Names them in errors."""
    return str(bags[0].path) if len(bags) == 1 else f"{bags[0].path} and {len(bags) - 1} more"


def topic_of(bags: Sequence[Bag], wanted: Optional[str]) -> str:
    """The topic of the points. UsageError if no bag has it, or if several are possible."""
    found: Dict[str, Topic] = {topic.name: topic for bag in bags for topic in bag.clouds()}
    listed = ", ".join(map(str, found.values()))
    where = name_of(bags)
    if wanted is None:
        if len(found) == 1:
            return next(iter(found))
        if not found:
            raise UsageError(f"{where}: no topic of {', '.join(ros.FORMATS)}")
        raise UsageError(f"{where}: several topics have points; choose one with --topic: {listed}")
    if wanted not in found:
        raise UsageError(f"{where}: no points in {wanted}{'; they are in ' + listed if found else ''}")
    return wanted


def decimal(nanoseconds: int) -> str:
    whole, rest = divmod(abs(nanoseconds), 10**9)
    return f"{'-' if nanoseconds < 0 else ''}{whole}.{rest:09d}"


@dataclass(frozen=True)
class BagScan(Scan):
    """A message with points. `bag` is the bag's path, `path` is Bag.file."""

    bag: Path = Path()
    number: int = 0  # among the messages of the run's topic in all bags, from 1
    time: int = 0  # when it was recorded, in nanoseconds
    cloud: Optional[ros.Cloud] = field(default=None, compare=False)  # None if the message is malformed

    @property
    def name(self) -> str:
        return f"{self.bag} {decimal(self.header.stamp)}" if self.cloud else f"{self.bag}, message {self.number}"

    @property
    def told(self) -> Dict[str, Any]:
        return {"scan": str(self.bag), "stamp_ns": self.header.stamp}

    @property
    def header(self) -> ros.Header:
        assert self.cloud
        return self.cloud.header

    def read(self, given: Dict[str, Any]) -> Tuple[Bytes, Dict[str, Any]]:
        assert self.cloud
        return self.cloud.body, {**dict(self.own), "format": self.cloud.format}


Fail = Callable[[Scan, str], None]


def scans_of(bags: Sequence[Bag], topic: str, output: Path, extension: str, fail: Fail) -> Iterator[BagScan]:
    """The messages of a topic, whose answers belong below `output`. Calls `fail` for malformed messages and damaged
    bags."""
    number = 0
    for bag in bags:
        try:
            for message in bag.messages([topic]):
                number += 1
                scan = BagScan(bag.file, bag.file, (), bag.path, number, message.time)
                try:
                    cloud = ros.cloud_of(message.kind, message.data, message.ros1)
                except ValueError as reason:
                    fail(scan, str(reason))
                    continue
                answer = output / bag.path.stem / (decimal(cloud.header.stamp) + extension)
                yield replace(scan, answer=answer, cloud=cloud)
        except Damaged as reason:
            fail(Scan(bag.path, bag.path), f"the messages after number {number} cannot be read: {reason}")
