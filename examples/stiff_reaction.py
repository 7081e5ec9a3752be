"""Find three rates of a stiff reaction from measurements, by `least_squares` and `solve_ivp`.

    A -> B            rate a
    2 B -> B + C      rate b
    B + C -> A + C    rate c

This is Robertson's problem (1966): the rates differ by nine orders of magnitude, so that only an
implicit method takes steps of a sensible length. A and C are measured at times from a tenth of a
second to a day, with errors of one percent. The logarithms of the rates are fitted; the Jacobian of
the residuals comes from the solver's steps, and so do the standard errors.

Run it with `python examples/stiff_reaction.py`; the picture is saved as stiff_reaction.png.
"""

import numpy as np
from scipy.integrate import solve_ivp
from scipy.optimize import least_squares

import tapegrad as tg

TRUE = np.log([0.04, 3e7, 1e4])
NAMES = ("A -> B", "2 B -> B + C", "B + C -> A + C")
START = TRUE + np.array([0.4, -0.5, 0.6])
TIMES = np.geomspace(0.1, 1e5, 25)
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
        rtol=1e-7,
        atol=1e-10,
        jac=lambda t, y: jacobian(t, y, rates),
    )
    return solution.y


def residuals(logs, measured):
    """Return the relative errors of A and of C, over the scale of the errors."""
    found = concentrations(logs)
    return (np.concatenate([found[0], found[2]]) / measured - 1) / NOISE


def measure(seed=1):
    """Return measurements of A, and then of C."""
    exact = concentrations(TRUE)
    random = np.random.default_rng(seed)
    both = np.concatenate([exact[0], exact[2]])
    return both * (1 + NOISE * random.standard_normal(both.shape))


def fit(measured, start=START):
    """Return SciPy's result, and the standard errors of the logarithms."""
    compiled = tg.compile(residuals)
    result = least_squares(residuals, start, jac=compiled.jacobian, args=(measured,))
    return result, np.sqrt(np.diag(np.linalg.inv(result.jac.T @ result.jac)))


def save_picture(logs, measured, path=PICTURE):
    """Draw the measurements and the fitted concentrations."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    times = np.geomspace(TIMES[0], TIMES[-1], 200)
    a, b, c = concentrations(logs, times)
    figure, axes = plt.subplots(figsize=(7, 4.2), layout="constrained")
    for curve, points, colour, name in ((a, measured[:25], "b", "A"), (c, measured[25:], "r", "C")):
        axes.semilogx(times, curve, f"{colour}-", label=name)
        axes.semilogx(TIMES, points, f"{colour}o", ms=3.5)
    axes.semilogx(times, 1e4 * b, "k:", label="10000 B, not measured")
    axes.set(xlabel="time (s)", ylabel="concentration", title="Robertson's reaction")
    axes.legend()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    """Measure, fit, print and draw."""
    measured = measure()
    result, errors = fit(measured)
    print(f"{result.nfev} values, {result.njev} Jacobians")
    for name, true, found, error in zip(NAMES, TRUE, result.x, errors, strict=True):
        print(f"{name}: {np.exp(found):.4g} (true: {np.exp(true):.4g}), log +- {error:.4f}")
    assert np.all(np.abs(result.x - TRUE) < 4 * errors)
    save_picture(result.x, measured)
    print(f"saved {PICTURE}")


if __name__ == "__main__":
    main()
