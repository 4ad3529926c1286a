"""The reports of benchmarks (tests/measure/report.py)."""

import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

from daemon import BIN, ROOT

TOOL = ROOT / "tests/measure/report.py"
sys.path.insert(0, str(TOOL.parent))
import report  # noqa: E402

VOXEL_BENCH = os.environ.get("VOXEL_BENCH", BIN / "voxel-bench")
# A benchmark of one row, with five samples around its argument.
BENCHMARK = """
import sys
sys.path.insert(0, sys.argv[1])
import report
report.note(sys.argv[2], "ms", [float(sys.argv[3]) * share for share in (0.99, 1, 1.01, 1.005, 0.995)], 2, "target")
print("plain output")
sys.exit(int(sys.argv[4]))
"""


def samples(middle, noise, count=31, seed=1):
    source = random.Random(seed)
    return [middle * source.gauss(1, noise) for _ in range(count)]


def change(then, now, unit="ms"):
    (only,) = report.compare_rows({"row": report.Row(unit, then)}, {"row": report.Row(unit, now)})
    return only


class Changes(unittest.TestCase):
    def test_what_is_within_the_noise_is_no_change(self):
        for seed in range(2, 102):
            for middle in (9.7, 10.3, 10.9):
                found = change(samples(10, 0.05, 301), samples(middle, 0.05, 301, seed=seed))
                self.assertFalse(found.is_shown, seed)

    def test_what_exceeds_the_noise_is_a_change(self):
        for seed in range(2, 102):
            found = change(samples(10, 0.05, 301), samples(12, 0.05, 301, seed=seed))
            self.assertTrue(found.is_shown, seed)
            self.assertEqual("worse", found.verdict)
            self.assertAlmostEqual(0.2, found.share, delta=0.03)
            self.assertAlmostEqual(2.6, found.times_noise, delta=0.6)

    def test_a_gain_is_judged_as_a_loss_is(self):
        there, back = change([10] * 5, [12] * 5), change([12] * 5, [10] * 5)
        self.assertAlmostEqual(there.times_noise, back.times_noise)
        self.assertEqual(("worse", "better"), (there.verdict, back.verdict))

    def test_of_rates_more_is_better(self):
        self.assertEqual("better", change([10] * 5, [12] * 5, "requests/s").verdict)
        self.assertEqual("worse", change([12] * 5, [10] * 5, "ratio").verdict)

    def test_samples_that_do_not_vary_still_have_a_noise(self):
        self.assertFalse(change([100] * 5, [101] * 5).is_shown)
        self.assertTrue(change([100] * 5, [103] * 5).is_shown)

    def test_outliers_are_not_the_noise(self):
        self.assertTrue(change([10] * 9 + [90], [13] * 9 + [80]).is_shown)

    def test_rows_that_cannot_be_compared_are_left_out(self):
        for then, now in (([1] * 4, [9] * 5), ([1] * 5, []), ([0] * 5, [1] * 5)):
            rows = ({"row": report.Row("ms", each)} for each in (then, now))
            self.assertEqual([], list(report.compare_rows(*rows)))
        rows = {"row": report.Row("ms", [1] * 5)}, {"row": report.Row("us", [1000] * 5)}
        self.assertEqual([], list(report.compare_rows(*rows)))


class Program(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.report = self.folder / "report.json"

    def run_tool(self, *arguments):
        done = subprocess.run((sys.executable, TOOL, *arguments), capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def bench(self, *options, row="row", middle="10", status="0"):
        command = sys.executable, "-c", BENCHMARK, str(TOOL.parent), row, middle, status
        return self.run_tool(*options, *command)

    def test_without_options_only_the_command_runs(self):
        self.assertEqual((3, "plain output\n", ""), self.bench(status="3"))

    def test_a_report_has_the_samples_and_what_they_depend_on(self):
        status, output, _ = self.bench("--report", self.report, "--runs=2")
        self.assertEqual(0, status)
        self.assertEqual(2, output.count("plain output"))
        stored = json.loads(self.report.read_text())
        row = stored["rows"]["row"]
        self.assertEqual(("ms", 2, "target"), (row["unit"], row["limit"], row["limit_of"]))
        self.assertEqual([9.9, 10, 10.1, 10.05, 9.95] * 2, [round(sample, 6) for sample in row["samples"]])
        self.assertEqual(len(os.sched_getaffinity(0)), stored["machine"]["cores"])

    def test_a_comparison_tells_the_change(self):
        self.bench("--report", self.report)
        self.assertIn("1 rows compared: 0 better, 0 worse, 1 within", self.bench("--compare", self.report)[1])
        output = self.bench("--compare", self.report, middle="12")[1]
        self.assertRegex(output, r"\nrow +10 +12 ms +\+20\.0% .* worse, target 2\n")
        self.assertIn("1 rows compared: 0 better, 1 worse, 0 within", output)
        self.assertIn("another command then", output)

    def test_a_comparison_names_rows_of_one_report_and_another_machine(self):
        self.bench("--report", self.report)
        stored = json.loads(self.report.read_text())
        stored["machine"]["processor"] = "an abacus"
        self.report.write_text(json.dumps(stored))
        output = self.bench("--compare", self.report, row="other")[1]
        self.assertIn("another machine: processor 'an abacus' then", output)
        self.assertIn("rows only then: row\n", output)
        self.assertIn("rows only now: other\n", output)

    def test_a_comparison_counts_rows_of_few_samples(self):
        self.bench("--report", self.report)
        stored = json.loads(self.report.read_text())
        stored["rows"]["row"]["samples"] = [10, 10]
        self.report.write_text(json.dumps(stored))
        output = self.bench("--compare", self.report)[1]
        self.assertIn("0 rows compared: 0 better, 0 worse, 0 within the noise; 1 left out", output)

    def test_options_behind_two_dashes_are_the_commands(self):
        self.assertEqual((0, "-- --report x\n", ""), self.run_tool("echo", "--", "--report", "x"))

    def test_a_failed_command_ends_the_runs(self):
        status, output, _ = self.bench("--runs", "3", "--report", self.report, status="4")
        self.assertEqual((4, 1), (status, output.count("plain output")))

    def test_what_is_wrong_is_reported_before_anything_runs(self):
        rubbish = self.folder / "rubbish"
        rubbish.write_text("[1]")
        newer = self.folder / "newer"
        newer.write_text('{"voxeld_report": 2}')
        for options, reason in (
            (("--report",), "no command|needs a value"),
            (("--report=",), "needs a value"),
            (("--report", "/nowhere/report"), "No such file"),
            (("--compare", "/nowhere/report"), "No such file"),
            (("--compare", rubbish), "is not a report"),
            (("--compare", newer), "has format 2, not 1"),
            (("--runs", "0"), "from 1 to 100"),
            (("--runs", "x"), "from 1 to 100"),
        ):
            command = () if options == ("--report",) else ("echo", "ran")
            status, output, error = self.run_tool(*options, *command)
            self.assertEqual((2, ""), (status, output), options)
            self.assertRegex(error, f"^report: .*({reason})")

    def test_voxel_bench_notes_its_rows(self):
        scan = self.folder / "scan\t1.bin"
        scan.write_bytes(bytes(16 * 100))
        command = VOXEL_BENCH, "--preset", "kitti_pointpillar", "--cpu", "--repeat", "4", scan
        status, output, error = self.run_tool("--report", self.report, *command)
        self.assertEqual(0, status, output + error)
        rows = json.loads(self.report.read_text())["rows"]
        ours = rows["kitti_pointpillar on scan\t1.bin, cpu"]
        self.assertEqual((4, "plain voxelizer"), (len(ours["samples"]), ours["limit_of"]))
        self.assertEqual(3, len(rows["kitti_pointpillar on scan\t1.bin, plain"]["samples"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
