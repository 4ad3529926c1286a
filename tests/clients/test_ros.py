"""ROS messages as bodies and as answers, compared with what rosbags serializes and reads."""

import importlib.util
import math
import sys
import unittest
import zlib

import numpy as np

import voxeld
from daemon import Daemon
from rude_server import GRID, url_of
from voxeld import ros

if not importlib.util.find_spec("rosbags"):
    print("skipped: there is no rosbags here")
    sys.exit(77)

from bags import COMPRESSED, DETECTIONS, LIVOX, LIVOX_POINT, POINT_CLOUD, Robot

STAMP = 1_700_000_000_123_456_789
ROWS = np.dtype([("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("intensity", "<f4"), ("ring", "<u2"), ("t", "<f8")])


def rows(count=500, seed=1):
    random = np.random.default_rng(seed)
    points = np.zeros(count, ROWS)
    for name in ROWS.names:
        points[name] = random.uniform(0, 9, count)
    return points


def livox(count=500, seed=1):
    points = np.zeros(count, LIVOX_POINT)
    for number, name in enumerate("xyz"):
        points[name] = rows(count, seed + number)["x"]
    points["reflectivity"], points["tag"] = np.arange(count) % 251, 3
    points["offset_time"] = np.arange(count) * 200_000
    return points


class Messages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.robot, cls.old = Robot(), Robot(ros1=True)
        cls.daemon = cls.enterClassContext(Daemon())
        cls.client = cls.enterClassContext(voxeld.Client(url_of(cls.daemon)))

    def points_of(self, cloud, **parameters):
        return self.client.points(cloud.body, format=cloud.format, **parameters)["points"]

    def cloud_of(self, robot, message):
        kind = message.__msgtype__
        return ros.cloud_of(kind.replace("/msg/", "/") if robot.ros1 else kind, robot.bytes_of(message), robot.ros1)

    def test_clouds_of_both_versions(self):
        points, wanted = rows(), np.stack([rows()[name].astype("<f4") for name in ROWS.names], axis=-1)
        for robot in (self.robot, self.old):
            for compress in (None, ("zlib", zlib.compress)):
                for frame in ("", "lidar", "lidar_top"):  # of several lengths, so with several paddings
                    message = robot.cloud(points, STAMP, frame, compress)
                    cloud = self.cloud_of(robot, message)
                    self.assertEqual(cloud.header, (STAMP, frame))
                    self.assertEqual(cloud.format, "compressedpointcloud2" if compress else "pointcloud2")
                    np.testing.assert_array_equal(self.points_of(cloud, fields=list(ROWS.names)), wanted)
                    again = self.robot.cloud(points, STAMP, frame, compress)
                    self.assertEqual(cloud.body, self.robot.bytes_of(again))

    def test_livox(self):
        for robot in (self.robot, self.old):
            for count in (500, 1, 0):
                points = livox(count)
                cloud = self.cloud_of(robot, robot.livox(points, STAMP, "livox_frame"))
                self.assertEqual((cloud.header, cloud.format), ((STAMP, "livox_frame"), "pointcloud2"))
                message = self.robot.read(cloud.body, POINT_CLOUD)
                self.assertEqual((message.width, message.height, message.is_dense), (count, 1, True))
                got = self.points_of(cloud, fields=["x", "y", "z", "intensity", "tag", "line"])
                for number, name in enumerate(("x", "y", "z", "reflectivity", "tag", "line")):
                    np.testing.assert_array_equal(got[:, number], points[name].astype("<f4"), name)
                if count > 1:
                    times = {"time_field": "offset_time", "time_unit": "ns", "time_origin": "first"}
                    got = self.points_of(cloud, fields=["x", "y", "z", "offset_time"], **times)
                    np.testing.assert_array_equal(got[:, 3], (points["offset_time"] * 1e-9).astype("<f4"))

    def test_malformed_messages(self):
        for robot in (self.robot, self.old):
            for message in (robot.livox(livox(3), STAMP), *([robot.cloud(rows(3), STAMP)] if robot.ros1 else [])):
                whole = robot.bytes_of(message)
                for length in range(len(whole)):
                    with self.assertRaises(ValueError, msg=length):
                        ros.cloud_of(message.__msgtype__, whole[:length], robot.ros1)
        with self.assertRaisesRegex(ValueError, "plain CDR"):
            ros.cloud_of(LIVOX, b"\0\2\0\0" + bytes(40))
        with self.assertRaisesRegex(ValueError, "std_msgs/msg/String has no points"):
            ros.cloud_of("std_msgs/String", b"")
        self.assertTrue(ros.is_cloud("sensor_msgs/PointCloud2") and ros.is_cloud(COMPRESSED))
        self.assertFalse(ros.is_cloud("sensor_msgs/msg/Image"))

    def test_detections(self):
        random = np.random.default_rng(3)
        for columns in (7, 9):
            boxes = random.uniform(-3, 3, (4, columns)).astype(np.float32)
            tensors = {
                "boxes": boxes,
                "scores": np.float32([0.9, 0.8, 0.7, 0.6]),
                "labels": np.int32([0, 1, 2, 0]),
            }
            for frame in ("", "lidar", "base_link"):
                result = voxeld.DetectResult(tensors, {"class_names": ["Car", "Cyclist"]})
                message = self.robot.read(ros.detections(result, ros.Header(STAMP, frame)), DETECTIONS)
                headers = [message.header, *(found.header for found in message.detections)]
                for header in headers:
                    self.assertEqual((header.stamp.sec, header.stamp.nanosec), divmod(STAMP, 10**9))
                    self.assertEqual(header.frame_id, frame)
                classes = [found.results[0].hypothesis.class_id for found in message.detections]
                self.assertEqual(classes, ["Car", "Cyclist", "2", "Car"])
                for box, score, found in zip(boxes, tensors["scores"], message.detections):
                    centre, size = found.bbox.center, found.bbox.size
                    place = centre.position
                    self.assertEqual([place.x, place.y, place.z, size.x, size.y, size.z], box[:6].tolist())
                    turn = centre.orientation
                    self.assertEqual((turn.x, turn.y), (0, 0))
                    heading = 2 * math.atan2(turn.z, turn.w)
                    self.assertAlmostEqual(math.remainder(heading - float(box[6]), math.tau), 0, places=12)
                    self.assertEqual(found.results[0].hypothesis.score, float(score))
                    self.assertEqual(found.results[0].pose.pose, centre)
        self.assertEqual([found.id for found in message.detections], [""] * 4)
        tracked = voxeld.DetectResult({**tensors, "track_ids": np.int64([7, 1 << 40, 3, 12])}, {})
        message = self.robot.read(ros.detections(tracked, ros.Header(STAMP, "lidar")), DETECTIONS)
        self.assertEqual([found.id for found in message.detections], ["7", str(1 << 40), "3", "12"])
        with self.assertRaisesRegex(voxeld.BadAnswer, "not the same in number"):
            odd = voxeld.DetectResult({**tensors, "track_ids": np.int64([7])}, {})
            ros.detections(odd, ros.Header(STAMP, "lidar"))
        empty = voxeld.DetectResult({name: tensor[:0] for name, tensor in tensors.items()}, {})
        self.assertEqual(self.robot.read(ros.detections(empty, ros.Header(0, "a")), DETECTIONS).detections, [])

    def test_clouds_of_answers(self):
        cloud = self.cloud_of(self.robot, self.robot.cloud(rows(), STAMP))
        told = {"format": cloud.format, "fields": ["x", "y", "z", "intensity"], "feature": "mean", **GRID}
        file = self.client.file_bytes("voxelize", cloud.body, ros.MCAP, **told, fps=8)
        result = self.client.voxelize(cloud.body, **told, fps=8)
        for frame in ("", "l", "lidar", "velodyne"):
            found = ros.clouds(file, ros.Header(STAMP, frame))
            self.assertEqual(sorted(found), ["/samples", "/voxels"])
            message = self.robot.read(found["/voxels"], POINT_CLOUD)
            self.assertEqual((message.header.stamp.sec, message.header.stamp.nanosec), divmod(STAMP, 10**9))
            self.assertEqual((message.header.frame_id, message.width), (frame, len(result["voxel_coords"])))
            self.assertEqual([field.name for field in message.fields], ["x", "y", "z", "intensity", "count"])
            values = message.data.view("<f4").reshape(message.width, -1)[:, :4]
            np.testing.assert_array_equal(values, result["voxel_features"])
        for length in (0, 5, len(file) // 2, len(file) - 1):
            with self.assertRaises(voxeld.BadAnswer):
                ros.clouds(file[:length], ros.Header(0, ""))


if __name__ == "__main__":
    unittest.main()
