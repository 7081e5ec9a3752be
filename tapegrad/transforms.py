"""Floor 6: derivatives of functions. `grad`, `value_and_grad`, `vjp`, `jacobian` and the like."""

from __future__ import annotations

import functools

import numpy as np

from .autograd import plant, run
from .differentiate import depends_on_others, recorded_adjoints
from .inputs import Inputs, plain, tree_build, tree_leaves
from .tape import store
from .tape.adjoint import Sweep
from .tensor import PUBLIC
from .tensor import runtime as rt
from .tensor.linking import unlisted
from .tensor.values import is_recorded, is_tensor, value_of


def value_and_grad(f, argnums=0, has_aux=False):
    """A function that returns `f`'s value and its gradient.

    `f` returns a scalar; `argnums` names the arguments to differentiate (an int, or a tuple for a
    tuple of gradients), which may be nested tuples, lists and dicts of floats and arrays. With
    `has_aux`, `f` returns (value, anything). Raises TypeError for other dtypes, ValueError for a
    result that is not a scalar.

    >>> import numpy as np
    >>> import tapegrad as tg
    >>> value, gradient = tg.value_and_grad(lambda x: np.sum(x**2))(np.array([1.0, 2.0]))
    >>> print(value, gradient)
    5.0 [2. 4.]
    """

    @functools.wraps(f)
    def evaluate(*args, **kwargs):
        with rt.recording():
            inputs = Inputs("grad", args, argnums)
            out = f(*inputs.args, **kwargs)
            out, aux = out if has_aux else (out, None)
            value = scalar_output("grad", out)
            if must_record([out], inputs):
                found = recorded_adjoints([out], [np.ones(value.shape)], inputs.tensors)
                value, gradients = out, inputs.build(iter(found))
            else:
                gradients = first_order(out, value, inputs)
                value = plain(value.reshape(()))
        return ((value, aux), gradients) if has_aux else (value, gradients)

    return evaluate


def first_order(out, value, inputs):
    """Gradients as plain values, by the compiled sweep."""
    with Sweep() as sweep:
        inputs.prepare(sweep)
        if is_recorded(out):
            plant(sweep, out, np.ones((1, *value.shape), value.dtype))
            run(sweep)
        return inputs.gradients(sweep)


def must_record(outs, inputs) -> bool:
    """Whether derivatives of these results must themselves be recorded.

    They must when the results depend on an input of somebody else: of a transform around this one,
    or a tensor made with `requires_grad=True`.
    """
    recorded = [out for out in outs if is_recorded(out)]
    if not recorded or not (inputs.nested or rt.is_nested() or store.leaves):
        return False
    return inputs.nested or depends_on_others(recorded, inputs.tensors)


def scalar_output(name, out) -> np.ndarray:
    """The value of an output that must be one number."""
    value = np.asarray(value_of(out))
    if value.size != 1 or value.dtype.kind not in "fiub":
        kind = f"shape {value.shape}" if value.dtype.kind != "O" else type(out).__name__
        raise ValueError(
            f"tapegrad.{name}: the function returned {kind}; a gradient is of a scalar: reduce it, "
            "for instance with sum(), or use jacobian or elementwise_grad"
        )
    return value


def grad(f, argnums=0, has_aux=False):
    """A function that returns the gradient of `f`, shaped like the argument; see `value_and_grad`.

    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.grad(np.tanh)(0.0)
    1.0
    """
    both = value_and_grad(f, argnums, has_aux)

    @functools.wraps(f)
    def evaluate(*args, **kwargs):
        value, gradients = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return evaluate


def elementwise_grad(f, argnums=0):
    """A function that returns the derivative of each element of `f` with respect to the same one.

    For `f` that works element by element: the gradient of the sum of its result.

    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.elementwise_grad(np.sin)(np.array([0.0, np.pi]))
    array([ 1., -1.])
    """

    @functools.wraps(f)
    def evaluate(*args, **kwargs):
        return grad(lambda *a: np.sum(f(*a, **kwargs)), argnums)(*args)

    return evaluate


def vjp(f, *primals):
    """The value of `f` and a function from adjoints of it to adjoints of the primals.

    >>> import numpy as np
    >>> import tapegrad as tg
    >>> value, back = tg.vjp(lambda x: 2 * x, np.array([1.0, 2.0]))
    >>> back(np.array([1.0, 10.0]))
    (array([ 2., 20.]),)
    """
    with rt.recording():
        inputs = Inputs("vjp", primals, tuple(range(len(primals))))
        out = f(*inputs.args)
        outs = [value for _, value in tree_leaves(out)]
        nested = must_record(outs, inputs)
    value = out if nested else tree_build(out, iter([plain(value_of(o)) for o in outs]))

    def back(adjoint):
        adjoints = [a for _, a in tree_leaves(adjoint)]
        if len(adjoints) != len(outs):
            raise ValueError(
                f"tapegrad.vjp: got {len(adjoints)} adjoints, the function has {len(outs)} results"
            )
        if nested:
            seeds = [seed for one, seed in zip(outs, adjoints, strict=True) if is_recorded(one)]
            recorded = [one for one in outs if is_recorded(one)]
            return inputs.build(iter(recorded_adjoints(recorded, seeds, inputs.tensors)))
        with Sweep(retain=True) as sweep:
            inputs.prepare(sweep)
            for one, seed in zip(outs, adjoints, strict=True):
                shape, given = np.shape(value_of(one)), np.asarray(value_of(seed))
                if given.shape != shape:
                    raise ValueError(
                        f"tapegrad.vjp: an adjoint has shape {given.shape}, the result {shape}"
                    )
                if is_recorded(one):
                    plant(sweep, one, given[None].astype(np.asarray(value_of(one)).dtype))
            run(sweep)
            return inputs.gradients(sweep)

    return value, back


#: Right-hand sides that one sweep of `jacobian` carries.
SEEDS = 8


def jacobian(f, argnums=0):
    """A function that returns the Jacobian of `f`: shape (*result, *argument).

    Rows are swept several at a time. Structure of arguments as in `grad`; `f` returns one array.

    >>> import numpy as np
    >>> import tapegrad as tg
    >>> tg.jacobian(lambda x: x**2)(np.array([1.0, 2.0]))
    array([[2., 0.],
           [0., 4.]])
    """

    @functools.wraps(f)
    def evaluate(*args, **kwargs):
        with rt.recording():
            inputs = Inputs("jacobian", args, argnums)
            out = f(*inputs.args, **kwargs)
            if not is_tensor(out):
                out = unlisted(out) if isinstance(out, (list, tuple)) else np.asarray(out)
            shape = np.shape(value_of(out))
            if must_record([out], inputs):
                return _recorded_jacobian(inputs, out, shape)
            size = max(1, np.size(value_of(out)))
            parts = [_rows(inputs, out, start) for start in range(0, size, SEEDS)]
        joined = [np.concatenate(rows) for rows in zip(*parts, strict=True)]
        return inputs.build(iter([plain(j.reshape(shape + j.shape[1:])) for j in joined]))

    return evaluate


def _recorded_jacobian(inputs, out, shape):
    """The Jacobian as recorded tensors, one row after the other."""
    rows = []
    for index in np.ndindex(shape):
        seed = np.zeros(shape)
        seed[index] = 1.0
        rows.append(recorded_adjoints([out], [seed], inputs.tensors))
    stacked = [PUBLIC["stack"](list(column)) for column in zip(*rows, strict=True)]
    return inputs.build(iter([PUBLIC["reshape"](s, shape + s.shape[1:]) for s in stacked]))


def _rows(inputs, out, start):
    """Rows start … start + SEEDS of the Jacobian, one array per input."""
    value = np.asarray(value_of(out))
    count = min(SEEDS, value.size - start)
    seeds = np.zeros((count, value.size), value.dtype)
    seeds[np.arange(count), start + np.arange(count)] = 1.0
    with Sweep(seeds=max(count, 1), retain=True) as sweep:
        inputs.prepare(sweep)
        if is_recorded(out) and count:
            plant(sweep, out, seeds.reshape(count, *value.shape))
            run(sweep)
        return [adjoint[:count] for adjoint in inputs.read(sweep)]
