"""Find three rates of a stiff reaction from measurements, by `minimize` and `solve_ivp`.

    A -> B            rate a
    2 B -> B + C      rate b
    B + C -> A + C    rate c

This is Robertson's problem (1966): the rates differ by nine orders of magnitude, so that only an
implicit method takes steps of a sensible length. All three are measured at times from a millisecond
to some hours, with errors of one percent. The logarithms of the rates are fitted; the gradient
comes from the steps of the solver, and so do the standard errors, from the Hessian.

Run it with `python examples/stiff_reaction.py`; the picture is saved as stiff_reaction.png.
"""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import minimize

import tapegrad as tg

TRUE = np.log([0.04, 3e7, 1e4])
NAMES = ("A -> B", "2 B -> B + C", "B + C -> A + C")
START = TRUE + np.array([0.4, -0.5, 0.6])
TIMES = np.geomspace(1e-3, 1e4, 25)
NOISE = 0.01
PICTURE = "stiff_reaction.png"


def slopes(t, state, rates):
    """Return the rates of change of the three concentrations."""
    a, b, c = state
    first, second, third = rates[0] * a, rates[1] * b**2, rates[2] * b * c
    return np.array([third - first, first - second - third, second])


def jacobian(t, state, rates):
    """Return the derivatives of the rates of change, which the implicit steps use."""
    _, b, c = state
    by_b = 2 * rates[1] * b
    return np.array(
        [
            [-rates[0], rates[2] * c, rates[2] * b],
            [rates[0], -by_b - rates[2] * c, -rates[2] * b],
            [0.0, by_b, 0.0],
        ]
    )


def concentrations(logs, times=TIMES):
    """Return the three concentrations at some times, a row for each substance."""
    rates = np.exp(logs)
    solution = solve_ivp(
        lambda t, y: slopes(t, y, rates),
        (0.0, TIMES[-1]),
        [1.0, 0.0, 0.0],
        method="Radau",
        t_eval=times,
        rtol=1e-6,
        atol=1e-10,
        jac=lambda t, y: jacobian(t, y, rates),
    )
    return solution.y


def misfit(logs, measured):
    """Return half the sum of the squares of relative errors, over their scale."""
    return np.sum(((concentrations(logs) / measured - 1) / NOISE) ** 2) / 2


def measure(seed=1):
    """Return measurements of the three substances, a row for each."""
    exact = concentrations(TRUE)
    return exact * (1 + NOISE * np.random.default_rng(seed).standard_normal(exact.shape))


def fit(measured, start=START):
    """Return SciPy's result, and the standard errors of the logarithms."""
    compiled = tg.compile(misfit)
    result = minimize(compiled.value_and_grad, start, args=(measured,), jac=True, method="L-BFGS-B")
    return result, np.sqrt(np.diag(np.linalg.inv(compiled.hessian(result.x, measured))))


def save_picture(logs, measured, path=PICTURE):
    """Draw the measurements and the fitted concentrations."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    times = np.geomspace(TIMES[0], TIMES[-1], 200)
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    rows = zip(concentrations(logs, times), measured, "brk", ("A", "10000 B", "C"), strict=True)
    for curve, points, colour, name in rows:
        factor = 1e4 if "B" in name else 1.0
        axes.semilogx(times, factor * curve, f"{colour}-", label=name)
        axes.semilogx(TIMES, factor * points, f"{colour}o", ms=3.5)
    axes.set(xlabel="time (s)", ylabel="concentration", title="Robertson's reaction")
    axes.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    """Measure, fit, print and draw."""
    measured = measure()
    result, errors = fit(measured)
    print(f"{result.nit} iterations, {result.nfev} gradients, each of one solution")
    for name, true, found, error in zip(NAMES, TRUE, result.x, errors, strict=True):
        print(f"{name}: {np.exp(found):.4g} (true: {np.exp(true):.4g}), log +- {error:.4f}")
    assert np.all(np.abs(result.x - TRUE) < 4 * errors)
    save_picture(result.x, measured)
    print(f"saved {PICTURE}")


if __name__ == "__main__":
    main()
