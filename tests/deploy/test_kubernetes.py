"""docker/kubernetes: the manifests agree with each other and with the service's tables."""

import grp
import json
import os
import pathlib
import pwd
import re
import shutil
import subprocess
import tempfile
import unittest

import yaml

from balancer import program
from daemon import ROOT, Daemon
from tables import AFTER_DRAIN, describe, voxeld

FOLDER = ROOT / "docker" / "kubernetes"
UNITS = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def document(path):
    return yaml.safe_load((FOLDER / path).read_text(encoding="utf-8"))


def merged(base, patch):
    """kustomize's strategic merge, as far as needed here: lists of named items are merged by name."""
    if isinstance(base, dict) and isinstance(patch, dict):
        return {key: merged(base[key], patch[key]) if key in base and key in patch else {**base, **patch}[key]
                for key in {**base, **patch}}  # fmt: skip
    if isinstance(base, list) and all(isinstance(item, dict) and "name" in item for item in base + patch):
        items, patches = {item["name"]: item for item in base}, {item["name"]: item for item in patch}
        return list(merged(items, patches).values())
    return patch


def size(text):
    """Bytes of a quantity such as 2Gi."""
    return int(text[:-2]) * UNITS[text[-2:]]


class Kubernetes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        listed = document("base/kustomization.yaml")["resources"]
        cls.base = {found["kind"]: found for found in map(document, (f"base/{name}" for name in listed))}
        cls.deployments = {"cpu": cls.base["Deployment"],
                           "gpu": merged(cls.base["Deployment"], document("gpu/deployment.yaml"))}  # fmt: skip
        cls.tables = describe()

    def pods(self):
        """(variant, pod's spec, its container) of each variant."""
        for variant, deployment in self.deployments.items():
            spec = deployment["spec"]["template"]["spec"]
            (container,) = spec["containers"]
            yield variant, spec, container

    def environment(self, container):
        """The options in a container's environment: the image's, overridden by the pod's."""
        dockerfile = (ROOT / "docker" / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", "")
        lines = re.findall(r"^ENV (.*)", dockerfile, re.MULTILINE)
        given = dict(pair.split("=", 1) for line in lines for pair in line.split() if pair.startswith("VOXELD_"))
        return given | {item["name"]: item["value"] for item in container.get("env", [])}

    def options(self, container):
        """The options of a container's daemon, as --print-config prints them."""
        flags = {option["env"]: option["flag"] for option in self.tables["options"]}
        told = self.environment(container) | {"VOXELD_CONFIG": str(FOLDER / "base" / "voxeld.json")}
        return json.loads(
            voxeld("--print-config", *(word for name, value in told.items() for word in (flags[name], value)))
        )

    def test_every_file_is_used(self):
        for folder in (".", "base", "gpu", "kserve", "streams"):
            kustomization = document(f"{folder}/kustomization.yaml")
            used = kustomization["resources"] + [patch["path"] for patch in kustomization.get("patches", [])]
            for name in used:
                self.assertTrue((FOLDER / folder / name).exists(), name)
            there = {path.name for path in (FOLDER / folder).glob("*.yaml")}
            self.assertEqual(
                there - set(used), {"kustomization.yaml"} | ({"adapter-rules.yaml"} if folder == "." else set())
            )

    def test_images_are_those_of_this_version(self):
        # With an unchanged tag, Kubernetes would not start a rollout.
        version = voxeld("--version").split()[1]
        page = (ROOT / "docs/operate/balancing.md").read_text(encoding="utf-8")
        for variant, folder in (("cpu", "."), ("gpu", "gpu"), ("cpu", "streams")):
            (image,) = document(f"{folder}/kustomization.yaml")["images"]
            self.assertEqual(image["newTag"], f"{version}-{variant}")
        self.assertIn(f"REGISTRY/voxeld:{version}-cpu", page)
        for _, _, container in self.pods():
            self.assertEqual(container["image"], image["name"])

    def test_configuration_is_read(self):
        given = json.loads((FOLDER / "base" / "voxeld.json").read_text(encoding="utf-8"))
        for variant, _, container in self.pods():
            options = self.options(container)
            with self.subTest(variant):
                self.assertEqual({name: options[name] for name in given}, given)
                # Each option is set in one place, since the environment would override the file.
                self.assertFalse({f"VOXELD_{name.upper()}" for name in given} & set(self.environment(container)))
        self.assertEqual((options["backend"], options["on_device_lost"]), ("cuda", "exit"))

    def test_files_are_where_the_options_say(self):
        for variant, spec, container in self.pods():
            mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
            volumes = {volume["name"]: volume for volume in spec["volumes"]}
            path = self.environment(container)["VOXELD_CONFIG"]
            generator = document("base/kustomization.yaml")["configMapGenerator"][0]
            with self.subTest(variant):
                self.assertEqual(path, f"{mounts['config']}/{generator['files'][0]}")
                self.assertEqual(volumes["config"]["configMap"]["name"], generator["name"])
                self.assertEqual(
                    pathlib.Path(self.options(container)["token_file"]).parent, pathlib.Path(mounts["tokens"])
                )

    def test_no_token_is_shipped(self):
        self.assertNotIn("Secret", self.base)
        for path in FOLDER.rglob("*"):
            if path.is_file():
                self.assertNotRegex(path.read_text(encoding="utf-8"), r"sha256:[0-9a-f]{64}|secretGenerator", path)

    def test_ports_are_those_that_are_listened_on(self):
        for variant, _, container in self.pods():
            service, pages = container["ports"]
            options = self.options(container)
            rules = self.base["NetworkPolicy"]["spec"]["ingress"]
            with self.subTest(variant):
                for port, option in ((service, "listen"), (pages, "pages_listen")):
                    self.assertEqual(options[option], f"0.0.0.0:{port['containerPort']}")
                self.assertEqual(
                    [port["targetPort"] for port in self.base["Service"]["spec"]["ports"]], [service["name"]]
                )
                allowed = [port["port"] for rule in rules for port in rule["ports"]]
                self.assertEqual(allowed, [service["name"], pages["name"]])
                for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
                    self.assertEqual(container[probe]["httpGet"]["port"], pages["name"])

    def test_probes_ask_endpoints(self):
        paths = {endpoint["path"] for endpoint in self.tables["endpoints"] if endpoint["method"] == "GET"}
        for variant, _, container in self.pods():
            asked = {
                probe: container[probe]["httpGet"]["path"]
                for probe in ("livenessProbe", "readinessProbe", "startupProbe")
            }
            with self.subTest(variant):
                self.assertLessEqual(set(asked.values()), paths)
                self.assertEqual((asked["livenessProbe"], asked["readinessProbe"]), ("/healthz", "/readyz"))

    def test_grace_is_longer_than_the_drain(self):
        for variant, spec, container in self.pods():
            options = self.options(container)
            drain = options["drain_delay_s"] + options["drain_timeout_s"] + AFTER_DRAIN
            with self.subTest(variant):
                self.assertGreater(spec["terminationGracePeriodSeconds"], drain)
                # An admitted request may use its whole time limit.
                self.assertGreaterEqual(
                    options["drain_timeout_s"], options["upload_timeout_s"] + options["max_timeout_ms"] / 1000
                )

    def test_memory_is_enough(self):
        for variant, _, container in self.pods():
            options, limits = self.options(container), container["resources"]["limits"]
            processors = int(limits["cpu"])
            workers = (options["workers"] or processors) + (options["long_workers"] or (processors + 1) // 2)
            connections = (options["max_connections"] + 64) * 327 << 10  # docs/operate/tuning.md
            most = options["memory_budget_bytes"] + connections + (workers << 26)
            with self.subTest(variant):
                self.assertGreaterEqual(size(limits["memory"]), most)
                self.assertEqual(limits["memory"], container["resources"]["requests"]["memory"])

    def test_selectors_find_the_pods(self):
        for deployment in self.deployments.values():
            labels = deployment["spec"]["template"]["metadata"]["labels"]
            (spread,) = deployment["spec"]["template"]["spec"]["topologySpreadConstraints"]
            self.assertEqual(deployment["spec"]["selector"]["matchLabels"], labels)
            self.assertEqual(spread["labelSelector"]["matchLabels"], labels)
            self.assertEqual(self.base["Service"]["spec"]["selector"], labels)
            self.assertEqual(self.base["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"], labels)
            self.assertEqual(self.base["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"], labels)
            target = self.base["HorizontalPodAutoscaler"]["spec"]["scaleTargetRef"]
            self.assertEqual((target["kind"], target["name"]), ("Deployment", deployment["metadata"]["name"]))

    def test_pods_have_no_rights(self):
        for variant, spec, container in self.pods():
            with self.subTest(variant):
                self.assertTrue(spec["securityContext"]["runAsNonRoot"])
                self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                self.assertFalse(spec["automountServiceAccountToken"])
                self.assertEqual(container["securityContext"], {"allowPrivilegeEscalation": False,
                                 "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}})  # fmt: skip

    def test_gpu_is_not_needed_twice_in_a_rollout(self):
        gpu = self.deployments["gpu"]["spec"]
        self.assertEqual(gpu["template"]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], 1)
        self.assertEqual(gpu["strategy"]["rollingUpdate"], {"maxUnavailable": 1, "maxSurge": 0})

    def behind_haproxy(self):
        """{(kind, name): document} of the overlay `streams`, with its patches."""
        kustomization = document("streams/kustomization.yaml")
        made = {(one["kind"], one["metadata"]["name"]): one for one in self.base.values()}
        for name in kustomization["resources"][1:]:
            one = document(f"streams/{name}")
            made[one["kind"], one["metadata"]["name"]] = one
        for patch in kustomization["patches"]:
            one = document(f"streams/{patch['path']}")
            key = one["kind"], one["metadata"]["name"]
            made[key] = merged(made[key], one)
        return made

    def test_streams_go_through_the_balancer(self):
        made = self.behind_haproxy()
        pods, balancers = made["Deployment", "voxeld"], made["Deployment", "voxeld-balancer"]
        labels = balancers["spec"]["template"]["metadata"]["labels"]
        self.assertEqual(balancers["spec"]["selector"]["matchLabels"], labels)
        self.assertNotEqual(labels, pods["spec"]["template"]["metadata"]["labels"])
        self.assertEqual(made["Service", "voxeld"]["spec"]["selector"], labels)
        self.assertEqual(made["PodDisruptionBudget", "voxeld-balancer"]["spec"]["selector"]["matchLabels"], labels)
        headless = made["Service", "voxeld-pods"]["spec"]
        self.assertEqual(headless["selector"], pods["spec"]["template"]["metadata"]["labels"])
        self.assertEqual((headless["clusterIP"], headless["publishNotReadyAddresses"]), ("None", True))
        ways = {
            rule["ports"][0]["port"]: rule.get("from") for rule in made["NetworkPolicy", "voxeld"]["spec"]["ingress"]
        }
        self.assertEqual(ways, {"http": [{"podSelector": {"matchLabels": labels}}], "pages": None})
        options = self.options(pods["spec"]["template"]["spec"]["containers"][0])
        self.assertEqual(options["trusted_proxies"], "10.244.0.0/16")

    def test_configuration_of_the_balancer(self):
        """haproxy.cfg has the variables that the pods set. HAProxy accepts it."""
        text = (ROOT / "docker" / "haproxy.cfg").read_text(encoding="utf-8")
        made = self.behind_haproxy()
        spec = made["Deployment", "voxeld-balancer"]["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        given = {item["name"]: item["value"] for item in container["env"] if item["name"].startswith("VOXELD_")}
        for name in given:
            self.assertIn(f"{name}", text)
        host, _, port = given["VOXELD_SERVERS"].rpartition(":")
        self.assertEqual(host.split(".")[0], made["Service", "voxeld-pods"]["metadata"]["name"])
        ports = {item["name"]: item["containerPort"] for item in self.deployments["cpu"]["spec"]["template"]["spec"]
                 ["containers"][0]["ports"]}  # fmt: skip
        self.assertEqual(int(port), ports["http"])
        self.assertIn(f"presetenv VOXELD_PAGES_PORT {ports['pages']}\n", text)
        self.assertIn(f"presetenv VOXELD_FRONT :{container['ports'][0]['containerPort']}\n", text)
        self.assertEqual(given["VOXELD_STATS"], f":{container['ports'][1]['containerPort']}")
        if not program("haproxy"):
            self.skipTest("there is no haproxy here")
        given["VOXELD_SERVERS"] = given["VOXELD_SERVERS"].replace("$(NAMESPACE)", "default")
        given.update(HAPROXY_USER=pwd.getpwuid(os.geteuid())[0], HAPROXY_GROUP=grp.getgrgid(os.getegid())[0])
        command = (program("haproxy"), "-c", "-f", ROOT / "docker" / "haproxy.cfg")
        done = subprocess.run(command, env={**os.environ, **given}, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def query(self):
        """The adapter's query for one kind of lanes."""
        (rule,) = document("adapter-rules.yaml")
        return rule["metricsQuery"].replace("<<.GroupBy>>", "pod").replace("<<.LabelMatchers>>", 'lanes="quick"')

    def test_autoscaler_reads_metrics_that_exist(self):
        (rule,) = document("adapter-rules.yaml")
        read = set(re.findall(r"voxeld_\w+", rule["seriesQuery"] + self.query()))
        self.assertLessEqual(read, {metric["name"] for metric in self.tables["metrics"]})
        with Daemon() as daemon:
            page = daemon.get("/metrics").body.decode()
        for metric in self.base["HorizontalPodAutoscaler"]["spec"]["metrics"]:
            asked = metric["pods"]["metric"]
            self.assertEqual(asked["name"], rule["name"]["as"])
            for name in read:
                self.assertIn(f'{name}{{lanes="{asked["selector"]["matchLabels"]["lanes"]}"}}', page)

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool here")
    def test_query_of_the_adapter_is_sound(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"groups": [{"name": "x", "rules": [{"record": "x", "expr": self.query()}]}]}, file)
            file.flush()
            checked = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main()
