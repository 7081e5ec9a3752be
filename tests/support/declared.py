"""What the derived tests of a declaration of whole arrays are made of.

A check gets an operation, an example of it as a function and a point, and raises AssertionError.
Derivatives are judged by differences of the example on plain arrays. Ways that a check compares
take turns over the examples (`extent.some`), by the text that is the name of the function.
"""

import contextlib
import dataclasses
import warnings

import numpy as np
from extent import some

import tapegrad as tg
from tapegrad._core.ops.sample_inputs import called
from tapegrad._core.ops.table import BY_CODE, TABLE, Structural
from tapegrad._core.tape.tape import needed
from tapegrad._core.tape.workspace import compiled
from tapegrad._core.tensor.registry import load_families
from tapegrad._derivatives.recorded_reverse import site_of
from tapegrad._derivatives.tape_traversal import FORWARD, REVERSE, Traversal

#: Operations with rules of their own.
load_families()
OPS = [op for op in TABLE.values() if isinstance(op, Structural) and op.vjp is not None]
#: (name, example, shape) of each of their examples.
EXAMPLES = [
    (op.name, text, shape)
    for op in OPS
    for text, shape in [(op.example, (5,)), *[(text, (3, 4)) for text in op.examples]]
]


def point(op, shape, rng):
    """Elements in the operation's domain, far from each other."""
    low, high = op.domain
    count = int(np.prod(shape))
    return rng.permutation(low + (high - low) * (np.arange(count) + 0.5) / max(count, 1)).reshape(
        shape
    )


def weights_of(f, x, rng):
    out = np.asarray(f(x))
    return np.asarray(rng.normal(size=out.shape), out.dtype)


def objective(f, weights):
    """A function of one number, with second derivatives wherever f passes anything on."""
    return lambda x: np.sum(np.sin(f(x)) * weights)


def difference(f, x, v, dtype=np.float64):
    """The derivative of f at x along v, by differences fit for results of a dtype."""
    h = 3e-4 if dtype == np.float64 else 5e-2
    at = lambda k: np.asarray(f(x + k * h * v), np.float64)
    return (8.0 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12.0 * h)


def close(found, wanted, dtype=np.float64, loose=1.0):
    tolerance = loose * (1e-8 if dtype == np.float64 else 2e-3)
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.shape == wanted.shape
    assert np.all(np.isfinite(found)), "a derivative is NaN or infinite"
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


# --- rules as they are --------------------------------------------------------------------------


def sites(op, f, x):
    """For each row of an operation in f(x): its site, operands, output, and an adjoint's dtype."""
    found = []
    tensor = tg.tensor(x, requires_grad=True)
    made = f(tensor)
    traversal = Traversal(())
    for number in needed(traversal.reader, [made._id]) if made._id >= 0 else ():
        if traversal.operation(number)[0] == op.name:
            site = site_of(op, traversal.read(number))
            value = traversal.number(number) if site.out is None else np.array(site.out)
            operands = [_plain(traversal, *operand) for operand in site.operands]
            found.append((site, operands, np.reshape(value, site.shape)))
    return found


def _plain(traversal, source, what):
    if source >= 0 and what is None:
        return traversal.number(source)
    return np.array(what)


def adjoints(op, site, g, out, operands):
    """What the rule of an operation gives, every entry computed; adjoints may ask for a basis."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "tapegrad.*arbitrary", RuntimeWarning)
        parts = op.vjp(REVERSE, g, out, *operands, **site.static)
        parts = [part() if callable(part) else part for part in parts]
    return [None if part is None else np.asarray(tg.asarray(part).numpy()) for part in parts]


def check_rules_of_arrays(op, f, x, rng):
    """Called with arrays: nothing is written to, one call serves several adjoints, what a rule is
    said not to read it does not, and the vjp is the transpose of the jvp."""
    for site, operands, out in sites(op, f, x):
        if op.layout == "links":  # its views are of the row's own array, which is not `out`
            out = site.out
        gs = np.asarray(rng.normal(size=(3, *site.shape)), np.asarray(out).dtype)
        for array in (gs, out, *operands):
            if isinstance(array, np.ndarray) and array is not site.out:
                array.flags.writeable = False
        one_by_one = [adjoints(op, site, g, out, operands) for g in gs]
        together = adjoints(op, site, gs, out, operands)
        hidden = [
            what if op.used >> k + 1 & 1 or np.ndim(what) == 0 else np.full_like(what, np.nan)
            for k, what in enumerate(operands)
        ]
        unread = adjoints(op, site, gs, out, hidden)
        for k, part in enumerate(together):
            if part is not None:
                close(part, np.stack([one[k] for one in one_by_one]))
                close(unread[k], part)
        tangents = [
            None if part is None else np.asarray(rng.normal(size=part.shape)) for part in together
        ]
        if op.jvp is None:
            continue  # forward mode transposes the other
        with np.errstate(all="ignore"):
            pushed = op.jvp(FORWARD, tangents, out, *operands, **site.static)
        pushed = np.reshape(np.asarray(tg.asarray(pushed).numpy()), gs.shape)
        pairs = [(p, t) for p, t in zip(together, tangents, strict=True) if p is not None]
        back = sum(np.sum(part * t) for part, t in pairs)
        np.testing.assert_allclose(np.sum(gs * pushed), back, rtol=1e-5, atol=1e-5)


@contextlib.contextmanager
def declared(op):
    """Another declaration of an operation's name, for a time; kernels are compiled anew."""
    tg.tensor(0.0)  # starts what the compiled sweep needs
    before, kernels = TABLE[op.name], compiled().structural
    address = kernels[op.code]
    TABLE[op.name] = BY_CODE[op.code] = op
    kernels[op.code] = 0
    try:
        yield op
    finally:
        TABLE[op.name] = BY_CODE[op.code] = before
        kernels[op.code] = address


def without_kernel(op):
    return declared(dataclasses.replace(op, adjoint=None))


def check_sweeps_by_rule(op, f, x, rng):
    """Sweeps that call the rule against those that call the kernel; the writes are undone."""
    weights = weights_of(f, x, rng)

    def written(x):
        y = x * 1.0
        made = f(y)
        y[...] = np.cos(y)
        return np.sum(made * weights) + np.sum(y)

    calls = [
        lambda: tg.vjp(f, x)[1](weights)[0],
        lambda: tg.jacobian(f)(x),
        lambda: tg.grad(written)(x),
    ]
    by_kernel = [call() for call in calls]
    with without_kernel(op):
        by_rule = [call() for call in calls]
    for found, wanted in zip(by_rule, by_kernel, strict=True):
        close(np.asarray(found), np.asarray(wanted), weights.dtype)


# --- derivatives --------------------------------------------------------------------------------


def check_first_order(op, f, x, rng):
    weights, v = weights_of(f, x, rng), rng.normal(size=x.shape)
    value, tangent = tg.jvp(f, (x,), (v,))
    same, back = tg.vjp(f, x)
    close(value, f(x), weights.dtype)
    close(same, f(x), weights.dtype)
    wanted = difference(f, x, v, weights.dtype)
    close(tangent, wanted, weights.dtype)
    (adjoint,) = back(weights)
    close(np.sum(adjoint * v), np.sum(wanted * weights), weights.dtype, 10.0)
    np.testing.assert_allclose(
        np.sum(np.asarray(tangent) * weights), np.sum(adjoint * v), rtol=1e-5, atol=1e-6
    )


def check_second_order(op, f, x, rng):
    weights, v = weights_of(f, x, rng), rng.normal(size=x.shape)
    total = objective(f, weights)
    gradient = tg.grad(total)
    wanted = difference(gradient, x, v, weights.dtype)
    ways = {
        "reverse over reverse": tg.grad(lambda x: np.sum(gradient(x) * v)),
        "forward over reverse": lambda x: tg.jvp(gradient, (x,), (v,))[1],
        "reverse over forward": tg.grad(lambda x: tg.jvp(total, (x,), (v,))[1]),
        "hvp": lambda x: tg.hvp(total)(x, v),
    }
    for name in some(ways, f.__name__):
        close(ways[name](x), wanted, weights.dtype, 10.0)


def check_float32(op, f, x, rng):
    weights, v = weights_of(f, x, rng), rng.normal(size=x.shape)
    total = objective(f, weights)
    narrow, along = x.astype(np.float32), v.astype(np.float32)
    pairs = [
        (tg.grad(total)(narrow), tg.grad(total)(x)),
        (tg.jvp(f, (narrow,), (along,))[1], tg.jvp(f, (x,), (v,))[1]),
        (tg.hvp(total)(narrow, along), tg.hvp(total)(x, v)),
        (tg.jvp(tg.grad(total), (narrow,), (along,))[1], tg.hvp(total)(x, v)),
    ]
    for k, (found, wanted) in enumerate(pairs):
        assert k == 1 or np.asarray(found).dtype == np.float32
        close(found, wanted, np.float32)


# --- shapes and memory --------------------------------------------------------------------------


def check_layouts(op, f, x, rng):
    """The same elements in other memory, and read-only, give the same; nothing is written to."""
    weights, v = weights_of(f, x, rng), rng.normal(size=x.shape)
    total = objective(f, weights)
    wide = np.zeros((*x.shape, 2))
    wide[..., 0] = x
    backwards = np.ascontiguousarray(x[::-1])[::-1]
    wanted = [tg.grad(total)(x), tg.hvp(total)(x, v), tg.jvp(f, (x,), (v,))[1]]
    for other in (np.asfortranarray(x), wide[..., 0], backwards):
        other.flags.writeable = False
        before = other.copy()
        found = [tg.grad(total)(other), tg.hvp(total)(other, v), tg.jvp(f, (other,), (v,))[1]]
        for one, two in zip(found, wanted, strict=True):
            close(one, two, weights.dtype)
        assert np.array_equal(other, before)


def check_zero_size(op, f, shapes):
    """Where NumPy takes arrays without elements, so do all derivatives; how many it takes."""
    taken = 0
    for shape in shapes:
        x = np.zeros(shape)
        try:
            out = np.asarray(f(x))
        except (ValueError, IndexError, DeprecationWarning):  # NumPy refuses, or will
            continue
        taken += 1
        total = objective(f, np.ones(out.shape, out.dtype))
        for found in (
            tg.grad(total)(x),
            tg.hvp(total)(x, x),
            tg.jvp(tg.grad(total), (x,), (x,))[1],
            tg.vjp(f, x)[1](out)[0],
        ):
            assert np.shape(found) == shape
        assert np.shape(tg.jvp(f, (x,), (x,))[1]) == out.shape
        if op.adjoint is not None and out.dtype == np.float64:
            with without_kernel(op):
                assert np.shape(tg.grad(total)(x)) == shape
    return taken


# --- programs -----------------------------------------------------------------------------------


def others(x):
    """Points at which choices come out otherwise than at x: other order, ties, zeros."""
    low, high = np.min(x), np.max(x)
    tied = np.where(np.arange(x.size).reshape(x.shape) % 2 == 0, high, low)
    one_zero = np.where(np.arange(x.size).reshape(x.shape) == 1, 0.0, x)
    return [x[::-1].copy(), tied, one_zero, np.zeros_like(x), -x]


def check_compiled(op, f, x, rng):
    """Value and derivatives of programs recorded at x against eager ones elsewhere."""
    weights, v = weights_of(f, x, rng), rng.normal(size=x.shape)
    total = objective(f, weights)
    calls = {
        "value": (lambda c, x: c(x), total),
        "gradient": (lambda c, x: c.grad(x), tg.grad(total)),
        "hvp": (lambda c, x: c.hvp(x, v), lambda x: tg.hvp(total)(x, v)),
        "jvp": (lambda c, x: c.jvp((x,), (v,)), lambda x: tg.jvp(total, (x,), (v,))),
        "hessian": (lambda c, x: c.hessian(x), tg.hessian(total)),
    }
    # one of each pair is of second order, whose programs have the rule, not the kernel beside it
    pairs = [("value", "hessian"), ("gradient", "hvp"), ("jvp", "hessian")]
    for name in {name: None for pair in some(pairs, f.__name__, 1) for name in pair}:
        compiled_call, eager = calls[name]
        c = tg.compile(total, verify="never", native=False)
        with np.errstate(all="ignore"):
            for one in (x, x, *others(x)):
                found = np.concatenate([np.ravel(p) for p in _leaves(compiled_call(c, one))])
                wanted = np.concatenate([np.ravel(p) for p in _leaves(eager(one))])
                np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)


def _leaves(tree):
    return tree if isinstance(tree, tuple) else (tree,)


def check_within(op, f, x, rng):
    """The gradient of a compiled function inside a gradient."""
    total = objective(f, weights_of(f, x, rng))
    c = tg.compile(total, native=False)
    c.grad(x)
    close(
        tg.grad(lambda x: c(x * x) * np.sum(x))(x), tg.grad(lambda x: total(x * x) * np.sum(x))(x)
    )


# --- batches ------------------------------------------------------------------------------------


def looped(f, batch):
    return np.stack([np.asarray(f(x)) for x in batch])


def check_batched(op, f, x, rng):
    """Values and derivatives of a batch, and derivatives through it, against a loop.

    A warning says that it is a loop itself: then the declaration has no batching rule.
    """
    batch = np.stack([point(op, x.shape, rng) for _ in range(10)])
    weights = weights_of(f, x, rng)
    total = objective(f, weights)
    wanted = looped(f, batch)
    close(tg.vmap(f)(batch), wanted, weights.dtype)
    close(tg.vmap(f, -1, -1)(np.moveaxis(batch, 0, -1)), np.moveaxis(wanted, 0, -1), weights.dtype)
    gradients, v = looped(tg.grad(total), batch), rng.normal(size=batch.shape)
    whole = lambda b: np.sum(np.sin(tg.vmap(f)(b)) * weights)

    def products():
        return [tg.hvp(total)(one, along) for one, along in zip(batch, v, strict=True)]

    ways = [
        lambda: (tg.vmap(tg.grad(total))(batch), gradients),
        lambda: (tg.vmap(tg.hessian(total))(batch), looped(tg.hessian(total), batch)),
        lambda: (tg.grad(whole)(batch), gradients),
        lambda: (tg.hvp(whole)(batch, v), products()),
        lambda: (tg.jvp(whole, (batch,), (v,))[1], np.sum(gradients * v)),
    ]
    for way in some(ways, f.__name__):
        close(*way(), weights.dtype, 10.0)
    narrow = tg.vmap(f)(batch.astype(np.float32))
    assert narrow.dtype == np.asarray(f(x.astype(np.float32))).dtype
    close(narrow, wanted, np.float32)


#: Checks of an example at a point, by name.
CHECKS = {
    "rules of arrays": check_rules_of_arrays,
    "sweeps by rule": check_sweeps_by_rule,
    "first order": check_first_order,
    "second order": check_second_order,
    "float32": check_float32,
    "layouts": check_layouts,
    "compiled": check_compiled,
    "within": check_within,
    "batched": check_batched,
}


def example_of(op, text):
    f = called(text, tg)
    f.__name__ = text
    return f
