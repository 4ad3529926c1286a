"""POST /v1/nms, and bodies of tensors: answers and refusals."""

import json
import struct
import unittest

from client import counters, tensor_file
from daemon import wait_until
from http_case import FORM, JSON, KITTI, SharedDaemonCase, floats

SAFETENSORS = "Content-Type: application/vnd.safetensors"
MCAP = "Accept: application/x-mcap"
# Two boxes that overlap, and a third far away.
BOXES = ([3, 7], floats(0, 0, 0, 4, 2, 1, 0, 1, 0, 0, 4, 2, 1, 0, 20, 0, 0, 2, 2, 1, 0))
SCORES = ([3], floats(0.5, 0.9, 0.1))
FILE = tensor_file(boxes=BOXES, scores=SCORES)
LABELLED = tensor_file(boxes=BOXES, scores=SCORES, labels=([3], struct.pack("<3i", 0, 1, 0), "I32"))
POINTS = tensor_file(
    points=([2, 4], floats(1, 2, 3, 4, 5, 6, 7, 8)),
    matrix=([1, 4, 4], floats(1, 0, 0, 10, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1)),
)


def odd():
    """A file whose tensors are not aligned."""
    described = {"boxes": (BOXES[0], [1, 85]), "scores": (SCORES[0], [85, 97])}
    header = {name: {"dtype": "F32", "shape": shape, "data_offsets": at} for name, (shape, at) in described.items()}
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" + BOXES[1] + SCORES[1]


class Nms(SharedDaemonCase):
    def nms(self, body, *lines, query=""):
        return self.post(f"/v1/nms?{query}", body, *lines)

    def transform(self, query, body, *lines):
        return self.post(f"/v1/transform?{query}", body, *lines)

    def test_the_best_of_overlapping_boxes_is_kept(self):
        reply = self.nms(FILE)
        answer = self.tensors(reply)
        self.assertEqual(answer.shapes, {"kept_indices": ("I32", [2])})
        fates = {"received": 3, "kept": 2, "invalid": 0, "over_pre_max": 0, "suppressed": 1, "over_post_max": 0}
        self.assertEqual(answer.metadata["boxes"], fates)
        self.assertEqual(answer.metadata["batch"], {"size": 1, "boxes": [3], "kept": [2]})
        stages = {"copy_in", "copy_out", "nms", "queue", "receive", "total"}
        self.assertEqual(set(answer.metadata["timing_us"]), stages)
        self.assertIn("nms;dur=", reply.headers["Server-Timing"])

    def test_classes_and_clouds_do_not_meet_if_asked_so(self):
        answer = self.json(self.nms(LABELLED, JSON, query="class_agnostic=no"))
        self.assertEqual(answer["boxes"]["kept"], 3)
        answer = self.json(self.nms(FILE, JSON, query="box_counts=1,2"))
        self.assertEqual(answer["batch"], {"size": 2, "boxes": [1, 2], "kept": [1, 2]})

    def test_an_mcap_of_boxes_has_no_clouds_whatever_was_asked_before(self):
        for _ in range(3):
            self.assertIn(b"/voxels", self.ok(self.post(KITTI, bytes(16000), MCAP)).body)
            reply = self.ok(self.nms(FILE, MCAP))
            self.assertEqual(reply.headers["Content-Type"], "application/x-mcap")
            self.assertNotIn(b"/voxels", reply.body)

    def test_the_media_type_of_tensors_is_taken_as_well_as_curls(self):
        for line in (SAFETENSORS, "Content-Type: application/octet-stream", FORM):
            with self.subTest(line):
                self.ok(self.nms(FILE, line))

    def test_a_body_that_is_not_what_the_operation_wants_is_refused_with_its_reason(self):
        no_file = "the body is not a safetensors file: "
        for body, reason in (
            (tensor_file(boxes=BOXES), "the input scores is missing"),
            (
                tensor_file(boxes=BOXES, scores=([2], floats(1, 2))),
                "the input scores has the shape [2]; allowed: [3]",
            ),
            (
                tensor_file(boxes=BOXES, scores=([3], bytes(6), "F16")),
                "tensor scores has the dtype F16; allowed: F32",
            ),
            (
                tensor_file(boxes=BOXES, scores=(*SCORES, None)),
                "tensor scores has the dtype (not a string); allowed: F32",
            ),
            (
                tensor_file(boxes=BOXES, scores=SCORES, weights=SCORES),
                "there is no input 'weights'; allowed: boxes, scores, labels",
            ),
            (odd(), "tensor boxes begins at byte 1 of the data; allowed: a multiple of 4"),
            (b"", f"{no_file}it has less than 8 bytes"),
            (struct.pack("<Q", 1 << 40) + b"{}", f"{no_file}its header would be longer than the body"),
            (
                struct.pack("<Q", 70000) + b" " * 70000,
                "the header of the safetensors file has 70000 bytes; allowed: 65536",
            ),
            (
                struct.pack("<Q", 4) + b"[1,]",
                "the header of the safetensors file, line 1, column 4: unexpected token near",
            ),
        ):
            with self.subTest(reason):
                self.problem(self.nms(body, SAFETENSORS), 400, "bad-body", reason=reason)
        reason = "the input labels is missing; class_agnostic=no needs it"
        self.problem(self.nms(FILE, query="class_agnostic=no"), 400, "bad-body", reason=reason)
        reason = "box_counts add up to 2 boxes but the body has 3"
        self.problem(self.nms(FILE, query="box_counts=1,1"), 400, "bad-body", "box_counts", reason)

    def test_bad_parameters_are_refused(self):
        for query in (
            "iou_threshold=1.5",
            "iou_threshold=-1",
            "iou_threshold=nan",
            "nms_pre_max=0",
            "nms_post_max=1048577",
            "class_agnostic=true",
            "outputs=voxels",
            "num_features=4",
        ):
            with self.subTest(query):
                self.problem(self.nms(FILE, query=query), 400, "bad-parameter", query.partition("=")[0])

    def test_points_and_matrices_come_as_tensors_too(self):
        answer = self.tensors(self.transform("format=safetensors", POINTS))
        self.assertEqual(answer.values("points"), (11, 2, 3, 4, 15, 6, 7, 8))
        self.ok(self.transform("", POINTS, SAFETENSORS))
        self.problem(self.transform("format=pcd", POINTS, SAFETENSORS), 400, "bad-parameter", "format")
        reply = self.transform("format=safetensors&num_features=5", POINTS)
        self.problem(reply, 400, "bad-body", "num_features", "points has 4 columns; num_features is 5")
        zeros = tensor_file(points=([0, 4], b""), matrix=([1, 4, 4], bytes(64)))
        reply = self.transform("format=safetensors", zeros)
        self.problem(reply, 400, "bad-parameter", "matrix", "the last row of matrix number 0 is 0,0,0,0")
        reply = self.transform("format=safetensors&matrix=1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1", POINTS)
        self.problem(reply, 400, "bad-parameter", "matrix")
        wide = tensor_file(points=([1, 65], bytes(4 * 65)))
        self.problem(self.post("/v1/fps?format=safetensors&num_samples=1", wide), 400, "bad-body")

    def test_boxes_are_counted_apart_from_points(self):
        suppressed = lambda: counters(self.daemon, "voxeld_boxes_total")['fate="suppressed"']
        kept = lambda: counters(self.daemon, "voxeld_points_total")['fate="kept"']
        self.daemon.await_accounts()
        boxes, points = suppressed(), kept()
        self.ok(self.nms(FILE))
        wait_until(lambda: suppressed() == boxes + 1, "one more box counted")
        self.assertEqual(kept(), points)


if __name__ == "__main__":
    unittest.main()
