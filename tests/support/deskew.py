"""The oracle of times and de-skew: exact times, a motion in float64, and moved points in float32, in the order of
operations that docs/contribute/computation.md specifies."""

import math

import numpy as np

from streams import composed, pose_of

F32 = np.float32
UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
MARGIN = 0.1


# --- times ------------------------------------------------------------------------------------------------------------


def origin_of(text, values, unit, stamp):
    """The origin of the times, in `unit`: an int if seconds() can subtract it from integers exactly, else a float."""
    if text == "stamp":
        whole, rest = divmod(stamp[1], 10**9 // PER_SECOND[unit])
        whole += stamp[0] * PER_SECOND[unit]
        exact = float(stamp[0] * PER_SECOND[unit]) + stamp[1] / (10**9 // PER_SECOND[unit])
        return whole if rest == 0 and values.dtype.kind in "iu" else exact
    if text == "first":
        kept = values if values.dtype.kind in "iu" else values[np.isfinite(values)]
        return kept.min().item() if len(kept) else 0
    try:
        return int(text)
    except ValueError:
        return int(float(text)) if float(text).is_integer() else float(text)


def seconds(values, unit="s", origin="0", stamp=(0, 0)):
    """Seconds from the origin, as float64."""
    zero = origin_of(origin, values, unit, stamp)
    if values.dtype.kind in "iu" and isinstance(zero, int):
        return np.array([float(value - zero) for value in values.tolist()], np.float64) * UNITS[unit]
    with np.errstate(all="ignore"):
        return (values.astype(np.float64) - float(zero)) * UNITS[unit]


# --- motion -----------------------------------------------------------------------------------------------------------


def hat(w):
    return np.array([[0, -w[2], w[1]], [w[2], 0, -w[0]], [-w[1], w[0], 0]])


def coefficients(angle):
    if angle < 1e-4:
        return 1 - angle**2 / 6, 0.5 - angle**2 / 24, 1 / 6 - angle**2 / 120
    half = 2 * math.sin(angle / 2) ** 2
    third = (angle - math.sin(angle)) / angle**3
    if angle < 0.1:  # angle - sin(angle) would lose digits
        third = 1 / 6 - angle**2 / 120 + angle**4 / 5040 - angle**6 / 362880
    return math.sin(angle) / angle, half / angle**2, third


def moved(v, w, time):
    """The pose (rotation, translation) after `time` with the twist (v, w)."""
    turn = hat(np.array(w) * time)
    a, b, c = coefficients(float(np.linalg.norm(w)) * time if time >= 0 else -float(np.linalg.norm(w)) * time)
    return np.eye(3) + a * turn + b * turn @ turn, (np.eye(3) + b * turn + c * turn @ turn) @ (np.array(v) * time)


def after(pose, step):
    return pose[0] @ step[0], pose[0] @ step[1] + pose[1]


def seen_from(frame, pose):
    return frame[0].T @ pose[0], frame[0].T @ (pose[1] - frame[1])


def twist_to(pose, time):
    """The twist (v, w) that reaches the pose in `time`."""
    rotation, shift = pose
    axis = np.array([rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]])
    sine, cosine = float(np.linalg.norm(axis)) / 2, (np.trace(rotation) - 1) / 2
    angle = math.atan2(sine, cosine)
    w = axis / 2 * (angle / sine if sine > 1e-12 else 1)
    turn = hat(w)
    k = (1 - angle / 2 / math.tan(angle / 2)) / angle**2 if angle > 1e-4 else 1 / 12
    return (shift - turn @ shift / 2 + k * turn @ turn @ shift) / time, w / time


class Motion:
    """Segments (start, pose, v, w) in float64, and the first and the last time of the motion."""

    def __init__(self):
        self.parts, self.first, self.last = [], 0.0, 0.0

    def add(self, start, time, pose, v, w):
        pieces = 1
        while float(np.linalg.norm(w)) * time / pieces > 0.2:
            pieces *= 2
        for i in range(pieces):
            self.parts.append((start + time * i / pieces, after(pose, moved(v, w, time * i / pieces)), v, w))

    def at(self, t):
        k = max([i for i, part in enumerate(self.parts) if part[0] <= t], default=0)
        start, pose, v, w = self.parts[k]
        return after(pose, moved(v, w, t - start))

    def rounded(self, reference):
        """The motion as the kernels get it, in float32: limits, and (start, pose 3x4, v, w) of each segment."""
        frame = self.at(reference)
        limits = F32(self.first - MARGIN - reference), F32(self.last + MARGIN - reference)
        parts = []
        for start, pose, v, w in self.parts:
            rotation, shift = seen_from(frame, pose)
            matrix = np.column_stack([rotation, shift]).astype(F32)
            parts.append((F32(start - reference), matrix, np.array(v).astype(F32), np.array(w).astype(F32)))
        return limits, parts


def motion_of_poses(rows, slerp=False, mount=None):
    motion = Motion()
    times = [row[0] for row in rows]
    poses = [pose_of(row[1:]) for row in rows]
    if mount:
        poses = [composed(pose, mount) for pose in poses]
    poses = [seen_from(poses[0], pose) for pose in poses]
    motion.first, motion.last = times[0], times[-1]
    for (start, end), (one, other) in zip(zip(times, times[1:]), zip(poses, poses[1:])):
        stops, time = [one, other], end - start
        if slerp:
            _, turn = twist_to(seen_from(one, other), 1)
            stops = [
                (one[0] @ moved([0, 0, 0], turn, i / 16)[0], one[1] + (other[1] - one[1]) * (i / 16)) for i in range(17)
            ]
        count = len(stops) - 1
        for i in range(count):
            motion.add(start + time * i / count, time / count, stops[i],
                       *twist_to(seen_from(stops[i], stops[i + 1]), time / count))
    return motion


def motion_of_twists(rows, mount=None):
    motion, pose = Motion(), (np.eye(3), np.zeros(3))
    motion.first, motion.last = rows[0][0], rows[-1][0]
    spans = [(motion.first - MARGIN, MARGIN, rows[0])]
    spans += [(one[0], other[0] - one[0], other) for one, other in zip(rows, rows[1:])]
    spans += [(motion.last, MARGIN, rows[-1])]
    for start, time, row in spans:
        v, w = np.array(row[1:4]), np.array(row[4:7])
        if mount:
            v, w = mount[0].T @ (v + np.cross(w, mount[1])), mount[0].T @ w
        motion.add(start, time, pose, v, w)
        pose = after(pose, moved(v, w, time))
    return motion


def motion_between(then, now, time):
    v, w = twist_to(seen_from(then, now), time)
    return motion_of_twists([(-time, *v, *w), (0.0, *v, *w)])


# --- points -----------------------------------------------------------------------------------------------------------


def cross(a, b):
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def exp_times(v, w, dt, p):
    """p moved by the twist (v, w) for the time dt (q in computation.md); arrays of float32."""
    one, z = F32(1), ((w[0] * w[0] + w[1] * w[1]) + w[2] * w[2]) * (dt * dt)
    a = (one + z * (F32(-1 / 6) + z * F32(1 / 120))) * dt
    b = (F32(0.5) + z * (F32(-1 / 24) + z * F32(1 / 720))) * (dt * dt)
    c = (F32(1 / 6) + z * (F32(-1 / 120) + z * F32(1 / 5040))) * ((dt * dt) * dt)
    wp, wv = cross(w, p), cross(w, v)
    wwp, wwv = cross(w, wp), cross(w, wv)
    return [p[i] + ((a * wp[i] + b * wwp[i]) + ((dt * v[i] + b * wv[i]) + c * wwv[i])) for i in range(3)]


def deskewed(points, times, motion, reference=0.0):
    """Returns (points, number of clamped times). `times` are float64 seconds from the origin. `motion` may be None."""
    points = points.astype(F32)
    with np.errstate(all="ignore"):
        t = (times - reference).astype(F32)
        points[~np.isfinite(t), 0] = np.nan
        if motion is None:
            return points, 0
        moves = np.isfinite(points[:, :3]).all(axis=1)
        (first, last), parts = motion.rounded(reference)
        clamped = int(((t < first) | (t > last))[moves].sum())
        t = np.minimum(np.maximum(t, first), last)
        starts = np.array([part[0] for part in parts], F32)
        number = np.maximum(np.searchsorted(starts, t, side="right") - 1, 0)
        for k, (start, m, v, w) in enumerate(parts):
            mine = moves & (number == k)
            q = exp_times(v, w, t[mine] - start, points[mine, :3].T)
            points[mine, :3] = np.stack([((r[0] * q[0] + r[1] * q[1]) + r[2] * q[2]) + r[3] for r in m], 1)
    return points, clamped
