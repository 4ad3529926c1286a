"""Inference requests that are malformed, impossible or too large: the answer has the reason in `error`."""

import json
import struct
import threading
import unittest

from client import LONG, LONG_POINTS, MB, FaultCase, counters, many_rows, post, wait_until

POINTS = struct.pack("<8f", 1, 2, 0, 0.5, 3, 4, 0, 0.25)
HUGE = 2**31


def described(**members):
    return {
        "name": "points",
        "shape": [2, 4],
        "datatype": "FP32",
        "parameters": {"binary_data_size": len(POINTS)},
        **members,
    }


def without(name, **members):
    return {key: value for key, value in described(**members).items() if key != name}


def long_sampling(**parameters):
    """The JSON of a sampling of many_rows(LONG_POINTS), which takes about a second."""
    points = described(shape=[LONG_POINTS, 3], parameters={"binary_data_size": 12 * LONG_POINTS})
    parameters = {"num_samples": LONG_POINTS * 9 // 10, "binary_data_output": True, **parameters}
    return {"inputs": [points], "outputs": [{"name": "sampled_indices"}], "parameters": parameters}


COUNTS = {"name": "point_counts", "shape": [2], "datatype": "INT32", "data": [1, 1]}
DATA = without("parameters", data=[0] * 8)
# (JSON, part of the answer's `error`[, bytes after the JSON: POINTS by default])
WRONG = (
    ({}, "there is no list of inputs"),
    ([], "is not an object"),
    ({"inputs": []}, "the input points is missing", b""),
    ({"inputs": {}}, "there is no list of inputs"),
    ({"inputs": [3]}, "there is no input ''"),
    ({"inputs": [described(name="pillars")]}, "no input 'pillars'; allowed: points, point_counts"),
    ({"inputs": [without("shape")]}, "has no shape of 1 to 4 dimensions"),
    ({"inputs": [described(shape=[2, 4, 1])]}, "does not have the shape [N, C]"),
    ({"inputs": [described(shape=[8])]}, "does not have the shape [N, C]"),
    ({"inputs": [described(shape=[4, 2])]}, "does not have the shape [N, C] with C from 3 to 64"),
    ({"inputs": [described(shape=[-1, 4])]}, "dimension 0 of its shape is not a whole number of 0 or more"),
    ({"inputs": [described(shape=[HUGE * HUGE, 4])]}, "its shape is too large"),
    ({"inputs": [described(shape=[2.0, 4])]}, "dimension 0 of its shape"),
    ({"inputs": [described(shape=[3, 4])]}, "points has 32 bytes; its shape has 48"),
    ({"inputs": [described(shape=[1, 8])]}, "points has 8 columns; num_features is 4"),
    ({"inputs": [described(datatype="FP64")]}, "the datatype FP64; allowed: FP32"),
    ({"inputs": [described(datatype="BYTES")]}, "the datatype BYTES"),
    ({"inputs": [without("datatype")]}, "the datatype (not a string); allowed: FP32 or FP16"),
    ({"inputs": [described(parameters={"binary_data_size": 33})]}, "is 33, but only 32 bytes are left"),
    ({"inputs": [described(parameters={"binary_data_size": -1})]}, "is not a number of bytes"),
    ({"inputs": [described(parameters={"binary_data_size": "32"})]}, "is not a number of bytes"),
    ({"inputs": [described(parameters={"binary_data_size": 16}, shape=[1, 4])]}, "16 bytes are left after"),
    ({"inputs": [described(parameters={})]}, "allowed: one of data, binary_data_size and shared_memory_region"),
    ({"inputs": [described(data=[0] * 8)]}, "allowed: one of data, binary_data_size and shared_memory_region"),
    ({"inputs": [described(parameters={"shared_memory_region": "r"})]}, "shared_memory_region"),
    ({"inputs": [described(), without("parameters", data=[0] * 8)]}, "two inputs points"),
    ({"inputs": [described(), {**COUNTS, "data": [2]}]}, "2 whole numbers from -2147483648 to 2147483647, flat"),
    ({"inputs": [described(), {**COUNTS, "data": [1, 1.0]}]}, "not a list of 2 whole numbers"),
    ({"inputs": [described(), {**COUNTS, "data": [1, 2]}]}, "point_counts add up to 3 points but the body has 2"),
    ({"inputs": [described(), {**COUNTS, "data": [3, -1]}]}, "point_counts is '3,-1'"),
    ({"inputs": [described(), {**COUNTS, "shape": [2000]}]}, "with B up to 1024"),
    ({"inputs": [described(), COUNTS], "parameters": {"point_counts": "1,1"}}, "given more than once"),
    ({"inputs": [DATA]}, "32 bytes are left after"),
    ({"inputs": [without("parameters", data=[0] * 7)]}, "not a list of 8 numbers", b""),
    ({"inputs": [without("parameters", data=[[0] * 4, [0] * 5])]}, "not a list of 8 numbers", b""),
    ({"inputs": [without("parameters", data=[[[0] * 4] * 2])]}, "not a list of 8 numbers", b""),
    ({"inputs": [without("parameters", data=[[0] * 3, [0] * 5])]}, "not a list of 8 numbers", b""),
    ({"inputs": [without("parameters", data=[[0] * 2] * 4)]}, "not a list of 8 numbers", b""),
    ({"inputs": [without("parameters", data=[[0] * 8])]}, "not a list of 8 numbers", b""),
    ({"inputs": [without("parameters", data=[[0] * 4, 0, 0, 0, 0])]}, "not a list of 8 numbers", b""),
    ({"inputs": [without("parameters", data=[0, 0, 0, 0, [0] * 4])]}, "not a list of 8 numbers", b""),
    ({"inputs": [without("parameters", data=[[[0] * 4], [[0] * 4]])]}, "not a list of 8 numbers", b""),
    ({"inputs": [described(), {**COUNTS, "data": [1, None]}]}, "not a list of 2 whole numbers"),
    ({"inputs": [without("parameters", data=["0"] * 8)]}, "not a list of 8 numbers", b""),
    ({"inputs": [without("parameters", data=[1], shape=[0, 4])]}, "not a list of 0 numbers", b""),
    ({"inputs": [without("parameters", data=[0] * 8, datatype="FP16")]}, "FP16; allowed: as binary data", b""),
    ({"inputs": [described()], "parameters": []}, "parameters is not an object"),
    ({"inputs": [described()], "parameters": {"max_voxels": 0}}, "max_voxels is '0'; allowed: a whole number"),
    ({"inputs": [described()], "parameters": {"max_voxels": None}}, "max_voxels is not a string, number"),
    ({"inputs": [described()], "parameters": {"voxel_size": [1, [2], 3]}}, "voxel_size is not a string, number"),
    ({"inputs": [described()], "parameters": {"triton_x": 1}}, "no parameter 'triton_x'"),
    ({"inputs": [described()], "parameters": {"preset": "kitti_second"}}, "name the preset as the model"),
    ({"inputs": [described()], "parameters": {"format": "pcd"}}, "given by the inputs"),
    ({"inputs": [described()], "parameters": {"dtype": "float16"}}, "given by the inputs"),
    ({"inputs": [described()], "parameters": {"timeout": -1}}, "timeout is not a number of microseconds"),
    ({"inputs": [described()], "parameters": {"binary_data_output": 1}}, "binary_data_output is not a boolean"),
    ({"inputs": [described()], "parameters": {f"p{i}": 1 for i in range(70)}}, "more than 64 parameters"),
    ({"inputs": [described()], "parameters": {"voxel_size": "1" * 70000}}, "voxel_size is too long"),
    ({"inputs": [described()], "id": 7}, "id is not a string"),
    ({"inputs": [described()], "id": "x" * 128}, "id is not a string of up to 127 bytes"),
    ({"inputs": [described()], "outputs": {}}, "outputs is not a list"),
    ({"inputs": [described()], "outputs": [{"name": "boxes"}]}, "outputs is 'boxes'"),
    ({"inputs": [described()], "outputs": [{"name": "voxels"}]}, "outputs"),
    (
        {"inputs": [described()], "outputs": [{"name": "voxel_coords", "parameters": {"classification": 3}}]},
        "classification",
    ),
    (
        {"inputs": [described()], "outputs": [{"name": "voxel_coords", "parameters": {"binary_data": "yes"}}]},
        "binary_data is not a boolean",
    ),
    ({"inputs": [described()], "parameters": {"feature_dtype": "float16"}}, "float16 outputs are served only as"),
)


class Infer(FaultCase):
    ARGS = ("--workers", "2", "--long-workers", "1", "--memory-budget-bytes", str(1024 * MB))
    ARGS += ("--gpu-streams", "1", "--gpu-long-streams", "1", "--max-sampling-work", str(10**13))
    ARGS += ("--max-timeout-ms", "3600000")

    def infer(self, body, head=None, model="kitti_second", headers=None):
        headers = dict(headers or {})
        if head is not None:
            headers["Inference-Header-Content-Length"] = str(head)
        return self.daemon.post(f"/v2/models/{model}/infer", body, headers)

    def refused(self, reply, status, error):
        self.assertEqual(reply.status, status, reply)
        self.assertEqual(reply.headers.get_content_type(), "application/json")
        told = reply.json()
        self.assertIn(error, told["error"])
        self.assertEqual((told["detail"], told["status"]), (told["error"], status))

    def works(self):
        head = json.dumps({"inputs": [described()]}).encode()
        self.assertEqual(self.infer(head + POINTS, len(head)).status, 200)

    def test_what_is_wrong_is_reported(self):
        for request, error, *rest in WRONG:
            with self.subTest(error=error):
                head = json.dumps(request).encode()
                self.refused(self.infer(head + (rest[0] if rest else POINTS), len(head)), 400, error)
        self.works()

    def test_text_that_is_no_json(self):
        for text, error in (
            (b"", "line 1"),
            (b"{", "line 1, column 1"),
            (b'{"inputs":[],"inputs":[]}', "duplicate"),
            (b"[" * 5000, "line 1"),
            (b'{"id":"\xff"}', "decode byte 0xff"),
            (b'{"inputs":[]}x', "end of file"),
            (b'{"inputs": nan}', "line 1"),
        ):
            with self.subTest(text=text[:30]):
                self.refused(self.infer(text), 400, error)
                self.refused(self.infer(text + POINTS, len(text)) if text else self.infer(b" ", 1), 400, error)
        self.works()

    def test_the_length_of_the_json(self):
        head = json.dumps({"inputs": [described()]}).encode()
        body = head + POINTS
        for length in (len(body) + 1, 10**17):
            self.refused(self.infer(body, length), 400, f"is {length}; the body has {len(body)} bytes")
        for length in ("-1", "x", "1x", "", "9" * 19, "0x10", " 1 1"):
            self.refused(self.infer(body, length), 400, "allowed: one number of bytes")
        self.refused(self.infer(body, len(head) - 1), 400, "line 1")
        self.refused(self.infer(body, 0), 400, "allowed: a multiple of 16")
        with self.raw() as connection:
            name = "Inference-Header-Content-Length: 0\r\n"
            connection.send(
                f"POST /v2/models/fps/infer HTTP/1.1\r\nHost: x\r\n{name}{name}Content-Length: 0\r\n\r\n".encode()
            )
            self.assertEqual(connection.read().status, 400)
        self.works()

    def test_paths_methods_and_queries(self):
        self.refused(self.infer(POINTS, 0, "nothing"), 404, "no model 'nothing'")
        self.refused(self.daemon.get("/v2/models/fps/infer"), 405, "takes POST")
        self.refused(self.daemon.post("/v2/models/fps/infer?num_samples=1", POINTS, {}), 400, "parameters in the body")
        self.refused(self.infer(POINTS, 0, headers={"Content-Encoding": "br"}), 501, "Content-Encoding is 'br'")
        self.works()

    def test_any_content_type_is_taken(self):
        head = json.dumps({"inputs": [described()]}).encode()
        for kind in ("application/json", "application/octet-stream", "text/plain", "application/x-www-form-urlencoded"):
            self.assertEqual(self.infer(head + POINTS, len(head), headers={"Content-Type": kind}).status, 200)

    def test_json_beyond_the_limit(self):
        for text in (b" " * (16 * MB + 1), b"[" + b"{}," * (6 * MB) + b"{}]"):
            self.refused(self.infer(text), 413, "send tensors as binary data")
        costly = b"[" + b"{}," * (5 * MB) + b"{}]"  # to read it would take more memory than the budget
        self.refused(self.infer(costly), 400, "memory_budget_bytes")
        self.works()
        self.daemon.assert_quiet()

    def test_a_request_that_turns_out_to_sample_goes_to_the_long_workers(self):
        """A request whose JSON asks for samples waits for the busy worker for long jobs; others do not wait."""
        replies = []
        long_one = self.raw().send(post(many_rows(LONG_POINTS), LONG))
        sampling = lambda: self.daemon.status()["long_workers"]["running"]
        waiting = lambda: self.daemon.status()["long_queue"]["depth"]
        wait_until(lambda: sampling() == 1, "the long job to run")
        parameters = {
            "point_cloud_range": "0,0,-3,8,8,1",
            "voxel_size": "1,1,1",
            "fps": 1,
            "outputs": "sampled_indices",
        }
        small = json.dumps({"inputs": [described()], "parameters": parameters}).encode()
        second = threading.Thread(target=lambda: replies.append(self.infer(small + POINTS, len(small), "voxelize")))
        second.start()
        wait_until(lambda: waiting() == 1, "the second sampling to wait")
        self.works()
        self.assertEqual((sampling(), waiting()), (1, 1))
        long_one.reset()
        second.join()
        self.assertEqual([reply.status for reply in replies], [200])
        wait_until(lambda: self.daemon.status()["buffers"]["in_use_bytes"] == 0, "all memory to be given back")

    def test_a_timeout_in_the_json_counts(self):
        head = json.dumps(long_sampling(timeout=20_000)).encode()
        self.refused(self.infer(head + many_rows(LONG_POINTS), len(head), "fps"), 504, "after")
        self.works()

    def test_answers_and_refusals_are_counted_by_the_route(self):
        self.works()
        self.infer(b"{")
        counted = lambda: counters(self.daemon, "voxeld_requests_total")
        row = 'endpoint="/v2/models/*/infer",code="%d"'
        wait_until(lambda: all(row % code in counted() for code in (200, 400)), "both to be counted")


if __name__ == "__main__":
    unittest.main()
