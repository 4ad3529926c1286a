"""The parts of KServe's Python package that tests use: its REST client and the models of its resources.

`import kserve` needs some forty packages, such as pandas and Ray, for KServe's server. Here its `__init__` does not
run, and stand-ins replace the packages that the client imports but does not use over REST.
"""

import importlib.util
import sys
import types
from unittest import mock

UNUSED = (
    "cloudevents",
    "cloudevents.conversion",
    "cloudevents.http",
    "fastapi",
    "fastapi.responses",
    "grpc",
    "kserve.protocol.grpc.grpc_predict_v2_pb2_grpc",
    "pandas",
    "psutil",
)

_found = importlib.util.find_spec("kserve")
if _found is None:
    print("skipped: there is no kserve")
    sys.exit(77)
_package = types.ModuleType("kserve")
_package.__path__ = list(_found.submodule_search_locations)
sys.modules["kserve"] = _package
sys.modules.update({name: mock.MagicMock(name=name) for name in UNUSED})

from kserve import inference_client, models  # noqa: E402
from kserve.protocol import infer_type  # noqa: E402

for _name in UNUSED:
    del sys.modules[_name]
