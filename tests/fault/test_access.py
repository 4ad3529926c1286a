"""Tokens, presets and certificates that change under load; Unix sockets; systemd's messages and sockets."""

import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

from client import PATIENCE, VOXELIZE, Daemon, FaultCase, head, rows, wait_until
from credentials import Authority, TlsDaemon, TokenDaemon, new_token
from daemon import BACKEND, reload, voxeld_binary


def write(path, text):
    """Replaces the file in one step."""
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.chmod(0o600)
    fresh.rename(path)


@contextlib.contextmanager
def load(number, ask):
    """`number` threads call `ask` until the block ends. Yields the list of their results and exceptions."""
    results, over = [], threading.Event()

    def work():
        while not over.is_set():
            try:
                results.append(ask())
            except Exception as reason:
                results.append(reason)

    threads = [threading.Thread(target=work) for _ in range(number)]
    for thread in threads:
        thread.start()
    try:
        yield results
    finally:
        over.set()
        for thread in threads:
            thread.join(PATIENCE)


class Reloading(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def start(self, daemon):
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        return daemon

    def test_tokens_rotate_under_load(self):
        file = self.folder / "tokens"
        steady, steady_line = new_token("steady")
        write(file, steady_line)
        daemon = self.start(TokenDaemon(steady, "--token-file", str(file)))
        old = None
        with load(3, lambda: daemon.post(VOXELIZE, rows(4)).status) as statuses:
            for turn in range(12):
                token, line = new_token(f"turn-{turn}")
                write(file, line + steady_line)
                reload(daemon, "msg=reloaded what=tokens")
                self.assertEqual(daemon.get("/v1/status", {"Authorization": f"Bearer {token}"}).status, 200)
                if old:
                    self.assertEqual(daemon.get("/v1/status", {"Authorization": f"Bearer {old}"}).status, 401)
                old = token
            wait_until(lambda: len(statuses) > 50, "some load")
        self.assertEqual(set(statuses), {200})
        daemon.stop()

    def test_blanks_around_a_token_are_no_part_of_it(self):
        file = self.folder / "tokens"
        token, line = new_token("mine")
        write(file, line)
        daemon = self.start(TokenDaemon(token, "--token-file", str(file)))
        for value in ("Bearer {}", "Bearer {} ", "Bearer {}\t", "\tBearer  {} \t "):
            with self.subTest(value), daemon.socket() as client:
                client.sendall(head("GET", "/v1/status", "Authorization:" + value.format(token), "Connection: close"))
                self.assertIn(b" 200 ", client.recv(4096)[:16])
        daemon.stop()

    def test_a_token_taken_away_counts_no_more_on_an_open_connection(self):
        file = self.folder / "tokens"
        steady, steady_line = new_token("steady")
        token, line = new_token("leaving")
        write(file, steady_line + line)
        daemon = self.start(TokenDaemon(steady, "--token-file", str(file)))
        connection = daemon.connection()
        self.addCleanup(connection.close)
        ask = lambda: daemon.request("GET", "/v1/status", None, {"Authorization": f"Bearer {token}"}, connection).status
        self.assertEqual(ask(), 200)
        kept = connection.sock
        write(file, steady_line)
        reload(daemon, "msg=reloaded what=tokens")
        self.assertEqual(ask(), 401)
        self.assertIs(connection.sock, kept)
        daemon.stop()

    def test_broken_files_keep_what_was(self):
        tokens, presets = self.folder / "tokens", self.folder / "presets"
        presets.mkdir()
        preset = {"description": "x", "parameters": {"point_cloud_range": [0, 0, 0, 4, 4, 4], "voxel_size": [1, 1, 1]}}
        write(presets / "mine.json", json.dumps(preset))
        steady, line = new_token("steady")
        write(tokens, line)
        daemon = self.start(TokenDaemon(steady, "--token-file", str(tokens), "--presets-dir", str(presets)))
        write(tokens, "half a li")
        write(presets / "mine.json", "{")
        reload(daemon, 'msg="not reloaded" what=tokens')
        told = lambda: any("not reloaded" in line and "what=presets" in line for line in list(daemon.lines))
        wait_until(told, "the presets' line")
        self.assertEqual(daemon.get("/v1/presets/mine").status, 200)
        tokens.unlink()
        reload(daemon, 'msg="not reloaded" what=tokens')
        self.assertEqual(daemon.get("/v1/presets/mine").status, 200)
        daemon.stop()

    def test_presets_change_whole_under_load(self):
        def preset(size, description):
            ranges = {"point_cloud_range": [0, 0, 0, size, size, size], "voxel_size": [1, 1, 1]}
            return json.dumps({"description": description, "parameters": ranges})

        write(self.folder / "mine.json", preset(4, "small"))
        daemon = self.start(Daemon("--presets-dir", str(self.folder)))
        asked = lambda: daemon.post("/v1/voxelize?preset=mine", rows(4), {"Accept": "application/json"}).json()[
            "grid_size"
        ][0]
        page = lambda: len(daemon.get("/v1/presets").json()["presets"])
        with load(2, asked) as sizes, load(1, page) as pages:
            for turn in range(12):
                write(self.folder / "mine.json", preset(8, "x" * 500) if turn % 2 else preset(4, "small"))
                for number in range(20):
                    other = self.folder / f"other{number}.json"
                    write(other, preset(4, "y" * 500)) if turn % 2 else other.unlink(missing_ok=True)
                reload(daemon, "msg=reloaded what=presets")
                self.assertEqual(asked(), 8 if turn % 2 else 4)
            wait_until(lambda: len(sizes) > 50 and len(pages) > 10, "some load")
        self.assertEqual(set(sizes), {4, 8})  # load() keeps the KeyError that a problem would raise
        few, many = sorted(set(pages))
        self.assertEqual(many, few + 20)
        daemon.stop()

    def test_hangups_under_way_do_not_disturb_the_stop(self):
        daemon = self.start(Daemon())
        daemon.terminate()
        with contextlib.suppress(ProcessLookupError):
            for _ in range(100):
                daemon.process.send_signal(signal.SIGHUP)
        self.assertEqual(daemon.wait(), 0, daemon.log())


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl here")
class TlsReloading(FaultCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.authority = Authority(cls.folder, "ca")
        cls.other = Authority(cls.folder, "other")
        cls.authority.sign("server", "subjectAltName=IP:127.0.0.1", "server")
        cls.authority.sign("robot", "extendedKeyUsage=clientAuth", "lidar-7")
        shutil.copy(cls.folder / "ca.pem", cls.folder / "clients.pem")
        cls.daemon = TlsDaemon(cls.folder, "--tls-client-ca", str(cls.folder / "clients.pem"), client="robot")

    def serial(self):
        with self.daemon.socket() as connection:
            return connection.getpeercert()["serialNumber"]

    def test_certificates_are_renewed_under_load(self):
        serials = {self.serial()}
        with load(2, lambda: self.daemon.post(VOXELIZE, rows(4)).status) as statuses:
            for _ in range(5):
                self.authority.sign("server", "subjectAltName=IP:127.0.0.1", "server")
                reload(self.daemon, "msg=reloaded what=certificates")
                serials.add(self.serial())
            wait_until(lambda: len(statuses) > 20, "some load")
        self.assertEqual(len(serials), 6)
        self.assertEqual(set(statuses), {200})

    def test_a_broken_key_keeps_the_old_certificate(self):
        before, key = self.serial(), self.folder / "server.key"
        kept = key.read_text(encoding="utf-8")
        for broken in ("", "rubbish", (self.folder / "robot.key").read_text(encoding="utf-8")):
            write(key, broken)
            reload(self.daemon, 'msg="not reloaded" what=certificates')
            self.assertEqual(self.serial(), before)
        write(key, kept)

    def test_an_authority_taken_away_counts_no_more_on_an_open_connection(self):
        connection = self.daemon.connection()
        self.addCleanup(connection.close)
        ask = lambda: self.daemon.request("GET", "/v1/status", connection=connection).status
        self.assertEqual(ask(), 200)
        kept = connection.sock
        shutil.copy(self.folder / "other.pem", self.folder / "clients.pem")
        reload(self.daemon, "msg=reloaded what=certificates")
        self.assertEqual(ask(), 403)
        shutil.copy(self.folder / "ca.pem", self.folder / "clients.pem")
        reload(self.daemon, "msg=reloaded what=certificates")
        self.assertEqual(ask(), 200)
        self.assertIs(connection.sock, kept)


class UnixSockets(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def ask(self, path, target="/healthz", own_name=None):
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            if own_name:
                client.bind(own_name)
            client.connect(path)
            client.sendall(head("GET", target))
            return client.recv(65536)

    def test_clients_with_long_names_of_their_own(self):
        path = str(self.folder / "sock")
        with Daemon("--listen", f"unix:{path},127.0.0.1:0"):
            for length in (20, 60, 107):
                name = str(self.folder) + "/"
                self.assertIn(b" 200 ", self.ask(path, own_name=name + "x" * (length - len(name))))


class Supervisor(unittest.TestCase):
    """Plays systemd: receives the daemon's messages, and hands sockets over."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def told(self, address):
        ear = self.enterContext(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        ear.bind(address)
        ear.settimeout(PATIENCE)
        name = "@" + address[1:] if address.startswith("\0") else address
        daemon = Daemon(env={"NOTIFY_SOCKET": name})
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        hear = lambda: dict(line.split("=", 1) for line in ear.recv(4096).decode().splitlines())
        ready = hear()
        self.assertEqual(ready["READY"], "1")
        self.assertIn(f":{daemon.address[1]}", ready["STATUS"])
        before = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        daemon.process.send_signal(signal.SIGHUP)
        reloading = hear()
        self.assertEqual(reloading["RELOADING"], "1")
        self.assertGreaterEqual(int(reloading["MONOTONIC_USEC"]), before)
        self.assertEqual(hear()["READY"], "1")
        daemon.terminate()
        self.assertEqual(hear()["STOPPING"], "1")
        self.assertEqual(daemon.wait(), 0)

    def test_is_told_of_start_reload_and_stop(self):
        self.told(str(self.folder / "notify"))

    def test_is_told_at_an_abstract_address(self):
        self.told(f"\0voxeld-test-{os.getpid()}")

    def test_a_supervisor_that_is_gone_does_not_matter(self):
        with Daemon(env={"NOTIFY_SOCKET": str(self.folder / "nobody")}) as daemon:
            self.assertEqual(daemon.get("/healthz").status, 200)

    def activate(self, sockets, *args, environment=None):
        """Starts a daemon with these sockets as descriptors 3, 4 and so on. A shell sets LISTEN_PID, then becomes the
        daemon."""
        given = [str(listener.fileno()) for listener in sockets]
        moves = " ".join(f"{3 + i}<&{10 + i}" for i in range(len(given)))
        high = " ".join(f"{10 + i}<&{fd}" for i, fd in enumerate(given))
        script = f'exec {high}; LISTEN_PID=$$ LISTEN_FDS={len(given)} exec "$@" {moves}'
        command = ["bash", "-c", script, "sh", voxeld_binary(), "--backend", BACKEND, "--listen", "systemd", *args]
        clean = {k: v for k, v in os.environ.items() if not k.startswith("VOXELD_")}
        fds = [listener.fileno() for listener in sockets]
        process = subprocess.Popen(
            command, pass_fds=fds, stderr=subprocess.PIPE, text=True, env={**clean, **(environment or {})}
        )
        self.addCleanup(lambda: process.poll() is None and process.kill())
        self.addCleanup(process.stderr.close)
        return process

    def listener(self, family, address):
        listener = self.enterContext(socket.socket(family, socket.SOCK_STREAM))
        listener.bind(address)
        listener.listen()
        return listener

    def test_sockets_handed_over_are_served_and_left_alone(self):
        path = str(self.folder / "sock")
        tcp, unix = self.listener(socket.AF_INET, ("127.0.0.1", 0)), self.listener(socket.AF_UNIX, path)
        process = self.activate([tcp, unix])
        # Clients may connect before the service starts.
        connection = http.client.HTTPConnection(*tcp.getsockname(), timeout=PATIENCE)
        connection.request("GET", "/healthz")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(PATIENCE)
            client.connect(path)
            client.sendall(head("GET", "/healthz"))
            self.assertIn(b" 200 ", client.recv(4096))
        process.terminate()
        self.assertEqual(process.wait(PATIENCE), 0, process.stderr.read())
        self.assertTrue(os.path.exists(path), "the socket's file is systemd's")

    def test_sockets_handed_over_outlive_the_service(self):
        path = str(self.folder / "sock")
        tcp, unix = self.listener(socket.AF_INET, ("127.0.0.1", 0)), self.listener(socket.AF_UNIX, path)
        clients = []
        for _ in range(3):
            process = self.activate([tcp, unix])
            for address in (tcp.getsockname(), path):
                client = self.enterContext(socket.socket(tcp.family if address != path else unix.family))
                client.settimeout(PATIENCE)
                client.connect(address)
                client.sendall(head("GET", "/healthz"))
                clients.append(client)
            while clients:  # clients that connected while no daemon ran have waited in the socket
                self.assertIn(b" 200 ", clients.pop().recv(4096))
            process.terminate()
            self.assertEqual(process.wait(PATIENCE), 0, process.stderr.read())
            client = self.enterContext(socket.create_connection(tcp.getsockname(), PATIENCE))
            client.sendall(head("GET", "/healthz"))
            clients.append(client)

    def refused(self, sockets, reason, *args):
        process = self.activate(sockets, *args)
        self.assertEqual(process.wait(PATIENCE), 2)
        self.assertIn(reason, process.stderr.read())

    def test_sockets_that_cannot_be_served_are_refused(self):
        self.refused([], "no socket was handed over")
        self.refused(
            [self.enterContext(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))], "is not a listening stream socket"
        )
        self.refused(
            [self.enterContext(socket.socket(socket.AF_INET, socket.SOCK_STREAM))], "is not a listening stream socket"
        )
        tcp = self.listener(socket.AF_INET, ("127.0.0.1", 0))
        self.refused([tcp], "twice", "--listen", "systemd,systemd")
        self.refused([tcp], "twice", "--pages-listen", "systemd")

    def test_a_socket_beyond_loopback_needs_credentials(self):
        tcp = self.listener(socket.AF_INET, ("0.0.0.0", 0))
        self.refused([tcp], "--allow-anonymous")
        process = self.activate([tcp], "--allow-anonymous")
        connection = http.client.HTTPConnection("127.0.0.1", tcp.getsockname()[1], timeout=PATIENCE)
        connection.request("GET", "/v1/status")
        self.assertEqual(connection.getresponse().status, 200)
        connection.close()
        process.terminate()
        self.assertEqual(process.wait(PATIENCE), 0, process.stderr.read())


del FaultCase  # base classes are not tests

if __name__ == "__main__":
    unittest.main()
