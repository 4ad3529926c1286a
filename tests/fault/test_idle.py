"""Ten thousand idle connections while another client is served; more connections than descriptors.

If the system grants fewer descriptors, there are fewer connections.
"""

import itertools
import os
import resource
import unittest

from client import MB, VOXELIZE, Bystander, FaultCase, is_sanitized, post, rows, wait_until

WANTED = 10_000
SPARE = 2_000  # descriptors for other purposes
ADDRESSES = 50
WHOLE = post(rows(4))
BEGINNINGS = (b"", WHOLE[:10], WHOLE[:70])


def raise_files():
    """Raises the limit of descriptors to WANTED + SPARE or the system's maximum. Returns the number of connections."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED + SPARE if most == resource.RLIM_INFINITY else min(WANTED + SPARE, most)
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
    return wanted - SPARE


NUMBER = raise_files()


class Thousands(FaultCase):
    # More than NUMBER, since the last sixteenth is reserved for addresses with one connection.
    ARGS = ("--backend", "cpu", "--max-connections", str(NUMBER * 16 // 15 + 300), "--idle-timeout-s", "600")

    def test_idle_connections_cost_the_others_nothing(self):
        before = self.daemon.resident_bytes()
        connections = []
        for number in range(NUMBER):
            connections.append(self.raw(source=f"127.0.1.{1 + number % ADDRESSES}"))
            connections[-1].send(BEGINNINGS[number % len(BEGINNINGS)])
        wait_until(lambda: self.daemon.status()["connections"]["open"] >= NUMBER, "all connections accepted")
        with Bystander(self.daemon) as bystander:
            for _ in range(20):
                self.assert_voxels(self.daemon.post(VOXELIZE, rows(1000)))
        held = self.daemon.resident_bytes() - before
        self.assertFalse(any(connection.readable(0) for connection in connections))
        if not is_sanitized():
            self.assertLess(held, NUMBER * 16 * 1024 + 32 * MB)
        print(
            f"{NUMBER} idle connections: {held / NUMBER / 1024:.1f} KiB each; {20 + bystander.served} requests served"
        )
        # The idle connections can still send their requests.
        for connection, beginning in list(zip(connections, itertools.cycle(BEGINNINGS)))[:30]:
            self.assert_voxels(connection.send(WHOLE[len(beginning) :]).read())


class OneAddress(FaultCase):
    ARGS = ("--backend", "cpu", "--max-connections", "64", "--idle-timeout-s", "600")

    def test_an_address_that_takes_all_connections_keeps_nobody_out(self):
        # The server closes connections over the share.
        with Bystander(self.daemon) as bystander:
            for beginning in BEGINNINGS:
                taken = [self.raw(source="127.0.0.3").send(beginning) for _ in range(400)]
                for _ in range(10):
                    self.assert_voxels(self.daemon.post(VOXELIZE, rows(100)))
                for connection in taken:
                    connection.close()
        self.assertGreater(bystander.served, 0)


class Descriptors(FaultCase):
    ARGS = ("--backend", "cpu")

    def test_clients_wait_while_there_are_no_descriptors(self):
        self.daemon.assert_quiet()
        wait_until(lambda: self.daemon.status()["connections"]["open"] == 1, "all others closed")
        process = self.daemon.process.pid
        _, most = resource.prlimit(process, resource.RLIMIT_NOFILE)
        used = len(os.listdir(f"/proc/{process}/fd"))
        limits = resource.prlimit(process, resource.RLIMIT_NOFILE, (used + 4, most))
        none_left = lambda: any("Too many open files" in line for line in self.daemon.lines)
        served = []
        while True:  # ends when a connection has to wait
            connection = self.raw().send(WHOLE)
            wait_until(lambda: connection.readable(0.01) or none_left(), "an answer, or no descriptor for it")
            if not connection.readable(0):
                break
            self.assert_voxels(connection.read())
            served.append(connection)
        self.assertTrue(served)
        for held in served:  # frees a descriptor for the connection that waits
            held.close()
        self.assert_voxels(connection.read())
        resource.prlimit(process, resource.RLIMIT_NOFILE, limits)


if __name__ == "__main__":
    unittest.main()
