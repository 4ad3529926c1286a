"""How the soak's clients use streams. Each client is a vehicle with two sensors. It also repeats sweeps, lies and
vanishes.

An answer says which sweeps it has joined. The client must have sent them, and those of a stream must come newest first.
The tensors must be those of one request with the same sweeps, joined by hand."""

import urllib.parse

import numpy as np

import check
import soak_cases as cases
from client import Closed, head
from streams import Mirror, composed, pose_of

GRID = {"point_cloud_range": "-20,-20,-4,20,20,4", "voxel_size": "0.5,0.5,1", "feature": "points,mean"}
MOUNT = "1.5,0,1.9,0.6,0,0,0.8"  # of the sensor named rear
LAST_TIME = 1e12  # the largest allowed
COLUMNS = 4
REMEMBERED = 60  # sweeps of a stream: more than the stream keeps, because a lost sweep may arrive late


def query_of(query):
    return urllib.parse.urlencode(query, safe=",")


class Deeds:
    """A base class of soak_clients.Client. No other client uses its streams."""

    def __init__(self):
        self.sent, self.clock = {}, 1.0  # {stream: {time: (place, rows)}} that the server may have

    # --- sending ---

    def full(self, sensor):
        return f"{sensor}-{self.name}"

    def sweep(self, sizes=(0, 1, 300, 3000)):
        rng = np.random.default_rng(self.random.getrandbits(32))
        return rng.uniform(-12, 12, (self.random.choice(sizes), COLUMNS)).astype("<f4")

    def terms(self, sensor, **more):
        """The query for the sensor's next sweep."""
        self.clock += self.random.uniform(0.01, 0.2)
        place = [self.random.uniform(-3, 3) for _ in range(3)]
        query = {"stream": self.full(sensor), "time": repr(self.clock), "sweeps": str(self.random.randint(1, 5))}
        query["pose"] = ",".join(map(repr, place)) + self.random.choice((",1,0,0,0", ",0.6,0,0,0.8", ",0.8,0,-0.6,0"))
        query |= {"mount": MOUNT} if sensor == "rear" else {}
        query |= {"time_column": "yes"} if self.random.random() < 0.5 else {}
        query |= {"remove_close": "2.5"} if self.random.random() < 0.3 else {}
        return query | more

    def note(self, query, rows):
        """Notes that the server may have the sweep."""
        place = pose_of(query["pose"].split(","))
        if "mount" in query:
            place = composed(place, pose_of(query["mount"].split(",")))
        sweeps = self.sent.setdefault(query["stream"], {})
        sweeps[float(query["time"])] = (place, rows)
        if len(sweeps) > REMEMBERED:
            del sweeps[next(iter(sweeps))]

    def pieces_of(self, query, rows):
        body = rows.tobytes()
        path = f"/v1/voxelize?{query_of(GRID | {'num_features': str(rows.shape[1])} | query)}"
        return [head("POST", path, f"Content-Length: {len(body)}"), body]

    def post(self, query, rows):
        connection = self.connection()
        connection.send(b"".join(self.pieces_of(query, rows)))
        return self.read(connection, "/v1/voxelize")

    def ask_streams(self, method, path="", of_all=False):
        """A page of streams, on a separate connection."""
        connection = self.open()
        try:
            connection.send(head(method, f"/v1/streams{path}"))
            reply = connection.read_final()
        finally:
            connection.close()
        if reply.status not in (200, 404, 429, 503) or (of_all and reply.status == 404):
            raise cases.Wrong(f"{method} /v1/streams{path}: {reply}")
        return reply

    def drop_stream(self, name):
        return self.ask_streams("DELETE", f"/{name}")

    def leave_streams(self):
        """Drops all streams, like a client that ends properly."""
        try:
            for name in self.sent:
                self.drop_stream(name)
        except (OSError, AssertionError, Closed):
            pass  # the daemon has stopped
        self.sent = {}

    # --- verifying ---

    def joined(self, told, query):
        """The rows that `told` says were joined, and the counts of each sweep."""
        order = []
        for each in told["sweeps"]:
            kept = self.sent.get(each["stream"], {}).get(each["time"])
            if kept is None:
                raise cases.Wrong(f"a sweep that was not sent, or not to be kept: {each}")
            order.append((each["stream"], (each["time"], *kept)))
        for name in {each[0] for each in order}:
            times = [sweep[0] for each, sweep in order if each == name]
            if times != sorted(set(times), reverse=True):
                raise cases.Wrong(f"sweeps out of order: {told}")
        return Mirror().join(order, query)

    def verify_joined(self, reply, query):
        """Compares the answer with the answer to one request with the rows of the sweeps that it names."""
        tensors, metadata = check.parse_by_hand(reply.body)
        told = metadata["stream"]
        rows, counts = self.joined(told, query)
        found = [(s["stream"], s["time"], s["points"]["received"], s["points"]["joined"]) for s in told["sweeps"]]
        if found != counts or metadata["points"]["received"] != len(rows):
            raise cases.Wrong(f"other counts than by hand: {found} instead of {counts}")
        warned = any(warning["kind"] == "fewer_sweeps" for warning in metadata["warnings"])
        if warned != (len(found) < told["asked"]):
            raise cases.Wrong(f"the answer must warn of fewer sweeps if, and only if, some are missing: {metadata}")
        if (query["stream"], float(query["time"])) not in {each[:2] for each in found}:
            raise cases.Wrong(f"without its own sweep: {told}")
        plain = self.post({}, rows)
        if self.refused(plain):
            return
        if plain.status != 200 or check.same_tensors(check.parse_by_hand(plain.body)[0], tensors):
            raise cases.Wrong(f"other tensors than those joined by hand: {query}, {plain.status}")

    def conclude(self, reply, query, expected=()):
        """Checks the answer to a stream's request. Statuses other than 200 must be expected."""
        if self.refused(reply):
            return None
        if reply.status == 200:
            self.verify_joined(reply, query)
        elif (reply.status, reply.json()["type"].rpartition(":")[2]) not in expected:
            raise cases.Wrong(f"{reply} to {query}")
        return reply.status

    # --- deeds ---

    def stream(self):
        query, rows = self.terms(self.random.choice(("front", "rear"))), self.sweep()
        for _ in range(1 + (self.random.random() < 0.2)):  # sent again, as after a lost answer
            self.note(query, rows)
            self.conclude(self.post(query, rows), query)
        self.done("stream")

    def join_sensors(self):
        names = self.random.sample(("front", "rear"), 2)
        query, rows = self.terms(self.random.choice(names)), self.sweep()
        query["streams"] = ",".join(map(self.full, names))
        self.note(query, rows)
        self.conclude(self.post(query, rows), query, [(422, "impossible")])  # the first of `names` may have no sweep
        self.done("stream")

    def lie_in_stream(self):
        """Sends a sweep that the service refuses, unless the stream's sweeps have expired."""
        lies = {
            "earlier": ({"time": repr(self.clock - 5)}, COLUMNS, (409, "stream-time")),
            "no number": ({"time": "nan"}, COLUMNS, (400, "bad-parameter")),
            "too late": ({"time": "1e308"}, COLUMNS, (400, "bad-parameter")),
            "shape": ({}, COLUMNS + 1, (409, "stream-shape")),
            "stretched": ({"pose": "0,0,0,2,0,0,0"}, COLUMNS, (422, "not-rigid")),
        }
        lie, columns, expected = self.random.choice(list(lies.values()))
        if expected[0] == 409:
            first, some = self.terms("front"), self.sweep()
            self.note(first, some)
            if self.conclude(self.post(first, some), first) != 200:
                return
        query, rows = self.terms("front") | lie, np.zeros((10, columns), "<f4")
        reply = self.post(query, rows)
        if reply.status == 200 and expected[0] == 409:
            if not check.parse_by_hand(reply.body)[1]["stream"]["begun"]:
                raise cases.Wrong(f"a lie is taken: {query}")
            self.drop_stream(query["stream"])
        elif not self.refused(reply) and (reply.status, reply.json()["type"].rpartition(":")[2]) != expected:
            raise cases.Wrong(f"{reply} instead of {expected} to {query}")
        self.done("stream lie")

    def come_from_the_future(self):
        """Afterwards all earlier sweeps are refused, until the stream is dropped."""
        # A sweep without points would not be kept.
        query, rows = self.terms("front", time=repr(LAST_TIME)), self.sweep((1, 300, 3000))
        self.note(query, rows)
        if self.conclude(self.post(query, rows), query) == 200:
            query = self.terms("front")
            self.conclude(self.post(query, rows[:0]), query, [(409, "stream-time")])
        self.drop_stream(query["stream"])
        self.done("stream lie")

    def vanish_from_stream(self):
        """Vanishes in the middle of a body or after it. The service may keep the sweep if it got the whole body."""
        query, rows = self.terms(self.random.choice(("front", "rear"))), self.sweep()
        data, whole = b"".join(self.pieces_of(query, rows)), self.random.random() < 0.5
        if whole or not len(rows):
            self.note(query, rows)
        connection = self.open()
        with self.lock:
            self.tally.outcomes["left"] += 1
        try:
            connection.send(data if whole or not len(rows) else data[: -self.random.randint(1, rows.nbytes)])
        finally:
            (connection.reset if self.random.random() < 0.5 else connection.close)()

    def drop_in_use(self):
        """Drops the stream before the answer arrives; the answer must still be right."""
        query, rows = self.terms("front"), self.sweep()
        self.note(query, rows)
        connection = self.connection()
        connection.send(b"".join(self.pieces_of(query, rows)))
        self.drop_stream(query["stream"])
        self.conclude(self.read(connection, "/v1/voxelize"), query)
        self.done("stream")

    def look_at_stream(self):
        """Gets the list, and the last points of a stream."""
        name = self.full(self.random.choice(("front", "rear")))
        names = [stream["name"] for stream in self.ask_streams("GET", of_all=True).json().get("streams", [])]
        reply = self.ask_streams("GET", f"/{name}/last")
        if name in names and reply.status == 200:
            tensors, metadata = check.parse_by_hand(reply.body)
            if sum(each["points"]["joined"] for each in metadata["stream"]["sweeps"]) != len(tensors["points"]):
                raise cases.Wrong(f"the last points are not those of its sweeps: {metadata}")
        self.done("page")

    def begin_many_streams(self):
        """Begins streams up to a client's share; then ends them."""
        for number in range(self.random.randint(1, 60)):
            query = self.terms(f"n{number}", sweeps="1")
            self.note(query, np.zeros((0, COLUMNS), "<f4"))
            if self.conclude(self.post(query, np.zeros((0, COLUMNS), "<f4")), query) != 200:
                break
        for name in [name for name in self.sent if name.startswith("n")]:
            self.drop_stream(name)
            del self.sent[name]
        self.done("stream")
