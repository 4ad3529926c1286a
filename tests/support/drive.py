"""A drive through a simulated street (voxel-scan --traffic): the sensor and the things on the street move."""

import csv
import io
import subprocess
import tempfile

import numpy as np

from daemon import SCAN

SPEEDS = {"Car": 8.0, "Pedestrian": 1.4, "Cyclist": 4.0}  # metres per second, along the heading
EGO = 6.0  # the speed of the sensor, along x
MARGIN = 0.1  # metres: points so near to a box move with the box
REACH = 45.0  # metres from the sensor to boxes that a model can find


class Thing:
    def __init__(self, row):
        self.name, self.points = row.pop("class"), int(row.pop("points"))
        self.box = np.array([float(value) for value in row.values()])
        self.velocity = SPEEDS[self.name] * np.array([np.cos(self.box[6]), np.sin(self.box[6])])


def street(seed):
    """The points [N,4] of a street, and its things."""
    with tempfile.NamedTemporaryFile() as labels:
        command = [SCAN, "--traffic", "--seed", str(seed), "--labels", labels.name]
        scan = subprocess.run(command, check=True, capture_output=True).stdout
        rows = csv.DictReader(io.StringIO(labels.read().decode()))
        return np.frombuffer(scan, "<f4").reshape(-1, 4), [Thing(row) for row in rows]


def owners(points, things):
    """For each point, the number of the thing that it is on, or -1."""
    owner = np.full(len(points), -1)
    for number, thing in enumerate(things):
        moved, box = points[:, :3] - thing.box[:3], thing.box
        ahead = moved[:, 0] * np.cos(box[6]) + moved[:, 1] * np.sin(box[6])
        left = moved[:, 1] * np.cos(box[6]) - moved[:, 0] * np.sin(box[6])
        half = box[3:6] / 2 + MARGIN
        inside = (abs(ahead) <= half[0]) & (abs(left) <= half[1]) & (abs(moved[:, 2]) <= half[2])
        owner[inside] = number
    return owner


def drive(seed, sweeps, step=0.1):
    """Yields (time, pose as 7 numbers, points, x and y of each thing's centre), in the frame of the sensor."""
    points, things = street(seed)
    owner = owners(points, things)
    velocities = np.array([thing.velocity for thing in things] + [[0, 0]])  # the last: of points on no thing
    centres = np.array([thing.box[:2] for thing in things])
    for number in range(sweeps):
        time = number * step
        moved = points.copy()
        moved[:, :2] += (velocities[owner] - [EGO, 0]) * time
        yield 100 + time, [EGO * time, 0, 0, 1, 0, 0, 0], moved, centres + (velocities[:-1] - [EGO, 0]) * time
