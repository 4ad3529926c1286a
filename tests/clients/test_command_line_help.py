"""The texts about the command line client are true: its help, its table of parameters, docs/command-line.md."""

import pathlib
import re
import shlex
import signal
import subprocess
import tempfile
import unittest
from contextlib import redirect_stderr
from io import StringIO

import numpy as np

import models
from command_line import ENVIRONMENT, PROGRAM, Running, received, run, simulate
from daemon import PATIENCE, ROOT, Daemon, wait_until
from rude_server import token_file, url_of
from tables import describe, operation_of
from voxeld.cli import options, parameters
from voxeld.shared import REGIONS

PAGES = [(ROOT / name).read_text(encoding="utf-8") for name in ("README.md", "docs/command-line.md")]
COMMANDS = [re.findall(r"^    \$ (voxeld-client .*)$", page, re.MULTILINE) for page in PAGES]
SOCKET = "/run/voxeld/voxeld.sock"


class Tables(unittest.TestCase):
    def test_operations(self):
        posts = {entry["path"] for entry in describe()["endpoints"] if entry["method"] == "POST"}
        self.assertLessEqual({f"/v1/{name}" for name in parameters.OPERATIONS}, posts)

    def test_parameters(self):
        described = describe()
        for operation in parameters.OPERATIONS:
            table = operation_of(operation, described)["parameters"]
            rows = [(row["name"], row["doc"], row["allowed"]) for row in table]
            others = ("preset", *parameters.SEVERAL, *REGIONS)
            expected = [row for row in rows if row[0] not in others]
            shown = [(row.name, row.doc, row.allowed) for row in parameters.parameters_of(operation)]
            self.assertEqual(sorted(shown), sorted(expected), operation)

    def test_examples_in_the_help(self):
        for name, text in options.EXAMPLES.items():
            for line in text.splitlines()[1:]:
                words = shlex.split(line)
                self.assertEqual(words[0], options.PROGRAM)
                self.assertIn(name, ("", words[1]))
                with redirect_stderr(StringIO()) as errors:
                    try:
                        options.parser().parse_args(options.arguments(words[1:]))
                    except SystemExit:
                        self.fail(f"{line}: {errors.getvalue()}")

    def test_help(self):
        done = run("voxelize", "--help")
        self.assertEqual((done.status, done.errors), (0, ""))
        self.assertIn(options.EXAMPLES["voxelize"], done.output)

    def test_negative_numbers_are_values(self):
        given = ["transform", "a.bin", "--crop", "-1,-2,-3,1,2,3", "-o", "out", "-p", "start=3", "-j", "4"]
        told = options.parser().parse_args(options.arguments(given))
        self.assertEqual(options.parameters(told), {"crop": "-1,-2,-3,1,2,3", "start": "3"})
        self.assertEqual(told.jobs, 4)


class Completion(unittest.TestCase):
    def test_completion(self):
        place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()), "words")
        line = "voxeld-client vox"
        asked = {
            **{"_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": str(place), "_ARGCOMPLETE_IFS": "\n"},
            **{"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9"},
        }
        code = "import sys; from voxeld.cli.main import main; sys.exit(main())"
        done = subprocess.run([PROGRAM[0], "-c", code], env={**ENVIRONMENT, **asked}, timeout=PATIENCE)
        self.assertEqual((done.returncode, place.read_text().strip()), (0, "voxelize"))


class Pages(unittest.TestCase):
    """The commands of README.md and docs/command-line.md run as written, except for the service's address."""

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        for number, name in enumerate(("velodyne", "00/velodyne", "01/velodyne", "recorder")):
            (cls.folder / name).mkdir(parents=True)
            simulate(cls.folder / name / "000000.bin", number, 5000)
        (cls.folder / "sweeps").mkdir()
        for number in range(3):
            simulate(cls.folder / "sweeps" / f"{number}.bin", number, 500)
        (cls.folder / "poses.txt").write_text("".join(f"{number} {number} 0 0 0 0 0 1\n" for number in range(3)))
        token, tokens = token_file(cls.folder)
        (cls.folder / "token").write_text(f"{token}\n", encoding="utf-8")
        given = ("--token-file", str(tokens), "--allow-anonymous", "yes")
        served = models.served(cls.folder / "models", name="kitti")
        cls.daemon = Daemon("--listen", f"unix:{cls.folder}/socket,127.0.0.1:0", *given, *served)

    @classmethod
    def tearDownClass(cls):
        cls.daemon.stop()

    def words(self, command):
        """The arguments of a command. No file name on the pages has a blank."""
        text = command.replace(SOCKET, f"{self.folder}/socket").removeprefix("voxeld-client ")
        words = []
        for word in shlex.split(text):
            words += sorted(map(str, pathlib.Path(self.folder).glob(word))) if "*" in word else [word]
        return words if "--server" in words else [*words, "--server", url_of(self.daemon)]

    def test_readme(self):
        (command,) = COMMANDS[0]
        self.assertIn(command, COMMANDS[1])

    def test_commands(self):
        self.assertEqual(len(COMMANDS[1]), 15)
        for command in COMMANDS[1]:
            if "watch" not in command:
                done = run(*self.words(command), cwd=self.folder)
                self.assertEqual(done.status, 0, (command, done))
        for name in ("out/000000.safetensors", "samples/000000.npz", "cropped/000000.mcap"):
            self.assertTrue((self.folder / name).exists(), name)
        for name in ("00", "01"):
            self.assertEqual(received(self.folder / "sequences" / name / "velodyne" / "000000.safetensors"), 5000)
        self.assertEqual(received(self.folder / "joined" / "2.safetensors"), 1500)
        self.assertEqual(np.load(self.folder / "joined.npy").shape, (1500, 4))

    def test_watch(self):
        (command,) = [command for command in COMMANDS[1] if "watch" in command]
        with Running(*self.words(command), cwd=self.folder) as running:
            wait_until((self.folder / "recorded" / "000000.safetensors").exists, "the answer")
            self.assertEqual(running.end(signal.SIGTERM).status, 0)

    def test_options_exist(self):
        shown = "".join(run(name, "--help").output for name in ("voxelize", "detect", "watch"))
        for option in sorted(set(re.findall(r"`(--[a-z-]+)", PAGES[1])) - {"--new-token"}):
            self.assertIn(f" {option} ", shown.replace(",", " ").replace("]", " ").replace("\n", " "), option)


if __name__ == "__main__":
    unittest.main()
