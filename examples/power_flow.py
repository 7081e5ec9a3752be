"""Solve the power flow of a grid by Newton's method, and differentiate through the solution.

The grid is the IEEE test case of 14 buses. Unknown are the angles of 13 complex voltages and the
magnitudes of 9; the powers V conj(Y V) that the buses send into the grid are given. The Jacobian is
tapegrad's, of the equations as they are written, with complex numbers. What losses change with the
voltages of the generators follows from one more step of Newton's method, differentiated: at a
solution its derivative is that of the implicit function theorem.

Run it with `python examples/power_flow.py`; the picture is saved as power_flow.png.
"""

import numpy as np

import tapegrad as tg

# From bus, to bus, resistance, reactance, charging susceptance (per unit), turns ratio
BRANCHES = np.array([
    [1, 2, 0.01938, 0.05917, 0.0528, 1], [1, 5, 0.05403, 0.22304, 0.0492, 1],
    [2, 3, 0.04699, 0.19797, 0.0438, 1], [2, 4, 0.05811, 0.17632, 0.0340, 1],
    [2, 5, 0.05695, 0.17388, 0.0346, 1], [3, 4, 0.06701, 0.17103, 0.0128, 1],
    [4, 5, 0.01335, 0.04211, 0, 1], [4, 7, 0, 0.20912, 0, 0.978],
    [4, 9, 0, 0.55618, 0, 0.969], [5, 6, 0, 0.25202, 0, 0.932],
    [6, 11, 0.09498, 0.19890, 0, 1], [6, 12, 0.12291, 0.25581, 0, 1],
    [6, 13, 0.06615, 0.13027, 0, 1], [7, 8, 0, 0.17615, 0, 1],
    [7, 9, 0, 0.11001, 0, 1], [9, 10, 0.03181, 0.08450, 0, 1],
    [9, 14, 0.12711, 0.27038, 0, 1], [10, 11, 0.08205, 0.19207, 0, 1],
    [12, 13, 0.22092, 0.19988, 0, 1], [13, 14, 0.17093, 0.34802, 0, 1],
])  # fmt: skip
LOADS = np.array([0, 21.7, 94.2, 47.8, 7.6, 11.2, 0, 0, 29.5, 9, 3.5, 6.1, 13.5, 14.9]) / 100
REACTIVE = np.array([0, 12.7, 19, -3.9, 1.6, 7.5, 0, 0, 16.6, 5.8, 1.8, 1.6, 5.8, 5]) / 100
INJECTED = 0.4 * (np.arange(14) == 1) - LOADS - 1j * REACTIVE
GENERATORS = np.array([0, 1, 2, 5, 7])
OTHERS = np.setdiff1d(np.arange(14), GENERATORS)
ORDER = np.argsort(np.concatenate([GENERATORS, OTHERS]))
SET = np.array([1.06, 1.045, 1.01, 1.07, 1.09])
MAGNITUDES = np.array([1.06, 1.045, 1.01, 1.019, 1.02, 1.07, 1.062, 1.09, 1.056, 1.051, 1.057])
MAGNITUDES = np.append(MAGNITUDES, [1.055, 1.05, 1.036])  # published, in per unit
ANGLES = np.array([0, -4.98, -12.72, -10.33, -8.78, -14.22, -13.37, -13.36, -14.94, -15.10])
ANGLES = np.append(ANGLES, [-14.79, -15.07, -15.16, -16.04])  # published, in degrees
PICTURE = "power_flow.png"


def admittances():
    """Return the matrix Y of the currents Y V; bus 9 has a capacitor of 19 MVAr."""
    y = np.zeros((14, 14), complex)
    y[8, 8] = 0.19j
    for start, end, r, x, charging, ratio in BRANCHES:
        i, j, series = int(start) - 1, int(end) - 1, 1 / (r + 1j * x)
        own = series + 0.5j * charging
        y[[i, j, i, j], [i, j, j, i]] += [own / ratio**2, own, -series / ratio, -series / ratio]
    return y


Y = admittances()


def voltages(unknown, held):
    """Return the complex voltages: 13 angles and 9 magnitudes are unknown, 5 magnitudes held."""
    angles = np.concatenate([[0.0], unknown[:13]])
    return np.concatenate([held, unknown[13:]])[ORDER] * np.exp(1j * angles)


def mismatch(unknown, held):
    """Return the errors of the active powers but at bus 1, and of the reactive ones of loads."""
    v = voltages(unknown, held)
    errors = v * np.conj(Y @ v) - INJECTED
    return np.concatenate([errors.real[1:], errors.imag[OTHERS]])


def losses(unknown, held):
    """Return the power, in MW, that goes into the grid and does not come out."""
    v = voltages(unknown, held)
    return 100 * np.sum(v * np.conj(Y @ v)).real


def solve(held, jacobian):
    """Return the unknowns, found from angles 0 and magnitudes 1, and the errors on the way."""
    unknown, errors = np.concatenate([np.zeros(13), np.ones(9)]), []
    for _ in range(5):
        error = mismatch(unknown, held)
        errors.append(np.max(np.abs(error)))
        unknown = unknown - np.linalg.solve(jacobian(unknown, held), error)
    return unknown, errors


def losses_of_solution(held, unknown, jacobian):
    """Return the losses where the equations hold, as a function of `held`, near a solution.

    `unknown` and `jacobian` belong to the solution and are constants. The step from there is 0, and
    its derivative, -inv(jacobian) d mismatch / d held, is that of the solution.
    """
    step = np.linalg.solve(jacobian, mismatch(unknown, held))
    return losses(unknown - step, held)


def save_picture(unknown, slopes, path=PICTURE):
    """Draw the voltages beside the published ones, and the sensitivities."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    v, buses = voltages(unknown, SET), np.arange(1, 15)
    figure, axes = plt.subplots(1, 3, figsize=(13, 4), layout="constrained")
    found = (np.abs(v), np.angle(v, deg=True))
    titles = ("Magnitude, per unit", "Angle, degrees")
    for one, mine, theirs, title in zip(axes, found, (MAGNITUDES, ANGLES), titles, strict=False):
        one.plot(buses, theirs, "o", mfc="none", color="tab:red", ms=9, label="published")
        one.plot(buses, mine, ".", color="tab:blue", label="solved")
        one.set(title=title, xlabel="bus", xticks=buses)
        one.legend()
    axes[2].bar([f"bus {k + 1}" for k in GENERATORS], slopes / 100, color="tab:blue")
    axes[2].set(title="MW of losses for 0.01 per unit more", xlabel="generator at")
    for one in axes:
        one.set_axisbelow(True)
        one.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    """Solve, compare with the published solution, differentiate and draw."""
    jacobian = tg.jacobian(mismatch)
    unknown, errors = solve(SET, jacobian)
    print("largest error before each step:", " ".join(f"{error:.0e}" for error in errors))
    v = voltages(unknown, SET)
    print(f"bus 14: {abs(v[13]):.3f} per unit, {np.angle(v[13], deg=True):.2f} degrees")
    print(f"losses: {losses(unknown, SET):.2f} MW")
    # The tolerance is what bus 4 needs: 1.019 published, 1.0177 solved.
    assert np.allclose(np.abs(v), MAGNITUDES, atol=2e-3)
    assert np.allclose(np.angle(v, deg=True), ANGLES, atol=0.02)
    assert abs(losses(unknown, SET) - 13.39) < 0.01
    slopes = tg.grad(losses_of_solution)(SET, unknown, jacobian(unknown, SET))
    for k, shift in enumerate(1e-4 * np.eye(5)):
        ends = [losses(solve(held, jacobian)[0], held) for held in (SET + shift, SET - shift)]
        again = (ends[0] - ends[1]) / 2e-4
        bus = GENERATORS[k] + 1
        print(f"bus {bus}: {slopes[k]:9.4f} MW per unit, {again:9.4f} by solving again")
        assert np.isclose(slopes[k], again, rtol=1e-4, atol=1e-4)
    save_picture(unknown, slopes)
    print(f"saved {PICTURE}")


if __name__ == "__main__":
    main()
