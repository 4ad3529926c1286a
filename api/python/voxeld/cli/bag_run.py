"""Sends the messages with points from bags, in the order in which they were recorded."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any, Dict, List, Optional

from ..client import Client
from . import options
from .bags import MCAP, Bag, BagScan, decimal, open_all, scans_of, topic_of
from .batch import Job, Report, Signals, Workers
from .boxes import Printer
from .parameters import STREAM
from .poses import POSE, Motion, is_topic, read
from .recording import MESSAGES, Recorder, Recording
from .run import GOES_ON, Bar, asked, close, record
from .scans import Path, UsageError
from .transforms import Tree

PAUSE = 0.01  # seconds between checks for room
MOST_BEHIND = 4  # times --jobs: the maximum number of scans that were begun and whose answers are not written


def compute(client: Client, args: argparse.Namespace, parameters: Dict[str, str]) -> int:
    _refuse(args, parameters)
    bags = open_all(args.scans)
    try:
        run = _Run(client, args, parameters, bags)
        with Signals() as signals:
            run.send(signals)
        return run.end(signals)
    finally:
        for bag in bags:
            bag.close()


def _refuse(args: argparse.Namespace, parameters: Dict[str, str]) -> None:
    """UsageError for options that do not go with bags, or with the kind of output."""
    for name in ("format", "time"):
        if name in parameters:
            raise UsageError(f"{options.option_of(name)} is for files; a bag has its own")
    for name in ("root", "poses"):
        if getattr(args, name) is not None:
            raise UsageError(
                f"--{name} is for files" + ("; --pose names a topic of the bag" if name == "poses" else "")
            )
    if not is_topic(parameters.get(POSE, "/")):
        raise UsageError("--pose of a bag is the name of a topic")
    if args.output is None or args.output.suffix == MCAP:
        if "outputs" in parameters:
            raise UsageError("--outputs needs a folder as --output; tables and messages have only boxes or points")
        if args.output is not None and args.operation not in MESSAGES:
            raise UsageError(f"ROS has no message for the answers of {args.operation}; --output needs a folder")


def _motion_of(bags: List[Bag], topic: Optional[str], fixed: Optional[str], parameters: Dict[str, str]) -> Motion:
    Motion(None if topic is None else Tree(), fixed, parameters)  # refuses wrong usage before the bags are read
    return Motion(None if topic is None else read(bags, topic, parameters), fixed, parameters)


class _Run:
    def __init__(self, client: Client, args: argparse.Namespace, parameters: Dict[str, str], bags: List[Bag]) -> None:
        self._client, self._args, self._bags = client, args, bags
        self._topic, pose = topic_of(bags, args.topic), parameters.pop(POSE, None)
        self._motion = _motion_of(bags, pose, args.fixed_frame, parameters)
        self._streams = STREAM in parameters
        self._recording: Optional[Recording] = None
        request = asked(args, parameters)
        request.update(topic=self._topic, pose=pose, fixed_frame=args.fixed_frame)
        self._job = self._job_of(parameters, request)
        if not self._streams and pose is None:
            self._job.check()
        if args.output is not None and not self._recording:
            record(args, request)
        if self._streams:  # the service would refuse sweeps older than those of an earlier run
            client.stream(parameters[STREAM], 1).delete()
        self._total = sum(topic.count for bag in bags for topic in bag.topics if topic.name == self._topic)
        self._bar = Bar(self._total if args.output is not None else 0, " messages")
        self._report = Report(lambda _: self._bar.step(), lambda *_: self._bar.step(failed=True))
        self._skipped, self._answers = 0, set[Path]()

    def _job_of(self, parameters: Dict[str, str], request: Dict[str, Any]) -> Job:
        client, args = self._client, self._args
        if args.output is None:
            return Printer(client, parameters, args.json)
        if args.output.suffix != MCAP:
            return Job(client, args.operation, args.to, parameters)
        newest = max(bag.file.stat().st_mtime_ns for bag in self._bags)
        self._recording = Recording(args.output, request, newest, args.force, self._streams)
        return Recorder(client, args.operation, parameters, self._recording)

    def send(self, signals: Signals) -> None:
        """Sends the scans that have no answer, until a signal comes."""
        jobs = 1 if self._streams or self._args.output is None else self._args.jobs
        workers = Workers(self._job, self._report, jobs)
        first, last = self._bags[0].start, max(bag.end for bag in self._bags)
        scans = scans_of(self._bags, self._topic, self._args.output or Path(), f".{self._args.to}", self._report.fail)
        try:
            for scan in scans:
                if not self._has_room(workers, signals, jobs):
                    break
                self._bar.at((scan.time - first) / 1e9, (last - first) / 1e9)
                if self._is_answered(scan):
                    self._skipped += 1
                    self._bar.step()
                elif ready := self._ready(scan):
                    workers.put(ready)
        except OSError as reason:
            self._report.stop(f"cannot write {self._args.output}: {reason.strerror or reason}")
        workers.finish(signals)

    def _has_room(self, workers: Workers, signals: Signals, jobs: int) -> bool:
        """Waits until few scans are in progress, to bound the memory. False if the run is to end."""
        while not (workers.is_over() or signals.came):
            behind = self._recording.behind() if self._recording else 0
            if workers.waiting() < jobs and behind < MOST_BEHIND * jobs:
                return True
            signals.wait(PAUSE)
        return False

    def _is_answered(self, scan: BagScan) -> bool:
        if self._recording:
            return scan.number in self._recording.answered
        return self._args.output is not None and not (self._args.force or self._streams) and scan.is_answered()

    def _ready(self, scan: BagScan) -> Optional[BagScan]:
        """The scan with its time and poses. None if it fails before it is sent."""
        if scan.answer in self._answers:
            reason = f"its stamp, {decimal(scan.header.stamp)}, is that of an earlier message"
            self._report.fail(dataclasses.replace(scan, cloud=None), reason)
            return None
        try:
            scan = dataclasses.replace(scan, own=self._motion.own(scan.header))
        except ValueError as reason:
            self._report.fail(scan, str(reason))
            return None
        if self._args.output is not None and not self._recording:  # there is a file for each stamp
            self._answers.add(scan.answer)
        if self._recording:
            self._recording.expect(scan)
        return scan

    def end(self, signals: Signals) -> int:
        self._bar.close()
        if self._recording:
            try:
                self._recording.end(whole=not (self._report.stopped or signals.number))
            except OSError as reason:
                self._report.stop(f"cannot write {self._args.output}: {reason.strerror or reason}")
        resumes = self._args.output is not None and not self._streams
        total = max(self._total, self._skipped + self._report.done + len(self._report.errors))
        return close(self._client, self._report, signals, self._skipped, total, GOES_ON if resumes else "")
