"""POST /v1/decode with both heads, and presets with a head: answers and refusals."""

import json
import pathlib
import tempfile
import unittest

from client import tensor_file
from http_case import JSON, Daemon, SharedDaemonCase, floats

CENTER = "head=center&point_cloud_range=0,0,0,8,8,8&voxel_size=1,1,1&feature_map_stride=8"
MINE = {
    "description": "a model of my own",
    "parameters": {"point_cloud_range": [0, 0, 0, 8, 8, 8], "voxel_size": [1, 1, 1]},
    "decode_center": {"point_cloud_range": [0, 0, 0, 8, 8, 8], "voxel_size": [1, 1, 1], "feature_map_stride": 8},
    "nms": {"nms_post_max": 1},
}


def one_cell(**maps):
    """A file of maps of one cell."""
    return tensor_file(**{name: ([1, 1, len(values)], floats(*values)) for name, values in maps.items()})


def center_maps(tasks, logits):
    return {
        "heatmap": logits,
        "center": [0.5] * 2 * tasks,
        "height": [0] * tasks,
        "dim": [0] * 3 * tasks,
        "rot": [1, 0] * tasks,
    }


# For an anchor head of KITTI, and for centre heads of nuScenes and Waymo.
BOX_PREDS = [0] * 42
ANCHOR = one_cell(cls_preds=[-9] * 17 + [2], box_preds=BOX_PREDS)
NUSCENES = one_cell(**center_maps(6, [5, *[-9] * 8, 4]), vel=[1] * 12)
WAYMO = one_cell(**center_maps(1, [1, 2, 3]))
BOXES = tensor_file(boxes=([1, 7], floats(0, 0, 0, 1, 1, 1, 0)), scores=([1], floats(1)))


class Decode(SharedDaemonCase):
    @classmethod
    def setUpClass(cls):
        presets = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        (presets / "mine.json").write_text(json.dumps(MINE), encoding="utf-8")
        cls.daemon = Daemon(*cls.LANES, "--presets-dir", str(presets))

    def decode(self, query, body, *lines):
        return self.post(f"/v1/decode?{query}", body, *lines)

    def test_a_preset_knows_its_anchor_head(self):
        answer = self.tensors(self.decode("preset=kitti_pointpillar", ANCHOR))
        self.assertEqual(list(answer.shapes.items())[:2], [("boxes", ("F32", [1, 7])), ("scores", ("F32", [1]))])
        self.assertEqual(set(answer.shapes), {"box_counts", "box_indices", "boxes", "labels", "scores"})
        counts = {name: count for name, count in answer.metadata["anchors"].items() if count}
        self.assertEqual(counts, {"received": 6, "kept": 1, "below_threshold": 5})
        parameters = answer.metadata["parameters"]
        self.assertEqual((parameters["head"], parameters["class_names"][2]), ("anchor", "Cyclist"))
        # The last anchor of the cell: x and y at the range's lower end, the bottom at -0.6.
        box = [round(value, 3) for value in answer.values("boxes")]
        self.assertEqual(box, [0.0, -39.68, 0.265, 1.76, 0.6, 1.73, 1.57])

    def test_a_preset_knows_its_centre_head(self):
        answer = self.tensors(self.decode("preset=nuscenes_centerpoint_voxel0075", NUSCENES))
        self.assertEqual(answer.shapes["boxes"][1], [2, 9])
        self.assertEqual(answer.metadata["batch"], {"size": 1, "candidates": [10], "kept": [2]})
        candidates = answer.metadata["candidates"]
        counts = {name: count for name, count in candidates.items() if count}
        self.assertEqual(counts, {"received": 10, "kept": 2, "below_threshold": 8})
        self.assertEqual(sorted(candidates)[1:4], ["invalid", "kept", "outside"])
        parameters = answer.metadata["parameters"]
        self.assertEqual((parameters["head"], parameters["nms_post_max"]), ("center", 83))
        stages = {"copy_in", "copy_out", "decode", "nms", "queue", "receive", "total"}
        self.assertEqual(set(answer.metadata["timing_us"]), stages)
        answer = self.tensors(self.decode("preset=waymo_centerpoint&nms_threshold=0.5&outputs=labels", WAYMO))
        self.assertEqual(answer.values("labels")[0], 2)

    def test_the_head_of_the_query_counts_more_than_that_of_the_preset(self):
        self.ok(self.decode("preset=waymo_centerpoint&head=center", WAYMO))
        reply = self.decode("preset=waymo_centerpoint&head=anchor", WAYMO)
        reason = "a preset of voxelize, nms, decode_center; allowed: a preset of decode"
        self.problem(reply, 400, "bad-parameter", "preset", reason)
        reply = self.decode("head=corner", WAYMO)
        self.problem(reply, 400, "bad-parameter", "head", "allowed: anchor or center")
        self.ok(self.decode(CENTER, WAYMO))
        self.problem(self.decode(f"{CENTER}&head=anchor", WAYMO), 400, "bad-parameter", "head")

    def test_a_preset_of_several_operations_serves_each_and_no_other(self):
        preset = self.json(self.ask("/v1/presets/mine"))
        self.assertEqual(set(preset), {"decode_center", "description", "name", "nms", "parameters"})
        self.assertEqual((preset["decode_center"]["feature_map_stride"], preset["nms"]["nms_post_max"]), (8, 1))
        # voxelize accepts the preset too, but the body is not whole rows of points.
        self.problem(self.post("/v1/voxelize?preset=mine", BOXES), 400, "bad-body")
        parameters = self.tensors(self.post("/v1/nms?preset=mine", BOXES)).metadata["parameters"]
        self.assertEqual((parameters["nms_post_max"], parameters["preset"]), (1, "mine"))
        self.ok(self.decode("preset=mine", WAYMO))
        self.problem(self.post("/v1/fps?preset=mine&num_samples=1", BOXES), 400, "bad-parameter", "preset")
        reply = self.decode("preset=voxelize_cuda", ANCHOR)
        reason = "'voxelize_cuda', a preset of voxelize; allowed: a preset of decode"
        self.problem(reply, 400, "bad-parameter", "preset", reason)

    def test_each_head_has_its_own_parameters(self):
        self.problem(self.decode(f"{CENTER}&anchor_sizes=1,1,1", WAYMO), 400, "bad-parameter", "anchor_sizes")
        reply = self.decode("preset=kitti_pointpillar&rot_order=sin_cos", ANCHOR)
        self.problem(reply, 400, "bad-parameter", "rot_order")
        for query in (
            "feature_map_stride=0",
            "task_classes=0,3",
            "task_classes=65",
            "rot_order=sin",
            "max_objects=0",
            "post_center_range=0,0,0,0,1,1",
            "nms=square",
            "min_radius=-1",
            "min_radius=1,2",
            "iou_power=-1",
            "score_power=1,17,1",
            "rectified_threshold=2",
            "voxel_size=0,1,1",
        ):
            with self.subTest(query):
                reply = self.decode(f"preset=waymo_centerpoint&{query}", WAYMO)
                self.problem(reply, 400, "bad-parameter", query.partition("=")[0])
        self.problem(self.decode(f"{CENTER}&nms=circle", WAYMO), 400, "bad-parameter", "min_radius")
        for name in ("point_cloud_range", "voxel_size", "feature_map_stride"):
            with self.subTest(name):
                query = "&".join(part for part in CENTER.split("&") if not part.startswith(name))
                self.problem(self.decode(query, WAYMO), 400, "bad-parameter", name, "is missing")

    def test_a_power_and_the_map_of_overlaps_come_together(self):
        overlaps = one_cell(**center_maps(1, [1, 1, 1]), iou=[0])
        reply = self.decode("preset=waymo_centerpoint", overlaps)
        self.problem(reply, 400, "bad-parameter", "iou_power", "iou_power is missing; the input iou needs it")
        reply = self.decode("preset=waymo_centerpoint&iou_power=1", WAYMO)
        self.problem(reply, 400, "bad-body", "iou_power", "the input iou is missing; iou_power needs it")
        reply = self.decode("preset=waymo_centerpoint&iou_power=1,1", overlaps)
        self.problem(reply, 400, "bad-body", "iou_power", "iou_power has 2 numbers for 3 classes")
        answer = self.tensors(self.decode("preset=waymo_centerpoint&iou_power=1,2,3", overlaps))
        self.assertEqual(answer.metadata["candidates"]["kept"], 1)

    def test_circles_suppress_by_the_distance_of_centres(self):
        circles = f"{CENTER}&nms=circle&min_radius=0"
        candidates = self.json(self.decode(circles, WAYMO, JSON))["candidates"]
        self.assertEqual((candidates["kept"], candidates["suppressed"]), (1, 2))
        answer = self.json(self.decode(f"{circles}&task_classes=3&class_agnostic=no", WAYMO, JSON))
        self.assertEqual(answer["candidates"]["kept"], 3)

    def test_maps_that_do_not_fit_are_refused_with_their_reason(self):
        anchor_wide = one_cell(cls_preds=[0] * 19, box_preds=BOX_PREDS)
        few_tasks = one_cell(**center_maps(5, [0] * 10))
        no_rot = one_cell(**{name: values for name, values in center_maps(1, [1]).items() if name != "rot"})
        for query, body, reason in (
            (
                "preset=kitti_pointpillar",
                anchor_wide,
                "the input cls_preds has 19 channels; allowed: 1 to 64 classes for each of 6 anchors",
            ),
            (
                "preset=kitti_pointpillar",
                WAYMO,
                "there is no input 'heatmap'; allowed: cls_preds, box_preds, dir_cls_preds",
            ),
            (
                "preset=waymo_centerpoint",
                ANCHOR,
                "there is no input 'cls_preds'; allowed: heatmap, center, height, dim, rot, vel, iou",
            ),
            ("preset=waymo_centerpoint", no_rot, "the input rot is missing"),
            ("preset=waymo_centerpoint", NUSCENES, "the input heatmap has 10 channels; task_classes add up to 3"),
            (
                "preset=nuscenes_centerpoint_voxel01",
                few_tasks,
                "the input center has the shape [1,1,1,10]; allowed: [1,1,1,12]",
            ),
            (
                "preset=waymo_centerpoint&class_names=a,b",
                WAYMO,
                "the input heatmap has 3 classes; class_names has 2 names",
            ),
        ):
            with self.subTest(reason):
                reply = self.decode(query, body)
                self.assertEqual(reply.status, 400, reply)
                self.assertIn(reason, reply.json()["detail"])


if __name__ == "__main__":
    unittest.main()
