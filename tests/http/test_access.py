"""Access: tokens, certificates, Unix sockets, and where the service may listen."""

import os
import pathlib
import re
import shutil
import signal
import ssl
import stat
import subprocess
import tempfile
import unittest

from client import Raw, counters
from credentials import Authority, TlsDaemon, TokenDaemon, new_token
from daemon import OPERATOR, Daemon, Listener, wait_until
from http_case import KITTI, VOXELIZE_SMALL, HttpCase, floats, has_ipv6, message, run_voxeld, scan

ONE = floats(1, 1, 1, 1)
LOOPBACK = "127.0.0.1:0"
CHECK = "--check-config"
CHALLENGE = 'Bearer realm="voxeld"'
LONGEST_NAME = "0" * 59


def bearer(token):
    return f"Authorization: Bearer {token}"


class AccessCase(HttpCase):
    """Each test has a file of two tokens, the operator's and alice's."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.tokens = self.folder / "tokens"
        self.operator, self.token = self.new_token("operator"), self.new_token("alice")
        self.token_file = ("--token-file", str(self.tokens))
        self.sock = f"unix:{self.folder / 'sock'}"

    def new_token(self, name):
        """Adds a new token to the file of tokens. Returns the token."""
        token, line = new_token(name)
        with open(self.tokens, "a", encoding="ascii") as file:
            file.write(line)
        self.tokens.chmod(0o600)
        return token

    def start_with_tokens(self, *options):
        self.daemon = self.enterContext(TokenDaemon(self.operator, *self.LANES, *self.token_file, *options))
        return self.daemon

    def users(self, daemon):
        """Stops the daemon. Returns the users of the logged requests, without the operator's, sorted by name."""
        daemon.stop()
        requests = [line for line in daemon.lines if "msg=request" in line and f"client={OPERATOR} " not in line]
        return sorted(found[1] for line in requests if (found := re.search(r" user=(\S+)", line)))

    def is_named(self, *lines):
        """Whether /v1/status shows names of clients to a request with these header lines."""
        return "name" in self.json(self.ask("/v1/status", *lines))["clients"]["greediest"][0]

    def refused_to_start(self, part, *options):
        """Checks that the daemon ends with status 2 and a reason that contains `part`."""
        run = run_voxeld("--backend", "cpu", *options)
        self.assertEqual(run.status, 2, run)
        self.assertIn(part, run.errors)
        return run.output + run.errors


class Tokens(AccessCase):
    def test_new_token_prints_a_token_and_its_line_which_let_in(self):
        run = run_voxeld("--new-token", "lidar-7")
        self.assertRegex(run.output, r"^vxt_[A-Za-z0-9_-]{43}\n$")
        self.assertRegex(run.errors, r"^lidar-7 sha256:[0-9a-f]{64}\n$")
        with open(self.tokens, "a", encoding="ascii") as file:
            file.write(run.errors)
        daemon = self.start_with_tokens()
        self.ok(self.ask("/v1/status", bearer(run.output.strip())))
        self.assertEqual(self.users(daemon), ["lidar-7"])

    def test_what_new_token_complains_of_is_a_comment_in_the_token_file(self):
        run = run_voxeld("--new-token", "bad name")
        self.assertNotEqual(run.status, 0)
        self.assertIn("# voxeld: ", run.errors.splitlines()[-1])
        with open(self.tokens, "a", encoding="ascii") as file:
            file.write(run.errors)
        self.assertEqual(run_voxeld(*self.token_file, CHECK).status, 0)

    def test_new_token_wants_a_sound_name(self):
        for name in ("two words", "", "a:b", "x" * 65):
            with self.subTest(name):
                run = run_voxeld("--new-token", name)
                self.assertEqual(run.status, 2, run)
                self.assertIn("letters, digits", run.errors)
        self.assertEqual(run_voxeld("--new-token").status, 2)

    def test_everything_but_health_and_the_page_needs_a_token(self):
        self.start_with_tokens()
        for path in "/healthz /readyz /v2/health/live /v2/health/ready / /status /docs /ui/style.css".split():
            with self.subTest(path):
                self.ok(self.ask(path))
                self.ok(self.ask(path, bearer("wrong")))
        pages = "/v1/status /v1/describe /metrics /openapi.yaml /v1/presets /v1/presets/kitti_second"
        for path in (*pages.split(), "/nowhere", "/v1/voxelize", "/v1/voxelize?x=1", "/healthz/x"):
            with self.subTest(path):
                reply = self.ask(path)
                self.problem(reply, 401, "unauthorized")
                self.assertEqual(reply.headers["Www-Authenticate"], CHALLENGE)
        self.problem(self.post(VOXELIZE_SMALL, ONE), 401, "unauthorized")
        self.ok(self.post(VOXELIZE_SMALL, ONE, bearer(self.token)))
        self.problem(self.ask("/nowhere", bearer(self.token)), 404, "not-found")
        self.problem(self.ask("/metrics", bearer(self.token), method="DELETE"), 405, "method-not-allowed")

    def test_a_wrong_token_is_not_answered_like_none(self):
        daemon, token = self.start_with_tokens(), self.token
        wrong = (f"Bearer {token}x", f"Bearer {token[:-1]}", "Bearer ", "Bearer", "Basic YTpi", token)
        for credentials in (*wrong, f"Bearer {token} {token}", "Bearer " + "x" * 2000):
            with self.subTest(credentials):
                reply = self.ask("/v1/status", f"Authorization: {credentials}")
                self.problem(reply, 401, "invalid-token")
                self.assertEqual(reply.headers["Www-Authenticate"], f'{CHALLENGE}, error="invalid_token"')
        for credentials in (f"bearer {token}", f"BEARER   {token}"):
            self.ok(self.ask("/v1/status", f"Authorization: {credentials}"))
        daemon.await_accounts()
        self.assertEqual(counters(daemon, "voxeld_refusals_total")['reason="invalid-token"'], 8)

    def test_two_authorization_headers_are_refused(self):
        self.start_with_tokens()
        self.problem(self.ask("/v1/status", bearer(self.token), bearer(self.token)), 400, "bad-request")

    def test_after_401_the_body_is_discarded_and_the_connection_kept(self):
        with Raw(self.start_with_tokens()) as connection:
            connection.send(message(VOXELIZE_SMALL, method="POST", body=ONE))
            self.problem(connection.read_final(), 401, "unauthorized")
            connection.send(message(VOXELIZE_SMALL, bearer(self.token), method="POST", body=ONE))
            self.ok(connection.read_final())

    def test_allow_anonymous_lets_in_clients_without_a_token_not_those_with_a_wrong_one(self):
        daemon = self.start_with_tokens("--allow-anonymous")
        self.ok(self.ask("/v1/status"))
        self.ok(self.ask("/v1/status", bearer(self.token)))
        self.problem(self.ask("/v1/status", bearer("wrong")), 401, "invalid-token")
        self.assertEqual(self.users(daemon), ["alice"])

    def test_without_a_token_file_an_authorization_header_is_ignored(self):
        self.start()
        self.ok(self.ask("/v1/status", bearer("anything")))

    def test_no_secret_is_logged_or_printed(self):
        secrets = [self.token.removeprefix("vxt_"), *re.findall("sha256:([0-9a-f]+)", self.tokens.read_text("ascii"))]
        daemon = self.start_with_tokens("--log-level", "debug")
        self.ask("/v1/status", bearer(self.token))
        self.ask("/v1/status", bearer(self.token + "x"))
        self.ask("/v1/voxelize?x=1", f"Authorization: {self.token}")
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: daemon.times_logged("msg=reloaded what=tokens"), "a reload")
        with open(self.tokens, "a", encoding="ascii") as file:
            file.write(f"mallory {self.token}\n")
        daemon.process.send_signal(signal.SIGHUP)
        wait_until(lambda: daemon.times_logged('msg="not reloaded" what=tokens'), "a reload that fails")
        daemon.stop()
        printed = run_voxeld(*self.token_file, "--print-config")
        refused = self.refused_to_start("line 3", *self.token_file, CHECK)
        for said in ("".join(daemon.lines), printed.output + printed.errors, refused):
            for secret in secrets:
                self.assertNotIn(secret, said)

    def test_a_token_file_that_others_may_read_is_warned_of(self):
        self.tokens.chmod(0o644)
        self.assertTrue(self.start_with_tokens().logged("readable by everybody"))

    def test_a_bad_or_missing_token_file_keeps_the_service_from_starting(self):
        self.tokens.write_text("alice\n", encoding="ascii")
        self.refused_to_start("tokens: line 1", *self.token_file, "--listen", LOOPBACK)
        nonesuch = ("--token-file", str(self.folder / "nonesuch"))
        self.refused_to_start("No such file", *nonesuch, "--listen", LOOPBACK)
        self.refused_to_start("No such file", *nonesuch, CHECK)


class Where(AccessCase):
    def test_allowed_hosts_are_the_names_by_which_clients_may_ask(self):
        names = ("--allowed-hosts", "voxeld.example,Lidar-7")
        self.start(*names, "--listen", f"{self.sock},{LOOPBACK}", "--allow-shared-memory", "yes")
        for host in ("voxeld.example", "LIDAR-7:8080", "127.0.0.1", "localhost:8080", "[::1]:8080"):
            with self.subTest(host):
                self.ok(self.ask("/v1/streams", f"Host: {host}"))
                self.assertTrue(self.is_named(f"Host: {host}"))
        reply = self.ask("/v1/status", "Host: rebound.example:8080")
        self.problem(reply, 403, "forbidden", reason="the Host is 'rebound.example:8080'")
        rebound = "Host: rebound.example"
        self.problem(self.post(KITTI, b"abc", rebound), 403, "forbidden")
        self.ok(self.ask("/healthz", rebound))  # a probe reveals nothing
        with Raw(self.daemon) as connection:  # every browser sends a Host
            self.ok(connection.send(b"GET /v1/status HTTP/1.0\r\n\r\n").read())
        self.daemon = Listener(self.sock)
        self.assertTrue(self.is_named(rebound))
        self.start("--allowed-hosts", "voxeld.example", "--trusted-proxies", "127.0.0.1")
        self.ok(self.ask("/v1/status", "Host: upstream"))  # the proxy decides what to pass on
        self.refused_to_start("allowed_hosts is 'a:80'", "--allowed-hosts", "a:80")

    def test_who_asks_by_a_strange_name_is_not_local_unless_with_a_token(self):
        self.start_with_tokens("--allow-anonymous", "yes")
        rebound, known = "Host: rebound.example", bearer(self.token)
        self.assertFalse(self.is_named(rebound))
        reply = self.ask("/v1/streams", rebound)
        self.problem(reply, 403, "forbidden", reason="a name in --allowed-hosts, or any with a token")
        self.ok(self.ask("/v1/streams", rebound, known))
        self.assertTrue(self.is_named(rebound, known))

    def test_the_log_warns_of_tokens_over_plain_http_beyond_loopback(self):
        warned = lambda: self.daemon.times_logged("tokens come over plain HTTP")
        self.start("--listen", "0.0.0.0:0", "--allow-anonymous")
        self.assertEqual(warned(), 0)
        self.start_with_tokens("--listen", f"{LOOPBACK},[::1]:0" if has_ipv6() else LOOPBACK)
        self.assertEqual(warned(), 0)
        self.start_with_tokens("--listen", f"{LOOPBACK},0.0.0.0:0")
        (line,) = self.daemon.logged("tokens come over plain HTTP")
        self.assertIn("level=warning", line)
        self.assertIn("address=0.0.0.0:", line)
        self.assertIn("tls_cert", line)

    def test_beyond_loopback_credentials_are_needed_or_allow_anonymous(self):
        anywhere = ("--listen", "0.0.0.0:0")
        for listen in ("0.0.0.0:0", f"{LOOPBACK},0.0.0.0:0"):
            self.refused_to_start("--allow-anonymous", "--listen", listen)
            self.refused_to_start("--allow-anonymous", "--listen", listen, CHECK)
        for allowed in (("--allow-anonymous",), ("--allow-anonymous", "yes"), ("--allow-anonymous=yes",)):
            with self.subTest(allowed):
                self.start(*allowed, *anywhere)
                self.ok(self.ask("/healthz"))
        self.start_with_tokens(*anywhere)
        self.ok(self.ask("/healthz"))
        self.refused_to_start("--allow-anonymous", *anywhere, "--allow-anonymous", "no")
        self.refused_to_start("no or yes", "--allow-anonymous=maybe")

    def test_a_unix_socket_needs_no_credentials(self):
        self.start("--listen", self.sock)
        self.ok(self.ask("/v1/status"))

    def test_several_listeners_serve_side_by_side(self):
        paths = [self.folder / name for name in "ab"]
        daemon = self.start("--listen", ",".join((LOOPBACK, f"unix:{paths[0]}", LOOPBACK, f"unix:{paths[1]}")))
        self.assertEqual(len(daemon.listeners), 4)
        for name in daemon.listeners:
            with self.subTest(name):
                self.daemon = Listener(name)
                self.ok(self.post(VOXELIZE_SMALL, ONE))
        self.assertEqual(self.json(self.ask("/v1/status"))["address"], ",".join(daemon.listeners))
        daemon.stop()
        self.assertFalse(any(path.exists() for path in paths))

    def test_if_one_listener_fails_none_is_left(self):
        (address,) = self.start().listeners
        self.refused_to_start(address, "--listen", f"{self.sock},{address}")
        self.assertFalse((self.folder / "sock").exists())
        nine = ",".join([LOOPBACK] * 9)
        self.refused_to_start("up to 8 listeners", "--listen", nine)
        self.refused_to_start("up to 8 listeners", "--listen", nine, CHECK)
        self.refused_to_start("expected", "--listen", f"{LOOPBACK},")

    def test_unix_mode_is_the_mode_of_unix_sockets_from_their_beginning(self):
        mode_of = lambda: stat.S_IMODE(os.stat(self.folder / "sock").st_mode)
        self.addCleanup(os.umask, os.umask(0o077))
        for text in ("0600", "660", "0777"):
            with self.subTest(text):
                daemon = self.start("--listen", self.sock, "--unix-mode", text)
                self.assertEqual(mode_of(), int(text, 8))
                daemon.stop()
        os.umask(0o022)
        self.start("--listen", self.sock)
        self.assertEqual(mode_of(), 0o660)
        self.refused_to_start("unix_mode", "--unix-mode", "0888")
        self.refused_to_start("unix_mode", "--unix-mode", "1777")

    def test_a_unix_sockets_path_that_now_is_another_file_is_left_alone(self):
        daemon, path = self.start("--listen", self.sock), self.folder / "sock"
        path.unlink()
        path.write_text("mine", encoding="ascii")
        daemon.stop()
        self.assertEqual(path.read_text(encoding="ascii"), "mine")

    def test_a_unix_sockets_file_that_a_killed_process_left_is_replaced(self):
        Daemon("--listen", self.sock).kill()
        self.assertTrue((self.folder / "sock").is_socket())
        self.start("--listen", self.sock)

    def test_localhost_is_an_address_to_listen_on(self):
        self.start("--listen", "localhost:0")
        self.ok(self.ask("/healthz"))


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl here")
class Certificates(AccessCase):
    CLIENT = "extendedKeyUsage=clientAuth"

    @classmethod
    def setUpClass(cls):
        cls.keys = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        authority, foreign = Authority(cls.keys, "ca"), Authority(cls.keys, "foreign")
        authority.sign("server", "subjectAltName=IP:127.0.0.1,DNS:localhost", "server")
        authority.sign("robot", cls.CLIENT, "lidar-7")
        authority.sign("named", "subjectAltName=URI:spiffe://field/lidar-8", "ignored")
        authority.sign("nameless", cls.CLIENT, "has a blank")
        authority.sign("machine", "subjectAltName=DNS:lidar-10.field", "ignored")
        authority.sign("mailed", "subjectAltName=email:lidar-11@field", "ignored")
        # The bytes of this address are the text ABCD, which must not be taken for a name.
        authority.sign("numbered", "subjectAltName=IP:65.66.67.68", "lidar-12")
        authority.sign("lengthy", f"subjectAltName=URI:x:{'0' * 58},DNS:lidar-13", "ignored")  # a byte too long
        authority.sign("longest", cls.CLIENT, LONGEST_NAME)
        authority.sign("longer", cls.CLIENT, LONGEST_NAME + "0")
        authority.sign("serving", "extendedKeyUsage=serverAuth", "server-only")
        foreign.sign("stranger", cls.CLIENT, "lidar-7")
        past = ("-startdate", "20200101000000Z", "-enddate", "20200102000000Z")
        authority.sign("expired", cls.CLIENT, "lidar-9", past)
        cls.authority = ("--tls-client-ca", authority.path("ca.pem"))
        cls.own = ("--tls-cert", authority.path("server.pem"), "--tls-key", authority.path("server.key"))

    def start_tls(self, *options, client=None):
        self.daemon = self.enterContext(TlsDaemon(self.keys, *self.LANES, *options, client=client))
        return self.daemon

    def start_with_authority(self, *options):
        return self.start_tls(*self.authority, *options, client="robot")

    def show(self, client, path, *lines):
        """The answer to a request with this client's certificate; None: without a certificate."""
        self.as_client(client)
        return self.ask(path, *lines)

    def as_client(self, name):
        self.daemon.show(self.keys, name)

    def test_a_port_with_tls_serves_no_plain_http_but_unix_sockets_do(self):
        daemon = self.start_tls("--listen", f"{self.sock},{LOOPBACK}")
        self.ok(self.post(VOXELIZE_SMALL, ONE))
        with daemon.bare_socket() as plain:
            plain.sendall(message("/healthz"))
            self.assertNotIn(b"HTTP/1.1 200", plain.recv(65536))
        self.daemon = Listener(self.sock)
        self.ok(self.post(VOXELIZE_SMALL, ONE))

    def test_the_paths_of_files_may_have_one_letter(self):
        for name, link in (("server.pem", "c"), ("server.key", "k"), ("ca.pem", "a")):
            (self.folder / link).symlink_to(self.keys / name)
        options = ("--tls-cert", "c", "--tls-key", "k", "--tls-client-ca", "a", CHECK)
        self.assertEqual(run_voxeld(*options, cwd=self.folder).status, 0)

    def test_a_scan_of_megabytes_and_its_answer_are_whole_over_tls(self):
        body = scan()
        self.start_tls()
        over_tls = self.tensors(self.post(KITTI, body)).data
        self.start()
        self.assertEqual(self.tensors(self.post(KITTI, body)).data, over_tls)

    def test_only_tls_1_2_and_1_3_are_spoken(self):
        daemon = self.start_tls()
        for version in (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3):
            with self.subTest(version):
                daemon.context.minimum_version = daemon.context.maximum_version = version
                self.ok(self.ask("/healthz"))
        command = ["openssl", "s_client", "-connect", daemon.listeners[0], "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]
        run = subprocess.run(command, check=False, stdin=subprocess.DEVNULL, capture_output=True)
        self.assertNotEqual(run.returncode, 0)
        daemon.show(self.keys, None)

    def test_a_token_lets_in_over_tls(self):
        class TlsTokenDaemon(TokenDaemon, TlsDaemon):
            pass

        self.daemon = self.enterContext(TlsTokenDaemon(self.operator, self.keys, *self.LANES, *self.token_file))
        self.problem(self.ask("/v1/status"), 401, "unauthorized")
        self.ok(self.ask("/v1/status", bearer(self.token)))
        self.ok(self.ask("/healthz"))

    def test_a_client_certificate_of_the_authority_lets_in_under_its_name(self):
        daemon = self.start_with_authority("--listen", f"{self.sock},{LOOPBACK}")
        for name in ("robot", "named", "nameless"):
            self.ok(self.show(name, "/v1/status"))
        self.problem(self.show(None, "/v1/status"), 401, "unauthorized", reason="certificate")
        self.ok(self.show(None, "/readyz"))
        self.daemon = Listener(self.sock)
        self.ok(self.ask("/v1/status"))
        nameless, *named = self.users(daemon)
        self.assertRegex(nameless, "^cert:[0-9a-f]{32}$")
        self.assertEqual(named, ["cert:lidar-7", "cert:spiffe://field/lidar-8"])

    def test_a_certificate_names_its_client_by_the_first_name_that_is_a_text_of_1_to_59_bytes_without_blanks(self):
        daemon = self.start_with_authority()
        for name in ("machine", "mailed", "numbered", "lengthy", "longest", "longer"):
            self.ok(self.show(name, "/v1/status"))
        users = self.users(daemon)
        (longer,) = [user for user in users if re.fullmatch("cert:[0-9a-f]{32}", user)]
        names = (LONGEST_NAME, "lidar-10.field", "lidar-11@field", "lidar-12", "lidar-13")
        self.assertEqual(sorted(users), sorted([longer, *(f"cert:{name}" for name in names)]))

    def test_a_certificate_that_does_not_verify_is_refused_with_the_reason(self):
        self.start_with_authority()
        for name, reason in (("stranger", ""), ("expired", "expired"), ("serving", "")):
            with self.subTest(name):
                self.problem(self.show(name, "/v1/status"), 403, "forbidden", reason=reason)
                self.ok(self.show(name, "/healthz"))
        self.as_client("robot")

    def test_a_token_or_a_certificate_suffices_a_wrong_token_is_not_made_good(self):
        daemon = self.start_with_authority(*self.token_file)
        self.ok(self.show("robot", "/v1/status"))
        self.ok(self.show(None, "/v1/status", bearer(self.token)))
        self.ok(self.show("stranger", "/v1/status", bearer(self.token)))
        self.problem(self.show("robot", "/v1/status", bearer("wrong")), 401, "invalid-token")
        self.assertEqual(self.users(daemon), ["alice", "alice", "cert:lidar-7"])

    def test_client_certificates_are_credentials_enough_to_listen_elsewhere_a_server_certificate_is_not(self):
        self.start_with_authority("--listen", f"0.0.0.0:0,{LOOPBACK}")
        self.ok(self.ask("/v1/status"))
        self.assertEqual(self.daemon.times_logged("tokens come over plain HTTP"), 0)
        self.refused_to_start("--allow-anonymous", "--listen", "0.0.0.0:0", *self.own)

    def test_bad_certificates_keep_the_service_from_starting(self):
        cert, key = self.own[:2], self.own[2:]
        foreign_key = ("--tls-key", str(self.keys / "robot.key"))
        no_authority = ("--tls-client-ca", str(self.keys / "server.key"))
        self.refused_to_start("tls_key", *cert, CHECK)
        self.refused_to_start("tls_client_ca", *self.authority, CHECK)
        self.refused_to_start("tls_cert", *cert, *foreign_key, CHECK)
        self.refused_to_start("No such file", "--tls-cert", str(self.folder / "nonesuch"), *key, CHECK)
        self.refused_to_start("tls_client_ca", *self.own, *no_authority, CHECK)
        self.refused_to_start("tls_priorities", *self.own, "--tls-priorities", "LOUD", CHECK)
        self.assertEqual(run_voxeld("--backend", "cpu", *self.own, *self.authority, CHECK).status, 0)


if __name__ == "__main__":
    unittest.main()
