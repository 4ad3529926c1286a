"""The endpoints of voxeld as methods."""

from __future__ import annotations

import re
import ssl
import urllib.parse
from types import TracebackType
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Type, Union

import numpy as np
from numpy.typing import NDArray

from . import reading, tensors
from .calls import Calls, text_of, without_none
from .connection import Endpoint
from .points import Points, body_of
from .reading import TENSORS
from .result import Result
from .stream import Pose, Stream
from .transport import Transport
from .version import VERSION


class Client:
    """A client of one service. Threads may share it; a process made by fork opens its own connections.

    url               http://HOST:PORT, https://HOST:PORT or unix:PATH; a path after the port is put before all paths
    token             sent as `Authorization: Bearer`
    ca_file           a PEM file of the authorities to trust for https; without it, those of the system
    certificate       a PEM file of the client's certificate and key, or (certificate, key)
    tls               an ssl.SSLContext instead of ca_file and certificate
    timeout           limit in seconds for connecting, and for each wait until bytes can be sent or received
    deadline          limit in seconds for a call, with all its attempts and pauses
    retries           limit of further attempts after 429, 503, 502 or 504 with Retry-After, and broken connections
    backoff           seconds before the second attempt, on top of Retry-After; doubles for each further one, up to 10,
                      and is shortened by up to half at random. If the pause would end after the deadline, the error
                      is raised at once.
    idle_connections  limit of connections kept open for later requests
    encoding          gzip or zstd: points are sent compressed, which pays on slow links; zstd needs Python 3.14 or the
                      package zstandard. Answers are not compressed.
    shared_memory     points and tensors go through shared memory if the service is on this machine and allows it. If
                      memory is not shared, a SharedMemoryWarning says why, and they go through the socket.

    Result.warnings has the warnings of the service. The first warning of each kind is also a Python RequestWarning.
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
        shared_memory: bool = False,
    ) -> None:
        if ca_file is not None or certificate is not None:
            if tls is not None:
                raise ValueError("give tls, or ca_file and certificate")
            tls = ssl.create_default_context(cafile=ca_file)
            if certificate is not None:
                tls.load_cert_chain(*((certificate,) if isinstance(certificate, str) else certificate))
        self._url = url
        headers = {"User-Agent": f"voxeld-python/{VERSION}"}
        if token is not None:
            headers["Authorization"] = f"Bearer {_sound(token)}"
        endpoint = Endpoint.parse(url, tls)
        transport = Transport(endpoint, timeout, deadline, retries, backoff, idle_connections)
        self._calls = Calls(transport, headers, encoding)
        if shared_memory:
            self._calls.share(endpoint)

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
            "voxelize", points, {"preset": preset, **parameters}, metadata_only, request_id, traceparent
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
        all clouds, or a list with one for each; with None the preset's value counts."""
        return self._compute(
            "fps", points, {"num_samples": num_samples, **parameters}, metadata_only, request_id, traceparent
        )

    def points(
        self,
        points: Points,
        preset: Optional[str] = None,
        *,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Any,
    ) -> Result:
        """The points that steps leave, or all finite points as float32; the other arguments are those of voxelize.
        steps: the names of the steps; **{"TAG.name": value} gives a step its parameters, here and elsewhere."""
        given = {"preset": preset, **parameters}
        return self._compute("points", points, given, metadata_only, request_id, traceparent)

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
        boxes = cut if cut is None or isinstance(cut, str) else ";".join(text_of(box) for box in cut) or "off"
        given = {"preset": preset, "cut": boxes, **parameters}
        return self._compute("transform", points, given, metadata_only, request_id, traceparent)

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
        """Boxes that no better box suppresses: the tensor kept_indices. boxes: [N, 7] (x, y, z, dx, dy, dz, heading);
        scores: [N]; labels: [N] whole numbers, for class_agnostic="no". The other arguments are those of voxelize."""
        given = {"boxes": (boxes, "F32"), "scores": (scores, "F32"), "labels": (labels, "I32")}
        body = tensors.pack({name: item for name, item in given.items() if item[0] is not None})
        told = {"preset": preset, **parameters}
        return self._calls.compute("nms", body, told, metadata_only, request_id, traceparent, TENSORS)

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
        """Boxes from a head's maps: the tensors boxes, scores, labels, box_indices, box_counts. maps: arrays of float32
        or float16 by the names of the inputs, channels last, [B, H, W, C] or [H, W, C]; maps that are None are not
        sent. The other arguments are those of voxelize."""
        given = {name: (values, tensors.float_type(values)) for name, values in maps.items() if values is not None}
        told = {"preset": preset, **parameters}
        return self._calls.compute("decode", tensors.pack(given), told, metadata_only, request_id, traceparent, TENSORS)

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
        return self._calls.compute("scatter", body, parameters, metadata_only, request_id, traceparent, TENSORS)

    def detect(
        self,
        points: Points,
        model: str,
        *,
        metadata_only: bool = False,
        request_id: Optional[str] = None,
        traceparent: Optional[str] = None,
        **parameters: Any,
    ) -> Result:
        """Boxes of one cloud, or of each cloud of a batch, by a model of the service: the tensors boxes [K, 7 or 9],
        scores [K], labels [K] and box_counts [B]. The metadata's class_names has the names of the labels. The other
        arguments are those of voxelize; the points must have the columns that the model expects."""
        return self._compute("detect", points, {"model": model, **parameters}, metadata_only, request_id, traceparent)

    def stream(
        self,
        name: str,
        sweeps: int,
        *,
        operation: str = "voxelize",
        streams: Optional[Sequence[str]] = None,
        mount: Optional[Pose] = None,
        keep: bool = False,
        **parameters: Any,
    ) -> Stream:
        """A sensor's stream. send() joins a sweep with earlier sweeps, `sweeps` in all, and computes the result.

        operation: voxelize, fps, points, transform or detect; the rest are its parameters, such as preset,
        time_column="yes" or remove_close=1. streams: several sensors' streams, of which this is one, to join in the
        frame of the first.
        mount: from the sensor's frame to the vehicle's, in any form of a pose. keep: older sweeps stay here too, as
        copies, and are sent again if the service has lost them; points must then be arrays.
        """
        operations: Dict[str, Callable[..., Result]] = {
            "voxelize": self.voxelize,
            "fps": self.fps,
            "points": self.points,
            "transform": self.transform,
            "detect": self.detect,
        }
        if operation not in operations:
            raise ValueError(f"operation is {operation!r}; expected {', '.join(operations)}")
        return Stream(self._calls, operations[operation], name, sweeps, streams, mount, keep, parameters)

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
        """The answer of voxelize, fps, points, transform or detect as the bytes of a file: application/vnd.safetensors,
        application/x-npz or application/x-mcap. The other arguments are those of the operation; no warnings are shown.
        """
        body, told = body_of(points, without_none(parameters))
        return self._calls.file(operation, body, {**parameters, **told}, media_type, request_id, traceparent)

    # --- asking ---

    def presets(self) -> List[Dict[str, Any]]:
        """All presets: name, description, parameters."""
        return self._calls.get("/v1/presets", lambda answer: reading.listed(answer, "presets"))

    def preset(self, name: str) -> Dict[str, Any]:
        """One preset; Problem 404 if there is no preset of this name."""
        return self._document("/v1/presets/" + urllib.parse.quote(name, safe=""))

    def models(self) -> List[Dict[str, Any]]:
        """All models that detect: name, whether it is ready, and its parameters or why it cannot be used."""
        return self._calls.get("/v1/models", lambda answer: reading.listed(answer, "models"))

    def model(self, name: str) -> Dict[str, Any]:
        """One model; Problem 404 if there is no model of this name."""
        return self._document("/v1/models/" + urllib.parse.quote(name, safe=""))

    def streams(self) -> List[Dict[str, Any]]:
        """What the service keeps for this client's streams."""
        return self._calls.get("/v1/streams", lambda answer: reading.listed(answer, "streams"))

    def status(self) -> Dict[str, Any]:
        """The status of the service."""
        return self._document("/v1/status")

    def metrics(self) -> str:
        """The metrics, in Prometheus' text format."""
        return self._calls.get("/metrics", reading.plain)

    def healthy(self) -> bool:
        """Whether the service is alive. One attempt, as in ready()."""
        return self._calls.probe("/healthz", "ok")

    def ready(self) -> bool:
        """Whether the service takes requests. One attempt. False while the service starts or stops, and if nothing or
        another program answers. Raises errors that waiting cannot resolve: a lasting Problem, or an untrusted
        certificate."""
        return self._calls.probe("/readyz", "ready", "degraded")

    # --- life ---

    def close(self) -> None:
        """Closes idle connections at once, and the others when their requests end."""
        self._calls.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], traceback: Optional[TracebackType]
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<voxeld.Client {self._url}>"

    def _compute(
        self,
        operation: str,
        points: Points,
        parameters: Mapping[str, Any],
        metadata_only: bool,
        request_id: Optional[str],
        traceparent: Optional[str],
    ) -> Result:
        body, told = body_of(points, without_none(parameters))
        return self._calls.compute(operation, body, {**parameters, **told}, metadata_only, request_id, traceparent)

    def _document(self, path: str) -> Dict[str, Any]:
        return self._calls.get(path, reading.document)


def _sound(token: str) -> str:
    if not isinstance(token, str):
        raise TypeError(f"the token is {type(token).__name__}; expected str")
    if not re.fullmatch(r"[\x21-\x7e]+", token):  # the message must not show the token
        raise ValueError("the token is empty, or holds something else than printable ASCII without blanks")
    return token
