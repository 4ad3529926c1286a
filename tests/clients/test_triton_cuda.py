"""Memory that Triton's own tritonclient.utils.cuda_shared_memory makes, as input and output of an inference. The
requests are those of Triton's client, written by hand, since its HTTP client is not needed for the memory. Needs a GPU;
test_triton.py checks the client's own requests without one."""

import json
import sys
import unittest

import numpy as np

import check
from daemon import Daemon

try:
    import tritonclient.utils.cuda_shared_memory as cuda
except (ImportError, RuntimeError) as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
from pinned import has_gpu

PRESET = "kitti_second"
ROOM, PLACE = 1 << 22, 1 << 20
if not has_gpu():
    print("skipped: there is no GPU")
    sys.exit(77)


class TritonCuda(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(Daemon("--backend", "cuda", "--allow-cuda-shared-memory", "yes"))
        self.memory = cuda.create_shared_memory_region("gpu", ROOM, 0)
        self.addCleanup(cuda.destroy_shared_memory_region, self.memory)

    def ask(self, path, document=None):
        reply = self.daemon.post(path, None if document is None else json.dumps(document).encode())
        self.assertEqual(reply.status, 200, reply)
        return reply

    def test_an_inference(self):
        points = np.random.default_rng(1).uniform(-9, 9, (3000, 4)).astype("<f4")
        handle = cuda.get_raw_handle(self.memory).decode()
        self.ask("/v2/cudasharedmemory/unregister")
        self.ask(
            "/v2/cudasharedmemory/region/gpu/register",
            {"raw_handle": {"b64": handle}, "device_id": 0, "byte_size": ROOM},
        )
        listed = self.daemon.get("/v2/cudasharedmemory/status").json()
        self.assertEqual([(one["name"], one["device_id"], one["byte_size"]) for one in listed], [("gpu", 0, ROOM)])
        cuda.set_shared_memory_region(self.memory, [points])
        expected, _ = check.parse_by_hand(self.daemon.post(f"/v1/voxelize?preset={PRESET}", points.tobytes()).body)
        part = lambda offset, size: {
            "shared_memory_region": "gpu",
            "shared_memory_offset": offset,
            "shared_memory_byte_size": size,
        }
        outputs = [
            {"name": name, "parameters": part(PLACE * (1 + place), PLACE)} for place, name in enumerate(expected)
        ]
        inputs = [
            {"name": "points", "datatype": "FP32", "shape": list(points.shape), "parameters": part(0, points.nbytes)}
        ]
        answer = self.ask(f"/v2/models/{PRESET}/infer", {"inputs": inputs, "outputs": outputs}).json()
        shapes = {output["name"]: output["shape"] for output in answer["outputs"]}
        for place, (name, tensor) in enumerate(expected.items()):
            found = cuda.get_contents_as_numpy(self.memory, tensor.dtype, shapes[name], PLACE * (1 + place))
            self.assertEqual((found.shape, found.tobytes()), (tensor.shape, tensor.tobytes()), name)
        self.ask("/v2/cudasharedmemory/region/gpu/unregister")
        self.assertEqual(self.daemon.get("/v2/cudasharedmemory/status").json(), [])


if __name__ == "__main__":
    unittest.main()
