"""Compiled methods: attributes that a method reads are arguments of its program."""

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
from .._core.tensor.row_listeners import users_level
from .._entering.entering import entering
from .._flow.reading.forms import Known
from .._flow.reading.readings import Instance
from .._transforms.derivative_products import hvp, jvp, vjp
from .._transforms.gradients import grad, value_and_grad
from .._transforms.jacobians import hessian, jacobian
from .dispatch.attributes import Attributes, MoreRead, call_noting
from .dispatch.evaluation import SIGNATURES
from .dispatch.flows import stand_for, with_bound
from .dispatch.variants import NotRecorded

#: The methods of a compiled method if it has no program.
_EAGERLY: dict[str, Callable] = {
    "__call__": lambda f, argnums: f,
    "value_and_grad": value_and_grad,
    "grad": grad,
    "jacobian": jacobian,
    "hessian": hessian,
    "hvp": lambda f, argnums: hvp(f),
}
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

    def __init__(self, programs: MethodPrograms, instance, name: str):
        self._programs, self._instance, self._name = programs, instance, name
        self.__self__, self.__func__ = instance, programs.f
        functools.update_wrapper(self, programs.f, updated=())
        self.__wrapped__ = types.MethodType(programs.f, instance)  # its signature is without self

    def _run(self, evaluate: Callable, eagerly: Callable):
        """The result of `evaluate` for the compiled function and the attributes that are inputs.

        Without a program it is the result of `eagerly` for the method.
        """
        programs = self._programs
        while programs.reason is None:
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
            except NotRecorded as error:
                self._give_up(str(error))
        return eagerly(self._entered())

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

    def map(self, *args, in_axes=0, gradient=True, threads=None):
        """Values, and gradients, for each row of the arguments, as `Compiled.map` gives them."""
        return self._rows("map", args, in_axes, gradient=gradient, threads=threads)

    def sum(self, *args, in_axes=0, gradient=True, threads=None):
        """The sum of the values for all rows, and its gradient, as `Compiled.sum` gives them."""
        return self._rows("sum", args, in_axes, gradient=gradient, threads=threads)

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
        for compiled in list(self._programs.compiled.values()):
            compiled.wait()

    def explain(self) -> str:
        """Describe what became of the method, for all attributes that it has been called with."""
        found = [compiled.explain() for compiled in list(self._programs.compiled.values())]
        reason = self._programs.reason
        return "\n".join(found) if reason is None else f"{self._name} runs eagerly: {reason}"

    def clear(self) -> None:
        """Forget all programs, those of other instances too."""
        self._programs.compiled.clear()
        self._programs.names.clear()
        self._programs.reason = None

    def __copy__(self):
        return BoundCompiled(self._programs, self._instance, self._name)

    def __deepcopy__(self, memo):
        return BoundCompiled(self._programs, copy.deepcopy(self._instance, memo), self._name)

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
