"""Every preset on every real scan of ../shared/data whose columns fit, and samples of all scans, byte for byte the
oracle's."""

import pathlib
import unittest

import numpy as np

import check
import daemon
import oracle
import samples

SCANS = daemon.ROOT.parent / "shared" / "data"
COLUMNS = {"kitti": 4, "nuscenes": 5}


def scans(columns):
    return [path for path in sorted(pathlib.Path(SCANS).glob("*.bin")) if COLUMNS[path.name.split("_")[0]] == columns]


@unittest.skipUnless(SCANS.is_dir(), f"no real scans in {SCANS}")
class Scans(check.OracleCase):
    def presets(self):
        listed = self.daemon.get("/v1/presets").json()["presets"]
        self.assertTrue(listed)
        return oracle.known_presets(listed)

    def test_every_preset_on_every_scan_that_fits(self):
        for name, values in self.presets().items():
            for path in scans(values["num_features"]):
                with self.subTest(preset=name, scan=path.name):
                    self.check(
                        {"preset": name}, path.read_bytes(), oracle.Params.from_values(values), f"{name} on {path.name}"
                    )

    def test_pillars_of_the_dynamic_preset_are_those_of_its_source(self):
        body = (SCANS / "nuscenes_10sweeps.bin").read_bytes()
        reply = self.daemon.post("/v1/voxelize?preset=nuscenes_dynamic_pillar", body, {"Accept": "application/json"})
        self.assertEqual(reply.json()["voxels"], {"kept": 36735, "dropped": 0, "block_filtered": 0})

    def test_a_preset_with_other_columns_is_warned_of(self):
        for name, values in self.presets().items():
            for path in scans(9 - values["num_features"]):  # 5 columns for 4, 4 for 5
                if path.stat().st_size % (4 * values["num_features"]):
                    continue
                with self.subTest(preset=name, scan=path.name):
                    target = f"/v1/voxelize?preset={name}"
                    reply = self.daemon.post(target, path.read_bytes(), {"Accept": "application/json"})
                    self.assertIn("num_features", [warning["kind"] for warning in reply.json()["warnings"]])

    def test_no_scan_is_unlike_its_model_unless_columns_are_swapped(self):
        def kinds(preset, points):
            path = f"/v1/voxelize?preset={preset}&point_counts={len(points)}"
            warnings = self.daemon.post(path, points.tobytes(), {"Accept": "application/json"}).json()["warnings"]
            return {warning["kind"] for warning in warnings} & set(check.SAMPLED)

        for path in scans(4):
            with self.subTest(scan=path.name):
                self.assertEqual(kinds("kitti_second", np.fromfile(path, "<f4").reshape(-1, 4)), set())
        points = np.fromfile(SCANS / "nuscenes_10sweeps.bin", "<f4").reshape(-1, 5)
        swapped = points[:, [0, 1, 2, 4, 3]]
        self.assertEqual(kinds("nuscenes_pointpillar", points), set())
        self.assertEqual(kinds("nuscenes_pointpillar", swapped), {"intensity", "time"})
        self.assertIn("intensity", kinds("kitti_second", np.ascontiguousarray(swapped[:, :4])))
        rings = np.fromfile(SCANS / "nuscenes_sweep.bin", "<f4").reshape(-1, 5)
        self.assertEqual(kinds("nuscenes_pointpillar", rings), {"time"})
        self.assertEqual(kinds("nuscenes_pointpillar", rings[:, [0, 1, 2, 4, 3]]), {"intensity", "time"})

    def test_every_tensor_of_every_scan(self):
        for columns in (4, 5):
            query = {
                "num_features": str(columns),
                "point_cloud_range": "-54,-54,-5,54,54,3",
                "voxel_size": "0.2,0.2,8",
                "max_points_per_voxel": "20",
                "max_voxels": "12000",
                "feature": "points,mean,pillar",
                "fill": "mean",
                "outputs": ",".join(oracle.TENSORS),
                "order": "key",
            }
            for path in scans(columns):
                for feature_dtype in ("float32", "float16"):
                    with self.subTest(scan=path.name, feature_dtype=feature_dtype):
                        self.check(query | {"feature_dtype": feature_dtype}, path.read_bytes(), what=path.name)

    def test_all_scans_of_a_sensor_as_one_batch(self):
        for columns in (4, 5):
            bodies = [path.read_bytes() for path in scans(columns)]
            query = {
                "num_features": str(columns),
                "point_cloud_range": "-75.2,-75.2,-2,75.2,75.2,4",
                "voxel_size": "0.1,0.1,0.15",
                "max_points_per_voxel": "0",
                "max_voxels": "90000",
                "order": "key",
                "point_counts": ",".join(str(len(body) // 4 // columns) for body in bodies),
                "outputs": "voxel_coords,voxel_num_points,voxel_features,point_voxel_ids",
            }
            self.check(query, b"".join(bodies), what=f"batch of {columns}-column scans")


@unittest.skipUnless(SCANS.is_dir(), f"no real scans in {SCANS}")
class Samples(check.OracleCase):
    """POST /v1/fps."""

    def scans(self):
        for columns in (4, 5):
            for path in scans(columns):
                yield path.name, columns, np.fromfile(path, np.float32).reshape(-1, columns)

    def test_every_scan(self):
        for name, columns, scan in self.scans():
            query = {"num_features": str(columns), "num_samples": "256", "outputs": ",".join(samples.TENSORS)}
            with self.subTest(name):
                self.check(query, scan.tobytes(), what=name)
                self.check(query | {"start": str(len(scan) - 1)}, scan.tobytes(), what=name)

    def test_16384_points_of_every_scan(self):
        for name, columns, scan in self.scans():
            strided = np.ascontiguousarray(scan[:: len(scan) // 16384][:16384])
            with self.subTest(name):
                self.check({"num_features": str(columns), "num_samples": "2048"}, strided.tobytes(), what=name)

    def test_scans_as_float16(self):
        for name, columns, scan in self.scans():
            body = scan[::5].astype(np.float16).tobytes()
            query = {
                "num_features": str(columns),
                "num_samples": "512",
                "dtype": "float16",
                "outputs": ",".join(samples.TENSORS),
            }
            self.check(query, body, what=name)

    def test_all_scans_of_a_sensor_as_one_batch(self):
        for columns in (4, 5):
            parts = [scan[::7] for _, own, scan in self.scans() if own == columns]
            query = {"num_features": str(columns), "point_counts": ",".join(str(len(part)) for part in parts)}
            body = b"".join(part.tobytes() for part in parts)
            self.check(query | {"num_samples": "300"}, body)
            self.check(query | {"num_samples": ",".join(str(100 * (n + 1)) for n in range(len(parts)))}, body)


if __name__ == "__main__":
    unittest.main()
