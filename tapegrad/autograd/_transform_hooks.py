"""Hooks of rows that transforms reach: `grad`, `vjp`, `jacobian` and others call them, too.

A transform differentiates with respect to its inputs, as `tg.autograd.grad` does, so the hooks of
rows that depend on one of them are called.
"""

from __future__ import annotations

import functools

from .._core.tape.sweeps import Sweep
from .._core.tape.tape import Reader, needed
from .._derivatives.recorded_reverse import run
from ._backward_pass import Pass, Recorded, Swept, Target


class _Input(Target):
    """An input of a transform: its value when the function was called."""

    def __init__(self, tensor):
        self.tensor = tensor
        self.row = self.place = tensor._id
        self.view = None
        self.found = None


def _none(leaf) -> bool:
    return False


class _SweptTo(Swept):
    """A sweep whose adjoints a transform reads itself."""

    def through(self, sweep: Sweep) -> None:
        self.sweep, self.ends = sweep, set()
        run(sweep, {number: functools.partial(self._halt, number) for number in self.halts()})
        self._forget_used()


def swept(sweep: Sweep, tensors: list) -> None:
    """Run a sweep that ends at inputs."""
    _SweptTo([_Input(one) for one in tensors], _none).through(sweep)


def recorded(outputs: list, seeds: list, tensors: list) -> list:
    """Adjoints of inputs as recorded tensors, None where the outputs do not depend on them."""
    targets = [_Input(one) for one in tensors]
    found = Recorded(targets, _none)
    if any(map(Reader().writes, found.goals)):
        raise NotImplementedError(
            "tapegrad.register_hook: hooks are not called in a second derivative if the function "
            "writes to its argument in place; write to a copy() of it"
        )
    found.run(outputs, seeds)
    return [one.found[0] if one.found else None for one in targets]


def reaches(outputs: list, tensors: list, gradients: bool) -> bool:
    """Whether a row on the way from outputs to inputs has a hook, or retains a gradient."""
    watched = Pass([_Input(one) for one in tensors], _none).watched
    behind = {*needed(Reader(), [one._id for one in outputs])} if watched else set()
    return any(
        watch.hooks or watch.before or watch.after or (gradients and watch.kept)
        for number, watch in watched.items()
        if not behind.isdisjoint((number, Reader().buffer_written(number)))
    )
