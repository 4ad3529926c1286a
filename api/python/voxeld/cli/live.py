"""Answers the messages of a topic as they come and publishes the answers: the freshest first, and never an answer that
is older than the last one.

A message waits in the inbox, which holds one: a newer message replaces it. Workers take messages, send them and publish
the answers. With `latest` the service computes only the newest of the messages that wait there. One thread tends the
robot; the main thread prints the counts and waits for signals."""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import threading
import time
from typing import Any, Callable, Dict, Generic, NamedTuple, Optional, TypeVar, Union

from .. import ros
from ..cdr import Bytes
from ..client import Client
from ..errors import BadAnswer, Error, Problem, Superseded, TooOld
from ..result import Result
from .answers import KINDS
from .bags import decimal
from .batch import DENIED, PATIENCE, Signals
from .boxes import BoxReader
from .live_counts import (
    FAILED,
    LATE,
    NO_POSE,
    REFUSED,
    REPEATED,
    REPLACED,
    SUPERSEDED,
    TOO_OLD,
    UNREADABLE,
    Counts,
    Pages,
)
from .live_poses import Poses, poses_of
from .live_ros import Ros2
from .live_view import VIEWERS, Frame, rows_of
from .live_zenoh import Zenoh
from .parameters import DETECT, STREAM
from .scans import UsageError
from .transforms import LONGEST_GAP, Unknown

MAX_AGE = "max_age_ms"
TICK = 0.1  # seconds between looks at the robot
BACKOFF, LONGEST_BACKOFF = 0.1, 2.0  # seconds that a worker waits after the service gave no answer; doubles
TOPIC = re.compile(r"(/[A-Za-z_][A-Za-z0-9_]*)+")
T = TypeVar("T")


class Message(NamedTuple):
    number: int  # messages are counted as they come
    content: bytes
    kind: str
    came: float  # by time.monotonic


class Inbox(Generic[T]):
    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._item: Optional[T] = None
        self._closed = False

    def put(self, item: T) -> bool:
        """Returns whether the item replaced a waiting one."""
        with self._condition:
            replaced, self._item = self._item is not None, item
            self._condition.notify()
        return replaced

    def take(self) -> Optional[T]:
        """None once the inbox is closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._item is not None or self._closed)
            item, self._item = self._item, None
            return None if self._closed else item

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()


class Answer(NamedTuple):
    header: ros.Header  # of the message with the points
    points: Bytes  # the body that was sent
    message: bytes  # what is published, serialized
    result: Optional[Result]  # the boxes; None for points


class Bridge:
    """`publish` sends an answer to the robot and to a viewer; `say` prints a line."""

    def __init__(self, ask: Callable[[Message], Answer], counts: Counts, jobs: int, say: Callable[[str], None]) -> None:
        self._ask, self._counts, self._say = ask, counts, say
        self._inbox: Inbox[Message] = Inbox()
        self._order = threading.Lock()  # held while an answer is published
        self._newest = 0  # number of the newest message whose answer was published
        self._number = 0
        self._last_state = ""  # what was last printed of the service
        self._closed = threading.Event()
        self.stopped: Optional[Exception] = None  # why no further message can be answered
        self.publish: Callable[[Answer], None] = lambda _: None
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(jobs)]

    def receive(self, content: bytes, kind: str, gap: int) -> None:
        """Called by one thread at a time."""
        self._counts.receive(gap)
        if gap < 0:
            self._counts.drop(REPEATED)
            return
        self._number += 1
        if self._inbox.put(Message(self._number, content, kind, time.monotonic())):
            self._counts.drop(REPLACED)

    def start(self, tend: Callable[[], None]) -> None:
        """Also starts a thread that calls `tend` regularly. tend() may block."""
        for worker in self._workers:
            worker.start()
        threading.Thread(target=self._tend, args=(tend,), daemon=True).start()

    def close(self) -> None:
        self._closed.set()
        self._inbox.close()
        until = time.monotonic() + PATIENCE
        for worker in self._workers:
            worker.join(max(0.0, until - time.monotonic()))

    def _tend(self, tend: Callable[[], None]) -> None:
        try:
            while not self._closed.wait(TICK):
                tend()
        except Exception as reason:
            if not self._closed.is_set():
                self.stopped = reason

    def _work(self) -> None:
        pause = BACKOFF
        try:
            while (message := self._inbox.take()) is not None:
                pause = self._answer(message, pause)
        except Exception as reason:  # a bug in this program; the run must not go on without this thread
            self.stopped = reason

    def _answer(self, message: Message, pause: float) -> float:
        """Returns the pause after the next failure."""
        try:
            answer = self._ask(message)
        except Unknown as reason:
            self._drop(NO_POSE, str(reason))
        except ValueError as reason:
            self._drop(UNREADABLE, f"a message of {message.kind} cannot be read: {reason}")
        except Superseded:
            self._counts.drop(SUPERSEDED)
            return pause
        except TooOld:
            self._counts.drop(TOO_OLD)
            return pause
        except Problem as problem:
            return self._refused(problem, pause)
        except Error as reason:
            return self._failed(str(reason), 0.0, pause)
        else:
            self._up("")
            self._put(message, answer)
        return BACKOFF

    def _put(self, message: Message, answer: Answer) -> None:
        with self._order:
            if message.number < self._newest:
                self._counts.drop(LATE)
                return
            self._newest = message.number
            self.publish(answer)
        self._counts.publish(time.monotonic() - message.came, time.time() - answer.header.stamp / 1e9)

    def _refused(self, problem: Problem, pause: float) -> float:
        if problem.temporary:
            return self._failed(str(problem), problem.retry_after or 0.0, pause)
        if not self._newest and (problem.status in DENIED or problem.kind == "bad-parameter"):
            self.stopped = problem
        self._up(str(problem))
        self._drop(REFUSED, "")
        return BACKOFF

    def _failed(self, reason: str, least: float, pause: float) -> float:
        self._counts.service_up = False
        self._drop(FAILED, reason)
        self._closed.wait(least + pause * random.uniform(0.5, 1.0))
        return min(LONGEST_BACKOFF, 2 * pause)

    def _up(self, refusal: str) -> None:
        self._counts.service_up = True
        if refusal or self._last_state:
            self._tell(refusal, refusal or "the service answers again")

    def _drop(self, why: str, reason: str) -> None:
        self._counts.drop(why)
        if reason:
            self._tell(reason, reason)

    def _tell(self, state: str, line: str) -> None:
        if state != self._last_state:
            self._last_state = state
            self._say(line)


class Asker:
    def __init__(
        self, client: Client, operation: str, parameters: Dict[str, str], poses: Optional[Poses] = None
    ) -> None:
        self._client, self._operation, self._parameters, self._poses = client, operation, parameters, poses
        self._newest: Optional[int] = None  # stamp of the newest answer
        self._boxes = BoxReader()
        self._file: Callable[..., Any] = client.file_bytes

    def ask(self, message: Message) -> Answer:
        """ValueError if the message does not have the form of its type; Unknown if there is no pose for it; BadAnswer
        if the answer has no message."""
        cloud = ros.cloud_of(message.kind, message.content)
        given = {"format": cloud.format, **self._parameters}
        if MAX_AGE in given:
            given["time"] = decimal(cloud.header.stamp)
        if self._poses:
            given.update(self._poses.own(cloud.header))
        try:
            answer = self._answer(cloud, given)
        except Problem as problem:
            if problem.kind == "stream-time":
                self._begin_anew(cloud.header.stamp)
            raise
        self._newest = cloud.header.stamp
        return answer

    def _begin_anew(self, stamp: int) -> None:
        """Deletes the stream if it is of an earlier run, or if the robot's time has gone back."""
        if self._newest is None or stamp < self._newest - LONGEST_GAP:
            self._client.stream(self._parameters[STREAM], 1).delete()

    def _answer(self, cloud: ros.Cloud, given: Dict[str, str]) -> Answer:
        if self._operation == DETECT:
            file = self._file(DETECT, cloud.body, KINDS["safetensors"].media_type, **given)
            result = self._boxes.read(file)
            return Answer(cloud.header, cloud.body, ros.detections(result, cloud.header), result)
        file = self._file(self._operation, cloud.body, ros.MCAP, **given)
        for own in ros.clouds(file, cloud.header).values():
            return Answer(cloud.header, cloud.body, own, None)
        raise BadAnswer(f"the answer of {self._operation} has no message")


def run(client: Client, args: argparse.Namespace, parameters: Dict[str, str], say: Callable[[str], None]) -> None:
    """Runs until a signal comes. Raises the Problem that every message would get, or the error that ended a thread."""
    topic, target = _topic(args.topic), _topic(args.publish) if args.publish else None
    if topic == target:
        raise UsageError("--publish names the topic of --topic")
    if not target and not args.view:
        raise UsageError("give --publish NAME or --view, so that the answers go somewhere")
    parameters, poses = poses_of(parameters, args.fixed_frame, say)
    if args.operation == DETECT and "outputs" in parameters:
        raise UsageError("--outputs cannot be used here: boxes, scores and labels are all published")
    kind = ros.DETECTIONS if args.operation == DETECT else ros.POINT_CLOUD
    node = "voxeld" + (target or topic).replace("/", "_")
    counts = Counts()
    asker = Asker(client, args.operation, {"latest": node, **parameters}, poses)
    bridge = Bridge(asker.ask, counts, 1 if poses else args.jobs, say)  # times of a stream must rise
    with contextlib.ExitStack() as ends:
        answers = (target, kind) if target else None
        more = (poses.topics, poses.receive) if poses else ()
        robot: Union[Zenoh, Ros2]
        if args.ros2:
            robot = Ros2(node, topic, answers, bridge.receive, say, *more)
        else:
            robot = Zenoh(args.zenoh, args.domain, node, topic, answers, bridge.receive, say, *more)
        ends.callback(_apart, robot.close)
        view = View(args.view[0], args.view[1], say) if args.view else None
        if view:
            ends.callback(_apart, view.close)
        if args.metrics:
            ends.callback(Pages(args.metrics, lambda: counts.page(robot.publishers)).close)

        def publish(answer: Answer) -> None:
            robot.publish(answer.message)
            if view:
                view.put(answer)

        bridge.publish = publish
        ends.callback(bridge.close)
        if poses:
            ends.callback(poses.close)
        bridge.start(robot.tend)
        with Signals() as signals:
            until = time.monotonic() + args.every
            while not signals.wait(TICK) and not bridge.stopped:
                if time.monotonic() >= until:
                    until += args.every
                    say(counts.line())
    say(counts.line())
    if bridge.stopped:
        raise bridge.stopped


class View:
    """Shows answers in a thread of its own, so that a slow viewer delays no answer."""

    def __init__(self, name: str, port: int, say: Callable[[str], None]) -> None:
        self._viewer, self._say = VIEWERS[name](port), say
        self._inbox: Inbox[Answer] = Inbox()
        self._failed = False
        self.put = self._inbox.put
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        say(f"{name} finds the answers at {self._viewer.url}")

    def close(self) -> None:
        self._inbox.close()
        self._thread.join(PATIENCE)
        self._viewer.close()

    def _run(self) -> None:
        while (answer := self._inbox.take()) is not None:
            try:
                own = rows_of(answer.message) if answer.result is None else None
                self._viewer.show(Frame(answer.header, rows_of(answer.points), own, answer.result))
            except Exception as reason:  # the answers must be published even if they cannot be shown
                if not self._failed:
                    self._say(f"cannot show an answer: {reason}")
                self._failed = True


def _apart(call: Callable[[], None]) -> None:
    """Waits for the call, but at most PATIENCE."""
    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    thread.join(PATIENCE)


def _topic(name: str) -> str:
    full = name if name.startswith("/") else f"/{name}"
    if not TOPIC.fullmatch(full):
        raise UsageError(f"{name} is not the name of a topic")
    return full
