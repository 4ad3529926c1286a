"""docker/alerts.yml: each alert is a row of docs/operate/metrics.md and fires alone. No alert fires in a drain, at a
missed scrape or at a restart. promtool evaluates the rules over samples that begin with a daemon's /metrics."""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

from client import VOXELIZE, rows
from daemon import ROOT, Daemon
from tables import alerts

RULES = yaml.safe_load((ROOT / "docker" / "alerts.yml").read_text(encoding="utf-8"))["groups"][0]["rules"]
EXPRESSIONS = " ".join(rule["expr"] for rule in RULES)
METRICS = (ROOT / "docs/operate/metrics.md").read_text(encoding="utf-8")
KUBERNETES = yaml.safe_load((ROOT / "docker/kubernetes/base/deployment.yaml").read_text(encoding="utf-8"))
SCRAPE = 10  # seconds between scrapes, as in docker/prometheus.yml
BEGIN = 60  # the scrape at which the change begins
END = 240  # the number of scrapes
WINDOW = 300  # seconds in which an expression must become true after a change
TARGET = 'job="voxeld",instance="voxeld:8080"'
REQUESTS = 100  # between two scrapes


def seconds(text):
    return int(text[:-1]) * {"s": 1, "m": 60}[text[-1]]


def name_of(series):
    return series.partition("{")[0]


class Grows:
    """A counter that grows by `step` from one scrape to the next, `scrapes` times."""

    def __init__(self, step, scrapes=END):
        self.step, self.scrapes = step, scrapes


class Share:
    """A gauge whose value is `share` times the value of the series `other`."""

    def __init__(self, share, other):
        self.share, self.other = share, other


def refused(reason):
    return f'voxeld_refusals_total{{reason="{reason}"}}'


ENDPOINT = 'endpoint="/v1/voxelize"'
# (alert, {series: the change that makes the alert fire}, the alert's labels...)
PROVOKED = [
    ("VoxeldUnreachable", {"up": 0}, TARGET),
    ("VoxeldNotReady", {"voxeld_ready": 0}, TARGET),
    ("VoxeldGpuLost", {'voxeld_gpus{state="lost"}': 1}, 'state="lost"', TARGET),
    ("VoxeldGpuPaused", {'voxeld_gpus{state="paused"}': 1}, 'state="paused"', TARGET),
    ("VoxeldGpuFails", {'voxeld_reruns_total{failure="device_lost"}': Grows(1, 1)}, 'failure="device_lost"', TARGET),
    *(
        ("VoxeldModelBroken", {f"voxeld_models{{{state}}}": 1}, state, TARGET)
        for state in ('state="outdated"', 'state="failed"')
    ),
    ("VoxeldDefect", {refused("defect"): Grows(1, 1)}, 'reason="defect"', TARGET),
    *(
        ("VoxeldOverload", {refused(reason): Grows(REQUESTS * 0.02)})
        for reason in ("queue-full", "memory-full", "connections-full")
    ),
    ("VoxeldFlood", {refused("client-over-share"): Grows(REQUESTS * 0.2)}),
    *(
        ("VoxeldQueueFilling", {f"voxeld_queue_slots{{{lanes}}}": Share(0.7, "voxeld_queue_limit")}, lanes, TARGET)
        for lanes in ('lanes="quick"', 'lanes="long"', 'lanes="detect"')
    ),
    (
        "VoxeldMemoryFilling",
        {'voxeld_buffer_bytes{state="in_use"}': Share(0.7, "voxeld_buffer_budget_bytes")},
        TARGET,
    ),
    # Two of a hundred requests take 0.1 to 0.25 s.
    (
        "VoxeldSlow",
        {
            f'voxeld_request_duration_seconds_bucket{{{ENDPOINT},le="{bound}"}}': Grows(REQUESTS * 0.98)
            for bound in ("0.01", "0.025", "0.05", "0.1")
        },
    ),
    ("VoxeldPagesFilling", {"voxeld_page_connections": Share(0.95, "voxeld_page_connections_limit")}, TARGET),
    ("VoxeldFilesRunOut", {"process_open_fds": Share(0.95, "process_max_fds")}, TARGET),
    ("VoxeldLogDropped", {"voxeld_log_lines_dropped_total": Grows(1)}, TARGET),
]

DRAINING = {"voxeld_ready": 0, refused("draining"): Grows(REQUESTS)}


def scraped():
    """{series: value} of the series on /metrics that the rules use, after some requests. Endpoints without requests are
    left out: they have a thousand series."""
    with Daemon("--pages-listen", "127.0.0.1:0") as daemon:
        for _ in range(2):
            assert daemon.post(VOXELIZE, rows(10)).status == 200
            assert daemon.get("/metrics").status == 200
            daemon.await_accounts()
        page = daemon.get("/metrics").body.decode()
    lines = [line.rpartition(" ") for line in page.splitlines() if not line.startswith("#")]
    used = (line for line in lines if re.search(rf"\b{name_of(line[0])}\b", EXPRESSIONS))
    return {series: float(value) for series, _, value in used if "endpoint=" not in series or ENDPOINT in series}


def usual_growth(series):
    """The growth from scrape to scrape while requests are answered within 10 ms each."""
    bound = re.search(r'le="(.*)"', series)
    if ENDPOINT not in series:
        return 0
    if bound:
        return REQUESTS if bound[1] == "+Inf" or float(bound[1]) >= 0.01 else 0
    return REQUESTS if 'code="200"' in series else 0


def with_target(series):
    return series[:-1] + f",{TARGET}}}" if series.endswith("}") else f"{series}{{{TARGET}}}"


class Alerts(unittest.TestCase):
    def test_they_are_those_of_the_page(self):
        shown = [(r["expr"], r["for"], r["labels"]["severity"], r["annotations"]["summary"]) for r in RULES]
        self.assertEqual(shown, alerts(METRICS))
        self.assertEqual(len({rule["alert"] for rule in RULES}), len(RULES))
        self.assertEqual({rule["labels"]["severity"] for rule in RULES}, {"critical", "warning"})

    def test_each_is_provoked(self):
        self.assertEqual({rule["alert"] for rule in RULES}, {name for name, *_ in PROVOKED})


@unittest.skipUnless(shutil.which("promtool"), "there is no promtool here")
class Evaluated(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = scraped()

    def series(self, values_of):
        """promtool's input_series. `values_of(series, first value)` returns the values of a series."""
        return [
            {"series": with_target(series), "values": " ".join(map(str, values_of(series, value)))}
            for series, value in {**self.page, "up": 1}.items()
        ]

    def usual(self, series, value):
        return [value + usual_growth(series) * scrape for scrape in range(END)]

    def changed(self, change, usual):
        """The usual values, changed from BEGIN on."""
        if isinstance(change, Share):
            change = change.share * self.page[change.other]
        if not isinstance(change, Grows):
            return usual[:BEGIN] + [change] * (END - BEGIN)
        grown = [usual[BEGIN] + change.step * min(scrape + 1, change.scrapes) for scrape in range(END - BEGIN)]
        return usual[:BEGIN] + grown

    def assert_alerts(self, series, expected):
        """`expected`: (seconds, alert or None, its labels). At each of these times no other alert fires."""
        checks = []
        for at, firing, labels in expected:
            for rule in RULES:
                check = {"eval_time": f"{at}s", "alertname": rule["alert"], "exp_alerts": []}
                if rule["alert"] == firing:
                    found = dict(re.findall(r'(\w+)="(.*?)"', labels)) | rule["labels"]
                    check["exp_alerts"] = [{"exp_labels": found, "exp_annotations": rule["annotations"]}]
                checks.append(check)
        test = {"interval": f"{SCRAPE}s", "input_series": series, "alert_rule_test": checks}
        document = {
            "rule_files": [str(ROOT / "docker" / "alerts.yml")],
            "evaluation_interval": f"{SCRAPE}s",
            "tests": [test],
        }
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "alerts.json")  # JSON is YAML too
            file.write_text(json.dumps(document), encoding="utf-8")
            done = subprocess.run(("promtool", "test", "rules", file), capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def assert_silence(self, values_of):
        self.assert_alerts(self.series(values_of), [(at, None, "") for at in range(0, END * SCRAPE, SCRAPE)])

    def test_each_alert_fires_alone_and_not_before_its_time(self):
        waits = {rule["alert"]: seconds(rule["for"]) for rule in RULES}
        begin = BEGIN * SCRAPE
        for name, changes, *labels in PROVOKED:
            with self.subTest(name, changes=list(changes)):
                self.assertLessEqual(set(changes), {*self.page, "up"})
                values_of = lambda series, value, changes=changes: (
                    self.changed(changes[series], self.usual(series, value))
                    if series in changes
                    else self.usual(series, value)
                )
                expected = [(at, None, "") for at in (begin - SCRAPE, begin, begin + waits[name] - SCRAPE)]
                expected.append((begin + waits[name] + WINDOW, name, ",".join(labels)))
                self.assert_alerts(self.series(values_of), expected)

    def test_none_fires_while_all_is_well(self):
        self.assert_silence(self.usual)

    def test_none_fires_without_any_request(self):
        self.assert_silence(lambda series, value: [value] * END)

    def missed(self, series, values, first, number):
        """Lets `number` scrapes fail, from `first` on."""
        values[first : first + number] = [0 if series == "up" else "stale"] * number
        return values

    def stopped(self, series, value, drain=0):
        """The values of a process that drains, is absent for six scrapes, and starts again."""
        counts = name_of(series).endswith(("_total", "_bucket"))
        usual, again = self.usual(series, value), self.usual(series, 0 if counts else value)
        draining = self.changed(DRAINING[series], usual) if series in DRAINING else usual
        values = draining[: BEGIN + drain] + again[: END - BEGIN - drain]
        return self.missed(series, values, BEGIN + drain, 6)

    def test_none_fires_at_a_missed_scrape(self):
        self.assert_silence(lambda series, value: self.missed(series, self.usual(series, value), BEGIN, 1))

    def test_none_fires_at_a_restart(self):
        self.assert_silence(self.stopped)

    def test_none_fires_in_the_longest_drain(self):
        grace = KUBERNETES["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]  # longer than compose.yaml's
        self.assert_silence(lambda series, value: self.stopped(series, value, grace // SCRAPE))


if __name__ == "__main__":
    unittest.main()
