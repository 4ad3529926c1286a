"""How well found boxes match the labels of streets: recall, precision and reversed headings by class and least score.
Numpy only.

Each found box, the best score first, takes the nearest free label of its class, if their centres are near. The box is
then true. A true box does not count if its label has few points. A heading is reversed if it is more than a quarter
turn off.
"""

import numpy as np

NEAR = {"Car": 1.0, "Pedestrian": 0.5, "Cyclist": 0.7}  # metres
THRESHOLDS = (0.2, 0.3, 0.4, 0.5, 0.6)


class Tally:
    """What was found on several streets. `bounds` [x0, y0, x1, y1]: labels outside do not count. `lowest`: the least
    score of boxes."""

    def __init__(self, classes, bounds, lowest=0.0):
        self.classes, self.bounds = classes, np.asarray(bounds, float)
        self.scores = [least for least in THRESHOLDS if least >= lowest]
        self.streets, self.wanted = 0, dict.fromkeys(classes, 0)
        self.finds = {name: [] for name in classes}  # (score, true, reversed)

    def add(self, street, boxes, scores, labels):
        self.streets += 1
        inside = ((street.boxes[:, :2] >= self.bounds[:2]) & (street.boxes[:, :2] <= self.bounds[2:])).all(1)
        order = np.argsort(-scores, kind="stable")
        for kind, name in enumerate(self.classes):
            mine = inside & (street.labels == kind)
            self.wanted[name] += int(street.seen[mine].sum())
            found = order[labels[order] == kind]
            self._match(name, street.boxes[mine], street.seen[mine], boxes[found], scores[found])

    def _match(self, name, truth, seen, boxes, scores):
        free = np.ones(len(truth), bool)
        for box, score in zip(boxes, scores):
            away = np.where(free, np.hypot(*(truth[:, :2] - box[:2]).T), np.inf)
            nearest = int(away.argmin()) if len(away) else None
            true = nearest is not None and away[nearest] < NEAR[name]
            if true:
                free[nearest] = False
            if not true or seen[nearest]:
                reversed_ = true and np.cos(box[6] - truth[nearest, 6]) < 0
                self.finds[name].append((float(score), bool(true), bool(reversed_)))

    def report(self):
        by_score = {name: {str(least): self._rates(name, least) for least in self.scores} for name in self.classes}
        return {"scenes": self.streets, "boxes": self.wanted, "near_metres": NEAR, "by_least_score": by_score}

    def _rates(self, name, least):
        finds = [find for find in self.finds[name] if find[0] >= least]
        true, turned = (sum(find[part] for find in finds) for part in (1, 2))
        return {
            "recall": round(true / max(1, self.wanted[name]), 3),
            "precision": round(true / max(1, len(finds)), 3),
            "reversed": round(turned / max(1, true), 3),
        }


def sentence(report, least):
    """The description of a model with these rates."""
    rates = {name: by_score[str(least)] for name, by_score in report["by_least_score"].items()}
    parts = [f"{name} {one['recall']:.3f} and {one['precision']:.3f}" for name, one in rates.items()]
    turned = [f"{one['reversed']:.3f} of {name}" for name, one in rates.items()]
    return (
        "A sample, trained on simulated streets; no model for the road. Recall and precision on "
        f"{report['scenes']} unseen simulated streets, of boxes that score at least {least}: {', '.join(parts)}. "
        f"Headings are often reversed: {', '.join(turned)}"
    )
