"""Losses as functions."""

from __future__ import annotations

import warnings

import numpy as np

from ..._core.operations import PUBLIC
from ..._core.tensor.copies import unlisted
from ..._core.tensor.trace import fixed, lost_derivative, steered
from ..._core.tensor.values import array_of, is_recorded


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
