"""What a live run has done: counts, ages, and their page for Prometheus. Threads may share the counts."""

from __future__ import annotations

import http.server
import threading
import time
from typing import Any, Callable, Dict, List, Tuple

from .scans import UsageError

# Why no answer to a message was published.
REPLACED = "replaced"  # a newer message came before this one could be sent
SUPERSEDED = "superseded"  # a newer message arrived at the service before this one was computed
TOO_OLD = "too_old"  # its stamp was older than max_age_ms when the service would have computed it
NO_POSE = "no_pose"  # no pose at its stamp came in time
LATE = "late"  # a newer message's answer was published first
REPEATED = "repeated"  # the publisher had already sent this message, or a newer one
REFUSED = "refused"  # by the service
FAILED = "failed"  # the service gave no answer
UNREADABLE = "unreadable"  # the message does not have the form of its type
REASONS = (REPLACED, SUPERSEDED, TOO_OLD, NO_POSE, LATE, REPEATED, REFUSED, FAILED, UNREADABLE)
BUCKETS = (0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds
PREFIX = "voxeld_live_"
METRICS = (
    ("received_total", "counter", "Messages that came."),
    ("lost_total", "counter", "Messages that never came, by the publisher's sequence numbers."),
    ("published_total", "counter", "Answers that were published."),
    ("dropped_total", "counter", "Messages without a published answer, by reason."),
    ("age_seconds", "histogram", "Time from the arrival of a message to the publication of its answer."),
    ("stamp_age_seconds", "gauge", "Age of the newest answer's stamp by this machine's clock."),
    ("publishers", "gauge", "Publishers of the topic."),
    ("service_up", "gauge", "Whether the service answers."),
)


class Counts:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self.received = self.lost = self.published = 0
        self.dropped: Dict[str, int] = dict.fromkeys(REASONS, 0)
        self.service_up = False
        self._buckets = [0] * len(BUCKETS)  # for each bucket, how many ages are not above it
        self._ages: List[float] = []  # since the last line
        self._sum = 0.0  # of all ages
        self._stamp_age = 0.0  # of the newest answer
        self._before = self._now()

    def receive(self, gap: int) -> None:
        """`gap` messages before this one are missing."""
        with self._lock:
            self.received += 1
            self.lost += max(0, gap)

    def drop(self, reason: str) -> None:
        with self._lock:
            self.dropped[reason] += 1

    def publish(self, age: float, stamp_age: float) -> None:
        """Seconds since the message came, and since its stamp by this machine's clock."""
        with self._lock:
            self.published += 1
            self._ages.append(age)
            self._sum += age
            self._stamp_age = stamp_age
            for place, most in enumerate(BUCKETS):
                self._buckets[place] += age <= most

    def line(self) -> str:
        """What happened since the last line."""
        with self._lock:
            (before, then), (now, at) = self._before, self._now()
            self._before = now, at
            ages, self._ages = sorted(self._ages), []
            seconds = max(at - then, 1e-9)
            new = {name: number - before[name] for name, number in now.items()}
            stamp_age = self._stamp_age
        text = f"received {new.pop('received')} ({(now['received'] - before['received']) / seconds:.1f}/s)"
        text += f", published {new.pop('published')} ({len(ages) / seconds:.1f}/s)"
        if ages:
            text += f", age {ages[len(ages) // 2]:.3f} s (at most {ages[-1]:.3f}), stamp {stamp_age:.3f} s old"
        rest = ", ".join(f"{number} {name}" for name, number in new.items() if number)
        return text + (f"; {rest}" if rest else "")

    def page(self, publishers: int) -> str:
        """The metrics in Prometheus' text format."""
        with self._lock:
            ages: List[Tuple[str, float]] = [
                (f'_bucket{{le="{most}"}}', count) for most, count in zip(BUCKETS, self._buckets)
            ]
            ages += [('_bucket{le="+Inf"}', self.published), ("_sum", self._sum), ("_count", self.published)]
            samples: Dict[str, List[Tuple[str, float]]] = {
                "received_total": [("", self.received)],
                "lost_total": [("", self.lost)],
                "published_total": [("", self.published)],
                "dropped_total": [(f'{{reason="{name}"}}', count) for name, count in self.dropped.items()],
                "age_seconds": ages,
                "stamp_age_seconds": [("", self._stamp_age)],
                "publishers": [("", publishers)],
                "service_up": [("", int(self.service_up))],
            }
        lines: List[str] = []
        for name, kind, text in METRICS:
            lines += (f"# HELP {PREFIX}{name} {text}", f"# TYPE {PREFIX}{name} {kind}")
            lines += (f"{PREFIX}{name}{end} {round(value, 6)}" for end, value in samples[name])
        return "\n".join(lines) + "\n"

    def _now(self) -> Tuple[Dict[str, int], float]:
        counts = {"received": self.received, "published": self.published, **self.dropped, "lost": self.lost}
        return counts, self._clock()


class Pages:
    """Serves the metrics at http://ADDRESS/metrics from a thread, until close()."""

    def __init__(self, address: Tuple[str, int], page: Callable[[], str]) -> None:
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                found = self.path.partition("?")[0] == "/metrics"
                body = page().encode() if found else b"the metrics are at /metrics\n"
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                pass

        try:
            self._server = http.server.ThreadingHTTPServer(address, Handler)
        except OSError as reason:
            raise UsageError(f"cannot listen on {address[0]}:{address[1]}: {reason.strerror or reason}") from None
        self.port = self._server.server_port
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
