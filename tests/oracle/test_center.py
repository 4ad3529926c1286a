"""POST /v1/decode with head=center, byte for byte the oracle's: random heads, ties, values that are not finite, both
kinds of suppression; and properties of every answer."""

import os
import unittest

import numpy as np

import boxes
import centers as oracle
import check
from decoding import SAFETENSORS, DecodeCase
from safetensors.numpy import save

SEED = int(os.environ.get("VOXELD_TEST_SEED", "13000"))
CASES = int(os.environ.get("VOXELD_TEST_CASES", "80"))
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 200, -200, 1e30], np.float32)
HEAD = {"head": "center", "point_cloud_range": "-8,-6,-3,8,6,1", "voxel_size": "0.1,0.2,4", "feature_map_stride": "8"}
TASKS = ([1], [3], [10], [1, 2], [1, 2, 2, 1, 2, 2])


def random_query(rng, tasks):
    query = dict(HEAD)
    if len(tasks) > 1 or rng.random() < 0.5:
        query["task_classes"] = ",".join(map(str, tasks))
    for name, values in (
        ("rot_order", ["cos_sin", "sin_cos"]),
        ("cell_labels", ["all", "best"]),
        ("feature_map_stride", ["3", "7"]),
        ("max_objects", ["1", "5", "64"]),
        ("score_threshold", ["0", "0.3", "0.5", "1"]),
        ("post_center_range", ["-4,-4,-1,4,4,1", "-100,-100,-100,100,100,100"]),
        ("nms_threshold", ["0", "0.2", "0.7", "1"]),
        ("nms_pre_max", ["1", "30", "65"]),
        ("nms_post_max", ["1", "3"]),
        ("class_agnostic", ["yes", "no"]),
    ):
        if rng.random() < 0.4:
            query[name] = str(rng.choice(values))
    if rng.random() < 0.4:
        radii = rng.choice([0, 0.5, 1.6, 4], len(tasks) if rng.random() < 0.5 else 1)
        query.update(nms="circle", min_radius=",".join(map(repr, radii.tolist())))
    if rng.random() < 0.5:
        for name in ("iou_power", "score_power")[: rng.integers(1, 3)]:
            powers = rng.choice([0, 0.32, 0.68, 1, 2], sum(tasks) if rng.random() < 0.5 else 1)
            query[name] = ",".join(map(repr, powers.tolist()))
        if rng.random() < 0.3:
            query["rectified_threshold"] = "0.2"
    return query


def random_maps(rng, shape, tasks, rectified):
    normal = lambda mean, width, values: rng.normal(mean, width, (*shape, values)).astype(np.float32)
    maps = {
        "heatmap": normal(-2.5, 1.5, sum(tasks)),
        "center": normal(0.5, 0.5, 2 * len(tasks)),
        "height": normal(-1, 1, len(tasks)),
        "dim": normal(0.3, 0.5, 3 * len(tasks)),
        "rot": normal(0, 1, 2 * len(tasks)),
        "vel": normal(0, 3, 2 * len(tasks)),
        "iou": normal(0.3, 0.6, len(tasks)),
    }
    if rng.random() < 0.4:  # ties, and headings at quarter turns
        maps["heatmap"], maps["rot"] = np.round(maps["heatmap"]), np.round(maps["rot"])
    if rng.random() < 0.4:
        for one in maps.values():
            hit = rng.random(one.shape) < 0.03
            one[hit] = rng.choice(SPECIAL, int(hit.sum()))
    with np.errstate(over="ignore"):
        maps = {name: one.astype(np.float16 if rng.random() < 0.25 else np.float32) for name, one in maps.items()}
    if rng.random() < 0.4:
        del maps["vel"]
    if not rectified:
        del maps["iou"]
    return maps


class Center(DecodeCase):
    oracle, items = oracle, "candidates"

    def test_random(self):
        for case in range(CASES):
            rng = np.random.default_rng(SEED + case)
            tasks = TASKS[rng.integers(0, len(TASKS))]
            shape = [int(n) for n in rng.choice([1, 2, 7, 12], 2)]
            if rng.random() < 0.6:
                shape.insert(0, int(rng.choice([1, 2, 3])))
            query = random_query(rng, tasks)
            maps = random_maps(rng, shape, tasks, "iou_power" in query)
            self.check(query, maps, f"seed {SEED + case}")

    def test_the_threshold_itself_is_too_low(self):
        logits = np.array(
            [0, np.nextafter(np.float32(0), np.float32(1)), 1e-6], np.float32
        )  # only the last is above 1/2
        maps = {name: np.zeros((1, 3, n), np.float32) for name, n in zip(oracle.MAPS, (1, 2, 1, 3, 2))}
        maps["heatmap"] = logits.reshape(1, 3, 1)
        found = self.check({**HEAD, "score_threshold": "0.5"}, maps)
        self.assertEqual(list(found["box_indices"]), [2])

    def test_a_heading_all_around(self):
        turns = np.linspace(-np.pi, np.pi, 33)[:32]
        maps = {name: np.zeros((1, 32, n), np.float32) for name, n in zip(oracle.MAPS, (1, 2, 1, 3, 2))}
        maps["dim"] -= 3
        maps["rot"] = np.stack([np.cos(turns), np.sin(turns)], 1).astype(np.float32).reshape(1, 32, 2)
        found = self.check({**HEAD, "nms_post_max": "32"}, maps)
        self.assertTrue(np.allclose(np.cos(found["boxes"][:, 6]), np.cos(turns), atol=1e-6))
        self.assertTrue(np.allclose(np.sin(found["boxes"][:, 6]), np.sin(turns), atol=1e-6))

    def test_what_is_kept_keeps_apart_and_what_goes_is_near(self):
        rng = np.random.default_rng(SEED)
        maps = random_maps(rng, (12, 12), [1], False)
        maps = {name: np.nan_to_num(one.astype(np.float32), posinf=0, neginf=0) for name, one in maps.items()}
        maps["heatmap"] = rng.permutation(144).astype(np.float32).reshape(12, 12, 1)
        every = self.check({**HEAD, "nms": "circle", "min_radius": "0"}, maps)
        for circle in (False, True):
            way = {"nms": "circle", "min_radius": "1.5"} if circle else {"nms_threshold": "0.1"}
            goes = (
                (lambda a, b: oracle.near(a, b, 1.5))
                if circle
                else (lambda a, b: boxes.suppresses(a, b, np.float32(0.1)))
            )
            kept = list(self.check({**HEAD, **way}, maps)["box_indices"])
            shapes = {i: boxes.Rectangle(box) for i, box in zip(every["box_indices"], every["boxes"])}
            place = {i: n for n, i in enumerate(every["box_indices"])}
            self.assertLess(len(kept), len(shapes))
            for n, i in enumerate(kept):
                self.assertFalse(any(goes(shapes[j], shapes[i]) for j in kept[:n]))
            for i in set(shapes) - set(kept):
                self.assertTrue(any(goes(shapes[j], shapes[i]) for j in kept if place[j] < place[i]))

    def test_nothing(self):
        for shape in ((0, 5), (3, 0), (2, 0, 0)):
            maps = {name: np.zeros((*shape, n), np.float32) for name, n in zip(oracle.MAPS, (1, 2, 1, 3, 2))}
            self.check(HEAD, maps)

    def test_a_preset_knows_its_head(self):
        rng = np.random.default_rng(SEED + 1)
        tasks = [1, 2, 2, 1, 2, 2]
        maps = random_maps(rng, (9, 11), tasks, False)
        preset = {
            "point_cloud_range": "-54,-54,-5,54,54,3",
            "voxel_size": "0.075,0.075,0.2",
            "feature_map_stride": "8",
            "task_classes": "1,2,2,1,2,2",
            "post_center_range": "-61.2,-61.2,-10,61.2,61.2,10",
            "nms_threshold": "0.2",
            "nms_pre_max": "1000",
            "nms_post_max": "83",
        }
        expected, _, _ = oracle.decode(preset, maps)
        reply = self.daemon.post("/v1/decode?preset=nuscenes_centerpoint_voxel0075", save(maps), SAFETENSORS)
        answered, metadata = check.parse_by_hand(reply.body)
        self.assertEqual(metadata["parameters"]["head"], "center")
        for name, tensor in expected.items():
            self.assertEqual(answered[name].tobytes(), tensor.tobytes(), name)


if __name__ == "__main__":
    unittest.main()
