"""Data of compiled functions, and recorded numbers, as keys of dicts, members of sets, and text."""

import collections
import functools
import warnings

import numpy as np
import pytest

import tapegrad as tg

X = np.array([1.3, 2.7, 3.1])
TABLE = {1: 5.0, 2: 7.0}


def summed(x, labels):
    return sum([v * TABLE.get(k, 0.5) for v, k in zip(x, labels, strict=True)])


def seen(x, labels):
    have, total = set(), 0.0
    for v, k in zip(x, labels, strict=True):
        total = total + v * 10 if k in have else total + v
        have.add(k)
    return total


def grouped(x, labels):
    groups = {}
    for v, k in zip(x, labels, strict=True):
        groups.setdefault(k, []).append(v)
    return sum([k * sum(vs) ** len(vs) for k, vs in groups.items()])


def counted(x, labels):
    return x[0] * max(collections.Counter(labels).values()) + x[1] * len(set(labels))


def once_each(x, labels):
    return x[0] * len(dict.fromkeys(labels)) + x[1] * (frozenset(labels) == {1, 2})


def of_pairs(x, labels):
    return x[0] * {(1, 2): 3.0}.get((labels[0], labels[1]), 0.5)


def computed_keys(x, labels):
    return sum([v * TABLE.get(k + 1, 0.5) for v, k in zip(x, labels, strict=True)])


def masked(x, labels):
    return x[0] * {True: 2.0, False: 3.0}[labels[0] > 1] + x[1] * {True: 4.0}.get(x[0] > 1, 7.0)


def text(x, labels):
    return sum([v if str(k)[0] == "1" else v * v for v, k in zip(x, labels, strict=True)])


def texts(x, labels):
    k = labels[0]
    return x[0] * len(f"{k}") + x[1] * len(f"{k!r}") + x[2] * len(f"%s|{k:6.3f}" % labels[1])


def text_of_array(x, labels):
    return x[0] * len(str(labels)) + x[1] * len(repr(labels)) + x[2] * len(f"{labels}")


def joined(x, labels):
    return x[0] * len(",".join(map(str, labels)))


def of_hashes(x, labels):
    return x[0] * (hash(labels[1]) == hash(2)) + x[1] * (hash(labels[0] + 0.5) == hash(1.5))


LABELS = [np.array([1, 2, 1]), np.array([1.0, 2.0, 1.0]), [1.0, 2.0, 1.0], (2.0, 1.0, 2.5)]
LABELS += [np.array([2, 7, 3]), np.array([0.0, -0.0, 1.0]), np.array([0.1, 1e300, -3.25])]
FUNCTIONS = [summed, seen, grouped, counted, once_each, of_pairs, computed_keys, masked, text]
FUNCTIONS += [texts, joined, of_hashes]


@pytest.fixture(autouse=True)
def quiet():
    """Some functions take as many ways as there are labels, or run eagerly, which is said."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("f", [*FUNCTIONS, text_of_array])
def test_programs_find_data_by_value(f, verify):
    c, d = tg.compile(f, verify=verify), tg.compile(f, verify=verify)
    for labels in [one for one in LABELS for _ in range(3)] + LABELS:
        if f is text_of_array and not isinstance(labels, np.ndarray):
            continue
        np.testing.assert_allclose(c(X, labels), f(X, labels), rtol=1e-12)
        np.testing.assert_allclose(d.grad(X, labels), tg.grad(f)(X, labels), rtol=1e-12)


@pytest.mark.parametrize("f", FUNCTIONS)
def test_programs_with_keys_go_to_files(f, tmp_path):
    labels = np.array([1, 2, 1])
    c = tg.compile(f)
    for _ in range(3):
        c.value_and_grad(X, labels)
    c.save(tmp_path / "program")
    loaded = tg.load(tmp_path / "program")
    value, gradient = loaded.value_and_grad(X + 0.5, labels)
    np.testing.assert_allclose(value, f(X + 0.5, labels), rtol=1e-12)
    np.testing.assert_allclose(gradient, tg.grad(f)(X + 0.5, labels), rtol=1e-12)


@pytest.mark.usefixtures("unlimited")
def test_a_program_serves_the_keys_that_it_was_recorded_with():
    calls = []

    def counted(x, k):
        calls.append(1)
        return summed(x, k)

    c = tg.compile(counted, verify="never")
    given = [(X, [1, 2, 1], 1), (2 * X, [1, 2, 1], 2), (3 * X, [1, 2, 1], 2), (X, [1, 2, 2], 3)]
    for x, labels, count in given:
        labels = np.array(labels)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # of calls, and of paths
            np.testing.assert_allclose(c.grad(x, labels), tg.grad(summed)(x, labels))
        assert len(calls) == count


def test_what_a_cache_outside_keeps_is_a_plain_value():
    """A cached function keeps its arguments and results after the recording."""

    @functools.lru_cache
    def twice(k):
        return k * 2.0 + 1.0

    f = lambda x, d: x[0] * twice(d) + twice(d + 1.0)
    c = tg.compile(f)
    for d in (2.0, 2.0, 3.0, 2.0, 5.0, 3.0):
        np.testing.assert_allclose(c.grad(X, d), [2 * d + 1, 0.0, 0.0])
        assert float(c(X, d)) == pytest.approx(1.3 * (2 * d + 1) + 2 * d + 3)
    assert twice(2.0) == 5.0


def test_arrays_are_no_keys():
    c = tg.compile(lambda x, d: x[0] * {1: 2.0}.get(d, 3.0))
    for _ in range(3):
        with pytest.raises(TypeError, match=r"unhashable type: 'numpy.ndarray'"):
            c(X, np.ones(2))


def test_complex_data_are_keys():
    f = lambda x, d: x[0] * {1 + 2j: 5.0}.get(d[0], 0.5) + x[1] * len({*d})
    c, z = tg.compile(f), np.array([1 + 2j, 2.0, 1 + 2j])
    for _ in range(3):
        np.testing.assert_allclose(c.grad(X, z), [5.0, 2.0, 0.0])


RECORDED = [
    lambda x: sum([v * {1.3: 5.0}.get(v, 0.0) for v in x]),
    lambda x: sum({*x, *x}) ** 2,
    lambda x: x[0] if x[2] in {3.1} else x[1] ** 2,
    lambda x: len({x[0], x[0] * 1.0}) * x[0],
    lambda x: x[0] * {1.3: 2.0}[x[0]],
    lambda x: x[0] * {np.sum(x): 2.0}[np.sum(x)],
    lambda x: functools.lru_cache(lambda v: v * v)(x[0]),
]


@pytest.mark.parametrize("f", RECORDED)
def test_a_recorded_number_is_no_key(f):
    for g in (tg.grad(f), tg.compile(f).grad, tg.hessian(f), tg.jacobian(f)):
        with pytest.raises(
            TypeError, match=r"recorded number cannot be a key .*float\(tg\.stop_gradient\(t\)\)"
        ):
            g(X)
    with pytest.raises(TypeError, match="recorded number cannot be a key"):
        tg.jvp(f, (X,), (X,))
    c = tg.compile(f)
    for _ in range(3):  # which computes values alone, of plain numbers
        np.testing.assert_allclose(c(X), f(X))


def test_recorded_numbers_of_other_kinds_are_no_keys():
    with pytest.raises(TypeError, match="recorded number"):
        tg.grad(lambda x: x[0] * len({x[1]}))(X.astype(np.float32))
    with pytest.raises(TypeError, match="recorded number"):
        tg.grad(lambda x: x[0] * len({x[1] * 1j}))(X)
    w = tg.tensor(X, requires_grad=True)
    with pytest.raises(TypeError, match="recorded number"):
        {w[0]: 1}


def test_values_without_derivative_are_keys_by_value():
    w = tg.tensor([1.0, 2.0], requires_grad=True)
    assert {1.0: 3}[w[0].item()] == {1.0: 3}[w[0].detach()] == {1: 3}[tg.tensor([1, 2])[0]] == 3
    assert {True: 3}[w[0] > 0] == 3
    f = lambda x: x[0] * {True: 2.0, False: 3.0}[x[0] > 0] * {1.0: 5.0}.get(x[1].detach(), 1.0)
    x = np.array([2.0, 1.0])
    for g in (tg.grad(f), tg.compile(f).grad):
        for sign in (1, -1, 1):
            np.testing.assert_allclose(g(x * [sign, 1]), [10.0 if sign > 0 else 15.0, 0.0])


def test_inputs_of_the_user_are_keys_by_identity():
    a, b = (tg.tensor(2.0, requires_grad=True) for _ in range(2))
    assert len({a, b}) == 2
    assert {a: 1, b: 2}[b] == 2
    c = tg.tensor(X, requires_grad=True)
    assert {c: 1}[c] == 1


def test_a_number_that_outlived_its_transform_is_a_key():
    kept = []
    tg.grad(lambda x: (kept.append(x[0]), x[0] * x[1])[1])(X)
    assert {1.3: 3}[kept[0]] == 3


# --- repetition -------------------------------------------------------------------------------


def in_place(x, d):
    items = [x[0]]
    items *= d[0]
    return sum(items)


REPEATED = [
    lambda x, d: sum([v * len([0] * k) for v, k in zip(x, d, strict=True)]),
    lambda x, d: sum([x[0]] * d[0]) + sum((x[1], x[2]) * (d[0] + 1)),
    lambda x, d: x[0] * len(d[0] * [0] * d[1]) + x[1] * len("ab" * d[1]),
    in_place,
    lambda x, d: x[0] * np.sum(d * [1, 2, 3]) + x[1] * np.sum([1, 2, 3] * d),
    lambda x, d: x[0] * np.sum(d[0] * np.array([1.0, 2.0])) + x[1] * sum([1, 2] + d[0]),
    lambda x, d: sum([x[0]] * np.argmax(d)) + x[1] * len([0] * np.argmax(x)),
    lambda x, d: x[0] * len([0] * np.sum(x > 2.0)),
]


@pytest.mark.parametrize("f", REPEATED)
def test_an_integer_repeats_a_list(f):
    c, d = tg.compile(f), tg.compile(f)
    for counts in ([2, 1, 3], [2, 1, 3], [2, 1, 3], [1, 4, 2], [0, 1, 1]):
        counts = np.array(counts)
        assert float(c(X, counts)) == pytest.approx(float(f(X, counts)))
        np.testing.assert_allclose(d.grad(X, counts), tg.grad(f)(X, counts))
        delta = np.eye(3) * 1e-6
        slopes = [(f(X + e, counts) - f(X - e, counts)) / 2e-6 for e in delta]
        np.testing.assert_allclose(tg.grad(f)(X, counts), slopes, atol=1e-8)


def test_numbers_and_arrays_without_axes_are_told_apart():
    f = lambda x, d: x[0] * len([1, 2, 4] * d)
    c = tg.compile(f)
    for d in (np.int64(2), np.array(2), np.int64(2), np.int64(3), np.array(3)):
        assert float(c(X, d)) == float(f(X, d))


def test_a_float_does_not_repeat_a_list():
    truths = [] if np.lib.NumpyVersion(np.__version__) < "2.3.0" else [np.array([True])[0]]
    for d in (2.0, np.float64(2.0), np.array([2.0, 1.0])[0], *truths):
        c = tg.compile(lambda x, d: x[0] * sum([1, 2] * d))
        for _ in range(3):
            with pytest.raises(TypeError, match="sequence|index"):
                c(X, d)


@pytest.mark.filterwarnings("ignore:tapegrad.compile. .* without a program")
def test_arrays_of_entered_functions_are_no_keys(monkeypatch):
    """A cache by arguments calls the function each time where it gets arrays, as with NumPy."""
    monkeypatch.setattr(tg.config, "enter", True)
    cache, own = {}, tg.tensor([2.0], requires_grad=True)

    def kept(*args):
        try:
            if args not in cache:
                cache[args] = np.sum(args[0] ** 2)
            return cache[args]
        except TypeError:
            return np.sum(args[0] ** 2)

    def f(x):
        cache.clear()
        made, mask = np.zeros(2), x > 0.0
        for array in (x, x * 1j, x[:1], x.T, made, mask):
            with pytest.raises(TypeError, match="unhashable type: 'numpy.ndarray'"):
                hash(array)
        y = x.copy()
        first = kept(y)
        y[0] = 3.0
        return first * kept(y) * kept(2.0) * len({own: 1}) * len(cache)

    wanted = tg.grad(lambda x: 4.0 * (x[0] ** 2 + x[1] ** 2) * (9.0 + x[1] ** 2))
    c = tg.compile(f)
    for x in (np.array([1.0, 2.0]), np.array([0.5, -1.0])):
        assert f(x) == 4.0 * np.sum(x**2) * (9.0 + x[1] ** 2)
        for gradient in (tg.grad(f), c.grad, c.grad):
            np.testing.assert_allclose(gradient(x), wanted(x), rtol=1e-12)
