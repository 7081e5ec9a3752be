"""Functions with branches that call functions of SciPy: they have graphs, with eager results."""

import warnings

import numpy as np
import pytest
from extent import some
from scipy import special, stats
from scipy.spatial import distance
from scipy.special import expit, log_ndtr, logsumexp
from scipy.stats import multivariate_normal, norm
from scipy.stats._distr_params import distcont, distdiscrete

import tapegrad as tg
from tapegrad._flow.passes.simplify import simplified
from tapegrad._flow.program import FlowProgram
from tapegrad._flow.reading.forms import Refused
from tapegrad._flow.reading.readings import GivenInput, read
from tapegrad.scipy import stats as ours
from tapegrad.scipy._stats_formulas import RELEASED

Y = np.array([0.3, 1.9, -0.4, 4.1, 1.2, 2.2])
T = np.linspace(0.0, 2.0, 6)
COUNTS = np.array([0, 2, 0, 5, 1, 3])
CENSORED = np.array([0, 1, 0, 0, 1, 0])
PAIRS = np.stack([Y, np.roll(Y, 2)], axis=1)
POINTS = [[0.7, -0.4, 0.3], [-1.1, 0.9, 0.5], [2.3, 1.4, -0.8], [-0.2, -2.1, 1.7]]
PRIOR = stats.norm(0.0, scale=2.0)
CASES = {}


def case(f):
    CASES[f.__name__] = f
    return f


@case
def guarded(p):
    if p[1] <= 0.0:
        return np.inf
    return -np.sum(norm.logpdf(Y, p[0], p[1])) + p[2]


@case
def censored(p):
    mu, s, total = p[0], np.exp(p[1]), 0.0
    for y, c in zip(Y, CENSORED, strict=True):
        if c and mu > 0:
            total = total + stats.norm.logsf(y, mu, s)
        else:
            total = total + stats.norm.logpdf(y, loc=mu, scale=s)
    return total + p[2] ** 2


@case
def zero_inflated(p):
    lam, pi, total = np.exp(p[0]), special.expit(p[1]), 0.0
    for k in COUNTS:
        if k == 0 and p[2] > 0:
            total = total + np.log(pi + (1 - pi) * stats.poisson.pmf(k, lam))
        else:
            total = total + np.log1p(-pi) + stats.poisson.logpmf(k, lam)
    return total * p[2]


@case
def mixture_by_steps(p):
    w, m = expit(p[0]), [p[1], p[2]]
    for _ in range(5):
        a, b = w * norm.pdf(Y, m[0], 1.0), (1 - w) * norm.pdf(Y, m[1], 1.0)
        r = a / (a + b)
        new = np.mean(r)
        if abs(new - w) < 1e-3:
            break
        w, m = new, [np.sum(r * Y) / np.sum(r), np.sum((1 - r) * Y) / np.sum(1 - r)]
    return w + m[0] ** 2 - m[1]


@case
def filtered(p):
    m, cov, total = np.zeros(2), np.eye(2), 0.0
    for y in PAIRS:
        cov = cov + np.exp(p[0]) * np.eye(2)
        s = cov + np.exp(p[1]) * np.array([[1.0, 0.2], [0.2, 1.5 + p[2] ** 2]])
        total = total + multivariate_normal.logpdf(y, m, s)
        if y[0] > p[0]:
            gain = cov @ np.linalg.inv(s)
            m, cov = m + gain @ (y - m), cov - gain @ cov
    return total + p[2] * m[0]


@case
def normals_of_several_variables(p):
    one = multivariate_normal(mean=p[:2], cov=np.array([[2.0, 0.3], [0.3, 1.0 + p[2] ** 2]]))
    if p[0] > 0:
        return one.logpdf(PAIRS[1]) + one.entropy()
    return multivariate_normal(p[1:], 2.0).pdf(PAIRS[0])


@case
def probit(p):
    total = 0.0
    for t, y in zip(T, Y, strict=True):
        eta = p[0] + p[1] * t
        total = total + (log_ndtr(eta) if y * p[2] > 1.0 else log_ndtr(-eta))
    return total


@case
def hidden_states(p):
    logs = np.array([np.log(0.3), np.log(0.7)])
    for y in Y:
        seen = np.array([norm.logpdf(y, p[0], 1.0), norm.logpdf(y, p[1], 2.0)])
        total = logsumexp(logs)
        logs = seen + 0.9 * total * np.ones(2) + 0.1 * logs * special.softmax(logs)
        if logs[0] < -4.0:
            logs = 0.5 * logs
    return special.logsumexp(logs) + p[2] * special.log_softmax(logs)[0]


@case
def frozen(p):
    inner = stats.t(4.0, loc=p[0], scale=np.exp(p[1]))
    total = PRIOR.logpdf(p[0]) + stats.expon(scale=2.0).logsf(np.abs(p[1]))
    for y in Y:
        total = total + (inner.logpdf(y) if y > p[2] else inner.logcdf(x=y))
    return total * inner.std() + np.sum(inner.pdf(Y))


@case
def quantile(p):
    q = stats.norm.ppf(expit(p[0]), p[1], np.exp(p[2]))
    total = stats.norm.ppf(0.975) + stats.gamma.isf(expit(p[1]), 2.0, scale=1.5)
    for y in Y:
        total = total + (0.9 * (y - q) if y > q else 0.1 * (q - y))
    return total


@case
def search(p):
    x, target = 0.0, expit(p[0])
    while abs(stats.norm.cdf(x) - target) > 1e-10:
        x = x - (stats.norm.cdf(x) - target) / stats.norm.pdf(x)
    return x * p[1] + p[2]


@case
def functions_of_several_results(p):
    ai, aip, bi, _ = special.airy(p[0])
    sine, cosine = special.sici(np.abs(Y) * np.exp(p[1]))
    if p[0] > 0:
        return ai * bi + np.sum(sine) + special.ellipj(p[2], 0.3)[0]
    return aip + np.sum(cosine) * p[2]


@case
def functions_of_several_arguments(p):
    z = np.exp(p[0])
    if z < 1.0:
        return special.betainc(1.5, z, 0.3) + special.hyp2f1(0.5, 1.5, 2.5, 0.4 * z) + p[1]
    shared = special.multigammaln(1.5 + z, 2) + special.zeta(2.0, z)
    return shared * special.btdtri(1.0, z, 0.4) if hasattr(special, "btdtri") else shared * p[2]


@case
def distances(p):
    if p[0] > 0:
        return distance.euclidean(p, Y[:3]) + distance.minkowski(p, Y[:3], 3)
    return distance.cosine(p, Y[:3]) * distance.cityblock(p, Y[:3])


def compared(f, points, **options):
    """Results of a compiled function, compared with eager ones, in several rounds."""
    c = tg.compile(f, **options)
    points = [np.array(p) for p in points]
    for _ in range(3):
        for p in points:
            value, gradient = c.value_and_grad(p)
            wanted, slope = tg.value_and_grad(f)(p)
            np.testing.assert_allclose(value, wanted, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(gradient, slope, rtol=1e-8, atol=1e-10)
    return c


@pytest.mark.parametrize("name", CASES)
def test_a_function_has_a_graph(name):
    c = compared(CASES[name], POINTS)
    assert c._flows.found, c._flows.refused


@pytest.mark.parametrize("name", ["filtered", "frozen", "quantile"])
def test_gradients_are_differences(name):
    c = compared(CASES[name], POINTS)
    p = np.array(POINTS[1])  # at no branch
    for k, step in enumerate(1e-4 * np.eye(3)):
        near, far = [(c(p + h) - c(p - h)) / (2e-4 * n) for n, h in ((1, step), (2, 2 * step))]
        np.testing.assert_allclose(c.grad(p)[k], (4 * near - far) / 3, rtol=1e-6)


def test_native_and_second_derivatives():
    c = compared(CASES["frozen"], POINTS, native=True)
    c.wait()
    for p in map(np.array, POINTS):
        np.testing.assert_allclose(c.grad(p), tg.grad(CASES["frozen"])(p), rtol=1e-9)
        np.testing.assert_allclose(c.hessian(p), tg.hessian(CASES["frozen"])(p), rtol=1e-7)


def test_modules_of_ours_are_as_scipys():
    def f(p):
        made = ours.norm(p[0], 1.0)
        return made.logpdf(p[1]) if p[0] > 0 else ours.gamma.cdf(p[2] ** 2, 1.5)

    assert compared(f, POINTS, enter=())._flows.found


# --- all distributions ----------------------------------------------------------------------------

SHAPES = {name: shapes for name, shapes in [*distcont, *distdiscrete] if isinstance(name, str)}
SHAPES |= {"kappa4": (0.3, 0.2)}
METHODS = ("logpdf", "logpmf", "cdf", "logsf", "ppf", "mean")
#: Of these every method has a formula; of others SciPy's may be compiled, or ask about values.
KNOWN = ("norm", "gamma", "beta", "t", "expon", "cauchy", "lognorm", "laplace", "weibull_min")


def graph_of(name, method):
    """The program of the graph of a method, and the function."""
    count = len(points_of(name, method)[0])
    names = ", ".join(f"p[{k}]" for k in range(count))
    space = {"dist": getattr(ours, name)}
    exec(f"def f(p):\n    return dist.{method}({names})\n", space)
    reading = read(space["f"], [GivenInput("f", (count,), True)], [])
    return FlowProgram(simplified(reading.graph)), space["f"]


def points_of(name, method):
    dist, shapes = getattr(stats, name), [float(one) for one in SHAPES[name]]
    placed = [*shapes, 1.0] if not hasattr(dist, "pdf") else [*shapes, 0.4, 1.3]
    if method == "mean":
        return [placed]
    if method == "ppf":
        return [[q, *placed] for q in (0.21, 0.83)]
    within = [[x, *placed] for x in dist.ppf([0.21, 0.83], *placed)]
    return [*within, [within[1][0] + 1000.5, *placed]]  # far out, or beyond the support


@pytest.mark.parametrize("name", [name for name in RELEASED if name in SHAPES])
def test_methods_of_distributions(name):
    tg.compile(len)  # the recorder is there
    released = {one for one in RELEASED[name] if hasattr(getattr(stats, name), one)}
    for method in some([one for one in METHODS if one in released], name):
        try:
            program, f = graph_of(name, method)
        except Refused:
            assert name not in KNOWN
            continue
        for p in map(np.array, points_of(name, method)):
            outcome = program.run([p], True)
            assert not outcome.reason
            with np.errstate(all="ignore"):
                value, gradient = tg.value_and_grad(f)(p)
            np.testing.assert_allclose(outcome.results[0], value, rtol=1e-9, atol=1e-12)
            np.testing.assert_allclose(outcome.gradients[0], gradient, rtol=1e-7, atol=1e-9)


# --- what is read outside, and what has no graph --------------------------------------------------


def of_object(dist):
    def f(p):
        total = 0.0
        for k in range(3):
            total = total + (dist.logpdf(p[k]) if p[k] > 0.2 else dist.logcdf(p[k]))
        return total

    return f


def test_objects_of_closures_are_their_own():
    for dist in (stats.norm(0.0, 2.0), stats.norm(1.0, 2.0), stats.laplace(0.5)):
        assert compared(of_object(dist), POINTS)._flows.found


def test_parameters_of_an_object_may_change():
    dist, widths = stats.norm(0.0, scale=2.0), np.array([1.0, 2.0, 0.5])
    f = of_object(dist)
    c = compared(f, POINTS)
    dist.kwds["scale"] = 3.0
    np.testing.assert_allclose(c(np.array(POINTS[0])), f(np.array(POINTS[0])))
    dist.args = (0.7,)
    np.testing.assert_allclose(c(np.array(POINTS[0])), f(np.array(POINTS[0])))
    of_arrays = stats.norm(0.0, widths)

    def g(p):
        return np.sum(of_arrays.logpdf(p)) if p[0] > 0 else np.sum(of_arrays.logcdf(p))

    c = compared(g, POINTS)
    assert c._flows.found
    widths[0] = 4.0
    np.testing.assert_allclose(c(np.array(POINTS[0])), g(np.array(POINTS[0])))


def test_an_object_of_several_variables_is_recorded():
    """Its parameters may change in place: there is no graph."""
    dist = stats.multivariate_normal([0.0, 1.0], [[2.0, 0.3], [0.3, 1.0]])

    def f(p):
        return dist.logpdf(p[:2]) if p[0] > 0 else dist.logpdf(p[1:])

    c = compared(f, POINTS)
    assert not c._flows.found and "give them as arguments" in "".join(c._flows.refused.values())
    dist.mean[0] = 3.0
    for p in map(np.array, POINTS):
        np.testing.assert_allclose(c(p), f(p))


def test_reading_draws_nothing():
    def f(p):
        e = stats.norm.rvs() + stats.norm.rvs(p[0], 1.0)
        return e * p[0] if p[0] > 0 else e

    def calls(f):
        np.random.seed(3)
        return [float(f(np.array(p))) for p in POINTS]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # it has no program
        assert calls(tg.compile(f)) == calls(f)
    state = np.random.get_state()[2]
    with pytest.raises(Refused, match="no formula|gives|draws"):
        read(lambda p: ours.norm.rvs(p[0], 1.0), [GivenInput("f", (2,), True)], [])
    assert np.random.get_state()[2] == state


@pytest.mark.parametrize(
    "f, reason",
    [
        (lambda x: ours.skewnorm.cdf(x[0], x[1]), "no formula.*cdf is no operation"),
        (lambda x: np.sum(distance.euclidean(x, x)), "more than 16 elements"),
    ],
)
def test_reasons(f, reason):
    tg.compile(len)
    with pytest.raises(Refused, match=reason):
        read(f, [GivenInput("f", (20,), True)], [])


def test_calls_that_take_another_way_leave_the_graph():
    """A shape of 0 has no derivative: the function itself says so."""

    def f(p):
        total = stats.genpareto.logpdf(0.5, p[0])
        return total if p[1] > 0 else 2.0 * total

    c = compared(f, [[0.5, 1.0], [0.7, -1.0]])
    assert c._flows.found
    with pytest.raises(tg.DerivativeLost, match="shape"):
        c.grad(np.array([0.0, 1.0]))


@pytest.mark.parametrize("name", ["norm", "gamma", "beta", "cauchy", "t", "laplace", "poisson"])
def test_quantiles_in_programs(name):
    """By SciPy's formula, at the ends and beyond them, too."""
    dist, shapes = getattr(stats, name), [float(one) for one in SHAPES[name]]
    c = tg.compile(lambda q, s: getattr(ours, name).ppf(q, *[s[k] for k in range(len(s))]))
    ends = (0.0, 1.0) if name == "poisson" else ()  # others have no derivative there
    for q in (0.3, 0.8, 1e-9, *ends, -0.1, 1.3, np.nan):
        found = c(np.array([q, 0.5]), np.array(shapes))
        np.testing.assert_allclose(found, dist.ppf([q, 0.5], *shapes), rtol=1e-9, atol=1e-9)
    if name in ("norm", "gamma", "t", "laplace"):
        assert "calls of Python" not in c.explain()
