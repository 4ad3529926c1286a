"""Makes ROS messages and writes bags of them, with the library rosbags. A pose is x, y, z, qw, qx, qy, qz."""

import numpy as np
from mcap.reader import make_reader
from mcap.writer import Writer
from rosbags.rosbag1 import Writer as Writer1
from rosbags.rosbag2 import StoragePlugin
from rosbags.rosbag2 import Writer as Writer2
from rosbags.typesys import Stores, get_types_from_msg, get_typestore

from files import ROS_TYPES

LIVOX_POINT = np.dtype(
    {
        "names": ["offset_time", "x", "y", "z", "reflectivity", "tag", "line"],
        "formats": ["<u4", "<f4", "<f4", "<f4", "u1", "u1", "u1"],
    }
)
POINT_CLOUD, ODOMETRY, TF = "sensor_msgs/msg/PointCloud2", "nav_msgs/msg/Odometry", "tf2_msgs/msg/TFMessage"
COMPRESSED, LIVOX = "point_cloud_interfaces/msg/CompressedPointCloud2", "livox_ros_driver2/msg/CustomMsg"
DETECTIONS = "vision_msgs/msg/Detection3DArray"
CLOUD_TEXT = "std_msgs/Header header\nuint32 height\nuint32 width\nsensor_msgs/PointField[] fields\nbool is_bigendian\n"
CLOUD_TEXT += "uint32 point_step\nuint32 row_step\nuint8[] compressed_data\nbool is_dense\nstring format\n"
LIVOX_TEXT = "std_msgs/Header header\nuint64 timebase\nuint32 point_num\nuint8 lidar_id\nuint8[3] rsvd\n"
LIVOX_TEXT += "CustomPoint[] points\n"
TEXTS = {
    "livox_ros_driver2/msg/CustomPoint": "uint32 offset_time\nfloat32 x\nfloat32 y\nfloat32 z\nuint8 reflectivity\n"
    "uint8 tag\nuint8 line\n",
    LIVOX: LIVOX_TEXT,
    COMPRESSED: CLOUD_TEXT,
    "vision_msgs/msg/ObjectHypothesis": "string class_id\nfloat64 score\n",
    "vision_msgs/msg/ObjectHypothesisWithPose": "ObjectHypothesis hypothesis\ngeometry_msgs/PoseWithCovariance pose\n",
    "vision_msgs/msg/BoundingBox3D": "geometry_msgs/Pose center\ngeometry_msgs/Vector3 size\n",
    "vision_msgs/msg/Detection3D": "std_msgs/Header header\nObjectHypothesisWithPose[] results\n"
    "BoundingBox3D bbox\nstring id\n",
    DETECTIONS: "std_msgs/Header header\nDetection3D[] detections\n",
}
# tf2_msgs is not in rosbags' types of ROS 1.
TF_TEXT = "geometry_msgs/TransformStamped[] transforms\n"


class Robot:
    """Makes messages of one version of ROS."""

    def __init__(self, ros1=False):
        self.ros1 = ros1
        self.store = get_typestore(Stores.ROS1_NOETIC if ros1 else Stores.ROS2_HUMBLE)
        for name, text in {**TEXTS, **({TF: TF_TEXT} if ros1 else {})}.items():
            if name not in self.store.types:
                self.store.register(get_types_from_msg(text, name))

    def make(self, kind, *members):
        return self.store.types[kind](*members)

    def bytes_of(self, message):
        serialize = self.store.serialize_ros1 if self.ros1 else self.store.serialize_cdr
        return bytes(serialize(message, message.__msgtype__))

    def read(self, message, kind):
        """The ROS 2 message of these bytes."""
        return self.store.deserialize_cdr(message, kind)

    def header(self, stamp, frame):
        """`stamp` in nanoseconds."""
        time = self.make("builtin_interfaces/msg/Time", *divmod(stamp, 10**9))
        return self.make("std_msgs/msg/Header", *((7,) if self.ros1 else ()), time, frame)

    def _fields(self, points):
        for name in points.dtype.names:
            kind, offset = points.dtype.fields[name]
            yield self.make("sensor_msgs/msg/PointField", name, offset, ROS_TYPES[kind.str[1:]], 1)

    def cloud(self, points, stamp, frame="lidar", compress=None):
        """A structured array as a PointCloud2, or with `compress`, (format, function), as a CompressedPointCloud2."""
        step, data = points.dtype.itemsize, points.tobytes()
        members = [self.header(stamp, frame), 1, len(points), list(self._fields(points)), False, step, len(data)]
        if compress:
            data = np.frombuffer(compress[1](data), np.uint8)
            return self.make(COMPRESSED, *members, data, True, compress[0])
        return self.make(POINT_CLOUD, *members, np.frombuffer(data, np.uint8), True)

    def livox(self, points, stamp, frame="lidar"):
        """An array of LIVOX_POINT as a CustomMsg."""
        rows = [self.make("livox_ros_driver2/msg/CustomPoint", *row.tolist()) for row in points]
        return self.make(LIVOX, self.header(stamp, frame), stamp, len(rows), 1, np.zeros(3, np.uint8), rows)

    def _vector(self, kind, values):
        return self.make(f"geometry_msgs/msg/{kind}", *map(float, values))

    def _pose(self, pose):
        x, y, z, qw, qx, qy, qz = pose
        members = self._vector("Point", (x, y, z)), self._vector("Quaternion", (qx, qy, qz, qw))
        return self.make("geometry_msgs/msg/Pose", *members)

    def posed(self, stamp, pose, frame):
        kind = "geometry_msgs/msg/PoseWithCovariance"
        return self.make(f"{kind}Stamped", self.header(stamp, frame), self.make(kind, self._pose(pose), np.zeros(36)))

    def odometry(self, stamp, pose, frame="odom", child="base_link"):
        nothing = np.zeros(36)
        still = self.make("geometry_msgs/msg/Twist", *[self._vector("Vector3", (0, 0, 0))] * 2)
        return self.make(
            ODOMETRY,
            self.header(stamp, frame),
            child,
            self.make("geometry_msgs/msg/PoseWithCovariance", self._pose(pose), nothing),
            self.make("geometry_msgs/msg/TwistWithCovariance", still, nothing),
        )

    def tf(self, *transforms):
        """Transforms: (stamp, pose, frame, child)."""
        made = []
        for stamp, (x, y, z, qw, qx, qy, qz), frame, child in transforms:
            moves = self._vector("Vector3", (x, y, z)), self._vector("Quaternion", (qx, qy, qz, qw))
            moved = self.make("geometry_msgs/msg/Transform", *moves)
            made.append(self.make("geometry_msgs/msg/TransformStamped", self.header(stamp, frame), child, moved))
        return self.make(TF, made)

    def write(self, path, messages, storage="sqlite3"):
        """Writes the messages, (topic, nanoseconds, message), to a .bag file for ROS 1, for ROS 2 to a folder.
        `storage`: sqlite3 or mcap."""
        plugin = StoragePlugin[storage.upper()]
        with Writer1(path) if self.ros1 else Writer2(path, version=9, storage_plugin=plugin) as bag:
            topics = {}
            for topic, time, message in messages:
                kind = message.__msgtype__
                if topic not in topics:
                    topics[topic] = bag.add_connection(topic, kind, typestore=self.store)
                bag.write(topics[topic], time, self.bytes_of(message))


def rechunk(source, target, chunk_bytes):
    """Copies an MCAP file, with chunks of this size."""
    with open(source, "rb") as file, open(target, "wb") as out:
        writer, channels = Writer(out, chunk_bytes), {}
        writer.start("ros2", "test")
        for schema, channel, message in make_reader(file).iter_messages():
            if channel.topic not in channels:
                kind = writer.register_schema(schema.name, schema.encoding, schema.data)
                channels[channel.topic] = writer.register_channel(channel.topic, channel.message_encoding, kind)
            writer.add_message(channels[channel.topic], message.log_time, message.data, message.publish_time)
        writer.finish()


def write_ros1_mcap(path, robot, messages):
    """Writes an MCAP file of ROS 1 without an index, like a recorder that was cut off."""
    with open(path, "wb") as out:
        writer, channels = Writer(out, use_chunking=False, repeat_channels=False, use_statistics=False), {}
        writer.start("ros1", "test")
        for topic, time, message in messages:
            if topic not in channels:
                kind = writer.register_schema(message.__msgtype__.replace("/msg/", "/"), "ros1msg", b"")
                channels[topic] = writer.register_channel(topic, "ros1", kind)
            writer.add_message(channels[topic], time, robot.bytes_of(message), time)
        writer.finish()
