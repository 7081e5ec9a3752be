"""Activations, linear, dropout and batch normalization as functions."""

from __future__ import annotations

import numpy as np

from ..._core.operations import PUBLIC
from ..._core.tensor.trace import refuse, steered
from ..._core.tensor.values import array_of
from ._random import generator_or


def relu(input):
    """Compute max(x, 0), element by element. The derivative at 0 is 0.

    Parameters
    ----------
    input : array_like
        The operand.

    Returns
    -------
    Tensor or ndarray

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.functional.relu(tg.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    return PUBLIC["where"](steered(np.less_equal, input, 0.0), 0.0, input)


def tanh(input):
    """Compute the hyperbolic tangent, element by element.

    Parameters
    ----------
    input : array_like
        The operand.

    Returns
    -------
    Tensor or ndarray

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.functional.tanh(tg.tensor([0.0]))
    tensor([0.])
    """
    return PUBLIC["tanh"](input)


def sigmoid(input):
    """Compute 1 / (1 + exp(−x)), element by element.

    Parameters
    ----------
    input : array_like
        The operand.

    Returns
    -------
    Tensor or ndarray

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.functional.sigmoid(tg.tensor([0.0]))
    tensor([0.5])
    """
    return PUBLIC["sigmoid"](input)


def softmax(input, dim):
    """Compute exp(x) divided by its sum along an axis.

    Parameters
    ----------
    input : array_like
        The operand.
    dim : int
        The axis.

    Returns
    -------
    Tensor or ndarray

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.functional.softmax(tg.tensor([0.0, 0.0]), 0)
    tensor([0.5, 0.5])
    """
    return PUBLIC["softmax"](input, dim)


def log_softmax(input, dim):
    """Compute the logarithm of `softmax`, accurately even if `softmax` underflows.

    Parameters
    ----------
    input : array_like
        The operand.
    dim : int
        The axis.

    Returns
    -------
    Tensor or ndarray

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.functional.log_softmax(tg.tensor([0.0, 1000.0]), 0)
    tensor([-1000.,     0.])
    """
    return PUBLIC["log_softmax"](input, dim)


def linear(input, weight, bias=None):
    """Compute input @ weight.T + bias.

    Parameters
    ----------
    input : array_like, shape (…, in)
        The operand.
    weight : array_like, shape (out, in)
        The weights.
    bias : array_like, shape (out,), optional
        The bias.

    Returns
    -------
    Tensor or ndarray, shape (…, out)

    Raises
    ------
    ValueError
        If the last axes differ; the message has the shapes.

    Examples
    --------
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
    """Raise ValueError unless a number is from 0 to 1.

    Parameters
    ----------
    name : str
        The function, for the message.
    p : float
        The number.

    Returns
    -------
    None

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.functional.check_probability("dropout", 0.5)
    """
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"tapegrad.{name}: p is {p}; it must be from 0 to 1")


def dropout(input, p=0.5, training=True, generator=None):
    """Set elements to 0 at random, in training.

    Parameters
    ----------
    input : array_like
        The operand.
    p : float, optional
        The probability that an element is set to 0. The others are divided by 1 − p.
    training : bool, optional
        If false, the operand is returned unchanged.
    generator : numpy.random.Generator, optional
        The generator of random numbers; by default the one that `tg.manual_seed` seeds.

    Returns
    -------
    Tensor or ndarray

    Raises
    ------
    ValueError
        If `p` is not from 0 to 1.

    References
    ----------
    Srivastava et al., "Dropout: a simple way to prevent neural networks from overfitting" (2014).

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.functional.dropout(tg.tensor([1.0, 2.0]), 0.5, training=False)
    tensor([1., 2.])
    """
    check_probability("dropout", p)
    if not training or p == 0.0:
        return input
    refuse("dropout draws random numbers", faithful=True)
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
    """Normalize each channel, the second axis: (x − mean) / √(variance + eps) · weight + bias.

    Parameters
    ----------
    input : array_like, shape (N, C, …)
        The operand.
    running_mean, running_var : Tensor or None, shape (C,)
        The statistics. In training they are not read, and those of the batch are averaged into them
        in place.
    weight, bias : array_like, shape (C,), optional
        Factors and shifts of the channels.
    training : bool, optional
        Whether the statistics of the batch are used.
    momentum : float, optional
        The weight of the batch in the running statistics.
    eps : float, optional
        Added to the variance.

    Returns
    -------
    Tensor or ndarray

    Raises
    ------
    ValueError
        If a channel has one element in training, or running statistics are missing otherwise.

    Examples
    --------
    >>> import tapegrad as tg
    >>> x = tg.tensor([[1.0], [3.0]])
    >>> tg.nn.functional.batch_norm(x, None, None, training=True).round(4)
    tensor([[-1.],
            [ 1.]])
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
        refuse("batch_norm averages running statistics", faithful=True)
        running[...] = (1.0 - momentum) * array_of(running) + momentum * array_of(value).ravel()
