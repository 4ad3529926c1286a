"""Listeners for pages only. tests/fault/test_page_listener.py has hostile clients."""

import pathlib
import tempfile
import unittest

from credentials import TokenDaemon, new_token
from daemon import Listener
from http_case import VOXELIZE_SMALL, HttpCase, floats, run_voxeld

ONE = floats(1, 1, 1, 1)
EIGHT = ",".join(["127.0.0.1:0"] * 8)


def ipv6_takes_ipv4_too():
    try:
        return pathlib.Path("/proc/sys/net/ipv6/bindv6only").read_text(encoding="ascii").strip() == "0"
    except OSError:
        return False


class PagesListen(HttpCase):
    def setUp(self):
        self.sock = f"unix:{self.enterContext(tempfile.TemporaryDirectory())}/sock"

    def start_pages(self, *options):
        """Starts a daemon. From now on the test sends its requests to the daemon's last listener for pages."""
        daemon = self.start(*options)
        self.daemon = Listener(daemon.page_listeners[-1])
        return daemon

    def rejected(self, part, *options):
        """Checks that the daemon's start and --check-config fail, and that both say why."""
        for check in ((), ("--check-config",)):
            run = run_voxeld("--backend", "cpu", *options, *check)
            self.assertEqual(run.status, 2, run)
            self.assertIn(part, run.errors)

    def test_every_page_is_served_there_and_no_operation(self):
        self.start("--pages-listen", "127.0.0.1:0")
        self.ok(self.post(VOXELIZE_SMALL, ONE))
        self.daemon = Listener(self.daemon.page_listeners[0])
        api = "/healthz /readyz /metrics /v1/status /v1/presets /v1/presets/kitti_second /openapi.yaml"
        for page in (*api.split(), "/", "/status", "/docs", "/ui/style.css"):
            with self.subTest(page):
                self.ok(self.ask(page))
        for method in ("GET", "HEAD"):
            self.assertEqual(self.ask("/v1/streams/s/last", method=method).status, 404)
        reason = "this listener serves only pages (--pages-listen); ask for /v1/voxelize at an address of --listen"
        self.problem(self.post(VOXELIZE_SMALL, ONE), 404, "not-found", reason=reason)
        self.problem(self.ask("/healthz", method="DELETE"), 405, "method-not-allowed")

    def test_the_log_names_all_of_them_and_none_if_there_is_none(self):
        daemon = self.start_pages("--pages-listen", f"127.0.0.1:0,{self.sock}")
        self.assertEqual(len(daemon.listeners), 1)
        port, sock = daemon.page_listeners
        self.assertTrue(port.startswith("127.0.0.1:"))
        self.assertEqual(sock, self.sock)
        self.ok(self.ask("/healthz"))
        daemon.stop()
        self.assertFalse(pathlib.Path(self.daemon.address).exists())
        (line,) = self.start().logged("msg=listening")
        self.assertNotIn("pages=", line)

    def test_each_list_may_have_eight(self):
        self.start_pages("--listen", EIGHT, "--pages-listen", EIGHT)
        self.ok(self.ask("/healthz"))
        self.rejected("up to 8 listeners", "--listen", "127.0.0.1:0", "--pages-listen", f"{EIGHT},127.0.0.1:0")

    def test_beyond_loopback_it_needs_what_listen_needs(self):
        beyond = ("--pages-listen", "0.0.0.0:0")
        why = "cannot listen on 0.0.0.0:0: clients on other machines"
        self.rejected(why, "--listen", "127.0.0.1:0", *beyond)
        self.start(*beyond, "--allow-anonymous")

    def test_bad_addresses_are_refused(self):
        why = "cannot listen on 127.0.0.1: expected"
        self.rejected(why, "--listen", "127.0.0.1:0", "--pages-listen", "127.0.0.1")
        (address,) = self.start().listeners
        run = run_voxeld("--backend", "cpu", "--listen", "127.0.0.1:0", "--pages-listen", address)
        self.assertEqual(run.status, 2, run)
        self.assertIn(f"cannot listen on {address}: bind", run.errors)

    def test_check_config_refuses_two_listeners_of_which_one_cannot_be_bound(self):
        clashes = [
            ("127.0.0.1:8080", "127.0.0.1:8080"),
            ("127.0.0.1:8080", "0.0.0.0:8080"),
            ("0.0.0.0:8080", "127.0.0.1:8080"),
            ("[::]:8080", "[::1]:8080"),
            (self.sock, self.sock),
            ("systemd", "systemd"),
        ]
        if ipv6_takes_ipv4_too():
            clashes.append(("[::]:8080", "127.0.0.1:8080"))
        check = ("--check-config", "--allow-anonymous")
        for listen, pages in clashes:
            with self.subTest(listen=listen, pages=pages):
                why = f"cannot listen on {pages}: it cannot be bound together with {listen}, which is listed too"
                self.rejected(why, *check, "--listen", listen, "--pages-listen", pages)
        self.rejected("is listed too", *check, "--listen", "127.0.0.1:8080,127.0.0.1:08080")
        for good in (
            "127.0.0.1:0,127.0.0.1:0",
            "127.0.0.1:8080,127.0.0.1:8081",
            "127.0.0.1:8080,127.0.0.2:8080",
            "[::1]:8080,0.0.0.0:8080",
            f"{self.sock},{self.sock}.2",
            "systemd,127.0.0.1:8080",
        ):
            with self.subTest(good):
                run = run_voxeld("--backend", "cpu", *check, "--listen", good)
                self.assertEqual(run.status, 0, run)

    def test_health_and_readiness_need_no_token_the_other_pages_do(self):
        token, line = new_token("prometheus")
        tokens = pathlib.Path(self.sock.removeprefix("unix:")).with_name("tokens")
        tokens.write_text(line, encoding="ascii")
        tokens.chmod(0o600)
        options = ("--pages-listen", "127.0.0.1:0", "--token-file", str(tokens))
        daemon = self.enterContext(TokenDaemon(token, *self.LANES, *options))
        self.daemon = Listener(daemon.page_listeners[0])
        for page in ("/healthz", "/readyz"):
            self.ok(self.ask(page))
        for page in ("/metrics", "/v1/status", "/v1/presets", "/nowhere"):
            with self.subTest(page):
                self.problem(self.ask(page), 401, "unauthorized")
        self.ok(self.ask("/metrics", f"Authorization: Bearer {token}"))


if __name__ == "__main__":
    unittest.main()
