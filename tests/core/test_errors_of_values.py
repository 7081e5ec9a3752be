"""Errors that NumPy and SciPy raise for values of their arguments: programs raise them, too.

In each line `d` is data, first good, then bad; a program that was recorded with the good data
raises what plain arrays raise. Where the installed NumPy gives a value, programs give it.
"""

import numpy as np
import pytest
import scipy.linalg

import tapegrad as tg
from tapegrad.scipy import linalg

A = np.diag([1.0, 2.0])
INF, NAN = np.array([[1.0, np.inf], [0.0, 1.0]]), np.array([[1.0, np.nan], [0.0, 1.0]])
ONES, X = np.ones((2, 2)), np.array([1.0, 2.0, 3.0, 4.0])
HALF = [0, 1]


def ints(*numbers):
    return np.array(numbers)


INDICES = {
    "x[d]": (HALF, [0, -5]),
    "np.take(x, d)": (HALF, [0, -5]),
    "x.take(d)": (HALF, [-1, 4]),
    "np.take(x, d, mode='raise')": (HALF, [0, 4]),
    "np.take(x.reshape(2, 2), d, axis=0)": (HALF, [0, -3]),
    "np.take(x.reshape(2, 2), d, axis=1)": (HALF, [0, 2]),
    "np.take(2.0 * x, d) * x": (1, -9),
    "np.take_along_axis(x, d, 0)": (HALF, [0, -5]),
    "x.reshape(2, 2)[0, d]": (HALF, [0, -3]),
    "x.reshape(2, 2)[:, d]": (HALF, [0, 2]),
    "np.choose(d, [x[:2], 2.0 * x[:2]])": (HALF, [0, 2]),
    "np.repeat(x, d)": ([1, 2, 1, 1], [1, 2, -1, 1]),
    "np.repeat(x, d) * 2.0": (2, -1),
    "np.delete(x, d)": (1, 9),
    "np.insert(x, d, 0.0)": (1, -9),
    "np.partition(x, d)": (1, 7),
    "np.argpartition(x, d)[0] * x[0]": (1, 7),
    "np.add.reduceat(x, d)": (HALF, [0, 7]),
    "np.ravel_multi_index((d, d), (2, 2))[0] * x[0]": (HALF, [0, 2]),
    "x[np.ravel_multi_index((d, d), (2, 2))]": (HALF, [0, -2]),
    "np.unravel_index(d, (2, 2))[0][0] * x[0]": (HALF, [0, 4]),
    "np.bincount(d, weights=x)": ([0, 1, 1, 0], [1, -1, 0, 0]),
    "np.bincount(d, weights=x, minlength=3) ** 2": ([0, 1, 1, 0], [1, -1, 0, 0]),
    "np.bincount(d)[0] * x[0]": ([0, 1, 1, 0], [1, -1, 0, 0]),
    "np.bincount([0, 1, 1, 0], x, minlength=d)": (3, -1),
}
NUMBERS = {
    "np.digitize(x, d)[0] * x[0]": ([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]),
    "np.histogram(x, d)[1]": ([1.0, 2.0, 3.0], [1.0, 3.0, 2.0]),
    "np.histogram(x, 3, (0.0, d))[1]": (2.0, -1.0),
    "np.histogram(x * 2.0, 3, (0.0, d))[1]": (2.0, np.inf),
    "np.histogram(d, 3)[1] * x[0]": ([1.0, 2.0], [1.0, np.nan]),
    "np.histogram(d, 3, weights=x[:2])[0]": ([1.0, 2.0], [1.0, np.nan]),
    "np.histogram2d(d, d, [3, 3], weights=x[:2])[0]": ([1.0, 2.0], [1.0, np.inf]),
    "np.percentile(x, d)": (50.0, 101.0),
    "np.nanpercentile(x, d)": (50.0, -1.0),
    "np.quantile(x, d)": ([0.5, 0.1], [0.5, 1.1]),
    "np.average(x, weights=d)": ([1.0, 1.0, 1.0, 1.0], [1.0, -1.0, 1.0, -1.0]),
    "np.cov(x, aweights=d)": ([1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, -1.0]),
    "np.roots(d)[0] * x[0]": ([1.0, -3.0, 2.0], [1.0, np.nan, 2.0]),
    "np.polyfit(d, x, 1)": (X, X * np.inf),
    "np.nanargmax(d) * x[0]": (X, X * np.nan),
    "np.max(x[d > 2.0])": (X, 0.0 * X),
    "int(d) * x": (2.0, np.nan),
    "np.linspace(0.0, x[0], d)": (3, -1),
    "np.ones(d)[0] * x[0]": (3, -1),
    "np.pad(x, d)": (1, -1),
    "ints(1, 2, 3, 4) ** d * x": (2, -1),
}
OF_MATRICES = "inv({}) solve({},x[:2]) cholesky({}) eigvals({}) eig({})[0]".split()
MATRICES = {f"np.linalg.{f.format(d)}": (A, INF) for d in ("d", "x[0]*d") for f in OF_MATRICES[3:]}
MATRICES |= {
    f"np.linalg.{f.format(d)}": (A, ONES) for d in ("d", "x[0]*d") for f in OF_MATRICES[:2]
}
MATRICES |= {f"np.linalg.{OF_MATRICES[2].format(d)}": (A, -A) for d in ("d", "x[0]*d")}
MATRICES |= {
    "np.linalg.matrix_power(d, -1)": (A, ONES),
    "np.linalg.tensorsolve(d, x[:2])": (A, ONES),
}
SINGULAR = (
    "pinv({}) norm({},2) norm({},-2) norm({},'nuc') matrix_norm({},ord=2) svd({})[1] svdvals({}) "
    "pinv({},hermitian=True) lstsq({},np.ones(2),rcond=None)[0]".split()
)
TABLE = [(text, *data) for table in (INDICES, NUMBERS, MATRICES) for text, data in table.items()]
TABLE += [
    (f"np.linalg.{f.format(d)} * x[0]", A, bad)
    for f in SINGULAR
    for d in ("d", "x[0]*d")
    for bad in (INF, NAN)
]
TABLE += [
    (f"linalg.{f}(d)", A, bad)
    for f in "expm_cond cosm tanm det inv pinv svdvals cholesky norm orth lu_factor".split()[1:]
    for bad in (INF, NAN)
]


def outcome(f, *args):
    try:
        found = f(*args)
    except Exception as error:
        return type(error), None
    return None, np.asarray(found.detach() if isinstance(found, tg.Tensor) else found)


@pytest.mark.parametrize("text,good,bad", TABLE, ids=[f"{text} {bad}" for text, _, bad in TABLE])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_programs_raise_what_plain_calls_raise(text, good, bad):
    good, bad = (np.asarray(one) if isinstance(one, list) else one for one in (good, bad))
    code = compile(text, text, "eval")

    def function(linalg):
        def f(x, d):
            found = eval(code, {"np": np, "linalg": linalg, "ints": ints, "x": x, "d": d})
            found = found[0] if isinstance(found, tuple) else found
            return np.sum(np.real(found)) * np.sum(x)

        return f

    f = function(linalg)
    with np.errstate(all="ignore"):
        wanted, value = outcome(function(scipy.linalg), X, bad)
        assert outcome(function(scipy.linalg), X, good)[0] is None
        recorded = outcome(tg.compile(f), X, bad)
        c = tg.compile(f, verify="never")
        for _ in range(3):
            c(X, good), c.grad(X, good)
        again = outcome(c, X, bad)
        for error, found in (recorded, again):
            assert error is wanted or (error and wanted and issubclass(error, wanted))
            if wanted is None:
                np.testing.assert_allclose(found, value, rtol=1e-9)
        if wanted is not None:
            with pytest.raises(wanted):
                c.grad(X, bad)
        np.testing.assert_allclose(c(X, good), f(X, good), rtol=1e-9)


@pytest.mark.parametrize("p", [None, 2, -2])
def test_condition_of_infinities(p):
    """Infinity, with every NumPy, though LAPACK finds no singular values."""
    f = lambda a: np.linalg.cond(a, p)
    c = tg.compile(lambda a: np.sum(f(a)))
    for a in (np.stack([A, 3.0 * A + 0.1]), np.stack([A, INF]), np.stack([INF, 2.0 * A])):
        wanted = [np.inf if np.isinf(one).any() else np.linalg.cond(one, p) for one in a]
        np.testing.assert_allclose(f(tg.tensor(a, requires_grad=True)).detach(), wanted)
        np.testing.assert_allclose(c(a), np.sum(wanted))
        gradient = tg.grad(lambda a: np.sum(np.where(np.isinf(f(a)), 0.0, f(a))))(a)
        finite = [k for k in (0, 1) if np.isfinite(wanted[k])]
        for k in finite:
            np.testing.assert_allclose(gradient[k], tg.grad(f)(a[k]), rtol=1e-12)
