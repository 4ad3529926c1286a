"""POST /v1/nms keeps nearly the same boxes as OpenPCDet's nms_gpu; tests/measure/agreement/nms measures the share."""

import unittest

import numpy as np
from safetensors.numpy import save

import boxes as oracle
import check
import openpcdet
from daemon import OneDaemonCase

SCENES = 6
AGREED = 0.95  # of the boxes that either keeps; the measured part is far higher


def near_pairs(count):
    """Two sets [count, 7] of boxes, most of which overlap."""
    rng = np.random.default_rng(7)
    first = np.concatenate((rng.uniform(-1, 1, (count, 3)), rng.uniform(0.5, 4, (count, 3))), 1)
    second = first + rng.normal(0, 0.4, first.shape)
    second[:, 3:] = np.abs(second[:, 3:]) + 0.1
    headings = rng.uniform(-np.pi, np.pi, (2, count, 1))
    return [np.concatenate(box, 1).astype(np.float32) for box in ((first, headings[0]), (second, headings[1]))]


class Agreement(OneDaemonCase):
    ARGS = ("--workers", "1")

    def keep(self, boxes, scores, threshold):
        body = save({"boxes": boxes, "scores": scores})
        reply = self.daemon.post(
            f"/v1/nms?iou_threshold={threshold}", body, {"Content-Type": "application/vnd.safetensors"}
        )
        return check.parse_by_hand(reply.body)[0]["kept_indices"]

    def test_most_boxes_are_kept_by_both(self):
        for kind, threshold in (("street", "0.01"), ("crowd", "0.2")):
            agreement = openpcdet.Agreement()
            for number in range(SCENES):
                boxes, scores = openpcdet.scene(np.random.default_rng(number), openpcdet.GAPS[kind])
                ours = self.keep(boxes, scores, threshold)
                agreement.add(len(boxes), ours, openpcdet.nms(boxes, scores, float(threshold)))
            self.assertGreater(agreement.both, 20 * SCENES)
            self.assertGreater(agreement.both / agreement.either, AGREED)

    def test_the_margin_makes_overlaps_larger(self):
        pedestrian = [0, 0, 0, 0.8, 0.6, 1.73, 0]
        pair = np.array([pedestrian, [0, 0.605, *pedestrian[2:]]], np.float32)  # 5 mm apart
        self.assertAlmostEqual(float(openpcdet.iou(pair[:1], pair[1:])[0]), 0.003, delta=0.002)
        self.assertEqual(oracle.overlap(*map(oracle.Rectangle, pair)), 0)
        self.assertEqual(list(self.keep(pair, np.array([1, 0.5], np.float32), "0")), [0, 1])
        self.assertEqual(list(openpcdet.nms(pair, np.array([1, 0.5], np.float32), 0.0)), [0])

    def test_else_overlaps_are_the_same(self):
        same = np.array([[1, 2, 0, 4, 2, 1, 0.3]], np.float32)
        self.assertAlmostEqual(float(openpcdet.iou(same, same)[0]), 1, delta=1e-5)
        first, second = near_pairs(400)
        theirs = openpcdet.iou(first, second)
        shapes = [tuple(map(oracle.Rectangle, pair)) for pair in zip(first, second)]
        areas = np.array([oracle.overlap(a, b) for a, b in shapes])
        ours = areas / (np.array([a.area + b.area for a, b in shapes]) - areas)
        self.assertGreater(np.count_nonzero(ours > 0.1), 300)
        self.assertLess(np.median(np.abs(ours - theirs)), 1e-6)
        self.assertLess(np.max(np.abs(ours - theirs)), 0.06)


if __name__ == "__main__":
    unittest.main()
