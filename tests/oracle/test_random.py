"""Random parameters on random clouds. VOXELD_TEST_SEED and VOXELD_TEST_CASES choose others."""

import os
import unittest

import numpy as np

import check
import clouds

SEED = int(os.environ.get("VOXELD_TEST_SEED", "7000"))
CASES = int(os.environ.get("VOXELD_TEST_CASES", "120"))
GRID = {"num_features": "4", "point_cloud_range": "-10,-10,-2,10,10,2", "voxel_size": "0.5,0.5,0.5"}
ALL = {"feature": "points,mean,pillar", "outputs": ",".join(check.oracle.TENSORS)}


class Random(check.OracleCase):
    def case(self, seed, style, points, batched, **fixed):
        rng = np.random.default_rng(seed)
        query = clouds.random_query(rng) | fixed
        body = clouds.random_body(rng, query, points, style)
        if batched:
            query["point_counts"] = ",".join(str(n) for n in clouds.random_counts(rng, points, True))
        return self.check(query, body, what=f"seed {seed}, {style}, {points} points")

    def test_many(self):
        sizes = (0, 1, 2, 65, 500, 3000, 20000)
        for seed in range(SEED, SEED + CASES):
            rng = np.random.default_rng(seed)
            style = clouds.STYLES[seed % len(clouds.STYLES)]
            self.case(seed, style, int(rng.choice(sizes)), rng.random() < 0.4)


class Corners(check.OracleCase):
    def cloud(self, seed, style, points, **fixed):
        rng = np.random.default_rng(seed)
        query = GRID | ALL | fixed
        return query, clouds.random_body(rng, {"dtype": "float32"} | query, points, style)

    def test_empty_cloud(self):
        query, body = self.cloud(1, "uniform", 0)
        self.assertEqual(self.check(query, body).voxels["kept"], 0)

    def test_one_point(self):
        query, body = self.cloud(2, "one_cell", 1)
        self.check(query, body)

    def test_no_point_in_range(self):
        query, _ = self.cloud(3, "uniform", 0)
        result = self.check(query, np.full((100, 4), 1e30, np.float32).tobytes())
        self.assertEqual(result.points["out_of_range"], 100)

    def test_not_finite_coordinates(self):
        query, body = self.cloud(4, "uniform", 1000)
        rows = np.frombuffer(body, np.float32).reshape(-1, 4).copy()
        for n, value in enumerate((np.nan, np.inf, -np.inf)):
            for axis in range(3):
                rows[10 * n + axis :: 50, axis] = value
        result = self.check(query, rows.tobytes())
        self.assertEqual(result.points["not_finite"], int((~np.isfinite(rows[:, :3])).any(axis=1).sum()))

    def test_features_that_are_no_numbers(self):
        for feature_dtype in ("float32", "float16"):
            query, body = self.cloud(
                5, "crowded", 2000, feature_dtype=feature_dtype, fill="mean", max_points_per_voxel="20"
            )
            bits = np.frombuffer(body, np.uint32).reshape(-1, 4).copy()
            bits[:, 3] = np.random.default_rng(5).choice(clouds.SPECIALS, len(bits))
            self.check(query, bits.tobytes())

    def test_minus_zero_stays(self):
        query, _ = self.cloud(6, "uniform", 0, max_points_per_voxel="3")
        rows = np.array([[-0.0, -0.0, -0.0, -0.0]] * 5, np.float32)
        self.check(query, rows.tobytes())
        self.check(query, rows[:1].tobytes())

    def test_last_subnormal_below_a_bound_of_zero(self):
        # -1.4e-45 / 4 rounds to -0, whose floor is not below 0: the point is in range.
        query, _ = self.cloud(7, "uniform", 0, point_cloud_range="0,0,0,8,8,8", voxel_size="4,4,4")
        bits = np.array([[0x80000001] * 3 + [0], [0x80000008] * 3 + [0]], np.uint32)
        result = self.check(query, bits.tobytes())
        self.assertEqual((result.points["kept"], result.points["out_of_range"]), (1, 1))

    def test_sums_that_overflow(self):
        query, _ = self.cloud(8, "uniform", 0, feature_dtype="float16", max_points_per_voxel="8")
        rows = np.zeros((6, 4), np.float32)
        rows[:, 3] = [3e38, 3e38, -3e38, 65520, 1e-8, -3e38]
        self.check(query, rows.tobytes())
        self.check(query, rows[::-1].tobytes())

    def test_all_points_in_one_cell(self):
        for cap in ("1", "5", "1024"):
            query, body = self.cloud(9, "one_cell", 5000, max_points_per_voxel=cap)
            self.assertEqual(self.check(query, body).points["kept"], int(cap))

    def test_all_points_in_different_cells(self):
        query, body = self.cloud(
            10,
            "all_different",
            60000,
            point_cloud_range="-50,-50,-50,50,50,50",
            voxel_size="0.1,0.1,0.1",
            max_points_per_voxel="2",
            max_voxels="60000",
        )
        self.check(query, body)

    def test_max_voxels_reached_exactly_and_exceeded_by_one(self):
        for cap in ("499", "500", "501"):
            query, body = self.cloud(11, "all_different", 500, max_voxels=cap, point_cloud_range="0,0,0,100,100,100")
            self.assertEqual(self.check(query, body * 2).voxels["dropped"], 500 - min(500, int(cap)))

    def test_voxels_go_on_filling_after_max_voxels(self):
        query, body = self.cloud(12, "duplicates", 5000, max_voxels="10", max_points_per_voxel="100")
        self.check(query, body)

    def test_uncapped_sums_of_every_size(self):
        for points in (1, 2, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 4160, 70000, 270000):
            query, body = self.cloud(
                points,
                "one_cell",
                points,
                max_points_per_voxel="0",
                feature="mean",
                outputs="voxel_features,voxel_num_points,point_voxel_ids",
            )
            self.check(query, body, what=f"{points} points in one uncapped voxel")

    def test_uncapped_crowds_side_by_side(self):
        query, body = self.cloud(
            13, "crowded", 100000, max_points_per_voxel="0", feature="mean", outputs="voxel_features", num_features="7"
        )
        self.check(query, body)

    def test_64_columns(self):
        query, body = self.cloud(14, "crowded", 2000, num_features="64", max_points_per_voxel="4")
        self.check(query, body)

    def test_largest_grid(self):
        # 2e9 x 2e9 cells, a product just below 2^62; and an axis just below 2^31.
        for size in ("0.001,0.001,2000000", "2000000,0.001,0.001", "0.001,2000000,0.001"):
            bounds = "-1000000,-1000000,-1000000,1000000,1000000,1000000"
            query, body = self.cloud(15, "uniform", 20000, point_cloud_range=bounds, voxel_size=size, order="key")
            self.check(query, body)
        query, body = self.cloud(16, "uniform", 20000, point_cloud_range="0,0,0,2147483520,1,1", voxel_size="1,1,1")
        self.check(query, body)

    def test_order_of_the_key_beyond_32_bits(self):
        query, body = self.cloud(
            17,
            "uniform",
            30000,
            point_cloud_range="-500,-500,-500,500,500,500",
            voxel_size="0.01,0.01,0.01",
            order="key",
            max_points_per_voxel="2",
        )
        self.check(query, body)

    def test_block_filter_keeps_some(self):
        for factor, size in ((1, 1), (1, 2), (3, 5), (8, 8), (7, 32)):
            query, body = self.cloud(
                18,
                "uniform",
                3000,
                block_filter=f"{factor},{size},0.4,3.9",
                max_points_per_voxel="2",
                voxel_size="0.2,0.2,0.2",
            )
            result = self.check(query, body, what=f"block filter of {factor}, {size}")
            if (factor, size) == (1, 1):
                self.assertTrue(result.voxels["block_filtered"] and result.voxels["kept"], result.voxels)

    def test_block_filter_thresholds_are_exclusive(self):
        rows = np.array([[0.1, 0.1, -1, 0], [0.1, 0.1, 1, 0]], np.float32)
        for low, high, kept in (("2", "9", 0), ("1.9999999", "9", 2), ("0", "2", 0), ("0", "2.0000002", 2)):
            query, _ = self.cloud(19, "uniform", 0, block_filter=f"1,1,{low},{high}")
            self.assertEqual(self.check(query, rows.tobytes()).voxels["kept"], kept)

    def test_block_filter_of_each_cloud_alone(self):
        query, body = self.cloud(20, "crowded", 900, block_filter="2,3,0.5,10", order="key", max_voxels="8")
        self.check(query | {"point_counts": "300,0,300,300,0"}, body)

    def test_batch_with_empty_clouds(self):
        for counts in ("0", "0,0,0", "100,0,0", "0,0,100", "0,100,0,0"):
            points = sum(int(n) for n in counts.split(","))
            query, body = self.cloud(21, "uniform", points, point_counts=counts)
            self.check(query, body, what=f"batch of {counts}")

    def test_batch_of_1024_clouds(self):
        counts = np.random.default_rng(22).integers(0, 9, 1024)
        query, body = self.cloud(
            22,
            "crowded",
            int(counts.sum()),
            point_counts=",".join(str(n) for n in counts),
            max_points_per_voxel="2",
            max_voxels="3",
        )
        self.check(query, body)

    def test_batch_is_the_concatenation_of_its_clouds(self):
        query, body = self.cloud(23, "crowded", 400, max_voxels="6", order="key")
        self.check(query | {"point_counts": "200,200"}, body[: len(body) // 2] * 2)

    def test_each_output_alone(self):
        for name in check.oracle.TENSORS:
            query, body = self.cloud(24, "crowded", 1000, outputs=name)
            self.check(query, body, what=name)

    def test_every_half_as_a_feature(self):
        # All 65536 bit patterns go in as float16. They come back as features of either type.
        rows = np.zeros((65536, 4), np.uint16)
        rows[:, 3] = np.arange(65536)
        rows[:, 0] = np.arange(65536) % 512 + 0x4000
        for feature_dtype in ("float32", "float16"):
            query, _ = self.cloud(
                25,
                "uniform",
                0,
                dtype="float16",
                feature_dtype=feature_dtype,
                voxel_size="0.01,1,1",
                max_points_per_voxel="200",
            )
            self.check(query, rows.tobytes(), what="every float16")

    def test_grid_rounds_halves_away_from_zero(self):
        for extent in ("0.5", "1.5", "2.5", "3.49"):
            rows = np.zeros((50, 4), np.float32)
            rows[:, 0] = np.linspace(-0.5, 4.5, 50)
            query, _ = self.cloud(26, "uniform", 0, point_cloud_range=f"0,-1,-1,{extent},1,1", voxel_size="1,1,1")
            self.check(query, rows.tobytes(), what=f"extent {extent}")

    def test_a_small_request_after_a_large_one(self):
        # No data of the large request in buffers and tables shows in the small one.
        big, big_body = self.cloud(27, "crowded", 50000)
        small, small_body = self.cloud(28, "crowded", 50)
        for _ in range(20):
            self.check(big, big_body)
            self.check(small, small_body)
            self.check(small | {"max_points_per_voxel": "2", "order": "key"}, small_body)


if __name__ == "__main__":
    unittest.main()
