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
    """A small frame that decodes to `size` zeros, in whole blocks: each block repeats one byte."""
    block, last = min(1 << window_log, 1 << 17), b"\x03\0\0\0"
    return (
        b"\x28\xb5\x2f\xfd\0"
        + bytes([(window_log - 10) << 3])
        + ((block << 3 | 2).to_bytes(3, "little") + b"\0") * (size // block)
        + last
    )


def zstd(data):
    """Encodes with the program zstd, if there is one."""
    if not shutil.which("zstd"):
        return raw_frame(data)
    return subprocess.run(["zstd", "-1", "-qc"], input=data, capture_output=True, check=True).stdout


def _gzip(data):
    return gzip.compress(data, 1)


CODERS = {"gzip": _gzip, "x-gzip": _gzip, "deflate": zlib.compress, "zstd": raw_frame}


def answers():
    """The codings of answers that can be decoded here."""
    return ("gzip", "zstd") if shutil.which("zstd") else ("gzip",)


def decode(reply):
    """The same reply with its body decoded."""
    coding = reply.headers.get("Content-Encoding")
    if coding == "gzip":
        reply.body = gzip.decompress(reply.body)
    elif coding == "zstd":
        reply.body = subprocess.run(["zstd", "-dc"], input=reply.body, capture_output=True, check=True).stdout
    return reply
