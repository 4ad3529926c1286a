"""The soak's requests, and the answers that they must get.

A Good request has one right answer: the bytes of its tensors and its counts. A Bad request has statuses and a kind of
problem.
"""

import dataclasses
import gzip
import hashlib
import io
import json
import re
import struct
import subprocess
import urllib.parse
from typing import Optional

import numpy as np
from mcap.reader import SeekingReader

import check
import files
import infer
import oracle
import servers
from client import head
from daemon import SCAN

QUICK_POINTS, QUICK_DISTANCES = 40_000, 30_000_000  # limits for the oracle: points, and points times samples
BOX = {"point_cloud_range": "-20,-20,-3,20,20,3", "voxel_size": "0.2,0.2,0.2"}


class Wrong(Exception):
    """A wrong answer."""


@dataclasses.dataclass
class Good:
    query: dict
    body: bytes
    columns: int
    params: Optional[oracle.Params] = None
    rows: Optional[bytes] = None  # the rows of a body in another format
    lines: tuple = ()  # of the head
    tensors: dict = dataclasses.field(default_factory=dict)  # hash of all tensors, by kind of answer
    counts: dict = dataclasses.field(default_factory=dict)
    sizes: dict = dataclasses.field(default_factory=dict)  # bytes of each kind of answer
    hashes: dict = dataclasses.field(default_factory=dict)  # of each tensor

    @property
    def headers(self):
        return dict(line.split(": ") for line in self.lines)

    @property
    def path(self):
        return check.path_of(self.query)

    @property
    def endpoint(self):
        return self.path.partition("?")[0]

    def verify(self, reply, kind):
        if reply.status != 200:
            raise Wrong(f"{reply.status} instead of 200")
        tensors, counts = FINGERPRINTS[kind](reply.body)
        if tensors != self.tensors[kind]:
            raise Wrong(f"other tensors than when it was alone, as {kind}")
        if counts != self.counts:
            raise Wrong(f"other counts than when it was alone: {counts} instead of {self.counts}")

    def take(self, daemon):
        """Gets an answer of each kind while nothing else runs. Returns the safetensors file."""
        files = {}
        for kind, fingerprint in FINGERPRINTS.items():
            reply = daemon.post(self.path, self.body, {**self.headers, "Accept": kind})
            if reply.status != 200:
                raise Wrong(f"{reply.status} to {self.path} as {kind}, while nothing else ran: {reply}")
            files[kind], self.sizes[kind] = reply.body, len(reply.body)
            self.tensors[kind], self.counts = fingerprint(reply.body)
        parsed, _ = check.parse_by_hand(files[TENSORS])
        self.hashes = {name: hash_of(tensor) for name, tensor in parsed.items()}
        return files[TENSORS]

    def learn(self, daemon):
        """Records the answers. Returns True if the oracle has checked them, False if it would take too long."""
        file = self.take(daemon)
        width = 2 if self.query.get("dtype") == "float16" else 4
        rows = self.body if self.rows is None else self.rows
        points = len(rows) // (width * self.columns)
        samples = sum(int(n) for n in self.query.get("num_samples", self.query.get("fps", "0")).split(","))
        if points > QUICK_POINTS or points * samples > QUICK_DISTANCES:
            return False
        result = check.answer_of(self.query, rows, self.params)
        tensors, metadata = check.parse_by_hand(file)
        problems = check.same_tensors(result.tensors, tensors) + check.same_metadata(result, metadata, self.query)
        if problems:
            raise Wrong(f"not what the oracle says, {self.path}: {problems}")
        return True


@dataclasses.dataclass
class Infer(Good):
    """A request in KServe's protocol, to the preset of the query. The plain request with the body `rows` gives the
    right tensors; here `tensors` has a hash for each tensor's name."""

    @property
    def path(self):
        return f"/v2/models/{self.query['preset']}/infer"

    @property
    def endpoint(self):
        return "/v2/models/*/infer"

    def verify(self, reply, kind):
        if reply.status != 200:
            raise Wrong(f"{reply.status} instead of 200")
        if inferred(reply) != self.tensors:
            raise Wrong("other tensors than those of the plain request, by KServe's protocol")

    def plain(self, daemon):
        return daemon.post(check.path_of(self.query), self.rows)

    def learn(self, daemon):
        tensors, _ = check.parse_by_hand(self.plain(daemon).body)
        self.tensors = {name: hash_of(tensor) for name, tensor in tensors.items()}
        self.verify(daemon.post(self.path, self.body, self.headers), TENSORS)
        return False


def hash_of(array):
    return hashlib.blake2b(f"{array.dtype} {array.shape}".encode() + array.tobytes()).digest()


def inferred(reply):
    """Hash of each tensor of an answer in KServe's protocol."""
    return {name: hash_of(tensor) for name, tensor in infer.parse(reply)[0].items()}


@dataclasses.dataclass
class Bad:
    """`data` is the whole request. If `problem` is None, libmicrohttpd itself answers or closes. `keeps`: the
    connection stays open."""

    data: bytes
    statuses: tuple
    problem: Optional[str] = None
    keeps: bool = True

    @property
    def endpoint(self):
        """The endpoint as the daemon counts it: unknown if the request or its URI is malformed."""
        if self.problem in (None, "bad-request"):
            return "unknown"
        return re.sub("/(models|region)/[^/]+", r"/\1/*", self.data.split(b" ")[1].split(b"?")[0].decode())

    def verify(self, reply):
        if reply.status not in self.statuses:
            raise Wrong(f"{reply.status} instead of {self.statuses}")
        if self.problem:
            verify_problem(reply, self.problem)


def verify_problem(reply, name):
    document = reply.json()
    if (document["type"], document["status"]) != (f"urn:voxeld:problem:{name}", reply.status):
        raise Wrong(f"{document} instead of {name}")
    if document["request_id"] != reply.headers["X-Request-Id"]:
        raise Wrong("two request ids")


PAGES = {
    "/v1/status": lambda body: json.loads(body)["limits"],
    "/v1/presets": lambda body: json.loads(body)["presets"],
    "/v1/presets/kitti_second": lambda body: json.loads(body)["parameters"],
    "/metrics": lambda body: b"\nvoxeld_connections " in body,
    "/healthz": lambda body: body == b"ok\n",
    "/readyz": lambda body: body in (b"ready\n", b"degraded\n"),
    "/openapi.yaml": lambda body: b"\npaths:" in body,
    "/v2": lambda body: json.loads(body)["extensions"],
    "/v2/models/kitti_second": lambda body: json.loads(body)["outputs"],
    "/v2/models/stats": lambda body: json.loads(body)["model_stats"],
}


def verify_page(path, reply):
    if reply.status != 200 or not PAGES[path](reply.body):
        raise Wrong(f"{path}: {reply}")


def counts_of(metadata):
    return {
        name: metadata.get(name) for name in ("points", "boxes", "anchors", "candidates", "voxels", "samples", "batch")
    }


def fingerprint_json(file):
    return b"", counts_of(json.loads(file))


def fingerprint_npz(file):
    """Hash of the arrays and their description, and the metadata's counts."""
    digest = hashlib.blake2b()
    with np.load(io.BytesIO(file)) as arrays:
        metadata = json.loads(arrays["metadata.json"])
        for name in arrays.files[:-1]:
            array = arrays[name]
            digest.update(f"{name} {array.dtype} {array.shape}".encode() + array.tobytes())
    return digest.digest(), counts_of(metadata)


def fingerprint_mcap(file):
    """Hash of the clouds without their times, and the metadata's counts."""
    digest = hashlib.blake2b()
    reader = SeekingReader(io.BytesIO(file))
    for _, channel, message in reader.iter_messages():
        digest.update(f"{channel.topic} {message.sequence}".encode() + message.data[12:])
    (record,) = reader.iter_metadata()
    return digest.digest(), counts_of(json.loads(record.metadata["metadata"]))


def fingerprint_safetensors(file):
    """Hash of everything except the metadata, and the metadata's counts. Checks the file's length."""
    (length,) = struct.unpack_from("<Q", file)
    header = json.loads(file[8 : 8 + length])
    metadata = json.loads(header.pop("__metadata__")["voxeld"])
    end = max(info["data_offsets"][1] for info in header.values())
    if 8 + length + end != len(file):
        raise Wrong(f"{len(file)} bytes, but the header speaks of {8 + length + end}")
    digest = hashlib.blake2b(json.dumps(header, sort_keys=True).encode())
    digest.update(memoryview(file)[8 + length :])
    return digest.digest(), counts_of(metadata)


TENSORS = "application/vnd.safetensors"
# The kinds of answer. Each function returns a hash of the tensors, which is empty for JSON, and the counts.
FINGERPRINTS = {
    TENSORS: fingerprint_safetensors,
    "application/x-shuffled-safetensors": fingerprint_safetensors,
    "application/json": fingerprint_json,
    "application/x-npz": fingerprint_npz,
    "application/x-mcap": fingerprint_mcap,
}


# --- the requests -----------------------------------------------------------------------------------------------------


def read_clouds(work, names, columns, sensor):
    """Arrays of rows: real scans, or simulated scans if a real one is missing."""
    paths = [servers.SCANS / f"{name}.bin" for name in names]
    if not all(path.is_file() for path in paths):
        paths = [work / f"{sensor}-{columns}-{seed}.bin" for seed in range(len(names))]
        for seed, path in enumerate(paths):
            command = [SCAN, "--sensor", sensor, "--columns", str(columns), "--seed", str(seed)]
            subprocess.run([*command, "--output", path], check=True)
    return [np.fromfile(path, "<f4").reshape(-1, columns) for path in paths]


def thin(cloud, points):
    """At most `points` points, evenly strided."""
    return cloud[:: max(1, -(-len(cloud) // points))] if points else cloud[:0]


def preset_requests(daemon, clouds, largest):
    """Every preset that the oracle knows, with clouds of zero, one, some and many points."""
    for name, values in oracle.known_presets(daemon.get("/v1/presets").json()["presets"]).items():
        columns = values["num_features"]
        params = oracle.Params.from_values(values)
        for number, points in enumerate((0, 1, 100, largest // 8, largest)):
            body = thin(clouds[columns][number % len(clouds[columns])], points).tobytes()
            yield Good({"preset": name}, body, columns, params)


def other_requests(cloud, largest):
    """Parameters that no preset has."""
    some = thin(cloud, min(largest, 20_000))
    few = thin(cloud, 2000)
    for query in (
        {"order": "key", "max_points_per_voxel": "0"},
        {"feature": "points,mean,pillar", "fill": "mean", "max_points_per_voxel": "5", "order": "key"},
        {"outputs": "point_voxel_ids,voxel_point_mask", "max_voxels": "500"},
        {"feature": "pillar", "feature_dtype": "float16", "max_points_per_voxel": "20"},
        {"block_filter": "8,3,0.1,4"},
    ):
        # The oracle reads all parameters from the query.
        yield Good(BOX | query, some.tobytes(), 4)
    half = {"dtype": "float16", "max_points_per_voxel": "3"}
    yield Good(BOX | half, some.astype("<f2").tobytes(), 4)
    named = files.structured({name: some[:, place] for place, name in enumerate(("x", "y", "z", "intensity"))})
    packed = files.structured({name: few[:, place] for place, name in enumerate(("x", "y", "z", "intensity"))})
    for name, body, rows in (
        ("pcd", files.pcd(packed, "ascii"), few),
        ("pcd", files.pcd(packed, "binary_compressed"), few),
        ("ply", files.ply(named), some),
        ("pointcloud2", files.pointcloud2(named, padding=3), some),
    ):
        yield Good(BOX | {"format": name}, body, 4, rows=rows.tobytes())
    batch = {"point_counts": f"0,{len(few)},{len(some)}"}
    yield Good(BOX | batch, np.concatenate((few, some)).tobytes(), 4)
    yield Good(BOX | {"fps": "64"}, few.tobytes(), 4)
    for samples, body in (("0", few), ("256", few), ("1024", thin(cloud, largest))):
        yield Good({"num_samples": samples, "num_features": "4"}, body.tobytes(), 4)
    lists = {
        "point_counts": f"{len(few)},{len(few)}",
        "num_samples": "100,7",
        "outputs": "sampled_distances,sampled_indices",
    }
    yield Good({"num_features": "4"} | lists, np.concatenate((few, few[::-1])).tobytes(), 4)


def infer_requests(cloud, largest):
    """Requests with points as bytes or as JSON, for tensors as bytes or as JSON."""
    for points, outputs in ((largest, None), (1000, ["voxel_coords", "voxel_features"]), (0, None)):
        rows = thin(cloud, points)
        given = {"name": "points", "shape": rows.shape, "datatype": "FP32"}
        sent = {**given, "parameters": {"binary_data_size": rows.nbytes}}
        query = {"preset": "kitti_second"} | ({"outputs": ",".join(outputs)} if outputs else {})
        asked = {"parameters": {"binary_data_output": True}}
        if outputs:
            asked["outputs"] = [{"name": name} for name in outputs[:1]]
            asked["outputs"] += [{"name": name, "parameters": {"binary_data": False}} for name in outputs[1:]]
        head_ = json.dumps({"inputs": [sent], **asked}).encode()
        line = f"Inference-Header-Content-Length: {len(head_)}"
        yield Infer(query, head_ + rows.tobytes(), 4, rows=rows.tobytes(), lines=(line,))
        if not outputs:
            yield Infer(query, rows.tobytes(), 4, rows=rows.tobytes(), lines=("Inference-Header-Content-Length: 0",))
        if points < largest:
            body = json.dumps({"inputs": [{**given, "data": rows.tolist()}], **asked}).encode()
            yield Infer(query, body, 4, rows=rows.tobytes())


def good_requests(daemon, work, largest):
    clouds = {
        4: read_clouds(work, ("kitti_raw_00", "kitti_fov_0", "kitti_raw_09"), 4, "hdl64"),
        5: read_clouds(work, ("nuscenes_10sweeps", "nuscenes_sweep"), 5, "hdl64"),
    }
    cloud = clouds[4][0]
    return [
        *preset_requests(daemon, clouds, largest),
        *other_requests(cloud, largest),
        *infer_requests(cloud, largest),
    ]


def bad_requests(daemon, max_body_bytes):
    """Refusals of many kinds, none of which depends on the daemon's load."""
    ambiguous = (
        "bad-request" if daemon.library() < (1, 0) else None
    )  # later versions of the library refuse `smuggled` themselves
    grid = urllib.parse.urlencode(BOX, safe=",")
    rows = bytes(160)

    def post(query, body=rows, *lines, path="/v1/voxelize"):
        return head("POST", f"{path}?{query}", f"Content-Length: {len(body)}", *lines) + body

    def plain(line, *lines, body=b""):
        return (line + "\r\n" + "".join(text + "\r\n" for text in lines) + "\r\n").encode() + body

    two_lengths = ("Content-Length: 160", "Content-Length: 16")
    smuggled = ("Content-Length: 160", "Transfer-Encoding: chunked")
    flood = [f"X-{n}: {'a' * 200}" for n in range(3000)]
    return [
        Bad(head("GET", "/nowhere"), (404,), "not-found"),
        Bad(head("GET", "/v1/presets/nobody"), (404,), "not-found"),
        Bad(post("", path="/nowhere"), (404,), "not-found"),
        Bad(post("", path="/healthz"), (405,), "method-not-allowed"),
        Bad(head("GET", "/v1/voxelize"), (405,), "method-not-allowed"),
        Bad(post(""), (400,), "bad-parameter"),
        Bad(post("preset=nobody"), (400,), "bad-parameter"),
        Bad(post(grid + "&max_voxels=0"), (400,), "bad-parameter"),
        Bad(post(grid + "&max_voxels=1&max_voxels=1"), (400,), "bad-parameter"),
        Bad(post(grid + "&nonsense=1"), (400,), "bad-parameter"),
        Bad(post("num_samples=x", path="/v1/fps"), (400,), "bad-parameter"),
        Bad(post(grid + "&" + "&".join(f"a{n}=1" for n in range(200))), (400,), "bad-parameter"),
        Bad(post(grid, rows[:-1]), (400,), "bad-body"),
        Bad(post(grid + "&point_counts=3,4"), (400,), "bad-body"),
        Bad(post(grid + "&format=pcd"), (400,), "bad-body"),
        Bad(post(grid + "&format=ply", b"ply\nformat ascii 1.0\nend_header\n"), (400,), "bad-body"),
        Bad(post("", path="/v2/models/nobody/infer"), (404,), "not-found"),
        Bad(post("", path="/v2/models/fps/infer"), (400,), "bad-body"),
        Bad(post("", b'{"inputs":[]}', path="/v2/models/fps/infer"), (400,), "bad-parameter"),
        Bad(post("", path="/v2/repository/models/fps/load"), (501,), "unsupported"),
        Bad(post(grid + "&points_region=nobodys,0,160", b""), (400,), "bad-parameter"),
        Bad(post("", b"{}", path="/v2/cudasharedmemory/region/a/register"), (501,), "no-shared-memory"),
        Bad(post("", b"no file", path="/v1/nms"), (400,), "bad-body"),
        Bad(post("", b'{"inputs":[]}', path="/v2/models/nms/infer"), (400,), "bad-body"),
        Bad(post(grid + "&output_region=scan,0"), (400,), "bad-parameter"),
        Bad(post("preset=%zz"), (400,), "bad-request"),
        Bad(post("preset=kitti%00second"), (400,), "bad-request"),
        Bad(
            plain(f"POST /v1/voxelize?{grid} HTTP/1.1", "Host: a", *two_lengths, body=rows),
            (400,),
            "bad-request",
            False,
        ),
        Bad(plain(f"POST /v1/voxelize?{grid} HTTP/1.1", "Host: a", *smuggled), (400,), ambiguous, False),
        Bad(head("POST", f"/v1/voxelize?{grid}"), (411,), "length-required", False),
        Bad(
            head("POST", f"/v1/voxelize?{grid}", f"Content-Length: {max_body_bytes + 16}"),
            (413,),
            "body-too-large",
            False,
        ),
        Bad(head("POST", f"/v1/voxelize?{grid}", "Content-Length: 1000000000000000"), (413,), "body-too-large", False),
        Bad(post(grid, rows, "Content-Type: text/plain"), (415,), "unsupported-media-type"),
        Bad(post(grid, rows, "Content-Encoding: br"), (415,), "unsupported-media-type"),
        Bad(post(grid, rows, "Content-Encoding: gzip"), (400,), "bad-body"),
        Bad(post(grid, gzip.compress(rows)[:-1], "Content-Encoding: gzip"), (400,), "bad-body"),
        Bad(post(grid, gzip.compress(rows[:-1]), "Content-Encoding: gzip"), (400,), "bad-body"),
        Bad(post(grid, gzip.compress(bytes(max_body_bytes + 16)), "Content-Encoding: gzip"), (413,), "body-too-large"),
        Bad(post("point_cloud_range=0,0,0,1e9,1e9,1e9&voxel_size=1e-3,1e-3,1e-3"), (422,), "impossible"),
        Bad(post("num_samples=11", path="/v1/fps"), (422,), "impossible"),
        Bad(post("num_samples=1&start=10", path="/v1/fps"), (422,), "impossible"),
        # libmicrohttpd's own answers. It may also close the connection without an answer.
        Bad(plain("NONSENSE"), (400,), None, False),
        Bad(plain("GET /healthz HTTP/2.0", "Host: a"), (505,), None, False),
        Bad(head("GET", "/healthz?" + "a" * 300_000), (414, 431), None, False),
        Bad(plain("GET /healthz HTTP/1.1", "Host: a", *flood), (431,), None, False),
        Bad(head("POST", f"/v1/voxelize?{grid}", "Transfer-Encoding: chunked") + b"xyz\r\n", (400,), None, False),
        Bad(bytes(range(256)) * 4, (400,), None, False),
    ]
