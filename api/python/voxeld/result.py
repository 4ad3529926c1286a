from __future__ import annotations

import json
from typing import Any, Dict, Iterator, List, Mapping, Optional, Tuple, Type, TypeVar, Union

from numpy.typing import NDArray

from .dlpack import CudaTensor
from .errors import BadAnswer, RequestWarning, warnings_of
from .steps import StepCounts, counts_of
from .sweeps import Joined
from .uplink import Sent

NO_WARNING = ',"warnings":[]'  # in an answer's metadata
T = TypeVar("T")
Own = TypeVar("Own", bound="Result")


class Result(Mapping[str, "NDArray[Any]"]):
    """The tensors, as a mapping, result["voxel_coords"], and as attributes, result.voxel_coords. All are writable views
    of one buffer, which holds the whole answer: copy a tensor to keep it without the others. With `out` they are
    CudaTensors instead of numpy arrays. In a `with` statement the result drops its tensors at the end of the block.

    tensors   the same as a dict
    metadata  what the service says of the request: parameters, counts, batch, warnings, timing
    lost      of Stream.send: the times of sweeps that the service no longer had
    uplink    how the points were sent, if the client has `uplink`
    """

    lost: Tuple[float, ...] = ()
    uplink: Optional[Sent] = None

    def __init__(self, tensors: Dict[str, NDArray[Any]], metadata: Union[str, Dict[str, Any]]) -> None:
        self.tensors = tensors
        self._metadata = metadata

    @property
    def metadata(self) -> Dict[str, Any]:
        if isinstance(self._metadata, str):  # it is read at its first use
            try:
                self._metadata = json.loads(self._metadata)
            except (ValueError, RecursionError) as reason:
                raise BadAnswer(f"the metadata is not JSON: {reason}") from None
            if not isinstance(self._metadata, dict):
                raise BadAnswer("the metadata is not a JSON object")
        return self._metadata

    @property
    def request_id(self) -> Optional[str]:
        """As in the service's log; None with metadata="stable"."""
        return self._told("request_id", str) if "request_id" in self.metadata else None

    @property
    def timing(self) -> Optional[Dict[str, float]]:
        """Microseconds of each stage in the service: receive, queue, voxelize, ..., total; None with
        metadata="stable"."""
        return self._told("timing_us", dict) if "timing_us" in self.metadata else None

    @property
    def warnings(self) -> List[RequestWarning]:
        """Why the request may not be what the caller meant. Empty if there is no warning."""
        if isinstance(self._metadata, str) and ('"warnings"' not in self._metadata or NO_WARNING in self._metadata):
            return []
        return warnings_of(self.metadata)

    @property
    def steps(self) -> List[StepCounts]:
        """What each step before the operation did. Empty if the request had no steps."""
        return counts_of(self.metadata)

    @property
    def fate_names(self) -> List[str]:
        """The names of the numbers in point_fates. Raises BadAnswer if the request did not ask for this tensor."""
        return self._told("fate_names", list)

    @property
    def stream(self) -> Optional[Joined]:
        """The sweeps that were joined; None if the request had no stream."""
        told = self.metadata.get("stream")
        return None if told is None else Joined.parse(told)

    def _told(self, name: str, kind: Type[T]) -> T:
        value = self.metadata.get(name)
        if not isinstance(value, kind):
            raise BadAnswer(f"the metadata has no {name}")
        return value

    def to_torch(self) -> Dict[str, Any]:
        """The tensors as torch tensors in the same memory, on the CPU or, with `out`, on the GPU. Needs torch."""
        import torch  # type: ignore[import-not-found,unused-ignore]

        # torch.as_tensor takes less time than DLPack for a CUDA array.
        return {
            name: torch.as_tensor(one, device=f"cuda:{one.device}")
            if isinstance(one, CudaTensor)
            else torch.from_dlpack(one)
            for name, one in self.tensors.items()
        }

    def _tensor(self, name: str) -> NDArray[Any]:
        if name not in self.tensors:
            raise AttributeError(f"the answer has no {name}: the request's outputs or metadata_only left it out")
        return self.tensors[name]

    def __enter__(self: Own) -> Own:
        return self

    def __exit__(self, *_: Any) -> None:
        self.tensors = {}

    def __getitem__(self, name: str) -> NDArray[Any]:
        return self.tensors[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.tensors)

    def __len__(self) -> int:
        return len(self.tensors)

    def __repr__(self) -> str:
        shapes = ", ".join(f"{name} {tensor.dtype}{list(tensor.shape)}" for name, tensor in self.tensors.items())
        named = " ".join(filter(None, (type(self).__name__, self.request_id)))
        return f"<voxeld.{named}: {shapes or 'metadata alone'}>"
