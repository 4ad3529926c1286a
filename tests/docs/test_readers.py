"""Pages for readers: short, linked from README, without broken links, with the same figures, names and licence
everywhere, and with curl commands that fail loudly."""

import collections
import re
import unittest
from xml.etree import ElementTree

import yaml

from daemon import ROOT

LONGEST = 150  # lines of README
WORDS = 20_000  # of docs/*.md, the pages for users, together
DOCS = ROOT / "docs"
SPDX = "Apache-2.0"


def read(name):
    return (ROOT / name).read_text(encoding="utf-8")


def pages():
    folders = ("api", "docker", "docs", "kernels", "models", "packaging", "server", "tests", "training")
    return sorted({*ROOT.glob("*.md"), *(path for folder in folders for path in (ROOT / folder).rglob("*.md"))})


def prose(text):
    """The text without its fenced programs."""
    return re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)


def headings(text):
    """The anchors of a page's headings. Repeated headings get -1, -2 and so on."""
    times, names = collections.Counter(), set()
    for line in re.findall(r"^#+ (.*)", prose(text), re.MULTILINE):
        name = re.sub(r"[^a-z0-9_ -]", "", line.lower()).replace(" ", "-")
        names.add(f"{name}-{times[name]}" if times[name] else name)
        times[name] += 1
    return names


def links(page):
    """(file, anchor) of each relative link of a page."""
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", prose(page.read_text(encoding="utf-8"))):
        yield (page.parent / target).resolve() if target else page, anchor


def cells(page, header):
    """The rows, each a list of cells, of the page's tables whose first heading is `header`."""
    rows = []
    for table in re.findall(rf"^\| {re.escape(header)} \|.*\n\|[- |]+\|\n((?:\|.*\n)+)", read(page), re.MULTILINE):
        rows += [[cell.strip() for cell in line.strip("|").split(" | ")] for line in table.splitlines()]
    return rows


class Readme(unittest.TestCase):
    def test_is_short(self):
        self.assertLessEqual(len(read("README.md").splitlines()), LONGEST)

    def test_pages_of_users_are_short(self):
        words = sum(len(page.read_text(encoding="utf-8").split()) for page in DOCS.glob("*.md"))
        self.assertLessEqual(words, WORDS)

    def test_leads_to_every_page(self):
        seen, ahead = set(), [ROOT / "README.md"]
        while ahead:
            page = ahead.pop()
            if page not in seen and page.suffix == ".md" and page.is_file():
                seen.add(page)
                ahead += [file for file, _ in links(page)]
        for page in sorted({*ROOT.glob("*.md"), *DOCS.rglob("*.md")}):
            with self.subTest(page.name):
                self.assertIn(page, seen)

    def test_contents_name_every_page(self):
        text = read("README.md")
        contents = text[text.index("\n## Contents\n") :].split("\n## ")[1]
        for page in sorted(DOCS.rglob("*.md")):
            with self.subTest(page.name):
                self.assertIn(f"(docs/{page.relative_to(DOCS)})", contents)

    def test_figures_are_those_of_the_measurements(self):
        """Some row of the measurements has both times that a row of README compares."""
        rows = cells("README.md", "work, with KITTI scans of 111,000 to 116,000 points")
        self.assertTrue(rows)
        number = r"\d[\d,]*(?:\.\d+)?"
        page = read("docs/contribute/measurements.md")
        measured = [set(re.findall(number, line)) for line in re.findall(r"^\|.*", page, re.M)]
        for row in rows:
            with self.subTest(row):
                theirs, ours = (re.match(rf"({number}) [um]s", cell)[1] for cell in row[2:])
                self.assertTrue(any(theirs in line and {ours, f"{ours}.0"} & line for line in measured))


class Links(unittest.TestCase):
    def test_lead_somewhere(self):
        for page in pages():
            for file, anchor in sorted(set(links(page))):
                with self.subTest(f"{page.relative_to(ROOT)}: {file.name}#{anchor}"):
                    self.assertTrue(file.exists())
                    if anchor:
                        self.assertIn(anchor, headings(file.read_text(encoding="utf-8")))


class Commands(unittest.TestCase):
    def test_curl_that_saves_a_file_fails_loudly(self):
        """Without --fail-with-body, curl saves the reason for a refusal as the file and exits with 0."""
        others = [ROOT / "api/openapi.yaml", ROOT / "api/web/panel.js", ROOT / "dev"]
        for page in [*pages(), *others]:
            text = page.read_text(encoding="utf-8").replace("\\\n", " ")
            for line in re.findall(r"^.*\bcurl\b.* (?:-o|--output) .*", text, re.MULTILINE):
                with self.subTest(f"{page.relative_to(ROOT)}: {line.strip()}"):
                    self.assertRegex(line, r"--fail-with-body|-o /dev/null|http_code")


class Drawings(unittest.TestCase):
    def test_names_files_of_the_server(self):
        drawing = ElementTree.parse(DOCS / "contribute/way.svg")
        texts = [text.text for text in drawing.iter("{http://www.w3.org/2000/svg}text")]
        names = [text for text in texts if text.endswith(".c")]
        self.assertGreater(len(names), 3)
        for name in names:
            with self.subTest(name):
                self.assertTrue(list((ROOT / "server").rglob(name)))

    def test_load_nothing(self):
        for drawing in sorted(DOCS.rglob("*.svg")):
            with self.subTest(drawing.name):
                found = re.findall(r"href|url\((?!#)|@import|<script", drawing.read_text(encoding="utf-8"))
                self.assertEqual(found, [])


class Names(unittest.TestCase):
    def test_licence(self):
        openapi = yaml.safe_load(read("api/openapi.yaml"))
        self.assertEqual(openapi["info"]["license"]["identifier"], SPDX)
        for name, line in (
            ("NOTICE", f"SPDX-License-Identifier: {SPDX}"),
            ("README.md", f"SPDX-License-Identifier: {SPDX}"),
            ("packaging/debian/copyright", f"License: {SPDX}"),
            ("api/python/pyproject.toml", f'license = "{SPDX}"'),
            ("packaging/wheels", f'OWN_LICENCE = "{SPDX}"'),
            ("docker/Dockerfile", f'image.licenses="{SPDX}"'),
        ):
            with self.subTest(name):
                self.assertIn(line, read(name))
        self.assertIn("Apache License\n                           Version 2.0, January 2004", read("LICENSE"))

    def test_home(self):
        """The project's address is the same in all files that have it."""
        (home,) = re.findall(r'^HOME = "(.*)"', read("packaging/wheels"), re.MULTILINE)
        self.assertIn(f"HOMEPAGE_URL {home} ", read("CMakeLists.txt"))
        for name in ("api/python/pyproject.toml", "packaging/wheel/pyproject.toml"):
            with self.subTest(name):
                urls = re.findall(r'"(https://[^"]*)"', read(name))
                self.assertEqual([url for url in urls if url != home and not url.startswith(f"{home}/")], [])
                self.assertIn(home, urls)

    def test_changelog_has_the_version(self):
        (version,) = re.findall(r"^project\(voxeld VERSION ([\d.]+)", read("CMakeLists.txt"), re.MULTILINE)
        first = re.search(r"^## (\S+) - (unreleased|\d{4}-\d\d-\d\d)$", read("CHANGELOG.md"), re.MULTILINE)
        self.assertEqual(first[1], version)

    def test_labels_of_the_tests(self):
        """CONTRIBUTING.md has a row for each label of ctest."""
        text = read("cmake/tests.cmake")
        labels = set(re.findall(r"voxeld_script_tests\((\w+)", text))
        labels |= set(re.findall(r"voxeld_test\(\S+ \S+ ([a-z]+) ", text))
        labels |= {label for row in re.findall(r'LABELS "?([a-z;]+)', text) for label in row.split(";")}
        shown = {name for row in cells("CONTRIBUTING.md", "label") for name in re.findall(r"`(\w+)`", row[0])}
        self.assertEqual(labels - shown, set())


if __name__ == "__main__":
    unittest.main()
