"""Inference requests of the KServe v2 protocol give the tensors of the plain request, byte for byte: for every preset,
voxelize, fps and transform, as binary data and as JSON, with points as binary data, as JSON and as the body alone."""

import json
import unittest

import numpy as np

import check
import codings
import infer
from daemon import OneDaemonCase

GRID = {"point_cloud_range": "-10,-10,-3,10,10,3", "voxel_size": "0.5,0.5,0.75"}
REQUESTS = (
    ("voxelize", 4, GRID),
    ("voxelize", 5, {**GRID, "num_features": 5, "feature": "points,mean,pillar", "max_points_per_voxel": 3}),
    ("voxelize", 4, {**GRID, "outputs": "voxel_coords,point_voxel_ids,voxel_point_mask"}),
    ("voxelize", 4, {**GRID, "fps": 20, "max_voxels": 50}),
    ("fps", 3, {"num_samples": 64}),
    ("transform", 4, {"crop": [-5, -5, -5, 5, 5, 5]}),
)


def points_of(columns, count=3000, seed=1):
    return np.random.default_rng(seed).uniform(-9, 9, (count, columns)).astype("<f4")


def query_of(parameters):
    text = lambda value: ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return "&".join(f"{name}={text(value)}" for name, value in parameters.items())


def binary_points(points):
    return infer.as_bytes("points", points)


class Infer(OneDaemonCase):
    ARGS = ("--workers", "2")

    def plain(self, path, body):
        reply = self.daemon.post(path, body)
        self.assertEqual(reply.status, 200, reply)
        return check.parse_by_hand(reply.body)

    def ask(self, model, body, head=None, headers=()):
        headers = {**dict(headers), **({} if head is None else {"Inference-Header-Content-Length": str(head)})}
        reply = self.daemon.post(f"/v2/models/{model}/infer", body, headers)
        self.assertEqual(reply.status, 200, reply)
        return infer.parse(reply)

    def request(self, model, points, parameters=None, **members):
        head = json.dumps(
            {
                "inputs": [binary_points(points)],
                "parameters": {"binary_data_output": True, **(parameters or {})},
                **members,
            }
        ).encode()
        return self.ask(model, head + points.tobytes(), len(head))

    def same(self, answered, expected):
        tensors, answer = answered
        plain, metadata = expected
        self.assertEqual(set(tensors), set(plain))
        for name, tensor in plain.items():
            self.assertEqual((tensors[name].dtype, tensors[name].shape), (tensor.dtype, tensor.shape), name)
            self.assertEqual(tensors[name].tobytes(), tensor.tobytes(), name)
        told = answer["parameters"]
        for fate, count in metadata["points"].items():
            self.assertEqual(told[f"points_{fate}"], count)
        whole = json.loads(told["metadata"])
        for member in ("points", "batch", "parameters"):
            self.assertEqual(whole[member], metadata[member])

    def test_every_preset(self):
        for preset in self.daemon.get("/v1/presets").json()["presets"]:
            columns = preset["parameters"].get("num_features", 4)
            path = f"/v1/{preset.get('operation', 'voxelize')}?preset={preset['name']}"
            for points in (points_of(columns), points_of(columns, 0), points_of(columns)[:1]):
                with self.subTest(preset=preset["name"], points=len(points)):
                    expected = self.plain(path, points.tobytes())
                    self.same(self.request(preset["name"], points), expected)
                    self.same(self.ask(preset["name"], points.tobytes(), 0), expected)

    def test_every_operation_with_parameters(self):
        for model, columns, parameters in REQUESTS:
            points = points_of(columns)
            query = query_of({"num_features": columns, **parameters})
            with self.subTest(model=model, parameters=parameters):
                expected = self.plain(f"/v1/{model}?{query}", points.tobytes())
                self.same(self.request(model, points, parameters), expected)
                # As JSON, nested and flat.
                data = {"name": "points", "shape": list(points.shape), "datatype": "FP32"}
                for values in (points.tolist(), points.ravel().tolist()):
                    body = json.dumps({"inputs": [{**data, "data": values}], "parameters": parameters}).encode()
                    self.same(self.ask(model, body), expected)

    def test_outputs_are_bytes_or_json_as_asked(self):
        points = points_of(4)
        expected = self.plain("/v1/voxelize?preset=kitti_second", points.tobytes())
        names = list(expected[0])
        for chosen in range(1 << len(names)):
            outputs = [{"name": n, "parameters": {"binary_data": bool(chosen >> i & 1)}} for i, n in enumerate(names)]
            answered = self.request("kitti_second", points, outputs=outputs)
            self.assertEqual(
                [("data" in output) for output in answered[1]["outputs"]],
                [not chosen >> names.index(output["name"]) & 1 for output in answered[1]["outputs"]],
            )
            for name in names:
                self.assertEqual(answered[0][name].tobytes(), expected[0][name].tobytes())

    def test_tensors_that_are_not_aligned(self):
        points = points_of(4)
        expected = self.plain("/v1/voxelize?preset=kitti_second&point_counts=1000,1500,500", points.tobytes())
        counts = np.array([1000, 1500, 500], "<i4")
        described = {
            "name": "point_counts",
            "shape": [3],
            "datatype": "INT32",
            "parameters": {"binary_data_size": counts.nbytes},
        }
        for order in (0, 1):
            pairs = [(binary_points(points), points), (described, counts)][:: 1 - 2 * order]
            inputs = [description for description, _ in pairs]
            for blanks in range(0, 70, 7):
                head = (
                    json.dumps({"inputs": inputs, "parameters": {"binary_data_output": True}}).encode() + b" " * blanks
                )
                body = head + b"".join(values.tobytes() for _, values in pairs)
                tensors, _ = self.ask("kitti_second", body, len(head))
                for name, tensor in expected[0].items():
                    self.assertEqual(tensors[name].tobytes(), tensor.tobytes(), (order, blanks, name))

    def test_half_precision(self):
        points = points_of(4).astype("<f2")
        expected = self.plain("/v1/voxelize?preset=kitti_second&dtype=float16&feature_dtype=float16", points.tobytes())
        tensors, _ = self.request("kitti_second", points, {"feature_dtype": "float16"})
        for name, tensor in expected[0].items():
            self.assertEqual((tensors[name].dtype, tensors[name].tobytes()), (tensor.dtype, tensor.tobytes()), name)

    def test_numbers_that_json_lacks_are_null(self):
        points = points_of(4)[:2]
        points[0, 3], points[1, 3] = np.nan, np.inf
        head = json.dumps({"inputs": [binary_points(points)]}).encode()
        _, answer = self.ask("transform", head + points.tobytes(), len(head))
        (data,) = [output["data"] for output in answer["outputs"] if output["name"] == "points"]
        self.assertEqual([data[3], data[7]], [None, None])

    def test_zero_keeps_its_sign(self):
        points = np.array([[1.0, 2.0, 0.0, -0.0]], "<f4")
        head = json.dumps({"inputs": [binary_points(points)]}).encode()
        tensors, _ = self.ask("transform", head + points.tobytes(), len(head))
        self.assertEqual(tensors["points"].tobytes(), points.tobytes())

    def test_an_answer_that_is_compressed(self):
        points = points_of(4)
        expected = self.plain("/v1/voxelize?preset=kitti_second", points.tobytes())
        head = json.dumps({"inputs": [binary_points(points)], "parameters": {"binary_data_output": True}}).encode()
        headers = {"Accept-Encoding": "gzip", "Inference-Header-Content-Length": str(len(head))}
        reply = self.daemon.post("/v2/models/kitti_second/infer", head + points.tobytes(), headers)
        self.assertEqual(reply.headers["Content-Encoding"], "gzip")
        self.same(infer.parse(codings.decode(reply)), expected)


if __name__ == "__main__":
    unittest.main()
