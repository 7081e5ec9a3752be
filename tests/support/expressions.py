"""Expressions as users write them, compared with PyTorch, or with differences of plain NumPy.

A family of functions has a table of `Expression`s and tests them with `parametrized(TABLE)` and
`CHECKS`, and many in one native program with `native_parts(TABLE)` and `check_native`.
"""

import dataclasses
import importlib.util

import numpy as np
import pytest
from declared import close, difference, objective, others
from extent import some

import tapegrad as tg

if importlib.util.find_spec("torch"):
    import torch
else:
    torch = None


@dataclasses.dataclass(frozen=True)
class Expression:
    """Text of `np` and `x`, an array of floats with elements far apart between `low` and `high`.

    `torch` is the same in PyTorch, text of `torch` and `x`; without it differences judge. `other`
    are the factors by which the points of compiled calls differ from that of the recording: their
    elements are also in another order, tied, and zero, where `choices` is true. `names` are further
    names that the text uses.
    """

    text: str
    torch: str | None = None
    shape: tuple = (3, 4)
    low: float = 0.3
    high: float = 1.9
    other: tuple = (-1.0, 0.5)
    choices: bool = True
    nans: tuple = ()  # flat places of elements that are NaN
    names: dict = dataclasses.field(default_factory=dict)

    def __str__(self):
        return self.text

    def function(self, np=np):
        code = compile(self.text, "an expression", "eval")
        return lambda x: eval(code, {"np": np, "tg": tg, **self.names, "x": x})

    def in_torch(self):
        code = compile(self.torch, "an expression of PyTorch", "eval")
        return lambda x: eval(code, {"torch": torch, "np": np, **self.names, "x": x})

    def point(self):
        rng = np.random.default_rng(len(self.text))
        count = int(np.prod(self.shape))
        spread = self.low + (self.high - self.low) * (np.arange(count) + 0.5) / max(count, 1)
        x = rng.permutation(spread)
        x[list(self.nans)] = np.nan
        return x.reshape(self.shape)

    def points(self):
        """Where a program recorded at `point()` is called."""
        x = self.point()
        found = [x * factor for factor in self.other]
        return [*found, *others(x)] if self.choices and not self.nans else found


#: Expressions that one program with native code has at most.
IN_A_PROGRAM = 16


def parametrized(table):
    return pytest.mark.parametrize("expression", table, ids=str)


def _problem(expression, f=None):
    """The point, a direction, and a function of one number of what the expression gives."""
    rng = np.random.default_rng(3)
    f, x = f or expression.function(), expression.point()
    value = np.asarray(expression.function()(x))
    weights = rng.normal(size=value.shape)
    return f, x, rng.normal(size=x.shape), weights


def check_derivatives(expression):
    """Value, first and second derivative and forward mode, against PyTorch or differences."""
    f, x, v, weights = _problem(expression)
    total = objective(f, weights)
    value = f(tg.tensor(x, requires_grad=True))
    close(np.asarray(tg.asarray(value).detach()), f(x))
    assert np.asarray(tg.asarray(value).detach()).dtype == np.asarray(f(x)).dtype
    gradient, product = tg.grad(total)(x), tg.hvp(total)(x, v)
    tangent = tg.jvp(total, (x,), (v,))[1]
    if expression.torch is not None and torch is not None:
        wanted = _torch_derivatives(expression, x, v, weights)
        for found, theirs in zip((f(x), gradient, product), wanted, strict=True):
            np.testing.assert_allclose(found, theirs, rtol=1e-9, atol=1e-9)
    v = np.where(np.isnan(x), 0.0, v)
    close(np.sum(np.where(v == 0.0, 0.0, gradient * v)), difference(total, x, v), loose=100.0)
    close(tangent, difference(total, x, v), loose=100.0)
    close(product, difference(tg.grad(total), x, v), loose=100.0)
    close(tg.jvp(tg.grad(total), (x,), (v,))[1], product)


def _torch_derivatives(expression, x, v, weights):
    leaf = torch.tensor(x, requires_grad=True)
    value = expression.in_torch()(leaf)
    total = (torch.sin(value) * torch.tensor(weights)).sum()
    (gradient,) = torch.autograd.grad(total, leaf, create_graph=True)
    along = (gradient * torch.tensor(v)).nan_to_num().sum()
    (product,) = torch.autograd.grad(along, leaf, materialize_grads=True)
    return value.detach().numpy(), gradient.detach().numpy(), product.numpy()


def check_float32(expression):
    f, x, v, weights = _problem(expression)
    total, narrow = objective(f, weights.astype(np.float32)), x.astype(np.float32)
    value = np.asarray(tg.asarray(f(tg.tensor(narrow, requires_grad=True))).detach())
    assert value.dtype == np.asarray(f(narrow)).dtype
    found = tg.grad(total)(narrow)
    assert found.dtype == np.float32
    close(found, tg.grad(objective(f, weights))(x), np.float32)


def check_compiled(expression):
    """Programs, interpreted, at inputs at which choices come out otherwise."""
    f, x, v, weights = _problem(expression)
    total = objective(f, weights)
    _compare_compiled(total, x, v, expression.points(), False, expression.text)


def _compare_compiled(total, x, v, points, native, key):
    """The gradient or the product with the Hessian, as the key says, or with all tests both."""
    c = tg.compile(total, verify="never", native=native)
    calls = [
        (lambda x: c.value_and_grad(x), tg.value_and_grad(total)),
        (lambda x: c.hvp(x, v), lambda x: tg.hvp(total)(x, v)),
    ]
    with np.errstate(all="ignore"):
        for compiled_call, eager in some(calls, key, 1):
            for one in (x, x, *points):
                for found, wanted in zip(_flat(compiled_call(one)), _flat(eager(one)), strict=True):
                    np.testing.assert_allclose(found, wanted, rtol=1e-8, atol=1e-10)
    c.wait()  # a compiler in another thread changes the filters of warnings, which are global


def _flat(result):
    return result if isinstance(result, tuple) else (result,)


def check_batched(expression):
    f, x, v, weights = _problem(expression)
    batch = np.stack([x * factor for factor in np.linspace(0.9, 1.1, 10)])
    close(tg.vmap(f)(batch), np.stack([np.asarray(f(one)) for one in batch]))
    one = tg.grad(objective(f, weights))
    close(tg.vmap(one)(batch), np.stack([one(x) for x in batch]))


def check_stand_in(expression):
    """The same text with `import tapegrad.numpy as np`, with plain arrays and inside a gradient."""
    f, x, v, weights = _problem(expression)
    ours = expression.function(importlib.import_module("tapegrad.numpy"))
    plain, value = f(x), ours(x)
    assert type(value) is type(plain) and np.array_equal(value, plain, equal_nan=True)
    close(tg.grad(objective(ours, weights))(x), tg.grad(objective(f, weights))(x))


#: What is checked of each expression, by name.
CHECKS = {
    "derivatives": check_derivatives,
    "float32": check_float32,
    "compiled": check_compiled,
    "batched": check_batched,
}
if importlib.util.find_spec("tapegrad.numpy"):
    CHECKS["stand-in"] = check_stand_in


def native_parts(table):
    """Parts of a table, each of expressions of one shape that make one program."""
    shapes = {expression.shape: [] for expression in table}
    for expression in table:
        if not expression.nans:
            shapes[expression.shape].append(expression)
    parts = [
        group[k : k + IN_A_PROGRAM]
        for group in shapes.values()
        for k in range(0, len(group), IN_A_PROGRAM)
    ]
    ids = [f"{k}" for k in range(len(parts))]
    return pytest.mark.parametrize("part", [*enumerate(parts)], ids=ids)


def check_native(part):
    """All expressions of a part in one program with native code, values and derivatives.

    The programs of `check_compiled` are interpreted.
    """
    number, group = part
    problems = [_problem(e) for e in group]
    low, high, shape = max(e.low for e in group), min(e.high for e in group), group[0].shape
    x = Expression("", shape=shape, low=low, high=high).point()
    v = np.random.default_rng(3).normal(size=shape)

    def total(x):
        return sum(objective(f, weights)(x) for f, _, _, weights in problems)

    _compare_compiled(total, x, v, [x[::-1].copy(), 0.5 * (x + low)], True, number)
