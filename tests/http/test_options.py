"""The daemon's options, its start and its end."""

import json
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import unittest

from client import Raw
from daemon import ROOT, Listener, started, voxeld_binary
from http_case import JSON, KITTI, VOXELIZE_SMALL, HttpCase, floats, has_ipv6, message, run_voxeld, scan

ONE = floats(1, 1, 1, 1)
SHIPPED = ROOT / "config" / "voxeld.json"


class OptionsCase(HttpCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def file(self, name, text):
        """Writes a file. Returns its path."""
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text), encoding="utf-8")
        return str(path)

    def presets(self, **presets):
        for name, preset in presets.items():
            self.file(f"presets/{name}.json", preset)
        return str(self.folder / "presets")

    def config(self, text):
        return ("--config", self.file("voxeld.json", text))

    def effective(self, name, *options, env=None):
        return json.loads(run_voxeld(*options, "--print-config", env=env).output)[name]

    def rejected(self, part, *options, env=None):
        """Checks that the daemon ends with status 2 and a reason that contains `part`. Returns the reason."""
        run = run_voxeld(*options, env=env)
        self.assertEqual(run.status, 2, run)
        self.assertIn(part, run.errors)
        return run.errors


class Command(OptionsCase):
    def test_version_prints_the_version_of_the_build(self):
        text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
        version = re.search(r"^project\(voxeld VERSION ([0-9.]+)", text, re.MULTILINE)[1]
        self.assertEqual(run_voxeld("--version"), (0, f"voxeld {version}\n", ""))

    def test_help_names_every_option(self):
        run = run_voxeld("--help")
        self.assertEqual(run.status, 0)
        for option in json.loads(SHIPPED.read_text(encoding="utf-8")):
            if option[0] != "#":
                self.assertIn("--" + option.replace("_", "-"), run.output)

    def test_print_config_can_be_read_back_as_a_configuration_file(self):
        printed = run_voxeld("--workers", "3", "--queue-depth", "9", "--print-config").output
        config = self.config(printed)
        self.assertEqual(self.effective("workers", *config), 3)
        self.assertEqual(run_voxeld(*config, "--print-config").output, printed)

    def test_file_over_default_environment_over_file_command_line_over_environment(self):
        self.assertEqual(self.effective("queue_depth"), 1024)
        config = self.config({"queue_depth": 11, "workers": 4})
        variable = {"VOXELD_QUEUE_DEPTH": "12"}
        self.assertEqual(self.effective("queue_depth", *config), 11)
        self.assertEqual(self.effective("queue_depth", *config, env=variable), 12)
        self.assertEqual(self.effective("queue_depth", *config, "--queue-depth", "13", env=variable), 13)
        self.assertEqual(self.effective("queue_depth", "--queue-depth=13", "=".join(config), env=variable), 13)
        self.assertEqual(self.effective("workers", env={"VOXELD_CONFIG": config[1]}), 4)

    def test_the_shipped_configuration_is_good(self):
        self.assertEqual(run_voxeld("--config", str(SHIPPED), "--check-config").status, 0)

    def test_check_config_says_what_is_wrong_and_fails(self):
        self.rejected("queue_depth", *self.config({"queue_depth": 0}), "--check-config")
        presets = self.presets(mine={"description": "x", "parameters": {"voxel_size": [1, 1]}})
        self.rejected("mine", "--presets-dir", presets, "--check-config")

    def test_bad_option_values_name_the_option_and_what_is_allowed(self):
        self.assertIn("1 to 65536", self.rejected("queue_depth", "--queue-depth", "0"))
        self.rejected("queue_depth", "--queue-depth", "many")
        said = self.rejected("queue_depth", env={"VOXELD_QUEUE_DEPTH": "-1"})
        self.assertIn("VOXELD_QUEUE_DEPTH", said)
        self.rejected("backend", "--backend", "tpu")
        self.rejected("log_level", "--log-level", "loud")
        self.rejected("--queue-deep", "--queue-deep", "5")
        self.rejected("--queue-depth", "--queue-depth")
        self.rejected("serve", "serve")

    def test_bad_listen_addresses_are_refused(self):
        none = ("127.0.0.1", "127.0.0.1:http", "127.0.0.1:65536", "127.0.0.1:-1")
        for listen in (*none, "unix:", "", "::", "nohost.invalid:80"):
            with self.subTest(listen):
                self.rejected("listen", "--listen", listen)

    def test_a_bad_configuration_file_is_refused_with_its_place(self):
        name, check = str(self.folder / "voxeld.json"), "--check-config"
        self.assertIn("line", self.rejected(name, *self.config('{"queue_depth": 5,'), check))
        self.rejected("queue_deep", *self.config({"queue_deep": 5}), check)
        self.rejected(name, *self.config('{"workers": 1, "workers": 2}'), check)
        self.rejected("workers", *self.config({"workers": "two"}), check)
        self.rejected(name, *self.config([]), check)
        self.rejected("nonesuch", "--config", str(self.folder / "nonesuch"), check)

    def test_comments_in_a_configuration_file_are_its_keys_that_begin_with_a_hash(self):
        config = self.config({"# why": "because", "queue_depth": 21})
        self.assertEqual(self.effective("queue_depth", *config), 21)

    def test_backend_cuda_without_cuda_is_refused_with_the_reason(self):
        if run_voxeld("--backend", "cuda", "--check-config").status == 0:
            self.skipTest("this machine has CUDA")
        self.rejected("cuda", "--backend", "cuda", "--listen", "127.0.0.1:0")

    def test_a_presets_directory_that_is_not_there_is_refused(self):
        nonesuch = str(self.folder / "nonesuch")
        self.rejected(nonesuch, "--presets-dir", nonesuch, "--listen", "127.0.0.1:0")

    def test_the_log_warns_of_a_variable_that_looks_like_an_option_and_is_none(self):
        variables = {"VOXELD_WORKER": "3", "VOXELD_WORKERS": "2"}
        run = run_voxeld("--backend", "cpu", "--check-config", env=variables)
        self.assertEqual(run.status, 0)
        said = run.output + run.errors
        warning = 'msg="an environment variable is not an option" variable=VOXELD_WORKER did_you_mean=VOXELD_WORKERS'
        self.assertIn(warning, said)
        self.assertNotIn("variable=VOXELD_WORKERS", said)
        self.assertEqual(run_voxeld("--print-config", env={"VOXELD_WORKER": "3"}).errors, "")


class Service(OptionsCase):
    def test_presets_dir_adds_presets_and_replaces_built_in_ones(self):
        cells = lambda size: {"point_cloud_range": [0, 0, 0, *[size] * 3], "voxel_size": [1, 1, 1]}
        presets = self.presets(
            mine={"description": "Mine", "parameters": cells(4)},
            kitti_second={"description": "Other", "parameters": cells(8)},
        )
        self.file("presets/README.md", "not a preset")
        self.start("--presets-dir", presets)
        grid_of = lambda preset: self.json(self.post(f"/v1/voxelize?preset={preset}", ONE, JSON))["grid_size"]
        self.assertEqual((grid_of("mine"), grid_of("kitti_second")), ([4, 4, 4], [8, 8, 8]))
        self.assertTrue(grid_of("kitti_pointpillar"))

    def test_sigterm_and_sigint_end_an_idle_daemon_with_0(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(number):
                daemon = self.start()
                daemon.process.send_signal(number)
                self.assertEqual(daemon.wait(), 0)

    def test_sigterm_ends_a_daemon_with_an_idle_keep_alive_connection(self):
        daemon = self.start()
        with Raw(daemon) as connection:
            self.ok(connection.send(message("/healthz")).read())
            daemon.stop()

    def test_a_unix_socket_serves_like_a_port(self):
        sock = self.folder / "voxeld.sock"
        daemon = self.start("--listen", f"unix:{sock}")
        self.assertEqual(daemon.listeners, [f"unix:{sock}"])
        self.ok(self.ask("/healthz"))
        self.ok(self.post(VOXELIZE_SMALL, ONE))
        daemon.stop()
        self.assertFalse(sock.exists())

    def test_a_unix_socket_left_behind_by_a_dead_daemon_is_taken_over_a_live_one_is_not(self):
        sock = str(self.folder / "voxeld.sock")
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(sock)
        self.start("--listen", f"unix:{sock}")
        self.rejected(sock, "--listen", f"unix:{sock}")

    def test_a_port_in_use_is_refused_with_the_address(self):
        (address,) = self.start().listeners
        self.rejected(address, "--listen", address)

    @unittest.skipUnless(has_ipv6(), "no IPv6 loopback")
    def test_ipv6_addresses_are_served(self):
        self.start("--listen", "[::1]:0")
        self.ok(self.ask("/healthz"))

    def test_the_bodys_limit_is_that_given(self):
        self.start("--max-body-bytes", "65536")
        self.problem(self.post(KITTI, bytes(65552)), 413, "body-too-large")
        self.ok(self.post(KITTI, bytes(65536)))

    def test_a_small_jobs_answer_over_max_response_bytes_is_refused_and_the_next_one_is_answered(self):
        self.start("--max-response-bytes", "65536", "--small-job-points", "1000")
        grid = "point_cloud_range=0,0,0,1024,4,4&voxel_size=1,1,1&max_points_per_voxel=8&feature=points"
        apart = b"".join(floats(x, 1, 1, 1) for x in range(800))
        self.problem(self.post(f"/v1/voxelize?{grid}", apart), 422, "impossible")
        self.ok(self.post(f"/v1/voxelize?{grid}", apart[:1600]))
        self.assertEqual(self.daemon.status()["small_jobs"], {"points": 1000, "run": 2})

    def test_an_answer_over_max_response_bytes_is_refused_before_it_is_computed(self):
        self.start("--max-response-bytes", "65536")
        reply = self.post("/v1/voxelize?preset=kitti_pointpillar", scan("--points", "20000"))
        self.problem(reply, 422, "impossible")

    def test_demo_serves_and_prints_where_the_page_is(self):
        listen = f"unix:{self.folder / 'socket'},127.0.0.1:0"
        command = [voxeld_binary(), "--demo", "--backend", "cpu", "--listen", listen]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        with started(command, **pipes) as process:
            said = process.stdout.readline()
            page = re.fullmatch(r"open http://(127\.0\.0\.1:\d+)/ in a browser\n", said)
            self.assertTrue(page, said)
            self.daemon = Listener(page[1])
            index = (ROOT / "api" / "web" / "index.html").read_bytes()
            self.assertEqual(self.ok(self.ask("/")).body, index)
            process.terminate()
            self.assertEqual((process.stdout.read(), process.wait()), ("", 0))


if __name__ == "__main__":
    unittest.main()
