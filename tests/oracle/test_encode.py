"""Every bit of the encoder of pillars, against numpy: kernels/cpu/encode, loaded as a library, encodes one pillar at a
time."""

import ctypes
import os
import unittest

import numpy as np

from daemon import ROOT
from encoding import encode

LIBRARY = os.environ.get("VOXELD_ENCODE_LIBRARY", str(ROOT / "build" / "tests" / "libencode.so"))
MOST_LAYERS = 4
FLOATS = ctypes.POINTER(ctypes.c_float)


class Layer(ctypes.Structure):
    _fields_ = [("weight", FLOATS), ("bias", FLOATS), ("inputs", ctypes.c_int32), ("width", ctypes.c_int32)]


class Encoder(ctypes.Structure):
    _fields_ = [("num_layers", ctypes.c_int32), ("layers", Layer * MOST_LAYERS)]


class Stop(ctypes.Structure):
    """All zeros: never stops."""

    _fields_ = [
        ("stopped", ctypes.c_void_p),
        ("cls", ctypes.c_void_p),
        ("rows", ctypes.c_int64),
        ("has_stopped", ctypes.c_bool),
    ]


def floats(array):
    return array.ctypes.data_as(FLOATS)


def encode_by_library(library, features, num_points, layers):
    """The result of cpu_encode for each pillar; the padding is one row of zeros."""
    encoder = Encoder(len(layers))
    for i, (weight, bias) in enumerate(layers):
        encoder.layers[i] = Layer(floats(weight), floats(bias), *weight.shape)
    cap = features.shape[1]
    room = library.cpu_encode_room(ctypes.byref(encoder))
    out = np.full((len(features), layers[-1][0].shape[1]), np.nan, np.float32)
    stop = Stop()
    for i, count in enumerate(num_points):
        rows = np.zeros((2, (cap + 1) * room), np.float32)
        rows[0, : count * features.shape[2]] = features[i, :count].ravel()
        library.cpu_encode(
            ctypes.byref(encoder),
            ctypes.byref(stop),
            floats(rows[0]),
            floats(rows[1]),
            int(count + (count < cap)),
            floats(out[i]),
        )
    return out


class Encode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = ctypes.CDLL(LIBRARY)

    def check(self, seed, columns, widths, scale):
        random = np.random.default_rng(seed)
        cap = int(random.integers(1, 21))
        num_points = random.integers(1, cap + 1, 60)
        features = np.clip(random.normal(0, scale, (60, cap, columns + 6)), -3e38, 3e38).astype(np.float32)
        features[random.random(features.shape) < 0.002] = np.nan
        features[random.random(features.shape) < 0.002] = np.inf
        features[np.arange(cap) >= num_points[:, None]] = 0
        layers, inputs = [], columns + 6
        for width in widths:
            weight = random.normal(0, 1, (inputs, width)).astype(np.float32)
            weight[random.random(weight.shape) < 0.1] = 0
            layers.append((weight, random.normal(0, 1, width).astype(np.float32)))
            inputs = 2 * width
        found = encode_by_library(self.library, features, num_points, layers)
        expected = encode(features, num_points, *layers)
        np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))

    def test_every_bit(self):
        shapes = [(4, [64]), (5, [32]), (3, [1]), (4, [15]), (64, [65]), (5, [32, 64]), (4, [7, 20, 33]), (4, [8] * 4)]
        for seed, (columns, widths) in enumerate(shapes):
            for scale in (1, 1e3, 1e-42, 1e38):
                with self.subTest(f"{columns} columns, widths {widths}, scale {scale}"):
                    self.check(seed, columns, widths, scale)


if __name__ == "__main__":
    unittest.main()
