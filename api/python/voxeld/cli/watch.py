"""Which scans of a folder are complete: those whose size and time have not changed for a while. Bags are left out: they
are complete only when their recorder has ended.

The folder is polled: inotify would not see files that other machines write."""

from __future__ import annotations

import time
from typing import Callable, Dict, List, Set, Tuple

from .bags import FILES as BAGS
from .scans import FORMATS, Path, Stamp, stamp, walk


class Watch:
    def __init__(self, folder: Path, settle: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._folder, self._settle, self._clock = folder, settle, clock
        self._seen: Dict[Path, Tuple[Stamp, float]] = {}  # stamp, and since when the file has had it
        self._taken: Dict[Path, Stamp] = {}
        self._bags: Set[Path] = set()
        self.bags: List[Path] = []  # bags that the last call of complete() found for the first time

    def complete(self) -> List[Path]:
        """The scans that became complete since the last call, including those that changed again."""
        now, found = self._clock(), []
        seen: Dict[Path, Tuple[Stamp, float]] = {}
        taken: Dict[Path, Stamp] = {}
        self.bags = []
        for path in walk(self._folder, (*FORMATS, *BAGS)):
            if path.suffix.lower() in BAGS:
                if path not in self._bags:
                    self.bags.append(path)
                self._bags.add(path)
                continue
            try:
                is_now = stamp(path)
            except OSError:
                continue  # the file is gone
            before = self._seen.get(path)
            seen[path] = before if before and before[0] == is_now else (is_now, now)
            if self._taken.get(path) == is_now:
                taken[path] = is_now
            elif now - seen[path][1] >= self._settle:
                taken[path] = is_now
                found.append(path)
        self._seen, self._taken = seen, taken
        return found

    def again(self, path: Path) -> None:
        """The scan was not answered: complete() returns it again."""
        self._taken.pop(path, None)
        self._seen.pop(path, None)
