"""The page at / in a browser: it draws what is dropped, asks again after a change, and shows why it was refused."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from safetensors.numpy import save

import browser
from credentials import daemon_of
from daemon import wait_until
from tables import meaning, operation_of

RANGE = (0, -40, -3, 70.4, 40, 1)  # of kitti_second
SHOWN = " voxels in "  # in the text of #state, once an answer is shown
PCD = """VERSION 0.7
FIELDS x y z intensity
SIZE 4 4 4 4
TYPE F F F F
COUNT 1 1 1 1
WIDTH {0}
HEIGHT 1
POINTS {0}
DATA ascii
"""


def cloud(points, seed=1):
    low, high = np.array(RANGE[:3] + (0,)), np.array(RANGE[3:] + (1,))
    return np.random.default_rng(seed).uniform(low, high, (points, 4)).astype("<f4")


def setUpModule():
    if browser.why_not():
        raise unittest.SkipTest(browser.why_not())


# What the form leaves out: parameters that the page sets itself, and those of streams.
OWN = ("outputs", "point_counts", "timeout_ms", "points_region", "output_region")
STREAMS = ("stream", "streams", "sweeps", "pose", "poses", "mount", "time", "times", "time_column", "remove_close")


class PageCase(browser.BrowserCase):
    def open(self, state=""):
        self.browser.open(self.daemon, state)
        self.browser.await_text("#state", SHOWN)

    def drop(self, name, points):
        self.browser.drop(**{f"{name}_bin": points.tobytes()})
        self.browser.await_text("#state", f"{name}.bin: ")

    def count(self, name):
        found = re.search(rf"^{name} ([\d,]+)$", self.browser.text("#counts"), re.MULTILINE)
        return found and int(found[1].replace(",", ""))

    def set(self, name, value):
        self.browser.set(f"#parameter-{name}", value)

    def change(self, action):
        """Does something that changes the picture, and returns the new one."""
        before = self.browser.look()
        action()
        return wait_until(lambda: (now := self.browser.look()) != before and now, "another picture")


class Page(PageCase):
    def test_it_opens_with_a_scan_and_breaks_no_rule_of_its_own(self):
        self.open()
        look = self.browser.look()
        self.assertGreater(look["drawn"], 5000)
        self.assertGreater(look["colours"], 20)
        self.assertEqual(self.count("points received"), 112481)
        for part in ("error", "columns", "token"):
            self.assertFalse(self.browser.find(f"#{part}").is_displayed(), part)
        self.assertEqual(self.browser.messages(), [])
        loaded = self.browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        host, port = self.daemon.address
        self.assertGreater(len(loaded), 10)
        self.assertEqual([name for name in loaded if not name.startswith(f"http://{host}:{port}/")], [])

    def test_every_field_has_a_label_and_every_parameter_a_field(self):
        self.open()
        rows = operation_of("voxelize", self.daemon.get("/v1/describe").json())["parameters"]
        for row in rows:
            if row["name"] not in OWN + STREAMS:
                with self.subTest(row["name"]):
                    field = self.browser.find(f"#parameter-{row['name']}")
                    told = self.browser.find("#" + field.get_attribute("aria-describedby"))
                    self.assertEqual(told.get_attribute("textContent"), meaning(row))
        nameless = self.browser.run(
            "return [...document.querySelectorAll('input, select, button, #canvas')].filter((one) =>"
            " !one.labels?.length && !one.textContent.trim() && !one.ariaLabel).map((one) => one.outerHTML)"
        )
        self.assertEqual(nameless, [])

    def test_a_dropped_scan_is_drawn(self):
        self.open("#preset=kitti_second")
        points = cloud(20000)
        look = self.change(lambda: self.drop("mine", points))
        self.assertGreater(look["drawn"], 5000)
        answer = self.daemon.post("/v1/voxelize?preset=kitti_second", points.tobytes(), {"Accept": "application/json"})
        told = answer.json()
        for name in ("received", "kept", "out_of_range"):
            self.assertEqual(self.count(f"points {name.replace('_', ' ')}"), told["points"][name])
        self.assertEqual(self.count("voxels kept"), told["voxels"]["kept"])

    def test_other_formats_are_read_by_the_service(self):
        self.open()
        points = cloud(3000)
        points[7, 0] = np.nan
        lines = "".join(" ".join(map(str, point)) + "\n" for point in points.tolist())
        for ending, header in (("pcd", PCD.format(len(points))), ("ply", self.ply(len(points)))):
            with self.subTest(ending), tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / f"scan.{ending}"
                file.write_text(header + lines, encoding="ascii")
                self.browser.find("#files").send_keys(str(file))
                self.browser.await_text("#state", f"scan.{ending}: 3,000 points")
                self.assertEqual(self.count("points not finite"), 1)
                self.assertGreater(self.browser.look()["drawn"], 1000)
                self.assertIn(f"format={ending}", self.browser.text("#curl"))

    def ply(self, rows):
        columns = "".join(f"property float {name}\n" for name in ("x", "y", "z", "intensity"))
        return f"ply\nformat ascii 1.0\nelement vertex {rows}\n{columns}end_header\n"

    def test_a_changed_parameter_is_asked_for_and_stands_in_the_url(self):
        self.open()
        before = self.count("voxels kept")
        self.change(lambda: self.set("voxel_size", "0.8,0.8,0.5"))
        fewer = self.count("voxels kept")
        self.assertLess(fewer, before)
        state = self.browser.run("return location.hash")
        self.assertIn("voxel_size=0.8,0.8,0.5", state)
        self.open(state)
        self.assertEqual(self.count("voxels kept"), fewer)
        self.assertEqual(self.browser.find("#parameter-voxel_size").get_attribute("value"), "0.8,0.8,0.5")

    def test_a_refusal_is_told_at_the_field_and_goes_once_it_is_mended(self):
        self.open()
        self.set("max_voxels", "0")
        self.browser.await_text("#error", "max_voxels is '0'; allowed: a whole number from 1")
        field = self.browser.find("#parameter-max_voxels")
        self.assertEqual(field.get_attribute("aria-invalid"), "true")
        self.set("max_voxels", "10")
        self.browser.await_text("#counts", "max_voxels=10 was reached")
        self.assertEqual(field.get_attribute("aria-invalid"), "false")
        self.assertFalse(self.browser.find("#error").is_displayed())

    def test_colours_layers_and_samples(self):
        self.open("#preset=kitti_second&voxel_size=0.4,0.4,0.4&fps=200")
        self.assertEqual(self.count("samples"), 200)
        pictures = {self.browser.look()["sum"]}
        for colour in ("intensity", "distance", "count", "fate"):
            pictures.add(self.change(lambda: self.browser.set("#colour", colour))["sum"])
        self.assertEqual(len(pictures), 5)
        for layer in ("samples", "faces", "points"):
            less = self.change(self.browser.find(f"#layer-{layer}").click)
        self.assertGreater(self.change(self.browser.find("#layer-edges").click)["drawn"], less["drawn"])
        self.browser.find("#layer-edges").click()
        self.change(self.browser.find("#layer-box").click)
        self.assertEqual(self.browser.look()["drawn"], 0)

    def test_the_camera_obeys_keys_and_buttons(self):
        self.open()
        begin = self.browser.look()
        canvas = self.browser.find("#canvas")
        pictures = {begin["sum"]}
        for key in ("t", "s", "+", "\ue012"):
            pictures.add(self.change(lambda: canvas.send_keys(key))["sum"])
        self.assertEqual(len(pictures), 5)
        self.assertIn("view.camera=", self.browser.run("return location.hash"))
        self.assertEqual(self.change(self.browser.find("[data-look=reset]").click), begin)

    def test_a_click_shows_the_points_of_a_voxel(self):
        self.open("#point_cloud_range=0,0,0,30,30,30&voxel_size=10,10,10&max_points_per_voxel=5")
        points = np.array([[15, 15, 15, 0.25], [1, 2, 3, 0.5], [16, 16, 16, 0.75], [29, 28, 27, 1]], "<f4")
        self.drop("few", points)
        self.change(self.browser.find("#canvas").click)  # in the middle, where the camera looks
        told = self.browser.text("#voxel")
        for line in ("x, y, z 1, 1, 1", "points kept 2", "point 0 15, 15, 15, 0.25", "point 2 16, 16, 16, 0.75"):
            self.assertIn(line, told)

    def test_several_files_are_frames(self):
        self.open()
        self.browser.drop(b10_bin=cloud(300).tobytes(), b9_bin=cloud(200).tobytes())
        self.browser.await_text("#state", "b9.bin: 200 points")
        self.browser.find("#frame").send_keys("\ue014")
        self.browser.await_text("#state", "b10.bin: 300 points")
        self.browser.find("#play").click()
        self.browser.await_text("#state", "b9.bin: 200 points")
        self.browser.await_text("#state", "b10.bin: 300 points")
        self.browser.find("#play").click()
        self.assertEqual(self.browser.find("#play").get_attribute("aria-pressed"), "false")

    def test_boxes_are_drawn_over_their_scan(self):
        self.open()
        boxes = np.array([[20, y, -1, 4, 2, 1.5, 0.3] for y in (-9, 0, 9)], "<f4")
        labels = np.array([0, 2, 2], "<i4")
        with tempfile.TemporaryDirectory() as place:
            folder = pathlib.Path(place)
            cloud(3000).tofile(folder / "a.bin")
            cloud(3000, 2).tofile(folder / "b.bin")
            (folder / "a.boxes.safetensors").write_bytes(save({"boxes": boxes, "labels": labels}))
            (folder / "flat.safetensors").write_bytes(save({"boxes": boxes[0]}))
            give = lambda *names: self.browser.find("#files").send_keys("\n".join(f"{folder}/{name}" for name in names))
            give("a.bin", "a.boxes.safetensors", "b.bin")
            self.browser.await_text("#state", "a.bin: ")
            self.assertEqual((self.count("boxes of label 0"), self.count("boxes of label 2")), (1, 2))
            layer = self.browser.find("#layer-boxes")
            with_boxes = self.browser.look()["sum"]
            self.assertNotEqual(self.change(layer.click)["sum"], with_boxes)
            self.assertEqual(self.change(layer.click)["sum"], with_boxes)
            self.browser.find("#frame").send_keys("\ue014")
            self.browser.await_text("#state", "b.bin: ")
            self.assertIsNone(self.count("boxes of label 0"))
            give("b.bin")
            give("a.boxes.safetensors")  # the only scan takes it
            wait_until(lambda: self.count("boxes of label 2") == 2, "the boxes of another name")
            give("flat.safetensors")
            self.browser.await_text("#error", "flat.safetensors has no tensor boxes [N, 7]")

    def test_the_picture_is_saved(self):
        self.open()
        self.browser.find("#png").click()
        file = pathlib.Path(self.browser.folder.name) / "voxeld.png"
        wait_until(file.exists, "voxeld.png")
        self.assertEqual(file.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_the_commands_that_it_shows_give_what_it_shows(self):
        self.open("#preset=kitti_pointpillar&max_voxels=500")
        points = cloud(4000)
        name = "it's mine.bin"
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / name).write_bytes(points.tobytes())
            self.browser.find("#files").send_keys(f"{folder}/{name}")
            self.browser.await_text("#state", f"{name}: 4,000 points, 500 voxels")
            subprocess.run(["bash", "-c", self.browser.text("#curl")], cwd=folder, check=True, capture_output=True)
            self.assertIn(b'"shape":[500,4]', (pathlib.Path(folder) / "voxels.safetensors").read_bytes())
            python = [sys.executable, "-c", self.browser.text("#python")]
            ran = subprocess.run(python, cwd=folder, check=True, capture_output=True, text=True)
        self.assertEqual(ran.stdout, "(500, 4)\n")


class Token(unittest.TestCase):
    def test_a_service_that_wants_a_token(self):
        window = browser.Browser()
        self.addCleanup(window.quit)
        with daemon_of("alice") as (daemon, token):
            window.open(daemon)
            window.await_text("#state", "the service wants a token")
            self.assertIn("token", window.text("#error").lower())
            window.set("#token", "wrong")
            window.await_text("#error", "known")
            window.set("#token", token)
            window.await_text("#state", SHOWN)
            self.assertFalse(window.find("#error").is_displayed())
            self.assertNotIn(token, window.driver.current_url)
            self.assertNotIn(token, window.text("#curl"))
            self.assertIn("Bearer $TOKEN", window.text("#curl"))


if __name__ == "__main__":
    unittest.main()
