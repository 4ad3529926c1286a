"""Credentials of clients: tokens, certificates, and a daemon that speaks TLS. Standard library and openssl only."""

import contextlib
import pathlib
import ssl
import subprocess
import tempfile

from daemon import PATIENCE, Daemon, voxeld_binary
from sources import HTTPSConnection


def new_token(name):
    """A new token, and its line for --token-file."""
    made = subprocess.run([voxeld_binary(), "--new-token", name], check=True, capture_output=True, text=True)
    return made.stdout.strip(), made.stderr


class Authority:
    """A certificate authority in a folder, made by openssl, with the extensions that Python 3.13 requires."""

    CONFIG = """[ca]
default_ca = own
[own]
database = {0}.issued
serial = {0}.serial
new_certs_dir = {1}
unique_subject = no
default_md = sha256
policy = any
[any]
commonName = supplied
"""

    def __init__(self, folder, name):
        self.folder, self.name = folder, name
        own = ("-subj", f"/CN={name}", "-days", "2", "-addext", "keyUsage=critical,keyCertSign")
        self._run("req", "-x509", *self._key(name), *own, "-out", self.path(f"{name}.pem"))
        (folder / f"{name}.config").write_text(self.CONFIG.format(folder / name, folder), encoding="utf-8")
        (folder / f"{name}.issued").touch()

    def path(self, name):
        return str(self.folder / name)

    def _run(self, *arguments):
        subprocess.run(["openssl", *arguments], check=True, capture_output=True)

    def _key(self, name):
        curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
        return (*curve, "-keyout", self.path(f"{name}.key"))

    def sign(self, name, extension, own_name, dates=("-days", "2")):
        """Makes NAME.pem and NAME.key. `openssl ca` takes dates of the past in every version of openssl."""
        text = f"{extension}\nauthorityKeyIdentifier=keyid\n"
        (self.folder / "extensions").write_text(text, encoding="utf-8")
        self._run("req", *self._key(name), "-subj", f"/CN={own_name}", "-out", self.path("request"))
        own = ("-cert", self.path(f"{self.name}.pem"), "-keyfile", self.path(f"{self.name}.key"), "-create_serial")
        files = ("-in", self.path("request"), "-extfile", self.path("extensions"), "-out", self.path(f"{name}.pem"))
        self._run("ca", "-batch", "-config", self.path(f"{self.name}.config"), *own, "-notext", *dates, *files)


class TokenDaemon(Daemon):
    """A daemon to which requests send a token by default."""

    def __init__(self, token, *args, **more):
        self.token = token
        super().__init__(*args, **more)

    def request(self, method, path, body=None, headers=None, connection=None, source=None):
        own = {"Authorization": f"Bearer {self.token}"}
        return super().request(method, path, body, {**own, **(headers or {})}, connection, source)


class Tls:
    """Connects with TLS to a listener. The folder has the certificates of the listener, server.pem, and of the
    authority, ca.pem."""

    def show(self, folder, client):
        """Sets the client's certificate, CLIENT.pem, or none."""
        self.context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
        if client:
            self.context.load_cert_chain(folder / f"{client}.pem", folder / f"{client}.key")

    def connection(self, timeout=PATIENCE, source=None):
        local = source and (source, 0)
        return HTTPSConnection(*self.address, timeout=timeout, context=self.context, source_address=local)

    def bare_socket(self):
        """TCP without TLS."""
        return super().socket()

    def socket(self, timeout=PATIENCE, receive_buffer=None, source=None):
        plain = super().socket(timeout, receive_buffer, source)
        return self.context.wrap_socket(plain, server_hostname=self.address[0])


class TlsDaemon(Tls, Daemon):
    def __init__(self, folder, *args, client=None):
        self.show(folder, client)
        own = ("--tls-cert", str(folder / "server.pem"), "--tls-key", str(folder / "server.key"))
        super().__init__(*own, *args)


@contextlib.contextmanager
def daemon_of(name):
    """A daemon with one client, of this name, and the client's token."""
    token, line = new_token(name)
    with tempfile.TemporaryDirectory() as folder:
        tokens = pathlib.Path(folder) / "tokens"
        tokens.write_text(line, encoding="ascii")
        tokens.chmod(0o600)
        with TokenDaemon(token, "--token-file", str(tokens)) as daemon:
            yield daemon, token
