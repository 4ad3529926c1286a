"""A second oracle, to check oracle.py on small clouds: one point, one column, one operation at a time.

It shares no line with oracle.py. Numbers are Python floats, rounded by `struct` after every operation. For + - * / this
equals float32 arithmetic, since a double has more than 2 * 24 + 2 bits."""

import math
import struct


def f32(x):
    """The nearest float32 of a double, as a Python float."""
    try:
        return struct.unpack("<f", struct.pack("<f", x))[0]
    except OverflowError:
        return math.copysign(math.inf, x)


def bits32(x):
    return 0x7FC00000 if math.isnan(x) else struct.unpack("<I", struct.pack("<f", x))[0]


def bits16(x):
    if math.isnan(x):
        return 0x7E00
    try:
        return struct.unpack("<H", struct.pack("<e", x))[0]
    except OverflowError:
        return 0x7C00 | (0x8000 if x < 0 else 0)


def value(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def widen(half):
    sign, exponent, mantissa = half >> 15, half >> 10 & 31, half & 1023
    if exponent == 31:
        return sign << 31 | 255 << 23 | mantissa << 13
    number = mantissa * 2.0**-24 if exponent == 0 else (1024 + mantissa) * 2.0 ** (exponent - 25)
    return struct.unpack("<I", struct.pack("<f", -number if sign else number))[0]


def total(numbers):
    result = numbers[0]
    for number in numbers[1:]:
        result = f32(result + number)
    return result


def grouped_total(numbers):
    while len(numbers) > 1:
        numbers = [total(numbers[i : i + 64]) for i in range(0, len(numbers), 64)]
    return numbers[0]


def voxelize(query, rows, counts):
    """query: name -> text, all present. rows: float32 bits, a list for each point. Tensors are nested lists of bits."""
    bounds = [f32(float(v)) for v in query["point_cloud_range"].split(",")]
    size = [f32(float(v)) for v in query["voxel_size"].split(",")]
    cap, columns = int(query["max_points_per_voxel"]), int(query["num_features"])
    grid = []
    for a in range(3):
        exact = f32(f32(bounds[3 + a] - bounds[a]) / size[a])
        grid.append(int(math.floor(exact) + (1 if exact - math.floor(exact) >= 0.5 else 0)))  # all are positive
    out = {
        name: []
        for name in (
            "voxel_coords",
            "voxel_num_points",
            "voxels",
            "voxel_features",
            "pillar_features",
            "point_voxel_ids",
            "voxel_point_mask",
        )
    }
    fates = dict.fromkeys(
        ("not_finite", "out_of_range", "over_max_voxels", "block_filtered", "over_max_points_per_voxel", "kept"), 0
    )
    voxel_fates = dict.fromkeys(("kept", "dropped", "block_filtered"), 0)
    begin = 0
    for batch, count in enumerate(counts):
        cloud = rows[begin : begin + count]
        begin += count
        cells, members = {}, {}
        fate, cell_of = {}, {}
        for i, row in enumerate(cloud):
            p = [value(b) for b in row[:3]]
            if not all(math.isfinite(v) for v in p):
                fate[i] = "not_finite"
                continue
            scaled = [f32(f32(p[a] - bounds[a]) / size[a]) for a in range(3)]
            if any(math.isinf(s) or math.floor(s) < 0 or math.floor(s) >= grid[a] for a, s in enumerate(scaled)):
                fate[i] = "out_of_range"
                continue
            cell = tuple(math.floor(s) for s in scaled)
            cell_of[i] = cell
            cells.setdefault(cell, len(cells))
            members.setdefault(cell, []).append(i)
        dropped_cells = _worst(query, bounds, size, cells, members)
        for cell in dropped_cells:
            del cells[cell]
            for i in members[cell]:
                fate[i] = "over_max_voxels"
                del cell_of[i]
        kept, over = {}, {}
        for cell in cells:
            by = lambda i: i if query["max_points_by"] == "first" else _random(int(query["seed"]), begin - count + i)
            chosen = sorted(members[cell], key=by)[: cap or None]
            kept[cell] = sorted(chosen)
            over[cell] = [i for i in members[cell] if i not in chosen]
        stay = [cell for cell in cells if _stays(query, grid, cloud, kept, cell)]
        if query["order"] == "key":
            stay.sort()
        base = len(out["voxel_coords"])
        row_of = {cell: base + n for n, cell in enumerate(stay)}
        for cell in cells:
            for i in kept[cell]:
                fate[i] = "kept" if cell in row_of else "block_filtered"
            for i in over[cell]:
                fate[i] = "over_max_points_per_voxel" if cell in row_of else "block_filtered"
        for i in range(count):
            fates[fate[i]] += 1
            out["point_voxel_ids"].append(row_of.get(cell_of.get(i), -1))
        voxel_fates["kept"] += len(stay)
        voxel_fates["dropped"] += len(dropped_cells)
        voxel_fates["block_filtered"] += len(cells) - len(stay)
        for cell in stay:
            _emit(query, out, cap, columns, bounds, size, batch, cell, [cloud[i] for i in kept[cell]])
    return out, fates, voxel_fates, grid


def farthest(rows, number, start):
    """(indices, bits of the distances) of the samples. `rows` has float32 bits. None if too few rows are finite."""
    points = [[value(b) for b in row[:3]] for row in rows]
    finite = [i for i, p in enumerate(points) if all(math.isfinite(v) for v in p)]
    if len(finite) < number or (number and start >= len(rows)):
        return None
    chosen, distances = [], []
    while len(chosen) < number:
        if not chosen:
            best, farthest_yet = min([i for i in finite if i >= start] or finite), math.inf
        else:
            best, farthest_yet = None, -1.0
            for i in finite:
                nearest = math.inf
                for j in chosen:
                    d = [f32(points[i][a] - points[j][a]) for a in range(3)]
                    nearest = min(nearest, f32(f32(f32(d[0] * d[0]) + f32(d[1] * d[1])) + f32(d[2] * d[2])))
                if nearest > farthest_yet:
                    best, farthest_yet = i, nearest
        chosen.append(best)
        distances.append(bits32(f32(math.sqrt(farthest_yet))))
    return chosen, distances


def _centre(bounds, size, cell):
    return [f32(f32(cell[a] * size[a]) + f32(f32(size[a] / 2) + bounds[a])) for a in range(3)]


def _random(seed, row):
    z = (seed + row * 0x9E3779B97F4A7C15) % 2**64
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ z >> 27) * 0x94D049BB133111EB % 2**64
    return z ^ z >> 31


def _worst(query, bounds, size, cells, members):
    """The cells that max_voxels drops. `cells`: {cell: its number in the order of appearance}."""

    def rank(cell):
        if query["max_voxels_by"] == "near":
            x, y, _ = _centre(bounds, size, cell)
            return f32(f32(x * x) + f32(y * y)), cells[cell]
        return -len(members[cell]) if query["max_voxels_by"] == "full" else 0, cells[cell]

    return sorted(cells, key=rank)[int(query["max_voxels"]) :]


def _stays(query, grid, cloud, kept, cell):
    if query["block_filter"] == "off":
        return True
    factor, width, low, high = query["block_filter"].split(",")
    factor, width, low, high = int(factor), int(width), f32(float(low)), f32(float(high))
    block = [cell[a] // factor for a in (0, 1)]
    window = [(b - width // 2, b + width - width // 2) for b in block]
    heights = [
        value(cloud[i][2])
        for other in kept
        for i in kept[other]
        if all(window[a][0] <= other[a] // factor < window[a][1] for a in (0, 1))
    ]
    span = f32(max(heights) - min(heights))
    return low < span < high


def _emit(query, out, cap, columns, bounds, size, batch, cell, points):
    feature_bits = bits16 if query["feature_dtype"] == "float16" else bits32
    add = total if cap else grouped_total
    means = [f32(add([value(p[c]) for p in points]) / f32(len(points))) for c in range(columns)]
    centre = _centre(bounds, size, cell)
    out["voxel_coords"].append([batch, cell[2], cell[1], cell[0]])
    out["voxel_num_points"].append(len(points))
    out["voxel_features"].append([feature_bits(m) for m in means])
    padding = [bits32(m) for m in means] if query["fill"] == "mean" else [0] * columns
    out["voxels"].append([list(p) for p in points] + [padding] * (cap - len(points)))
    pillar = []
    for p in points:
        xyz = [value(b) for b in p[:3]]
        offsets = [f32(xyz[a] - means[a]) for a in range(3)] + [f32(xyz[a] - centre[a]) for a in range(3)]
        own = [bits16(value(b)) for b in p] if query["feature_dtype"] == "float16" else list(p)
        pillar.append(own + [feature_bits(o) for o in offsets])
    out["pillar_features"].append(pillar + [[0] * (columns + 6)] * (cap - len(points)))
    out["voxel_point_mask"].append([1 if r < len(points) else 0 for r in range(cap)])
