"""Farthest point sampling in numpy float32, written only from the specification: the plain loop over all points. Rows
are copied as integers, so that a NaN keeps its bits.
"""

import dataclasses

import numpy as np

import oracle
from oracle import F32, Refused

TENSORS = ("sampled_indices", "sampled_points", "sampled_distances")
DEFAULT = ("sampled_indices", "sampled_points")


def choose(xyz, number, start):
    """(indices, squared distances) of `number` samples of the points [N, 3]. Raises Refused if there are too few."""
    if number > 0 and start >= len(xyz):
        raise Refused(f"no point {start} of {len(xyz)}")
    candidates = np.flatnonzero(np.isfinite(xyz).all(axis=1))
    if number > len(candidates):
        raise Refused(f"{number} samples of {len(candidates)} finite points")
    x, y, z = (np.ascontiguousarray(xyz[candidates, axis]) for axis in range(3))
    nearest = np.full(len(candidates), np.inf, F32)
    indices, squared = np.zeros(number, np.int32), np.zeros(number, F32)
    at = int(np.searchsorted(candidates, start))
    at = at if at < len(candidates) else 0
    for n in range(number):
        if n:
            at = int(np.argmax(nearest))  # the first of the largest; none is a NaN
        indices[n], squared[n] = candidates[at], nearest[at]
        with np.errstate(all="ignore"):
            dx, dy, dz = x - x[at], y - y[at], z - z[at]
            nearest = np.minimum(nearest, (dx * dx + dy * dy) + dz * dz)
    return indices, squared


def numbers_of(text, clouds):
    """Reads num_samples or fps. Returns (samples of each cloud, whether each cloud has its own number)."""
    numbers = [int(n) for n in text.split(",")]
    if len(numbers) == 1:
        return numbers * clouds, False
    if len(numbers) != clouds:
        raise ValueError(f"{len(numbers)} numbers for {clouds} clouds")
    return numbers, True


def sample(bits, counts, query, given):
    """(tensors, samples of each cloud) of rows of float32 bits [sum of counts, C]."""
    numbers, own = numbers_of(given, len(counts))
    start = int(query.get("start", "0"))
    edges = np.concatenate(([0], np.cumsum(counts))).astype(int)
    indices, points, distances = [], [], []
    for first, last, number in zip(edges[:-1], edges[1:], numbers):
        cloud = bits[first:last]
        chosen, squared = choose(np.ascontiguousarray(cloud[:, :3]).view(F32), number, start)
        indices.append(chosen)
        points.append(np.ascontiguousarray(cloud[chosen]).view(F32))
        distances.append(np.sqrt(squared))
    join = np.concatenate if own else np.stack
    tensors = dict(zip(TENSORS, (join(indices), join(points), join(distances))))
    wanted = query["outputs"].split(",") if "outputs" in query else DEFAULT
    return {name: tensors[name] for name in TENSORS if name in wanted}, numbers


def of_points(query, body):
    """The Result of a request to /v1/fps."""
    raw = np.frombuffer(body, "<u2" if query.get("dtype") == "float16" else "<u4")
    raw = raw.reshape(-1, int(query.get("num_features", "4")))
    bits = oracle.widen(raw) if query.get("dtype") == "float16" else raw.astype(np.uint32)
    counts = [int(n) for n in query["point_counts"].split(",")] if "point_counts" in query else [len(bits)]
    tensors, numbers = sample(bits, counts, query, query["num_samples"])
    kept = int(np.isfinite(np.ascontiguousarray(bits[:, :3]).view(F32)).all(axis=1).sum())
    fates = {"received": len(bits), "kept": kept, "not_finite": len(bits) - kept}
    return oracle.Result(tensors, None, fates, None, counts, None, numbers)


def of_voxels(query, params, body, counts):
    """The Result of a request to /v1/voxelize with fps."""
    result = oracle.voxelize(params, body, counts)
    means_only = dataclasses.replace(params, feature=("mean",), feature_dtype="float32", outputs=("voxel_features",))
    means = oracle.voxelize(means_only, body, counts).tensors["voxel_features"]
    bits = np.ascontiguousarray(means).view(np.uint32)
    tensors, numbers = sample(bits, result.batch_voxels, query, query["fps"])
    return dataclasses.replace(result, tensors=result.tensors | tensors, batch_samples=numbers)
