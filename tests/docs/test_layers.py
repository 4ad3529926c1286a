"""The layers and their rooms: an include points into its own folder or below, and each module stands for itself."""

import collections
import re
import unittest

from daemon import ROOT

# The layers and, of each, its rooms from the top down; "" are the files that lie in the layer's folder itself.
LAYERS = ("server", "api", "kernels")
ROOMS = {
    "server": ("", "daemon", "pages", "http", "jobs", "net", "clients", "config", "base"),
    "api": ("", "wire", "ops", "params", "base"),
}
COLUMNS = 120
LONGEST = 430  # lines of a file
# Where foreign headers may be included.
HOME = {
    "microhttpd.h": ("server/http/",),
    "jansson.h": ("api/", "server/config/"),
    "gnutls/gnutls.h": ("server/clients/", "server/daemon/probe.c"),
    "gnutls/abstract.h": ("server/clients/", "server/http/http.c"),
    "gnutls/crypto.h": ("server/clients/tokens.c",),
    "gnutls/x509.h": ("server/clients/",),
    "pthread.h": ("server/",),
    "sys/socket.h": ("server/",),
    "cuda.h": ("kernels/cuda/",),
    "cuda_runtime.h": ("kernels/cuda/",),
}
ATTRIBUTE = re.compile(r"(?:__attribute__\(\((?:[^()]|\([^()]*\))*\)\)|VX_WARN_UNUSED)\s*")
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
# A function of other files too, as clang-format writes it: its definition, or its declaration.
HEAD = r"^(?!static|typedef|#|return|enum \{|struct \w+ \{)[A-Za-z_][\w \t*]*?[ *](\w+)\([^;{}]*?\)"
DEFINITION = re.compile(HEAD + r" ?\{", re.MULTILINE)
DECLARATION = re.compile(HEAD + r"[^;{}()]*;", re.MULTILINE)
# Embedded by the build: no file of the sources defines what it declares.
GENERATED = {"api/resources.h"}


def sources(*layers):
    for layer in layers:
        for path in sorted((ROOT / layer).rglob("*.[ch]*")):
            if path.suffix in (".c", ".h", ".cu", ".cuh") and not path.relative_to(ROOT).as_posix().startswith(
                "api/c/"
            ):
                yield path.relative_to(ROOT).as_posix(), ATTRIBUTE.sub("", path.read_text(encoding="utf-8"))


def room(path):
    """A file's layer, and its room's number from the top."""
    layer, *folders, _ = path.split("/")
    return layer, ROOMS[layer].index(folders[0] if folders else "") if layer in ROOMS else 0


def module(path):
    return path.rpartition(".")[0]


def circles(below):
    """The names on circles. It drops names with nothing below or nothing above until none is left to drop."""
    while True:
        above = set().union(*below.values())
        ends = {name for name, others in below.items() if not others & below.keys() or name not in above}
        if not ends:
            return below.keys()
        below = {name: others - ends for name, others in below.items() if name not in ends}


class Layers(unittest.TestCase):
    def test_includes_point_down(self):
        for path, text in sources(*LAYERS):
            layer, floor = room(path)
            for own, _ in INCLUDE.findall(text):
                if not own:
                    continue
                with self.subTest(f'{path} includes "{own}"'):
                    other, below = room(own)
                    self.assertGreaterEqual(LAYERS.index(other), LAYERS.index(layer))
                    if other == layer:
                        self.assertGreaterEqual(below, floor)

    def test_foreign_headers_stay_at_home(self):
        for path, text in sources(*LAYERS):
            for _, foreign in INCLUDE.findall(text):
                if foreign in HOME:
                    with self.subTest(f"{path} includes <{foreign}>"):
                        self.assertTrue(path.startswith(HOME[foreign]))

    def test_every_room_says_what_it_is_for(self):
        for layer, rooms in ROOMS.items():
            for name in filter(None, rooms):
                page = ROOT / layer / name / "README.md"
                with self.subTest(page):
                    lines = page.read_text(encoding="utf-8").splitlines()
                    labels = [line.partition(":")[0] for line in lines if line.startswith("- ")]
                    self.assertEqual(labels, ["- In and out", "- Threads", "- May include"])
                    self.assertEqual(re.findall("`([a-z]+)/`", lines[-1]), self.below(layer, name))

    def below(self, layer, name):
        """What a room may include: itself, the rooms below it, the layers below its own."""
        return [*ROOMS[layer][ROOMS[layer].index(name) :], *LAYERS[LAYERS.index(layer) + 1 :]]


class Modules(unittest.TestCase):
    """A module is a source file and its header. kernels/ is left out, since some of its headers belong to several
    files."""

    def setUp(self):
        self.texts = dict(sources("server", "api"))

    def test_no_circles(self):
        below = collections.defaultdict(set)
        for path, text in self.texts.items():
            below[module(path)] |= {module(own) for own, _ in INCLUDE.findall(text) if own} - {module(path)}
        self.assertEqual(sorted(circles(below)), [])

    def test_each_header_declares_its_own_module(self):
        defined = {
            name: path for path, text in self.texts.items() if path.endswith(".c") for name in DEFINITION.findall(text)
        }
        for path, text in self.texts.items():
            if not path.endswith(".h") or path in GENERATED:
                continue
            for name in DECLARATION.findall(text):
                with self.subTest(f"{path} declares {name}"):
                    self.assertEqual(module(defined.get(name, "nowhere.c")), module(path))

    def test_each_function_of_others_is_declared(self):
        declared = {
            name for path, text in self.texts.items() if path.endswith(".h") for name in DECLARATION.findall(text)
        }
        for path, text in self.texts.items():
            for name in DEFINITION.findall(text) if path.endswith(".c") else ():
                with self.subTest(f"{path} defines {name}"):
                    self.assertIn(name, declared | {"main"})


class Lines(unittest.TestCase):
    def test_no_line_of_code_is_over_120_columns(self):
        for layer in (*LAYERS, "tests"):
            for path in sorted((ROOT / layer).rglob("*")):
                if path.suffix not in (".c", ".h", ".cu", ".cuh", ".py") or not path.is_file():
                    continue
                with self.subTest(path.relative_to(ROOT).as_posix()):
                    lines = path.read_text(encoding="utf-8").splitlines()
                    self.assertEqual([line for line in lines if len(line) > COLUMNS], [])

    def test_files_are_short(self):
        for path, text in sources(*LAYERS):
            with self.subTest(path):
                self.assertLessEqual(text.count("\n"), LONGEST)


if __name__ == "__main__":
    unittest.main()
