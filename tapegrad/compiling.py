"""`tg.compile`: a function recorded once and replayed without Python."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .inputs import plain, tree_leaves
from .program import files
from .program.arguments import Arguments
from .program.fast import FastCall, fast_call
from .program.variants import Traced, Variant, Variants, agree
from .transforms import value_and_grad

#: Programs kept for one signature.
VARIANTS = 32
#: Of so many recordings at least one in FEW_HITS evaluations must have found a program.
MANY, FEW_HITS = 16, 4
_CHOICES = {"on_branch": ("record", "error"), "verify": ("once", "always", "never")}


def compile(f=None, *, argnums=0, on_branch="record", verify="once"):
    """A function that computes what `f` does, recorded at the first call and then replayed.

    …
    """
    if f is None:
        return functools.partial(compile, argnums=argnums, on_branch=on_branch, verify=verify)
    for name, given in (("on_branch", on_branch), ("verify", verify)):
        if given not in _CHOICES[name]:
            choices = ", ".join(map(repr, _CHOICES[name]))
            raise ValueError(f"tapegrad.compile: {name} is {given!r}; it must be one of {choices}")
    return Compiled(f, argnums, on_branch, verify)


class Compiled:
    """A compiled function; made by `tg.compile`, see there."""

    def __init__(self, f: Callable, argnums, on_branch: str, verify: str):
        functools.update_wrapper(self, f)
        self._name = getattr(f, "__name__", str(f))
        self._f = f
        self._single = isinstance(argnums, (int, np.integer))
        self._argnums = (argnums,) if self._single else tuple(argnums)
        self._on_branch, self._verify = on_branch, verify
        self._families: dict[Any, Variants] = {}
        self._reason: str | None = None  # why there is no program
        self._fast: FastCall | None = None  # the program used last, if calls of it can be short

    def __call__(self, *args, **kwargs):
        value, _ = self._evaluate(args, kwargs, gradient=False)
        return value

    def value_and_grad(self, *args, **kwargs):
        """Value and gradient, as `tg.value_and_grad(f, argnums)` gives them."""
        fast = self._fast  # another thread may set it
        if fast is not None and not kwargs:
            found = fast.value_and_grad(args)
            if found is not None:
                value, gradients = found
                return value, gradients[0] if self._single else self._in_order(fast, gradients)
        return self._evaluate(args, kwargs, gradient=True)

    def grad(self, *args, **kwargs):
        """The gradient, as `tg.grad(f, argnums)` gives it."""
        return self._evaluate(args, kwargs, gradient=True)[1]

    def save(self, path) -> None:
        """Write the programs of all signatures so far to a file, which `tg.load` reads.

        The format is described in docs/program_files.md. Raises ValueError if there is no program
        yet, or if it holds what a file has no name for, such as operations of your own.
        """
        content = files.Compilation(self._name, self._argnums, self._single, self._families)
        try:
            files.save(path, content, self._reason)
        except ValueError as error:
            raise ValueError(f"tapegrad.compile: {self._name} cannot be saved: {error}") from None

    # --- one evaluation -----------------------------------------------------------------------

    def _evaluate(self, args, kwargs, gradient: bool):
        if self._reason is not None:
            return self._eagerly(args, kwargs, gradient)
        arguments = Arguments(args, kwargs, self._argnums)
        if arguments.nested or arguments.reason is not None:
            if not arguments.nested:
                self._give_up(arguments.reason)
            return self._eagerly(args, kwargs, gradient)
        family = self._families.setdefault(arguments.key, Variants(VARIANTS))
        variant, memory, stopped = family.run(arguments.values)
        if variant is None or memory is None:
            if stopped is not None:
                self._branch(family, stopped)
                if self._reason is not None:
                    return self._eagerly(args, kwargs, gradient)
            return self._record(family, arguments, args, kwargs, gradient)
        family.hits += 1
        try:
            value = variant.result(memory)
            if not gradient:
                found = value, None
            else:
                found = self._differentiated(variant, memory, arguments, value)
        finally:
            variant.program.end(memory)
        if self._verify == "always" or (self._verify == "once" and variant.checked <= gradient):
            self._check(found, args, kwargs, gradient)
            variant.checked = 1 + gradient
        if gradient and self._verify != "always":
            self._fast = fast_call(variant, arguments)
        return found

    def _differentiated(self, variant: Variant, memory, arguments: Arguments, value):
        outputs = variant.program.code.outputs
        if len(variant.leaves) != 1 or np.size(value) != 1:
            raise ValueError(
                "tapegrad.compile: the function returned more than one number; a gradient is of a "
                "scalar: reduce it, for instance with sum(), or use jacobian"
            )
        adjoints = variant.program.reverse(memory, [np.ones(one.view.shape) for one in outputs])
        found = [plain(adjoint) for adjoint in adjoints if adjoint is not None]
        return plain(np.reshape(value, ())), arguments.gradients(found, self._argnums, self._single)

    def _in_order(self, fast: FastCall, gradients: list) -> tuple:
        """Derivatives of the arguments in their order, as `argnums` names them."""
        wanted = sorted({number % fast.count for number in self._argnums})
        return tuple(gradients[wanted.index(number % fast.count)] for number in self._argnums)

    def _record(self, family: Variants, arguments: Arguments, args, kwargs, gradient: bool):
        """Call the function, and keep its program for the next time."""
        with Traced(self._f, arguments) as traced:
            if traced.variant is None:
                self._give_up(traced.reason)
            else:
                family.add(traced.variant)
            if not gradient:
                return traced.value(), None
            value, found = traced.value_and_grad()
        return value, arguments.gradients(found, self._argnums, self._single)

    def _eagerly(self, args, kwargs, gradient: bool):
        if gradient:
            return value_and_grad(self._f, self._argnums[0] if self._single else self._argnums)(
                *args, **kwargs
            )
        return self._f(*args, **kwargs), None

    def _check(self, found, args, kwargs, gradient: bool) -> None:
        """Compare with the function called as it is."""
        expected = self._eagerly(args, kwargs, gradient)
        for (_, a), (_, b) in zip(tree_leaves(found), tree_leaves(expected), strict=True):
            if not agree(a, b):
                raise RuntimeError(
                    f"tapegrad.compile: {self._name} replayed gives {a}, called again {b}: it "
                    "depends on something else than its arguments, such as random numbers or state "
                    "that changes between calls; pass that as an argument, or use verify='never'"
                )

    def _branch(self, family: Variants, stopped: str) -> None:
        """The programs so far do not know how to go on."""
        if self._on_branch == "error":
            raise RuntimeError(
                f"tapegrad.compile: {self._name} takes another way at {stopped} than when "
                "it was recorded; allow that with on_branch='record'"
            )
        if family.recorded >= MANY and family.hits < FEW_HITS * family.recorded // MANY:
            self._give_up(f"it takes another way at {stopped} at nearly every call")

    def _give_up(self, reason: str | None) -> None:
        self._reason = reason
        warnings.warn(
            f"tapegrad.compile: {self._name} is called as it is, without a program: {reason}",
            RuntimeWarning,
            stacklevel=5,
        )
