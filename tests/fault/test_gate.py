"""The gate, where requests of a client that floods wait. No answer is lost."""

import concurrent.futures
import unittest

from client import MB, VOXELIZE, Closed, FaultCase, Raw, counters, head, rows, tiled_rows, wait_until

OTHER = "127.0.0.2"
SIZE = 640_000
CHUNKED = "Transfer-Encoding: chunked"


def chunked(body, size=100_000):
    pieces = (body[at : at + size] for at in range(0, len(body), size))
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


class Gate(FaultCase):
    ARGS = ("--client-requests", "2", "--backend", "cpu", "--upload-min-rate", "0", "--upload-timeout-s", "60")

    def setUp(self):
        self.body = tiled_rows(SIZE)

    def contend(self):
        """Sends another client's request: the gate holds a client's requests back while other clients are served."""
        self.assertEqual(self.daemon.post(VOXELIZE, tiled_rows(SIZE), source=OTHER).status, 200)

    def hold(self, number):
        """Begins uploads, which then stop. Two of them use up what the gate admits until its next tick."""
        holders = [self.raw().send(head("POST", VOXELIZE, f"Content-Length: {SIZE}") + rows(4)) for _ in range(number)]
        return holders

    def answered(self, connection):
        return self.assert_voxels(connection.read_final())

    def test_requests_are_seen_to_wait(self):
        def waiting():
            """The number of requests that wait at the gate. Each tick admits two of the 60."""
            self.contend()
            holders = self.hold(60)
            seen = counters(self.daemon, "voxeld_gate_waiting")[""]
            for holder in holders:
                holder.close()
            return seen

        wait_until(waiting, "a request that waits")
        wait_until(lambda: not counters(self.daemon, "voxeld_gate_waiting")[""], "all to be let in")

    def test_uploads_that_wait_are_all_answered(self):
        self.contend()
        with concurrent.futures.ThreadPoolExecutor(24) as clients:
            asked = [clients.submit(self.daemon.post, VOXELIZE, self.body) for _ in range(24)]
            for _ in range(10):
                self.assertEqual(self.daemon.post(VOXELIZE, self.body, source=OTHER).status, 200)
            for reply in asked:
                self.assert_voxels(reply.result())

    def test_long_chunked_uploads_wait_too_and_are_answered(self):
        self.contend()
        message = head("POST", VOXELIZE, CHUNKED) + chunked(self.body)
        with concurrent.futures.ThreadPoolExecutor(16) as clients:

            def one(_):
                with Raw(self.daemon) as connection:
                    return connection.send(message).read()

            for _ in range(3):
                self.contend()
                for reply in clients.map(one, range(16)):
                    self.assertEqual(self.assert_voxels(reply)["points"]["received"], SIZE // 16)

    def test_pages_and_refusals_wait_too_and_are_answered(self):
        """Pipelined requests, some with a chunked body that the daemon ignores."""
        body = chunked(tiled_rows(400_000))
        asked = [
            (head("GET", "/metrics"), 200),
            (head("GET", "/metrics", CHUNKED) + body, 200),
            (head("GET", "/nothing"), 404),
            (head("POST", "/v2/repository/index", "Content-Length: 2") + b"{}", 200),
            (head("POST", VOXELIZE + "&nothing=1", CHUNKED) + body, 400),
            (head("GET", "/healthz"), 200),
        ]
        with concurrent.futures.ThreadPoolExecutor(16) as clients:

            def one(_):
                with Raw(self.daemon) as connection:
                    connection.send(b"".join(message for message, _ in asked))
                    return [connection.read().status for _ in asked]

            holders = self.hold(2)
            for _ in range(3):
                self.contend()
                for statuses in clients.map(one, range(16)):
                    self.assertEqual(statuses, [status for _, status in asked])
            for holder in holders:
                holder.close()

    def test_slow_uploads_hold_up_nobody_for_long(self):
        holders = self.hold(6)
        self.contend()
        self.assert_voxels(self.daemon.post(VOXELIZE, self.body))
        for holder in holders:
            holder.send(self.body[64:])
            self.answered(holder)

    def test_half_closed_clients_that_wait(self):
        for message in (head("POST", VOXELIZE, f"Content-Length: {SIZE}") + self.body,
                        head("POST", VOXELIZE, CHUNKED) + chunked(self.body[:64_000]),
                        head("POST", VOXELIZE, CHUNKED) + chunked(self.body)):  # fmt: skip
            for _ in range(4):
                self.contend()
                holders = self.hold(2)
                clients = [self.raw().send(message) for _ in range(4)]
                for client in clients:
                    client.finish_sending()
                for client in clients:
                    self.answered(client)
                for holder in holders:
                    holder.close()

    def behind_the_gate(self, malformed):
        """Connections that have sent good chunks, more than the 128 KiB that the daemon reads before the gate, then
        `malformed`."""
        good = chunked(self.body[:132_000], 1000).removesuffix(b"\r\n0\r\n\r\n")
        message = head("POST", VOXELIZE, CHUNKED) + good + malformed + chunked(self.body, 1000)
        for _ in range(8):
            self.contend()
            holders = self.hold(2)
            yield from [self.raw().send(message) for _ in range(4)]
            for holder in holders:
                holder.close()

    # The stop after these tests is a test too: libmicrohttpd aborts if a connection is still suspended.
    def test_malformed_chunk_line_right_behind_the_gate(self):
        for connection in self.behind_the_gate(b"\r\n3e8\n"):
            self.assert_refused(connection.read_final(), 400, mentions=("CR LF",))

    def test_chunk_that_the_library_refuses_right_behind_the_gate(self):
        for malformed in (b"\r\nzz\r\n", b"xx"):
            for connection in self.behind_the_gate(malformed):
                self.assertFalse(connection.await_end().is_reset(0.05))
                self.assert_unparsed(connection, (400,))

    def test_expect_continue_behind_the_gate(self):
        self.contend()
        holders = self.hold(2)
        connection = self.raw().send(head("POST", VOXELIZE, f"Content-Length: {SIZE}", "Expect: 100-continue"))
        self.assertEqual(connection.read().status, 100)
        connection.send(self.body)
        self.answered(connection)
        for holder in holders:
            holder.close()

    def test_refused_bodies_wait_too_and_are_answered(self):
        self.contend()
        with concurrent.futures.ThreadPoolExecutor(12) as clients:
            for reply in clients.map(lambda _: self.daemon.post(VOXELIZE + "&order=x", self.body), range(24)):
                self.assert_problem(reply, 400, "order")

    def test_pipelined_requests_behind_the_gate(self):
        self.contend()
        holders = self.hold(2)
        request = head("POST", VOXELIZE, f"Content-Length: {SIZE}") + self.body
        connection = self.raw().send(request + head("GET", "/healthz"))
        self.answered(connection)
        self.assertEqual(connection.read().body, b"ok\n")
        for holder in holders:
            holder.close()

    def test_clients_that_leave_while_they_wait(self):
        for end in (Raw.close, Raw.reset):
            self.contend()
            holders = self.hold(2)
            waiting = [
                Raw(self.daemon).send(head("POST", VOXELIZE, f"Content-Length: {SIZE}") + rows(4)) for _ in range(8)
            ]
            for connection in waiting:
                end(connection)
            self.assert_voxels(self.daemon.post(VOXELIZE, self.body))
            for holder in holders:
                holder.close()
            self.daemon.assert_quiet()


class Stop(FaultCase):
    ARGS = Gate.ARGS

    @classmethod
    def tearDownClass(cls):
        pass

    def tearDown(self):
        pass

    def test_requests_at_the_gate_are_answered_before_the_end(self):
        body = tiled_rows(4 * MB)
        self.daemon.post(VOXELIZE, body, source=OTHER)
        clients = [
            self.raw().send(head("POST", VOXELIZE, f"Content-Length: {len(body)}") + body[:100]) for _ in range(12)
        ]
        wait_until(lambda: self.daemon.status()["requests"]["active"] >= 12, "uploads under way")
        self.daemon.terminate()
        for client in clients:
            client.send(body[100:])
        for client in clients:
            try:
                self.assert_voxels(client.read_final())
            except Closed as reason:
                self.fail(f"no answer: {reason}")
        self.assertEqual(self.daemon.wait(), 0, self.daemon.log())


if __name__ == "__main__":
    unittest.main()
