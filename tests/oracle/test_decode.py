"""POST /v1/decode, byte for byte the oracle's: random heads, ties, values that are not finite, corners."""

import os
import unittest

import numpy as np

import boxes as oracle
from decoding import DecodeCase

SEED = int(os.environ.get("VOXELD_TEST_SEED", "12000"))
CASES = int(os.environ.get("VOXELD_TEST_CASES", "80"))
KITTI = {
    "point_cloud_range": "0,-39.68,-3,69.12,39.68,1",
    "anchor_sizes": "3.9,1.6,1.56,0.8,0.6,1.73,1.76,0.6,1.73",
    "anchor_bottoms": "-1.78,-0.6,-0.6",
}
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 200, -200, 1e30], np.float32)


def divide(rng, total, parts):
    """Random whole numbers of 1 or more that add up to `total`."""
    ends = sorted(rng.choice(total - 1, parts - 1, replace=False) + 1)
    return [int(end - begin) for begin, end in zip([0, *ends], [*ends, total])]


def random_query(rng, sizes, rotations, bins, velocity):
    numbers = lambda values: ",".join(repr(float(value)) for value in values)
    query = {
        "point_cloud_range": "-20,-30,-3,20.5,30,1",
        "anchor_sizes": numbers(rng.uniform(0.5, 5, 3 * sizes)),
        "anchor_bottoms": numbers(rng.uniform(-2, 0, sizes)),
        "anchor_rotations": numbers(rng.choice([0, 1.57, -0.7], rotations)),
        "dir_bins": str(bins),
        "velocity": "yes" if velocity else "no",
        "nms_threshold": str(rng.choice(["0.01", "0.2", "0", "1"])),
        "score_threshold": str(rng.choice(["0.1", "0.3", "0.5", "0", "1"])),
    }
    for name, values in (
        ("align_center", ["yes", "no"]),
        ("class_agnostic", ["yes", "no"]),
        ("labels", ["best", "all"]),
        ("nms_groups", ["task", "class"]),
        ("heading", ["angle", "cos_sin"]),
        ("nms_pre_max", ["1", "64", "65"]),
        ("nms_post_max", ["1", "63"]),
        ("dir_offset", ["0", "0.78539", "-1.5"]),
        ("dir_limit_offset", ["0", "0.5", "1"]),
    ):
        if rng.random() < 0.5:
            query[name] = str(rng.choice(values))
    return query


def random_maps(rng, shape, anchors, logits, bins, values=7):
    """`logits`: of a cell."""
    cls = rng.normal(-3, 2, (*shape, logits)).astype(np.float32)
    moves = rng.normal(0, 0.3, (*shape, anchors * values)).astype(np.float32)
    directions = rng.normal(0, 1, (*shape, anchors * bins)).astype(np.float32)
    if rng.random() < 0.4:  # ties
        cls, directions = np.round(cls), np.round(directions)
    if rng.random() < 0.4:
        for one, part in ((cls, 0.05), (moves, 0.01), (directions, 0.05)):
            hit = rng.random(one.shape) < part
            one[hit] = rng.choice(SPECIAL, int(hit.sum()))
    kind = np.float16 if rng.random() < 0.3 else np.float32
    with np.errstate(over="ignore"):
        maps = {"cls_preds": cls.astype(kind), "box_preds": moves.astype(kind), "dir_cls_preds": directions}
    if rng.random() < 0.3:
        del maps["dir_cls_preds"]
    return maps


class Decode(DecodeCase):
    oracle, items = oracle, "anchors"

    def test_random(self):
        for case in range(CASES):
            rng = np.random.default_rng(SEED + case)
            sizes, rotations, bins = (int(rng.choice(some)) for some in ([1, 3, 16], [1, 2, 8], [1, 2, 5]))
            shape = [int(n) for n in rng.choice([1, 2, 5, 9], 2)]
            if rng.random() < 0.6:
                shape.insert(0, int(rng.choice([1, 2, 3])))
            classes = int(rng.choice([1, 3, 10]))
            velocity = bool(rng.random() < 0.3)
            query = random_query(rng, sizes, rotations, bins, velocity)
            logits, values = sizes * rotations * classes, 7 + 2 * velocity + (query.get("heading") == "cos_sin")
            if rng.random() < 0.5:
                tasks = int(rng.integers(1, min(sizes, classes) + 1))
                task_sizes, task_classes = divide(rng, sizes, tasks), divide(rng, classes, tasks)
                query["task_sizes"] = ",".join(map(str, task_sizes))
                query["task_classes"] = ",".join(map(str, task_classes))
                logits = rotations * sum(a * b for a, b in zip(task_sizes, task_classes))
            maps = random_maps(rng, shape, sizes * rotations, logits, bins, values)
            self.check(query, maps, f"seed {SEED + case}")

    def test_a_head_of_kitti(self):
        rng = np.random.default_rng(SEED)
        maps = random_maps(rng, (62, 54), 6, 18, 2)
        maps["cls_preds"] = (maps["cls_preds"].astype(np.float32) - 4).astype(np.float32)
        found = self.check({**KITTI, "class_names": "Car,Pedestrian,Cyclist"}, maps)
        self.assertGreater(len(found["boxes"]), 3)

    def test_the_threshold_is_that_of_the_sigmoid(self):
        # The least logit that reaches 0.1, and the one below it.
        logits = np.array([-2.1972244, np.nextafter(np.float32(-2.1972244), np.float32(-9))], np.float32)
        maps = {"cls_preds": logits.reshape(1, 2, 1), "box_preds": np.zeros((1, 2, 7), np.float32)}
        query = {**KITTI, "anchor_sizes": "1,1,1", "anchor_bottoms": "0", "anchor_rotations": "0"}
        self.assertEqual(list(self.check(query, maps)["box_indices"]), [0])

    def test_nothing(self):
        for shape in ((0, 5), (3, 0), (2, 0, 0)):
            maps = {"cls_preds": np.zeros((*shape, 6), np.float32), "box_preds": np.zeros((*shape, 42), np.float32)}
            self.check(KITTI, maps)


if __name__ == "__main__":
    unittest.main()
