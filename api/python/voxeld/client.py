"""The endpoints of voxeld as methods."""

from __future__ import annotations

import re
import socket
import ssl
import sys
import urllib.parse
import warnings
from dataclasses import replace
from types import TracebackType
from typing import Any, Callable, Dict, List, Mapping, Optional, Set, Tuple, Type, TypeVar, Union

import numpy as np
from numpy.typing import NDArray

from . import reading, tensors
from .connection import Answer, Endpoint, Request
from .encodings import encoder_of
from .errors import BadAnswer, Error, Problem, RequestWarning, SharedMemoryWarning, TransportError
from .points import Points, body_of
from .reading import JSON, TENSORS
from .result import Result
from .shared import PARAMETERS, PREFIX, Slots, Unavailable
from .transport import Transport
from .version import VERSION

T = TypeVar("T")


class Client:
    """A client of one service. Threads may share it; a process made by fork opens connections of its own.

    url               http://HOST:PORT, https://HOST:PORT or unix:PATH; a path behind the port is put before all paths
    token             sent as `Authorization: Bearer`
    ca_file           a PEM file of the authorities to trust for https; without it the system's
    certificate       a PEM file of the client's certificate and key, or (certificate, key)
    tls               an ssl.SSLContext instead of ca_file and certificate
    timeout           most seconds for connecting, and for each wait until bytes can be sent or received
    deadline          most seconds for a call, with all its attempts and pauses
    retries           most further attempts after 429, 503, 502 or 504 with Retry-After, and broken connections
    backoff           seconds before the second attempt, on top of Retry-After; doubles for each further one, up to 10,
                      and is shortened by up to half at random. If the pause would end after the deadline, the error
                      is raised at once.
    idle_connections  most connections kept open for later requests
    encoding          gzip or zstd: points are sent so encoded, which pays on slow links; zstd needs Python 3.14 or the
                      package zstandard. Answers come as they are.
    shared_memory     points and tensors go through shared memory if the service is on this machine and allows it; a
                      string is what the keys begin with, if that is not "voxeld". If memory is not shared, a
                      SharedMemoryWarning says why, and they go through the socket.

    Result.warnings has what the service warns of. The first warning of each kind is a Python RequestWarning too.
    """

    def __init__(
        self,
        url: str = "http://localhost:8080",
        *,
        token: Optional[str] = None,
        ca_file: Optional[str] = None,
        certificate: Union[None, str, Tuple[str, str]] = None,
        tls: Optional[ssl.SSLContext] = None,
        timeout: float = 60.0,
        deadline: float = 120.0,
        retries: int = 5,
        backoff: float = 0.2,
        idle_connections: int = 8,
        encoding: Optional[str] = None,
        shared_memory: Union[bool, str] = False,
    ) -> None:
        if ca_file is not None or certificate is not None:
            if tls is not None:
                raise ValueError("give tls, or ca_file and certificate")
            tls = ssl.create_default_context(cafile=ca_file)
            if certificate is not None:
                tls.load_cert_chain(*((certificate,) if isinstance(certificate, str) else certificate))
        self._url = url
        self._encoding, self._encode = encoding, encoder_of(encoding)
        self._warned: Set[str] = set()  # kinds of warnings
        self._headers = {"User-Agent": f"voxeld-python/{VERSION}"}
        if token is not None:
            self._headers["Authorization"] = f"Bearer {_sound(token)}"
        endpoint = Endpoint.parse(url, tls)
        self._transport = Transport(endpoint, timeout, deadline, retries, backoff, idle_connections)
        self._slots: Optional[Slots] = None
        if shared_memory:
            prefix = shared_memory if isinstance(shared_memory, str) else PREFIX
            try:
                self._slots = Slots(self._transport, endpoint, self._headers, prefix)
            except Unavailable as reason:
                self._share_no_more(reason)

    # --- computing ---

    def voxelize(
        self,
        points: Points,
        preset: Optional[str] = None,
        *,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Any,
    ) -> Result:
        """Voxels of one cloud, or of a batch.

        points: an array [N, C] of float32 or float16, which gives num_features and dtype; or a batch, as a list of such
        arrays or one array [B, N, C], which gives point_counts too; or bytes: rows as the service takes them or, with
        format, a file, described by the parameters. Arrays are numpy arrays, objects in CPU memory with __array__ or
        __dlpack__, or buffers of such numbers.

        parameters: those of POST /v1/voxelize, such as voxel_size=(0.05, 0.05, 0.1) or outputs=["voxels"]; a
        parameter that is None is not sent. With metadata_only no tensors are made. request_id and
        traceparent appear in the service's log.

        Raises Problem if the service refuses, TransportError or BadAnswer if no proper answer comes, and TypeError or
        ValueError if the points cannot be sent.
        """
        return self._compute(
            "/v1/voxelize", points, {"preset": preset, **parameters}, metadata_only, request_id, traceparent
        )

    def fps(
        self,
        points: Points,
        num_samples: Any = None,
        *,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Any,
    ) -> Result:
        """Farthest point samples; the other arguments are those of voxelize. num_samples: one number for
        all clouds, or a list with one for each; None leaves it to the preset."""
        return self._compute(
            "/v1/fps", points, {"num_samples": num_samples, **parameters}, metadata_only, request_id, traceparent
        )

    def transform(
        self,
        points: Points,
        preset: Optional[str] = None,
        *,
        cut: Any = None,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Any,
    ) -> Result:
        """Points moved and filtered; the other arguments are those of voxelize. matrix: 4x4, or one for each cloud;
        crop: the six numbers of a box; cut: a list of such boxes, or the text that the service takes."""
        boxes = cut if cut is None or isinstance(cut, str) else ";".join(_text(box) for box in cut) or "off"
        given = {"preset": preset, "cut": boxes, **parameters}
        return self._compute("/v1/transform", points, given, metadata_only, request_id, traceparent)

    def nms(
        self,
        boxes: Any,
        scores: Any,
        labels: Any = None,
        preset: Optional[str] = None,
        *,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Any,
    ) -> Result:
        """Which boxes no better one covers: the tensor kept_indices. boxes: [N, 7] (x, y, z, dx, dy, dz, heading);
        scores: [N]; labels: [N] whole numbers, for class_agnostic="no". The other arguments are those of voxelize."""
        given = {"boxes": (boxes, "F32"), "scores": (scores, "F32"), "labels": (labels, "I32")}
        body = tensors.pack({name: item for name, item in given.items() if item[0] is not None})
        told = {"preset": preset, **parameters}
        return self._ask("/v1/nms", body, told, metadata_only, request_id, traceparent, TENSORS)

    def decode(
        self,
        maps: Mapping[str, Any],
        preset: Optional[str] = None,
        *,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Any,
    ) -> Result:
        """Boxes of a head's maps: the tensors boxes, scores, labels, box_indices, box_counts. maps: arrays of float32
        or float16 by the names of the inputs, channels last, [B, H, W, C] or [H, W, C]; those that are None are not
        sent. The other arguments are those of voxelize."""
        given = {name: (values, tensors.float_type(values)) for name, values in maps.items() if values is not None}
        told = {"preset": preset, **parameters}
        return self._ask("/v1/decode", tensors.pack(given), told, metadata_only, request_id, traceparent, TENSORS)

    def scatter(
        self,
        features: Any,
        voxel_coords: Any,
        *,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Any,
    ) -> Result:
        """Rows of features as a dense map: the tensor bev_features. features: [V, C] float32 or float16; voxel_coords:
        [V, 4] (batch, z, y, x); grid_size: nx, ny, nz. The other arguments are those of voxelize."""
        half = getattr(features, "dtype", None) == np.float16
        body = tensors.pack({"features": (features, "F16" if half else "F32"), "voxel_coords": (voxel_coords, "I32")})
        return self._ask("/v1/scatter", body, parameters, metadata_only, request_id, traceparent, TENSORS)

    def file(
        self,
        operation: str,
        points: Points,
        media_type: str = TENSORS,
        *,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Any,
    ) -> NDArray[np.uint8]:
        """The answer of voxelize, fps or transform as the bytes of a file: application/vnd.safetensors,
        application/x-npz or application/x-mcap. The other arguments are those of the operation; it warns of nothing.
        """

        def read(answer: Answer) -> NDArray[np.uint8]:
            reading.expect(answer, media_type)
            return answer.body

        path = "/v1/" + urllib.parse.quote(operation, safe="")
        body, told = body_of(points, _given(parameters))
        request = self._post(path, body, {**parameters, **told}, media_type, request_id, traceparent)
        return self._deliver(request, read, lambda file: file)

    # --- asking ---

    def presets(self) -> List[Dict[str, Any]]:
        """All presets: name, description, parameters."""
        return self._get("/v1/presets", reading.presets)

    def preset(self, name: str) -> Dict[str, Any]:
        """One preset; Problem 404 if there is none of this name."""
        return self._document("/v1/presets/" + urllib.parse.quote(name, safe=""))

    def status(self) -> Dict[str, Any]:
        """What the service is doing."""
        return self._document("/v1/status")

    def metrics(self) -> str:
        """The metrics, in Prometheus' text format."""
        return self._get("/metrics", reading.plain)

    def healthy(self) -> bool:
        """Whether the service lives. One attempt, as for ready()."""
        return self._probe("/healthz", "ok")

    def ready(self) -> bool:
        """Whether it takes requests. One attempt; False while it starts or stops, and if nobody or something else
        answers. Raises errors that waiting cannot mend: a lasting Problem, or an untrusted certificate."""
        return self._probe("/readyz", "ready", "degraded")

    # --- life ---

    def close(self) -> None:
        """Closes the idle connections at once, and those in use when their requests end."""
        if self._slots:
            self._slots.close()
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<voxeld.Client {self._url}>"

    # --- requests ---

    def _compute(
        self,
        path: str,
        points: Points,
        parameters: Mapping[str, Any],
        metadata_only: bool,
        request_id: Optional[str],
        traceparent: Optional[str],
    ) -> Result:
        body, told = body_of(points, _given(parameters))
        return self._ask(path, body, {**parameters, **told}, metadata_only, request_id, traceparent)

    def _ask(
        self,
        path: str,
        body: List[memoryview],
        parameters: Mapping[str, Any],
        metadata_only: bool,
        request_id: Optional[str],
        traceparent: Optional[str],
        kind: Optional[str] = None,
    ) -> Result:
        accept = JSON if metadata_only else TENSORS
        request = self._post(path, body, parameters, accept, request_id, traceparent, kind)
        if metadata_only:
            result = self._deliver(request, reading.metadata, None)
        else:
            result = self._deliver(request, reading.tensors, lambda file: Result(*tensors.parse(file)))
        self._warn(result)
        return result

    def _post(
        self,
        path: str,
        body: List[memoryview],
        parameters: Mapping[str, Any],
        accept: str,
        request_id: Optional[str],
        traceparent: Optional[str],
        kind: Optional[str] = None,
    ) -> Request:
        headers = {"Accept": accept, "Content-Type": kind, "X-Request-Id": request_id, "traceparent": traceparent}
        texts = {name: _text(value) for name, value in _given(parameters).items()}
        query = urllib.parse.urlencode(texts, safe=",")
        return Request("POST", f"{path}?{query}", {**self._headers, **_given(headers)}, body)

    def _encoded(self, request: Request) -> Request:
        if not (self._encode and self._encoding and request.body is not None):
            return request
        headers = {**request.headers, "Content-Encoding": self._encoding}
        return replace(request, headers=headers, body=self._encode(request.body))

    def _deliver(
        self, request: Request, read: Callable[[Answer], T], parse: Optional[Callable[[NDArray[np.uint8]], T]]
    ) -> T:
        """Asks through shared memory or, where that cannot be, through the socket. `parse` reads the answer's file;
        None if there is only metadata."""
        until = self._transport.deadline()
        result = self._share(request, read, parse, until)
        return self._transport.ask(self._encoded(request), read, until=until) if result is None else result

    def _share(
        self,
        request: Request,
        read: Callable[[Answer], T],
        parse: Optional[Callable[[NDArray[np.uint8]], T]],
        until: float,
    ) -> Optional[T]:
        """None if the request has to be sent: memory is not shared, or an attempt came to an error that may pass."""
        size = sum(piece.nbytes for piece in request.body or ())
        if self._slots is None or size == 0:
            return None
        try:
            with self._slots.slot(size) as slot:
                slot.write(request.body or ())
                asked = replace(request, target=slot.target(request.target, size, parse is not None), body=[])

                def read_slot(answer: Answer) -> T:
                    return parse(slot.read(reading.length(answer))) if parse else read(answer)

                return self._transport.ask(asked, read_slot, retries=0, until=until)
        except Unavailable as reason:
            self._share_no_more(reason)
        except OSError:  # /dev/shm is full
            pass
        except Error as failure:
            ours = isinstance(failure, Problem) and failure.parameter in PARAMETERS
            if not failure.temporary and not ours:
                raise
        return None

    def _share_no_more(self, reason: Unavailable) -> None:
        self._slots = None
        warnings.warn(f"points go through the socket: {reason}", SharedMemoryWarning, stacklevel=_caller())

    def _warn(self, result: Result) -> None:
        for warning in result.warnings:
            if warning["kind"] not in self._warned:
                self._warned.add(warning["kind"])
                warnings.warn(f"{warning['kind']}: {warning['detail']}", RequestWarning, stacklevel=_caller())

    def _get(self, path: str, read: Callable[[Answer], T], retries: Optional[int] = None) -> T:
        return self._transport.ask(Request("GET", path, self._headers), read, retries)

    def _document(self, path: str) -> Dict[str, Any]:
        return self._get(path, reading.document)

    def _probe(self, path: str, *pages: str) -> bool:
        try:
            return self._get(path, reading.plain, retries=0).strip() in pages
        except BadAnswer:
            return False
        except (Problem, TransportError) as failure:
            if failure.temporary or isinstance(failure.__cause__, socket.gaierror):  # the name may appear later
                return False
            raise


def _caller() -> int:
    """The level, for a warning, of the nearest function that is not of this module."""
    level, frame = 0, sys._getframe(1)
    while frame.f_globals is globals() and frame.f_back:
        level, frame = level + 1, frame.f_back
    return level + 1


def _sound(token: str) -> str:
    if not isinstance(token, str):
        raise TypeError(f"the token is {type(token).__name__}; expected str")
    if not re.fullmatch(r"[\x21-\x7e]+", token):  # the message must not show the token
        raise ValueError("the token is empty, or holds something else than printable ASCII without blanks")
    return token


def _given(values: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _text(value: Any) -> str:
    """The text of a parameter in a query; a list becomes its items with commas between."""
    if isinstance(value, bool):
        raise TypeError("no parameter is a bool")
    if hasattr(value, "tolist"):  # numpy's arrays and scalars
        value = value.tolist()
    return ",".join(_text(item) for item in value) if isinstance(value, (list, tuple)) else str(value)
