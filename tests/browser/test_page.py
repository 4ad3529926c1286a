"""The page at / in a browser: it draws files that the user drops, asks again after a change, and shows refusals."""

import json
import os
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
from daemon import ROOT, voxeld_binary, wait_until
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


# x, y and z of each point of a scan, where the page draws it after the answer to a query.
PLACES = """
const [numbers, query, done] = arguments;
const parameters = Object.fromEntries(new URLSearchParams(query));
import("/ui/scan.js").then(({ voxelize }) => voxelize(new Float32Array(numbers).buffer, parameters, true)).then(
  ({ points }) => done([...Array(points.length / 4).keys()].map((i) => [...points.subarray(4 * i, 4 * i + 3)])));
"""
# The colours of a screenshot, as styles have them.
DRAWN = """
const [text, done] = arguments;
const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
createImageBitmap(new Blob([bytes], {type: "image/png"})).then((image) => {
  const context = new OffscreenCanvas(image.width, image.height).getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, image.width, image.height), colours = new Set();
  for (let i = 0; i < data.length; i += 4) colours.add(`rgb(${data.slice(i, i + 3).join(", ")})`);
  done([...colours]);
});
"""


def cloud(points, seed=1):
    low, high = np.array(RANGE[:3] + (0,)), np.array(RANGE[3:] + (1,))
    return np.random.default_rng(seed).uniform(low, high, (points, 4)).astype("<f4")


def setUpModule():
    if browser.why_not():
        raise unittest.SkipTest(browser.why_not())


# Parameters without a field in the form: those that the page sets itself, and those of streams.
OWN = ("outputs", "point_counts", "latest", "timeout_ms", "points_region", "output_region")
STREAMS = ("stream", "streams", "sweeps", "pose", "poses", "mount", "time", "times", "time_column", "remove_close")


class PageCase(browser.BrowserCase):
    def open(self, state=""):
        self.browser.open(self.daemon, state)
        self.browser.await_text("#state", SHOWN)

    def open_with(self, points, state=""):
        """Opens the page with a scan of a few points instead of its sample, so that answers are drawn faster."""
        self.browser.open_with(self.daemon, state, mine_bin=points.tobytes())

    def drop(self, name, points):
        self.browser.drop(**{f"{name}_bin": points.tobytes()})
        self.browser.await_text("#state", f"{name}.bin: ")

    def count(self, name):
        found = re.search(rf"^{name} ([\d,]+)$", self.browser.text("#counts"), re.MULTILINE)
        return found and int(found[1].replace(",", ""))

    def set(self, name, value):
        self.browser.set(f"#parameter-{name}", value)

    def change(self, action):
        """Does the action, and returns the picture once it has changed."""
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
        for part in ("error", "notes", "token"):
            self.assertFalse(self.browser.find(f"#{part}").is_displayed(), part)
        self.assertEqual(self.browser.messages(), [])
        loaded = self.browser.run("return performance.getEntriesByType('resource').map((entry) => entry.name)")
        host, port = self.daemon.address
        self.assertGreater(len(loaded), 10)
        self.assertEqual([name for name in loaded if not name.startswith(f"http://{host}:{port}/")], [])

    def test_every_field_has_a_label_and_every_parameter_a_field(self):
        self.open_with(cloud(500))
        rows = operation_of("voxelize", self.daemon.get("/v1/describe").json())["parameters"]
        told = self.browser.run(
            "return Object.fromEntries([...document.querySelectorAll('[id^=parameter-][aria-describedby]')].map("
            "(one) => [one.id, document.getElementById(one.getAttribute('aria-describedby')).textContent]))"
        )
        for row in rows:
            if row["name"] not in OWN + STREAMS:
                with self.subTest(row["name"]):
                    self.assertEqual(told.get(f"parameter-{row['name']}"), meaning(row))
        nameless = self.browser.run(
            "return [...document.querySelectorAll('input, select, button, #canvas')].filter((one) =>"
            " !one.labels?.length && !one.textContent.trim() && !one.ariaLabel).map((one) => one.outerHTML)"
        )
        self.assertEqual(nameless, [])

    def test_a_dropped_scan_is_drawn(self):
        self.open_with(cloud(500), "#preset=kitti_second")
        points = cloud(3000)
        look = self.change(lambda: self.drop("other", points))
        self.assertGreater(look["drawn"], 1000)
        answer = self.daemon.post("/v1/voxelize?preset=kitti_second", points.tobytes(), {"Accept": "application/json"})
        told = answer.json()
        for name in ("received", "kept", "out_of_range"):
            self.assertEqual(self.count(f"points {name.replace('_', ' ')}"), told["points"][name])
        self.assertEqual(self.count("voxels kept"), told["voxels"]["kept"])

    def test_other_formats_are_read_by_the_service(self):
        self.open_with(cloud(500))
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
        points = cloud(3000)
        self.open_with(points)
        before = self.count("voxels kept")
        self.change(lambda: self.set("voxel_size", "0.8,0.8,0.5"))
        fewer = self.count("voxels kept")
        self.assertLess(fewer, before)
        state = self.browser.run("return location.hash")
        self.assertIn("voxel_size=0.8,0.8,0.5", state)
        self.open_with(points, state)
        self.assertEqual(self.count("voxels kept"), fewer)
        self.assertEqual(self.browser.find("#parameter-voxel_size").get_attribute("value"), "0.8,0.8,0.5")
        self.set("voxel_size", "0.8, 0.8, 0.5")  # blanks after commas do not count
        self.browser.await_text("#curl", "voxel_size=0.8,+0.8,+0.5")
        self.browser.await_text("#state", SHOWN)
        self.assertFalse(self.browser.find("#error").is_displayed())

    def test_a_refusal_is_reported_at_the_field_and_goes_once_it_is_mended(self):
        self.open_with(cloud(500))
        self.set("max_voxels", "0")
        self.browser.await_text("#error", "max_voxels is '0'; allowed: a whole number from 1")
        field = self.browser.find("#parameter-max_voxels")
        self.assertEqual(field.get_attribute("aria-invalid"), "true")
        self.set("max_voxels", "10")
        self.browser.await_text("#notes", "max_voxels=10 was reached")
        self.assertEqual(field.get_attribute("aria-invalid"), "false")
        self.assertFalse(self.browser.find("#error").is_displayed())

    def test_an_address_with_an_unknown_preset_is_refused(self):
        self.browser.open(self.daemon, "#preset=my_own")
        self.browser.await_text("#error", "preset is 'my_own'; allowed: kitti_pointpillar, kitti_second")
        self.assertIn("Refused: preset=my_own", self.browser.text("#error"))
        self.set("preset", "kitti_second")
        self.browser.await_text("#state", SHOWN)

    def test_an_address_names_the_scan_that_it_does_not_hold(self):
        self.open_with(cloud(500))
        state = self.browser.run("return location.hash")
        self.assertIn("view.scan=mine.bin", state)
        for _ in range(2):
            self.open(state)
            self.assertIn("This is the sample scan: the address was made with mine.bin", self.browser.text("#notes"))
            state = self.browser.run("return location.hash")
        self.drop("other", cloud(500))
        self.assertNotIn("mine.bin", self.browser.text("#notes"))
        self.assertIn("view.scan=other.bin", self.browser.run("return location.hash"))
        self.browser.find("#sample").click()
        self.browser.await_text("#state", "sample.bin: ")
        self.assertNotIn("view.scan", self.browser.run("return location.hash"))
        self.assertEqual(self.browser.text("#notes"), "")

    def test_colours_layers_and_samples(self):
        self.open_with(cloud(2000), "#preset=kitti_second&voxel_size=0.4,0.4,0.4&fps=200")
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
        self.open_with(cloud(1000))
        begin = self.browser.look()
        canvas = self.browser.find("#canvas")
        pictures = {begin["sum"]}
        for key in ("t", "s", "+", "\ue012"):
            pictures.add(self.change(lambda: canvas.send_keys(key))["sum"])
        self.assertEqual(len(pictures), 5)
        self.assertIn("view.camera=", self.browser.run("return location.hash"))
        self.assertEqual(self.change(self.browser.find("[data-look=reset]").click), begin)

    def test_a_click_shows_the_points_of_a_voxel(self):
        points = np.array([[15, 15, 15, 0.25], [1, 2, 3, 0.5], [16, 16, 16, 0.75], [29, 28, 27, 1]], "<f4")
        self.open_with(points, "#point_cloud_range=0,0,0,30,30,30&voxel_size=10,10,10&max_points_per_voxel=5")
        self.change(self.browser.find("#canvas").click)  # in the middle, where the camera looks
        told = self.browser.text("#voxel")
        for line in ("x, y, z 1, 1, 1", "points kept 2", "point 0 15, 15, 15, 0.25", "point 2 16, 16, 16, 0.75"):
            self.assertIn(line, told)

    def test_several_files_are_frames(self):
        self.open_with(cloud(500))
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
        self.open_with(cloud(500))
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
            give("a.boxes.safetensors")  # boxes of another name go to the only scan
            wait_until(lambda: self.count("boxes of label 2") == 2, "the boxes of another name")
            give("flat.safetensors")
            self.browser.await_text("#error", "flat.safetensors has no tensor boxes [N, 7]")

    def test_one_point_is_no_plural(self):
        self.open_with(cloud(500), "#preset=kitti_pointpillar")
        with tempfile.NamedTemporaryFile(suffix=".bin") as file:
            file.write(np.float32([10, 1, -1, 0.5]).tobytes())
            file.flush()
            self.browser.find("#files").send_keys(file.name)
            self.browser.await_text("#state", ": 1 point, 1 voxel in ")

    def test_the_picture_is_saved(self):
        self.open_with(cloud(500))
        self.browser.find("#png").click()
        file = pathlib.Path(self.browser.folder.name) / "voxeld.png"
        wait_until(file.exists, "voxeld.png")
        self.assertEqual(file.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_the_commands_that_it_shows_give_what_it_shows(self):
        self.open_with(cloud(500), "#preset=kitti_pointpillar&max_voxels=500")
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
        self.assertFalse(self.browser.find("#save").is_displayed())

    def test_the_sample_can_be_saved_for_the_commands(self):
        self.open("#preset=kitti_pointpillar&max_voxels=500")
        self.browser.find("#save").click()
        folder = pathlib.Path(self.browser.folder.name)
        wait_until((folder / "sample.bin").exists, "sample.bin")
        subprocess.run(["bash", "-c", self.browser.text("#curl")], cwd=folder, check=True, capture_output=True)
        self.assertIn(b'"shape":[500,4]', (folder / "voxels.safetensors").read_bytes())


class Steps(PageCase):
    """Steps before the voxels: their fields, counts, commands, and where and in which colours the points are drawn."""

    GRID = "#point_cloud_range=0,0,0,30,30,30&voxel_size=10,10,10"
    MOVED = (
        f"{GRID}&steps=transform,few:downsample&transform.matrix=1,0,0,10,0,1,0,0,0,0,1,0,0,0,0,1"
        "&transform.cut=0,20,20,5,30,30&few.voxel_size=10&few.method=first"
    )
    FEW = np.array([[5, 15, 15, 0.25], [-9, 2, 3, 0.5], [6, 16, 16, 0.75], [-9, 28, 27, 1], [19, 28, 27, 1]], "<f4")

    @classmethod
    def setUpClass(cls):
        presets = cls.enterClassContext(tempfile.TemporaryDirectory())
        numbers = {"point_cloud_range": RANGE, "voxel_size": [1, 1, 1]}
        chain = [{"op": "transform", "tag": "near", "distance": [0, 40]}]
        preset = {"description": "mine", "parameters": {**numbers, "steps": chain}}
        pathlib.Path(presets, "mine.json").write_text(json.dumps(preset), encoding="utf-8")
        cls.ARGS = ("--presets-dir", presets)
        super().setUpClass()

    def field(self, name):
        return self.browser.find(f"[name='{name}']")

    def value(self, name):
        return self.field(name).get_attribute("value")

    def add(self, name):
        self.browser.set("[aria-label='Add a step']", name)

    def rows_of_steps(self):
        return self.browser.run(
            "return [...document.querySelectorAll('#steps tr')].map("
            "(row) => [...row.cells].map((cell) => cell.innerText.trim()).join(' '))"
        )

    def test_a_step_is_added_and_its_parameter_asked_for(self):
        self.open_with(cloud(500), "#preset=kitti_second")
        self.add("downsample")
        self.browser.await_text("#state", "type a value of downsample")
        self.assertFalse(self.browser.find("#error").is_displayed())
        self.assertEqual(self.value("steps"), "downsample")
        self.assertTrue(self.field("downsample.voxel_size").is_displayed())
        self.assertEqual(self.field("downsample.origin").get_attribute("placeholder"), "0,0,0")
        self.browser.set("[name='downsample.voxel_size']", "0.5")
        self.browser.await_text("#counts", "Points after each step")
        self.assertTrue(self.field("downsample.voxel_size").is_displayed())
        self.add("downsample")
        self.assertEqual(self.value("steps"), "downsample,downsample2:downsample")
        self.assertEqual(self.value("downsample.voxel_size"), "0.5")
        self.browser.set("[name='steps']", "downsample")
        self.browser.await_text("#state", SHOWN)
        state = self.browser.run("return location.hash")
        before = self.rows_of_steps()
        self.open_with(cloud(500), state)
        self.assertEqual(self.rows_of_steps(), before)
        self.browser.set("[name='steps']", "none")
        wait_until(lambda: "Points after" not in self.browser.text("#counts"), "an answer without steps")
        self.assertEqual(self.browser.run("return document.querySelectorAll('[data-tag]').length"), 0)

    def test_a_step_is_not_asked_for_before_its_required_values(self):
        self.open_with(cloud(500), "#preset=kitti_second")
        self.add("radius_outlier")
        self.browser.await_text("#state", "type radius_outlier.radius and radius_outlier.min_neighbors")
        self.browser.set("[name='radius_outlier.radius']", "1")
        self.browser.await_text("#state", "type radius_outlier.min_neighbors")
        self.assertFalse(self.browser.find("#error").is_displayed())
        self.browser.set("[name='radius_outlier.min_neighbors']", "2")
        self.browser.await_text("#counts", "Points after each step")

    def test_steps_are_moved_and_removed(self):
        steps = "near:transform,far:transform,downsample"
        self.open_with(cloud(500), f"#preset=mine&steps={steps}&far.distance=0,30&downsample.voxel_size=1")
        button = lambda label: self.browser.find(f"[aria-label='{label}']")
        self.assertFalse(button("Move up near").is_enabled())
        button("Move up downsample").click()
        self.assertEqual(self.value("steps"), "near:transform,downsample,far:transform")
        self.assertEqual((self.value("far.distance"), self.value("downsample.voxel_size")), ("0,30", "1"))
        self.assertFalse(self.field("downsample.voxel_size").is_displayed())
        wait_until(lambda: self.rows_of_steps()[1].startswith("downsample"), self.rows_of_steps)
        button("Remove near").click()
        self.assertEqual(self.value("steps"), "downsample,far:transform")
        wait_until(lambda: self.rows_of_steps()[0].startswith("downsample"), self.rows_of_steps)
        button("Remove downsample").click()
        button("Remove far").click()
        self.assertEqual(self.value("steps"), "none")
        wait_until(lambda: not self.rows_of_steps(), self.rows_of_steps)
        self.assertNotIn("far.distance", self.browser.run("return location.hash"))

    def test_each_field_of_a_step_has_its_label_and_its_doc(self):
        self.open_with(cloud(500), "#preset=kitti_second")
        for step in self.daemon.get("/v1/describe").json()["steps"]:
            self.browser.set("[name='steps']", f"mine:{step['name']}")
            for row in step["parameters"]:
                field = self.field(f"mine.{row['name']}")
                told = self.browser.run(
                    "return [arguments[0].labels[0].textContent, document.getElementById(arguments[1]).textContent]",
                    field,
                    field.get_attribute("aria-describedby"),
                )
                self.assertEqual(told, [f"mine.{row['name']}", meaning(row)])

    def test_counts_of_steps_and_colours_of_stages(self):
        points = cloud(3000)
        query = "preset=kitti_second&steps=transform,thin:downsample&transform.cut=0,-9,-3,40,9,1&thin.voxel_size=1"
        self.open_with(points, f"#{query}")
        told = self.daemon.post(f"/v1/voxelize?{query}", points.tobytes(), {"Accept": "application/json"}).json()
        first, second = told["steps"]
        expected = [f"transform {first['kept']:,}", f"cut out −{first['cut_out']:,}"]
        expected += [f"thin (downsample) {second['kept']:,}", f"merged −{second['merged']:,}"]
        self.assertEqual(self.rows_of_steps(), expected)
        self.assertEqual(self.count("points cut out"), told["points"]["cut_out"])
        self.assertIsNone(self.count("points out of crop"))
        self.assertRegex(self.browser.text("#timing"), r"steps \d+ µs\n– transform \d+ µs\n– thin \d+ µs\n")
        swatches = "return [...document.querySelectorAll('#timing .swatch')].map((one) => one.style.backgroundColor)"
        colours = self.browser.run(swatches)
        self.assertGreaterEqual(len(colours), 9)
        self.assertEqual(len(set(colours)), len(colours))

    def test_points_are_drawn_where_the_steps_left_them(self):
        self.open_with(self.FEW, self.MOVED)
        self.assertEqual(self.rows_of_steps(), ["transform 4", "cut out −1", "few (downsample) 3", "merged −1"])
        self.change(self.browser.find("#canvas").click)  # in the middle
        told = self.browser.text("#voxel")
        self.assertIn("x, y, z 1, 1, 1", told)
        self.assertIn("points kept 1", told)
        self.assertIn("point 0 15, 15, 15, 0.25", told)
        self.assertNotIn("point 2", told)
        query = self.MOVED[1:]
        places = self.browser.driver.execute_async_script(PLACES, self.FEW.ravel().tolist(), query)
        self.assertEqual(places, [[15, 15, 15], [1, 2, 3], [16, 16, 16], [1, 28, 27], [29, 28, 27]])

    def test_dropped_points_have_the_colours_of_the_legend(self):
        self.open_with(self.FEW, self.MOVED + "&view.layers=points&view.size=8")
        self.browser.set("#colour", "fate")
        legend = self.browser.text("#ramp").splitlines()
        self.assertEqual(legend[0], "kept")
        self.assertEqual(legend[-2:], ["cut out", "merged"])
        swatches = "return [...document.querySelectorAll('#ramp .swatch')].map((one) => one.style.backgroundColor)"
        colours = dict(zip(legend, self.browser.run(swatches)))
        of_counts = "return [...document.querySelectorAll('#steps .swatch')].map((one) => one.style.backgroundColor)"
        self.assertEqual(self.browser.run(of_counts), [colours["cut out"], colours["merged"]])
        drawn = self.browser.driver.execute_async_script(DRAWN, self.browser.picture())
        for name in ("kept", "cut out", "merged"):
            self.assertIn(colours[name], drawn)
        self.browser.set("[name='steps']", "none")
        for name in ("few.voxel_size", "transform.cut"):
            self.assertNotIn(name, self.browser.run("return location.hash"))

    def test_the_steps_of_a_preset(self):
        self.open_with(cloud(5000), "#preset=mine")
        self.assertEqual(self.value("steps"), "")
        self.assertEqual(self.field("steps").get_attribute("placeholder"), "near:transform")
        self.assertEqual(self.field("near.distance").get_attribute("placeholder"), "0,40")
        kept = self.rows_of_steps()
        self.browser.set("[name='near.distance']", "0,20")
        wait_until(lambda: self.rows_of_steps() != kept, "other counts")
        self.assertIn('steps={"near.distance": "0,20"}', self.browser.text("#python"))
        self.add("radius_outlier")
        self.assertEqual(self.value("steps"), "near:transform,radius_outlier")
        self.assertEqual((self.value("near.distance"), self.value("near.crop")), ("0,20", "off"))
        self.browser.set("#parameter-preset", "kitti_second")
        self.browser.set("[name='steps']", "")
        self.browser.await_text("#state", SHOWN)
        self.assertEqual(self.browser.find("#error").is_displayed(), False)

    def test_the_commands_that_it_shows_have_the_steps(self):
        for state in (
            "#preset=mine&steps=transform,far:transform&far.crop=0,-40,-3,40,40,1&transform.cut=0,0,-3,40,9,1",
            "#preset=mine&near.distance=0,20",
            "#preset=mine&steps=none",
        ):
            with self.subTest(state), tempfile.TemporaryDirectory() as folder:
                points = cloud(4000)
                self.open_with(points, state)
                (pathlib.Path(folder) / "mine.bin").write_bytes(points.tobytes())
                voxels = self.count("voxels kept")
                subprocess.run(["bash", "-c", self.browser.text("#curl")], cwd=folder, check=True, capture_output=True)
                shape = f'"shape":[{voxels},4]'.encode()
                self.assertIn(shape, (pathlib.Path(folder) / "voxels.safetensors").read_bytes())
                python = [sys.executable, "-c", self.browser.text("#python")]
                ran = subprocess.run(python, cwd=folder, check=True, capture_output=True, text=True)
                self.assertEqual(ran.stdout, f"({voxels}, 4)\n")


class Dev(unittest.TestCase):
    """./dev run, with a daemon that is built and a cmake that does nothing."""

    def test_the_page_that_it_names_asks_for_the_scan(self):
        place = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (place / "build").mkdir()
        (place / "build/bin").symlink_to(pathlib.Path(voxeld_binary()).parent)
        for name in ("dev", "CMakeLists.txt"):
            (place / name).symlink_to(ROOT / name)
        for name, line in (
            ("cmake", "echo 'cmake version 99.0.0'; echo '-- Backends: cpu'"),
            ("dpkg-query", "shift 3; for one; do echo $one installed; done"),
        ):
            stub = place / name
            stub.write_text(f"#!/bin/sh\n{line}\n", encoding="ascii")
            stub.chmod(0o755)
        (place / "my scan.bin").write_bytes(cloud(500).tobytes())
        command = ["bash", str(place / "dev"), "run", "my scan.bin", "preset=kitti_pointpillar"]
        environment = {**os.environ, "PATH": f"{place}:{os.environ['PATH']}"}
        run = subprocess.Popen(command, cwd=place, env=environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(run.stdout.close)
        self.addCleanup(run.wait)
        self.addCleanup(run.terminate)
        named = next(line for line in run.stdout if line.startswith("open "))
        window = browser.shared()
        window.driver.get(named.split()[1])
        window.await_text("#notes", "This is the sample scan: the address was made with my scan.bin")
        self.assertEqual(window.find("#parameter-preset").get_attribute("value"), "kitti_pointpillar")


class Token(unittest.TestCase):
    def test_a_service_that_wants_a_token(self):
        window = browser.shared()
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
