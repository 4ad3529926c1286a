"""The oracle of operations on boxes: Python's floats (binary64), in the order that docs/contribute/computation.md
specifies."""

import math
from typing import NamedTuple

import numpy as np

FATES = ("kept", "invalid", "over_pre_max", "suppressed", "over_post_max")

SINE = (1 / 355687428096000, -1 / 1307674368000, 1 / 6227020800, -1 / 39916800, 1 / 362880, -1 / 5040, 1 / 120, -1 / 6)
COSINE = (1 / 20922789888000, -1 / 87178291200, 1 / 479001600, -1 / 3628800, 1 / 40320, -1 / 720, 1 / 24, -1 / 2)

ATAN = (1 / 17, -1 / 15, 1 / 13, -1 / 11, 1 / 9, -1 / 7, 1 / 5, -1 / 3)


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


def atan2(y, x):
    """The arguments must be finite."""
    least, most = sorted((abs(x), abs(y)))
    u = least / most if most > 0 else 0.0
    for _ in range(3):
        u = u / (1 + math.sqrt(1 + u * u))
    z = u * u
    angle = 8 * (u + (u * z) * horner(ATAN, z))
    if abs(y) > abs(x):
        angle = math.pi / 2 - angle
    if x < 0:
        angle = math.pi - angle
    return -angle if y < 0 else angle


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
    """The area of the intersection. `a` ranks first; the order changes the last bits."""
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
    """Decides on one candidate after the other. Returns (kept indices, number of suppressed ones)."""
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
    """Returns (tensors, batch.kept, boxes); the last two as in the metadata."""
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

ARTANH = tuple(1 / n for n in range(19, 1, -2))
EXP = tuple(1 / math.factorial(n) for n in range(13, -1, -1))


def exp(x):
    x = x if x < 128 else 128.0
    x = x if x > -128 else -128.0
    k = math.floor(x * float.fromhex("0x1.71547652b82fep+0") + 0.5)
    r = (x - k * float.fromhex("0x1.62e42feep-1")) - k * float.fromhex("0x1.a39ef35793c76p-33")
    return horner(EXP, r) * 2.0**k


def log(x):
    """The argument must be above 0."""
    m, k = math.frexp(x)
    m, k = m * 2, k - 1
    if m > float.fromhex("0x1.6a09e667f3bcdp+0"):
        m, k = m / 2, k + 1
    u = (m - 1) / (m + 1)
    z = u * u
    low = k * float.fromhex("0x1.a39ef35793c76p-33") + 2 * (u + (u * z) * horner(ARTANH, z))
    return k * float.fromhex("0x1.62e42feep-1") + low


def power(x, exponent):
    if exponent == 0:
        return 1.0
    return exp(float(exponent) * log(float(x))) if x > 0 else 0.0


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
        self.turned = query.get("heading", "angle") == "cos_sin"
        self.values = 9 if query.get("velocity", "no") == "yes" else 7
        self.codes = self.values + self.turned
        self.all = query.get("labels", "best") == "all"

    def divide(self, query, channels):
        """Sets `classes`, the classes of each anchor of a cell, and `groups`, those of each group of suppression."""
        numbers = lambda name: [int(n) for n in query[name].split(",")]
        tasks = numbers("task_classes") if "task_classes" in query else [channels // self.anchors]
        sizes = numbers("task_sizes") if "task_classes" in query else [len(self.sizes)]
        ranges = [range(sum(tasks[:t]), sum(tasks[: t + 1])) for t in range(len(tasks))]
        self.classes = [own for own, count in zip(ranges, sizes) for _ in range(count * len(self.rotations))]
        alone = query.get("nms_groups", "task") == "class"
        self.groups = [[label] for own in ranges for label in own] if alone else ranges

    def place(self, axis, cell, cells):
        low, length = float(self.range[axis]), float(self.range[axis + 3]) - float(self.range[axis])
        if self.center:
            return np.float32((length * (cell + 0.5)) / cells + low)
        return self.range[axis] if cells == 1 else np.float32((length * cell) / (cells - 1) + low)

    def box(self, a, x, y, t, bins):
        """A box, in float32 arithmetic except for the anchor's z, exp and the heading."""
        size, f = self.sizes[a // len(self.rotations)], np.float32
        z = f(float(self.bottoms[a // len(self.rotations)]) + float(size[2]) / 2)
        d = np.sqrt(size[0] * size[0] + size[1] * size[1])
        box = [t[0] * d + x, t[1] * d + y, t[2] * size[2] + z]
        box += [f(exp(float(t[3 + i]) if t[3 + i] == t[3 + i] else 128.0)) * size[i] for i in range(3)]
        heading = self.heading(t, self.rotations[a % len(self.rotations)])
        if bins is not None and np.isfinite(heading):
            period = 2 * math.pi / self.bins
            v = float(heading) - self.offset
            v = (v - math.floor(v / period + self.limit) * period) + self.offset
            heading = f(v + period * first_largest(bins)[0])
        return np.array([*box, heading, *t[7 + self.turned :]], np.float32)

    def heading(self, t, rotation):
        if not self.turned:
            return t[6] + rotation
        sine, cosine = sincos(float(rotation))
        x, y = t[6] + np.float32(cosine), t[7] + np.float32(sine)
        return np.float32(atan2(float(y), float(x))) if np.isfinite([x, y]).all() else np.float32(np.nan)


def first_largest(values):
    """(index, value) of the first largest number. Ignores NaN; if all are NaN, (0, -inf)."""
    place, largest = 0, -math.inf
    for i, value in enumerate(values):
        if value > largest:
            place, largest = i, value
    return place, largest


class Entry(NamedTuple):
    """A candidate. `place` orders candidates with equal logits."""

    box: np.ndarray
    logit: float
    label: int
    anchor: int
    place: int


def decode_cloud(head, maps):
    """Returns the candidates in order, and the number of pairs (anchor, label) that the threshold was applied to."""
    cls, moves, bins = maps
    height, width = cls.shape[:2]
    cells = height * width
    cls = cls.astype(np.float32).reshape(cells, cls.shape[-1])
    moves = moves.astype(np.float32).reshape(-1, head.codes)
    bins = None if bins is None else bins.astype(np.float32).reshape(cells * head.anchors, -1)
    found, items = [], 0
    for cell in range(cells):
        first = 0
        for a, classes in enumerate(head.classes):
            logits = cls[cell, first : first + len(classes)]
            anchor = cell * head.anchors + a
            chosen = range(len(classes)) if head.all else [first_largest(logits)[0]]
            items += len(chosen)
            chosen = [k for k in chosen if logits[k] > -math.inf and sigmoid(logits[k]) >= head.threshold]
            if chosen:
                x, y = head.place(0, cell % width, width), head.place(1, cell // width, height)
                box = head.box(a, x, y, moves[anchor], None if bins is None else bins[anchor])
                found += [Entry(box, logits[k], classes[k], anchor, len(found) + i) for i, k in enumerate(chosen)]
            first += len(classes)
    return found, items


def suppress(query, entries, told):
    """The kept entries of a group of classes."""
    pre_max, post_max = int(query.get("nms_pre_max", "4096")), int(query.get("nms_post_max", "500"))
    threshold = np.float32(float(query.get("nms_threshold", "0.01")))
    ranked = sorted(entries, key=lambda entry: (-float(entry.logit), entry.place))
    compared = list(dict.fromkeys(entry.anchor for entry in ranked))[:pre_max]
    candidates = [entry for entry in ranked if entry.anchor in set(compared)]
    rectangles = [Rectangle(entry.box) for entry in candidates]
    labels = None if query.get("class_agnostic", "yes") == "yes" else [entry.label for entry in candidates]
    kept, suppressed = keep(range(len(candidates)), rectangles, labels, threshold, post_max)
    told["over_pre_max"] += len(ranked) - len(candidates)
    told["suppressed"] += suppressed
    told["over_post_max"] += len(candidates) - len(kept) - suppressed
    told["kept"] += len(kept)
    return [candidates[i] for i in kept]


def decode(query, tensors):
    """Returns (tensors, batch.kept, anchors); the last two as in the metadata."""
    head = Head(query)
    maps = [tensors[name] if name in tensors else None for name in ("cls_preds", "box_preds", "dir_cls_preds")]
    maps = [one[None] if one is not None and one.ndim == 3 else one for one in maps]
    head.divide(query, maps[0].shape[-1])
    told = {"received": 0, **dict.fromkeys(FATES, 0), "below_threshold": 0}
    chosen, batch = [], []
    for cloud in range(len(maps[0])):
        with np.errstate(all="ignore"):
            found, items = decode_cloud(head, [None if m is None else m[cloud] for m in maps])
        valid = [entry for entry in found if is_valid(entry.box, 0.0)]
        told["received"] += items
        told["below_threshold"] += items - len(found)
        told["invalid"] += len(found) - len(valid)
        before = len(chosen)
        for group in head.groups:
            chosen += suppress(query, [entry for entry in valid if entry.label in group], told)
        batch.append(len(chosen) - before)
    with np.errstate(all="ignore"):
        scores = np.array([sigmoid(entry.logit) for entry in chosen], np.float32)
    return (
        {
            "boxes": np.array([entry.box for entry in chosen], np.float32).reshape(-1, head.values),
            "scores": scores,
            "labels": np.array([entry.label for entry in chosen], np.int32),
            "box_indices": np.array([entry.anchor for entry in chosen], np.int32),
            "box_counts": np.array(batch, np.int32),
        },
        batch,
        told,
    )
