"""A robot for tests of `voxeld-client live`: a Zenoh router at a port of loopback, which publishes clouds and receives
answers like rmw_zenoh or zenoh-bridge-ros2dds."""

import json
import secrets
import socket
import struct
import threading
import time

import zenoh
import zenoh.ext

import bags
from daemon import wait_until

CLOUD = "sensor_msgs::msg::dds_::PointCloud2_"
# The hash of the type, as `ros2 topic info -v` shows it.
CLOUD_HASH = "RIHS01_9198cabf7da3796ae6fe19c4cb3bdd3525492988c70522628af5daa124bae2b5"
ROS = bags.Robot()


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def cloud(points, stamp):
    """A serialized PointCloud2. `points`: [N, 4] float32; `stamp`: seconds."""
    rows = points.view([(name, "<f4") for name in ("x", "y", "z", "intensity")])[:, 0]
    return ROS.bytes_of(ROS.cloud(rows, stamp * 10**9))


def stamp_of(message):
    """The stamp, in whole seconds, of a serialized message with a header."""
    seconds, rest = struct.unpack_from("<II", message, 4)
    assert not rest
    return seconds


class ZenohRobot:
    """`heard`: the answers (key, payload, attachment). `tokens`: the liveliness tokens of others."""

    def __init__(self, port=None, keys="rmw_zenoh", type_hash=CLOUD_HASH, topic="lidar_top", answers="boxes"):
        self.port = port or free_port()
        config = zenoh.Config()
        config.insert_json5("mode", '"router"')
        config.insert_json5("listen/endpoints", json.dumps([f"tcp/127.0.0.1:{self.port}"]))
        config.insert_json5("scouting/multicast/enabled", "false")
        config.insert_json5("timestamping/enabled", "true")
        self._session = wait_until(lambda: self._open(config), "a port")
        self._bridged = keys == "ros2dds"
        self._count, self.gid = 0, secrets.token_bytes(16)
        self.heard, self.tokens, self._lock = [], set(), threading.Lock()
        liveliness = self._session.liveliness()
        zid = self._session.zid()
        if self._bridged:
            self.key, asked, space = topic, answers, "@/*/@ros2_lv/**"
            token = f"@/{zid}/@ros2_lv/MP/{topic.replace('/', '§')}/sensor_msgs§msg§PointCloud2/:1:0:0,5"
        else:
            self.key, asked, space = f"0/{topic}/{CLOUD}/{type_hash}", f"0/{answers}/*/*", "@ros2_lv/0/**"
            name = "%" + topic.replace("/", "%")
            token = f"@ros2_lv/0/{zid}/0/1/MP/%/%/driver/{name}/{CLOUD}/{type_hash}/2::,5:,:,:,,"
        self._own = token
        self._session.declare_subscriber(asked, self._hear)
        liveliness.declare_subscriber(space, self._on_token, history=True)
        self._token = liveliness.declare_token(token)
        self._others = []
        self._publisher = self._session.declare_publisher(self.key)

    def _open(self, config):
        try:
            return zenoh.open(config)
        except zenoh.ZError:
            return None  # the previous robot still uses the port

    def publish(self, message, count=None):
        """`count`: the number of the message; default: the last number + 1."""
        self._count = self._count + 1 if count is None else count
        attachment = struct.pack("<qqB16s", self._count, time.time_ns(), 16, self.gid)
        self._publisher.put(message, attachment=None if self._bridged else attachment)

    def other(self, topic, kind, late=False):
        """Adds a publisher of another topic. `late`: it gives its last message to late subscribers. Returns a function
        that publishes a message."""
        if self._bridged:
            key, dds = topic, kind.replace("/", "§")
            qos = ":1:1:1,1" if late else ":1:0:0,5"
            token = f"@/{self._session.zid()}/@ros2_lv/MP/{topic.replace('/', '§')}/{dds}/{qos}"
        else:
            package, _, name = kind.split("/")
            told = f"{package}::msg::dds_::{name}_/{ROS.store.hash_rihs01(kind)}"
            key, number = f"0/{topic}/{told}", 2 + len(self._others)
            place = f"@ros2_lv/0/{self._session.zid()}/0/{number}/MP/%/%/driver/%{topic.replace('/', '%')}"
            token = f"{place}/{told}/{':1:,1:,:,:,,' if late else '::,5:,:,:,,'}"
        if late:
            cache = zenoh.ext.CacheConfig(max_samples=1)
            publisher = zenoh.ext.declare_advanced_publisher(self._session, key, cache=cache, publisher_detection=True)
        else:
            publisher = self._session.declare_publisher(key)
        self._others += [publisher, self._session.liveliness().declare_token(token)]
        return lambda message: publisher.put(ROS.bytes_of(message))

    def publish_until(self, message, condition, what):
        """`message`: a function that makes the next message."""

        def again():
            self.publish(message())
            time.sleep(0.02)
            return condition()

        return wait_until(again, what)

    def answers(self):
        with self._lock:
            return list(self.heard)

    def wait_for(self, count):
        wait_until(lambda: len(self.answers()) >= count, f"{count} answers")
        return self.answers()

    def wait_for_subscription(self):
        wait_until(lambda: self._publisher.matching_status.matching, "a subscription")

    def close(self):
        self._session.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _hear(self, sample):
        attachment = sample.attachment and sample.attachment.to_bytes()
        with self._lock:
            self.heard.append((str(sample.key_expr), sample.payload.to_bytes(), attachment))

    def _on_token(self, sample):
        key = str(sample.key_expr)
        with self._lock:
            if sample.kind == zenoh.SampleKind.PUT and key != self._own:
                self.tokens.add(key)
            else:
                self.tokens.discard(key)
