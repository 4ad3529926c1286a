"""config/: voxeld.json has the program's defaults, and every preset names its source."""

import json
import re
import unittest

from daemon import ROOT
from tables import describe, same_rows, voxeld


class Config(unittest.TestCase):
    def test_shipped_file_is_the_defaults(self):
        shipped = (ROOT / "config" / "voxeld.json").read_text(encoding="utf-8").splitlines()
        printed = voxeld("--print-config").splitlines()
        same_rows(self, printed, shipped, "config/voxeld.json")
        self.assertEqual(shipped, printed)

    def test_every_option_has_its_environment_name(self):
        for option in describe()["options"]:
            with self.subTest(option["name"]):
                self.assertEqual(option["env"], "VOXELD_" + option["name"].upper().replace("-", "_"))

    def test_presets_name_their_source(self):
        presets = sorted((ROOT / "config" / "presets").glob("*.json"))
        self.assertTrue(presets)
        for path in presets:
            with self.subTest(path.name):
                preset = json.loads(path.read_text(encoding="utf-8"))
                heads = {"decode", "decode_center"} & set(preset)
                self.assertEqual(set(preset) - heads - {"nms", "operation"}, {"description", "parameters"})
                self.assertEqual(bool(heads), bool(re.search(r"Its (anchor|centre) head: ", preset["description"])))
                self.assertRegex(preset["description"], r"\w+/\w+.*\.(ya?ml|h|py)")


if __name__ == "__main__":
    unittest.main()
