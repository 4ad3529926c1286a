"""The examples of docs/wires.md do what they say: its commands and its Python run against a daemon."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import files
from check import parse_by_hand
from daemon import PATIENCE, ROOT, Daemon
from rude_server import url_of

TEXT = (ROOT / "docs" / "wires.md").read_text(encoding="utf-8")
ADDRESS = "http://localhost:8080"


def section(title):
    return TEXT[TEXT.index(f"\n## {title}\n") :].split("\n## ")[1]


def commands(text):
    """The shell lines after a $, with those that continue them."""
    return [command.replace("\\\n", "") for command in re.findall(r"^    \$ ((?:.*\\\n)*.*)$", text, re.MULTILINE)]


class Formats(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        points = np.random.default_rng(1).uniform((0, -40, -3, 0), (70, 40, 1, 1), (5000, 4)).astype("<f4")
        cloud = files.structured({name: points[:, place] for place, name in enumerate(("x", "y", "z", "intensity"))})
        for name, body in (("pcd", files.pcd(cloud)), ("ply", files.ply(cloud)), ("cdr", files.pointcloud2(cloud))):
            (cls.folder / f"scan.{name}").write_bytes(body)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def run_here(self, *arguments):
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "api" / "python")}
        done = subprocess.run(
            arguments, cwd=self.folder, env=environment, capture_output=True, text=True, timeout=PATIENCE
        )
        self.assertEqual(done.returncode, 0, (arguments, done.stderr))
        return done.stdout

    def test_commands(self):
        found = commands(section("Formats of the body"))
        self.assertEqual(len(found), 3)
        for command in found:
            self.run_here("sh", "-c", command.replace(ADDRESS.removeprefix("http://"), url_of(self.daemon)))
            output = self.folder / re.search(r"-o (\S+)", command)[1]
            _, metadata = parse_by_hand(output.read_bytes())
            self.assertEqual(metadata["points"]["received"], 5000, command)
            self.assertEqual(metadata["warnings"], [])
            output.unlink()

    def test_python(self):
        (program,) = re.findall(r"^```python\n(.*?)^```", section("Formats of the body"), re.MULTILINE | re.DOTALL)
        self.assertIn(ADDRESS, program)
        self.assertRegex(
            self.run_here(sys.executable, "-c", program.replace(ADDRESS, url_of(self.daemon))), r"^\d+ voxels\n$"
        )


if __name__ == "__main__":
    unittest.main()
