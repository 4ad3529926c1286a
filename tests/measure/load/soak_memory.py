"""What the daemon's resident memory consists of, in MB: the kernel's figures beside the daemon's own.

The kernel merges adjacent anonymous mappings, so buffers, the memory of connections and the scratch of CPU workers form
one group. The daemon counts all mapped bytes of its buffers and connections, touched or not. So the rest of the group
is at least as large as the group minus these counts.
"""

import re
import statistics
from collections import Counter

from daemon import OPERATOR

ARENA = 64 << 20  # alignment and size of glibc's heap of a thread
STACK = 8 << 20  # maximum of a thread, the usual `ulimit -s`
GUARD = 64 << 10  # maximum free space below a stack
CONNECTION = 256 * 1024  # bytes of a connection that has had a request
GROUPS = {
    "program": "program",  # and libraries: code, data
    "heap": "heap",
    "stacks": "stacks",
    "anonymous": "anon.",  # buffers, connections, scratch of CPU workers
    "driver": "GPU",  # the GPU driver's mappings and the pinned memory that it allocates
    "rest": "rest",
}
OWN = {"in use": "in use", "kept": "kept", "connections": "conn."}  # of /metrics
LEFT = "left"  # anonymous memory beyond OWN: scratch of CPU workers, tables of the daemon
COLUMNS = {"resident": "resident"} | GROUPS | OWN | {LEFT: LEFT}
HEAD = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+ *(.*)")


class Mapping:
    def __init__(self, head):
        start, end, self.access, self.path = head.groups()
        self.start, self.end, self.resident = int(start, 16), int(end, 16), 0


def mappings(pid):
    found = []
    with open(f"/proc/{pid}/smaps", encoding="utf-8") as file:
        for line in file:
            if head := HEAD.match(line):
                found.append(Mapping(head))
            elif line.startswith("Rss:"):
                found[-1].resident = int(line.split()[1]) * 1024
    return found


def is_free(mapping):
    """Inaccessible address space."""
    return mapping and mapping.access.startswith("---")


def group_of(before, mapping, after):
    """`before` and `after` are the adjacent mappings, or None."""
    if mapping.access.endswith("s") or mapping.path.startswith("/dev/"):
        return "driver"
    if mapping.path.startswith("/") or (before and before.path.startswith("/") and not mapping.path):
        return "program"  # its zero-initialized data follow its file
    if mapping.path:
        return {"[heap]": "heap", "[stack]": "stacks"}.get(mapping.path, "rest")
    if mapping.start % ARENA == 0 and (after if is_free(after) else mapping).end == mapping.start + ARENA:
        return "heap"
    if is_free(before) and before.end - before.start <= GUARD and mapping.end - mapping.start <= STACK:
        return "stacks"
    return "anonymous" if mapping.access.startswith("rw") else "rest"


def resident(pid):
    """Counter of bytes by group."""
    found, groups = mappings(pid), Counter()
    for before, mapping, after in zip([None, *found], found, [*found[1:], None]):
        before = before if before and before.end == mapping.start else None
        after = after if after and after.start == mapping.end else None
        groups[group_of(before, mapping, after)] += mapping.resident
    return groups


def own(metrics):
    """Bytes of OWN from the text of /metrics."""
    buffers = dict(re.findall(r'^voxeld_buffer_bytes\{state="(\w+)"\} (\d+)', metrics, re.MULTILINE))
    (connections,) = re.findall(r"^voxeld_connections (\d+)", metrics, re.MULTILINE)
    return {
        "in use": int(buffers["in_use"]),
        "kept": int(buffers["free"]),
        "connections": int(connections) * CONNECTION,
    }


def look(daemon):
    """MB by column."""
    values = resident(daemon.process.pid)
    values["resident"] = sum(values.values())
    values.update(own(daemon.get("/metrics", source=OPERATOR).body.decode()))
    values[LEFT] = max(0, values["anonymous"] - sum(values[name] for name in OWN))
    return {name: values[name] / 1e6 for name in COLUMNS}


def slopes(second, last):
    """MB an hour by column, between the medians of the second and the last quarter: lists of (seconds, look)."""
    (began, before), (ended, after) = (
        (statistics.median(seconds for seconds, _ in part), [look for _, look in part]) for part in (second, last)
    )
    median = lambda looks, name: statistics.median(look[name] for look in looks)  # noqa: E731
    return {name: (median(after, name) - median(before, name)) / (ended - began) * 3600 for name in COLUMNS}


def table(rows):
    """`rows`: name to (look, sign of its numbers)."""
    lines = [f"{'memory, MB':24}" + "".join(f"{text:>9}" for text in COLUMNS.values())]
    for title, (values, sign) in rows.items():
        lines.append(f"{title:24}" + "".join(f"{values[name]:{sign}9.1f}" for name in COLUMNS))
    return "\n".join(lines)
