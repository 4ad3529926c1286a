"""The endpoints that clients read: presets, status, health, metrics, the description."""

import hashlib
import re
import unittest

from client import Raw, counters
from daemon import BACKEND, ROOT, wait_until
from http_case import VOXELIZE_SMALL, SharedDaemonCase, floats, message, run_voxeld

WEB = ROOT / "api" / "web"
PRESETS = sorted(path.stem for path in (ROOT / "config" / "presets").glob("*.json"))


class Endpoints(SharedDaemonCase):
    def greediest(self, *lines):
        """The entry of /v1/status for the client with the largest share, for a request with these header lines."""
        return self.json(self.ask("/v1/status", *lines))["clients"]["greediest"][0]

    def counted(self, path, code):
        return counters(self.daemon, "voxeld_requests_total").get(f'endpoint="{path}",code="{code}"', 0)

    def test_healthz_answers_200(self):
        self.ok(self.ask("/healthz"))

    def test_readyz_answers_200_once_a_backend_works(self):
        self.ok(self.ask("/readyz"))

    def test_status_tells_backend_workers_queue_version_and_uptime_as_json(self):
        reply = self.ok(self.ask("/v1/status"))
        self.assertEqual(reply.headers["Content-Type"], "application/json")
        status = reply.json()
        self.assertIn(".", status["version"])
        self.assertEqual((status["state"], status["backend"]["name"]), ("ready", BACKEND))
        self.assertEqual((status["workers"]["count"], status["queue"]["depth"]), (2, 0))
        self.assertGreaterEqual(status["uptime_s"], 0)

    def test_status_names_clients_only_to_this_machine(self):
        clients = self.json(self.ask("/v1/status"))["clients"]
        self.assertEqual([client["name"] for client in clients["greediest"]], ["127.0.0.1"])
        self.assertEqual(clients["limits"]["connections"], 1000)
        foreign = (
            "Via: 1.1 nginx",
            "Forwarded: for=192.0.2.7",
            "X-Forwarded-For: 192.0.2.7",
            # DNS rebinding: the name of a page's host resolves to this machine.
            "Host: rebound.example",
            "Host: rebound.example:8080",
            "Host: localhost.example",
            "Host: [::1].rebound.example",
            "Host: localhost:80.example",
            # A page of another origin.
            "Origin: null",
            "Origin: http://127.0.0.1",
            "Sec-Fetch-Site: cross-site",
            "Sec-Fetch-Site: same-site",
        )
        own = "%s:%d" % self.daemon.address
        local = (
            ("Host: 127.0.0.1:8080",),
            ("Host: [::1]",),
            ("Host: localhost",),
            ("Host: scan.localhost:8080",),
            ("Host:",),
            (f"Host: {own}", f"Origin: http://{own}", "Sec-Fetch-Site: same-origin"),
        )
        for line in foreign:
            with self.subTest(line):
                self.assertNotIn("name", self.greediest(line))
        for lines in local:
            with self.subTest(lines):
                self.assertIn("name", self.greediest(*lines))
        self.start("--trusted-proxies", "127.0.0.1")
        client = self.greediest("X-Forwarded-For: 192.0.2.7")
        self.assertEqual(("connections" in client, "name" in client), (True, False))

    def test_metrics_are_in_the_prometheus_text_format(self):
        reply = self.ok(self.ask("/metrics"))
        self.assertIn("text/plain", reply.headers["Content-Type"])
        lines = reply.body.decode().splitlines()
        self.assertTrue(any(line.startswith("# HELP voxeld_") for line in lines))
        self.assertTrue(any(line.startswith("# TYPE voxeld_") for line in lines))
        sample = re.compile(r"[a-z_]+(\{[^}]*\})? [-+0-9.eEInfNa]+")
        self.assertEqual([line for line in lines if line[:1] != "#" and not sample.fullmatch(line)], [])

    def test_a_voxelize_request_is_counted_in_the_metrics(self):
        self.ok(self.post(VOXELIZE_SMALL, floats(1, 1, 1, 1)))
        wait_until(lambda: self.counted("/v1/voxelize", 200) == 1, "one request counted")

    def test_presets_are_every_file_of_the_folder_with_its_parameters(self):
        reply = self.ok(self.ask("/v1/presets"))
        self.assertEqual(reply.headers["Content-Type"], "application/json")
        presets = reply.json()["presets"]
        self.assertEqual(sorted(preset["name"] for preset in presets), PRESETS)
        self.assertTrue(all(preset["description"] and preset["parameters"]["num_features"] for preset in presets))

    def test_a_presets_name_gives_that_one(self):
        preset = self.json(self.ask("/v1/presets/kitti_second"))
        self.assertEqual((preset["name"], preset["parameters"]["max_voxels"]), ("kitti_second", 40000))

    def test_an_unknown_presets_page_is_404(self):
        self.problem(self.ask("/v1/presets/nonesuch"), 404, "not-found")

    def test_openapi_yaml_is_the_file_of_api(self):
        self.assertEqual(self.ok(self.ask("/openapi.yaml")).body, (ROOT / "api" / "openapi.yaml").read_bytes())

    def test_the_page_for_browsers_comes_from_the_binary_and_may_load_nothing_from_elsewhere(self):
        for name, kind in (("index.html", "text/html"), ("style.css", "text/css"), ("icon.svg", "image/svg+xml")):
            with self.subTest(name):
                reply = self.ok(self.ask(f"/ui/{name}"))
                self.assertEqual(reply.body, (WEB / name).read_bytes())
                self.assertIn(kind, reply.headers["Content-Type"])
                self.assertIn("default-src 'none'; script-src 'self'", reply.headers["Content-Security-Policy"])
                self.assertEqual(reply.headers["X-Content-Type-Options"], "nosniff")
                self.assertEqual(reply.headers["Referrer-Policy"], "no-referrer")
                self.assertEqual(reply.headers["Cache-Control"], "no-cache")
        self.assertEqual(self.ask("/").body, (WEB / "index.html").read_bytes())
        for path, name in (("/status", "status.html"), ("/docs", "docs.html")):
            reply = self.ask(path)
            self.assertEqual(reply.body, (WEB / name).read_bytes())
            self.assertIn("default-src 'none'", reply.headers["Content-Security-Policy"])
        reply = self.ask("/ui/nothing.js")
        self.problem(reply, 404, "not-found")
        self.assertNotIn("Content-Security-Policy", reply.headers)

    def test_a_page_that_the_client_has_is_not_sent_again(self):
        for path in ("/", "/status", "/docs", "/ui/style.css"):
            whole = self.ask(path)
            tag, size = whole.headers["Etag"], len(whole.body)
            self.assertEqual(tag, f'"{hashlib.sha256(whole.body).hexdigest()}"')
            for had in (tag, f"W/{tag}", f'"other", {tag}', "*"):
                with self.subTest(path=path, had=had):
                    reply = self.ask(path, f"If-None-Match: {had}")
                    self.assertEqual((reply.status, reply.headers["Etag"], reply.body), (304, tag, b""))
                    self.assertEqual(reply.headers["Content-Length"], str(size))
                    self.assertNotIn("Content-Type", reply.headers)
                    self.assertIn("default-src 'none'", reply.headers["Content-Security-Policy"])
                    self.assertEqual(self.ask(path, f"If-None-Match: {had}", method="HEAD").status, 304)
            for had in (tag, f'W/{tag}, "third"', "*"):  # several headers If-None-Match are one list
                with self.subTest(path=path, had=had):
                    reply = self.ask(path, 'If-None-Match: "other"', f"If-None-Match: {had}")
                    self.assertEqual((reply.status, reply.body), (304, b""))
            for had in ('"other"', tag.strip('"')):
                with self.subTest(path=path, had=had):
                    reply = self.ask(path, f"If-None-Match: {had}")
                    self.assertEqual((reply.status, len(reply.body)), (200, size))
        reply = self.ask("/ui/nothing.js", "If-None-Match: *")
        self.problem(reply, 404, "not-found")
        self.assertNotIn("Etag", reply.headers)
        self.assertNotIn("Etag", self.ok(self.ask("/v1/status", "If-None-Match: *")).headers)  # a page without a tag
        self.problem(self.ask("/", method="DELETE"), 405, "method-not-allowed")
        wait_until(lambda: self.counted("/", 304) == 11, "eleven answers without a page counted")

    def test_describe_is_what_the_option_prints(self):
        self.assertEqual(self.ok(self.ask("/v1/describe")).body.decode(), run_voxeld("--describe").output)

    def test_an_unknown_path_is_404(self):
        for path in (
            "//",
            "/ui",
            "/v1",
            "/v1/voxelize/",
            "/v1/Voxelize",
            "/favicon.ico",
            "/healthz/x",
            "/v1/presets/",
            "/..%2f..%2fetc/passwd",
            "/%ff%fe",
        ):
            with self.subTest(path):
                self.problem(self.ask(path), 404, "not-found", reason="/v1/voxelize, /v1/fps, /v1/points, ")
        self.problem(self.ask("/v1/sort"), 404, "not-found", reason="nothing at /v1/sort;")

    def test_a_nul_in_the_path_is_not_taken_for_the_path_before_it(self):
        self.assertIn(self.ask("/healthz%00x").status, (404, 400))

    def test_a_wrong_method_is_405_and_says_what_is_allowed(self):
        reply = self.ask("/v1/voxelize")
        self.problem(reply, 405, "method-not-allowed")
        self.assertEqual(reply.headers["Allow"], "POST")
        for path in (
            "/healthz",
            "/readyz",
            "/metrics",
            "/v1/status",
            "/v1/presets",
            "/v1/presets/kitti_second",
            "/openapi.yaml",
        ):
            with self.subTest(path):
                reply = self.ask(path, method="DELETE")
                self.problem(reply, 405, "method-not-allowed")
                self.assertEqual(reply.headers["Allow"], "GET, HEAD")
                self.problem(self.post(path, b"hello"), 405, "method-not-allowed")
        for method in ("PUT", "DELETE", "PATCH", "OPTIONS", "NONSENSE"):
            with self.subTest(method):
                self.problem(self.ask("/v1/voxelize", method=method), 405, "method-not-allowed")

    def test_head_answers_the_headers_of_get_without_a_body(self):
        for path in ("/healthz", "/v1/presets", "/openapi.yaml", "/", "/status", "/docs", "/ui/style.css"):
            with self.subTest(path), Raw(self.daemon) as connection:
                size = len(self.ask(path).body)
                connection.send(message(path, "Connection: close", method="HEAD"))
                self.assertEqual(self.ok(connection.read(has_body=False)).headers["Content-Length"], str(size))
                self.assertFalse(connection.rest())

    def test_two_requests_go_over_one_connection(self):
        with Raw(self.daemon) as connection:
            self.ok(connection.send(message("/healthz")).read())
            self.ok(connection.send(message("/v1/status")).read())

    def test_pipelined_requests_are_answered_in_order(self):
        with Raw(self.daemon) as connection:
            connection.send(message("/healthz", "X-Request-Id: first") + message("/nowhere", "X-Request-Id: second"))
            self.assertEqual([connection.read().headers["X-Request-Id"] for _ in range(2)], ["first", "second"])


if __name__ == "__main__":
    unittest.main()
