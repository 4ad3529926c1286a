"""Dense maps, byte for byte the oracle's: POST /v1/scatter, and the maps of POST /v1/voxelize."""

import os
import unittest
import urllib.parse

import numpy as np

import check
import clouds
import maps as oracle
from daemon import OneDaemonCase
from safetensors.numpy import save

SEED = int(os.environ.get("VOXELD_TEST_SEED", "13000"))
CASES = int(os.environ.get("VOXELD_TEST_CASES", "120"))
SAFETENSORS = {"Content-Type": "application/vnd.safetensors"}
SPECIAL = np.array([0x80000000, 0x7FC00000, 0x7F800001, 0xFFC12345, 0x7F800000, 0xFF800000, 1, 0x7F7FFFFF], np.uint32)


class MapCase(OneDaemonCase):
    ARGS = ("--workers", "1")

    def post(self, path, query, body, headers=None):
        reply = self.daemon.post(f"{path}?{urllib.parse.urlencode(query, safe=',')}", body, headers or {})
        self.assertEqual(reply.status, 200, f"{query} {reply}")
        return check.parse_by_hand(reply.body)

    def same(self, name, got, expected, where):
        self.assertEqual((got.dtype, got.shape), (expected.dtype, expected.shape), f"{name}, {where}")
        if got.tobytes() != expected.tobytes():
            size = expected.dtype.itemsize
            a, b = (np.frombuffer(array.tobytes(), f"V{size}") for array in (got, expected))
            at = np.unravel_index(int(np.argmax(a != b)), expected.shape)
            self.fail(f"{name} at {at}: {got[at]!r}, not {expected[at]!r}; {where}")


class Scatter(MapCase):
    def check(self, query, tensors, where=""):
        expected, kept, told = oracle.scatter(query, tensors)
        answered, metadata = self.post("/v1/scatter", query, save(tensors), SAFETENSORS)
        self.same("bev_features", answered["bev_features"], expected, where)
        self.assertEqual(metadata["voxels"], told, where)
        self.assertEqual(metadata["batch"], {"size": len(kept), "kept": kept}, where)
        lost = told["received"] - told["kept"]
        self.assertEqual([w["kind"] for w in metadata["warnings"]], ["not_scattered"] * (lost > 0), where)
        return told

    def random_case(self, seed):
        rng = np.random.default_rng(seed)
        size = [int(n) for n in rng.choice([1, 2, 3, 7, 8, 9, 40], 3)]
        batch, rows, channels = (int(rng.choice(n)) for n in ([1, 1, 2, 5], [0, 1, 20, 300, 3000], [1, 3, 16, 65]))
        beyond = int(rng.choice([0, 0, 1]))  # 1: some rows are outside
        limits = np.array([batch, *size[::-1]])
        coords = rng.integers(-beyond, limits + beyond, (rows, 4)).astype(np.int32)
        if rng.random() < 0.5:  # one row a cell, in the order of clouds
            coords = np.unique(coords, axis=0)
        features = rng.integers(0, 2**32, (len(coords), channels), dtype=np.uint32).view(np.float32)  # also NaNs
        if rng.random() < 0.3:
            features = rng.integers(0, 2**16, (len(coords), channels), dtype=np.uint16).view(np.float16)
        query = {"grid_size": ",".join(map(str, size)), "batch_size": str(batch)}
        self.check(query, {"features": features, "voxel_coords": coords}, f"seed {seed}")

    def test_random(self):
        for seed in range(SEED, SEED + CASES):
            self.random_case(seed)

    def test_pillars_of_a_scan(self):
        rng = np.random.default_rng(SEED)
        cells = rng.choice(496 * 432, 6000, replace=False)
        coords = np.stack([0 * cells, 0 * cells, cells // 432, cells % 432], 1).astype(np.int32)
        features = rng.normal(size=(6000, 64)).astype(np.float32)
        told = self.check({"grid_size": "432,496,1"}, {"features": features, "voxel_coords": coords})
        self.assertEqual(told["kept"], 6000)

    def test_channels_of_a_high_grid_are_those_of_height_compression(self):
        features = np.array([[1, 2], [3, 4]], np.float32)
        coords = np.array([[0, 0, 0, 0], [0, 2, 0, 1]], np.int32)
        query = {"grid_size": "2,1,3"}
        self.check(query, {"features": features, "voxel_coords": coords})
        answered, _ = self.post("/v1/scatter", query, save({"features": features, "voxel_coords": coords}), SAFETENSORS)
        dense = answered["bev_features"].reshape(1, 2, 3, 1, 2)  # B, C, nz, ny, nx
        self.assertEqual((list(dense[0, :, 0, 0, 0]), list(dense[0, :, 2, 0, 1])), ([1, 2], [3, 4]))

    def test_first_of_several_rows_wins(self):
        features = np.array([[1], [2], [3]], np.float32)
        coords = np.array([[0, 0, 0, 1], [0, 0, 0, 1], [-1, -1, -1, -1]], np.int32)
        told = self.check({"grid_size": "2,1,1"}, {"features": features, "voxel_coords": coords})
        self.assertEqual(told, {"received": 3, "kept": 1, "out_of_range": 1, "duplicate": 1})

    def test_what_was_voxelized_is_scattered_as_voxelize_does(self):
        rng = np.random.default_rng(SEED + 1)
        query = {"point_cloud_range": "-10,-10,-2,10,10,2", "voxel_size": "0.5,0.5,1", "point_counts": "900,0,100"}
        body = clouds.random_body(rng, {**query, "num_features": "4", "dtype": "float32"}, 1000, "uniform")
        names = "voxel_coords,voxel_features,bev_features"
        tensors, metadata = self.post("/v1/voxelize", {**query, "outputs": names}, body)
        size = ",".join(map(str, metadata["grid_size"]))
        rows = {"features": tensors["voxel_features"], "voxel_coords": tensors["voxel_coords"]}
        again, _ = self.post("/v1/scatter", {"grid_size": size, "batch_size": "3"}, save(rows), SAFETENSORS)
        self.same("bev_features", again["bev_features"], tensors["bev_features"], "")


class Maps(MapCase):
    def check(self, query, body, where=""):
        expected = oracle.voxelize({"num_features": "4", "dtype": "float32", **query}, body)
        names = query.get("outputs", ",".join(oracle.NAMES)).split(",")
        answered, metadata = self.post("/v1/voxelize", {**query, "outputs": ",".join(names)}, body)
        for name in [name for name in names if name in oracle.NAMES]:
            self.same(name, answered[name], expected[name], where)
        return answered, metadata

    def random_case(self, seed):
        rng = np.random.default_rng(seed)
        columns = int(rng.choice([4, 4, 5]))
        query = {
            "point_cloud_range": str(rng.choice(["-10,-10,-2,10,10,2", "0,-4.5,-1,9,4.5,1", "-1,-1,-1,1,1,1"])),
            "voxel_size": str(rng.choice(["0.5,0.5,0.5", "0.8,0.7,4", "0.3,0.5,1"])),
            "num_features": str(columns),
            "dtype": str(rng.choice(["float32", "float32", "float16"])),
            "feature_dtype": str(rng.choice(["float32", "float16"])),
            "max_points_per_voxel": str(rng.choice([0, 1, 5, 32])),
            "max_voxels": str(rng.choice([1, 20, 40000])),
            "order": str(rng.choice(["first", "key"])),
        }
        if columns == 5 and rng.random() < 0.5:
            query["fields"] = "x,y,z,ring,intensity"
        if rng.random() < 0.3:
            query["block_filter"] = "2,3,0.1,10"
        points = int(rng.choice([0, 1, 2, 65, 800, 4000]))
        body = clouds.random_body(rng, query, points, clouds.STYLES[seed % len(clouds.STYLES)])
        if rng.random() < 0.5 and query["dtype"] == "float32":
            bits = np.frombuffer(body, np.uint32).copy().reshape(-1, columns)
            hit = rng.random(bits.shape) < 0.05
            bits[hit] = rng.choice(SPECIAL, int(hit.sum()))
            body = bits.tobytes()
        if rng.random() < 0.4:
            query["point_counts"] = ",".join(str(n) for n in clouds.random_counts(rng, points, True))
        if rng.random() < 0.3:
            chosen = rng.permutation([*oracle.NAMES, "voxel_coords"])[: rng.integers(1, 10)]
            query["outputs"] = ",".join(chosen)
        self.check(query, body, f"seed {seed}: {query}")

    def test_random(self):
        for seed in range(SEED, SEED + CASES):
            self.random_case(seed)

    GRID = {"point_cloud_range": "0,0,0,9,2,2", "voxel_size": "1,1,1"}

    def rows(self, *points):
        return np.array(points, np.float32).tobytes()

    def test_borders(self):
        below = np.nextafter(np.float32(9), np.float32(0))
        points = [(0, 0, 0, 1), (-0.0, 0, 0, 2), (below, 1.5, 1.5, 3), (9, 1, 1, 4), (-1e-45, 1, 1, 5), (8, 2, 0, 6)]
        answered, metadata = self.check(self.GRID, self.rows(*points))
        self.assertEqual(answered["occupancy_counts"].sum(), metadata["points"]["received"] - 3)

    def test_bits_of_a_line_that_is_no_whole_bytes(self):
        answered, _ = self.check(self.GRID, self.rows((0, 0, 0, 0), (8.5, 0, 0, 0), (3, 1, 1, 0)))
        self.assertEqual(answered["occupancy_packed"].tolist(), [[[[1, 1], [0, 0]], [[0, 0], [8, 0]]]])

    def test_first_of_the_highest_points_gives_the_top_intensity(self):
        answered, _ = self.check(self.GRID, self.rows((0, 0, 0, 1), (0, 0, 1, 2), (0, 0, 1, 3), (0, 0, 0.5, 4)))
        self.assertEqual(answered["bev_top_intensity"][0, 0, 0], 2)
        lower = {"point_cloud_range": "0,0,-1,9,2,1", "voxel_size": "1,1,1"}
        answered, _ = self.check(lower, self.rows((0, 0, -0.0, 1), (0, 0, 0, 2)))
        self.assertEqual(answered["bev_top_intensity"][0, 0, 0], 1)  # -0 is as high as 0

    def test_intensity_that_is_not_finite(self):
        points = [(0, 0, 0, np.nan), (0, 0, 1, np.inf), (1, 0, 0, -5), (1, 0, 1, np.nan)]
        answered, _ = self.check(self.GRID, self.rows(*points))
        self.assertEqual(answered["bev_max_intensity"][0, 0, :2].tolist(), [0, -5])

    def test_density_grows_to_one(self):
        for count in (1, 2, 3, 7, 15, 31, 61, 62, 63, 64, 1000):
            answered, _ = self.check(self.GRID, self.rows(*[(0, 0, 0, 0)] * count))
            self.assertEqual(answered["bev_density"][0, 0, 0] == 1, count >= 63, count)

    def test_caps_do_not_change_maps(self):
        rng = np.random.default_rng(SEED)
        body = clouds.random_body(rng, {**self.GRID, "num_features": "4", "dtype": "float32"}, 2000, "crowded")
        free, _ = self.check(self.GRID, body)
        query = {**self.GRID, "max_voxels": "1", "max_points_per_voxel": "1", "block_filter": "1,1,5,6"}
        capped, metadata = self.check(query, body)
        self.assertEqual(metadata["voxels"]["kept"], 0)
        for name in (*oracle.CELL_MAPS, *oracle.PILLAR_MAPS):
            self.same(name, capped[name], free[name], "")

    def test_stacked_samples_do_not_change_the_batch_dimension_of_maps(self):
        body = self.rows((0, 0, 0, 1), (5, 1, 1, 1), (2, 0, 0, 1))
        query = {**self.GRID, "point_counts": "2,1", "fps": "1,1", "outputs": "occupancy,sampled_indices"}
        answered, _ = self.check(query, body)
        self.assertEqual((answered["sampled_indices"].shape, answered["occupancy"].shape), ((2,), (2, 2, 2, 9)))


if __name__ == "__main__":
    unittest.main()
