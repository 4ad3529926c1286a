"""How the soak's clients use shared memory. Polite clients put points and answers in their own regions, and verify
every byte. Rude owners shorten, rewrite or unregister their memory while a job runs, which must not harm other
clients."""

import json
import os

import numpy as np

import infer
import soak_cases as cases
from client import Closed, head
from daemon import Reply
from shared import REGIONS, Memory

ROOM = 1 << 20  # half of a region: points, then the answer
SLACK = 4096  # an answer may be longer than the recorded one: its times may have more digits


class Deeds:
    """A base class of soak_clients.Client."""

    def __init__(self):
        self.memories = {}

    # --- regions ---

    def tell(self, path, document=None):
        """The reply to a POST that registers or unregisters a region, on a separate connection."""
        body = b"" if document is None else json.dumps(document).encode()
        connection = self.open()
        try:
            connection.send(head("POST", path, f"Content-Length: {len(body)}") + body)
            return connection.read_final()
        finally:
            connection.close()

    def region(self, name):
        """The memory of this client's region `name`. The first call registers it."""
        if name not in self.memories:
            memory = Memory(2 * ROOM, "voxeld-soak")
            terms = {"key": memory.key, "byte_size": 2 * ROOM}
            try:
                reply = self.tell(f"{REGIONS}/region/{self.full(name)}/register", terms)
                if reply.status != 200:
                    raise cases.Wrong(f"a region is refused: {reply}")
            except BaseException:
                memory.__exit__()
                raise
            self.memories[name] = memory
        return self.memories[name]

    def full(self, name):
        return f"{name}-{self.name}"

    def leave_memory(self):
        """Unregisters all regions, like a client that ends properly."""
        for name, memory in self.memories.items():
            try:
                self.tell(f"{REGIONS}/region/{self.full(name)}/unregister")
            except (OSError, AssertionError, Closed):
                pass  # the daemon has stopped
            finally:
                memory.__exit__()
        self.memories = {}

    # --- polite ---

    def small(self):
        """A request of /v1 and a kind of answer that both fit a region."""
        while True:
            request, kind = self.random.choice(self.shared.good), self.random.choice(list(cases.FINGERPRINTS))
            size = request.sizes.get(kind)
            if size is not None and max(len(request.body), size + SLACK) <= ROOM - 64:
                return request, kind

    def ask_with(self, memory, name, request, kind, points, output):
        """Sends the request with its points, its answer or both in the region. Returns the connection, and the answer's
        offset in the region."""
        at, path, body = self.random.randrange(64), request.path, request.body
        path += "" if "?" in path else "?"
        if points:
            memory.write(body, at)
            path, body = f"{path}&points_region={self.full(name)},{at},{len(body)}", b""
        if output:
            path = f"{path}&output_region={self.full(name)},{ROOM + at},{ROOM - at}"
        lines = (f"Content-Length: {len(body)}", f"Accept: {kind}", *request.lines)
        connection = self.connection()
        connection.send(head("POST", path.replace("?&", "?"), *lines) + body)
        return connection, ROOM + at

    def share(self):
        (request, kind), memory = self.small(), self.region("polite")
        points, output = self.random.choice(((True, True), (True, False), (False, True)))
        memory.write(os.urandom(64), ROOM + self.random.randrange(ROOM - 64))
        connection, at = self.ask_with(memory, "polite", request, kind, points, output)
        reply = self.read(connection, request.endpoint)
        if self.refused(reply):
            return
        if output and reply.status == 200:
            reply = Reply(200, {}, memory.read(reply.json()["output_region"]["bytes"], at))
        request.verify(reply, kind)
        self.done("shared")

    @staticmethod
    def is_small_preset(request):
        return list(request.query) == ["preset"] and request.hashes and len(request.body) <= ROOM

    def share_by_kserve(self):
        """Points of a preset in a region, and one output in it."""
        request = self.random.choice([one for one in self.shared.good if self.is_small_preset(one)])
        memory, name = self.region("polite"), self.full("polite")
        rows = np.frombuffer(request.body, "<f4").reshape(-1, request.columns)
        memory.write(request.body)
        terms = {"shared_memory_region": name, "shared_memory_byte_size": ROOM, "shared_memory_offset": ROOM}
        outputs = [{"name": "voxel_coords", "parameters": terms}, {"name": "voxel_num_points"}]
        body, headers = infer.body_of([infer.in_region("points", rows, name, 0)], outputs=outputs)
        lines = [f"{key}: {value}" for key, value in headers.items()]
        connection = self.connection()
        path = f"/v2/models/{request.query['preset']}/infer"
        connection.send(head("POST", path, f"Content-Length: {len(body)}", *lines) + body)
        reply = self.read(connection, "/v2/models/*/infer")
        if self.refused(reply):
            return
        if reply.status != 200:
            raise cases.Wrong(f"{reply.status} instead of 200, for regions named through KServe: {reply}")
        answered, told = infer.parse(reply)
        shape = next(output["shape"] for output in told["outputs"] if output["name"] == "voxel_coords")
        coords = np.frombuffer(memory.read(16 * shape[0], ROOM), "<i4").reshape(shape)
        for name, found in (("voxel_coords", coords), *answered.items()):
            if cases.hash_of(found) != request.hashes[name]:
                raise cases.Wrong("regions named through KServe gave other tensors than the plain request")
        self.done("shared")

    # --- rude ---

    def share_rudely(self):
        (request, kind), memory = self.small(), self.region("rude")
        connection, _ = self.ask_with(memory, "rude", request, kind, True, True)
        deed = self.random.choice(("shorten", "empty", "rewrite", "unlink", "unregister"))
        if deed == "shorten":
            memory.shorten(self.random.randrange(2 * ROOM))
        elif deed == "empty":
            memory.shorten(0)
        elif deed == "rewrite":
            memory.write(os.urandom(4096), self.random.randrange(ROOM))
        elif deed == "unlink":
            memory.unlink()
        else:
            self.tell(f"{REGIONS}/region/{self.full('rude')}/unregister")
        reply = self.read(connection, request.endpoint)
        if deed in ("unlink", "unregister"):
            self.tell(f"{REGIONS}/region/{self.full('rude')}/unregister")
            self.memories.pop("rude").__exit__()
        else:
            memory.shorten(2 * ROOM)
        if self.refused(reply):
            return
        if reply.status == 400:
            document = reply.json()
            if document["type"].rpartition(":")[2] not in ("bad-body", "bad-parameter"):
                raise cases.Wrong(f"{document} after the memory's owner did this: {deed}")
        elif reply.status not in (200, 422):  # the rewritten points may be too few to sample
            raise cases.Wrong(f"{reply.status} after the memory's owner did this: {deed}")
        self.done("rude owner")
