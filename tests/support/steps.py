"""The oracle of steps: numpy in float32, in the order of operations that the service specifies."""

import dataclasses
import math

import numpy as np

import oracle
import transform

F32 = np.float32
LATTICE = F32(1048575)
MULTIPLIER = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
NAN = np.array([0x7FC00000], np.uint32).view(F32)[0]


@dataclasses.dataclass
class Chain:
    body: np.ndarray  # [N, C] float32, as decoded
    cloud: np.ndarray  # [N]: the cloud of each row
    fields: list  # names of the columns
    points: np.ndarray = None  # [N, C]: after the steps so far
    fates: list = None  # [N]: "kept", or the fate that dropped the row
    steps: np.ndarray = None  # [N]: 1-based number of the step that dropped the row; 0: none
    into: np.ndarray = None  # [N]: the row that this row was merged into, else itself
    told: list = None  # the metadata of each step

    def __post_init__(self):
        count = len(self.body)
        self.points = self.body.copy()
        self.fates = ["kept"] * count
        self.steps = np.zeros(count, np.uint8)
        self.into = np.arange(count)
        self.told = []

    def alive(self):
        return np.flatnonzero(self.steps == 0)

    def drop_strange(self, rows):
        self.drop(rows[~np.isfinite(self.points[rows, :3]).all(axis=1)], "not_finite")

    def drop(self, rows, fate):
        for row in np.atleast_1d(rows):
            self.fates[row] = fate
            self.steps[row] = len(self.told) + 1


def run(steps, body, counts, fields=()):
    """`steps`: (tag, op, parameters) of each; `body`: [N, C] float32; `counts`: points of each cloud."""
    chain = Chain(body, np.repeat(np.arange(len(counts)), counts), list(fields))
    for tag, op, parameters in steps:
        before = chain.alive()
        chain.drop_strange(before)
        STEPS[op](chain, parameters)
        lost = [chain.fates[row] for row in before if chain.steps[row]]
        told = {"tag": tag, "op": op, "in": len(before), "kept": len(before) - len(lost)}
        told.update((fate, lost.count(fate)) for fate in FATES[op])
        assert sum(told[name] for name in ("kept", *FATES[op])) == len(before)
        chain.told.append(told)
    return chain


# --- transform ---


def move(chain, parameters):
    rows = chain.alive()
    matrices = [transform.IDENTITY]
    if "matrix" in parameters:
        matrices = transform.floats(parameters["matrix"]).reshape(-1, 4, 4)
    for cloud in np.unique(chain.cloud[rows]):
        mine = rows[chain.cloud[rows] == cloud]
        chain.points[mine, :3] = transform.moved_by(matrices[cloud % len(matrices)], chain.points[mine, :3])
    xyz = chain.points[rows, :3]
    fates = transform.fates_of(parameters, xyz)
    for number, fate in enumerate(transform.FATES[1:], 1):
        chain.drop(rows[fates == number], fate)


def squares(v):
    x, y, z = v.T
    with np.errstate(all="ignore"):
        return (x * x + y * y) + z * z


# --- downsample ---


def cells_of(chain, rows, size, origin, how):
    with np.errstate(all="ignore"):
        place = (chain.points[rows, :3] - origin) / size
        return np.rint(place) if how == "nearest" else np.floor(place)


def key_of(seed, row):
    z = (seed + int(row) * MULTIPLIER) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def mean_of(chain, members):
    """[C]: oracle.grouped_sums, then one division."""
    values = chain.points[members]
    with np.errstate(all="ignore"):
        sums = oracle.grouped_sums(values, np.array([0]), np.array([len(members)]))[0]
        mean = (sums / F32(len(members))).astype(F32)
    return np.where(np.isnan(mean), NAN, mean)


def nearest_to(chain, members, centre):
    with np.errstate(all="ignore"):
        d2 = squares(chain.points[members, :3] - centre)
    return members[np.lexsort((members, d2))[0]]


def thin(chain, parameters):
    rows = chain.alive()
    if "every" in parameters:
        step = int(parameters["every"])
        for cloud in np.unique(chain.cloud[rows]):
            mine = rows[chain.cloud[rows] == cloud]
            chain.drop(mine[np.arange(len(mine)) % step != 0], "skipped")
        return
    size = np.broadcast_to(transform.floats(parameters["voxel_size"]), 3)
    origin = transform.floats(parameters.get("origin", "0,0,0"))
    method, how = parameters.get("method", "centroid"), parameters.get("cells", "floor")
    cells = cells_of(chain, rows, size, origin, how)
    far = ~(np.abs(cells) <= LATTICE).all(axis=1)
    chain.drop(rows[far], "out_of_lattice")
    groups = {}
    for row, cell in zip(rows[~far], cells[~far]):
        groups.setdefault((chain.cloud[row], *(int(c) for c in cell)), []).append(row)
    means = {}
    for (_, *cell), members in groups.items():
        members = np.array(members)
        if len(members) < int(parameters.get("min_points", "1")):
            chain.drop(members, "sparse_voxel")
            continue
        if method == "all":
            continue
        kept = members[0]
        if method == "random":
            seed = int(parameters.get("seed", "0"))
            kept = min(members, key=lambda row: (key_of(seed, row), row))
        if method == "nearest_centroid":
            kept = nearest_to(chain, members, mean_of(chain, members)[:3])
        if method == "center":
            half = F32(0) if how == "nearest" else F32(0.5)
            kept = nearest_to(chain, members, (np.array(cell, F32) + half) * size + origin)
        if method == "centroid":
            means[kept] = mean_of(chain, members)
        others = members[members != kept]
        chain.into[others] = kept
        chain.drop(others, "merged")
    columns = 3 if parameters.get("average", "all") == "xyz" else chain.points.shape[1]
    for row, mean in means.items():
        chain.points[row, :columns] = mean[:columns]
    chain.drop_strange(np.array(list(means), int))


# --- outliers ---


def rings_of(chain, parameters):
    """[N] int: the ring of each row; -1: none."""
    if parameters["ring"] == "kitti":
        x, y = chain.body[:, 0], chain.body[:, 1]
        turns = np.zeros(len(x), bool)
        turns[1:] = (y[:-1] < 0) & (y[1:] >= 0) & (x[1:] > 0) & (chain.cloud[1:] == chain.cloud[:-1])
        rings = np.cumsum(turns)
        first = np.searchsorted(chain.cloud, chain.cloud)
        rings = rings - rings[first] if len(rings) else rings
    else:
        values = chain.points[:, chain.fields.index(parameters["ring"])]
        with np.errstate(all="ignore"):
            whole = (values == np.floor(values)) & (values >= 0) & (values <= 1023)
            rings = np.where(whole, values, F32(-1)).astype(int)
    return np.where(rings <= 1023, rings, -1)


def linked(a, b, ratio, tangent):
    with np.errstate(all="ignore"):
        d = np.sqrt(squares(np.stack([a, b])))
        dot, cross = a[0] * b[0] + a[1] * b[1], a[0] * b[1] - a[1] * b[0]
        return bool(max(d) < min(d) * ratio and dot > 0 and abs(cross) <= tangent * dot)


def drop_ring_outliers(chain, parameters):
    ratio = F32(float(parameters.get("distance_ratio", "1.03")))
    length = F32(float(parameters.get("object_length_threshold", "0.05")))
    most = parameters.get("num_points_threshold", "off")
    tangent = F32(math.tan(math.radians(float(F32(float(parameters.get("max_azimuth_diff", "1")))))))
    rings, rows = rings_of(chain, parameters), chain.alive()
    chain.drop(rows[rings[rows] < 0], "no_ring")
    for cloud in np.unique(chain.cloud[rows]):
        for ring in np.unique(rings[rows]):
            members = rows[(chain.cloud[rows] == cloud) & (rings[rows] == ring)]
            if ring < 0 or len(members) == 0:
                continue
            xyz = chain.points[members, :3]
            count, closed = len(members), len(members) >= 3
            number = count if closed else count - 1
            links = [linked(xyz[i], xyz[(i + 1) % count], ratio, tangent) for i in range(number)]
            if closed and all(links):
                continue
            start = links.index(False) + 1 if closed else 0  # where a walk begins
            walk = []
            for step in range(count):
                i = (start + step) % count
                walk.append(i)
                if i < len(links) and links[i] and step + 1 < count:
                    continue
                with np.errstate(all="ignore"):
                    apart = squares((xyz[walk[-1]] - xyz[walk[0]])[None])[0] >= length * length
                if not apart and not (most != "off" and len(walk) > int(most)):
                    chain.drop(members[walk], "ring_outlier")
                walk = []


def others_of(chain, rows, axes=3):
    """Yields (row, d2 to each other row of its cloud, these rows)."""
    for cloud in np.unique(chain.cloud[rows]):
        mine = rows[chain.cloud[rows] == cloud]
        xyz = chain.points[mine, :3].copy()
        if axes == 2:
            xyz[:, 2] = 0
        for number, row in enumerate(mine):
            with np.errstate(all="ignore"):
                d2 = squares(xyz - xyz[number])
            yield row, np.delete(d2, number), np.delete(mine, number)


def drop_radius_outliers(chain, parameters):
    radius, least = F32(float(parameters["radius"])), int(parameters["min_neighbors"])
    axes = 2 if parameters.get("axes", "xyz") == "xy" else 3
    lone = [row for row, d2, _ in others_of(chain, chain.alive(), axes) if (d2 <= radius * radius).sum() < least]
    chain.drop(np.array(lone, int), "radius_outlier")


def double_sum(values):
    """The sum in float64, in groups of 64."""
    values = [float(value) for value in values]
    while len(values) > 1:
        values = [sum_of(values[at : at + 64]) for at in range(0, len(values), 64)]
    return values[0]


def sum_of(values):
    total = values[0]
    for value in values[1:]:
        total += value
    return total


def drop_statistical_outliers(chain, parameters):
    k, factor = int(parameters["mean_k"]), float(F32(float(parameters["std_mul"])))
    rows = chain.alive()
    for cloud in np.unique(chain.cloud[rows]):
        mine = rows[chain.cloud[rows] == cloud]
        if len(mine) == 1:
            continue
        means = []
        for _, d2, others in others_of(chain, mine):
            nearest = np.sort(d2)[: min(k, len(others))]
            means.append(F32(sum_of([math.sqrt(float(value)) for value in nearest]) / len(nearest)))
        mean = double_sum(means) / len(means)
        apart = [float(value) - mean for value in means]
        deviation = math.sqrt(double_sum([value * value for value in apart]) / (len(means) - 1))
        bound = mean + factor * deviation
        chain.drop(mine[np.array([float(value) > bound for value in means])], "statistical_outlier")


STEPS = {
    "transform": move,
    "downsample": thin,
    "ring_outlier": drop_ring_outliers,
    "radius_outlier": drop_radius_outliers,
    "statistical_outlier": drop_statistical_outliers,
}
FATES = {
    "transform": ("not_finite", "out_of_crop", "cut_out", "out_of_distance"),
    "downsample": ("not_finite", "out_of_lattice", "sparse_voxel", "merged", "skipped"),
    "ring_outlier": ("not_finite", "no_ring", "ring_outlier"),
    "radius_outlier": ("not_finite", "radius_outlier"),
    "statistical_outlier": ("not_finite", "statistical_outlier"),
}


# --- the answer ---


def answer(chain):
    """The tensors that POST /v1/points answers, except point_fates."""
    kept = chain.alive()
    rank = np.full(len(chain.body), -1, np.int32)
    rank[kept] = np.arange(len(kept), dtype=np.int32)
    rows = np.where(chain.steps == 0, rank, -1)
    for row in np.flatnonzero([fate == "merged" for fate in chain.fates]):
        head = chain.into[row]
        while chain.fates[head] == "merged":  # by a later step
            head = chain.into[head]
        rows[row] = rank[head]
    return {
        "points": chain.points[kept],
        "point_indices": kept.astype(np.int32),
        "point_rows": rows.astype(np.int32),
        "point_steps": chain.steps,
    }
