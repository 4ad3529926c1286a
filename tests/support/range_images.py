"""The oracle of range images: numpy, written from the definition alone, in the types of the definition. `points` may
come from a chain of steps (steps.run); then the caller sets the x of each dropped row to NaN."""

import math
from typing import NamedTuple

import numpy as np

from boxes import ATAN, horner

TENSORS = ("range_image", "range_indices", "range_mask", "point_pixels", "point_ranges", "pixel_coords")
TENSORS = (*TENSORS, "point_pixel_rows")
NAN = np.uint32(0x7FC00000).view(np.float32)


class View(NamedTuple):
    height: int
    width: int
    fov_up: float = 3.0
    fov_down: float = -25.0
    rows: str = "elevation"
    ring: object = "kitti"  # or the number of a column
    outside: str = "clamp"
    winner: str = "nearest"
    channels: tuple = ("range", 0, 1, 2)  # "range", or numbers of columns
    means: tuple = ()
    stds: tuple = ()
    empty: float = -1.0


def atan2(y, x):
    """The arguments must be finite float64."""
    across, up = np.abs(x), np.abs(y)
    least, most = np.minimum(across, up), np.maximum(across, up)
    u = np.divide(least, most, out=np.zeros_like(most), where=most > 0)
    for _ in range(3):
        u = u / (1 + np.sqrt(1 + u * u))
    z = u * u
    angle = 8 * (u + (u * z) * horner(ATAN, z))
    angle = np.where(up > across, math.pi / 2 - angle, angle)
    angle = np.where(x < 0, math.pi - angle, angle)
    return np.where(y < 0, -angle, angle)


def kitti_rings(body, counts):
    """For each row, how many turns of the sensor began in its cloud before or at this row."""
    rings, begin = np.zeros(len(body), np.int64), 0
    for count in counts:
        x, y = body[begin : begin + count, 0], body[begin : begin + count, 1]
        turns = (y[:-1] < 0) & (y[1:] >= 0) & (x[1:] > 0)
        rings[begin + 1 : begin + count] = np.cumsum(turns)
        begin += count
    return rings


def rows_of(view, xyz, body, points, finite, counts):
    """The row of each point in the image; -1 outside."""
    if view.rows != "elevation":
        values = kitti_rings(body, counts) if view.ring == "kitti" else points[:, view.ring].astype(np.float64)
        there = (values >= 0) & (values < view.height) & (values == np.floor(values))
        rings = np.where(there, values, 0).astype(np.int64)
        return np.where(there, view.height - 1 - rings if view.rows == "ring" else rings, -1)
    x, y, z = xyz.T
    up, down = view.fov_up * (math.pi / 180), view.fov_down * (math.pi / 180)
    row = np.floor((up - atan2(z, np.sqrt(x * x + y * y))) / (up - down) * view.height)
    within = np.clip(row, 0, view.height - 1)
    inside = np.full(len(row), True) if view.outside == "clamp" else within == row
    return np.where(inside & finite, within, -1).astype(np.int64)


def winners_of(view, pixels, distances, inside):
    """The row of the point that each pixel keeps, in the order of the pixels."""
    rows = np.flatnonzero(inside)
    order = {
        "nearest": lambda: np.lexsort((rows, distances[rows])),
        "farthest": lambda: np.lexsort((rows, -distances[rows])),
        "first": lambda: np.arange(len(rows)),
        "last": lambda: np.arange(len(rows))[::-1],
    }[view.winner]()
    rows = rows[order]
    _, first = np.unique(pixels[rows], return_index=True)
    return rows[first]


def image_of(view, points, distances, winners, pixels, clouds):
    image = np.full((clouds * view.height * view.width, len(view.channels)), np.float32(view.empty))
    if view.means:
        image[:] = 0
    for i, channel in enumerate(view.channels):
        values = distances[winners] if channel == "range" else points[winners, channel]
        if view.means:
            values = (values - np.float32(view.means[i])) / np.float32(view.stds[i])
            values = np.where(np.isnan(values), NAN, values)
        image[pixels[winners], i] = values
    image = image.reshape(clouds, view.height, view.width, len(view.channels))
    return np.ascontiguousarray(image.transpose(0, 3, 1, 2))


@np.errstate(all="ignore")
def run(view, points, counts, body=None):
    """(tensors, counts of the fates). `points`: float32. `body`: the points before the steps."""
    body = points if body is None else body
    finite = np.isfinite(points[:, :3]).all(axis=1)
    near = np.where(finite[:, None], points[:, :3], np.float32(0))
    squares = near * near
    distances = np.sqrt((squares[:, 0] + squares[:, 1]) + squares[:, 2])
    xyz = near.astype(np.float64)
    row = rows_of(view, xyz, body, points, finite, counts)
    column = np.floor((0.5 - atan2(xyz[:, 1], xyz[:, 0]) / (2 * math.pi)) * view.width)
    column = np.where(column < view.width, column, 0).astype(np.int64)
    inside = finite & (row >= 0)
    clouds = np.repeat(np.arange(len(counts)), counts)
    pixels = np.where(inside, (clouds * view.height + row) * view.width + column, -1)
    winners = winners_of(view, pixels, distances, inside)
    shape = (len(counts), view.height, view.width)
    indices = np.full(math.prod(shape), -1, np.int32)
    indices[pixels[winners]] = winners
    filled = np.flatnonzero(indices >= 0)
    numbers = np.full(math.prod(shape) + 1, -1, np.int32)  # the last entry serves pixel -1
    numbers[filled] = np.arange(len(filled))
    tensors = {
        "range_image": image_of(view, points, distances, winners, pixels, len(counts)),
        "range_indices": indices.reshape(shape),
        "range_mask": (indices >= 0).astype(np.uint8).reshape(shape),
        "point_pixels": np.where(inside[:, None], np.stack([row, column], 1), -1).astype(np.int32),
        "point_ranges": np.where(inside, distances, np.float32(-1)),
        "pixel_coords": np.stack(np.unravel_index(filled, shape), 1).astype(np.int32),
        "point_pixel_rows": numbers[pixels],
    }
    fates = {
        "kept": len(winners),
        "not_finite": int((~finite).sum()),
        "occluded": int(inside.sum()) - len(winners),
        "outside_image": int((finite & ~inside).sum()),
    }
    return tensors, fates
