"""The Python packages that packaging/wheels makes from this build's .tar.gz, with this machine's libraries. The
wheels of a release are tried by tests/releases/wheels.bats."""

import base64
import csv
import email
import hashlib
import importlib.util
import io
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from importlib.machinery import SourceFileLoader

import numpy as np
import tqdm

import voxeld
from daemon import PATIENCE, ROOT, started, voxeld_binary

BUILD = pathlib.Path(voxeld_binary()).parents[1]
VERSION = voxeld.__version__
PROGRAM = """
import os, sys, numpy, voxeld
assert voxeld.__file__.startswith(sys.prefix), voxeld.__file__
with voxeld.Server() as server:
    print(os.path.realpath(f"/proc/{server.pid}/exe"))
    print(len(server.client().voxelize(numpy.zeros((3, 4), numpy.float32), "kitti_second")["voxel_coords"]))
"""


def run(*arguments, **options):
    done = subprocess.run(arguments, capture_output=True, text=True, **options)
    assert done.returncode == 0, f"{arguments} ended with {done.returncode}:\n{done.stdout}{done.stderr}"
    return done.stdout


def packer():
    """packaging/wheels as a module."""
    loader = SourceFileLoader("wheels", str(ROOT / "packaging" / "wheels"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("wheels", loader))
    loader.exec_module(module)
    return module


class Wheels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not (BUILD / "CPackConfig.cmake").exists() or not shutil.which("cpack"):
            raise unittest.SkipTest("packages are not made here: there is no build tree, or no cpack")
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        run("cpack", "--config", str(BUILD / "CPackConfig.cmake"), "-G", "TGZ", "-B", str(cls.folder / "packed"))
        (cls.archive,) = (cls.folder / "packed").glob("voxeld-*.tar.gz")
        cls.made = cls.make("made")
        cls.client, cls.source, cls.server = cls.made

    @classmethod
    def make(cls, name):
        """Makes the packages, in a folder of that name; their paths."""
        target = cls.folder / name
        run(sys.executable, str(ROOT / "packaging" / "wheels"), str(target), str(cls.archive))
        return sorted(target.iterdir())

    def metadata(self, wheel):
        with zipfile.ZipFile(wheel) as file:
            (name,) = (name for name in file.namelist() if name.endswith(".dist-info/METADATA"))
            return email.message_from_bytes(file.read(name))

    def test_their_names_have_the_platform(self):
        names = [path.name for path in self.made]
        wheel = f"voxeld_server-{VERSION}-py3-none-linux_{platform.machine()}.whl"
        self.assertEqual(names, [f"voxeld-{VERSION}-py3-none-any.whl", f"voxeld-{VERSION}.tar.gz", wheel])
        wheels = packer()
        for archive, expected in (
            ("voxeld-0.1.0+cuda13-linux-glibc2.31-x86_64.tar.gz", "manylinux_2_31_x86_64"),
            ("voxeld-0.1.0-linux-glibc2.31-aarch64.tar.gz", "manylinux_2_31_aarch64"),
            ("voxeld-0.1.0-debian12-x86_64.tar.gz", "linux_x86_64"),
            ("voxeld-0.1.0+cuda12-ubuntu24.04-x86_64.tar.gz", "linux_x86_64"),
        ):
            self.assertEqual(wheels.platform(wheels.ARCHIVE.fullmatch(archive)), expected)
        self.assertIsNone(wheels.ARCHIVE.fullmatch("voxeld-0.1.0.tar.gz"))

    def test_two_runs_give_the_same_bytes(self):
        for one, other in zip(self.made, self.make("again")):
            self.assertEqual(one.read_bytes(), other.read_bytes(), one.name)

    def test_the_daemons_wheel_has_the_files_of_the_archive(self):
        with tarfile.open(self.archive) as tar:
            packed = {
                member.name.partition("/")[2]: (tar.extractfile(member).read(), member.mode)
                for member in tar
                if member.isfile()
            }
        with zipfile.ZipFile(self.server) as file:
            held = {
                item.filename[len("voxeld_server/") :]: (file.read(item), item.external_attr >> 16 & 0o777)
                for item in file.infolist()
                if item.filename.startswith("voxeld_server/")
            }
        self.assertEqual(set(held) - set(packed), {"__init__.py", "py.typed"})
        self.assertEqual({name: held[name] for name in packed}, packed)

    def test_record_has_the_hash_of_every_file(self):
        for wheel in (self.client, self.server):
            with zipfile.ZipFile(wheel) as file:
                (record,) = (name for name in file.namelist() if name.endswith(".dist-info/RECORD"))
                rows = {name: (digest, size) for name, digest, size in csv.reader(io.TextIOWrapper(file.open(record)))}
                self.assertEqual(set(rows), set(file.namelist()))
                self.assertEqual(rows.pop(record), ("", ""))
                for name, (digest, size) in rows.items():
                    data = file.read(name)
                    sum64 = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
                    self.assertEqual((digest, size), (f"sha256={sum64}", str(len(data))), name)

    def test_the_licence_is_named_and_its_text_is_there(self):
        text = (ROOT / "LICENSE").read_bytes()
        for wheel in (self.client, self.server):
            metadata = self.metadata(wheel)
            self.assertTrue(metadata["License-Expression"].startswith("Apache-2.0"))
            with zipfile.ZipFile(wheel) as file:
                for name in metadata.get_all("License-File"):
                    licence = file.read(f"{wheel.name.split('-')[0]}-{VERSION}.dist-info/licenses/{name}")
                    self.assertTrue(licence)
                    self.assertTrue(name != "LICENSE" or licence == text)
        with tarfile.open(self.source) as tar:
            self.assertEqual(tar.extractfile(f"voxeld-{VERSION}/LICENSE").read(), text)

    def test_links_of_the_readme_work_elsewhere(self):
        home = packer().HOME
        for wheel in (self.client, self.server):
            metadata = self.metadata(wheel)
            links = re.findall(r"\]\(([^)]*)\)", metadata.get_payload())
            self.assertIn(f"{home}/blob/v{VERSION}/README.md", links)
            for link in links:
                self.assertRegex(link, r"^https?://|^#")
                if link.startswith(home):
                    path = re.fullmatch(rf"{re.escape(home)}/blob/v{VERSION}/([^#]*)(#.*)?", link)[1]
                    self.assertTrue((ROOT / path).exists(), link)
            self.assertTrue(all(url.split(", ")[1].startswith(home) for url in metadata.get_all("Project-URL")))

    def test_the_extra_asks_for_the_daemon_of_the_same_version(self):
        self.assertIn(
            f'voxeld-server=={VERSION}; extra == "server"', self.metadata(self.client).get_all("Requires-Dist")
        )

    def test_pypi_would_take_them(self):
        if not importlib.util.find_spec("twine"):
            self.skipTest("there is no twine here")
        run(sys.executable, "-m", "twine", "check", "--strict", *map(str, self.made))

    def test_both_are_installed_and_used(self):
        fresh = self.folder / "fresh"
        run(sys.executable, "-m", "venv", "--without-pip", str(fresh))
        python = str(fresh / "bin" / "python")
        (packages,) = fresh.glob("lib/python*/site-packages")
        for module in (np, tqdm):  # what pip would install; pip itself lies beside them
            (packages / f"{module.__name__}.pth").write_text(f"{pathlib.Path(module.__file__).parents[1]}\n")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        environment["PATH"] = f"{fresh / 'bin'}:{environment['PATH']}"
        pip = (python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--no-deps", "--no-index")
        run(*pip, str(self.client), str(self.server), env=environment)
        program = packages / "voxeld_server" / "bin" / "voxeld"
        self.assertEqual(run("voxeld", "--version", env=environment), f"voxeld {VERSION}\n")
        output = run(python, "-c", PROGRAM, env=environment, cwd=self.folder)
        self.assertEqual(output.splitlines(), [str(program.resolve()), "1"])
        demo = ("voxeld", "--demo", "--backend", "cpu", "--listen", "127.0.0.1:0")
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        with started(demo, env=environment, **pipes) as process:
            self.assertRegex(process.stdout.readline(), "^open http://127.0.0.1:[0-9]+/ in a browser$")
            self.assertEqual(os.path.realpath(f"/proc/{process.pid}/exe"), str(program.resolve()))  # no Python between
            process.terminate()
            self.assertEqual(process.wait(PATIENCE), 0)


if __name__ == "__main__":
    unittest.main()
