"""Topics of ROS 2 by rclpy, where ROS 2 is installed. Messages come and go serialized. The callbacks run in the thread
that this module starts."""

from __future__ import annotations

import contextlib
import importlib
import threading
from typing import Any, Callable, Dict, Optional, Set, Tuple

from .live_zenoh import OnMessage, OnPose
from .scans import UsageError

POSES = 100  # length of the queue of a topic of poses


class Ros2:
    """The arguments are those of live_zenoh.Zenoh, without `place` and `domain`."""

    def __init__(
        self,
        node: str,
        topic: str,
        publish: Optional[Tuple[str, str]],
        on_message: OnMessage,
        say: Callable[[str], None],
        poses: Optional[Dict[str, bool]] = None,
        on_pose: OnPose = lambda *_: None,
    ) -> None:
        try:
            import rclpy  # type: ignore[import-not-found,unused-ignore]
            from rclpy.executors import ExternalShutdownException  # type: ignore[import-not-found,unused-ignore]
            from rclpy.qos import (  # type: ignore[import-not-found,unused-ignore]
                DurabilityPolicy,
                QoSProfile,
                ReliabilityPolicy,
            )
            from rclpy.signals import SignalHandlerOptions  # type: ignore[import-not-found,unused-ignore]

            self._answers = publish and _class_of(publish[1])
        except ImportError as reason:
            raise UsageError(f"--ros2 needs the environment of ROS 2 (source its setup.bash): {reason}") from None
        rclpy.init(args=[], signal_handler_options=SignalHandlerOptions.NO)
        self._rclpy, self._ended = rclpy, ExternalShutdownException
        self._topic, self._on_message, self._say = topic, on_message, say
        self._newest = QoSProfile(depth=1, reliability=ReliabilityPolicy.BEST_EFFORT)
        self._node = rclpy.create_node(node)
        self._poses, self._on_pose = poses or {}, on_pose
        self._followed: Set[str] = set()  # topics of poses
        self._many = {
            False: QoSProfile(depth=POSES, reliability=ReliabilityPolicy.BEST_EFFORT),
            True: QoSProfile(depth=POSES, durability=DurabilityPolicy.TRANSIENT_LOCAL),
        }
        self._publisher = publish and self._node.create_publisher(self._answers, publish[0], QoSProfile(depth=1))
        self._kind: Optional[str] = None  # of the topic's messages; None until a publisher was seen
        self.publishers = 0
        self._thread = threading.Thread(target=self._spin, daemon=True)
        self._thread.start()

    def tend(self) -> None:
        """Subscribes once the topic has a publisher, whose type the subscription must have. Call it regularly."""
        told = self._node.get_publishers_info_by_topic(self._topic)
        if len(told) < self.publishers:
            self._say(f"a publisher of {self._topic} has gone; {len(told)} are left")
        self.publishers = len(told)
        if told and self._kind is None:
            self._kind = str(told[0].topic_type)
            self._say(f"{self._topic} has a publisher of {self._kind}")
            self._node.create_subscription(_class_of(self._kind), self._topic, self._on_bytes, self._newest, raw=True)
        for topic in set(self._poses) - self._followed:
            self._follow(topic)

    def publish(self, message: bytes) -> None:
        if self._publisher:
            self._publisher.publish(message)

    def close(self) -> None:
        self._rclpy.shutdown()
        self._thread.join()

    def _follow(self, topic: str) -> None:
        """Subscribes to a topic of poses once it has a publisher."""
        for told in self._node.get_publishers_info_by_topic(topic)[:1]:
            kind = str(told.topic_type)

            def on_bytes(message: bytes) -> None:
                self._on_pose(topic, bytes(message), kind)

            self._followed.add(topic)
            late = self._many[self._poses[topic]]
            self._node.create_subscription(_class_of(kind), topic, on_bytes, late, raw=True)

    def _on_bytes(self, message: bytes) -> None:
        self._on_message(bytes(message), self._kind or "", 0)

    def _spin(self) -> None:
        with contextlib.suppress(self._ended):
            self._rclpy.spin(self._node)


def _class_of(kind: str) -> Any:
    package, _, name = kind.split("/")
    return getattr(importlib.import_module(f"{package}.msg"), name)
