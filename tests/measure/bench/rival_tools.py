"""For the comparisons with rivals: the virtual environment with the rivals from PyPI, scans, timing."""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]
VENV = ROOT / "build" / "venv-rivals"
BIN = pathlib.Path(os.environ.get("BIN", ROOT / "build" / "bin"))
DATA = ROOT.parent / "shared" / "data"


def enter_venv(script, packages):
    """Runs the script again under the Python of build/venv-rivals, after making it if it is missing."""
    if pathlib.Path(sys.prefix) == VENV:
        return
    python, name = VENV / "bin" / "python", pathlib.Path(script).name
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
    for package in packages:
        known = subprocess.run([python, "-m", "pip", "show", "-q", package], capture_output=True)
        if known.returncode == 0:
            continue
        print(f"{name}: installing {package} into {VENV}", file=sys.stderr, flush=True)
        done = subprocess.run([python, "-m", "pip", "install", "-q", package], capture_output=True, text=True)
        if done.returncode != 0:
            print(f"{name}: {package} does not install: {done.stderr.strip().splitlines()[-1:]}", file=sys.stderr)
    os.execv(python, [python, script, *sys.argv[1:]])


def simulated_scan(sensor, columns):
    path = ROOT / "build" / f"rivals-{sensor}.bin"
    subprocess.run([BIN / "voxel-scan", "--sensor", sensor, "--columns", str(columns), "--output", path], check=True)
    return path, columns


def scan_argument(text):
    path, colon, columns = text.rpartition(":")
    if not colon or not columns.isdigit():
        raise argparse.ArgumentTypeError(f"'{text}' is not FILE:COLUMNS")
    return pathlib.Path(path), int(columns)


def timed(call, repeat, warm_up=2):
    """(median ms, min ms, the last result)."""
    times, result = [], None
    for i in range(-warm_up, repeat):
        begin = time.perf_counter()
        result = call()
        if i >= 0:
            times.append((time.perf_counter() - begin) * 1e3)
    return statistics.median(times), min(times), result
