"""Initial values, written in place: PyTorch's `nn.init`.

Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks"
(2010), for xavier; He et al., "Delving deep into rectifiers" (2015), for kaiming. Every function
takes `generator`, a `numpy.random.Generator`; without it the one of `tg.manual_seed` is used.
"""

from __future__ import annotations

import math

import numpy as np

from ..autograd import no_grad
from .functional._random import generator_or

_GAINS = {
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3.0,
    "relu": math.sqrt(2.0),
    "selu": 0.75,
}


def _write(tensor, values):
    with no_grad():
        tensor[...] = np.asarray(values, tensor.dtype)
    return tensor


def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Fill with numbers that are uniform from a to b; returns the tensor."""
    return _write(tensor, generator_or(generator).uniform(a, b, tensor.shape))


def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Fill with numbers of a normal distribution; returns the tensor."""
    return _write(tensor, generator_or(generator).normal(mean, std, tensor.shape))


def constant_(tensor, val):
    """Fill with one number; returns the tensor."""
    return _write(tensor, np.full(tensor.shape, val))


def zeros_(tensor):
    """Fill with zeros; returns the tensor."""
    return constant_(tensor, 0.0)


def ones_(tensor):
    """Fill with ones; returns the tensor."""
    return constant_(tensor, 1.0)


def calculate_gain(nonlinearity, param=None):
    """By how much a nonlinearity's input is to be scaled up to keep its variance.

    `param` is the negative slope of "leaky_relu". Raises ValueError for names that are not known.

    >>> from tapegrad import nn
    >>> nn.init.calculate_gain("tanh")
    1.6666666666666667
    """
    if nonlinearity == "leaky_relu":
        return math.sqrt(2.0 / (1.0 + (0.01 if param is None else param) ** 2))
    if nonlinearity not in _GAINS:
        raise ValueError(
            f"tapegrad.calculate_gain: nonlinearity is {nonlinearity!r}; it must be one of "
            f"{', '.join([*_GAINS, 'leaky_relu'])}"
        )
    return _GAINS[nonlinearity]


def fans(tensor) -> tuple[int, int]:
    """How many inputs an output has, and how many outputs an input, of a layer's weights."""
    if tensor.ndim < 2:
        raise ValueError(
            f"tapegrad.nn.init: the tensor has shape {tensor.shape}; fans need at least two axes"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Fill with uniform numbers of variance 2·gain² / (fan_in + fan_out); returns the tensor."""
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor, gain=1.0, generator=None):
    """Fill with normal numbers of variance 2·gain² / (fan_in + fan_out); returns the tensor."""
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def _kaiming_std(name, tensor, a, mode, nonlinearity) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"tapegrad.{name}: mode is {mode!r}; it must be 'fan_in' or 'fan_out'")
    fan = fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(max(fan, 1))  # 0 when there is no element


def kaiming_uniform_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Fill with uniform numbers of variance gain² / fan; returns the tensor.

    The gain is that of `nonlinearity`, for "leaky_relu" with slope a.
    """
    std = _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -math.sqrt(3.0) * std, math.sqrt(3.0) * std, generator)


def kaiming_normal_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Fill with normal numbers of variance gain² / fan; returns the tensor.

    The gain is that of `nonlinearity`, for "leaky_relu" with slope a.
    """
    std = _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity)
    return normal_(tensor, 0.0, std, generator)
