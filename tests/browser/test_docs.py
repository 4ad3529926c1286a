"""The page at /docs in a browser: it shows all of openapi.yaml, as the daemon serves it, and loads nothing else."""

import json
import unittest

import yaml

import browser
from credentials import daemon_of
from daemon import ROOT

OPENAPI = yaml.safe_load((ROOT / "api" / "openapi.yaml").read_text(encoding="utf-8"))
OPERATIONS = {
    operation["operationId"]: (path, method, operation)
    for path, methods in OPENAPI["paths"].items()
    for method, operation in methods.items()
}
PARSE = """
const [text, done] = arguments;
import("/ui/yaml.js").then(({ parseYaml }) => done([parseYaml(text)])).catch((error) => done(String(error)));
"""


def resolve(part):
    while "$ref" in part:
        keys = part["$ref"][2:].split("/")
        part = OPENAPI
        for key in keys:
            part = part[key]
    return part


def members(schema):
    """The names of the members of a schema's objects, without those of referenced schemas."""
    for name, member in schema.get("properties", {}).items():
        yield name
        yield from members(member)
    inner = [schema.get("items", {}), schema.get("additionalProperties", {})]
    for part in (*inner, *schema.get("anyOf", ()), *schema.get("allOf", ()), *schema.get("oneOf", ())):
        if part and isinstance(part, dict):
            yield from members(part)


def plain(text):
    """The text as a page shows it: without line breaks and backquotes."""
    return " ".join(text.replace("`", "").split())


def setUpModule():
    if browser.why_not():
        raise unittest.SkipTest(browser.why_not())


class Reference(browser.BrowserCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser.open(cls.daemon, "docs")
        cls.browser.await_text("#state", f"{len(OPERATIONS)} operations")

    def shown(self, identifier):
        """A section's text, its first cells and the links in it."""
        return self.browser.run(
            "const section = document.getElementById(arguments[0]);"
            "const texts = (of) => [...section.querySelectorAll(of)].map((one) => one.textContent);"
            "return [section.textContent.replace(/\\s+/g, ' '), texts('td:first-child'),"
            " [...section.querySelectorAll('a')].map((one) => one.getAttribute('href'))]",
            identifier,
        )

    def test_every_operation_with_its_parameters_and_answers(self):
        for identifier, (path, method, operation) in OPERATIONS.items():
            with self.subTest(identifier):
                text, cells, _ = self.shown(identifier)
                self.assertTrue(text.startswith(f"{method.upper()}{path}{plain(operation['summary'])}"), text[:80])
                for parameter in map(resolve, operation.get("parameters", ())):
                    self.assertIn(parameter["name"], cells)
                    self.assertIn(plain(parameter.get("description", "")), text)
                    default = parameter.get("schema", {}).get("default")
                    if default is not None:
                        words = ",".join(map(str, default)) if isinstance(default, list) else str(default)
                        self.assertIn(f"default {words}", text)
                statuses = {status for cell in cells for status in cell.split(", ")}
                self.assertLessEqual(set(operation["responses"]), statuses)
                for response in map(resolve, operation["responses"].values()):
                    self.assertIn(plain(response["description"]), text)

    def test_every_schema_with_its_members(self):
        for name, schema in OPENAPI["components"]["schemas"].items():
            with self.subTest(name):
                _, cells, _ = self.shown(f"schema-{name}")
                self.assertEqual([cell.split(".")[-1] for cell in cells], list(members(schema)))

    def test_links_lead_to_what_is_there(self):
        dead = self.browser.run(
            "return [...document.querySelectorAll('a[href^=\"#\"]')].map((one) => one.getAttribute('href'))"
            ".filter((href) => !document.getElementById(href.slice(1)))"
        )
        self.assertEqual(dead, [])
        self.assertIn("#schema-Metadata", self.shown("voxelize")[2])
        self.browser.find("#contents a[href='#getStatusPage']").click()
        top = "return document.getElementById('getStatusPage').getBoundingClientRect().top"
        browser.wait_until(lambda: 0 <= self.browser.run(top) < 300, "the operation at the top")

    def test_it_opens_at_a_schema_and_breaks_no_rule_of_its_own(self):
        self.browser.open(self.daemon, "docs#schema-Problem")
        self.browser.await_text("#state", "operations")
        top = "return document.getElementById('schema-Problem').getBoundingClientRect().top"
        self.assertLess(self.browser.run(top), 300)
        self.assertFalse(self.browser.find("#error").is_displayed())
        self.assertEqual(self.browser.messages(), [])
        loaded = self.browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        own = "http://%s:%d/" % self.daemon.address
        self.assertIn(own + "openapi.yaml", loaded)
        self.assertEqual([name for name in loaded if not name.startswith(own)], [])

    def test_a_phone(self):
        self.addCleanup(self.browser.emulate)
        self.browser.emulate(phone=True)
        self.browser.open(self.daemon, "docs")
        self.browser.await_text("#state", "operations")
        contents = self.browser.find("#contents")
        self.assertIsNone(contents.get_attribute("open"))
        contents.find_element("tag name", "summary").click()
        self.browser.find("#contents a[href='#fps']").click()
        browser.wait_until(lambda: contents.get_attribute("open") is None, "closed contents")
        small = "return [...document.querySelectorAll('summary, nav a')].filter((one) => one.offsetParent &&" \
                " one.getBoundingClientRect().height < 44).map((one) => one.outerHTML)"  # fmt: skip
        self.assertEqual(self.browser.run(small), [])
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), browser.PHONE[0])


class Yaml(browser.BrowserCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.browser.open(cls.daemon, "healthz")  # any page

    def parse(self, text):
        return self.browser.driver.execute_async_script(PARSE, text)

    def test_the_file_reads_as_another_reader_reads_it(self):
        text = self.daemon.get("/openapi.yaml").body.decode()
        self.assertEqual(self.parse(text), json.loads(json.dumps([OPENAPI])))

    def test_what_it_reads(self):
        for text in (
            "a: 1\nb:\n  c: [x y, -2.5, 'it''s', {d: \"\\n\", e: []}] # said\n",
            "a:\n- b\n- c: 1\n  d: {}\n-\te: f\n".replace("\t", " "),
            "# nothing\n\na: |\n  one\n\n    two\n  # three\n\nb:\n",
            "$ref: '#/a/b'\n'200': urn:a:b\n\"c\": a # b\nd: a#b, [c]\n",
        ):
            with self.subTest(text):
                self.assertEqual(self.parse(text), [yaml.safe_load(text)])

    def test_what_it_does_not_read_is_an_error(self):
        for text in ("a: &b 1\n", "a: *b\n", "a: >-\n  b\n", "a: [b\n", "a: {b: c\n", "a: 'b' c\n", "a\n", "a: [b}\n",
                     "a: 1\n  b: 2\n", "a: !!str 1\n"):  # fmt: skip
            with self.subTest(text):
                self.assertIn("cannot read this YAML", self.parse(text))


class Token(unittest.TestCase):
    def test_a_service_that_wants_a_token(self):
        window = browser.shared()
        with daemon_of("alice") as (daemon, token):
            window.open(daemon, "docs")
            window.await_text("#state", "the service wants a token")
            self.assertEqual(window.run("return document.activeElement.id"), "token")
            window.set("#token", token)
            window.await_text("#state", "operations")
            self.assertFalse(window.find("#error").is_displayed())


if __name__ == "__main__":
    unittest.main()
