"""Requests with points and answers in shared memory give the tensors of the plain request, byte for byte: for
operations on points and for formats of files, at aligned and at odd offsets."""

import json
import unittest

import numpy as np

import check
import files
from daemon import OneDaemonCase
from shared import Memory

GRID = "point_cloud_range=-10,-10,-3,10,10,3&voxel_size=0.5,0.5,0.75"
ROOM = 1 << 22
QUERIES = (
    "voxelize?preset=kitti_second",
    f"voxelize?{GRID}&feature=points,mean,pillar&max_points_per_voxel=3",
    f"voxelize?{GRID}&point_counts=1000,0,2000&outputs=voxel_coords,point_voxel_ids,voxel_point_mask",
    f"voxelize?{GRID}&fps=20&max_voxels=50",
    "fps?num_samples=64",
    "transform?crop=-5,-5,-5,5,5,5",
    "transform?fields=x,y,z,intensity&intensity_scale=0.5",
)


class Regions(OneDaemonCase):
    ARGS = ("--workers", "2", "--long-workers", "1", "--allow-shared-memory")

    def setUp(self):
        self.memory = Memory(2 * ROOM)
        self.addCleanup(self.memory.__exit__)
        self.addCleanup(self.daemon.post, "/v2/systemsharedmemory/unregister")
        self.assertEqual(self.memory.register(self.daemon, "a").status, 200)

    def same(self, query, body, at):
        plain = self.daemon.post(f"/v1/{query}", body)
        self.assertEqual(plain.status, 200, plain)
        expected, metadata = check.parse_by_hand(plain.body)
        self.memory.write(body, at)
        points, output = f"points_region=a,{at},{len(body)}", f"output_region=a,{ROOM + at},{ROOM - at}"
        for regions in (points, output, f"{points}&{output}"):
            reply = self.daemon.post(f"/v1/{query}&{regions}", b"" if points in regions else body)
            self.assertEqual(reply.status, 200, reply)
            answer = reply.body
            if output in regions:
                told = json.loads(answer)["output_region"]
                answer = self.memory.read(told["bytes"], ROOM + at)
                self.assertEqual(list(told["tensors"]), list(expected))
                for name, place in told["tensors"].items():
                    tensor, begin = expected[name], place["offset"]
                    self.assertEqual(
                        (check.DTYPES[place["dtype"]], tuple(place["shape"])), (tensor.dtype, tensor.shape)
                    )
                    self.assertEqual(answer[begin : begin + tensor.nbytes], tensor.tobytes(), (query, regions, name))
            tensors, told = check.parse_by_hand(answer)
            self.assertEqual(told["points"], metadata["points"])
            self.assertEqual(list(tensors), list(expected))
            for name, tensor in expected.items():
                self.assertEqual((tensors[name].dtype, tensors[name].shape), (tensor.dtype, tensor.shape), name)
                self.assertEqual(tensors[name].tobytes(), tensor.tobytes(), (query, regions, name))

    def test_operations_on_points(self):
        points = np.random.default_rng(1).uniform(-9, 9, (3000, 4)).astype("<f4")
        for at, query in enumerate(QUERIES):
            with self.subTest(query=query):
                self.same(query, points.tobytes(), at)

    def test_half_precision_and_files(self):
        points = np.random.default_rng(2).uniform(-9, 9, (3000, 4)).astype("<f4")
        cloud = files.structured({name: points[:, place] for place, name in enumerate(("x", "y", "z", "intensity"))})
        self.same(f"voxelize?{GRID}&dtype=float16", points.astype("<f2").tobytes(), 3)
        for kind, file in (
            ("pcd", files.pcd(cloud)),
            ("ply", files.ply(cloud)),
            ("pointcloud2", files.pointcloud2(cloud)),
        ):
            self.same(f"voxelize?{GRID}&format={kind}", file, 5)

    def test_only_safetensors_have_places(self):
        reply = self.daemon.post(
            f"/v1/{QUERIES[0]}&output_region=a,0,{ROOM}", bytes(16), {"Accept": "application/x-npz"}
        )
        self.assertNotIn("tensors", reply.json()["output_region"])


if __name__ == "__main__":
    unittest.main()
