"""A program with slips. mypy --strict refuses the lines that say so, and no others. It is not run."""

import numpy as np
from numpy.typing import NDArray

import voxeld

client = voxeld.Client()
points = np.zeros((100, 4), np.float32)

client.voxelize(points, max_voxel=3)  # refused
client.voxelize(points, max_voxels="3")  # refused
client.voxelize(points, voxel_size=0.05)  # refused
client.voxelize(points, feature="means")  # refused
client.voxelize(points, outputs=["voxels", "boxes"])  # refused
client.voxelize(points, num_samples=3)  # refused
client.voxelize("scan.bin")  # refused
client.voxelize(points, fps="on")  # refused
client.fps(points, preset=3)  # refused
client.transform(points, time_column="maybe")  # refused
client.detect(points)  # refused
client.nms(points)  # refused
client.decode({"heatmap": points})  # refused
client.decode(heat_map=points)  # refused
client.scatter(points, points, grid=(2, 2, 1))  # refused
client.points(points, steps=voxeld.Downsample(0.1))  # refused
client.points(points, steps=[0.1])  # refused
client.points(points, steps=[voxeld.Downsample("fine")])  # refused
client.points(points, steps=[voxeld.Downsample(0.1, "first")])  # refused
client.points(points, steps=[voxeld.Downsample(0.1, method="mean")])  # refused
client.points(points, steps=[voxeld.Downsample(0.1, min_point=2)])  # refused
client.points(points, steps=[voxeld.RingOutlier()])  # refused
client.points(points, steps=[voxeld.RadiusOutlier(0.5)])  # refused
client.points(points, steps=[voxeld.Transform(crop="none")])  # refused
client.points(points, steps=[voxeld.Transform(tag=1)])  # refused
client.transform(points, steps=[])  # refused
client.file_bytes("fps", points, num_sample=3)  # refused
client.file_bytes("nms", points)  # refused
client.stream("roof", 10, max_voxel=3)  # refused
client.stream("roof", 10, operation="detect", max_voxels=3)  # refused
client.stream("roof", 10, operation="nms")  # refused
client.stream("roof", 10).send(points, max_voxels=3)  # refused

voxels = client.voxelize(points)
voxels.voxel_coord  # refused
voxels.voxels.shape  # refused
voxels.sampled_points.shape  # refused
scores: NDArray[np.float32] = voxels.voxel_coords  # refused
voxels.warnings[0]["kind"]  # refused
voxels.steps[0]["tag"]  # refused
client.stream("roof", 10).send(points, np.eye(4), 1.0).boxes  # refused
settings: voxeld.VoxelizeParameters = {"max_voxel": 3}  # refused
voxeld.Client(uplink={"x": 0.001})  # refused
voxels.uplink.ratio  # refused
