"""The encoder of pillars in numpy, by the rules in kernels/encode.h: float32, one operation at a time."""

import numpy as np


def encode(features, num_points, *layers):
    """features [V,P,C], num_points [V], layers (weight [C,D], bias [D]). Returns [V, width of the last layer]."""
    voxels, cap, _ = features.shape
    padding = np.arange(cap) >= num_points[:, None]
    rows = np.where(padding[:, :, None], np.float32(0), features)
    with np.errstate(all="ignore"):
        for weight, bias in layers:
            values = np.broadcast_to(bias, (voxels, cap, len(bias)))
            for c in range(len(weight)):
                values = values + rows[:, :, c, None] * weight[c]
            values = np.where(values > 0, values, np.float32(0))
            largest = values.max(axis=1)
            rows = np.concatenate([values, np.repeat(largest[:, None], cap, axis=1)], axis=2)
    return largest
