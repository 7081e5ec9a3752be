"""Compiled functions for transforms and people, for many rows, for Numba code, as pickles."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import importlib
import io
import pickle
import sys
import types
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor import runtime as rt
from .._core.tensor.callers import outer
from .._core.tensor.copies import unlisted
from .._core.tensor.dependencies import Dependencies, Placement, Snapshot, held_memory
from .._core.tensor.pytree import COMPUTING, module_of
from .._core.tensor.runtime import is_loud
from .._core.tensor.values import array_of, is_recorded, records, value_of
from .clusters.distributed import Distributed
from .dispatch.batch import Batch, RecordedBatch, gathered, row_of
from .dispatch.evaluation import Compilation
from .dispatch.flow_choice import Flows, by_graph
from .dispatch.flows import Flow
from .dispatch.life import State
from .dispatch.names_read import names_read
from .dispatch.recorded_call import fast_call
from .dispatch.signature import Arguments
from .dispatch.variants import Variant
from .files import file_format
from .reports.reported import Reported

# --- composition ----------------------------------------------------------------------------------
# The interface of compiled functions to transforms, to copies and to people.

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

    def _pinned(self, on_branch: str | None, native: bool) -> Composed:
        """A copy for evaluations that do not depend on earlier ones, see `clusters.pinned`.

        `on_branch` is "paths", with which no graph is read, or "graph", with which one is.
        """
        made = copy.copy(self)
        made._native = native
        if on_branch == "paths":
            made._on_branch = "error" if self._on_branch == "error" else "paths"
            made._flows = Flows(made._history)
        made._flows.branches |= on_branch == "graph"
        made._settings = {**self._settings, "native": native, "on_branch": made._on_branch}
        for variant in made._variants() if native else ():
            made._make_native(variant, None)
        return made

    def _variants(self) -> list[Variant]:
        """Its programs, without those of transforms."""
        return [one for family in list(self._families.found.values()) for one in family.found]

    def _noted(self) -> int:
        """How much has happened to it and its transforms: recorded, made, compared, dropped."""
        own = self._history.count + self._recordings
        return own + sum([one._noted() for one in list(self._derived.values())])

    def _is_in(self, state: State) -> bool:
        """Whether a program or graph of it, or of a transform, is in a state."""
        lives = [one.life for one in self._variants()]
        lives += [flow.primal.life for flow in list(self._flows.found.values())]
        derived = list(self._derived.values())
        return any([one.state is state for one in lives]) or any(
            [one._is_in(state) for one in derived]
        )

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
        families, variants = list(self._families.found.values()), self._variants()
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


# --- many rows ------------------------------------------------------------------------------------
# Compiled functions called many times: for each row of arguments, or by Numba code.


class OverRows(Composed):
    """`map`, `sum` and `numba` of compiled functions."""

    def __call__(self, *args, **kwargs):
        raise NotImplementedError

    def value_and_grad(self, *args, out=None, **kwargs):
        raise NotImplementedError

    def map(self, *args, in_axes=0, gradient=True, threads=None, over=None):
        """Evaluate the function for each row of the arguments, on threads, or for each partition.

        Parameters
        ----------
        *args : array_like
            The arguments. The first axis of each counts the rows. With `over` the last one is the
            partitions, as `distribute` takes them, and those before are the same for all.
        in_axes : 0, None or a tuple of them, optional
            None for arguments that are the same for all rows.
        gradient : bool, optional
            Whether gradients are computed.
        threads : int, optional
            The number of threads; by default that of the processor's cores.
        over : object, optional
            A client of Dask, an executor of `concurrent.futures`, or a communicator of MPI, in
            whose processes partitions are evaluated; see `distribute`.

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
        if over is not None:
            shared, partitions = self._apart_from_last("map", args, in_axes, threads)
            with self.distribute(partitions, over=over) as found:
                return found.map(*shared, gradient=gradient)
        rows = self._rows(args, in_axes, gradient, threads, summed=False)
        return (rows.values, rows.found(self._single)) if gradient else rows.values

    def sum(self, *args, in_axes=0, gradient=True, threads=None, over=None):
        """Sum the values of the function for all rows of the arguments, or for all partitions.

        Parameters
        ----------
        *args : array_like
            The arguments. The first axis of each counts the rows, which are evaluated on threads.
            With `over` the last one is the partitions, as `distribute` takes them, and those before
            are the same for all.
        in_axes : 0, None or a tuple of them, optional
            None for arguments that are the same for all rows.
        gradient : bool, optional
            Whether the gradient is computed.
        threads : int, optional
            The number of threads; by default that of the processor's cores.
        over : object, optional
            A client of Dask, an executor of `concurrent.futures`, or a communicator of MPI, in
            whose processes partitions are evaluated; see `distribute`.

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
        if over is not None:
            shared, partitions = self._apart_from_last("sum", args, in_axes, threads)
            with self.distribute(partitions, over=over) as total:
                return total.value_and_grad(*shared) if gradient else total(*shared)
        rows = self._rows(args, in_axes, gradient, threads, summed=True)
        return (rows.total(), rows.found(self._single)) if gradient else rows.total()

    def distribute(self, partitions, *, over, native=None):
        """Make the sum over partitions of data, evaluated in other processes.

        Parameters
        ----------
        partitions : iterable, or collections of Dask
            A partition is a tuple of arguments, the last ones of the function; one argument alone;
            or a function without arguments that returns them, which is called where they are
            needed. With a client of Dask also delayed objects and futures of them, and arrays and
            tables: partitions are their blocks, of a tuple of them the blocks side by side.
        over : object
            A client of Dask, an executor of `concurrent.futures`, or a communicator of MPI. The
            processes of a communicator call this at once, each with partitions of its own.
        native : bool, optional
            Whether partitions are evaluated by native code, compiled in each process; by default
            as in `tg.compile`, and not if that left it open.

        Returns
        -------
        Distributed
            A function of the arguments before those of the partitions, with the methods
            `value_and_grad`, `grad`, `hessian`, `hvp`, `map` and `close`.

        Raises
        ------
        TypeError
            If `over` or the partitions are something else.
        ValueError
            If there are no partitions, or collections of Dask do not fit together.
        RuntimeError
            By an evaluation, if a partition fails, with its number and caused by its error; if a
            worker cannot serve, such as one with another version of tapegrad; if workers die
            whenever they evaluate a partition.

        Notes
        -----
        Sums are in an order that depends on the number of partitions alone, and each is evaluated
        in the same way: results do not depend on the number of workers. docs/clusters.md has more.

        Examples
        --------
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> import numpy as np
        >>> import tapegrad as tg
        >>> misfit = tg.compile(lambda w, x, y: np.sum((w[0] + w[1] * x - y) ** 2))
        >>> x, y = np.arange(6.0), np.array([1.0, 3.0, 5.0, 7.0, 9.0, 12.0])
        >>> partitions = zip(np.split(x, 3), np.split(y, 3))
        >>> with ThreadPoolExecutor(2) as pool:
        ...     with misfit.distribute(partitions, over=pool) as total:
        ...         print(*total.value_and_grad(np.array([1.0, 2.0])))
        1.0 [ -2. -10.]
        """
        return Distributed(self, partitions, over, native)

    def _apart_from_last(self, name: str, args: tuple, in_axes, threads) -> tuple[tuple, Any]:
        """The arguments that all partitions share, and the partitions."""
        if in_axes != 0 or threads is not None or not args:
            raise TypeError(
                f"tapegrad.compile: {name} with over takes arguments that are the same for all, "
                "then the partitions, and neither in_axes nor threads"
            )
        return args[:-1], args[-1]

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

    def _rows(self, args, in_axes, gradient: bool, threads, summed: bool) -> Batch | RecordedBatch:
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


# --- pickled --------------------------------------------------------------------------------------
# Pickles of compiled functions: the function by its name, with its settings and programs.


# --------------------------------------------------------------------------------------------------
# A digest of what a function reads from outside, which is the same in processes where that is.


_PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range, slice)
#: The parts of code that say what it does; its file and lines are not among them.
_CODE = "co_code co_consts co_names co_varnames co_freevars co_cellvars co_argcount co_flags"


def digest_of(names: Dependencies) -> str:
    """The digest of all names, and of what their values hold.

    Values are compared, functions by their code. Of other objects it has the class: what the
    function reads of them is among the names.
    """
    lines = []
    for one in names:
        value = one.owner if isinstance(one, (Snapshot, Placement)) else one.value
        lines.append(f"{one.name} {_described(value, frozenset())}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def _described(value, within: frozenset[int]) -> str:
    """A value as text; `within` are the containers that it lies in."""
    if isinstance(value, _PLAIN):
        return f"{type(value).__name__} {value!r}"
    if (held := held_memory(value)) is not None:
        value = held
    if isinstance(value, (np.ndarray, np.generic)):
        data = value.tobytes() if not value.dtype.hasobject else repr(value).encode()
        return f"{value.dtype.str} {value.shape} {hashlib.sha256(data).hexdigest()}"
    if isinstance(value, types.CodeType):
        return " ".join(_described(getattr(value, name), within) for name in _CODE.split())
    if isinstance(value, types.FunctionType) and outer(module_of(value)) in COMPUTING:
        return f"function {value.__module__}.{value.__qualname__}"
    if isinstance(value, types.FunctionType):
        return f"function {value.__qualname__} {_described(value.__code__, within)}"
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if id(value) in within:
        return "itself"
    inside = within | {id(value)}
    name = type(value).__qualname__
    if isinstance(value, dict):
        items = [(_described(k, inside), _described(x, inside)) for k, x in value.items()]
        return f"{name} {items}"
    if isinstance(value, (list, tuple)):
        return f"{name} {[_described(item, inside) for item in value]}"
    if isinstance(value, (set, frozenset)):
        return f"{name} {sorted(_described(item, inside) for item in value)}"
    return f"{name} {getattr(value, '__qualname__', getattr(value, '__name__', ''))}"


# --- Pickles of compiled functions: the function by its name, with its settings and programs ------
# Programs are of use only if the function reads the same from outside where they are restored,
# other modules' globals say: a digest of it decides. Otherwise the function is recorded again.


def reduced(compiled: Composed, make: Callable, f: Callable, settings: dict) -> tuple:
    """The pickled state of a compiled function, which `make(f, **settings)` restores.

    Programs are pickled in the form of files, if possible. Native code is compiled again. A
    function that cannot be imported is left to a pickler that stores functions, as cloudpickle.
    """
    reference = _reference(f, _stores_functions())
    if reference is None:
        raise pickle.PicklingError(
            f"tapegrad.compile: {compiled._name} cannot be pickled, since it cannot be imported by "
            "its name; define it at the top level of a module, use cloudpickle, or save and tg.load"
        )
    programs = _programs(compiled)
    digest = None if programs is None else digest_of(names_read(f))
    state = programs, digest, _has_native(compiled)
    return restored, (make, reference, settings, *state)


def restored(make: Callable, reference: tuple, settings: dict, programs, digest, native: bool):
    """A compiled function from the result of `reduced`."""
    f = reference[0] if len(reference) == 1 else _named(*reference)
    made = make(f, **settings)
    if programs is not None and digest_of(names := names_read(f)) == digest:
        rt.start()  # programs read the recorder's state, also where no tensor is ever made
        made._install(file_format.load(programs), native, names)
    return made


def _stores_functions() -> bool:
    """Whether the pickler that asks is of a class that may store functions themselves."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("tapegrad."):
        frame = frame.f_back
    if frame is None or not frame.f_code.co_argcount:
        return False
    asking = type(frame.f_locals.get(frame.f_code.co_varnames[0]))  # a method's `self`
    plain = pickle.Pickler, pickle._Pickler
    return issubclass(asking, plain) and asking not in plain


def _reference(f, stores_functions: bool) -> tuple | None:
    """The function if the pickler can store it, or module and name of the compiled one."""
    with contextlib.suppress(Exception):  # as of a closure; every kind of object has its own
        pickle.dumps(f)
        return (f,)
    with contextlib.suppress(Exception):
        names = f.__module__, f.__qualname__
        is_elsewhere = names[0] != "__main__" or not stores_functions
        if is_elsewhere and _named(*names) is f:
            return names
    return (f,) if stores_functions else None


def _named(module: str, name: str):
    """The function under a name in a module, which may be the compiled one."""
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found._f if hasattr(type(found), "_method_for") else found


def _programs(compiled: Composed) -> bytes | None:
    """The content of its file; None where it has no programs, or they cannot be saved."""
    stream = io.BytesIO()
    try:
        file_format.save(stream, _without_graphs(compiled._compilation()))
    except ValueError:
        return None
    return stream.getvalue()


def _without_graphs(found: Compilation) -> Compilation:
    """The programs alone: the function is there to be read, with the names it sees there."""
    derived = {name: _without_graphs(one) for name, one in found.derived.items()}
    return dataclasses.replace(found, graphs=(), derived=derived)


def _has_native(compiled: Composed) -> bool:
    """Whether it has native code, so that a copy is to have it at once."""
    families = list(compiled._families.found.values())  # other threads add to it
    own = any(variant.program.native for family in families for variant in family.found)
    return own or any(map(_has_native, list(compiled._derived.values())))
