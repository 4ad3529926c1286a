"""Decodes the maps of heads as other projects do, in float64. Maps are [H,W,channels], of one cloud. The results are
rows (box, score, label), the best of a task first. boxes.py computes the suppression."""

import numpy as np

from boxes import Rectangle, keep


def sigmoid(values):
    return 1 / (1 + np.exp(-values.astype(float)))


def suppress(rows, threshold, pre_max, post_max, by_label=False):
    """The kept rows of (box, score, label)."""
    rows = sorted(rows, key=lambda row: -row[1])[:pre_max]
    labels = [label for _, _, label in rows] if by_label else None
    rectangles = [Rectangle(box[:7].astype(np.float32)) for box, _, _ in rows]
    kept, _ = keep(range(len(rows)), rectangles, labels, threshold, post_max)
    return [rows[i] for i in kept]


# ---- anchors of mmdetection3d ---------------------------------------------------------------------------------------


def aligned_anchors(shape, ranges, sizes, rotations):
    """AlignedAnchor3DRangeGenerator: [H * W * sizes * rotations, 7]: x, y, z of the bottom, sizes, rotation."""
    height, width = shape
    anchors = np.zeros((height, width, len(sizes), len(rotations), 7))
    for number, ((x0, y0, z, x1, y1, _), size) in enumerate(zip(ranges, sizes)):
        anchors[:, :, number, :, 0] = (np.linspace(x0, x1, width + 1)[:-1] + (x1 - x0) / width / 2)[None, :, None]
        anchors[:, :, number, :, 1] = (np.linspace(y0, y1, height + 1)[:-1] + (y1 - y0) / height / 2)[:, None, None]
        anchors[:, :, number, :, 2] = z
        anchors[:, :, number, :, 3:6] = size
    anchors[..., 6] = rotations
    return anchors.reshape(-1, 7)


def multilabel_anchors(maps, anchors, values, offset, test):
    """Anchor3DHead with sigmoid scores; `test` is its test_cfg. The z of a resulting box is at its centre."""
    logits = maps["cls_preds"].reshape(len(anchors), -1)
    moves, bins = maps["box_preds"].reshape(-1, values).astype(float), maps["dir_cls_preds"].reshape(-1, 2)
    best = np.argsort(-logits.max(1), kind="stable")[: test["nms_pre"]]
    anchors, moves, scores, bins = anchors[best], moves[best], sigmoid(logits[best]), bins[best]
    diagonal = np.hypot(anchors[:, 3], anchors[:, 4])[:, None]
    place = moves[:, :2] * diagonal + anchors[:, :2]
    z = moves[:, 2:3] * anchors[:, 5:6] + anchors[:, 2:3] + anchors[:, 5:6] / 2
    turn = moves[:, 6:7] + anchors[:, 6:7] - offset
    turn = turn - np.floor(turn / np.pi) * np.pi + offset + np.pi * bins.argmax(1)[:, None]
    boxes = np.concatenate([place, z, np.exp(moves[:, 3:6]) * anchors[:, 3:6], turn, moves[:, 7:]], axis=1)
    found = []
    for label in range(scores.shape[1]):
        rows = [(boxes[i], scores[i, label], label) for i in np.flatnonzero(scores[:, label] > test["score_thr"])]
        found += suppress(rows, test["nms_thr"], len(rows), len(rows))
    return sorted(found, key=lambda row: -row[1])[: test["max_num"]]


# ---- CenterPoint ----------------------------------------------------------------------------------------------------


def center_boxes(maps, task, grid, turned=False):
    """[H * W, 7 or 9]. `grid`: the minimum of x and y, and the side of a cell."""
    height, width = maps["heatmap"].shape[:2]
    part = lambda name, count: maps[name][..., count * task : count * (task + 1)].reshape(height * width, count)
    rows, columns = np.divmod(np.arange(height * width), width)
    center, rot = part("center", 2).astype(float), part("rot", 2).astype(float)
    x = (columns + center[:, 0]) * grid[2] + grid[0]
    y = (rows + center[:, 1]) * grid[2] + grid[1]
    heading = np.arctan2(*(rot.T if turned else rot.T[::-1]))
    boxes = [x[:, None], y[:, None], part("height", 1), np.exp(part("dim", 3).astype(float)), heading[:, None]]
    return np.concatenate(boxes + ([part("vel", 2)] if "vel" in maps else []), axis=1)


def rectified_centers(maps, tasks, grid, head):
    """OpenPCDet's CenterHead with USE_IOU_TO_RECTIFY_SCORE; `head` is its POST_PROCESSING, with an IOU_RECTIFIER per
    label."""
    low, high = np.split(np.array(head["POST_CENTER_LIMIT_RANGE"]), 2)
    nms, found, first = head["NMS_CONFIG"], [], 0
    for task, classes in enumerate(tasks):
        boxes = center_boxes(maps, task, grid)
        scores = sigmoid(maps["heatmap"][..., first : first + classes]).reshape(-1, classes).T.reshape(-1)
        overlaps = np.clip((maps["iou"][..., task].reshape(-1).astype(float) + 1) / 2, 0, 1)
        rows = []
        for i in np.argsort(-scores, kind="stable")[: head["MAX_OBJ_PER_SAMPLE"]]:
            label, cell = divmod(int(i), len(boxes))
            box, power = boxes[cell], head["IOU_RECTIFIER"][first + label]
            if scores[i] > head["SCORE_THRESH"] and (low <= box[:3]).all() and (box[:3] <= high).all():
                rows.append((box, scores[i] ** (1 - power) * overlaps[cell] ** power, first + label))
        found += suppress(rows, nms["NMS_THRESH"], nms["NMS_PRE_MAXSIZE"], nms["NMS_POST_MAXSIZE"])
        first += classes
    return found


def scaled_centers(maps, tasks, grid, test):
    """CenterHead of det3d's branch with predicted overlaps; `test` is its test_cfg, `iou` is the overlap itself. The
    maps are in voxeld's convention: headings are det3d's -r - pi / 2, and sizes begin with the length."""
    low, high = np.split(np.array(test["post_center_limit_range"]), 2)
    nms, found, first = test["nms"], [], 0
    for task, classes in enumerate(tasks):
        boxes = center_boxes(maps, task, grid, turned=True)
        scores = sigmoid(maps["heatmap"][..., first : first + classes]).reshape(-1, classes)
        scores *= np.clip(maps["iou"][..., task].reshape(-1, 1).astype(float), 0, 1) ** test["cf_weight"]
        inside = ((low <= boxes[:, :3]) & (boxes[:, :3] <= high)).all(1)
        best = scores.argmax(1)
        rows = [
            (boxes[cell], scores[cell, best[cell]], first + int(best[cell]))
            for cell in np.flatnonzero(inside & (scores.max(1) > test["score_threshold"]))
        ]
        found += suppress(rows, nms["nms_iou_threshold"], nms["nms_pre_max_size"], nms["nms_post_max_size"])
        first += classes
    return found
