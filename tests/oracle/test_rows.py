"""Rows of integers with scales and filters give the tensors of the float32 rows that numpy makes of them, byte for
byte."""

import json
import math
import pathlib
import tempfile
import unittest
import urllib.parse

import numpy as np

import check
import codings
import infer
import shared
from daemon import ROOT, Daemon, OneDaemonCase

VECTORS = ROOT / "tests" / "oracle" / "uplink"
SCANS = ROOT.parent / "shared" / "data"
TYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "float32", "float16")
SCALES = (0.001, 0.002, 0.005, 0.01, 1 / 255, 1 / 65535, 1.0, 2.5, 1e-30, 3e8)
FILTERS = ((), ("shuffle",), ("delta",), ("delta", "shuffle"), ("direction",), ("direction", "shuffle"))
CODERS = {**codings.CODERS, "zstd": codings.zstd}
POINTS = "/v1/transform?"
VOXELS = "/v1/voxelize?point_cloud_range=-80,-80,-80,80,80,80&voxel_size=0.5,0.5,0.5&feature=points,mean&"


def random_rows(rng, points, kinds):
    """A record array of random bits, so that columns of floats have NaNs of any payload."""
    record = np.dtype([(f"c{place}", np.dtype(kind).newbyteorder("<")) for place, kind in enumerate(kinds)])
    return np.frombuffer(rng.bytes(points * record.itemsize), record)


def misses(rows):
    """What the filter direction sends for the first three columns, before the zigzag: values minus guesses [N,3]."""
    values = [(0, 0, 0)] * 2 + list(zip(*(rows[name].tolist() for name in rows.dtype.names[:3])))
    found = []
    for row in range(2, len(values)):
        older, last, now = values[row - 2 : row + 1]
        if (row - 2) % 64 == 0:
            a, b = (0, 1) if abs(last[0]) >= abs(last[1]) else (1, 0)
        guesses = []
        for column in (b, 2):
            whole = last[a] and older[a]
            guess = 2 * (last[column] * (now[a] / last[a])) - older[column] * (now[a] / older[a]) if whole else math.nan
            guess = round(guess) if abs(guess) < 2**31 else 2**31
            guesses.append(guess if abs(guess) < 2**31 else last[column])
        found.append((now[a] - last[a], now[b] - guesses[0], now[2] - guesses[1]))
    return np.array(found, np.int64).reshape(-1, 3)


def filtered(rows, filters):
    """The bytes of the rows as a client sends them."""
    rows = rows.copy()
    if "delta" in filters or "direction" in filters:
        guessed = misses(rows) if "direction" in filters else None
        for place, name in enumerate(rows.dtype.names):
            values = rows[name]
            bits = 8 * values.itemsize
            unsigned = values.view(f"<u{values.itemsize}").astype(np.uint64)
            delta = np.diff(unsigned, prepend=np.uint64(0)) & np.uint64(2**bits - 1)
            if place < 3 and guessed is not None:
                delta = np.ascontiguousarray(guessed[:, place]).view(np.uint64) & np.uint64(2**bits - 1)
            negative = delta >> np.uint64(bits - 1)
            zigzag = (delta << np.uint64(1)) ^ (negative * np.uint64(2**64 - 1))
            rows[name] = (zigzag & np.uint64(2**bits - 1)).astype(f"<u{values.itemsize}").view(values.dtype)
    if "shuffle" in filters:
        return rows.view("u1").reshape(len(rows), rows.dtype.itemsize).T.tobytes()
    return rows.tobytes()


def floats(rows, scales):
    """The float32 rows: value * scale in double, rounded once."""
    out = np.empty((len(rows), len(rows.dtype.names)), "<f4")
    for place, name in enumerate(rows.dtype.names):
        if rows[name].dtype.kind == "f" and place >= len(scales):
            out[:, place] = rows[name]
            if rows[name].dtype.itemsize == 4:
                out.view("<u4")[:, place] = rows[name].view("<u4")
            continue
        scale = np.float64(scales[place]) if place < len(scales) else np.float64(1)
        with np.errstate(over="ignore", invalid="ignore"):
            out[:, place] = (rows[name].astype(np.float64) * scale).astype("<f4")
    return out


def without_nan_bits(points):
    """Makes all NaNs equal, since the payload of a computed NaN differs between processors."""
    return np.where(np.isnan(points), np.float32(np.nan), points)


class Rows(OneDaemonCase):
    ARGS = ("--workers", "2", "--allow-shared-memory", "yes")

    def tensors(self, path, body, query, headers=None):
        reply = self.daemon.post(path + urllib.parse.urlencode(query, safe=","), body, headers or {})
        self.assertEqual(reply.status, 200, reply)
        return check.parse_by_hand(reply.body)

    def refused(self, query, body, parameter, reason, status=400, headers=None, path=POINTS):
        reply = self.daemon.post(path + query, body, headers or {})
        problem = reply.json()
        self.assertEqual((reply.status, problem.get("parameter")), (status, parameter), reply)
        self.assertIn(reason, problem["detail"])

    def same(self, path, query, body, rows, headers=None, **more):
        plain, _ = self.tensors(path, rows.tobytes(), {"num_features": rows.shape[1], **more})
        sent, metadata = self.tensors(path, body, {**query, **more}, headers)
        self.assertEqual(plain.keys(), sent.keys())
        for name, tensor in plain.items():
            if tensor.dtype.kind == "f":
                same = without_nan_bits(tensor).tobytes() == without_nan_bits(sent[name]).tobytes()
            else:
                same = tensor.tobytes() == sent[name].tobytes()
            self.assertTrue(same, f"{name}: {query} {more}")
        return metadata

    def test_vectors(self):
        for vector in json.loads((VECTORS / "manifest.json").read_text()):
            if "query" not in vector:
                continue
            body = (VECTORS / vector["file"]).read_bytes()
            headers = {"Content-Encoding": vector["content_encoding"]} if "content_encoding" in vector else {}
            reply = self.daemon.post(POINTS + vector["query"], body, headers)
            with self.subTest(vector["file"]):
                self.assertEqual(reply.status, vector["status"], reply)
                if reply.status == 200:
                    tensors, _ = check.parse_by_hand(reply.body)
                    rows = np.fromfile(VECTORS / vector["expect"], "<f4").reshape(-1, vector["columns"])
                    finite = rows[np.isfinite(rows[:, :3]).all(1)]  # a transform drops the other points
                    np.testing.assert_array_equal(tensors["points"], finite)

    def test_random_types_scales_and_filters(self):
        for seed in range(200):
            rng = np.random.default_rng(seed)
            filters = FILTERS[seed % len(FILTERS)]
            allowed = TYPES[:6] if "delta" in filters or "direction" in filters else TYPES
            kinds = [str(kind) for kind in rng.choice(allowed, rng.integers(3, 9))]
            if "direction" in filters:
                kinds[:3] = ["int32"] * 3
            if seed % 3 == 0:
                kinds = kinds[:1] * len(kinds)
            scales = [float(scale) for scale in rng.choice(SCALES, rng.integers(0, len(kinds) + 1))]
            rows = random_rows(rng, int(rng.choice((0, 1, 2, 255, 256, 257, 3000))), kinds)
            query = {"dtype": ",".join(kinds)}
            if seed % 3 == 0:
                query = {"dtype": kinds[0], "num_features": len(kinds)}
            if scales:
                query["scale"] = ",".join(map(repr, scales))
            if filters:
                query["filter"] = ",".join(filters)
            body, headers = filtered(rows, filters), {}
            if body and seed % 2:
                coding = list(CODERS)[seed % len(CODERS)]
                body, headers = CODERS[coding](body), {"Content-Encoding": coding}
            with self.subTest(seed=seed, **query):
                self.same(POINTS if seed % 5 else VOXELS, query, body, floats(rows, scales), headers)

    def test_least_and_greatest_values_wrap(self):
        for kind in TYPES[:6]:
            limits = np.iinfo(kind)
            values = np.resize(np.array([limits.min, limits.max, 0, limits.max, limits.min, 1], kind), (6, 3))
            rows = np.rec.fromarrays(values.T, dtype=[(name, np.dtype(kind).newbyteorder("<")) for name in "xyz"])
            for filters in FILTERS[2 : None if kind == "int32" else 4]:
                query = {"dtype": kind, "num_features": 3, "filter": ",".join(filters), "scale": "0.001"}
                self.same(POINTS, query, filtered(rows, filters), floats(rows, [0.001]))

    def test_a_scale_equals_the_division(self):
        raw = np.arange(-(2**17), 2**17, dtype="<i4").reshape(-1, 4)
        for scale, divisor in (("0.001", 1000), ("0.01", 100), ("0.00392156862745098", 255)):
            tensors, _ = self.tensors(POINTS, raw.tobytes(), {"dtype": "int32", "scale": ",".join([scale] * 4)})
            expected = raw.astype("<f4") / np.float32(divisor)
            self.assertEqual(tensors["points"].tobytes(), expected.tobytes())

    @unittest.skipUnless(SCANS.is_dir(), f"no real scans in {SCANS}")
    def test_a_real_scan_of_whole_millimetres_is_the_same(self):
        """Borders of voxels also lie on whole millimetres, so a wrong last bit changes voxels."""
        points = np.fromfile(SCANS / "kitti_raw_00.bin", "<f4").reshape(-1, 4) + np.float32(0)  # no -0
        numbers = np.rint(points * np.array([1000, 1000, 1000, 100])).astype("<i4")
        rows = np.rec.fromarrays(numbers.T, dtype=[(f"c{place}", "<i4") for place in range(4)])
        for first in ("delta", "direction"):
            query = {"dtype": "int32", "scale": "0.001,0.001,0.001,0.01", "filter": f"{first},shuffle"}
            self.same("/v1/voxelize?preset=kitti_second&", query, filtered(rows, (first, "shuffle")), points)

    def test_guesses_of_a_direction(self):
        """Values of 0 have no ratio; a guess may be midway between two integers or beyond int32; x or y may be the
        leading column; and the rows before may be in another run or block of the decoder (widen.c)."""
        cases = (
            ((0, 0, 5), (0, 0, 7), (3, 4, 9), (0, 5, -9), (6, 8, 1)),
            ((2, 1, 1), (3, 0, 2), (2, 1, 5), (5, 3, -1), (2, 2, -7), (1, 1, 1)),
            ((1, 0, 2**31 - 1), (2, 0, -(2**31)), (9, 0, 2**30), (-(2**31), -(2**31), -1), (1, 1, 2**31 - 1)),
            # 2^31 - 1 + 1/8, which rounds to an int32, and 2^31 - 1/2, which rounds to none
            ((8, 91125647, -91125647), (8, 10**9, -(10**9)), (9, 5, 7)),
            ((4, 282013082, -282013082), (4, 10**9, -(10**9)), (5, 5, 7)),
        )
        for case in cases:
            for before in (0, 62, 63, 64, 254, 255, 256):
                values = np.array([(1, 1, 1)] * before + list(case) * 30, "<i4")
                if before % 2:
                    values = values[:, [1, 0, 2]]
                rows = np.rec.fromarrays(values.T, dtype=[(name, "<i4") for name in "xyz"])
                for filters in FILTERS[4:]:
                    query = {"dtype": "int32", "num_features": 3, "filter": ",".join(filters)}
                    self.same(POINTS, query, filtered(rows, filters), floats(rows, []))

    def test_the_bytes_of_a_direction(self):
        """x leads. In row 2, y = 2 * (9 * 3) - 5 * 6 = 24 and z = 2 * (-5 * 3) + 3 * 6 = -12 are guessed."""
        rows = bytes.fromhex("020000000a00000005000000" "020000000800000003000000" "080000000100000004000000")
        query = {"dtype": "int32", "num_features": 3, "filter": "direction"}
        tensors, _ = self.tensors(POINTS, rows, query)
        np.testing.assert_array_equal(tensors["points"], [(1, 5, -3), (2, 9, -5), (6, 23, -10)])

    def test_batches_names_and_intensity(self):
        rng = np.random.default_rng(1)
        rows = random_rows(rng, 1000, ["int16", "int16", "int16", "uint8"])
        scales = [0.001, 0.001, 0.001, 0.01]
        query = {"dtype": "int16,int16,int16,uint8", "scale": "0.001,0.001,0.001,0.01", "filter": "delta,shuffle"}
        body, values = filtered(rows, ("delta", "shuffle")), floats(rows, scales)
        self.same(VOXELS, query, body, values, point_counts="300,0,700")
        named = {"fields": "x,y,z,intensity", "intensity_scale": "0.5"}
        scaled = values * np.array([1, 1, 1, 0.5], "<f4")
        metadata = self.same(POINTS, {**query, **named}, body, scaled)
        self.assertEqual(metadata["parameters"]["dtype"], ["int16", "int16", "int16", "uint8"])
        self.assertEqual(metadata["parameters"]["filter"], ["delta", "shuffle"])
        self.assertEqual(metadata["parameters"]["scale"], scales)

    def test_streams_join_the_float_rows(self):
        rng = np.random.default_rng(2)
        answers = []
        for name, integers in (("a", True), ("b", False)):
            rng = np.random.default_rng(3)
            for time in range(3):
                rows = random_rows(rng, 500, ["int16"] * 4)
                query = {"stream": name, "time": time, "pose": f"{time},0,0,1,0,0,0", "sweeps": 3}
                values = floats(rows, [0.001] * 3)
                if integers:
                    query |= {"dtype": "int16", "scale": "0.001,0.001,0.001", "filter": "delta,shuffle"}
                body = filtered(rows, ("delta", "shuffle")) if integers else values.tobytes()
                tensors, _ = self.tensors(VOXELS, body, query)
            answers.append({name: tensor.tobytes() for name, tensor in tensors.items()})
        self.assertEqual(*answers)

    def test_times_are_exact(self):
        """Times near 4e9 ns, 1 ns apart; float32 numbers of this size are 256 apart."""
        raw = np.zeros(4, [("x", "<i4"), ("y", "<i4"), ("z", "<i4"), ("t", "<u4")])
        raw["t"] = 4_000_000_000 + np.array([0, 1, 2, 3])
        query = {"fields": "x,y,z,t", "time_field": "t", "time_unit": "ns", "time_origin": "first"}
        for filters in FILTERS:
            terms = {"dtype": "int32,int32,int32,uint32", **query}
            if filters:
                terms["filter"] = ",".join(filters)
            tensors, _ = self.tensors(POINTS, filtered(raw, filters), terms)
            seconds = (np.arange(4) * 1e-9).astype("<f4")
            self.assertEqual(tensors["points"][:, 3].tobytes(), seconds.tobytes())
        terms = {"dtype": "int32,int32,int32,uint32", "scale": "1,1,1,0.001", **query, "time_unit": "us"}
        tensors, _ = self.tensors(POINTS, raw.tobytes(), terms)
        times = raw["t"].astype(np.float64) * 0.001
        seconds = ((times - times[0]) * 1e-6).astype("<f4")
        self.assertEqual(tensors["points"][:, 3].tobytes(), seconds.tobytes())

    def test_shared_memory_is_copied(self):
        rng = np.random.default_rng(4)
        rows = random_rows(rng, 400, ["int32"] * 4)
        body = filtered(rows, ("delta", "shuffle"))
        query = {"dtype": "int32", "scale": "0.001", "filter": "delta,shuffle", "points_region": f"rows,0,{len(body)}"}
        with shared.Memory(len(body)) as memory:
            memory.write(body)
            self.assertEqual(memory.register(self.daemon, "rows").status, 200)
            self.same(VOXELS, query, b"", floats(rows, [0.001]))
            self.assertEqual(memory.read(len(body)), body)
            shared.unregister(self.daemon, "rows")

    def safetensors(self, points, datatype):
        head = json.dumps({"points": {"dtype": datatype, "shape": points.shape, "data_offsets": [0, points.nbytes]}})
        return len(head).to_bytes(8, "little") + head.encode() + points.tobytes()

    def test_tensors_of_integers(self):
        rng = np.random.default_rng(5)
        scale = "0.001,0.001,0.001,0.01,0.5"
        for kind, datatype, name in (
            ("<i2", "I16", "INT16"),
            ("<i4", "I32", "INT32"),
            ("|u1", "U8", "UINT8"),
            ("|i1", "I8", "INT8"),
            ("<u2", "U16", "UINT16"),
            ("<u4", "U32", "UINT32"),
        ):
            limits = np.iinfo(kind)
            points = rng.integers(limits.min, limits.max, (321, 5), kind, endpoint=True)
            rows = np.rec.fromarrays(points.T, dtype=[(f"c{place}", kind) for place in range(5)])
            values = floats(rows, [0.001, 0.001, 0.001, 0.01, 0.5])
            with self.subTest(datatype):
                body = self.safetensors(points, datatype)
                self.same(VOXELS, {"format": "safetensors", "scale": scale}, body, values)
                plain, _ = self.tensors(POINTS, values.tobytes(), {"num_features": 5})
                described = {"name": "points", "shape": points.shape, "datatype": name}
                for data in ({"data": points.ravel().tolist()}, {"parameters": {"binary_data_size": points.nbytes}}):
                    binary = [] if "data" in data else [points]
                    terms = {"scale": scale, "binary_data_output": True}
                    sent, headers = infer.body_of([{**described, **data}], binary, parameters=terms)
                    reply = self.daemon.post("/v2/models/transform/infer", sent, headers)
                    self.assertEqual(reply.status, 200, reply)
                    tensors, _ = infer.parse(reply)
                    self.assertEqual(tensors["points"].tobytes(), plain["points"].tobytes())
                with shared.Memory(points.nbytes) as memory:
                    memory.write(points.tobytes())
                    self.assertEqual(memory.register(self.daemon, "points").status, 200)
                    place = {"shared_memory_region": "points", "shared_memory_byte_size": points.nbytes}
                    terms = {"scale": scale, "binary_data_output": True}
                    sent, headers = infer.body_of([{**described, "parameters": place}], parameters=terms)
                    reply = self.daemon.post("/v2/models/transform/infer", sent, headers)
                    self.assertEqual(infer.parse(reply)[0]["points"].tobytes(), plain["points"].tobytes())
                    shared.unregister(self.daemon, "points")

    def test_wrong_parameters_are_named(self):
        row = bytes(12)
        for query, parameter, reason in (
            ("dtype=int64", "dtype", "int32"),
            ("dtype=int16,", "dtype", "int16"),
            ("dtype=int16,int16", "dtype", "dtype has 2 types"),
            ("dtype=int16,int16,int16,int16&num_features=3", "dtype", "dtype has 4 types, but a row has 3 columns"),
            ("dtype=int16,int16,int16,int16&fields=x,y,z", "dtype", "dtype has 4 types, but a row has 3 columns"),
            ("dtype=" + ",".join(["int8"] * 65), "dtype", "one for each of up to 64 columns"),
            ("dtype=int32&num_features=3&scale=1,1,1,1", "scale", "scale has 4 numbers, but a row has 3 columns"),
            *((f"scale={scale}", "scale", "above 0") for scale in ("0", "-1", "nan", "inf", "1e999", "x", "1,,1", "")),
            *(
                (f"filter={filters}", "filter", "delta or direction or shuffle or delta,shuffle or direction,shuffle")
                for filters in ("shuffle,delta", "delta,delta", "zip", "delta,direction", "direction,delta,shuffle")
            ),
            ("filter=delta", "filter", "filter has delta, but a column has a floating type"),
            ("dtype=int32,int32,int32,float32&filter=direction", "filter", "filter has direction, but a column has a"),
            ("dtype=int32,int32,int16,int32&filter=direction", "filter", "direction, but column 3 is not int32"),
            ("dtype=uint32&filter=direction", "filter", "direction, but column 1 is not int32"),
            ("dtype=int32,int32,float32&filter=delta", "filter", "integers alone"),
            ("format=pcd&filter=shuffle", "filter", "raw rows"),
            ("format=safetensors&filter=shuffle", "filter", "raw rows"),
            ("format=pcd&dtype=int16", "dtype", "the body says its types"),
            ("format=ply&dtype=float32,float32,float32", "dtype", "the body says its types"),
            ("format=safetensors&dtype=int16", "dtype", "the body says its types"),
            ("format=pcd&scale=0.1", "scale", "format=safetensors"),
        ):
            with self.subTest(query):
                self.refused(query, row, parameter, reason)

    def test_a_body_that_is_not_whole_rows_is_refused(self):
        query = "dtype=int16,int16,int16,uint8"
        self.refused(query, bytes(13), None, "the body has 13 bytes; allowed: a multiple of 7, the size of a row")
        zipped = {"Content-Encoding": "deflate"}
        self.refused(query + "&filter=shuffle", CODERS["deflate"](bytes(13)), None, "a multiple of 7", headers=zipped)
        self.refused(query + "&point_counts=1,2", bytes(14), "point_counts", "add up to 3 points")

    def test_wrong_tensors_are_refused(self):
        body = self.safetensors(np.zeros((2, 3), "<i4"), "I32")
        self.refused("format=safetensors&scale=1,1,1,1", body, "scale", "scale has 4 numbers, but a row has 3 columns")
        inputs = [infer.as_bytes("points", np.zeros((2, 3), "<i4"))]
        for name, value in (("filter", "shuffle"), ("dtype", "int16"), ("scale", "0")):
            sent, headers = infer.body_of(inputs, [np.zeros((2, 3), "<i4")], parameters={name: value})
            reply = self.daemon.post("/v2/models/transform/infer", sent, headers)
            self.assertEqual(reply.status, 400, reply)
            self.assertIn(name, reply.json()["error"])

    def test_a_media_type_of_tensors_counts_as_the_format(self):
        """The same parameters are refused as with format=safetensors."""
        body = self.safetensors(np.zeros((2, 3), "<f4"), "F32")
        headers = {"Content-Type": "application/vnd.safetensors"}
        self.assertEqual(self.daemon.post(POINTS, body, headers).status, 200)
        for query, parameter, reason in (
            ("filter=shuffle", "filter", "raw rows"),
            ("dtype=int16", "dtype", "the body says its types"),
            ("dtype=float16", "dtype", "the body says its types"),
            ("dtype=float32,float32,float32", "dtype", "the body says its types"),
        ):
            with self.subTest(query):
                self.refused(query, body, parameter, reason, headers=headers)

    def test_a_media_type_of_tensors_may_have_several_sweeps(self):
        points = np.arange(30, dtype="<f4").reshape(10, 3)
        headers = {"Content-Type": "application/vnd.safetensors"}
        lists = "&point_counts=6,4&times=2,1&poses=0,0,0,1,0,0,0,1,0,0,1,0,0,0&sweeps=2&num_features=3"
        replies = [
            self.daemon.post(f"/v1/points?stream={name}{lists}{more}", body, head)
            for name, more, body, head in (
                ("raw", "", points.tobytes(), {}),
                ("named", "&format=safetensors", self.safetensors(points, "F32"), {}),
                ("typed", "", self.safetensors(points, "F32"), headers),
            )
        ]
        self.assertEqual([reply.status for reply in replies], [200, 200, 200], replies)
        plain, *others = [check.parse_by_hand(reply.body)[0]["points"] for reply in replies]
        for other in others:
            np.testing.assert_array_equal(other, plain)

    def test_numbers_beyond_a_type_are_refused_with_its_range(self):
        for dtype, datatype, value, reason in (
            ("<i2", "INT16", 32768, "not a list of 3 whole numbers from -32768 to 32767, flat"),
            ("<u4", "UINT32", -1, "not a list of 3 whole numbers from 0 to 4294967295, flat"),
        ):
            points = {"name": "points", "datatype": datatype, "shape": [1, 3], "data": [1, 2, value]}
            sent, headers = infer.body_of([points])
            reply = self.daemon.post("/v2/models/transform/infer", sent, headers)
            self.assertEqual(reply.status, 400, reply)
            self.assertIn(reason, reply.json()["error"], dtype)

    def test_integers_beyond_float32_get_a_warning(self):
        points = np.array([[30_000_001, 0, 0]], "<i4")
        reply = self.daemon.post(POINTS + "dtype=int32&num_features=3&scale=0.1", points.tobytes())
        self.assertEqual([each["kind"] for each in check.parse_by_hand(reply.body)[1]["warnings"]], ["rounded"])

    def test_a_preset_has_neither_a_scale_nor_a_filter(self):
        """A preset's scale would also multiply the floats of a client that sends floats."""
        for name, value in (("scale", "0.5"), ("filter", "shuffle")):
            parameters = {"num_samples": 2, "dtype": "int16", "num_features": 3, name: value}
            preset = {"description": "halves", "operation": "fps", "parameters": parameters}
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                (pathlib.Path(folder) / "halves.json").write_text(json.dumps(preset), encoding="utf-8")
                with self.assertRaisesRegex(Exception, f"{name} is not allowed in a preset"):
                    Daemon("--workers", "1", "--presets-dir", folder).close()

    def check_floats(self, daemon, path, points):
        """Checks that a client may send floats, with dtype=float32, to a preset of integers."""
        body = self.safetensors(points, "F32")
        reply = daemon.post(path + "&format=safetensors", body)
        self.assertEqual((reply.status, reply.json()["parameter"]), (400, "dtype"), reply)
        for query, sent in (("&dtype=float32", points.tobytes()), ("&dtype=float32&format=safetensors", body)):
            reply = daemon.post(path + query, sent)
            self.assertEqual(reply.status, 200, reply)
            sampled = check.parse_by_hand(reply.body)[0]["sampled_points"]
            np.testing.assert_array_equal(sampled.reshape(2, 3), points)

    def test_a_preset_may_have_integers(self):
        parameters = {"dtype": "int16", "num_features": 3}
        preset = {"description": "whole", "operation": "fps", "parameters": {"num_samples": 2, **parameters}}
        mixed = {**preset, "parameters": {**preset["parameters"], "dtype": "int16,int16,int8"}}
        points = np.array([[1, 2, 3], [-5, 6, 7]], "<i2")
        floating = np.array([[1.5, 2, 3], [-5, 6, 7]], "<f4")
        with tempfile.TemporaryDirectory() as folder:
            for name, each in (("whole", preset), ("mixed", mixed)):
                (pathlib.Path(folder) / f"{name}.json").write_text(json.dumps(each), encoding="utf-8")
            with Daemon("--workers", "1", "--presets-dir", folder) as daemon:
                inputs = daemon.get("/v2/models/whole").json()["inputs"]
                self.assertEqual((inputs[0]["datatype"], inputs[0]["shape"]), ("INT16", [-1, 3]))
                raw = {infer.HEAD: "0"}
                reply = daemon.post("/v2/models/whole/infer", points.tobytes(), raw)
                sampled = infer.parse(reply)[0]["sampled_points"]
                np.testing.assert_array_equal(sampled.reshape(2, 3), points)
                sent, headers = infer.body_of([infer.as_bytes("points", floating)], [floating])
                reply = daemon.post("/v2/models/whole/infer", sent, headers)
                self.assertEqual(reply.status, 200, reply)
                for name in ("whole", "mixed"):
                    self.check_floats(daemon, f"/v1/fps?preset={name}", floating)
                reply = daemon.post("/v2/models/mixed/infer", points.tobytes(), raw)
                self.assertEqual(reply.status, 400, reply)
                self.assertIn("the preset has several types", reply.json()["error"])

    def test_rows_may_not_grow_over_the_limit(self):
        with Daemon("--workers", "1", "--max-body-bytes", "65536") as daemon:
            reply = daemon.post(POINTS + "dtype=uint8&num_features=3", bytes(3 * 10000))
            self.assertEqual((reply.status, reply.json()["type"]), (413, "urn:voxeld:problem:body-too-large"), reply)


if __name__ == "__main__":
    unittest.main()
