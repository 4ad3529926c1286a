"""The rows of the table in docs/operate/platforms.md: tests/platform/record writes one file for each row, and
tests/platform/table reads the files. Standard library."""

import dataclasses
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
RESULTS = ROOT / "build" / "platform" / "results"

# A column: its key in a record, its title in the table, the pattern of its values, and its meaning.
COLUMNS = (
    ("platform", "platform", r".+", "the system, with its version: Debian 13"),
    ("arch", "arch", r"[a-z0-9_]+(, qemu)?", "as dpkg names it, and whether it is emulated: amd64; arm64, qemu"),
    ("compiler", "compiler", r"(gcc|clang) [0-9.]+", "of C: gcc 14.2.0"),
    ("cmake", "CMake", r"[0-9.]+", "what configured the build: 3.31.6"),
    ("libmicrohttpd", "libmicrohttpd", r"[0-9.]+", "what it was linked with: 1.0.1"),
    ("python", "Python", r"[0-9.]*", "what the tests ran with: 3.13.5"),
    ("openssl", "OpenSSL", r"[0-9.]*[a-z]*", "what the tests' clients ran with: 3.5.1"),
    ("cuda", "CUDA", r"[0-9.]*", "the toolkit that the CUDA backend was built with; nothing if there was none: 12.4"),
    ("ran", "what ran", r".+", "all tests, the labels of ctest that were chosen, or `built` if none ran: http, fault"),
    ("passed", "passed", r"[0-9]*", "how many of the tests"),
    ("skipped", "skipped", r"[0-9]*", "how many said that they cannot run there"),
    ("failed", "failed", r"[^|]*", "the names of those that failed, if any did"),
    ("date", "on", r"20\d\d-\d\d-\d\d", "the day; the script record fills it in"),
)
KEYS = tuple(key for key, *_ in COLUMNS)
NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")


@dataclasses.dataclass
class Row:
    """A run on a platform: its name, by which the table is sorted, and values by key."""

    name: str
    values: dict[str, str]

    def wrong(self) -> str:
        """The error in the row, or ""."""
        if not NAME.fullmatch(self.name):
            return f"{self.name}: a name is made of a-z, 0-9, dots and dashes"
        for key in self.values:
            if key not in KEYS:
                return f"{self.name}: there is no key {key}; the keys are {', '.join(KEYS)}"
        for key, _, pattern, meaning in COLUMNS:
            if not re.fullmatch(pattern, self.values.get(key, "")) or "\n" in self.values.get(key, ""):
                return f"{self.name}: {key}={self.values.get(key, '')} is malformed; the meaning of {key}: {meaning}"
        return ""


def die(reason: str) -> None:
    print(f"{pathlib.Path(sys.argv[0]).name}: {reason}", file=sys.stderr)
    sys.exit(1)


def recorded() -> list[Row]:
    """The rows in RESULTS."""
    rows = {path.name: path.read_text().splitlines() for path in RESULTS.glob("*")}
    return [Row(name, dict(line.split("=", 1) for line in lines)) for name, lines in rows.items()]
