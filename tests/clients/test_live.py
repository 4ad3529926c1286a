"""voxeld-client live: dropped messages, the order of published messages, counts, pages; ROS 2 with a stand-in. The rest
is in test_live_zenoh.py, test_live_poses.py and test_live_view.py."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import types
import unittest
import urllib.request
from contextlib import redirect_stderr
from io import StringIO
from unittest import mock

import numpy as np

import models
import voxeld
from command_line import Running
from daemon import PATIENCE, ROOT, Daemon, OneDaemonCase, wait_until
from rude_server import url_of
from test_python_detect import scan
from voxeld import ros
from voxeld.cli import live, live_counts, live_ros, live_zenoh, options
from voxeld.cli.main import main

try:
    import bags
    from zenoh_robot import CLOUD_HASH, ROS, cloud, stamp_of
except ImportError as reason:
    print(f"skipped: {reason}")
    sys.exit(77)

FIELDS = ("--fields", "x,y,z,intensity")
VOXELIZE = ("--operation", "voxelize", "--preset", "kitti_second", *FIELDS)


def message(stamp=1, count=300):
    return cloud(scan(count, stamp), stamp)


def boxes_of(message):
    """Class, score, values (centre and size) and heading of each box of a serialized Detection3DArray."""
    for found in ROS.read(message, bags.DETECTIONS).detections:
        (result,) = found.results
        place, turn, size = found.bbox.center.position, found.bbox.center.orientation, found.bbox.size
        values = [place.x, place.y, place.z, size.x, size.y, size.z]
        yield result.hypothesis.class_id, result.hypothesis.score, values, 2 * np.arctan2(turn.z, turn.w)


class Service:
    """Stands for the service. ask() waits until the test calls answer() with the number of its message."""

    def __init__(self):
        self.asked, self._answers, self._condition = [], {}, threading.Condition()

    def ask(self, asked):
        with self._condition:
            self.asked.append(asked.number)
            self._condition.notify_all()
            assert self._condition.wait_for(lambda: asked.number in self._answers, PATIENCE)
            given = self._answers[asked.number]
        if isinstance(given, Exception):
            raise given
        return live.Answer(ros.Header(asked.number, ""), b"", given, None)

    def answer(self, number, given=b""):
        with self._condition:
            self._answers[number] = given
            self._condition.notify_all()

    def wait_for(self, *numbers):
        with self._condition:
            told = self._condition.wait_for(lambda: set(numbers) <= set(self.asked), PATIENCE)
        assert told, self.asked


def refusal(status, **fields):
    headers = {"content-type": "application/problem+json"}
    text = "{" + ",".join(f'"{name}":"{value}"' for name, value in fields.items()) + "}"
    return voxeld.Problem.of(status, "", headers, text.encode())


class Order(unittest.TestCase):
    """The bridge without a robot."""

    def bridge(self, jobs):
        self.service, self.counts, self.said, self.published = Service(), live_counts.Counts(), [], []
        bridge = live.Bridge(self.service.ask, self.counts, jobs, self.said.append)
        bridge.publish = lambda given: self.published.append(given.header.stamp)
        bridge.start(lambda: None)
        self.addCleanup(bridge.close)
        return bridge

    def dropped(self):
        return {name: count for name, count in self.counts.dropped.items() if count}

    def test_one_message_waits_and_the_newest_replaces_it(self):
        bridge = self.bridge(1)
        bridge.receive(b"", "kind", 0)
        self.service.wait_for(1)
        for _ in range(5):
            bridge.receive(b"", "kind", 0)
        for number in (1, 6):
            self.service.answer(number)
        wait_until(lambda: self.counts.published == 2, "both answers")
        self.assertEqual((self.published, self.service.asked), ([1, 6], [1, 6]))
        self.assertEqual(self.dropped(), {"replaced": 4})

    def test_an_answer_that_a_newer_one_has_overtaken_is_not_published(self):
        bridge = self.bridge(3)
        for number in (1, 2, 3):
            bridge.receive(b"", "kind", 0)
            self.service.wait_for(number)
        for number, others in ((2, {}), (1, {"late": 1})):
            self.service.answer(number)
            wait_until(lambda: self.dropped() == others and self.counts.published == 1, "an answer")
        self.service.answer(3)
        wait_until(lambda: self.counts.published == 2, "the last answer")
        self.assertEqual((self.published, self.dropped()), ([2, 3], {"late": 1}))

    def test_what_is_missing_or_comes_again_is_counted(self):
        bridge = self.bridge(1)
        self.service.answer(1)
        bridge.receive(b"", "kind", 4)
        wait_until(lambda: self.published == [1], "the answer")
        bridge.receive(b"", "kind", -1)
        self.assertEqual((self.counts.received, self.counts.lost, self.dropped()), (2, 4, {"repeated": 1}))

    def failing(self, *failures):
        """The counts of dropped messages after one message for each failure and one that is answered."""
        bridge = self.bridge(1)
        with mock.patch.object(live, "BACKOFF", 0.001):
            for number, failure in enumerate((*failures, b""), 1):
                self.service.answer(number, failure)
                bridge.receive(b"", "kind", 0)
                wait_until(lambda: self.counts.published + sum(self.dropped().values()) == number, "the next")
        self.assertEqual(self.published, [len(failures) + 1])
        return self.dropped()

    def test_a_service_that_is_away_is_reported_once(self):
        away = voxeld.TransportError("nobody listens")
        self.assertEqual(self.failing(away, away, away), {"failed": 3})
        self.assertEqual(self.said, ["nobody listens", "the service answers again"])
        self.assertTrue(self.counts.service_up)

    def test_a_busy_service_is_not_asked_again_for_the_same_message(self):
        self.assertEqual(self.failing(refusal(429, title="queue full")), {"failed": 1})
        self.assertEqual(self.service.asked, [1, 2])

    def test_messages_that_are_refused_or_unreadable(self):
        self.assertEqual(self.failing(refusal(422, title="bad"), ValueError("cut")), {"refused": 1, "unreadable": 1})
        self.assertEqual(self.said[1:], ["a message of kind cannot be read: cut", "the service answers again"])

    def test_a_superseded_or_late_message_is_no_failure(self):
        superseded = refusal(409, type="urn:voxeld:problem:superseded")
        too_old = refusal(409, type="urn:voxeld:problem:too-old")
        self.assertEqual(self.failing(superseded, too_old), {"superseded": 1, "too_old": 1})
        self.assertEqual(self.said, [])

    def test_a_refusal_that_each_message_would_get_stops_the_run_only_before_the_first_answer(self):
        bridge = self.bridge(1)
        self.service.answer(1, refusal(404, title="no such model"))
        bridge.receive(b"", "kind", 0)
        wait_until(lambda: bridge.stopped, "the stop")
        bridge = self.bridge(1)
        for number, given in ((1, b""), (2, refusal(404, title="no such model")), (3, b"")):
            self.service.answer(number, given)
            bridge.receive(b"", "kind", 0)
            wait_until(lambda: self.counts.published + sum(self.dropped().values()) == number, "the next")
        self.assertEqual((bridge.stopped, self.published), (None, [1, 3]))

    def test_a_bug_stops_the_run(self):
        bridge = self.bridge(1)
        self.service.answer(1, RuntimeError("a bug"))
        bridge.receive(b"", "kind", 0)
        wait_until(lambda: bridge.stopped, "the stop")
        self.assertEqual(str(bridge.stopped), "a bug")


class Asking(unittest.TestCase):
    def test_an_answer_without_a_message(self):
        client = mock.Mock(file_bytes=lambda *_, **__: ros.MAGIC + ros.MAGIC)
        asker = live.Asker(client, "voxelize", {})
        with self.assertRaisesRegex(voxeld.BadAnswer, "the answer of voxelize has no message"):
            asker.ask(live.Message(1, message(), "sensor_msgs/msg/PointCloud2", 0.0))


class Counting(unittest.TestCase):
    def setUp(self):
        self.now = 0.0
        self.counts = live_counts.Counts(lambda: self.now)
        for gap in (0, 2, 0, 0):
            self.counts.receive(gap)
        for age in (0.3, 0.1, 0.2):
            self.counts.publish(age, age + 1)
        self.counts.drop("replaced")

    def test_a_line_has_what_is_new(self):
        self.now = 2.0
        expected = "received 4 (2.0/s), published 3 (1.5/s), age 0.200 s (at most 0.300), stamp 1.200 s old"
        self.assertEqual(self.counts.line(), f"{expected}; 1 replaced, 2 lost")
        self.now = 4.0
        self.assertEqual(self.counts.line(), "received 0 (0.0/s), published 0 (0.0/s)")

    def test_the_page(self):
        lines = self.counts.page(2).splitlines()
        for line in (
            "voxeld_live_received_total 4",
            "voxeld_live_lost_total 2",
            'voxeld_live_dropped_total{reason="replaced"} 1',
            'voxeld_live_age_seconds_bucket{le="0.1"} 1',
            'voxeld_live_age_seconds_bucket{le="0.2"} 2',
            'voxeld_live_age_seconds_bucket{le="+Inf"} 3',
            "voxeld_live_age_seconds_count 3",
            "voxeld_live_publishers 2",
            "voxeld_live_service_up 0",
        ):
            self.assertIn(line, lines)

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool here")
    def test_prometheus_takes_the_page(self):
        command = ("promtool", "check", "metrics")
        done = subprocess.run(command, input=self.counts.page(1), capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))


class LiveCase(OneDaemonCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.daemon = Daemon(*models.served(cls.folder / "models"))

    def live(self, robot, *arguments, server=None):
        port = robot if isinstance(robot, int) else robot.port
        where = ("--zenoh", f"tcp/127.0.0.1:{port}", "--server", server or url_of(self.daemon))
        return Running("live", *where, "--topic", "/lidar_top", "--publish", "boxes", *arguments)

    def detecting(self, robot, *arguments):
        return self.live(robot, "--model", "random", *FIELDS, *arguments)

    def expected(self, stamp, count):
        with voxeld.Client(url_of(self.daemon)) as client:
            result = client.detect(scan(count, stamp), "random")
        self.assertGreater(len(result["boxes"]), 3)
        return result

    def check_boxes(self, payload, stamp, count):
        result = self.expected(stamp, count)
        self.assertEqual(stamp_of(payload), stamp)
        names = result.metadata["class_names"]
        kinds, scores, values, headings = zip(*boxes_of(payload))
        self.assertEqual(list(kinds), [names[label] for label in result["labels"]])
        self.assertEqual(list(scores), result["scores"].tolist())
        np.testing.assert_array_equal(values, result["boxes"][:, :6])
        np.testing.assert_allclose(np.sin((headings - result["boxes"][:, 6]) / 2), 0, atol=1e-6)

    def metrics(self, port):
        """The samples of the page by name, without the prefix."""
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            text = page.read().decode()
        found = re.findall(r"^voxeld_live_(\S+) (\S+)$", text, re.MULTILINE)
        return {name: float(value) for name, value in found}


class Pages(unittest.TestCase):
    """docs/ and packaging/ have the program's tables, and commands that it takes."""

    def rows(self, header):
        page = (ROOT / "docs/operate/metrics.md").read_text(encoding="utf-8")
        (table,) = re.findall(rf"^\| {re.escape(header)} \|\n\|[-| ]+\n((?:\|.*\n)+)", page, re.MULTILINE)
        return [tuple(cell.strip("` ") for cell in row.strip("|").split("|")) for row in table.splitlines()]

    def test_metrics(self):
        self.assertEqual(self.rows("name | type of metric | meaning"), list(live_counts.METRICS))
        reasons = self.rows("reason | why no answer to the message was published")
        self.assertEqual([reason for reason, _ in reasons], list(live_counts.REASONS))

    def test_the_options_of_the_unit(self):
        page = (ROOT / "docs/operate/packages.md").read_text(encoding="utf-8")
        (told,) = re.findall(r"echo 'OPTIONS=(.*)' >/etc/voxeld/live-", page)
        self.assertEqual(options.parse(["live", *told.split()]).publish, "/boxes")

    def test_systemd_finds_nothing_wrong_with_the_unit(self):
        if not shutil.which("systemd-analyze"):
            self.skipTest("there is no systemd-analyze here")
        told = subprocess.run(("systemd-analyze", "--version"), capture_output=True, text=True).stdout
        if int(told.split()[1]) < 250:
            self.skipTest("systemd before version 250 cannot check a unit offline")
        unit = ROOT / "packaging" / "voxeld-live@.service"
        text, count = re.subn(r"ExecStart=\S+/voxeld-client live ", "ExecStart=/bin/true ", unit.read_text("utf-8"))
        self.assertEqual(count, 1)
        copy = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), unit.name)
        copy.write_text(text, encoding="utf-8")
        for command in (("verify", "--man=no"), ("security", "--offline=yes", "--threshold=25")):
            done = subprocess.run(("systemd-analyze", *command, copy), capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class Hashes(unittest.TestCase):
    def test_hashes_are_those_of_the_definitions(self):
        self.assertEqual({kind: ROS.store.hash_rihs01(kind) for kind in live_zenoh.HASHES}, live_zenoh.HASHES)
        self.assertEqual(live_zenoh.HASHES[ros.POINT_CLOUD], CLOUD_HASH)


class StandIn:
    """What `live` uses of rclpy. A publisher of the topic sends `content` once there is a subscription."""

    def __init__(self, content):
        self.content, self.published, self.subscribed = content, [], []
        self.down = threading.Event()
        self.node = mock.Mock()
        self.node.get_publishers_info_by_topic.return_value = [mock.Mock(topic_type=ros.POINT_CLOUD)]
        self.node.create_publisher.side_effect = self.create_publisher
        self.node.create_subscription.side_effect = self.create_subscription
        self.rclpy = mock.Mock(create_node=mock.Mock(return_value=self.node), spin=self.spin, shutdown=self.down.set)
        self.had_subscription = threading.Event()

    def modules(self):
        executors = types.SimpleNamespace(ExternalShutdownException=InterruptedError)
        messages = {
            "sensor_msgs.msg": types.SimpleNamespace(PointCloud2="cloud"),
            "vision_msgs.msg": types.SimpleNamespace(Detection3DArray="boxes"),
        }
        quality = types.SimpleNamespace(
            QoSProfile=dict,
            ReliabilityPolicy=types.SimpleNamespace(BEST_EFFORT=2),
            DurabilityPolicy=types.SimpleNamespace(TRANSIENT_LOCAL=1),
        )
        own = {"rclpy": self.rclpy, "rclpy.executors": executors, "rclpy.qos": quality, "rclpy.signals": mock.Mock()}
        return {**own, **messages, "sensor_msgs": mock.Mock(), "vision_msgs": mock.Mock()}

    def spin(self, _):
        if self.had_subscription.wait(PATIENCE) and self.content:
            self.subscribed[0][2](self.content)
        assert self.down.wait(PATIENCE)
        raise InterruptedError

    def create_publisher(self, *told):
        self.publisher = told

        def publish(answer):
            self.published.append(answer)
            os.kill(os.getpid(), signal.SIGTERM)

        return types.SimpleNamespace(publish=publish)

    def create_subscription(self, *told, raw):
        assert raw
        self.subscribed.append(told)
        self.had_subscription.set()


class Ros(OneDaemonCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.daemon = Daemon(*models.served(cls.folder / "models"))

    def test_boxes(self):
        standin = StandIn(message(6, 2500))
        asked = ["live", "--ros2", "--topic", "/lidar_top", "--publish", "/boxes", "--model", "random", *FIELDS]
        with mock.patch.dict(sys.modules, standin.modules()), redirect_stderr(StringIO()):
            self.assertEqual(main([*asked, "--server", url_of(self.daemon)]), 0)
        ((kind, topic, _, quality),) = standin.subscribed
        self.assertEqual((kind, topic, quality), ("cloud", "/lidar_top", {"depth": 1, "reliability": 2}))
        self.assertEqual(standin.publisher, ("boxes", "/boxes", {"depth": 1}))
        self.assertEqual(stamp_of(standin.published[0]), 6)
        self.assertGreater(len(list(boxes_of(standin.published[0]))), 3)

    def test_topics_of_poses(self):
        """The bridge subscribes to each topic once, after the topic has a publisher. Topics of points, of poses and of
        static transforms each have their own quality of service."""
        standin, came = StandIn(b""), []
        types_of = {"/lidar_top": [ros.POINT_CLOUD], "/odom": [], "/tf_static": ["tf2_msgs/msg/TFMessage"] * 2}
        standin.node.get_publishers_info_by_topic.side_effect = lambda topic: [
            mock.Mock(topic_type=kind) for kind in types_of[topic]
        ]
        more = {
            "nav_msgs.msg": types.SimpleNamespace(Odometry="odometry"),
            "tf2_msgs.msg": types.SimpleNamespace(TFMessage="transforms"),
            "nav_msgs": mock.Mock(),
            "tf2_msgs": mock.Mock(),
        }
        with mock.patch.dict(sys.modules, {**standin.modules(), **more}):
            given = {"/odom": False, "/tf_static": True}, lambda *told: came.append(told)
            topics = live_ros.Ros2("node", "/lidar_top", None, lambda *_: None, lambda _: None, *given)
            topics.tend()
            types_of["/odom"] = [bags.ODOMETRY]
            topics.tend()
            topics.tend()
            for kind, _, on_bytes, _ in standin.subscribed:
                on_bytes(kind.encode())
            topics.close()
        self.assertEqual(
            [(kind, topic, quality) for kind, topic, _, quality in standin.subscribed],
            [
                ("cloud", "/lidar_top", {"depth": 1, "reliability": 2}),
                ("transforms", "/tf_static", {"depth": 100, "durability": 1}),
                ("odometry", "/odom", {"depth": 100, "reliability": 2}),
            ],
        )
        heard = [("/tf_static", b"transforms", "tf2_msgs/msg/TFMessage"), ("/odom", b"odometry", bags.ODOMETRY)]
        self.assertEqual(came, heard)

    def test_a_publisher_that_goes(self):
        standin, said = StandIn(b""), []
        with mock.patch.dict(sys.modules, standin.modules()):
            topics = live_ros.Ros2("node", "/lidar_top", None, lambda *_: None, said.append)
            topics.tend()
            standin.node.get_publishers_info_by_topic.return_value = []
            topics.tend()
            topics.publish(b"")
            topics.close()
        self.assertEqual(said[1:], ["a publisher of /lidar_top has gone; 0 are left"])
        self.assertEqual((topics.publishers, standin.published), (0, []))


if __name__ == "__main__":
    unittest.main()
