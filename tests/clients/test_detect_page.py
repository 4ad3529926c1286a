"""The commands and programs of docs/detection.md work: from a checkpoint to boxes, in five commands as written. Skipped
where there is no onnxruntime for this Python."""

import os
import pathlib
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import yaml
from safetensors.numpy import load_file

try:
    import onnxruntime  # noqa: F401
except ImportError:
    print("skipped: there is no onnxruntime for this Python")
    sys.exit(77)

import models
import test_convert as convert
from checkpoints import save_new, state_of
from daemon import PATIENCE, ROOT, Daemon, voxeld_binary
from rude_server import url_of
from test_python_detect import scan

PAGE = (ROOT / "docs/detection.md").read_text(encoding="utf-8")
ADDRESS = "http://localhost:8080"
BOX = r"(Car|Pedestrian|Cyclist) "

# Stand-ins for programs of the commands. The daemon gets a free port, which its clients read from its log. The packages
# that pip would install are there.
PROGRAMS = {
    "pip": 'exec "$PYTHON" -c "import onnx, onnxruntime, safetensors, yaml"',
    "python3": 'exec "$PYTHON" "$@"',
    "voxeld": 'exec "$VOXELD" --backend cpu --listen 127.0.0.1:0 "$@" 2>log',
    "voxeld-convert": 'exec "$PYTHON" -c "import sys; from voxeld.convert.main import main; sys.exit(main())" "$@"',
    "voxeld-client": 'exec "$PYTHON" -m voxeld "$@" --server "http://$(address)"',
    "curl": 'exec "$CURL" -sS --fail "${@/localhost:8080/$(address)}"',
    "address": r"""until grep -q msg=listening log; do sleep 0.1; done
sed -n 's/.*msg=listening address=\([^ ]*\).*/\1/p' log""",
}


def block(language):
    (program,) = re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert ADDRESS in program
    return program


def commands():
    """The commands of the section, without their prompts."""
    text = PAGE[PAGE.index("\n## From a checkpoint to boxes\n") :].split("\n## ")[1]
    return re.findall(r"^    \$ (.*)$", text, re.MULTILINE)


class Page(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (self.folder / "api").symlink_to(ROOT / "api")
        scan(3000).tofile(self.folder / "scan.bin")

    def run_here(self, *arguments, **variables):
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "api" / "python"), **variables}
        told = {"cwd": self.folder, "env": environment, "capture_output": True, "text": True, "timeout": PATIENCE}
        done = subprocess.run(arguments, **told)
        self.assertEqual(done.returncode, 0, done)
        return done.stdout

    def checkpoint(self):
        """Writes what the commands name."""
        state, config = convert.pcdet_state(), convert.pcdet_config()
        config["MODEL"]["POST_PROCESSING"]["SCORE_THRESH"] = 0.01  # the weights are random
        (self.folder / "pointpillar.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
        convert.write_base(self.folder)
        save_new(self.folder / "pointpillar.pth", {"model_state": state_of(state)})

    def test_from_a_checkpoint_to_boxes_in_five_commands(self):
        bounds = np.array(convert.BOUNDS)
        points = np.random.default_rng(5).uniform((*bounds[:3], 0), (*bounds[3:], 1), (2000, 4))
        points.astype("<f4").tofile(self.folder / "scan.bin")
        lines = commands()
        self.assertEqual(
            [line.split()[0] for line in lines], ["pip", "voxeld-convert", "voxeld", "voxeld-client", "curl"]
        )
        (self.folder / "bin").mkdir()
        for name, text in PROGRAMS.items():
            program = self.folder / "bin" / name
            program.write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        self.checkpoint()
        script = "\n".join(("set -e", *lines, 'kill "$!"', 'wait "$!"'))
        search = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        programs = {"PYTHON": sys.executable, "VOXELD": voxeld_binary(), "CURL": shutil.which("curl")}
        output = self.run_here("bash", "-c", script, PATH=search, **programs)
        (count,) = re.findall(r"^scan\.bin: (\d+) boxes in", output, re.MULTILINE)
        self.assertGreater(int(count), 0)
        self.assertEqual(len(re.findall(rf"^{BOX}", output, re.MULTILINE)), int(count))
        self.assertEqual(len(load_file(self.folder / "boxes.safetensors")["boxes"]), int(count))

    def served(self):
        daemon = Daemon(*models.served(self.folder / "models", name="kitti"))
        self.addCleanup(daemon.stop)
        reply = daemon.post("/v1/detect?model=kitti", (self.folder / "scan.bin").read_bytes())
        (self.folder / "expected").write_bytes(reply.body)
        return daemon, len(load_file(self.folder / "expected")["boxes"])

    def test_python(self):
        daemon, count = self.served()
        output = self.run_here(sys.executable, "-c", block("python").replace(ADDRESS, url_of(daemon)))
        self.assertEqual(len(re.findall(rf"^{BOX}[\d.]+ \[", output, re.MULTILINE)), count)

    @unittest.skipUnless(shutil.which("pkg-config"), "there is no pkg-config here")
    def test_c(self):
        if subprocess.run(["pkg-config", "--exists", "libcurl", "jansson"]).returncode:
            self.skipTest("there is no libcurl here")
        daemon, count = self.served()
        (self.folder / "example.c").write_text(block("c").replace(ADDRESS, url_of(daemon)), encoding="utf-8")
        build = "cc -std=gnu11 -Wall -Wextra -Werror -I api/c example.c $(pkg-config --cflags --libs libcurl jansson)"
        self.run_here("sh", "-c", f"{build} -o example")
        lines = self.run_here("./example").splitlines()
        self.assertEqual(len(lines), count)
        for line in lines:
            self.assertRegex(line, rf"^{BOX}\d\.\d\d at -?[\d.]+, -?[\d.]+$")


if __name__ == "__main__":
    unittest.main()
