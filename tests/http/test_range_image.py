"""POST /v1/range_image: answers, presets, refusals. tests/oracle compares every byte."""

import math
import unittest

from client import counters
from http_case import JSON, SharedDaemonCase, floats

# x, y, z, intensity. Two points ahead, one to the left, one that is not finite, one straight up.
POINTS = floats(3, 0, 1, 7, 2, 0, 1, 8, 0, 4, -1, 9, math.nan, 0, 0, 0, 0, 0, 5, 6)
VIEW = "height=2&width=8&fov_up=45&fov_down=-45"


class RangeImage(SharedDaemonCase):
    def image(self, query, body=POINTS, *lines):
        return self.post(f"/v1/range_image?{query}", body, *lines)

    def refused(self, query, status, parameter, reason, body=POINTS):
        kind = "bad-parameter" if status == 400 else "impossible"
        self.problem(self.image(query, body), status, kind, parameter, reason)

    def test_a_pixel_keeps_the_nearest_point_and_each_point_has_one_fate(self):
        reply = self.image(f"{VIEW}&outside=drop&channels=range,intensity")
        answer = self.tensors(reply)
        shapes = {
            "range_image": ("F32", [1, 2, 2, 8]),
            "range_indices": ("I32", [1, 2, 8]),
            "range_mask": ("U8", [1, 2, 8]),
            "point_pixels": ("I32", [5, 2]),
        }
        self.assertEqual(answer.shapes, shapes)
        self.assertEqual([i for i in answer.values("range_indices") if i >= 0], [1, 2])
        self.assertEqual(answer.values("point_pixels"), (0, 4, 0, 4, 1, 2, -1, -1, -1, -1))
        self.assertEqual(answer.values("range_image")[16 + 4], 8)
        metadata = answer.metadata
        fates = {"received": 5, "kept": 2, "not_finite": 1, "occluded": 1, "outside_image": 1}
        self.assertEqual(metadata["points"], fates)
        self.assertEqual(metadata["batch"], {"size": 1, "points": [5], "kept": [2]})
        self.assertEqual(metadata["parameters"]["channels"], ["range", "intensity"])
        stages = {"copy_in", "copy_out", "queue", "receive", "project", "total"}
        self.assertEqual(set(metadata["timing_us"]), stages)
        self.assertIn("project;dur=", reply.headers["Server-Timing"])

    def test_the_counts_alone_and_in_the_metrics(self):
        def occluded():
            return counters(self.daemon, "voxeld_points_total")['fate="occluded"']

        before = occluded()
        metadata = self.image(f"{VIEW}&winner=last", POINTS, JSON).json()
        self.assertEqual(metadata["points"]["occluded"], 2)
        self.assertEqual(occluded(), before + 2)

    def test_a_preset_and_the_query_over_it(self):
        answer = self.tensors(self.image("preset=semantickitti_rangenet"))
        self.assertEqual(answer.shapes["range_image"], ("F32", [1, 5, 64, 2048]))
        self.assertEqual(answer.metadata["parameters"]["stds"], [12.32, 11.47, 6.91, 0.86, 0.16])
        narrow = self.tensors(self.image("preset=semantickitti_rangenet&width=512&channels=range&means=1&stds=2"))
        self.assertEqual(narrow.shapes["range_image"], ("F32", [1, 1, 64, 512]))
        self.assertEqual(narrow.values("range_image")[0], 0)
        frnet = self.tensors(self.image("preset=semantickitti_frnet"))
        self.assertEqual(frnet.shapes["pixel_coords"], ("I32", [2, 3]))

    def test_rings_and_channels_have_names(self):
        query = "height=9&width=1&rows=ring&fields=x,y,z,ring&ring=ring&channels=ring"
        answer = self.tensors(self.image(query))
        self.assertEqual([i for i in answer.values("range_indices")], [1, 0, 4, -1, -1, -1, -1, -1, -1])
        self.assertEqual(answer.metadata["points"]["outside_image"], 1)

    def test_what_is_wrong_is_named(self):
        for query, parameter, reason in (
            ("width=8&fov_up=3&fov_down=-25", "height", "height is missing"),
            ("height=2&width=8&fov_up=3", "fov_down", "fov_down is missing"),
            ("height=2&width=8&fov_up=-25&fov_down=-25", "fov_down", "allowed: fov_down below fov_up"),
            ("height=2&width=8&rows=ring", "ring", "ring is missing"),
            (f"{VIEW}&height=0", "height", "whole number from 1 to 1024"),
            (f"{VIEW}&rows=ring&ring=beam", "ring", "no column named beam; name their columns with fields"),
            (f"{VIEW}&rows=ring&ring=a,b", "ring", "the name of a column"),
            (f"{VIEW}&channels=range,ring&fields=x,y,z,i", "channels", "their columns are x,y,z,i"),
            (f"{VIEW}&channels={'range,' * 16}x", "channels", "1 to 16 names"),
            (f"{VIEW}&means=1,2,3,4", "means", "means has 4 numbers, but the image has 5 channels"),
            (f"{VIEW}&means=1,2,3,4,5", "stds", "stds has 0 numbers"),
            (f"{VIEW}&means=1,2,3,4,5&stds=1,1,1,1,0", "stds", "allowed: above 0"),
            (f"{VIEW}&means={'1,' * 16}1", "means", "a finite number for each channel"),
            (f"{VIEW}&num_features=3", "channels", "no column named intensity"),
            (f"{VIEW}&outputs=points", "outputs", "which needs steps"),
        ):
            with self.subTest(query):
                if query.startswith(VIEW + "&height"):
                    query = query.replace("height=2&", "", 1)
                body = floats(1, 2, 3) if "num_features=3" in query else POINTS
                self.refused(query, 400, parameter, reason, body)

    def test_images_of_more_than_2_to_the_26_pixels_are_refused(self):
        query = "height=1024&width=65536&fov_up=3&fov_down=-25&point_counts=2,3"
        self.refused(query, 422, "width", "more than 2^26 pixels")


if __name__ == "__main__":
    unittest.main()
