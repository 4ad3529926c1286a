"""The oracle of tracks: matches boxes from sweep to sweep as kernels/tracks.h says."""

import numpy as np

MOST = 4096  # tracks


class Tracks:
    """The tracks of one model in one stream. A pose is (rotation, translation) in float64."""

    def __init__(self):
        self.time, self.next, self.begun = None, 1, False
        self.tracks = []  # [id, label, missed, centre, velocity]

    def follow(self, tensors, time, pose, max_distance=(4,), max_age=3, repeated=False):
        """The ids of the boxes, and the counts in the metadata."""
        boxes, labels = tensors["boxes"].astype(np.float64), tensors["labels"]
        begun = bool(self.time is None or time < self.time)
        step = 0.0 if begun else np.float64(time) - self.time
        old = [] if begun else self.tracks
        taken = self.match(tensors["scores"], boxes, labels, step, pose, old, max_distance)
        ids, tracks = [], []
        for number, (box, label) in enumerate(zip(boxes, labels)):
            own = old[taken[number]][0] if number in taken else self.next
            self.next += number not in taken
            ids.append(own)
            tracks.append([own, label, 0, *moving(box, pose)])
        ended = 0
        for number, (own, label, missed, centre, velocity) in enumerate(old):
            if number in taken.values():
                continue
            missed += step > 0
            if missed > max_age or len(tracks) == MOST:
                ended += 1
                continue
            tracks.append([own, label, missed, centre + velocity * step, velocity])
        self.begun = begun or (repeated and self.begun)
        counts = {"begun": self.begun, "matched": len(taken), "new": len(boxes) - len(taken)}
        counts |= {"missed": len(tracks) - len(boxes), "ended": ended}
        self.time, self.tracks = np.float64(time), tracks
        return np.array(ids, np.int64), counts

    def match(self, scores, boxes, labels, step, pose, old, max_distance):
        """{number of the box: number of its track in `old`}."""
        rotation, translation = pose
        at = np.array([track[3] for track in old]).reshape(-1, 3) - translation
        seen = [(rotation[0, a] * at[:, 0] + rotation[1, a] * at[:, 1]) + rotation[2, a] * at[:, 2] for a in (0, 1)]
        classes = np.array([track[1] for track in old], np.int64)
        taken = {}
        for number in np.argsort(-scores, kind="stable"):
            velocity = boxes[number, 7:9] if boxes.shape[1] > 7 else np.zeros(2)
            x, y = boxes[number, :2] - velocity * step
            most = np.float64(np.float32(max_distance[labels[number] if len(max_distance) > 1 else 0]))
            square = (seen[0] - x) ** 2 + (seen[1] - y) ** 2
            free = (classes == labels[number]) & (square <= most * most)
            free[list(taken.values())] = False
            if free.any():
                taken[number] = int(np.argmin(np.where(free, square, np.inf)))
        return taken


def moving(box, pose):
    """A box's (centre, velocity) in the fixed frame."""
    rotation, translation = pose
    vx, vy = box[7:9] if len(box) > 7 else (0.0, 0.0)
    centre = (rotation[:, 0] * box[0] + rotation[:, 1] * box[1]) + rotation[:, 2] * box[2]
    return centre + translation, rotation[:, 0] * vx + rotation[:, 1] * vy
