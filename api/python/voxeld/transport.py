"""Sends requests over kept connections, and retries them after temporary errors. Any thread: each request has its own
connection while it lasts.

Every request to voxeld may be repeated: a computation changes nothing, and a sweep replaces the sweep with the same
time."""

from __future__ import annotations

import itertools
import os
import random
import ssl
import threading
import time
from numbers import Real
from typing import Callable, List, Optional, TypeVar

from .connection import Answer, Connection, Endpoint, Request
from .errors import BadAnswer, Error, Problem, TransportError

LONGEST_BACKOFF = 10.0  # seconds
LONGEST_WAIT = 1_000_000  # seconds: poll() takes a timeout in milliseconds, of 31 bits
T = TypeVar("T")


class Pool:
    """Idle connections; the last one returned is taken first. A forked process closes the inherited connections."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._closed = False
        self._idle: List[Connection] = []
        self._lock = threading.Lock()
        self._process = os.getpid()

    def take(self) -> Optional[Connection]:
        """A connection that looks alive, or None."""
        if self._process != os.getpid():
            inherited = self._idle
            self._process, self._lock, self._idle = os.getpid(), threading.Lock(), []
            for connection in inherited:
                connection.close()
        while True:
            with self._lock:
                if self._closed:
                    raise ValueError("the client is closed")
                if not self._idle:
                    return None
                connection = self._idle.pop()
            if not connection.is_stale():
                return connection
            connection.close()

    def release(self, connection: Connection) -> None:
        with self._lock:
            if not self._closed and len(self._idle) < self._most:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


class Transport:
    """timeout, deadline and backoff: seconds, as in Client."""

    def __init__(
        self, endpoint: Endpoint, timeout: float, deadline: float, retries: int, backoff: float, idle_connections: int
    ) -> None:
        for name, seconds in (("timeout", timeout), ("deadline", deadline)):
            if not isinstance(seconds, Real) or not 0 < seconds <= LONGEST_WAIT:
                raise ValueError(f"{name} is {seconds!r}; expected more than 0 and at most {LONGEST_WAIT} seconds")
        for name, number in (("retries", retries), ("backoff", backoff), ("idle_connections", idle_connections)):
            if not isinstance(number, Real) or not number >= 0:
                raise ValueError(f"{name} is {number!r}; expected 0 or more")
        self._endpoint = endpoint
        self._timeout, self._deadline, self._retries, self._backoff = timeout, deadline, retries, backoff
        self._pool = Pool(idle_connections)
        self._reached = False  # whether a connection ever succeeded

    def deadline(self) -> float:
        """The deadline, by time.monotonic, of a call that begins now."""
        return time.monotonic() + self._deadline

    def ask(
        self,
        request: Request,
        read: Callable[[Answer], T],
        retries: Optional[int] = None,
        until: Optional[float] = None,
    ) -> T:
        """`read` of the 2xx answer. Otherwise raises the Error of the last attempt or of `read`. `until`: the deadline;
        None = deadline()."""
        most = self._retries if retries is None else retries
        until = self.deadline() if until is None else until
        for attempt in itertools.count(1):
            failure: Error
            try:
                answer = self._attempt(request, until)
                if 200 <= answer.status < 300:
                    return read(answer)
                failure = Problem.of(answer.status, answer.reason, answer.headers, answer.body.tobytes())
            except Error as reason:
                failure = reason
            except OSError as reason:
                failure = TransportError.of(reason, self._endpoint.url)
            except MemoryError:
                failure = BadAnswer("there is no memory for so large an answer")
            failure.attempts = attempt
            pause = self._pause(attempt, failure)
            # A local service that was never reached is not running: waiting would not help.
            hopeless = self._endpoint.is_local() and not self._reached
            if not failure.temporary or hopeless or attempt > most or time.monotonic() + pause >= until:
                raise failure
            time.sleep(pause)
        raise AssertionError("not reached")

    def close(self) -> None:
        self._pool.close()

    def _attempt(self, request: Request, until: float) -> Answer:
        connection = self._pool.take()
        if connection is not None:
            try:
                return self._exchange(connection, request, until)
            except (ConnectionError, ssl.SSLEOFError):
                pass  # the service closed the idle connection: retry at once with a new one
        return self._exchange(self._connect(until), request, until)

    def _connect(self, until: float) -> Connection:
        try:
            connection = Connection(self._endpoint, self._timeout, until)
        except (ConnectionRefusedError, FileNotFoundError) as reason:
            raise TransportError.of(reason, self._endpoint.url, f"nobody listens there; {self._endpoint.hint()}")
        self._reached = True
        return connection

    def _exchange(self, connection: Connection, request: Request, until: float) -> Answer:
        try:
            answer, reusable = connection.exchange(request, until)
        except BaseException:  # also after a KeyboardInterrupt, half an answer is left on the connection
            connection.close()
            raise
        if reusable:
            self._pool.release(connection)
        else:
            connection.close()
        return answer

    def _pause(self, attempt: int, failure: Error) -> float:
        """Seconds before the next attempt: Retry-After plus a random backoff, which about doubles with each
        attempt."""
        backoff = min(LONGEST_BACKOFF, self._backoff * 2.0 ** min(attempt - 1, 1000))
        return (failure.retry_after or 0.0) + backoff * random.uniform(0.5, 1.0)
