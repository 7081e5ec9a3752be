"""Activations, linear, dropout and batch normalization as functions."""

from __future__ import annotations

import numpy as np

from ..._core.operations import PUBLIC
from ..._core.tensor.trace import refuse, steered
from ..._core.tensor.values import array_of
from ._random import generator_or


def relu(input):
    """The larger of each element and 0; its slope at 0 is 0.

    >>> import tapegrad as tg
    >>> tg.nn.functional.relu(tg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return PUBLIC["where"](steered(np.less_equal, input, 0.0), 0.0, input)


def tanh(input):
    """Hyperbolic tangent, element by element."""
    return PUBLIC["tanh"](input)


def sigmoid(input):
    """1 / (1 + exp(−x)), element by element."""
    return PUBLIC["sigmoid"](input)


def softmax(input, dim):
    """exp(x) divided by its sum along an axis."""
    return PUBLIC["softmax"](input, dim)


def log_softmax(input, dim):
    """The logarithm of `softmax`, accurate where that underflows."""
    return PUBLIC["log_softmax"](input, dim)


def linear(input, weight, bias=None):
    """input @ weight.T + bias: (…, in) and (out, in) give (…, out).

    Raises ValueError, with the shapes, when the last axes differ.

    >>> import tapegrad as tg
    >>> tg.nn.functional.linear(tg.tensor([1.0, 2.0]), tg.tensor([[3.0, 4.0]]), tg.tensor([5.0]))
    tensor([16.])
    """
    given, needed = np.shape(input), np.shape(weight)
    if len(needed) != 2 or not given or given[-1] != needed[1]:
        raise ValueError(
            f"tapegrad.linear: the input has shape {given}, the weight {needed}; they must be "
            "(…, in_features) and (out_features, in_features)"
        )
    product = input @ np.transpose(weight)
    return product if bias is None else product + bias


def check_probability(name: str, p) -> None:
    """Refuse what is no probability."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"tapegrad.{name}: p is {p}; it must be from 0 to 1")


def dropout(input, p=0.5, training=True, generator=None):
    """Elements set to 0 with probability p, the others divided by 1 − p; no change unless training.

    `generator` is a `numpy.random.Generator`; without it the one of `tg.manual_seed` is used.
    Srivastava et al., "Dropout" (2014).
    """
    check_probability("dropout", p)
    if not training or p == 0.0:
        return input
    refuse("dropout draws random numbers")
    value = array_of(input)
    kept = generator_or(generator).random(value.shape) >= p
    scale = 1.0 / (1.0 - p) if p < 1.0 else 0.0
    return input * (kept * value.dtype.type(scale))


def batch_norm(
    input,
    running_mean,
    running_var,
    weight=None,
    bias=None,
    training=False,
    momentum=0.1,
    eps=1e-5,
):
    """(x − mean) / √(variance + eps) · weight + bias for each channel, the second axis.

    In training mean and variance are those of the batch, and are averaged into `running_mean` and
    `running_var`, which are written in place; otherwise they are these. Raises ValueError for a
    channel of one element in training, or without running statistics otherwise.
    """
    shape = np.shape(input)
    axes = (0, *range(2, len(shape)))
    channels = (1, -1, *[1] * (len(shape) - 2))
    if training:
        count = int(np.prod(shape)) // max(shape[1], 1)
        if count == 1:
            raise ValueError(
                f"tapegrad.batch_norm: the input has shape {shape}, one element per channel; "
                "training needs more"
            )
        centred = input - (mean := np.mean(input, axis=axes, keepdims=True))
        var = np.mean(np.square(centred), axis=axes, keepdims=True)
        average_into(running_mean, mean, momentum)
        average_into(running_var, array_of(var) * (count / max(count - 1, 1)), momentum)
    else:
        if running_mean is None or running_var is None:
            raise ValueError(
                "tapegrad.batch_norm: running_mean or running_var is None; give both, or "
                "training=True"
            )
        centred = input - np.reshape(running_mean, channels)
        var = np.reshape(running_var, channels)
    scale = 1.0 / np.sqrt(var + eps)
    out = centred * (scale if weight is None else scale * np.reshape(weight, channels))
    return out if bias is None else out + np.reshape(bias, channels)


def average_into(running, value, momentum: float) -> None:
    """Move a running statistic towards a value."""
    if running is not None:
        refuse("batch_norm averages running statistics")
        running[...] = (1.0 - momentum) * array_of(running) + momentum * array_of(value).ravel()
