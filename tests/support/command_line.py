"""Runs the command line client on simulated scans."""

import contextlib
import io
import os
import re
import signal
import subprocess
import sys
import warnings

from check import parse_by_hand
from daemon import PATIENCE, ROOT, SCAN
from voxeld.cli.main import main

PROGRAM = (sys.executable, "-m", "voxeld")
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "api" / "python")}
POINTS = 2000  # of a simulated scan


def simulate(path, seed, points=POINTS):
    subprocess.run([SCAN, "--seed", str(seed), "--points", str(points), "--output", path], check=True)


def received(answer):
    """The number of points that the service received, from the file of a voxelize answer."""
    tensors, metadata = parse_by_hand(answer.read_bytes())
    assert len(tensors["voxel_coords"]) == metadata["batch"]["voxels"][0]
    return metadata["points"]["received"]


class Run:
    """An ended run. `counts`: the numbers of the last line, such as {"done": 3, "skipped": 0, "failed": 0}."""

    def __init__(self, status, output, errors):
        self.status, self.output, self.errors = status, output, errors

    @property
    def counts(self):
        (line,) = re.findall(r"^voxeld-client: (\d+ done, .*?);", self.errors, re.MULTILINE)
        return {name: int(number) for number, name in re.findall(r"(\d+) ([a-z ]+)", line)}

    def __repr__(self):
        return f"<status {self.status}\n{self.output}{self.errors}>"


class Running:
    """A process of the client, which the end of a `with` block kills."""

    def __init__(self, *arguments, cwd=None):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
        command = [*PROGRAM, *map(str, arguments)]
        self.process = subprocess.Popen(command, env=ENVIRONMENT, cwd=cwd, text=True, **pipes)

    def signal(self, number):
        self.process.send_signal(number)

    def end(self, number=None):
        """Sends the signal, if any, and waits for the end of the process. Returns its Run."""
        if number is not None:
            self.signal(number)
        output, errors = self.process.communicate(timeout=PATIENCE)
        return Run(self.process.returncode, output, errors)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.end(signal.SIGKILL)


def run(*arguments, cwd=os.curdir):
    """Runs the client within this process: the start of another one takes longer than most runs."""
    output, errors = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors), warnings.catch_warnings():
        with contextlib.chdir(cwd):
            try:
                status = main(list(map(str, arguments)))
            except SystemExit as end_of_options:
                status = end_of_options.code
    return Run(status, output.getvalue(), errors.getvalue())
