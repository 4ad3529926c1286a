"""voxeld-client watch: answers the scans of a folder once they are complete."""

import os
import pathlib
import signal
import tempfile
import unittest

from command_line import POINTS, Running, received, run, simulate
from daemon import Daemon, OneDaemonCase, wait_until
from rude_server import url_of
from voxeld.cli.watch import Watch


class Complete(unittest.TestCase):
    """With the test's own clock."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.now = 0.0
        self.watch = Watch(self.folder, 1.0, lambda: self.now)

    def look(self, now):
        self.now = now
        return [path.name for path in self.watch.complete()]

    def write(self, name, size, time):
        (self.folder / name).write_bytes(bytes(size))
        os.utime(self.folder / name, (time, time))

    def test_a_file_that_grows_is_left_alone(self):
        for now in range(5):
            self.write("a.bin", 16 * now, 1000)
            self.assertEqual(self.look(now * 0.9), [])
        self.assertEqual(self.look(4.5), [])
        self.assertEqual(self.look(4.7), ["a.bin"])
        self.assertEqual(self.look(9.0), [])

    def test_a_file_of_full_size_that_is_written_is_left_alone(self):
        for now in range(5):
            self.write("a.bin", 64, 1000 + now)
            self.assertEqual(self.look(now * 0.9), [])
        self.assertEqual(self.look(4.7), ["a.bin"])

    def test_a_file_that_changes_later_comes_again(self):
        self.write("a.bin", 16, 1000)
        self.assertEqual([self.look(0.0), self.look(1.0), self.look(2.0)], [[], ["a.bin"], []])
        self.write("a.bin", 16, 1001)
        self.assertEqual([self.look(3.0), self.look(3.9), self.look(4.0)], [[], [], ["a.bin"]])
        self.watch.again(self.folder / "a.bin")
        self.assertEqual([self.look(5.0), self.look(6.0), self.look(7.0)], [[], ["a.bin"], []])

    def test_bags_are_left_out_and_reported_once(self):
        for name in ("a.mcap", "b.db3", "c.BAG"):
            self.write(name, 16, 1000)
        self.assertEqual(self.look(0.0), [])
        self.assertEqual([path.name for path in self.watch.bags], ["a.mcap", "b.db3", "c.BAG"])
        self.assertEqual((self.look(2.0), self.watch.bags), ([], []))

    def test_a_file_that_goes_is_forgotten(self):
        self.write("a.bin", 16, 1000)
        self.assertEqual([self.look(0.0), self.look(1.0)], [[], ["a.bin"]])
        (self.folder / "a.bin").unlink()
        self.assertEqual(self.look(2.0), [])
        self.write("a.bin", 16, 1000)
        self.assertEqual([self.look(3.0), self.look(4.0)], [[], ["a.bin"]])

    def test_only_scans_that_are_not_hidden(self):
        for name in (".a.bin", "a.tmp", "a.bin.part", "b.ply"):
            self.write(name, 16, 1000)
        self.assertEqual([self.look(0.0), self.look(1.0)], [[], ["b.ply"]])


class Watching(OneDaemonCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.scans, self.output = self.folder / "scans", self.folder / "out"
        self.scans.mkdir()

    def asked(self, *arguments):
        given = ("--preset", "kitti_second", "-o", self.output, "--settle", 0.2, "--interval", 0.05)
        return ("watch", self.scans, *given, "--server", url_of(self.daemon), *arguments)

    def watch(self, *arguments):
        return Running(*self.asked(*arguments))

    def appear(self, name, seed):
        """A scan that gets its name once it is complete."""
        simulate(self.scans / "tmp", seed)
        (self.scans / "tmp").rename(self.scans / name)

    def answer(self, name):
        return self.output / f"{name}.safetensors"

    def test_scans_as_they_appear(self):
        simulate(self.scans / "a.bin", 1)
        with self.watch() as running:
            wait_until(self.answer("a").exists, "the answer of what was there")

            self.appear("b.bin", 2)
            wait_until(self.answer("b").exists, "the answer of a file that got its name when it was whole")

            whole = (self.scans / "b.bin").read_bytes()
            (self.scans / "run").mkdir()
            with (self.scans / "run" / "c.bin").open("wb") as file:
                file.write(whole[:16000])  # then the recorder pauses longer than --settle
                file.flush()
                wait_until(self.answer("run/c").exists, "the answer of the first half")
                file.write(whole[16000:])
            wait_until(lambda: received(self.answer("run/c")) == POINTS, "the answer of the whole")
            done = running.end(signal.SIGTERM)
        self.assertEqual((done.status, done.counts), (0, {"done": 4, "skipped": 0, "failed": 0}), done)
        printed = [self.answer(name) for name in ("a", "b", "run/c", "run/c")]
        self.assertEqual(done.output.splitlines(), [str(path) for path in printed])

        with self.watch() as running:
            self.appear("d.bin", 3)
            wait_until(self.answer("d").exists, "the answer of another run")
            done = running.end(signal.SIGINT)
        self.assertEqual((done.status, done.counts), (0, {"done": 1, "skipped": 3, "failed": 0}), done)

    def test_a_scan_that_changes_in_the_moment_of_its_answer(self):
        """File times advance every few milliseconds, so the scan and its answer may have the same time."""
        self.appear("a.bin", 1)
        with self.watch() as running:
            wait_until(self.answer("a").exists, "the first answer")
            time = self.answer("a").stat().st_mtime_ns
            simulate(self.scans / "tmp", 2, 2 * POINTS)
            os.utime(self.scans / "tmp", ns=(time, time))
            (self.scans / "tmp").rename(self.scans / "a.bin")
            wait_until(lambda: received(self.answer("a")) == 2 * POINTS, "the second answer")
            self.assertEqual(running.end(signal.SIGTERM).counts, {"done": 2, "skipped": 0, "failed": 0})

    def test_errors_are_reported_at_once(self):
        (self.scans / "a.bin").write_bytes(b"not whole rows")
        simulate(self.scans / "b.bin", 1)
        (self.scans / "b.pcd").write_bytes(b"its answer has the same name as that of b.bin")
        with self.watch() as running:
            errors = [running.process.stderr.readline() for _ in range(2)]
            self.assertEqual(
                {line.split(": ")[0] for line in errors}, {f"failed {self.scans / name}" for name in ("a.bin", "b.pcd")}
            )
            wait_until(self.answer("b").exists, "the other answer")
            self.appear("a.bin", 2)
            wait_until(self.answer("a").exists, "the answer of the mended scan")
            done = running.end(signal.SIGTERM)
        self.assertEqual((done.status, done.counts), (1, {"done": 2, "skipped": 0, "failed": 1}), done)

    def test_a_service_that_is_gone_is_waited_for(self):
        path = self.folder / "socket"
        listen = ("--listen", f"unix:{path},127.0.0.1:0")
        daemon = Daemon(*listen)
        with self.watch("--server", f"unix:{path}", "--retries", 0) as running:
            wait_until((self.output / "voxeld.json").exists, "the beginning")
            daemon.stop()
            self.appear("a.bin", 1)
            self.assertIn("a.bin: ", running.process.stderr.readline())
            with Daemon(*listen):
                wait_until(self.answer("a").exists, "the answer of the service that came back")
                done = running.end(signal.SIGTERM)
        self.assertEqual((done.status, done.counts), (0, {"done": 1, "skipped": 0, "failed": 0}), done)

    def test_other_operations(self):
        simulate(self.scans / "a.bin", 1)
        given = ("--operation", "fps", "-p", "num_samples=16", "-o", self.output, "--to", "npz", "--settle", 0.2)
        with Running("watch", self.scans, *given, "--server", url_of(self.daemon)) as running:
            wait_until((self.output / "a.npz").exists, "the answer")
            self.assertEqual(running.end(signal.SIGTERM).status, 0)

    def test_wrong_usage(self):
        for arguments in (("--max-voxel", "1"), ("--max-voxels", "0"), ("-p", "max_voxels=0"), ("--settle", "0")):
            self.assertEqual(run(*self.asked(*arguments)).status, 2, arguments)
        (self.scans / "metadata.yaml").touch()
        done = run(*self.asked())
        self.assertEqual((done.status, "is a bag, which is whole only when" in done.errors), (2, True), done)
        (self.scans / "metadata.yaml").unlink()
        self.scans.rmdir()
        self.assertEqual(run(*self.asked()).status, 2)

    def test_bags_are_left_out(self):
        (self.scans / "drive.mcap").touch()
        with self.watch("--to", "mcap", "--output", self.scans / "out") as running:
            self.appear("a.bin", 1)
            wait_until((self.scans / "out" / "a.mcap").exists, "the answer of a scan beside it")
            line = running.process.stderr.readline()
            done = running.end(signal.SIGTERM)
        self.assertEqual(line.split(",")[0], f"{self.scans / 'drive.mcap'} is a bag")
        self.assertEqual((done.status, "is a bag" in done.errors), (0, False), done)


if __name__ == "__main__":
    unittest.main()
