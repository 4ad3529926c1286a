"""POST /v1/transform, byte for byte the oracle's: random clouds, matrices and boxes, and corners."""

import json
import os
import unittest
import urllib.parse

import numpy as np

import check
import transform
from daemon import OneDaemonCase
from test_fps import STYLES, rows

SEED = int(os.environ.get("VOXELD_TEST_SEED", "9000"))
CASES = int(os.environ.get("VOXELD_TEST_CASES", "200"))


def numbers(values):
    return ",".join(repr(float(value)) for value in np.ravel(values))


def random_matrix(rng):
    matrix = np.eye(4)
    matrix[:3] = rng.normal(size=(3, 4)) * rng.choice([1, 1, 30, 1e-3, 1e20])
    return matrix


def random_box(rng):
    low, high = np.sort(rng.uniform(-60, 60, (2, 3)), axis=0)
    return numbers([low, high + 1e-3])


def random_query(rng, counts, columns):
    query = {"num_features": str(columns), "dtype": str(rng.choice(["float32", "float32", "float16"]))}
    if len(counts) > 1:
        query["point_counts"] = ",".join(map(str, counts))
    if rng.random() < 0.8:
        each = len(counts) if rng.random() < 0.5 else 1
        query["matrix"] = numbers([random_matrix(rng) for _ in range(each)])
    if rng.random() < 0.6:
        query["crop"] = random_box(rng)
    if rng.random() < 0.6:
        query["cut"] = ";".join(random_box(rng) for _ in range(int(rng.choice([1, 2, 7, 64]))))
    if rng.random() < 0.4:
        query["distance"] = numbers([rng.choice([0, 1, 30]), rng.choice([31, 60, 1e30])])
    return query


class Transform(OneDaemonCase):
    ARGS = ("--workers", "1")

    def check(self, query, body, where=""):
        tensors, kept, told = transform.transform(query, body)
        path = "/v1/transform?" + urllib.parse.urlencode(query, safe=",")
        reply = self.daemon.post(path, body)
        self.assertEqual(reply.status, 200, f"{where} {reply}")
        answered, metadata = check.parse_by_hand(reply.body)
        self.assertEqual(sorted(answered), sorted(tensors), where)
        for name, expected in tensors.items():
            self.assertEqual((answered[name].dtype, answered[name].shape), (expected.dtype, expected.shape), where)
            self.assertEqual(answered[name].tobytes(), expected.tobytes(), f"{where}: {name}")
        self.assertEqual((metadata["points"], metadata["batch"]["kept"]), (told, kept), where)
        alone = json.loads(self.daemon.post(path, body, {"Accept": "application/json"}).body)
        self.assertEqual((alone["points"], alone["batch"]), (metadata["points"], metadata["batch"]), where)
        return answered, metadata

    def test_random(self):
        for case in range(CASES):
            rng = np.random.default_rng(SEED + case)
            counts = [int(n) for n in rng.choice([0, 1, 7, 256, 1024, 3000], int(rng.choice([1, 1, 2, 5])))]
            columns = int(rng.choice([3, 4, 5, 64]))
            query = random_query(rng, counts, columns)
            body = rows(rng, sum(counts), STYLES[case % len(STYLES)], columns, query["dtype"], 0.05)
            self.check(query, body, f"seed {SEED + case}")

    def test_no_points(self):
        _, metadata = self.check({"crop": "0,0,0,1,1,1"}, b"")
        self.assertEqual(metadata["batch"], {"size": 1, "points": [0], "kept": [0]})

    def test_all_points_gone(self):
        for query in ({"crop": "50,50,50,51,51,51"}, {"cut": "-9,-9,-9,9,9,9"}):
            answered, _ = self.check(query, np.ones((1000, 4), np.float32).tobytes())
            self.assertEqual(answered["points"].shape, (0, 4))

    def test_borders_of_a_box(self):
        low, high = np.float32(-1), np.float32(2)
        at = [low, np.nextafter(low, np.float32(-2)), 0, np.nextafter(high, low), high]
        points = np.zeros((5, 3), np.float32)
        for axis in range(3):
            points[:] = 0
            points[:, axis] = at
            box = "-1,-1,-1,2,2,2"
            crop, _ = self.check({"num_features": "3", "crop": box}, points.tobytes())
            cut, _ = self.check({"num_features": "3", "cut": box}, points.tobytes())
            self.assertEqual(crop["point_indices"].tolist(), [0, 2, 3])
            self.assertEqual(cut["point_indices"].tolist(), [1, 4])

    def test_borders_of_a_distance(self):
        near, far = np.float32(0.5), np.float32(2)
        at = [np.nextafter(near, np.float32(0)), near, np.nextafter(far, near), far, 1e30]
        points = np.zeros((5, 3), np.float32)
        for axis in range(3):
            points[:] = 0
            points[:, axis] = at
            kept, _ = self.check({"num_features": "3", "distance": "0.5,2"}, points.tobytes())
            self.assertEqual(kept["point_indices"].tolist(), [1, 2])

    def test_a_move_may_overflow(self):
        points = np.array([[1e38, 0, 0], [1, 1, 1], [np.inf, 0, 0], [0, np.nan, 0]], np.float32)
        matrix = numbers(np.diag([10, 1, 1, 1]))
        _, metadata = self.check({"num_features": "3", "matrix": matrix}, points.tobytes())
        self.assertEqual((metadata["points"]["kept"], metadata["points"]["not_finite"]), (1, 3))

    def test_one_tensor_alone(self):
        body = rows(np.random.default_rng(SEED), 999, "uniform")
        query = {"crop": "-20,-20,-20,20,20,20"}
        whole, _ = self.check(query, body)
        for name in ("points", "point_indices"):
            path = "/v1/transform?" + urllib.parse.urlencode({**query, "outputs": name}, safe=",")
            answered, _ = check.parse_by_hand(self.daemon.post(path, body).body)
            self.assertEqual({n: t.tobytes() for n, t in answered.items()}, {name: whole[name].tobytes()})


if __name__ == "__main__":
    unittest.main()
