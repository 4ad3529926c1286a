"""voxeld-client with streams: scans as sweeps, in order and with the poses of a file; the command `streams`."""

import json
import pathlib
import tempfile
import unittest

import numpy as np

import models
import voxeld
from check import parse_by_hand, same_tensors
from command_line import run
from daemon import Daemon
from rude_server import GRID, url_of
from streams import Mirror
from test_python_detect import scan
from test_python_streams import quaternion, sweep, text

TIMES = (1.5, 1.6, 1.7, 1.8)
OPTIONS = [word for name, value in GRID.items() for word in (f"--{name.replace('_', '-')}", text(value))]


def line(time):
    """A line in TUM's format: the quaternion's real part is last."""
    x, y, z, qw, qx, qy, qz = quaternion(time)
    return " ".join(map(repr, map(float, (time, x, y, z, qx, qy, qz, qw))))


class Streams(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.daemon = Daemon(*models.served(cls.folder / "models"))
        cls.addClassCleanup(cls.daemon.stop)
        cls.server = ("--server", url_of(cls.daemon))
        cls.client = cls.enterClassContext(voxeld.Client(url_of(cls.daemon)))
        (cls.folder / "sweeps").mkdir()
        for number, time in enumerate(TIMES):
            sweep(number).tofile(cls.folder / "sweeps" / f"{number}.bin")
        cls.poses = cls.folder / "poses.txt"
        cls.poses.write_text("\n".join(("# timestamp tx ty tz qx qy qz qw", *map(line, TIMES), "")))

    def tearDown(self):
        for stream in self.client.streams():
            self.client.stream(stream["name"], 1).delete()

    def run_here(self, *arguments):
        return run(*arguments, *self.server, cwd=self.folder)

    def joined(self, sweeps=3):
        """The points joined by hand for each scan."""
        mirror = Mirror()
        for number, time in enumerate(TIMES):
            query = {"stream": "s", "sweeps": str(sweeps), "pose": text(quaternion(time)), "time": repr(time)}
            yield mirror.send({**query, "time_column": "yes"}, sweep(number))[0]

    def check_answers(self, output):
        for number, joined in enumerate(self.joined()):
            tensors = parse_by_hand((self.folder / output / f"{number}.safetensors").read_bytes())[0]
            expected = self.client.voxelize(joined, **GRID)
            self.assertEqual(same_tensors(dict(expected), tensors), [], number)

    def test_scans_are_sweeps_in_their_order(self):
        asked = ("voxelize", "sweeps", "--stream", "s", "--sweeps", 3, "--time-column", "yes", *OPTIONS, "-o", "out")
        for _ in range(2):  # the second time the stream begins anew, and all scans are sent
            done = self.run_here(*asked, "--poses", "poses.txt", "--jobs", 4)
            self.assertEqual((done.status, done.counts), (0, {"done": 4, "skipped": 0, "failed": 0}), done)
            self.assertIn("warning fewer_sweeps for 2 of 4 scans", done.errors)
            self.check_answers("out")

    def test_one_scan_after_the_other(self):
        for number, time in enumerate(TIMES):
            own = ("--time", time, "--pose", text(quaternion(time)), "--sweeps", 3, "--time-column", "yes")
            done = self.run_here("voxelize", f"sweeps/{number}.bin", "--stream", "s", *own, *OPTIONS, "-o", "single")
            self.assertEqual(done.status, 0, done)
        self.check_answers("single")

    def test_boxes_of_a_stream(self):
        (self.folder / "cars").mkdir()
        for number in range(2):
            scan(1500, number).tofile(self.folder / "cars" / f"{number}.bin")
        (self.folder / "two.txt").write_text("\n".join(map(line, TIMES[:2])))
        more = ("--model", "random", "--stream", "s", "--sweeps", 2, "--poses", "two.txt", "--json")
        done = self.run_here("detect", "cars", *more)
        self.assertEqual(done.status, 0, done)
        stream = self.client.stream("mine", 2, operation="detect", model="random")
        for number, printed in enumerate(map(json.loads, done.output.splitlines())):
            result = stream.send(scan(1500, number), quaternion(TIMES[number]), TIMES[number])
            self.assertEqual([box["score"] for box in printed["boxes"]], [float(str(s)) for s in result["scores"]])

    def test_looking_at_streams(self):
        done = self.run_here("streams")
        self.assertEqual((done.status, done.output), (0, "\n"))
        stream, (*_, joined) = self.client.stream("roof.1", 3, time_column="yes", **GRID), self.joined()
        for number, time in enumerate(TIMES):
            stream.send(sweep(number), quaternion(time), time)
        self.assertEqual(
            self.run_here("streams").output.split(), "roof.1 3 sweeps, 900 points, the last sweep at time 1.8".split()
        )
        self.assertEqual(json.loads(self.run_here("streams", "--json").output)[0]["name"], "roof.1")
        self.assertRegex(self.run_here("streams", "roof.1").output, r"(?m)^sweeps\.2\.time +1\.6$")
        self.assertEqual(json.loads(self.run_here("streams", "roof.1", "--json").output)["points"], 900)
        for name in ("last.npy", "last.bin"):
            self.assertEqual(self.run_here("streams", "roof.1", "--last", name).status, 0)
        self.assertEqual(np.load(self.folder / "last.npy").tobytes(), joined.tobytes())
        self.assertEqual((self.folder / "last.bin").read_bytes(), joined.tobytes())
        self.assertEqual(self.run_here("streams", "roof.1", "--delete").status, 0)
        self.assertEqual(self.client.streams(), [])
        done = self.run_here("streams", "roof.1", "--delete")
        self.assertEqual((done.status, done.errors), (1, "voxeld-client: there is no stream roof.1\n"))
        self.assertIn("404", self.run_here("streams", "roof.1").errors)

    def test_wrong_usage(self):
        files = {"short": "1 2 3 4 5 6 7", "words": "1 2 3 4 5 6 7 up", "few": line(1)}
        for name, words in files.items():
            (self.folder / f"{name}.txt").write_text(f"{words}\n")
        ask = ("voxelize", "sweeps", *OPTIONS, "-o", "wrong")
        self.client.stream("r", 1, **GRID).send(sweep(1), quaternion(1), 1)
        for arguments, reason in (
            ((*ask, "--stream", "s"), "--poses FILE has those of each"),
            ((*ask, "--poses", "poses.txt"), "--poses needs --stream"),
            ((*ask, "--stream", "s", "--poses", "none.txt"), "cannot read none.txt: No such file"),
            ((*ask, "--stream", "s", "--poses", "short.txt"), "short.txt:1 is not a line of 8 numbers: time x y z qx"),
            ((*ask, "--stream", "s", "--poses", "words.txt"), "words.txt:1 is not a line of 8 numbers"),
            ((*ask, "--stream", "s", "--poses", "few.txt"), "few.txt has 1 poses for 4 scans"),
            ((*ask, "--stream", "s", "--poses", "poses.txt", "--time", "1"), "time is given twice"),
            (("streams", "--delete"), "need the NAME of a stream"),
            (("streams", "r", "--last", "x.pcd"), "x.pcd is not .npy or .bin"),
            (("watch", "sweeps", "-p", "stream=s", "-o", "wrong"), "cannot be sweeps of a stream"),
        ):
            done = self.run_here(*arguments)
            self.assertEqual(done.status, 2, (arguments, done))
            self.assertIn(reason, done.errors)
        self.assertFalse((self.folder / "wrong").exists())

    def test_what_the_first_sweep_is_refused_for_ends_the_run(self):
        done = self.run_here("voxelize", "sweeps", "--stream", "s", "--sweeps", 99, "--poses", "poses.txt", "-o", "bad")
        self.assertEqual((done.status, done.counts["not begun"]), (1, 4), done)
        self.assertIn("sweeps is '99'; allowed", done.errors)


if __name__ == "__main__":
    unittest.main()
