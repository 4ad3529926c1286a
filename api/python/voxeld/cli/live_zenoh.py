"""Topics of ROS 2 over Zenoh, without ROS: the keys, attachments and liveliness tokens of rmw_zenoh and of
zenoh-bridge-ros2dds. A liveliness token is a key that exists as long as its session; ROS 2 lists nodes and topics by
these tokens.

Zenoh calls `on_message` and reports tokens from threads of its own. Any thread may call tend(), publish() and close().
The lock is held while tokens or the publisher are declared and while an answer is published."""

from __future__ import annotations

import importlib
import json
import secrets
import struct
import threading
import time
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Set, Tuple

from .. import ros
from .scans import UsageError

RETRY = 1.0
SLASH, BRIDGE_SLASH = "%", "§"  # in place of `/` within a part of a token: rmw_zenoh's, the bridge's
NODE, PUBLISHER, SUBSCRIPTION = "NN", "MP", "MS"
# Quality of service as tokens write it. An empty field means ROS 2's default. A topic keeps only its last message.
QOS = {PUBLISHER: "::,1:,:,:,,", SUBSCRIPTION: "2::,1:,:,:,,"}  # reliable; best effort
LATE_QOS = ":1:,1:,:,:,,"  # reliable, with the last messages for late subscribers
BRIDGE_QOS, BRIDGE_LATE_QOS = ":1:0:0,1", ":1:1:0,1"  # reliable, only the last message; LATE as above
# Hashes of types, as REP 2016 computes them from the definitions. Humble has none.
NO_HASH = "TypeHashNotSupported"
TF = "tf2_msgs/msg/TFMessage"  # assumed for a bridged topic with `late`, until its token comes
HASHES = {
    ros.POINT_CLOUD: "RIHS01_9198cabf7da3796ae6fe19c4cb3bdd3525492988c70522628af5daa124bae2b5",
    ros.DETECTIONS: "RIHS01_793f5eab9595ac1c0da07873cc859db42eae51f0ee76056db8562515d830e018",
}
# An attachment of rmw_zenoh: the publisher's count of messages, nanoseconds since 1970, length and bytes of its gid.
ATTACHMENT = struct.Struct("<qqB16s")
GID = 16  # bytes

# Called with the payload, the type and the gap: how many messages are missing before this one. The gap is negative if
# the message is not newer than the last one, and 0 if the publisher does not count.
OnMessage = Callable[[bytes, str, int], None]
# Called with the topic, the payload and the type of a message that has a pose.
OnPose = Callable[[str, bytes, str], None]


class Form(NamedTuple):
    bridged: bool  # by zenoh-bridge-ros2dds
    kind: str
    hash: str


class Zenoh:
    """`place` is a locator such as tcp/robot:7447, or a file with Zenoh's configuration. `publish` is the topic for
    answers and the type of its messages. `poses` has the topics of poses, and whether each one gives its last messages
    to late subscribers."""

    def __init__(
        self,
        place: str,
        domain: int,
        node: str,
        topic: str,
        publish: Optional[Tuple[str, str]],
        on_message: OnMessage,
        say: Callable[[str], None],
        poses: Optional[Dict[str, bool]] = None,
        on_pose: OnPose = lambda *_: None,
    ) -> None:
        try:
            zenoh: Any = importlib.import_module("zenoh")
            self._late: Any = importlib.import_module("zenoh.ext")
        except ImportError:
            raise UsageError('--zenoh needs the package eclipse-zenoh: pip install "voxeld[zenoh]"') from None
        self._zenoh = zenoh
        self._place, self._domain, self._node, self._topic = place, domain, node, topic
        self._publish, self._on_message, self._say = publish, on_message, say
        self._config = self._configuration()
        self._lock = threading.Lock()
        self._session: Any = None
        self._closed = False
        self._next = 0.0  # when to try again to reach the robot
        self._connected = False
        self._form: Optional[Form] = None  # of the newest message or token
        self._announced: Optional[Form] = None
        self._poses, self._on_pose = poses or {}, on_pose
        self._pose_forms: Dict[str, Form] = {}  # by the topics of poses
        self._followed: Dict[str, Any] = {}  # tokens of the subscriptions to these topics
        self._declared: List[Any] = []  # the publisher of answers and the tokens, in the form `_announced`
        self._publisher: Any = None
        self._publishers: Set[str] = set()  # tokens of the robot's publishers
        self._last: Tuple[bytes, int] = b"", 0  # gid and count of the newest message
        self._gid, self._sent = secrets.token_bytes(GID), 0

    @property
    def publishers(self) -> int:
        return len(self._publishers)

    def tend(self) -> None:
        """Reaches the robot, and announces this program once the robot's form is known. Call it regularly."""
        if self._session is None and time.monotonic() >= self._next:
            self._open()
        if self._session is None:
            return
        info = self._session.info
        connected = bool(info.routers_zid() or info.peers_zid())
        if connected != self._connected:
            self._say(f"connected to {self._place}" if connected else f"lost {self._place}; trying again")
        self._connected = connected
        with self._lock:
            if self._form and self._form != self._announced:
                self._announce(self._form)
            for topic in set(self._pose_forms) - set(self._followed):
                self._followed[topic] = self._session.liveliness().declare_token(self._pose_token(topic))

    def publish(self, message: bytes) -> None:
        """Zenoh drops the answer if the robot is gone."""
        with self._lock:
            if self._session is None or self._form is None:
                return
            if self._form != self._announced:
                self._announce(self._form)
            self._sent += 1
            attachment = ATTACHMENT.pack(self._sent, time.time_ns(), GID, self._gid)
            self._publisher.put(message, attachment=None if self._form.bridged else attachment)

    def close(self) -> None:
        """Also ends a session that tend() is opening."""
        with self._lock:
            session, self._session, self._closed = self._session, None, True
        if session is not None:
            session.close()

    def _configuration(self) -> Any:
        try:
            if self._place.endswith((".json5", ".json", ".yaml")):
                return self._zenoh.Config.from_file(self._place)
            config = self._zenoh.Config()
            config.insert_json5("mode", '"client"')
            config.insert_json5("connect/endpoints", json.dumps(self._place.split(",")))
            config.insert_json5("scouting/multicast/enabled", "false")
            return config
        except (self._zenoh.ZError, OSError) as reason:
            raise UsageError(f"{self._place} is not a locator or a configuration of Zenoh: {reason}") from None

    def _open(self) -> None:
        try:
            session = self._zenoh.open(self._config)
        except self._zenoh.ZError:
            if not self._next:
                self._say(f"cannot reach {self._place}; trying again")
            self._next = time.monotonic() + RETRY
            return
        with self._lock:
            if not self._closed:
                self._session = session
        if self._closed:
            session.close()
            return
        name = self._topic.strip("/")
        session.declare_subscriber(f"{self._domain}/{name}/*/*", self._on_sample)
        session.declare_subscriber(name, self._on_bridged_sample)
        tokens = session.liveliness()
        for pattern in (
            f"@ros2_lv/{self._domain}/*/*/*/{PUBLISHER}/*/*/*/{self._topic.replace('/', SLASH)}/*/*/*",
            f"@/*/@ros2_lv/{PUBLISHER}/{name.replace('/', BRIDGE_SLASH)}/*/*",
        ):
            tokens.declare_subscriber(pattern, self._on_token, history=True)
        for topic, late in self._poses.items():
            self._follow(session, topic, late)

    # --- what comes ---

    def _on_sample(self, sample: Any) -> None:
        kind, told = str(sample.key_expr).split("/")[-2:]
        gap = self._gap_before(sample.attachment)
        self._receive(Form(False, _kind_of(kind), told), sample, gap)

    def _on_bridged_sample(self, sample: Any) -> None:
        known = self._form if self._form and self._form.bridged else Form(True, ros.POINT_CLOUD, "")
        self._receive(known, sample, 0)

    def _receive(self, form: Form, sample: Any, gap: int) -> None:
        if sample.kind == self._zenoh.SampleKind.PUT:
            self._form = form
            self._on_message(sample.payload.to_bytes(), form.kind, gap)

    def _follow(self, session: Any, topic: str, late: bool) -> None:
        """`late`: asks the topic's publishers for their last messages, too."""
        name = topic.strip("/")

        def on_token(sample: Any) -> None:
            parts = str(sample.key_expr).split("/")
            if sample.kind == self._zenoh.SampleKind.PUT:
                self._pose_forms[topic] = Form(True, parts[5].replace(BRIDGE_SLASH, "/"), "")

        def on_sample(sample: Any) -> None:
            key = str(sample.key_expr)
            if key != name:
                kind, told = key.split("/")[-2:]
                self._pose_forms[topic] = Form(False, _kind_of(kind), told)
            form = self._pose_forms.get(topic) or (Form(True, TF, "") if late else None)
            if form and sample.kind == self._zenoh.SampleKind.PUT:
                self._on_pose(topic, sample.payload.to_bytes(), form.kind)

        pattern = f"@/*/@ros2_lv/{PUBLISHER}/{name.replace('/', BRIDGE_SLASH)}/*/*"
        session.liveliness().declare_subscriber(pattern, on_token, history=True)
        for key in (f"{self._domain}/{name}/*/*", name):
            if late:
                history = self._late.HistoryConfig(detect_late_publishers=True)
                self._late.declare_advanced_subscriber(session, key, on_sample, history=history)
            else:
                session.declare_subscriber(key, on_sample)

    def _pose_token(self, topic: str) -> str:
        form, late, zid = self._pose_forms[topic], self._poses[topic], self._session.zid()
        if form.bridged:
            name, kind = (part.replace("/", BRIDGE_SLASH) for part in (topic.strip("/"), form.kind))
            return f"@/{zid}/@ros2_lv/{SUBSCRIPTION}/{name}/{kind}/{BRIDGE_LATE_QOS if late else BRIDGE_QOS}"
        of_node = f"{SLASH}/{SLASH}/{self._node}"
        number, name = list(self._poses).index(topic) + 3, topic.replace("/", SLASH)  # 1 and 2 are points and answers
        place = f"@ros2_lv/{self._domain}/{zid}/0/{number}/{SUBSCRIPTION}/{of_node}"
        return f"{place}/{name}/{_dds_of(form.kind)}/{form.hash}/{LATE_QOS if late else QOS[SUBSCRIPTION]}"

    def _gap_before(self, attachment: Any) -> int:
        content = b"" if attachment is None else attachment.to_bytes()
        if len(content) != ATTACHMENT.size:  # the publisher is not rmw_zenoh, or is older than 0.2.4
            return 0
        count, _, length, gid = ATTACHMENT.unpack(content)
        (before, newest), gap = self._last, 0
        if length == GID and gid == before:
            gap = count - newest - 1
        if gap >= 0:
            self._last = gid, count
        return gap

    def _on_token(self, sample: Any) -> None:
        key = str(sample.key_expr)
        if sample.kind != self._zenoh.SampleKind.PUT:
            self._publishers.discard(key)
            self._say(f"a publisher of {self._topic} has gone; {len(self._publishers)} are left")
            return
        parts = key.split("/")
        if key.startswith("@ros2_lv/"):
            form = Form(False, _kind_of(parts[10]), parts[11])
        else:
            form = Form(True, parts[5].replace(BRIDGE_SLASH, "/"), "")
        self._publishers.add(key)
        self._form = form
        self._say(f"{self._topic} has a publisher of {form.kind}")

    # --- what goes ---

    def _announce(self, form: Form) -> None:
        """The lock is held."""
        self._announced = form
        for entity in self._declared:
            entity.undeclare()
        keys = self._tokens(form)
        self._declared = [self._session.liveliness().declare_token(key) for key in keys]
        if self._publish:
            topic, kind = self._publish
            name = topic.strip("/")
            key = name if form.bridged else f"{self._domain}/{name}/{_dds_of(kind)}/{_hash_of(kind, form)}"
            drop = self._zenoh.CongestionControl.DROP
            self._publisher = self._session.declare_publisher(key, congestion_control=drop)
            self._declared.append(self._publisher)

    def _tokens(self, form: Form) -> List[str]:
        ends = [(SUBSCRIPTION, self._topic, form.kind)]
        if self._publish:
            ends.append((PUBLISHER, *self._publish))
        zid = str(self._session.zid())
        if form.bridged:
            return [
                f"@/{zid}/@ros2_lv/{end}/{topic.strip('/').replace('/', BRIDGE_SLASH)}/"
                f"{kind.replace('/', BRIDGE_SLASH)}/{BRIDGE_QOS}"
                for end, topic, kind in ends
            ]
        of_node = f"{SLASH}/{SLASH}/{self._node}"  # its enclave and namespace are `/`
        place = f"@ros2_lv/{self._domain}/{zid}/0"
        tokens = [f"{place}/0/{NODE}/{of_node}"]
        for number, (end, topic, kind) in enumerate(ends, 1):
            told = form.hash if end == SUBSCRIPTION else _hash_of(kind, form)
            name = topic.replace("/", SLASH)
            tokens.append(f"{place}/{number}/{end}/{of_node}/{name}/{_dds_of(kind)}/{told}/{QOS[end]}")
        return tokens


def _hash_of(kind: str, form: Form) -> str:
    """NO_HASH if the robot's own keys have NO_HASH."""
    return NO_HASH if form.hash == NO_HASH else HASHES[kind]


def _dds_of(kind: str) -> str:
    """sensor_msgs/msg/PointCloud2 -> sensor_msgs::msg::dds_::PointCloud2_"""
    package, _, name = kind.split("/")
    return f"{package}::msg::dds_::{name}_"


def _kind_of(dds: str) -> str:
    """sensor_msgs::msg::dds_::PointCloud2_ -> sensor_msgs/msg/PointCloud2. Other names stay."""
    package, _, name = dds.partition("::msg::dds_::")
    return f"{package}/msg/{name.rstrip('_')}" if name else dds
