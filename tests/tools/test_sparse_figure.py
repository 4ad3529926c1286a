"""docs/sparse.svg is what tests/measure/sparse_figure draws."""

import pathlib
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

from daemon import ROOT


class SparseFigure(unittest.TestCase):
    def test_the_committed_file(self):
        with tempfile.TemporaryDirectory() as folder:
            drawn = pathlib.Path(folder, "sparse.svg")
            command = [sys.executable, str(ROOT / "tests/measure/sparse_figure"), "--output", str(drawn)]
            subprocess.run(command, check=True)
            self.assertEqual(drawn.read_text(), (ROOT / "docs/sparse.svg").read_text())
            xml.parse(drawn)


if __name__ == "__main__":
    unittest.main()
