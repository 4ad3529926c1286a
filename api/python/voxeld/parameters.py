"""The parameters of operations, and the texts of their values in a query."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Optional, Sequence, Tuple, Union

from numpy.typing import NDArray

from .points import Array

Flag = Union[bool, Literal["no", "yes"]]
Ints = Union[Sequence[int], "NDArray[Any]"]
Numbers = Union[Sequence[float], Sequence[Sequence[float]], Sequence[Sequence[Sequence[float]]], Array]


class Parameter(NamedTuple):
    """A parameter as the service describes it. operations.py has the rows."""

    name: str
    operations: Tuple[str, ...]  # the operations that have the parameter
    type: str
    unit: Optional[str]
    default: Optional[str]
    allowed: str
    doc: str

    def text(self) -> str:
        parts = [self.unit, self.doc, f"allowed: {self.allowed}", self.default and f"default: {self.default}"]
        return "; ".join(part for part in parts if part)


def text_of(value: Any) -> str:
    """The items of a list are separated by commas."""
    if isinstance(value, str):
        return value
    if hasattr(value, "tolist"):  # numpy's arrays and scalars
        value = value.tolist()
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ",".join(map(text_of, value)) if isinstance(value, (list, tuple)) else str(value)


def text_of_boxes(value: Any) -> str:
    """For one box or a list of boxes, which semicolons separate. An empty list is "off"."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)) and all(hasattr(box, "__len__") for box in value):
        return ";".join(map(text_of, value)) or "off"
    return text_of(value)
