"""Many subscribers, and subscribers that are slow, vanish or outlive their token. Each gets its client's events, or the
number of lost events. None delays a stream, a drain or another subscriber."""

import json
import os
import pathlib
import signal
import socket
import struct
import tempfile
import unittest

from client import VOXELIZE, Daemon, FaultCase, rows, wait_until
from credentials import Authority, TlsDaemon, TokenDaemon, new_token
from daemon import OPERATOR
from events import Subscriber

HERE = "0,0,0,1,0,0,0"
POINTS = rows(20)
JSON = {"Accept": "application/json"}
SHARE = 128  # the most subscribers of a lone client
TIMEOUTS = ("--idle-timeout-s", "2", "--send-timeout-s", "1", "--upload-timeout-s", "1")


def send(daemon, name, time, **more):
    reply = daemon.post(f"{VOXELIZE}&stream={name}&sweeps=2&pose={HERE}&time={time}", POINTS, JSON, **more)
    assert reply.status == 200, reply


def send_until(daemon, condition, quick=None):
    """Sends sweeps until the condition holds. `quick`, if given, reads the event of each. Returns their number."""
    sent, connection = 0, daemon.connection()
    while not condition():
        for _ in range(200):
            sent += 1
            send(daemon, "s", sent, connection=connection)
            assert not quick or quick.next()[1]["time"] == sent
    connection.close()
    return sent


def subscribers(daemon):
    return daemon.status()["streams"]["subscribers"]


def events(daemon, fate):
    page = daemon.get("/metrics", source=OPERATOR).body.decode()
    return int(page.partition(f'voxeld_stream_events_total{{fate="{fate}"}} ')[2].split()[0])


class Bare:
    """A subscriber that reads nothing, or vanishes."""

    def __init__(self, daemon, receive_buffer=None, path="/v1/events"):
        self.socket = daemon.socket(receive_buffer=receive_buffer)
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def read_until(self, last):
        """Reads events up to the event that contains `last`. Returns their data."""
        data = b""
        while last not in data.rpartition(b"\n\n")[0]:
            part = self.socket.recv(1 << 16)
            assert part, data[-1000:]
            data += part
        return [json.loads(line[6:]) for line in data.decode().splitlines() if line.startswith("data: ")]


class Events(FaultCase):
    def setUp(self):
        super().setUp()
        self.open = []

    def tearDown(self):
        for subscriber in self.open:
            subscriber.close()
        wait_until(lambda: not subscribers(self.daemon), "all subscribers have ended")
        for stream in self.daemon.get("/v1/streams").json()["streams"]:
            self.daemon.request("DELETE", f"/v1/streams/{stream['name']}")
        super().tearDown()

    def subscribe(self, path="/v1/events", daemon=None, **more):
        subscriber = Subscriber(daemon or self.daemon, path, **more)
        if not daemon:
            self.open.append(subscriber)
        self.assertEqual(subscriber.reply.status, 200)
        return subscriber

    def test_each_is_told_of_its_own(self):
        ours, one, other = (
            self.subscribe(),
            self.subscribe("/v1/streams/b/events"),
            self.subscribe(source="127.0.0.2"),
        )
        self.assertEqual(ours.next(), ("open", {"streams": 0}))
        self.assertEqual(one.next(), ("open", {"stream": "b", "sweeps": 0}))
        self.assertEqual(other.next(), ("open", {"streams": 0}))
        send(self.daemon, "a", 1)
        send(self.daemon, "b", 2)
        send(self.daemon, "b", 3, source="127.0.0.2")
        told = lambda subscriber: (lambda event: (event[0], event[1]["stream"], event[1]["time"]))(subscriber.next())
        self.assertEqual([told(ours), told(ours)], [("sweep", "a", 1), ("sweep", "b", 2)])
        self.assertEqual(told(one), ("sweep", "b", 2))
        self.assertEqual(told(other), ("sweep", "b", 3))
        self.daemon.request("DELETE", "/v1/streams/b", source="127.0.0.2")
        self.assertEqual(other.next(), ("deleted", {"stream": "b", "sweeps": 0}))

    def test_sweeps_without_room_are_reported_as_evicted(self):
        """A lone client has half of the memory: two sweeps of 64 KiB."""
        along = f"{VOXELIZE}&stream=s&sweeps=4&point_counts=5,5,5,5&times=5,4,3,2&poses={','.join([HERE] * 4)}"
        with Daemon("--stream-memory-bytes", str(4 * 65536)) as daemon:
            with self.subscribe("/v1/streams/s/events", daemon=daemon) as subscriber:
                self.assertEqual(subscriber.next(), ("open", {"stream": "s", "sweeps": 0}))
                self.assertEqual(daemon.post(along, POINTS, JSON).status, 200)
                name, told = subscriber.next()
                self.assertEqual((name, told["sweeps"], told["time"], told["begun"]), ("sweep", 2, 5, True))
                self.assertEqual(subscriber.next(), ("evicted", {"stream": "s", "sweeps": 2, "dropped": 2}))

    def test_a_slow_one_is_told_what_it_has_lost(self):
        slow = Bare(self.daemon, receive_buffer=4096)
        wait_until(lambda: subscribers(self.daemon) == 1, "it has subscribed")
        quick = self.subscribe()
        self.assertEqual(quick.next()[0], "open")
        before = events(self.daemon, "lost")
        sent = send_until(self.daemon, lambda: events(self.daemon, "lost") > before, quick)
        told = slow.read_until(b'"time":%d,' % sent)
        slow.socket.close()
        gaps = sum(event.get("events", 0) for event in told)
        times = [event["time"] for event in told if "time" in event]
        self.assertEqual(times, sorted(times))
        self.assertEqual(times[-1], sent)
        self.assertEqual(len(times) + gaps, sent)
        self.assertGreater(gaps, 0)

    def test_those_who_vanish_are_noticed(self):
        self.daemon.await_accounts()
        gone = [Bare(self.daemon) for _ in range(20)]
        wait_until(lambda: subscribers(self.daemon) == 20, "all have subscribed")
        aborted = self.daemon.status()["requests"]["aborted"]
        for number, bare in enumerate(gone):
            if number % 2:
                bare.reset()
            else:
                bare.socket.close()
        wait_until(lambda: subscribers(self.daemon) == 0, "all have been noticed")
        self.daemon.await_accounts()
        self.assertEqual(self.daemon.status()["requests"]["aborted"], aborted)  # leaving aborts no request

    def test_one_that_has_finished_sending_is_told_on(self):
        bare = Bare(self.daemon)
        bare.socket.shutdown(socket.SHUT_WR)
        data = b""
        while data.count(b":\n\n") < 2:  # empty comments, by which the server tests whether the client is there
            data += bare.socket.recv(4096)
        send(self.daemon, "s", 1)
        while b'"time":1' not in data:
            data += bare.socket.recv(4096)
        bare.socket.close()

    def test_a_hundred(self):
        threads = lambda: len(os.listdir(f"/proc/{self.daemon.pid()}/task"))
        before = threads()
        crowd = [self.subscribe() for _ in range(100)]
        for time in (1, 2, 3):
            send(self.daemon, "s", time)
        for subscriber in crowd:
            told = [subscriber.next() for _ in range(4)]
            self.assertEqual([event[1].get("time") for event in told], [None, 1, 2, 3])
        self.assertEqual(threads(), before)

    def test_a_client_has_a_share(self):
        for _ in range(SHARE):
            self.subscribe("/v1/streams/s/events")
        reply = self.daemon.get("/v1/events")
        problem = self.assert_problem(reply, 429)
        self.assertEqual(problem["type"], "urn:voxeld:problem:client-over-share")
        self.assertIn("all clients together have up to 256", problem["detail"])
        self.assertTrue(reply.headers["Retry-After"])
        self.subscribe(source="127.0.0.2")

    def test_greedy_clients_leave_a_place_to_the_next(self):
        """Each client begins as many subscriptions as it may."""
        for client in range(1, 13):
            source = f"127.0.0.{client}"
            self.subscribe(source=source)
            while (another := Subscriber(self.daemon, "/v1/events", source)).reply.status == 200:
                self.open.append(another)
            self.assertEqual(another.reply.status, 429)
            another.close()
        self.assertEqual(subscribers(self.daemon), 128 + 64 + 32 + 16 + 8)

    def test_what_no_stream_can_be_called(self):
        self.assert_problem(self.daemon.get("/v1/streams/a%20b/events"), 404)
        with Daemon("--stream-memory-bytes", "0") as daemon:
            self.assert_problem(daemon.get("/v1/events"), 501)

    def test_time_limits_are_for_what_is_due(self):
        """Idle connections, and subscribers that do not read their events, are ended. Subscribers without events are
        not."""
        with Daemon(*TIMEOUTS) as daemon:
            quiet = self.subscribe(daemon=daemon)
            self.assertEqual(quiet.next(), ("open", {"streams": 0}))
            for _ in range(2):
                with daemon.socket() as idle:
                    self.assertEqual(idle.recv(1), b"")
            slow = Bare(daemon, receive_buffer=4096)
            wait_until(lambda: subscribers(daemon) == 2, "it has subscribed")
            send_until(daemon, lambda: subscribers(daemon) == 1, quiet)
            slow.socket.close()
            quiet.close()


class Ends(unittest.TestCase):
    def started(self, daemon):
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        return daemon

    def test_the_drain_ends_all_at_once(self):
        """The daemon does not wait for a slow subscriber."""
        daemon = self.started(Daemon("--drain-delay-s", "5", "--send-timeout-s", "3000", "--idle-timeout-s", "3600"))
        slow = Bare(daemon, receive_buffer=4096)
        wait_until(lambda: subscribers(daemon) == 1, "it has subscribed")
        send_until(daemon, lambda: events(daemon, "lost"))
        crowd = [Subscriber(daemon, "/v1/events") for _ in range(20)]
        wait_until(lambda: subscribers(daemon) == 21, "all have subscribed")
        late = daemon.connection()
        late.connect()
        daemon.terminate()
        for subscriber in crowd:
            self.assertEqual(subscriber.rest()[-1], ("end", {"reason": "stop"}))
        reply = daemon.request("GET", "/v1/events", connection=late)
        self.assertEqual((reply.status, reply.json()["type"]), (503, "urn:voxeld:problem:draining"))
        self.assertEqual(daemon.wait(), 0, daemon.log())
        slow.socket.close()

    def test_a_token_that_is_withdrawn(self):
        (steady, steady_line), (old, old_line) = new_token("steady"), new_token("old")
        bearer = lambda token: {"Authorization": f"Bearer {token}"}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "tokens")
            file.write_text(steady_line + old_line, encoding="ascii")
            file.chmod(0o600)
            with TokenDaemon(steady, "--token-file", str(file)) as daemon:
                with Subscriber(daemon, "/v1/events") as nameless:
                    self.assertEqual(nameless.reply.status, 401)
                with Subscriber(daemon, "/v1/events", headers=bearer(old)) as subscriber:
                    self.assertEqual(subscriber.next(), ("open", {"streams": 0}))
                    late = daemon.connection()
                    self.addCleanup(late.close)
                    late.request("GET", "/v1/events", b"1", {**bearer(old), "Content-Length": "2"})
                    wait_until(lambda: daemon.status()["requests"]["open"] == 3, "the head of the late one")
                    file.write_text(steady_line, encoding="ascii")
                    daemon.process.send_signal(signal.SIGHUP)
                    self.assertEqual(subscriber.rest(), [("end", {"reason": "reload"})])
                    late.send(b"2")
                    self.assertIn(b'event: end\ndata: {"reason":"reload"}', late.getresponse().read())
                for token, status in ((old, 401), (steady, 200)):
                    with Subscriber(daemon, "/v1/events", headers=bearer(token)) as subscriber:
                        self.assertEqual(subscriber.reply.status, status)

    def test_tls(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            authority = Authority(folder, "ca")
            authority.sign("server", "subjectAltName=IP:127.0.0.1", "server")
            keys = ("--tls-cert", str(folder / "server.pem"), "--tls-key", str(folder / "server.key"))
            with TlsDaemon(folder, *keys) as daemon:
                with Subscriber(daemon, "/v1/events") as one, Subscriber(daemon, "/v1/events") as other:
                    for time in range(1, 201):
                        send(daemon, "s", time)
                        for subscriber in (one, other):
                            if time == 1:
                                self.assertEqual(subscriber.next()[0], "open")
                            self.assertEqual(subscriber.next()[1]["time"], time)
                wait_until(lambda: not subscribers(daemon), "both have ended")


if __name__ == "__main__":
    unittest.main()
