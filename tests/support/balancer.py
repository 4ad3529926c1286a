"""Runs HAProxy with docker/haproxy.cfg in front of a test's servers, and clients of HAProxy: wrk, and clients that
follow Retry-After. Standard library only."""

import collections
import grp
import http.client
import os
import pwd
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

from daemon import ROOT
from servers import tensors, wrk_summary

CONFIGURATION = ROOT / "docker" / "haproxy.cfg"
# The drain delay that the configuration advises for its servers.
DRAIN_DELAY = re.search(r"--drain-delay-s (\d+)", CONFIGURATION.read_text(encoding="utf-8"))[1]
HOST = "127.0.0.1"
PATIENCE = 60  # seconds that one exchange may take


def program(name):
    """The path of a program, or None. Debian has haproxy in /usr/sbin, which may be missing from PATH."""
    return shutil.which(name, path=os.environ.get("PATH", os.defpath) + ":/usr/sbin")


def _listening():
    """A socket on a free port, to pass to HAProxy."""
    plain = socket.create_server((HOST, 0), backlog=1024)
    plain.set_inheritable(True)
    return plain


class Balancer:
    """HAProxy with the shipped configuration. HAProxy inherits listening sockets from the test, so no port is taken
    twice. `pages`: {port of a server: port that HAProxy checks instead}. `options` go to the program, `variables` to
    its environment. If `patient`, HAProxy waits an hour for silent clients and servers, so that a loaded machine fails
    no test."""

    def __init__(self, ports, log, *options, pages=None, patient=False, **variables):
        ports = list(ports)
        checked = [(pages or {}).get(port, port) for port in ports]
        front, stats = _listening(), _listening()
        self.address, self._stats = front.getsockname(), stats.getsockname()
        environment = dict(
            os.environ, HAPROXY_USER=pwd.getpwuid(os.geteuid())[0], HAPROXY_GROUP=grp.getgrgid(os.getegid())[0]
        )
        environment.update(VOXELD_FRONT=f"fd@{front.fileno()}", VOXELD_STATS=f"fd@{stats.fileno()}")
        environment.update({f"VOXELD_SERVER_{n}": f"{HOST}:{port}" for n, port in enumerate(ports, 1)}, **variables)
        environment.update({f"VOXELD_PAGES_PORT_{n}": str(port) for n, port in enumerate(checked, 1)})
        configuration = CONFIGURATION.read_text(encoding="utf-8")
        if patient:
            limits = r"^( +timeout (?:http-request|http-keep-alive|client|server) ).*$"
            configuration = re.sub(limits, r"\g<1>1h", configuration, flags=re.MULTILINE)
        used = log.with_suffix(".cfg")
        used.write_text(configuration, encoding="utf-8")
        with open(log, "wb") as file, front, stats:
            command = [program("haproxy"), "-db", "-f", used, *options]
            fds = (front.fileno(), stats.fileno())
            self.process = subprocess.Popen(command, env=environment, stdout=file, stderr=file, pass_fds=fds)

    def _metrics(self):
        connection = http.client.HTTPConnection(*self._stats, timeout=PATIENCE)
        try:
            connection.request("GET", "/metrics")
            return connection.getresponse().read().decode()
        finally:
            connection.close()

    def up(self, way="voxelds"):
        """The numbers of the servers to which a backend sends requests."""
        row = rf'^haproxy_server_status\{{proxy="{way}",server="voxeld(\d+)",state="UP"\}} 1$'
        return {int(number) for number in re.findall(row, self._metrics(), re.MULTILINE)}

    def counted(self, name, way="voxelds"):
        """{number of a server: value of the metric} of a backend."""
        row = rf'^haproxy_server_{name}\{{proxy="{way}",server="voxeld(\d+)"\}} (\S+)$'
        return {int(number): float(value) for number, value in re.findall(row, self._metrics(), re.MULTILINE)}

    def stop(self):
        self.process.terminate()
        self.process.wait(PATIENCE)


class Wrk:
    """Runs wrk from its creation until result(). wrk posts the files in turn, without retries."""

    def __init__(self, address, path, bodies, connections):
        url = f"http://{address[0]}:{address[1]}{path}"
        command = [program("wrk"), "-t1", f"-c{connections}", "-d600s", "--timeout", "30s", "--latency"]
        command += ["-s", ROOT / "tests/measure/load/post.lua", url, "--", *bodies]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def result(self):
        """The measurements of wrk, by post.lua's names."""
        self._process.send_signal(signal.SIGINT)
        text, _ = self._process.communicate(timeout=PATIENCE)
        summary = wrk_summary(text)
        if not summary:
            raise RuntimeError(f"wrk failed: {text[-1000:]}")
        return summary

    def end(self):
        """Ends wrk without a result, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.communicate()


class Patients:
    """Clients that each post the bodies in turn over one connection. They retry as Retry-After says, and if the
    connection breaks. `expected`: {body: the tensors that an answer must have}."""

    TRIES = 20

    def __init__(self, address, path, expected, number):
        self._address, self._path, self._expected = address, path, list(expected.items())
        self._stop = threading.Event()
        self.seconds, self.retries, self.failures = [], collections.Counter(), []
        self._threads = [threading.Thread(target=self._go_on) for _ in range(number)]
        for thread in self._threads:
            thread.start()

    @property
    def served(self):
        return len(self.seconds)

    def _exchange(self, connection, body):
        """(answer, None), or (None, why to ask again)."""
        try:
            connection.request("POST", self._path, body)
            reply = connection.getresponse()
            answer, again = reply.read(), reply.getheader("Retry-After")
        except (OSError, http.client.HTTPException) as broken:
            connection.close()
            return None, type(broken).__name__
        if again:
            time.sleep(int(again))
            return None, reply.status
        if reply.status != 200:
            self.failures.append(f"{reply.status}: {answer[:300]!r}")
        return answer, None

    def _ask(self, connection, body, expected):
        begin = time.monotonic()
        for _ in range(self.TRIES):
            answer, why = self._exchange(connection, body)
            if answer is not None:
                break
            self.retries[why] += 1
        if answer is None:
            self.failures.append(f"no answer after {self.TRIES} tries, the last: {why}")
        elif tensors(answer) != expected:
            self.failures.append("an answer has other tensors")
        self.seconds.append(time.monotonic() - begin)

    def _go_on(self):
        connection = http.client.HTTPConnection(*self._address, timeout=PATIENCE)
        try:
            while not self._stop.is_set() and not self.failures:
                for body, expected in self._expected:
                    self._ask(connection, body, expected)
        except Exception as reason:  # else the thread would end silently
            self.failures.append(repr(reason))
        connection.close()

    def stop(self):
        self._stop.set()
        for thread in self._threads:
            thread.join()
