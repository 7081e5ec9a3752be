"""Gradients: functions to functions of their derivatives by arguments of any structure."""

from __future__ import annotations

import numpy as np

from .._core.tape.reverse_sweep import Sweep
from .._core.tensor import runtime as rt
from .._core.tensor.values import is_recorded
from .._derivatives.hooked import run_to
from .._derivatives.inputs import Inputs, plain, scalar_output
from .._derivatives.recorded_reverse import recorded_adjoints
from .._derivatives.reverse_mode import plant
from .._entering.entering import entering
from .compiled_functions import method_of_compiled
from .complex_derivatives import holomorphic_value_and_grad
from .function_results import must_record, with_aux
from .named_arguments import by_names
from .transformed import transformed

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
        summed = lambda *a: np.sum(entered(*a, **kwargs))  # noqa: E731
        return gradient("elementwise_grad", summed, argnums)(*args)

    return evaluate
