"""The KServe v2 protocol: pages, and inference requests in JSON."""

import json
import pathlib
import tempfile
import unittest

from client import Raw
from http_case import CHUNKED, SharedDaemonCase, floats, message, run_voxeld

INDEX = "/v2/repository/index"
RAW = "Inference-Header-Content-Length: 0"
READY = b'{"ready":true}'
OPERATIONS = ["voxelize", "fps", "points", "transform", "nms", "decode", "scatter", "decode_center", "serialize"]


class KServe(SharedDaemonCase):
    def refused(self, reply, status, kind):
        """Checks an error of KServe's form. Returns its text."""
        self.assertEqual((reply.status, reply.headers["Content-Type"]), (status, "application/json"), reply)
        problem = reply.json()
        self.assertEqual(problem["type"], f"urn:voxeld:problem:{kind}")
        self.assertTrue(problem["error"])
        return problem["error"]

    def inputs(self, model):
        return [(each["name"], each["datatype"], each["shape"]) for each in model["inputs"]]

    def stats(self, name):
        return self.json(self.ask(f"/v2/models/{name}/stats"))["model_stats"][0]

    def test_the_probes_answer_json(self):
        for probe in ("live", "ready"):
            with self.subTest(probe):
                reply = self.ok(self.ask(f"/v2/health/{probe}"))
                self.assertEqual(reply.headers["Content-Type"], "application/json")
                self.assertIs(reply.json()[probe], True)

    def test_each_operation_and_each_preset_is_a_model_with_one_version(self):
        model = self.json(self.ask("/v2/models/voxelize/ready"))
        self.assertEqual((model["name"], model["ready"]), ("voxelize", True))
        model = self.json(self.ask("/v2/models/kitti_second/versions/1/ready"))
        self.assertEqual(model["name"], "kitti_second")
        self.assertEqual(self.ask("/v2/models/kitti_second/versions/2/ready").status, 404)
        reply = self.ask("/v2/models/nothing/ready")
        self.assertEqual(reply.status, 404)
        self.assertIn("nothing", reply.json()["error"])

    def test_the_index_lists_the_models_with_a_body_or_without(self):
        models = self.json(self.ask(INDEX, method="POST"))
        self.assertEqual([model["name"] for model in models][: len(OPERATIONS)], OPERATIONS)
        self.assertEqual({model["state"] for model in models}, {"READY"})
        self.assertIn("kitti_second", [model["name"] for model in models])
        models = self.json(self.post(INDEX, READY))
        self.assertGreater(len(models), 3)
        self.assertEqual((models[0]["version"], models[0]["reason"]), ("1", ""))
        self.ok(self.post(INDEX, READY, CHUNKED))

    def test_a_posts_body_for_a_page_is_bounded_and_the_connection_kept(self):
        with Raw(self.daemon) as connection:
            for lines in ((), (CHUNKED,)):
                connection.send(message(INDEX, *lines, method="POST", body=bytes(16385)))
                self.refused(connection.read_final(), 413, "body-too-large")
            self.ok(connection.send(message(INDEX, method="POST", body=b"{}".rjust(16384))).read_final())

    def test_a_wrong_body_of_the_index_is_refused(self):
        for body in (b"x", b"[]", b'{"ready":1}', b'{"ready":true,"ready":true}', b"{}{}"):
            with self.subTest(body):
                self.refused(self.post(INDEX, body), 400, "bad-body")

    def test_v2_tells_name_version_and_extensions(self):
        service = self.json(self.ask("/v2"))
        self.assertEqual((service["name"], type(service["extensions"])), ("voxeld", list))
        self.assertEqual(f"voxeld {service['version']}\n", run_voxeld("--version").output)
        self.assertNotIn("system_shared_memory", service["extensions"])

    def test_v2_lists_shared_memory_if_it_is_allowed(self):
        self.start("--allow-shared-memory", "yes")
        self.assertIn("system_shared_memory", self.json(self.ask("/v2"))["extensions"])

    def test_the_list_of_models_equals_the_index_and_has_no_duplicates(self):
        presets = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        sampling = {"description": "hidden by the operation", "operation": "fps", "parameters": {"num_samples": 7}}
        (presets / "fps.json").write_text(json.dumps(sampling), encoding="utf-8")
        sampling["description"] = "seven"
        sampling["parameters"] |= {"num_features": 5, "dtype": "float16"}
        (presets / "seven.json").write_text(json.dumps(sampling), encoding="utf-8")
        self.start("--presets-dir", str(presets))
        names = self.json(self.ask("/v2/models"))["models"]
        self.assertEqual(len(set(names)), len(names))
        self.assertIn("seven", names)
        self.assertEqual([model["name"] for model in self.json(self.ask(INDEX, method="POST"))], names)
        stats = self.json(self.ask("/v2/models/stats"))["model_stats"]
        self.assertEqual([model["name"] for model in stats], names)
        seven = self.json(self.ask("/v2/models/seven"))
        self.assertEqual(self.inputs(seven), [("points", "FP16", [-1, 5]), ("point_counts", "INT32", [-1])])
        self.assertEqual(self.json(self.ask("/v2/models/fps"))["inputs"][0]["shape"], [-1, -1])

    def test_a_models_metadata_and_config_have_its_inputs_and_default_outputs(self):
        model = self.json(self.ask("/v2/models/kitti_pointpillar"))
        own = (model["name"], model["versions"], model["platform"])
        self.assertEqual(own, ("kitti_pointpillar", ["1"], "voxeld"))
        self.assertEqual(self.inputs(model), [("points", "FP32", [-1, 4]), ("point_counts", "INT32", [-1])])
        outputs = [(each["name"], each["datatype"], each["shape"]) for each in model["outputs"]]
        counted = [("voxel_coords", "INT32", [-1, 4]), ("voxel_num_points", "INT32", [-1])]
        self.assertEqual(outputs, [*counted, ("pillar_features", "FP32", [-1, 32, 10])])
        config = self.json(self.ask("/v2/models/kitti_pointpillar/versions/1/config"))
        self.assertEqual((config["name"], config["max_batch_size"]), ("kitti_pointpillar", 0))
        self.assertEqual([each.get("optional") for each in config["input"]], [None, True])
        described = [(each["name"], each["data_type"], each["dims"]) for each in config["input"] + config["output"]]
        self.assertEqual(described[0], ("points", "TYPE_FP32", [-1, 4]))
        self.assertEqual(described[4:], [("pillar_features", "TYPE_FP32", [-1, 32, 10])])
        for path in ("", "/config", "/stats", "/ready"):
            with self.subTest(path):
                reply = self.ask(f"/v2/models/nothing{path}")
                self.assertIn("nothing", self.refused(reply, 404, "not-found"))

    def test_statistics_count_what_a_model_answered_and_refused(self):
        two = floats(1, 2, 0, 0.5, 3, 4, 0, 0.25)
        model = self.stats("waymo_pointpillar")
        self.assertEqual((model["name"], model["version"]), ("waymo_pointpillar", "1"))
        self.assertEqual((model["inference_count"], model["last_inference"]), (0, 0))
        for _ in range(3):
            self.assertEqual(self.post("/v2/models/fps/infer", two, RAW).status, 400)  # num_samples is missing
            self.ok(self.post("/v2/models/kitti_second/versions/1/infer", two, RAW))
        model = self.stats("kitti_second")
        inferences = model["inference_stats"]
        stages = ("success", "queue", "compute_input", "compute_infer", "compute_output")
        expected = {**dict.fromkeys(stages, 3), "fail": 0, "cache_hit": 0, "cache_miss": 0}
        self.assertEqual({stage: each["count"] for stage, each in inferences.items()}, expected)
        self.assertEqual((model["inference_count"], model["execution_count"]), (3, 3))
        taken = inferences["queue"]["ns"] + inferences["compute_infer"]["ns"]
        self.assertGreater(inferences["success"]["ns"], taken)
        self.assertGreater(taken, 0)
        models = {model["name"]: model for model in self.json(self.ask("/v2/models/stats"))["model_stats"]}
        self.assertEqual(models["fps"]["inference_stats"]["fail"]["count"], 3)
        self.assertGreater(models["kitti_second"]["last_inference"], 0)

    def infer(self, data, *lines, shape=(2, 4)):
        sent = {"name": "points", "shape": shape, "datatype": "FP32", "data": data}
        return self.post("/v2/models/kitti_pointpillar/infer", json.dumps({"inputs": [sent]}).encode(), *lines)

    def test_an_answer_has_a_coding_that_the_protocols_clients_decode(self):
        data = [value for i in range(200) for value in (i % 60, i % 20, 0, 0.5)]
        unasked = "gzip, deflate, br, zstd"
        for accept, coding in ((unasked, "gzip"), ("zstd, deflate", None), ("zstd", "zstd"), ("gzip", "gzip")):
            with self.subTest(accept):
                reply = self.ok(self.infer(data, f"Accept-Encoding: {accept}", shape=(200, 4)))
                self.assertEqual(reply.headers.get("Content-Encoding"), coding)
        reply = self.post("/v1/voxelize?preset=kitti_second", floats(*data), f"Accept-Encoding: {unasked}")
        self.assertEqual(self.ok(reply).headers["Content-Encoding"], "zstd")

    def test_null_is_nan(self):
        for data in ([1, 2, 0, 0.5, 3, None, 0, 0.5], [[1, 2, 0, 0.5], [3, None, 0, 0.5]]):
            parameters = self.json(self.infer(data))["parameters"]
            self.assertEqual((parameters["points_kept"], parameters["points_not_finite"]), (1, 1))

    def test_coordinates_that_float32_does_not_have_get_a_warning(self):
        near, far = [1.1, 2.2, 0, 0.5], [1, 4320978.61, 0, 0.5]
        time = [1.1, 2.2, 0, 1700000000.123]  # the large value is not a coordinate
        lost = ["rounded"]
        for data, kinds in (([near, far], lost), (near + far, lost), ([near, time], []), (near + time, [])):
            inputs = [{"name": "points", "shape": [2, 4], "datatype": "FP32", "data": data}]
            reply = self.post("/v2/models/transform/infer", json.dumps({"inputs": inputs}).encode())
            metadata = json.loads(self.json(reply)["parameters"]["metadata"])
            self.assertEqual([warning["kind"] for warning in metadata["warnings"]], kinds)

    def test_lists_are_flat_or_nested_as_the_shape(self):
        for data in ([[1, 2, 0], [4, 5, 6, 0, 8]], [[1, 2], [3, 4], [5, 6], [7, 8]], [[1, 2, 3, 4], 5, 6, 7, 8]):
            self.assertIn("nested exactly as its shape", self.refused(self.infer(data), 400, "bad-body"))

    def test_models_are_not_loaded_or_unloaded_by_request(self):
        for verb in ("load", "unload"):
            with self.subTest(verb):
                reply = self.ask(f"/v2/repository/models/kitti_second/{verb}", method="POST")
                self.assertIn("SIGHUP", self.refused(reply, 501, "unsupported"))

    def test_under_v2_a_refusal_has_error_beside_the_members_of_a_problem(self):
        reply = self.ask("/v2/nowhere")
        error = self.refused(reply, 404, "not-found")
        self.assertEqual((reply.json()["detail"], reply.json()["status"]), (error, 404))
        reply = self.ask(INDEX)
        self.assertIn("POST", self.refused(reply, 405, "method-not-allowed"))
        self.assertEqual(reply.headers["Allow"], "POST")
        reply = self.ask("/v1/nowhere")
        self.assertEqual(reply.headers["Content-Type"], "application/problem+json")
        self.assertNotIn("error", reply.json())


if __name__ == "__main__":
    unittest.main()
