"""Estimate demand from prices that clear markets: `root` inside a likelihood.

Bread, fish and wine are traded; bread's price is 1. Buyers spend their income by a utility with
constant elasticity of substitution, sellers offer more if a price rises. In each of 40 weeks the
catch, the harvest and the income differ, and the prices of fish and wine are those at which demand
equals supply, seen with errors. The logarithms of the weights of fish and wine, of the elasticity
and of the error are estimated by maximum likelihood; their standard errors come from the Hessian,
that is from second derivatives of the solutions of the equations.

Run it with `python examples/market_equilibrium.py`; the picture is saved as market_equilibrium.png.
"""

import numpy as np
from scipy.optimize import minimize, root

import tapegrad as tg

WEEKS = 40
TRUE = np.log([0.6, 0.35, 1.7, 0.03])
NAMES = ("weight of fish", "weight of wine", "elasticity", "scale of errors")
START = np.log([1.0, 1.0, 1.2, 0.1])
SUPPLY_ELASTICITY = 0.4
PICTURE = "market_equilibrium.png"


def excess_demand(log_prices, week, theta):
    """Return the logarithms of demand over supply of fish and wine in a week."""
    catch, harvest, income = week
    weights, elasticity = np.exp(theta[:2]), np.exp(theta[2])
    prices = np.exp(log_prices)
    shares = weights**elasticity * prices ** (1 - elasticity)
    spent = income * shares / (1 + np.sum(shares))  # the 1 is bread's
    supply = np.array([catch, harvest]) * prices**SUPPLY_ELASTICITY
    return np.log(spent / prices) - np.log(supply)


def equilibrium(week, theta):
    """Return the logarithms of the prices that clear both markets."""
    return root(excess_demand, [0.0, 0.0], args=(week, theta), tol=1e-12).x


def negative_log_likelihood(theta, weeks, seen):
    """Return the negative log-likelihood, of normal errors of the logarithms of prices."""
    squares = 0.0
    for week, prices in zip(weeks, seen, strict=True):
        squares = squares + np.sum((equilibrium(week, theta) - prices) ** 2)
    scale = np.exp(theta[3])
    return seen.size * theta[3] + squares / (2 * scale**2)


def observe(seed=5):
    """Return the catch, harvest and income of each week, and the logarithms of prices seen."""
    random = np.random.default_rng(seed)
    weeks = np.exp(0.4 * random.standard_normal((WEEKS, 3)))
    prices = np.array([equilibrium(week, TRUE) for week in weeks])
    return weeks, prices + np.exp(TRUE[3]) * random.standard_normal(prices.shape)


def estimate(weeks, seen):
    """Return SciPy's result, and the standard errors of the logarithms."""
    compiled = tg.compile(negative_log_likelihood)
    result = minimize(compiled.value_and_grad, START, args=(weeks, seen), jac=True, method="BFGS")
    hessian = compiled.hessian(result.x, weeks, seen)
    return result, np.sqrt(np.diag(np.linalg.inv(hessian)))


def save_picture(theta, weeks, seen, path=PICTURE):
    """Draw the prices that were seen against those of the estimate."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    found = np.exp([equilibrium(week, theta) for week in weeks])
    figure, axes = plt.subplots(figsize=(5.2, 4.6), layout="constrained")
    for k, (name, marker) in enumerate((("fish", "bo"), ("wine", "r^"))):
        axes.loglog(found[:, k], np.exp(seen[:, k]), marker, ms=4, label=name)
    ends = [found.min(), found.max()]
    axes.loglog(ends, ends, "k-", lw=0.8)
    axes.set(xlabel="price of the estimate", ylabel="price seen", title="Prices that clear markets")
    axes.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    """Observe, estimate, print and draw."""
    weeks, seen = observe()
    result, errors = estimate(weeks, seen)
    print(f"{result.nit} iterations, {result.nfev} gradients of {WEEKS} equilibria each")
    for name, true, found, error in zip(NAMES, TRUE, result.x, errors, strict=True):
        print(f"{name}: {np.exp(found):.3f} (true: {np.exp(true):.3f}), log +- {error:.3f}")
    assert np.all(np.abs(result.x - TRUE) < 4 * errors)
    save_picture(result.x, weeks, seen)
    print(f"saved {PICTURE}")


if __name__ == "__main__":
    main()
