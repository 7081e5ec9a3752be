"""Steer a spacecraft from the orbit of the Earth as far out as it gets in 193 days.

Bryson and Ho ("Applied Optimal Control", 1975, section 2.5): a small constant thrust is pointed in
directions that are to be found, so that the radius of the circular orbit at the end is largest. The
unit of length is the radius of the first orbit, that of time a year / 2 pi. The motion is a Python
loop of Runge-Kutta steps; SciPy's SLSQP gets the radius, the two conditions of a circle and their
derivatives from compiled functions. The largest radius is 1.525 in the book.

Run it with `python examples/orbit_transfer.py`; the picture is saved as orbit_transfer.png.
"""

import numpy as np
from scipy.optimize import minimize

import tapegrad as tg

THRUST, MASS_RATE, DURATION, STEPS = 0.1405, 0.0749, 3.32, 40
STEP = DURATION / STEPS


def rates(t, state, direction):
    """Return the rates of the radius, the angle, the radial and the tangential velocity."""
    r, _, u, v = state
    push = THRUST / (1.0 - MASS_RATE * t)
    outwards = v**2 / r - 1.0 / r**2 + push * np.sin(direction)
    return np.array([u, v / r, outwards, -u * v / r + push * np.cos(direction)])


def flight(directions):
    """Return the states at the beginning and after each step, which has one direction."""
    states = [np.array([1.0, 0.0, 0.0, 1.0])]
    for k, direction in enumerate(directions):
        t, state = k * STEP, states[-1]
        a = rates(t, state, direction)
        b = rates(t + STEP / 2, state + STEP / 2 * a, direction)
        c = rates(t + STEP / 2, state + STEP / 2 * b, direction)
        d = rates(t + STEP, state + STEP * c, direction)
        states.append(state + STEP / 6 * (a + 2 * b + 2 * c + d))
    return np.array(states)


def off_circle(directions):
    """Return the radial velocity at the end, and the tangential one beyond that of a circle."""
    r, _, u, v = flight(directions)[-1]
    return np.array([u, v - 1.0 / np.sqrt(r)])


def save_picture(directions, path="orbit_transfer.png"):
    """Draw both orbits, the way from one to the other, and the thrust."""
    from matplotlib.figure import Figure

    axes = (figure := Figure((8, 6), layout="constrained")).subplots()
    r, angle = flight(directions)[:, :2].T
    way, around = r * np.exp(1j * angle), np.exp(1j * np.linspace(0, 2 * np.pi, 200))
    thrust = np.exp(1j * (angle[:-1] + np.pi / 2 - directions))
    for line, style in ((around, "k:"), (r[-1] * around, "k:"), (way, "b-")):
        axes.plot(line.real, line.imag, style)
    at, arrows = way[:-1:2], thrust[::2]
    axes.quiver(at.real, at.imag, arrows.real, arrows.imag, color="tab:red", width=0.004, scale=9)
    axes.plot(0, 0, "o", color="orange", ms=14)
    axes.set(aspect="equal", title=f"From radius 1 to {r[-1]:.4f}; arrows are the thrust")
    figure.savefig(path, dpi=110)


def main():
    """Optimise, compare with the book, and draw; at first the thrust points out, then in."""
    loss, constraint = tg.compile(lambda d: -flight(d)[-1, 0]), tg.compile(off_circle)
    start = np.where(np.arange(STEPS) < STEPS / 2, 0.8, 5.2)
    circle = {"type": "eq", "fun": constraint, "jac": constraint.jacobian}
    options = {"maxiter": 300, "ftol": 1e-9}
    found = minimize(loss.value_and_grad, start, jac=True, constraints=circle, options=options)
    print(
        f"radius {-found.fun:.4f} after {found.nit} iterations, off a circle {off_circle(found.x)}"
    )
    assert np.allclose([-found.fun, *off_circle(found.x)], [1.525, 0.0, 0.0], atol=5e-4)
    save_picture(found.x)


if __name__ == "__main__":
    main()
