"""What the service reports about a stream: the sweeps that an answer joined."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple, Tuple

from .errors import BadAnswer


class Sweep(NamedTuple):
    """A sweep that was joined, and the fates of its points."""

    stream: str
    time: float
    age: float  # seconds before the newest sweep of the frame's stream; negative if later
    received: int
    removed_close: int
    joined: int
    not_finite: int  # joined points that are not finite
    origin: str = ""  # "sent" with the request, or "kept" by the service; "" if the service does not say


@dataclass(frozen=True)
class Joined:
    """What one answer joined.

    name      the stream of the request's sweep
    frame     the stream in whose frame the points are
    time      the time of that frame
    asked     sweeps that were asked for, of all streams
    begun     the service had no earlier sweep of the stream
    repeated  the sweep replaced a kept sweep with the same time
    evicted   sweeps dropped since the last answer to make room
    expired   sweeps dropped since the last answer because of their age
    sweeps    the joined sweeps: the newest of each stream, then the second newest of each, and so on
    """

    name: str
    frame: str
    time: float
    asked: int
    begun: bool
    repeated: bool
    evicted: int
    expired: int
    sweeps: Tuple[Sweep, ...]

    @staticmethod
    def parse(told: Any) -> Joined:
        """Reads the member `stream` of the metadata."""
        try:
            return Joined(
                str(told["name"]),
                str(told["frame"]),
                float(told["time"]),
                int(told["asked"]),
                bool(told["begun"]),
                bool(told["repeated"]),
                int(told["evicted"]),
                int(told["expired"]),
                tuple(map(_sweep, told["sweeps"])),
            )
        except (KeyError, TypeError, ValueError) as reason:
            raise BadAnswer(f"the metadata does not say which sweeps were joined: {reason!r}") from None

    def times(self) -> Tuple[float, ...]:
        """The times of the joined sweeps of the stream `name`, the newest first."""
        return tuple(sweep.time for sweep in self.sweeps if sweep.stream == self.name)


def _sweep(told: Any) -> Sweep:
    received, removed_close, joined, not_finite = (int(told["points"][name]) for name in Sweep._fields[3:7])
    when = float(told["time"]), float(told["age_s"])
    return Sweep(str(told["stream"]), *when, received, removed_close, joined, not_finite, str(told.get("origin", "")))
