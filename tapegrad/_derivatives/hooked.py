"""Derivatives to inputs through rows that may have hooks, which `autograd` registers and calls."""

from __future__ import annotations

from collections.abc import Callable

from .._core.tape import store
from .._core.tape.reverse_sweep import Sweep
from .reverse_mode import run

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
