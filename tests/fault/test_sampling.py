"""Long samplings, steps and comparisons of boxes end when their client leaves, at their deadline, or when the daemon
stops. Quick jobs do not wait for them."""

import http.client
import signal
import threading
import time
import unittest

import client
from client import LONG, LONG_POINTS, SAMPLING, VOXELIZE, Closed, Crowd, Daemon, FaultCase, Raw
from client import begun, many_rows, post, rows, wait_until, with_long_steps

SAMPLED_VOXELS = (
    "/v1/voxelize?num_features=3&point_cloud_range=1,1,1,2,2,2&voxel_size=0.001,0.001,0.001&max_voxels=16777216"
    "&max_points_per_voxel=1&outputs=sampled_indices"
    f"&fps={LONG_POINTS * 6 // 10}"
)
LONG_VOXELS = with_long_steps(SAMPLED_VOXELS)
STEPS = with_long_steps("/v1/points?num_features=3&outputs=point_indices")
SHORT = "/v1/fps?num_samples=3"
ARGS = ("--workers", "1", "--long-workers", "1", "--gpu-streams", "1", "--gpu-long-streams", "1")
ARGS += ("--max-sampling-work", str(10**13), "--max-timeout-ms", "3600000")


BODY = many_rows(LONG_POINTS)


def running(daemon):
    return daemon.status()["long_workers"]["running"]


def waiting(daemon):
    return daemon.status()["long_queue"]["depth"]


def begin(daemon, path=LONG, body=BODY):
    """Begins a long job. Returns its connection when the job runs."""
    client = Raw(daemon).send(post(body, path))
    wait_until(lambda: running(daemon) == 1, "a long job that runs")
    return client


class Gone(FaultCase):
    ARGS = ARGS

    def until_free(self):
        wait_until(lambda: running(self.daemon) == 0, "a worker that is free again")
        self.assertEqual(self.daemon.post(SHORT, rows(10)).status, 200)

    def test_client_that_resets_in_mid_job(self):
        for path in (LONG, LONG_VOXELS):
            with self.subTest(path):
                begin(self.daemon, path).reset()
                self.until_free()

    def test_clients_that_reset_while_they_wait(self):
        first = begin(self.daemon)
        others = [Raw(self.daemon).send(post(rows(100), SHORT)) for _ in range(5)]
        wait_until(lambda: waiting(self.daemon) == 5, "samplings that wait")
        for other in others:
            other.reset()
        wait_until(lambda: waiting(self.daemon) == 0, "an empty queue")
        first.reset()
        self.until_free()

    def test_half_closed_clients_get_their_samples(self):
        for path in (SHORT, VOXELIZE + "&fps=3"):
            client = self.raw().send(post(rows(2000), path))
            client.finish_sending()
            reply = client.read_final()
            self.assertEqual(reply.status, 200, reply)
            self.assertTrue(client.ended())

    def test_clients_that_vanish_at_any_moment(self):
        for turn in range(40):
            client = Raw(self.daemon)
            data = post(rows(3000), "/v1/fps?num_samples=500" if turn % 2 else VOXELIZE + "&fps=200")
            client.send(data[: len(data) * (1 + turn % 4) // 4])
            (client.reset if turn % 3 else client.close)()
        self.until_free()

    def test_deadline_in_mid_sampling(self):
        for path in (SAMPLING, SAMPLED_VOXELS):
            ask = lambda deadline: self.daemon.post(f"{path}&timeout_ms={deadline}", BODY)
            problem = self.assert_problem(begun(ask), 504)
            self.assertIn("deadline", problem["type"])
            self.assertIn("ended before all ", problem["detail"])
        self.until_free()

    def test_deadline_in_mid_step(self):
        reply = begun(lambda deadline: self.daemon.post(f"{STEPS}&timeout_ms={deadline}", BODY))
        self.assertIn("ended before all rows were done", self.assert_problem(reply, 504)["detail"])
        self.until_free()

    def test_client_that_resets_in_mid_step(self):
        client = begin(self.daemon, STEPS)
        began = time.monotonic()
        client.reset()
        self.until_free()
        self.assertLess(time.monotonic() - began, 1, "the steps ran to their end")

    def test_voxels_do_not_wait(self):
        clients = [begin(self.daemon)] + [Raw(self.daemon).send(post(BODY, LONG)) for _ in range(5)]
        wait_until(lambda: waiting(self.daemon) == 5, "long jobs that wait")
        crowd = Crowd(self.daemon, 8, VOXELIZE, rows(3000))
        for reply in crowd.join():
            self.assertEqual(reply.status, 200, reply)
        self.assertFalse(any(client.readable(0) for client in clients), "a long job was over first")
        for client in clients:
            client.reset()
        self.until_free()


# All boxes are at one place and have no area: each pair is compared, and no box is suppressed.
COUNT = 100_000
BOXES = client.tensor_file(boxes=([COUNT, 7], bytes(28 * COUNT)), scores=([COUNT], bytes(4 * COUNT)))
COMPARED = f"/v1/nms?nms_pre_max={COUNT}&nms_post_max={COUNT}"


class Boxes(FaultCase):
    ARGS = ARGS

    def until_free(self):
        wait_until(lambda: running(self.daemon) == 0, "a worker that is free again")

    def test_deadline_in_mid_comparison(self):
        reply = self.daemon.post(COMPARED + "&timeout_ms=400", BOXES)
        self.assertIn("ended before all ", self.assert_problem(reply, 504)["detail"])
        self.until_free()

    def test_client_that_resets_in_mid_comparison(self):
        begin(self.daemon, COMPARED, BOXES).reset()
        self.until_free()

    def test_others_do_not_wait(self):
        """With default parameters, nms ranks 4096 boxes, which is a quick job."""
        compared = begin(self.daemon, COMPARED, BOXES)
        self.assert_voxels(self.daemon.post(VOXELIZE, rows(100)))
        self.assertEqual(self.daemon.post("/v1/nms", BOXES).status, 200)
        self.assertEqual(running(self.daemon), 1)
        compared.reset()
        self.until_free()


class Queue(FaultCase):
    ARGS = ARGS + ("--queue-depth", "1")

    def test_full_for_samples_is_not_full_for_voxels(self):
        first = begin(self.daemon)
        second = Raw(self.daemon, source="127.0.0.2").send(post(rows(100), SHORT))
        wait_until(lambda: waiting(self.daemon) == 1, "a sampling that waits")
        for path in (SHORT, VOXELIZE + "&fps=3"):
            self.assertIn("queue-full", self.assert_problem(self.daemon.post(path, rows(100)), 503)["type"])
        compared = self.assert_problem(self.daemon.post(COMPARED, BOXES), 503)  # refused when its boxes are counted
        self.assertIn("queue-full", compared["type"])
        self.assertEqual(self.daemon.post("/v1/nms", BOXES).status, 200)
        self.assert_voxels(self.daemon.post(VOXELIZE, rows(100)))
        first.reset()
        self.assertEqual(second.read().status, 200)
        second.close()


class Memory(FaultCase):
    MEGABYTE = 1 << 20
    ARGS = ARGS + ("--max-body-bytes", str(MEGABYTE), "--max-response-bytes", str(MEGABYTE))
    ARGS += ("--memory-budget-bytes", str(8 * MEGABYTE))

    def test_bodies_to_be_sampled_leave_half_to_others(self):
        body = many_rows(80_000)[: self.MEGABYTE - 48]
        held = [Raw(self.daemon, source=f"127.0.0.{n}").send(post(body, SHORT)[:-1000]) for n in range(2, 5)]
        # Bodies of samplings may take half of 8 MB. The last sixteenth of this half is for small bodies, so three fit.
        wait_until(lambda: self.daemon.status()["buffers"]["in_use_bytes"] == 3 * self.MEGABYTE, "three bodies")
        for path in (SHORT, VOXELIZE + "&fps=3"):
            self.assertIn("memory-full", self.assert_problem(self.daemon.post(path, body), 503)["type"])
        self.assert_voxels(self.daemon.post(VOXELIZE, rows(100)))
        for client in held:
            client.reset()
        wait_until(lambda: self.daemon.status()["buffers"]["in_use_bytes"] == 0, "bodies given back")
        self.assertEqual(self.daemon.post(SHORT, rows(100)).status, 200)


class Shutdown(unittest.TestCase):
    def daemon(self, *args):
        daemon = Daemon(*ARGS, *args)
        self.addCleanup(lambda: daemon.process.poll() is None and daemon.kill())
        return daemon

    def stopped_while_sampling(self, number):
        """Sends SIGTERM during a sampling. Returns its answer; None if the answer came before the signal."""
        daemon, replies = self.daemon("--drain-timeout-s", "86400"), []
        body = BODY[: 12 * 4 * number]
        path = f"/v1/fps?num_features=3&num_samples={number}"
        client = threading.Thread(target=lambda: replies.append(daemon.post(path, body)))
        client.start()
        wait_until(lambda: running(daemon) == 1 or not client.is_alive(), "a sampling that runs")
        in_time = client.is_alive()
        daemon.terminate()
        client.join()
        self.assertEqual(daemon.wait(), 0, daemon.log())
        self.assertEqual(replies[0].status, 200, replies[0])
        return replies[0] if in_time else None

    def test_sampling_is_answered_before_the_end(self):
        number = 2000
        while not self.stopped_while_sampling(number):
            number *= 2  # four times the work
            self.assertLess(number, LONG_POINTS // 4, "never seen in mid-sampling")

    def test_a_long_job_is_ended_when_the_drain_is_over(self):
        for path in (LONG, LONG_VOXELS):
            daemon = self.daemon("--drain-timeout-s", "0")
            client = begin(daemon, path)
            daemon.terminate()
            try:
                self.assertIn("draining", FaultCase.assert_problem(self, client.read(), 503)["type"])
                code = 0
            except Closed:
                code = 1  # on a busy machine the job may end too late for an answer
            client.close()
            self.assertEqual(daemon.wait(), code, daemon.log())

    def test_client_that_resets_ends_the_drain(self):
        daemon = self.daemon("--drain-timeout-s", "86400")
        client = begin(daemon)
        daemon.terminate()
        client.reset()
        self.assertEqual(daemon.wait(), 0, daemon.log())

    def test_second_signal_ends_at_once(self):
        daemon = self.daemon("--drain-timeout-s", "86400")
        client = begin(daemon)
        connection = daemon.connection()
        daemon.terminate()
        try:
            wait_until(lambda: daemon.request("GET", "/readyz", connection=connection).status == 503, "a drain")
        except (OSError, http.client.HTTPException):
            pass  # the draining daemon may close the connection
        daemon.terminate()
        self.assertEqual(daemon.wait(), -signal.SIGTERM)
        connection.close()
        client.close()


if __name__ == "__main__":
    unittest.main()
