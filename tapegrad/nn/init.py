"""Initial values, written in place: PyTorch's `nn.init`.

Glorot and Bengio, "Understanding the difficulty of training deep feedforward neural networks"
(2010), for xavier; He et al., "Delving deep into rectifiers" (2015), for kaiming. Every function
takes `generator`, a `numpy.random.Generator`; without it the one of `tg.manual_seed` is used.
"""

from __future__ import annotations

import math

import numpy as np

from .._core.tensor.registry import sharing
from ..autograd import no_grad
from .functional._layer_functions import generator_or

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
#: Entries of parameters in the docstrings of initializers.
_ENTRIES = {
    "tensor": ("Tensor", "The tensor that is written."),
    "gain": ("float", "The gain."),
    "a": ("float", 'The negative slope of "leaky_relu".'),
    "mode": ('{"fan_in", "fan_out"}', "Which fan is used."),
    "nonlinearity": ("str", "The nonlinearity whose gain is used; see `calculate_gain`."),
    "generator": (
        "numpy.random.Generator",
        "The generator of random numbers; by default the one that `tg.manual_seed` seeds.",
    ),
}
_initializer = sharing(_ENTRIES, "Tensor\n    The tensor.")


def _write(tensor, values):
    with no_grad():
        tensor[...] = np.asarray(values, tensor.dtype)
    return tensor


@_initializer
def uniform_(tensor, a=0.0, b=1.0, generator=None):
    """Fill a tensor in place with random numbers that are uniform from `a` to `b`.

    Parameters
    ----------
    a, b : float, optional
        The bounds.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.init.uniform_(tg.empty(3), -1.0, 1.0).shape
    (3,)
    """
    return _write(tensor, generator_or(generator).uniform(a, b, tensor.shape))


@_initializer
def normal_(tensor, mean=0.0, std=1.0, generator=None):
    """Fill a tensor in place with random numbers of a normal distribution.

    Parameters
    ----------
    mean, std : float, optional
        The mean and the standard deviation.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.init.normal_(tg.empty(3), 0.0, 0.1).shape
    (3,)
    """
    return _write(tensor, generator_or(generator).normal(mean, std, tensor.shape))


@_initializer
def constant_(tensor, val):
    """Fill a tensor in place with a number.

    Parameters
    ----------
    val : float
        The number.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.init.constant_(tg.empty(2), 3.0)
    tensor([3., 3.])
    """
    return _write(tensor, np.full(tensor.shape, val))


@_initializer
def zeros_(tensor):
    """Fill a tensor in place with zeros.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.init.zeros_(tg.empty(2))
    tensor([0., 0.])
    """
    return constant_(tensor, 0.0)


@_initializer
def ones_(tensor):
    """Fill a tensor in place with ones.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.init.ones_(tg.empty(2))
    tensor([1., 1.])
    """
    return constant_(tensor, 1.0)


def calculate_gain(nonlinearity, param=None):
    """Return the factor of the input of a nonlinearity that keeps its variance.

    Parameters
    ----------
    nonlinearity : str
        The nonlinearity: "linear", "conv1d", "conv2d", "conv3d", "sigmoid", "tanh", "relu", "selu"
        or "leaky_relu".
    param : float, optional
        The negative slope of "leaky_relu".

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the name is not known.

    Examples
    --------
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
    """Return the number of inputs of an output and of outputs of an input, of a layer's weights.

    Parameters
    ----------
    tensor : Tensor
        The weights, with at least two axes.

    Returns
    -------
    tuple of two ints

    Raises
    ------
    ValueError
        If the tensor has fewer than two axes.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.init.fans(tg.empty((2, 3)))
    (3, 2)
    """
    if tensor.ndim < 2:
        raise ValueError(
            f"tapegrad.nn.init: the tensor has shape {tensor.shape}; fans need at least two axes"
        )
    field = math.prod(tensor.shape[2:])
    return tensor.shape[1] * field, tensor.shape[0] * field


@_initializer
def xavier_uniform_(tensor, gain=1.0, generator=None):
    """Fill weights with uniform random numbers of variance 2·gain² / (fan_in + fan_out).

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.init.xavier_uniform_(tg.empty((2, 3))).shape
    (2, 3)
    """
    bound = gain * math.sqrt(6.0 / sum(fans(tensor)))
    return uniform_(tensor, -bound, bound, generator)


@_initializer
def xavier_normal_(tensor, gain=1.0, generator=None):
    """Fill weights with normal random numbers of variance 2·gain² / (fan_in + fan_out).

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.init.xavier_normal_(tg.empty((2, 3))).shape
    (2, 3)
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fans(tensor))), generator)


def _kaiming_std(name, tensor, a, mode, nonlinearity) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise ValueError(f"tapegrad.{name}: mode is {mode!r}; it must be 'fan_in' or 'fan_out'")
    fan = fans(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(max(fan, 1))  # 0 if there is no element


@_initializer
def kaiming_uniform_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Fill weights with uniform random numbers of variance gain² / fan.

    Raises
    ------
    ValueError
        If `mode` or `nonlinearity` is not known.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.init.kaiming_uniform_(tg.empty((2, 3))).shape
    (2, 3)
    """
    std = _kaiming_std("kaiming_uniform_", tensor, a, mode, nonlinearity)
    return uniform_(tensor, -math.sqrt(3.0) * std, math.sqrt(3.0) * std, generator)


@_initializer
def kaiming_normal_(tensor, a=0.0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    """Fill weights with normal random numbers of variance gain² / fan.

    Raises
    ------
    ValueError
        If `mode` or `nonlinearity` is not known.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.init.kaiming_normal_(tg.empty((2, 3))).shape
    (2, 3)
    """
    std = _kaiming_std("kaiming_normal_", tensor, a, mode, nonlinearity)
    return normal_(tensor, 0.0, std, generator)
