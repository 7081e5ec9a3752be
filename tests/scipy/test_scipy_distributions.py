"""Distributions of SciPy: values, partial derivatives by differences, and what is refused."""

import functools
import pickle
import warnings

import numpy as np
import pytest
import scipy.stats
from extent import some
from scipy import stats
from scipy.stats import norm
from scipy.stats._distr_params import distcont, distdiscrete

import tapegrad as tg
from tapegrad.scipy import stats as ours
from tapegrad.scipy._stats_formulas import METHODS, RELEASED

#: Shapes by the name of the distribution, as SciPy's tests have them.
SHAPES = {name: shapes for name, shapes in [*distcont, *distdiscrete] if isinstance(name, str)}
#: Shapes at which a formula has derivatives, where those of SciPy's tests are 0.
SHAPES |= {"kappa4": (0.3, 0.2), "skellam": (15.0, 8.0)}
#: Distributions with a shape that must be a whole number.
WHOLE = {"erlang", "irwinhall"}
GROUPS = {
    "density": ("logpdf", "pdf"),
    "distribution": ("cdf", "sf", "logcdf", "logsf"),
    "quantile": ("ppf", "isf"),
    "moment": ("mean", "var", "std", "entropy"),
}


def is_discrete(name):
    return not hasattr(getattr(stats, name), "pdf")


def points_of(name):
    """Three sets of shapes, place and scale."""
    shapes, rng = SHAPES[name], np.random.default_rng(0)
    if not is_discrete(name) and name not in WHOLE:
        shapes = [float(one) for one in shapes]
    for k in range(3):
        moved = [
            one * (1 + 0.15 * (k > 0) * rng.uniform(-1, 1)) if isinstance(one, float) else one
            for one in shapes
        ]
        yield (*moved, 2) if is_discrete(name) else (*moved, 0.3 + k, 1.7)


def derivative(f, at):
    """A derivative by Richardson's extrapolation of central differences, and its error.

    Smaller steps are taken where the error of larger ones is not small.
    """
    best = (np.nan, np.inf)
    for first in (1e-2, 1e-3, 1e-4):
        if best[1] <= 1e-9 * abs(best[0]):
            break
        step, rows = first * max(abs(at), 1e-2), []
        for k in range(5):
            h = step / 2**k
            row = [(f(at + h) - f(at - h)) / (2 * h)]
            for j in range(k):
                row.append((4 ** (j + 1) * row[j] - rows[-1][j]) / (4 ** (j + 1) - 1))
            rows.append(row)
        error = max(abs(row[4] - rows[3][3]), abs(row[3] - row[4]))
        if error < best[1]:
            best = (row[4], error)
    return best


def arguments(name, group, point):
    """Where a method is evaluated: near the lower end, in the middle, near the upper end."""
    if group == "moment":
        return ()
    if group == "quantile":
        return (np.array([0.13, 0.43, 0.81]),)
    return (np.asarray(getattr(stats, name).ppf([0.13, 0.43, 0.81], *point), float),)


def method_of(name, method):
    return {"pdf": "pmf", "logpdf": "logpmf"}.get(method, method) if is_discrete(name) else method


CASES = [
    (name, group)
    for name, methods in RELEASED.items()
    for group, some in GROUPS.items()
    if any(method_of(name, one) in methods for one in some)
]


def moving(name, group, args):
    """The numbers of the arguments that a derivative is asked for."""
    kept = range(len(args))
    if is_discrete(name):  # at whole numbers there are steps
        kept = [k for k in kept if k < len(args) - 1 and (k > 0 or group == "moment")]
    return [k for k in kept if not isinstance(args[k], int)]


@pytest.mark.parametrize(("name", "group"), CASES)
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_partial_derivatives(name, group):
    plain = getattr(stats, name)
    for point in some(points_of(name), f"{name} {group}", 1):
        args = (*arguments(name, group, point), *point)
        for method in GROUPS[group]:
            method = method_of(name, method)
            if method in RELEASED[name]:
                check_partials(plain, getattr(ours, name), method, args, moving(name, group, args))


def check_partials(plain, recorded, method, args, numbers):
    values = np.asarray(getattr(plain, method)(*args))
    for k in numbers:

        def of_one(one, k=k):
            return getattr(recorded, method)(*args[:k], one, *args[k + 1 :])

        value, slopes = tg.jvp(of_one, (args[k],), (np.ones(np.shape(args[k])),))
        np.testing.assert_allclose(value, values, rtol=1e-9, atol=1e-14)
        for place in np.ndindex(values.shape):

            def at(one, k=k, place=place):
                rest = [a[place] if np.ndim(a) else a for a in args]
                rest[k] = one
                return float(getattr(plain, method)(*rest))

            here = args[k][place] if np.ndim(args[k]) else args[k]
            wanted, error = derivative(at, float(here))
            found = np.broadcast_to(slopes, values.shape)[place]
            if np.isfinite(wanted):
                size = max(abs(wanted), 1e-3 * abs(values[place]), 1e-12)
                assert abs(found - wanted) <= 1e-7 * size + 50 * error, (method, k, found, wanted)


CONTINUOUS = [name for name in RELEASED if not is_discrete(name) and "logpdf" in RELEASED[name]]


@pytest.mark.parametrize("name", [name for k, name in enumerate(CONTINUOUS) if k % 3])
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_second_derivatives(name):
    """Along a line in all arguments at once, by differences of first derivatives."""
    point = tuple(map(float, next(iter(points_of(name)))))
    x = float(getattr(stats, name).ppf(0.37, *point))
    line = np.linspace(0.3, 0.7, len(point) + 1) * (1 if name not in WHOLE else 0)
    line[0] = 0.4
    start = np.array([x, *point])

    def along(s):
        return getattr(ours, name).logpdf(*(start + s * line))

    second = tg.grad(tg.grad(along))(0.0)
    wanted, error = derivative(lambda s: tg.grad(along)(s), 0.0)
    assert abs(second - wanted) <= 1e-7 * max(1.0, abs(wanted)) + 50 * error


@pytest.mark.parametrize("name", [*CONTINUOUS[1::3], "poisson", "binom", "nbinom"])
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_compiled_at_other_arguments(name):
    """The program answers for points on other sides of the ends of the support, too."""
    first, second, _ = points_of(name)
    where = np.array([0.02, 0.3, 0.5, 0.9])
    x = np.asarray(getattr(stats, name).ppf(where, *first), float)
    numbers = moving(name, "density", (x, *first))
    for method in (method_of(name, "logpdf"), "cdf"):
        if method not in RELEASED[name]:
            continue
        plain = getattr(getattr(stats, name), method)
        recorded, wanted = getattr(ours, name), tuple(k for k in numbers if k)

        def f(*args, recorded=recorded, method=method):
            return getattr(recorded, method)(*args)

        slopes = tg.jacobian(f, argnums=wanted)
        compiled, program = tg.compile(f), tg.compile(slopes)
        for args in ((x, *first), (x * 1.1, *second), (x - 3.0, *first), (x * 4.0, *second)):
            np.testing.assert_allclose(compiled(*args), plain(*args), rtol=1e-9, atol=1e-14)
            for one, other in zip(program(*args), slopes(*args), strict=True):
                size = np.max(np.abs(other), initial=0.0, where=np.isfinite(other))
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14 * max(size, 0.1))


# --- entered functions ----------------------------------------------------------------------------

X = np.array([0.3, 1.2, 2.0])
FROZEN = stats.gamma(2.3, scale=1.5)


@pytest.mark.parametrize(
    "f",
    [
        lambda m: norm.logpdf(X, m, 1.5).sum(),
        lambda m: stats.norm(m, 1.5).logpdf(X).sum(),
        lambda m: scipy.stats.norm.logpdf(X, loc=m, scale=1.5).sum(),
        lambda m: stats.norm(loc=m, scale=1.5).logpdf(x=X).sum(),
        lambda m: np.log(norm.pdf(X, m, 1.5)).sum(),
    ],
)
def test_plain_imports(f):
    wanted = np.sum((X - 0.4) / 1.5**2)
    for found in (tg.grad(f)(0.4), tg.compile(tg.grad(f))(0.4), tg.jvp(f, (0.4,), (1.0,))[1]):
        assert found == pytest.approx(wanted, rel=1e-14)


def test_distributions_with_parameters_made_outside():
    found = tg.grad(lambda x: FROZEN.logpdf(x).sum())(X)
    np.testing.assert_allclose(found, 1.3 / X - 1 / 1.5, rtol=1e-14)
    assert tg.grad(lambda s: s * FROZEN.mean())(2.0) == FROZEN.mean()
    made = ours.gamma(2.3, scale=1.5)
    np.testing.assert_allclose(tg.grad(lambda x: np.sum(made.logpdf(x)))(X), found)


#: What comes after the parameters by its place, and by its name.
PLACES = {
    "draws": lambda a, s: stats.gamma(a, scale=s).rvs(4, np.random.default_rng(3)),
    "draws of one size": lambda a, s: stats.gamma(a, 0.0, s).rvs((2, 2), random_state=3),
    "draws by all places": lambda a, s: stats.gamma.rvs(a, 0.0, s, 4, random_state=3),
    "statistics": lambda a, s: stats.gamma(a, scale=s).stats("mvsk"),
    "statistics by all places": lambda a, s: stats.gamma.stats(a, 0.0, s, "vs"),
    "of whole numbers": lambda a, s: stats.nbinom(a, s / 9.0).stats("mv"),
    "of whole numbers, all": lambda a, s: stats.nbinom.stats(a, s / 9.0, 1, "mk"),
    "interval": lambda a, s: stats.gamma(a, scale=s).interval(0.3),
}


@pytest.mark.parametrize("name", PLACES)
def test_arguments_after_the_parameters(name):
    f, point = PLACES[name], np.array([2.3, 1.5])
    loss = lambda p: np.sum(np.arctan(np.stack(f(p[0], p[1]))))
    value, gradient = tg.value_and_grad(loss)(point)
    assert value == pytest.approx(loss(point), rel=1e-13)
    wanted = []
    for e in 1e-3 * np.eye(2):
        first, last = loss(point + e) - loss(point - e), loss(point + 2 * e) - loss(point - 2 * e)
        wanted.append((8.0 * first - last) / 12e-3)
    if "draws" in name:  # SciPy's draws jump with the shape: those of a scale are multiples
        gradient, wanted = gradient[1:], wanted[1:]
    np.testing.assert_allclose(gradient, wanted, rtol=1e-7, atol=1e-9)


def test_too_many_arguments_are_scipys_error():
    for call in (
        lambda a: stats.gamma(a).rvs(1, 2, 3),
        lambda a: stats.gamma(a).stats("m", "v"),
        lambda a: stats.gamma(a).mean(1.0),
        lambda a: stats.gamma(a).logpdf(0.5, 2.0),
        lambda a: stats.gamma(a).cdf(0.5, x=2.0),
        lambda a: stats.gamma.stats(a, 0.0, 1.0, "m", 2),
        lambda a: stats.gamma.rvs(a, 0.0, 1.0, 4, size=5),
    ):
        for f in (call, tg.grad(call)):
            with pytest.raises(TypeError):
                f(2.3)


def test_distributions_of_ours_in_containers():
    """As priors are held; those of SciPy there are not found."""
    priors = {"m": ours.norm(0.5, 2.0), "s": [ours.gamma(2.3, scale=1.5), ours.gaussian_kde(X)]}
    compiled = tg.compile(
        lambda x: priors["m"].logpdf(x[0]) + priors["s"][0].logpdf(x[1]) + priors["s"][1](x[2])[0]
    )
    kde = tg.grad(lambda x: stats.gaussian_kde(X)(x)[0])
    for x in (X, X, X + 0.3):
        wanted = [(0.5 - x[0]) / 4.0, 1.3 / x[1] - 1.0 / 1.5, kde(x[2])]
        np.testing.assert_allclose(compiled.grad(x), wanted, rtol=1e-13)


def test_objects_are_of_scipys_classes():
    assert isinstance(ours.norm, stats.rv_continuous)
    assert isinstance(ours.norm(0.0, 1.0), type(FROZEN))
    for made in (ours.norm, ours.gamma(2.0, scale=3.0)):
        again = pickle.loads(pickle.dumps(made))
        assert again.cdf(*[0.5] * (1 + (made is ours.norm))) == made.cdf(
            *[0.5] * (1 + (made is ours.norm))
        )
    frozen = ours.norm(1.0, 2.0)
    assert (frozen.args, frozen.kwds, frozen.a, frozen.b) == ((1.0, 2.0), {}, -np.inf, np.inf)
    frozen.random_state = 3
    assert frozen.rvs() == stats.norm(1.0, 2.0).rvs(random_state=3)
    assert ours.norm.fit(X) == stats.norm.fit(X)


def test_numbers_lists_and_types():
    assert tg.grad(lambda x: ours.norm.logpdf([x, 2 * x]).sum())(0.5) == pytest.approx(-2.5)
    single = np.float32(0.5)
    assert tg.value_and_grad(lambda x: ours.expon.pdf(x))(single)[0] == stats.expon.pdf(single)
    assert tg.grad(lambda x: np.sum(ours.norm.cdf(x)))(np.zeros((0, 3))).shape == (0, 3)
    square = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    found = tg.grad(lambda x: np.sum(ours.norm.cdf(x[:, ::-1])))(square)
    np.testing.assert_allclose(found, stats.norm.pdf(square), rtol=1e-14)
    wide = tg.jacobian(lambda a: ours.gamma.mean(a, scale=np.array([[1.0], [2.0]])))(X)
    assert wide.shape == (2, 3, 3)


# --- draws ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "point"), [("norm", (0.3, 1.2)), ("gamma", (2.3, 0.1, 1.5)), ("t", (4.0, 1.0, 2.0))]
)
def test_draws_move_with_parameters(name, point):
    draw = functools.partial(getattr(ours, name).rvs, size=4, random_state=7)
    plain = getattr(stats, name)
    found = draw(*point)
    np.testing.assert_array_equal(found, plain.rvs(*point, size=4, random_state=7))
    for k in range(len(point)):

        def moved(one, k=k):
            return draw(*point[:k], one, *point[k + 1 :])

        value, slope = tg.jvp(moved, (point[k],), (1.0,))
        np.testing.assert_array_equal(value, found)
        q = plain.cdf(found, *point)
        for i in range(4):

            def quantile(one, k=k, i=i, q=q):
                return plain.ppf(q[i], *point[:k], one, *point[k + 1 :])

            wanted, error = derivative(quantile, point[k])
            assert abs(slope[i] - wanted) <= 1e-7 * abs(wanted) + 50 * error


def test_draws_in_compiled_functions_are_new_ones():
    rng = np.random.default_rng(1)

    def f(m):
        return ours.norm.rvs(m, 1.0, random_state=rng)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        compiled = tg.compile(tg.value_and_grad(f))
        drawn = [compiled(0.5) for _ in range(4)]
    assert len({value for value, _ in drawn}) == 4
    assert [slope for _, slope in drawn] == [1.0] * 4


# --- where there is no derivative -----------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(SHAPES))
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_every_other_method_refuses_by_name(name):
    distribution, kind = getattr(ours, name), getattr(stats, name)
    point = SHAPES[name]
    missing = [one for one in METHODS if one not in RELEASED.get(name, ()) and hasattr(kind, one)]
    for method in (*missing, "fit", "expect", "moment"):
        if method != "moment" and not hasattr(kind, method):
            continue
        with pytest.raises(tg.DerivativeLost, match=rf"scipy\.stats\.{name}\.{method}\(\)"):
            tg.grad(lambda x, method=method: getattr(distribution, method)(x, *point, loc=x))(0.5)


def test_parameters_that_are_not_valid_give_nan():
    value, slopes = tg.value_and_grad(lambda m, s: ours.norm.logpdf(0.3, m, s), (0, 1))(0.1, -1.0)
    assert np.isnan([value, *slopes]).all()
    assert np.isnan(tg.grad(lambda a: ours.gamma.cdf(0.5, a))(-1.0))


def test_beyond_the_support():
    x = np.array([-1.0, 0.5, 3.0])
    for method in ("pdf", "logpdf", "cdf", "sf", "logcdf", "logsf"):
        found = getattr(ours.beta, method)
        value = tg.value_and_grad(lambda a, found=found: found(x, a, 2.0)[1])(2.5)[1]
        slopes = tg.jacobian(lambda a, found=found: found(x, a, 2.0))(2.5)
        np.testing.assert_array_equal(slopes, [0.0, value, 0.0])
        values = tg.jvp(lambda a, found=found: found(x, a, 2.0), (2.5,), (1.0,))[0]
        np.testing.assert_allclose(values, getattr(stats.beta, method)(x, 2.5, 2.0), rtol=1e-13)


@pytest.mark.parametrize(
    ("f", "message"),
    [
        (lambda q: ours.norm.ppf(q), "the density is 0 or infinite at a quantile"),
        (lambda q: ours.genpareto.logpdf(0.7, q), "less than 1e-05 from 0"),
        (lambda q: ours.pearson3.cdf(0.7, q), "less than 0.01 from 0"),
        (lambda q: ours.poisson.rvs(q + 2.0), "whole numbers that are drawn"),
        (lambda q: ours.vonmises.ppf(0.3, q + 60.0), "is an approximation"),
        (lambda q: ours.dweibull.cdf(q, 0.5), "the density is infinite"),
    ],
)
def test_points_without_derivative(f, message):
    with pytest.raises(tg.DerivativeLost, match=message):
        tg.grad(f)(0.0)


@pytest.mark.parametrize("name", ["alpha", "fatiguelife", "gamma", "invgamma", "norm", "uniform"])
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_quantiles_at_the_ends(name):
    """They are SciPy's, or refused where the density is 0: some formulas give NaN for it."""
    point = tuple(map(float, next(iter(points_of(name)))))
    for method in ("ppf", "isf"):
        for q in (0.0, 1.0, -0.2, np.nan):
            wanted = getattr(getattr(stats, name), method)(q, *point)
            try:
                value, slope = tg.value_and_grad(getattr(getattr(ours, name), method))(q, *point)
            except tg.DerivativeLost as error:
                assert 0 <= q <= 1 and "0 or infinite at a quantile" in str(error)
            else:
                np.testing.assert_allclose(value, wanted, rtol=1e-9)
                assert np.isfinite(slope) == np.isfinite(value)


def test_centres_where_formulas_have_a_case_of_their_own():
    for name, shape in (("gennorm", 1.3), ("dweibull", 1.0), ("laplace_asymmetric", 2.0)):
        found = tg.grad(functools.partial(getattr(ours, name).cdf))(0.0, shape)
        assert found == pytest.approx(getattr(stats, name).pdf(0.0, shape))
    assert tg.grad(ours.genlogistic.logpdf)(0.0, 2.0) == pytest.approx(0.5)
    assert tg.grad(lambda a: ours.skewnorm.logpdf(0.7, a))(0.0) == pytest.approx(
        0.7 * np.sqrt(2 / np.pi)
    )


@pytest.mark.parametrize(
    ("name", "shapes"), [("gamma", (2.3,)), ("beta", (2.0, 3.0)), ("norm", ()), ("poisson", (3.5,))]
)
def test_statistics_of_several_orders(name, shapes):
    wanted = getattr(stats, name).stats(*shapes, loc=1, moments="mvsk")

    def of_loc(m):
        return getattr(ours, name).stats(*shapes, loc=m, moments="mvsk")

    values, slopes = tg.jvp(of_loc, (1.0,), (1.0,))
    np.testing.assert_allclose(values, wanted, rtol=1e-12)
    np.testing.assert_allclose(slopes, [1.0, 0.0, 0.0, 0.0], atol=1e-15)


# --- far parameters -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "x", "shapes", "k"),
    [
        # more components than any fixed number
        *[("ncx2", 1.1 * nc, (4.0, nc), k) for nc in (30.0, 320.0, 3000.0) for k in (0, 1)],
        # far in a heavy tail
        *[("genpareto", x, (3.0,), 0) for x in (1e9, 1e15, 1e20)],
        # SciPy's other formula, also where the angle has turned
        *[("vonmises", x, (kappa,), 0) for kappa in (300.0, 5000.0) for x in (0.03, 6.31)],
    ],
)
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_large_parameters(name, x, shapes, k):
    plain, recorded = getattr(stats, name), getattr(ours, name)
    for method in ("pdf", "cdf", "sf")[: 3 if name == "ncx2" else 2]:

        def of(one, which, method=method):
            return getattr(which, method)(x, *shapes[:k], one, *shapes[k + 1 :])

        value, slope = tg.value_and_grad(functools.partial(of, which=recorded))(shapes[k])
        assert value == pytest.approx(of(shapes[k], plain), rel=1e-9)
        wanted, error = derivative(functools.partial(of, which=plain), shapes[k])
        assert abs(slope - wanted) <= 1e-6 * abs(wanted) + 50 * error


def test_components_of_a_compiled_mixture():
    compiled = tg.compile(tg.value_and_grad(lambda n: ours.ncx2.cdf(n + 2.0, 3.0, n)))
    for nc in (1.0, 900.0, 2.0):
        assert compiled(nc)[0] == pytest.approx(stats.ncx2.cdf(nc + 2.0, 3.0, nc), rel=1e-10)
    with pytest.raises(tg.DerivativeLost, match="more than 4096 components"):
        tg.grad(lambda n: ours.ncx2.cdf(3.0, 3.0, n))(1e5)


@pytest.mark.parametrize("c", [0.3, 1.0, -0.4])
def test_genextreme_of_numbers(c):
    """SciPy's formula writes into arrays, which a number is not."""
    for x in (0.4, -np.inf, np.inf, 1.0 / c):
        for method in ("pdf", "logpdf"):
            found = tg.value_and_grad(getattr(ours.genextreme, method), (0, 1))(x, c)[0]
            assert found == getattr(stats.genextreme, method)(x, c) or np.isclose(
                found, getattr(stats.genextreme, method)(x, c), rtol=1e-13
            )
    slope = tg.grad(ours.genextreme.logpdf, 1)(0.4, c)
    wanted, error = derivative(lambda c: stats.genextreme.logpdf(0.4, c), c)
    assert abs(slope - wanted) <= 1e-7 * abs(wanted) + 50 * error


@pytest.mark.parametrize(
    ("name", "method", "point", "shapes"),
    [
        ("kappa3", "sf", 0.4, (1.3,)),
        ("kappa3", "logcdf", 0.4, (1.3,)),
        ("nbinom", "logcdf", 3.0, (5.0, 0.4)),
    ],
)
def test_formulas_that_are_of_vectors_in_scipy(name, method, point, shapes):
    f = functools.partial(getattr(getattr(ours, name), method), point)
    wanted = getattr(getattr(stats, name), method)(point, *shapes)
    line = tuple(0.3 + 0.1 * k for k in range(len(shapes)))
    value, slope = tg.jvp(f, shapes, line)
    np.testing.assert_allclose(value, wanted, rtol=1e-13)
    wanted, error = derivative(
        lambda s: getattr(getattr(stats, name), method)(
            point, *[a + s * b for a, b in zip(shapes, line, strict=True)]
        ),
        0.0,
    )
    assert np.all(np.abs(slope - wanted) <= 1e-7 * np.abs(wanted) + 50 * error)


def test_mass_far_away_has_no_slope():
    k = np.array([1.0, np.inf, 2.0, 1.5, -1.0])
    for one, p in ((stats.geom, 0.3), (stats.yulesimon, 1.3)):
        f = lambda p: np.sum(one.pmf(k, p))  # noqa: B023, E731
        wanted = (f(p + 1e-6) - f(p - 1e-6)) / 2e-6
        c = tg.compile(f)
        for found in (tg.grad(f)(p), c.grad(p), c.grad(p)):
            assert found == pytest.approx(wanted, rel=1e-8)


@pytest.mark.parametrize("name", ["hypergeom", "nhypergeom"])
def test_parameters_that_are_whole_numbers(name):
    """The derivatives are those of the formula in gamma functions, which SciPy has for them."""
    k, shapes = np.array([[1, 2], [4, 5]]), (20.0, 7.0, 12.0)
    formula = getattr(stats._discrete_distns, f"{name}_gen")._logpmf

    def plain(*at):
        return formula(getattr(stats, name), k, *at)

    for method in ("pmf", "logpmf", "cdf", "sf", "logcdf", "logsf"):
        ourselves = getattr(ours, name)
        found = tg.compile(lambda *at, m=method, d=ourselves: getattr(d, m)(k, *at))
        wanted = getattr(getattr(stats, name), method)
        for at in ((20, 7, 12), (30, 9, 11), (20, 7, 12)):  # other supports, too
            np.testing.assert_allclose(found(*map(float, at)), wanted(k, *at), rtol=1e-11)
    every = np.arange(8.0)
    for j in range(3):
        e = 1e-4 * np.eye(3)[j]
        slope = (plain(*shapes + e) - plain(*shapes - e)) / 2e-4
        direction = tuple(np.eye(3)[j])
        logpmf = tg.jvp(functools.partial(getattr(ours, name).logpmf, k), shapes, direction)[1]
        np.testing.assert_allclose(logpmf, slope, rtol=1e-6, atol=1e-8)
        pmf, slopes = tg.jvp(functools.partial(getattr(ours, name).pmf, every), shapes, direction)
        assert np.sum(pmf) == pytest.approx(1.0)
        for method, part in (("cdf", slice(0, 4)), ("sf", slice(4, 8))):
            f = functools.partial(getattr(getattr(ours, name), method), 3)
            assert tg.jvp(f, shapes, direction)[1] == pytest.approx(np.sum(slopes[part]))


@pytest.mark.parametrize("letter", ["m", "v", "s", "k"])
def test_moments_of_hypergeom(letter):
    f = lambda *at: ours.hypergeom.stats(*at, moments=letter)
    shapes = np.array([20.0, 7.0, 12.0])
    value, slopes = tg.value_and_grad(lambda s: f(*s))(shapes)
    assert value == pytest.approx(float(stats.hypergeom.stats(20, 7, 12, moments=letter)))
    # SciPy's are NaN between whole numbers; a closed form of the mean and its kin
    M, n, N = shapes
    mean = [-n * N / M**2, N / M, n / M]
    if letter == "m":
        np.testing.assert_allclose(slopes, mean, rtol=1e-13)
    else:
        assert slopes[1] == pytest.approx(derivative(lambda t: _moment(letter, M, t, N), n)[0])
        assert slopes[0] == pytest.approx(derivative(lambda t: _moment(letter, t, n, N), M)[0])


def _moment(letter, M, n, N):
    mean = n * N / M
    var = mean * (M - n) * (M - N) / (M * (M - 1))
    if letter == "v":
        return var
    if letter == "s":
        return (M - 2 * n) * (M - 2 * N) / (M - 2) * np.sqrt((M - 1) / (n * N * (M - n) * (M - N)))
    rest = M * (M + 1) - 6 * N * (M - N) - 6 * n * (M - n)
    top = (M - 1) * M**2 * rest + 6 * n * N * (M - N) * (M - n) * (5 * M - 6)
    return top / (n * N * (M - N) * (M - n) * (M - 2) * (M - 3))


@pytest.mark.parametrize("name", ["norm", "gamma", "t", "beta", "uniform"])
def test_negative_log_likelihoods(name):
    plain, rng = getattr(stats, name), np.random.default_rng(3)
    theta = np.array([*SHAPES[name], 0.3, 1.7], float)
    x = plain.rvs(*theta, size=(5, 2), random_state=rng)
    f = lambda theta: np.sum(getattr(ours, name).nnlf(theta, x))
    for call in (tg.value_and_grad(f), *[tg.compile(f).value_and_grad] * 2):
        value, gradient = call(theta)
        assert value == pytest.approx(np.sum(plain.nnlf(theta, x)), rel=1e-12)
        for k in range(len(theta)):
            e = np.eye(len(theta))[k]
            slope, error = derivative(lambda t, e=e: np.sum(plain.nnlf(theta + t * e, x)), 0.0)
            assert abs(gradient[k] - slope) <= 1e-7 * abs(slope) + 50 * error
    far = tg.value_and_grad(lambda s: ours.gamma.nnlf((2.0, s, 1.0), [1.0, 2.0]))
    assert far(1.5)[0] == np.inf == stats.gamma.nnlf((2.0, 1.5, 1.0), np.array([1.0, 2.0]))
    assert tg.value_and_grad(lambda s: ours.norm.nnlf((0.0, s), [1.0]))(-1.0)[0] == np.inf


def test_sums_of_probabilities_of_many_and_of_nan():
    with pytest.raises(tg.DerivativeLost, match=r"zipf\.cdf\(\).* more than 100000"):
        tg.grad(lambda a: ours.zipf.cdf(1e9, a))(3.0)
    k = np.array([3.0, np.nan, np.inf, -1.0])
    found = tg.jvp(lambda a: ours.zipf.cdf(k, a), (3.0,), (1.0,))[0]
    np.testing.assert_allclose(found, stats.zipf.cdf(k, 3.0), rtol=1e-12)


#: Where SciPy's own values are NaN, or limits that its compiled code has.
UNLIKE = {"skellam", "ncx2"}


@pytest.mark.parametrize("name", sorted(set(SHAPES) & set(RELEASED) - UNLIKE))
@pytest.mark.filterwarnings("ignore:.*:RuntimeWarning")
def test_nan_infinities_and_ends_of_the_support(name):
    """The values are SciPy's; they were numbers for NaN, and NaN for infinities."""
    plain, shapes = getattr(stats, name), SHAPES[name]
    x = np.array([np.nan, np.inf, -np.inf, *plain.support(*shapes), plain.ppf(0.3, *shapes), 1.0])
    for method in ("logpdf", "cdf", "logsf"):
        method = method_of(name, method)
        if method in RELEASED[name]:
            found = functools.partial(getattr(getattr(ours, name), method), x, *shapes)
            wanted = getattr(plain, method)(x, *shapes)
            value = tg.jvp(found, (0.0,), (1.0,))[0]
            np.testing.assert_allclose(value, wanted, rtol=1e-9, atol=1e-14)


def test_points_of_float32_are_moved_in_float32_as_in_scipy():
    x, loc, scale = np.float32([0.3, 1.2]), np.float32([0.1, 0.2]), np.float32(1.7)
    for place in (loc, 0.1, 0, np.float32(0.0)):
        for width in (1, scale, 1.7):
            value = tg.jvp(lambda x, a=place, b=width: ours.uniform.cdf(x, a, b), (x,), (x,))[0]
            wanted = stats.uniform.cdf(x, place, width)
            np.testing.assert_allclose(value, wanted, rtol=1e-15)
            assert value.dtype == wanted.dtype


def test_whole_numbers_as_parameters_of_continuous_distributions():
    """NumPy has no negative powers of whole numbers, SciPy computes with floats."""
    found = tg.value_and_grad(lambda s: ours.truncpareto.entropy(-2, 5, scale=s))(1.7)
    wanted = stats.truncpareto.entropy(-2, 5, scale=1.7)  # NaN in older versions
    assert found == pytest.approx((wanted, 1 / 1.7 + 0 * wanted), nan_ok=True)


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        *(("pareto", 5.3), ("skewnorm", 1.3), ("gamma", 2.3), ("invgauss", 0.6)),
        *(("bernoulli", 0.3), ("truncexpon", 4.7)),
    ],
)
def test_skewness_and_excess_alone(name, shape):
    """They need neither the mean nor the variance where SciPy has formulas for them."""
    for letter in "sk":

        def of_shape(one, letter=letter):
            return getattr(ours, name).stats(one, moments=letter)

        def plain(one, letter=letter):
            return float(getattr(stats, name).stats(one, moments=letter))

        value, slope = tg.jvp(of_shape, (shape,), (1.0,))
        wanted, error = derivative(plain, shape)
        assert value == pytest.approx(plain(shape), rel=1e-12)
        assert abs(slope - wanted) <= 1e-7 * abs(wanted) + 50 * error
