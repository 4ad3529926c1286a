"""The parameters of the operations as options of the command line: one row each, as `voxeld --describe` has them.

A scan is one cloud and one sweep, so parameters for several clouds or sweeps are not options. The client itself sets
regions of memory. --preset has its own row in options.py."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Tuple

DETECT = "detect"  # the operation whose answers can be printed
OPERATIONS: Dict[str, str] = {
    "voxelize": "make voxels of each scan",
    "fps": "choose farthest point samples of each scan",
    "points": "run steps on the points of each scan, or convert them to float32",
    "transform": "move, crop and cut the points of each scan",
    DETECT: "find boxes in each scan",
}
SEVERAL = ("point_counts", "times", "poses")
STREAM = "stream"
SWEEP = ("time", "pose")  # parameters that differ between the sweeps of a stream


class Parameter(NamedTuple):
    name: str
    operations: Tuple[str, ...]
    doc: str
    allowed: str


ALL = tuple(OPERATIONS)
LEFT = "points, point_indices, point_rows, point_fates, point_steps"
POSE = "16 numbers, row by row, or x,y,z,qw,qx,qy,qz"
PARAMETERS: List[Parameter] = [
    Parameter(
        "num_features", ALL, "number of columns of a row (C); x, y and z come first", "a whole number from 3 to 64"
    ),
    Parameter("dtype", ALL, "type of the body's values", "float32 or float16"),
    Parameter(
        "format",
        ALL,
        "format of the body's points; without it raw: rows of dtype",
        "raw or pcd or ply or pointcloud2 or safetensors",
    ),
    Parameter(
        "fields",
        ALL,
        "names of the columns of a row, which also set num_features; for a file, the fields to take",
        "3 to 64 names, each once, of up to 255 bytes in all; x, y and z in the first three places",
    ),
    Parameter("intensity_scale", ALL, "multiplies the column named intensity", "a finite number other than 0"),
    Parameter(
        STREAM,
        ALL,
        "the body is a sweep of this stream of the client; the server keeps the sweep and joins it with earlier sweeps",
        "1 to 63 letters, digits, '.', '_' or '-', but not '.' or '..'",
    ),
    Parameter(
        "streams",
        ALL,
        (
            "the streams to join; their points are moved into the frame of the first stream; without it, only the "
            "stream of the body is joined"
        ),
        "1 to 8 names of streams, each once",
    ),
    Parameter(
        "sweeps",
        ALL,
        (
            "number of sweeps to join from each stream, the newest first; the stream of the body keeps this many; "
            "without it, the number of sweeps in the body"
        ),
        "a whole number from 1 to 32",
    ),
    Parameter(
        "pose",
        ALL,
        (
            "pose of the sweep: the transform from the sensor's frame (with mount, from the vehicle's frame) to a "
            "fixed frame"
        ),
        POSE,
    ),
    Parameter(
        "mount",
        ALL,
        "transform from the sensor's frame to the vehicle's frame; the stream keeps it for later sweeps",
        POSE,
    ),
    Parameter(
        "time", ALL, "seconds; the time of the sweep, by any clock that never goes back", "seconds from -1e12 to 1e12"
    ),
    Parameter(
        "time_column",
        ALL,
        "yes appends a column to the joined rows: seconds from a point's sweep to the newest sweep",
        "no or yes",
    ),
    Parameter(
        "remove_close",
        ALL,
        "metres; removes from each sweep the points whose |x| and |y| are both below this, before they are moved",
        "a finite number above 0",
    ),
    Parameter(
        "score_threshold",
        (DETECT,),
        (
            "boxes with a lower score are dropped; a centre head also drops boxes with exactly this score; "
            "without it the model's value"
        ),
        "a number from 0 to 1",
    ),
    Parameter(
        "max_objects",
        (DETECT,),
        "for a centre head: maximum number of candidates per task that become boxes; without it the model's value",
        "a whole number from 1 to 1048576",
    ),
    Parameter(
        "nms_threshold",
        (DETECT,),
        "the same as iou_threshold of /v1/nms; not for models that suppress by distance; without it the model's value",
        "a number from 0 to 1",
    ),
    Parameter(
        "nms_pre_max",
        (DETECT,),
        "maximum number of boxes to compare per cloud, or per task of a centre head; without it the model's value",
        "a whole number from 1 to 1048576",
    ),
    Parameter(
        "nms_post_max",
        (DETECT,),
        "maximum number of boxes to keep per cloud, or per task of a centre head; without it the model's value",
        "a whole number from 1 to 1048576",
    ),
    Parameter(
        "class_agnostic",
        (DETECT,),
        "whether a box also suppresses boxes with other labels; without it the model's value",
        "no or yes",
    ),
    Parameter(
        "steps",
        ("voxelize", "fps", "points", DETECT),
        ("what happens to the points before the operation, in this order; TAG.name sets a parameter of a " "step"),
        (
            "none, or up to 8 of transform, downsample, ring_outlier, radius_outlier, each as NAME or TAG:NAME; tags "
            "differ and have up to 23 letters, digits, _ and -"
        ),
    ),
    Parameter(
        "point_cloud_range",
        ("voxelize",),
        "metres; a point is in range if its cell index is inside the grid",
        "x_min,y_min,z_min,x_max,y_max,z_max, finite, each min below its max",
    ),
    Parameter("voxel_size", ("voxelize",), "metres", "x,y,z, finite, each above 0"),
    Parameter(
        "max_points_per_voxel",
        ("voxelize",),
        "P: a voxel keeps its first P points; 0 = no cap (dynamic voxelization)",
        "a whole number from 0 to 1024",
    ),
    Parameter(
        "max_voxels",
        ("voxelize",),
        "maximum number of voxels per cloud: the first that appear are kept",
        "a whole number from 1 to 16777216",
    ),
    Parameter("feature", ("voxelize",), "which tensors are computed", "a list of points, mean, pillar"),
    Parameter(
        "feature_dtype", ("voxelize",), "type of voxel_features, pillar_features and bev_features", "float32 or float16"
    ),
    Parameter(
        "order",
        ("voxelize",),
        ("voxels by first appearance (spconv), or by ascending batch, x, y, z (torch.unique of dynamic " "VFEs)"),
        "first or key",
    ),
    Parameter("fill", ("voxelize",), "what pads voxels: zeros or the voxel's mean (spconv full_mean)", "zero or mean"),
    Parameter(
        "block_filter",
        ("voxelize",),
        (
            "keeps a voxel only if the heights around it span more than the first threshold and less than "
            "the second (spconv)"
        ),
        ("off, or block_factor,block_size,height_threshold,height_high_threshold (factor 1 or more, size " "1 to 32)"),
    ),
    Parameter(
        "fps",
        ("voxelize",),
        "number of voxels to choose from each cloud by farthest point sampling of their means",
        "off, or whole numbers from 0 to 2147483647: one for all clouds, or one for each",
    ),
    Parameter(
        "start",
        ("voxelize", "fps"),
        (
            "sampling of each cloud begins at the first finite point (in /v1/voxelize: voxel) whose index is at least "
            "this number"
        ),
        "a whole number from 0 to 2147483647",
    ),
    Parameter(
        "columns",
        ("voxelize",),
        "names of the columns that the model expects, such as x,y,z,intensity,time",
        "3 to 64 different names, beginning with x,y,z",
    ),
    Parameter(
        "intensity_range",
        ("voxelize",),
        "the intensity that the model expects; another range gets a warning",
        "min,max, finite, min below max",
    ),
    Parameter(
        "ground_z",
        ("voxelize",),
        "metres; where the model expects the ground; a ground more than 1 m off gets a warning",
        "a finite number",
    ),
    Parameter(
        "outputs",
        ("voxelize",),
        (
            "which tensors to return; without it voxel_coords, voxel_num_points and the tensors that feature "
            "computes; with fps also sampled_indices and sampled_points"
        ),
        (
            "a list of voxel_coords, voxel_num_points, voxels, voxel_features, pillar_features, "
            "point_voxel_ids, voxel_point_mask, sampled_indices, sampled_points, sampled_distances, bev_features, "
            "occupancy, occupancy_counts, occupancy_packed, bev_max_height, bev_min_height, bev_max_intensity, "
            f"bev_top_intensity, bev_density, {LEFT}"
        ),
    ),
    Parameter(
        "timeout_ms",
        ALL,
        "milliseconds after which a job that still waits or runs is answered 504; 0 = the server's own limit",
        "a whole number from 0 to 3600000",
    ),
    Parameter(
        "num_samples",
        ("fps",),
        (
            "number of points to choose from each cloud (M); one number gives tensors [B, M]; a list gives the "
            "samples of all clouds one after another"
        ),
        "whole numbers from 0 to 2147483647: one for all clouds, or one for each",
    ),
    Parameter(
        "outputs",
        ("fps",),
        "which tensors to return; without it sampled_indices and sampled_points",
        f"a list of sampled_indices, sampled_points, sampled_distances, {LEFT}",
    ),
    Parameter(
        "matrix",
        ("transform",),
        (
            "moves the points: x' = ((m0*x + m1*y) + m2*z) + m3, and so on; without it the points stay, "
            "except that -0 becomes 0"
        ),
        ("16 numbers, row by row, or 16 for each of up to 64 clouds; the last row of each matrix is " "0,0,0,1"),
    ),
    Parameter(
        "crop",
        ("transform",),
        "metres; removes moved points outside of this box",
        "off, or x_min,y_min,z_min,x_max,y_max,z_max, finite, each min below its max",
    ),
    Parameter(
        "cut",
        ("transform",),
        "metres; removes moved points inside any of these boxes, such as points on the vehicle itself",
        "off, or up to 64 boxes in the form of crop, separated by semicolons",
    ),
    Parameter(
        "distance",
        ("transform",),
        "metres; removes moved points nearer to the origin than min, or as far as max or farther",
        "off, or min,max, finite, 0 or more, min below max",
    ),
    Parameter(
        "outputs",
        ("points", "transform"),
        "which tensors to return; without it points and point_indices",
        f"a list of {LEFT}",
    ),
    Parameter("model", (DETECT,), "the model that detects", "a name of GET /v1/models"),
    Parameter(
        "outputs",
        (DETECT,),
        "which tensors to return; without it boxes, scores, labels and box_counts",
        (
            "a list of boxes, scores, labels, box_indices, box_counts, cls_preds, box_preds, dir_cls_preds, "
            f"heatmap, center, height, dim, rot, vel, bev_features, {LEFT}"
        ),
    ),
]


def parameters_of(operation: str) -> List[Parameter]:
    return [parameter for parameter in PARAMETERS if operation in parameter.operations]
