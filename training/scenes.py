"""Streets as tensors of torch, and their pillars and voxels. Seeds determine everything."""

import math

import torch

import streets


class Scene:
    def __init__(self, points, boxes, labels, seen):
        self.points = points  # [N, 4]: x, y, z, intensity
        self.boxes = boxes  # [M, 7]: x, y, z, dx, dy, dz, heading
        self.labels = labels  # [M]
        self.seen = seen  # [M]: enough points are on the box

    def to(self, device):
        return Scene(*(part.to(device) for part in (self.points, self.boxes, self.labels, self.seen)))


def simulate(program, seed, classes):
    return Scene(*map(torch.from_numpy, streets.simulate(program, seed, classes)))


def simulate_all(program, seeds, classes, device):
    return [
        Scene(*map(torch.from_numpy, street)).to(device) for street in streets.simulate_all(program, seeds, classes)
    ]


def augmented(scene, random):
    """The scene turned, mirrored, scaled, with other intensities. `random`: numpy's generator."""
    angle, scale = random.uniform(-math.pi, math.pi), random.uniform(0.95, 1.05)
    gain, mirror = random.uniform(0.7, 1.3), random.random() < 0.5
    cosine, sine = math.cos(angle) * scale, math.sin(angle) * scale
    turn = torch.tensor([[cosine, sine], [-sine, cosine]], dtype=torch.float32, device=scene.points.device)
    points, boxes = scene.points.clone(), scene.boxes.clone()
    for rows in (points, boxes):
        rows[:, :2] = rows[:, :2] @ turn
        rows[:, 2] *= scale
        if mirror:
            rows[:, 1] *= -1
    points[:, 3] = (points[:, 3] * gain).clamp(0, 1)
    boxes[:, 3:6] *= scale
    boxes[:, 6] += angle
    if mirror:
        boxes[:, 6] *= -1
    return Scene(points, boxes, scene.labels, scene.seen)


class Pillars:
    """The grid of a configuration, and features as in kernels/voxelize.h."""

    def __init__(self, config):
        data = config["DATA_CONFIG"]
        step = data["DATA_PROCESSOR"][-1]
        self.range, self.size = data["POINT_CLOUD_RANGE"], step["VOXEL_SIZE"]
        self.cap = step["MAX_POINTS_PER_VOXEL"]
        self.cells = [round((self.range[3 + a] - self.range[a]) / self.size[a]) for a in range(3)]

    def of(self, clouds):
        """features [V, P, 10] and cells [V] of clouds [N, 4]."""
        device = clouds[0].device
        points = torch.cat(clouds)
        cloud = torch.repeat_interleave(
            torch.arange(len(clouds), device=device), torch.tensor([len(c) for c in clouds], device=device)
        )
        least, size = (torch.tensor(part, device=device) for part in (self.range[:3], self.size))
        cell = torch.floor((points[:, :3] - least) / size).long()
        inside = ((cell >= 0) & (cell < torch.tensor(self.cells, device=device))).all(1)
        points, cell, cloud = points[inside], cell[inside], cloud[inside]
        nx, ny, nz = self.cells
        keys = ((cloud * nz + cell[:, 2]) * ny + cell[:, 1]) * nx + cell[:, 0]
        keys, order = torch.sort(keys, stable=True)
        cells, voxel, counts = torch.unique_consecutive(keys, return_inverse=True, return_counts=True)
        rank = torch.arange(len(keys), device=device) - (counts.cumsum(0) - counts)[voxel]
        kept = rank < self.cap
        rows = points.new_zeros(len(cells), self.cap, 4)
        rows[voxel[kept], rank[kept]] = points[order[kept]]
        return self._features(rows, counts.clamp(max=self.cap), cells, least, size), cells

    def _features(self, rows, counts, cells, least, size):
        nx, ny, _ = self.cells
        place = torch.stack((cells % nx, cells // nx % ny, torch.zeros_like(cells)), 1)
        mean = rows[:, :, :3].sum(1) / counts[:, None]
        center = place * size + (size / 2 + least)
        features = torch.cat((rows, rows[:, :, :3] - mean[:, None], rows[:, :, :3] - center[:, None]), 2)
        real = torch.arange(self.cap, device=rows.device) < counts[:, None]
        return features * real[:, :, None]


class Means(Pillars):
    """Voxels in place of pillars: features [V, 4] are the means of their points."""

    def _features(self, rows, counts, cells, least, size):
        return rows.sum(1) / counts[:, None]
