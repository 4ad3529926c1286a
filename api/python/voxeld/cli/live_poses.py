"""The poses that a robot publishes while it runs, for the sweeps of a live stream.

Threads of Zenoh or ROS bring the poses; the workers that send sweeps wait for them. The condition `_come` guards the
tree."""

from __future__ import annotations

import threading
import time
from typing import Callable, Dict, Optional, Tuple

from .. import ros
from . import transforms
from .poses import DESKEW, MOUNT, POSE, ROWS, Motion, is_topic, refuse_mount
from .scans import Own, UsageError
from .transforms import Tree, Unknown

KEEP = 10_000_000_000  # nanoseconds of poses
WAIT = 0.5  # seconds that a sweep waits for its pose


class Poses:
    """`topics`: the topics to subscribe to, and whether each one gives its last messages to late subscribers."""

    def __init__(
        self, topic: str, fixed: Optional[str], parameters: Dict[str, str], say: Callable[[str], None]
    ) -> None:
        if parameters.get(DESKEW) == "poses" and ROWS not in parameters:
            raise UsageError(
                "--deskew poses needs poses from before and after a sweep, and the later ones arrive too late for a"
                " live stream; --deskew stream does not need them"
            )
        self._tree, self._parameters, self._say = Tree(KEEP), parameters, say
        self._motion = Motion(self._tree, fixed, parameters)
        self._come = threading.Condition()
        self._closed = False
        self._fault: Optional[UsageError] = None  # why no message of the topic helps
        self._told = False  # whether a malformed message was reported
        self.topics: Dict[str, bool] = {topic: False}
        if MOUNT not in parameters:
            self.topics[topic + transforms.STATIC if topic.endswith("/tf") else f"/tf{transforms.STATIC}"] = True

    def receive(self, topic: str, content: bytes, kind: str) -> None:
        with self._come:
            try:
                if kind not in transforms.KINDS:
                    raise UsageError(f"{topic} has messages of {kind}; poses are {', '.join(transforms.KINDS[:-1])}")
                refuse_mount(topic, kind, self._parameters)
                self._tree.add(topic, kind, content, ros1=False)
            except UsageError as reason:
                self._fault = reason
            except ValueError as reason:
                if not self._told:
                    self._say(f"a message of {topic} cannot be read: {reason}")
                self._told = True
            self._come.notify_all()

    def own(self, header: ros.Header) -> Own:
        """The time and the pose of a sweep. Raises Unknown if no pose comes in time."""
        until = time.monotonic() + WAIT
        with self._come:
            while True:
                if self._fault:
                    raise self._fault
                try:
                    return self._motion.own(header)
                except Unknown as reason:
                    left = until - time.monotonic()
                    if not reason.later or self._closed or left <= 0:
                        raise
                    self._come.wait(left)

    def close(self) -> None:
        with self._come:
            self._closed = True
            self._come.notify_all()


def poses_of(
    given: Dict[str, str], fixed: Optional[str], say: Callable[[str], None]
) -> Tuple[Dict[str, str], Optional[Poses]]:
    """The parameters of each message, and where its pose comes from. Raises UsageError if they do not fit a live
    stream."""
    parameters = dict(given)
    pose = parameters.pop(POSE, None)
    if "time" in parameters:
        raise UsageError("--time is for files; a message has its stamp")
    if pose is None:
        if "stream" in parameters:
            raise UsageError("--stream needs --pose TOPIC, since messages with points have no poses")
        Motion(None, fixed, parameters)
        return parameters, None
    if not is_topic(pose):
        raise UsageError("with live, --pose is the name of a topic")
    return parameters, Poses(pose if pose.startswith("/") else f"/{pose}", fixed, parameters, say)
