"""What can go wrong, one class a kind; all of them are an Error.

Problem         the service, or a balancer before it, refused the request and said why
TransportError  no whole answer came: refused, broken or too slow
BadAnswer       an answer came, but it is not what the service promises
"""

from __future__ import annotations

import email.utils
import json
import socket
import ssl
from email.message import Message
from typing import Any, Dict, Optional

TYPE_PREFIX = "urn:voxeld:problem:"
EXCERPT = 300  # characters of an answer that is no problem document


class Error(Exception):
    """The base of all. `attempts` is how often the request was tried."""

    attempts: int = 1

    @property
    def temporary(self) -> bool:
        """Whether the same request may do better later; those are retried."""
        return False

    @property
    def retry_after(self) -> Optional[float]:
        """Seconds to wait at least, where the answer says so."""
        return None


class BadAnswer(Error):
    """What came is no answer of voxeld: something else listens there, or it is damaged."""


class TransportError(Error):
    """No whole answer came. `__cause__` is the exception that says why."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(f"{type(reason).__name__}: {reason}")
        self.__cause__ = reason

    @property
    def temporary(self) -> bool:
        reason = self.__cause__
        if isinstance(reason, ssl.SSLError):  # a certificate does not become good by waiting
            return isinstance(reason, (ssl.SSLEOFError, ssl.SSLZeroReturnError))
        if isinstance(reason, socket.gaierror):
            return reason.errno == socket.EAI_AGAIN
        return not isinstance(reason, PermissionError)


class Problem(Error):
    """An answer other than 2xx, with the fields of its application/problem+json document (RFC 9457).

    status       the HTTP status
    type, kind   the problem's URN and its last part, such as "queue-full"; "about:blank" and "" where there is none
    title        what kind of problem it is
    detail       what was wrong with this request: what was given and what is allowed
    parameter    the parameter at fault, or None
    request_id   as in the service's log, or None
    retry_after  seconds after which the same request may do better, or None
    document     the whole document, {} where there was none
    """

    def __init__(self, status: int, reason: str, headers: Message, body: bytes) -> None:
        document = _document(headers, body)
        self.status = status
        self.document = document
        self.type = _text(document, "type") or "about:blank"
        self.kind = self.type[len(TYPE_PREFIX) :] if self.type.startswith(TYPE_PREFIX) else ""
        self.title = _text(document, "title") or reason
        self.detail = _text(document, "detail") or ("" if document else body[:EXCERPT].decode("utf-8", "replace"))
        self.parameter = _text(document, "parameter")
        self.request_id = _text(document, "request_id") or headers.get("X-Request-Id")
        self._retry_after = _retry_after(headers)
        super().__init__(f"{status} {self.kind or self.title}: {self.detail}")

    @property
    def temporary(self) -> bool:
        # A balancer's 502 and 504 count where it says when to come again; voxeld's own 504 is the request's deadline.
        return self.status in (429, 503) or (self.status in (502, 504) and self.retry_after is not None)

    @property
    def retry_after(self) -> Optional[float]:
        return self._retry_after


def _document(headers: Message, body: bytes) -> Dict[str, Any]:
    if headers.get_content_type() != "application/problem+json":
        return {}
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _text(document: Dict[str, Any], name: str) -> Optional[str]:
    value = document.get(name)
    return value if isinstance(value, str) else None


def _retry_after(headers: Message) -> Optional[float]:
    """Retry-After as seconds from now: a number or a date, which is held against the answer's own Date, not our clock."""
    text = (headers.get("Retry-After") or "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        then = email.utils.parsedate_to_datetime(text)
        now = email.utils.parsedate_to_datetime(headers.get("Date") or email.utils.formatdate(usegmt=True))
        return max(0.0, (then - now).total_seconds())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
