"""The layers and their rooms: a file includes files of its own room or of rooms below, and modules form no circle. Also
the rules for names, dialect and lines."""

import collections
import re
import unittest

from daemon import ROOT

# Each layer, with the other layers that it may include.
LAYERS = {
    "server": ("api", "kernels"),
    "api": ("kernels",),
    "kernels/cpu": ("kernels",),
    "kernels/cuda": ("kernels",),
    "kernels/engine": ("kernels",),
    "kernels": (),
}
# The rooms of each layer from the top down. "" is the layer's folder itself.
ROOMS = {
    "server": ("", "daemon", "pages", "http", "jobs", "streams", "net", "clients", "config", "base"),
    "api": ("", "wire", "ops", "steps", "params", "base"),
    "kernels/cpu": (
        *("", "image", "detect", "sparse", "boxes", "voxelize", "encode", "scatter"),
        *("serialize", "steps", "fps", "base"),
    ),
    "kernels/cuda": (
        *("", "image", "serialize", "steps", "detect", "sparse"),
        *("boxes", "voxelize", "encode", "scatter", "fps", "base"),
    ),
    "kernels/engine": ("",),
    "kernels": ("",),
}
FOLDERS = ("server", "api", "kernels")
SOURCES, HEADERS = (".c", ".cu"), (".h", ".cuh")
COLUMNS = 120
CODE = {".c", ".h", ".cu", ".cuh", ".py", ".cmake", ".bats", ".bash", ".js", ".css", ".html"}
SCRIPTS = (".ci", "cmake", "docker", "packaging", "training")  # other folders with scripts
LONGEST = 600  # lines of a file
HEADING = re.compile(r"^// --+ .* -+$", re.MULTILINE)  # headings within a file
# Forbidden pointer tests. A condition is `p` or `!p`; `p != NULL` is for values.
NULL_TEST = re.compile(
    r"== NULL|!= NULL\)?\s*(?:&&|\|\||\?)|(?:&&|\|\|) [\w.>\[\]-]+ != NULL|(?:if|while) \([\w.>\[\]-]+ != NULL\)"
)
# The files that may include a foreign header: prefixes of their paths.
HOME = {
    "microhttpd.h": ("server/http/",),
    "jansson.h": ("api/", "server/config/"),
    "zlib.h": ("api/wire/",),
    "gnutls/gnutls.h": ("server/clients/", "server/daemon/probe.c"),
    "gnutls/abstract.h": ("server/clients/", "server/http/http.c"),
    "gnutls/crypto.h": ("server/clients/tokens.c",),
    "gnutls/x509.h": ("server/clients/",),
    "pthread.h": ("server/",),
    "sys/socket.h": ("server/",),
    "lz4.h": ("api/wire/",),
    "zstd.h": ("api/wire/",),
    "zstd_errors.h": ("api/wire/",),
    "cuda.h": ("kernels/cuda/",),
    "cuda_runtime.h": ("kernels/cuda/",),
    "dlfcn.h": ("kernels/engine/",),
}
ATTRIBUTE = re.compile(
    r"(?:__attribute__\(\((?:[^()]|\([^()]*\))*\)\)|VX_WARN_UNUSED|(?:HOLDS|ACQUIRES|RELEASES)\([^()]*\))\s*"
)
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)
# The head of a function that is not static, as clang-format writes it.
HEAD = r"^(?!static|typedef|#|return|enum \{|struct \w+ \{)[A-Za-z_][\w \t*]*?[ *](\w+)\([^;{}]*?\)"
DEFINITION = re.compile(HEAD + r" ?\{", re.MULTILINE)
DECLARATION = re.compile(HEAD + r"[^;{}()]*;", re.MULTILINE)
# A function, static or not, or a member that points to a function.
ANY = re.compile(
    r"^(?!typedef|#|return|enum \{|struct \w+ \{)[A-Za-z_][\w \t*]*?[ *](\w+)\([^;{}]*?\) ?\{|\(\*(\w+)\)\(",
    re.MULTILINE,
)
# Forbidden verbs in names: the code says release, close or end.
OTHERS = "cancel|destroy|dispose|free|give_back|give_up|leave|let_go|lose|put_back|take_back|unlock|unsubscribe"
GIVING_BACK = re.compile(rf"^(?:{OTHERS})_|(?:^|_)(?:{OTHERS}|give|return)$")
# Fused multiply-adds.
FUSED = re.compile(
    r"\bfma[fl]? ?\(|_fmaf?\b|_fn?m(?:add|sub)|\bvfm|\bvml[as]|__h?fma|\bfma\.|\bstd::fma"
    r"|ffp-contract=(?!off)|fmad=true|FP_CONTRACT|fast[-_]math|-Ofast"
)
SPELLED = re.compile(r'\\":(?! )')  # \": in a C literal, where JSON is written by hand
# Headers whose definitions the build generates.
GENERATED = {"api/resources.h"}


def sources():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.[ch]*")):
            name = path.relative_to(ROOT).as_posix()
            if path.suffix in SOURCES + HEADERS and not name.startswith("api/c/"):
                yield name, ATTRIBUTE.sub("", path.read_text(encoding="utf-8"))


def room(path):
    """A file's layer, and the number of its room from the top."""
    layer = next(layer for layer in LAYERS if path.startswith(f"{layer}/"))
    *folders, _ = path.removeprefix(f"{layer}/").split("/")
    return layer, ROOMS[layer].index(folders[0] if folders else "")


def module(path):
    return path.rpartition(".")[0]


def of_room(path):
    """The module with its folder's name. Its header may declare functions of all modules in the folder."""
    folder = path.rpartition("/")[0]
    return f'{folder}/{folder.rpartition("/")[2]}'


def circles(below):
    """The names on circles or between circles: drops names with nothing below or nothing above until none is left."""
    while True:
        above = set().union(*below.values())
        ends = {name for name, others in below.items() if not others & below.keys() or name not in above}
        if not ends:
            return below.keys()
        below = {name: others - ends for name, others in below.items() if name not in ends}


class Layers(unittest.TestCase):
    def test_includes_point_down(self):
        for path, text in sources():
            layer, floor = room(path)
            for own, _ in INCLUDE.findall(text):
                if not own:
                    continue
                with self.subTest(f'{path} includes "{own}"'):
                    other, below = room(own)
                    self.assertIn(other, (layer, *LAYERS[layer]))
                    if other == layer:
                        self.assertGreaterEqual(below, floor)

    def test_foreign_headers_stay_at_home(self):
        for path, text in sources():
            for _, foreign in INCLUDE.findall(text):
                if foreign in HOME:
                    with self.subTest(f"{path} includes <{foreign}>"):
                        self.assertTrue(path.startswith(HOME[foreign]))

    def test_each_layer_has_a_table_of_its_rooms(self):
        for layer, rooms in ROOMS.items():
            page = ROOT / layer / "README.md"
            with self.subTest(page):
                text = page.read_text(encoding="utf-8")
                self.assertEqual(re.findall("^- (In and out|Threads): ", text, re.MULTILINE), ["In and out", "Threads"])
                row = r"^\| \[?`([a-z]+)/`(?:\]\(\1/README\.md\))? \|(?: [^|]+ \|){3}$"
                self.assertEqual(re.findall(row, text, re.MULTILINE), list(rooms[1:]))


class Modules(unittest.TestCase):
    """A module is a source file and its header. The room's header may declare its functions too."""

    def setUp(self):
        self.texts = dict(sources())

    def test_no_circles(self):
        below = collections.defaultdict(set)
        for path, text in self.texts.items():
            below[module(path)] |= {module(own) for own, _ in INCLUDE.findall(text) if own} - {module(path)}
        self.assertEqual(sorted(circles(below)), [])

    def functions(self, pattern, endings):
        """(name, file) of each match of the pattern in the files with these endings."""
        files = {path: text for path, text in self.texts.items() if path.endswith(endings)}
        return [(name, path) for path, text in files.items() for name in pattern.findall(text)]

    def of_steps(self):
        """The functions that headers declare with ##name for each type of step in VX_STEPS."""
        steps = re.findall(r"\bX\([A-Z_]+, (\w+)\)", self.texts["kernels/steps.h"])
        parts = [part for part, _ in self.functions(re.compile(r"(\w+_)##name"), HEADERS)]
        return {part + step for part in parts for step in steps}

    def test_each_header_declares_its_own_module_or_its_room(self):
        defined = dict(self.functions(DEFINITION, SOURCES))
        for name, path in self.functions(DECLARATION, HEADERS):
            if path not in GENERATED:
                with self.subTest(f"{path} declares {name}"):
                    source = defined.get(name, "nowhere.c")
                    self.assertIn(module(path), (module(source), of_room(source)))

    def test_release_close_and_end_give_back(self):
        for path, text in self.texts.items():
            with self.subTest(path):
                names = {name for match in ANY.findall(text) for name in match if name}
                self.assertEqual({name for name in names if GIVING_BACK.search(name)}, set())

    def test_what_is_closed_was_opened(self):
        names = {name for name, _ in self.functions(DECLARATION, HEADERS)}
        for name in names:
            if name.endswith("_close"):
                with self.subTest(name):
                    makers = {name.removesuffix("close") + verb for verb in ("open", "load", "new", "parse")}
                    self.assertTrue(names & makers)

    def test_each_function_that_is_not_static_is_declared(self):
        declared = {name for name, _ in self.functions(DECLARATION, HEADERS)} | self.of_steps() | {"main"}
        for name, path in self.functions(DEFINITION, SOURCES):
            with self.subTest(f"{path} defines {name}"):
                self.assertIn(name, declared)


class Glossary(unittest.TestCase):
    """Each file and struct of server/ has a row in the glossary. A row with the first words of a name is enough: the
    row `watcher` explains `watcher_limits`."""

    STRUCT = re.compile(r"^struct (?:\w+\([^)]*\)+ )?(\w+) \{", re.MULTILINE)

    def setUp(self):
        page = (ROOT / "docs/contribute/glossary.md").read_text(encoding="utf-8")
        self.words = self.rows(page)
        self.own = self.rows(page.partition("\n## server/\n")[2])

    def rows(self, page):
        rows = re.findall(r"^\| ([a-z][^|]*) \|", page, re.MULTILINE)
        return [word for row in rows if row != "word" for word in row.split(", ")]

    def explains(self, word, name):
        one, many = word.removesuffix("s"), name.removesuffix("s")
        return one == many or name.startswith((f"{one}_", f"{one}s_"))

    def names(self):
        for path, text in sources():
            if path.startswith("server/"):
                yield module(path).rpartition("/")[2]
                if path.endswith(HEADERS):
                    yield from self.STRUCT.findall(text)

    def test_each_name_has_a_row(self):
        for name in sorted(set(self.names())):
            with self.subTest(name):
                self.assertTrue(any(self.explains(word, name) for word in self.words))

    def test_each_row_explains_a_name(self):
        names = set(self.names())
        for word in self.own:
            with self.subTest(word):
                self.assertTrue(any(self.explains(word, name) for name in names))

    def test_rows_are_sorted_and_listed_once(self):
        self.assertEqual(self.own, sorted(set(self.own)))


def code():
    yield from (ROOT / "CMakeLists.txt", ROOT / "dev")
    for folder in (*FOLDERS, "tests", *SCRIPTS):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.is_file() and (path.suffix in CODE or path.read_bytes()[:2] == b"#!"):
                yield path


class Dialect(unittest.TestCase):
    def test_pointers_are_tested_as_truths(self):
        for path, text in sources():
            with self.subTest(path):
                self.assertEqual(NULL_TEST.findall(text), [])

    def test_only_sparse_convolution_fuses(self):
        at_home = ("kernels/cpu/sparse/", "kernels/cuda/sparse/", "kernels/sparse.h")
        fusing = {path for path, text in sources() if FUSED.search(text)}
        self.assertLessEqual({"kernels/cpu/sparse/convolve.c", "kernels/cpu/sparse/fused.h"}, fusing)
        self.assertEqual({path for path in fusing if not path.startswith(at_home)}, set())
        for path in (ROOT / "CMakeLists.txt", *(ROOT / "cmake").glob("*.cmake")):
            self.assertIsNone(FUSED.search(path.read_text(encoding="utf-8")), path)

    def test_headings_look_alike(self):
        for path, text in sources():
            with self.subTest(path):
                self.assertEqual([line for line in HEADING.findall(text) if len(line) != COLUMNS or line[7] != " "], [])


class Lines(unittest.TestCase):
    def test_no_line_of_code_is_over_120_columns(self):
        for path in code():
            with self.subTest(path.relative_to(ROOT).as_posix()):
                lines = path.read_text(encoding="utf-8").splitlines()
                self.assertEqual([line for line in lines if len(line) > COLUMNS], [])

    def test_only_the_writer_spells_json(self):
        for path, text in sources():
            with self.subTest(path):
                self.assertEqual([line for line in text.splitlines() if SPELLED.search(line)], [])

    def test_files_are_short(self):
        for path, text in sources():
            with self.subTest(path):
                self.assertLessEqual(text.count("\n"), LONGEST)


if __name__ == "__main__":
    unittest.main()
