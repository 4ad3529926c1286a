"""POST /v1/scatter, and the dense maps of /v1/voxelize: answers and refusals."""

import struct
import unittest

from client import counters, tensor_file
from daemon import wait_until
from http_case import JSON, SharedDaemonCase, floats

GRID = "point_cloud_range=0,0,0,4,2,2&voxel_size=1,1,1"
TWO_BY_TWO = "grid_size=2,2,1"
# Rows of two clouds: one is outside of the grid, and two have the same cell.
COORDS = ([4, 4], struct.pack("<16i", 1, 0, 0, 0, 0, 0, 1, 1, 1, 0, 0, 0, -1, 0, 0, 0), "I32")
FEATURES = ([4, 1], floats(1, 2, 3, 4))
ROWS = tensor_file(features=FEATURES, voxel_coords=COORDS)
HALVES = tensor_file(features=([4, 1], struct.pack("<4e", 1, 2, 3, 4), "F16"), voxel_coords=COORDS)
MAP = (0, 0, 0, 2, 1, 0, 0, 0)
POINTS = floats(0.5, 0.5, 0.5, 7, 0.5, 0.5, 1.5, 8, 3.5, 1.5, 0, 9)


class Scatter(SharedDaemonCase):
    ARGS = ("--max-response-bytes", "65536")

    def scatter(self, query, body, *lines):
        return self.post(f"/v1/scatter?{query}", body, *lines)

    def voxelize(self, query, body=POINTS, *lines):
        return self.post(f"/v1/voxelize?{query}", body, *lines)

    def test_features_are_written_at_their_cells_and_each_row_has_one_fate(self):
        reply = self.scatter(f"{TWO_BY_TWO}&batch_size=2", ROWS)
        answer = self.tensors(reply)
        self.assertEqual(answer.shapes, {"bev_features": ("F32", [2, 1, 2, 2])})
        self.assertEqual(answer.values("bev_features"), MAP)
        metadata = answer.metadata
        self.assertEqual(metadata["voxels"], {"received": 4, "kept": 2, "out_of_range": 1, "duplicate": 1})
        self.assertEqual(metadata["batch"], {"size": 2, "kept": [1, 1]})
        self.assertEqual([warning["kind"] for warning in metadata["warnings"]], ["not_scattered"])
        self.assertEqual(metadata["parameters"]["grid_size"], [2, 2, 1])
        stages = {"copy_in", "copy_out", "queue", "receive", "scatter", "total"}
        self.assertEqual(set(metadata["timing_us"]), stages)
        self.assertIn("scatter;dur=", reply.headers["Server-Timing"])

    def test_half_precision_features_stay_so(self):
        line = "Content-Type: application/vnd.safetensors"
        answer = self.tensors(self.scatter(f"{TWO_BY_TWO}&batch_size=2", HALVES, line))
        self.assertEqual(answer.shapes["bev_features"][0], "F16")
        self.assertEqual(answer.values("bev_features"), MAP)

    def test_a_body_that_is_not_what_scatter_wants_is_refused_with_its_reason(self):
        shape = "the input voxel_coords has the shape"
        for body, reason in (
            (tensor_file(features=FEATURES), "the input voxel_coords is missing"),
            (
                tensor_file(features=FEATURES, voxel_coords=([3, 4], bytes(48), "I32")),
                f"{shape} [3,4]; allowed: [4,4]",
            ),
            (
                tensor_file(features=FEATURES, voxel_coords=([4, 3], bytes(48), "I32")),
                f"{shape} [4,3]; allowed: [4,4]",
            ),
            (
                tensor_file(features=FEATURES, voxel_coords=([4, 4], bytes(64))),
                "tensor voxel_coords has the dtype F32; allowed: I32",
            ),
            (POINTS, "the body is not a safetensors file"),
        ):
            with self.subTest(reason):
                self.problem(self.scatter(TWO_BY_TWO, body), 400, "bad-body", reason=reason)

    def test_parameters_of_scatter_are_checked(self):
        for query in (
            "grid_size=2,2",
            "grid_size=2,2,0",
            "grid_size=2,2,1,1",
            "grid_size=2,2,2147483648",
            "batch_size=0&grid_size=1,1,1",
            "batch_size=1025&grid_size=1,1,1",
        ):
            with self.subTest(query):
                self.problem(self.scatter(query, ROWS), 400, "bad-parameter", query.partition("=")[0])
        self.problem(self.scatter("", ROWS), 400, "bad-parameter", "grid_size")
        self.problem(self.scatter("grid_size=2147483647,2147483647,2", ROWS), 422, "impossible", "grid_size")

    def test_maps_over_max_response_bytes_are_refused_before_any_work(self):
        grid = "point_cloud_range=0,0,0,4,4,4&outputs=occupancy"
        reply = self.voxelize(f"{grid}&voxel_size=0.01,0.01,1")
        reason = "the answer would have 640000 bytes or more; allowed: up to 65536"
        self.problem(reply, 422, "impossible", reason=reason)
        small = f"{grid}&voxel_size=0.1,0.1,1"
        clouds = ",".join(["3", *["0"] * 21])
        self.problem(self.voxelize(f"{small}&point_counts={clouds}"), 422, "impossible")
        self.ok(self.voxelize(small))
        wide = tensor_file(features=([1, 5000], bytes(20000)), voxel_coords=([1, 4], bytes(16), "I32"))
        reason = "the answer would have 80000 bytes or more"
        self.problem(self.scatter(TWO_BY_TWO, wide), 422, "impossible", reason=reason)
        # An answer without tensors has room.
        answer = self.json(self.scatter("grid_size=100000,100000,1&batch_size=2", ROWS, JSON))
        self.assertEqual(answer["voxels"]["kept"], 2)

    def test_voxelize_gives_maps_of_its_points_whatever_the_caps_keep(self):
        outputs = "occupancy,occupancy_counts,occupancy_packed,bev_max_height"
        answer = self.tensors(self.voxelize(f"{GRID}&max_voxels=1&outputs={outputs}"))
        shapes = [("U8", [1, 2, 2, 4]), ("I32", [1, 2, 2, 4]), ("U8", [1, 2, 2, 1]), ("F32", [1, 2, 4])]
        self.assertEqual(list(answer.shapes.values()), shapes)
        self.assertEqual(answer.values("occupancy"), (1, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0))
        self.assertEqual(answer.values("occupancy_packed"), (1, 8, 1, 0))
        self.assertEqual(answer.values("bev_max_height"), (1.5, 0, 0, 0, 0, 0, 0, 0))

    def test_the_intensity_is_the_column_of_that_name_or_the_fourth(self):
        answer = self.tensors(self.voxelize(f"{GRID}&outputs=bev_top_intensity"))
        self.assertEqual(answer.values("bev_top_intensity"), (8, 0, 0, 0, 0, 0, 0, 9))
        for query in (
            "fields=x,y,z,ring&outputs=bev_top_intensity",
            "num_features=3&outputs=bev_max_intensity",
            "feature=points&outputs=bev_features",
        ):
            with self.subTest(query):
                self.problem(self.voxelize(f"{GRID}&{query}"), 400, "bad-parameter", "outputs")
        self.ok(self.voxelize(f"{GRID}&num_features=3&outputs=bev_max_height"))

    def test_scattered_voxels_are_counted_apart_from_points(self):
        duplicates = lambda: counters(self.daemon, "voxeld_scattered_voxels_total")['fate="duplicate"']
        outside = lambda: counters(self.daemon, "voxeld_points_total")['fate="out_of_range"']
        self.daemon.await_accounts()
        voxels, points = duplicates(), outside()
        self.ok(self.scatter(f"{TWO_BY_TWO}&batch_size=2", ROWS))
        wait_until(lambda: duplicates() == voxels + 1, "one more duplicate counted")
        self.assertEqual(outside(), points)


if __name__ == "__main__":
    unittest.main()
