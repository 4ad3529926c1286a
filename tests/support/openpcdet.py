"""Non-maximum suppression as in OpenPCDet's nms_gpu, and scenes for comparisons.

The overlap is a polygon, in float32. Its points are the corners of each box that lie in the other box, with a margin of
1 cm, and the crossings of the edges, sorted by their angle around their mean. The last bits of nms_gpu may differ,
since a GPU may contract products and sums and has its own sines."""

import numpy as np

MARGIN = np.float32(1e-2)
TINY = np.float32(1e-8)
KINDS = (((3.9, 1.6, 1.56), 0.6), ((0.8, 0.6, 1.73), 0.25), ((1.76, 0.6, 1.73), 0.15))  # size, frequency in KITTI


# ---- overlap of pairs: arrays of boxes [P, 7] ------------------------------------------------------------------------


def cross(a, b, origin):
    """(a - origin) x (b - origin) of points [..., 2]."""
    u, v = a - origin, b - origin
    return u[..., 0] * v[..., 1] - v[..., 0] * u[..., 1]


def corners_of(boxes):
    """[P, 4, 2]"""
    signs = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], np.float32)
    across = boxes[:, None, 3:5] * np.float32(0.5) * signs
    cosine, sine = np.cos(boxes[:, 6])[:, None], np.sin(boxes[:, 6])[:, None]
    turned = (across[..., 0] * cosine - across[..., 1] * sine, across[..., 0] * sine + across[..., 1] * cosine)
    return np.stack(turned, -1) + boxes[:, None, :2]


def inside(points, boxes):
    """Which of the points [P, 4, 2] lie in the boxes or within MARGIN of them."""
    away = points - boxes[:, None, :2]
    cosine, sine = np.cos(boxes[:, 6])[:, None], np.sin(boxes[:, 6])[:, None]
    along = np.abs(away[..., 0] * cosine + away[..., 1] * sine)
    beside = np.abs(away[..., 1] * cosine - away[..., 0] * sine)
    half = boxes[:, None, 3:5] * np.float32(0.5) + MARGIN
    return (along < half[..., 0]) & (beside < half[..., 1])


def crossing(p, q):
    """(points, whether each exists): the crossings of the edges p = (p0, p1) and q = (q0, q1)."""
    (p0, p1), (q0, q1) = p, q
    s1, s2, s3, s4 = cross(q0, p1, p0), cross(p1, q1, p0), cross(p0, q1, q0), cross(q1, p1, q0)
    s5 = cross(q1, p1, p0)
    there = (s1 * s2 > 0) & (s3 * s4 > 0)
    plain = np.abs(s5 - s1) > TINY
    with np.errstate(all="ignore"):
        by_ratio = (s5[:, None] * q0 - s1[:, None] * q1) / (s5 - s1)[:, None]
        normals = [(a[:, 1] - b[:, 1], b[:, 0] - a[:, 0]) for a, b in ((p0, p1), (q0, q1))]
        constants = [a[:, 0] * b[:, 1] - b[:, 0] * a[:, 1] for a, b in ((p0, p1), (q0, q1))]
        determinant = normals[0][0] * normals[1][1] - normals[1][0] * normals[0][1]
        x = (normals[0][1] * constants[1] - normals[1][1] * constants[0]) / determinant
        y = (normals[1][0] * constants[0] - normals[0][0] * constants[1]) / determinant
    return np.where(plain[:, None], by_ratio, np.stack((x, y), -1)), there


def points_of_overlap(a, b):
    """(points [P, 24, 2], whether each exists [P, 24])"""
    corners, others = corners_of(a), corners_of(b)
    found = [
        crossing((corners[:, i], corners[:, (i + 1) % 4]), (others[:, j], others[:, (j + 1) % 4]))
        for i in range(4)
        for j in range(4)
    ]
    of_b, of_a = inside(others, a), inside(corners, b)
    for k in range(4):
        found += [(others[:, k], of_b[:, k]), (corners[:, k], of_a[:, k])]
    return np.stack([points for points, _ in found], 1), np.stack([there for _, there in found], 1)


def overlap(a, b):
    points, there = points_of_overlap(a, b)
    points = np.where(there[..., None], points, np.float32(0))
    count = there.sum(1)
    mean = np.zeros((len(a), 2), np.float32)
    for k in range(points.shape[1]):
        mean += points[:, k]
    mean /= np.maximum(count, 1).astype(np.float32)[:, None]
    away = points - mean[:, None]
    angle = np.where(there, np.arctan2(away[..., 1], away[..., 0]), np.float32(np.inf))
    order = np.argsort(angle, axis=1, kind="stable")  # missing points come last
    points = np.take_along_axis(points, order[..., None], 1)
    area = np.zeros(len(a), np.float32)
    for k in range(points.shape[1] - 1):
        area += np.where(k + 1 < count, cross(points[:, k], points[:, k + 1], points[:, 0]), np.float32(0))
    return np.abs(area) / np.float32(2)


def iou(a, b):
    both = overlap(a, b)
    together = a[:, 3] * a[:, 4] + b[:, 3] * b[:, 4] - both
    return both / np.maximum(together, TINY)


# ---- suppression -----------------------------------------------------------------------------------------------------


def nms(boxes, scores, threshold=0.01, pre_max=4096, post_max=500):
    """The rows of the kept boxes, the best first. `boxes`: float32 [N, 7]."""
    ranked = np.argsort(-scores, kind="stable")[:pre_max]
    boxes = boxes[ranked]
    radius = np.sqrt(boxes[:, 3] ** 2 + boxes[:, 4] ** 2) / 2 + MARGIN
    away = boxes[:, None, :2] - boxes[None, :, :2]
    near = np.sqrt((away**2).sum(-1)) <= (radius[:, None] + radius[None]) * np.float32(1.01)
    first, second = np.nonzero(np.triu(near, 1))
    over = iou(boxes[first], boxes[second]) > np.float32(threshold)
    suppresses = np.zeros((len(boxes), len(boxes)), bool)
    suppresses[first[over], second[over]] = True
    gone, kept = np.zeros(len(boxes), bool), []
    for i in range(len(boxes)):
        if not gone[i]:
            kept.append(i)
            gone |= suppresses[i]
    return ranked[kept][:post_max]


# ---- scenes ----------------------------------------------------------------------------------------------------------


GAPS = {"street": 0.5, "crowd": 0.05}  # largest gap in metres between close objects


def scene(rng, gap=GAPS["street"]):
    """(boxes, scores) as a head finds them: 30 to 90 cars, pedestrians and cyclists, with 3 to 25 boxes for each. Every
    third object stands beside the one before, at most `gap` metres away."""
    boxes = []
    for number in range(rng.integers(30, 91)):
        size = np.array(KINDS[rng.choice(len(KINDS), p=[often for _, often in KINDS])][0]) * rng.normal(1, 0.05, 3)
        place, heading = rng.uniform((0, -39, -1.5), (69, 39, -0.5)), rng.uniform(-np.pi, np.pi)
        if boxes and number % 3 == 0:
            beside = boxes[-1][0]
            heading = beside[6] + rng.normal(0, 0.02)
            step = (beside[4] + size[1]) / 2 + rng.uniform(0, gap)
            place = beside[:3] + step * np.array([-np.sin(heading), np.cos(heading), 0])
        count = rng.integers(3, 26)
        found = np.tile([*place, *size, heading], (count, 1))
        found[1:, :2] += rng.normal(0, 0.12, (count - 1, 2))
        found[1:, 3:6] *= rng.normal(1, 0.05, (count - 1, 3))
        found[1:, 6] += rng.normal(0, 0.05, count - 1) + np.pi * (rng.random(count - 1) < 0.1)
        boxes.append(found)
    boxes = np.concatenate(boxes).astype(np.float32)
    return boxes, rng.permutation(np.linspace(0.1, 1, len(boxes))).astype(np.float32)


class Agreement:
    def __init__(self):
        self.scenes = self.equal_scenes = self.boxes = self.either = self.both = 0

    def add(self, count, ours, theirs):
        ours, theirs = list(ours), list(theirs)
        self.scenes += 1
        self.equal_scenes += ours == theirs
        self.boxes += count
        self.either += len(set(ours) | set(theirs))
        self.both += len(set(ours) & set(theirs))
