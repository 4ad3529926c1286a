"""Streams whose clients repeat sweeps, go back in time, send at the same time, ask for too much or vanish."""

import json
import tempfile
import threading
import unittest

from client import (
    GRID,
    LONG,
    LONG_POINTS,
    MB,
    VOXELIZE,
    Closed,
    Daemon,
    FaultCase,
    Raw,
    head,
    many_rows,
    post,
    rows,
    wait_until,
)
from credentials import new_token

HERE = "0,0,0,1,0,0,0"
POINTS, POINT = rows(500), rows(1)
JSON = {"Accept": "application/json"}


def path_of(name, time, sweeps=3, pose=HERE, more="", base=VOXELIZE):
    return f"{base}&stream={name}&sweeps={sweeps}&pose={pose}&time={time}{more}"


class Streams(FaultCase):
    ARGS = ("--workers", "2", "--stream-ttl-s", "3600")

    def tearDown(self):
        for stream in self.daemon.get("/v1/streams").json()["streams"]:
            self.assertEqual(self.delete(stream["name"]).status, 200)
        super().tearDown()

    def delete(self, name, source=None):
        return self.daemon.request("DELETE", f"/v1/streams/{name}", source=source)

    def send(self, name, time, body=POINTS, source=None, headers=None, **more):
        return self.daemon.post(path_of(name, time, **more), body, {**JSON, **(headers or {})}, source=source)

    def sent(self, *arguments, **more):
        reply = self.send(*arguments, **more)
        self.assertEqual(reply.status, 200, reply)
        return reply.json()

    def times(self, name="s"):
        return [sweep["time"] for sweep in self.daemon.get(f"/v1/streams/{name}").json()["sweeps"]]

    def test_a_repeated_sweep_counts_once(self):
        self.sent("s", 1)
        first = self.sent("s", 2)
        again = self.sent("s", 2)
        self.assertEqual((first["stream"]["repeated"], again["stream"]["repeated"]), (False, True))
        self.assertEqual(first["points"], again["points"])
        self.assertEqual(self.times(), [2, 1])

    def test_refused_sweeps_leave_the_stream_as_it_was(self):
        self.sent("s", 1)
        self.sent("s", 2)
        for status, kind, parameter, more in (
            (409, "stream-time", "time", {"time": 1.5}),
            (409, "stream-shape", "num_features", {"more": "&num_features=5"}),
            (409, "stream-shape", "dtype", {"more": "&dtype=float16"}),
            (422, "not-rigid", "pose", {"pose": "0,0,0,2,0,0,0"}),
            (400, "bad-parameter", "pose", {"pose": "0,0,0"}),
            (400, "bad-parameter", "time", {"time": "nan"}),
            (400, "bad-parameter", "time", {"time": "1e308"}),
            (400, "bad-parameter", "time", {"time": "1532402927647000"}),  # a time in microseconds
            (422, "impossible", "streams", {"more": "&streams=front,s"}),
            (422, "impossible", "num_samples", {"base": "/v1/fps?num_samples=100000"}),
        ):
            with self.subTest(kind, **more):
                reply = self.send(**{"name": "s", "time": 3, "body": bytes(4000), **more})
                problem = self.assert_problem(reply, status, parameter)
                self.assertEqual(problem["type"], f"urn:voxeld:problem:{kind}")
                self.assertEqual(self.times(), [2, 1])

    def along(self, times, name="s", daemon=None, sizes=None, sweeps=3, **more):
        """Sends sweeps of these times in one body."""
        sizes = sizes or [500] * len(times)
        query = {"stream": name, "sweeps": sweeps, "point_counts": ",".join(map(str, sizes))}
        query |= {"times": ",".join(map(str, times)), "poses": ",".join([HERE] * len(times)), **more}
        path = f"{VOXELIZE}&" + "&".join(f"{key}={value}" for key, value in query.items())
        return (daemon or self.daemon).post(path, rows(sum(sizes)), JSON)

    def test_sent_along(self):
        """A client sends earlier sweeps along with the newest. The answer says which were sent and which kept."""
        self.sent("s", 1)
        self.sent("s", 4)
        reply = self.along([5, 4, 3], sweeps=5)
        self.assertEqual(reply.status, 200, reply)
        stream = reply.json()["stream"]
        found = [(sweep["time"], sweep["origin"]) for sweep in stream["sweeps"]]
        self.assertEqual(found, [(5, "sent"), (4, "sent"), (3, "sent"), (1, "kept")])
        self.assertEqual((stream["begun"], stream["repeated"]), (False, False))
        self.assertEqual(self.times(), [5, 4, 3, 1])
        kept = self.daemon.get("/v1/streams/s").json()
        self.assertEqual([sweep["points"] for sweep in kept["sweeps"]], [500] * 4)
        self.assertEqual(kept["memory_bytes"], 4 * 65536)  # as if each sweep had come in its own request
        self.assertEqual(self.along([5, 4, 3], sweeps=5).json()["stream"]["repeated"], True)
        self.assertEqual(self.times(), [5, 4, 3, 1])

    def test_refused_lists_leave_the_stream_as_it_was(self):
        self.sent("s", 1)
        self.sent("s", 2)
        for status, parameter, times, more in (
            (400, "times", [3, 3.5], {}),
            (400, "times", [3, 3], {}),
            (400, "times", [3, -2e12], {}),
            (400, "times", [1e308, 3], {}),
            (400, "times", [3, 2], {"point_counts": "500,500,0"}),
            (400, "poses", [3, 2], {"poses": HERE}),
            (422, "poses", [3, 2], {"poses": f"{HERE},0,0,0,2,0,0,0"}),
            (400, "point_counts", [3, 2], {"point_counts": "500,501"}),
            (400, "point_counts", [3, 2], {"sweeps": 1}),
            (400, "times", range(33, 0, -1), {"sizes": [1] * 33, "sweeps": 32}),
            (400, "time", [3, 2], {"time": 3}),
            (400, "pose", [3, 2], {"pose": HERE}),
            (409, "times", [1.5, 1], {}),
            (409, "times", [1.5], {}),
            (409, "num_features", [3, 2], {"num_features": 5, "point_counts": "400,400"}),
        ):
            with self.subTest(parameter, sent=times, lists=more):
                self.assert_problem(self.along(times, **more), status, parameter)
                self.assertEqual(self.times(), [2, 1])

    def test_sent_along_without_room(self):
        """Sweeps without room are joined, but count as evicted."""
        with Daemon("--stream-memory-bytes", str(4 * 65536)) as daemon:
            reply = self.along([5, 4, 3, 2], daemon=daemon, sweeps=4).json()
            self.assertEqual(len(reply["stream"]["sweeps"]), 4)
            use = daemon.status()["streams"]
            # A lone client has half of the memory: two sweeps of 64 KiB.
            self.assertEqual((use["sweeps"], use["memory_bytes"], use["evicted"]), (2, 2 * 65536, 2))
            reply = daemon.post(path_of("s", 6, sweeps=4), POINTS, JSON).json()
            self.assertEqual([sweep["time"] for sweep in reply["stream"]["sweeps"]], [6, 5, 4])
            self.assertEqual(reply["stream"]["evicted"], 2)
            wait_until(lambda: daemon.status()["buffers"]["in_use_bytes"] == 2 * 65536, "only the sweeps hold memory")

    def test_longest_query(self):
        """32 poses of 16 numbers, each as long as the longest text of a double."""
        near_0, near_1 = "-2.2250738585072014e-308", "1.0000000000000002e%2B00"
        rows_of = [[near_1 if row == column else near_0 for column in range(4)] for row in range(3)]
        pose = ",".join(sum(rows_of, []) + ["-0.00000000000000000e-00"] * 3 + ["1.00000000000000000e%2B00"])
        times = [f"{-(n + 1.1) * 1e-300!r}" for n in range(32)]
        reply = self.along(times, sizes=[10] * 32, sweeps=32, poses=",".join([pose] * 32))
        self.assertEqual(reply.status, 200, reply)
        self.assertEqual(len(reply.json()["stream"]["sweeps"]), 32)
        too_long = "0" * 65536
        self.assert_problem(self.along([3, 2], poses=too_long), 431)

    def test_joined_sweeps_are_bounded_as_a_body_is(self):
        with Daemon("--max-body-bytes", str(4 * MB)) as daemon:
            body = rows(200_000)
            self.assertEqual(daemon.post(path_of("s", 1), body, JSON).status, 200)
            self.assert_problem(daemon.post(path_of("s", 2), body, JSON), 413, "sweeps")
            self.assertEqual(len(daemon.get("/v1/streams/s").json()["sweeps"]), 1)

    def test_a_client_that_goes_while_its_job_runs_stores_nothing(self):
        body = many_rows(LONG_POINTS)
        with Daemon("--workers", "1", "--long-workers", "1", "--max-sampling-work", str(10**13)) as daemon:
            with daemon.socket() as gone:
                gone.sendall(post(body, path_of("s", 1, base=LONG)))
                wait_until(lambda: daemon.status()["long_workers"]["running"], "the job runs")
            wait_until(lambda: not daemon.status()["long_workers"]["running"], "the job has ended")
            wait_until(lambda: daemon.status()["streams"]["count"] == 0, "the stream has ended")
            self.assertEqual(daemon.get("/v1/streams/s").status, 404)

    def test_at_once(self):
        """Requests at the same time join the right earlier sweeps, in whatever order they run."""
        sweeps, replies = 12, {}

        def one(time):
            replies[time] = self.send("s", time, rows(100 * time), sweeps=32)

        for _ in range(5):
            threads = [threading.Thread(target=one, args=(time,)) for time in range(1, sweeps + 1)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            kept = sorted(time for time, reply in replies.items() if reply.status == 200)
            for time, reply in replies.items():
                self.assertIn(reply.status, (200, 409), reply)
                if reply.status == 200:
                    joined = [
                        (sweep["time"], sweep["points"]["received"]) for sweep in reply.json()["stream"]["sweeps"]
                    ]
                    self.assertEqual(joined, [(each, 100 * each) for each in reversed(kept) if each <= time])
            self.assertEqual(self.times(), kept[::-1])
            self.assertIn(sweeps, kept)
            self.assertEqual(self.delete("s").status, 200)

    def test_waiting_for_a_long_job(self):
        """Requests wait in their stream and hold no worker. The one with the earliest time goes next."""
        body, replies, threads = many_rows(LONG_POINTS), {}, []
        grid = f"/v1/voxelize?{GRID}&num_features=3"
        arguments = ("--workers", "1", "--long-workers", "1", "--max-sampling-work", str(10**13))
        with Daemon(*arguments) as daemon:

            def one(time):
                replies[time] = daemon.post(path_of("s", time, base=grid), bytes(1200), JSON)

            with Raw(daemon).send(post(body, path_of("s", 1, base=LONG))):
                wait_until(lambda: daemon.status()["long_workers"]["running"], "the job runs")
                for time in (4, 2, 3):
                    threads.append(threading.Thread(target=one, args=(time,)))
                    threads[-1].start()
                wait_until(lambda: daemon.status()["requests"]["active"] >= 4, "all are there")
                self.assertEqual(daemon.post(path_of("other", 1), POINTS, JSON).status, 200)
                self.assertEqual(replies, {})
            for thread in threads:
                thread.join()
            for time in (2, 3, 4):
                reply = replies[time]
                self.assertEqual(reply.status, 200, reply)
                joined = [sweep["time"] for sweep in reply.json()["stream"]["sweeps"]]
                self.assertEqual(joined, [*range(time, 1, -1)])

    def test_inference_waits_too(self):
        """An inference request names its stream in its body."""
        replies = {}

        def one(time):
            parameters = {"stream": "k", "sweeps": 32, "time": time, "pose": [0, 0, 0, 1, 0, 0, 0]}
            parameters |= dict(item.split("=") for item in GRID.split("&"))
            points = {"name": "points", "shape": [1, 4], "datatype": "FP32", "data": [1, 1, 1, time]}
            body = json.dumps({"inputs": [points], "parameters": parameters})
            replies[time] = self.daemon.post("/v2/models/voxelize/infer", body.encode())

        threads = [threading.Thread(target=one, args=(time,)) for time in range(1, 9)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        kept = sorted(time for time, reply in replies.items() if reply.status == 200)
        self.assertTrue(all(reply.status in (200, 409) for reply in replies.values()), replies)
        self.assertEqual(self.times("k"), kept[::-1])

    def test_streams_are_their_clients(self):
        self.sent("s", 5)
        self.assertTrue(self.sent("s", 1, source="127.0.0.2")["stream"]["begun"])
        self.assertEqual(self.times(), [5])
        self.assertEqual(self.delete("s", source="127.0.0.3").status, 404)
        self.assertEqual(self.daemon.get("/v1/streams/s/last", source="127.0.0.3").status, 404)
        self.assertEqual(self.delete("s", source="127.0.0.2").status, 200)
        self.assertEqual(self.times(), [5])

    def test_streams_of_users(self):
        tokens = {name: new_token(name) for name in ("lidar-1", "lidar-2")}
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("".join(line for _, line in tokens.values()))
            file.flush()
            with Daemon("--token-file", file.name, "--allow-anonymous", "yes") as daemon:
                for time, (token, _) in enumerate(tokens.values()):
                    bearer = {"Authorization": f"Bearer {token}", **JSON}
                    reply = daemon.post(path_of("s", 9 - time), POINTS, bearer)
                    self.assertTrue(reply.json()["stream"]["begun"], reply)

    def test_eviction_is_reported(self):
        """The oldest sweep is evicted first. The next answer says so."""
        with Daemon("--stream-memory-bytes", str(4 * 65536)) as daemon:
            for time in range(1, 6):
                reply = daemon.post(path_of("s", time, sweeps=4), POINTS, JSON).json()
            # A lone client has half of the memory: two sweeps of 64 KiB.
            self.assertEqual([sweep["time"] for sweep in reply["stream"]["sweeps"]], [5, 4, 3])
            self.assertEqual(reply["stream"]["evicted"], 1)
            (warning,) = [each for each in reply["warnings"] if each["kind"] == "fewer_sweeps"]
            self.assertEqual(warning["detail"], "3 of the 4 requested sweeps were joined; 1 were evicted to make room")
            use = daemon.status()["streams"]
            self.assertEqual((use["sweeps"], use["memory_bytes"], use["evicted"]), (2, 2 * 65536, 3))
            self.assertIn('voxeld_stream_sweeps_total{fate="evicted"} 3', daemon.get("/metrics").body.decode())

    def test_a_sweep_larger_than_all_may_be_is_refused(self):
        """A sweep larger than all memory of streams is refused, and evicts no other sweep. If it comes with a newer
        sweep, it is joined but not kept."""
        with Daemon("--stream-memory-bytes", str(4 * 65536)) as daemon:
            send = lambda name, time, count: daemon.post(path_of(name, time), rows(count), JSON)
            times = lambda: [sweep["time"] for sweep in daemon.get("/v1/streams/s").json()["sweeps"]]
            self.assert_problem(send("s", 1, 20_000), 422, mentions=["524288", "stream_memory_bytes", str(4 * 65536)])
            self.assertEqual(daemon.get("/v1/streams/s").status, 404)
            for time in (1, 2):
                self.assertEqual(send("s", time, 500).status, 200)
            self.assert_problem(send("s", 3, 20_000), 422)
            self.assert_problem(send("other", 3, 20_000), 422)
            self.assertEqual(times(), [2, 1])
            stream = self.along([4, 3.5], daemon=daemon, sizes=[500, 20_000]).json()["stream"]
            joined = [(sweep["time"], sweep["points"]["received"]) for sweep in stream["sweeps"]]
            self.assertEqual(joined, [(4, 500), (3.5, 20_000), (2, 500)])
            self.assertEqual(times(), [4, 2])
            self.assertEqual(daemon.status()["streams"]["evicted"], 2)  # the large sweep, not kept, and sweep 1

    def test_all_sweeps_of_all_clients_are_bounded(self):
        most = 10 * 65536
        with Daemon("--stream-memory-bytes", str(most)) as daemon:
            memory = lambda: daemon.status()["streams"]["memory_bytes"]
            bodies = [rows(count) for count in (500, 4_000, 16_000, 64_000)]
            for time in range(1, 4):
                for client in range(1, 9):
                    for name, body in (("small", bodies[0]), ("any", bodies[client % 4])):
                        reply = daemon.post(path_of(name, time), body, JSON, source=f"127.0.0.{client}")
                        self.assertEqual(reply.status, 200 if len(body) <= most else 422, (client, name, reply))
                        self.assertLessEqual(memory(), most)
            self.assertGreater(memory(), most // 2)

    def test_greedy_clients_leave_a_stream_to_the_next(self):
        """Each client takes as many streams as it may. The first four take most, the later ones get one each."""
        for client in range(1, 11):
            source, number = f"127.0.0.{client}", 0
            while (reply := self.send(f"n{number}", 1, POINT, source=source)).status == 200:
                number += 1
            self.assert_problem(reply, 429, "stream", ["another stream"])
            self.assertEqual(number, 1024 >> client if client < 5 else 1)
            self.assertEqual(self.send("n0", 2, POINT, source=source).status, 200)
        for client in range(2, 11):
            source = f"127.0.0.{client}"
            for stream in self.daemon.get("/v1/streams", source=source).json()["streams"]:
                self.assertEqual(self.delete(stream["name"], source=source).status, 200)

    def test_requests_go_before_streams(self):
        """Sweeps are evicted if a body needs their memory."""
        budget = ("--memory-budget-bytes", "--max-body-bytes", "--max-response-bytes", "--stream-memory-bytes")
        sizes = (8 * MB, 4 * MB, 4 * MB, 8 * MB)
        with Daemon(*(word for option in zip(budget, map(str, sizes)) for word in option)) as daemon:
            for time in range(1, 4):
                self.assertEqual(daemon.post(path_of("s", time), rows(60_000), JSON).status, 200)
                daemon.await_accounts()  # the request's memory is released
            before = daemon.status()["streams"]["memory_bytes"]
            reply = daemon.post(VOXELIZE, rows(120_000), JSON)
            self.assertEqual(reply.status, 200, reply)
            self.assertLess(daemon.status()["streams"]["memory_bytes"], before)

    def test_a_sweep_without_points_is_joined_and_not_kept(self):
        told = self.sent("s", 1, b"")
        self.assertIn(
            {"kind": "empty", "detail": "the body has no points, so the stream does not keep the sweep"},
            told["warnings"],
        )
        self.assertEqual(self.daemon.get("/v1/streams/s").status, 404)
        self.sent("s", 5)
        told = self.sent("s", 9, b"")
        self.assertEqual([sweep["time"] for sweep in told["stream"]["sweeps"]], [9, 5])
        self.assertEqual([each["kind"] for each in told["warnings"]], ["empty", "fewer_sweeps"])
        told = self.sent("s", 6)
        self.assertEqual([sweep["time"] for sweep in told["stream"]["sweeps"]], [6, 5])

    def test_of_several_sweeps_those_without_points_are_not_kept(self):
        lists = "&point_counts=0,500,0&times=9,8,7&poses=" + ",".join([HERE] * 3)
        path = f"{VOXELIZE}&stream=s&sweeps=3{lists}"
        told = self.daemon.post(path, POINTS, JSON).json()
        self.assertEqual([sweep["time"] for sweep in told["stream"]["sweeps"]], [9, 8])
        self.assertEqual(self.daemon.get("/v1/streams/s").json()["kept"], 1)

    def test_age(self):
        with Daemon("--stream-ttl-s", "1") as daemon:
            self.assertEqual(daemon.post(path_of("s", 1), POINTS, JSON).status, 200)
            wait_until(lambda: daemon.get("/v1/streams/s").status == 404, "the sweep is too old")
            wait_until(lambda: daemon.status()["buffers"]["in_use_bytes"] == 0, "its memory is free")
            self.assertTrue(daemon.post(path_of("s", 1), POINTS, JSON).json()["stream"]["begun"])

    def test_a_restart_is_reported(self):
        """Streams end with the server. The next server's first answer says so."""
        for _ in range(2):
            with Daemon() as daemon:
                metadata = daemon.post(path_of("s", 1), POINTS, JSON).json()
                self.assertTrue(metadata["stream"]["begun"])
                self.assertIn("the server has no earlier sweeps", metadata["warnings"][0]["detail"])
                self.assertFalse(daemon.post(path_of("s", 2), POINTS, JSON).json()["stream"]["begun"])

    def test_without_streams(self):
        with Daemon("--stream-memory-bytes", "0") as daemon:
            self.assert_problem(daemon.post(path_of("s", 1), POINTS), 501, "stream", ["--stream-memory-bytes"])

    def test_files_of_the_last_points_are_of_the_budget(self):
        budget = ("--memory-budget-bytes", str(4 * MB), "--max-body-bytes", str(MB), "--max-response-bytes", str(MB))
        with Daemon(*budget) as daemon:
            self.assertEqual(daemon.post(path_of("s", 1, sweeps=1), rows(4_000), JSON).status, 200)
            before = daemon.status()["buffers"]["allocated_bytes"]
            self.assertEqual(len(daemon.get("/v1/streams/s/last").body), 16384 + 64_000)
            wait_until(lambda: daemon.status()["buffers"]["in_use_bytes"] == 65536, "the file is sent")
            self.assertEqual(daemon.status()["buffers"]["allocated_bytes"] - before, 128 * 1024)

    def test_the_list_has_no_sweeps(self):
        """A client may have more than ten thousand sweeps."""
        self.sent("s", 1)
        self.sent("s", 2)
        (listed,) = self.daemon.get("/v1/streams").json()["streams"]
        alone = self.daemon.get("/v1/streams/s").json()
        self.assertEqual([sweep["time"] for sweep in alone.pop("sweeps")], [2, 1])
        self.assertEqual((listed["kept"], listed["time"]), (2, 2))
        self.assertEqual(listed, alone)

    def test_a_worker_makes_the_last_points(self):
        self.sent("s", 1)
        reply = self.daemon.get("/v1/streams/s/last")
        self.assertEqual(reply.headers["Content-Type"], "application/vnd.safetensors")
        self.assertIn("queue;dur=", reply.headers["Server-Timing"])
        asked = self.daemon.request("HEAD", "/v1/streams/s/last")
        self.assertEqual((asked.status, asked.body), (200, b""))
        self.assertEqual(int(asked.headers["Content-Length"]), len(reply.body))
        self.assertNotIn("Server-Timing", asked.headers)  # HEAD makes no file
        for method in ("GET", "HEAD"):
            self.assertEqual(self.daemon.request(method, "/v1/streams/other/last").status, 404)
        self.assertEqual(self.daemon.get("/v1/streams/s/last", source="127.0.0.3").status, 404)

    def test_the_length_of_the_last_points_may_be_unknown(self):
        self.sent("s", 1, more="&remove_close=0.5")
        asked = self.daemon.request("HEAD", "/v1/streams/s/last")
        self.assertEqual(asked.status, 200)
        self.assertNotIn("Content-Length", asked.headers)
        self.assertEqual(self.daemon.get("/v1/streams/s/last").status, 200)

    def test_a_head_of_unknown_length_has_no_body(self):
        """A client would take a body for the next answer."""
        self.sent("s", 1, more="&remove_close=0.5")
        for path in ("/v1/streams/s/last", "/v1/streams/s/events"):
            with self.subTest(path), Raw(self.daemon) as connection:
                connection.send(head("HEAD", path))
                self.assertEqual(connection.read(has_body=False).status, 200)
                with self.assertRaisesRegex(Closed, "before it b''"):
                    connection.read()

    def test_a_body_that_a_page_announces_takes_nothing(self):
        self.sent("s", 1)
        before = self.daemon.status()
        with Raw(self.daemon, source="127.0.0.66") as connection:
            connection.send(head("GET", "/v1/streams/t/last", "Content-Length: 1500000000", "Expect: 100-continue"))
            self.assertEqual(connection.read().status, 100)
            after = self.daemon.status()
        self.assertEqual(self.times(), [1])
        for key in ("in_use_bytes", "allocated_bytes"):  # less if `before` still had the answer of sweep 1
            self.assertLessEqual(after["buffers"][key], before["buffers"][key])

    def test_methods(self):
        self.sent("s", 1)
        self.assertEqual(self.daemon.request("HEAD", "/v1/streams/s").status, 200)
        reply = self.daemon.request("PUT", "/v1/streams/s", b"")
        self.assert_problem(reply, 405)
        self.assertEqual(reply.headers["Allow"], "GET, HEAD, DELETE")
        self.assertEqual(self.daemon.request("DELETE", "/v1/streams").status, 405)


if __name__ == "__main__":
    unittest.main()
