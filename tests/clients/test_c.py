"""The C client and the sensor example, under ASan if that is built: values, refusals, retries, restarts, rubbish,
signals."""

import gzip
import itertools
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.parse
import zlib
from unittest import mock

import numpy as np

import boxes
import centers
import check
import fake_cuda
import oracle
import range_images
import samples
import serialize
import steps
import uplink_rows
import voxeld
from credentials import Authority, TlsDaemon
from daemon import PATIENCE, ROOT, Daemon, wait_until
from rude_server import (
    DATE,
    GRID,
    INTERIM,
    LASTING,
    PASSING,
    RETRY_AFTER,
    RudeServer,
    Talk,
    answer,
    bad_chunks,
    chunked,
    last,
    no_answers,
    of_nobody,
    problem,
    status_document,
    token_file,
    torn,
    url_of,
)
from tables import describe, operation_of
from test_python_rude import DAMAGED

QUERY = "&".join(f"{name}={','.join(map(str, value))}" for name, value in GRID.items())
SAFETENSORS = "application/vnd.safetensors", DAMAGED["none"]
SOUND = answer(200, {"Content-Type": SAFETENSORS[0]}, SAFETENSORS[1])


def program(variable):
    """The program that ctest names; another may be left over from an earlier build."""
    if variable in os.environ:
        return os.environ[variable]
    print(f"skipped: there is no {variable}; the build found no libcurl")
    sys.exit(77)


def libcurl_version():
    text = subprocess.run(("pkg-config", "--modversion", "libcurl"), check=True, capture_output=True, text=True).stdout
    return tuple(int(part) for part in text.split("."))


CLIENT = program("VOXELD_C_CLIENT")
SENSOR = program("VOXELD_SENSOR")


def rows(number, seed=1):
    return np.random.default_rng(seed).uniform(-9, 9, (number, 4)).astype(np.float32).tobytes()


def packed(operation, tensors):
    """Options that post these tensors. Their data are the body."""
    described = (f"{name}:{one.dtype}:{','.join(map(str, one.shape))}" for name, one in tensors.items())
    return [operation, *(part for tensor in described for part in ("-s", tensor))]


def body_of(tensors):
    return b"".join(one.tobytes() for one in tensors.values())


def text_of(query):
    return "&".join(f"{name}={value}" for name, value in query.items())


def damaged(rng, file):
    """The file after one to three changes, most of them of its header."""
    file, header = bytearray(file), 8 + int.from_bytes(file[:8], "little")
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(min(len(file), header) if rng.random() < 0.9 else len(file))
        new = bytes(rng.choice(b'0123456789[]{}",:-.eE') for _ in range(rng.randint(0, 3)))
        file[at : at + rng.choice((0, len(new), rng.randint(0, 9)))] = new
    return bytes(file)


def shapes_of(client):
    """The tensors' shapes by the Python client, or the C client's word for a bad answer."""
    try:
        return {name: tensor.shape for name, tensor in client.voxelize(b"").items()}
    except voxeld.BadAnswer:
        return "BAD_ANSWER"


class CCase(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def calls(self, url, *options, body=b"", query=QUERY, **environment):
        """The result of each call; self.tensors has the last call's tensors."""
        path = self.folder / "tensors"
        arguments = [CLIENT, "-u", url, "-q", query, "-o", str(path), *map(str, options)]
        done = subprocess.run(
            arguments, input=body, capture_output=True, timeout=PATIENCE, env={**os.environ, **environment}
        )
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        data, self.tensors = path.read_bytes(), {}
        for tensor in lines[-1]["tensors"]:
            self.assertTrue(tensor["aligned"], tensor)
            array = np.frombuffer(data[: tensor["bytes"]], tensor["dtype"])
            self.tensors[tensor["name"]] = array.reshape(tensor["shape"])
            data = data[tensor["bytes"] :]
        self.assertEqual(data, b"")
        return lines

    def call(self, url, *options, **more):
        (line,) = self.calls(url, *options, **more)
        return line


class Calls(CCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--max-body-bytes", "2000000")
        cls.url = url_of(cls.daemon)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def test_serialize(self):
        body = rows(500)
        self.call(self.url, "-Z", query="voxel_size=1&orders=hilbert,z&strides=2", body=body)
        asked = {"voxel_size": "1", "orders": "hilbert,z", "strides": "2"}
        points = np.frombuffer(body, np.float32).reshape(-1, 4)
        expected = serialize.run(asked, [], points, [500])[0]
        answered = {name: expected[name] for name in self.tensors}
        self.assertEqual(self.tensors["serialized_code"].dtype, np.int64)
        self.assertEqual(check.same_tensors(answered, self.tensors), [])

    def test_tensors_are_the_reference(self):
        body = rows(500)
        query = {
            "point_counts": "200,0,300",
            "feature": "points,mean,pillar",
            "feature_dtype": "float16",
            "outputs": ",".join(oracle.TENSORS),
            **{name: ",".join(map(str, value)) for name, value in GRID.items()},
        }
        line = self.call(self.url, query="&".join(f"{name}={value}" for name, value in query.items()), body=body)
        self.assertEqual((line["status"], line["error"], line["received"]), ("OK", "", 500))
        self.assertEqual(json.loads(line["metadata"])["request_id"], line["request_id"])
        expected = oracle.voxelize(oracle.Params.from_values(query), body, [200, 0, 300])
        self.assertEqual(check.same_tensors(expected.tensors, self.tensors), [])

    def test_warnings_are_those_of_the_metadata(self):
        for query, kinds in ((QUERY, []), (QUERY + "&max_voxels=1", ["max_voxels"])):
            line = self.call(self.url, query=query, body=rows(500))
            self.assertEqual([warning["kind"] for warning in line["warnings"]], kinds)
            self.assertEqual(line["warnings"], json.loads(line["metadata"])["warnings"])

    def test_samples_are_the_reference(self):
        query = {"num_samples": "20", "outputs": "sampled_indices,sampled_points,sampled_distances"}
        text = "&".join(f"{name}={value}" for name, value in query.items())
        self.assertEqual(self.call(self.url, "-f", query=text, body=rows(300))["status"], "OK")
        self.assertEqual(check.same_tensors(samples.of_points(query, rows(300)).tensors, self.tensors), [])

    def test_range_images_are_the_reference(self):
        view = range_images.View(16, 64, 30.0, -30.0, channels=("range", 3))
        query = "height=16&width=64&fov_up=30&fov_down=-30&channels=range,intensity&outputs=range_image,point_pixels"
        self.assertEqual(self.call(self.url, "-R", query=query, body=rows(300))["status"], "OK")
        expected, _ = range_images.run(view, np.frombuffer(rows(300), "<f4").reshape(-1, 4), [300])
        expected = {name: expected[name] for name in ("range_image", "point_pixels")}
        self.assertEqual(check.same_tensors(expected, self.tensors), [])

    def test_steps_are_those_of_the_query(self):
        body = rows(500)
        chain = [
            ("transform", "transform", {"cut": "-5,-5,-2,0,0,2;3,3,-2,5,5,2"}),
            ("thin", "downsample", {"voxel_size": "1", "method": "first"}),
        ]
        outputs = ["points", "point_indices", "point_rows", "point_steps"]
        query = "steps=transform,thin:downsample"
        for tag, _, parameters in chain:
            query += "".join(f"&{tag}.{name}={value}" for name, value in parameters.items())
        query += "&outputs=" + ",".join(outputs)
        line = self.call(self.url, "-l", query=query, body=body)
        reference = steps.run(chain, np.frombuffer(body, np.float32).reshape(-1, 4), [500])
        self.assertEqual(check.same_tensors(steps.answer(reference), self.tensors), [])
        self.assertEqual(json.loads(line["metadata"])["steps"], reference.told)
        self.call(self.url, query=f"{QUERY}&{query}", body=body)  # the same steps before voxelize
        self.assertEqual(check.same_tensors(steps.answer(reference), self.tensors), [])
        problem = self.call(self.url, "-l", query="steps=downsample&downsample.voxel_size=-1", body=body)["problem"]
        self.assertEqual((problem["status"], problem["parameter"]), (400, "downsample.voxel_size"))

    def test_all_tensors_of_an_operation(self):
        names = [row["name"] for row in operation_of("voxelize", describe())["tensors"]]
        query = f"{QUERY}&feature=points,mean,pillar&fps=5&steps=transform&outputs={','.join(names)}"
        line = self.call(self.url, query=query, body=rows(500))
        self.assertEqual((line["status"], line["error"]), ("OK", ""))
        self.assertEqual(set(self.tensors), set(names))

    def test_boxes_and_maps_are_the_reference(self):
        rng = np.random.default_rng(8)
        given = {
            "labels": rng.integers(0, 2, 60).astype(np.int32),
            "boxes": np.abs(rng.normal(0, 3, (60, 7))).astype(np.float32),
            "scores": rng.random(60).astype(np.float32),
        }
        query = {"class_agnostic": "no", "iou_threshold": "0.2"}
        self.assertEqual(
            self.call(self.url, *packed("-M", given), query=text_of(query), body=body_of(given))["error"], ""
        )
        self.assertEqual(check.same_tensors(boxes.nms(query, given)[0], self.tensors), [])
        kinds = {"heatmap": np.float16, "rot": np.float32}  # an odd number of float16 values
        shapes = zip(centers.MAPS, (3, 2, 1, 3, 2))
        maps = {name: rng.normal(0, 1, (1, 5, n)).astype(kinds.get(name, np.float32)) for name, n in shapes}
        query = {"head": "center", "point_cloud_range": "0,0,0,9,9,9", "voxel_size": "1,1,1", "feature_map_stride": "2"}
        self.assertEqual(
            self.call(self.url, *packed("-D", maps), query=text_of(query), body=body_of(maps))["error"], ""
        )
        self.assertEqual(check.same_tensors(centers.decode(query, maps)[0], self.tensors), [])
        line = self.call(self.url, *packed("-M", {"boxes": given["boxes"]}), query="", body=given["boxes"].tobytes())
        self.assertEqual(line["problem"]["detail"], "the input scores is missing")

    def test_tensors_that_cannot_be_packed(self):
        """The last tensor is larger than any memory."""
        options = os.environ.get("ASAN_OPTIONS", "") + ":allocator_may_return_null=1"
        calls = {"input": bytes(4), "capture_output": True, "env": {**os.environ, "ASAN_OPTIONS": options}}
        for tensor in ('a"b:float32:1', " :float32:1", "x" * 64 + ":float32:1", "a:float32", "a:float32:" + "1" * 18):
            done = subprocess.run([CLIENT, "-u", self.url, "-s", tensor], **calls)
            self.assertEqual(done.returncode, 4, tensor)

    def test_rows_that_the_caller_has_encoded(self):
        self.call(self.url, body=rows(500))
        plain = self.tensors
        for encoding, body in (("gzip", gzip.compress(rows(500))), ("deflate", zlib.compress(rows(500)))):
            self.assertEqual(self.call(self.url, "-e", encoding, body=body)["status"], "OK")
            self.assertEqual(check.same_tensors(plain, self.tensors), [])
        self.assertEqual(self.call(self.url, "-e", "gzip", body=rows(500))["problem"]["kind"], "bad-body")
        self.assertEqual(self.call(self.url, "-e", "br", body=rows(500))["problem"]["kind"], "unsupported-media-type")

    def test_no_points_give_tensors_without_rows(self):
        self.assertEqual(self.call(self.url)["status"], "OK")
        self.assertEqual(self.tensors["voxel_coords"].shape, (0, 4))

    def test_calls_share_a_connection_and_a_buffer(self):
        before = self.daemon.status()["requests"]["answered"]
        lines = self.calls(self.url, "-n", "10", body=rows(1000))
        self.assertEqual({line["status"] for line in lines}, {"OK"})
        self.assertEqual(len({line["buffer"] for line in lines}), 1)
        wait_until(lambda: self.daemon.status()["requests"]["answered"] - before >= 10, "the calls counted")

    def test_a_problem_has_all_fields(self):
        line = self.call(self.url, query=QUERY + "&max_voxels=0")
        self.assertEqual((line["status"], line["attempts"], line["tensors"]), ("REFUSED", 1, []))
        told = line["problem"]
        self.assertEqual((told["status"], told["kind"], told["parameter"]), (400, "bad-parameter", "max_voxels"))
        self.assertIn("max_voxels is '0'", told["detail"])
        self.assertTrue(told["title"] and line["request_id"])
        self.assertIn(told["detail"], line["error"])

    def test_a_refusal_in_mid_upload_arrives(self):
        lines = self.calls(self.url, "-n", "3", "-r", "0", body=bytes(64 << 20))
        self.assertEqual([line["problem"]["kind"] for line in lines], ["body-too-large"] * 3)

    def test_queries_that_are_none(self):
        for query in ("a b", "a\r\nX-Y: z", "a\x7fb", QUERY + "#&max_voxels=0"):
            line = self.call(self.url, query=query)
            self.assertEqual((line["status"], line["attempts"]), ("FAILED", 0), query)
            self.assertIn("percent-encoded", line["error"])

    def test_rows_that_are_none(self):
        line = self.call(self.url, "-N", body=rows(10))
        self.assertEqual((line["status"], line["attempts"], line["error"]), ("FAILED", 0, "there are no rows"))

    def test_proxies_of_the_environment_are_not_asked(self):
        self.assertEqual(
            self.call(self.url, http_proxy="http://127.0.0.1:1", all_proxy="http://127.0.0.1:1")["status"], "OK"
        )


class Access(CCase):
    def test_a_unix_socket(self):
        path = self.folder / "voxeld.sock"
        with Daemon("--listen", f"unix:{path},127.0.0.1:0"):
            self.assertEqual(self.call(f"unix:{path}")["status"], "OK")
        self.assertEqual(self.call(f"unix:{path}", "-r", "0")["status"], "NO_ANSWER")

    def test_tokens(self):
        token, tokens = token_file(self.folder)
        with Daemon("--token-file", str(tokens), "--allow-anonymous", "yes") as daemon:
            self.assertEqual(self.call(url_of(daemon), "-T", token)["status"], "OK")
            refused = self.call(url_of(daemon), "-T", "wrong", body=rows(100_000))
            self.assertEqual(refused["problem"]["kind"], "invalid-token")

    def test_what_cannot_be_opened(self):
        urls = [
            "ftp://host",
            "localhost:80",
            "http://",
            "http:///path",
            "http://:80",
            "https://user:word@host",
            "unix:",
        ]
        urls += ["http://host?a", "http://host#a"]
        host = ["-u", "http://host"]
        none = (
            [*host, "-t", "0"],
            [*host, "-d", "nan"],
            [*host, "-d", "1e300"],
            [*host, "-r", "-1"],
            [*host, "-m", "0"],
        )
        for options in (*(["-u", url] for url in urls), [*host, "-T", "a\r\nb"], *none):
            self.assertEqual(subprocess.run([CLIENT, *options], stdin=subprocess.DEVNULL).returncode, 3, options)

    @unittest.skipUnless(shutil.which("openssl"), "there is no openssl here")
    def test_tls_and_client_certificates(self):
        authority = Authority(self.folder, "ca")
        authority.sign("server", "subjectAltName=IP:127.0.0.1", "server")
        authority.sign("robot", "extendedKeyUsage=clientAuth", "robot")
        ca, own = authority.path("ca.pem"), ("-c", authority.path("robot.pem"), "-k", authority.path("robot.key"))
        with TlsDaemon(self.folder, "--tls-client-ca", ca, client="robot") as daemon:
            url = url_of(daemon).replace("http", "https")
            lines = self.calls(url, "-n", "3", "-a", ca, *own, body=rows(50_000))
            self.assertEqual([line["received"] for line in lines], [50_000] * 3)
            self.assertEqual(self.call(url, "-a", ca)["problem"]["kind"], "unauthorized")
            good = ("-a", ca)
            for wrong in (
                (),  # an unknown authority
                ("-a", "/nowhere"),
                ("-a", "/dev/null"),
                (*good, "-c", "/nowhere"),
                (*good, "-c", authority.path("robot.pem"), "-k", "/nowhere"),
                (*good, "-c", authority.path("robot.pem"), "-k", authority.path("server.key")),
            ):
                line = self.call(url, *wrong)
                self.assertEqual((line["status"], line["attempts"]), ("FAILED", 1), wrong)
            live = [SENSOR, "-u", url, "-r", "1000", "-a", "/nowhere", "/dev/null", "/dev/null"]
            done = subprocess.run(live, capture_output=True, text=True, timeout=PATIENCE)
            self.assertEqual((done.returncode, done.stdout), (1, "0 scans sent, 0 dropped\n"))
            self.assertIn("/nowhere", done.stderr)


class GpuMemory(CCase):
    """options.cuda. A file stands for the GPU's block; the service reads and writes that file."""

    ROOM = 1 << 22

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon("--workers", "1", "--allow-shared-memory")
        cls.plain = url_of(cls.daemon)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def setUp(self):
        super().setUp()
        self.bridge = fake_cuda.Bridge(self.daemon)
        self.addCleanup(self.bridge.close)
        self.name = f"{fake_cuda.PREFIX}-{os.getpid()}-c"
        path = pathlib.Path("/dev/shm", self.name)
        path.write_bytes(bytes(self.ROOM))
        self.addCleanup(path.unlink)

    def ask(self, *options, **more):
        return self.calls(self.bridge.url, "-r", 0, "-g", self.name, *options, **more)

    def same(self, *options):
        body = rows(500)
        self.call(self.plain, body=body)
        expected = self.tensors
        answered = self.ask(*options, body=body)
        self.assertEqual([line["status"] for line in answered], ["OK"] * len(answered))
        self.assertEqual(check.same_tensors(expected, self.tensors), [])
        self.assertEqual(json.loads(answered[-1]["metadata"])["points"]["received"], 500)
        self.assertEqual(answered[-1]["received"], 500)

    def test_rows_and_answers_in_the_block(self):
        self.same("-G", "-n", 3)
        self.assertRegex(
            self.bridge.targets[-2], rf"output_region=c-\S+,{self.ROOM // 2},\d+&points_region=c-\S+,0,8000$"
        )
        self.assertEqual(len(self.bridge.registered), 1)
        self.assertEqual(self.daemon.get("/v2/systemsharedmemory/status").json(), [])  # voxeld_close unregisters

    def test_rows_elsewhere(self):
        self.same()
        self.assertNotIn("points_region", self.bridge.targets[-2])

    def test_a_region_that_is_lost_is_registered_again(self):
        forward, asked = self.bridge.forward, []

        def lose(handler):
            asked.append(handler.path)
            if len(asked) == 4:  # after unregister, register and a call
                self.daemon.post("/v2/systemsharedmemory/unregister")
            forward(handler)

        self.bridge.forward = lose
        self.same("-G", "-n", 3)

    def test_an_answer_that_is_too_large(self):
        answered = self.ask("-G", body=rows(2000), query=f"{QUERY}&max_points_per_voxel=1000&feature=points")
        self.assertEqual((answered[0]["status"], answered[0]["problem"]["parameter"]), ("REFUSED", "output_region"))

    def test_a_call_without_an_answer(self):
        """The next call first unregisters the block, which is refused while a job still writes."""
        forward, asked = self.bridge.forward, []

        def cut(handler):
            asked.append(handler.path.partition("?")[0].rpartition("/")[2])
            if len(asked) == 3:
                handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{")
                handler.connection.shutdown(socket.SHUT_RDWR)
            elif len(asked) == 4:
                self.bridge.refusal = (503, "region-busy", "", "a job still writes")
                self.bridge.refuse(handler)
                self.bridge.refusal = None
            else:
                forward(handler)

        self.bridge.forward = cut
        answered = self.ask("-G", "-n", 4, body=rows(500))
        self.assertEqual([line["status"] for line in answered], ["NO_ANSWER", "REFUSED", "OK", "OK"])
        self.assertEqual(answered[1]["problem"]["kind"], "region-busy")
        begin, calls = ["unregister", "register"], ["voxelize", "voxelize"]
        self.assertEqual(asked, [*begin, "voxelize", "unregister", *begin, *calls, "unregister"])

    def test_rows_that_go_past_the_end(self):
        (line,) = self.ask("-E", body=rows(500))
        self.assertEqual(line["status"], "FAILED")
        self.assertIn("the rows go past the end of the block", line["error"])

    def test_refusals(self):
        self.bridge.refusal = (501, "no-shared-memory", "", "the service does not allow CUDA memory")
        (line,) = self.ask("-G", body=rows(500))
        self.assertEqual((line["status"], line["problem"]["kind"]), ("REFUSED", "no-shared-memory"))
        self.assertIn("does not allow CUDA memory", line["error"])
        (line,) = self.ask("-G", body=rows(5), query=f"{QUERY}&max_voxels=0")
        self.assertEqual(line["status"], "REFUSED")

    def test_answers_that_make_no_sense(self):
        place = '{"dtype":"F32","shape":[4],"offset":%s}'
        for tensors in ("7", place % 1e30, place % -1, place % (self.ROOM // 2 - 8), place % '"x"', "{}"):
            text = f'{{"output_region":{{"tensors":{{"voxels":{tensors}}}}},"metadata":{{}}}}'
            with self.subTest(tensors), RudeServer(*2 * [status_document("{}")], status_document(text)) as server:
                answered = self.calls(url_of(server), "-r", 0, "-t", 1, "-g", self.name, "-G", body=rows(5))
                self.assertEqual(answered[0]["status"], "BAD_ANSWER", answered)
        region = '{"output_region":{"tensors":{}}'
        broken = ("", "[]", "{}", '{"metadata":7}', region + "}", region + ',"metadata":7}', region + ',"metadata":{')
        for text in broken:
            with self.subTest(text), RudeServer(*2 * [status_document("{}")], status_document(text)) as server:
                answered = self.calls(url_of(server), "-r", 0, "-t", 1, "-g", self.name, "-G", body=rows(5))
                self.assertEqual(answered[0]["status"], "BAD_ANSWER", answered)

    def test_the_direct_connection_takes_only_plain_answers(self):
        """libcurl repeats a call that got another answer, or whose connection ended first."""
        places = '{"voxels":{"dtype":"F32","shape":[2],"offset":64},"flags":{"dtype":"U8","shape":[],"offset":0}}'
        text = '{"output_region":{"name":"r","offset":1,"bytes":2,"tensors":%s},"metadata":{}}' % places
        plain, taken = status_document(text), 2 * [status_document("{}")]
        options = ("-r", 0, "-t", 1, "-g", self.name, "-G", "-n", 2)
        for name, other, requests in (
            ("plain", plain, 5),
            ("spaced", status_document(text.replace('"shape":', '"shape": ')), 5),
            ("refused", problem(429), 6),
            ("chunked", chunked("application/json", b"{}"), 6),
            ("closing", answer(200, {"Connection": "close"}, text.encode()), 6),
            ("two answers", plain + plain, 6),
            ("left", lambda talk: True, 6),
            ("reset", Talk.reset, 6),
        ):
            with self.subTest(name), RudeServer(*taken, other, plain) as server:
                answered = self.calls(url_of(server), *options, body=rows(5))
                self.assertEqual([line["status"] for line in answered], ["OK", "OK"])
                self.assertEqual([tensor["name"] for tensor in answered[0]["tensors"]], ["voxels", "flags"])
                self.assertEqual(len(server.heads), requests)
                self.assertEqual(server.connections, 2 if requests == 5 else 3)
        for cut, requests in ((plain[:-3], 4), (plain[:9], 4)):
            with RudeServer(*taken, last(cut), plain) as server:
                (line,) = self.calls(url_of(server), *options[:-2], body=rows(5))
                self.assertEqual((line["status"], len(server.heads)), ("NO_ANSWER", requests))

    def test_options_that_do_not_go_together(self):
        arguments = [CLIENT, "-u", self.plain, "-q", QUERY, "-g", self.name, "-e", "gzip"]
        self.assertEqual(subprocess.run(arguments, input=b"", capture_output=True).returncode, 3)


class Rude(CCase):
    def talk(self, *acts):
        server = self.enterContext(RudeServer(*acts))
        return server, url_of(server)

    def test_retries_until_served_and_not_before_retry_after(self):
        server, url = self.talk(problem(503, {"Retry-After": "1"}), answer(429), Talk.reset, lambda talk: True, SOUND)
        begin = time.monotonic()
        line = self.call(url, "-b", "0.01", body=rows(100))
        # The reset hits a kept connection: the client replaces it at once, without counting an attempt.
        self.assertEqual((line["status"], line["attempts"], len(server.heads)), ("OK", 4, 5))
        self.assertGreaterEqual(time.monotonic() - begin, 1)

    def test_no_more_than_retries_and_not_past_the_deadline(self):
        server, url = self.talk(problem(503, type="urn:voxeld:problem:queue-full"))
        line = self.call(url, "-b", "0.01", "-r", "3")
        self.assertEqual((line["problem"]["kind"], line["attempts"], len(server.heads)), ("queue-full", 4, 4))
        server, url = self.talk(problem(503, {"Retry-After": "3600"}))
        line = self.call(url)
        self.assertEqual((line["problem"]["retry_after"], line["attempts"], len(server.heads)), (3600, 1, 1))

    def test_latest_is_not_tried_again(self):
        """A repeated request would supersede the requests sent since its first attempt."""
        for query, tries in ((QUERY + "&latest=roof", 1), ("latest=roof&" + QUERY, 1), (QUERY + "&xlatest=roof", 2)):
            server, url = self.talk(problem(503), SOUND)
            self.assertEqual((self.call(url, "-b", "0.01", query=query)["attempts"], len(server.heads)), (tries, tries))
        server, url = self.talk(problem(409, type="urn:voxeld:problem:superseded"), SOUND)
        line = self.call(url, query=QUERY + "&latest=roof")
        self.assertEqual((line["status"], line["problem"]["kind"]), ("REFUSED", "superseded"))
        server, url = self.talk(problem(409, type="urn:voxeld:problem:too-old"), SOUND)
        line = self.call(url, query=QUERY + "&max_age_ms=100&time=7.5")
        self.assertEqual((line["status"], line["problem"]["kind"], len(server.heads)), ("REFUSED", "too-old", 1))

    def test_only_what_may_do_better_is_tried_again(self):
        _, url = self.talk(*LASTING, SOUND)
        lines = self.calls(url, "-n", len(LASTING))
        self.assertEqual([(line["status"], line["attempts"]) for line in lines], [("REFUSED", 1)] * len(LASTING))
        _, url = self.talk(*(one for act in PASSING for one in (act, SOUND)))
        lines = self.calls(url, "-b", "0.01", "-n", len(PASSING))
        self.assertEqual([(line["status"], line["attempts"]) for line in lines], [("OK", 2)] * len(PASSING))

    def test_retry_after_by_the_clock_of_the_server(self):
        _, url = self.talk(*(problem(503, {"Retry-After": text, "Date": DATE}) for text in RETRY_AFTER))
        lines = self.calls(url, "-r", "0", "-n", len(RETRY_AFTER))
        found = dict(zip(RETRY_AFTER, (line["problem"]["retry_after"] for line in lines)))
        self.assertEqual(found, {text: seconds or 0 for text, seconds in RETRY_AFTER.items()})

    def test_what_an_answer_said_is_forgotten_by_the_next_call(self):
        for first, next_one in (
            ({"Retry-After": "3600", "X-Request-Id": "first"}, {}),
            ({"Retry-After": "0", "Date": "Sat, 21 Nov 1998 12:00:00 GMT"},
             {"Retry-After": "Sat, 21 Nov 1998 12:00:09 GMT"}),
        ):  # fmt: skip
            _, url = self.talk(problem(503, first), problem(503, next_one))
            before, after = self.calls(url, "-n", "2", "-r", "0")
            self.assertEqual(before["problem"]["retry_after"], int(first["Retry-After"]))
            self.assertEqual((after["problem"]["retry_after"], after["request_id"]), (0, ""))

    def test_names_of_headers_in_any_case(self):
        for change in (str.lower, str.upper):
            headers = {"Retry-After": "Sat, 21 Nov 2026 12:00:09 GMT", "Date": DATE, "X-Request-Id": "r-1"}
            _, url = self.talk(problem(503, {change(name): value for name, value in headers.items()}))
            line = self.call(url, "-r", "0")
            self.assertEqual((line["problem"]["retry_after"], line["request_id"]), (9, "r-1"))

    def test_spaces_around_the_values_of_headers(self):
        head, empty, body = answer(200, {"X-Request-Id": "r-1"}, SAFETENSORS[1]).partition(b"\r\n\r\n")
        for usual, other in ((b": ", b":"), (b": ", b":\t \t"), (b"\r\n", b" \t\r\n")):
            _, url = self.talk(head.replace(usual, other) + empty + body)
            line = self.call(url)
            self.assertEqual((line["status"], line["request_id"]), ("OK", "r-1"), line)

    def test_truncated_answers(self):
        server, url = self.talk(last(SOUND[:-5]), SOUND)
        line = self.call(url, "-b", "0.01", body=rows(100_000))
        self.assertEqual((line["status"], line["attempts"]), ("OK", 2))
        server, url = self.talk(last(SOUND[:-5]))
        line = self.call(url, "-r", "0")
        self.assertEqual((line["status"], line["tensors"]), ("NO_ANSWER", []))

    def test_a_kept_connection_that_was_closed_is_replaced(self):
        server, url = self.talk(last(SOUND))
        lines = self.calls(url, "-n", "5", "-r", "0")
        self.assertEqual([line["status"] for line in lines], ["OK"] * 5)
        self.assertEqual(server.connections, 5)

    def test_an_answer_that_does_not_come(self):
        _, url = self.talk(lambda talk: not talk.socket.recv(1))
        line = self.call(url, "-t", "1", "-r", "0")
        self.assertEqual((line["status"], line["attempts"]), ("NO_ANSWER", 1))
        line = self.call(url, "-d", "0.3")
        self.assertEqual((line["status"], line["attempts"]), ("NO_ANSWER", 1))

    def test_rubbish(self):
        rubbish = {**no_answers(*SAFETENSORS), "no tensors": answer(200, body=b"{}"), "nothing": answer(204)}
        rubbish["too many headers behind chunks"] = chunked(*SAFETENSORS, end=b"0\r\n" + b"A: b\r\n" * 20_000 + b"\r\n")
        server, url = self.talk(*rubbish.values())
        found = dict(zip(rubbish, (line["status"] for line in self.calls(url, "-n", len(rubbish)))))
        self.assertEqual((found, len(server.heads)), (dict.fromkeys(rubbish, "BAD_ANSWER"), len(rubbish)))
        _, url = self.talk(last(b"HTTP/1.1 200 " + b"x" * 1_000_000))
        self.assertIn(self.call(url, "-r", "0")["status"], ("BAD_ANSWER", "FAILED"))  # libcurl says: out of memory

    def test_answers_that_are_torn(self):
        for name, act in torn(*SAFETENSORS).items():
            with self.subTest(name):
                _, url = self.talk(act, SOUND)
                line = self.call(url, "-b", "0.01")
                self.assertEqual((line["status"], line["attempts"]), ("OK", 2), line)

    def test_chunks_that_are_none(self):
        for name, act in bad_chunks(*SAFETENSORS).items():
            with self.subTest(name):
                _, url = self.talk(act)
                line = self.call(url, "-r", "0")
                self.assertIn((line["status"], line["tensors"]), (("NO_ANSWER", []), ("BAD_ANSWER", [])))

    def test_what_comes_behind_an_answer_answers_nothing(self):
        own = answer(200, {"Content-Type": SAFETENSORS[0], "X-Request-Id": "own"}, SAFETENSORS[1])
        for name, act in of_nobody(*SAFETENSORS).items():
            with self.subTest(name):
                _, url = self.talk(act, own)
                lines = self.calls(url, "-n", "3", "-r", "0")
                self.assertEqual([(line["status"], line["request_id"]) for line in lines],
                                 [("OK", ""), ("OK", "own"), ("OK", "own")])  # fmt: skip

    def test_what_is_said_before_and_after_an_answer_is_not_said_of_it(self):
        _, url = self.talk(INTERIM + SOUND, INTERIM + problem(503))
        lines = self.calls(url, "-n", "2", "-r", "0")
        told = [(line["status"], line["request_id"], line["problem"]["retry_after"]) for line in lines]
        self.assertEqual(told, [("OK", "", 0), ("REFUSED", "", 0)])
        _, url = self.talk(chunked(*SAFETENSORS, end=b"0\r\nX-Request-Id: trailer\r\n\r\n"))
        line = self.call(url)
        self.assertEqual((line["status"], line["request_id"]), ("OK", ""))

    def test_folded_headers_after_another_answer(self):
        folded = SOUND.replace(b"\r\n", b"\r\n folded: by a blank\r\n", 1)
        _, url = self.talk(SOUND, folded)
        lines = self.calls(url, "-n", "5", "-r", "0")  # ASan must find nothing
        sound = [line["status"] == "OK" for line in lines]
        # Older versions take the folded line for a header, and later versions unfold it.
        refuses = (7, 84) <= libcurl_version() < (8,)
        self.assertEqual(sound, [True] + [False] * 4 if refuses else [True] * 5)

    def test_an_answer_that_is_too_large(self):
        for act in (answer(200, body=bytes(2_000_000)), chunked(SAFETENSORS[0], bytes(1 << 20))):
            _, url = self.talk(act)
            line = self.call(url, "-m", "1000000")
            self.assertEqual(line["status"], "BAD_ANSWER")
            self.assertIn("more than 1000000 bytes", line["error"])
        _, url = self.talk(answer(200, {"Content-Length": str(1 << 50)}))
        self.assertEqual(self.call(url)["status"], "BAD_ANSWER")

    def test_an_answer_of_just_the_largest_size(self):
        size = len(DAMAGED["none"])
        for act in (SOUND, chunked(*SAFETENSORS)):
            _, url = self.talk(act)
            self.assertEqual(self.call(url, "-m", size)["status"], "OK")
            self.assertEqual(self.call(url, "-m", size - 1)["status"], "BAD_ANSWER")

    def test_answers_in_chunks(self):
        sound = DAMAGED["none"]
        _, url = self.talk(chunked(SAFETENSORS[0], sound[:1], sound[1:40], sound[40:]))
        self.assertEqual(self.call(url)["status"], "OK")
        self.assertEqual(set(self.tensors), {"a", "b"})

    def test_damaged_tensors(self):
        _, url = self.talk(*(answer(200, {"Content-Type": SAFETENSORS[0]}, body) for body in DAMAGED.values()))
        for name, line in zip(DAMAGED, self.calls(url, "-n", len(DAMAGED))):
            with self.subTest(name):
                self.assertEqual(line["status"], "OK" if name == "none" else "BAD_ANSWER", line)
                self.assertEqual(len(line["tensors"]), 2 if name == "none" else 0)

    def test_random_damage_is_judged_as_by_the_python_client(self):
        rng = random.Random(1)
        bodies = [damaged(rng, DAMAGED["none"]) for _ in range(500)]
        acts = [answer(200, {"Content-Type": SAFETENSORS[0]}, body) for body in bodies]
        with RudeServer(*acts) as server, voxeld.Client(url_of(server), retries=0) as client:
            expected = [shapes_of(client) for _ in bodies]
        _, url = self.talk(*acts)
        lines = self.calls(url, "-n", len(bodies), "-r", "0")
        shapes = [{one["name"]: tuple(one["shape"]) for one in line["tensors"]} or line["status"] for line in lines]
        self.assertEqual(shapes, expected)
        self.assertGreater(len([one for one in expected if one != "BAD_ANSWER"]), 10)

    def test_problems_without_a_sound_document(self):
        kind = {"Content-Type": "application/problem+json"}
        html = answer(500, {"Content-Type": "text/html"}, b"<h1>")
        _, url = self.talk(html, answer(500, kind, b"{"), answer(500, kind, b"[1]"))
        lines = self.calls(url, "-n", "3")
        problems = [(line["status"], line["problem"]["status"], line["problem"]["kind"]) for line in lines]
        self.assertEqual(problems, [("REFUSED", 500, "")] * 3)

    def test_details_that_are_too_long(self):
        _, url = self.talk(problem(500, detail="x" * 5000, title="y" * 5000, parameter="z" * 5000))
        self.assertEqual(self.call(url)["problem"]["detail"], "x" * 511)
        cases = list(itertools.product(("é", "€", "𝄞"), range(4)))  # letters of 2, 3 and 4 bytes, after ASCII
        _, url = self.talk(*(problem(500, detail="x" * before + letter * 500) for letter, before in cases))
        for (letter, before), line in zip(cases, self.calls(url, "-n", len(cases))):
            whole = (511 - before) // len(letter.encode())
            self.assertEqual(line["problem"]["detail"], "x" * before + letter * whole)


class Sensor(CCase):
    def start(self, url, *arguments, **options):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": False}
        process = subprocess.Popen([SENSOR, "-u", url, "-q", QUERY, *map(str, arguments)], **pipes, **options)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def end(self, process, data=b""):
        """Exit status, lines of the output, errors."""
        output, errors = process.communicate(data, timeout=PATIENCE)
        return process.returncode, output.decode().splitlines(), errors.decode()

    def frames(self, number):
        return b"".join(struct.pack("<I", len(body)) + body for body in (rows(100 + n) for n in range(number)))

    def scans(self, number):
        paths = [self.folder / f"scan{n}.bin" for n in range(number)]
        for n, path in enumerate(paths):
            path.write_bytes(rows(100 + n))
        return paths

    def test_scans_from_files(self):
        with Daemon() as daemon:
            status, lines, errors = self.end(self.start(url_of(daemon), *self.scans(3)))
        self.assertEqual((status, lines[-1], errors), (0, "3 scans sent, 0 dropped", ""))
        for n, line in enumerate(lines[:-1]):
            self.assertRegex(
                line, rf"scan{n}\.bin: \d+ voxels; {100 + n} points: kept \d+ .* block_filtered 0; [\d.]+ ms$"
            )

    def test_packed_scans(self):
        """The voxels are those of plain scans; a scan that does not fit ends the program."""
        query = f"{QUERY}&num_features=4"
        with Daemon() as daemon:
            _, plain, _ = self.end(self.start(url_of(daemon), *self.scans(3)))
            status, lines, errors = self.end(self.start(url_of(daemon), "-q", query, "-z", "0", *self.scans(3)))
            self.assertEqual((status, lines[-1], errors), (0, "3 scans sent, 0 dropped", ""))
            counts = [line.rpartition(";")[0] for line in lines[:-1:2]]
            self.assertEqual(counts, [line.rpartition(";")[0] for line in plain[:-1]])
            for n, line in enumerate(lines[1::2]):
                self.assertRegex(line, rf"scan{n}\.bin: packed into [\d.]+ %, largest error 0$")
            status, lines, _ = self.end(self.start(url_of(daemon), "-q", query, "-z", "0"), struct.pack("<I", 0))
            self.assertEqual((status, len(lines), lines[-1]), (0, 2, "1 scans sent, 0 dropped"))  # no percentage
            frame = struct.pack("<I8f", 32, 1e-4, 0, 0, 0, 3e6, 0, 0, 0)
            status, lines, errors = self.end(self.start(url_of(daemon), "-q", query, "-z", "0.001"), frame)
            self.assertEqual((status, lines), (1, ["0 scans sent, 0 dropped"]))
            self.assertIn("frame 1: column 0 has a number that int32 cannot hold in units of 0.001", errors)
            status, _, errors = self.end(self.start(url_of(daemon), "-z", "0.001", *self.scans(1)))
            self.assertEqual(status, 1)
            self.assertIn("the query needs num_features", errors)
        for wrong in ("-1", "inf", "auto", ""):
            self.assertEqual(self.end(self.start("http://localhost", "-z", wrong))[0], 2)

    def test_frames_from_the_standard_input(self):
        frames = b"".join(struct.pack("<I", len(body)) + body for body in (rows(10), b"", rows(200_000)))
        with Daemon() as daemon:
            status, lines, _ = self.end(self.start(url_of(daemon), "-r", "1"), frames)
            self.assertEqual((status, len(lines), lines[-1]), (0, 4, "3 scans sent, 0 dropped"))
            self.assertIn(" 200000 points", lines[2])
            status, lines, errors = self.end(self.start(url_of(daemon)), frames[:-1])
            self.assertEqual((status, lines[-1]), (1, "2 scans sent, 0 dropped"))
            self.assertIn("frame 3: the frame is truncated", errors)
            status, lines, errors = self.end(self.start(url_of(daemon)), frames[:2])
            self.assertEqual((status, lines[-1]), (1, "0 scans sent, 0 dropped"))
            self.assertIn("frame 1: the frame is truncated", errors)

    def test_a_live_sensor_drops_what_finds_no_room(self):
        later = {"Retry-After": "3600"}
        for refusal, scans, frames in (
            (problem(503, later), self.scans(5), b""),
            (answer(502, later), (), self.frames(5)),
        ):
            with RudeServer(SOUND, refusal, SOUND) as server:
                status, lines, _ = self.end(self.start(url_of(server), "-r", "1", *scans), frames)
                self.assertEqual((status, lines[-1], len(server.heads)), (0, "1 scans sent, 4 dropped", 2))

    def test_a_live_sensor_goes_on_after_what_nobody_answers(self):
        def vanish(talk):
            return True

        for scans, frames in ((self.scans(3), b""), ((), self.frames(3))):
            with RudeServer(vanish, SOUND) as server:
                status, lines, _ = self.end(self.start(url_of(server), "-r", "1", *scans), frames)
                self.assertEqual((status, lines[-1]), (0, "2 scans sent, 1 dropped"), lines)

    def test_a_live_sensor_drops_what_is_late(self):
        def slow(talk):
            talk.read_body()
            time.sleep(0.1)  # the time of a hundred scans
            talk.socket.sendall(SOUND)

        with RudeServer(slow) as server:
            status, lines, _ = self.end(self.start(url_of(server), "-r", "1000", *self.scans(3)))
            self.assertEqual((status, lines[-1], len(server.heads)), (0, "1 scans sent, 2 dropped", 1))
            self.assertRegex(lines[1], "dropped, late$")

    def test_a_live_sensor_drops_frames_that_waited_for_the_service_and_then_goes_on(self):
        def slow(talk):
            talk.read_body()
            time.sleep(0.5)  # the time of five frames
            talk.socket.sendall(SOUND)

        with RudeServer(slow, SOUND) as server:
            sensor = self.start(url_of(server), "-r", "10")
            sensor.stdin.write(self.frames(3))
            sensor.stdin.flush()
            self.assertRegex(sensor.stdout.readline(), rb"^frame 1: .* ms\n$")
            self.assertEqual(sensor.stdout.readline(), b"frame 2: dropped, late\n")
            self.assertEqual(sensor.stdout.readline(), b"frame 3: dropped, late\n")

            def send():
                time.sleep(0.3)  # a pause of the source for the time of three frames
                sensor.stdin.write(self.frames(1))
                sensor.stdin.flush()
                return sensor.stdout.readline()

            for _ in range(3):
                wait_until(lambda: send().endswith(b" ms\n"), "a frame that is sent")
            self.assertEqual(self.end(sensor)[0], 0)

    def test_rates_that_are_none(self):
        for rate in ("abc", "", "10x", "0", "-1", "nan", "inf", "1e999", "1e-320"):
            status, lines, errors = self.end(self.start("http://127.0.0.1:1", "-r", rate, "/dev/null"))
            self.assertEqual((status, lines), (2, []), rate)
            self.assertIn("HZ is above 0", errors)

    def test_a_refusal_for_good_ends_it(self):
        with RudeServer(SOUND, problem(422, detail="too much")) as server:
            for live in ((), ("-r", "1")):
                server.acts = [SOUND, problem(422, detail="too much")]
                status, lines, errors = self.end(self.start(url_of(server), *live, *self.scans(5)))
                self.assertEqual((status, lines[-1]), (1, "1 scans sent, 0 dropped"))
                self.assertIn("scan1.bin: 422", errors)

    def test_a_restart_in_between_is_not_noticed(self):
        daemon = Daemon()
        sensor = self.start(url_of(daemon))
        body = rows(1000)
        frame = struct.pack("<I", len(body)) + body

        def post(number):
            sensor.stdin.write(frame * number)
            sensor.stdin.flush()
            for _ in range(number):
                self.assertIn(b"1000 points", sensor.stdout.readline())

        for ending in (signal.SIGKILL, signal.SIGTERM):
            post(5)
            daemon.process.send_signal(ending)
            daemon.wait()
            starter = []
            begin = threading.Thread(target=lambda: starter.append(Daemon("--listen", "{}:{}".format(*daemon.address))))
            begin.start()
            post(5)
            begin.join()
            (daemon,) = starter
        status, lines, _ = self.end(sensor)
        self.assertEqual((status, lines), (0, ["20 scans sent, 0 dropped"]))
        daemon.stop()

    def test_sigterm_ends_it_wherever_it_is(self):
        asked = threading.Event()

        def never(talk):
            asked.set()
            return not talk.socket.recv(1)

        with RudeServer(never) as server:
            waiting = self.start(url_of(server))  # waits for a frame
            sleeping = self.start(url_of(server), "-r", "0.0001", "/dev/null", "/dev/null")
            self.assertTrue(asked.wait(PATIENCE))  # `sleeping` is in its first call
            wait_until(lambda: has_handler(waiting.pid), "a handler of SIGTERM")
            for sensor in (waiting, sleeping):
                sensor.send_signal(signal.SIGTERM)
                sensor.wait(PATIENCE)
                status, lines, errors = self.end(sensor)
                self.assertEqual((status, lines, errors), (0, ["0 scans sent, 0 dropped"], ""))
        with RudeServer(SOUND) as server:
            sleeping = self.start(url_of(server), "-r", "0.0001", "/dev/null", "/dev/null")
            self.assertIn(b"/dev/null", sleeping.stdout.readline())
            sleeping.send_signal(signal.SIGTERM)
            status, lines, errors = self.end(sleeping)
            self.assertEqual((status, lines, errors), (0, ["1 scans sent, 0 dropped"], ""))


def has_handler(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    caught = next(line for line in text.splitlines() if line.startswith("SigCgt:"))
    return int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1


class Packing(CCase):
    def pack(self, points, resolution=0, query="preset=a&num_features=4&b=c"):
        """What the program prints, and the packed request."""
        path = self.folder / "body"
        path.unlink(missing_ok=True)
        options = (CLIENT, "-u", "http://localhost", "-n", "0", "-q", query, "-z", str(resolution), "-o", str(path))
        done = subprocess.run(options, input=points, capture_output=True, timeout=PATIENCE)
        line = json.loads(done.stdout)
        self.assertEqual((done.returncode, done.stderr), (0 if line["packed"] else 4, b""))
        body = zlib.decompress(path.read_bytes()) if line["packed"] else b""
        told = dict(urllib.parse.parse_qsl(line["query"]))
        return line, uplink_rows.request(body, told) if told else None

    def restored(self, points, resolution=0):
        """The rows that the service makes of the packed points, and the types of the columns."""
        line, packed = self.pack(points.tobytes(), resolution)
        given = [packed.query[name] for name in ("preset", "num_features", "b")]
        self.assertEqual((line["packed"], line["why"], given), (True, "", ["a", 4, "c"]))
        rows = uplink_rows.restored(packed)
        with np.errstate(invalid="ignore"):
            error = np.nan_to_num(np.abs(rows.astype(np.float64) - points)).max()
        self.assertEqual(line["error"], error)
        return rows, packed.query["dtype"]

    def test_exact_columns(self):
        rng = np.random.default_rng(1)
        columns = {
            "millimetres": rng.integers(-80000, 80000, 3000) / 1000,
            "whole": rng.integers(0, 255, 3000),
            "largest": rng.choice([2.0**31 - 128, 128 - 2.0**31, 0], 3000),
            "any": rng.normal(0, 30, 3000),
            "bits": rng.integers(0, 2**32, 3000, dtype=np.uint64).astype(np.uint32).view(np.float32),
            "negative zeros": rng.choice([-0.0, 0.0, 0.5], 3000),
            "holes": rng.choice([np.nan, np.inf, -0.0, 0.25], 3000),
        }
        for _ in range(12):
            names = rng.choice(list(columns), 4)
            points = np.column_stack([columns[name].astype(np.float32) for name in names])
            with self.subTest(names):
                rows, types = self.restored(points)
                np.testing.assert_array_equal(rows.view(np.uint32), points.view(np.uint32))
                whole = [name in ("millimetres", "whole", "largest") for name in names]
                self.assertEqual(types, tuple("int32" if integer else "float32" for integer in whole))

    def test_other_bits_of_nan_stay(self):
        points = np.zeros((300, 4), np.float32)
        points[7:9, 1] = np.array([0xFFC00000, 0x7F800001], np.uint32).view(np.float32)
        rows, _ = self.restored(points)
        np.testing.assert_array_equal(rows.view(np.uint32), points.view(np.uint32))

    def test_the_bytes_are_those_of_the_python_client(self):
        rng = np.random.default_rng(3)
        points = np.column_stack(
            [(rng.integers(-80000, 80000, 3000) / unit).astype(np.float32) for unit in (1000, 100, 1, 10)]
        )
        for filters, resolution, hole in (
            ("delta,shuffle", 0, 0.0),
            ("shuffle", 0, -0.0),
            ("delta,shuffle", 0.001, -0.0),
            ("shuffle", 0, np.nan),
            ("shuffle", 0.0001, -np.inf),
        ):
            with self.subTest(hole, resolution=resolution):
                points[:9, 1] = hole
                _, packed = self.pack(points.tobytes(), resolution)
                other = voxeld.pack(points, resolution or "auto")
                self.assertEqual(packed.body[0], uplink_rows.decoded(other))
                self.assertEqual((packed.query["scale"], packed.query["filter"]), (other.query["scale"], filters))

    def turning(self):
        """A turning sensor in the middle, where the clients take their sample, between odd rows."""
        rng = np.random.default_rng(6)
        odd = [rng.choice(np.float32(values), (600, 4)) for values in ([0, 1, 2, 3], [0, 1e-3, 2e6, -2e6], [2e6, 1, 0])]
        near = np.float32(rng.integers(-9, 9, (1000, 4)) / 1000 + 0.0)  # many guesses lie between two integers
        return np.concatenate([odd[0], odd[1], near, uplink_rows.turns(rng, 4, 500), near, odd[2], odd[1]])

    def test_directions_are_guessed_as_by_the_python_client(self):
        points = self.turning()
        for number in (len(points), len(points) - 1, 64, 1):
            middle = points[(len(points) - number) // 2 :][:number]
            with self.subTest(number):
                rows, _ = self.restored(middle, 0.001)
                self.assertLessEqual(np.abs(rows.astype(float) - middle).max(), 0)
                _, packed = self.pack(middle.tobytes(), 0.001)
                filters = "direction,shuffle" if number > 1 else "delta,shuffle"
                other = voxeld.pack(middle, 0.001)
                self.assertEqual((packed.query["filter"], other.query["filter"]), (filters, filters))
                self.assertTrue(packed.body[0] == uplink_rows.decoded(other))

    @unittest.skipUnless(shutil.which("gcc") and shutil.which("clang"), "there is no gcc or no clang here")
    def test_no_option_of_a_compiler_changes_the_bytes(self):
        points = self.turning().tobytes()
        expected = self.pack(points, 0.001)[1]
        flags = subprocess.run(
            ["pkg-config", "--cflags", "--libs", "libcurl", "jansson", "zlib"], capture_output=True, text=True
        ).stdout.split()
        program, source = self.folder / "program", ROOT / "tests" / "clients" / "c_client.c"
        fast = ["-O3", "-march=native", "-ffast-math", "-ffp-contract=fast"]
        for compiler in (["gcc", *fast], ["clang", *fast]):
            with self.subTest(compiler), mock.patch(f"{__name__}.CLIENT", program):
                command = [*compiler, "-D_GNU_SOURCE", "-I", ROOT, "-I", ROOT / "api/c", source, "-o", program]
                subprocess.run([*command, *flags], check=True)
                found = self.pack(points, 0.001)[1]
                self.assertEqual((found.query["filter"], found.query["dtype"]), ("direction,shuffle", ("int32",) * 4))
                self.assertTrue(found.body == expected.body)

    def test_resolutions(self):
        rng = np.random.default_rng(2)
        points = rng.uniform(-80, 80, (3000, 4)).astype(np.float32)
        points[:, 3] = rng.integers(0, 9, 3000) / 10
        for resolution in (0.001, 0.002, 1.5):
            rows, types = self.restored(points, resolution)
            self.assertLessEqual(np.abs(rows - points).max(), resolution / 2 + 4e-6)
            self.assertEqual(types, ("int32",) * 4)
        points[7, 1] = np.nan
        points[7, 2] = -0.0
        rows, types = self.restored(points, 0.01)
        self.assertEqual(types, ("int32", "float32", "int32", "int32"))
        self.assertTrue(np.isnan(rows[7, 1]))
        self.assertLessEqual(np.nanmax(np.abs(rows - points)), 0.005 + 4e-6)
        self.assertFalse(np.signbit(rows[7, 2]))

    def test_the_service_restores_them(self):
        points = np.random.default_rng(4).integers(-9000, 9000, (500, 4)) / np.float32(1000)
        points = points.astype(np.float32)
        with Daemon() as daemon:
            url, query = url_of(daemon), f"{QUERY}&num_features=4"
            self.call(url, body=points.tobytes())
            plain = self.tensors
            for options in (("-z", "0"), ("-z", "0.001", "-n", "3")):
                lines = self.calls(url, *options, query=query, body=points.tobytes())
                self.assertEqual(lines[0]["packed"], True)
                self.assertEqual({line["status"] for line in lines[1:]}, {"OK"})
                self.assertEqual(check.same_tensors(plain, self.tensors), [])

    def test_times_stay_floats(self):
        """The service reads times of integers as double: the double 0.1 differs from the float32 0.1."""
        points = (np.random.default_rng(5).integers(-90, 90, (500, 4)) / 10).astype(np.float32)
        for terms, times in (
            ("fields=x,y,z,t&time_field=t", 3),
            ("time_field=t&fields=x,y,+z,%20t", 3),
            ("fields=x%2cy%2C%20z%2C++t%20u&time_field=t+u", 3),
            ("fields=t,a,b,c&time_field=t", 0),
            ("fields=x,y,z,%C3%A9t&time_field=%c3%a9t", 3),
            ("fields=x,y,z,t", None),
            ("fields=x,y,z,t&&my_time_field=t&time_fields=t", None),
        ):
            with self.subTest(terms):
                query = f"num_features=4&{terms}"
                _, packed = self.pack(points.tobytes(), 0, query)
                types = tuple("float32" if i == times else "int32" for i in range(4))
                self.assertEqual(packed.query["dtype"], types)
                _, packed = self.pack(points.tobytes(), 0.1, query)
                self.assertEqual(packed.query["dtype"], ("int32",) * 4)
        with Daemon() as daemon:
            terms = "num_features=4&fields=x,y,+z,t&time_field=t&time_unit=ms&time_origin=first"
            url, query = url_of(daemon), f"{QUERY}&{terms}"
            self.call(url, query=query, body=points.tobytes())
            plain = self.tensors
            _, line = self.calls(url, "-z", "0", query=query, body=points.tobytes())
            self.assertEqual((line["status"], check.same_tensors(plain, self.tensors)), ("OK", []))

    def test_no_points(self):
        line, packed = self.pack(b"")
        self.assertEqual((line["packed"], packed.body), (True, [b""]))

    def test_what_cannot_be_packed(self):
        for points, resolution, query, reason in (
            (rows(3), 0, "preset=kitti_second", "num_features"),
            (rows(3), 0, "xnum_features=4", "num_features"),
            (rows(3), 0, "num_features=65", "num_features"),
            (rows(3)[:-1], 0, "num_features=4", "rows"),
            (
                np.array([3e6, 0, 0, 0, 1e-4, 0, 0, 0], np.float32).tobytes(),
                0.001,
                "num_features=4",
                "column 0 .* int32 .* units of 0.001",
            ),
            (np.full(4, 3.4e38, np.float32).tobytes(), 1.2e38, "num_features=4", "column 0"),
            (rows(3), "inf", "num_features=4", "resolution"),
            (rows(3), 0.1, "num_features=4&dtype=float32", "the query has dtype"),
            (rows(3), 0, "&&scale=1&num_features=4", "the query has scale"),
            (rows(3), 0.1, "filter=shuffle&num_features=4", "the query has filter"),
            (rows(3), 0, "num_features=4&time_field=t", "time_field, but its fields"),
            (rows(3), 0, "num_features=4&time_field=t&fields=x,y,z,time", "time_field, but its fields"),
        ):
            with self.subTest(reason):
                line, _ = self.pack(points, resolution, query)
                self.assertFalse(line["packed"])
                self.assertRegex(line["why"], reason)


class Compilers(CCase):
    @unittest.skipUnless(all(map(shutil.which, ("clang", "g++", "pkg-config"))), "there is no clang or no g++ here")
    def test_the_header_is_c99_and_cplusplus(self):
        flags = subprocess.run(
            ["pkg-config", "--cflags", "libcurl", "jansson", "zlib"], capture_output=True, text=True
        ).stdout.split()
        strict = [
            "-Wall",
            "-Wextra",
            "-Wpedantic",
            "-Werror",
            "-fsyntax-only",
            "-D_POSIX_C_SOURCE=200809L",
            "-I",
            "api/c",
        ]
        include = "#include <voxeld_client.h>\n"
        languages = ("c -std=c99", "c -std=c11", "c++ -std=c++11", "c++ -std=c++20")
        compilers = [("clang", *strict, "-x", *language.split()) for language in languages]
        compilers.append(("g++", *strict, "-x", "c++", "-std=c++98", "-Wno-pedantic"))
        for compiler in compilers:
            for source in (include, "#define VOXELD_CLIENT_IMPLEMENTATION\n" + include + include):
                done = subprocess.run([*compiler, *flags, "-"], input=source, capture_output=True, text=True, cwd=ROOT)
                self.assertEqual((done.returncode, done.stderr), (0, ""), compiler)


if __name__ == "__main__":
    unittest.main()
