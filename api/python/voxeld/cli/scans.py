"""Finds scans, reads their points, and says where their answers belong."""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass
from typing import Any, Collection, Dict, Iterable, Iterator, List, Optional, Sequence, Tuple, Union

import numpy as np
from numpy.typing import NDArray

from ..cdr import Bytes

NPY, ROWS = ".npy", ".bin"
# The parameter `format` for each extension; None for rows, which need none.
FORMATS: Dict[str, Optional[str]] = {ROWS: None, NPY: None, ".pcd": "pcd", ".ply": "ply", ".cdr": "pointcloud2"}
Path = pathlib.Path
Stamp = Tuple[int, int]
Own = Tuple[Tuple[str, str], ...]  # parameters of a single scan


class UsageError(Exception):
    """The command cannot be run as given."""


class NoScans(Exception):
    """A folder has no scans."""


@dataclass(frozen=True)
class Scan:
    path: Path
    answer: Path
    own: Own = ()  # its time and pose, if it is one of many sweeps

    @property
    def name(self) -> str:
        return str(self.path)

    @property
    def told(self) -> Dict[str, Any]:
        return {"scan": self.name}

    def is_answered(self) -> bool:
        """Whether the answer is not older than the scan. An empty file does not count: a crash of the system may leave
        one."""
        try:
            answer = self.answer.stat()
            return answer.st_size > 0 and answer.st_mtime_ns >= self.path.stat().st_mtime_ns
        except OSError:
            return False

    def expect(self, before: Stamp) -> None:
        """ValueError if the file has changed."""
        try:
            same = stamp(self.path) == before
        except OSError:
            same = False
        if not same:
            raise ValueError("it changed before its answer was written")

    def read(self, given: Dict[str, Any]) -> Tuple[Union[Bytes, NDArray[Any]], Dict[str, Any]]:
        """The points and the scan's own parameters, such as `format`. OSError or ValueError if the points cannot be
        read."""
        kind, own = self.path.suffix.lower(), dict(self.own)
        if "format" in given:
            return _bytes_of(self.path), own
        if kind == NPY:
            try:
                return np.load(self.path, allow_pickle=False), own
            except EOFError:
                raise ValueError("it is not a whole .npy file") from None
        form = FORMATS[kind]
        return _bytes_of(self.path), own if form is None else {**own, "format": form}


def _bytes_of(path: Path) -> bytes:
    content = path.read_bytes()
    if not content:
        raise ValueError("it is empty")
    return content


def stamp(path: Path) -> Stamp:
    """Changes whenever the file is written to."""
    told = path.stat()
    return told.st_size, told.st_mtime_ns


@dataclass(frozen=True)
class Layout:
    """Where answers belong: below `output`, in the folders that the scans have below `root`."""

    output: Path
    extension: str
    root: Optional[Path] = None

    def scan(self, path: Path, base: Path) -> Scan:
        """`base` is the root if no root was given."""
        root = self.root or base
        try:
            below = Path(os.path.abspath(path)).relative_to(os.path.abspath(root))
        except ValueError:
            raise UsageError(f"{path} is not below --root {root}") from None
        return Scan(path, self.output / below.with_suffix(self.extension))


def find(names: Sequence[str], layout: Optional[Layout], any_kind: bool) -> List[Scan]:
    """The scans of files and folders. Without a layout no answers are written, and a scan's path serves as its
    answer's. `any_kind`: --format sets the format, so files given by name may have any extension. NoScans if a folder
    has none. UsageError if a name does not exist, or if two scans would have the same answer."""
    scans: Dict[Path, Scan] = {}
    for name in names:
        for scan in _scans_of(Path(name), layout, any_kind):
            other = scans.setdefault(scan.answer, scan)
            if os.path.abspath(other.path) != os.path.abspath(scan.path):
                raise UsageError(
                    f"{other.path} and {scan.path} would both be answered in {scan.answer}; "
                    "--root DIR gives answers the folders that scans have below DIR"
                )
    return list(scans.values())


def _scans_of(path: Path, layout: Optional[Layout], any_kind: bool) -> Iterable[Scan]:
    def scan(file: Path, base: Path) -> Scan:
        return layout.scan(file, base) if layout else Scan(file, file)

    if path.is_dir():
        found = [scan(file, path) for file in walk(path)]
        if not found:
            raise NoScans(f"{path} has no scans: files that end with {', '.join(FORMATS)}")
        return found
    if not os.path.lexists(path):
        raise UsageError(f"there is no {path}")
    if not any_kind and path.suffix.lower() not in FORMATS:
        raise UsageError(f"{path} is not {', '.join(FORMATS)}; --format says how its points are written")
    return [scan(path, path.parent)]


def walk(folder: Path, endings: Collection[str] = FORMATS) -> Iterator[Path]:
    """The scans, sorted by name. Hidden files and folders are skipped."""
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(files):
            if not name.startswith(".") and os.path.splitext(name)[1].lower() in endings:
                yield Path(place, name)
