"""Files that block or never end: the daemon refuses each with its path, and SIGTERM still ends the daemon.

$VOXELD_HANG_LIBRARY is the path of the library that tests/fault/hang.c becomes.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import unittest

from client import PATIENCE, Daemon, is_sanitized, wait_until
from daemon import voxeld_binary

LIBRARY = os.environ.get("VOXELD_HANG_LIBRARY", "")
PRESET = json.dumps(
    {"description": "x", "parameters": {"point_cloud_range": [0, 0, 0, 4, 4, 4], "voxel_size": [1, 1, 1]}}
)
NOT_REGULAR = "it is not a regular file"
ENVIRONMENT = {k: v for k, v in os.environ.items() if not k.startswith("VOXELD_")}


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.presets = self.folder / "presets"
        self.presets.mkdir()

    def options_with(self, path):
        """(option, arguments with the path) for each option that names a file."""
        good = self.folder / "good"
        good.write_text("", encoding="utf-8")
        return (
            ("config", ["--config", path]),
            ("token_file", ["--token-file", path]),
            ("tls_cert", ["--tls-cert", path, "--tls-key", good]),
            ("tls_key", ["--tls-cert", good, "--tls-key", path]),
            ("tls_client_ca", ["--tls-cert", good, "--tls-key", good, "--tls-client-ca", path]),
        )

    def check(self, *args):
        """The status and the output of --check-config."""
        command = [voxeld_binary(), "--backend", "cpu", *args, "--check-config"]
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE)
        return done.returncode, done.stderr

    def assert_refused(self, reason, *args):
        status, told = self.check(*args)
        self.assertEqual(status, 2, told)
        self.assertIn(reason, told)

    def start(self, *args, env=None):
        daemon = Daemon(*args, env=env)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        return daemon


class Kinds(Case):
    def make_all(self):
        """Makes a file of each kind that is refused. Returns (path, reason) of each."""
        fifo, endless, circle, ear, large = (
            self.folder / name for name in ("fifo", "endless", "circle", "socket", "large")
        )
        os.mkfifo(fifo)
        endless.symlink_to("/dev/zero")
        circle.symlink_to(circle)
        listener = socket.socket(socket.AF_UNIX)
        self.addCleanup(listener.close)
        listener.bind(str(ear))
        with large.open("wb") as file:
            file.truncate(1 << 40)
        return (
            (fifo, NOT_REGULAR),
            (endless, NOT_REGULAR),
            (circle, "Too many levels"),
            (ear, "No such device"),
            (large, "it has more than"),
            (self.presets, NOT_REGULAR),
        )

    def test_only_regular_files_are_read(self):
        for path, reason in self.make_all():
            for option, args in self.options_with(path):
                with self.subTest(option, path=path.name):
                    self.assert_refused(f"{option} {path}: {reason}", *args)

    def test_only_regular_presets_are_read(self):
        preset = self.presets / "mine.json"
        for path, reason in self.make_all():
            with self.subTest(path.name):
                preset.symlink_to(path)
                self.assert_refused(reason, "--presets-dir", self.presets)
                self.assert_refused(str(preset), "--presets-dir", self.presets)
                preset.unlink()

    def test_a_fifo_for_a_directory(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        self.assert_refused(f"presets directory {fifo}: Not a directory", "--presets-dir", fifo)


class Directories(Case):
    def test_hidden_files_are_skipped(self):
        """As Kubernetes mounts a volume: each file links into ..data, which links to a hidden directory."""
        true = self.presets / "..2026_11_22"
        true.mkdir()
        (true / "mine.json").write_text(PRESET, encoding="utf-8")
        (self.presets / "..data").symlink_to(true.name)
        (self.presets / "mine.json").symlink_to("..data/mine.json")
        os.mkfifo(self.presets / ".x.json")
        (self.presets / "..data.json").write_text("{", encoding="utf-8")
        with self.start("--presets-dir", str(self.presets)) as daemon:
            names = {preset["name"] for preset in daemon.get("/v1/presets").json()["presets"]}
            self.assertIn("mine", names)
            self.assertEqual({name for name in names if name.startswith(".")}, set())

    def test_entries_are_bounded(self):
        for number in range(4094):  # with . and .. there are 4096 entries
            (self.presets / str(number)).touch()
        self.assertEqual(self.check("--presets-dir", self.presets), (0, ""))
        (self.presets / "one more").touch()
        reason = f"presets directory {self.presets}: it has more than 4096 entries"
        self.assert_refused(reason, "--presets-dir", self.presets)

    def test_links_to_one_preset_are_bounded(self):
        (self.presets / "mine.json").write_text(PRESET, encoding="utf-8")
        for number in range(300):
            (self.presets / f"{number}.json").symlink_to("mine.json")
        self.assert_refused("there are more than 256 presets", "--presets-dir", self.presets)


class Reloading(Case):
    def test_a_fifo_does_not_hang_a_reload(self):
        daemon = self.start("--presets-dir", str(self.presets))
        os.mkfifo(self.presets / "mine.json")
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: 'msg="not reloaded" what=presets' in daemon.log(), "a reload that fails")
        self.assertIn(f"{self.presets}/mine.json: {NOT_REGULAR}", daemon.log())
        daemon.stop()


@unittest.skipIf(is_sanitized(), "a sanitizer wants to be loaded first")
@unittest.skipUnless(os.path.exists(LIBRARY), "VOXELD_HANG_LIBRARY names no library of hanging calls")
class Hanging(Case):
    def environment(self, path):
        return {"LD_PRELOAD": LIBRARY, "VOXELD_HANG": str(path)}

    def await_hang(self, path):
        wait_until(pathlib.Path(f"{path}.opened").exists, f"{path} being opened")

    def test_sigterm_ends_a_start_that_hangs(self):
        path = self.presets / "slow.json"
        path.write_text(PRESET, encoding="utf-8")
        for option, args in (("presets", ["--presets-dir", self.presets]), *self.options_with(path)):
            for stop in (signal.SIGTERM, signal.SIGINT) if option == "presets" else (signal.SIGTERM,):
                with self.subTest(option, stop=stop):
                    command = [voxeld_binary(), "--backend", "cpu", "--listen", "127.0.0.1:0", *args]
                    process = subprocess.Popen(
                        command, env={**ENVIRONMENT, **self.environment(path)}, stderr=subprocess.DEVNULL
                    )
                    self.addCleanup(lambda process=process: process.poll() is None and process.kill())
                    self.await_hang(path)
                    process.send_signal(signal.SIGHUP)  # does not end the daemon, although it is not ready
                    process.send_signal(stop)
                    self.assertEqual(process.wait(PATIENCE), -stop)
                    pathlib.Path(f"{path}.opened").rmdir()

    def test_a_reload_that_hangs_disturbs_neither_requests_nor_the_stop(self):
        path = self.presets / "slow.json"
        daemon = self.start("--presets-dir", str(self.presets), env=self.environment(path))
        path.write_text(PRESET, encoding="utf-8")
        daemon.process.send_signal(signal.SIGHUP)
        self.await_hang(path)
        daemon.assert_alive()
        self.assertEqual(daemon.get("/v1/presets").status, 200)
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: "a reload is still in progress" in daemon.log(), "word of the second reload")
        daemon.terminate()
        self.assertEqual(daemon.wait(), 0, daemon.log())
        self.assertIn("a reload does not end", daemon.log())


if __name__ == "__main__":
    unittest.main()
