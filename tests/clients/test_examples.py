"""The examples of README.md, docs/*.md and docs/contribute/files.md do what they say.

The commands and programs of a page run in order, in one shell and one new folder, with the variables VOXELD and PATH
that the quickstart sets. README.md and the quickstart find a clone in the folder. The other pages find what the
quickstart leaves: scan.bin, and a daemon at localhost:8080. Output that the page shows must be the same; `...` stands
for any text, and blanks do not count.
"""

import contextlib
import http.client
import importlib.util
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

from daemon import BIN, PATIENCE, ROOT, SCAN, Daemon, voxeld_binary, wait_until

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), ROOT / "docs/contribute/files.md"]
SETS_UP = ("README.md", "quickstart.md")  # pages that start from a clone
# Beginnings of commands that are not run: they install, name a reader's own files, or do not end.
NOT_RUN = (
    "git clone",
    "./dev",
    "pip install",
    "python3 -m venv",
    "docker",
    "voxeld-convert openpcdet pointpillar_7728.pth",
    "voxeld-convert onnx",
    'python3 "$VOXELD/api/python/examples',
    'python3 -c "from mmengine',
    "curl -sSN",
    "voxeld-client live",  # test_live.py runs it, with a robot
)
C17 = ("-std=c17", "-D_POSIX_C_SOURCE=200809L", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only")
CXX17 = ("-x", "c++", "-std=c++17", "-Wall", "-Werror", "-fsyntax-only")
ADDRESS = re.compile(r"(?<=localhost:|127\.0\.0\.1:)80\d\d\b")
END = "voxeld-example-end"


class Step:
    """A program, or a command with its output on the page."""

    def __init__(self, kind, text):
        self.kind, self.text, self.shown = kind, text, []

    def is_run(self):
        return not self.text.removeprefix("sudo ").startswith(NOT_RUN)


def steps(text):
    """The examples of a page, in order."""
    found = []
    ended = None  # where the last program ended
    for block in re.finditer(r"^```(\w+)\n((?:(?!```).*\n)*)```\n|((?:^ {4}.*\n|^\n(?= {4}))+)", text, re.MULTILINE):
        if block[1]:
            found.append(Step(block[1], block[2]))
            ended = block.end()
            continue
        lines = re.sub(r"\\\n *", "", re.sub(r"^ {4}", "", block[3], flags=re.MULTILINE)).splitlines()
        current = found[-1] if ended and not text[ended : block.start()].strip() else None  # output below a program
        for line in lines:
            if line.startswith("$ "):
                current = Step("sh", re.sub(r"\s+# .*$", "", line[2:]))
                found.append(current)
            elif current:
                current.shown.append(line)
    return found


def matches(shown, output):
    pattern = ".*".join(re.escape(re.sub(r"\s", "", part)) for part in shown.split("..."))
    return re.fullmatch(pattern, re.sub(r"\s", "", output), re.DOTALL)


def is_there(program):
    """Whether the packages of a Python program are here."""
    names = set(re.findall(r"^(?:import|from) ([a-z_0-9]+)", program, re.MULTILINE))
    return all(importlib.util.find_spec(name) for name in names)


def write_checkpoint(folder):
    """A checkpoint of OpenPCDet with random weights, and its configuration."""
    import yaml

    import test_convert as convert
    from checkpoints import save_new, state_of

    config = convert.pcdet_config()
    config["MODEL"]["POST_PROCESSING"]["SCORE_THRESH"] = 0.01
    (folder / "pointpillar.yaml").write_text(yaml.safe_dump(config), encoding="utf-8")
    convert.write_base(folder)
    save_new(folder / "pointpillar.pth", {"model_state": state_of(convert.pcdet_state())})


def write_drive(folder):
    """A bag with a simulated street and odometry."""
    import numpy as np

    from bags import Robot

    robot, begin = Robot(), 1_700_000_000 * 10**9
    row = np.dtype([(name, "<f4") for name in ("x", "y", "z", "intensity")])
    messages = []
    for number in range(3):
        subprocess.run([SCAN, "--traffic", "--seed", str(number), "--output", folder / "street.bin"], check=True)
        time = begin + number * 10**8
        messages.append(("/odom", time, robot.odometry(time, (number, 0, 0, 1, 0, 0, 0), "odom", "lidar")))
        messages.append(("/lidar_top", time, robot.cloud(np.fromfile(folder / "street.bin", row), time)))
    robot.write(folder / "drive", messages, "mcap")
    shutil.move(folder / "drive" / "drive.mcap", folder / "drive.mcap")


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


class Shell:
    """A bash in its own folder. Free ports replace the page's."""

    def __init__(self, folder):
        self.folder, self.ports = folder, {}
        programs = folder / ".bin"
        programs.mkdir()
        for name, arguments in (
            ("python3", '"$@"'),
            ("voxeld-client", f'-m voxeld "$1" --server http://127.0.0.1:{self.port("8080")} "${{@:2}}"'),
            ("voxeld-convert", '-c "import sys; from voxeld.convert.main import main; sys.exit(main())" "$@"'),
        ):
            (programs / name).write_text(f"#!/bin/bash\nexec {sys.executable} {arguments}\n", encoding="utf-8")
            (programs / name).chmod(0o755)
        path = (programs, pathlib.Path(voxeld_binary()).parent, pathlib.Path(SCAN).parent, BIN, os.environ["PATH"])
        given = {name: value for name, value in os.environ.items() if not name.startswith("VOXELD_")}
        self.environment = {
            **{**given, "PATH": ":".join(map(str, path)), "PYTHONPATH": str(ROOT / "api" / "python")},
            **{"VOXELD": str(ROOT), "VOXELD_LISTEN": f"127.0.0.1:{self.port('8080')}"},
        }
        self.errors = open(folder / ".errors", "w+", encoding="utf-8")
        self.bash = subprocess.Popen(
            ["bash"], cwd=folder, env=self.environment, text=True, start_new_session=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors,
        )  # fmt: skip

    def port(self, name):
        if name not in self.ports:
            self.ports[name] = free_port()
        return self.ports[name]

    def here(self, text):
        return ADDRESS.sub(lambda found: str(self.port(found[0])), text)

    def run(self, command):
        """The exit status and the output."""
        command = self.here(command)
        self.bash.stdin.write(f"{{ {command}\n}} </dev/null\nprintf '\\n%s %d\\n' {END} $?\n")
        self.bash.stdin.flush()
        output = ""
        for line in self.bash.stdout:
            if line.startswith(END):
                break
            output += line
        else:
            raise EOFError(f"the shell ended at: {command}")
        if re.match(r"(\S*/)?voxeld .*&$", command):
            wait_until(lambda: self.is_ready(command), f"an answer of: {command}\n{self.said()}")
        return int(line.split()[1]), output

    def is_ready(self, command):
        (port,) = re.findall(r"--listen 127\.0\.0\.1:(\d+)", command) or [self.port("8080")]
        with contextlib.suppress(OSError), contextlib.closing(http.client.HTTPConnection("127.0.0.1", port)) as ask:
            ask.request("GET", "/readyz")
            return ask.getresponse().status == 200

    def said(self):
        self.errors.seek(0)
        return self.errors.read()[-3000:]

    def end(self):
        self.bash.stdin.close()
        self.bash.wait(PATIENCE)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.bash.pid, signal.SIGTERM)  # the daemons that the page started
        self.bash.stdout.close()
        self.errors.close()


class Examples(unittest.TestCase):
    maxDiff = None

    def check(self, page):
        text = page.read_text(encoding="utf-8")
        found = steps(text)
        if any("import onnxruntime" in step.text for step in found) and not importlib.util.find_spec("onnxruntime"):
            self.skipTest("there is no ONNX Runtime here")
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        shell = Shell(folder)
        self.addCleanup(shell.end)
        if page.name in SETS_UP:
            (folder / "voxeld").symlink_to(ROOT)
        else:
            self.enterContext(Daemon("--listen", shell.environment["VOXELD_LISTEN"]))
            subprocess.run([SCAN, "--output", folder / "scan.bin"], check=True)
            if "pointpillar.pth" in text:
                write_checkpoint(folder)
            if "drive.mcap" in text:
                if not importlib.util.find_spec("rosbags"):
                    self.skipTest("there is no rosbags here")
                write_drive(folder)
        for index, step in enumerate(found):
            with self.subTest(f"{page.name}: {step.text}"):
                if source := re.match(r'cc .*"\$VOXELD/(\S+\.c)"', step.text):
                    self.compiles(ROOT / source[1])
                if step.kind == "sh" and step.is_run():
                    self.output(step, self.succeeded(shell, step.text))
                elif step.kind == "python":
                    self.python(shell, step)
                elif step.kind == "c":
                    compiles = next(later.text for later in found[index:] if later.text.startswith("cc "))
                    self.c(shell, step, re.search(r"\S+\.c\b", compiles)[0])

    def succeeded(self, shell, command):
        status, output = shell.run(command)
        self.assertEqual(status, 0, f"{output}\n{shell.said()}")
        return output

    def output(self, step, output):
        shown = "\n".join(step.shown)
        if shown:
            self.assertTrue(matches(shown, output), f"shown:\n{shown}\nprinted:\n{output}")

    def python(self, shell, step):
        compile(step.text, "example", "exec")
        if is_there(step.text):
            program = shell.folder / ".program.py"
            program.write_text(shell.here(step.text), encoding="utf-8")
            self.output(step, self.succeeded(shell, f"{sys.executable} {program}"))

    def c(self, shell, step, name):
        """Writes the program, which the page's own command builds."""
        file = pathlib.Path(self.succeeded(shell, "pwd").strip(), name)
        file.write_text(shell.here(step.text), encoding="utf-8")
        self.compiles(file)

    def compiles(self, file):
        needs = ["pkg-config", "--cflags", "libcurl", "jansson", "zlib"]
        if not shutil.which("pkg-config") or subprocess.run(needs, capture_output=True).returncode:
            self.skipTest("there is no libcurl here")
        flags = ["-I", str(ROOT / "api" / "c"), *subprocess.check_output(needs, text=True).split()]
        for compiler, options in (("cc", C17), ("c++", CXX17)):
            if shutil.which(compiler):
                done = subprocess.run([compiler, *options, *flags, file], capture_output=True, text=True)
                self.assertEqual((done.returncode, done.stderr), (0, ""))


for _page in PAGES:
    setattr(Examples, f"test_{_page.stem.lower().replace('-', '_')}", lambda self, page=_page: self.check(page))


if __name__ == "__main__":
    unittest.main()
