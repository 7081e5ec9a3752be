"""Fits of differential equations in fresh processes: by differences, and by compiled functions.

Four parameters of a solution by `solve_ivp` are found by `least_squares`, as a script does: by
SciPy's differences, with the residuals compiled and their Jacobian, and with an eager Jacobian.
Each way runs in processes of its own, by turns; the least times of several are printed:

    python -m benchmarks.fits_in_processes                    everything
    python -m benchmarks.fits_in_processes predator-1e-8      some fits
    python -m benchmarks.fits_in_processes --turns 9          so many processes for each way

Milliseconds: from the start of the process to the end of its first fit, with all imports, and the
processor's time of that; of it the fit, with the import of tapegrad; then of a second fit from
other values. What was not compiled when tapegrad was installed is compiled by a process before.
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

ROOT = Path(__file__).resolve().parent.parent
WAYS = "differences", "compiled", "eager"
COLUMNS = "process", "processor", "fit", "second"


def predator(t, y, a, b, c, d):
    """Lotka and Volterra's equations."""
    hare, lynx = y
    return [(a - b * lynx) * hare, (d * hare - c) * lynx]


def epidemic(t, y, contacts, days):
    """Return the rates of change of the susceptible and the ill of 763."""
    susceptible, ill = y
    infected = contacts * susceptible * ill / 763
    return [-infected, infected - ill / days]


def of_predator(p, options):
    """Return hares and lynxes at 20 times."""
    from scipy.integrate import solve_ivp

    times = np.linspace(0.5, 10.0, 20)
    return solve_ivp(predator, (0.0, 10.0), [10.0, 5.0], t_eval=times, args=tuple(p), **options).y


def of_epidemic(p, options):
    """Return the ill that are seen on 14 days: of some contacts, days, first ill, share."""
    from scipy.integrate import solve_ivp

    days, first = np.arange(14.0), [763.0 - p[2], p[2]]
    found = solve_ivp(epidemic, (0.0, 13.0), first, t_eval=days, args=(p[0], p[1]), **options)
    return p[3] * found.y[1]


#: By name: what is seen, the parameters, the spread of the noise.
MODELS = {
    "predator": (of_predator, [1.5, 1.0, 3.0, 1.0], 0.1),
    "epidemic": (of_epidemic, [1.7, 2.2, 1.5, 0.9], 3.0),
}
#: The same, and the tolerances of `solve_ivp`: SciPy's own, or one for both.
FITS = {
    f"{name}-{tolerance}": (name, {"rtol": float(tolerance), "atol": float(tolerance)})
    for name in MODELS
    for tolerance in ("1e-6", "1e-8")
} | {f"{name}-default": (name, {}) for name in MODELS}


def residuals(fit):
    """Return the residuals as a function of the parameters, and the parameters."""
    name, options = FITS[fit]
    seen, p, spread = MODELS[name]
    p = np.array(p)
    data = seen(p, {"rtol": 1e-10, "atol": 1e-10})
    data = data + spread * np.random.default_rng(0).standard_normal(data.shape)

    def difference(p):
        return (seen(p, options) - data).ravel()

    return difference, p


def fits(fit, way):
    """Fit twice; return the times and what is found."""
    from scipy.optimize import least_squares

    f, p = residuals(fit)
    before, marks, found = time.process_time(), [], []
    if way == "compiled":
        import tapegrad as tg

        f = tg.compile(f)
        given = {"jac": f.jacobian}
    elif way == "eager":
        import tapegrad as tg

        given = {"jac": tg.jacobian(f)}
    else:
        given = {}
    for shift in (1.02, 0.985):
        start = p * np.array([shift, 1 / shift, 0.5 + 0.5 * shift, 1.0])
        found.append(least_squares(f, start, **given))
        marks.append((time.time(), time.process_time()))
    (ended, first), (_, second) = marks
    return {
        "ended": ended,
        "processor": first,
        "fit": first - before,
        "second": second - first,
        "x": found[0].x.tolist(),
        "cost": float(found[0].cost),
        "evaluations": [int(found[0].nfev), int(found[0].njev)],
    }


def in_process(fit, way):
    """Return what a fresh process says of a fit, and in what time it has it."""
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join(paths))
    command = [sys.executable, "-m", "benchmarks.fits_in_processes", fit, "--way", way]
    started = time.time()
    run = subprocess.run(command, env=environment, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"the fit {fit} failed:\n{run.stderr}")
    found = json.loads(run.stdout.splitlines()[-1])
    found["process"] = found["ended"] - started
    return found


def measured(fit, turns):
    """Return for each way the least times of several processes, by turns."""
    best = {way: in_process(fit, way) for way in WAYS}  # compiles what is not there
    for turn in range(turns):
        for way in WAYS:
            found = in_process(fit, way)
            for column in COLUMNS:
                least = found[column] if not turn else min(best[way][column], found[column])
                best[way][column] = least
    return best


def main(given=None):
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("fits", nargs="*", choices=[[], *FITS])
    parser.add_argument("--turns", type=int, default=5, help="processes for each way")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args(given)
    if options.way:
        print(json.dumps(fits(options.fits[0], options.way)))
        return
    print(f"load {os.getloadavg()[0]:.1f}")
    print("| fit, ms | way | " + " | ".join(COLUMNS) + " | evaluations | cost |")
    print("| --- | --- |" + " ---: |" * (len(COLUMNS) + 2))
    for fit in options.fits or FITS:
        best = measured(fit, options.turns)
        for way, found in best.items():
            times = " | ".join(f"{1e3 * found[one]:.0f}" for one in COLUMNS)
            calls = ", ".join(map(str, found["evaluations"]))
            print(f"| {fit} | {way} | {times} | {calls} | {found['cost']:.7g} |")
        theirs, ours = best["differences"], best["compiled"]
        shown = [f"{one} {ours[one] / theirs[one]:.2f}" for one in COLUMNS]
        print(f"| {fit} | compiled / differences | " + ", ".join(shown) + " |", flush=True)


if __name__ == "__main__":
    main()
