"""The encoder of pillars in numpy, from the rules of kernels/encode.h alone: float32, one rounded operation at a time."""

import numpy as np


def encode(features, num_points, weight, bias):
    """features [V, P, C] float32, of which each pillar's first num_points rows are points; weight [C, D]; bias [D].

    Gives [V, D]. Rows of padding give ReLU of the bias; a sum that is NaN does not count; every zero is +0.
    """
    voxels, cap, channels = features.shape
    best = np.zeros((voxels, weight.shape[1]), np.float32)
    with np.errstate(all="ignore"):
        for row in range(cap):
            values = np.repeat(bias[None], voxels, axis=0)
            for c in range(channels):
                values = values + features[:, row, c, None] * weight[c]
            padding = (num_points <= row)[:, None]
            values = np.where(padding, bias, values)
            best = np.where(values > best, values, best)
    return best
