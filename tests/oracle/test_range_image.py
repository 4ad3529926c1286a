"""POST /v1/range_image, byte for byte the oracle's: random clouds and views, borders, real scans, and after steps."""

import os
import unittest
import urllib.parse

import numpy as np

import check
import daemon
import range_images
import steps

SEED = int(os.environ.get("VOXELD_TEST_SEED", "9000"))
CASES = int(os.environ.get("VOXELD_TEST_CASES", "150"))
ALL = ",".join(range_images.TENSORS)
FIELDS = ("x", "y", "z", "ring", "intensity", "time")
SCANS = daemon.ROOT.parent / "shared" / "data"
SPECIALS = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30, -1e30, 3e38, 1e-45, -1e-40], np.float32)


def random_cloud(rng, count, columns):
    """Rows whose fourth column is the ring."""
    rows = (rng.standard_normal((count, columns)) * rng.choice([0.2, 5, 30])).astype(np.float32)
    style = rng.integers(6)
    if style == 1:  # axes, diagonals and ties
        rows[:, :3] = rng.integers(-1, 2, (count, 3))
    elif style == 2:  # turns
        angle = np.linspace(0, 40, count)
        rows[:, 0], rows[:, 1] = np.cos(angle) * 9, -np.sin(angle) * 9
    elif style == 3:
        rows[:, :3] *= np.float32(10) ** rng.integers(-44, 37, (count, 1))
    elif style == 4:  # distances overflow, or are equal
        rows[:, :3] = rng.choice(np.array([3e38, -3e38, 1e19, 0], np.float32), (count, 3))
    if columns > 3:
        rows[:, 3] = rng.integers(-1, 9, count)
        rows[rng.random(count) < 0.05, 3] = 2.5
    spoiled = rng.random(rows.shape) < 0.02
    rows[spoiled] = rng.choice(SPECIALS, int(spoiled.sum()))
    return rows


def random_view(rng, columns):
    rows = str(rng.choice(["elevation", "elevation", "ring", "ring_down"]))
    names = ["range", *range(columns)]
    channels = tuple(names[i] for i in rng.integers(0, len(names), int(rng.integers(1, 8))))
    up, down = np.sort(rng.choice([-90.0, -25.0, -3.5, 0.0, 3.0, 10.0, 90.0], 2, replace=False))[::-1]
    view = range_images.View(
        int(rng.choice([1, 2, 5, 32])),
        int(rng.choice([1, 3, 64, 500])),
        float(up),
        float(down),
        rows,
        3 if columns > 3 and rng.random() < 0.6 else "kitti",
        str(rng.choice(["clamp", "drop"])),
        str(rng.choice(["nearest", "farthest", "first", "last"])),
        channels,
    )
    if rng.random() < 0.4:
        means = [float(np.float32(m)) for m in rng.standard_normal(len(channels)) * 10]
        stds = [float(np.float32(s)) for s in np.abs(rng.standard_normal(len(channels))) + 1e-3]
        return view._replace(means=tuple(means), stds=tuple(stds))
    return view._replace(empty=float(rng.choice([-1, 0, 7.5])))


def numbers(values):
    return ",".join(repr(float(value)) for value in values)


def query_of(view, columns, counts, **more):
    name = {"range": "range", **dict(enumerate(FIELDS))}
    query = {"num_features": columns, "fields": ",".join(FIELDS[:columns]), "outputs": ALL}
    query |= {"height": view.height, "width": view.width, "rows": view.rows, "winner": view.winner}
    query |= {"outside": view.outside, "channels": ",".join(name[c] for c in view.channels), "empty": view.empty}
    if view.rows == "elevation":
        query |= {"fov_up": view.fov_up, "fov_down": view.fov_down}
    else:
        query["ring"] = "kitti" if view.ring == "kitti" else FIELDS[view.ring]
    if view.means:
        query |= {"means": numbers(view.means), "stds": numbers(view.stds)}
    if len(counts) > 1:
        query["point_counts"] = ",".join(map(str, counts))
    return query | more


class RangeImageCase(daemon.OneDaemonCase):
    ARGS = ("--workers", "2")

    def compare(self, view, rows, counts=(), where="", dtype=np.float32, **more):
        counts = list(counts) or [len(rows)]
        with np.errstate(over="ignore"):
            body = np.ascontiguousarray(rows).astype(dtype)
        query = query_of(view, rows.shape[1], counts, dtype=np.dtype(dtype).name, **more)
        reply = self.daemon.post("/v1/range_image?" + urllib.parse.urlencode(query, safe=",:"), body.tobytes())
        self.assertEqual(reply.status, 200, f"{where} {query} {reply}")
        tensors, metadata = check.parse_by_hand(reply.body)
        return body.astype(np.float32), tensors, metadata

    def check(self, view, rows, counts=(), where="", dtype=np.float32):
        body, tensors, metadata = self.compare(view, rows, counts, where, dtype)
        counts = list(counts) or [len(rows)]
        expected, fates = range_images.run(view, body, counts)
        problems = check.same_tensors(expected, tensors)
        self.assertEqual(problems, [], f"{where}: {view}")
        self.assertEqual(metadata["points"], {"received": len(rows), **fates}, f"{where}: {view}")
        kept = [int((expected["pixel_coords"][:, 0] == cloud).sum()) for cloud in range(len(counts))]
        self.assertEqual(metadata["batch"], {"size": len(counts), "points": counts, "kept": kept}, where)
        return tensors, metadata


class Random(RangeImageCase):
    def test_views(self):
        for case in range(CASES):
            rng = np.random.default_rng(SEED + case)
            columns = int(rng.choice([3, 4, 6]))
            largest = rng.choice([1, 40, 3000], int(rng.choice([1, 1, 3])))
            counts = [int(rng.integers(0, most + 1)) for most in largest]
            rows = np.concatenate([random_cloud(rng, count, columns) for count in counts])
            dtype = np.float16 if rng.random() < 0.2 else np.float32
            self.check(random_view(rng, columns), rows, counts, f"seed {SEED + case}", dtype)

    def test_after_steps(self):
        chain = [
            ("t", "transform", {"crop": "-20,-20,-9,20,20,9"}),
            ("d", "downsample", {"voxel_size": "0.5", "method": "first"}),
        ]
        asked = {"steps": "t:transform,d:downsample"}
        asked |= {f"{tag}.{name}": value for tag, _, given in chain for name, value in given.items()}
        for case in range(CASES // 5):
            rng = np.random.default_rng([SEED, case])
            counts = [int(rng.integers(0, 900)) for _ in range(int(rng.choice([1, 2])))]
            rows = np.concatenate([random_cloud(rng, count, 5) for count in counts])
            view = random_view(rng, 5)
            outputs = f"{ALL},points,point_indices,point_rows,point_steps"
            body, tensors, metadata = self.compare(view, rows, counts, f"case {case}", **asked, outputs=outputs)
            left = steps.run(chain, body, counts, FIELDS[:5])
            left.points[left.steps > 0, 0] = np.nan
            expected, fates = range_images.run(view, left.points, counts, body)
            problems = check.same_tensors(expected | steps.answer(left), tensors)
            self.assertEqual(problems, [], f"case {case}: {view}")
            points = dict(metadata["points"])
            self.assertEqual(points.pop("received"), sum(counts))
            self.assertEqual(sum(points.values()), sum(counts), points)
            for fate in ("kept", "occluded", "outside_image"):
                self.assertEqual(points[fate], fates[fate], f"case {case}, {fate}")


class Edges(RangeImageCase):
    def test_no_points(self):
        for view in (range_images.View(4, 8), range_images.View(4, 8, means=(1.0,) * 4, stds=(2.0,) * 4)):
            self.check(view, np.zeros((0, 4), np.float32))
            self.check(view, np.zeros((3, 4), np.float32), [0, 3, 0])

    def test_each_direction_has_its_column(self):
        """Columns go clockwise from behind: left, ahead, right. The first column has the points straight behind."""
        rows = np.array([[-1, 1e-9, 0], [0, 1, 0], [1, 0, 0], [0, -1, 0], [-1, -1e-9, 0], [-1, 0, 0]], np.float32)
        rows = np.concatenate([rows, [[-1, -1e-30, 0], [-1, -0.0, 0], [0, 0, 0]]]).astype(np.float32)
        tensors, _ = self.check(range_images.View(1, 8), rows)
        self.assertEqual(tensors["point_pixels"][:, 1].tolist(), [0, 2, 4, 6, 7, 0, 0, 0, 4])

    def test_borders_of_the_field_of_view(self):
        """Points around 45 degrees, where the last bit of a coordinate decides."""
        one = np.float32(1)
        z = np.concatenate([np.nextafter(one, np.array([0, 2], np.float32)), [one, -one, 0, 5, -5]]).astype(np.float32)
        rows = np.stack([np.ones_like(z), np.zeros_like(z), z], 1)
        for outside in ("clamp", "drop"):
            view = range_images.View(4, 4, 45.0, -45.0, outside=outside)
            tensors, _ = self.check(view, rows)
            last = [0, 3] if outside == "clamp" else [-1, -1]
            self.assertEqual(tensors["point_pixels"][-2:, 0].tolist(), last)

    def test_ties_go_to_the_first_row_and_every_point_has_one_fate(self):
        rows = np.array([[2, 0, 0], [1, 0, 0], [1, 0, 0], [3, 0, 0], [3, 0, 0], [np.nan, 0, 0]], np.float32)
        for winner, row in (("nearest", 1), ("farthest", 3), ("first", 0), ("last", 4)):
            tensors, metadata = self.check(range_images.View(1, 1, winner=winner), rows)
            self.assertEqual(tensors["range_indices"].tolist(), [[[row]]], winner)
            self.assertEqual(metadata["points"]["occluded"], 4)
            self.assertEqual(tensors["point_pixel_rows"].tolist(), [0, 0, 0, 0, 0, -1])


@unittest.skipUnless(SCANS.exists(), "there are no scans in ../shared/data")
class Scans(RangeImageCase):
    def test_kitti_by_elevation_and_by_ring(self):
        rows = np.fromfile(SCANS / "kitti_raw_00.bin", np.float32).reshape(-1, 4)
        self.check(range_images.View(64, 2048), rows)
        tensors, _ = self.check(range_images.View(64, 2048, rows="ring_down", ring="kitti"), rows)
        self.assertEqual(sorted(set(tensors["point_pixels"][:, 0])), list(range(64)))

    def test_nuscenes_by_elevation_and_by_ring(self):
        rows = np.fromfile(SCANS / "nuscenes_sweep.bin", np.float32).reshape(-1, 5)[:, [0, 1, 2, 4, 3]]
        self.check(range_images.View(32, 480, 10.0, -30.0), rows)
        self.check(range_images.View(32, 1920, rows="ring", ring=3, winner="farthest"), rows)


if __name__ == "__main__":
    unittest.main()
