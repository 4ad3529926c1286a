"""The layers: server/ -> api/ -> kernels/, and an include may only point down."""

import re
import unittest

from tables import ROOT

# What a layer's files may include of the project, and which foreign headers belong to one place only.
BELOW = {"kernels": ("kernels",), "api": ("api", "kernels"), "server": ("server", "api", "kernels")}
HOME = {
    "microhttpd.h": ("server/",),
    "jansson.h": ("api/", "server/"),
    "gnutls/gnutls.h": ("server/",),
    "gnutls/crypto.h": ("server/clients/tokens.c",),
    "pthread.h": ("server/",),
    "sys/socket.h": ("server/",),
    "cuda.h": ("kernels/cuda/",),
    "cuda_runtime.h": ("kernels/cuda/",),
}
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


class Layers(unittest.TestCase):
    def includes(self):
        for layer in BELOW:
            for path in sorted((ROOT / layer).rglob("*.[ch]*")):
                for own, foreign in INCLUDE.findall(path.read_text(encoding="utf-8")):
                    yield layer, path.relative_to(ROOT).as_posix(), own, foreign

    def test_includes_point_down(self):
        for layer, path, own, _ in self.includes():
            with self.subTest(f'{path} includes "{own}"'):
                if own:
                    self.assertIn(own.split("/")[0], BELOW[layer])

    def test_foreign_headers_stay_at_home(self):
        for _, path, _, foreign in self.includes():
            with self.subTest(f"{path} includes <{foreign}>"):
                if foreign in HOME:
                    self.assertTrue(path.startswith(HOME[foreign]))


if __name__ == "__main__":
    unittest.main()
