"""README.md and docs/ show the program's tables, row by row, and name only verbs that exist."""

import json
import re
import shutil
import subprocess
import tempfile
import unittest

from daemon import ROOT
from tables import PAGE_TABLES, alerts, describe, normal, page_tables, same_rows

NO_METRIC = {"voxeld_server", "voxeld_live_"}  # a Python package; the prefix of the metrics of voxeld-live
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def cells_of(line):
    return re.split(r"(?<!\\ )\|", line)[1:-1]


class Tables(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tables = describe()
        cls.lines = [normal(line) for line in TEXT.splitlines()]

    def shown(self, header):
        """The rows of the tables whose header begins with these columns, each row cut to these columns."""
        columns = len(cells_of(header))
        rows, inside = [], False
        for line in self.lines:
            if line.startswith(header.removesuffix("|")):
                inside = True
            elif not line.startswith("|"):
                inside = False
            elif inside and not line.startswith("| --"):
                cells = cells_of(line)
                self.assertTrue(all(cells[columns:]), line)
                rows.append(normal("|" + "|".join(cells[:columns]) + "|"))
        self.assertEqual(len(rows), len(set(rows)), "each row should be there once")
        return rows

    def test_every_row_has_a_text(self):
        """Also rows within other rows, such as the parameters of a step."""

        def check(value, path):
            if isinstance(value, dict):
                for name, part in value.items():
                    check(part, f"{path}.{name}")
                    if name == "doc":
                        self.assertTrue(part, path)
            elif isinstance(value, list):
                for number, part in enumerate(value):
                    check(part, f"{path}[{number}]")

        check(self.tables, "tables")

    def check(self, name):
        for header, rows in page_tables(name, self.tables).items():
            same_rows(self, [normal(line) for line in rows], self.shown(normal(header)), "the text")


for _name in PAGE_TABLES:
    setattr(Tables, f"test_{_name}", lambda self, name=_name: self.check(name))


class Alerts(unittest.TestCase):
    def test_metrics_in_the_text_exist(self):
        described = {metric["name"] for metric in describe()["metrics"]}
        text = re.sub(r"^```.*?^```", "", TEXT, flags=re.MULTILINE | re.DOTALL)  # programs have their own names
        found = set(re.findall(r"\b(?:voxeld|process)_[a-z_]+\b(?!\.h\b|\()", text))
        for name in sorted(found - described - NO_METRIC):
            with self.subTest(name):
                self.assertIn(re.sub(r"_(bucket|sum|count)$", "", name), described)

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool here")
    def test_expressions_are_sound(self):
        rules = [{"alert": f"Alert{number}", "expr": text} for number, (text, *_) in enumerate(alerts(TEXT))]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:  # JSON is YAML too
            json.dump({"groups": [{"name": "voxeld", "rules": rules}]}, file)
            file.flush()
            done = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"{len(rules)} rules found", done.stdout)


class References(unittest.TestCase):
    def test_verbs_of_dev(self):
        usage = subprocess.run([ROOT / "dev", "help"], check=True, capture_output=True, text=True).stdout
        verbs = set(re.findall(r"^  (\w+)", usage, re.MULTILINE))
        for verb in sorted(set(re.findall(r"\./dev (\w+)", TEXT))):
            with self.subTest(f"./dev {verb}"):
                self.assertIn(verb, verbs)

    def test_dev_refuses_what_it_does_not_take(self):
        for words in (["build", "--cpuonly"], ["lint", "dev"], ["demo", "scan.bin", "--cpu-only"], ["nothing"]):
            with self.subTest(words):
                done = subprocess.run([ROOT / "dev", *words], capture_output=True, text=True)
                self.assertNotEqual(done.returncode, 0)
                self.assertTrue(done.stderr.startswith("dev: "), done.stderr)


if __name__ == "__main__":
    unittest.main()
