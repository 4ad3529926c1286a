"""Anchors, targets and the loss, by OpenPCDet's rules, and boxes out of maps."""

import math

import torch
from torch.nn import functional

LOC_WEIGHT, DIR_WEIGHT = 2.0, 0.2
ALPHA, BETA = 0.25, 1 / 9  # of the focal loss; of the smooth loss of boxes
MOST_CANDIDATES = 500


class Anchors:
    """A box for each cell, size and rotation. `boxes` [H * W * A, 7], `classes` [H * W * A]."""

    def __init__(self, config, bounds, device):
        head = config["MODEL"]["DENSE_HEAD"]
        groups = head["ANCHOR_GENERATOR_CONFIG"]
        stride = groups[0]["feature_map_stride"]
        size = config["DATA_CONFIG"]["DATA_PROCESSOR"][-1]["VOXEL_SIZE"]
        nx, ny = (round((bounds[3 + a] - bounds[a]) / size[a]) // stride for a in range(2))
        steps = [(bounds[3 + a] - bounds[a]) / n for a, n in enumerate((nx, ny))]
        xs, ys = (bounds[a] + (torch.arange(n) + 0.5) * steps[a] for a, n in enumerate((nx, ny)))
        kinds = [
            (*dims, bottom + dims[2] / 2, turn)
            for group in groups
            for dims, bottom in zip(group["anchor_sizes"], group["anchor_bottom_heights"])
            for turn in group["anchor_rotations"]
        ]
        boxes = torch.zeros(ny, nx, len(kinds), 7)
        boxes[..., 0], boxes[..., 1] = xs[None, :, None], ys[:, None, None]
        boxes[..., 2:] = torch.tensor([[z, dx, dy, dz, turn] for dx, dy, dz, z, turn in kinds])
        turns = len(groups[0]["anchor_rotations"])
        self.boxes = boxes.view(-1, 7).to(device)
        self.upright = upright(self.boxes)
        self.classes = (torch.arange(len(kinds)) // turns).repeat(ny * nx).to(device)
        self.thresholds = [(group["matched_threshold"], group["unmatched_threshold"]) for group in groups]
        self.dir_offset, self.dir_bins = head["DIR_OFFSET"], head["NUM_DIR_BINS"]


def upright(boxes):
    """[x0, y0, x1, y1] of the boxes, turned to the nearest multiple of 90 degrees."""
    turned = (torch.remainder(boxes[:, 6] + math.pi / 4, math.pi) >= math.pi / 2)[:, None]
    half = torch.where(turned, boxes[:, [4, 3]], boxes[:, [3, 4]]) / 2
    return torch.cat((boxes[:, :2] - half, boxes[:, :2] + half), 1)


def overlaps(a, b):
    """Intersection over union, [len(a), len(b)]."""
    low, high = torch.maximum(a[:, None, :2], b[None, :, :2]), torch.minimum(a[:, None, 2:], b[None, :, 2:])
    shared = (high - low).clamp(min=0).prod(2)
    area = [(part[:, 2:] - part[:, :2]).prod(1) for part in (a, b)]
    return shared / (area[0][:, None] + area[1][None] - shared)


def assign(anchors, scene):
    """For each anchor its class + 1 (0: none, -1: not counted), and the number of its box."""
    labels = torch.zeros(len(anchors.boxes), dtype=torch.long, device=anchors.boxes.device)
    owners = torch.zeros_like(labels)
    for kind, (matched, unmatched) in enumerate(anchors.thresholds):
        members = torch.nonzero(anchors.classes == kind).squeeze(1)
        mine = torch.nonzero(scene.labels == kind).squeeze(1)
        if len(mine) == 0:
            continue
        shared = overlaps(anchors.upright[members], upright(scene.boxes[mine]))
        best, owner = shared.max(1)
        marks = torch.where(best < unmatched, 0, torch.where(best < matched, -1, kind + 1))
        most = shared.amax(0)
        forced, which = torch.nonzero((shared == most) & (most > 0), as_tuple=True)  # each box gets its best anchors
        marks[forced], owner[forced] = kind + 1, which
        marks[(marks > 0) & ~scene.seen[mine][owner]] = -1  # few points: counts neither way
        labels[members], owners[members] = marks, mine[owner]
    return labels, owners


def encode(boxes, anchors):
    diagonal = anchors[:, 3:5].norm(dim=1, keepdim=True)
    move = (boxes[:, :2] - anchors[:, :2]) / diagonal
    lift = (boxes[:, 2:3] - anchors[:, 2:3]) / anchors[:, 5:6]
    return torch.cat((move, lift, torch.log(boxes[:, 3:6] / anchors[:, 3:6]), boxes[:, 6:] - anchors[:, 6:]), 1)


def decode(values, anchors):
    diagonal = anchors[:, 3:5].norm(dim=1, keepdim=True)
    move = values[:, :2] * diagonal + anchors[:, :2]
    lift = values[:, 2:3] * anchors[:, 5:6] + anchors[:, 2:3]
    return torch.cat((move, lift, values[:, 3:6].exp() * anchors[:, 3:6], values[:, 6:] + anchors[:, 6:]), 1)


def loss_of(maps, anchors, scenes):
    """The loss of a batch, and its three parts."""
    total = torch.zeros(3, device=anchors.boxes.device)
    classes = len(anchors.thresholds)
    for number, scene in enumerate(scenes):
        logits, boxes, directions = (part[number].float() for part in maps)
        labels, owners = assign(anchors, scene)
        found = torch.nonzero(labels > 0).squeeze(1)
        share = 1 / max(1, len(found))
        total[0] += focal(logits.reshape(-1, classes), labels) * share
        if len(found) == 0:
            continue
        chosen, truth = anchors.boxes[found], scene.boxes[owners[found]]
        target, guess = encode(truth, chosen), boxes.reshape(-1, 7)[found]
        turn = torch.sin(guess[:, 6:] - target[:, 6:])  # the same for a heading and its reverse
        error = torch.cat((guess[:, :6] - target[:, :6], turn), 1).abs()
        smooth = torch.where(error < BETA, error * error / (2 * BETA), error - BETA / 2)
        total[1] += smooth.sum() * share * LOC_WEIGHT
        period = 2 * math.pi / anchors.dir_bins
        bins = (torch.remainder(truth[:, 6] - anchors.dir_offset, 2 * math.pi) / period).long()
        bins = bins.clamp(max=anchors.dir_bins - 1)
        guesses = directions.reshape(-1, anchors.dir_bins)[found]
        total[2] += functional.cross_entropy(guesses, bins, reduction="sum") * share * DIR_WEIGHT
    return total.sum() / len(scenes), total.detach() / len(scenes)


def focal(logits, labels):
    counted = labels >= 0
    target = functional.one_hot(labels.clamp(min=0), logits.shape[1] + 1)[:, 1:].float()
    score = torch.sigmoid(logits)
    weight = torch.where(target > 0, ALPHA * (1 - score) ** 2, (1 - ALPHA) * score**2)
    entropy = functional.binary_cross_entropy_with_logits(logits, target, reduction="none")
    return (weight * entropy)[counted].sum()


def boxes_of(maps, anchors, threshold):
    """Boxes [n, 7], scores and labels of one cloud, the best first. Drops boxes near a better one."""
    logits, boxes, _ = (part[0].float() for part in maps)
    scores, labels = torch.sigmoid(logits.reshape(-1, len(anchors.thresholds))).max(1)
    order = torch.argsort(scores, descending=True)[:MOST_CANDIDATES]
    order = order[scores[order] >= threshold]
    found = decode(boxes.reshape(-1, 7)[order], anchors.boxes[order])
    labels, reach = labels[order], torch.minimum(found[:, 3], found[:, 4]) / 2
    near = torch.cdist(found[:, :2], found[:, :2]) < torch.maximum(reach[:, None], reach[None])
    near, kept = near.cpu().numpy(), []
    for i in range(len(order)):
        if not near[i, kept].any():
            kept.append(i)
    return found[kept], scores[order][kept], labels[kept]
