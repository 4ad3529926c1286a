"""packaging/voxeld.8 describes every option as the program does, and groff accepts it."""

import re
import shutil
import subprocess
import unittest

from daemon import ROOT
from tables import describe, man_rows, man_text, same_rows, voxeld

PATH = ROOT / "packaging" / "voxeld.8"
PAGE = PATH.read_text(encoding="utf-8")


def section(macro, title):
    return re.split(r"^\.S[HS] ", PAGE.split(f"\n.{macro} {title}\n")[1], flags=re.MULTILINE)[0]


class Man(unittest.TestCase):
    def test_options(self):
        expected = man_rows(describe())
        shown = [row.rstrip("\n") for row in section("SS", "Options of the service").split(".TP\n")[1:]]
        same_rows(self, expected, shown, "voxeld.8")

    def test_every_other_flag_of_the_program(self):
        options = {"--" + option["name"].replace("_", "-") for option in describe()["options"]}
        flags = set(re.findall(r"^  (--[a-z0-9-]+)", voxeld("--help"), re.MULTILINE)) - options
        self.assertTrue(flags)
        for flag in sorted(flags):
            with self.subTest(flag):
                self.assertIn(man_text(flag), section("SH", "OPTIONS"))

    @unittest.skipUnless(shutil.which("groff"), "there is no groff here")
    def test_groff_has_nothing_to_say(self):
        done = subprocess.run(["groff", "-man", "-ww", "-z", PATH], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))


if __name__ == "__main__":
    unittest.main()
