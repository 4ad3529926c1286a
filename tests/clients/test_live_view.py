"""voxeld-client live --view: what Foxglove and Rerun get, read by their own protocols."""

import base64
import importlib.util
import json
import signal
import struct
import subprocess
import sys
import threading
import unittest
from unittest import mock

import numpy as np

import files
import voxeld
from daemon import PATIENCE, started, wait_until
from test_live import VOXELIZE, LiveCase, message
from test_python_detect import scan
from voxeld import ros
from voxeld.cli import live, live_view
from zenoh_robot import ZenohRobot, free_port

try:
    import websocket
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message_factory import GetMessageClass
except ImportError:
    websocket = None  # requirements.txt installs the packages only for some versions of Python


class FoxgloveReader:
    """A client of Foxglove's WebSocket protocol. Decodes the newest message of each topic by its schema."""

    def __init__(self, port):
        self._socket = websocket.create_connection(
            f"ws://127.0.0.1:{port}", PATIENCE, subprotocols=["foxglove.sdk.v1"], suppress_origin=True
        )
        self._types, self._messages = {}, {}
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def messages(self):
        """(time, message) by topic."""
        return dict(self._messages)

    def _read(self):
        while True:
            try:
                code, data = self._socket.recv_data()
            except (OSError, websocket.WebSocketException):
                return
            if code == websocket.ABNF.OPCODE_BINARY and data[0] == 1:
                channel, at = struct.unpack_from("<IQ", data, 1)
                topic, kind = self._types[channel]
                self._messages[topic] = at, kind.FromString(data[13:])
            elif code == websocket.ABNF.OPCODE_TEXT:
                self._subscribe(json.loads(data))

    def _subscribe(self, told):
        for channel in told.get("channels", ()):
            pool = DescriptorPool()
            for file in FileDescriptorSet.FromString(base64.b64decode(channel["schema"])).file:
                pool.Add(file)
            kind = GetMessageClass(pool.FindMessageTypeByName(channel["schemaName"]))
            self._types[channel["id"]] = channel["topic"], kind
            ask = {"op": "subscribe", "subscriptions": [{"id": channel["id"], "channelId": channel["id"]}]}
            self._socket.send(json.dumps(ask))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._socket.close()
        self._thread.join(PATIENCE)


class Rows(unittest.TestCase):
    def test_rows_of_messages_as_others_write_them(self):
        points = np.zeros(6, [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("ring", "<u2"), ("time", "<f8")])
        for number, name in enumerate(points.dtype.names):
            points[name] = np.arange(6) + 10 * number
        for told in ({"height": 2, "padding": 3}, {"big_header": True}, {}):
            rows = live_view.rows_of(files.pointcloud2(points, **told))
            self.assertEqual((rows.dtype, rows.tolist()), (points.dtype, points.tolist()), told)
        big = points.astype(points.dtype.newbyteorder(">"))
        rows = live_view.rows_of(files.pointcloud2(big.view(points.dtype), big_points=1))
        self.assertEqual((rows.dtype, rows.tolist()), (points.dtype, points.tolist()))

    def test_a_message_that_is_cut(self):
        whole = message()
        for content in (whole[:-200], whole[:30], files.pointcloud2(np.zeros(2, [("x", "<f4")]), datatype=9)):
            with self.assertRaises(ValueError):
                live_view.rows_of(content)

    def test_numbers_that_do_not_fit_the_data(self):
        """Unchecked, numpy would read past the message, or take gigabytes."""
        whole = message(1, 300)
        for place, number in (
            (whole.index(b"\x02\0\0\0x\0") + 8, 0x7FFFFFFF),  # the offset of x
            (whole.index(b"\x02\0\0\0x\0") + 8, 13),
            (whole.index(struct.pack("<II", 1, 300)), 1 << 31),  # the height
            (whole.index(struct.pack("<II", 1, 300)) + 4, 301),  # the width
            (whole.index(struct.pack("<II", 16, 4800)), 1 << 31),  # the step of points
        ):
            wrong = whole[:place] + struct.pack("<I", number) + whole[place + 4 :]
            with self.assertRaises(ValueError, msg=(place, number)):
                live_view.rows_of(wrong)


class Texts(unittest.TestCase):
    def test_a_box_has_its_class_its_score_and_its_track(self):
        tensors = {"boxes": np.zeros((2, 7), "<f4"), "labels": np.int32([0, 1]), "scores": np.float32([0.9, 0.5])}
        told = {"class_names": ["Car", "Bus"]}
        self.assertEqual(live_view.labels_of(voxeld.Result(tensors, told)), ["Car 0.90", "Bus 0.50"])
        tensors["track_ids"] = np.int64([12, 3])
        self.assertEqual(live_view.labels_of(voxeld.Result(tensors, told)), ["Car 0.90 #12", "Bus 0.50 #3"])


class Viewers(LiveCase):
    @unittest.skipUnless(websocket and importlib.util.find_spec("foxglove"), "there is no foxglove-sdk here")
    def test_foxglove_shows_points_and_boxes(self):
        port = free_port()
        with ZenohRobot() as robot, self.detecting(robot, "--view", f"foxglove:{port}") as running:
            while f"foxglove finds the answers at ws://127.0.0.1:{port}" not in running.process.stderr.readline():
                pass
            with FoxgloveReader(port) as reader:
                robot.wait_for_subscription()
                robot.publish_until(lambda: message(8, 2500), lambda: len(reader.messages()) == 2, "both topics")
            points, boxes = (reader.messages()[name] for name in ("/points", "/boxes"))
        self.assertEqual((points[0], points[1].frame_id, points[1].timestamp.seconds), (8 * 10**9, "lidar", 8))
        self.assertEqual([field.name for field in points[1].fields], ["x", "y", "z", "intensity"])
        self.assertEqual(points[1].data, scan(2500, 8).tobytes())
        self.assertEqual(points[1].point_stride, 16)
        (entity,) = boxes[1].entities
        result = self.expected(8, 2500)
        self.assertEqual((boxes[0], entity.timestamp.seconds), (8 * 10**9, 8))
        places = [(cube.pose.position, cube.size) for cube in entity.cubes]
        values = [[place.x, place.y, place.z, size.x, size.y, size.z] for place, size in places]
        np.testing.assert_array_equal(values, result["boxes"][:, :6])
        turns = [2 * np.arctan2(cube.pose.orientation.z, cube.pose.orientation.w) for cube in entity.cubes]
        np.testing.assert_allclose(np.sin((turns - result["boxes"][:, 6]) / 2), 0, atol=1e-6)
        self.assertEqual([text.text for text in entity.texts], live_view.labels_of(result))

    @unittest.skipUnless(importlib.util.find_spec("rerun"), "there is no rerun-sdk here")
    def test_rerun_shows_points_and_voxels(self):
        """Rerun's own program receives them."""
        port, file = free_port(), self.folder / "live.rrd"
        program = (sys.executable, "-m", "rerun")
        with ZenohRobot() as robot, self.live(robot, *VOXELIZE, "--view", f"rerun:{port}") as running:
            robot.publish_until(lambda: message(9), robot.answers, "an answer")
            receive = [*program, "--save", str(file), f"rerun+http://127.0.0.1:{port}/proxy"]
            with started(receive, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as reader:
                wait_until(lambda: file.exists() and file.stat().st_size > 1000, "what Rerun received")
                self.assertEqual(running.end(signal.SIGTERM).status, 0)
                reader.send_signal(signal.SIGINT)
                reader.wait(PATIENCE)
        shown = subprocess.run([*program, "rrd", "print", "-vv", file], capture_output=True, text=True).stdout
        for name in ("/points", "/answer"):
            self.assertRegex(shown, rf"(?s)entity_path: {name}\b|- {name} ", shown[-3000:])

    def test_rerun_gets_boxes(self):
        rerun, boxes = mock.Mock(), self.expected(10, 2500)
        with mock.patch.dict(sys.modules, rerun=rerun):
            viewer = live_view.Rerun(1234)
        rows = live_view.rows_of(message(10, 2500))
        viewer.show(live_view.Frame(ros.Header(10 * 10**9, "lidar"), rows, None, boxes))
        recording = rerun.RecordingStream.return_value
        self.assertEqual([call.args[0] for call in recording.log.call_args_list], ["points", "boxes"])
        np.testing.assert_array_equal(rerun.Points3D.call_args[0][0], scan(2500, 10)[:, :3])
        told = rerun.Boxes3D.call_args[1]
        np.testing.assert_array_equal(told["centers"], boxes["boxes"][:, :3])
        np.testing.assert_array_equal(2 * told["half_sizes"], boxes["boxes"][:, 3:6])
        turns = 2 * np.arctan2(told["quaternions"][:, 2], told["quaternions"][:, 3])
        np.testing.assert_allclose(np.sin((turns - boxes["boxes"][:, 6]) / 2), 0, atol=1e-6)
        self.assertEqual(recording.set_time.call_args[1], {"timestamp": np.datetime64(10 * 10**9, "ns")})

    def test_a_viewer_that_fails_delays_no_answer(self):
        said = []
        viewer = mock.Mock(url="nowhere", show=mock.Mock(side_effect=RuntimeError("closed")))
        with mock.patch.dict(live.VIEWERS, foxglove=lambda _: viewer):
            view = live.View("foxglove", 1, said.append)
            for _ in range(2):
                view.put(live.Answer(ros.Header(0, ""), message(), message(), None))
                shown = viewer.show.call_count
                wait_until(lambda: viewer.show.call_count > shown or viewer.show.call_count == 2, "the viewer")
            view.close()
        self.assertEqual(said, ["foxglove finds the answers at nowhere", "cannot show an answer: closed"])


if __name__ == "__main__":
    unittest.main()
