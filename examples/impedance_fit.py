"""Fit an equivalent circuit of an electrode to measured impedances, which are complex numbers.

A resistance, in series with a resistance beside a constant-phase element, and with a Warburg
element of diffusion:

    Z(w) = R0 + 1 / (1 / R1 + Q (jw)^a) + A (jw)^(-1/2)

The five parameters are searched on the log scale. SciPy's least_squares takes the real and the
imaginary parts of the errors and, from tapegrad, their Jacobian. The measurements are made here,
with noise of 1 % of the modulus, so that the fit is judged by the parameters that made them.

Run it with `python examples/impedance_fit.py`; the picture is saved as impedance_fit.png.
"""

import numpy as np
from scipy.optimize import least_squares

import tapegrad as tg

NAMES = ("R0", "R1", "Q", "a", "A")
UNITS = ("Ohm", "Ohm", "s^a / Ohm", "", "Ohm / s^(1/2)")
TRUE = np.array([20.0, 100.0, 2e-5, 0.85, 40.0])
START = np.array([10.0, 50.0, 1e-4, 0.70, 100.0])
OMEGA = 2 * np.pi * np.logspace(5, -1.5, 60)
NOISE = 0.01
PICTURE = "impedance_fit.png"


def impedance(logs, omega):
    """Return the complex impedance at the angular frequencies `omega`."""
    r0, r1, q, a, warburg = np.exp(logs)
    s = 1j * omega
    return r0 + 1 / (1 / r1 + q * s**a) + warburg / np.sqrt(s)


def residuals(logs, omega, measured):
    """Return real and imaginary parts of the errors, in standard deviations of the noise."""
    errors = (impedance(logs, omega) - measured) / (NOISE * np.abs(measured))
    return np.concatenate([errors.real, errors.imag])


def measurements():
    """Return impedances with errors whose real and imaginary parts have 1 % of the modulus."""
    generator = np.random.default_rng(1)
    exact = impedance(np.log(TRUE), OMEGA)
    parts = generator.standard_normal((2, len(OMEGA)))
    return exact + NOISE * np.abs(exact) * (parts[0] + 1j * parts[1])


def fit(measured):
    """Return SciPy's result."""
    compiled, data = tg.compile(residuals), (OMEGA, measured)
    return least_squares(compiled, np.log(START), compiled.jacobian, args=data, xtol=1e-12)


def standard_errors(result):
    """Return parameters and standard errors, carried from the log scale to first order."""
    covariance = np.linalg.inv(result.jac.T @ result.jac)
    parameters = np.exp(result.x)
    return parameters, parameters * np.sqrt(np.diag(covariance))


def save_picture(result, measured, path=PICTURE):
    """Draw the Nyquist and the Bode diagram of the measurements and of the fit."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, (nyquist, bode) = plt.subplots(1, 2, figsize=(11, 4.5), layout="constrained")
    smooth = np.geomspace(OMEGA[-1], OMEGA[0], 500)
    hertz = OMEGA / (2 * np.pi)
    curves = (("first guess", np.log(START), "0.6", ":"), ("fit", result.x, "tab:red", "-"))
    for name, logs, colour, style in curves:
        curve = impedance(logs, smooth)
        nyquist.plot(curve.real, -curve.imag, style, color=colour, label=name)
        angle = -np.angle(curve, deg=True)
        bode.semilogx(smooth / (2 * np.pi), angle, style, color=colour, label=name)
    nyquist.plot(measured.real, -measured.imag, "o", color="tab:blue", ms=4, label="measured")
    bode.semilogx(hertz, -np.angle(measured, deg=True), "o", color="tab:blue", ms=4)
    nyquist.set(xlabel="Re Z / Ohm", ylabel="-Im Z / Ohm", title="Nyquist diagram")
    nyquist.set(xlim=(0, 200), ylim=(0, 110), aspect="equal")
    bode.set(xlabel="frequency / Hz", ylabel="-phase / degrees", title="Phase")
    nyquist.legend()
    for axes in (nyquist, bode):
        axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    """Fit, compare with the parameters that made the measurements, and draw."""
    measured = measurements()
    result = fit(measured)
    parameters, errors = standard_errors(result)
    print(f"{'':4s} {'fitted':>10s} {'std. error':>11s} {'true':>10s}")
    for name, unit, *row in zip(NAMES, UNITS, parameters, errors, TRUE, strict=True):
        print(f"{name:4s} {row[0]:#10.4g} {row[1]:#11.2g} {row[2]:#10.4g} {unit}")
    freedom = 2 * len(OMEGA) - len(NAMES)
    print(f"chi-square {2 * result.cost:.1f} of {freedom} degrees; {result.njev} Jacobians")
    assert result.success
    assert np.all(np.abs(parameters - TRUE) < 4 * errors)
    assert abs(2 * result.cost - freedom) < 4 * np.sqrt(2 * freedom)
    save_picture(result, measured)
    print(f"saved {PICTURE}")


if __name__ == "__main__":
    main()
