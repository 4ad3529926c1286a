"""The Python client against a real daemon: values, forms of points, errors, tokens, TLS, threads, fork, restarts."""

import array
import io
import json
import os
import pathlib
import shutil
import signal
import ssl
import tempfile
import threading
import types
import unittest
import unittest.mock
import warnings
import zlib

import numpy as np

import boxes
import centers
import check
import clouds
import maps
import oracle
import range_images
import samples
import transform
import voxeld
from credentials import Authority, TlsDaemon
from daemon import Daemon, wait_until
from tables import describe, operation_of
from voxeld import encodings
from rude_server import GRID, RudeServer, status_document, token_file, url_of


def random_points(number, seed=1, columns=4):
    return np.random.default_rng(seed).uniform(-9, 9, (number, columns)).astype(np.float32)


def numpy_file(body):
    return np.load(io.BytesIO(body.tobytes()))


class DaemonCase(unittest.TestCase):
    ARGS = ()

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(*cls.ARGS)
        cls.client = voxeld.Client(url_of(cls.daemon))

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.daemon.stop()

    def problem(self, ask):
        with self.assertRaises(voxeld.Problem) as caught:
            ask()
        return caught.exception


class Presets(DaemonCase):
    """A daemon with a preset of fps."""

    @classmethod
    def setUpClass(cls):
        directory = tempfile.TemporaryDirectory()
        cls.addClassCleanup(directory.cleanup)
        few = {"description": "few", "operation": "fps", "parameters": {"num_samples": 7}}
        (pathlib.Path(directory.name) / "few.json").write_text(json.dumps(few))
        cls.ARGS = ("--presets-dir", directory.name)
        super().setUpClass()

    def test_fps_takes_the_number_of_the_preset_or_its_own(self):
        points = random_points(50)
        self.assertEqual(self.client.fps(points, preset="few")["sampled_indices"].shape, (1, 7))
        self.assertEqual(self.client.fps(points, 3, preset="few")["sampled_indices"].shape, (1, 3))
        self.assertEqual(self.problem(lambda: self.client.fps(points)).parameter, "num_samples")


class Values(DaemonCase):
    def assert_tensors(self, expected, result):
        self.assertEqual(check.same_tensors(expected, result.tensors), [])
        for name, tensor in result.items():
            self.assertTrue(tensor.flags.writeable, name)
            self.assertEqual(tensor.ctypes.data % 64, 0, name)

    def test_random_requests_give_the_reference_tensors(self):
        rng = np.random.default_rng(5)
        for _ in range(25):
            query = clouds.random_query(rng)
            body = clouds.random_body(rng, query, int(rng.integers(0, 400)), str(rng.choice(clouds.STYLES)))
            params = oracle.Params.from_values(query)
            points = np.frombuffer(body, np.dtype(params.dtype)).reshape(-1, params.num_features)
            told = {name: value for name, value in query.items() if name not in ("num_features", "dtype")}
            with self.subTest(query):
                expected = oracle.voxelize(params, body)
                result = self.client.voxelize(points, **told)
                self.assert_tensors(expected.tensors, result)
                self.assertEqual(result.metadata["points"]["received"], len(points))
                self.assert_tensors(expected.tensors, self.client.voxelize(body, **query))

    def test_a_batch_is_its_clouds(self):
        parts = [random_points(n, n) for n in (300, 0, 17)]
        params = oracle.Params.from_values({name: ",".join(map(str, value)) for name, value in GRID.items()})
        expected = oracle.voxelize(params, np.concatenate(parts).tobytes(), [300, 0, 17])
        result = self.client.voxelize(parts, **GRID)
        self.assert_tensors(expected.tensors, result)
        self.assertEqual(result.metadata["batch"]["points"], [300, 0, 17])
        self.assertEqual(result.metadata["batch"]["voxels"], expected.batch_voxels)

    def test_range_image_gives_the_reference_image(self):
        points = random_points(300)
        view = range_images.View(16, 64, 30.0, -30.0, channels=("range", 3), winner="last")
        asked = {"height": 16, "width": 64, "fov_up": 30, "fov_down": -30, "winner": "last"}
        result = self.client.range_image(points, **asked, channels=["range", "intensity"])
        expected, _ = range_images.run(view, points, [len(points)])
        for name in ("range_image", "range_indices", "range_mask", "point_pixels"):
            self.assertEqual(getattr(result, name).tobytes(), expected[name].tobytes(), name)

    def test_fps_gives_the_reference_samples(self):
        points = random_points(4 * 250).reshape(4, 250, 4)
        outputs = ["sampled_indices", "sampled_points", "sampled_distances"]
        query = {"point_counts": "250,250,250,250", "num_samples": "20", "start": "3", "outputs": ",".join(outputs)}
        result = self.client.fps(points, 20, start=3, outputs=outputs)
        self.assert_tensors(samples.of_points(query, points.tobytes()).tensors, result)
        self.assertEqual(result["sampled_points"].shape, (4, 20, 4))
        listed = self.client.fps(list(points), [1, 2, 3, 4], outputs="sampled_indices")
        self.assertEqual(listed["sampled_indices"].shape, (10,))

    def test_transform_moves_and_filters(self):
        points, shift = random_points(300), np.eye(4)
        shift[0, 3] = 2.5
        boxes = [(0, 0, 0, 2, 2, 2), (3, -1, -1, 4, 1, 1)]
        query = {
            "matrix": ",".join(map(str, shift.ravel())),
            "crop": "-9,-9,-9,9,9,9",
            "cut": "0,0,0,2,2,2;3,-1,-1,4,1,1",
        }
        tensors, kept, _ = transform.transform(query, points.tobytes())
        for cut in (boxes, query["cut"]):
            result = self.client.transform(points, matrix=shift, crop=(-9, -9, -9, 9, 9, 9), cut=cut)
            self.assert_tensors(tensors, result)
            self.assertEqual(result.metadata["batch"]["kept"], kept)
        self.assertEqual(self.client.transform(points, cut=[]).metadata["points"]["cut_out"], 0)

    def test_deskew(self):
        points = random_points(300)
        points[:, 3] = np.linspace(-0.1, 0, 300)
        twists = np.array([[-0.1, 10, 0, 0, 0, 0, 1], [0, 12, 0, 0, 0, 0, 2]])
        named = {"fields": ["x", "y", "z", "t"], "time_field": "t", "deskew": "twists", "outputs": ["points"]}
        results = [
            self.client.points(points, **named, deskew_twists=rows)
            for rows in (twists, twists.tolist(), ";".join(",".join(map(str, row)) for row in twists))
        ]
        for result in results:
            self.assertEqual(result.points.tobytes(), results[0].points.tobytes())
        self.assertFalse((results[0].points[:, :3] == points[:, :3]).all())

    def test_nms_keeps_the_best(self):
        rng = np.random.default_rng(5)
        given = {
            "boxes": np.abs(rng.normal(0, 3, (200, 7))).astype(np.float32),
            "scores": rng.random(200).astype(np.float32),
            "labels": rng.integers(0, 3, 200).astype(np.int32),
        }
        for parameters in ({}, {"class_agnostic": "no", "iou_threshold": 0.3, "box_counts": [150, 50]}):
            query = {name: ",".join(map(str, np.ravel(value))) for name, value in parameters.items()}
            expected, kept, told = boxes.nms(query, given)
            result = self.client.nms(given["boxes"], given["scores"], given["labels"], **parameters)
            self.assert_tensors(expected, result)
            self.assertEqual((result.metadata["batch"]["kept"], result.metadata["boxes"]), (kept, told))
        lists = self.client.nms([[0, 0, 0, 1, 1, 1, 0], [0.1, 0, 0, 1, 1, 1, 0]], [0.1, 0.2])
        self.assertEqual(list(lists["kept_indices"]), [1])
        with self.assertRaisesRegex(TypeError, "scores has the dtype float64; expected float32"):
            self.client.nms(given["boxes"], given["scores"].astype(float))
        with self.assertRaisesRegex(voxeld.Problem, "the input labels is missing"):
            self.client.nms(given["boxes"], given["scores"], class_agnostic="no")

    def test_scatter_and_maps_are_arrays(self):
        rng = np.random.default_rng(6)
        for dtype in (np.float32, np.float16):
            coords = rng.integers(-1, 4, (50, 4)).astype(np.int32)
            given = {"features": rng.random((50, 3)).astype(dtype), "voxel_coords": coords}
            expected, kept, told = maps.scatter({"grid_size": "5,4,3", "batch_size": "2"}, given)
            result = self.client.scatter(*given.values(), grid_size=(5, 4, 3), batch_size=2)
            self.assert_tensors({"bev_features": expected}, result)
            self.assertEqual((result.metadata["batch"]["kept"], result.metadata["voxels"]), (kept, told))
        lists = self.client.scatter([[1, 2]], [[0, 0, 0, 1]], grid_size=[2, 1, 1])
        self.assertEqual(lists["bev_features"].tolist(), [[[[0, 1]], [[0, 2]]]])
        points = random_points(500)
        query = {name: ",".join(map(str, np.ravel(value))) for name, value in GRID.items()}
        expected = maps.voxelize({"num_features": "4", **query}, points.tobytes())
        self.assert_tensors(expected, self.client.voxelize(points, **GRID, outputs=list(maps.NAMES)))

    def test_maps_become_boxes(self):
        rng = np.random.default_rng(6)
        shapes = {"cls_preds": 18, "box_preds": 42, "dir_cls_preds": 12}
        maps = {name: rng.normal(-1, 1, (5, 7, channels)).astype(np.float32) for name, channels in shapes.items()}
        maps["cls_preds"] = maps["cls_preds"].astype(np.float16)
        told = self.client.preset("kitti_pointpillar")["decode"]
        query = {name: ",".join(map(str, np.ravel(told[name]))) for name in told if name != "preset"}
        expected, kept, fates = boxes.decode(query, maps)
        result = self.client.decode(**maps, preset="kitti_pointpillar")
        self.assert_tensors(expected, result)
        self.assertEqual((result.metadata["batch"]["kept"], result.metadata["anchors"]), (kept, fates))
        self.assertEqual(result.metadata["parameters"]["dir_offset"], told["dir_offset"])
        self.assertGreater(len(result["boxes"]), 0)
        again = self.client.nms(result["boxes"], result["scores"], preset="kitti_pointpillar")
        self.assertEqual(list(again["kept_indices"]), list(range(len(result["boxes"]))))
        del maps["dir_cls_preds"]
        without = self.client.decode(**maps, dir_cls_preds=None, preset="kitti_pointpillar", nms_post_max=1)
        self.assertEqual(without["boxes"].shape, (1, 7))

    def test_centre_maps_become_boxes(self):
        rng = np.random.default_rng(7)
        shapes = zip(centers.MAPS, (3, 2, 1, 3, 2, 2))
        maps = {name: rng.normal(0, 1, (3, 3, channels)).astype(np.float16) for name, channels in shapes}
        maps["vel"] = maps["vel"].astype(np.float32)  # after an odd number of float16 values
        query = {"head": "center", "point_cloud_range": "0,0,0,9,9,9", "voxel_size": "1,1,1", "feature_map_stride": "2"}
        expected, _, fates = centers.decode(query, maps)
        result = self.client.decode(**maps, **query)
        self.assert_tensors(expected, result)
        self.assertEqual(result.metadata["candidates"], fates)
        with self.assertRaisesRegex(voxeld.Problem, "there is no parameter 'dir_bins'"):
            self.client.decode(**maps, **query, dir_bins=2)

    def test_large_numbers_arrive(self):
        box = [-1e20, -1e20, -1e20, 1e20, 1e20, 1e20]  # str(1e20) has a +
        for crop, cut in ((box, [box]), (np.array(box, np.float32), "-1e+20,-1e20,-1e20,1e+20,1e20,1e+20")):
            told = self.client.transform(random_points(3), crop=crop, cut=cut).metadata["parameters"]
            self.assertEqual((told["crop"], told["cut"]), (box, ",".join(["-1e20"] * 3 + ["1e20"] * 3)))

    def test_encoded_points_give_the_same_tensors(self):
        parts = [random_points(n, n) for n in (3000, 0, 17)]
        plain = self.client.voxelize(parts, **GRID)
        for encoding in ("gzip", "zstd"):
            try:
                client = voxeld.Client(url_of(self.daemon), encoding=encoding)
            except ValueError as reason:  # this Python has no module for zstd, and the package is missing
                self.assertIn("zstandard", str(reason))
                continue
            with client:
                self.assert_tensors(plain.tensors, client.voxelize(parts, **GRID))
                self.assertEqual(client.voxelize(b"", **GRID)["voxel_coords"].shape, (0, 4))

    def test_zstd_by_either_module(self):
        pieces = [memoryview(b"abc"), memoryview(b"def")]
        standin = types.SimpleNamespace(compress=zlib.compress)  # takes the arguments of both
        for name, other in (("zstandard", "compression.zstd"), ("compression.zstd", "zstandard")):
            modules = {name: standin, other: None, "compression": types.ModuleType("compression")}
            with self.subTest(name), unittest.mock.patch.dict("sys.modules", modules):
                for body in (pieces, pieces[:1]):
                    coded = encodings.encoder_of("zstd")(body)
                    self.assertEqual(zlib.decompress(b"".join(coded)), b"".join(body))
        with unittest.mock.patch.dict("sys.modules", {"zstandard": None, "compression.zstd": None}):
            with self.assertRaisesRegex(ValueError, "pip install zstandard"):
                voxeld.Client(encoding="zstd")
        with self.assertRaisesRegex(ValueError, "'br'; allowed: gzip, zstd"):
            voxeld.Client(encoding="br")

    def test_no_points_give_tensors_without_rows(self):
        for points in (np.empty((0, 4), np.float32), b"", [np.empty((0, 3), np.float16)]):
            result = self.client.voxelize(points, **GRID)
            self.assertEqual(result["voxel_coords"].shape, (0, 4))

    def test_warnings_are_reported_and_warned_of_once_a_kind(self):
        points = random_points(500)
        with voxeld.Client(url_of(self.daemon)) as client, warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.assertEqual(client.voxelize(points, **GRID).warnings, [])
            self.assertEqual(caught, [])
            for metadata_only in (False, True):
                (told,) = client.voxelize(points, **GRID, max_voxels=1, metadata_only=metadata_only).warnings
                self.assertEqual(told.kind, "max_voxels")
                self.assertRegex(told.detail, "^max_voxels=1 was reached: [0-9]+ voxels and their [0-9]+ points")
            (of_far,) = client.voxelize(points + 1000, **GRID).warnings
        self.assertEqual(
            [str(warning.message) for warning in caught], [f"{w.kind}: {w.detail}" for w in (told, of_far)]
        )
        for warning in caught:
            self.assertEqual((warning.category, warning.filename), (voxeld.RequestWarning, __file__))

    def test_the_metadata_alone(self):
        result = self.client.voxelize(random_points(50), metadata_only=True, request_id="mine-1", **GRID)
        self.assertEqual((len(result), result.request_id), (0, "mine-1"))
        self.assertEqual(result.metadata["points"]["received"], 50)
        self.assertGreater(result.timing["total"], 0)
        self.assertIn("metadata alone", repr(result))

    def test_stable_metadata_has_no_id_and_no_times(self):
        for only in (False, True):
            result = self.client.voxelize(random_points(50), metadata="stable", metadata_only=only, **GRID)
            self.assertEqual((result.request_id, result.timing), (None, None))
            self.assertTrue(repr(result).startswith("<voxeld.VoxelizeResult: "), repr(result))

    def test_a_trace_is_taken_over(self):
        trace = "4bf92f3577b34da6a3ce929d0e0e4736"
        result = self.client.voxelize(random_points(5), traceparent=f"00-{trace}-00f067aa0ba902b7-01", **GRID)
        self.assertEqual(result.metadata["trace_id"], trace)

    def test_tensors_are_exported_by_dlpack_without_a_copy(self):
        asked = {"feature": ["points", "pillar"], "feature_dtype": "float16"}
        names = ["voxels", "pillar_features", "voxel_coords", "voxel_point_mask"]
        result = self.client.voxelize(random_points(50), outputs=names, **asked, **GRID)
        self.assertEqual({tensor.dtype.name for tensor in result.values()}, {"float32", "float16", "int32", "uint8"})
        for name, tensor in result.items():
            self.assertTrue(np.shares_memory(np.from_dlpack(tensor), tensor), name)


class Points(DaemonCase):
    """All forms of points arrive as the same rows."""

    def test_forms_of_the_same_points(self):
        points = random_points(100)
        expected = self.client.voxelize(points, **GRID)["voxel_features"].tobytes()

        class Tensor:  # not an array, but exports one
            def __init__(self, export):
                setattr(type(self), export, lambda self, *_, **__: getattr(points, export)())

        wide = np.zeros((100, 8), np.float32)
        wide[:, :4] = points
        forms = {
            "big-endian": points.astype(">f4"),
            "Fortran order": np.asfortranarray(points),
            "every second column": wide[:, :4],
            "read-only": np.frombuffer(points.tobytes(), np.float32).reshape(-1, 4),
            "bytes": points.tobytes(),
            "bytearray": bytearray(points.tobytes()),
            "array.array": array.array("f", points.reshape(-1)),
            "memoryview": memoryview(points),
            "memoryview, big-endian": memoryview(points.astype(">f4")),
            "memoryview, every second column": memoryview(wide[:, :4]),
            "memoryview, one axis, big-endian": memoryview(points.astype(">f4").reshape(-1)),
            "memoryview of bytes": memoryview(points.tobytes()).cast("c"),
            "[1, N, C]": points[None],
            "a list": [points],
            "a tuple of exporters": (type("A", (Tensor,), {})("__array__"),),
            "__array__": type("B", (Tensor,), {})("__array__"),
        }
        for name, form in forms.items():
            with self.subTest(name):
                self.assertEqual(self.client.voxelize(form, **GRID)["voxel_features"].tobytes(), expected)

    def test_dlpack_exporters(self):
        points = random_points(100)

        class Exporter:
            def __dlpack__(self, *given, **named):
                return points.__dlpack__(*given, **named)

            def __dlpack_device__(self):
                return points.__dlpack_device__()

        self.assertEqual(self.client.voxelize(Exporter(), **GRID).metadata["points"]["received"], 100)

    def test_float16_rows(self):
        result = self.client.voxelize(random_points(100).astype(np.float16), **GRID)
        self.assertEqual(result.metadata["parameters"]["dtype"], "float16")

    def test_buffers_of_numbers_tell_their_type(self):
        points = random_points(100).astype(np.float16)
        for form in (memoryview(points), memoryview(points.reshape(-1)), memoryview(points[None])):
            metadata = self.client.voxelize(form, **GRID).metadata
            self.assertEqual((metadata["parameters"]["dtype"], metadata["points"]["received"]), ("float16", 100))

    def test_points_split_by_point_counts(self):
        result = self.client.voxelize(random_points(100), point_counts=[60, 40], **GRID)
        self.assertEqual(result.metadata["batch"]["points"], [60, 40])

    def test_points_that_cannot_be_sent_are_refused_here(self):
        points = random_points(10)
        refused = {
            "float64": (TypeError, points.astype(float), {}),
            "int32": (TypeError, points.astype(np.int32), {}),
            "one axis": (ValueError, points.reshape(-1), {}),
            "a path": (TypeError, "scan.bin", {}),
            "nothing": (TypeError, None, {}),
            "no clouds": (ValueError, [], {}),
            "unlike columns": (ValueError, [points, points[:, :3]], {}),
            "unlike types": (ValueError, [points, points.astype(np.float16)], {}),
            "rows as numbers": (TypeError, [[1.0, 2.0, 3.0, 4.0]], {}),
            "not contiguous": (TypeError, memoryview(points.tobytes())[::2], {}),
            "masked": (TypeError, np.ma.masked_array(points, points > 0), {}),
            "a masked batch": (TypeError, np.ma.masked_array(points[None], points[None] > 0), {}),
            "masked in a list": (TypeError, [np.ma.masked_array(points, points > 0)], {}),
            "array.array of float64": (TypeError, array.array("d", points.reshape(-1)), {}),
            "memoryview of float64": (TypeError, memoryview(points.astype(float)), {}),
            "memoryview of int32": (TypeError, memoryview(points.astype(np.int32)), {}),
            "type of a buffer said twice": (ValueError, array.array("f", points.reshape(-1)), {"dtype": "float16"}),
            "columns said twice": (ValueError, points, {"num_features": 4}),
            "counts said twice": (ValueError, [points], {"point_counts": [10]}),
            "a parameter that there is not": (TypeError, points, {"max_voxel": 3}),
            "a header in a header": (ValueError, points, {"request_id": "a\r\nX: ö"}),
        }
        for name, (kind, given, parameters) in refused.items():
            with self.subTest(name), self.assertRaises(kind):
                self.client.voxelize(given, **parameters, **GRID)

    def test_parameters_as_numpy_values(self):
        result = self.client.voxelize(
            random_points(10),
            point_cloud_range=np.array(GRID["point_cloud_range"]),
            voxel_size=np.float32([0.5, 0.5, 0.5]),
            max_voxels=np.int64(7),
            feature=None,
        )
        self.assertEqual(result.metadata["parameters"]["max_voxels"], 7)


class Tensors(DaemonCase):
    """The service's tables are true of its answers, and results have their tensors as attributes."""

    def same(self, operation, sparing, whole):
        """`sparing` has the tensors without a condition, `whole` has all tensors."""
        rows = operation_of(operation, describe())["tensors"]
        self.assertEqual(set(whole), {row["name"] for row in rows})
        self.assertEqual(set(sparing), {row["name"] for row in rows if not row["when"]})
        for name, shape, dtypes in ((row["name"], row["shape"], row["dtypes"]) for row in rows):
            tensor = getattr(whole, name)
            self.assertIs(tensor, whole[name])
            self.assertIs(getattr(sparing, name), sparing.get(name), f"{name} of {operation}")
            self.assertIn(tensor.dtype.name, dtypes)
            self.assertEqual(len(shape), tensor.ndim, f"{name} of {operation}")
            for size, extent in zip(shape, tensor.shape):
                self.assertTrue(not size.isdigit() or int(size) == extent, f"{name} of {operation}")

    def all_of(self, operation):
        return [row["name"] for row in operation_of(operation, describe())["tensors"]]

    def test_voxelize(self):
        points = random_points(100)
        none = ["voxel_coords", "voxel_num_points"]
        whole = {"feature": ["points", "mean", "pillar"], "fps": 5, "outputs": self.all_of("voxelize")}
        whole["steps"] = [voxeld.Transform()]  # some tensors need a step
        sparing = self.client.voxelize(points, **GRID, outputs=none)
        self.same("voxelize", sparing, self.client.voxelize(points, **GRID, **whole))
        self.assertIsNone(sparing.voxels)
        self.assertEqual(set(self.client.voxelize(points, **GRID, feature="points")), {*none, "voxels"})
        self.assertEqual(set(self.client.voxelize(points, **GRID, feature="pillar")), {*none, "pillar_features"})
        self.assertEqual(set(self.client.voxelize(points, **GRID)), {*none, "voxel_features"})

    def test_others_on_points(self):
        steps = [voxeld.Transform()]
        asked = {"fps": {"num_samples": 5, "steps": steps}, "points": {"steps": steps}, "transform": {}}
        for operation, parameters in asked.items():
            ask = getattr(self.client, operation)
            whole = ask(random_points(100), **parameters, outputs=self.all_of(operation))
            self.same(operation, ask(random_points(100), **parameters), whole)

    def test_scatter_and_nms(self):
        map_of = self.client.scatter([[1, 2]], [[0, 0, 0, 1]], grid_size=[2, 1, 1])
        self.same("scatter", map_of, map_of)
        kept = self.client.nms([[0, 0, 0, 1, 1, 1, 0]], [0.5])
        self.same("nms", kept, kept)

    def test_decode(self):
        maps = {name: np.zeros((2, 2, n), np.float32) for name, n in zip(centers.MAPS, (3, 2, 1, 3, 2, 2))}
        grid = {"point_cloud_range": (0, 0, 0, 9, 9, 9), "voxel_size": (1, 1, 1), "feature_map_stride": 2}
        found = self.client.decode(**maps, **grid, head="center")
        self.same("decode_center", found, found)
        maps = {name: np.zeros((2, 2, n), np.float32) for name, n in (("cls_preds", 18), ("box_preds", 42))}
        found = self.client.decode(**maps, preset="kitti_pointpillar")
        self.same("decode", found, found)

    def test_an_answer_without_a_tensor(self):
        result = self.client.voxelize(random_points(10), **GRID, metadata_only=True)
        with self.assertRaisesRegex(AttributeError, "the answer has no voxel_coords: the request's outputs or"):
            result.voxel_coords
        self.assertIsNone(result.voxel_features)


class Asking(DaemonCase):
    def test_documents(self):
        self.assertEqual(self.client.status()["state"], "ready")
        self.assertEqual(self.client.preset("kitti_second")["name"], "kitti_second")
        self.assertIn("kitti_second", [preset["name"] for preset in self.client.presets()])
        self.assertIn("voxeld_requests_total", self.client.metrics())
        self.assertTrue(self.client.healthy() and self.client.ready())

    def test_answers_as_files(self):
        points = random_points(500)
        expected = self.client.voxelize(points, **GRID)
        with numpy_file(self.client.file_bytes("voxelize", points, "application/x-npz", **GRID)) as arrays:
            for name, tensor in expected.items():
                np.testing.assert_array_equal(arrays[name], tensor)
        tensors, _ = check.parse_by_hand(self.client.file_bytes("voxelize", points, **GRID).tobytes())
        self.assertEqual(set(tensors), set(expected))
        with self.assertRaises(voxeld.BadAnswer):
            self.client.file_bytes("voxelize", points, "image/png", **GRID)
        self.assertEqual(self.problem(lambda: self.client.file_bytes("a/b", points, **GRID)).status, 404)

    def test_a_problem_has_all_fields(self):
        problem = self.problem(lambda: self.client.voxelize(b"", "kitti_second", max_voxels=0, request_id="bad-1"))
        self.assertEqual((problem.status, problem.kind, problem.parameter), (400, "bad-parameter", "max_voxels"))
        self.assertEqual(problem.type, "urn:voxeld:problem:bad-parameter")
        self.assertEqual((problem.request_id, problem.retry_after, problem.attempts), ("bad-1", None, 1))
        self.assertTrue(problem.title)
        self.assertIn("max_voxels is '0'", problem.detail)
        self.assertIn("max_voxels is '0'", str(problem))

    def test_names_are_quoted(self):
        self.assertEqual(self.problem(lambda: self.client.preset("a/b?c=d&e f")).status, 404)
        problem = self.problem(lambda: self.client.voxelize(b"", "a&b=c\r\nX: y"))
        self.assertEqual(problem.parameter, "preset")

    def test_one_connection_serves_many_requests(self):
        with Daemon() as daemon, voxeld.Client(url_of(daemon)) as client:
            connections = lambda: client.status()["connections"]["open"]
            wait_until(lambda: connections() == 1, "the ends of all other connections")
            for _ in range(20):
                client.voxelize(random_points(10), **GRID)
                self.problem(lambda: client.voxelize(b"123", **GRID))
            self.assertEqual(connections(), 1)

    def test_threads_share_one_client(self):
        parts = [random_points(50 + n, n) for n in range(8)]
        expected = [self.client.voxelize(points, **GRID)["voxel_features"].tobytes() for points in parts]
        wrong = []

        def work(number):
            for _ in range(10):
                try:
                    result = self.client.voxelize(parts[number], request_id=f"thread-{number}", **GRID)
                    if result["voxel_features"].tobytes() != expected[number]:
                        wrong.append((number, result))
                    if result.request_id != f"thread-{number}":
                        wrong.append((number, result.request_id))
                except Exception as error:  # in a thread, an error would not fail the test
                    wrong.append((number, error))

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_after_fork_parent_and_child_have_connections_of_their_own(self):
        with RudeServer(status_document()) as server, voxeld.Client(url_of(server)) as client:
            client.status()
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    client.status()
                    client.status()
                    status = 0
                finally:
                    os._exit(status)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 0)
            client.status()
            self.assertEqual(server.connections, 2)

    def test_a_closed_client_asks_no_more(self):
        with voxeld.Client(url_of(self.daemon)) as client:
            client.status()
        with self.assertRaises(ValueError):
            client.status()


class EarlyRefusal(DaemonCase):
    ARGS = ("--max-body-bytes", "1000000")

    def test_a_refusal_in_mid_upload_arrives(self):
        body = bytes(64 << 20)
        for _ in range(3):
            problem = self.problem(lambda: self.client.voxelize(body, **GRID))
            self.assertEqual((problem.status, problem.kind), (413, "body-too-large"))
        self.assertEqual(len(self.client.voxelize(b"", **GRID)["voxel_coords"]), 0)


class Overload(DaemonCase):
    SIZES = {"max-body-bytes": 524_288, "max-response-bytes": 524_288, "memory-budget-bytes": 1_048_576}
    ARGS = ("--workers", "1", *(f"--{name}={value}" for name, value in SIZES.items()))

    def test_refused_requests_are_tried_until_they_are_served(self):
        points = random_points(20_000)  # the service has room for two such bodies at the same time
        failures = []

        def work():
            try:
                with voxeld.Client(url_of(self.daemon), retries=100) as client:
                    client.voxelize(points, metadata_only=True, **GRID)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])


class Restarts(unittest.TestCase):
    def test_restarts_are_not_noticed(self):
        points = random_points(20_000)
        with Daemon() as first:
            port = first.address[1]
        daemon = Daemon("--listen", f"127.0.0.1:{port}")
        wrong, over = [], threading.Event()
        served = [0] * 3
        with voxeld.Client(url_of(daemon), retries=100, backoff=0.05) as client:
            expected = client.voxelize(points, **GRID)["voxel_features"].tobytes()

            def work(number):
                while not over.is_set():
                    try:
                        if client.voxelize(points, **GRID)["voxel_features"].tobytes() != expected:
                            wrong.append("other bytes")
                        served[number] += 1
                    except Exception as error:
                        wrong.append(error)

            def all_served():
                before = list(served)
                wait_until(lambda: wrong or all(now > then for then, now in zip(before, served)), "an answer to each")

            threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
            for thread in threads:
                thread.start()
            try:
                for ending in (signal.SIGKILL, signal.SIGTERM, signal.SIGKILL):
                    all_served()
                    daemon.process.send_signal(ending)
                    daemon.wait()
                    daemon = Daemon("--listen", f"127.0.0.1:{port}")
                all_served()
            finally:
                over.set()
                for thread in threads:
                    thread.join()
        daemon.stop()
        self.assertEqual(wrong, [])


class Access(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def test_tokens(self):
        token, tokens = token_file(self.folder)
        with Daemon("--token-file", str(tokens), "--allow-anonymous", "yes") as daemon:
            with voxeld.Client(url_of(daemon), token=token) as client:
                self.assertEqual(client.status()["state"], "ready")
                self.assertNotIn(token, repr(client))
            with voxeld.Client(url_of(daemon), token="wrong") as client:
                with self.assertRaises(voxeld.Problem) as caught:
                    client.voxelize(random_points(1_000_000), **GRID)
                self.assertEqual((caught.exception.status, caught.exception.kind), (401, "invalid-token"))
                self.assertNotIn("wrong", str(caught.exception))
                self.assertTrue(client.ready())  # needs no token

    def test_values_that_are_not_tokens(self):
        for kind, token in (
            (TypeError, b"secret"),
            (TypeError, 7),
            (ValueError, "secret\r\nX: y"),
            (ValueError, "secretö"),
            (ValueError, "secret "),
            (ValueError, ""),
        ):
            with self.subTest(token), self.assertRaises(kind) as refused:
                voxeld.Client(token=token)
            self.assertNotIn("secret", str(refused.exception))

    def test_a_unix_socket(self):
        path = self.folder / "voxeld.sock"
        with Daemon("--listen", f"unix:{path},127.0.0.1:0"), voxeld.Client(f"unix:{path}") as client:
            self.assertEqual(client.voxelize(random_points(10), **GRID).metadata["points"]["received"], 10)
        with voxeld.Client(f"unix:{path}", retries=0) as client:
            self.assertFalse(client.ready())
            with self.assertRaises(voxeld.TransportError):
                client.status()

    @unittest.skipUnless(shutil.which("openssl"), "there is no openssl here")
    def test_tls_and_client_certificates(self):
        authority = Authority(self.folder, "ca")
        authority.sign("server", "subjectAltName=IP:127.0.0.1", "server")
        authority.sign("robot", "extendedKeyUsage=clientAuth", "robot")
        ca, own = authority.path("ca.pem"), (authority.path("robot.pem"), authority.path("robot.key"))
        with TlsDaemon(self.folder, "--tls-client-ca", ca, client="robot") as daemon:
            url = "https://{}:{}".format(*daemon.address)
            points = random_points(100_000)
            with voxeld.Client(url, ca_file=ca, certificate=own) as client:
                for _ in range(3):
                    self.assertEqual(client.voxelize(points, **GRID).metadata["points"]["received"], 100_000)
            with voxeld.Client(url, tls=daemon.context) as client:
                self.assertEqual(client.status()["state"], "ready")
            with voxeld.Client(url, ca_file=ca) as client, self.assertRaises(voxeld.Problem) as refused:
                client.voxelize(bytes(32 << 20), **GRID)
            self.assertEqual(refused.exception.kind, "unauthorized")
            with voxeld.Client(url) as client, self.assertRaises(voxeld.TransportError) as unknown:
                client.status()
            self.assertIsInstance(unknown.exception.__cause__, ssl.SSLCertVerificationError)
            self.assertEqual(unknown.exception.attempts, 1)
            with voxeld.Client(url) as client, self.assertRaises(voxeld.TransportError):
                client.ready()  # raises if waiting cannot help
            with voxeld.Client(url.replace("https", "http"), retries=0) as client, self.assertRaises(voxeld.Error):
                client.status()

    def test_values_that_are_not_addresses(self):
        no_urls = ("localhost:8080", "ftp://host", "http://", "http://u:p@host", "http://host/?a=b")
        for url in (*no_urls, "http://host:x", "http://host:0", "http://a..b", "http://" + "x" * 70):
            with self.subTest(url), self.assertRaises(ValueError):
                voxeld.Client(url)
        with self.assertRaises(ValueError):
            voxeld.Client("http://host", tls=ssl.create_default_context())

    def test_options_that_are_not_numbers_in_range(self):
        endless, none = float("inf"), float("nan")
        for name, values in {
            "timeout": (None, endless, none, 0, -1, "60", 1e7),
            "deadline": (None, endless, none, 0, -1, "60", 1e7),
            "retries": (None, -1, "5"),
            "backoff": (None, -0.1, none),
            "idle_connections": (None, -1),
        }.items():
            for value in values:
                with self.subTest(name, value=value), self.assertRaisesRegex(ValueError, f"^{name} is "):
                    voxeld.Client(**{name: value})


if __name__ == "__main__":
    unittest.main()
