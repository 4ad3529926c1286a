"""POST /v1/serialize: every kind of answer, KServe, refusals."""

import io
import json
import unittest

import numpy as np

from http_case import JSON, SharedDaemonCase, floats

POINTS = floats(0.5, 0.5, 0.5, 3.5, 0.5, 0.5, 0.5, 1.5, 0.5, float("nan"), 0, 0, 3.5, 3.5, 0.5, 1e30, 0, 0)
QUERY = "num_features=3&voxel_size=1&orders=z,z-trans"
CODES = (0, 36, 2, 54, 0, 18, 4, 54)  # of the cells 0,0,0; 3,0,0; 0,1,0; 3,3,0
ORDER = (0, 2, 1, 3, 0, 2, 1, 3)
FATES = ("kept", "not_finite", "out_of_lattice")


class Serialize(SharedDaemonCase):
    def serialize(self, query, body=POINTS, *lines):
        return self.post(f"/v1/serialize?{query}", body, *lines)

    def test_codes_are_int64_and_each_point_has_one_fate(self):
        reply = self.serialize(QUERY)
        answer = self.tensors(reply)
        self.assertEqual(answer.shapes["serialized_code"], ("I64", [2, 4]))
        self.assertEqual(answer.values("serialized_code"), CODES)
        self.assertEqual(answer.values("serialized_order"), ORDER)
        self.assertEqual(answer.values("grid_coord"), (0, 0, 0, 3, 0, 0, 0, 1, 0, 3, 3, 0))
        self.assertEqual(answer.shapes["points"], ("F32", [4, 3]))
        metadata = answer.metadata
        self.assertEqual(metadata["points"], {"received": 6, "kept": 4, "not_finite": 1, "out_of_lattice": 1})
        self.assertEqual((metadata["depth"], metadata["batch"]), (3, {"size": 1, "points": [6], "kept": [4]}))
        self.assertEqual(metadata["parameters"]["orders"], ["z", "z-trans"])
        self.assertIn("serialize;dur=", reply.headers["Server-Timing"])

    def test_stages_are_joined_and_counted(self):
        answer = self.tensors(self.serialize(QUERY + "&strides=2,2"))
        self.assertEqual(answer.metadata["pool_rows"], [3, 1])
        self.assertEqual(answer.values("pool_cluster"), (0, 1, 0, 2, 0, 0, 0))
        self.assertEqual(answer.values("pool_indptr"), (0, 2, 3, 4, 0, 3))
        self.assertEqual(answer.shapes["pool_serialized_code"], ("I64", [2, 4]))
        self.assertEqual(answer.values("pool_serialized_code"), (0, 4, 6, 0, 0, 2, 6, 0))

    def test_steps_drop_points_first(self):
        query = QUERY + "&steps=downsample&downsample.voxel_size=2&downsample.method=first"
        query += "&outputs=point_rows,point_fates"
        answer = self.tensors(self.serialize(query))
        self.assertEqual(answer.values("point_rows"), (0, 1, 0, -1, 2, -1))
        self.assertEqual(answer.metadata["points"]["merged"], 1)

    def test_each_sweep_of_a_stream_has_its_fates(self):
        stream = "stream=sweeps&point_counts=2,4&times=1,0&poses=0,0,0,1,0,0,0,0,0,0,1,0,0,0"
        with_tensors = self.tensors(self.serialize(f"{QUERY}&{stream}")).metadata
        for metadata in (with_tensors, self.serialize(f"{QUERY}&{stream}", POINTS, JSON).json()):
            first, second = (sweep["points"] for sweep in metadata["stream"]["sweeps"])
            self.assertEqual([first[name] for name in FATES], [2, 0, 0])
            self.assertEqual([second[name] for name in FATES], [2, 1, 1])

    def test_every_kind_of_answer(self):
        arrays = np.load(io.BytesIO(self.serialize(QUERY, POINTS, "Accept: application/x-npz").body))
        code = arrays["serialized_code"]
        self.assertEqual((code.dtype, code.ravel().tolist()), ("<i8", list(CODES)))
        alone = self.serialize(QUERY + "&strides=2", POINTS, JSON)
        self.assertEqual((alone.json()["depth"], alone.json()["pool_rows"]), (3, [3]))
        mcap = self.serialize(QUERY, POINTS, "Accept: application/x-mcap")
        self.assertEqual(mcap.status, 200)
        self.assertIn(b"/serialized", mcap.body)

    def test_kserve_has_int64(self):
        data = [0.5, 0.5, 0.5, 3.5, 0.5, 0.5, 0.5, 1.5, 0.5, 3.5, 3.5, 0.5]
        points = {"name": "points", "datatype": "FP32", "shape": [4, 3], "data": data}
        asked = {"inputs": [points], "parameters": {"voxel_size": 1, "orders": "z,z-trans"}}
        reply = self.post("/v2/models/serialize/infer", json.dumps(asked).encode())
        self.assertEqual(reply.status, 200, reply)
        (code,) = [tensor for tensor in reply.json()["outputs"] if tensor["name"] == "serialized_code"]
        self.assertEqual((code["datatype"], code["shape"], tuple(code["data"])), ("INT64", [2, 4], CODES))

    def test_codes_of_58_bits_survive_json(self):
        """code = cloud << 48 | key. This is the largest key of depth 16, in the last of 1024 clouds."""
        counts = ",".join(["0"] * 1023 + ["2"])
        body = {"voxel_size": 1, "orders": "z", "depth": 16, "grid_origin": "0,0,0", "point_counts": counts}
        points = {"name": "points", "datatype": "FP32", "shape": [2, 3], "data": [0, 0, 0, 65535, 65535, 65535]}
        reply = self.post("/v2/models/serialize/infer", json.dumps({"inputs": [points], "parameters": body}).encode())
        self.assertEqual(reply.status, 200, reply)
        (code,) = [tensor for tensor in reply.json()["outputs"] if tensor["name"] == "serialized_code"]
        self.assertEqual(code["data"], [1023 << 48, (1 << 58) - 1])

    def test_what_cannot_be_is_refused_with_its_reason(self):
        for query, parameter, reason in (
            ("num_features=3", "voxel_size", "voxel_size is missing"),
            ("voxel_size=0", "voxel_size", "above 0"),
            ("voxel_size=1&orders=z,z", "orders", "a list of z, z-trans, hilbert, hilbert-trans"),
            ("voxel_size=1&depth=17", "depth", "from 1 to 16"),
            ("voxel_size=1&strides=2,3", "strides", "strides has 3; allowed: powers of two, from 1 to 65536"),
            ("voxel_size=1&strides=2,2,2,2,2,2,2,2,2", "strides", "1 to 8"),
            ("voxel_size=1&grid_origin=2e6,0,0", "grid_origin", "over 1048575 cells"),
            ("voxel_size=1&outputs=pool_cluster", "outputs", "outputs names pool_cluster, which needs strides"),
        ):
            with self.subTest(query):
                self.problem(self.serialize(query), 400, "bad-parameter", parameter=parameter, reason=reason)
        far = self.serialize("num_features=3&voxel_size=1", floats(0, 0, 0, 65535, 0, 0))
        reason = "grid_coord reaches 65535, which needs the depth 17; allowed: up to 16"
        self.problem(far, 422, "impossible", reason=reason)


if __name__ == "__main__":
    unittest.main()
