"""./dev mutate, on a tiny project."""

import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

from daemon import ROOT

TOOL = ROOT / "tests/mutate/run"
FILE, CLIENT = "server/clamp.c", "api/c/client.h"
NEEDED = ("git", "cc", "cmake", "ctest", "ninja")
PROJECT = {
    "CMakeLists.txt": """
        cmake_minimum_required(VERSION 3.22)
        project(tiny LANGUAGES C)
        enable_testing()
        add_executable(test_clamp server/clamp.c test_clamp.c)
        add_test(NAME unit.clamp COMMAND test_clamp)
        add_test(NAME unit.broken COMMAND test_clamp broken)
        set_tests_properties(unit.clamp unit.broken PROPERTIES LABELS unit)
        add_executable(test_far server/clamp.c test_clamp.c)
        add_test(NAME docs.far COMMAND test_far)
        set_tests_properties(docs.far PROPERTIES LABELS docs)
        add_executable(test_client test_client.c)
        add_test(NAME clients.c COMMAND test_client)
        set_tests_properties(clients.c PROPERTIES LABELS "clients;c_client")
    """,
    FILE: """
int clamp(int value, int most) {
  int unused = 3;
  (void)unused;
  if (value > most) return most;
  return value;  // not 1 + 1
}

int twice(int value) { return value * 2; }

struct pair { int a, b; } pair(struct pair of) { return of; }
""",
    CLIENT: """
static inline int half(int value) { return value / 2; }
""",
    "test_client.c": """
        #include "api/c/client.h"
        int main(void) { return half(4) != 2; }
    """,
    "test_clamp.c": """
        int clamp(int value, int most);
        int twice(int value);
        int main(int count, char **words) {
          (void)words;
          twice(2);  // and never looks
          return count > 1 || clamp(5, 3) != 3 || clamp(2, 3) != 2;
        }
    """,
}


@unittest.skipUnless(all(map(shutil.which, NEEDED)), f"needs {', '.join(NEEDED)}")
class Mutate(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = cls.project("value * 2", "value + value")
        cls.output = cls.run_tool(FILE)

    @classmethod
    def project(cls, text, before):
        """Makes a project whose commit has `before` in place of `text`; FILE then gets `text`. Returns the folder."""
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        for name, now in PROJECT.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(now.replace(text, before), encoding="utf-8")
        git = ("git", "-C", root, "-c", "user.name=Test", "-c", "user.email=test@localhost")
        for command in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "-m", "Begin")):
            subprocess.run((*git, *command), check=True)
        (root / FILE).write_text(PROJECT[FILE], encoding="utf-8")
        return root

    @classmethod
    def run_tool(cls, *arguments, root=None):
        done = subprocess.run((TOOL, "--root", root or cls.root, *arguments), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def fate(self, slip):
        rows = [line for line in self.output.splitlines() if f" {FILE}:{slip}: " in line]
        self.assertEqual(len(rows), 1, f"{slip}\n{self.output}")
        return rows[0].partition(f"{slip}: ")[2]

    def test_noticed_slips_are_killed(self):
        for slip in ("5: > becomes <=", "5: condition negated", "6: returns 0", "5: statement deleted"):
            with self.subTest(slip):
                self.assertRegex(self.fate(slip), r"^killed \(by unit\.clamp\)$|^repeated ")

    def test_a_slip_that_changes_no_object_is_equivalent(self):
        self.assertEqual(self.fate("3: 3 becomes 4"), "equivalent")
        self.assertEqual(self.fate("4: statement deleted"), "equivalent")

    def test_a_slip_that_does_not_compile_is_skipped(self):
        self.assertEqual(self.fate("11: returned value negated"), "skipped (does not compile)")

    def test_declarations_stay(self):
        self.assertNotIn(f"{FILE}:3: statement deleted", self.output)

    def test_what_no_test_looks_at_survives_and_is_shown(self):
        self.assertEqual(self.fate("9: 2 becomes 3"), "survived (2 tests)")
        shown = "-int twice(int value) { return value * 2; }\n+int twice(int value) { return value * 3; }\n"
        self.assertIn(f"{shown}tests that ran: unit.clamp docs.far\n", self.output)

    def test_comments_are_left_alone(self):
        self.assertNotIn(f"{FILE}:6: 1 becomes", self.output)

    def test_what_no_slip_gets_to_is_not_built(self):
        """A long test is neither built nor run if earlier tests notice every slip."""
        root = self.project("value > most", "value >= most")
        costs = root / "build/Testing/Temporary/CTestCostData.txt"
        costs.parent.mkdir(parents=True)
        costs.write_text("unit.clamp 1 0.01\ndocs.far 1 60\n---\n", encoding="utf-8")
        output = self.run_tool(root=root)
        self.assertRegex(output, r"(?m)^\d+ of (\d+) killed ")
        self.assertNotIn("survived:", output)
        self.assertTrue((root / "build/mutate/0/build/test_clamp").exists())
        self.assertFalse((root / "build/mutate/0/build/test_far").exists())

    def test_a_test_that_fails_anyway_is_not_used(self):
        self.assertIn("without unit.broken: it fails on the unchanged tree", self.output)

    def test_the_counts_add_up(self):
        rows = [line for line in self.output.splitlines() if f" {FILE}:" in line and line[0].isdigit()]
        killed, survived = (sum(f": {fate}" in line for line in rows) for fate in ("killed", "survived"))
        self.assertRegex(self.output, f"(?m)^{killed} of {killed + survived} killed ")
        self.assertGreater(survived, 0)

    def test_without_a_file_only_changed_lines_have_slips(self):
        rows = re.findall(r"^\d+/\d+ (.*?:\d+):", self.run_tool(), re.MULTILINE)
        self.assertEqual(set(rows), {f"{FILE}:9"})

    def test_slips_in_the_c_client_meet_its_own_tests(self):
        output = self.run_tool(CLIENT)
        self.assertNotIn("unit.", output)
        self.assertRegex(output, rf"{CLIENT}:2: / becomes \*: killed \(by clients\.c\)")

    def test_a_sample_is_the_same_again(self):
        samples = [self.run_tool(FILE, "--sample", "2", "--seed", "7").splitlines()[:4] for _ in range(2)]
        self.assertIn("2 of ", samples[0][0])
        self.assertEqual(samples[0], samples[1])

    def test_several_at_a_time_meet_the_same_fates(self):
        rows = [
            re.findall(rf" ({FILE}:.*?): (\w+)", output) for output in (self.output, self.run_tool(FILE, "--jobs", "3"))
        ]
        # Each job has its own copy, and may try a mutant that another job has tried.
        one, several = ({row for row in each if row[1] in ("equivalent", "skipped")} for each in rows)
        self.assertEqual(one, several)
        one, several = ({row for row in each if row[1] == "survived"} for each in rows)
        self.assertLess(set(), one)
        self.assertLessEqual(one, several)
        self.assertEqual(*map(len, rows))

    def test_the_end_of_the_time_is_reported(self):
        output = self.run_tool(FILE, "--minutes", "0")
        self.assertRegex(output, r"0 of 0 killed .*\nthe time is over after 0 of \d+ mutants\n$")

    def test_a_file_outside_the_project_is_refused(self):
        done = subprocess.run((TOOL, "--root", self.root, "../other.c"), capture_output=True, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, "^mutate: .*other.c")

    def test_the_whole_path_of_a_file_serves_too(self):
        self.assertRegex(self.run_tool(self.root / FILE, "--sample", "1"), rf"^1 of \d+ mutants, files: {FILE};")

    def test_a_folder_stands_for_its_files(self):
        self.assertRegex(self.run_tool("server", "--sample", "1"), rf"^1 of \d+ mutants, files: {FILE};")

    def test_the_sources_stay(self):
        self.assertEqual((self.root / FILE).read_text(encoding="utf-8"), PROJECT[FILE])
        self.assertEqual((self.root / "build/mutate/0/tree" / FILE).read_text(encoding="utf-8"), PROJECT[FILE])


if __name__ == "__main__":
    unittest.main()
