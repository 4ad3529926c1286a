"""Foreign web pages must neither see nor change a local user's state. The tests send requests as browsers do.

The name of a page's host may resolve to this machine (DNS rebinding): then Host has this name. For pages of other
origins, Origin or Sec-Fetch-Site says so."""

import json
import pathlib
import socket
import tempfile
import unittest

from client import PATIENCE, ROW, VOXELIZE, Daemon, FaultCase, Raw, head, rows
from credentials import Authority, TlsDaemon, TokenDaemon, new_token
from shared import REGIONS, Memory

POINTS = rows(64)
ROOM = 1 << 20
SHARED = ("--allow-shared-memory", "--shared-memory-prefix", "voxeld-test")
STREAM = "&stream=roof&sweeps=3&pose=0,0,0,1,0,0,0&time="
LATE = VOXELIZE + STREAM + "1e12"  # a sweep that no later sweep can follow
MODEL = "/v2/models/voxelize/infer"
RANGES = {"point_cloud_range": "-10,-10,-2,10,10,2", "voxel_size": "0.5,0.5,0.5"}
# The header lines of requests from foreign pages. PORT stands for the daemon's port.
STRANGE = {
    "a host that leads here": ("Host: rebound.example",),
    "with the port": ("Host: rebound.example:PORT",),
    "with its own Origin": ("Host: rebound.example:PORT", "Origin: http://rebound.example:PORT"),
    "that looks like a proxy": ("Host: rebound.example", "X-Forwarded-For: 127.0.0.1"),
    "that begins as an address": ("Host: [::1].rebound.example",),
    "with a strange port": ("Host: localhost:PORT.rebound.example",),
    "a page elsewhere": ("Host: 127.0.0.1:PORT", "Origin: http://other.example", "Sec-Fetch-Site: cross-site"),
    "in an older browser": ("Host: 127.0.0.1:PORT", "Origin: http://other.example"),
    "in an image": ("Host: 127.0.0.1:PORT", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"),
    "by a link": ("Host: 127.0.0.1:PORT", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate"),
    "in a sandbox": ("Host: 127.0.0.1:PORT", "Origin: null"),
    "at another port": ("Host: 127.0.0.1:PORT", "Origin: http://127.0.0.1:1", "Sec-Fetch-Site: same-site"),
    "by another name": ("Host: 127.0.0.1:PORT", "Origin: http://localhost:PORT"),
    "of several origins": ("Host: 127.0.0.1:PORT", "Origin: http://127.0.0.1:PORT", "Origin: http://127.0.0.1:PORT"),
    "of several sites": ("Host: 127.0.0.1:PORT", "Sec-Fetch-Site: same-origin", "Sec-Fetch-Site: same-origin"),
    "of a list of sites": ("Host: 127.0.0.1:PORT", "Sec-Fetch-Site: same-origin, cross-site"),
    "without an origin": ("Host: 127.0.0.1:PORT", "Origin:"),
}
OWN = {
    "no browser": ("Host: 127.0.0.1:PORT",),
    "by name": ("Host: localhost:PORT",),
    "by another address": ("Host: [::1]:PORT",),
    "the daemon's own page": ("Host: 127.0.0.1:PORT", "Origin: http://127.0.0.1:PORT", "Sec-Fetch-Site: same-origin"),
    "in an older browser": ("Host: localhost:PORT", "Origin: http://localhost:PORT"),
    "behind TLS": ("Host: localhost:PORT", "Origin: https://localhost:PORT"),
    "the address bar": ("Host: localhost:PORT", "Sec-Fetch-Site: none"),
    "an empty Host": ("Host:",),
}
# Also served to foreign pages, since they reveal nothing about the user.
PUBLIC = ("/", "/status", "/docs", "/ui/main.js", "/healthz", "/readyz", "/v2/health/ready")


def part(offset, size):
    return {"shared_memory_region": "a", "shared_memory_offset": offset, "shared_memory_byte_size": size}


def infer(points, outputs=(), **parameters):
    """The body of an inference request, in JSON."""
    asked = [{"name": name, "parameters": region} for name, region in outputs]
    return json.dumps({"inputs": [points], "outputs": asked, "parameters": {**RANGES, **parameters}}).encode()


HERE = {"name": "points", "shape": [1, 4], "datatype": "FP32", "data": [1, 1, 1, 0]}
SWEEP = {"stream": "roof", "sweeps": "3", "pose": "0,0,0,1,0,0,0", "time": "1e12"}
THERE = {"name": "points", "shape": [64, 4], "datatype": "FP32", "parameters": part(0, 64 * ROW)}
# Requests that show or change what the daemon keeps of a client: method, path, body.
STATEFUL = {
    "store a sweep": ("POST", LATE, POINTS),
    "store one of another operation": ("POST", "/v1/transform?crop=-9,-9,-9,9,9,9" + STREAM + "1e12", POINTS),
    "join a stream": ("POST", f"{VOXELIZE}&stream=page&streams=roof,page&sweeps=3&pose=0,0,0,1,0,0,0&time=9", POINTS),
    "store one by KServe": ("POST", MODEL, infer(HERE, **SWEEP)),
    "list streams": ("GET", "/v1/streams", b""),
    "show a stream": ("GET", "/v1/streams/roof", b""),
    "ask for its head": ("HEAD", "/v1/streams/roof", b""),
    "read its points": ("GET", "/v1/streams/roof/last", b""),
    "follow it": ("GET", "/v1/streams/roof/events", b""),
    "follow all": ("GET", "/v1/events", b""),
    "drop it": ("DELETE", "/v1/streams/roof", b""),
    "read a region": ("POST", f"{VOXELIZE}&points_region=a,0,{64 * ROW}", b""),
    "write a region": ("POST", f"{VOXELIZE}&output_region=a,0,{ROOM}", POINTS),
    "read a region by KServe": ("POST", MODEL, infer(THERE)),
    "write one by KServe": ("POST", MODEL, infer(HERE, [("voxel_coords", part(0, ROOM))])),
    "list regions": ("GET", f"{REGIONS}/status", b""),
    "show a region": ("GET", f"{REGIONS}/region/a/status", b""),
    "register a region": ("POST", f"{REGIONS}/region/b/register", b'{"key":"KEY","byte_size":16}'),
    "unregister it": ("POST", f"{REGIONS}/region/a/unregister", b""),
    "unregister all": ("POST", f"{REGIONS}/unregister", b""),
}


class Foreign(FaultCase):
    ARGS = (*SHARED, "--stream-ttl-s", "3600")

    def setUp(self):
        super().setUp()
        self.memory = Memory(ROOM)
        self.addCleanup(self.memory.__exit__)
        self.memory.write(POINTS)
        self.begin()

    def tearDown(self):
        self.daemon.post(f"{REGIONS}/unregister")
        self.daemon.request("DELETE", "/v1/streams/roof")
        super().tearDown()

    def begin(self):
        """Makes a stream and a region, as a user of this machine."""
        if self.memory.register(self.daemon, "a").status != 200:
            self.assertEqual(self.daemon.get(f"{REGIONS}/region/a/status").status, 200)
        self.daemon.request("DELETE", "/v1/streams/roof")
        for time in (1, 2):
            self.assertEqual(self.daemon.post(VOXELIZE + STREAM + str(time), POINTS).status, 200)
        self.memory.write(POINTS)

    def state(self):
        streams = self.daemon.get("/v1/streams").json()["streams"]
        sweeps = [(stream["name"], stream["kept"], stream["time"], stream["points"]) for stream in streams]
        return sweeps, self.daemon.get(f"{REGIONS}/status").json(), self.memory.read(ROOM)

    def told(self, daemon, lines, method, path, body=b"", version="HTTP/1.1"):
        """The answer to a request with these header lines."""
        port = str(daemon.address[1])
        lines = [line.replace("PORT", port) for line in lines]
        body = body.replace(b"KEY", self.memory.key.encode())
        lines += [f"Content-Length: {len(body)}"] if method == "POST" else []
        with Raw(daemon) as connection:
            connection.send(head(method, path, *lines, host=False, version=version) + body)
            return connection.read(has_body=method != "HEAD")

    def assert_forbidden(self, reply, path, has_body=True):
        self.assertEqual(reply.status, 403, reply)
        if has_body:
            told = reply.json()
            self.assertEqual(told["type"], "urn:voxeld:problem:forbidden")
            self.assertIn("streams and shared memory are not for web pages of other sites", told["detail"])
            self.assertEqual("error" in told, path.startswith("/v2/"))

    def test_pages_of_strangers_have_no_state(self):
        before = self.state()
        for what, (method, path, body) in STATEFUL.items():
            for page, lines in STRANGE.items():
                with self.subTest(what, page=page):
                    reply = self.told(self.daemon, lines, method, path, body)
                    self.assert_forbidden(reply, path, method != "HEAD")
            with self.subTest(what, page="any"):
                self.assertEqual(self.state(), before)
        self.assertEqual(self.daemon.status()["streams"]["subscribers"], 0)
        self.assertEqual(self.daemon.post(VOXELIZE + STREAM + "3", POINTS).status, 200)

    def test_all_others_have_theirs(self):
        for what, (method, path, body) in STATEFUL.items():
            for page, lines in OWN.items():
                with self.subTest(what, page=page):
                    self.begin()
                    self.assertEqual(self.told(self.daemon, lines, method, path, body).status, 200)
                    self.daemon.post(f"{REGIONS}/region/b/unregister")
                    self.daemon.request("DELETE", "/v1/streams/page")

    def test_no_browser_is_without_a_host(self):
        for what, (method, path, body) in STATEFUL.items():
            with self.subTest(what):
                self.begin()
                self.assertEqual(self.told(self.daemon, (), method, path, body, version="HTTP/1.0").status, 200)
                self.daemon.post(f"{REGIONS}/region/b/unregister")
                self.daemon.request("DELETE", "/v1/streams/page")
        reply = self.told(self.daemon, ("Origin: http://",), "GET", "/v1/streams", version="HTTP/1.0")
        self.assert_forbidden(reply, "/v1/streams")

    def test_they_compute_and_see_what_is_nobodys(self):
        for page, lines in STRANGE.items():
            with self.subTest(page):
                self.assert_voxels(self.told(self.daemon, lines, "POST", VOXELIZE, POINTS))
                self.assertEqual(self.told(self.daemon, lines, "POST", MODEL, infer(HERE)).status, 200)
                status = self.told(self.daemon, lines, "GET", "/v1/status").json()
                self.assertNotIn("127.0.0.1", json.dumps(status["clients"]))
                for path in PUBLIC:
                    self.assertEqual(self.told(self.daemon, lines, "GET", path).status, 200)
        status = self.told(self.daemon, OWN["the daemon's own page"], "GET", "/v1/status").json()
        self.assertIn("127.0.0.1", json.dumps(status["clients"]))

    def test_no_page_may_ask_before_it_does(self):
        """Browsers ask with OPTIONS before a page of another origin may send DELETE or a custom header."""
        asked = (*STRANGE["a page elsewhere"], "Access-Control-Request-Method: DELETE")
        for path in ("/v1/streams/roof", "/v1/voxelize", f"{REGIONS}/unregister"):
            with self.raw() as connection:
                port = str(self.daemon.address[1])
                lines = [line.replace("PORT", port) for line in asked]
                reply = connection.send(head("OPTIONS", path, *lines, host=False)).read()
                self.assertEqual(reply.status, 405, reply)
                self.assertFalse([name for name in reply.headers if name.startswith("Access-Control")])


class Others(unittest.TestCase):
    """Names that the operator allows, credentials, proxies and Unix sockets."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def status(self, daemon, *lines, path="/v1/streams", method="GET", body=b""):
        lines += (f"Content-Length: {len(body)}",) if method == "POST" else ()
        with Raw(daemon) as connection:
            return connection.send(head(method, path, *lines, host=False) + body).read().status

    def check(self, daemon, served, refused):
        """Checks that requests with the lines in `served` get 200, and with those in `refused` 403."""
        for expected, group in ((200, served), (403, refused)):
            for lines in group:
                with self.subTest(lines):
                    self.assertEqual(self.status(daemon, *lines), expected)
                    self.assertEqual(self.status(daemon, *lines, method="POST", path=LATE, body=POINTS), expected)

    def test_allowed_hosts(self):
        with Daemon("--allowed-hosts", "voxeld.example") as daemon:
            name = "Host: voxeld.example:8080"
            own = ((name,), (name, "Origin: https://voxeld.example:8080", "Sec-Fetch-Site: same-origin"))
            self.check(daemon, own, ((name, "Origin: http://voxeld.example"), (name, "Sec-Fetch-Site: cross-site")))
            self.assertEqual(self.status(daemon, "Host: rebound.example"), 403)

    def test_a_token_stands_for_a_strange_host_but_for_no_foreign_page(self):
        token, line = new_token("mine")
        file = self.folder / "tokens"
        file.write_text(line, encoding="ascii")
        file.chmod(0o600)
        with TokenDaemon(token, "--token-file", str(file)) as daemon:
            named = (f"Authorization: Bearer {token}", "Host: voxeld.example")
            own = (named, (*named, "Origin: http://voxeld.example", "Sec-Fetch-Site: same-origin"))
            self.check(daemon, own, ((*named, "Origin: http://other.example"), (*named, "Sec-Fetch-Site: same-site")))

    def test_a_certificate_stands_for_a_strange_host_but_for_no_foreign_page(self):
        """Browsers show the user's certificate for foreign pages too."""
        authority = Authority(self.folder, "ca")
        authority.sign("server", "subjectAltName=IP:127.0.0.1", "server")
        authority.sign("robot", "extendedKeyUsage=clientAuth", "lidar-7")
        with TlsDaemon(self.folder, "--tls-client-ca", str(self.folder / "ca.pem"), client="robot") as daemon:
            named = ("Host: voxeld.example",)
            own = (named, (*named, "Origin: https://voxeld.example", "Sec-Fetch-Site: same-origin"))
            self.check(daemon, own, ((*named, "Origin: null"), (*named, "Sec-Fetch-Site: cross-site")))

    def test_trusted_proxies(self):
        with Daemon("--trusted-proxies", "127.0.0.1", *SHARED) as daemon:
            passed = ("X-Forwarded-For: 192.0.2.7", "Host: upstream")
            own = (passed, (*passed, "Origin: https://upstream", "Sec-Fetch-Site: same-origin"))
            self.check(
                daemon, own, ((*passed, "Origin: https://other.example"), (*passed, "Sec-Fetch-Site: cross-site"))
            )

    def test_unix_sockets(self):
        path = str(self.folder / "sock")
        with Daemon("--listen", f"unix:{path},127.0.0.1:0") as daemon:
            for lines, expected in (
                (("Host: any.name",), b" 200 "),
                (("Host: any.name", "Origin: http://any.name"), b" 200 "),
                (("Host: localhost", "Origin: http://other.example"), b" 403 "),
                (("Host: localhost", "Sec-Fetch-Site: cross-site"), b" 403 "),
            ):
                with self.subTest(lines), socket.socket(socket.AF_UNIX) as client:
                    client.settimeout(PATIENCE)
                    client.connect(path)
                    client.sendall(head("GET", "/v1/streams", *lines, host=False))
                    self.assertIn(expected, client.recv(65536)[:16])
            self.assertEqual(daemon.get("/v1/streams").status, 200)


if __name__ == "__main__":
    unittest.main()
