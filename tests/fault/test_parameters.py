"""Bad parameters and bad bodies get a status and a reason. Odd points are counted."""

import math
import struct
import unittest
import urllib.parse

from client import GRID, VOXELIZE, FaultCase, rows

SAMPLE_NUMBERS = ("-1", "1.5", "x", "", "1,", ",1", "1,,1", "+1", " 1", "0x1", "2147483648", "99999999999999999999")
SAMPLE_NUMBERS += ("1,1", ",".join(["1"] * 1025), "1;1", "nan", "on")
STARTS = ("-1", "1.5", "x", "", "0,0", "2147483648", "99999999999999999999")
HUGE = "-1000000,-1000000,-1000000,1000000,1000000,1000000"


class Parameters(FaultCase):
    def refuse(self, status, parameter, given, **others):
        """Checks that a query with this value is refused, and that the problem names the parameter."""
        query = dict(urllib.parse.parse_qsl(GRID)) | others | {parameter: given}
        reply = self.daemon.post("/v1/voxelize?" + urllib.parse.urlencode(query, safe=","), rows(4))
        problem = self.assert_problem(reply, status, parameter)
        if status == 400 and 0 < len(given) < 60 and given.isprintable():
            self.assertIn(parameter, problem["detail"], problem)

    def test_voxel_size_zero_or_negative(self):
        for given in ("0,0.5,0.5", "0.5,-0.5,0.5", "0.5,0.5,-0", "0.5,0.5,1e-60"):
            with self.subTest(given):
                self.refuse(400, "voxel_size", given)

    def test_values_that_are_not_floats(self):
        for given in (
            "nan,1,1",
            "inf,1,1",
            "1,1,-inf",
            "1e39,1,1",
            "1e400,1,1",
            "0x1,1,1",
            "1,1",
            "1,1,1,1",
            "1,,1",
            "1,1,1,",
            ",1,1",
            "",
            "1;1;1",
            "1,1,1x",
            "a,b,c",
            "1 ,1,1",
            "1,1,1e",
            "--1,1,1",
            "1,1,.",
            "%zz,1,1",
        ):
            with self.subTest(given):
                self.refuse(400, "voxel_size", given)
        for given in ("0,0,0,1,1", "0,0,0,1,1,1,1", "0,0,0,1,1,nan", "0,0,0,1,1,1e300", "off"):
            with self.subTest(given):
                self.refuse(400, "point_cloud_range", given)

    def test_detail_names_what_was_given_and_what_is_allowed(self):
        reply = self.daemon.post(VOXELIZE + "&num_features=65", rows(4))
        self.assert_problem(reply, 400, "num_features", ("65", "3", "64"))
        reply = self.daemon.post(VOXELIZE + "&order=random", rows(4))
        self.assert_problem(reply, 400, "order", ("random", "first", "key"))

    def test_min_above_max(self):
        for given in ("10,-10,-2,-10,10,2", "-10,-10,2,10,10,-2", "0,0,0,0,0,0"):
            with self.subTest(given):
                self.refuse((400, 422), "point_cloud_range", given)

    def test_range_missing(self):
        reply = self.daemon.post("/v1/voxelize?voxel_size=1,1,1", rows(4))
        self.assert_problem(reply, 400, "point_cloud_range")
        reply = self.daemon.post("/v1/voxelize?point_cloud_range=0,0,0,1,1,1", rows(4))
        self.assert_problem(reply, 400, "voxel_size")

    def test_grid_without_a_cell(self):
        reply = self.daemon.post("/v1/voxelize?point_cloud_range=0,0,0,1,1,0.4&voxel_size=1,1,1", rows(4))
        self.assert_problem(reply, 422)

    def test_axis_of_more_than_31_bits(self):
        for given in ("0.0009,1,1", "1,0.0000001,1", "1,1,1e-30"):
            with self.subTest(given):
                reply = self.daemon.post(f"/v1/voxelize?point_cloud_range={HUGE}&voxel_size={given}", rows(4))
                self.assert_problem(reply, 422)
        reply = self.daemon.post("/v1/voxelize?point_cloud_range=-3e38,0,0,3e38,1,1&voxel_size=1,1,1", rows(4))
        self.assert_problem(reply, 422)

    def test_grid_product_of_more_than_62_bits(self):
        reply = self.daemon.post(f"/v1/voxelize?point_cloud_range={HUGE}&voxel_size=0.001,0.001,0.001", rows(4))
        self.assert_problem(reply, 422)
        largest = f"/v1/voxelize?point_cloud_range={HUGE}&voxel_size=0.001,0.001,2000000"
        self.assert_voxels(self.daemon.post(largest, rows(4)))
        self.assert_problem(self.daemon.post(largest + "&point_counts=2,2", rows(4)), 422)

    def test_integers_out_of_bounds_or_malformed(self):
        for name, values in (
            ("num_features", ("2", "65", "0", "-4", "4.0", "4x", "", "+4", " 4", "0x4", "99999999999999999999", "4,4")),
            ("max_points_per_voxel", ("-1", "1025", "4294967297", "1e2")),
            ("max_voxels", ("0", "16777217", "-1", "18446744073709551617")),
            ("seed", ("-1", "2147483648", "1.5", "")),
            ("timeout_ms", ("-1", "x", "1.5", "99999999999")),
            ("fps", SAMPLE_NUMBERS),
            ("start", STARTS),
        ):
            others = {"fps": "1"} if name == "start" else {}
            for given in values:
                with self.subTest(parameter=name, given=given):
                    self.refuse(400, name, given, **others)

    def test_words_that_are_not_allowed(self):
        for name, values in (
            ("feature", ("max", "mean,max", "", "mean,", ",mean", "MEAN", "mean;points")),
            ("feature_dtype", ("float64", "half", "")),
            ("dtype", ("int64", "bfloat16")),
            ("order", ("random", "FIRST", "")),
            ("fill", ("nan", "")),
            ("max_voxels_by", ("random", "NEAR", "near,full", "")),
            ("max_points_by", ("near", "Random", "")),
            ("outputs", ("voxel", "voxel_coords,", "__metadata__", "_padding_0", "", "sampled_points")),
            ("preset", ("nobody", "../voxeld", "..", "", "a" * 300, "kitti_second.json")),
            (
                "block_filter",
                (
                    "on",
                    "1,1,0",
                    "1,1,0,1,1",
                    "0,1,0,1",
                    "1,0,0,1",
                    "1,33,0,1",
                    "-1,1,0,1",
                    "1,1,nan,1",
                    "1.5,1,0,1",
                    "",
                ),
            ),
        ):
            for given in values:
                with self.subTest(parameter=name, given=given):
                    self.refuse(400, name, given)

    def test_no_cap_with_a_tensor_as_wide_as_the_cap(self):
        for query in ("feature=points", "feature=mean,pillar", "feature=mean&outputs=voxel_point_mask"):
            with self.subTest(query):
                reply = self.daemon.post(VOXELIZE + "&max_points_per_voxel=0&" + query, rows(4))
                self.assert_problem(reply, 422)

    def test_output_that_no_feature_computes(self):
        reply = self.daemon.post(VOXELIZE + "&feature=mean&outputs=voxels", rows(4))
        self.assert_problem(reply, (400, 422), "outputs")

    def test_unknown_parameter(self):
        for query in ("voxelsize=1", "Preset=kitti_second", "x", "=1", "num_features%00=4", "%zz=1", "%=1"):
            with self.subTest(query):
                self.assert_problem(self.daemon.post(f"{VOXELIZE}&{query}", rows(4)), 400)
        self.assert_problem(self.daemon.post(VOXELIZE + "&colour=red", rows(4)), 400, mentions=("colour",))

    def test_repeated_parameter(self):
        for query in (
            "num_features=4&num_features=4",
            "voxel_size=0.5,0.5,0.5",
            "order=key&order=first",
            "order=key&%6frder=key",
        ):
            with self.subTest(query):
                reply = self.daemon.post(f"{VOXELIZE}&{query}", rows(4))
                self.assert_problem(reply, 400, query.partition("=")[0])
        reply = self.daemon.post("/v1/voxelize?preset=kitti_second&preset=kitti_second", rows(4))
        self.assert_problem(reply, 400, "preset")

    def test_parameter_without_value(self):
        for query in ("order", "order="):
            with self.subTest(query):
                self.assert_problem(self.daemon.post(f"{VOXELIZE}&{query}", rows(4)), 400, "order")

    def test_nul_in_the_query(self):
        for query in (
            "order=key%00",
            "order=%00key",
            "num_features=4%00",
            "num_features=%004",
            "preset=kitti_second%00",
            "feature=mean%00,points",
        ):
            with self.subTest(query):
                self.assert_problem(self.daemon.post(f"{VOXELIZE}&{query}", rows(4)), 400)

    def test_percent_rubbish_in_the_query(self):
        for query in (
            "order=%zz",
            "order=%",
            "order=key%",
            "order=%6",
            "order=%G0",
            "order=key%ff",
            "%00",
            "%",
            "%%%",
            "&&",
        ):
            with self.subTest(query):
                # The daemon may ignore or refuse empty items.
                reply = self.daemon.post(f"{VOXELIZE}&{query}", rows(4))
                if query == "&&" and reply.status == 200:
                    continue
                self.assert_problem(reply, 400)

    def test_percent_escapes_that_are_good(self):
        reply = self.daemon.post("/v1/voxelize?%70reset=kitti%5Fsecond&order=k%65y", rows(4))
        self.assertEqual(self.assert_voxels(reply)["parameters"]["order"], "key")
        reply = self.daemon.post("/v1/voxelize?" + urllib.parse.quote(GRID, safe="=&"), rows(4))
        self.assert_voxels(reply)

    def test_very_many_parameters(self):
        for number, status in ((900, 400), (2000, 431)):
            reply = self.daemon.post(VOXELIZE + "".join(f"&p{n}=1" for n in range(number)), rows(4))
            self.assert_problem(reply, status)

    def test_answer_over_the_response_limit(self):
        # 20000 voxels of 1024 points of 10 columns would be 800 MB.
        body = b"".join(struct.pack("<4f", n % 200 * 0.1, n // 200 * 0.1, 0, 0) for n in range(20000))
        query = "point_cloud_range=0,0,-1,20,10,1&voxel_size=0.1,0.1,2&max_points_per_voxel=1024&feature=pillar"
        self.assert_problem(self.daemon.post("/v1/voxelize?" + query, body), 422)


class Samples(FaultCase):
    """/v1/fps, and fps on /v1/voxelize, of four points."""

    def fps(self, query, body=None):
        return self.daemon.post("/v1/fps?" + query, rows(4) if body is None else body)

    def test_values_that_are_not_numbers(self):
        for name, values in (("num_samples", SAMPLE_NUMBERS), ("start", STARTS)):
            for given in values:
                with self.subTest(parameter=name, given=given[:40]):
                    query = {"num_samples": "1"} | {name: given}
                    self.assert_problem(self.fps(urllib.parse.urlencode(query, safe=",")), 400, name)

    def test_missing_repeated_unknown(self):
        for parameter, query in (
            ("num_samples", ""),
            ("num_samples", "start=0"),
            ("num_samples", "num_samples"),
            ("num_samples", "num_samples=1&num_samples=1"),
            ("preset", "num_samples=1&preset=kitti_second"),
            ("voxel_size", "num_samples=1&voxel_size=1,1,1"),
            ("fps", "fps=1"),
            ("outputs", "num_samples=1&outputs=voxels"),
            ("outputs", "num_samples=1&outputs=sampled_points,sampled_points"),
        ):
            with self.subTest(query):
                self.assert_problem(self.fps(query), 400, parameter)
        for query in ("num_samples=1%00", "num_samples=%001", "num_samples=%zz", "num_samples%00=1"):
            with self.subTest(query):
                self.assert_problem(self.fps(query), 400)

    def test_more_than_there_is(self):
        for query in (
            "num_samples=5",
            "num_samples=2147483647",
            "num_samples=3&point_counts=2,2",
            "num_samples=1&start=4",
        ):
            with self.subTest(query):
                self.assert_problem(self.fps(query), 422, "start" if "start" in query else "num_samples")
        self.assert_problem(self.fps("num_samples=1", b""), 422, "num_samples")
        for query in ("fps=5", "fps=2147483647", "fps=1&start=4", "fps=1&point_counts=4,0"):
            with self.subTest(query):
                self.assert_problem(self.daemon.post(f"{VOXELIZE}&{query}", rows(4)), 422)

    def test_points_that_are_not_finite(self):
        nothing = struct.pack("<8f", math.nan, 0, 0, 0, 0, -math.inf, 0, 0)
        self.assert_problem(self.fps("num_samples=1", nothing), 422)
        self.assert_problem(self.daemon.post(VOXELIZE + "&fps=1", nothing), 422)
        metadata = self.assert_voxels(self.fps("num_samples=0", nothing))
        self.assertEqual(metadata["points"], {"received": 2, "kept": 0, "not_finite": 2})

    def test_any_bytes_are_rows(self):
        for dtype in ("float32", "float16"):
            self.assertEqual(self.fps(f"num_samples=20&dtype={dtype}", bytes(range(256)) * 64).status, 200)
            self.assert_problem(self.fps(f"num_samples=1&dtype={dtype}", b"\xff" * 16384), 422)

    def test_body_that_is_not_whole_rows(self):
        self.assert_problem(self.fps("num_samples=0", rows(4)[:-1]), 400)
        self.assert_problem(self.fps("num_samples=1&point_counts=3"), 400, "point_counts")


class Bodies(FaultCase):
    def counts(self, body, query=""):
        return self.assert_voxels(self.daemon.post(VOXELIZE + query, body))["points"]

    def test_not_whole_rows(self):
        for size in (1, 15, 17, 1601):
            with self.subTest(size):
                self.assert_problem(self.daemon.post(VOXELIZE, rows(200)[:size]), 400)
        self.assert_problem(self.daemon.post(VOXELIZE + "&num_features=5", rows(4)), 400)
        self.assert_problem(self.daemon.post(VOXELIZE + "&dtype=float16&num_features=3", bytes(16)), 400)

    def test_not_whole_rows_chunked(self):
        reply = self.daemon.post(VOXELIZE, iter([rows(4), b"abc"]), {"Transfer-Encoding": "chunked"})
        self.assert_problem(reply, 400)

    def test_empty_body(self):
        for headers in ({}, {"Transfer-Encoding": "chunked"}):
            reply = self.daemon.post(VOXELIZE, iter([]) if headers else b"", headers)
            metadata = self.assert_voxels(reply)
            self.assertEqual(metadata["points"]["received"], 0)
            self.assertEqual(metadata["voxels"]["kept"], 0)

    def test_one_point(self):
        self.assertEqual(self.counts(rows(1))["kept"], 1)

    def test_nan_and_infinity_are_counted(self):
        good, body = (0.0, 0.0, 0.0, 0.0), b""
        for axis in range(3):
            for value in (math.nan, math.inf, -math.inf):
                row = list(good)
                row[axis] = value
                body += struct.pack("<4f", *row)
        counts = self.counts(body + struct.pack("<4f", *good))
        self.assertEqual((counts["not_finite"], counts["kept"], counts["received"]), (9, 1, 10))

    def test_points_with_features_that_are_not_finite_are_kept(self):
        counts = self.counts(struct.pack("<8f", 0, 0, 0, math.nan, 1, 1, 1, math.inf))
        self.assertEqual(counts["kept"], 2)

    def test_1e30_is_out_of_range(self):
        body = b"".join(
            struct.pack("<4f", *row) for row in ((1e30, 0, 0, 0), (0, -1e30, 0, 0), (0, 0, 3.4e38, 0), (0, 0, 0, 0))
        )
        counts = self.counts(body)
        self.assertEqual((counts["out_of_range"], counts["kept"]), (3, 1))

    def test_point_counts_that_do_not_add_up(self):
        for given in ("3", "5", "2,1", "4,1", "0", "2147483647", "2147483647,2147483647,6"):
            with self.subTest(given):
                reply = self.daemon.post(f"{VOXELIZE}&point_counts={given}", rows(4))
                self.assert_problem(reply, 400, "point_counts")

    def test_point_counts_that_are_no_counts(self):
        for given in (
            "-1,5",
            "4,",
            ",4",
            "",
            "4.0",
            "a",
            "4294967300",
            "18446744073709551620",
            "9223372036854775807,5",
            ",".join(["0"] * 1024 + ["4"]),
        ):
            with self.subTest(given[:40]):
                reply = self.daemon.post(f"{VOXELIZE}&point_counts={given}", rows(4))
                self.assert_problem(reply, 400, "point_counts")

    def test_point_counts_of_an_empty_body(self):
        metadata = self.assert_voxels(self.daemon.post(VOXELIZE + "&point_counts=0,0", b""))
        self.assertEqual(metadata["batch"], {"size": 2, "points": [0, 0], "voxels": [0, 0]})

    def test_any_bytes_are_rows(self):
        self.counts(bytes(range(256)) * 64)
        self.counts(b"\xff" * 16384, "&dtype=float16")


class Errors(FaultCase):
    def test_unknown_path(self):
        for method, path in (
            ("GET", "/ui"),
            ("POST", "/v1/voxelise"),
            ("GET", "/v1/presets/nobody"),
            ("GET", "/v1/presets/"),
            ("GET", "/v1"),
            ("POST", "/V1/VOXELIZE"),
            ("GET", "/healthz/"),
            ("GET", "//healthz"),
            ("GET", "/v1/presets/..%2f..%2fvoxeld"),
            ("GET", "/v1/presets/../../voxeld"),
            ("DELETE", "/nowhere"),
            ("POST", "/v1/voxelize/"),
        ):
            with self.subTest(path):
                body = rows(4) if method == "POST" else None
                self.assert_problem(self.daemon.request(method, path, body), 404)

    def test_percent_rubbish_in_the_path(self):
        for path in (
            "/healthz%00",
            "/healthz%00x",
            "/healthz%zz",
            "/healthz%",
            "/v1/presets/kitti_second%00",
            "/v1/presets/%00",
            "/%",
            "/%00",
            "/v1%2",
            "/%c0%af",
            "/v1/presets/kitti_second%00.txt",
        ):
            with self.subTest(path):
                self.assert_problem(self.daemon.request("GET", path), (400, 404))
        for path in ("/v1/voxelize%00?", "/v1/voxelize%zz?", "/v1/voxelize%?"):
            with self.subTest(path):
                self.assert_problem(self.daemon.post(path + GRID, rows(4)), (400, 404))

    def test_wrong_method(self):
        for path, allowed in (
            ("/v1/voxelize", "POST"),
            ("/v1/fps", "POST"),
            ("/healthz", "GET"),
            ("/v1/status", "GET"),
            ("/v1/presets", "GET"),
            ("/v1/presets/kitti_second", "GET"),
            ("/metrics", "GET"),
            ("/openapi.yaml", "GET"),
        ):
            for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "FOO", "post"):
                if method == allowed:
                    continue
                with self.subTest(path=path, method=method):
                    reply = self.daemon.request(method, path, b"" if method != "GET" else None)
                    self.assert_problem(reply, 405)
                    methods = [m.strip() for m in reply.headers["Allow"].split(",")]
                    self.assertIn(allowed, methods)
                    self.assertNotIn(method, methods)

    def test_head_has_no_body(self):
        reply = self.daemon.request("HEAD", "/healthz")
        self.assertIn(reply.status, (200, 405))
        self.assertEqual(reply.body, b"")

    def test_unsupported_media_type(self):
        for kind in (
            "application/json",
            "multipart/form-data; boundary=x",
            "image/png",
            "text/plain",
            "application/octet-streams",
            "x",
        ):
            with self.subTest(kind):
                self.assert_problem(self.daemon.post(VOXELIZE, rows(4), {"Content-Type": kind}), 415)

    def test_media_types_that_are_taken(self):
        for kind in (None, "application/octet-stream", "application/x-www-form-urlencoded", "Application/Octet-Stream"):
            with self.subTest(kind):
                self.assert_voxels(self.daemon.post(VOXELIZE, rows(4), {"Content-Type": kind} if kind else {}))

    def test_content_encoding(self):
        for coding in ("gzip, gzip", "br", "identity, gzip"):
            with self.subTest(coding):
                self.assert_problem(self.daemon.post(VOXELIZE, rows(4), {"Content-Encoding": coding}), 415)
        self.assert_voxels(self.daemon.post(VOXELIZE, rows(4), {"Content-Encoding": "identity"}))

    def test_client_request_id(self):
        self.assertEqual(
            self.daemon.get("/healthz", {"X-Request-Id": "robot-7:42.a_B"}).headers["X-Request-Id"], "robot-7:42.a_B"
        )
        reply = self.daemon.post(VOXELIZE + "&order=x", rows(4), {"X-Request-Id": "r1"})
        self.assertEqual(self.assert_problem(reply, 400)["request_id"], "r1")
        for bad in ("a" * 129, "a b", 'x"y', "x\\y", "<script>", "ü"):
            reply = self.daemon.get("/healthz", {"X-Request-Id": bad})
            self.assertNotEqual(reply.headers["X-Request-Id"], bad)
            self.assertTrue(reply.headers["X-Request-Id"])

    def test_metadata_alone(self):
        reply = self.daemon.post(VOXELIZE, rows(4), {"Accept": "application/json"})
        self.assertEqual(reply.status, 200)
        self.assertEqual(reply.headers["Content-Type"].split(";")[0], "application/json")
        self.assertEqual(reply.json()["points"]["received"], 4)

    def test_server_timing(self):
        timing = self.daemon.post(VOXELIZE, rows(4)).headers["Server-Timing"]
        names = [entry.split(";dur=")[0].strip() for entry in timing.split(",")]
        self.assertLessEqual({"receive", "queue", "total"}, set(names), timing)
        self.assertTrue(all(float(entry.split(";dur=")[1]) >= 0 for entry in timing.split(",")), timing)


if __name__ == "__main__":
    unittest.main()
