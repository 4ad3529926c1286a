"""GPU memory that clients hand over by CUDA's handles, also while its owner changes or frees it.

Runs on a GPU, or with the stand-in of the sanitizer builds. See blocks.py."""

import array
import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest

import blocks
import infer
import numpy as np
from blocks import REGIONS, Block
from client import MB, VOXELIZE, Daemon
from credentials import new_token
from daemon import Reply, is_sanitized, reload, started, wait_until
from pinned import CAN_FAIL, ENVIRONMENT, OTHERS, PLACE, POINTS, ROOM, SIZE, STAND_IN, Changing, has_gpu
from shared import Memory

MODEL = "/v2/models/kitti_second/infer"
NAMES = ("voxel_coords", "voxel_num_points", "voxel_features")
ARRAY = np.frombuffer(POINTS, "<f4").reshape(-1, 4)


@unittest.skipUnless(has_gpu(), "there is no GPU")
class BlockCase(unittest.TestCase):
    def block(self, size=PLACE + ROOM, **options):
        block = Block(size, **options)
        self.addCleanup(block.free)
        return block

    def setUp(self):
        self.memory = self.block()
        self.memory.write(POINTS)

    def start(self, *args, allow=("--allow-cuda-shared-memory",), env=None):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.request = pathlib.Path(folder, "inject")
        env = {**ENVIRONMENT, "VOXELD_INJECT": str(self.request), **(env or {})}
        return self.enterContext(Daemon("--backend", "cuda", *allow, *args, env=env))

    def started(self, *args, **options):
        daemon = self.start(*args, **options)
        self.plain = daemon.post(VOXELIZE, POINTS).tensors()
        self.done(self.register(daemon))
        return daemon

    def register(self, daemon, name="a", memory=None, **terms):
        memory = memory or self.memory
        return blocks.register(daemon, memory.handle(), name, terms.pop("byte_size", memory.size), **terms)

    def done(self, reply):
        self.assertEqual((reply.status, reply.body), (200, b"{}\n"), reply)

    def refused(self, reply, status, text, parameter=""):
        self.assertEqual(reply.status, status, reply)
        self.assertIn(text, reply.json()["error"])
        self.assertEqual(reply.json().get("parameter", ""), parameter)

    def unregister(self, daemon, name=None):
        path = f"{REGIONS}/region/{name}/unregister" if name else f"{REGIONS}/unregister"
        wait_until(lambda: daemon.post(path).status == 200, "an end of the writing")

    def ask(self, daemon, at=0, place=PLACE, path=VOXELIZE, points="a", answer="a", **options):
        part = f"points_region={points},{at},{SIZE}&output_region={answer},{place},{PLACE + ROOM - place}"
        return daemon.post(f"{path}&{part}", **options)

    def tensors(self, reply, place=PLACE, memory=None):
        self.assertEqual(reply.status, 200, reply)
        return Reply(200, {}, (memory or self.memory).read(reply.json()["output_region"]["bytes"], place)).tensors()

    def works(self, daemon, expected=None, **options):
        self.memory.write(bytes(ROOM // 2), PLACE)
        self.assertTrue(self.tensors(self.ask(daemon, **options)) == (expected or self.plain), "the tensors differ")

    def ways(self, daemon):
        use = daemon.status()["shared_memory"]
        return use["parts_in_place"], use["parts_copied"]

    def regions(self, daemon):
        return daemon.get(f"{REGIONS}/status").json()


class Blocks(Changing, BlockCase):
    # --- what a GPU does in place ---

    def test_the_gpu_reads_and_writes_in_place(self):
        daemon = self.started()
        for _ in range(3):
            self.works(daemon)
        self.assertEqual(self.ways(daemon), (6, 0))
        self.assertEqual(self.regions(daemon), [{"name": "a", "device_id": 0, "byte_size": self.memory.size}])
        self.assertEqual(daemon.get(f"{REGIONS}/region/a/status").json(), self.regions(daemon))
        self.assertEqual(daemon.get("/v2/systemsharedmemory/status").json(), [])
        self.assertEqual(daemon.get("/v2/systemsharedmemory/region/a/status").status, 404)
        use = daemon.status()["shared_memory"]
        self.assertEqual((use["allowed"], use["cuda_allowed"], use["cuda_regions"]), (False, True, 1))
        self.assertIn('voxeld_regions{kind="cuda"} 1\n', daemon.get("/metrics").body.decode())
        self.assertIn("cuda_shared_memory", daemon.get("/v2").json()["extensions"])
        self.done(daemon.post("/v2/systemsharedmemory/unregister"))
        self.works(daemon)
        self.unregister(daemon)
        self.assertEqual(self.regions(daemon), [])
        self.assertEqual(self.ask(daemon).status, 400)

    def test_handles_are_not_shown(self):
        daemon = self.started("--log-level", "debug")
        self.works(daemon)
        self.refused(self.register(daemon), 400, "is registered already", "name")
        shown = daemon.log() + json.dumps(self.regions(daemon))
        for form in (self.memory.handle().hex()[:32], blocks.base64.b64encode(self.memory.handle()).decode()[:32]):
            self.assertNotIn(form, shown)

    def test_points_get_the_warnings_of_points_that_are_sent(self):
        def kinds(query, **change):
            return [warning["kind"] for warning in daemon.post(query, **change).json()["warnings"]]

        daemon = self.started()
        values = array.array("f", POINTS)
        values[3::4] = array.array("f", [255 * value for value in values[3::4]])
        for row in range(7, len(values) // 4, 9):
            values[4 * row + 3] = float("nan")
        odd, accept = values.tobytes(), {"Accept": "application/json"}
        query = "/v1/voxelize?preset=kitti_second"
        expected = kinds(query, body=odd, headers=accept)
        self.assertIn("feature_not_finite", expected)
        self.assertIn("intensity", expected)
        self.memory.write(odd)
        self.assertEqual(kinds(f"{query}&points_region=a,0,{SIZE}", headers=accept), expected)
        self.assertEqual(self.ways(daemon), (1, 0))

    def test_the_header_in_the_memory_has_all_metadata_but_the_times(self):
        def header(reply):
            file = self.memory.read(reply.json()["output_region"]["bytes"], PLACE)
            text = file[8 : 8 + int.from_bytes(file[:8], "little")]
            return json.loads(json.loads(text)["__metadata__"]["voxeld"])

        daemon = self.started()
        for query in ("", "&point_counts=2000,3000", "&outputs=voxel_coords"):
            reply = self.ask(daemon, path=VOXELIZE + query)
            self.assertEqual(reply.status, 200, reply)
            told = reply.json()["metadata"]
            self.assertGreater(told.pop("timing_us")["total"], 0)
            self.assertEqual(header(reply), told)
        reply = self.ask(daemon, path="/v1/transform?num_features=4")
        self.assertEqual(header(reply).keys(), reply.json()["metadata"].keys())

    def test_the_thread_that_gets_the_only_request_runs_its_job(self):
        daemon = self.started("--io-threads", "2", "--gpu-streams", "2")
        region = f"{VOXELIZE}&points_region=a,0,{SIZE}&output_region=a,{PLACE},{ROOM}"

        def small(*asked):
            """Sends the requests. Returns how many ran as small jobs."""
            before = daemon.status()["small_jobs"]["run"]
            for connection, path, body in asked:
                self.assertEqual(daemon.post(path, body, connection=connection).status, 200)
            return daemon.status()["small_jobs"]["run"] - before

        three = [self.enterContext(contextlib.closing(daemon.connection())) for _ in range(3)]
        for asked in ((region, b""), (VOXELIZE, POINTS)):
            self.assertGreaterEqual(small(*[(three[0], *asked)] * 20), 19)  # all but the connection's first request
            # One of the two I/O threads has two of the three connections, so it runs none of their jobs.
            self.assertLess(small(*[(one, *asked) for one in three] * 10), 15)
        self.assertEqual(small(*[(three[0], f"{VOXELIZE}&latest=a", POINTS)] * 3), 0)

    def test_a_region_that_is_a_part_of_a_block(self):
        daemon = self.started()
        self.done(self.register(daemon, "b", offset=PLACE, byte_size=ROOM))
        reply = daemon.post(f"{VOXELIZE}&points_region=a,0,{SIZE}&output_region=b,0,{ROOM}")
        self.assertEqual(self.tensors(reply), self.plain)
        reply = daemon.post(f"{VOXELIZE}&points_region=a,0,{SIZE}&output_region=b,1,{ROOM}")
        self.refused_problem(reply, "in all")
        self.unregister(daemon, "a")
        self.memory.write(POINTS, PLACE)
        reply = daemon.post(f"{VOXELIZE}&points_region=b,0,{SIZE}")
        self.assertEqual(reply.tensors(), self.plain)

    def refused_problem(self, reply, text, status=400):
        self.assertEqual(reply.status, status, reply)
        self.assertIn(text, reply.json()["detail"])

    def test_beside_shared_memory(self):
        daemon = self.started(
            allow=("--allow-cuda-shared-memory", "--allow-shared-memory", "--shared-memory-prefix", "voxeld-test")
        )
        with Memory(PLACE + ROOM) as system:
            system.write(POINTS)
            self.assertEqual(system.register(daemon, "a").status, 400)  # both kinds of region share their names
            self.done(system.register(daemon, "s"))
            self.refused(self.register(daemon, "s"), 400, "is registered already", "name")
            self.assertEqual(self.tensors(self.ask(daemon, points="s")), self.plain)
            self.assertEqual(self.tensors(self.ask(daemon, answer="s"), memory=system), self.plain)
            self.assertEqual(self.ways(daemon), (4, 0))
            self.unregister(daemon)
            self.assertEqual(len(daemon.get("/v2/systemsharedmemory/status").json()), 1)

    def test_what_is_copied_through_the_host(self):
        daemon = self.started()
        self.memory.write(POINTS, 20)
        self.assertEqual(self.tensors(self.ask(daemon, 20)), self.plain)  # not aligned
        self.assertEqual(self.ways(daemon), (1, 1))
        self.memory.write(POINTS)
        self.assertEqual(self.tensors(self.ask(daemon, 0, 64), 64), self.plain)  # the answer overwrites the points
        self.memory.write(POINTS)
        reply = daemon.post(f"{VOXELIZE}&points_region=a,0,{SIZE}", headers={"Accept-Encoding": "gzip"})
        self.assertEqual(reply.status, 200, reply)
        path = f"{VOXELIZE}&fields=x,y,z,intensity&intensity_scale=0.5"
        self.assertEqual(self.tensors(self.ask(daemon, path=path)), daemon.post(path, POINTS).tensors())
        self.assertEqual(self.memory.read(SIZE), POINTS)

    def test_files_in_gpu_memory(self):
        fields = "VERSION 0.7\nFIELDS x y z intensity\nSIZE 4 4 4 4\nTYPE F F F F\nCOUNT 1 1 1 1\n"
        sizes = "WIDTH 5000\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS 5000\nDATA binary\n"
        cloud = (fields + sizes).encode() + POINTS
        daemon = self.started()
        self.memory.write(cloud)
        reply = daemon.post(f"{VOXELIZE}&format=pcd&points_region=a,0,{len(cloud)}")
        self.assertEqual(reply.tensors(), daemon.post(f"{VOXELIZE}&format=pcd", cloud).tensors())
        reply = daemon.post(f"{VOXELIZE}&points_region=a,0,{SIZE}&output_region=a,{PLACE},{ROOM}", b"",
                            {"Accept": "application/json"})
        self.assertEqual(reply.status, 200, reply)

    def test_an_answer_that_does_not_fit(self):
        daemon = self.started()
        reply = daemon.post(f"{VOXELIZE}&points_region=a,0,{SIZE}&output_region=a,{PLACE},100")
        self.assertEqual((reply.status, reply.json()["parameter"]), (422, "output_region"), reply)
        self.assertEqual(self.memory.read(200, PLACE), bytes(200))
        self.works(daemon)

    def test_inference_requests(self):
        daemon = self.started()
        asked = [{"name": name, "parameters": {"binary_data": True}} for name in NAMES]
        body, headers = infer.body_of([infer.as_bytes("points", ARRAY)], [ARRAY], outputs=asked)
        right = infer.parse(daemon.post(MODEL, body, headers))[0]
        part = lambda at, size: {
            "shared_memory_region": "a",
            "shared_memory_offset": at,
            "shared_memory_byte_size": size,
        }
        places = {name: PLACE + i * 2 * MB for i, name in enumerate(NAMES)}
        outputs = [{"name": name, "parameters": part(at, 2 * MB)} for name, at in places.items()]
        given = {"name": "points", "shape": [5000, 4], "datatype": "FP32", "parameters": part(0, SIZE)}
        for _ in range(2):
            reply = daemon.post(MODEL, json.dumps({"inputs": [given], "outputs": outputs}))
            self.assertEqual(reply.status, 200, reply)
            for output in reply.json()["outputs"]:
                name = output["name"]
                self.assertEqual(output["shape"], list(right[name].shape))
                self.assertEqual(self.memory.read(right[name].nbytes, places[name]), right[name].tobytes(), name)
        self.assertEqual(self.ways(daemon), (2 * (1 + len(NAMES)), 0))

    # --- what is refused ---

    def test_handles_and_sizes(self):
        daemon = self.started()
        size = self.memory.size
        for text in ("", "AAAA", "!" * 88, "A" * 87 + "==", "A" * 200):
            terms = json.dumps({"raw_handle": {"b64": text}, "device_id": 0, "byte_size": 1})
            reply = daemon.post(f"{REGIONS}/region/b/register", terms)
            self.refused(reply, 400, "raw_handle.b64 is not", "raw_handle")
        for terms in ({"raw_handle": "AAAA"}, {"raw_handle": None}, {}):
            reply = daemon.post(f"{REGIONS}/region/b/register", json.dumps({**terms, "byte_size": 1}))
            self.refused(reply, 400, "raw_handle.b64 is not", "raw_handle")
        for junk in (bytes(64), bytes(range(64)), os.urandom(64)):
            reply = blocks.register(daemon, junk, "b", 1)
            self.refused(reply, 400, "the handle of GPU memory cannot be opened: ", "raw_handle")
        reply = blocks.register(daemon, bytes(range(1, 64)) + b"\0", "b", 1)
        self.refused(reply, 400, "cudaErrorInvalid", "raw_handle")
        for terms in ({"byte_size": size + 1}, {"offset": 1}, {"offset": 2**63 - 1}, {"byte_size": 2**63 - 1}):
            self.refused(self.register(daemon, "b", **terms), 400, f"has {size} in all", "byte_size")
        self.refused(self.register(daemon, "b", byte_size=0), 400, "byte_size is not a whole number", "byte_size")
        for device in (64, 2**40):
            self.refused(self.register(daemon, "b", device_id=device), 400, "does not use the GPU", "device_id")
        for device in (-1, "0"):
            reply = self.register(daemon, "b", device_id=device)
            self.refused(reply, 400, "device_id is not a whole number", "device_id")
        self.assertEqual(len(self.regions(daemon)), 1)
        self.works(daemon)

    def test_it_is_off_unless_it_is_allowed(self):
        for allow in ((), ("--allow-shared-memory",)):
            daemon = self.start(allow=allow)
            self.refused(self.register(daemon), 501, "shares no GPU memory; its operator can allow that")
            self.assertEqual(self.regions(daemon), [])
            self.done(daemon.post(f"{REGIONS}/unregister"))
            self.assertNotIn("cuda_shared_memory", daemon.get("/v2").json()["extensions"])
        with Memory(16) as memory:
            daemon = self.start()
            self.refused(memory.register(daemon, "s"), 501, "shares no memory; its operator")

    def test_a_server_without_a_gpu(self):
        with Daemon("--backend", "cpu", "--allow-cuda-shared-memory") as daemon:
            self.refused(self.register(daemon), 501, "shares no GPU memory: it has no GPU")

    def test_clients_of_other_machines(self):
        daemon = self.started("--trusted-proxies", "127.0.0.3")
        self.refused(self.register(daemon, "b", source="127.0.0.3"), 501, "memory is shared only with clients on")
        self.refused(self.register(daemon, "b", headers={"Via": "1.1 nginx"}), 501, "memory is shared only with")
        self.assertEqual(self.register(daemon, "b", headers={"Origin": "http://other.example"}).status, 403)
        self.assertEqual(daemon.get(f"{REGIONS}/status", {"Via": "1.1 nginx"}).json(), [])

    def test_names_and_blocks_belong_to_clients(self):
        (ann, _), (bob, _) = tokens = [new_token(name) for name in ("ann", "bob")]
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "tokens")
        path.write_text("".join(line for _, line in tokens), encoding="utf-8")
        path.chmod(0o600)
        daemon = self.start("--token-file", str(path), "--allow-anonymous")
        ann, bob = ({"Authorization": f"Bearer {token}"} for token in (ann, bob))
        self.refused(self.register(daemon), 501, "with clients that show a token")
        self.done(self.register(daemon, headers=ann))
        self.refused(self.register(daemon, headers=bob), 400, "another client has registered", "raw_handle")
        self.done(self.register(daemon, "b", headers=ann))
        self.assertEqual(daemon.get(f"{REGIONS}/status", bob).json(), [])
        self.assertEqual(daemon.get(f"{REGIONS}/region/a/status", bob).status, 404)
        query = f"{VOXELIZE}&points_region=a,0,{SIZE}"
        self.assertEqual(daemon.post(query, headers=bob).status, 400)
        self.assertEqual(daemon.post(query, headers=ann).status, 200)
        self.done(daemon.post(f"{REGIONS}/unregister", headers=bob))
        self.assertEqual(len(daemon.get(f"{REGIONS}/status", ann).json()), 2)
        self.done(daemon.post(f"{REGIONS}/unregister", headers=ann))
        wait_until(lambda: self.register(daemon, headers=bob).status == 200, "an end of the regions")

    def test_regions_end_with_the_token_of_their_owner(self):
        (ann, anns), (bob, bobs) = (new_token(name) for name in ("ann", "bob"))
        path = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "tokens")
        path.write_text(anns + bobs, encoding="utf-8")
        path.chmod(0o600)
        both = ("--allow-cuda-shared-memory", "--allow-shared-memory", "--shared-memory-prefix", "voxeld-test")
        with Memory(PLACE, "voxeld-test:ann:scan") as system:
            daemon = self.start("--token-file", str(path), "--allow-anonymous", allow=both)
            ann, bob = ({"Authorization": f"Bearer {token}"} for token in (ann, bob))
            other = self.block()
            self.done(self.register(daemon, headers=ann))
            self.done(self.register(daemon, memory=other, headers=bob))
            self.done(system.register(daemon, "s", headers=ann))
            path.write_text(bobs, encoding="utf-8")
            reload(daemon, "msg=reloaded what=tokens")
            self.assertEqual(len(daemon.get(f"{REGIONS}/status", bob).json()), 1)
            use = daemon.status()["shared_memory"]
            self.assertEqual((use["regions"], use["cuda_regions"]), (0, 1))
            self.done(self.register(daemon, "of-ann", headers=bob))  # ann's region of this block is gone
            path.write_text(bobs + new_token("ann")[1], encoding="utf-8")
            reload(daemon, "msg=reloaded what=tokens")
            self.assertEqual(len(daemon.get(f"{REGIONS}/status", bob).json()), 2)

    @unittest.skipUnless(STAND_IN, "only the stand-in can lack handles")
    def test_devices_without_handles(self):
        daemon = self.start(env={"VOXELD_STANDIN_NO_IPC": "1"})
        self.refused(self.register(daemon), 400, "operation not supported (cudaErrorNotSupported)", "raw_handle")
        daemon = self.start(env={"VOXELD_STANDIN_INTEGRATED": "1"})
        self.refused(self.register(daemon), 501, "its GPU has no memory of its own")

    def test_the_share_of_a_client(self):
        daemon = self.started()
        statuses = [self.register(daemon, str(number)).status for number in range(130)]
        self.assertEqual(statuses.count(200), 127)
        self.refused(self.register(daemon, "more"), 429, "there is no room for another region")
        self.works(daemon)

    # --- owners ---

    def test_owners_who_free_the_block(self):
        daemon = self.started()
        self.works(daemon)
        other = self.block()
        self.memory.free()
        self.done(self.register(daemon, "b", other))
        fresh = self.block()  # may have the freed block's address
        fresh.write(b"\x55" * fresh.size)
        for _ in range(3):
            reply = self.ask(daemon, answer="b")  # the daemon still has the freed block open
            self.assertEqual(self.tensors(reply, memory=other), self.plain)
            self.assertEqual(self.ask(daemon).status, 200)
        self.assertEqual(fresh.read(fresh.size), b"\x55" * fresh.size)
        self.unregister(daemon)
        self.assertEqual(daemon.post(VOXELIZE, POINTS).tensors(), self.plain)

    def test_owners_who_are_killed_while_jobs_run(self):
        daemon = self.started("--gpu-streams", "2")
        others = daemon.post(VOXELIZE, OTHERS).tensors()
        points = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "points")
        points.write_bytes(OTHERS)
        command = [sys.executable, blocks.__file__, str(PLACE + ROOM), str(points)]
        over, statuses = threading.Event(), []

        def keep_asking():
            while not over.is_set():
                statuses.append(self.ask(daemon, points="dying", answer="dying").status)

        for _ in range(2):
            with started(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
                handle = bytes.fromhex(owner.stdout.readline().decode())
                self.done(blocks.register(daemon, handle, "dying", PLACE + ROOM))
                over.clear()
                asker = threading.Thread(target=keep_asking)
                asker.start()
                self.works(daemon)
                owner.send_signal(signal.SIGKILL)
                owner.wait()
                for _ in range(10):
                    self.works(daemon)
                reply = self.ask(daemon, points="dying")
                self.assertEqual(self.tensors(reply), others)
                over.set()
                asker.join()
            self.unregister(daemon, "dying")
            if STAND_IN:
                os.unlink(b"/dev/shm/" + handle.rstrip(b"\0"))
        self.assertEqual(set(statuses), {200})
        self.assertEqual(daemon.status()["state"], "ready")
        self.works(daemon)

    def test_points_that_change_have_one_fate_each(self):
        daemon = self.started()
        self.assert_one_fate_each(daemon, 50)

    def test_nothing_is_written_after_unregistering(self):
        daemon = self.started()
        for _ in range(30):
            asker = threading.Thread(target=self.ask, args=(daemon,))
            asker.start()
            self.unregister(daemon)
            self.memory.write(bytes(SIZE), PLACE)
            asker.join()
            self.assertEqual(self.memory.read(SIZE, PLACE), bytes(SIZE))
            wait_until(lambda: self.register(daemon).status == 200, "room for a region")

    def test_a_drain_while_jobs_run(self):
        daemon = self.started("--gpu-streams", "2")
        statuses, count = [], 40

        def keep_asking(place):  # one place a thread: TSan would see a race of two writers in the stand-in
            try:
                for _ in range(count):
                    statuses.append(self.ask(daemon, place=place).status)
            except OSError:
                pass  # the server has stopped

        places = range(PLACE, PLACE + ROOM, ROOM // 4)
        askers = [threading.Thread(target=keep_asking, args=(place,)) for place in places]
        for asker in askers:
            asker.start()
        wait_until(lambda: len(statuses) > 8, "some answers")
        daemon.stop()
        for asker in askers:
            asker.join()
        self.assertLessEqual(set(statuses), {200, 503})
        self.assertEqual(self.memory.read(SIZE), POINTS)  # the owner can use the block again

    # --- faults, and several devices ---

    @unittest.skipUnless(CAN_FAIL, "calls do not fail on request in this build")
    def test_each_call_fails_in_turn(self):
        for failure in ("refused", "memory"):
            daemon = self.start()
            self.plain = daemon.post(VOXELIZE, POINTS).tensors()
            self.inject(f"{failure}@1")
            self.assertEqual(self.register(daemon).status, 400)
            self.inject("refused@0")
            self.done(self.register(daemon))
            for call in range(1, 6):
                with self.subTest(failure=failure, call=call):
                    self.inject(f"{failure}@{call}")
                    self.assertIn(self.ask(daemon).status, (200, 400, 422, 500, 503))
                    self.inject("refused@0")
                    self.works(daemon)

    def inject(self, text):
        draft = self.request.with_suffix(".draft")
        draft.write_text(text)
        draft.rename(self.request)

    @unittest.skipUnless(STAND_IN, "a real GPU stays lost")
    def test_a_gpu_that_is_lost(self):
        daemon = self.started()
        self.inject("lost@1+")
        self.assertEqual(self.ask(daemon).status, 500)
        self.inject("refused@0")
        self.assertEqual(daemon.status()["state"], "degraded")
        self.works(daemon)  # by copies; a real lost GPU could not make them

    @unittest.skipUnless(STAND_IN, "a test of several GPUs needs the stand-in")
    def test_jobs_run_on_the_gpu_of_their_memory(self):
        daemon = self.started("--gpu-streams", "2", env={"VOXELD_STANDIN_DEVICES": "3"})
        connection = self.enterContext(contextlib.closing(daemon.connection()))
        for device in (1, 2):
            memory = self.block(device=device)
            memory.write(POINTS)
            reply = self.register(daemon, f"on-{device}", memory)
            self.refused(reply, 400, f"the memory is of GPU {device}, not of GPU 0", "raw_handle")
            self.done(self.register(daemon, f"on-{device}", memory, device_id=device))
            # Requests 5 to 9 come on one connection, so the I/O thread may run their jobs. It may begin a job with the
            # lanes of another GPU.
            for number in range(10):
                kept = {"connection": connection} if number > 4 else {}
                reply = self.ask(daemon, points=f"on-{device}", answer=f"on-{device}", **kept)
                self.assertEqual(self.tensors(reply, memory=memory), self.plain)
                self.assertEqual(reply.json()["metadata"]["device"], f"stand-in {device}")
            self.assertEqual(
                self.regions(daemon)[0], {"name": f"on-{device}", "device_id": device, "byte_size": memory.size}
            )
        self.assertEqual(self.ways(daemon), (40, 0))
        reply = self.ask(daemon, points="on-1", answer="on-2")
        self.refused_problem(reply, "memory of GPU 1 and of GPU 2; allowed: memory of one GPU")
        self.assertEqual(reply.json()["parameter"], "output_region" if reply.status == 400 else "")

    @unittest.skipUnless(STAND_IN, "a test of several GPUs needs the stand-in")
    def test_many_jobs_on_several_gpus(self):
        daemon = self.started("--gpu-streams", "2", env={"VOXELD_STANDIN_DEVICES": "3"})
        failures = []

        def keep_asking(device):
            memory = self.block(device=device)
            memory.write(POINTS)
            name = f"{threading.get_ident()}"
            self.done(self.register(daemon, name, memory, device_id=device))
            for _ in range(10 if is_sanitized() else 40):
                reply = self.ask(daemon, points=name, answer=name)
                if self.tensors(reply, memory=memory) != self.plain:
                    failures.append(name)
                if reply.json()["metadata"]["device"] != f"stand-in {device}":
                    failures.append(device)

        askers = [threading.Thread(target=keep_asking, args=(device % 3,)) for device in range(9)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        self.assertEqual(failures, [])
        self.assertEqual(self.ways(daemon)[1], 0)


if __name__ == "__main__":
    unittest.main()
