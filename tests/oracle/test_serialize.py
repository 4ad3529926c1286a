"""POST /v1/serialize, byte for byte the oracle's: random clouds, steps and parameters, edges, the presets, and real
scans."""

import os
import pathlib
import unittest
import urllib.parse

import numpy as np

import check
import serialize
import test_steps
from daemon import OneDaemonCase

SEED = int(os.environ.get("VOXELD_TEST_SEED", "9500"))
CASES = int(os.environ.get("VOXELD_TEST_CASES", "120"))
DATA = pathlib.Path(__file__).resolve().parents[3] / "shared" / "data"
CHAIN = "points,point_indices,point_rows,point_fates,point_steps"
SERIAL = "grid_coord,serialized_code,serialized_order,serialized_inverse"
POOLS = (
    "pool_cluster,pool_indices,pool_indptr,pool_head_indices,pool_grid_coord,pool_serialized_code,"
    "pool_serialized_order,pool_serialized_inverse"
)


def random_parameters(rng):
    parameters = {"voxel_size": str(rng.choice(["0.1", "0.5", "1", "0.3,0.3,0.1", "5", "20"]))}
    if rng.random() < 0.5:
        curves = rng.permutation(serialize.CURVES)[: rng.integers(1, 5)]
        parameters["orders"] = ",".join(curves)
    origins = ["-5,-5,-5", "0,0,0", "-1e3,-1e3,-90"]
    strides = ["2", "2,2,2,2", "4,2", "1,8", "65536,2", "2,2,2,2,2,2,2,2"]
    test_steps.sometimes(rng, 0.25, parameters, depth=[3, 8, 12, 16], grid_origin=origins)
    return test_steps.sometimes(rng, 0.6, parameters, strides=strides)


class SerializeCase(OneDaemonCase):
    ARGS = ("--workers", "1")

    def check(self, parameters, rows, counts=(), steps=(), where="", dtype=np.float32):
        counts, steps = list(counts) or [len(rows)], list(steps)
        with np.errstate(over="ignore"):
            body = np.ascontiguousarray(rows).astype(dtype)
        outputs = f"{SERIAL},{CHAIN}" + (f",{POOLS}" if "strides" in parameters else "")
        query = test_steps.query_of(steps, rows.shape[1], counts, dtype=np.dtype(dtype).name, outputs=outputs)
        target = "/v1/serialize?" + urllib.parse.urlencode(query | parameters, safe=",:")
        reply = self.daemon.post(target, body.tobytes())
        where = f"{where} {query | parameters}"
        body, fields = body.astype(np.float32), test_steps.FIELDS[: rows.shape[1]]
        try:
            expected, chain, depth, pool_rows = serialize.run(parameters, steps, body, counts, fields)
        except serialize.Refused:
            self.assertEqual(reply.status, 422, f"{where} {reply}")
            self.assertIn("grid_coord reaches", reply.json()["detail"])
            return None
        self.assertEqual(reply.status, 200, f"{where} {reply}")
        answered, metadata = check.parse_by_hand(reply.body)
        for name, tensor in expected.items():
            got = answered[name]
            self.assertEqual((got.dtype, got.shape), (tensor.dtype, tensor.shape), f"{where}: {name}")
            self.assertEqual(got.tobytes(), tensor.tobytes(), f"{where}: {name}")
        names = [metadata["fate_names"][code] for code in answered["point_fates"]]
        self.assertEqual(names, chain.fates, where)
        told = dict(metadata["points"])
        self.assertEqual(told.pop("received"), len(rows))
        self.assertEqual(told, {fate: chain.fates.count(fate) for fate in told}, where)
        self.assertEqual(sum(told.values()), len(rows), where)
        self.assertEqual((metadata["depth"], metadata.get("pool_rows", [])), (depth, pool_rows), where)
        kept = np.bincount(chain.cloud[expected["point_indices"]], minlength=len(counts))
        self.assertEqual(metadata["batch"]["kept"], kept.tolist(), where)
        return answered


class Random(SerializeCase):
    def test_clouds_and_steps(self):
        computed = 0
        for case in range(CASES):
            rng = np.random.default_rng([SEED, case])
            columns = int(rng.choice([3, 4, 5]))
            largest = rng.choice([1, 3, 40, 700], int(rng.choice([1, 1, 2, 5])))
            counts = [int(rng.integers(0, most + 1)) for most in largest]
            rows = np.concatenate([test_steps.random_cloud(rng, count, columns) for count in counts])
            steps = test_steps.random_chain(rng, columns, 2) if rng.random() < 0.5 else []
            dtype = np.float16 if rng.random() < 0.2 else np.float32
            answered = self.check(random_parameters(rng), rows, counts, steps, f"case {case}", dtype)
            computed += answered is not None
        self.assertGreater(computed, CASES // 2)


class Edges(SerializeCase):
    def test_no_points(self):
        for strides in ({}, {"strides": "2,2"}):
            answered = self.check({"voxel_size": "1"} | strides, np.zeros((0, 4), np.float32))
            self.assertEqual(answered["serialized_code"].shape, (4, 0))
            self.check({"voxel_size": "1"} | strides, np.full((5, 4), np.nan, np.float32))

    def test_one_point_and_equal_points(self):
        for count in (1, 300):
            rows = np.full((count, 3), -7.5, np.float32)
            answered = self.check({"voxel_size": "0.1", "strides": "2,4,2"}, rows)
            self.assertEqual(answered["serialized_order"][2].tolist(), list(range(count)))

    def test_the_lattice_and_its_origin(self):
        rows = np.zeros((8, 3), np.float32)
        rows[:, 0] = [1048575, 1048576, 1e30, -1048575, -1048576, 1048574.5, 1048570, 3e38]
        for axis in range(3):
            self.check({"voxel_size": "1", "grid_origin": "1048570,0,0"}, rows)
            self.check({"voxel_size": "1"}, rows[[0, 1, 2, 6, 7]])
            self.assertIsNone(self.check({"voxel_size": "1"}, rows))
            rows = np.roll(rows, 1, axis=1)

    def test_the_depth(self):
        for most, depth in ((0, 1), (1, 2), (2, 2), (3, 3), (4094, 12), (4095, 13), (65534, 16)):
            rows = np.array([[0, 0, 0], [0, most, 0]], np.float32)
            self.check({"voxel_size": "1"}, rows)
            self.check({"voxel_size": "1", "depth": str(max(most.bit_length(), 1))}, rows)
            if most.bit_length() > 1:
                self.assertIsNone(self.check({"voxel_size": "1", "depth": str(most.bit_length() - 1)}, rows))
        self.assertIsNone(self.check({"voxel_size": "1"}, np.array([[0, 0, 0], [65535, 0, 0]], np.float32)))

    def test_a_cloud_with_the_most_clouds_before_it(self):
        rows = np.arange(1024 * 3, dtype=np.float32).reshape(-1, 3) % 40
        self.check({"voxel_size": "0.5", "depth": "16", "strides": "2,2"}, rows, [1] * 1024)

    def test_a_hilbert_curve_goes_from_neighbour_to_neighbour(self):
        grid = np.stack(np.meshgrid(*[np.arange(16)] * 3, indexing="ij"), -1).reshape(-1, 3)
        rows = np.random.default_rng(SEED).permutation(grid).astype(np.float32)
        answered = self.check({"voxel_size": "1", "depth": "4", "orders": "hilbert,hilbert-trans"}, rows)
        for order in answered["serialized_order"]:
            self.assertTrue((np.abs(np.diff(answered["grid_coord"][order], axis=0)).sum(axis=1) == 1).all())


@unittest.skipUnless(DATA.is_dir(), "there are no scans in ../shared/data")
class Scans(SerializeCase):
    def scan(self, name, columns):
        return np.fromfile(DATA / name, np.float32).reshape(-1, columns)[:, :4]

    def test_scans(self):
        first = [("downsample", "downsample", {"voxel_size": "0.05", "method": "first"})]
        for name, columns in (("kitti_raw_00.bin", 4), ("nuscenes_sweep.bin", 5)):
            rows = self.scan(name, columns)
            self.check({"voxel_size": "0.05", "strides": "2,2,2,2"}, rows, steps=first, where=name)
            self.check({"voxel_size": "0.1", "grid_origin": "-51.2,-51.2,-4"}, rows, where=name)

    def test_presets_equal_their_parameters(self):
        rows = self.scan("kitti_raw_00.bin", 4)
        query = "steps=downsample&downsample.voxel_size=0.05&downsample.method=first&voxel_size=0.05&strides=2,2,2,2"
        crop = "&steps=transform,downsample&transform.crop=-75.2,-75.2,-4,75.2,75.2,2"
        for preset, more in (("nuscenes_ptv3", ""), ("waymo_ptv3", crop)):
            asked = query.replace("steps=downsample&", "") + (more or "&steps=downsample")
            by_name = self.daemon.post(f"/v1/serialize?preset={preset}", rows.tobytes())
            by_parameters = self.daemon.post(f"/v1/serialize?{asked}", rows.tobytes())
            named, given = check.parse_by_hand(by_name.body)[0], check.parse_by_hand(by_parameters.body)[0]
            self.assertEqual(set(named), set(given))
            for name in named:
                self.assertEqual(named[name].tobytes(), given[name].tobytes(), f"{preset}: {name}")


if __name__ == "__main__":
    unittest.main()
