"""Tracks of POST /v1/detect, byte for byte the oracle's: random boxes with and without velocities, several models and
sensors on a stream, requests that change no tracks, streams that begin anew; and a drive whose truth is known."""

import io
import json
import threading
import unittest

import numpy as np

import check
import drive
import infer
import models
from daemon import Daemon
from streams import composed, pose_of
from test_detect import Detections, query, scan
from tracks import Tracks

JSON = {"Accept": "application/json"}
STILL = [0, 0, 0, 1, 0, 0, 0]


def random_pose(rng):
    """The pose of a vehicle that leans, far from the origin."""
    turn = np.array([1, *rng.normal(0, [0.02, 0.02, 0.1])])
    return [*([456789.125, 5412345.5, 30] + rng.normal(size=3)), *(turn / np.linalg.norm(turn))]


class Tracking(Detections):
    @classmethod
    def write_models(cls):
        models.write(cls.folder.name, "whole", models.standin())
        centers = models.description(decode=models.CENTER_DECODE)
        models.write(cls.folder.name, "centers", models.standin(center=True), centers)
        chosen = {"track_max_distance": [0.5, 2, 1], "track_max_age": 0}
        models.write(cls.folder.name, "chosen", models.standin(), models.description(detect=chosen))

    def setUp(self):
        for stream in json.loads(self.daemon.get("/v1/streams").body)["streams"]:
            self.daemon.request("DELETE", f"/v1/streams/{stream['name']}")

    def track(self, points, time, pose=STILL, model="whole", stream="s", **more):
        asked = {"model": model, "stream": stream, "track": "yes", "pose": pose, "time": repr(time), **more}
        return self.daemon.post(f"/v1/detect?{query(asked)}", points.tobytes())

    def follow(self, tracks, points, time, pose=STILL, frame=None, terms=None, **more):
        """Compares the ids and the counts with the oracle's. `frame`: (pose, time) of the boxes' frame."""
        reply = self.track(points, time, pose, **more)
        self.assertEqual(reply.status, 200, reply)
        tensors, metadata = check.parse_by_hand(reply.body)
        place, now = frame or (pose_of(pose), time)
        ids, counts = tracks.follow(tensors, now, place, **(terms or {}), repeated=metadata["stream"]["repeated"])
        self.assertEqual((tensors["track_ids"].dtype, tensors["track_ids"].shape), (np.int64, (len(tensors["boxes"]),)))
        self.assertEqual(tensors["track_ids"].tobytes(), ids.tobytes())
        self.assertEqual(metadata["tracks"], counts)
        return metadata, tensors

    def test_random_sweeps(self):
        """Two models, each with its own tracks, get each sweep. Some sweeps are sent twice, some have no boxes."""
        seen = {}
        for seed in range(6):
            rng, time = np.random.default_rng(seed), 100.0
            terms = {"max_distance": [rng.uniform(0.2, 5, 3), rng.uniform(0.2, 5, 1)][seed % 2], "max_age": seed % 4}
            asked = {f"track_{name}": np.atleast_1d(value).tolist() for name, value in terms.items()}
            tracks = {"whole": Tracks(), "centers": Tracks()}
            points = scan(900, seed=seed)
            for step in range(12):
                pose, time = random_pose(rng), time + float(rng.choice([0, 0.05, 0.1, 0.9]))
                if rng.random() < 0.5:
                    points = scan(900, seed=int(rng.integers(99)))
                least = float(rng.choice([0.05, 0.3, 1]))
                for model, own in tracks.items():
                    more = {"sweeps": 1 + seed % 3, "score_threshold": least, **asked}
                    told, _ = self.follow(own, points, time, pose, terms=terms, model=model, stream=f"r{seed}", **more)
                    for name, count in told["tracks"].items():
                        seen[name] = seen.get(name, 0) + count
        self.assertTrue(all(count > 10 for count in seen.values()), seen)

    def test_the_values_of_a_model(self):
        tracks, terms = Tracks(), {"max_distance": [0.5, 2, 1], "max_age": 0}
        for time in range(5):
            told, _ = self.follow(tracks, scan(900, seed=time % 2), time, terms=terms, model="chosen")
        shown = {name: told["parameters"][name] for name in ("track_max_distance", "track_max_age", "track")}
        self.assertEqual(shown, {"track_max_distance": [0.5, 2, 1], "track_max_age": 0, "track": "yes"})
        listed = json.loads(self.daemon.get("/v1/models").body)["models"]
        values = {model["name"]: model["detect"] for model in listed}
        self.assertEqual(values["chosen"], {"track_max_distance": [0.5, 2, 1], "track_max_age": 0})
        self.assertEqual(values["whole"], {"track_max_distance": [4], "track_max_age": 3})
        tracks, terms = Tracks(), {"max_distance": [3], "max_age": 2}
        asked = {"model": "chosen", "track_max_distance": 3, "track_max_age": 2, "stream": "other"}
        for time in range(5):
            self.follow(tracks, scan(900, seed=time % 3), time, terms=terms, **asked)

    def test_several_sensors(self):
        """Boxes and tracks are in the frame of the newest sweep of the first stream."""
        rng, tracks, mount, fronts = np.random.default_rng(4), Tracks(), [1.5, 0, 0.5, 1, 0, 0, 0], []
        for step in range(5):
            pose = random_pose(rng)
            if step != 3:  # step 3 has the frame and the time of step 2
                front = (composed(pose_of(pose), pose_of(mount)), 10 + step / 10)
                reply = self.track(scan(700, seed=step), front[1], pose, stream="front", mount=mount)
                self.assertEqual(reply.status, 200, reply)
            more = {"stream": "rear", "streams": "front,rear", "sweeps": 1}
            told, _ = self.follow(tracks, scan(700, seed=step + 1), 10.05 + step / 10, pose, frame=front, **more)
            fronts.append(told["stream"]["frame"])
        self.assertEqual(set(fronts), {"front"})

    def test_what_changes_no_tracks(self):
        tracks, points = Tracks(), scan(900)
        self.follow(tracks, points, 1)
        refusals = (
            ({"dtype": "float16", "timeout_ms": 9000}, {}, 409),  # the stream has other columns
            ({}, JSON, 400),  # metadata alone
            ({"outputs": "boxes,track_ids"}, {}, 400),
            ({"outputs": "boxes,scores,labels,box_counts"}, {}, 400),
            ({"max_age_ms": 1000}, {}, 409),  # too old, but its sweep is kept
        )
        for number, (more, headers, status) in enumerate(refusals):
            asked = {"model": "whole", "stream": "s", "track": "yes", "pose": STILL, "time": 2 + number, **more}
            reply = self.daemon.post(f"/v1/detect?{query(asked)}", points.tobytes(), headers)
            self.assertEqual(reply.status, status, reply)
        self.assertEqual(json.loads(self.daemon.get("/v1/streams/s").body)["time"], 2 + number)
        plain = {"model": "whole", "stream": "s", "pose": STILL, "time": 9}
        tensors, metadata = self.ask("/v1/detect", scan(500, seed=9).tobytes(), **plain)
        self.assertFalse("track_ids" in tensors or "tracks" in metadata)
        self.assertEqual(self.track(points[:0], 9.5).status, 200)  # a sweep without points is not kept
        told, _ = self.follow(tracks, points, 10, terms={"max_age": 0}, track_max_age=0)
        self.assertEqual(told["tracks"]["new"], 0)

    def test_the_stream_begins_anew(self):
        self.follow(Tracks(), scan(900), 5)
        told, _ = self.follow(Tracks(), scan(900), 6, model="centers")
        self.assertTrue(told["tracks"]["begun"] and not told["stream"]["begun"])
        self.assertEqual(self.daemon.request("DELETE", "/v1/streams/s").status, 200)
        told, tensors = self.follow(Tracks(), scan(900), 1)
        self.assertTrue(told["tracks"]["begun"] and told["stream"]["begun"])
        self.assertEqual(tensors["track_ids"].tolist(), list(range(1, len(tensors["boxes"]) + 1)))

    def test_eviction(self):
        """The tracks count as memory of the stream. They end when the stream's last sweep is evicted."""
        args = ("--workers", "1", "--models-dir", self.folder.name, "--onnxruntime", models.STANDIN)
        with Daemon(*args, "--stream-memory-bytes", "900000") as daemon:  # of which one client may hold a half
            usual, type(self).daemon = self.daemon, daemon
            try:
                tracks = {name: Tracks() for name in ("a", "b", "c")}
                for time, name in enumerate("aabba"):
                    told, _ = self.follow(tracks[name], scan(900), time, stream=name)
                    kept = json.loads(daemon.get(f"/v1/streams/{name}").body)
                    self.assertEqual(kept["memory_bytes"], 2 * 65536, "a sweep and its tracks")
                self.assertFalse(told["tracks"]["begun"])
                self.follow(tracks["c"], scan(900), 8, stream="c")
                self.follow(tracks["c"], scan(900), 9, stream="c")  # evicts the oldest sweep, that of b
                self.follow(tracks["a"], scan(900), 9, stream="a")
                told, _ = self.follow(Tracks(), scan(900), 9, stream="b")
                self.assertTrue(told["tracks"]["begun"])
                used = json.loads(daemon.get("/v1/status").body)["streams"]
                self.assertEqual(used["memory_bytes"], 131072 * used["count"])
            finally:
                type(self).daemon = usual
        with Daemon(*args, "--stream-memory-bytes", "65536") as daemon:
            asked = query({"model": "whole", "stream": "s", "track": "yes", "pose": STILL, "time": 1})
            reply = daemon.post(f"/v1/detect?{asked}", scan(900).tobytes())
            self.assertEqual(reply.status, 422, reply)
            self.assertIn("the sweep and its tracks need 131072 bytes", json.loads(reply.body)["detail"])

    def test_requests_at_once(self):
        """Requests of one stream take turns by their times; each stream has its own tracks."""
        answers, threads = {}, []
        for number in range(24):
            stream, time = ("one" if number % 2 else f"own{number}"), 1 + number / 8

            def ask(stream=stream, time=time, number=number):
                answers[(stream, time)] = (self.track(scan(600, seed=number), time, stream=stream), number)

            threads.append(threading.Thread(target=ask))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        one = Tracks()
        for (stream, time), (reply, number) in sorted(answers.items()):
            if reply.status == 409:  # a later sweep came first
                self.assertEqual((stream, json.loads(reply.body)["parameter"]), ("one", "time"))
                continue
            self.assertEqual(reply.status, 200, reply)
            tensors, metadata = check.parse_by_hand(reply.body)
            ids, counts = (one if stream == "one" else Tracks()).follow(tensors, time, pose_of(STILL))
            self.assertEqual((tensors["track_ids"].tolist(), metadata["tracks"]), (ids.tolist(), counts))

    def test_inference(self):
        """KServe's protocol: track_ids are INT64, as bytes or as JSON."""
        tracks = Tracks()
        for time, as_bytes in enumerate((True, False, True)):
            points = scan(900, seed=time)
            asked = {"stream": "k", "track": True, "pose": STILL, "time": time, "track_max_distance": [2.5]}
            body, headers = infer.body_of(
                [infer.as_bytes("points", points)], [points], parameters={**asked, "binary_data_output": as_bytes}
            )
            reply = self.daemon.post("/v2/models/centers/infer", body, headers)
            self.assertEqual(reply.status, 200, reply)
            tensors, _ = infer.parse(reply)
            ids, _ = tracks.follow(tensors, time, pose_of(STILL), max_distance=[2.5])
            self.assertEqual((tensors["track_ids"].dtype, tensors["track_ids"].tolist()), (np.int64, ids.tolist()))

    def test_other_kinds_of_answer(self):
        plain = self.track(scan(900), 1)
        expected, _ = check.parse_by_hand(plain.body)
        for time, kind in enumerate(("application/x-npz", "application/x-shuffled-safetensors"), 2):
            asked = {"model": "whole", "stream": "s", "track": "yes", "pose": STILL, "time": time}
            reply = self.daemon.post(f"/v1/detect?{query(asked)}", scan(900).tobytes(), {"Accept": kind})
            self.assertEqual(reply.status, 200, reply)
            if kind.endswith("npz"):
                ids = np.load(io.BytesIO(reply.body))["track_ids"]
                self.assertEqual(ids.tobytes(), expected["track_ids"].tobytes())
            else:
                size = len(expected["track_ids"])
                planes = expected["track_ids"].view(np.uint8).reshape(size, 8).T
                self.assertIn(planes.tobytes(), reply.body)

    def test_refusals(self):
        stream = {"stream": "s", "pose": STILL, "time": 1}
        cases = (
            ({"track": "yes"}, "track", 400),
            ({"outputs": "boxes,scores,labels,track_ids"}, "outputs", 400),
            ({**stream, "track": "yes", "outputs": "scores,labels,track_ids"}, "outputs", 400),
            ({**stream, "track": "yes", "track_max_distance": [1, 2]}, "track_max_distance", 400),
            ({**stream, "track": "yes", "track_max_distance": 0}, "track_max_distance", 400),
            ({**stream, "track": "yes", "track_max_distance": [1, -1, 1]}, "track_max_distance", 400),
            ({**stream, "track": "yes", "track_max_age": 101}, "track_max_age", 400),
            ({**stream, "track": "true"}, "track", 400),
        )
        for parameters, parameter, status in cases:
            with self.subTest(parameters):
                reply = self.daemon.post("/v1/detect?" + query({"model": "whole", **parameters}), scan(100).tobytes())
                self.assertEqual((reply.status, json.loads(reply.body)["parameter"]), (status, parameter), reply)
        everything = {"score_threshold": 0, "nms_threshold": 1, "nms_pre_max": 9999, "nms_post_max": 9999}
        reply = self.track(scan(100), 1, **everything)
        self.assertEqual((reply.status, json.loads(reply.body)["parameter"]), (422, "track"), reply)
        self.assertIn("6144 boxes; track=yes takes up to 4096", json.loads(reply.body)["detail"])
        told, tensors = self.follow(Tracks(), scan(100), 1, **{**everything, "nms_post_max": 4096})
        self.assertEqual((len(tensors["boxes"]), told["tracks"]["new"]), (4096, 4096))


class Drive(unittest.TestCase):
    """On simulated streets with moving things, at 10 sweeps a second, nearly every thing keeps its id. The model gives
    no velocities."""

    SWEEPS, SEED, MODEL = 12, 1000009, "simulated_pointpillar"
    NEAR = 1.0  # metres from a box to the thing of its class that it shows

    def test_ids_persist(self):
        if not models.library():
            self.skipTest("the tests' environment has no ONNX Runtime")
        folder = str(models.ROOT / "models")
        whole, kept, boxes, switches = 0, 0, 0, 0
        with Daemon("--models-dir", folder, "--onnxruntime", models.library()) as daemon:
            for own in self.ids_of_things(daemon, self.SEED).values():
                boxes += len(own)
                switches += sum(a != b for a, b in zip(own, own[1:]))
                whole += len(own) == self.SWEEPS
                kept += len(own) == self.SWEEPS and len(set(own)) == 1
        figures = f"{boxes} boxes, {switches} switches; {kept} of {whole} things in all sweeps kept their id"
        self.assertGreater(boxes, 250, figures)
        self.assertGreater(whole, 12, figures)
        self.assertGreater(kept, 0.95 * whole, figures)
        self.assertLess(switches, 0.02 * boxes, figures)

    def ids_of_things(self, daemon, seed):
        """{number of a thing: the ids of its boxes}."""
        things, names, found = drive.street(seed)[1], [], {}
        for time, pose, points, centres in drive.drive(seed, self.SWEEPS):
            asked = {"model": self.MODEL, "stream": f"d{seed}", "track": "yes", "pose": pose, "time": repr(time)}
            reply = daemon.post(f"/v1/detect?{query(asked)}&score_threshold=0.4", points.tobytes())
            self.assertEqual(reply.status, 200, reply)
            tensors, metadata = check.parse_by_hand(reply.body)
            names, seen = metadata["class_names"], set()
            for box, label, own in zip(tensors["boxes"], tensors["labels"], tensors["track_ids"]):
                far = np.hypot(*(centres - box[:2]).T)
                far[[thing.name != names[label] for thing in things]] = np.inf
                nearest = int(far.argmin())
                if far[nearest] < self.NEAR and nearest not in seen:
                    seen.add(nearest)
                    found.setdefault(nearest, []).append(int(own))
        return found


if __name__ == "__main__":
    unittest.main()
