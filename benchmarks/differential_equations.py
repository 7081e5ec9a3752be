"""Gradients through solve_ivp, beside SciPy's own value and diffrax, in one run.

Each problem is solved to its end, and an objective of the last state is differentiated by the
parameters. diffrax runs in a process of its own, by the interpreter that is given, between two
measurements of tapegrad; it is left out where it is not installed. The last table is a fit of four
parameters by least squares, with differences and with the Jacobian of a compiled function.

    python -m benchmarks.differential_equations                      everything
    python -m benchmarks.differential_equations predator robertson  some problems
    python -m benchmarks.differential_equations --peer PATH/python   diffrax of another Python
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

STARS = np.array([3, 3, -1, -3, 2, -2, 2, 3, -3, 2, 0, 0, -4, 4.0])
SPEEDS = np.array([0, 0, 0, 0, 0, 1.75, -1.5, 0, 0, 0, -1.25, 1, 0, 0.0])


def predator(xp):
    """Lotka and Volterra's equations."""

    def f(t, y, p):
        hare, lynx = y[0], y[1]
        return xp.stack([(p[0] - p[1] * lynx) * hare, (p[3] * hare - p[2]) * lynx])

    return f


def robertson(xp):
    """A stiff reaction of three species."""

    def f(t, y, p):
        slow, back, fast = p[0] * y[0], p[1] * y[1] * y[2], p[2] * y[1] ** 2
        return xp.stack([back - slow, slow - back - fast, fast])

    return f


def pleiades(xp):
    """Seven stars in a plane."""
    eye = np.eye(7)

    def f(t, y, mass):
        x, z = y[:7], y[7:14]
        dx, dz = x[None, :] - x[:, None], z[None, :] - z[:, None]
        pull = mass[None, :] * (1.0 - eye) / (dx**2 + dz**2 + eye) ** 1.5
        return xp.concatenate([y[14:], xp.sum(pull * dx, axis=1), xp.sum(pull * dz, axis=1)])

    return f


def heat(xp):
    """A line that conducts heat, and grows."""
    end = np.zeros(1)

    def f(t, y, p):
        wide = xp.concatenate([end, y, end])
        return p[0] * (wide[:-2] - 2.0 * y + wide[2:]) + p[1] * y * (1.0 - y)

    return f


def _first(y):
    return y[0]


def _line(n):
    return np.sin(np.pi * np.linspace(0.0, 1.0, n + 2)[1:-1])


def _squares(y):
    return (y * y).sum()


#: Problem → equations, parameters, first state, end, tolerances, SciPy's method, objective, and
#: diffrax's method with its first step.
PROBLEMS = {
    "predator": (
        (predator, [1.5, 1.0, 3.0, 1.0], np.ones(2), 10.0),
        ({"rtol": 1e-8, "atol": 1e-10}, "RK45", _first, ("Dopri5", 1e-2)),
    ),
    "pleiades": (
        (pleiades, np.arange(1.0, 8.0), np.concatenate([STARS, SPEEDS]), 3.0),
        ({"rtol": 1e-8, "atol": 1e-8}, "RK45", _first, ("Dopri5", 1e-3)),
    ),
    "heat_100": (
        (heat, [50.0, 1.0], _line(100), 1.0),
        ({"rtol": 1e-6, "atol": 1e-8}, "RK45", _squares, ("Dopri5", 1e-4)),
    ),
    "heat_1000": (
        (heat, [50.0, 1.0], _line(1000), 1.0),
        ({"rtol": 1e-6, "atol": 1e-8}, "RK45", _squares, ("Dopri5", 1e-4)),
    ),
    "robertson": (
        (robertson, [0.04, 1e4, 3e7], np.array([1.0, 0.0, 0.0]), 40.0),
        ({"rtol": 1e-8, "atol": 1e-12}, "Radau", _first, ("Kvaerno5", 1e-5)),
    ),
}


def seconds(call, budget=0.5):
    """The best of the calls that fit into a time."""
    call()
    best, ends = np.inf, time.perf_counter() + budget
    while time.perf_counter() < ends:
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
    return best


def objective(name):
    """The function of the parameters, by SciPy's names."""
    from scipy.integrate import solve_ivp

    (equations, p, y0, end), (tolerances, method, of, _) = PROBLEMS[name]
    f = equations(np)

    def value(p):
        found = solve_ivp(f, (0.0, end), y0, method, [end], args=(p,), **tolerances)
        return of(found.y[:, -1])

    return value, np.array(p, dtype=float)


def measured(name, peer):
    """The times of a problem, and its gradient, by what computes it."""
    import tapegrad as tg

    value, p = objective(name)
    started = time.perf_counter()
    tg.value_and_grad(value)(p)
    found = {"first": time.perf_counter() - started}
    compiled, eager = tg.compile(value), tg.value_and_grad(value)
    found["eager"] = seconds(lambda: eager(p))
    found["compiled"] = seconds(lambda: compiled.value_and_grad(p))
    found["scipy"] = seconds(lambda: value(p))
    theirs = by_peer(name, peer)
    found["compiled"] = min(found["compiled"], seconds(lambda: compiled.value_and_grad(p)))
    gradient = compiled.value_and_grad(p)[1]
    if theirs is not None:
        found["diffrax"], found["diffrax_first"] = theirs["seconds"], theirs["first"]
        other = np.array(theirs["gradient"])
        found["difference"] = float(np.abs(gradient - other).max() / np.abs(other).max())
    return found


def by_peer(name, peer):
    """What diffrax takes; None where it is not installed."""
    command = [peer, "-m", "benchmarks.differential_equations", "--diffrax", name]
    where = Path(__file__).resolve().parent.parent
    run = subprocess.run(command, capture_output=True, text=True, cwd=where)
    lines = run.stdout.splitlines()
    return json.loads(lines[-1]) if run.returncode == 0 and lines else None


def diffrax_times(name):
    """The same in diffrax."""
    import diffrax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    (equations, p, y0, end), (tolerances, _, of, (method, h)) = PROBLEMS[name]
    term, solver = diffrax.ODETerm(equations(jnp)), getattr(diffrax, method)()
    control = diffrax.PIDController(**tolerances)

    def value(p):
        given = dict(stepsize_controller=control, max_steps=1 << 14)
        found = diffrax.diffeqsolve(term, solver, 0.0, end, h, jnp.asarray(y0), p, **given)
        return of(found.ys[-1])

    both, p = jax.jit(jax.value_and_grad(value)), jnp.asarray(p, dtype=float)
    started = time.perf_counter()
    gradient = jax.block_until_ready(both(p))[1]
    first = time.perf_counter() - started
    steady = seconds(lambda: jax.block_until_ready(both(p)))
    return {"first": first, "seconds": steady, "gradient": np.asarray(gradient).tolist()}


def fit():
    """Times of a fit of four parameters: by differences, and by a compiled function."""
    from scipy.integrate import solve_ivp
    from scipy.optimize import least_squares

    import tapegrad as tg

    f, times, p = predator(np), np.linspace(0.5, 10.0, 20), np.array([1.5, 1.0, 3.0, 1.0])

    def states(p):
        given = {"t_eval": times, "args": (p,), "rtol": 1e-8, "atol": 1e-8}
        return solve_ivp(f, (0.0, 10.0), [10.0, 5.0], **given).y

    data = states(p) + 0.1 * np.random.default_rng(0).standard_normal((2, 20))

    def residuals(p):
        return (states(p) - data).ravel()

    def timed(call):
        started = time.perf_counter()
        found = call()
        return time.perf_counter() - started, found.x

    start = p * np.array([1.02, 0.98, 1.01, 0.99])
    theirs = min([timed(lambda: least_squares(residuals, start)) for _ in range(3)], key=_first)
    compiled = tg.compile(residuals)
    ours = [timed(lambda: least_squares(compiled, start, jac=compiled.jacobian)) for _ in range(4)]
    assert np.allclose(theirs[1], ours[0][1], rtol=1e-5)
    return theirs[0], ours[0][0], min(one for one, _ in ours[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("problems", nargs="*", choices=[[], *PROBLEMS, "fit"])
    parser.add_argument("--peer", default=sys.executable, help="Python that has diffrax")
    parser.add_argument("--diffrax", choices=PROBLEMS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.diffrax:
        print(json.dumps(diffrax_times(given.diffrax)))
        return
    print("milliseconds: first gradient, value and gradient eager and compiled, SciPy's value")
    for name in [one for one in given.problems or PROBLEMS if one != "fit"]:
        found = measured(name, given.peer)
        shown = [f"{1e3 * found[one]:9.3f}" for one in ("first", "eager", "compiled", "scipy")]
        line = f"{name:10}" + "".join(shown) + f"  {found['compiled'] / found['scipy']:.3f} of it"
        if "diffrax" in found:
            line += (
                f"; diffrax first {1e3 * found['diffrax_first']:.0f}, {1e3 * found['diffrax']:.3f}"
            )
            line += f", ratio {found['compiled'] / found['diffrax']:.2f}"
            line += f", gradients differ by {found['difference']:.0e}"
        print(line, flush=True)
    if not given.problems or "fit" in given.problems:
        theirs, first, later = fit()
        print(
            f"fit: differences {theirs:.3f} s; first {theirs / first:.1f} times as fast, then",
            end="",
        )
        print(f" {theirs / later:.1f} times")


if __name__ == "__main__":
    main()
