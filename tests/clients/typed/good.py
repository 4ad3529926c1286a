"""A program that mypy --strict accepts (clients.python_package)."""

from typing import Dict, List, Optional, Union

import numpy as np
from numpy.typing import NDArray

import voxeld

points = np.zeros((100, 4), np.float32)
HERE = (0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
FEW: voxeld.VoxelizeParameters = {"max_voxels": 100, "feature": ["points", "mean"]}

with voxeld.Client("http://localhost:8080") as client:
    voxels = client.voxelize(points, "kitti_second", max_voxels=3, voxel_size=(0.05, 0.05, 0.1), outputs="voxels")
    coords: NDArray[np.int32] = voxels.voxel_coords
    rows: Optional[NDArray[np.float32]] = voxels.voxels
    means: Optional[NDArray[Union[np.float32, np.float16]]] = voxels.voxel_features
    if voxels.voxels is not None:
        print(voxels.voxels.shape, voxels["voxels"].dtype, voxels.metadata["points"])
        timing: Optional[Dict[str, float]] = voxels.timing
        request_id: Optional[str] = voxels.request_id
    kinds: List[str] = [warning.kind for warning in voxels.warnings if warning.detail]
    client.voxelize(points, **FEW)
    client.voxelize([points, points], time_column=True, block_filter="off", fps=[10, 20], columns="x,y,z")
    client.voxelize(points.tobytes(), num_features=4, dtype="float32", point_counts=[60, 40], metadata_only=True)

    samples: NDArray[np.float32] = client.fps(points, 2048, preset="mine", timeout_ms=100).sampled_points
    moved: voxeld.TransformResult = client.transform(
        points, matrix=np.eye(4), crop=(-1, -1, -1, 1, 1, 1), cut=[(0, 0, 0, 1, 1, 1), (2, 2, 2, 3, 3, 3)]
    )
    indices: NDArray[np.int32] = moved.point_indices
    chain = [
        voxeld.RingOutlier("ring", num_points_threshold="off"),
        voxeld.Transform(np.eye(4), cut=[(0, 0, 0, 1, 1, 1)], distance=(1, 80), tag="near"),
        voxeld.RadiusOutlier(0.5, min_neighbors=2, axes="xy"),
        voxeld.Downsample(0.1, method="first"),
        voxeld.Downsample((0.1, 0.1, 0.2), tag="again"),
        voxeld.Downsample(every=2, tag="fewer"),
    ]
    left = client.points(points, steps=chain, outputs=["points", "point_fates"])
    rest: NDArray[np.float32] = left.points
    why: Optional[NDArray[np.uint8]] = left.point_fates
    dropped: List[int] = [step.in_ - step.kept + step.fates["not_finite"] for step in left.steps if step.tag == step.op]
    names: List[str] = left.fate_names
    client.voxelize(points, "kitti_second", steps=[voxeld.Downsample(0.1)])
    client.fps(points, 2048, steps=("transform", chain[0]))
    client.detect(points, "kitti", steps="none")
    client.voxelize(points, "mine", steps={"downsample.voxel_size": 0.2, "transform.crop": "off"})
    client.stream("roof", 10, steps=[]).send(points, HERE, 1.5).steps
    found = client.detect(points, "kitti", score_threshold=0.3, request_id="mine")
    kept = client.nms(found.boxes, found.scores, found.labels, iou_threshold=0.1, class_agnostic="no")
    again = client.nms([[0, 0, 0, 1, 1, 1, 0]], [0.5]).kept_indices
    client.scatter(np.zeros((3, 64), np.float16), np.zeros((3, 4), np.int32), grid_size=(2, 2, 1)).bev_features
    boxes: NDArray[np.float32] = client.decode(heatmap=points, center=points, head="center", rot_order="sin_cos").boxes

    lidar = client.stream("roof", 10, preset="nuscenes_centerpoint_voxel0075", time_column="yes", keep=True)
    near: NDArray[np.int32] = lidar.send(points, HERE, 1.5, metadata_only=False).voxel_coords
    boxed: voxeld.Stream[voxeld.DetectResult] = client.stream("roof", 10, operation="detect", model="kitti")
    file: NDArray[np.uint8] = client.file_bytes("fps", points, "application/x-npz", num_samples=5, pose=HERE, time=1.0)

with voxeld.Client(uplink="auto") as client, voxeld.Client(uplink=[0.001, 0.001, 0.001, 0.01]) as rounding:
    sent: Optional[voxeld.Sent] = client.voxelize(points).uplink
    total: Optional[voxeld.Sent] = rounding.sent
    packed: voxeld.Packed = voxeld.pack(points, 0.001, "gzip", num_features=4)

try:
    voxeld.Client().status()
except voxeld.Problem as problem:
    print(problem.status, problem.parameter)
except voxeld.TransportError as error:
    print(error, error.attempts)
