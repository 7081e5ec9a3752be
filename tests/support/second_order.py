"""Products with Hessians by the sweep of second order, held against a gradient of a gradient."""

import contextlib

import numpy as np

import tapegrad as tg
from tapegrad._core.ops.table import TABLE, Pointwise
from tapegrad._core.tensor.pytree import tree_leaves
from tapegrad._transforms import jacobians

#: Element-wise operations of the table.
OPS = [
    op
    for op in TABLE.values()
    if isinstance(op, Pointwise) and "complex_" not in op.name and not op.apart
]
names = [op.name for op in OPS]


def public(op):
    return getattr(tg, op.name)


def inside(op, k, shape, rng, dtype=np.float64):
    """Elements in the domain of input k."""
    low, high = op.domain[k]
    return np.asarray(low + (high - low) * rng.random(shape), dtype)


def gradient_of_gradient(f, x, v):
    """The product by adjoints that are recorded, and swept."""
    with np.errstate(all="ignore"):
        return tg.vjp(tg.grad(f), x)[1](v)[0]


@contextlib.contextmanager
def counted():
    """Counts products that the sweep of second order gave, and those that it left."""
    counts = {"given": 0, "left": 0}
    before = jacobians.product_with_hessian

    def counting(*arguments):
        found = before(*arguments)
        counts["left" if found is None else "given"] += 1
        return found

    jacobians.product_with_hessian = counting
    try:
        yield counts
    finally:
        jacobians.product_with_hessian = before


def check(f, x, v, tolerance=None, given=True, noise=1e-12):
    """hvp against the gradient of the gradient; `given` says by which way it has to be.

    `noise` is what rounding makes of products that are 0 but for it.
    """
    with counted() as counts, np.errstate(all="ignore"):
        found = tg.hvp(f)(x, v)
    if given is not None:
        assert counts == {"given": int(given), "left": int(not given)}
    wanted = gradient_of_gradient(f, x, v)
    pairs = list(zip(tree_leaves(found), tree_leaves(wanted), strict=True))
    for (place, one), (same, two) in pairs:
        assert place == same
        assert type(one) is type(two)
        one, two = np.asarray(one), np.asarray(two)
        assert one.dtype == two.dtype
        assert one.shape == two.shape
        assert one.size < 2 or one.strides == two.strides
        limit = tolerance or (1e-9 if one.dtype == np.float64 else 2e-3)
        scale = np.max(np.abs(two[np.isfinite(two)]), initial=0.0)
        floor = limit * scale + noise * (1.0 if one.dtype == np.float64 else 1e9)
        np.testing.assert_allclose(one, two, rtol=limit, atol=floor)
    return found
