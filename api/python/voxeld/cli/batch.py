"""Asks the service for the answers to many scans. Each thread reads a scan, posts it and writes its answer before it
takes the next scan, so at most `jobs` files and answers are in memory. Messages of bags are in memory before a thread
takes them: bag_run.py limits their number."""

from __future__ import annotations

import queue
import signal
import sys
import threading
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from ..client import Client
from ..errors import Error, Problem, RequestWarning, Superseded
from .answers import KINDS, Body, Writer, warnings_of
from .scans import Scan, stamp

PATIENCE = 5.0  # seconds in which running requests may end after a signal
TICK = 0.1  # seconds between checks for signals while waiting
DENIED = (401, 403, 404)  # refusals that apply to every other scan too


def is_final(problem: Problem, scan: Scan) -> bool:
    """Whether the service would refuse all other scans too. The service sees bad parameters of a stream only in the
    first sweep, so Job.check() does not find them."""
    return problem.status in DENIED or (bool(scan.own) and problem.kind == "bad-parameter")


class Job:
    def __init__(self, client: Client, operation: str, kind: str, parameters: Dict[str, Any]) -> None:
        self._client, self._operation, self._kind, self._parameters = client, operation, kind, parameters
        self._file: Callable[..., Body] = client.file_bytes
        self._writer = Writer()

    def check(self) -> None:
        """Asks for the answer to a scan without points. Raises Problem if the service would refuse every scan or
        refuses temporarily, and another Error if there is no service. Ignores refusals of the points."""
        given = {**self._parameters, "latest": None}  # this check supersedes no request
        try:
            self._file(self._operation, b"", KINDS[self._kind].media_type, **given)
        except Problem as problem:
            if problem.status in DENIED or problem.kind == "bad-parameter" or problem.temporary:
                raise

    def run(self, scan: Scan) -> List[RequestWarning]:
        """Writes the answer to one scan. Raises Stop if all other scans would fail as well."""
        before = stamp(scan.path)
        body = self.ask(scan)
        warnings = warnings_of(self._kind, body)
        try:
            # If the scan changes meanwhile, no answer appears. A later change is newer than the answer, so the next run
            # sees it.
            self._writer.write(scan.answer, body.data, lambda: scan.expect(before))
        except OSError as reason:
            raise Stop(f"cannot write {scan.answer}: {reason.strerror or reason}") from None
        return warnings

    def ask(self, scan: Scan) -> Body:
        """Raises Stop as run() does."""
        points, told = scan.read(self._parameters)
        try:
            media_type = KINDS[self._kind].media_type
            return self._file(self._operation, points, media_type, **self._parameters, **told)
        except Problem as problem:
            if is_final(problem, scan):
                raise Stop(str(problem)) from None
            raise

    def is_served(self) -> bool:
        try:
            return self._client.ready()
        except (Error, OSError):
            return False

    def abandon(self) -> None:
        self._writer.abandon()


class Stop(Exception):
    """No further scan can be answered."""


class Report:
    """Counts of a run. Threads may share a report."""

    def __init__(self, on_done: Callable[[Scan], None], on_error: Callable[[Scan, str], None]) -> None:
        self.done = self.superseded = 0
        self.errors: Dict[str, str] = {}  # by the names of scans
        self.warnings: Dict[str, Tuple[int, str]] = {}  # by kind: the number of answers with it, and the first detail
        self.stopped: Optional[str] = None
        self._on_done, self._on_error = on_done, on_error
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._closed = False

    def close(self) -> None:
        """From now on nothing changes the report."""
        with self._lock:
            self._closed = True

    def add(self, scan: Scan, warnings: List[RequestWarning]) -> None:
        with self._lock:
            if self._closed:
                return
            self.done += 1
            self.errors.pop(scan.name, None)
            for warning in warnings:
                times, detail = self.warnings.get(warning.kind, (0, warning.detail))
                self.warnings[warning.kind] = times + 1, detail
            self._on_done(scan)

    def supersede(self) -> None:
        with self._lock:
            self.superseded += not self._closed

    def fail(self, scan: Scan, reason: str) -> None:
        with self._lock:
            if self._closed:
                return
            repeated = self.errors.get(scan.name) == reason
            self.errors[scan.name] = reason
            if not repeated:
                self._on_error(scan, reason)

    def stop(self, reason: str) -> None:
        with self._lock:
            self.stopped = self.stopped or reason

    def seconds(self) -> float:
        return time.monotonic() - self._began


class Signals:
    """`came` is true once SIGINT or SIGTERM came in the `with` block. A second signal ends the program at once. Only
    the main thread may wait.

    The handler wakes wait() with a plain lock. An Event could deadlock: Python may call the handler within
    Event.wait(), which holds a lock that Event.set() needs."""

    def __init__(self) -> None:
        self.number = 0
        self._wake = threading.Lock()
        self._wake.acquire()

    @property
    def came(self) -> bool:
        return self.number != 0

    def wait(self, seconds: float) -> bool:
        """Waits for a signal. Returns whether one has come."""
        if not self.came:
            self._wake.acquire(timeout=seconds)
        return self.came

    def __enter__(self) -> Signals:
        self._before = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: Any) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, number: int, _: Any) -> None:
        self.number = number
        if self._wake.locked():
            self._wake.release()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


class Workers:
    """Threads that do the job for each scan that is put. If `persistent`, they go on although the service does not
    answer; unanswered() has the scans to put again."""

    def __init__(self, job: Job, report: Report, jobs: int, persistent: bool = False) -> None:
        self._job, self._report, self._persistent = job, report, persistent
        self._queue: queue.SimpleQueue[Optional[Scan]] = queue.SimpleQueue()
        self._again: queue.SimpleQueue[Scan] = queue.SimpleQueue()
        self._over = threading.Event()
        self._threads = [threading.Thread(target=self._work, daemon=True) for _ in range(jobs)]
        for thread in self._threads:
            thread.start()

    def put(self, scan: Scan) -> None:
        self._queue.put(scan)

    def waiting(self) -> int:
        return self._queue.qsize()

    def unanswered(self) -> Iterator[Scan]:
        """Scans that failed temporarily since the last call."""
        while not self._again.empty():
            yield self._again.get()

    def is_over(self) -> bool:
        return self._over.is_set()

    def finish(self, signals: Signals) -> None:
        """Waits until all scans are done or a signal comes, then ends."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            while thread.is_alive() and not signals.came:
                thread.join(TICK)
        if signals.came:
            self._over.set()
            say(f"waiting for the scans in progress, for {PATIENCE:g} s at most")
        self.end()

    def end(self) -> None:
        """Waits briefly for the running scans."""
        self._over.set()
        for _ in self._threads:
            self._queue.put(None)
        until = time.monotonic() + PATIENCE
        try:
            for thread in self._threads:
                thread.join(max(0.0, until - time.monotonic()))
        finally:
            self._report.close()
            self._job.abandon()

    def _work(self) -> None:
        while True:
            scan = self._queue.get()
            if scan is None or self._over.is_set():
                return
            try:
                self._report.add(scan, self._job.run(scan))
            except Stop as reason:
                self._stop(str(reason))
            except Superseded:
                self._report.supersede()
            except Error as reason:
                self._fail(scan, reason)
            except (OSError, ValueError, TypeError, MemoryError) as reason:
                self._report.fail(scan, str(getattr(reason, "strerror", None) or reason or type(reason).__name__))
            except Exception as reason:  # a bug; the other threads must not wait for this thread
                self._stop(f"{scan.name}: {type(reason).__name__}: {reason}")

    def _fail(self, scan: Scan, error: Error) -> None:
        if error.temporary and not self._persistent and not self._over.is_set() and not self._job.is_served():
            self._stop(f"the service does not answer any more: {error}")
        else:
            self._report.fail(scan, str(error))
            if error.temporary and self._persistent:
                self._again.put(scan)

    def _stop(self, reason: str) -> None:
        self._report.stop(reason)
        self._over.set()


def printable(text: str) -> str:
    """Text for the terminal, without the control characters that a file or an answer may have."""
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in text)


def say(text: str) -> None:
    print(printable(text), file=sys.stderr, flush=True)
