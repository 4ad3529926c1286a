"""TLS clients that stall, leave or send too much."""

import contextlib
import pathlib
import shutil
import socket
import ssl
import tempfile
import time
import unittest

from client import (
    MB,
    PATIENCE,
    ROW,
    VOXELIZE,
    Closed,
    FaultCase,
    Raw,
    counters,
    head,
    post,
    rows,
    tiled_rows,
    wait_until,
)
from credentials import Authority, TlsDaemon

LIMIT = 8 * MB
HALF = (head("POST", VOXELIZE, "Content-Length: 1600000"), tiled_rows(400_000))


def refusals(daemon, reason):
    return counters(daemon, "voxeld_refusals_total")[f'reason="{reason}"']


@unittest.skipUnless(shutil.which("openssl"), "there is no openssl here")
class TlsCase(FaultCase):
    OPTIONS = ()

    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.authority = Authority(cls.folder, "ca")
        cls.authority.sign("server", "subjectAltName=IP:127.0.0.1", "server")
        cls.daemon = TlsDaemon(cls.folder, *cls.OPTIONS)

    def bare(self):
        plain = self.daemon.bare_socket()
        self.addCleanup(plain.close)
        return plain

    def begin_upload(self):
        return self.raw().send(HALF[0]).send(HALF[1])

    def wait_for_uploads(self, number):
        active = lambda: self.daemon.status()["requests"]["active"]
        wait_until(lambda: active() >= number, lambda: f"{number} requests in flight, there are {active()}")

    def ends(self, plain):
        """Reads until the daemon has closed."""
        with contextlib.suppress(ConnectionError):
            while plain.recv(65536):
                pass


class TlsAnswers(TlsCase):
    def test_an_answer_of_several_parts_is_whole(self):
        """This answer is sent in parts: the tensors without the padding between them."""
        parted = False
        for count in (1001, 1002, 30_001):
            body = rows(count)
            described, data = self.daemon.post("/v1/voxelize?preset=kitti_second", body).tensors()
            spans = [described[name]["data_offsets"] for name in described if not name.startswith("_padding_")]
            parted = parted or len(described) > len(spans)
            path, raw = "/v2/models/kitti_second/infer", {"Inference-Header-Content-Length": "0"}
            reply = self.daemon.post(path, body, raw)
            answered = reply.body[int(reply.headers["Inference-Header-Content-Length"]) :]
            self.assertEqual(answered, b"".join(data[begin:end] for begin, end in sorted(spans)))
        self.assertTrue(parted)


class TlsUploads(TlsCase):
    OPTIONS = ("--max-body-bytes", str(LIMIT), "--upload-timeout-s", "60", "--idle-timeout-s", "90")

    def test_aborted_uploads_leave_nothing(self):
        def bye(connection):
            connection.socket.settimeout(0.01)  # unwrap() sends the closing alert, and does not wait for the answer
            with contextlib.suppress(OSError):
                connection.socket.unwrap()
            connection.close()

        for leave in (Raw.close, Raw.reset, bye):
            connections = [self.begin_upload() for _ in range(10)]
            self.wait_for_uploads(10)
            for connection in connections:
                leave(connection)
            self.daemon.assert_quiet()
        self.assert_voxels(self.daemon.post(VOXELIZE, rows(4)))

    def test_an_upload_cut_in_the_middle_of_a_record(self):
        connection = self.begin_upload()
        self.wait_for_uploads(1)
        plain = socket.socket(fileno=connection.socket.detach())
        plain.send(b"\x17\x03\x03\x40\x00" + bytes(100))
        plain.close()
        self.daemon.assert_quiet()

    def test_rubbish_in_the_stream_ends_the_connection(self):
        connection = self.begin_upload()
        self.wait_for_uploads(1)
        plain = socket.socket(fileno=connection.socket.detach())
        plain.settimeout(PATIENCE)
        self.addCleanup(plain.close)
        plain.send(b"\x17\x03\x03\x00\x40" + bytes(64))
        self.ends(plain)
        self.daemon.assert_quiet()

    def test_error_text_reaches_a_client_that_is_still_sending(self):
        body = tiled_rows(5 * MB)
        for _ in range(3):
            self.assert_problem(self.daemon.post(VOXELIZE, body * 2), 413)
            self.assert_problem(self.daemon.post(VOXELIZE + "&order=x", body), 400, "order")

    def test_an_endless_chunked_body_is_cut_off_and_counted(self):
        self.daemon.await_accounts()
        before = refusals(self.daemon, "body-too-large")
        connection = self.raw().send(head("POST", VOXELIZE, "Transfer-Encoding: chunked"))
        piece = b"10000\r\n" + bytes(65536) + b"\r\n"
        with contextlib.suppress(OSError):
            for _ in range(10 * LIMIT // 65536):
                connection.socket.sendall(piece)
            self.fail("the daemon took ten times the largest body without an answer")
        wait_until(lambda: refusals(self.daemon, "body-too-large") == before + 1, "the refusal is counted")
        wait_until(
            lambda: any("reason=body-too-large" in line for line in list(self.daemon.lines)), "its line of the log"
        )

    def test_pipelined_requests(self):
        for body in (rows(4), tiled_rows(300_000)):
            connection = self.raw().send(post(body) * 5)
            for _ in range(5):
                self.assertEqual(self.assert_voxels(connection.read())["points"]["received"], len(body) // ROW)

    def test_keep_alive_and_large_answers(self):
        connection = self.daemon.connection()
        self.addCleanup(connection.close)
        for _ in range(5):
            path = VOXELIZE + "&feature=points&max_points_per_voxel=32"
            self.assert_voxels(self.daemon.post(path, tiled_rows(2 * MB), connection=connection))

    def test_a_client_that_leaves_during_its_answer(self):
        for _ in range(10):
            connection = self.raw(receive_buffer=4096).send(post(tiled_rows(2 * MB), VOXELIZE + "&feature=points"))
            connection.reset()
        self.daemon.assert_quiet()

    def test_half_closed_client_gets_its_answer_or_its_end(self):
        # In TLS, the end of a stream without an alert is an error.
        connection = self.raw().send(post(rows(4)))
        connection.finish_sending()
        with contextlib.suppress(Closed, ssl.SSLError):
            self.assert_voxels(connection.read_final())


class TlsDeadlines(TlsCase):
    OPTIONS = ("--upload-timeout-s", "2", "--idle-timeout-s", "3", "--upload-min-rate", "0")

    def test_a_stalled_upload_ends_without_a_byte_that_is_not_tls(self):
        self.daemon.await_accounts()
        before = refusals(self.daemon, "body-stalled")
        connections = [self.raw().send(HALF[0] + HALF[1][:sent]) for sent in (0, 1, 65536)]
        for connection in connections:
            # Bytes that are not TLS would raise SSLError: WRONG_VERSION_NUMBER or BAD_RECORD.
            with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
                self.assertEqual(connection.socket.recv(1000), b"")
        wait_until(lambda: refusals(self.daemon, "body-stalled") == before + 3, "the refusals are counted")
        told = lambda line: "reason=body-stalled" in line and "status=408" in line
        wait_until(lambda: any(told(line) for line in list(self.daemon.lines)), "their lines of the log")

    def test_handshakes_that_stall_are_ended(self):
        hello = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(20)
        stalled = [self.bare() for _ in range(6)]
        for plain, sent in zip(stalled, (b"", b"\x16", hello[:5], hello, hello[:11], b"")):
            plain.send(sent)
        self.assert_voxels(self.daemon.post(VOXELIZE, rows(4)))
        for plain in stalled:
            self.ends(plain)
        wait_until(lambda: self.daemon.status()["connections"]["open"] == 1, "the end of all other connections")

    def test_a_handshake_that_drips_is_ended(self):
        plain = self.bare()
        with contextlib.suppress(ConnectionError):
            for byte in b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc" + bytes(PATIENCE * 10):
                plain.send(bytes([byte]))
                time.sleep(0.1)  # the pace of the drip
            self.fail("a handshake was still being taken, byte by byte")

    def test_clients_that_leave_in_the_handshake(self):
        for sent in (b"", b"\x16\x03\x01", b"GET / HTTP/1.1\r\n\r\n", bytes(1000)):
            for _ in range(5):
                plain = self.bare()
                plain.send(sent)
                plain.close()
        wait_until(lambda: self.daemon.status()["connections"]["open"] == 1, "the end of all other connections")


class TlsShares(TlsCase):
    OPTIONS = ("--max-connections", "8")

    def is_served(self):
        with contextlib.suppress(OSError):
            return self.daemon.get("/healthz").status == 200

    def test_connections_over_the_share_end_without_a_byte_that_is_not_tls(self):
        kept, refused = [], 0
        for _ in range(20):
            try:  # bytes that are not TLS would raise another SSLError: WRONG_VERSION_NUMBER
                kept.append(Raw(self.daemon))
            except (ConnectionError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
                refused += 1
        for connection in kept:
            connection.close()
        self.assertGreater(refused, 0)
        wait_until(self.is_served, "room for a connection again")


del TlsCase, FaultCase  # base classes are not tests

if __name__ == "__main__":
    unittest.main()
