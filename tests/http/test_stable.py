"""metadata=stable: equal requests give equal files, with any number of threads and any ids."""

import json
import unittest

from client import tensor_file
from daemon import Daemon
from http_case import KITTI, HttpCase, ask, floats, scan
from shared import Memory

SCAN = scan("--points", "20000")
FEW = SCAN[:160]
BOXES = tensor_file(boxes=([2, 7], floats(*[0, 0, 0, 4, 2, 1, 0.5] * 2)), scores=([2], floats(0.5, 0.75)))
FEATURES = tensor_file(features=([1, 2], floats(1, 2)), voxel_coords=([1, 4], bytes(16), "I32"))
MAPS = tensor_file(cls_preds=([1, 1, 1], bytes(4)), box_preds=([1, 1, 7], bytes(28)))
HEAD = {"heatmap": 1, "center": 2, "height": 1, "dim": 3, "rot": 2}
CENTER = tensor_file(**{name: ([1, 1, channels], bytes(4 * channels)) for name, channels in HEAD.items()})
AREA = "point_cloud_range=0,0,0,4,4,4"
REQUESTS = (
    (KITTI, SCAN),
    ("/v1/fps?num_samples=100", SCAN),
    ("/v1/points?steps=transform&transform.distance=1,60", SCAN),
    ("/v1/transform?crop=-20,-20,-3,20,20,3&point_counts=10000,10000", SCAN),
    ("/v1/nms?iou_threshold=0.3", BOXES),
    (f"/v1/decode?{AREA}&anchor_sizes=4,2,1&anchor_bottoms=0&anchor_rotations=0", MAPS),
    (f"/v1/decode?head=center&{AREA}&voxel_size=1,1,1&feature_map_stride=1", CENTER),
    ("/v1/scatter?grid_size=2,2,1", FEATURES),
)
KINDS = (
    "application/vnd.safetensors",
    "application/json",
    "application/x-npz",
    "application/x-mcap",
    "application/x-shuffled-safetensors",
)
UNSTABLE = (b"request_id", b"trace_id", b"backend", b"device", b"timing_us", b'_us"')
TRACE = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Stable(HttpCase):
    def answers(self, *options):
        """{(path, kind): answer} of a daemon."""
        answers = {}
        with Daemon("--backend", "cpu", *options) as daemon:
            for number, (path, body) in enumerate(REQUESTS):
                for kind in KINDS:
                    own = (f"Accept: {kind}", f"X-Request-Id: {options[-1]}-{number}", TRACE)
                    reply = self.ok(ask(daemon, f"{path}&metadata=stable", *own, method="POST", body=body))
                    answers[path, kind] = reply.body
        return answers

    def test_equal_requests_give_equal_files(self):
        first = self.answers("--small-job-points", "0", "--workers", "1")
        for other in (self.answers("--workers", "2", "--long-workers", "2"), self.answers("--workers", "1")):
            for which, body in first.items():
                with self.subTest(which):
                    self.assertEqual(body, other[which])
                    for name in UNSTABLE:
                        self.assertNotIn(name, body)

    def test_equal_requests_of_inference_give_equal_bodies(self):
        inputs = [{"name": "points", "datatype": "FP32", "shape": [1, 4], "data": [1.0, 2, 3, 4]}]
        for binary in (False, True):
            parameters = {"metadata": "stable", "binary_data_output": binary}
            body = json.dumps({"inputs": inputs, "parameters": parameters}).encode()
            replies = []
            for workers in ("1", "2"):
                self.start("--workers", workers)
                replies.append(self.ok(self.post("/v2/models/kitti_second/infer", body)).body)
            self.assertEqual(*replies)
            for name in UNSTABLE:
                self.assertNotIn(name, replies[0])

    def test_shared_memory_gives_the_file_of_the_socket(self):
        self.start("--allow-shared-memory", "yes")
        path = f"{KITTI}&metadata=stable"
        kinds = [f"Accept: {kind}" for kind in ("*/*", "application/x-shuffled-safetensors")]
        plain = [self.ok(self.post(path, FEW, kind)).body for kind in kinds]
        self.assertNotEqual(*plain)
        with Memory(1 << 20) as memory:
            memory.write(FEW)
            self.assertEqual(memory.register(self.daemon, "any").status, 200)
            path += f"&points_region=any,0,{len(FEW)}&output_region=any,4096,{(1 << 20) - 4096}"
            for kind, file in zip(kinds, plain):
                told = self.json(self.post(path, b"", kind))
                self.assertEqual(memory.read(told["output_region"]["bytes"], 4096), file)
                self.assertNotIn("request_id", told["metadata"])

    def test_without_it_files_have_their_own_ids(self):
        self.start()
        first, second = (self.tensors(self.post(f"{KITTI}{more}", FEW)).metadata for more in ("", "&metadata=full"))
        self.assertNotEqual(first["request_id"], second["request_id"])
        for name in ("backend", "device", "timing_us"):
            self.assertIn(name, first)


if __name__ == "__main__":
    unittest.main()
