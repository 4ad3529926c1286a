"""Connections from a chosen address. Standard library only.

After a plain bind() to port 0, the port is taken for the whole machine until a minute after the connection's end; tests
with hundreds of short connections a second would use up all ports. With IP_BIND_ADDRESS_NO_PORT the system chooses the
port at connect(), and it need only be free towards that server."""

import http.client
import socket

_NO_PORT = getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24)  # Python names it from 3.12 on


def bind_source(unconnected, source):
    """The socket will connect from the address `source`."""
    unconnected.setsockopt(socket.IPPROTO_IP, _NO_PORT, 1)
    unconnected.bind((source, 0))


def connected(address, timeout, source=None, receive_buffer=None):
    """A socket connected to (host, port) or to the path of a Unix socket. `source` is for IPv4. A small receive buffer
    takes effect only before connecting."""
    unix = isinstance(address, str)
    family = socket.AF_UNIX if unix else socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    plain = socket.socket(family, socket.SOCK_STREAM)
    try:
        plain.settimeout(timeout)
        if receive_buffer:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source and family == socket.AF_INET:
            bind_source(plain, source)
        plain.connect(address)
    except OSError:
        plain.close()
        raise
    return plain


class HTTPConnection(http.client.HTTPConnection):
    """A connection from `connected`. Needs a timeout."""

    def connect(self):
        self.sock = connected((self.host, self.port), self.timeout, self.source_address and self.source_address[0])
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class HTTPSConnection(http.client.HTTPSConnection, HTTPConnection):
    """Wraps the socket that HTTPConnection connects."""


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self.path = path

    def connect(self):
        self.sock = connected(self.path, self.timeout)
