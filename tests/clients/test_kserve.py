"""KServe's own Python client, from PyPI, against the service."""

import unittest

import numpy as np

import voxeld
from daemon import OneDaemonCase
from kserve_parts import inference_client, infer_type
from rude_server import url_of

PRESET = "kitti_second"


def random_points(count=3000):
    return np.random.default_rng(2).uniform((0, -40, -3, 0), (70, 40, 1, 1), (count, 4)).astype("<f4")


def request_of(points, model=PRESET, binary=True, **options):
    given = infer_type.InferInput("points", list(points.shape), "FP32")
    given.set_data_from_numpy(points, binary_data=binary)
    return infer_type.InferRequest(model, [given], **options)


class KServe(unittest.IsolatedAsyncioTestCase, OneDaemonCase):
    ARGS = ("--workers", "2")

    async def asyncSetUp(self):
        self.url = url_of(self.daemon)
        self.client = inference_client.InferenceRESTClient(inference_client.RESTConfig(protocol="v2"))
        self.addAsyncCleanup(self.client.close)

    async def infer(self, request, model=PRESET):
        return await self.client.infer(self.url, request, model_name=model)

    def same(self, answer, points):
        with voxeld.Client(self.url) as client:
            expected = client.voxelize(points, preset=PRESET).tensors
        answered = {output.name: output.as_numpy() for output in answer.outputs}
        self.assertEqual(set(answered), set(expected))
        for name, tensor in expected.items():
            self.assertEqual((answered[name].dtype, answered[name].shape), (tensor.dtype, tensor.shape), name)
            self.assertEqual(answered[name].tobytes(), tensor.tobytes(), name)

    async def test_health(self):
        self.assertIs(await self.client.is_server_live(self.url), True)
        self.assertIs(await self.client.is_server_ready(self.url), True)
        self.assertIs(await self.client.is_model_ready(self.url, PRESET), True)
        self.assertIs(await self.client.is_model_ready(self.url, "nothing"), False)

    async def test_the_tensors_of_the_plain_request(self):
        points = random_points()
        for binary_input in (True, False):
            for binary_output in (True, False):
                with self.subTest(binary_input=binary_input, binary_output=binary_output):
                    request = request_of(points, binary=binary_input, parameters={"binary_data_output": binary_output})
                    self.same(await self.infer(request), points)

    async def test_an_empty_cloud(self):
        points = random_points(0)
        answer = await self.infer(request_of(points, parameters={"binary_data_output": True}))
        self.assertEqual([output.shape[0] for output in answer.outputs], [0, 0, 0])

    async def test_what_an_answer_tells(self):
        outputs = [
            infer_type.RequestedOutput("voxel_coords", {"binary_data": True}),
            infer_type.RequestedOutput("voxel_num_points", {"binary_data": False}),
        ]
        points = random_points()
        answer = await self.infer(
            request_of(points, request_id="frame 7", request_outputs=outputs, parameters={"max_voxels": 10})
        )
        self.assertEqual((answer.model_name, answer.id), (PRESET, "frame 7"))
        self.assertEqual([output.shape for output in answer.outputs], [[10, 4], [10]])
        self.assertEqual(answer.parameters["points_received"], len(points))

    async def test_errors_are_shown(self):
        points = random_points(10)
        for model, parameters, status, text in (
            ("nothing", {}, 404, "there is no model 'nothing'"),
            (PRESET, {"max_voxels": 0}, 400, "max_voxels is '0'; allowed: a whole number"),
        ):
            with self.assertRaises(inference_client.httpx.HTTPStatusError) as caught:
                await self.infer(request_of(points, model, parameters=parameters), model)
            self.assertEqual(caught.exception.response.status_code, status)
            self.assertIn(text, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
