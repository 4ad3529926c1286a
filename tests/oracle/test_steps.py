"""Chains of steps, byte for byte the oracle's: random chains on POST /v1/points, each step's edges, and steps before
other operations."""

import os
import unittest
import urllib.parse

import numpy as np

import check
import oracle
import steps
from daemon import OneDaemonCase

SEED = int(os.environ.get("VOXELD_TEST_SEED", "9000"))
CASES = int(os.environ.get("VOXELD_TEST_CASES", "60"))
ALL = "points,point_indices,point_rows,point_fates,point_steps"
FIELDS = ("x", "y", "z", "ring", "intensity", "time", "tag")
METHODS = ("first", "centroid", "center", "nearest_centroid", "random", "all")
SPECIALS = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30, -1e30, 3e38], np.float32)
GRID = {"point_cloud_range": "-10,-10,-2,10,10,2", "voxel_size": "0.5,0.5,0.5"}


# --- chains and clouds ------------------------------------------------------------------------------------------------


def numbers(values):
    return ",".join(repr(float(value)) for value in np.ravel(values))


def sometimes(rng, chance, parameters, **choices):
    """Adds each parameter with this chance, with a random value."""
    for name, values in choices.items():
        if rng.random() < chance:
            parameters[name] = str(rng.choice(values))
    return parameters


def random_transform(rng, columns):
    del columns
    parameters = {}
    if rng.random() < 0.7:
        matrix = np.eye(4)
        matrix[:3] += rng.normal(size=(3, 4)) * rng.choice([0.01, 1, 1e-20, 1e20])
        parameters["matrix"] = numbers(matrix)
    low, high = np.sort(rng.uniform(-60, 60, (2, 3)), axis=0)
    sometimes(rng, 0.2, parameters, crop=["-1e3,-1e3,-1e3,1e3,1e3,1e3", numbers([low * 3, high * 3 + 1e-3])])
    return sometimes(rng, 0.3, parameters, cut=[numbers([low, high + 1e-3])], distance=["0.1,60", "0,1e30"])


def random_downsample(rng, columns):
    del columns
    if rng.random() < 0.15:
        return {"every": str(rng.integers(1, 9))}
    parameters = {"voxel_size": str(rng.choice(["0.1", "0.5", "1", "0.3,0.3,0.1", "5", "1e-3", "20"]))}
    parameters["method"] = str(rng.choice(METHODS))
    sometimes(rng, 0.3, parameters, cells=["floor", "nearest"], average=["all", "xyz"], min_points=[1, 2, 5])
    return sometimes(rng, 0.3, parameters, origin=["0.05,0.05,0", "-3,100,7", "1e6,0,0"], seed=[0, 1, 2**31 - 1])


def random_ring_outlier(rng, columns):
    parameters = {"ring": "kitti" if columns == 3 or rng.random() < 0.3 else "ring"}
    sometimes(rng, 0.4, parameters, distance_ratio=["1.5", "3", "1e30"], object_length_threshold=["0.1", "1", "5"])
    return sometimes(rng, 0.4, parameters, num_points_threshold=["off", 1, 5], max_azimuth_diff=["0", "5", "60", "89"])


def random_radius_outlier(rng, columns):
    del columns
    parameters = {"radius": str(rng.choice(["0.001", "0.1", "0.5", "2", "30", "10000"]))}
    parameters["min_neighbors"] = str(rng.choice([1, 2, 5, 64]))
    return sometimes(rng, 0.3, parameters, axes=["xyz", "xy"])


def random_statistical_outlier(rng, columns):
    del columns
    return {"mean_k": str(rng.choice([1, 2, 8, 20, 128])), "std_mul": str(rng.choice(["0", "0.5", "1", "2.5"]))}


RANDOM = {
    "transform": random_transform,
    "downsample": random_downsample,
    "ring_outlier": random_ring_outlier,
    "radius_outlier": random_radius_outlier,
    "statistical_outlier": random_statistical_outlier,
}


def random_chain(rng, columns, most=8):
    chain = []
    for number in range(int(rng.integers(1, most + 1))):
        op = str(rng.choice(list(RANDOM)))
        chain.append((f"s{number}", op, RANDOM[op](rng, columns)))
    return chain


def random_cloud(rng, count, columns):
    """Rows whose fourth column is the ring."""
    rows = (rng.standard_normal((count, columns)) * rng.choice([0.2, 1, 5, 30, 100, 1000])).astype(np.float32)
    style = rng.integers(6)
    if style == 1:
        rows[:, :3] = np.round(rows[:, :3] * 2) / 2
    elif style == 2:
        angle, distance = np.linspace(0, 6.28, count), 5 + rng.integers(0, 3, count) * 0.5
        rows[:, 0], rows[:, 1] = np.cos(angle) * distance, np.sin(angle) * distance
    elif style == 3:
        rows[:, :3] = rows[:1, :3]
    elif style == 4:
        rows[:, :3] *= np.float32(10) ** rng.integers(-3, 30, (count, 1))
    if columns > 3:
        rows[:, 3] = rng.integers(0, 4, count)
    if columns > 4:
        rows[rng.random((count, columns)) < 0.01] = np.nan
    spoiled = rng.random((count, 3)) < 0.01
    rows[:, :3][spoiled] = rng.choice(SPECIALS, int(spoiled.sum()))
    return rows


def query_of(chain, columns, counts=(), **more):
    query = {"num_features": str(columns), "fields": ",".join(FIELDS[:columns])}
    if columns > len(FIELDS):
        del query["fields"]
    if len(counts) > 1:
        query["point_counts"] = ",".join(map(str, counts))
    query["steps"] = ",".join(tag if tag == op else f"{tag}:{op}" for tag, op, _ in chain) or "none"
    for tag, _, parameters in chain:
        query |= {f"{tag}.{name}": str(value) for name, value in parameters.items()}
    return query | more


class StepsCase(OneDaemonCase):
    ARGS = ("--workers", "1")

    def post(self, operation, query, body, where=""):
        reply = self.daemon.post(f"/v1/{operation}?" + urllib.parse.urlencode(query, safe=",:"), body)
        self.assertEqual(reply.status, 200, f"{where} {query} {reply}")
        return check.parse_by_hand(reply.body)

    def same(self, answered, expected, where):
        for name, tensor in expected.items():
            got = answered[name]
            self.assertEqual((got.dtype, got.shape), (tensor.dtype, tensor.shape), f"{where}: {name}")
            self.assertEqual(got.tobytes(), tensor.tobytes(), f"{where}: {name}")

    def check(self, chain, rows, counts=(), where="", dtype=np.float32):
        """Compares /v1/points with the oracle. Returns the tensors, the metadata, and the oracle's chain."""
        counts = list(counts) or [len(rows)]
        with np.errstate(over="ignore"):
            body = np.ascontiguousarray(rows).astype(dtype)
        expected = steps.run(chain, body.astype(np.float32), counts, FIELDS[: rows.shape[1]])
        query = query_of(chain, rows.shape[1], counts, dtype=np.dtype(dtype).name, outputs=ALL)
        answered, metadata = self.post("points", query, body.tobytes(), where)
        where = f"{where} {chain}"
        self.same(answered, steps.answer(expected), where)
        names = [metadata["fate_names"][code] for code in answered["point_fates"]]
        self.assertEqual(names, expected.fates, where)
        told = [{name: value for name, value in step.items() if name != "us"} for step in metadata["steps"]]
        self.assertEqual(told, expected.told, where)
        self.check_sums(metadata, len(rows), where)
        return answered, metadata, expected

    def check_sums(self, metadata, received, where):
        points = dict(metadata["points"])
        self.assertEqual(points.pop("received"), received, where)
        self.assertEqual(sum(points.values()), received, where)


# --- every step, on anything ------------------------------------------------------------------------------------------


class Random(StepsCase):
    def test_chains(self):
        for case in range(CASES):
            rng = np.random.default_rng(SEED + case)
            columns = int(rng.choice([3, 4, 5, 7]))
            largest = rng.choice([1, 3, 40, 400], int(rng.choice([1, 1, 2, 4])))
            counts = [int(rng.integers(0, most + 1)) for most in largest]
            rows = np.concatenate([random_cloud(rng, count, columns) for count in counts])
            dtype = np.float16 if rng.random() < 0.25 else np.float32
            self.check(random_chain(rng, columns), rows, counts, f"seed {SEED + case}", dtype)

    def test_each_step_alone(self):
        for number, (op, parameters) in enumerate(RANDOM.items()):
            for case in range(CASES // 10):
                rng = np.random.default_rng([SEED, number, case])
                rows = random_cloud(rng, int(rng.integers(0, 2000)), 5)
                self.check([(op, op, parameters(rng, 5))], rows, where=f"{op}, case {case}")

    def test_a_chain_equals_its_steps_one_after_the_other(self):
        """Except method=random, which depends on the row of the body, and ring=kitti, which reads the whole body."""
        for case in range(CASES // 5):
            rng = np.random.default_rng([SEED, case])
            rows = random_cloud(rng, int(rng.integers(1, 1500)), 5)
            chain = [
                step
                for step in random_chain(rng, 5)
                if step[2].get("method") != "random" and step[2].get("ring") != "kitti"
            ]
            if not chain:
                continue
            whole, _, _ = self.check(chain, rows, where=f"case {case}")
            points, indices = rows, np.arange(len(rows), dtype=np.int32)
            for step in chain:
                query = query_of([step], 5, outputs="points,point_indices")
                answered, _ = self.post("points", query, points.tobytes())
                points, indices = answered["points"], indices[answered["point_indices"]]
            self.same(whole, {"points": points, "point_indices": indices}, f"case {case} {chain}")


# --- edges ------------------------------------------------------------------------------------------------------------


def each_step():
    """A chain of one step for every type and method."""
    chains = [{"voxel_size": "0.5", "method": method} for method in METHODS] + [{"every": "3"}]
    chains = [[("downsample", "downsample", parameters)] for parameters in chains]
    chains += [[("ring_outlier", "ring_outlier", {"ring": ring})] for ring in ("ring", "kitti")]
    for axes in ("xyz", "xy"):
        chains.append([("radius_outlier", "radius_outlier", {"radius": "0.5", "min_neighbors": "2", "axes": axes})])
    chains.append([("statistical_outlier", "statistical_outlier", {"mean_k": "3", "std_mul": "1"})])
    return chains + [[("transform", "transform", {"distance": "0.5,100"})]]


class Edges(StepsCase):
    def kept(self, chain, rows):
        answered, _, _ = self.check(chain, np.asarray(rows, np.float32))
        return answered["point_indices"].tolist()

    def test_no_points(self):
        for chain in each_step():
            self.check(chain, np.zeros((0, 4), np.float32))

    def test_no_steps(self):
        rows = random_cloud(np.random.default_rng(SEED), 500, 4)
        answered, metadata = self.post("points", query_of([], 4, outputs=ALL), rows.tobytes())
        left = np.flatnonzero(np.isfinite(rows[:, :3]).all(axis=1))
        self.same(answered, {"points": rows[left], "point_indices": left.astype(np.int32)}, "none")
        self.check_sums(metadata, 500, "none")

    def test_all_points_gone(self):
        gone = ("transform", "transform", {"crop": "50,50,50,51,51,51"})
        for chain in each_step():
            answered, _, _ = self.check([("first", "transform", gone[2]), *chain], np.ones((300, 4), np.float32))
            self.assertEqual(answered["points"].shape, (0, 4))

    def test_one_point(self):
        for chain in each_step():
            op, parameters = chain[0][1:]
            stays = op in ("downsample", "transform", "statistical_outlier")
            self.assertEqual(self.kept(chain, [[1, 2, 3, 0]]), [0] if stays else [], parameters)

    def test_equal_points(self):
        for chain in each_step():
            self.check(chain, np.tile(np.array([[1, 2, 3, 0]], np.float32), (200, 1)))
        radius = [("o", "radius_outlier", {"radius": "0.001", "min_neighbors": "64"})]
        self.assertEqual(len(self.kept(radius, np.ones((65, 4)))), 65)
        self.assertEqual(len(self.kept(radius, np.ones((64, 4)))), 0)

    def test_what_is_not_finite_is_no_neighbour_and_in_no_mean(self):
        rows = np.ones((40, 4), np.float32)
        rows[::2, 1], rows[1::4, 3] = np.nan, np.nan
        rows[3, 2], rows[7, 0] = np.inf, -np.inf
        for chain in each_step():
            self.check(chain, rows)

    def test_far_points(self):
        rows = [[1e30, 0, 0, 0], [1e30, 1, 0, 0], [-1e30, 0, 0, 1], [3e38, -3e38, 0, 0], [-3e38, 3e38, 3e38, 0]]
        for chain in each_step():
            self.check(chain, np.array(rows, np.float32))

    def test_signs_of_zero(self):
        rows = [[-0.0, 0.0, -0.0, -0.0], [0.0, -0.0, 0.0, 0.0], [-0.0, -0.0, -0.0, -0.0]]
        for chain in each_step():
            self.check(chain, np.array(rows, np.float32))

    def test_float16(self):
        rows = random_cloud(np.random.default_rng(SEED), 700, 4)
        for chain in each_step():
            self.check(chain, rows, dtype=np.float16)

    def test_batches_never_meet(self):
        rows = np.tile(np.array([[1, 2, 3, 0]], np.float32), (60, 1))
        for chain in each_step():
            self.check(chain, rows, [0, 1, 2, 0, 3, 54, 0])

    def test_the_ends_of_the_lattice(self):
        end = np.float32(1048575)
        at = [end, np.nextafter(end, np.float32(2e6)), end + 0.5, end + 1, -end, -end - np.float32(0.0625), -end - 0.5]
        for axis in range(3):
            rows = np.zeros((len(at), 3), np.float32)
            rows[:, axis] = at
            for cells in ("floor", "nearest"):
                chain = [("d", "downsample", {"voxel_size": "1", "cells": cells, "method": "all"})]
                kept = self.kept(chain, rows)
                self.assertEqual(kept, [0, 1, 2, 4] if cells == "floor" else [0, 1, 4, 5], (axis, cells))

    def test_halves_go_to_the_even_cell(self):
        chain = [("d", "downsample", {"voxel_size": "1", "cells": "nearest", "method": "first"})]
        rows = [[x, 0, 0] for x in (-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5)]
        self.assertEqual(self.kept(chain, rows), [0, 2, 4, 6])

    def test_many_points_of_one_cell(self):
        """Sums with one, two and three levels of groups."""
        rng = np.random.default_rng(SEED)
        for count in (63, 64, 65, 4096, 4097, 9000):
            rows = rng.random((count, 4), np.float32)
            for method in METHODS:
                self.check([("d", "downsample", {"voxel_size": "1", "method": method})], rows)

    def test_a_mean_that_overflows(self):
        rows = np.full((4, 4), 3e38, np.float32)
        chain = [("d", "downsample", {"voxel_size": "3e38", "cells": "nearest"}), ("e", "downsample", {"every": "1"})]
        answered, _, expected = self.check(chain, rows)
        self.assertEqual(expected.fates, ["not_finite", "merged", "merged", "merged"])
        self.assertEqual(answered["point_rows"].tolist(), [-1] * 4)

    def test_a_merged_point_follows_its_representative(self):
        rows = [[x, 0, 0] for x in (0.1, 0.2, 0.6, 0.7, 1.1)]
        chain = [("a", "downsample", {"voxel_size": "0.5", "method": "first"})]
        both = [*chain, ("b", "downsample", {"voxel_size": "1", "method": "first"})]
        answered, _, _ = self.check(both, np.array(rows, np.float32))
        self.assertEqual(answered["point_rows"].tolist(), [0, 0, 0, 0, 1])
        cut = [*chain, ("c", "transform", {"cut": "0.5,-1,-1,1,1,1"})]
        answered, _, expected = self.check(cut, np.array(rows, np.float32))
        self.assertEqual(answered["point_rows"].tolist(), [0, 0, -1, -1, 1])
        self.assertEqual(expected.fates[3], "merged")

    def test_rings(self):
        """Values that are no ring; a circle and parts of it; a walk over the circle's end."""
        chain = [("r", "ring_outlier", {"ring": "ring", "max_azimuth_diff": "60", "object_length_threshold": "0.9"})]
        rows = [[1, 0, 0, value] for value in (-1, 0.5, 1024, np.nan, np.inf, 1023, -0.0)]
        _, _, expected = self.check(chain, np.array(rows, np.float32))
        self.assertEqual(expected.fates, ["no_ring"] * 5 + ["ring_outlier"] * 2)
        angle = np.arange(12) * (np.pi / 6)
        circle = np.stack([np.cos(angle), np.sin(angle), 0 * angle, 0 * angle], axis=1).astype(np.float32)
        self.assertEqual(len(self.kept(chain, circle)), 12)
        for count in range(1, 12):
            self.check(chain, circle[:count])
        cut = circle.copy()
        cut[5, :3] *= 2  # goes; the walk from 6 over the end to 4 stays
        self.assertEqual(self.kept(chain, cut), [0, 1, 2, 3, 4, 6, 7, 8, 9, 10, 11])

    def test_rings_of_kitti(self):
        """Rows that earlier steps dropped count for turns. After 1023 turns, rows have no ring."""
        rng = np.random.default_rng(SEED)
        rows = np.ones((4000, 3), np.float32)
        rows[:, 0] += rng.random(4000, np.float32)
        rows[::2, 1] = -1
        rows[rng.random(4000) < 0.1, 0] = np.nan
        chain = [("a", "downsample", {"every": "7"}), ("r", "ring_outlier", {"ring": "kitti"})]
        _, _, expected = self.check(chain, rows, [2500, 1500])
        self.assertIn("no_ring", expected.fates)
        self.check([("r", "ring_outlier", {"ring": "kitti", "object_length_threshold": "1e-9"})], rows)

    def test_radius_on_its_border(self):
        radius = np.float32(0.3)
        at = [0, radius, np.nextafter(radius, np.float32(1)), -radius, 0.05]
        rows = [[x, 0, 0] for x in at]
        for least in ("1", "2", "3", "4"):
            self.check([("o", "radius_outlier", {"radius": "0.3", "min_neighbors": least})], np.array(rows, np.float32))

    def test_radius_at_map_coordinates(self):
        """Where neighbouring floats may be farther apart than a cell."""
        rng = np.random.default_rng(SEED)
        for place in (1e4, 5e6, 1e8, 1e30):
            rows = np.zeros((600, 3), np.float32)
            rows[:] = np.float32(place) + (rng.random((600, 3)) * 8).astype(np.float32)
            for radius in ("0.1", "0.5", "2", "10000"):
                self.check([("o", "radius_outlier", {"radius": radius, "min_neighbors": "3"})], rows)

    def test_few_points_have_fewer_neighbours(self):
        chain = [("o", "statistical_outlier", {"mean_k": "5", "std_mul": "1"})]
        rows = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [0.5, 0.5, 0], [9, 0, 0]], np.float32)
        self.assertEqual(self.kept(chain, rows), [0, 1, 2, 3, 4])
        for count in range(1, 6):
            self.assertEqual(self.kept(chain, rows[:count]), list(range(count)))

    def test_a_mean_on_its_bound(self):
        """All distances are equal, so the deviation is 0, and all points stay."""
        angle = np.arange(4) * (np.pi / 2)
        square = np.round(np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=1)).astype(np.float32)
        for k in ("1", "2", "3"):
            self.assertEqual(len(self.kept([("o", "statistical_outlier", {"mean_k": k, "std_mul": "0"})], square)), 4)

    def test_distances_are_summed_in_groups(self):
        """Clouds around the sizes at which a level of groups begins."""
        rng = np.random.default_rng(SEED)
        chain = [("o", "statistical_outlier", {"mean_k": "4", "std_mul": "0"})]
        for count in (63, 64, 65, 127, 128, 129, 4095, 4096, 4097):
            self.check(chain, np.exp(rng.normal(0, 3, (count, 3))).astype(np.float32))

    def test_the_groups_of_the_sum_decide(self):
        """The distances of the pairs add up to 256 * 2^30 if small distances are added before large ones absorb them.
        Then the pair with the distance 2^30 is on the bound."""

        def pairs(places, exponents):
            return [[x, y, 0] for x, e in zip(places, exponents) for y in (0, 2.0**e)]

        large, rest = range(36, 4, -1), range(4, -16, -1)
        small = pairs([-(2.0**-18) * number for number in range(1, 33)], [-20] * 32)
        nothing = [[-(2.0**40), 0, 0]]  # repeated, so the distance is 0
        rows = pairs([4 * 2.0**e for e in large], large) + small + pairs([4 * 2.0**e for e in rest], rest)
        kept = self.kept([("o", "statistical_outlier", {"mean_k": "1", "std_mul": "0"})], rows + 88 * nothing)
        self.assertEqual(kept, list(range(2 * large.index(30), 256)))

    def test_distances_that_overflow(self):
        rows = np.random.default_rng(SEED).normal(0, 4, (200, 3)).astype(np.float32)
        rows[7] = 3e38
        _, _, expected = self.check([("o", "statistical_outlier", {"mean_k": "2", "std_mul": "1"})], rows)
        self.assertEqual(expected.fates, ["kept"] * 200)


class Properties(StepsCase):
    def test_downsampling_twice_is_downsampling_once(self):
        rows = random_cloud(np.random.default_rng(SEED), 2000, 4)
        once = [("a", "downsample", {"voxel_size": "0.5", "method": "first"})]
        twice = [*once, ("b", "downsample", {"voxel_size": "0.5", "method": "first"})]
        first, _, _ = self.check(once, rows)
        second, _, _ = self.check(twice, rows)
        self.same(second, {name: first[name] for name in ("points", "point_indices", "point_rows")}, "twice")

    def test_neighbours_do_not_depend_on_the_order(self):
        rng = np.random.default_rng(SEED)
        rows, order = random_cloud(rng, 1500, 4), rng.permutation(1500)
        for op, parameters in (
            ("radius_outlier", {"radius": "0.5", "min_neighbors": "3"}),
            ("downsample", {"voxel_size": "0.5", "min_points": "2", "method": "all"}),
            ("statistical_outlier", {"mean_k": "8", "std_mul": "1"}),
        ):
            one, _, _ = self.check([("s", op, parameters)], rows)
            other, _, _ = self.check([("s", op, parameters)], rows[order])
            self.assertEqual(sorted(order[other["point_indices"]]), one["point_indices"].tolist())

    def test_operations_see_what_the_steps_left(self):
        """Voxels and samples are those of the points that the chain left; their indices are rows of the body."""
        rows = np.random.default_rng(SEED).normal(0, 4, (1500, 4)).astype(np.float32)
        chain = [("d", "downsample", {"voxel_size": "0.4"})]
        chain += [("o", "radius_outlier", {"radius": "1", "min_neighbors": "1"})]
        expected = steps.run(chain, rows, [len(rows)], FIELDS[:4])
        left = steps.answer(expected)
        outputs = "voxel_coords,voxel_num_points,voxel_features,point_voxel_ids"
        whole, _ = self.post("voxelize", query_of(chain, 4, **GRID, outputs=f"{outputs},point_rows"), rows.tobytes())
        alone, _ = self.post(
            "voxelize", {"num_features": "4", **GRID, "outputs": outputs}, left["points"].tobytes()
        )
        ids = np.full(len(rows), -1, np.int32)
        there = left["point_rows"] >= 0
        ids[there] = alone["point_voxel_ids"][left["point_rows"][there]]
        self.same(whole, {**alone, "point_voxel_ids": ids, "point_rows": left["point_rows"]}, "voxelize")
        whole, _ = self.post("fps", query_of(chain, 4, num_samples="20", outputs="sampled_indices"), rows.tobytes())
        alone, _ = self.post("fps", {"num_features": "4", "num_samples": "20"}, left["points"].tobytes())
        indices = left["point_indices"][alone["sampled_indices"]]
        self.same(whole, {"sampled_indices": indices}, "fps")

    def test_caps_choose_from_what_the_steps_left(self):
        """A random choice counts the rows of the body, also those that a step dropped."""
        outputs = "voxel_coords,voxel_num_points,voxels,point_voxel_ids"
        for case in range(CASES // 10):
            rng = np.random.default_rng([SEED, case])
            counts = [int(rng.integers(0, 900)) for _ in range(int(rng.integers(1, 4)))]
            rows = rng.normal(0, 4, (sum(counts), 4)).astype(np.float32)
            chain = random_chain(rng, 4, 2)
            expected = steps.run(chain, rows, counts, FIELDS[:4])
            caps = {"max_voxels": "150", "max_points_per_voxel": "2", "seed": str(case)}
            caps |= {"feature": "points", "max_voxels_by": str(rng.choice(["near", "full"])), "max_points_by": "random"}
            whole, metadata = self.post(
                "voxelize", query_of(chain, 4, counts, **GRID, **caps, outputs=outputs), rows.tobytes(), f"case {case}"
            )
            left = expected.points.copy()
            left[np.setdiff1d(np.arange(len(rows)), expected.alive())] = np.nan
            query = {"num_features": "4", **GRID, **caps, "outputs": outputs}
            voxels = oracle.voxelize(oracle.Params.from_values(query), left.tobytes(), counts)
            answer = steps.answer(expected)  # a merged point has the voxel of the point that represents it
            heads = np.append(answer["point_indices"], -1)[answer["point_rows"]]
            ids = np.append(voxels.tensors["point_voxel_ids"], np.int32(-1))[heads]
            self.same(whole, {**voxels.tensors, "point_voxel_ids": ids}, f"case {case} {chain} {caps}")
            self.assertEqual(metadata["voxels"], voxels.voxels)


if __name__ == "__main__":
    unittest.main()
