"""/metrics: each request is counted once, by its outcome, and promtool accepts the page."""

import concurrent.futures
import functools
import re
import shutil
import struct
import subprocess
import unittest

from client import LONG, LONG_POINTS, MB, PATIENCE, VOXELIZE, Daemon, FaultCase, Raw
from client import head, many_rows, post, rows, wait_until

SAMPLE = re.compile(r"([a-z_]+)(?:\{(.*)\})?")
LABEL = re.compile(r'([a-z]+)="((?:[^"\\]|\\.)*)"')
LARGE = VOXELIZE + "&feature=points&max_points_per_voxel=1024"  # an answer with 16 KB a voxel: more than sockets hold


@functools.cache
def key_of(sample):
    """(name, label values...) of a sample."""
    name, labels = SAMPLE.fullmatch(sample).groups()
    return (name, *(value for _, value in LABEL.findall(labels or "")))


class Metrics(dict):
    """The samples of a scrape: {(name, label values...): number}."""

    def __init__(self, daemon):
        self.text = daemon.get("/metrics").body.decode()
        for line in self.text.splitlines():
            if not line.startswith("#"):
                sample, _, value = line.rpartition(" ")
                self[key_of(sample)] = float(value)

    def sum(self, name, *labels):
        return sum(value for key, value in self.items() if key[: 1 + len(labels)] == (name, *labels))


class Counted(FaultCase):
    ARGS = ("--workers", "2", "--long-workers", "1", "--gpu-long-streams", "1", "--max-body-bytes", str(16 * MB))
    ARGS += ("--max-sampling-work", str(10**13), "--max-timeout-ms", "3600000")

    def setUp(self):
        self.daemon.await_accounts()
        self.before = Metrics(self.daemon)

    def grown(self, name, *labels):
        return Metrics(self.daemon).sum(name, *labels) - self.before.sum(name, *labels)

    def until_grown(self, by, name, *labels):
        """Waits until the sample has grown by `by`: requests are counted a moment after their answers."""
        grown = lambda: self.grown(name, *labels)
        wait_until(lambda: grown() >= by, lambda: f"{name} {labels} to grow by {by}, not by {grown()}")
        self.assertEqual(grown(), by)

    def test_requests_by_code_are_those_that_were_sent(self):
        sent = {
            ("/v1/voxelize", "200", None): lambda: self.daemon.post(VOXELIZE, rows(100)),
            ("/v1/voxelize", "400", "bad-parameter"): lambda: self.daemon.post(VOXELIZE + "&max_voxels=0", rows(1)),
            ("/v1/voxelize", "400", "bad-body"): lambda: self.daemon.post(VOXELIZE, bytes(15)),
            ("/v1/voxelize", "405", "method-not-allowed"): lambda: self.daemon.get(VOXELIZE),
            ("/v1/voxelize", "413", "body-too-large"): lambda: self.daemon.post(VOXELIZE, bytes(16 * MB + 16)),
            ("/v1/voxelize", "415", "unsupported-media-type"): lambda: self.daemon.post(
                VOXELIZE, rows(1), {"Content-Type": "text/plain"}
            ),
            ("/v1/fps", "422", "impossible"): lambda: self.daemon.post("/v1/fps?num_samples=9", rows(1)),
            ("unknown", "404", "not-found"): lambda: self.daemon.get("/nowhere"),
            ("/healthz", "200", None): lambda: self.daemon.get("/healthz"),
        }
        with concurrent.futures.ThreadPoolExecutor(4) as clients:
            for number, ((_, code, _), ask) in enumerate(sent.items(), 1):
                for done in [clients.submit(ask) for _ in range(number)]:
                    self.assertEqual(str(done.result().status), code)
        for number, (endpoint, code, reason) in enumerate(sent, 1):
            same_code = sum(n for n, (e, c, _) in enumerate(sent, 1) if (e, c) == (endpoint, code))
            same_endpoint = sum(n for n, (e, _, _) in enumerate(sent, 1) if e == endpoint)
            with self.subTest(f"{endpoint} {code} {reason}"):
                self.until_grown(same_code, "voxeld_requests_total", endpoint, code)
                self.until_grown(same_endpoint, "voxeld_request_duration_seconds_count", endpoint)
                if reason:
                    self.until_grown(number, "voxeld_refusals_total", reason)
        self.assertEqual(self.grown("voxeld_requests_aborted_total"), 0)
        self.assertEqual(self.grown("voxeld_requests_unparsed_total"), 0)

    def test_every_point_has_one_fate_and_every_job_its_times(self):
        nan, inf = float("nan"), float("inf")
        odd = struct.pack("<16f", 0, 0, 0, 0, nan, 0, 0, 0, 0, 0, inf, 0, 99, 0, 0, 0)
        bodies = [odd, rows(1000), rows(5000), b""]
        for body in bodies:
            for query in ("", "&max_points_per_voxel=1", "&max_voxels=3", "&block_filter=1,1,0.1,2", "&fps=0"):
                self.assertEqual(self.daemon.post(VOXELIZE + query, body).status, 200)
        jobs = 5 * len(bodies)
        self.until_grown(jobs, "voxeld_jobs_total")
        self.until_grown(5 * sum(map(len, bodies)) // 16, "voxeld_points_total")
        self.until_grown(5 * sum(map(len, bodies)), "voxeld_received_bytes_total")
        self.until_grown(5 * 2, "voxeld_points_total", "not_finite")
        computed = ("copy_in", "voxelize", "features", "scatter", "sample", "copy_out")
        stages = ("receive", "queue", *computed, "total", "send")
        for stage in stages:
            self.until_grown(jobs, "voxeld_stage_duration_seconds_count", stage)
        after = Metrics(self.daemon)
        for stage in stages:
            buckets = [v for k, v in after.items() if k[:2] == ("voxeld_stage_duration_seconds_bucket", stage)]
            self.assertEqual(buckets, sorted(buckets))
            self.assertEqual(buckets[-1], after["voxeld_stage_duration_seconds_count", stage])

    def test_client_that_leaves_in_the_upload(self):
        with self.raw().send(post(rows(1000))[:-1]):
            wait_until(lambda: self.daemon.status()["requests"]["active"] > 0, "an upload")
        self.until_grown(1, "voxeld_requests_aborted_total", "upload")

    def test_clients_that_leave_while_their_jobs_wait_and_run(self):
        status = self.daemon.status
        runs = self.raw().send(post(many_rows(LONG_POINTS), LONG))
        wait_until(lambda: status()["long_workers"]["running"] == 1, "a long job that runs")
        waits = self.raw().send(post(rows(10), "/v1/fps?num_samples=1"))
        wait_until(lambda: status()["long_queue"]["depth"] == 1, "a sampling that waits")
        waits.reset()
        self.until_grown(1, "voxeld_requests_aborted_total", "queue")
        runs.reset()
        self.until_grown(1, "voxeld_requests_aborted_total", "run")
        self.assertEqual(self.grown("voxeld_refusals_total"), 0)

    def test_client_that_leaves_while_it_is_sent_its_answer(self):
        receiver = self.raw(receive_buffer=4096).send(post(rows(1500), LARGE))
        self.assertTrue(receiver.readable(PATIENCE))
        receiver.reset()
        self.until_grown(1, "voxeld_requests_aborted_total", "send")

    def test_what_the_library_answers_by_itself(self):
        cases = {
            "400": head("POST", VOXELIZE, "Content-Length: many"),
            "413": head("POST", VOXELIZE, "Content-Length: 99999999999999999999999"),
            "414": head("GET", "/" + 300_000 * "x"),
            "431": head("GET", "/healthz", *(f"X-{n}: {1000 * 'x'}" for n in range(400))),
            "505": head("GET", "/healthz", version="HTTP/3.0"),
        }
        counted = {code: ("voxeld_requests_unparsed_total", code) for code in cases}
        for code, request in cases.items():
            with self.subTest(code), self.raw() as connection:
                before = self.grown(*counted[code])
                sent = connection.send_some(request)
                self.assertTrue(sent)
                self.until_grown(before + 1, *counted[code])

    def test_connections_end_for_one_reason_each(self):
        with self.raw():
            pass
        self.until_grown(1, "voxeld_connections_ended_total", "no_request")
        with self.raw().send(b"\x16\x03\x01 no HTTP at all\r\n\r\n") as connection:
            self.assertTrue(connection.ended())
        self.until_grown(2, "voxeld_connections_ended_total", "no_request")
        with self.raw().send(b"GET /healthz HTTP/1.1\r\nHost: vox") as connection:
            pass
        self.until_grown(1, "voxeld_connections_ended_total", "head")
        self.assertGreater(self.grown("voxeld_connections_ended_total", "usual"), 0)  # for /metrics

    def test_process(self):
        metrics = Metrics(self.daemon)
        self.assertGreater(metrics["process_cpu_seconds_total",], 0)
        self.assertGreater(metrics["process_resident_memory_bytes",], MB)
        self.assertGreaterEqual(metrics["process_virtual_memory_bytes",], metrics["process_resident_memory_bytes",])
        self.assertGreaterEqual(metrics["process_open_fds",], 5)
        self.assertGreater(metrics["process_max_fds",], metrics["process_open_fds",])
        with open("/proc/stat") as stat:
            booted = next(int(line.split()[1]) for line in stat if line.startswith("btime"))
        self.assertGreater(metrics["process_start_time_seconds",], booted)


class Timeouts(FaultCase):
    ARGS = (
        "--upload-timeout-s",
        "1",
        "--idle-timeout-s",
        "2",
        "--send-timeout-s",
        "1",
        "--max-response-bytes",
        str(64 * MB),
    )

    def until_counted(self, number, *sample):
        found = lambda: Metrics(self.daemon)[sample]
        wait_until(lambda: found() >= number, lambda: f"{sample} to be {number}, not {found()}")
        self.assertEqual(found(), number)

    def test_timeouts_by_reason(self):
        kept = [self.raw(), self.raw().send(b"GET /healthz HTTP/1.1\r\n")]  # an idle connection, and one in its head
        kept.append(self.raw().send(post(rows(1000))[:-1]))
        kept.append(self.raw(receive_buffer=4096).send(post(rows(1500), LARGE)))
        for reason, number in (("upload_failed", 1), ("send_timeout", 1), ("idle_timeout", 2)):
            self.until_counted(number, "voxeld_connections_ended_total", reason)
        self.until_counted(1, "voxeld_refusals_total", "body-stalled")
        self.until_counted(1, "voxeld_requests_aborted_total", "send")


@unittest.skipUnless(shutil.which("promtool"), "there is no promtool here")
class Promtool(unittest.TestCase):
    def check(self, daemon):
        text = Metrics(daemon).text
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_no_complaint_before_and_after_a_mixed_load(self):
        with Daemon("--workers", "1") as daemon:
            self.check(daemon)
            daemon.post(VOXELIZE, rows(1000))
            daemon.post("/v1/fps?num_samples=3", rows(1000))
            daemon.post(VOXELIZE, bytes(15))
            daemon.get("/nowhere")
            with Raw(daemon) as connection:
                reply = connection.send(head("GET", "/healthz", version="HTTP/3.0")).read()
                self.assertEqual(reply.status, 505)
            with Raw(daemon) as connection:
                connection.send(post(rows(1000))[:-1])
            daemon.assert_quiet()
            self.check(daemon)


if __name__ == "__main__":
    unittest.main()
