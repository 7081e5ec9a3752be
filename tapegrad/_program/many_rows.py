"""A compiled function evaluated for each row of its arguments, and the program that does it."""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import unlisted
from .._core.tensor.values import array_of, is_recorded, records, value_of
from .composition import Composed
from .dispatch.batch import Batch
from .dispatch.flows import Flow
from .dispatch.rowwise import RecordedRows, gathered, row_of
from .dispatch.short_call import fast_call
from .dispatch.signature import Arguments
from .dispatch.variants import Variant


class OverRows(Composed):
    """Common parts of `map`, `sum` and `numba` of compiled functions."""

    def __call__(self, *args, **kwargs):
        raise NotImplementedError

    def value_and_grad(self, *args, out=None, **kwargs):
        raise NotImplementedError

    def _rows(self, args, in_axes, gradient: bool, threads, summed: bool) -> Batch | RecordedRows:
        """All rows of the arguments evaluated: by the program, or one by one."""
        args = [unlisted(arg) for arg in args]
        batch = Batch(args, in_axes, self._argnums if gradient else (), summed)
        if self._verify != "always" and batch.count and not records(*args):
            first = tuple(batch.arguments(0))
            if self._rows_by_graph(batch, first, threads):
                return batch
            if self._rows_by_program(batch, first, threads):
                return batch
        every = [row_of(batch, args, row) for row in range(batch.count)]
        return gathered(batch, [self._flat(bool(batch.wanted), row) for row in every])

    def _rows_by_program(self, batch: Batch, first: tuple, threads) -> bool:
        """Evaluate all rows by the program of the first; False where there is none for them."""
        gradient = bool(batch.wanted)
        variant = self._variant(first, gradient)
        if variant is not None and variant.trial is not None:  # compared at other inputs, too
            self._evaluate(tuple(batch.arguments(batch.count - 1)), {}, gradient=False)
            variant = self._variant(first, gradient)  # as in every call: sums are in its order
        if variant is None:
            return False
        left = batch.run(variant.program, threads)
        self._count(variant, batch.count, list(batch.arguments(0)))
        for row in left:
            value, gradients = self._flat(gradient, batch.arguments(row))
            if is_recorded(value):
                return False
            batch.set(row, value, gradients)
            if self._flows.found:  # by now: the others are rows of a graph
                return self._rows_by_graph(batch, first, threads)
        return True

    def _rows_by_graph(self, batch: Batch, first: tuple, threads) -> bool:
        """Evaluate all rows by the graph of the function; False where it has none for them."""
        if not self._flows.found or self._reason is not None:
            return False
        flow = self._flows.of(self, Arguments(first, {}, self._argnums))
        if flow is None or not flow.is_plain:
            return False
        gradient = bool(batch.wanted)
        batch.clear()
        for rows, left, taken in batch.run_graph(flow.primal, flow.hidden, threads):
            for row in rows:
                if self._verify == "never" or not flow.primal.is_new(taken, gradient):
                    break
                self._flat(gradient, batch.arguments(row))  # compared along new edges
            if flow not in self._flows.found.values():
                return False
            for row in left:
                batch.set(row, *self._flat(gradient, batch.arguments(row)))
        self._flows.count(self, flow.primal, flow.inputs(list(first)))
        return True

    def _graph(self, args: tuple) -> Flow | None:
        """The graph of all ways through the function, if there is one for such arguments.

        A call with these has been compared with the function.
        """
        arguments = Arguments(args, {}, self._argnums)
        if not self._flows.branches or self._reason is not None:
            return None
        flow = self._flows.graph(self, arguments)
        if flow is None or not flow.is_plain:
            return None
        if self._verify != "never":
            self._evaluate(args, {}, gradient=True)
        return flow if flow in self._flows.found.values() else None

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
        """The result of the function, which must be one number."""
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
