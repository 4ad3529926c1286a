"""Compares the daemon's answer with the oracle's: the file's layout, every byte of tensors, every count."""

import json
import os
import struct
import tempfile
import urllib.parse

import numpy as np
import safetensors.numpy

import oracle
import samples
from daemon import OneDaemonCase

DTYPES = {"F32": np.float32, "F16": np.float16, "I32": np.int32, "I64": np.int64, "U8": np.uint8}
ALIGNMENT = 64


def _no_duplicates(pairs):
    names = [name for name, _ in pairs]
    assert len(names) == len(set(names)), f"a JSON object of the file names a key twice: {names}"
    return dict(pairs)


def parse_by_hand(file):
    """(tensors, metadata) of a safetensors file. Checks the rules of the format and of the service."""
    assert len(file) >= 8, f"a file of {len(file)} bytes"
    (length,) = struct.unpack_from("<Q", file)
    assert length <= 100_000_000 and 8 + length <= len(file), f"a header of {length} bytes in a file of {len(file)}"
    text = file[8 : 8 + length]
    assert text[:1] == b"{", f"the header begins with {text[:10]!r}"
    header = json.loads(text.decode("utf-8"), object_pairs_hook=_no_duplicates)
    extra = header.pop("__metadata__")
    assert set(extra) <= {"voxeld", "filter"} and extra.get("filter", "shuffle") == "shuffle", extra
    assert all(isinstance(v, str) for v in extra.values()), f"__metadata__ holds something else than strings: {extra}"
    tensors, end = {}, 0
    for name, info in sorted(header.items(), key=lambda item: (item[1]["data_offsets"][0], item[1]["data_offsets"][1])):
        first, last = info["data_offsets"]
        assert set(info) == {"dtype", "shape", "data_offsets"}, f"{name}: {info}"
        assert first == end, f"{name} begins at {first}, the tensor before it ended at {end}"
        end = last
        dtype = np.dtype(DTYPES[info["dtype"]]).newbyteorder("<")
        count = int(np.prod(info["shape"], dtype=np.int64))
        assert last - first == count * dtype.itemsize, f"{name}: {info} is not {count} values of {dtype.itemsize} bytes"
        if name.startswith("_padding_"):
            continue
        assert (8 + length + first) % ALIGNMENT == 0, f"{name} begins at byte {8 + length + first} of the file"
        tensors[name] = np.frombuffer(file, dtype, count, 8 + length + first).reshape(info["shape"])
        if "filter" in extra and count and len(info["shape"]) < 3:  # byte 0 of all rows, then byte 1 of all rows, ...
            width = dtype.itemsize * (info["shape"][1] if len(info["shape"]) > 1 else 1)
            planes = np.frombuffer(file, np.uint8, last - first, 8 + length + first).reshape(width, -1)
            tensors[name] = np.ascontiguousarray(planes.T).view(dtype).reshape(info["shape"])
    assert 8 + length + end == len(file), f"the tensors end at byte {8 + length + end} of {len(file)}"
    return tensors, json.loads(extra["voxeld"], object_pairs_hook=_no_duplicates)


def _as_words(array):
    """Rows of unsigned integers, whose comparison distinguishes NaNs and signs of zero."""
    word = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}[array.dtype.itemsize]
    rows = array.shape[0] if array.ndim else 1
    return np.ascontiguousarray(array).view(word).reshape(rows, -1) if array.size else np.zeros((rows, 0), word)


def _show(array, row):
    values, words = array[row].reshape(-1), _as_words(array)[row]
    if array.dtype.kind != "f":
        return str(values.tolist())
    return ", ".join(f"{v!r} ({w:#0{2 + 2 * array.dtype.itemsize}x})" for v, w in zip(values.tolist(), words.tolist()))


def difference(name, expected, got):
    """Where two tensors first differ and in how many rows, or None."""
    if expected.dtype != got.dtype or expected.shape != got.shape:
        return f"tensor {name}: expected {expected.dtype}{list(expected.shape)}, got {got.dtype}{list(got.shape)}"
    differing = (_as_words(expected) != _as_words(got)).any(axis=1)
    if not differing.any():
        return None
    row = int(np.argmax(differing))
    if expected.ndim == 3:  # find the point of the voxel
        inner = int(np.argmax((_as_words(expected[row]) != _as_words(got[row])).any(axis=1)))
        place, expected, got, row = f"row {row}, point {inner}", expected[row], got[row], inner
    else:
        place = f"row {row}"
    return (
        f"tensor {name}, {place} (first of {int(differing.sum())} rows that differ):\n"
        f"  expected {_show(expected, row)}\n  got      {_show(got, row)}"
    )


def same_tensors(expected, got):
    """The differences between two sets of tensors, as text lines."""
    problems = [f"tensor {name} is missing" for name in expected.keys() - got.keys()]
    problems += [f"tensor {name} was not asked for" for name in got.keys() - expected.keys()]
    found = (difference(name, expected[name], got[name]) for name in expected if name in got)
    return problems + [text for text in found if text]


def _same_parameters(query, shown):
    """Parameters of the query that the metadata lacks, or has with another value."""
    problems = []
    for name, text in query.items():
        if name == "timeout_ms" or name not in shown:
            problems += [f"metadata.parameters has no {name}"] if name not in shown else []
            continue
        value = shown[name]
        if name in ("point_cloud_range", "voxel_size"):
            good = [np.float32(float(v)) for v in text.split(",")] == [np.float32(v) for v in value]
        elif name == "block_filter" and text != "off":
            good = [np.float32(float(v)) for v in text.split(",")] == [np.float32(v) for v in value]
        elif name in ("feature", "outputs"):
            good = sorted(text.split(",")) == sorted(value)
        elif name == "point_counts" or (name in ("fps", "num_samples") and "," in text):
            good = [int(v) for v in text.split(",")] == value
        else:
            good = text == str(value)
        problems += [] if good else [f"metadata.parameters.{name}: sent {text}, shown {value}"]
    return problems


# Warnings that the points do not fit the preset's model; random points may cause them.
UNLIKE_THE_MODEL = ("intensity", "ground_z", "time")
# Warnings that depend on which rows the service samples.
SAMPLED = (*UNLIKE_THE_MODEL, "feature_not_finite")


def _kinds_of_warnings(points, voxels):
    """The warnings that follow from the counts."""
    finite, out = points["received"] - points["not_finite"], points.get("out_of_range", 0)
    kinds = [] if points["received"] else ["empty"]
    kinds += ["max_voxels"] if voxels and voxels["dropped"] else []
    kinds += ["out_of_range"] if finite and 20 * (finite - out) <= finite else []
    return kinds + (["not_finite"] if finite < points["received"] and 20 * finite <= points["received"] else [])


def same_metadata(result, metadata, query):
    problems = _same_parameters(query, metadata["parameters"])
    batch = {"size": len(result.batch_points), "points": result.batch_points}
    batch |= {} if result.batch_voxels is None else {"voxels": result.batch_voxels}
    batch |= {} if result.batch_samples is None else {"samples": result.batch_samples}
    for what, expected in (
        ("grid_size", result.grid_size),
        ("points", result.points),
        ("voxels", result.voxels),
        ("samples", None if result.batch_samples is None else {"chosen": sum(result.batch_samples)}),
        ("batch", batch),
        ("warnings", _kinds_of_warnings(result.points, result.voxels)),
    ):
        if what == "warnings":
            kinds = [warning["kind"] for warning in metadata[what]]
            metadata = metadata | {what: [kind for kind in kinds if kind not in SAMPLED]}
        if expected != metadata.get(what):
            problems.append(f"metadata.{what}: expected {expected}, got {metadata.get(what)}")
    stages = {"receive", "queue", "copy_in", "voxelize", "features", "scatter", "sample", "copy_out", "total"}
    if set(metadata["timing_us"]) != stages or any(t < 0 for t in metadata["timing_us"].values()):
        problems.append(f"metadata.timing_us: {metadata['timing_us']}")
    return problems


def path_of(query):
    endpoint = "/v1/fps?" if "num_samples" in query else "/v1/voxelize?"
    return endpoint + urllib.parse.urlencode(query, safe=",")


def answer_of(query, body, params=None):
    """The oracle's answer to this request. `params` is needed if the query takes some from a preset."""
    if "num_samples" in query:
        return samples.of_points(query, body)
    params = params or oracle.Params.from_values(query)
    counts = [int(n) for n in query["point_counts"].split(",")] if "point_counts" in query else None
    if "fps" in query:
        return samples.of_voxels(query, params, body, counts)
    return oracle.voxelize(params, body, counts)


class OracleCase(OneDaemonCase):
    """Tests that compare a daemon's answers with the oracle's."""

    def reproducer(self, path, body):
        folder = tempfile.mkdtemp(prefix="voxeld-")
        with open(os.path.join(folder, "body.bin"), "wb") as file:
            file.write(body)
        url = f"localhost:8080{path}"
        return f"curl --fail-with-body --data-binary @{folder}/body.bin '{url}' -o {folder}/answer.safetensors"

    def fail_with(self, what, path, body, problems):
        self.fail(f"{what}:\n" + "\n".join(problems) + f"\nto see it again: {self.reproducer(path, body)}")

    def check(self, query, body, params=None, what="", result=None):
        """Posts, and fails unless the answer is `result`, by default the oracle's. `params`: as for answer_of."""
        result = result or answer_of(query, body, params)
        path = path_of(query)
        reply = self.daemon.post(path, body)
        if reply.status != 200:
            self.fail_with(what, path, body, [f"expected 200, got {reply}"])
        self.assertEqual(reply.headers["Content-Type"], "application/vnd.safetensors")
        try:
            tensors, metadata = parse_by_hand(reply.body)
        except AssertionError as broken:
            self.fail_with(what, path, body, [f"the file is broken: {broken}"])
        problems = same_tensors(result.tensors, tensors) + same_metadata(result, metadata, query)
        read = {n: t for n, t in safetensors.numpy.load(reply.body).items() if not n.startswith("_padding_")}
        if not problems:
            problems = [f"through the safetensors library: {p}" for p in same_tensors(result.tensors, read)]
        if metadata["request_id"] != reply.headers["X-Request-Id"]:
            problems.append(
                f"request id {metadata['request_id']} in the metadata, {reply.headers['X-Request-Id']} in the header"
            )
        if problems:
            self.fail_with(what, path, body, problems)
        return result
