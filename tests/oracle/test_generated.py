"""Every preset on scans of simulated sensors (voxel-scan), or on random rows if voxel-scan is not built."""

import json
import os
import subprocess
import unittest

import numpy as np

import check
import daemon
import oracle

SENSORS = ("hdl64", "hdl32")


def simulated(sensor, seed, columns):
    if os.path.exists(daemon.SCAN):
        command = [daemon.SCAN, "--sensor", sensor, "--seed", str(seed), "--columns", str(columns)]
        return subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout
    # As in a lidar's scan, many points are near and few far.
    rng = np.random.default_rng(seed)
    angle, distance = rng.uniform(0, 2 * np.pi, 60000), rng.gamma(2, 12, 60000)
    rows = np.zeros((60000, columns), np.float32)
    rows[:, 0], rows[:, 1], rows[:, 2] = (
        distance * np.cos(angle),
        distance * np.sin(angle),
        rng.normal(-1.2, 0.8, 60000),
    )
    rows[:, 3:] = rng.uniform(0, 1, (60000, columns - 3))
    return rows.tobytes()


class Generated(check.OracleCase):
    def test_every_preset_on_simulated_scans(self):
        presets = self.daemon.get("/v1/presets").json()["presets"]
        self.assertTrue(presets)
        for name, values in oracle.known_presets(presets).items():
            for seed, sensor in enumerate(SENSORS):
                with self.subTest(preset=name, sensor=sensor):
                    body = simulated(sensor, seed + 1, values["num_features"])
                    self.assertTrue(
                        body and len(body) % (4 * values["num_features"]) == 0, f"{sensor}: {len(body)} bytes"
                    )
                    result = self.check(
                        {"preset": name}, body, oracle.Params.from_values(values), f"{name} on {sensor}"
                    )
                    self.assertGreater(result.points["kept"], 1000)

    def test_other_columns_are_warned_of(self):
        for sensor in SENSORS:
            for columns, said in ((5, 4), (4, 5), (6, 4), (3, 4)):
                body = simulated(sensor, 5, columns)
                body = body[: len(body) // (4 * columns * said) * 4 * columns * said]
                reply = self.daemon.post(f"/v1/fps?num_samples=0&num_features={said}", body)
                _, metadata = check.parse_by_hand(reply.body)
                with self.subTest(sensor=sensor, columns=columns, said=said):
                    (warning,) = metadata["warnings"]
                    self.assertEqual(warning["kind"], "num_features")
                    self.assertIn(f"{columns} columns, but num_features is {said}", warning["detail"])

    def test_presets_are_those_of_the_files(self):
        presets = self.daemon.get("/v1/presets").json()["presets"]
        listed, known = {preset["name"]: preset["parameters"] for preset in presets}, oracle.known_presets(presets)
        files = list((daemon.ROOT / "config" / "presets").glob("*.json"))
        self.assertEqual(sorted(listed), sorted(path.stem for path in files))
        for path in files:
            values = json.loads(path.read_text())["parameters"]
            with self.subTest(preset=path.stem):
                shown = {name: listed[path.stem][name] for name in values}
                if path.stem in known:
                    self.assertEqual(oracle.Params.from_values(shown), oracle.Params.from_values(values))

    def test_dynamic_pillars_hold_points_of_any_height(self):
        rng = np.random.default_rng(6)
        rows = rng.uniform((-60, -60, -40, 0, 0), (60, 60, 90, 255, 0.5), (20000, 5)).astype(np.float32)
        params = oracle.Params.from_values(self.daemon.get("/v1/presets/nuscenes_dynamic_pillar").json()["parameters"])
        result = self.check({"preset": "nuscenes_dynamic_pillar"}, rows.tobytes(), params)
        cells = np.floor((rows[:, :2] - np.float32(-51.2)) / np.float32(0.2))
        cells = cells[((cells >= 0) & (cells < 512)).all(axis=1)]
        self.assertEqual((result.points["kept"], result.voxels["kept"]), (len(cells), len(np.unique(cells, axis=0))))

    def test_dynamic_pillars_are_centred_as_the_source_has_them(self):
        preset = self.daemon.get("/v1/presets/nuscenes_dynamic_pillar").json()["parameters"]
        size, low = np.float32(preset["voxel_size"][2]), np.float32(preset["point_cloud_range"][2])
        self.assertEqual(size / np.float32(2) + low, np.float32(8 / 2 - 5))

    def test_a_preset_gives_way_to_the_query(self):
        body = simulated("hdl64", 3, 4)
        preset = self.daemon.get("/v1/presets/kitti_pointpillar").json()["parameters"]
        given = {"max_points_per_voxel": "7", "feature_dtype": "float16", "feature": "points,pillar"}
        preset.pop("outputs", None)  # the query's feature replaces the preset's outputs
        params = oracle.Params.from_values(preset | given)
        self.check({"preset": "kitti_pointpillar"} | given, body, params, "kitti_pointpillar with other values")

    def test_half_precision_scans(self):
        body = np.frombuffer(simulated("hdl64", 4, 4), np.float32).astype(np.float16).tobytes()
        for order in ("first", "key"):
            query = {
                "dtype": "float16",
                "num_features": "4",
                "point_cloud_range": "0,-40,-3,70.4,40,1",
                "voxel_size": "0.05,0.05,0.1",
                "max_points_per_voxel": "5",
                "feature": "points,mean",
                "order": order,
            }
            self.check(query, body, what="a half-precision scan")


if __name__ == "__main__":
    unittest.main()
