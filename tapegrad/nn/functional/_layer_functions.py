"""Activations, linear, dropout, batch normalization and losses as functions."""

from __future__ import annotations

import warnings

import numpy as np

from ..._core.operations import PUBLIC
from ..._core.tensor.copies import unlisted
from ..._core.tensor.trace import fixed, lost_derivative, refuse, steered
from ..._core.tensor.values import array_of, is_recorded

# --- random ---------------------------------------------------------------------------------------
# The generator of random numbers behind initial values and dropout.

_state = {"generator": np.random.default_rng()}


def manual_seed(seed: int) -> np.random.Generator:
    """Seed the generator of random numbers behind initial values and dropout.

    Parameters
    ----------
    seed : int
        The seed.

    Returns
    -------
    numpy.random.Generator
        NumPy's generator with that seed. Its numbers are not those of PyTorch.

    Examples
    --------
    >>> import tapegrad as tg
    >>> _ = tg.manual_seed(0)
    >>> first = tg.nn.Linear(2, 3)
    >>> _ = tg.manual_seed(0)
    >>> second = tg.nn.Linear(2, 3)
    >>> bool((first.weight == second.weight).all())
    True
    """
    _state["generator"] = np.random.default_rng(seed)
    return _state["generator"]


def generator_or(generator: np.random.Generator | None) -> np.random.Generator:
    """The generator given, or else the common one."""
    return _state["generator"] if generator is None else generator


# --- layer functions ------------------------------------------------------------------------------
# Activations, linear, dropout and batch normalization as functions.


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


# --- losses ---------------------------------------------------------------------------------------
# Losses as functions.


def _check_reduction(name: str, reduction) -> None:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(
            f"tapegrad.{name}: reduction is {reduction!r}; it must be 'none', 'mean' or 'sum'"
        )


def mse_loss(input, target, reduction="mean"):
    """Compute squared differences between input and target.

    Parameters
    ----------
    input, target : array_like
        The operands.
    reduction : {"mean", "sum", "none"}, optional
        Whether their mean, their sum, or each is returned.

    Returns
    -------
    Tensor, ndarray or number

    Warns
    -----
    UserWarning
        If the shapes differ: they are broadcast.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.functional.mse_loss(tg.tensor([1.0, 2.0]), [0.0, 0.0])
    tensor(2.5)
    """
    _check_reduction("mse_loss", reduction)
    if np.shape(input) != np.shape(target):
        warnings.warn(
            f"tapegrad.mse_loss: the input has shape {np.shape(input)}, the target "
            f"{np.shape(target)}; they are broadcast, reshape one if that is not meant",
            stacklevel=2,
        )
    squares = np.square(np.subtract(input, target))
    if reduction == "none":
        return squares
    return np.mean(squares) if reduction == "mean" else np.sum(squares)


def nll_loss(input, target, weight=None, ignore_index=-100, reduction="mean"):
    """Compute the negative log-likelihood of classes.

    Parameters
    ----------
    input : array_like, shape (C,), (N, C) or (N, C, …)
        Logarithms of the probabilities of the classes.
    target : array_like of ints
        The classes, in the shape of the input without the axis C.
    weight : array_like, shape (C,), optional
        A factor for each class. The mean is a weighted mean with these factors.
    ignore_index : int, optional
        Elements whose target it is do not count.
    reduction : {"mean", "sum", "none"}, optional
        Whether the mean, the sum, or each loss is returned.

    Returns
    -------
    Tensor, ndarray or number

    Raises
    ------
    ValueError
        If shapes do not fit.
    IndexError
        If a class does not exist.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.functional.nll_loss(tg.tensor([[-1.0, -2.0], [-3.0, -4.0]]), [0, 1])
    tensor(2.5)
    """
    _check_reduction("nll_loss", reduction)
    loss, factors, _ = _of_classes("nll_loss", input, target, weight, ignore_index)
    return _reduced(loss, factors, reduction)


def cross_entropy(
    input, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0
):
    """Compute the cross-entropy of scores: `nll_loss` of their `log_softmax`.

    Parameters
    ----------
    input : array_like, shape (C,), (N, C) or (N, C, …)
        The scores of the classes.
    target : array_like
        The classes, as in `nll_loss`, or probabilities in the shape of the scores.
    weight : array_like, shape (C,), optional
        A factor for each class.
    ignore_index : int, optional
        Elements whose target it is do not count.
    reduction : {"mean", "sum", "none"}, optional
        Whether the mean, the sum, or each loss is returned.
    label_smoothing : float, optional
        The share of the probability that is distributed evenly over all classes.

    Returns
    -------
    Tensor, ndarray or number

    Raises
    ------
    ValueError
        If shapes do not fit, or `label_smoothing` is not from 0 to 1.
    IndexError
        If a class does not exist.

    Examples
    --------
    >>> import tapegrad as tg
    >>> tg.nn.functional.cross_entropy(tg.tensor([[0.0, 0.0]]), [1])
    tensor(0.69314718)
    """
    _check_reduction("cross_entropy", reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(
            f"tapegrad.cross_entropy: label_smoothing is {label_smoothing}; it must be from 0 to 1"
        )
    axis = _class_axis("cross_entropy", input)
    logs, classes = PUBLIC["log_softmax"](input, axis), np.shape(input)[axis]
    share = label_smoothing / classes
    if array_of(target).dtype.kind == "f" and np.shape(target) == np.shape(input):
        if label_smoothing:
            target = np.multiply(target, 1.0 - label_smoothing) + share
        loss = -np.sum(_weighted("cross_entropy", logs, weight, axis) * target, axis=axis)
        return _reduced(loss, np.ones(np.shape(loss), array_of(logs).dtype), reduction)
    loss, factors, kept = _of_classes("cross_entropy", logs, target, weight, ignore_index)
    if label_smoothing:
        even = np.sum(_weighted("cross_entropy", logs, weight, axis), axis=axis)
        loss = (1.0 - label_smoothing) * loss - share * np.where(kept, even, 0.0)
    return _reduced(loss, factors, reduction)


def _class_axis(name: str, input) -> int:
    if not np.shape(input):
        raise ValueError(f"tapegrad.{name}: the input has no axes; it must be (C,) or (N, C, …)")
    return 0 if len(np.shape(input)) == 1 else 1


def _factors(name: str, weight, classes: int, dtype) -> np.ndarray:
    """One factor for each class."""
    if weight is None:
        return np.ones(classes, dtype)
    if is_recorded(weight):
        raise lost_derivative(
            f"tapegrad.{name}: weight is recorded, but has no derivative here; pass detach()",
            weight,
        )
    factors = np.asarray(array_of(weight), dtype)
    if factors.shape != (classes,):
        raise ValueError(
            f"tapegrad.{name}: weight has shape {factors.shape}; it must have one element for each "
            f"of {classes} classes"
        )
    return factors


def _weighted(name: str, logs, weight, axis: int):
    """Logarithms times the factors of their classes."""
    if weight is None:
        return logs
    shape = [-1 if k == axis else 1 for k in range(len(np.shape(logs)))]
    factors = _factors(name, weight, np.shape(logs)[axis], array_of(logs).dtype)
    return logs * factors.reshape(shape)


def _of_classes(name: str, logs, target, weight, ignore_index):
    """The loss of each element, its factor, and which elements are not ignored."""
    axis, shape = _class_axis(name, logs), np.shape(logs)
    target, given = unlisted(target), array_of(unlisted(target))
    if given.dtype.kind not in "iu" or given.shape != (*shape[:axis], *shape[axis + 1 :]):
        raise ValueError(
            f"tapegrad.{name}: the input has shape {shape}, the target {given.shape} and dtype "
            f"{given.dtype}; it must hold integers, in the shape of the input without axis {axis}"
        )
    bad = steered(_bad, target, ignored=ignore_index, classes=shape[axis])
    if fixed(steered(np.any, bad), name):
        raise IndexError(
            f"tapegrad.{name}: the target has class {given[array_of(bad)].flat[0]}; classes are "
            f"from 0 to {shape[axis] - 1}, and ignore_index is {ignore_index}"
        )
    kept = steered(np.not_equal, target, ignore_index)
    classes = steered(np.where, kept, target, 0)
    factors = _factors(name, weight, shape[axis], array_of(logs).dtype)
    factors = steered(_factor_of_each, classes, kept, factors=factors)
    picked = np.take_along_axis(logs, np.expand_dims(classes, axis), axis)
    loss = -np.squeeze(picked, axis) * factors
    return loss if fixed(steered(np.all, kept), name) else np.where(kept, loss, 0.0), factors, kept


def _bad(target, ignored, classes):
    """The places where the target has a class that does not exist."""
    return (target != ignored) & ((target < 0) | (target >= classes))


def _factor_of_each(classes, kept, factors):
    return factors[classes] * kept


def _reduced(loss, factors, reduction):
    """The loss of each element, their sum, or their mean weighted by factors."""
    if reduction == "none":
        return loss
    total = np.sum(loss)
    return total if reduction == "sum" else total / np.sum(factors)
