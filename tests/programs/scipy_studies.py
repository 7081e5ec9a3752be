"""Models of events, answers, doses, returns, spectra and networks, by SciPy's own names."""

import math
from dataclasses import dataclass, field

import numpy as np
import scipy.interpolate as si
import scipy.sparse as sp
import scipy.stats
from scipy import fft, integrate, linalg, ndimage, signal, special, stats
from scipy.interpolate import Akima1DInterpolator, CubicSpline, PchipInterpolator
from scipy.sparse.linalg import cg, spsolve
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist, cosine, jensenshannon, mahalanobis, pdist, squareform
from scipy.spatial.transform import Rotation
from scipy.special import betaln, expit, gammaln, log_ndtr, logsumexp, xlog1py, xlogy
from scipy.stats import fisk, genpareto, multivariate_t, norm, poisson, weibull_min

K = np.arange(24)
TIMES = 0.2 + 1.5 * (1 + np.sin(1.7 * K)) + 0.05 * K
DIED = np.cos(2.3 * K) > -0.4
DOSE = np.round(np.sin(0.9 * K), 2)

# --- survival -------------------------------------------------------------------------------------


def proportional_hazards(p):
    """Cox's partial likelihood, by the ranks of the times."""
    risk = np.column_stack([DOSE, DOSE**2]) @ p
    order = np.argsort(-TIMES)
    sums = np.logaddexp.accumulate(risk[order])
    return -(risk[order] - sums)[DIED[order]].sum()


def censored_generalized_gamma(p):
    life = stats.gengamma(np.exp(p[0]), np.exp(p[1]), scale=np.exp(p[2]))
    return -np.where(DIED, life.logpdf(TIMES), life.logsf(TIMES)).sum()


def log_logistic_lives(p):
    life = fisk(np.exp(p[0]), scale=np.exp(p[1] + p[2] * DOSE))
    return -(life.logpdf(TIMES) * DIED + life.logsf(TIMES) * ~DIED).sum()


def cured_fraction(p):
    cured, life = expit(p[0]), weibull_min(c=np.exp(p[1]), scale=np.exp(p[2]))
    alive = cured + (1 - cured) * life.sf(TIMES)
    return -np.log(np.select([DIED, ~DIED], [(1 - cured) * life.pdf(TIMES), alive])).sum()


class SplinedHazard:
    """The logarithm of a cumulative hazard as a natural spline of the logarithm of time."""

    def __init__(self, knots):
        self.knots = knots

    def __call__(self, heights):
        spline, x = CubicSpline(self.knots, heights, bc_type="natural"), np.log(TIMES)
        total = np.exp(spline(x))
        hazard = np.maximum(total * spline.derivative()(x) / TIMES, 1e-12)
        return -(np.log(hazard[DIED]).sum() - total.sum())


HAZARD = SplinedHazard(np.linspace(-1.7, 1.5, 4))


def splined_hazard(p):
    return HAZARD(p)


# --- extremes, dependence, returns ----------------------------------------------------------------

MAXIMA = 3.0 - np.log(-np.log((K + 0.6) / 24.5))
RETURNS = np.sin(12.9898 * K**2) + 0.3 * np.cos(K)


def largest_of_years(p):
    """Infinite where a maximum is beyond the end: a wall in its place, as optimisers get it."""
    loss = -stats.genextreme.logpdf(MAXIMA, c=p[2], loc=p[0], scale=np.exp(p[1])).sum()
    return loss if np.isfinite(loss) else 1e3 * (1 + p @ p)


def return_levels(p):
    return stats.genextreme(p[2], p[0], np.exp(p[1])).isf(1 / np.array([10.0, 50.0])).sum()


def above_threshold(p):
    u = np.quantile(MAXIMA, 0.6)
    excess = MAXIMA[MAXIMA > u] - u
    shape, scale = p[0], np.exp(p[1])
    loss = len(excess) * np.log(scale) + (1 + 1 / shape) * np.sum(
        special.log1p(shape * excess / scale)
    )
    return loss - 0.1 * genpareto.logsf(3.0, shape, scale=scale)


RANKS = stats.rankdata(np.column_stack([RETURNS, np.cos(1.1 * K)]), axis=0) / 25


def student_copula(p):
    """With the degrees of freedom sought, by quantiles at each step."""
    rho, nu = np.tanh(p[0]), 2 + np.exp(p[1])
    q = stats.t.ppf(RANKS, nu)
    joint = multivariate_t(shape=np.array([[1.0, rho], [rho, 1.0]]), df=nu)
    return -(joint.logpdf(q) - stats.t.logpdf(q, nu).sum(axis=1)).sum()


def student_garch(p):
    omega, alpha, beta, nu = np.exp(p[0]), 0.3 * expit(p[1]), 0.7 * expit(p[2]), 2.1 + np.exp(p[3])
    variance, total = np.var(RETURNS), 0.0
    for r in RETURNS:
        total += stats.t.logpdf(r, nu, scale=np.sqrt(variance * (nu - 2) / nu))
        variance = omega + alpha * r * r + beta * variance
    return -total


def skewed_leverage(p):
    """A variance that falls and rises otherwise, about a level that is sought."""
    h = np.zeros(len(RETURNS))
    h[0] = 1.0
    for t in range(1, len(RETURNS)):
        lever = 0.1 + (p[2] ** 2 if RETURNS[t - 1] < p[3] else 0.0)
        h[t] = np.exp(p[0]) + lever * RETURNS[t - 1] ** 2 + 0.6 * h[t - 1]
    return -scipy.stats.skewnorm.logpdf(RETURNS, p[1], p[3], np.sqrt(h)).sum()


# --- events, answers, doses -----------------------------------------------------------------------

EVENTS = np.cumsum(0.2 + 0.3 * (1 + np.cos(3.1 * K)))


def self_exciting(p):
    """Hawkes' process."""
    mu, jump, decay = np.exp(p)
    excited, total, last = 0.0, 0.0, EVENTS[0]
    for k, t in enumerate(EVENTS):
        if k > 0:
            excited = np.exp(-decay * (t - last)) * (1 + excited)
        total += np.log(mu + jump * excited)
        last = t
    gone = jump / decay * np.sum(-special.expm1(-decay * (EVENTS[-1] - EVENTS)))
    return -(total - mu * EVENTS[-1] - gone)


def switching_rates(p):
    """A Poisson process whose rate switches, by exponentials of matrices."""
    Q = np.array([[-np.exp(p[0]), np.exp(p[0])], [np.exp(p[1]), -np.exp(p[1])]])
    D = np.diag(np.exp([p[2], p[2] + 1]))
    state, total = np.array([0.5, 0.5]), 0.0
    for gap in np.diff(EVENTS)[:12]:
        state = state @ linalg.expm((Q - D) * gap) @ D
        total += np.log(state.sum())
        state = state / state.sum()
    return -total


ANSWERS = (np.sin(7.0 * np.arange(20)) > 0).astype(float).reshape(5, 4)


def item_responses(p):
    ability, (slope, hard) = np.linspace(-2, 2, 5), (np.exp(p[:4]), p[4:])
    P = expit(slope * (ability[:, None] - hard))
    return -np.sum(xlogy(ANSWERS, P) + xlog1py(1 - ANSWERS, -P))


def lapses(p):
    """A psychometric function with lapses, of which a prior knows something."""
    x, seen = np.array([-2.0, -1.0, 0.0, 1.0, 2.0]), [3, 5, 11, 17, 19]
    lapse = 0.1 * expit(p[2])
    psi = 0.05 + (0.95 - lapse) * weibull_min.cdf(np.exp(x), np.exp(p[0]), scale=np.exp(p[1]))
    return -stats.binom.logpmf(seen, 20, psi).sum() - stats.beta(1.2, 10).logpdf(lapse)


DRAWN, LEVELS = np.array([0.25, 0.5, 1, 2, 4, 8.0]), np.array([1.2, 2.1, 2.9, 3.0, 2.0, 0.9])


@dataclass
class Compartments:
    absorbed: float
    cleared: float
    volume: float
    drug: float = 10.0
    seen: dict = field(default_factory=dict)

    def level(self, t):
        ka, ke = self.absorbed, self.cleared
        self.seen[float(t.sum())] = len(t)
        return self.drug * ka / (self.volume * (ka - ke)) * (np.exp(-ke * t) - np.exp(-ka * t))


def absorbed_dose(p):
    return -stats.lognorm.logpdf(LEVELS, 0.2, scale=Compartments(*np.exp(p)).level(DRAWN)).sum()


def saturated_clearance(p):
    """Runge-Kutta steps of an enzyme's kinetics."""
    ka, vm, km = np.exp(p)

    def rate(y):
        return np.array([-ka * y[0], ka * y[0] - vm * y[1] / (km + y[1])])

    y, found, before = np.array([10.0, 0.0]), [], 0.0
    for t in DRAWN:
        h = (t - before) / 2
        for _ in range(2):
            k1 = rate(y)
            k2 = rate(y + h / 2 * k1)
            k3 = rate(y + h / 2 * k2)
            y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + rate(y + h * k3))
        found.append(y[1] / 3)
        before = t
    return -norm.logpdf(np.log(LEVELS), np.log(found), 0.3).sum()


def overdispersed_shares(p):
    """Dirichlet, multinomial and beta-binomial counts with priors."""
    a, n = np.exp(p), np.array([3, 5, 2, 0])
    pooled = stats.betabinom.logpmf([2, 9, 4], [10, 20, 15], a[0], a[1]).sum()
    return -(
        stats.dirichlet.logpdf([0.2, 0.3, 0.4, 0.1], a)
        + stats.dirichlet_multinomial.logpmf(n, a, n.sum())
        + stats.multinomial.logpmf(n, 10, a / a.sum())
        + pooled
        - betaln(a[0], a[1])
        + stats.expon.logpdf(a, scale=10).sum()
    )


def covariance_prior(p):
    L = np.array([[np.exp(p[0]), 0.0], [p[1], np.exp(p[2])]])
    S = L @ L.T
    return -(
        stats.wishart.logpdf(np.array([[1.0, 0.2], [0.2, 2.0]]), df=4, scale=S)
        + stats.invwishart.logpdf(S, 5, np.eye(2))
        + stats.multivariate_normal([0.0, p[1]], S).logpdf([[0.3, 1.0], [0.1, 0.2]]).sum()
    )


FAMILY = {"poisson": lambda mu: poisson(mu), "nb": lambda mu: stats.nbinom(3.0, 3.0 / (3.0 + mu))}


def best_family(p):
    """The better of two families, which other parameters change; classes by their names."""
    counts, mu = [0, 1, 1, 3, 2, 9], np.exp(p[0] + p[1] * np.arange(6))
    fits = {name: make(mu).logpmf(counts).sum() for name, make in FAMILY.items()}
    prior = getattr(stats, "cauchy" if p[1] > 0.3 else "logistic")
    return -max(fits.values()) - prior.logpdf(p, 0, 2.5).sum()


# --- splines and lines of spectra -----------------------------------------------------------------


def warped_time(p):
    t = np.linspace(0, 4, 21)
    warp = Akima1DInterpolator([0, 1, 2, 3, 4], np.cumsum(np.exp(p)))
    return integrate.simpson((warp(t) - t) ** 2, x=t)


STEEP = PchipInterpolator(np.arange(6.0), [0, 1.0, 1.2, 3.0, 2.5, 4.0])


def inverted_curve(p):
    """Newton's steps on a curve that was made outside."""
    z = p[0]
    for _ in range(4):
        z = z - (STEEP(z) - p[1]) / STEEP(z, 1)
    return z**2


def splined_surface(p):
    z = p[0] * np.outer(np.sin(np.arange(6.0)), np.cos(np.arange(7.0))) + p[1]
    surface = si.RectBivariateSpline(np.arange(6.0), np.arange(7.0), z)
    return surface.ev([1.2, p[2]], [3.3, 4.4]).sum() + surface(p[2], 2.0)[0, 0]


CHART = si.RegularGridInterpolator(
    (np.arange(4.0), np.arange(5.0)), np.sin(np.arange(20.0)).reshape(4, 5),
    bounds_error=False, fill_value=np.nan,
)  # fmt: skip


def edge_of_chart(p):
    """Beyond the chart there is NaN, which sums leave out."""
    found = CHART(np.stack([p[:2], p[2:]]))
    return np.nansum(found) + np.where(np.isnan(found), 0.1, found)[0] + p @ p


def tailed_peak(p):
    w = np.linspace(-5, 5, 41)
    line = stats.exponnorm.pdf(w, np.exp(p[2]), loc=p[0], scale=np.exp(p[1]))
    return np.sum((line - norm.pdf(w, 0.3, 0.9)) ** 2) - 0.01 * log_ndtr(p[0] - 3)


# --- images, signals, rotations, networks ---------------------------------------------------------

PICTURE = ndimage.gaussian_filter(np.sin(np.arange(132.0) ** 1.3).reshape(11, 12), 1.2)


def bent_picture(p):
    """A registration whose displacements are splines of few numbers."""
    moves = ndimage.zoom(p.reshape(2, 2, 3), (1, 11 / 2, 12 / 3), order=1)
    places = np.asfortranarray(np.indices(PICTURE.shape) + moves)
    moved = ndimage.map_coordinates(PICTURE, places, order=3, mode="mirror")
    return np.mean((moved - np.roll(PICTURE, 1, 0)) ** 2)


def sparse_spectrum(p):
    """Coefficients of a cosine transform that are kept above a threshold."""
    c = fft.dct(RETURNS * p[0], norm="ortho")
    c = np.where(np.abs(c) > p[1], c, 0.0)
    return np.sum((fft.idct(c, norm="ortho") - RETURNS) ** 2)


def whitened_residuals(p):
    """An ARMA process inverted by a filter, in which a number is missing."""
    data = np.where(K == 5, np.nan, RETURNS)
    e = signal.lfilter(np.r_[1.0, -0.5 * np.tanh(p[:2])], np.r_[1.0, p[2]], np.nan_to_num(data))
    kept = ~np.isnan(data)
    return -norm.logpdf(e[kept], scale=np.std(e[kept])).sum()


def matched_vectors(p):
    a = np.array([[1, 0, 0], [0, 1, 0], [0.1, 0, 1.0]])
    turned, rest = Rotation.align_vectors(a, a + 0.3 * np.outer(np.sin(p), np.cos(p)))
    return rest + turned.magnitude() + (turned * Rotation.from_mrp(0.1 * p)).as_rotvec() @ p


LAGS = np.random.default_rng(1).normal(size=(12, 2))


def spatial_lags(p):
    """A lagged regression on near places; its determinant, and conjugate gradients."""
    gaps = cdist(LAGS, LAGS)
    W = sp.csr_matrix(np.exp(-gaps) * (gaps < 1.2))
    A = sp.identity(12) - np.tanh(p[0]) * W / W.sum(axis=1).max()
    e = A @ LAGS[:, 1] - LAGS[:, 0] * p[1]
    Q = (1.5 + np.exp(p[1])) * sp.identity(12) + np.exp(p[0]) * (W @ W.T) / 9
    x, failed = cg(Q, LAGS[:, 0], rtol=1e-13)
    return 0.5 * e @ e - np.linalg.slogdet(A.toarray())[1] + x @ x + failed


def rod_of_layers(p):
    n = 8
    k = np.exp(p[0] * np.linspace(0, 1, n)) * np.where(np.arange(n) < 4, 1.0, np.exp(p[1]))
    i, j = np.arange(n), np.arange(1, n + 1)
    K = sp.coo_array((np.r_[k, -k, -k, k] * n, (np.r_[i, i, j, j], np.r_[i, j, i, j])),
                     shape=(n + 1, n + 1)).tocsc()  # fmt: skip
    u = np.zeros(n + 1)
    u[1:] = spsolve(K[1:, 1:], np.full(n, 1 / n) * p[2])
    return u[-1] + u @ (K @ u)


def nearest_places(p):
    d, near = cKDTree(LAGS).query([[p[0], p[1]]], k=3)
    weights = special.softmax(-d[0])
    return np.sum(d**2) + weights @ LAGS[near[0], 0] + math.sin(p[0])


def distances_of_kinds(p):
    VI = linalg.inv(np.array([[1.0, np.tanh(p[0])], [np.tanh(p[0]), 1.0]]))
    shares = special.softmax(p)
    return (
        mahalanobis([1.0, p[1]], [0.2, 0.3], VI)
        + jensenshannon(shares, [0.3, 0.7])
        + cosine(p, [1.0, 2.0])
        + logsumexp(-squareform(pdist(LAGS[:5] * p, "cityblock")), b=1 - np.eye(5))
        + gammaln(2 + p[0] ** 2)
    )


POINTS = {
    "proportional_hazards": [[0.2, -0.4], [1.0, 0.3]],
    "censored_generalized_gamma": [[0.2, 0.1, 0.8], [-0.5, 0.5, 1.2]],
    "log_logistic_lives": [[0.2, 0.9, 0.1], [0.7, 0.3, -0.4]],
    "cured_fraction": [[-1.0, 0.3, 0.9], [0.5, -0.2, 1.3]],
    "splined_hazard": [[-4.0, -2.1, 0.2, 1.9], [-3.0, -2.0, -1.0, 0.3]],
    "largest_of_years": [[3.0, 0.1, -0.1], [2.8, -0.4, 0.9]],
    "return_levels": [[3.0, 0.1, -0.1], [2.8, 0.4, 0.12]],
    "above_threshold": [[0.2, 0.1], [-0.15, 1.2]],
    "student_copula": [[0.2, 1.0], [-0.7, 2.0]],
    "student_garch": [[-1.0, 0.2, 0.3, 1.0], [0.2, -0.5, 0.1, 0.3]],
    "skewed_leverage": [[-1.0, 0.2, 0.3, 0.41], [0.2, -0.5, 0.8, -0.63]],
    "self_exciting": [[0.1, -0.5, 0.3], [0.5, -1.0, 1.0]],
    "switching_rates": [[0.1, 0.5, 0.3], [0.5, -1.0, 1.0]],
    "item_responses": [0.1 * np.arange(8), np.cos(np.arange(8))],
    "lapses": [[0.1, 0.5, 0.3], [0.5, -1.0, 1.0]],
    "absorbed_dose": [[0.1, -1.5, 0.3], [0.5, -1.0, 1.0]],
    "saturated_clearance": [[0.1, 0.5, -0.3], [0.5, 0.1, -1.0]],
    "overdispersed_shares": [[0.1, 0.2, -0.4, 1.0], [0.0, 0.0, 0.0, 0.3]],
    "covariance_prior": [[0.1, 0.5, -0.3], [0.5, 0.1, -1.0]],
    "best_family": [[0.1, 0.2], [-0.5, 0.6]],
    "warped_time": [[-1.0, 0.1, 0.2, 0.3, -0.1], [0.0, 0.0, 0.1, -0.5, 0.3]],
    "inverted_curve": [[2.2, 1.4], [4.3, 3.0]],
    "splined_surface": [[1.0, 0.2, 2.3], [0.3, -0.2, 4.1]],
    "edge_of_chart": [[1.2, 2.3, 0.4, 3.1], [5.2, 2.3, 0.4, 3.1]],
    "tailed_peak": [[0.1, -0.4, 0.5], [-0.6, 0.2, -1.3]],
    "bent_picture": [[0.3, -0.2, 0.5, 0.1, 0.7, -0.4, 0.2, 0.33, -0.15, 0.6, -0.7, 0.45],
        [1.3, -0.2, 0.5, -1.1, 0.7, -1.4, 0.2, 0.83, -0.15, 1.6, -0.7, 0.45]],
    "sparse_spectrum": [[0.3, 0.137], [1.2, 0.61]],
    "whitened_residuals": [[0.2, -0.4, 0.3], [1.0, 0.3, -0.5]],
    "matched_vectors": [[0.1, 0.2, 0.3], [1.0, -0.4, 0.9]],
    "spatial_lags": [[0.1, 0.5], [1.0, -0.7]],
    "rod_of_layers": [[0.1, 0.5, 0.8], [1.0, -0.7, 2.0]],
    "nearest_places": [[0.1, 0.5], [1.0, 2.0]],
    "distances_of_kinds": [[0.1, 0.5], [1.0, 2.0]],
}  # fmt: skip
