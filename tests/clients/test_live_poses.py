"""voxeld-client live --pose: a stream's sweeps get their poses from a topic, over Zenoh."""

import signal
import time
import unittest
from unittest import mock

import numpy as np

import bags
import voxeld
from command_line import run
from daemon import PATIENCE, wait_until
from rude_server import url_of
from test_live import FIELDS, LiveCase, message
from test_live import VOXELIZE as VOXELS
from test_python_detect import scan
from voxeld.cli import live_poses, transforms
from zenoh_robot import ROS, ZenohRobot, free_port, stamp_of

SECOND = 10**9
TURN = (np.cos(0.1), 0.0, 0.0, np.sin(0.1))  # w, x, y, z
MOUNT = (1.5, 0.0, 2.0, 1.0, 0.0, 0.0, 0.0)  # of the lidar on base_link
STREAM = ("--stream", "roof", "--sweeps", 3, "--pose", "/odom")
VOXELIZE = (*VOXELS, *STREAM)


def at(seconds):
    """A pose of the vehicle, which drives along x and y, always turned by TURN."""
    return (2.0 * seconds, seconds, 0.0, *TURN)


def odometry(seconds):
    return ROS.odometry(int(seconds * SECOND), at(seconds))


def of_lidar(seconds):
    return transforms.compose(at(seconds), MOUNT)


class Poses(LiveCase):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.daemon.request, "DELETE", "/v1/streams/roof")
        self.addCleanup(self.daemon.request, "DELETE", "/v1/streams/hand")

    def robot(self, **keys):
        """A robot with odometry. It has sent its static transforms before anybody listens."""
        robot = self.enterContext(ZenohRobot(**keys))
        robot.other("tf_static", bags.TF, late=True)(ROS.tf((0, MOUNT, "base_link", "lidar")))
        return robot, robot.other("odom", bags.ODOMETRY)

    def started(self, robot, odometer, *arguments, first=0.5):
        """voxeld-client live, once it has announced its subscription to odometry."""
        running = self.enterContext(self.live(robot, *(arguments or VOXELIZE)))
        robot.wait_for_subscription()
        self.tell(robot, lambda: odometer(odometry(first)), "odom")
        return running

    def tell(self, robot, publish, *topics):
        """Publishes until voxeld-client live announces its subscriptions to the topics. It does so once it knows their
        types: from a message or, with ros2dds, from the publisher's token."""

        def are_heard():
            publish()
            time.sleep(0.05)
            heard = {word.strip("%") for token in robot.tokens if "/MS/" in token for word in token.split("/")}
            return set(topics) <= heard

        wait_until(are_heard, "the subscriptions")

    def check_joined(self, *stamps):
        """The stream has the points of a stream whose client sends the lidar's poses itself."""
        with voxeld.Client(url_of(self.daemon)) as client:
            stream = client.stream("hand", sweeps=3, preset="kitti_second")
            for stamp in stamps:
                stream.send(scan(300, stamp), of_lidar(stamp), stamp)
            joined = [client.stream(name, 3).last()["points"] for name in ("roof", "hand")]
        self.assertEqual(joined[0].shape, joined[1].shape)
        np.testing.assert_allclose(*joined, atol=1e-4)

    def drop(self, port, reason, count=1):
        wait_until(lambda: self.metrics(port)[f'dropped_total{{reason="{reason}"}}'] == count, f"a drop: {reason}")

    # ---- poses ----

    def test_poses_between_those_of_odometry(self):
        for keys in ("rmw_zenoh", "ros2dds"):
            with self.subTest(keys):
                robot, odometer = self.robot(keys=keys)
                running = self.started(robot, odometer)
                for number, stamp in enumerate((1, 2, 3), 1):
                    odometer(odometry(stamp - 0.25))
                    odometer(odometry(stamp + 0.25))
                    robot.publish(message(stamp))
                    heard = robot.wait_for(number)
                self.assertEqual([stamp_of(payload) for _, payload, _ in heard], [1, 2, 3])
                self.check_joined(1, 2, 3)
                self.assertEqual(running.end(signal.SIGTERM).status, 0)
                self.doCleanups()

    def test_tracks_are_the_ids_of_boxes(self):
        robot, odometer = self.robot()
        asked = ("--model", "random", *FIELDS, "--stream", "roof", "--sweeps", 1, "--pose", "/odom", "--track", "yes")
        self.started(robot, odometer, *asked)
        with voxeld.Client(url_of(self.daemon)) as client:
            stream = client.stream("hand", sweeps=1, operation="detect", model="random", track=True)
            added, highest = 0, 0
            for stamp in range(1, 6):
                if stamp == 4:  # the tracks begin anew, as after a restart of the service; the ids go on
                    added = highest
                    for name in ("roof", "hand"):
                        self.assertEqual(self.daemon.request("DELETE", f"/v1/streams/{name}").status, 200)
                odometer(odometry(stamp - 0.25))
                odometer(odometry(stamp + 0.25))
                robot.publish(message(stamp, 1000))
                _, payload, _ = robot.wait_for(stamp)[-1]
                ids = [int(found.id) for found in ROS.read(payload, bags.DETECTIONS).detections]
                result = stream.send(scan(1000, stamp), of_lidar(stamp), stamp)
                self.assertEqual(ids, (result.track_ids + added).tolist())
                self.assertEqual(result.metadata["tracks"]["begun"], stamp in (1, 4))
                highest = max([highest, *ids])
        self.assertGreater(result.metadata["tracks"]["matched"], 0)

    def test_a_pose_that_comes_after_its_sweep(self):
        robot, odometer = self.robot()
        port, stamp = free_port(), 0
        self.started(robot, odometer, *VOXELIZE, "--metrics", port)
        dropped = lambda: self.metrics(port)['dropped_total{reason="no_pose"}']
        while not robot.answers():  # on a busy machine the pose may come too late
            self.assertEqual(dropped(), stamp)
            stamp += 1
            robot.publish(message(stamp))
            time.sleep(0.1)
            self.assertEqual(robot.answers(), [])
            odometer(odometry(stamp + 0.25))
            wait_until(lambda: robot.answers() or dropped() == stamp, "an answer, or the end of the wait")
        self.check_joined(stamp)

    def test_a_pose_that_does_not_come(self):
        robot, odometer = self.robot()
        port = free_port()
        running = self.started(robot, odometer, *VOXELIZE, "--metrics", port)
        robot.publish(message(1))
        self.drop(port, "no_pose")
        odometer(odometry(1.4))  # no pose is interpolated between poses more than 1 s apart
        odometer(odometry(2.5))
        robot.publish(message(2))
        self.drop(port, "no_pose", 2)
        odometer(odometry(3.1))
        robot.publish(message(3))
        robot.wait_for(1)
        self.check_joined(3)
        done = running.end(signal.SIGTERM)
        self.assertIn("poses are known from 0.500 to 0.500, not at 1.000\n", done.errors)
        self.assertIn("there is no pose for 1.100 s around 2.000", done.errors)

    def test_transforms_that_move(self):
        robot = self.enterContext(ZenohRobot())
        robot.other("tf_static", bags.TF, late=True)(ROS.tf((0, MOUNT, "base_link", "lidar")))
        mover = robot.other("tf", bags.TF)
        with self.live(robot, *VOXELS, "--stream", "roof", "--sweeps", 3, "--pose", "tf") as running:
            robot.wait_for_subscription()

            def moved(*times):
                mover(ROS.tf(*((int(seconds * SECOND), at(seconds), "odom", "base_link") for seconds in times)))

            self.tell(robot, lambda: moved(0.5), "tf", "tf_static")
            for number, stamp in enumerate((1, 2), 1):
                moved(stamp - 0.25, stamp + 0.25)
                robot.publish(message(stamp))
                robot.wait_for(number)
            self.check_joined(1, 2)
            self.assertEqual(running.end(signal.SIGTERM).status, 0)

    def test_a_time_that_goes_back(self):
        """As when a bag is played again: the stream begins anew, after one message without an answer."""
        robot, odometer = self.robot()
        port = free_port()
        self.started(robot, odometer, *VOXELIZE, "--metrics", port, first=99.75)
        odometer(odometry(100.25))
        robot.publish(message(100))
        robot.wait_for(1)
        robot.publish(message(1))
        time.sleep(0.1)  # the sweep is there before the poses of its time
        for seconds in (0.75, 1.25, 1.75, 2.25):
            odometer(odometry(seconds))
        self.drop(port, "refused")
        robot.publish(message(2))
        robot.wait_for(2)
        self.check_joined(2)

    # ---- usage ----

    def test_wrong_usage(self):
        given = ("--zenoh", "tcp/127.0.0.1:1", "--topic", "/a", "--publish", "/b", *VOXELS)
        stream = ("--stream", "roof")
        for arguments, reason in (
            (stream, "--stream needs --pose TOPIC"),
            (("--pose", "/odom"), "--pose TOPIC needs --stream"),
            ((*stream, "--pose", "1,0,0,1,0,0,0"), "with live, --pose is the name of a topic"),
            ((*stream, "--pose", "/odom", "--time", 3), "--time is for files"),
            ((*stream, "--pose", "/odom", "--deskew", "poses"), "--deskew stream does not need them"),
            (("--fixed-frame", "map"), "--fixed-frame needs --pose TOPIC"),
        ):
            done = run("live", *given, *arguments)
            self.assertEqual((done.status, reason in done.errors), (2, True), (arguments, done))

    def test_topics_that_do_not_help(self):
        cloud = ROS.cloud(np.zeros(1, [("x", "<f4")]), 1)
        for kind, made, more, reason in (
            (bags.POINT_CLOUD, lambda: cloud, (), "/odom has messages of sensor_msgs"),
            (bags.TF, lambda: ROS.tf((1, MOUNT, "a", "lidar")), ("--mount", "0,0,0,1,0,0,0"), "so --mount cannot be"),
        ):
            with ZenohRobot() as robot, self.live(robot, *VOXELIZE, *more) as running:
                send = robot.other("odom", kind)
                robot.wait_for_subscription()

                def again():
                    send(made())
                    robot.publish(message(1))
                    time.sleep(0.1)
                    return running.process.poll() is not None

                wait_until(again, "the end")
                done = running.end()
            self.assertEqual((done.status, reason in done.errors), (2, True), done)


class Kept(unittest.TestCase):
    """A long run keeps no more poses than a short one."""

    def pose(self, x):
        return (float(x), 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)

    def test_old_poses_are_dropped(self):
        track = transforms.Track(keep=1000)
        for number in range(10_000):
            track.add(number, self.pose(number))
            self.assertLessEqual(len(track.times(0, 10_000)), 2001)
        self.assertEqual(track.at(9500), self.pose(9500))
        with self.assertRaises(transforms.Unknown):
            track.at(7000)

    def test_a_time_that_goes_back_drops_all(self):
        track = transforms.Track(keep=1000)
        for number in (5000, 5100, 4900):  # the last pose is late, but time has not gone back
            track.add(number, self.pose(number))
        self.assertEqual(list(track.times(0, 10_000)), [4900, 5000, 5100])
        track.add(7, self.pose(7))
        self.assertEqual(list(track.times(0, 10_000)), [7])

    def test_what_is_yet_to_come(self):
        """A sweep older than all poses waits only if the robot's time may have gone back."""
        track = transforms.Track(keep=1000)
        for number in (5000, 5100):
            track.add(number, self.pose(number))
        for number, later in ((5101, True), (4999, False), (4100, False), (4099, True)):
            with self.assertRaises(transforms.Unknown) as unknown:
                track.at(number)
            self.assertEqual(unknown.exception.later, later, number)

    def test_one_pose_for_each_time(self):
        track = transforms.Track(keep=1000)
        for number in range(100):
            track.add(5, self.pose(number))
        self.assertEqual((list(track.times(0, 10)), track.at(5)), ([5], self.pose(99)))
        track.static = True
        for number in range(100):
            track.add(number, self.pose(number))
        self.assertEqual((list(track.times(0, 100)), track.at(3)), ([99], self.pose(99)))

    def test_who_waits_ends_with_the_run(self):
        poses = live_poses.Poses("/odom", None, {"stream": "s"}, lambda _: None)
        poses.close()
        began = time.monotonic()
        with mock.patch.object(live_poses, "WAIT", PATIENCE), self.assertRaises(transforms.Unknown):
            poses.own(voxeld.ros.Header(1, "lidar"))
        self.assertLess(time.monotonic() - began, PATIENCE)

    def test_static_transforms_of_a_namespace(self):
        topics = lambda topic, **more: live_poses.Poses(topic, None, {"stream": "s", **more}, lambda _: None).topics
        self.assertEqual(topics("/odom"), {"/odom": False, "/tf_static": True})
        self.assertEqual(topics("/bot/tf"), {"/bot/tf": False, "/bot/tf_static": True})
        self.assertEqual(topics("/odom", mount="0,0,0,1,0,0,0"), {"/odom": False})


if __name__ == "__main__":
    unittest.main()
