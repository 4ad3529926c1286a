"""The oracle of decoding a centre head: numpy's float32 and Python's floats, in the order that
docs/contribute/computation.md specifies."""

import math

import numpy as np

from boxes import Rectangle, atan2, exp, is_valid, keep, list_of, power, sigmoid, suppresses

MAPS = ("heatmap", "center", "height", "dim", "rot", "vel", "iou")
FATES = ("below_threshold", "over_max_objects", "invalid", "outside", "over_pre_max", "suppressed", "over_post_max")


def near(a, b, radius):
    x, y = b.x - a.x, b.y - a.y
    return x * x + y * y <= float(radius) * float(radius)


class Head:
    """The parameters of a request, as float32."""

    def __init__(self, query, classes):
        self.low = list_of(query, "point_cloud_range")[:3]
        self.voxel = list_of(query, "voxel_size")
        self.stride = np.float32(int(query["feature_map_stride"]))
        self.tasks = [int(n) for n in query.get("task_classes", str(classes)).split(",")]
        self.cos_first = query.get("rot_order", "cos_sin") == "cos_sin"
        self.threshold = list_of(query, "score_threshold", "0.1")[0]
        self.best = query.get("cell_labels", "all") == "best"
        self.most = int(query.get("max_objects", "500"))
        self.limits = list_of(query, "post_center_range").reshape(2, 3) if "post_center_range" in query else None
        self.circle = query.get("nms", "rotated") == "circle"
        radii = list_of(query, "min_radius") if "min_radius" in query else np.zeros(1, np.float32)
        self.radii = radii if len(radii) > 1 else np.repeat(radii, len(self.tasks))
        self.iou = list_of(query, "nms_threshold", "0.01")[0]
        self.pre_max, self.post_max = int(query.get("nms_pre_max", "4096")), int(query.get("nms_post_max", "500"))
        self.iou_power = np.resize(list_of(query, "iou_power", "0"), classes)
        self.score_power = np.resize(list_of(query, "score_power", "1"), classes)
        self.rectified_threshold = list_of(query, "rectified_threshold", "-1")[0]
        self.rectifies = "iou_power" in query
        self.agnostic = query.get("class_agnostic", "yes") == "yes"

    def rectified(self, label, score, iou):
        overlap = np.clip((iou + np.float32(1)) * np.float32(0.5), np.float32(0), np.float32(1))
        return np.float32(power(score, self.score_power[label]) * power(overlap, self.iou_power[label]))

    def box(self, row, column, center, height, dim, rot, vel, iou):
        """The box with its velocity; None if it is not valid."""
        f = np.float32
        place = [
            ((f(cell) + center[i]) * self.stride) * self.voxel[i] + self.low[i] for i, cell in enumerate((column, row))
        ]
        sizes = [f(exp(float(t) if t == t else 128.0)) for t in dim]
        if not np.isfinite(rot).all() or not np.isfinite(vel).all() or not np.isfinite(iou).all():
            return None
        cosine, sine = (float(r) for r in (rot if self.cos_first else rot[::-1]))
        box = np.array([*place, height[0], *sizes, f(atan2(sine, cosine)), *vel], np.float32)
        return box if is_valid(box[:7], 0.0) else None

    def is_outside(self, box):
        if self.limits is None:
            return False
        return not ((box[:3] >= self.limits[0]).all() and (box[:3] <= self.limits[1]).all())


def decode_task(head, task, maps, told):
    """The kept boxes of one task of one cloud, as (box, score, label, index)."""
    heatmap, *rest = maps
    height, width = heatmap.shape[:2]
    first = sum(head.tasks[:task])
    logits = np.moveaxis(heatmap[..., first : first + head.tasks[task]], 2, 0).reshape(head.tasks[task], -1)
    best = np.where(np.isnan(logits), -np.inf, logits).argmax(0)
    listed = (best == np.arange(head.tasks[task])[:, None]).reshape(-1) | (not head.best)
    logits = logits.reshape(-1)
    found = [i for i, logit in enumerate(logits) if listed[i] and logit > -np.inf and sigmoid(logit) > head.threshold]
    found.sort(key=lambda i: -float(logits[i]))
    told["below_threshold"] += int(listed.sum()) - len(found)
    told["over_max_objects"] += len(found[head.most :])
    boxes = []
    for i in found[: head.most]:
        row, column = divmod(i % (height * width), width)
        label, values = first + i // (height * width), [values[row, column, task] for values in rest]
        box = head.box(row, column, *values)
        score = sigmoid(logits[i])
        if box is not None and head.rectifies:
            score = head.rectified(label, score, values[-1][0])
        if box is None:
            told["invalid"] += 1
        elif head.is_outside(box):
            told["outside"] += 1
        elif head.rectifies and not score > head.rectified_threshold:
            told["below_threshold"] += 1
        else:
            boxes.append((box, score, label, first * height * width + i))
    if head.rectifies:
        boxes.sort(key=lambda box: (-float(box[1]), box[3]))
    candidates = range(min(len(boxes), head.pre_max))
    rectangles = [Rectangle(boxes[i][0]) for i in candidates]
    labels = None if head.agnostic else [box[2] for box in boxes]
    limit, goes = (head.radii[task], near) if head.circle else (head.iou, suppresses)
    kept, suppressed = keep(candidates, rectangles, labels, limit, head.post_max, goes)
    told["over_pre_max"] += len(boxes) - len(candidates)
    told["suppressed"] += suppressed
    told["over_post_max"] += len(candidates) - len(kept) - suppressed
    told["kept"] += len(kept)
    return [boxes[i] for i in kept]


def decode(query, tensors):
    """Returns (tensors, batch.kept, candidates); the last two as in the metadata."""
    maps = {name: one if one.ndim == 4 else one[None] for name, one in tensors.items()}
    moving = "vel" in maps
    clouds, height, width, classes = maps["heatmap"].shape
    head = Head(query, classes)
    if not moving:
        maps["vel"] = np.zeros((clouds, height, width, 2 * len(head.tasks)), np.float32)
    if "iou" not in maps:
        maps["iou"] = np.zeros((clouds, height, width, len(head.tasks)), np.float32)
    maps = [maps[name].astype(np.float32) for name in MAPS]
    # [clouds, height, width, tasks, values]
    maps[1:] = [one.reshape(clouds, height, width, len(head.tasks), -1) if one.size else one for one in maps[1:]]
    items = clouds * height * width * len(head.tasks) if head.best else maps[0].size
    told = {"received": items, "kept": 0, **dict.fromkeys(FATES, 0)}
    chosen, batch = [], []
    with np.errstate(all="ignore"):
        for cloud in range(clouds):
            before = len(chosen)
            for task in range(len(head.tasks)):
                chosen += decode_task(head, task, [one[cloud] for one in maps], told)
            batch.append(len(chosen) - before)
    boxes = np.array([entry[0] for entry in chosen], np.float32).reshape(-1, 9)
    return (
        {
            "boxes": boxes if moving else np.ascontiguousarray(boxes[:, :7]),
            "scores": np.array([entry[1] for entry in chosen], np.float32),
            "labels": np.array([entry[2] for entry in chosen], np.int32),
            "box_indices": np.array([entry[3] for entry in chosen], np.int32),
            "box_counts": np.array(batch, np.int32),
        },
        batch,
        told,
    )
