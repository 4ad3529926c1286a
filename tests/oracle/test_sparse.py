"""Sparse convolution gives numpy's bits. kernels/cpu/sparse is loaded as a library. It has ways to convolve for several
instruction sets; each way that this processor can run is tested."""

import ctypes
import os
import unittest

import numpy as np

import sparse
from daemon import ROOT
from sparse import Layer

LIBRARY = os.environ.get("VOXELD_SPARSE_LIBRARY", str(ROOT / "build" / "tests" / "libsparse.so"))
MOST_LAYERS, MOST_LEVELS, ERROR_TEXT = 32, 8, 640
REFUSED = 1
FLOATS, INTS = ctypes.POINTER(ctypes.c_float), ctypes.POINTER(ctypes.c_int32)
THREE = ctypes.c_int32 * 3


class CLayer(ctypes.Structure):
    _fields_ = [
        ("weight", FLOATS),
        ("bias", FLOATS),
        ("inputs", ctypes.c_int32),
        ("width", ctypes.c_int32),
        ("kernel", THREE),
        ("stride", THREE),
        ("padding", THREE),
        ("submanifold", ctypes.c_bool),
        ("adds", ctypes.c_bool),
    ]


class CBackbone(ctypes.Structure):
    _fields_ = [("shape", THREE), ("num_layers", ctypes.c_int32), ("layers", CLayer * MOST_LAYERS)]


class CRows(ctypes.Structure):
    _fields_ = [
        ("num_clouds", ctypes.c_int32),
        ("num_rows", ctypes.c_int32),
        ("coords", INTS),
        ("features", FLOATS),
        ("max_rows", ctypes.c_int64),
    ]


class CResult(ctypes.Structure):
    _fields_ = [
        ("map", FLOATS),
        ("level_rows", ctypes.c_int64 * MOST_LEVELS),
        ("coords", INTS),
        ("features", FLOATS),
    ]


def floats(array):
    return array.ctypes.data_as(FLOATS)


def c_backbone(shape, layers):
    backbone = CBackbone(THREE(*shape), len(layers))
    for i, layer in enumerate(layers):
        backbone.layers[i] = CLayer(
            floats(layer.weight),
            floats(layer.bias),
            *layer.weight.shape[1:],
            THREE(*layer.kernel),
            THREE(*layer.stride),
            THREE(*layer.padding),
            layer.submanifold,
            layer.adds,
        )
    return backbone


class Library:
    def __init__(self):
        self.library = ctypes.CDLL(LIBRARY)
        self.library.sparse_way.restype = ctypes.c_char_p

    def ways(self):
        """The numbers of the ways that run here, by name."""
        runs, number, found = ctypes.c_int(), 0, {}
        while name := self.library.sparse_way(number, ctypes.byref(runs)):
            if runs.value:
                found[name.decode()] = number
            number += 1
        return found

    def run(self, way, shape, layers, clouds, coords, features, like, most=1 << 27):
        """Status, error, map and rows of each level."""
        text = ctypes.create_string_buffer(ERROR_TEXT)
        found = np.full(like, np.nan, np.float32)
        coords, features = np.ascontiguousarray(coords), np.ascontiguousarray(features)
        result = self.result = CResult(floats(found))
        rows = CRows(clouds, len(coords), coords.ctypes.data_as(INTS), floats(features), most)
        status = self.library.sparse_run(
            way,
            ctypes.byref(c_backbone(shape, layers)),
            ctypes.byref(rows),
            ctypes.byref(result),
            text,
        )
        return status, text.value.decode(), found, list(result.level_rows)

    def last_level(self, rows, width):
        """Cells and features of the last level's rows, after the last run."""
        coords = np.ctypeslib.as_array(self.result.coords, (rows, 4))
        return coords.copy(), np.ctypeslib.as_array(self.result.features, (rows, width)).copy()

    def fuse(self, a, b, c):
        result = np.empty_like(a)
        self.library.sparse_fuse(floats(a), floats(b), floats(c), ctypes.c_int64(len(a)), floats(result))
        return result


def layer_of(random, inputs, width, kernel=(3, 3, 3), scale=1, **more):
    offsets = int(np.prod(kernel))
    weight = random.normal(0, scale / np.sqrt(offsets * inputs / 4), (offsets, inputs, width)).astype(np.float32)
    weight[random.random(weight.shape) < 0.05] = 0
    more.setdefault("padding", tuple((k - 1) // 2 for k in kernel))
    return Layer(weight, random.normal(0, scale, width).astype(np.float32), kernel, **more)


def down(random, inputs, width, padding=(1, 1, 1), kernel=(3, 3, 3), stride=(2, 2, 2)):
    return layer_of(random, inputs, width, kernel, stride=stride, padding=padding, submanifold=False)


def plain(random, columns=4):
    """A plain backbone of few channels, with four levels."""
    return [
        layer_of(random, columns, 16),
        layer_of(random, 16, 16),
        down(random, 16, 32),
        layer_of(random, 32, 32),
        down(random, 32, 48, (0, 1, 1)),
        layer_of(random, 48, 48),
        down(random, 48, 16, (0, 0, 0), (3, 1, 1), (2, 1, 1)),
    ]


def residual(random, columns=5):
    return [
        layer_of(random, columns, 16),
        layer_of(random, 16, 16),
        layer_of(random, 16, 16, adds=True),
        layer_of(random, 16, 16),
        layer_of(random, 16, 16, adds=True),
        down(random, 16, 64),
        layer_of(random, 64, 64),
        layer_of(random, 64, 64, adds=True),
        down(random, 64, 128, (0, 0, 0), (3, 1, 1), (2, 1, 1)),
    ]


def random_cells(random, shape, clouds, count):
    cells = int(np.prod(shape)) * clouds
    flat = random.choice(cells, min(count, cells), replace=False)
    return np.stack(np.unravel_index(flat, (clouds, *shape)), axis=1).astype(np.int32)


def solid_cells(shape):
    return np.stack(np.unravel_index(np.arange(np.prod(shape)), (1, *shape)), axis=1).astype(np.int32)


def features_of(random, count, columns, scale=1):
    values = np.clip(random.normal(0, scale, (count, columns)), -3e38, 3e38).astype(np.float32)
    odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-42, -1e-45, 3e38], np.float32)
    chosen = random.random(values.shape) < 0.01
    values[chosen] = random.choice(odd, int(chosen.sum()))
    return values


class Sparse(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = Library()
        cls.ways = cls.library.ways()

    def check(self, shape, layers, clouds, coords, features):
        last, cells, rows, counts = sparse.last_level(shape, layers, coords, features)
        expected = sparse.dense_map(last, clouds, cells, rows)
        for name, way in self.ways.items():
            with self.subTest(way=name):
                status, error, found, levels = self.library.run(
                    way, shape, layers, clouds, coords, features, expected.shape
                )
                self.assertEqual((status, error), (0, ""))
                self.assertEqual(levels[: len(counts)], counts)
                np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))
                found_cells, found_rows = self.library.last_level(*rows.shape)
                np.testing.assert_array_equal(found_cells, cells)
                np.testing.assert_array_equal(found_rows.view(np.uint32), rows.view(np.uint32))
        return expected, counts

    def check_cells(self, shape, coords, make=plain, seed=1, scale=1):
        random = np.random.default_rng(seed)
        layers = make(random)
        columns = layers[0].weight.shape[1]
        clouds = int(coords[:, 0].max(initial=0)) + 1
        return self.check(shape, layers, clouds, coords, features_of(random, len(coords), columns, scale))

    def test_random_clouds(self):
        for seed, (shape, clouds, count) in enumerate(
            [((17, 40, 41), 1, 100), ((18, 31, 95), 3, 90), ((13, 13, 64), 2, 200)]
        ):
            for make in (plain, residual):
                with self.subTest(shape=shape, make=make.__name__):
                    coords = random_cells(np.random.default_rng(seed), shape, clouds, count)
                    self.check_cells(shape, coords, make, seed)

    def test_scales(self):
        coords = random_cells(np.random.default_rng(9), (13, 20, 20), 1, 50)
        for scale in (1e-42, 1e10, 1e38):
            with self.subTest(scale=scale):
                self.check_cells((13, 20, 20), coords, residual, 9, scale)

    def test_no_rows_and_one(self):
        none = np.zeros((0, 4), np.int32)
        for make in (plain, residual):
            dense, counts = self.check_cells((13, 20, 33), none, make)
            self.assertFalse(dense.any())
            self.assertFalse(any(counts))
            for cell in ([0, 6, 10, 16], [0, 0, 0, 0], [0, 12, 19, 32], [0, 5, 19, 31]):
                self.check_cells((13, 20, 33), np.array([cell], np.int32), make)

    def test_solid_grids(self):
        for shape in ((13, 6, 5), (14, 2, 33), (13, 4, 1)):
            self.check_cells(shape, solid_cells(shape))

    def test_borders(self):
        shape = (14, 9, 32)
        cells = solid_cells(shape)
        faces = [cells[:, axis + 1] == end for axis in range(3) for end in (0, shape[axis] - 1)]
        for face in faces[:4]:
            self.check_cells(shape, cells[face][::3])
        for face in faces[4:]:
            self.check_cells(shape, cells[face])

    def test_edges_of_words(self):
        """Cells at the ends of a level's words of 32 cells, in grids whose widths are near multiples of 32."""
        for width in (29, 30, 31, 32, 33, 62, 63, 64):
            cells = solid_cells((3, 3, width))
            near = [0, 1, 29, 30, 31, 32, 33, 61, 62, 63, 64, width - 2, width - 1]
            self.check_cells((3, 3, width), cells[np.isin(cells[:, 3], near)], lambda random: [
                layer_of(random, 4, 16), down(random, 16, 16)
            ])

    def test_kernels_and_strides(self):
        """Every kernel, stride and padding along x and y, with strides that lose cells."""
        shape = (4, 9, 36)
        coords = random_cells(np.random.default_rng(3), shape, 2, 250)
        for kernel in (1, 2, 3):
            for stride in (1, 2):
                for padding in (0, 1):
                    with self.subTest(kernel=kernel, stride=stride, padding=padding):
                        sizes = ((1, kernel, 3), (1, stride, 2), (0, padding, 1))
                        turned = ((1, 3, kernel), (2, 2, stride), (0, 1, padding))
                        for size, step, pad in (sizes, turned):
                            layers = lambda random: [
                                down(random, 4, 16, pad, size, step),
                                layer_of(random, 16, 16, (3, 1, 3)),
                                layer_of(random, 16, 32, (1, 1, 1)),
                                layer_of(random, 32, 16, (1, 3, 1)),
                            ]
                            self.check_cells(shape, coords, layers)

    def test_strides_that_lose_all(self):
        lost = lambda random: [layer_of(random, 4, 16), down(random, 16, 16, (0, 0, 0), (1, 1, 1))]
        coords = np.array([[0, 1, 1, 1], [0, 3, 5, 7]], np.int32)
        dense, counts = self.check_cells((5, 7, 9), coords, lost)
        self.assertEqual(counts, [2, 0])
        self.assertFalse(dense.any())

    def test_more_rows_than_a_block(self):
        self.check_cells((13, 24, 24), random_cells(np.random.default_rng(5), (13, 24, 24), 1, 900))

    def test_order_and_batches(self):
        """A cloud gives the same bits alone, in a batch, in another order, and in a second run."""
        random = np.random.default_rng(4)
        shape, layers = (17, 30, 30), residual(random)
        clouds = [random_cells(random, shape, 1, count) for count in (150, 0, 1, 40, 300)]
        features = [features_of(random, len(cloud), 5) for cloud in clouds]
        like = sparse.backbone(shape, layers, 1, clouds[0][:0], features[0][:0])[0].shape[1:]
        joined = np.concatenate([cloud + [i, 0, 0, 0] for i, cloud in enumerate(clouds)]).astype(np.int32)
        values = np.concatenate(features)
        order = random.permutation(len(joined))
        for name, way in self.ways.items():
            run = lambda n, at, of: self.library.run(way, shape, layers, n, at, of, (n, *like))[2].view(np.uint32)
            together = run(len(clouds), joined, values)
            np.testing.assert_array_equal(run(len(clouds), joined[order].copy(), values[order].copy()), together, name)
            for i, cloud in enumerate(clouds):
                np.testing.assert_array_equal(run(1, cloud, features[i])[0], together[i], name)
            for _ in range(3):
                np.testing.assert_array_equal(run(len(clouds), joined, values), together, name)

    def test_refusals(self):
        random = np.random.default_rng(6)
        shape, layers = (17, 20, 20), plain(random)
        coords = random_cells(random, shape, 1, 200)
        features = features_of(random, 200, 4)
        _, counts = sparse.backbone(shape, layers, 1, coords, features)
        self.assertGreater(counts[1], counts[0])

        def refused(reason, at=coords, most=1 << 27, of=layers):
            status, error, _, _ = self.library.run(0, shape, of, 1, at, features, (1, 16, 9, 9), most)
            self.assertEqual((status, error), (REFUSED, reason))

        refused(f"level 1 of the backbone has {counts[1]} rows; the most is {counts[1] - 1}", most=counts[1] - 1)
        refused("level 0 of the backbone has 200 rows; the most is 199", most=199)
        outside = coords.copy()
        outside[7] = [0, 17, 3, 4]
        refused("row 7 is at (17, 3, 4) of cloud 0, which is outside of the grid", outside)
        twice = coords.copy()
        twice[9] = twice[3]
        refused("several rows have the same cell", twice)
        refused("layer 1 of the backbone takes 32 channels; it gets 16, and a layer takes 1 to 128", of=[
            layers[0], layer_of(random, 32, 16)
        ])

    def test_fused_steps(self):
        """fma without the instruction: random bits, and sums near the middle of two float32."""
        random = np.random.default_rng(8)
        bits = lambda: random.integers(0, 1 << 32, 300000, dtype=np.uint32).view(np.float32)
        a, b = bits(), bits()
        with np.errstate(all="ignore"):
            scales = random.choice([-1, 1, 2**24, 2**-24, 2**25], len(a))
            near = (a.astype(np.float64) * b * scales).astype(np.float32)
        tiny = (random.integers(-9, 9, len(a)) * 2.0**-149).astype(np.float32)
        for x, y, c in ((a, b, bits()), (a, b, near), (a, b, tiny), (tiny, near, tiny), (1 + tiny * 2**126, b, near)):
            x, y, c = (np.ascontiguousarray(values, np.float32) for values in (x, y, c))
            found, expected = self.library.fuse(x, y, c), sparse.fused(x, y, c)
            same = (found.view(np.uint32) == expected.view(np.uint32)) | (np.isnan(found) & np.isnan(expected))
            self.assertTrue(same.all(), [v[~same][:4] for v in (x, y, c, found, expected)])


if __name__ == "__main__":
    unittest.main()
