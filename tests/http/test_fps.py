"""POST /v1/fps, and fps on /v1/voxelize: answers, refusals, long samplings."""

import json
import math
import pathlib
import tempfile
import unittest
from concurrent.futures import ThreadPoolExecutor

from client import LONG, LONG_POINTS, SAMPLING, begun, counters, many_rows
from daemon import wait_until
from http_case import CHUNKED, JSON, KITTI, SMALL, SharedDaemonCase, floats, scan

SCAN = scan("--points", "1000")
ROWS = many_rows(LONG_POINTS)
SAME = "X-Request-Id: same"
ALL_OUTPUTS = "outputs=sampled_indices,sampled_points,sampled_distances"
NO_SAMPLES = ("-1", "1.5", "x", "1,", ",1", "1,,1", "%201", "0x1", "1e3", "2147483648", "99999999999999999999")


def without_times(metadata):
    return {name: value for name, value in metadata.items() if name != "timing_us"}


class FpsCase(SharedDaemonCase):
    """The daemon has one worker for samplings, which may be long, and one for other jobs."""

    LANES = "--devices 0 --workers 1 --long-workers 1 --gpu-streams 1 --gpu-long-streams 1".split()
    ARGS = "--max-sampling-work 1000000000000 --max-timeout-ms 600000".split()

    def sample(self, query, body=SCAN, *lines):
        return self.post(f"/v1/fps?{query}", body, *lines)

    def voxelize(self, query, body=SCAN, *lines):
        return self.post(f"/v1/voxelize?{query}", body, *lines)

    def samples_total(self):
        return counters(self.daemon, "voxeld_samples_total")[""]

    def start_with_presets(self, **presets):
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, preset in presets.items():
            (folder / f"{name}.json").write_text(json.dumps(preset), encoding="utf-8")
        self.start("--presets-dir", str(folder))


class Answers(FpsCase):
    def test_samples_come_as_a_safetensors_file(self):
        answer = self.tensors(self.sample("num_samples=16"))
        shapes = {"sampled_indices": ("I32", [1, 16]), "sampled_points": ("F32", [1, 16, 4])}
        self.assertEqual(answer.shapes, shapes)
        self.assertEqual(answer.values("sampled_indices")[0], 0)

    def test_samples_of_a_few_points_and_their_distances(self):
        line = floats(0, 0, 0, 1, 0, 0, math.nan, 0, 0, 9, 0, 0, 4, 0, 0)
        query = "num_features=3&num_samples=4&start=2&outputs=sampled_distances,sampled_indices"
        answer = self.tensors(self.sample(query, line))
        self.assertEqual(answer.values("sampled_indices"), (3, 0, 4, 1))
        self.assertEqual(answer.values("sampled_distances"), (math.inf, 9, 4, 1))
        metadata = answer.metadata
        self.assertEqual(metadata["points"], {"received": 5, "kept": 4, "not_finite": 1})
        self.assertEqual(metadata["samples"], {"chosen": 4})
        self.assertFalse({"voxels", "grid_size"} & set(metadata))

    def test_each_output_alone_and_all_together(self):
        for name in ("sampled_indices", "sampled_points", "sampled_distances"):
            with self.subTest(name):
                self.assertEqual(list(self.tensors(self.sample(f"num_samples=5&outputs={name}")).shapes), [name])
        answer = self.tensors(self.sample(f"num_samples=5&{ALL_OUTPUTS}"))
        self.assertEqual(set(answer.shapes), {"sampled_distances", "sampled_indices", "sampled_points"})
        begins = [answer.begin + answer.span(name).start for name in answer.shapes]
        self.assertEqual([begin for begin in begins if begin % 64], [])

    def shapes(self, answer):
        return [answer.shapes[f"sampled_{name}"][1] for name in ("indices", "points", "distances")]

    def test_one_number_for_all_clouds_makes_a_row_of_each(self):
        answer = self.tensors(self.sample(f"num_samples=7&point_counts=500,200,300&{ALL_OUTPUTS}"))
        self.assertEqual(self.shapes(answer), [[3, 7], [3, 7, 4], [3, 7]])
        batch = {"size": 3, "points": [500, 200, 300], "samples": [7, 7, 7]}
        self.assertEqual(answer.metadata["batch"], batch)
        self.assertEqual(answer.metadata["parameters"]["num_samples"], 7)

    def test_a_number_for_each_cloud_stacks_them_equal_or_not(self):
        answer = self.tensors(self.sample(f"num_samples=7,0,20&point_counts=500,0,500&{ALL_OUTPUTS}"))
        self.assertEqual(self.shapes(answer), [[27], [27, 4], [27]])
        metadata = answer.metadata
        self.assertEqual((metadata["batch"]["samples"], metadata["samples"]), ([7, 0, 20], {"chosen": 27}))
        self.assertEqual(metadata["parameters"]["num_samples"], [7, 0, 20])
        answer = self.tensors(self.sample("num_samples=5,5&point_counts=500,500"))
        self.assertEqual(answer.shapes["sampled_indices"][1], [10])

    def test_no_samples_are_tensors_without_rows(self):
        shapes = lambda answer: [answer.shapes[name][1] for name in ("sampled_indices", "sampled_points")]
        self.assertEqual(shapes(self.tensors(self.sample("num_samples=0"))), [[1, 0], [1, 0, 4]])
        self.ok(self.sample("num_samples=0&start=5000"))
        answer = self.tensors(self.sample("num_samples=0,0&point_counts=999,1"))
        self.assertEqual(shapes(answer), [[0], [0, 4]])

    def test_an_empty_body_is_a_cloud_of_no_points(self):
        metadata = self.tensors(self.sample("num_samples=0", b"")).metadata
        self.assertEqual(metadata["points"]["received"], 0)
        self.assertEqual(metadata["batch"], {"size": 1, "points": [0], "samples": [0]})
        answer = self.tensors(self.sample("num_samples=0&point_counts=0,0", b""))
        self.assertEqual(answer.shapes["sampled_indices"][1], [2, 0])
        self.problem(self.sample("num_samples=1", b""), 422, "impossible", "num_samples")

    def test_a_chunked_body_is_the_same(self):
        whole, chunked = (self.tensors(self.sample("num_samples=50", SCAN, SAME, *lines)) for lines in ((), (CHUNKED,)))
        self.assertEqual(without_times(chunked.metadata), without_times(whole.metadata))
        self.assertEqual(chunked.data, whole.data)
        self.problem(self.sample("num_samples=1001", SCAN, CHUNKED), 422, "impossible", "num_samples")
        self.problem(self.sample("num_samples=1,1,1", SCAN, CHUNKED), 400, "bad-parameter", "num_samples")

    def test_half_precision_rows(self):
        answer = self.tensors(self.sample("dtype=float16&num_features=5&num_samples=3", SCAN[:8000]))
        self.assertEqual(answer.shapes["sampled_points"], ("F32", [1, 3, 5]))
        self.assertEqual(answer.metadata["points"]["received"], 800)

    def test_accept_application_json_counts_and_checks_but_samples_nothing(self):
        inside = self.tensors(self.sample("num_samples=100", SCAN, SAME)).metadata
        reply = self.ok(self.sample("num_samples=100", SCAN, SAME, JSON))
        self.assertEqual(reply.headers["Content-Type"], "application/json")
        self.assertEqual(without_times(reply.json()), without_times(inside))
        self.problem(self.sample("num_samples=1001", SCAN, JSON), 422, "impossible", "num_samples")
        before = self.samples_total()
        self.ok(self.post(SAMPLING, ROWS, JSON))
        self.assertEqual(self.samples_total(), before)

    def test_voxels_are_sampled_with_fps(self):
        answer = self.tensors(self.post(f"{KITTI}&fps=32&start=3", SCAN))
        sampled, voxels = {"sampled_indices", "sampled_points"}, {"voxel_coords", "voxel_features", "voxel_num_points"}
        self.assertEqual(set(answer.shapes), sampled | voxels)
        self.assertEqual(answer.shapes["sampled_indices"][1], [1, 32])
        self.assertEqual(answer.shapes["sampled_points"][1], [1, 32, 4])
        metadata = answer.metadata
        self.assertEqual((metadata["samples"], metadata["batch"]["samples"]), ({"chosen": 32}, [32]))
        self.assertEqual(len(metadata["batch"]["voxels"]), 1)
        self.assertEqual((metadata["parameters"]["fps"], metadata["parameters"]["start"]), (32, 3))
        self.assertEqual(answer.values("sampled_indices")[0], 3)
        answer = self.tensors(self.post(f"{KITTI}&fps=8,4&point_counts=500,500&outputs=sampled_indices", SCAN))
        self.assertEqual({name: shape for name, (_, shape) in answer.shapes.items()}, {"sampled_indices": [12]})
        metadata = self.json(self.post(f"{KITTI}&fps=32", SCAN, JSON))
        self.assertEqual((metadata["samples"], metadata["batch"]["samples"]), ({"chosen": 32}, [32]))
        self.assertEqual(metadata["timing_us"]["sample"], 0)

    def test_a_voxelize_request_without_fps_says_nothing_of_samples(self):
        metadata = self.json(self.post(KITTI, SCAN, JSON))
        self.assertNotIn("samples", metadata)
        self.assertNotIn("samples", metadata["batch"])
        self.assertEqual(metadata["parameters"]["fps"], "off")

    def test_status_and_metrics_tell_of_samples(self):
        before = self.samples_total()
        self.ok(self.sample("num_samples=30&point_counts=500,500"))
        self.ok(self.post(f"{KITTI}&fps=7", SCAN))
        self.assertEqual(self.samples_total(), before + 67)
        self.daemon.await_accounts()
        self.assertIn('endpoint="/v1/fps",code="200"', counters(self.daemon, "voxeld_requests_total"))
        idle = {'lanes="quick"': 0, 'lanes="long"': 0}
        depth = counters(self.daemon, "voxeld_queue_depth")
        self.assertEqual({lanes: depth[lanes] for lanes in idle}, idle)
        self.assertLessEqual(set(idle), set(counters(self.daemon, "voxeld_jobs_running")))
        status = self.daemon.status()
        counts = status["workers"]["count"], status["long_workers"]["count"], status["long_queue"]["limit"]
        self.assertEqual(counts, (1, 1, 1024))

    def test_a_preset_of_fps_serves_fps_alone(self):
        parameters = {"num_samples": 10, "start": 1, "outputs": ["sampled_points"]}
        self.start_with_presets(
            keypoints={"description": "keypoints", "operation": "fps", "parameters": parameters},
        )
        answer = self.tensors(self.sample("preset=keypoints"))
        self.assertEqual({name: shape[:2] for name, (_, shape) in answer.shapes.items()}, {"sampled_points": [1, 10]})
        query = "preset=keypoints&num_samples=3&outputs=sampled_indices"
        parameters = self.json(self.sample(query, SCAN, JSON))["parameters"]
        self.assertEqual([parameters[name] for name in ("preset", "num_samples", "start")], ["keypoints", 3, 1])
        reason = "a preset of fps; allowed: a preset of voxelize"
        self.problem(self.voxelize("preset=keypoints"), 400, "bad-parameter", "preset", reason)
        reason = "a preset of voxelize, nms, decode; allowed: a preset of fps"
        self.problem(self.sample("preset=kitti_second&num_samples=1"), 400, "bad-parameter", "preset", reason)
        self.assertEqual(self.json(self.ask("/v1/presets/keypoints"))["operation"], "fps")

    def test_a_preset_may_sample_and_its_sampling_be_turned_off(self):
        grid = {"point_cloud_range": [-100, -100, -10, 100, 100, 10], "voxel_size": [1, 1, 1]}
        sampling = {"fps": 10, "start": 1, "outputs": ["sampled_points"]}
        self.start_with_presets(keypoints={"description": "samples", "parameters": {**grid, **sampling}})
        for query, number in (("preset=keypoints", 10), ("preset=keypoints&fps=3", 3)):
            with self.subTest(query):
                shapes = self.tensors(self.voxelize(query)).shapes
                self.assertEqual(shapes, {"sampled_points": ("F32", [1, number, 4])})
        shapes = self.tensors(self.voxelize("preset=keypoints&fps=off")).shapes
        self.assertEqual(set(shapes), {"voxel_coords", "voxel_features", "voxel_num_points"})


class Refusals(FpsCase):
    def refused(self, parameter, *queries, status=400, kind="bad-parameter"):
        """Checks that each query is refused with this status and kind. Returns the last problem."""
        for query in queries:
            with self.subTest(query):
                reason = parameter if status == 400 else ""
                problem = self.problem(self.sample(query), status, kind, parameter, reason)
        return problem

    def refused_voxelize(self, parameter, *queries):
        for query in queries:
            with self.subTest(query):
                problem = self.problem(self.voxelize(f"{SMALL}&{query}"), 400, "bad-parameter", parameter)
        return problem

    def test_num_samples_is_missing_or_no_list_of_whole_numbers(self):
        self.refused("num_samples", "", "num_features=4")
        self.refused("num_samples", *(f"num_samples={value}" for value in ("", *NO_SAMPLES)))
        self.refused_voxelize("fps", *(f"fps={value}" for value in ("", *NO_SAMPLES)))

    def test_as_many_numbers_as_clouds(self):
        queries = ("num_samples=1,1", "num_samples=1,1&point_counts=1000", "num_samples=1,1,1&point_counts=500,500")
        self.assertIn("3 numbers", self.refused("num_samples", *queries)["detail"])
        self.refused_voxelize("fps", "fps=1,1", "fps=1,1,1&point_counts=500,500")

    def test_parameters_of_the_other_endpoint_are_unknown(self):
        self.refused("preset", "preset=kitti_second&num_samples=1")
        self.refused("fps", "fps=1&num_samples=1")
        grid = "point_cloud_range voxel_size max_points_per_voxel max_voxels"
        for name in f"{grid} feature feature_dtype order fill block_filter".split():
            self.refused(name, f"num_samples=1&{name}=1")
        self.refused_voxelize("num_samples", "num_samples=1")

    def test_names_are_given_once(self):
        self.refused("num_samples", "num_samples=1&num_samples=1")
        self.refused("start", "num_samples=1&start=1&start=1")
        self.refused_voxelize("fps", "fps=1&fps=1")

    def test_start_is_a_whole_number_and_needs_samples(self):
        values = ("-1", "x", "1.5", "1,2", "", "2147483648")
        self.refused("start", *(f"num_samples=1&start={value}" for value in values))
        self.refused_voxelize("start", "start=0", *(f"fps=1&start={value}" for value in values))

    def test_outputs_are_those_that_there_are(self):
        for outputs in ("", "voxels", "samples", "sampled_points,sampled_points"):
            self.refused("outputs", f"num_samples=1&outputs={outputs}")
        for name in ("sampled_indices", "sampled_points", "sampled_distances"):
            self.assertIn("fps", self.refused_voxelize("outputs", f"outputs={name}")["detail"])

    def test_more_samples_than_points(self):
        problem = self.refused(
            "num_samples",
            "num_samples=1001",
            "num_samples=501&point_counts=500,500",
            "num_samples=1&point_counts=1000,0",
            "num_samples=500,501&point_counts=500,500",
            status=422,
            kind="impossible",
        )
        self.assertIn("cloud 1 has 500 points, fewer than the 501 samples", problem["detail"])

    def test_more_samples_than_finite_points(self):
        nan, inf = math.nan, math.inf
        few = floats(0, 0, 0, 0, nan, 0, 0, 0, 0, 0, 0, nan, 0, inf, 0, 0)
        self.ok(self.sample("num_samples=2", few))
        reason = "2 points whose x, y and z are finite"
        for lines in ((), (JSON,)):
            with self.subTest(lines):
                reply = self.sample("num_samples=3", few, *lines)
                self.problem(reply, 422, "impossible", "num_samples", reason)

    def test_a_start_behind_the_points(self):
        for start in ("start=1000", "start=2147483647", "point_counts=999,1&start=1"):
            with self.subTest(start):
                reply = self.sample(f"num_samples=1&{start}")
                self.problem(reply, 422, "impossible", "start", "sampling cannot start from")
        self.ok(self.sample("num_samples=1,0&point_counts=999,1&start=1"))  # the second cloud is not sampled

    def test_fewer_voxels_than_samples(self):
        three = floats(1, 1, 1, 0, 1, 1, 1, 0, 2, 2, 2, 0, 3, 3, 3, 0)
        for query in ("fps=4", "fps=2&point_counts=2,2", "fps=1,3&point_counts=2,2", "fps=1&start=3"):
            for lines, reason in (((), "voxels"), ((JSON,), "")):
                with self.subTest(query=query, lines=lines):
                    reply = self.voxelize(f"{SMALL}&{query}", three, *lines)
                    self.problem(reply, 422, "impossible", "fps", reason)
        self.ok(self.voxelize(f"{SMALL}&fps=3", three))

    def test_bodies_and_headers_are_refused_as_for_voxelize(self):
        self.problem(self.sample("num_samples=0", SCAN[:15]), 400, "bad-body")
        self.refused("point_counts", "num_samples=1&point_counts=1,2", kind="bad-body")
        self.problem(self.sample("num_samples=1", SCAN, "Content-Type: text/plain"), 415, "unsupported-media-type")
        reply = self.ask("/v1/fps?num_samples=1")
        self.problem(reply, 405, "method-not-allowed")
        self.assertEqual(reply.headers["Allow"], "POST")
        self.problem(self.post("/v1/fps/?num_samples=1", SCAN), 404, "not-found")

    def test_more_work_than_max_sampling_work(self):
        self.start("--max-sampling-work", "100000")
        for most in ("100", "100&point_counts=600,400", "180,20&point_counts=500,500"):
            self.ok(self.sample(f"num_samples={most}"))
        for more in ("101", "101&point_counts=600,400", "180,21&point_counts=500,500"):
            with self.subTest(more):
                reply = self.sample(f"num_samples={more}")
                self.problem(reply, 422, "impossible", "num_samples", "allowed: up to 100000")
        self.problem(self.sample("num_samples=101", SCAN, CHUNKED), 422, "impossible", "num_samples")
        reply = self.voxelize("point_cloud_range=-100,-100,-100,100,100,100&voxel_size=0.01,0.01,0.01&fps=500")
        self.problem(reply, 422, "impossible", "fps", "voxels times samples")
        self.assertEqual(self.daemon.status()["limits"]["max_sampling_work"], 100000)

    def test_an_answer_over_max_response_bytes_is_refused_before_anything_is_sampled(self):
        self.start("--max-response-bytes", "65536", "--max-sampling-work", "1000000000000")
        query = SAMPLING.replace("&outputs=sampled_indices", "")
        self.problem(self.post(query, ROWS), 422, "impossible", reason="the answer would have")


class LongSamplings(FpsCase):
    def running(self):
        """(running samplings, other running jobs); None while status and metrics differ."""
        status, metric = self.daemon.status(), counters(self.daemon, "voxeld_jobs_running")
        told = (status["long_workers"]["running"], status["workers"]["running"])
        return told if told == (metric['lanes="long"'], metric['lanes="quick"']) else None

    def await_running(self, samplings, others):
        wait_until(lambda: self.running() == (samplings, others), f"{samplings} samplings and {others} others that run")

    def queued_or_running(self, number):
        status = self.daemon.status()
        return status["requests"]["active"] >= number and status["long_workers"]["running"] == 1

    def test_voxels_are_made_while_samples_are_chosen_and_the_end_of_the_drain_ends_samplings(self):
        daemon = self.start(*self.ARGS, "--drain-timeout-s", "0")
        with ThreadPoolExecutor(6) as clients:
            for number in range(1, 7):
                last = clients.submit(self.post, LONG, ROWS)
                wait_until(lambda: self.queued_or_running(number), f"{number} samplings in flight")
            self.await_running(1, 0)
            for _ in range(5):
                self.ok(self.post(KITTI, SCAN))
            # Samplings wait for the first one until their deadlines.
            self.problem(self.sample("num_samples=5&timeout_ms=300"), 504, "deadline")
            self.problem(self.post(f"{KITTI}&fps=5&timeout_ms=300", SCAN), 504, "deadline")
            self.await_running(1, 0)
            daemon.stop()
            self.problem(last.result(), 503, "draining")

    def test_a_sampling_ends_at_its_deadline(self):
        reply = begun(lambda deadline: self.post(f"{SAMPLING}&timeout_ms={deadline}", ROWS))
        self.problem(reply, 504, "deadline", reason="before all ")
        self.await_running(0, 0)
        self.ok(self.sample("num_samples=5"))

    def test_a_sampling_ends_at_the_servers_own_limit(self):
        self.start("--max-timeout-ms", "400", "--max-sampling-work", "1000000000000")
        for path in (LONG, f"{LONG}&timeout_ms=3600000"):
            with self.subTest(path):
                self.problem(self.post(path, ROWS), 504, "deadline")


if __name__ == "__main__":
    unittest.main()
