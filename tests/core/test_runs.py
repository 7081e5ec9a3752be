"""Runs of element-wise rows longer than a block, with operands broadcast along every axis."""

import naive
import numpy as np
import pytest
from extent import rounds, some
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import check, close

import tapegrad as tg

#: Shapes of results: more than a block, lines that divide it and lines that do not.
SHAPES = [(1300,), (2, 1024), (3, 700), (2, 3, 350), (5, 1, 300), (70, 21), (1, 1500)]


def operands(shape, rng):
    """Arrays that broadcast to a shape: one of it, and one for each way to leave out axes."""
    kept = [(0,) * len(shape), (1,) * len(shape)]
    kept += [tuple(int(a == b) for b in range(len(shape))) for a in range(len(shape))]
    kept += [tuple(1 - one for one in way) for way in kept[2:]]
    shapes = [tuple(n if keep else 1 for n, keep in zip(shape, way, strict=True)) for way in kept]
    shapes += [shape[1:]]
    return [rng.uniform(0.5, 1.5, s) for s in shapes]


def apply(op, a, b):
    if op == "add":
        return a + b
    if op == "subtract":
        return a - b
    if op == "multiply":
        return a * b
    if op == "divide":
        return a / b
    if op == "constant":
        return 1.5 * a - 0.25
    if op == "reversed":
        return a**2 * a[..., ::-1] if np.ndim(a) else a * b
    if op == "square":
        return a**2
    return np.sin(a)


steps = st.tuples(
    st.sampled_from(
        ["add", "subtract", "multiply", "divide", "constant", "sin", "reversed", "square"]
    ),
    st.integers(0, 30),
    st.integers(0, 30),
)


def run(program, arrays):
    """Each step takes two of the arrays so far; all results count, and the arrays themselves."""
    values = list(arrays)
    for op, a, b in program:
        values.append(apply(op, values[-1 - a % len(values)], values[-1 - b % len(values)]))
    total = 0.0
    for value in values[len(arrays) :]:
        total = total + np.sum(value * value)
    for array in arrays:
        total = total + np.sum(array)
    return total


@settings(deadline=None, max_examples=rounds(25, 8))
@given(st.sampled_from(SHAPES), st.lists(steps, min_size=1, max_size=6), st.integers(0, 9))
def test_random_runs(shape, program, seed):
    arrays = operands(shape, np.random.default_rng(seed))
    check(lambda *arrays: run(program, arrays), *arrays)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("op", ["add", "subtract", "multiply", "divide"])
def test_every_broadcast(shape, op, rng):
    for b in some(operands(shape, rng), f"{shape} {op}", 3):
        a = rng.uniform(0.5, 1.5, shape)
        check(lambda a, b: np.sum(apply(op, a, b) * a * a), a, b)
        check(lambda a, b: np.sum(apply(op, b, a) * a * a), a, b)


def test_an_array_with_itself(rng):
    x = rng.uniform(0.5, 1.5, 2000)
    for f in (
        lambda x: np.sum((x + x) * (x - x + x) / x),
        lambda x: np.sum((y := x * 2.0) + y * (z := y + y) + z),
        lambda x: np.sum((x[1:] * 1.0 + x[:-1]) * (x[:1] * x[1:])),
        lambda x: np.sum((y := np.sin(x)) ** 2 * y[::-1]),
        lambda x: np.sum((y := np.sin(x)) * y + (y - y[::-1]) * (y + y[::-1])),
    ):
        check(f, x)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_several_right_hand_sides(dtype, rng):
    x, s = (
        rng.uniform(0.5, 1.5, (3, 700)).astype(dtype),
        rng.uniform(0.5, 1.5, (3, 1)).astype(dtype),
    )

    def f(x, s):
        y = x * s + s
        return np.sum((y - x) * y / s, axis=1)

    for found, wrt in zip(tg.jacobian(f, (0, 1))(x, s), (0, 1), strict=True):
        for row in range(3):
            wanted = naive.value_and_grad(lambda x, s, row=row: f(x, s)[row], x, s)[1][wrt]
            close(found[row], wanted, 1e-12 if dtype == np.float64 else 1e-5)


def test_inputs_without_slope_get_nothing(rng):
    x, s = rng.uniform(0.5, 3.5, (2, 1100)), np.array([[1.25], [0.75]])
    y = tg.tensor(x, requires_grad=True)
    t = tg.tensor(s, requires_grad=True)
    one = tg.tensor(0.8, requires_grad=True)
    np.sum(np.floor(y / t) * 2.0 + np.floor(y) * one + np.where(y > 1.0, t, y)).backward()
    close(y.grad.numpy(), np.where(x > 1.0, 0.0, 1.0))
    close(t.grad.numpy(), np.sum(x > 1.0, axis=1, keepdims=True))
    close(one.grad.numpy(), np.sum(np.floor(x)))


def test_rows_that_hooks_and_readers_want(rng):
    x = tg.tensor(rng.uniform(0.5, 1.5, 1500), requires_grad=True)
    y = x * 2.0
    z = y + x
    w = z + y
    seen = []
    z.register_hook(lambda g: seen.append(g.numpy().copy()))
    y.retain_grad()
    w.retain_grad()
    np.sum(w * w).backward(retain_graph=True)
    v = x.detach().numpy()
    close(w.grad.numpy(), 10 * v)
    close(seen[0], 10 * v)
    close(y.grad.numpy(), 20 * v)
    close(x.grad.numpy(), 50 * v)
    found = tg.autograd.grad(np.sum(w * w), [z, x, y])
    for gradient, factor in zip(found, (10, 50, 20), strict=True):
        close(gradient.numpy(), factor * v)
