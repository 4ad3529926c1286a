"""The page at / draws range images, and colours points by their places on curves."""

import base64
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
from safetensors.numpy import load

import browser
from daemon import wait_until

WITH_IMAGE = "#preset=kitti_second&view.image=semantickitti_rangenet"
# The pixels of the picture as base64: red, green, blue and alpha of each.
PIXELS = """
const canvas = document.getElementById("pixels"), reader = new FileReader(), [done] = arguments;
reader.onload = () => done(reader.result.split(",")[1]);
reader.readAsDataURL(new Blob([canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data]));
"""
PLACES = """
const [numbers, curve, done] = arguments;
import("/ui/scan.js").then(({ placesOf }) => placesOf(new Float32Array(numbers).buffer, { num_features: 4 }, curve))
  .then((places) => done([...places]));
"""


def scan(points=6000, seed=1):
    """Points around the sensor, 2 to 60 m away."""
    rng = np.random.default_rng(seed)
    angle, slope, distance = (rng.uniform(*ends, points) for ends in ((-np.pi, np.pi), (-0.43, 0.05), (2, 60)))
    plane = distance * np.cos(slope)
    rows = (plane * np.cos(angle), plane * np.sin(angle), distance * np.sin(slope), rng.uniform(0, 1, points))
    return np.stack(rows, axis=1).astype("<f4")


def setUpModule():
    if browser.why_not():
        raise unittest.SkipTest(browser.why_not())


class ImageCase(browser.BrowserCase):
    def open(self, points, state=""):
        self.browser.open_with(self.daemon, state, mine_bin=points.tobytes())

    def tensors(self, path, points):
        reply = self.daemon.post(path, points.tobytes())
        self.assertEqual(reply.status, 200, reply)
        return load(reply.body)

    def image(self, points):
        found = self.tensors("/v1/range_image?preset=semantickitti_rangenet&outputs=range_image,range_mask", points)
        return found["range_image"][0], found["range_mask"][0] != 0


class RangeImages(ImageCase):
    def picture(self, told):
        """Waits until the text under the picture contains `told`. Returns the pixels of the picture, [H, W, 4]."""
        self.browser.await_text("#picture-doc", told)
        width = self.browser.run("return document.getElementById('pixels').width")
        pixels = base64.b64decode(self.browser.driver.execute_async_script(PIXELS))
        return np.frombuffer(pixels, "u1").reshape(-1, width, 4)

    def test_channels_and_mask(self):
        points = scan()
        planes, mask = self.image(points)
        self.open(points, WITH_IMAGE)
        number = f"{np.count_nonzero(mask):,} of 64 × 2,048 pixels"
        channels = self.browser.run("return [...document.querySelectorAll('#channel option')].map((one) => one.value)")
        self.assertEqual(channels, ["range", "x", "y", "z", "intensity", "mask"])
        pictures = set()
        for plane, channel in enumerate(channels[:-1]):
            self.browser.set("#channel", channel)
            drawn = self.picture(f"{channel}: from ")
            self.assertIn(number, self.browser.text("#picture-doc"))
            np.testing.assert_array_equal(drawn[:, :, 3] != 0, mask)  # a pixel without a point is transparent
            bright = drawn[mask][np.argsort(planes[plane][mask]), :3] @ np.array([0.2126, 0.7152, 0.0722])
            self.assertGreater(np.diff(bright).min(), -2)  # of 255: colours are rounded
            self.assertGreater(bright[-1] - bright[0], 80)
            pictures.add(drawn.tobytes())
        self.assertEqual(len(pictures), 5)
        self.browser.set("#channel", "mask")
        drawn = self.picture("mask: ")
        self.assertEqual(drawn[:, :, 3].min(), 255)
        ((with_point,), (without,)) = (np.unique(drawn[part], axis=0) for part in (mask, ~mask))
        self.assertGreater(int(with_point[1]), int(without[1]) + 80)

    def test_the_scale_is_in_metres(self):
        """The preset's image is (range - 12.12) / 12.32."""
        self.open(np.tile(scan(1) * 30 / np.linalg.norm(scan(1)[0, :3]), (5, 1)).astype("<f4"), WITH_IMAGE)
        self.browser.await_text("#picture-doc", "range: from 30 (dark) to 30 (bright); 1 of ")

    def test_other_parameters_and_the_url(self):
        points = scan()
        self.open(points)
        self.assertFalse(self.browser.find("#picture").is_displayed())
        self.browser.set("#image", "semantickitti_rangenet")
        self.browser.await_text("#picture-doc", "of 64 × 2,048 pixels")
        self.assertIn("RangeNet++", self.browser.text("#image-doc"))
        self.browser.set("#image-others", "height=16&width=512&channels=intensity,range&means=0,0&stds=1,1")
        self.browser.await_text("#picture-doc", "of 16 × 512 pixels")
        self.browser.set("#channel", "intensity")
        told = self.browser.await_text("#picture-doc", "intensity: ")
        state = self.browser.run("return location.hash")
        self.open(points, state)
        self.browser.await_text("#picture-doc", told)
        self.browser.set("#image-others", "height=0")
        self.browser.await_text("#error", "height")
        self.assertFalse(self.browser.find("#picture").is_displayed())
        self.assertIn("voxels kept", self.browser.text("#counts"))
        self.browser.set("#image", "")
        wait_until(lambda: not self.browser.find("#error").is_displayed(), "no error")
        self.assertNotIn("view.image", self.browser.run("return location.hash"))
        self.assertEqual([line for line in self.browser.messages() if "400" not in line], [])

    def test_the_commands_that_it_shows_make_the_same_image(self):
        points = scan(2000)
        self.open(points, WITH_IMAGE)
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / "mine.bin").write_bytes(points.tobytes())
            told = {"cwd": folder, "check": True, "capture_output": True}
            subprocess.run(["bash", "-ec", self.browser.text("#curl")], **told)
            made = load((pathlib.Path(folder) / "image.safetensors").read_bytes())
            np.testing.assert_array_equal(made["range_image"][0], self.image(points)[0])
            ran = subprocess.run([sys.executable, "-c", self.browser.text("#python")], **told, text=True)
        self.assertIn("(1, 5, 64, 2048)", ran.stdout)


class Curves(ImageCase):
    def test_places_are_those_of_the_service(self):
        self.browser.open(self.daemon, "healthz")  # any page
        points = scan(500)
        points[7] = np.nan
        for curve in ("z", "hilbert-trans"):
            asked = f"voxel_size=0.05&orders={curve}&outputs=serialized_inverse,point_indices"
            found = self.tensors(f"/v1/serialize?num_features=4&{asked}", points)
            expected = np.zeros(500)
            expected[found["point_indices"]] = found["serialized_inverse"][0]
            numbers = ["NaN" if np.isnan(value) else float(value) for value in points.ravel()]
            places = self.browser.driver.execute_async_script(PLACES, numbers, curve)
            self.assertEqual(places, expected.tolist())

    def test_each_curve_has_its_own_picture(self):
        self.open(scan(), "#preset=kitti_second&view.layers=points")
        pictures = [self.browser.look()["sum"]]
        for curve in ("z", "z-trans", "hilbert", "hilbert-trans"):
            self.browser.set("#colour", f"order-{curve}")
            self.browser.await_text("#legend", f"place along {curve}\n")
            pictures.append(self.browser.look()["sum"])
        self.assertEqual(len(set(pictures)), 5)
        state = self.browser.run("return location.hash")
        self.assertIn("view.colour=order-hilbert-trans", state)
        asked = "return performance.getEntriesByType('resource').filter(({name}) => name.includes('/serialize')).length"
        self.assertEqual(self.browser.run(asked), 4)
        self.browser.open(self.daemon, state)  # open_with() begins with a stream, which does not offer this colour
        self.browser.await_text("#state", " voxels in ")
        self.browser.drop(mine_bin=scan().tobytes())
        self.browser.await_text("#state", "mine.bin: ")
        self.assertEqual(self.browser.look()["sum"], pictures[-1])
        self.browser.set("#colour", "height")
        self.browser.await_text("#legend", "height")
        self.assertEqual(self.browser.look()["sum"], pictures[0])
        self.assertEqual(self.browser.messages(), [])


if __name__ == "__main__":
    unittest.main()
