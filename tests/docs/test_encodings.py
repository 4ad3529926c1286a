"""The commands of docs/formats.md on encodings work, one after the other."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from client import tiled_rows
from daemon import PATIENCE, ROOT, Daemon

SECTION = (ROOT / "docs" / "formats.md").read_text(encoding="utf-8").split("\n## Encodings\n")[1].split("\n## ")[0]
ADDRESS = "localhost:8080"


class Encodings(unittest.TestCase):
    @unittest.skipUnless(shutil.which("zstd"), "there is no zstd here")
    def test_commands(self):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "scan.bin").write_bytes(tiled_rows(100_000))
        answers = set()
        with Daemon() as daemon:
            for command in re.findall(r"^    \$ ((?:.*\\\n)*.*)$", SECTION, re.MULTILINE):
                line = command.replace("curl ", "curl -sS --fail ").replace(ADDRESS, "%s:%d" % daemon.address)
                done = subprocess.run(["sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=PATIENCE)
                self.assertEqual((done.returncode, done.stderr), (0, ""), command)
                answer = folder / "voxels.safetensors"
                if answer.exists():
                    file = answer.read_bytes()
                    answers.add(file[8 + int.from_bytes(file[:8], "little") :])
        self.assertEqual(len(answers), 1)  # the same tensors, each time


if __name__ == "__main__":
    unittest.main()
