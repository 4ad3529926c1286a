"""Scans as sweeps of a stream: a file of poses in TUM's format has the time and the place of each scan."""

from __future__ import annotations

import dataclasses
from typing import List

from .scans import Own, Path, Scan, UsageError


def stamped(scans: List[Scan], path: Path) -> List[Scan]:
    """Each scan with the time and the pose of its line. UsageError if the file is malformed."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as reason:
        raise UsageError(f"cannot read {path}: {getattr(reason, 'strerror', None) or reason}") from None
    rows = [_own(f"{path}:{number}", line) for number, line in enumerate(text.splitlines(), 1) if _says(line)]
    if len(rows) != len(scans):
        raise UsageError(f"{path} has {len(rows)} poses for {len(scans)} scans")
    return [dataclasses.replace(scan, own=own) for scan, own in zip(scans, rows)]


def _says(line: str) -> bool:
    return bool(line.strip()) and not line.lstrip().startswith("#")


def _own(place: str, line: str) -> Own:
    words = line.split()
    try:
        if len(list(map(float, words))) != 8:
            raise ValueError
    except ValueError:
        raise UsageError(f"{place} is not a line of 8 numbers: time x y z qx qy qz qw") from None
    time, x, y, z, qx, qy, qz, qw = words
    return ("time", time), ("pose", ",".join((x, y, z, qw, qx, qy, qz)))
