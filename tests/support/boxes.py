"""The oracle of operations on boxes: Python's floats (binary64) in the order of operations that the service
specifies."""

import math

import numpy as np

FATES = ("kept", "invalid", "over_pre_max", "suppressed", "over_post_max")

SINE = (1 / 355687428096000, -1 / 1307674368000, 1 / 6227020800, -1 / 39916800, 1 / 362880, -1 / 5040, 1 / 120, -1 / 6)
COSINE = (1 / 20922789888000, -1 / 87178291200, 1 / 479001600, -1 / 3628800, 1 / 40320, -1 / 720, 1 / 24, -1 / 2)


def horner(terms, z):
    value = terms[0]
    for term in terms[1:]:
        value = value * z + term
    return value


def sincos(angle):
    k = math.floor(angle * float.fromhex("0x1.45f306dc9c883p-1") + 0.5)
    r = (angle - k * float.fromhex("0x1.921fb544p+0")) - k * float.fromhex("0x1.0b4611a6p-34")
    r = r - k * float.fromhex("0x1.3198a2e037073p-69")
    z = r * r
    s, c = r + (r * z) * horner(SINE, z), 1 + z * horner(COSINE, z)
    return ((s, c), (c, -s), (-s, -c), (-c, s))[k % 4]


class Rectangle:
    def __init__(self, box):
        self.x, self.y, dx, dy = (float(box[i]) for i in (0, 1, 3, 4))
        self.hx, self.hy = dx / 2, dy / 2
        self.s, self.c = sincos(float(box[6]))
        self.area = dx * dy
        self.radius = math.sqrt(self.hx * self.hx + self.hy * self.hy)


def cut(corners, axis, sign, bound):
    """The part of a polygon with sign * coordinate <= bound, by Sutherland and Hodgman."""
    out = []

    def distance(corner):
        return bound - sign * corner[axis]

    for here, following in zip(corners, corners[1:] + corners[:1]):
        d, e = distance(here), distance(following)
        if d >= 0:
            out.append(here)
        if (d >= 0) != (e >= 0):
            (inner, di), (outer, do) = ((here, d), (following, e)) if d >= 0 else ((following, e), (here, d))
            t = di / (di - do)
            crossing = [0.0, 0.0]
            crossing[axis] = sign * bound
            crossing[1 - axis] = inner[1 - axis] + t * (outer[1 - axis] - inner[1 - axis])
            out.append(tuple(crossing))
    return out[:8]


def overlap(a, b):
    """The area that both cover; `a` ranks first."""
    x, y, reach = b.x - a.x, b.y - a.y, a.radius + b.radius
    if x * x + y * y > reach * reach:
        return 0.0
    px, py = a.c * x + a.s * y, a.c * y - a.s * x
    c, s = a.c * b.c + a.s * b.s, b.s * a.c - b.c * a.s
    ux, uy, vx, vy = c * b.hx, s * b.hx, -s * b.hy, c * b.hy
    corners = [((px - ux) - vx, (py - uy) - vy), ((px + ux) - vx, (py + uy) - vy)]
    corners += [((px + ux) + vx, (py + uy) + vy), ((px - ux) + vx, (py - uy) + vy)]
    for axis, sign, bound in ((0, 1, a.hx), (0, -1, a.hx), (1, 1, a.hy), (1, -1, a.hy)):
        corners = cut(corners, axis, sign, bound)
    total = 0.0
    for i in range(1, len(corners) - 1):
        (x0, y0), (x1, y1), (x2, y2) = corners[0], corners[i], corners[i + 1]
        total = total + ((x1 - x0) * (y2 - y0) - (y1 - y0) * (x2 - x0))
    area = total / 2
    return min(area, a.area, b.area) if area > 0 else 0.0


def suppresses(a, b, threshold):
    area = overlap(a, b)
    return area > 0 and area > float(threshold) * ((a.area + b.area) - area)


def is_valid(box, score):
    finite = bool(np.isfinite(box).all() and np.isfinite(score))
    return finite and min(box[3:6]) >= 0 and abs(box[6]) <= 65536


def keep(candidates, rectangles, labels, threshold, post_max, goes=suppresses):
    """(kept, suppressed), by the loop as defined, one candidate at a time."""
    kept, suppressed = [], 0
    for i in candidates:
        if len(kept) == post_max:
            break
        same = [j for j in kept if labels is None or labels[i] == labels[j]]
        if any(goes(rectangles[j], rectangles[i], threshold) for j in same):
            suppressed += 1
        else:
            kept.append(i)
    return kept, suppressed


def nms(query, tensors):
    """(tensors, batch.kept, boxes)"""
    boxes, scores = tensors["boxes"], tensors["scores"]
    labels = None if query.get("class_agnostic", "yes") == "yes" else tensors["labels"]
    threshold = np.float32(float(query.get("iou_threshold", "0.01")))
    pre_max, post_max = int(query.get("nms_pre_max", "4096")), int(query.get("nms_post_max", "500"))
    counts = [int(n) for n in query["box_counts"].split(",")] if "box_counts" in query else [len(boxes)]
    told = dict.fromkeys(FATES, 0)
    indices, batch, begin = [], [], 0
    for count in counts:
        cloud = range(begin, begin + count)
        valid = sorted((i for i in cloud if is_valid(boxes[i], scores[i])), key=lambda i: -float(scores[i]))
        candidates = valid[:pre_max]
        rectangles = {i: Rectangle(boxes[i]) for i in candidates}
        kept, suppressed = keep(candidates, rectangles, labels, threshold, post_max)
        told["invalid"] += count - len(valid)
        told["over_pre_max"] += len(valid) - len(candidates)
        told["suppressed"] += suppressed
        told["over_post_max"] += len(candidates) - len(kept) - suppressed
        told["kept"] += len(kept)
        indices += kept
        batch.append(len(kept))
        begin += count
    return {"kept_indices": np.array(indices, np.int32)}, batch, {"received": len(boxes), **told}


# ---- decoding -------------------------------------------------------------------------------------------------------

EXP = tuple(1 / math.factorial(n) for n in range(13, -1, -1))


def exp(x):
    x = x if x < 128 else 128.0
    x = x if x > -128 else -128.0
    k = math.floor(x * float.fromhex("0x1.71547652b82fep+0") + 0.5)
    r = (x - k * float.fromhex("0x1.62e42feep-1")) - k * float.fromhex("0x1.a39ef35793c76p-33")
    return horner(EXP, r) * 2.0**k


def sigmoid(x):
    return np.float32(1 / (1 + exp(-float(x))))


def list_of(query, name, default=None):
    return np.array([float(item) for item in query.get(name, default).split(",")], np.float64).astype(np.float32)


class Head:
    """The parameters of a decode request, as float32."""

    def __init__(self, query):
        self.range = list_of(query, "point_cloud_range")
        self.sizes = list_of(query, "anchor_sizes").reshape(-1, 3)
        self.bottoms = list_of(query, "anchor_bottoms")
        self.rotations = list_of(query, "anchor_rotations", "0,1.57")
        self.anchors = len(self.sizes) * len(self.rotations)
        self.center = query.get("align_center", "no") == "yes"
        self.offset = float(list_of(query, "dir_offset", "0.78539")[0])
        self.limit = float(list_of(query, "dir_limit_offset", "0")[0])
        self.bins = int(query.get("dir_bins", "2"))
        self.threshold = list_of(query, "score_threshold", "0.1")[0]
        self.values = 9 if query.get("velocity", "no") == "yes" else 7

    def place(self, axis, cell, cells):
        low, length = float(self.range[axis]), float(self.range[axis + 3]) - float(self.range[axis])
        if self.center:
            return np.float32((length * (cell + 0.5)) / cells + low)
        return self.range[axis] if cells == 1 else np.float32((length * cell) / (cells - 1) + low)

    def box(self, a, x, y, t, bins):
        """A box, in float32 arithmetic except for exp and the heading."""
        size, f = self.sizes[a // len(self.rotations)], np.float32
        z = f(float(self.bottoms[a // len(self.rotations)]) + float(size[2]) / 2)
        d = np.sqrt(size[0] * size[0] + size[1] * size[1])
        box = [t[0] * d + x, t[1] * d + y, t[2] * size[2] + z]
        box += [f(exp(float(t[3 + i]) if t[3 + i] == t[3 + i] else 128.0)) * size[i] for i in range(3)]
        heading = t[6] + self.rotations[a % len(self.rotations)]
        if bins is not None and np.isfinite(heading):
            period = 2 * math.pi / self.bins
            v = float(heading) - self.offset
            v = (v - math.floor(v / period + self.limit) * period) + self.offset
            heading = f(v + period * first_largest(bins)[0])
        return np.array([*box, heading, *t[7:]], np.float32)


def first_largest(values):
    """(index, value) of the first largest number. NaN is ignored; if all are NaN, (0, -inf)."""
    place, largest = 0, -math.inf
    for i, value in enumerate(values):
        if value > largest:
            place, largest = i, value
    return place, largest


def decode_cloud(query, head, maps):
    """(boxes, logits, labels, anchors) of the valid candidates, in the order of anchors; and the other fates."""
    cls, moves, bins = maps
    height, width = cls.shape[:2]
    cls = cls.astype(np.float32).reshape(height * width * head.anchors, cls.shape[-1] // head.anchors)
    moves = moves.astype(np.float32).reshape(-1, head.values)
    bins = None if bins is None else bins.astype(np.float32).reshape(len(cls), -1)
    found, below = [], 0
    for anchor, logits in enumerate(cls):
        label, best = first_largest(logits)
        if best == -math.inf or sigmoid(best) < head.threshold:
            below += 1
            continue
        cell, a = divmod(anchor, head.anchors)
        x, y = head.place(0, cell % width, width), head.place(1, cell // width, height)
        found.append((head.box(a, x, y, moves[anchor], None if bins is None else bins[anchor]), best, label, anchor))
    valid = [entry for entry in found if is_valid(entry[0], 0.0)]
    return valid, below, len(found) - len(valid)


def decode(query, tensors):
    """(tensors, batch.kept, anchors)"""
    head = Head(query)
    maps = [tensors[name] if name in tensors else None for name in ("cls_preds", "box_preds", "dir_cls_preds")]
    maps = [one[None] if one is not None and one.ndim == 3 else one for one in maps]
    agnostic = query.get("class_agnostic", "yes") == "yes"
    threshold = np.float32(float(query.get("nms_threshold", "0.01")))
    pre_max, post_max = int(query.get("nms_pre_max", "4096")), int(query.get("nms_post_max", "500"))
    told = {"received": 0, **dict.fromkeys(FATES, 0), "below_threshold": 0}
    chosen, batch = [], []
    for cloud in range(len(maps[0])):
        with np.errstate(all="ignore"):
            valid, below, invalid = decode_cloud(query, head, [None if m is None else m[cloud] for m in maps])
        ranked = sorted(range(len(valid)), key=lambda i: -float(valid[i][1]))
        candidates = ranked[:pre_max]
        rectangles = {i: Rectangle(valid[i][0]) for i in candidates}
        labels = None if agnostic else [entry[2] for entry in valid]
        kept, suppressed = keep(candidates, rectangles, labels, threshold, post_max)
        told["received"] += below + invalid + len(valid)
        told["below_threshold"] += below
        told["invalid"] += invalid
        told["over_pre_max"] += len(valid) - len(candidates)
        told["suppressed"] += suppressed
        told["over_post_max"] += len(candidates) - len(kept) - suppressed
        told["kept"] += len(kept)
        chosen += [valid[i] for i in kept]
        batch.append(len(kept))
    with np.errstate(all="ignore"):
        scores = np.array([sigmoid(entry[1]) for entry in chosen], np.float32)
    return (
        {
            "boxes": np.array([entry[0] for entry in chosen], np.float32).reshape(-1, head.values),
            "scores": scores,
            "labels": np.array([entry[2] for entry in chosen], np.int32),
            "box_indices": np.array([entry[3] for entry in chosen], np.int32),
            "box_counts": np.array(batch, np.int32),
        },
        batch,
        told,
    )
