"""The texts about the command line client are true: its help, its table of parameters, docs/command-line.md."""

import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest
from contextlib import redirect_stderr
from io import StringIO

from command_line import ENVIRONMENT, PROGRAM, run
from daemon import PATIENCE, ROOT
from tables import describe, operation_of
from voxeld.cli import options, parameters
from voxeld.shared import REGIONS

PAGE = (ROOT / "docs/command-line.md").read_text(encoding="utf-8")


class Tables(unittest.TestCase):
    def test_operations(self):
        posts = {entry["path"] for entry in describe()["endpoints"] if entry["method"] == "POST"}
        self.assertLessEqual({f"/v1/{name}" for name in parameters.OPERATIONS}, posts)

    def test_parameters(self):
        described = describe()
        for operation in parameters.OPERATIONS:
            table = operation_of(operation, described)["parameters"]
            rows = [(row["name"], row["doc"], row["allowed"]) for row in table]
            others = (*parameters.SEVERAL, *REGIONS)
            expected = [row for row in rows if row[0] not in others]
            if "steps" in {row[0] for row in rows}:
                for step in described["steps"]:
                    named = ((f"{step['name']}.{row['name']}", row) for row in step["parameters"])
                    expected += [(name, row["doc"], row["allowed"]) for name, row in named]
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
                        options.parse(words[1:])
                    except SystemExit:
                        self.fail(f"{line}: {errors.getvalue()}")

    def test_help(self):
        done = run("voxelize", "--help")
        self.assertEqual((done.status, done.errors), (0, ""))
        self.assertIn(options.EXAMPLES["voxelize"], done.output)

    def test_parameters_of_steps(self):
        given = [
            "points",
            "a.bin",
            "--steps",
            "transform,ring_outlier,far:transform",
            "--transform.cut",
            "-1,0,0,1,1,1",
        ]
        steps = {"transform.cut": "-1,0,0,1,1,1", "ring_outlier.ring": "kitti", "far.cut": "-1,0,0,1,1,1"}
        for spelled in (
            ["--ring-outlier.ring", "kitti", "-p", "far.cut=-1,0,0,1,1,1"],
            ["--ring_outlier.ring", "kitti", "--far.cut", "-1,0,0,1,1,1"],
            ["--ring_outlier.ring=kitti", "--far.cut=-1,0,0,1,1,1"],
        ):
            told = options.parse([*given, *spelled, "-o", "out"])
            self.assertEqual(options.parameters(told), {"steps": "transform,ring_outlier,far:transform", **steps})

    def test_every_parameter_is_an_option_in_both_spellings(self):
        for command, rows in (
            *((operation, parameters.parameters_of(operation)) for operation in parameters.OPERATIONS),
            ("watch", parameters.parameters_of_any()),
        ):
            names = [row.name for row in rows]
            for spelled in (names, [name.replace("_", "-") for name in names]):
                words = [word for name in spelled for word in (f"--{name}", "1")]
                told = options.parse([command, "a", "-o", "out", *words])
                self.assertEqual(options.parameters(told), dict.fromkeys(names, "1"), command)

    def test_negative_numbers_are_values(self):
        given = ["transform", "a.bin", "--crop", "-1,-2,-3,1,2,3", "-o", "out", "-p", "start=3", "-j", "4"]
        told = options.parse(given)
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


class Page(unittest.TestCase):
    """The commands of the page are run by test_examples.py."""

    def test_options_exist(self):
        shown = "".join(run(name, "--help").output for name in ("voxelize", "detect", "watch"))
        for option in sorted(set(re.findall(r"`(--[a-z.-]+)", PAGE)) - {"--new-token"}):
            self.assertIn(f" {option} ", shown.replace(",", " ").replace("]", " ").replace("\n", " "), option)


if __name__ == "__main__":
    unittest.main()
