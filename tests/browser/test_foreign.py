"""Pages of other servers, in a real browser, send every request that they can. None of these requests changes anything.
The daemon answers the same requests from its own page."""

import contextlib
import http.server
import threading
import unittest

import browser
from client import GRID, rows
from daemon import wait_until
from shared import REGIONS, Memory

POINTS = rows(100)
ROOM = 1 << 20
STREAM = f"/v1/voxelize?{GRID}&stream=roof&sweeps=3&pose=0,0,0,1,0,0,0&time="
# Sends requests, each [method, path], one after the other. Returns the status of each answer, 0 if the page may not see
# it, or -1 if the browser did not send the request.
SEND = """
const [base, requests, mode, done] = arguments;
const send = async ([method, path]) => {
  const body = method == "POST" && path.startsWith("/v1") ? new Uint8Array(1600).buffer : undefined;
  try {
    return (await fetch(base + path, {method, mode, body, credentials: "include"})).status;
  } catch {
    return -1;
  }
};
(async () => {
  const statuses = [];
  for (const request of requests) statuses.push(await send(request));
  done(statuses);
})();
"""
# Sends a request by a form, which needs no scripts, and waits for the answer.
SUBMIT = """
const [base, path, done] = arguments;
const frame = document.createElement("iframe");
const form = document.createElement("form");
Object.assign(frame, {name: "target"});
Object.assign(form, {method: "POST", action: base + path, target: "target"});
document.body.append(frame, form);
frame.onload = () => done(true);
form.submit();
"""
REQUESTS = (
    ("POST", STREAM + "1e12"),
    ("POST", f"/v1/voxelize?{GRID}&output_region=a,0,{ROOM}"),
    ("POST", f"{REGIONS}/region/b/register"),
    ("POST", f"{REGIONS}/region/a/unregister"),
    ("POST", f"{REGIONS}/unregister"),
    ("GET", "/v1/streams"),
    ("GET", "/v1/streams/roof/last"),
)


def setUpModule():
    if browser.why_not():
        raise unittest.SkipTest(browser.why_not())


class Elsewhere(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        page = b"<!DOCTYPE html><title>elsewhere</title><body></body>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(page)))
        self.end_headers()
        self.wfile.write(page)

    def log_message(self, *arguments):
        pass


@contextlib.contextmanager
def elsewhere():
    """Yields the port of another server."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


class Foreign(browser.BrowserCase):
    ARGS = ("--allow-shared-memory", "--shared-memory-prefix", "voxeld-test", "--stream-ttl-s", "3600")

    def setUp(self):
        super().setUp()
        self.memory = self.enterContext(Memory(ROOM))
        self.memory.write(POINTS)
        self.assertEqual(self.memory.register(self.daemon, "a").status, 200)
        self.addCleanup(self.daemon.post, f"{REGIONS}/unregister")
        self.addCleanup(self.daemon.request, "DELETE", "/v1/streams/roof")
        self.assertEqual(self.daemon.post(STREAM + "1", POINTS).status, 200)
        self.base = "http://127.0.0.1:%d" % self.daemon.address[1]

    def state(self):
        (stream,) = self.daemon.get("/v1/streams").json()["streams"]
        return (stream["kept"], stream["time"]), self.daemon.get(f"{REGIONS}/status").json(), self.memory.read(ROOM)

    def send(self, requests, mode="no-cors", base=None):
        return self.browser.driver.execute_async_script(SEND, base or self.base, requests, mode)

    def asked(self):
        """How many requests the daemon has refused as forbidden."""
        self.daemon.await_accounts()
        lines = self.daemon.get("/metrics").body.decode().splitlines()
        return sum(
            float(line.split()[-1]) for line in lines if line.startswith('voxeld_refusals_total{reason="forbidden')
        )

    def test_a_page_of_another_server(self):
        """A page at another port, name or site: the browser sends all requests but DELETE; the daemon refuses them."""
        before = self.state()
        with elsewhere() as port:
            for host in ("127.0.0.1", "localhost", "page.localhost"):
                with self.subTest(host):
                    self.browser.driver.get(f"http://{host}:{port}/")
                    refused = self.asked()
                    self.assertEqual(self.send(REQUESTS), [0] * len(REQUESTS))
                    self.assertEqual(self.send([("DELETE", "/v1/streams/roof")], "cors"), [-1])
                    self.browser.driver.execute_async_script(SUBMIT, self.base, STREAM + "1e12")
                    self.assertEqual(self.asked(), refused + len(REQUESTS) + 1)
                    self.assertEqual(self.state(), before)

    def test_a_page_whose_name_leads_here(self):
        """DNS rebinding: the browser takes the page for the daemon's own; the header Host reveals the attack."""
        before = self.state()
        port = self.daemon.address[1]
        window = browser.Browser(leads_here="rebound.example")
        self.addCleanup(window.quit)
        window.driver.get(f"http://rebound.example:{port}/")
        requests = (*REQUESTS, ("DELETE", "/v1/streams/roof"), ("GET", "/v1/events"))
        statuses = window.driver.execute_async_script(SEND, "", requests, "same-origin")
        self.assertEqual(statuses, [403] * len(requests))
        self.assertEqual(self.state(), before)

    def test_the_daemons_own_page(self):
        self.browser.open(self.daemon, "docs")
        sent = [("POST", STREAM + "2"), *REQUESTS[1:2], *REQUESTS[5:], ("DELETE", "/v1/streams/roof"), *REQUESTS[3:5]]
        self.assertEqual(self.send(sent, "same-origin", ""), [200] * len(sent))
        self.assertEqual(self.daemon.get("/v1/streams").json()["streams"], [])
        self.assertEqual(self.daemon.get(f"{REGIONS}/status").json(), [])

    def test_links_from_anywhere_open_the_pages(self):
        with elsewhere() as port:
            for path, shown in (("/status", "voxeld"), ("/v1/status", '"clients"')):
                self.browser.driver.get(f"http://page.localhost:{port}/")
                self.browser.run("location.href = arguments[0]", self.base + path)
                wait_until(lambda: shown in self.browser.driver.page_source, f"{shown} at {path}")
                self.assertEqual(self.browser.run("return location.pathname"), path)


if __name__ == "__main__":
    unittest.main()
