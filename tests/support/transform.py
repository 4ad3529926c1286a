"""The oracle of the step `transform`: numpy in float32, in the order of operations that the service specifies."""

import numpy as np

FATES = ("kept", "not_finite", "out_of_crop", "cut_out", "out_of_distance")
IDENTITY = np.eye(4, dtype=np.float32)


def floats(text):
    """As the service reads numbers: decimal to float64 to float32."""
    return np.array([float(item) for item in text.split(",")], np.float64).astype(np.float32)


def boxes(text):
    return [] if text == "off" else [floats(box).reshape(2, 3) for box in text.split(";")]


def moved_by(matrix, xyz):
    x, y, z = xyz.T
    with np.errstate(all="ignore"):
        return np.stack([((m[0] * x + m[1] * y) + m[2] * z) + m[3] for m in matrix[:3]], axis=1)


def inside(box, xyz):
    return ((box[0] <= xyz) & (xyz < box[1])).all(axis=1)


def fates_of(query, xyz):
    """The index in FATES of each point."""
    fates = np.zeros(len(xyz), int)
    if query.get("distance", "off") != "off":
        least, most = floats(query["distance"])
        x, y, z = xyz.T
        with np.errstate(all="ignore"):
            squared = (x * x + y * y) + z * z
            fates[~((least * least <= squared) & (squared < most * most))] = 4
    for box in boxes(query.get("cut", "off")):
        fates[inside(box, xyz)] = 3
    for box in boxes(query.get("crop", "off")):
        fates[~inside(box, xyz)] = 2
    fates[~np.isfinite(xyz).all(axis=1)] = 1
    return fates


def transform(query, body):
    """(tensors, batch.kept, points), the last two as in the metadata."""
    columns = int(query.get("num_features", "4"))
    kind = np.float16 if query.get("dtype") == "float16" else np.float32
    points = np.frombuffer(body, kind).reshape(-1, columns).astype(np.float32)
    counts = [int(n) for n in query["point_counts"].split(",")] if "point_counts" in query else [len(points)]
    matrices = floats(query["matrix"]).reshape(-1, 4, 4) if "matrix" in query else IDENTITY[None]
    edges = np.concatenate(([0], np.cumsum(counts))).astype(int)
    fates = np.empty(len(points), int)
    moved = points.copy()
    for cloud, (first, end) in enumerate(zip(edges[:-1], edges[1:])):
        moved[first:end, :3] = moved_by(matrices[cloud % len(matrices)], points[first:end, :3])
    fates[:] = fates_of(query, moved[:, :3])
    kept = fates == 0
    told = {"received": len(points)}
    told.update((name, int((fates == number).sum())) for number, name in enumerate(FATES))
    tensors = {"points": moved[kept], "point_indices": np.flatnonzero(kept).astype(np.int32)}
    return tensors, [int(kept[a:b].sum()) for a, b in zip(edges[:-1], edges[1:])], told
