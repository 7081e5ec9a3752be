"""`tg.compile`: a function recorded once and replayed without Python."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable

import numpy as np

from .._core.operations import PUBLIC
from .._core.tensor.copies import unlisted
from .._core.tensor.values import array_of, is_recorded, records, value_of
from .._transforms.gradients import hvp, jvp, transform_of, vjp
from .._transforms.jacobians import hessian, jacobian
from .composition import Composed
from .dispatch.background import finish
from .dispatch.batch import Batch
from .dispatch.rowwise import RecordedRows, gathered, row_of
from .dispatch.short_call import arrays_for, fast_call
from .dispatch.signature import Arguments, own_copy
from .dispatch.variants import Compilation, Variant
from .files import file_format
from .methods import BoundCompiled, MethodPrograms
from .named_arguments_compiled import CompiledByName
from .pickled import reduced

_CHOICES = {
    "on_branch": ("record", "error"),
    "verify": ("once", "always", "never"),
    "memory": ("all", "sqrt"),
}


def compile(
    f=None,
    *,
    argnums=0,
    argnames=None,
    on_branch="record",
    verify="once",
    native=None,
    memory="all",
):
    """A function that computes what `f` does: recorded at the first call, replayed afterwards.

    A recording serves calls whose arguments have the same structure, shapes and dtypes. Floats and
    arrays are inputs; those that `argnums` names are differentiated, the others are data and may
    change. `argnames`, a name or a tuple of names, stands in place of `argnums`, as in `tg.grad`.
    Everything else (ints, strings, functions) must be equal. The result is called like `f`
    and has the methods of `Compiled`: `value_and_grad`, `grad`, `jacobian`, `hessian`, `hvp`,
    `jvp`, `vjp`, `map`, `sum`, `numba`. `f` may be what `tg.value_and_grad` or `tg.grad` gave.

    What Python learns of a value (an `if`, `t.item()`, an index) is checked at every call. Where it
    is otherwise, the loops and branches of `f` are read from its bytecode into a graph that serves
    all ways; where that is refused `f` is recorded again and both recordings are kept. With
    `on_branch="error"` either raises RuntimeError. A function that reads anything but its arguments
    is found out by `verify`: the second call ("once"), every one ("always") or none ("never") is
    compared with `f` called as it is; RuntimeError says what differs. A function that cannot be
    recorded is called as it is, and a RuntimeWarning says why, once.

    `native` compiles code of the function's own, in a thread beside: after many calls (None), from
    the first on (True), or never (False). Its results may differ in rounding: sums of arrays are
    taken in another order, and exp, log and the like by vectors. Where it takes over it is compared
    with the replayed program, but for `verify="never"`: that stays, with a RuntimeWarning, if more
    than rounding differs. Native loops keep what they carry from step to step for the reverse pass;
    with `memory="sqrt"` at intervals only, of about the square root of their steps, and compute the
    rest again.

    >>> import numpy as np
    >>> import tapegrad as tg
    >>> f = tg.compile(lambda x: np.sum(x**2) if x[0] > 0 else x[1])
    >>> value, gradient = f.value_and_grad(np.array([1.0, 2.0]))
    >>> print(value, gradient)
    5.0 [2. 4.]
    """
    settings = dict(on_branch=on_branch, verify=verify, memory=memory)
    for name, given in settings.items():
        if given not in _CHOICES[name]:
            choices = ", ".join(map(repr, _CHOICES[name]))
            raise ValueError(f"tapegrad.compile: {name} is {given!r}; it must be one of {choices}")
    settings["native"] = native
    if f is None:
        return functools.partial(compile, argnums=argnums, argnames=argnames, **settings)
    kind, f, argnums = transform_of(f) or _method_of(f) or ("value", f, argnums)
    if isinstance(f, types.MethodType) and argnames is None and _is_followed(f):
        return Compiled(f.__func__, kind, argnums, **settings).__get__(f.__self__)
    if argnames is not None:
        return CompiledByName(Compiled, f, kind, argnums, argnames, **settings)
    return Compiled(f, kind, argnums, **settings)


class Compiled(Composed):
    """A compiled function; made by `tg.compile`, see there."""

    def __init__(self, f: Callable, kind: str, argnums, **settings):
        super().__init__(f, kind, argnums, **settings)
        self._settings = settings
        own = ("__dict__",) if isinstance(f, types.FunctionType) else ()  # others have state there
        functools.update_wrapper(self, f, updated=own)
        self._derived: dict[str, Compiled] = {}
        self._installed = {}
        self._method: MethodPrograms | None = None  # where it is one

    def __call__(self, *args, **kwargs):
        if self._kind != "value":
            return getattr(self, self._kind)(*args, **kwargs)
        fast = self._fast_value  # another thread may set it
        if fast is not None and not kwargs:
            found = fast.value(args)
            if found is not None:
                self._when_hot(fast, args)
                return found[0]
        elif self._flows.found and not kwargs:
            found = self._flows.short(self, args, gradient=False)
            if found is not None:
                return found[0]
        if (row := self._as_short_row(args, kwargs)) is not None:
            return row[0]
        value, _ = self._evaluate(args, kwargs, gradient=False)
        return value

    def value_and_grad(self, *args, out=None, **kwargs):
        """Value and gradient, as `tg.value_and_grad(f, argnums)` gives them.

        `out` is an array for the gradient, or a tuple with one for each of several: float64, in C
        order, with the shape of its argument and no memory that an argument has. It is filled and
        returned. Raises ValueError for another one.
        """
        if out is not None:
            return self._into(out, args, kwargs), out
        fast = self._fast  # another thread may set it
        if fast is not None and not kwargs:
            found = fast.value_and_grad(args)
            if found is not None:
                self._when_hot(fast, args)
                value, gradients = found
                if fast.bare and self._single:
                    return value, gradients[0]
                return value, self._arranged(fast, args, gradients)
        elif self._flows.found and not kwargs:
            found = self._flows.short(self, args, gradient=True)
            if found is not None:
                return found
        return self._evaluate(args, kwargs, gradient=True)

    def grad(self, *args, out=None, **kwargs):
        """The gradient, as `tg.grad(f, argnums)` gives it; `out` is as in `value_and_grad`."""
        return self.value_and_grad(*args, out=out, **kwargs)[1]

    def _into(self, out, args, kwargs) -> float:
        """The value; the gradients are written to the caller's arrays."""
        arrays = arrays_for(out, args, self._argnums, self._single)
        fast, found = self._fast, None
        if fast is not None and not kwargs:
            found = fast.value_and_grad(args, [array for _, array in sorted(arrays.items())])
        if found is not None:
            return found[0]
        value, gradients = self.value_and_grad(*args, **kwargs)
        made = [gradients] if self._single else gradients
        if any(map(is_recorded, made)):
            raise TypeError(
                "tapegrad.compile: out takes plain gradients, and this one is itself recorded, "
                "since an argument is, or a tensor that the function reads; call it without out"
            )
        for array, gradient in zip(arrays.values(), made, strict=True):
            array[...] = gradient
        return value

    def jacobian(self, *args, **kwargs):
        """The Jacobian, as `tg.jacobian(f, argnums)` gives it."""
        return self._of("jacobian", jacobian, args, kwargs)

    def hessian(self, *args, **kwargs):
        """The matrix of second derivatives, as `tg.hessian(f, argnums)` gives it."""
        if self._flows.found and (found := self._flows.hessian(self, args, kwargs)) is not None:
            return found
        return self._of("hessian", hessian, args, kwargs)

    def hvp(self, x, v, *others):
        """The Hessian at x times v, as `tg.hvp(f)` gives it."""
        if self._flows.found and (found := self._flows.hvp(self, (x, *others), v)) is not None:
            return found
        return self._of("hvp", lambda f, _: hvp(f), (x, v, *others), {})

    def jvp(self, primals, tangents):
        """Value, and the derivative along tangents, as `tg.jvp` gives them."""
        return self._of("jvp", lambda f, _: functools.partial(jvp, f), (primals, tangents), {}, 0)

    def vjp(self, *primals):
        """Value, and a function of adjoints of it, as `tg.vjp` gives them; that one is compiled."""
        value, primals = self(*primals), own_copy(primals)  # which the caller may change

        def back(adjoint):
            return self._of("vjp", _pulled_back, (primals, adjoint), {}, 0)

        return value, back

    def _of(self, name: str, transform, args, kwargs, of=None):
        """A transform of the function, compiled when first asked for.

        `of` are its own argnums, where its arguments are others than those of the function.
        """
        argnums = self._asked()

        def make():
            own = argnums if of is None else of
            return Compiled(transform(self._f, argnums), "value", own, **self._settings)

        return self._made(name, make)(*args, **kwargs)

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        if self._method is None:
            make = functools.partial(Compiled, kind=self._kind, **self._settings)
            make_one = lambda f, argnums: make(f, argnums=argnums)  # noqa: E731
            self._method = MethodPrograms(self._f, make_one, self._asked())
        return BoundCompiled(self._method, instance, self._name)

    def __reduce__(self):
        kept = {**self._settings, "argnums": self._asked(), "kind": self._kind}
        return reduced(self, _of_kind, self._f, kept)

    def _again(self, argnums, argnames=None, f=None):
        f = self._f if f is None else f
        if argnames is not None:
            return compile(f, argnames=argnames, **self._settings)
        return Compiled(f, "value", argnums, **self._settings)

    def map(self, *args, in_axes=0, gradient=True, threads=None):
        """Values, and gradients, for each row of the arguments, evaluated on threads.

        The first axis of every argument counts the evaluations; of those for which `in_axes`, one
        for all or a tuple, is None instead of 0, there is one for all. Returns the values, of shape
        (n,), and the gradients, with a row for each evaluation (without `gradient` the values
        alone); the same whatever the number of threads. Raises ValueError for other arguments.
        """
        rows = self._rows(args, in_axes, gradient, threads, summed=False)
        return (rows.values, rows.found(self._single)) if gradient else rows.values

    def sum(self, *args, in_axes=0, gradient=True, threads=None):
        """The sum of the values for all rows, and its gradient, evaluated on threads.

        Arguments as for `map`. Returns a float, and gradients shaped like the arguments: of one
        that is the same for all rows (`in_axes` None) a sum over them. Sums are taken in an order
        that does not depend on the number of threads.
        """
        rows = self._rows(args, in_axes, gradient, threads, summed=True)
        return (rows.total(), rows.found(self._single)) if gradient else rows.total()

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

    def numba(self, *args):
        """Functions for Numba code: (value, value_and_grad), for arguments like these.

        Both are called inside `@numba.njit` code, without Python and without the interpreter lock.
        After the arguments `value_and_grad` takes an array for each gradient, which it fills (of
        shape (1,) for a number), and returns the value. Where a guard fails they raise ValueError,
        where an operation refuses a matrix numpy.linalg.LinAlgError.
        """
        if records(*args):
            raise TypeError(
                "tapegrad.compile: numba was given a recorded tensor; code of Numba's computes "
                "with plain numbers, so give arrays like those that it will be called with"
            )
        with self._flows.aside():
            variant = self._variant(args, gradient=True)
        if variant is None:
            why = self._reason or (
                "it has other arguments or results than arrays in C order and one number"
            )
            raise ValueError(f"tapegrad.compile: {self._name} cannot be called from Numba: {why}")
        return variant.program.jitted()

    def wait(self) -> None:
        """Wait until code that is being compiled in a thread beside is ready.

        Raises RuntimeError where that failed: the function goes on interpreted.
        """
        for future in self._compiling:
            finish(future)
        for derived in list(self._derived.values()):
            derived.wait()

    def save(self, path) -> None:
        """Write the programs of all signatures so far to a file, which `tg.load` reads.

        The format is described in docs/program_files.md. Raises ValueError if there is no program
        yet, or if it holds what a file has no name for, such as functions among the arguments.
        """
        try:
            file_format.save(path, self._compilation())
        except ValueError as error:
            raise ValueError(f"tapegrad.compile: {self._name} cannot be saved: {error}") from None

    def _compilation(self) -> Compilation:
        for family in list(self._families.found.values()):
            self._convert(family)
        derived = {name: one._compilation() for name, one in list(self._derived.items())}
        settings = self._name, self._kind, self._argnums, self._single
        flows = tuple(self._flows.described())
        return Compilation(*settings, dict(self._families.found), derived, self._reason, flows)


def _is_followed(f: types.MethodType) -> bool:
    """Whether a method is one of an instance, whose attributes it may read."""
    return type(f.__func__) is types.FunctionType and not isinstance(f.__self__, type)


def _of_kind(f, kind: str, argnums, **settings) -> Compiled:
    return Compiled(f, kind, argnums, **settings)


def _method_of(f) -> tuple | None:
    """The (kind, function, argnums) of what `tg.grad` gave of a compiled function."""
    owner, name = getattr(f, "__self__", None), getattr(f, "__name__", "")
    if (
        isinstance(owner, Compiled)
        and owner._kind == "value"
        and name in ("grad", "value_and_grad")
    ):
        return name, owner, owner._asked()
    return None


def _pulled_back(f, argnums):
    """A function of primals and an adjoint of the value, to adjoints of the primals."""
    return lambda primals, adjoint: vjp(f, *primals)[1](adjoint)
