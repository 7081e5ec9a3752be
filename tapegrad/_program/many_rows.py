"""A compiled function evaluated for each row of its arguments, and the program that does it."""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import unlisted
from .._core.tensor.values import array_of, is_recorded, records, value_of
from .composition import Composed
from .dispatch.batch import Batch
from .dispatch.rowwise import RecordedRows, gathered, row_of
from .dispatch.short_call import fast_call
from .dispatch.signature import Arguments
from .dispatch.variants import Variant


class OverRows(Composed):
    """What `map`, `sum` and `numba` of compiled functions share."""

    def __call__(self, *args, **kwargs):
        raise NotImplementedError

    def value_and_grad(self, *args, out=None, **kwargs):
        raise NotImplementedError

    def _rows(self, args, in_axes, gradient: bool, threads, summed: bool) -> Batch | RecordedRows:
        """All rows of the arguments evaluated: by the program, or one by one."""
        args = [unlisted(arg) for arg in args]
        batch = Batch(args, in_axes, self._argnums if gradient else (), summed)
        by_program = self._verify != "always" and batch.count and not records(*args)
        first = tuple(batch.arguments(0)) if by_program else ()
        variant = self._variant(first, gradient) if by_program else None
        if variant is not None and variant.trial is not None:  # compared at other inputs, too
            self._evaluate(tuple(batch.arguments(batch.count - 1)), {}, gradient=False)
            variant = self._variant(first, gradient)  # as in every call: sums are in its order
        if variant is not None:
            left = batch.run(variant.program, threads)
            self._count(variant, batch.count, list(batch.arguments(0)))
            found = [self._flat(gradient, batch.arguments(row)) for row in left]
            if not any(is_recorded(value) for value, _ in found):
                for row, results in zip(left, found, strict=True):
                    batch.set(row, *results)
                return batch
        every = [row_of(batch, args, row) for row in range(batch.count)]
        return gathered(batch, [self._flat(gradient, row) for row in every])

    def _flat(self, gradient: bool, args: list):
        """The value, and the derivatives of the differentiated arguments in their order."""
        if not gradient:
            return self._number(self(*args)), []
        value, found = self.value_and_grad(*args)
        if self._single:
            return value, [found]
        numbers = [number % len(args) for number in self._argnums]
        return value, [found[numbers.index(k)] for k in sorted(set(numbers))]

    def _number(self, value):
        """What the function returned, which must be one number."""
        if np.size(value_of(value)) == 1 and array_of(value).dtype.kind in "fiub":
            return value if np.ndim(value_of(value)) == 0 else PUBLIC["reshape"](value, ())
        raise ValueError(
            f"tapegrad.compile: map and sum need a function that returns one number; {self._name} "
            f"returned {type(value).__name__} of shape {np.shape(array_of(value))}"
        )

    def _variant(self, args: tuple, gradient: bool) -> Variant | None:
        """The program that arrays and floats are evaluated by, if there is one for such calls.

        It has been compared with the function, as that of a second call would be.
        """
        self._evaluate(args, {}, gradient=False)
        arguments = Arguments(args, {}, self._argnums)
        family = self._families.found.get(arguments.key)
        if family is not None:
            self._convert(family)
        if self._reason is not None or family is None or not family.found:
            return None
        variant, memory, _ = family.run(arguments.values, False)
        if variant is None or memory is None:
            return None
        memory.program.end(memory)
        fast = fast_call(variant, arguments)
        if fast is None or not fast.is_number or not fast.bare:
            return None
        if self._verify != "never" and variant.checked <= gradient:
            self._evaluate(args, {}, gradient)
        return variant if self._reason is None else None
