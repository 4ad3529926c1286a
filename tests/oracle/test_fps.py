"""POST /v1/fps, byte for byte the oracle's: random clouds of every kind, and corners."""

import os
import unittest

import numpy as np

import check
import clouds
import naive
import samples

SEED = int(os.environ.get("VOXELD_TEST_SEED", "9000"))
CASES = int(os.environ.get("VOXELD_TEST_CASES", "200"))
ALL = ",".join(samples.TENSORS)
STYLES = ("uniform", "quantised", "duplicates", "collinear", "one_place", "huge", "tiny", "two_scales", "shells")


def coordinates(rng, points, style):
    xyz = rng.uniform(-50, 50, (points, 3))
    if style == "quantised":  # ties everywhere
        xyz = np.round(xyz / 10) * 10
    elif style == "duplicates":
        xyz = xyz[rng.integers(0, max(1, points // 7), points)] if points else xyz
    elif style == "collinear":
        xyz = np.outer(rng.integers(-40, 40, points), rng.choice([0.0, 0.25, 1.0, -3.0], 3))
    elif style == "one_place":
        xyz = np.tile(rng.uniform(-50, 50, 3), (points, 1))
    elif style == "huge":  # squares, sums and differences overflow
        xyz = rng.choice([-1, 1], (points, 3)) * 10 ** rng.uniform(15, 38.5, (points, 3))
    elif style == "tiny":  # squares underflow
        xyz = rng.choice([-1, 1], (points, 3)) * 10 ** rng.uniform(-45, -18, (points, 3))
    elif style == "two_scales":
        xyz = xyz * np.where(rng.random((points, 1)) < 0.5, 1e-4, 1e4)
    elif style == "shells":  # almost equally far from the centre
        xyz = 30 * xyz / np.maximum(np.linalg.norm(xyz, axis=1, keepdims=True), 1e-6)
    return xyz


def rows(rng, points, style, columns=4, dtype="float32", not_finite=0.0):
    """Rows as bytes; the columns after the third have random bits."""
    kind, word = (np.float16, np.uint16) if dtype == "float16" else (np.float32, np.uint32)
    bits = rng.integers(0, np.iinfo(word).max, (points, columns), word, endpoint=True)
    with np.errstate(all="ignore"):
        limit = np.finfo(kind).max
        bits[:, :3] = np.clip(coordinates(rng, points, style), -limit, limit).astype(kind).view(word)
    spoiled = rng.random(points) < not_finite
    specials = clouds.SPECIALS[:6] if word is np.uint32 else (clouds.SPECIALS[:6] >> 16).astype(np.uint16)
    specials = specials[~np.isfinite(specials.view(kind))]
    bits[spoiled, rng.integers(0, 3, int(spoiled.sum()))] = rng.choice(specials, int(spoiled.sum()))
    return bits.tobytes()


def finite_counts(query, body, counts):
    kind = np.float16 if query.get("dtype") == "float16" else np.float32
    xyz = np.frombuffer(body, kind).reshape(-1, int(query["num_features"]))[:, :3]
    finite = np.isfinite(xyz).all(axis=1)
    edges = np.concatenate(([0], np.cumsum(counts))).astype(int)
    return [int(finite[a:b].sum()) for a, b in zip(edges[:-1], edges[1:])]


class OracleAgainstNaive(unittest.TestCase):
    """Needs no daemon."""

    def test_small_clouds(self):
        for case in range(150):
            rng = np.random.default_rng(SEED + case)
            points, style = int(rng.choice([1, 2, 5, 25])), STYLES[case % len(STYLES)]
            bits = np.frombuffer(rows(rng, points, style, 3, not_finite=0.2), np.uint32).reshape(-1, 3)
            number, start = int(rng.integers(0, points + 1)), int(rng.integers(0, points + 1))
            expected = naive.farthest(bits.tolist(), number, start)
            where = f"seed {SEED + case}, {style}, {number} of {points} from {start}"
            try:
                indices, squared = samples.choose(bits.view(np.float32), number, start)
            except samples.Refused:
                self.assertIsNone(expected, where)
                continue
            self.assertEqual(expected, (indices.tolist(), np.sqrt(squared).view(np.uint32).tolist()), where)


class Random(check.OracleCase):
    def test_many(self):
        for seed in range(SEED, SEED + CASES):
            rng = np.random.default_rng(seed)
            points, style = int(rng.choice([1, 2, 17, 500, 3000, 9000])), STYLES[seed % len(STYLES)]
            query = {"num_features": str(rng.integers(3, 9)), "dtype": str(rng.choice(["float32", "float16"]))}
            body = rows(rng, points, style, int(query["num_features"]), query["dtype"], rng.choice([0, 0.01, 0.5]))
            counts = clouds.random_counts(rng, points, rng.random() < 0.5)
            most = np.minimum(finite_counts(query, body, counts), 600)
            if rng.random() < 0.5:  # one number for all clouds
                query["num_samples"] = str(rng.integers(0, most.min() + 1))
            elif len(counts) > 1:
                query["num_samples"] = ",".join(str(rng.integers(0, n + 1)) for n in most)
            else:
                query["num_samples"] = str(most[0])
            if len(counts) > 1 or rng.random() < 0.2:
                query["point_counts"] = ",".join(str(n) for n in counts)
            numbers, _ = samples.numbers_of(query["num_samples"], len(counts))
            shortest = min([n for n, asked in zip(counts, numbers) if asked] or [1])
            if rng.random() < 0.6:
                query["start"] = str(rng.integers(0, shortest))
            if rng.random() < 0.7:
                query["outputs"] = ",".join(n for n in samples.TENSORS if rng.random() < 0.7) or ALL
            self.check(query, body, what=f"seed {seed}, {style}, {points} points")


class Corners(check.OracleCase):
    def sampled(self, body, **query):
        result = self.check({"num_samples": "1", "outputs": ALL} | query, body)
        return result.tensors["sampled_indices"].tolist()

    def cloud(self, *points):
        return np.array([[*xyz, 0] for xyz in points], np.float32).tobytes()

    def test_the_lowest_of_equals_is_next(self):
        square = self.cloud((0, 0, 0), (1, 0, 0), (0, 1, 0), (-1, 0, 0), (0, -1, 0))
        self.assertEqual(self.sampled(square, num_samples="5"), [[0, 1, 2, 3, 4]])

    def test_every_point_of_a_grid(self):
        lattice = self.cloud(*((x, y, z) for x in range(9) for y in range(9) for z in range(9)))
        for start in ("0", "364", "728"):
            chosen = self.sampled(lattice, num_samples="729", start=start)[0]
            self.assertEqual(sorted(chosen), list(range(729)))

    def test_all_in_one_place_give_the_first_again(self):
        body = self.cloud(*[(3, 4, 5)] * 6)
        self.assertEqual(self.sampled(body, num_samples="4", start="2"), [[2, 0, 0, 0]])
        spoiled = self.cloud((np.nan, 0, 0), *[(3, 4, 5)] * 6)
        self.assertEqual(self.sampled(spoiled, num_samples="3", start="4"), [[4, 1, 1]])

    def test_squares_that_underflow_are_no_distance(self):
        body = self.cloud((1e-30, 0, 0), (2e-30, 0, 0), (0, 3e-30, 0))
        self.assertEqual(self.sampled(body, num_samples="3"), [[0, 0, 0]])

    def test_squares_that_are_subnormal_are_distances(self):
        body = self.cloud((0, 0, 0), (1e-22, 0, 0), (2e-22, 0, 0), (3e-22, 0, 0))
        self.assertEqual(self.sampled(body, num_samples="4"), [[0, 3, 1, 2]])

    def test_distances_that_overflow_are_all_alike(self):
        body = self.cloud((0, 0, 0), (1e30, 0, 0), (3e38, 0, 0), (-3e38, 0, 0), (1, 0, 0))
        self.assertEqual(self.sampled(body, num_samples="5"), [[0, 1, 2, 3, 4]])

    def test_minus_zero_is_where_zero_is(self):
        self.assertEqual(
            self.sampled(self.cloud((0, 0, 0), (-0.0, -0.0, -0.0), (1, 0, 0)), num_samples="3"), [[0, 2, 0]]
        )

    def test_no_fused_multiply_add(self):
        # With random mantissas, a fused sum differs in its last bit for about one point in three.
        rng = np.random.default_rng(1)
        self.sampled(rows(rng, 2000, "uniform"), num_samples="2000")

    def test_points_that_are_not_finite(self):
        rng = np.random.default_rng(2)
        for share in (0.05, 0.5, 0.97):
            body = rows(rng, 4000, "uniform", not_finite=share)
            (finite,) = finite_counts({"num_features": "4"}, body, [4000])
            self.sampled(body, num_samples=str(finite), start="3999")

    def test_the_start_is_the_next_finite_point_or_the_first(self):
        n = np.nan
        body = self.cloud((n, 0, 0), (1, 0, 0), (0, n, 0), (0, 0, -np.inf), (2, 0, 0), (np.inf, 0, 0))
        for start, first in enumerate((1, 1, 4, 4, 4, 1)):
            self.assertEqual(self.sampled(body, start=str(start)), [[first]])

    def test_a_cloud_without_finite_points_and_without_samples(self):
        body = self.cloud((np.nan, 0, 0), (0, np.inf, 0))
        self.assertEqual(self.sampled(body, num_samples="0", start="7"), [[]])

    def test_one_number_for_a_batch(self):
        rng = np.random.default_rng(3)
        for counts in ("100", "50,50", "64,1000,77,900", "40,4000"):
            body = rows(rng, sum(int(n) for n in counts.split(",")), "uniform")
            for number in ("0", "1", "40"):
                self.sampled(body, point_counts=counts, num_samples=number)

    def test_a_number_for_each_cloud(self):
        rng = np.random.default_rng(4)
        for counts, numbers in (
            ("50,50", "20,20"),  # equal counts; the samples are still concatenated
            ("0,500,0,3", "0,200,0,3"),
            ("1,1,1", "1,1,1"),
            ("10,10", "0,0"),
            ("5000,10,2000", "1,10,1500"),
        ):
            body = rows(rng, sum(int(n) for n in counts.split(",")), "quantised")
            result = self.check({"point_counts": counts, "num_samples": numbers, "outputs": ALL}, body)
            total = sum(int(n) for n in numbers.split(","))
            self.assertEqual(result.tensors["sampled_indices"].shape, (total,))
            self.assertEqual(result.tensors["sampled_points"].shape, (total, 4))

    def test_a_batch_is_its_clouds_one_by_one(self):
        rng = np.random.default_rng(5)
        body = rows(rng, 3000, "duplicates")
        alone = self.sampled(body[: 1000 * 16], num_samples="50", start="9")
        together = self.sampled(body, num_samples="50", start="9", point_counts="1000,1500,500")
        self.assertEqual(together[:1], alone)

    def test_batch_of_1024_clouds(self):
        counts = np.random.default_rng(6).integers(2, 9, 1024)
        body = rows(np.random.default_rng(6), int(counts.sum()), "quantised")
        text = ",".join(str(n) for n in counts)
        self.sampled(body, point_counts=text, num_samples="2", start="1")
        self.sampled(body, point_counts=text, num_samples=text)

    def test_empty_body(self):
        for query in ({}, {"point_counts": "0,0"}, {"point_counts": "0,0", "num_samples": "0,0"}, {"start": "5"}):
            self.sampled(b"", **({"num_samples": "0"} | query))

    def test_every_number_of_columns(self):
        for columns in (3, 4, 5, 6, 7, 8, 64):
            for dtype in ("float32", "float16"):
                body = rows(np.random.default_rng(columns), 1500, "uniform", columns, dtype, 0.01)
                self.sampled(body, num_features=str(columns), dtype=dtype, num_samples="300")

    def test_every_half_as_a_coordinate(self):
        bits = np.zeros((65536, 3), np.uint16)
        bits[:, 0] = np.arange(65536)
        self.sampled(bits.tobytes(), dtype="float16", num_features="3", num_samples="500")

    def test_each_output_alone(self):
        body = rows(np.random.default_rng(7), 600, "uniform")
        for name in samples.TENSORS:
            self.check({"num_samples": "100", "outputs": name}, body)
        self.check({"num_samples": "100"}, body)

    def test_a_small_request_after_a_large_one(self):
        # Data of a larger request in the scratch must not show in a smaller request.
        big, small = (rows(np.random.default_rng(n), n, "uniform") for n in (40000, 50))
        for _ in range(10):
            self.sampled(big, num_samples="20")
            self.sampled(small, num_samples="50", start="20")
            self.sampled(small, num_samples="10,5", point_counts="20,30")


if __name__ == "__main__":
    unittest.main()
