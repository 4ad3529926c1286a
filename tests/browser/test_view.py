"""The page at / as a user sees it: the first view, a phone, what is refused, other columns, colours and boxes."""

import unittest

import numpy as np
from safetensors.numpy import save

import browser
from daemon import wait_until

SHOWN = " voxels in "  # in the text of #state, once an answer is shown
# A voxel in the middle of the view, and its one point.
TENS, ONE = "#point_cloud_range=0,0,0,30,30,30&voxel_size=10,10,10", np.full((1, 4), 15, "<f4").tobytes()
PILLARS = "#preset=kitti_pointpillar"
LABELS = (
    "return [...document.querySelectorAll('#labels span')].filter((one) => one.style.visibility == 'visible')"
    ".map((one) => one.textContent)"
)
# Left, top, right and bottom of an element in CSS pixels.
AREA = "const {left, top, right, bottom} = arguments[0].getBoundingClientRect(); return [left, top, right, bottom]"
# The contrast of each colour of a ramp to the page's background, as WCAG defines it.
CONTRASTS = """
const [name, done] = arguments;
const luminance = (rgb) => [0.2126, 0.7152, 0.0722].reduce((sum, weight, i) => {
  const part = rgb[i] / 255;
  return sum + weight * (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
}, 0);
import("/ui/colours.js").then(({ rampOf }) => {
  const ramp = rampOf(name), back = luminance(getComputedStyle(document.body).backgroundColor.match(/\\d+/g));
  const contrasts = [];
  for (let i = 0; i < ramp.length; i += 4) {
    const own = luminance(ramp.slice(i, i + 3));
    contrasts.push((Math.max(own, back) + 0.05) / (Math.min(own, back) + 0.05));
  }
  done(contrasts);
});
"""
# The nearly red pixels of the canvas: how many; their left, top, right, bottom in CSS pixels; and the most frequent
# width of their runs in a row.
RED = """
const [text, done] = arguments;
const bytes = Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
createImageBitmap(new Blob([bytes], {type: "image/png"})).then((image) => {
  const canvas = Object.assign(document.createElement("canvas"), {width: image.width, height: image.height});
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, image.width, image.height);
  const area = [Infinity, Infinity, -Infinity, -Infinity], runs = new Map();
  let count = 0, run = 0;
  for (let y = 0; y < image.height; y++)
    for (let x = 0; x <= image.width; x++) {
      const at = 4 * (y * image.width + x);
      if (x < image.width && Math.abs(data[at] - 230) < 3 && Math.abs(data[at + 1] - 26) < 3) {
        [area[0], area[1]] = [Math.min(area[0], x), Math.min(area[1], y)];
        [area[2], area[3]] = [Math.max(area[2], x), Math.max(area[3], y)];
        count++, run++;
      } else if (run) {
        runs.set(run, (runs.get(run) ?? 0) + 1);
        run = 0;
      }
    }
  const [width] = [...runs].sort((a, b) => b[1] - a[1])[0] ?? [0];
  done({count, area, width});
});
"""


def scan(columns=4, points=4000):
    """Rows in the order of a spinning sensor, so that the values of a column change little from row to row."""
    angle = np.linspace(0, 40 * np.pi, points)
    rows = np.zeros((points, columns), "<f4")
    rows[:, 0], rows[:, 1], rows[:, 2] = 30 + 20 * np.cos(angle), 20 * np.sin(angle), np.linspace(-2, 0.5, points)
    if columns > 3:
        rows[:, 3] = np.linspace(0, 1, points)
    if columns > 4:
        rows[:, 4] = np.arange(points) % 32
    return rows.tobytes()


def boxes(*rows, labels=None, scores=None):
    tensors = {"boxes": np.array(rows, "<f4"), "labels": np.array(labels or [0] * len(rows), "<i4")}
    if scores:
        tensors["scores"] = np.array(scores, "<f4")
    return save(tensors)


def setUpModule():
    if browser.why_not():
        raise unittest.SkipTest(browser.why_not())


class ViewCase(browser.BrowserCase):
    def setUp(self):
        super().setUp()
        self.emulate()

    def emulate(self, **as_what):
        self.addCleanup(self.browser.emulate)
        self.browser.emulate(**as_what)

    def open(self, state="", **files):
        """Opens the page with these files, the first a scan, or with a scan of few points instead of its sample."""
        self.browser.open_with(self.daemon, state, **(files or {"mine_bin": scan()}))

    def open_sample(self, state=""):
        self.browser.open(self.daemon, state)
        self.browser.await_text("#state", SHOWN)

    def drop(self, **files):
        """Drops files, and waits until the first, a scan, is shown."""
        self.browser.drop(**files)
        self.browser.await_text("#state", f"{next(iter(files)).replace('_', '.')}: ")

    def area(self, selector):
        return self.browser.run(AREA, self.browser.find(selector))

    def opacity(self, selector):
        return float(self.browser.run("return getComputedStyle(arguments[0]).opacity", self.browser.find(selector)))

    def displayed(self, selector):
        return self.browser.find(selector).is_displayed()

    def red(self):
        """The red pixels of the picture alone."""
        script = "for (const part of ['over', 'under', 'labels']) document.getElementById(part).style.opacity = "
        self.browser.run(script + "0")
        found = self.browser.driver.execute_async_script(RED, self.browser.picture())
        self.browser.run(script + "1")
        return found

    def inside(self, inner, outer):
        (left, top, right, bottom), (least_x, least_y, most_x, most_y) = self.area(inner), self.area(outer)
        self.assertTrue(least_x <= left < right <= most_x and least_y <= top < bottom <= most_y, (inner, outer))


class First(ViewCase):
    def test_the_first_view_shows_voxels_of_30_cm_from_nearby(self):
        self.open_sample()
        self.assertIn("voxel_size=0.3,0.3,0.2", self.browser.run("return location.hash"))
        everything = self.browser.look()["drawn"]
        self.browser.find("#layer-points").click()
        self.browser.find("#layer-box").click()
        voxels = self.browser.look()["drawn"]
        self.assertGreater(voxels, 0.5 * everything)  # the rest are points out of range and the grid

    def test_voxels_have_edges(self):
        self.open(TENS + "&view.layers=faces", one_bin=ONE)
        self.assertGreater(self.browser.look()["colours"], 10)  # without edges: three faces and the background

    def test_another_preset_brings_its_own_grid(self):
        self.open("#preset=kitti_second&voxel_size=0.3,0.3,0.2&fps=10")
        self.browser.set("#parameter-preset", "kitti_pointpillar")
        self.browser.await_text("#curl", "preset=kitti_pointpillar&fps=10")
        self.assertEqual(self.browser.find("#parameter-voxel_size").get_attribute("value"), "")

    def test_the_camera_is_fitted_to_another_preset(self):
        self.open("#preset=kitti_second&view.layers=box")
        self.browser.find("[data-look=top]").click()
        self.browser.set("#parameter-preset", "voxelize_cuda")
        self.browser.await_text("#curl", "preset=voxelize_cuda")
        self.browser.await_text("#state", SHOWN)
        self.assertNotIn("view.camera", self.browser.run("return location.hash"))
        after = self.browser.look()
        self.open("#preset=voxelize_cuda&view.layers=box")
        self.assertEqual(self.browser.look(), after)

    def test_the_grid_does_not_shine_through_pillars(self):
        for camera in ("-2.6,0.05,3,20,0,0", "-2.6,0.15,0.5,20,0,0", "-2.2,0.05,8,20,0,0"):
            self.open_sample(f"#preset=kitti_pointpillar&view.layers=faces&view.camera={camera}")
            without = self.browser.look()
            self.browser.find("#layer-box").click()
            self.assertTrue(self.browser.find("#layer-box").is_selected())
            self.assertEqual(self.browser.look(), without, camera)

    def test_the_camera_stays_while_frames_and_parameters_change(self):
        self.open("#preset=kitti_second&view.layers=box", a_bin=scan(), b_bin=scan(points=500))
        first = self.browser.look()
        self.browser.find("#frame").send_keys("\ue014")
        self.browser.await_text("#state", "b.bin: ")
        self.browser.set("#parameter-voxel_size", "0.8,0.8,0.5")
        self.browser.await_text("#state", SHOWN)
        self.assertEqual(self.browser.look(), first)


class Phone(ViewCase):
    def setUp(self):
        super().setUp()
        self.emulate(phone=True)

    def test_the_canvas_comes_first_and_forms_are_in_drawers(self):
        self.open()
        left, top, right, bottom = self.area("#canvas")
        self.assertEqual((left, right), (0, browser.PHONE[0]))
        self.assertGreater(bottom - top, 0.75 * browser.PHONE[1])
        drawers = ("#ask", "#tools", "#told")
        for drawer in drawers:
            self.assertFalse(self.displayed(drawer), drawer)
        for drawer in drawers:
            button = self.browser.find(f"[data-drawer={drawer[1:]}]")
            button.click()
            self.assertEqual([other for other in drawers if self.displayed(other)], [drawer])
            self.assertEqual(button.get_attribute("aria-expanded"), "true")
        button.click()
        self.assertFalse(self.displayed("#told"))
        self.assertLessEqual(self.browser.run("return document.documentElement.scrollWidth"), browser.PHONE[0])
        # It tells what fingers do.
        self.assertIn("two fingers move and zoom", self.browser.text("#keys"))
        self.assertNotIn("wheel", self.browser.text("#keys"))
        self.emulate()
        self.assertIn("wheel", self.browser.text("#keys"))
        self.assertNotIn("finger", self.browser.text("#keys"))

    def test_controls_have_44_pixels(self):
        self.open("#preset=kitti_second&steps=transform,far:transform")
        for drawer in ("ask", "tools", "told"):
            self.browser.find(f"[data-drawer={drawer}]").click()
            # The area of a checkbox or a hidden input is its label's.
            small = self.browser.run(
                "return [...document.querySelectorAll('button, select, input, summary, nav a')].map("
                "(one) => one.matches('[type=checkbox], [type=file]') ? one.closest('label') : one).filter("
                "(one) => one.offsetParent && (one.getBoundingClientRect().height < 44"
                " || one.matches('summary button') && one.offsetWidth < 44)).map((one) => one.outerHTML)"
            )
            self.assertEqual(small, [])

    def test_a_tapped_voxel_opens_the_result(self):
        self.open(TENS, one_bin=ONE)
        self.browser.look()
        self.browser.find("#canvas").click()
        self.assertTrue(self.displayed("#told"))
        self.assertIn("x, y, z 1, 1, 1", self.browser.text("#voxel"))

    def test_warnings_and_what_is_refused_lie_over_the_canvas(self):
        self.open("#preset=kitti_second&max_voxels=10")
        self.browser.await_text("#notes", "max_voxels=10 was reached")
        self.inside("#notes", "#canvas")
        self.browser.find("[data-drawer=ask]").click()
        self.browser.set("#parameter-max_voxels", "0")
        self.browser.await_text("#error", "max_voxels=0")
        self.inside("#error", "#canvas")
        left, top, right, bottom = self.area("#error")
        there = "return document.elementFromPoint(...arguments).closest('#error') != null"
        self.assertTrue(self.browser.run(there, (left + right) / 2, (top + bottom) / 2))


class Refused(ViewCase):
    def check(self, refused):
        self.assertTrue(self.browser.text("#error").startswith(f"Refused: {refused}\n"), self.browser.text("#error"))
        self.inside("#error", "#canvas")
        for old in ("#counts", "#timing", "#canvas"):
            self.assertLess(self.opacity(old), 0.5)

    def test_a_value(self):
        self.open()
        self.assertEqual(self.opacity("#counts"), 1)
        self.browser.set("#parameter-max_voxels", "0")
        self.browser.await_text("#error", "allowed")
        self.check("max_voxels=0")
        self.browser.set("#parameter-max_voxels", "")
        self.browser.await_text("#state", SHOWN)
        self.assertFalse(self.displayed("#error"))
        self.assertEqual(self.opacity("#counts"), 1)

    def test_a_file(self):
        self.open()
        self.browser.drop(letter_pcd=b"no point cloud")
        self.browser.await_text("#error", "letter.pcd")
        self.check("letter.pcd")
        self.assertFalse(self.displayed("#notes"))
        self.browser.drop(letter_bin=b"0.5 1.5 2.5\n" * 41)
        self.browser.await_text("#error", "letter.bin")
        self.assertFalse(self.displayed("#notes"))
        self.drop(scan_bin=scan())
        self.browser.await_text("#state", SHOWN)
        self.assertEqual(self.opacity("#canvas"), 1)


class Columns(ViewCase):
    def use(self, columns):
        buttons = self.browser.find("#notes").find_elements("tag name", "button")
        (button,) = [each for each in buttons if each.text == f"Use {columns} columns"]
        button.click()
        wait_until(lambda: "Use " not in self.browser.text("#notes"), lambda: self.browser.text("#over"))
        self.browser.await_text("#state", SHOWN)
        self.assertEqual(self.browser.find("#parameter-num_features").get_attribute("value"), str(columns))

    def test_rows_that_look_like_five_columns(self):
        self.open(sweep_bin=scan(5))
        self.browser.await_text("#notes", "look like 5 columns")
        self.inside("#notes", "#canvas")
        self.use(5)
        self.assertIn("the model expects 4", self.browser.text("#notes"))
        self.assertIn("points received 4,000", self.browser.text("#counts"))

    def test_a_refused_file_of_three_columns(self):
        self.open()
        self.browser.drop(plain_bin=scan(3, 4001))
        self.browser.await_text("#error", "plain.bin")
        self.assertEqual(self.browser.text("#notes").count("Use "), 1)
        self.use(3)
        self.assertIn("points received 4,001", self.browser.text("#counts"))
        self.assertFalse(self.displayed("#error"))


class Colours(ViewCase):
    def contrasts(self, name):
        return self.browser.driver.execute_async_script(CONTRASTS, name)

    def test_all_colours_stand_out_and_the_newest_sweep_most(self):
        self.open()
        light = self.browser.look()["sum"]
        for dark, least in ((False, 2), (True, 3)):
            self.emulate(dark=dark)
            for name in ("height", "age", "fate"):
                with self.subTest(name, dark=dark):
                    contrasts = self.contrasts(name)
                    self.assertGreaterEqual(min(contrasts), least)
                    if name == "age":
                        self.assertEqual(contrasts[0], max(contrasts))
        wait_until(lambda: self.browser.look()["sum"] != light, "a dark picture")


class Boxes(ViewCase):
    CAR = (30, 0, -1, 8, 4, 2, 0.3)

    def test_class_score_and_heading_are_at_the_box(self):
        self.open(PILLARS + "&view.layers=boxes", a_bin=scan(), a_safetensors=boxes(self.CAR, scores=[0.75]))
        found = self.red()
        left, top, right, bottom = found["area"]
        self.assertEqual(self.browser.run(LABELS), ["label 0 · 0.75 · 17°"])
        begin, _, end, below = self.area("#labels span")
        x, y = self.area("#canvas")[:2]
        self.assertTrue(left < (begin + end) / 2 - x < right, (found, begin, end))
        self.assertTrue(top <= below - y < bottom, (found, below))
        self.browser.find("#layer-boxes").click()
        wait_until(lambda: self.browser.run(LABELS) == [], "no labels")

    def test_a_velocity_is_a_line_and_a_number(self):
        self.open(PILLARS + "&view.layers=boxes")
        areas = []
        for velocity in ((), (0, 0), (-6, 8)):
            self.drop(a_bin=scan(), a_safetensors=boxes((*self.CAR, *velocity)))
            ending = f" · {np.hypot(*velocity):.1f} m/s" if velocity else ""
            self.assertEqual(self.browser.run(LABELS), [f"label 0 · 17°{ending}"])
            areas.append(self.red()["area"])
        self.assertEqual(areas[0], areas[1])
        self.assertNotEqual(areas[1], areas[2])

    def test_of_two_labels_that_overlap_the_better_is_shown(self):
        self.open(PILLARS)
        three = boxes(self.CAR, (30, 0.1, *self.CAR[2:]), (45, 10, *self.CAR[2:6], -3), scores=[0.5, 0.9, 0.1])
        self.drop(a_bin=scan(), a_safetensors=three)
        self.browser.look()
        self.assertEqual(self.browser.run(LABELS), ["label 0 · 0.90 · 17°", "label 0 · 0.10 · -172°"])

    def test_lines_are_two_pixels_wide_and_over_the_pillars(self):
        self.open(PILLARS, a_bin=scan(points=40000), a_safetensors=boxes((30, 0, -1, 8, 4, 2, 0)))
        self.browser.find("[data-look=top]").click()
        over = self.red()
        self.assertEqual(over["width"], 2)
        for layer in ("points", "faces", "box"):
            self.browser.find(f"#layer-{layer}").click()
        self.assertEqual(self.red(), over)


if __name__ == "__main__":
    unittest.main()
