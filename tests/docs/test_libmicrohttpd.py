"""docs/contribute/libmicrohttpd.md has the versions of server/http/library.c, and the traps that build/tests/traps
tries, with their results for this machine's library.

With the argument "show", prints the rows of traps for this machine's library, ready to paste.
"""

import os
import re
import subprocess
import sys
import unittest

from daemon import ROOT

PAGE = ROOT / "docs/contribute/libmicrohttpd.md"
PROGRAM = os.environ.get("VOXELD_TRAPS", str(ROOT / "build" / "tests" / "traps"))
FILES = re.compile(r"`((?:server|tests|api)/[\w/]+\.\w+)`(?:: `(\w+)`)?")


def found():
    """The library's version, and (name, result, description) of each trap."""
    lines = subprocess.run([PROGRAM], check=True, capture_output=True, text=True).stdout.splitlines()
    version, *rows = [line.split("\t") for line in lines]
    return version[1], rows


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def written(first):
    """The columns and the rows ({column: cell}) of the page's table whose first column has this heading."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first} |"))
    end = next(i for i in range(start, len(lines)) if not lines[i].startswith("|"))
    columns = cells(lines[start])
    return columns, [dict(zip(columns, cells(line))) for line in lines[start + 2 : end]]


class Versions(unittest.TestCase):
    def test_the_page_has_the_rows_of_the_daemon(self):
        text = (ROOT / "server" / "http" / "library.c").read_text(encoding="utf-8")
        rows = [
            (f"{int(number) // 10000}.{int(number) // 100 % 100}.{int(number) % 100}", *re.findall(r"= (\w+)", flags))
            for number, flags in re.findall(r"\{(\d+), \{(\.strict = .*?)\}\}", text)
        ]
        columns = ("version", "strict", "laid_out", "cut_query")
        self.assertEqual([tuple(row[column] for column in columns) for row in written("version")[1]], rows)


class Traps(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.version, cls.found = found()
        cls.columns, cls.written = written("trap")

    def test_the_rows_are_those_of_the_program(self):
        self.assertEqual(
            [(f"`{name}`", what) for name, _, what in self.found], [(row["trap"], row["what"]) for row in self.written]
        )

    def test_the_library_here_does_what_the_page_says(self):
        column = next((column for column in self.columns if self.version in column.split(", ")), None)
        if not column:
            self.skipTest(f"libmicrohttpd {self.version} has no column in {PAGE.name}")
        for (name, word, _), row in zip(self.found, self.written):
            with self.subTest(name):
                expected = row[column]
                if word == "untried":
                    self.skipTest(f"{name} cannot be tried here")
                # A race does not show in every run.
                self.assertIn(word, ("seen", "not seen") if expected == "seen" else (expected,))

    def test_what_the_page_names_is_there(self):
        for path, name in FILES.findall(PAGE.read_text(encoding="utf-8")):
            with self.subTest(f"{path} {name}"):
                self.assertTrue((ROOT / path).is_file())
                self.assertIn(name, (ROOT / path).read_text(encoding="utf-8"))


if __name__ == "__main__":
    if sys.argv[1:] == ["show"]:
        for trap, outcome, what in found()[1]:
            print(f"| `{trap}` | {what} | {outcome} |")
    else:
        unittest.main()
