"""How well found boxes match the labels of streets: recall and precision by class and least score. Numpy only.

A box is found if the centre of a box of its class is near its own, and was not taken by one of a higher score. Finding
a box with few points counts neither way.
"""

import numpy as np

NEAR = {"Car": 1.0, "Pedestrian": 0.5, "Cyclist": 0.7}  # metres
THRESHOLDS = (0.2, 0.3, 0.4, 0.5, 0.6)


class Tally:
    """What was found on several streets. `bounds`: x and y of the range's corners, outside of which nothing counts;
    `lowest`: the score that boxes must have to be found at all."""

    def __init__(self, classes, bounds, lowest=0.0):
        self.classes, self.bounds = classes, np.asarray(bounds, float)
        self.scores = [least for least in THRESHOLDS if least >= lowest]
        self.streets, self.wanted = 0, dict.fromkeys(classes, 0)
        self.finds = {name: [] for name in classes}  # (score, whether it is true)

    def add(self, street, boxes, scores, labels):
        self.streets += 1
        inside = ((street.boxes[:, :2] >= self.bounds[:2]) & (street.boxes[:, :2] <= self.bounds[2:])).all(1)
        order = np.argsort(-scores, kind="stable")
        for kind, name in enumerate(self.classes):
            mine = inside & (street.labels == kind)
            self.wanted[name] += int(street.seen[mine].sum())
            found = order[labels[order] == kind]
            self._match(name, street.boxes[mine, :2], street.seen[mine], boxes[found, :2], scores[found])

    def _match(self, name, truth, seen, centres, scores):
        free = np.ones(len(truth), bool)
        for centre, score in zip(centres, scores):
            away = np.where(free, np.hypot(*(truth - centre).T), np.inf)
            nearest = int(away.argmin()) if len(away) else None
            true = nearest is not None and away[nearest] < NEAR[name]
            if true:
                free[nearest] = False
            if not true or seen[nearest]:
                self.finds[name].append((float(score), bool(true)))

    def report(self):
        by_score = {name: {str(least): self._rates(name, least) for least in self.scores} for name in self.classes}
        return {"scenes": self.streets, "boxes": self.wanted, "near_metres": NEAR, "by_least_score": by_score}

    def _rates(self, name, least):
        finds = [true for score, true in self.finds[name] if score >= least]
        return {
            "recall": round(sum(finds) / max(1, self.wanted[name]), 3),
            "precision": round(sum(finds) / max(1, len(finds)), 3),
        }


def sentence(report, least):
    """What the description of a model says of it."""
    rates = {name: by_score[str(least)] for name, by_score in report["by_least_score"].items()}
    parts = [f"{name} {one['recall']:.3f} and {one['precision']:.3f}" for name, one in rates.items()]
    return (
        "A sample, trained on simulated streets; no model for the road. Recall and precision on "
        f"{report['scenes']} unseen simulated streets, of boxes that score at least {least}: {', '.join(parts)}"
    )
