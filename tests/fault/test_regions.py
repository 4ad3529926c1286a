"""Owners that change their shared memory at any time, and clients without a right to shared memory."""

import fcntl
import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import unittest

from client import GRID, LONG, LONG_POINTS, MB, ROW, SAMPLING, VOXELIZE, Daemon, FaultCase
from client import many_rows, rows, wait_until, with_long_steps
from credentials import Authority, TlsDaemon, new_token
from daemon import BACKEND, PATIENCE, Reply
from shared import REGIONS, Memory
from sources import UnixConnection

POINTS = rows(5000)
SIZE = len(POINTS)
ROOM = 8 * MB
IN_PLACE = BACKEND == "cuda"  # a GPU reads points and writes tensors in place
ONE_WORKER = ("--workers", "1", "--long-workers", "1")
ONE_WORKER += ("--max-sampling-work", str(10**13), "--max-timeout-ms", "3600000")


def files_of(daemon):
    return len(os.listdir(f"/proc/{daemon.pid()}/fd"))


class Regions(FaultCase):
    ARGS = (*ONE_WORKER, "--allow-shared-memory", "--shared-memory-prefix", "voxeld-test,voxeld-other")

    def setUp(self):
        super().setUp()
        self.memory = self.entered(Memory(SIZE + ROOM))
        self.memory.write(POINTS)
        self.addCleanup(self.daemon.post, f"{REGIONS}/unregister")
        # Regions of the previous test count until the daemon has closed them.
        wait_until(lambda: self.memory.register(self.daemon, "a").status == 200, "room for a region")

    def entered(self, memory):
        self.addCleanup(memory.__exit__)
        return memory

    def done(self, reply):
        self.assertEqual((reply.status, reply.body), (200, b"{}\n"), reply)

    def ask(self, points=f"a,0,{SIZE}", output=None, path=VOXELIZE, **options):
        query = f"&points_region={points}" + (f"&output_region={output}" if output else "")
        return self.daemon.post(path + query, **options)

    def refused(self, reply, status, detail, parameter=None):
        self.assertEqual(reply.status, status, reply)
        told = reply.json()
        self.assertIn(detail, told["detail"])
        if parameter:
            self.assertEqual(told["parameter"], parameter)

    def works(self):
        """Checks that requests with regions get the tensors of a plain request."""
        plain = self.daemon.post(VOXELIZE, POINTS).tensors()
        self.assertEqual(self.ask().tensors(), plain)
        reply = self.ask(output=f"a,{SIZE},{ROOM}")
        self.assertEqual(reply.status, 200, reply)
        answer = self.memory.read(reply.json()["output_region"]["bytes"], SIZE)
        self.assertEqual(Reply(200, {}, answer).tensors(), plain)

    # --- what is named ---

    def test_parts_beyond_the_region(self):
        for part in (f"a,0,{SIZE + ROOM + ROW}", f"a,{SIZE + ROOM},{ROW}", f"a,{10**17},{ROW}"):
            size = int(part.split(",")[2])
            self.refused(self.ask(part), 400, f"{size} bytes", "points_region")
        self.refused(self.ask(output=f"a,{SIZE},{ROOM + 1}"), 400, f"has {SIZE + ROOM} in all", "output_region")
        self.works()

    def test_a_part_that_is_too_small_for_the_answer(self):
        before = self.memory.read(ROOM, SIZE)
        for accept in ("application/vnd.safetensors", "application/x-npz", "application/json"):
            reply = self.ask(output=f"a,{SIZE},100", headers={"Accept": accept})
            self.refused(reply, 422, "the region's part has 100", "output_region")
        self.assertEqual(self.memory.read(ROOM, SIZE), before)
        self.works()

    def test_the_error_has_the_bytes_of_the_whole_answer(self):
        for accept in ("application/vnd.safetensors", "application/x-npz", "application/x-shuffled-safetensors"):
            told = self.ask(output=f"a,{SIZE},100", headers={"Accept": accept}).json()["detail"]
            needed = int(re.search(r"the answer has (\d+) bytes", told)[1])
            reply = self.ask(output=f"a,{SIZE},{ROOM}", headers={"Accept": accept})
            self.assertEqual(reply.status, 200, reply)
            written = reply.json()["output_region"]["bytes"]
            self.assertLess(abs(written - needed), 256, accept)  # durations in the metadata differ in length

    def test_only_parts_of_answered_jobs_are_counted(self):
        parts = lambda: sum(self.daemon.status()["shared_memory"][f"parts_{way}"] for way in ("in_place", "copied"))
        before = parts()
        self.refused(self.ask(output=f"a,{SIZE},100"), 422, "the region's part has 100")
        self.assertEqual(parts(), before)
        self.works()  # two requests read points, one of them writes an answer
        self.assertEqual(parts(), before + 3)

    def test_a_part_that_is_not_whole_rows_is_reported_as_a_body_is(self):
        text = b"x y z intensity\n" + b"1.5 2.5 3.5 0.5\n" * 61 + b"1.5 2.5"
        self.memory.write(text)
        plain = self.daemon.post(VOXELIZE, text).json()["detail"]
        self.assertIn("the body looks like text", plain)
        self.refused(self.ask(f"a,0,{len(text)}"), 400, plain)
        self.memory.write(POINTS)
        self.works()

    def test_every_kind_of_answer_goes_to_the_region(self):
        for accept in ("application/x-npz", "application/x-mcap", "application/json"):
            coded = {"Accept": accept, "Accept-Encoding": "gzip"}
            reply = self.ask(output=f"a,{SIZE},{ROOM}", headers=coded)
            self.assertEqual(reply.status, 200, reply)
            self.assertEqual(reply.headers.get_content_type(), "application/json")
            self.assertIsNone(reply.headers["Content-Encoding"])
            plain = self.daemon.post(VOXELIZE, POINTS, {"Accept": accept}).body
            answer = self.memory.read(reply.json()["output_region"]["bytes"], SIZE)
            self.assertEqual(answer[:8], plain[:8])

    def test_a_body_beside_the_region(self):
        self.refused(self.ask(body=POINTS), 400, "allowed: an empty body", "points_region")
        chunked = {"Transfer-Encoding": "chunked"}
        self.refused(self.ask(body=iter([POINTS]), headers=chunked), 400, "allowed: an empty body")
        self.refused(self.ask(headers={"Content-Encoding": "gzip"}), 400, "so it is not a gzip stream")
        self.refused(self.ask(f"a,0,{SIZE - 1}"), 400, "a multiple of 16")
        self.works()

    def test_points_of_other_formats(self):
        text = b"VERSION 0.7\nFIELDS x y z intensity\nSIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\nWIDTH 5000\nHEIGHT 1\n"
        file = text + b"POINTS 5000\nDATA binary\n" + POINTS
        self.memory.write(file)
        plain = self.daemon.post(VOXELIZE + "&format=pcd", file).tensors()
        self.assertEqual(self.ask(f"a,0,{len(file)}", path=VOXELIZE + "&format=pcd").tensors(), plain)

    def test_no_points(self):
        self.assertEqual(self.ask("a,0,0").tensors(), self.daemon.post(VOXELIZE).tensors())

    def test_more_than_a_body_may_have(self):
        with Memory(128 * MB) as large:
            self.done(large.register(self.daemon, "large"))
            self.refused(self.ask(f"large,0,{128 * MB}"), 413, "allowed: up to")

    def test_parameters_of_inference_name_no_regions(self):
        head = {"inputs": [{"name": "points", "shape": [0, 4], "datatype": "FP32", "data": []}]}
        for name in ("points_region", "output_region"):
            text = json.dumps({**head, "parameters": {name: f"a,0,{SIZE}"}})
            reply = self.daemon.post("/v2/models/kitti_second/infer", text)
            self.refused(reply, 400, "regions are given by inputs and outputs")

    # --- what the owner does ---

    def test_memory_that_was_shortened(self):
        self.memory.shorten(SIZE - 1)
        self.refused(self.ask(), 400, "shortened", "points_region")
        self.refused(self.ask(f"a,0,{ROW}", output=f"a,{SIZE},{ROOM}"), 400, "shortened", "output_region")
        self.assertEqual(self.ask(f"a,0,{ROW}").status, 200)
        self.memory.shorten(SIZE + ROOM)
        self.memory.write(POINTS)
        self.works()

    def test_memory_that_is_shortened_while_it_is_read_and_written(self):
        over = threading.Event()

        def shorten():
            while not over.is_set():
                self.memory.shorten(0)
                self.memory.shorten(SIZE + ROOM)

        thread = threading.Thread(target=shorten)
        thread.start()
        statuses = [self.ask(output=f"a,{SIZE},{ROOM}").status for _ in range(100)]
        over.set()
        thread.join()
        self.assertLessEqual(set(statuses), {200, 400})
        self.memory.write(POINTS)
        self.works()

    def test_points_that_are_written_while_they_are_read(self):
        """Each answer's counts add up, since the daemon reads the memory once."""
        over = threading.Event()
        blocks = [os.urandom(SIZE) for _ in range(4)]

        def write():
            while not over.is_set():
                for block in blocks:
                    self.memory.write(block)

        thread = threading.Thread(target=write)
        thread.start()
        for _ in range(50):
            reply = self.ask(headers={"Accept": "application/json"})
            self.assertEqual(reply.status, 200, reply)
            counts = reply.json()["points"]
            self.assertEqual(counts["received"], SIZE // ROW)
            self.assertEqual(sum(counts.values()), 2 * counts["received"])
        over.set()
        thread.join()
        self.memory.write(POINTS)
        self.works()

    def test_memory_that_is_unlinked(self):
        self.memory.unlink()
        self.works()
        reply = self.memory.register(self.daemon, "b")
        self.refused(reply, 400, "cannot be opened", "key")

    def meet(self, act):
        """Starts a job, and calls act(memory of its points) while the job runs. Returns the reply."""
        # A fast machine may end the first, shorter job before the test acts.
        for job in (SAMPLING, with_long_steps(SAMPLING, 1)):
            replies, large = [], self.large()
            path = f"{job}&points_region=large,0,{large.size}&output_region=a,0,{SIZE + ROOM}"
            thread = threading.Thread(target=lambda path=path: replies.append(self.daemon.post(path)))
            thread.start()
            points = 1 << (large.size - 1).bit_length()  # the points' buffer; a job that runs holds more
            copied = lambda status: status["buffers"]["in_use_bytes"] > points
            runs = lambda status: status["long_workers"]["running"] == 1
            samples = runs if IN_PLACE else copied
            wait_until(lambda: samples(self.daemon.status()) or not thread.is_alive(), "the job to sample")
            act(large)
            in_time = thread.is_alive()
            thread.join()
            if in_time:
                return replies[0]
            self.done(self.daemon.post(f"{REGIONS}/unregister"))
            self.done(self.memory.register(self.daemon, "a"))
        self.fail("no job was met at work")

    def large(self):
        points = many_rows(LONG_POINTS)
        large = self.entered(Memory(len(points)))
        large.write(points)
        self.done(large.register(self.daemon, "large"))
        return large

    @unittest.skipIf(IN_PLACE, "a GPU reads points in place; the test fault.pinned covers that")
    def test_points_are_the_jobs_own_once_it_runs(self):
        plain = self.daemon.post(SAMPLING, many_rows(LONG_POINTS)).tensors()

        def take_away(large):
            large.shorten(0)
            large.unlink()
            self.daemon.post(f"{REGIONS}/region/large/unregister")

        reply = self.meet(take_away)
        self.assertEqual(reply.status, 200, reply)
        answer = self.memory.read(reply.json()["output_region"]["bytes"])
        self.assertEqual(Reply(200, {}, answer).tensors(), plain)

    def test_the_answers_region_is_unregistered_while_the_job_runs(self):
        before = []

        def unregister(_):
            before[:] = [self.memory.read(SIZE + ROOM)]
            self.done(self.daemon.post(f"{REGIONS}/region/a/unregister"))

        self.refused(self.meet(unregister), 400, "no region 'a'", "output_region")
        self.assertEqual([self.memory.read(SIZE + ROOM)], before)

    def test_a_client_that_leaves_gets_nothing_written(self):
        before = self.memory.read(SIZE + ROOM)
        self.large()
        path = f"{LONG}&points_region=large,0,{12 * LONG_POINTS}&output_region=a,0,{SIZE + ROOM}"
        with self.raw() as connection:
            connection.send(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n".encode())
            running = lambda: self.daemon.status()["long_workers"]["running"]
            wait_until(lambda: running() == 1, "the job to run")
        wait_until(lambda: running() == 0, "the job to end")
        self.assertEqual(self.memory.read(SIZE + ROOM), before)

    def test_a_limit_of_file_sizes(self):
        """An answer beyond RLIMIT_FSIZE is refused. SIGXFSZ does not end the daemon."""
        pid = self.daemon.pid()
        _, most = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        self.addCleanup(resource.prlimit, pid, resource.RLIMIT_FSIZE, (most, most))
        for limit, left in ((SIZE, 0), (SIZE + 1000, 1000)):
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit, most))
            before = self.memory.read(ROOM - left, SIZE + left)
            self.refused(self.ask(output=f"a,{SIZE},{ROOM}"), 400, "File too large", "output_region")
            if not IN_PLACE:  # the limit does not stop a GPU's kernels
                self.assertEqual(self.memory.read(ROOM - left, SIZE + left), before)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, most))
        self.works()

    def test_not_for_a_web_page_of_a_strange_host(self):
        """A page of another host cannot use a local client's regions, even if the host's name resolves to this machine
        (DNS rebinding)."""
        strange = {"Host": "rebound.example"}
        self.assertEqual(self.memory.register(self.daemon, "b", strange).status, 403)
        self.assertEqual(self.daemon.get(f"{REGIONS}/status", strange).status, 403)
        self.assertEqual(self.daemon.get(f"{REGIONS}/region/a/status", strange).status, 403)
        self.assertEqual(self.ask(headers=strange).status, 403)
        self.assertEqual(self.daemon.post(f"{REGIONS}/unregister", headers=strange).status, 403)
        self.works()

    # --- what is kept ---

    def test_no_file_is_left_open(self):
        self.works()
        self.daemon.post(f"{REGIONS}/unregister")
        before = files_of(self.daemon)
        for turn in range(40):
            register = lambda turn=turn: self.memory.register(self.daemon, f"b{turn % 7}")
            wait_until(lambda: register().status == 200, "room for a region")  # after a region is closed
            register()  # refused: the name is in use
            self.memory.register(self.daemon, "c", byte_size=SIZE + ROOM + 1)
            self.memory.register(self.daemon, "c", key="/voxeld-test-none")
            self.done(self.daemon.post(f"{REGIONS}/region/b{turn % 7}/unregister"))
        wait_until(lambda: files_of(self.daemon) <= before, lambda: f"{before} files, not {files_of(self.daemon)}")

    def test_regions_are_bounded(self):
        register = lambda number: self.memory.register(self.daemon, f"b{number}")
        for number in range(127):
            wait_until(lambda: register(number).status == 200, "room that earlier regions had")
        replies = [register(number) for number in range(127, 130)]
        self.assertEqual([reply.status for reply in replies], [429] * 3)
        self.assertIn("unregister some", replies[-1].json()["error"])
        self.done(self.daemon.post(f"{REGIONS}/region/b7/unregister"))
        wait_until(lambda: self.memory.register(self.daemon, "b7").status == 200, "room for another region")
        self.works()

    # --- owners and clients ---

    def test_other_clients_see_nothing(self):
        unknown = self.daemon.get(f"{REGIONS}/region/b/status", source="127.0.0.2").json()["error"]
        foreign = self.daemon.get(f"{REGIONS}/region/a/status", source="127.0.0.2")
        self.assertEqual((foreign.status, foreign.json()["error"]), (404, unknown.replace("'b'", "'a'")))
        self.assertEqual(self.daemon.get(f"{REGIONS}/status", source="127.0.0.2").json(), [])
        self.done(self.daemon.post(f"{REGIONS}/region/a/unregister", source="127.0.0.2"))
        self.done(self.daemon.post(f"{REGIONS}/unregister", source="127.0.0.2"))
        texts = [self.ask(f"{name},0,16", source="127.0.0.2").json()["detail"] for name in ("a", "b")]
        self.assertEqual(texts[0], texts[1].replace("'b'", "'a'"))
        with Memory(16) as own:
            self.done(own.register(self.daemon, "a", source="127.0.0.2"))
            self.assertEqual(self.daemon.get(f"{REGIONS}/status", source="127.0.0.2").json()[0]["key"], own.key)
            self.daemon.post(f"{REGIONS}/unregister", source="127.0.0.2")
        self.works()

    def test_keys(self):
        with Memory(16, "voxeld-other") as other, Memory(16, "secret") as secret:
            self.done(other.register(self.daemon, "b", key=other.key.lstrip("/")))
            reply = secret.register(self.daemon, "c")
            self.refused(reply, 400, "one of voxeld-test,voxeld-other", "key")
            absent = secret.register(self.daemon, "c", key="/voxeld-test-none")
            self.refused(absent, 400, "cannot be opened", "key")
            self.refused(secret.register(self.daemon, "c", key=f"/voxeld-test/..{secret.key}"), 400, "cannot be opened")

    def test_a_lease_holds_up_nobody(self):
        """The owner has a lease (fcntl) on the memory. A usual open would wait until the lease ends."""
        self.addCleanup(signal.signal, signal.SIGIO, signal.signal(signal.SIGIO, signal.SIG_IGN))
        for kind, mode in ((fcntl.F_WRLCK, os.O_RDWR), (fcntl.F_RDLCK, os.O_RDONLY)):
            with Memory(16) as leased:
                os.close(leased.file)
                leased.file = os.open(leased.path, mode)
                fcntl.fcntl(leased.file, fcntl.F_SETLEASE, kind)
                reply = leased.register(self.daemon, "b")
                self.refused(reply, 400, "no process may have a lease on", "key")
                absent = leased.register(self.daemon, "b", key="/voxeld-test-none").json()["detail"]
                self.assertEqual(reply.json()["detail"], absent.replace("/voxeld-test-none", leased.key))
                fcntl.fcntl(leased.file, fcntl.F_SETLEASE, fcntl.F_UNLCK)
                self.done(leased.register(self.daemon, "b"))
                with self.assertRaises(BlockingIOError):  # while the server has the memory open
                    fcntl.fcntl(leased.file, fcntl.F_SETLEASE, kind)
                self.done(self.daemon.post(f"{REGIONS}/region/b/unregister"))
        with self.assertRaises(BlockingIOError):
            fcntl.fcntl(self.memory.file, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        self.works()

    def test_gpu_memory_is_off(self):  # test_blocks.py allows it
        text = json.dumps({"raw_handle": {"b64": ""}, "device_id": 0, "byte_size": 1})
        reply = self.daemon.post("/v2/cudasharedmemory/region/c/register", text)
        self.refused(reply, 501, "shares no GPU memory; its operator can allow that (--allow-cuda-shared-memory yes)")
        self.assertEqual(self.daemon.get("/v2/cudasharedmemory/status").json(), [])
        self.done(self.daemon.post("/v2/cudasharedmemory/unregister"))


class Infer(FaultCase):
    """Inference requests that name regions."""

    ARGS = (*ONE_WORKER, "--allow-shared-memory", "--shared-memory-prefix", "voxeld-test")
    MODEL = "/v2/models/kitti_second/infer"

    def setUp(self):
        super().setUp()
        self.memory = Memory(SIZE + ROOM)
        self.addCleanup(self.memory.__exit__)
        self.addCleanup(self.daemon.post, f"{REGIONS}/unregister")
        self.memory.write(POINTS)
        self.assertEqual(self.memory.register(self.daemon, "a").status, 200)

    def infer(self, inputs=None, outputs=(), **parameters):
        given = {"name": "points", "shape": [5000, 4], "datatype": "FP32", "parameters": self.part(0, SIZE)}
        asked = [{"name": name, "parameters": part} for name, part in outputs]
        request = {"inputs": [{**given, **(inputs or {})}], "outputs": asked, "parameters": parameters}
        return self.daemon.post(self.MODEL, json.dumps(request))

    def part(self, offset, size, name="a"):
        return {
            "shared_memory_region": name,
            "shared_memory_offset": offset,
            "shared_memory_byte_size": size,
        }

    def plain(self):
        return self.daemon.post(self.MODEL, POINTS, {"Inference-Header-Content-Length": "0"})

    def works(self):
        reply = self.infer(outputs=[("voxel_coords", self.part(SIZE, ROOM))])
        self.assertEqual(reply.status, 200, reply)
        self.assertIsNone(reply.headers["Inference-Header-Content-Length"])
        (output,) = reply.json()["outputs"]
        self.assertEqual(set(output), {"name", "datatype", "shape"})
        plain = self.plain()
        head = int(plain.headers["Inference-Header-Content-Length"])
        tensors = {each["name"]: each for each in json.loads(plain.body[:head])["outputs"]}
        self.assertEqual(next(iter(tensors)), "voxel_coords")
        size = tensors["voxel_coords"]["parameters"]["binary_data_size"]
        self.assertEqual(output["shape"], tensors["voxel_coords"]["shape"])
        self.assertEqual(self.memory.read(size, SIZE), plain.body[head : head + size])

    def refused(self, reply, error, status=400):
        self.assertEqual(reply.status, status, reply)
        self.assertIn(error, reply.json()["error"])

    def test_what_is_wrong_is_reported(self):
        part = self.part(0, SIZE)
        for parameters, error in (
            ({**part, "shared_memory_region": "b"}, "this client has no region 'b'"),
            ({**part, "shared_memory_region": 7}, "shared_memory_region is not a string"),
            ({**part, "shared_memory_region": "x" * 64}, "shared_memory_region is not a string"),
            ({**part, "shared_memory_byte_size": SIZE - 16}, f"points has {SIZE - 16} bytes; its shape has {SIZE}"),
            ({**part, "shared_memory_byte_size": -1}, "shared_memory_byte_size is not a whole number"),
            ({"shared_memory_region": "a"}, "has no shared_memory_byte_size"),
            ({**part, "shared_memory_offset": -1}, "shared_memory_offset is not a whole number"),
            ({**part, "shared_memory_offset": ROOM + 1}, f"the region 'a' has {SIZE + ROOM} in all"),
            ({**part, "shared_memory_offset": 2**63 - 1}, f"the region 'a' has {SIZE + ROOM} in all"),
            ({**part, "binary_data_size": 0}, "allowed: one of data"),
        ):
            with self.subTest(error=error):
                self.refused(self.infer({"parameters": parameters}), error)
        self.refused(self.infer({"data": [0]}), "allowed: one of data")
        self.works()

    def test_outputs_that_do_not_fit(self):
        before = self.memory.read(ROOM, SIZE)
        small = [("voxel_coords", self.part(SIZE, ROOM // 2)), ("voxel_features", self.part(SIZE + ROOM // 2, 100))]
        self.refused(self.infer(outputs=small), "voxel_features has ")
        self.refused(self.infer(outputs=[("voxel_coords", self.part(SIZE, ROOM + 1))]), "in all")
        self.refused(self.infer(outputs=[("voxel_coords", self.part(0, 16, "b"))]), "no region 'b'")
        reply = self.infer(outputs=[("voxel_coords", self.part(-1, 16))])
        self.refused(reply, "shared_memory_offset is not a whole number")
        self.assertEqual(self.memory.read(ROOM, SIZE), before)
        self.works()

    def test_outputs_of_all_kinds(self):
        outputs = [
            ("voxel_coords", {"binary_data": True}),
            ("voxel_num_points", self.part(SIZE, ROOM)),
            ("voxel_features", {"binary_data": False}),
        ]
        for some in (outputs, outputs[:2], outputs[1:]):
            reply = self.infer(outputs=some)
            self.assertEqual(reply.status, 200, reply)
            head = int(reply.headers["Inference-Header-Content-Length"] or len(reply.body))
            kinds = [
                sorted(set(each) - {"name", "datatype", "shape"}) for each in json.loads(reply.body[:head])["outputs"]
            ]
            self.assertEqual(kinds, [{0: ["parameters"], 1: [], 2: ["data"]}[outputs.index(each)] for each in some])

    def test_counts_in_shared_memory(self):
        self.memory.write(struct.pack("<2i", 2000, 3000), SIZE)
        counts = {"name": "point_counts", "shape": [2], "datatype": "INT32", "parameters": self.part(SIZE, 8)}
        points = {"name": "points", "shape": [5000, 4], "datatype": "FP32", "parameters": self.part(0, SIZE)}
        reply = self.daemon.post(self.MODEL, json.dumps({"inputs": [points, counts]}))
        self.assertEqual(reply.status, 200, reply)
        metadata = json.loads(reply.json()["parameters"]["metadata"])
        self.assertEqual(metadata["batch"]["points"], [2000, 3000])
        self.memory.write(struct.pack("<2i", 2000, 3001), SIZE)
        reply = self.daemon.post(self.MODEL, json.dumps({"inputs": [points, counts]}))
        self.refused(reply, "add up to 5001 points")

    def test_memory_that_was_shortened(self):
        self.memory.shorten(SIZE)
        self.assertEqual(self.infer().status, 200)
        self.refused(self.infer(outputs=[("voxel_coords", self.part(SIZE, ROOM))]), "shortened")
        self.memory.shorten(SIZE - 1)
        self.refused(self.infer(), "shortened")


class Access(FaultCase):
    """Which clients may share memory."""

    def test_it_is_off_by_default(self):
        with Daemon("--workers", "1") as daemon, Memory(16, "voxeld") as memory:
            reply = memory.register(daemon, "a")
            self.assertEqual(reply.status, 501)
            self.assertIn("--allow-shared-memory", reply.json()["error"])
            for query in ("points_region=a,0,16", "output_region=a,0,16"):
                reply = daemon.post(f"{VOXELIZE}&{query}")
                self.assertEqual((reply.status, reply.json()["type"]), (501, "urn:voxeld:problem:no-shared-memory"))
            part = {"shared_memory_region": "a", "shared_memory_byte_size": 16}
            given = {"name": "points", "shape": [1, 4], "datatype": "FP32", "parameters": part}
            reply = daemon.post("/v2/models/kitti_second/infer", json.dumps({"inputs": [given]}))
            self.assertEqual(reply.status, 501, reply)
            # Clients do this before they register a region.
            self.assertEqual(daemon.post(f"{REGIONS}/unregister").status, 200)
            self.assertEqual(daemon.get(f"{REGIONS}/status").json(), [])

    def test_only_clients_of_this_machine(self):
        own = own_address()
        if not own:
            self.skipTest("this machine has no address beyond loopback")
        arguments = ("--workers", "1", "--allow-shared-memory", "--allow-anonymous", "--listen", "0.0.0.0:0")
        with Daemon(*arguments) as daemon, Memory(16, "voxeld") as memory:
            self.assertEqual(memory.register(daemon, "a").status, 200)
            connection = http.client.HTTPConnection(own, daemon.address[1])
            path = f"{REGIONS}/region/a/register"
            reply = daemon.request(
                "POST", path, json.dumps({"key": memory.key, "byte_size": 16}), connection=connection
            )
            self.assertEqual(reply.status, 501)
            self.assertIn("loopback", reply.json()["error"])
            reply = daemon.request("POST", f"{VOXELIZE}&points_region=a,0,16", connection=connection)
            self.assertEqual(reply.status, 501)
            connection.close()

    def test_not_through_a_proxy(self):
        arguments = ("--workers", "1", "--allow-shared-memory", "--trusted-proxies", "127.0.0.3")
        with Daemon(*arguments) as daemon, Memory(16, "voxeld") as memory:
            for headers in ({}, {"X-Forwarded-For": "127.0.0.1"}):
                self.assertEqual(memory.register(daemon, "a", headers, source="127.0.0.3").status, 501)
            for headers in ({"X-Forwarded-For": "10.0.0.1"}, {"Forwarded": "for=10.0.0.1"}, {"Via": "1.1 nginx"}):
                self.assertEqual(memory.register(daemon, "a", headers).status, 501)
            self.assertEqual(memory.register(daemon, "a").status, 200)

    def tokens(self, *names):
        """Writes a file of tokens. Returns the option for the file, and each token's header."""
        made = [new_token(name) for name in names]
        path = pathlib.Path(self.folder(), "tokens")
        path.write_text("".join(line for _, line in made), encoding="utf-8")
        path.chmod(0o600)
        return ("--token-file", str(path)), [{"Authorization": f"Bearer {token}"} for token, _ in made]

    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    def test_regions_belong_to_the_user_of_the_token(self):
        option, (ann, bob) = self.tokens("ann", "bob")
        with Memory(len(POINTS), "voxeld:ann:") as memory:
            memory.write(POINTS)
            with TokenDaemon(ann, "--workers", "1", "--allow-shared-memory", *option) as daemon:
                self.assertEqual(memory.register(daemon, "a").status, 200)
                self.assertEqual(daemon.get(f"{REGIONS}/status", bob).json(), [])
                self.assertEqual(daemon.get(f"{REGIONS}/region/a/status", bob).status, 404)
                query = f"{VOXELIZE}&points_region=a,0,{SIZE}"
                self.assertEqual(daemon.post(query, headers=bob).status, 400)
                self.assertEqual(daemon.post(f"{REGIONS}/unregister", headers=bob).status, 200)
                self.assertEqual(daemon.post(query, source="127.0.0.9").status, 200)  # by ann, from another address

    def test_a_token_opens_the_memory_of_its_name(self):
        option, (ann, anna) = self.tokens("ann", "anna")
        names = ("voxeld:ann:", "voxeld:anna:", "voxeld", "voxeld:")
        with TokenDaemon(ann, "--workers", "1", "--allow-shared-memory", "--allow-anonymous", *option) as daemon:
            for prefix in names:
                with Memory(16, prefix) as memory:
                    for headers, own in (ann, "voxeld:ann:"), (anna, "voxeld:anna:"):
                        reply = memory.register(daemon, "a", headers)
                        self.assertEqual(reply.status, 200 if prefix == own else 400, (reply, prefix, own))
                        if prefix != own:
                            self.assertIn(f"keys that begin with one of {own} ", reply.json()["error"])
                        self.assertEqual(daemon.post(f"{REGIONS}/unregister", headers=headers).status, 200)
                        keys = daemon.get("/v1/status", headers).json()["shared_memory"]["keys"]
                        self.assertEqual(keys, [own])
                    nobody = {"Authorization": None}
                    reply = memory.register(daemon, "a", nobody)
                    self.assertEqual(reply.status, 501)
                    self.assertIn("show a token", reply.json()["error"])
                    self.assertEqual(daemon.get("/v1/status", nobody).json()["shared_memory"]["keys"], [])

    @unittest.skipUnless(shutil.which("openssl"), "there is no openssl here")
    def test_a_certificate_opens_the_memory_of_its_name(self):
        folder = pathlib.Path(self.folder())
        authority = Authority(folder, "ca")
        authority.sign("server", "subjectAltName=IP:127.0.0.1", "server")
        authority.sign("robot", "subjectAltName=URI:spiffe://field/7", "ignored")
        own = ("--workers", "1", "--allow-shared-memory", "--tls-client-ca", authority.path("ca.pem"))
        with TlsDaemon(folder, *own, client="robot") as daemon:
            begins = "voxeld:cert%3Aspiffe%3A%2F%2Ffield%2F7:"
            self.assertEqual(daemon.get("/v1/status").json()["shared_memory"]["keys"], [begins])
            for prefix, status in ((begins, 200), ("voxeld", 400), ("voxeld:robot:", 400)):
                with Memory(16, prefix) as memory:
                    self.assertEqual(memory.register(daemon, "a").status, status)

    @unittest.skipUnless(os.geteuid() == 0, "only root may become another user")
    def test_memory_of_other_users(self):
        """Over a Unix socket, a client may use only its own user's memory, even if the client is root. The overflow
        user, who stands for all users that a user namespace does not map, may use none."""
        folder = self.folder()
        os.chmod(folder, 0o755)
        path, other = os.path.join(folder, "socket"), 1

        def register(memory, user):
            terms = json.dumps({"key": memory.key, "byte_size": memory.size})
            url = f"http://localhost{REGIONS}/region/{user}-{memory.key[1:]}/register"
            command = ["curl", "-sS", "--unix-socket", path, "-d", terms, "-w", "%{http_code}", url]
            done = subprocess.run(command, check=True, capture_output=True, preexec_fn=lambda: os.setuid(user))
            return int(done.stdout[-3:])

        listen = ("--unix-mode", "0666", "--listen", f"unix:{path},127.0.0.1:0")
        with Daemon("--workers", "1", "--allow-shared-memory", *listen) as daemon:
            with Memory(16, "voxeld") as roots, Memory(16, "voxeld") as others:
                os.fchown(others.file, other, other)
                self.assertEqual([register(memory, other) for memory in (roots, others)], [400, 200])
                self.assertEqual([register(memory, 0) for memory in (roots, others)], [200, 400])
                self.assertEqual(others.register(daemon, "a").status, 200)  # over TCP all are one client
                with open("/proc/sys/kernel/overflowuid", encoding="ascii") as file:
                    unmapped = int(file.read())
                os.fchown(others.file, unmapped, unmapped)
                self.assertEqual(register(others, unmapped), 400)

    def test_over_a_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder, Memory(len(POINTS), "voxeld") as memory:
            memory.write(POINTS)
            path = os.path.join(folder, "socket")
            listen = ("--listen", f"unix:{path},127.0.0.1:0")
            with Daemon("--workers", "1", "--allow-shared-memory", *listen) as daemon:
                connection = UnixConnection(path, PATIENCE)
                ask = lambda target, body=b"": daemon.request("POST", target, body, connection=connection)
                terms = json.dumps({"key": memory.key, "byte_size": memory.size})
                self.assertEqual(ask(f"{REGIONS}/region/a/register", terms).status, 200)
                answer = ask(f"{VOXELIZE}&points_region=a,0,{SIZE}")
                self.assertEqual(answer.tensors(), daemon.post(VOXELIZE, POINTS).tensors())
                self.assertEqual(daemon.get(f"{REGIONS}/status").json(), [])
                connection.close()

    def test_prefixes(self):
        for prefix in ("", ",", "a,", ",a", "a,,b", "a/b", "a:b"):
            with self.assertRaisesRegex(RuntimeError, "shared_memory_prefix is"):
                with Daemon("--allow-shared-memory", "--shared-memory-prefix", prefix):
                    pass


class TokenDaemon(Daemon):
    """Sends the headers with each request. None omits a header from a request."""

    def __init__(self, headers, *args):
        self.headers = headers
        super().__init__(*args)

    def request(self, method, path, body=None, headers=None, connection=None, source=None):
        shown = {name: value for name, value in {**self.headers, **(headers or {})}.items() if value is not None}
        return super().request(method, path, body, shown, connection, source)


def own_address():
    """An address of this machine other than loopback, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as plain:
        try:
            plain.connect(("192.0.2.1", 9))  # chooses the address, but sends nothing
        except OSError:
            return None
        return plain.getsockname()[0]


if __name__ == "__main__":
    unittest.main()
