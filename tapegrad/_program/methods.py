"""Compiled methods, and compiled functions whose differentiated arguments are named."""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import pickle
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np

from .._core.tensor import runtime as rt
from .._core.tensor.dependencies import Dependency
from .._core.tensor.operators import users_level
from .._core.tensor.pytree import tree_build, tree_leaves
from .._core.tensor.values import value_of
from .._entering.entering import entering
from .._entering.stand_ins import called
from .._flow.reading.forms import Known
from .._flow.reading.readings import Instance
from .._transforms.gradients import Names, grad, joined, value_and_grad
from .._transforms.jacobians import hessian, hvp, jacobian, jvp, vjp
from .composition import reduced
from .dispatch.attributes import Attributes, InstanceWritten, MoreRead, call_noting
from .dispatch.evaluation import SIGNATURES
from .dispatch.flows import stand_for, with_bound
from .dispatch.signature import Arguments, own_copy
from .dispatch.variants import NotRecorded

# --- methods --------------------------------------------------------------------------------------
# Compiled methods: attributes that a method reads are arguments of its program.

#: The methods of a compiled method if it has no program.
_EAGERLY: dict[str, Callable] = {
    "__call__": lambda f, argnums: f,
    "value_and_grad": value_and_grad,
    "grad": grad,
    "jacobian": jacobian,
    "hessian": hessian,
    "hvp": lambda f, argnums: hvp(f),
}
_OF_INSTANCE = "in c = tg.compile(model.loss)"
_call = threading.local()  # the instance whose method is called, its attributes, the trace around


def with_instance(f):
    """The method by which an object of a user's class is called; else the function itself."""
    if isinstance(f, functools.partial):
        method = with_instance(f.func)
        return _partial_method(f, method) if is_followed(method) else f
    call = inspect.getattr_static(type(f), "__call__", None)
    is_method = isinstance(call, types.FunctionType) and not call.__module__.startswith("tapegrad.")
    return types.MethodType(call, f) if is_method else f


def _partial_method(partial: functools.partial, method: types.MethodType) -> types.MethodType:
    """A method of the same instance that has some of its arguments."""
    function = method.__func__

    @functools.wraps(function)
    def applied(instance, *args, **kwargs):
        return function(instance, *partial.args, *args, **{**partial.keywords, **kwargs})

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    with contextlib.suppress(TypeError, ValueError):  # arguments that the method does not take
        signature = inspect.signature(partial)
        made = signature.replace(parameters=[own, *signature.parameters.values()])
        applied.__signature__ = made  # type: ignore[attr-defined]
    stand_for(applied, functools.partial(_arranged_with, partial, function))
    return types.MethodType(applied, method.__self__)


def _arranged_with(
    partial: functools.partial, function, trees: list, names: list[str], held: list
) -> tuple:
    """The method and all its arguments, as graphs are read of it."""
    made, names = with_bound(partial, trees[1:], names, held)
    return function, [trees[0], *made], names


def is_followed(f) -> TypeGuard[types.MethodType]:
    """Whether it is a method of an instance, whose attributes it may read."""
    if not isinstance(f, types.MethodType):
        return False
    return type(f.__func__) is types.FunctionType and not isinstance(f.__self__, type)


class MethodPrograms:
    """The programs of a method, for all instances of its classes.

    `kind` says whether a call gives the value or what one of its derivatives does.
    """

    def __init__(self, f: Callable, make: Callable, kind: str, argnums, enter):
        self.f, self.make, self.kind, self.argnums, self.enter = f, make, kind, argnums, enter
        self.names: dict[type, tuple[str, ...]] = {}  # of the attributes that it reads
        self.compiled: dict[Any, Any] = {}
        self.reason: str | None = None

    def of(self, instance) -> tuple[Any, Attributes]:
        """The compiled function of arguments and attributes; NotRecorded where there is none."""
        names = self.names.get(type(instance), ())
        attributes = Attributes(instance, names)
        try:
            found = self.compiled.get(attributes.key)
        except TypeError as error:  # unhashable
            raise NotRecorded(f"it reads attributes that cannot be compared: {error}") from None
        if found is None:
            if len(self.compiled) >= SIGNATURES:
                raise NotRecorded(
                    "the attributes that it reads and that are neither floats nor arrays differ at "
                    "nearly every call"
                )
            found = self._compiled(len(attributes.inputs))
            found = self.compiled.setdefault(attributes.key, found)
        return found, attributes

    def _compiled(self, count: int):
        entered = entering(self.f, self.enter)

        @functools.wraps(self.f)
        def of_attributes(*args, **kwargs):
            instance, attributes, around = _call.under_way
            given, values = args[: len(args) - count], args[len(args) - count :]
            if rt.trace() is around:  # called as it is
                return entered(instance, *given, **kwargs)
            return call_noting(entered, instance, attributes, values, given, kwargs)

        stand_for(of_attributes, functools.partial(self._arranged, count))
        single = isinstance(self.argnums, (int, np.integer))
        numbers = [self.argnums] if single else self.argnums
        own = tuple([number if number >= 0 else number - count for number in numbers])
        return self.make(of_attributes, own[0] if single else own)

    def of_one(self, instance):
        """The compiled function of arguments alone, whose instance is found outside."""
        alone = functools.partial(self.f, instance)
        alone.__name__ = self.f.__name__
        return self.make(alone, self.argnums)

    def _arranged(self, count: int, trees: list, names: list[str], _held: list) -> tuple:
        """The method and its arguments, as graphs are read of it; the first is the instance."""
        instance, attributes, _ = _call.under_way
        end = len(trees) - len(names)
        given, values, named = trees[: end - count], trees[end - count : end], trees[end:]
        return (
            self.f,
            [Instance(type(instance), attributes.build(values, Known)), *given, *named],
            names,
        )


class BoundCompiled:
    """A compiled method of an instance; its methods are those of `Compiled`.

    `argnums` counts the arguments after the instance.
    """

    def __init__(self, programs: MethodPrograms, instance, name: str, is_kept: bool = False):
        self._programs, self._instance, self._name = programs, instance, name
        self._is_kept = is_kept  # by the caller, and not made anew for each call
        self._alone: Any = None  # a compiled function of this instance
        self.__self__, self.__func__ = instance, programs.f
        functools.update_wrapper(self, programs.f, updated=())
        self.__wrapped__ = types.MethodType(programs.f, instance)  # its signature is without self

    def _run(self, evaluate: Callable, eagerly: Callable):
        """The result of `evaluate` for the compiled function and the attributes that are inputs.

        Without a program it is the result of `eagerly` for the method. A method that writes to its
        instance, as to a counter, is compiled as a function of arguments alone is, which finds the
        instance outside; its programs are for this instance, and so are not kept for a class.
        """
        programs = self._programs
        while programs.reason is None:
            if self._alone is not None:
                return evaluate(self._alone, [])
            try:
                compiled, attributes = programs.of(self._instance)
                with _under_way(self._instance, attributes):
                    found = evaluate(compiled, attributes.inputs)
                programs.reason = compiled._reason  # which has been reported
                return found
            except MoreRead as more:
                kind = type(self._instance)
                names = {*programs.names.get(kind, ()), *more.args[0]}
                programs.names[kind] = tuple(sorted(names))
            except InstanceWritten as error:
                if (reason := self._why_not_alone(error)) is not None:
                    self._give_up(reason)
            except NotRecorded as error:
                self._give_up(str(error))
        return eagerly(self._entered())

    def _why_not_alone(self, error: InstanceWritten) -> str | None:
        """Compile the method for this instance; why not, if results depend on what it writes."""
        if not self._is_kept:
            return f"{error}; compile the method of an instance, as {_OF_INSTANCE}"
        alone, reason = self._programs.of_one(self._instance), None
        if hasattr(self._instance, error.name):  # else no result depends on what it was before
            args, kwargs = _plain(error.args_given)
            changed: list[Any] = [Dependency(self._instance, error.name, None)]
            arguments = Arguments(args, kwargs, alone._argnums)
            reason = alone._flows.dependence(alone, arguments, changed)
        if reason is None:
            self._alone = alone
        return reason

    def _entered(self) -> Callable:
        """The method, as transforms take it with the option `enter` of `tg.compile`."""
        f = functools.partial(self._programs.f, self._instance)
        return f if self._programs.enter is None else entering(f, self._programs.enter)

    def _give_up(self, reason: str) -> None:
        self._programs.reason = reason
        warnings.warn(
            f"tapegrad.compile: {self._name} runs eagerly, without a program: {reason}",
            RuntimeWarning,
            stacklevel=users_level(),
        )

    def _same(self, name: str, args: tuple, kwargs: dict):
        """A method that takes the arguments of the function, perhaps with others before."""
        argnums = self._programs.argnums
        return self._run(
            lambda compiled, inputs: getattr(compiled, name)(*args, *inputs, **kwargs),
            lambda f: _EAGERLY[name](f, argnums)(*args, **kwargs),
        )

    def _of(self, name: str, transform: Callable, args: tuple, kwargs: dict, of=None):
        """A transform of the method, compiled on first use."""
        return self._run(
            lambda compiled, inputs: compiled._of(name, transform, (*args, *inputs), kwargs, of),
            lambda f: transform(f, self._programs.argnums)(*args, **kwargs),
        )

    def __call__(self, *args, **kwargs):
        kind = self._programs.kind
        return self._same("__call__" if kind == "value" else kind, args, kwargs)

    def value_and_grad(self, *args, **kwargs):
        """Compute value and gradient, as `tg.value_and_grad(f, argnums)` gives them."""
        return self._same("value_and_grad", args, kwargs)

    def grad(self, *args, **kwargs):
        """Compute the gradient, as `tg.grad(f, argnums)` gives it."""
        return self._same("grad", args, kwargs)

    def jacobian(self, *args, **kwargs):
        """Compute the Jacobian, as `tg.jacobian(f, argnums)` gives it."""
        return self._same("jacobian", args, kwargs)

    def hessian(self, *args, **kwargs):
        """Compute the Hessian, as `tg.hessian(f, argnums)` gives it."""
        return self._same("hessian", args, kwargs)

    def hvp(self, x, v, *others):
        """Compute the product of the Hessian at `x` with `v`, as `tg.hvp(f)` gives it."""
        return self._same("hvp", (x, v, *others), {})

    def jvp(self, primals, tangents):
        """Compute the value and its derivative along tangents, as `tg.jvp` gives them."""

        def evaluate(compiled, inputs):
            still = [np.zeros(np.shape(x)) if np.ndim(x) else 0.0 for x in inputs]
            return compiled.jvp((*primals, *inputs), (*tangents, *still))

        return self._run(evaluate, lambda f: jvp(f, primals, tangents))

    def vjp(self, *primals):
        """Compute the value and a function of its adjoints, as `tg.vjp` gives them."""
        return vjp(self._entered(), *primals)

    def map(self, *args, in_axes=0, gradient=True, threads=None, over=None):
        """Values, and gradients, for each row of the arguments, as `Compiled.map` gives them."""
        if over is not None:
            raise TypeError(_elsewhere(self._name))
        return self._rows("map", args, in_axes, gradient=gradient, threads=threads)

    def sum(self, *args, in_axes=0, gradient=True, threads=None, over=None):
        """The sum of the values for all rows, and its gradient, as `Compiled.sum` gives them."""
        if over is not None:
            raise TypeError(_elsewhere(self._name))
        return self._rows("sum", args, in_axes, gradient=gradient, threads=threads)

    def distribute(self, partitions, *, over, native=None):
        """Refused: attributes of the instance may change here, unseen by other processes."""
        raise TypeError(_elsewhere(self._name))

    def _rows(self, name: str, args: tuple, in_axes, **options):
        """The results of a method for rows; attributes are the same for all."""
        axes = tuple(in_axes) if isinstance(in_axes, (tuple, list)) else (in_axes,) * len(args)

        def evaluate(compiled, inputs):
            every = (*axes, *[None] * len(inputs))
            return getattr(compiled, name)(*args, *inputs, in_axes=every, **options)

        return self._run(evaluate, functools.partial(self._refuse_rows, name))

    def _refuse_rows(self, name: str, _f) -> None:
        raise ValueError(
            f"tapegrad.compile: {name} needs a program, and {self._name} runs eagerly: "
            f"{self._programs.reason}; evaluate the rows one by one"
        )

    def wait(self) -> None:
        """Wait until machine code that is being compiled in a background thread is ready."""
        for compiled in self._every():
            compiled.wait()

    def _every(self) -> list:
        """The compiled functions of the method."""
        found = list(self._programs.compiled.values())
        return found if self._alone is None else [self._alone]

    def explain(self) -> str:
        """Describe what became of the method, for all attributes that it has been called with."""
        found = [compiled.explain() for compiled in self._every()]
        reason = self._programs.reason
        return "\n".join(found) if reason is None else f"{self._name} runs eagerly: {reason}"

    def clear(self) -> None:
        """Forget all programs, those of other instances too."""
        self._programs.compiled.clear()
        self._programs.names.clear()
        self._programs.reason = self._alone = None

    def __copy__(self):
        return BoundCompiled(self._programs, self._instance, self._name, self._is_kept)

    def __deepcopy__(self, memo):
        instance = copy.deepcopy(self._instance, memo)
        return BoundCompiled(self._programs, instance, self._name, self._is_kept)

    def __reduce__(self):
        raise pickle.PicklingError(
            f"tapegrad.compile: the compiled method {self._name} cannot be pickled; pickle its "
            "instance"
        )

    def __repr__(self) -> str:
        return f"<compiled method {self._name} of {self._instance!r}>"

    def _method_for(self, transform: str, argnums=0, argnames=None) -> Callable | None:
        """`tg.grad`, `tg.jvp` and so on of this method; None if they run eagerly."""
        if self._programs.kind != "value":  # it gives a gradient itself
            return None
        return (
            getattr(self, transform)
            if _alike(argnums, self._programs.argnums) and (argnames is None and transform != "vjp")
            else None
        )


def _plain(tree):
    """A tree with plain values in the place of tensors."""
    return tree_build(tree, iter([value_of(leaf) for _, leaf in tree_leaves(tree)]))


def _alike(a, b) -> bool:
    return type(a) is type(b) and a == b


@contextlib.contextmanager
def _under_way(instance, attributes: Attributes):
    before = getattr(_call, "under_way", None)
    _call.under_way = instance, attributes, rt.trace()
    try:
        yield
    finally:
        _call.under_way = before


# --- named arguments compiled ---------------------------------------------------------------------
# Compiled functions whose differentiated arguments are named: `tg.compile(f, argnames=…)`.


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
        return cls(make, f.__func__, kind, argnums, argnames, **settings)._of_instance(
            f.__self__, is_kept=True
        )

    def __get__(self, instance, owner=None):
        return self if instance is None else self._of_instance(instance)

    def _of_instance(self, instance, is_kept=False):
        """The method of an instance, made for each call or kept by the caller."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._f, made._bound_to = types.MethodType(self._own, instance), (instance,)
        made.__wrapped__ = made._f  # its signature is without self
        made._names = Names("compile", made._f, 0, self._asked)
        made._compiled = self._compiled._of_instance(instance, is_kept)
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
            of = lambda f, _, **given: _pulled(f, **given)
            found = self._compiled._of("vjp", of, (adjoint, *call), {}, 1)
            return self._one(found)

        return value, back

    def map(self, *args, in_axes=0, gradient=True, threads=None, over=None, **kwargs):
        """Values, and gradients, for each row of the arguments, as `Compiled.map` gives them.

        `in_axes` is one for all arguments, or a dict of those by name that are not 0.
        """
        if over is not None:
            compiled = self._in_order("map", kwargs)
            return compiled.map(
                *args, in_axes=in_axes, gradient=gradient, threads=threads, over=over
            )
        return self._rows("map", args, kwargs, in_axes, gradient=gradient, threads=threads)

    def sum(self, *args, in_axes=0, gradient=True, threads=None, over=None, **kwargs):
        """The sum of the values for all rows, and its gradient; arguments as for `map`."""
        if over is not None:
            compiled = self._in_order("sum", kwargs)
            return compiled.sum(
                *args, in_axes=in_axes, gradient=gradient, threads=threads, over=over
            )
        return self._rows("sum", args, kwargs, in_axes, gradient=gradient, threads=threads)

    def distribute(self, partitions, *, over, native=None):
        """The sum over partitions, as `Compiled.distribute` makes it; it takes no names."""
        return self._in_order("distribute", {}).distribute(partitions, over=over, native=native)

    def _in_order(self, method: str, kwargs: dict):
        """The compiled function of arguments by position, of which partitions are the last."""
        if self._bound_to:
            raise TypeError(_elsewhere(self.__name__))
        if kwargs:
            raise TypeError(
                f"tapegrad.compile: {method} with over takes arguments by position, the partitions "
                f"last; it got {', '.join(sorted(kwargs))} by name"
            )
        key = "in order"
        if key not in self._by_position:
            places = self._names.of_all()
            asked = places[0] if self._names.single else places
            made = self._make(self._own, self._kind, asked, **self._settings)
            self._by_position.setdefault(key, made)
        return self._by_position[key]

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


def _elsewhere(name: str) -> str:
    """Why methods are not evaluated in other processes."""
    return (
        f"tapegrad.compile: {name} is a method, and is not evaluated in other processes, which do "
        "not see when attributes of its instance change; compile a function that takes what it "
        "needs of them as arguments, such as lambda scale, w, x: Model(scale).loss(w, x)"
    )


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
