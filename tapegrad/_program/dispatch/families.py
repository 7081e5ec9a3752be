"""The programs of a function by the signatures of its calls, and the names that it reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..._core.tensor.dependencies import NOTHING, Dependencies, joined
from ..ir.operation_words import counted
from .life import History
from .names_read import names_read
from .signature import Arguments
from .variants import Variant, Variants

#: So many times in a row, each after so few calls, is too often.
_MANY, _FEW = 16, 4


class Renewals:
    """How often what was made of a function was made anew, since a name had another value."""

    def __init__(self):
        self._in_a_row = 0

    def reason(self, names: Dependencies, uses: int) -> str | None:
        """Why it is not worth while once more, where it was used that often; None if it is."""
        self._in_a_row = self._in_a_row + 1 if uses < _FEW else 0
        if self._in_a_row < _MANY:
            return None
        return (
            f"{names.changed()}, which it reads, changes at nearly every call; pass it as an "
            "argument"
        )


class Families:
    """The variants of each signature, the one used last at the end; at most `most` of them.

    They were recorded with the same values of the names that the function reads.
    """

    def __init__(self, most: int, variants: int, history: History):
        self.most, self.variants, self._history = most, variants, history
        self.names: Dependencies | None = None  # if anything has been recorded
        self._read: dict[int, Callable] = {}  # functions whose names are among them, by id
        self.found: dict[Any, Variants] = {}
        self.unused = 0  # signatures given up that have been called once only

    def install(self, found: dict[Any, Variants], names: Dependencies | None) -> None:
        """Have programs that were made elsewhere, of these names."""
        self.found, self.names = found, names
        for key, family in found.items():
            family.key, family.life.history = key, self._history
            for variant in family.found:
                variant.life.join(family.life)
            family.life.note(f"{counted(len(family.found), 'program')} of a file")

    @property
    def evaluations(self) -> int:
        """The number so far without a new recording."""
        return sum([family.evaluations for family in list(self.found.values())])

    def names_for(self, f: Callable, arguments: Arguments) -> Dependencies:
        """The names that a function reads, and functions among its arguments."""
        if self.names is None:
            self._read = {}
        given = [value for is_fixed, value in arguments.static if is_fixed and callable(value)]
        new = {id(one): one for one in (f, *given) if id(one) not in self._read}
        if new:
            self._read |= new
            self.names = joined([self.names or NOTHING, *map(names_read, new.values())])
        if self.names is not None:
            self.names = self.names.with_elements()
        return self.names or NOTHING

    def after_call(self, names: Dependencies) -> Dependencies:
        """The names, without what the call of the function has changed itself."""
        left = names.after_call()
        if left is not names:
            self.put(left)
        return left

    def settle(self, variant: Variant) -> None:
        """Compare no longer the arrays that all programs, with a new one, read where they lie."""
        others = [one for family in list(self.found.values()) for one in family.found]
        in_place = [{*map(id, other.in_place)} for other in others]
        found = [one for one in variant.in_place if all([id(one) in ids for ids in in_place])]
        before = names = self.names or NOTHING
        if not {id(one.owner) for one in names.in_place()}.issubset(map(id, found)):
            names = variant.names  # another thread has recorded meanwhile
        if found or names is not before:
            self.put(names.read_in_place(found))

    def put(self, names: Dependencies) -> None:
        """Compare other names from now on."""
        self.names = names
        for variant in [one for family in list(self.found.values()) for one in family.found]:
            variant.names = names
            variant.use(variant.program)  # with another fast path

    def of(self, key) -> Variants:
        """The variants of a signature."""
        family = self.found.pop(key, None) or Variants(self.variants, key, self._history)
        self.found[key] = family
        while len(self.found) > self.most:
            oldest = self.found.pop(next(iter(self.found)), None)
            self.unused += oldest is not None and not oldest.evaluations
        return family
