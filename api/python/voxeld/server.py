"""A daemon that belongs to this process.

    with voxeld.Server() as server:
        result = server.client().voxelize(points, preset="kitti_second")

The daemon stops when its standard input ends (--stop-with-stdin). This is a pipe whose other end is here: the kernel
closes that end when the process ends, even if the process is killed. A thread reads the daemon's log."""

from __future__ import annotations

import collections
import contextlib
import importlib
import os
import shutil
import subprocess
import tempfile
import threading
import time
import weakref
from types import TracebackType
from typing import IO, Any, Deque, List, Optional, Sequence, Type

from .calls import without_none
from .client import Client
from .errors import ServerError

KEPT_LINES = 1000  # of the log
SAYS = "voxeld: "  # before the reason why a daemon does not start
POLL = 0.01  # seconds between two looks at a daemon that starts
DEFAULTS = {"allow_shared_memory": True, "access_log": "errors"}

_servers: weakref.WeakSet[Server] = weakref.WeakSet()  # of this process


class Server:
    """Starts a daemon, and returns once the daemon takes requests. Any thread may use the server.

    args           arguments for the daemon's command line, as text
    program        the daemon's program; without it that of the package voxeld-server, else `voxeld` in PATH
    start_timeout  maximum seconds until the daemon takes requests
    options        the daemon's options, such as workers=2; True and False are yes and no, a sequence is joined by
                   commas, and an option that is None is left out. They override args.

    The daemon listens on a Unix socket in a folder that only this user may enter; `listen` adds further addresses. By
    default it allows shared memory, and logs only requests that fail. It ignores the VOXELD_ variables of this process.
    A process made by fork may use the server, but the daemon stops with the process that started it.

    Raises ServerError, with the daemon's reason, if the daemon does not start.
    """

    url: str  # for voxeld.Client, also in other processes

    def __init__(
        self,
        *,
        args: Sequence[str] = (),
        program: Optional[str] = None,
        start_timeout: float = 60.0,
        **options: Any,
    ) -> None:
        found = program or find_program()
        folder = tempfile.mkdtemp(prefix="voxeld-")
        self._owner = os.getpid()
        self._remove_folder = weakref.finalize(self, _remove, folder, self._owner)
        self._lines: Deque[str] = collections.deque(maxlen=KEPT_LINES)
        self.url = f"unix:{folder}/socket"
        given = without_none(options)
        shares = _text({**DEFAULTS, **given}["allow_shared_memory"]) == "yes"
        self._client = Client(self.url, shared_memory=shares)
        listen = _text([self.url, *([given["listen"]] if "listen" in given else [])])
        own = {**given, "listen": listen, "stop_with_stdin": True}
        command = [found, *_arguments(DEFAULTS), *args, *_arguments(own)]
        try:
            self._process, self._reader = _start(command, self._lines)
            _servers.add(self)
            self._await_ready(start_timeout)
        except BaseException:
            self.close(timeout=0)
            raise

    def client(self) -> Client:
        """The client of this server, the same at every call. Threads may share it, and the server closes it. It passes
        points and tensors through shared memory, if that is allowed. For other arguments call Client(server.url)."""
        return self._client

    @property
    def pid(self) -> int:
        """The daemon's process id."""
        return self._process.pid

    @property
    def log(self) -> str:
        """The last lines of the daemon's log."""
        return "".join(self._lines.copy())

    def close(self, timeout: float = 60.0) -> None:
        """Stops the daemon, which first answers the requests that it has accepted. Kills it after `timeout` seconds.
        Does nothing in a process made by fork."""
        if self._owner != os.getpid():
            return
        self._client.close()
        if hasattr(self, "_process"):
            self._close_pipe()
            try:
                self._process.wait(timeout)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._reader.join()
        self._remove_folder()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<voxeld.Server {self.url}>"

    def _close_pipe(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()

    def _await_ready(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._client.ready():
            if self._process.poll() is not None:
                self._reader.join()
                raise ServerError(f"voxeld did not start: {self._reason()}", self.log)
            if time.monotonic() > until:
                raise ServerError(f"voxeld takes no requests after {seconds} seconds", self.log)
            time.sleep(POLL)

    def _reason(self) -> str:
        """The daemon's last words."""
        last = self._lines[-1].strip() if self._lines else f"exit status {self._process.returncode}"
        return last[len(SAYS) :] if last.startswith(SAYS) else last


def find_program() -> str:
    with contextlib.suppress(ImportError):
        return str(importlib.import_module("voxeld_server").PROGRAM)
    found = shutil.which("voxeld")
    if found is None:
        raise ServerError(
            "there is no daemon: install the wheel voxeld_server beside this package, or a package that puts voxeld "
            "into PATH, or pass program="
        )
    return found


def _start(command: List[str], lines: Deque[str]) -> tuple[subprocess.Popen[str], threading.Thread]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("VOXELD_")}
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=environment,
            start_new_session=True,  # Ctrl-C is for this process alone
        )
    except OSError as reason:
        raise ServerError(f"voxeld did not start: {reason}") from reason
    assert process.stderr
    reader = threading.Thread(target=_read, args=(process.stderr, lines), name="voxeld log", daemon=True)
    reader.start()
    return process, reader


def _read(log: IO[str], lines: Deque[str]) -> None:
    with log:
        lines.extend(log)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return ",".join(map(_text, value))
    return str(value)


def _arguments(options: dict[str, Any]) -> List[str]:
    return [f"--{name.replace('_', '-')}={_text(value)}" for name, value in options.items()]


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)


def _leave_pipes() -> None:
    """Closes the pipes in a process made by fork: its ends would keep the parent's daemons running."""
    for server in _servers:
        server._close_pipe()


os.register_at_fork(after_in_child=_leave_pipes)
