"""`max_age_ms`: if points are older when a worker opens them, they are not computed, but a sweep is kept. The machine
may be slow, so most ages here are far from the limit."""

import importlib.util
import time
import unittest

import numpy as np

from client import counters
from test_latest import BODY, JSON, SHORT, Held, infer_body

ROSBAGS = importlib.util.find_spec("rosbags")
if ROSBAGS:
    from bags import Robot

XYZ = np.dtype([(name, "<f4") for name in "xyz"])
CLOUD = SHORT.replace("num_features=3", "format=pointcloud2&fields=x,y,z")


def cloud(measured, count=20):
    robot = Robot()
    points = np.random.default_rng(count).random((count, 3), np.float32).view(XYZ)[:, 0]
    return robot.bytes_of(robot.cloud(points, int(measured * 1e9)))


def at(seconds):
    """The parameters for points of the time now + seconds."""
    return f"&max_age_ms=60000&time={time.time() + seconds:.6f}"


class MaxAge(Held):
    def too_old(self):
        return self.daemon.status()["requests"]["too_old"]

    def assert_too_old(self, reply, least, kept=False):
        """Checks for the refusal of points that are `least` ms old, or a little older."""
        problem = self.assert_problem(reply, 409, "max_age_ms")
        self.assertEqual(problem["type"], "urn:voxeld:problem:too-old")
        self.assertNotIn("Retry-After", reply.headers)
        self.assertRegex(problem["detail"], r"the points are \d+ ms old; max_age_ms is 60000$")
        self.assertEqual("sweep is kept" in problem["detail"], kept)
        age = int(problem["detail"].split("points are ")[1].split()[0])
        self.assertTrue(least <= age < least + 60_000, age)

    def warnings(self, reply):
        self.assertEqual(reply.status, 200, reply)
        return {warning["kind"]: warning["detail"] for warning in reply.json()["warnings"]}

    def test_by_a_time(self):
        self.daemon.await_accounts()
        before, refused = self.too_old(), counters(self.daemon, "voxeld_refusals_total")
        self.assertEqual(self.warnings(self.daemon.post(SHORT + at(0), BODY, JSON)), {})
        self.assert_too_old(self.daemon.post(SHORT + at(-70), BODY), 70_000)
        self.daemon.await_accounts()
        self.assertEqual(self.too_old() - before, 1)
        after = counters(self.daemon, "voxeld_refusals_total")
        self.assertEqual(after['reason="too-old"'] - refused['reason="too-old"'], 1)

    @unittest.skipUnless(ROSBAGS, "rosbags, which makes the messages, is not installed")
    def test_by_the_stamp_of_a_message(self):
        path = CLOUD + "&max_age_ms=60000"
        self.assertEqual(self.warnings(self.daemon.post(path, cloud(time.time()), JSON)), {})
        self.assert_too_old(self.daemon.post(path, cloud(time.time() - 70)), 70_000)
        self.assertEqual(self.daemon.post(CLOUD + at(0), cloud(1)).status, 200)  # the request's time counts
        self.assert_too_old(self.daemon.post(CLOUD + at(-70), cloud(time.time())), 70_000)

    def test_waiting_counts(self):
        self.hold()
        waits, fresh = self.ask(SHORT + at(-59.5)), self.ask(SHORT + at(600), waits=2)
        time.sleep(0.6)
        self.assertFalse(waits.done())
        self.go_on()
        self.assert_too_old(waits.result(), 60_000)
        self.assertEqual(fresh.result().status, 200)

    def test_a_clock_that_is_ahead(self):
        told = self.warnings(self.daemon.post(SHORT + at(5), BODY, JSON))
        self.assertRegex(told["clock_ahead"], r"(4\d\d\d|5000) ms ahead of the server's clock")
        self.assertEqual(list(told), ["clock_ahead"])

    def test_sweeps_are_kept(self):
        now = time.time()
        path = SHORT + "&stream=s&sweeps=4&pose=0,0,0,1,0,0,0&time="
        self.assert_too_old(self.daemon.post(f"{path}{now - 70:.6f}&max_age_ms=60000", BODY), 70_000, kept=True)
        reply = self.daemon.post(f"{path}{now:.6f}&max_age_ms=60000", BODY, JSON)
        joined = reply.json()["stream"]["sweeps"]
        self.assertEqual([sweep["origin"] for sweep in joined], ["sent", "kept"])

    def test_several_sweeps_are_as_old_as_the_newest(self):
        now = time.time()
        path = SHORT + "&stream=s&point_counts=60,40&poses=0,0,0,1,0,0,0,0,0,0,1,0,0,0&max_age_ms=60000&times="
        self.assertEqual(self.daemon.post(f"{path}{now:.6f},{now - 90:.6f}", BODY).status, 200)
        self.daemon.request("DELETE", "/v1/streams/s")
        self.assert_too_old(self.daemon.post(f"{path}{now - 70:.6f},{now - 90:.6f}", BODY), 70_000, kept=True)
        self.assertEqual(len(self.daemon.get("/v1/streams/s").json()["sweeps"]), 2)

    def test_a_superseded_request_is_not_too_old(self):
        self.hold()
        older = self.ask(SHORT + "&latest=roof" + at(-70))
        newer = self.ask(SHORT + "&latest=roof" + at(600))
        self.assert_superseded(older)
        self.go_on()
        self.assertEqual(newer.result().status, 200)

    def test_inference(self):
        path = "/v2/models/fps/infer"
        fresh = infer_body(num_samples=1, max_age_ms=60000, time=time.time())
        self.assertEqual(self.daemon.post(path, fresh).status, 200)
        old = self.daemon.post(path, infer_body(num_samples=1, max_age_ms=60000, time=time.time() - 70))
        self.assertEqual((old.status, "max_age_ms is 60000" in old.json()["error"]), (409, True), old)

    def test_values(self):
        for more, parameter, words in (
            ("&max_age_ms=100", "time", "time is missing; max_age_ms needs it"),
            ("&max_age_ms=0&time=1", "max_age_ms", "allowed: a whole number from 1 to 3600000"),
            ("&max_age_ms=3600001&time=1", "max_age_ms", "3600000"),
            ("&max_age_ms=1&time=2e12", "time", "from -1e12 to 1e12"),
            ("&time=1", "time", "time is given without stream"),
            ("&max_age_ms=1&time=1&pose=0,0,0,1,0,0,0", "pose", "pose is given without stream"),
        ):
            with self.subTest(more):
                problem = self.assert_problem(self.daemon.post(SHORT + more, BODY), 400, parameter)
                self.assertIn(words, problem["detail"])
        path = SHORT.replace("num_features=3", "format=pcd") + "&max_age_ms=100"
        self.assert_problem(self.daemon.post(path, b""), 400, "time")


if __name__ == "__main__":
    unittest.main()
