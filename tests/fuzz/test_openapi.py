"""schemathesis sends a daemon requests that api/openapi.yaml allows, and others, and checks the answers by the file.

VOXELD_TEST_CASES is the number of requests for each operation and phase, VOXELD_TEST_SEED their seed. schemathesis.toml
says which checks hold where.
"""

import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from daemon import ROOT, OneDaemonCase
from shared import Memory

if importlib.util.find_spec("schemathesis") is None:
    print("skipped: there is no schemathesis")
    sys.exit(77)

CASES = os.environ.get("VOXELD_TEST_CASES", "4")
SEED = os.environ.get("VOXELD_TEST_SEED", "1")
CONFIG = pathlib.Path(__file__).with_name("schemathesis.toml")


class OpenApi(OneDaemonCase):
    ARGS = ("--workers", "1", "--allow-shared-memory")

    def test_schemathesis_finds_nothing(self):
        memory = self.enterContext(Memory(1 << 16))
        self.assertEqual(memory.register(self.daemon, "scans").status, 200)
        program = [sys.executable, "-m", "schemathesis.cli", "--config-file", CONFIG, "run"]
        options = ["--url", "http://%s:%d" % self.daemon.address, "--seed", SEED, "--max-examples", CASES]
        options += ["--continue-on-failure", "--no-color", "--suppress-health-check", "all"]
        with tempfile.TemporaryDirectory() as folder:  # for its caches
            done = subprocess.run(
                [*program, *options, ROOT / "api" / "openapi.yaml"], cwd=folder, capture_output=True, text=True
            )
        self.assertEqual(done.returncode, 0, done.stdout[-20_000:] + done.stderr)
        self.assertIn("Operations:", done.stdout)
        print(done.stdout[-600:])


if __name__ == "__main__":
    unittest.main()
