"""Sparse convolution in numpy, written only from the rules in kernels/sparse.h."""

import itertools
from dataclasses import dataclass

import numpy as np


@dataclass
class Layer:
    weight: np.ndarray  # [offsets, inputs, width]
    bias: np.ndarray  # [width]
    kernel: tuple = (3, 3, 3)
    stride: tuple = (1, 1, 1)
    padding: tuple = (1, 1, 1)
    submanifold: bool = True
    adds: bool = False


def fused(a, b, c):
    """a * b + c with one rounding, of float32 arrays.

    The product is exact in float64. The sum is rounded twice, to float64 and to float32, which can be wrong only if the
    float64 lies in the middle between two float32.
    """
    with np.errstate(all="ignore"):
        product = np.multiply(a, b, dtype=np.float64)
        total = product + c
        result = total.astype(np.float32)
        # The middle between two float32, also subnormal ones, ends in 28 zero bits.
        ends = total.view(np.uint64) & np.uint64((1 << 28) - 1) == 0
        ends &= (total != result) & np.isfinite(total)
        if ends.any():
            product, c = np.broadcast_arrays(product, np.asarray(c, np.float64))
            result[ends] = fused_slowly(product[ends], c[ends])
        return result


def fused_slowly(product, c):
    total = product + c
    large, small = np.where(np.abs(product) >= np.abs(c), (product, c), (c, product))
    rest = small - (total - large)  # exact, since the larger one comes first
    result = total.astype(np.float32)
    overflowed = np.isinf(result) & np.isfinite(total)
    near = np.where(overflowed, np.copysign(np.finfo(np.float32).max, total), result).astype(np.float32)
    away = np.nextafter(near, np.where(total > near, np.inf, -np.inf).astype(np.float32))
    gap = np.where(np.isinf(away), np.copysign(2.0**128, total), away.astype(np.float64)) - near
    middle = np.isfinite(total) & (total != near) & (2 * (total - near) == gap)
    towards = np.where(rest > 0, np.maximum(near, away), np.minimum(near, away))
    return np.where(middle & (rest != 0), towards, result).astype(np.float32)


def offsets(kernel):
    return list(itertools.product(*map(range, kernel)))


def strided_cells(cells, layer, shape):
    """The cells and the shape of the level that a strided layer begins."""
    sizes = zip(shape, layer.kernel, layer.stride, layer.padding)
    shape = tuple((n + 2 * p - k) // s + 1 for n, k, s, p in sizes)
    reached = set()
    for cloud, *cell in cells:
        for offset in offsets(layer.kernel):
            out = [i + p - k for i, p, k in zip(cell, layer.padding, offset)]
            if all(o % s == 0 and 0 <= o // s < n for o, s, n in zip(out, layer.stride, shape)):
                reached.add((cloud, *(o // s for o, s in zip(out, layer.stride))))
    return sorted(reached), shape


def convolve(layer, inputs, rows, outputs, added):
    """The rows of `outputs`. `inputs`: the cells of `rows`."""
    number = {cell: i for i, cell in enumerate(inputs)}
    sums = np.repeat(layer.bias[None], len(outputs), axis=0)
    for k, offset in enumerate(offsets(layer.kernel)):
        pairs = []
        for o, (cloud, *cell) in enumerate(outputs):
            if layer.submanifold:
                at = [c + k - (size - 1) // 2 for c, k, size in zip(cell, offset, layer.kernel)]
            else:
                at = [c * s - p + k for c, s, p, k in zip(cell, layer.stride, layer.padding, offset)]
            if (cloud, *at) in number:
                pairs.append((o, number[(cloud, *at)]))
        if pairs:
            out, source = np.array(pairs).T
            for c in range(layer.weight.shape[1]):
                sums[out] = fused(rows[source, c, None], layer.weight[k, c], sums[out])
    with np.errstate(all="ignore"):
        sums = sums if added is None else sums + added
        return np.where(sums > 0, sums, np.float32(0))


def last_level(shape, layers, coords, features):
    """The shape, the cells in order and the rows of the last level; the number of rows of each level."""
    order = sorted(range(len(coords)), key=lambda i: tuple(coords[i]))
    cells, rows, before = [tuple(map(int, coords[i])) for i in order], features[order], None
    counts = [len(cells)]
    for layer in layers:
        outputs = cells
        if not layer.submanifold:
            outputs, shape = strided_cells(cells, layer, shape)
            counts.append(len(outputs))
        rows, before = convolve(layer, cells, rows, outputs, before if layer.adds else None), rows
        cells = outputs
    return shape, np.array(cells, np.int32).reshape(-1, 4), rows, counts


def dense_map(shape, clouds, cells, rows):
    """The map of a batch, [clouds, width * Z, Y, X]."""
    dense = np.zeros((clouds, rows.shape[1], *shape), np.float32)
    for (cloud, z, y, x), row in zip(cells, rows):
        dense[cloud, :, z, y, x] = row
    return dense.reshape(clouds, rows.shape[1] * shape[0], *shape[1:])


def backbone(shape, layers, clouds, coords, features):
    """The map of a batch; the number of rows of each level."""
    shape, cells, rows, counts = last_level(shape, layers, coords, features)
    return dense_map(shape, clouds, cells, rows), counts
