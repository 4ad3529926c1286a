"""The errors, which are subclasses of Error, and the warnings."""

from __future__ import annotations

import email.utils
import json
import socket
import ssl
from typing import Any, Dict, List, Mapping, Optional, Type

TYPE_PREFIX = "urn:voxeld:problem:"
EXCERPT = 300  # characters to quote from an answer that is not a problem document


class Error(Exception):
    """The base class. These exceptions can be pickled; only __cause__ is lost."""

    attempts: int = 1  # how often the request was tried
    temporary: bool = False  # whether the same request may succeed later
    retry_after: Optional[float] = None  # minimum seconds before the next attempt, if the answer has it


class BadAnswer(Error):
    """The answer does not come from voxeld, or is damaged."""


class CudaError(Error):
    """The CUDA driver refused something, or there is none."""


class ServerError(Error):
    """The daemon of a Server did not start. `log` has the last lines of its log."""

    def __init__(self, reason: str, log: str = "") -> None:
        super().__init__(reason, log)
        self.log = log

    def __str__(self) -> str:
        return str(self.args[0])


class RequestWarning(UserWarning):
    """The service answered, but the request may not be what the caller meant. `kind` is a word, such as max_voxels;
    `detail` says what the service saw."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(kind, detail)
        self.kind, self.detail = kind, detail

    def __str__(self) -> str:
        return f"{self.kind}: {self.detail}"


def warnings_of(metadata: Mapping[str, Any]) -> List[RequestWarning]:
    told = metadata.get("warnings", [])
    if not isinstance(told, list) or not all(isinstance(item, dict) for item in told):
        raise BadAnswer("the metadata's warnings are not a list of kinds and details")
    pairs = [(item.get("kind"), item.get("detail")) for item in told]
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        raise BadAnswer("the metadata's warnings are not a list of kinds and details")
    return [RequestWarning(*pair) for pair in pairs]


class StreamWarning(UserWarning):
    """The service has lost sweeps of a stream: see Result.lost."""


class SharedMemoryWarning(UserWarning):
    """Points and tensors go through the socket, or those of a GPU through the host."""


class TransportError(Error):
    """No complete answer came. The message names the service's URL; `__cause__` says why."""

    @staticmethod
    def of(reason: Exception, url: str, what: str = "") -> TransportError:
        """`what`: what the exception means, if more is known than it says."""
        told = f"{type(reason).__name__}: {reason}"
        error = TransportError(f"{url}: {f'{what} ({told})' if what else told}")
        error.__cause__ = reason
        error.temporary = _may_pass(reason)
        return error


class Problem(Error):
    """The service, or a balancer in front of it, refused the request. The fields are those of the answer's
    application/problem+json document (RFC 9457)."""

    status: int
    type: str  # a URN; "about:blank" if the answer has no such document
    kind: str  # the last part of voxeld's URNs, such as "queue-full"; "" elsewhere
    title: str
    detail: str  # what was wrong with this request: what was given and what is allowed
    parameter: Optional[str]  # at fault, if any
    request_id: Optional[str]  # as in the service's log
    document: Dict[str, Any]  # the whole document; {} if there is none

    @staticmethod
    def of(status: int, reason: str, headers: Mapping[str, str], body: bytes) -> Problem:
        """`headers`: by their names in lower case, as in connection.Answer."""
        document = _document(headers, body)
        kind_of = _text(document, "type") or "about:blank"
        kind = kind_of[len(TYPE_PREFIX) :] if kind_of.startswith(TYPE_PREFIX) else ""
        title = _text(document, "title") or reason
        detail = _text(document, "detail") or ("" if document else body[:EXCERPT].decode("utf-8", "replace"))

        classes: Dict[str, Type[Problem]] = {"superseded": Superseded, "too-old": TooOld}
        problem = classes.get(kind, Problem)(f"{status} {kind or title}: {detail}")
        problem.status, problem.type, problem.kind = status, kind_of, kind
        problem.title, problem.detail, problem.document = title, detail, document
        problem.parameter = _text(document, "parameter")
        problem.request_id = _text(document, "request_id") or headers.get("x-request-id")
        problem.retry_after = _retry_after(headers)
        # A balancer's 502 or 504 is temporary if it has Retry-After. voxeld sends 504 without: the deadline has passed.
        told = status in (502, 504) and problem.retry_after is not None
        problem.temporary = status in (429, 503) or told
        return problem


class Superseded(Problem):
    """A newer request with the same `latest` came while this one waited. If it was a sweep of a stream, the service has
    kept the sweep."""


class TooOld(Problem):
    """The points were older than `max_age_ms`. If they were a sweep of a stream, the service has kept the sweep."""


def media_type(headers: Mapping[str, str]) -> str:
    return headers.get("content-type", "text/plain").partition(";")[0].strip().lower()


def _may_pass(reason: Exception) -> bool:
    if isinstance(reason, ssl.SSLError):  # waiting does not make a certificate valid
        return isinstance(reason, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
    if isinstance(reason, socket.gaierror):
        return reason.errno == socket.EAI_AGAIN
    return not isinstance(reason, PermissionError)


def _document(headers: Mapping[str, str], body: bytes) -> Dict[str, Any]:
    if media_type(headers) not in ("application/problem+json", "application/json"):  # application/json under /v2
        return {}
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _text(document: Dict[str, Any], name: str) -> Optional[str]:
    value = document.get(name)
    return value if isinstance(value, str) else None


def _retry_after(headers: Mapping[str, str]) -> Optional[float]:
    """Retry-After as seconds from now. A date is compared with the answer's Date or, without one, with the local
    clock."""
    text = (headers.get("retry-after") or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        then = email.utils.parsedate_to_datetime(text)
        now = email.utils.parsedate_to_datetime(headers.get("date") or email.utils.formatdate(usegmt=True))
        return max(0.0, (then - now).total_seconds())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
