"""POST /v1/nms, byte for byte the oracle's: random, tied, degenerate and broken boxes; and general properties."""

import os
import unittest
import urllib.parse

import numpy as np

import boxes as oracle
import check
from daemon import OneDaemonCase
from safetensors.numpy import save

SEED = int(os.environ.get("VOXELD_TEST_SEED", "11000"))
CASES = int(os.environ.get("VOXELD_TEST_CASES", "120"))
SAFETENSORS = {"Content-Type": "application/vnd.safetensors"}
SPECIAL = (0.0, -0.0, 1e-20, 1e30, -1.0, 65536.0, 65537.0, float("nan"), float("inf"), float("-inf"))


def objects(rng, count, spread, jitter):
    """Boxes around a few objects."""
    centres = np.concatenate(
        [rng.uniform(-spread, spread, (max(1, count // 12), 3)), rng.uniform(0.5, 5, (max(1, count // 12), 3))], 1
    )
    chosen = centres[rng.integers(0, len(centres), count)] + rng.normal(0, jitter, (count, 6)) * (
        rng.random((count, 1)) < 0.9
    )
    chosen[:, 3:] = np.abs(chosen[:, 3:])
    heading = rng.choice([0, np.pi / 2, 1.57, -3, 40000.5], count) + rng.normal(0, jitter, count)
    return np.concatenate([chosen, heading[:, None]], 1).astype(np.float32)


def random_tensors(rng, count):
    style = rng.choice(["objects", "objects", "grid", "spot", "broken"])
    boxes = objects(rng, count, 40 if style != "spot" else 0.1, 0.3)
    if style == "grid":  # touching edges and corners, at plain headings
        boxes = rng.integers(-3, 4, (count, 7)).astype(np.float32)
        boxes[:, 3:6] = np.abs(boxes[:, 3:6])
        boxes[:, 6] = rng.choice([0, 0, np.pi / 2], count)
    if style == "broken":
        hit = rng.random((count, 7)) < 0.05
        boxes[hit] = rng.choice(np.array(SPECIAL, np.float32), int(hit.sum()))
    scores = rng.choice([rng.random(count), np.round(rng.random(count), 1), np.zeros(count)]).astype(np.float32)
    if style == "broken" and count:
        scores[rng.integers(0, count, max(1, count // 10))] = rng.choice(np.array(SPECIAL, np.float32))
    return {"boxes": boxes, "scores": scores, "labels": rng.integers(-1, 3, count).astype(np.int32)}


def random_query(rng, counts):
    query = {"iou_threshold": str(rng.choice(["0.01", "0.01", "0.2", "0.7", "0", "1"]))}
    if len(counts) > 1:
        query["box_counts"] = ",".join(map(str, counts))
    if rng.random() < 0.5:
        query["class_agnostic"] = str(rng.choice(["yes", "no"]))
    if rng.random() < 0.5:
        query["nms_pre_max"] = str(rng.choice([1, 63, 64, 65, 100]))
    if rng.random() < 0.5:
        query["nms_post_max"] = str(rng.choice([1, 2, 63, 64]))
    return query


class Nms(OneDaemonCase):
    ARGS = ("--workers", "1")

    def check(self, query, tensors, where=""):
        expected, kept, told = oracle.nms(query, tensors)
        reply = self.daemon.post("/v1/nms?" + urllib.parse.urlencode(query, safe=","), save(tensors), SAFETENSORS)
        self.assertEqual(reply.status, 200, f"{where} {reply}")
        answered, metadata = check.parse_by_hand(reply.body)
        self.assertEqual(answered["kept_indices"].tobytes(), expected["kept_indices"].tobytes(), where)
        self.assertEqual((metadata["boxes"], metadata["batch"]["kept"]), (told, kept), where)
        return answered["kept_indices"]

    def test_random(self):
        for case in range(CASES):
            rng = np.random.default_rng(SEED + case)
            counts = [int(n) for n in rng.choice([0, 1, 63, 64, 65, 150, 400], int(rng.choice([1, 1, 2, 4])))]
            self.check(random_query(rng, counts), random_tensors(rng, sum(counts)), f"seed {SEED + case}")

    def test_thousands_on_one_spot(self):
        rng = np.random.default_rng(SEED)
        tensors = {"boxes": objects(rng, 3000, 0.5, 0.2), "scores": rng.random(3000).astype(np.float32)}
        self.assertLess(len(self.check({}, tensors)), 20)

    def test_equal_scores_rank_by_index(self):
        far = np.arange(130, dtype=np.float32)
        boxes = np.zeros((130, 7), np.float32)
        boxes[:, 0] = 10 * far
        boxes[:, 3:6] = 1
        scores = np.where(far % 2, -0.0, 0.0).astype(np.float32)
        kept = self.check({}, {"boxes": boxes, "scores": scores})
        self.assertEqual(list(kept), list(range(130)))

    def test_what_is_kept_does_not_overlap_and_what_goes_overlaps(self):
        rng = np.random.default_rng(SEED + 1)
        tensors = {"boxes": objects(rng, 500, 15, 0.4), "scores": rng.permutation(500).astype(np.float32)}
        kept = list(self.check({"iou_threshold": "0.1"}, tensors))
        shapes = [oracle.Rectangle(box) for box in tensors["boxes"]]
        place = {i: n for n, i in enumerate(np.argsort(-tensors["scores"]))}
        for n, i in enumerate(kept):
            self.assertFalse(any(oracle.suppresses(shapes[j], shapes[i], 0.1) for j in kept[:n]))
        for i in set(range(500)) - set(kept):
            better = [j for j in kept if place[j] < place[i]]
            self.assertTrue(any(oracle.suppresses(shapes[j], shapes[i], np.float32(0.1)) for j in better))

    def test_order_of_input_does_not_matter(self):
        rng = np.random.default_rng(SEED + 2)
        tensors = {"boxes": objects(rng, 400, 15, 0.4), "scores": rng.permutation(400).astype(np.float32)}
        shuffled = rng.permutation(400)
        kept = self.check({}, tensors)
        again = self.check({}, {name: tensor[shuffled] for name, tensor in tensors.items()})
        self.assertEqual(list(shuffled[again]), list(kept))

    def test_touching_boxes_stay(self):
        boxes = np.array([[0, 0, 0, 2, 2, 1, 0], [2, 0, 0, 2, 2, 1, 0], [2, 2, 0, 2, 2, 1, 0]], np.float32)
        tensors = {"boxes": boxes, "scores": np.array([3, 2, 1], np.float32)}
        self.assertEqual(list(self.check({"iou_threshold": "0"}, tensors)), [0, 1, 2])


if __name__ == "__main__":
    unittest.main()
