"""For the tests of both heads' decoders: compares an answer of /v1/decode with the oracle's, byte for byte."""

import urllib.parse

from safetensors.numpy import save

import check
from daemon import OneDaemonCase

SAFETENSORS = {"Content-Type": "application/vnd.safetensors"}


class DecodeCase(OneDaemonCase):
    """A subclass sets `oracle`, a module, and `items`, the name of the counts in the metadata."""

    ARGS = ("--workers", "1")

    def check(self, query, tensors, where=""):
        expected, kept, told = self.oracle.decode(query, tensors)
        reply = self.daemon.post("/v1/decode?" + urllib.parse.urlencode(query, safe=","), save(tensors), SAFETENSORS)
        self.assertEqual(reply.status, 200, f"{where} {reply}")
        answered, metadata = check.parse_by_hand(reply.body)
        self.assertEqual((metadata[self.items], metadata["batch"]["kept"]), (told, kept), where)
        self.assertEqual(sorted(answered), sorted(expected))
        for name, tensor in expected.items():
            self.assertEqual((answered[name].dtype, answered[name].shape), (tensor.dtype, tensor.shape), where)
            self.assertEqual(answered[name].tobytes(), tensor.tobytes(), f"{where}: {name}")
        return answered
