"""Client of voxeld, the service that turns point clouds into voxels, farthest points and boxes.

    with voxeld.Client("http://localhost:8080") as client:
        result = client.voxelize(points, preset="kitti_second")
        result["voxel_features"]

    with voxeld.Server() as server:  # a daemon of this process's own
        server.client().voxelize(points, preset="kitti_second")

Needs only numpy and the standard library. README.md next to this package is the reference.
"""

from .client import Client
from .dlpack import CudaTensor
from .errors import (
    BadAnswer,
    CudaError,
    Error,
    Problem,
    RequestWarning,
    ServerError,
    SharedMemoryWarning,
    StreamWarning,
    Superseded,
    TooOld,
    TransportError,
)
from .operations import *
from .operations import __all__ as _operations
from .result import Result
from .server import Server
from .steps import Step, StepCounts
from .stream import Stream
from .sweeps import Joined, Sweep
from .uplink import Packed, Sent, pack
from .version import VERSION as __version__

__all__ = [
    "BadAnswer",
    "Client",
    "CudaError",
    "CudaTensor",
    "Error",
    "Joined",
    "Packed",
    "Problem",
    "RequestWarning",
    "Result",
    "Sent",
    "Server",
    "ServerError",
    "SharedMemoryWarning",
    "Step",
    "StepCounts",
    "Stream",
    "StreamWarning",
    "Superseded",
    "Sweep",
    "TooOld",
    "TransportError",
    "__version__",
    "pack",
    *_operations,
]
