"""fps on POST /v1/voxelize, byte for byte the oracle's: samples of the voxels' means. The means are in the order of the
rows."""

import dataclasses
import os
import unittest

import numpy as np

import check
import clouds
import oracle
import samples
from test_scans import SCANS, scans

SEED = int(os.environ.get("VOXELD_TEST_SEED", "11000"))
CASES = int(os.environ.get("VOXELD_TEST_CASES", "80"))
GRID = {"num_features": "4", "point_cloud_range": "-10,-10,-2,10,10,2", "voxel_size": "0.5,0.5,0.5"}
ALL = ",".join(samples.TENSORS)


def finite_voxels(query, params, body, counts):
    """For each cloud, the number of voxels with a finite mean, and the number of all voxels."""
    plain = oracle.Params.from_values(
        {k: v for k, v in query.items() if k not in ("feature", "feature_dtype", "outputs")} | {"feature": "mean"}
    )
    result = oracle.voxelize(params or plain, body, counts)
    finite = np.isfinite(result.tensors["voxel_features"][:, :3]).all(axis=1)
    edges = np.concatenate(([0], np.cumsum(result.batch_voxels))).astype(int)
    return [int(finite[a:b].sum()) for a, b in zip(edges[:-1], edges[1:])], result.batch_voxels


class Random(check.OracleCase):
    def test_many(self):
        for seed in range(SEED, SEED + CASES):
            rng = np.random.default_rng(seed)
            query = clouds.random_query(rng)
            points, style = int(rng.choice([1, 30, 500, 5000])), clouds.STYLES[seed % len(clouds.STYLES)]
            body = clouds.random_body(rng, query, points, style)
            counts = clouds.random_counts(rng, points, rng.random() < 0.4)
            if len(counts) > 1:
                query["point_counts"] = ",".join(str(n) for n in counts)
            most, voxels = finite_voxels(query, None, body, counts)
            if len(counts) > 1 and rng.random() < 0.5:
                numbers = [int(rng.integers(0, min(n, 400) + 1)) for n in most]
            else:
                numbers = [int(rng.integers(0, min(*most, 400, 400) + 1))]
            query["fps"] = ",".join(str(n) for n in numbers)
            starts = [n for n, asked in zip(voxels, numbers * len(voxels)) if asked]
            if rng.random() < 0.5:
                query["start"] = str(rng.integers(0, min(starts, default=1)))
            sampled = [n for n in samples.TENSORS if rng.random() < 0.8] or [rng.choice(samples.TENSORS)]
            query["outputs"] += "," + ",".join(sampled)
            self.check(query, body, what=f"seed {seed}, {style}, {points} points")


class Corners(check.OracleCase):
    def cloud(self, seed, style, points, **fixed):
        query = GRID | {"fps": "100", "outputs": ALL} | fixed
        return query, clouds.random_body(np.random.default_rng(seed), {"dtype": "float32"} | query, points, style)

    def test_default_outputs_gain_indices_and_points(self):
        query, body = self.cloud(1, "uniform", 3000)
        del query["outputs"]
        result = self.check(query, body)
        self.assertEqual(
            set(result.tensors),
            {"voxel_coords", "voxel_num_points", "voxel_features", "sampled_indices", "sampled_points"},
        )

    def test_means_are_float32_whatever_the_features_are(self):
        query, body = self.cloud(2, "uniform", 3000, feature_dtype="float16")
        for feature in ("mean", "points", "pillar", "points,mean,pillar"):
            self.check(query | {"feature": feature}, body, what=feature)

    def test_order_of_the_rows(self):
        for order in ("first", "key"):
            query, body = self.cloud(3, "uniform", 3000, order=order, start="200")
            self.check(query, body, what=order)

    def test_caps_come_first(self):
        query, body = self.cloud(4, "uniform", 9000, max_voxels="150", max_points_per_voxel="2")
        self.check(query | {"fps": "150"}, body)

    def test_no_cap(self):
        for order in ("first", "key"):
            query, body = self.cloud(5, "crowded", 60000, max_points_per_voxel="0", order=order, fps="5")
            self.check(query, body)

    def test_block_filter_comes_first(self):
        grid = {"voxel_size": "0.2,0.2,0.2", "max_points_per_voxel": "3"}
        for order in ("first", "key"):
            query, body = self.cloud(6, "uniform", 9000, block_filter="3,5,0.4,3.9", order=order, **grid)
            result = self.check(query, body)
            self.assertTrue(result.voxels["kept"] >= 100, result.voxels)

    def test_every_voxel(self):
        query, body = self.cloud(7, "crowded", 2000)
        voxels = self.check(query | {"fps": "0"}, body).voxels["kept"]
        self.check(query | {"fps": str(voxels), "start": str(voxels - 1)}, body)

    def test_batches(self):
        query, body = self.cloud(8, "uniform", 4000, point_counts="1500,0,2500")
        self.check(query | {"fps": "100,0,300"}, body)
        self.check(query | {"fps": "0"}, body)
        self.check(query | {"fps": "200", "point_counts": "1500,2500", "order": "key"}, body)
        self.check(query | {"fps": "200,200", "point_counts": "1500,2500"}, body)

    def test_means_that_overflow_are_never_chosen(self):
        rows = np.array([[1e38, 1, 1, 0], [3e38, 1, 1, 0], [3e38, 1, 1, 0], [2e38, 1, 1, 0]], np.float32)
        query, _ = self.cloud(9, "uniform", 0, point_cloud_range="0,0,0,3.4e38,4,4", voxel_size="0.5e38,4,4", fps="2")
        for start, chosen in (("0", [0, 2]), ("1", [2, 0])):
            result = self.check(query | {"start": start}, rows.tobytes())
            self.assertEqual(result.tensors["sampled_indices"].tolist(), [chosen])

    def test_other_columns_that_are_no_numbers(self):
        query, body = self.cloud(10, "uniform", 3000)
        bits = np.frombuffer(body, np.uint32).reshape(-1, 4).copy()
        bits[:, 3] = np.random.default_rng(10).choice(clouds.SPECIALS, len(bits))
        self.check(query, bits.tobytes())

    def test_columns_and_halves(self):
        for columns in (3, 5, 8, 33):
            for dtype in ("float32", "float16"):
                query, body = self.cloud(columns, "uniform", 2000, num_features=str(columns), dtype=dtype)
                self.check(query, body)

    def test_each_output_alone(self):
        for name in (*oracle.TENSORS, *samples.TENSORS):
            feature = "points,mean,pillar"
            # fps is refused without a tensor of samples.
            outputs = name if name in samples.TENSORS else f"{name},sampled_indices"
            query, body = self.cloud(11, "uniform", 1000, outputs=outputs, feature=feature)
            self.check(query, body, what=name)


@unittest.skipUnless(SCANS.is_dir(), f"no real scans in {SCANS}")
class Scans(check.OracleCase):
    def test_every_preset(self):
        for name, values in oracle.known_presets(self.daemon.get("/v1/presets").json()["presets"]).items():
            # fps replaces the preset's outputs by the default tensors.
            params = dataclasses.replace(oracle.Params.from_values(values), outputs=())
            for path in scans(values["num_features"])[::3]:
                query = {"preset": name, "fps": "1024", "start": "77"}
                with self.subTest(preset=name, scan=path.name):
                    self.check(query, path.read_bytes(), params, f"{name} on {path.name}")


if __name__ == "__main__":
    unittest.main()
