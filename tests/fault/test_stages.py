"""Requests of every kind, which a client stops at every stage and in every way; malformed heads and huge queries."""

import concurrent.futures
import itertools
import unittest

from client import VOXELIZE, Bystander, Closed, FaultCase, Raw, counters, head, post, rows, wait_until

BODY = rows(4)  # 64 bytes
CHUNKS = b"20\r\n" + BODY[:32] + b"\r\n20\r\n" + BODY[32:] + b"\r\n0\r\n\r\n"
FPS = "/v1/fps?num_samples=2"
# {kind of request: (its bytes, the status of its answer)}
REQUESTS = {
    "voxelize": (post(BODY), 200),
    "voxelize, chunked": (head("POST", VOXELIZE, "Transfer-Encoding: chunked") + CHUNKS, 200),
    "fps": (post(BODY, FPS), 200),
    "fps, chunked": (head("POST", FPS, "Transfer-Encoding: chunked") + CHUNKS, 200),
    "page": (head("GET", "/v1/status"), 200),
    "refused": (post(BODY, VOXELIZE + "&order=x"), 400),
    "refused, chunked": (head("POST", "/nowhere", "Transfer-Encoding: chunked") + CHUNKS, 404),
}


def stages(request):
    """Offsets where a client stops: in and around the parts of the head, in the body, at the request's end."""
    top = request.index(b"\r\n\r\n") + 4
    ends = [at + 2 for at in range(top) if request[at : at + 2] == b"\r\n"]
    cuts = {0, 1, 3, 5, 12, ends[0] - 1, *ends, *(at - 1 for at in ends), ends[0] + 3, top - 3}
    cuts |= {top + n for n in (1, 2, 3, 4, 7, 16, 35, 36, 37, 38, 40, 60, 63, 64, 70)} | {len(request) - 1}
    return sorted(cut for cut in cuts if cut < len(request)) + [len(request)]


class Stages(FaultCase):
    ARGS = ("--backend", "cpu", "--upload-timeout-s", "60", "--idle-timeout-s", "90", "--small-job-points", "0")

    def each_stage(self, leave):
        """Stops every request at every stage by leave(connection, status). `status`: None for an incomplete request."""
        cases = [(request, status, cut) for request, status in REQUESTS.values() for cut in stages(request)]

        def stop(case):
            request, status, cut = case
            with Raw(self.daemon) as connection:
                connection.send(request[:cut])
                leave(connection, status if cut == len(request) else None)

        with Bystander(self.daemon) as bystander, concurrent.futures.ThreadPoolExecutor(16) as pool:
            list(pool.map(stop, cases))
        self.assertGreater(bystander.served, 0)
        print(f"{self.id()}: {len(cases)} cases")

    def test_closed(self):
        self.each_stage(lambda connection, status: connection.close())

    def test_reset(self):
        self.each_stage(lambda connection, status: connection.reset())

    def test_clients_that_leave_in_an_upload_are_counted(self):
        aborted = lambda: sum(counters(self.daemon, "voxeld_requests_aborted_total").values())
        for (request, _), leave in itertools.product(list(REQUESTS.values())[:4], (Raw.close, Raw.reset)):
            self.daemon.await_accounts()
            before = aborted()
            connection = self.raw().send(request[:-10])
            wait_until(lambda: self.daemon.status()["requests"]["active"] > 0, "the upload begun")
            leave(connection)
            wait_until(lambda: aborted() == before + 1, "the client that left, counted")

    def final_status(self, connection):
        """The status of the answer. Before it, the daemon may send a 100, to test whether a half-closed client is still
        there."""
        return next(reply.status for reply in iter(connection.read, None) if reply.status >= 200)

    def half_close(self, connection, status):
        connection.finish_sending()
        if status:
            self.assertEqual(self.final_status(connection), status)
        self.assertTrue(connection.ended())

    def test_half_closed(self):
        self.each_stage(self.half_close)

    def test_reset_with_answers_on_the_way(self):
        for request, _ in REQUESTS.values():
            for read in (0, 1, 20, 300):
                with Raw(self.daemon) as connection:
                    connection.send(request * 3)
                    if read:
                        connection.socket.recv(read)
                    connection.reset()

    def test_pieces(self):
        for request, status in REQUESTS.values():
            for cut in stages(request)[1:-1]:
                with Raw(self.daemon) as connection:
                    connection.send(request[:cut])
                    self.daemon.get("/healthz")  # when this is answered, the first piece has arrived
                    self.assertEqual(connection.send(request[cut:]).read().status, status)


LENGTH = "Content-Length: 64"
# Malformed or odd lines.
FIRST_LINES = (
    *(
        "",
        " ",
        "GET",
        "GET ",
        "GET /",
        "/healthz",
        "GET  HTTP/1.1",
        "/healthz HTTP/1.1",
        "GET /healthz",
        "HTTP/1.1 200 OK",
    ),
    *(
        "get /healthz HTTP/1.1",
        "G\0T /healthz HTTP/1.1",
        "GET\t/healthz\tHTTP/1.1",
        "GET /healthz http/1.1",
        " GET /healthz HTTP/1.1",
    ),
    *("GET /healthz HTTP/1.1 HTTP/1.1", "GET /heal thz HTTP/1.1", "GET healthz HTTP/1.1", "GET \\healthz HTTP/1.1"),
    *(
        "GET /healthz HTTP/",
        "GET /healthz HTTP/1",
        "GET /healthz HTTP/1.",
        "GET /healthz HTTP/11",
        "GET /healthz HTTP/-1.1",
    ),
    *("GET /healthz HTTP/1.10", "GET /healthz HTTP/0.0", "GET /healthz HTTP/3.0", "GET /healthz HTTP/9999999999.9"),
    *(
        "GET /healthz\r HTTP/1.1",
        "GET /\x7f HTTP/1.1",
        "GET /\xff\xfe HTTP/1.1",
        "GET /%00 HTTP/1.1",
        "GET /% HTTP/1.1",
    ),
    *("GET //healthz HTTP/1.1", "GET /./healthz HTTP/1.1", "GET /../../etc/passwd HTTP/1.1", "GET /healthz/ HTTP/1.1"),
    *("GET ftp://x/healthz HTTP/1.1", "GET http:// HTTP/1.1", "GET http:///healthz HTTP/1.1", "GET x:80 HTTP/1.1"),
    *(
        "CONNECT x:80 HTTP/1.1",
        "OPTIONS * HTTP/1.1",
        "TRACE /healthz HTTP/1.1",
        "PRI * HTTP/2.0",
        "M-SEARCH * HTTP/1.1",
    ),
    *("A" * 5000 + " /healthz HTTP/1.1", "GET /healthz HTTP/1.1" + "1" * 5000, "GET /healthz#fragment HTTP/1.1"),
)
HEADER_LINES = (
    *(
        "no colon",
        ": no name",
        ":",
        "a b: c",
        "a\0: b",
        "a\t: b",
        "\x01: b",
        "a: \0",
        "(a): b",
        "a: b\rc: d",
        " folded",
        "\tfolded",
    ),
    *(
        "Host",
        "Host:",
        "Host: a\r\nHost: b",
        "Host: a b",
        "Connection: ,,,",
        "Connection: close, keep-alive",
        "Connection: \xff",
    ),
    *(
        "Connection: Content-Length",
        "Upgrade: websocket\r\nConnection: Upgrade",
        "Upgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings",
    ),
    *(
        "Expect: 100-continue",
        "Expect: 100-continue\r\nExpect: x",
        "Expect:",
        "Range: bytes=0-1",
        "If-Match: *",
        "TE: trailers",
    ),
    *(
        "Cookie: " + "a=b; " * 500,
        'Cookie: =;=;"',
        "Authorization: Basic !!!!",
        'Authorization: Digest "',
        "Authorization: Bearer",
    ),
    *(
        "Content-Length: 1e2",
        "Content-Length: 064",
        "Content-Length:\t64\t",
        "Content-Length: 64;",
        "Content-Length: ,64",
    ),
    *("Content-Length: 64.0", "Content-Length: \xd9\xa6\xd9\xa4", "Content-Length: 00000000000000000000064"),
    *(
        "Transfer-Encoding:",
        "Transfer-Encoding: ,chunked",
        "Transfer-Encoding: chunked,",
        "Transfer-Encoding: \x0bchunked",
    ),
    *("Transfer-Encoding: chunked, identity", 'Transfer-Encoding: "chunked"', "Transfer-Encoding: chunked\x00"),
)
CHUNK_LINES = (
    *(
        b"",
        b" ",
        b"g",
        b"0x10",
        b"-1",
        b"+10",
        b"1 0",
        b"10 ",
        b" 10",
        b"10\t",
        b"\t10",
        b"10;",
        b"10;;;",
        b"10;a",
        b'10;a="',
        b"1_0",
    ),
    *(
        b"10\r",
        b"10\0",
        b"\xff",
        b"7fffffffffffffff",
        b"8000000000000000",
        b"ffffffffffffffff",
        b"1" + b"0" * 16,
        b"0" * 5000,
    ),
    *(b"1" * 5000, b"10000000000000010", b"fffffffffffffff0", b"10\n", b"1.0", b"1e1", b"010", b"10;a=\x00"),
)


# Statuses by which the daemon or the library may refuse a malformed request.
REFUSED = {400, 404, 405, 411, 413, 414, 417, 431, 501, 505}
SERVED = REFUSED | {200}
# Lines that some versions of libmicrohttpd accept.
NEARLY_SOUND_FIRST_LINES = {
    "GET\t/healthz\tHTTP/1.1",
    " GET /healthz HTTP/1.1",
    "GET /healthz",
}
NEARLY_SOUND_CHUNK_LINES = {b"10 ", b" 10", b"10\t", b"\t10", b"10\r", b"010"}
SOUND_LENGTHS = {"Content-Length: 064", "Content-Length:\t64\t", "Content-Length: 00000000000000000000064"}


class Malformed(FaultCase):
    ARGS = ("--backend", "cpu", "--upload-timeout-s", "1", "--idle-timeout-s", "2", "--upload-min-rate", "0")

    def answers(self, data):
        """The statuses of all answers to these bytes."""
        with Raw(self.daemon) as connection:
            try:
                connection.send(data)
                connection.finish_sending()
            except OSError:
                pass
            statuses = []
            try:
                while True:
                    statuses.append(connection.read_final().status)
            except (Closed, ValueError, IndexError):  # libmicrohttpd may send the head of its error twice
                return statuses

    def try_all(self, cases):
        """`cases`: (request, allowed statuses). Checks that a request gets at most one answer, that the bytes after it
        get refusals, and that then the connection ends."""
        cases, answered = list(cases), 0
        with Bystander(self.daemon) as bystander, concurrent.futures.ThreadPoolExecutor(8) as pool:
            for (data, allowed), statuses in zip(cases, pool.map(self.answers, [data for data, _ in cases])):
                self.assertLessEqual(set(statuses[:1]), allowed, data[:200])
                self.assertLessEqual(set(statuses[1:]), REFUSED, data[:200])
                answered += bool(statuses)
        self.assertGreater(bystander.served, 0)
        self.assertGreater(answered, len(cases) / 2)
        print(f"{self.id()}: {len(cases)} cases, {answered} answered")

    def answer_each(self, cases):
        """`cases`: (request, status). Checks that each request gets one answer, with this status."""
        for data, status in cases:
            self.assertEqual(self.answers(data), [status], data[:200])

    def test_first_lines(self):
        self.try_all(
            ((line + "\r\nHost: x\r\n\r\n").encode("latin-1"), SERVED if line in NEARLY_SOUND_FIRST_LINES else REFUSED)
            for line in FIRST_LINES
        )

    def test_header_lines(self):
        self.try_all((head("GET", "/healthz", line) + BODY, SERVED) for line in HEADER_LINES)
        # A POST without a length is refused.
        self.try_all(
            (head("POST", path, line) + BODY, SERVED if line in SOUND_LENGTHS else REFUSED)
            for line, path in itertools.product(HEADER_LINES, (VOXELIZE, FPS))
        )

    def test_header_lines_beside_a_length(self):
        # A second length is refused, and so is a transfer coding.
        frames = ("Content-Length:", "Transfer-Encoding:")
        self.try_all(
            (head("POST", VOXELIZE, LENGTH, line) + BODY, REFUSED if line.startswith(frames) else SERVED)
            for line in HEADER_LINES
        )

    def test_chunk_lines(self):
        def allowed(line):
            if line.startswith(b"10;"):  # an extension
                return {200, 422, 400}
            return SERVED | {422} if line in NEARLY_SOUND_CHUNK_LINES else REFUSED

        self.try_all(
            (
                head("POST", path, "Transfer-Encoding: chunked")
                + before
                + line
                + b"\r\n"
                + BODY[:16]
                + b"\r\n0\r\n\r\n",
                allowed(line),
            )
            for line, path, before in itertools.product(
                CHUNK_LINES, (VOXELIZE, FPS), (b"", b"10\r\n" + BODY[:16] + b"\r\n")
            )
        )

    def test_no_line_ends(self):
        good = post(BODY)
        # `end` in place of CR LF may be taken for an end of line if it consists of CR and LF.
        for end in (b"\n", b"\r", b"\n\r", b"\r\r\n", b"\0\r\n", b" ", b""):
            for pad in (0, 7, len(good)):
                data = head("GET", "/healthz").replace(b"\r\n", end) + good[:pad]
                ends_lines = bool(end) and not end.strip(b"\r\n")
                self.assertLessEqual(set(self.answers(data)), SERVED if ends_lines else REFUSED, data[:200])

    def test_queries(self):
        long = [VOXELIZE + "&order=" + "x" * size for size in (100, 1000, 10_000, 100_000, 120_000)]
        long += [VOXELIZE + "&" + "x" * size + "=1" for size in (100, 1000, 10_000, 100_000)]
        long += [VOXELIZE + "&point_counts=" + "1," * size for size in (1000, 1024, 1025, 50_000)]
        long += [VOXELIZE + "&a=1" * size for size in (30, 31, 1000, 20_000)] + [
            VOXELIZE + "&" * size for size in (31, 2000)
        ]
        long += ["/v1/fps?num_samples=" + "9" * size for size in (10, 11, 19, 20, 400, 50_000)]
        odd = [
            "%",
            "%2",
            "%zz",
            "%00",
            "a=%00",
            "order=key%00",
            "=",
            "==",
            "&&",
            "a",
            "?",
            "order=key=key",
            "%6frder=key",
            "order=%6bey",
        ]
        odd += [
            "max_voxels=" + value
            for value in ("", "+1", "-1", "0x10", "1e3", "1.0", " 1", "1 ", "%201", "1%00", "\xb2", "99" * 40)
        ]
        odd += [
            "voxel_size=" + value
            for value in ("nan,1,1", "inf,1,1", "1,1", "1,1,1,1", ",,", "1e999,1,1", "1e-999,1,1", "0x1p3,1,1")
        ]
        odd += ["feature=" + value for value in ("", ",", "mean,", "mean,mean", "MEAN", "mean%2cpoints")]
        self.try_all((post(BODY, path), REFUSED) for path in long)
        sound = ("%6frder=key", "order=%6bey", "feature=mean%2cpoints")
        self.answer_each((post(BODY, VOXELIZE + "&" + query), 200 if query in sound else 400) for query in odd)

    def test_paths(self):
        paths = ["/" + "a" * size for size in (100, 1000, 10_000, 100_000)] + [
            "/a" * 10_000,
            "/" * 10_000,
            "/%2e%2e" * 1000,
        ]
        self.try_all((head("GET", path), REFUSED) for path in paths)
        for name in ("", "..", "a/b", "%2fetc%2fpasswd", "a" * 1000, "%00", "\xff", "kitti_second%00"):
            status = 400 if "%00" in name else 404
            self.answer_each([(head("GET", "/v1/presets/" + name), status)])


if __name__ == "__main__":
    unittest.main()
