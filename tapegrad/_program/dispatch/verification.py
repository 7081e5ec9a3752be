"""The first results of a program compared with those of the function that it was recorded of."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._core.tensor.dependencies import Checked
from ..._core.tensor.pytree import tree_leaves
from ..._core.tensor.values import wrap
from ..ir.custom_step import Custom
from ..lowering.tape_rows import READS_OTHERS
from .effects import Effects, seems_read
from .families import Families
from .flow_choice import Flows
from .rounding import first_difference
from .signature import Arguments
from .variants import Variant, reads_others


class Verified:
    """A function whose programs are compared with it."""

    _f: Callable
    _name: str
    _entered: Callable
    _argnums: tuple[int, ...]
    _single: bool
    _verify: str
    _effects: Effects
    _families: Families
    _flows: Flows
    _reason: str | None
    _eagerly: Callable
    _give_up: Callable

    def _verified(self, found, variant: Variant, arguments: Arguments, args, kwargs):
        """Compare with an eager call; returns its result where it is of another function."""
        gradient, before = found[1] is not None, variant.names.effects_now()
        long = variant.names.long_now()
        expected = self._compared(variant, arguments, args, kwargs, gradient)
        if self._is_of_another(variant, expected):
            return expected
        moved = [*self._effects.of_call(before), *[one for one in long if not one.is_there()]]
        changed = moved if self._verify == "once" else []
        if self._depends_on(changed, arguments):
            return expected
        pair = self._difference(found, expected, variant, arguments)
        if pair is not None:
            raise RuntimeError(
                f"tapegrad.compile: {self._name} replayed gives {pair[0]}, called again {pair[1]}: "
                "it depends on something else than its arguments, such as random numbers or state "
                "that changes between calls; pass that as an argument, or use verify='never'"
            )
        variant.checked = 1 + gradient
        self._effects.report(changed, self._name)
        is_settled = bool(before) and not moved and self._reason is None
        if is_settled and variant.names is self._families.names:  # no other thread has recorded
            self._families.put(variant.names.settled(before))
        return None if self._reason is None else expected

    def _check_compared(self) -> None:
        """Check that no program is of state that its recorded call has changed, and no other saw.

        Raises ValueError.
        """
        found = [one for family in list(self._families.found.values()) for one in family.found]
        alone = [one for one in found if not one.checked and one.names.unchanged()]
        changed = [one for variant in alone for one in variant.changed]
        if self._verify == "never" or not changed:
            return
        if (name := seems_read(self._f, changed)) is not None:
            raise ValueError(
                f"a call that was recorded has changed {name}, which its result may depend on; "
                "repeat the call, so that its program is compared, and save then"
            )

    def _report(self, changed: list[Checked], arguments: Arguments) -> None:
        """Report what the function changes outside; run eagerly if results depend on that."""
        if not self._depends_on(changed, arguments):
            self._effects.report(changed, self._name)

    def _depends_on(self, changed: list[Checked], arguments: Arguments) -> bool:
        """Whether a result may depend on what the function changes, which then runs eagerly."""
        reason = self._flows.dependence(self, arguments, changed) if changed else None
        if reason is not None:
            self._give_up(reason)
        return reason is not None

    def _compared(self, variant: Variant, arguments: Arguments, args, kwargs, gradient: bool):
        """What the function gives, to compare: for tensors where it does not take arrays.

        Forward of an `autograd.Function` may rely on tensors, which it is given in a program.
        """
        try:
            return self._eagerly(args, kwargs, gradient)
        except Exception:
            if gradient or not variant.program.code.of(Custom):
                raise
        tensors = [wrap(np.array(value)) for value in arguments.values]
        args, kwargs = arguments.build(tensors)
        return self._entered(*args, **kwargs), None

    def _is_of_another(self, variant: Variant, expected) -> bool:
        """Whether what a call gave cannot be compared: the function is not the recorded one now."""
        if reads_others(expected, []):
            self._give_up(READS_OTHERS)
            return True
        return not variant.names.unchanged()  # another thread has changed one during the call

    def _difference(self, found, expected, variant: Variant, arguments: Arguments):
        """Two leaves that differ from those of an eager call of the function; None without."""

        gradient = found[1] is not None

        def again(values):
            return arguments.call(lambda *a, **k: self._eagerly(a, k, gradient), values)

        def adjoints(noise):
            wanted = [m for m, (_, _, is_one) in zip(noise, arguments.kinds, strict=True) if is_one]
            built = arguments.in_structure(wanted, self._argnums, self._single)
            return [m for _, m in tree_leaves(built)]

        noises = variant.noises(arguments.values, again, adjoints if gradient else None)
        return first_difference(found, expected, *noises, dtype=arguments.dtype)
