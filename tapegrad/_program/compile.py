"""`tg.compile`: a function recorded once and replayed without Python."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable

from .._core.tensor.values import is_recorded, records
from .._transforms.gradients import hvp, jvp, transform_of, vjp
from .._transforms.jacobians import hessian, jacobian
from .dispatch.background import finish
from .dispatch.flow_derivatives import hessian_of, hvp_of, jacobian_of, jvp_of, vjp_of
from .dispatch.short_call import arrays_for
from .dispatch.signature import own_copy
from .dispatch.variants import Compilation
from .files import file_format
from .many_rows import OverRows
from .methods import BoundCompiled, MethodPrograms, is_followed, with_instance
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
    """Compile a function: record it at the first call, and replay the recording afterwards.

    A recording serves calls whose arguments have the same structure, shapes and dtypes. Values that
    Python reads (an `if`, `t.item()`, an index) are guards, checked at every call. If a guard
    fails, the loops and branches of `f` are read from its bytecode into a graph that serves all
    branches; where that is not possible, `f` is recorded again and both recordings are kept.

    Parameters
    ----------
    f : callable, optional
        The function. Floats and arrays among its arguments are inputs; all others (ints, strings,
        functions) select the recording. `f` may be the result of `tg.value_and_grad` or `tg.grad`.
        Without `f`, `compile` returns a decorator.
    argnums : int or tuple of ints, optional
        Positions of the arguments to differentiate. The other inputs are data and may change from
        call to call.
    argnames : str or tuple of str, optional
        Names of the arguments to differentiate, in place of `argnums`.
    on_branch : {"record", "error"}, optional
        With "error", a call that takes another branch raises RuntimeError.
    verify : {"once", "always", "never"}, optional
        Which calls are compared with `f` run eagerly, to detect functions that depend on more than
        their arguments: the second call, every call, or none.
    native : bool or None, optional
        Whether machine code is compiled for the function, in a background thread: after many calls
        (None), from the first call on (True), or never (False).
    memory : {"all", "sqrt"}, optional
        What native loops keep for the reverse pass: the values of every step, or those of about the
        square root of the number of steps, from which the others are computed again.

    Returns
    -------
    Compiled
        A function that is called like `f` and has the methods of `Compiled`: `value_and_grad`,
        `grad`, `jacobian`, `hessian`, `hvp`, `jvp`, `vjp`, `map`, `sum`, `numba`, `save`,
        `explain`, `profile`, `draw`.

    Raises
    ------
    ValueError
        If an option is not one of its choices.
    RuntimeError
        When called, if `verify` finds a difference, or on another branch with `on_branch="error"`.

    Warns
    -----
    RuntimeWarning
        Once, if `f` cannot be recorded, with the reason; it then runs eagerly.

    Notes
    -----
    Results of native code may differ from those of the replayed program by rounding: arrays are
    summed in another order, and exp, log and similar functions are evaluated by vectors. Unless
    `verify` is "never", native code is compared with the program before it is used; if more than
    rounding differs, it is not used and a RuntimeWarning says so.

    Examples
    --------
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
    f = with_instance(f)
    if argnames is not None:
        return CompiledByName.of(Compiled, f, kind, argnums, argnames, **settings)
    if is_followed(f):
        return Compiled(f.__func__, kind, argnums, **settings).__get__(f.__self__)
    return Compiled(f, kind, argnums, **settings)


class Compiled(OverRows):
    """A compiled function, made by `tg.compile` or `tg.load`.

    It is called like the function that it was made from. Its methods compute derivatives by
    compiled code, and show what became of the function.

    Methods
    -------
    value_and_grad, grad, jacobian, hessian, hvp, jvp, vjp
        Derivatives, as the functions of the same names in `tapegrad` give them.
    map, sum
        Evaluation of many rows of arguments, on threads.
    numba
        Functions for a user's own `@numba.njit` code.
    save
        Write programs and graphs to a file.
    explain, profile, draw
        Text about the programs, their times, and a picture.
    wait, clear
        Wait for machine code; forget the programs.

    Examples
    --------
    >>> import tapegrad as tg
    >>> f = tg.compile(lambda x: x * x)
    >>> f(3.0), f.grad(3.0)
    (9.0, 6.0)
    """

    #: In annotations: its arguments, its result, its gradient.
    __class_getitem__: classmethod = classmethod(types.GenericAlias)

    def __init__(self, f: Callable, kind: str, argnums, **settings):
        super().__init__(f, kind, argnums, **settings)
        self._settings = settings
        own = ("__dict__",) if isinstance(f, types.FunctionType) else ()  # others have state there
        functools.update_wrapper(self, f, updated=own)
        self._derived: dict[str, Compiled] = {}
        self._installed = {}
        self._method: MethodPrograms | None = None  # if it is one

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
        """Compute value and gradient.

        Parameters
        ----------
        *args, **kwargs
            The arguments of the function.
        out : ndarray or tuple of ndarrays, optional
            Arrays to be filled with the gradients: one, or a tuple for several `argnums`. They are
            float64, in C order, have the shapes of the arguments and share no memory with them.

        Returns
        -------
        value : float or ndarray
            The value of the function.
        gradient
            The gradient, as `tg.value_and_grad(f, argnums)` gives it; `out` if it is given.

        Raises
        ------
        ValueError
            If `out` does not fit, or the function returns something else than a scalar.

        Examples
        --------
        >>> import numpy as np
        >>> import tapegrad as tg
        >>> f, gradient = tg.compile(lambda x: np.sum(x * x)), np.empty(2)
        >>> f.value_and_grad(np.array([1.0, 2.0]), out=gradient)
        (5.0, array([2., 4.]))
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
        """Compute the gradient.

        Parameters
        ----------
        *args, **kwargs
            The arguments of the function.
        out : ndarray or tuple of ndarrays, optional
            Arrays to be filled with the gradients; see `value_and_grad`.

        Returns
        -------
        gradient
            The gradient, as `tg.grad(f, argnums)` gives it.
        """
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
        """Compute the Jacobian.

        Parameters
        ----------
        *args, **kwargs
            The arguments of the function.

        Returns
        -------
        ndarray, or a structure of them
            The Jacobian, of shape (*result, *argument), as `tg.jacobian(f, argnums)` gives it.
        """
        if (found := self._by_graph(jacobian_of, args, kwargs)) is not None:
            return found[0]
        return self._of("jacobian", jacobian, args, kwargs)

    def hessian(self, *args, **kwargs):
        """Compute the Hessian, the matrix of second derivatives.

        Parameters
        ----------
        *args, **kwargs
            The arguments of the function, which returns a scalar.

        Returns
        -------
        ndarray, or a structure of them
            The Hessian, of shape (*argument, *argument), as `tg.hessian(f, argnums)` gives it.
        """
        if (found := self._by_graph(hessian_of, args, kwargs)) is not None:
            return found[0]
        return self._of("hessian", hessian, args, kwargs)

    def hvp(self, x, v, *others):
        """Compute the product of the Hessian at `x` with `v`.

        Parameters
        ----------
        x : float, array, or nested tuples, lists and dicts of them
            The first argument of the function, with respect to which it is differentiated.
        v
            The vector, in the structure and shapes of `x`.
        *others
            The other arguments of the function.

        Returns
        -------
        product
            The product, in the structure and shapes of `x`.
        """
        if (found := self._by_graph(hvp_of, (x, *others), {}, v, argnums=0)) is not None:
            return found[0]
        return self._of("hvp", lambda f, _: hvp(f), (x, v, *others), {})

    def jvp(self, primals, tangents):
        """Compute the value and its derivative along a direction.

        Parameters
        ----------
        primals : tuple
            The arguments of the function.
        tangents : tuple
            The direction: one entry for each primal, with its structure and shapes.

        Returns
        -------
        value
            The value of the function.
        tangent
            The Jacobian times the tangents, as `tg.jvp` gives it.
        """
        call = jvp_of, tuple(primals), {}, tuple(tangents)
        if (found := self._by_graph(*call, argnums=range(len(primals)))) is not None:
            return found[0]
        return self._of("jvp", lambda f, _: functools.partial(jvp, f), (primals, tangents), {}, 0)

    def vjp(self, *primals):
        """Compute the value, and a function for products of vectors with the Jacobian.

        Parameters
        ----------
        *primals
            The arguments of the function.

        Returns
        -------
        value
            The value of the function.
        vjp_function : callable
            A compiled function of an adjoint of the value, to a tuple of adjoints of the primals.
        """
        value, primals = self(*primals), own_copy(primals)  # which the caller may change
        every = range(len(primals))

        def back(adjoint):
            if (found := self._by_graph(vjp_of, primals, {}, adjoint, argnums=every)) is not None:
                return found[0]
            return self._of("vjp", _pulled_back, (primals, adjoint), {}, 0)

        return value, back

    def _of(self, name: str, transform, args, kwargs, of=None):
        """A transform of the function, compiled on first use.

        `of` are its own argnums, where its arguments are others than those of the function.
        """
        argnums = self._asked()

        def make():
            own = argnums if of is None else of
            return Compiled(transform(self._f, argnums), "value", own, **self._settings)

        made = self._made(name, make)
        found = made(*args, **kwargs)
        self._flows.branches |= made._flows.branches
        return found

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
            If there is neither a graph nor a program for such arguments. The functions raise it
            where a guard of the program fails, or a call leaves the graph.
        numpy.linalg.LinAlgError
            By the functions, where an operation refuses a matrix.

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

    def wait(self) -> None:
        """Wait until machine code that is being compiled in a background thread is ready.

        Raises
        ------
        RuntimeError
            If the compilation failed. The function then continues to run by the interpreter of
            programs.
        """
        for future in self._compiling:
            finish(future)
        for derived in list(self._derived.values()):
            derived.wait()

    def save(self, path) -> None:
        """Write the programs of all signatures so far, and graphs, to a file for `tg.load`.

        Parameters
        ----------
        path : str or path-like
            The file. docs/program_files.md describes its format.

        Raises
        ------
        ValueError
            If there is no program yet, or if a program has something for which the format has no
            name, such as functions among the arguments.
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
        graphs = tuple(self._flows.found.values())
        refused = tuple(dict.fromkeys(self._flows.refused.values()))
        families = dict(self._families.found)
        return Compilation(
            *settings, families, derived, self._reason, graphs, refused, self._native
        )


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
