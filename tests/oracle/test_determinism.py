"""The same bytes every time: one request again and again, and from many clients at once."""

import concurrent.futures
import unittest

import numpy as np

import check
import clouds

REPEATS = 50
CLIENTS = 16
CROWDED = {"num_features": "4", "point_cloud_range": "-10,-10,-2,10,10,2", "voxel_size": "0.5,0.5,4"}
REQUESTS = {
    "crowded cells over every cap": CROWDED
    | {
        "feature": "points,mean,pillar",
        "max_points_per_voxel": "5",
        "max_voxels": "300",
        "outputs": ",".join(check.oracle.TENSORS),
    },
    "ascending keys, half precision": CROWDED | {"feature": "pillar,mean", "feature_dtype": "float16", "order": "key"},
    "no cap": CROWDED | {"max_points_per_voxel": "0", "order": "key", "num_features": "5"},
    "sparse": CROWDED | {"voxel_size": "0.01,0.01,0.01", "feature": "points", "max_points_per_voxel": "2"},
    "block filter in a batch": CROWDED
    | {
        "feature": "points,mean",
        "block_filter": "2,4,0.5,3.9",
        "voxel_size": "0.2,0.2,0.2",
        "point_counts": "9000,0,11000",
    },
    "farthest points of a batch": {
        "point_counts": "9000,1,10999",
        "num_samples": "300,1,200",
        "start": "0",
        "outputs": ",".join(check.samples.TENSORS),
    },
    "farthest voxels": CROWDED | {"fps": "250", "start": "17", "feature_dtype": "float16"},
}


class Determinism(check.OracleCase):
    def requests(self):
        for number, (what, query) in enumerate(REQUESTS.items()):
            rng = np.random.default_rng(number)
            body = clouds.random_body(rng, {"dtype": "float32"} | CROWDED | query, 20000, "uniform")
            yield what, check.path_of(query), query, body, self.check(query, body, what=what).tensors

    def assert_same(self, what, path, query, body, expected, reply):
        self.assertEqual(reply.status, 200, reply)
        problems = check.same_tensors(expected, check.parse_by_hand(reply.body)[0])
        if problems:
            self.fail_with(what, path, body, problems)

    def test_one_client_again_and_again(self):
        for what, path, query, body, expected in self.requests():
            connection = self.daemon.connection()
            for repeat in range(REPEATS):
                reply = self.daemon.post(path, body, connection=connection)
                self.assert_same(f"{what}, repeat {repeat}", path, query, body, expected, reply)
            connection.close()

    def test_many_clients_at_once(self):
        work = list(self.requests())

        def client(number):
            connection = self.daemon.connection()
            for turn in range(2 * len(work)):
                # Each client has its own order, so that different requests follow each other on a worker.
                what, path, query, body, expected = work[(number + turn * (1 + number % 4)) % len(work)]
                reply = self.daemon.post(path, body, connection=connection)
                self.assert_same(f"{what}, client {number}", path, query, body, expected, reply)
            connection.close()

        with concurrent.futures.ThreadPoolExecutor(CLIENTS) as clients:
            for done in [clients.submit(client, number) for number in range(CLIENTS)]:
                done.result()


if __name__ == "__main__":
    unittest.main()
