"""Random programs of reads, arithmetic and writes, judged one number at a time."""

import naive
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg

N = 6
WHOLE = [np.s_[:], np.s_[::-1], np.s_[...], np.s_[[3, 0, 5, 1, 1, 2]]]
HALVES = [
    np.s_[:3],
    np.s_[3:],
    np.s_[::2],
    np.s_[1::2],
    np.s_[2::-1],
    np.s_[[0, 2, 2]],
    np.s_[[5, 4, -1]],
    np.s_[np.array([True, False, True, False, False, True])],
]
FUNCTIONS = [np.sin, np.tanh, np.cos, lambda a: a * 0.5, lambda a: a + 0.25, lambda a: -a]
BINARY = [
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: 0.5 * a * b,
    lambda a, b: a / (2 + b * b),
]

number = st.integers(0, 7)
step = st.tuples(
    st.sampled_from("new half cell write write_half write_number add multiply view keep".split()),
    number,
    number,
    number,
    number,
    number,
)


def run(program, x, y, zeros=np.zeros_like):
    """The program on arrays of any kind: three arrays and their views of N, scalars on the side."""
    third = zeros(x)
    third[0] = x[0] * 0.0
    arrays, scalars = [x * 1.0, y * 1.0, third], [x[0], y[1] * 2.0]
    pick = lambda items, k: items[k % len(items)]  # noqa: E731
    for kind, i, j, a, b, f in program:
        first, second = pick(arrays, i), pick(arrays, j)
        whole, half, other = pick(WHOLE, a), pick(HALVES, a), pick(HALVES, b)
        binary, function, scalar = pick(BINARY, f), pick(FUNCTIONS, f), pick(scalars, b)
        if kind == "new":
            arrays.append(function(binary(first, second)))
        elif kind == "half":
            scalars.append(np.sum(function(binary(first[half], second[other]))))
        elif kind == "cell":
            scalars.append(function(binary(first[a % N], scalar)))
        elif kind == "write":
            first[whole] = function(second)
        elif kind == "write_half":
            first[half] = function(second[other])
        elif kind == "write_number":
            first[a % N] = function(binary(scalar, second[b % N]))
        elif kind == "add":
            first[half] += function(second[other])
        elif kind == "multiply":
            first[a % N] *= np.tanh(scalar)
        elif kind == "view":
            arrays.append(first[::-1] if a % 2 else first[:])
        elif kind == "keep":
            scalars.append(first[a % N])
        scalars = [np.tanh(s) for s in scalars[-3:]]
        arrays = arrays[-6:]
    total = 0.0
    for k, array in enumerate(arrays):
        total = total + np.sum(np.tanh(array)) * (k + 1.0)
    for k, scalar in enumerate(scalars):
        total = total + scalar * (k + 0.5)
    return total


@settings(max_examples=300)
@given(st.lists(step, min_size=1, max_size=30), st.integers(0, 100))
def test_random_programs(program, seed):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=N), rng.normal(size=N)
    f = lambda x, y: run(program, x, y)  # noqa: E731
    value, found = tg.value_and_grad(f, (0, 1))(x, y)
    wanted_value, wanted = naive.value_and_grad(lambda x, y: run(program, x, y, naive.zeros), x, y)
    np.testing.assert_allclose(value, wanted_value, rtol=1e-12, atol=1e-13)
    for gradient, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(gradient, right, rtol=1e-11, atol=1e-12)


@settings(max_examples=100)
@given(st.lists(step, min_size=1, max_size=12), st.integers(0, 100))
def test_random_programs_by_rows_and_twice(program, seed):
    """One sweep with two seeds, and two backward passes over one tape, agree with single ones."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=N), rng.normal(size=N)

    def both(x, y):
        out = run(program, x, y)
        return tg.asarray([out, out * out * x[0]])

    found = tg.jacobian(both, (0, 1))(x, y)
    value, wanted = tg.value_and_grad(lambda x, y: run(program, x, y), (0, 1))(x, y)
    for rows, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(rows[0], right, rtol=1e-11, atol=1e-12)
    right = 2 * value * wanted[0] * x[0]
    right[0] += value * value
    np.testing.assert_allclose(found[0][1], right, rtol=1e-11, atol=1e-12)
    s, t = (tg.tensor(a, requires_grad=True) for a in (x, y))
    out = run(program, s, t)
    for times in (1, 2):
        out.backward(retain_graph=times == 1)
        np.testing.assert_allclose(s.grad.numpy(), times * wanted[0], rtol=1e-12, atol=1e-13)


@settings(max_examples=100)
@given(st.lists(step, min_size=1, max_size=12), st.integers(0, 100))
def test_random_programs_forwards(program, seed):
    """The walk that carries tangents agrees with the gradient."""
    rng = np.random.default_rng(seed)
    x, y, s, t = rng.normal(size=(4, N))
    f = lambda x, y: run(program, x, y)  # noqa: E731
    _, found = tg.jvp(f, (x, y), (s, t))
    by_x, by_y = tg.grad(f, (0, 1))(x, y)
    np.testing.assert_allclose(found, by_x @ s + by_y @ t, rtol=1e-11, atol=1e-12)


@settings(max_examples=60)
@given(st.lists(step, min_size=1, max_size=8), st.integers(0, 100))
def test_second_derivatives_of_random_programs(program, seed):
    """In-place writes included: of the gradient and of a forward derivative."""
    rng = np.random.default_rng(seed)
    x, y, s, t = 0.5 * rng.normal(size=(4, N))
    f = lambda x, y: run(program, x, y)  # noqa: E731
    g = lambda x, y: tg.grad(f, (0, 1))(x, y)[0]  # noqa: E731
    h = 1e-5
    wanted = (g(x + h * t, y) - g(x - h * t, y)) / (2 * h)
    found = tg.grad(lambda x: np.sum(g(x, y) * t))(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)
    along = lambda x: tg.jvp(f, (x, y), (s, t))[1]  # noqa: E731
    wanted = (along(x + h * t) - along(x - h * t)) / (2 * h)
    np.testing.assert_allclose(tg.grad(along)(x) @ t, wanted, rtol=1e-5, atol=1e-6)
