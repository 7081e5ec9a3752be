"""Compiled functions called many times: for each row of arguments, or by Numba code."""

from __future__ import annotations

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import unlisted
from .._core.tensor.values import array_of, is_recorded, records, value_of
from .composition import Composed
from .dispatch.batch import Batch, RecordedRows, gathered, row_of
from .dispatch.fast_path import fast_call
from .dispatch.flows import Flow
from .dispatch.signature import Arguments
from .dispatch.variants import Variant


class OverRows(Composed):
    """`map`, `sum` and `numba` of compiled functions."""

    def __call__(self, *args, **kwargs):
        raise NotImplementedError

    def value_and_grad(self, *args, out=None, **kwargs):
        raise NotImplementedError

    def map(self, *args, in_axes=0, gradient=True, threads=None):
        """Evaluate the function for each row of the arguments, on threads.

        Parameters
        ----------
        *args : array_like
            The arguments. The first axis of each counts the rows.
        in_axes : 0, None or a tuple of them, optional
            None for arguments that are the same for all rows.
        gradient : bool, optional
            Whether gradients are computed.
        threads : int, optional
            The number of threads; by default that of the processor's cores.

        Returns
        -------
        values : ndarray, shape (n,)
            The value of each row.
        gradients : ndarray or tuple of ndarrays
            The gradient of each row, along the first axis. Only with `gradient`.

        Raises
        ------
        ValueError
            If the arguments do not have the same number of rows, or the function does not return
            one number.

        Notes
        -----
        The results do not depend on the number of threads.

        Examples
        --------
        >>> import numpy as np
        >>> import tapegrad as tg
        >>> f = tg.compile(lambda x, k: k * x * x)
        >>> f.map(np.array([1.0, 2.0, 3.0]), 10.0, in_axes=(0, None))
        (array([10., 40., 90.]), array([20., 40., 60.]))
        """
        rows = self._rows(args, in_axes, gradient, threads, summed=False)
        return (rows.values, rows.found(self._single)) if gradient else rows.values

    def sum(self, *args, in_axes=0, gradient=True, threads=None):
        """Sum the values of the function for all rows of the arguments, evaluated on threads.

        Parameters
        ----------
        *args : array_like
            The arguments. The first axis of each counts the rows.
        in_axes : 0, None or a tuple of them, optional
            None for arguments that are the same for all rows.
        gradient : bool, optional
            Whether the gradient is computed.
        threads : int, optional
            The number of threads; by default that of the processor's cores.

        Returns
        -------
        value : float
            The sum of the values.
        gradient : ndarray or tuple of ndarrays
            The gradient of the sum, in the shape of the argument: a row for each row, or, for an
            argument that is the same for all rows, the sum over them. Only with `gradient`.

        Raises
        ------
        ValueError
            As for `map`.

        Notes
        -----
        The order of summation does not depend on the number of threads.

        Examples
        --------
        >>> import numpy as np
        >>> import tapegrad as tg
        >>> f = tg.compile(lambda k, x: k * x * x)
        >>> f.sum(10.0, np.array([1.0, 2.0, 3.0]), in_axes=(None, 0))
        (140.0, 14.0)
        """
        rows = self._rows(args, in_axes, gradient, threads, summed=True)
        return (rows.total(), rows.found(self._single)) if gradient else rows.total()

    def numba(self, *args):
        """Return functions for Numba code: the value, and value and gradient.

        Both are called inside `@numba.njit` code, without Python and without the interpreter lock,
        by any number of threads.

        Parameters
        ----------
        *args
            Arguments like those that the functions will be called with: numbers, and arrays in C
            order.

        Returns
        -------
        value : function
            A function of the arguments that returns the value.
        value_and_grad : function
            A function of the arguments and of one array for each gradient, which it fills (of shape
            (1,) for a number). It returns the value.

        Raises
        ------
        TypeError
            If an argument is a recorded tensor.
        ValueError
            If there is neither a graph nor a program for such arguments. The returned functions
            raise it if a guard of the program fails, or a call leaves the graph.
        numpy.linalg.LinAlgError
            Raised by the returned functions, for instance for a singular matrix.

        Notes
        -----
        If calls have taken several branches before, and a graph of them can be read, the functions
        take every branch, and other lengths of arrays that are not differentiated.

        Examples
        --------
        >>> import numpy as np
        >>> import tapegrad as tg
        >>> f = tg.compile(lambda x: np.sum(x * x))
        >>> x, gradient = np.array([1.0, 2.0]), np.empty(2)
        >>> value, value_and_grad = f.numba(x)
        >>> value_and_grad(x, gradient), gradient
        (5.0, array([2., 4.]))
        """
        if records(*args):
            raise TypeError(
                "tapegrad.compile: numba was given a recorded tensor; Numba code computes "
                "with plain numbers, so give arrays like those that it will be called with"
            )
        if (flow := self._graph(args)) is not None:
            return flow.jitted()
        with self._flows.aside():
            variant = self._variant(args, gradient=True)
        if variant is None:
            why = self._reason or (
                "it has other arguments or results than arrays in C order and one number"
            )
            raise ValueError(f"tapegrad.compile: {self._name} cannot be called from Numba: {why}")
        return variant.program.jitted()

    def _rows(self, args, in_axes, gradient: bool, threads, summed: bool) -> Batch | RecordedRows:
        """All rows of the arguments evaluated: by the program, or one by one."""
        args = [unlisted(arg) for arg in args]
        batch = Batch(args, in_axes, self._argnums if gradient else (), summed)
        plain = not records(*args) and not self._is_observed()
        if self._verify != "always" and batch.count and plain:
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
            self._settle(family)
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
