"""Answers the messages of a topic as they come and publishes the answers: the freshest first, and never an answer that
is older than the last one.

A message waits in the inbox, which holds one: a newer message replaces it. Workers take messages, send them and
publish the answers. The service does the same behind them: with `latest` it computes only the newest of the messages
that wait there. The main thread looks after the robot and prints what happens."""

from __future__ import annotations

import argparse
import random
import re
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Tuple, Union

from .. import ros, tensors
from ..client import Client
from ..errors import Error, Problem
from ..operations import PARAMETERS, DetectResult
from ..result import Result
from .answers import KINDS
from .batch import DENIED, PATIENCE, Signals
from .live_counts import FAILED, LATE, REFUSED, REPEATED, REPLACED, SUPERSEDED, UNREADABLE, Counts, Pages
from .live_ros import Ros2
from .live_zenoh import Zenoh
from .parameters import DETECT, STREAM
from .scans import UsageError

TICK = 0.1  # seconds between looks at the robot
BACKOFF, LONGEST_BACKOFF = 0.1, 2.0  # seconds that a worker waits after the service gave no answer; doubles
TOPIC = re.compile(r"(/[A-Za-z_][A-Za-z0-9_]*)+")
LATEST = "latest"


class Message(NamedTuple):
    number: int  # messages are counted as they come
    content: bytes
    kind: str
    came: float  # by time.monotonic


class Inbox:
    """Holds the newest message until a worker takes it."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._message: Optional[Message] = None
        self._closed = False

    def put(self, message: Message) -> bool:
        """Whether the message replaced one that waited."""
        with self._condition:
            replaced, self._message = self._message is not None, message
            self._condition.notify()
        return replaced

    def take(self) -> Optional[Message]:
        """Waits for a message. None once the inbox is closed."""
        with self._condition:
            self._condition.wait_for(lambda: self._message is not None or self._closed)
            message, self._message = self._message, None
            return None if self._closed else message

    def close(self) -> None:
        with self._condition:
            self._closed = True
            self._condition.notify_all()


class Answer(NamedTuple):
    message: bytes  # serialized
    stamp: int  # nanoseconds, that of the message with the points
    result: Optional[Result]  # the boxes; None for points


class Bridge:
    """`publish` sends a serialized answer to the robot, and `say` prints a line for the user."""

    def __init__(self, ask: Callable[[Message], Answer], counts: Counts, jobs: int, say: Callable[[str], None]) -> None:
        self._ask, self._counts, self._say = ask, counts, say
        self._inbox = Inbox()
        self._order = threading.Lock()  # held while an answer is published
        self._newest = 0  # number of the newest message whose answer was published
        self._number = 0
        self._told = ""  # what was last said of the service
        self._closed = threading.Event()
        self.stopped: Optional[Exception] = None  # why no further message can be answered
        self.publish: Callable[[Message, Answer], None] = lambda *_: None
        self._workers = [threading.Thread(target=self._work, daemon=True) for _ in range(jobs)]

    def receive(self, content: bytes, kind: str, gap: int) -> None:
        """A message has come. Called by one thread at a time."""
        self._counts.receive(gap)
        if gap < 0:
            self._counts.drop(REPEATED)
            return
        self._number += 1
        if self._inbox.put(Message(self._number, content, kind, time.monotonic())):
            self._counts.drop(REPLACED)

    def start(self) -> None:
        for worker in self._workers:
            worker.start()

    def close(self) -> None:
        """Gives running requests a few seconds to end."""
        self._closed.set()
        self._inbox.close()
        until = time.monotonic() + PATIENCE
        for worker in self._workers:
            worker.join(max(0.0, until - time.monotonic()))

    def _work(self) -> None:
        pause = BACKOFF
        try:
            while (message := self._inbox.take()) is not None:
                pause = self._answer(message, pause)
        except Exception as reason:  # a bug in this program; the run must not go on without this thread
            self.stopped = reason

    def _answer(self, message: Message, pause: float) -> float:
        """The pause after the next failure."""
        try:
            answer = self._ask(message)
        except ValueError as reason:
            self._drop(UNREADABLE, f"a message of {message.kind} cannot be read: {reason}")
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
            self.publish(message, answer)
        self._counts.publish(time.monotonic() - message.came, time.time() - answer.stamp / 1e9)

    def _refused(self, problem: Problem, pause: float) -> float:
        if problem.kind == SUPERSEDED:
            self._counts.drop(SUPERSEDED)
            return pause
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
        if refusal or self._told:
            self._tell(refusal, refusal or "the service answers again")

    def _drop(self, why: str, reason: str) -> None:
        self._counts.drop(why)
        if reason:
            self._tell(reason, reason)

    def _tell(self, state: str, line: str) -> None:
        """Says a line if the state is another one than before."""
        if state != self._told:
            self._told = state
            self._say(line)


class Asker:
    """Asks the service for the answers to messages. Threads may share it."""

    def __init__(self, client: Client, operation: str, parameters: Dict[str, str]) -> None:
        self._client, self._operation, self._parameters = client, operation, parameters
        self._file: Callable[..., Any] = client.file_bytes

    def ask(self, message: Message) -> Answer:
        """ValueError if the message is not one of its type."""
        cloud = ros.cloud_of(message.kind, message.content)
        given = {"format": cloud.format, **self._parameters}
        if self._operation == DETECT:
            file = self._file(DETECT, cloud.body, KINDS["safetensors"].media_type, **given)
            result = DetectResult(*tensors.parse(file))
            return Answer(ros.detections(result, cloud.header), cloud.header.stamp, result)
        file = self._file(self._operation, cloud.body, ros.MCAP, **given)
        return Answer(next(iter(ros.clouds(file, cloud.header).values())), cloud.header.stamp, None)


def run(client: Client, told: argparse.Namespace, parameters: Dict[str, str], say: Callable[[str], None]) -> None:
    """Runs until a signal comes. Raises the Problem if the service refuses every message."""
    topic, target = _topic(told.topic), _topic(told.publish) if told.publish else None
    if topic == target:
        raise UsageError("--publish is the topic that is answered")
    if STREAM in parameters:
        raise UsageError("the messages of a topic have no poses, so they cannot be sweeps of a stream")
    kind = ros.DETECTIONS if told.operation == DETECT else ros.POINT_CLOUD
    node = "voxeld" + (target or topic).replace("/", "_")
    if any(row.name == LATEST and told.operation in row.operations for row in PARAMETERS):
        parameters = {LATEST: node, **parameters}
    counts = Counts()
    bridge = Bridge(Asker(client, told.operation, parameters).ask, counts, told.jobs, say)
    pages = Pages(told.metrics, lambda: counts.page(robot.publishers)) if told.metrics else None
    answers = (target, kind) if target else None
    robot: Union[Zenoh, Ros2]
    if told.ros2:
        robot = Ros2(node, topic, answers, bridge.receive, say)
    else:
        robot = Zenoh(told.zenoh, told.domain, node, topic, answers, bridge.receive, say)
    bridge.publish = lambda message, answer: robot.publish(answer.message)
    bridge.start()
    with Signals() as signals:
        until = time.monotonic() + told.every
        while not signals.came.wait(TICK) and not bridge.stopped:
            robot.tend()
            if time.monotonic() >= until:
                until += told.every
                say(counts.line())
    bridge.close()
    robot.close()
    say(counts.line())
    if pages:
        pages.close()
    if bridge.stopped:
        raise bridge.stopped


def _topic(name: str) -> str:
    full = name if name.startswith("/") else f"/{name}"
    if not TOPIC.fullmatch(full):
        raise UsageError(f"{name} is not the name of a topic")
    return full
