"""Shared memory of a test, like shm_open's, and a client's regions of it."""

import itertools
import json
import os
import pathlib

from daemon import wait_until

REGIONS = "/v2/systemsharedmemory"
_numbers = itertools.count()


def unregister(daemon, name=None):
    """Unregisters one region or all. Tries again while a job writes to them."""
    path = f"{REGIONS}/region/{name}/unregister" if name else f"{REGIONS}/unregister"
    wait_until(lambda: daemon.post(path).status == 200, f"an end of the writing to {name or 'all regions'}")


class Memory:
    """Shared memory of `size` bytes, which is unlinked at the end."""

    def __init__(self, size, prefix="voxeld-test"):
        self.key = f"/{prefix}-{os.getpid()}-{next(_numbers)}"
        self.path = pathlib.Path("/dev/shm" + self.key)
        self.file = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        os.ftruncate(self.file, size)
        self.size = size

    def write(self, data, offset=0):
        os.pwrite(self.file, data, offset)

    def read(self, size, offset=0):
        return os.pread(self.file, size, offset)

    def shorten(self, size):
        os.ftruncate(self.file, size)

    def unlink(self):
        self.path.unlink(missing_ok=True)

    def register(self, daemon, name, headers=None, source=None, **terms):
        terms = {"key": self.key, "byte_size": self.size, **terms}
        return daemon.post(f"{REGIONS}/region/{name}/register", json.dumps(terms), headers, source=source)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        os.close(self.file)
        self.unlink()
