"""api/openapi.yaml agrees with the program's tables, row by row."""

import re
import unittest

import yaml

from daemon import ROOT
from tables import describe, meaning, path_of
from tables import row as table_row
from tables import same_rows, shape_of

OPENAPI = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text(encoding="utf-8"))
METHODS = ("get", "put", "post", "delete", "patch", "head", "options")
INTEGER = re.compile(r"a whole number from (-?\d+) to (-?\d+)")


def by(rows, key):
    return {key(entry): entry for entry in rows}


def resolve(node):
    """Follows the node's $ref, if it has one."""
    while isinstance(node, dict) and "$ref" in node:
        target = OPENAPI
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def references(node):
    if isinstance(node, dict):
        if "$ref" in node:
            yield node["$ref"]
        for value in node.values():
            yield from references(value)
    elif isinstance(node, list):
        for value in node:
            yield from references(value)


class OpenApi(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.tables = describe()

    def same_names(self, described, documented):
        for name in sorted(set(described) - set(documented)):
            with self.subTest(f"in the program, not in openapi.yaml: {name}"):
                self.fail()
        for name in sorted(set(documented) - set(described)):
            with self.subTest(f"in openapi.yaml, not in the program: {name}"):
                self.fail()
        return sorted(set(described) & set(documented))

    def test_version(self):
        program = re.search(r"^project\(voxeld VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)
        self.assertEqual(OPENAPI["info"]["version"], program[1])

    def test_references(self):
        for reference in sorted(set(references(OPENAPI))):
            with self.subTest(reference):
                self.assertIsNotNone(resolve({"$ref": reference}))

    def test_endpoints(self):
        described = by(self.tables["endpoints"], lambda e: f"{e['method']} {path_of(e)}")
        documented = {
            f"{method.upper()} {path}": operation
            for path, item in OPENAPI["paths"].items()
            for method, operation in item.items()
            if method in METHODS
        }
        for name in self.same_names(described, documented):
            with self.subTest(name):
                self.assertEqual(documented[name]["summary"], described[name]["doc"])

    def test_parameters(self):
        for path, described in self.operations("parameters").items():
            rows = [resolve(p) for p in OPENAPI["paths"][path]["post"]["parameters"]]
            documented = by([p for p in rows if p["in"] == "query"], lambda p: p["name"])
            for name in self.same_names(described, documented):
                with self.subTest(f"{name} of {path}"):
                    self.same_parameter(described[name], documented[name])

    def operations(self, member):
        """{path: {name: row}} of all operations' rows in `member`. Checks that a path's rows of one name are equal."""
        paths = {}
        for operation in self.tables["operations"]:
            rows = paths.setdefault(operation["path"], {})
            for row in operation[member]:
                self.assertEqual(rows.setdefault(row["name"], row), row, f"two operations of {operation['path']}")
        return paths

    def same_parameter(self, described, documented):
        schema, allowed = documented["schema"], described["allowed"]
        doc = meaning(described)
        if integer := INTEGER.fullmatch(allowed):
            self.assertEqual((schema["minimum"], schema["maximum"]), (int(integer[1]), int(integer[2])))
        elif "enum" in schema:
            self.assertEqual(" or ".join(schema["enum"]), allowed)
        else:
            doc += "; allowed: " + allowed
        self.assertEqual(documented["description"], doc)
        self.assertEqual(documented.get("required", False), described["required"])
        if described["values"]:
            self.assertEqual(schema.get("items", schema)["enum"], described["values"])
        default = schema.get("default")
        listed = ",".join(map(str, default)) if isinstance(default, list) else default
        text = listed if listed is None else str(listed)
        self.assertEqual(text, described["default"])
        if schema["type"] == "array":  # a=1,2, not a=1&a=2
            self.assertEqual((documented["style"], documented["explode"]), ("form", False))

    def test_problems(self):
        described = by(self.tables["problems"], lambda p: "urn:voxeld:problem:" + p["name"])
        self.same_names(described, OPENAPI["components"]["schemas"]["Problem"]["properties"]["type"]["enum"])
        answered = {
            status
            for item in OPENAPI["paths"].values()
            for method, operation in item.items()
            if method in METHODS
            for status in operation["responses"]
        }
        for name, problem in described.items():
            with self.subTest(f"no endpoint is said to answer {problem['status']} ({name})"):
                self.assertIn(str(problem["status"]), answered)

    def test_warnings(self):
        kinds = OPENAPI["components"]["schemas"]["Warnings"]["items"]["properties"]["kind"]["enum"]
        self.same_names([warning["kind"] for warning in self.tables["warnings"]], kinds)

    def test_every_path_may_refuse_its_request(self):
        for path, item in OPENAPI["paths"].items():
            for method in METHODS:
                if method in item:
                    with self.subTest(f"{method} {path}"):
                        responses = set(item[method]["responses"])
                        self.assertTrue("default" in responses or {"400", "405", "408", "413"} <= responses)

    def test_tensors(self):
        self.same_names(self.tables["tensors"], OPENAPI["components"]["schemas"]["TensorName"]["enum"])

    def test_answers(self):
        types = [answer["media_type"] for answer in self.tables["answers"]]
        for path in self.operations("tensors"):
            self.same_names(types, OPENAPI["paths"][path]["post"]["responses"]["200"]["content"])

    def test_tensors_have_a_row_in_the_answers(self):
        for path, tensors in self.operations("tensors").items():
            self.assertEqual(sorted(tensors), sorted(self.operations("parameters")[path]["outputs"]["values"]))
            content = OPENAPI["paths"][path]["post"]["responses"]["200"]["content"]
            text = content["application/vnd.safetensors"]["schema"]["description"]
            rows = tensors.values()
            expected = [table_row(r["name"], shape_of(r), r["doc"], r["when"] or "always") for r in rows]
            shown = [line for line in text.splitlines() if line.startswith("| ") and " | [" in line]
            same_rows(self, expected, shown, f"{path} of openapi.yaml")


if __name__ == "__main__":
    unittest.main()
