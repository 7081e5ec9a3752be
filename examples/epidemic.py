"""Fit an epidemic by `solve_ivp`: influenza in a boarding school of 763 boys, England 1978.

    S' = -contacts S I / 763        I' = contacts S I / 763 - I / days        R' = I / days

The boys in bed are counted on 14 days (British Medical Journal, 4 March 1978, p. 587). The rate of
contacts, the days that a boy is ill and the number of those ill at the beginning are found by
maximum likelihood, with counts that vary as a negative binomial distribution. The likelihood is
written with SciPy's solver as it stands; tapegrad differentiates the steps that it takes.

Run it with `python examples/epidemic.py`; the picture is saved as epidemic.png.
"""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import minimize
from scipy.special import gammaln

import tapegrad as tg

BOYS = 763
IN_BED = np.array([3, 8, 26, 76, 225, 298, 258, 233, 189, 128, 68, 29, 14, 4])
DAYS = np.arange(len(IN_BED), dtype=float)
NAMES = ("contacts a day", "days of illness", "ill on the first day", "dispersion")
START = np.log([1.5, 2.5, 1.0, 10.0])
PICTURE = "epidemic.png"


def changes(t, state, contacts, length):
    """Return the rates of change of the boys who are susceptible and ill."""
    susceptible, ill = state
    infected = contacts * susceptible * ill / BOYS
    return [-infected, infected - ill / length]


def ill_boys(theta, times=DAYS):
    """Return the number of boys who are ill at some times."""
    contacts, length, first, _ = np.exp(theta)
    solution = solve_ivp(
        changes,
        (0.0, DAYS[-1]),
        [BOYS - first, first],
        t_eval=times,
        args=(contacts, length),
        rtol=1e-8,
        atol=1e-8,
    )
    return solution.y[1]


def negative_log_likelihood(theta):
    """Return the negative logarithm of the probability of the counts."""
    mean, r = ill_boys(theta), np.exp(theta[3])
    logs = gammaln(IN_BED + r) - gammaln(r) - gammaln(IN_BED + 1.0)
    logs = logs + r * np.log(r / (r + mean)) + IN_BED * np.log(mean / (r + mean))
    return -np.sum(logs)


def fit(start=START):
    """Return SciPy's result, and the standard errors of the logarithms."""
    compiled = tg.compile(negative_log_likelihood)
    bounds = [(guess - 1.5, guess + 1.5) for guess in start]
    result = minimize(compiled.value_and_grad, start, jac=True, method="L-BFGS-B", bounds=bounds)
    return result, np.sqrt(np.diag(np.linalg.inv(compiled.hessian(result.x))))


def save_picture(theta, path=PICTURE):
    """Draw the counts and the fitted curve, with the bounds of most counts."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    times = np.linspace(0, DAYS[-1], 200)
    mean = ill_boys(theta, times)
    spread = 2 * np.sqrt(mean + mean**2 / np.exp(theta[3]))
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    axes.fill_between(times, np.maximum(mean - spread, 0), mean + spread, color="r", alpha=0.15)
    axes.plot(times, mean, "r-", label="fit, two standard deviations")
    axes.plot(DAYS, IN_BED, "ko", label="in bed")
    axes.set(xlabel="day", ylabel="boys", title="Influenza in a boarding school, 1978")
    axes.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    """Fit, print and draw."""
    result, errors = fit()
    print(f"{result.nit} iterations, {result.nfev} gradients, each of one solution")
    for name, found, error in zip(NAMES, result.x, errors, strict=True):
        print(f"{name}: {np.exp(found):.3f}, log +- {error:.3f}")
    contacts, length = np.exp(result.x[:2])
    print(f"a boy infects {contacts * length:.2f} others at first")
    assert 3.0 < contacts * length < 4.5
    save_picture(result.x)
    print(f"saved {PICTURE}")


if __name__ == "__main__":
    main()
