"""`//`, `%`, `divmod` and `fmod`: NumPy's numbers to the bit, wherever they are computed."""

import math

import numpy as np
import pytest

import tapegrad as tg

V = np.array([0.72, -1.2, 1.9, 0.4, -0.3])


def hard(count=400, seed=0):
    """Pairs of which the quotient is nearly a whole number, small and huge ones, and zeros."""
    rng = np.random.default_rng(seed)
    y = rng.choice([0.1, 0.3, -0.7, 1.0, -2.5, 1e-3, 3.0, 1e10, 1e-300], count)
    n = np.rint(rng.normal(size=count) * 10.0 ** rng.integers(0, 17, count))
    x = n * y * (1.0 + rng.integers(-2, 3, count) * 2.0**-52)
    x[:6], y[:6] = [1.0, 1e10, 1e16, -0.0, np.inf, 5.0], [0.1, 0.1, 0.3, -2.0, 2.0, -np.inf]
    x[6:12], y[6:12] = [-1.0, -1e-20, 7.0, 0.0, np.nan, 1e300], [np.inf, 1.0, 0.0, 0.0, 1.0, 1e-10]
    return x, y


X, Y = hard()
OPERATIONS = {
    "//": (lambda x, y: x // y, np.floor_divide),
    "%": (lambda x, y: x % y, np.remainder),
    "divmod": (lambda x, y: sum(divmod(x, y)), lambda x, y: sum(np.divmod(x, y))),
    "np.divmod": (lambda x, y: np.divmod(x, y)[1], np.mod),
    "floor_divide": (np.floor_divide, np.floor_divide),
    "mod": (np.mod, np.mod),
    "fmod": (np.fmod, np.fmod),
}
every = pytest.mark.parametrize("name", OPERATIONS)


def equal(found, wanted):
    """Equal to the bit, but for the kind of NaN."""
    found, wanted = np.asarray(found), np.asarray(wanted)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found)[wanted == 0], np.signbit(wanted)[wanted == 0])


def by_numpy(name, x=X, y=Y):
    with np.errstate(all="ignore"):
        return OPERATIONS[name][1](x, y)


@every
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_eager_arrays(name, dtype):
    with np.errstate(all="ignore"):
        x, y = X.astype(dtype), Y.astype(dtype)
    ours, wanted = OPERATIONS[name][0], by_numpy(name, x, y)
    for recorded in (True, False):
        made = [tg.tensor(a, requires_grad=recorded) for a in (x, y)]
        equal(ours(*made).detach().numpy(), wanted)
        equal(ours(made[0], y).detach().numpy(), wanted)
        equal(ours(x, made[1]).detach().numpy(), wanted)


@every
def test_eager_numbers(name):
    wanted = by_numpy(name)
    for k, (x, y) in enumerate(zip(X.tolist(), Y.tolist(), strict=True)):
        a, b = (tg.tensor(v, requires_grad=True) for v in (x, y))
        for one in (OPERATIONS[name][0](*pair) for pair in ((a, b), (a, y), (x, b))):
            equal(one.detach().numpy(), wanted[k])


@every
@pytest.mark.parametrize("native", [False, True])
def test_programs(name, native):
    """Of arrays, of numbers, and of numbers in a loop; recorded at ordinary numbers."""
    ours = OPERATIONS[name][0]
    x, y = X[:60], Y[:60]
    functions = (
        ours,
        lambda a, b: tg.stack([ours(p, q) for p, q in zip(list(a), list(b), strict=True)]),
        lambda a, b: ours(a[1:], b[0]),
    )
    results = by_numpy(name, x, y), by_numpy(name, x, y), by_numpy(name, x[1:], y[0])
    for f, wanted in zip(functions, results, strict=True):
        c = tg.compile(f, argnums=(0, 1), native=native, verify="never")
        c(np.full(60, 0.7), np.full(60, 0.2))
        c(np.full(60, -0.7), np.full(60, 0.2))
        c.wait()
        equal(c(x, y), wanted)


def test_what_was_recorded_elsewhere():
    c = tg.compile(lambda x: x % 0.1)
    c(V)
    c(V)
    equal(c(np.ones(5)), np.ones(5) % 0.1)
    assert c(np.ones(5))[0] == 1.0 % 0.1 == 0.09999999999999995
    assert (tg.tensor(1.0, requires_grad=True) // 0.1).item() == 9.0
    assert tg.compile(lambda x: x // 0.1)(1.0) == 9.0


def test_integers_stay_integers():
    i = tg.tensor(np.array([7, -8, 9]))
    for ours, numpy in OPERATIONS.values():
        equal(ours(i, 3).numpy(), numpy(np.array([7, -8, 9]), 3))


def test_indices_are_computed_of_integers(tmp_path):
    f = lambda x, i: np.sum(x[i % 3] * x[i // 2] * x[np.fmod(i, 5)])
    c = tg.compile(f)
    for i in ([1, 2, 3], [4, 0, 1], [5, 3, 2]):
        for _ in range(2):
            equal(c.grad(V, np.array(i)), tg.grad(f)(V, np.array(i)))
    assert c._reason is None
    c.save(tmp_path / "f.npz")
    i = np.array([2, 4, 7])
    equal(tg.load(tmp_path / "f.npz").grad(V, i), tg.grad(f)(V, i))


@pytest.mark.parametrize("name", ["%", "mod", "fmod", "//"])
def test_slopes(name):
    """The remainder is x − n·y with the whole number n that was taken out, exactly."""
    ours, numpy = OPERATIONS[name]
    with np.errstate(all="ignore"):
        keep = np.isfinite(X) & np.isfinite(Y) & (np.abs(X / Y) < 1e15)
    x, y = X[keep], Y[keep]
    whole = np.rint((x - numpy(x, y)) / y) if name == "fmod" else np.floor_divide(x, y)
    wanted = (0.0 * x, 0.0 * y) if name == "//" else (1.0 + 0.0 * x, -whole)
    f = lambda a, b: np.sum(ours(a, b))
    scalars = lambda a, b: sum(ours(p, q) for p, q in zip(a, b, strict=True))
    found = [tg.grad(g, (0, 1))(x, y) for g in (f, scalars)]
    for native in (False, True):
        for g in (f, scalars):
            c = tg.compile(g, argnums=(0, 1), native=native, verify="never")
            c.grad(np.full(len(x), 0.7), np.full(len(x), 0.2))
            c.grad(np.full(len(x), -0.7), np.full(len(x), 0.2))
            c.wait()
            found.append(c.grad(x, y))
    for gradient in found:
        np.testing.assert_array_equal(gradient, wanted)
    for k in range(40):
        _, tangent = tg.jvp(ours, (x[k], y[k]), (0.0, 1.0))
        assert tangent == wanted[1][k]
        assert not tg.hessian(lambda u: ours(u[0], u[1]))(np.array([x[k], y[k]])).any()


def test_inside_of_numba():
    f = lambda u: u[0] % u[1] + 10.0 * (u[0] // u[1])
    for x, y in [(1.0, 0.1), (-7.3, 2.0), (1e10, 0.1), (0.72, 0.1)]:
        value, both = tg.compile(f).numba(np.array([0.7, 0.2]))
        gradient = np.zeros(2)
        u = np.array([x, y])
        assert value(u) == both(u, gradient) == np.remainder(x, y) + 10.0 * np.floor_divide(x, y)
        assert gradient.tolist() == [1.0, -np.floor_divide(x, y)]


def test_in_place():
    for name, wanted in (("__ifloordiv__", np.floor_divide), ("__imod__", np.remainder)):
        t = tg.tensor(X, requires_grad=True) * 1.0
        with np.errstate(all="ignore"):
            equal(getattr(t, name)(Y).detach().numpy(), wanted(X, Y))


def test_functions_of_numbers():
    f = tg.elementwise(lambda x, y: x % y + 3.0 * (x // y))
    g = tg.elementwise(lambda x, y: math.fmod(x, y) + np.fmod(x, y) + np.floor_divide(x, y))
    with np.errstate(all="ignore"):
        equal(f(X, Y), X % Y + 3.0 * (X // Y))
        equal(g(X, Y), np.fmod(X, Y) + np.fmod(X, Y) + X // Y)


def test_the_remainder_of_math_is_another_function():
    """Its sign is that of the nearest multiple's distance: NumPy has no function for it."""
    with pytest.raises(TypeError, match="remainder is not a function of one number"):
        tg.elementwise(lambda x: math.remainder(x, 2.0))(V)


def test_operands_that_are_not_numbers():
    t = tg.tensor(V, requires_grad=True)
    for wrong in ("a", None, object()):
        with pytest.raises(TypeError):
            divmod(t, wrong)
        with pytest.raises(TypeError):
            divmod(wrong, t)
