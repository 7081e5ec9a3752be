"""`tg.compile`: a function recorded once and replayed without Python."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np

from .._core.operations import PUBLIC
from .._core.tape.svg import saved
from .._core.tensor.copies import unlisted
from .._core.tensor.values import array_of, is_recorded, records, value_of
from .._transforms.gradients import hvp, jvp, transform_of, vjp
from .._transforms.jacobians import hessian, jacobian
from .dispatch.background import finish
from .dispatch.batch import Batch
from .dispatch.evaluation import Replayed
from .dispatch.rowwise import RecordedRows, gathered, row_of
from .dispatch.short_call import arrays_for, fast_call
from .dispatch.signature import Arguments, own_copy
from .dispatch.variants import Compilation, Variant
from .files import file_format
from .named_arguments_compiled import CompiledByName
from .reports.draw import drawing_of_program
from .reports.explain import explain
from .reports.step_times import ProgramProfile, profile

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
    is otherwise, `f` is recorded again and both recordings are kept; with `on_branch="error"` that
    raises RuntimeError. A function that reads anything but its arguments is found out by `verify`:
    the second call ("once"), every one ("always") or none ("never") is compared with `f` called as
    it is; RuntimeError says what differs. A function that cannot be recorded is called as it is,
    and a RuntimeWarning says why, once.

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
    kind, f, argnums = transform_of(f) or ("value", f, argnums)
    if argnames is not None:
        return CompiledByName(Compiled, f, kind, argnums, argnames, **settings)
    return Compiled(f, kind, argnums, **settings)


class Compiled(Replayed):
    """A compiled function; made by `tg.compile`, see there."""

    def __init__(self, f: Callable, kind: str, argnums, **settings):
        super().__init__(f, kind, argnums, **settings)
        self._settings = settings
        functools.update_wrapper(self, f)
        self._derived: dict[str, Compiled] = {}

    def __call__(self, *args, **kwargs):
        if self._kind != "value":
            return getattr(self, self._kind)(*args, **kwargs)
        fast = self._fast_value  # another thread may set it
        if fast is not None and not kwargs:
            found = fast.value(args)
            if found is not None:
                if fast.calls == fast.variant.patience:
                    self._make_native(fast.variant, Arguments(args, {}, self._argnums).values)
                return found[0]
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
                if fast.calls == fast.variant.patience:
                    self._make_native(fast.variant, Arguments(args, {}, self._argnums).values)
                value, gradients = found
                if fast.bare and self._single:
                    return value, gradients[0]
                return value, self._arranged(fast, args, gradients)
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
        return self._of("hessian", hessian, args, kwargs)

    def hvp(self, x, v, *others):
        """The Hessian at x times v, as `tg.hvp(f)` gives it."""
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
        if name not in self._derived:
            argnums = self._argnums[0] if self._single else self._argnums
            made = transform(self._f, argnums)
            own = argnums if of is None else of
            self._derived[name] = Compiled(made, "value", own, **self._settings)
        return self._derived[name](*args, **kwargs)

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
        for derived in self._derived.values():
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

    def explain(self) -> str:
        """What became of the function, as text: rows, passes, steps, guards, memory, time."""
        return explain(self._compilation())

    def profile(self, *args, repeats=10) -> ProgramProfile:
        """Where the time of the program for such arguments goes: by step and by your line.

        Each step is timed, forward and reverse, and the function is called once more while the
        lines of its operations are noted. Time of a step is shared out evenly by its operations.

        Parameters
        ----------
        *args
            Arguments as for a call.
        repeats : int, optional
            Evaluations that are timed; the best time of each step counts.

        Returns
        -------
        ProgramProfile
            With `steps`, `lines`, `forward`, `reverse`; `print` shows tables.

        Raises
        ------
        ValueError
            If the function runs without a program, or `repeats` is less than 1.
        """
        if repeats < 1:
            raise ValueError(f"tapegrad.compile: repeats is {repeats}; it must be positive")
        if records(*args):
            raise TypeError("tapegrad.compile: profile takes plain arguments, no recorded tensors")
        arguments = Arguments(args, {}, self._argnums)
        return profile(self._program_for(arguments), self._name, self._f, arguments, repeats)

    def draw(self, path=None) -> str:
        """A picture of the program used last, as SVG text, also written to `path` if there is one.

        Steps are drawn with what flows between them; fused groups and loops are marked.
        """
        self._compilation()
        found = [family.found[0] for family in self._families.found.values() if family.found]
        if not found:
            raise ValueError(f"tapegrad.compile: {self._name} has no program yet; call it first")
        return saved(drawing_of_program(found[-1].program, self._name), path)

    def _compilation(self) -> Compilation:
        for family in self._families.found.values():
            self._convert(family)
        derived = {name: one._compilation() for name, one in self._derived.items()}
        settings = self._name, self._kind, self._argnums, self._single
        return Compilation(*settings, self._families.found, derived, self._reason)


def _pulled_back(f, argnums):
    """A function of primals and an adjoint of the value, to adjoints of the primals."""
    return lambda primals, adjoint: vjp(f, *primals)[1](adjoint)
