"""Streams by the Python client. Each sweep is sent once; the joined points have the bytes of all sweeps joined by hand.
The client reports sweeps that a service lost, and sends them again if it kept them."""

import contextlib
import tempfile
import threading
import unittest
import urllib.parse
import warnings

import numpy as np

import models
import voxeld
from check import same_tensors
from daemon import Daemon
from rude_server import GRID, RudeServer, answer, problem, url_of
from streams import Mirror, pose_of
from test_python_detect import scan

HERE = (0, 0, 0, 1, 0, 0, 0)


def sweep(seed, points=300, columns=4):
    return np.random.default_rng(seed).uniform(-9, 9, (points, columns)).astype("<f4")


def quaternion(time):
    return [time, -2.5, 0.25, np.cos(time / 9), 0, 0, np.sin(time / 9)]


def matrix(time):
    rotation, translation = pose_of(quaternion(time))
    return np.vstack([np.column_stack([rotation, translation]), [0, 0, 0, 1]])


def text(numbers):
    return ",".join(map(repr, np.ravel(numbers).tolist()))


class Between:
    """A proxy before a service. `sent` has the times of the sweeps of each forwarded request. While `refusals` are
    left, a request whose query contains `where` gets the next refusal."""

    def __init__(self, daemon):
        self.daemon, self.sent, self.refusals, self.where = daemon, [], [], ""

    def __call__(self, talk):
        body, query = talk.read_body(), talk.target.partition("?")[2]
        if self.refusals and self.where in query:
            return talk.socket.sendall(self.refusals.pop(0))
        given = dict(urllib.parse.parse_qsl(query))
        times = given.get("times", given.get("time", "")).split(",")
        self.sent.append([float(time) for time in times if time])
        headers = {"Accept": talk.header("Accept") or "*/*"}
        reply = self.daemon.request(talk.head.split()[0], talk.target, body, headers)
        return talk.socket.sendall(answer(reply.status, {"Content-Type": reply.headers["Content-Type"]}, reply.body))


class StreamCase(unittest.TestCase):
    ARGS = ()

    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon(*cls.ARGS)
        cls.addClassCleanup(lambda: cls.daemon.stop())
        cls.client = voxeld.Client(url_of(cls.daemon))
        cls.addClassCleanup(cls.client.close)

    def setUp(self):
        self.enterContext(warnings.catch_warnings())
        warnings.simplefilter("error")

    @contextlib.contextmanager
    def warned(self):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield caught

    def expected(self, joined, operation="voxelize", client=None, **parameters):
        return getattr(client or self.client, operation)(joined, **parameters)

    def same(self, result, expected):
        self.assertEqual(same_tensors(dict(expected), dict(result)), [])


class Streams(StreamCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.ARGS = (*models.served(folder.name), "--allow-shared-memory")
        super().setUpClass()

    def tearDown(self):
        for stream in self.client.streams():
            self.assertTrue(self.client.stream(stream["name"], 1).delete())

    def run_stream(self, client, operation, parameters, columns=4):
        """Four sweeps, the last one sent twice, with poses in all three forms."""
        mirror, joining = Mirror(), {"time_column": "yes", "remove_close": 1.5}
        stream = client.stream("s", sweeps=3, operation=operation, **parameters, **joining)
        for time, pose in (
            (1, quaternion),
            (2, quaternion),
            (3, matrix),
            (4.25, lambda t: matrix(t).ravel()),
            (4.25, matrix),
        ):
            rows = sweep(int(time), columns=columns)
            query = {"stream": "s", "sweeps": "3", "pose": text(pose(time)), "time": repr(time), **joining}
            joined, told = mirror.send(query, rows)
            result = stream.send(rows, pose(time), time)
            self.same(result, self.expected(joined, operation, client, **parameters))
            self.assertEqual(
                [(each.stream, each.time, each.received, each.joined) for each in result.stream.sweeps], told
            )
            self.assertEqual(result.lost, ())
        self.assertEqual((result.stream.begun, result.stream.repeated), (False, True))
        return result

    def test_each_operation_joins_as_by_hand(self):
        for operation, parameters in (
            ("voxelize", GRID),
            ("fps", {"num_samples": 40}),
            ("transform", {"crop": (-8, -8, -2, 8, 8, 2), "cut": [(-1, -1, -1, 1, 1, 1)]}),
        ):
            with self.subTest(operation):
                self.run_stream(self.client, operation, parameters)
                self.tearDown()

    def test_detect(self):
        stream = self.client.stream("s", 2, operation="detect", model="random")
        mirror = Mirror()
        for time in (1, 2):
            rows = scan(2000, time)
            query = {"stream": "s", "sweeps": "2", "pose": text(quaternion(time)), "time": str(time)}
            joined, _ = mirror.send(query, rows)
            self.same(stream.send(rows, quaternion(time), time), self.client.detect(joined, "random"))

    def test_through_shared_memory(self):
        with voxeld.Client(url_of(self.daemon), shared_memory=True) as client:
            result = self.run_stream(client, "voxelize", GRID)
        self.assertIn("points_region", result.metadata["parameters"])

    def test_what_an_answer_joined_is_reported_in_types(self):
        stream = self.client.stream("s", 3, remove_close=2, **GRID)
        first = stream.send(sweep(1), HERE, 10)
        self.assertEqual((first.stream.name, first.stream.frame, first.stream.time), ("s", "s", 10.0))
        self.assertEqual((first.stream.begun, first.stream.asked, first.warnings[0].kind), (True, 3, "fewer_sweeps"))
        rows = np.vstack([sweep(2), [[np.nan, 0, 0, 0]]]).astype("<f4")
        now = stream.send(rows, HERE, 10.5, metadata_only=True)
        removed = int(np.sum((abs(sweep(2)[:, :2]) < 2).all(axis=1)))
        self.assertEqual(now.stream.sweeps[0][:-1], ("s", 10.5, 0.0, 301, removed, 301 - removed, 1))
        self.assertEqual((now.stream.sweeps[1].time, now.stream.sweeps[1].age), (10.0, 0.5))
        self.assertEqual(now.stream.times(), (10.5, 10.0))
        origins = [each.origin for each in now.stream.sweeps]
        self.assertEqual(origins, ["sent", "kept"])
        self.assertEqual((len(now), now.lost), (0, ()))
        self.assertIsNone(self.client.voxelize(sweep(1), **GRID).stream)

    def test_several_sensors(self):
        names, mirror = ["front", "rear"], Mirror()
        mounts = {"front": (1.5, 0, 2, 1, 0, 0, 0), "rear": (-1, 0, 2, 0, 0, 0, 1)}
        each = {name: self.client.stream(name, 2, streams=names, mount=mounts[name], **GRID) for name in names}
        with self.assertRaises(voxeld.Problem) as caught:
            each["rear"].send(sweep(0), HERE, 0)
        self.assertEqual((caught.exception.status, caught.exception.parameter), (422, "streams"))
        for time, name in ((1, "front"), (1.5, "rear"), (2, "front"), (2.5, "rear")):
            query = {"stream": name, "streams": "front,rear", "sweeps": "2", "mount": text(mounts[name])}
            joined, told = mirror.send(
                {**query, "pose": text(quaternion(time)), "time": repr(time)}, sweep(int(time * 2))
            )
            result = each[name].send(sweep(int(time * 2)), quaternion(time), time)
            self.same(result, self.expected(joined, **GRID))
            self.assertEqual([(one.stream, one.time) for one in result.stream.sweeps], [one[:2] for one in told])
        self.assertEqual((result.stream.frame, result.stream.sweeps[1].age), ("front", -0.5))
        other = each["rear"].send(sweep(9), HERE, 3, mount=np.eye(4))
        self.assertEqual(other.metadata["parameters"]["mount"], np.eye(4).ravel().tolist())

    def test_looking_and_deleting(self):
        stream = self.client.stream("roof.1", 2, **GRID)
        self.assertFalse(stream.delete())
        joined, mirror = None, Mirror()
        for time in (1, 2):
            query = {"stream": "roof.1", "sweeps": "2", "pose": text(HERE), "time": str(time)}
            joined, _ = mirror.send(query, sweep(time))
            stream.send(sweep(time), HERE, time)
        self.assertEqual(stream.last()["points"].tobytes(), joined.tobytes())
        self.assertEqual([each["time"] for each in stream.status()["sweeps"]], [2, 1])
        self.assertEqual([each["name"] for each in self.client.streams()], ["roof.1"])
        self.assertTrue(stream.delete())
        self.assertTrue(stream.send(sweep(1), HERE, 1).stream.begun)
        stream.delete()
        for gone in (stream.last, stream.status):
            with self.assertRaises(voxeld.Problem) as caught:
                gone()
            self.assertEqual(caught.exception.status, 404)

    def test_refusals_and_misuse(self):
        stream = self.client.stream("s", 2, **GRID)
        stream.send(sweep(1), HERE, 5)
        for ask, status, kind in (
            (lambda: stream.send(sweep(1), HERE, 4), 409, "stream-time"),
            (lambda: stream.send(sweep(1, columns=5), HERE, 6), 409, "stream-shape"),
            (lambda: stream.send(sweep(1), (0, 0, 0, 2, 0, 0, 0), 6), 422, "not-rigid"),
            (lambda: self.client.stream("no name", 2, **GRID).send(sweep(1), HERE, 6), 400, "bad-parameter"),
        ):
            with self.assertRaises(voxeld.Problem) as caught:
                ask()
            self.assertEqual((caught.exception.status, caught.exception.kind), (status, kind))
        for pose in ((0, 0, 0), np.eye(3), np.zeros((2, 7))):
            with self.assertRaisesRegex(ValueError, "pose has the shape"):
                stream.send(sweep(1), pose, 6)
        with self.assertRaisesRegex(ValueError, "mount has the shape"):
            self.client.stream("s", 2, mount=(1, 2, 3))
        with self.assertRaisesRegex(ValueError, "expected voxelize, fps, points, transform, detect"):
            self.client.stream("s", 2, operation="nms")
        with self.assertRaisesRegex(TypeError, "sweeps"):
            stream.send(sweep(1), HERE, 6, sweeps=3)
        with self.assertRaisesRegex(TypeError, "expected an array"):
            self.client.stream("s", 2, keep=True, num_features=4, **GRID).send(sweep(1).tobytes(), HERE, 6)
        self.assertEqual(stream.status()["sweeps"][0]["time"], 5)

    def test_threads_have_streams_of_their_own(self):
        def run(name):
            stream = self.client.stream(name, 3, **GRID)
            for time in range(6):
                result = stream.send(sweep(time, 100 + time), HERE, time)
                seen[name] = [each.received for each in result.stream.sweeps]

        seen = {}
        threads = [threading.Thread(target=run, args=(f"t{n}",)) for n in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(seen, {f"t{n}": [105, 104, 103] for n in range(4)})


class Losses(StreamCase):
    """A service that ends and is replaced by a new one."""

    def tearDown(self):
        self.daemon.request("DELETE", "/v1/streams/k")

    def restart(self):
        address = "{}:{}".format(*self.daemon.address)
        self.daemon.kill()
        type(self).daemon = Daemon("--listen", address)

    def behind(self, between, **options):
        """A stream that reaches the service through `between`."""
        server = self.enterContext(RudeServer(between))
        client = self.enterContext(voxeld.Client(url_of(server), backoff=0, **options))
        return client.stream("k", 4, keep=True, time_column="yes", **GRID)

    def by_hand(self, times):
        mirror = Mirror()
        for time in times:
            query = {"stream": "k", "sweeps": "4", "pose": text(quaternion(time)), "time": str(time)}
            joined, _ = mirror.send({**query, "time_column": "yes"}, sweep(time))
        return self.expected(joined, **GRID)

    def test_a_restart_is_reported(self):
        stream = self.client.stream("s", 3, **GRID)
        for time in (1, 2, 3):
            stream.send(sweep(time), HERE, time)
        self.restart()
        with self.assertWarnsRegex(
            voxeld.StreamWarning, "stream s: the service has lost sweeps: it was restarted"
        ) as told:
            result = stream.send(sweep(4), HERE, 4)
        self.assertEqual(told.filename, __file__)
        self.assertEqual((result.stream.begun, result.stream.times(), result.lost), (True, (4.0,), (3.0, 2.0)))
        result = stream.send(sweep(5), HERE, 5)  # reported once
        self.assertEqual((result.stream.times(), result.lost), ((5.0, 4.0), ()))

    def test_stale_sweeps_are_reported(self):
        """A balancer moves a stream away and back: the service has sweeps, but not the last ones."""
        with Daemon() as other:
            between = Between(self.daemon)
            server = self.enterContext(RudeServer(lambda talk: between(talk)))
            stream = self.enterContext(voxeld.Client(url_of(server))).stream("moved", 2, **GRID)
            lost = []
            for time, between.daemon in (
                (1, self.daemon),
                (2, self.daemon),
                (3, other),
                (4, self.daemon),
                (5, self.daemon),
            ):
                with self.warned() as caught:
                    lost.append((stream.send(sweep(time), HERE, time).lost, [str(one.message) for one in caught]))
        self.assertEqual([times for times, _ in lost], [(), (), (2.0,), (3.0,), ()])
        self.assertIn("another server", lost[3][1][0])

    def test_kept_sweeps_fill_the_gap(self):
        stream = self.behind(between := Between(self.daemon))
        for time in range(1, 6):
            stream.send(buffer := sweep(time), quaternion(time), time)
            buffer[:] = 0  # the caller reuses the buffer
        self.restart()
        between.daemon = self.daemon
        with self.assertWarns(voxeld.StreamWarning):
            result = stream.send(sweep(6), quaternion(6), 6)
        self.assertEqual((result.lost, result.stream.times()), ((5.0, 4.0, 3.0), (6.0, 5.0, 4.0, 3.0)))
        self.same(result, self.by_hand(range(1, 7)))
        result = stream.send(sweep(7), quaternion(7), 7)
        self.same(result, self.by_hand(range(1, 8)))
        self.assertEqual(between.sent, [[1], [2], [3], [4], [5], [6], [6, 5, 4, 3], [7]])

    def test_a_sweep_that_failed_goes_along_with_the_next(self):
        late = [problem(409, type="urn:voxeld:problem:stream-time", parameter=name) for name in ("time", "times")]
        for refusals in ((problem(503), late[1]), late):
            with self.subTest(refusals[0]):
                self.fail_twice(refusals)
            self.daemon.request("DELETE", "/v1/streams/k")

    def fail_twice(self, refusals):
        stream = self.behind(between := Between(self.daemon), retries=0)
        stream.send(sweep(1), quaternion(1), 1)
        for time, refusal in zip((2, 3), refusals):
            between.refusals.append(refusal)
            with self.assertRaises(voxeld.Problem):
                stream.send(sweep(time), quaternion(time), time)
        self.same(stream.send(sweep(4), quaternion(4), 4), self.by_hand(range(1, 5)))
        between.refusals.append(problem(422, type="urn:voxeld:problem:impossible"))
        with self.assertRaises(voxeld.Problem):
            stream.send(sweep(5), quaternion(5), 5)
        result = stream.send(sweep(6), quaternion(6), 6)
        self.assertEqual((result.stream.times(), result.lost), ((6.0, 4.0, 3.0, 2.0), ()))
        self.assertEqual(between.sent, [[1], [4, 3, 2, 1], [6]])

    def test_a_superseded_or_late_sweep_is_kept(self):
        """The service has kept the sweep: the client does not send it again, and later sweeps are joined with it."""
        for kind, error in (("superseded", voxeld.Superseded), ("too-old", voxeld.TooOld)):
            with self.subTest(kind):
                self.check_kept(kind, error)
                self.daemon.request("DELETE", "/v1/streams/k")

    def check_kept(self, kind, error):
        stream = self.behind(between := Between(self.daemon), retries=0)
        stream.send(sweep(1), quaternion(1), 1)
        kept = {"stream": "k", "sweeps": 4, "pose": quaternion(2), "time": 2}
        self.client.voxelize(sweep(2), **GRID, **kept)  # as if the service had kept it and answered 409
        between.refusals.append(problem(409, type=f"urn:voxeld:problem:{kind}"))
        with self.assertRaises(error):
            stream.send(sweep(2), quaternion(2), 2)
        result = stream.send(sweep(3), quaternion(3), 3)
        self.assertEqual((result.stream.times(), result.lost), ((3.0, 2.0, 1.0), ()))
        self.assertEqual(between.sent, [[1], [3]])
        self.daemon.request("DELETE", "/v1/streams/k")
        with self.warned():
            result = stream.send(sweep(4), quaternion(4), 4)
        self.assertEqual((result.lost, between.sent[-1]), ((3.0, 2.0, 1.0), [4, 3, 2, 1]))

    def test_a_failed_sweep_that_is_sent_again_goes_once(self):
        """The client does not resend the first sweep, whose pose has another form: a body's poses all have one form."""
        stream = self.behind(between := Between(self.daemon), retries=0)
        stream.send(sweep(1), matrix(1), 1)
        stream.send(sweep(2), quaternion(2), 2)
        between.refusals.append(problem(503))
        with self.assertRaises(voxeld.Problem):
            stream.send(sweep(3), quaternion(3), 3)
        with self.warned():
            stream.send(sweep(3), quaternion(3), 3)
        self.assertEqual(between.sent, [[1], [2], [3, 2]])

    def test_a_gap_that_could_not_be_filled_is_filled_later(self):
        stream = self.behind(between := Between(self.daemon), retries=0)
        stream.send(sweep(1), quaternion(1), 1)
        self.daemon.request("DELETE", "/v1/streams/k")
        between.where, between.refusals = "times=", [problem(503)]
        with self.assertWarns(voxeld.StreamWarning):
            result = stream.send(sweep(2), quaternion(2), 2)
        self.assertEqual((result.lost, result.stream.times()), ((1.0,), (2.0,)))
        self.same(stream.send(sweep(3), quaternion(3), 3), self.by_hand(range(1, 4)))
        self.assertEqual(between.sent, [[1], [2], [3, 2, 1]])

    def test_what_is_deleted_is_not_missed(self):
        stream = self.behind(between := Between(self.daemon))
        for time in (1, 2):
            stream.send(sweep(time), quaternion(time), time)
        self.assertTrue(stream.delete())
        result = stream.send(sweep(3), quaternion(3), 3)
        self.assertEqual((result.lost, result.stream.times()), ((), (3.0,)))
        self.assertEqual(between.sent, [[1], [2], [], [3]])

    def test_a_balancer_is_told_which_streams_belong_together(self):
        with RudeServer(answer(200, {"Content-Type": "application/json"}, b"{}")) as server:
            with voxeld.Client(url_of(server)) as client:
                for streams, word in ((None, "rear"), (("front", "rear"), "front")):
                    stream = client.stream("rear", 2, streams=streams)
                    stream.status()
                    stream.delete()
                    for method, head in zip(("GET", "DELETE"), server.heads[-2:]):
                        self.assertTrue(head.startswith(f"{method} /v1/streams/rear HTTP"), head)
                        self.assertIn(f"\r\nVoxeld-Stream: {word}", head)

    def test_a_service_that_takes_no_older_sweeps(self):
        """The new sweep is still answered, without the older sweeps."""
        stream = self.behind(between := Between(self.daemon))
        stream.send(sweep(1), quaternion(1), 1)
        self.daemon.request("DELETE", "/v1/streams/k")
        between.where = "times="
        between.refusals = [problem(400, type="urn:voxeld:problem:bad-parameter", parameter="times")]
        with self.warned() as caught:
            result = stream.send(sweep(2), quaternion(2), 2)
        self.assertEqual((result.lost, result.stream.times()), ((1.0,), (2.0,)))
        self.assertEqual(len(caught), 2)
        self.assertIn("refused the older sweeps: 400", str(caught[0].message))
        self.assertEqual(stream.send(sweep(3), quaternion(3), 3).lost, ())

    def test_what_has_no_room_is_not_sent_again(self):
        with Daemon("--stream-memory-bytes", str(4 * 65536)) as daemon:
            stream = self.behind(between := Between(daemon))
            lost = []
            for time in range(1, 7):
                with self.warned() as caught:
                    lost.append(stream.send(sweep(time), HERE, time).lost)
            self.assertEqual(lost[3:], [(1.0,), (2.0,), (3.0,)])
            self.assertIn("no room", str(caught[0].message))
            self.assertEqual(between.sent, [[time] for time in range(1, 7)])

    def test_rubbish(self):
        for told in ('{"stream":3}', '{"stream":{"name":"s"}}', "{}"):
            document = answer(200, {"Content-Type": "application/json"}, told.encode())
            with RudeServer(document) as server, voxeld.Client(url_of(server)) as client:
                with self.assertRaises(voxeld.BadAnswer):
                    client.stream("s", 2).send(sweep(1), HERE, 1, metadata_only=True)


if __name__ == "__main__":
    unittest.main()
