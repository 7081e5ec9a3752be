"""Floor 6: whole matrices of derivatives: `jacobian`, `hessian`."""

from __future__ import annotations

import functools

import numpy as np

from .autograd import plant, run
from .differentiate import recorded_adjoints
from .inputs import Inputs, plain
from .tape.adjoint import Sweep
from .tensor import PUBLIC
from .tensor import runtime as rt
from .tensor.linking import unlisted
from .tensor.values import is_recorded, is_tensor, value_of
from .transforms import must_record

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
