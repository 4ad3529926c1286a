"""The figure of growth (tests/measure/growth_figure.py) on made-up rows, and the committed figure."""

import sys
import unittest
import xml.etree.ElementTree as xml

from daemon import ROOT

sys.path.insert(0, str(ROOT / "tests/measure"))
import growth_figure as figure  # noqa: E402
import report  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"
WORK = (1000, 4000, 16000, 64000, 256000)


def rows(panel, series, cost):
    return {figure.row_name(panel, series, work): report.Row("ms", [9 * cost(work), cost(work)]) for work in WORK}


class Growth(unittest.TestCase):
    def test_the_least_sample_is_taken_and_other_rows_are_ignored(self):
        found = figure.series_of({**rows("kernel", "voxeld", lambda work: work), "preset on scan, cpu": None})
        self.assertEqual({"kernel": {"voxeld": [(work, work) for work in WORK]}}, found)

    def test_slopes_are_exponents(self):
        for power in (0, 0.5, 1, 2):
            points = [(work, 3 * work**power) for work in WORK]
            self.assertAlmostEqual(power, figure.slope(points[0], points[-1]))
            self.assertAlmostEqual(power, figure.steepest(points)[0])

    def test_the_steepest_stretch_is_named(self):
        points = [(work, work if work <= 4000 else work**2 / 4000) for work in WORK]
        slope, begin, end = figure.steepest(points)
        self.assertAlmostEqual(2, slope)
        self.assertIn((begin, end), ((4000, 64000), (4000, 256000), (16000, 256000)))

    def test_the_table_has_a_line_for_each_series(self):
        series = figure.series_of(rows("kernel", "voxeld", lambda work: work / 1e3))
        line = "| Kernel, by points: voxeld | 1,000: 1 ms | 256,000: 256 ms | 1.00 | 1.00 "
        self.assertIn(line, figure.table(series))

    def test_proportional_growth_is_a_straight_line(self):
        root = xml.fromstring(figure.draw(figure.series_of(rows("kernel", "voxeld", lambda work: work / 1e3))))
        (line,) = root.iter(SVG + "polyline")
        places = [tuple(map(float, place.split(","))) for place in line.get("points").split()]
        steps = [((b[1] - a[1]) / (b[0] - a[0])) for a, b in zip(places, places[1:])]
        self.assertLess(max(steps), 0)  # y counts downwards
        for step in steps:
            self.assertAlmostEqual(steps[0], step, places=2)

    def test_the_committed_figure_has_every_panel(self):
        root = xml.parse(ROOT / "docs/contribute/growth.svg").getroot()
        texts = {text.text for text in root.iter(SVG + "text")}
        self.assertLessEqual({panel.title for panel in figure.PANELS.values()} | set(figure.SERIES), texts)
        width, height = map(float, root.get("viewBox").split()[2:])
        for circle in root.iter(SVG + "circle"):
            self.assertTrue(0 < float(circle.get("cx")) < width and 0 < float(circle.get("cy")) < height)


if __name__ == "__main__":
    unittest.main(verbosity=2)
