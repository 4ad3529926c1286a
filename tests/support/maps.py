"""The oracle of dense maps: scattered features, and views of a scan from above, one row or point at a time."""

import math

import numpy as np

import oracle

CELL_MAPS = ("occupancy", "occupancy_counts", "occupancy_packed")
PILLAR_MAPS = ("bev_max_height", "bev_min_height", "bev_max_intensity", "bev_top_intensity", "bev_density")
NAMES = ("bev_features", *CELL_MAPS, *PILLAR_MAPS)


def words(array):
    """The bits of floats."""
    return np.ascontiguousarray(array).view({2: np.uint16, 4: np.uint32}[array.dtype.itemsize])


def scatter(query, tensors):
    """(bev_features, number of kept rows of each cloud, counts of voxels)."""
    nx, ny, nz = (int(n) for n in query["grid_size"].split(","))
    batch, features = int(query.get("batch_size", "1")), tensors["features"]
    limits = (batch, nz, ny, nx)
    dense = np.zeros((batch, features.shape[1], *limits[1:]), words(features).dtype)
    taken, kept = set(), [0] * batch
    told = {"received": len(features), "kept": 0, "out_of_range": 0, "duplicate": 0}
    for coords, row in zip(tensors["voxel_coords"].tolist(), words(features)):
        cell = tuple(coords)
        if not all(0 <= c < limit for c, limit in zip(cell, limits)):
            told["out_of_range"] += 1
        elif cell in taken:
            told["duplicate"] += 1
        else:
            told["kept"] += 1
            kept[cell[0]] += 1
            taken.add(cell)
            b, z, y, x = cell
            dense[b, :, z, y, x] = row
    shape = (batch, features.shape[1] * nz, ny, nx)
    return dense.reshape(shape).view(features.dtype), kept, told


def density(points):
    return np.float32(min(1.0, math.log(points + 1) / math.log(64)))


def look(params, grid, bits, intensity):
    """All maps of one cloud. `bits`: its points as words of float32; `intensity`: the number of its column."""
    nx, ny, nz = grid.cells
    _, inside, cells = grid.locate(np.ascontiguousarray(bits[:, :3]).view(np.float32))
    counts = np.zeros((nz, ny, nx), np.int32)
    pillars = {}
    for cell, point in zip(cells.tolist(), bits[inside]):
        x, y, z = cell
        counts[z, y, x] += 1
        pillars.setdefault((y, x), []).append(point)
    maps = {name: np.zeros((ny, nx), np.float32) for name in PILLAR_MAPS}
    for place, points in pillars.items():
        values = np.array(points, np.uint32).view(np.float32)
        height = values[:, 2] + np.float32(0)  # -0 becomes 0
        finite = values[np.isfinite(values[:, intensity]), intensity] + np.float32(0)
        maps["bev_max_height"][place] = height.max()
        maps["bev_min_height"][place] = height.min()
        maps["bev_max_intensity"][place] = finite.max() if len(finite) else 0
        words(maps["bev_top_intensity"])[place] = points[int(np.argmax(height))][intensity]
        maps["bev_density"][place] = density(len(points))
    maps["occupancy_counts"] = counts
    maps["occupancy"] = (counts > 0).astype(np.uint8)
    maps["occupancy_packed"] = np.packbits(counts > 0, axis=2, bitorder="little")
    return maps


def voxelize(query, body):
    """The tensors of NAMES for a body of rows."""
    known = {name: value for name, value in query.items() if name not in ("fields", "outputs")}
    params = oracle.Params.from_values({**known, "outputs": "voxel_coords,voxel_features"})
    names = query.get("fields", "").split(",")
    intensity = names.index("intensity") if "intensity" in names else 3
    raw = np.frombuffer(body, "<u2" if params.dtype == "float16" else "<u4").reshape(-1, params.num_features)
    bits = oracle.widen(raw) if params.dtype == "float16" else raw.astype(np.uint32)
    counts = [int(n) for n in query.get("point_counts", str(len(bits))).split(",")]
    grid = oracle.Grid(params, len(counts))
    ends = np.cumsum(counts)
    clouds = [look(params, grid, bits[end - count : end], intensity) for end, count in zip(ends, counts)]
    tensors = {name: np.stack([cloud[name] for cloud in clouds]) for name in (*CELL_MAPS, *PILLAR_MAPS)}
    voxels = oracle.voxelize(params, body, counts).tensors
    where = {"grid_size": ",".join(map(str, grid.cells)), "batch_size": str(len(counts))}
    rows = {"features": voxels["voxel_features"], "voxel_coords": voxels["voxel_coords"]}
    return {"bev_features": scatter(where, rows)[0], **tensors}
