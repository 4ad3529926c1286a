"""Shared memory that a GPU reads and writes in place, also while its owner changes it or CUDA calls fail.

See pinned.py.
"""

import array
import json
import os
import threading
import unittest

from client import VOXELIZE
from pinned import CAN_FAIL, CHUNK, OTHERS, PLACE, POINTS, ROOM, SIZE, STAND_IN, PinnedCase
from shared import REGIONS, unregister

MODEL = "/v2/models/kitti_second/infer"


class Pinned(PinnedCase):
    # --- what is pinned ---

    def test_the_gpu_reads_and_writes_in_place(self):
        daemon = self.start()
        for _ in range(3):
            self.works(daemon)
        use = self.use(daemon)
        self.assertEqual(self.ways(daemon), (6, 0))
        self.assertEqual((use["regions"], use["pinned_bytes"], use["pin_failures"]), (1, 2 * CHUNK, 0))
        self.assertIn(f"voxeld_regions_pinned_bytes {2 * CHUNK}\n", daemon.get("/metrics").body.decode())
        unregister(daemon)
        self.assertEqual(self.use(daemon)["regions"], 0)
        self.await_unpinned(daemon)

    def test_points_in_place_get_the_warnings_of_points_that_are_sent(self):
        def kinds(query, **change):
            return [warning["kind"] for warning in daemon.post(query, **change).json()["warnings"]]

        daemon = self.start()
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
        ways = self.ways(daemon)
        self.assertEqual(kinds(f"{query}&points_region=a,0,{SIZE}", headers=accept), expected)
        self.assertEqual(self.ways(daemon), (ways[0] + 1, ways[1]))

    def test_points_that_are_not_aligned_are_copied(self):
        daemon = self.start()
        self.memory.write(POINTS, 20)
        for place in (PLACE + 4, PLACE + 9):
            self.assertEqual(self.tensors(self.ask(daemon, 20, place), place), self.plain)
        self.assertEqual(self.ways(daemon), (2, 2))

    def test_an_answer_over_its_points_is_copied(self):
        daemon = self.start()
        self.assertEqual(self.tensors(self.ask(daemon, 0, 64), 64), self.plain)
        self.assertEqual(self.ways(daemon), (1, 1))

    def test_the_answer_to_no_points_is_copied(self):
        """The CPU writes this answer. It must not write to a region in place, since the owner may shorten it."""
        daemon = self.start()
        path = f"/v1/voxelize?point_cloud_range=0,0,0,8,8,8&voxel_size=1,1,1&outputs=occupancy&output_region=a,{PLACE},"
        right = daemon.post(f"{path.partition('&output_region')[0]}", b"").tensors()
        self.works(daemon)
        ways = self.ways(daemon)
        self.assertEqual(self.tensors(daemon.post(f"{path}{ROOM}", b"")), right)
        self.assertEqual(self.ways(daemon), (ways[0], ways[1] + 1))
        self.memory.shorten(0)
        self.assertEqual(daemon.post(f"{path}{ROOM}", b"").status, 400)

    def test_points_that_the_cpu_changes_are_copied(self):
        daemon = self.start()
        path = f"{VOXELIZE}&fields=x,y,z,intensity&intensity_scale=0.5"
        scaled = daemon.post(path, POINTS).tensors()
        self.assertTrue(self.tensors(self.ask(daemon, path=path)) == scaled)
        self.assertEqual(self.ways(daemon), (1, 1))
        self.assertEqual(self.memory.read(SIZE), POINTS)

    def test_other_answers_are_copied(self):
        daemon = self.start()
        path = f"{VOXELIZE}&points_region=a,0,{SIZE}&output_region=a,{PLACE},{ROOM}"
        reply = daemon.post(path, headers={"Accept": "application/json"})
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(self.ways(daemon), (1, 1))

    def infer(self, daemon, headers=None):
        part = {"shared_memory_region": "a", "shared_memory_offset": 0, "shared_memory_byte_size": SIZE}
        given = {"name": "points", "shape": [5000, 4], "datatype": "FP32", "parameters": part}
        request = {"inputs": [given], "parameters": {"binary_data_output": True}}
        return daemon.post(MODEL, json.dumps(request), headers)

    def test_points_of_an_inference_request(self):
        daemon = self.start()
        plain = daemon.post(MODEL, POINTS, {"Inference-Header-Content-Length": "0"})
        reply = self.infer(daemon)
        self.assertEqual(reply.status, 200, reply)
        bytes_of = lambda answer: answer.body[int(answer.headers["Inference-Header-Content-Length"]) :]
        self.assertEqual(bytes_of(reply), bytes_of(plain))
        self.assertEqual(self.ways(daemon), (1, 0))

    def test_points_of_an_inference_request_that_may_use_no_region(self):
        daemon = self.start()
        for status, headers in (
            (501, {"X-Forwarded-For": "192.0.2.7"}),
            (403, {"Host": "rebound.example"}),
            (403, {"Origin": "http://other.example"}),
        ):
            with self.subTest(headers):
                reply = self.infer(daemon, headers)
                self.assertEqual(reply.status, status, reply)
        self.assertEqual(self.ways(daemon), (0, 0))

    def test_no_more_points_than_a_body_may_have(self):
        daemon = self.start("--max-body-bytes", "65536", plain=False)
        reply = daemon.post(f"{VOXELIZE}&points_region=a,0,{2 * SIZE}")
        self.assertEqual((reply.status, reply.json().get("type")), (413, "urn:voxeld:problem:body-too-large"), reply)
        self.assertEqual(self.ways(daemon)[0], 0)

    def test_the_limit(self):
        daemon = self.start("--shared-memory-pinned-bytes", "0")
        self.works(daemon)
        self.assertEqual((self.ways(daemon), self.use(daemon)["pinned_bytes"]), ((0, 2), 0))
        daemon = self.start("--shared-memory-pinned-bytes", str(2 * CHUNK))  # a client gets half of it
        self.works(daemon)
        self.assertEqual((self.ways(daemon), self.use(daemon)["pinned_bytes"]), ((1, 1), CHUNK))

    # --- owners ---

    def test_owners_who_begin_anew(self):
        """The owner truncates the memory and writes it again, as `cp` does. Then the pinned pages are no longer the
        memory's, so no answer may come from them."""
        daemon = self.start()
        self.works(daemon)
        self.memory.shorten(0)
        self.memory.shorten(PLACE + ROOM)
        self.memory.write(OTHERS)
        self.works(daemon, daemon.post(VOXELIZE, OTHERS).tensors())
        self.assertEqual(self.ways(daemon), (2, 2))  # the job ran on the old pages, then again by copies
        self.works(daemon, daemon.post(VOXELIZE, OTHERS).tensors())
        self.assertEqual(self.ways(daemon), (2, 4))
        daemon.post(f"{REGIONS}/unregister")
        self.memory.register(daemon, "a")
        self.works(daemon, daemon.post(VOXELIZE, OTHERS).tensors())
        self.assertEqual(self.ways(daemon), (4, 4))

    def test_owners_who_shorten(self):
        daemon = self.start()
        self.works(daemon)
        for size, parameter in ((PLACE, "output_region"), (SIZE - 16, "points_region")):
            self.memory.shorten(size)
            reply = self.ask(daemon)
            self.assertEqual((reply.status, reply.json().get("parameter")), (400, parameter), reply)
            self.assertIn("shortened", reply.json()["detail"])
        self.assertEqual(daemon.post(VOXELIZE, POINTS).tensors(), self.plain)
        self.memory.shorten(PLACE + ROOM)
        self.memory.write(POINTS)
        self.works(daemon)

    def test_owners_who_do_anything_while_jobs_run(self):
        daemon = self.start("--gpu-streams", "4")
        over = threading.Event()

        def meddle():
            deeds = [
                lambda: self.memory.write(os.urandom(SIZE)),
                lambda: self.memory.write(b"\xff" * SIZE),
                lambda: self.memory.shorten(SIZE // 2),
                lambda: self.memory.shorten(0),
                lambda: self.memory.shorten(PLACE + ROOM),
                lambda: daemon.post(f"{REGIONS}/unregister"),
                lambda: self.memory.register(daemon, "a"),
            ]
            while not over.is_set():
                for deed in deeds:
                    deed()

        owner = threading.Thread(target=meddle)
        owner.start()
        try:
            statuses = {self.ask(daemon).status for _ in range(150)}
        finally:
            over.set()
            owner.join()
        self.assertLessEqual(statuses, {200, 400})
        self.assertEqual(daemon.status()["state"], "ready")
        unregister(daemon)
        self.await_unpinned(daemon)
        self.memory.shorten(PLACE + ROOM)
        self.memory.write(POINTS)
        self.memory.register(daemon, "a")
        self.works(daemon)

    def test_points_that_change_have_one_fate_each(self):
        daemon = self.start()
        self.assert_one_fate_each(daemon, 100)
        self.assertEqual(self.ways(daemon)[1], 0)

    def test_nothing_is_written_after_unregistering(self):
        daemon = self.start()
        for _ in range(30):
            asker = threading.Thread(target=self.ask, args=(daemon,))
            asker.start()
            unregister(daemon)
            self.memory.write(bytes(SIZE), PLACE)
            asker.join()
            self.assertEqual(self.memory.read(SIZE, PLACE), bytes(SIZE))
            self.assertEqual(self.memory.register(daemon, "a").status, 200)

    # --- faults ---

    @unittest.skipUnless(CAN_FAIL, "calls do not fail on request in this build")
    def test_each_call_fails_in_turn(self):
        for failure in ("refused", "memory"):
            daemon = self.start()
            for call in range(1, 7):  # one call pins the points, one the answer's part, and the job makes four
                daemon.post(f"{REGIONS}/unregister")
                self.memory.register(daemon, "a")
                with self.subTest(failure=failure, call=call):
                    self.inject(f"{failure}@{call}")
                    self.works(daemon)
                    self.inject("refused@0")
                    self.works(daemon)
                    self.assertEqual(sum(self.ways(daemon)), 4 * call)
            self.assertGreater(self.use(daemon)["pin_failures"], 0)

    @unittest.skipUnless(STAND_IN, "a real GPU stays lost")
    def test_a_gpu_that_is_lost(self):
        daemon = self.start()
        self.works(daemon)
        self.inject("lost@1+")
        self.works(daemon)
        self.assertEqual(daemon.status()["state"], "degraded")
        self.works(daemon)


if __name__ == "__main__":
    unittest.main()
