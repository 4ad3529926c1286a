"""voxeld-client live over Zenoh, from a robot to the daemon and back: keys, faults, usage."""

import importlib.util
import re
import signal
import struct
import sys
import threading
import time
import unittest
from unittest import mock

import numpy as np

import voxeld
from command_line import Running, run
from daemon import PATIENCE, ROOT, Daemon, wait_until
from rude_server import RudeServer, answer, problem, url_of
from test_live import FIELDS, VOXELIZE, LiveCase, message
from test_python_detect import scan
from voxeld import ros
from voxeld.cli import live, live_zenoh
from zenoh_robot import CLOUD, CLOUD_HASH, ZenohRobot, free_port, stamp_of

BOXES = "0/boxes/vision_msgs::msg::dds_::Detection3DArray_/"
SUPERSEDED = problem(409, type="urn:voxeld:problem:superseded", detail="a newer one came")


class Live(LiveCase):
    # ---- keys ----

    def test_boxes_of_a_robot_with_rmw_zenoh(self):
        with ZenohRobot() as robot, self.detecting(robot) as running:
            wait_until(lambda: len(robot.tokens) == 3, lambda: f"three tokens: {robot.tokens}")
            for number in (1, 2):
                robot.publish(message(number, 2500))
                heard = robot.wait_for(number)
            tokens = robot.tokens.copy()
            done = running.end(signal.SIGTERM)
            wait_until(lambda: not robot.tokens, "the end of the tokens")
        self.assertEqual(done.status, 0, done)
        self.assertIn("/lidar_top has a publisher of sensor_msgs/msg/PointCloud2\n", done.errors)
        gids = set()
        for number, (key, payload, attachment) in enumerate(heard, 1):
            self.assertEqual(key, BOXES + live_zenoh.HASHES[ros.DETECTIONS])
            self.check_boxes(payload, number, 2500)
            count, at, length, gid = struct.unpack("<qqB16s", attachment)
            self.assertEqual((count, length), (number, 16))
            self.assertLess(abs(at / 1e9 - time.time()), PATIENCE)
            gids.add(gid)
        self.assertEqual(len(gids - {robot.gid}), 1)
        # A token: place, domain, session, node, number, entity, enclave, namespace, name; then the topic, its type, its
        # hash and the quality of service.
        by_entity = {token.split("/")[5]: token.split("/") for token in tokens}
        self.assertEqual(set(by_entity), {"NN", "MP", "MS"})
        for parts in by_entity.values():
            self.assertEqual((parts[:2], parts[6:9]), (["@ros2_lv", "0"], ["%", "%", "voxeld_boxes"]))
        self.assertEqual(by_entity["MP"][9], "%boxes")
        self.assertEqual("/".join(["0/boxes", *by_entity["MP"][10:12]]), heard[0][0])
        self.assertEqual(by_entity["MS"][9:12], ["%lidar_top", CLOUD, CLOUD_HASH])
        self.assertEqual([parts[12].count(":") for parts in by_entity.values() if parts[5] != "NN"], [5, 5])

    def test_a_robot_of_humble_has_no_hashes(self):
        with ZenohRobot(type_hash="TypeHashNotSupported") as robot, self.detecting(robot):
            robot.wait_for_subscription()
            robot.publish(message(1, 2500))
            ((key, payload, _),) = robot.wait_for(1)
        self.assertEqual(key, BOXES + "TypeHashNotSupported")
        self.check_boxes(payload, 1, 2500)

    def test_a_robot_behind_zenoh_bridge_ros2dds(self):
        with ZenohRobot(keys="ros2dds", topic="bot/top", answers="bot/boxes") as robot:
            with self.detecting(robot, "--topic", "/bot/top", "--publish", "/bot/boxes") as running:
                wait_until(lambda: len(robot.tokens) == 2, lambda: f"two tokens: {robot.tokens}")
                robot.publish(message(3, 2500))
                ((key, payload, attachment),) = robot.wait_for(1)
                tokens = {tuple(token.split("/")[3:6]) for token in robot.tokens}
                self.assertEqual(running.end(signal.SIGINT).status, 0)
        self.assertEqual((key, attachment), ("bot/boxes", None))
        self.check_boxes(payload, 3, 2500)
        ours = ("MP", "bot§boxes", "vision_msgs§msg§Detection3DArray")
        self.assertEqual(tokens, {ours, ("MS", "bot§top", "sensor_msgs§msg§PointCloud2")})

    def test_voxels(self):
        with ZenohRobot() as robot, self.live(robot, *VOXELIZE):
            robot.wait_for_subscription()
            robot.publish(message(4))
            ((key, payload, _),) = robot.wait_for(1)
        self.assertEqual(key, f"0/boxes/{CLOUD}/{CLOUD_HASH}")
        self.assertEqual(stamp_of(payload), 4)
        with voxeld.Client(url_of(self.daemon)) as client:
            voxels = client.voxelize(scan(300, 4), "kitti_second")
            again = client.points(payload, format="pointcloud2", fields=["x", "y", "z"])
        np.testing.assert_array_equal(again["points"], voxels["voxel_features"][:, :3])

    def test_the_command_of_the_page(self):
        page = (ROOT / "docs/robots.md").read_text(encoding="utf-8")
        (command,) = re.findall(r"^    \$ voxeld-client (live --zenoh .*)$", page, re.MULTILINE)
        with ZenohRobot() as robot:
            told = command.replace("tcp/robot:7447", f"tcp/127.0.0.1:{robot.port}").replace("kitti", "random")
            with Running(*told.split(), "--server", url_of(self.daemon)):
                robot.wait_for_subscription()
                robot.publish(message(7, 2500))
                ((_, payload, _),) = robot.wait_for(1)
        self.check_boxes(payload, 7, 2500)

    def test_a_message_without_points(self):
        for operation in (("--model", "random"), VOXELIZE):
            with ZenohRobot() as robot, self.live(robot, *operation):
                robot.wait_for_subscription()
                robot.publish(message(5, 0))
                ((_, payload, _),) = robot.wait_for(1)
            self.assertEqual(stamp_of(payload), 5)

    # ---- faults ----

    def test_a_robot_that_is_faster_than_the_server(self):
        """Twenty messages come while the server is busy with one; only the last is answered."""
        gate, stamps = threading.Semaphore(0), []

        def act(talk):
            body = talk.read_body()
            stamps.append(stamp_of(body))
            gate.acquire()
            reply = self.daemon.post(talk.target, body, {"Accept": talk.header("Accept")})
            talk.socket.sendall(answer(200, {"Content-Type": reply.headers["Content-Type"]}, reply.body))

        with RudeServer(act) as server, ZenohRobot() as robot:
            port = free_port()
            given = ("--jobs", 1, "--no-shared-memory", "--metrics", port)
            with self.live(robot, *VOXELIZE, *given, server=url_of(server)) as running:
                robot.wait_for_subscription()
                robot.publish(message(1))
                wait_until(lambda: stamps == [1], "the first message")
                for stamp in range(2, 22):
                    robot.publish(message(stamp))
                wait_until(lambda: self.metrics(port)["received_total"] == 21, "all messages")
                self.assertEqual(self.metrics(port)['dropped_total{reason="replaced"}'], 19)
                for _ in range(2):
                    gate.release()
                heard = robot.wait_for(2)
                done = running.end(signal.SIGTERM)
        self.assertEqual([stamp_of(payload) for _, payload, _ in heard], [1, 21])
        self.assertEqual((stamps, done.status), ([1, 21], 0))
        self.assertRegex(done.errors, r"received 21 .*, published 2 .*; 19 replaced\n$")

    def test_a_server_that_restarts(self):
        path = self.folder / "socket"
        listen = ("--listen", f"unix:{path},127.0.0.1:0")
        daemon = Daemon(*listen)
        stamps = iter(range(1, 100000))

        def following():
            return message(next(stamps))

        with ZenohRobot() as robot, self.live(robot, *VOXELIZE, server=f"unix:{path}") as running:
            robot.wait_for_subscription()
            robot.publish_until(following, robot.answers, "an answer")
            daemon.stop()
            said = []
            robot.publish(following())
            while "nobody listens" not in "".join(said):
                said.append(running.process.stderr.readline())
            before = len(robot.answers())
            with Daemon(*listen):
                robot.publish_until(following, lambda: len(robot.answers()) > before, "an answer of the new server")
                while said[-1] != "the service answers again\n":
                    said.append(running.process.stderr.readline())
                done = running.end(signal.SIGTERM)
        answered = [stamp_of(payload) for _, payload, _ in robot.answers()]
        self.assertEqual(answered, sorted(set(answered)))
        self.assertEqual(done.status, 0)

    def test_a_robot_that_comes_late_and_vanishes(self):
        port = free_port()
        with self.live(port, *VOXELIZE) as running:
            self.assertEqual(running.process.stderr.readline(), f"cannot reach tcp/127.0.0.1:{port}; trying again\n")
            for stamp in (1, 2):
                with ZenohRobot(port) as robot:
                    robot.publish_until(lambda: message(stamp), robot.answers, "an answer")
                    wait_until(lambda: len(robot.tokens) == 3, "the tokens")
                    self.assertEqual(stamp_of(robot.answers()[0][1]), stamp)
            said = ""
            while said.count("a publisher of /lidar_top has gone; 0 are left\n") < 2 or "lost tcp" not in said:
                said += running.process.stderr.readline()
            self.assertEqual(running.end(signal.SIGTERM).status, 0)

    def test_messages_that_the_link_has_lost(self):
        port = free_port()
        with ZenohRobot() as robot, self.live(robot, *VOXELIZE, "--metrics", port):
            robot.wait_for_subscription()
            for stamp, count in ((1, 1), (2, 5), (3, 5), (4, 4), (5, 6)):
                robot.publish(message(stamp), count)
                wait_until(lambda: self.metrics(port)["received_total"] == stamp, "the message")
                answered = (1, 2, 2, 2, 3)[stamp - 1]
                robot.wait_for(answered)
            found = self.metrics(port)
        self.assertEqual([stamp_of(payload) for _, payload, _ in robot.answers()], [1, 2, 5])
        self.assertEqual((found["lost_total"], found['dropped_total{reason="repeated"}']), (3, 2))
        self.assertEqual((found["publishers"], found["service_up"], found["published_total"]), (1, 1, 3))

    def test_superseded_messages(self):
        with RudeServer(SUPERSEDED) as server, ZenohRobot() as robot:
            port = free_port()
            given = ("--no-shared-memory", "--metrics", port)
            with self.live(robot, *VOXELIZE, *given, server=url_of(server)) as running:
                robot.wait_for_subscription()
                robot.publish(message(1))
                wait_until(lambda: self.metrics(port)['dropped_total{reason="superseded"}'] == 1, "the word")
                self.assertEqual(running.end(signal.SIGTERM).status, 0)
            (head,) = server.heads
            self.assertIn("latest=voxeld_boxes", head.splitlines()[0])

    def test_messages_that_are_too_old(self):
        with ZenohRobot() as robot:
            port, given = free_port(), ("--max-age-ms", 60_000)
            with self.live(robot, *VOXELIZE, *given, "--metrics", port, "--uplink", "auto"):
                robot.wait_for_subscription()
                robot.publish(message(int(time.time()) - 120))
                wait_until(lambda: self.metrics(port)['dropped_total{reason="too_old"}'] == 1, "the old message")
                fresh = int(time.time())
                robot.publish(message(fresh))
                ((_, payload, _),) = robot.wait_for(1)
        self.assertEqual(stamp_of(payload), fresh)

    def test_a_malformed_message(self):
        with ZenohRobot() as robot, self.live(robot, *VOXELIZE) as running:
            robot.wait_for_subscription()
            said = ""
            robot.publish(b"\0\1\0\0nothing")
            while "cannot be read" not in said:
                said = running.process.stderr.readline()
            self.assertTrue(said.startswith("a message of sensor_msgs/msg/PointCloud2 cannot be read: "), said)
            robot.publish(message(5))
            robot.wait_for(1)

    def test_a_session_that_opens_after_the_end_is_closed(self):
        """Threads of an open session would keep the program from ending."""
        robot = live_zenoh.Zenoh("tcp/127.0.0.1:1", 0, "node", "/a", None, lambda *_: None, lambda _: None)
        session = mock.Mock()

        def open_late(_):
            robot.close()
            return session

        with mock.patch.object(robot._zenoh, "open", open_late):
            robot.tend()
        session.close.assert_called_once_with()
        session.declare_subscriber.assert_not_called()

    # ---- usage ----

    def test_a_model_that_there_is_not(self):
        with ZenohRobot() as robot, self.live(robot, "--model", "nobody", *FIELDS) as running:
            robot.wait_for_subscription()
            robot.publish(message(1))
            done = running.end()
        self.assertEqual((done.status, "nobody" in done.errors), (2, True), done)

    def test_wrong_usage(self):
        robot, taken = ("--zenoh", "tcp/127.0.0.1:1"), self.daemon.address[1]
        for arguments, reason in (
            (("--topic", "/a"), "--zenoh --ros2"),
            ((*robot, "--topic", "/a b"), "/a b is not the name of a topic"),
            ((*robot, "--topic", "/a", "--publish", "a"), "--publish names the topic of --topic"),
            ((*robot, "--topic", "/a"), "--publish NAME or --view"),
            ((*robot, "--topic", "/a", "--publish", "/b", "--stream", "roof"), "--stream needs --pose TOPIC"),
            ((*robot, "--topic", "/a", "--publish", "/b", "--outputs", "boxes"), "--outputs cannot be used here"),
            ((*robot, "--topic", "/a", "--view", "rviz"), "'rviz' is not foxglove or rerun"),
            ((*robot, "--topic", "/a", "--view", "rerun:x"), "'x' is not PORT"),
            ((*robot, "--topic", "/a", "--metrics", "x"), "'x' is not PORT or HOST:PORT"),
            ((*robot, "--topic", "/a", "--operation", "nms"), "invalid choice"),
            (
                ("--zenoh", "robot", "--topic", "/a", "--publish", "/b"),
                "robot is not a locator or a configuration of Zenoh",
            ),
            (("--zenoh", "missing.json5", "--topic", "/a", "--publish", "/b"), "missing.json5 is not a locator"),
            ((*robot, "--topic", "/a", "--publish", "/b", "--metrics", taken), f"cannot listen on 127.0.0.1:{taken}"),
        ):
            done = run("live", *arguments)
            self.assertEqual((done.status, reason in done.errors), (2, True), (arguments, done))

    def test_packages_that_are_missing(self):
        with mock.patch.dict(sys.modules, zenoh=None), self.assertRaisesRegex(live.UsageError, r"voxeld\[zenoh\]"):
            live_zenoh.Zenoh("tcp/a:1", 0, "node", "/a", None, lambda *_: None, lambda _: None)
        for name in ("foxglove", "rerun"):
            with mock.patch.dict(sys.modules, {name: None}), self.assertRaisesRegex(
                live.UsageError, rf"voxeld\[{name}\]"
            ):
                live.View(name, 1, None)
        if not importlib.util.find_spec("rclpy"):
            done = run("live", "--ros2", "--topic", "/a", "--publish", "/b", "--server", url_of(self.daemon))
            self.assertEqual((done.status, "source its setup.bash" in done.errors), (2, True), done)


if __name__ == "__main__":
    unittest.main()
