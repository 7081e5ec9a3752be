"""Products of derivatives with vectors: of Jacobians from either side, of Hessians."""

from __future__ import annotations

import inspect

import numpy as np

from .._core.tensor import runtime as rt
from .._core.tensor.pytree import tree_build, tree_leaves
from .._core.tensor.values import array_of, is_recorded, records, value_of
from .._derivatives.forward_mode import product_with_hessian
from .._derivatives.inputs import Inputs, InputTensors, plain, scalar_output
from .._derivatives.recorded_reverse import adjoints_and_inputs
from .._entering.entering import entering
from .gradients import (
    adjoints_like,
    as_complex_as,
    copied,
    directions,
    gradient,
    method_of_compiled,
    must_record,
    pulled,
    pushed,
    refuse_complex,
    results_of,
    transformed,
    with_aux,
)

#: Those of what `hvp` returns are others than those of its function.
_ARGUMENTS_OF_HVP = inspect.signature(lambda x, v, *others: None)


def vjp(f, *primals, has_aux=False, enter=None):
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
    enter : str or tuple of str, optional
        Installed packages that are entered beside those that are by default; () for none, see
        `tapegrad.config`.

    Returns
    -------
    value
        The result of `f`.
    vjp_function : callable
        A function of one adjoint, with the structure and shapes of `value`. It returns a tuple with
        the adjoint of each primal: the adjoint times the Jacobian. It may be called several times.
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
        out = entering(f, enter)(*inputs.args)
        out, aux = with_aux("vjp", out, inputs) if has_aux else (out, None)
        outs = results_of("vjp", out)
        nested = must_record(outs, inputs)
    value = out if nested else tree_build(out, iter(map(copied, outs)))

    def back(adjoint):
        adjoints = adjoints_like(outs, as_complex_as(adjoint, out))
        recorded = nested or records(*adjoints)
        return inputs.build(iter(pulled(outs, inputs, adjoints, recorded)))

    return (value, back, aux) if has_aux else (value, back)


def jvp(f, primals, tangents, *, enter=None):
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
    enter : str or tuple of str, optional
        Installed packages that are entered beside those that are by default; () for none, see
        `tapegrad.config`.

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
    Forward mode traverses the recorded tape once from its oldest row and propagates tangents along
    with the values. It costs a few evaluations of `f`, independent of the number of results.

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
        out = entering(f, enter)(*inputs.args)
        outs = results_of("jvp", out)
        nested = must_record(outs, inputs)
        found = pushed(outs, inputs, seeds, nested)
    found = [tangent[0] for tangent in found]
    if not nested:
        out = tree_build(out, iter(map(copied, outs)))
    if not any(map(is_recorded, found)):
        found = [plain(value_of(tangent)) for tangent in found]
    return out, tree_build(out, iter(found))


def hvp(f, has_aux=False, *, enter=None):
    """Return a function that computes products of the Hessian of `f` with vectors.

    Parameters
    ----------
    f : callable
        A function f(x, *others) that returns a scalar. `x` is a float, an array, or nested tuples,
        lists and dicts of them.
    has_aux : bool, optional
        If true, `f` returns a tuple (scalar, aux); `aux` may be anything.
    enter : str or tuple of str, optional
        Installed packages that are entered beside those that are by default; () for none, see
        `tapegrad.config`.

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
    A product costs a few gradients, independent of the size of `x`. A forward sweep computes the
    tangents of the rows, and one reverse sweep computes adjoints and their tangents. If rows write
    in place, or the product would not be finite, it is computed as the gradient of a gradient.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.hvp(lambda x: np.sum(x**3))(np.array([1.0, 2.0]), np.array([1.0, 0.5]))
    array([6., 6.])
    """
    if not has_aux and (compiled := method_of_compiled("hvp", f)):
        return compiled

    entered = entering(f, enter)

    @transformed(hvp, f, has_aux=has_aux, enter=enter)
    def evaluate(x, v, *others):
        refuse_complex("hvp", (x, v))
        leaves = [leaf for _, leaf in (*tree_leaves(x), *tree_leaves(v))]
        nested = rt.trace() is not None or records(*leaves)
        try:
            product, *aux = (_nested if nested else _product)(entered, x, v, others, has_aux)
        except NotImplementedError:  # as for writes to an input that is not in C order
            product, *aux = _nested(entered, x, v, others, has_aux)
        return (product, *aux) if has_aux else product

    evaluate.__signature__ = _ARGUMENTS_OF_HVP
    return evaluate


def _nested(f, x, v, others, has_aux) -> tuple:
    """The Hessian of `f` at x times v as a gradient of a gradient, and what else `f` returns."""
    _, back, *aux = vjp(lambda x: gradient("hvp", f, 0, has_aux)(x, *others), x, has_aux=has_aux)
    return back(v)[0], *aux


def _product(f, x, v, others, has_aux) -> tuple:
    """The Hessian of `f` at x times v, neither of which is recorded, and what else `f` returns."""
    with rt.recording():
        inputs = Inputs("hvp", (x,), 0)
        out = f(*inputs.args, *others)
        out, *aux = with_aux("hvp", out, inputs) if has_aux else (out,)
        scalar_output("hvp", out)
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
