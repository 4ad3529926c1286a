"""The state of a network: its tensors by name."""

from __future__ import annotations

from typing import Any, Iterable, List, Mapping, Optional, Set, Tuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
COUNTERS = ("num_batches_tracked", "global_step")  # of training


class ConvertError(Exception):
    """A checkpoint or configuration that cannot be converted, and why."""


class State:
    def __init__(self, tensors: Mapping[str, Array], versions: Optional[Mapping[str, str]] = None) -> None:
        self.versions = versions or {}  # of the programs that wrote the checkpoint, if known
        self._tensors = {name.removeprefix("module."): tensor for name, tensor in tensors.items()}
        self._taken: Set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __len__(self) -> int:
        return len(self._tensors)

    def has(self, prefixes: Tuple[str, ...]) -> bool:
        return any(name.startswith(prefixes) for name in self._tensors)

    def shape(self, name: str) -> List[int]:
        return list(self._find(name).shape)

    def take(self, name: str, *shape: int) -> Array:
        """The tensor as float64. Refuses values that are not finite."""
        tensor = self._find(name)
        if tensor.shape != shape:
            raise ConvertError(f"{name} has the shape {list(tensor.shape)}; the configuration asks for {list(shape)}")
        if tensor.dtype.kind not in "fiub":
            raise ConvertError(f"{name} is of the type {tensor.dtype}; expected numbers")
        values = tensor.astype(np.float64)
        if not np.isfinite(values).all():
            raise ConvertError(f"{name} has a value that is not finite")
        self._taken.add(name)
        return values

    def ignore(self, prefixes: Iterable[str]) -> None:
        self._taken |= {name for name in self._tensors if name.startswith(tuple(prefixes))}

    def check_all_taken(self) -> None:
        """Refuses a state with a tensor that nothing took, whose layer the model would lack."""
        left = sorted(name for name in self._tensors.keys() - self._taken if not name.endswith(COUNTERS))
        if left:
            few = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
            raise ConvertError(f"the configuration has no layer for {few}; --ignore PREFIX leaves tensors out")

    def _find(self, name: str) -> Array:
        if name not in self._tensors:
            near = sorted(other for other in self._tensors if other.partition(".")[0] == name.partition(".")[0])
            raise ConvertError(f"the checkpoint has no {name}; it has {', '.join(near[:3]) or 'other names'}")
        return self._tensors[name]
