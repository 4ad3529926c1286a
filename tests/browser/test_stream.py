"""The page at / follows a stream: it draws the sweeps by age, with a model's boxes, skips frames if it is slow, and
asks again for a stream that ended."""

import concurrent.futures
import itertools
import pathlib
import re
import signal
import tempfile
import unittest

import numpy as np
from safetensors.numpy import load

import browser
import models
from credentials import TokenDaemon, new_token
from daemon import wait_until

FOLLOW = "#preset=kitti_second&view.stream=roof"


def sweep(points, seed=1):
    return np.random.default_rng(seed).uniform((0, -40, -3, 0), (70, 40, 1, 1), (points, 4)).astype("<f4")


def send(daemon, time, points=2000, name="roof", headers=None, **more):
    pose = f"{10 * time},0,0,1,0,0,0"
    path = f"/v1/voxelize?preset=kitti_second&stream={name}&sweeps=3&time={time}&pose={pose}&remove_close=20"
    headers = {"Accept": "application/json", **(headers or {})}
    reply = daemon.post(path, sweep(points, int(10 * time)).tobytes(), headers, **more)
    assert reply.status == 200, reply
    return reply.json()["stream"]


def setUpModule():
    if browser.why_not():
        raise unittest.SkipTest(browser.why_not())


class StreamCase(browser.BrowserCase):
    def tearDown(self):
        for stream in self.daemon.get("/v1/streams").json()["streams"]:
            self.daemon.request("DELETE", f"/v1/streams/{stream['name']}")
        super().tearDown()

    def counts(self):
        rows = re.findall(r"^(.+) ([\d,]+)$", self.browser.text("#counts"), re.MULTILINE)
        return {name: int(number.replace(",", "")) for name, number in rows}

    def frames(self):
        counts = self.counts()
        return counts.get("frames shown", 0) + counts.get("frames skipped", 0)

    def choices(self):
        return self.browser.run("return [...document.querySelectorAll('#stream option')].map((one) => one.value)")


class Streams(StreamCase):
    def test_each_sweep_changes_the_picture(self):
        send(self.daemon, 1)
        self.browser.open(self.daemon)
        self.browser.await_text("#state", " voxels in ")
        self.assertEqual(self.choices(), ["", "roof"])
        self.browser.set("#stream", "roof")
        self.browser.await_text("#state", "of 1 sweep, live")
        pictures = [self.browser.look()]
        for time in (1.1, 1.2, 1.3):
            told = send(self.daemon, time)
            self.browser.await_text("#state", f"of {len(told['sweeps'])} sweeps, live")
            pictures.append(wait_until(lambda: (now := self.browser.look()) != pictures[-1] and now, "another picture"))
        self.assertEqual(len({picture["sum"] for picture in pictures}), 4)
        self.assertGreater(pictures[-1]["drawn"], 1000)
        joined = [each["points"] for each in told["sweeps"]]
        counts = wait_until(lambda: self.frames() == 4 and self.counts(), "the last frame")
        for name in ("received", "removed_close", "joined"):
            self.assertEqual(counts[f"points {name.replace('_', ' ')}"], sum(points[name] for points in joined))
        self.assertGreater(counts["points removed close"], 0)
        self.assertEqual([counts[f"{age} s"] for age in ("0", "0.1", "0.2")], [points["joined"] for points in joined])
        self.assertRegex(self.browser.text("#legend"), r"age of the sweep in s\s+0\s+0\.2")
        self.assertEqual(self.browser.messages(), [])

    def test_other_colours_and_back_to_the_scan(self):
        for time in (1, 2):
            send(self.daemon, time)
        self.browser.open(self.daemon, FOLLOW + "&view.colour=distance")
        self.browser.await_text("#state", "of 2 sweeps, live")
        self.assertEqual(self.browser.find("#colour").get_attribute("value"), "distance")
        before = self.browser.look()["sum"]
        self.browser.set("#colour", "age")
        self.assertNotEqual(self.browser.look()["sum"], before)
        self.assertIn("view.stream=roof", self.browser.run("return location.hash"))
        offered = (
            "return [...document.querySelectorAll('#colour option')].filter((o) => !o.disabled).map((o) => o.value)"
        )
        self.assertEqual(self.browser.run(offered), ["age", "height", "intensity", "fifth", "distance"])
        self.browser.set("#parameter-voxel_size", "0.8,0.8,0.5")  # a parameter of scans, which a stream ignores
        self.browser.find("#sample").click()
        self.browser.await_text("#state", "sample.bin: ")
        self.browser.await_text("#state", " voxels in ")
        self.assertEqual(self.browser.find("#stream").get_attribute("value"), "")
        self.assertEqual(self.browser.find("#colour").get_attribute("value"), "height")
        self.assertNotIn("view.stream", self.browser.run("return location.hash"))
        wait_until(lambda: self.daemon.status()["streams"]["subscribers"] == 0, "the page has let the stream go")

    def test_what_has_no_effect_on_a_stream_is_hidden(self):
        of_scans = ("#form", "#image", "#timing", "#voxel", "#layer-faces", "#layer-edges", "#layer-samples")
        of_both = ("#stream", "#sample", "#model", "#least", "#counts", "#curl", "#layer-points", "#layer-boxes",
                   "#layer-box")  # fmt: skip
        parts = (*of_both, *of_scans, "#track")
        displayed = lambda: {part for part in parts if self.browser.find(part).is_displayed()}
        send(self.daemon, 1)
        self.browser.open(self.daemon, FOLLOW)
        self.browser.await_text("#state", "of 1 sweep, live")
        self.assertEqual(displayed(), set(parts) - set(of_scans))
        self.browser.find("#sample").click()
        self.browser.await_text("#state", " voxels in ")
        self.assertEqual(displayed(), set(parts) - {"#track"})
        self.assertTrue(self.browser.find("#save").is_displayed())
        self.browser.set("#stream", "roof")
        self.browser.await_text("#state", "of 1 sweep, live")
        self.assertFalse(self.browser.find("#save").is_displayed())

    def test_one_that_has_not_begun_is_awaited_and_its_end_is_reported(self):
        self.browser.open(self.daemon, FOLLOW)
        self.browser.await_text("#state", "roof: waiting for its first sweep")
        send(self.daemon, 1)
        self.browser.await_text("#state", "of 1 sweep, live")
        self.daemon.request("DELETE", "/v1/streams/roof")
        self.browser.await_text("#state", "roof: the stream has ended: deleted")
        send(self.daemon, 1, name="front")
        self.browser.run("document.querySelector('#stream').focus()")
        wait_until(lambda: self.choices() == ["", "front", "roof"], "the list of now")
        send(self.daemon, 1)
        self.browser.await_text("#state", "of 1 sweep, live")

    def test_one_frame_at_a_time(self):
        """The page skips and counts the sweeps that it cannot draw in time; it always draws the last one."""
        self.browser.open(self.daemon, FOLLOW)
        self.browser.await_text("#state", "roof: waiting for its first sweep")
        sweeps = 15
        for time in range(1, sweeps + 1):
            told = send(self.daemon, time, points=10000)
        wait_until(lambda: self.frames() == sweeps, lambda: f"{sweeps} frames: {self.counts()}")
        self.assertEqual(self.counts()["points joined"], sum(each["points"]["joined"] for each in told["sweeps"]))
        spans = self.browser.run(
            "return performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('/last'))"
            ".map(({ startTime, responseEnd }) => [startTime, responseEnd])"
        )
        self.assertEqual(len(spans), self.counts()["frames shown"])
        for (_, end), (start, _) in zip(spans, spans[1:]):
            self.assertLessEqual(end, start)


    def test_it_counts_the_sweeps_whose_requests_were_superseded(self):
        self.browser.open(self.daemon, FOLLOW)
        self.browser.await_text("#state", "roof: waiting for its first sweep")
        path = "/v1/fps?num_features=4&num_samples=300&stream=roof&latest=x&pose=0,0,0,1,0,0,0&time="

        def post(time):
            reply = self.daemon.post(path + str(time), sweep(20000).tobytes())
            return reply.status == 409 and reply.json()["type"].endswith("superseded")

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            superseded = sum(pool.map(post, range(1, 60)))
        self.assertGreater(superseded, 0)
        wait_until(lambda: self.counts().get("sweeps superseded") == superseded, lambda: (self.counts(), superseded))

    def test_the_time_of_the_sweep_and_how_long_ago_it_came(self):
        self.browser.open(self.daemon, FOLLOW)
        self.browser.await_text("#state", "roof: waiting for its first sweep")
        send(self.daemon, 12.25)
        self.browser.await_text("#counts", "time of the sweep 12.25 s")
        since = lambda: float(re.search(r"since it came ([\d.]+) s", self.browser.text("#counts"))[1])
        first = since()
        wait_until(lambda: since() >= first + 1, "a later time")
        times = itertools.count(13.25)

        def is_new():
            sent = next(times)
            send(self.daemon, sent)
            self.browser.await_text("#counts", f"time of the sweep {sent} s")
            return since() < first + 1

        wait_until(is_new, "an earlier time")


class Boxes(StreamCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.ARGS = models.served(cls.folder)
        moving = models.description(decode=models.CENTER_DECODE)
        models.write(cls.folder, "moving", models.standin(batch=1, center=True), moving)
        super().setUpClass()

    def send(self, time, points=3000, seed=None, at=0):
        """Sends a sweep in the range of the models, from a place `at` metres ahead."""
        low, high = (0, -8, -3, 0), (16, 8, 1, 1)
        rng = np.random.default_rng(int(10 * time) if seed is None else seed)
        rows = rng.uniform(low, high, (points, 4)).astype("<f4")
        path = f"/v1/voxelize?preset=kitti_second&stream=roof&time={time}&pose={at},0,0,1,0,0,0"
        self.assertEqual(self.daemon.post(path, rows.tobytes()).status, 200)
        return rows

    def boxes(self, rows, model="random", least=0):
        scores = load(self.daemon.post(f"/v1/detect?model={model}", rows.tobytes()).body)["scores"]
        return np.count_nonzero(scores >= least)

    def shown(self):
        return sum(int(line.rsplit(" ", 1)[1]) for line in self.browser.text("#classes").splitlines())

    def test_the_address_names_a_stream_and_a_model(self):
        self.browser.open(self.daemon, "?stream=roof&model=random&colour=distance")
        self.browser.await_text("#state", "roof: waiting for its first sweep")
        pictures = set()
        for time in (1, 2, 3):
            rows = self.send(time)
            self.browser.await_text("#counts", f"time of the sweep {time} s")
            expected = self.boxes(rows)
            self.assertGreater(expected, 3)
            self.browser.await_text("#state", f"of 1 sweep, live; {expected} boxes by random in ")
            self.assertEqual(self.shown(), expected)
            pictures.add(self.browser.look()["sum"])
        self.assertEqual(len(pictures), 3)
        location = self.browser.run("return [location.search, location.hash]")
        self.assertEqual(location[0], "")
        for part in ("view.stream=roof", "view.model=random", "view.colour=distance"):
            self.assertIn(part, location[1])
        self.assertEqual(self.browser.messages(), [])

    def test_another_model_finds_boxes_in_the_same_frame(self):
        rows = self.send(1)
        self.browser.open(self.daemon, FOLLOW)
        self.browser.await_text("#state", "of 1 sweep, live")
        self.assertEqual(self.shown(), 0)
        for model, has_velocity in (("moving", True), ("random", False)):
            self.browser.set("#model", model)
            self.browser.await_text("#state", f"live; {self.boxes(rows, model)} boxes by {model} in ")
            labels = self.browser.find("#labels").get_attribute("textContent")
            self.assertEqual(bool(re.search(r"\d° · \d+\.\d m/s", labels)), has_velocity, labels)
        self.assertIn("view.model=random", self.browser.run("return location.hash"))
        self.assertEqual(self.frames(), 1)
        self.browser.set("#least", "0.9")
        self.assertEqual(self.shown(), self.boxes(rows, least=0.9))
        self.assertLess(self.shown(), self.boxes(rows))
        self.browser.set("#model", "")
        self.browser.await_text("#state", "of 1 sweep, live")
        wait_until(lambda: "boxes" not in self.browser.text("#state"), "no boxes")

    def ids(self):
        """The ids at the boxes; at most 100 boxes have a label."""
        return re.findall(r"#(\d+)", self.browser.find("#labels").get_attribute("textContent"))

    def check_ids(self, ids, first, boxes):
        numbers = {int(own) for own in ids}
        self.assertEqual((len(ids), len(numbers)), (min(boxes, 100),) * 2)
        self.assertLessEqual(numbers, set(range(first, first + boxes)))

    def streams(self):
        return [stream["name"] for stream in self.daemon.get("/v1/streams").json()["streams"]]

    def test_boxes_keep_the_id_and_the_colour_of_their_track(self):
        self.browser.open(self.daemon, "?stream=roof&model=random&track=yes")
        self.browser.await_text("#state", "roof: waiting for its first sweep")
        self.browser.run("document.querySelector('#labels').style.opacity = 0")
        seen = []
        for time, at in ((1, 0), (2, 0), (3, 200)):  # the same boxes, in the third sweep 200 m ahead
            boxes = self.boxes(self.send(time, seed=7, at=at))
            self.browser.await_text("#counts", f"time of the sweep {time} s")
            seen.append((self.ids(), self.browser.look()["sum"]))
        self.assertEqual(seen[0], seen[1])
        self.check_ids(seen[0][0], 1, boxes)
        self.check_ids(seen[2][0], 1 + boxes, boxes)
        self.assertNotEqual(seen[2][1], seen[0][1])
        self.assertEqual(self.shown(), boxes)
        self.assertEqual(len(self.streams()), 2)
        self.browser.run("document.querySelector('#stream').focus()")
        self.assertEqual(self.choices(), ["", "roof"])
        self.daemon.request("DELETE", "/v1/streams/roof")
        self.browser.await_text("#state", "roof: the stream has ended: deleted")
        boxes = self.boxes(self.send(0.5))  # an earlier time
        self.browser.await_text("#counts", "time of the sweep 0.5 s")
        self.check_ids(self.ids(), 1, boxes)
        self.assertIn("view.track=yes", self.browser.run("return location.hash"))
        self.browser.find("#track").click()
        wait_until(lambda: not self.ids(), "boxes without ids")
        wait_until(lambda: self.streams() == ["roof"], lambda: f"no other stream: {self.streams()}")
        self.browser.find("#track").click()
        wait_until(self.ids, "boxes with ids")
        self.browser.open(self.daemon)
        wait_until(lambda: self.streams() == ["roof"], lambda: f"no other stream: {self.streams()}")
        self.assertEqual(self.browser.messages(), [])

    def test_a_refusal_is_reported_and_the_points_stay(self):
        self.browser.open(self.daemon, "?stream=roof&model=random")
        self.browser.await_text("#state", "roof: waiting for its first sweep")
        path = "/v1/voxelize?preset=kitti_second&num_features=5&stream=roof&pose=0,0,0,1,0,0,0&time="
        for time in (1, 2):
            wide = np.hstack([sweep(1000), np.zeros((1000, 1), "<f4")])
            self.assertEqual(self.daemon.post(path + str(time), wide.tobytes()).status, 200)
            self.browser.await_text("#counts", f"time of the sweep {time} s")
            self.browser.await_text("#error", "the model random takes 4")
            self.assertIn("1,000 points of 1 sweep, live", self.browser.text("#state"))


class Token(unittest.TestCase):
    def test_it_shows_no_stream_of_another_token(self):
        (mine, line), (other, other_line) = new_token("mine"), new_token("other")
        window = browser.shared()
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "tokens")
            file.write_text(line + other_line, encoding="ascii")
            file.chmod(0o600)
            with TokenDaemon(other, "--token-file", str(file)) as daemon:
                window.open(daemon, "?stream=roof")
                window.await_text("#state", "the service wants a token")
                window.set("#token", other)
                window.await_text("#state", "roof: waiting for its first sweep")
                send(daemon, 1, headers={"Authorization": f"Bearer {mine}"})
                send(daemon, 1, name="own")
                window.run("document.querySelector('#stream').focus()")
                choices = "return [...document.querySelectorAll('#stream option')].map((one) => one.value)"
                wait_until(lambda: window.run(choices) == ["", "own", "roof"], "the list of now")
                self.assertIn("roof: waiting for its first sweep", window.text("#state"))

    def test_it_asks_again_and_for_a_token_once_its_own_is_withdrawn(self):
        (mine, line), (other, other_line) = new_token("mine"), new_token("other")
        bearer = {"Authorization": f"Bearer {mine}"}
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "tokens")
            file.write_text(line + other_line, encoding="ascii")
            file.chmod(0o600)
            window = browser.shared()
            with TokenDaemon(other, "--token-file", str(file)) as daemon:
                path = "/v1/voxelize?preset=kitti_second&stream=roof&sweeps=3&time=1&pose=0,0,0,1,0,0,0"
                self.assertEqual(daemon.post(path, sweep(2000).tobytes(), bearer).status, 200)
                window.open(daemon, FOLLOW)
                window.await_text("#state", "the service wants a token")
                window.set("#token", mine)
                window.await_text("#state", "of 1 sweep, live")
                daemon.process.send_signal(signal.SIGHUP)
                window.await_text("#state", "the service has ended the events; asking again")
                window.await_text("#state", "of 1 sweep, live")
                file.write_text(other_line, encoding="ascii")
                daemon.process.send_signal(signal.SIGHUP)
                window.await_text("#state", "refused")
                self.assertIn("token", window.text("#error").lower())
                file.write_text(line + other_line, encoding="ascii")
                daemon.process.send_signal(signal.SIGHUP)
                wait_until(lambda: daemon.get("/v1/streams", bearer).status == 200, "the token is back")
                window.set("#token", mine)
                window.await_text("#state", "of 1 sweep, live")
                self.assertFalse(window.find("#error").is_displayed())
                self.assertNotIn(mine, window.text("#curl"))


if __name__ == "__main__":
    unittest.main()
