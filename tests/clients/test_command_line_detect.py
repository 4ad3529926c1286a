"""voxeld-client detect and models: what they print, write and refuse. With the stand-in for ONNX Runtime, and with the
real library if the tests' environment has it."""

import contextlib
import io
import json
import math
import pathlib
import tempfile
import unittest
from unittest import mock

import numpy as np

import models
import voxeld
from check import parse_by_hand
from command_line import run
from daemon import Daemon
from rude_server import url_of
from test_python_detect import scan
from voxeld.cli import bags, boxes, recording


class Detect(unittest.TestCase):
    REAL = False

    @classmethod
    def setUpClass(cls):
        place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(place.cleanup)
        cls.folder = pathlib.Path(place.name)
        served = models.served(cls.folder / "models", cls.REAL)
        models.write(cls.folder / "models", "broken", b"nothing")
        cls.daemon = Daemon(*served)
        cls.addClassCleanup(cls.daemon.stop)
        cls.server = ("--server", url_of(cls.daemon))
        (cls.folder / "scans").mkdir()
        for seed, name in enumerate(("one.bin", "two.bin")):
            scan(2500, seed).tofile(cls.folder / "scans" / name)
        (cls.folder / "bad.bin").write_bytes(bytes(10))

    def run_here(self, *arguments):
        return run(*arguments, *self.server, cwd=self.folder)

    def expected(self, name):
        with voxeld.Client(url_of(self.daemon)) as client:
            result = client.detect(np.fromfile(self.folder / name, "<f4").reshape(-1, 4), "random")
        self.assertGreater(len(result["boxes"]), 3)
        return result

    def test_a_table_for_each_scan(self):
        done = self.run_here("detect", "scans/", "scans/one.bin", "--model", "random")
        self.assertEqual((done.status, done.counts), (0, {"done": 2, "skipped": 0, "failed": 0}), done)
        lines = done.output.splitlines()
        for name in ("scans/one.bin", "scans/two.bin"):
            result = self.expected(name)
            self.assertRegex(lines.pop(0), rf"^{name}: {len(result['boxes'])} boxes in [0-9.]+ ms$")
            self.assertEqual(lines.pop(0).split(), "class score x y z dx dy dz heading".split())
            for box, score, label in zip(result["boxes"], result["scores"], result["labels"]):
                kind, *numbers = lines.pop(0).split()
                self.assertEqual(kind, ["Car", "Pedestrian", "Cyclist"][label])
                shown = [score, *box[:6], (math.degrees(box[6]) + 180) % 360 - 180]
                np.testing.assert_allclose([float(number) for number in numbers], shown, rtol=0, atol=0.051)
        self.assertEqual(lines, [])

    def test_json_has_every_digit(self):
        done = self.run_here("detect", "scans/one.bin", "--model", "random", "--json")
        (line,) = map(json.loads, done.output.splitlines())
        result = self.expected("scans/one.bin")
        self.assertEqual(line["scan"], "scans/one.bin")
        self.assertIn("network", line["timing_us"])
        for box, values, score, label in zip(line["boxes"], result["boxes"], result["scores"], result["labels"]):
            self.assertEqual((box["label"], box["class"]), (label, ["Car", "Pedestrian", "Cyclist"][label]))
            numbers = [*box["center"], *box["size"], box["heading"]]
            self.assertEqual(np.array(numbers, "<f4").tobytes(), values.tobytes())
            self.assertEqual(np.float32(box["score"]), score)
        self.assertEqual(len(line["boxes"]), len(result["boxes"]))

    def test_output_writes_answers_as_the_other_commands_do(self):
        asked = ("detect", "scans", "--model", "random", "-o", "boxes", "--outputs", "boxes,labels,box_indices")
        done = self.run_here(*asked)
        self.assertEqual((done.status, done.output, done.counts["done"]), (0, "", 2), done)
        tensors, metadata = parse_by_hand((self.folder / "boxes" / "two.safetensors").read_bytes())
        self.assertEqual(list(tensors), ["boxes", "labels", "box_indices"])
        self.assertEqual(metadata["class_names"][0], "Car")
        self.assertEqual(self.run_here(*asked).counts["skipped"], 2)
        other = self.run_here("detect", "scans", "--model", "broken", "-o", "boxes", "--retries", "0")
        self.assertNotEqual(other.status, 0)

    def test_a_scan_that_fails_is_reported_and_the_others_are_printed(self):
        done = self.run_here("detect", "bad.bin", "scans/two.bin", "--model", "random")
        self.assertEqual((done.status, done.counts), (1, {"done": 1, "skipped": 0, "failed": 1}))
        self.assertIn("failed bad.bin: ", done.errors)
        self.assertIn("scans/two.bin: ", done.output)

    def test_refusals(self):
        for arguments, status, words in (
            (("--model", "other"), 2, "model"),
            ((), 2, "model is missing"),
            (("--model", "broken", "--retries", "0"), 1, "network.onnx"),
            (("--model", "random", "--outputs", "bev_features"), 2, "outputs needs --output"),
            (("--model", "random", "--json", "--output", "out"), 2, "not allowed with"),
            (("--model", "random", "--preset", "kitti_second"), 2, "detect has no option --preset"),
        ):
            with self.subTest(arguments):
                done = self.run_here("detect", "scans/one.bin", *arguments)
                self.assertEqual((done.status, done.output), (status, ""), done)
                self.assertIn(words, done.errors)

    def test_models(self):
        done = self.run_here("models")
        lines = dict(line.split(maxsplit=1) for line in done.output.splitlines())
        self.assertEqual((done.status, lines["random"]), (0, "random weights"))
        self.assertRegex(lines["broken"], r"^cannot be used: .*network\.onnx")
        listed = json.loads(self.run_here("models", "--json").output)
        self.assertEqual([model["name"] for model in listed], ["broken", "random"])
        shown = self.run_here("models", "random").output
        self.assertRegex(shown, r"(?m)^name +random$")
        self.assertEqual(json.loads(self.run_here("models", "random", "--json").output), listed[1])
        self.assertEqual(self.run_here("models", "other").status, 1)


class Text(unittest.TestCase):
    """Answers that the models of these tests do not give."""

    def result(self, columns, labels=(1,), **metadata):
        rows = np.arange(columns * len(labels), dtype=np.float32).reshape(-1, columns) / 4
        tensors = {"boxes": rows, "scores": np.full(len(labels), 0.7, "<f4"), "labels": np.array(labels, "<i4")}
        return voxeld.Result(tensors, {"timing_us": {"total": 1500}, **metadata})

    def test_a_velocity_has_columns_of_its_own(self):
        title, head, row = boxes.table("a.bin", self.result(9, class_names=["Car", "Bus"])).splitlines()
        self.assertEqual((title, head.split()[-3:]), ("a.bin: 1 boxes in 1.5 ms", ["heading", "vx", "vy"]))
        self.assertEqual(row.split(), "Bus 0.70 0.00 0.25 0.50 0.75 1.00 1.25 85.9 1.75 2.00".split())
        (box,) = json.loads(boxes.line({"scan": "a.bin"}, self.result(9)))["boxes"]
        self.assertEqual((box["velocity"], box["heading"], box["score"]), ([1.75, 2], 1.5, 0.7))

    def test_a_track_has_a_column_of_its_own(self):
        tracked = self.result(7, (1, 0), class_names=["Car", "Bus"])
        tracked.tensors["track_ids"] = np.array([1234567890123, 2], "<i8")
        _, head, *rows = boxes.table("a.bin", tracked).splitlines()
        self.assertEqual(head.split()[:3], ["class", "track", "score"])
        self.assertEqual([row.split()[:3] for row in rows], [["Bus", "1234567890123", "0.70"], ["Car", "2", "0.70"]])
        told = json.loads(boxes.line({"scan": "a.bin"}, tracked))["boxes"]
        self.assertEqual([box["track"] for box in told], [1234567890123, 2])
        self.assertNotIn("track", json.loads(boxes.line({"scan": "a.bin"}, self.result(7)))["boxes"][0])

    def test_ids_go_on_where_tracks_begin_anew(self):
        """When a stream's tracks begin anew, the service counts from 1 again, and the client goes on counting."""
        given = [(True, [1, 2, 3]), (False, [3]), (True, []), (True, [2, 1]), (False, [1, 3])]
        expected = [[1, 2, 3], [3], [], [5, 4], [4, 6]]
        answers = [self.result(7, (0,) * len(ids), tracks={"begun": begun}) for begun, ids in given]
        for answer, (_, ids) in zip(answers, given):
            answer.tensors["track_ids"] = np.array(ids, "<i8")
        told, recorded, client, scan = io.StringIO(), mock.Mock(), mock.Mock(), mock.Mock(spec=bags.BagScan, told={})
        printer = boxes.Printer(client, {}, True)
        recorder = recording.Recorder(client, "detect", {}, recorded)
        detections = mock.patch.object(recording.ros, "detections", lambda result, _: result.tensors["track_ids"])
        for answer in answers:
            parsed = dict(answer.tensors), answer.metadata
            with mock.patch.object(boxes.tensors, "parse", lambda _, own=parsed: (dict(own[0]), own[1])), detections:
                for job in (printer, recorder):
                    with mock.patch.object(job, "ask"), mock.patch.object(recording, "warnings_of"):
                        with contextlib.redirect_stdout(told):
                            job.run(scan)
        printed = [[box["track"] for box in json.loads(line)["boxes"]] for line in told.getvalue().splitlines()]
        self.assertEqual(printed, expected)
        self.assertEqual([call.args[1][0].data.tolist() for call in recorded.put.call_args_list], expected)

    def test_a_label_without_a_name_is_its_number(self):
        for told in ({}, {"class_names": ["Car"]}):
            self.assertRegex(boxes.table("a.bin", self.result(7, **told)), r"(?m)^1 ")

    def test_no_boxes_are_a_line(self):
        self.assertEqual(boxes.table("a.bin", self.result(7, ())), "a.bin: 0 boxes in 1.5 ms")
        self.assertEqual(json.loads(boxes.line({"scan": "a.bin"}, self.result(7, ())))["boxes"], [])

    def test_stable_metadata_has_no_time(self):
        stable = self.result(7)
        del stable.metadata["timing_us"]
        self.assertEqual(boxes.table("a.bin", stable).splitlines()[0], "a.bin: 1 boxes")
        self.assertNotIn("timing_us", json.loads(boxes.line({"scan": "a.bin"}, stable)))

    def test_an_answer_without_boxes_is_refused(self):
        for columns in (6, 8):
            with self.assertRaisesRegex(voxeld.BadAnswer, "no boxes"):
                boxes.table("a.bin", self.result(columns))
        odd = self.result(7)
        odd.tensors["scores"] = np.zeros(2, "<f4")
        with self.assertRaisesRegex(voxeld.BadAnswer, "not the same in number"):
            boxes.line({"scan": "a.bin"}, odd)


@unittest.skipUnless(models.library(), "there is no onnxruntime for this Python")
class DetectReally(Detect):
    REAL = True


if __name__ == "__main__":
    unittest.main()
