"""Compiled functions whose differentiated arguments are named: `tg.compile(f, argnames=…)`."""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable
from typing import Any

from .._entering.numba_functions import called
from .._transforms.derivative_products import jvp, vjp
from .._transforms.gradients import Names, joined
from .dispatch.flows import stand_for
from .dispatch.signature import own_copy
from .methods import is_followed
from .pickled import reduced


class CompiledByName:
    """A compiled function of arguments by name; made by `tg.compile`, see there.

    It is a compiled function of a tuple of these arguments, and of all others. That of a method is
    a method too: its instance comes first, and its attributes are arguments.
    """

    def __init__(self, make: Callable, f: Callable, kind: str, argnums, argnames, **settings):
        self._names = Names("compile", f, argnums, argnames)

        function = called(f)

        def of_values(*trees):
            *instance, values, places, rest, others = trees
            every, named = joined(values, places, rest, others)
            return function(*instance, *every, **named)

        stand_for(of_values, functools.partial(_arranged, f))
        of_values.__name__ = getattr(f, "__name__", str(f))
        self._kind, self._compiled = kind, make(of_values, "value", 0, **settings)
        self._f = self._own = f  # they differ for the method of an instance
        self._settings = settings
        self._by_position: dict = {}  # for `map`: functions of all arguments by position
        self._make, self._asked = make, argnames
        own = ("__dict__",) if isinstance(f, types.FunctionType) else ()  # others have state there
        functools.update_wrapper(self, f, updated=own)
        self._bound_to: tuple = ()  # the instance, of a method

    @classmethod
    def of(cls, make: Callable, f: Callable, kind: str, argnums, argnames, **settings):
        """Of a function, or of the method of an instance."""
        if not is_followed(f):
            return cls(make, f, kind, argnums, argnames, **settings)
        return cls(make, f.__func__, kind, argnums, argnames, **settings).__get__(f.__self__)

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._f, made._bound_to = types.MethodType(self._own, instance), (instance,)
        made.__wrapped__ = made._f  # its signature is without self
        made._names = Names("compile", made._f, 0, self._asked)
        made._compiled = self._compiled.__get__(instance)
        return made

    def _split(self, args: tuple, kwargs: dict) -> tuple:
        """The arguments of the compiled function."""
        return self._names.split(args, kwargs)

    def _one(self, found):
        """The derivative to the one argument, or a tuple of those to several."""
        return found[0] if self._names.single else found

    def __call__(self, *args, **kwargs) -> Any:
        if self._kind != "value":
            return getattr(self, self._kind)(*args, **kwargs)
        return self._compiled(*self._split(args, kwargs))

    def value_and_grad(self, *args, **kwargs):
        """Value and gradient, as `tg.value_and_grad(f, argnames=…)` gives them."""
        value, found = self._compiled.value_and_grad(*self._split(args, kwargs))
        return value, self._one(found)

    def grad(self, *args, **kwargs):
        """The gradient, as `tg.grad(f, argnames=…)` gives it."""
        return self.value_and_grad(*args, **kwargs)[1]

    def hessian(self, *args, **kwargs):
        """The matrix of second derivatives, as `tg.hessian(f, argnames=…)` gives it."""
        found = self._compiled.hessian(*self._split(args, kwargs))
        return found[0][0] if self._names.single else found

    def jacobian(self, *args, **kwargs):
        """The Jacobian of one result, as `tg.jacobian(f, argnames=…)` gives it."""
        found = self._compiled.jacobian(*self._split(args, kwargs))
        if self._names.single and isinstance(found, tuple) and len(found) == 1:
            return found[0]
        if self._names.single:
            raise TypeError(
                "tapegrad.compile: the function returned a structure, and the Jacobian of one is "
                "given by argnums alone; return an array"
            )
        return found

    def hvp(self, v, *args, **kwargs):
        """The Hessian by the named arguments times v, which is like them, at the arguments."""
        vs = (v,) if self._names.single else tuple(v)
        values, *rest = self._split(args, kwargs)
        return self._one(self._compiled.hvp(values, vs, *rest))

    def jvp(self, tangents, *args, **kwargs):
        """Value, and the derivative along tangents, which are like the named arguments."""
        given = (tangents,) if self._names.single else tuple(tangents)
        call = (given, *self._split(args, kwargs))
        return self._compiled._of("jvp", lambda f, _, **given: _pushed(f, **given), call, {}, 1)

    def vjp(self, *args, **kwargs):
        """Value, and a function of adjoints of it to those of the named arguments."""
        if self._bound_to:  # attributes may change before the function of adjoints is called
            f, values = self._names.of_values(args, kwargs)
            value, pull = vjp(f, *values, enter=self._settings.get("enter"))
            return value, lambda adjoint: self._one(pull(adjoint))
        call = self._split(args, own_copy(kwargs))
        value, call = self._compiled(*call), own_copy(call)  # which the caller may change

        def back(adjoint):
            of = lambda f, _, **given: _pulled(f, **given)  # noqa: E731
            found = self._compiled._of("vjp", of, (adjoint, *call), {}, 1)
            return self._one(found)

        return value, back

    def map(self, *args, in_axes=0, gradient=True, threads=None, **kwargs):
        """Values, and gradients, for each row of the arguments, as `Compiled.map` gives them.

        `in_axes` is one for all arguments, or a dict of those by name that are not 0.
        """
        return self._rows("map", args, kwargs, in_axes, gradient=gradient, threads=threads)

    def sum(self, *args, in_axes=0, gradient=True, threads=None, **kwargs):
        """The sum of the values for all rows, and its gradient; arguments as for `map`."""
        return self._rows("sum", args, kwargs, in_axes, gradient=gradient, threads=threads)

    def _rows(self, method: str, args: tuple, kwargs: dict, in_axes, **options):
        """The result of a method of the function of all arguments by position."""
        names, count = tuple(sorted(kwargs)), len(args)
        places = self._names.places(args, kwargs)
        numbers = [count + names.index(k) if isinstance(k, str) else k for k in places]
        key = (count, names)
        if key not in self._by_position:
            f, first = self._own, len(self._bound_to) + count

            def of_all(*values):
                return f(*values[:first], **dict(zip(names, values[first:], strict=True)))

            asked = numbers[0] if self._names.single else tuple(numbers)
            made = self._make(of_all, "value", asked, **self._settings)
            self._by_position.setdefault(key, made)
        compiled = self._by_position[key]
        if self._bound_to:
            compiled = compiled.__get__(*self._bound_to)
        if isinstance(in_axes, dict):
            every = [*self._names.of_positions(count), *names]
            if unknown := in_axes.keys() - {*every}:
                raise ValueError(
                    f"tapegrad.compile: in_axes names {sorted(unknown)}, which are not "
                    "arguments of this call"
                )
            in_axes = tuple([in_axes.get(name, 0) for name in every])
        values = (*args, *[kwargs[name] for name in names])
        return getattr(compiled, method)(*values, in_axes=in_axes, **options)

    def _method_for(self, transform: str, argnums=0, argnames=None) -> Callable | None:
        """`tg.grad` and so on of this function; None if they run eagerly."""
        names = argnames if argnames is None or isinstance(argnames, str) else tuple(argnames)
        own = self._names.names[0] if self._names.single else self._names.names
        return getattr(self, transform) if self._kind == "value" and names == own else None

    def clear(self) -> None:
        """Forget all programs: the next call records the function."""
        self._compiled.clear()
        self._by_position.clear()

    def __repr__(self) -> str:
        names = ", ".join(self._names.names)
        return f"{repr(self._compiled).removesuffix('>')}; by {names}>"

    def __reduce__(self):
        if self._bound_to:
            return self._compiled.__reduce__()
        kept = {**self._settings, "kind": self._kind, "argnames": self._asked}
        return reduced(self, type(self)._of_kind, self._f, {**kept, "make": self._make})

    @classmethod
    def _of_kind(cls, f, make, kind, argnames, **settings):
        return cls.of(make, f, kind, 0, argnames, **settings)

    def __copy__(self):
        return self._of_kind(self._f, self._make, self._kind, self._asked, **self._settings)

    def __deepcopy__(self, memo):
        f = copy.deepcopy(self._f, memo)
        made = self._of_kind(f, self._make, self._kind, self._asked, **self._settings)
        memo[id(self)] = made
        return made

    def __getattr__(self, name: str):
        if name in ("explain", "wait", "draw", "_compilation", "_install", "_families", "_derived"):
            return getattr(self._compiled, name)
        if name in ("numba", "save"):
            raise AttributeError(
                f"tapegrad.compile: {name} takes arguments by position: give argnums in place of "
                "argnames"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


def _arranged(f: Callable, trees: list, names: list[str], _held: list) -> tuple:
    """The arguments of the user's function, as graphs are read of it."""
    *instance, values, places, rest, others = trees
    every, named = joined(values, [place.value for place in places], rest, others)
    return f, [*instance, *every, *named.values()], [*names, *named]


def _pushed(f: Callable, enter=None) -> Callable:
    """A function of tangents and a call, to its value and the derivative along the tangents."""
    return lambda tangents, values, *rest: jvp(
        lambda v: f(v, *rest), (values,), (tangents,), enter=enter
    )


def _pulled(f: Callable, enter=None) -> Callable:
    """A function of an adjoint of the value and a call, to adjoints of its values."""
    return lambda adjoint, values, *rest: vjp(lambda v: f(v, *rest), values, enter=enter)[1](
        adjoint
    )[0]
