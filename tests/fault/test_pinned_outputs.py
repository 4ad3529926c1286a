"""Inference requests whose tensors a GPU writes to shared memory, each tensor to its own part."""

import json
import threading
import unittest

import infer
import numpy as np
from client import MB
from pinned import CAN_FAIL, CHUNK, PLACE, POINTS, ROOM, PinnedCase
from shared import REGIONS, Memory, unregister

NAMES = ("voxel_coords", "voxel_num_points", "voxel_features", "point_voxel_ids", "voxel_point_mask")


class Outputs(PinnedCase):
    MODEL = "/v2/models/kitti_second/infer"
    ARRAY = np.frombuffer(POINTS, "<f4").reshape(-1, 4)

    def setUp(self):
        super().setUp()
        self.other = self.enterContext(Memory(ROOM))
        self.memories = {"a": self.memory, "b": self.other}

    def start(self, *args, plain=True):
        daemon = super().start(*args, plain=False)
        self.assertEqual(self.other.register(daemon, "b").status, 200)
        binary = [{"name": name, "parameters": {"binary_data": True}} for name in NAMES]
        body, headers = infer.body_of([infer.as_bytes("points", self.ARRAY)], [self.ARRAY], outputs=binary)
        self.right = infer.parse(daemon.post(self.MODEL, body, headers))[0] if plain else None
        return daemon

    def infer(self, daemon, places, size=ROOM, points=ARRAY):
        """Asks for the tensors of `places`: {name: (region, offset), or the value of binary_data if it is sent}."""
        outputs = []
        for name, place in places.items():
            region, at = place if isinstance(place, tuple) else (None, 0)
            part = {"shared_memory_region": region, "shared_memory_offset": at}
            part["shared_memory_byte_size"] = min(size, self.memories[region].size - at) if region else 0
            outputs.append({"name": name, "parameters": part if region else {"binary_data": place}})
        given = infer.in_region("points", points, "a", 0)
        return daemon.post(self.MODEL, json.dumps({"inputs": [given], "outputs": outputs}))

    def works(self, daemon, places, expected=None):
        """Checks that the tensors are at their places, and that nothing is written around them."""
        guard = b"\x55" * 64
        places_in = {name: place for name, place in places.items() if isinstance(place, tuple)}
        for name, (region, at) in places_in.items():
            blank = bytes(self.right[name].nbytes)
            self.memories[region].write(guard + blank + guard, at - len(guard))
        reply = self.infer(daemon, places)
        self.assertEqual(reply.status, 200, reply)
        sent, answer = infer.parse(reply)
        self.assertEqual([output["name"] for output in answer["outputs"]], list(places))
        for name, place in places.items():
            right = (expected or self.right)[name]
            size = right.nbytes
            if name not in places_in:
                self.assertEqual(sent[name].tobytes(), right.tobytes(), name)
                continue
            around = self.memories[place[0]].read(size + 2 * len(guard), place[1] - len(guard))
            self.assertEqual(around[64:-64], right.tobytes(), name)
            self.assertEqual(around[:64] + around[-64:], 2 * guard, name)

    EACH = {
        "voxel_coords": ("a", PLACE),
        "voxel_num_points": ("a", PLACE + 2 * MB + 3),
        "voxel_features": ("b", 100),
        "point_voxel_ids": ("b", 2 * MB - 4),
        "voxel_point_mask": ("a", PLACE + 3 * MB + 1),
    }
    SOME = {
        "voxel_coords": True,
        "voxel_num_points": ("b", 64),
        "voxel_features": False,
        "point_voxel_ids": ("a", PLACE + 77),
        "voxel_point_mask": True,
    }

    # --- in place ---

    def test_each_goes_to_its_place(self):
        daemon = self.start()
        for _ in range(3):
            self.works(daemon, self.EACH)
        self.assertEqual(self.ways(daemon), (3 * 6, 0))

    def test_some_are_sent(self):
        daemon = self.start()
        for places in (self.SOME, {**self.SOME, "voxel_features": True}, dict([*self.SOME.items()][:3])):
            self.works(daemon, places)
        self.assertEqual(self.ways(daemon), (3 + 3 + 2, 0))

    def test_in_an_encoded_answer(self):
        daemon = self.start("--compress-answers", "yes")
        given = infer.in_region("points", self.ARRAY, "a", 0)
        part = {"shared_memory_region": "b", "shared_memory_byte_size": MB}
        outputs = [{"name": "voxel_coords", "parameters": {"binary_data": True}}]
        outputs.append({"name": "voxel_features", "parameters": part})
        body = json.dumps({"inputs": [given], "outputs": outputs})
        reply = daemon.post(self.MODEL, body, {"Accept-Encoding": "gzip"})
        self.assertEqual((reply.status, reply.headers["Content-Encoding"]), (200, "gzip"))
        right = self.right["voxel_features"].tobytes()
        self.assertEqual(self.other.read(len(right)), right)
        self.assertEqual(self.ways(daemon), (2, 0))

    def test_parts_that_are_too_small(self):
        daemon = self.start()
        before = self.memory.read(ROOM, PLACE), self.other.read(ROOM)
        for size in (16, self.right["voxel_features"].nbytes - 1):
            reply = self.infer(daemon, self.EACH, size)
            self.assertEqual((reply.status, reply.json().get("parameter")), (400, "shared_memory_region"), reply)
        self.assertEqual((self.memory.read(ROOM, PLACE), self.other.read(ROOM)), before)
        self.works(daemon, self.EACH)

    # --- copies ---

    def test_parts_that_overlap_are_copied_in_order(self):
        """Where parts overlap, the last tensor is there, even if the parts are of two regions."""
        daemon = self.start()
        self.assertEqual(self.other.register(daemon, "alias", offset=4096, byte_size=ROOM - 4096).status, 200)
        self.memories["alias"] = self.other
        coords, features = self.right["voxel_coords"].tobytes(), self.right["voxel_features"].tobytes()
        for place in (("b", 8192 + 100), ("alias", 4096 + 100)):
            reply = self.infer(daemon, {"voxel_coords": ("b", 8192), "voxel_features": place}, MB)
            self.assertEqual(reply.status, 200, reply)
            self.assertEqual(self.other.read(100 + len(features), 8192), coords[:100] + features)
        self.assertEqual(self.ways(daemon), (2, 4))
        self.works(daemon, {"voxel_coords": ("b", 8192), "voxel_features": ("b", 8192 + len(coords) + 128)})
        self.assertEqual(self.ways(daemon), (5, 4))

    def test_tensors_over_the_points_are_copied(self):
        daemon = self.start()
        ids = self.right["point_voxel_ids"].tobytes()
        self.assertEqual(self.infer(daemon, {"point_voxel_ids": ("a", 0)}).status, 200)
        self.assertEqual(self.memory.read(len(ids)), ids)
        self.assertEqual(self.ways(daemon), (1, 1))

    def test_all_or_none(self):
        """All tensors are copied, since they would need more pinned chunks than the client's share has."""
        daemon = self.start("--shared-memory-pinned-bytes", str(4 * CHUNK))
        self.works(daemon, self.EACH)
        self.assertEqual(self.ways(daemon), (1, 5))

    def test_a_sampling_is_copied(self):
        daemon = self.start()
        asked = {"name": "sampled_indices", "parameters": {"shared_memory_region": "b", "shared_memory_byte_size": MB}}
        given = infer.in_region("points", self.ARRAY, "a", 0)
        body = {"inputs": [given], "outputs": [asked], "parameters": {"num_samples": 16}}
        reply = daemon.post("/v2/models/fps/infer", json.dumps(body))
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(self.ways(daemon), (1, 1))

    def test_no_points(self):
        daemon = self.start()
        self.assertEqual(self.infer(daemon, self.EACH, points=self.ARRAY[:0]).status, 200)
        self.assertEqual(self.ways(daemon)[0], 0)
        self.works(daemon, self.EACH)

    # --- owners ---

    def test_owners_who_shorten(self):
        daemon = self.start()
        self.works(daemon, self.EACH)
        self.other.shorten(4096)
        reply = self.infer(daemon, self.EACH, MB)
        self.assertEqual((reply.status, reply.json().get("parameter")), (400, "shared_memory_region"), reply)
        self.assertIn("the region 'b': its owner has shortened", reply.json()["detail"])
        self.other.shorten(ROOM)
        before = self.ways(daemon)
        self.works(daemon, self.EACH)
        self.assertEqual(self.ways(daemon), (before[0] + 1, before[1] + 5))
        self.works(daemon, {name: ("a", PLACE + i * MB) for i, name in enumerate(NAMES)})  # the pins are still valid
        self.assertEqual(self.ways(daemon), (before[0] + 7, before[1] + 5))
        daemon.post(f"{REGIONS}/unregister")
        for name in "ab":
            self.memories[name].register(daemon, name)
        self.works(daemon, self.EACH)
        self.assertEqual(self.ways(daemon), (before[0] + 13, before[1] + 5))

    def test_nothing_is_written_after_unregistering(self):
        daemon = self.start()
        for name, memory, begin in ("a", self.memory, PLACE), ("b", self.other, 0):
            for _ in range(15):
                asker = threading.Thread(target=self.infer, args=(daemon, self.EACH, MB))
                asker.start()
                unregister(daemon, name)
                memory.write(bytes(ROOM), begin)
                asker.join()
                self.assertEqual(memory.read(ROOM, begin), bytes(ROOM))
                self.assertEqual(memory.register(daemon, name).status, 200)

    # --- faults ---

    @unittest.skipUnless(CAN_FAIL, "calls do not fail on request in this build")
    def test_each_call_fails_in_turn(self):
        for failure in ("refused", "memory"):
            daemon = self.start()
            for call in range(1, 9):  # one call pins the points, the job makes three, four pin chunks for outputs
                daemon.post(f"{REGIONS}/unregister")
                for name in "ab":
                    self.memories[name].register(daemon, name)
                with self.subTest(failure=failure, call=call):
                    self.inject(f"{failure}@{call}")
                    self.works(daemon, self.EACH)
                    self.inject("refused@0")
                    self.works(daemon, self.SOME)
            self.assertGreater(self.use(daemon)["pin_failures"], 0)


if __name__ == "__main__":
    unittest.main()
