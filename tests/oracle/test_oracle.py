"""The oracle equals naive.py on small clouds. Needs no daemon."""

import os
import struct
import unittest

import numpy as np

import clouds
import naive
import oracle

SEED = int(os.environ.get("VOXELD_TEST_SEED", "20240611"))


def nested_bits(array):
    word = {2: np.uint16, 4: np.uint32, 1: np.uint8}[array.dtype.itemsize]
    return np.ascontiguousarray(array).view(word if array.dtype.kind == "f" else array.dtype).tolist()


class OracleAgainstNaive(unittest.TestCase):
    def compare(self, seed, query, body, counts):
        columns = int(query["num_features"])
        width = 2 if query["dtype"] == "float16" else 4
        words = struct.unpack(f"<{len(body) // width}{'H' if width == 2 else 'I'}", body)
        bits = [naive.widen(w) for w in words] if width == 2 else words
        rows = [list(bits[i : i + columns]) for i in range(0, len(bits), columns)]
        expected, fates, voxel_fates, grid = naive.voxelize(query, rows, counts)
        result = oracle.voxelize(oracle.Params.from_values(query), body, counts)
        where = f"seed {seed}: {query} counts {counts}"
        self.assertEqual(grid, result.grid_size, where)
        for name, array in result.tensors.items():
            got = nested_bits(array)
            for row, (e, g) in enumerate(zip(expected[name], got)):
                self.assertEqual(e, g, f"{name}, row {row}; {where}")
            self.assertEqual(len(expected[name]), len(got), f"{name}; {where}")
        fates["received"] = len(rows)
        self.assertEqual(fates, result.points, where)
        self.assertEqual(voxel_fates, result.voxels, where)

    def test_random_small_clouds(self):
        for case in range(400):
            seed = SEED + case
            rng = np.random.default_rng(seed)
            query = clouds.random_query(rng)
            points = int(rng.choice([0, 1, 2, 30, 200]))
            body = clouds.random_body(rng, query, points, clouds.STYLES[case % len(clouds.STYLES)])
            try:
                self.compare(seed, query, body, clouds.random_counts(rng, points, rng.random() < 0.4))
            except oracle.Refused as reason:
                self.fail(f"seed {seed}: the generator made an impossible request: {reason}: {query}")

    def test_tree_of_sums(self):
        for points in (1, 63, 64, 65, 128, 4096, 4097, 4160, 9000):
            rng = np.random.default_rng(points)
            query = clouds.random_query(rng, uncapped=True) | {"block_filter": "off", "num_features": "3"}
            query |= {"point_cloud_range": "-10,-10,-10,10,10,10", "voxel_size": "20,20,20", "dtype": "float32"}
            body = clouds.random_body(rng, query, points, "one_cell")
            self.compare(points, query, body, [points])


class OracleNumbers(unittest.TestCase):
    def test_every_half_widens_exactly(self):
        half = np.arange(65536, dtype=np.uint16)
        self.assertEqual(oracle.widen(half).tolist(), [naive.widen(int(h)) for h in half])

    def test_narrowing_ties_overflow_and_nan(self):
        half = np.arange(0x7C00, dtype=np.uint16)
        exact = oracle.widen(half).view(np.float32).astype(np.float64)
        middle = np.concatenate(((exact[:-1] + exact[1:]) / 2, [65519.9, 65520.0, 1e30, 2.0**-25, 2.0**-24 * 0.500001]))
        single = middle.astype(np.float32)
        single = np.concatenate(
            (single, np.nextafter(single, 0, dtype=np.float32), np.nextafter(single, np.float32(np.inf)))
        )
        single = np.concatenate((single, -single))
        expected = [naive.bits16(float(v)) for v in single]
        self.assertEqual(oracle.narrow(single.view(np.uint32)).tolist(), expected)
        nans = np.array([0x7FC00000, 0xFFC00000, 0x7F800001, 0xFFFFFFFF], np.uint32)
        self.assertEqual(oracle.narrow(nans).tolist(), [0x7E00] * 4)

    def test_halves_round_away_from_zero(self):
        given = np.array([0.5, 1.5, 2.5, -0.5, -2.5, 0.49999997, 8388609.0, 0.0], np.float32)
        self.assertEqual(oracle.round_half_away(given).tolist(), [1, 2, 3, -1, -3, 0, 8388609, 0])

    def test_refusals(self):
        def grid(bounds, size, clouds=1):
            return oracle.Grid(oracle.Params(bounds, size), clouds)

        huge = (-1e6, -1e6, -1e6, 1e6, 1e6, 1e6)
        for bounds, size in (
            ((0, 0, 0, 0, 1, 1), (1, 1, 1)),
            ((1, 0, 0, 0, 1, 1), (1, 1, 1)),
            (huge, (1e-4, 1, 1)),
            (huge, (1e-3, 1e-3, 1e-3)),
            ((-3e38, 0, 0, 3e38, 1, 1), (1, 1, 1)),
        ):
            with self.assertRaises(oracle.Refused):
                grid(bounds, size)
        grid(huge, (1e-3, 1e-3, 2e6))
        with self.assertRaises(oracle.Refused):
            grid(huge, (1e-3, 1e-3, 2e6), clouds=2)


if __name__ == "__main__":
    unittest.main()
