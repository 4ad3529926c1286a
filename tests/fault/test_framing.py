"""Requests whose framing is ambiguous, missing, oversized or rubbish, by bare sockets."""

import gzip
import unittest

from client import MB, ROW, VOXELIZE, Closed, FaultCase, head, post, rows, tiled_rows

LIMIT = MB
BODY = rows(4)
LENGTH = f"Content-Length: {len(BODY)}"
CHUNKED = b"40\r\n" + BODY + b"\r\n0\r\n\r\n"  # BODY is 64 bytes


class Framing(FaultCase):
    ARGS = ("--max-body-bytes", str(LIMIT), "--small-job-points", "0")  # workers run all jobs

    def refuse_and_close(self, data, status=400):
        connection = self.raw()
        connection.send(data)
        reply = connection.read()
        self.assert_refused(reply, status)
        self.assert_closes(connection, reply)

    def test_length_and_chunked_together(self):
        self.refuse_and_close(head("POST", VOXELIZE, LENGTH, "Transfer-Encoding: chunked") + CHUNKED)
        self.refuse_and_close(head("POST", VOXELIZE, "Transfer-Encoding: chunked", LENGTH) + CHUNKED)
        self.refuse_and_close(head("POST", VOXELIZE, "Transfer-Encoding: chunked", "Content-Length: 0") + CHUNKED)

    def test_two_lengths(self):
        self.refuse_and_close(head("POST", VOXELIZE, LENGTH, LENGTH) + BODY)
        self.refuse_and_close(head("POST", VOXELIZE, LENGTH, "Content-Length: 16") + BODY)
        self.refuse_and_close(head("POST", VOXELIZE, "Content-Length: 16", LENGTH.lower()) + BODY)

    def test_codings_other_than_chunked(self):
        for coding in (
            "gzip, chunked",
            "gzip",
            "identity",
            "chunked, chunked",
            "chunked, gzip",
            "xchunked",
            "chunked;q=1",
            "",
        ):
            with self.subTest(coding):
                self.refuse_and_close(head("POST", VOXELIZE, f"Transfer-Encoding: {coding}") + CHUNKED, (400, 411, 501))

    def test_two_transfer_encodings(self):
        lines = ("Transfer-Encoding: gzip", "Transfer-Encoding: chunked")
        for order in (lines, lines[::-1]):
            self.refuse_and_close(head("POST", VOXELIZE, *order) + CHUNKED, (400, 501))

    def test_ambiguous_framing_of_other_paths(self):
        # Bytes after an ambiguous head must not be taken for a request.
        smuggled = head("GET", "/healthz")
        for path in ("/healthz", "/nowhere", "/v1/status"):
            for lines in ((LENGTH, "Transfer-Encoding: chunked"), ("Content-Length: 5", "Content-Length: 6")):
                with self.subTest(path=path, lines=lines):
                    connection = self.raw()
                    connection.send(head("GET", path, *lines) + b"0\r\n\r\n" + smuggled)
                    reply = connection.read()
                    self.assertGreaterEqual(reply.status, 400, reply)
                    self.assert_closes(connection, reply)

    def test_length_that_is_rubbish(self):
        for length in (
            "abc",
            "-1",
            "+64",
            "64x",
            "6 4",
            "0x40",
            "64, 64",
            "",
            "18446744073709551616",
            "99999999999999999999999",
        ):
            with self.subTest(length):
                with self.raw() as connection:
                    connection.send(head("POST", VOXELIZE, f"Content-Length: {length}") + BODY)
                    self.assert_unparsed(connection, (400, 411, 413))

    def test_length_beyond_any_memory(self):
        for length in (LIMIT + 1, 3_000_000_000, 2**63, 2**64 - 1):
            with self.subTest(length):
                self.refuse_and_close(head("POST", VOXELIZE, f"Content-Length: {length}") + BODY, 413)

    def test_largest_length_allowed(self):
        self.assert_voxels(self.exchange(post(tiled_rows(LIMIT))))
        self.refuse_and_close(head("POST", VOXELIZE, f"Content-Length: {LIMIT + ROW}") + BODY, 413)

    def test_length_missing(self):
        for version in ("HTTP/1.1", "HTTP/1.0"):
            with self.subTest(version):
                # A body may follow this head. The body must not be taken for a request.
                self.refuse_whole(head("POST", VOXELIZE, version=version), 411)

    def test_length_zero(self):
        self.assert_voxels(self.exchange(head("POST", VOXELIZE, "Content-Length: 0")))

    def test_chunked(self):
        self.assert_voxels(self.exchange(head("POST", VOXELIZE, "Transfer-Encoding: chunked") + CHUNKED))
        self.assert_voxels(self.exchange(head("POST", VOXELIZE, "Transfer-Encoding: Chunked") + CHUNKED))

    def test_chunks_of_one_byte(self):
        chunks = b"".join(b"1\r\n" + bytes([b]) + b"\r\n" for b in rows(100)) + b"0\r\n\r\n"
        reply = self.exchange(head("POST", VOXELIZE, "Transfer-Encoding: chunked") + chunks)
        self.assertEqual(self.assert_voxels(reply)["points"]["received"], 100)

    def test_chunk_size_that_is_rubbish(self):
        for size in (b"xyz", b"-5", b"", b"ffffffffffffffffff", b"40 40"):
            with self.subTest(size):
                with self.raw() as connection:
                    connection.send(
                        head("POST", VOXELIZE, "Transfer-Encoding: chunked") + size + b"\r\n" + BODY + b"\r\n0\r\n\r\n"
                    )
                    self.assert_unparsed(connection, (400, 413))

    def test_an_answer_is_not_lost_to_bytes_that_follow_it(self):
        heads = {
            "chunk": ("Transfer-Encoding: chunked", b"zz\r\n"),
            "length": ("Content-Length: 0x40", b""),
            "coding": ("Transfer-Encoding: gzip", b""),
        }
        for name, (line, start) in heads.items():
            for size in (100, 300_000):
                with self.subTest(name, size=size), self.raw() as connection:
                    connection.send(head("POST", VOXELIZE, line) + start + bytes(size))
                    self.assertFalse(connection.await_end().is_reset(0.2))
                    if name == "coding":
                        self.assertEqual(connection.read().status, 400)
                    else:
                        self.assert_unparsed(connection, (400,))

    def test_chunked_up_to_the_limit(self):
        body = tiled_rows(LIMIT)
        chunks = b"%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n"
        self.assert_voxels(self.exchange(head("POST", VOXELIZE, "Transfer-Encoding: chunked") + chunks))

    def test_chunked_past_the_limit(self):
        body = tiled_rows(LIMIT // 2)
        chunk = b"%x\r\n" % len(body) + body + b"\r\n"
        for tail in (chunk * 3, chunk * 2 + b"10\r\n" + BODY[:16] + b"\r\n"):
            reply = self.exchange(head("POST", VOXELIZE, "Transfer-Encoding: chunked") + tail + b"0\r\n\r\n")
            self.assert_problem(reply, 413)

    def test_chunked_without_end(self):
        # The daemon answers 413 at the end of a body. This body has no end, so the daemon ends the connection.
        body = tiled_rows(LIMIT)
        chunk = b"%x\r\n" % len(body) + body + b"\r\n"
        connection = self.raw()
        connection.send(head("POST", VOXELIZE, "Transfer-Encoding: chunked"))
        with self.assertRaises(OSError, msg="the daemon has taken 512 MB over a limit of 1 MB"):
            for _ in range(512):
                connection.send(chunk)

    def refuse_whole(self, data, status=400):
        """Checks that the data gets one answer, and the request after the data none."""
        with self.raw() as connection:
            connection.send(data + head("GET", "/healthz"))
            self.assert_refused(connection.read(), status)
            self.assert_ends_silently(connection)

    def assert_ends_silently(self, connection):
        with self.assertRaises(Closed) as end:
            connection.read()
        self.assertIn("before it b''", str(end.exception))

    def refuse_head(self, *lines, first=f"POST {VOXELIZE} HTTP/1.1", ends=("\r\n",)):
        """Checks that a head is refused in one piece, and in two pieces as a connection's second head."""
        ends = [*ends] * (len(lines) + 2) if len(ends) == 1 else ends
        data = "".join(line + end for line, end in zip((first, *lines, ""), ends)).encode("latin-1")
        self.refuse_whole(data)
        with self.raw() as connection:
            connection.send(head("GET", "/healthz") + data[: len(data) // 2])
            self.assertEqual(connection.read().status, 200)
            connection.send(data[len(data) // 2 :] + head("GET", "/healthz"))
            self.assert_refused(connection.read(), 400)
            self.assert_ends_silently(connection)

    def test_bare_line_feeds(self):
        crlf, lf = "\r\n", "\n"
        self.refuse_head("Host: x", "Content-Length: 0", ends=(lf,))
        for at in range(4):
            with self.subTest(line=at):
                ends = [crlf] * 4
                ends[at] = lf
                self.refuse_head("Host: x", "Content-Length: 0", ends=ends)

    def test_bare_carriage_return(self):
        self.refuse_head("Host: x", "X: y\rContent-Length: 0")

    def test_header_without_a_name(self):
        self.refuse_head("Host: x", ": 1", "Content-Length: 0")
        self.refuse_head("Host: x", "Content-Length: 0", ":")
        self.refuse_head(": 1", "Host: x", "Content-Length: 0")

    def test_folded_headers(self):
        for blank in (" ", "\t", "  \t "):
            with self.subTest(blank):
                self.refuse_head("Host: x", "Content-Length: 0", blank + "1")
                self.refuse_head("Host: x", "Content-Length:", blank + "0")
                self.refuse_head("Host: x", "Content-: 0", blank + "Length")  # 0.9.75 joins the second line to the name
                self.refuse_head("Host: x", "Transfer-Encoding:", blank + "chunked")
                self.refuse_head("Host: x", blank + "y", "Content-Length: 0")
                self.refuse_head("Host: x", "Content-Length: 0", "X: y", blank + "z")
                self.refuse_head(blank + "Content-Length: 5", "Host: x")

    def test_folded_header_where_the_library_would_move_its_buffer(self):
        # The folded header ends near 128 KiB, the first size of libmicrohttpd's buffer.
        lines = "Content-Length:    0\r\n 0\r\n\r\n".encode()
        for behind in range(-20, 60):
            first = head("POST", VOXELIZE)[:-2]
            padding = b"X: " + b"x" * (128 * 1024 - len(first) - len(lines) - 5 + behind) + b"\r\n"
            self.refuse_whole(first + padding + lines)

    def test_nul_in_a_framing_header(self):
        for name, value in (("Content-Length", "16"), ("Transfer-Encoding", "chunked"), ("Host", "voxeld")):
            lines = {"Content-Length": "Content-Length: 0", "Host": "Host: x"}
            lines.pop(name, None)
            for at in range(len(value) + 1):
                for nul in ("\0", "\0\0", "\0\0X: y\0"):
                    line = f"{name}: {value[:at]}{nul}{value[at:]}"
                    with self.subTest(line):
                        if at == 0 and name != "Host":
                            self.refuse_empty_value(line)
                            continue
                        self.refuse_head(line, *lines.values())
                        self.refuse_head(*lines.values(), line)

    def refuse_empty_value(self, line):
        """Before 1.0, libmicrohttpd takes the value for empty, and writes the head of its refusal twice (trap
        bad_length_twice)."""
        with self.raw() as connection:
            connection.send(head("POST", VOXELIZE, line) + head("GET", "/healthz"))
            connection.await_end()
            self.assertEqual(connection.read().status, 400)
            self.assertNotIn(b"HTTP/1.1 2", connection.pending)
            self.assertTrue(connection.ended())

    def test_nul_in_place_of_a_line(self):
        self.refuse_head("Host: x", "Content-Length: 0", "\0", "X: y")

    def test_chunk_lines_that_end_in_a_bare_line_feed(self):
        cases = {
            "size": b"40\n" + BODY + b"\r\n0\r\n\r\n",
            "extension": b"40;\n" + BODY + b"\r\n0\r\n\r\n",
            "second size": b"40\r\n" + BODY + b"\r\n40\n" + BODY + b"\r\n0\r\n\r\n",
            "data": b"40\r\n" + BODY + b"\n40\r\n" + BODY + b"\r\n0\r\n\r\n",
        }
        if self.daemon.library() >= (1, 0):  # older versions accept these cases: docs/contribute/libmicrohttpd.md
            cases["last data"] = b"40\r\n" + BODY + b"\n0\r\n\r\n"
            cases["last size"] = b"40\r\n" + BODY + b"\r\n0\n\r\n"
            cases["trailer"] = b"40\r\n" + BODY + b"\r\n0\r\nX: y\n\r\n"
            cases["end"] = b"40\r\n" + BODY + b"\r\n0\r\n\n"
        for name, body in cases.items():
            for method, path in (("POST", VOXELIZE), ("POST", VOXELIZE + "&order=x"), ("GET", "/healthz")):
                with self.subTest(name, path=path):
                    self.refuse_whole(head(method, path, "Transfer-Encoding: chunked") + body)

    def chunks(self, extension, second=b""):
        """A body of two chunks, each with one of the extensions."""
        return b"40" + extension + b"\r\n" + BODY + b"\r\n40" + second + b"\r\n" + BODY + b"\r\n0\r\n\r\n"

    def test_control_bytes_in_chunk_extensions(self):
        for byte in (b"\0", b"\x01", b"\x08", b"\x0b", b"\x0c", b"\r", b"\x1f", b"\x7f"):
            for extension in (
                b";%b",
                b";a%b",
                b";%ba",
                b";a=%bb",
                b';a="b%bc"',
                b";" + b"a" * 300 + b"%b" + b"b" * 300,
            ):
                sent = extension % byte
                for body in (self.chunks(sent), self.chunks(b"", sent)):
                    for method, path in (("POST", VOXELIZE), ("POST", VOXELIZE + "&order=x"), ("GET", "/healthz")):
                        with self.subTest(sent[:20], path=path):
                            self.refuse_whole(head(method, path, "Transfer-Encoding: chunked") + body)

    def test_chunk_extensions(self):
        """Extensions are ignored."""
        if self.daemon.library() >= (1, 0):
            self.skipTest("libmicrohttpd 1.0.1 refuses each chunk with an extension")
        for extension in (b";", b";a", b";a=b", b'; a="b;\t\xe4c"', b";" + b"a" * 1000):
            with self.subTest(extension[:20]):
                reply = self.exchange(
                    head("POST", VOXELIZE, "Transfer-Encoding: chunked") + self.chunks(extension, extension)
                )
                self.assertEqual(self.assert_voxels(reply)["points"]["received"], 8)

    def test_chunks_in_other_versions_than_http_1_1(self):
        """HTTP/1.0 has no chunked bodies, so a proxy may see another end of such a request (RFC 9112, 6.1). Later
        versions are refused too."""
        chunked = "Transfer-Encoding: chunked"
        for version in ("HTTP/1.0", "HTTP/1.9"):
            for lines in ((chunked,), ("Connection: keep-alive", chunked)):
                for method, path in (("POST", VOXELIZE), ("GET", "/healthz"), ("GET", "/nowhere")):
                    with self.subTest(version, lines=lines, path=path):
                        self.refuse_whole(head(method, path, *lines, version=version) + CHUNKED)

    BLANKS = ("{}: {} ", "{}: {}\t", "{}: {} \t ", "{}:{}", "{}:\t{}", "{}: \t {}\t  ")

    def ask_with_blanks(self, name, value, method="POST", path=VOXELIZE, body=BODY, *others):
        """Yields the answers to requests with a header: without blanks around its value, then with each of BLANKS."""
        lines = others if name in ("Content-Length", "Transfer-Encoding") else (*others, f"Content-Length: {len(body)}")
        lines = lines if method == "POST" else others
        for line in ("{}: {}", *self.BLANKS):
            with self.subTest(line.format(name, value)), self.raw() as connection:
                sent = head(method, path, line.format(name, value), *lines, host=name != "Host")
                yield connection.send(sent + (body if method == "POST" else b"")).read(has_body=name != "If-None-Match")

    def test_blanks_around_a_value(self):
        """Blanks are not part of the value (RFC 9110, 5.5)."""
        trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        tag = self.daemon.get("/").headers["ETag"]
        for reply in self.ask_with_blanks("Content-Encoding", "gzip", body=gzip.compress(BODY)):
            self.assertEqual(self.assert_voxels(reply)["points"]["received"], 4)
        for name, value in (
            ("Content-Encoding", "identity"),
            ("Content-Type", "application/octet-stream"),
            ("Host", "localhost"),
            ("Expect", "nothing"),
        ):
            for reply in self.ask_with_blanks(name, value):
                self.assert_voxels(reply)
        for reply in self.ask_with_blanks("Accept-Encoding", "gzip"):
            self.assertEqual((reply.status, reply.headers["Content-Encoding"]), (200, "gzip"))
        for reply in self.ask_with_blanks("Accept", "application/json"):
            self.assertEqual((reply.status, reply.headers["Content-Type"]), (200, "application/json"))
        for reply in self.ask_with_blanks("Inference-Header-Content-Length", "0", path="/v2/models/kitti_second/infer"):
            self.assertEqual(reply.status, 200, reply)
        for reply in self.ask_with_blanks("traceparent", trace, "GET", "/healthz"):
            self.assertEqual(reply.headers["Traceparent"].split("-")[1], trace.split("-")[1])
        for reply in self.ask_with_blanks("X-Request-Id", "mine", "GET", "/healthz"):
            self.assertEqual(reply.headers["X-Request-Id"], "mine")
        for value in (tag, "*"):
            for reply in self.ask_with_blanks("If-None-Match", value, "GET", "/"):
                self.assertEqual(reply.status, 304, reply)
        for name, value in (
            ("Host", "localhost"),
            ("Origin", "http://localhost"),
            ("Sec-Fetch-Site", "same-origin"),
            ("Sec-Fetch-Site", "none"),
        ):
            for reply in self.ask_with_blanks(name, value, "GET", "/v1/streams"):
                self.assertEqual(reply.status, 200, reply)
        for reply in self.ask_with_blanks("Connection", "close", "GET", "/healthz"):
            self.assertEqual(reply.headers["Connection"], "close")

    def test_blanks_around_100_continue(self):
        for line in ("{}: {}", *self.BLANKS):
            with self.subTest(line), self.raw() as connection:
                connection.send(head("POST", VOXELIZE, LENGTH, line.format("Expect", "100-continue")))
                self.assertEqual(connection.read().status, 100)
                self.assert_voxels(connection.send(BODY).read_final())

    def test_blanks_around_a_length(self):
        """Before 1.0, libmicrohttpd does not understand these values with trailing blanks."""
        for name, value, body in (("Content-Length", "64", BODY), ("Transfer-Encoding", "chunked", CHUNKED)):
            for line in self.BLANKS:
                with self.subTest(line.format(name, value)), self.raw() as connection:
                    line = line.format(name, value)
                    connection.send(head("POST", VOXELIZE, line) + body + head("GET", "/healthz"))
                    if line == line.rstrip() or self.daemon.library() >= (1, 0):
                        self.assert_voxels(connection.read())
                        self.assertEqual(connection.read().status, 200)
                        continue
                    connection.await_end()
                    self.assertEqual(connection.read().status, 400)
                    self.assertNotIn(b"HTTP/1.1 2", connection.pending)
                    self.assertTrue(connection.ended())

    def test_chunks_in_any_pieces(self):
        body = b"40\r\n" + BODY + b"\r\n010\r\n" + BODY[:16] + b"\r\n0\r\nX: y\r\n\r\n"
        with self.raw() as connection:
            for at in (*range(8), *range(60, len(body))):
                connection.send(head("POST", VOXELIZE, "Transfer-Encoding: chunked") + body[:at])
                connection.send(body[at:])
                self.assertEqual(self.assert_voxels(connection.read())["points"]["received"], 5)

    def test_sound_heads(self):
        """The daemon examines heads in libmicrohttpd's memory, which the library changes."""
        with self.raw() as connection:
            for lines in (
                ("X:", "Y: ", "Z:\tz\t", "W:   w  "),
                ("Cookie: a=b; c; d=", "Cookie: e=f"),
                [f"X-{n}: {'x' * n}" for n in range(300)],
                ["X: " + "x" * 8192],
            ):
                connection.send(head("GET", "/healthz?a=b%20c&d&&=e", *lines) + b"\r\n")
                self.assertEqual(connection.read().status, 200, lines)

    def test_long_headers(self):
        """The daemon reads these headers, which are lists, several times, so it limits their length."""
        for name in ("Accept", "Accept-Encoding", "Cookie", "X-Forwarded-For"):
            with self.subTest(name), self.raw() as connection:
                connection.send(head("GET", "/healthz", f"{name}: {'x' * 8193}"))
                problem = self.assert_problem(connection.read(), 431, mentions=(name, "8192"))
                self.assertEqual(problem["type"], "urn:voxeld:problem:head-too-large")
                connection.send(head("GET", "/healthz"))
                self.assertEqual(connection.read().status, 200)

    def test_space_before_the_colon(self):
        for line in (
            "Content-Length : 4",
            "Content-Length\t: 4",
            "Transfer-Encoding : chunked",
            "\x0bContent-Length: 4",
        ):
            for method, path in (("POST", VOXELIZE), ("GET", "/healthz")):
                with self.subTest(line=line, method=method):
                    self.refuse_whole(head(method, path, line))

    def test_nul_in_the_request_line(self):
        for path in (VOXELIZE + "\0&max_voxels=1", VOXELIZE + "&max_voxels=1\0junk", VOXELIZE + "\0HTTP/1.1"):
            with self.subTest(path=path), self.raw() as connection:
                connection.send(post(BODY, path))
                if self.daemon.library() < (1, 0):
                    self.assert_problem(connection.read(), 400)
                self.assert_ends_silently(connection)  # from 1.0 on the library closes without an answer

    def test_second_content_encoding(self):
        with self.raw() as connection:
            lines = ("Content-Encoding: zstd", "Content-Encoding: gzip")
            self.assert_problem(connection.send(post(BODY, VOXELIZE, *lines)).read(), 415)

    def refuse_query(self, query, statuses):
        """Checks that a request with this query is refused at once, and that the connection ends."""
        for method, path, end in (("GET", "/healthz?", b""), ("POST", VOXELIZE + "&", BODY)):
            with self.subTest(f"{query[:20]}... of {len(query)}", path=path), self.raw() as connection:
                connection.send(head(method, path + query, *([LENGTH] if end else [])) + end)
                try:
                    reply = connection.read()
                except Closed:
                    # Near these lengths no memory is left for the head of an answer.
                    self.assertIn(len(path + query), range(261_500, 262_200))
                    continue
                self.assertIn(reply.status, statuses)
                self.assert_closes(connection, reply)

    def test_many_parameters(self):
        def query(number, name="a", value="=1"):
            return "&".join(f"{name}{n}{value}" for n in range(number))

        for number in (65, 200, 990):
            with self.raw() as connection:  # this refusal keeps the connection open
                reply = connection.send(post(BODY, VOXELIZE + "&" + query(number))).read()
                self.assert_problem(reply, 400, mentions=("more than 64 parameters",))
                self.assertEqual(connection.send(head("GET", "/healthz?" + query(number))).read().status, 200)
        for number in (1001, 3000, 5000, 8000):
            for kind in (query(number), query(number, value=""), "&" * number, "a&" * number):
                self.refuse_query(kind, (431,))
        self.refuse_query(query(50_000), (414, 431))
        self.refuse_query(query(100, "a" * 1000), (431,))
        reply = self.exchange(head("GET", "/healthz?" + "&" * 3000))
        if "X-Request-Id" in reply.headers:
            self.assertEqual(reply.json()["type"], "urn:voxeld:problem:head-too-large")

    def test_long_queries(self):
        for size in (66_000, 130_000, 131_000, 200_000, 261_000, 261_900, 262_000, 262_200, 300_000, 2 * MB):
            self.refuse_query("a=" + "b" * size, (414, 431))
            self.refuse_query("a" * size, (414, 431))

    def test_thousands_of_parameters_leave_nothing(self):
        for _ in range(20):
            with self.raw() as connection:
                connection.send(head("GET", "/healthz?" + "&" * 7000))
        self.daemon.assert_quiet()

    def test_header_flood(self):
        for lines in (
            [f"X-Flood-{n}: {'x' * 100}" for n in range(8000)],
            [f"a{n}: b" for n in range(60000)],
            ["X: " + "x" * 900_000],
        ):
            with self.subTest(f"{len(lines)} lines"):
                with self.raw() as connection:
                    try:
                        connection.send(head("GET", "/healthz", *lines))
                        self.assertIn(connection.read().status, (400, 413, 431))
                    except (Closed, OSError):
                        pass  # the daemon closed during the flood: its answer may be lost
                    self.assertTrue(connection.ended())

    def test_long_url(self):
        for size in (300_000, 2 * MB):
            with self.subTest(size):
                with self.raw() as connection:
                    try:
                        connection.send(head("GET", "/healthz?" + "a" * size))
                        self.assertIn(connection.read().status, (400, 413, 414, 431))
                    except (Closed, OSError):
                        pass
                    self.assertTrue(connection.ended())

    def test_moderately_long_query(self):
        self.assert_problem(self.exchange(head("POST", VOXELIZE + "&preset=" + "a" * 8000, LENGTH) + BODY), (400, 414))

    def test_versions(self):
        for version in ("HTTP/2.0", "HTTP/0.9", "HTPP/1.1", "HTTP/1.10", "HTTP/1.x", "HTTP/1.1 x", "FOO"):
            with self.subTest(version), self.raw() as connection:
                connection.send(head("GET", "/healthz", version=version))
                self.assert_unparsed(connection, (400, 505))
        for version in ("HTTP/1.0", "HTTP/1.1", "HTTP/1.9"):
            self.assertEqual(self.exchange(head("GET", "/healthz", version=version)).status, 200)

    def test_bytes_that_are_no_http(self):
        for data in (
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
            b"\0" * 5000,
            b"\r\n" * 5000,
            b"\xff" * 70000,
            b"GET",
        ):
            with self.raw() as connection:
                try:
                    connection.send(data)
                    connection.finish_sending()
                except OSError:
                    pass
                connection.ended()

    def test_host(self):
        for method, path, lines in (("GET", "/healthz", ()), ("POST", VOXELIZE, ("Content-Length: 0",))):
            self.refuse_whole(head(method, path, *lines, host=False))
            self.refuse_whole(head(method, path, *lines, "Host: voxeld"))
            self.refuse_whole(head(method, path, *lines, "host: other"))
            self.refuse_whole(head(method, path, *lines, "Host: other", version="HTTP/1.0"))
            reply = self.exchange(head(method, path, *lines, host=False, version="HTTP/1.0"))
            self.assertEqual(reply.status, 200)

    def test_pipelined_posts_are_answered_in_order(self):
        with self.raw() as connection:
            sizes = [n % 7 * 50 for n in range(60)]
            connection.send(b"".join(post(rows(n), VOXELIZE, f"X-Request-Id: p{i}") for i, n in enumerate(sizes)))
            for i, n in enumerate(sizes):
                reply = connection.read()
                self.assertEqual(reply.headers["X-Request-Id"], f"p{i}")
                self.assertEqual(self.assert_voxels(reply)["points"]["received"], n)

    def test_pipelined_mixture(self):
        with self.raw() as connection:
            connection.send(
                post(BODY)
                + post(BODY, VOXELIZE + "&order=x")
                + head("GET", "/healthz")
                + post(BODY[:-1])
                + head("GET", "/nowhere")
                + head("POST", VOXELIZE, "Transfer-Encoding: chunked")
                + CHUNKED
            )
            self.assertEqual([connection.read().status for _ in range(6)], [200, 400, 200, 400, 404, 200])

    def test_head_and_body_byte_by_byte(self):
        with self.raw() as connection:
            for byte in post(BODY):
                connection.send(bytes([byte]))
            self.assert_voxels(connection.read())


if __name__ == "__main__":
    unittest.main()
