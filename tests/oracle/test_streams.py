"""Sweeps that the server keeps and joins give the same bytes as one request with all sweeps joined by hand, for every
operation, set of columns, form of poses and protocol."""

import json
import os
import unittest
import urllib.parse

import numpy as np

import check
import infer
import oracle
from daemon import OneDaemonCase
from streams import Mirror, composed, motion, pose_of

SEED = int(os.environ.get("VOXELD_TEST_SEED", "9000"))
CASES = int(os.environ.get("VOXELD_TEST_STREAMS", "60"))

GRID = {"point_cloud_range": "-20,-20,-4,20,20,4", "voxel_size": "0.5,0.5,1"}
OPERATIONS = (
    ("voxelize", {**GRID, "feature": "mean,points,pillar", "max_points_per_voxel": "4", "max_voxels": "900"}),
    (
        "voxelize",
        {**GRID, "max_points_per_voxel": "2", "max_points_by": "random", "max_voxels": "300", "max_voxels_by": "near"},
    ),
    ("voxelize", {**GRID, "max_points_per_voxel": "0", "outputs": "voxel_coords,voxel_features,point_voxel_ids"}),
    ("transform", {"crop": "-15,-15,-3,15,15,3", "matrix": "0,-1,0,2,1,0,0,3,0,0,1,0,0,0,0,1"}),
    ("fps", {"num_samples": "40"}),
)
FATES = ("not_finite", "out_of_range", "over_max_points_per_voxel", "over_max_voxels", "block_filtered")
JOINING = ("stream", "streams", "sweeps", "pose", "poses", "mount", "time", "times", "time_column", "remove_close")
JOINING += ("point_counts",)  # here: the numbers of points of the sweeps in a body


def numbers(values):
    return ",".join(repr(float(value)) for value in np.ravel(values))


def quaternion(rng):
    turn = rng.normal(size=4)
    return turn / np.linalg.norm(turn)


def random_pose(rng, scale=5.0):
    """A random pose, as 7 or as 16 numbers."""
    seven = [*rng.normal(size=3) * scale, *quaternion(rng)]
    if rng.random() < 0.5:
        return numbers(seven)
    rotation, translation = pose_of(seven)
    return numbers(np.vstack([np.column_stack([rotation, translation]), [0, 0, 0, 1]]))


def random_sweep(rng, columns, kind):
    rows = rng.uniform(-12, 12, (int(rng.choice([0, 1, 60, 700, 3000])), columns)).astype(kind)
    odd = rng.random(len(rows)) < 0.02
    rows[odd, rng.integers(0, 3)] = rng.choice([np.nan, np.inf, -np.inf, -0.0, 0.0])
    return rows


class Streams(OneDaemonCase):
    ARGS = ("--workers", "4")

    def post(self, path, query, body):
        return self.daemon.post(f"/v1/{path}?" + urllib.parse.urlencode(query, safe=",;"), body)

    def plain(self, path, query, joined):
        """The answer to one request with all sweeps, joined by hand."""
        plain = {name: value for name, value in query.items() if name not in JOINING and name != "dtype"}
        return self.post(path, {**plain, "num_features": str(joined.shape[1])}, joined.tobytes())

    def check(self, path, query, rows, mirror, where="", along=()):
        """`along`: older sweeps, which follow the newest in the same body."""
        bodies = (rows, *along)
        joined, told = mirror.send(query, *bodies)
        expected = self.plain(path, query, joined)
        reply = self.post(path, query, b"".join(body.tobytes() for body in bodies))
        if expected.status != 200:  # for example, more samples than points
            self.assertEqual(reply.status, expected.status, where)
            self.assertEqual(reply.json()["detail"], expected.json()["detail"], where)
            return None
        self.assertEqual(reply.status, 200, f"{where} {reply}")
        self.assertEqual(reply.tensors(), expected.tensors(), where)
        metadata, other = (check.parse_by_hand(each.body)[1] for each in (reply, expected))
        for member in ("points", "batch"):
            self.assertEqual(metadata[member], other[member], where)
        self.check_report(metadata, query, told, where)
        self.check_fates(path, query, joined, metadata, where)
        return metadata

    def fates(self, path, query, joined, counts):
        parts = np.split(joined, np.cumsum(counts)[:-1])
        if path == "transform":  # a point's fate does not depend on others
            answers = [self.plain(path, query, part) for part in parts]
            return [check.parse_by_hand(answer.body)[1]["points"] for answer in answers]
        if path == "fps":
            finite = [int(np.isfinite(part[:, :3]).all(axis=1).sum()) for part in parts]
            return [{"kept": kept, "not_finite": len(part) - kept} for kept, part in zip(finite, parts)]
        plain = {name: value for name, value in query.items() if name not in JOINING and name != "dtype"}
        params = oracle.Params.from_values({**plain, "num_features": joined.shape[1]})
        each = oracle.Cloud(params, oracle.Grid(params, 1), joined.view(np.uint32)).fates
        names = ("kept", *FATES)
        return [{name: int((part == name).sum()) for name in names} for part in np.split(each, np.cumsum(counts)[:-1])]

    def check_fates(self, path, query, joined, metadata, where):
        told = [dict(sweep["points"]) for sweep in metadata["stream"]["sweeps"]]
        expected = self.fates(path, query, joined, [points["joined"] for points in told])
        for points, fates in zip(told, expected):
            removed, received = points.pop("removed_close"), points.pop("received")
            self.assertEqual(removed + sum(fates[name] for name in fates if name != "received"), received, where)
            fates["received"] = points.pop("joined")
            self.assertEqual({**points, "received": fates["received"]}, fates, where)
        for name in set(expected[0]):
            self.assertEqual(sum(fates[name] for fates in expected), metadata["points"][name], f"{where} {name}")

    def check_report(self, metadata, query, told, where):
        stream = metadata["stream"]
        sweeps = [
            (each["stream"], each["time"], each["points"]["received"], each["points"]["joined"])
            for each in stream["sweeps"]
        ]
        self.assertEqual(sweeps, told, where)
        for each in stream["sweeps"]:
            points = each["points"]
            self.assertEqual(points["received"], points["removed_close"] + points["joined"], where)
            self.assertEqual(np.float32(each["age_s"]), np.float32(told[0][1] - each["time"]), where)
        self.assertEqual(sum(each["points"]["joined"] for each in stream["sweeps"]), metadata["points"]["received"])
        fewer = [warning for warning in metadata["warnings"] if warning["kind"] == "fewer_sweeps"]
        self.assertEqual(len(fewer), int(len(told) < stream["asked"]), where)

    def delete(self, *names):
        for name in names:
            self.daemon.request("DELETE", f"/v1/streams/{name}")

    def test_random(self):
        for case in range(CASES):
            rng = np.random.default_rng(SEED + case)
            path, base = OPERATIONS[case % len(OPERATIONS)]
            columns, kind = int(rng.choice([3, 4, 6])), rng.choice(["float32", "float32", "float16"])
            mirror, time = Mirror(), float(rng.uniform(-1, 1.7e9))
            self.addCleanup(self.delete, f"s{case}")
            for step in range(int(rng.integers(2, 7))):
                time += float(rng.uniform(0.01, 0.2)) * (rng.random() < 0.85)  # the same time again is a retry
                query = {**base, "stream": f"s{case}", "num_features": str(columns), "dtype": kind}
                query |= {"pose": random_pose(rng), "time": repr(time), "sweeps": str(rng.integers(1, 6))}
                if rng.random() < 0.5:
                    query["time_column"] = "yes"
                if rng.random() < 0.4:
                    query["remove_close"] = repr(float(rng.uniform(0.1, 9)))
                if rng.random() < 0.3:
                    query["mount"] = random_pose(rng, 1)
                before = {name: list(sweeps) for name, sweeps in mirror.sweeps.items()}, dict(mirror.mounts)
                rows = random_sweep(rng, columns, np.dtype(kind))
                if not self.check(path, query, rows, mirror, f"seed {SEED + case}, sweep {step}"):
                    mirror.sweeps, mirror.mounts = before  # a failed request stores nothing

    def test_sent_along(self):
        """The newest sweep, sent with older sweeps, gives the same bytes as sweeps sent one by one, even if the server
        has lost the stream."""
        for case in range(CASES):
            rng = np.random.default_rng(SEED + case)
            path, base = OPERATIONS[case % len(OPERATIONS)]
            columns, kind = int(rng.choice([3, 4, 6])), np.dtype(rng.choice(["float32", "float16"]))
            whole, broken, count, sweeps = Mirror(), Mirror(), int(rng.integers(2, 9)), int(rng.integers(2, 7))
            query = {**base, "num_features": str(columns), "dtype": kind.name, "sweeps": str(sweeps)}
            query |= {"time_column": str(rng.choice(["no", "yes"]))}
            if rng.random() < 0.4:
                query |= {"mount": random_pose(rng, 1), "remove_close": "2.5"}
            time, sent, form = float(rng.uniform(-1, 1.7e9)), [], rng.random() < 0.5
            self.addCleanup(self.delete, f"w{case}", f"b{case}")
            for step in range(count):
                where = f"seed {SEED + case}, sweep {step}"
                time += float(rng.uniform(0.01, 0.2))
                pose, rows = random_pose(rng), random_sweep(rng, columns, kind)
                if form:  # all poses of a list have one form
                    pose = numbers([*rng.normal(size=3) * 5, *quaternion(rng)])
                elif pose.count(",") == 6:
                    rotation, translation = pose_of(pose.split(","))
                    pose = numbers(np.vstack([np.column_stack([rotation, translation]), [0, 0, 0, 1]]))
                sent = [(time, pose, rows), *(sweep for sweep in sent if len(sweep[2]))]
                single = {"pose": pose, "time": repr(time)}
                in_turn = self.check(path, {**query, **single, "stream": f"w{case}"}, rows, whole, where)
                along = sent[: int(rng.integers(1, sweeps + 1))]
                if rng.random() < 0.4:  # as if the server were a new one
                    self.delete(f"b{case}")
                    broken, along = Mirror(), sent[:sweeps]
                lists = {
                    "point_counts": ",".join(str(len(rows)) for _, _, rows in along),
                    "times": ",".join(repr(time) for time, _, _ in along),
                    "poses": ",".join(pose for _, pose, _ in along),
                }
                rows, *older = (rows for _, _, rows in along)
                metadata = self.check(path, {**query, **lists, "stream": f"b{case}"}, rows, broken, where, older)
                if not metadata or not in_turn:  # more samples than points: neither stream kept the sweep
                    self.assertEqual(metadata, in_turn, where)
                    self.delete(f"b{case}", f"w{case}")
                    whole, broken, sent = Mirror(), Mirror(), []
                    continue
                for member in ("points", "batch"):
                    self.assertEqual(metadata[member], in_turn[member], where)
                origins = [sweep["origin"] for sweep in metadata["stream"]["sweeps"]]
                self.assertEqual(origins, (["sent"] * len(along) + ["kept"] * sweeps)[: len(origins)], where)

    def test_several_sensors(self):
        """Four sensors in turn, each joined with the last sweeps of the others, in the frame of the first."""
        rng, mirror = np.random.default_rng(SEED), Mirror()
        names = ("front", "rear", "left", "right")
        self.addCleanup(self.delete, *names)
        mounts = {name: random_pose(rng, 2) for name in names}
        for turn in range(3):
            for number, name in enumerate(names):
                query = {**OPERATIONS[0][1], "stream": name, "streams": ",".join(names), "sweeps": "2"}
                query |= {"pose": random_pose(rng), "time": repr(100 + turn + number / 10), "time_column": "yes"}
                if turn == 0:
                    query["mount"] = mounts[name]  # the streams keep the mount
                metadata = self.check("voxelize", query, random_sweep(rng, 4, np.float32), mirror, f"{turn} {name}")
                self.assertEqual((metadata["stream"]["frame"], metadata["stream"]["asked"]), ("front", 8))
        self.assertEqual(len(metadata["stream"]["sweeps"]), 8)
        self.assertLess(metadata["stream"]["sweeps"][-1 - 4]["age_s"], 0, "right was sent after front")

    def test_fates(self):
        """Caps that drop points, and a block filter, on clouds that several workers share."""
        kinds = [
            {"max_points_per_voxel": "3", "max_voxels": "2500"},
            {"max_points_per_voxel": "1", "max_voxels": "2000", "order": "key", "outputs": "voxel_coords"},
            {"max_points_per_voxel": "40", "block_filter": "2,3,0.5,6.5"},
            {"max_points_per_voxel": "0", "max_voxels": "2200", "outputs": "voxel_coords"},
        ]
        every = set(FATES) - {"block_filtered"}
        wanted = (every, every, {"block_filtered"}, {"over_max_voxels"})
        for number, kind in enumerate(kinds):
            rng, mirror, seen = np.random.default_rng(SEED + number), Mirror(), set()
            self.addCleanup(self.delete, f"f{number}")
            for step in range(5):
                rows = rng.normal(0, 6, (9000, 4)).astype(np.float32)
                rows[::2, :2] /= 6
                rows[rng.integers(0, len(rows), 50), 1] = np.nan
                query = {**GRID, **kind, "stream": f"f{number}", "sweeps": "4", "remove_close": "0.2"}
                query |= {"pose": random_pose(rng, 1), "time": str(step), "num_features": "4", "time_column": "yes"}
                metadata = self.check("voxelize", query, rows, mirror, f"{kind} {step}")
                for sweep in metadata["stream"]["sweeps"]:
                    seen |= {name for name in FATES if sweep["points"][name]}
            self.assertTrue(wanted[number] <= seen, f"{kind} {seen}")

    def test_inference(self):
        """KServe's protocol: the parameters of a stream are parameters of the inference request."""
        rng, mirror = np.random.default_rng(SEED), Mirror()
        self.addCleanup(self.delete, "k")
        for step in range(4):
            rows = random_sweep(rng, 4, np.float32)
            query = {"stream": "k", "sweeps": "3", "pose": random_pose(rng), "time": str(step), "time_column": "yes"}
            joined, _ = mirror.send(query, rows)
            expected = self.plain("voxelize", GRID, joined)
            parameters = {**GRID, **query, "time": step, "pose": [float(each) for each in query["pose"].split(",")]}
            body, headers = infer.body_of(
                [infer.as_bytes("points", rows)], [rows], parameters={**parameters, "binary_data_output": True}
            )
            reply = self.daemon.post("/v2/models/voxelize/infer", body, headers)
            self.assertEqual(reply.status, 200, reply)
            tensors, _ = infer.parse(reply)
            for name, tensor in check.parse_by_hand(expected.body)[0].items():
                self.assertEqual(tensors[name].tobytes(), tensor.tobytes(), f"{step} {name}")

    def test_inference_sent_along(self):
        """KServe's protocol: the lists are parameters. The tensors equal those of /v1, sweep by sweep."""
        rng, mirror = np.random.default_rng(SEED), Mirror()
        self.addCleanup(self.delete, "k", "v")
        sent = []
        for step in range(4):
            pose, rows = [*rng.normal(size=3), *quaternion(rng)], random_sweep(rng, 4, np.float32)
            sent = [(step + 0.125, pose, rows), *(sweep for sweep in sent if len(sweep[2]))][:3]
            query = {**GRID, "stream": "v", "sweeps": "3", "pose": numbers(pose), "time": repr(step + 0.125)}
            self.check("voxelize", {**query, "time_column": "yes"}, rows, mirror)
            expected = self.post("voxelize", {**query, "time_column": "yes"}, rows.tobytes())
            self.delete("k")  # so that the sweeps come from the body
            lists = {
                "point_counts": [len(rows) for _, _, rows in sent],
                "times": [time for time, _, _ in sent],
                "poses": [float(number) for _, pose, _ in sent for number in pose],
            }
            parameters = {**GRID, **lists, "stream": "k", "sweeps": 3, "time_column": True, "binary_data_output": True}
            body = np.concatenate([rows for _, _, rows in sent])
            body, headers = infer.body_of([infer.as_bytes("points", body)], [body], parameters=parameters)
            reply = self.daemon.post("/v2/models/voxelize/infer", body, headers)
            self.assertEqual(reply.status, 200, reply)
            tensors, _ = infer.parse(reply)
            for name, tensor in check.parse_by_hand(expected.body)[0].items():
                self.assertEqual(tensors[name].tobytes(), tensor.tobytes(), f"{step} {name}")

    def test_last(self):
        """GET /v1/streams/NAME/last has the points that the last request joined."""
        rng, mirror = np.random.default_rng(SEED), Mirror()
        self.addCleanup(self.delete, "l")
        for step in range(3):
            query = {**GRID, "stream": "l", "sweeps": "2", "pose": random_pose(rng), "time": str(step)}
            query |= {"time_column": "yes", "remove_close": "1.5"}
            # A sweep without points is not kept.
            rows = np.append(random_sweep(rng, 4, np.float32), np.ones((1, 4), np.float32), 0)
            joined, _ = mirror.send(query, rows)
            self.assertEqual(self.post("voxelize", query, rows.tobytes()).status, 200)
            reply = self.daemon.get("/v1/streams/l/last")
            tensors, metadata = check.parse_by_hand(reply.body)
            self.assertEqual(tensors["points"].shape, joined.shape)
            self.assertEqual(tensors["points"].tobytes(), joined.tobytes())
            self.assertEqual(metadata["stream"]["time"], step)
            self.check_pose(metadata, pose_of(query["pose"].split(",")))

    def check_pose(self, metadata, expected):
        matrix = np.vstack([np.column_stack(expected), [0, 0, 0, 1]])
        np.testing.assert_array_equal(metadata["pose"], matrix.ravel())

    def test_far_from_the_origin(self):
        """A sweep is moved with an error below 0.04 mm even in UTM coordinates, where float32 has steps of half a
        metre."""
        origin = np.array([456789.123, 5412345.678, 321.5])
        turn = np.array([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]])
        now, then = (turn, origin + [1.25, 2.5, 0.0]), (turn, origin)
        self.assertTrue(np.allclose(motion(now, then)[:3, 3], [-2.5, 1.25, 0], atol=1e-6))
        mirror = Mirror()
        self.addCleanup(self.delete, "u")
        for time, pose in enumerate((then, now)):
            matrix = np.vstack([np.column_stack(pose), [0, 0, 0, 1]])
            query = {"stream": "u", "sweeps": "2", "pose": numbers(matrix), "time": str(time)}
            self.check("transform", query, np.ones((1, 4), np.float32), mirror)
        tensors, metadata = check.parse_by_hand(self.daemon.get("/v1/streams/u/last").body)
        points = tensors["points"]
        self.assertTrue(np.allclose(points, [[1, 1, 1, 1], [-1.5, 2.25, 1, 1]], atol=1e-5), points)
        self.check_pose(metadata, now)

    def test_the_pose_of_the_last_points_is_that_of_the_sensor(self):
        rng, mount = np.random.default_rng(SEED), random_pose(np.random.default_rng(SEED + 1))
        self.addCleanup(self.delete, "m")
        query = {**GRID, "stream": "m", "pose": random_pose(rng), "mount": mount, "time": "1"}
        self.assertEqual(self.post("voxelize", query, np.ones((1, 4), np.float32).tobytes()).status, 200)
        _, metadata = check.parse_by_hand(self.daemon.get("/v1/streams/m/last").body)
        self.check_pose(metadata, composed(*(pose_of(query[name].split(",")) for name in ("pose", "mount"))))

    def test_metadata_alone(self):
        """A sweep is kept even if its answer is only metadata."""
        self.addCleanup(self.delete, "m")
        body = np.ones((5, 4), np.float32).tobytes()
        query = urllib.parse.urlencode({"stream": "m", "sweeps": "2", "pose": "0,0,0,1,0,0,0"})
        for time in (1, 2):
            path = f"/v1/transform?{query}&time={time}"
            metadata = json.loads(self.daemon.post(path, body, {"Accept": "application/json"}).body)
            self.assertEqual(metadata["points"]["received"], 5 * time)


if __name__ == "__main__":
    unittest.main()
