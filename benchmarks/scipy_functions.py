"""Log likelihoods, shape parameters, splines, sparse products, distances and filters of SciPy.

As a program it prints times of compiled functions, value and gradient, of SciPy's value alone, and
of JAX and PyTorch where they are installed: one thread, float64, the best of many calls, all in
turns in one run. The functions are entered as users write them, with SciPy's own names.
Likelihoods, and their gradients, must be those of the peer.

    python -m benchmarks.scipy_functions                 all
    python -m benchmarks.scipy_functions gamma beta      some
"""

import argparse
import functools
import itertools
import os
import time

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")

import numpy as np
from scipy import ndimage, sparse, special, stats
from scipy.interpolate import CubicSpline
from scipy.sparse.linalg import splu, spsolve
from scipy.spatial.distance import cdist

import tapegrad as tg

POINTS = 10_000
RNG = np.random.default_rng(3)
REALS, PARTS = RNG.standard_normal(POINTS), RNG.uniform(0.05, 0.95, POINTS)
COUNTS = RNG.poisson(4.0, POINTS).astype(float)


def norm(p):
    """Return the log likelihood of the normal distribution."""
    return np.sum(stats.norm.logpdf(REALS, p[0], p[1]))


def t(p):
    """Return that of Student's t."""
    return np.sum(stats.t.logpdf(REALS, p[2], p[0], p[1]))


def gamma(p):
    """Return that of the gamma distribution."""
    return np.sum(stats.gamma.logpdf(np.exp(REALS), p[2], scale=p[1]))


def beta(p):
    """Return that of the beta distribution."""
    return np.sum(stats.beta.logpdf(PARTS, p[1], p[2]))


def poisson(p):
    """Return that of Poisson's distribution."""
    return np.sum(stats.poisson.logpmf(COUNTS, p[2]))


def nbinom(p):
    """Return that of the negative binomial distribution."""
    return np.sum(stats.nbinom.logpmf(COUNTS, p[2], p[0]))


def cauchy(p):
    """Return that of Cauchy's distribution."""
    return np.sum(stats.cauchy.logpdf(REALS, p[0], p[1]))


def norm_logcdf(p):
    """Return the sum of logarithms of the normal distribution function."""
    return np.sum(stats.norm.logcdf(REALS, p[0], p[1]))


LIKELIHOODS = [norm, t, gamma, beta, poisson, nbinom, cauchy, norm_logcdf]
PARAMETERS = np.array([0.3, 1.4, 2.6])


def peers_of(f):
    """JAX's function of the same value, on its own distributions; None without JAX."""
    try:
        import jax
        import jax.numpy as jnp
        from jax.scipy import stats as theirs
    except ImportError:
        return None
    jax.config.update("jax_enable_x64", True)
    x, parts, counts = map(jnp.asarray, (REALS, PARTS, COUNTS))
    forms = {
        "norm": lambda p: jnp.sum(theirs.norm.logpdf(x, p[0], p[1])),
        "t": lambda p: jnp.sum(theirs.t.logpdf(x, p[2], p[0], p[1])),
        "gamma": lambda p: jnp.sum(theirs.gamma.logpdf(jnp.exp(x), p[2], scale=p[1])),
        "beta": lambda p: jnp.sum(theirs.beta.logpdf(parts, p[1], p[2])),
        "poisson": lambda p: jnp.sum(theirs.poisson.logpmf(counts, p[2])),
        "nbinom": lambda p: jnp.sum(theirs.nbinom.logpmf(counts, p[2], p[0])),
        "cauchy": lambda p: jnp.sum(theirs.cauchy.logpdf(x, p[0], p[1])),
        "norm_logcdf": lambda p: jnp.sum(theirs.norm.logcdf(x, p[0], p[1])),
    }
    compiled = jax.jit(jax.value_and_grad(forms[f.__name__]))
    given = jnp.asarray(PARAMETERS)
    return lambda: jax.block_until_ready(compiled(given))


# --- shape parameters -----------------------------------------------------------------------------


def _spread(low, high):
    return np.exp(RNG.uniform(np.log(low), np.log(high), POINTS))


_A, _B, _DF = _spread(1e-3, 1e4), _spread(1e-2, 1e3), _spread(0.1, 1e4)
_NEAR = np.abs(_A + 3.0 * np.sqrt(_A) * RNG.standard_normal(POINTS))
_OF_GAMMA = _A, np.where(RNG.random(POINTS) < 0.5, _NEAR, _spread(1e-3, 1e4))
_OF_BETA = _B, _B[::-1], np.clip(RNG.beta(_B, _B[::-1]), 1e-6, 1.0 - 1e-6)
_MODERATE = RNG.uniform(0.5, 10.0, POINTS)
#: By name: a function, its arguments, that to which the derivative is taken, JAX's name for it.
SHAPES = {
    "gammainc": (special.gammainc, _OF_GAMMA, 0, "gammainc"),
    "gammainc_10": (special.gammainc, (_MODERATE, RNG.gamma(_MODERATE)), 0, "gammainc"),
    "gammaincc": (special.gammaincc, _OF_GAMMA, 0, "gammaincc"),
    "betainc_a": (special.betainc, _OF_BETA, 0, ""),
    "betainc_b": (special.betainc, _OF_BETA, 1, ""),
    "kv": (special.kv, (_spread(1e-2, 50.0), _spread(0.1, 300.0)), 0, ""),
    "stdtr": (special.stdtr, (_DF, 3.0 * RNG.standard_normal(POINTS)), 0, ""),
}


def shape_forms(name):
    """Sums over points, to the shape at each: ours, SciPy's value, JAX's."""
    f, points, k, theirs = SHAPES[name]
    gradient = tg.compile(tg.value_and_grad(lambda *x: np.sum(f(*x)), argnums=k))
    made = {"tapegrad": lambda: gradient(*points), "SciPy": lambda: f(*points)}
    try:
        import jax
    except ImportError:
        return made
    if theirs:
        jax.config.update("jax_enable_x64", True)
        of_jax = getattr(jax.scipy.special, theirs)
        compiled = jax.jit(jax.value_and_grad(lambda *x: of_jax(*x).sum(), argnums=k))
        given = [*map(jax.numpy.asarray, points)]
        made["peer"] = lambda: jax.block_until_ready(compiled(*given))
    return made


# --- others ---------------------------------------------------------------------------------------

KNOTS, PLACES = np.linspace(0.0, 1.0, 200), np.sort(RNG.uniform(0.0, 1.0, 5000))
HEIGHTS = np.sin(7.0 * KNOTS)
ROWS = 10_000
MATRIX = sparse.random(ROWS, ROWS, 5.0 / ROWS, format="csr", random_state=1)
STIFF = sparse.diags([np.full(ROWS, 4.0), np.full(ROWS - 1, -1.0), np.full(ROWS - 100, -1.0)],
                     [0, 1, -100], format="csc")  # fmt: skip
VECTOR = RNG.standard_normal(ROWS)
LEFT, RIGHT = RNG.standard_normal((400, 3)), RNG.standard_normal((300, 3))
IMAGE = RNG.random((512, 512))


def spline(places, heights):
    """Return a sum over a spline, to places and heights."""
    return np.sum(CubicSpline(KNOTS, heights)(places) ** 2)


def product(data, x):
    """Return a sum over the product of a sparse matrix of recorded numbers and a vector."""
    A = sparse.csr_array((data, MATRIX.indices, MATRIX.indptr), shape=MATRIX.shape)
    return np.sum((A @ x) ** 2)


def solution(data, b):
    """Return a sum over the solution of a sparse system, to numbers and right-hand side."""
    A = sparse.csc_array((data, STIFF.indices, STIFF.indptr), shape=STIFF.shape)
    return np.sum(spsolve(A, b) ** 2)


def distances(x, y):
    """Return a sum over Euclidean distances."""
    return np.sum(cdist(x, y) ** 1.5)


def smooth(image):
    """Return a sum over a smoothed image."""
    return np.sum(ndimage.gaussian_filter(image, 2.0) ** 2)


OTHERS = {
    "spline": (spline, (PLACES, HEIGHTS), lambda: CubicSpline(KNOTS, HEIGHTS)(PLACES)),
    "product": (product, (MATRIX.data, VECTOR), lambda: MATRIX @ VECTOR),
    "solution": (solution, (STIFF.data, VECTOR), lambda: splu(STIFF).solve(VECTOR)),
    "distances": (distances, (LEFT, RIGHT), lambda: cdist(LEFT, RIGHT)),
    "smooth": (smooth, (IMAGE,), lambda: ndimage.gaussian_filter(IMAGE, 2.0)),
}


def other_peers(name):
    """PyTorch's distances, JAX's sparse product and spline of the same values; None without."""
    if name == "distances":
        return _torch_distances()
    try:
        import jax
        import jax.numpy as jnp
        from jax.experimental import sparse as theirs
    except ImportError:
        return None
    jax.config.update("jax_enable_x64", True)
    if name == "product":
        coo = MATRIX.tocoo()
        places = jnp.asarray(np.stack([coo.row, coo.col], 1))

        def value(data, x):
            A = theirs.BCOO((data, places), shape=MATRIX.shape, indices_sorted=True)
            return jnp.sum((A @ x) ** 2)

        given = jnp.asarray(coo.data), jnp.asarray(VECTOR)
    elif name == "spline":
        value, given = (
            functools.partial(_jax_spline, jax, jnp),
            (
                jnp.asarray(PLACES),
                jnp.asarray(HEIGHTS),
            ),
        )
    else:
        return None
    compiled = jax.jit(jax.value_and_grad(value, argnums=(0, 1)))
    return lambda: jax.block_until_ready(compiled(*given))


def _jax_spline(jax, jnp, places, heights):
    """A natural spline by a tridiagonal system, which costs what SciPy's does."""
    h = KNOTS[1] - KNOTS[0]
    second = (heights[2:] - 2 * heights[1:-1] + heights[:-2]) / h**2 * 6.0
    n = len(KNOTS) - 2
    ones = jnp.ones(n)
    m = jax.lax.linalg.tridiagonal_solve(
        ones.at[0].set(0.0), 4.0 * ones, ones.at[-1].set(0.0), second[:, None]
    )[:, 0]
    m = jnp.concatenate([jnp.zeros(1), m, jnp.zeros(1)])
    at = jnp.clip(jnp.searchsorted(KNOTS, places, side="right") - 1, 0, len(KNOTS) - 2)
    u = places - jnp.asarray(KNOTS)[at]
    slope = (heights[1:] - heights[:-1]) / h - h * (2 * m[:-1] + m[1:]) / 6
    c3 = (m[1:] - m[:-1]) / (6 * h)
    return jnp.sum((heights[at] + u * (slope[at] + u * (m[at] / 2 + u * c3[at]))) ** 2)


def _torch_distances():
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)

    def call():
        x, y = (torch.tensor(one, requires_grad=True) for one in (LEFT, RIGHT))
        total = torch.sum(torch.cdist(x, y) ** 1.5)
        total.backward()
        return total

    return call


# --- times ----------------------------------------------------------------------------------------


def best(calls, seconds=0.5):
    """Return the shortest time of each of several calls, in microseconds, taken in turns."""
    found = {name: np.inf for name in calls}
    for call in calls.values():
        call(), call(), call()
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end:
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            found[name] = min(found[name], time.perf_counter() - start)
    return {name: 1e6 * one for name, one in found.items()}


def forms(name):
    """Return calls by the name of who answers: tapegrad, SciPy's value alone, the peer."""
    if name in SHAPES:
        return shape_forms(name)
    if name in OTHERS:
        f, args, plain = OTHERS[name]
        gradient = tg.compile(tg.value_and_grad(f, argnums=tuple(range(len(args)))))
        if name == "solution":  # of other numbers each time: factors of the last two are kept
            every = itertools.cycle(
                [(args[0] * scale, *args[1:]) for scale in (1.0, 1.1, 1.2, 1.3)]
            )
            mine = lambda: gradient(*next(every))
        else:
            mine = lambda: gradient(*args)
        made = {"tapegrad": mine, "SciPy": plain, "peer": other_peers(name)}
    else:
        f = {one.__name__: one for one in LIKELIHOODS}[name]
        gradient = tg.compile(tg.value_and_grad(f))
        made = {
            "tapegrad": lambda: gradient(PARAMETERS),
            "SciPy": lambda: f(PARAMETERS),
            "peer": peers_of(f),
        }
    found = {who: call for who, call in made.items() if call is not None}
    if name not in OTHERS and "peer" in found:
        for one, other in zip(found["tapegrad"](), found["peer"](), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)
    return found


def main():
    """Print the table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    names = parser.parse_args().names or [*(f.__name__ for f in LIKELIHOODS), *SHAPES, *OTHERS]
    print(f"{'us':12}{'tapegrad':>10}{'SciPy':>10}{'peer':>10}{'/ SciPy':>9}{'/ peer':>9}")
    ratios = []
    for name in names:
        found = best(forms(name))
        mine, value, peer = found["tapegrad"], found["SciPy"], found.get("peer", np.nan)
        print(
            f"{name:12}{mine:10.1f}{value:10.1f}{peer:10.1f}{mine / value:9.2f}{mine / peer:9.2f}"
        )
        if name not in OTHERS and name not in SHAPES:
            ratios.append(mine / peer)
    print(f"likelihoods / peer: {np.exp(np.mean(np.log(ratios))):.2f}" if ratios else "")


class Likelihoods:
    """asv: value and gradient of compiled log likelihoods."""

    params = [f.__name__ for f in LIKELIHOODS]

    def setup(self, name):
        """Compile one of them."""
        self.call = forms(name)["tapegrad"]
        self.call()

    def time_value_and_gradient(self, name):
        """Call it."""
        self.call()


class Shapes(Likelihoods):
    """asv: the same of sums of special functions, to their shape parameters."""

    params = [*SHAPES]


class Others(Likelihoods):
    """asv: the same of a spline, sparse matrices, distances and a filter."""

    params = [*OTHERS]


if __name__ == "__main__":
    main()
