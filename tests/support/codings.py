"""Content codings: encodes bodies and decodes answers. Standard library only."""

import gzip
import shutil
import subprocess
import zlib


def raw_frame(data):
    """A zstd frame of raw blocks, with a window of 1 MiB and no checksum."""
    pieces = [data[at : at + 65536] for at in range(0, len(data), 65536)] or [b""]
    blocks = (
        (len(piece) << 3 | (number == len(pieces) - 1)).to_bytes(3, "little") + piece
        for number, piece in enumerate(pieces)
    )
    return b"\x28\xb5\x2f\xfd\0" + bytes([10 << 3]) + b"".join(blocks)


def zstd_bomb(size, window_log=20):
    """A small zstd frame that decodes to at most `size` zeros, in whole blocks."""
    block, last = min(1 << window_log, 1 << 17), b"\x03\0\0\0"
    return (
        b"\x28\xb5\x2f\xfd\0"
        + bytes([(window_log - 10) << 3])
        + ((block << 3 | 2).to_bytes(3, "little") + b"\0") * (size // block)
        + last
    )


def zstd(data):
    """Encodes with the program zstd, else as raw_frame."""
    if not shutil.which("zstd"):
        return raw_frame(data)
    return subprocess.run(["zstd", "-1", "-qc"], input=data, capture_output=True, check=True).stdout


def _gzip(data):
    return gzip.compress(data, 1)


CODERS = {"gzip": _gzip, "x-gzip": _gzip, "deflate": zlib.compress, "zstd": raw_frame}


def answers():
    """The codings that decode() can decode here."""
    return ("gzip", "zstd") if shutil.which("zstd") else ("gzip",)


def decode(reply):
    """Decodes the reply's body, and returns the reply."""
    coding = reply.headers.get("Content-Encoding")
    if coding == "gzip":
        reply.body = gzip.decompress(reply.body)
    elif coding == "zstd":
        reply.body = subprocess.run(["zstd", "-dc"], input=reply.body, capture_output=True, check=True).stdout
    return reply
