"""Multivariate distributions, `Covariance` and `gaussian_kde` of SciPy: beside its differences."""

import copy
import pickle
import threading

import numpy as np
import pytest
import scipy.stats as theirs
from numpy.testing import assert_allclose
from scipy import stats
from scipy.stats import gaussian_kde, multivariate_normal
from test_scipy_copied import differences, numbers_in

import tapegrad as tg
from tapegrad.scipy import special
from tapegrad.scipy import stats as ours

RNG = np.random.default_rng(3)
V, X, Y = RNG.normal(size=(5, 2)), RNG.uniform(0.4, 2.0, 9), RNG.uniform(0.4, 2.0, 9)
C, R = np.array([[1.2, 0.3], [0.3, 0.8]]), np.array([[0.7, 0.1], [0.1, 1.4]])
M, P, A = np.array([0.1, 0.2]), np.array([0.2, 0.3, 0.5]), np.array([1.5, 2.0, 3.0])
UP, UNIT = np.array([0.0, 0.0, 1.0]), np.array([0.0, 0.6, 0.8])
AT, G = np.array([0.5, 1.0]), np.array([0.3, 1.2, 2.1, 2.5, 2.0, 1.1])


def even(a):
    """The symmetric part: SciPy reads one triangle."""
    return (a + a.T) / 2


def norm(a):
    return a / np.sum(a)


def unit(a):
    return a / np.sqrt(np.sum(a * a))


#: By what is differentiated: a function of SciPy's module and an array, and where.
EXPRESSIONS = {
    "normal, x": (lambda s, a: s.multivariate_normal.logpdf(a, M, C), V),
    "normal, one x": (lambda s, a: s.multivariate_normal.pdf(a, M, C), V[0]),
    "normal, mean": (lambda s, a: s.multivariate_normal.pdf(V, a, C), M),
    "normal, cov": (lambda s, a: s.multivariate_normal.logpdf(V, M, even(a)), C),
    "normal, variances": (lambda s, a: s.multivariate_normal.logpdf(V, M, a), np.diag(C)),
    "normal, numbers": (lambda s, a: s.multivariate_normal.logpdf(a[0], a[1], a[2]), A),
    "normal, frozen": (lambda s, a: s.multivariate_normal(a, C).logpdf(V), M),
    "normal, frozen cov": (lambda s, a: s.multivariate_normal(cov=even(a)).logpdf(V), C),
    "normal, plain frozen": (lambda s, a: s.multivariate_normal(M, C).logpdf(a), V),
    "normal, entropy": (lambda s, a: s.multivariate_normal.entropy(cov=even(a)), C),
    "normal, marginal": (lambda s, a: s.multivariate_normal(a, C).marginal([0]).logpdf(V[:, 0]), M),
    "normal, fit": (lambda s, a: s.multivariate_normal.fit(a), V),
    "t, x": (lambda s, a: s.multivariate_t.logpdf(a, M, C, 3.0), V),
    "t, loc": (lambda s, a: s.multivariate_t.pdf(V, a, C, 3.0), M),
    "t, shape": (lambda s, a: s.multivariate_t.logpdf(V, M, even(a), 3.0), C),
    "t, df": (lambda s, a: s.multivariate_t.logpdf(V, M, C, a[0]), A),
    "t, frozen": (lambda s, a: s.multivariate_t(a, C, 3.0).logpdf(V), M),
    "t, entropy": (lambda s, a: s.multivariate_t.entropy(M, even(a), 3.0), C),
    "dirichlet, x": (lambda s, a: s.dirichlet.logpdf(norm(a), A), P),
    "dirichlet, alpha": (lambda s, a: s.dirichlet.pdf(P, a), A),
    "dirichlet, moments": (
        lambda s, a: (s.dirichlet.mean(a), s.dirichlet.var(a), s.dirichlet.cov(a)),
        A,
    ),
    "dirichlet, entropy": (lambda s, a: s.dirichlet.entropy(a), A),
    "dirichlet, frozen": (lambda s, a: s.dirichlet(a).logpdf(P), A),
    "wishart, x": (lambda s, a: s.wishart.logpdf(even(a), 4.0, R), C),
    "wishart, scale": (lambda s, a: s.wishart.pdf(C, 4.0, even(a)), R),
    "wishart, df": (lambda s, a: s.wishart.logpdf(C, a[1] + 2, R), A),
    "wishart, moments": (
        lambda s, a: tuple(getattr(s.wishart, of)(4.0, even(a)) for of in ("mean", "var", "mode")),
        R,
    ),
    "wishart, entropy": (lambda s, a: s.wishart.entropy(a[0] + 2, R), A),
    "wishart, frozen": (lambda s, a: s.wishart(4.0, even(a)).logpdf(C), R),
    "invwishart, x": (lambda s, a: s.invwishart.logpdf(even(a), 4.0, R), C),
    "invwishart, two x": (
        lambda s, a: s.invwishart.logpdf(np.stack([even(a), R + 0.2 * even(a)], -1), 4.0, R),
        C,
    ),
    "invwishart, scale": (lambda s, a: s.invwishart.pdf(C, 4.0, even(a)), R),
    "invwishart, df": (lambda s, a: s.invwishart.logpdf(C, a[1] + 2, R), A),
    "invwishart, moments": (
        lambda s, a: tuple(
            getattr(s.invwishart, of)(7.5, even(a)) for of in ("mean", "var", "mode")
        ),
        R,
    ),
    "invwishart, entropy": (lambda s, a: s.invwishart.entropy(4.5, even(a)), R),
    "invwishart, frozen": (lambda s, a: s.invwishart(4.0, even(a)).logpdf(C), R),
    "matrix_normal, x": (lambda s, a: s.matrix_normal.logpdf(a, None, C, R), V[:2]),
    "matrix_normal, mean": (lambda s, a: s.matrix_normal.logpdf(V[:2], a, C, R), V[2:4]),
    "matrix_normal, rowcov": (lambda s, a: s.matrix_normal.logpdf(V[:2], None, even(a), R), C),
    "matrix_normal, colcov": (lambda s, a: s.matrix_normal.pdf(V[:2], None, R, even(a)), C),
    "matrix_normal, frozen": (lambda s, a: s.matrix_normal(None, even(a), R).logpdf(V[:2]), C),
    "matrix_normal, entropy": (lambda s, a: s.matrix_normal.entropy(even(a), R), C),
    "matrix_t, x": (lambda s, a: s.matrix_t.logpdf(a, None, C, R, 3.0), V[:2]),
    "matrix_t, df": (lambda s, a: s.matrix_t.logpdf(V[:2], None, C, R, a[0]), A),
    "matrix_t, row_spread": (lambda s, a: s.matrix_t.pdf(V[:2], None, even(a), R, 3.0), C),
    "matrix_t, frozen": (lambda s, a: s.matrix_t(None, even(a), R, 3.0).logpdf(V[:2]), C),
    "multinomial, p": (lambda s, a: s.multinomial.logpmf([1, 2, 1], 4, norm(a)), P),
    "multinomial, two x": (
        lambda s, a: s.multinomial.pmf([[1, 2, 1], [0, 4, 0]], 4, norm(a)),
        P,
    ),
    "multinomial, cov": (lambda s, a: s.multinomial.cov(4, norm(a)), P),
    "multinomial, mean": (lambda s, a: s.multinomial.mean(4, norm(a)), P),
    "multinomial, frozen": (lambda s, a: s.multinomial(4, norm(a)).logpmf([1, 2, 1]), P),
    "dirichlet_multinomial": (lambda s, a: s.dirichlet_multinomial.logpmf([1, 2, 1], a, 4), A),
    "dirichlet_multinomial, moments": (
        lambda s, a: tuple(
            getattr(s.dirichlet_multinomial, of)(a, 4) for of in ("mean", "var", "cov")
        ),
        A,
    ),
    "dirichlet_multinomial, frozen": (
        lambda s, a: s.dirichlet_multinomial(a, 4).pmf([1, 2, 1]),
        A,
    ),
    "vonmises_fisher, x": (lambda s, a: s.vonmises_fisher.logpdf(unit(a), UP, 2.0), P),
    "vonmises_fisher, mu": (lambda s, a: s.vonmises_fisher.pdf(UNIT, unit(a), 2.0), P),
    "vonmises_fisher, kappa": (lambda s, a: s.vonmises_fisher.logpdf(UNIT, UP, a[0]), A),
    "vonmises_fisher, entropy": (lambda s, a: s.vonmises_fisher.entropy(UP, a[0]), A),
    "vonmises_fisher, frozen": (lambda s, a: s.vonmises_fisher(UP, a[0]).logpdf(UNIT), A),
    "normal_inverse_gamma": (lambda s, a: s.normal_inverse_gamma.logpdf(*a), G),
    "normal_inverse_gamma, pdf": (lambda s, a: s.normal_inverse_gamma.pdf(*a), G),
    "normal_inverse_gamma, moments": (
        lambda s, a: (*s.normal_inverse_gamma.mean(*a[:4]), *s.normal_inverse_gamma.var(*a[:4])),
        G,
    ),
    "normal_inverse_gamma, frozen": (
        lambda s, a: s.normal_inverse_gamma(*a[2:]).logpdf(a[0], a[1]),
        G,
    ),
    "kde, data": (lambda s, a: s.gaussian_kde(a)(AT), X),
    "kde, points": (lambda s, a: s.gaussian_kde(X)(a), AT),
    "kde, logarithm": (lambda s, a: s.gaussian_kde(X, "silverman").logpdf(a), AT),
    "kde, logarithm, data": (lambda s, a: s.gaussian_kde(a, "silverman").logpdf(AT), X),
    "kde, weights": (lambda s, a: s.gaussian_kde(X, weights=a).pdf(AT), Y),
    "kde, width": (lambda s, a: s.gaussian_kde(X, a[0]).pdf(AT), A),
    "kde, chosen width": (lambda s, a: s.gaussian_kde(a, lambda k: k.n**-0.3).pdf(AT), X),
    "kde, rows": (lambda s, a: s.gaussian_kde(a.T, 0.5).pdf(V[:3].T), V),
    "kde, one point": (lambda s, a: s.gaussian_kde(V.T).logpdf(a), M),
    "kde, interval": (lambda s, a: s.gaussian_kde(X).integrate_box_1d(a[0], a[1]), AT),
    "kde, interval, data": (lambda s, a: s.gaussian_kde(a).integrate_box_1d(0.5, 1.0), X),
    "kde, with a normal": (lambda s, a: s.gaussian_kde(X).integrate_gaussian(a[0], a[1]), AT),
    "kde, with another": (lambda s, a: s.gaussian_kde(a).integrate_kde(s.gaussian_kde(Y)), X),
    "kde, marginal": (lambda s, a: s.gaussian_kde(a.T).marginal([0]).pdf(V[:, 0]), V),
    "kde, covariance": (lambda s, a: s.gaussian_kde(a.T).inv_cov, V),
    "covariance of a diagonal": (
        lambda s, a: s.multivariate_normal.logpdf(V, M, s.Covariance.from_diagonal(a)),
        np.diag(C),
    ),
    "covariance of a precision": (
        lambda s, a: s.multivariate_normal.logpdf(V, M, s.Covariance.from_precision(even(a))),
        C,
    ),
    "covariance of a factor": (
        lambda s, a: s.multivariate_normal.logpdf(V, M, s.Covariance.from_cholesky(np.tril(a))),
        C,
    ),
    "covariance of eigenvalues": (
        lambda s, a: s.multivariate_normal.logpdf(
            V, M, s.Covariance.from_eigendecomposition((a, np.eye(2)))
        ),
        np.diag(C),
    ),
    "plain covariance": (
        lambda s, a: s.multivariate_normal.logpdf(a, M, s.Covariance.from_cholesky(np.tril(C))),
        V,
    ),
    "whitened": (lambda s, a: s.Covariance.from_cholesky(np.tril(a)).whiten(V), C),
    "colorized": (lambda s, a: s.Covariance.from_precision(even(a)).colorize(V), C),
    "covariance": (lambda s, a: s.Covariance.from_precision(even(a)).covariance, C),
    "log_pdet": (lambda s, a: s.Covariance.from_diagonal(a).log_pdet, np.diag(C)),
}


def is_there(name):
    needed = name.partition(",")[0]
    if name == "normal, marginal":
        return hasattr(theirs.multivariate_normal, "marginal")
    return hasattr(theirs, needed) or needed not in ("matrix_t", "normal_inverse_gamma")


@pytest.mark.parametrize("name", [*filter(is_there, EXPRESSIONS)])
def test_derivatives(name):
    """Also in programs at another input, of second order and in a batch."""
    call, a = EXPRESSIONS[name]
    f, plain = (lambda a, s=s: numbers_in(call(s, a)) for s in (ours, theirs))
    b = a * 1.07 + 0.013 * np.cos(np.arange(a.size)).reshape(a.shape)
    u = np.cos(2.0 * np.arange(a.size)).reshape(a.shape)
    program = tg.compile(f)
    for x in (a, a, b):
        value, wanted = plain(x), differences(plain, x)
        for each in (tg.value_and_grad(f), program.value_and_grad):
            found, gradient = each(x)
            assert_allclose(found, value, rtol=1e-11)
            assert_allclose(gradient, wanted, rtol=1e-7, atol=1e-8)
        assert_allclose(tg.jvp(f, (x,), (u,))[1], np.sum(wanted * u), rtol=1e-7, atol=1e-8)
    batch = tg.vmap(tg.grad(f))(np.stack([a, b]))
    assert_allclose(batch[1], wanted, rtol=1e-7, atol=1e-8)
    second = differences(lambda x: np.sum(tg.grad(f)(x) * u), a)
    assert_allclose(tg.hvp(f)(a, u), second, rtol=1e-6, atol=1e-7)


def test_shapes_and_types():
    for name, (call, a) in EXPRESSIONS.items():
        if not is_there(name) or name == "normal, fit":
            continue
        plain, found = call(theirs, a), call(ours, a)
        kept = []
        tg.grad(lambda a: numbers_in(kept.append(call(ours, a)) or kept[0]))(a)
        for one, other, recorded in zip(*map(_parts, (plain, found, kept[0])), strict=True):
            assert type(one) is type(other)
            recorded = np.asarray(tg.stop_gradient(recorded))
            assert (np.shape(one), np.asarray(one).dtype) == (recorded.shape, recorded.dtype), name


def _parts(found):
    return found if isinstance(found, tuple) else (found,)


# --- objects that are made outside ----------------------------------------------------------------

_FROZEN = stats.multivariate_normal(M, C)
_KDE = gaussian_kde(V.T)
_COVARIANCE = stats.Covariance.from_diagonal([1.0, 2.0])
ENTERED = {
    "a name of scipy.stats": lambda x: np.sum(multivariate_normal.logpdf(x, None, C)),
    "an attribute": lambda x: np.sum(stats.multivariate_normal.logpdf(x, None, C)),
    "frozen in it": lambda x: np.sum(stats.multivariate_normal(cov=C).logpdf(x)),
    "frozen outside": lambda x: np.sum(_FROZEN.logpdf(x)),
    "a density called": lambda x: np.sum(np.log(_KDE(x.T))),
    "a density": lambda x: np.sum(_KDE.logpdf(x.T)),
    "a density made in it": lambda x: np.sum(gaussian_kde(x.T).logpdf(V.T)),
    "a covariance": lambda x: np.sum(multivariate_normal.logpdf(x, None, _COVARIANCE)),
    "its method": lambda x: np.sum(_COVARIANCE.whiten(x) ** 2 * V),
    "of parameters": lambda x: stats.dirichlet(np.exp(x[0])).logpdf([0.2, 0.8]),
}


@pytest.mark.parametrize("name", ENTERED)
def test_entered_code_calls_them(name, monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)
    f = ENTERED[name]
    program = tg.compile(f)
    for x in (V, V, 1.1 * V):
        wanted = differences(f, x)
        assert_allclose(tg.grad(f)(x), wanted, rtol=1e-7, atol=1e-8)
        assert_allclose(program.grad(x), wanted, rtol=1e-7, atol=1e-8)


def test_plain_objects_are_scipys():
    kde, frozen = ours.gaussian_kde(V.T), ours.multivariate_normal(M, C)
    assert isinstance(kde, gaussian_kde)
    assert isinstance(frozen, type(_FROZEN))
    for one in (kde, pickle.loads(pickle.dumps(kde)), copy.deepcopy(kde)):
        assert np.array_equal(one(V.T), _KDE(V.T))
    kde.set_bandwidth(0.3)
    assert kde.factor == 0.3
    assert np.array_equal(frozen.logpdf(V), _FROZEN.logpdf(V))
    assert frozen.cdf(M) == pytest.approx(_FROZEN.cdf(M), abs=1e-4)
    drawn = ours.multivariate_normal.rvs(M, C, size=3, random_state=1)
    assert np.array_equal(drawn, theirs.multivariate_normal.rvs(M, C, size=3, random_state=1))
    assert ours.ortho_group.rvs(3, random_state=1).shape == (3, 3)


def test_objects_of_scipy_stay_as_they_are():
    before = dict(vars(_KDE)), dict(vars(_FROZEN))
    tg.grad(ENTERED["a density"])(V)
    tg.grad(ENTERED["frozen outside"])(V)
    assert all(vars(_KDE)[name] is one for name, one in before[0].items())
    assert all(vars(_FROZEN)[name] is one for name, one in before[1].items())
    assert type(theirs.multivariate_normal(M, C)) is type(_FROZEN)


def test_threads():
    """Plain and recorded calls at once, which share the classes."""
    wrong = []

    def run(k):
        for _ in range(20):
            if k % 2 and type(ours.multivariate_normal.logpdf(V, M, C)) is not np.ndarray:
                wrong.append(k)
            if not tg.grad(lambda a: np.sum(ours.multivariate_normal.logpdf(a, M, C)))(V).any():
                wrong.append(k)

    threads = [threading.Thread(target=run, args=(k,)) for k in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


# --- boundaries -----------------------------------------------------------------------------------


def test_probabilities_that_sum_to_one():
    """The last one is 1 less the others before SciPy 1.18, whatever is given."""
    f = lambda p: ours.multinomial.logpmf([1, 2, 1], 4, p)
    assert_allclose(tg.value_and_grad(f)(P)[0], theirs.multinomial.logpmf([1, 2, 1], 4, P))
    found = tg.grad(f)(P)
    assert_allclose(found - found[-1], [1 / 0.2 - 2, 2 / 0.3 - 2, 0.0], rtol=1e-12)


def correlated(a):
    """At 0, eigenvalues are equal, and their vectors have no derivative."""
    return np.array([[1.5, a[0]], [a[0], 1.5 + a[1]]])


EQUAL = {
    "normal": lambda s, a: s.multivariate_normal.logpdf(V, M, correlated(a)),
    "normal, frozen": lambda s, a: s.multivariate_normal(M, correlated(a)).logpdf(V),
    "normal, singular": lambda s, a: s.multivariate_normal.pdf(
        V, M, correlated(a), allow_singular=True
    ),
    "normal, one variance": lambda s, a: s.multivariate_normal.logpdf(V, a, (a[1] + 2) * np.eye(2)),
    "t": lambda s, a: s.multivariate_t.logpdf(V, M, correlated(a), 3.0),
    "matrix normal": lambda s, a: s.matrix_normal.logpdf(V, None, np.eye(5), correlated(a)),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_eigenvalues(name):
    f, at = EQUAL[name], np.zeros(2)
    loss = lambda a: np.sum(np.sin(f(ours, a)))
    plain = lambda a: np.sum(np.sin(f(theirs, a)))
    slopes, program = tg.grad(loss), tg.compile(loss)
    for a in (at, at, np.array([0.3, -0.2]), at):
        for call in (tg.value_and_grad(loss), program.value_and_grad):
            value, gradient = call(a)
            assert_allclose(value, plain(a), rtol=1e-13)
            assert_allclose(gradient, differences_of(plain, a), rtol=1e-8, atol=1e-9)
    assert "1 program" in repr(program)
    assert_allclose(tg.hessian(loss)(at), differences_of(slopes, at), rtol=1e-7, atol=1e-8)


def differences_of(f, a):
    found = []
    for h in 1e-3 * np.eye(len(a)):
        found.append((8.0 * (f(a + h) - f(a - h)) - (f(a + 2 * h) - f(a - 2 * h))) / 12e-3)
    return np.array(found)


def test_singular_covariances():
    """On and off the support, as SciPy decides by values."""
    cov = np.array([[1.0, 1.0], [1.0, 1.0]])
    f = lambda x: ours.multivariate_normal.logpdf(x, None, cov, allow_singular=True)
    program = tg.compile(f)
    for x in (np.array([0.3, 0.3]), np.array([0.3, 0.4]), np.array([0.7, 0.7])):
        value = theirs.multivariate_normal.logpdf(x, None, cov, allow_singular=True)
        for call in (tg.value_and_grad(f), program.value_and_grad):
            found, gradient = call(x)
            assert_allclose(found, value)
            if np.isfinite(value):
                assert_allclose(gradient, -x / 2, atol=1e-12)
    f = lambda v: ours.multivariate_normal.logpdf(np.ones(2), None, v * cov, allow_singular=True)
    program = tg.compile(f)
    for v in (1.0, 1.0, 2.0):  # its one value that is not 0 is 2 v
        for call in (tg.grad(f), program.grad):
            assert_allclose(call(v), (1.0 / v - 1.0) / (2.0 * v), atol=1e-12)
    for c, error in ((cov, np.linalg.LinAlgError), (cov - 2 * np.eye(2), ValueError)):
        with pytest.raises(error, match="symmetric positive"):
            tg.grad(lambda c: ours.multivariate_normal.logpdf(M, None, c))(c)


def test_outside_of_supports():
    for f, plain, x in (
        (ours.normal_inverse_gamma, theirs.normal_inverse_gamma, -0.5),
        (ours.multinomial, theirs.multinomial, None),
    ):
        if x is not None:
            g = lambda a: f.pdf(0.3, a, 0.1, 1.5, 2.0, 1.1)
            assert tg.value_and_grad(g)(x) == (0.0, 0.0)
        else:
            g = lambda p: f.pmf([1, 2, 2], 4, norm(p))
            assert tg.value_and_grad(g)(P)[0] == plain.pmf([1, 2, 2], 4, P) == 0.0
            assert not tg.grad(g)(P).any()


def test_logarithms_of_multivariate_gamma_functions():
    for d in (1, 2, 4):
        f = lambda a: np.sum(special.multigammaln(a, d))
        plain = lambda a: np.sum(theirs._multivariate.multigammaln(a, d))
        a = A + 1.5
        found, gradient = tg.value_and_grad(f)(a)
        assert_allclose(found, plain(a), rtol=1e-13)
        assert_allclose(gradient, differences(plain, a), rtol=1e-9)
        assert_allclose(tg.compile(f).grad(a), gradient, rtol=1e-12)
    with pytest.raises(ValueError, match="not met"):
        tg.grad(lambda a: special.multigammaln(a[0], 5))(A)


REFUSED = {
    "multivariate_normal.cdf": lambda x: ours.multivariate_normal.cdf(x, M, C),
    "multivariate_normal.logcdf": lambda x: ours.multivariate_normal(x, C).logcdf(M),
    "multivariate_normal.rvs": lambda x: ours.multivariate_normal.rvs(x, C)[0],
    "multivariate_t.cdf": lambda x: ours.multivariate_t.cdf(x, M, C, 3.0),
    "wishart.rvs": lambda x: ours.wishart.rvs(3.0 + x[0], C)[0, 0],
    "dirichlet.rvs": lambda x: ours.dirichlet(x).rvs()[0, 0],
    "gaussian_kde.resample": lambda x: ours.gaussian_kde(x).resample(3)[0, 0],
    "gaussian_kde.integrate_box": lambda x: ours.gaussian_kde(V.T).integrate_box(x, x + 1.0),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_by_name(name):
    f = REFUSED[name]
    for call in (tg.grad(f), tg.compile(f).grad):
        with pytest.raises(tg.DerivativeLost, match=rf"scipy\.stats\.{name} has no derivative"):
            call(M)
