"""--probe, the health check of containers."""

import contextlib
import json
import pathlib
import shutil
import socket
import subprocess
import tempfile
import threading
import unittest

from credentials import Authority, TlsDaemon, TokenDaemon, new_token
from daemon import PATIENCE, voxeld_binary, wait_until
from http_case import HttpCase, has_ipv6, run_voxeld

NO_IPV6 = "ip link set lo up && echo 1 >/proc/sys/net/ipv6/conf/all/disable_ipv6"
# With IPv6 off, starts a daemon that listens on [::], probes it, and stops it.
WITHOUT_IPV6 = f"""{NO_IPV6}
"$0" --backend cpu --listen "[::]:8080" --allow-anonymous 2>"$1" &
until grep -qs msg=listening "$1"; do kill -0 $! || exit 2; sleep 0.05; done
"$0" --listen "[::]:8080" --probe && echo healthy
kill $! && wait $!"""


def in_network(script, *arguments, **more):
    """Runs the shell script in its own network namespace."""
    command = ["unshare", "--map-root-user", "--net", "sh", "-c", script, *arguments]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE, **more)


class Probe(HttpCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.sock = f"unix:{self.folder / 'voxeld.sock'}"

    def probed(self, status, part, *options, env=None):
        """Checks the probe's status and text. Tries again, since on a busy machine the daemon may take longer than the
        probe's limit of 1 s."""
        run = None

        def ends_so():
            nonlocal run
            run = run_voxeld("--probe", *options, env=env)
            return run.status == status and part in run.errors

        wait_until(ends_so, lambda: f"{status}, {part}; {run}")
        return run

    def healthy(self, *options, env=None):
        """Checks that the probe succeeds and prints nothing."""
        self.assertEqual(self.probed(0, "", *options, env=env), (0, "", ""))

    def unwell(self, part, *options):
        self.probed(1, part, *options)

    def test_a_service_that_runs_is_healthy_one_that_does_not_is_not(self):
        daemon = self.start()
        (address,) = daemon.listeners
        self.healthy("--listen", address)
        self.healthy(env={"VOXELD_LISTEN": address})
        config = self.folder / "voxeld.json"
        config.write_text(json.dumps({"listen": address}), encoding="ascii")
        self.healthy("--config", str(config))
        daemon.stop()
        self.unwell(f"cannot connect to {address}: connect: Connection refused", "--listen", address)

    def test_the_first_listener_is_asked_also_if_it_listens_on_all_addresses(self):
        (address,) = self.start("--listen", "0.0.0.0:0", "--allow-anonymous").listeners
        self.healthy("--listen", f"{address},127.0.0.1:1")
        self.unwell("127.0.0.1:1", "--listen", f"127.0.0.1:1,{address}")

    def test_the_first_listener_for_pages_is_asked_if_there_is_one(self):
        (address,) = self.start().listeners
        self.healthy("--listen", "127.0.0.1:1", "--pages-listen", f"{address},127.0.0.1:1")
        self.unwell("127.0.0.1:1", "--listen", address, "--pages-listen", "127.0.0.1:1")
        self.start("--pages-listen", self.sock)
        self.healthy("--listen", "127.0.0.1:1", "--pages-listen", self.sock)

    @unittest.skipUnless(has_ipv6(), "no IPv6 loopback")
    def test_all_addresses_of_ipv6(self):
        (address,) = self.start("--listen", "[::]:0", "--allow-anonymous").listeners
        self.healthy("--listen", address)

    @unittest.skipUnless(shutil.which("ip"), "there is no ip here")
    def test_all_addresses_of_ipv6_where_ipv6_is_off(self):
        if in_network(NO_IPV6).returncode:
            self.skipTest("this system allows no namespaces with IPv6")
        run = in_network(WITHOUT_IPV6, voxeld_binary(), str(self.folder / "log"))
        self.assertEqual((run.returncode, run.stdout, run.stderr), (0, "healthy\n", ""))

    def test_a_unix_socket(self):
        daemon = self.start("--listen", self.sock)
        self.healthy("--listen", self.sock)
        daemon.stop()
        self.unwell("No such file", "--listen", self.sock)

    @unittest.skipUnless(shutil.which("openssl"), "there is no openssl here")
    def test_tls_whoever_signed_the_certificate_and_no_client_certificate_is_needed(self):
        authority = Authority(self.folder, "ca")
        authority.sign("server", "subjectAltName=IP:127.0.0.1", "elsewhere")
        tls = ("--tls-cert", authority.path("server.pem"), "--tls-key", authority.path("server.key"))
        tls += ("--tls-client-ca", authority.path("ca.pem"))
        authority.sign("client", "extendedKeyUsage=clientAuth", "client")
        pages = ("--tls-client-ca", authority.path("ca.pem"), "--pages-listen", "127.0.0.1:0")
        with TlsDaemon(self.folder, *pages, client="client") as daemon:
            (address,) = daemon.listeners
            self.healthy(*tls, "--pages-listen", daemon.page_listeners[0])
            for _ in range(20):
                self.healthy(*tls, "--listen", address)
            self.healthy(*tls, "--listen", address, "--tls-priorities", "NORMAL:-VERS-ALL:+VERS-TLS1.2")
            self.unwell("not answered", "--listen", address)  # without TLS
        (address,) = self.start().listeners
        self.unwell("over TLS", *tls, "--listen", address)

    def test_no_token_is_needed(self):
        token, line = new_token("probe")
        tokens = self.folder / "tokens"
        tokens.write_text(line, encoding="ascii")
        tokens.chmod(0o600)
        with TokenDaemon(token, "--token-file", str(tokens)) as daemon:
            self.healthy("--listen", daemon.listeners[0])

    def server(self, answer):
        """The address of a server that sends this answer to every client; None: no answer."""
        listener = self.enterContext(socket.create_server(("127.0.0.1", 0)))

        def serve():
            with contextlib.suppress(OSError):  # accept() fails when the listener is closed
                while True:
                    connection, _ = listener.accept()
                    connection.recv(4096)
                    connection.sendall(answer)
                    connection.close()

        if answer is not None:
            threading.Thread(target=serve, daemon=True).start()
        return "127.0.0.1:%d" % listener.getsockname()[1]

    def test_who_does_not_answer_is_given_up_another_answer_is_not_good(self):
        self.unwell("not answered within 1 s", "--listen", self.server(None))
        self.unwell("'HTTP/1.1 503'", "--listen", self.server(b"HTTP/1.1 503 Service Unavailable\r\n\r\n"))
        self.unwell("not answered", "--listen", self.server(b""))

    def test_bad_options_and_listeners_without_an_address_of_their_own_are_failures_with_1(self):
        self.unwell("workers", "--workers", "many")
        self.unwell("cannot connect to systemd: systemd gives the address", "--listen", "systemd")
        self.unwell("cannot connect to unix:", "--listen", "unix:")
        self.unwell("nonesuch", "--config", str(self.folder / "nonesuch"))


if __name__ == "__main__":
    unittest.main()
