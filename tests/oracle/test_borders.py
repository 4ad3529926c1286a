"""Points at the borders of every preset's range and of some of its cells, and the nearest floats on both sides, on
every axis."""

import unittest

import numpy as np

import check
import oracle

F32 = np.float32
# Ranges, found by measurement, whose last float below the upper bound already has the index of the first cell outside.
ALIASED = (
    ("-54", "54", "0.2"),
    ("-5", "3", "0.2"),
    ("-39.68", "39.68", "0.16"),
    ("-40", "40", "0.05"),
    ("-52", "52", "0.1"),
    ("-54", "54", "0.075"),
    ("-3", "1", "0.1"),
)
NOT_ALIASED = (("0", "69.12", "0.16"), ("0", "70.4", "0.05"), ("-75.2", "75.2", "0.1"))


def steps_around(value, steps=3):
    """The value as a float32, and `steps` neighbours on each side."""
    found = [F32(value)]
    for target in (F32(-np.inf), F32(np.inf)):
        neighbour = F32(value)
        for _ in range(steps):
            neighbour = np.nextafter(neighbour, target, dtype=F32)
            found.append(neighbour)
    return found


class Borders(check.OracleCase):
    def border_cloud(self, params):
        low, high = (np.array(params.point_cloud_range[i : i + 3]).astype(F32) for i in (0, 3))
        size = np.array(params.voxel_size).astype(F32)
        middle = ((low.astype(float) + high) / 2 + size / 3).astype(F32)
        rows = []
        for axis in range(3):
            cells = int(round((float(high[axis]) - float(low[axis])) / float(size[axis])))
            borders = sorted({0, 1, 2, cells // 3, cells // 2, cells - 1, cells})
            for value in (v for b in borders for v in steps_around(float(low[axis]) + b * float(size[axis]))):
                rows.append(middle.copy())
                rows[-1][axis] = value
            for value in (v for bound in (low, high) for v in steps_around(bound[axis])):
                rows.append(middle.copy())
                rows[-1][axis] = value
        for corner in range(8):  # all three axes at once
            ends = [(high if corner >> axis & 1 else low)[axis] for axis in range(3)]
            for pick in range(7):
                rows.append(np.array([steps_around(end)[pick] for end in ends], F32))
        cloud = np.zeros((len(rows), params.num_features), F32)
        cloud[:, :3] = rows
        cloud[:, 3:] = np.arange(len(rows))[:, None]
        return cloud.tobytes()

    def test_every_preset(self):
        presets = self.daemon.get("/v1/presets").json()["presets"]
        self.assertTrue(presets)
        for name, parameters in oracle.known_presets(presets).items():
            values = parameters | {"outputs": "voxel_coords,voxel_num_points,point_voxel_ids"}
            with self.subTest(preset=name):
                params = oracle.Params.from_values(values)
                query = {"preset": name, "outputs": values["outputs"]}
                self.check(query, self.border_cloud(params), params, f"borders of {name}")

    def one_axis(self, low, high, size, axis):
        bounds, sizes = ["-1", "-1", "-1", "1", "1", "1"], ["1", "1", "1"]
        bounds[axis], bounds[axis + 3], sizes[axis] = low, high, size
        query = {
            "num_features": "3",
            "point_cloud_range": ",".join(bounds),
            "voxel_size": ",".join(sizes),
            "outputs": "voxel_coords,point_voxel_ids",
        }
        return query, np.zeros((1, 3), F32)

    def test_last_float_below_the_upper_bound(self):
        for ranges, kept in ((ALIASED, 0), (NOT_ALIASED, 1)):
            for low, high, size in ranges:
                for axis in range(3):
                    query, row = self.one_axis(low, high, size, axis)
                    row[0, axis] = np.nextafter(F32(high), F32(-np.inf), dtype=F32)
                    result = self.check(query, row.tobytes(), what=f"[{low}, {high}) at {size}, axis {axis}")
                    self.assertEqual(result.points["kept"], kept)

    def test_lower_bound_is_inside_and_the_float_below_it_outside(self):
        for low, high, size in ALIASED + NOT_ALIASED:
            for axis in range(3):
                query, row = self.one_axis(low, high, size, axis)
                row[0, axis] = F32(low)
                self.assertEqual(self.check(query, row.tobytes()).points["kept"], 1)
                row[0, axis] = np.nextafter(F32(low), F32(-np.inf), dtype=F32)
                self.assertEqual(self.check(query, row.tobytes()).points["out_of_range"], 1)


if __name__ == "__main__":
    unittest.main()
