"""The examples of docs/formats.md work: its commands and its Python run against a daemon."""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import files
import voxeld
from check import parse_by_hand
from daemon import PATIENCE, ROOT, Daemon
from rude_server import url_of

TEXT = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8")
ADDRESS = "http://localhost:8080"


def section(title):
    return TEXT[TEXT.index(f"\n## {title}\n") :].split("\n## ")[1]


def commands(text):
    """The shell lines after a $, with their continuation lines."""
    return [command.replace("\\\n", "") for command in re.findall(r"^    \$ ((?:.*\\\n)*.*)$", text, re.MULTILINE)]


class Formats(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = Daemon()
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        points = np.random.default_rng(1).uniform((0, -40, -3, 0), (70, 40, 1, 1), (5000, 4)).astype("<f4")
        cloud = files.structured({name: points[:, place] for place, name in enumerate(("x", "y", "z", "intensity"))})
        bright = cloud.copy()
        bright["intensity"] *= 255
        for name, body in (("pcd", files.pcd(cloud)), ("ply", files.ply(cloud)), ("cdr", files.pointcloud2(bright))):
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


class KServe(unittest.TestCase):
    def test_commands(self):
        points = np.random.default_rng(1).uniform((0, -40, -3, 0), (70, 40, 1, 1), (5000, 4)).astype("<f4")
        answers = []
        with tempfile.TemporaryDirectory() as folder, Daemon() as daemon:
            pathlib.Path(folder, "scan.bin").write_bytes(points.tobytes())
            for command in commands(section("KServe v2")):
                line = command.replace(ADDRESS.removeprefix("http://"), url_of(daemon)).replace(
                    "curl", "curl -sS --fail -i"
                )
                done = subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, timeout=PATIENCE)
                self.assertEqual((done.returncode, done.stderr), (0, b""), command)
                answers.append(done.stdout or pathlib.Path(folder, "answer").read_bytes())
            plain, _ = parse_by_hand(daemon.post("/v1/voxelize?preset=kitti_second", points.tobytes()).body)
        heads, bodies = zip(*(answer.split(b"\r\n\r\n", 1) for answer in answers))
        begin = int(re.search(rb"Inference-Header-Content-Length: (\d+)", heads[0])[1])
        self.assertEqual(bodies[0][begin:], b"".join(tensor.tobytes() for tensor in plain.values()))
        self.assertEqual(json.loads(bodies[1])["name"], "kitti_second")
        self.assertEqual(json.loads(bodies[2])["model_stats"][0]["inference_count"], 1)


class Page(unittest.TestCase):
    def test_each_section_with_commands_has_a_test(self):
        """The tests are here, in docs.encodings, clients.viewers and docs.shared_memory."""
        tested = {"Formats of the body", "Encodings", "Answers as files", "KServe v2", "Shared memory"}
        titles = re.findall("^## (.*)$", TEXT, re.MULTILINE)
        self.assertEqual({title for title in titles if commands(section(title))}, tested)
        self.assertEqual(sum(len(commands(section(title))) for title in titles), len(commands(TEXT)))

    def test_the_client_with_shared_memory(self):
        (line,) = re.findall(r"^    (client = voxeld\.Client.*)$", section("Shared memory"), re.MULTILINE)
        with Daemon("--allow-shared-memory", "yes") as daemon:
            local = {"voxeld": voxeld}
            exec(line.replace(ADDRESS, url_of(daemon)), local)
            with local["client"] as client:
                self.assertEqual(
                    client.voxelize(np.full((9, 4), 0.5, "<f4"), preset="kitti_second").metadata["points"]["received"],
                    9,
                )


if __name__ == "__main__":
    unittest.main()
