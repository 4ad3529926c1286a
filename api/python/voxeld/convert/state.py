"""The state of a network: its tensors by name. Every tensor that is taken has the shape that the taker expects."""

from __future__ import annotations

import pathlib
from typing import Any, Dict, Iterable, List, Mapping, Set

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
COUNTERS = ("num_batches_tracked", "global_step")  # what training counts


class ConvertError(Exception):
    """A checkpoint or configuration that cannot be converted, and why."""


class State:
    def __init__(self, tensors: Mapping[str, Array]) -> None:
        self._tensors = {name.removeprefix("module."): tensor for name, tensor in tensors.items()}
        self._taken: Set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._tensors

    def __len__(self) -> int:
        return len(self._tensors)

    def shape(self, name: str) -> List[int]:
        return list(self._find(name).shape)

    def take(self, name: str, *shape: int) -> Array:
        """The tensor as float64. All of its values are finite."""
        tensor = self._find(name)
        if tensor.shape != shape:
            raise ConvertError(f"{name} has the shape {list(tensor.shape)}; the configuration asks for {list(shape)}")
        values = tensor.astype(np.float64)
        if not np.isfinite(values).all():
            raise ConvertError(f"{name} has a value that is not finite")
        self._taken.add(name)
        return values

    def ignore(self, prefixes: Iterable[str]) -> None:
        self._taken |= {name for name in self._tensors if name.startswith(tuple(prefixes))}

    def check_all_taken(self) -> None:
        """A tensor that nothing takes belongs to a layer that would be missing."""
        left = sorted(name for name in self._tensors.keys() - self._taken if not name.endswith(COUNTERS))
        if left:
            few = ", ".join(left[:4]) + (f" and {len(left) - 4} more" if len(left) > 4 else "")
            raise ConvertError(f"the configuration has no layer for {few}; --ignore PREFIX leaves tensors out")

    def _find(self, name: str) -> Array:
        if name not in self._tensors:
            near = sorted(other for other in self._tensors if other.partition(".")[0] == name.partition(".")[0])
            raise ConvertError(f"the checkpoint has no {name}; it begins with {', '.join(near[:3]) or 'other names'}")
        return self._tensors[name]


def read_state(path: pathlib.Path, trust: bool = False) -> State:
    """Reads .safetensors, .npz, or what torch.save wrote. `trust` lets a pickle run code."""
    try:
        if path.suffix == ".safetensors":
            from safetensors.numpy import load_file

            return State(load_file(path))
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as arrays:
                return State({name: arrays[name] for name in arrays.files})
        return State(_read_torch(path, trust))
    except ConvertError:
        raise
    except ImportError as reason:
        raise ConvertError(f"reading {path.name} needs the package {reason.name}: pip install {reason.name}") from None
    except Exception as reason:  # each reader has errors of its own
        raise ConvertError(f"cannot read {path}: {str(reason).splitlines()[0]}") from None


def _read_torch(path: pathlib.Path, trust: bool) -> Dict[str, Array]:
    import torch  # type: ignore[import-not-found,unused-ignore]

    try:
        document = torch.load(path, map_location="cpu", weights_only=not trust)
    except Exception as reason:
        if trust or "weights_only" not in str(reason):
            raise
        raise ConvertError(
            f"{path} has objects other than tensors, which only a pickle that may run code can restore; "
            "if you trust its maker, give --trust-checkpoint"
        ) from None
    for key in ("model_state", "state_dict", "model"):  # of OpenPCDet, of mmdetection3d, of others
        if isinstance(document, dict) and isinstance(document.get(key), dict):
            document = document[key]
            break
    if not isinstance(document, dict):
        raise ConvertError(f"{path} has no state: expected a dict of tensors, or one below model_state or state_dict")
    return {name: value.detach().numpy() for name, value in document.items() if isinstance(value, torch.Tensor)}
