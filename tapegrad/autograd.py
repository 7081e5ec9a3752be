"""Floor 5: PyTorch's front. `backward`, gradients on inputs, and the modes."""

from __future__ import annotations

import functools

import numpy as np

from .tape import store
from .tape.adjoint import ChangedError, FreedError, Sweep
from .tensor import runtime as rt
from .tensor.values import Leaf, is_recorded, meta_of, value_of, wrap

_AGAIN = (
    "tapegrad.backward: the tensor's rows were used up by an earlier backward pass; call the "
    "first one with retain_graph=True to pass through them again"
)

_CHANGED = (
    "tapegrad.backward: an input was written in place, inside no_grad(), after the rows that read "
    "it were recorded; call backward() before the write, or compute the output again; "
    "tg.autograd.detect_anomaly() around all of it finds the line"
)


def seed_of(name: str, tensor, gradient):
    """The adjoint that a sweep starts with, as an array of the tensor's shape."""
    value = np.asarray(value_of(tensor))
    if gradient is None:
        if value.size != 1:
            raise RuntimeError(
                f"tapegrad.{name}: the output has shape {value.shape}; a gradient is of a scalar: "
                "reduce it, for instance with sum(), or pass gradient= of that shape"
            )
        return np.ones(value.shape, value.dtype)
    seed = np.asarray(value_of(gradient))
    if seed.shape != value.shape:
        raise ValueError(
            f"tapegrad.{name}: gradient= has shape {seed.shape}, the output has {value.shape}; "
            "they must be equal"
        )
    return seed.astype(value.dtype)


def plant(sweep: Sweep, tensor, seeds: np.ndarray) -> None:
    """Add `seeds`, of shape (number of seeds, …), to the adjoint of a recorded tensor."""
    try:
        sweep.plant(tensor, seeds)
    except FreedError:
        raise RuntimeError(_AGAIN) from None


def run(sweep: Sweep) -> None:
    """Run a sweep, with our words for what may stop it."""
    try:
        sweep.run()
    except FreedError:
        raise RuntimeError(_AGAIN) from None
    except ChangedError:
        raise RuntimeError(_CHANGED) from None


def backward(self, gradient=None, retain_graph=False):
    """Add the derivative of this tensor to `grad` of every input that it was computed from.

    A tensor of one element needs no `gradient`; otherwise it is the adjoint to start with, of the
    tensor's shape. The rows are used up unless `retain_graph` is true. Raises RuntimeError for a
    tensor that is not recorded, is not a scalar, or whose rows are used up.

    >>> import tapegrad as tg
    >>> x = tg.tensor(3.0, requires_grad=True)
    >>> (x**2).backward()
    >>> x.grad
    tensor(6.)
    """
    if not is_recorded(self):
        raise RuntimeError(
            "tapegrad.backward: the tensor is not recorded; it depends on no input made with "
            "requires_grad=True, or was computed under no_grad()"
        )
    seed = seed_of("backward", self, gradient)
    with Sweep(retain=bool(retain_graph)) as sweep:
        plant(sweep, self, seed[None])
        run(sweep)
        for number in sweep.touched_inputs():
            reference = store.leaves.get(number)
            leaf = reference() if reference else None
            if leaf is None:
                continue
            adjoint = sweep.take(number, leaf._array)[0]
            meta = leaf._meta
            if meta.grad is None:
                meta.grad = wrap(adjoint)
            else:
                meta.grad._array[...] += adjoint


def _get_grad(self):
    meta = meta_of(self) if type(self) is rt.Array else None
    return meta.grad if type(meta) is Leaf else None


def _set_grad(self, value):
    meta = meta_of(self) if type(self) is rt.Array else None
    if type(meta) is not Leaf:
        raise RuntimeError(
            "tapegrad: only inputs made with requires_grad=True have a gradient to set"
        )
    if value is not None:
        shape = np.shape(value_of(value))
        if shape != self.shape:
            raise ValueError(
                f"tapegrad: a gradient of shape {shape} does not fit an input of {self.shape}"
            )
        value = wrap(np.array(value_of(value), self.dtype))
    meta.grad = value


METHODS = {"backward": backward, "grad": property(_get_grad, _set_grad)}
for _name, _method in METHODS.items():
    setattr(rt.Tensor, _name, _method)


class _Mode:
    """Switches recording on or off, as a context and as a decorator."""

    def __init__(self, recording: bool):
        self._recording = recording
        self._before: list[bool] = []

    def __enter__(self):
        self._before.append(rt.set_recording(self._recording))

    def __exit__(self, *_):
        rt.set_recording(self._before.pop())

    def __call__(self, function):
        recording = self._recording

        @functools.wraps(function)
        def within(*args, **kwargs):
            before = rt.set_recording(recording)
            try:
                return function(*args, **kwargs)
            finally:
                rt.set_recording(before)

        return within


def _mode(recording, function):
    return _Mode(recording) if function is None else _Mode(recording)(function)


def no_grad(function=None):
    """Do not record: `with no_grad():`, or as a decorator.

    >>> import tapegrad as tg
    >>> x = tg.tensor(1.0, requires_grad=True)
    >>> with tg.no_grad():
    ...     (2 * x).requires_grad
    False
    """
    return _mode(False, function)


def enable_grad(function=None):
    """Record again inside `no_grad`: a context or a decorator."""
    return _mode(True, function)


class set_grad_enabled(_Mode):
    """Switch recording on or off at once, and back at the end of a `with` block."""

    def __init__(self, mode: bool):
        super().__init__(bool(mode))
        self._first = rt.set_recording(bool(mode))

    def __enter__(self):
        self._before.append(self._first)


def is_grad_enabled() -> bool:
    """Whether operations of this thread are recorded."""
    return rt.is_recording()
