"""curl's own behaviour: 100 Continue before a large body, bytes that -d strips, kept connections, Unix sockets, TLS."""

import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from credentials import Authority, TlsDaemon
from daemon import PATIENCE, started, wait_until
from http_case import CHUNKED, JSON, KITTI, SharedDaemonCase, TensorFile, scan

LIMIT = 4 << 20
SCAN = scan()  # so large that curl first waits for 100 Continue


@unittest.skipUnless(shutil.which("curl"), "there is no curl here")
class Curl(SharedDaemonCase):
    ARGS = ("--max-body-bytes", str(LIMIT))

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        for name, body in (("scan", SCAN), ("large", bytes(LIMIT + 16)), ("stripped", SCAN[:16000])):
            (cls.folder / name).write_bytes(body)
        cls.url = "http://%s:%d" % cls.daemon.address

    def curl(self, *arguments):
        command = ["curl", "-sS", "--max-time", str(PATIENCE), *arguments]
        return subprocess.run(command, check=True, capture_output=True, cwd=self.folder).stdout

    def post(self, name, query, *arguments, url=None):
        return self.curl("--data-binary", f"@{name}", *arguments, f"{url or self.url}{query}")

    def test_a_scan_and_its_answer_are_whole_over_http_and_tls_and_a_unix_socket(self):
        expected = TensorFile(self.post("scan", KITTI)).data
        answer = self.post("scan", KITTI, "-H", CHUNKED)
        self.assertEqual(TensorFile(answer).data, expected)
        sock = str(self.folder / "sock")
        self.start("--listen", f"unix:{sock}")
        answer = self.post("scan", KITTI, "--unix-socket", sock, url="http://localhost")
        self.assertEqual(TensorFile(answer).data, expected)
        if not shutil.which("openssl"):
            self.skipTest("there is no openssl here")
        authority = Authority(self.folder, "ca")
        authority.sign("server", "subjectAltName=IP:127.0.0.1", "server")
        with TlsDaemon(self.folder) as daemon:
            url = "https://%s:%d" % daemon.address
            answer = self.post("scan", KITTI, "--cacert", authority.path("ca.pem"), url=url)
            self.assertEqual(TensorFile(answer).data, expected)

    def test_it_reads_why_a_body_is_too_large(self):
        for lines in ((), ("-H", "Expect:"), ("-H", CHUNKED)):
            with self.subTest(lines):
                problem = json.loads(self.post("large", KITTI, *lines))
                self.assertEqual(problem["type"], "urn:voxeld:problem:body-too-large")

    def test_it_reads_a_refusal_while_it_sends(self):
        problem = json.loads(self.post("scan", "/v1/voxelize?preset=nonesuch", "-H", "Expect:"))
        self.assertEqual(problem["parameter"], "preset")

    def test_the_reason_says_that_data_without_binary_strips_bytes(self):
        problem = json.loads(self.curl("-d", "@stripped", self.url + KITTI))
        self.assertIn("--data-binary", problem["detail"])

    def connections(self, *arguments):
        """The status of each answer, and the number of connections that curl opened for it."""
        return self.curl("-w", "%{http_code} %{num_connects} ", *arguments).decode()

    def test_it_keeps_its_connection_after_a_refusal_by_the_query_too(self):
        urls = [self.url + path for path in ("/v1/voxelize?preset=nonesuch", KITTI)]
        quiet = ("-o", "large.1", "-o", "large.2")
        self.assertEqual(self.connections(*quiet, "--data-binary", "@stripped", *urls), "400 1 200 0 ")
        self.assertEqual(self.connections(*quiet, f"{self.url}/healthz", f"{self.url}/v1/status"), "200 1 200 0 ")

    def test_heads_and_http_1_0(self):
        self.assertIn(b"200 OK", self.curl("-I", f"{self.url}/openapi.yaml"))
        self.assertEqual(self.post("stripped", KITTI, "--http1.0", "-H", JSON)[:1], b"{")

    def test_events_come_as_they_happen(self):
        command = ["curl", "-sSN", f"{self.url}/v1/events"]
        with started(command, stdout=subprocess.PIPE) as curl:
            self.assertEqual(curl.stdout.readline(), b"event: open\n")
            curl.terminate()
        quiet = lambda: self.daemon.status()["streams"]["subscribers"] == 0
        wait_until(quiet, "the end of the subscription")


if __name__ == "__main__":
    unittest.main()
