"""Three daemons behind HAProxy (docker/haproxy.cfg), for measurements. Standard library only."""

import time

from balancer import DRAIN_DELAY, Balancer
from servers import cpu_seconds, die, voxeld

LOCAL = "127.0.0.1"
OPTIONS = ("--drain-delay-s", DRAIN_DELAY, "--drain-timeout-s", "90", "--log-level", "warning")
OPTIONS += ("--trusted-proxies", LOCAL)
SETTLING = 2.5  # seconds until HAProxy gives a new server its full share (slowstart)


def drain(daemon):
    daemon.process.terminate()
    if status := daemon.process.wait(120):
        die(f"a daemon that was stopped ended with status {status}")


def kill(daemon):
    daemon.process.kill()
    daemon.process.wait()


class Farm:
    COUNT = 3

    def __init__(self, programs, work, options=()):
        self._programs, self._work, self._options = programs, work, options
        self.daemons = [None] * self.COUNT
        self.balancer = None

    def begin(self):
        for number in range(self.COUNT):
            self.start(number, 0)
        self.ports = [daemon.port for daemon in self.daemons]
        self.balancer = Balancer(self.ports, self._work / "haproxy.log")

    def start(self, number, port=None):
        port = self.ports[number] if port is None else port
        listen = ("--listen", f"{LOCAL}:{port}")
        options = (*OPTIONS, *listen, *self._options)
        self.daemons[number] = voxeld(self._work, f"voxeld{number + 1}", self._programs, *options)

    def settle(self):
        while len(self.balancer.up()) < self.COUNT:
            time.sleep(0.1)
        time.sleep(SETTLING)

    def cpu_seconds(self):
        """Processor time: (of the daemons, of the balancer)."""
        return sum(daemon.cpu_seconds() for daemon in self.daemons), cpu_seconds(self.balancer.process)

    def stop(self):
        if self.balancer:
            self.balancer.stop()
        for daemon in filter(None, self.daemons):
            kill(daemon)
