"""Gradients: functions to functions of their derivatives by arguments of any structure."""

from __future__ import annotations

import functools
import inspect
import types
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._core.operations import PUBLIC
from .._core.operations.equal_eigenvalues import with_choices
from .._core.tape import store
from .._core.tape.sweeps import Sweep
from .._core.tensor import runtime as rt
from .._core.tensor.copies import unlisted
from .._core.tensor.operators import users_level
from .._core.tensor.pytree import holds_complex, tree_build, tree_leaves
from .._core.tensor.values import (
    ComplexTensor,
    combined,
    imag_part,
    is_complex_number,
    is_recorded,
    is_tensor,
    value_of,
)
from .._derivatives.forward_mode import tangents_of
from .._derivatives.inputs import Inputs, plain, scalar_output
from .._derivatives.recorded_reverse import (
    depends_on_others,
    meets_hooks,
    plant,
    recorded_adjoints,
    run_to,
)
from .._entering.entering import entering
from .._entering.stand_ins import called

# --- Transforms of compiled functions, which have methods of their own for them -------------------


def method_of_compiled(transform: str, f, argnums=0, argnames=None) -> Callable | None:
    """The method by which a compiled function computes a transform of itself; None for others.

    A compiled function is recognized by its method `_method_for`: programs are not imported here.
    """
    find = getattr(type(f), "_method_for", None)
    return None if find is None else find(f, transform, argnums, argnames)


# --- What transforms return: functions that can be pickled, and compiled --------------------------


class Transformed:
    """A function made of another one by a transform, whose name and signature it has.

    It is pickled as the transform, the function and the options; `evaluate` computes it.
    """

    __slots__ = "__dict__", "__weakref__", "_evaluate", "_of"  # what wraps it copies its dict

    def __init__(self, transform: Callable, f: Callable, options: dict[str, Any], evaluate):
        functools.update_wrapper(self, f)
        self._evaluate = evaluate
        self._of = transform, f, options

    def __call__(self, /, *args, **kwargs):
        return self._evaluate(*args, **kwargs)

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __reduce__(self):
        transform, f, options = self._of
        own = {k: v for k, v in vars(self).items() if getattr(f, k, None) is not v}
        own.pop("__wrapped__", None)
        return _transformed, (transform, f, options), own

    def __repr__(self) -> str:
        transform, f, _ = self._of
        return f"<tapegrad.{transform.__name__} of {getattr(f, '__qualname__', f)}>"


def transformed(transform: Callable, f: Callable, **options) -> Callable[[Callable], Transformed]:
    """Decorate the function that computes `transform(f, **options)`."""
    return functools.partial(Transformed, transform, f, options)


def transform_of(f) -> tuple | None:
    """The (transform, function, options) of what a transform gave; None for others."""
    return f._of if type(f) is Transformed else None


def _transformed(transform: Callable, f: Callable, options: dict[str, Any]):
    return transform(f, **options)


# --- Functions of complex arguments: derivatives of holomorphic ones, and errors for others -------


def refuse_complex(name: str, trees) -> None:
    """Refuse complex arguments of a transform that gives derivatives of second order."""
    if holds_complex(list(trees)):
        raise TypeError(
            f"tapegrad.{name}: an argument is complex; second derivatives are of real numbers: "
            "write the function in the real and the imaginary part"
        )


def refuse_two_complex(name: str, args, argnums, out) -> None:
    """Refuse the matrix of a complex result by complex arguments: it would be four real ones."""
    numbers = [argnums] if isinstance(argnums, (int, np.integer)) else argnums
    if holds_complex(out) and any(holds_complex(args[number]) for number in numbers):
        raise TypeError(
            f"tapegrad.{name}: the result and an argument are complex; take the Jacobian of the "
            "real and of the imaginary part of the result, or vjp and jvp"
        )


def as_complex_as(tree, like):
    """A tree of derivatives in which the real ones of complex arguments are complex."""
    kinds = (list, tuple)
    if isinstance(like, dict) and isinstance(tree, dict):
        return {key: as_complex_as(one, like.get(key)) for key, one in tree.items()}
    if isinstance(like, kinds) and isinstance(tree, kinds) and len(like) == len(tree):
        made = [as_complex_as(*pair) for pair in zip(tree, like, strict=True)]
        return made if type(tree) is list else tuple(made)
    needed = type(like) is ComplexTensor or is_complex_number(like)
    real = isinstance(tree, (int, float, np.ndarray, rt.Tensor)) and not is_complex_number(tree)
    return combined(tree, imag_part(tree)) if needed and real else tree


def conjugated(tree):
    """A tree of derivatives with the conjugate of each."""
    if isinstance(tree, dict):
        return {key: conjugated(one) for key, one in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)([conjugated(one) for one in tree])
    if isinstance(tree, complex) and not isinstance(tree, np.generic):
        return tree.conjugate()
    return PUBLIC["conj"](tree) if type(tree) is ComplexTensor else np.conj(tree)


def _check_result(name: str, out) -> None:
    if type(out) is not ComplexTensor and not is_complex_number(out):
        raise TypeError(
            f"tapegrad.{name}: with holomorphic=True the function must return a complex result; "
            f"it returned {type(out).__name__}"
        )


def _check_arguments(name: str, args, argnums) -> None:
    numbers = [argnums] if isinstance(argnums, (int, np.integer)) else argnums
    for number in numbers:
        if -len(args) <= number < len(args) and not holds_complex(args[number]):
            raise TypeError(
                f"tapegrad.{name}: with holomorphic=True the arguments must be complex; argument "
                f"{number} is real: convert it with z = x + 0j"
            )


def holomorphic_value_and_grad(name: str, with_gradient, f, argnums, has_aux):
    """The value and f′ of a holomorphic f: the conjugate of the gradient of its real part."""

    def split(*args, **kwargs):
        out = f(*args, **kwargs)
        out, *aux = out if has_aux else (out,)
        _check_result(name, out)
        return PUBLIC["real"](out), (out, *aux)

    both = with_gradient(name, split, argnums, True)

    def evaluate(*args, **kwargs):
        _check_arguments(name, args, argnums)
        (_, (value, *aux)), gradient = both(*args, **kwargs)
        return ((value, *aux) if has_aux else value), conjugated(gradient)

    return evaluate


# --- Results of functions that are differentiated, and linear maps between them and inputs --------


def with_aux(name, result, inputs):
    """The result of a function with `has_aux`, and the rest with plain arrays in it.

    Tensors that an outer transform may differentiate are unchanged.
    """
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(
            f"tapegrad.{name}: with has_aux=True the function must return a tuple (result, "
            f"anything); it returned {type(result).__name__}"
        )
    out, aux = result
    leaves = [leaf for _, leaf in tree_leaves(aux)]
    tensors = [leaf for leaf in leaves if is_tensor(leaf)]
    if tensors and not must_record(tensors, inputs):
        aux = tree_build(aux, iter([copied(x) if is_tensor(x) else x for x in leaves]))
    return out, aux


def results_of(name: str, out) -> list:
    """The leaves of a result, which must be numbers or arrays of numbers."""
    outs = [value for _, value in tree_leaves(out)]
    for one in outs:
        if np.asarray(value_of(one)).dtype.kind not in "biufc":
            raise TypeError(
                f"tapegrad.{name}: the function returned {one!r:.60}; a result must be a number, "
                "an array of numbers, or tuples, lists and dicts of them (is a `return` missing?)"
            )
    return outs


def must_record(outs, inputs) -> bool:
    """Whether derivatives of these results must themselves be recorded.

    They must when the results depend on an outer input: of an enclosing transform, or a tensor made
    with `requires_grad=True`.
    """
    recorded = [out for out in outs if is_recorded(out)]
    if not recorded or not (inputs.nested or rt.is_nested() or store.leaves):
        return False
    return inputs.nested or depends_on_others(recorded, inputs.tensors)


def copied(result):
    """A result as the caller expects it, who may write to it: the tape has a copy."""
    return plain(np.array(value_of(result)))


def adjoints_like(outs, adjoint) -> list:
    """The leaves of an adjoint, one for each result."""
    adjoints = [unlisted(a) for _, a in tree_leaves(adjoint)]
    if len(adjoints) != len(outs):
        raise ValueError(
            f"tapegrad.vjp: got {len(adjoints)} adjoints, but the function has {len(outs)} results"
        )
    for one, seed in zip(outs, adjoints, strict=True):
        shape, given = np.shape(value_of(one)), np.shape(value_of(seed))
        if given != shape:
            raise ValueError(f"tapegrad.vjp: an adjoint has shape {given}, but the result {shape}")
    return adjoints


def pulled(outs, inputs, seeds, nested) -> list:
    """Adjoints of the inputs for those of results: recorded, or by the compiled sweep.

    A seed of None is one of zeros.
    """
    pairs = [
        (out, seed)
        for out, seed in zip(outs, seeds, strict=True)
        if is_recorded(out) and seed is not None
    ]
    if nested:
        outs, seeds = [out for out, _ in pairs], [seed for _, seed in pairs]
        return recorded_adjoints(outs, seeds, inputs.tensors, only=True)
    with Sweep(retain=True) as sweep:
        inputs.prepare(sweep)
        for out, seed in pairs:
            seed = np.asarray(value_of(seed), np.asarray(value_of(out)).dtype)
            plant(sweep, out, seed[None])
        run_to(sweep, inputs.tensors)
        return inputs.flat(sweep)


def pushed(outs, inputs, seeds, nested) -> list:
    """Tangents of results for those of inputs; both have an axis of directions first."""
    recorded = [out for out in outs if is_recorded(out)]
    if meets_hooks(recorded, inputs.tensors, gradients=False):
        raise NotImplementedError(
            "tapegrad.register_hook: forward mode computes no gradients with which hooks could be "
            "called; take a reverse derivative: grad, vjp or jacobian"
        )
    made, are_choices = with_choices(lambda: tangents_of(recorded, inputs.tensors, seeds, nested))
    if are_choices:
        _warn_by_reverse(recorded, inputs)
    found = iter(made)
    count = len(value_of(seeds[0])) if seeds else 1
    return [
        next(found) if is_recorded(out) else np.zeros((count, *np.shape(value_of(out))))
        for out in outs
    ]


def _warn_by_reverse(outs, inputs) -> None:
    """A reverse sweep, whose rules warn where results depend on a choice of vectors."""
    rng = np.random.default_rng(0)  # no sum of results should cancel what one depends on
    seeds = [rng.normal(size=np.shape(value_of(out))) for out in outs]
    try:
        pulled(outs, inputs, seeds, False)
    except NotImplementedError:  # as for an `autograd.Function` without `backward`
        warnings.warn(
            "tapegrad: the function reads eigenvectors or singular vectors whose basis or phase is "
            "arbitrary, and has no reverse mode, which would test whether its results depend on "
            "them; if they do, the derivative ignores this part",
            RuntimeWarning,
            stacklevel=users_level(),
        )


def directions(name, inputs, primals, tangents) -> list:
    """The tangents of inputs, each with an axis of one direction first."""
    wanted, given = tree_leaves(primals), tree_leaves(tangents)
    if [place for place, _ in wanted] != [place for place, _ in given]:
        raise ValueError(
            f"tapegrad.{name}: tangents has the entries {[place for place, _ in given]}, primals "
            f"{[place for place, _ in wanted]}; give one tangent for each primal"
        )
    seeds = []
    for tensor, (place, tangent) in zip(inputs.tensors, given, strict=True):
        tangent = unlisted(tangent)
        shape, own = np.shape(value_of(tangent)), np.shape(value_of(tensor))
        if shape != own:
            raise ValueError(
                f"tapegrad.{name}: tangents{place} has shape {shape}, the primal {own}; they must "
                "be equal"
            )
        seed = tangent if is_recorded(tangent) else np.array(value_of(tangent), tensor.dtype)
        seeds.append(PUBLIC["reshape"](seed, (1, *own)))
    return seeds


# --- Arguments that are differentiated by their names: `argnames=` of transforms ------------------


class Names:
    """The names of arguments of a function: one, or several in a tuple, like the results."""

    def __init__(self, transform: str, f: Callable, argnums, argnames):
        self.transform, self.f = transform, called(f)
        if argnums != 0 or isinstance(argnums, bool):
            raise ValueError(
                f"tapegrad.{transform}: argnums and argnames are both given; use only one of them, "
                "for all arguments"
            )
        self.single = isinstance(argnames, str)
        self.names = (argnames,) if self.single else tuple(argnames)
        if not all(isinstance(name, str) for name in self.names):
            raise TypeError(
                f"tapegrad.{transform}: argnames is {argnames!r}; it must be a name, or a tuple of "
                "names"
            )
        self.argnums: Any = 0 if self.single else tuple(range(len(self.names)))
        self._positions = _positions(f)

    def places(self, args: tuple, kwargs: dict) -> tuple:
        """The place of each in a call: a position, or a name."""
        found: list = []
        for name in self.names:
            position = self._positions.get(name)
            if name in kwargs:
                found.append(name)
            elif position is not None and position < len(args):
                found.append(position)
            else:
                raise TypeError(
                    f"tapegrad.{self.transform}: argnames has {name!r}, which is not an "
                    f"argument of this call; it got {len(args)} positional arguments, and "
                    f"{sorted(kwargs)}"
                )
        return tuple(found)

    def of_all(self) -> tuple[int, ...]:
        """The positions of these arguments, whatever the call."""
        if keywords := [name for name in self.names if name not in self._positions]:
            raise TypeError(
                f"tapegrad.{self.transform}: argnames has {keywords[0]!r}, which is no argument by "
                "position"
            )
        return tuple([self._positions[name] for name in self.names])

    def of_positions(self, count: int) -> list[str]:
        """The names of the first parameters, "" for those without one."""
        names = {position: name for name, position in self._positions.items()}
        return [names.get(k, "") for k in range(count)]

    def split(self, args: tuple, kwargs: dict) -> tuple:
        """The values of these arguments; places; the others, with None in their places."""
        places = self.places(args, kwargs)
        values = tuple([kwargs[k] if isinstance(k, str) else args[k] for k in places])
        rest, others = joined((None,) * len(places), places, args, kwargs)
        return values, places, tuple(rest), others

    def of_values(self, args: tuple, kwargs: dict) -> tuple[Callable, tuple]:
        """The function of these arguments alone, in a call; and their values."""
        values, places, rest, others = self.split(args, kwargs)
        function = self.f  # as a variable, by which it is found and entered

        def f(*values):
            every, named = joined(values, places, rest, others)
            return function(*every, **named)

        return f, values


def joined(values, places, args, kwargs) -> tuple[list, dict]:
    """All arguments of a call, with values in their places."""
    every, named = list(args), dict(kwargs)
    for value, place in zip(values, places, strict=True):
        if isinstance(place, str):
            named[place] = value
        else:
            every[place] = value
    return every, named


def _positions(f: Callable) -> dict[str, int]:
    """The positions of parameters by name; none if Python does not give them."""
    try:
        parameters = inspect.signature(f).parameters.values()
    except (TypeError, ValueError):
        return {}
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return {one.name: k for k, one in enumerate(parameters) if one.kind in kinds}


def by_names(transform: Callable, f: Callable, argnums, argnames, **options) -> Callable:
    """The result of a transform for named arguments."""
    names = Names(transform.__name__, f, argnums, argnames)

    @transformed(transform, f, argnames=argnames, **options)
    def evaluate(*args, **kwargs):
        of_values, values = names.of_values(args, kwargs)
        return transform(of_values, names.argnums, **options)(*values)

    return evaluate


# --- Gradients: functions to functions of their derivatives by arguments of any structure ---------


#: The seed of a number.
_ONE = np.ones(1)


def value_and_grad(f, argnums=0, has_aux=False, *, argnames=None, holomorphic=False, enter=None):
    """Return a function that computes the value of `f` and its gradient.

    Parameters
    ----------
    f : callable
        A function that returns a scalar: a float, or a tensor or array with one element. Its
        arguments may be floats, arrays, and nested tuples, lists, dicts, dataclasses and attrs
        classes of them.
    argnums : int or tuple of ints, optional
        Positions of the arguments to differentiate. A tuple gives a tuple of gradients.
    has_aux : bool, optional
        If true, `f` returns a tuple (value, aux); `aux` may be anything and is not differentiated.
    argnames : str or tuple of str, optional
        Names of the arguments to differentiate, in place of `argnums`. A tuple gives a tuple of
        gradients. Keyword arguments that are not named are not differentiated.
    holomorphic : bool, optional
        If true, `f` is a holomorphic function of complex arguments with a complex result, and the
        result is its complex derivative f′.
    enter : str or tuple of str, optional
        Installed packages that are entered beside those that are by default; () for none, see
        `tapegrad.config`.

    Returns
    -------
    callable
        A function with the arguments of `f` that returns (value, gradient), or ((value, aux),
        gradient) with `has_aux`. The gradient has the structure, shapes and dtypes of the
        argument: plain floats and arrays where the arguments are plain.

    Raises
    ------
    TypeError
        When called with differentiated arguments that are not numbers of dtype integer, float32,
        float64 or complex, or if
        `f` returns a complex number and `holomorphic` is false.
    ValueError
        When called, if `f` returns something else than a scalar.

    Notes
    -----
    For complex z = x + iy the gradient of a real function is ∂f/∂x + i ∂f/∂y, the direction of
    steepest ascent.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> value, gradient = tg.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    >>> print(value, gradient)
    5.0 [2. 4.]
    >>> tg.grad(lambda x, *, rate: x * rate, argnames="rate")(2.0, rate=3.0)
    2.0
    """
    if not has_aux and not holomorphic:
        if made := method_of_compiled("value_and_grad", f, argnums, argnames):
            return made
    if argnames is not None:
        options = dict(has_aux=has_aux, holomorphic=holomorphic, enter=enter)
        return by_names(value_and_grad, f, argnums, argnames, **options)
    evaluate = _with_gradient("value_and_grad", f, argnums, has_aux, holomorphic, enter)
    options = dict(argnums=argnums, has_aux=has_aux, enter=enter)
    options |= dict(holomorphic=True) if holomorphic else {}
    return transformed(value_and_grad, f, **options)(evaluate)


def _with_gradient(name: str, f, argnums, has_aux, holomorphic=False, enter=None):
    """The same by positions, for the public function of a name, with which errors begin."""
    if holomorphic:
        f = entering(f, enter)
        return holomorphic_value_and_grad(name, _with_gradient, f, argnums, has_aux)
    f = entering(f, enter)

    def evaluate(*args, **kwargs):
        with rt.recording():
            inputs = Inputs(name, args, argnums)
            out = f(*inputs.args, **kwargs)
            out, aux = with_aux(name, out, inputs) if has_aux else (out, None)
            value = scalar_output(name, out)
            if must_record([out], inputs):
                found = recorded_adjoints([out], [np.ones(value.shape)], inputs.tensors, only=True)
                value, gradients = out, inputs.build(iter(found))
            else:
                gradients = first_order(out, value, inputs)
                value = plain(value.reshape(()))
        return ((value, aux), gradients) if has_aux else (value, gradients)

    return evaluate


def first_order(out, value, inputs):
    """Gradients as plain values, by the compiled sweep."""
    traced = rt.trace() is not None  # then guards may read the rows
    is_number = type(out) is rt.Scalar
    with Sweep(retain=traced) as sweep:
        inputs.prepare(sweep)
        if is_recorded(out):
            plant(sweep, out, _ONE if is_number else np.ones((1, *value.shape), value.dtype))
            run_to(sweep, inputs.tensors)
        return inputs.gradients(sweep)


def grad(f, argnums=0, has_aux=False, *, argnames=None, holomorphic=False, enter=None):
    """Return a function that computes the gradient of `f`.

    Parameters
    ----------
    f : callable
        A function that returns a scalar; see `value_and_grad`.
    argnums : int or tuple of ints, optional
        Positions of the arguments to differentiate. A tuple gives a tuple of gradients.
    has_aux : bool, optional
        If true, `f` returns a tuple (value, aux); `aux` may be anything and is not differentiated.
    argnames : str or tuple of str, optional
        Names of the arguments to differentiate, in place of `argnums`.
    holomorphic : bool, optional
        If true, `f` is a holomorphic function of complex arguments, and the result is f′(z).
    enter : str or tuple of str, optional
        Installed packages that are entered beside those that are by default; () for none, see
        `tapegrad.config`.

    Returns
    -------
    callable
        A function with the arguments of `f` that returns the gradient, with the structure and
        shapes of the argument; or (gradient, aux) with `has_aux`.

    Raises
    ------
    TypeError, ValueError
        When called, as `value_and_grad`.

    See Also
    --------
    value_and_grad : The value too, at no further cost.
    elementwise_grad : The derivative of each element of an array function.
    jacobian : Derivatives of functions whose results are arrays.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(np.tanh)(0.0)
    1.0
    >>> tg.grad(lambda x, y: np.sum(x * y), argnums=(0, 1))(np.array([1.0, 2.0]), 3.0)
    (array([3., 3.]), 3.0)
    """
    if not has_aux and not holomorphic:
        if made := method_of_compiled("grad", f, argnums, argnames):
            return made
    if argnames is not None:
        options = dict(has_aux=has_aux, holomorphic=holomorphic, enter=enter)
        return by_names(grad, f, argnums, argnames, **options)
    options = dict(argnums=argnums, has_aux=has_aux, holomorphic=holomorphic, enter=enter)
    return transformed(grad, f, **options)(gradient("grad", f, **options))


def gradient(name: str, f, argnums, has_aux=False, holomorphic=False, enter=None):
    """As `grad` by positions, for the public function of a name, with which errors begin."""
    both = _with_gradient(name, f, argnums, has_aux, holomorphic, enter)

    def evaluate(*args, **kwargs):
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return evaluate


def elementwise_grad(f, argnums=0, *, argnames=None, enter=None):
    """Return a function that computes the derivative of each element of the result of `f`.

    Parameters
    ----------
    f : callable
        A function that works element by element: element k of its result depends on element k of
        the differentiated argument alone.
    argnums : int or tuple of ints, optional
        Positions of the arguments to differentiate.
    argnames : str or tuple of str, optional
        Names of the arguments to differentiate, in place of `argnums`.
    enter : str or tuple of str, optional
        Installed packages that are entered beside those that are by default; () for none, see
        `tapegrad.config`.

    Returns
    -------
    callable
        A function with the arguments of `f` that returns the derivatives, in the shape of the
        argument: the gradient of the sum of the result of `f`.

    Raises
    ------
    TypeError
        When called with differentiated arguments that are not numbers, as `value_and_grad`.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.elementwise_grad(np.sin)(np.array([0.0, np.pi]))
    array([ 1., -1.])
    """
    if argnames is not None:
        return by_names(elementwise_grad, f, argnums, argnames, enter=enter)

    entered = entering(f, enter)

    @transformed(elementwise_grad, f, argnums=argnums, enter=enter)
    def evaluate(*args, **kwargs):
        summed = lambda *a: np.sum(entered(*a, **kwargs))
        return gradient("elementwise_grad", summed, argnums)(*args)

    return evaluate
