"""For the load tests: servers that run beside their clients, scans to post, medians. Standard library only.

A server's log goes to a file, and its CPU time comes from /proc, so that the measurement is not disturbed."""

import http.client
import os
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import time

from daemon import BIN, ROOT, SCAN

SCANS = ROOT.parent / "shared" / "data"
PATIENCE = 30  # seconds until a server listens
TICKS = os.sysconf("SC_CLK_TCK")


def die(text):
    sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {text}")


def core_list(text):
    """Cores in the format of taskset, such as 0-3,8."""
    bounds = [part.partition("-") for part in text.split(",")]
    return {core for first, _, last in bounds for core in range(int(first), int(last or first) + 1)}


def split_cores(text):
    """(cores of the servers, cores of the clients) from 'A:B'; None: all cores for both."""
    if not text:
        return os.sched_getaffinity(0), os.sched_getaffinity(0)
    servers, _, clients = text.partition(":")
    return core_list(servers), core_list(clients)


def run_on(cores):
    """Moves this process, and those that it starts later, to these cores."""
    os.sched_setaffinity(0, cores)


def cpu_seconds(process):
    # Fields 14 and 15; the split begins after the name, which may contain spaces.
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Server:
    """A program that prints the port on which it listens; `pattern` finds the port in its output."""

    def __init__(self, work, name, pattern, *command):
        self.log = work / f"{name}.log"
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen([str(word) for word in command], stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while not (found := re.search(pattern, self._written())):
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.stop()
                die(f"{name} does not listen: {self._written()[-1000:]}")
            time.sleep(0.02)
        self.port = int(found[1])

    def _written(self):
        return self.log.read_text(errors="replace")

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def cpu_seconds(self):
        return cpu_seconds(self.process)

    def memory_mb(self):
        """Resident memory: now, and the peak since reset_peak."""
        text = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return [int(re.search(rf"{name}:\s*(\d+) kB", text)[1]) / 1024 for name in ("VmRSS", "VmHWM")]

    def reset_peak(self):
        pathlib.Path(f"/proc/{self.process.pid}/clear_refs").write_text("5")

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def voxeld(work, name, binaries, *options):
    listening = r"msg=listening.* address=\"?\S*:(\d+)"
    return Server(work, name, listening, binaries / "voxeld", "--listen", "127.0.0.1:0", *options)


def options_for(connections):
    """Options with twice the resources that wrk's connections need, since one client gets half of everything. No option
    has less than its value in `default`."""
    need = {"--queue-depth": connections, "--max-connections": connections, "--memory-budget-bytes": connections << 22}
    default = {"--queue-depth": 1024, "--max-connections": 1000, "--memory-budget-bytes": 1 << 31}
    return [text for name in need for text in (name, str(max(2 * need[name] + 2, default[name])))]


def null_service(work, name, binaries, *options):
    return Server(work, name, r"listening (\d+)", binaries / "null-service", "--port", "0", *options)


def scans(work, names, points=0):
    """Files to post: the named scans of SCANS. If one is missing, as many simulated scans of 4 columns, thinned to
    `points` points."""
    real = [SCANS / f"{name}.bin" for name in names]
    if all(path.is_file() for path in real):
        return real
    made = [work / f"simulated{points or ''}-{seed}.bin" for seed in range(1, len(names) + 1)]
    thinned = ["--points", str(points)] if points else []
    for seed, path in enumerate(made, 1):
        command = [SCAN, "--sensor", "hdl64", "--seed", str(seed), *thinned, "--output", path]
        subprocess.run(command, check=True)
    return made


def wrk_summary(text):
    """The figures of post.lua's line in wrk's output, by name; None if there is none."""
    summary = re.search(r"^summary (.*)", text, re.MULTILINE)
    return summary and {name: float(value) for name, value in (pair.split("=") for pair in summary[1].split())}


def wrk(server, path, bodies, connections, seconds, threads):
    """One load: wrk posts the files in turn. Returns wrk_summary."""
    command = ["wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "--latency"]
    command += ["-s", ROOT / "tests/measure/load/post.lua", f"http://127.0.0.1:{server.port}{path}", "--", *bodies]
    done = subprocess.run(command, capture_output=True, text=True)
    summary = wrk_summary(done.stdout)
    if done.returncode or not summary:
        die(f"wrk failed: {(done.stdout + done.stderr)[-1000:]}")
    return summary


def tensors(answer):
    """The bytes of a safetensors file after its header, which differs from request to request."""
    (length,) = struct.unpack_from("<Q", answer)
    return answer[8 + length :]


def median_of(rows, key):
    return statistics.median(row[key] for row in rows)
