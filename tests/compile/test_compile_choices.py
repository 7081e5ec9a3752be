"""Compiled transforms of every function, where all choices come out otherwise than recorded.

Rules of derivatives choose by value: which of two is larger, where an element came from, whether
a slope is finite. Each function is recorded at one input and called at others, at which elements
have changed their order and their sign, are tied, or are 0.
"""

import zlib

import numpy as np
import pytest
import special_rows
from compiled import numbers
from extent import some

import tapegrad as tg
from tapegrad._core.ops.sample_inputs import points
from tapegrad._core.ops.table import TABLE, Pointwise
from tapegrad._core.tensor.registry import load_families

load_families()

POINTWISE = {
    name: op
    for name, op in TABLE.items()
    if special_rows.is_ordinary(op) and not name.startswith("complex_")
}


def joined(parts):
    """Results of any shapes as one array with one axis."""
    return np.concatenate([np.reshape(part, (-1,)) for part in parts])


# --- element-wise operations ----------------------------------------------------------------------


def element_wise(op):
    """The operation on arrays, on numbers, with constants, and broadcast, as one function of x.

    Each operand has four elements of x.
    """
    call = getattr(tg, op.name, None) or getattr(tg.scipy.special, op.name)
    count = len(op.inputs)
    constants = [np.round(np.mean(low_high), 2) for low_high in op.domain]

    def function(x):
        operands = [x[4 * k : 4 * k + 4] for k in range(count)]
        parts = [call(*operands), call(*[one[0] for one in operands])]
        for k in range(count if count > 1 else 0):
            with_constants = [one if j == k else constants[j] for j, one in enumerate(operands)]
            parts += [call(*with_constants), call(*[np.ravel(one)[0] for one in with_constants])]
            parts.append(call(*[one[:2] if j == k else one[1] for j, one in enumerate(operands)]))
        if count > 1:
            first, *rest = operands
            parts.append(call(first[:2].reshape(2, 1), *[one[2:] for one in rest]))
        return joined(parts)

    return function


def inputs_of(op, rng):
    """Elements in the domain: random, mirrored in it, tied, on its borders and 0 if it has that."""
    low, high = (np.repeat(ends, 4) for ends in zip(*op.domain, strict=True))
    x = np.concatenate(points(op, (4,), rng))
    if op.name == "where":
        return [x, np.where(low == 0.0, 1.0 - x, -x)]
    if op.name == "remainder":  # which jumps where it is 0
        return [x, np.concatenate([x[:4] + 2 * x[4:], x[4:]]), -x]
    middle = np.clip(0.5 * np.ones_like(x), low, high)
    zeros = np.clip(np.zeros_like(x), low, high)
    return [x, low + high - x, np.roll(x, 1).clip(low, high), middle, zeros]


# --- functions along axes and others --------------------------------------------------------------


def along_axes(function, *more):
    """A reduction of all elements, along axes of either sign, along several, and of one element."""

    def forms(x):
        y = x.reshape(2, 3)
        parts = [function(x), function(y), function(y, axis=-2), function(y, axis=1)]
        parts += [function(y, axis=(0, 1)), function(y[:, None], axis=(-1, 0)), function(x[:1])]
        parts += [function(y.T, axis=0, keepdims=True), function(y[::-1, ::2], axis=0)]
        return joined(parts + [one(x) for one in more])

    return forms


def keeping(function, *more):
    """What keeps the shape, or one axis of it, along each axis."""

    def forms(x):
        y = x.reshape(2, 3)
        parts = [function(x, axis=-1), function(y, axis=0), function(y, axis=-1)]
        parts += [function(y.T, axis=0), function(y[:, ::-1], axis=1)]
        return joined(parts + [one(x) for one in more])

    return forms


def softmax_like(function):
    return keeping(function, function, lambda x: function(x.reshape(2, 3), axis=(0, 1)))


def written(key, value):
    """A copy of x of which some elements are written."""

    def form(x):
        y = x * 1.5
        y[key(x)] = value(x)
        return y

    return form


def added(key, value):
    def form(x):
        y = np.sin(x)
        y[key(x)] += value(x)
        return y * x

    return form


norms = [2, 1, np.inf, -np.inf, 3, 0.5]
FORMS = {
    "max": along_axes(np.max, lambda x: np.max(x, initial=0.2), lambda x: x.max()),
    "min": along_axes(np.min, lambda x: np.min(x, initial=0.2), lambda x: x.min()),
    "max_where": lambda x: joined([np.max(x, initial=0.1, where=x > 0), np.min(x[x < 1])]),
    "ptp": along_axes(np.ptp),
    "prod": along_axes(np.prod),
    "median": along_axes(np.median),
    "std": along_axes(lambda x, **axes: np.std(x, **axes) if np.size(x) > 1 else x),
    "var": along_axes(np.var),
    "mean": along_axes(np.mean),
    "sum": along_axes(np.sum, lambda x: np.sum(x, where=x > 0)),
    "logsumexp": along_axes(tg.logsumexp, lambda x: tg.logsumexp(x, b=x**2 + 0.5)),
    "average": lambda x: joined([np.average(x, weights=x**2 + 1.0)]),
    "norm": lambda x: joined(
        [np.linalg.norm(x, n) for n in norms]
        + [np.linalg.norm(x.reshape(2, 3), n) for n in (None, "fro", 1, -1, np.inf, -np.inf)]
        + [np.linalg.norm(x.reshape(2, 3), axis=0, keepdims=True)]
    ),
    "cumsum": keeping(np.cumsum, np.cumsum),
    "cumprod": keeping(np.cumprod, np.cumprod),
    "sort": keeping(np.sort, lambda x: np.sort(x.reshape(2, 3), axis=None)),
    "softmax": softmax_like(tg.softmax),
    "log_softmax": softmax_like(tg.log_softmax),
    "diff": keeping(np.diff),
    "trapezoid": keeping(np.trapezoid, lambda x: np.trapezoid(x, np.cumsum(x**2))),
    "clip": lambda x: joined([np.clip(x, -0.5, 0.5), x.clip(None, 0.1), np.clip(x, x[0], x[1])]),
    "round": lambda x: joined([np.round(x, 1) * x, np.round(x) * x]),
    "where": lambda x: joined(
        [np.where(x > 0, x**3, np.exp(x)), np.where(x[0] > x[1], x[0], x[1] * 2)]
    ),
    "where_infinite": lambda x: np.where(x > 0, np.log(np.where(x > 0, x, 0.0)) * x, x),
    "zero_times_root": lambda x: np.sqrt(np.abs(x)) * np.array([0.0, 1, 1, 0, 2, 1]),
    "scalars_of_choice": lambda x: joined(
        [np.maximum(x[0], 0.0) ** 2 * x, abs(x[1]) * x[2], np.minimum(x[3], x[4]) * x[5]]
    ),
    "powers": lambda x: joined(
        [x**2, x**3.0, x**2.0, np.abs(x) ** x, x[0] ** 3, abs(x[1]) ** x[2], 2.0**x, x**0]
    ),
    "argsort": lambda x: x[np.argsort(x)] * np.sin(x),
    "argsort_axis": lambda x: np.take_along_axis(
        x.reshape(2, 3), np.argsort(x.reshape(2, 3), axis=0), axis=0
    ).ravel(),
    "argmax": lambda x: joined([np.take(x, np.argmax(x)) * x, x[np.argmin(x)] * x]),
    "mask": lambda x: joined([np.sum(x[x > 0] ** 2), np.prod(x[x < 0.3])]),
    "masks_times": lambda x: (x > 0) * x**3 + np.sum((x > x[0]) * x),
    "take": lambda x: joined([np.take(x, np.argsort(x)[:3]), np.take(x.reshape(2, 3), [1], 1)]),
    "rank": lambda x: np.argsort(np.argsort(x)) * x,
    "sorted_writes": written(lambda x: np.argsort(x)[:2], lambda x: x[:2] ** 2),
    "sorted_constants": written(lambda x: np.argsort(x)[:3], lambda x: 0.25),
    "whole_sorted": written(lambda x: np.argsort(x), lambda x: x**3),
    "masked_writes": written(lambda x: x > 0.1, lambda x: x[1] ** 2),
    "sorted_adds": added(lambda x: np.argsort(x)[1:3], lambda x: x[:2] ** 2),
    "plain_writes": written(lambda x: slice(1, 3), lambda x: np.maximum(x[:2], x[2:4])),
    "windows": lambda x: np.max(np.lib.stride_tricks.sliding_window_view(x, 3), axis=-1) ** 2,
    "selected_rows": lambda x: (
        x.reshape(3, 2)[np.arange(3), np.argmax(x.reshape(3, 2), axis=1)] * x[:3]
    ),
    "soft_masked": lambda x: tg.softmax(np.where(x > x.mean() - 0.1, x, -np.inf)) * x,
    "searched": lambda x: x[np.searchsorted(np.array([-0.5, 0.0, 0.5]), x)] * x,
    "nested": lambda x: tg.grad(lambda t: np.maximum(t[0], t[1]) ** 3 + np.max(t * x) ** 2)(x),
    "nested_jacobian": lambda x: np.ravel(tg.jacobian(lambda t: np.sort(t)[:2] ** 2)(x)),
    "nested_jvp": lambda x: tg.jvp(lambda t: np.sort(t) ** 2 * np.max(t), (x,), (x**2,))[1],
    "nested_hessian": lambda x: np.ravel(tg.hessian(lambda t: np.sum(np.abs(t[:2]) ** 3))(x)),
}
U = np.array([1.2, -0.4, 0.9, -1.1, 0.3, 0.6])
#: Transforms of constants, on which x acts through choices alone.
INSIDE = {
    "masks": lambda x: tg.grad(lambda t: np.sum(np.where(x > 0, t**3, t)))(U) * 1.0,
    "order": lambda x: tg.jvp(lambda t: t[np.argsort(x)] ** 2, (U,), (U,))[1] * 1.0,
    "order_back": lambda x: tg.vjp(lambda t: t[np.argsort(x)] ** 2, U)[1](U)[0] * 1.0,
    "number": lambda x: tg.grad(lambda t: t**2 * x[0] + np.sin(t) * x[1])(2.0) * x,
    "larger": lambda x: tg.hessian(lambda t: np.maximum(t, x[0]) ** 2 * t**3)(0.5) * x,
    "seeds": lambda x: tg.vjp(lambda t: np.sort(t) ** 2, U)[1](x)[0],
    "scattered": lambda x: tg.jvp(
        written(lambda t: np.argsort(x)[:2], lambda t: t[:2]), (U,), (x,)
    )[1],
}
FORMS |= {f"inside_{name}": f for name, f in INSIDE.items()}

NAMES = {"np": np, "tg": tg}
FORMS |= {
    f"table_{name}": eval(f"lambda x: np.ravel({op.example})", NAMES)  # the text is the table's
    for name, op in TABLE.items()
    if not isinstance(op, Pointwise) and name not in ("called", "convert", "function")
}


#: Functions of one number.
NUMBERS = {
    "larger": lambda x: np.maximum(x, 0.0) ** 3 + np.fmax(x, 0.5) * x,
    "smaller": lambda x: np.minimum(x, 0.5) * x + np.fmin(1.0, x) ** 2,
    "absolute": lambda x: np.abs(x) ** 3 + abs(x) * x + np.sign(x) * x**2,
    "clipped": lambda x: np.clip(x, -1, 1) * x**2,
    "chosen": lambda x: np.where(x > 0, x**3, np.exp(x)),
    "branch": lambda x: x**3 if x > 0 else np.exp(x),
    "root": lambda x: np.where(x > 0, np.sqrt(np.abs(x)), 0.0),
    "logarithm": lambda x: np.where(x > 0, x * np.log(x), 0.0),
    "series": lambda x: np.where(x == 0, 1.0, np.sin(x) / x) * x + np.sinc(x),
    "powers": lambda x: x**0 + (x * x) ** 1.5 + 2.0**x + np.abs(x) ** x,
    "hypot": lambda x: np.hypot(x, 0.3) + np.hypot(x, x),
    "logaddexp": lambda x: np.logaddexp(x, 0.0) + np.logaddexp(x, -x),
    "inside": lambda x: tg.grad(lambda t: np.maximum(t, 0.0) ** 3)(x) * x,
}


def others(rng):
    """An input to record at, and others: of changed order and sign, tied, with zeros."""
    x = rng.permutation([-1.3, -0.7, -0.2, 0.4, 0.8, 1.6])
    z = np.where(np.arange(6) % 3 == 1, 0.0, x)
    return [x, -x, np.roll(x, 2), np.full(6, 0.6), z, np.zeros(6), np.abs(x)]


# --- the comparison -------------------------------------------------------------------------------


def transforms(f, size, rng):
    """By name: a function to compile, a call of its method at x, and the same eagerly.

    A Jacobian costs as much as it has rows, a Hessian as it has columns: so there are two of both,
    in directions that mix all elements.
    """
    count = f(np.full(size, 0.7)).size
    v, w = rng.normal(size=size), np.cos(1.0 + np.arange(count))
    mixed, directions = rng.normal(size=(2, count)), rng.normal(size=(2, size))
    total = lambda x: np.sum(np.sin(f(x)) * w)
    rows = lambda x: mixed @ f(x)
    along = lambda z, x: total(x + z @ directions)
    z = np.zeros(2)
    return {
        "value_and_grad": (total, lambda c, x: c.value_and_grad(x), tg.value_and_grad(total)),
        "jacobian": (rows, lambda c, x: c.jacobian(x), tg.jacobian(rows)),
        "jvp": (f, lambda c, x: c.jvp((x,), (v,)), lambda x: tg.jvp(f, (x,), (v,))),
        "vjp": (f, lambda c, x: c.vjp(x)[1](w), lambda x: tg.vjp(f, x)[1](w)),
        "hessian": (along, lambda c, x: c.hessian(z, x), lambda x: tg.hessian(along)(z, x)),
        "hvp": (total, lambda c, x: c.hvp(x, v), lambda x: tg.hvp(total)(x, v)),
    }


def agree(found, wanted, what):
    found, wanted = numbers(found), numbers(wanted)
    assert len(found) == len(wanted)
    for a, b in zip(found, wanted, strict=True):
        assert a.shape == b.shape, what
        largest = np.abs(b[np.isfinite(b)]).max(initial=1.0)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11 * largest, err_msg=what)


def compare(f, calls, rng, key):
    """Compiled transforms of f, recorded at the first call, against the eager ones at all.

    One transform of each function, by the key; with all tests every one.
    """
    ways = transforms(f, calls[0].size, rng)
    for name in some(ways, key, 1):
        function, compiled, eager = ways[name]
        c = tg.compile(function, verify="never", native=False)
        with np.errstate(all="ignore"):
            for k, x in enumerate([calls[0], *calls]):
                agree(compiled(c, x), eager(x), f"{name} at call {k}")
        assert c._reason is None
        for derived in c._derived.values():
            assert derived._reason is None


def measured(f, x, v):
    """The derivative of f along v by differences."""
    h = 1e-5
    return (f(x + h * v) - f(x - h * v)) / (2 * h)


def check_eager(f, x, v):
    """The derivatives that compiled ones are held against, where all choices are clear."""
    total = lambda x: np.sum(np.sin(f(x)))
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    close(tg.jvp(f, (x,), (v,))[1], measured(f, x, v))
    close(tg.grad(total)(x) @ v, measured(total, x, v))
    close(tg.hvp(total)(x, v), measured(tg.grad(total), x, v))


def seeded(name):
    return np.random.default_rng(zlib.crc32(name.encode()))


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers(name):
    f = NUMBERS[name]
    compiled = {
        "value_and_grad": lambda c, x: c.value_and_grad(x),
        "hessian": lambda c, x: c.hessian(x),
        "hvp": lambda c, x: c.hvp(x, 0.7),
        "jvp": lambda c, x: c.jvp((x,), (0.7,)),
        "vjp": lambda c, x: c.vjp(x)[1](0.7),
    }
    eager = {
        "value_and_grad": tg.value_and_grad(f),
        "hessian": tg.hessian(f),
        "hvp": lambda x: tg.hvp(f)(x, 0.7),
        "jvp": lambda x: tg.jvp(f, (x,), (0.7,)),
        "vjp": lambda x: tg.vjp(f, x)[1](0.7),
    }
    for transform, call in compiled.items():
        c = tg.compile(f, verify="never", native=False)
        with np.errstate(all="ignore"):
            for x in (1.3, 1.3, -0.7, 0.0, 2.0, -2.5, 0.5):
                agree(call(c, x), eager[transform](x), f"{transform} at {x}")
        assert all(one._reason is None for one in (c, *c._derived.values()))


@pytest.mark.parametrize("name", POINTWISE)
def test_element_wise(name):
    op, rng = POINTWISE[name], seeded(name)
    f, calls = element_wise(op), inputs_of(op, rng)
    moves = np.repeat([low < high and name != "where" for low, high in op.domain], 4)
    check_eager(f, calls[0], rng.normal(size=moves.size) * 0.1 * moves)
    compare(f, calls, rng, name)


@pytest.mark.parametrize("name", FORMS)
def test_functions(name):
    rng, f = seeded(name), FORMS[name]
    calls = others(rng)
    with np.errstate(all="ignore"):
        for x in calls[:2]:
            check_eager(f, x, rng.normal(size=6))
    compare(f, calls, rng, name)
