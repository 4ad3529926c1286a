"""Prints the presets, the models, the streams and the status of the service, and the summary of a run."""

from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ..client import Client
from ..uplink import Sent
from .batch import Report, printable, say
from .options import PROGRAM

MOST_ERRORS = 20  # lines; further errors are only counted


def presets(client: Client, name: Optional[str], as_json: bool) -> None:
    if name is not None:
        preset = client.preset(name)
        print(json.dumps(preset) if as_json else _lines(preset.items()))
        return
    found = client.presets()
    if as_json:
        print(json.dumps(found))
    else:
        print(_lines((preset.get("name"), preset.get("description")) for preset in found))


def models(client: Client, name: Optional[str], as_json: bool) -> None:
    if name is not None:
        model = client.model(name)
        print(json.dumps(model) if as_json else _lines(model.items()))
        return
    found = client.models()
    if as_json:
        print(json.dumps(found))
    else:
        print(_lines((model.get("name"), _word_of(model)) for model in found))


def _word_of(model: Dict[str, Any]) -> Any:
    return model.get("description") if model.get("ready") else f"cannot be used: {model.get('reason')}"


def streams(client: Client, name: Optional[str], as_json: bool) -> None:
    if name is not None:
        stream = client.stream(name, 1).status()
        print(json.dumps(stream) if as_json else _lines(stream.items()))
        return
    found = client.streams()
    if as_json:
        print(json.dumps(found))
    else:
        print(_lines((stream.get("name"), _words_of(stream)) for stream in found))


def _words_of(stream: Dict[str, Any]) -> str:
    return f"{stream.get('kept')} sweeps, {stream.get('points')} points, the last sweep at time {stream.get('time')}"


def status(client: Client, as_json: bool) -> None:
    document = client.status()
    print(json.dumps(document) if as_json else _lines(document.items()))


def summary(report: Report, skipped: int, total: Optional[int], sent: Optional[Sent]) -> None:
    """`total` is None for a watch, which has no end; `sent` is None without --uplink."""
    for kind, (times, detail) in sorted(report.warnings.items()):
        say(f"warning {kind} for {times} of {report.done} scans, such as: {detail}")
    if total is not None:  # otherwise each error was printed when it came
        errors = sorted(report.errors.items())
        for name, reason in errors[:MOST_ERRORS]:
            say(f"failed {name}: {reason}")
        if len(errors) > MOST_ERRORS:
            say(f"failed: {len(errors) - MOST_ERRORS} more")
    if sent and sent.plain_bytes:
        share, error = f"{sent.ratio:.1%} of their {sent.plain_bytes} bytes", f"largest error {sent.largest_error:g}"
        say(f"points: sent as {sent.encoding}, in {share}; {error}")
    seconds = report.seconds()
    counts = f"{report.done} done, {skipped} skipped, {len(report.errors)} failed"
    if report.superseded:
        counts += f", {report.superseded} superseded"
    if total is not None and (left := total - report.done - skipped - len(report.errors) - report.superseded):
        counts += f", {left} not begun"
    say(f"{PROGRAM}: {counts}; {seconds:.1f} s, {report.done / max(seconds, 1e-9):.1f} scans/s")


def _lines(items: Any) -> str:
    """One line for each value. The members of an object are NAME.MEMBER."""
    rows: List[Tuple[str, str]] = [row for name, value in items for row in _rows(str(name), value)]
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join(printable(f"{name:<{width}}  {value}") for name, value in rows)


def _rows(name: str, value: Any) -> Iterator[Tuple[str, str]]:
    if isinstance(value, dict):
        for member, inner in value.items():
            yield from _rows(f"{name}.{member}", inner)
    elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
        for number, item in enumerate(value):
            yield from _rows(f"{name}.{number}", item)
    elif isinstance(value, list):
        yield name, ",".join(str(item) for item in value)
    else:
        yield name, value if isinstance(value, str) else json.dumps(value)
