"""Steps before an operation. operations.py has a class for each type of step."""

from __future__ import annotations

from typing import Any, ClassVar, Dict, List, Mapping, NamedTuple, Sequence, Union

from .errors import BadAnswer

STEPS = "steps"  # name of the parameter, and of the metadata's member


class Step:
    """A step, such as Downsample(0.1).

    op          its type
    tag         its name in the request and in the metadata, unique in its chain
    parameters  the parameters that are given, without `tag`
    """

    op: ClassVar[str]

    def __init__(self, told: Mapping[str, Any]) -> None:
        """`told`: the arguments of the step's class, by name."""
        given = {name: value for name, value in told.items() if name != "self" and value is not None}
        self.tag: str = given.pop("tag", self.op)
        self.parameters: Dict[str, Any] = given

    def __repr__(self) -> str:
        told = {**self.parameters, **({"tag": self.tag} if self.tag != self.op else {})}
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in told.items())})"


Steps = Union[str, Sequence[Union[str, Step]], Mapping[str, Any]]


class StepCounts(NamedTuple):
    """What a step did to the points."""

    tag: str
    op: str
    in_: int  # points before the step
    kept: int
    fates: Dict[str, int]  # dropped points, by their fates


def parameters_of(steps: Steps) -> Dict[str, Any]:
    """The query parameters `steps` and TAG.name. TypeError if `steps` are not steps."""
    if isinstance(steps, str):
        return {STEPS: steps}
    if isinstance(steps, Mapping):
        return {name: value for name, value in steps.items() if value is not None}
    if not isinstance(steps, (list, tuple)) or not all(isinstance(step, (str, Step)) for step in steps):
        raise TypeError(f"steps are {steps!r}; expected a list such as [voxeld.Downsample(0.1)]")
    names, parameters = [], {}
    for step in steps:
        if isinstance(step, Step):
            names.append(step.op if step.tag == step.op else f"{step.tag}:{step.op}")
            parameters.update({f"{step.tag}.{name}": value for name, value in step.parameters.items()})
        else:
            names.append(step)
    return {STEPS: ",".join(names) or "none", **parameters}


def counts_of(metadata: Mapping[str, Any]) -> List[StepCounts]:
    try:
        return [_counts(dict(told)) for told in metadata.get(STEPS, [])]
    except (AttributeError, KeyError, TypeError, ValueError) as reason:
        raise BadAnswer(f"the metadata does not say what the steps did: {reason!r}") from None


def _counts(told: Dict[str, Any]) -> StepCounts:
    first = str(told.pop("tag")), str(told.pop("op")), int(told.pop("in")), int(told.pop("kept"))
    return StepCounts(*first, {str(name): int(value) for name, value in told.items()})
