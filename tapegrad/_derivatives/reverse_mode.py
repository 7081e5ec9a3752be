"""The compiled sweep: errors of its refusals, rows with hooks."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from .._core.tape import store
from .._core.tape.sweeps import ChangedError, FreedError, Sweep
from .._core.tensor.copies import unlisted
from .._core.tensor.values import value_of

# --- The compiled sweep, with error messages for its refusals -------------------------------------


AGAIN = (
    "tapegrad.backward: the tensor's rows were used up by an earlier backward pass; call the "
    "first one with retain_graph=True to pass through them again"
)

_CHANGED = (
    "tapegrad.backward: an input was written in place, inside no_grad(), after the rows that read "
    "it were recorded; call backward() before the write, or compute the output again; "
    "tg.autograd.detect_anomaly() around all of it finds the line"
)


def seed_of(name: str, tensor, gradient):
    """The adjoint that a sweep starts with: of the tensor's shape and dtype, a tensor if given so.

    `name` is that of the caller, for messages.
    """
    value = np.asarray(value_of(tensor))
    if gradient is None:
        if value.size != 1:
            raise RuntimeError(
                f"tapegrad.{name}: the output has shape {value.shape}, but a gradient needs a "
                "scalar: reduce it, for instance with sum(), or pass gradient= of that shape"
            )
        return np.ones(value.shape, value.dtype)
    gradient = unlisted(gradient)
    shape = np.shape(value_of(gradient))
    if shape != value.shape:
        raise ValueError(
            f"tapegrad.{name}: gradient= has shape {shape}, the output has {value.shape}; "
            "they must be equal"
        )
    return gradient


def plant(sweep: Sweep, tensor, seeds: np.ndarray) -> None:
    """Add `seeds`, of shape (number of seeds, …), to the adjoint of a recorded tensor."""
    try:
        sweep.plant(tensor, seeds)
    except FreedError:
        raise RuntimeError(AGAIN) from None


def run(sweep: Sweep, stops=None) -> None:
    """Run a sweep, with error messages for its refusals."""
    try:
        sweep.run(stops)
    except FreedError:
        raise RuntimeError(AGAIN) from None
    except ChangedError:
        raise RuntimeError(_CHANGED) from None


# --------------------------------------------------------------------------------------------------
# Derivatives to inputs through rows that may have hooks, which `autograd` registers and calls.


#: The functions of `autograd` for rows with hooks, by what they do.
HOOKED: dict[str, Callable] = {}


def run_to(sweep: Sweep, tensors: list) -> None:
    """Run a sweep whose adjoints are those of inputs."""
    if _any_is_watched():
        HOOKED["swept"](sweep, tensors)
    else:
        run(sweep)


def meets_hooks(outputs: list, tensors: list, gradients: bool = True) -> bool:
    """Whether outputs depend on inputs by a row with a hook, or a retained gradient."""
    return _any_is_watched() and HOOKED["reaches"](outputs, tensors, gradients)


def _any_is_watched() -> bool:
    return any(store.watched.values())
