"""Derivatives of functions as functions: gradients, products with Jacobians, Hessians."""

from __future__ import annotations

import functools
import weakref

import numpy as np

from .._core.operations import PUBLIC
from .._core.tape import store
from .._core.tape.reverse_sweep import Sweep
from .._core.tensor import runtime as rt
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import tree_build, tree_leaves
from .._core.tensor.values import array_of, is_recorded, is_tensor, records, value_of
from .._derivatives.forward_mode import tangents_of
from .._derivatives.inputs import Inputs, InputTensors, plain, scalar_output
from .._derivatives.recorded_reverse import (
    adjoints_and_inputs,
    depends_on_others,
    recorded_adjoints,
)
from .._derivatives.reverse_mode import plant, run
from .._derivatives.second_order import product_with_hessian
from .compiled_functions import method_of_compiled
from .complex_derivatives import as_complex_as, holomorphic_value_and_grad, refuse_complex
from .named_arguments import by_names

#: The seed of a number.
_ONE = np.ones(1)


def value_and_grad(f, argnums=0, has_aux=False, *, argnames=None, holomorphic=False):
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
        options = dict(has_aux=has_aux, holomorphic=holomorphic)
        return by_names(value_and_grad, f, argnums, argnames, **options)
    if holomorphic:
        return holomorphic_value_and_grad(value_and_grad, f, argnums, has_aux)

    @functools.wraps(f)
    def evaluate(*args, **kwargs):
        with rt.recording():
            inputs = Inputs("grad", args, argnums)
            out = f(*inputs.args, **kwargs)
            out, aux = with_aux("grad", out, inputs) if has_aux else (out, None)
            value = scalar_output("grad", out)
            if must_record([out], inputs):
                found = recorded_adjoints([out], [np.ones(value.shape)], inputs.tensors, only=True)
                value, gradients = out, inputs.build(iter(found))
            else:
                gradients = first_order(out, value, inputs)
                value = plain(value.reshape(()))
        return ((value, aux), gradients) if has_aux else (value, gradients)

    if not has_aux:
        _note_transform(evaluate, "value_and_grad", f, argnums)
    return evaluate


def _note_transform(made, kind: str, f, argnums) -> None:
    """Attach the description of a function, for `compile`; wrappers that copy it do not match."""
    made._transform = weakref.ref(made), kind, f, argnums


def transform_of(f) -> tuple | None:
    """The (kind, function, argnums) of what `grad` or `value_and_grad` gave; None for others."""
    made, *transform = getattr(f, "_transform", (lambda: None,))
    return tuple(transform) if made() is f else None


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


def first_order(out, value, inputs):
    """Gradients as plain values, by the compiled sweep."""
    traced = rt.trace() is not None  # then guards may read the rows
    is_number = type(out) is rt.Scalar
    with Sweep(retain=traced) as sweep:
        inputs.prepare(sweep)
        if is_recorded(out):
            plant(sweep, out, _ONE if is_number else np.ones((1, *value.shape), value.dtype))
            run(sweep)
        return inputs.gradients(sweep)


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


def grad(f, argnums=0, has_aux=False, *, argnames=None, holomorphic=False):
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
        If true, `f` is a holomorphic function of complex arguments, and the result is f′.

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
        return by_names(grad, f, argnums, argnames, has_aux=has_aux, holomorphic=holomorphic)
    both = value_and_grad(f, argnums, has_aux, holomorphic=holomorphic)

    @functools.wraps(f)
    def evaluate(*args, **kwargs):
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    if not has_aux and not holomorphic:
        _note_transform(evaluate, "grad", f, argnums)
    return evaluate


def elementwise_grad(f, argnums=0, *, argnames=None):
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
        return by_names(elementwise_grad, f, argnums, argnames)

    @functools.wraps(f)
    def evaluate(*args, **kwargs):
        return grad(lambda *a: np.sum(f(*a, **kwargs)), argnums)(*args)

    return evaluate


def vjp(f, *primals, has_aux=False):
    """Compute the value of `f`, and a function for products of vectors with its Jacobian.

    Parameters
    ----------
    f : callable
        A function of floats, arrays, and nested tuples, lists and dicts of them, with such a
        result.
    *primals
        The arguments of `f`. All of them are differentiated.
    has_aux : bool, optional
        If true, `f` returns a tuple (value, aux); `aux` may be anything and is not differentiated.

    Returns
    -------
    value
        The result of `f`.
    vjp_function : callable
        A function of one adjoint, with the structure and shapes of `value`. It returns a tuple
        with the adjoint of each primal: the adjoint times the Jacobian. It may be called often.
    aux
        Only with `has_aux`.

    Raises
    ------
    TypeError
        If a result is not numeric, such as None.
    ValueError
        If the adjoint does not have the structure and shapes of the value.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> value, back = tg.vjp(lambda x: 2 * x, np.array([1.0, 2.0]))
    >>> back(np.array([1.0, 10.0]))
    (array([ 2., 20.]),)
    """
    if not has_aux and (compiled := method_of_compiled("vjp", f)):
        return compiled(*primals)
    with rt.recording():
        inputs = Inputs("vjp", primals, tuple(range(len(primals))))
        out = f(*inputs.args)
        out, aux = with_aux("vjp", out, inputs) if has_aux else (out, None)
        outs = results_of("vjp", out)
        nested = must_record(outs, inputs)
    value = out if nested else tree_build(out, iter(map(copied, outs)))

    def back(adjoint):
        adjoints = adjoints_like(outs, as_complex_as(adjoint, out))
        recorded = nested or records(*adjoints)
        return inputs.build(iter(pulled(outs, inputs, adjoints, recorded)))

    return (value, back, aux) if has_aux else (value, back)


def adjoints_like(outs, adjoint) -> list:
    """The leaves of an adjoint, one for each result."""
    adjoints = [unlisted(a) for _, a in tree_leaves(adjoint)]
    if len(adjoints) != len(outs):
        raise ValueError(
            f"tapegrad.vjp: got {len(adjoints)} adjoints, the function has {len(outs)} results"
        )
    for one, seed in zip(outs, adjoints, strict=True):
        shape, given = np.shape(value_of(one)), np.shape(value_of(seed))
        if given != shape:
            raise ValueError(f"tapegrad.vjp: an adjoint has shape {given}, the result {shape}")
    return adjoints


def copied(result):
    """A result as the caller expects it, who may write to it: the tape has a copy."""
    return plain(np.array(value_of(result)))


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
        run(sweep)
        return inputs.flat(sweep)


def pushed(outs, inputs, seeds, nested) -> list:
    """Tangents of results for those of inputs; both have an axis of directions first."""
    found = iter(
        tangents_of([out for out in outs if is_recorded(out)], inputs.tensors, seeds, nested)
    )
    count = len(value_of(seeds[0])) if seeds else 1
    return [
        next(found) if is_recorded(out) else np.zeros((count, *np.shape(value_of(out))))
        for out in outs
    ]


def jvp(f, primals, tangents):
    """Compute the value of `f` and its derivative along a direction, by forward mode.

    Parameters
    ----------
    f : callable
        A function of floats, arrays, and nested tuples, lists and dicts of them, with such a
        result.
    primals : tuple
        The arguments of `f`.
    tangents : tuple
        The direction: one entry for each primal, with its structure and shapes.

    Returns
    -------
    value
        The result of `f`.
    tangent
        The Jacobian of `f` times the tangents, with the structure and shapes of `value`.

    Raises
    ------
    TypeError
        If `primals` or `tangents` is not a tuple or list, or a result is not numeric.
    ValueError
        If the tangents do not have the structure and shapes of the primals.

    Notes
    -----
    Forward mode traverses the recorded tape once from its oldest row and carries tangents beside
    values. It costs a few evaluations of `f`, whatever the number of results.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.jvp(np.sin, (0.0,), (2.0,))
    (0.0, 2.0)
    """
    for name, given in (("primals", primals), ("tangents", tangents)):
        if not isinstance(given, (tuple, list)):
            raise TypeError(
                f"tapegrad.jvp: {name} has type {type(given).__name__}; it must be a tuple with "
                "one entry for each argument of the function"
            )
    if compiled := method_of_compiled("jvp", f):
        return compiled(tuple(primals), tuple(tangents))
    with rt.recording():
        inputs = Inputs("jvp", tuple(primals), tuple(range(len(primals))))
        tangents = as_complex_as(tuple(tangents), tuple(primals))
        seeds = directions("jvp", inputs, tuple(primals), tangents)
        out = f(*inputs.args)
        outs = results_of("jvp", out)
        nested = must_record(outs, inputs)
        found = pushed(outs, inputs, seeds, nested)
    found = [tangent[0] for tangent in found]
    if not nested:
        out = tree_build(out, iter(map(copied, outs)))
    if not any(map(is_recorded, found)):
        found = [plain(value_of(tangent)) for tangent in found]
    return out, tree_build(out, iter(found))


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


def hvp(f, has_aux=False):
    """Return a function that computes products of the Hessian of `f` with vectors.

    Parameters
    ----------
    f : callable
        A function f(x, *others) that returns a scalar. `x` is a float, an array, or nested tuples,
        lists and dicts of them.
    has_aux : bool, optional
        If true, `f` returns a tuple (scalar, aux); `aux` may be anything.

    Returns
    -------
    callable
        A function of (x, v, *others) that returns the Hessian at `x` times `v`, in the structure
        and shapes of `x`; or (product, aux) with `has_aux`. `scipy.optimize.minimize` takes it as
        `hessp`.

    Raises
    ------
    TypeError
        When called with a complex `x` or `v`.
    ValueError
        When called with a `v` that does not have the structure and shapes of `x`, or if `f` does
        not return a scalar.

    Notes
    -----
    A product costs a few gradients, whatever the size of `x`. A forward sweep carries tangents of
    the rows, and one reverse sweep carries adjoints and their tangents. Where rows write in place,
    or a product would not be finite, the product is a gradient of a gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 0.5]))
    array([6., 6.])
    """
    if not has_aux and (compiled := method_of_compiled("hvp", f)):
        return compiled

    @functools.wraps(f)
    def evaluate(x, v, *others):
        refuse_complex("hvp", (x, v))
        leaves = [leaf for _, leaf in (*tree_leaves(x), *tree_leaves(v))]
        nested = rt.trace() is not None or records(*leaves)
        try:
            product, *aux = (_nested if nested else _product)(f, x, v, others, has_aux)
        except NotImplementedError:  # as for writes to an input that is not in C order
            product, *aux = _nested(f, x, v, others, has_aux)
        return (product, *aux) if has_aux else product

    del evaluate.__wrapped__  # its arguments are others than those of `f`
    return evaluate


def _nested(f, x, v, others, has_aux) -> tuple:
    """The Hessian of `f` at x times v as a gradient of a gradient, and what else `f` returns."""
    _, back, *aux = vjp(lambda x: grad(f, 0, has_aux)(x, *others), x, has_aux=has_aux)
    return back(v)[0], *aux


def _product(f, x, v, others, has_aux) -> tuple:
    """The Hessian of `f` at x times v, neither of which is recorded, and what else `f` returns."""
    with rt.recording():
        inputs = Inputs("vjp", (x,), 0)
        out = f(*inputs.args, *others)
        out, *aux = with_aux("grad", out, inputs) if has_aux else (out,)
        scalar_output("grad", out)
        found = along_hessian(out, inputs, adjoints_like(inputs.tensors, v))
        return inputs.build(iter(found)), *aux


def along_hessian(out, inputs, v) -> list:
    """The matrix of second derivatives of a number times v, which has an entry for each input.

    By a sweep of second order if possible, else by a gradient of the recorded gradient.
    """
    nested, recorded = must_record([out], inputs), is_recorded(out)
    if recorded and not nested:
        pairs = zip(v, inputs.tensors, strict=True)
        seeds = [np.asarray(value_of(one), array_of(tensor).dtype) for one, tensor in pairs]
        found = product_with_hessian(out, inputs, seeds)
        if found is not None:
            return found
    outs = [out] if recorded else []
    ones = [np.ones(np.shape(value_of(one))) for one in outs]
    gradient, again = adjoints_and_inputs(outs, ones, inputs.tensors)
    return pulled(gradient, InputTensors(again), v, nested)
