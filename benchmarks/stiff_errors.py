"""Robertson's reaction at equal errors, beside CasADi's CVODES: value and gradient.

Tolerances mean another error in each system, so times are compared where the errors of gradients
are equal: on a line, in logarithms, through those of several tolerances. CasADi gets the better of
forward and adjoint sensitivities. It runs by a Python that has it, between two measurements:

    python -m benchmarks.stiff_errors --peer PATH/python
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np  # noqa: E402  (the number of threads is read when NumPy is imported)

P, Y0, END = [0.04, 1e4, 3e7], [1.0, 0.0, 0.0], 40.0
#: What is differentiated, y[0] at the end, and its gradient: by Radau with rtol=1e-13.
VALUE, GRADIENT = (
    0.715827068719414,
    [-4.24755877170577, 1.373080797344613e-05, -2.28835508890565e-09],
)
TOLERANCES = 1e-4, 1e-5, 1e-6, 1e-7, 1e-8, 1e-9, 1e-10
#: Of the absolute tolerance to the relative one.
SMALL = 1e-4
_SECONDS = 0.4


def seconds(call):
    """Return the least seconds of the calls that fit into a time, at least three."""
    times, ends = [], time.perf_counter() + _SECONDS
    while len(times) < 3 or time.perf_counter() < ends:
        started = time.process_time()
        call()
        times.append(time.process_time() - started)
    return min(times)


def tapegrad_calls():
    """Return for each tolerance what computes value and gradient."""
    from scipy.integrate import solve_ivp

    import tapegrad as tg

    def rates(t, y, p):
        slow, back, fast = p[0] * y[0], p[1] * y[1] * y[2], p[2] * y[1] ** 2
        return np.stack([back - slow, slow - back - fast, fast])

    def call_at(tolerance):
        def value(p):
            given = {"rtol": tolerance, "atol": tolerance * SMALL, "args": (p,)}
            return solve_ivp(rates, (0.0, END), Y0, "Radau", [END], **given).y[0, -1]

        compiled, p = tg.compile(value), np.array(P)
        return lambda: compiled.value_and_grad(p)

    return {("Radau", one): call_at(one) for one in (1e-2, 1e-3, *TOLERANCES)}


def casadi_calls():
    """Return the same of CVODES, with the sensitivities of both kinds."""
    import casadi as ca

    y, p, symbol = ca.SX.sym("y", 3), ca.SX.sym("p", 3), ca.MX.sym("p", 3)
    slow, back, fast = p[0] * y[0], p[1] * y[1] * y[2], p[2] * y[1] ** 2
    rates = ca.vertcat(back - slow, slow - back - fast, fast)
    problem, calls = {"x": y, "p": p, "ode": rates}, {}
    for tolerance in TOLERANCES:
        given = {"reltol": tolerance, "abstol": tolerance * SMALL, "max_num_steps": 100_000}
        solve = ca.integrator("solve", "cvodes", problem, 0, END, given)
        last = solve(x0=ca.DM(Y0), p=symbol)["xf"][0]
        kinds = {
            "forward": ca.jtimes(last, symbol, ca.MX.eye(3)),
            "adjoint": ca.jtimes(last, symbol, ca.MX(1.0), True),
        }
        for kind, gradient in kinds.items():
            both = ca.Function("both", [symbol], [last, gradient])
            calls[kind, tolerance] = lambda f=both: f(P)
    return calls


def measured(calls):
    """Return for each call its kind, tolerance, seconds, and errors of value and gradient."""
    rows = []
    for (kind, tolerance), call in calls.items():
        for _ in range(3):  # what is compiled at first is left out
            value, gradient = [np.ravel(np.array(one, float)) for one in call()]
        of_gradient = np.abs(gradient / GRADIENT - 1.0).max()
        of_value = abs(value[0] / VALUE - 1.0)
        rows.append((kind, tolerance, seconds(call), float(of_value), float(of_gradient)))
    return rows


def at_error(rows, error):
    """Return the seconds on the line through times at errors; None where none is as small."""
    pairs = sorted((row[-1], row[2]) for row in rows)
    errors, times = np.log(np.array(pairs)).T
    if not errors[0] <= np.log(error) <= errors[-1]:
        return None
    times = np.maximum.accumulate(times[::-1])[::-1]  # a smaller error takes no less time
    return float(np.exp(np.interp(np.log(error), errors, times)))


def by_peer(peer):
    """Return the rows of CasADi in a process of its own."""
    where = Path(__file__).resolve().parent.parent
    command = [peer, "-m", "benchmarks.stiff_errors", "--casadi"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=where, check=True)
    return json.loads(run.stdout.splitlines()[-1])


def _merged(*measurements):
    """Return rows with the least times of several measurements."""
    return [
        [*a[0][:2], min(one[2] for one in a), *a[0][3:]] for a in zip(*measurements, strict=True)
    ]


def main(given=None):
    """Print the times and errors, then times at equal errors."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--peer", default=sys.executable, help="Python that has CasADi")
    parser.add_argument("--casadi", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    if options.casadi:
        print(json.dumps(measured(casadi_calls())))
        return
    calls = tapegrad_calls()
    turns = [(measured(calls), by_peer(options.peer)) for _ in range(3)]
    ours, theirs = [_merged(*rows) for rows in zip(*turns, strict=True)]
    print(f"load {os.getloadavg()[0]:.1f}")
    print("| value and gradient | rtol | ms | error of the value | of the gradient |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for kind, tolerance, spent, *errors in [*ours, *theirs]:
        shown = " | ".join(f"{one:.1e}" for one in errors)
        print(f"| {kind} | {tolerance:.0e} | {1e3 * spent:.3f} | {shown} |")
    for error in (1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8):
        found = {"tapegrad": at_error(ours, error)}
        for kind in ("forward", "adjoint"):
            found[kind] = at_error([row for row in theirs if row[0] == kind], error)
        known = [found[kind] for kind in ("forward", "adjoint") if found[kind] is not None]
        if found["tapegrad"] is not None and known:
            quotient = found["tapegrad"] / min(known)
            times = f"{1e3 * found['tapegrad']:.3f} ms, CVODES {1e3 * min(known):.3f}"
            print(f"gradients right to {error:.0e}: {times}, ratio {quotient:.2f}")


if __name__ == "__main__":
    main()
