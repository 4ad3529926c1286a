"""The CPU image, built from docker/Dockerfile and run without privileges on a read-only root file system.

The image is built on Debian 13: its compiler, libc, libmicrohttpd, GnuTLS and jansson are not those of Debian 12, which
the other tests use. With RELEASE_SUITE=bookworm, it is built on Debian 12.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from client import HEAVY, VOXELIZE, Crowd, Daemon, heavy_jobs, heavy_rows, rows, wait_until
from daemon import ROOT, SCAN, voxeld_binary
from image import Buildah, Container, Image, check_tools, output

ROWS = {"bookworm": "", "trixie": " on Debian 13"}  # of the page's table

# Tests whose results depend on the compiler, or on the libraries for HTTP, TLS, JSON and compression.
OF_LIBRARIES = ("http/test_endpoints", "http/test_errors", "http/test_framing",
                "fault/test_encodings", "fault/test_framing", "fault/test_tls")  # fmt: skip


class FromImage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.image = image

    def refused(self, *args, env=None, mounts=()):
        """The log of a container that must end with status 2."""
        with self.assertRaises(RuntimeError) as refused:
            Container(self.image, *args, env=env, mounts=mounts)
        self.assertIn("voxeld ended with 2 ", str(refused.exception))
        return str(refused.exception)

    def file(self, text):
        """A file with this text, which all may read."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name) / "file"
        path.write_text(text, encoding="utf-8")
        path.chmod(0o644)
        return path


class Description(FromImage):
    def test_how_it_is_run(self):
        config = self.image.config
        self.assertRegex(config["User"], r"^[1-9]\d*:[1-9]\d*$")  # runAsNonRoot of Kubernetes needs numbers
        self.assertEqual(config["Entrypoint"], ["/usr/bin/voxeld"])
        self.assertFalse(config["Cmd"])
        self.assertEqual(config["StopSignal"], "SIGTERM")
        self.assertEqual(list(config["ExposedPorts"]), ["8080/tcp"])
        self.assertEqual(config["Healthcheck"]["Test"], ["CMD", "/usr/bin/voxeld", "--probe"])
        self.assertFalse(config.get("Volumes"))

    def test_labels(self):
        labels = self.image.config["Labels"]
        version = re.search(r"project\(voxeld VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text())[1]
        self.assertEqual(labels["org.opencontainers.image.title"], "voxeld")
        self.assertEqual(labels["org.opencontainers.image.version"], version)
        self.assertEqual(labels["org.opencontainers.image.licenses"], "Apache-2.0")
        self.assertEqual(labels["org.opencontainers.image.revision"], "abcdef")
        self.assertTrue(labels["org.opencontainers.image.description"])

    def test_nothing_to_build_or_fetch_with_is_in_it(self):
        for tool in "cc gcc g++ ld make cmake ninja nvcc python3 pip curl wget sudo".split():
            for folder in ("usr/bin", "usr/local/bin", "usr/sbin"):
                with self.subTest(f"{folder}/{tool}"):
                    self.assertFalse((self.image.root / folder / tool).exists())
        for path in ("voxeld", "build", "image", "usr/include/voxeld_client.h", "usr/share/doc/voxeld",
                     "usr/lib/systemd/system/voxeld.service"):  # fmt: skip
            with self.subTest(path):
                self.assertFalse((self.image.root / path).exists())

    def test_it_is_as_small_as_the_page_says(self):
        page = (ROOT / "docs/operate/containers.md").read_text(encoding="utf-8")
        told = float(re.search(rf"^\| `voxeld:cpu`{ROWS[buildah.suite]} \| ([\d.]+) MB \|", page, re.MULTILINE)[1])
        size, unit = re.fullmatch(r"([\d.]+) (MB|GB)", self.image.size).groups()
        self.assertAlmostEqual(float(size) * {"MB": 1, "GB": 1000}[unit], told, delta=told / 5)


class Service(FromImage):
    def test_the_same_bytes_as_the_build(self):
        scan = pathlib.Path(self.file(""))
        output(SCAN, "--output", str(scan))
        with Container(self.image) as container, Daemon() as daemon:
            for query in ("voxelize?preset=kitti_second", "voxelize?preset=kitti_pointpillar", "fps?num_samples=99"):
                with self.subTest(query):
                    answers = [each.post("/v1/" + query, scan.read_bytes()) for each in (container, daemon)]
                    self.assertEqual([answer.status for answer in answers], [200, 200])
                    self.assertEqual(*(answer.tensors() for answer in answers))

    def test_without_privileges_as_process_1_on_a_root_that_cannot_be_written(self):
        with Container(self.image) as container:
            process = pathlib.Path(f"/proc/{container.pid()}")
            status = dict(line.split(":\t", 1) for line in (process / "status").read_text().splitlines())
            self.assertEqual(status["Uid"].split(), [self.image.config["User"].partition(":")[0]] * 4)
            self.assertEqual(status["NSpid"].split()[-1], "1")
            self.assertEqual(status["NoNewPrivs"], "1")
            for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
                self.assertEqual(int(status[kind], 16), 0, kind)
            mounts = [line.split() for line in (process / "mountinfo").read_text().splitlines()]
            self.assertIn("ro", next(fields[5] for fields in mounts if fields[4] == "/").split(","))
            self.assertEqual(container.run("/usr/bin/touch", "/tmp/x").returncode, 1)

    def test_any_user_may_run_it(self):
        with Container(self.image, user="1000660000:0") as container:  # as OpenShift does
            self.assertEqual(container.get("/readyz").status, 200)

    def test_the_log_goes_to_stderr(self):
        container = Container(self.image)
        container.stop()
        self.assertIn("msg=stopped exit=0", container.log())


class Libraries(FromImage):
    def test_tests_of_http_and_of_faults_with_the_libraries_of_the_image(self):
        """The daemon of the image runs beside the host's files, but with the image's loader and libraries."""
        (loader,) = self.image.root.glob("usr/lib/*/ld-linux-*")
        command = f"{loader} --library-path {loader.parent} {self.image.root}/usr/bin/voxeld"
        program = self.file(f'#!/bin/sh\nexec {command} "$@"\n')
        program.chmod(0o755)
        for name in OF_LIBRARIES:
            with self.subTest(name):
                command = (sys.executable, ROOT / "tests" / f"{name}.py")
                done = subprocess.run(
                    command, env={**os.environ, "VOXELD_BIN": str(program)}, stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT, text=True,
                )  # fmt: skip
                self.assertEqual(done.returncode, 0, done.stdout)


class Configuration(FromImage):
    def workers(self, container):
        return container.status()["workers"]["count"]

    def test_the_environment(self):
        env = {"VOXELD_WORKERS": "3", "VOXELD_LISTEN": "127.0.0.1:0", "VOXELD_LOG_FORMAT": "logfmt"}
        with Container(self.image, env=env) as container:
            self.assertEqual(self.workers(container), 3)

    def test_a_file_laid_over_the_one_in_the_image(self):
        mount = f"{self.file(json.dumps({'workers': 4}))}:/etc/voxeld/voxeld.json"
        with Container(self.image, mounts=[mount]) as container:
            self.assertEqual(self.workers(container), 4)
        env = {"VOXELD_WORKERS": "2", "VOXELD_LISTEN": "127.0.0.1:0"}
        with Container(self.image, mounts=[mount], env=env) as container:
            self.assertEqual(self.workers(container), 2)

    def test_arguments(self):
        with Container(self.image, "--workers", "5") as container:
            self.assertEqual(self.workers(container), 5)

    def test_a_file_that_is_not_there_or_not_sound_is_refused_with_the_reason(self):
        self.assertIn("/etc/voxeld/other.json", self.refused(env={"VOXELD_CONFIG": "/etc/voxeld/other.json"}))
        mount = str(self.file('{"wrkers": 4}')) + ":/etc/voxeld/voxeld.json"
        self.assertIn("there is no option 'wrkers'", self.refused(mounts=[mount]))

    def test_nobody_is_served_who_is_not_known_unless_it_is_said(self):
        self.assertIn("--allow-anonymous", self.refused(env={}))

    def test_a_token(self):
        made = subprocess.run((voxeld_binary(), "--new-token", "lidar"), check=True, capture_output=True, text=True)
        mount = f"{self.file(made.stderr)}:/run/tokens"
        env = {"VOXELD_LISTEN": "0.0.0.0:0", "VOXELD_TOKEN_FILE": "/run/tokens"}
        headers = {"Authorization": f"Bearer {made.stdout.strip()}"}
        with Container(self.image, mounts=[mount], env=env, headers=headers) as container:
            self.assertEqual(container.post(VOXELIZE, rows(4)).status, 200)
            self.assertEqual(container.get("/v1/status", {"Authorization": "Bearer other"}).status, 401)


class Health(FromImage):
    def test_probe_inside(self):
        with Container(self.image) as container:
            command = self.image.config["Healthcheck"]["Test"][1:]
            asked = container.run(*command, VOXELD_PAGES_LISTEN="%s:%d" % container.pages)
            self.assertEqual((asked.returncode, asked.stderr), (0, ""))
            asked = container.run(*command, VOXELD_PAGES_LISTEN="127.0.0.1:1")
            self.assertEqual(asked.returncode, 1)
            self.assertIn("Connection refused", asked.stderr)


class Stop(FromImage):
    ENV = {"VOXELD_LISTEN": "127.0.0.1:0", "VOXELD_WORKERS": "1", "VOXELD_DRAIN_TIMEOUT_S": "120"}

    def loaded(self, seconds):
        """A container whose one worker has about `seconds` of work, and the crowd that waits for it."""
        body, container = heavy_rows(), Container(self.image, env=self.ENV)
        self.addCleanup(lambda: container.process.poll() is None and container.kill())
        number = heavy_jobs(container, body, seconds)
        crowd = Crowd(container, number, HEAVY, body)
        wait_until(lambda: container.status()["queue"]["depth"] >= 2 or not crowd.waiting(), "jobs that wait")
        return container, crowd

    def test_what_was_accepted_is_answered(self):
        container, crowd = self.loaded(1)
        accepted = container.status()["queue"]["depth"]
        self.assertGreater(accepted, 0)
        container.terminate()
        statuses = [reply.status for reply in crowd.join() if reply]
        self.assertEqual(container.wait(), 0, container.log())
        self.assertLessEqual(set(statuses), {200, 503})
        self.assertGreaterEqual(statuses.count(200), accepted)

    def test_a_second_signal_ends_process_1_at_once(self):
        for seconds in (2, 4, 8):
            container, crowd = self.loaded(seconds)
            pid = container.pid()
            container.terminate()
            wait_until(lambda: "msg=draining" in container.log(), "the first signal taken")
            os.kill(pid, signal.SIGTERM)
            status = container.wait()
            crowd.join()
            if status:
                break
        self.assertEqual(status, 128 + signal.SIGTERM)


if __name__ == "__main__":
    check_tools()
    buildah = Buildah(os.environ.get("RELEASE_SUITE", "trixie"))
    image = Image(buildah, buildah.build("cpu", "--build-arg", "REVISION=abcdef"))
    print(f"the image has {image.size}")
    try:
        unittest.main()
    finally:
        image.close()
