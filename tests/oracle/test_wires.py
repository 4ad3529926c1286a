"""Every way in and out gives the tensors of the plain request, byte for byte: all combinations of the body's format and
encoding and the answer's kind, and all of KServe's protocol. Each combination meets one encoding of the answer, or a
region; these take turns. A test fails if the ways here lack a row of the daemon's tables.
"""

import functools
import io
import itertools
import json
import tempfile
import unittest

import numpy as np
from mcap.reader import SeekingReader
from safetensors.numpy import save

import check
import cloudini
import codings
import files
import infer
import models
from daemon import OneDaemonCase
from shared import Memory
from tables import describe, operation_of

RNG = np.random.default_rng(17)
ROOM = 1 << 20  # of shared memory, for each input and output
NAMES = ("x", "y", "z", "intensity")
POINTS = RNG.uniform(-9, 9, (300, 4)).astype("<f4")
BOXES = np.concatenate((RNG.uniform(-9, 9, (60, 3)), RNG.uniform(1, 4, (60, 4))), 1).astype("<f4")
MAPS = {
    "cls_preds": RNG.normal(0, 2, (2, 5, 4, 6)).astype("<f2"),
    "box_preds": RNG.normal(0, 0.3, (2, 5, 4, 14)).astype("<f4"),
    "dir_cls_preds": RNG.normal(0, 1, (2, 5, 4, 4)).astype("<f4"),
}
GRID = "point_cloud_range=-10,-10,-10,10,10,10&voxel_size=0.5,0.5,0.75"
HEAD = "point_cloud_range=0,-8,-3,8,8,1&anchor_sizes=4,2,1.5&anchor_bottoms=-1"
MATRIX = RNG.uniform(-1, 1, (2, 4, 4)).astype("<f4")
MATRIX[:, 3] = 0, 0, 0, 1
SAFETENSORS = {"Content-Type": "application/vnd.safetensors"}
# Operation, query, inputs.
REQUESTS = (
    ("voxelize", f"{GRID}&feature=points,mean,pillar&point_counts=100,0,200", {"points": POINTS}),
    ("voxelize", f"{GRID}&fps=9&outputs=voxel_coords,sampled_points,point_voxel_ids", {"points": POINTS}),
    ("fps", "num_samples=20&outputs=sampled_indices,sampled_points", {"points": POINTS}),
    ("points", "steps=transform&transform.distance=1,5&outputs=points,point_fates", {"points": POINTS}),
    ("transform", "crop=-5,-5,-5,5,5,5", {"points": POINTS}),
    ("transform", "point_counts=150,150", {"points": POINTS, "matrix": MATRIX}),
    ("nms", "class_agnostic=no&box_counts=40,20", {
        "boxes": BOXES, "scores": RNG.random(60).astype("<f4"), "labels": RNG.integers(0, 3, 60).astype("<i4")}),
    ("decode", HEAD, MAPS),
    ("scatter", "grid_size=8,6,2&batch_size=2", {
        "features": RNG.random((70, 3)).astype("<f4"),
        "voxel_coords": RNG.integers(0, (2, 2, 6, 8), (70, 4)).astype("<i4")}),
    ("range_image", "height=8&width=64&fov_up=30&fov_down=-30&point_counts=100,0,200", {"points": POINTS}),
    ("serialize", "voxel_size=0.5&strides=2,4&point_counts=100,0,200", {"points": POINTS}),
    ("detect", "model=head&point_counts=100,0,200", {"points": POINTS}),
    ("backbone", "model=sparse&point_counts=100,0,200", {"points": POINTS}),
)  # fmt: skip

CODERS = {None: lambda body: body, "gzip": codings.CODERS["gzip"], "deflate": codings.CODERS["deflate"],
          "zstd": functools.lru_cache(codings.zstd)}  # fmt: skip


# ---- bodies of /v1 ----


def raw(inputs):
    return inputs["points"].tobytes(), "", {}


def shuffled(inputs):
    points = np.ascontiguousarray(inputs["points"])
    return points.view("u1").reshape(len(points), -1).T.tobytes(), "&filter=shuffle", {}


def file_of(write, word):
    def body(inputs):
        named = files.structured({name: inputs["points"][:, place] for place, name in enumerate(NAMES)})
        return write(named), f"&format={word}", {}

    return body


# For each format, functions from the inputs to (body, query, headers). Inputs other than points need safetensors.
FORMATS = {
    "raw": [raw, shuffled],
    "pcd": [file_of(lambda points, data=data: files.pcd(points, data), "pcd") for data in
            ("ascii", "binary", "binary_compressed")],
    "ply": [file_of(lambda points, data=data: files.ply(points, data), "ply") for data in
            ("ascii", "binary_little_endian")],
    "pointcloud2": [file_of(files.pointcloud2, "pointcloud2")],
    "compressedpointcloud2": [file_of(lambda points, packed=packed: files.pointcloud2(points, packed=packed),
                                      "compressedpointcloud2") for packed in
                              (("zstd", codings.zstd), ("zlib", CODERS["gzip"]))],
    "cloudini": [file_of(lambda points, packer=packer: cloudini.blob(points, 5, "LOSSLESS", packer), "cloudini")
                 for packer in cloudini.COMPRESSORS],
    "safetensors": [lambda inputs: (save(inputs), "", SAFETENSORS)],
}  # fmt: skip


def bodies(inputs):
    for name, ways in FORMATS.items():
        if name == "safetensors" or list(inputs) == ["points"]:
            for way in ways:
                yield (name, *way(inputs))


# ---- answers of /v1 ----


def json_alone(file):
    return {}, json.loads(file)


def npz(file):
    with np.load(io.BytesIO(file)) as arrays:
        return {name: arrays[name] for name in arrays.files[:-1]}, json.loads(arrays["metadata.json"])


def mcap(file):
    """The clouds of an MCAP file without their times."""
    reader = SeekingReader(io.BytesIO(file))
    clouds = {
        f"{channel.topic} {message.sequence}": np.frombuffer(message.data[12:], "u1")
        for _, channel, message in reader.iter_messages()
    }
    (record,) = SeekingReader(io.BytesIO(file)).iter_metadata()
    return clouds, json.loads(record.metadata["metadata"])


ANSWERS = {
    "application/vnd.safetensors": check.parse_by_hand,
    "application/json": json_alone,
    "application/x-npz": npz,
    "application/x-shuffled-safetensors": check.parse_by_hand,
    "application/x-mcap": mcap,
}


class Wires(OneDaemonCase):
    ARGS = ("--workers", "2", "--long-workers", "1", "--allow-shared-memory")

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        models.write(folder.name, "head", models.standin())
        models.write(folder.name, "sparse", models.sparse_standin(), models.sparse_description())
        cls.ARGS = (*cls.ARGS, "--models-dir", folder.name, "--onnxruntime", models.STANDIN)
        super().setUpClass()
        cls.memory = Memory(32 * ROOM)
        cls.addClassCleanup(cls.memory.__exit__)
        assert cls.memory.register(cls.daemon, "r").status == 200

    def ask(self, path, body, headers, coding=None, answer=None):
        sent = {"Content-Encoding": coding, "Accept-Encoding": answer}
        headers = {**headers, **{name: value for name, value in sent.items() if value}}
        reply = self.daemon.post(path, CODERS[coding](body), headers)
        self.assertEqual(reply.status, 200, (path, headers, reply))
        if answer and len(reply.body) > 4096:
            self.assertEqual(reply.headers["Content-Encoding"], answer)
        return codings.decode(reply)

    def plain(self, operation, query, inputs):
        alone = list(inputs) == ["points"]
        body, headers = (inputs["points"].tobytes(), {}) if alone else (save(inputs), SAFETENSORS)
        return check.parse_by_hand(self.ask(f"/v1/{operation}?{query}", body, headers).body)

    def same(self, answered, expected, where):
        self.assertEqual(set(answered), set(expected), where)
        for name, tensor in expected.items():
            given = answered[name]
            self.assertEqual((given.dtype, given.shape), (tensor.dtype, tensor.shape), (where, name))
            self.assertEqual(given.tobytes(), tensor.tobytes(), (where, name))

    def same_counts(self, told, metadata, where):
        for member in ("batch", "points", "boxes", "anchors", "voxels", "samples"):
            self.assertEqual(told.get(member), metadata.get(member), (where, member))

    # ---- the tables are whole ----

    def test_each_row_of_the_daemon_has_a_way_here(self):
        tables = describe()
        parameters = operation_of("voxelize", tables)["parameters"]
        (words,) = [row["values"] for row in parameters if row["name"] == "format"]
        self.assertEqual(set(words), set(FORMATS))
        self.assertEqual([row["media_type"] for row in tables["answers"]], list(ANSWERS))
        refused = self.daemon.post("/v1/voxelize?preset=kitti_second", b"", {"Content-Encoding": "br"})
        self.assertEqual(refused.headers["Accept-Encoding"].split(", "), [name for name in CODERS if name])
        operations = {row["path"].split("/")[2] for row in tables["endpoints"] if row["path"].startswith("/v1/")
                      and row["method"] == "POST"}  # fmt: skip
        self.assertEqual(operations, {operation for operation, _, _ in REQUESTS})

    # ---- /v1 ----

    def into_region(self, path, body, headers, coding):
        """The file that the daemon writes into a region for the same request. A body without a coding is in the region
        too."""
        at = 0
        if coding is None:
            self.memory.write(body, 3)
            path, at, body = f"{path}&points_region=r,3,{len(body)}", ROOM, b""
        reply = self.ask(f"{path}&output_region=r,{ROOM + at},{ROOM}", body, headers, coding)
        return self.memory.read(reply.json()["output_region"]["bytes"], ROOM + at)

    def test_formats_encodings_answers_and_regions(self):
        turns = itertools.cycle((None, *codings.answers(), "region"))
        for operation, query, inputs in REQUESTS:
            tensors, metadata = self.plain(operation, query, inputs)
            clouds = None
            for format_name, body, more, sent in bodies(inputs):
                next(turns)  # else each combination would always meet the same turn
                for coding, (kind, parse) in itertools.product(CODERS, ANSWERS.items()):
                    path, headers = f"/v1/{operation}?{query}{more}", {**sent, "Accept": kind}
                    turn = next(turns)
                    if turn == "region":
                        file = self.into_region(path, body, headers, coding)
                    else:
                        file = self.ask(path, body, headers, coding, turn).body
                    answered, told = parse(file)
                    where = (operation, format_name, coding, kind, turn)
                    if kind == "application/x-mcap":
                        clouds = answered if clouds is None else clouds
                        self.same(answered, clouds, where)
                    else:
                        self.same(answered, tensors if answered or not told else {}, where)
                    self.same_counts(told, metadata, where)

    # ---- KServe ----

    def ways_in(self, inputs):
        """Yields (name, inputs, arrays of the binary inputs)."""
        arrays = list(inputs.values())
        regions = []
        for place, (name, array) in enumerate(inputs.items()):
            self.memory.write(array.tobytes(), place * ROOM + place)
            regions.append(infer.in_region(name, array, "r", place * ROOM + place))
        yield "bytes", [infer.as_bytes(*item) for item in inputs.items()], arrays
        yield "bytes backwards", [infer.as_bytes(*item) for item in inputs.items()][::-1], arrays[::-1]
        listed = [(infer.as_json if array.dtype != "<f2" else infer.as_bytes)(name, array)
                  for name, array in inputs.items()]  # fmt: skip
        yield "JSON", listed, [array for array in arrays if array.dtype == "<f2"]
        yield "regions", regions, []
        yield "one of bytes", [infer.as_bytes(*next(iter(inputs.items()))), *regions[1:]], arrays[:1]

    def ways_out(self, names):
        """Yields (name, members of the request, {tensor that goes to a region: its offset})."""
        places = {name: (10 + number) * ROOM + number for number, name in enumerate(names)}

        def region(name):
            terms = {"shared_memory_region": "r", "shared_memory_byte_size": ROOM}
            return {"name": name, "parameters": {**terms, "shared_memory_offset": places[name]}}

        yield "bytes", {"parameters": {"binary_data_output": True}}, {}
        yield "JSON", {}, {}
        yield "regions", {"outputs": [region(name) for name in names]}, places
        first, *others = names
        mixed = [region(first), *({"name": name, "parameters": {"binary_data": bool(number % 2)}} for number, name in
                                  enumerate(others))]  # fmt: skip
        yield "mixed", {"outputs": mixed}, {first: places[first]}

    def test_kserve(self):
        turns, coders = itertools.cycle((None, *codings.answers())), itertools.cycle(CODERS)
        for operation, query, inputs in REQUESTS:
            tensors, metadata = self.plain(operation, query, inputs)
            parameters = dict(item.split("=") for item in query.split("&"))
            model = parameters.pop("model", operation) + ("_backbone" if operation == "backbone" else "")
            for way_in, described, arrays in self.ways_in(inputs):
                next(coders), next(turns)  # else each combination would always meet the same codings
                for way_out, members, places in self.ways_out(list(tensors)):
                    asked = {**parameters, **members.get("parameters", {})}
                    if "outputs" in members:
                        asked.pop("outputs", None)
                    elif "outputs" in asked:
                        members = {**members, "outputs": [{"name": n} for n in asked.pop("outputs").split(",")]}
                    body, headers = infer.body_of(described, arrays, **{**members, "parameters": asked})
                    coding, answer = next(coders), next(turns)
                    where = (operation, way_in, way_out, coding, answer)
                    reply = self.ask(f"/v2/models/{model}/infer", body, headers, coding, answer)
                    answered, told = infer.parse(reply)
                    for name, at in places.items():
                        expected = tensors[name]
                        found = self.memory.read(expected.nbytes, at)
                        answered[name] = np.frombuffer(found, expected.dtype).reshape(expected.shape)
                        self.memory.write(b"\xff" * len(found), at)  # else it could pass for the next answer
                    self.same(answered, tensors, where)
                    self.same_counts(json.loads(told["parameters"]["metadata"]), metadata, where)

    def test_a_counting_tensor_is_the_parameter(self):
        for operation, name, inputs in (
            ("transform", "point_counts", {"points": POINTS}),
            ("nms", "box_counts", {"boxes": BOXES, "scores": np.arange(60).astype("<f4")}),
        ):
            counts = np.array([len(next(iter(inputs.values()))) - 7, 7], "<i4")
            tensors, metadata = self.plain(operation, f"{name}={counts[0]},{counts[1]}", inputs)
            for way, described, arrays in self.ways_in({**inputs, name: counts}):
                body, headers = infer.body_of(described, arrays, parameters={"binary_data_output": True})
                answered, told = infer.parse(self.ask(f"/v2/models/{operation}/infer", body, headers))
                self.same(answered, tensors, way)
                self.same_counts(json.loads(told["parameters"]["metadata"]), metadata, way)

    def test_a_body_that_is_the_points_alone(self):
        preset = "kitti_second"
        tensors, _ = self.plain("voxelize", f"preset={preset}", {"points": POINTS})
        for coding in CODERS:
            reply = self.ask(f"/v2/models/{preset}/infer", POINTS.tobytes(), {infer.HEAD: "0"}, coding)
            self.same(infer.parse(reply)[0], tensors, coding)


if __name__ == "__main__":
    unittest.main()
