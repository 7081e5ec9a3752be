"""Minimise Rosenbrock's function of 50 variables by SciPy with tapegrad's gradient.

Run it with `python examples/rosenbrock.py`.
"""

import numpy as np
from scipy.optimize import minimize

import tapegrad as tg


def rosenbrock(x):
    """Return Rosenbrock's function; its minimum is 0 where every variable is 1."""
    return np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)


def main():
    """Minimise from a fixed start, with tapegrad's gradient and with finite differences."""
    start = np.full(50, 0.5)
    exact = minimize(tg.value_and_grad(rosenbrock), start, jac=True, method="L-BFGS-B")
    differences = minimize(rosenbrock, start, method="L-BFGS-B")
    for name, result in (("tapegrad", exact), ("finite differences", differences)):
        error = np.max(np.abs(result.x - 1))
        print(f"{name:20s} {result.nfev:6d} evaluations, largest error of a variable {error:.1e}")
    assert exact.success
    assert np.allclose(exact.x, 1, atol=1e-4)


if __name__ == "__main__":
    main()
