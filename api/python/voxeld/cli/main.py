"""Runs a command of the command line and returns the exit status."""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import re
import sys
import warnings
from typing import Any, Callable, Dict, List, Optional, Sequence

import numpy as np
from numpy.typing import NDArray

from ..client import Client
from ..errors import Error, Problem, RequestWarning, SharedMemoryWarning, TransportError
from . import bag_run, bags, live, options, pages
from .answers import Writer
from .batch import Job, Report, Signals, Stop, Workers, say
from .boxes import Printer
from .parameters import OPERATIONS, STREAM, SWEEP
from .poses import stamped
from .run import DONE, FAILED, GOES_ON, INTERRUPTED, USAGE, Bar, asked, close, end, record
from .scans import NPY, ROWS, Layout, NoScans, Path, Scan, UsageError, find
from .watch import Watch


def program() -> None:
    """The command as a program. It ends at once: a thread that is inside Zenoh or a viewer while the interpreter shuts
    down would abort the process."""
    try:
        status = main()
    except SystemExit as end_of_options:  # after --help, or a usage error
        status = end_of_options.code if isinstance(end_of_options.code, int) else DONE
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):  # the reader may have closed it
            stream.flush()
    os._exit(status)


def main(argv: Optional[Sequence[str]] = None) -> int:
    _complete()
    told = options.parse(sys.argv[1:] if argv is None else argv)
    try:
        with _client(told) as client:
            return COMMANDS[told.command](client, told)
    except UsageError as reason:
        return end(USAGE, str(reason))
    except NoScans as reason:
        return end(FAILED, str(reason))
    except Problem as problem:
        return end(USAGE if problem.kind == "bad-parameter" else FAILED, str(problem))
    except TransportError as reason:  # the text names the server
        return end(FAILED, f"no answer from {reason}")
    except Error as reason:
        return end(FAILED, f"no answer from {told.server}: {reason}")
    except BrokenPipeError:  # the reader has closed the output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _complete() -> None:
    """Completes the word that a shell asks for, if argcomplete is installed."""
    if "_ARGCOMPLETE" in os.environ:
        try:
            import argcomplete  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            return
        argcomplete.autocomplete(options.parser())


def _client(told: argparse.Namespace) -> Client:
    if told.key and not told.cert:
        raise UsageError("--key needs --cert")
    warnings.simplefilter("ignore", SharedMemoryWarning)  # the socket does as well
    warnings.simplefilter("ignore", RequestWarning)  # the summary shows these warnings
    try:
        return Client(
            told.server,
            token=_token(told.token_file) if told.token_file else None,
            ca_file=told.ca,
            certificate=(told.cert, told.key) if told.key else told.cert,
            timeout=told.timeout,
            deadline=told.deadline,
            retries=told.retries,
            idle_connections=getattr(told, "jobs", 1),
            shared_memory=told.shared_memory and told.uplink is None,
            uplink=told.uplink,
        )
    except (OSError, ValueError) as reason:
        raise UsageError(str(reason)) from None


def _token(path: Path) -> str:
    text = path.read_text(encoding="utf-8").strip()
    if re.search(r"\ssha256:", text):
        raise ValueError(f"{path} has hashes of tokens, for the service; expected the token that --new-token printed")
    return text


def _parameters(told: argparse.Namespace) -> Dict[str, str]:
    try:
        return options.parameters(told)
    except ValueError as reason:
        raise UsageError(str(reason)) from None


# --- commands ---


def _compute(client: Client, told: argparse.Namespace) -> int:
    parameters = _parameters(told)
    if any(bags.is_bag(Path(name)) for name in told.scans):
        return bag_run.compute(client, told, parameters)
    if given := [option for option in ("topic", "fixed_frame") if getattr(told, option) is not None]:
        raise UsageError(f"{options.option_of(given[0])} needs a bag: {', '.join(bags.ENDINGS)}")
    if told.output is None:
        return _print_boxes(client, told, parameters)
    layout = Layout(told.output, f".{told.to}", told.root)
    streams = STREAM in parameters
    scans = _sweeps(told, parameters, find(told.scans, layout, "format" in parameters))
    todo = [scan for scan in scans if told.force or streams or not scan.is_answered()]
    job = Job(client, told.operation, told.to, parameters)
    if todo and not streams:
        job.check()
    record(told, asked(told, parameters))
    _begin(client, told, parameters)

    bar = Bar(len(todo))
    report = Report(lambda _: bar.step(), lambda *_: bar.step(failed=True))
    with Signals() as signals:
        workers = Workers(job, report, 1 if streams else min(told.jobs, max(1, len(todo))))
        for scan in todo:
            workers.put(scan)
        workers.finish(signals)
    bar.close()
    return close(client, report, signals, len(scans) - len(todo), len(scans), "" if streams else GOES_ON)


def _print_boxes(client: Client, told: argparse.Namespace, parameters: Dict[str, str]) -> int:
    if "outputs" in parameters:
        raise UsageError("outputs needs --output DIR; what is printed is the boxes")
    scans = _sweeps(told, parameters, find(told.scans, None, "format" in parameters))
    job = Printer(client, parameters, told.json)
    if STREAM not in parameters:
        job.check()
    _begin(client, told, parameters)
    report = Report(lambda _: None, lambda *_: None)
    with Signals() as signals:
        workers = Workers(job, report, 1)  # keeps the scans in order
        for scan in scans:
            workers.put(scan)
        workers.finish(signals)
    return close(client, report, signals, 0, len(scans), "")


def _sweeps(told: argparse.Namespace, parameters: Dict[str, str], scans: List[Scan]) -> List[Scan]:
    """The scans, with the times and poses of sweeps. UsageError if times and poses cannot be matched to scans."""
    if told.poses is None:
        if STREAM in parameters and len(scans) > 1:
            raise UsageError("--time and --pose are those of one scan; --poses FILE has those of each")
        return scans
    if STREAM not in parameters:
        raise UsageError("--poses needs --stream")
    if given := [name for name in SWEEP if name in parameters]:
        raise UsageError(f"{given[0]} is given twice: --poses has it")
    return stamped(scans, told.poses)


def _begin(client: Client, told: argparse.Namespace, parameters: Dict[str, str]) -> None:
    """Deletes the sweeps of an earlier run: times must rise, so the service would refuse new sweeps."""
    if told.poses is not None:
        client.stream(parameters[STREAM], 1).delete()


def _watch(client: Client, told: argparse.Namespace) -> int:
    if bags.is_bag(told.folder):
        raise UsageError(_left_out(told.folder, told.operation))
    if not told.folder.is_dir():
        raise UsageError(f"{told.folder} is not a folder")
    parameters = _parameters(told)
    if STREAM in parameters:
        raise UsageError("scans that appear have no times and poses, so they cannot be sweeps of a stream")
    layout = Layout(told.output, f".{told.to}", told.folder)
    job = Job(client, told.operation, told.to, parameters)
    job.check()
    record(told, asked(told, parameters))

    watch, skipped = Watch(told.folder, told.settle), 0
    answered: Dict[Path, Path] = {}  # by answer: two scans of one name must not replace each other's answers
    report = Report(_print_answer, lambda scan, reason: say(f"failed {scan.path}: {reason}"))
    with Signals() as signals:
        workers = Workers(job, report, told.jobs, persistent=True)
        while not signals.came and not workers.is_over():
            complete = watch.complete()
            for path in watch.bags:
                if told.output.absolute() not in path.absolute().parents:  # there, .mcap files are answers
                    say(_left_out(path, told.operation))
            for path in complete:
                scan = layout.scan(path, told.folder)
                first = scan.answer not in answered
                if answered.setdefault(scan.answer, path) != path:
                    report.fail(scan, f"{answered[scan.answer]} has the same name")
                elif first and scan.is_answered():  # a later run answers the scan if it changed or is to be retried
                    skipped += 1
                else:
                    workers.put(scan)
            for scan in workers.unanswered():
                watch.again(scan.path)
            signals.wait(told.interval)
        workers.end()
    close(client, report, signals, skipped, None)
    return FAILED if report.errors or report.stopped else DONE  # a signal is the normal way to end a watch


def _left_out(bag: Path, operation: str) -> str:
    return f"{bag} is a bag, which is whole only when its recorder has ended; then give it to {operation}"


def _print_answer(scan: Scan) -> None:
    try:
        os.write(sys.stdout.fileno(), os.fsencode(scan.answer) + b"\n")
    except OSError as reason:
        raise Stop(f"cannot print: {reason.strerror}") from None


def _live(client: Client, told: argparse.Namespace) -> int:
    live.run(client, told, _parameters(told), say)
    return DONE  # a signal is the normal way to end it


def _presets(client: Client, told: argparse.Namespace) -> int:
    pages.presets(client, told.name, told.json)
    return DONE


def _models(client: Client, told: argparse.Namespace) -> int:
    pages.models(client, told.name, told.json)
    return DONE


def _streams(client: Client, told: argparse.Namespace) -> int:
    if told.name is None and (told.last or told.delete):
        raise UsageError("--last and --delete need the NAME of a stream")
    if told.delete:
        there = client.stream(told.name, 1).delete()
        return DONE if there else end(FAILED, f"there is no stream {told.name}")
    if told.last is None:
        pages.streams(client, told.name, told.json)
        return DONE
    return _save(client.stream(told.name, 1).last()["points"], told.last)


def _save(points: NDArray[Any], path: Path) -> int:
    file = io.BytesIO()
    if path.suffix == NPY:
        np.save(file, points)
    elif path.suffix == ROWS:
        file.write(points.tobytes())
    else:
        raise UsageError(f"{path} is not {NPY} or {ROWS}")
    try:
        Writer().write(path, file.getbuffer())
    except OSError as reason:
        return end(FAILED, f"cannot write {path}: {reason.strerror or reason}")
    return DONE


def _status(client: Client, told: argparse.Namespace) -> int:
    pages.status(client, told.json)
    return DONE


COMMANDS: Dict[str, Callable[[Client, argparse.Namespace], int]] = {
    **dict.fromkeys(OPERATIONS, _compute),
    "watch": _watch,
    "live": _live,
    "presets": _presets,
    "models": _models,
    "streams": _streams,
    "status": _status,
}
