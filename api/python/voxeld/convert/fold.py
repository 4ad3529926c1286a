"""Layers with their norm folded in: w * g and b * g + shift, in float64."""

from __future__ import annotations

from typing import Optional, Tuple

import numpy as np

from .state import Array, ConvertError, State

Layer = Tuple[Array, Array]  # weight and bias


def layer(
    state: State, name: str, shape: Tuple[int, ...], norm: Optional[str] = None, eps: float = 0.0, axis: int = 0
) -> Layer:
    """A layer whose weight has this shape, with the outputs along the axis. A bias may be missing if there is a
    norm."""
    weight, outputs = state.take(f"{name}.weight", *shape), shape[axis]
    biased = norm is None or f"{name}.bias" in state
    bias = state.take(f"{name}.bias", outputs) if biased else np.zeros(outputs)
    if norm is None:
        return weight, bias
    scale, shift = _norm(state, norm, outputs, eps)
    along = [-1 if number == axis else 1 for number in range(len(shape))]
    return weight * scale.reshape(along), bias * scale + shift


def _norm(state: State, name: str, channels: int, eps: float) -> Tuple[Array, Array]:
    """Returns gain and shift: y = x * gain + shift."""
    mean, variance = (state.take(f"{name}.running_{what}", channels) for what in ("mean", "var"))
    scale = gain(f"{name}.running_var", state.take(f"{name}.weight", channels), variance, eps)
    return scale, state.take(f"{name}.bias", channels) - mean * scale


def gain(name: str, weight: Array, variance: Array, eps: float) -> Array:
    """`name` names the variance in errors."""
    if (variance < 0).any():
        raise ConvertError(f"{name} has a value below 0")
    if not (variance + eps > 0).all():
        raise ConvertError(f"{name} has a value of {variance.min():g}, and eps is {eps:g}; the sum must be above 0")
    scale: Array = weight / np.sqrt(variance + eps)
    return scale
