"""Sends calls, through shared memory or the socket, and returns their answers."""

from __future__ import annotations

import re
import socket
import sys
import urllib.parse
import warnings
from dataclasses import replace
from typing import Any, Callable, Dict, Iterable, List, Mapping, Optional, Set, Tuple, Type, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from . import cuda, encodings, reading, steps, tensors
from .connection import Answer, Endpoint, Request
from .dlpack import CudaArray, arrays_on_gpu, points_on_gpu
from .errors import BadAnswer, Error, Problem, SharedMemoryWarning, TransportError
from .operations import PARAMETERS
from .parameters import text_of, text_of_boxes
from .points import body_of, describe
from .reading import JSON, SHUFFLED, TENSORS
from .result import Result
from .shared import REGIONS, Slots, Unavailable
from .transport import Transport
from .uplink import ROWS, Packed, Packer, Sent, Uplink

T = TypeVar("T")
R = TypeVar("R", bound=Result)
HEADERS = {"request_id": "X-Request-Id", "traceparent": "traceparent"}  # arguments that are headers
BOXES = {row.name for row in PARAMETERS if row.type in ("boxes", "rows")}
LATEST = re.compile("[?&]latest=")
PLAIN = re.compile(r"[A-Za-z0-9_.,~-]*")  # characters that a query has unescaped
EVERY_STREAM_BEGINS_SO = "fewer_sweeps"  # no Python warning: Stream itself warns about lost sweeps


class Calls:
    """The calls of one client, with its `headers`. Threads may share them."""

    def __init__(
        self,
        transport: Transport,
        endpoint: Endpoint,
        headers: Dict[str, str],
        encoding: Optional[str],
        uplink: Optional[Uplink],
    ) -> None:
        self._transport, self._endpoint, self._headers = transport, endpoint, headers
        self._encoding, self._encode = encoding, encodings.encoder_of(encoding)
        self._packer = None if uplink is None else Packer(uplink, encoding)
        self._rows: Dict[Tuple[str, str, str], Dict[str, Any]] = {}  # by "preset" or "model", name and operation
        self._slots: Optional[Slots] = None
        self._gpu = cuda.Memory(transport, endpoint, headers)
        self._hands_over = True  # until the service refuses memory of GPUs
        self._warned: Set[str] = {EVERY_STREAM_BEGINS_SO}  # kinds of warnings that were shown

    def share(self) -> None:
        try:
            self._slots = Slots(self._transport, self._endpoint, self._headers)
        except Unavailable as reason:
            self._share_no_more(reason)

    def close(self) -> None:
        self._gpu.close()
        if self._slots:
            self._slots.close()
        self._transport.close()

    def sent(self) -> Optional[Sent]:
        return self._packer.total if self._packer else None

    # --- computing ---

    def points(self, operation: str, kind: Type[R], told: Mapping[str, Any]) -> R:
        """`told`: the arguments of the client's method, by name."""
        if told.get("out") is not None:
            return self._points_on_gpu(operation, kind, told["points"], _given(told))
        packed, given = self._packed(operation, told)
        result = self._compute(operation, kind, packed.body, given, packed.headers)
        result.uplink = packed.report
        return result

    # --- on a GPU ---

    def _points_on_gpu(self, operation: str, kind: Type[R], points: Any, given: Dict[str, Any]) -> R:
        wanted = cuda.device_of(given.pop("out"))
        clouds, batch = points_on_gpu(points, wanted)
        device = max([wanted or 0, *[cloud.device for cloud in clouds or ()]])

        def hand_over() -> R:
            body, described = body_of(points, given) if clouds is None else ([], describe(clouds, batch, given))
            return self._hand_over(operation, kind, body, {**given, **described}, {}, clouds, device)

        def compute() -> R:
            arrays = None if clouds is None else self._gpu.download(clouds)
            told = points if arrays is None else arrays if batch else arrays[0]
            return self.points(operation, kind, {**given, "points": told})

        return self._on_gpu(hand_over, compute, device)

    def _on_gpu(self, hand_over: Callable[[], R], compute: Callable[[], R], device: int) -> R:
        """If the service cannot take memory of that GPU, the result comes to the host and is copied to the GPU."""
        if self._hands_over:
            try:
                return hand_over()
            except Unavailable as reason:
                if not reason.temporary:
                    self._hand_over_no_more(reason)
        result = compute()
        result.tensors = cast("Dict[str, NDArray[Any]]", self._gpu.upload(result.tensors, device))
        return result

    def _hand_over(
        self,
        operation: str,
        kind: Type[R],
        body: List[memoryview],
        given: Dict[str, Any],
        headers: Dict[str, str],
        clouds: Optional[List[CudaArray]],
        device: int,
    ) -> R:
        """`headers` describe the body. `clouds` are points on the GPU, in place of a body."""
        only_metadata = given.pop("metadata_only", False)
        request = self._request(operation, body, given, JSON if only_metadata else TENSORS, headers)
        until, retries = self._transport.deadline(), _retries(request)

        def ask(sent: Request) -> Answer:
            sent = self._encoded(sent) if sent.body else sent
            return self._transport.ask(sent, encodings.decode, retries, until=until)

        found, metadata = self._gpu.send(request, clouds, device, not only_metadata, ask)
        result = kind(cast("Dict[str, NDArray[Any]]", found), metadata)
        self._warn(result)
        return result

    def _hand_over_no_more(self, reason: Unavailable) -> None:
        self._hands_over = False
        self.warn(SharedMemoryWarning(f"tensors on the GPU go through the host: {reason}"))

    def tensors(self, operation: str, kind: Type[R], inputs: Mapping[str, List[str]], told: Mapping[str, Any]) -> R:
        """`inputs`: the types of each tensor, by name."""
        given, headers = _given(told), {"Content-Type": TENSORS}
        out = given.pop("out", None)
        arrays = {name: given.pop(name) for name in inputs if name in given}
        if out is None:
            body = tensors.pack({name: (array, inputs[name]) for name, array in arrays.items()})
            return self._compute(operation, kind, body, given, headers)
        wanted = cuda.device_of(out)
        there = arrays_on_gpu(arrays, wanted)
        device = max([wanted or 0, *[array.device for array in there.values()]])
        arrays.update(zip(there, self._gpu.download(list(there.values()))))
        body = tensors.pack({name: (array, inputs[name]) for name, array in arrays.items()})
        return self._on_gpu(
            lambda: self._hand_over(operation, kind, body, dict(given), headers, None, device),
            lambda: self._compute(operation, kind, body, given, headers),
            device,
        )

    def file_bytes(self, operation: str, media_type: str, told: Mapping[str, Any]) -> NDArray[np.uint8]:
        """The answer as the bytes of a file. `told` has `parameters` in addition to the points."""

        def read(answer: Answer) -> NDArray[np.uint8]:
            reading.expect(answer, media_type)
            return answer.body

        terms = {name: told[name] for name in HEADERS}
        packed, given = self._packed(operation, {"points": told["points"], **told["parameters"], **terms})
        request = self._request(operation, packed.body, given, media_type, packed.headers)
        return self._deliver(request, read, lambda file: file)

    def _packed(self, operation: str, told: Mapping[str, Any]) -> Tuple[Packed, Dict[str, Any]]:
        """The body with its headers, and the parameters."""
        body, given = _with_points(told)
        if self._packer is None:
            return Packed(body), given
        rows = self._rows_of(operation, given) if body else {}
        packed = self._packer.pack(body, None if rows is None else {**rows, **given})
        return packed, {**given, **packed.query}

    def _rows_of(self, operation: str, given: Mapping[str, Any]) -> Optional[Mapping[str, Any]]:
        """The values that the request's preset or model gives to the parameters in ROWS; a preset's or model's page is
        read once. Empty if the request names neither. None if the service does not show them."""
        kind = "model" if "model" in given else "preset"
        name = str(given.get(kind, ""))
        if not name:
            return {}
        if (kind, name, operation) not in self._rows:
            try:
                page = self.get(f"/v1/{kind}s/{urllib.parse.quote(name, safe='')}", reading.document)
            except (Problem, BadAnswer):
                return None
            rows = _rows_of_model(page) if kind == "model" else _rows_of_preset(page, operation)
            if rows is None:
                return None
            self._rows[kind, name, operation] = rows
        rows = self._rows[kind, name, operation]
        if kind == "model" and text_of(given.get("time_column", "no")) == "yes":
            return {"num_features": rows["num_features"] - 1}  # the service appends the times of sweeps
        return rows

    def _compute(
        self, operation: str, kind: Type[R], body: Iterable[memoryview], given: Dict[str, Any], headers: Dict[str, str]
    ) -> R:
        """`headers` describe the body."""
        if given.pop("metadata_only", False):
            request = self._request(operation, body, given, JSON, headers)
            result = self._deliver(request, lambda answer: kind({}, reading.document(answer)), None)
        else:
            accept = f"{SHUFFLED}, {TENSORS};q=0.9" if self._packer else TENSORS  # an older service does not shuffle
            request = self._request(operation, body, given, accept, headers)
            result = self._deliver(
                request, lambda answer: reading.tensors(answer, kind), lambda file: kind(*tensors.parse(file))
            )
        self._warn(result)
        return result

    # --- asking ---

    def get(self, path: str, read: Callable[[Answer], T], retries: Optional[int] = None) -> T:
        return self.ask(path, read, retries=retries)

    def ask(
        self,
        path: str,
        read: Callable[[Answer], T],
        method: str = "GET",
        headers: Optional[Dict[str, str]] = None,
        retries: Optional[int] = None,
    ) -> T:
        return self._transport.ask(Request(method, path, {**self._headers, **(headers or {})}), read, retries)

    def probe(self, path: str, *pages: str) -> bool:
        """Whether the service answers with one of these pages."""
        try:
            return self.get(path, reading.plain, retries=0).strip() in pages
        except BadAnswer:
            return False
        except (Problem, TransportError) as failure:
            if failure.temporary or isinstance(failure.__cause__, socket.gaierror):  # the name may appear later
                return False
            raise

    # --- requests ---

    def _request(
        self, operation: str, body: Iterable[memoryview], given: Mapping[str, Any], accept: str, headers: Dict[str, str]
    ) -> Request:
        headers = {**self._headers, "Accept": accept, **headers}
        if self._packer:  # the link is slow for answers too
            headers["Accept-Encoding"] = self._packer.encoding
        headers.update([(header, given[name]) for name, header in HEADERS.items() if name in given])
        target = f"/v1/{urllib.parse.quote(operation, safe='')}?{_query(_texts(given))}"
        return Request("POST", target, headers, body)

    def _encoded(self, request: Request) -> Request:
        if not (self._encode and self._encoding and request.body is not None) or encodings.HEADER in request.headers:
            return request
        headers = {**request.headers, encodings.HEADER: self._encoding}
        return replace(request, headers=headers, body=self._encode(list(request.body)))

    def _deliver(
        self, request: Request, read: Callable[[Answer], T], parse: Optional[Callable[[NDArray[np.uint8]], T]]
    ) -> T:
        """`parse` reads the answer's file; None if the answer is only metadata."""
        until = self._transport.deadline()
        result = self._share(request, read, parse, until)
        if result is not None:
            return result
        return self._transport.ask(
            self._encoded(request), lambda answer: read(encodings.decode(answer)), _retries(request), until=until
        )

    def _share(
        self,
        request: Request,
        read: Callable[[Answer], T],
        parse: Optional[Callable[[NDArray[np.uint8]], T]],
        until: float,
    ) -> Optional[T]:
        """None if the socket must be used, also after a temporary error."""
        if self._slots is None or (size := sum(piece.nbytes for piece in request.body or ())) == 0:
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
            ours = isinstance(failure, Problem) and failure.parameter in REGIONS
            if not failure.temporary and not ours:
                raise
        return None

    # --- warnings ---

    def warn(self, warning: UserWarning) -> None:
        warnings.warn(warning, stacklevel=_caller())

    def _share_no_more(self, reason: Unavailable) -> None:
        self._slots = None
        self.warn(SharedMemoryWarning(f"points go through the socket: {reason}"))

    def _warn(self, result: Result) -> None:
        for warning in result.warnings:
            if warning.kind not in self._warned:
                self._warned.add(warning.kind)
                self.warn(warning)


def _retries(request: Request) -> Optional[int]:
    """Limit of further attempts; None: the client's. A repeated request with `latest` would count as newer."""
    return 0 if LATEST.search(request.target) else None


def _caller() -> int:
    """The stack level of the nearest function outside this package."""
    level, frame = 0, sys._getframe(1)
    while str(frame.f_globals.get("__name__")).startswith(f"{__package__}.") and frame.f_back:
        level, frame = level + 1, frame.f_back
    return level + 1


def without_none(values: Mapping[str, Any]) -> Dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _rows_of_preset(page: Mapping[str, Any], operation: str) -> Optional[Dict[str, Any]]:
    """None if the preset is not for the operation."""
    own = page.get("parameters" if page.get("operation", "voxelize") == operation else operation)
    return {row: own[row] for row in ROWS if row in own} if isinstance(own, dict) else None


def _rows_of_model(page: Mapping[str, Any]) -> Optional[Dict[str, Any]]:
    """The number of columns; a model sets no other parameter of ROWS. None if the model is not ready."""
    own = page.get("voxelize")
    return {"num_features": int(own["num_features"])} if isinstance(own, dict) and "num_features" in own else None


def _given(told: Mapping[str, Any]) -> Dict[str, Any]:
    """The arguments of a method that are given, without the points."""
    return {name: value for name, value in told.items() if value is not None and name not in ("self", "points")}


def _texts(given: Mapping[str, Any]) -> Dict[str, str]:
    if steps.STEPS in given:
        others = {name: value for name, value in given.items() if name != steps.STEPS}
        given = {**others, **steps.parameters_of(given[steps.STEPS])}
    return {name: _text(name, value) for name, value in given.items() if name not in HEADERS}


def _query(texts: Mapping[str, str]) -> str:
    if PLAIN.fullmatch("".join([*texts, *texts.values()])):  # true of most requests; urlencode is slow
        return "&".join([f"{name}={text}" for name, text in texts.items()])
    return urllib.parse.urlencode(texts, safe=",")


def _text(name: str, value: Any) -> str:
    boxes = name.rpartition(".")[2] in BOXES  # the name of a step's parameter has the step's tag before a dot
    return (text_of_boxes if boxes else text_of)(value)


def _with_points(told: Mapping[str, Any]) -> Tuple[List[memoryview], Dict[str, Any]]:
    """The body, and the parameters: those given, and those that describe the points."""
    given = _given(told)
    body, described = body_of(told["points"], given)
    return body, {**given, **described}
