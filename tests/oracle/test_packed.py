"""Points in a blob of cloudini, or in a CompressedPointCloud2, give the tensors of the same points as raw rows."""

import gzip
import json
import struct
import unittest
import urllib.parse
import zlib

import numpy as np

import check
import cloudini
import codings
import files
from daemon import ROOT, Daemon, OneDaemonCase

VECTORS = ROOT / "tests" / "oracle" / "uplink"
FORMATS = {".cl": "cloudini", ".cdr": "compressedpointcloud2"}
POINTS = "/v1/points?"
KINDS = ("i1", "u1", "i2", "u2", "i4", "u4", "f4", "f8", "i8", "u8")
PACKERS = {"zstd": codings.zstd, "zlib": gzip.compress}


def random_column(rng, kind, count):
    dtype = np.dtype("<" + kind)
    if dtype.kind == "f":
        values = (rng.normal(size=count) * 50).astype(dtype)
        values[rng.random(count) < 0.1] = rng.choice([np.nan, 0, 1e5])
        return np.repeat(values, rng.integers(1, 4))[:count]
    limits = np.iinfo(dtype)
    if rng.random() < 0.5:
        return rng.integers(limits.min, limits.max, count, dtype, endpoint=True)
    return np.sort(rng.integers(0, 100, count)).astype(dtype)


def random_points(rng, count):
    kinds = ["f4" if rng.random() < 0.7 else str(rng.choice(KINDS)) for _ in "xyz"]
    kinds += [str(kind) for kind in rng.choice(KINDS, rng.integers(0, 6))]
    names = ["x", "y", "z", *(f"c{place}" for place in range(len(kinds) - 3))]
    points = np.zeros(count, [(name, "<" + kind) for name, kind in zip(names, kinds)])
    for name, kind in zip(names, kinds):
        points[name] = random_column(rng, kind, count)
    floats = [name for name in names if points[name].dtype.kind == "f"]
    units = [float(rng.choice([0.001, 0.01, 1e-6, 0.25])) if rng.random() < 0.7 else None for _ in floats]
    return points, dict(zip(floats, units))


def rows_of(points):
    with np.errstate(over="ignore"):
        return np.stack([points[name].astype("<f4") for name in points.dtype.names], 1)


class Packed(OneDaemonCase):
    ARGS = ("--workers", "2")

    def tensors(self, body, path=POINTS, headers=None, **query):
        reply = self.daemon.post(path + urllib.parse.urlencode(query, safe=","), body, headers or {})
        self.assertEqual(reply.status, 200, reply)
        tensors, metadata = check.parse_by_hand(reply.body)
        return {name: tensor.tobytes() for name, tensor in tensors.items()}, metadata

    def same(self, body, points, format_name="cloudini", **query):
        rows = rows_of(points)
        expected, _ = self.tensors(rows.tobytes(), num_features=rows.shape[1])
        answered, _ = self.tensors(body, format=format_name, num_features=rows.shape[1], **query)
        self.assertEqual(answered, expected)

    def refused(self, body, reason, format_name="cloudini", status=400, **query):
        query = {"format": format_name, "num_features": 3, **query}
        reply = self.daemon.post(POINTS + urllib.parse.urlencode(query), body)
        self.assertEqual(reply.status, status, reply)
        self.assertIn(reason, reply.json()["detail"])

    def test_vectors(self):
        for vector in json.loads((VECTORS / "manifest.json").read_text()):
            body = (VECTORS / vector["file"]).read_bytes()
            suffix = vector["file"][vector["file"].index(".") :]
            columns = vector.get("columns", 3)
            if suffix not in FORMATS or columns < 3:  # points have x, y and z
                continue
            with self.subTest(vector["file"]):
                path = f"/v1/transform?format={FORMATS[suffix]}&num_features={columns}"
                reply = self.daemon.post(path, body)
                self.assertEqual(reply.status, vector["status"], reply)
                if reply.status == 200:
                    rows = np.fromfile(VECTORS / vector["expect"], "<f4").reshape(-1, columns)
                    finite = rows[np.isfinite(rows[:, :3]).all(1)]  # a transform drops the other points
                    np.testing.assert_array_equal(check.parse_by_hand(reply.body)[0]["points"], finite)

    def test_random_blobs(self):
        for seed in range(240):
            rng = np.random.default_rng(seed)
            points, resolutions = random_points(rng, int(rng.choice([1, 2, 40, 300])))
            terms = {
                "version": 2 + seed % 4,
                "encoding": cloudini.ENCODINGS[seed % 3],
                "compressor": cloudini.COMPRESSORS[seed // 4 % 3],
                "mode": cloudini.MODES[seed // 3 % 4],
                "text": bool(seed // 7 % 2),
            }
            with self.subTest(seed=seed, **terms):
                body = cloudini.blob(points, resolutions=resolutions, **terms)
                self.same(body, cloudini.read(points, terms["encoding"], resolutions))

    def test_several_chunks(self):
        rng = np.random.default_rng(1)
        points = np.zeros(70_000, [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("ring", "<u2")])
        for name in "xyz":
            points[name] = np.cumsum(rng.normal(size=len(points)) * 0.1)
        points["ring"] = np.arange(len(points)) % 64
        resolutions = dict.fromkeys("xyz", 0.001)
        for version, compressor in ((2, "ZSTD"), (3, "NONE"), (4, "LZ4"), (5, "ZSTD")):
            with self.subTest(version=version):
                body = cloudini.blob(points, version, compressor=compressor, resolutions=resolutions, mode="palette")
                self.same(body, cloudini.read(points, "LOSSY", resolutions))

    def test_times_are_exact(self):
        start = 1_700_000_000_123_456_789
        points = np.zeros(5, [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("t", "<u8")])
        points["t"] = start + np.array([0, 1, 50, 99, 1000])
        for version in (2, 4, 5):
            body = cloudini.blob(points, version, resolutions=dict.fromkeys("xyz", 0.001))
            query = {"fields": "x,y,z,t", "time_field": "t", "time_unit": "ns", "time_origin": str(start)}
            tensors, _ = self.tensors(body, format="cloudini", **query)
            seconds = np.frombuffer(tensors["points"], "<f4").reshape(-1, 4)[:, 3]
            np.testing.assert_array_equal(seconds, ((points["t"] - start) * 1e-9).astype("<f4"))

    def test_compressed_messages(self):
        rng = np.random.default_rng(2)
        for seed in range(30):
            points, _ = random_points(rng, 12)
            points = points[[name for name in points.dtype.names if points[name].dtype.str[1:] not in ("i8", "u8")]]
            if not {"x", "y", "z"} <= set(points.dtype.names):
                continue
            points = np.array(points.tolist(), [(name, points.dtype[name]) for name in points.dtype.names])
            for name, packer in (*PACKERS.items(), ("zlib", zlib.compress)):
                terms = {"height": (1, 3)[seed % 2], "padding": (0, 4)[seed % 2], "big_header": bool(seed % 3 == 0)}
                body = files.pointcloud2(points, packed=(name, packer), **terms)
                with self.subTest(seed=seed, name=name):
                    self.same(body, points, "compressedpointcloud2")

    def test_blobs_in_messages(self):
        points, resolutions = random_points(np.random.default_rng(4), 12)
        points = points[["x", "y", "z"]]
        points = np.array(points.tolist(), [(name, "<f4") for name in "xyz"])
        resolutions = dict.fromkeys("xyz", 0.01)
        blob = cloudini.blob(points, resolutions=resolutions, height=2)
        for name in ("cloudini", "", "zstd"):  # the service ignores the name, and finds the blob by its data
            body = files.pointcloud2(points, height=2, packed=(name, lambda data: blob))
            self.same(body, cloudini.read(points, "LOSSY", resolutions), "compressedpointcloud2")
        body = files.pointcloud2(points, height=3, packed=("cloudini", lambda data: blob))
        self.refused(body, "the blob has 6 times 2 points, the message 4 times 3", "compressedpointcloud2")
        none = files.pointcloud2(points[:0], packed=("cloudini", lambda data: b""))
        self.same(none, points[:0], "compressedpointcloud2")

    def test_a_lone_message_may_take_the_whole_budget(self):
        """The budget is the least that the limits allow. The points have more than half of a limit, so their buffer and
        the answer's buffer, whose sizes are powers of two, take half of the budget each."""
        limit = 8 << 20
        limits = ("--max-body-bytes", limit, "--max-response-bytes", limit, "--memory-budget-bytes", 2 * limit)
        points = np.zeros(11 << 15, [("x", "<f4"), ("y", "<f4"), ("z", "<f4")])
        query = POINTS + "num_features=3&format=compressedpointcloud2"
        with Daemon("--workers", "1", *map(str, limits)) as daemon:
            for name, packer in (("zstd", lambda data: codings.zstd_bomb(len(data), 22)), ("zlib", zlib.compress)):
                with self.subTest(name):
                    daemon.await_accounts()  # the memory of earlier requests is released
                    reply = daemon.post(query, files.pointcloud2(points, packed=(name, packer)))
                    self.assertEqual(reply.status, 200, reply)
                    self.assertEqual(check.parse_by_hand(reply.body)[0]["points"].nbytes, points.nbytes)

    def test_a_chunk_takes_memory_by_how_its_values_are_written(self):
        """A blob of version 2 has one chunk. For each value the service reserves its size, or 11 bytes for a varint."""
        limits = ("--max-body-bytes", "8388608", "--max-response-bytes", "8388608", "--memory-budget-bytes", "16777216")
        points = np.zeros(300_000, [("x", "<f4"), ("y", "<f4"), ("z", "<f4")])
        query = POINTS + "num_features=3&format=cloudini"
        with Daemon("--workers", "1", *limits) as daemon:
            for encoding in ("NONE", "LOSSLESS", "LOSSY"):
                daemon.await_accounts()  # the memory of earlier requests is released
                reply = daemon.post(query, cloudini.blob(points, 2, encoding))
                self.assertEqual(reply.status, 200, reply)
            daemon.await_accounts()
            reply = daemon.post(query, cloudini.blob(points, 2, "LOSSY", resolutions=dict.fromkeys("xyz", 0.001)))
            self.assertEqual((reply.status, reply.json()["type"]), (422, "urn:voxeld:problem:impossible"), reply)
            self.assertIn("the body's points need 13500024 bytes; memory_budget_bytes leaves", reply.json()["detail"])

    def test_stamps_of_messages(self):
        points = np.zeros(3, [("x", "<f4"), ("y", "<f4"), ("z", "<f4"), ("t", "<f8")])
        points["t"] = 1000.5 + np.arange(3)
        body = files.pointcloud2(points, packed=("zlib", gzip.compress), stamp=(1000, 500_000_000))
        query = {"fields": "x,y,z,t", "time_field": "t", "time_origin": "stamp"}
        tensors, _ = self.tensors(body, format="compressedpointcloud2", **query)
        np.testing.assert_array_equal(np.frombuffer(tensors["points"], "<f4")[3::4], [0, 1, 2])

    def test_wrong_messages(self):
        points = np.zeros(3, [("x", "<f4"), ("y", "<f4"), ("z", "<f4")])
        for packed, reason in (
            (("draco", bytes), "has the format 'draco'; allowed: cloudini, zstd and zlib"),
            (("lz4", bytes), "has the format 'lz4'"),
            (("", bytes), "does not begin with CLOUDINI_V"),
            (("zstd", bytes), "zstd stream of the body is malformed"),
            (("zstd", lambda data: codings.zstd(data) * 2), "it is not one frame"),
            (("zstd", lambda data: codings.zstd(data)[:-1]), "zstd stream of the body is malformed"),
            (("zstd", lambda data: codings.zstd(data[1:])), "has 35 bytes when decoded, not the 36 promised"),
            (("zstd", lambda data: codings.zstd(data + b"\0")), "longer than the 36 bytes promised"),
            (("zlib", bytes), "deflate stream of the body is malformed"),
            (("zlib", lambda data: zlib.compress(data)[:-1]), "the body ends before its deflate stream does"),
            (("zlib", lambda data: gzip.compress(data[1:])), "has 35 bytes when decoded, not the 36 promised"),
            (("zlib", lambda data: gzip.compress(data + b"\0")), "longer than the 36 bytes promised"),
            (("zlib", lambda data: zlib.compress(data) + b"\0"), "continues after the end of its deflate stream"),
        ):
            with self.subTest(packed[0], reason=reason):
                self.refused(files.pointcloud2(points, packed=packed), reason, "compressedpointcloud2")
        good = files.pointcloud2(points, packed=("zlib", zlib.compress))
        self.refused(good[:-8], "the body ends at byte", "compressedpointcloud2")
        self.refused(good + bytes(9), "the PointCloud2 ends at byte", "compressedpointcloud2")
        large = files.pointcloud2(points, height=3, packed=("zlib", zlib.compress), row_step=2**31)
        self.refused(large, "is more than a PointCloud2 can have", "compressedpointcloud2")

    def test_wrong_headers(self):
        points = np.zeros(2, [("x", "<f4"), ("y", "<f4"), ("z", "<f4")])
        good = cloudini.blob(points, compressor="NONE", resolutions=dict.fromkeys("xyz", 0.001))
        for old, new, reason in (
            (b"CLOUDINI_V05", b"CLOUDINI_V01", "the blob has the version 01; allowed: 02 to 05"),
            (b"CLOUDINI_V05", b"CLOUDINI_V0x", "the blob has the version 0x; allowed: 02 to 05"),
            (b"CLOUDINI", b"CLOUDINY", "the body does not begin with CLOUDINI_V"),
            (b"width: 2", b"width: -2", "the blob's header has '-2' for width"),
            (b"width: 2", b"width: 4000000", "too few for 4000000 points"),
            (b"width: 2\n", b"", "lacks width, height"),
            (b"height: 1", b"height: 0", "bytes follow the last chunk of the blob"),
            (b"encoding_opt: LOSSY", b"encoding_opt: lossy", "allowed: NONE, LOSSY or LOSSLESS"),
            (b"compression_opt: NONE", b"compression_opt: GZIP", "allowed: NONE, LZ4 or ZSTD"),
            (b"name: y", b"name: x", "the blob has two fields x"),
            (b"type: FLOAT32", b"type: FLOAT16", "'FLOAT16' for type"),
            (b"    type: FLOAT32\n", b"", "field 1 of the blob has no type"),
            (b"resolution: 0.001", b"resolution: -1", "allowed: null, or a number above 0"),
            (b"resolution: 0.001", b"resolution: inf", "allowed: null, or a number above 0"),
            (b"resolution: 0.001", b"resolution", "which is not an entry"),
            (b"fields:", b"fields:" + b"\n# " * 4000, "does not end within 8192 bytes"),
        ):
            with self.subTest(new):
                self.assertIn(old, good)
                self.refused(good.replace(old, new, 1), reason)
        wide = np.zeros(1, [(name, "u1") for name in ("x", "y", "z", *map(str, range(62)))])
        self.refused(cloudini.blob(wide), "the blob has more than 64 fields")
        self.refused(cloudini.blob(wide, text=False), "the blob has more than 64 fields")
        binary = cloudini.blob(points, 3, text=False)
        for end in range(12, len(binary)):
            with self.subTest(end=end):
                self.refused(binary[:end], "")

    def test_runs_may_have_any_length(self):
        """The points so far plus a length of 2^64 - 1 would wrap, and seem to fit the chunk."""
        points = np.zeros(3, [("x", "u1"), ("y", "u1"), ("z", "u1"), ("ring", "<u2")])
        good = cloudini.blob(points, compressor="NONE", mode="runs")
        run = struct.pack("<IHB", 1, 0, 3)
        head = good[: good.rindex(struct.pack("<I", 10 + len(run)) + bytes(9) + b"\2" + run)]
        for runs, reason in (
            (struct.pack("<IH", 1, 0) + cloudini.varint(2**64 - 1), "its runs are longer than the chunk"),
            (struct.pack("<IHBH", 2, 0, 1, 0) + cloudini.varint(2**64 - 1), "its runs are longer than the chunk"),
            (struct.pack("<IHB", 1, 0, 2), "its runs are shorter than the chunk"),
            (struct.pack("<IHB", 2**32 - 1, 0, 2), "it ends within a value"),
        ):
            chunk = bytes(9) + b"\2" + runs
            self.refused(head + struct.pack("<I", len(chunk)) + chunk, reason)

    def test_a_blob_may_not_grow_over_its_points(self):
        """A zstd frame or an LZ4 block may be a bomb."""
        points = np.zeros(4, [("x", "<f4"), ("y", "<f4"), ("z", "<f4")])
        head = cloudini.text_head(points.dtype, 5, "LOSSY", "ZSTD", {}, 4, 1)
        bomb = codings.zstd_bomb(1 << 20)
        body = b"CLOUDINI_V05" + head + struct.pack("<I", len(bomb)) + bomb
        self.refused(body, "longer than the 72 bytes promised")
        block = cloudini.lz4_block(bytes(200))
        body = b"CLOUDINI_V05" + head.replace(b"ZSTD", b"LZ4") + struct.pack("<I", len(block)) + block
        self.refused(body, "longer than its points can be")

    def test_more_points_than_the_limit_are_refused_before_memory_is_taken(self):
        points = np.zeros(1, [("x", "<f4"), ("y", "<f4"), ("z", "<f4")])
        head = cloudini.binary_head(points.dtype, "LOSSY", "ZSTD", {}, 30_000_000, 1)
        self.refused(b"CLOUDINI_V02" + head + b"x", "allowed: up to", status=413)

    def test_other_bodies_get_a_hint(self):
        points = np.zeros(2, [("x", "<f4"), ("y", "<f4"), ("z", "<f4")])
        blob = cloudini.blob(points) + b"\0"
        reply = self.daemon.post("/v1/points?num_features=3", blob + bytes(-len(blob) % 12 + 1))
        self.assertIn("add format=cloudini", reply.json()["detail"])
        message = files.pointcloud2(points, packed=("zstd", codings.zstd))
        self.refused(message, "add format=compressedpointcloud2", "pointcloud2")
        self.refused(message, "add format=compressedpointcloud2", "pcd")

    def test_encodings_and_batches(self):
        points = np.zeros(50, [("x", "<f4"), ("y", "<f4"), ("z", "<f4")])
        points["x"] = np.arange(50) * 0.001
        blob = cloudini.blob(points, resolutions=dict.fromkeys("xyz", 0.001))
        query = {"format": "cloudini", "num_features": 3, "point_counts": "20,30"}
        plain, _ = self.tensors(blob, **query)
        coded, _ = self.tensors(gzip.compress(blob), headers={"Content-Encoding": "gzip"}, **query)
        self.assertEqual(coded, plain)


if __name__ == "__main__":
    unittest.main()
