"""Steps before an operation: answers and refusals. tests/oracle checks every bit of each step."""

import json
import math
import pathlib
import struct
import tempfile
import unittest

import models
from client import counters
from daemon import wait_until
from http_case import JSON, SharedDaemonCase, floats, scan

GRID = "point_cloud_range=-20,-20,-20,20,20,20&voxel_size=1,1,1"
FEW = floats(0, 0, 0, 1, 1, 2, 3, 2, math.nan, 0, 0, 3, 5, 5, 5, 4, 9, 9, 9, 5)
SCAN = scan("--points", "3000")
# Two steps, each of which moves and drops points.
CHAIN = (
    "steps=transform,far:transform&transform.matrix=1,0,0,10,0,1,0,0,0,0,1,0,0,0,0,1&transform.cut=14,4,4,16,6,6"
    "&far.matrix=1,0,0,-10,0,1,0,0,0,0,1,0,0,0,0,1&far.distance=0,10"
)
NAMES = ["points", "point_indices", "point_rows", "point_fates", "point_steps"]
OUTPUTS = "&outputs=" + ",".join(NAMES)


class Steps(SharedDaemonCase):
    def ask_points(self, query, body=FEW, *lines):
        return self.post(f"/v1/points?{query}", body, *lines)

    def refused(self, parameter, *queries, status=400, kind="bad-parameter"):
        for query in queries:
            with self.subTest(query):
                self.problem(self.ask_points(query), status, kind, parameter)

    def values(self, answer, name):
        return list(answer.values(name))

    def bytes_of(self, answer):
        """{name: bytes} of the tensors."""
        return {name: answer.data[answer.span(name)] for name in answer.shapes}

    def test_each_row_has_its_fate_and_its_step(self):
        answer = self.tensors(self.ask_points(CHAIN + OUTPUTS))
        self.assertEqual(answer.shapes["points"], ("F32", [2, 4]))
        self.assertEqual(self.values(answer, "points"), [0, 0, 0, 1, 1, 2, 3, 2])
        self.assertEqual(self.values(answer, "point_indices"), [0, 1])
        self.assertEqual(self.values(answer, "point_rows"), [0, 1, -1, -1, -1])
        self.assertEqual(self.values(answer, "point_steps"), [0, 0, 1, 1, 2])
        names = answer.metadata["fate_names"]
        fates = [names[code] for code in self.values(answer, "point_fates")]
        self.assertEqual(fates, ["kept", "kept", "not_finite", "cut_out", "out_of_distance"])

    def test_the_metadata_counts_by_step_and_in_total(self):
        reply = self.ask_points(CHAIN)
        metadata = self.tensors(reply).metadata
        counts = {"received": 5, "kept": 2, "not_finite": 1, "out_of_crop": 0, "cut_out": 1, "out_of_distance": 1}
        self.assertEqual(metadata["points"], counts)
        self.assertEqual(metadata["batch"], {"size": 1, "points": [5], "kept": [2]})
        none = {"not_finite": 0, "out_of_crop": 0, "cut_out": 0, "out_of_distance": 0}
        first = {"tag": "transform", "op": "transform", "in": 5, "kept": 3, **none, "not_finite": 1, "cut_out": 1}
        second = {"tag": "far", "op": "transform", "in": 3, "kept": 2, **none, "out_of_distance": 1}
        self.assertEqual(metadata["steps"], [first, second])
        self.assertNotIn("fate_names", metadata)
        self.assertLessEqual({"steps", "step-transform", "step-far"}, set(metadata["timing_us"]))
        for stage in ("steps;dur=", "step-transform;dur=", "step-far;dur="):
            self.assertIn(stage, reply.headers["Server-Timing"])
        self.assertEqual(
            metadata["parameters"]["steps"][1],
            {
                "op": "transform",
                "tag": "far",
                "matrix": [1, 0, 0, -10, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1],
                "crop": "off",
                "cut": "off",
                "distance": [0, 10],
            },
        )

    def test_without_steps_points_are_the_finite_rows(self):
        answer = self.tensors(self.ask_points("outputs=points,point_indices,point_rows,point_steps"))
        self.assertEqual(self.values(answer, "point_indices"), [0, 1, 3, 4])
        self.assertEqual(self.values(answer, "point_rows"), [0, 1, -1, 2, 3])
        self.assertEqual(self.values(answer, "point_steps"), [0] * 5)
        self.assertEqual(answer.metadata["points"], {"received": 5, "kept": 4, "not_finite": 1})
        self.assertEqual(answer.metadata["steps"], [])

    def test_other_operations_see_the_points_that_are_left(self):
        left = self.bytes_of(self.tensors(self.ask_points(CHAIN, SCAN)))["points"]
        for path in (f"/v1/voxelize?{GRID}&feature=points,mean,pillar", "/v1/fps?num_samples=50&start=7"):
            with self.subTest(path):
                alone, chained = self.tensors(self.post(path, left)), self.tensors(self.post(f"{path}&{CHAIN}", SCAN))
                expected, got = self.bytes_of(alone), self.bytes_of(chained)
                indices = expected.pop("sampled_indices", None), got.pop("sampled_indices", None)
                self.assertEqual(got, expected)
                counts = chained.metadata["points"]
                self.assertEqual(counts["kept"], alone.metadata["points"]["kept"])
                self.assertEqual(sum(counts.values()), 2 * counts["received"])
                self.assertEqual(counts["received"], 3000)
                self.assertTrue(indices[0] is None or indices[0] != indices[1])  # with steps they count the body's rows

    def test_their_answers_may_have_the_tensors_of_the_steps(self):
        expected = self.bytes_of(self.tensors(self.ask_points(CHAIN + OUTPUTS, SCAN)))
        for path in (f"/v1/voxelize?{GRID}", "/v1/fps?num_samples=50"):
            with self.subTest(path):
                names = "point_voxel_ids" if "voxelize" in path else "sampled_points"
                answer = self.tensors(self.post(f"{path}&{CHAIN}{OUTPUTS},{names}", SCAN))
                self.assertEqual({name: self.bytes_of(answer)[name] for name in NAMES}, expected)
                self.assertIn("fate_names", answer.metadata)

    def test_a_sampling_starts_at_a_rank_among_the_points_left(self):
        query = "/v1/fps?num_samples=1&steps=transform&transform.distance=1,100&start="
        for start, row in ((0, 1), (1, 3), (2, 4)):
            with self.subTest(start=start):
                answer = self.tensors(self.post(f"{query}{start}", FEW))
                self.assertEqual(self.values(answer, "sampled_indices"), [row])
        self.problem(self.post(f"{query}3", FEW), 422, "impossible", "num_samples", reason="the steps left 3 points")
        self.problem(self.post(f"{query}5", FEW), 422, "impossible", "start")

    def test_a_sampling_of_more_points_than_the_steps_left(self):
        query = "/v1/fps?num_samples=4&steps=transform&transform.distance=1,100"
        reason = "of cloud 0 the steps left 3 points, fewer than the 4 samples requested"
        self.problem(self.post(query, FEW), 422, "impossible", "num_samples", reason=reason)

    def test_each_sweep_of_a_stream_has_the_fates_of_the_steps(self):
        pose = "0,0,0,1,0,0,0"
        stream = f"stream=steps&point_counts=2,3&times=1,0&poses={pose},{pose}"
        query = f"{stream}&steps=transform&transform.distance=1,10"
        view = "height=64&width=1024&fov_up=80&fov_down=-80"
        operations = ("points?", "fps?num_samples=1&", f"voxelize?{GRID}&", "serialize?voxel_size=1&")
        for operation in (*operations, f"range_image?{view}&"):
            path = f"/v1/{operation}{query}"
            with self.subTest(path):
                metadata = self.tensors(self.post(path, FEW)).metadata
                first, second = (sweep["points"] for sweep in metadata["stream"]["sweeps"])
                self.assertEqual((first["joined"], first["kept"], first["out_of_distance"]), (2, 1, 1))
                self.assertEqual((second["joined"], second["kept"], second["not_finite"]), (3, 1, 1))
                for name, count in metadata["points"].items():
                    if name != "received":
                        self.assertEqual(count, first[name] + second[name], name)

    def test_a_detection_may_have_steps_of_its_own_or_of_its_model(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        models.write(folder, "plain", models.standin())
        step = {"op": "transform", "distance": [0, 10]}
        near = models.description(voxelize={**models.VOXELIZE, "steps": [step]})
        models.write(folder, "near", models.standin(), near)
        self.start("--models-dir", folder, "--onnxruntime", models.STANDIN)
        whole = self.tensors(self.post("/v1/detect?model=plain", SCAN))
        chain = "steps=transform&transform.distance=0,10"
        left = self.bytes_of(self.tensors(self.ask_points(chain, SCAN)))["points"]
        expected = self.bytes_of(self.tensors(self.post("/v1/detect?model=plain", left)))
        for query in (f"model=plain&{chain}", "model=near"):
            with self.subTest(query):
                answer = self.tensors(self.post(f"/v1/detect?{query}", SCAN))
                self.assertEqual(self.bytes_of(answer), expected)
                counts = answer.metadata["points"]
                self.assertEqual(sum(counts.values()), 2 * counts["received"])
                self.assertGreater(counts["out_of_distance"], 0)
        self.assertEqual(
            self.bytes_of(self.tensors(self.post("/v1/detect?model=near&steps=none", SCAN))), self.bytes_of(whole)
        )
        names = "boxes,points,point_rows,point_fates"
        answer = self.tensors(self.post(f"/v1/detect?model=near&outputs={names}", SCAN))
        self.assertEqual(answer.data[answer.span("points")], left)

    def test_clouds_of_a_batch_have_their_own_rows(self):
        query = "point_counts=2,0,3&steps=transform&transform.distance=1,10" + OUTPUTS
        answer = self.tensors(self.ask_points(query))
        self.assertEqual(self.values(answer, "point_indices"), [1, 3])
        self.assertEqual(answer.metadata["batch"], {"size": 3, "points": [2, 0, 3], "kept": [1, 0, 1]})

    def test_a_cloud_may_be_empty_or_become_empty(self):
        for body in (b"", FEW):
            answer = self.tensors(self.ask_points("steps=transform&transform.crop=50,50,50,51,51,51" + OUTPUTS, body))
            self.assertEqual(answer.shapes["points"], ("F32", [0, 4]))
        (warning,) = self.json(self.ask_points("steps=transform&transform.crop=50,50,50,51,51,51", FEW, JSON))[
            "warnings"
        ]
        self.assertEqual(warning["kind"], "step_empty")
        self.assertRegex(warning["detail"], r"dropped nearly all of its points: [0-9]+ [a-z_]+; check its parameters")
        self.assertIn("step 1, transform,", warning["detail"])
        self.assertIn("4 out_of_crop", warning["detail"])

    def test_a_tag_that_is_there_twice_is_named(self):
        for names, tag, other in (
            ("transform,transform", "transform", "transform2:transform"),
            ("downsample,a:transform,a:downsample", "a", "a2:downsample"),
        ):
            problem = self.problem(self.ask_points(f"steps={names}"), 400, "bad-parameter", "steps")
            reason = f"steps has the tag {tag} twice; give one of the two another tag, such as {other}"
            self.assertEqual(problem["detail"], reason)

    def test_what_is_not_a_step_is_refused(self):
        nine = ",".join(f"a{i}:transform" for i in range(9))
        lists = ["foo", "transform,", "transform,transform", "a:transform,a:transform", ":transform", "a:", nine, ""]
        lists += ["a.b:transform", "a:b:transform", "none,transform", "x" * 24 + ":transform"]
        self.refused("steps", "steps", *(f"steps={names}" for names in lists))
        self.ok(self.ask_points(f"steps={nine.rpartition(',')[0]}"))
        self.refused("far.crop", "far.crop=0,0,0,1,1,1", "steps=transform&far.crop=0,0,0,1,1,1")
        self.refused("transform.foo", "steps=transform&transform.foo=1")
        self.refused("transform.crop", "steps=transform&transform.crop=1", "steps=transform&transform.crop=1,0,0,0,1,1")
        self.refused("transform.crop", "steps=transform&transform.crop", "steps=none&transform.crop=off")
        self.refused("a.distance", "steps=a:transform&a.distance=2,1")
        self.refused("a.distance", "steps=a:transform&a.distance=1,2&a.distance=1,2")
        self.refused(
            "a.matrix",
            "steps=a:transform&point_counts=2,3&a.matrix=" + ",".join(["1,0,0,0,0,1,0,0,0,0,1,0,0,0,0,1"] * 3),
        )
        reply = self.ask_points("steps=a:transform&a.distance=2,1")
        self.problem(reply, 400, "bad-parameter", "a.distance", reason="step a: ")
        problem = self.problem(
            self.post(f"/v1/voxelize?{GRID}&outputs=point_fates", FEW), 400, "bad-parameter", "outputs"
        )
        self.assertIn("needs steps", problem["detail"])
        self.problem(self.post("/v1/nms?steps=transform", b""), 400, "bad-parameter", "steps")

    def test_rings_behind_a_move_get_a_warning(self):
        rings = "ring_outlier&ring_outlier.ring=kitti&ring_outlier.object_length_threshold=1e-9"
        matrix = "&transform.matrix=1,0,0,1,0,1,0,0,0,0,1,0,0,0,0,1"
        for steps, warned in (
            (f"transform,{rings}{matrix}", True),
            (f"transform,{rings}&transform.distance=0,100", False),
            (f"{rings.replace('&', ',transform&', 1)}{matrix}", False),
        ):
            kinds = [warning["kind"] for warning in self.json(self.ask_points("steps=" + steps, FEW, JSON))["warnings"]]
            self.assertEqual("rings_moved" in kinds, warned, steps)

    def test_warnings_are_about_the_points_as_sent(self):
        """Steps that drop points, and the form of the answer, change no warning about the body."""
        body = floats(*(value for i in range(600) for value in (i % 7 / 4, 0.5 + i % 3 / 4, i % 2, 0.5 + i % 5 / 8)))
        query = "steps=transform&transform.crop=9,9,9,99,99,99&outputs="
        for outputs in ("points", "point_fates"):
            for form in ((JSON,), ()):
                reply = self.ask_points(query + outputs, body, *form)
                metadata = reply.json() if form else self.tensors(reply).metadata
                with self.subTest(outputs=outputs, form=form):
                    self.assertEqual([warning["kind"] for warning in metadata["warnings"]], ["step_empty"])

    def test_parameters_of_a_step_that_do_not_fit_are_refused(self):
        size, radius = "steps=downsample&downsample.voxel_size=", "steps=radius_outlier&radius_outlier.radius="
        self.refused("downsample.voxel_size", "steps=downsample", *(size + v for v in ("0", "1,1", "1,1,-1", "x", "")))
        self.refused("downsample.method", size + "1&downsample.method=last")
        self.refused("downsample.min_points", size + "1&downsample.min_points=0")
        self.refused("downsample.voxel_size", size + "1&downsample.every=2")
        self.refused("downsample.seed", "steps=downsample&downsample.every=2&downsample.seed=1")
        self.refused("downsample.every", "steps=downsample&downsample.every=0")
        self.refused("radius_outlier.radius", radius + "0.0009&radius_outlier.min_neighbors=1", radius + "10001")
        self.refused("radius_outlier.min_neighbors", radius + "1", radius + "1&radius_outlier.min_neighbors=65")
        far = "steps=o:statistical_outlier&o.std_mul=1&o.mean_k="
        self.refused("o.mean_k", "steps=o:statistical_outlier&o.std_mul=1", far + "0", far + "129")
        self.refused("o.std_mul", "steps=o:statistical_outlier&o.mean_k=1", far.replace("=1", "=-0.1") + "1")
        ring = "steps=r:ring_outlier&r.ring="
        self.refused("r.ring", "steps=r:ring_outlier", ring + "ring", ring + "x" * 32, "fields=x,y,z,a&" + ring + "b")
        self.refused("r.max_azimuth_diff", ring + "kitti&r.max_azimuth_diff=90", ring + "kitti&r.max_azimuth_diff=-1")
        self.refused("r.num_points_threshold", ring + "kitti&r.num_points_threshold=0")
        self.ok(self.ask_points("fields=x,y,z,a&" + ring + "a&r.num_points_threshold=off"))

    def test_more_neighbours_than_max_sampling_work(self):
        """The stream of a refused job keeps no sweep of it."""
        self.start("--max-sampling-work", "60000")
        step = "steps=o:statistical_outlier&o.std_mul=1&o.mean_k="
        stream = "&stream=s&sweeps=5&pose=0,0,0,1,0,0,0"
        self.ok(self.ask_points(step + "20", SCAN))
        self.ok(self.ask_points(step + "20&point_counts=1000,2000", SCAN))
        for query in (step + "21", step + "21&point_counts=1000,2000", step + "21&time=1" + stream):
            problem = self.problem(self.ask_points(query, SCAN), 422, "impossible", "o.mean_k")
            self.assertIn("allowed: up to 60000", problem["detail"])
        self.assertEqual(self.daemon.get("/v1/streams").json()["streams"], [])
        self.ok(self.ask_points(step + "10&time=1" + stream, SCAN))
        self.ok(self.ask_points(step + "10&time=2" + stream, SCAN))
        self.problem(self.ask_points(step + "10&time=3" + stream, SCAN), 422, "impossible", "o.mean_k")
        self.assertEqual(len(self.daemon.get("/v1/streams/s").json()["sweeps"]), 2)

    def test_the_order_of_a_query_does_not_matter(self):
        query = "&".join(reversed(CHAIN.split("&")))
        self.assertEqual(*(self.bytes_of(self.tensors(self.ask_points(q))) for q in (query, CHAIN)))

    def test_a_preset_has_steps_that_a_query_changes(self):
        presets = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        numbers = {"point_cloud_range": [-20, -20, -20, 20, 20, 20], "voxel_size": [1, 1, 1]}
        step = {"op": "transform", "crop": [0, 0, 0, 4, 4, 4]}
        lists = {"objects": [step, {"op": "transform", "tag": "far", "distance": "0,3"}], "names": ["far:transform"]}
        for name, steps in lists.items():
            preset = {"description": name, "parameters": {**numbers, "steps": steps}}
            (presets / f"{name}.json").write_text(json.dumps(preset), encoding="utf-8")
        self.start("--presets-dir", str(presets))
        for query, kept in (
            ("preset=objects", 1),
            ("preset=objects&far.distance=off", 2),
            ("preset=objects&far.distance=off&transform.crop=off", 4),
            ("preset=objects&steps=none", 4),
            ("preset=objects&steps=transform", 4),
            ("preset=names&far.distance=0,3", 1),
        ):
            with self.subTest(query):
                metadata = self.json(self.post(f"/v1/voxelize?{query}", FEW, JSON))
                self.assertEqual(metadata["points"]["kept"], kept)
        said = self.json(self.ask("/v1/presets/objects"))["parameters"]["steps"]
        self.assertEqual([step.get("tag", step["op"]) for step in said], ["transform", "far"])
        (presets / "again.json").write_text(json.dumps({"description": "", "parameters": {**numbers, "steps": said}}))
        self.start("--presets-dir", str(presets))
        self.assertEqual(self.json(self.ask("/v1/presets/again"))["parameters"]["steps"], said)

    def test_kserve_takes_the_same_names(self):
        parameters = {"steps": "transform", "transform.distance": [1, 10], "binary_data_output": True}
        inputs = {"name": "points", "shape": [5, 4], "datatype": "FP32", "parameters": {"binary_data_size": len(FEW)}}
        head = json.dumps(
            {"inputs": [inputs], "parameters": parameters, "outputs": [{"name": "point_indices"}]}
        ).encode()
        reply = self.ok(
            self.post("/v2/models/points/infer", head + FEW, f"Inference-Header-Content-Length: {len(head)}")
        )
        self.assertEqual(reply.body[-8:], struct.pack("<2i", 1, 3))

    def test_points_and_times_are_counted_by_type(self):
        self.ok(self.ask_points(CHAIN))
        key = 'step="transform",fate="out_of_distance"'
        wait_until(lambda: counters(self.daemon, "voxeld_step_points_total").get(key), "the step counted")
        self.assertGreater(counters(self.daemon, "voxeld_step_duration_seconds_count")['step="transform"'], 1)


if __name__ == "__main__":
    unittest.main()
