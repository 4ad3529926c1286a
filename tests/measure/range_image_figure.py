"""Makes docs/range_image.svg: a simulated scan as a range image by elevation and by ring, drawn from the oracle.

    PYTHONPATH=tests/support python3 tests/measure/range_image_figure.py > docs/range_image.svg
"""

import subprocess
import sys

import numpy as np

import range_images
from daemon import SCAN

WIDTH, HEIGHT, SCALE, LEFT, TOP, GAP = 256, 64, 2, 12, 34, 30
FAR = 40.0  # metres; farther points have the same grey
GREYS = 8
STYLE = """
    .page { fill: #ffffff; }
    text { fill: #1b2530; font: 12px sans-serif; }
    path { fill: none; stroke-width: 1.02; }
    @media (prefers-color-scheme: dark) {
      .page { fill: #12171d; }
      text { fill: #d8e0e8; }
    }
"""


def runs(grey, level):
    """The pixels of one level as horizontal lines of a path."""
    lines = []
    for v, row in enumerate(grey == level):
        edges = np.flatnonzero(np.diff(row, prepend=False, append=False))
        lines += [f"M{begin} {v}.5h{end - begin}" for begin, end in zip(edges[::2], edges[1::2])]
    return "".join(lines)


def picture(points, title, top, **view):
    view = range_images.View(HEIGHT, WIDTH, channels=("range",), **view)
    tensors, _ = range_images.run(view, points, [len(points)])
    distance = tensors["range_image"][0, 0]
    grey = np.where(distance < 0, 0, GREYS - np.minimum(distance / FAR * GREYS, GREYS - 1).astype(int))
    shades = [round(255 * level / GREYS) for level in range(GREYS + 1)]
    paths = "".join(f'<path stroke="rgb({s},{s},{s})" d="{runs(grey, i)}"/>\n' for i, s in enumerate(shades))
    return (
        f'  <text x="{LEFT}" y="{top - 8}">{title}</text>\n'
        f'  <g transform="translate({LEFT} {top}) scale({SCALE})">\n{paths}  </g>\n'
    )


def figure(points):
    width, height = 2 * LEFT + SCALE * WIDTH, TOP + 2 * SCALE * HEIGHT + GAP + 12
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img">\n',
        "  <title>A simulated scan as a range image, by elevation and by ring</title>\n",
        f'  <style>{STYLE}  </style>\n  <rect class="page" width="{width}" height="{height}"/>\n',
        picture(points, "rows=elevation, 3 to -25 degrees: black rows have no beam", TOP),
        picture(points, "rows=ring_down: each row is a beam", TOP + SCALE * HEIGHT + GAP, rows="ring_down", ring=4),
        "</svg>\n",
    ]
    return "".join(parts)


if __name__ == "__main__":
    scan = subprocess.run([SCAN, "--columns", "5", "--seed", "3"], check=True, stdout=subprocess.PIPE).stdout
    sys.stdout.write(figure(np.frombuffer(scan, np.float32).reshape(-1, 5)))
