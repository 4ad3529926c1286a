"""Detections as text: a table of boxes for each scan, or JSON with one object per line."""

from __future__ import annotations

import json
import math
from typing import Any, Dict, List

import numpy as np
from numpy.typing import NDArray

from .. import ros, tensors
from ..client import Client
from ..errors import BadAnswer, RequestWarning
from ..operations import DetectResult
from ..result import Result
from .batch import Job, Stop, printable
from .parameters import DETECT
from .scans import Scan

CENTRE, SIZE, HEADING, VELOCITY = slice(0, 3), slice(3, 6), 6, slice(7, 9)  # of a box's values
COLUMNS = ("score", "x", "y", "z", "dx", "dy", "dz", "heading", "vx", "vy")
WIDTH = 8  # of a column of numbers


class BoxReader:
    """Reads answers with boxes. Where tracks begin anew, continues their ids after the highest id so far. Threads may
    share a reader if the answers have no tracks."""

    def __init__(self) -> None:
        self._added = self._highest = 0  # what is added to the ids of tracks; the highest id so far

    def read(self, file: NDArray[np.uint8]) -> DetectResult:
        result = DetectResult(*tensors.parse(file))
        ids, tracks = result.tensors.get("track_ids"), result.metadata.get("tracks")
        if ids is None or not isinstance(tracks, dict):
            return result
        if tracks.get("begun"):
            self._added = self._highest
        result.tensors["track_ids"] = ids = ids + self._added
        self._highest = int(ids.max(initial=self._highest))
        return result


class Printer(Job):
    """Prints boxes instead of writing answers. For one thread."""

    def __init__(self, client: Client, parameters: Dict[str, str], as_json: bool) -> None:
        super().__init__(client, DETECT, "safetensors", parameters)
        self._as_json, self._boxes = as_json, BoxReader()

    def run(self, scan: Scan) -> List[RequestWarning]:
        result = self._boxes.read(self.ask(scan))
        text = line(scan.told, result) if self._as_json else table(scan.name, result)
        try:
            print(text, flush=True)
        except OSError as reason:
            raise Stop(f"cannot print: {reason.strerror}") from None
        return result.warnings


def name_of(result: Result, label: int) -> str:
    names = result.metadata.get("class_names")
    return str(names[label]) if isinstance(names, list) and 0 <= label < len(names) else str(label)


def _rows(result: Result) -> NDArray[np.float32]:
    """Returns [N, 1 + values]: scores and boxes. BadAnswer if they are missing."""
    boxes, scores, labels = (result.tensors.get(name) for name in ("boxes", "scores", "labels"))
    if boxes is None or scores is None or labels is None or boxes.ndim != 2 or boxes.shape[1] not in (7, 9):
        raise BadAnswer("the answer has no boxes")
    if not len(boxes) == scores.size == labels.size:
        raise BadAnswer("the answer's boxes, scores and labels are not the same in number")
    return np.column_stack((scores, boxes))


def table(name: str, result: Result) -> str:
    rows = _rows(result)
    rows[:, 1 + HEADING] = np.remainder(np.degrees(rows[:, 1 + HEADING]) + 180, 360) - 180
    names = [name_of(result, int(label)) for label in result["labels"]]
    first = max(map(len, ("class", *names)))
    digits = (2,) * (1 + HEADING) + (1, 2, 2)
    timing = result.timing  # None with --metadata stable
    took = "" if timing is None else f" in {timing.get('total', math.nan) / 1000:.1f} ms"
    lines = [f"{name}: {len(rows)} boxes{took}"]
    tracks = [[own.rjust(WIDTH)] for own in ros.tracks_of(result)]
    if names:
        titles = (*(["track"] if tracks else []), *COLUMNS[: rows.shape[1]])
        lines.append("  ".join(("class".ljust(first), *(title.rjust(WIDTH) for title in titles))))
    for name, own, row in zip(names, tracks or [[]] * len(names), rows):
        lines.append("  ".join((name.ljust(first), *own, *(f"{value:{WIDTH}.{n}f}" for value, n in zip(row, digits)))))
    return "\n".join(map(printable, lines))


def line(scan: Dict[str, Any], result: Result) -> str:
    boxes: List[Dict[str, Any]] = []
    rows = _rows(result)
    tracks = [{"track": int(own)} for own in ros.tracks_of(result)] or [{}] * len(rows)
    for (score, *values), label, track in zip(rows, result["labels"], tracks):
        numbers = [float(str(value)) for value in values]  # the shortest text that reads back as the same float32
        box = {"class": name_of(result, int(label)), "label": int(label), "score": float(str(score))}
        box.update(center=numbers[CENTRE], size=numbers[SIZE], heading=numbers[HEADING])
        boxes.append({**box, **track, **({"velocity": numbers[VELOCITY]} if len(numbers) > HEADING + 1 else {})})
    timing = {} if result.timing is None else {"timing_us": result.timing}
    return json.dumps({**scan, "boxes": boxes, **timing})
