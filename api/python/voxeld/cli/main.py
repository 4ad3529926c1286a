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
    """Runs the command, then ends the process without the interpreter's shutdown, in which a thread inside Zenoh or a
    viewer would abort the process."""
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
    args = options.parse(sys.argv[1:] if argv is None else argv)
    try:
        with _client(args) as client:
            return COMMANDS[args.command](client, args)
    except UsageError as reason:
        return end(USAGE, str(reason))
    except NoScans as reason:
        return end(FAILED, str(reason))
    except Problem as problem:
        return end(USAGE if problem.kind == "bad-parameter" else FAILED, str(problem))
    except TransportError as reason:  # the text names the server
        return end(FAILED, f"no answer from {reason}")
    except Error as reason:
        return end(FAILED, f"no answer from {args.server}: {reason}")
    except BrokenPipeError:  # the reader has closed the output
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED


def _complete() -> None:
    """For a shell's completion, if argcomplete is installed."""
    if "_ARGCOMPLETE" in os.environ:
        try:
            import argcomplete  # type: ignore[import-not-found,unused-ignore]
        except ImportError:
            return
        argcomplete.autocomplete(options.parser())


def _client(args: argparse.Namespace) -> Client:
    if args.key and not args.cert:
        raise UsageError("--key needs --cert")
    warnings.simplefilter("ignore", SharedMemoryWarning)  # the socket works as well
    warnings.simplefilter("ignore", RequestWarning)  # the summary shows these warnings
    try:
        return Client(
            args.server,
            token=_token(args.token_file) if args.token_file else None,
            ca_file=args.ca,
            certificate=(args.cert, args.key) if args.key else args.cert,
            timeout=args.timeout,
            deadline=args.deadline,
            retries=args.retries,
            idle_connections=getattr(args, "jobs", 1),
            shared_memory=args.shared_memory and args.uplink is None,
            uplink=args.uplink,
        )
    except (OSError, ValueError) as reason:
        raise UsageError(str(reason)) from None


def _token(path: Path) -> str:
    text = path.read_text(encoding="utf-8").strip()
    if re.search(r"\ssha256:", text):
        raise ValueError(f"{path} has hashes of tokens, for the service; expected the token that --new-token printed")
    return text


def _parameters(args: argparse.Namespace) -> Dict[str, str]:
    try:
        return options.parameters(args)
    except ValueError as reason:
        raise UsageError(str(reason)) from None


# --- commands ---


def _compute(client: Client, args: argparse.Namespace) -> int:
    parameters = _parameters(args)
    if any(bags.is_bag(Path(name)) for name in args.scans):
        return bag_run.compute(client, args, parameters)
    if given := [option for option in ("topic", "fixed_frame") if getattr(args, option) is not None]:
        raise UsageError(f"{options.option_of(given[0])} needs a bag: {', '.join(bags.ENDINGS)}")
    if args.output is None:
        return _print_boxes(client, args, parameters)
    layout = Layout(args.output, f".{args.to}", args.root)
    streams = STREAM in parameters
    scans = _sweeps(args, parameters, find(args.scans, layout, "format" in parameters))
    todo = [scan for scan in scans if args.force or streams or not scan.is_answered()]
    job = Job(client, args.operation, args.to, parameters)
    if todo and not streams:
        job.check()
    record(args, asked(args, parameters))
    _begin(client, args, parameters)

    bar = Bar(len(todo))
    report = Report(lambda _: bar.step(), lambda *_: bar.step(failed=True))
    with Signals() as signals:
        workers = Workers(job, report, 1 if streams else min(args.jobs, max(1, len(todo))))
        for scan in todo:
            workers.put(scan)
        workers.finish(signals)
    bar.close()
    return close(client, report, signals, len(scans) - len(todo), len(scans), "" if streams else GOES_ON)


def _print_boxes(client: Client, args: argparse.Namespace, parameters: Dict[str, str]) -> int:
    if "outputs" in parameters:
        raise UsageError("--outputs needs --output DIR; without it only boxes are printed")
    scans = _sweeps(args, parameters, find(args.scans, None, "format" in parameters))
    job = Printer(client, parameters, args.json)
    if STREAM not in parameters:
        job.check()
    _begin(client, args, parameters)
    report = Report(lambda _: None, lambda *_: None)
    with Signals() as signals:
        workers = Workers(job, report, 1)  # keeps the scans in order
        for scan in scans:
            workers.put(scan)
        workers.finish(signals)
    return close(client, report, signals, 0, len(scans), "")


def _sweeps(args: argparse.Namespace, parameters: Dict[str, str], scans: List[Scan]) -> List[Scan]:
    """The scans, with the times and poses of sweeps. UsageError if these do not fit."""
    if args.poses is None:
        if STREAM in parameters and len(scans) > 1:
            raise UsageError("--time and --pose are those of one scan; --poses FILE has those of each")
        return scans
    if STREAM not in parameters:
        raise UsageError("--poses needs --stream")
    if given := [name for name in SWEEP if name in parameters]:
        raise UsageError(f"{given[0]} is given twice: --poses has it")
    return stamped(scans, args.poses)


def _begin(client: Client, args: argparse.Namespace, parameters: Dict[str, str]) -> None:
    """Deletes the sweeps of an earlier run: the service refuses sweeps that are older than those it keeps."""
    if args.poses is not None:
        client.stream(parameters[STREAM], 1).delete()


def _watch(client: Client, args: argparse.Namespace) -> int:
    if bags.is_bag(args.folder):
        raise UsageError(_left_out(args.folder, args.operation))
    if not args.folder.is_dir():
        raise UsageError(f"{args.folder} is not a folder")
    parameters = _parameters(args)
    if STREAM in parameters:
        raise UsageError("scans that appear have no times and poses, so they cannot be sweeps of a stream")
    layout = Layout(args.output, f".{args.to}", args.folder)
    job = Job(client, args.operation, args.to, parameters)
    job.check()
    record(args, asked(args, parameters))

    watch, skipped = Watch(args.folder, args.settle), 0
    answered: Dict[Path, Path] = {}  # by answer: two scans of one name must not replace each other's answers
    report = Report(_print_answer, lambda scan, reason: say(f"failed {scan.path}: {reason}"))
    with Signals() as signals:
        workers = Workers(job, report, args.jobs, persistent=True)
        while not signals.came and not workers.is_over():
            complete = watch.complete()
            for path in watch.bags:
                if args.output.absolute() not in path.absolute().parents:  # a .mcap file below --output is an answer
                    say(_left_out(path, args.operation))
            for path in complete:
                scan = layout.scan(path, args.folder)
                first = scan.answer not in answered
                if answered.setdefault(scan.answer, path) != path:
                    report.fail(scan, f"{answered[scan.answer]} has the same name")
                elif first and scan.is_answered():
                    # An earlier run has answered the scan. If complete() returns the scan again, the scan has changed.
                    skipped += 1
                else:
                    workers.put(scan)
            for scan in workers.unanswered():
                watch.again(scan.path)
            signals.wait(args.interval)
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


def _live(client: Client, args: argparse.Namespace) -> int:
    live.run(client, args, _parameters(args), say)
    return DONE  # a signal is the normal way to end it


def _presets(client: Client, args: argparse.Namespace) -> int:
    pages.presets(client, args.name, args.json)
    return DONE


def _models(client: Client, args: argparse.Namespace) -> int:
    pages.models(client, args.name, args.json)
    return DONE


def _streams(client: Client, args: argparse.Namespace) -> int:
    if args.name is None and (args.last or args.delete):
        raise UsageError("--last and --delete need the NAME of a stream")
    if args.delete:
        there = client.stream(args.name, 1).delete()
        return DONE if there else end(FAILED, f"there is no stream {args.name}")
    if args.last is None:
        pages.streams(client, args.name, args.json)
        return DONE
    return _save(client.stream(args.name, 1).last()["points"], args.last)


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


def _status(client: Client, args: argparse.Namespace) -> int:
    pages.status(client, args.json)
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
