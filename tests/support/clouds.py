"""Random requests: parameters as query text, and clouds with special cases."""

import numpy as np

SPECIALS = np.array(
    [
        0x7FC00000,
        0xFFC00001,
        0x7F800001,
        0xFFABCDEF,
        0x7F800000,
        0xFF800000,
        0x00000000,
        0x80000000,
        0x00000001,
        0x80000001,
        0x7F7FFFFF,
        0xFF7FFFFF,
        0x7149F2CA,
        0xF149F2CA,
    ],  # NaNs, infinities, zeros, smallest, largest, 1e30
    np.uint32,
)
STYLES = ("uniform", "crowded", "one_cell", "all_different", "duplicates", "borders", "raw_bits", "beyond")


def random_grid(rng):
    """(point_cloud_range, voxel_size) as text."""
    kind = rng.integers(5)
    if kind == 0:  # a few cells
        low, cells, size = rng.uniform(-5, 5, 3).round(2), rng.integers(1, 6, 3), rng.choice([0.1, 0.25, 1.0, 3.7], 3)
    elif kind == 1:  # like a model's
        low, cells = rng.choice([-80.0, -54.0, -40.0, 0.0, -3.0], 3), rng.integers(20, 2000, 3)
        size = rng.choice([0.05, 0.075, 0.1, 0.16, 0.2, 0.32], 3)
    elif kind == 2:  # one cell high
        low, cells, size = rng.uniform(-60, 0, 3).round(1), rng.integers(100, 500, 3), rng.choice([0.16, 0.24], 3)
        cells[2], size[2] = 1, 4
    elif kind == 3:  # near the limit of 2^62 cells for a batch of 16 clouds
        low, cells = np.full(3, -1e6), np.array([2_000_000_000, 100_000_000, 1])
        size = np.array([0.001, 0.02, 4e6])
    else:
        low, cells, size = rng.uniform(-1, 1, 3), rng.integers(2, 100_000, 3), rng.uniform(0.001, 2, 3)
    high = low + cells * size
    if rng.random() < 0.3 and kind != 3:
        high = high + size * rng.uniform(-0.5, 0.49, 3) * (cells > 1)
    text = lambda numbers: ",".join(repr(float(v)) for v in numbers)
    return text([*low, *high]), text(size)


def random_query(rng, uncapped=None):
    """The text of each parameter that these tests vary, for a voxelize request."""
    grid, size = random_grid(rng)
    uncapped = rng.random() < 0.25 if uncapped is None else uncapped
    features = ["mean"] if uncapped else [f for f in ("points", "mean", "pillar") if rng.random() < 0.6] or ["points"]
    tensors = ["voxel_coords", "voxel_num_points", "point_voxel_ids"]
    tensors += [
        t for f, t in (("points", "voxels"), ("mean", "voxel_features"), ("pillar", "pillar_features")) if f in features
    ]
    tensors += [] if uncapped else ["voxel_point_mask"]
    query = {
        "num_features": str(rng.integers(3, 17)),
        "point_cloud_range": grid,
        "voxel_size": size,
        "max_points_per_voxel": "0" if uncapped else str(rng.choice([1, 2, 3, 5, 10, 32, 100])),
        "max_voxels": str(rng.choice([1, 2, 7, 50, 1000, 40000, 16777216])),
        "max_voxels_by": str(rng.choice(["first", "near", "full"])),
        "max_points_by": str(rng.choice(["first", "random"])),
        "seed": str(rng.choice([0, 1, 2**31 - 1])),
        "feature": ",".join(features),
        "feature_dtype": str(rng.choice(["float32", "float16"])),
        "dtype": str(rng.choice(["float32", "float32", "float16"])),
        "order": str(rng.choice(["first", "key"])),
        "fill": str(rng.choice(["zero", "mean"])),
        "block_filter": "off",
        "outputs": ",".join(tensors),
    }
    if rng.random() < 0.35:
        bounds, sizes = [float(v) for v in grid.split(",")], [float(v) for v in size.split(",")]
        height = bounds[5] - bounds[2]
        cells = max(bounds[axis + 3] - bounds[axis] for axis in (0, 1)) / min(sizes[:2])
        factor = min(2**31 - 1, max(1, int(cells / rng.choice([2, 10, 100, 1000]))))
        low, high = rng.choice([-1.0, 0.0, 0.02, 0.2, 0.5]) * height, rng.choice([0.3, 0.7, 0.95, 2.0]) * height
        query["block_filter"] = f"{factor},{rng.choice([1, 2, 3, 8, 32])},{low},{high}"
    return query


def random_counts(rng, points, batched):
    """Sizes of the clouds of a batch, some of them empty; or of one cloud."""
    if not batched:
        return [points]
    cuts = np.sort(rng.integers(0, points + 1, rng.integers(1, 9)))
    cuts = np.sort(np.concatenate((cuts, cuts[: rng.integers(0, 3)])))
    return [int(n) for n in np.diff(np.concatenate(([0], cuts, [points])))]


def random_body(rng, query, points, style):
    """Rows as bytes in the query's dtype."""
    columns = int(query["num_features"])
    bounds = np.array([float(v) for v in query["point_cloud_range"].split(",")]).astype(np.float32).astype(np.float64)
    size = np.array([float(v) for v in query["voxel_size"].split(",")]).astype(np.float32).astype(np.float64)
    low, high = bounds[:3], bounds[3:]
    cells = np.maximum(np.round((high - low) / size), 1)
    rows = rng.normal(0, 10, (points, columns))
    if style == "crowded":
        centre = low + (np.floor(rng.uniform(0, 1, (9, 3)) * cells) + 0.5) * size
        xyz = centre[rng.integers(0, 9, points)] + rng.uniform(-0.8, 0.8, (points, 3)) * size
    elif style == "one_cell":
        xyz = low + (np.floor(cells / 2) + rng.uniform(0.01, 0.99, (points, 3))) * size
    elif style == "all_different":
        place = rng.permutation(points)[:, None] // np.cumprod([1, *np.minimum(cells[:2], 1000)])[None, :]
        xyz = low + (place % cells + 0.5) * size
    elif style == "duplicates":
        xyz = rng.uniform(low, high, (max(1, points // 10), 3))[rng.integers(0, max(1, points // 10), points)]
    elif style == "beyond":
        xyz = rng.uniform(low - (high - low), high + (high - low), (points, 3))
    else:
        xyz = rng.uniform(low, high, (points, 3))
    if style == "borders":
        xyz = low + rng.integers(-1, np.minimum(cells, 1e6) + 2, (points, 3)) * size
    rows[:, :3] = xyz
    kind = np.float16 if query["dtype"] == "float16" else np.float32
    word = np.uint16 if kind is np.float16 else np.uint32
    with np.errstate(all="ignore"):
        bits = rows.astype(kind).view(word).copy()
    if style == "borders":  # moves to the next float above or below, or stays
        step = rng.integers(-1, 2, (points, 3))
        bits[:, :3] = np.where(
            bits[:, :3] & word(0x7FFF_FFFF if word is np.uint32 else 0x7FFF), bits[:, :3] + step, bits[:, :3]
        )
    if style == "raw_bits":
        bits[:, 3:] = rng.integers(0, np.iinfo(word).max, bits[:, 3:].shape, word, endpoint=True)
    if rng.random() < 0.4:
        chosen = rng.random(bits.shape) < 0.02
        specials = SPECIALS if word is np.uint32 else (SPECIALS >> 16).astype(np.uint16)
        bits[chosen] = rng.choice(specials, int(chosen.sum()))
    return bits.tobytes()
