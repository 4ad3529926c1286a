#!/usr/bin/env python3
"""Stores what a benchmark measures, and says what changed since a stored report.

    tests/measure/report.py [--report FILE] [--compare FILE] [--runs N] COMMAND [ARGUMENT...]

The command runs N times. Each of its benchmarks adds rows of samples to the file that VOXELD_SAMPLES names: in C by
samples.h, in Python by note(). --report stores the rows as JSON; --compare compares them with an earlier report.

The noise of a row comes from the spread of its samples in both reports, and is at least 1 %. The spread is 1.4826 times
the median distance from the median, as a share of the median; for normal samples, that is the standard deviation. A
change of the median is reported if it is more than twice the noise. With --runs the samples also show how the machine
drifts from run to run. One thread. Standard library only.
"""

import collections
import json
import math
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

FORMAT = 1  # of reports
VARIABLE = "VOXELD_SAMPLES"
LEAST_NOISE, LEAST_SHOWN = 0.01, 2  # a share of the median; multiples of the noise
LEAST_SAMPLES = 5  # fewer do not show their spread
MORE_IS_BETTER = {"requests/s", "GB/s", "ratio"}  # units; for all others less is better
NORMAL = 1.4826  # of normal samples: the standard deviation, divided by the median distance from the median
OPTIONS = ("--report", "--compare", "--runs")

Row = collections.namedtuple("Row", "unit samples limit limit_of", defaults=(None, ""))


class Change(collections.namedtuple("Change", "name unit then now noise limit limit_of")):
    """The medians of a row in two reports."""

    @property
    def share(self):
        return self.now / self.then - 1

    @property
    def times_noise(self):
        return abs(math.log(self.now / self.then)) / self.noise

    @property
    def is_shown(self):
        return self.times_noise > LEAST_SHOWN

    @property
    def verdict(self):
        return "better" if (self.now > self.then) == (self.unit in MORE_IS_BETTER) else "worse"


# ---- rows ----


def note(name, unit, samples, limit=None, limit_of=""):
    """Adds samples to a row, if VARIABLE is set. `limit` is the value to compare with, in the same unit."""
    if VARIABLE in os.environ:
        values = " ".join(map(repr, map(float, samples)))
        with open(os.environ[VARIABLE], "a", encoding="utf-8") as file:
            file.write(f"{unit}\t{'' if limit is None else limit}\t{limit_of}\t{values}\t{name}\n")


def read_rows(text):
    """Rows by name; samples of the same name are joined. The last limit of a name counts."""
    rows = {}
    for line in text.splitlines():
        unit, limit, limit_of, values, name = line.split("\t", 4)
        before = rows[name].samples if name in rows else []
        samples = before + [float(value) for value in values.split()]
        rows[name] = Row(unit, samples, float(limit) if limit else None, limit_of)
    return rows


# ---- reports ----


def output_of(*command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, cwd=pathlib.Path(__file__).parent)
        return done.stdout.strip() if done.returncode == 0 else ""
    except OSError:
        return ""


def machine():
    """The conditions that the figures depend on."""
    model = platform.machine()
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
        for line in file:
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    gpus = output_of("nvidia-smi", "--query-gpu=name", "--format=csv,noheader").splitlines()
    return {"processor": model, "cores": len(os.sched_getaffinity(0)), "gpus": gpus}


def make_report(command, rows):
    return {
        "voxeld_report": FORMAT,
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "commit": output_of("git", "describe", "--always", "--dirty") or None,
        "machine": machine(),
        "command": command,
        "rows": rows,
    }


def write_report(report, path):
    rows = {name: row._asdict() for name, row in report["rows"].items()}
    pathlib.Path(path).write_text(json.dumps({**report, "rows": rows}) + "\n", encoding="utf-8")


def read_report(path):
    """The report, or a ValueError with the reason."""
    try:
        report = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
        if report["voxeld_report"] != FORMAT:
            raise ValueError(f"{path} has format {report['voxeld_report']}, not {FORMAT}")
        report["rows"] = {name: Row(**row) for name, row in report["rows"].items()}
        return report
    except (KeyError, TypeError, AttributeError, json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a report of voxeld's benchmarks: {error!r}") from error


# ---- comparison ----


def spread(samples):
    """How far samples lie from their median, as a share of it."""
    middle = statistics.median(samples)
    return NORMAL * statistics.median(abs(sample - middle) for sample in samples) / middle


def compare_rows(then, now):
    """The changes, large or small, of rows that both reports have with enough samples, all above 0."""
    for name, row in now.items():
        samples = then[name].samples if name in then and then[name].unit == row.unit else []
        if all(len(each) >= LEAST_SAMPLES and min(each) > 0 for each in (samples, row.samples)):
            noise = max(LEAST_NOISE, math.hypot(spread(samples), spread(row.samples)))
            medians = statistics.median(samples), statistics.median(row.samples)
            yield Change(name, row.unit, *medians, noise, row.limit, row.limit_of)


def differences(then, now):
    """Why two reports cannot be compared directly."""
    for name, value in then["machine"].items():
        if value != now["machine"].get(name):
            yield f"another machine: {name} {value!r} then, {now['machine'].get(name)!r} now"
    if then["command"] != now["command"]:
        yield f"another command then: {' '.join(then['command'])}"
    for text, own, other in (("then", then, now), ("now", now, then)):
        alone = [name for name in own["rows"] if name not in other["rows"]]
        if alone:
            yield f"rows only {text}: {'; '.join(alone)}"


def comparison(then, now):
    changes = list(compare_rows(then["rows"], now["rows"]))
    yield f"since {then['time']}, commit {then['commit'] or 'unknown'}"
    yield from differences(then, now)
    width = max([len(change.name) for change in changes], default=0)
    if any(change.is_shown for change in changes):
        yield f"{'row':{width}} {'then':>10} {'now':>10} {'unit':10} {'change':>8} {'noise':>7} {'times':>6}"
    for change in sorted(changes, key=lambda change: -change.times_noise):
        if change.is_shown:
            limit = f", {change.limit_of} {change.limit:.4g}" if change.limit is not None else ""
            yield (
                f"{change.name:{width}} {change.then:10.4g} {change.now:10.4g} {change.unit:10} {change.share:+8.1%} "
                f"{change.noise:7.1%} {change.times_noise:6.1f}  {change.verdict}{limit}"
            )
    counts = collections.Counter(change.verdict for change in changes if change.is_shown)
    within = len(changes) - sum(counts.values())
    left_out = len(then["rows"].keys() & now["rows"].keys()) - len(changes)
    yield (
        f"{len(changes)} rows compared: {counts['better']} better, {counts['worse']} worse, {within} within the noise; "
        f"{left_out} left out for too few samples, a sample of 0 or less, or another unit"
    )


# ---- the program ----


def parse(arguments):
    """The options of this program, at any place, and the command without them. The first -- and all arguments after it
    belong to the command."""
    options, command, words = dict.fromkeys(OPTIONS), [], iter(arguments)
    for word in words:
        name, equals, value = word.partition("=")
        if word == "--":
            command += [word, *words]
        elif name not in OPTIONS:
            command.append(word)
        elif (value := value if equals else next(words, "")) == "":
            raise ValueError(f"{name} needs a value")
        else:
            options[name] = value
    runs = options["--runs"] or "1"
    if not runs.isdecimal() or not 1 <= int(runs) <= 100:
        raise ValueError(f"--runs is '{runs}', but must be from 1 to 100")
    if not command:
        raise ValueError("there is no command")
    return options["--report"], options["--compare"], int(runs), command


def measure(command, runs):
    """The rows of all runs, and the exit status of the last. A run that fails is the last."""
    with tempfile.NamedTemporaryFile("r", encoding="utf-8", prefix="voxeld-samples-") as file:
        for number in range(runs):
            if runs > 1:
                print(f"--- run {number + 1} of {runs}", flush=True)
            status = subprocess.run(command, env={**os.environ, VARIABLE: file.name}).returncode
            if status != 0:
                break
        return read_rows(file.read()), status


def main():
    try:
        target, earlier, runs, command = parse(sys.argv[1:])
        if target is None and earlier is None and runs == 1:
            os.execvp(command[0], command)
        then = read_report(earlier) if earlier else None
        if target:
            with open(target, "a", encoding="utf-8"):  # fails now, not after minutes
                pass
        rows, status = measure(command, runs)
        now = make_report(command, rows)
        if target:
            write_report(now, target)
        if then:
            print(*comparison(then, now), sep="\n")
        return status
    except (OSError, ValueError) as error:
        print(f"report: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
