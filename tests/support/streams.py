"""The oracle of streams, in numpy: keeps and joins sweeps as docs/streams.md says."""

import numpy as np

from transform import moved_by


def dot(a, b):
    """In the order of operations that the service specifies, in float64."""
    return (a[0] * b[0] + a[1] * b[1]) + a[2] * b[2]


def pose_of(numbers):
    """(rotation, translation) from 16 numbers, or from 7: x, y, z, qw, qx, qy, qz."""
    numbers = [np.float64(number) for number in numbers]
    if len(numbers) == 16:
        matrix = np.array(numbers).reshape(4, 4)
        return matrix[:3, :3], matrix[:3, 3]
    w, x, y, z = numbers[3:]
    length = np.sqrt((w * w + x * x) + (y * y + z * z))
    w, x, y, z = w / length, x / length, y / length, z / length
    rotation = [
        [1 - 2 * (y * y + z * z), 2 * (x * y - z * w), 2 * (x * z + y * w)],
        [2 * (x * y + z * w), 1 - 2 * (x * x + z * z), 2 * (y * z - x * w)],
        [2 * (x * z - y * w), 2 * (y * z + x * w), 1 - 2 * (x * x + y * y)],
    ]
    return np.array(rotation), np.array(numbers[:3])


def composed(outer, inner):
    rotation = [[dot(row, column) for column in inner[0].T] for row in outer[0]]
    return np.array(rotation), np.array([dot(row, inner[1]) + at for row, at in zip(*outer)])


def motion(now, then):
    """inverse(now) * then, rounded once."""
    way = then[1] - now[1]
    rows = [[dot(axis, column) for column in then[0].T] + [dot(axis, way)] for axis in now[0].T]
    return np.array([*rows, [0, 0, 0, 1]]).astype(np.float32)


class Mirror:
    """The sweeps that the server should keep for one client."""

    def __init__(self):
        self.sweeps, self.mounts = {}, {}  # by stream; sweeps: (time, pose, rows), the newest first

    def send(self, query, *bodies):
        """The joined rows, and for each sweep (stream, time, points received, points joined). Several bodies are sweeps
        of `times` and `poses`, the newest first."""
        name, wanted = query["stream"], int(query.get("sweeps", len(bodies)))
        names = query.get("streams", name).split(",")
        times = [float(time) for time in query.get("times", query.get("time")).split(",")]
        poses = np.reshape(query.get("poses", query.get("pose")).split(","), (len(bodies), -1))
        mount = pose_of(query["mount"].split(",")) if "mount" in query else self.mounts.get(name)
        sent = []
        for time, numbers, rows in zip(times, poses, bodies):
            pose = pose_of(numbers)
            sent.append((time, composed(pose, mount) if mount else pose, rows))
        full = [sweep for sweep in sent if len(sweep[2])]
        own = self.merged(name, sent[:1] + [sweep for sweep in full if sweep is not sent[0]], wanted)
        seen = [own if each == name else self.sweeps.get(each, [])[:wanted] for each in names]
        if full:  # a sweep without points is not kept
            self.sweeps[name] = self.merged(name, full, wanted)
            if mount:
                self.mounts[name] = mount
        order = [(each, sweeps[age]) for age in range(wanted) for each, sweeps in zip(names, seen) if age < len(sweeps)]
        return self.join(order, query)

    def merged(self, name, sent, wanted):
        by_time = {sweep[0]: sweep for sweep in [*self.sweeps.get(name, []), *sent]}
        return [by_time[time] for time in sorted(by_time, reverse=True)][:wanted]

    def join(self, order, query):
        now, frame, _ = order[0][1]
        close, parts, told = np.float32(query.get("remove_close", "0")), [], []
        for number, (name, (time, pose, rows)) in enumerate(order):
            points = rows.astype(np.float32)
            with np.errstate(all="ignore"):
                points = points[~((abs(points[:, 0]) < close) & (abs(points[:, 1]) < close))]
            if number:
                points[:, :3] = moved_by(motion(frame, pose), points[:, :3])
            if query.get("time_column") == "yes":
                ages = np.full((len(points), 1), np.float32(now - time), np.float32)
                points = np.concatenate([points, ages], axis=1)
            parts.append(points)
            told.append((name, time, len(rows), len(points)))
        return np.concatenate(parts), told
