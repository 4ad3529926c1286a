"""What the runs of all commands share."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, Dict, Optional

from ..client import Client
from ..uplink import AUTO
from . import options, pages
from .answers import Writer
from .batch import Report, Signals, say
from .parameters import SWEEP
from .scans import UsageError

DONE, FAILED, USAGE, INTERRUPTED = 0, 1, 2, 130
RECORD = "voxeld.json"  # in the folder of answers: their request
GOES_ON = "; the same command goes on from here"
NOT_RECORDED = ("latest", "timeout_ms", *SWEEP)  # the first two change no answer; SWEEP differs in each sweep


def end(status: int, reason: str) -> int:
    say(f"{options.PROGRAM}: {reason}")
    return status


def asked(args: argparse.Namespace, parameters: Dict[str, str]) -> Dict[str, Any]:
    """What the answers depend on."""
    request: Dict[str, Any] = {
        "operation": args.operation,
        "parameters": {name: value for name, value in parameters.items() if name not in NOT_RECORDED},
    }
    if args.uplink not in (None, AUTO):  # then the client rounds the points, which changes the answers
        request["uplink"] = args.uplink
    return request


def record(args: argparse.Namespace, request: Dict[str, Any]) -> None:
    """Writes the request to RECORD. UsageError if answers in the folder belong to another request, without --force."""
    path = args.output / RECORD
    try:
        before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
        if before == request:
            return
        if before is not None and not args.force:
            raise UsageError(
                f"{args.output} has answers of other parameters, which {path} shows; choose another folder"
            )
        Writer().write(path, (json.dumps(request, indent=2) + "\n").encode())
    except (OSError, ValueError) as reason:
        raise UsageError(f"cannot use {path}: {getattr(reason, 'strerror', None) or reason}") from None


def close(
    client: Client, report: Report, signals: Signals, skipped: int, total: Optional[int], hint: str = GOES_ON
) -> int:
    pages.summary(report, skipped, total, client.sent)
    if report.stopped:
        return end(FAILED, f"stopped: {report.stopped}{hint}")
    if signals.number:
        return end(128 + signals.number, f"stopped by a signal{hint}") if total else DONE
    return FAILED if report.errors or report.superseded else DONE


class Bar:
    """Progress, rate and remaining time, if standard error is a terminal."""

    def __init__(self, total: int, unit: str = " scans") -> None:
        self._bar: Any = None
        self._failed = 0
        if total and sys.stderr.isatty():
            from tqdm import tqdm  # type: ignore[import-untyped,unused-ignore]

            self._bar = tqdm(total=total, unit=unit, smoothing=0.05, dynamic_ncols=True)

    def step(self, failed: bool = False) -> None:
        if self._bar is None:
            return
        if failed:
            self._failed += 1
            self._bar.set_postfix(failed=self._failed, refresh=False)
        self._bar.update()

    def at(self, seconds: float, end: float) -> None:
        if self._bar is not None:
            self._bar.set_description(f"{seconds:.1f} of {end:.1f} s", refresh=False)

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()
