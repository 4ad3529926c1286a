"""The figure and the table of tests/measure/growth: panels of series, each on two logarithmic axes. Pure functions."""

import collections
import html
import math

Panel = collections.namedtuple("Panel", "title amount unit")
PANELS = {
    "kernel": Panel("Kernel, by points", "points", "ms"),
    "voxels": Panel("Kernel, 1,024,000 points, by voxels", "voxels", "ms"),
    "request": Panel("A request of a lone client, by points", "points", "ms"),
    "clients": Panel("Processor time of a request, by clients", "clients", "ms"),
    "memory": Panel("Resident memory, by points of a request", "points", "MB"),
    "client memory": Panel("Resident memory, by clients", "clients", "MB"),
}
SERIES = {"voxeld": "own", "plain voxelizer": "plain", "service that does nothing": "floor"}  # and their CSS classes
WINDOW = 8  # the steepest slope is over at least this factor of work, because single steps are noisy

WIDTH, HEIGHT, COLUMNS = 330, 240, 2
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 44, 40
STYLE = """
    .page { fill: #ffffff; }
    .frame { fill: none; stroke: #8a96a3; }
    .grid { stroke: #dfe5eb; }
    .own { stroke: #1f5fa8; fill: #1f5fa8; }
    .plain, .floor { stroke: #b3541e; fill: #b3541e; }
    .plain { stroke-dasharray: 6 3; }
    .floor { stroke-dasharray: 2 3; }
    .point { stroke: none; }
    .line { fill: none; stroke-width: 2; }
    text { fill: #1b2530; font-size: 12px; }
    .title { font-weight: 600; font-size: 13px; }
    .tick { fill: #4a5764; font-size: 11px; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #12171d; }
      .grid { stroke: #2b343f; }
      .own { stroke: #7fb2e5; fill: #7fb2e5; }
      .plain, .floor { stroke: #f0a36b; fill: #f0a36b; }
      .point { stroke: none; }
      .line { fill: none; }
      text { fill: #e6ebf0; }
      .tick { fill: #aab6c2; }
    }
"""


def row_name(panel, series, amount):
    return f"growth: {panel}, {series}, {amount}"


def series_of(rows):
    """{panel: {series: [(amount of work, least sample)]}} of a report's rows; other rows are left out."""
    found = {}
    for name, row in rows.items():
        _, growth, rest = name.partition("growth: ")
        panel, series, amount = rest.split(", ") if growth else (None, None, None)
        if panel in PANELS:
            found.setdefault(panel, {}).setdefault(series, []).append((int(amount), min(row.samples)))
    for panel in found.values():
        for points in panel.values():
            points.sort()
    return found


# ---- the table ----


def slope(first, last):
    """The exponent of growth between two points: 1 if twice the work takes twice as much."""
    return math.log(last[1] / first[1]) / math.log(last[0] / first[0])


def steepest(points):
    """The steepest slope over at least WINDOW, as (slope, first amount, last amount)."""
    pairs = [(one, two) for one in points for two in points if two[0] >= WINDOW * one[0]]
    return max((slope(one, two), one[0], two[0]) for one, two in pairs)


def figures(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def table(series):
    lines = ["| what | from | to | slope | steepest |", "| --- | --- | --- | --- | --- |"]
    for key, panel in PANELS.items():
        for name, points in series.get(key, {}).items():
            ends = [f"{amount:,}: {figures(value)} {panel.unit}" for amount, value in (points[0], points[-1])]
            top, begin, end = steepest(points)
            slopes = f"{slope(points[0], points[-1]):.2f} | {top:.2f} ({begin:,} to {end:,})"
            lines.append(f"| {panel.title}: {name} | {' | '.join(ends)} | {slopes} |")
    return "\n".join(lines)


# ---- the figure ----


class Axis:
    """A logarithmic axis over whole decades, from `begin` to `end` in the picture."""

    def __init__(self, values, begin, end):
        self.low, self.high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
        self.high = max(self.high, self.low + 1)
        self.begin, self.end = begin, end

    def at(self, value):
        share = (math.log10(value) - self.low) / (self.high - self.low)
        return round(self.begin + share * (self.end - self.begin), 1)

    def ticks(self):
        return [10.0**power for power in range(self.low, self.high + 1)]


def label(value):
    if value >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value / 1e3:g}k" if value >= 1e3 else f"{value:g}"


def draw_series(points, across, up, kind):
    places = [(across.at(amount), up.at(value)) for amount, value in points]
    yield f'<polyline class="line {kind}"'
    yield f'  points="{" ".join(f"{x},{y}" for x, y in places)}"/>'
    yield from (f'<circle class="point {kind}" cx="{x}" cy="{y}" r="2.5"/>' for x, y in places)


def draw_panel(panel, series, left, top):
    values = [value for points in series.values() for _, value in points]
    across = Axis([amount for points in series.values() for amount, _ in points], left + LEFT, left + WIDTH - RIGHT)
    up = Axis(values, top + HEIGHT - BOTTOM, top + TOP)
    yield f'<text class="title" x="{left + 8}" y="{top + 16}">{html.escape(panel.title)}</text>'
    for tick in across.ticks():
        x = across.at(tick)
        yield f'<line class="grid" x1="{x}" y1="{up.end}" x2="{x}" y2="{up.begin}"/>'
        yield f'<text class="tick" x="{x}" y="{up.begin + 15}" text-anchor="middle">{label(tick)}</text>'
    for tick in up.ticks():
        y = up.at(tick)
        yield f'<line class="grid" x1="{across.begin}" y1="{y}" x2="{across.end}" y2="{y}"/>'
        yield f'<text class="tick" x="{across.begin - 6}" y="{y + 4}" text-anchor="end">{label(tick)}</text>'
    yield f'<text class="tick" x="{across.end}" y="{up.begin + 30}" text-anchor="end">{panel.amount}</text>'
    yield f'<text class="tick" x="{left + 8}" y="{top + 34}">{panel.unit}</text>'
    frame = f'x="{across.begin}" y="{up.end}" width="{across.end - across.begin}" height="{up.begin - up.end}"'
    yield f'<rect class="frame" {frame}/>'
    for name, points in series.items():
        yield from draw_series(points, across, up, SERIES[name])


def draw_legend(y):
    x = 8
    for name, kind in SERIES.items():
        yield f'<line class="line {kind}" x1="{x}" y1="{y}" x2="{x + 30}" y2="{y}"/>'
        yield f'<text x="{x + 36}" y="{y + 4}">{name}</text>'
        x += 60 + 7 * len(name)


def draw(series):
    shown = [key for key in PANELS if key in series]
    width, height = WIDTH * COLUMNS, 40 + HEIGHT * -(-len(shown) // COLUMNS)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-labelledby="title"',
        '     font-family="system-ui, sans-serif">',
        '  <title id="title">Time and memory as work grows, on logarithmic axes</title>',
        f"  <style>{STYLE}  </style>",
        f'  <rect class="page" width="{width}" height="{height}"/>',
    ]
    parts += ["  " + line for line in draw_legend(22)]
    for number, key in enumerate(shown):
        row, column = divmod(number, COLUMNS)
        parts += ["  " + line for line in draw_panel(PANELS[key], series[key], column * WIDTH, 40 + row * HEIGHT)]
    return "\n".join([*parts, "</svg>", ""])
