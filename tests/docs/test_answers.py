"""Answers of a daemon conform to the schemas in api/openapi.yaml and have no other members."""

import math
import struct
import tempfile
import unittest

import yaml

import models
from client import tensor_file
from daemon import ROOT, OneDaemonCase
from shared import Memory
from tables import describe, path_of

OPENAPI = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text(encoding="utf-8"))
SCHEMAS = OPENAPI["components"]["schemas"]
TYPES = {"string": str, "integer": int, "number": (int, float), "object": dict, "array": list, "boolean": bool}
QUERY = "/v1/voxelize?point_cloud_range=0,0,0,4,4,4&voxel_size=1,1,1"
FPS = "/v1/fps?num_samples=1"
TRANSFORM = "/v1/transform?crop=-1,-1,-1,1,1,1"
DECODE = "/v1/decode?point_cloud_range=0,0,0,4,4,4&anchor_sizes=4,2,1&anchor_bottoms=0&anchor_rotations=0"
MAPS = tensor_file(cls_preds=((1, 1, 1), bytes(4)), box_preds=((1, 1, 7), bytes(28)))
SCATTER = "/v1/scatter?grid_size=2,2,1"
FEATURES = tensor_file(features=((1, 2), bytes(8)), voxel_coords=((1, 4), bytes(16), "I32"))
CENTER = "/v1/decode?head=center&point_cloud_range=0,0,0,4,4,4&voxel_size=1,1,1&feature_map_stride=1"
CENTER_MAPS = tensor_file(
    **{
        name: ((1, 1, channels), bytes(4 * channels))
        for name, channels in {"heatmap": 1, "center": 2, "height": 1, "dim": 3, "rot": 2}.items()
    }
)
SWEEP = "&stream=kitti_second&sweeps=2&time=1&pose=0,0,0,1,0,0,0"  # a stream may have the name of a preset
BOX = tensor_file(boxes=((1, 7), bytes(28)), scores=((1,), bytes(4)))


class Answers(OneDaemonCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        models.write(folder.name, "kitti_second", models.standin())  # a model may have the name of a preset
        models.write(folder.name, "broken", b"")
        library = ("--models-dir", folder.name, "--onnxruntime", models.STANDIN)
        cls.ARGS = ("--workers", "1", "--allow-shared-memory", *library)
        super().setUpClass()

    def conforms(self, value, schema, where):
        while "$ref" in schema:
            schema = SCHEMAS[schema["$ref"].rsplit("/", 1)[1]]
        with self.subTest(where):
            self.assertIsInstance(value, TYPES[schema["type"]])
            self.assertIn(value, schema.get("enum", [value]))
        if isinstance(value, list):
            for index, item in enumerate(value):
                self.conforms(item, schema["items"], f"{where}[{index}]")
        if isinstance(value, dict) and "properties" in schema:
            for name in set(schema.get("required", ())) - set(value):
                with self.subTest(f"{where}: required, not answered: {name}"):
                    self.fail()
            for name, item in value.items():
                with self.subTest(f"{where}: answered, not in openapi.yaml: {name}"):
                    self.assertTrue(name in schema["properties"] or "additionalProperties" in schema)
                others = schema.get("additionalProperties", {"type": "object"})
                self.conforms(item, schema["properties"].get(name, others), f"{where}.{name}")

    def test_status(self):
        self.conforms(self.daemon.status(), SCHEMAS["Status"], "Status")

    def test_status_counts_requests_by_outcome(self):
        self.daemon.await_accounts()
        before = self.daemon.status()["requests"]
        self.daemon.get("/nowhere")
        self.daemon.get("/healthz")
        grown = lambda key: self.daemon.status()["requests"][key] - before[key]
        self.daemon.await_accounts()
        self.assertEqual((grown("refused"), grown("aborted")), (1, 0))
        self.assertGreaterEqual(grown("answered"), 2)

    def test_presets(self):
        for preset in self.daemon.get("/v1/presets").json()["presets"]:
            self.conforms(preset, SCHEMAS["Preset"], f"Preset {preset['name']}")

    def test_metadata(self):
        for path, schema in (
            (QUERY, "Metadata"),
            (QUERY + "&fps=1", "Metadata"),
            (FPS, "FpsMetadata"),
            (TRANSFORM, "PointsMetadata"),
        ):
            reply = self.daemon.post(path, bytes(32), {"Accept": "application/json"})
            self.assertEqual(reply.status, 200, reply)
            self.conforms(reply.json(), SCHEMAS[schema], f"{schema} of {path}")
            self.assertEqual(reply.json()["warnings"], [])
            unstable = {"request_id", "backend", "device", "timing_us"}
            stable = self.daemon.post(f"{path}&metadata=stable", bytes(32), {"Accept": "application/json"}).json()
            self.conforms(stable, SCHEMAS[schema], f"stable {schema} of {path}")
            self.assertEqual(set(reply.json()) - set(stable), unstable)
        reply = self.daemon.post("/v1/nms", BOX, {"Accept": "application/json"})
        self.conforms(reply.json(), SCHEMAS["NmsMetadata"], "NmsMetadata")
        reply = self.daemon.post(DECODE, MAPS, {"Accept": "application/json"})
        self.conforms(reply.json(), SCHEMAS["DecodeMetadata"], "DecodeMetadata")
        reply = self.daemon.post(SCATTER, FEATURES, {"Accept": "application/json"})
        self.conforms(reply.json(), SCHEMAS["ScatterMetadata"], "ScatterMetadata")
        reply = self.daemon.post(CENTER, CENTER_MAPS, {"Accept": "application/json"})
        self.conforms(reply.json(), SCHEMAS["DecodeCenterMetadata"], "DecodeCenterMetadata")

    def test_streams(self):
        for path, schema in ((QUERY, "Metadata"), (FPS, "FpsMetadata"), (TRANSFORM, "PointsMetadata")):
            reply = self.daemon.post(path + SWEEP, bytes(32), {"Accept": "application/json"})
            self.assertEqual(reply.status, 200, reply)
            self.assertIn("stream", reply.json())
            self.conforms(reply.json(), SCHEMAS[schema], f"{schema} of a stream")
        self.conforms(self.daemon.get("/v1/streams/kitti_second").json(), SCHEMAS["Stream"], "Stream")
        (stream,) = self.daemon.get("/v1/streams").json()["streams"]
        self.conforms(stream, SCHEMAS["Stream"], "Stream of all")

    def test_detections(self):
        reply = self.daemon.post("/v1/detect?model=kitti_second", bytes(32), {"Accept": "application/json"})
        self.assertEqual(reply.status, 200, reply)
        self.conforms(reply.json(), SCHEMAS["DetectMetadata"], "DetectMetadata")
        # The body has 3 columns. The stream adds the time, the model's fourth.
        path = f"/v1/detect?model=kitti_second&time_column=yes{SWEEP}".replace("stream=kitti_second", "stream=detected")
        reply = self.daemon.post(path, bytes(24), {"Accept": "application/json"})
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(reply.json()["stream"]["sweeps"][0]["points"]["joined"], 2)
        self.conforms(reply.json(), SCHEMAS["DetectMetadata"], "DetectMetadata of a stream")
        self.assertEqual(self.daemon.request("DELETE", "/v1/streams/detected").status, 200)
        for model in self.daemon.get("/v1/models").json()["models"]:
            self.conforms(model, SCHEMAS["Model"], f"Model {model['name']}")

    def test_warnings(self):
        form = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
        for path, schema, values, kinds in (
            (QUERY, "Metadata", (9, 0, 0, 1), ["out_of_range"]),
            (QUERY + "&max_voxels=1", "Metadata", (1, 0, 0, 1, 2, 0, 0, 1), ["max_voxels"]),
            (TRANSFORM, "PointsMetadata", (9, 0, 0, 1), ["step_empty"]),
            ("/v1/fps?num_samples=0", "FpsMetadata", (math.nan, 0, 0, 1), ["not_finite"]),
            (TRANSFORM, "PointsMetadata", 400 * (0.1, 0.2, -0.3, 20, 70), ["num_features"]),
            # A body without NUL, CR and LF.
            (TRANSFORM, "PointsMetadata", 300 * (0.1, 0.2, -0.3, 0.7), ["stripped_body"]),
            (TRANSFORM, "PointsMetadata", struct.unpack("<4f", b"# .PCD v0.7\n# ok"), ["step_empty", "format"]),
        ):
            reply = self.daemon.post(path, struct.pack(f"<{len(values)}f", *values), form)
            self.assertEqual([warning["kind"] for warning in reply.json()["warnings"]], kinds)
            self.conforms(reply.json(), SCHEMAS[schema], f"{schema} with {kinds}")

    def test_problem(self):
        for path, body in (("/nowhere", b""), ("/v1/voxelize?max_voxels=0", b""), (QUERY, bytes(15)), (FPS, b"")):
            reply = self.daemon.post(path, body)
            self.assertGreaterEqual(reply.status, 400)
            self.conforms(reply.json(), SCHEMAS["Problem"], f"Problem of {path}")

    def test_every_get_answers_in_a_documented_media_type(self):
        with Memory(16) as memory:
            registered = memory.register(self.daemon, "kitti_second")
        self.assertEqual(registered.status, 200, registered)
        self.assertEqual(self.daemon.post(QUERY + SWEEP, bytes(32)).status, 200)
        for endpoint in describe()["endpoints"]:
            if endpoint["method"] != "GET":
                continue
            with self.subTest(endpoint["path"]):
                name = "style.css" if endpoint["path"] == "/ui/*" else "kitti_second"
                method = "HEAD" if endpoint["path"].endswith("/events") else "GET"  # a GET of events would not end
                reply = self.daemon.request(method, endpoint["path"].replace("*", name))
                if "cudasharedmemory/region" in endpoint["path"]:  # without a GPU there is no such region
                    self.assertEqual(reply.status, 404)
                    continue
                self.assertEqual(reply.status, 200)
                answer = OPENAPI["paths"][path_of(endpoint)]["get"]["responses"]["200"]
                if "$ref" in answer:
                    answer = OPENAPI["components"]["responses"][answer["$ref"].rpartition("/")[2]]
                self.assertIn(reply.headers.get_content_type(), answer["content"])
                if endpoint["path"].startswith("/v2/systemsharedmemory"):
                    self.conforms(reply.json(), SCHEMAS["Regions"], endpoint["path"])
                    self.assertEqual([region["byte_size"] for region in reply.json()], [16])

    def test_every_metric_is_described(self):
        described = {metric["name"]: metric["type"] for metric in describe()["metrics"]}
        lines = self.daemon.get("/metrics").body.decode().splitlines()
        shown = dict(line.split()[2:4] for line in lines if line.startswith("# TYPE "))
        self.assertEqual(shown, described)


if __name__ == "__main__":
    unittest.main()
