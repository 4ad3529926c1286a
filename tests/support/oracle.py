"""The reference for both backends: voxelization in numpy float32, written only from the specification.

Every operation is rounded to float32 where the specification rounds it, and in the same order: sums run over the rank
of a point in its voxel, not through numpy's pairwise reductions. Copied values are moved as integers, so that a NaN
keeps its bits. Every NaN among computed values is the canonical NaN.
"""

import dataclasses
from typing import Optional

import numpy as np

F32 = np.float32
NAN32 = np.uint32(0x7FC00000)
NAN16 = np.uint16(0x7E00)
SUM_GROUP = 64  # points, or group sums, that an uncapped mean adds sequentially
MAX_AXIS_CELLS = 2**31 - 1
MAX_GRID_CELLS = 2**62

TENSORS = (
    "voxel_coords",
    "voxel_num_points",
    "voxels",
    "voxel_features",
    "pillar_features",
    "point_voxel_ids",
    "voxel_point_mask",
)


class Refused(ValueError):
    """The request is well formed but impossible (422)."""


def known_presets(listed):
    """The parameters of each listed preset that the oracle knows: voxelize, with cells in x, y and z."""
    voxels = [preset for preset in listed if "operation" not in preset]
    known = {preset["name"]: preset["parameters"] for preset in voxels}
    return {name: values for name, values in known.items() if values.get("coordinates") != "cylinder"}


@dataclasses.dataclass(frozen=True)
class BlockFilter:
    factor: int
    size: int
    low: float
    high: float


@dataclasses.dataclass(frozen=True)
class Params:
    point_cloud_range: tuple
    voxel_size: tuple
    num_features: int = 4
    max_points_per_voxel: int = 32
    max_voxels: int = 40000
    max_voxels_by: str = "first"
    max_points_by: str = "first"
    seed: int = 0
    feature: tuple = ("mean",)
    feature_dtype: str = "float32"
    dtype: str = "float32"
    order: str = "first"
    fill: str = "zero"
    block_filter: Optional[BlockFilter] = None
    outputs: tuple = ()  # () = everything that `feature` computes, coordinates and counts

    @staticmethod
    def from_values(values):
        """`values`: name -> text (a query) or JSON value (a preset)."""
        known = {}
        for name, value in values.items():
            if name in ("preset", "timeout_ms", "format", "point_counts", "fps", "start"):
                continue
            if name in ("columns", "intensity_range", "ground_z") or (name, value) == ("coordinates", "xyz"):
                continue  # the first three are for warnings
            if name in ("point_cloud_range", "voxel_size"):
                known[name] = tuple(float(v) for v in _items(value))
            elif name in ("num_features", "max_points_per_voxel", "max_voxels", "seed"):
                known[name] = int(value)
            elif name in ("feature", "outputs"):
                known[name] = tuple(_items(value))
            elif name == "block_filter":
                known[name] = _block_filter(value)
            elif name in ("feature_dtype", "dtype", "order", "fill", "max_voxels_by", "max_points_by"):
                known[name] = str(value)
            else:
                raise KeyError(f"the oracle does not know the parameter {name}")
        return Params(**known)

    def tensor_names(self):
        if self.outputs:
            return [name for name in TENSORS if name in self.outputs]
        computed = {"points": "voxels", "mean": "voxel_features", "pillar": "pillar_features"}
        wanted = {"voxel_coords", "voxel_num_points"} | {computed[f] for f in self.feature}
        return [name for name in TENSORS if name in wanted]


def _items(value):
    return [v.strip() for v in value.split(",")] if isinstance(value, str) else list(value)


def _block_filter(value):
    if value is None or value is False or value == "off":
        return None
    if isinstance(value, dict):
        value = [value[k] for k in ("block_factor", "block_size", "height_threshold", "height_high_threshold")]
    factor, size, low, high = _items(value)
    return BlockFilter(int(factor), int(size), float(low), float(high))


@dataclasses.dataclass
class Result:
    tensors: dict  # name -> array
    grid_size: list  # x, y, z; None, like `voxels` and `batch_voxels`, if no voxels are made
    points: dict  # the counts of points, as the metadata names them
    voxels: dict
    batch_points: list
    batch_voxels: list
    batch_samples: Optional[list] = None  # None if nothing is sampled


# --- numbers ----------------------------------------------------------------------------------------------------------


def round_half_away(x):
    """C's roundf; numpy rounds halves to even. x - trunc(x) is exact in float32, so this adds no rounding."""
    whole = np.trunc(x)
    return np.where(np.abs(x - whole) >= F32(0.5), whole + np.copysign(F32(1), x), whole).astype(F32)


def canonical(x):
    """float32 bits, with one NaN."""
    bits = np.ascontiguousarray(x, F32).view(np.uint32).copy()
    bits[(bits & 0x7FFFFFFF) > 0x7F800000] = NAN32
    return bits


def widen(half_bits):
    """float16 bits to float32 bits: exact; a NaN keeps its sign and its payload, shifted, and is not quieted."""
    h = half_bits.astype(np.uint32)
    sign = (h & 0x8000) << 16
    exponent = (h >> 10) & 0x1F
    mantissa = h & 0x3FF
    special = sign | 0x7F800000 | (mantissa << 13)
    normal = sign | ((exponent + 112) << 23) | (mantissa << 13)
    # A subnormal is mantissa * 2^-24, which is exact in float32.
    small = (mantissa.astype(F32) * F32(2.0**-24)).view(np.uint32) | sign
    return np.where(exponent == 31, special, np.where(exponent == 0, small, normal)).astype(np.uint32)


def narrow(bits):
    """float32 bits to float16 bits: nearest even, overflow to infinity, subnormals kept, one NaN."""
    with np.errstate(all="ignore"):
        half = bits.view(F32).astype(np.float16).view(np.uint16).copy()
    half[(bits & 0x7FFFFFFF) > 0x7F800000] = NAN16
    return half


def sequential_sums(values, starts, lengths):
    """Sums values[start : start + length] for each run, sequentially, beginning with values[start] itself, not with
    0."""
    totals = values[starts]
    longer = np.arange(len(starts))
    rank = 1
    while True:
        longer = longer[lengths[longer] > rank]
        if not len(longer):
            return totals
        totals[longer] = totals[longer] + values[starts[longer] + rank]
        rank += 1


def grouped_sums(values, starts, lengths):
    """Like sequential_sums, but in groups of SUM_GROUP, then in groups of these sums, until each run has one sum."""
    while len(lengths) and lengths.max() > 1:
        groups = (lengths + SUM_GROUP - 1) // SUM_GROUP
        first_group = _starts(groups)
        run = np.repeat(np.arange(len(starts)), groups)
        place = np.arange(len(run)) - first_group[run]
        group_lengths = np.minimum(SUM_GROUP, lengths[run] - place * SUM_GROUP)
        values = sequential_sums(values, starts[run] + place * SUM_GROUP, group_lengths)
        starts, lengths = first_group, groups
    return values[starts]


def random_of_rows(seed, rows):
    """The finalizer of splitmix64 over seed + row * 0x9E3779B97F4A7C15."""
    z = np.uint64(seed) + rows.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def _starts(lengths):
    return np.concatenate(([0], np.cumsum(lengths)[:-1])).astype(np.int64) if len(lengths) else lengths.astype(np.int64)


# --- the grid ---------------------------------------------------------------------------------------------------------


class Grid:
    def __init__(self, params, clouds):
        bounds = np.array(params.point_cloud_range, np.float64).astype(F32)
        self.minimum, maximum = bounds[:3], bounds[3:]
        self.size = np.array(params.voxel_size, np.float64).astype(F32)
        with np.errstate(all="ignore"):
            self.limit = round_half_away(
                (maximum - self.minimum) / self.size
            )  # stays float32: locate() compares float32 cells with it
        for cells in self.limit:
            if not 1 <= cells <= MAX_AXIS_CELLS:
                raise Refused(f"{cells} cells on an axis")
        self.cells = [int(c) for c in self.limit]
        if self.cells[0] * self.cells[1] * self.cells[2] * clouds > MAX_GRID_CELLS:
            raise Refused("too many cells")

    def locate(self, xyz):
        """For each point: whether it is finite, whether it is in range, and the cell (x, y, z) of points in range."""
        finite = np.isfinite(xyz).all(axis=1)
        with np.errstate(all="ignore"):
            cell = np.floor((xyz - self.minimum) / self.size)
            inside = finite & (cell >= F32(0)).all(axis=1) & (cell < self.limit).all(axis=1)
        return finite, inside, cell[inside].astype(np.int64)

    def keys(self, cells):
        """Ascending by x, then y, then z. Below MAX_GRID_CELLS."""
        return (cells[:, 0] * self.cells[1] + cells[:, 1]) * self.cells[2] + cells[:, 2]

    def centres(self, cells):
        return cells.astype(F32) * self.size + (self.size / F32(2) + self.minimum)


# --- one cloud --------------------------------------------------------------------------------------------------------


class Cloud:
    """The voxels of one cloud in output order, and the fate of each of its points."""

    def __init__(self, params, grid, bits, first_row=0):
        self.params, self.grid, self.bits = params, grid, bits
        self.xyz = np.ascontiguousarray(bits[:, :3]).view(F32)
        finite, inside, cells = grid.locate(self.xyz)

        # Number the cells by first appearance, then renumber the chosen cells.
        keys, first, inverse = np.unique(grid.keys(cells), return_index=True, return_inverse=True)
        by_appearance = np.argsort(first)
        number = np.empty(len(keys), np.int64)
        number[by_appearance] = np.arange(len(keys))
        voxel = np.full(len(bits), -1, np.int64)
        voxel[inside] = number[inverse.reshape(-1)]
        chosen = self._choose(cells[first[by_appearance]], np.bincount(voxel[inside], minlength=len(keys)))
        dropped_voxels = len(keys) - len(chosen)
        self.cells = cells[first[by_appearance]][chosen]
        self.keys = keys[by_appearance][chosen]
        renumbered = np.full(len(keys) + 1, -1, np.int64)  # the last entry serves voxel -1
        renumbered[chosen] = np.arange(len(chosen))
        voxel = renumbered[voxel]
        dropped = inside & (voxel < 0)
        over_cap = self._over_cap(voxel, first_row)

        stays = self._block_filter(voxel, over_cap)
        order = np.argsort(self.keys, kind="stable") if params.order == "key" else np.arange(len(self.cells))
        order = order[stays[order]]
        row_of = np.full(len(self.cells) + 1, -1, np.int64)  # the last entry serves voxel -1
        row_of[order] = np.arange(len(order))
        self.rows = row_of[voxel]
        self.cells = self.cells[order]

        filtered = (voxel >= 0) & (self.rows < 0)
        self.points = {
            "received": len(bits),
            "not_finite": int((~finite).sum()),
            "out_of_range": int((finite & ~inside).sum()),
            "over_max_voxels": int(dropped.sum()),
            "block_filtered": int(filtered.sum()),
            "over_max_points_per_voxel": int((over_cap & ~filtered).sum()),
        }
        fates = np.full(len(bits), "kept", "U32")
        fates[~finite], fates[finite & ~inside] = "not_finite", "out_of_range"
        fates[dropped], fates[over_cap] = "over_max_voxels", "over_max_points_per_voxel"
        fates[filtered] = "block_filtered"
        self.fates = fates
        lost = sum(count for fate, count in self.points.items() if fate != "received")
        self.points["kept"] = len(bits) - lost
        self.voxels = {
            "kept": len(order),
            "dropped": dropped_voxels,
            "block_filtered": int((~stays).sum()),
        }

        # The kept points, row by row in input order.
        kept = (self.rows >= 0) & ~over_cap
        members = np.argsort(self.rows, kind="stable")
        self.members = members[kept[members]]
        self.member_rows = self.rows[self.members]
        self.num_points = np.bincount(self.member_rows, minlength=len(order)).astype(np.int64)
        self.starts = _starts(self.num_points)
        self.member_ranks = np.arange(len(self.members)) - self.starts[self.member_rows]

    def _choose(self, cells, counts):
        """The numbers of the voxels that stay, ascending."""
        rank = np.zeros(len(cells))
        if self.params.max_voxels_by == "full":
            rank = -counts
        elif self.params.max_voxels_by == "near":
            with np.errstate(all="ignore"):
                x, y, _ = self.grid.centres(cells).T
                rank = x * x + y * y
        return np.sort(np.argsort(rank, kind="stable")[: self.params.max_voxels])

    def _over_cap(self, voxel, first_row):
        rank = np.arange(len(voxel))
        if self.params.max_points_by == "random":
            rank = random_of_rows(self.params.seed, rank + first_row)
        order = np.lexsort((rank, voxel))
        order = order[voxel[order] >= 0]
        counts = np.bincount(voxel[order], minlength=len(self.cells)).astype(np.int64)
        places = np.arange(len(order)) - np.repeat(_starts(counts), counts)
        over_cap = np.zeros(len(voxel), bool)
        cap = self.params.max_points_per_voxel
        over_cap[order] = (places >= cap) & (cap > 0)
        return over_cap

    def _block_filter(self, voxel, over_cap):
        """Which voxels stay, by the span of heights in the blocks around them."""
        rule = self.params.block_filter
        if rule is None or not len(self.cells):
            return np.ones(len(self.cells), bool)
        block_x, block_y = self.cells[:, 0] // rule.factor, self.cells[:, 1] // rule.factor
        blocks_x, blocks_y = (-(-self.grid.cells[axis] // rule.factor) for axis in (0, 1))

        # The lowest and the highest z of the kept points of each block.
        counted = (voxel >= 0) & ~over_cap
        points_block = (block_y * blocks_x + block_x)[voxel[counted]]
        z = self.xyz[counted, 2]
        blocks, block_of = np.unique(points_block, return_inverse=True)
        low, high = np.full(len(blocks), F32(np.inf)), np.full(len(blocks), F32(-np.inf))
        np.minimum.at(low, block_of.reshape(-1), z)
        np.maximum.at(high, block_of.reshape(-1), z)

        lowest, highest = np.full(len(self.cells), F32(np.inf)), np.full(len(self.cells), F32(-np.inf))
        before = rule.size // 2
        for dy in range(-before, rule.size - before):
            for dx in range(-before, rule.size - before):
                x, y = block_x + dx, block_y + dy
                valid = (x >= 0) & (x < blocks_x) & (y >= 0) & (y < blocks_y)
                wanted = y * blocks_x + x
                at = np.minimum(np.searchsorted(blocks, wanted), len(blocks) - 1)
                hit = valid & (blocks[at] == wanted)
                lowest[hit] = np.minimum(lowest[hit], low[at[hit]])
                highest[hit] = np.maximum(highest[hit], high[at[hit]])
        with np.errstate(all="ignore"):
            span = highest - lowest
        return (span > F32(rule.low)) & (span < F32(rule.high))

    def mean(self):
        """float32 bits [V, C]."""
        with np.errstate(all="ignore"):
            values = self.bits[self.members].view(F32)
            sums = grouped_sums if self.params.max_points_per_voxel == 0 else sequential_sums
            return canonical(sums(values, self.starts, self.num_points) / self.num_points.astype(F32)[:, None])

    def voxel_table(self):
        """float32 bits [V, P, C]."""
        shape = (len(self.cells), self.params.max_points_per_voxel, self.params.num_features)
        table = np.zeros(shape, np.uint32)
        if self.params.fill == "mean":
            table[:] = self.mean()[:, None, :]
        table[self.member_rows, self.member_ranks] = self.bits[self.members]
        return table

    def pillars(self):
        """float32 bits [V, P, C + 6]."""
        columns = self.params.num_features
        table = np.zeros((len(self.cells), self.params.max_points_per_voxel, columns + 6), np.uint32)
        xyz = self.xyz[self.members]
        with np.errstate(all="ignore"):
            from_mean = xyz - np.ascontiguousarray(self.mean()[:, :3]).view(F32)[self.member_rows]
            from_centre = xyz - self.grid.centres(self.cells)[self.member_rows]
        rows = np.concatenate((self.bits[self.members], canonical(from_mean), canonical(from_centre)), axis=1)
        table[self.member_rows, self.member_ranks] = rows
        return table

    def mask(self):
        ranks = np.arange(self.params.max_points_per_voxel)
        return (ranks[None, :] < self.num_points[:, None]).astype(np.uint8)


# --- a request --------------------------------------------------------------------------------------------------------


def voxelize(params, body, point_counts=None):
    """The Result for a body of rows. Raises Refused where the service answers 422."""
    names = params.tensor_names()
    if params.max_points_per_voxel == 0:
        if {"points", "pillar"} & set(params.feature) or {"voxels", "pillar_features", "voxel_point_mask"} & set(names):
            raise Refused("no cap, but a tensor that is as wide as the cap")
    raw = np.frombuffer(body, "<u2" if params.dtype == "float16" else "<u4")
    raw = raw.reshape(-1, params.num_features)
    bits = widen(raw) if params.dtype == "float16" else raw.astype(np.uint32)
    if point_counts is None:
        point_counts = [len(bits)]
    if sum(point_counts) != len(bits):
        raise ValueError("point_counts do not add up")
    grid = Grid(params, len(point_counts))
    edges = np.concatenate(([0], np.cumsum(point_counts))).astype(int)
    clouds = [Cloud(params, grid, bits[a:b], a) for a, b in zip(edges[:-1], edges[1:])]
    rows_before = _starts(np.array([len(c.cells) for c in clouds]))

    def feature(bits32):
        return narrow(bits32).view(np.float16) if params.feature_dtype == "float16" else bits32.view(F32)

    def coords(b, cloud):
        return np.concatenate((np.full((len(cloud.cells), 1), b), cloud.cells[:, ::-1]), axis=1).astype(np.int32)

    def ids(b, cloud):
        return np.where(cloud.rows >= 0, cloud.rows + rows_before[b], -1).astype(np.int32)

    make = {
        "voxel_coords": coords,
        "voxel_num_points": lambda b, cloud: cloud.num_points.astype(np.int32),
        "voxels": lambda b, cloud: cloud.voxel_table().view(F32),
        "voxel_features": lambda b, cloud: feature(cloud.mean()),
        "pillar_features": lambda b, cloud: feature(cloud.pillars()),
        "point_voxel_ids": ids,
        "voxel_point_mask": lambda b, cloud: cloud.mask(),
    }
    return Result(
        tensors={name: np.concatenate([make[name](b, cloud) for b, cloud in enumerate(clouds)]) for name in names},
        grid_size=grid.cells,
        points={name: sum(c.points[name] for c in clouds) for name in clouds[0].points},
        voxels={name: sum(c.voxels[name] for c in clouds) for name in clouds[0].voxels},
        batch_points=[int(n) for n in point_counts],
        batch_voxels=[len(c.cells) for c in clouds],
    )
