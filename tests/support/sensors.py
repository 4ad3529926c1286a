"""Clients that each send the sweeps of a stream. They send a sweep again if the connection breaks or the answer has
Retry-After. They compare the bytes of every answer with the sweeps that it claims to have joined."""

import http.client
import threading
import time

import numpy as np

import check
from sources import HTTPConnection
from streams import Mirror, pose_of

PATIENCE = 60  # seconds that one exchange may take
TRIES = 20


class Sensor:
    """One stream of a client at the address `source`. With `along`, if an answer lacks older sweeps, the sensor sends
    the last sweep again together with them."""

    def __init__(self, address, name, source, points, sweeps=5, along=False, headers=None):
        self.name, self.source, self.sweeps, self.along = name, source, sweeps, along
        self._headers = headers or {}
        self._connection = HTTPConnection(*address, timeout=PATIENCE, source_address=(source, 0))
        rng = np.random.default_rng(sum(map(ord, name + source)))
        self._rows = rng.uniform(-20, 20, (points, 4)).astype(np.float32)
        self._sent = []  # the newest first: (time, numbers of its pose, rows)
        self.number = 0  # of the next sweep
        self.seconds, self.failures, self.begun, self.fewer, self.retries = [], [], [], [], 0

    def _new(self):
        rows = self._rows.copy()
        rows[:, 3] = self.number  # so that no two sweeps have the same bytes
        self._sent = [(self.number / 10, (self.number / 2, 0, 0, 1, 0, 0, 0), rows), *self._sent][: self.sweeps]
        self.number += 1

    def _query(self, count):
        query = {"stream": self.name, "sweeps": self.sweeps, "time_column": "yes"}
        sent = self._sent[:count]
        poses = ",".join(str(number) for _, pose, _ in sent for number in pose)
        if count == 1:
            return {**query, "time": sent[0][0], "pose": poses}
        counts, times = (",".join(map(str, each)) for each in ([len(s[2]) for s in sent], [s[0] for s in sent]))
        return {**query, "point_counts": counts, "times": times, "poses": poses}

    def _exchange(self, path, body):
        """The answer; b"" if it is an error; None if the sensor must ask again."""
        try:
            self._connection.request("POST", path, body, self._headers)
            reply = self._connection.getresponse()
            answer, again = reply.read(), reply.getheader("Retry-After")
        except (OSError, http.client.HTTPException):
            self._connection.close()
            return None
        if again:
            time.sleep(int(again))
            return None
        if reply.status != 200:
            self.failures.append(f"{reply.status}: {answer[:300]!r}")
        return answer if reply.status == 200 else b""

    def _ask(self, count):
        """The answer's metadata["stream"]; None after a failure."""
        path = "/v1/transform?" + "&".join(f"{name}={value}" for name, value in self._query(count).items())
        body = b"".join(rows.tobytes() for _, _, rows in self._sent[:count])
        for _ in range(TRIES):
            answer = self._exchange(path, body)
            if answer is not None:
                break
            self.retries += 1
        if answer is None:
            self.failures.append(f"no answer after {TRIES} tries")
        return self._check(answer) if answer else None

    def _check(self, answer):
        """Checks that the points are those of the sweeps that the answer names."""
        tensors, metadata = check.parse_by_hand(answer)
        stream = metadata["stream"]
        sent = {time: (time, pose_of(pose), rows) for time, pose, rows in self._sent}
        told = [sent.get(sweep["time"]) for sweep in stream["sweeps"]]
        if None in told:  # an old sweep, kept by a server that had the stream long ago
            told = told[: told.index(None)]
        joined, _ = Mirror().join([(self.name, sweep) for sweep in told], {"time_column": "yes"})
        if tensors["points"][: len(joined)].tobytes() != joined.tobytes() or told[0] is None:
            self.failures.append(f"{self.name} at {stream['time']}: an answer has other points")
        warned = any(warning["kind"] == "fewer_sweeps" for warning in metadata["warnings"])
        if warned != (len(stream["sweeps"]) < self.sweeps):
            self.failures.append(f"{self.name} at {stream['time']}: {len(stream['sweeps'])} sweeps, warned: {warned}")
        return stream

    def send(self):
        """Sends the next sweep. Returns metadata["stream"] of the last answer; None after a failure."""
        self._new()
        begin = time.monotonic()
        stream = self._ask(1)
        if stream and stream["begun"]:
            self.begun.append(self.number - 1)
        if self.along and stream and not self.is_whole(stream):
            stream = self._ask(len(self._sent))
        self.seconds.append(time.monotonic() - begin)
        if stream and not self.is_whole(stream):
            self.fewer.append(self.number - 1)
        return stream

    def is_whole(self, stream):
        """Whether the answer joined exactly the sweeps in _sent."""
        return [sweep["time"] for sweep in stream["sweeps"]] == [sent[0] for sent in self._sent]

    def close(self):
        self._connection.close()


class Sensors:
    """Sensors that each send sweeps at a rate until stop()."""

    def __init__(self, sensors, rate):
        self.sensors, self._rate = sensors, rate
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._go_on, args=(sensor,)) for sensor in sensors]
        for thread in self._threads:
            thread.start()

    def _go_on(self, sensor):
        due = time.monotonic()
        try:
            while not self._stop.is_set() and not sensor.failures:
                sensor.send()
                due = max(due + 1 / self._rate, time.monotonic() - 1)  # catches up after delays of up to a second
                self._stop.wait(max(0, due - time.monotonic()))
        except Exception as reason:  # otherwise it would end the thread silently
            sensor.failures.append(repr(reason))

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()
