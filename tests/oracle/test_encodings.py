"""Encoded bodies and answers give the oracle's tensors, byte for byte."""

import pathlib
import unittest

import numpy as np

import check
import clouds
import codings
import daemon

SCANS = daemon.ROOT.parent / "shared" / "data"
CODERS = {**codings.CODERS, "zstd": codings.zstd}


class Encodings(check.OracleCase):
    def same(self, query, body):
        path = check.path_of(query)
        plain = self.daemon.post(path, body)
        self.assertEqual(plain.status, 200, plain)
        for coding, coder in CODERS.items():
            reply = self.daemon.post(path, coder(body), {"Content-Encoding": coding})
            self.assertEqual(reply.status, 200, reply)
            self.assertTrue(reply.tensors() == plain.tensors(), f"other tensors, {coding} in: {path}")
        for coding in codings.answers():
            headers = {"Content-Encoding": "gzip", "Accept-Encoding": coding}
            reply = self.daemon.post(path, CODERS["gzip"](body), headers)
            if len(plain.body) > 1 << 20:
                self.assertEqual(reply.headers["Content-Encoding"], coding)
            self.assertTrue(codings.decode(reply).tensors() == plain.tensors(), f"other tensors, {coding} out: {path}")

    def test_random(self):
        for seed in range(8000, 8030):
            rng = np.random.default_rng(seed)
            query, points = clouds.random_query(rng), int(rng.choice((0, 1, 65, 3000, 20_000)))
            body = clouds.random_body(rng, query, points, clouds.STYLES[seed % len(clouds.STYLES)])
            with self.subTest(seed=seed):
                self.check(query, body, what=f"seed {seed}")
                self.same(query, body)

    def test_samples_and_moved_points(self):
        body = np.random.default_rng(5).uniform(-9, 9, (3000, 4)).astype("<f4").tobytes()
        for path in ("/v1/fps?num_samples=700", "/v1/transform?crop=-5,-5,-5,5,5,5"):
            plain = self.daemon.post(path, body)
            for coding in codings.answers():
                headers = {"Content-Encoding": "deflate", "Accept-Encoding": coding}
                reply = self.daemon.post(path, CODERS["deflate"](body), headers)
                self.assertEqual(reply.headers["Content-Encoding"], coding)
                self.assertTrue(codings.decode(reply).tensors() == plain.tensors(), path)

    @unittest.skipUnless(pathlib.Path(SCANS).is_dir(), f"no real scans in {SCANS}")
    def test_real_scans(self):
        for preset, scan in (
            ("kitti_second", "kitti_raw_00"),
            ("kitti_pointpillar", "kitti_fov_0"),
            ("nuscenes_pointpillar", "nuscenes_10sweeps"),
            ("waymo_centerpoint", "nuscenes_sweep"),
        ):
            with self.subTest(scan):
                self.same({"preset": preset}, (SCANS / f"{scan}.bin").read_bytes())


if __name__ == "__main__":
    unittest.main()
