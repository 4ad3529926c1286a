"""W3C Trace Context: answer, metadata and log continue a client's trace, or begin a new trace."""

import unittest

from client import Raw, head
from http_case import CHUNKED, VOXELIZE_SMALL, SharedDaemonCase, floats

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
TAKEN = f"traceparent: 00-{TRACE}-{PARENT}-01"
ONE = floats(1, 1, 1, 1)


class Trace(SharedDaemonCase):
    ARGS = ("--max-body-bytes", "65536")

    def logged(self, name):
        """The log line of the request with this id."""
        self.daemon.await_accounts()
        (line,) = self.daemon.logged(f"msg=request id={name} ")
        return line

    def traced(self, reply, flags):
        """Checks that the answer has its own span in the client's trace."""
        self.assertRegex(reply.headers["Traceparent"], f"^00-{TRACE}-(?!{PARENT})[0-9a-f]{{16}}-{flags}$")

    def untraced(self, reply):
        """Checks that the answer has a new trace."""
        self.assertRegex(reply.headers["Traceparent"], f"^00-(?!{TRACE})[0-9a-f]{{32}}-[0-9a-f]{{16}}-00$")

    def test_a_clients_trace_is_taken_over_into_answer_metadata_and_log(self):
        reply = self.post(VOXELIZE_SMALL, ONE, TAKEN, "X-Request-Id: taken")
        self.traced(reply, "01")
        self.assertEqual(self.tensors(reply).metadata["trace_id"], TRACE)
        span = reply.headers["Traceparent"].split("-")[2]
        self.assertIn(f"trace_id={TRACE} span_id={span} parent_id={PARENT}", self.logged("taken"))

    def test_without_one_a_new_trace_is_begun_and_the_metadata_stay_as_they_are(self):
        first = self.post(VOXELIZE_SMALL, ONE, "X-Request-Id: begun")
        self.untraced(first)
        self.assertNotIn("trace_id", self.tensors(first).metadata)
        trace = first.headers["Traceparent"].split("-")[1]
        self.assertIn(f"trace_id={trace} span_id=", self.logged("begun"))
        self.assertNotIn("parent_id", self.logged("begun"))
        second = self.ask("/healthz")
        self.untraced(second)
        self.assertNotEqual(second.headers["Traceparent"], first.headers["Traceparent"])

    def test_a_later_versions_trace_is_taken_over(self):
        self.traced(self.ask("/healthz", f"TraceParent: 42-{TRACE}-{PARENT}-01-what-is-to-come"), "01")

    def test_a_malformed_one_an_all_zero_one_and_two_are_not(self):
        for malformed in (
            f"00-{TRACE}-{PARENT}-01-more",
            f"00-{TRACE.upper()}-{PARENT}-01",
            f"ff-{TRACE}-{PARENT}-01",
            f"00-{'0' * 32}-{PARENT}-01",
            f"00-{TRACE}-0000000000000000-01",
            f"00-{TRACE}-{PARENT}",
            TRACE,
            "",
        ):
            with self.subTest(malformed):
                self.untraced(self.ask("/healthz", f"traceparent: {malformed}"))
        self.untraced(self.ask("/healthz", TAKEN, TAKEN))

    def test_every_refusal_bears_the_trace_too(self):
        line = f"traceparent: 00-{TRACE}-{PARENT}-00"
        for path in ("/nowhere", f"{VOXELIZE_SMALL}&max_voxels=0", VOXELIZE_SMALL):
            with self.subTest(path):
                reply = self.post(path, b"123456789012345", line)
                self.assertEqual(reply.status // 100, 4)
                self.traced(reply, "00")
        reply = self.post(VOXELIZE_SMALL, bytes(200_000), line)  # refused early, with a lingering close
        self.problem(reply, 413, "body-too-large")
        self.traced(reply, "00")

    def test_a_refusal_in_the_middle_of_an_upload_bears_the_trace_too(self):
        with Raw(self.daemon) as connection:
            connection.send(head("POST", VOXELIZE_SMALL, TAKEN, CHUNKED) + b"30d40\r\n" + bytes(200_000) + b"\r\n")
            reply = connection.read_final()
            self.assertEqual(reply.status, 413)
            self.traced(reply, "01")


if __name__ == "__main__":
    unittest.main()
