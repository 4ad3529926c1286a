"""Bad input is refused with a status, a reason and the parameter at fault, if there is one."""

import json
import unittest

from client import Raw, head, tensor_file
from http_case import CHUNKED, JSON, KITTI, SMALL, SharedDaemonCase, floats, message, scan

LIMIT = 1 << 20
SCAN = scan("--points", "1000")


class Errors(SharedDaemonCase):
    ARGS = ("--max-body-bytes", str(LIMIT))

    def tearDown(self):
        """Checks that the daemon still serves the next client."""
        self.ok(self.post(KITTI, SCAN))

    def refused(self, parameter, *queries):
        """Checks that each query gets 400, and that the problem names the parameter."""
        for query in queries:
            with self.subTest(query):
                self.problem(self.post(f"/v1/voxelize?{query}", SCAN), 400, "bad-parameter", parameter, parameter)

    def impossible(self, parameter, *queries):
        for query in queries:
            with self.subTest(query):
                self.problem(self.post(f"/v1/voxelize?{query}", SCAN), 422, "impossible", parameter)

    def test_body_not_whole_rows(self):
        self.problem(self.post(KITTI, SCAN[:15]), 400, "bad-body", reason="16")
        self.problem(self.post(KITTI, SCAN[:15], CHUNKED), 400, "bad-body")

    def test_unknown_parameter(self):
        self.refused("voxelsize", "preset=kitti_second&voxelsize=1,1,1", "voxelsize")
        self.refused("MAX_VOXELS", "preset=kitti_second&MAX_VOXELS=1")
        self.refused("max_voxels ", "preset=kitti_second&max_voxels%20=1")
        self.refused("", "preset=kitti_second&=1")

    def test_repeated_parameter(self):
        self.refused("max_voxels", "preset=kitti_second&max_voxels=5&max_voxels=5")
        self.refused("preset", "preset=kitti_second&preset=kitti_pointpillar")

    def test_unknown_preset(self):
        self.refused("preset", "preset=nonesuch", "preset=", "preset=../../etc/passwd", "preset=kitti_second.json")

    def test_a_misspelt_name_gets_a_suggestion(self):
        second = "/v1/voxelize?preset=kitti_second"
        boxes = tensor_file(boxs=([1, 7], floats(*[1.0] * 7)))
        points = {"name": "point", "datatype": "FP32", "shape": [1, 4], "data": [1.0] * 4}
        inference = json.dumps({"inputs": [points]}).encode()
        for path, body, meant in (
            ("/v1/voxelize?preset=kiti_second", SCAN, "kitti_second"),
            (f"{second}&max_voxel=3", SCAN, "max_voxels"),
            (f"{second}&outputs=voxel_coords,voxel_point_msk", SCAN, "voxel_point_mask"),
            (f"{second}&feature=meen", SCAN, "mean"),
            ("/v1/points?steps=near:transfrm", SCAN, "transform"),
            ("/v1/points?steps=transform&transfrm.crop=off", SCAN, "transform"),
            ("/v1/points?steps=transform&transform.corp=off", SCAN, "crop"),
            ("/v1/transform?corp=off", SCAN, "crop"),
            ("/v1/points?steps=downsample&voxel_size=1", SCAN, "downsample.voxel_size"),
            ("/v1/points?steps=transform,far:transform&crop=off", SCAN, "transform.crop"),
            ("/v1/nms?iou_threshold=0.5", boxes, "boxes"),
            ("/v2/models/kitti_second/infer", inference, "points"),
            ("/v2/models/kiti_second/infer", inference, "kitti_second"),
            ("/v2/models/voxelise/infer", inference, "voxelize"),
        ):
            with self.subTest(path):
                reply = self.post(path, body)
                self.assertIn(reply.status, (400, 404))
                self.assertIn(f"(did you mean '{meant}'?)", reply.json()["detail"])

    def test_a_preset_that_is_not_there_lists_those_that_are(self):
        told = self.problem(self.ask("/v1/presets/kiti_second"), 404, "not-found", reason="did you mean 'kitti_second'")
        for name in ("kitti_pointpillar", "waymo_pointpillar"):
            self.assertIn(name, told["detail"])
            self.assertIn(name, self.post("/v1/voxelize?preset=none", SCAN).json()["detail"])

    def test_a_repeated_item_of_a_list_gets_no_suggestion(self):
        detail = self.post(f"{KITTI}&outputs=voxel_coords,voxel_coords", SCAN).json()["detail"]
        self.assertNotIn("did you mean", detail)

    def test_blanks_after_commas_and_semicolons_do_not_count(self):
        for path, name, spaced, plain in (
            ("/v1/voxelize?preset=kitti_second&", "voxel_size", "0.2,%20%200.2,+1", "0.2,0.2,1"),
            ("/v1/voxelize?preset=kitti_second&", "feature", "mean,%20points", "mean,points"),
            ("/v1/points?", "fields", "x,+y,+z,+intensity", "x,y,z,intensity"),
            ("/v1/points?", "point_counts", "600,+400,+0", "600,400,0"),
            ("/v1/transform?", "cut", "0,+0,+0,+1,+1,+1;+2,+2,+2,+3,+3,+3", "0,0,0,1,1,1;2,2,2,3,3,3"),
            ("/v1/points?", "steps", "transform,+far:transform", "transform,far:transform"),
        ):
            told = [self.json(self.post(f"{path}{name}={value}", SCAN, JSON)) for value in (spaced, plain)]
            self.assertEqual(*(each["parameters"][name] for each in told), path)
        for value in ("0.2%20,0.2,1", "%200.2,0.2,1", "0.2,0.2,1%20", "0.2,0.2,%20", "0.2,%20,1", "0.2,%090.2,1"):
            self.refused("voxel_size", f"preset=kitti_second&voxel_size={value}")

    def test_parameter_without_value(self):
        self.refused("max_voxels", "preset=kitti_second&max_voxels", "preset=kitti_second&max_voxels=")

    def test_missing_range_and_size(self):
        self.refused("point_cloud_range", "", "voxel_size=1,1,1")
        self.refused("voxel_size", "point_cloud_range=0,0,0,1,1,1")

    def sizes(self, text):
        """A query for each voxel_size in the text."""
        return (f"point_cloud_range=0,0,0,4,4,4&voxel_size={size}" for size in text.split())

    def ranges(self, text):
        return (f"point_cloud_range={each}&voxel_size=1,1,1" for each in text.split())

    def test_negative_and_zero_voxel_size(self):
        self.refused("voxel_size", *self.sizes("0,1,1 1,-1,1 1,1,0 1,1,-0.0 1e-60,1,1"))

    def test_voxel_size_is_three_numbers(self):
        few = "1 1,1 1,1,1,1 1,,1 ,1,1 1,1,1,"
        no_numbers = "a,b,c nan,1,1 inf,1,1 1e40,1,1 0x1p0,1,1 1,1,1%20 1;1;1"
        self.refused("voxel_size", *self.sizes(few), *self.sizes(no_numbers))

    def test_range_is_six_finite_numbers(self):
        ranges = "0,0,0,4,4 0,0,0,4,4,4,4 0,0,0,4,4,nan -inf,0,0,4,4,4 0,0,0,1e39,4,4 0,0,0,four,4,4"
        self.refused("point_cloud_range", *self.ranges(ranges))

    def test_min_above_max(self):
        self.refused("point_cloud_range", *self.ranges("4,0,0,0,4,4 0,0,0,4,0,4 0,0,4,4,4,-4"))

    def test_grid_overflow(self):
        self.impossible(
            "voxel_size",
            "point_cloud_range=-1e9,-1e9,-1e9,1e9,1e9,1e9&voxel_size=1e-3,1e-3,1e-3",
            "point_cloud_range=-1e9,-1e9,-1e9,1e9,1e9,1e9&voxel_size=1,1,1",
            "point_cloud_range=-3e38,0,0,3e38,4,4&voxel_size=1,1,1",
            "point_cloud_range=0,0,0,1,1,1&voxel_size=100,1,1",  # the grid would have no cell
        )

    def values(self, name, text):
        return (f"{SMALL}&{name}={value}" for value in text.split())

    def test_integers_out_of_bounds(self):
        self.refused("num_features", *self.values("num_features", "2 65 -1 4.0 1e1 %204 0x4 99999999999999999999 four"))
        self.refused("max_points_per_voxel", *self.values("max_points_per_voxel", "-1 1025 1.5"))
        self.refused("max_voxels", *self.values("max_voxels", "0 16777217 -5"))
        self.refused("timeout_ms", *self.values("timeout_ms", "-1 x"))

    def test_unknown_words(self):
        self.refused("feature", f"{SMALL}&feature=", *self.values("feature", "median mean,mean mean,"))
        self.refused("feature_dtype", f"{SMALL}&feature_dtype=float64")
        self.refused("dtype", f"{SMALL}&dtype=int64")
        self.refused("order", f"{SMALL}&order=last")
        self.refused("fill", f"{SMALL}&fill=one")
        self.refused("outputs", *self.values("outputs", "voxel voxel_coords,voxel_coords"))
        self.refused("block_filter", *self.values("block_filter", "on 1,8,0.1 0,8,0.1,2 1,33,0.1,2"))

    def test_outputs_that_feature_does_not_compute(self):
        self.refused("outputs", f"{SMALL}&feature=mean&outputs=pillar_features")

    def test_padded_tensors_without_a_cap(self):
        for query in ("feature=points", "feature=pillar", "outputs=voxel_point_mask"):
            self.impossible("max_points_per_voxel", f"{SMALL}&max_points_per_voxel=0&{query}")

    def test_point_counts_do_not_add_up(self):
        for counts in ("999", "500,501", "0", "1001"):
            with self.subTest(counts):
                self.problem(self.post(f"{KITTI}&point_counts={counts}", SCAN), 400, "bad-body", "point_counts")
        too_many = ",".join(map(str, range(1, 1026)))
        for counts in ("-1,1001", "500,,500", "99999999999", too_many):
            self.refused("point_counts", f"preset=kitti_second&point_counts={counts}")

    def unsound(self, *queries):
        """Checks that each request gets 400 before any parameter is read."""
        for query in queries:
            with self.subTest(query):
                self.problem(self.post(f"/v1/voxelize?{query}", SCAN), 400, "bad-request")

    def test_nul_in_the_query(self):
        self.unsound(
            "preset=kitti_second&max_voxels=5%00",
            "preset=kitti_second%00",
            "preset=kitti_second&max_voxels%00=5",
            "preset=kitti_second%00&max_voxels=5",
            "%00",
        )

    def test_percent_encoded_rubbish(self):
        for rubbish in ("max_voxels=%zz", "max_voxels=5%", "max_voxels=%1", "%=%"):
            self.unsound(f"preset=kitti_second&{rubbish}")

    def test_bytes_that_are_not_text(self):
        self.refused("max_voxels", "preset=kitti_second&max_voxels=%ff%fe", "preset=kitti_second&max_voxels=%0d%0a5")
        self.refused("\ufffd\ufffd", "preset=kitti_second&%ff%fe=1")
        self.refused('"', "preset=kitti_second&%22=1")

    def test_too_many_parameters(self):
        many = "".join(f"&p{number}=1" for number in range(1, 201))
        self.assertEqual(self.post(KITTI + many, SCAN).status, 400)

    def too_large(self, connection, detail=""):
        self.problem(connection.read(), 413, "body-too-large", reason=detail)

    def test_content_length_of_3_gb(self):
        with Raw(self.daemon) as connection:
            self.too_large(connection.send(head("POST", KITTI, "Content-Length: 3000000000")))

    def test_body_over_the_limit(self):
        with Raw(self.daemon) as connection:
            length = ("Content-Length: 2000000", "Expect: 100-continue")
            self.too_large(connection.send(head("POST", KITTI, *length)), "1048576")

    def test_body_over_the_limit_without_expect(self):
        self.problem(self.post(KITTI, bytes(2_000_000)), 413, "body-too-large")

    def test_chunked_body_past_the_limit(self):
        self.problem(self.post(KITTI, bytes(2_000_000), CHUNKED), 413, "body-too-large")

    def test_an_error_is_read_even_while_the_body_is_still_being_sent(self):
        for _ in range(5):
            reply = self.post("/v1/voxelize?preset=nonesuch", bytes(1_000_000))
            self.problem(reply, 400, "bad-parameter", "preset")

    def test_a_request_refused_by_its_query_leaves_the_connection_open(self):
        with Raw(self.daemon) as connection:
            connection.send(message("/v1/voxelize?preset=nonesuch", method="POST", body=SCAN))
            self.problem(connection.read_final(), 400, "bad-parameter", "preset")
            self.ok(connection.send(message(KITTI, method="POST", body=SCAN)).read_final())

    def test_other_content_types(self):
        for kind in ("application/json", "text/plain", "multipart/form-data", "application/octet"):
            with self.subTest(kind):
                self.problem(self.post(KITTI, SCAN, f"Content-Type: {kind}"), 415, "unsupported-media-type")

    def test_codings_that_are_not_taken(self):
        for coding in ("br", "compress", "gzip, identity", "gzip, zstd", "gzip;q=1"):
            with self.subTest(coding):
                reply = self.post(KITTI, SCAN, f"Content-Encoding: {coding}")
                self.problem(reply, 415, "unsupported-media-type")
                self.assertEqual(reply.headers["Accept-Encoding"], "gzip, deflate, zstd")
        reply = self.post(KITTI, SCAN, "Content-Type: text/plain")
        self.assertNotIn("Accept-Encoding", reply.headers)

    def test_an_error_names_the_request(self):
        reply = self.post("/v1/voxelize?preset=nonesuch", SCAN, "X-Request-Id: mine-1")
        self.problem(reply, 400, "bad-parameter", "preset")
        self.assertEqual(reply.headers["X-Request-Id"], "mine-1")


if __name__ == "__main__":
    unittest.main()
