"""voxeld-client with bags that rosbags writes: messages as scans, poses from odometry and /tf, answers as tensors and
as MCAP, interrupted runs, faulty bags."""

import contextlib
import fcntl
import importlib.util
import json
import os
import pathlib
import pty
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import unittest
import zlib

import numpy as np

import models
import voxeld
from check import parse_by_hand, same_tensors
from command_line import ENVIRONMENT, PROGRAM, Running, run
from daemon import Daemon, wait_until
from rude_server import GRID, url_of
from test_python_detect import scan
from test_python_streams import text

if not importlib.util.find_spec("rosbags"):
    print("skipped: there is no rosbags here")
    sys.exit(77)

from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory
from rosbags.typesys import get_types_from_msg

from bags import DETECTIONS, POINT_CLOUD, Robot, rechunk, write_ros1_mcap
from test_ros import livox, rows
from voxeld.cli import recording, transforms

BEGIN = 1_700_000_000 * 10**9
SWEEPS, PERIOD, STEP = 6, 100_000_000, 10_000_000  # nanoseconds between sweeps and between poses
OPTIONS = [word for name, value in GRID.items() for word in (f"--{name.replace('_', '-')}", text(value))]
MODEL = "random"
MOUNT = (1.2, 0.1, 1.9, np.cos(0.1), 0.0, 0.0, np.sin(0.1))


def stamp(number):
    """The time of a sweep, in the middle between two poses."""
    return BEGIN + STEP // 2 + 3 * STEP + number * PERIOD


def pose(time):
    """Where the vehicle is. It turns by a steady rate, so slerp is exact; its way is straight between two poses."""
    seconds = (time - BEGIN) / 1e9
    before = (time - BEGIN) // STEP * STEP / 1e9
    share = (seconds - before) / (STEP / 1e9)
    place = [(1 - share) * value + share * later for value, later in zip(way(before), way(before + STEP / 1e9))]
    turn = 0.8 * seconds
    return (*place, np.cos(turn / 2), 0.0, 0.0, np.sin(turn / 2))


def way(seconds):
    return 5 * seconds, np.sin(3 * seconds), 0.1 * seconds


def matrix(pose):
    x, y, z, qw, qx, qy, qz = pose
    made = np.eye(4)
    made[:3, :3] = [
        [1 - 2 * (qy * qy + qz * qz), 2 * (qx * qy - qz * qw), 2 * (qx * qz + qy * qw)],
        [2 * (qx * qy + qz * qw), 1 - 2 * (qx * qx + qz * qz), 2 * (qy * qz - qx * qw)],
        [2 * (qx * qz - qy * qw), 2 * (qy * qz + qx * qw), 1 - 2 * (qx * qx + qy * qy)],
    ]
    made[:3, 3] = x, y, z
    return made


def timed(number):
    points = rows(400, number)
    points["t"] = np.linspace(0, 0.09, len(points))
    return points


def drive(robot, sweeps=SWEEPS):
    """A drive: points in each type of message, odometry, and transforms from odom to the lidar."""
    yield "/tf_static", BEGIN, robot.tf((BEGIN, MOUNT, "base_link", "lidar"))
    last = stamp(sweeps - 1) + 3 * PERIOD
    for time in range(BEGIN, last, STEP):
        yield "/odom", time, robot.odometry(time, pose(time))
        sign = -1 if time // STEP % 2 else 1  # a quaternion and its negative are the same rotation
        yield "/tf", time, robot.tf(
            (time, (*pose(time)[:3], *(sign * part for part in pose(time)[3:])), "odom", "base_link")
        )
        for number in range(sweeps):
            if time < stamp(number) <= time + STEP:
                now = stamp(number)
                yield "/lidar_top", now, robot.cloud(timed(number), now)
                yield "/packed", now, robot.cloud(timed(number), now, "lidar", ("zlib", zlib.compress))
                yield "/livox", now, robot.livox(livox(400, number), now)


class Transforms(unittest.TestCase):
    def track(self, *poses):
        track = transforms.Track()
        for time, pose in poses:
            track.add(time, pose)
        return track

    def turned(self, degrees, sign=1):
        half = np.radians(degrees) / 2
        return (0.0, 0.0, 0.0, sign * np.cos(half), 0.0, 0.0, sign * np.sin(half))

    def test_between(self):
        for first, last in ((0, 170), (0, 1), (0, 0.1), (100, 20), (-170, 170)):
            for sign in (1, -1):
                track = self.track((1000, self.turned(first)), (2000, self.turned(last, sign)))
                for share in (0, 0.25, 0.5, 1):
                    way = (last - first + 180) % 360 - 180  # the shorter one
                    wanted = matrix(self.turned(first + share * way))
                    got = matrix(track.at(1000 + int(1000 * share)))
                    np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-9, err_msg=f"{first} {last} {share}")

    def test_times(self):
        track = self.track(*((time, (time, 0, 0, 1, 0, 0, 0)) for time in (30, 10, 20, 20)))
        self.assertEqual([track.at(time)[0] for time in (10, 14, 20, 25, 30)], [10, 14, 20, 25, 30])
        for time in (9, 31):
            with self.assertRaisesRegex(transforms.Unknown, "poses are known from 0.000 to 0.000, not at 0.000"):
                track.at(time)
        for apart, known in ((10**9, True), (10**9 + 1, False)):
            track = self.track((0, self.turned(0)), (apart, self.turned(10)))
            with (
                contextlib.nullcontext() if known else self.assertRaisesRegex(transforms.Unknown, "no pose for 1.000 s")
            ):
                track.at(5)
        none = self.track((1, (0,) * 7), (2, (np.nan, 0, 0, 1, 0, 0, 0)), (3, (0, 0, 0, np.inf, 0, 0, 0)))
        with self.assertRaisesRegex(transforms.Unknown, "at no time"):
            none.at(2)
        self.assertEqual(self.track((5, (1, 2, 3, 2, 0, 0, 0)), (6, self.turned(0))).at(5), (1, 2, 3, 1, 0, 0, 0))

    def test_ways(self):
        robot, tree = Robot(), transforms.Tree()
        there = {
            "a": (1, 0, 0, *self.turned(90)[3:]),
            "b": (0, 2, 0, *self.turned(0)[3:]),
            "c": (0, 0, 3, *self.turned(0)[3:]),
        }

        def add(message, topic="/tf"):
            tree.add(topic, message.__msgtype__, robot.bytes_of(message), False)

        add(robot.tf((5, there["a"], "map", "a"), (5, there["b"], "/a", "b")))
        add(robot.tf((0, there["c"], "b", "/c")), "/tf_static")
        wanted = matrix(there["a"]) @ matrix(there["b"]) @ matrix(there["c"])
        for fixed in (None, "map", "/map"):
            np.testing.assert_allclose(matrix(transforms.at(tree.chain("c", fixed, False), 5)), wanted, atol=1e-12)
        np.testing.assert_allclose(
            matrix(transforms.at(tree.chain("/c", "b", False), 99)), matrix(there["c"]), atol=1e-12
        )
        for frame, fixed in (("c", "earth"), ("lidar", None), ("map", "c")):
            with self.assertRaises(transforms.Unknown):
                tree.chain(frame, fixed, False)
        add(robot.tf((5, there["a"], "c", "map")))  # a circle
        with self.assertRaises(transforms.Unknown):
            tree.chain("c", "earth", False)

        # Neither message names a child frame: each has the pose of the sensor itself.
        for message in (robot.odometry(5, there["a"], "odom", ""), robot.posed(5, there["a"], "odom")):
            tree = transforms.Tree()
            add(message)
            self.assertEqual(
                transforms.at(tree.chain("lidar", None, False), 5), transforms.at(tree.chain("", None, True), 5)
            )
            np.testing.assert_allclose(matrix(transforms.at(tree.chain("lidar", None, False), 5)), matrix(there["a"]))


class Bags(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.daemon = cls.enterClassContext(Daemon(*models.served(cls.folder / "models")))
        cls.server = ("--server", url_of(cls.daemon))
        cls.client = cls.enterClassContext(voxeld.Client(url_of(cls.daemon)))
        cls.robot, cls.old = Robot(), Robot(ros1=True)
        cls.robot.write(cls.folder / "two", drive(cls.robot))
        cls.robot.write(cls.folder / "many", drive(cls.robot), "mcap")
        cls.old.write(cls.folder / "drive.bag", drive(cls.old))
        shutil.copy(cls.folder / "many" / "many.mcap", cls.folder / "drive.mcap")
        shutil.copy(cls.folder / "two" / "two.db3", cls.folder / "drive.db3")

    def setUp(self):
        self.output = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(dir=self.folder)))

    def run_here(self, *arguments):
        return run(*arguments, *self.server, cwd=self.folder)

    def voxelize(self, *arguments):
        return self.run_here("voxelize", *OPTIONS, *arguments)

    def check_done(self, ended, done, skipped=0, failed=0):
        self.assertEqual(ended.counts, {"done": done, "skipped": skipped, "failed": failed}, ended)
        self.assertEqual(ended.status, 1 if failed else 0, ended)

    def check_refused(self, reason, *arguments):
        ended = self.voxelize(*arguments)
        self.assertEqual(ended.status, 2, ended)
        self.assertIn(reason, ended.errors)

    def recorded(self, path):
        """Topic, channel, schema, times and message of each message in an MCAP file."""
        with open(path, "rb") as file:
            reader = make_reader(file, decoder_factories=[DecoderFactory()], validate_crcs=True)
            self.assertEqual(reader.get_header().profile, "ros2")
            self.assertIsNotNone(reader.get_summary())
            return list(reader.iter_decoded_messages())

    # --- points ---

    def test_every_kind_of_bag_and_of_message(self):
        wanted = []
        for number in range(SWEEPS):
            points = timed(number)
            plain = np.stack([points[name].astype("<f4") for name in ("x", "y", "z", "intensity")], axis=-1)
            other = livox(400, number)
            wanted.append({"/lidar_top": plain, "/packed": plain})
            wanted[-1]["/livox"] = np.stack([other[name].astype("<f4") for name in ("x", "y", "z", "reflectivity")], -1)
        old = [m for m in drive(self.old) if m[0] in wanted[0]]
        write_ros1_mcap(self.output / "old.mcap", self.old, old)
        for bag in ("drive.mcap", "many", "two", "drive.db3", "drive.bag", self.output / "old.mcap"):
            for topic in wanted[0]:
                output = self.output / f"{pathlib.Path(bag).name}_" / topic[1:]
                self.check_done(self.voxelize(bag, "--topic", topic, "-o", output), SWEEPS)
                for number, points in enumerate(wanted):
                    file = output / pathlib.Path(bag).stem / f"1700000000.{stamp(number) % 10**9:09d}.safetensors"
                    got = parse_by_hand(file.read_bytes())[0]
                    self.assertEqual(same_tensors(dict(self.client.voxelize(points[topic], **GRID)), got), [], file)

    def test_boxes_are_printed(self):
        clouds = [scan(2000, seed) for seed in (1, 2)]
        row = np.dtype([(name, "<f4") for name in ("x", "y", "z", "intensity")])
        messages = [
            ("/points", stamp(n), self.robot.cloud(cloud.astype("<f4").view(row)[:, 0], stamp(n)))
            for n, cloud in enumerate(clouds)
        ]
        self.robot.write(self.output / "street", messages)
        street = self.output / "street"
        done = self.run_here("detect", street, "--model", MODEL, "--json")
        self.assertEqual(done.status, 0, done)
        found = [json.loads(line) for line in done.output.splitlines()]
        self.assertEqual(
            [(line["scan"], line["stamp_ns"]) for line in found], [(str(street), stamp(n)) for n in (0, 1)]
        )
        results = [self.client.detect(cloud, MODEL) for cloud in clouds]
        self.assertTrue(all(len(result["boxes"]) for result in results))
        for line, result in zip(found, results):
            self.assertEqual([box["score"] for box in line["boxes"]], [float(str(s)) for s in result["scores"]])
        table = self.run_here("detect", street, "--model", MODEL)
        self.assertIn(f"{street} 1700000000.035000000: {len(results[0]['boxes'])} boxes in", table.output)

        file = self.output / "boxes.mcap"
        self.check_done(self.run_here("detect", street, "--model", MODEL, "-o", file), 2)
        messages = self.recorded(file)
        self.assertEqual(len(messages), 2)
        for (schema, channel, message, decoded), number, result in zip(messages, (0, 1), results):
            self.assertEqual((schema.name, schema.encoding), (DETECTIONS, "ros2msg"))
            self.assertEqual((channel.topic, channel.id, channel.message_encoding), ("/boxes", 1, "cdr"))
            self.assertEqual((message.log_time, message.sequence), (stamp(number), number + 1))
            self.assertEqual((decoded.header.frame_id, decoded.header.stamp.nanosec), ("lidar", stamp(number) % 10**9))
            centres = [found.bbox.center.position for found in decoded.detections]
            self.assertEqual([[c.x, c.y, c.z] for c in centres], result["boxes"][:, :3].tolist())
            scores = [found.results[0].hypothesis.score for found in decoded.detections]
            self.assertEqual(scores, result["scores"].tolist())

    def test_tracks_are_the_ids_of_boxes(self):
        """The vehicle stands, and sees the same points three times."""
        row = np.dtype([(name, "<f4") for name in ("x", "y", "z", "intensity")])
        points = scan(2000).astype("<f4").view(row)[:, 0]
        stands = [("/odom", BEGIN + n * PERIOD, self.robot.odometry(BEGIN + n * PERIOD, pose(BEGIN))) for n in range(9)]
        clouds = [("/points", stamp(n), self.robot.cloud(points, stamp(n))) for n in range(3)]
        street, file = self.output / "street", self.output / "boxes.mcap"
        self.robot.write(street, sorted(stands + clouds, key=lambda told: told[1]))
        asked = ("--stream", "s", "--sweeps", 1, "--pose", "/odom", "--mount", text(MOUNT), "--track", "yes")
        self.check_done(self.run_here("detect", street, "--model", MODEL, *asked, "-o", file), 3)
        ids = [[found.id for found in decoded.detections] for *_, decoded in self.recorded(file)]
        self.assertGreater(len(ids[0]), 3)
        self.assertEqual(ids, [[str(1 + number) for number in range(len(ids[0]))]] * 3)

    # --- MCAP ---

    def test_points_as_mcap(self):
        file = self.output / "voxels.mcap"
        asked = ("drive.mcap", "--topic", "/lidar_top", "--feature", "mean", "--fps", "8", "-o", file)
        self.check_done(self.voxelize(*asked), SWEEPS)
        messages = self.recorded(file)
        self.assertEqual({channel.id for _, channel, _, _ in messages}, {1, 2})
        for topic in ("/voxels", "/samples"):
            found = [(m, d) for schema, c, m, d in messages if c.topic == topic and schema.name == POINT_CLOUD]
            self.assertEqual([m.log_time for m, _ in found], [stamp(number) for number in range(SWEEPS)])
        for number, cloud in enumerate(d for _, c, _, d in messages if c.topic == "/voxels"):
            self.assertEqual((cloud.header.stamp.nanosec, cloud.header.frame_id), (stamp(number) % 10**9, "lidar"))
            points = np.stack([timed(number)[name].astype("<f4") for name in ("x", "y", "z", "intensity")], axis=-1)
            means = self.client.voxelize(points, feature="mean", **GRID)["voxel_features"]
            got = np.frombuffer(cloud.data, "<f4").reshape(cloud.width, -1)[:, :4]
            np.testing.assert_array_equal(got, means)
        self.check_done(self.voxelize(*asked), 0, skipped=SWEEPS)
        first = file.read_bytes()
        self.check_done(self.voxelize(*asked, "--force"), SWEEPS)
        self.assertEqual(file.read_bytes(), first)  # in the order of the scans, whichever job is first
        self.check_refused("answers of other parameters", *asked, "--max-points-per-voxel", "3")
        self.assertEqual(file.read_bytes(), first)
        self.assertEqual([path.name for path in self.output.iterdir()], ["voxels.mcap"])

    def test_definitions(self):
        """The definitions in a file are those of ROS."""
        for kind in (POINT_CLOUD, DETECTIONS):
            found = get_types_from_msg(recording.definition(kind), kind)
            self.assertIn(kind, found)
            for name, (_, fields) in found.items():
                self.assertEqual(fields, self.robot.store.get_msgdef(name).fields, name)

    def test_folders_are_resumed(self):
        asked = ("two", "--topic", "/packed", "-o", self.output)
        self.check_done(self.voxelize(*asked), SWEEPS)
        answers = sorted((self.output / "two").iterdir())
        answers[2].unlink()
        self.check_done(self.voxelize(*asked), 1, skipped=SWEEPS - 1)
        self.assertEqual(sorted((self.output / "two").iterdir()), answers)
        self.check_refused("answers of other parameters", "two", "--topic", "/livox", "-o", self.output)

    def test_bags_are_one_drive_by_their_times(self):
        later = [(topic, time + 10**10, message) for topic, time, message in drive(self.robot, 2)]
        self.robot.write(self.output / "a_later", later)
        file = self.output / "both.mcap"
        self.check_done(self.voxelize(self.output / "a_later", "two", "--topic", "/livox", "-o", file), SWEEPS + 2)
        found = [(message.sequence, message.log_time) for _, _, message, _ in self.recorded(file)]
        times = [*map(stamp, range(SWEEPS)), *(stamp(number) + 10**10 for number in range(2))]
        self.assertEqual(found, [*enumerate(times, 1)])

    def test_an_interrupted_run_goes_on(self):
        file, asked = self.output / "voxels.mcap", ("drive.mcap", "--topic", "/lidar_top", "-o")
        self.check_done(self.voxelize(*asked, self.output / "whole.mcap"), SWEEPS)
        whole = (self.output / "whole.mcap").read_bytes()
        part = self.output / ".voxels.mcap.part"
        for length in (len(whole), len(whole) // 2, 300, 0):  # the run was killed: only the first chunks are there
            file.unlink(missing_ok=True)
            part.write_bytes(whole[:length])
            ended = self.voxelize(*asked, file)
            skipped = SWEEPS - 1 if length == len(whole) else 0  # these files have a single chunk
            self.check_done(ended, SWEEPS - skipped, skipped=skipped)
            self.assertEqual([m.sequence for _, _, m, _ in self.recorded(file)], [*range(1, SWEEPS + 1)])
            self.assertFalse(part.exists())

    def test_a_signal_leaves_what_is_done(self):
        file = self.output / "voxels.mcap"
        slow = Daemon("--workers", "1")
        self.addCleanup(slow.stop)
        points = rows(200_000)
        robot, count = self.robot, 60
        cloud = robot.cloud(points, 0)
        messages = [("/points", stamp(number), cloud) for number in range(count)]
        robot.write(self.output / "long", messages)
        asked = ("voxelize", *OPTIONS, self.output / "long", "-o", file, "-j", 1, "--server", url_of(slow))
        part = self.output / ".voxels.mcap.part"
        with Running(*asked) as running:
            wait_until(part.exists, "a first answer")
            ended = running.end(signal.SIGINT)
        self.assertEqual(ended.status, 130, ended)
        self.assertIn("the same command goes on from here", ended.errors)
        done = ended.counts["done"]
        self.assertLess(done, count)
        self.assertFalse(file.exists())
        again = run(*asked)
        kept = max(0, done - 1)  # the last answer is made again
        self.check_done(again, count - kept, skipped=kept)
        self.assertEqual([m.sequence for _, _, m, _ in self.recorded(file)], [*range(1, count + 1)])

    def test_what_failed_is_tried_again(self):
        broken = self.robot.cloud(timed(1), stamp(1))
        broken.point_step = 5  # fewer bytes than the fields need
        clouds = [self.robot.cloud(timed(0), stamp(0)), broken, self.robot.cloud(timed(2), stamp(2))]
        self.robot.write(self.output / "b", [("/points", stamp(n), cloud) for n, cloud in enumerate(clouds)], "mcap")
        file = self.output / "out.mcap"
        for again in (False, True):
            ended = self.voxelize(self.output / "b", "-o", file)
            self.check_done(ended, 0 if again else 2, skipped=2 if again else 0, failed=1)
            self.assertIn(f"failed {self.output / 'b'} 1700000000.135000000: 400 bad-body", ended.errors)
            self.assertEqual([m.sequence for _, _, m, _ in self.recorded(file)], [1, 3])

    def test_a_bag_that_was_cut_off(self):
        bag = self.output / "cut.mcap"
        rechunk(self.folder / "drive.mcap", self.output / "chunks.mcap", 20_000)
        whole = (self.output / "chunks.mcap").read_bytes()
        bag.write_bytes(whole[: len(whole) * 3 // 4])
        ended = self.voxelize(bag, "--topic", "/lidar_top", "-o", self.output / "out")
        done = ended.counts["done"]
        self.assertTrue(0 < done < SWEEPS, ended)
        self.assertEqual((ended.status, ended.counts["failed"]), (1, 1), ended)
        self.assertIn(f"failed {bag}: the messages after number {done} cannot be read", ended.errors)
        self.check_done(
            self.voxelize(self.output / "chunks.mcap", "--topic", "/lidar_top", "-o", self.output / "b"), SWEEPS
        )
        bag.write_bytes(whole[:100])
        self.check_refused(f"cannot read {bag}: ", bag, "-o", self.output / "out")
        bag.write_bytes(b"")
        self.check_refused(f"cannot read {bag}: ", bag, "-o", self.output / "out")

    def test_progress(self):
        """A terminal shows the messages, and the place in the bag."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", 24, 120, 0, 0))
        command = [*PROGRAM, "voxelize", *OPTIONS, "two", "--topic", "/livox", "-o", self.output, *self.server]
        with subprocess.Popen(list(map(str, command)), env=ENVIRONMENT, cwd=self.folder, stderr=theirs) as process:
            os.close(theirs)
            shown = b""
            with contextlib.suppress(OSError):  # EIO: the program has ended
                while more := os.read(ours, 4096):
                    shown += more
            os.close(ours)
        self.assertEqual(process.returncode, 0, shown)
        self.assertRegex(shown.decode(), r"\r0\.5 of 0\.8 s: 100%.* 6/6 \[.* messages/s\]")

    # --- poses ---

    def joined(self, poses, deskew=None):
        """The answers to a stream's sweeps with these poses."""
        for number in range(SWEEPS):
            points = timed(number)
            columns = np.stack([points[name].astype("<f4") for name in ("x", "y", "z", "intensity")], axis=-1)
            told = {"stream": "by_hand", "sweeps": 3, "time": stamp(number) / 1e9, "pose": poses[number], **GRID}
            yield self.client.points(columns, **{k: v for k, v in told.items() if k not in GRID})
        self.client.stream("by_hand", 1).delete()

    def test_poses_of_a_stream(self):
        """The poses are interpolated: from odometry with a static transform to the lidar or a mount, or from /tf."""
        places = [matrix(pose(stamp(number))) for number in range(SWEEPS)]
        lidar = [place @ matrix(MOUNT) for place in places]
        mount = ("--mount", text(MOUNT))
        for bag, asked, wanted in (
            ("drive.mcap", ("--pose", "/odom"), lidar),
            ("drive.mcap", ("--pose", "/tf"), lidar),
            ("drive.mcap", ("--pose", "/tf", "--fixed-frame", "odom"), lidar),
            ("drive.mcap", ("--pose", "/odom", *mount), lidar),
            ("drive.mcap", ("--pose", "/tf", "--fixed-frame", "base_link"), [matrix(MOUNT)] * SWEEPS),
            ("drive.bag", ("--pose", "/odom"), lidar),
            ("drive.bag", ("--pose", "/tf"), lidar),
            ("two", ("--pose", "/tf"), lidar),
        ):
            output = self.output / f"{len(list(self.output.iterdir()))}"
            told = ("--topic", "/lidar_top", *asked, "--stream", "s", "--sweeps", 3, "-o", output)
            ended = self.run_here("points", bag, *told)
            self.check_done(ended, SWEEPS)
            for number, result in enumerate(self.joined(wanted)):
                file = output / pathlib.Path(bag).stem / f"1700000000.{stamp(number) % 10**9:09d}.safetensors"
                tensors, metadata = parse_by_hand(file.read_bytes())
                np.testing.assert_allclose(tensors["points"], result["points"], atol=2e-5, err_msg=f"{asked} {number}")
                self.assertAlmostEqual(metadata["stream"]["time"], stamp(number) / 1e9, delta=1e-6)

    def test_poses_to_deskew(self):
        told = ("--time-field", "t", "--fields", "x,y,z,intensity", "--deskew", "poses")
        asked = ("points", "drive.mcap", "--topic", "/lidar_top", *told, "--pose", "/odom")
        self.check_done(self.run_here(*asked, "--interpolation", "slerp", "-o", self.output / "slerp"), SWEEPS)
        self.check_done(self.run_here(*asked, "-o", self.output), SWEEPS)
        for number in range(SWEEPS):
            points, now = timed(number), stamp(number)
            then = np.linalg.inv(matrix(pose(now)) @ matrix(MOUNT))
            file = self.output / "drive" / f"1700000000.{now % 10**9:09d}.safetensors"
            got, metadata = parse_by_hand(file.read_bytes())
            moved = []
            for point in points:
                at = matrix(pose(now + int(point["t"] * 1e9))) @ matrix(MOUNT)
                moved.append((then @ at @ (point["x"], point["y"], point["z"], 1))[:3])
            np.testing.assert_allclose(got["points"][:, :3], moved, atol=2e-3, err_msg=str(number))
            self.assertGreater(np.abs(np.array(moved)[:, 0] - points["x"]).max(), 0.1)  # else this test tests nothing

    def test_times_without_poses(self):
        robot, sweeps = self.robot, [stamp(0), stamp(1), stamp(30)]
        messages = [("/odom", time, robot.odometry(time, pose(time))) for time in (stamp(0), stamp(4), stamp(29))]
        messages += [("/points", time, robot.cloud(timed(0), time, "base_link")) for time in sweeps]
        robot.write(self.output / "b", sorted(messages, key=lambda message: message[1]))
        asked = ("--stream", "s", "--sweeps", 2, "--pose", "/odom", "-o", self.output / "out")
        ended = self.voxelize(self.output / "b", *asked)
        self.check_done(ended, 2, failed=1)  # scan 0 has a pose; scan 1 lies between poses 0.4 s apart
        self.assertIn("1700000003.035000000: poses are known from 1700000000.035 to 1700000002.935", ended.errors)
        messages.append(("/points", stamp(15), robot.cloud(timed(0), stamp(15), "base_link")))
        robot.write(self.output / "c", sorted(messages, key=lambda message: message[1]))
        ended = self.voxelize(self.output / "c", *asked, "--force")
        self.check_done(ended, 2, failed=2)
        self.assertIn("1700000001.535000000: there is no pose for 2.500 s around 1700000001.535", ended.errors)

    # --- refusals ---

    def test_wrong_usage(self):
        out = ("-o", self.output / "out")
        topic, stream = ("--topic", "/livox"), ("--stream", "s")
        mount, mcap = ("--mount", text(MOUNT)), ("-o", self.output / "a.mcap")
        folder = self.output / "folder.mcap"
        folder.mkdir()
        for reason, *asked in (
            ("two: several topics have points; choose one with --topic: /", "two", *out),
            ("two: no points in /odom; they are in /", "two", "--topic", "/odom", *out),
            ("two: no poses in /livox; they are in /odom, /tf, ", "two", *topic, *stream, "--pose", "/livox", *out),
            ("--pose TOPIC needs --stream, or --deskew poses", "two", *topic, "--pose", "/odom", *out),
            ("--pose of a bag is the name of a topic", "two", *topic, "--pose", "0,0,0,1,0,0,0", "--stream", "s", *out),
            ("max_voxels is '0'", "two", *topic, "--max-voxels", "0", *out),
            ("--fixed-frame needs --pose TOPIC", "two", *topic, "--fixed-frame", "map", *out),
            ("the poses of the sensor itself", "two", *topic, "--pose", "/tf", *stream, *mount, *out),
            ("--format is for files", "two", *topic, "--format", "pcd", *out),
            ("--poses is for files; --pose names a topic", "two", *topic, "--poses", "p.txt", "--stream", "s", *out),
            ("is not a file", "two", *topic, "-o", folder),
            ("outputs needs a folder as --output", "two", *topic, "--outputs", "voxel_coords", *mcap),
            ("is not a bag, but others of the scans are", "two", "drive.txt", *topic, *out),
            ("there is no missing.bag", "missing.bag", *topic, *out),
            ("--topic needs a bag: .mcap, .db3, .bag, a folder of rosbag2", "x.bin", *topic, *out),
        ):  # fmt: skip
            self.check_refused(reason, *asked)
        ended = self.run_here("backbone", "two", *topic, "--model", MODEL, *mcap)
        self.assertEqual(ended.status, 2, ended)
        self.assertIn("ROS has no message for the answers of backbone", ended.errors)
        self.robot.write(self.output / "none", [("/odom", BEGIN, self.robot.odometry(BEGIN, pose(BEGIN)))])
        self.check_refused("none: no topic of sensor_msgs/msg/PointCloud2", self.output / "none", *out)
        ended = self.voxelize("two", *topic, "--pose", "/tf", "--fixed-frame", "map", "--stream", "s", *out)
        self.check_done(ended, 0, failed=SWEEPS)
        self.assertIn("no transforms lead from lidar to map", ended.errors)

    def test_same_stamps(self):
        cloud = self.robot.cloud(timed(0), BEGIN)
        self.robot.write(self.output / "b", [("/points", BEGIN + number, cloud) for number in range(3)])
        ended = self.voxelize(self.output / "b", "-o", self.output / "out")
        self.check_done(ended, 1, failed=2)
        reason = (
            f"failed {self.output / 'b'}, message 3: its stamp, 1700000000.000000000, is that of an earlier message"
        )
        self.assertIn(reason, ended.errors)
        self.check_done(self.voxelize(self.output / "b", "-o", self.output / "out.mcap"), 3)

    def test_packages_that_are_missing(self):
        for bag, package in (("drive.mcap", "mcap"), ("two", "rosbags"), ("drive.bag", "rosbags")):
            without = (
                "import sys; sys.modules[sys.argv.pop(1)] = None; from voxeld.cli.main import main; sys.exit(main())"
            )
            ended = self.run_program(without, package, "voxelize", *OPTIONS, bag, "-o", self.output, *self.server)
            self.assertEqual(ended.returncode, 2, ended)
            reason = f"{bag} is a bag, which needs the package {package}: pip install 'voxeld[bags]'"
            self.assertIn(reason, ended.stderr)

    def run_program(self, program, *arguments):
        command = [sys.executable, "-c", program, *map(str, arguments)]
        return subprocess.run(command, env=ENVIRONMENT, cwd=self.folder, text=True, capture_output=True)


if __name__ == "__main__":
    unittest.main()
