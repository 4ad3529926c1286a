"""Layers with their norm folded in: w * g and b * g + shift, in float64."""

from __future__ import annotations

from typing import Optional, Tuple

import numpy as np

from .state import Array, ConvertError, State

Layer = Tuple[Array, Array]  # weight and bias


def norm_of(state: State, name: str, channels: int, eps: float) -> Tuple[Array, Array]:
    """Gain and shift of a batch norm in evaluation: y = x * gain + shift."""
    mean, variance = (state.take(f"{name}.running_{what}", channels) for what in ("mean", "var"))
    if (variance < 0).any():
        raise ConvertError(f"{name}.running_var has a value below 0")
    gain = state.take(f"{name}.weight", channels) / np.sqrt(variance + eps)
    return gain, state.take(f"{name}.bias", channels) - mean * gain


def linear(state: State, name: str, outputs: int, inputs: int, norm: Optional[str], eps: float) -> Layer:
    """weight [outputs, inputs]. A layer without a norm has a bias."""
    weight = state.take(f"{name}.weight", outputs, inputs)
    if norm is None:
        return weight, state.take(f"{name}.bias", outputs)
    gain, shift = norm_of(state, norm, outputs, eps)
    return weight * gain[:, None], shift


def conv(
    state: State, name: str, outputs: int, inputs: int, side: int, norm: Optional[str] = None, eps: float = 0.0
) -> Layer:
    """weight [outputs, inputs, side, side]. The layer has a bias if the state has one, and without a norm it must."""
    weight = state.take(f"{name}.weight", outputs, inputs, side, side)
    biased = norm is None or f"{name}.bias" in state
    bias = state.take(f"{name}.bias", outputs) if biased else np.zeros(outputs)
    if norm is None:
        return weight, bias
    gain, shift = norm_of(state, norm, outputs, eps)
    return weight * gain[:, None, None, None], bias * gain + shift


def deconv(state: State, name: str, outputs: int, inputs: int, side: int, norm: str, eps: float) -> Layer:
    """A transposed convolution: weight [inputs, outputs, side, side]."""
    weight = state.take(f"{name}.weight", inputs, outputs, side, side)
    gain, shift = norm_of(state, norm, outputs, eps)
    return weight * gain[None, :, None, None], shift
