"""The examples for Rerun and ROS 2, with stand-ins that record what the examples show and publish."""

import importlib.util
import io
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

import numpy as np
from mcap.reader import make_reader
from mcap_ros2.decoder import DecoderFactory

import voxeld
from daemon import ROOT, Daemon
from rude_server import url_of

EXAMPLES = ROOT / "api" / "python" / "examples"
PRESET = "kitti_second"


def random_points():
    return np.random.default_rng(1).uniform((0, -40, -3, 0), (70, 40, 1, 1), (3000, 4)).astype("<f4")


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Viewers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--workers", "1")
        cls.url = url_of(cls.daemon)
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.points = random_points()
        cls.points.tofile(cls.folder / "scan.bin")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def voxels(self):
        with voxeld.Client(self.url) as client:
            return client.voxelize(self.points, PRESET)

    # ---- Rerun ----

    def test_rerun(self):
        rerun = mock.Mock()
        scan = str(self.folder / "scan.bin")
        with mock.patch.dict(sys.modules, rerun=rerun):
            with mock.patch.object(sys, "argv", ["rerun_voxels.py", "--save", "x.rrd", self.url, PRESET, scan, scan]):
                load("rerun_voxels").main()
        expected = self.voxels()
        self.assertEqual(rerun.VoxelGridMap.call_count, 2)
        (indices,), told = rerun.VoxelGridMap.call_args
        centres = (indices + 0.5) * told["voxel_size"] + told["translation"]
        offset = expected["voxel_features"][:, :3] - centres
        self.assertLess(np.abs(offset / told["voxel_size"]).max(), 0.51)
        np.testing.assert_array_equal(told["values"], expected["voxel_num_points"])
        np.testing.assert_array_equal(rerun.Points3D.call_args[0][0], self.points[:, :3])
        self.assertEqual([call.args[0] for call in rerun.log.call_args_list][:2], ["scan/points", "scan/voxels"])

    # ---- ROS 2 ----

    def serialized(self):
        """A file with a serialized PointCloud2."""
        with voxeld.Client(self.url) as client:
            self.assertTrue(client.ready())
        accept = {"Accept": "application/x-mcap"}
        reader = make_reader(io.BytesIO(self.daemon.post("/v1/transform", self.points.tobytes(), accept).body))
        ((schema, channel, message),) = reader.iter_messages()
        file = self.folder / "cloud.cdr"
        file.write_bytes(message.data)
        return file, DecoderFactory().decoder_for(channel.message_encoding, schema)

    def test_ros2(self):
        file, decode = self.serialized()
        cloud = decode(file.read_bytes())
        published, subscribed = [], []
        node = mock.Mock()
        node.declare_parameter = lambda name, value: types.SimpleNamespace(value=self.url if name == "url" else value)
        node.create_publisher.return_value.publish = published.append
        node.create_subscription = lambda kind, topic, callback, quality: subscribed.append(callback)
        rclpy = mock.Mock(spin=lambda _: subscribed[0](cloud), create_node=mock.Mock(return_value=node))
        messages = types.SimpleNamespace(PointCloud2=types.SimpleNamespace, PointField=types.SimpleNamespace)
        stubs = {"rclpy": rclpy, "rclpy.qos": mock.Mock(), "sensor_msgs": mock.Mock(), "sensor_msgs.msg": messages}
        example = load("ros2_voxels")
        with mock.patch.dict(sys.modules, stubs):
            example.main()
        (voxels,) = published
        expected = self.voxels()
        self.assertIs(voxels.header, cloud.header)
        names = [field.name for field in voxels.fields]
        self.assertEqual(names, ["x", "y", "z", "intensity", "count"])
        np.testing.assert_array_equal(example.points_of(voxels, names[:4]), expected["voxel_features"])
        np.testing.assert_array_equal(example.points_of(voxels, ["count"])[:, 0], expected["voxel_num_points"])
        self.assertEqual(len(voxels.data), voxels.row_step)

    def test_fields_at_odd_offsets_of_padded_rows(self):
        field = lambda name, offset, datatype: types.SimpleNamespace(name=name, offset=offset, datatype=datatype)
        row = np.dtype({"names": ["x", "t", "ring"], "formats": [">f4", ">f8", ">u2"], "offsets": [0, 5, 13]})
        rows = np.zeros((2, 3), row)
        rows["x"], rows["t"], rows["ring"] = 1.5, [[1, 2, 3], [4, 5, 6]], 65535
        data = b"".join(line.tobytes() + b"padding" for line in rows)
        cloud = types.SimpleNamespace(height=2, width=3, is_bigendian=True, point_step=15, row_step=52, data=data)
        cloud.fields = [field("x", 0, 7), field("t", 5, 8), field("ring", 13, 4)]
        points = load("ros2_voxels").points_of(cloud, ["t", "x", "ring"])
        self.assertEqual(points.dtype, np.float32)
        self.assertEqual(points.tolist(), [[t, 1.5, 65535] for t in range(1, 7)])


if __name__ == "__main__":
    unittest.main()
