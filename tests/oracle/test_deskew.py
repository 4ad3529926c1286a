"""De-skewed points are the oracle's, byte for byte: times of every type in every format, motions from poses, twists and
streams, mounts, batches and float16; and every operation gets the same points."""

import os
import unittest
import urllib.parse

import numpy as np
from safetensors.numpy import save

import check
import deskew
import files
import infer
from daemon import OneDaemonCase
from streams import Mirror, composed, pose_of
from test_streams import numbers, quaternion, random_pose

SEED = int(os.environ.get("VOXELD_TEST_SEED", "9000"))
CASES = int(os.environ.get("VOXELD_TEST_CASES", "120"))
FORMATS = {
    "pcd": ("<f4", "<f8", "<i4", "<u4", "<i8", "<u8", "<u2"),
    "pcd ascii": ("<f4", "<f8", "<i4", "<u4", "<i8", "<u8"),
    "pcd binary_compressed": ("<f8", "<u8"),
    "ply": ("<f4", "<f8", "<i4", "<u4"),
    "ply binary_big_endian": (">f8", ">u4"),
    "ply ascii": ("<f8", "<u4"),
    "pointcloud2": ("<f4", "<f8", "<i4", "<u4", "<i1"),
}
ALL = {"outputs": "points,point_indices,point_rows"}
STAMP = (1700000000, 123456789)


def random_times(rng, kind, unit, count):
    """Times of a sweep of about 0.1 s in the type and unit, sometimes at a large offset; and the offset."""
    kind = np.dtype(kind)
    span = np.linspace(0, 0.1, count) * deskew.PER_SECOND[unit]
    offset = 0
    if kind.itemsize == 8 and rng.random() < 0.7:
        offset = STAMP[0] * deskew.PER_SECOND[unit] + STAMP[1] // (10**9 // deskew.PER_SECOND[unit])
    if kind.kind == "f":
        times = (span + rng.normal(size=count) * 1e-4 + offset).astype(kind)
        times[rng.random(count) < 0.02] = rng.choice([np.nan, np.inf, -np.inf])
        return rng.permutation(times), offset
    top = min(np.iinfo(kind).max, 2**63 - 1)
    whole = np.array([min(int(value) + offset, top) for value in span], kind)
    return rng.permutation(whole), offset


def random_rows(rng, count, columns, kind="<f4"):
    rows = rng.uniform(-80, 80, (count, columns)).astype(kind)
    odd = rng.random(count) < 0.02
    rows[odd, rng.integers(0, 3)] = rng.choice([np.nan, np.inf, 0.5, 1e5 if rows.dtype.itemsize > 2 else 100])
    return rows


def random_motion(rng, query, mount):
    """Sets the parameters of a motion of about 0.1 s in `query`. Returns the oracle's motion and the reference."""
    reference = float(rng.choice([0, 0, 0.05, -0.02, 0.1]))
    if reference or rng.random() < 0.3:
        query["deskew_reference"] = repr(reference)
    turning = float(rng.choice([0, 0.3, 2, 8, 25]))
    if rng.random() < 0.5:
        query["deskew"] = "twists"
        times = np.sort(rng.uniform(0, 0.07, int(rng.choice([1, 2, 6]))))
        rows = [(t, *rng.normal(size=3) * 15, *rng.normal(size=3) * turning / 2) for t in times.tolist()]
        query["deskew_twists"] = ";".join(numbers(row) for row in rows)
        return deskew.motion_of_twists([[float(n) for n in row] for row in rows], mount), reference
    query["deskew"] = "poses"
    slerp = rng.random() < 0.4
    if slerp or rng.random() < 0.2:
        query["interpolation"] = "slerp" if slerp else "screw"
    times = np.linspace(0, 0.1, int(rng.integers(2, 4 if slerp else 7)))
    form, far, pose = rng.random() < 0.5, rng.normal(size=3) * float(rng.choice([1, 1e6])), (np.eye(3), np.zeros(3))
    start, rows = pose_of([*far, *quaternion(rng)]), []
    for t in times.tolist():
        here = composed(start, pose)
        rows.append((t, *sixteen(here)) if form else (t, *seven(here)))
        step = (times[1] - times[0]) * (turning > 0)
        pose = deskew.after(pose, deskew.moved(rng.normal(size=3) * 15, rng.normal(size=3) * turning / 4, step or 0.02))
    query["deskew_poses"] = ";".join(numbers(row) for row in rows)
    return deskew.motion_of_poses([[float(n) for n in row] for row in rows], slerp, mount), reference


def sixteen(pose):
    return [*np.vstack([np.column_stack(pose), [0, 0, 0, 1]]).ravel()]


def seven(pose):
    """The pose as x, y, z, qw, qx, qy, qz. Near half a turn, the axis is an eigenvector."""
    m = pose[0]
    w = np.sqrt(max(0, 1 + np.trace(m))) / 2
    if w > 0.1:
        return [*pose[1], w, (m[2, 1] - m[1, 2]) / 4 / w, (m[0, 2] - m[2, 0]) / 4 / w, (m[1, 0] - m[0, 1]) / 4 / w]
    values, vectors = np.linalg.eigh(m + m.T)
    axis = vectors[:, np.argmax(values)]
    sine = np.sqrt(max(0, 1 - w * w))
    sign = np.sign(np.dot(axis, [m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]])) or 1
    return [*pose[1], w, *(axis * sine * sign)]


class Deskew(OneDaemonCase):
    ARGS = ("--workers", "4")

    def post(self, path, query, body):
        return self.daemon.post(f"/v1/{path}?" + urllib.parse.urlencode(query, safe=",;"), body)

    def answer(self, query, body, where):
        reply = self.post("points", {**ALL, **query}, body)
        self.assertEqual(reply.status, 200, f"{where} {reply} {query}")
        return check.parse_by_hand(reply.body)

    def same(self, query, body, expected, clamped, where):
        """`expected`: all rows, moved; the answer has the finite ones."""
        tensors, metadata = self.answer(query, body, where)
        left = np.flatnonzero(np.isfinite(expected[:, :3]).all(axis=1))
        points = tensors["points"].view(np.float32).reshape(-1, expected.shape[1])
        self.assertEqual(tensors["point_indices"].ravel().tolist(), left.tolist(), where)
        self.assertEqual(check.difference("points", expected[left], points), None, f"{where} {query}")
        self.assertEqual(metadata["points"]["not_finite"], len(expected) - len(left), where)
        self.assertEqual(metadata.get("time_clamped"), clamped, where)
        return metadata

    def random_mount(self, rng, query):
        if rng.random() < 0.6:
            return None
        query["mount"] = random_pose(rng, 1)
        return pose_of(query["mount"].split(","))

    def parts(self, rng, count):
        if rng.random() < 0.6:
            return [count]
        cut = int(rng.integers(0, count + 1))
        return [cut, count - cut]

    def moved(self, rows, values, counts, query, motion, reference, column=None, stamp=(0, 0)):
        out, clamped = [], 0
        for part, times in zip(np.split(rows, np.cumsum(counts)[:-1]), np.split(values, np.cumsum(counts)[:-1])):
            since = deskew.seconds(times, query.get("time_unit", "s"), query.get("time_origin", "0"), stamp)
            part = part.astype(np.float32)
            if column is not None:
                with np.errstate(all="ignore"):
                    part[:, column] = since.astype(np.float32)
            if query.get("deskew"):
                part, more = deskew.deskewed(part, since, motion, reference)
                clamped += more
            out.append(part)
        return np.concatenate(out), clamped if query.get("deskew") else None

    def test_files(self):
        for case in range(CASES):
            rng = np.random.default_rng(SEED + case)
            where = f"seed {SEED + case}"
            name = str(rng.choice(list(FORMATS)))
            kind, unit = str(rng.choice(FORMATS[name])), str(rng.choice(["s", "ms", "us", "ns"]))
            form, _, data = name.partition(" ")
            count = int(rng.choice([1, 7, 300]))
            rows = random_rows(rng, count, 4)
            if data == "ascii":
                rows[~np.isfinite(rows)] = 1
            values, offset = random_times(rng, kind, unit, count)
            if data == "ascii" and values.dtype.kind == "f":
                values = np.nan_to_num(values, posinf=0, neginf=0)
            columns = dict(zip(("x", "y", "z", "intensity"), rows.T))
            place = int(rng.integers(0, 5))
            items = list(columns.items())
            items.insert(place, ("stamp", values))
            order = ">" if "big" in data else "<"
            points = files.structured(dict(items), {"stamp": kind} | {key: order + "f4" for key in columns})
            body = self.body(form, data, points)
            query = {"format": form, "time_field": str(rng.choice(["stamp", "STAMP"])), "time_unit": unit}
            query["time_origin"] = str(rng.choice(["first", str(offset), repr(float(offset))]))
            if form == "pointcloud2" and rng.random() < 0.4:
                query["time_origin"] = "stamp"
            counts = self.parts(rng, count)
            if len(counts) > 1:
                query["point_counts"] = ",".join(map(str, counts))
            column = None
            if rng.random() < 0.5:
                query["fields"] = "x,y,z,stamp,intensity"
                rows, column = rows[:, [0, 1, 2, 3, 3]], 3
            mount = self.random_mount(rng, query)
            motion, reference = random_motion(rng, query, mount)
            if column is not None and not mount and rng.random() < 0.2:  # a time column without a motion
                query = {key: value for key, value in query.items() if "deskew" not in key and key != "interpolation"}
            expected, clamped = self.moved(rows, values, counts, query, motion, reference, column, STAMP)
            self.same(query, body, expected, clamped, f"{where} {name} {kind}")

    def body(self, form, data, points):
        if form == "pcd":
            return files.pcd(points, data or "binary")
        if form == "ply":
            return files.ply(points, data or "binary_little_endian")
        return files.pointcloud2(points, stamp=STAMP)

    def test_rows(self):
        for case in range(CASES):
            rng = np.random.default_rng(SEED + case)
            kind, count = str(rng.choice(["float32", "float32", "float16"])), int(rng.choice([0, 1, 300]))
            rows = random_rows(rng, count, 5, kind)
            rows[:, 4] = rng.uniform(-0.1, 0.2, count)
            query = {"dtype": kind, "fields": "x,y,z,i,t", "time_field": "t"}
            if rng.random() < 0.5:
                query["time_origin"] = "first"
            counts = self.parts(rng, count)
            if len(counts) > 1:
                query["point_counts"] = ",".join(map(str, counts))
            mount = self.random_mount(rng, query)
            motion, reference = random_motion(rng, query, mount)
            expected, clamped = self.moved(rows, rows[:, 4], counts, query, motion, reference, 4)
            self.same(query, rows.tobytes(), expected, clamped, f"seed {SEED + case}")

    def test_streams(self):
        """A stream keeps corrected sweeps. deskew=stream uses the pose of the sweep before, also if a sweep is sent
        again."""
        for case in range(CASES // 4):
            rng = np.random.default_rng(SEED + case)
            mirror, time, poses, steps = Mirror(), float(rng.uniform(-1, 1.7e9)), {}, int(rng.integers(2, 6))
            kind, mode = str(rng.choice(["float32", "float16"])), str(rng.choice(["stream", "stream", "other"]))
            mount, rotation = None, pose_of([0, 0, 0, *quaternion(rng)])
            base = {"stream": f"d{case}", "fields": "x,y,z,i,t", "time_field": "t", "dtype": kind}
            base |= {"sweeps": str(rng.integers(1, 5)), "remove_close": "3", "outputs": "points"}
            self.addCleanup(self.daemon.request, "DELETE", f"/v1/streams/d{case}")
            for step in range(steps):
                where = f"seed {SEED + case}, sweep {step}"
                time += float(rng.uniform(0.05, 0.2)) * (rng.random() < 0.8 or step == 0)
                rows = random_rows(rng, 200, 5, kind)
                rows[:, 4] = rng.uniform(-0.15, 0.05, 200)
                here = composed(pose_of([*rng.normal(size=3), 1, 0, 0, 0]), rotation)
                query = {**base, "time": repr(time), "pose": numbers(sixteen(here))}
                if step == 0 and rng.random() < 0.5:
                    query["mount"] = random_pose(rng, 1)
                    mount = pose_of(query["mount"].split(","))
                place = composed(pose_of(query["pose"].split(",")), mount) if mount else here
                before = [each for each in poses if each < time]
                motion, reference = None, 0.0
                if mode == "other":
                    motion, reference = random_motion(rng, query, mount)
                else:
                    query["deskew"] = "stream"
                    if before:
                        motion = deskew.motion_between(poses[max(before)], place, time - max(before))
                expected, clamped = self.moved(rows, rows[:, 4], [200], query, motion, reference, 4)
                poses[time] = place
                joined, _ = mirror.send(query, expected)
                tensors, metadata = self.answer(query, rows.tobytes(), where)
                left = joined[np.isfinite(joined[:, :3]).all(axis=1)]
                points = tensors["points"].view(np.float32).reshape(-1, 5)
                self.assertEqual(check.difference("points", left, points), None, f"{where} {query}")
                self.assertEqual(metadata["time_clamped"], clamped, where)
                kinds = [warning["kind"] for warning in metadata["warnings"]]
                self.assertEqual("no_motion" in kinds, mode == "stream" and not before, where)

    def test_sent_along(self):
        """Sweeps in one body move like the same sweeps sent one after the other."""
        for case in range(CASES // 8):
            rng = np.random.default_rng(SEED + case)
            count, time = int(rng.integers(2, 5)), float(rng.uniform(0, 1e9))
            base = {"fields": "x,y,z,t", "time_field": "t", "deskew": "stream", "sweeps": "4", "outputs": "points"}
            sweeps = []
            for step in range(count):
                time += 0.1
                rows = random_rows(rng, 150, 4)
                rows[:, 3] = rng.uniform(-0.1, 0, 150)
                pose = numbers([step * 2.0, 0.1 * step, 0, np.cos(0.04 * step), 0, 0, np.sin(0.04 * step)])
                sweeps.insert(0, (time, pose, rows))
                query = {**base, "stream": f"a{case}", "time": repr(time), "pose": pose}
                one, _ = self.answer(query, rows.tobytes(), f"seed {SEED + case}")
            query = {**base, "stream": f"b{case}", "times": ",".join(repr(each[0]) for each in sweeps)}
            query |= {"poses": ",".join(each[1] for each in sweeps), "point_counts": ",".join(["150"] * count)}
            other, _ = self.answer(query, b"".join(each[2].tobytes() for each in sweeps), f"seed {SEED + case}")
            self.assertEqual(one["points"].tobytes(), other["points"].tobytes())
            for name in "ab":
                self.daemon.request("DELETE", f"/v1/streams/{name}{case}")

    def test_operations(self):
        """Every operation gives the tensors that it gives for points already corrected."""
        rng = np.random.default_rng(SEED)
        rows = random_rows(rng, 3000, 5)
        rows[~np.isfinite(rows)] = 7  # JSON has no infinity
        rows[:, 4] = np.linspace(0, 0.1, 3000)
        times = {"fields": "x,y,z,i,t", "time_field": "t", "deskew": "twists", "deskew_twists": "0.05,10,0,0,0,0,1"}
        motion = deskew.motion_of_twists([(0.05, 10.0, 0, 0, 0, 0, 1.0)])
        moved, _ = deskew.deskewed(rows, rows[:, 4].astype(float), motion)
        grid = {"point_cloud_range": "-50,-50,-3,50,50,3", "voxel_size": "1,1,1"}
        steps = {"steps": "downsample", "downsample.voxel_size": "2"}
        queries = [("voxelize", grid), ("voxelize", {**grid, **steps}), ("fps", {"num_samples": "64"})]
        for path, query in [*queries, ("transform", {"crop": "-20,-20,-9,20,20,9"}), ("points", steps)]:
            expected = self.post(path, {**query, "num_features": "5"}, moved.tobytes())
            reply = self.post(path, {**query, **times}, rows.tobytes())
            self.assertEqual((reply.status, expected.status), (200, 200), f"{path} {reply} {expected}")
            self.assertEqual(reply.tensors(), expected.tensors(), path)
            self.check_inference(path, {**query, **times}, rows, check.parse_by_hand(expected.body)[0])

    def check_inference(self, path, query, rows, expected):
        for inputs, arrays in (([infer.as_bytes("points", rows)], [rows]), ([infer.as_json("points", rows)], [])):
            body, headers = infer.body_of(inputs, arrays, parameters={**query, "binary_data_output": True})
            reply = self.daemon.post(f"/v2/models/{path}/infer", body, headers)
            self.assertEqual(reply.status, 200, f"{path} {reply}")
            tensors, _ = infer.parse(reply)
            for name, tensor in expected.items():
                self.assertEqual(tensors[name].tobytes(), tensor.tobytes(), f"{path} {name}")

    def test_a_safetensors_file(self):
        rng = np.random.default_rng(SEED)
        for kind in ("<f4", "<f2"):
            rows = random_rows(rng, 500, 5, kind)
            rows[:, 4] = np.linspace(-0.05, 0.05, 500)
            query = {"format": "safetensors", "fields": "x,y,z,i,t", "time_field": "t"}
            motion, reference = random_motion(rng, query, None)
            expected, clamped = self.moved(rows, rows[:, 4], [500], query, motion, reference, 4)
            self.same(query, save({"points": rows}), expected, clamped, kind)


if __name__ == "__main__":
    unittest.main()
