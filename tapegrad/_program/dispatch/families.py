"""The programs of a function by the signatures of its calls, and the names that it reads."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ..._core.tensor.dependencies import NOTHING, Dependencies, joined
from .names_read import names_read
from .outside_inputs import in_place, rebound
from .signature import Arguments
from .variants import Variants


class Families:
    """The variants of each signature, the one used last at the end; at most `most` of them.

    They were recorded with the same values of the names that the function reads.
    """

    def __init__(self, most: int, variants: int, compared: Collection[str] = ()):
        self.most, self.variants = most, variants
        self.compared = {*compared}  # names of large arrays that are not read where they lie
        self.names: Dependencies | None = None  # if anything has been recorded
        self._read: dict[int, Callable] = {}  # functions whose names are among them, by id
        self.found: dict[Any, Variants] = {}
        self.unused = 0  # signatures given up that have been called once only

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
            found = joined([self.names or NOTHING, *map(names_read, new.values())])
            is_first = self.names is None and not given
            self.names = in_place(f, found, self.compared) if is_first else found
        if self.names is None:
            return NOTHING
        others = [array for array in self.names.in_place() if array.dtype != arguments.dtype]
        return self.compare(others) if others else self.names

    def compare(self, arrays: Sequence[np.ndarray]) -> Dependencies:
        """The names, with arrays from outside that are compared from now on."""
        names, ids = self.names or NOTHING, {*map(id, arrays)}
        self.compared |= {one.name for one in names if id(one.owner) in ids}
        return self._let_names_be(names.compared(arrays))

    def compare_all(self) -> bool:
        """Let all of them be compared; returns whether there are any that were not."""
        arrays = [] if self.names is None else self.names.in_place()
        if arrays:
            self.compare(arrays)
        return bool(arrays)

    def rebind(self, f: Callable) -> bool:
        """Let names that hold other arrays now, in the same layout, be read by the same programs.

        Returns whether nothing else has changed.
        """
        found = None if self.names is None else rebound(f, self.names)
        if found is None:
            return False
        names, others = found
        for variant in [one for family in list(self.found.values()) for one in family.found]:
            variant.outside = [others.get(id(array), array) for array in variant.outside]
        self._let_names_be(names)
        return True

    def after_call(self, names: Dependencies) -> Dependencies:
        """The names, without what the call of the function has changed itself."""
        left = names.after_call()
        return left if left is names else self._let_names_be(left)

    def _let_names_be(self, names: Dependencies) -> Dependencies:
        self.names = names
        for variant in [one for family in list(self.found.values()) for one in family.found]:
            variant.names = names
            variant.use(variant.program)  # with another fast path
        return names

    def of(self, key) -> Variants:
        """The variants of a signature."""
        family = self.found.pop(key, None) or Variants(self.variants)
        self.found[key] = family
        while len(self.found) > self.most:
            oldest = self.found.pop(next(iter(self.found)), None)
            self.unused += oldest is not None and not oldest.evaluations
        return family
