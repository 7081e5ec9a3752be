"""Regressions, survival, mixtures, Markov chains and Gaussian processes, by SciPy's own names."""

import math
from collections import Counter
from dataclasses import dataclass, field

import numpy as np
import scipy
import scipy.linalg as sla
import scipy.special as sc
import scipy.stats as st
from numpy.linalg import norm as length
from scipy import linalg, special, stats
from scipy.linalg import cho_factor, cho_solve, solve_triangular, toeplitz
from scipy.spatial.distance import cdist, pdist, squareform
from scipy.special import betainc, expit, gammainc, gammaln, kv, log_softmax, logit, logsumexp
from scipy.stats import multivariate_normal, norm

# --- regressions ----------------------------------------------------------------------------------

AGE = np.array([-1.3, -0.8, -0.2, 0.1, 0.4, 0.9, 1.2, 1.9])
INCOME = np.array([1.1, 0.9, 2.3, 2.0, 1.7, 3.2, 2.9, 4.1])
VISITS = [0, 1, 1, 3, 2, 5, 4, 9]
SHARE = np.array([0.12, 0.3, 0.25, 0.41, 0.55, 0.5, 0.72, 0.88])
BOUGHT = np.array([0, 0, 1, 0, 1, 1, 0, 1])
TRIALS, HITS = np.array([5, 8, 6, 9, 4, 7, 10, 6]), np.array([1, 2, 2, 5, 2, 5, 8, 5])
DESIGN = np.column_stack([np.ones_like(AGE), AGE])


def normal_regression(p):
    """Residuals of unequal scale, point by point."""
    total = 0.0
    for x, y in zip(AGE, INCOME):
        total -= norm.logpdf(y, loc=p[0] + p[1] * x, scale=np.exp(p[2] + 0.2 * x))
    return total


def student_regression(p):
    residuals = INCOME - DESIGN @ p[:2]
    return -np.sum(stats.t.logpdf(residuals, df=2.0 + np.exp(p[3]), scale=np.exp(p[2])))


CALLS = Counter()


def counts_regression(p):
    CALLS["counts"] += 1
    rates = np.exp(DESIGN @ p)
    return -sum(stats.poisson(mu).logpmf(k) for mu, k in zip(rates, VISITS))


def negative_binomial(p):
    """With a dispersion, and more zeros than it has where the last parameter is positive."""
    mu, n = np.exp(p[0] + p[1] * AGE), np.exp(p[2])
    logs = st.nbinom.logpmf(VISITS, n, n / (n + mu))
    if p[3] > 0:
        zeros = np.logaddexp(np.log(expit(p[3])), np.log1p(-expit(p[3])) + logs)
        logs = np.where(np.array(VISITS) == 0, zeros, np.log1p(-expit(p[3])) + logs)
    return -logs.sum()


@dataclass
class GammaModel:
    """A gamma regression with a logarithmic link."""

    coefficients: np.ndarray
    shape: float
    seen: list = field(default_factory=list)

    def distribution(self, x):
        mean = np.exp(self.coefficients[0] + self.coefficients[1] * x)
        return stats.gamma(a=self.shape, scale=mean / self.shape)

    def loss(self, xs, ys):
        for x, y in zip(xs, ys):
            self.seen.append(self.distribution(x).logpdf(y))
        return -sum(self.seen)


def gamma_regression(p):
    return GammaModel(p[:2], np.exp(p[2])).loss(AGE, INCOME)


def beta_regression(p):
    mean, precision = expit(p[0] + p[1] * AGE), np.exp(p[2])
    frozen = stats.beta(mean * precision, (1 - mean) * precision)
    return -np.mean(frozen.logpdf(SHARE)) + 0.1 * frozen.var().sum()


class Logistic:
    def __init__(self, penalty):
        self.penalty, self.history = penalty, []

    def __call__(self, w):
        p = scipy.special.expit(DESIGN @ w)
        loss = -scipy.stats.bernoulli.logpmf(BOUGHT, p).sum() + self.penalty * w @ w
        self.history.append(len(w))
        return loss


LOGISTIC = Logistic(0.1)


def logistic_regression(w):
    return LOGISTIC(w)


def probit_dose(p):
    """Binomial counts of a probit, with a part that always answers."""
    base = expit(p[2])
    q = base + (1 - base) * stats.norm.cdf(p[0] + p[1] * AGE)
    return -sum(stats.binom.logpmf(k, n, a) for k, n, a in zip(HITS, TRIALS, q))


def weibull_regression(p):
    scale = np.exp(DESIGN @ p[:2])
    return -stats.weibull_min(c=np.exp(p[2]), scale=scale).logpdf(INCOME).sum()


def lognormal_regression(p):
    return -np.sum(st.lognorm.logpdf(INCOME, s=np.exp(p[2]), scale=np.exp(DESIGN @ p[:2])))


def cauchy_location(p):
    frozen = stats.cauchy(loc=p[0], scale=math.exp(p[1]))
    spread = frozen.ppf(0.75) - frozen.ppf(0.25)
    return -np.mean([frozen.logpdf(y) for y in [*INCOME, -14.0, 30.0]]) + 0.01 * spread


def inverse_gaussian(p):
    mu, lam = np.exp(DESIGN @ p[:2]), np.exp(p[2])
    return -stats.invgauss.logpdf(INCOME, mu=mu / lam, scale=lam).sum()


FAMILIES = {
    "normal": lambda y, m, s: norm(m, s).logpdf(y),
    "laplace": lambda y, m, s: stats.laplace(m, s).logpdf(y),
    "logistic": lambda y, m, s: stats.logistic.logpdf(y, m, s),
    "gumbel": lambda y, m, s: stats.gumbel_r.logpdf(y, loc=m, scale=s),
}


def averaged_families(p):
    """A model average by evidence."""
    logs = {name: f(INCOME, DESIGN @ p[:2], np.exp(p[2])).sum() for name, f in FAMILIES.items()}
    weights = special.softmax(list(logs.values()))
    return sum(w * v for w, v in zip(weights, logs.values())) - logsumexp(
        np.array([*logs.values()])
    )


def ordered_probit(p):
    cuts = np.concatenate([[-np.inf], [p[1]], [p[1] + np.exp(p[2])], [np.inf]])
    levels = [0, 0, 1, 1, 0, 2, 1, 2]
    total = 0.0
    for x, k in zip(AGE, levels):
        total -= np.log(norm.cdf(cuts[k + 1] - p[0] * x) - norm.cdf(cuts[k] - p[0] * x))
    return total


def multinomial_logit(p):
    W = p.reshape(3, 2)
    kinds = [0, 0, 1, 0, 2, 1, 2, 2]
    logs = log_softmax(DESIGN @ W.T, axis=1)
    return -logs[np.arange(len(kinds)), kinds].mean() + 0.01 * length(W)


# --- survival -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Patient:
    time: float
    died: bool
    dose: float


PATIENTS = [
    Patient(2.1, True, 0.0), Patient(5.0, False, 0.3), Patient(0.7, True, 1.0),
    Patient(3.3, True, 0.5), Patient(5.0, False, 0.9), Patient(1.9, False, 0.1),
]  # fmt: skip


def censored_survival(p):
    total = 0.0
    for one in PATIENTS:
        life = stats.weibull_min(math.exp(p[0]), scale=math.exp(p[1] + p[2] * one.dose))
        total += life.logpdf(one.time) if one.died else life.logsf(one.time)
    return -total


def accelerated_failure(p):
    """Lognormal lives, seen between inspections."""
    d = stats.lognorm(s=np.exp(p[1]), scale=np.exp(p[0]))
    lower, upper = np.array([0.5, 1.0, 2.0, 1.5]), np.array([1.0, 2.0, 4.0, np.inf])
    return -np.log(d.cdf(upper) - d.cdf(lower)).sum() + 0.1 * d.mean()


def tobit(p):
    y = np.maximum(INCOME - 2.0, 0.0)
    z, s = DESIGN @ p[:2], np.exp(p[2])
    return -np.where(y > 0, stats.norm.logpdf(y, z, s), stats.norm.logcdf(0.0, z, s)).sum()


def reserve_tail(p):
    """Excesses over a threshold that is a parameter: others are above it at other parameters."""
    losses = np.array([0.4, 1.7, 2.2, 3.6, 0.9, 6.1, 12.5, 2.8])
    above = losses[losses > p[2]]
    tail = stats.genpareto(c=p[0], scale=np.exp(p[1]))
    return -tail.logpdf(above - p[2]).sum() + 0.01 * tail.ppf(0.95)


# --- mixtures and chains --------------------------------------------------------------------------

SPEEDS = np.array([9.2, 10.1, 19.3, 20.4, 18.9, 22.0, 9.8, 33.1])


def galaxy_mixture(p):
    weights, means, scales = special.softmax(p[:3]), p[3:6], np.exp(p[6:])
    parts = np.log(weights) + stats.norm.logpdf(SPEEDS[:, None], means, scales)
    return -logsumexp(parts, axis=1).sum()


def robust_mixture(p):
    logs = [
        logsumexp([norm.logpdf(y, p[0], 1.0), stats.t.logpdf(y, 3, p[0], 10.0)], b=[1 - w, w])
        for y in SPEEDS / 10
        for w in [expit(p[1])]
    ]
    return -sum(logs)


class HiddenMarkov:
    def __init__(self, stay, means):
        move = sc.logit(stay)
        rows = np.array([[move[0], 0.0], [0.0, move[1]]])
        self.log_moves = log_softmax(rows, axis=1)
        self.means = means

    def forward(self, data):
        alpha = np.log([0.5, 0.5]) + stats.norm.logpdf(data[0], self.means)
        for y in data[1:]:
            alpha = sc.logsumexp(alpha[:, None] + self.log_moves, axis=0)
            alpha = alpha + stats.norm.logpdf(y, self.means, 1.0)
        return logsumexp(alpha)


def hidden_markov(p):
    return -HiddenMarkov(expit(p[:2]), p[2:]).forward([0.1, -0.3, 1.9, 2.2, 2.6, 0.2])


def poisson_states(p):
    """Counts of a chain with two rates, by scaled probabilities and the most likely path."""
    rates, stay = np.exp(p[:2]), expit(p[2])
    moves = np.array([[stay, 1 - stay], [1 - stay, stay]])
    a, loglik, best = np.array([0.5, 0.5]), 0.0, 0.0
    for k in VISITS:
        a = (a @ moves) * stats.poisson.pmf(k, rates)
        loglik += np.log(a.sum())
        a /= a.sum()
        best += stats.poisson.logpmf(k, rates[int(np.argmax(a))])
    return -loglik - 0.1 * best


# --- Gaussian processes, kriging ------------------------------------------------------------------

SITES = np.array([[0.0, 0.1], [0.9, 0.3], [0.4, 1.1], [1.6, 0.8], [1.2, 1.7], [2.2, 0.2]])
ORE = np.array([0.3, 0.8, -0.1, 1.2, 0.7, 1.9])


def process_of_sites(p):
    K = np.exp(2 * p[0] - 0.5 * cdist(SITES / np.exp(p[1]), SITES / np.exp(p[1]), "sqeuclidean"))
    factor = cho_factor(K + np.exp(2 * p[2]) * np.eye(len(ORE)), lower=True)
    return 0.5 * ORE @ cho_solve(factor, ORE) + np.log(np.diag(factor[0])).sum()


def matern(d, nu, rho):
    scaled = np.sqrt(2 * nu) * np.where(d == 0, 1e-10, d) / rho
    return 2 ** (1 - nu) / special.gamma(nu) * scaled**nu * kv(nu, scaled)


def matern_kriging(p):
    """Ordinary kriging of one place, with the smoothness of the field as a parameter."""
    nu, rho = np.exp(p[0]), np.exp(p[1])
    gaps = squareform(pdist(SITES))
    C = matern(gaps, nu, rho) + 0.1 * np.eye(6)
    c = matern(cdist(SITES, [[1.0, 1.0]])[:, 0], nu, rho)
    system = np.block([[C, np.ones((6, 1))], [np.ones((1, 6)), np.zeros((1, 1))]])
    w = linalg.solve(system, np.append(c, 1.0))
    return w[:6] @ ORE + 1.0 - w @ np.append(c, 1.0)


def moved_sites(p):
    """The likelihood by the places of two sites, with triangles."""
    sites = np.vstack([SITES[:4], p.reshape(2, 2)])
    L = sla.cholesky(np.exp(-cdist(sites, sites)) + 0.2 * np.eye(6), lower=True)
    z = solve_triangular(L, ORE, lower=True)
    return 0.5 * z @ z + np.sum(np.log(np.diagonal(L)))


def time_series(p):
    """A stationary process by its autocovariances."""
    phi, s2 = np.tanh(p[0]), np.exp(p[1])
    cov = toeplitz(s2 * phi ** np.arange(8) / (1 - phi**2)) + 0.05 * np.eye(8)
    return -stats.multivariate_normal(mean=p[2] * np.ones(8), cov=cov).logpdf(INCOME)


def discriminant(p):
    """Two classes of normal vectors with one covariance."""
    L = np.array([[np.exp(p[0]), 0.0], [p[1], np.exp(p[2])]])
    scores = np.array(
        [multivariate_normal.logpdf(SITES, mean=m, cov=L @ L.T) for m in (p[3:5], -p[3:5])]
    )
    return -np.sum(scores[[0, 1, 0, 1, 1, 0], np.arange(6)] - logsumexp(scores, axis=0))


def random_effects(p):
    """Pairs with a common effect: a covariance of equal eigenvalues."""
    cov = np.exp(p[0]) * np.kron(np.eye(4), np.ones((2, 2))) + np.exp(p[1]) * np.eye(8)
    return -multivariate_normal.logpdf(INCOME, DESIGN @ p[2:], cov)


def correlated_errors(p):
    """From no correlation on, where a fit begins."""
    cov = np.array([[1.0, p[0], 0.0], [p[0], 1.0, p[1]], [0.0, p[1], 1.0]])
    rows = np.array([[0.3, 0.5, -0.2], [1.1, 0.8, 0.4], [-0.7, 0.1, 0.2]])
    normal = stats.multivariate_normal(mean=[p[2], 0.0, 0.0], cov=cov)
    return -normal.logpdf(rows).sum() - stats.multivariate_t.logpdf(rows, shape=cov, df=4).sum()


def density_estimate(p):
    """A kernel density of shifted and stretched data, at places."""
    density = stats.gaussian_kde(SPEEDS * p[0] + p[1])
    return -np.log(density([8.0, 15.0, 21.0])).sum()


def moments_matched(p):
    """The method of moments, by frozen distributions' statistics."""
    mean, var, skew = stats.gamma(np.exp(p[0]), scale=np.exp(p[1])).stats("mvs")
    low, high = stats.gamma(np.exp(p[0]), scale=np.exp(p[1])).interval(0.8)
    wanted = INCOME.mean(), INCOME.var(), stats.skew(INCOME)
    return sum((a - b) ** 2 for a, b in zip((mean, var, skew), wanted)) + 0.1 * (high - low)


def copula(p):
    """Gaussian dependence of gamma and beta margins."""
    rho = np.tanh(p[0])
    u = stats.gamma.cdf(INCOME, a=np.exp(p[1]), scale=0.6)
    v = stats.beta.cdf(SHARE, 2.0, np.exp(p[2]))
    a, b = norm.ppf(u), norm.ppf(v)
    log_c = -0.5 * np.log1p(-(rho**2)) - (rho**2 * (a**2 + b**2) - 2 * rho * a * b) / (
        2 * (1 - rho**2)
    )
    return -log_c.sum()


def tested_groups(p):
    """A t statistic and a correlation that a design seeks."""
    treated = INCOME[:4] + p[0] * AGE[:4] ** 2
    control = INCOME[4:] * p[1]
    t = stats.ttest_ind(treated, control, equal_var=False).statistic
    return t + 0.5 * stats.pearsonr(INCOME, np.exp(p[1] * AGE))[0] + stats.zscore(treated)[0]


def dose_response(p):
    """Incomplete functions: gamma-distributed delays, and order statistics."""
    delay = gammainc(np.exp(p[0]), np.array([0.5, 1.0, 2.0]) / np.exp(p[1]))
    answer = betainc(2.0, np.exp(p[2]), np.clip(delay, 0.05, 0.95))
    return np.sum((answer - [0.2, 0.5, 0.8]) ** 2) + 0.01 * gammaln(np.exp(p[2])) - logit(delay[0])


POINTS = {
    "normal_regression": [[2.0, 0.7, -0.5], [1.0, 0.2, 0.3]],
    "student_regression": [[2.0, 0.7, -0.5, 0.5], [1.0, 1.2, 0.1, 2.0]],
    "counts_regression": [[0.5, 0.8], [1.2, -0.3]],
    "negative_binomial": [[0.5, 0.8, 1.0, -1.0], [0.9, 0.4, 0.2, 0.7]],
    "gamma_regression": [[0.7, 0.4, 1.0], [1.1, 0.2, -0.3]],
    "beta_regression": [[-0.2, 0.9, 1.8], [0.3, 0.4, 0.7]],
    "logistic_regression": [[0.1, 0.8], [-0.6, -1.2]],
    "probit_dose": [[-0.1, 0.6, -3.0], [0.4, 1.1, -1.5]],
    "weibull_regression": [[0.9, 0.4, 0.9], [1.2, 0.1, 0.2]],
    "lognormal_regression": [[0.7, 0.4, -1.0], [0.3, 0.9, 0.2]],
    "cauchy_location": [[2.1, -0.4], [0.3, 1.2]],
    "inverse_gaussian": [[0.7, 0.4, 1.5], [0.3, 0.2, 0.1]],
    "averaged_families": [[2.0, 0.7, -0.5], [1.1, 1.3, 0.4]],
    "ordered_probit": [[0.9, -0.2, 0.3], [-0.4, 0.5, -0.8]],
    "multinomial_logit": [[0.1, -0.4, 0.3, 0.2, -0.5, 0.9], [1.0, 0.4, -0.7, 0.3, 0.2, -1.1]],
    "censored_survival": [[0.2, 1.3, -0.5], [-0.4, 0.8, 0.6]],
    "accelerated_failure": [[0.4, -0.3], [1.1, 0.4]],
    "tobit": [[0.3, 0.9, -0.2], [-0.5, 0.2, 0.6]],
    "reserve_tail": [[0.2, 0.4, 1.0], [0.4, 0.9, 2.5]],
    "galaxy_mixture": [[0.1, 0.4, -0.5, 9.5, 20.0, 31.0, 0.0, 0.3, 0.6],
        [-0.3, 0.2, 0.1, 12.0, 18.0, 26.0, 0.7, 0.9, 1.1]],
    "robust_mixture": [[1.2, -1.0], [2.4, 0.5]],
    "hidden_markov": [[1.5, 0.9, 0.1, 2.1], [0.2, 2.0, 0.8, 1.4]],
    "poisson_states": [[0.1, 1.5, 1.0], [1.8, 0.4, -0.3]],
    "process_of_sites": [[0.1, -0.2, -1.0], [-0.4, 0.3, -0.5]],
    "matern_kriging": [[0.2, -0.1], [0.9, 0.4]],
    "moved_sites": [[1.2, 1.7, 2.2, 0.2], [0.3, 0.4, -0.5, 1.9]],
    "time_series": [[0.5, -0.2, 2.0], [-0.3, 0.6, 1.0]],
    "discriminant": [[0.2, 0.3, -0.1, 0.8, 0.5], [-0.3, -0.4, 0.4, -0.2, 1.1]],
    "random_effects": [[-0.5, -1.0, 2.0, 0.7], [0.4, -0.2, 1.0, 0.2]],
    "correlated_errors": [[0.0, 0.0, 0.1], [0.4, -0.3, 0.5]],
    "density_estimate": [[1.0, 0.0], [0.7, 3.0]],
    "moments_matched": [[0.9, 0.1], [1.6, -0.4]],
    "copula": [[0.6, 1.0, 0.5], [-0.3, 1.4, 0.9]],
    "tested_groups": [[0.5, 0.8], [-0.7, 0.3]],
    "dose_response": [[0.3, -0.2, 0.4], [0.9, 0.5, 1.1]],
}  # fmt: skip
