"""coordinates=cylinder of POST /v1/voxelize, byte for byte numpy's: random clouds and grids, steps, batches, edges."""

import os
import unittest
import urllib.parse

import numpy as np

import check
import oracle
import steps
import test_steps
from daemon import OneDaemonCase

SEED = int(os.environ.get("VOXELD_TEST_SEED", "9700"))
CASES = int(os.environ.get("VOXELD_TEST_CASES", "80"))
F32 = np.float32
RANGE = [0, -3.14159265359, -4, 50, 3.14159265359, 2]


def rows_of(points):
    """rho, phi, z, x, y, the rest."""
    x, y = points[:, 0].astype(np.float64) + 0.0, points[:, 1].astype(np.float64) + 0.0  # + 0.0 turns -0 into 0
    with np.errstate(all="ignore"):
        rho, phi = np.sqrt(x * x + y * y).astype(F32), np.arctan2(y, x).astype(F32)
    return np.column_stack([rho, phi, points[:, 2], points[:, 0], points[:, 1], points[:, 3:]]).astype(F32)


def voxels_of(rows, cloud, finite, shape, by_key):
    """The voxels of all clouds, without caps: coords, counts, means, and the voxel of each row."""
    low, high = np.array(RANGE[:3], F32), np.array(RANGE[3:], F32)
    size = (high - low) / (np.array(shape) - 1).astype(F32)
    ids = np.full(len(rows), -1, np.int32)
    coords, members = [], []
    with np.errstate(all="ignore"):
        cells = np.floor((np.clip(rows[:, :3], low, high) - low) / size)
    for number in np.unique(cloud):
        found = {}
        for row in np.flatnonzero((cloud == number) & finite):
            found.setdefault(tuple(int(c) for c in cells[row]), []).append(row)
        for cell in sorted(found) if by_key else found:
            ids[found[cell]] = len(coords)
            coords.append((number, *cell[::-1]))
            members.append(found[cell])
    means = np.zeros((len(coords), rows.shape[1]), F32)
    for voxel, mine in enumerate(members):
        with np.errstate(all="ignore"):
            sums = oracle.grouped_sums(rows[mine], np.array([0]), np.array([len(mine)]))[0]
            means[voxel] = (sums / F32(len(mine))).astype(F32)
    means[np.isnan(means)] = steps.NAN
    return {
        "voxel_coords": np.array(coords, np.int32).reshape(-1, 4),
        "voxel_num_points": np.array([len(mine) for mine in members], np.int32),
        "voxel_features": means,
        "point_voxel_ids": ids,
    }


class Cylinder(OneDaemonCase):
    ARGS = ("--workers", "1")

    def check(self, points, counts=(), chain=(), shape=(480, 360, 32), by_key=False, where="", dtype=np.float32):
        counts, chain = list(counts) or [len(points)], list(chain)
        with np.errstate(over="ignore"):
            body = np.ascontiguousarray(points).astype(dtype)
        query = test_steps.query_of(chain, points.shape[1], counts, dtype=np.dtype(dtype).name)
        query |= {"coordinates": "cylinder", "grid_shape": ",".join(map(str, shape))}
        query |= {"point_cloud_range": test_steps.numbers(RANGE), "max_points_per_voxel": "0", "max_voxels": "100000"}
        query |= {"order": "key" if by_key else "first"}
        query["outputs"] = "voxel_coords,voxel_num_points,voxel_features,point_voxel_ids,points,point_rows"
        reply = self.daemon.post("/v1/voxelize?" + urllib.parse.urlencode(query, safe=",:"), body.tobytes())
        self.assertEqual(reply.status, 200, f"{where} {query} {reply}")
        answered, metadata = check.parse_by_hand(reply.body)
        moved = steps.run(chain, body.astype(F32), counts, test_steps.FIELDS[: points.shape[1]])
        rows = rows_of(moved.points)
        finite = (moved.steps == 0) & np.isfinite(moved.points[:, :3]).all(axis=1) & np.isfinite(rows[:, 0])
        expected = voxels_of(rows, moved.cloud, finite, shape, by_key)
        for row in np.flatnonzero([fate == "merged" for fate in moved.fates]):
            head = moved.into[row]
            while moved.fates[head] == "merged":
                head = moved.into[head]
            expected["point_voxel_ids"][row] = expected["point_voxel_ids"][head]
        for name, tensor in expected.items():
            self.assertEqual(check.difference(name, tensor, answered[name]), None, f"{where} {query}")
        self.assertEqual(metadata["grid_size"], list(shape))
        self.assertEqual(metadata["points"]["out_of_range"], 0)
        told = dict(metadata["points"])
        self.assertEqual(told.pop("received"), sum(told.values()))
        return answered

    def test_random_clouds(self):
        for case in range(CASES):
            rng = np.random.default_rng([SEED, case])
            columns = int(rng.choice([3, 4, 5]))
            largest = rng.choice([1, 40, 700], int(rng.choice([1, 1, 2, 4])))
            counts = [int(rng.integers(0, most + 1)) for most in largest]
            points = np.concatenate([test_steps.random_cloud(rng, count, columns) for count in counts])
            chain = test_steps.random_chain(rng, columns, 2) if rng.random() < 0.4 else []
            shape = [int(rng.choice([2, 9, 32, 360, 480])) for _ in range(3)]
            dtype = np.float16 if rng.random() < 0.2 else np.float32
            self.check(points, counts, chain, shape, rng.random() < 0.5, f"case {case}", dtype)

    def test_points_outside_are_in_the_outermost_cells(self):
        points = np.array([[60, 0, 0, 1], [-1e30, 0, 9, 2], [0, 0, -50, 3], [-3, -0.0, 2, 4], [3e38, 3e38, 0, 5]], F32)
        answered = self.check(points)
        self.assertEqual(answered["point_voxel_ids"].tolist(), [0, 1, 2, 3, -1])  # the last rho is not finite
        self.assertEqual(answered["voxel_coords"][:3, 1].tolist(), [20, 31, 0])
        self.assertEqual(answered["voxel_features"].shape, (4, 6))

    def test_no_points(self):
        self.check(np.zeros((0, 4), F32))
        self.check(np.full((3, 4), np.nan, F32))


if __name__ == "__main__":
    unittest.main()
