"""The operations of the service: steps, parameters, results, methods of Client. Written by generate.py; do not edit.

To write this file again, run in the repository:

    $ build/bin/voxeld --describe | python3 api/python/generate.py > api/python/voxeld/operations.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Dict, List, Literal, Optional, Sequence, Type, TypedDict, Union, overload

import numpy as np
from numpy.typing import NDArray

from .parameters import Flag, Ints, Numbers, Parameter
from .points import Points, Tensor
from .result import Result
from .steps import Step, Steps
from .stream import Stream

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .calls import Calls

__all__ = [
    "BackboneParameters",
    "BackboneResult",
    "BackboneSweepParameters",
    "DecodeResult",
    "DetectParameters",
    "DetectResult",
    "DetectSweepParameters",
    "Downsample",
    "FpsParameters",
    "FpsResult",
    "FpsSweepParameters",
    "NmsResult",
    "PointsParameters",
    "PointsResult",
    "PointsSweepParameters",
    "RadiusOutlier",
    "RangeImageParameters",
    "RangeImageResult",
    "RangeImageSweepParameters",
    "RingOutlier",
    "ScatterResult",
    "SerializeParameters",
    "SerializeResult",
    "SerializeSweepParameters",
    "StatisticalOutlier",
    "SweepParameters",
    "Transform",
    "TransformParameters",
    "TransformResult",
    "TransformSweepParameters",
    "VoxelizeParameters",
    "VoxelizeResult",
    "VoxelizeSweepParameters",
]

VoxelizeDtype = Literal[
    "float32",
    "float16",
    "int32",
    "uint8",
    "int8",
    "int16",
    "uint16",
    "uint32",
]

VoxelizeFilter = Literal[
    "delta",
    "direction",
    "shuffle",
]

VoxelizeFormat = Literal[
    "raw",
    "pcd",
    "ply",
    "pointcloud2",
    "compressedpointcloud2",
    "cloudini",
    "safetensors",
]

VoxelizeFeature = Literal[
    "points",
    "mean",
    "pillar",
]

VoxelizeOutputs = Literal[
    "voxel_coords",
    "voxel_num_points",
    "voxels",
    "voxel_features",
    "pillar_features",
    "point_voxel_ids",
    "voxel_point_mask",
    "sampled_indices",
    "sampled_points",
    "sampled_distances",
    "bev_features",
    "occupancy",
    "occupancy_counts",
    "occupancy_packed",
    "bev_max_height",
    "bev_min_height",
    "bev_max_intensity",
    "bev_top_intensity",
    "bev_density",
    "points",
    "point_indices",
    "point_rows",
    "point_fates",
    "point_steps",
]

FpsDtype = Literal[
    "float32",
    "float16",
    "int32",
    "uint8",
    "int8",
    "int16",
    "uint16",
    "uint32",
]

FpsFilter = Literal[
    "delta",
    "direction",
    "shuffle",
]

FpsFormat = Literal[
    "raw",
    "pcd",
    "ply",
    "pointcloud2",
    "compressedpointcloud2",
    "cloudini",
    "safetensors",
]

FpsOutputs = Literal[
    "sampled_indices",
    "sampled_points",
    "sampled_distances",
    "points",
    "point_indices",
    "point_rows",
    "point_fates",
    "point_steps",
]

PointsDtype = Literal[
    "float32",
    "float16",
    "int32",
    "uint8",
    "int8",
    "int16",
    "uint16",
    "uint32",
]

PointsFilter = Literal[
    "delta",
    "direction",
    "shuffle",
]

PointsFormat = Literal[
    "raw",
    "pcd",
    "ply",
    "pointcloud2",
    "compressedpointcloud2",
    "cloudini",
    "safetensors",
]

PointsOutputs = Literal[
    "points",
    "point_indices",
    "point_rows",
    "point_fates",
    "point_steps",
]

TransformDtype = Literal[
    "float32",
    "float16",
    "int32",
    "uint8",
    "int8",
    "int16",
    "uint16",
    "uint32",
]

TransformFilter = Literal[
    "delta",
    "direction",
    "shuffle",
]

TransformFormat = Literal[
    "raw",
    "pcd",
    "ply",
    "pointcloud2",
    "compressedpointcloud2",
    "cloudini",
    "safetensors",
]

TransformOutputs = Literal[
    "points",
    "point_indices",
    "point_rows",
    "point_fates",
    "point_steps",
]

NmsOutputs = Literal["kept_indices"]

DecodeOutputs = Literal[
    "boxes",
    "scores",
    "labels",
    "box_indices",
    "box_counts",
]

ScatterOutputs = Literal["bev_features"]

DetectDtype = Literal[
    "float32",
    "float16",
    "int32",
    "uint8",
    "int8",
    "int16",
    "uint16",
    "uint32",
]

DetectFilter = Literal[
    "delta",
    "direction",
    "shuffle",
]

DetectFormat = Literal[
    "raw",
    "pcd",
    "ply",
    "pointcloud2",
    "compressedpointcloud2",
    "cloudini",
    "safetensors",
]

DetectOutputs = Literal[
    "boxes",
    "scores",
    "labels",
    "box_indices",
    "box_counts",
    "track_ids",
    "cls_preds",
    "box_preds",
    "dir_cls_preds",
    "heatmap",
    "center",
    "height",
    "dim",
    "rot",
    "vel",
    "iou",
    "sparse_coords",
    "sparse_features",
    "bev_features",
    "points",
    "point_indices",
    "point_rows",
    "point_fates",
    "point_steps",
]

BackboneDtype = Literal[
    "float32",
    "float16",
    "int32",
    "uint8",
    "int8",
    "int16",
    "uint16",
    "uint32",
]

BackboneFilter = Literal[
    "delta",
    "direction",
    "shuffle",
]

BackboneFormat = Literal[
    "raw",
    "pcd",
    "ply",
    "pointcloud2",
    "compressedpointcloud2",
    "cloudini",
    "safetensors",
]

BackboneOutputs = Literal[
    "sparse_coords",
    "sparse_features",
    "bev_features",
    "points",
    "point_indices",
    "point_rows",
    "point_fates",
    "point_steps",
]

SerializeDtype = Literal[
    "float32",
    "float16",
    "int32",
    "uint8",
    "int8",
    "int16",
    "uint16",
    "uint32",
]

SerializeFilter = Literal[
    "delta",
    "direction",
    "shuffle",
]

SerializeFormat = Literal[
    "raw",
    "pcd",
    "ply",
    "pointcloud2",
    "compressedpointcloud2",
    "cloudini",
    "safetensors",
]

SerializeOrders = Literal[
    "z",
    "z-trans",
    "hilbert",
    "hilbert-trans",
]

SerializeOutputs = Literal[
    "grid_coord",
    "serialized_code",
    "serialized_order",
    "serialized_inverse",
    "pool_cluster",
    "pool_indices",
    "pool_indptr",
    "pool_head_indices",
    "pool_grid_coord",
    "pool_serialized_code",
    "pool_serialized_order",
    "pool_serialized_inverse",
    "points",
    "point_indices",
    "point_rows",
    "point_fates",
    "point_steps",
]

RangeImageDtype = Literal[
    "float32",
    "float16",
    "int32",
    "uint8",
    "int8",
    "int16",
    "uint16",
    "uint32",
]

RangeImageFilter = Literal[
    "delta",
    "direction",
    "shuffle",
]

RangeImageFormat = Literal[
    "raw",
    "pcd",
    "ply",
    "pointcloud2",
    "compressedpointcloud2",
    "cloudini",
    "safetensors",
]

RangeImageOutputs = Literal[
    "range_image",
    "range_indices",
    "range_mask",
    "point_pixels",
    "point_ranges",
    "pixel_coords",
    "point_pixel_rows",
    "points",
    "point_indices",
    "point_rows",
    "point_fates",
    "point_steps",
]

NMS: Dict[str, List[str]] = {
    "boxes": ["float32"],
    "scores": ["float32"],
    "labels": ["int32"],
}

DECODE: Dict[str, List[str]] = {
    "cls_preds": ["float32", "float16"],
    "box_preds": ["float32", "float16"],
    "dir_cls_preds": ["float32", "float16"],
    "heatmap": ["float32", "float16"],
    "center": ["float32", "float16"],
    "height": ["float32", "float16"],
    "dim": ["float32", "float16"],
    "rot": ["float32", "float16"],
    "vel": ["float32", "float16"],
    "iou": ["float32", "float16"],
}

SCATTER: Dict[str, List[str]] = {
    "features": ["float32", "float16"],
    "voxel_coords": ["int32"],
}

PARAMETERS: List[Parameter] = [
    Parameter(
        "preset",
        ("voxelize", "fps", "points", "transform", "serialize", "range_image"),
        "string",
        None,
        None,
        "a name from GET /v1/presets",
        "a named parameter set; the query overrides it",
    ),
    Parameter(
        "num_features",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "int",
        None,
        "4",
        "a whole number from 3 to 64",
        "number of columns of a row (C); x, y and z come first",
    ),
    Parameter(
        "dtype",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "list",
        None,
        "float32",
        (
            "one type, or one for each of up to 64 columns, of float32, float16, int32, uint8, int8, int16, uint16, "
            "uint32"
        ),
        "type of the body's values, or of each column; a list of several also sets num_features",
    ),
    Parameter(
        "scale",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "floats",
        None,
        None,
        "1 to 64 finite numbers above 0",
        "factors of the columns of the body, in order; the others have 1",
    ),
    Parameter(
        "filter",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "list",
        None,
        None,
        "delta or direction or shuffle or delta,shuffle or direction,shuffle",
        "what the client did with the rows of the body so that they compress better",
    ),
    Parameter(
        "format",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "string",
        None,
        None,
        "raw or pcd or ply or pointcloud2 or compressedpointcloud2 or cloudini or safetensors",
        "format of the body's points; by default raw: rows of dtype",
    ),
    Parameter(
        "fields",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "list",
        None,
        None,
        "3 to 64 names, each once, of up to 255 bytes in all; x, y and z in the first three places",
        "names of the columns of a row, which also set num_features; for a file, the fields to take",
    ),
    Parameter(
        "intensity_scale",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "float",
        None,
        None,
        "a finite number other than 0",
        "multiplies the column named intensity",
    ),
    Parameter(
        "point_counts",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "ints",
        None,
        None,
        "1 to 1024 whole numbers that add up to the rows of the body",
        "splits the body into a batch of clouds or, with stream, into sweeps, the newest first",
    ),
    Parameter(
        "stream",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "string",
        None,
        None,
        "1 to 63 letters, digits, '.', '_' or '-', but not '.' or '..'",
        "the body is a sweep of this stream; the server joins it with earlier sweeps",
    ),
    Parameter(
        "streams",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "list",
        None,
        None,
        "1 to 8 names of streams, each once",
        "the streams to join, into the frame of the first; without it, only the stream of the body",
    ),
    Parameter(
        "sweeps",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "int",
        None,
        None,
        "a whole number from 1 to 32",
        (
            "number of sweeps to join from each stream and to keep in the body's stream; without it, the number in the"
            " body"
        ),
    ),
    Parameter(
        "pose",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "floats",
        None,
        None,
        "16 numbers, row by row, or x,y,z,qw,qx,qy,qz",
        "transform from the sensor's frame (with mount, the vehicle's frame) to a fixed frame",
    ),
    Parameter(
        "poses",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "floats",
        None,
        None,
        "up to 32 poses, one for each sweep of point_counts, each of 16 numbers, or each of 7",
        "for a body with several sweeps: their poses, in order",
    ),
    Parameter(
        "mount",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "floats",
        None,
        None,
        "16 numbers, row by row, or x,y,z,qw,qx,qy,qz",
        "transform from the sensor's frame to the vehicle's frame; the stream keeps it for later sweeps",
    ),
    Parameter(
        "time",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "float",
        "seconds",
        None,
        "seconds from -1e12 to 1e12",
        "the time of the sweep, by any clock that never goes back",
    ),
    Parameter(
        "times",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "floats",
        "seconds",
        None,
        "up to 32 times from -1e12 to 1e12, one for each sweep of point_counts, each below the one before",
        "for a body with several sweeps: their times, the newest first",
    ),
    Parameter(
        "time_column",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "string",
        None,
        None,
        "no or yes",
        "yes appends a column to joined rows: seconds from their sweep to the first stream's newest sweep",
    ),
    Parameter(
        "remove_close",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "float",
        "metres",
        None,
        "a finite number above 0",
        "removes from each sweep the points whose |x| and |y| are both below this, before the sweep is moved",
    ),
    Parameter(
        "time_field",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "string",
        None,
        None,
        "a name other than x, y and z",
        (
            "the field of a file, or the column in fields, with the points' times; such a column becomes seconds from "
            "time_origin"
        ),
    ),
    Parameter(
        "time_unit",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "string",
        None,
        None,
        "s or ms or us or ns",
        "unit of time_field; by default s",
    ),
    Parameter(
        "time_origin",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "float or string",
        None,
        None,
        "stamp, first, or a finite number",
        "subtracted from the times in time_field; in their unit; by default 0",
    ),
    Parameter(
        "deskew",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "string",
        None,
        None,
        "off or poses or twists or stream",
        (
            "moves each point to its place at deskew_reference, along deskew_poses, by deskew_twists, or by the "
            "stream's motion since the previous sweep; by default off"
        ),
    ),
    Parameter(
        "deskew_poses",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "rows",
        None,
        None,
        "2 to 65 rows separated by semicolons: t and a pose",
        "poses of the sensor or, with mount, the vehicle at rising times",
    ),
    Parameter(
        "deskew_twists",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "rows",
        None,
        None,
        "1 to 63 rows t,vx,vy,vz,wx,wy,wz separated by semicolons",
        (
            "velocities of the sensor or, with mount, the vehicle in its own frame; a row holds from the previous "
            "row's t to its own"
        ),
    ),
    Parameter(
        "deskew_reference",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "float",
        "seconds",
        None,
        "a finite number",
        "the time into whose frame points are moved; by default 0",
    ),
    Parameter(
        "interpolation",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "string",
        None,
        None,
        "screw or slerp",
        "between two deskew_poses: a screw motion, or a straight line and slerp; by default screw",
    ),
    Parameter(
        "max_age_ms",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "int",
        "milliseconds",
        None,
        "a whole number from 1 to 3600000",
        (
            "refuses points older than this when their job begins; their age counts from the parameter time or a "
            "PointCloud2's stamp"
        ),
    ),
    Parameter(
        "steps",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "steps",
        None,
        None,
        (
            "none, or up to 8 of transform, downsample, ring_outlier, radius_outlier, statistical_outlier, each as "
            "TYPE or TAG:TYPE; tags differ and have up to 23 letters, digits, _ and -"
        ),
        "what happens to the points before the operation, in this order; TAG.name sets a parameter of a step",
    ),
    Parameter(
        "point_cloud_range",
        ("voxelize",),
        "floats",
        "metres",
        None,
        "x_min,y_min,z_min,x_max,y_max,z_max, finite, each min below its max",
        "a point is in range if its cell index is inside the grid",
    ),
    Parameter(
        "voxel_size",
        ("voxelize",),
        "floats",
        "metres",
        None,
        "x,y,z, finite, each above 0",
        "size of a voxel along x, y and z",
    ),
    Parameter(
        "coordinates",
        ("voxelize",),
        "string",
        None,
        "xyz",
        "xyz or cylinder",
        (
            "with cylinder the service computes rows of rho, phi, z, x, y and the other columns; point_cloud_range "
            "bounds rho, phi, z"
        ),
    ),
    Parameter(
        "grid_shape",
        ("voxelize",),
        "ints",
        None,
        None,
        "3 whole numbers from 2 to 65536",
        (
            "with coordinates=cylinder, in place of voxel_size: the cells along rho, phi, z; points outside go to the "
            "outermost cells"
        ),
    ),
    Parameter(
        "max_points_per_voxel",
        ("voxelize",),
        "int",
        None,
        "32",
        "a whole number from 0 to 1024",
        "P: maximum number of points per voxel; 0 = no cap (dynamic voxelization)",
    ),
    Parameter(
        "max_points_by",
        ("voxelize",),
        "string",
        None,
        "first",
        "first or random",
        "which points a voxel keeps",
    ),
    Parameter(
        "seed",
        ("voxelize",),
        "int",
        None,
        "0",
        "a whole number from 0 to 2147483647",
        "with max_points_by=random: another seed chooses other points",
    ),
    Parameter(
        "max_voxels",
        ("voxelize",),
        "int",
        None,
        "40000",
        "a whole number from 1 to 16777216",
        "maximum number of voxels per cloud",
    ),
    Parameter(
        "max_voxels_by",
        ("voxelize",),
        "string",
        None,
        "first",
        "first or near or full",
        (
            "which voxels are kept: the first that appear, the nearest to the origin in x and y, or those with the "
            "most points"
        ),
    ),
    Parameter(
        "feature",
        ("voxelize",),
        "list",
        None,
        "mean",
        "a list of points, mean, pillar",
        "which tensors are computed",
    ),
    Parameter(
        "feature_dtype",
        ("voxelize",),
        "string",
        None,
        "float32",
        "float32 or float16",
        "type of voxel_features, pillar_features and bev_features",
    ),
    Parameter(
        "order",
        ("voxelize",),
        "string",
        None,
        "first",
        "first or key",
        "order of voxels: first appearance (spconv), or ascending batch, x, y, z (torch.unique of dynamic VFEs)",
    ),
    Parameter(
        "fill",
        ("voxelize",),
        "string",
        None,
        "zero",
        "zero or mean",
        "what pads voxels: zeros or the voxel's mean (spconv full_mean)",
    ),
    Parameter(
        "block_filter",
        ("voxelize",),
        "floats",
        None,
        "off",
        "off, or block_factor,block_size,height_threshold,height_high_threshold (factor 1 or more, size 1 to 32)",
        (
            "keeps a voxel only if the heights around it span more than the first threshold and less than the second "
            "(spconv)"
        ),
    ),
    Parameter(
        "fps",
        ("voxelize",),
        "int or ints",
        None,
        "off",
        "off, or whole numbers from 0 to 2147483647: one for all clouds, or one for each",
        "number of voxels to choose from each cloud by farthest point sampling of their means",
    ),
    Parameter(
        "start",
        ("voxelize", "fps"),
        "int",
        None,
        "0",
        "a whole number from 0 to 2147483647",
        "the first sample of each cloud: this point (in /v1/voxelize: this voxel), or the next finite one",
    ),
    Parameter(
        "columns",
        ("voxelize",),
        "list",
        None,
        None,
        "3 to 64 different names, beginning with x,y,z",
        "names of the columns that the model expects, such as x,y,z,intensity,time",
    ),
    Parameter(
        "intensity_range",
        ("voxelize",),
        "floats",
        None,
        None,
        "min,max, finite, min below max",
        "the intensity that the model expects; another range gets a warning",
    ),
    Parameter(
        "ground_z",
        ("voxelize",),
        "float",
        "metres",
        None,
        "a finite number",
        "where the model expects the ground; a ground more than 1 m off gets a warning",
    ),
    Parameter(
        "outputs",
        ("voxelize",),
        "list",
        None,
        None,
        (
            "a list of voxel_coords, voxel_num_points, voxels, voxel_features, pillar_features, point_voxel_ids, "
            "voxel_point_mask, sampled_indices, sampled_points, sampled_distances, bev_features, occupancy, "
            "occupancy_counts, occupancy_packed, bev_max_height, bev_min_height, bev_max_intensity, bev_top_intensity,"
            " bev_density, points, point_indices, point_rows, point_fates, point_steps"
        ),
        (
            "tensors to return; without it voxel_coords, voxel_num_points and the tensors that feature computes; with "
            "fps also sampled_indices and sampled_points"
        ),
    ),
    Parameter(
        "metadata",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "string",
        None,
        None,
        "full or stable",
        "stable leaves out ids, times, devices and regions, so that equal requests give equal files; by default full",
    ),
    Parameter(
        "latest",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "string",
        None,
        None,
        "1 to 63 letters, digits, '.', '_' or '-', but not '.' or '..'",
        "of the client's requests with this name, at most one waits: the newest",
    ),
    Parameter(
        "timeout_ms",
        ("voxelize", "fps", "points", "transform", "detect", "backbone", "serialize", "range_image"),
        "int",
        "milliseconds",
        "0",
        "a whole number from 0 to 3600000",
        "time after which an unfinished job gets 504; 0 = the server's own limit",
    ),
    Parameter(
        "transform.matrix",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "floats",
        None,
        None,
        "16 numbers, row by row, or 16 for each of up to 64 clouds; the last row of each matrix is 0,0,0,1",
        "moves the points: x' = ((m0*x + m1*y) + m2*z) + m3, and so on",
    ),
    Parameter(
        "transform.crop",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "floats",
        "metres",
        "off",
        "off, or x_min,y_min,z_min,x_max,y_max,z_max, finite, each min below its max",
        "removes moved points outside of this box",
    ),
    Parameter(
        "transform.cut",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "boxes",
        "metres",
        "off",
        "off, or up to 64 boxes in the form of crop, separated by semicolons",
        "removes moved points inside any of these boxes, such as points on the vehicle itself",
    ),
    Parameter(
        "transform.distance",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "floats",
        "metres",
        "off",
        "off, or min,max, finite, 0 or more, min below max",
        "keeps only moved points with min <= distance from the origin < max",
    ),
    Parameter(
        "downsample.voxel_size",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "float or floats",
        "metres",
        None,
        "one number for all axes, or x,y,z, finite, each above 0",
        "edges of the cells; points over 1048575 cells from the origin are dropped as out_of_lattice",
    ),
    Parameter(
        "downsample.method",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "string",
        None,
        "centroid",
        "first or centroid or center or nearest_centroid or random or all",
        (
            "what is kept of a cell: its first point; the mean, in the row of its first point; the point nearest to "
            "the cell's centre, or to the mean; a random point; or all its points"
        ),
    ),
    Parameter(
        "downsample.average",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "string",
        None,
        "all",
        "all or xyz",
        "with method=centroid: whether the mean replaces all columns or only x, y and z",
    ),
    Parameter(
        "downsample.cells",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "string",
        None,
        "floor",
        "floor or nearest",
        "how a coordinate becomes a cell: rounded down, or to the nearest whole number (MinkowskiEngine, MinkUNet)",
    ),
    Parameter(
        "downsample.origin",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "floats",
        "metres",
        "0,0,0",
        "x,y,z, finite",
        "where the cells begin",
    ),
    Parameter(
        "downsample.min_points",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "int",
        None,
        "1",
        "a whole number from 1 to 2147483647",
        "drops the points of cells with fewer points than this",
    ),
    Parameter(
        "downsample.every",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "int",
        None,
        None,
        "a whole number from 1 to 2147483647",
        "in place of voxel_size: N keeps the first of every N points of a cloud",
    ),
    Parameter(
        "downsample.seed",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "int",
        None,
        "0",
        "a whole number from 0 to 2147483647",
        "with method=random: another seed chooses other points",
    ),
    Parameter(
        "ring_outlier.ring",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "string",
        None,
        None,
        "the name of a column, up to 31 bytes, or kitti",
        (
            "the column with the number of each point's ring, whole numbers from 0 to 1023; kitti: for KITTI's files, "
            "whose points come ring by ring, without such a column"
        ),
    ),
    Parameter(
        "ring_outlier.distance_ratio",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "float",
        None,
        "1.03",
        "a number above 0",
        "neighbours belong together if the farther one's distance is below this many times the nearer one's",
    ),
    Parameter(
        "ring_outlier.object_length_threshold",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "float",
        "metres",
        "0.05",
        "a number above 0",
        "points that belong together stay if the first and the last are at least this far apart",
    ),
    Parameter(
        "ring_outlier.num_points_threshold",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "int",
        None,
        "off",
        "off, or a whole number from 1 to 2147483646",
        "points that belong together always stay if they outnumber this",
    ),
    Parameter(
        "ring_outlier.max_azimuth_diff",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "float",
        "degrees",
        "1",
        "a number from 0 to 89",
        "neighbours whose directions differ by more than this do not belong together",
    ),
    Parameter(
        "radius_outlier.radius",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "float",
        "metres",
        None,
        "a number from 0.001 to 10000",
        "points at most this far apart are neighbours",
    ),
    Parameter(
        "radius_outlier.min_neighbors",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "int",
        None,
        None,
        "a whole number from 1 to 64",
        "a point stays if it has at least this many neighbours, not counting itself",
    ),
    Parameter(
        "radius_outlier.axes",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "string",
        None,
        "xyz",
        "xyz or xy",
        "the axes along which distances are measured",
    ),
    Parameter(
        "statistical_outlier.mean_k",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "int",
        None,
        None,
        "a whole number from 1 to 128",
        "number of nearest other points whose distances are averaged",
    ),
    Parameter(
        "statistical_outlier.std_mul",
        ("voxelize", "fps", "points", "detect", "backbone", "serialize", "range_image"),
        "float",
        None,
        None,
        "a number, 0 or more",
        "a point stays if its mean distance is at most the cloud's mean plus this many standard deviations",
    ),
    Parameter(
        "num_samples",
        ("fps",),
        "int or ints",
        None,
        None,
        "whole numbers from 0 to 2147483647: one for all clouds, or one for each",
        "number of points to choose from each cloud (M)",
    ),
    Parameter(
        "outputs",
        ("fps",),
        "list",
        None,
        None,
        (
            "a list of sampled_indices, sampled_points, sampled_distances, points, point_indices, point_rows, "
            "point_fates, point_steps"
        ),
        "tensors to return; without it sampled_indices and sampled_points",
    ),
    Parameter(
        "outputs",
        ("points", "transform"),
        "list",
        None,
        None,
        "a list of points, point_indices, point_rows, point_fates, point_steps",
        "tensors to return; without it points and point_indices",
    ),
    Parameter(
        "matrix",
        ("transform",),
        "floats",
        None,
        None,
        "16 numbers, row by row, or 16 for each of up to 64 clouds; the last row of each matrix is 0,0,0,1",
        "moves the points: x' = ((m0*x + m1*y) + m2*z) + m3, and so on",
    ),
    Parameter(
        "crop",
        ("transform",),
        "floats",
        "metres",
        "off",
        "off, or x_min,y_min,z_min,x_max,y_max,z_max, finite, each min below its max",
        "removes moved points outside of this box",
    ),
    Parameter(
        "cut",
        ("transform",),
        "boxes",
        "metres",
        "off",
        "off, or up to 64 boxes in the form of crop, separated by semicolons",
        "removes moved points inside any of these boxes, such as points on the vehicle itself",
    ),
    Parameter(
        "distance",
        ("transform",),
        "floats",
        "metres",
        "off",
        "off, or min,max, finite, 0 or more, min below max",
        "keeps only moved points with min <= distance from the origin < max",
    ),
    Parameter(
        "model",
        ("detect", "backbone"),
        "string",
        None,
        None,
        "a name from GET /v1/models",
        "the model that detects",
    ),
    Parameter(
        "max_voxels_by",
        ("detect", "backbone"),
        "string",
        None,
        None,
        "first or near or full",
        (
            "which voxels are kept: the first that appear, the nearest to the origin in x and y, or those with the "
            "most points"
        ),
    ),
    Parameter(
        "max_points_by",
        ("detect", "backbone"),
        "string",
        None,
        None,
        "first or random",
        "which points a voxel keeps",
    ),
    Parameter(
        "seed",
        ("detect", "backbone"),
        "int",
        None,
        None,
        "a whole number from 0 to 2147483647",
        "with max_points_by=random: another seed chooses other points",
    ),
    Parameter(
        "precision",
        ("detect", "backbone"),
        "string",
        None,
        "float32",
        "float32 or float16",
        "type of the backbone's features and weights; float16 needs a GPU",
    ),
    Parameter(
        "score_threshold",
        ("detect",),
        "float",
        None,
        None,
        "a number from 0 to 1",
        "boxes with a lower score are dropped; a centre head also drops boxes with exactly this score",
    ),
    Parameter(
        "max_objects",
        ("detect",),
        "int",
        None,
        None,
        "a whole number from 1 to 1048576",
        "maximum number of candidates per task that become boxes: those with the highest scores",
    ),
    Parameter(
        "nms_threshold",
        ("detect",),
        "float",
        None,
        None,
        "a number from 0 to 1",
        "the same as iou_threshold of /v1/nms",
    ),
    Parameter(
        "nms_pre_max",
        ("detect",),
        "int",
        None,
        None,
        "a whole number from 1 to 1048576",
        (
            "maximum number of boxes to compare per task, or per class with nms_groups=class: those with the highest "
            "scores"
        ),
    ),
    Parameter(
        "nms_post_max",
        ("detect",),
        "int",
        None,
        None,
        "a whole number from 1 to 1048576",
        "maximum number of boxes to keep per task, or per class with nms_groups=class",
    ),
    Parameter(
        "class_agnostic",
        ("detect",),
        "string",
        None,
        None,
        "no or yes",
        "whether a box also suppresses boxes with other labels",
    ),
    Parameter(
        "track",
        ("detect",),
        "string",
        None,
        "no",
        "no or yes",
        "yes gives each box the id of its track; needs a stream",
    ),
    Parameter(
        "track_max_distance",
        ("detect",),
        "floats",
        "metres",
        None,
        "a number above 0, or one for each class",
        "how far a box, moved by velocity, may be from its track",
    ),
    Parameter(
        "track_max_age",
        ("detect",),
        "int",
        None,
        None,
        "a whole number from 0 to 100",
        "sweeps that a track survives without a box",
    ),
    Parameter(
        "outputs",
        ("detect",),
        "list",
        None,
        None,
        (
            "a list of boxes, scores, labels, box_indices, box_counts, track_ids, cls_preds, box_preds, dir_cls_preds,"
            " heatmap, center, height, dim, rot, vel, iou, sparse_coords, sparse_features, bev_features, points, "
            "point_indices, point_rows, point_fates, point_steps"
        ),
        "tensors to return; without it boxes, scores, labels, box_counts and, with track=yes, track_ids",
    ),
    Parameter(
        "outputs",
        ("backbone",),
        "list",
        None,
        None,
        (
            "a list of sparse_coords, sparse_features, bev_features, points, point_indices, point_rows, point_fates, "
            "point_steps"
        ),
        "tensors to return; without it sparse_coords and sparse_features",
    ),
    Parameter(
        "voxel_size",
        ("serialize",),
        "float or floats",
        "metres",
        None,
        "one number for all axes, or x,y,z, finite, each above 0",
        "edges of the cells; points over 1048575 cells from 0,0,0 are dropped as out_of_lattice",
    ),
    Parameter(
        "orders",
        ("serialize",),
        "list",
        None,
        "z,z-trans,hilbert,hilbert-trans",
        "a list of z, z-trans, hilbert, hilbert-trans",
        "the curves that order the points, each once; strides uses the first",
    ),
    Parameter(
        "depth",
        ("serialize",),
        "int",
        None,
        None,
        "a whole number from 1 to 16",
        "bits of a code for each axis; without it, the fewest that hold 1 + the largest value in grid_coord",
    ),
    Parameter(
        "grid_origin",
        ("serialize",),
        "floats",
        "metres",
        None,
        "x,y,z, finite",
        "the point whose cell is 0,0,0; points below are out_of_lattice; without it each cloud's least cell is 0,0,0",
    ),
    Parameter(
        "strides",
        ("serialize",),
        "ints",
        None,
        None,
        "1 to 8 powers of two, from 1 to 65536",
        "one stage of pooling per number, which joins that many cells along each axis; without it, no pooling",
    ),
    Parameter(
        "outputs",
        ("serialize",),
        "list",
        None,
        None,
        (
            "a list of grid_coord, serialized_code, serialized_order, serialized_inverse, pool_cluster, pool_indices, "
            "pool_indptr, pool_head_indices, pool_grid_coord, pool_serialized_code, pool_serialized_order, "
            "pool_serialized_inverse, points, point_indices, point_rows, point_fates, point_steps"
        ),
        "tensors to return; without it points, serialized_* and, with strides, pool_*",
    ),
    Parameter(
        "height",
        ("range_image",),
        "int",
        None,
        None,
        "a whole number from 1 to 1024",
        "rows of the image (H)",
    ),
    Parameter(
        "width",
        ("range_image",),
        "int",
        None,
        None,
        "a whole number from 1 to 65536",
        "columns of the image (W)",
    ),
    Parameter(
        "rows",
        ("range_image",),
        "string",
        None,
        "elevation",
        "elevation or ring or ring_down",
        "what gives a point its row: its elevation, or its ring, from the bottom (ring) or from the top (ring_down)",
    ),
    Parameter(
        "fov_up",
        ("range_image",),
        "float",
        "degrees",
        None,
        "a finite number",
        "elevation of the upper edge",
    ),
    Parameter(
        "fov_down",
        ("range_image",),
        "float",
        "degrees",
        None,
        "a finite number",
        "elevation of the lower edge",
    ),
    Parameter(
        "ring",
        ("range_image",),
        "string",
        None,
        None,
        "the name of a column, up to 31 bytes, or kitti",
        "the column with the number of the ring; kitti: as in the step ring_outlier",
    ),
    Parameter(
        "outside",
        ("range_image",),
        "string",
        None,
        "clamp",
        "clamp or drop",
        "whether a point above or below the field of view moves to the nearest row or is dropped",
    ),
    Parameter(
        "winner",
        ("range_image",),
        "string",
        None,
        "nearest",
        "nearest or farthest or first or last",
        "which of its points a pixel keeps",
    ),
    Parameter(
        "channels",
        ("range_image",),
        "list",
        None,
        None,
        "1 to 16 names: range, x, y, z, intensity, or other names in fields",
        "channels of range_image, by default range,x,y,z,intensity; range is the distance",
    ),
    Parameter(
        "means",
        ("range_image",),
        "floats",
        None,
        None,
        "a finite number for each channel",
        "with stds: a value becomes (value - mean) / std",
    ),
    Parameter(
        "stds",
        ("range_image",),
        "floats",
        None,
        None,
        "a finite number above 0 for each channel",
        "see means",
    ),
    Parameter(
        "empty",
        ("range_image",),
        "float",
        None,
        "-1",
        "a finite number",
        "value of pixels without a point; 0 if means are given",
    ),
    Parameter(
        "outputs",
        ("range_image",),
        "list",
        None,
        None,
        (
            "a list of range_image, range_indices, range_mask, point_pixels, point_ranges, pixel_coords, "
            "point_pixel_rows, points, point_indices, point_rows, point_fates, point_steps"
        ),
        "tensors to return; without it range_image, range_indices, range_mask and point_pixels",
    ),
]


class Transform(Step):
    """A step that moves points, and drops points by boxes and by their distance.

    Args:
        matrix: moves the points: x' = ((m0*x + m1*y) + m2*z) + m3, and so on; allowed: 16 numbers, row by row, or 16
            for each of up to 64 clouds; the last row of each matrix is 0,0,0,1
        crop: metres; removes moved points outside of this box; allowed: off, or x_min,y_min,z_min,x_max,y_max,z_max,
            finite, each min below its max; default: off
        cut: metres; removes moved points inside any of these boxes, such as points on the vehicle itself; allowed:
            off, or up to 64 boxes in the form of crop, separated by semicolons; default: off
        distance: metres; keeps only moved points with min <= distance from the origin < max; allowed: off, or
            min,max, finite, 0 or more, min below max; default: off
        tag: the step's name in the request and in the metadata; without it the name of its type
    """

    op = "transform"

    def __init__(
        self,
        matrix: Optional[Numbers] = None,
        *,
        crop: Optional[Union[Literal["off"], Numbers]] = None,
        cut: Optional[Union[Literal["off"], Numbers]] = None,
        distance: Optional[Union[Literal["off"], Numbers]] = None,
        tag: Optional[str] = None,
    ) -> None:
        Step.__init__(self, locals())


class Downsample(Step):
    """A step that keeps few points of each cell of a lattice.

    Args:
        voxel_size: metres; edges of the cells; points over 1048575 cells from the origin are dropped as
            out_of_lattice; allowed: one number for all axes, or x,y,z, finite, each above 0
        method: what is kept of a cell: its first point; the mean, in the row of its first point; the point nearest
            to the cell's centre, or to the mean; a random point; or all its points; default: centroid
        average: with method=centroid: whether the mean replaces all columns or only x, y and z; default: all
        cells: how a coordinate becomes a cell: rounded down, or to the nearest whole number (MinkowskiEngine,
            MinkUNet); default: floor
        origin: metres; where the cells begin; allowed: x,y,z, finite; default: 0,0,0
        min_points: drops the points of cells with fewer points than this; allowed: a whole number from 1 to
            2147483647; default: 1
        every: in place of voxel_size: N keeps the first of every N points of a cloud; allowed: a whole number from 1
            to 2147483647
        seed: with method=random: another seed chooses other points; allowed: a whole number from 0 to 2147483647;
            default: 0
        tag: the step's name in the request and in the metadata; without it the name of its type
    """

    op = "downsample"

    def __init__(
        self,
        voxel_size: Optional[Union[float, Numbers]] = None,
        *,
        method: Optional[Literal["first", "centroid", "center", "nearest_centroid", "random", "all"]] = None,
        average: Optional[Literal["all", "xyz"]] = None,
        cells: Optional[Literal["floor", "nearest"]] = None,
        origin: Optional[Numbers] = None,
        min_points: Optional[int] = None,
        every: Optional[int] = None,
        seed: Optional[int] = None,
        tag: Optional[str] = None,
    ) -> None:
        Step.__init__(self, locals())


class RingOutlier(Step):
    """A step that drops points that hang in the air between two surfaces.

    Args:
        ring: the column with the number of each point's ring, whole numbers from 0 to 1023; kitti: for KITTI's
            files, whose points come ring by ring, without such a column; allowed: the name of a column, up to 31
            bytes, or kitti
        distance_ratio: neighbours belong together if the farther one's distance is below this many times the nearer
            one's; allowed: a number above 0; default: 1.03
        object_length_threshold: metres; points that belong together stay if the first and the last are at least this
            far apart; allowed: a number above 0; default: 0.05
        num_points_threshold: points that belong together always stay if they outnumber this; allowed: off, or a
            whole number from 1 to 2147483646; default: off
        max_azimuth_diff: degrees; neighbours whose directions differ by more than this do not belong together;
            allowed: a number from 0 to 89; default: 1
        tag: the step's name in the request and in the metadata; without it the name of its type
    """

    op = "ring_outlier"

    def __init__(
        self,
        ring: str,
        *,
        distance_ratio: Optional[float] = None,
        object_length_threshold: Optional[float] = None,
        num_points_threshold: Optional[Union[Literal["off"], int]] = None,
        max_azimuth_diff: Optional[float] = None,
        tag: Optional[str] = None,
    ) -> None:
        Step.__init__(self, locals())


class RadiusOutlier(Step):
    """A step that drops points with few neighbours.

    Args:
        radius: metres; points at most this far apart are neighbours; allowed: a number from 0.001 to 10000
        min_neighbors: a point stays if it has at least this many neighbours, not counting itself; allowed: a whole
            number from 1 to 64
        axes: the axes along which distances are measured; default: xyz
        tag: the step's name in the request and in the metadata; without it the name of its type
    """

    op = "radius_outlier"

    def __init__(
        self,
        radius: float,
        *,
        min_neighbors: int,
        axes: Optional[Literal["xyz", "xy"]] = None,
        tag: Optional[str] = None,
    ) -> None:
        Step.__init__(self, locals())


class StatisticalOutlier(Step):
    """A step that drops points that are far from their nearest neighbours.

    Args:
        mean_k: number of nearest other points whose distances are averaged; allowed: a whole number from 1 to 128
        std_mul: a point stays if its mean distance is at most the cloud's mean plus this many standard deviations;
            allowed: a number, 0 or more
        tag: the step's name in the request and in the metadata; without it the name of its type
    """

    op = "statistical_outlier"

    def __init__(
        self,
        mean_k: int,
        *,
        std_mul: float,
        tag: Optional[str] = None,
    ) -> None:
        Step.__init__(self, locals())


class SweepParameters(TypedDict, total=False):
    """The parameters of sweeps, which operations on points have."""

    stream: Optional[str]
    streams: Optional[Sequence[str]]
    sweeps: Optional[int]
    pose: Optional[Numbers]
    poses: Optional[Numbers]
    mount: Optional[Numbers]
    time: Optional[float]
    times: Optional[Numbers]


class VoxelizeParameters(TypedDict, total=False):
    """The parameters of voxelize, without those of sweeps."""

    preset: Optional[str]
    num_features: Optional[int]
    dtype: Optional[Union[VoxelizeDtype, Sequence[VoxelizeDtype]]]
    scale: Optional[Numbers]
    filter: Optional[Union[VoxelizeFilter, Sequence[VoxelizeFilter]]]
    format: Optional[VoxelizeFormat]
    fields: Optional[Sequence[str]]
    intensity_scale: Optional[float]
    point_counts: Optional[Ints]
    time_column: Optional[Flag]
    remove_close: Optional[float]
    time_field: Optional[str]
    time_unit: Optional[Literal["s", "ms", "us", "ns"]]
    time_origin: Optional[Union[float, str]]
    deskew: Optional[Literal["off", "poses", "twists", "stream"]]
    deskew_poses: Optional[Union[Numbers, str]]
    deskew_twists: Optional[Union[Numbers, str]]
    deskew_reference: Optional[float]
    interpolation: Optional[Literal["screw", "slerp"]]
    max_age_ms: Optional[int]
    steps: Optional[Steps]
    point_cloud_range: Optional[Numbers]
    voxel_size: Optional[Numbers]
    coordinates: Optional[Literal["xyz", "cylinder"]]
    grid_shape: Optional[Ints]
    max_points_per_voxel: Optional[int]
    max_points_by: Optional[Literal["first", "random"]]
    seed: Optional[int]
    max_voxels: Optional[int]
    max_voxels_by: Optional[Literal["first", "near", "full"]]
    feature: Optional[Union[VoxelizeFeature, Sequence[VoxelizeFeature]]]
    feature_dtype: Optional[Literal["float32", "float16"]]
    order: Optional[Literal["first", "key"]]
    fill: Optional[Literal["zero", "mean"]]
    block_filter: Optional[Union[Literal["off"], Numbers]]
    fps: Optional[Union[Literal["off"], int, Ints]]
    start: Optional[int]
    columns: Optional[Sequence[str]]
    intensity_range: Optional[Numbers]
    ground_z: Optional[float]
    outputs: Optional[Union[VoxelizeOutputs, Sequence[VoxelizeOutputs]]]
    metadata: Optional[Literal["full", "stable"]]
    latest: Optional[str]
    timeout_ms: Optional[int]


class VoxelizeSweepParameters(VoxelizeParameters, SweepParameters, total=False):
    """The parameters of voxelize."""


class FpsParameters(TypedDict, total=False):
    """The parameters of fps, without those of sweeps."""

    num_samples: Optional[Union[int, Ints]]
    preset: Optional[str]
    num_features: Optional[int]
    dtype: Optional[Union[FpsDtype, Sequence[FpsDtype]]]
    scale: Optional[Numbers]
    filter: Optional[Union[FpsFilter, Sequence[FpsFilter]]]
    format: Optional[FpsFormat]
    fields: Optional[Sequence[str]]
    intensity_scale: Optional[float]
    point_counts: Optional[Ints]
    time_column: Optional[Flag]
    remove_close: Optional[float]
    time_field: Optional[str]
    time_unit: Optional[Literal["s", "ms", "us", "ns"]]
    time_origin: Optional[Union[float, str]]
    deskew: Optional[Literal["off", "poses", "twists", "stream"]]
    deskew_poses: Optional[Union[Numbers, str]]
    deskew_twists: Optional[Union[Numbers, str]]
    deskew_reference: Optional[float]
    interpolation: Optional[Literal["screw", "slerp"]]
    max_age_ms: Optional[int]
    steps: Optional[Steps]
    start: Optional[int]
    outputs: Optional[Union[FpsOutputs, Sequence[FpsOutputs]]]
    metadata: Optional[Literal["full", "stable"]]
    latest: Optional[str]
    timeout_ms: Optional[int]


class FpsSweepParameters(FpsParameters, SweepParameters, total=False):
    """The parameters of fps."""


class PointsParameters(TypedDict, total=False):
    """The parameters of points, without those of sweeps."""

    preset: Optional[str]
    num_features: Optional[int]
    dtype: Optional[Union[PointsDtype, Sequence[PointsDtype]]]
    scale: Optional[Numbers]
    filter: Optional[Union[PointsFilter, Sequence[PointsFilter]]]
    format: Optional[PointsFormat]
    fields: Optional[Sequence[str]]
    intensity_scale: Optional[float]
    point_counts: Optional[Ints]
    time_column: Optional[Flag]
    remove_close: Optional[float]
    time_field: Optional[str]
    time_unit: Optional[Literal["s", "ms", "us", "ns"]]
    time_origin: Optional[Union[float, str]]
    deskew: Optional[Literal["off", "poses", "twists", "stream"]]
    deskew_poses: Optional[Union[Numbers, str]]
    deskew_twists: Optional[Union[Numbers, str]]
    deskew_reference: Optional[float]
    interpolation: Optional[Literal["screw", "slerp"]]
    max_age_ms: Optional[int]
    steps: Optional[Steps]
    outputs: Optional[Union[PointsOutputs, Sequence[PointsOutputs]]]
    metadata: Optional[Literal["full", "stable"]]
    latest: Optional[str]
    timeout_ms: Optional[int]


class PointsSweepParameters(PointsParameters, SweepParameters, total=False):
    """The parameters of points."""


class TransformParameters(TypedDict, total=False):
    """The parameters of transform, without those of sweeps."""

    preset: Optional[str]
    num_features: Optional[int]
    dtype: Optional[Union[TransformDtype, Sequence[TransformDtype]]]
    scale: Optional[Numbers]
    filter: Optional[Union[TransformFilter, Sequence[TransformFilter]]]
    format: Optional[TransformFormat]
    fields: Optional[Sequence[str]]
    intensity_scale: Optional[float]
    point_counts: Optional[Ints]
    time_column: Optional[Flag]
    remove_close: Optional[float]
    time_field: Optional[str]
    time_unit: Optional[Literal["s", "ms", "us", "ns"]]
    time_origin: Optional[Union[float, str]]
    deskew: Optional[Literal["off", "poses", "twists", "stream"]]
    deskew_poses: Optional[Union[Numbers, str]]
    deskew_twists: Optional[Union[Numbers, str]]
    deskew_reference: Optional[float]
    interpolation: Optional[Literal["screw", "slerp"]]
    max_age_ms: Optional[int]
    outputs: Optional[Union[TransformOutputs, Sequence[TransformOutputs]]]
    metadata: Optional[Literal["full", "stable"]]
    latest: Optional[str]
    timeout_ms: Optional[int]
    matrix: Optional[Numbers]
    crop: Optional[Union[Literal["off"], Numbers]]
    cut: Optional[Union[Literal["off"], Numbers]]
    distance: Optional[Union[Literal["off"], Numbers]]


class TransformSweepParameters(TransformParameters, SweepParameters, total=False):
    """The parameters of transform."""


class DetectParameters(TypedDict, total=False):
    """The parameters of detect, without those of sweeps."""

    model: Optional[str]
    num_features: Optional[int]
    dtype: Optional[Union[DetectDtype, Sequence[DetectDtype]]]
    scale: Optional[Numbers]
    filter: Optional[Union[DetectFilter, Sequence[DetectFilter]]]
    format: Optional[DetectFormat]
    fields: Optional[Sequence[str]]
    intensity_scale: Optional[float]
    point_counts: Optional[Ints]
    time_column: Optional[Flag]
    remove_close: Optional[float]
    time_field: Optional[str]
    time_unit: Optional[Literal["s", "ms", "us", "ns"]]
    time_origin: Optional[Union[float, str]]
    deskew: Optional[Literal["off", "poses", "twists", "stream"]]
    deskew_poses: Optional[Union[Numbers, str]]
    deskew_twists: Optional[Union[Numbers, str]]
    deskew_reference: Optional[float]
    interpolation: Optional[Literal["screw", "slerp"]]
    max_age_ms: Optional[int]
    steps: Optional[Steps]
    max_voxels_by: Optional[Literal["first", "near", "full"]]
    max_points_by: Optional[Literal["first", "random"]]
    seed: Optional[int]
    precision: Optional[Literal["float32", "float16"]]
    score_threshold: Optional[float]
    max_objects: Optional[int]
    nms_threshold: Optional[float]
    nms_pre_max: Optional[int]
    nms_post_max: Optional[int]
    class_agnostic: Optional[Flag]
    track: Optional[Flag]
    track_max_distance: Optional[Numbers]
    track_max_age: Optional[int]
    outputs: Optional[Union[DetectOutputs, Sequence[DetectOutputs]]]
    metadata: Optional[Literal["full", "stable"]]
    latest: Optional[str]
    timeout_ms: Optional[int]


class DetectSweepParameters(DetectParameters, SweepParameters, total=False):
    """The parameters of detect."""


class BackboneParameters(TypedDict, total=False):
    """The parameters of backbone, without those of sweeps."""

    model: Optional[str]
    num_features: Optional[int]
    dtype: Optional[Union[BackboneDtype, Sequence[BackboneDtype]]]
    scale: Optional[Numbers]
    filter: Optional[Union[BackboneFilter, Sequence[BackboneFilter]]]
    format: Optional[BackboneFormat]
    fields: Optional[Sequence[str]]
    intensity_scale: Optional[float]
    point_counts: Optional[Ints]
    time_column: Optional[Flag]
    remove_close: Optional[float]
    time_field: Optional[str]
    time_unit: Optional[Literal["s", "ms", "us", "ns"]]
    time_origin: Optional[Union[float, str]]
    deskew: Optional[Literal["off", "poses", "twists", "stream"]]
    deskew_poses: Optional[Union[Numbers, str]]
    deskew_twists: Optional[Union[Numbers, str]]
    deskew_reference: Optional[float]
    interpolation: Optional[Literal["screw", "slerp"]]
    max_age_ms: Optional[int]
    steps: Optional[Steps]
    max_voxels_by: Optional[Literal["first", "near", "full"]]
    max_points_by: Optional[Literal["first", "random"]]
    seed: Optional[int]
    precision: Optional[Literal["float32", "float16"]]
    outputs: Optional[Union[BackboneOutputs, Sequence[BackboneOutputs]]]
    metadata: Optional[Literal["full", "stable"]]
    latest: Optional[str]
    timeout_ms: Optional[int]


class BackboneSweepParameters(BackboneParameters, SweepParameters, total=False):
    """The parameters of backbone."""


class SerializeParameters(TypedDict, total=False):
    """The parameters of serialize, without those of sweeps."""

    preset: Optional[str]
    num_features: Optional[int]
    dtype: Optional[Union[SerializeDtype, Sequence[SerializeDtype]]]
    scale: Optional[Numbers]
    filter: Optional[Union[SerializeFilter, Sequence[SerializeFilter]]]
    format: Optional[SerializeFormat]
    fields: Optional[Sequence[str]]
    intensity_scale: Optional[float]
    point_counts: Optional[Ints]
    time_column: Optional[Flag]
    remove_close: Optional[float]
    time_field: Optional[str]
    time_unit: Optional[Literal["s", "ms", "us", "ns"]]
    time_origin: Optional[Union[float, str]]
    deskew: Optional[Literal["off", "poses", "twists", "stream"]]
    deskew_poses: Optional[Union[Numbers, str]]
    deskew_twists: Optional[Union[Numbers, str]]
    deskew_reference: Optional[float]
    interpolation: Optional[Literal["screw", "slerp"]]
    max_age_ms: Optional[int]
    steps: Optional[Steps]
    voxel_size: Optional[Union[float, Numbers]]
    orders: Optional[Union[SerializeOrders, Sequence[SerializeOrders]]]
    depth: Optional[int]
    grid_origin: Optional[Numbers]
    strides: Optional[Ints]
    outputs: Optional[Union[SerializeOutputs, Sequence[SerializeOutputs]]]
    metadata: Optional[Literal["full", "stable"]]
    latest: Optional[str]
    timeout_ms: Optional[int]


class SerializeSweepParameters(SerializeParameters, SweepParameters, total=False):
    """The parameters of serialize."""


class RangeImageParameters(TypedDict, total=False):
    """The parameters of range_image, without those of sweeps."""

    preset: Optional[str]
    num_features: Optional[int]
    dtype: Optional[Union[RangeImageDtype, Sequence[RangeImageDtype]]]
    scale: Optional[Numbers]
    filter: Optional[Union[RangeImageFilter, Sequence[RangeImageFilter]]]
    format: Optional[RangeImageFormat]
    fields: Optional[Sequence[str]]
    intensity_scale: Optional[float]
    point_counts: Optional[Ints]
    time_column: Optional[Flag]
    remove_close: Optional[float]
    time_field: Optional[str]
    time_unit: Optional[Literal["s", "ms", "us", "ns"]]
    time_origin: Optional[Union[float, str]]
    deskew: Optional[Literal["off", "poses", "twists", "stream"]]
    deskew_poses: Optional[Union[Numbers, str]]
    deskew_twists: Optional[Union[Numbers, str]]
    deskew_reference: Optional[float]
    interpolation: Optional[Literal["screw", "slerp"]]
    max_age_ms: Optional[int]
    steps: Optional[Steps]
    height: Optional[int]
    width: Optional[int]
    rows: Optional[Literal["elevation", "ring", "ring_down"]]
    fov_up: Optional[float]
    fov_down: Optional[float]
    ring: Optional[str]
    outside: Optional[Literal["clamp", "drop"]]
    winner: Optional[Literal["nearest", "farthest", "first", "last"]]
    channels: Optional[Sequence[str]]
    means: Optional[Numbers]
    stds: Optional[Numbers]
    empty: Optional[float]
    outputs: Optional[Union[RangeImageOutputs, Sequence[RangeImageOutputs]]]
    metadata: Optional[Literal["full", "stable"]]
    latest: Optional[str]
    timeout_ms: Optional[int]


class RangeImageSweepParameters(RangeImageParameters, SweepParameters, total=False):
    """The parameters of range_image."""


class VoxelizeResult(Result):
    """The tensors of voxelize.

    Sizes: N rows of the body, of all clouds; C columns of a row; V voxels of all clouds; P max_points_per_voxel; B
    clouds of the batch; M samples of a cloud; if each cloud has its own number, [samples of all clouds] replaces [B,
    M]; R points of all clouds that the steps left; ny cells of a grid or a map along y; nx cells of a grid or a map
    along x; nz cells of a grid along z.
    """

    @property
    def voxel_coords(self) -> NDArray[np.int32]:
        """[V, 4] int32: batch, z, y, x of each voxel, in the order that the parameter order says."""
        return self._tensor("voxel_coords")

    @property
    def voxel_num_points(self) -> NDArray[np.int32]:
        """[V] int32: points that each voxel keeps."""
        return self._tensor("voxel_num_points")

    @property
    def voxels(self) -> Optional[NDArray[np.float32]]:
        """[V, P, C] float32: the points that each voxel keeps, in the body's order, padded as fill says. Only with
        feature=points, else None.
        """
        return self.tensors.get("voxels")

    @property
    def voxel_features(self) -> Optional[NDArray[Union[np.float32, np.float16]]]:
        """[V, C] float32 or float16: mean of the points that each voxel keeps. Only with feature=mean, else None."""
        return self.tensors.get("voxel_features")

    @property
    def pillar_features(self) -> Optional[NDArray[Union[np.float32, np.float16]]]:
        """[V, P, C+6] float32 or float16: the point, its offset from the voxel's mean x, y, z, its offset from the
        voxel's centre; zeros in padding. Only with feature=pillar, else None.
        """
        return self.tensors.get("pillar_features")

    @property
    def point_voxel_ids(self) -> Optional[NDArray[np.int32]]:
        """[N] int32: row of each point's voxel; -1 if the point is dropped. Only if outputs names it, else None."""
        return self.tensors.get("point_voxel_ids")

    @property
    def voxel_point_mask(self) -> Optional[NDArray[np.uint8]]:
        """[V, P] uint8: which rows of voxels are points: 1 for a point, 0 for padding. Only if outputs names it,
        else None.
        """
        return self.tensors.get("voxel_point_mask")

    @property
    def sampled_indices(self) -> Optional[NDArray[np.int32]]:
        """[B, M] int32: row of the sample among its cloud's voxels, in the order chosen. Only with fps, else None."""
        return self.tensors.get("sampled_indices")

    @property
    def sampled_points(self) -> Optional[NDArray[np.float32]]:
        """[B, M, C] float32: the sample's mean. Only with fps, else None."""
        return self.tensors.get("sampled_points")

    @property
    def sampled_distances(self) -> Optional[NDArray[np.float32]]:
        """[B, M] float32: distance to the nearest voxel chosen before; infinite for the first of a cloud. Only with
        fps, if outputs names it, else None.
        """
        return self.tensors.get("sampled_distances")

    @property
    def bev_features(self) -> Optional[NDArray[Union[np.float32, np.float16]]]:
        """[B, C*nz, ny, nx] float32 or float16: voxel_features at channel c*nz + z, row y, column x; zeros
        elsewhere. Only if outputs names it, else None.
        """
        return self.tensors.get("bev_features")

    @property
    def occupancy(self) -> Optional[NDArray[np.uint8]]:
        """[B, nz, ny, nx] uint8: 1 if a point in range is in the cell. Only if outputs names it, else None."""
        return self.tensors.get("occupancy")

    @property
    def occupancy_counts(self) -> Optional[NDArray[np.int32]]:
        """[B, nz, ny, nx] int32: number of points in range in the cell. Only if outputs names it, else None."""
        return self.tensors.get("occupancy_counts")

    @property
    def occupancy_packed(self) -> Optional[NDArray[np.uint8]]:
        """[B, nz, ny, ceil(nx/8)] uint8: occupancy as bits; cell x is bit x % 8, the lowest first, of byte x / 8.
        Only if outputs names it, else None.
        """
        return self.tensors.get("occupancy_packed")

    @property
    def bev_max_height(self) -> Optional[NDArray[np.float32]]:
        """[B, ny, nx] float32: largest z of the points in range above the cell; 0 if there is no such point. Only if
        outputs names it, else None.
        """
        return self.tensors.get("bev_max_height")

    @property
    def bev_min_height(self) -> Optional[NDArray[np.float32]]:
        """[B, ny, nx] float32: smallest z of these points; 0 if there is no such point. Only if outputs names it,
        else None.
        """
        return self.tensors.get("bev_min_height")

    @property
    def bev_max_intensity(self) -> Optional[NDArray[np.float32]]:
        """[B, ny, nx] float32: largest finite intensity of these points; 0 if there is no such point. Only if
        outputs names it, else None.
        """
        return self.tensors.get("bev_max_intensity")

    @property
    def bev_top_intensity(self) -> Optional[NDArray[np.float32]]:
        """[B, ny, nx] float32: intensity of the highest of these points; if several are equally high, of the first;
        0 if there is no such point. Only if outputs names it, else None.
        """
        return self.tensors.get("bev_top_intensity")

    @property
    def bev_density(self) -> Optional[NDArray[np.float32]]:
        """[B, ny, nx] float32: min(1, ln(n + 1) / ln 64) of n points. Only if outputs names it, else None."""
        return self.tensors.get("bev_density")

    @property
    def points(self) -> Optional[NDArray[np.float32]]:
        """[R, C] float32: the points that the steps left, of all clouds, in the order of the body. Only if outputs
        names it, else None.
        """
        return self.tensors.get("points")

    @property
    def point_indices(self) -> Optional[NDArray[np.int32]]:
        """[R] int32: the row of each of these points in the body, counted over all clouds. Only if outputs names it,
        else None.
        """
        return self.tensors.get("point_indices")

    @property
    def point_rows(self) -> Optional[NDArray[np.int32]]:
        """[N] int32: for each row of the body, its row in points; for a merged point, the row of the point that
        represents it; -1 if dropped. Only if outputs names it, else None.
        """
        return self.tensors.get("point_rows")

    @property
    def point_fates(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: what the steps did to each row of the body, as an index of fate_names of the metadata; 0 if
        they kept the row. Only if outputs names it, else None.
        """
        return self.tensors.get("point_fates")

    @property
    def point_steps(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: the number, from 1, of the step that dropped the row; 0 if no step did. Only if outputs names
        it, else None.
        """
        return self.tensors.get("point_steps")


class FpsResult(Result):
    """The tensors of fps.

    Sizes: N rows of the body, of all clouds; C columns of a row; B clouds of the batch; M samples of a cloud; if
    each cloud has its own number, [samples of all clouds] replaces [B, M]; R points of all clouds that the steps
    left.
    """

    @property
    def sampled_indices(self) -> NDArray[np.int32]:
        """[B, M] int32: number of the point in its own cloud, in the order chosen."""
        return self._tensor("sampled_indices")

    @property
    def sampled_points(self) -> NDArray[np.float32]:
        """[B, M, C] float32: the point's row, widened to float32."""
        return self._tensor("sampled_points")

    @property
    def sampled_distances(self) -> Optional[NDArray[np.float32]]:
        """[B, M] float32: distance to the nearest point chosen before; infinite for the first of a cloud. Only if
        outputs names it, else None.
        """
        return self.tensors.get("sampled_distances")

    @property
    def points(self) -> Optional[NDArray[np.float32]]:
        """[R, C] float32: the points that the steps left, of all clouds, in the order of the body. Only if outputs
        names it, else None.
        """
        return self.tensors.get("points")

    @property
    def point_indices(self) -> Optional[NDArray[np.int32]]:
        """[R] int32: the row of each of these points in the body, counted over all clouds. Only if outputs names it,
        else None.
        """
        return self.tensors.get("point_indices")

    @property
    def point_rows(self) -> Optional[NDArray[np.int32]]:
        """[N] int32: for each row of the body, its row in points; for a merged point, the row of the point that
        represents it; -1 if dropped. Only if outputs names it, else None.
        """
        return self.tensors.get("point_rows")

    @property
    def point_fates(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: what the steps did to each row of the body, as an index of fate_names of the metadata; 0 if
        they kept the row. Only if outputs names it, else None.
        """
        return self.tensors.get("point_fates")

    @property
    def point_steps(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: the number, from 1, of the step that dropped the row; 0 if no step did. Only if outputs names
        it, else None.
        """
        return self.tensors.get("point_steps")


class PointsResult(Result):
    """The tensors of points.

    Sizes: N rows of the body, of all clouds; C columns of a row; R points of all clouds that the steps left.
    """

    @property
    def points(self) -> NDArray[np.float32]:
        """[R, C] float32: the points that the steps left, of all clouds, in the order of the body, widened to
        float32.
        """
        return self._tensor("points")

    @property
    def point_indices(self) -> NDArray[np.int32]:
        """[R] int32: the row of each of these points in the body, counted over all clouds."""
        return self._tensor("point_indices")

    @property
    def point_rows(self) -> Optional[NDArray[np.int32]]:
        """[N] int32: for each row of the body, its row in points; for a merged point, the row of the point that
        represents it; -1 if dropped. Only if outputs names it, else None.
        """
        return self.tensors.get("point_rows")

    @property
    def point_fates(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: what the steps did to each row of the body, as an index of fate_names of the metadata; 0 if
        they kept the row. Only if outputs names it, else None.
        """
        return self.tensors.get("point_fates")

    @property
    def point_steps(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: the number, from 1, of the step that dropped the row; 0 if no step did. Only if outputs names
        it, else None.
        """
        return self.tensors.get("point_steps")


class TransformResult(Result):
    """The tensors of transform.

    Sizes: N rows of the body, of all clouds; C columns of a row; R points of all clouds that the steps left.
    """

    @property
    def points(self) -> NDArray[np.float32]:
        """[R, C] float32: the points that the steps left, of all clouds, in the order of the body, widened to
        float32.
        """
        return self._tensor("points")

    @property
    def point_indices(self) -> NDArray[np.int32]:
        """[R] int32: the row of each of these points in the body, counted over all clouds."""
        return self._tensor("point_indices")

    @property
    def point_rows(self) -> Optional[NDArray[np.int32]]:
        """[N] int32: for each row of the body, its row in points; for a merged point, the row of the point that
        represents it; -1 if dropped. Only if outputs names it, else None.
        """
        return self.tensors.get("point_rows")

    @property
    def point_fates(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: what the steps did to each row of the body, as an index of fate_names of the metadata; 0 if
        they kept the row. Only if outputs names it, else None.
        """
        return self.tensors.get("point_fates")

    @property
    def point_steps(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: the number, from 1, of the step that dropped the row; 0 if no step did. Only if outputs names
        it, else None.
        """
        return self.tensors.get("point_steps")


class NmsResult(Result):
    """The tensors of nms.

    Sizes: K kept points or boxes of all clouds.
    """

    @property
    def kept_indices(self) -> NDArray[np.int32]:
        """[K] int32: the rows of the kept boxes, in the order of their ranks, counted over all clouds."""
        return self._tensor("kept_indices")


class DecodeResult(Result):
    """The tensors of decode.

    Sizes: B clouds of the batch; K kept points or boxes of all clouds.
    """

    @property
    def boxes(self) -> NDArray[np.float32]:
        """[K, 7 or 9] float32: x, y, z, dx, dy, dz, heading, and the velocity along x and y if the body has the map
        vel, or the parameter velocity is yes; best first within each cloud, or within each of its tasks.
        """
        return self._tensor("boxes")

    @property
    def scores(self) -> NDArray[np.float32]:
        """[K] float32: score of each box, from 0 to 1."""
        return self._tensor("scores")

    @property
    def labels(self) -> NDArray[np.int32]:
        """[K] int32: class of each box, from 0."""
        return self._tensor("labels")

    @property
    def box_indices(self) -> NDArray[np.int32]:
        """[K] int32: for each box, the flat index of its anchor, or of its class and cell, within its cloud."""
        return self._tensor("box_indices")

    @property
    def box_counts(self) -> NDArray[np.int32]:
        """[B] int32: boxes of each cloud."""
        return self._tensor("box_counts")


class ScatterResult(Result):
    """The tensors of scatter.

    Sizes: C columns of a row; B clouds of the batch; ny cells of a grid or a map along y; nx cells of a grid or a
    map along x; nz cells of a grid along z.
    """

    @property
    def bev_features(self) -> NDArray[Union[np.float32, np.float16]]:
        """[B, C*nz, ny, nx] float32 or float16: value c of a row at channel c*nz + z, row y, column x; zeros
        elsewhere; the dtype is that of features.
        """
        return self._tensor("bev_features")


class DetectResult(Result):
    """The tensors of detect.

    Sizes: N rows of the body, of all clouds; C columns of a row; B clouds of the batch; K kept points or boxes of
    all clouds; R points of all clouds that the steps left; ny cells of a grid or a map along y; nx cells of a grid
    or a map along x; L classes of all anchors of a cell; for a centre head, the classes; O box values of all anchors
    of a cell; D direction bins of all anchors of a cell; nz cells of a grid along z; T tasks of a centre head; H
    rows of a range image; cells of the network's maps along y; W columns of a range image; cells of the network's
    maps along x; S occupied cells of a backbone's last level, of all clouds.
    """

    @property
    def boxes(self) -> NDArray[np.float32]:
        """[K, 7 or 9] float32: x, y, z, dx, dy, dz, heading, and the velocity along x and y if the model has it;
        best first within each cloud, or within each of its tasks.
        """
        return self._tensor("boxes")

    @property
    def scores(self) -> NDArray[np.float32]:
        """[K] float32: score of each box, from 0 to 1."""
        return self._tensor("scores")

    @property
    def labels(self) -> NDArray[np.int32]:
        """[K] int32: class of each box, from 0; class_names of the metadata has the names."""
        return self._tensor("labels")

    @property
    def box_counts(self) -> NDArray[np.int32]:
        """[B] int32: boxes of each cloud."""
        return self._tensor("box_counts")

    @property
    def track_ids(self) -> Optional[NDArray[np.int64]]:
        """[K] int64: the id of each box's track, from 1. Only if track is yes, else None."""
        return self.tensors.get("track_ids")

    @property
    def box_indices(self) -> Optional[NDArray[np.int32]]:
        """[K] int32: for each box, the flat index of its anchor, or of its class and cell, within its cloud. Only if
        outputs names it, else None.
        """
        return self.tensors.get("box_indices")

    @property
    def cls_preds(self) -> Optional[NDArray[Union[np.float32, np.float16]]]:
        """[B, H, W, L] float32 or float16: logits of classes, channels last; of an anchor head. Only if outputs
        names it, else None.
        """
        return self.tensors.get("cls_preds")

    @property
    def box_preds(self) -> Optional[NDArray[Union[np.float32, np.float16]]]:
        """[B, H, W, O] float32 or float16: offsets of boxes; of an anchor head. Only if outputs names it, else None."""
        return self.tensors.get("box_preds")

    @property
    def dir_cls_preds(self) -> Optional[NDArray[Union[np.float32, np.float16]]]:
        """[B, H, W, D] float32 or float16: logits of directions; of an anchor head that has directions. Only if
        outputs names it, else None.
        """
        return self.tensors.get("dir_cls_preds")

    @property
    def heatmap(self) -> Optional[NDArray[Union[np.float32, np.float16]]]:
        """[B, H, W, L] float32 or float16: logits of classes, channels last; of a centre head. Only if outputs names
        it, else None.
        """
        return self.tensors.get("heatmap")

    @property
    def center(self) -> Optional[NDArray[Union[np.float32, np.float16]]]:
        """[B, H, W, 2*T] float32 or float16: offsets of centres in a cell; of a centre head. Only if outputs names
        it, else None.
        """
        return self.tensors.get("center")

    @property
    def height(self) -> Optional[NDArray[Union[np.float32, np.float16]]]:
        """[B, H, W, T] float32 or float16: z of centres; of a centre head. Only if outputs names it, else None."""
        return self.tensors.get("height")

    @property
    def dim(self) -> Optional[NDArray[Union[np.float32, np.float16]]]:
        """[B, H, W, 3*T] float32 or float16: logarithms of sizes; of a centre head. Only if outputs names it, else
        None.
        """
        return self.tensors.get("dim")

    @property
    def rot(self) -> Optional[NDArray[Union[np.float32, np.float16]]]:
        """[B, H, W, 2*T] float32 or float16: cosines and sines of headings, in the order that the model has; of a
        centre head. Only if outputs names it, else None.
        """
        return self.tensors.get("rot")

    @property
    def vel(self) -> Optional[NDArray[Union[np.float32, np.float16]]]:
        """[B, H, W, 2*T] float32 or float16: velocities along x and y; of a centre head that has velocities. Only if
        outputs names it, else None.
        """
        return self.tensors.get("vel")

    @property
    def iou(self) -> Optional[NDArray[Union[np.float32, np.float16]]]:
        """[B, H, W, T] float32 or float16: overlaps of boxes; of a centre head that predicts overlaps. Only if
        outputs names it, else None.
        """
        return self.tensors.get("iou")

    @property
    def sparse_coords(self) -> Optional[NDArray[np.int32]]:
        """[S, 4] int32: batch, z, y, x of each occupied cell of the backbone's last level; of a model with a
        backbone. Only if outputs names it, else None.
        """
        return self.tensors.get("sparse_coords")

    @property
    def sparse_features(self) -> Optional[NDArray[np.float32]]:
        """[S, C] float32: the backbone's features of each of these cells; of a model with a backbone. Only if
        outputs names it, else None.
        """
        return self.tensors.get("sparse_features")

    @property
    def bev_features(self) -> Optional[NDArray[Union[np.float32, np.float16]]]:
        """[B, C*nz, ny, nx] float32 or float16: the network's input: the features of pillars, or of the backbone, as
        a map. Only if outputs names it, else None.
        """
        return self.tensors.get("bev_features")

    @property
    def points(self) -> Optional[NDArray[np.float32]]:
        """[R, C] float32: the points that the steps left, of all clouds, in the order of the body. Only if outputs
        names it, else None.
        """
        return self.tensors.get("points")

    @property
    def point_indices(self) -> Optional[NDArray[np.int32]]:
        """[R] int32: the row of each of these points in the body, counted over all clouds. Only if outputs names it,
        else None.
        """
        return self.tensors.get("point_indices")

    @property
    def point_rows(self) -> Optional[NDArray[np.int32]]:
        """[N] int32: for each row of the body, its row in points; for a merged point, the row of the point that
        represents it; -1 if dropped. Only if outputs names it, else None.
        """
        return self.tensors.get("point_rows")

    @property
    def point_fates(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: what the steps did to each row of the body, as an index of fate_names of the metadata; 0 if
        they kept the row. Only if outputs names it, else None.
        """
        return self.tensors.get("point_fates")

    @property
    def point_steps(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: the number, from 1, of the step that dropped the row; 0 if no step did. Only if outputs names
        it, else None.
        """
        return self.tensors.get("point_steps")


class BackboneResult(Result):
    """The tensors of backbone.

    Sizes: N rows of the body, of all clouds; C columns of a row; B clouds of the batch; R points of all clouds that
    the steps left; ny cells of a grid or a map along y; nx cells of a grid or a map along x; nz cells of a grid
    along z; S occupied cells of a backbone's last level, of all clouds.
    """

    @property
    def sparse_coords(self) -> NDArray[np.int32]:
        """[S, 4] int32: batch, z, y, x of each occupied cell of the backbone's last level, in ascending order."""
        return self._tensor("sparse_coords")

    @property
    def sparse_features(self) -> NDArray[np.float32]:
        """[S, C] float32: the backbone's features of each of these cells."""
        return self._tensor("sparse_features")

    @property
    def bev_features(self) -> Optional[NDArray[Union[np.float32, np.float16]]]:
        """[B, C*nz, ny, nx] float32 or float16: the same features as a map: feature c at channel c*nz + z, row y,
        column x; zeros elsewhere. Only if outputs names it, else None.
        """
        return self.tensors.get("bev_features")

    @property
    def points(self) -> Optional[NDArray[np.float32]]:
        """[R, C] float32: the points that the steps left, of all clouds, in the order of the body. Only if outputs
        names it, else None.
        """
        return self.tensors.get("points")

    @property
    def point_indices(self) -> Optional[NDArray[np.int32]]:
        """[R] int32: the row of each of these points in the body, counted over all clouds. Only if outputs names it,
        else None.
        """
        return self.tensors.get("point_indices")

    @property
    def point_rows(self) -> Optional[NDArray[np.int32]]:
        """[N] int32: for each row of the body, its row in points; for a merged point, the row of the point that
        represents it; -1 if dropped. Only if outputs names it, else None.
        """
        return self.tensors.get("point_rows")

    @property
    def point_fates(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: what the steps did to each row of the body, as an index of fate_names of the metadata; 0 if
        they kept the row. Only if outputs names it, else None.
        """
        return self.tensors.get("point_fates")

    @property
    def point_steps(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: the number, from 1, of the step that dropped the row; 0 if no step did. Only if outputs names
        it, else None.
        """
        return self.tensors.get("point_steps")


class SerializeResult(Result):
    """The tensors of serialize.

    Sizes: N rows of the body, of all clouds; C columns of a row; R points of all clouds that the steps left; Q
    curves of a serialization; G the sum over all stages of pooling of the stage's rows; E the sum over all stages of
    pooling of the rows before the stage; F the sum over all stages of pooling of the stage's rows plus one.
    """

    @property
    def grid_coord(self) -> NDArray[np.int32]:
        """[R, 3] int32: the cell x, y, z of each row of points, from the least cell or grid_origin."""
        return self._tensor("grid_coord")

    @property
    def serialized_code(self) -> NDArray[np.int64]:
        """[Q, R] int64: the code of each row on each curve; its cloud is in the bits above 3 * depth."""
        return self._tensor("serialized_code")

    @property
    def serialized_order(self) -> NDArray[np.int32]:
        """[Q, R] int32: the rows by ascending code, on each curve; rows with the same code ascend."""
        return self._tensor("serialized_order")

    @property
    def serialized_inverse(self) -> NDArray[np.int32]:
        """[Q, R] int32: the place of each row in serialized_order."""
        return self._tensor("serialized_inverse")

    @property
    def pool_cluster(self) -> Optional[NDArray[np.int32]]:
        """[E] int32: for each stage in turn: for each row before the stage, the new row that it joins. Only with
        strides, else None.
        """
        return self.tensors.get("pool_cluster")

    @property
    def pool_indices(self) -> Optional[NDArray[np.int32]]:
        """[E] int32: for each stage in turn: the rows before the stage, by ascending (new row, row). Only with
        strides, else None.
        """
        return self.tensors.get("pool_indices")

    @property
    def pool_indptr(self) -> Optional[NDArray[np.int32]]:
        """[F] int32: for each stage in turn: for each new row, where its rows begin in pool_indices; at the end, the
        number of rows. Only with strides, else None.
        """
        return self.tensors.get("pool_indptr")

    @property
    def pool_head_indices(self) -> Optional[NDArray[np.int32]]:
        """[G] int32: for each stage in turn: the first row of each new row. Only with strides, else None."""
        return self.tensors.get("pool_head_indices")

    @property
    def pool_grid_coord(self) -> Optional[NDArray[np.int32]]:
        """[G, 3] int32: for each stage in turn: the cells of the new rows. Only with strides, else None."""
        return self.tensors.get("pool_grid_coord")

    @property
    def pool_serialized_code(self) -> Optional[NDArray[np.int64]]:
        """[Q, G] int64: for each stage in turn: the codes of the new rows on each curve. Only with strides, else
        None.
        """
        return self.tensors.get("pool_serialized_code")

    @property
    def pool_serialized_order(self) -> Optional[NDArray[np.int32]]:
        """[Q, G] int32: the new rows of each stage by ascending code, numbered from 0 in the stage. Only with
        strides, else None.
        """
        return self.tensors.get("pool_serialized_order")

    @property
    def pool_serialized_inverse(self) -> Optional[NDArray[np.int32]]:
        """[Q, G] int32: the place of each new row in pool_serialized_order. Only with strides, else None."""
        return self.tensors.get("pool_serialized_inverse")

    @property
    def points(self) -> NDArray[np.float32]:
        """[R, C] float32: the points that the steps left, without those out of the lattice, in the order of the
        body.
        """
        return self._tensor("points")

    @property
    def point_indices(self) -> Optional[NDArray[np.int32]]:
        """[R] int32: the row of each of these points in the body, counted over all clouds. Only if outputs names it,
        else None.
        """
        return self.tensors.get("point_indices")

    @property
    def point_rows(self) -> Optional[NDArray[np.int32]]:
        """[N] int32: for each row of the body, its row in points; for a merged point, the row of the point that
        represents it; -1 if dropped. Only if outputs names it, else None.
        """
        return self.tensors.get("point_rows")

    @property
    def point_fates(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: what the steps did to each row of the body, as an index of fate_names of the metadata; 0 if
        they kept the row. Only if outputs names it, else None.
        """
        return self.tensors.get("point_fates")

    @property
    def point_steps(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: the number, from 1, of the step that dropped the row; 0 if no step did. Only if outputs names
        it, else None.
        """
        return self.tensors.get("point_steps")


class RangeImageResult(Result):
    """The tensors of range_image.

    Sizes: N rows of the body, of all clouds; C columns of a row; B clouds of the batch; K kept points or boxes of
    all clouds; R points of all clouds that the steps left; H rows of a range image; cells of the network's maps
    along y; W columns of a range image; cells of the network's maps along x; Ch channels of a range image.
    """

    @property
    def range_image(self) -> NDArray[np.float32]:
        """[B, Ch, H, W] float32: the channels of the point that each pixel keeps; the value of empty if it has no
        point.
        """
        return self._tensor("range_image")

    @property
    def range_indices(self) -> NDArray[np.int32]:
        """[B, H, W] int32: row of that point in the body, counted over all clouds; -1 if the pixel has no point."""
        return self._tensor("range_indices")

    @property
    def range_mask(self) -> NDArray[np.uint8]:
        """[B, H, W] uint8: 1 if the pixel has a point."""
        return self._tensor("range_mask")

    @property
    def point_pixels(self) -> NDArray[np.int32]:
        """[N, 2] int32: row and column of each point's pixel, whether the pixel keeps the point or not; -1 if
        dropped.
        """
        return self._tensor("point_pixels")

    @property
    def point_ranges(self) -> Optional[NDArray[np.float32]]:
        """[N] float32: distance of each point; -1 if dropped. Only if outputs names it, else None."""
        return self.tensors.get("point_ranges")

    @property
    def pixel_coords(self) -> Optional[NDArray[np.int32]]:
        """[K, 3] int32: batch, row and column of each pixel that has a point, ascending. Only if outputs names it,
        else None.
        """
        return self.tensors.get("pixel_coords")

    @property
    def point_pixel_rows(self) -> Optional[NDArray[np.int32]]:
        """[N] int32: row of each point's pixel in pixel_coords; -1 if dropped. Only if outputs names it, else None."""
        return self.tensors.get("point_pixel_rows")

    @property
    def points(self) -> Optional[NDArray[np.float32]]:
        """[R, C] float32: the points that the steps left, of all clouds, in the order of the body. Only if outputs
        names it, else None.
        """
        return self.tensors.get("points")

    @property
    def point_indices(self) -> Optional[NDArray[np.int32]]:
        """[R] int32: the row of each of these points in the body, counted over all clouds. Only if outputs names it,
        else None.
        """
        return self.tensors.get("point_indices")

    @property
    def point_rows(self) -> Optional[NDArray[np.int32]]:
        """[N] int32: for each row of the body, its row in points; for a merged point, the row of the point that
        represents it; -1 if dropped. Only if outputs names it, else None.
        """
        return self.tensors.get("point_rows")

    @property
    def point_fates(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: what the steps did to each row of the body, as an index of fate_names of the metadata; 0 if
        they kept the row. Only if outputs names it, else None.
        """
        return self.tensors.get("point_fates")

    @property
    def point_steps(self) -> Optional[NDArray[np.uint8]]:
        """[N] uint8: the number, from 1, of the step that dropped the row; 0 if no step did. Only if outputs names
        it, else None.
        """
        return self.tensors.get("point_steps")


class Operations:
    """The methods of Client that compute."""

    _calls: Calls

    def voxelize(
        self,
        points: Points,
        preset: Optional[str] = None,
        *,
        num_features: Optional[int] = None,
        dtype: Optional[Union[VoxelizeDtype, Sequence[VoxelizeDtype]]] = None,
        scale: Optional[Numbers] = None,
        filter: Optional[Union[VoxelizeFilter, Sequence[VoxelizeFilter]]] = None,
        format: Optional[VoxelizeFormat] = None,
        fields: Optional[Sequence[str]] = None,
        intensity_scale: Optional[float] = None,
        point_counts: Optional[Ints] = None,
        stream: Optional[str] = None,
        streams: Optional[Sequence[str]] = None,
        sweeps: Optional[int] = None,
        pose: Optional[Numbers] = None,
        poses: Optional[Numbers] = None,
        mount: Optional[Numbers] = None,
        time: Optional[float] = None,
        times: Optional[Numbers] = None,
        time_column: Optional[Flag] = None,
        remove_close: Optional[float] = None,
        time_field: Optional[str] = None,
        time_unit: Optional[Literal["s", "ms", "us", "ns"]] = None,
        time_origin: Optional[Union[float, str]] = None,
        deskew: Optional[Literal["off", "poses", "twists", "stream"]] = None,
        deskew_poses: Optional[Union[Numbers, str]] = None,
        deskew_twists: Optional[Union[Numbers, str]] = None,
        deskew_reference: Optional[float] = None,
        interpolation: Optional[Literal["screw", "slerp"]] = None,
        max_age_ms: Optional[int] = None,
        steps: Optional[Steps] = None,
        point_cloud_range: Optional[Numbers] = None,
        voxel_size: Optional[Numbers] = None,
        coordinates: Optional[Literal["xyz", "cylinder"]] = None,
        grid_shape: Optional[Ints] = None,
        max_points_per_voxel: Optional[int] = None,
        max_points_by: Optional[Literal["first", "random"]] = None,
        seed: Optional[int] = None,
        max_voxels: Optional[int] = None,
        max_voxels_by: Optional[Literal["first", "near", "full"]] = None,
        feature: Optional[Union[VoxelizeFeature, Sequence[VoxelizeFeature]]] = None,
        feature_dtype: Optional[Literal["float32", "float16"]] = None,
        order: Optional[Literal["first", "key"]] = None,
        fill: Optional[Literal["zero", "mean"]] = None,
        block_filter: Optional[Union[Literal["off"], Numbers]] = None,
        fps: Optional[Union[Literal["off"], int, Ints]] = None,
        start: Optional[int] = None,
        columns: Optional[Sequence[str]] = None,
        intensity_range: Optional[Numbers] = None,
        ground_z: Optional[float] = None,
        outputs: Optional[Union[VoxelizeOutputs, Sequence[VoxelizeOutputs]]] = None,
        metadata: Optional[Literal["full", "stable"]] = None,
        latest: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        out: Optional[str] = None,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> VoxelizeResult:
        """Points in, voxels out.

        Args:
            points: one cloud [N, C] of float32 or float16, which gives num_features and dtype; or a batch, as a list
                of such arrays or one array [B, N, C], which also gives point_counts; or bytes, which the parameters
                describe: rows as the service takes them or, with format, a file. Arrays are numpy arrays, objects in
                CPU memory with __array__ or __dlpack__, or buffers of such numbers.
            preset: a named parameter set; the query overrides it; allowed: a name from GET /v1/presets
            num_features: number of columns of a row (C); x, y and z come first; allowed: a whole number from 3 to
                64; default: 4
            dtype: type of the body's values, or of each column; a list of several also sets num_features; default:
                float32
            scale: factors of the columns of the body, in order; the others have 1; allowed: 1 to 64 finite numbers
                above 0
            filter: what the client did with the rows of the body so that they compress better
            format: format of the body's points; by default raw: rows of dtype
            fields: names of the columns of a row, which also set num_features; for a file, the fields to take;
                allowed: 3 to 64 names, each once, of up to 255 bytes in all; x, y and z in the first three places
            intensity_scale: multiplies the column named intensity; allowed: a finite number other than 0
            point_counts: splits the body into a batch of clouds or, with stream, into sweeps, the newest first;
                allowed: 1 to 1024 whole numbers that add up to the rows of the body
            stream: the body is a sweep of this stream; the server joins it with earlier sweeps; allowed: 1 to 63
                letters, digits, '.', '_' or '-', but not '.' or '..'
            streams: the streams to join, into the frame of the first; without it, only the stream of the body;
                allowed: 1 to 8 names of streams, each once
            sweeps: number of sweeps to join from each stream and to keep in the body's stream; without it, the
                number in the body; allowed: a whole number from 1 to 32
            pose: transform from the sensor's frame (with mount, the vehicle's frame) to a fixed frame; allowed: 16
                numbers, row by row, or x,y,z,qw,qx,qy,qz
            poses: for a body with several sweeps: their poses, in order; allowed: up to 32 poses, one for each sweep
                of point_counts, each of 16 numbers, or each of 7
            mount: transform from the sensor's frame to the vehicle's frame; the stream keeps it for later sweeps;
                allowed: 16 numbers, row by row, or x,y,z,qw,qx,qy,qz
            time: seconds; the time of the sweep, by any clock that never goes back; allowed: seconds from -1e12 to
                1e12
            times: seconds; for a body with several sweeps: their times, the newest first; allowed: up to 32 times
                from -1e12 to 1e12, one for each sweep of point_counts, each below the one before
            time_column: yes appends a column to joined rows: seconds from their sweep to the first stream's newest
                sweep
            remove_close: metres; removes from each sweep the points whose |x| and |y| are both below this, before
                the sweep is moved; allowed: a finite number above 0
            time_field: the field of a file, or the column in fields, with the points' times; such a column becomes
                seconds from time_origin; allowed: a name other than x, y and z
            time_unit: unit of time_field; by default s
            time_origin: subtracted from the times in time_field; in their unit; by default 0; allowed: stamp, first,
                or a finite number
            deskew: moves each point to its place at deskew_reference, along deskew_poses, by deskew_twists, or by
                the stream's motion since the previous sweep; by default off
            deskew_poses: poses of the sensor or, with mount, the vehicle at rising times; allowed: 2 to 65 rows
                separated by semicolons: t and a pose
            deskew_twists: velocities of the sensor or, with mount, the vehicle in its own frame; a row holds from
                the previous row's t to its own; allowed: 1 to 63 rows t,vx,vy,vz,wx,wy,wz separated by semicolons
            deskew_reference: seconds; the time into whose frame points are moved; by default 0; allowed: a finite
                number
            interpolation: between two deskew_poses: a screw motion, or a straight line and slerp; by default screw
            max_age_ms: milliseconds; refuses points older than this when their job begins; their age counts from the
                parameter time or a PointCloud2's stamp; allowed: a whole number from 1 to 3600000
            steps: what happens to the points before the operation, as a list of steps in their order:
                [RingOutlier("ring"), Downsample(0.1)]. A dict such as {"downsample.voxel_size": 0.2} sets parameters
                of the preset's or the model's steps instead. "none" or an empty list leaves them out. A text, for
                all steps or for one, goes to the service as it is.
            point_cloud_range: metres; a point is in range if its cell index is inside the grid; allowed:
                x_min,y_min,z_min,x_max,y_max,z_max, finite, each min below its max
            voxel_size: metres; size of a voxel along x, y and z; allowed: x,y,z, finite, each above 0
            coordinates: with cylinder the service computes rows of rho, phi, z, x, y and the other columns;
                point_cloud_range bounds rho, phi, z; default: xyz
            grid_shape: with coordinates=cylinder, in place of voxel_size: the cells along rho, phi, z; points
                outside go to the outermost cells; allowed: 3 whole numbers from 2 to 65536
            max_points_per_voxel: P: maximum number of points per voxel; 0 = no cap (dynamic voxelization); allowed:
                a whole number from 0 to 1024; default: 32
            max_points_by: which points a voxel keeps; default: first
            seed: with max_points_by=random: another seed chooses other points; allowed: a whole number from 0 to
                2147483647; default: 0
            max_voxels: maximum number of voxels per cloud; allowed: a whole number from 1 to 16777216; default:
                40000
            max_voxels_by: which voxels are kept: the first that appear, the nearest to the origin in x and y, or
                those with the most points; default: first
            feature: which tensors are computed; default: mean
            feature_dtype: type of voxel_features, pillar_features and bev_features; default: float32
            order: order of voxels: first appearance (spconv), or ascending batch, x, y, z (torch.unique of dynamic
                VFEs); default: first
            fill: what pads voxels: zeros or the voxel's mean (spconv full_mean); default: zero
            block_filter: keeps a voxel only if the heights around it span more than the first threshold and less
                than the second (spconv); allowed: off, or
                block_factor,block_size,height_threshold,height_high_threshold (factor 1 or more, size 1 to 32);
                default: off
            fps: number of voxels to choose from each cloud by farthest point sampling of their means; allowed: off,
                or whole numbers from 0 to 2147483647: one for all clouds, or one for each; default: off
            start: the first sample of each cloud: this point (in /v1/voxelize: this voxel), or the next finite one;
                allowed: a whole number from 0 to 2147483647; default: 0
            columns: names of the columns that the model expects, such as x,y,z,intensity,time; allowed: 3 to 64
                different names, beginning with x,y,z
            intensity_range: the intensity that the model expects; another range gets a warning; allowed: min,max,
                finite, min below max
            ground_z: metres; where the model expects the ground; a ground more than 1 m off gets a warning; allowed:
                a finite number
            outputs: tensors to return; without it voxel_coords, voxel_num_points and the tensors that feature
                computes; with fps also sampled_indices and sampled_points
            metadata: stable leaves out ids, times, devices and regions, so that equal requests give equal files; by
                default full
            latest: of the client's requests with this name, at most one waits: the newest; allowed: 1 to 63 letters,
                digits, '.', '_' or '-', but not '.' or '..'
            timeout_ms: milliseconds; time after which an unfinished job gets 504; 0 = the server's own limit;
                allowed: a whole number from 0 to 3600000; default: 0
            out: "cuda" leaves the tensors on the GPU of the points, else on GPU 0; "cuda:1" names the GPU; points
                may then also be arrays on that GPU
            metadata_only: make no tensors
            request_id: id of the request in the service's log; without it, the service makes one
            traceparent: W3C trace context of the request, for the service's log

        Returns the tensors, as attributes and as a mapping:
            voxel_coords: [V, 4] int32; batch, z, y, x of each voxel, in the order that the parameter order says
            voxel_num_points: [V] int32; points that each voxel keeps
            voxels: [V, P, C] float32; the points that each voxel keeps, in the body's order, padded as fill says;
                only with feature=points
            voxel_features: [V, C] float32 or float16; mean of the points that each voxel keeps; only with
                feature=mean
            pillar_features: [V, P, C+6] float32 or float16; the point, its offset from the voxel's mean x, y, z, its
                offset from the voxel's centre; zeros in padding; only with feature=pillar
            point_voxel_ids: [N] int32; row of each point's voxel; -1 if the point is dropped; only if outputs names
                it
            voxel_point_mask: [V, P] uint8; which rows of voxels are points: 1 for a point, 0 for padding; only if
                outputs names it
            sampled_indices: [B, M] int32; row of the sample among its cloud's voxels, in the order chosen; only with
                fps
            sampled_points: [B, M, C] float32; the sample's mean; only with fps
            sampled_distances: [B, M] float32; distance to the nearest voxel chosen before; infinite for the first of
                a cloud; only with fps, if outputs names it
            bev_features: [B, C*nz, ny, nx] float32 or float16; voxel_features at channel c*nz + z, row y, column x;
                zeros elsewhere; only if outputs names it
            occupancy: [B, nz, ny, nx] uint8; 1 if a point in range is in the cell; only if outputs names it
            occupancy_counts: [B, nz, ny, nx] int32; number of points in range in the cell; only if outputs names it
            occupancy_packed: [B, nz, ny, ceil(nx/8)] uint8; occupancy as bits; cell x is bit x % 8, the lowest
                first, of byte x / 8; only if outputs names it
            bev_max_height: [B, ny, nx] float32; largest z of the points in range above the cell; 0 if there is no
                such point; only if outputs names it
            bev_min_height: [B, ny, nx] float32; smallest z of these points; 0 if there is no such point; only if
                outputs names it
            bev_max_intensity: [B, ny, nx] float32; largest finite intensity of these points; 0 if there is no such
                point; only if outputs names it
            bev_top_intensity: [B, ny, nx] float32; intensity of the highest of these points; if several are equally
                high, of the first; 0 if there is no such point; only if outputs names it
            bev_density: [B, ny, nx] float32; min(1, ln(n + 1) / ln 64) of n points; only if outputs names it
            points: [R, C] float32; the points that the steps left, of all clouds, in the order of the body; only if
                outputs names it
            point_indices: [R] int32; the row of each of these points in the body, counted over all clouds; only if
                outputs names it
            point_rows: [N] int32; for each row of the body, its row in points; for a merged point, the row of the
                point that represents it; -1 if dropped; only if outputs names it
            point_fates: [N] uint8; what the steps did to each row of the body, as an index of fate_names of the
                metadata; 0 if they kept the row; only if outputs names it
            point_steps: [N] uint8; the number, from 1, of the step that dropped the row; 0 if no step did; only if
                outputs names it

        Raises Problem if the service refuses the request, TransportError or BadAnswer if no proper answer comes, and
        TypeError or ValueError if the arguments cannot be sent. A parameter that is None is not sent: the preset's
        or the model's value counts, else the default.
        """
        return self._calls.points("voxelize", VoxelizeResult, locals())

    def fps(
        self,
        points: Points,
        num_samples: Optional[Union[int, Ints]] = None,
        *,
        preset: Optional[str] = None,
        num_features: Optional[int] = None,
        dtype: Optional[Union[FpsDtype, Sequence[FpsDtype]]] = None,
        scale: Optional[Numbers] = None,
        filter: Optional[Union[FpsFilter, Sequence[FpsFilter]]] = None,
        format: Optional[FpsFormat] = None,
        fields: Optional[Sequence[str]] = None,
        intensity_scale: Optional[float] = None,
        point_counts: Optional[Ints] = None,
        stream: Optional[str] = None,
        streams: Optional[Sequence[str]] = None,
        sweeps: Optional[int] = None,
        pose: Optional[Numbers] = None,
        poses: Optional[Numbers] = None,
        mount: Optional[Numbers] = None,
        time: Optional[float] = None,
        times: Optional[Numbers] = None,
        time_column: Optional[Flag] = None,
        remove_close: Optional[float] = None,
        time_field: Optional[str] = None,
        time_unit: Optional[Literal["s", "ms", "us", "ns"]] = None,
        time_origin: Optional[Union[float, str]] = None,
        deskew: Optional[Literal["off", "poses", "twists", "stream"]] = None,
        deskew_poses: Optional[Union[Numbers, str]] = None,
        deskew_twists: Optional[Union[Numbers, str]] = None,
        deskew_reference: Optional[float] = None,
        interpolation: Optional[Literal["screw", "slerp"]] = None,
        max_age_ms: Optional[int] = None,
        steps: Optional[Steps] = None,
        start: Optional[int] = None,
        outputs: Optional[Union[FpsOutputs, Sequence[FpsOutputs]]] = None,
        metadata: Optional[Literal["full", "stable"]] = None,
        latest: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        out: Optional[str] = None,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> FpsResult:
        """Points in, farthest point samples out.

        Args:
            points: one cloud [N, C] of float32 or float16, which gives num_features and dtype; or a batch, as a list
                of such arrays or one array [B, N, C], which also gives point_counts; or bytes, which the parameters
                describe: rows as the service takes them or, with format, a file. Arrays are numpy arrays, objects in
                CPU memory with __array__ or __dlpack__, or buffers of such numbers.
            num_samples: number of points to choose from each cloud (M); allowed: whole numbers from 0 to 2147483647:
                one for all clouds, or one for each
            preset: a named parameter set; the query overrides it; allowed: a name from GET /v1/presets
            num_features: number of columns of a row (C); x, y and z come first; allowed: a whole number from 3 to
                64; default: 4
            dtype: type of the body's values, or of each column; a list of several also sets num_features; default:
                float32
            scale: factors of the columns of the body, in order; the others have 1; allowed: 1 to 64 finite numbers
                above 0
            filter: what the client did with the rows of the body so that they compress better
            format: format of the body's points; by default raw: rows of dtype
            fields: names of the columns of a row, which also set num_features; for a file, the fields to take;
                allowed: 3 to 64 names, each once, of up to 255 bytes in all; x, y and z in the first three places
            intensity_scale: multiplies the column named intensity; allowed: a finite number other than 0
            point_counts: splits the body into a batch of clouds or, with stream, into sweeps, the newest first;
                allowed: 1 to 1024 whole numbers that add up to the rows of the body
            stream: the body is a sweep of this stream; the server joins it with earlier sweeps; allowed: 1 to 63
                letters, digits, '.', '_' or '-', but not '.' or '..'
            streams: the streams to join, into the frame of the first; without it, only the stream of the body;
                allowed: 1 to 8 names of streams, each once
            sweeps: number of sweeps to join from each stream and to keep in the body's stream; without it, the
                number in the body; allowed: a whole number from 1 to 32
            pose: transform from the sensor's frame (with mount, the vehicle's frame) to a fixed frame; allowed: 16
                numbers, row by row, or x,y,z,qw,qx,qy,qz
            poses: for a body with several sweeps: their poses, in order; allowed: up to 32 poses, one for each sweep
                of point_counts, each of 16 numbers, or each of 7
            mount: transform from the sensor's frame to the vehicle's frame; the stream keeps it for later sweeps;
                allowed: 16 numbers, row by row, or x,y,z,qw,qx,qy,qz
            time: seconds; the time of the sweep, by any clock that never goes back; allowed: seconds from -1e12 to
                1e12
            times: seconds; for a body with several sweeps: their times, the newest first; allowed: up to 32 times
                from -1e12 to 1e12, one for each sweep of point_counts, each below the one before
            time_column: yes appends a column to joined rows: seconds from their sweep to the first stream's newest
                sweep
            remove_close: metres; removes from each sweep the points whose |x| and |y| are both below this, before
                the sweep is moved; allowed: a finite number above 0
            time_field: the field of a file, or the column in fields, with the points' times; such a column becomes
                seconds from time_origin; allowed: a name other than x, y and z
            time_unit: unit of time_field; by default s
            time_origin: subtracted from the times in time_field; in their unit; by default 0; allowed: stamp, first,
                or a finite number
            deskew: moves each point to its place at deskew_reference, along deskew_poses, by deskew_twists, or by
                the stream's motion since the previous sweep; by default off
            deskew_poses: poses of the sensor or, with mount, the vehicle at rising times; allowed: 2 to 65 rows
                separated by semicolons: t and a pose
            deskew_twists: velocities of the sensor or, with mount, the vehicle in its own frame; a row holds from
                the previous row's t to its own; allowed: 1 to 63 rows t,vx,vy,vz,wx,wy,wz separated by semicolons
            deskew_reference: seconds; the time into whose frame points are moved; by default 0; allowed: a finite
                number
            interpolation: between two deskew_poses: a screw motion, or a straight line and slerp; by default screw
            max_age_ms: milliseconds; refuses points older than this when their job begins; their age counts from the
                parameter time or a PointCloud2's stamp; allowed: a whole number from 1 to 3600000
            steps: what happens to the points before the operation, as a list of steps in their order:
                [RingOutlier("ring"), Downsample(0.1)]. A dict such as {"downsample.voxel_size": 0.2} sets parameters
                of the preset's or the model's steps instead. "none" or an empty list leaves them out. A text, for
                all steps or for one, goes to the service as it is.
            start: the first sample of each cloud: this point (in /v1/voxelize: this voxel), or the next finite one;
                allowed: a whole number from 0 to 2147483647; default: 0
            outputs: tensors to return; without it sampled_indices and sampled_points
            metadata: stable leaves out ids, times, devices and regions, so that equal requests give equal files; by
                default full
            latest: of the client's requests with this name, at most one waits: the newest; allowed: 1 to 63 letters,
                digits, '.', '_' or '-', but not '.' or '..'
            timeout_ms: milliseconds; time after which an unfinished job gets 504; 0 = the server's own limit;
                allowed: a whole number from 0 to 3600000; default: 0
            out: "cuda" leaves the tensors on the GPU of the points, else on GPU 0; "cuda:1" names the GPU; points
                may then also be arrays on that GPU
            metadata_only: make no tensors
            request_id: id of the request in the service's log; without it, the service makes one
            traceparent: W3C trace context of the request, for the service's log

        Returns the tensors, as attributes and as a mapping:
            sampled_indices: [B, M] int32; number of the point in its own cloud, in the order chosen
            sampled_points: [B, M, C] float32; the point's row, widened to float32
            sampled_distances: [B, M] float32; distance to the nearest point chosen before; infinite for the first of
                a cloud; only if outputs names it
            points: [R, C] float32; the points that the steps left, of all clouds, in the order of the body; only if
                outputs names it
            point_indices: [R] int32; the row of each of these points in the body, counted over all clouds; only if
                outputs names it
            point_rows: [N] int32; for each row of the body, its row in points; for a merged point, the row of the
                point that represents it; -1 if dropped; only if outputs names it
            point_fates: [N] uint8; what the steps did to each row of the body, as an index of fate_names of the
                metadata; 0 if they kept the row; only if outputs names it
            point_steps: [N] uint8; the number, from 1, of the step that dropped the row; 0 if no step did; only if
                outputs names it

        Raises Problem if the service refuses the request, TransportError or BadAnswer if no proper answer comes, and
        TypeError or ValueError if the arguments cannot be sent. A parameter that is None is not sent: the preset's
        or the model's value counts, else the default.
        """
        return self._calls.points("fps", FpsResult, locals())

    def points(
        self,
        points: Points,
        preset: Optional[str] = None,
        *,
        num_features: Optional[int] = None,
        dtype: Optional[Union[PointsDtype, Sequence[PointsDtype]]] = None,
        scale: Optional[Numbers] = None,
        filter: Optional[Union[PointsFilter, Sequence[PointsFilter]]] = None,
        format: Optional[PointsFormat] = None,
        fields: Optional[Sequence[str]] = None,
        intensity_scale: Optional[float] = None,
        point_counts: Optional[Ints] = None,
        stream: Optional[str] = None,
        streams: Optional[Sequence[str]] = None,
        sweeps: Optional[int] = None,
        pose: Optional[Numbers] = None,
        poses: Optional[Numbers] = None,
        mount: Optional[Numbers] = None,
        time: Optional[float] = None,
        times: Optional[Numbers] = None,
        time_column: Optional[Flag] = None,
        remove_close: Optional[float] = None,
        time_field: Optional[str] = None,
        time_unit: Optional[Literal["s", "ms", "us", "ns"]] = None,
        time_origin: Optional[Union[float, str]] = None,
        deskew: Optional[Literal["off", "poses", "twists", "stream"]] = None,
        deskew_poses: Optional[Union[Numbers, str]] = None,
        deskew_twists: Optional[Union[Numbers, str]] = None,
        deskew_reference: Optional[float] = None,
        interpolation: Optional[Literal["screw", "slerp"]] = None,
        max_age_ms: Optional[int] = None,
        steps: Optional[Steps] = None,
        outputs: Optional[Union[PointsOutputs, Sequence[PointsOutputs]]] = None,
        metadata: Optional[Literal["full", "stable"]] = None,
        latest: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        out: Optional[str] = None,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> PointsResult:
        """Points in, steps applied, points out.

        Args:
            points: one cloud [N, C] of float32 or float16, which gives num_features and dtype; or a batch, as a list
                of such arrays or one array [B, N, C], which also gives point_counts; or bytes, which the parameters
                describe: rows as the service takes them or, with format, a file. Arrays are numpy arrays, objects in
                CPU memory with __array__ or __dlpack__, or buffers of such numbers.
            preset: a named parameter set; the query overrides it; allowed: a name from GET /v1/presets
            num_features: number of columns of a row (C); x, y and z come first; allowed: a whole number from 3 to
                64; default: 4
            dtype: type of the body's values, or of each column; a list of several also sets num_features; default:
                float32
            scale: factors of the columns of the body, in order; the others have 1; allowed: 1 to 64 finite numbers
                above 0
            filter: what the client did with the rows of the body so that they compress better
            format: format of the body's points; by default raw: rows of dtype
            fields: names of the columns of a row, which also set num_features; for a file, the fields to take;
                allowed: 3 to 64 names, each once, of up to 255 bytes in all; x, y and z in the first three places
            intensity_scale: multiplies the column named intensity; allowed: a finite number other than 0
            point_counts: splits the body into a batch of clouds or, with stream, into sweeps, the newest first;
                allowed: 1 to 1024 whole numbers that add up to the rows of the body
            stream: the body is a sweep of this stream; the server joins it with earlier sweeps; allowed: 1 to 63
                letters, digits, '.', '_' or '-', but not '.' or '..'
            streams: the streams to join, into the frame of the first; without it, only the stream of the body;
                allowed: 1 to 8 names of streams, each once
            sweeps: number of sweeps to join from each stream and to keep in the body's stream; without it, the
                number in the body; allowed: a whole number from 1 to 32
            pose: transform from the sensor's frame (with mount, the vehicle's frame) to a fixed frame; allowed: 16
                numbers, row by row, or x,y,z,qw,qx,qy,qz
            poses: for a body with several sweeps: their poses, in order; allowed: up to 32 poses, one for each sweep
                of point_counts, each of 16 numbers, or each of 7
            mount: transform from the sensor's frame to the vehicle's frame; the stream keeps it for later sweeps;
                allowed: 16 numbers, row by row, or x,y,z,qw,qx,qy,qz
            time: seconds; the time of the sweep, by any clock that never goes back; allowed: seconds from -1e12 to
                1e12
            times: seconds; for a body with several sweeps: their times, the newest first; allowed: up to 32 times
                from -1e12 to 1e12, one for each sweep of point_counts, each below the one before
            time_column: yes appends a column to joined rows: seconds from their sweep to the first stream's newest
                sweep
            remove_close: metres; removes from each sweep the points whose |x| and |y| are both below this, before
                the sweep is moved; allowed: a finite number above 0
            time_field: the field of a file, or the column in fields, with the points' times; such a column becomes
                seconds from time_origin; allowed: a name other than x, y and z
            time_unit: unit of time_field; by default s
            time_origin: subtracted from the times in time_field; in their unit; by default 0; allowed: stamp, first,
                or a finite number
            deskew: moves each point to its place at deskew_reference, along deskew_poses, by deskew_twists, or by
                the stream's motion since the previous sweep; by default off
            deskew_poses: poses of the sensor or, with mount, the vehicle at rising times; allowed: 2 to 65 rows
                separated by semicolons: t and a pose
            deskew_twists: velocities of the sensor or, with mount, the vehicle in its own frame; a row holds from
                the previous row's t to its own; allowed: 1 to 63 rows t,vx,vy,vz,wx,wy,wz separated by semicolons
            deskew_reference: seconds; the time into whose frame points are moved; by default 0; allowed: a finite
                number
            interpolation: between two deskew_poses: a screw motion, or a straight line and slerp; by default screw
            max_age_ms: milliseconds; refuses points older than this when their job begins; their age counts from the
                parameter time or a PointCloud2's stamp; allowed: a whole number from 1 to 3600000
            steps: what happens to the points before the operation, as a list of steps in their order:
                [RingOutlier("ring"), Downsample(0.1)]. A dict such as {"downsample.voxel_size": 0.2} sets parameters
                of the preset's or the model's steps instead. "none" or an empty list leaves them out. A text, for
                all steps or for one, goes to the service as it is.
            outputs: tensors to return; without it points and point_indices
            metadata: stable leaves out ids, times, devices and regions, so that equal requests give equal files; by
                default full
            latest: of the client's requests with this name, at most one waits: the newest; allowed: 1 to 63 letters,
                digits, '.', '_' or '-', but not '.' or '..'
            timeout_ms: milliseconds; time after which an unfinished job gets 504; 0 = the server's own limit;
                allowed: a whole number from 0 to 3600000; default: 0
            out: "cuda" leaves the tensors on the GPU of the points, else on GPU 0; "cuda:1" names the GPU; points
                may then also be arrays on that GPU
            metadata_only: make no tensors
            request_id: id of the request in the service's log; without it, the service makes one
            traceparent: W3C trace context of the request, for the service's log

        Returns the tensors, as attributes and as a mapping:
            points: [R, C] float32; the points that the steps left, of all clouds, in the order of the body, widened
                to float32
            point_indices: [R] int32; the row of each of these points in the body, counted over all clouds
            point_rows: [N] int32; for each row of the body, its row in points; for a merged point, the row of the
                point that represents it; -1 if dropped; only if outputs names it
            point_fates: [N] uint8; what the steps did to each row of the body, as an index of fate_names of the
                metadata; 0 if they kept the row; only if outputs names it
            point_steps: [N] uint8; the number, from 1, of the step that dropped the row; 0 if no step did; only if
                outputs names it

        Raises Problem if the service refuses the request, TransportError or BadAnswer if no proper answer comes, and
        TypeError or ValueError if the arguments cannot be sent. A parameter that is None is not sent: the preset's
        or the model's value counts, else the default.
        """
        return self._calls.points("points", PointsResult, locals())

    def transform(
        self,
        points: Points,
        preset: Optional[str] = None,
        *,
        num_features: Optional[int] = None,
        dtype: Optional[Union[TransformDtype, Sequence[TransformDtype]]] = None,
        scale: Optional[Numbers] = None,
        filter: Optional[Union[TransformFilter, Sequence[TransformFilter]]] = None,
        format: Optional[TransformFormat] = None,
        fields: Optional[Sequence[str]] = None,
        intensity_scale: Optional[float] = None,
        point_counts: Optional[Ints] = None,
        stream: Optional[str] = None,
        streams: Optional[Sequence[str]] = None,
        sweeps: Optional[int] = None,
        pose: Optional[Numbers] = None,
        poses: Optional[Numbers] = None,
        mount: Optional[Numbers] = None,
        time: Optional[float] = None,
        times: Optional[Numbers] = None,
        time_column: Optional[Flag] = None,
        remove_close: Optional[float] = None,
        time_field: Optional[str] = None,
        time_unit: Optional[Literal["s", "ms", "us", "ns"]] = None,
        time_origin: Optional[Union[float, str]] = None,
        deskew: Optional[Literal["off", "poses", "twists", "stream"]] = None,
        deskew_poses: Optional[Union[Numbers, str]] = None,
        deskew_twists: Optional[Union[Numbers, str]] = None,
        deskew_reference: Optional[float] = None,
        interpolation: Optional[Literal["screw", "slerp"]] = None,
        max_age_ms: Optional[int] = None,
        outputs: Optional[Union[TransformOutputs, Sequence[TransformOutputs]]] = None,
        metadata: Optional[Literal["full", "stable"]] = None,
        latest: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        matrix: Optional[Numbers] = None,
        crop: Optional[Union[Literal["off"], Numbers]] = None,
        cut: Optional[Union[Literal["off"], Numbers]] = None,
        distance: Optional[Union[Literal["off"], Numbers]] = None,
        out: Optional[str] = None,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> TransformResult:
        """Points in, moved and filtered points out.

        Args:
            points: one cloud [N, C] of float32 or float16, which gives num_features and dtype; or a batch, as a list
                of such arrays or one array [B, N, C], which also gives point_counts; or bytes, which the parameters
                describe: rows as the service takes them or, with format, a file. Arrays are numpy arrays, objects in
                CPU memory with __array__ or __dlpack__, or buffers of such numbers.
            preset: a named parameter set; the query overrides it; allowed: a name from GET /v1/presets
            num_features: number of columns of a row (C); x, y and z come first; allowed: a whole number from 3 to
                64; default: 4
            dtype: type of the body's values, or of each column; a list of several also sets num_features; default:
                float32
            scale: factors of the columns of the body, in order; the others have 1; allowed: 1 to 64 finite numbers
                above 0
            filter: what the client did with the rows of the body so that they compress better
            format: format of the body's points; by default raw: rows of dtype
            fields: names of the columns of a row, which also set num_features; for a file, the fields to take;
                allowed: 3 to 64 names, each once, of up to 255 bytes in all; x, y and z in the first three places
            intensity_scale: multiplies the column named intensity; allowed: a finite number other than 0
            point_counts: splits the body into a batch of clouds or, with stream, into sweeps, the newest first;
                allowed: 1 to 1024 whole numbers that add up to the rows of the body
            stream: the body is a sweep of this stream; the server joins it with earlier sweeps; allowed: 1 to 63
                letters, digits, '.', '_' or '-', but not '.' or '..'
            streams: the streams to join, into the frame of the first; without it, only the stream of the body;
                allowed: 1 to 8 names of streams, each once
            sweeps: number of sweeps to join from each stream and to keep in the body's stream; without it, the
                number in the body; allowed: a whole number from 1 to 32
            pose: transform from the sensor's frame (with mount, the vehicle's frame) to a fixed frame; allowed: 16
                numbers, row by row, or x,y,z,qw,qx,qy,qz
            poses: for a body with several sweeps: their poses, in order; allowed: up to 32 poses, one for each sweep
                of point_counts, each of 16 numbers, or each of 7
            mount: transform from the sensor's frame to the vehicle's frame; the stream keeps it for later sweeps;
                allowed: 16 numbers, row by row, or x,y,z,qw,qx,qy,qz
            time: seconds; the time of the sweep, by any clock that never goes back; allowed: seconds from -1e12 to
                1e12
            times: seconds; for a body with several sweeps: their times, the newest first; allowed: up to 32 times
                from -1e12 to 1e12, one for each sweep of point_counts, each below the one before
            time_column: yes appends a column to joined rows: seconds from their sweep to the first stream's newest
                sweep
            remove_close: metres; removes from each sweep the points whose |x| and |y| are both below this, before
                the sweep is moved; allowed: a finite number above 0
            time_field: the field of a file, or the column in fields, with the points' times; such a column becomes
                seconds from time_origin; allowed: a name other than x, y and z
            time_unit: unit of time_field; by default s
            time_origin: subtracted from the times in time_field; in their unit; by default 0; allowed: stamp, first,
                or a finite number
            deskew: moves each point to its place at deskew_reference, along deskew_poses, by deskew_twists, or by
                the stream's motion since the previous sweep; by default off
            deskew_poses: poses of the sensor or, with mount, the vehicle at rising times; allowed: 2 to 65 rows
                separated by semicolons: t and a pose
            deskew_twists: velocities of the sensor or, with mount, the vehicle in its own frame; a row holds from
                the previous row's t to its own; allowed: 1 to 63 rows t,vx,vy,vz,wx,wy,wz separated by semicolons
            deskew_reference: seconds; the time into whose frame points are moved; by default 0; allowed: a finite
                number
            interpolation: between two deskew_poses: a screw motion, or a straight line and slerp; by default screw
            max_age_ms: milliseconds; refuses points older than this when their job begins; their age counts from the
                parameter time or a PointCloud2's stamp; allowed: a whole number from 1 to 3600000
            outputs: tensors to return; without it points and point_indices
            metadata: stable leaves out ids, times, devices and regions, so that equal requests give equal files; by
                default full
            latest: of the client's requests with this name, at most one waits: the newest; allowed: 1 to 63 letters,
                digits, '.', '_' or '-', but not '.' or '..'
            timeout_ms: milliseconds; time after which an unfinished job gets 504; 0 = the server's own limit;
                allowed: a whole number from 0 to 3600000; default: 0
            matrix: moves the points: x' = ((m0*x + m1*y) + m2*z) + m3, and so on; allowed: 16 numbers, row by row,
                or 16 for each of up to 64 clouds; the last row of each matrix is 0,0,0,1
            crop: metres; removes moved points outside of this box; allowed: off, or
                x_min,y_min,z_min,x_max,y_max,z_max, finite, each min below its max; default: off
            cut: metres; removes moved points inside any of these boxes, such as points on the vehicle itself;
                allowed: off, or up to 64 boxes in the form of crop, separated by semicolons; default: off
            distance: metres; keeps only moved points with min <= distance from the origin < max; allowed: off, or
                min,max, finite, 0 or more, min below max; default: off
            out: "cuda" leaves the tensors on the GPU of the points, else on GPU 0; "cuda:1" names the GPU; points
                may then also be arrays on that GPU
            metadata_only: make no tensors
            request_id: id of the request in the service's log; without it, the service makes one
            traceparent: W3C trace context of the request, for the service's log

        Returns the tensors, as attributes and as a mapping:
            points: [R, C] float32; the points that the steps left, of all clouds, in the order of the body, widened
                to float32
            point_indices: [R] int32; the row of each of these points in the body, counted over all clouds
            point_rows: [N] int32; for each row of the body, its row in points; for a merged point, the row of the
                point that represents it; -1 if dropped; only if outputs names it
            point_fates: [N] uint8; what the steps did to each row of the body, as an index of fate_names of the
                metadata; 0 if they kept the row; only if outputs names it
            point_steps: [N] uint8; the number, from 1, of the step that dropped the row; 0 if no step did; only if
                outputs names it

        Raises Problem if the service refuses the request, TransportError or BadAnswer if no proper answer comes, and
        TypeError or ValueError if the arguments cannot be sent. A parameter that is None is not sent: the preset's
        or the model's value counts, else the default.
        """
        return self._calls.points("transform", TransformResult, locals())

    def nms(
        self,
        boxes: Tensor,
        scores: Tensor,
        labels: Optional[Tensor] = None,
        preset: Optional[str] = None,
        *,
        box_counts: Optional[Ints] = None,
        iou_threshold: Optional[float] = None,
        nms_pre_max: Optional[int] = None,
        nms_post_max: Optional[int] = None,
        class_agnostic: Optional[Flag] = None,
        outputs: Optional[Union[NmsOutputs, Sequence[NmsOutputs]]] = None,
        metadata: Optional[Literal["full", "stable"]] = None,
        latest: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        out: Optional[str] = None,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> NmsResult:
        """Boxes in, non-maximum suppression applied, boxes out.

        Args:
            boxes: [N, 7] float32
            scores: [N] float32
            labels: [N] int32; may be left out
            preset: a named parameter set; the query overrides it; allowed: a name from GET /v1/presets
            box_counts: splits the boxes into a batch of clouds; boxes of different clouds are not compared; allowed:
                1 to 1024 whole numbers that add up to the boxes of the body
            iou_threshold: a better box suppresses a box if they overlap by more than this part of their union, seen
                from above; allowed: a number from 0 to 1; default: 0.01
            nms_pre_max: maximum number of boxes to compare per cloud: those with the highest scores; allowed: a
                whole number from 1 to 1048576; default: 4096
            nms_post_max: maximum number of boxes to keep per cloud; allowed: a whole number from 1 to 1048576;
                default: 500
            class_agnostic: whether a box also suppresses boxes with other labels; default: yes
            outputs: tensors to return; without it kept_indices
            metadata: stable leaves out ids, times, devices and regions, so that equal requests give equal files; by
                default full
            latest: of the client's requests with this name, at most one waits: the newest; allowed: 1 to 63 letters,
                digits, '.', '_' or '-', but not '.' or '..'
            timeout_ms: milliseconds; time after which an unfinished job gets 504; 0 = the server's own limit;
                allowed: a whole number from 0 to 3600000; default: 0
            out: "cuda" leaves the tensors on the GPU of the arrays, else on GPU 0; "cuda:1" names the GPU; arrays
                may then also be on that GPU, from which they are copied
            metadata_only: make no tensors
            request_id: id of the request in the service's log; without it, the service makes one
            traceparent: W3C trace context of the request, for the service's log

        Returns the tensors, as attributes and as a mapping:
            kept_indices: [K] int32; the rows of the kept boxes, in the order of their ranks, counted over all clouds

        Raises Problem if the service refuses the request, TransportError or BadAnswer if no proper answer comes, and
        TypeError or ValueError if the arguments cannot be sent. A parameter that is None is not sent: the preset's
        or the model's value counts, else the default.
        """
        return self._calls.tensors("nms", NmsResult, NMS, locals())

    def decode(
        self,
        *,
        cls_preds: Optional[Tensor] = None,
        box_preds: Optional[Tensor] = None,
        dir_cls_preds: Optional[Tensor] = None,
        heatmap: Optional[Tensor] = None,
        center: Optional[Tensor] = None,
        height: Optional[Tensor] = None,
        dim: Optional[Tensor] = None,
        rot: Optional[Tensor] = None,
        vel: Optional[Tensor] = None,
        iou: Optional[Tensor] = None,
        preset: Optional[str] = None,
        head: Optional[Literal["anchor", "center"]] = None,
        point_cloud_range: Optional[Numbers] = None,
        anchor_sizes: Optional[Numbers] = None,
        anchor_bottoms: Optional[Numbers] = None,
        anchor_rotations: Optional[Numbers] = None,
        task_classes: Optional[Ints] = None,
        task_sizes: Optional[Ints] = None,
        heading: Optional[Literal["angle", "cos_sin"]] = None,
        velocity: Optional[Flag] = None,
        align_center: Optional[Flag] = None,
        dir_offset: Optional[float] = None,
        dir_limit_offset: Optional[float] = None,
        dir_bins: Optional[int] = None,
        labels: Optional[Literal["best", "all"]] = None,
        score_threshold: Optional[float] = None,
        nms_groups: Optional[Literal["task", "class"]] = None,
        nms_threshold: Optional[float] = None,
        nms_pre_max: Optional[int] = None,
        nms_post_max: Optional[int] = None,
        class_agnostic: Optional[Flag] = None,
        class_names: Optional[Sequence[str]] = None,
        outputs: Optional[Union[DecodeOutputs, Sequence[DecodeOutputs]]] = None,
        metadata: Optional[Literal["full", "stable"]] = None,
        latest: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        voxel_size: Optional[Numbers] = None,
        feature_map_stride: Optional[int] = None,
        rot_order: Optional[Literal["cos_sin", "sin_cos"]] = None,
        cell_labels: Optional[Literal["all", "best"]] = None,
        max_objects: Optional[int] = None,
        iou_power: Optional[Numbers] = None,
        score_power: Optional[Numbers] = None,
        rectified_threshold: Optional[float] = None,
        nms: Optional[Literal["rotated", "circle"]] = None,
        post_center_range: Optional[Numbers] = None,
        min_radius: Optional[Numbers] = None,
        out: Optional[str] = None,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> DecodeResult:
        """A detection head's maps in, boxes out.

        Args:
            cls_preds: [B, ny, nx, L] float32 or float16
            box_preds: [B, ny, nx, O] float32 or float16
            dir_cls_preds: [B, ny, nx, D] float32 or float16; may be left out
            heatmap: [B, ny, nx, L] float32 or float16
            center: [B, ny, nx, 2*T] float32 or float16
            height: [B, ny, nx, T] float32 or float16
            dim: [B, ny, nx, 3*T] float32 or float16
            rot: [B, ny, nx, 2*T] float32 or float16
            vel: [B, ny, nx, 2*T] float32 or float16; may be left out
            iou: [B, ny, nx, T] float32 or float16; may be left out
            preset: a named parameter set; the query overrides it; allowed: a name from GET /v1/presets
            head: the kind of head that made the maps in the body; without it, the preset's head, or anchor
            point_cloud_range: metres; the range that the maps cover; allowed: x_min,y_min,z_min,x_max,y_max,z_max,
                finite, each min below its max
            anchor_sizes: metres; each cell has an anchor for every size and rotation; allowed: dx,dy,dz for each of
                1 to 16 sizes, each above 0
            anchor_bottoms: metres; z of the anchors' bottoms; allowed: a number for each size
            anchor_rotations: radians; rotations of the anchors; allowed: 1 to 8 numbers; default: 0,1.57
            task_classes: number of classes of each task; without it one task has all classes; allowed: 1 to 32 whole
                numbers, each 1 or more, that add up to the number of classes
            task_sizes: number of anchor_sizes of each task; allowed: whole numbers of 1 or more, one for each of
                task_classes, that add up to the number of anchor_sizes
            heading: the heading in box_preds: one value to add to the anchor's rotation, or two to add to its cosine
                and sine; default: angle
            velocity: whether box_preds also has two values for the velocity along x and y; default: no
            align_center: whether anchors are at the centres of cells; if not, the outermost anchors are at the ends
                of the range; default: no
            dir_offset: radians; the heading at which the first bin of directions begins; allowed: a finite number;
                default: 0.78539
            dir_limit_offset: moves the beginning of each bin back by this many bins; allowed: a finite number;
                default: 0
            dir_bins: number of directions per anchor in dir_cls_preds; allowed: a whole number from 1 to 16;
                default: 2
            labels: whether an anchor gives one box, for its best class, or a box for each class that reaches
                score_threshold; default: best
            score_threshold: boxes with a lower score are dropped; a centre head also drops boxes with exactly this
                score; allowed: a number from 0 to 1; default: 0.1
            nms_groups: which boxes are ranked, limited and suppressed together: those of a task, or those of a
                class; default: task
            nms_threshold: the same as iou_threshold of /v1/nms; allowed: a number from 0 to 1; default: 0.01
            nms_pre_max: maximum number of boxes to compare per task, or per class with nms_groups=class: those with
                the highest scores; allowed: a whole number from 1 to 1048576; default: 4096
            nms_post_max: maximum number of boxes to keep per task, or per class with nms_groups=class; allowed: a
                whole number from 1 to 1048576; default: 500
            class_agnostic: whether a box also suppresses boxes with other labels; default: yes
            class_names: names of the labels; the body must have as many classes; allowed: 1 to 64 names, each once,
                of up to 255 bytes in all
            outputs: tensors to return; without it all
            metadata: stable leaves out ids, times, devices and regions, so that equal requests give equal files; by
                default full
            latest: of the client's requests with this name, at most one waits: the newest; allowed: 1 to 63 letters,
                digits, '.', '_' or '-', but not '.' or '..'
            timeout_ms: milliseconds; time after which an unfinished job gets 504; 0 = the server's own limit;
                allowed: a whole number from 0 to 3600000; default: 0
            voxel_size: metres; the size of the points' voxels; z is not used; allowed: x,y,z, finite, each above 0
            feature_map_stride: voxels per cell of the maps, along x and along y; allowed: a whole number from 1 to
                1024
            rot_order: meaning of the two channels of rot: cos_sin in OpenPCDet, sin_cos in mmdetection3d and
                Autoware; default: cos_sin
            cell_labels: whether a cell gives a box for each class above score_threshold, or for the best class of
                each task; default: all
            max_objects: maximum number of candidates per task that become boxes: those with the highest scores;
                allowed: a whole number from 1 to 1048576; default: 500
            iou_power: with the map iou, the score of a box becomes score^score_power * overlap^iou_power; overlap is
                (iou + 1) / 2, from 0 to 1; allowed: a number from 0 to 16, or one for each class
            score_power: see iou_power; allowed: a number from 0 to 16, or one for each class; default: 1
            rectified_threshold: with the map iou, boxes whose rectified score is not above this are dropped;
                allowed: a number from 0 to 1
            nms: rotated: a better box suppresses a box that it overlaps by more than nms_threshold; circle: a box
                with its centre within min_radius; default: rotated
            post_center_range: metres; boxes with centres outside of this range are dropped; allowed:
                x_min,y_min,z_min,x_max,y_max,z_max, finite, each min below its max
            min_radius: metres; with nms=circle: a box suppresses worse boxes with centres at most this far from its
                own centre; allowed: a number of 0 or more, or one for each of task_classes
            out: "cuda" leaves the tensors on the GPU of the arrays, else on GPU 0; "cuda:1" names the GPU; arrays
                may then also be on that GPU, from which they are copied
            metadata_only: make no tensors
            request_id: id of the request in the service's log; without it, the service makes one
            traceparent: W3C trace context of the request, for the service's log

        Returns the tensors, as attributes and as a mapping:
            boxes: [K, 7 or 9] float32; x, y, z, dx, dy, dz, heading, and the velocity along x and y if the body has
                the map vel, or the parameter velocity is yes; best first within each cloud, or within each of its
                tasks
            scores: [K] float32; score of each box, from 0 to 1
            labels: [K] int32; class of each box, from 0
            box_indices: [K] int32; for each box, the flat index of its anchor, or of its class and cell, within its
                cloud
            box_counts: [B] int32; boxes of each cloud

        Raises Problem if the service refuses the request, TransportError or BadAnswer if no proper answer comes, and
        TypeError or ValueError if the arguments cannot be sent. A parameter that is None is not sent: the preset's
        or the model's value counts, else the default.
        """
        return self._calls.tensors("decode", DecodeResult, DECODE, locals())

    def scatter(
        self,
        features: Tensor,
        voxel_coords: Tensor,
        preset: Optional[str] = None,
        *,
        grid_size: Optional[Ints] = None,
        batch_size: Optional[int] = None,
        outputs: Optional[Union[ScatterOutputs, Sequence[ScatterOutputs]]] = None,
        metadata: Optional[Literal["full", "stable"]] = None,
        latest: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        out: Optional[str] = None,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> ScatterResult:
        """Voxels' features in, a dense map out.

        Args:
            features: [N, C] float32 or float16
            voxel_coords: [N, 4] int32
            preset: a named parameter set; the query overrides it; allowed: a name from GET /v1/presets
            grid_size: number of cells of the grid along x, y and z, as in the metadata of /v1/voxelize; allowed:
                nx,ny,nz, whole numbers from 1 to 2147483647
            batch_size: number of clouds in the batch (B); allowed: a whole number from 1 to 1024; default: 1
            outputs: tensors to return; without it bev_features
            metadata: stable leaves out ids, times, devices and regions, so that equal requests give equal files; by
                default full
            latest: of the client's requests with this name, at most one waits: the newest; allowed: 1 to 63 letters,
                digits, '.', '_' or '-', but not '.' or '..'
            timeout_ms: milliseconds; time after which an unfinished job gets 504; 0 = the server's own limit;
                allowed: a whole number from 0 to 3600000; default: 0
            out: "cuda" leaves the tensors on the GPU of the arrays, else on GPU 0; "cuda:1" names the GPU; arrays
                may then also be on that GPU, from which they are copied
            metadata_only: make no tensors
            request_id: id of the request in the service's log; without it, the service makes one
            traceparent: W3C trace context of the request, for the service's log

        Returns the tensors, as attributes and as a mapping:
            bev_features: [B, C*nz, ny, nx] float32 or float16; value c of a row at channel c*nz + z, row y, column
                x; zeros elsewhere; the dtype is that of features

        Raises Problem if the service refuses the request, TransportError or BadAnswer if no proper answer comes, and
        TypeError or ValueError if the arguments cannot be sent. A parameter that is None is not sent: the preset's
        or the model's value counts, else the default.
        """
        return self._calls.tensors("scatter", ScatterResult, SCATTER, locals())

    def detect(
        self,
        points: Points,
        model: str,
        *,
        num_features: Optional[int] = None,
        dtype: Optional[Union[DetectDtype, Sequence[DetectDtype]]] = None,
        scale: Optional[Numbers] = None,
        filter: Optional[Union[DetectFilter, Sequence[DetectFilter]]] = None,
        format: Optional[DetectFormat] = None,
        fields: Optional[Sequence[str]] = None,
        intensity_scale: Optional[float] = None,
        point_counts: Optional[Ints] = None,
        stream: Optional[str] = None,
        streams: Optional[Sequence[str]] = None,
        sweeps: Optional[int] = None,
        pose: Optional[Numbers] = None,
        poses: Optional[Numbers] = None,
        mount: Optional[Numbers] = None,
        time: Optional[float] = None,
        times: Optional[Numbers] = None,
        time_column: Optional[Flag] = None,
        remove_close: Optional[float] = None,
        time_field: Optional[str] = None,
        time_unit: Optional[Literal["s", "ms", "us", "ns"]] = None,
        time_origin: Optional[Union[float, str]] = None,
        deskew: Optional[Literal["off", "poses", "twists", "stream"]] = None,
        deskew_poses: Optional[Union[Numbers, str]] = None,
        deskew_twists: Optional[Union[Numbers, str]] = None,
        deskew_reference: Optional[float] = None,
        interpolation: Optional[Literal["screw", "slerp"]] = None,
        max_age_ms: Optional[int] = None,
        steps: Optional[Steps] = None,
        max_voxels_by: Optional[Literal["first", "near", "full"]] = None,
        max_points_by: Optional[Literal["first", "random"]] = None,
        seed: Optional[int] = None,
        precision: Optional[Literal["float32", "float16"]] = None,
        score_threshold: Optional[float] = None,
        max_objects: Optional[int] = None,
        nms_threshold: Optional[float] = None,
        nms_pre_max: Optional[int] = None,
        nms_post_max: Optional[int] = None,
        class_agnostic: Optional[Flag] = None,
        track: Optional[Flag] = None,
        track_max_distance: Optional[Numbers] = None,
        track_max_age: Optional[int] = None,
        outputs: Optional[Union[DetectOutputs, Sequence[DetectOutputs]]] = None,
        metadata: Optional[Literal["full", "stable"]] = None,
        latest: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        out: Optional[str] = None,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> DetectResult:
        """Points in; boxes detected by a model out.

        Args:
            points: one cloud [N, C] of float32 or float16, which gives num_features and dtype; or a batch, as a list
                of such arrays or one array [B, N, C], which also gives point_counts; or bytes, which the parameters
                describe: rows as the service takes them or, with format, a file. Arrays are numpy arrays, objects in
                CPU memory with __array__ or __dlpack__, or buffers of such numbers.
            model: the model that detects; allowed: a name from GET /v1/models
            num_features: number of columns of a row (C); x, y and z come first; allowed: a whole number from 3 to
                64; default: 4
            dtype: type of the body's values, or of each column; a list of several also sets num_features; default:
                float32
            scale: factors of the columns of the body, in order; the others have 1; allowed: 1 to 64 finite numbers
                above 0
            filter: what the client did with the rows of the body so that they compress better
            format: format of the body's points; by default raw: rows of dtype
            fields: names of the columns of a row, which also set num_features; for a file, the fields to take;
                allowed: 3 to 64 names, each once, of up to 255 bytes in all; x, y and z in the first three places
            intensity_scale: multiplies the column named intensity; allowed: a finite number other than 0
            point_counts: splits the body into a batch of clouds or, with stream, into sweeps, the newest first;
                allowed: 1 to 1024 whole numbers that add up to the rows of the body
            stream: the body is a sweep of this stream; the server joins it with earlier sweeps; allowed: 1 to 63
                letters, digits, '.', '_' or '-', but not '.' or '..'
            streams: the streams to join, into the frame of the first; without it, only the stream of the body;
                allowed: 1 to 8 names of streams, each once
            sweeps: number of sweeps to join from each stream and to keep in the body's stream; without it, the
                number in the body; allowed: a whole number from 1 to 32
            pose: transform from the sensor's frame (with mount, the vehicle's frame) to a fixed frame; allowed: 16
                numbers, row by row, or x,y,z,qw,qx,qy,qz
            poses: for a body with several sweeps: their poses, in order; allowed: up to 32 poses, one for each sweep
                of point_counts, each of 16 numbers, or each of 7
            mount: transform from the sensor's frame to the vehicle's frame; the stream keeps it for later sweeps;
                allowed: 16 numbers, row by row, or x,y,z,qw,qx,qy,qz
            time: seconds; the time of the sweep, by any clock that never goes back; allowed: seconds from -1e12 to
                1e12
            times: seconds; for a body with several sweeps: their times, the newest first; allowed: up to 32 times
                from -1e12 to 1e12, one for each sweep of point_counts, each below the one before
            time_column: yes appends a column to joined rows: seconds from their sweep to the first stream's newest
                sweep
            remove_close: metres; removes from each sweep the points whose |x| and |y| are both below this, before
                the sweep is moved; allowed: a finite number above 0
            time_field: the field of a file, or the column in fields, with the points' times; such a column becomes
                seconds from time_origin; allowed: a name other than x, y and z
            time_unit: unit of time_field; by default s
            time_origin: subtracted from the times in time_field; in their unit; by default 0; allowed: stamp, first,
                or a finite number
            deskew: moves each point to its place at deskew_reference, along deskew_poses, by deskew_twists, or by
                the stream's motion since the previous sweep; by default off
            deskew_poses: poses of the sensor or, with mount, the vehicle at rising times; allowed: 2 to 65 rows
                separated by semicolons: t and a pose
            deskew_twists: velocities of the sensor or, with mount, the vehicle in its own frame; a row holds from
                the previous row's t to its own; allowed: 1 to 63 rows t,vx,vy,vz,wx,wy,wz separated by semicolons
            deskew_reference: seconds; the time into whose frame points are moved; by default 0; allowed: a finite
                number
            interpolation: between two deskew_poses: a screw motion, or a straight line and slerp; by default screw
            max_age_ms: milliseconds; refuses points older than this when their job begins; their age counts from the
                parameter time or a PointCloud2's stamp; allowed: a whole number from 1 to 3600000
            steps: what happens to the points before the operation, as a list of steps in their order:
                [RingOutlier("ring"), Downsample(0.1)]. A dict such as {"downsample.voxel_size": 0.2} sets parameters
                of the preset's or the model's steps instead. "none" or an empty list leaves them out. A text, for
                all steps or for one, goes to the service as it is.
            max_voxels_by: which voxels are kept: the first that appear, the nearest to the origin in x and y, or
                those with the most points
            max_points_by: which points a voxel keeps
            seed: with max_points_by=random: another seed chooses other points; allowed: a whole number from 0 to
                2147483647
            precision: type of the backbone's features and weights; float16 needs a GPU; default: float32
            score_threshold: boxes with a lower score are dropped; a centre head also drops boxes with exactly this
                score; allowed: a number from 0 to 1
            max_objects: maximum number of candidates per task that become boxes: those with the highest scores;
                allowed: a whole number from 1 to 1048576
            nms_threshold: the same as iou_threshold of /v1/nms; allowed: a number from 0 to 1
            nms_pre_max: maximum number of boxes to compare per task, or per class with nms_groups=class: those with
                the highest scores; allowed: a whole number from 1 to 1048576
            nms_post_max: maximum number of boxes to keep per task, or per class with nms_groups=class; allowed: a
                whole number from 1 to 1048576
            class_agnostic: whether a box also suppresses boxes with other labels
            track: yes gives each box the id of its track; needs a stream; default: no
            track_max_distance: metres; how far a box, moved by velocity, may be from its track; allowed: a number
                above 0, or one for each class
            track_max_age: sweeps that a track survives without a box; allowed: a whole number from 0 to 100
            outputs: tensors to return; without it boxes, scores, labels, box_counts and, with track=yes, track_ids
            metadata: stable leaves out ids, times, devices and regions, so that equal requests give equal files; by
                default full
            latest: of the client's requests with this name, at most one waits: the newest; allowed: 1 to 63 letters,
                digits, '.', '_' or '-', but not '.' or '..'
            timeout_ms: milliseconds; time after which an unfinished job gets 504; 0 = the server's own limit;
                allowed: a whole number from 0 to 3600000; default: 0
            out: "cuda" leaves the tensors on the GPU of the points, else on GPU 0; "cuda:1" names the GPU; points
                may then also be arrays on that GPU
            metadata_only: make no tensors
            request_id: id of the request in the service's log; without it, the service makes one
            traceparent: W3C trace context of the request, for the service's log

        Returns the tensors, as attributes and as a mapping:
            boxes: [K, 7 or 9] float32; x, y, z, dx, dy, dz, heading, and the velocity along x and y if the model has
                it; best first within each cloud, or within each of its tasks
            scores: [K] float32; score of each box, from 0 to 1
            labels: [K] int32; class of each box, from 0; class_names of the metadata has the names
            box_counts: [B] int32; boxes of each cloud
            track_ids: [K] int64; the id of each box's track, from 1; only if track is yes
            box_indices: [K] int32; for each box, the flat index of its anchor, or of its class and cell, within its
                cloud; only if outputs names it
            cls_preds: [B, H, W, L] float32 or float16; logits of classes, channels last; of an anchor head; only if
                outputs names it
            box_preds: [B, H, W, O] float32 or float16; offsets of boxes; of an anchor head; only if outputs names it
            dir_cls_preds: [B, H, W, D] float32 or float16; logits of directions; of an anchor head that has
                directions; only if outputs names it
            heatmap: [B, H, W, L] float32 or float16; logits of classes, channels last; of a centre head; only if
                outputs names it
            center: [B, H, W, 2*T] float32 or float16; offsets of centres in a cell; of a centre head; only if
                outputs names it
            height: [B, H, W, T] float32 or float16; z of centres; of a centre head; only if outputs names it
            dim: [B, H, W, 3*T] float32 or float16; logarithms of sizes; of a centre head; only if outputs names it
            rot: [B, H, W, 2*T] float32 or float16; cosines and sines of headings, in the order that the model has;
                of a centre head; only if outputs names it
            vel: [B, H, W, 2*T] float32 or float16; velocities along x and y; of a centre head that has velocities;
                only if outputs names it
            iou: [B, H, W, T] float32 or float16; overlaps of boxes; of a centre head that predicts overlaps; only if
                outputs names it
            sparse_coords: [S, 4] int32; batch, z, y, x of each occupied cell of the backbone's last level; of a
                model with a backbone; only if outputs names it
            sparse_features: [S, C] float32; the backbone's features of each of these cells; of a model with a
                backbone; only if outputs names it
            bev_features: [B, C*nz, ny, nx] float32 or float16; the network's input: the features of pillars, or of
                the backbone, as a map; only if outputs names it
            points: [R, C] float32; the points that the steps left, of all clouds, in the order of the body; only if
                outputs names it
            point_indices: [R] int32; the row of each of these points in the body, counted over all clouds; only if
                outputs names it
            point_rows: [N] int32; for each row of the body, its row in points; for a merged point, the row of the
                point that represents it; -1 if dropped; only if outputs names it
            point_fates: [N] uint8; what the steps did to each row of the body, as an index of fate_names of the
                metadata; 0 if they kept the row; only if outputs names it
            point_steps: [N] uint8; the number, from 1, of the step that dropped the row; 0 if no step did; only if
                outputs names it

        Raises Problem if the service refuses the request, TransportError or BadAnswer if no proper answer comes, and
        TypeError or ValueError if the arguments cannot be sent. A parameter that is None is not sent: the preset's
        or the model's value counts, else the default.
        """
        return self._calls.points("detect", DetectResult, locals())

    def backbone(
        self,
        points: Points,
        model: str,
        *,
        num_features: Optional[int] = None,
        dtype: Optional[Union[BackboneDtype, Sequence[BackboneDtype]]] = None,
        scale: Optional[Numbers] = None,
        filter: Optional[Union[BackboneFilter, Sequence[BackboneFilter]]] = None,
        format: Optional[BackboneFormat] = None,
        fields: Optional[Sequence[str]] = None,
        intensity_scale: Optional[float] = None,
        point_counts: Optional[Ints] = None,
        stream: Optional[str] = None,
        streams: Optional[Sequence[str]] = None,
        sweeps: Optional[int] = None,
        pose: Optional[Numbers] = None,
        poses: Optional[Numbers] = None,
        mount: Optional[Numbers] = None,
        time: Optional[float] = None,
        times: Optional[Numbers] = None,
        time_column: Optional[Flag] = None,
        remove_close: Optional[float] = None,
        time_field: Optional[str] = None,
        time_unit: Optional[Literal["s", "ms", "us", "ns"]] = None,
        time_origin: Optional[Union[float, str]] = None,
        deskew: Optional[Literal["off", "poses", "twists", "stream"]] = None,
        deskew_poses: Optional[Union[Numbers, str]] = None,
        deskew_twists: Optional[Union[Numbers, str]] = None,
        deskew_reference: Optional[float] = None,
        interpolation: Optional[Literal["screw", "slerp"]] = None,
        max_age_ms: Optional[int] = None,
        steps: Optional[Steps] = None,
        max_voxels_by: Optional[Literal["first", "near", "full"]] = None,
        max_points_by: Optional[Literal["first", "random"]] = None,
        seed: Optional[int] = None,
        precision: Optional[Literal["float32", "float16"]] = None,
        outputs: Optional[Union[BackboneOutputs, Sequence[BackboneOutputs]]] = None,
        metadata: Optional[Literal["full", "stable"]] = None,
        latest: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        out: Optional[str] = None,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> BackboneResult:
        """Points in; features of a model's backbone out.

        Args:
            points: one cloud [N, C] of float32 or float16, which gives num_features and dtype; or a batch, as a list
                of such arrays or one array [B, N, C], which also gives point_counts; or bytes, which the parameters
                describe: rows as the service takes them or, with format, a file. Arrays are numpy arrays, objects in
                CPU memory with __array__ or __dlpack__, or buffers of such numbers.
            model: the model that detects; allowed: a name from GET /v1/models
            num_features: number of columns of a row (C); x, y and z come first; allowed: a whole number from 3 to
                64; default: 4
            dtype: type of the body's values, or of each column; a list of several also sets num_features; default:
                float32
            scale: factors of the columns of the body, in order; the others have 1; allowed: 1 to 64 finite numbers
                above 0
            filter: what the client did with the rows of the body so that they compress better
            format: format of the body's points; by default raw: rows of dtype
            fields: names of the columns of a row, which also set num_features; for a file, the fields to take;
                allowed: 3 to 64 names, each once, of up to 255 bytes in all; x, y and z in the first three places
            intensity_scale: multiplies the column named intensity; allowed: a finite number other than 0
            point_counts: splits the body into a batch of clouds or, with stream, into sweeps, the newest first;
                allowed: 1 to 1024 whole numbers that add up to the rows of the body
            stream: the body is a sweep of this stream; the server joins it with earlier sweeps; allowed: 1 to 63
                letters, digits, '.', '_' or '-', but not '.' or '..'
            streams: the streams to join, into the frame of the first; without it, only the stream of the body;
                allowed: 1 to 8 names of streams, each once
            sweeps: number of sweeps to join from each stream and to keep in the body's stream; without it, the
                number in the body; allowed: a whole number from 1 to 32
            pose: transform from the sensor's frame (with mount, the vehicle's frame) to a fixed frame; allowed: 16
                numbers, row by row, or x,y,z,qw,qx,qy,qz
            poses: for a body with several sweeps: their poses, in order; allowed: up to 32 poses, one for each sweep
                of point_counts, each of 16 numbers, or each of 7
            mount: transform from the sensor's frame to the vehicle's frame; the stream keeps it for later sweeps;
                allowed: 16 numbers, row by row, or x,y,z,qw,qx,qy,qz
            time: seconds; the time of the sweep, by any clock that never goes back; allowed: seconds from -1e12 to
                1e12
            times: seconds; for a body with several sweeps: their times, the newest first; allowed: up to 32 times
                from -1e12 to 1e12, one for each sweep of point_counts, each below the one before
            time_column: yes appends a column to joined rows: seconds from their sweep to the first stream's newest
                sweep
            remove_close: metres; removes from each sweep the points whose |x| and |y| are both below this, before
                the sweep is moved; allowed: a finite number above 0
            time_field: the field of a file, or the column in fields, with the points' times; such a column becomes
                seconds from time_origin; allowed: a name other than x, y and z
            time_unit: unit of time_field; by default s
            time_origin: subtracted from the times in time_field; in their unit; by default 0; allowed: stamp, first,
                or a finite number
            deskew: moves each point to its place at deskew_reference, along deskew_poses, by deskew_twists, or by
                the stream's motion since the previous sweep; by default off
            deskew_poses: poses of the sensor or, with mount, the vehicle at rising times; allowed: 2 to 65 rows
                separated by semicolons: t and a pose
            deskew_twists: velocities of the sensor or, with mount, the vehicle in its own frame; a row holds from
                the previous row's t to its own; allowed: 1 to 63 rows t,vx,vy,vz,wx,wy,wz separated by semicolons
            deskew_reference: seconds; the time into whose frame points are moved; by default 0; allowed: a finite
                number
            interpolation: between two deskew_poses: a screw motion, or a straight line and slerp; by default screw
            max_age_ms: milliseconds; refuses points older than this when their job begins; their age counts from the
                parameter time or a PointCloud2's stamp; allowed: a whole number from 1 to 3600000
            steps: what happens to the points before the operation, as a list of steps in their order:
                [RingOutlier("ring"), Downsample(0.1)]. A dict such as {"downsample.voxel_size": 0.2} sets parameters
                of the preset's or the model's steps instead. "none" or an empty list leaves them out. A text, for
                all steps or for one, goes to the service as it is.
            max_voxels_by: which voxels are kept: the first that appear, the nearest to the origin in x and y, or
                those with the most points
            max_points_by: which points a voxel keeps
            seed: with max_points_by=random: another seed chooses other points; allowed: a whole number from 0 to
                2147483647
            precision: type of the backbone's features and weights; float16 needs a GPU; default: float32
            outputs: tensors to return; without it sparse_coords and sparse_features
            metadata: stable leaves out ids, times, devices and regions, so that equal requests give equal files; by
                default full
            latest: of the client's requests with this name, at most one waits: the newest; allowed: 1 to 63 letters,
                digits, '.', '_' or '-', but not '.' or '..'
            timeout_ms: milliseconds; time after which an unfinished job gets 504; 0 = the server's own limit;
                allowed: a whole number from 0 to 3600000; default: 0
            out: "cuda" leaves the tensors on the GPU of the points, else on GPU 0; "cuda:1" names the GPU; points
                may then also be arrays on that GPU
            metadata_only: make no tensors
            request_id: id of the request in the service's log; without it, the service makes one
            traceparent: W3C trace context of the request, for the service's log

        Returns the tensors, as attributes and as a mapping:
            sparse_coords: [S, 4] int32; batch, z, y, x of each occupied cell of the backbone's last level, in
                ascending order
            sparse_features: [S, C] float32; the backbone's features of each of these cells
            bev_features: [B, C*nz, ny, nx] float32 or float16; the same features as a map: feature c at channel c*nz
                + z, row y, column x; zeros elsewhere; only if outputs names it
            points: [R, C] float32; the points that the steps left, of all clouds, in the order of the body; only if
                outputs names it
            point_indices: [R] int32; the row of each of these points in the body, counted over all clouds; only if
                outputs names it
            point_rows: [N] int32; for each row of the body, its row in points; for a merged point, the row of the
                point that represents it; -1 if dropped; only if outputs names it
            point_fates: [N] uint8; what the steps did to each row of the body, as an index of fate_names of the
                metadata; 0 if they kept the row; only if outputs names it
            point_steps: [N] uint8; the number, from 1, of the step that dropped the row; 0 if no step did; only if
                outputs names it

        Raises Problem if the service refuses the request, TransportError or BadAnswer if no proper answer comes, and
        TypeError or ValueError if the arguments cannot be sent. A parameter that is None is not sent: the preset's
        or the model's value counts, else the default.
        """
        return self._calls.points("backbone", BackboneResult, locals())

    def serialize(
        self,
        points: Points,
        preset: Optional[str] = None,
        *,
        num_features: Optional[int] = None,
        dtype: Optional[Union[SerializeDtype, Sequence[SerializeDtype]]] = None,
        scale: Optional[Numbers] = None,
        filter: Optional[Union[SerializeFilter, Sequence[SerializeFilter]]] = None,
        format: Optional[SerializeFormat] = None,
        fields: Optional[Sequence[str]] = None,
        intensity_scale: Optional[float] = None,
        point_counts: Optional[Ints] = None,
        stream: Optional[str] = None,
        streams: Optional[Sequence[str]] = None,
        sweeps: Optional[int] = None,
        pose: Optional[Numbers] = None,
        poses: Optional[Numbers] = None,
        mount: Optional[Numbers] = None,
        time: Optional[float] = None,
        times: Optional[Numbers] = None,
        time_column: Optional[Flag] = None,
        remove_close: Optional[float] = None,
        time_field: Optional[str] = None,
        time_unit: Optional[Literal["s", "ms", "us", "ns"]] = None,
        time_origin: Optional[Union[float, str]] = None,
        deskew: Optional[Literal["off", "poses", "twists", "stream"]] = None,
        deskew_poses: Optional[Union[Numbers, str]] = None,
        deskew_twists: Optional[Union[Numbers, str]] = None,
        deskew_reference: Optional[float] = None,
        interpolation: Optional[Literal["screw", "slerp"]] = None,
        max_age_ms: Optional[int] = None,
        steps: Optional[Steps] = None,
        voxel_size: Optional[Union[float, Numbers]] = None,
        orders: Optional[Union[SerializeOrders, Sequence[SerializeOrders]]] = None,
        depth: Optional[int] = None,
        grid_origin: Optional[Numbers] = None,
        strides: Optional[Ints] = None,
        outputs: Optional[Union[SerializeOutputs, Sequence[SerializeOutputs]]] = None,
        metadata: Optional[Literal["full", "stable"]] = None,
        latest: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        out: Optional[str] = None,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> SerializeResult:
        """Points in, codes and orders along curves out.

        Args:
            points: one cloud [N, C] of float32 or float16, which gives num_features and dtype; or a batch, as a list
                of such arrays or one array [B, N, C], which also gives point_counts; or bytes, which the parameters
                describe: rows as the service takes them or, with format, a file. Arrays are numpy arrays, objects in
                CPU memory with __array__ or __dlpack__, or buffers of such numbers.
            preset: a named parameter set; the query overrides it; allowed: a name from GET /v1/presets
            num_features: number of columns of a row (C); x, y and z come first; allowed: a whole number from 3 to
                64; default: 4
            dtype: type of the body's values, or of each column; a list of several also sets num_features; default:
                float32
            scale: factors of the columns of the body, in order; the others have 1; allowed: 1 to 64 finite numbers
                above 0
            filter: what the client did with the rows of the body so that they compress better
            format: format of the body's points; by default raw: rows of dtype
            fields: names of the columns of a row, which also set num_features; for a file, the fields to take;
                allowed: 3 to 64 names, each once, of up to 255 bytes in all; x, y and z in the first three places
            intensity_scale: multiplies the column named intensity; allowed: a finite number other than 0
            point_counts: splits the body into a batch of clouds or, with stream, into sweeps, the newest first;
                allowed: 1 to 1024 whole numbers that add up to the rows of the body
            stream: the body is a sweep of this stream; the server joins it with earlier sweeps; allowed: 1 to 63
                letters, digits, '.', '_' or '-', but not '.' or '..'
            streams: the streams to join, into the frame of the first; without it, only the stream of the body;
                allowed: 1 to 8 names of streams, each once
            sweeps: number of sweeps to join from each stream and to keep in the body's stream; without it, the
                number in the body; allowed: a whole number from 1 to 32
            pose: transform from the sensor's frame (with mount, the vehicle's frame) to a fixed frame; allowed: 16
                numbers, row by row, or x,y,z,qw,qx,qy,qz
            poses: for a body with several sweeps: their poses, in order; allowed: up to 32 poses, one for each sweep
                of point_counts, each of 16 numbers, or each of 7
            mount: transform from the sensor's frame to the vehicle's frame; the stream keeps it for later sweeps;
                allowed: 16 numbers, row by row, or x,y,z,qw,qx,qy,qz
            time: seconds; the time of the sweep, by any clock that never goes back; allowed: seconds from -1e12 to
                1e12
            times: seconds; for a body with several sweeps: their times, the newest first; allowed: up to 32 times
                from -1e12 to 1e12, one for each sweep of point_counts, each below the one before
            time_column: yes appends a column to joined rows: seconds from their sweep to the first stream's newest
                sweep
            remove_close: metres; removes from each sweep the points whose |x| and |y| are both below this, before
                the sweep is moved; allowed: a finite number above 0
            time_field: the field of a file, or the column in fields, with the points' times; such a column becomes
                seconds from time_origin; allowed: a name other than x, y and z
            time_unit: unit of time_field; by default s
            time_origin: subtracted from the times in time_field; in their unit; by default 0; allowed: stamp, first,
                or a finite number
            deskew: moves each point to its place at deskew_reference, along deskew_poses, by deskew_twists, or by
                the stream's motion since the previous sweep; by default off
            deskew_poses: poses of the sensor or, with mount, the vehicle at rising times; allowed: 2 to 65 rows
                separated by semicolons: t and a pose
            deskew_twists: velocities of the sensor or, with mount, the vehicle in its own frame; a row holds from
                the previous row's t to its own; allowed: 1 to 63 rows t,vx,vy,vz,wx,wy,wz separated by semicolons
            deskew_reference: seconds; the time into whose frame points are moved; by default 0; allowed: a finite
                number
            interpolation: between two deskew_poses: a screw motion, or a straight line and slerp; by default screw
            max_age_ms: milliseconds; refuses points older than this when their job begins; their age counts from the
                parameter time or a PointCloud2's stamp; allowed: a whole number from 1 to 3600000
            steps: what happens to the points before the operation, as a list of steps in their order:
                [RingOutlier("ring"), Downsample(0.1)]. A dict such as {"downsample.voxel_size": 0.2} sets parameters
                of the preset's or the model's steps instead. "none" or an empty list leaves them out. A text, for
                all steps or for one, goes to the service as it is.
            voxel_size: metres; edges of the cells; points over 1048575 cells from 0,0,0 are dropped as
                out_of_lattice; allowed: one number for all axes, or x,y,z, finite, each above 0
            orders: the curves that order the points, each once; strides uses the first; default:
                z,z-trans,hilbert,hilbert-trans
            depth: bits of a code for each axis; without it, the fewest that hold 1 + the largest value in
                grid_coord; allowed: a whole number from 1 to 16
            grid_origin: metres; the point whose cell is 0,0,0; points below are out_of_lattice; without it each
                cloud's least cell is 0,0,0; allowed: x,y,z, finite
            strides: one stage of pooling per number, which joins that many cells along each axis; without it, no
                pooling; allowed: 1 to 8 powers of two, from 1 to 65536
            outputs: tensors to return; without it points, serialized_* and, with strides, pool_*
            metadata: stable leaves out ids, times, devices and regions, so that equal requests give equal files; by
                default full
            latest: of the client's requests with this name, at most one waits: the newest; allowed: 1 to 63 letters,
                digits, '.', '_' or '-', but not '.' or '..'
            timeout_ms: milliseconds; time after which an unfinished job gets 504; 0 = the server's own limit;
                allowed: a whole number from 0 to 3600000; default: 0
            out: "cuda" leaves the tensors on the GPU of the points, else on GPU 0; "cuda:1" names the GPU; points
                may then also be arrays on that GPU
            metadata_only: make no tensors
            request_id: id of the request in the service's log; without it, the service makes one
            traceparent: W3C trace context of the request, for the service's log

        Returns the tensors, as attributes and as a mapping:
            grid_coord: [R, 3] int32; the cell x, y, z of each row of points, from the least cell or grid_origin
            serialized_code: [Q, R] int64; the code of each row on each curve; its cloud is in the bits above 3 *
                depth
            serialized_order: [Q, R] int32; the rows by ascending code, on each curve; rows with the same code ascend
            serialized_inverse: [Q, R] int32; the place of each row in serialized_order
            pool_cluster: [E] int32; for each stage in turn: for each row before the stage, the new row that it
                joins; only with strides
            pool_indices: [E] int32; for each stage in turn: the rows before the stage, by ascending (new row, row);
                only with strides
            pool_indptr: [F] int32; for each stage in turn: for each new row, where its rows begin in pool_indices;
                at the end, the number of rows; only with strides
            pool_head_indices: [G] int32; for each stage in turn: the first row of each new row; only with strides
            pool_grid_coord: [G, 3] int32; for each stage in turn: the cells of the new rows; only with strides
            pool_serialized_code: [Q, G] int64; for each stage in turn: the codes of the new rows on each curve; only
                with strides
            pool_serialized_order: [Q, G] int32; the new rows of each stage by ascending code, numbered from 0 in the
                stage; only with strides
            pool_serialized_inverse: [Q, G] int32; the place of each new row in pool_serialized_order; only with
                strides
            points: [R, C] float32; the points that the steps left, without those out of the lattice, in the order of
                the body
            point_indices: [R] int32; the row of each of these points in the body, counted over all clouds; only if
                outputs names it
            point_rows: [N] int32; for each row of the body, its row in points; for a merged point, the row of the
                point that represents it; -1 if dropped; only if outputs names it
            point_fates: [N] uint8; what the steps did to each row of the body, as an index of fate_names of the
                metadata; 0 if they kept the row; only if outputs names it
            point_steps: [N] uint8; the number, from 1, of the step that dropped the row; 0 if no step did; only if
                outputs names it

        Raises Problem if the service refuses the request, TransportError or BadAnswer if no proper answer comes, and
        TypeError or ValueError if the arguments cannot be sent. A parameter that is None is not sent: the preset's
        or the model's value counts, else the default.
        """
        return self._calls.points("serialize", SerializeResult, locals())

    def range_image(
        self,
        points: Points,
        preset: Optional[str] = None,
        *,
        num_features: Optional[int] = None,
        dtype: Optional[Union[RangeImageDtype, Sequence[RangeImageDtype]]] = None,
        scale: Optional[Numbers] = None,
        filter: Optional[Union[RangeImageFilter, Sequence[RangeImageFilter]]] = None,
        format: Optional[RangeImageFormat] = None,
        fields: Optional[Sequence[str]] = None,
        intensity_scale: Optional[float] = None,
        point_counts: Optional[Ints] = None,
        stream: Optional[str] = None,
        streams: Optional[Sequence[str]] = None,
        sweeps: Optional[int] = None,
        pose: Optional[Numbers] = None,
        poses: Optional[Numbers] = None,
        mount: Optional[Numbers] = None,
        time: Optional[float] = None,
        times: Optional[Numbers] = None,
        time_column: Optional[Flag] = None,
        remove_close: Optional[float] = None,
        time_field: Optional[str] = None,
        time_unit: Optional[Literal["s", "ms", "us", "ns"]] = None,
        time_origin: Optional[Union[float, str]] = None,
        deskew: Optional[Literal["off", "poses", "twists", "stream"]] = None,
        deskew_poses: Optional[Union[Numbers, str]] = None,
        deskew_twists: Optional[Union[Numbers, str]] = None,
        deskew_reference: Optional[float] = None,
        interpolation: Optional[Literal["screw", "slerp"]] = None,
        max_age_ms: Optional[int] = None,
        steps: Optional[Steps] = None,
        height: Optional[int] = None,
        width: Optional[int] = None,
        rows: Optional[Literal["elevation", "ring", "ring_down"]] = None,
        fov_up: Optional[float] = None,
        fov_down: Optional[float] = None,
        ring: Optional[str] = None,
        outside: Optional[Literal["clamp", "drop"]] = None,
        winner: Optional[Literal["nearest", "farthest", "first", "last"]] = None,
        channels: Optional[Sequence[str]] = None,
        means: Optional[Numbers] = None,
        stds: Optional[Numbers] = None,
        empty: Optional[float] = None,
        outputs: Optional[Union[RangeImageOutputs, Sequence[RangeImageOutputs]]] = None,
        metadata: Optional[Literal["full", "stable"]] = None,
        latest: Optional[str] = None,
        timeout_ms: Optional[int] = None,
        out: Optional[str] = None,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> RangeImageResult:
        """Points in; images of the sensor's view out.

        Args:
            points: one cloud [N, C] of float32 or float16, which gives num_features and dtype; or a batch, as a list
                of such arrays or one array [B, N, C], which also gives point_counts; or bytes, which the parameters
                describe: rows as the service takes them or, with format, a file. Arrays are numpy arrays, objects in
                CPU memory with __array__ or __dlpack__, or buffers of such numbers.
            preset: a named parameter set; the query overrides it; allowed: a name from GET /v1/presets
            num_features: number of columns of a row (C); x, y and z come first; allowed: a whole number from 3 to
                64; default: 4
            dtype: type of the body's values, or of each column; a list of several also sets num_features; default:
                float32
            scale: factors of the columns of the body, in order; the others have 1; allowed: 1 to 64 finite numbers
                above 0
            filter: what the client did with the rows of the body so that they compress better
            format: format of the body's points; by default raw: rows of dtype
            fields: names of the columns of a row, which also set num_features; for a file, the fields to take;
                allowed: 3 to 64 names, each once, of up to 255 bytes in all; x, y and z in the first three places
            intensity_scale: multiplies the column named intensity; allowed: a finite number other than 0
            point_counts: splits the body into a batch of clouds or, with stream, into sweeps, the newest first;
                allowed: 1 to 1024 whole numbers that add up to the rows of the body
            stream: the body is a sweep of this stream; the server joins it with earlier sweeps; allowed: 1 to 63
                letters, digits, '.', '_' or '-', but not '.' or '..'
            streams: the streams to join, into the frame of the first; without it, only the stream of the body;
                allowed: 1 to 8 names of streams, each once
            sweeps: number of sweeps to join from each stream and to keep in the body's stream; without it, the
                number in the body; allowed: a whole number from 1 to 32
            pose: transform from the sensor's frame (with mount, the vehicle's frame) to a fixed frame; allowed: 16
                numbers, row by row, or x,y,z,qw,qx,qy,qz
            poses: for a body with several sweeps: their poses, in order; allowed: up to 32 poses, one for each sweep
                of point_counts, each of 16 numbers, or each of 7
            mount: transform from the sensor's frame to the vehicle's frame; the stream keeps it for later sweeps;
                allowed: 16 numbers, row by row, or x,y,z,qw,qx,qy,qz
            time: seconds; the time of the sweep, by any clock that never goes back; allowed: seconds from -1e12 to
                1e12
            times: seconds; for a body with several sweeps: their times, the newest first; allowed: up to 32 times
                from -1e12 to 1e12, one for each sweep of point_counts, each below the one before
            time_column: yes appends a column to joined rows: seconds from their sweep to the first stream's newest
                sweep
            remove_close: metres; removes from each sweep the points whose |x| and |y| are both below this, before
                the sweep is moved; allowed: a finite number above 0
            time_field: the field of a file, or the column in fields, with the points' times; such a column becomes
                seconds from time_origin; allowed: a name other than x, y and z
            time_unit: unit of time_field; by default s
            time_origin: subtracted from the times in time_field; in their unit; by default 0; allowed: stamp, first,
                or a finite number
            deskew: moves each point to its place at deskew_reference, along deskew_poses, by deskew_twists, or by
                the stream's motion since the previous sweep; by default off
            deskew_poses: poses of the sensor or, with mount, the vehicle at rising times; allowed: 2 to 65 rows
                separated by semicolons: t and a pose
            deskew_twists: velocities of the sensor or, with mount, the vehicle in its own frame; a row holds from
                the previous row's t to its own; allowed: 1 to 63 rows t,vx,vy,vz,wx,wy,wz separated by semicolons
            deskew_reference: seconds; the time into whose frame points are moved; by default 0; allowed: a finite
                number
            interpolation: between two deskew_poses: a screw motion, or a straight line and slerp; by default screw
            max_age_ms: milliseconds; refuses points older than this when their job begins; their age counts from the
                parameter time or a PointCloud2's stamp; allowed: a whole number from 1 to 3600000
            steps: what happens to the points before the operation, as a list of steps in their order:
                [RingOutlier("ring"), Downsample(0.1)]. A dict such as {"downsample.voxel_size": 0.2} sets parameters
                of the preset's or the model's steps instead. "none" or an empty list leaves them out. A text, for
                all steps or for one, goes to the service as it is.
            height: rows of the image (H); allowed: a whole number from 1 to 1024
            width: columns of the image (W); allowed: a whole number from 1 to 65536
            rows: what gives a point its row: its elevation, or its ring, from the bottom (ring) or from the top
                (ring_down); default: elevation
            fov_up: degrees; elevation of the upper edge; allowed: a finite number
            fov_down: degrees; elevation of the lower edge; allowed: a finite number
            ring: the column with the number of the ring; kitti: as in the step ring_outlier; allowed: the name of a
                column, up to 31 bytes, or kitti
            outside: whether a point above or below the field of view moves to the nearest row or is dropped;
                default: clamp
            winner: which of its points a pixel keeps; default: nearest
            channels: channels of range_image, by default range,x,y,z,intensity; range is the distance; allowed: 1 to
                16 names: range, x, y, z, intensity, or other names in fields
            means: with stds: a value becomes (value - mean) / std; allowed: a finite number for each channel
            stds: see means; allowed: a finite number above 0 for each channel
            empty: value of pixels without a point; 0 if means are given; allowed: a finite number; default: -1
            outputs: tensors to return; without it range_image, range_indices, range_mask and point_pixels
            metadata: stable leaves out ids, times, devices and regions, so that equal requests give equal files; by
                default full
            latest: of the client's requests with this name, at most one waits: the newest; allowed: 1 to 63 letters,
                digits, '.', '_' or '-', but not '.' or '..'
            timeout_ms: milliseconds; time after which an unfinished job gets 504; 0 = the server's own limit;
                allowed: a whole number from 0 to 3600000; default: 0
            out: "cuda" leaves the tensors on the GPU of the points, else on GPU 0; "cuda:1" names the GPU; points
                may then also be arrays on that GPU
            metadata_only: make no tensors
            request_id: id of the request in the service's log; without it, the service makes one
            traceparent: W3C trace context of the request, for the service's log

        Returns the tensors, as attributes and as a mapping:
            range_image: [B, Ch, H, W] float32; the channels of the point that each pixel keeps; the value of empty
                if it has no point
            range_indices: [B, H, W] int32; row of that point in the body, counted over all clouds; -1 if the pixel
                has no point
            range_mask: [B, H, W] uint8; 1 if the pixel has a point
            point_pixels: [N, 2] int32; row and column of each point's pixel, whether the pixel keeps the point or
                not; -1 if dropped
            point_ranges: [N] float32; distance of each point; -1 if dropped; only if outputs names it
            pixel_coords: [K, 3] int32; batch, row and column of each pixel that has a point, ascending; only if
                outputs names it
            point_pixel_rows: [N] int32; row of each point's pixel in pixel_coords; -1 if dropped; only if outputs
                names it
            points: [R, C] float32; the points that the steps left, of all clouds, in the order of the body; only if
                outputs names it
            point_indices: [R] int32; the row of each of these points in the body, counted over all clouds; only if
                outputs names it
            point_rows: [N] int32; for each row of the body, its row in points; for a merged point, the row of the
                point that represents it; -1 if dropped; only if outputs names it
            point_fates: [N] uint8; what the steps did to each row of the body, as an index of fate_names of the
                metadata; 0 if they kept the row; only if outputs names it
            point_steps: [N] uint8; the number, from 1, of the step that dropped the row; 0 if no step did; only if
                outputs names it

        Raises Problem if the service refuses the request, TransportError or BadAnswer if no proper answer comes, and
        TypeError or ValueError if the arguments cannot be sent. A parameter that is None is not sent: the preset's
        or the model's value counts, else the default.
        """
        return self._calls.points("range_image", RangeImageResult, locals())

    @overload
    def file_bytes(
        self,
        operation: Literal["voxelize"],
        points: Points,
        media_type: str = "application/vnd.safetensors",
        *,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Unpack[VoxelizeSweepParameters],
    ) -> NDArray[np.uint8]: ...
    @overload
    def file_bytes(
        self,
        operation: Literal["fps"],
        points: Points,
        media_type: str = "application/vnd.safetensors",
        *,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Unpack[FpsSweepParameters],
    ) -> NDArray[np.uint8]: ...
    @overload
    def file_bytes(
        self,
        operation: Literal["points"],
        points: Points,
        media_type: str = "application/vnd.safetensors",
        *,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Unpack[PointsSweepParameters],
    ) -> NDArray[np.uint8]: ...
    @overload
    def file_bytes(
        self,
        operation: Literal["transform"],
        points: Points,
        media_type: str = "application/vnd.safetensors",
        *,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Unpack[TransformSweepParameters],
    ) -> NDArray[np.uint8]: ...
    @overload
    def file_bytes(
        self,
        operation: Literal["detect"],
        points: Points,
        media_type: str = "application/vnd.safetensors",
        *,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Unpack[DetectSweepParameters],
    ) -> NDArray[np.uint8]: ...
    @overload
    def file_bytes(
        self,
        operation: Literal["backbone"],
        points: Points,
        media_type: str = "application/vnd.safetensors",
        *,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Unpack[BackboneSweepParameters],
    ) -> NDArray[np.uint8]: ...
    @overload
    def file_bytes(
        self,
        operation: Literal["serialize"],
        points: Points,
        media_type: str = "application/vnd.safetensors",
        *,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Unpack[SerializeSweepParameters],
    ) -> NDArray[np.uint8]: ...
    @overload
    def file_bytes(
        self,
        operation: Literal["range_image"],
        points: Points,
        media_type: str = "application/vnd.safetensors",
        *,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Unpack[RangeImageSweepParameters],
    ) -> NDArray[np.uint8]: ...
    def file_bytes(
        self,
        operation: str,
        points: Points,
        media_type: str = "application/vnd.safetensors",
        *,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Any,
    ) -> NDArray[np.uint8]:
        """The bytes of a file with the answer of an operation on points: an array of uint8, not a Result. The kind of
        the file is `media_type`: application/vnd.safetensors, application/x-npz or application/x-mcap. The other
        arguments are those of the operation. No warnings are shown."""
        return self._calls.file_bytes(operation, media_type, locals())

    @overload
    def stream(
        self,
        name: str,
        sweeps: int,
        *,
        operation: Literal["voxelize"] = "voxelize",
        streams: Optional[Sequence[str]] = None,
        mount: Optional[Numbers] = None,
        keep: bool = False,
        **parameters: Unpack[VoxelizeParameters],
    ) -> Stream[VoxelizeResult]: ...
    @overload
    def stream(
        self,
        name: str,
        sweeps: int,
        *,
        operation: Literal["fps"],
        streams: Optional[Sequence[str]] = None,
        mount: Optional[Numbers] = None,
        keep: bool = False,
        **parameters: Unpack[FpsParameters],
    ) -> Stream[FpsResult]: ...
    @overload
    def stream(
        self,
        name: str,
        sweeps: int,
        *,
        operation: Literal["points"],
        streams: Optional[Sequence[str]] = None,
        mount: Optional[Numbers] = None,
        keep: bool = False,
        **parameters: Unpack[PointsParameters],
    ) -> Stream[PointsResult]: ...
    @overload
    def stream(
        self,
        name: str,
        sweeps: int,
        *,
        operation: Literal["transform"],
        streams: Optional[Sequence[str]] = None,
        mount: Optional[Numbers] = None,
        keep: bool = False,
        **parameters: Unpack[TransformParameters],
    ) -> Stream[TransformResult]: ...
    @overload
    def stream(
        self,
        name: str,
        sweeps: int,
        *,
        operation: Literal["detect"],
        streams: Optional[Sequence[str]] = None,
        mount: Optional[Numbers] = None,
        keep: bool = False,
        **parameters: Unpack[DetectParameters],
    ) -> Stream[DetectResult]: ...
    @overload
    def stream(
        self,
        name: str,
        sweeps: int,
        *,
        operation: Literal["backbone"],
        streams: Optional[Sequence[str]] = None,
        mount: Optional[Numbers] = None,
        keep: bool = False,
        **parameters: Unpack[BackboneParameters],
    ) -> Stream[BackboneResult]: ...
    @overload
    def stream(
        self,
        name: str,
        sweeps: int,
        *,
        operation: Literal["serialize"],
        streams: Optional[Sequence[str]] = None,
        mount: Optional[Numbers] = None,
        keep: bool = False,
        **parameters: Unpack[SerializeParameters],
    ) -> Stream[SerializeResult]: ...
    @overload
    def stream(
        self,
        name: str,
        sweeps: int,
        *,
        operation: Literal["range_image"],
        streams: Optional[Sequence[str]] = None,
        mount: Optional[Numbers] = None,
        keep: bool = False,
        **parameters: Unpack[RangeImageParameters],
    ) -> Stream[RangeImageResult]: ...
    def stream(
        self,
        name: str,
        sweeps: int,
        *,
        operation: str = "voxelize",
        streams: Optional[Sequence[str]] = None,
        mount: Optional[Numbers] = None,
        keep: bool = False,
        **parameters: Any,
    ) -> Stream[Any]:
        """A sensor's stream. send() joins a sweep with earlier sweeps, `sweeps` in all, and computes the result.

        Args:
            name: the stream
            sweeps: number of sweeps to join from each stream, the newest first
            operation: what is computed of the joined points; the other arguments are its parameters, such as preset,
                time_column=True or remove_close=1
            streams: several sensors' streams, of which this is one, to join in the frame of the first
            mount: transform from the sensor's frame to the vehicle's, in any form of a pose
            keep: older sweeps stay here too, as copies, and are sent again if the service has lost them; points must
                then be arrays
        """
        results: Dict[str, Type[Result]] = {
            "voxelize": VoxelizeResult,
            "fps": FpsResult,
            "points": PointsResult,
            "transform": TransformResult,
            "detect": DetectResult,
            "backbone": BackboneResult,
            "serialize": SerializeResult,
            "range_image": RangeImageResult,
        }
        if operation not in results:
            raise ValueError(f"operation is {operation!r}; expected {', '.join(results)}")
        result = results[operation]
        return Stream(self._calls, operation, result, name, sweeps, streams, mount, keep, parameters)
