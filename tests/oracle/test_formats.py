"""Points in a file give the tensors of the same points as raw rows, byte for byte."""

import ctypes
import os
import struct
import unittest
import urllib.parse

import numpy as np

import check
import files
from daemon import Daemon
from test_scans import scans

SEED = int(os.environ.get("VOXELD_TEST_SEED", "9000"))
CASES = int(os.environ.get("VOXELD_TEST_CASES", "30"))
F32 = np.dtype("<f4")
STRTOF = ctypes.CDLL(None).strtof
STRTOF.restype = ctypes.c_float
TYPES = ("<i1", "<u1", "<i2", "<u2", "<i4", "<u4", "<f4", "<f8")


def random_values(rng, kind, count):
    kind = np.dtype(kind)
    if kind.kind == "f":
        values = rng.normal(size=count) * 10.0 ** rng.integers(-3, 12)
        values[rng.random(count) < 0.05] = rng.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e39])
        with np.errstate(over="ignore"):
            return values.astype(kind)
    return rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, count, kind, endpoint=True)


def rows_of(points, names):
    with np.errstate(over="ignore"):
        return (
            np.stack([points[name].astype(F32) for name in names], 1) if len(points) else np.zeros((0, len(names)), F32)
        )


class Formats(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--workers", "2")

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def tensors(self, path, body, **query):
        reply = self.daemon.post(f"{path}&{urllib.parse.urlencode(query, safe=',')}", body)
        self.assertEqual(reply.status, 200, reply)
        tensors, metadata = check.parse_by_hand(reply.body)
        return {name: tensor.tobytes() for name, tensor in tensors.items()}, metadata

    def same(self, format_name, body, rows, where, path="/v1/transform?timeout_ms=0", **query):
        expected, plain = self.tensors(path, rows.tobytes(), num_features=rows.shape[1])
        answered, metadata = self.tensors(path, body, format=format_name, **query)
        self.assertEqual(answered, expected, where)
        for member in ("points", "batch"):
            self.assertEqual(metadata[member], plain[member], where)

    def every_format(self, points):
        yield "pcd", "ascii", files.pcd(points, "ascii")
        yield "pcd", "binary", files.pcd(points)
        yield "pcd", "compressed", files.pcd(points, "binary_compressed")
        yield "pcd", "literal", files.pcd(points, "binary_compressed", pack=files.lzf_literal)
        yield "pcd", "stored", files.pcd(points, "binary_compressed", pack=bytes)
        yield "pcd", "a last page of zeros", files.paged(files.pcd(points))
        yield "pcd", "compressed, with a last page", files.paged(files.pcd(points, "binary_compressed"))
        yield "pcd", "a short header", files.pcd(points, VERSION=None, VIEWPOINT=None, COUNT=None, HEIGHT=None)
        yield "ply", "ascii", files.ply(points, "ascii")
        yield "ply", "little", files.ply(points)
        yield "ply", "CR LF", files.ply(points, ends="\r\n")
        yield "ply", "CR", files.ply(points, ends="\r")
        yield "ply", "CR before text", files.ply(points, "ascii", ends="\r")
        swapped = points.astype(points.dtype.newbyteorder(">"))
        yield "ply", "big", files.ply(swapped, "binary_big_endian")
        yield "pointcloud2", "little", files.pointcloud2(points)
        yield "pointcloud2", "big header", files.pointcloud2(points, big_header=True)
        yield "pointcloud2", "no row_step", files.pointcloud2(points, row_step=0)
        for big in (False, True):
            yield "pointcloud2", "XCDR2", files.pointcloud2(points, big_header=big, xcdr2=True)
        for height in (2, 3, 5):
            if len(points) % height == 0:
                yield "pointcloud2", "padded rows", files.pointcloud2(points, height, padding=int(height * 3 - 4))
                yield "pcd", "organized", files.pcd(points, height=height)

    def test_random_points(self):
        for case in range(CASES):
            rng = np.random.default_rng(SEED + case)
            count = int(rng.choice([0, 1, 2, 30, 257]))
            kinds = {"x": "<f4", "y": "<f4", "z": "<f4", "intensity": "<f4"}
            if case % 3:
                kinds = {name: str(rng.choice(TYPES)) for name in ("x", "y", "z", "intensity", "ring", "time")}
            order = list(kinds)
            if case % 2:
                rng.shuffle(order)
            points = files.structured({n: random_values(rng, kinds[n], count) for n in order}, kinds)
            first = ["x", "y", "z", *(name for name in order if name not in "xyz")]
            named = ["x", "y", "z", *rng.permutation(first[3:])][: int(rng.integers(3, len(first) + 1))]
            for name, way, body in self.every_format(points):
                where = f"seed {SEED + case}: {name}, {way}"
                columns = int(rng.integers(3, len(first) + 1))
                self.same(name, body, rows_of(points, first[:columns]), where, num_features=columns)
                self.same(name, body, rows_of(points, named), where, fields=",".join(named))

    def test_unaligned_fields(self):
        """As in a Velodyne's message: a 16-bit ring, then a 64-bit time that is not aligned to 8 bytes."""
        rng = np.random.default_rng(SEED)
        kinds = {"x": "<f4", "y": "<f4", "z": "<f4", "intensity": "<f4", "ring": "<u2", "timestamp": "<f8"}
        columns = {name: random_values(rng, kind, 600) for name, kind in kinds.items()}
        points = files.structured(columns, kinds, [0, 4, 8, 12, 16, 18], 26)
        body = files.pointcloud2(points, 30, padding=6, tail=b"\0\0\0")
        self.same("pointcloud2", body, rows_of(points, ["x", "y", "z", "intensity"]), "default")
        names = ["x", "y", "z", "timestamp", "ring"]
        self.same("pointcloud2", body, rows_of(points, names), "named", fields=",".join(names))
        wide = files.structured(columns, kinds, [32, 36, 40, 48, 3, 9], 64)
        self.same("pointcloud2", files.pointcloud2(wide), rows_of(wide, names), "wide", fields=",".join(names))

    def test_fields_of_several_values_and_padding(self):
        rng = np.random.default_rng(SEED)
        kinds = {"normal": ("<f4", 3), "x": "<f4", "_1": ("u1", 5), "y": "<f8", "z": "<f4", "i": "<u2", "_2": "u1"}
        points = files.structured({n: np.zeros((9, 1) if isinstance(k, tuple) else 9) for n, k in kinds.items()}, kinds)
        for name in ("x", "y", "z", "i"):
            points[name] = random_values(rng, kinds[name], 9)
        for data in ("ascii", "binary", "binary_compressed"):
            self.same("pcd", files.pcd(points, data), rows_of(points, ["x", "y", "z", "i"]), data)

    def test_elements_around_the_vertices(self):
        points = files.structured({name: np.arange(7) + 0.25 for name in ("x", "y", "z")})
        head = (
            "element camera 2\nproperty float fov\nproperty uchar id\nelement note 2\nproperty list uchar short text\n"
        )
        head += "element empty 5\n"
        behind = "element face 1\nproperty list uchar int vertex_indices\n"
        for data, order in (("binary_little_endian", "<"), ("binary_big_endian", ">")):
            before = np.zeros(2, np.dtype([("fov", order + "f4"), ("id", "u1")])).tobytes()
            before += b"\3" + bytes(6) + b"\0"
            moved = points.astype(points.dtype.newbyteorder(order))
            body = files.ply(moved, data, before, head, behind, b"\3" + bytes(12))
            self.same("ply", body, rows_of(points, ["x", "y", "z"]), data, num_features=3)
        body = files.ply(points, "ascii", b"1.5 3\n\n2.5 4\n3 1 2 3\n0\n", head, behind, b"3 0 1 2\n")
        self.same("ply", body, rows_of(points, ["x", "y", "z"]), "ascii", num_features=3)

    def test_lists_in_a_vertex(self):
        rng = np.random.default_rng(SEED)
        points = rng.normal(size=(257, 3)).astype(F32)
        lengths = rng.integers(0, 9, (257, 2))
        properties = ("list uchar short a", "float x", "float y", "list uint double b", "float z")
        head = "".join(f"property {one}\n" for one in properties)
        for data, order in (("binary_little_endian", "<"), ("binary_big_endian", ">"), ("ascii", "")):
            body = bytearray(f"ply\nformat {data} 1.0\nelement vertex {len(points)}\n{head}end_header\n".encode())
            for (x, y, z), (a, b) in zip(points, lengths):
                if order:
                    body += struct.pack(f"{order}B{a}h2fI{b}df", a, *range(a), x, y, b, *range(b), z)
                else:
                    words = [a, *range(a), repr(float(x)), repr(float(y)), b, *range(b), repr(float(z))]
                    body += " ".join(map(str, words)).encode() + b"\n"
            self.same("ply", bytes(body), points, data, num_features=3)
            self.same("ply", files.paged(bytes(body)), points, f"{data}, with zeros", num_features=3)

    def test_numbers_as_text(self):
        """Each number is rounded once, to the nearest float32, as in the C library."""
        rng = np.random.default_rng(SEED)
        words = ["0", "-0", "+1", "1.", ".5", "-.25", "16777217", "16777219", "1e39", "-1e39", "1e-46", "nan", "-inf"]
        words += ["1.17549429e-38", "3.4028235677973366e38", "0.1", "100000000000000000000000", "4294967295", "1E5"]
        words += [
            "1.00000005960464477539062",
            "1.000000059604644775390625",
            "1.0000000596046447753906251",
            "7.0385307e-26",
        ]
        halves = rng.integers(0, 0x7F000000, 900, np.uint32).view(np.float32).astype(np.float64)
        words += [
            repr(float(v + np.nextafter(np.float32(v), F32.type(np.inf)).astype(float)) / 2) for v in halves
        ]  # midway between two float32
        words += [f"{v:.{d}f}" for v, d in zip(rng.normal(size=900) * 100, rng.integers(1, 14, 900))]
        words += ["0"] * (-len(words) % 3)
        exact = np.array([STRTOF(word.encode(), None) for word in words], F32)
        lines = "".join(" ".join(words[at : at + 3]) + "\n" for at in range(0, len(words), 3))
        head = "FIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nPOINTS {}\nDATA ascii\n".format(len(words) // 3)
        self.same("pcd", (head + lines).encode(), exact.reshape(-1, 3), "words", num_features=3)

    def test_intensity_is_scaled(self):
        rng = np.random.default_rng(SEED)
        names = ["x", "y", "z", "intensity", "ring"]
        points = files.structured(
            {name: rng.integers(0, 255, 100) for name in names}, {"intensity": "u1", "ring": "<u2"}
        )
        rows = rows_of(points, names)
        scaled = rows.copy()
        scaled[:, 3] *= F32.type(0.003921569)
        for name, way, body in self.every_format(points):
            self.same(name, body, scaled, way, num_features=5, intensity_scale="0.003921569")
        plain = files.structured({name: rows[:, place] for place, name in enumerate(names)})
        body = files.pointcloud2(plain, frame=44 * "x")
        self.same("pointcloud2", body, scaled, "rows already", num_features=5, intensity_scale="0.003921569")
        self.same("raw", rows.tobytes(), scaled, "raw", fields=",".join(names), intensity_scale="0.003921569")

    def test_rows_at_every_place(self):
        """The points begin at any byte of the body."""
        points = files.structured({name: np.arange(50) + place for place, name in enumerate("xyzi")})
        rows = rows_of(points, list("xyzi"))
        for length in range(66):
            self.same("pointcloud2", files.pointcloud2(points, frame=length * "f"), rows, f"frame of {length}")
            self.same("pcd", files.pcd(points, VIEWPOINT=length * "1"), rows, f"header longer by {length}")

    def test_a_batch_and_the_other_operations(self):
        rng = np.random.default_rng(SEED)
        points = files.structured({name: rng.uniform(-5, 5, 300) for name in ("x", "y", "z", "intensity")})
        rows = rows_of(points, points.dtype.names)
        for path in (
            "/v1/fps?num_samples=10&point_counts=100,200",
            "/v1/voxelize?point_cloud_range=-5,-5,-5,5,5,5&voxel_size=1,1,1&feature=points,mean,pillar&fps=5",
            "/v1/voxelize?point_cloud_range=-5,-5,-5,5,5,5&voxel_size=1,1,1&point_counts=0,300,0",
        ):
            for name, way, body in self.every_format(points):
                self.same(name, body, rows, f"{path}: {way}", path)

    def test_real_scans(self):
        for columns, preset in ((4, "kitti_second"), (5, "nuscenes_pointpillar")):
            for scan in scans(columns)[:1]:
                rows = np.fromfile(scan, F32).reshape(-1, columns)[:20000]
                names = ["x", "y", "z", "intensity", "ring"][:columns]
                points = files.structured({name: rows[:, place] for place, name in enumerate(names)})
                for name, way, body in self.every_format(points):
                    self.same(name, body, rows, f"{scan}: {way}", f"/v1/voxelize?preset={preset}")


if __name__ == "__main__":
    unittest.main()
