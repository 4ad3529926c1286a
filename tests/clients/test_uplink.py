"""Small bodies from the Python client: packed numbers are restored exactly, or within the resolution."""

import itertools
import json
import os
import pathlib
import tempfile
import threading
import unittest
import warnings
from unittest import mock

import numpy as np

import voxeld
from check import parse_by_hand
from command_line import run
from daemon import PATIENCE, ROOT, Daemon
from rude_server import GRID, RudeServer, answer, problem, status_document, url_of
from test_python_rude import DAMAGED
from uplink_rows import decoded, restored, turns
from voxeld import connection, encodings, reading, tensors, uplink

CASES = int(os.environ.get("VOXELD_TEST_CASES", 60))
SEED = int(os.environ.get("VOXELD_TEST_SEED", 1))


def decimals(rng, count, digits, largest=80):
    """Numbers with at most `digits` digits after the decimal point. No number is -0.0."""
    units = rng.integers(-largest * 10**digits, largest * 10**digits, count)
    return (units / 10.0**digits).astype(np.float32)


def table(*columns):
    return np.column_stack([np.asarray(column, np.float32) for column in columns])


class Exact(unittest.TestCase):
    def assert_same(self, points, packed):
        bits = np.asarray(points, np.float32).view(np.uint32)
        np.testing.assert_array_equal(restored(packed).view(np.uint32), bits)
        self.assertEqual(packed.report.largest_error, 0)
        self.assertEqual(packed.report.plain_bytes, points.nbytes)
        self.assertEqual(packed.report.sent_bytes, sum(piece.nbytes for piece in packed.body))

    def test_decimals_go_as_integers_of_the_coarsest_scale(self):
        rng = np.random.default_rng(3)
        points = table(
            decimals(rng, 5000, 3), decimals(rng, 5000, 2), decimals(rng, 5000, 1), rng.integers(0, 99, 5000)
        )
        packed = voxeld.pack(points)
        self.assert_same(points, packed)
        self.assertEqual(packed.query["scale"], (0.001, 0.01, 0.1, 1.0))
        self.assertEqual((packed.query["dtype"], packed.query["filter"]), ("int32", "delta,shuffle"))
        self.assertLess(packed.report.ratio, 0.6)

    def test_a_column_that_integers_do_not_restore_goes_as_floats(self):
        rng = np.random.default_rng(4)
        good = [decimals(rng, 300, 3) for _ in range(3)]
        for name, value in (
            ("negative zero", -0.0),
            ("not a number", np.nan),
            ("infinite", -np.inf),
            ("huge", 3.0e38),
            ("denormal", 1e-45),
            ("between the steps", np.float32(0.1) + np.float32(1e-8)),
            ("one more than int32 holds", 2.0**31),
        ):
            with self.subTest(name):
                points = table(*good, good[0])
                points[299, 1] = value
                packed = voxeld.pack(points)
                self.assert_same(points, packed)
                self.assertEqual(packed.report.dtype, ("int32", "float32", "int32", "int32"))
                self.assertEqual(packed.query["filter"], "shuffle")  # the service takes deltas of integers only
                whole = 0.001 if not np.isfinite(value) or value == 0 else 1.0  # 1.0: sent unchanged
                self.assertEqual(packed.report.scale, (0.001, whole, 0.001, 0.001))

    def test_floats_that_are_multiples_are_small(self):
        """KITTI's scans have a few -0.0, and organised clouds have NaN, among whole millimetres."""
        rng = np.random.default_rng(14)
        good = [decimals(rng, 9000, 3) for _ in range(4)]
        for value in (-0.0, np.nan, np.inf):
            points = table(*good)
            points[5, :2] = value
            packed = voxeld.pack(points)
            self.assert_same(points, packed)
            points[0, :2] = 1e-9  # no multiple
            self.assertLess(packed.report.ratio, 0.9 * voxeld.pack(points).report.ratio)

    def test_directions_of_a_turning_sensor_are_guessed(self):
        points = turns(np.random.default_rng(16), 4, 2000)
        packed = voxeld.pack(points)
        self.assert_same(points, packed)
        self.assertEqual((packed.query["filter"], packed.query["dtype"]), ("direction,shuffle", "int32"))
        self.assertEqual(voxeld.pack(points, 0.001).query["filter"], "direction,shuffle")
        with mock.patch.object(uplink, "_turns", return_value=False):
            self.assertLess(packed.report.ratio, 0.9 * voxeld.pack(points).report.ratio)
        for others in (np.random.default_rng(1).permutation(points), points[:, :2]):  # no turn, no position
            found = uplink.Packer("auto").pack([memoryview(others.tobytes())], {"num_features": others.shape[1]})
            self.assertEqual(found.query["filter"], "delta,shuffle")
        points[0, 3] = -0.0  # a column of floats
        self.assertEqual(voxeld.pack(points).query["filter"], "shuffle")

    def test_odd_directions(self):
        """Ratios that are not finite, guesses that int32 cannot hold, and sums that wrap."""
        most = 2.0**31 - 128
        rng = np.random.default_rng(17)
        for values in ([0, 0, 1, 2], [0, 1, 3, most], [most, -most, 1, 0]):
            points = rng.choice(np.float32(values), (600, 3))
            with self.subTest(values), mock.patch.object(uplink, "_turns", return_value=True):
                packed = voxeld.pack(points, 1)
                self.assertEqual(packed.query["filter"], "direction,shuffle")
                self.assert_same(points, packed)

    def test_other_bits_of_nan_stay(self):
        points = np.zeros((300, 4), np.float32)
        points[7:9, 1] = np.array([0xFFC00000, 0x7F800001], np.uint32).view(np.float32)
        self.assert_same(points, voxeld.pack(points))
        self.assertEqual(restored(voxeld.pack(points, 0.01))[:, 0].tolist(), points[:, 0].tolist())

    def test_multiples_that_float32_cannot_hold(self):
        """2^24 + 1 units of 0.001 are an integer, but no float32."""
        points = np.zeros((300, 3), np.float32)
        points[3, 0] = 16777.217
        self.assertEqual(voxeld.pack(points).report.dtype, ("int32",) * 3)
        points[4, 0] = -0.0
        packed = voxeld.pack(points)
        self.assert_same(points, packed)

    def test_the_largest_integers(self):
        """float32 has no number between 2^31 - 128 and 2^31."""
        most = 2.0**31 - 128
        points = table([most, -most, 0, 1], [0, 1, 2, 3], [0, 0, 0, 0])
        packed = uplink.Packer("auto").pack([memoryview(points).cast("B")], {"num_features": 3})
        self.assert_same(points, packed)

    def test_a_value_outside_the_sample_counts(self):
        points = np.zeros((20_000, 3), np.float32)
        points[:, 0] = np.arange(20_000)
        for row in (0, 19_999):
            bad = points.copy()
            bad[row, 1] = 1e-9
            self.assert_same(bad, voxeld.pack(bad))
        self.assert_same(points, voxeld.pack(points))

    def test_integers_that_are_larger_are_not_sent(self):
        """Multiples of 1/64 fill two bytes of a float but, in units of a millionth, four bytes of an integer."""
        points = (np.random.default_rng(5).integers(-6000, 6000, (6000, 4)) / 64).astype(np.float32)
        packed = voxeld.pack(points)
        self.assert_same(points, packed)
        self.assertEqual(packed.report.dtype, ("float32",) * 4)
        self.assertNotIn("scale", packed.query)
        self.assertEqual(voxeld.pack(points, 0.000001).report.scale, (0.000001,) * 4)

    def test_random_columns(self):
        rng = np.random.default_rng(SEED)
        for _ in range(CASES):
            count = int(rng.integers(1, 300))
            kinds = (
                lambda: decimals(rng, count, int(rng.integers(0, 7)), int(rng.integers(1, 300))),
                lambda: rng.normal(0, 30, count),
                lambda: rng.integers(0, 2**32, count, dtype=np.uint64).astype(np.uint32).view(np.float32),  # any bits
                lambda: rng.choice([-0.0, 0.0, 1.0], count),
                lambda: np.full(count, rng.choice([0.0, 5.0, np.nan, 2147483520.0])),
            )
            points = table(*(kinds[rng.integers(len(kinds))]() for _ in range(int(rng.integers(3, 8)))))
            with self.subTest(points=points[:2].tolist()):
                self.assert_same(points, voxeld.pack(points))

    def test_real_scans(self):
        found = [
            (path, 5 if "nuscenes" in path.name else 4)
            for path in sorted((ROOT.parent / "shared" / "data").glob("*.bin"))
        ]
        if not found:
            self.skipTest("there are no real scans")
        for path, columns in found:
            points = np.fromfile(path, "<f4").reshape(-1, columns)[:30_000]
            with self.subTest(path.name):
                self.assert_same(points, voxeld.pack(points))
                self.assert_same(points, voxeld.pack(points.tobytes(), num_features=columns))

    def test_halves_are_shuffled(self):
        points = np.random.default_rng(6).normal(0, 30, (500, 4)).astype(np.float16)
        packed = voxeld.pack(points)
        self.assertEqual((packed.query["dtype"], packed.query["filter"]), ("float16", "shuffle"))
        self.assert_same(points, packed)

    def test_a_batch_is_one_body(self):
        rng = np.random.default_rng(7)
        clouds = [table(*(decimals(rng, count, 2) for _ in range(4))) for count in (40, 0, 7)]
        packed = voxeld.pack(clouds)
        self.assertEqual(packed.query["point_counts"], [40, 0, 7])
        self.assert_same(np.concatenate(clouds), packed)

    def test_a_packer_keeps_no_numbers(self):
        """A packer uses its memory again. Still, what it packs does not depend on earlier points, nor change later."""
        rng = np.random.default_rng(15)
        packers = [uplink.Packer(each) for each in ("auto", 0.01)]
        packed = []
        with mock.patch.object(uplink, "KEPT", 4 * 4 * 900), mock.patch.object(uplink, "PIECE", 1000):
            for count in (900, 20, 1000, 900, 1):
                for columns, dtype in ((4, "float32"), (3, "float32"), (5, "float16")):
                    points = rng.uniform(-9, 9, (count, columns)).astype(dtype)
                    points[:, 0] = np.rint(points[:, 0])
                    for packer in packers:
                        given = {"num_features": columns, "dtype": dtype}
                        found = packer.pack([memoryview(points).cast("B")], given)
                        found.body = list(found.body)
                        packed.append((packer, points, given, found))
            expected = [
                voxeld.pack(points.tobytes(), "auto" if packer is packers[0] else 0.01, **given)
                for packer, points, given, _ in packed
            ]
        for (_, _, _, found), expected in zip(packed, expected):
            self.assertEqual((decoded(found), found.report), (decoded(expected), expected.report))

    def test_no_points(self):
        for points in (np.empty((0, 4), np.float32), b"", [np.empty((0, 3), np.float32)]):
            packed = voxeld.pack(points)
            self.assertEqual((packed.body, packed.headers), ([], {}))
            self.assertEqual((packed.report.sent_bytes, packed.report.ratio), (0, 1))

    def test_gzip_and_zstd(self):
        points = table(*(decimals(np.random.default_rng(8), 2000, 3) for _ in range(4)))
        for encoding in ("gzip", encodings.fastest()):
            packed = voxeld.pack(points, encoding=encoding)
            self.assertEqual((packed.headers, packed.report.encoding), ({"Content-Encoding": encoding}, encoding))
            self.assert_same(points, packed)

    def test_times_stay_floats(self):
        """The service reads times of integers as double: the double 0.1 differs from the float32 0.1."""
        rng = np.random.default_rng(9)
        points = table(*(decimals(rng, 900, 1) for _ in range(4)))
        for fields in ("x,y,z,t", "x, y,  z, t", ["x", "y", "z", "t"], ["x", " y", " z", " t"]):
            with self.subTest(fields):
                packed = voxeld.pack(points, fields=fields, time_field="t")
                self.assertEqual(packed.report.dtype, ("int32", "int32", "int32", "float32"))
        asked = voxeld.pack(points, 0.1, fields=["x", "y", "z", "t"], time_field="t")
        self.assertEqual(asked.report.dtype, ("int32",) * 4)


class Rounded(unittest.TestCase):
    def test_a_resolution_bounds_the_error(self):
        rng = np.random.default_rng(SEED + 1)
        for resolution in (0.001, 0.002, 0.01, 0.25, 3.0):
            points = rng.uniform(-90, 90, (4000, 4)).astype(np.float32)
            packed = voxeld.pack(points, resolution)
            with self.subTest(resolution):
                error = np.abs(restored(packed).astype(np.float64) - points).max()
                self.assertEqual(packed.report.largest_error, error)
                self.assertGreater(error, 0.49 * resolution)
                self.assertLessEqual(error, 0.5 * resolution + 4e-6)  # 4e-6: half a step of float32 at 90
                self.assertEqual(packed.report.dtype, ("int32",) * 4)

    def test_a_coarser_scale_that_is_exact_is_used(self):
        rng = np.random.default_rng(10)
        points = table(decimals(rng, 800, 3), decimals(rng, 800, 1), rng.integers(0, 9, 800), decimals(rng, 800, 6))
        packed = voxeld.pack(points, 0.01)
        self.assertEqual(packed.report.scale, (0.01, 0.1, 1.0, 0.01))
        self.assertGreater(packed.report.largest_error, 0)

    def test_each_column_has_its_resolution(self):
        points = np.random.default_rng(11).uniform(0, 1, (500, 4)).astype(np.float32)
        packed = voxeld.pack(points, (0.001, 0.001, 0.001, 0.25))
        self.assertEqual(packed.report.scale, (0.001, 0.001, 0.001, 0.25))
        with self.assertRaisesRegex(ValueError, "uplink has 3 resolutions for 4 columns"):
            voxeld.pack(points, (0.001, 0.001, 0.001))

    def test_negative_zero_becomes_zero(self):
        packed = voxeld.pack(table([-0.0, 0.5], [1, 2], [3, 4]), 0.001)
        self.assertEqual((packed.report.largest_error, packed.report.scale), (0, (0.1, 1.0, 1.0)))
        self.assertEqual(packed.report.dtype, ("int32",) * 3)
        self.assertFalse(np.signbit(restored(packed)).any())

    def test_a_column_that_is_not_finite_is_rounded_as_floats(self):
        for value in (np.nan, np.inf, -np.inf):
            points = np.random.default_rng(12).uniform(0, 1, (50, 4)).astype(np.float32)
            points[3, 2] = value
            packed = voxeld.pack(points, 0.001)
            self.assertEqual(packed.report.dtype, ("int32", "int32", "float32", "int32"))
            self.assertEqual(packed.report.scale, (0.001,) * 4)
            rows = restored(packed)
            np.testing.assert_array_equal(rows[3, 2], points[3, 2])
            with np.errstate(invalid="ignore"):
                self.assertEqual(packed.report.largest_error, np.nanmax(np.abs(rows.astype(np.float64) - points)))
            self.assertLess(packed.report.largest_error, 0.00051)
            points[9, 2] = 2147484
            with self.assertRaisesRegex(ValueError, "column 2 reaches 2.14748e.06, which int32 cannot hold"):
                voxeld.pack(points, 0.001)
        self.assertEqual(voxeld.pack(np.full((9, 4), np.nan, np.float32), 0.001).report.largest_error, 0)

    def test_a_number_that_does_not_fit_raises(self):
        points = np.zeros((9, 4), np.float32)
        for value in (2147484, -2147484, 3e38):
            points[5, 3] = value
            with self.assertRaisesRegex(ValueError, "column 3 reaches .* int32 cannot hold in units of 0.001"):
                voxeld.pack(points + np.float32(0.0005), 0.001)
        points[5, 3] = 3.4e38  # three units are more than float32 holds
        with self.assertRaisesRegex(ValueError, "column 3"):
            voxeld.pack(points, 1.2e38)

    def test_halves(self):
        points = np.random.default_rng(13).uniform(-9, 9, (50, 4)).astype(np.float16)
        packed = voxeld.pack(points, 0.5)
        self.assertLessEqual(np.abs(restored(packed) - points.astype(np.float32)).max(), 0.25)


class Arguments(unittest.TestCase):
    def test_what_uplink_may_be(self):
        for wrong in ("Auto", "0.001", 0, -1, np.nan, np.inf, (), (0.1, 0), True, [[0.1]], None):
            with self.subTest(wrong), self.assertRaisesRegex(ValueError, 'uplink is .* expected "auto"'):
                voxeld.pack(b"", wrong)
        with self.assertRaisesRegex(ValueError, "allowed: gzip, zstd"):
            voxeld.Client(uplink="auto", encoding="br")
        with self.assertRaisesRegex(ValueError, "shared_memory or uplink"):
            voxeld.Client(uplink="auto", shared_memory=True)

    def test_bytes_that_are_not_rows(self):
        with self.assertRaisesRegex(ValueError, "33 bytes, which are not rows of 4 columns of float32"):
            voxeld.pack(bytes(33))

    def test_other_bodies_are_only_compressed(self):
        for given in ({"format": "pcd"}, {"dtype": "int16"}, {"scale": 0.1}, {"filter": "shuffle"}):
            with self.subTest(given):
                packed = voxeld.pack(b"abc" * 100, 0.001, **given)
                self.assertEqual((decoded(packed), packed.query), (b"abc" * 100, {}))
                self.assertEqual((packed.report.dtype, packed.report.plain_bytes), ((), 300))


class Answers(unittest.TestCase):
    def decode(self, name, body):
        headers = {"content-encoding": name}
        return encodings.decode(connection.Answer(200, "OK", headers, np.frombuffer(body, np.uint8))).body.tobytes()

    def test_answers_are_decoded(self):
        content = np.random.default_rng(30).integers(0, 9, 500_000).astype(np.uint8).tobytes()
        for name in {"gzip", encodings.fastest()}:
            for given in (content, content[:1], b""):
                coded = b"".join(encodings.encoder_of(name)([memoryview(given)]))
                self.assertEqual(self.decode(name, coded), given)
            for damaged in (coded[:-1], b"", b"no " + name.encode()):
                with self.subTest(name, damaged=damaged[:9]), self.assertRaises(voxeld.BadAnswer):
                    self.decode(name, damaged)
            with mock.patch.object(encodings, "LARGEST_ANSWER", 1000), self.assertRaisesRegex(voxeld.BadAnswer, "1000"):
                self.decode(name, b"".join(encodings.encoder_of(name)([memoryview(content)])))
        with self.assertRaisesRegex(voxeld.BadAnswer, "'br'"):
            self.decode("br", b"abc")

    def ask(self, act):
        with RudeServer(act) as server, voxeld.Client(url_of(server), uplink="auto", retries=0) as client:
            return client.points(np.zeros((9, 4), np.float32))

    def coded(self, name, content, status=200, kind="application/vnd.safetensors"):
        coded = b"".join(encodings.encoder_of(name)([memoryview(content)]))
        return answer(status, {"Content-Type": kind, "Content-Encoding": name}, coded)

    def test_answers_are_decoded_as_they_arrive(self):
        """The last bytes of an answer are sent after the bytes before them were decoded."""
        for name in {"gzip", encodings.fastest()}:
            whole, taken = self.coded(name, DAMAGED["none"]), threading.Semaphore(0)

            def halves(talk, whole=whole, taken=taken):
                talk.read_body()
                talk.socket.sendall(whole[:-50])
                self.assertTrue(taken.acquire(timeout=PATIENCE))
                talk.socket.sendall(whole[-50:])

            def take(decoding, coded, taken=taken, own=encodings.Decoding.take):
                own(decoding, coded)
                taken.release()

            with self.subTest(name), mock.patch.object(encodings.Decoding, "take", take):
                self.assertTrue(self.ask(halves))
                self.assertTrue(taken.acquire(blocking=False))  # for the second half

    def test_an_answer_that_arrives_damaged(self):
        for name in {"gzip", encodings.fastest()}:
            whole = self.coded(name, DAMAGED["none"])
            _, _, body = whole.partition(b"\r\n\r\n")
            kinds = {"Content-Type": "application/vnd.safetensors", "Content-Encoding": name}
            for coded, reason in (
                (b"no " + body, f"cannot be decoded as {name}"),
                (body[:-1], f"ends before its {name} data do"),
                (b"", f"ends before its {name} data do"),
                (body + b"x", f"goes on after its {name} data"),
            ):
                with self.subTest(name, size=len(coded)), self.assertRaisesRegex(voxeld.BadAnswer, reason):
                    self.ask(answer(200, kinds, coded))
            with mock.patch.object(encodings, "LARGEST_ANSWER", 100), self.assertRaisesRegex(
                voxeld.BadAnswer, "100 by"
            ):
                self.ask(whole)
            with self.assertRaises(voxeld.Problem) as caught:  # a proxy's
                self.ask(answer(500, {"Content-Type": "text/html", "Content-Encoding": name}, b"<p>no"))
            self.assertEqual(caught.exception.status, 500)

    def test_an_encoding_that_nobody_asked_for(self):
        unasked = answer(200, {"Content-Type": "application/json", "Content-Encoding": "zstd"}, b"{}")
        with mock.patch.object(encodings, "MODULES", ()), RudeServer(unasked) as server:
            with voxeld.Client(url_of(server), uplink="auto", retries=0) as client:
                with self.assertRaisesRegex(voxeld.BadAnswer, "zstandard"):
                    client.points(np.zeros((9, 4), np.float32))
                with mock.patch.object(encodings.Decoding, "take", side_effect=AssertionError):
                    self.assertEqual(client.status(), {})  # status() decodes nothing


class Sending(unittest.TestCase):
    TENSORS = answer(200, {"Content-Type": "application/vnd.safetensors"}, DAMAGED["none"])

    def points(self, count):
        return np.random.default_rng(40).uniform(-9, 9, (count, 4)).astype(np.float32)

    def test_only_a_large_body_goes_in_chunks(self):
        with RudeServer(self.TENSORS) as server, voxeld.Client(url_of(server), uplink=0.01) as client:
            client.points(self.points(4096))
            client.points(self.points(4097))
            small, large = server.heads
        self.assertNotIn("Transfer-Encoding", small)
        self.assertNotIn("Content-Length", large)
        self.assertIn("Transfer-Encoding: chunked", large)

    def test_a_request_that_is_sent_again_has_the_same_body(self):
        points, bodies = self.points(70_000), []
        expected = voxeld.pack(points, 0.01)

        def lose(talk):
            talk.socket.recv(1000)
            talk.reset()

        def take(talk):
            bodies.append(talk.read_body())
            talk.socket.sendall(problem(503) if len(bodies) < 2 else self.TENSORS)

        with RudeServer(lose, take) as server:
            with voxeld.Client(url_of(server), uplink=0.01, backoff=0.001) as client:
                result, sent = client.points(points), client.sent
        self.assertEqual(len(server.heads), 3)
        self.assertEqual(bodies, [b"".join(expected.body)] * 2)
        self.assertGreater(len(expected.body), 10)  # frames
        self.assertEqual(result.uplink, expected.report)
        self.assertEqual((sent.plain_bytes, sent.sent_bytes), (points.nbytes, expected.report.sent_bytes))

    def test_a_number_that_int32_cannot_hold_is_found_first(self):
        points = self.points(70_000)
        points[-1, 3] = 3e9
        with RudeServer(self.TENSORS) as server, voxeld.Client(url_of(server), uplink=1.0) as client:
            with self.assertRaisesRegex(ValueError, "column 3 reaches 3e.09, which int32 cannot hold"):
                client.points(points)
            self.assertEqual((server.connections, client.sent.plain_bytes), (0, 0))


class Models(unittest.TestCase):
    """The service takes the number of columns from a model."""

    def target(self, page, **given):
        """The target of a request to a model with this page, with 60 numbers: 15 rows of 4, or 12 rows of 5."""
        sound = answer(200, {"Content-Type": "application/vnd.safetensors"}, DAMAGED["none"])
        with RudeServer(status_document(json.dumps(page)), sound) as server:
            with voxeld.Client(url_of(server), uplink="auto") as client:
                client.detect(np.arange(60, dtype=np.float32).tobytes(), "five", **given)
            self.assertEqual(server.heads[0].split(" ")[1], "/v1/models/five")
            return server.heads[-1].split(" ")[1]

    def test_bytes_have_the_columns_of_the_model(self):
        page = {"name": "five", "ready": True, "voxelize": {"num_features": 5, "dtype": "float32"}}
        self.assertIn("num_features=5", self.target(page))
        self.assertIn("num_features=4", self.target(page, stream="roof", time_column=True))
        self.assertNotIn("dtype", self.target({"name": "five", "ready": False}))


class Served(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        five = {"description": "five columns", "operation": "voxelize", "parameters": {**GRID, "num_features": 5}}
        packed = {**five, "parameters": {**GRID, "dtype": "int16"}}
        four = {**five, "parameters": GRID}
        both = {**five, "fps": {"num_features": 3, "num_samples": 50}}
        for name, preset in (("five", five), ("packed", packed), ("four", four), ("both", both)):
            pathlib.Path(folder, f"{name}.json").write_text(json.dumps(preset), encoding="utf-8")
        cls.daemon = cls.enterClassContext(Daemon("--presets-dir", folder))
        cls.plain, cls.exact, cls.rounded = (
            cls.enterClassContext(voxeld.Client(url_of(cls.daemon), uplink=uplink)) for uplink in (None, "auto", 0.01)
        )

    def assert_same(self, expected, result):
        self.assertEqual(list(expected), list(result))
        for name, tensor in expected.items():
            self.assertEqual(tensor.tobytes(), result[name].tobytes(), name)

    def clouds(self):
        rng = np.random.default_rng(20)
        decimal = table(*(decimals(rng, 3000, 3, 9) for _ in range(4)))
        mixed = decimal.copy()
        mixed[:, 1:3] = rng.uniform(-9, 9, (3000, 2))
        mixed[5:9, 2] = np.nan, -0.0, np.inf, 1e-45
        noise = rng.uniform(-9, 9, (3000, 4)).astype(np.float32)
        return {"decimal": decimal, "mixed": mixed, "any": noise, "turns": turns(rng, 3, 1000)}

    def test_every_bit(self):
        for piece, (name, points) in itertools.product((uplink.PIECE, 5000), self.clouds().items()):
            with self.subTest(name, piece=piece), mock.patch.object(uplink, "PIECE", piece):  # also in chunks
                result = self.exact.points(points)
                self.assert_same(self.plain.points(points), result)
                self.assert_same(self.plain.voxelize(points, **GRID), self.exact.voxelize(points, **GRID))
                self.assertIsNone(self.plain.points(points).uplink)
                self.assertEqual(result.uplink, voxeld.pack(points).report)
        halves = self.clouds()["any"].astype(np.float16)
        self.assert_same(self.plain.points(halves), self.exact.points(halves))

    def test_a_resolution(self):
        points = self.clouds()["any"]
        result = self.rounded.points(points)
        self.assertEqual(result.uplink.largest_error, np.abs(result["points"].astype(np.float64) - points).max())
        self.assertLess(result.uplink.largest_error, 0.0051)
        np.testing.assert_array_equal(result["points"], restored(voxeld.pack(points, 0.01)))

    def test_gzip(self):
        points = self.clouds()["decimal"]
        with voxeld.Client(url_of(self.daemon), uplink="auto", encoding="gzip") as client:
            result = client.points(points)
        self.assert_same(self.plain.points(points), result)
        self.assertEqual(result.uplink.encoding, "gzip")

    def test_answers_come_shuffled(self):
        points = self.clouds()["any"]
        more = ("voxels", "voxel_point_mask", "point_voxel_ids")  # 3, 2 and 1 dimensions; the mask is of uint8
        for dtype in ("float32", "float16"):
            given = {**GRID, "feature": ("points", "mean"), "outputs": more, "feature_dtype": dtype}
            with mock.patch.object(reading, "tensors", side_effect=reading.tensors) as read:
                self.assert_same(self.plain.voxelize(points, **given), self.exact.voxelize(points, **given))
                self.assert_same(self.plain.voxelize(b"", **given), self.exact.voxelize(b"", **given))
            kinds = [call.args[0].headers["content-type"] for call in read.call_args_list]
            self.assertEqual(kinds, [reading.TENSORS, reading.SHUFFLED] * 2)

    def test_another_filter_of_an_answer(self):
        file = bytearray(self.plain.file_bytes("voxelize", self.clouds()["any"], reading.SHUFFLED, **GRID))
        place = file.index(b'"shuffle"')
        room = tensors.buffer(len(file))
        for filters in (b'"shufflf"', b"[1,2,345]", b"123456789", b"     null"):
            file[place : place + 9] = filters
            room[:] = np.frombuffer(file, np.uint8)
            with self.subTest(filters), self.assertRaisesRegex(voxeld.BadAnswer, "it has the filter"):
                tensors.parse(room)

    def test_answers_of_a_service_that_does_not_shuffle(self):
        sound = answer(200, {"Content-Type": "application/vnd.safetensors"}, DAMAGED["none"])
        with RudeServer(sound) as server, voxeld.Client(url_of(server), uplink="auto") as client:
            self.assertTrue(client.voxelize(self.clouds()["any"], **GRID))
            accept = next(line for line in server.heads[0].splitlines() if line.startswith("Accept: "))
        self.assertEqual(accept, "Accept: application/x-shuffled-safetensors, application/vnd.safetensors;q=0.9")

    def test_answers_come_compressed(self):
        points = self.clouds()["any"]
        for encoding in {"gzip", encodings.fastest()}:
            with voxeld.Client(url_of(self.daemon), uplink="auto", encoding=encoding) as client:
                with mock.patch.object(encodings, "decode", side_effect=encodings.decode) as decode:
                    self.assert_same(self.plain.voxelize(points, **GRID), client.voxelize(points, **GRID))
                    (answer,), _ = decode.call_args
                self.assertEqual(answer.headers["content-encoding"], encoding)

    def test_batches(self):
        clouds = [cloud[:count] for cloud, count in zip(self.clouds().values(), (3000, 0, 17))]
        self.assert_same(self.plain.voxelize(clouds, **GRID), self.exact.voxelize(clouds, **GRID))
        self.assert_same(self.plain.points(clouds), self.exact.points(clouds))

    def test_bytes(self):
        points = self.clouds()["decimal"]
        body = points.tobytes()
        self.assert_same(self.plain.points(points), self.exact.points(body))
        rows = {"num_features": 3}
        self.assert_same(self.plain.points(body, **rows), self.exact.points(body, **rows))
        for fields in ("x,y,z,i,t,u", "x, y, z, i, t, u"):  # the service drops spaces after commas
            named = {"fields": fields, "time_field": "t", "time_unit": "ms", "time_origin": "first"}
            self.assert_same(self.plain.points(body, **named), self.exact.points(body, **named))
        self.assert_same(self.plain.points(b""), self.exact.points(b""))

    def test_the_service_refuses_a_number_of_columns(self):
        points = self.clouds()["decimal"].tobytes()
        for wrong in (0, -1, 2, 65, "x", "", 4.5, 10**30):
            for client in (self.plain, self.exact, self.rounded):
                with self.subTest(wrong), self.assertRaises(voxeld.Problem) as caught:
                    client.points(points[: 65 * 16], num_features=wrong)
                self.assertEqual((caught.exception.status, caught.exception.parameter), (400, "num_features"))

    def test_bytes_have_the_columns_of_the_preset(self):
        points = np.tile(self.clouds()["decimal"], 2)[:, :5]
        for _ in range(2):
            self.assert_same(
                self.plain.voxelize(points.tobytes(), "five"), self.exact.voxelize(points.tobytes(), "five")
            )
        for client in (self.plain, self.exact):
            with self.assertRaises(voxeld.Problem) as caught:
                client.voxelize(points.tobytes(), "fivee")
            self.assertEqual((caught.exception.status, caught.exception.parameter), (400, "preset"))

    def test_a_preset_has_rows_for_each_operation(self):
        points = self.clouds()["decimal"][:2000, :3].tobytes()  # 6000 numbers are also whole rows of 4 and of 5
        self.assert_same(self.plain.fps(points, preset="both"), self.exact.fps(points, preset="both"))
        self.assert_same(self.plain.voxelize(points, "both"), self.exact.voxelize(points, "both"))
        self.assertEqual(len(self.exact.fps(points, preset="both").uplink.dtype), 3)

    def test_the_caller_may_send_packed_rows(self):
        points = self.clouds()["decimal"]
        rows = np.rint(points * 1000).astype("<i2")
        expected = self.plain.voxelize(points, **GRID)
        for client in (self.plain, self.exact, self.rounded):
            self.assert_same(expected, client.voxelize(rows.tobytes(), "packed", scale=[0.001] * 4))
        self.assert_same(self.plain.voxelize(points, "packed"), self.exact.voxelize(points, "packed"))

    def test_rows_are_only_compressed_if_the_page_cannot_be_read(self):
        """The preset may have other columns or times, and only the page says so."""
        points = self.clouds()["decimal"]
        unread = voxeld.Problem.of(403, "Forbidden", {}, b"")
        pages = (unread, voxeld.BadAnswer("not a page"), {"name": "five"})
        for page in pages:
            for told, preset in ((points[:, :3].tobytes() * 5, "five"), (points, "four")):
                with self.subTest(page, preset=preset), voxeld.Client(url_of(self.daemon), uplink=0.01) as client:
                    with mock.patch.object(client._calls, "get", side_effect=[page]):
                        result = client.voxelize(told, preset)
                    self.assert_same(self.plain.voxelize(told, preset), result)
                    self.assertEqual((result.uplink.dtype, result.uplink.scale), ((), ()))
                    self.assertLess(result.uplink.ratio, 1)
                    self.assertEqual(client.voxelize(points, **GRID).uplink.dtype, ("int32",) * 4)  # needs no page

    def test_the_page_is_asked_until_it_is_read(self):
        points = np.tile(self.clouds()["decimal"], 2)[:, :5].tobytes()
        with voxeld.Client(url_of(self.daemon), uplink="auto") as client:
            read, unread = client._calls.get, {"name": "five"}
            with mock.patch.object(client._calls, "get", side_effect=[unread]):
                self.assertEqual(client.voxelize(points, "five").uplink.dtype, ())
            with mock.patch.object(client._calls, "get", side_effect=read) as asked:
                for _ in range(3):
                    self.assertEqual(client.voxelize(points, "five").uplink.dtype, ("int32",) * 5)
                self.assertEqual(asked.call_count, 1)

    def test_formats_are_compressed(self):
        header = "VERSION .7\nFIELDS x y z\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH 1000\nHEIGHT 1\nPOINTS 1000\n"
        file = (header + "DATA ascii\n" + "1 2 3\n" * 1000).encode()
        result = self.exact.points(file, format="pcd", num_features=3)
        self.assert_same(self.plain.points(file, format="pcd", num_features=3), result)
        self.assertLess(result.uplink.ratio, 0.1)

    def test_streams(self):
        points = self.clouds()["decimal"]
        plain, exact = (
            client.stream(f"sensor{number}", 3, keep=True, **GRID, time_column="yes")
            for number, client in enumerate((self.plain, self.exact))
        )
        for time in range(5):
            pose = [time / 7, 0, 0, 1, 0, 0, 0]
            self.assert_same(plain.send(points, pose, time), exact.send(points, pose, time))
        for client, name in ((self.plain, "sensor0"), (self.exact, "sensor1")):
            client.stream(name, 1).delete()  # the service then lacks the older sweeps, as after a restart
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", voxeld.StreamWarning)
            results = [stream.send(points, [1, 0, 0, 1, 0, 0, 0], 9) for stream in (plain, exact)]
        self.assertEqual([len(result.stream.sweeps) for result in results], [3, 3])
        self.assert_same(*results)

    def test_sums(self):
        points = self.clouds()["any"]
        with voxeld.Client(url_of(self.daemon), uplink=0.01) as client:
            self.assertEqual(client.sent.plain_bytes, 0)
            results = [client.points(points[:count]) for count in (3000, 20)]
            self.assertEqual(client.sent.plain_bytes, 3020 * 16)
            self.assertEqual(client.sent.sent_bytes, sum(result.uplink.sent_bytes for result in results))
            self.assertEqual(client.sent.largest_error, results[0].uplink.largest_error)
        self.assertIsNone(self.plain.sent)

    def test_command_line(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        points = self.clouds()["any"]
        points.tofile(folder / "a.bin")
        np.save(folder / "b.npy", points)
        service = ("--server", url_of(self.daemon))
        for given, bound in ((("auto",), 0), (("0.01",), 0.0051), (("0.01,0.01,0.01,1",), 0.51)):
            output = folder / given[0]
            done = run("points", folder / "a.bin", folder / "b.npy", "-o", output, "--uplink", *given, *service)
            self.assertEqual(done.counts["done"], 2, done)
            self.assertRegex(done.errors, r"points: sent as (zstd|gzip), in [0-9.]+% of their 96000 bytes; largest ")
            for name in ("a", "b"):
                tensors, _ = parse_by_hand((output / f"{name}.safetensors").read_bytes())
                error = np.abs(tensors["points"] - points).max()
                self.assertTrue(error <= bound and (error > bound / 2 or not bound), error)
        for uplink, status in (("0.01", 0), ("0.02", 2)):  # the folder has answers of points rounded to 0.01
            done = run("points", folder / "a.bin", "-o", folder / "0.01", "--uplink", uplink, *service)
            self.assertEqual(done.status, status, done)
        done = run("points", folder / "a.bin", "-o", folder / "c", "--uplink", "fine", *service)
        self.assertEqual(done.status, 2)
        self.assertIn("'fine' is not auto, or numbers above 0", done.errors)


if __name__ == "__main__":
    unittest.main()
