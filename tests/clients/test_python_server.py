"""voxeld.Server: a daemon that belongs to the process."""

import contextlib
import os
import pathlib
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import unittest
import urllib.request
from unittest import mock

import numpy as np

import voxeld
from daemon import BACKEND, voxeld_binary, wait_until
from voxeld import server as module

POINTS = np.zeros((3, 4), np.float32)
# Runs a server in a process of its own, and prints the daemon's process id and URL. With `fork`, a fork of this process
# also prints its own id.
PROGRAM = """
import os, sys, time, voxeld
server = voxeld.Server(program=sys.argv[1])
child = os.fork() if sys.argv[2] == "fork" else 1
if child == 0:
    server.close()  # does nothing here
    os.write(1, f"{os.getpid()}\\n".encode())  # in one piece
else:
    os.write(1, f"{server.pid} {server.url}\\n".encode())
if sys.argv[2] != "end":
    time.sleep(1000)
"""


def serve(*args, **options):
    return voxeld.Server(args=args, **{"program": voxeld_binary(), "backend": BACKEND, **options})


def ended(pid):
    """Whether the process has ended, even if its parent has not asked for the exit status yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def kill_group(pid):
    """Kills what is left of a process and its forks."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)


class Serving(unittest.TestCase):
    def test_the_client_uses_shared_memory(self):
        with serve() as server:
            client = server.client()
            result = client.voxelize(POINTS, "kitti_second")
            self.assertEqual(len(result["voxel_coords"]), 1)
            self.assertIn("points_region", result.metadata["parameters"])
            self.assertIs(server.client(), client)
        with self.assertRaisesRegex(ValueError, "closed"):
            client.status()

    def test_no_memory_is_shared_if_the_options_forbid_it(self):
        with serve(allow_shared_memory=False) as server:
            result = server.client().voxelize(POINTS, "kitti_second")
            self.assertNotIn("points_region", result.metadata["parameters"])
        with serve(allow_shared_memory=None) as server:
            result = server.client().voxelize(POINTS, "kitti_second")
            self.assertIn("points_region", result.metadata["parameters"])

    def test_with_tokens_a_client_shows_one(self):
        token = subprocess.run([voxeld_binary(), "--new-token", "ann"], capture_output=True, text=True, check=True)
        with tempfile.NamedTemporaryFile("w", suffix=".tokens") as file:
            file.write(token.stderr)
            file.flush()
            with serve(token_file=file.name) as server:
                with voxeld.Client(server.url, token=token.stdout.strip()) as client:
                    self.assertEqual(client.status()["version"], voxeld.__version__)
                with self.assertRaisesRegex(voxeld.Problem, "401"):
                    server.client().status()

    def test_other_clients_reach_it(self):
        with serve(listen="127.0.0.1:0") as server, voxeld.Client(server.url) as client:
            self.assertTrue(client.ready())
            logged = wait_until(lambda: re.search(r'address="?unix:[^,]*,([0-9.:]+)', server.log), "the address")
            with urllib.request.urlopen(f"http://{logged[1]}/healthz") as answer:
                self.assertEqual(answer.status, 200)

    def test_only_this_user_enters_its_folder(self):
        with serve() as server:
            folder = pathlib.Path(server.url[len("unix:") :]).parent
            self.assertEqual(folder.stat().st_mode & 0o777, 0o700)
        self.assertFalse(folder.exists())

    def test_options_are_keywords_or_arguments(self):
        with mock.patch.dict(os.environ, VOXELD_WORKERS="5", VOXELD_LONG_WORKERS="5"):
            with serve("--workers", "7", "--long-workers=4", "--access-log", "all", workers=3, devices=None) as server:
                status = server.client().status()
                counts = [status[name]["count"] for name in ("workers", "long_workers")]
                self.assertEqual(counts, [3, 4])
                wait_until(lambda: "/v1/status" in server.log, "the line of a request in the log")

    def test_a_sequence_is_joined_by_commas(self):
        with serve(shared_memory_prefix=["one", "two"]) as server:
            self.assertEqual(server.client().status()["shared_memory"]["keys"], ["one", "two"])


class Starting(unittest.TestCase):
    def refused(self, part, *args, **options):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(tempfile, "tempdir", folder):
            with self.assertRaisesRegex(voxeld.ServerError, part) as caught:
                serve(*args, **options)
            self.assertEqual(os.listdir(folder), [])
        return caught.exception

    def test_the_error_has_the_reason_of_the_daemon(self):
        self.refused("^voxeld did not start: command line: workers is '-1'", workers=-1)
        self.refused("^voxeld did not start: there is no option '--no-such=1'", no_such=1)
        self.refused("^voxeld did not start: exit status 0$", "--version")
        error = self.refused("No such file or directory", presets_dir="/no/such/folder", log_level="debug")
        self.assertIn("presets directory /no/such/folder", error.log)
        again = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(again), again.log), (str(error), error.log))

    def test_a_program_that_cannot_run(self):
        self.refused("No such file", program="/no/such/program")
        self.refused("Permission denied", program="/etc/passwd")

    def test_a_program_that_never_serves(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "voxeld")
            program.write_text("#!/bin/sh\necho starting >&2\nexec cat\n")
            program.chmod(0o755)
            self.refused("takes no requests after 0.2 seconds", program=str(program), start_timeout=0.2)

    def test_a_path_that_is_too_long_for_a_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            long = pathlib.Path(folder, "x" * 100)
            long.mkdir()
            with mock.patch.object(tempfile, "tempdir", str(long)), self.assertRaisesRegex(voxeld.ServerError, "unix:"):
                serve()

    def test_the_program_is_that_of_the_wheel_or_of_the_path(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "voxeld")
            program.write_text("#!/bin/sh\n")
            program.chmod(0o755)
            with mock.patch.dict(os.environ, PATH=folder), mock.patch.dict(sys.modules, voxeld_server=None):
                self.assertEqual(module.find_program(), str(program))
            with mock.patch.dict(sys.modules, voxeld_server=mock.Mock(PROGRAM="/wheel/voxeld")):
                self.assertEqual(module.find_program(), "/wheel/voxeld")
            program.unlink()
            with mock.patch.dict(os.environ, PATH=folder), mock.patch.dict(sys.modules, voxeld_server=None):
                with self.assertRaisesRegex(voxeld.ServerError, "install the wheel voxeld_server"):
                    voxeld.Server()


class Ending(unittest.TestCase):
    def run_process(self, how):
        folder = self.enterContext(tempfile.TemporaryDirectory())  # a killed process leaves its folder in this one
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, voxeld_binary(), how],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "TMPDIR": folder},
            start_new_session=True,
        )
        self.addCleanup(process.wait)
        self.addCleanup(kill_group, process.pid)
        self.addCleanup(process.stdout.close)
        return process

    def test_with_the_process_that_is_killed(self):
        process = self.run_process("stay")
        pid = process.stdout.readline().split()[0]
        self.assertFalse(ended(pid))
        process.kill()
        wait_until(lambda: ended(pid), "the end of the daemon")

    def test_with_the_process_although_a_fork_of_it_lives(self):
        process = self.run_process("fork")
        lines = sorted((process.stdout.readline().split() for _ in range(2)), key=len)
        child, daemon = (int(words[0]) for words in lines)
        self.assertFalse(ended(daemon))  # the child has closed its server
        process.kill()
        wait_until(lambda: ended(daemon), "the end of the daemon")
        self.assertFalse(ended(child))

    def test_with_a_process_that_closes_nothing(self):
        process = self.run_process("end")
        pid, url = process.stdout.readline().split()
        self.assertEqual(process.wait(), 0)
        wait_until(lambda: ended(pid), "the end of the daemon")
        self.assertFalse(pathlib.Path(url[len("unix:") :]).parent.exists())

    def test_close_answers_what_was_accepted_and_may_be_called_again(self):
        server = serve()
        server.close()
        self.assertTrue(ended(server.pid))
        self.assertIn("msg=stopped exit=0", server.log)
        server.close()

    def test_a_daemon_that_does_not_end_is_killed(self):
        server = serve(drain_delay_s=1000)
        server.close(timeout=0)
        self.assertTrue(ended(server.pid))

    def test_ctrl_c_is_not_for_the_daemon(self):
        with serve() as server:
            self.assertNotEqual(os.getpgid(server.pid), os.getpgid(0))


if __name__ == "__main__":
    unittest.main()
