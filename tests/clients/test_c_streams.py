"""Streams with the C client and with the sensor program, which takes a file of poses. The points that the service joins
have the same bytes as the sweeps joined by hand. Skipped where the build found no libcurl."""

import os
import signal
import struct
import subprocess
import tempfile
import unittest

from check import parse_by_hand, same_tensors
from daemon import PATIENCE, Daemon
from rude_server import RudeServer, problem, url_of
from streams import Mirror
from test_c import QUERY, SENSOR, CCase
from test_command_line_streams import line
from test_python_streams import quaternion, sweep, text

STREAM = f"{QUERY}&stream=s&sweeps=3&time_column=yes"
TIMES = (1532402927.647, 1532402927.75, 1532402928, 1532402928.125)


class StreamCase(CCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.addClassCleanup(lambda: cls.daemon.stop())
        cls.url = url_of(cls.daemon)

    def tearDown(self):
        for stream in self.daemon.get("/v1/streams").json()["streams"]:
            self.daemon.request("DELETE", f"/v1/streams/{stream['name']}")

    def joined(self):
        """The points joined by hand for each sweep, and what the answer must say about them."""
        mirror = Mirror()
        for number, time in enumerate(TIMES):
            query = {"stream": "s", "sweeps": "3", "pose": text(quaternion(time)), "time": repr(time)}
            yield mirror.send({**query, "time_column": "yes"}, sweep(number))


class Calls(StreamCase):
    def test_sweeps_are_joined(self):
        for number, (time, (points, told)) in enumerate(zip(TIMES, self.joined())):
            pose = text([time, *quaternion(time)])
            reply = self.call(self.url, "-P", pose, query=STREAM, body=sweep(number).tobytes())
            self.assertEqual((reply["status"], reply["error"], reply["begun"]), ("OK", "", number == 0))
            sweeps = [(each[0], each[1], int(each[3]), int(each[5])) for each in reply["sweeps"]]
            self.assertEqual(sweeps, told)
            self.assertAlmostEqual(reply["sweeps"][-1][2], time - told[-1][1], places=6)
            plain = self.call(self.url, query=f"{QUERY}&num_features=5", body=points.tobytes())
            by_hand, _ = self.tensors, self.call(self.url, "-P", pose, query=STREAM, body=sweep(number).tobytes())
            self.assertEqual(same_tensors(by_hand, self.tensors), [])
            self.assertEqual((plain["sweeps"], plain["begun"]), ([], False))
        last = self.call(self.url, "-L", query="s")
        self.assertEqual((last["status"], self.tensors["points"].tobytes()), ("OK", points.tobytes()))

    def together(self, *numbers, query=STREAM, **environment):
        told = [text([len(sweep(n)), TIMES[n], *quaternion(TIMES[n])]) for n in numbers]
        body = b"".join(sweep(n).tobytes() for n in numbers)
        return self.call(
            self.url, *(part for each in told for part in ("-S", each)), query=query, body=body, **environment
        )

    def test_sweeps_sent_along_have_the_bytes_of_each_alone(self):
        for number, time in enumerate(TIMES):
            pose = text([time, *quaternion(time)])
            alone = self.call(self.url, "-P", pose, query=STREAM, body=sweep(number).tobytes())
        expected, last = self.tensors, self.daemon.get("/v1/streams/s/last").body
        self.daemon.request("DELETE", "/v1/streams/s")
        for numbers, begun in (((3, 2, 1), True), ((3,), False), ((3, 1), False)):
            reply = self.together(*numbers)
            self.assertEqual((reply["status"], reply["error"], reply["begun"]), ("OK", "", begun))
            self.assertEqual(reply["sweeps"], alone["sweeps"])
            self.assertEqual(same_tensors(expected, self.tensors), [])
            self.assertEqual(self.daemon.get("/v1/streams/s/last").body, last)

    def test_sweeps_that_the_service_does_not_take(self):
        for numbers, parameter in (((1, 2), "times"), ((3, 2, 1, 0), "point_counts")):
            reply = self.together(*numbers)
            self.assertEqual((reply["status"], reply["problem"]["parameter"]), ("REFUSED", parameter))

    def test_a_locale_with_a_decimal_comma(self):
        with tempfile.TemporaryDirectory() as folder:
            made = os.path.join(folder, "de_DE.UTF-8")
            if subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", made], capture_output=True).returncode:
                self.skipTest("localedef cannot make a locale")
            # glibc never frees what it allocates for LOCPATH.
            leaks = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
            own = {"LOCPATH": folder, "LC_ALL": "de_DE.UTF-8", "ASAN_OPTIONS": leaks}
            reply = self.call(self.url, "-P", "1.5,0.25,0,0,1,0,0,0", query=STREAM, body=sweep(1).tobytes(), **own)
            several = self.together(1, 0, **own)
        self.assertEqual((reply["status"], reply["error"]), ("OK", ""))
        self.assertEqual(reply["sweeps"][0][1], 1.5)
        self.assertEqual((several["status"], several["error"]), ("OK", ""))
        self.assertEqual([each[1] for each in several["sweeps"]], [TIMES[1], TIMES[0], 1.5])

    def test_numbers_as_queries_take_them(self):
        """Numbers go with every digit and without a plus, which would mean a space."""
        for time in (-1e12, -1e-300, 0.1, 123456789012.34567, 1e12):
            pose = text([time, 1e20, -1e-20, 0, 1, 0, 0, 0])
            reply = self.call(self.url, "-P", pose, query=STREAM, body=sweep(1).tobytes())
            self.assertEqual((reply["status"], reply["sweeps"][0][1]), ("OK", time))
            self.assertEqual(self.call(self.url, "-X", query="s")["status"], "OK")

    def test_deleting(self):
        for _ in range(2):
            reply = self.call(self.url, "-P", text([1, *quaternion(1)]), query=STREAM, body=sweep(1).tobytes())
            self.assertEqual((reply["status"], reply["begun"]), ("OK", True))
            deleted, again = self.calls(self.url, "-X", "-n", 2, query="s")
            self.assertEqual((deleted["status"], again["status"]), ("OK", "REFUSED"))
            self.assertEqual((again["problem"]["status"], again["problem"]["kind"]), (404, "not-found"))
        self.assertEqual(self.call(self.url, "-L", query="s")["problem"]["status"], 404)
        for name in ("", "a b", "a/b", "x" * 64):
            reply = self.call(self.url, "-X", query=name)
            self.assertEqual((reply["status"], reply["error"]), ("FAILED", "a stream cannot have this name"))
        self.assertEqual(self.call(self.url, "-X", "-e", "gzip", query="x" * 63)["problem"]["status"], 404)


class Sensor(StreamCase):
    def start(self, *arguments, url=None):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        query = f"{QUERY}&sweeps=3&time_column=yes"
        process = subprocess.Popen([SENSOR, "-u", url or self.url, "-q", query, *map(str, arguments)], **pipes)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def end(self, process, data=b""):
        output, errors = process.communicate(data, timeout=PATIENCE)
        return process.returncode, output.decode().splitlines(), errors.decode()

    def poses(self, *lines):
        path = self.folder / "poses.txt"
        path.write_text("\n".join(("# timestamp tx ty tz qx qy qz qw", "", *lines)), encoding="utf-8")
        return ("-s", "s", "-p", path)

    def scans(self):
        paths = [self.folder / f"{number}.bin" for number in range(len(TIMES))]
        for number, path in enumerate(paths):
            sweep(number).tofile(path)
        return paths

    def test_files_with_poses(self):
        *_, (points, _) = self.joined()
        poses = self.poses(*map(line, TIMES))
        for arguments, data in (
            (self.scans(), b""),
            ((), b"".join(struct.pack("<I", sweep(n).nbytes) + sweep(n).tobytes() for n in range(len(TIMES)))),
        ):  # the second run begins anew, although it has the times of the first
            status, lines, errors = self.end(self.start(*poses, *arguments), data)
            self.assertEqual((status, lines[-1]), (0, "4 scans sent, 0 dropped"), errors)
            for number, count in enumerate((1, 2, 3, 3)):
                self.assertRegex(lines[number], rf" {300 * count} points: .*; {count} sweeps; [\d.]+ ms$")
            self.assertEqual(errors.count("fewer_sweeps"), 2)
            last, _ = parse_by_hand(self.daemon.get("/v1/streams/s/last").body)
            self.assertEqual(last["points"].tobytes(), points.tobytes())

    def test_poses_that_are_none(self):
        for lines, reason in (
            ((line(1), line(2)), "2.bin: there is no pose for it"),
            (("1 2 3 4 5 6 7",), "0.bin: its pose must have the form: time x y z qx qy qz qw"),
            ((line(1) + " 9",), "0.bin: its pose must have the form"),
            (("1 2 3 4 5 6 7 up",), "0.bin: its pose must have the form"),
            (("1 0 0 0 0 0 0 2",), "422 not-rigid"),
            ((line(2), line(1)), "1.bin: line 4 of the poses: its time is not after the previous time"),
            ((line(1), "", line(2), line(2)), "2.bin: line 6 of the poses: its time is not after the previous time"),
            (("nan 0 0 0 0 0 0 1",), "0.bin: 400 bad-parameter"),
        ):
            status, _, errors = self.end(self.start(*self.poses(*lines), *self.scans()))
            self.assertEqual(status, 1, errors)
            self.assertIn(reason, errors)
            self.assertNotIn("once more", errors)
        for arguments, reason in (
            (("-s", "s"), "usage: "),
            (("-p", "poses.txt"), "usage: "),
            (("-s", "s", "-p", "none.txt"), "none.txt: No such file"),
        ):
            status, _, errors = self.end(self.start(*arguments))
            self.assertEqual(status, 2)
            self.assertIn(reason, errors)
        status, lines, errors = self.end(self.start(*self.poses()[2:], "-s", "a b"))
        self.assertEqual((status, lines), (1, ["0 scans sent, 0 dropped"]))
        self.assertIn("a stream cannot have this name", errors)

    def test_a_service_that_was_replaced(self):
        """The new service gets the lost sweeps again, and the sensor says so."""
        *_, (points, _) = self.joined()
        sensor = self.start(*self.poses(*map(line, TIMES)))
        for number in range(len(TIMES)):
            if number == 2:
                self.daemon.process.send_signal(signal.SIGKILL)
                self.daemon.wait()
                type(self).daemon = Daemon("--listen", "{}:{}".format(*self.daemon.address))
            sensor.stdin.write(struct.pack("<I", sweep(number).nbytes) + sweep(number).tobytes())
            sensor.stdin.flush()
            self.assertRegex(sensor.stdout.readline(), rb"; %d sweeps;" % (1, 2, 3, 3)[number])
        status, _, errors = self.end(sensor)
        self.assertEqual(status, 0)
        self.assertEqual(errors.count("the service has lost sweeps; they are sent again"), 1)
        self.assertIn("frame 3: the service has lost", errors)
        last, _ = parse_by_hand(self.daemon.get("/v1/streams/s/last").body)
        self.assertEqual(last["points"].tobytes(), points.tobytes())

    def test_a_service_that_has_no_room_does_not_get_sweeps_once_more(self):
        with Daemon("--stream-memory-bytes", str(2 * 65536)) as small:
            status, lines, errors = self.end(
                self.start(*self.poses(*map(line, TIMES)), *self.scans(), url=url_of(small))
            )
            small.await_accounts()
            counted = small.get("/metrics").body.decode()
        self.assertEqual((status, lines[-1]), (0, "4 scans sent, 0 dropped"), errors)
        self.assertIn("evicted", errors)
        self.assertNotIn("once more", errors)
        self.assertIn('voxeld_requests_total{endpoint="/v1/voxelize",code="200"} 4', counted)

    def test_a_live_sensor_whose_dropped_scans_take_their_poses_along(self):
        refused = []

        def act(talk):
            """Forwards all but the second sweep."""
            body = talk.read_body()
            if f"time={TIMES[1]!r}" in talk.target:
                refused.append(talk.target)
                return talk.socket.sendall(problem(503))
            reply = self.daemon.request(talk.head.split()[0], talk.target, body)
            kind = reply.headers["Content-Type"].encode()
            head = b"HTTP/1.1 %d X\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
            return talk.socket.sendall(head % (reply.status, kind, len(reply.body)) + reply.body)

        with RudeServer(act) as server:
            sensor = self.start("-r", 1, *self.poses(*map(line, TIMES)), *self.scans(), url=url_of(server))
            status, lines, _ = self.end(sensor)
        self.assertEqual((status, lines[-1], len(refused)), (0, "3 scans sent, 1 dropped", 1), lines)
        kept = self.daemon.get("/v1/streams/s").json()["sweeps"]
        self.assertEqual([each["time"] for each in kept], [TIMES[3], TIMES[2], TIMES[0]])


if __name__ == "__main__":
    unittest.main()
