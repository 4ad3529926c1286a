"""The Python package as such: types, version, the oldest Python, and a wheel that is built, installed and used."""

import ast
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import voxeld
from daemon import ROOT, Daemon, voxeld_binary
from rude_server import url_of

PACKAGE = ROOT / "api" / "python"
PROGRAM = """
import sys, numpy, voxeld
assert voxeld.__file__.startswith(sys.prefix), voxeld.__file__
with voxeld.Client(sys.argv[1]) as client:
    print(len(client.voxelize(numpy.zeros((3, 4), numpy.float32), "kitti_second")["voxel_coords"]))
"""


def run(*arguments, **options):
    done = subprocess.run(arguments, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{arguments} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


class Package(unittest.TestCase):
    def test_types(self):
        cache = ROOT / "build" / "mypy"
        run(sys.executable, "-m", "mypy", "--cache-dir", str(cache), cwd=PACKAGE)  # strict, as pyproject.toml says

    def test_the_oldest_python_can_read_it(self):
        for path in (PACKAGE / "voxeld").rglob("*.py"):
            ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 9))

    def test_it_has_the_version_of_the_service(self):
        self.assertEqual(run(voxeld_binary(), "--version").split()[1], voxeld.__version__)

    def test_a_wheel_is_built_installed_and_used(self):
        with tempfile.TemporaryDirectory() as folder:
            source, fresh = pathlib.Path(folder, "source"), pathlib.Path(folder, "fresh")
            shutil.copytree(
                PACKAGE, source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".mypy_cache")
            )
            pip = ("-m", "pip", "--disable-pip-version-check", "--no-input")
            run(
                sys.executable,
                *pip,
                "wheel",
                "--no-deps",
                "--no-build-isolation",
                "--no-index",
                "--wheel-dir",
                folder,
                str(source),
            )
            (wheel,) = pathlib.Path(folder).glob("voxeld-*.whl")
            run(sys.executable, "-m", "venv", str(fresh))
            python = str(fresh / "bin" / "python")
            # With PYTHONPATH, pip would take files that `pip install ./api/python` left in the tree for an installed
            # package.
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            run(python, *pip, "install", "--no-deps", "--no-index", str(wheel), env=environment)
            (packages,) = fresh.glob("lib/python*/site-packages")
            (packages / "numpy.pth").write_text(f"{pathlib.Path(np.__file__).parents[1]}\n", encoding="utf-8")
            self.assertTrue((packages / "voxeld" / "py.typed").exists())
            with Daemon() as daemon:
                self.assertEqual(run(python, "-c", PROGRAM, url_of(daemon), env=environment, cwd=folder), "1\n")
                client = (str(fresh / "bin" / "voxeld-client"), "presets", "--server", url_of(daemon))
                self.assertIn("\nkitti_second ", run(*client, env=environment, cwd=folder))


if __name__ == "__main__":
    unittest.main()
