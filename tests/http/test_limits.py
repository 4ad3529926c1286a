"""The daemon and a container's limits: CPU quota and memory."""

import os
import pathlib
import re
import shlex
import subprocess
import tempfile
import unittest

from daemon import Daemon, voxeld_binary

UNSHARE = ("unshare", "--map-root-user", "--mount")


class ContainedDaemon(Daemon):
    """A daemon on the CPU that sees the directory `groups` as /sys/fs/cgroup."""

    def __init__(self, groups, *args):
        self.groups = groups
        super().__init__("--backend", "cpu", *args)

    def command(self, args):
        daemon = shlex.join((voxeld_binary(), "--listen", "127.0.0.1:0", *args))
        return [*UNSHARE, "sh", "-c", f"mount --bind {shlex.quote(self.groups)} /sys/fs/cgroup && exec {daemon}"]

    def line(self, words):
        (line,) = self.logged(words)
        return line


def has_namespaces():
    with tempfile.TemporaryDirectory() as folder:
        command = [*UNSHARE, "mount", "--bind", folder, "/sys/fs/cgroup"]
        return subprocess.run(command, check=False, stderr=subprocess.DEVNULL).returncode == 0


@unittest.skipUnless(has_namespaces(), "namespaces are not allowed here")
class Limits(unittest.TestCase):
    def setUp(self):
        self.groups = self.enterContext(tempfile.TemporaryDirectory())

    def limit(self, name, text):
        pathlib.Path(self.groups, name).write_text(text, encoding="ascii")

    def start(self, *options):
        return self.enterContext(ContainedDaemon(self.groups, *options))

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "there is one processor")
    def test_the_quota_sets_the_number_of_workers_by_default(self):
        self.limit("cpu.max", "100000 100000\n")
        self.assertIn(" workers=1 long_workers=1", self.start().line("msg=listening"))
        self.assertIn(" workers=3 ", self.start("--workers", "3").line("msg=listening"))

    def test_memory_that_may_not_suffice_is_warned_of(self):
        self.limit("memory.max", "1073741824\n")
        lanes = ("--workers", "2", "--long-workers", "1", "--io-threads", "3", "--small-job-points", "1000")
        warning = self.start("--max-connections", "100", *lanes).line("memory limit")
        self.assertIn("level=warning", warning)
        self.assertIn("memory_limit_bytes=1073741824 ", warning)
        self.assertIn("memory_budget_bytes=2147483648", warning)
        # The budget, connections, workers, lanes of small jobs. Requests take about 71 KiB each in addition.
        without_requests = 2147483648 + 100 * 262144 + 3 * 67108864 + 3 * 1000 * 2048
        may_need = int(re.search(r"may_need_bytes=(\d+)", warning)[1])
        self.assertGreater(may_need, without_requests + 100 * 72000)
        self.assertLess(may_need, without_requests + 100 * 75000)

    def test_memory_that_suffices_is_not_mentioned(self):
        self.limit("memory.max", "1073741824\n")
        lanes = ("--workers", "2", "--long-workers", "1", "--io-threads", "3")
        options = (*lanes, "--max-connections", "100", "--memory-budget-bytes", "536870912")
        self.assertEqual(self.start(*options).logged("memory"), [])


if __name__ == "__main__":
    unittest.main()
