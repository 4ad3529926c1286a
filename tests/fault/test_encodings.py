"""Bodies in gzip, deflate and zstd: complete, cut off, too large, slow. Also encoded answers."""

import gzip
import random
import struct
import threading
import unittest
import zlib

import codings
from client import MB, ROW, VOXELIZE, FaultCase, Raw
from client import counters, head, post, rows, tensor_file, tiled_rows, wait_until
from codings import CODERS, raw_frame, zstd_bomb
from daemon import Daemon

LIMIT = 8 * MB


class Encodings(FaultCase):
    ARGS = ("--max-body-bytes", str(LIMIT), "--workers", "2")

    def code(self, coding, body, path=VOXELIZE, **headers):
        return self.daemon.post(path, body, {"Content-Encoding": coding, **headers})

    def received(self):
        return counters(self.daemon, "voxeld_received_bytes_total")[""]

    # --- good bodies ---

    def test_the_same_tensors_as_of_the_plain_body(self):
        for count in (0, 1, 1000, 100_000):
            body = tiled_rows(count * ROW)
            plain = self.daemon.post(VOXELIZE, body).tensors()
            for coding, coder in CODERS.items():
                for headers in ({}, {"Transfer-Encoding": "chunked"}):
                    with self.subTest(coding, count=count, headers=headers):
                        coded = coder(body)
                        reply = self.code(coding, iter([coded]) if headers else coded, **headers)
                        self.assertEqual(self.assert_voxels(reply)["points"]["received"], count)
                        self.assertEqual(reply.tensors(), plain)

    def test_several_members_and_frames(self):
        body = tiled_rows(MB)
        plain = self.daemon.post(VOXELIZE, body).tensors()
        skipped = b"\x50\x2a\x4d\x18\x04\0\0\0skip"
        for coding, between in (("gzip", gzip.compress(b"")), ("zstd", skipped)):
            coded = between.join(CODERS[coding](body[at : at + 99_999]) for at in range(0, len(body), 99_999))
            self.assertEqual(self.code(coding, coded).tensors(), plain)

    def test_byte_by_byte(self):
        body = rows(100)
        plain = self.daemon.post(VOXELIZE, body).tensors()
        for coding, coder in CODERS.items():
            coded = coder(body)
            chunks = iter([coded[at : at + 1] for at in range(len(coded))])
            self.assertEqual(self.code(coding, chunks, **{"Transfer-Encoding": "chunked"}).tensors(), plain)

    def test_a_body_of_the_limit_and_one_more_row(self):
        for coding, coder in CODERS.items():
            with self.subTest(coding):
                whole = zstd_bomb(LIMIT) if coding == "zstd" else coder(bytes(LIMIT))
                more = whole + raw_frame(bytes(ROW)) if coding == "zstd" else coder(bytes(LIMIT + ROW))
                self.assert_voxels(self.code(coding, whole))
                self.assert_problem(self.code(coding, more), 413, mentions=(str(LIMIT), "decoded"))

    def test_coded_bytes_are_counted(self):
        coded = gzip.compress(tiled_rows(MB))
        self.daemon.await_accounts()
        before = self.received()
        self.assert_voxels(self.code("gzip", coded))
        self.daemon.await_accounts()
        self.assertEqual(self.received() - before, len(coded))

    # --- bad bodies ---

    def test_bombs(self):
        bombs = {
            "gzip": gzip.compress(bytes(64 * MB)),
            "deflate": zlib.compress(bytes(64 * MB)),
            "zstd": zstd_bomb(512 * MB),
        }
        for coding, bomb in bombs.items():
            for headers in ({}, {"Transfer-Encoding": "chunked"}):
                with self.subTest(coding, size=len(bomb), headers=headers):
                    reply = self.code(coding, iter([bomb]) if headers else bomb, **headers)
                    self.assert_problem(reply, 413, mentions=("decoded",))
        self.daemon.assert_quiet()

    def test_a_bomb_is_refused_before_its_end(self):
        # The daemon decodes up to the limit, so it does not find the garbage at the end.
        self.assert_problem(self.code("zstd", zstd_bomb(1024 * MB) + b"garbage"), 413)

    def test_a_coded_length_over_the_limit(self):
        with self.raw() as connection:
            connection.send(head("POST", VOXELIZE, f"Content-Length: {LIMIT + 1}", "Content-Encoding: gzip"))
            self.assert_problem(connection.read(), 413, mentions=(str(LIMIT + 1),))

    def test_a_stream_without_end_that_decodes_to_nothing(self):
        skipped = b"\x50\x2a\x4d\x18" + MB.to_bytes(4, "little") + bytes(MB)
        for coding, piece in (("gzip", gzip.compress(b"") * 10_000), ("zstd", skipped)):
            with self.subTest(coding):
                pieces = iter([piece] * (LIMIT // len(piece) + 1))
                reply = self.code(coding, pieces, **{"Transfer-Encoding": "chunked"})
                self.assert_problem(reply, 413, mentions=(str(LIMIT),))

    def test_bad_streams(self):
        body = rows(1000)
        for coding, coder in CODERS.items():
            coded = coder(body)
            for wrong, says in (
                (coded[:-1], "ends before"),
                (coded[: len(coded) // 2], "ends before"),
                (coded[:2], "ends before"),
                (b"", "empty"),
                (coded + b"x" * 5, "continues after the end"),
                (coded + b"\0" * 512, "continues after the end"),
                (body, "malformed"),
                (coder(body[:-1]), "multiple of 16"),
            ):
                with self.subTest(coding, says=says, size=len(wrong)):
                    problem = self.assert_problem(self.code(coding, wrong), 400, mentions=(says,))
                    self.assertEqual(problem["type"], "urn:voxeld:problem:bad-body")
        self.assert_problem(self.code("zstd", zstd_bomb(MB, window_log=24)), 400, mentions=("window over 8 MiB",))

    def test_random_damage(self):
        source = random.Random(3)
        coded = {coding: bytearray(coder(rows(500))) for coding, coder in CODERS.items()}
        for _ in range(300):
            coding = source.choice(list(coded))
            data = bytearray(coded[coding])
            for _ in range(source.randrange(1, 4)):
                data[source.randrange(len(data))] = source.randrange(256)
            reply = self.code(coding, bytes(data))
            if reply.status != 200:
                self.assert_problem(reply, (400, 413))
        self.daemon.assert_quiet()

    def test_lists_and_other_codings(self):
        for lines in (("gzip, zstd",), ("gzip", "zstd"), ("gzip", "gzip"), ("br",), ("gzip;q=1",)):
            with self.subTest(lines), self.raw() as connection:
                lines = [f"Content-Encoding: {line}" for line in lines]
                reply = connection.send(post(gzip.compress(rows(1)), VOXELIZE, *lines)).read()
                self.assert_problem(reply, 415, mentions=("gzip, deflate, zstd",))
                self.assertEqual(reply.headers["Accept-Encoding"], "gzip, deflate, zstd")
                connection.send(head("GET", "/healthz"))  # the connection is still open
                self.assertEqual(connection.read().status, 200)

    # --- uploads that end, wait or are slow ---

    def begin(self, coding, coded, count):
        connection = self.raw()
        return connection.send(
            head("POST", VOXELIZE, f"Content-Length: {len(coded)}", f"Content-Encoding: {coding}") + coded[:count]
        )

    def test_aborted_uploads_leave_nothing(self):
        bodies = {coding: coder(tiled_rows(MB)) for coding, coder in CODERS.items()}
        for turn in range(40):
            coding, coded = list(bodies.items())[turn % len(bodies)]
            connection = self.begin(coding, coded, (turn * 1999) % len(coded))
            (connection.reset if turn % 3 == 0 else connection.close)()
        self.daemon.assert_quiet()

    def test_a_body_that_comes_takes_no_decoder(self):
        used = lambda: self.daemon.status()["buffers"]["in_use_bytes"]
        connection = self.begin("zstd", zstd_bomb(MB, window_log=23), 30)  # the frame's head and more
        wait_until(lambda: used() > 0, "memory for the body")
        self.assertLess(used(), MB)
        connection.send(zstd_bomb(MB, window_log=23)[30:])
        self.assert_voxels(connection.read())

    def test_no_io_thread_decodes(self):
        """The I/O thread runs small jobs, but not if their body is encoded."""
        if not self.daemon.status()["small_jobs"]["points"]:
            self.skipTest("no job is small here")
        small = lambda: self.daemon.status()["small_jobs"]["run"]
        before, body = small(), rows(10)
        self.assert_voxels(self.daemon.post(VOXELIZE, body))
        self.assertEqual(small(), before + 1)
        for coding, coder in CODERS.items():
            self.assert_voxels(self.code(coding, coder(body)))
        self.assertEqual(small(), before + 1)

    def test_the_deadline_holds_while_a_body_is_decoded(self):
        path = VOXELIZE + "&timeout_ms=1"
        for coding, bomb in (("gzip", gzip.compress(bytes(LIMIT))), ("zstd", zstd_bomb(LIMIT))):
            replies = [self.code(coding, bomb, path) for _ in range(3)]
            self.assertEqual({reply.status for reply in replies} - {200}, {504}, coding)
        self.daemon.assert_quiet()

    def test_other_formats_and_protocols(self):
        body = rows(500)
        file = tensor_file(points=([500, 4], body))
        tensors = self.daemon.post(VOXELIZE, body).tensors()
        path = "/v2/models/voxelize/infer"
        shape = ",".join(f"{value:.9g}" for value in struct.unpack(f"<{500 * 4}f", body))
        text = (
            '{"parameters":{"point_cloud_range":"-10,-10,-2,10,10,2","voxel_size":"0.5,0.5,0.5"},'
            f'"inputs":[{{"name":"points","datatype":"FP32","shape":[500,4],"data":[{shape}]}}]}}'
        ).encode()
        answer = self.daemon.post(path, text).json()["outputs"]
        for coding, coder in CODERS.items():
            with self.subTest(coding):
                self.assertEqual(self.code(coding, coder(file), VOXELIZE + "&format=safetensors").tensors(), tensors)
                self.assertEqual(self.code(coding, coder(text), path).json()["outputs"], answer)

    def test_many_at_once(self):
        coded = {coding: coder(tiled_rows(200_000)) for coding, coder in CODERS.items()}
        wrong = []

        def go_on(number):
            for turn in range(15):
                coding = list(coded)[(number + turn) % len(coded)]
                headers = {"Content-Encoding": coding, "Accept-Encoding": ("gzip", "zstd", "identity")[turn % 3]}
                reply = self.daemon.post(VOXELIZE, coded[coding], headers, source=f"127.0.0.{2 + number}")
                if reply.status != 200:
                    wrong.append(reply)

        threads = [threading.Thread(target=go_on, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.daemon.assert_quiet()

    # --- answers ---

    def answer(self, body, accept, path=VOXELIZE):
        return self.daemon.post(path, body, {"Accept-Encoding": accept})

    def test_encoded_answers_have_the_same_tensors(self):
        body = rows(20_000)
        plain = self.daemon.post(VOXELIZE, body)
        self.assertNotIn("Content-Encoding", plain.headers)
        self.assertNotIn("encode", plain.headers["Server-Timing"])
        for accept, coding in (
            ("gzip", "gzip"),
            ("gzip, zstd;q=0.1", "gzip"),
            ("zstd", "zstd"),
            ("gzip, zstd", "zstd"),
            ("identity", None),
            ("gzip;q=0", None),
            ("identity, gzip", None),
            ("*", None),
            ("br, deflate", None),
        ):
            with self.subTest(accept):
                reply = self.answer(body, accept)
                self.assertEqual(reply.headers.get("Content-Encoding"), coding)
                self.assertEqual(int(reply.headers["Content-Length"]), len(reply.body))
                if coding:
                    self.assertEqual(reply.headers["Vary"], "Accept-Encoding")
                    self.assertIn(", encode;dur=", reply.headers["Server-Timing"])
                    self.assertLess(len(reply.body), len(plain.body))
                    self.assertEqual(reply.headers["Content-Type"], "application/vnd.safetensors")
                if coding in (None, *codings.answers()):
                    self.assertEqual(codings.decode(reply).tensors(), plain.tensors())

    def test_what_is_not_encoded(self):
        plain = lambda reply: self.assertNotIn("Content-Encoding", reply.headers)
        plain(self.daemon.get("/metrics", {"Accept-Encoding": "gzip"}))
        plain(self.daemon.get("/openapi.yaml", {"Accept-Encoding": "gzip"}))
        small = self.daemon.post("/v1/fps?num_samples=1", rows(1), {"Accept-Encoding": "gzip"})
        self.assertEqual(small.status, 200)
        problem = self.daemon.post(VOXELIZE + "&" + "a" * 3000, rows(1), {"Accept-Encoding": "gzip"})
        plain(problem)
        self.assert_problem(problem, 400)
        with self.raw() as connection:
            two = connection.send(post(rows(1000), VOXELIZE, "Accept-Encoding: gzip", "Accept-Encoding: gzip;q=0"))
            plain(two.read())
        noise = random.Random(5).randbytes(200_000 * ROW)  # incompressible
        transform = self.daemon.post("/v1/transform?num_features=4", noise, {"Accept-Encoding": "zstd"})
        self.assertEqual(transform.status, 200)

    def test_an_operator_may_switch_it_off(self):
        with Daemon("--workers", "1", "--compress-answers", "no") as daemon:
            reply = daemon.post(VOXELIZE, rows(1000), {"Accept-Encoding": "gzip"})
            self.assertEqual(reply.status, 200)
            self.assertNotIn("Content-Encoding", reply.headers)
            self.assertEqual(reply.tensors(), daemon.post(VOXELIZE, rows(1000)).tensors())

    def test_metadata_is_encoded_too(self):
        path = VOXELIZE + "&point_counts=10" + ",0" * 300
        reply = self.daemon.post(path, rows(10), {"Accept": "application/json", "Accept-Encoding": "gzip"})
        self.assertEqual(reply.headers["Content-Encoding"], "gzip")
        reply.body = gzip.decompress(reply.body)
        self.assertEqual(reply.json()["points"]["received"], 10)


class Slow(FaultCase):
    ARGS = ("--upload-timeout-s", "2")

    def test_an_upload_that_stalls(self):
        for coding, coder in CODERS.items():
            with self.subTest(coding):
                coded = coder(tiled_rows(MB))
                lines = (f"Content-Length: {len(coded)}", f"Content-Encoding: {coding}")
                connection = self.raw().send(head("POST", VOXELIZE, *lines) + coded[: len(coded) // 2])
                self.assert_problem(connection.read(), 408)
                self.assertTrue(connection.ended())


class Gated(FaultCase):
    ARGS = ("--client-requests", "1", "--workers", "1")

    def test_many_of_one_client_wait_at_the_gate(self):
        body = tiled_rows(4 * MB)
        plain = self.daemon.post(VOXELIZE, body).tensors()
        coded = {coding: coder(body) for coding, coder in CODERS.items()}
        answers = []

        def ask(coding, chunked):
            headers = {"Content-Encoding": coding, **({"Transfer-Encoding": "chunked"} if chunked else {})}
            data = coded[coding]
            pieces = iter([data[at : at + 100_000] for at in range(0, len(data), 100_000)])
            answers.append(self.daemon.post(VOXELIZE, pieces if chunked else data, headers))

        threads = [
            threading.Thread(target=ask, args=(coding, chunked)) for coding in coded for chunked in (False, True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([reply.status for reply in answers], [200] * len(threads))
        for reply in answers:
            self.assertEqual(reply.tensors(), plain)


class LittleMemory(FaultCase):
    """While an encoded body arrives, it holds memory for its encoded bytes, not for a decoder."""

    ARGS = ("--max-body-bytes", str(4 * MB), "--max-response-bytes", str(4 * MB), "--memory-budget-bytes", str(24 * MB))

    def test_idle_coded_uploads_hold_little(self):
        slow = []
        for number in range(6):  # each sends the head of a frame, which asks for the largest window
            connection = Raw(self.daemon, source=f"127.0.0.{10 + number}")
            self.addCleanup(connection.close)
            coded = zstd_bomb(MB, window_log=23)
            lines = (f"Content-Length: {len(coded)}", "Content-Encoding: zstd")
            slow.append(connection.send(head("POST", VOXELIZE, *lines) + coded[:10]))
        wait_until(lambda: self.daemon.status()["buffers"]["in_use_bytes"] > 0, "memory for the bodies")
        self.assertLessEqual(self.daemon.status()["buffers"]["in_use_bytes"], 6 * MB // 4)
        self.assert_voxels(self.daemon.post(VOXELIZE, tiled_rows(3 * MB), source="127.0.0.2"))
        for connection in slow:
            connection.close()
        self.daemon.assert_quiet()


class LeastMemory(FaultCase):
    """The least budget that the other limits allow."""

    ARGS = ("--max-body-bytes", str(8 * MB), "--max-response-bytes", str(8 * MB), "--memory-budget-bytes", str(16 * MB))

    def test_a_second_frame_may_need_a_larger_decoder(self):
        coded = zstd_bomb(5 * MB, window_log=10) + zstd_bomb(MB, window_log=22)
        self.assert_voxels(self.daemon.post(VOXELIZE, coded, {"Content-Encoding": "zstd"}))
        self.daemon.assert_quiet()


if __name__ == "__main__":
    unittest.main()
