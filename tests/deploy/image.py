"""Builds images from docker/Dockerfile on a Debian from tests/platform/base, and runs them as a container engine would.

build/deploy keeps the layers from run to run. Needs root. Standard library only.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from daemon import ROOT, Daemon

DEPLOY = ROOT / "build" / "deploy"
SKIPPED = 77


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def output(*command, **arguments):
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, **arguments).stdout.strip()


def debian(suite):
    """The path of a root file system of Debian. Ends the test if it cannot be made."""
    made = subprocess.run((ROOT / "tests" / "platform" / "base", suite), stdout=subprocess.PIPE, text=True)
    if made.returncode:
        sys.exit(made.returncode)  # the script has printed the reason
    return made.stdout.strip()


class Buildah:
    """buildah with its own storage: overlays, which are fast, or a full copy of each layer."""

    def __init__(self, suite="bookworm"):
        self.suite = suite
        DEPLOY.mkdir(parents=True, exist_ok=True)
        for driver in ("overlay", "vfs"):
            storage = DEPLOY / f"storage-{driver}"
            places = ("--root", str(storage), "--runroot", str(DEPLOY / "run"))
            self.prefix = ("buildah", *places, "--storage-driver", driver)
            tried = subprocess.run((*self.prefix, "from", "scratch"), capture_output=True, text=True)
            if tried.returncode == 0:
                self("rm", "--all")  # containers of a killed run too
                return
        skip(f"buildah cannot work here: {tried.stderr.strip()}")

    def __call__(self, *arguments):
        return output(*self.prefix, *arguments)

    def base(self, name):
        """Makes the image `name` from the Debian `suite`."""
        root = debian(self.suite)
        container = self("from", "scratch")
        self("add", "--quiet", container, root, "/")
        self("commit", "--quiet", "--format", "docker", "--rm", container, name)

    def build(self, target, *arguments):
        """Builds a target of the Dockerfile. Returns the image's name."""
        base = f"localhost/debian:{self.suite}-slim"
        if subprocess.run((*self.prefix, "inspect", base), capture_output=True).returncode:
            self.base(base)
        self._build("tools", "--build-arg", f"BASE={base}")  # has a name, so that the prune below keeps its layers
        name = self._build(target, "--build-arg", f"BASE={base}", *arguments)
        self("rmi", "--prune")
        return name

    def _build(self, target, *arguments):
        name, log = f"localhost/voxeld:{target}-{self.suite}", DEPLOY / f"{target}-{self.suite}.log"
        with open(log, "w") as file:
            built = subprocess.run(
                (*self.prefix, "build", "--isolation", "chroot", "--layers", "--format", "docker", "--target", target)
                + (*arguments, "--tag", name, "-f", "docker/Dockerfile", "."),
                cwd=ROOT, stdout=file, stderr=subprocess.STDOUT,
            )  # fmt: skip
        if built.returncode:
            debian(self.suite)  # skips if packages cannot be downloaded
            sys.exit(f"the build of {target} failed:\n{log.read_text(errors='replace')[-6000:]}")
        return name


def check_tools():
    if os.geteuid() != 0:
        skip("images are built and run by root")
    for tool in ("buildah", "mmdebstrap", "unshare", "nsenter", "setpriv"):
        if not shutil.which(tool):
            skip(f"there is no {tool}")
    # buildah 1.19 has no command `build`; under it the dpkg of Debian 12 hangs.
    if subprocess.run(("buildah", "build", "--help"), capture_output=True).returncode:
        skip(f"{output('buildah', '--version')} has no command build")
    tried = subprocess.run(("unshare", "--mount", "--pid", "--fork", "true"), capture_output=True, text=True)
    if tried.returncode:
        skip(f"nobody may make namespaces here: {tried.stderr.strip()}")


class Image:
    """An image, mounted at `root` until `close`."""

    def __init__(self, buildah, name):
        self.buildah = buildah
        inspected = json.loads(buildah("inspect", "--type", "image", name))
        self.size = json.loads(buildah("images", "--json", name))[0]["size"]
        self.config = inspected["Docker"]["config"]
        self.container = buildah("from", "--pull-never", name)
        self.root = pathlib.Path(buildah("mount", self.container))

    def close(self):
        self.buildah("umount", self.container)
        self.buildah("rm", self.container)


# Makes a read-only root of $1, with its own /proc and the mounts SOURCE:TARGET of $3. Then runs the other arguments as
# process 1, as the user $2, without a way to gain privileges.
CONTAIN = """
set -e
root=$1 user=$2 mounts=$3
shift 3
mount --make-rprivate /
mount --bind "$root" "$root"
for pair in $mounts; do
  [ -e "$root${pair#*:}" ] || touch "$root${pair#*:}"
  mount --bind "${pair%%:*}" "$root${pair#*:}"
done
mount -o remount,bind,ro "$root"
mount -t proc proc "$root/proc"
exec setpriv --no-new-privs chroot --userspec="$user" --groups= "$root" "$@"
"""


class Container(Daemon):
    """A daemon that runs from an image, as the image's configuration says.

    `env` overrides the image's environment; `mounts` ("SOURCE:TARGET") cover its files. Without `env` the daemon
    listens on a free port and serves anybody. The pages have a free port too, since containers share the host's ports.
    """

    def __init__(self, image, *args, env=None, user=None, mounts=(), headers=None):
        self.image, self.user, self.mounts = image, user or image.config["User"], mounts
        self.headers = headers or {}  # sent with each request
        listen = {"VOXELD_LISTEN": "0.0.0.0:0", "VOXELD_ALLOW_ANONYMOUS": "yes"}
        pages = {"VOXELD_PAGES_LISTEN": "127.0.0.1:0"}
        own = dict(pair.split("=", 1) for pair in image.config["Env"])
        self.environment = own | pages | (listen if env is None else env)
        super().__init__(*args)

    def _with_environment(self, *command):
        return ["env", "-i", *(f"{name}={value}" for name, value in self.environment.items()), *command]

    def command(self, args):
        contained = ("sh", "-c", CONTAIN, "sh", str(self.image.root), self.user, " ".join(self.mounts))
        return self._with_environment(
            "unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--kill-child", *contained,
            *self.image.config["Entrypoint"], *args,
        )  # fmt: skip

    def pid(self):
        """The daemon's process id outside of its namespace: unshare's child."""
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        return int(children[0])

    def kill(self):
        if self.process.poll() is None:
            os.kill(self.pid(), signal.SIGKILL)
        super().kill()

    def request(self, method, path, body=None, headers=None, connection=None, source=None):
        return super().request(method, path, body, self.headers | (headers or {}), connection, source)

    def run(self, *command, **env):
        """Runs a command inside as the daemon's user, like `docker exec`."""
        user, _, group = self.user.partition(":")
        namespaces = ("nsenter", "--target", str(self.pid()), "--mount", "--pid", "--root", "--wd=/")
        inside = (*namespaces, "--setuid", user, "--setgid", group)
        self.environment |= env
        return subprocess.run(self._with_environment(*inside, *command), capture_output=True, text=True)
