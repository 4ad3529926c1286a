"""The command line client: answers as files, resumed runs, errors, signals, ways to the service."""

import fcntl
import json
import os
import pathlib
import pty
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import unittest
import zipfile
from io import BytesIO

import numpy as np
from mcap.reader import make_reader

import files
from check import parse_by_hand
from command_line import ENVIRONMENT, POINTS, PROGRAM, Running, received, run, simulate
from credentials import Authority, TlsDaemon
from daemon import PATIENCE, Daemon, OneDaemonCase, wait_until
from rude_server import RudeServer, problem, token_file, url_of

PRESET = ("--preset", "kitti_second")


def files_below(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def times(folder):
    return {path.name: path.stat().st_mtime_ns for path in folder.glob("*.safetensors")}


# Sends a signal before each line of wait() in turn. The program hangs if the handler needs what wait() holds.
SIGNAL_AT_EACH_LINE = """
import signal, sys
from voxeld.cli.batch import Signals

at = lines = 1
while lines >= at:
    lines = 0

    def trace(frame, event, _):
        global lines
        if event == "line":
            lines += 1
            if lines == at:
                signal.raise_signal(signal.SIGTERM)
        return trace

    with Signals() as signals:
        sys.settrace(trace)
        signals.wait(0.001)
        sys.settrace(None)
        assert signals.came == signals.wait(0) == (lines >= at), at
    at += 1
print(at)
"""


class Commands(OneDaemonCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.scans = self.folder / "scans"
        self.scans.mkdir()
        self.output = self.folder / "out"
        self.service = ("--server", url_of(self.daemon))

    def add(self, *names):
        for name in names:
            simulate(self.scans / name, len(os.listdir(self.scans)) + 1)

    def voxelize(self, *arguments, scans=None, preset=PRESET):
        return run("voxelize", scans or self.scans, *preset, "-o", self.output, *self.service, *arguments)

    def assert_counts(self, done, status, /, **counts):
        self.assertEqual((done.status, done.counts), (status, {"skipped": 0, "failed": 0, **counts}), done)

    # --- answers ---

    def test_many_scans(self):
        """The answers equal those of single requests."""
        self.add(*(f"{number:03}.bin" for number in range(12)))
        self.assert_counts(self.voxelize("--jobs", 8), 0, done=12)
        names = [f"{number:03}.safetensors" for number in range(12)]
        self.assertEqual(files_below(self.output), [*names, "voxeld.json"])
        for scan in self.scans.iterdir():
            plain = self.daemon.post("/v1/voxelize?preset=kitti_second", scan.read_bytes())
            expected, _ = parse_by_hand(plain.body)
            tensors, _ = parse_by_hand((self.output / scan.with_suffix(".safetensors").name).read_bytes())
            self.assertEqual(list(tensors), list(expected))
            for name in expected:
                self.assertEqual(tensors[name].tobytes(), expected[name].tobytes(), (scan, name))

    def test_operations_and_kinds(self):
        self.add("a.bin")
        read = {
            "safetensors": lambda path: set(parse_by_hand(path.read_bytes())[0]),
            "npz": lambda path: {name[:-4] for name in zipfile.ZipFile(path).namelist() if name.endswith(".npy")},
            "mcap": lambda path: min(make_reader(BytesIO(path.read_bytes())).get_summary().channels) and {"points"},
        }
        asked = {
            "voxelize": (PRESET, {"voxel_coords", "voxel_num_points", "voxel_features"}),
            "fps": (("--num-samples", 64), {"sampled_indices", "sampled_points"}),
            "points": ((), {"points", "point_indices"}),
            "transform": (("--cut", "-1,-1,-2,3,1,1", "--outputs", "points"), {"points"}),
        }
        for operation, (given, tensors) in asked.items():
            for kind, names in read.items():
                output = self.folder / f"{operation}-{kind}"
                done = run(operation, self.scans, *given, "-o", output, "--to", kind, *self.service)
                self.assert_counts(done, 0, done=1)
                self.assertEqual(names(output / f"a.{kind}"), {"points"} if kind == "mcap" else tensors)

    def test_reproducible(self):
        """Two runs give the same bytes, with and without shared memory, with any number of workers."""
        self.add("a.bin", "b.bin")

        def files(kind, number, *options):
            output = self.folder / f"{kind}-{number}"
            with Daemon(*options) as daemon:
                terms = ("-o", output, "--to", kind, "--server", url_of(daemon), "--metadata", "stable")
                self.assert_counts(run("voxelize", self.scans, *PRESET, *terms), 0, done=2)
            return {path.name: path.read_bytes() for path in output.iterdir()}

        for kind in ("safetensors", "npz", "mcap"):
            first = files(kind, 1, "--workers", "1")
            self.assertEqual(sorted(first), [f"a.{kind}", f"b.{kind}", "voxeld.json"])
            self.assertEqual(first, files(kind, 2, "--workers", "2", "--allow-shared-memory", "yes"))

    def test_steps(self):
        """The answers equal those of single requests; another run goes on only with the same steps."""
        self.add("a.bin", "b.bin", "c.bin")
        steps = "transform,fine:downsample,radius_outlier"
        given = ("--steps", steps, "--transform.cut", "-1,-1,-2,3,1,1", "--fine.voxel_size", "0.2")
        given += ("--radius-outlier.radius", "1", "--radius-outlier.min-neighbors", "2")
        self.assert_counts(self.voxelize(*given), 0, done=3)
        query = f"steps={steps}&transform.cut=-1,-1,-2,3,1,1&fine.voxel_size=0.2"
        query += "&radius_outlier.radius=1&radius_outlier.min_neighbors=2"
        for scan in self.scans.iterdir():
            plain = self.daemon.post(f"/v1/voxelize?preset=kitti_second&{query}", scan.read_bytes())
            expected, told = parse_by_hand(plain.body)
            tensors, metadata = parse_by_hand((self.output / scan.with_suffix(".safetensors").name).read_bytes())
            self.assertEqual(metadata["steps"], told["steps"])
            self.assertLess(metadata["steps"][1]["kept"], metadata["steps"][1]["in"])
            for name in expected:
                self.assertEqual(tensors[name].tobytes(), expected[name].tobytes(), (scan, name))
        self.assert_counts(self.voxelize(*given), 0, done=0, skipped=3)
        done = self.voxelize(*given[:-1], "3")
        self.assertEqual(done.status, 2)
        self.assertIn("answers of other parameters", done.errors)
        self.output = self.folder / "refused"
        done = self.voxelize("--steps", "downsample", "--downsample.voxel-size", "-1")
        self.assertEqual(done.status, 2)
        self.assertIn("downsample.voxel_size is '-1'", done.errors)

    def test_shared_memory_by_itself(self):
        """Memory is shared where the service allows it; otherwise nothing is printed."""
        self.add("a.bin", "b.bin")

        def shares(daemon, *given):
            done = run(
                "voxelize", self.scans, *PRESET, "-o", self.output, "--server", url_of(daemon), "--force", *given
            )
            self.assert_counts(done, 0, done=2)
            self.assertNotIn("shared", done.errors)
            told = [parse_by_hand(path.read_bytes())[1] for path in self.output.glob("*.safetensors")]
            return ["points_region" in metadata["parameters"] for metadata in told]

        self.assertEqual(shares(self.daemon), [False, False])
        with Daemon("--allow-shared-memory", "--shared-memory-prefix", "mine") as daemon:
            self.assertEqual(shares(daemon), [True, True])
            self.assertEqual(shares(daemon, "--no-shared-memory"), [False, False])

    def test_formats_by_the_end_of_the_name(self):
        points = np.random.default_rng(1).uniform((0, -40, -3, 0), (70, 40, 1, 1), (POINTS, 4)).astype("<f4")
        cloud = files.structured({name: points[:, place] for place, name in enumerate(("x", "y", "z", "intensity"))})
        points.tofile(self.scans / "raw.bin")
        np.save(self.scans / "array.npy", points)
        np.save(self.scans / "half.npy", points.astype(np.float16))
        (self.scans / "one.PCD").write_bytes(files.pcd(cloud))
        (self.scans / "two.ply").write_bytes(files.ply(cloud))
        (self.scans / "three.cdr").write_bytes(files.pointcloud2(cloud))
        (self.scans / "notes.txt").write_text("not a scan")
        (self.scans / ".hidden.bin").write_text("not a scan")
        self.assert_counts(self.voxelize(), 0, done=6)
        for answer in self.output.glob("*.safetensors"):
            self.assertEqual(received(answer), POINTS, answer)

        odd = self.scans / "four.dat"
        odd.write_bytes(files.pcd(cloud))
        done = self.voxelize(scans=odd)
        self.assertEqual(done.status, 2)
        self.assertIn("four.dat is not .bin, .npy, .pcd, .ply, .cdr; --format says", done.errors)
        self.output = self.folder / "told"
        self.assert_counts(self.voxelize("--format", "pcd", scans=odd), 0, done=1)

    def test_folders(self):
        for name in ("00", "01"):
            (self.scans / name).mkdir()
            simulate(self.scans / name / "a.bin", 1)
        both = (self.scans / "00", self.scans / "01")
        done = run("voxelize", *both, *PRESET, "-o", self.output, *self.service)
        self.assertEqual(done.status, 2)
        self.assertIn("--root DIR gives answers the folders", done.errors)
        done = run("voxelize", *both, *PRESET, "-o", self.output, "--root", self.scans, *self.service)
        self.assert_counts(done, 0, done=2)
        self.assertEqual(files_below(self.output), ["00/a.safetensors", "01/a.safetensors", "voxeld.json"])

    def test_warnings_are_summed_up(self):
        self.add("a.bin", "b.bin")
        done = self.voxelize("--max-voxels", 3)
        self.assert_counts(done, 0, done=2)
        self.assertIn("warning max_voxels for 2 of 2 scans, such as: max_voxels=3 was reached", done.errors)

    # --- again ---

    def test_what_is_there_is_skipped(self):
        self.add("a.bin", "b.bin", "c.bin")
        self.assert_counts(self.voxelize(), 0, done=3)
        before = times(self.output)
        self.assert_counts(self.voxelize(), 0, done=0, skipped=3)
        self.assertEqual(times(self.output), before)

        answer = self.output / "b.safetensors"
        os.utime(self.scans / "b.bin", ns=(0, answer.stat().st_mtime_ns + 10**9))  # the scan is newer
        (self.output / "c.safetensors").write_bytes(b"")  # as a system crash leaves it
        self.assert_counts(self.voxelize(), 0, done=2, skipped=1)
        self.assertEqual(received(answer), POINTS)
        os.utime(self.scans / "b.bin")
        self.assert_counts(self.voxelize("--force"), 0, done=3)

    def test_other_parameters_need_another_folder(self):
        self.add("a.bin")
        self.assert_counts(self.voxelize(), 0, done=1)
        self.assert_counts(self.voxelize("--timeout-ms", 5000), 0, done=0, skipped=1)
        done = self.voxelize("--max-voxels", 100)
        self.assertEqual(done.status, 2)
        self.assertIn("has answers of other parameters", done.errors)
        self.assert_counts(self.voxelize("--max-voxels", 100, "--force"), 0, done=1)

    def test_a_folder_without_scans(self):
        (self.scans / "notes.txt").touch()
        done = self.voxelize()
        self.assertEqual(done.status, 1, done)
        self.assertIn(f"{self.scans} has no scans: files that end with .bin", done.errors)

    def test_an_empty_file_is_no_success(self):
        self.add("a.bin")
        (self.scans / "b.bin").touch()
        (self.scans / "c.pcd").touch()
        done = self.voxelize()
        self.assert_counts(done, 1, done=1, failed=2)
        self.assertIn("b.bin: it is empty", done.errors)
        self.assertEqual(files_below(self.output), ["a.safetensors", "voxeld.json"])

    def interrupt(self, number):
        """A run with one job, which gets a signal while it reads the second of three scans, a pipe."""
        self.add("a.bin", "c.bin")
        pipe = self.scans / "b.bin"
        os.mkfifo(pipe)
        with Running("voxelize", self.scans, *PRESET, "-o", self.output, "-j", 1, *self.service) as running:
            wait_until((self.output / "a.safetensors").exists, "the first answer")
            running.signal(number)
            if number != signal.SIGKILL:
                self.assertIn("waiting for the scans in progress", running.process.stderr.readline())
                told = pipe.stat()
                with pipe.open("wb") as file:
                    file.write(bytes(16))  # the current scan has one point
                    file.flush()
                    os.utime(pipe, ns=(told.st_atime_ns, told.st_mtime_ns))
            done = running.end()
        pipe.unlink()
        simulate(pipe, 9)
        return done

    def test_resume_after_a_signal(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number):
                done = self.interrupt(number)
                self.assertEqual(done.status, 128 + number, done.errors)
                self.assertEqual(done.counts, {"done": 2, "skipped": 0, "failed": 0, "not begun": 1}, done.errors)
                self.assertEqual(files_below(self.output), ["a.safetensors", "b.safetensors", "voxeld.json"])
                self.assert_counts(self.voxelize(), 0, done=2, skipped=1)  # b.bin has become newer
                for answer in self.output.glob("*.safetensors"):
                    self.assertEqual(received(answer), POINTS)
                shutil.rmtree(self.scans)
                shutil.rmtree(self.output)
                self.scans.mkdir()

    def test_resume_after_a_kill(self):
        done = self.interrupt(signal.SIGKILL)
        self.assertEqual(done.status, -signal.SIGKILL)
        self.assertEqual(files_below(self.output), ["a.safetensors", "voxeld.json"])
        self.assert_counts(self.voxelize(), 0, done=2, skipped=1)

    def test_a_signal_at_any_moment_of_a_wait(self):
        command = (PROGRAM[0], "-c", SIGNAL_AT_EACH_LINE)
        done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertGreater(int(done.stdout), 3)

    def test_a_scan_that_hangs_does_not_outlast_a_signal(self):
        os.mkfifo(self.scans / "a.bin")
        with Running("voxelize", self.scans, *PRESET, "-o", self.output, *self.service) as running:
            wait_until((self.output / "voxeld.json").exists, "the beginning")
            self.assertEqual(running.end(signal.SIGINT).status, 130)
        self.assertEqual(files_below(self.output), ["voxeld.json"])

    def test_a_scan_that_changes_meanwhile_has_no_answer(self):
        pipe = self.scans / "a.bin"
        os.mkfifo(pipe)
        with Running("voxelize", self.scans, *PRESET, "-o", self.output, *self.service) as running:
            with pipe.open("wb") as file:
                file.write(bytes(16))
                file.flush()
                os.utime(pipe, (1, 1))
            done = running.end()
        self.assert_counts(done, 1, done=0, failed=1)
        self.assertIn("a.bin: it changed before its answer was written", done.errors)
        self.assertEqual(files_below(self.output), ["voxeld.json"])

    # --- errors ---

    def test_errors_are_reported_at_the_end(self):
        self.add("a.bin", "z.bin")
        (self.scans / "b.bin").write_bytes(b"\x1b[31m not whole rows")
        (self.scans / "c.pcd").write_bytes(b"\x1b[31m no PCD file")
        (self.scans / "d.npy").write_bytes(b"\x93NUMPY")
        np.save(self.scans / "e.npy", np.zeros((3, 4)))
        (self.scans / "f.bin").symlink_to("nowhere")
        done = self.voxelize()
        self.assert_counts(done, 1, done=2, failed=5)
        failed = [line for line in done.errors.splitlines() if line.startswith("failed ")]
        for name, reason, line in zip(
            ("b.bin", "c.pcd", "d.npy", "e.npy", "f.bin"),
            ("400 bad-body", "400 bad-body", "", "float64", "No such file or directory"),
            failed,
        ):
            self.assertTrue(line.startswith(f"failed {self.scans / name}: "), line)
            self.assertIn(reason, line)
        self.assertNotIn("\x1b", done.errors)
        self.assertEqual(files_below(self.output), ["a.safetensors", "voxeld.json", "z.safetensors"])

    def test_many_errors_are_counted(self):
        for number in range(25):
            (self.scans / f"{number}.bin").write_bytes(b"no")
        done = self.voxelize()
        self.assert_counts(done, 1, done=0, failed=25)
        self.assertEqual(sum(line.startswith("failed ") for line in done.errors.splitlines()), 20)
        self.assertIn("\nfailed: 5 more\n", done.errors)

    def test_wrong_usage_ends_before_the_first_scan(self):
        self.add("a.bin")
        for given, reason in (
            (("--preset", "nobody"), "400 bad-parameter: preset is 'nobody'"),
            ((*PRESET, "--max-voxels", "0"), "max_voxels is '0'; allowed: a whole number from 1 to 16777216"),
            ((*PRESET, "-p", "voxel=1"), "400 bad-parameter"),
            ((*PRESET, "--max-voxels", "1", "-p", "max_voxels=2"), "max_voxels is given twice"),
            ((*PRESET, "--max-voxel", "1"), "voxelize has no option --max-voxel; did you mean --max-voxels?"),
            ((*PRESET, "--metadat=stable"), "voxelize has no option --metadat; did you mean --metadata?"),
            ((*PRESET, "--qqq"), "voxelize has no option --qqq; voxeld-client voxelize --help lists the options"),
            ((*PRESET, "--steps", "far:transform", "--far.distanse", "1,2"), "(did you mean 'distance'?)"),
            ((*PRESET, "--jobs", "0"), "'0' is not a whole number from 1 to 256"),
            ((*PRESET, "--root", "/nowhere"), "is not below --root /nowhere"),
            ((*PRESET, "--key", "key.pem"), "--key needs --cert"),
            ((*PRESET, "--token-file", "/nowhere"), "No such file"),
            ((*PRESET, "--server", "localhost"), "localhost"),
        ):
            done = self.voxelize(*given, preset=())
            self.assertEqual(done.status, 2, (given, done))
            self.assertIn(reason, done.errors)
            self.assertFalse(self.output.exists(), given)
        self.assertEqual(self.voxelize(scans=self.scans / "b.bin").status, 2)

    def test_answers_that_cannot_be_written_end_the_run(self):
        self.add("a.bin", "b.bin")
        command = [*PROGRAM, "voxelize", self.scans, *PRESET, "-o", self.output, *self.service]
        limited = ["sh", "-c", 'ulimit -f 16; exec "$@"', "sh", *command]  # blocks: less than an answer
        done = subprocess.run(limited, env=ENVIRONMENT, capture_output=True, text=True, timeout=PATIENCE)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, "stopped: cannot write .*: File too large; the same command goes on from here")
        self.assertEqual(files_below(self.output), ["voxeld.json"])
        self.assert_counts(self.voxelize(), 0, done=2)

    # --- the service ---

    def test_no_service(self):
        self.add("a.bin")
        done = self.voxelize("--server", f"unix:{self.folder}/none", "--retries", 0)
        self.assertEqual(done.status, 1)
        self.assertIn(f"no answer from unix:{self.folder}/none: nobody listens there; `voxeld --listen", done.errors)
        self.assertFalse(self.output.exists())

    def test_a_service_that_goes_ends_the_run(self):
        self.add("a.bin", "c.bin")
        os.mkfifo(self.scans / "b.bin")
        with Daemon() as other:
            given = ("--server", url_of(other), "--retries", 0, "-j", 1)
            with Running("voxelize", self.scans, *PRESET, "-o", self.output, *given) as running:
                wait_until((self.output / "a.safetensors").exists, "the first answer")
                other.stop()
                (self.scans / "b.bin").open("wb").close()
                done = running.end()
        self.assertEqual(done.status, 1)
        self.assertIn("the service does not answer any more", done.errors)
        self.assertIn("the same command goes on from here", done.errors)

    def test_superseded_scans_are_counted_apart(self):
        self.add("a.bin", "b.bin")
        with RudeServer(problem(409, type="urn:voxeld:problem:superseded")) as rude:
            done = self.voxelize("--server", url_of(rude), "--latest", "roof", "--no-shared-memory")
        self.assert_counts(done, 1, done=0, superseded=2)
        asked = ["latest=roof" in head for head in rude.heads]
        self.assertEqual(asked, [False, True, True])  # the first request checks that there is a service
        done = self.voxelize("--latest", "roof")  # the next run asks for both again
        self.assert_counts(done, 0, done=2)

    def test_temporary_errors_are_retried(self):
        self.add("a.bin")
        busy = problem(503, {"Retry-After": "0"})
        with RudeServer(busy) as rude:
            done = self.voxelize("--server", url_of(rude), "--retries", 2)
        self.assertEqual((done.status, len(rude.heads)), (1, 3), done)

    def test_unix_socket_and_token(self):
        self.add("a.bin", "b.bin")
        path = self.folder / "socket"
        token, tokens = token_file(self.folder)
        (self.folder / "token").write_text(f"{token}\n")
        (self.folder / "wrong").write_text("wrong\n")
        given = ("--token-file", str(tokens), "--allow-anonymous", "yes")
        with Daemon("--listen", f"unix:{path},127.0.0.1:0", *given) as daemon:
            for server in (url_of(daemon), f"unix:{path}"):
                self.output = self.folder / server.replace("/", "-")
                done = self.voxelize("--server", server, "--token-file", self.folder / "wrong")
                self.assertEqual(done.status, 1)
                self.assertIn("401 invalid-token", done.errors)
                done = self.voxelize("--server", server, "--token-file", tokens)
                self.assertEqual(done.status, 2)
                self.assertIn("has hashes of tokens", done.errors)
                self.assertFalse(self.output.exists())
                self.assert_counts(self.voxelize("--server", server, "--token-file", self.folder / "token"), 0, done=2)

    def test_tls(self):
        authority = Authority(self.folder, "ca")
        authority.sign("server", "subjectAltName=IP:127.0.0.1", "server")
        authority.sign("robot", "extendedKeyUsage=clientAuth", "robot")
        ca, cert, key = (authority.path(name) for name in ("ca.pem", "robot.pem", "robot.key"))
        with TlsDaemon(self.folder, "--tls-client-ca", ca, client="robot") as daemon:
            given = ("--server", "https://{}:{}".format(*daemon.address), "--cert", cert, "--key", key)
            self.assertEqual(run("status", *given, "--ca", ca).status, 0)
            done = run("status", *given)
            self.assertEqual(done.status, 1)
            self.assertIn("CERTIFICATE_VERIFY_FAILED", done.errors)

    def test_presets_and_status(self):
        shown = run("presets", *self.service)
        names = {preset["name"] for preset in json.loads(run("presets", "--json", *self.service).output)}
        self.assertEqual({line.split()[0] for line in shown.output.splitlines()}, names)
        self.assertIn("kitti_second", names)
        shown = run("presets", "kitti_second", *self.service).output
        self.assertRegex(shown, r"(?m)^parameters\.voxel_size +0\.05,0\.05,0\.1$")
        self.assertEqual(run("presets", "nobody", *self.service).status, 1)
        self.assertEqual(json.loads(run("status", "--json", *self.service).output)["state"], "ready")
        self.assertRegex(run("status", *self.service).output, r"(?m)^state +ready$")

    def test_escapes_in_texts_of_the_service_are_shown_as_text(self):
        terms = {"operation": "fps", "parameters": {"num_samples": 1}, "description": "\x1b[31m red\nsecond line"}
        (self.folder / "red.json").write_text(json.dumps(terms))
        with Daemon("--presets-dir", str(self.folder)) as daemon:
            for command in (("presets",), ("presets", "red")):
                shown = run(*command, "--server", url_of(daemon)).output
                self.assertIn(r"\x1b[31m red\nsecond line", shown)
                self.assertNotIn("\x1b", shown)

    # --- the terminal ---

    def test_progress(self):
        self.add(*(f"{number}.bin" for number in range(9)))
        (self.scans / "bad.bin").write_bytes(b"no")
        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("4H", 24, 120, 0, 0))
        command = [*PROGRAM, "voxelize", self.scans, *PRESET, "-o", self.output, *self.service]
        process = subprocess.Popen(command, env=ENVIRONMENT, stdin=side, stdout=side, stderr=side)
        os.close(side)
        shown = b""
        try:
            while piece := os.read(main, 1 << 16):
                shown += piece
        except OSError:  # EIO: the other side is closed
            pass
        os.close(main)
        self.assertEqual(process.wait(PATIENCE), 1, shown)
        self.assertRegex(shown.decode(), r"100%.*10/10 .*scans/s, failed=1")


if __name__ == "__main__":
    unittest.main()
