"""POST /v1/voxelize: answers, warnings and cylindrical grids."""

import json
import math
import re
import struct
import unittest
from concurrent.futures import ThreadPoolExecutor

from client import Raw, counters, head
from daemon import BACKEND, ROOT
from http_case import CHUNKED, FORM, JSON, KITTI, VOXELIZE_SMALL, SharedDaemonCase, floats, message, scan

SCAN = scan("--points", "5000")
ONE = floats(1.5, 2.5, 3.5, 0.25)
SAME = "X-Request-Id: same"
MCAP, NPZ, SAFETENSORS = "application/x-mcap", "application/x-npz", "application/vnd.safetensors"
DOCUMENT, SHUFFLED = "application/json", "application/x-shuffled-safetensors"
# (type of the answer, value of Accept)
ACCEPT = (
    (DOCUMENT, "application/json, */*;q=0.5"),
    (DOCUMENT, "application/*;q=0.1, Application/JSON"),
    (DOCUMENT, "application/json;q=0.2, application/octet-stream;q=0.1"),
    (DOCUMENT, "application/vnd.safetensors;q=0, application/octet-stream;q=0, */*"),
    (NPZ, "application/x-npz"),
    (SHUFFLED, "application/x-shuffled-safetensors, application/vnd.safetensors;q=0.9"),
    (NPZ, "application/json;q=0.2, Application/X-NPZ;q=0.3, application/x-mcap;q=0.1"),
    (MCAP, "application/x-mcap, */*;q=0.9"),
    (SAFETENSORS, "application/x-mcap, application/x-npz, */*"),
    (SAFETENSORS, "application/x-npz;q=0, application/x-mcap;q=0"),
    (SAFETENSORS, "application/json, */*"),
    (SAFETENSORS, "application/json;q=0"),
    (SAFETENSORS, "application/json;q=0.5, application/octet-stream"),
    (SAFETENSORS, "application/jsonl"),
    (SAFETENSORS, "text/html"),
)


def without_times(metadata):
    return {name: value for name, value in metadata.items() if name != "timing_us"}


class Voxelize(SharedDaemonCase):
    def kitti(self, *lines, body=SCAN, query=""):
        return self.post(KITTI + query, body, *lines)

    def test_a_scan_and_a_preset_give_voxels_as_a_safetensors_file(self):
        answer = self.tensors(self.kitti())
        self.assertEqual(set(answer.shapes), {"voxel_coords", "voxel_features", "voxel_num_points"})
        (coords, coords_shape), (features, shape) = answer.shapes["voxel_coords"], answer.shapes["voxel_features"]
        kept = answer.metadata["voxels"]["kept"]
        self.assertEqual((coords, coords_shape, features, shape), ("I32", [kept, 4], "F32", [kept, 4]))

    def test_tensors_start_on_64_bytes_without_holes_and_end_with_the_file(self):
        voxels = "voxel_coords,voxel_num_points,voxels,voxel_features"
        query = f"outputs={voxels},pillar_features,point_voxel_ids,voxel_point_mask&feature=points,mean,pillar"
        answer = self.tensors(self.post(f"/v1/voxelize?preset=kitti_pointpillar&{query}", SCAN))
        begins = [answer.begin + answer.span(name).start for name in answer.shapes]
        self.assertEqual([begin for begin in begins if begin % 64], [])
        spans = sorted(tuple(tensor["data_offsets"]) for tensor in answer.header.values())
        self.assertEqual([begin for begin, _ in spans], [0, *(end for _, end in spans[:-1])])
        self.assertEqual(spans[-1][1], len(answer.data))

    def test_what_stands_between_tensors_is_zero_not_the_bytes_of_another_client(self):
        for _ in range(3):
            answer = self.tensors(self.post("/v1/voxelize?preset=voxelize_cuda", SCAN))
            padding = [answer.data[answer.span(name)] for name in answer.header if name.startswith("_padding_")]
            self.assertFalse(any(map(any, padding)))

    def test_every_preset_takes_a_scan_of_its_columns(self):
        for path in (ROOT / "config" / "presets").glob("*.json"):
            with self.subTest(path.stem):
                preset = json.loads(path.read_text(encoding="utf-8"))
                columns, operation = preset["parameters"]["num_features"], preset.get("operation", "voxelize")
                body = scan("--columns", str(columns), "--points", "3000")
                metadata = self.tensors(self.post(f"/v1/{operation}?preset={path.stem}", body)).metadata
                self.assertEqual(metadata["points"]["received"], 3000)
                self.assertGreater(metadata["points"]["kept"], 0)
                self.assertEqual(metadata["parameters"]["preset"], path.stem)

    def test_the_query_overrides_the_preset(self):
        metadata = self.json(self.kitti(JSON, query="&max_voxels=7"))
        self.assertEqual((metadata["parameters"]["max_voxels"], metadata["voxels"]["kept"]), (7, 7))
        metadata = self.json(self.post("/v1/voxelize?max_voxels=7&preset=kitti_second", SCAN, JSON))
        self.assertEqual(metadata["parameters"]["max_voxels"], 7)

    def test_the_accept_type_with_the_highest_q_is_sent(self):
        for kind, accept in ACCEPT:
            with self.subTest(accept):
                reply = self.ok(self.post(VOXELIZE_SMALL, ONE, f"Accept: {accept}"))
                self.assertEqual(reply.headers["Content-Type"], kind)

    def test_accept_application_json_gives_the_metadata_alone(self):
        reply = self.ok(self.kitti(JSON))
        self.assertEqual(reply.headers["Content-Type"], "application/json")
        metadata = reply.json()
        self.assertEqual(metadata["grid_size"], [1408, 1600, 40])
        self.assertEqual(metadata["backend"], BACKEND)
        self.assertEqual(len(metadata["effective_range"]), 6)
        self.assertEqual((metadata["batch"]["size"], metadata["batch"]["points"]), (1, [5000]))
        stages = "copy_in copy_out features queue receive sample scatter total voxelize"
        self.assertEqual(set(metadata["timing_us"]), set(stages.split()))
        self.assertEqual(metadata["request_id"], reply.headers["X-Request-Id"])

    def test_metadata_is_the_same_whether_it_comes_alone_or_in_the_file(self):
        inside = self.tensors(self.kitti(SAME)).metadata
        self.assertEqual(without_times(self.json(self.kitti(SAME, JSON))), without_times(inside))

    def test_every_point_is_counted_once(self):
        inf, nan = math.inf, math.nan
        kept = (0.5, 0.5, 0.5, 0, 0.6, 0.5, 0.5, 0, 0.7, 0.5, 0.5, 0)  # the third point is over the cap
        not_finite = (nan, 1, 1, 0, 1, inf, 1, 0, 1, 1, -inf, 0)
        outside = (1e30, 1, 1, 0, -1e30, 1, 1, 0, 4, 1, 1, 0)
        body = floats(*kept, *not_finite, *outside, 1.5, 1, 1, 0, 2.5, 1, 1, nan)
        caps = "&max_points_per_voxel=2&max_voxels=2"
        metadata = self.json(self.post(VOXELIZE_SMALL + caps, body, JSON))
        fates = {"not_finite": 3, "out_of_range": 3, "over_max_points_per_voxel": 1, "over_max_voxels": 1}
        self.assertEqual(metadata["points"], {"received": 11, "kept": 3, **fates, "block_filtered": 0})
        self.assertEqual((metadata["voxels"]["kept"], metadata["voxels"]["dropped"]), (2, 1))

    def test_an_empty_body_is_a_scan_of_0_points(self):
        answer = self.tensors(self.kitti(body=b""))
        self.assertEqual((answer.shapes["voxel_coords"][1], answer.shapes["voxel_features"][1]), ([0, 4], [0, 4]))
        self.assertEqual(answer.metadata["points"]["received"], 0)

    def test_an_empty_chunked_body_is_a_scan_of_0_points(self):
        self.assertEqual(self.tensors(self.kitti(CHUNKED, body=b"")).metadata["points"]["received"], 0)

    def test_a_body_of_one_point_is_one_voxel(self):
        answer = self.tensors(self.post(VOXELIZE_SMALL, ONE))
        self.assertEqual(answer.values("voxel_coords"), (0, 3, 2, 1))
        self.assertEqual(answer.values("voxel_features"), (1.5, 2.5, 3.5, 0.25))

    def test_point_counts_splits_the_body_into_a_batch(self):
        metadata = self.json(self.kitti(JSON, query="&point_counts=1000,0,4000"))
        batch = metadata["batch"]
        self.assertEqual((batch["size"], batch["points"]), (3, [1000, 0, 4000]))
        self.assertEqual((batch["voxels"][1], sum(batch["voxels"])), (0, metadata["voxels"]["kept"]))

    def test_outputs_chooses_the_tensors(self):
        answer = self.tensors(self.kitti(query="&outputs=point_voxel_ids"))
        self.assertEqual({name: shape for name, (_, shape) in answer.shapes.items()}, {"point_voxel_ids": [5000]})

    def test_half_precision_rows_are_taken(self):
        body = struct.pack("<4e", 1.5, 2.5, 3.5, 0.25)
        answer = self.tensors(self.post(f"{VOXELIZE_SMALL}&dtype=float16&feature_dtype=float16", body))
        self.assertEqual(answer.shapes["voxel_features"][0], "F16")
        self.assertEqual(answer.values("voxel_features"), (1.5, 2.5, 3.5, 0.25))

    def test_a_chunked_body_gives_the_same_bytes_as_one_with_a_length(self):
        self.assertEqual(self.tensors(self.kitti(CHUNKED)).data, self.tensors(self.kitti()).data)

    def test_the_content_types_of_raw_bytes_are_taken(self):
        octets = "application/octet-stream", "application/octet-stream; charset=binary", "Application/Octet-Stream"
        for line in (FORM, *(f"Content-Type: {octet}" for octet in octets)):
            with self.subTest(line):
                self.ok(self.kitti(line))
        self.ok(self.kitti())

    def test_a_body_that_curl_d_has_stripped_is_warned_of_or_refused(self):
        stripped = SCAN.translate(None, b"\0\r\n")
        for lines, told in (((FORM,), True), ((), False)):
            with self.subTest(lines):
                warnings = self.json(self.kitti(JSON, *lines, body=stripped[:16000]))["warnings"]
                self.assertEqual("stripped_body" in [warning["kind"] for warning in warnings], told)
                problem = self.problem(self.kitti(*lines, body=stripped[:16001]), 400, "bad-body")
                self.assertEqual("--data-binary" in problem["detail"], told)

    def test_warnings_are_reported_and_counted(self):
        def counts():
            warnings = counters(self.daemon, "voxeld_warnings_total")
            return [warnings[f'kind="{kind}"'] for kind in ("max_voxels", "out_of_range", "not_finite")]

        max_voxels, out_of_range, not_finite = counts()
        self.assertEqual(self.json(self.kitti(JSON))["warnings"], [])
        (warning,) = self.tensors(self.kitti(query="&max_voxels=10")).metadata["warnings"]
        self.assertEqual(warning["kind"], "max_voxels")
        self.assertTrue(warning["detail"].startswith("max_voxels=10 was reached: "))
        elsewhere = "&point_cloud_range=1000,1000,0,1010,1010,10"
        (warning,) = self.json(self.kitti(JSON, query=elsewhere))["warnings"]
        self.assertEqual(warning["kind"], "out_of_range")
        self.assertEqual(counts(), [max_voxels + 1, out_of_range + 1, not_finite])

    def test_points_that_a_preset_does_not_expect_are_reported(self):
        def told(preset, *change, lines=(), **more):
            rows = [list(row) for row in zip(*[iter(street)] * 5)]
            for row in rows:
                for column, factor, shift in change:
                    row[column] = row[column] * factor + shift
            columns = 4 if preset.startswith("kitti") else 5
            body = floats(*(value for row in rows for value in row[:columns]))
            reply = self.post(f"/v1/voxelize?preset={preset}", body, JSON, *lines)
            return [warning["kind"] for warning in self.json(reply)["warnings"] if warning["kind"] != "num_features"]

        street = []
        for i in range(4000):
            far, turn = 4 + i % 16, i * 0.01
            street += far * math.cos(turn), far * math.sin(turn), -1.8 + (i % 4 == 0) * i % 3, i % 101 / 100, i % 9 / 20
        kitti, nuscenes, waymo = "kitti_pointpillar", "nuscenes_pointpillar", "waymo_pointpillar"
        self.assertEqual(told(kitti), [])
        self.assertEqual(told(kitti, (3, 255, 0)), ["intensity"])
        self.assertEqual(told(kitti, (2, 1, 1.5)), ["ground_z"])
        self.assertEqual(told(kitti, (2, 1, 1.8), (3, 255, 0)), ["intensity", "ground_z"])
        self.assertEqual(told(nuscenes, (3, 255, 0)), [])
        self.assertEqual(told(nuscenes), ["intensity"])
        self.assertEqual(told(nuscenes, (3, 255, 0), (4, 20, 0)), ["time"])
        self.assertEqual(told(waymo, (2, 1, 1.8), (4, 20, 0)), [])
        self.assertEqual(told(waymo), ["ground_z"])

    def test_other_columns_than_those_of_a_preset_are_reported(self):
        for columns, told in ((3, True), (4, False), (5, True)):
            for preset in ("kitti_second", "voxelize_cuda"):
                body = scan("--columns", str(columns), "--points", "3000")
                reply = self.post(f"/v1/voxelize?preset={preset}&num_features={columns}", body, JSON)
                details = [each["detail"] for each in self.json(reply)["warnings"] if each["kind"] == "other_columns"]
                expected = f"the rows have {columns} columns, but the model expects 4: x,y,z,intensity"
                self.assertEqual([expected in detail for detail in details], [True] * told, (preset, columns))

    def test_an_empty_body_is_reported(self):
        self.assertEqual([each["kind"] for each in self.json(self.kitti(JSON, body=b""))["warnings"]], ["empty"])

    def test_content_encoding_identity_is_taken(self):
        self.ok(self.kitti("Content-Encoding: identity"))

    def test_expect_100_continue_is_answered_before_the_body(self):
        with Raw(self.daemon) as connection:
            lines = (f"Content-Length: {len(SCAN)}", "Expect: 100-continue")
            self.assertEqual(connection.send(head("POST", KITTI, *lines)).read().status, 100)
            self.ok(connection.send(SCAN).read_final())

    def test_two_voxelize_requests_go_over_one_connection(self):
        with Raw(self.daemon) as connection:
            for path in (KITTI, "/v1/voxelize?preset=kitti_pointpillar"):
                self.ok(connection.send(message(path, method="POST", body=SCAN)).read_final())

    def test_http_1_0_is_served(self):
        self.ok(self.post(KITTI, SCAN, version="HTTP/1.0"))

    def test_percent_encoded_names_and_values_are_decoded(self):
        query = "preset=kitti%5Fsecond&max%5Fvoxels=%37&point_counts=2000%2C3000"
        metadata = self.json(self.post(f"/v1/voxelize?{query}", SCAN, JSON))
        self.assertEqual((metadata["parameters"]["max_voxels"], metadata["batch"]["points"]), (7, [2000, 3000]))

    def test_the_clients_x_request_id_is_taken_over(self):
        own = "lidar-7.frame_42:a"
        reply = self.kitti(f"X-Request-Id: {own}")
        self.assertEqual(reply.headers["X-Request-Id"], own)
        self.assertEqual(self.tensors(reply).metadata["request_id"], own)

    def test_without_x_request_id_each_request_gets_one_of_its_own(self):
        first, second = (self.kitti().headers["X-Request-Id"] for _ in range(2))
        self.assertTrue(first and second)
        self.assertNotEqual(first, second)

    def test_an_x_request_id_that_is_empty_too_long_or_not_plain_is_replaced(self):
        for own in ("", "a" * 129, "has space", 'quote"', "<script>", "ü", "ü".encode().decode("latin-1")):
            with self.subTest(own):
                reply = self.ok(self.ask("/healthz", f"X-Request-Id: {own}"))
                self.assertNotIn(reply.headers["X-Request-Id"], ("", own))

    def test_server_timing_gives_every_stage_in_milliseconds(self):
        timing = self.kitti().headers["Server-Timing"]
        stages = "receive queue copy_in voxelize features scatter sample copy_out total"
        self.assertEqual(re.sub(r";dur=[0-9.]+", "", timing).split(", "), stages.split())

    def test_a_grid_of_40000_x_40000_x_4000_cells_is_no_trouble(self):
        query = "point_cloud_range=-200,-200,-20,200,200,20&voxel_size=0.01,0.01,0.01&feature=mean"
        metadata = self.json(self.post(f"/v1/voxelize?{query}", SCAN, JSON))
        self.assertEqual(metadata["grid_size"], [40000, 40000, 4000])

    def test_the_same_request_gives_the_same_tensors_from_one_client_and_from_many(self):
        request = lambda _: self.post("/v1/voxelize?preset=voxelize_cuda", SCAN, SAME)
        with ThreadPoolExecutor(8) as clients:
            replies = list(clients.map(request, range(8)))
        self.assertEqual(len({self.tensors(reply).data for reply in replies}), 1)


class Cylinder(SharedDaemonCase):
    RANGE = "coordinates=cylinder&point_cloud_range=0,-3.2,-4,50,3.2,2"

    def test_a_voxel_has_cylindrical_columns(self):
        body = floats(3, 4, 1, 9, 0, 0, 0, 0)
        answer = self.tensors(self.post(f"/v1/voxelize?{self.RANGE}&grid_shape=51,2,7", body))
        self.assertEqual(answer.shapes["voxel_features"], ("F32", [2, 6]))
        self.assertEqual(answer.values("voxel_features")[0], 5)
        self.assertEqual(answer.values("voxel_features")[2:6], (1, 3, 4, 9))
        self.assertEqual(answer.values("voxel_coords")[:4], (0, 5, 0, 5))
        self.assertEqual(answer.metadata["grid_size"], [51, 2, 7])

    def test_what_a_cylinder_does_not_have_is_refused(self):
        shape = self.RANGE + "&grid_shape=48,36,32"
        for query, parameter, reason in (
            (self.RANGE, "grid_shape", "coordinates=cylinder needs grid_shape"),
            (self.RANGE + "&grid_shape=48,36", "grid_shape", "3 whole numbers from 2 to 65536"),
            (self.RANGE + "&grid_shape=48,36,1", "grid_shape", "3 whole numbers from 2 to 65536"),
            (shape + "&voxel_size=1,1,1", "voxel_size", "give grid_shape"),
            (shape.replace("0,-3.2,-4,50", "50,-3.2,-4,0"), "point_cloud_range", "rho point_cloud_range runs from 50"),
            (shape.replace("0,-3.2,-4,50", "-3e38,-3.2,-4,3e38"), "grid_shape", "the size of cells along rho is inf"),
            (shape.replace("0,-3.2,-4,50", "0,-3.2,-4,1e-44"), "grid_shape", "the size of cells along rho is 0"),
            (shape + "&fps=5", "fps", "allowed: off"),
            (shape + "&outputs=occupancy", "outputs", "a dense map"),
            (shape + "&num_features=63", "num_features", "65 columns; allowed: up to 64"),
            ("point_cloud_range=0,0,0,1,1,1&voxel_size=1,1,1&grid_shape=2,2,2", "grid_shape", "coordinates=cylinder"),
        ):
            with self.subTest(query):
                reply = self.post(f"/v1/voxelize?{query}", b"")
                self.problem(reply, 400, "bad-parameter", parameter=parameter, reason=reason)


if __name__ == "__main__":
    unittest.main()
