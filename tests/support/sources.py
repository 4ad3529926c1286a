"""Connections from an address of one's own. Standard library only.

A plain bind() to port 0 takes a port of the whole machine until a minute after the connection's end: some hundred short
connections a second, of several tests at once, leave none to anybody. IP_BIND_ADDRESS_NO_PORT puts the choice off until
connect(), where a port need only be free towards that one server.
"""

import http.client
import socket

_NO_PORT = getattr(socket, "IP_BIND_ADDRESS_NO_PORT", 24)  # Python 3.12 is the first to name it


def bind_source(unconnected, source):
    """The socket will connect from the address `source`."""
    unconnected.setsockopt(socket.IPPROTO_IP, _NO_PORT, 1)
    unconnected.bind((source, 0))


class HTTPConnection(http.client.HTTPConnection):
    """One that leaves the port of its source_address to connect(). IPv4; it needs a timeout."""

    def connect(self):
        if self.source_address is None:
            super().connect()
            return
        self.sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        try:
            bind_source(self.sock, self.source_address[0])
            self.sock.connect((self.host, self.port))
        except OSError:
            self.close()
            raise
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


class HTTPSConnection(http.client.HTTPSConnection, HTTPConnection):
    """It wraps what the other one connects."""
