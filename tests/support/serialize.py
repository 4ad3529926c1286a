"""The oracle of serialize: numpy, from the definition alone."""

import numpy as np

import steps
import transform

F32 = np.float32
CURVES = ("z", "z-trans", "hilbert", "hilbert-trans")


def interleaved(depth, first, second, third):
    """Bit i of `first`, `second`, `third` goes to bits 3i + 2, 3i + 1, 3i of the key."""
    key = np.zeros(len(first), np.int64)
    for bit in range(depth):
        for place, axis in ((2, first), (1, second), (0, third)):
            key += ((axis >> bit) & 1) << (3 * bit + place)
    return key


def hilbert(depth, x, y, z):
    """Skilling's transformation, one condition at a time."""
    x = [x.copy(), y.copy(), z.copy()]
    q = 1 << (depth - 1)
    while q > 0:
        for axis in range(3):
            has = (x[axis] & q) != 0
            swap = np.where(has, 0, (x[0] ^ x[axis]) & (q - 1))
            x[0] = x[0] ^ np.where(has, q - 1, swap)
            x[axis] = x[axis] ^ swap
        q >>= 1
    gray = interleaved(depth, *x)
    key, parity = np.zeros_like(gray), np.zeros_like(gray)
    for bit in reversed(range(3 * depth)):  # bit i of the key is the parity of bits i and up of gray
        parity = parity ^ ((gray >> bit) & 1)
        key += parity << bit
    return key


def key_of(curve, depth, grid):
    x, y, z = (grid[:, axis].astype(np.int64) for axis in range(3))
    if curve.endswith("-trans"):
        x, y = y, x
    return hilbert(depth, x, y, z) if curve.startswith("hilbert") else interleaved(depth, x, y, z)


def ordered(codes):
    order = np.argsort(codes, axis=1, kind="stable")
    inverse = np.empty_like(order)
    for k, row in enumerate(order):
        inverse[k, row] = np.arange(len(row))
    return order.astype(np.int32), inverse.astype(np.int32)


def pooled(strides, depth, grid, codes):
    """The tensors of all stages, and the number of rows of each stage."""
    stages, rows = {}, []
    for stride in strides:
        bits = stride.bit_length() - 1
        bits = 0 if bits > depth else bits
        depth -= bits
        keys = codes[0] >> (3 * bits)
        _, cluster, counts = np.unique(keys, return_inverse=True, return_counts=True)
        cluster = cluster.reshape(-1)
        indices = np.argsort(cluster, kind="stable")
        indptr = np.concatenate([[0], np.cumsum(counts)])
        heads = indices[indptr[:-1]] if len(keys) else np.zeros(0, np.int64)
        grid, codes = grid[heads] >> bits, codes[:, heads] >> (3 * bits)
        order, inverse = ordered(codes)
        stage = {"cluster": cluster, "indices": indices, "indptr": indptr, "head_indices": heads}
        stage |= {"grid_coord": grid, "serialized_code": codes}
        stage |= {"serialized_order": order, "serialized_inverse": inverse}
        for name, tensor in stage.items():
            stages.setdefault(f"pool_{name}", []).append(tensor)
        rows.append(len(heads))
    axis = {name: 1 if "serialized" in name else 0 for name in stages}
    types = {name: np.int64 if name.endswith("_code") else np.int32 for name in stages}
    return {name: np.concatenate(stages[name], axis[name]).astype(types[name]) for name in stages}, rows


class Refused(Exception):
    """The cells need a greater depth than allowed."""


def run(parameters, chain_steps, body, counts, fields=()):
    """(tensors, chain, depth, number of rows of each stage)."""
    chain = steps.run(chain_steps, body, counts, fields)
    if not chain_steps:
        for row in np.flatnonzero(~np.isfinite(body[:, :3]).all(axis=1)):
            chain.fates[row] = "not_finite"
    left = np.flatnonzero((chain.steps == 0) & (np.array(chain.fates, object) == "kept"))
    size = np.broadcast_to(transform.floats(parameters["voxel_size"]), 3)
    with np.errstate(all="ignore"):
        cells = np.floor(chain.points[left, :3] / size)
        outside = ~(np.abs(cells) <= steps.LATTICE).all(axis=1)
        if "grid_origin" in parameters:
            first = np.floor(transform.floats(parameters["grid_origin"]) / size)
            outside |= (cells < first).any(axis=1)
    for row in left[outside]:
        chain.fates[row] = "out_of_lattice"
    left, cells = left[~outside], cells[~outside].astype(np.int64)
    cloud = chain.cloud[left].astype(np.int64)
    for number in np.unique(cloud):
        mine = cloud == number
        cells[mine] -= first.astype(np.int64) if "grid_origin" in parameters else cells[mine].min(axis=0)
    most = int(cells.max(initial=0))
    depth = int(parameters.get("depth", 0))
    if (depth and most.bit_length() > depth) or (not depth and (most + 1).bit_length() > 16):
        raise Refused
    depth = depth or (most + 1).bit_length()
    curves = parameters.get("orders", ",".join(CURVES)).split(",")
    codes = np.stack([cloud << (3 * depth) | key_of(curve, depth, cells) for curve in curves])
    order, inverse = ordered(codes)
    strides = [int(stride) for stride in parameters["strides"].split(",")] if "strides" in parameters else []
    pools, rows = pooled(strides, depth, cells, codes)
    rank = np.full(len(body), -1, np.int32)
    rank[left] = np.arange(len(left), dtype=np.int32)
    rows_of = rank.copy()
    for row in np.flatnonzero(np.array(chain.fates, object) == "merged"):
        head = chain.into[row]
        while chain.fates[head] == "merged":
            head = chain.into[head]
        rows_of[row] = rank[head]
    tensors = {"grid_coord": cells.astype(np.int32), "serialized_code": codes}
    tensors |= {"serialized_order": order, "serialized_inverse": inverse, **pools}
    tensors |= {"points": chain.points[left], "point_indices": left.astype(np.int32), "point_rows": rows_of}
    return tensors | {"point_steps": chain.steps}, chain, depth, rows
