"""The soak's requests for operations on tensors, as safetensors and in KServe's protocol, and for the dense maps of
voxelize. Their oracles are boxes.py, centers.py and maps.py."""

import dataclasses
import urllib.parse

import numpy as np
from safetensors.numpy import save

import boxes
import centers
import check
import infer
import maps
import soak_cases as cases


def scatter(query, tensors):
    dense, kept, told = maps.scatter(query, tensors)
    return {"bev_features": dense}, kept, told


ORACLES = {
    "nms": (boxes.nms, "boxes"),
    "decode": (boxes.decode, "anchors"),
    "decode_center": (centers.decode, "candidates"),
    "scatter": (scatter, "voxels"),
}
HEAD = {
    "point_cloud_range": "0,-40,-3,70,40,1",
    "anchor_sizes": "3.9,1.6,1.56,0.8,0.6,1.7",
    "anchor_bottoms": "-1.8,-0.6",
}
CENTERS = {
    "head": "center",
    "point_cloud_range": "-8,-6,-3,8,6,1",
    "voxel_size": "0.1,0.2,4",
    "feature_map_stride": "4",
    "task_classes": "1,2",
}
LINES = ("Content-Type: application/vnd.safetensors",)


def path_of(operation, query):
    """decode and decode_center have one endpoint."""
    return f"/v1/{operation.removesuffix('_center')}?{urllib.parse.urlencode(query, safe=',')}"


@dataclasses.dataclass
class Tensors(cases.Good):
    operation: str = ""
    inputs: dict = dataclasses.field(default_factory=dict)

    @property
    def path(self):
        return path_of(self.operation, self.query)

    def learn(self, daemon):
        answered, metadata = check.parse_by_hand(self.take(daemon))
        oracle, items = ORACLES[self.operation]
        expected, kept, told = oracle(self.query, self.inputs)
        problems = check.same_tensors(expected, answered)
        if problems or (metadata["batch"]["kept"], metadata[items]) != (kept, told):
            raise cases.Wrong(f"not what the oracle says, {self.path}: {problems}")
        return True


@dataclasses.dataclass
class Maps(cases.Good):
    """Dense maps of points, by the oracle in maps.py."""

    def learn(self, daemon):
        answered, _ = check.parse_by_hand(self.take(daemon))
        expected = maps.voxelize({"num_features": "4", "dtype": "float32", **self.query}, self.body)
        problems = check.same_tensors({name: expected[name] for name in self.query["outputs"].split(",")}, answered)
        if problems:
            raise cases.Wrong(f"not what the oracle says, {self.path}: {problems}")
        return True


@dataclasses.dataclass
class InferTensors(cases.Infer):
    operation: str = ""

    @property
    def path(self):
        return f"/v2/models/{self.operation}/infer"

    def plain(self, daemon):
        return daemon.post(path_of(self.operation, self.query), self.rows, dict(line.split(": ") for line in LINES))


def inputs_of(rng):
    """Yields (operation, query, tensors)."""
    for count, query in (
        (0, {}),
        (50, {"nms_post_max": "7"}),
        (1500, {"class_agnostic": "no", "box_counts": "500,1000"}),
    ):
        centres, sizes = rng.uniform(-30, 30, (count, 3)), rng.uniform(1, 5, (count, 4))
        tensors = {
            "boxes": np.concatenate((centres, sizes), 1).astype("<f4"),
            "scores": rng.random(count).astype("<f4"),
        }
        tensors["labels"] = rng.integers(0, 3, count).astype("<i4")
        yield "nms", query, tensors
    for shape, kind in (((3, 4), "<f4"), ((2, 30, 25), "<f2")):
        maps = {"cls_preds": 12, "box_preds": 28, "dir_cls_preds": 8}
        tensors = {name: rng.normal(-1, 1, (*shape, channels)).astype(kind) for name, channels in maps.items()}
        yield "decode", HEAD, tensors
    channels = {"heatmap": 3, "center": 4, "height": 2, "dim": 6, "rot": 4, "vel": 4}
    for shape, kind in (((3, 4), "<f4"), ((2, 30, 25), "<f2")):
        tensors = {name: rng.normal(0, 1, (*shape, values)).astype(kind) for name, values in channels.items()}
        yield "decode_center", CENTERS, tensors
    for rows, kind, query in (
        (0, "<f4", {"grid_size": "5,4,3"}),
        (300, "<f2", {"grid_size": "20,15,2", "batch_size": "3"}),
        (4000, "<f4", {"grid_size": "108,124,1"}),
    ):
        limits = [int(query.get("batch_size", "1")), *map(int, query["grid_size"].split(",")[::-1])]
        coords = rng.integers(0, limits, (rows, 4))  # some cells occur twice
        coords[::50] -= 1  # moves some rows to other cells, and some out of the grid
        tensors = {"features": rng.normal(0, 1, (rows, 16)).astype(kind), "voxel_coords": coords.astype("<i4")}
        yield "scatter", query, tensors


def map_requests():
    rng = np.random.default_rng(6)
    points = rng.uniform((-21, -21, -3, 0), (21, 21, 3, 1), (3000, 4)).astype("<f4")
    grid = {"point_cloud_range": "-20,-20,-3,20,20,3", "voxel_size": "1,1,1"}
    every = {"outputs": ",".join(maps.NAMES), "max_points_per_voxel": "5"}
    flat = {"outputs": "occupancy_packed,bev_max_height,bev_density", "voxel_size": "0.3,0.7,6"}
    yield Maps(grid | every, points.tobytes(), 4)
    yield Maps(grid | every, b"", 4)
    yield Maps(grid | every | {"dtype": "float16", "feature_dtype": "float16"}, points.astype("<f2").tobytes(), 4)
    yield Maps(grid | flat | {"point_counts": "1000,0,2000", "max_voxels": "50"}, points.tobytes(), 4)


def good_requests():
    yield from map_requests()
    for operation, query, inputs in inputs_of(np.random.default_rng(5)):
        file = save(inputs)
        yield Tensors(query, file, 0, lines=LINES, operation=operation, inputs=inputs)
        described = [infer.as_bytes(*item) for item in inputs.items()]
        parameters = {**query, "binary_data_output": True}
        body, headers = infer.body_of(described, inputs.values(), parameters=parameters)
        lines = tuple(f"{name}: {value}" for name, value in headers.items())
        yield InferTensors(query, body, 0, rows=file, lines=lines, operation=operation)
