"""Requests whose framing is missing, ambiguous or broken are refused. tests/fault/test_framing.py has more."""

import re
import unittest

from client import Raw
from http_case import SharedDaemonCase

START = "POST /v1/voxelize?preset=kitti_second HTTP/1.1\r\nHost: x\r\n"
ROW = "0123456789abcdef"


class Framing(SharedDaemonCase):
    def tearDown(self):
        self.ok(self.ask("/healthz"))

    def raw(self, request, finish=False):
        """Sends the request. Returns all that comes until the daemon closes the connection."""
        with Raw(self.daemon) as connection:
            connection.send(request.encode())
            if finish:
                connection.finish_sending()
            return connection.rest().decode("latin-1")

    def answered(self, status, request):
        """Checks that there is one answer, with this status."""
        answer = self.raw(request)
        self.assertIn(f"HTTP/1.1 {status} ", answer)
        self.assertEqual(len(re.findall("^HTTP/1.1 ", answer, re.MULTILINE)), 1, answer)
        return answer

    def unparsed(self, status, request):
        """Checks the answer of libmicrohttpd itself, whose head some versions write twice."""
        self.assertIn(f"HTTP/1.1 {status}", self.raw(request))

    def test_no_length_and_no_transfer_coding_is_411(self):
        answer = self.answered(411, f"{START}Connection: close\r\n\r\n")
        self.assertIn("urn:voxeld:problem:length-required", answer)

    def test_two_content_length_headers_are_refused(self):
        for second in (16, 32):
            self.answered(400, f"{START}Content-Length: 16\r\nContent-Length: {second}\r\n\r\n{ROW}")

    def test_content_length_with_transfer_encoding_is_refused(self):
        chunk = f"10\r\n{ROW}\r\n0\r\n\r\n"
        self.answered(400, f"{START}Content-Length: 16\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}")

    def test_transfer_codings_other_than_chunked_are_refused(self):
        for codings in ("gzip, chunked", "gzip", "chunked\r\nTransfer-Encoding: chunked"):
            with self.subTest(codings):
                self.answered(400, f"{START}Transfer-Encoding: {codings}\r\n\r\n0\r\n\r\n")

    def test_chunks_before_http_1_1_are_refused(self):
        start = START.replace("1.1", "1.0")
        for keep in ("close", "keep-alive"):
            with self.subTest(keep):
                request = f"{start}Connection: {keep}\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
                self.assertIn("allowed only in HTTP/1.1", self.answered(400, request))

    def test_blanks_around_a_value_are_no_part_of_it(self):
        lines = "Content-Length: \t16\r\nContent-Encoding: identity \t\r\nConnection: close \r\n"
        self.answered(200, f"{START}{lines}\r\n{ROW}")
        lines = "Transfer-Encoding: \t chunked\r\nAccept: application/json\t\r\nConnection:close\r\n"
        self.assertIn('"received":1', self.answered(200, f"{START}{lines}\r\n10\r\n{ROW}\r\n0\r\n\r\n"))

    def test_a_content_length_that_is_not_a_number_is_refused(self):
        for length in ("-1", "abc", "0x10", "1e3"):
            with self.subTest(length):
                self.unparsed(400, f"{START}Content-Length: {length}\r\n\r\n")

    def test_a_content_length_beyond_64_bits_is_refused(self):
        self.unparsed(4, f"{START}Content-Length: 99999999999999999999999\r\n\r\n")

    def test_a_broken_chunk_size_is_refused(self):
        self.unparsed(400, f"{START}Transfer-Encoding: chunked\r\n\r\nzz\r\n")

    def test_a_chunked_body_of_many_small_chunks_is_whole(self):
        lines = "Accept: application/json\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
        chunks = "4\r\nabcd\r\n" * 64 + "0\r\n\r\n"
        self.assertIn('"received":16', self.answered(200, f"{START}{lines}\r\n{chunks}"))

    def test_a_client_that_half_closes_after_its_request_is_answered(self):
        answer = self.raw(f"{START}Content-Length: 16\r\n\r\n{ROW}", finish=True)
        interim = "HTTP/1.1 100 Continue\r\n\r\n"  # comes if the job has to wait
        self.assertTrue(answer.removeprefix(interim).startswith("HTTP/1.1 200 "), answer)

    def test_a_truncated_body_is_not_answered_with_200(self):
        answer = self.raw(f"{START}Content-Length: 1600\r\n\r\n{ROW * 10}", finish=True)
        self.assertFalse(answer.startswith("HTTP/1.1 200"), answer)

    def test_a_request_line_that_is_no_http_is_closed(self):
        self.assertNotIn("HTTP/1.1 200", self.raw("rubbish\r\n\r\n"))

    def test_a_method_in_lower_case_is_not_that_method(self):
        lines = "Host: x\r\nContent-Length: 0\r\nConnection: close\r\n"
        self.answered(405, f"post /v1/voxelize HTTP/1.1\r\n{lines}\r\n")

    def test_a_request_line_that_names_the_whole_url_is_the_same_request(self):
        lines = "Host: x\r\nConnection: close\r\n"
        self.answered(200, f"GET http://proxied.example:80/healthz HTTP/1.1\r\n{lines}\r\n")
        page = self.answered(200, f"GET http://proxied.example HTTP/1.1\r\n{lines}\r\n")
        self.assertIn("Content-Type: text/html", page)


if __name__ == "__main__":
    unittest.main()
