"""Memory of Triton's tritonclient.utils.cuda_shared_memory as input and output of an inference. The requests are
written by hand, so that the test needs no HTTP client of Triton; test_triton.py checks the client's own. Needs a
GPU."""

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
ROOM = 1 << 20
if not has_gpu():
    print("skipped: there is no GPU")
    sys.exit(77)


class TritonCuda(unittest.TestCase):
    def setUp(self):
        self.daemon = self.enterContext(Daemon("--backend", "cuda", "--allow-cuda-shared-memory", "yes"))

    def ask(self, path, document=None):
        reply = self.daemon.post(path, None if document is None else json.dumps(document).encode())
        self.assertEqual(reply.status, 200, reply)
        return reply

    def memory(self, name):
        """Registered memory, and the parameters with which a tensor names it."""
        memory = cuda.create_shared_memory_region(name, ROOM, 0)
        self.addCleanup(cuda.destroy_shared_memory_region, memory)
        terms = {"raw_handle": {"b64": cuda.get_raw_handle(memory).decode()}, "device_id": 0, "byte_size": ROOM}
        self.ask(f"/v2/cudasharedmemory/region/{name}/register", terms)
        self.addCleanup(self.ask, f"/v2/cudasharedmemory/region/{name}/unregister")
        return memory, {"shared_memory_region": name, "shared_memory_byte_size": ROOM}

    def test_an_inference(self):
        points = np.random.default_rng(1).uniform(-9, 9, (3000, 4)).astype("<f4")
        expected, _ = check.parse_by_hand(self.daemon.post(f"/v1/voxelize?preset={PRESET}", points.tobytes()).body)
        self.ask("/v2/cudasharedmemory/unregister")
        memory, part = self.memory("in")
        cuda.set_shared_memory_region(memory, [points])
        part = {**part, "shared_memory_byte_size": points.nbytes}
        inputs = [{"name": "points", "datatype": "FP32", "shape": list(points.shape), "parameters": part}]
        memories = {name: self.memory(name) for name in expected}
        outputs = [{"name": name, "parameters": part} for name, (_, part) in memories.items()]
        listed = self.daemon.get("/v2/cudasharedmemory/status").json()
        self.assertEqual({one["name"] for one in listed}, {"in", *expected})
        answer = self.ask(f"/v2/models/{PRESET}/infer", {"inputs": inputs, "outputs": outputs}).json()
        shapes = {output["name"]: output["shape"] for output in answer["outputs"]}
        for name, tensor in expected.items():
            found = cuda.get_contents_as_numpy(memories[name][0], tensor.dtype, shapes[name])
            self.assertEqual((found.shape, found.tobytes()), (tensor.shape, tensor.tobytes()), name)


if __name__ == "__main__":
    unittest.main()
