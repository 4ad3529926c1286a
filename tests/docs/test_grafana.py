"""docker/grafana: the dashboard is well-formed, its metrics and labels exist, and in Prometheus every expression has
values for a daemon under load."""

import contextlib
import itertools
import json
import math
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest
import urllib.error
import urllib.parse
import urllib.request

import yaml

from client import VOXELIZE, rows
from daemon import BACKEND, ROOT, Daemon, wait_until
from tables import describe

GRAFANA = ROOT / "docker" / "grafana"
DASHBOARD = json.loads((GRAFANA / "voxeld.json").read_text(encoding="utf-8"))
COMPOSE = yaml.safe_load((ROOT / "docker" / "compose.yaml").read_text(encoding="utf-8"))
SCRAPES = yaml.safe_load((ROOT / "docker" / "prometheus.yml").read_text(encoding="utf-8"))
ROWS = ["Traffic", "Latency by stage", "Clients", "GPUs", "Memory", "Refusals"]
UNITS = {"reqps", "cps", "Bps", "bytes", "s", "short", "percentunit"}  # Grafana's names of units
COLUMNS = 24
OF_TARGET = {"job", "instance"}  # labels that Prometheus adds
OF_GPUS = {f"voxeld_gpu_{name}" for name in ("jobs_total", "jobs_running", "memory_bytes")}  # no samples without a GPU
SELECTOR = re.compile(r"\b((?:voxeld|process)_\w+)\{(.*?)\}")
MATCHER = re.compile(r'(\w+)(=~|!~|!=|=)"(.*?)"')
CHARTS = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
EXPRESSIONS = [(panel["title"], target) for panel in CHARTS for target in panel["targets"]]
PATIENCE = 90  # seconds, less than ctest's limit for this file


def labels_of(page):
    """{family: {label: values}} of a scraped page, and of the families in OF_GPUS."""
    found = {}
    for name, labels in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", page, re.MULTILINE):
        for label, value in re.findall(r'(\w+)="(.*?)"', labels):
            found.setdefault(name, {}).setdefault(label, set()).add(value)
        found.setdefault(name, {})
    for name in OF_GPUS:
        found.setdefault(name, {"gpu": {"0"}})
    return found


class Structure(unittest.TestCase):
    def test_every_row_is_there_with_charts(self):
        kinds = [(panel["type"], panel["title"]) for panel in DASHBOARD["panels"]]
        self.assertEqual([title for kind, title in kinds if kind == "row"], ROWS)
        self.assertEqual(kinds[0][0], "row")
        for (kind, title), (next_kind, _) in zip(kinds, [*kinds[1:], ("row", "")]):
            self.assertNotEqual((kind, next_kind), ("row", "row"), f"an empty row: {title}")

    def test_ids_and_titles_are_unique(self):
        for names in ([panel["id"] for panel in DASHBOARD["panels"]], [panel["title"] for panel in CHARTS]):
            self.assertEqual(len(set(names)), len(names), names)

    def test_no_panel_lies_on_another(self):
        taken = {}
        for panel in DASHBOARD["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], COLUMNS, panel["title"])
            across = range(place["x"], place["x"] + place["w"])
            for cell in itertools.product(across, range(place["y"], place["y"] + place["h"])):
                self.assertIsNone(taken.setdefault(cell, None), f"{panel['title']} on {taken[cell]}")
                taken[cell] = panel["title"]
        depth = [panel["gridPos"]["y"] for panel in DASHBOARD["panels"]]
        self.assertEqual(depth, sorted(depth))  # Grafana puts a chart into the row above it

    def test_every_chart_says_what_it_shows(self):
        for panel in CHARTS:
            with self.subTest(panel["title"]):
                self.assertIn(panel["fieldConfig"]["defaults"]["unit"], UNITS)
                self.assertTrue(panel["description"].endswith("."))
                self.assertEqual(panel["datasource"]["uid"], "${datasource}")
                names = [target["refId"] for target in panel["targets"]]
                self.assertEqual(len(set(names)), len(names))
                self.assertTrue(all(target["legendFormat"] for target in panel["targets"]))

    def test_variables(self):
        variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
        self.assertEqual(variables["datasource"]["type"], "datasource")
        self.assertEqual(variables["datasource"]["query"], "prometheus")
        text = json.dumps(DASHBOARD)
        self.assertEqual(set(re.findall(r"\$\{?(\w+)", text)) - {"__rate_interval"}, set(variables))

    def test_it_is_provisioned(self):
        service = COMPOSE["services"]["grafana"]
        mounted = dict(volume.split(":")[:2] for volume in service["volumes"])
        self.assertEqual(set(mounted) - {"grafana"}, {f"./grafana/{path.name}" for path in GRAFANA.iterdir()})
        (source,) = yaml.safe_load((GRAFANA / "datasource.yaml").read_text(encoding="utf-8"))["datasources"]
        (provider,) = yaml.safe_load((GRAFANA / "dashboards.yaml").read_text(encoding="utf-8"))["providers"]
        file = mounted["./grafana/voxeld.json"]
        self.assertEqual(provider["options"]["path"], str(pathlib.PurePosixPath(file).parent))
        self.assertEqual(service["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"], file)
        address = urllib.parse.urlsplit(source["url"])
        self.assertIn(f":{address.port}:", COMPOSE["services"][address.hostname]["ports"][0])
        self.assertEqual(source["jsonData"]["timeInterval"], SCRAPES["global"]["scrape_interval"])
        self.assertEqual(service["profiles"], COMPOSE["services"]["prometheus"]["profiles"])


class Names(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.types = {metric["name"]: metric["type"] for metric in describe()["metrics"]}
        with Daemon() as daemon:
            assert daemon.post(VOXELIZE, rows(10)).status == 200
            daemon.await_accounts()
            cls.labels = labels_of(daemon.get("/metrics").body.decode())

    def selectors(self):
        """(chart, family, matchers) of each selector."""
        for title, target in EXPRESSIONS:
            found = SELECTOR.findall(target["expr"])
            self.assertEqual(len(found), len(re.findall(r"\b(?:voxeld|process)_\w+", target["expr"])), title)
            for name, matchers in found:
                yield title, name, MATCHER.findall(matchers)

    def test_every_family_is_in_the_table(self):
        for title, name, _ in self.selectors():
            with self.subTest(title, name=name):
                family = re.sub("_(bucket|sum|count)$", "", name)
                self.assertIn(
                    self.types.get(family if self.types.get(family) == "histogram" else name), self.types.values()
                )

    def test_counters_and_histograms_alone_have_rates(self):
        for title, target in EXPRESSIONS:
            grow = set(re.findall(r"rate\((\w+)\{", target["expr"]))
            for name, _ in SELECTOR.findall(target["expr"]):
                with self.subTest(title, name=name):
                    self.assertEqual(self.types.get(name, "histogram") != "gauge", name in grow)

    def test_every_label_and_value_is_in_a_scrape(self):
        for title, name, matchers in self.selectors():
            self.assertLessEqual(OF_TARGET, {label for label, _, _ in matchers}, title)
            for label, _, value in matchers:
                if label in OF_TARGET:
                    continue
                with self.subTest(title, name=name, label=label):
                    self.assertLessEqual(set(value.split("|")), self.labels[name].get(label, set()))

    def test_every_grouping_and_legend_is_of_labels_that_there_are(self):
        for title, target in EXPRESSIONS:
            known = OF_TARGET.union(*(self.labels[name] for name, _ in SELECTOR.findall(target["expr"])))
            groups = {tuple(group.split(", ")) for group in re.findall(r"by \((.*?)\)", target["expr"])}
            left = set.intersection(*(set(group) for group in groups)) if groups else known
            if "sum(" in target["expr"]:
                left = set()
            with self.subTest(title, expression=target["expr"]):
                self.assertLessEqual(set().union(*groups), known)
                self.assertLessEqual(set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"])), left)


@unittest.skipUnless(shutil.which("prometheus"), "there is no prometheus here")
class Evaluated(unittest.TestCase):
    def free_port(self):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    @contextlib.contextmanager
    def prometheus(self, daemon):
        """Runs Prometheus, which scrapes the daemon every second. Yields Prometheus's address."""
        config = {
            "global": {"scrape_interval": "1s"},
            "scrape_configs": [{"job_name": "voxeld", "static_configs": [{"targets": ["%s:%d" % daemon.address]}]}],
        }
        address = f"127.0.0.1:{self.free_port()}"
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "prometheus.json").write_text(
                json.dumps(config), encoding="utf-8"
            )  # YAML reads it too
            command = ["prometheus", f"--config.file={folder}/prometheus.json", f"--storage.tsdb.path={folder}/data"]
            with open(pathlib.Path(folder, "log"), "w+b") as log:
                process = subprocess.Popen([*command, f"--web.listen-address={address}"], stdout=log, stderr=log)
                try:
                    yield address
                finally:
                    process.kill()
                    process.wait()

    def ask(self, address, expression):
        """The expression's current values; None while Prometheus does not answer."""
        for name, value in (("$job", "voxeld"), ("$instance", ".+"), ("$__rate_interval", "30s")):
            expression = expression.replace(name, value)
        query = urllib.parse.urlencode({"query": expression})
        try:
            with urllib.request.urlopen(f"http://{address}/api/v1/query?{query}", timeout=PATIENCE) as answer:
                result = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            if error.code == 503:  # Prometheus is starting
                return None
            raise AssertionError(f"{expression}: {error.read()}") from None
        except OSError:
            return None
        return [float(sample["value"][1]) for sample in result]

    def test_every_expression_gives_values(self):
        body = rows(2000)
        with Daemon() as daemon, self.prometheus(daemon) as address:
            for title, target in EXPRESSIONS:
                expression = target["expr"]

                def values():
                    assert daemon.post(VOXELIZE, body).status == 200
                    assert daemon.post("/v1/voxelize?max_voxels=0", body).status == 400
                    return self.ask(address, expression)

                answers = lambda: [value for value in [values()] if value is not None]
                with self.subTest(title, expression=expression):
                    if BACKEND == "cpu" and any(name in expression for name in OF_GPUS):
                        self.assertEqual(wait_until(answers, "an answer", PATIENCE), [[]])
                        continue
                    found = lambda: [value for value in values() or [] if math.isfinite(value)]
                    self.assertGreaterEqual(min(wait_until(found, lambda: f"values: {values()}", PATIENCE)), 0)
            for annotation in DASHBOARD["annotations"]["list"]:
                self.assertEqual(self.ask(address, annotation["expr"]), [])


if __name__ == "__main__":
    unittest.main()
