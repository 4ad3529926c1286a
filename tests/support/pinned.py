"""Shared memory that a GPU reads and writes in place. Tests need a GPU, or the stand-in of the sanitizer builds."""

import os
import pathlib
import subprocess
import tempfile
import threading
import unittest

from client import MB, VOXELIZE, Daemon, rows
from daemon import Reply, voxeld_binary, wait_until
from shared import Memory

POINTS = rows(5000)
OTHERS = rows(5000, seed=7)
SIZE = len(POINTS)
PLACE, ROOM = 4 * MB, 8 * MB  # where the answer goes in the memory, and the bytes reserved for it
CHUNK = 2 * MB  # bytes pinned at once: PIN_CHUNK of server/jobs/pins.h
PROGRAM = pathlib.Path(voxeld_binary()).read_bytes()
STAND_IN = b"VOXELD_STANDIN_DEVICES" in PROGRAM
CAN_FAIL = b"VOXELD_INJECT" in PROGRAM
ENVIRONMENT = {"VOXELD_STANDIN_DEVICES": "1"}


def has_gpu():
    asked = [voxeld_binary(), "--backend", "cuda", "--check-config"]
    return subprocess.run(asked, capture_output=True, env={**os.environ, **ENVIRONMENT}).returncode == 0


class Changing:
    """`self.memory` has the points; `self.ask` sends a request for them."""

    def assert_one_fate_each(self, daemon, requests):
        """Checks that each point has one fate, even if its client rewrites the points while they are read."""
        over = threading.Event()

        def rewrite():
            while not over.is_set():
                self.memory.write(OTHERS)
                self.memory.write(os.urandom(SIZE))

        owner = threading.Thread(target=rewrite)
        owner.start()
        try:
            for _ in range(requests):
                reply = self.ask(daemon)
                self.assertEqual(reply.status, 200, reply)
                points = reply.json()["metadata"]["points"]
                self.assertEqual(points.pop("received"), 5000)
                self.assertEqual(sum(points.values()), 5000, points)
        finally:
            over.set()
            owner.join()


@unittest.skipUnless(has_gpu(), "there is no GPU")
class PinnedCase(Changing, unittest.TestCase):
    def setUp(self):
        self.memory = Memory(PLACE + ROOM)
        self.addCleanup(self.memory.__exit__)
        self.memory.write(POINTS)

    def start(self, *args, plain=True):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        self.request = pathlib.Path(folder, "inject")
        shared = ("--backend", "cuda", "--allow-shared-memory", "--shared-memory-prefix", "voxeld-test")
        env = {**ENVIRONMENT, "VOXELD_INJECT": str(self.request)}
        daemon = self.enterContext(Daemon(*shared, *args, env=env))
        self.plain = daemon.post(VOXELIZE, POINTS).tensors() if plain else None
        self.assertEqual(self.memory.register(daemon, "a").status, 200)
        return daemon

    def inject(self, text):
        draft = self.request.with_suffix(".draft")
        draft.write_text(text)
        draft.rename(self.request)

    def ask(self, daemon, at=0, place=PLACE, path=VOXELIZE):
        return daemon.post(f"{path}&points_region=a,{at},{SIZE}&output_region=a,{place},{PLACE + ROOM - place}")

    def tensors(self, reply, place=PLACE):
        self.assertEqual(reply.status, 200, reply)
        return Reply(200, {}, self.memory.read(reply.json()["output_region"]["bytes"], place)).tensors()

    def works(self, daemon, expected=None):
        self.memory.write(bytes(ROOM // 2), PLACE)
        self.assertTrue(self.tensors(self.ask(daemon)) == (expected or self.plain), "the tensors differ")

    def use(self, daemon):
        return daemon.status()["shared_memory"]

    def await_unpinned(self, daemon):
        """Waits until no memory is pinned: all kernels have ended."""
        wait_until(lambda: self.use(daemon)["pinned_bytes"] == 0, "all memory to be unpinned")

    def ways(self, daemon):
        use = self.use(daemon)
        return use["parts_in_place"], use["parts_copied"]
