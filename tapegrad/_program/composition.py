"""The interface of compiled functions to transforms, to copies and to people."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.tensor.dependencies import Dependencies
from .._core.tensor.runtime import is_loud
from .dispatch.evaluation import Compilation
from .dispatch.flow_choice import Flows
from .dispatch.flow_derivatives import by_graph
from .dispatch.life import State
from .dispatch.signature import Arguments
from .reports.reported import Reported

#: Methods that compute the transform of the same name.
_BY_ARGNUMS = ("value_and_grad", "grad", "jacobian", "hessian")


class Composed(Reported):
    """A function and its programs, and those of transforms of it."""

    _derived: dict[str, Any]
    _settings: dict[str, Any]
    _installed: dict[str, tuple[Compilation, bool, Dependencies]]

    # --- transforms ---------------------------------------------------------------------------

    def _method_for(self, transform: str, argnums=0, argnames=None) -> Callable | None:
        """`tg.grad`, `tg.jvp` and so on of this function; None if they run eagerly."""
        if self._kind != "value":  # it gives a gradient itself
            return None
        if transform not in _BY_ARGNUMS:  # by the first argument, or all
            argnums = 0 if transform == "hvp" else self._asked()
        owner = self._with_argnums(argnums) if argnames is None else self._with_argnames(argnames)
        return getattr(owner, transform)

    def _asked(self):
        """The argnums as they were given."""
        return self._argnums[0] if self._single else self._argnums

    def _with_argnums(self, argnums) -> Composed:
        """The function with other arguments differentiated; compiled on first use."""
        numbers = plain_argnums(argnums)
        if numbers == self._asked():
            return self

        def make():
            made = self._again(numbers)
            made._flows.choices = self._flows.choices
            made._effects = self._effects  # which are reported once
            return made

        return self._made(f"argnums={numbers}", make)

    def _with_argnames(self, argnames):
        """The function with arguments that are named differentiated."""
        names = argnames if isinstance(argnames, str) else tuple(argnames)
        return self._made(f"argnames={names}", lambda: self._again(0, names))

    def _made(self, name: str, make: Callable):
        """A function that is derived from this one, made on first use."""
        found = self._derived.get(name)
        if found is None:
            found = make()
            if name in self._installed:
                found._install(*self._installed[name])
            found = self._derived.setdefault(name, found)  # another thread may have been first
        return found

    def _is_observed(self) -> bool:
        """Whether calls are eager now, since NumPy is to look at each operation."""
        return is_loud()

    def _by_graph(self, rule: Callable, args: tuple, kwargs: dict, *given, argnums=None):
        """A derivative rule applied to the graph of a call, as a tuple; None without a graph.

        `argnums` are those of the rule, where they are others than those of the function.
        """
        if not self._flows.branches or self._reason is not None or self._is_observed():
            return None
        owner = self._for_graph(argnums)
        if owner is None:
            return None
        arguments = Arguments(args, kwargs, owner._argnums)
        if owner is not self and args:
            arguments.fix_lengths_of(self._argnums)
        return by_graph(owner, arguments, rule, *given)

    def _for_graph(self, argnums) -> Composed | None:
        """The function by whose graph a rule with these argnums is computed, if there is one."""
        return self if argnums is None else self._with_argnums(argnums)

    def _install(self, found: Compilation, native: bool, names: Dependencies) -> None:
        """Have programs that were made elsewhere, of these names, and native code of them at once.

        Those of transforms are installed when they are first called: the names are those of now.
        """
        self._families.install(found.families, names)
        self._installed = {name: (one, native, names) for name, one in found.derived.items()}
        for variant in [one for family in found.families.values() for one in family.found]:
            variant.names = names
            if native:
                self._make_native(variant, None)

    def _compilation(self) -> Compilation:
        """The description of a function with all its programs."""
        raise NotImplementedError

    def _again(self, argnums, argnames=None, f=None):
        """The function compiled once more."""
        raise NotImplementedError

    # --- copies -------------------------------------------------------------------------------

    def __copy__(self):
        made = self._again(self._asked())
        made._kind = self._kind
        for key, family in list(self._families.found.items()):
            self._settle(family)
            made._families.of(key).found = list(family.found)
        made._families.names = self._families.names
        made._flows = self._flows.copy(made._history)
        made._installed = dict(self._installed)
        if self._reason is not None:
            made._life.go(
                State.EAGER, f"a copy of one that runs eagerly: {self._reason}", self._reason
            )
        return made

    def __deepcopy__(self, memo):
        f = copy.deepcopy(self._f, memo)
        made = copy.copy(self) if f is self._f else self._again(self._asked(), f=f)
        memo[id(self)] = made
        return made

    # --- what it is ---------------------------------------------------------------------------

    def clear(self) -> None:
        """Forget all programs, and the reason why there were none: the next call records again."""
        self._life.go(State.COMPILED, "all is forgotten, as asked for by clear()")
        self._fast = self._fast_value = None
        self._families.found, self._families.unused, self._families.names = {}, 0, None
        self._flows = Flows(self._history)
        self._derived.clear()
        self._installed.clear()

    def __repr__(self) -> str:
        families = list(self._families.found.values())
        variants = [variant for family in families for variant in family.found]
        if self._reason is not None:
            state = f"runs eagerly: {self._reason}"
        elif not families and not self._flows.found:
            state = "not called yet"
        else:
            native = sum([variant.program.native for variant in variants])
            state = f"{_count(len(families), 'signature')}, {_count(len(variants), 'program')}"
            state += f", {native} native" if native else ""
            state += f", {_count(len(self._flows.found), 'graph')}" if self._flows.found else ""
        return f"<compiled function {self._name}: {state}>"


def plain_argnums(argnums) -> int | tuple[int, ...]:
    """Argnums as Python's numbers."""
    if isinstance(argnums, (int, np.integer)):
        return int(argnums)
    return tuple(map(int, argnums))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"
