"""Links of some Mbit/s for the load tests: a pair of virtual interfaces with a token bucket at each end, one of them in
a separate network namespace. They need root and iproute2. Standard library only."""

import contextlib
import ctypes
import os
import shutil
import subprocess
import sys

SERVER = "198.18.7.1"  # from the range for benchmarks, RFC 2544
NAMESPACE = "voxeld-links"
CLONE_NEWNET = 0x40000000


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)


class Loopback:
    name, host = "loopback", "127.0.0.1"

    def source(self, number):
        return f"127.0.1.{number + 1}"

    def enter(self):
        pass


class Link:
    """A link of `rate` Mbit/s to the server, and of `back` Mbit/s (default: `rate`) from the server. A process that
    enters the link sends to the server through it."""

    host = SERVER

    def __init__(self, rate, back=None):
        self.rate, self.back = rate, back or rate
        self.name = f"{rate} Mbit/s" + (f", {back} back" if back else "")

    def source(self, number):
        return f"198.18.7.{number + 2}"

    def shape(self, interface, rate, *inside):
        # The burst, which passes without delay, is small. The queue of 100 ms is like a modem's.
        bucket = f"dev {interface} root tbf rate {rate}mbit burst 16kb latency 100ms"
        subprocess.run([*inside, "tc", "qdisc", "replace", *bucket.split()], check=True, capture_output=True)

    def __enter__(self):
        inside = ["ip", "netns", "exec", NAMESPACE]
        ip("netns", "add", NAMESPACE)
        try:
            ip("link", "add", "voxeld0", "type", "veth", "peer", "name", "voxeld1", "netns", NAMESPACE)
            ip("address", "add", f"{SERVER}/24", "dev", "voxeld0")
            ip("link", "set", "voxeld0", "up")
            for number in range(64):
                ip("-n", NAMESPACE, "address", "add", f"{self.source(number)}/24", "dev", "voxeld1")
            ip("-n", NAMESPACE, "link", "set", "voxeld1", "up")
            self.shape("voxeld0", self.back)
            self.shape("voxeld1", self.rate, *inside)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        # If only the namespace were deleted, the kernel would delete the interfaces later.
        subprocess.run(["ip", "link", "delete", "voxeld0"], capture_output=True)
        ip("netns", "delete", NAMESPACE)

    def enter(self):
        with open(f"/run/netns/{NAMESPACE}", "rb") as namespace:
            libc = ctypes.CDLL(None, use_errno=True)
            if libc.setns(namespace.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), "setns")


def links_of(text):
    """The links of a text such as "none 500 50/200": loopback, 500 Mbit/s, and 50 Mbit/s with 200 Mbit/s back."""
    for word in text.split():
        rate, _, back = word.partition("/")
        if word == "none":
            yield contextlib.nullcontext(Loopback())
        elif os.geteuid() or not shutil.which("tc"):
            print(f"no link of {word} Mbit/s: that needs root and iproute2", file=sys.stderr)
        else:
            yield Link(int(rate), int(back) if back else None)
