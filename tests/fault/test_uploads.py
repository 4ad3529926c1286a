"""Bodies that stall, come byte by byte, stop half way, are too large, or belong to a refused request. Also Expect."""

import unittest

from client import LONG, LONG_POINTS, MB, PATIENCE, ROW, VOXELIZE, Closed, FaultCase, Raw
from client import counters, head, many_rows, post, rows, tiled_rows, wait_until

LIMIT = 8 * MB
HALF = (head("POST", VOXELIZE, "Content-Length: 1600000"), tiled_rows(400_000))


class Uploads(FaultCase):
    ARGS = ("--max-body-bytes", str(LIMIT), "--upload-timeout-s", "60", "--idle-timeout-s", "90")

    # --- clients that leave half way ---

    def begin_upload(self, daemon=None):
        connection = Raw(daemon or self.daemon)
        self.addCleanup(connection.close)
        return connection.send(HALF[0]).send(HALF[1])

    def wait_for_uploads(self, number):
        active = lambda: self.daemon.status()["requests"]["active"]
        wait_until(lambda: active() >= number, lambda: f"{number} requests in flight, there are {active()}")

    def test_truncated_by_fin(self):
        connections = [self.begin_upload() for _ in range(20)]
        self.wait_for_uploads(20)
        for connection in connections:
            connection.close()
        self.daemon.assert_quiet()

    def test_truncated_by_rst(self):
        connections = [self.begin_upload() for _ in range(20)]
        self.wait_for_uploads(20)
        for connection in connections:
            connection.reset()
        self.daemon.assert_quiet()

    def test_half_closed_in_the_middle_of_a_body(self):
        connection = self.begin_upload()
        self.wait_for_uploads(1)
        connection.finish_sending()
        try:
            self.assert_problem(connection.read(), (400, 408))
        except Closed:
            pass  # the daemon need not answer an incomplete request
        self.assertTrue(connection.ended())

    def test_truncated_chunks(self):
        for leave in (Raw.close, Raw.reset):
            connection = self.raw().send(
                head("POST", VOXELIZE, "Transfer-Encoding: chunked") + b"10000\r\n" + bytes(1000)
            )
            self.wait_for_uploads(1)
            leave(connection)
            self.daemon.assert_quiet()

    def test_200_aborted_uploads_leave_nothing(self):
        for turn in range(10):
            connections = []
            for n in range(20):
                connection = Raw(self.daemon).send(HALF[0])
                connection.send(HALF[1][: (turn * 20 + n) * 1999])
                connections.append(connection)
            for n, connection in enumerate(connections):
                (connection.reset if n % 3 == 0 else connection.close)()
        self.daemon.assert_quiet()
        self.assert_voxels(self.daemon.post(VOXELIZE, rows(4)))

    def test_aborted_upload_of_a_refused_request(self):
        for leave in (Raw.close, Raw.reset):
            for path in (VOXELIZE + "&order=x", "/nowhere", "/healthz"):
                connection = self.raw().send(head("POST", path, "Content-Length: 1600000") + bytes(1000))
                leave(connection)
        self.daemon.assert_quiet()

    # --- too large ---

    def test_three_gigabytes_are_refused_while_the_client_is_sending(self):
        connection = self.raw().send(head("POST", VOXELIZE, "Content-Length: 3000000000"))
        piece, sent = bytes(65536), 0
        while not connection.readable(0) and sent < 256 * MB:
            sent += connection.send_some(piece)
        self.assertLess(sent, 256 * MB, "the daemon took 256 MB without an answer")
        reply = connection.read()
        self.assert_problem(reply, 413, mentions=(str(LIMIT),))
        self.assertEqual(reply.headers["Connection"].lower(), "close")

    def test_error_text_reaches_a_client_that_is_still_sending(self):
        # http.client sends the whole body before it reads. A reset would raise BrokenPipeError.
        body = tiled_rows(5 * MB)
        for _ in range(5):
            self.assert_problem(self.daemon.post(VOXELIZE + "&order=x", body), 400, "order")
            self.assert_problem(self.daemon.post(VOXELIZE, body, {"Content-Type": "image/png"}), 415)
            self.assert_problem(self.daemon.post("/nowhere", body), 404)
            self.assert_problem(self.daemon.post("/healthz", body), 405)
            self.assert_problem(self.daemon.post(VOXELIZE, body * 2), 413)

    def test_error_text_reaches_a_chunked_client_that_is_still_sending(self):
        pieces = lambda: iter([tiled_rows(MB)] * 5)
        for path, status in ((VOXELIZE + "&order=x", 400), ("/nowhere", 404)):
            self.assert_problem(self.daemon.post(path, pieces(), {"Transfer-Encoding": "chunked"}), status)

    # --- refusals that keep the connection open ---

    def test_connection_is_kept_after_a_discarded_body(self):
        connection = self.daemon.connection()
        self.addCleanup(connection.close)
        self.assert_voxels(self.daemon.post(VOXELIZE, rows(4), connection=connection))
        kept = connection.sock
        for path, status in ((VOXELIZE + "&order=x", 400), ("/nowhere", 404), ("/healthz", 405)):
            self.assert_problem(self.daemon.post(path, tiled_rows(MB), connection=connection), status)
            self.assert_voxels(self.daemon.post(VOXELIZE, rows(4), connection=connection))
            self.assertIs(connection.sock, kept, f"the connection was not kept after {status} for {path}")

    def test_connection_is_kept_after_get(self):
        connection = self.daemon.connection()
        self.addCleanup(connection.close)
        self.daemon.request("GET", "/healthz", connection=connection)
        kept = connection.sock
        for path in ("/healthz", "/readyz", "/metrics", "/v1/status", "/v1/presets", "/nowhere", "/openapi.yaml"):
            self.daemon.request("GET", path, connection=connection)
            self.assertIs(connection.sock, kept, f"the connection was not kept after {path}")

    # --- Expect ---

    def test_expect_accepted(self):
        body = rows(1000)
        connection = self.raw()
        connection.send(head("POST", VOXELIZE, f"Content-Length: {len(body)}", "Expect: 100-continue"))
        self.assertEqual(connection.read().status, 100)
        self.assert_voxels(connection.send(body).read())

    def test_expect_rejected_early(self):
        for path, lines, status in (
            (VOXELIZE + "&order=x", ("Content-Length: 1000000",), 400),
            (VOXELIZE, (f"Content-Length: {LIMIT + ROW}",), 413),
            (VOXELIZE, ("Content-Length: 160", "Content-Type: image/png"), 415),
            (VOXELIZE, ("Content-Length: 17",), 400),
            (VOXELIZE + "&order=x", ("Transfer-Encoding: chunked",), 400),
            ("/nowhere", ("Content-Length: 1000000",), 404),
        ):
            with self.subTest(path=path, lines=lines):
                connection = self.raw().send(head("POST", path, "Expect: 100-continue", *lines))
                reply = connection.read()  # the first answer, without a 100 before it
                self.assert_problem(reply, status)
                self.assert_closes(connection, reply)

    def test_expect_and_the_body_at_once(self):
        connection = self.raw()
        connection.send(post(rows(4), VOXELIZE, "Expect: 100-continue"))
        reply = connection.read()
        self.assert_voxels(connection.read() if reply.status == 100 else reply)

    def test_expect_of_something_unknown(self):
        connection = self.raw().send(post(rows(4), VOXELIZE, "Expect: the-unexpected"))
        self.assertIn(connection.read().status, (200, 417))

    # --- half closed ---

    def test_half_closed_client_gets_its_answer(self):
        for body in (b"", rows(4), tiled_rows(2 * MB)):
            connection = self.raw().send(post(body))
            connection.finish_sending()
            self.assertEqual(self.assert_voxels(connection.read_final())["points"]["received"], len(body) // ROW)
            self.assertTrue(connection.ended())

    def test_half_closed_client_gets_its_error(self):
        connection = self.raw().send(post(tiled_rows(MB), VOXELIZE + "&order=x"))
        connection.finish_sending()
        self.assert_problem(connection.read_final(), 400, "order")


class Deadlines(FaultCase):
    ARGS = ("--upload-timeout-s", "2", "--idle-timeout-s", "4", "--upload-min-rate", "0")

    def assert_timed_out(self, connection):
        reply = connection.read()
        self.assert_problem(reply, 408)
        self.assert_closes(connection, reply)

    def all_timed_out(self, requests):
        for connection in [self.raw().send(request) for request in requests]:
            self.assert_timed_out(connection)

    def test_body_that_stalls(self):
        self.all_timed_out(HALF[0] + HALF[1][:sent] for sent in (0, 1, 65536, 399_999))

    def test_chunked_body_that_stalls(self):
        begun = (b"", b"10", b"10000\r\n" + bytes(1000), b"10\r\n" + bytes(16) + b"\r\n")
        self.all_timed_out(head("POST", VOXELIZE, "Transfer-Encoding: chunked") + some for some in begun)

    def test_body_that_stalls_after_100_continue(self):
        connection = self.raw().send(head("POST", VOXELIZE, "Content-Length: 64", "Expect: 100-continue"))
        self.assertEqual(connection.read().status, 100)
        self.assert_timed_out(connection)

    def test_body_that_drips_past_the_deadline(self):
        connection = self.raw().send(HALF[0])
        for _ in range(PATIENCE * 10):
            if connection.readable(0.1):  # the pace of the drip
                break
            connection.send_some(b"x")
        self.assert_timed_out(connection)

    def test_stall_in_a_body_that_is_discarded(self):
        connection = self.raw().send(head("POST", VOXELIZE + "&order=x", "Content-Length: 1600000") + bytes(1000))
        try:
            self.assert_problem(connection.read(), (400, 408))
        except Closed:
            pass
        self.assertTrue(connection.ended())

    def test_many_stalls_at_once(self):
        connections = [self.raw().send(HALF[0] + HALF[1][:1000]) for _ in range(30)]
        self.assert_voxels(self.daemon.post(VOXELIZE, rows(4)))
        for connection in connections:
            self.assert_timed_out(connection)

    def test_head_that_never_ends(self):
        connection = self.raw().send(b"POST /v1/voxelize HTTP/1.1\r\nHost: x\r\nContent-Le")
        self.assertTrue(connection.ended())

    def test_head_that_drips(self):
        connection = self.raw().send(b"POST /v1/voxelize HTTP/1.1\r\nX-Drip: ")
        for _ in range(PATIENCE * 10):
            if connection.readable(0.1):  # the pace of the drip
                break
            connection.send_some(b"x")
        else:
            self.fail("a head was still being taken, byte by byte")
        self.assertTrue(connection.ended())

    def test_idle_connection_is_closed(self):
        connection = self.raw().send(head("GET", "/healthz"))
        self.assertEqual(connection.read().status, 200)
        self.assertTrue(connection.ended())


class Refused(FaultCase):
    """A client with a long job announces more bytes than it may hold."""

    # All bodies of samplings together may take 128 MB. With 64 MB besides the body of its long job, the client would
    # hold more than is left for others, which is more than its share.
    ARGS = ("--long-workers", "1", "--memory-budget-bytes", str(256 * MB), "--max-response-bytes", str(128 * MB))
    ARGS += ("--max-sampling-work", str(10**13), "--max-timeout-ms", "3600000", "--upload-min-rate", "0")

    def places(self):
        return counters(self.daemon, "voxeld_queue_slots")['lanes="long"']

    def test_its_place_is_free_before_its_body_has_come(self):
        body = tiled_rows(64 * MB)
        long = self.raw().send(post(many_rows(LONG_POINTS), LONG))
        requests = lambda: self.daemon.status()["requests"]
        wait_until(lambda: self.daemon.status()["long_workers"]["running"] == 1, "a long job that runs")
        refused = self.raw().send(head("POST", "/v1/fps?num_samples=1", f"Content-Length: {len(body)}") + body[:MB])
        wait_until(lambda: requests()["open"] == 3, "the second request")  # the third asks for the status
        wait_until(lambda: requests()["active"] == 1, "its refusal")
        long.reset()
        self.daemon.assert_quiet()
        self.assertEqual(self.places(), 0)
        self.assert_problem(refused.send(body[MB:]).read(), 429, mentions=["a body of"])


class Successive(FaultCase):
    ARGS = ("--upload-timeout-s", "6", "--idle-timeout-s", "90", "--upload-min-rate", "0")

    def test_next_request_on_a_connection_has_a_deadline_of_its_own(self):
        # Together these requests take longer than one deadline.
        connection = self.raw()
        for _ in range(5):
            connection.send(head("POST", VOXELIZE, "Content-Length: 64"))
            self.assertFalse(connection.readable(1.4))
            self.assert_voxels(connection.send(rows(4)).read())


class Rate(FaultCase):
    ARGS = ("--upload-timeout-s", "60", "--idle-timeout-s", "90", "--upload-min-rate", "1000000")

    def test_slow_drip_under_the_minimum_rate(self):
        connection = self.raw().send(HALF[0])
        for _ in range(PATIENCE * 10):
            if connection.readable(0.1):
                break
            connection.send_some(bytes(1000))
        reply = connection.read()
        self.assert_problem(reply, 408)
        self.assert_closes(connection, reply)

    def test_fast_upload_is_left_alone(self):
        self.assert_voxels(self.daemon.post(VOXELIZE, tiled_rows(20 * MB)))


if __name__ == "__main__":
    unittest.main()
