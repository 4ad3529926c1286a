"""docker/: the options, versions and files that it names exist, and the set-up exposes nothing."""

import json
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

from daemon import ROOT
from tables import AFTER_DRAIN, describe
from voxeld.cli import options

DOCKER = ROOT / "docker"
DOCKERFILE = (DOCKER / "Dockerfile").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((DOCKER / "compose.yaml").read_text(encoding="utf-8"))
TOKENS = yaml.safe_load((DOCKER / "compose.tokens.yaml").read_text(encoding="utf-8"))
LIVE = yaml.safe_load((DOCKER / "compose.live.yaml").read_text(encoding="utf-8"))
PAGE = ROOT / "docs/operate/containers.md"
OPTIONS = (ROOT / "docs/operate/options.md").read_text(encoding="utf-8")
OURS = ("cpu", "gpu")
SECONDS = {"s": 1, "m": 60}


class Names(unittest.TestCase):
    def test_variables_are_options(self):
        known = {option["env"] for option in describe()["options"]}
        for path in (DOCKER / "Dockerfile", *sorted(DOCKER.glob("compose*.yaml")), PAGE):
            text = path.read_text(encoding="utf-8")
            for name in sorted(set(re.findall(r"\bVOXELD_[A-Z_]+\b", text)) - {"VOXELD_CUDA"}):  # a build option
                with self.subTest(f"{path.name}: {name}"):
                    self.assertIn(name, known)

    def test_user_is_one(self):
        (user,) = set(re.search(r"^USER (\d+):(\d+)$", DOCKERFILE, re.MULTILINE).groups())
        for path in (DOCKER / "kubernetes" / "base" / "deployment.yaml", PAGE):
            text = path.read_text(encoding="utf-8").replace("chown 65534 docker/secrets/prometheus", "")
            named = set(re.findall(r"(?:runAsUser:|runAsGroup:|fsGroup:|user|user is|chown) (\d+)\b", text))
            self.assertEqual(named, {user}, path)

    def test_version_is_that_of_the_build(self):
        build = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        version = re.search(r"^project\(voxeld VERSION ([\d.]+)", build, re.MULTILINE)[1]
        self.assertIn(f"\nARG VERSION={version}\n", DOCKERFILE)
        for name in OURS:
            self.assertEqual(COMPOSE["services"][name]["image"], f"voxeld:{version}-{name}")
        self.assertEqual(LIVE["services"]["live"]["image"], f"voxeld:{version}-live")

    def test_arguments_are_those_of_the_page(self):
        page = PAGE.read_text(encoding="utf-8")
        rows = re.findall(r"^\| ((?:`[A-Z]+`(?:, )?)+) \| (.*?) \|", page, re.MULTILINE)
        told = {name: default for names, default in rows for name in re.findall(r"[A-Z]+", names)}
        given = dict(re.findall(r"^ARG (\w+)=(.*)$", DOCKERFILE, re.MULTILINE))
        self.assertEqual(set(told), set(given))
        for name in ("BASE", "CUDA"):
            self.assertEqual(told[name], f"`{given[name]}`")

    def test_every_stage_is_built_on_a_base_or_an_earlier_stage(self):
        stages = []
        for image, stage in re.findall(r"^FROM (\S+) AS (\S+)$", DOCKERFILE, re.MULTILINE):
            self.assertIn(image, [*stages, "${BASE}", "${CUDA}"])
            stages.append(stage)
        self.assertLessEqual(set(re.findall(r"from=([\w-]+)", DOCKERFILE)), set(stages))

    def test_files_that_are_mounted_exist(self):
        for volume in [*COMPOSE["services"]["prometheus"]["volumes"], *COMPOSE["services"]["grafana"]["volumes"]]:
            source = volume.split(":")[0]
            with self.subTest(source):
                self.assertTrue((DOCKER / source).exists() or source in COMPOSE["volumes"])

    def test_images_are_built_of_stages_that_exist(self):
        stages = re.findall(r"^FROM \S+ AS (\S+)$", DOCKERFILE, re.MULTILINE)
        for name in OURS:
            service = COMPOSE["services"][name]
            self.assertEqual(service["profiles"], [name])
            self.assertIn(service["build"]["target"], stages)
            self.assertTrue((ROOT / service["build"]["dockerfile"]).is_file())


class Pages(unittest.TestCase):
    """The health check and Prometheus use a listener that serves only pages."""

    def test_the_health_check_of_the_image(self):
        (listen,) = re.findall(
            r"VOXELD_PAGES_LISTEN=(\S+)", "\n".join(re.findall(r"^ENV .*(?:\n    .*)+", DOCKERFILE, re.M))
        )
        self.assertRegex(listen, r"^127\.0\.0\.1:\d+$")  # the pages need no credentials

    def test_prometheus_scrapes_there(self):
        (job,) = yaml.safe_load((DOCKER / "prometheus.yml").read_text(encoding="utf-8"))["scrape_configs"]
        for name in OURS:
            listen = COMPOSE["services"][name]["environment"]["VOXELD_PAGES_LISTEN"]
            self.assertEqual(job["static_configs"], [{"targets": ["voxeld:" + listen.rpartition(":")[2]]}])
            self.assertNotIn(listen.rpartition(":")[2], "".join(COMPOSE["services"][name]["ports"]))


class Services(unittest.TestCase):
    def test_privileges_are_dropped_and_ports_are_this_machine_s(self):
        for name, service in COMPOSE["services"].items():
            with self.subTest(name):
                self.assertIs(service["read_only"], True)
                self.assertEqual(service["cap_drop"], ["ALL"])
                self.assertEqual(service["security_opt"], ["no-new-privileges:true"])
                self.assertTrue(service["ports"])
                for port in service["ports"]:
                    self.assertTrue(port.startswith("127.0.0.1:"), port)

    def test_the_bridge_has_as_few_privileges(self):
        (bridge,) = LIVE["services"].values()
        other = COMPOSE["services"]["prometheus"]
        for name in ("profiles", "read_only", "cap_drop", "security_opt", "restart", "logging"):
            self.assertEqual(bridge[name], other[name])
        self.assertRegex(DOCKERFILE, rf"(?m)^FROM \S+ AS {bridge['build']['target']}$")
        told = options.parse(["live", *(re.sub(r"\$\{\w+:\?.*?\}", "name", word) for word in bridge["command"])])
        self.assertEqual(bridge["ports"], [f"127.0.0.1:{told.metrics[1]}:{told.metrics[1]}"])
        self.assertEqual(COMPOSE["services"]["cpu"]["networks"]["default"]["aliases"], ["voxeld"])
        self.assertEqual(told.server, "http://voxeld:8080")

    def test_both_services_are_the_same_but_for_the_image_and_the_gpu(self):
        cpu, gpu = (dict(COMPOSE["services"][name]) for name in OURS)
        self.assertEqual(gpu.pop("deploy")["resources"]["reservations"]["devices"][0]["capabilities"], ["gpu"])
        for service in (cpu, gpu):
            for own in ("image", "profiles", "build"):
                del service[own]
        self.assertEqual(cpu, gpu)

    def test_logs_do_not_grow_without_end(self):
        for name, service in COMPOSE["services"].items():
            with self.subTest(name):
                self.assertEqual(service["logging"]["driver"], "json-file")
                self.assertLessEqual({"max-size", "max-file"}, set(service["logging"]["options"]))

    def test_there_is_time_to_drain(self):
        defaults = {option["env"]: option["default"] for option in describe()["options"]}
        for name in OURS:
            service = COMPOSE["services"][name]
            options = defaults | service["environment"]
            drain = int(options["VOXELD_DRAIN_DELAY_S"]) + int(options["VOXELD_DRAIN_TIMEOUT_S"])
            grace = service["stop_grace_period"]
            self.assertGreaterEqual(int(grace[:-1]) * SECONDS[grace[-1]], drain + AFTER_DRAIN)

    def test_the_end_of_a_stop_is_reported(self):
        self.assertIn(f"it ends within {AFTER_DRAIN} s more", " ".join(OPTIONS.split()))

    def test_health_check_is_that_of_the_image(self):
        words = re.search(r"^HEALTHCHECK (.*) CMD (.*)$", DOCKERFILE, re.MULTILINE)
        expected = {"test": ["CMD", *json.loads(words[2])]}
        for pair in words[1].split():
            name, value = pair.removeprefix("--").split("=")
            expected[name.replace("-", "_")] = int(value) if value.isdigit() else value
        for name in OURS:
            self.assertEqual(COMPOSE["services"][name]["healthcheck"], expected)

    def test_tokens_are_laid_over(self):
        for name in OURS:
            service = TOKENS["services"][name]
            (secret,) = service["secrets"]
            self.assertIn(secret, TOKENS["secrets"])
            expected = {"VOXELD_ALLOW_ANONYMOUS": "no", "VOXELD_TOKEN_FILE": f"/run/secrets/{secret}"}
            self.assertEqual(service["environment"], expected)
        targets = [volume.split(":")[1] for volume in COMPOSE["services"]["prometheus"]["volumes"]]
        self.assertIn(TOKENS["services"]["prometheus"]["volumes"][0].split(":")[1], targets)


class Monitoring(unittest.TestCase):
    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool here")
    def test_prometheus_takes_its_configuration(self):
        told = subprocess.run(("promtool", "--version"), check=True, capture_output=True, text=True)
        version = re.search(r"version (\d+)\.(\d+)", told.stdout + told.stderr)
        if tuple(map(int, version.groups())) < (2, 26):
            self.skipTest(f"promtool has {version[0]}, which knows no authorization; 2.26 does")
        with tempfile.TemporaryDirectory() as folder:
            for volume in COMPOSE["services"]["prometheus"]["volumes"]:  # copied as the container has them
                source, target = volume.split(":")[:2]
                if target.startswith("/etc/prometheus/"):
                    content = (DOCKER / source).read_bytes()
                    pathlib.Path(folder, target.rpartition("/")[2]).write_bytes(content)
            command = ("promtool", "check", "config", f"{folder}/prometheus.yml")
            done = subprocess.run(command, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
