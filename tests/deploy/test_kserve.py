"""docker/kubernetes/kserve: the manifests fit the classes of KServe's Python package and agree with
docker/kubernetes/base."""

import copy
import json
import re
import shutil
import subprocess
import tempfile
import unittest

import kubernetes.client
import yaml

from daemon import ROOT, Daemon
from kserve_parts import models
from tables import describe

FOLDER = ROOT / "docker" / "kubernetes"
SCALARS = {"str": str, "int": int, "bool": bool, "float": float}


def document(path):
    return yaml.safe_load((FOLDER / path).read_text(encoding="utf-8"))


def model_of(kind):
    """The class of a kind. For Kubernetes' own kinds, removes a prefix such as K8sIoApiApps."""
    short = re.sub(r"^K8sIoApi.*?(?=V\d)", "", kind)
    return getattr(models, kind, None) or getattr(kubernetes.client, short, None)


def read(kind, value, place):
    """Raises ValueError if the value does not fit the kind."""
    if listed := re.fullmatch(r"[Ll]ist\[(.*)\]", kind):
        if not isinstance(value, list):
            raise ValueError(f"{place} is not a list")
        return [read(listed[1], item, f"{place}[{i}]") for i, item in enumerate(value)]
    if mapped := re.fullmatch(r"[Dd]ict[(\[](\w+), (.*)[)\]]", kind):
        return {read(mapped[1], key, place): read(mapped[2], item, f"{place}.{key}") for key, item in value.items()}
    if kind in SCALARS:
        if type(value) is not SCALARS[kind]:
            raise ValueError(f"{place} is {value!r}; allowed: {kind}")
        return value
    if kind == "object" or kind.endswith("Quantity"):
        return value
    return read_model(model_of(kind), value, place)


def read_model(model, value, place):
    names = {name: attribute for attribute, name in model.attribute_map.items()}
    for name in value:
        if name not in names:
            raise ValueError(f"{place} has {name}; allowed: {', '.join(names)}")
    given = {names[name]: read(model.openapi_types[names[name]], item, f"{place}.{name}")
             for name, item in value.items()}  # fmt: skip
    return model(**given)  # the class refuses an object without its required members


class KServe(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tables = describe()

    def setUp(self):
        self.runtime, self.service = document("kserve/runtime.yaml"), document("kserve/service.yaml")
        (self.container,) = self.runtime["spec"]["containers"]
        self.predictor = self.service["spec"]["predictor"]
        self.pod = document("base/deployment.yaml")["spec"]["template"]["spec"]
        (self.base,) = self.pod["containers"]

    def test_the_resources_fit(self):
        read("V1alpha1ServingRuntime", self.runtime, "runtime")
        read("V1beta1InferenceService", self.service, "service")

    def test_what_does_not_fit_is_found(self):
        def spoilt(kind, whole, change):
            changed = copy.deepcopy(whole)
            change(changed["spec"])
            with self.assertRaises(ValueError):
                read(kind, changed, kind)

        for change in (
            lambda spec: spec.pop("containers"),
            lambda spec: spec.update(supportedFormats=[]),
            lambda spec: spec["supportedModelFormats"][0].update(version=1),
            lambda spec: spec["containers"][0].update(probe={}),
            lambda spec: spec["containers"][0].pop("name"),
            lambda spec: spec["containers"][0]["startupProbe"]["httpGet"].pop("port"),
        ):
            spoilt("V1alpha1ServingRuntime", self.runtime, change)
        for change in (
            lambda spec: spec.pop("predictor"),
            lambda spec: spec["predictor"]["model"].pop("modelFormat"),
            lambda spec: spec["predictor"].update(minReplicas="2"),
            lambda spec: spec["predictor"]["autoScaling"]["metrics"][0]["external"]["metric"].update(url=""),
        ):
            spoilt("V1beta1InferenceService", self.service, change)

    def test_the_service_chooses_the_runtime(self):
        model = self.predictor["model"]
        (served,) = self.runtime["spec"]["supportedModelFormats"]
        self.assertEqual(model["runtime"], self.runtime["metadata"]["name"])
        self.assertEqual(model["modelFormat"]["name"], served["name"])
        self.assertIn(model["protocolVersion"], self.runtime["spec"]["protocolVersions"])
        self.assertEqual(self.container["name"], "kserve-container")

    def test_pods_are_those_of_the_base(self):
        for port in self.container["ports"]:
            self.assertEqual(port.pop("protocol"), "TCP")
        self.assertEqual(self.container["ports"], self.base["ports"])
        self.assertEqual(self.container["securityContext"], self.base["securityContext"])
        self.assertEqual(self.predictor["model"]["resources"], self.base["resources"])
        of_pods = ("automountServiceAccountToken", "enableServiceLinks", "securityContext")
        for name in (*of_pods, "terminationGracePeriodSeconds"):
            self.assertEqual(self.predictor[name], self.pod[name])
        for mount in self.container["volumeMounts"]:
            self.assertIn(mount, self.base["volumeMounts"])
        for volume in self.runtime["spec"]["volumes"]:
            self.assertIn(volume, self.pod["volumes"])

    def test_options_are_those_of_the_base(self):
        values = {item["name"]: item["value"] for item in self.container["env"]}
        expected = {f"VOXELD_{name.upper()}": str(value) for name, value in
                    json.loads((FOLDER / "base" / "voxeld.json").read_text(encoding="utf-8")).items()}  # fmt: skip
        self.assertEqual(values, expected | {item["name"]: item["value"] for item in self.base["env"]})
        self.assertLessEqual(set(values), {option["env"] for option in self.tables["options"]})

    def test_probes_ask_kserves_endpoints_as_often_as_in_the_base(self):
        paths = {endpoint["path"] for endpoint in self.tables["endpoints"] if endpoint["method"] == "GET"}
        for probe, path in (("livenessProbe", "live"), ("readinessProbe", "ready"), ("startupProbe", "ready")):
            with self.subTest(probe):
                asked = self.container[probe]
                self.assertEqual(asked["httpGet"], {"path": f"/v2/health/{path}", "port": "pages"})
                self.assertIn(asked["httpGet"]["path"], paths)
                self.assertEqual({**asked, "httpGet": 0}, {**self.base[probe], "httpGet": 0})

    def query(self):
        (metric,) = self.predictor["autoScaling"]["metrics"]
        return metric["external"]["metric"]["query"]

    def test_the_autoscaler_reads_metrics_that_exist(self):
        read_here = set(re.findall(r"voxeld_[a-z_]+", self.query()))
        self.assertLessEqual(read_here, {metric["name"] for metric in self.tables["metrics"]})
        with Daemon() as daemon:
            page = daemon.get("/metrics").body.decode()
        for name in read_here:
            self.assertRegex(page, rf"(?m)^{name}{{lanes=")

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool here")
    def test_the_query_is_sound(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"groups": [{"name": "x", "rules": [{"record": "x", "expr": self.query()}]}]}, file)
            file.flush()
            checked = subprocess.run(["promtool", "check", "rules", file.name], capture_output=True, text=True)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)


if __name__ == "__main__":
    unittest.main()
