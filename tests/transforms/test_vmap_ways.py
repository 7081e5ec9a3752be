"""vmap of functions that branch, and of those that run in a loop, which says so."""

import re
import warnings

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._batching import vmap as vmap_module


@pytest.fixture(autouse=True)
def few(monkeypatch):
    """Small batches, too, are computed together."""
    monkeypatch.setattr(vmap_module, "FEW", 2)


def looped(f, *batches):
    return np.stack([np.asarray(f(*row)) for row in zip(*batches, strict=True)])


def same(found, wanted, tolerance=1e-12):
    assert found.shape == wanted.shape and found.dtype == wanted.dtype
    np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=tolerance)


def counted(f):
    """A function, and how often it has been called."""
    calls = [0]

    def called(*args):
        calls[0] += 1
        return f(*args)

    return called, calls


def test_few_elements_are_called_by_themselves(monkeypatch, rng):
    monkeypatch.undo()
    for count in (1, 8, 9):
        called, calls = counted(np.sin)
        x = rng.normal(size=count)
        same(tg.vmap(called)(x), np.sin(x))
        assert calls[0] == (count if count <= 8 else 2)


# --- ways -----------------------------------------------------------------------------------------


def kinked(x):
    return x**2 if x > 0 else -x


def newton(a):
    """As many steps as it takes."""
    x = a
    while abs(x * x - a) > 1e-12 * a:
        x = 0.5 * (x + a / x)
    return x


def chosen(x):
    """What is computed on one way has no value on the other."""
    if np.all(x > 0.0):
        return np.sum(np.linalg.cholesky(np.diag(x)))
    return np.sum(x**3)


@pytest.mark.parametrize("f", [kinked, newton, chosen, lambda x: np.sum(x[x > 1.0])])
def test_elements_are_grouped_by_their_ways(f, rng):
    shape = (40,) if f in (kinked, newton) else (40, 3)
    x = rng.uniform(0.1, 9.0, shape) if f is newton else rng.normal(0.6, 1.0, shape)
    called, calls = counted(f)
    same(tg.vmap(called)(x), looped(f, x))
    assert calls[0] < 40
    gradients = looped(tg.grad(f), x)
    same(tg.vmap(tg.grad(f))(x), gradients, 1e-6)
    same(tg.grad(lambda x: np.sum(tg.vmap(f)(x)))(x), gradients, 1e-6)
    same(tg.vmap(tg.hessian(f))(x), looped(tg.hessian(f), x), 1e-6)


def test_ways_that_not_a_number_takes(rng):
    """Where a derivative is 0 times infinity, products are recorded another way."""
    x = np.array([[0.0, 1.0], [4.0, 0.0], [1.0, 9.0], [0.0, 0.0], [2.0, 3.0]])
    f = lambda x: np.sum(np.sqrt(x) * [0.0, 1.0])
    with np.errstate(all="ignore"):
        same(tg.vmap(tg.grad(f))(x), looped(tg.grad(f), x))


def test_ways_of_nested_ones(rng):
    x = rng.normal(size=(5, 6))
    same(tg.vmap(tg.vmap(kinked))(x), np.where(x > 0, x**2, -x))
    whole = lambda x: np.sum(tg.vmap(tg.vmap(kinked))(x))
    same(tg.grad(whole)(x), np.where(x > 0, 2.0 * x, -1.0))


def test_ways_in_a_compiled_function(rng):
    x = rng.normal(size=6)
    c = tg.compile(tg.vmap(kinked))
    for one in (x, -x, np.abs(x), x, 2.0 * x, -np.abs(x)):
        same(c(one), np.where(one > 0, one**2, -one))


def test_a_way_that_others_take(rng):
    """What decides is the same for all elements: of a tensor around, of a constant."""
    x = rng.normal(size=(5, 3))
    f = lambda w: np.sum(tg.vmap(lambda x: np.exp(w @ x) if w[0] > 0 else x @ w)(x))
    c, w = tg.compile(f), np.array([0.3, -1.0, 0.5])
    for one in (w, -w, w, 2.0 * w):
        wanted = (x if one[0] <= 0 else x * np.exp(x @ one)[:, None]).sum(0)
        same(tg.grad(f)(one), wanted)
        same(c.grad(one), wanted)


def test_shapes_that_differ(rng):
    with pytest.raises(ValueError, match=r"returned shapes \[\(1,\), \(3,\)\] for different"):
        tg.vmap(lambda x: x[:1] if x[0] > 0 else x)(rng.normal(size=(9, 3)))


# --- loops ----------------------------------------------------------------------------------------


class Twice(tg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2.0 * x

    @staticmethod
    def backward(ctx, g):
        return 2.0 * g


def overwriting(x):
    x[0] = 1.0
    return np.sum(x**2)


state = {"calls": 0}


def counting(x):
    state["calls"] += 1
    return np.sum(x) + state["calls"]


#: NumPy's own, which is entered by its name alone.
PLAIN = [np.asarray]
LOOPS = {
    "a value": (
        lambda x: float(x[0]) * 2.0,
        r"it takes another branch at .*\(float\(\)\) for",
    ),
    "a list": (
        lambda x: sum(np.tile(x, 30).tolist()),
        r"tolist\(\) reads .*shape \(120,\), at .*py",
    ),
    "an array": (
        lambda x: np.sum(PLAIN[0](x)),
        r"recorded it raises DerivativeLost: .*plain NumPy",
    ),
    "no rule": (lambda x: Twice.apply(tg.asarray(x)), r"it calls Twice, which .*, at .*py:\d+"),
    "a write": (overwriting, r"it writes to its argument in place; write to a copy\(\) of it"),
}


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_says_why_once(name, rng):
    f, why = LOOPS[name]
    x = rng.normal(size=(30, 4))
    wanted = np.stack([np.asarray(f(row.copy())) for row in x])
    name = re.escape(f.__name__)
    with pytest.warns(RuntimeWarning, match=f"tapegrad.vmap: {name} is called .*: {why}") as found:
        same(np.asarray(tg.vmap(f)(x.copy())), wanted)
    assert [one.filename for one in found] == [__file__]
    same(np.asarray(tg.vmap(f)(x.copy())), wanted)  # a warning would be an error


def test_a_loop_writes_to_its_argument(rng):
    x = rng.normal(size=(5, 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tg.vmap(overwriting)(x)
    assert np.array_equal(x[:, 0], np.ones(5))


def test_state_and_random_numbers_are_noticed(rng):
    x, numbers = rng.normal(size=(6, 3)), np.random.default_rng(1)
    with pytest.warns(RuntimeWarning, match="something else than its arguments, such as random"):
        found = tg.vmap(lambda x: np.sum(x) + numbers.random())(x)
    added = found - x.sum(1)
    assert len(np.unique(added)) == 6 and np.all((added >= 0.0) & (added < 1.0))
    with pytest.warns(RuntimeWarning, match="something else than its arguments"):
        found = tg.vmap(counting)(x)
    counts = found - x.sum(1)
    np.testing.assert_allclose(counts - counts[0], np.arange(6), atol=1e-9)


def test_a_loop_around_a_derivative(rng):
    x = rng.normal(size=(5, 4))
    with pytest.warns(RuntimeWarning, match="is called for each element"):
        found = tg.grad(lambda x: np.sum(tg.vmap(Twice.apply)(x) ** 2))(x)
    same(found, 8.0 * x)


def test_dtypes_that_are_not_recorded(rng):
    x = rng.normal(size=(4, 2)) + 1j
    same(tg.vmap(lambda x: np.abs(x))(x), np.abs(x))
    with pytest.warns(RuntimeWarning, match="an argument has dtype float16"):
        same(tg.vmap(lambda x: np.abs(x))(x.real.astype("f2")), np.abs(x.real.astype("f2")))


def test_terms_that_cancel_are_no_difference(rng):
    """Sums in another order differ by as much as all of what is left."""
    x = rng.normal(size=(50, 200)) * 1e6
    left = tg.vmap(lambda x: np.sum(x) - np.sum(x[::-1].reshape(10, 20), axis=0).sum())(x)
    assert np.all(np.abs(left) < 1e-5)
    narrow = x.astype(np.float32)
    left = tg.vmap(lambda x: np.sum(x) - np.sum(x[::-1].reshape(10, 20), axis=0).sum())(narrow)
    assert left.dtype == np.float32


# --- errors ---------------------------------------------------------------------------------------


def test_errors_are_those_of_the_function(rng):
    """Without a warning, wherever they come up."""
    x = np.stack([np.eye(3)] * 4 + [-np.eye(3)])
    for batch in (x, x[::-1], x[-2:]):
        with pytest.raises(np.linalg.LinAlgError):
            tg.vmap(np.linalg.cholesky)(batch)

    def picky(x):
        if x[0] > 0.5:
            raise KeyError("too large")
        return x

    with pytest.raises(KeyError, match="too large"):
        tg.vmap(picky)(np.linspace(0.0, 1.0, 8)[:, None])


def test_after_an_error_all_is_as_before(rng):
    with pytest.raises(ZeroDivisionError):
        tg.vmap(lambda x: x * (1 / 0))(rng.normal(size=(4, 2)))
    leaf = tg.tensor([1.0, 2.0], requires_grad=True)
    (leaf**2).sum().backward()
    np.testing.assert_allclose(leaf.grad.numpy(), [2.0, 4.0])
    assert tg.is_grad_enabled()
