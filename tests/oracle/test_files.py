"""Answers as files (npz, MCAP, shuffled safetensors), read by numpy and by MCAP's own library, hold the tensors of the
safetensors answer to the same request, byte for byte."""

import io
import json
import time
import unittest
import urllib.parse
import zipfile

import numpy as np
from mcap.reader import NonSeekingReader, SeekingReader
from mcap_ros2.decoder import DecoderFactory

import check
from daemon import Daemon

NPZ, MCAP, JSON = "application/x-npz", "application/x-mcap", "application/json"
SHUFFLED = "application/x-shuffled-safetensors"
GRID = {"point_cloud_range": "-10,-10,-2,10,10,2", "voxel_size": "0.5,0.5,0.5"}
MATRIX = "0,-1,0,5,1,0,0,0,0,0,1,0,0,0,0,1"
TYPES = {5: "<i4", 7: "<f4"}  # of a PointField
CLOUD_NS = 100_000_000  # from one cloud of a batch to the next
# Endpoint, columns, query. The body has 900 points.
REQUESTS = (
    ("voxelize", 4, GRID),
    ("voxelize", 4, {**GRID, "feature": "points,mean,pillar", "outputs": "voxels,voxel_point_mask,point_voxel_ids"}),
    ("voxelize", 7, {**GRID, "num_features": "7", "feature_dtype": "float16"}),
    ("voxelize", 3, {**GRID, "num_features": "3", "feature": "points", "order": "key"}),
    ("voxelize", 4, {**GRID, "point_counts": "300,0,600"}),
    ("voxelize", 4, {**GRID, "point_counts": "300,600", "fps": "5,9", "feature": "points"}),
    ("voxelize", 4, {**GRID, "fps": "20", "outputs": "sampled_indices"}),
    ("voxelize", 4, {**GRID, "feature": "mean", "max_points_per_voxel": "0", "max_voxels": "7"}),
    ("fps", 4, {"num_samples": "50"}),
    ("fps", 5, {"num_features": "5", "num_samples": "7,0", "point_counts": "100,800", "dtype": "float16"}),
    ("fps", 3, {"num_features": "3", "num_samples": "8", "point_counts": "450,450", "outputs": "sampled_distances"}),
    ("transform", 4, {"matrix": MATRIX, "crop": "-5,-5,-5,5,5,5"}),
    ("transform", 5, {"num_features": "5", "point_counts": "100,0,800", "outputs": "point_indices"}),
)
EMPTY = (("voxelize", GRID), ("fps", {"num_samples": "0"}), ("transform", {}))


def path_of(operation, query):
    return f"/v1/{operation}?" + urllib.parse.urlencode(query, safe=",")


def body_of(columns, query):
    points = np.random.default_rng(columns).uniform(-9, 9, (900, columns))
    points[:, 2] /= 5
    return points.astype("<f2" if query.get("dtype") == "float16" else "<f4").tobytes()


def requests():
    for operation, columns, query in REQUESTS:
        yield operation, query, body_of(columns, query)
    for operation, query in EMPTY:
        yield operation, query, b""


def without_chance(metadata):
    """The metadata without the members that differ from answer to answer."""
    return {name: value for name, value in metadata.items() if name not in ("request_id", "timing_us")}


def fields_of(cloud):
    """The fields of a PointCloud2 as arrays, by name."""
    row = np.dtype(
        {
            "names": [field.name for field in cloud.fields],
            "formats": [TYPES[field.datatype] for field in cloud.fields],
            "offsets": [field.offset for field in cloud.fields],
            "itemsize": cloud.point_step,
        }
    )
    rows = np.frombuffer(bytes(cloud.data), row)
    return {name: np.ascontiguousarray(rows[name]) for name in row.names}


def centres(coords, query):
    """The centres of voxels, with the float32 arithmetic of kernels/grid.h."""
    low, size = (np.array(query[name].split(",")[:3], np.float32) for name in ("point_cloud_range", "voxel_size"))
    return coords[:, :0:-1].astype(np.float32) * size + (size / np.float32(2) + low)


def of_each_request(check_one):
    def test(self):
        for operation, query, body in requests():
            with self.subTest(path_of(operation, query), bytes=len(body)):
                check_one(self, operation, query, body)

    return test


class Files(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--workers", "1")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def ask(self, operation, query, body, accept):
        reply = self.daemon.post(path_of(operation, query), body, {"Accept": accept} if accept else None)
        self.assertEqual(reply.status, 200, reply)
        if accept:
            self.assertEqual(reply.headers["Content-Type"], accept)
        self.assertEqual("encode;dur=" in reply.headers["Server-Timing"], bool(accept))
        return reply.body

    def tensors(self, operation, query, body):
        return check.parse_by_hand(self.ask(operation, query, body, None))

    # ---- shuffled ----

    @of_each_request
    def test_shuffled(self, operation, query, body):
        expected, metadata = self.tensors(operation, query, body)
        file = self.ask(operation, query, body, SHUFFLED)
        tensors, told = check.parse_by_hand(file)
        self.assertEqual(list(tensors), list(expected))
        for name, tensor in expected.items():
            self.assertEqual((tensors[name].dtype, tensors[name].shape), (tensor.dtype, tensor.shape))
            self.assertEqual(tensors[name].tobytes(), tensor.tobytes(), name)
        self.assertEqual(without_chance(told), without_chance(metadata))

    # ---- npz ----

    @of_each_request
    def test_npz(self, operation, query, body):
        expected, metadata = self.tensors(operation, query, body)
        file = self.ask(operation, query, body, NPZ)
        with np.load(io.BytesIO(file)) as arrays:
            self.assertEqual(arrays.files, [*sorted(expected, key=arrays.files.index), "metadata.json"])
            for name, tensor in expected.items():
                self.assertEqual((arrays[name].dtype, arrays[name].shape), (tensor.dtype, tensor.shape))
                self.assertEqual(arrays[name].tobytes(), tensor.tobytes(), name)
            told = json.loads(arrays["metadata.json"])
        self.assertEqual(without_chance(told), without_chance(metadata))

    @of_each_request
    def test_npz_members_are_stored_and_aligned(self, operation, query, body):
        file = self.ask(operation, query, body, NPZ)
        with zipfile.ZipFile(io.BytesIO(file)) as archive:
            self.assertIsNone(archive.testzip())
            for member in archive.infolist():
                self.assertEqual((member.compress_type, member.date_time), (zipfile.ZIP_STORED, (1980, 1, 1, 0, 0, 0)))
                self.assertEqual((member.create_system, member.external_attr >> 16), (3, 0o100644))  # as made on Unix
                at = file.index(archive.read(member), member.header_offset)
                self.assertEqual(at % 64, 0)
                if member.filename.endswith(".npy"):
                    values = np.load(io.BytesIO(file[at:]))
                    self.assertEqual((at + member.file_size - values.nbytes) % 64, 0)

    # ---- MCAP ----

    def clouds(self, file, reader=SeekingReader):
        """The messages of each topic: number, time and PointCloud2."""
        reader = reader(io.BytesIO(file), decoder_factories=[DecoderFactory()], validate_crcs=True)
        found = {}
        for schema, channel, message, cloud in reader.iter_decoded_messages():
            self.assertEqual((schema.name, channel.message_encoding), ("sensor_msgs/msg/PointCloud2", "cdr"))
            self.assertEqual(message.log_time, cloud.header.stamp.sec * 10**9 + cloud.header.stamp.nanosec)
            found.setdefault(channel.topic, []).append((message.sequence, message.log_time, cloud))
        return found

    def rows(self, messages):
        """The fields of all clouds of a topic, joined. Checks each message."""
        parts = []
        for number, (sequence, time_ns, cloud) in enumerate(messages):
            self.assertEqual((sequence, time_ns), (number, messages[0][1] + number * CLOUD_NS))
            self.assertEqual((cloud.header.frame_id, cloud.height, cloud.is_bigendian), ("lidar", 1, False))
            self.assertEqual((cloud.row_step, cloud.is_dense), (cloud.width * cloud.point_step, True))
            self.assertEqual(len(cloud.data), cloud.row_step)
            parts.append(fields_of(cloud))
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    def same_rows(self, messages, points, number_name, numbers):
        fields = self.rows(messages)
        names = ["x", "y", "z", "intensity", *(f"column_{c}" for c in range(4, points.shape[-1]))][: points.shape[-1]]
        self.assertEqual(list(fields), [*names, number_name])
        expected = points.reshape(-1, points.shape[-1]).astype(np.float32)
        self.assertEqual(np.stack([fields[name] for name in names], -1).tobytes(), expected.tobytes())
        self.assertEqual(fields[number_name].tobytes(), numbers.tobytes())

    @of_each_request
    def test_mcap(self, operation, query, body):
        # The clouds of an MCAP file do not depend on `outputs`.
        whole = {name: value for name, value in query.items() if name != "outputs"}
        expected, metadata = self.tensors(operation, whole, body)
        clouds = self.clouds(self.ask(operation, query, body, MCAP))
        topics = set()
        if operation == "voxelize":
            topics.add("/voxels")
            means = expected.get("voxel_features")
            points = centres(expected["voxel_coords"], query) if means is None else means
            self.same_rows(clouds["/voxels"], points, "count", expected["voxel_num_points"])
            widths = [cloud.width for _, _, cloud in clouds["/voxels"]]
            self.assertEqual(widths, metadata["batch"]["voxels"])
        if "sampled_points" in expected:
            topics.add("/samples")
            self.same_rows(clouds["/samples"], expected["sampled_points"], "index", expected["sampled_indices"])
            widths = [cloud.width for _, _, cloud in clouds["/samples"]]
            self.assertEqual(widths, metadata["batch"]["samples"])
        if operation == "transform":
            topics.add("/points")
            self.same_rows(clouds["/points"], expected["points"], "index", expected["point_indices"])
            self.assertEqual([cloud.width for _, _, cloud in clouds["/points"]], metadata["batch"]["kept"])
        self.assertEqual(set(clouds), topics)

    def test_mcap_has_the_names_of_fields(self):
        for fields, expected in (
            ("x,y,z,ring,time", ["x", "y", "z", "ring", "time", "index"]),
            ("a,b,c,index,reflectivity", ["x", "y", "z", "column_3", "reflectivity", "index"]),
        ):
            file = self.ask("transform", {"fields": fields}, body_of(5, {}), MCAP)
            ((_, _, cloud),) = self.clouds(file)["/points"]
            self.assertEqual([field.name for field in cloud.fields], expected)

    @of_each_request
    def test_mcap_is_indexed(self, operation, query, body):
        file = self.ask(operation, query, body, MCAP)
        reader = SeekingReader(io.BytesIO(file), validate_crcs=True)
        self.assertEqual(reader.get_header().profile, "ros2")
        summary = reader.get_summary()
        (chunk,) = summary.chunk_indexes
        self.assertEqual(set(chunk.message_index_offsets), set(summary.channels))
        statistics = summary.statistics
        self.assertEqual(statistics.message_count, sum(statistics.channel_message_counts.values()))
        batch = query.get("point_counts", "0").count(",") + 1
        self.assertEqual(statistics.channel_message_counts, {channel: batch for channel in summary.channels})
        last = chunk.message_start_time + (batch - 1) * CLOUD_NS
        self.assertEqual((statistics.message_end_time, chunk.message_end_time), (last, last))
        indexed, scanned = (self.clouds(file, kind) for kind in (SeekingReader, NonSeekingReader))
        self.assertEqual(repr(indexed), repr(scanned))

    @of_each_request
    def test_mcap_has_the_metadata(self, operation, query, body):
        alone = self.daemon.post(path_of(operation, query), body, {"Accept": JSON}).json()
        file = self.ask(operation, query, body, MCAP)
        (record,) = SeekingReader(io.BytesIO(file)).iter_metadata()
        told = json.loads(record.metadata["metadata"])
        self.assertEqual((record.name, set(told)), ("voxeld", set(alone)))
        for part in ("points", "voxels", "warnings"):
            self.assertEqual(told.get(part), alone.get(part))

    def test_mcap_is_dated(self):
        before = time.time_ns()
        clouds = self.clouds(self.ask("voxelize", GRID, body_of(4, {}), MCAP))
        ((_, began, _),) = clouds["/voxels"]
        self.assertLessEqual(before, began)
        self.assertLessEqual(began, time.time_ns())

    def test_not_dense(self):
        """A mean that overflows float16."""
        query = {"point_cloud_range": "0,0,0,90000,9,9", "voxel_size": "90000,9,9", "feature_dtype": "float16"}
        body = np.array([[80000, 1, 1, 1]], "<f4").tobytes()
        ((_, _, cloud),) = self.clouds(self.ask("voxelize", query, body, MCAP))["/voxels"]
        self.assertEqual((fields_of(cloud)["x"].tolist(), cloud.is_dense), ([float("inf")], False))


if __name__ == "__main__":
    unittest.main()
