"""Functions without derivative (truths, indices, counts), histograms, and arrays as sets."""

import numpy as np
import pytest
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg

EDGES = np.array([0.0, 0.6, 1.0, 2.5])
W = np.array([[1.0, 2.0, 3.0, 4.0], [0.5, 0.25, 2.0, 1.0], [3.0, 1.5, 0.75, 2.0]])
NAMES = {"edges": EDGES, "w": W}


def of(text, torch=None, **options):
    return Expression(text, torch, names=NAMES, **options)


TABLE = [
    of(
        "x * np.isclose(x, np.sort(x, 0), atol=0.1)",
        "x * torch.isclose(x, x.sort(0).values, atol=0.1)",
    ),
    of("x * np.allclose(x, 1.0, atol=0.5) + x**2"),
    of("x * (2.0 if np.array_equal(x, np.sort(x, 1)) else 3.0)"),
    of("x * np.array_equiv(x, x[0]) + np.sin(x)", "torch.sin(x)"),
    of("x * np.searchsorted([0.4, 1.2], x)", "x * torch.searchsorted(torch.tensor([0.4, 1.2]), x)"),
    of("x[0] * np.searchsorted(np.sort(x[1]), x[2], side='right')"),
    of("np.sort(x[0]).searchsorted(0.8) * x", "x * (x[0] < 0.8).sum()"),
    of("x * np.digitize(x, edges)", "x * torch.bucketize(x, torch.tensor(edges), right=True)"),
    of("np.bincount(np.digitize(x[0], edges), x[1], 6)"),
    of("np.bincount(np.argsort(x[0]), weights=x[1]) * x[2]"),
    of(
        "np.histogram(x, edges)[0] * x[:, :3]",
        "x[:, :3] * torch.histogram(x.detach(), torch.tensor(edges)).hist",
    ),
    of("np.histogram(x, edges, weights=x)[0]"),
    of("np.histogram(x, edges, None, True, x * w)[0]", choices=False, other=(0.9, 1.05)),
    of("np.histogram(x[0], 3)[1]"),
    of("np.histogram(x, bins=4, density=True)[0]", other=(2.0, 0.5), choices=False),
    of("np.histogram(0.37 * w, np.cumsum(x[:, 0]), density=True)[0]", other=(1.01,), choices=False),
    of("np.histogram(x, 4, (0.0, 2.2), weights=w)[0] * x[0]"),
    of("np.histogram(x[0], 2, (0.0, x[0, 0] + 1.0))[1]"),
    of(
        "np.histogram_bin_edges(x, 5)",
        "torch.linspace(0.0, 1.0, 6, dtype=x.dtype) * (x.amax() - x.amin()) + x.amin()",
    ),
    of("np.histogram2d(x[0], x[1], [edges, [0.0, 1.0, 2.0]], weights=x[2])[0]"),
    of("np.histogram2d(x[0], x[1], 2, density=True)[0]", other=(2.0, 0.5), choices=False),
    of("np.histogramdd(x[:, :2], (edges, edges), weights=x[:, 2])[0]"),
    of("np.histogramdd([x[0], x[1], x[2]], bins=2)[1][2]"),
    of("np.sum(np.unique(x) ** 2)", "(x**2).sum()"),
    of("np.unique(x, return_counts=True)[0][:2] * np.unique(x, return_inverse=True)[1].size"),
    of("np.sum(np.unique_all(x[0]).values * np.unique_counts(x[0]).counts)", "x[0].sum()"),
    of("np.unique_values(x[:, 0]) * np.unique_inverse(x[:, 0]).inverse_indices", choices=False),
    of("np.sum(np.union1d(x[0], x[:2, 1:]) ** 2)", "(x[0] ** 2).sum() + (x[1, 1:] ** 2).sum()"),
    of("np.sum(np.intersect1d(x[:2], x[1:]) ** 2)", "(x[1] ** 2).sum()"),
    of("np.intersect1d(x[0], x, return_indices=True)[0][:2]", "x[0].sort().values[:2]"),
    of("np.sum(np.setdiff1d(x, x[0]) ** 2)", "(x[1:] ** 2).sum()"),
    of("np.sum(np.setxor1d(x[:2], x[1:]) ** 2)", "(x[[0, 2]] ** 2).sum()"),
    of("x * np.isin(x, x[0])", "x * torch.isin(x.detach(), x[0].detach())"),
    of("x * np.isin(x, [1.0], invert=True)"),
    of("np.sum(x[np.nonzero(x > 0.8)] ** 2)", "(x[x > 0.8] ** 2).sum()"),
    of("np.sum(x[(x > 0.8).nonzero()])", "x[x > 0.8].sum()"),
    of("np.sum(x.ravel()[np.flatnonzero(x < 1.1)])", "x[x < 1.1].sum()"),
    of("x[tuple(np.argwhere(x == np.max(x))[0])] * x", "x.max() * x"),
    of(
        "np.sum(x.ravel()[np.argpartition(x, 4, axis=None)[:4]])",
        "x.reshape(-1).sort().values[:4].sum()",
    ),
    of(
        "np.sum(np.take_along_axis(x, x.argpartition(1, axis=1), 1)[:, :2], 1)",
        "x.sort(1).values[:, :2].sum(1)",
    ),
    of("x[0][np.lexsort((x[0], x[1] > 0.8))]"),
    of("x[:, np.lexsort(x)]", "x[:, x[2].argsort()]"),
    of(
        "x[0, np.argmax(x[1])] * x[np.argmin(x, axis=0), 1]",
        "x[0, x[1].argmax()] * x[x.argmin(0), 1]",
    ),
    of("x * np.nanargmax(np.where(x < 1.5, x, np.nan), axis=1, keepdims=True)"),
    of("np.nanargmin(x) * x", "x.argmin() * x"),
    of("x * np.logical_and(x > 0.57, x < 1.1)", "x * ((x > 0.57) & (x < 1.1))"),
    of("x * np.logical_or(x > 1.5, np.logical_not(x > 0.57))", "x * ((x > 1.5) | (x < 0.57))"),
    of(
        "np.where(np.logical_xor(x > 0.8, x[0] > 0.8), x, x**2)",
        "torch.where((x > 0.8) ^ (x[0] > 0.8), x, x**2)",
    ),
    of("x * ((np.argsort(x, 1) << 2) >> 1 | 1 & np.argsort(x, 1))"),
    of("x * np.bitwise_xor(np.argsort(x, 0), 5)", "x * (x.argsort(0) ^ 5)"),
    of("x * np.isposinf(np.where(x > 0.8, np.inf, x))", "x * (x > 0.8)"),
    of("np.where(np.isneginf(x), 0.0, x) * np.isreal(x) + np.iscomplex(x)", "x * 1.0"),
    of("x * np.count_nonzero(x > 0.8, axis=0)", "x * (x > 0.8).sum(0)"),
    of("x[0] * np.unravel_index(np.argmax(x), x.shape)[1]", "x[0] * (x.argmax() % 4)"),
    of(
        "x * np.ravel_multi_index((np.argmin(x, 0), np.arange(4)), x.shape)",
        "x * (x.argmin(0) * 4 + torch.arange(4))",
    ),
    of("np.real_if_close(x) * np.fix(2.1 * x)", "x * torch.trunc(2.1 * x)"),
    of(
        "x * np.round(x, 1) + np.sign(x - 0.8)",
        "x * torch.round(x, decimals=1) + torch.sign(x - 0.8)",
        choices=False,
    ),
    of("x[np.triu_indices_from(x)]", "x[tuple(torch.triu_indices(3, 4))]"),
    of("x[:, :3][np.diag_indices_from(x[:, :3])] * np.size(x, 1)", "x.diagonal() * 4"),
    of("x * (np.floor(x[0, 0]) + round(x[1, 1]) + round(x[2, 2], 1) * 0.0)"),
    of("x * np.packbits(x > 0.8)[0]"),
    of("x * np.finfo(x.dtype).max**0.001 * np.ndim(x) / np.shape(x)[0]"),
    of(
        "np.divmod(x, 0.7)[1] * divmod(x, 0.7)[0] + x // 0.56 + x % 0.41",
        "(x % 0.7) * torch.floor(x / 0.7) + torch.floor(x / 0.56) + x % 0.41",
        choices=False,
        other=(1.5,),
    ),
]


def is_recorded_in_double(expression):
    words = ("histogram(w", "w)[0]", "weights=w", "finfo", "(w,", "bincount")
    return any(word in expression.text for word in words)


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    if check == "float32" and is_recorded_in_double(expression):
        pytest.skip("it is of float64")
    CHECKS[check](expression)


@native_parts(TABLE)
def test_native(part):
    check_native(part)


# --- the same as NumPy ----------------------------------------------------------------------------

V = np.array([0.3, 1.7, -0.4, 1.7, 0.0, -0.0, 2.5])
N = np.array([0.5, np.nan, 0.2, np.nan, 0.5])
SAMPLES = {
    "float64": V,
    "nan": N,
    "float32": V.astype(np.float32),
    "int": np.array([3, 1, 2, 1, 7]),
    "bool": np.array([True, False, True]),
    "matrix": V[:6].reshape(2, 3),
    "fortran": np.asfortranarray(V[:6].reshape(2, 3)),
    "one": np.array([2.0]),
    "none": np.array([]),
    "equal": np.array([1.5, 1.5]),
}
CALLS = {
    "histogram": lambda x: np.histogram(x),
    "histogram with edges": lambda x: np.histogram(x, [0.0, 0.3, 1.7, 2.0]),
    "histogram in a range": lambda x: np.histogram(x, 4, (0.0, 2.0), True),
    "histogram with weights": lambda x: np.histogram(
        x, 3, weights=np.arange(x.size).reshape(x.shape)
    ),
    "histogram of float32 weights": lambda x: np.histogram(
        x, 3, weights=np.ones(x.shape, np.float32)
    ),
    "histogram, automatic": lambda x: np.histogram(x, "sturges") if not is_recorded(x) else None,
    "edges": lambda x: np.histogram_bin_edges(x, 7),
    "histogram2d": lambda x: np.histogram2d(x.ravel(), x.ravel()[::-1], 3),
    "histogram2d with edges": lambda x: np.histogram2d(x.ravel(), x.ravel(), [0.0, 0.3, 2.5]),
    "histogram2d in a range": lambda x: np.histogram2d(x, x, (2, 3), [(0, 2), (1, 3)], True),
    "histogramdd": lambda x: np.histogramdd(x, 2),
    "histogramdd of a list": lambda x: np.histogramdd((x, x), (2, [0.0, 1.0]), weights=x),
    "unique": lambda x: np.unique(x),
    "unique and all": lambda x: np.unique(x, True, True, True),
    "unique along an axis": lambda x: np.unique(x, axis=0, return_counts=True),
    "unique with all NaN": lambda x: np.unique(x, equal_nan=False),
    "unique_all": lambda x: tuple(np.unique_all(x)),
    "unique_counts": lambda x: tuple(np.unique_counts(x)),
    "unique_inverse": lambda x: tuple(np.unique_inverse(x)),
    "unique_values": lambda x: np.sort(np.unique_values(x)),
    "union1d": lambda x: np.union1d(x, [1.7, 9.0, 0.3]),
    "union1d, second": lambda x: np.union1d(np.array([1, 2]), x),
    "intersect1d": lambda x: np.intersect1d(x, [1.7, 0.3, 1.0]),
    "intersect1d, second": lambda x: np.intersect1d(np.array([1, 2], np.int8), x),
    "intersect1d with indices": lambda x: np.intersect1d([1.7, 2.0], x, return_indices=True),
    "setdiff1d": lambda x: np.setdiff1d(x, [1.7]),
    "setdiff1d, second": lambda x: np.setdiff1d([1.7, 0.3, 5.0], x),
    "setdiff1d, unsorted": lambda x: np.setdiff1d(x, [1.7], assume_unique=True),
    "setxor1d": lambda x: np.setxor1d(x, [1.7, 8.0]),
    "isin": lambda x: np.isin(x, [1.7, 1]),
    "isin, second": lambda x: np.isin([1.7, 1.0], x, kind="sort"),
    "array_equal": lambda x: np.array_equal(x, x, equal_nan=x.dtype.kind == "f"),
    "array_equiv": lambda x: np.array_equiv(x, x),
    "allclose": lambda x: np.allclose(x, x, equal_nan=True),
    "isclose": lambda x: np.isclose(x, 1.7, 0.1, 0.3),
    "searchsorted": lambda x: np.searchsorted([0.0, 1.0, 1.7], x, "right"),
    "searchsorted, first": lambda x: np.searchsorted(
        x.ravel(), [0.3], sorter=np.argsort(x.ravel())
    ),
    "digitize": lambda x: np.digitize(x, [2.0, 1.0, 0.0], right=True),
    "nonzero": lambda x: np.nonzero(x),
    "nonzero, method": lambda x: x.nonzero(),
    "argwhere": lambda x: np.argwhere(x),
    "flatnonzero": lambda x: np.flatnonzero(x),
    "argpartition": lambda x: np.argpartition(x, 0, axis=-1),
    "lexsort": lambda x: np.lexsort((x, x)),
    "argmax": lambda x: np.argmax(x, axis=-1, keepdims=True),
    "nanargmax": lambda x: np.nanargmax(x),
    "nanargmin": lambda x: np.nanargmin(x, axis=0, keepdims=True),
    "logical": lambda x: np.logical_and(x, np.logical_not(x)) | np.logical_xor(x, True),
    "isposinf": lambda x: np.isposinf(x),
    "isreal": lambda x: np.isreal(x),
    "iscomplex": lambda x: np.iscomplex(x),
    "count_nonzero": lambda x: np.count_nonzero(x, axis=0, keepdims=True),
    "shifts": lambda x: (x << 2) >> np.ones(x.shape, int),
    "shift of": lambda x: 1 << x,
    "bits": lambda x: np.bitwise_and(x, 1) ^ (x | 2),
    "packbits": lambda x: np.packbits(x),
    "gcd": lambda x: np.gcd(x, 6) + np.lcm(x, 4),
    "fix": lambda x: np.fix(x),
    "real_if_close": lambda x: np.real_if_close(x),
    "triu_indices_from": lambda x: np.triu_indices_from(x, 1),
    "unravel_index": lambda x: np.unravel_index(x, (9,)),
    "ravel_multi_index": lambda x: np.ravel_multi_index((x, x), (8, 8)),
}


def is_recorded(x):
    return isinstance(x, tg.Tensor) and x.requires_grad


@pytest.mark.filterwarnings("ignore:Converting input from bool")
@pytest.mark.parametrize("kind", SAMPLES)
@pytest.mark.parametrize("name", CALLS)
def test_values_dtypes_and_shapes_are_those_of_numpy(name, kind):
    x = SAMPLES[kind]
    wanted = outcome(CALLS[name], x)
    recorded = [False, True] if x.dtype.kind == "f" else [False]
    for requires_grad in recorded:
        found = outcome(CALLS[name], tg.tensor(x, requires_grad=requires_grad))
        if found is None:
            continue
        if isinstance(wanted, Exception):
            assert isinstance(found, Exception), (wanted, found)
            continue
        assert not isinstance(found, Exception), found
        compare(found, wanted)


def outcome(call, x):
    try:
        with np.errstate(all="ignore"):
            return call(x)
    except (ValueError, TypeError, IndexError) as error:
        return error


def compare(found, wanted):
    if isinstance(wanted, (tuple, list)):
        assert isinstance(found, (tuple, list)) and len(found) == len(wanted)
        for one, other in zip(found, wanted, strict=True):
            compare(one, other)
    elif isinstance(wanted, (bool, str)):
        assert found == wanted
    else:
        assert isinstance(found, tg.Tensor)
        value = np.asarray(found.detach())
        assert value.dtype == wanted.dtype and value.shape == np.shape(wanted)
        np.testing.assert_allclose(value, wanted, 1e-6 if wanted.dtype == np.float32 else 1e-14)


def test_which_of_equal_elements_have_the_derivative():
    x, y = np.array([1.0, 2.0, 2.0]), np.array([2.0, 3.0])
    both = tg.grad(lambda x, y: np.sum(np.union1d(x, y)), (0, 1))(x, y)
    assert [g.tolist() for g in both] == [[1.0, 1.0, 0.0], [0.0, 1.0]]
    both = tg.grad(lambda x, y: np.sum(np.intersect1d(x, y)), (0, 1))(x, y)
    assert [g.tolist() for g in both] == [[0.0, 1.0, 0.0], [0.0, 0.0]]
    assert tg.grad(lambda y: np.sum(np.intersect1d(x, y)))(y).tolist() == [1.0, 0.0]
    assert tg.grad(lambda y: np.sum(np.setdiff1d(y, x)))(y).tolist() == [0.0, 1.0]


def test_histograms_of_equal_elements_and_bad_ends():
    edges = tg.jacobian(lambda x: np.histogram(x, 1)[1])(np.array([2.0, 2.0]))
    assert edges.tolist() == [[0.5, 0.5], [0.5, 0.5]]
    c = tg.compile(lambda x: np.sum(np.histogram(x, 2)[1]))
    assert c(np.array([0.0, 1.0, 2.0])) == 3.0 and c(np.array([1.0, 1.0, 1.0])) == 3.0
    with pytest.raises(ValueError, match="is not finite"):
        c(np.array([0.0, np.nan, 1.0]))
    for call, text in {
        lambda t: np.histogram(t, [3.0, 1.0]): "increase monotonically",
        lambda t: np.histogram(t, 2, (1.0, 0.0)): "max must be larger",
        lambda t: np.histogram(t, 2, weights=t[:1]): "weights have shape",
        lambda t: np.histogramdd([t, t], [2]): "give one for each",
        lambda t: np.histogram2d(t, t[:1]): "x has length",
    }.items():
        with pytest.raises(ValueError, match=text):
            call(tg.tensor([1.0, 2.0], requires_grad=True))
    for call in (
        lambda t: np.histogram(t, "fd"),
        lambda t: np.histogram(t.detach(), "fd", weights=t),
    ):
        with pytest.raises(TypeError, match="bins='fd'"):
            call(tg.tensor([1.0, 2.0], requires_grad=True))


def test_programs_count_and_choose_anew():
    """At values where counts, sets and indices come out otherwise than where it was recorded."""

    def f(x):
        counts, edges = np.histogram(x, 3)
        total = np.sum(counts * edges[1:]) + np.sum(np.unique(x) ** 2)
        total = total + np.sum(np.setdiff1d(x, [0.5])) * np.nanargmax(x)
        if np.allclose(x, x[0], atol=1.0):
            total = total * 2.0
        return total + np.sum(x[np.lexsort((x,))] * np.arange(len(x)))

    c = tg.compile(f, on_branch="record")
    rng = np.random.default_rng(5)
    points = [rng.normal(size=5) for _ in range(4)] + [np.array([0.5, 0.5, 1.0, 2.0, 2.0])]
    for x in [*points, *points]:
        value, gradient = c.value_and_grad(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-12)
        np.testing.assert_allclose(gradient, tg.grad(f)(x), rtol=1e-12)


#: Calls whose programs are saved to files.
SAVED = [name for name in CALLS if "automatic" not in name and "float32" not in name]


@pytest.mark.parametrize("name", SAVED)
def test_programs_with_answers_are_saved(name, tmp_path):
    """What a loaded program gives at other values is what the function gives."""

    def f(x):
        made = CALLS[name](x.astype(int) if name in OF_INTEGERS else x)
        made = made if isinstance(made, (tuple, list)) else (made,)
        parts = [one for part in made for one in (part if isinstance(part, tuple) else (part,))]
        return sum(np.sum(part * 1.5) for part in parts) + np.sum(x)

    x = SAMPLES["matrix"] if name in OF_MATRICES else V
    with np.errstate(all="ignore"):
        wanted = outcome(f, x)
        if isinstance(wanted, Exception):
            return
        c = tg.compile(f, verify="never")
        np.testing.assert_allclose(c(x), wanted, 1e-13)
        c.save(tmp_path / "program")
        loaded = tg.load(tmp_path / "program")
        np.testing.assert_allclose(loaded(x), wanted, 1e-13)


OF_INTEGERS = (
    "shifts",
    "shift of",
    "bits",
    "packbits",
    "gcd",
    "unravel_index",
    "ravel_multi_index",
)
OF_MATRICES = ("triu_indices_from", "unique along an axis", "histogramdd", "lexsort")


@pytest.mark.parametrize("compare", ["array_equal", "array_equiv"])
@pytest.mark.parametrize("door", [np, tg.numpy], ids=["NumPy", "stand-in"])
def test_lists_of_recorded_numbers_are_compared(compare, door):
    """NumPy takes any error for a no; programs check the answer's values."""
    compare = getattr(door, compare)

    def f(x):
        return x[0] if compare([x[0], x[1]], [1.2, 0.7]) else x[1] ** 2

    same, other = np.array([1.2, 0.7]), np.array([1.5, 0.7])
    c = tg.compile(f, native=False)
    for x in (same, same, other, same, other):
        wanted = [1.0, 0.0] if x is same else [0.0, 1.4]
        np.testing.assert_allclose(tg.grad(f)(x), wanted)
        np.testing.assert_allclose(c.grad(x), wanted)
    x = tg.tensor(same, requires_grad=True)
    assert compare([x[0], x[1]], same) and not compare([x[1], x[0]], same)
