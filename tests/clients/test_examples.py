"""The examples of README.md, docs/clients.md and docs/streams.md do what they say: their Python, C and shell blocks run
against a daemon."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

from daemon import PATIENCE, ROOT, Daemon, voxeld_binary
from rude_server import url_of

PAGES = ("README.md", "docs/clients.md", "docs/streams.md")
README, PAGE, STREAMS = ((ROOT / name).read_text(encoding="utf-8") for name in PAGES)
ADDRESS = "http://localhost:8080"


def blocks(language, page=PAGE):
    return re.findall(rf"^```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)


def command(beginning, page=PAGE):
    """The one shell line of docs/clients.md with this beginning."""
    (line,) = re.findall(rf"^    \$ ({re.escape(beginning)}.*)$", page, re.MULTILINE)
    return line


class Examples(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        points = np.random.default_rng(1).uniform((0, -40, -3, 0), (70, 40, 1, 1), (5000, 4)).astype("<f4")
        for name in ("scan", "a", "b", "c"):
            points.tofile(cls.folder / f"{name}.bin")
        (cls.folder / "sweeps").mkdir()
        for number in range(3):
            sweep = points[number * 1000 :][:1000] * np.float32((1, 1, 1, 255))
            sweep.tofile(cls.folder / "sweeps" / f"{number}.bin")
        (cls.folder / "poses.txt").write_text("".join(f"{n / 8} {n} 0 0 0 0 0 1\n" for n in range(3)))
        # The commands are meant for the root of the project.
        for name in ("api", "build"):
            (cls.folder / name).symlink_to(ROOT / name)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def run_here(self, *arguments, **options):
        path = f"{os.path.dirname(voxeld_binary())}:{os.environ['PATH']}"  # where voxeld.Server() looks
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "api" / "python"), "PATH": path}
        told = {"cwd": self.folder, "env": environment, "capture_output": True, "text": True, "timeout": PATIENCE}
        done = subprocess.run(arguments, **told, **options)
        self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
        return done.stdout

    def test_readme(self):
        (program,) = blocks("python", README)
        self.assertIn(ADDRESS, program)
        output = self.run_here(sys.executable, "-c", program.replace(ADDRESS, url_of(self.daemon)))
        self.assertRegex(output, r"^\(\d+, 4\) int32 \[\]\n$")

    def test_readme_makes_a_scan_and_sends_it(self):
        lines = re.findall(r"^    \$ (build/bin/voxel-scan .*|curl .*)$", README, re.MULTILINE)
        self.assertEqual(len(lines), 2)
        for line in lines:
            line = line.replace("curl ", "curl -sS --fail ", 1).replace(ADDRESS[7:], url_of(self.daemon))
            self.run_here("sh", "-c", line)
        self.assertGreater((self.folder / "voxels.safetensors").stat().st_size, 0)

    def test_python(self):
        program, own_daemon, torch = blocks("python")
        self.assertIn(ADDRESS, program)
        lines = self.run_here(sys.executable, "-c", program.replace(ADDRESS, url_of(self.daemon))).splitlines()
        self.assertRegex(lines[0], r"^\d+ voxels of \d+ points in [\d.]+ us$")
        self.assertRegex(lines[1], r"^400 bad-parameter voxel_size voxel_size .*allowed: above 0$")
        self.run_here(sys.executable, "-c", program.replace(ADDRESS, url_of(self.daemon)) + own_daemon)
        compile(torch, "docs/clients.md", "exec")
        try:
            import torch as _  # noqa: F401
        except ImportError:
            self.skipTest("there is no torch here for the last example")
        self.run_here(sys.executable, "-c", program.replace(ADDRESS, url_of(self.daemon)) + torch)

    def built_and_run(self, program):
        """Skips the test if there is no compiler or library."""
        if not shutil.which("pkg-config"):
            self.skipTest("there is no pkg-config here")
        if subprocess.run(["pkg-config", "--exists", "libcurl", "jansson"]).returncode:
            self.skipTest("there is no libcurl here")
        self.assertIn(ADDRESS, program)
        (self.folder / "example.c").write_text(program.replace(ADDRESS, url_of(self.daemon)), encoding="utf-8")
        self.run_here("sh", "-c", command("cc ").replace("cc ", "cc -Wall -Wextra -Werror ", 1))
        return self.run_here("./example")

    def test_streams_in_python(self):
        (program,) = blocks("python", STREAMS)
        self.assertIn(ADDRESS, program)
        lines = self.run_here(sys.executable, "-c", program.replace(ADDRESS, url_of(self.daemon))).splitlines()
        ages = [re.fullmatch(r"\d+ voxels, ages (\[.*\])", line)[1] for line in lines]
        self.assertEqual(ages, ["[0.0]", "[0.0, 0.125]", "[0.0, 0.125, 0.25]"])

    def test_streams_in_c(self):
        (program,) = blocks("c", STREAMS)
        lines = self.built_and_run(program).splitlines()
        self.assertEqual(lines[0], "0.0 s: 1000 points; the stream begins")
        self.assertEqual(lines[2], "".join(f"{age} s: 1000 points; " for age in ("0.0", "0.1", "0.2")) + "joined")
        line = command("build/bin/sensor ", STREAMS).replace("sensor ", f"sensor -u {url_of(self.daemon)} ", 1)
        self.assertIn(" 3000 points: ", self.run_here("sh", "-c", f"{line} 2>errors").splitlines()[2])

    def test_c(self):
        (program,) = blocks("c")
        self.assertRegex(self.built_and_run(program), r"^1 voxels of 4 values at 0x[0-9a-f]+[048c]0\n$")
        line = command("build/bin/sensor ")
        self.assertIn(ADDRESS, line)
        self.assertIn(" -r 10 ", line)  # a slow machine may drop a scan at this rate
        output = self.run_here("sh", "-c", line.replace(ADDRESS, url_of(self.daemon)).replace(" -r 10 ", " -r 1 "))
        self.assertEqual(output.splitlines()[-1], "3 scans sent, 0 dropped")

    def test_the_package_lies_where_pip_is_sent(self):
        self.assertIn(f"`{command('pip install ')}`", README)
        self.assertTrue((ROOT / command("pip install ").split()[2] / "pyproject.toml").exists())


if __name__ == "__main__":
    unittest.main()
