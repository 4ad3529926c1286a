"""The Python package: types, version, the oldest Python, and a wheel that is built, installed and used."""

import ast
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
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


def copy_of_package(folder):
    """A copy of the package without what builds leave in it."""
    source = pathlib.Path(folder, "source")
    ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__", ".mypy_cache")
    return shutil.copytree(PACKAGE, source, ignore=ignored)


def lines_of(path):
    return enumerate(path.read_text(encoding="utf-8").splitlines(), 1)


class Package(unittest.TestCase):
    def test_types(self):
        """mypy accepts the package and good.py. It refuses the lines of bad.py that say so, and no others."""
        programs = ROOT / "tests" / "clients" / "typed"
        asked = (sys.executable, "-m", "mypy", "--cache-dir", os.devnull)
        strict = ("--config-file", str(PACKAGE / "pyproject.toml"))
        done = subprocess.run(
            [*asked, *strict, "good.py", "bad.py", str(PACKAGE / "voxeld")],
            env={**os.environ, "MYPYPATH": str(PACKAGE)},
            cwd=programs,
            capture_output=True,
            text=True,
        )
        found = re.findall(r"^(\S+?):(\d+): error: ", done.stdout, re.MULTILINE)
        refused = {("bad.py", number) for number, line in lines_of(programs / "bad.py") if line.endswith("# refused")}
        self.assertEqual({(name, int(number)) for name, number in found}, refused, done.stdout + done.stderr)

    def test_operations_are_those_of_the_service(self):
        described = run(voxeld_binary(), "--describe")
        written = run(sys.executable, str(PACKAGE / "generate.py"), input=described)
        file = PACKAGE / "voxeld" / "operations.py"
        command = f"build/bin/voxeld --describe | python3 api/python/generate.py > {file.relative_to(ROOT)}"
        self.assertTrue(file.read_text(encoding="utf-8") == written, f"{file} is stale. Write it again: {command}")

    def test_help(self):
        """help() has each parameter with its unit, and each tensor with its shape, order and type."""
        signature, text = inspect.signature(voxeld.Client.voxelize), inspect.getdoc(voxeld.Client.voxelize)
        self.assertEqual(signature.parameters["max_voxels"].annotation, "Optional[int]")
        self.assertEqual(signature.return_annotation, "VoxelizeResult")
        for line in (
            "    voxel_size: metres; size of a voxel along x, y and z; allowed: x,y,z, finite, each above 0",
            "    voxel_coords: [V, 4] int32; batch, z, y, x of each voxel, in the order that the parameter order says",
        ):
            self.assertIn(line, text.splitlines())
        for name in set(signature.parameters) - {"self"}:
            self.assertRegex(text, rf"(?m)^    {name}: ")

    def test_the_oldest_python_can_read_it(self):
        for path in (PACKAGE / "voxeld").rglob("*.py"):
            ast.parse(path.read_text(encoding="utf-8"), str(path), feature_version=(3, 9))

    def test_it_has_the_version_of_the_service(self):
        self.assertEqual(run(voxeld_binary(), "--version").split()[1], voxeld.__version__)

    def test_a_source_package_has_the_types(self):
        with tempfile.TemporaryDirectory() as folder:
            code = f"from setuptools.build_meta import build_sdist; print(build_sdist({folder!r}))"
            name = run(sys.executable, "-c", code, cwd=copy_of_package(folder)).splitlines()[-1]
            with tarfile.open(pathlib.Path(folder, name)) as archive:
                files = {pathlib.PurePath(*pathlib.PurePath(name).parts[1:]) for name in archive.getnames()}
        for path in ("voxeld/py.typed", "voxeld/operations.py", "README.md", "LICENSE", "pyproject.toml"):
            self.assertIn(pathlib.PurePath(path), files)

    def test_a_wheel_is_built_installed_and_used(self):
        with tempfile.TemporaryDirectory() as folder:
            source, fresh = copy_of_package(folder), pathlib.Path(folder, "fresh")
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
            run(sys.executable, "-m", "venv", "--without-pip", str(fresh))
            python = str(fresh / "bin" / "python")
            (packages,) = fresh.glob("lib/python*/site-packages")
            # The packages of this Python: numpy, and pip, which would take seconds to install.
            (packages / "these.pth").write_text(f"{pathlib.Path(np.__file__).parents[1]}\n", encoding="utf-8")
            # With PYTHONPATH, pip would find what an earlier `pip install ./api/python` left in the tree, and install
            # nothing.
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            run(python, *pip, "install", "--no-deps", "--no-index", str(wheel), env=environment)
            self.assertTrue((packages / "voxeld" / "py.typed").exists())
            with Daemon() as daemon:
                self.assertEqual(run(python, "-c", PROGRAM, url_of(daemon), env=environment, cwd=folder), "1\n")
                client = (str(fresh / "bin" / "voxeld-client"), "presets", "--server", url_of(daemon))
                self.assertIn("\nkitti_second ", run(*client, env=environment, cwd=folder))


if __name__ == "__main__":
    unittest.main()
