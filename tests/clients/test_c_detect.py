"""Boxes by the C client: with the stand-in for ONNX Runtime and, if the tests' environment has it, with the real
library. Skipped where the build found no libcurl."""

import tempfile
import unittest

import check
import models
from daemon import Daemon
from rude_server import url_of
from test_c import CCase
from test_python_detect import DEFAULT, scan


class Detect(CCase):
    REAL = False

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        if not cls.REAL:
            models.write(folder.name, "sparse", models.sparse_standin(), models.sparse_description())
        cls.daemon = Daemon(*models.served(folder.name, cls.REAL))
        cls.addClassCleanup(cls.daemon.stop)

    def detect(self, query, body):
        return self.call(url_of(self.daemon), "-B", query=query, body=body)

    def test_boxes_are_those_of_the_service(self):
        body = scan(3000).tobytes()
        for query in ("model=random", "model=random&point_counts=1200,1800"):
            line = self.detect(query, body)
            self.assertEqual((line["status"], line["error"], line["received"]), ("OK", "", 3000))
            self.assertEqual(line["classes"], ["Car", "Pedestrian", "Cyclist"])
            reply = self.daemon.post(f"/v1/detect?{query}", body)
            self.assertEqual(check.same_tensors(check.parse_by_hand(reply.body)[0], self.tensors), [])
            self.assertEqual(list(self.tensors), DEFAULT)
            self.assertGreater(len(self.tensors["boxes"]), 3)

    def test_every_output(self):
        outputs = ["box_indices", "bev_features", *models.MAPS]
        self.assertEqual(self.detect(f"model=random&outputs={','.join(outputs)}", scan(500).tobytes())["status"], "OK")
        self.assertEqual(sorted(self.tensors), sorted(outputs))

    def test_tracks_of_a_stream(self):
        self.addCleanup(self.daemon.request, "DELETE", "/v1/streams/c")
        asked = "model=random&stream=c&track=yes&pose=0,0,0,1,0,0,0&time="
        for time in "12":
            self.assertEqual(self.detect(asked + time, scan(2000).tobytes())["status"], "OK")
            count = len(self.tensors["boxes"])
            self.assertEqual((list(self.tensors), count > 3), ([*DEFAULT, "track_ids"], True))
            self.assertEqual(self.tensors["track_ids"].tolist(), list(range(1, count + 1)))

    def test_features_of_a_backbone(self):
        body = scan(500).tobytes()
        line = self.call(url_of(self.daemon), "-K", query="model=sparse", body=body)
        self.assertEqual((line["status"], line["error"], line["received"]), ("OK", "", 500))
        reply = self.daemon.post("/v1/backbone?model=sparse", body)
        self.assertEqual(check.same_tensors(check.parse_by_hand(reply.body)[0], self.tensors), [])
        self.assertEqual(list(self.tensors), ["sparse_coords", "sparse_features"])

    def test_refusals(self):
        line = self.detect("model=other", scan(5).tobytes())
        self.assertEqual((line["status"], line["problem"]["parameter"], line["classes"]), ("REFUSED", "model", []))


@unittest.skipUnless(models.library(), "there is no onnxruntime for this Python")
class DetectReally(Detect):
    REAL = True
    test_features_of_a_backbone = None  # the stand-in alone has the network of this model


if __name__ == "__main__":
    unittest.main()
