"""Streams behind docker/haproxy.cfg: each stream stays on one of three daemons. If a daemon dies, its streams begin
anew on others."""

import json
import re
import subprocess
import sys
import unittest
import urllib.parse

import numpy as np

from balancer import program
from client import wait_until
from sensors import Sensor, Sensors
from test_balancer import BalancerCase

WAY = "voxelds_of_streams"
SWEEPS = 5
HERE = "0,0,0,1,0,0,0"
POINTS = np.ones((10, 4), np.float32)


class StreamsCase(BalancerCase):
    COUNT = 3

    def setUp(self):
        super().setUp()
        self.until_ready(self.COUNT)

    def until_ready(self, count):
        """Waits until `count` servers take streams with their full weight. The weight of a new server grows."""
        whole = lambda: len([part for part in self.balancer.counted("weight", WAY).values() if part == 100]) >= count
        wait_until(lambda: len(self.balancer.up(WAY)) == count and whole(), "servers up, with their full weight")

    def sensors(self, number, points=400, **more):
        """Two clients use each stream name."""
        made = [
            Sensor(self.front.address, f"lidar_{n // 2}", f"127.0.1.{1 + n % 2}", points, SWEEPS, **more)
            for n in range(number)
        ]
        for sensor in made:
            self.addCleanup(sensor.close)
        return made

    def servers_of(self, name, source):
        """The numbers of the daemons that have the stream."""
        asked = [
            number
            for number, daemon in enumerate(self.daemons)
            if daemon.process.poll() is None and daemon.get(f"/v1/streams/{name}", source=source).status == 200
        ]
        return set(asked)

    def newest_of(self, sensor):
        """The number of the daemon that has the sensor's last sweep."""
        path, time = f"/v1/streams/{sensor.name}", (sensor.number - 1) / 10
        for number, daemon in enumerate(self.daemons):
            reply = daemon.get(path, source=sensor.source)
            if reply.status == 200 and reply.json()["sweeps"][0]["time"] == time:
                return number
        return None

    def send_all(self, sensors):
        """Each sensor sends a sweep. Returns the sensors whose stream began with this sweep."""
        told = {sensor: sensor.send() for sensor in sensors}
        self.assertEqual([failure for sensor in sensors for failure in sensor.failures], [])
        return {sensor for sensor, stream in told.items() if stream["begun"]}


class Routes(StreamsCase):
    def test_a_stream_stays_on_its_server(self):
        sensors = self.sensors(24)
        self.assertEqual(self.send_all(sensors), set(sensors))
        for _ in range(SWEEPS):
            self.assertEqual(self.send_all(sensors), set())
        places = [self.servers_of(sensor.name, sensor.source) for sensor in sensors]
        self.assertEqual({len(place) for place in places}, {1})
        self.assertEqual(set.union(*places), {0, 1, 2}, "a server has no stream")
        pairs = list(zip(places[::2], places[1::2]))
        self.assertTrue(any(one != other for one, other in pairs), "equal names of two clients are always together")

    def send(self, query, headers=None, path="/v1/transform?"):
        reply = self.front.post(path + query, POINTS.tobytes(), headers, source="127.0.1.9")
        self.assertEqual(reply.status, 200, reply)
        return reply

    def at(self, name):
        (number,) = self.servers_of(name, "127.0.1.9")
        return number

    def test_sensors_of_a_request_are_together(self):
        """The first name in `streams`, with commas as "," or "%2C", or the header Voxeld-Stream chooses the server."""
        for car in range(6):
            names = [f"{side}_{car}" for side in ("front", "rear", "left")]
            for time, name in enumerate(names):
                more = {"streams": ",".join(names), "stream": name, "time": time, "pose": HERE}
                self.send(urllib.parse.urlencode(more) if car % 2 else "&".join(f"{k}={v}" for k, v in more.items()))
            self.assertEqual({self.at(name) for name in names}, {self.at(names[0])})
        for car in range(6):
            names, word = [f"a_{car}", f"b_{car}"], {"Voxeld-Stream": f"car_{car}"}
            for name in names:
                self.send(f"stream={name}&time=1&pose={HERE}", word)
            self.assertEqual(self.at(names[0]), self.at(names[1]))
            reply = self.front.get(f"/v1/streams/{names[1]}", word, source="127.0.1.9")
            self.assertEqual(reply.status, 200, reply)

    def test_pages_of_a_stream_are_asked_where_it_is(self):
        for number in range(9):
            name = f"s_{number}"
            self.send(f"stream={name}&time=1&pose={HERE}")
            for path in (f"/v1/streams/{name}", f"/v1/streams/{name}/last", f"/v1/streams/{name}?x=1"):
                self.assertEqual(self.front.get(path, source="127.0.1.9").status, 200, path)
            self.assertEqual(self.front.request("DELETE", f"/v1/streams/{name}", source="127.0.1.9").status, 200)
            self.assertEqual(self.servers_of(name, "127.0.1.9"), set())

    def test_inference_by_its_header(self):
        """The balancer does not read the body, which has the stream's name."""
        for number in range(6):
            for time in range(3):
                parameters = {"stream": f"k_{number}", "sweeps": 3, "time": time, "pose": [0, 0, 0, 1, 0, 0, 0]}
                points = {"name": "points", "shape": [1, 4], "datatype": "FP32", "data": [1, 1, 1, time]}
                body = json.dumps({"inputs": [points], "parameters": parameters})
                word = {"Voxeld-Stream": f"k_{number}"}
                reply = self.front.post("/v2/models/transform/infer", body.encode(), word, source="127.0.1.9")
                self.assertEqual(reply.status, 200, reply)
            kept = self.front.get(f"/v1/streams/k_{number}", source="127.0.1.9").json()
            self.assertEqual([sweep["time"] for sweep in kept["sweeps"]], [2, 1, 0])

    def test_token_is_the_client(self):
        """Two addresses with one token are one client."""
        word = {"Authorization": "Bearer some-token"}
        for number in range(9):
            path = f"/v1/streams/t_{number}"
            for source in ("127.0.1.20", "127.0.1.21"):
                before = self.balancer.counted("sessions_total", WAY)
                self.front.get(path, word, source=source)
                now = self.balancer.counted("sessions_total", WAY)
                (server,) = [number for number in now if now[number] > before[number]]
                if source == "127.0.1.20":
                    first = server
            self.assertEqual(server, first)

    def test_longest_lists_fit(self):
        """32 poses of 16 numbers of 20 characters."""
        pose = ",".join(["1.000000000000000000" if n % 5 == 0 else "0.000000000000000000" for n in range(16)])
        lists = [",".join(each) for each in (["1"] * 32, [str(-n) for n in range(32)], [pose] * 32)]
        query = "stream=long&point_counts={}&times={}&poses={}".format(*lists)
        body = np.ones((32, 4), np.float32).tobytes()
        reply = self.front.post(f"/v1/transform?{query}", body, source="127.0.1.9")
        self.assertEqual(reply.status, 200, reply)


def version():
    """HAProxy's version, such as (2, 6)."""
    told = subprocess.run((program("haproxy"), "-v"), capture_output=True, text=True, check=True).stdout
    return tuple(map(int, re.search(r"version (\d+)\.(\d+)", told).groups()))


class Several(StreamsCase):
    @unittest.skipIf(version() < (3, 0), "before HAProxy 3.0 the number of a server decides which streams it gets")
    def test_two_balancers_agree(self):
        """The second lists the servers in another order."""
        other = self.balance([daemon.address[1] for daemon in self.daemons][::-1])
        wait_until(lambda: other.up(WAY) == {1, 2, 3}, "the servers up")
        wait_until(lambda: set(other.counted("weight", WAY).values()) == {100}, "their full weight")
        for number in range(24):
            first = Sensor(self.front.address, f"s_{number}", "127.0.1.1", 10, SWEEPS)
            second = Sensor(other.address, f"s_{number}", "127.0.1.1", 10, SWEEPS)
            second.number = 1  # a later sweep than the first sensor's
            self.assertEqual([sensor.send()["begun"] for sensor in (first, second)], [True, False])
            first.close()
            second.close()


class Losses(StreamsCase):
    def test_a_server_dies_and_comes_back(self):
        sensors = self.sensors(24)
        for _ in range(SWEEPS):
            self.send_all(sensors)
        home = {sensor: self.newest_of(sensor) for sensor in sensors}
        lost = {sensor for sensor in sensors if home[sensor] == 0}
        self.assertTrue(lost and lost != set(sensors))
        self.kill(0)
        self.assertEqual(self.send_all(sensors), lost, "streams of other servers began anew")
        wait_until(lambda: self.balancer.up(WAY) == {2, 3}, "the dead server out")
        # In send_all above, some retries may have gone to a server other than the stream's new one.
        self.assertLessEqual(self.send_all(sensors), lost)
        for _ in range(SWEEPS):
            self.assertEqual(self.send_all(sensors), set())
        self.assertTrue(all(sensor.is_whole(sensor.send()) for sensor in sensors))
        self.restart(0)
        self.until_ready(self.COUNT)
        self.assertEqual(self.send_all(sensors), lost, "streams of other servers moved")
        self.assertEqual({sensor: self.newest_of(sensor) for sensor in sensors}, home)
        self.assertEqual(self.send_all(sensors), set())

    def test_nothing_is_lost_under_load(self):
        """A server dies and comes back under load. No answer has a wrong byte. Sensors that send older sweeps along
        have no gap."""
        plain, along = self.sensors(8), self.sensors(8, along=True)
        for sensor in along:
            sensor.name += "_along"
        load = Sensors(plain + along, 10)
        self.addCleanup(load.stop)
        reached = lambda more: [sensor.number + more for sensor in load.sensors]

        def until_sent(numbers):
            wait_until(
                lambda: all(s.failures or s.number >= n for s, n in zip(load.sensors, numbers)), "sweeps of each sensor"
            )

        until_sent(reached(SWEEPS))
        self.kill(0)
        until_sent(reached(2 * SWEEPS))
        self.restart(0)
        self.until_ready(self.COUNT)
        until_sent(reached(2 * SWEEPS))
        load.stop()
        self.assertEqual([failure for sensor in load.sensors for failure in sensor.failures], [])
        # The dead server's streams began again on another server, and when they moved back.
        self.assertGreater(sum(len(sensor.begun) for sensor in load.sensors), len(load.sensors))
        self.assertGreater(sum(len(sensor.fewer) for sensor in plain), 0)
        self.assertEqual([sensor.fewer for sensor in along], [[]] * len(along))

    def test_a_large_sweep_is_the_clients_to_repeat(self):
        """The balancer does not keep so large a body, so the sensor must repeat the request."""
        (sensor,) = self.sensors(1, points=60_000)
        sensor.send()
        self.kill(self.newest_of(sensor))
        stream = sensor.send()
        self.assertEqual(sensor.failures, [])
        self.assertTrue(stream["begun"])
        self.assertEqual(len(stream["sweeps"]), 1)
        self.assertEqual(len(sensor.send()["sweeps"]), 2)


if __name__ == "__main__":
    if not program("haproxy"):
        print("skipped: haproxy is not installed")
        sys.exit(77)
    unittest.main()
