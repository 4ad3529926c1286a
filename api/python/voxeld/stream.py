"""A sensor's stream: the client sends each sweep once, and the service joins it with kept earlier sweeps."""

from __future__ import annotations

import urllib.parse
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Generic,
    List,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Type,
    TypeVar,
)

import numpy as np

from . import reading
from .connection import Answer
from .errors import BadAnswer, Error, Problem, StreamWarning, Superseded, TooOld
from .parameters import Numbers
from .points import Points, array_of
from .result import Result
from .sweeps import Joined

if TYPE_CHECKING:
    from .calls import Calls

T = TypeVar("T")
R = TypeVar("R", bound=Result)


class _Kept(NamedTuple):
    time: float
    pose: List[float]
    points: Any  # an array, if the sweep is kept


class Stream(Generic[R]):
    """Made by Client.stream. One thread at a time may use a stream.

    A sweep replaces the kept sweep with the same time, so a send may be repeated."""

    def __init__(
        self,
        calls: Calls,
        operation: str,
        kind: Type[R],
        name: str,
        sweeps: int,
        streams: Optional[Sequence[str]],
        mount: Optional[Numbers],
        keep: bool,
        parameters: Dict[str, Any],
    ) -> None:
        self.name, self.sweeps = name, sweeps
        self._calls, self._operation, self._kind, self._parameters = calls, operation, kind, parameters
        self._streams = streams and list(streams)
        self._mount = None if mount is None else _numbers("mount", mount)
        self._keep = keep
        self._kept: List[_Kept] = []  # earlier sweeps, the newest first
        self._gap = False  # the service lacks some of `_kept`
        self._joined: Tuple[float, ...] = ()  # the times in the last answer

    def send(
        self,
        points: Points,
        pose: Numbers,
        time: float,
        *,
        mount: Optional[Numbers] = None,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
    ) -> R:
        """The result of the sweep, joined with earlier sweeps, which Result.stream lists.

        points: as for Client.voxelize, but one cloud in its sensor's frame. pose: from that frame (with a mount, from
        the vehicle's frame) to a fixed frame: a 4x4 matrix, its 16 numbers, or x, y, z, qw, qx, qy, qz. time: seconds,
        by any clock that never goes back. mount: the pose of the sensor on its vehicle, from now on. The other
        arguments are as for Client.voxelize.

        Result.lost has the times of sweeps that the service no longer had; a StreamWarning says why. With keep=True
        they are sent again, unless the service dropped sweeps for lack of room or for their age.
        """
        terms = {"metadata_only": metadata_only, "request_id": request_id, "traceparent": traceparent}
        if mount is not None:
            self._mount = _numbers("mount", mount)
        newest = _Kept(float(time), _numbers("pose", pose), array_of(points) if self._keep else points)
        older = [sweep for sweep in self._kept if sweep.time < newest.time and len(sweep.pose) == len(newest.pose)]
        try:
            result = self._send(newest, older if self._gap else [], terms)
        except Error as failure:
            if isinstance(failure, (Superseded, TooOld)):  # the service has kept the sweep
                self._remember(newest, older, False)
                self._joined = (newest.time, *self._joined)[: self.sweeps]
            elif _may_join_later(failure):
                self._remember(newest, older, True)
            raise
        told = _told(result)
        before = [known for known in self._joined if known < newest.time][: self.sweeps - 1]
        lost = tuple(known for known in before if known not in told.times())
        gap = False
        kept = any(sweep.time in lost for sweep in older)
        if kept and not told.evicted and not told.expired:  # else sending them again would not help
            try:
                if _has_begun_tracks(result):  # else ids would seem to continue the tracks before the gap
                    self._drop()
                result = self._send(newest, older, terms)
            except Error:
                gap = True  # the sweep itself is answered
        result.lost = lost
        self._joined = _told(result).times()
        self._remember(newest, older, gap)
        if lost:
            self._warn(f"the service has lost sweeps: {_reason(told)}")
        return result

    def status(self) -> Dict[str, Any]:
        """The state of the stream. Problem 404 if the service keeps nothing."""
        return self._look(reading.document)

    def last(self) -> Result:
        """The points that the stream's last request joined, as `points`. Their frame has the `pose` of the metadata.
        Problem 404 if there are none."""
        return self._look(lambda answer: reading.tensors(answer, Result), "/last")

    def delete(self) -> bool:
        """Drops all sweeps, here and in the service. False if the service had none."""
        self._kept, self._joined, self._gap = [], (), False
        return self._drop()

    def _drop(self) -> bool:
        """Drops the sweeps in the service. False if it had none."""
        try:
            self._look(reading.document, method="DELETE")
        except Problem as problem:
            if problem.kind != "not-found":
                raise
            return False
        return True

    def __repr__(self) -> str:
        return f"<voxeld.Stream {self.name}: {self.sweeps} sweeps>"

    def _send(self, newest: _Kept, older: List[_Kept], terms: Dict[str, Any]) -> R:
        """Sends the sweep with the older sweeps in one body or, if the service refuses them, alone."""
        if older:
            sweeps = [newest, *older]
            told = {"times": [sweep.time for sweep in sweeps], "poses": [sweep.pose for sweep in sweeps]}
            try:
                return self._ask([sweep.points for sweep in sweeps], told, terms)
            except Problem as problem:
                if _may_join_later(problem):
                    raise
                self._warn(f"the service refused the older sweeps: {problem}")
        return self._ask(newest.points, {"time": newest.time, "pose": newest.pose}, terms)

    def _ask(self, points: Points, told: Dict[str, Any], terms: Dict[str, Any]) -> R:
        own = {"stream": self.name, "streams": self._streams, "sweeps": self.sweeps, "mount": self._mount}
        given = {**self._parameters, **own, **told, **terms}
        return self._calls.points(self._operation, self._kind, {"points": points, **given})

    def _remember(self, newest: _Kept, older: List[_Kept], gap: bool) -> None:
        self._gap = gap and self._keep
        if self._keep:  # copies: the caller may reuse the array
            kept = newest._replace(points=np.array(newest.points))
            self._kept = [kept, *older][: self.sweeps - 1]

    def _warn(self, text: str) -> None:
        self._calls.warn(StreamWarning(f"stream {self.name}: {text}"))

    def _look(self, read: Callable[[Answer], T], rest: str = "", method: str = "GET") -> T:
        """Asks for a page of the stream. A balancer chooses the server by the header Voxeld-Stream."""
        path = f"/v1/streams/{urllib.parse.quote(self.name, safe='')}{rest}"
        return self._calls.ask(path, read, method, {"Voxeld-Stream": (self._streams or [self.name])[0]})


def _may_join_later(failure: Error) -> bool:
    """Whether the service may accept the sweep along with a later one: the error is temporary, times are out of order,
    or another sensor has no sweep yet."""
    told = (failure.kind, failure.parameter) if isinstance(failure, Problem) else None
    return failure.temporary or told in (("stream-time", "time"), ("stream-time", "times"), ("impossible", "streams"))


def _has_begun_tracks(result: Result) -> bool:
    tracks = result.metadata.get("tracks")
    return isinstance(tracks, dict) and tracks.get("begun") is True


def _told(result: Result) -> Joined:
    told = result.stream
    if told is None:
        raise BadAnswer("the metadata does not say which sweeps were joined")
    return told


def _reason(told: Joined) -> str:
    if told.begun:
        return "it was restarted, or they were too old"
    if told.evicted:
        return "there was no room for them"
    return "they were too old" if told.expired else "another server may have answered before"


def _numbers(name: str, pose: Numbers) -> List[float]:
    numbers = np.asarray(pose, np.float64)
    if numbers.shape not in ((4, 4), (16,), (7,)):
        raise ValueError(f"{name} has the shape {numbers.shape}; expected 4x4, 16 numbers, or x, y, z, qw, qx, qy, qz")
    flat: List[float] = numbers.ravel().tolist()
    return flat
