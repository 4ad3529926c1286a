"""docker/haproxy.cfg: what clients see when a daemon drains or is killed, or one client floods; what the balancer
retries; the file's figures."""

import http.client
import pathlib
import re
import socketserver
import subprocess
import sys
import tempfile
import threading
import unittest

from balancer import CONFIGURATION, DRAIN_DELAY, HOST, Balancer, Patients, Wrk, program, tensors
from client import VOXELIZE, Closed, Daemon, FaultCase, Raw, counters, head, many_rows, post, rows
from client import tiled_rows, wait_until
from daemon import ROOT
from tables import describe

OPTIONS = ("--workers", "1", "--drain-delay-s", DRAIN_DELAY, "--drain-timeout-s", "60", "--trusted-proxies", HOST)
PAGES = ("--pages-listen", f"{HOST}:0")
SERVERS = 3
# A job of a second or so.
SLOW = (
    "/v1/voxelize?num_features=3&point_cloud_range=1,1,1,2,2,2&voxel_size=0.0005,0.0005,0.0005&max_voxels=16777216"
    "&order=key&block_filter=1,32,0,9&outputs=voxel_num_points"
)
SLOW_ROWS = 1_500_000


class Front(Daemon):
    """The balancer, as a Daemon to which tests send requests."""

    def __init__(self, address):
        self.address = address


class BalancerCase(unittest.TestCase):
    """Daemons behind the balancer, all of them up."""

    COUNT, MORE = 1, ()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        self.daemons = [Daemon(*OPTIONS, *self.MORE, *PAGES) for _ in range(self.COUNT)]
        self.addCleanup(
            lambda: [self.kill(n) for n, daemon in enumerate(self.daemons) if daemon.process.poll() is None]
        )
        self.balancer = self.balance(daemon.address[1] for daemon in self.daemons)
        self.until_up(self.COUNT)
        self.front = Front(self.balancer.address)

    def balance(self, ports, *options, **variables):
        """A balancer in front of SERVERS ports. Nothing answers at port 1, which stands for a missing server."""
        ports = [*ports, 1, 1, 1][:SERVERS]
        pages = {daemon.address[1]: daemon.pages[1] for daemon in self.daemons}
        balancer = Balancer(ports, self.work / "haproxy.log", *options, pages=pages, **variables)
        self.addCleanup(balancer.stop)
        return balancer

    def until_up(self, count):
        numbers = set(range(1, count + 1))
        wait_until(
            lambda: self.balancer.up() == numbers, lambda: f"servers {numbers} up; they are: {self.balancer.up()}"
        )

    def kill(self, number):
        self.daemons[number].kill()
        self.daemons[number].wait()  # so that its log is complete

    def restart(self, number):
        listen, pages = ("%s:%d" % address for address in (self.daemons[number].address, self.daemons[number].pages))
        self.daemons[number] = Daemon(*OPTIONS, "--listen", listen, "--pages-listen", pages)

    def raw(self, **socket):
        """A connection to the balancer."""
        connection = Raw(self.front, **socket)
        self.addCleanup(connection.close)
        return connection

    def assert_own_problem(self, reply, status, name, retry_after):
        """Checks for a problem of the balancer itself. `retry_after`: None, if the client should not try again."""
        self.assertEqual(reply.status, status, reply)
        self.assertEqual(reply.headers["Content-Type"], "application/problem+json")
        problem = reply.json()
        self.assertEqual((problem["status"], problem["type"]), (status, f"urn:voxeld:balancer:{name}"))
        self.assertEqual(problem["request_id"], reply.headers["X-Request-Id"])
        self.assertEqual(reply.headers.get("Retry-After"), retry_after)


class Loss(BalancerCase):
    """Under load, one of three daemons ends and comes back."""

    COUNT = 3

    def load(self):
        """Starts Patients, which retry, and wrk, which does not."""
        bodies = {"small": rows(500), "scan": tiled_rows(1 << 20)}
        expected = {body: tensors(self.daemons[0].post(VOXELIZE, body).body) for body in bodies.values()}
        for name, body in bodies.items():
            (self.work / name).write_bytes(body)
        patients = Patients(self.front.address, VOXELIZE, expected, 4)
        self.addCleanup(patients.stop)
        wrk = Wrk(self.front.address, VOXELIZE, [self.work / name for name in bodies], 4)
        self.addCleanup(wrk.end)
        self.until_served(patients)
        return patients, wrk

    def until_served(self, patients):
        """Waits until every server that is up has served 20 more requests."""
        numbers, before, served = self.balancer.up(), self.balancer.counted("sessions_total"), patients.served

        def done():
            now = self.balancer.counted("sessions_total")
            return patients.served >= served + 20 and all(now[number] >= before[number] + 20 for number in numbers)

        wait_until(done, "requests to every server")

    def come_back(self, number, patients):
        self.restart(number)
        self.until_up(self.COUNT)
        self.until_served(patients)
        self.assertGreater(sum(counters(self.daemons[number], "voxeld_jobs_total").values()), 0)

    def test_drain_loses_nothing(self):
        patients, wrk = self.load()
        self.daemons[0].terminate()
        self.assertEqual(self.daemons[0].wait(), 0, self.daemons[0].log())
        self.assertEqual(self.balancer.up(), {2, 3})
        self.until_served(patients)
        self.come_back(0, patients)
        patients.stop()
        found = wrk.result()
        self.assertEqual(patients.failures, [])
        self.assertEqual(patients.retries, {})
        self.assertEqual((found["errors"], found["non2xx"]), (0, 0), found)

    def test_kill_is_hidden_by_a_second_try(self):
        patients, wrk = self.load()
        self.kill(0)
        wait_until(lambda: self.balancer.up() == {2, 3}, "the dead server out")
        self.until_served(patients)
        self.come_back(0, patients)
        patients.stop()
        found = wrk.result()
        print(f"killed: {patients.served} answers, tried again {dict(patients.retries)}; wrk: "
              f"{found['requests']:.0f} requests,"
              f" {found['errors']:.0f} broken, {found['non2xx']:.0f} not 2xx")  # fmt: skip
        self.assertEqual(patients.failures, [])


class Ends(BalancerCase):
    """What happens to a request whose server or client is gone."""

    def waiting(self, body):
        """A connection whose job waits behind another job."""
        daemon = self.daemons[0]
        other = Raw(daemon).send(post(many_rows(SLOW_ROWS), SLOW, "Accept: application/json"))
        self.addCleanup(other.close)
        wait_until(lambda: daemon.status()["workers"]["running"] == 1, "a job that runs")
        connection = self.raw().send(post(body))
        wait_until(lambda: daemon.status()["queue"]["depth"] == 1, "a job that waits")
        return connection

    def test_server_lost_in_upload(self):
        body = tiled_rows(4 << 20)
        connection = self.raw().send(head("POST", VOXELIZE, f"Content-Length: {len(body)}") + body[: len(body) // 2])
        wait_until(lambda: self.daemons[0].status()["buffers"]["in_use_bytes"] > 0, "the upload begun")
        self.kill(0)
        try:  # the balancer answers or closes the connection; a client retries in both cases
            self.assert_own_problem(connection.read(), 502, "no-answer", "1")
        except Closed:
            pass
        self.assertTrue(connection.ended())

    def test_server_lost_while_a_scan_waits(self):
        connection = self.waiting(tiled_rows(1 << 20))
        self.kill(0)
        self.assert_own_problem(connection.read(), 502, "no-answer", "1")

    def test_server_lost_in_the_answer(self):
        # The answer is larger than sockets and the balancer hold, so it ends before its Content-Length.
        path = VOXELIZE + "&max_points_per_voxel=1024&feature=points&outputs=voxels"
        connection = self.raw(receive_buffer=4096).send(post(rows(4096), path))
        self.assertTrue(connection.readable(30))
        self.kill(0)
        with self.assertRaises(Closed):
            connection.read()

    def test_client_gone_takes_its_job_with_it(self):
        for leave in (Raw.close, Raw.reset):
            connection = self.waiting(rows(10_000))
            before = counters(self.daemons[0], "voxeld_requests_aborted_total")['stage="queue"']
            leave(connection)
            wait_until(lambda: counters(self.daemons[0], "voxeld_requests_aborted_total")['stage="queue"'] > before,
                       "the job dropped")  # fmt: skip
            self.daemons[0].assert_quiet()

    def test_half_closed_client_counts_as_gone(self):
        connection = self.waiting(rows(10_000))
        connection.finish_sending()
        self.assert_own_problem(connection.read(), 400, "bad-request", None)

    def test_no_server(self):
        self.kill(0)
        self.assert_own_problem(self.front.post(VOXELIZE, rows(10)), 503, "no-server", "1")
        wait_until(lambda: not self.balancer.up(), "no server left")
        self.assert_own_problem(self.front.get("/v1/presets"), 503, "no-server", "1")

    def test_shares_are_the_clients_own(self):
        forged = head("GET", "/v1/presets", "X-Forwarded-For: 127.0.0.66", "X-Request-Id: mine")
        self.assertEqual(self.raw(source="127.0.0.55").send(forged).read().status, 200)
        line = wait_until(lambda: [line for line in self.daemons[0].lines if "id=mine" in line], "the line of the log")[
            0
        ]
        self.assertRegex(line, r"client=127\.0\.0\.55 .*proxy=127\.0\.0\.1\b")

    def test_refusals_pass_through(self):
        connection = self.raw()
        reply = connection.send(head("POST", VOXELIZE, "Content-Length: 100000000", "Expect: 100-continue")).read()
        FaultCase.assert_problem(self, reply, 413)
        connection = self.raw()
        reply = connection.send(post(tiled_rows(1 << 20), VOXELIZE + "&max_voxels=0")).read()
        FaultCase.assert_problem(self, reply, 400, "max_voxels")
        self.assertEqual(connection.send(post(rows(10))).read().status, 200)
        connection.send(head("POST", VOXELIZE, "Transfer-Encoding: chunked") + b"A0\r\n" + rows(10) + b"\r\n0\r\n\r\n")
        self.assertEqual(connection.read().status, 200)

    def test_pipelined_requests(self):
        connection = self.raw()
        connection.send(b"".join(post(rows(100)) + head("GET", "/v1/presets") for _ in range(20)))
        self.assertEqual([connection.read().status for _ in range(40)], [200] * 40)


class Floods(BalancerCase):
    """One address takes all the connections that it can get, without time limits. Other clients are served."""

    MORE = ("--upload-min-rate", "0", "--upload-timeout-s", "3600", "--idle-timeout-s", "7200")
    SHARE = 16
    SERVER_MAXCONN = 400  # as in the configuration
    MAXCONN = 600
    FLOODER, OTHER = "127.0.0.50", "127.0.0.60"

    def balance(self, ports):
        more = {"patient": True, "VOXELD_CLIENT_CONNECTIONS": str(self.SHARE)}
        return super().balance(ports, "-n", str(self.MAXCONN), **more)

    def flood(self, number, data):
        """Opens connections. Returns those that could send the data."""
        found = []
        for _ in range(number):
            try:
                found.append(self.raw(source=self.FLOODER).send(data))
            except ConnectionError:
                pass
        return found

    def assert_refused(self, connection, reply):
        self.assert_own_problem(reply, 429, "client-over-share", "1")
        FaultCase.assert_closes(self, connection, reply)

    def assert_other_is_served(self):
        expected = tensors(self.daemons[0].post(VOXELIZE, rows(500)).body)
        reply = self.front.post(VOXELIZE, rows(500), source=self.OTHER)
        self.assertEqual((reply.status, tensors(reply.body)), (200, expected))

    def test_slow_uploads(self):
        body = tiled_rows(1 << 20)
        begun, rest = post(body)[:1000], post(body)[1000:]
        slow = self.flood(self.SHARE, begun)
        wait_until(lambda: self.balancer.counted("current_sessions")[1] == self.SHARE, "the uploads begun")
        excess = self.flood(self.SERVER_MAXCONN, begun)
        self.assert_other_is_served()
        answered = []
        for connection in excess:
            try:
                answered.append((connection, connection.read()))
            except Closed:  # the balancer closes connections far over the share
                pass
        self.assertEqual([connection.send(rest).read().status for connection in slow], [200] * self.SHARE)
        self.assertTrue(answered)
        for connection, reply in answered:  # HAProxy 3.0 waits up to `timeout client` for the rest of a refused body
            self.assert_refused(connection, reply)

    def test_idle_connections(self):
        flood = self.flood(self.MAXCONN, b"")
        self.assert_other_is_served()
        silent = lambda: sum(not connection.readable(0) for connection in flood)
        wait_until(lambda: silent() <= 2 * self.SHARE, lambda: f"the rest closed; open are {silent()}")
        self.assertEqual(silent(), 2 * self.SHARE)

    def test_share_counts_connections_at_a_time(self):
        kept = self.flood(self.SHARE, b"")
        for _ in range(3):
            self.assertEqual([connection.send(post(rows(10))).read().status for connection in kept], [200] * self.SHARE)
        late = self.raw(source=self.FLOODER)
        self.assert_refused(late, late.send(head("GET", "/v1/presets")).read())
        kept.pop().close()
        wait_until(lambda: self.front.get("/v1/presets", source=self.FLOODER).status == 200, "the share free again")
        self.assertEqual([connection.send(post(rows(10))).read().status for connection in kept], [200] * len(kept))

    def test_connection_has_one_request_at_a_time(self):
        settings = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
        connection = self.raw(source=self.FLOODER).send(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + settings)
        connection.readable(30)
        # HTTP/2 would have many requests at a time.
        self.assertEqual(connection.socket.recv(12), b"HTTP/1.1 400", "HTTP/2 is not refused")


class Scripted(socketserver.ThreadingTCPServer):
    """Answers each POST with the next of `answers` (None: closes the connection), then with 200. `heads` has the
    headers of each POST."""

    daemon_threads = True

    def __init__(self, answers):
        super().__init__((HOST, 0), Scripted.Handler)
        self.answers, self.heads = answers, []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, request, client_address):
        pass  # a connection that the balancer has reset

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            while first := self.rfile.readline().decode():
                headers = http.client.parse_headers(self.rfile)
                self.rfile.read(int(headers.get("Content-Length", 0)))
                if not first.startswith("POST"):
                    self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                    return
                self.server.heads.append(headers)
                answer = self.server.answers.pop(0) if self.server.answers else 200
                if answer is None:
                    return
                interim = "HTTP/1.1 100 Continue\r\n\r\n" if answer == 100 else ""
                status = 200 if answer == 100 else answer
                again = "Retry-After: 7\r\n" if status in (429, 503) else ""
                self.wfile.write(f"{interim}HTTP/1.1 {status} X\r\n{again}Content-Length: 2\r\n\r\nok".encode())


class Tries(unittest.TestCase):
    """What the balancer retries, and which headers it sends to servers."""

    balance, daemons = BalancerCase.balance, ()  # its servers are scripted

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.work = pathlib.Path(folder.name)
        self.answers = []  # shared by all servers, in the order of requests
        self.servers = [Scripted(self.answers) for _ in range(SERVERS)]
        self.addCleanup(lambda: [(server.shutdown(), server.server_close()) for server in self.servers])
        self.front = Front(self.balance(server.server_address[1] for server in self.servers).address)

    def tried(self, answers, size=100, headers=None, path="/v1/voxelize"):
        """The reply, and the number of requests that the servers saw."""
        self.answers[:] = answers
        for server in self.servers:
            server.heads.clear()
        reply = self.front.post(path, b"x" * size, headers)
        return reply, sum(len(server.heads) for server in self.servers)

    def test_small_request_finds_room_elsewhere(self):
        reply, tries = self.tried([503, 503])
        self.assertEqual((reply.status, tries), (200, 3))
        self.assertEqual([len(server.heads) for server in self.servers], [1, 1, 1])

    def test_there_is_no_room_anywhere(self):
        reply, tries = self.tried([503] * 10)
        self.assertEqual((reply.status, tries, reply.headers["Retry-After"]), (503, SERVERS, "7"))

    def test_stream_finds_room_on_its_server_alone(self):
        for path, headers in (("/v1/voxelize?stream=s", {}), ("/v1/voxelize", {"Voxeld-Stream": "s"})):
            reply, tries = self.tried([503], path=path, headers=headers)
            self.assertEqual((reply.status, tries, reply.headers["Retry-After"]), (503, 1, "7"))
        reply, tries = self.tried([None], path="/v1/voxelize?stream=s")
        self.assertEqual((reply.status, tries), (200, 2))

    def test_small_request_survives_its_server(self):
        reply, tries = self.tried([None])
        self.assertEqual((reply.status, tries), (200, 2))

    def test_large_request_is_the_clients_to_repeat(self):
        reply, tries = self.tried([503], size=1_000_000)
        self.assertEqual((reply.status, tries, reply.headers["Retry-After"]), (503, 1, "7"))
        reply, tries = self.tried([None], size=1_000_000)
        self.assertEqual((reply.status, tries, reply.headers["Retry-After"]), (502, 1, "1"))

    def test_share_is_no_larger_elsewhere(self):
        reply, tries = self.tried([429])
        self.assertEqual((reply.status, tries, reply.headers["Retry-After"]), (429, 1, "7"))

    def test_interim_answer_is_overlooked(self):
        reply, tries = self.tried([100])
        self.assertEqual((reply.status, tries), (200, 1))

    def seen(self, headers):
        self.tried([], headers=headers)
        return next(server.heads[0] for server in self.servers if server.heads)

    def test_client_is_named_by_the_balancer_alone(self):
        for forged in ({}, {"X-Forwarded-For": "6.6.6.6"}, {"x-forwarded-for": "6.6.6.6, 7.7.7.7"}):
            self.assertEqual(self.seen(forged).get_all("X-Forwarded-For"), [HOST])

    def test_sound_id_is_kept_and_others_are_made(self):
        self.assertEqual(self.seen({"X-Request-Id": "lidar-7:42"}).get_all("X-Request-Id"), ["lidar-7:42"])
        for given in ("", 'a "b', "x" * 129, 'sound, "not', '"not, sound'):
            (made,) = self.seen({"X-Request-Id": given}).get_all("X-Request-Id")
            self.assertRegex(made, r"^[0-9a-f-]{36}$")

    def test_one_of_two_ids_is_taken(self):
        for first, second in (("sound", '"not'), ('"not', "sound")):
            for server in self.servers:
                server.heads.clear()
            lines = [f"X-Request-Id: {first}", f"X-Request-Id: {second}", "Content-Length: 0"]
            with Raw(self.front) as connection:
                self.assertEqual(connection.send(head("POST", "/v1/voxelize", *lines)).read().status, 200)
            (seen,) = next(server.heads[0] for server in self.servers if server.heads).get_all("X-Request-Id")
            self.assertRegex(seen, r"^sound$" if second == "sound" else r"^[0-9a-f-]{36}$")


class Figures(unittest.TestCase):
    """The configuration's figures agree with the daemon's and with docs/operate/balancing.md."""

    def setUp(self):
        self.text = CONFIGURATION.read_text(encoding="utf-8")
        self.page = " ".join((ROOT / "docs/operate/balancing.md").read_text(encoding="utf-8").split())
        options = describe()["options"]
        self.default = {option["name"]: option["default"] for option in options}
        self.inter, self.check = self.figure("inter #ms") / 1000, self.figure("timeout check #s")
        self.fall = self.figure("fall #")
        self.notice = self.fall * (self.inter + self.check)  # seconds until a server is out

    def figure(self, words):
        """The number in place of #."""
        (found,) = re.findall(r"\b" + re.escape(words).replace(r"\#", r"(\d+)"), re.sub(r"#.*", "", self.text))
        return float(found)

    def test_drain_delay_is_longer_than_it_takes_to_notice(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        (advised,) = set(
            re.findall(r"drain[-_]delay[-_]s[ (=]*(\d+)", self.text + readme + self.page.split("## Kubernetes")[0])
        )
        self.assertEqual(advised, DRAIN_DELAY)
        self.assertLess(self.notice, float(advised))

    def test_page_has_them(self):
        notice = f"{self.fall:g} * ({self.inter:g} + {self.check:g}) = {self.notice:g} s"
        at_once = f"{self.inter + (self.fall - 1) * self.figure('fastinter #ms') / 1000:g} s if"
        vanished = self.figure("srvtcpka-idle #s") + self.figure("srvtcpka-intvl #s") * self.figure("srvtcpka-cnt #")
        silent, most = self.figure("timeout server #s"), self.figure("maxconn # pool")
        kept = f"{self.figure('hdr_val(Content-Length) 1:#') / 1024:g}"
        self.assertIn(notice, self.text)
        self.assertIn(at_once, self.text)
        self.assertEqual(set(re.findall(r"up to (\d+) KB", self.page)), {kept})
        for phrase in (
            f"checks every {self.inter:g} s, waits up to {self.check:g} s for",
            f"at most {notice}, and at most {at_once}",
            f"to the full value within {self.figure('slowstart #s'):g} s",
            f"HAProxy takes it out after {self.notice:g} s",
            f"after {vanished:g} s (`srvtcpka`", f"to the vanished server ends after {silent:g} s",
            f"sends nothing for {silent:g} s",
            f"stalls, HAProxy answers 408 after {self.figure('wait-for-body time #s'):g} s",
            f"`maxconn` of a server ({most:g})", f"more than some {most:g} requests",
        ):  # fmt: skip
            with self.subTest(phrase):
                self.assertIn(phrase, self.page)

    def test_connections_stay_within_one_clients_share(self):
        connections = self.figure("maxconn # pool") + self.figure("pool-max-conn #")
        most = int(self.default["max_connections"])
        self.assertLess(connections, most / 2)
        self.assertLess(2 * connections, most - most // 8)  # of both backends, if HAProxy is a trusted proxy

    def test_one_client_leaves_room_for_others(self):
        share, server = self.figure("VOXELD_CLIENT_CONNECTIONS #"), self.figure("maxconn # pool")
        here = self.figure("local0 info\n    maxconn #")
        self.assertEqual(server, Floods.SERVER_MAXCONN)
        self.assertLess(share, server)
        self.assertLess(2 * share, here / 2)
        self.assertGreater(1024 * self.figure("ipv6 size #k"), here)
        for phrase in (
            f"`VOXELD_CLIENT_CONNECTIONS` ({share:g})",
            f"fill the {SERVERS * server:,.0f} connections of three servers",
            f"at most {share:g} of the server's {server:g} connections, and {2 * share:g} of HAProxy's {here:,.0f}",
        ):  # fmt: skip
            with self.subTest(phrase):
                self.assertIn(phrase, self.page)

    def test_daemon_gives_up_before_the_balancer(self):
        longest = max(int(self.default[f"{what}_timeout_s"]) for what in ("upload", "send"))
        self.assertGreater(self.figure("timeout client #s"), longest)
        self.assertGreater(self.figure("timeout server #s"), longest)
        self.assertGreater(self.figure("timeout server #s"), int(self.default["max_timeout_ms"]) / 1000)

    def test_idle_connections_are_dropped_before_the_daemon_does(self):
        self.assertLess(4 * self.figure("pool-purge-delay #s"), int(self.default["idle_timeout_s"]))


if __name__ == "__main__":
    for name in ("haproxy", "wrk"):
        if not program(name):
            print(f"skipped: {name} is not installed")
            sys.exit(77)
    told = subprocess.run((program("haproxy"), "-v"), check=True, capture_output=True, text=True).stdout
    version = re.search(r"version (\d+)\.(\d+)", told)
    if tuple(map(int, version.groups())) < (2, 6):
        print(f"skipped: haproxy has {version[0]}, and {CONFIGURATION.name} is for 2.6 or later")
        sys.exit(77)
    unittest.main()
