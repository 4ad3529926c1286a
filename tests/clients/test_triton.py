"""Triton's own Python client, from PyPI, against the service."""

import base64
import os
import sys
import unittest
import urllib.parse

import numpy as np
from safetensors.numpy import save

import check
import fake_cuda
import voxeld
from daemon import OneDaemonCase
from rude_server import url_of

try:
    import tritonclient.http as triton
    import tritonclient.utils.shared_memory as shm
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

PRESET = "kitti_second"
HEAD = {"point_cloud_range": "0,-8,-3,8,8,1", "anchor_sizes": "4,2,1.5", "anchor_bottoms": "-1"}
CENTER_HEAD = {"point_cloud_range": "0,-8,-3,8,8,1", "voxel_size": "0.2,0.2,4", "feature_map_stride": "4"}


def random_points(count=3000, kind="<f4"):
    return np.random.default_rng(1).uniform((0, -40, -3, 0), (70, 40, 1, 1), (count, 4)).astype(kind)


def given(name, values, datatype, **options):
    sent = triton.InferInput(name, list(values.shape), datatype)
    sent.set_data_from_numpy(values, **options)
    return sent


class Triton(OneDaemonCase):
    ARGS = ("--workers", "2", "--allow-shared-memory")

    def setUp(self):
        self.client = triton.InferenceServerClient(url_of(self.daemon).removeprefix("http://"))
        self.addCleanup(self.client.close)
        plain = voxeld.Client(url_of(self.daemon))
        self.addCleanup(plain.close)
        self.plain = lambda points, **query: plain.voxelize(points, preset=PRESET, **query)

    def same(self, result, expected):
        for name, tensor in expected.tensors.items():
            answered = result.as_numpy(name)
            self.assertEqual((answered.dtype, answered.shape), (tensor.dtype, tensor.shape), name)
            self.assertEqual(answered.tobytes(), tensor.tobytes(), name)

    def test_health(self):
        self.assertTrue(self.client.is_server_live() and self.client.is_server_ready())
        self.assertTrue(self.client.is_model_ready(PRESET) and self.client.is_model_ready("fps", "1"))
        self.assertFalse(self.client.is_model_ready("nothing") or self.client.is_model_ready("fps", "2"))

    def test_what_the_server_tells_of_itself(self):
        server = self.client.get_server_metadata()
        self.assertEqual(server["name"], "voxeld")
        self.assertLessEqual({"binary_tensor_data", "system_shared_memory"}, set(server["extensions"]))
        index = self.client.get_model_repository_index()
        self.assertEqual({(model["version"], model["state"]) for model in index}, {("1", "READY")})
        self.assertLessEqual(
            {"voxelize", "fps", "transform", "nms", "decode", PRESET, PRESET + "_decode", PRESET + "_nms"},
            {model["name"] for model in index},
        )

    def test_every_answer_is_as_the_metadata_says(self):
        def fits(output, described):
            lengths = zip(output["shape"], described["shape"])
            return len(output["shape"]) == len(described["shape"]) and all(d in (-1, s) for s, d in lengths)

        asked = {
            "voxelize": {"point_cloud_range": "0,-40,-3,70,40,1", "voxel_size": "1,1,1"},
            "fps": {"num_samples": 7},
            "decode": HEAD,
            "decode_center": CENTER_HEAD,
            "scatter": {"grid_size": "4,4,2", "batch_size": 2},
            "serialize": {"voxel_size": "1"},
            "range_image": {"height": 8, "width": 16, "fov_up": 60, "fov_down": -60},
        }
        sizes = {  # the length for each dimension -1 of the inputs; the key is the model or the end of its name
            "nms": (60, 60),
            "decode": (1, 5, 4, 2, 1, 5, 4, 14, 1, 5, 4, 4),
            "decode_center": (1, 5, 4, 2, 1, 5, 4, 2, 1, 5, 4, 1, 1, 5, 4, 3, 1, 5, 4, 2),
            "scatter": (9, 3, 9),
            "_nms": (60, 60),
            "_decode": (1, 5, 4) * 2,
            "_decode_center": (1, 5, 4) * 5,
        }

        def sizes_of(model, columns):
            ends = (end for end in sizes if end.startswith("_") and model.endswith(end))
            return sizes.get(model) or sizes.get(next(ends, None)) or ((20, 4) if columns < 0 else (20,))

        for model in (entry["name"] for entry in self.client.get_model_repository_index()):
            with self.subTest(model):
                metadata = self.client.get_model_metadata(model)
                config = self.client.get_model_config(model, "1")
                self.assertEqual((metadata["name"], config["name"], config["max_batch_size"]), (model, model, 0))
                for described, configured in (("inputs", "input"), ("outputs", "output")):
                    self.assertEqual(
                        [(t["name"], "TYPE_" + t["datatype"], t["shape"]) for t in metadata[described]],
                        [(t["name"], t["data_type"], t["dims"]) for t in config[configured]],
                    )
                lengths = iter(sizes_of(model, metadata["inputs"][0]["shape"][1]))
                inputs = []
                for told, configured in zip(metadata["inputs"], config["input"]):
                    if not configured.get("optional"):
                        shape = [next(lengths) if length < 0 else length for length in told["shape"]]
                        kind = "<i4" if told["datatype"] == "INT32" else "<f4"
                        inputs.append(given(told["name"], np.ones(shape, kind), told["datatype"]))
                answer = self.client.infer(model, inputs, parameters=asked.get(model)).get_response()
                self.assertEqual([o["name"] for o in answer["outputs"]], [o["name"] for o in metadata["outputs"]])
                for output, described in zip(answer["outputs"], metadata["outputs"]):
                    self.assertEqual(output["datatype"], described["datatype"])
                    self.assertTrue(fits(output, described), (output, described))

    def statistics(self, model):
        (told,) = self.client.get_inference_statistics(model)["model_stats"]
        return told["inference_stats"]

    def test_statistics(self):
        model = "nuscenes_pointpillar"
        points = np.ones((50, 5), "<f4")
        before = self.statistics(model)
        for _ in range(3):
            self.client.infer(model, [given("points", points, "FP32")])
        with self.assertRaises(triton.InferenceServerException):
            self.client.infer(model, [given("points", points[:, :4], "FP32")])
        after = self.statistics(model)
        grown = {name: after[name]["count"] - before[name]["count"] for name in after}
        parts = ("success", "queue", "compute_input", "compute_infer", "compute_output")
        self.assertEqual(grown, {**dict.fromkeys(parts, 3), "fail": 1, "cache_hit": 0, "cache_miss": 0})
        spent = {name: after[name]["ns"] - before[name]["ns"] for name in after}
        self.assertGreater(spent["compute_infer"], 0)
        self.assertGreaterEqual(spent["success"], sum(spent[part] for part in parts[1:]))
        everything = self.client.get_inference_statistics()["model_stats"]
        self.assertEqual([told["inference_stats"] for told in everything if told["name"] == model], [after])

    def test_models_are_not_loaded(self):
        for change in (self.client.load_model, self.client.unload_model):
            with self.assertRaises(triton.InferenceServerException) as caught:
                change(PRESET)
            self.assertEqual(caught.exception.status(), "501")
            self.assertIn("SIGHUP", caught.exception.message())
        for ask in (self.client.get_model_metadata, self.client.get_model_config, self.client.get_inference_statistics):
            with self.assertRaises(triton.InferenceServerException) as caught:
                ask("nothing")
            self.assertEqual(caught.exception.status(), "404")
            self.assertIn("there is no model 'nothing'", caught.exception.message())

    def test_the_tensors_of_the_plain_request(self):
        for count in (3000, 1, 0):
            points = random_points(count)
            expected = self.plain(points)
            for options in (
                {},
                {"request_compression_algorithm": "gzip"},
                {"request_compression_algorithm": "deflate"},
            ):
                for answer in (None, "gzip", "deflate"):
                    result = self.client.infer(
                        PRESET, [given("points", points, "FP32")], response_compression_algorithm=answer, **options
                    )
                    self.same(result, expected)

    def test_what_an_answer_tells(self):
        points = random_points()
        result = self.client.infer(PRESET, [given("points", points, "FP32")], request_id="frame 7")
        answer = result.get_response()
        self.assertEqual((answer["model_name"], answer["model_version"], answer["id"]), (PRESET, "1", "frame 7"))
        self.assertEqual(answer["parameters"]["points_received"], len(points))
        self.assertGreater(answer["parameters"]["total_us"], 0)
        self.assertNotIn("id", self.client.infer(PRESET, [given("points", points, "FP32")]).get_response())

    def test_outputs_as_json_and_as_bytes(self):
        points = random_points()
        expected = self.plain(points)
        outputs = [
            triton.InferRequestedOutput("voxel_features", binary_data=False),
            triton.InferRequestedOutput("voxel_coords", binary_data=True),
        ]
        result = self.client.infer(PRESET, [given("points", points, "FP32", binary_data=False)], outputs=outputs)
        self.assertEqual({o["name"] for o in result.get_response()["outputs"]}, {"voxel_features", "voxel_coords"})
        for name in ("voxel_features", "voxel_coords"):
            self.assertEqual(result.as_numpy(name).tobytes(), expected[name].tobytes())

    def test_clouds_half_precision_parameters_and_a_timeout(self):
        points = random_points(kind="<f2")
        inputs = [
            given("point_counts", np.array([1000, 2000], np.int32), "INT32"),
            given("points", points, "FP16"),
        ]
        result = self.client.infer(
            PRESET, inputs, parameters={"max_voxels": 500, "feature_dtype": "float16"}, timeout=5_000_000
        )
        self.same(result, self.plain(points, max_voxels=500, feature_dtype="float16", point_counts=[1000, 2000]))

    def test_operations_on_boxes(self):
        """These operations have several input tensors, found by name."""
        rng = np.random.default_rng(2)
        boxes = np.concatenate((rng.uniform(-9, 9, (60, 3)), rng.uniform(1, 4, (60, 4))), 1).astype("<f4")
        nms = {"boxes": boxes, "scores": rng.random(60).astype("<f4"), "labels": rng.integers(0, 3, 60).astype("<i4")}
        maps = {
            "cls_preds": rng.normal(0, 2, (5, 4, 6)).astype("<f2"),
            "box_preds": rng.normal(0, 0.3, (5, 4, 14)).astype("<f4"),
        }
        for model, tensors, parameters in (
            ("nms", nms, {"class_agnostic": "no", "box_counts": "40,20"}),
            ("decode", maps, HEAD),
        ):
            query = urllib.parse.urlencode(parameters, safe=",")
            plain = self.daemon.post(
                f"/v1/{model}?{query}", save(tensors), {"Content-Type": "application/vnd.safetensors"}
            )
            expected, _ = check.parse_by_hand(plain.body)
            for binary in (True, False):
                kinds = {"f": "FP32", "i": "INT32"}
                inputs = [
                    given(
                        name,
                        array,
                        "FP16" if array.dtype == "<f2" else kinds[array.dtype.kind],
                        binary_data=binary or array.dtype == "<f2",
                    )
                    for name, array in tensors.items()
                ]
                result = self.client.infer(model, inputs[::-1], parameters=parameters)
                for name, tensor in expected.items():
                    self.assertEqual(result.as_numpy(name).tobytes(), tensor.tobytes(), (model, name))
            with self.assertRaises(triton.InferenceServerException) as caught:
                self.client.infer(model, inputs[:1], parameters=parameters)
            self.assertIn("is missing", caught.exception.message())

    def test_the_heads_of_presets(self):
        """The head is a model with the preset's parameters. The model says how many channels its maps have."""
        rng = np.random.default_rng(3)
        for preset, operation in (
            ("kitti_pointpillar", "decode"),
            ("waymo_pointpillar", "decode"),
            ("nuscenes_pointpillar", "decode"),
            ("nuscenes_centerpoint_voxel01", "decode_center"),
        ):
            model = f"{preset}_{operation}"
            told = self.client.get_model_metadata(model)["inputs"]
            self.assertTrue(all(tensor["shape"][:3] == [-1] * 3 and tensor["shape"][3] > 0 for tensor in told))
            maps = {t["name"]: rng.normal(-1, 1, (2, 6, 5, t["shape"][3])).astype("<f4") for t in told}
            plain = self.daemon.post(
                f"/v1/decode?preset={preset}", save(maps), {"Content-Type": "application/vnd.safetensors"}
            )
            expected, _ = check.parse_by_hand(plain.body)
            self.assertGreater(len(expected["boxes"]), 0)
            result = self.client.infer(model, [given(name, values, "FP32") for name, values in maps.items()])
            for name, tensor in expected.items():
                self.assertEqual(result.as_numpy(name).tobytes(), tensor.tobytes(), (model, name))
            told[0]["shape"][3] += 1
            wrong = given(told[0]["name"], np.zeros((6, 5, told[0]["shape"][3]), "<f4"), "FP32")
            others = [given(name, values[0], "FP32") for name, values in list(maps.items())[1:]]
            with self.assertRaises(triton.InferenceServerException) as caught:
                self.client.infer(model, [wrong, *others])
            self.assertIn(told[0]["name"], caught.exception.message())

    def test_bodies_made_by_hand(self):
        points = random_points()
        body, length = triton.InferenceServerClient.generate_request_body([given("points", points, "FP32")])
        reply = self.daemon.post(f"/v2/models/{PRESET}/infer", body, {"Inference-Header-Content-Length": str(length)})
        result = triton.InferenceServerClient.parse_response_body(
            reply.body, header_length=int(reply.headers["Inference-Header-Content-Length"])
        )
        self.same(result, self.plain(points))

    def test_errors_are_shown(self):
        points = given("points", random_points(), "FP32")
        for model, options, status, text in (
            ("nothing", {}, "404", "there is no model 'nothing'"),
            (PRESET, {"parameters": {"max_voxels": 0}}, "400", "max_voxels is '0'; allowed: a whole number"),
            ("fps", {"parameters": {"num_samples": 3001}}, "400", "fewer than the 3001 samples requested"),
        ):
            with self.assertRaises(triton.InferenceServerException) as caught:
                self.client.infer(model, [points], **options)
            self.assertEqual(caught.exception.status(), status)
            self.assertIn(text, caught.exception.message())

    def test_many_at_once(self):
        points = random_points()
        expected = self.plain(points)
        client = triton.InferenceServerClient(url_of(self.daemon).removeprefix("http://"), concurrency=8)
        self.addCleanup(client.close)
        for waiting in [client.async_infer(PRESET, [given("points", points, "FP32")]) for _ in range(40)]:
            self.same(waiting.get_result(), expected)

    def memory(self, name, size):
        key = f"/voxeld-triton-{os.getpid()}-{name}"
        handle = shm.create_shared_memory_region(name, key, size)
        self.addCleanup(shm.destroy_shared_memory_region, handle)
        self.addCleanup(self.client.unregister_system_shared_memory, name)
        self.client.register_system_shared_memory(name, key, size)
        return handle

    def test_shared_memory(self):
        points = random_points()
        counts = np.array([1000, 2000], np.int32)
        expected = self.plain(points, point_counts=[1000, 2000])
        self.client.unregister_system_shared_memory()
        self.client.unregister_cuda_shared_memory()
        given_here, answers = self.memory("in", points.nbytes + counts.nbytes), self.memory("out", 1 << 20)
        shm.set_shared_memory_region(given_here, [points, counts])
        listed = self.client.get_system_shared_memory_status()
        self.assertEqual({region["name"]: region["byte_size"] for region in listed}, {"in": 48008, "out": 1 << 20})
        inputs = [
            triton.InferInput("points", list(points.shape), "FP32"),
            triton.InferInput("point_counts", [2], "INT32"),
        ]
        inputs[0].set_shared_memory("in", points.nbytes)
        inputs[1].set_shared_memory("in", counts.nbytes, offset=points.nbytes)
        outputs = [triton.InferRequestedOutput(name) for name in expected]
        for number, output in enumerate(outputs[:-1]):
            output.set_shared_memory("out", 1 << 17, offset=number << 17)
        result = self.client.infer(PRESET, inputs, outputs=outputs)
        for number, (name, tensor) in enumerate(list(expected.items())[:-1]):
            shape = result.get_output(name)["shape"]
            answered = shm.get_contents_as_numpy(answers, tensor.dtype, shape, offset=number << 17)
            self.assertEqual((answered.shape, answered.tobytes()), (tensor.shape, tensor.tobytes()), name)
            del answered
        last = list(expected)[-1]
        self.assertEqual(result.as_numpy(last).tobytes(), expected[last].tobytes())  # by the socket

    def test_gpu_memory(self):
        """There is no GPU: fake_cuda's bridge uses a file as the memory that the client hands over."""
        points = random_points()
        expected = self.plain(points)
        with fake_cuda.installed() as library:
            bridge = fake_cuda.Bridge(self.daemon)
            self.addCleanup(bridge.close)
            block = library.allocate(1 << 20)
            client = triton.InferenceServerClient(bridge.url.removeprefix("http://"))
            self.addCleanup(client.close)
            client.unregister_cuda_shared_memory()
            client.register_cuda_shared_memory("gpu", base64.b64encode(block.handle()), 0, block.size)
            self.assertEqual(bridge.registered, {"gpu": block.name})
            block.memory[: points.nbytes] = points.tobytes()
            sent = triton.InferInput("points", list(points.shape), "FP32")
            sent.set_shared_memory("gpu", points.nbytes)
            outputs = [triton.InferRequestedOutput(name) for name in expected]
            for number, output in enumerate(outputs, 1):
                output.set_shared_memory("gpu", 1 << 17, offset=number << 17)
            result = client.infer(PRESET, [sent], outputs=outputs)
            for number, (name, tensor) in enumerate(expected.items(), 1):
                self.assertEqual(tuple(result.get_output(name)["shape"]), tensor.shape)
                at = number << 17
                self.assertEqual(block.memory[at : at + tensor.nbytes], tensor.tobytes(), name)
            client.unregister_cuda_shared_memory("gpu")

    def test_shared_memory_that_is_refused(self):
        self.memory("in", 16)
        points = triton.InferInput("points", [1, 4], "FP32")
        for region, size, text in (("in", 32, "32 bytes; its shape has 16"), ("other", 16, "no region 'other'")):
            points.set_shared_memory(region, size)
            with self.assertRaises(triton.InferenceServerException) as caught:
                self.client.infer(PRESET, [points])
            self.assertIn(text, caught.exception.message())
        with self.assertRaises(triton.InferenceServerException) as caught:
            self.client.register_cuda_shared_memory("gpu", b"", 0, 16)
        self.assertEqual((caught.exception.status(), self.client.get_cuda_shared_memory_status()), ("501", []))


if __name__ == "__main__":
    unittest.main()
