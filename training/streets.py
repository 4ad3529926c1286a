"""Streets with labels, simulated by voxel-scan. Seeds determine them. Needs only numpy."""

import concurrent.futures
import csv
import os
import pathlib
import subprocess
import tempfile
from typing import NamedTuple

import numpy as np

LEAST_POINTS = 5  # on a box that a model should find
UNSEEN = 1_000_000  # first seed of the streets that judge a model; training uses lower ones
BOX = ("x", "y", "z", "dx", "dy", "dz", "heading")


class Street(NamedTuple):
    points: np.ndarray  # [N, 4]: x, y, z, intensity
    boxes: np.ndarray  # [M, 7]
    labels: np.ndarray  # [M]
    seen: np.ndarray  # [M]: enough points are on the box


def simulate(program, seed, classes, sensor="hdl64"):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "labels.csv")
        command = [program, "--traffic", "--sensor", sensor, "--seed", str(seed), "--labels", str(path)]
        scan = subprocess.run(command, check=True, capture_output=True).stdout
        rows = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    return Street(
        np.frombuffer(scan, "<f4").reshape(-1, 4).copy(),
        np.array([[float(row[key]) for key in BOX] for row in rows], np.float32).reshape(-1, 7),
        np.array([classes.index(row["class"]) for row in rows], np.int64),
        np.array([int(row["points"]) >= LEAST_POINTS for row in rows], bool),
    )


def simulate_all(program, seeds, classes):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        yield from pool.map(lambda seed: simulate(program, seed, classes), seeds)
