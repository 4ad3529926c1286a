"""Stopping: the daemon answers accepted jobs, refuses new jobs, and exits with 0. A second signal ends it at once."""

import http.client
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import threading
import unittest

from client import HEAVY, VOXELIZE, Crowd, Daemon, Raw, head, heavy_jobs, heavy_rows, many_rows, post, rows
from client import PATIENCE, Closed, FaultCase, is_sanitized, wait_until
from daemon import started, voxeld_binary

ARGS = ("--workers", "1", "--backend", "cpu", "--queue-depth", "256", "--drain-timeout-s", "120")
SLOW = (
    "/v1/voxelize?num_features=3&point_cloud_range=1,1,1,2,2,2&voxel_size=0.0005,0.0005,0.0005&max_voxels=16777216"
    "&order=key&block_filter=1,32,0,9&outputs=voxel_num_points"
)
ATTEMPTS = 4  # each with twice the work, since a fast machine may answer all jobs before the test asks


class StandardInput(unittest.TestCase):
    def setUp(self):
        self.log = tempfile.TemporaryFile("w+")
        self.addCleanup(self.log.close)
        options = ("--listen", "127.0.0.1:0", "--backend", "cpu", "--stop-with-stdin", "yes", "--drain-delay-s", "1")
        self.daemon = subprocess.Popen([voxeld_binary(), *options], stdin=subprocess.PIPE, stderr=self.log)
        self.addCleanup(self.daemon.kill)
        self.await_logged("msg=listening")

    def logged(self, part):
        return part in os.pread(self.log.fileno(), 1 << 16, 0).decode()

    def await_logged(self, part):
        wait_until(lambda: self.logged(part), f"a line with {part}")

    def test_the_daemon_stops_when_its_standard_input_ends(self):
        self.daemon.stdin.write(b"these bytes are not the end\n")
        self.daemon.stdin.flush()
        self.assertFalse(self.logged("msg=draining"))
        self.daemon.stdin.close()
        self.assertEqual(self.daemon.wait(PATIENCE), 0)
        self.assertTrue(self.logged('msg=draining reason="standard input has ended"'))

    def test_the_end_of_standard_input_is_no_second_signal(self):
        self.daemon.terminate()
        self.await_logged("msg=draining")
        self.daemon.stdin.close()
        self.assertEqual(self.daemon.wait(PATIENCE), 0)

    def test_its_own_signals_never_end_it(self):
        """SIGUSR1 and SIGUSR2 come at every moment of the stop."""
        self.daemon.terminate()
        self.await_logged("msg=draining")
        while self.daemon.poll() is None:
            for own in (signal.SIGUSR1, signal.SIGUSR2):
                self.daemon.send_signal(own)
        self.assertEqual(self.daemon.returncode, 0)

    def test_a_signal_after_the_end_of_standard_input_is_the_first(self):
        self.daemon.stdin.close()
        self.await_logged("msg=draining")
        self.daemon.terminate()
        self.assertEqual(self.daemon.wait(PATIENCE), 0)


class Shutdown(unittest.TestCase):
    def loaded(self, seconds):
        """A daemon whose only worker has about `seconds` of work, and the clients that wait for answers."""
        body = heavy_rows()
        daemon = Daemon(*ARGS)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        number = heavy_jobs(daemon, body, seconds)
        crowd = Crowd(daemon, number, HEAVY, body)
        wait_until(
            lambda: daemon.status()["queue"]["depth"] >= min(number, 4) - 1 or not crowd.waiting(), "jobs that wait"
        )
        return daemon, crowd

    def until_draining(self, daemon, connection):
        """Asks /readyz until the answer is 503. Returns this answer; None if the daemon ends before."""
        while True:
            try:
                reply = daemon.request("GET", "/readyz", connection=connection)
            except (OSError, http.client.HTTPException):
                return None
            if reply.status == 503:
                return reply

    def test_jobs_in_flight_are_answered(self):
        for attempt in range(ATTEMPTS):
            daemon, crowd = self.loaded(2**attempt)
            accepted = daemon.status()["queue"]["depth"]
            daemon.terminate()
            replies = crowd.join()
            self.assertEqual(daemon.wait(), 0, daemon.log())
            statuses = [reply.status for reply in replies if reply]
            self.assertLessEqual(set(statuses), {200, 503})
            self.assertGreaterEqual(statuses.count(200), accepted)
            if accepted:
                return
        self.fail("no job waited when the signal came")

    def refused_while_draining(self, seconds):
        """A draining daemon's answers to a new job and to /healthz; None if the drain ended too soon."""
        daemon, crowd = self.loaded(seconds)
        connections = [daemon.connection() for _ in range(3)]
        for connection in connections:
            daemon.request("GET", "/healthz", connection=connection)
        daemon.terminate()
        try:
            if not self.until_draining(daemon, connections[0]):
                return None
            return (
                daemon.post(VOXELIZE, rows(4), connection=connections[1]),
                daemon.request("GET", "/healthz", connection=connections[2]),
            )
        except (OSError, http.client.HTTPException):
            return None
        finally:
            for connection in connections:
                connection.close()
            crowd.join()
            self.assertEqual(daemon.wait(), 0, daemon.log())

    def test_new_jobs_are_refused(self):
        for attempt in range(ATTEMPTS):
            answers = self.refused_while_draining(0.5 * 2**attempt)
            if answers:
                break
        else:
            self.fail("the drain always ended before the daemon could be asked")
        FaultCase.assert_problem(self, answers[0], 503)
        self.assertEqual(answers[0].headers["Connection"].lower(), "close")
        self.assertEqual(answers[1].status, 200)

    def test_kept_connections_are_sent_away_before_anything_is_refused(self):
        daemon = Daemon("--drain-delay-s", "86400")
        kept = daemon.connection()
        self.assertNotEqual(
            daemon.post(VOXELIZE, rows(4), connection=kept).headers.get("Connection", "").lower(), "close"
        )
        daemon.terminate()
        wait_until(lambda: daemon.get("/readyz").status == 503, "a daemon that is about to drain")
        reply = daemon.post(VOXELIZE, rows(4), connection=kept)
        self.assertEqual((reply.status, reply.headers["Connection"].lower()), (200, "close"))
        kept.close()
        daemon.terminate()
        self.assertEqual(daemon.wait(), -signal.SIGTERM)

    def test_second_signal_ends_at_once(self):
        for attempt in range(ATTEMPTS):
            daemon, crowd = self.loaded(1.5 * 2**attempt)
            connection = daemon.connection()
            daemon.request("GET", "/readyz", connection=connection)
            daemon.terminate()
            draining = self.until_draining(daemon, connection)
            connection.close()
            daemon.terminate()
            daemon.wait()
            replies = crowd.join()
            if draining and None in replies:
                return
        self.fail("every job was answered after the second signal")

    def test_job_that_runs_is_ended_when_the_drain_is_over(self):
        daemon = Daemon(*ARGS[:4], "--drain-timeout-s", "0")
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        client = Raw(daemon).send(post(many_rows(1_000_000 if is_sanitized() else 5_500_000), SLOW))
        wait_until(lambda: daemon.status()["workers"]["running"] == 1, "a job that runs")
        daemon.terminate()
        try:
            self.assertIn("draining", FaultCase.assert_problem(self, client.read(), 503)["type"])
            code = 0
        except Closed:
            code = 1  # on a busy machine the job may end too late for an answer
        client.close()
        self.assertEqual(daemon.wait(), code, daemon.log())

    def test_idle_and_half_open_connections_do_not_delay_it(self):
        for stop in (signal.SIGTERM, signal.SIGINT):
            daemon = Daemon("--drain-timeout-s", "86400")
            idle = [Raw(daemon) for _ in range(10)]
            for n, connection in enumerate(idle[:6]):
                connection.send(head("GET", "/healthz")[: n * 4])
            kept = daemon.connection()
            daemon.request("GET", "/healthz", connection=kept)
            daemon.process.send_signal(stop)
            self.assertEqual(daemon.wait(), 0, daemon.log())
            for connection in idle:
                self.assertTrue(connection.ended())
                connection.close()
            kept.close()

    def test_upload_under_way_is_no_accepted_job(self):
        daemon = Daemon("--drain-timeout-s", "3")
        uploading = Raw(daemon).send(head("POST", VOXELIZE, "Content-Length: 1600000") + rows(100))
        wait_until(lambda: daemon.status()["requests"]["active"] > 0, "the upload begun")
        daemon.terminate()
        self.assertEqual(daemon.wait(), 0, daemon.log())
        try:
            FaultCase.assert_problem(self, uploading.read(), (408, 503))
        except Closed:
            pass
        self.assertTrue(uploading.ended())
        uploading.close()

    def test_refused_body_that_goes_on_is_not_waited_for(self):
        # If the daemon waited for the refused body, it would drain for a day.
        daemon = Daemon("--drain-timeout-s", "86400")
        refused = Raw(daemon).send(head("POST", "/nowhere", "Content-Length: 1600000") + rows(100))
        wait_until(lambda: daemon.status()["requests"]["open"] >= 2, "the refused request")
        daemon.terminate()
        self.assertEqual(daemon.wait(), 0, daemon.log())
        refused.close()

    def test_client_gone_while_its_job_drains(self):
        daemon, crowd = self.loaded(0.5)
        leaving = [Raw(daemon).send(post(rows(100))) for _ in range(6)]
        daemon.terminate()
        for n, connection in enumerate(leaving):
            (connection.reset if n % 2 else connection.close)()
        self.assertEqual(daemon.wait(), 0, daemon.log())
        crowd.join()

    def test_before_any_request(self):
        for _ in range(5):
            Daemon().stop()

    def test_while_malformed_requests_come(self):
        # libmicrohttpd itself refuses these requests.
        malformed = (b"GET / HTTP/9.9\r\n\r\n", b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 40_000 + b"\r\n",
                     b"POST /v1/voxelize HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n")  # fmt: skip
        for _ in range(4):
            daemon, ended = Daemon(), threading.Event()

            def spam(data):
                while not ended.is_set():
                    try:
                        with daemon.socket() as connection:
                            connection.sendall(data)
                            connection.recv(100)
                    except OSError:
                        pass

            clients = [threading.Thread(target=spam, args=(data,)) for data in malformed * 3]
            for client in clients:
                client.start()
            wait_until(lambda: "answered by libmicrohttpd" in daemon.log(), "malformed requests")
            daemon.terminate()
            self.assertEqual(daemon.wait(), 0, daemon.log())
            ended.set()
            for client in clients:
                client.join()

    def test_under_load_again_and_again(self):
        body = rows(3000)
        for turn in range(3):
            daemon = Daemon("--io-threads", str(2 + turn % 3))
            ended, wrong = threading.Event(), []

            def hammer():
                connection = daemon.connection()
                while not ended.is_set():
                    try:
                        reply = daemon.post(VOXELIZE, body, connection=connection)
                        if reply.status not in (200, 503):
                            wrong.append(reply)
                    except ConnectionRefusedError:
                        return  # the daemon listens no more
                    except (OSError, http.client.HTTPException):
                        connection.close()

            clients = [threading.Thread(target=hammer) for _ in range(6)]
            for client in clients:
                client.start()
            for _ in range(random.Random(turn).randrange(20)):  # waits for a random moment under load
                daemon.get("/healthz")
            daemon.terminate()
            try:
                self.assertEqual(daemon.wait(), 0, daemon.log())
            finally:
                ended.set()
                for client in clients:
                    client.join()
            self.assertEqual(wrong, [])


HANG_LIBRARY = os.environ.get("VOXELD_HANG_LIBRARY", "")
AS_PROCESS_1 = ("unshare", "--pid", "--fork", "--kill-child")


def can_be_process_1():
    try:
        return subprocess.run((*AS_PROCESS_1, "true"), capture_output=True).returncode == 0
    except OSError:
        return False


@unittest.skipUnless(os.path.exists(HANG_LIBRARY) and not is_sanitized(), "no library of hanging calls for this build")
class Start(unittest.TestCase):
    """SIGTERM comes while the daemon reads its file of options."""

    def stopped_early(self, *args, prefix=()):
        """The exit status and the log of a daemon that gets SIGTERM while the reading of its options hangs."""
        with tempfile.TemporaryDirectory() as folder:
            config = pathlib.Path(folder, "config")
            config.write_text("{}")
            command = [
                *prefix,
                voxeld_binary(),
                "--listen",
                "127.0.0.1:0",
                "--backend",
                "cpu",
                "--config",
                config,
                *args,
            ]
            environment = {**os.environ, "LD_PRELOAD": HANG_LIBRARY, "VOXELD_HANG": str(config)}
            streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
            with started(command, env=environment, **streams) as process:
                wait_until(pathlib.Path(f"{config}.opened").exists, "a daemon that reads its options")
                os.kill(self.child(process.pid) if prefix else process.pid, signal.SIGTERM)
                pathlib.Path(f"{config}.answers").touch()
                log = process.communicate(timeout=PATIENCE)[1]
            return process.returncode, log

    def child(self, pid):
        return int(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text())

    def assert_clean(self, status, log):
        self.assertEqual(status, 0, log)
        self.assertIn("msg=draining reason=SIGTERM", log)
        self.assertIn("msg=stopped exit=0", log)

    def test_signal_that_comes_early_is_not_lost(self):
        self.assert_clean(*self.stopped_early())

    @unittest.skipUnless(can_be_process_1(), "only root may begin a process as number 1")
    def test_nor_as_process_1_of_a_container(self):
        self.assert_clean(*self.stopped_early(prefix=AS_PROCESS_1))

    def test_it_ends_what_does_not_serve(self):
        self.assertEqual(self.stopped_early("--print-config")[0], -signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
