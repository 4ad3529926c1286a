"""POST /v1/transform: answers and refusals."""

import json
import math
import pathlib
import tempfile
import unittest

from client import counters
from daemon import wait_until
from http_case import JSON, SharedDaemonCase, floats, scan

SHIFT_X = "1,0,0,10,0,1,0,0,0,0,1,0,0,0,0,1"
BOX = "0,0,0,1,1,1"
SCAN = scan("--points", "1000")
FEW = floats(0, 0, 0, 1, 1, 2, 3, 2, math.nan, 0, 0, 3, 5, 5, 5, 4)
ROOF = {
    "description": "the lidar on the roof",
    "operation": "transform",
    "parameters": {"matrix": [int(n) for n in SHIFT_X.split(",")], "cut": "9,-1,-1,10.5,1,1;14,4,4,16,6,6"},
}


class Transform(SharedDaemonCase):
    def transform(self, query, body=FEW, *lines):
        return self.post(f"/v1/transform?{query}", body, *lines)

    def metadata(self, query):
        return self.json(self.transform(query, FEW, JSON))

    def refused(self, parameter, *queries):
        for query in queries:
            with self.subTest(query):
                self.problem(self.transform(query, SCAN), 400, "bad-parameter", parameter)

    def test_points_are_moved_cropped_and_cut(self):
        reply = self.transform(f"matrix={SHIFT_X}&crop=0,0,0,20,20,20&cut=14,4,4,16,6,6")
        answer = self.tensors(reply)
        self.assertEqual(answer.shapes, {"points": ("F32", [2, 4]), "point_indices": ("I32", [2])})
        fates = {"received": 4, "kept": 2, "not_finite": 1, "out_of_crop": 0, "cut_out": 1, "out_of_distance": 0}
        self.assertEqual(answer.metadata["points"], fates)
        self.assertEqual(answer.metadata["batch"], {"size": 1, "points": [4], "kept": [2]})
        stages = {"copy_in", "copy_out", "queue", "receive", "step-transform", "steps", "total"}
        self.assertEqual(set(answer.metadata["timing_us"]), stages)
        timing = reply.headers["Server-Timing"]
        self.assertIn("copy_in;dur=", timing)
        self.assertIn("steps;dur=", timing)
        self.assertNotIn("voxelize", timing)

    def test_the_metadata_alone_has_the_same_counts(self):
        cut = "4,4,4,6,6,6;-1,-1,-1,0.5,1,1"
        metadata = self.metadata(f"crop=0,0,0,2,4,4&cut={cut}")
        fates = {"received": 4, "kept": 1, "not_finite": 1, "out_of_crop": 1, "cut_out": 1, "out_of_distance": 0}
        self.assertEqual(metadata["points"], fates)
        self.assertEqual(metadata["parameters"]["cut"], cut)
        self.assertEqual(metadata["parameters"]["crop"], [0, 0, 0, 2, 4, 4])

    def test_what_the_metadata_says_of_numbers_can_be_sent_again_as_it_is(self):
        query = "crop=-1e20,-1e%2B20,-1e6,1e%2B06,3e7,1e-7&cut=-1e20,0,0,1,1,1e%2B20"
        reply = self.ok(self.transform(query, FEW, JSON))
        said = b'"crop":[-1e20,-1e20,-1e6,1e6,3e7,1e-07],"cut":"-1e20,0,0,1,1,1e20"'
        self.assertIn(said, reply.body)
        cut = reply.json()["parameters"]["cut"]
        self.assertEqual(self.metadata(f"cut={cut}")["parameters"]["cut"], "-1e20,0,0,1,1,1e20")

    def test_a_plus_that_became_a_space_is_reported(self):
        for query in (
            "cut=-1e+20,0,0,1,1,1",
            "crop=+1,0,0,2,1,1",
            "matrix=1e+0",
            "timeout_ms=+1",
        ):
            with self.subTest(query):
                reason = "; in a URL + means a space and must be written %2B"
                self.problem(self.transform(query), 400, "bad-parameter", query.partition("=")[0], reason)
        for query in ("crop=1,2", "outputs=points,+points", "crop=0,0,0,1,1,1+"):
            with self.subTest(query):
                problem = self.problem(self.transform(query), 400, "bad-parameter", query.partition("=")[0])
                self.assertNotIn("%2B", json.dumps(problem))

    def test_each_cloud_has_its_matrix_or_all_have_one(self):
        two = f"matrix={SHIFT_X},1,0,0,20,0,1,0,0,0,0,1,0,0,0,0,1"
        metadata = self.metadata(f"point_counts=2,2&{two}&crop=-9,-9,-9,12,9,9")
        self.assertEqual((metadata["batch"]["kept"], metadata["points"]["out_of_crop"]), ([2, 0], 1))
        metadata = self.metadata(f"point_counts=2,2&matrix={SHIFT_X}")
        self.assertEqual(metadata["batch"]["kept"], [2, 1])
        self.refused("matrix", f"point_counts=300,300,400&{two}")

    def test_what_is_not_a_matrix_or_a_box_is_refused(self):
        identity = "1,0,0,0,0,1,0,0,0,0,1,0,0,0"
        for matrix in (
            "matrix",
            "matrix=",
            "matrix=1",
            f"matrix={identity},0,1,1",
            f"matrix={identity},0,2",
            f"matrix={identity},1,1",
            "matrix=1,0,0,inf,0,1,0,0,0,0,1,0,0,0,0,1",
            "matrix=1,0,0,nan,0,1,0,0,0,0,1,0,0,0,0,1",
            "matrix=1,0,0,1e40,0,1,0,0,0,0,1,0,0,0,0,1",
        ):
            self.refused("matrix", matrix)
        no_boxes = "0,0,0,1,1 0,0,0,1,1,1,1 0,0,0,1,0,1 0,0,0,0,1,1 0,0,0,1,1,1;2,2,2,3,3,3"
        self.refused("crop", "crop=", "crop=on", *(f"crop={box}" for box in no_boxes.split()))
        no_boxes = f"on {BOX}; ;{BOX} {BOX};0,0,0,1,1,-1 off;off"
        self.refused("cut", "cut=", *(f"cut={boxes}" for boxes in no_boxes.split()))
        self.refused("cut", "cut=" + ";".join([BOX] * 65))
        self.refused(
            "distance", "distance=", "distance=1", "distance=2,1", "distance=1,1", "distance=-1,2", "distance=0,inf"
        )
        self.refused("steps", "steps=transform")
        self.refused("outputs", "outputs=voxels", "outputs=", "outputs=points,points")
        self.refused("start", "start=1")
        self.refused("preset", "preset=kitti_second")
        self.ok(self.transform("cut=" + ";".join([BOX] * 64), SCAN, JSON))

    def test_a_preset_may_hold_a_sensors_place(self):
        presets = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (presets / "roof.json").write_text(json.dumps(ROOF), encoding="utf-8")
        self.start("--presets-dir", str(presets))
        for query, kept, cut_out in (("preset=roof", 1, 2), ("preset=roof&cut=off", 3, 0)):
            with self.subTest(query):
                points = self.tensors(self.transform(query)).metadata["points"]
                self.assertEqual((points["kept"], points["cut_out"]), (kept, cut_out))
        preset = self.json(self.ask("/v1/presets/roof"))
        self.assertEqual((preset["operation"], preset["parameters"]["cut"]), ("transform", ROOF["parameters"]["cut"]))

    def test_its_points_its_time_and_its_requests_are_counted(self):
        self.ok(self.transform("crop=0,0,0,2,4,4"))
        answered = 'endpoint="/v1/transform",code="200"'
        wait_until(lambda: counters(self.daemon, "voxeld_requests_total").get(answered), "the request counted")
        self.assertGreater(counters(self.daemon, "voxeld_points_total")['fate="out_of_crop"'], 0)
        stages = counters(self.daemon, "voxeld_stage_duration_seconds_count")
        self.assertGreater(stages['stage="steps"'], 0)
        self.assertEqual(stages['stage="voxelize"'], 0)


if __name__ == "__main__":
    unittest.main()
