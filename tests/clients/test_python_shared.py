"""Client(shared_memory=True): the same results through shared memory or, failing that, through the socket."""

import contextlib
import os
import pathlib
import socket
import tempfile
import threading
import unittest
import warnings

import numpy as np

import voxeld
from credentials import new_token
from daemon import PATIENCE, Daemon, OneDaemonCase, wait_until
from rude_server import RudeServer, status_document, url_of
from shared import REGIONS, Memory

FOLDER = pathlib.Path("/dev/shm")


def points_of(count=3000, columns=4, kind="<f4"):
    return np.random.default_rng(count).uniform(-9, 9, (count, columns)).astype(kind)


def left():
    return sorted(path.name for path in FOLDER.glob(f"voxeld-py-{os.getpid()}-*"))


def regions(daemon):
    return daemon.get(f"{REGIONS}/status").json()


class Shared(OneDaemonCase):
    ARGS = ("--workers", "2", "--allow-shared-memory")

    def setUp(self):
        warnings.simplefilter("error", voxeld.SharedMemoryWarning)
        self.addCleanup(warnings.resetwarnings)
        self.client = voxeld.Client(url_of(self.daemon), shared_memory=True, retries=0)
        self.addCleanup(self.client.close)
        self.plain = voxeld.Client(url_of(self.daemon))
        self.addCleanup(self.plain.close)

    def same(self, ask):
        result, expected = ask(self.client), ask(self.plain)
        self.assertEqual(list(result), list(expected))
        for name, tensor in expected.items():
            self.assertEqual((result[name].dtype, result[name].shape), (tensor.dtype, tensor.shape), name)
            self.assertEqual(result[name].tobytes(), tensor.tobytes(), name)
        self.assertEqual(result.metadata["points"], expected.metadata["points"])
        return result

    def test_results_are_the_same(self):
        for ask in (
            lambda client: client.voxelize(points_of(), "kitti_second"),
            lambda client: client.voxelize(points_of(kind="<f2"), "kitti_second"),
            lambda client: client.voxelize([points_of(5), points_of(0), points_of(70)], "kitti_second"),
            lambda client: client.voxelize(points_of().tobytes(), "kitti_second"),
            lambda client: client.voxelize(points_of(0), "kitti_second"),
            lambda client: client.voxelize(points_of(), "kitti_second", metadata_only=True),
            lambda client: client.fps(points_of(), 64),
            lambda client: client.transform(points_of(), crop=(-5, -5, -5, 5, 5, 5)),
            lambda client: client.transform(points_of().tobytes()),
        ):
            result = self.same(ask)
            given = result.metadata["parameters"]
            self.assertEqual("points_region" in given, result.metadata["points"]["received"] > 0)
        self.assertEqual(len(regions(self.daemon)), 1)  # all requests use one region, one after the other

    def test_files_are_the_same(self):
        for kind in ("application/vnd.safetensors", "application/x-npz", "application/x-mcap"):
            asked = ("voxelize", points_of(), kind)
            file, expected = (client.file_bytes(*asked, preset="kitti_second") for client in (self.client, self.plain))
            if kind.endswith("safetensors"):
                (got, told), (want, _) = (voxeld.tensors.parse(body) for body in (file, expected))
                self.assertEqual({n: t.tobytes() for n, t in got.items()}, {n: t.tobytes() for n, t in want.items()})
                self.assertIn("points_region", told["parameters"])
            else:
                self.assertEqual(file[:4].tobytes(), expected[:4].tobytes(), kind)
        self.assertEqual(len(regions(self.daemon)), 1)

    def test_a_result_outlives_the_next_ones(self):
        first = self.client.voxelize(points_of(), "kitti_second")
        before = {name: tensor.tobytes() for name, tensor in first.items()}
        for count in (1, 5000, 3000):
            self.client.voxelize(points_of(count), "kitti_second")
        self.client.close()
        self.assertEqual({name: tensor.tobytes() for name, tensor in first.items()}, before)
        self.assertTrue(all(tensor.ctypes.data % 64 == 0 and tensor.flags.writeable for tensor in first.values()))

    def test_large_points(self):
        self.same(lambda client: client.transform(points_of(1_500_000)))
        with Daemon("--allow-shared-memory", "--max-body-bytes", str(1 << 27)) as daemon:
            with voxeld.Client(url_of(daemon), shared_memory=True) as client:
                result = client.transform(np.zeros((5_000_000, 4), "<f4"), metadata_only=True)
                self.assertEqual(result.metadata["points"]["received"], 5_000_000)

    def test_threads(self):
        points = [points_of(1000 + number) for number in range(8)]
        expected = [self.plain.voxelize(each, "kitti_second")["voxel_coords"].tobytes() for each in points]
        wrong = []

        def work(number):
            for _ in range(20):
                answered = self.client.voxelize(points[number], "kitti_second")["voxel_coords"].tobytes()
                if answered != expected[number]:
                    wrong.append(number)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        self.assertLessEqual(len(regions(self.daemon)), 8)

    def test_nothing_is_left(self):
        files = lambda: len(os.listdir(f"/proc/{self.daemon.pid()}/fd"))
        before, own = files(), len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            with voxeld.Client(url_of(self.daemon), shared_memory=True) as client:
                client.voxelize(points_of(), "kitti_second")
                self.assertEqual((len(regions(self.daemon)), left()), (1, []))
            self.assertEqual(regions(self.daemon), [])
        wait_until(lambda: files() <= before and len(os.listdir("/proc/self/fd")) <= own, "all files to be closed")

    def test_nothing_is_left_by_a_thread_that_still_asks(self):
        """The service does not answer the registration."""

        def ask(client):
            with contextlib.suppress(voxeld.Error, ValueError):  # it is closed meanwhile
                client.voxelize(points_of(), "kitti_second")

        with socket.create_server(("127.0.0.1", 0)) as silent:
            client = voxeld.Client(f"http://127.0.0.1:{silent.getsockname()[1]}", shared_memory=True, timeout=PATIENCE)
            threading.Thread(target=ask, args=(client,), daemon=True).start()
            connection, _ = silent.accept()
            self.addCleanup(connection.close)
            connection.sendall(status_document('{"shared_memory":{"keys":["voxeld"]}}'))
            wait_until(left, "memory with a name")
            client.close()
            self.assertEqual(left(), [])

    def test_a_child_has_memory_of_its_own(self):
        expected = self.same(lambda client: client.voxelize(points_of(), "kitti_second"))["voxel_coords"].tobytes()
        child = os.fork()
        if child == 0:
            result = self.client.voxelize(points_of(), "kitti_second")
            self.client.close()
            os._exit(0 if result["voxel_coords"].tobytes() == expected else 1)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.same(lambda client: client.voxelize(points_of(), "kitti_second"))

    def test_refusals_are_raised(self):
        for _ in range(2):
            with self.assertRaises(voxeld.Problem) as caught:
                self.client.voxelize(points_of(), "kitti_second", max_voxels=0)
            self.assertEqual((caught.exception.status, caught.exception.parameter), (400, "max_voxels"))
        self.same(lambda client: client.voxelize(points_of(), "kitti_second"))
        self.assertEqual(len(regions(self.daemon)), 1)

    def test_regions_that_are_lost_are_replaced(self):
        self.client.voxelize(points_of(), "kitti_second")
        self.daemon.post(f"{REGIONS}/unregister")
        result = self.client.voxelize(points_of(), "kitti_second")  # through the socket
        self.assertNotIn("points_region", result.metadata["parameters"])
        self.assertIn("points_region", self.client.voxelize(points_of(), "kitti_second").metadata["parameters"])

    def test_regions_of_processes_that_were_killed_make_room(self):
        for number in range(128):
            with Memory(16, "voxeld") as memory:
                self.assertEqual(memory.register(self.daemon, f"dead-{number}").status, 200)
        shares = lambda: "points_region" in self.client.voxelize(points_of(), "kitti_second").metadata["parameters"]
        wait_until(shares, "points that go through shared memory")


class Otherwise(unittest.TestCase):
    """Without shared memory the client warns, and gets the same results through the socket. An odd answer about keys
    is an error."""

    def told(self, reason, url):
        with self.assertWarnsRegex(voxeld.SharedMemoryWarning, f"points go through the socket: .*{reason}") as caught:
            client = voxeld.Client(url, shared_memory=True)
            client.voxelize(points_of(), "kitti_second")
        self.assertEqual(caught.filename, __file__)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.assertEqual(client.voxelize(points_of(), "kitti_second").metadata["points"]["received"], 3000)
        client.close()
        self.assertEqual(left(), [])

    def test_the_service_allows_none(self):
        with Daemon("--workers", "1") as daemon:
            self.told("--allow-shared-memory", url_of(daemon))

    def test_users(self):
        """Each client has its own keys; a client without a token has none."""
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "tokens")
            made = [new_token(name) for name in ("ann", "anna")]
            path.write_text("".join(line for _, line in made), encoding="utf-8")
            path.chmod(0o600)
            own = ("--token-file", str(path), "--allow-anonymous", "--shared-memory-prefix", "points,voxeld")
            with Daemon("--workers", "1", "--allow-shared-memory", *own) as daemon:
                for token, _ in made:
                    with voxeld.Client(url_of(daemon), token=token, shared_memory=True) as client:
                        result = client.voxelize(points_of(), "kitti_second")
                        self.assertIn("points_region", result.metadata["parameters"])
                self.told("only with clients that show a token", url_of(daemon))

    def test_the_answer_about_keys_is_odd(self):
        for text in ("no JSON", "{}", "[]", '{"shared_memory":{"keys":7}}'):
            with self.subTest(text=text), RudeServer(status_document(text)) as server:
                client = voxeld.Client(url_of(server), shared_memory=True)
                with self.assertRaisesRegex(voxeld.BadAnswer, "how keys begin"):
                    client.voxelize(points_of(), "kitti_second")
                client.close()

    def test_the_service_is_elsewhere(self):
        for url in ("http://192.0.2.1:8080", "https://voxeld.example"):
            with self.assertWarnsRegex(voxeld.SharedMemoryWarning, "is not this machine"):
                voxeld.Client(url, shared_memory=True).close()


if __name__ == "__main__":
    unittest.main()
