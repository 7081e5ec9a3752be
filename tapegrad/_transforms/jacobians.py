"""Whole matrices of derivatives, and products of derivatives with vectors."""

from __future__ import annotations

import inspect

import numpy as np

from .._core.operations import PUBLIC
from .._core.tape.sweeps import Sweep
from .._core.tensor import runtime as rt
from .._core.tensor.copies import unlisted
from .._core.tensor.pytree import tree_build, tree_leaves
from .._core.tensor.values import (
    array_of,
    dtype_of,
    is_recorded,
    records,
    scalar_of,
    shape_of,
    value_of,
)
from .._derivatives.forward_mode import product_with_hessian
from .._derivatives.inputs import Inputs, InputTensors, plain, scalar_output
from .._derivatives.recorded_reverse import adjoints_and_inputs, plant, recorded_adjoints, run_to
from .._derivatives.tape_traversal import settled
from .._entering.entering import entering
from .gradients import (
    adjoints_like,
    as_complex_as,
    by_names,
    copied,
    directions,
    gradient,
    method_of_compiled,
    must_record,
    pulled,
    pushed,
    refuse_complex,
    refuse_two_complex,
    results_of,
    transformed,
    with_aux,
)

# --- derivative products --------------------------------------------------------------------------
# Products of derivatives with vectors: of Jacobians from either side, of Hessians.

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


# --- jacobians ------------------------------------------------------------------------------------
# Whole matrices of derivatives: `jacobian`, `hessian`.

#: Right-hand sides that one sweep of a Jacobian carries.
SEEDS = 8


def jacobian(f, argnums=0, has_aux=False, *, argnames=None, enter=None):
    """Return a function that computes the Jacobian of `f`.

    Parameters
    ----------
    f : callable
        A function that returns an array, a list that NumPy would convert to one, or arrays in
        tuples and dicts. Its arguments may have the structures that `value_and_grad` takes.
    argnums : int or tuple of ints, optional
        Positions of the arguments to differentiate. A tuple gives a tuple of Jacobians.
    has_aux : bool, optional
        If true, `f` returns a tuple (result, aux); `aux` may be anything and is not differentiated.
    argnames : str or tuple of str, optional
        Names of the arguments to differentiate, in place of `argnums`.
    enter : str or tuple of str, optional
        Installed packages that are entered beside those that are by default; () for none, see
        `tapegrad.config`.

    Returns
    -------
    callable
        A function with the arguments of `f` that returns the Jacobian, of shape (*result,
        *argument); or (Jacobian, aux) with `has_aux`. Structured results and arguments give
        structured Jacobians; the outer structure is that of the result.

    Raises
    ------
    TypeError
        When called with differentiated arguments that are not numbers, as `value_and_grad`, and if
        a result is not numeric, such as None.

    Notes
    -----
    The Jacobian is computed by reverse mode, several of its rows in one sweep, so its cost grows
    with the number of results. The Jacobian of a compiled function (`tg.compile`) uses forward mode
    if there are at least as many results as arguments.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.jacobian(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """
    if not has_aux and (made := method_of_compiled("jacobian", f, argnums, argnames)):
        return made
    if argnames is not None:
        return by_names(jacobian, f, argnums, argnames, has_aux=has_aux, enter=enter)

    entered = entering(f, enter)

    @transformed(jacobian, f, argnums=argnums, has_aux=has_aux, enter=enter)
    def evaluate(*args, **kwargs):
        return _matrices("jacobian", lambda *a: entered(*a, **kwargs), args, argnums, has_aux)

    return evaluate


def hessian(f, argnums=0, has_aux=False, *, argnames=None, enter=None):
    """Return a function that computes the Hessian of `f`, the matrix of its second derivatives.

    Parameters
    ----------
    f : callable
        A function that returns a scalar. Its arguments may have the structures that
        `value_and_grad` takes.
    argnums : int or tuple of ints, optional
        Positions of the arguments to differentiate. A tuple gives a tuple of tuples of blocks.
    has_aux : bool, optional
        If true, `f` returns a tuple (scalar, aux); `aux` may be anything and is not differentiated.
    argnames : str or tuple of str, optional
        Names of the arguments to differentiate, in place of `argnums`.
    enter : str or tuple of str, optional
        Installed packages that are entered beside those that are by default; () for none, see
        `tapegrad.config`.

    Returns
    -------
    callable
        A function with the arguments of `f` that returns the Hessian, of shape (*argument,
        *argument); or (Hessian, aux) with `has_aux`. Structured arguments give blocks in the
        structure of the arguments, each of which has that structure again.

    Raises
    ------
    TypeError
        When called with complex arguments.
    ValueError
        When called, if `f` returns something else than a scalar.

    See Also
    --------
    hvp : Products of the Hessian with vectors, at the cost of a few gradients.

    Notes
    -----
    The Hessian is the Jacobian of the gradient. It costs about one gradient of a gradient per
    element of the argument.

    Examples
    --------
    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.hessian(lambda x: x[0] * x[1] ** 2)(np.array([1.0, 3.0]))
    array([[0., 6.],
           [6., 2.]])
    """
    if not has_aux and (made := method_of_compiled("hessian", f, argnums, argnames)):
        return made
    if argnames is not None:
        return by_names(hessian, f, argnums, argnames, has_aux=has_aux, enter=enter)

    entered = entering(f, enter)

    @transformed(hessian, f, argnums=argnums, has_aux=has_aux, enter=enter)
    def evaluate(*args, **kwargs):
        numbers = [argnums] if isinstance(argnums, (int, np.integer)) else argnums
        refuse_complex("hessian", [args[k] for k in numbers if -len(args) <= k < len(args)])
        of_first = gradient("hessian", entered, argnums, has_aux)
        return _matrices("hessian", lambda *a: of_first(*a, **kwargs), args, argnums, has_aux)

    return evaluate


def _matrices(name, f, args, argnums, has_aux):
    """The Jacobians of each result by each argument, results' structure outside."""
    with rt.recording():
        inputs = Inputs(name, args, argnums)
        out = f(*inputs.args)
        out, aux = with_aux(name, out, inputs) if has_aux else (out, None)
        if name == "jacobian" and isinstance(out, list):
            out = unlisted(out)
        refuse_two_complex(name, args, argnums, out)
        outs = results_of(name, out)
        nested = must_record(outs, inputs)
        blocks = blocks_of(name, outs, inputs, nested)
    blocks = [[_leaf(block) for block in row] for row in blocks]
    matrices = tree_build(out, iter([inputs.build(iter(row)) for row in blocks]))
    return (matrices, aux) if has_aux else matrices


def _leaf(block):
    """A block as results have it: a number if it has no axes, recorded or plain."""
    return scalar_of(block) if is_recorded(block) else plain(array_of(block))


def blocks_of(name, outs, inputs, recorded: bool) -> list[list]:
    """The Jacobian of each result by each input."""
    if name == "jacobian" and recorded and _is_tall(outs, inputs.tensors):
        try:
            return _forward_if_finite(outs, inputs)
        except NotImplementedError:  # an operation has no forward derivative
            pass
    return [rows_of(one, inputs, recorded) for one in outs]


def _is_tall(outs, tensors) -> bool:
    """Whether a program for the Jacobian is much smaller in forward mode.

    Reverse mode records a sweep for each element of the results, forward mode one traversal.
    """
    if rt.trace() is None or any(dtype_of(one) != np.float64 for one in (*outs, *tensors)):
        return False
    rows, columns = (sum(array_of(one).size for one in each) for each in (outs, tensors))
    return rows > 1 and rows >= columns > 0


def _forward_if_finite(outs, inputs) -> list[list]:
    """The same in forward mode; in reverse mode if an infinity or a NaN occurs.

    There the modes may differ, and reverse mode is that of the function when it is not compiled.
    """
    blocks: list[list] = []

    def derive() -> list:
        if rt.trace().careful:
            blocks[:] = [rows_of(one, inputs, True) for one in outs]
        else:
            blocks[:] = columns_of(outs, inputs, True)
        return [block for row in blocks for block in row]

    settled(derive)
    return blocks


def rows_of(out, inputs, recorded: bool) -> list:
    """The Jacobian of one result by each input, in reverse: a sweep for some rows at a time."""
    shape = shape_of(out)
    if not is_recorded(out) or not np.prod(shape, dtype=np.int64):
        return [np.zeros(shape + t.shape, array_of(t).dtype) for t in inputs.tensors]
    if recorded:
        joined = settled(lambda: _recorded_rows(out, inputs))
    else:
        seeds = _units(out)
        parts = [_rows(inputs, out, seeds[k : k + SEEDS]) for k in range(0, len(seeds), SEEDS)]
        joined = [np.concatenate(rows) for rows in zip(*parts, strict=True)]
    return [PUBLIC["reshape"](rows, shape + rows.shape[1:]) for rows in joined]


def _recorded_rows(out, inputs) -> list:
    rows = [recorded_adjoints([out], [seed], inputs.tensors, only=True) for seed in _units(out)]
    return [PUBLIC["stack"](list(column)) for column in zip(*rows, strict=True)]


def _units(tensor):
    """Unit vectors of a tensor's shape, one for each element."""
    value = array_of(tensor)
    return np.eye(value.size, dtype=value.dtype).reshape(value.size, *value.shape)


def _rows(inputs, out, seeds) -> list:
    """Rows of the Jacobian for some seeds, one array per input."""
    with Sweep(seeds=len(seeds), retain=True) as sweep:
        inputs.prepare(sweep)
        plant(sweep, out, seeds)
        run_to(sweep, inputs.tensors)
        return inputs.read(sweep)


def columns_of(outs, inputs, recorded: bool) -> list[list]:
    """The Jacobian of each result by each input, by forward mode: all directions at once."""
    sizes = [array_of(tensor).size for tensor in inputs.tensors]
    seeds, start = [], 0
    for tensor, size in zip(inputs.tensors, sizes, strict=True):
        seed = np.zeros((sum(sizes), *tensor.shape), array_of(tensor).dtype)
        seed[start : start + size] = _units(tensor)
        seeds.append(seed)
        start += size
    blocks = []
    for tangent in pushed(outs, inputs, seeds, recorded):
        matrix = PUBLIC["moveaxis"](tangent, 0, -1)
        ends = np.cumsum([0, *sizes])
        blocks.append(
            [
                PUBLIC["reshape"](matrix[..., low:high], tangent.shape[1:] + tensor.shape)
                for low, high, tensor in zip(ends, ends[1:], inputs.tensors, strict=False)
            ]
        )
    return blocks
