"""`Compiled`, the object that `tg.compile` gives: values and derivatives by compiled code."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable

from .._core.tensor import runtime
from .._core.tensor.values import is_recorded
from .._transforms.jacobians import hessian, hvp, jacobian, jvp, vjp
from .composition import OverRows, reduced
from .dispatch.evaluation import Compilation
from .dispatch.flow_choice import hessian_of, hvp_of, jacobian_of, jvp_of, vjp_of
from .dispatch.recorded_call import arrays_for
from .dispatch.signature import own_copy
from .dispatch.takeover import finish
from .files import file_format
from .methods import BoundCompiled, CompiledByName, MethodPrograms
from .nutpie_models import nutpie_model


class Compiled(OverRows):
    """A compiled function, made by `tg.compile` or `tg.load`.

    It is called like the original function. Its methods compute derivatives in compiled code, and
    describe the programs.

    Methods
    -------
    value_and_grad, grad, jacobian, hessian, hvp, jvp, vjp
        Derivatives, as returned by the functions of the same names in `tapegrad`.
    map, sum
        Evaluation of many rows of arguments, on threads, or of partitions in other processes.
    distribute
        The sum over partitions of data in other processes, for several evaluations.
    numba
        Functions for `@numba.njit` code.
    nutpie_model
        The function as a log density for nutpie's NUTS.
    save
        Write programs and graphs to a file.
    explain, profile, draw
        Text about the programs, their times, and a picture.
    wait, clear
        Wait for machine code; discard the programs.

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
        if runtime.count and self._is_observed():  # programs do not look at flags
            return self._eagerly(args, kwargs, gradient=False)[0]
        fast = self._fast_value  # another thread may set it
        if fast is not None and not kwargs:
            found = fast.value(args)
            if found is not None:
                if fast.calls == fast.variant.patience:
                    self._make_hot(fast, args)
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
            If `out` does not fit, or the function does not return a scalar.

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
        if runtime.count and self._is_observed():
            return self._eagerly(args, kwargs, gradient=True)
        fast = self._fast  # another thread may set it
        if fast is not None and not kwargs:
            found = fast.value_and_grad(args)
            if found is not None:
                if fast.calls == fast.variant.patience:
                    self._make_hot(fast, args)
                value, gradients = found
                if fast.bare and self._single:
                    return value, gradients[0]
                return value, fast.arranged(args, gradients, self._argnums, self._single)
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
        may_write = fast is not None and not fast.reads_any(arrays.values())
        if fast is not None and may_write and not kwargs and not self._is_observed():
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
        return self._of("hvp", lambda f, _, **given: hvp(f, **given), (x, v, *others), {})

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
        of = lambda f, _, **given: functools.partial(jvp, f, **given)
        return self._of("jvp", of, (primals, tangents), {}, 0)

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
            A compiled function that maps an adjoint of the value to a tuple of adjoints of the
            primals.
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
            enter = self._settings.get("enter")
            given = {} if enter is None else dict(enter=enter)
            return Compiled(
                transform(self._given, argnums, **given), "value", own, **self._settings
            )

        made = self._made(name, make)
        made._apart = (0, 1) if name in ("hvp", "jvp", "vjp") else None  # a transform's own
        made._effects = self._effects  # which are reported once
        found = made(*args, **kwargs)
        self._flows.branches |= made._flows.branches
        return found

    def __get__(self, instance, owner=None):
        return self if instance is None else self._of_instance(instance)

    def _of_instance(self, instance, is_kept=False):
        """The method of an instance, made for each call or kept by the caller."""
        if self._method is None:
            make = functools.partial(Compiled, kind=self._kind, **self._settings)
            make_one = lambda f, argnums: make(f, argnums=argnums)
            enter = self._settings.get("enter")
            self._method = MethodPrograms(self._f, make_one, self._kind, self._asked(), enter)
        return BoundCompiled(self._method, instance, self._name, is_kept)

    def __reduce__(self):
        kept = {**self._settings, "argnums": self._asked(), "kind": self._kind}
        return reduced(self, _of_kind, self._given, kept)

    def _again(self, argnums, argnames=None, f=None):
        f = self._given if f is None else f
        if argnames is not None:
            return CompiledByName.of(Compiled, f, "value", argnums, argnames, **self._settings)
        return Compiled(f, "value", argnums, **self._settings)

    def nutpie_model(self, like, *others):
        """Return a model for `nutpie.sample`: the function is the log density of its parameters.

        Parameters
        ----------
        like : array_like, or dict of them
            Parameters like those that the function takes as its first argument. A dict names the
            variables, an array or number is the variable "x". Chains start around them, with
            uniform noise of at most 1.
        *others
            The other arguments of the function, such as data.

        Returns
        -------
        nutpie.compiled_pyfunc.PyFuncModel

        Raises
        ------
        ImportError
            If nutpie is not installed.
        TypeError
            If the parameters are neither of those.

        Notes
        -----
        The parameters have no bounds: write one that is positive as the exponential of another, and
        add the logarithm of the derivative to the log density. The gradient must be with respect to
        the first argument, as it is without `argnums`.

        Examples
        --------
        >>> import numpy as np
        >>> import tapegrad as tg
        >>> density = tg.compile(lambda p, y: -0.5 * np.sum((y - p["mean"]) ** 2))
        >>> y = np.array([1.0, 2.0, 6.0])
        >>> trace = nutpie.sample(density.nutpie_model({"mean": 0.0}, y))  # doctest: +SKIP
        """
        if self._asked() != 0 or self._kind != "value":
            raise TypeError(
                "tapegrad.compile: nutpie_model differentiates the first argument of a function "
                "that returns a value: compile it without argnums"
            )
        return nutpie_model(self.value_and_grad, like, others)

    def wait(self) -> None:
        """Wait until machine code that is being compiled in a background thread is ready.

        Raises
        ------
        RuntimeError
            If the compilation failed. The function then continues to run interpreted.
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
            If there is no program yet, if a program has something that the format does not
            support, such as functions among the arguments, or if no call has been compared yet with
            a program whose recorded call has changed state that its result may depend on.
        """
        try:
            found = self._compilation()
            self._check_compared()
            file_format.save(path, found)
        except ValueError as error:
            raise ValueError(f"tapegrad.compile: {self._name} cannot be saved: {error}") from None

    def _check_compared(self) -> None:
        super()._check_compared()
        for derived in list(self._derived.values()):
            derived._check_compared()

    def _compilation(self) -> Compilation:
        for family in list(self._families.found.values()):
            self._settle(family)
        derived = {name: one._compilation() for name, one in list(self._derived.items())}
        settings = self._name, self._kind, self._argnums, self._single
        graphs = tuple(self._flows.found.values())
        refused = tuple(dict.fromkeys(self._flows.refused.values()))
        families = dict(self._families.found)
        return Compilation(
            *settings,
            families,
            derived,
            self._reason,
            graphs,
            refused,
            self._native,
            self._effects.found,
            self._history,
        )


def _of_kind(f, kind: str, argnums, **settings) -> Compiled:
    return Compiled(f, kind, argnums, **settings)


def _pulled_back(f, argnums, enter=None):
    """A function of primals and an adjoint of the value, to adjoints of the primals."""
    return lambda primals, adjoint: vjp(f, *primals, enter=enter)[1](adjoint)
