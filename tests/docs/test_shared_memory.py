"""The commands of docs/formats.md on shared memory work, one after the other."""

import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

from client import tiled_rows
from daemon import PATIENCE, ROOT, Daemon, Reply

SECTION = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8").split("\n## Shared memory\n")[1].split("\n## ")[0]
ADDRESS = "localhost:8080"
KEY = "/dev/shm/voxeld-scan"
ANSWER = 50 << 20  # where the answer begins


class SharedMemory(unittest.TestCase):
    def test_commands(self):
        daemon_line, *lines = re.findall(r"^    \$ (.*)$", SECTION, re.MULTILINE)
        self.assertEqual(len(lines), 4)
        memory = pathlib.Path(f"{KEY}-{os.getpid()}")  # so that two tests do not collide
        self.addCleanup(memory.unlink, missing_ok=True)
        points = tiled_rows(100_000)
        with tempfile.TemporaryDirectory() as folder, Daemon(*daemon_line.split()[1:]) as daemon:
            pathlib.Path(folder, "scan.bin").write_bytes(points)
            for command in lines:
                line = command.replace("voxeld-scan", memory.name).replace("curl ", "curl -sS --fail ")
                line = line.replace(ADDRESS, "%s:%d" % daemon.address)
                done = subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual((done.returncode, done.stderr), (0, ""), line)
            told = json.loads(done.stdout)
            self.assertEqual(told["metadata"]["points"]["received"], len(points) // 16)
            with open(memory, "rb") as file:
                file.seek(ANSWER)
                answer = file.read(told["output_region"]["bytes"])
            plain = daemon.post("/v1/voxelize?preset=kitti_second", points)
            self.assertEqual(Reply(200, {}, answer).tensors(), plain.tensors())


if __name__ == "__main__":
    unittest.main()
