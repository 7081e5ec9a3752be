"""Newton's method for a field in a plane, with a sparse system in each step, and its gradient.

Bratu's equation, −Δu = λ·eᵘ on a square, on a grid: steps of Newton's by `spsolve`, as many as are
needed, and the gradient by λ of what is found. Milliseconds of SciPy's value, of value and gradient
through all steps, eager and compiled, and by the implicit function theorem; and all of them in
SciPy's values:

    python -m benchmarks.newton_of_a_field         64 × 64
    python -m benchmarks.newton_of_a_field 32 128  other grids
"""

import argparse
import os
import time

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np  # noqa: E402  (the number of threads is read when NumPy is imported)
from scipy.sparse import csc_array, diags_array, eye_array, kron  # noqa: E402
from scipy.sparse.linalg import spsolve  # noqa: E402

import tapegrad as tg  # noqa: E402

_TURNS, _LAMBDA, _STEPS = 7, 5.0, 5


def laplacian(n):
    """Return minus the Laplacian of a square of n × n points inside."""
    line = diags_array([-1.0, 2.0, -1.0], offsets=[-1, 0, 1], shape=(n, n)) * (n + 1.0) ** 2
    one = eye_array(n)
    return csc_array(kron(line, one) + kron(one, line))


def functions(n):
    """Return the mean of squares as a function of λ: through all steps, and by the equation."""
    A = laplacian(n)

    def steps(p, count=_STEPS):
        u = np.zeros(n * n)
        for _ in range(count):
            grown = p[0] * np.exp(u)
            u = u - spsolve(csc_array(A - diags_array(grown)), A @ u - grown)
        return u

    @tg.implicit(lambda u, p: A @ u - p[0] * np.exp(u))
    def solution(p):
        return steps(p)

    return lambda p: np.mean(steps(p) ** 2), lambda p: np.mean(solution(p) ** 2)


def measured(n):
    """Return the milliseconds by what computes it."""
    through, by_equation = functions(n)
    compiled, p = tg.compile(through), np.array([_LAMBDA])
    calls = {
        "SciPy's value": lambda: through(p),
        "eager": lambda: tg.value_and_grad(through)(p),
        "compiled": lambda: compiled.value_and_grad(p),
        "implicit": lambda: tg.value_and_grad(by_equation)(p),
    }
    found = {way: call() for way, call in calls.items() for _ in range(3)}
    h = 1e-4
    difference = (through(p + h) - through(p - h)) / (2.0 * h)
    for way in calls.keys() - {"SciPy's value"}:
        np.testing.assert_allclose(found[way][0], found["SciPy's value"], rtol=1e-10)
        np.testing.assert_allclose(found[way][1], [difference], rtol=1e-6)
    least = dict.fromkeys(calls, np.inf)
    for _ in range(_TURNS):
        for way, call in calls.items():
            started = time.process_time()
            call()
            least[way] = min(least[way], 1e3 * (time.process_time() - started))
    return least


def main(given=None):
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("sizes", nargs="*", type=int, default=(64,), metavar="points")
    for n in parser.parse_args(given).sizes:
        least = measured(n)
        solution = least["SciPy's value"]
        shown = [f"{way} {spent:.1f} ms, {spent / solution:.2f}" for way, spent in least.items()]
        print(f"{n} × {n}: " + "; ".join(shown), flush=True)


if __name__ == "__main__":
    main()
