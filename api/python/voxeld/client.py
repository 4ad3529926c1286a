"""The endpoints of voxeld as methods."""

from __future__ import annotations

import re
import ssl
import urllib.parse
from types import TracebackType
from typing import Any, Dict, List, Optional, Tuple, Type, Union

from . import reading
from .calls import Calls
from .connection import Endpoint
from .operations import Operations
from .transport import Transport
from .uplink import Sent, Uplink
from .version import VERSION


class Client(Operations):
    """A client of one service. Threads may share it; a process made by fork opens its own connections.
    The methods that compute are in operations.py.

    url               http://HOST:PORT, https://HOST:PORT or unix:PATH; a path after the port is put before all paths
    token             sent as `Authorization: Bearer`
    ca_file           a PEM file of the authorities to trust for https; without it, the system's authorities
    certificate       a PEM file of the client's certificate and key, or (certificate, key)
    tls               an ssl.SSLContext instead of ca_file and certificate
    timeout           limit in seconds for connecting, and for each wait until bytes can be sent or received
    deadline          limit in seconds for a call, with all its attempts and pauses
    retries           limit of further attempts after 429, 503, a broken connection, or 502 or 504 with Retry-After
    backoff           seconds before the second attempt, on top of Retry-After; doubles for each further one, up to 10,
                      and is shortened by up to half at random. If the pause would end after the deadline, the error
                      is raised at once.
    idle_connections  limit of connections kept open for later requests
    encoding          gzip or zstd: points are sent compressed, which pays on slow links; zstd needs Python 3.14 or the
                      package zstandard.
    shared_memory     points and tensors go through shared memory if the service is on this machine and allows it. If
                      memory is not shared, a SharedMemoryWarning says why, and they go through the socket.
    uplink            for slow links. "auto": points go as integers or shuffled floats, compressed; nothing is lost.
                      A number: the resolution to which columns are rounded, or a list with one for each column.
                      Result.uplink says what was sent. `encoding` chooses the compression; without it, zstd if this
                      Python has it, else gzip.
                      Answers come shuffled and compressed. The client asks once what rows a preset or a model takes; if
                      that changes, make a new client.

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
        uplink: Optional[Uplink] = None,
    ) -> None:
        if shared_memory and uplink is not None:
            raise ValueError("give shared_memory or uplink: in shared memory points need not be small")
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
        self._calls = Calls(transport, endpoint, headers, encoding, uplink)
        if shared_memory:
            self._calls.share()

    @property
    def sent(self) -> Optional[Sent]:
        """How all points so far were sent. None without `uplink`."""
        return self._calls.sent()

    # --- asking ---

    def presets(self) -> List[Dict[str, Any]]:
        """All presets: name, description, parameters."""
        return self._calls.get("/v1/presets", lambda answer: reading.listed(answer, "presets"))

    def preset(self, name: str) -> Dict[str, Any]:
        """Problem 404 if there is no preset of this name."""
        return self._document("/v1/presets/" + urllib.parse.quote(name, safe=""))

    def models(self) -> List[Dict[str, Any]]:
        """All models that detect: name, whether it is ready, and its parameters or why it cannot be used."""
        return self._calls.get("/v1/models", lambda answer: reading.listed(answer, "models"))

    def model(self, name: str) -> Dict[str, Any]:
        """Problem 404 if there is no model of this name."""
        return self._document("/v1/models/" + urllib.parse.quote(name, safe=""))

    def streams(self) -> List[Dict[str, Any]]:
        """What the service keeps for this client's streams."""
        return self._calls.get("/v1/streams", lambda answer: reading.listed(answer, "streams"))

    def status(self) -> Dict[str, Any]:
        return self._document("/v1/status")

    def metrics(self) -> str:
        """The metrics, in Prometheus' text format."""
        return self._calls.get("/metrics", reading.plain)

    def healthy(self) -> bool:
        """Whether the service is alive. One attempt, as in ready()."""
        return self._calls.probe("/healthz", "ok")

    def ready(self) -> bool:
        """False while the service starts or stops, and if nothing or another program answers. One attempt. Raises
        errors that waiting cannot resolve, such as an untrusted certificate."""
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

    def _document(self, path: str) -> Dict[str, Any]:
        return self._calls.get(path, reading.document)


def _sound(token: str) -> str:
    if not isinstance(token, str):
        raise TypeError(f"the token is {type(token).__name__}; expected str")
    if not re.fullmatch(r"[\x21-\x7e]+", token):  # the message must not show the token
        raise ValueError("the token is empty, or has a blank or a character that is not printable ASCII")
    return token
