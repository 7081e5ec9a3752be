"""Values and gradients of linear algebra, complex numbers and FFT, eager and as programs.

As a program it prints their times beside those of PyTorch and JAX where they are installed: one
thread, float64, the best steady call, all systems in turns in one run. Values and gradients must
agree. Ratios below 1 are in favour of tapegrad.

    python -m benchmarks.linear_algebra                    everything
    python -m benchmarks.linear_algebra eigh svd --quick   two workloads, less exactly
"""

import argparse
import functools
import os
import sys

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np

import tapegrad as tg
from benchmarks import (
    figures,
    filter_of_numbers,
    matrix_systems,
    matrix_workloads,
    peers,
)

#: The filter in single numbers is a workload of tapegrad alone; others take the one of matrices.
NUMBERS = "kalman_of_numbers"
NAMES = [*matrix_workloads.WORKLOADS, NUMBERS]
OTHERS = ["PyTorch", "JAX"]


def workload(name, system, small=False):
    """Return the function of a workload as a system has it, and its arguments."""
    size = matrix_workloads.SIZES["kalman" if name == NUMBERS else name][small]
    if name == NUMBERS and system.startswith("tapegrad"):
        return filter_of_numbers.kalman(size, log=np.log)
    build = matrix_workloads.WORKLOADS["kalman" if name == NUMBERS else name]
    return build(matrix_systems.SYSTEMS[system.split()[0]](), size)


def prepared(name, system, small=False):
    """Return a call without arguments: a workload's value and gradients."""
    return matrix_systems.DIFFERENTIATE[system](*workload(name, system, small))


def hessian_of_process(tier, small=False):
    """Return a call of the Hessian of a Gaussian process's likelihood."""
    function, (at,) = workload("gaussian_process", peers.EAGER, small)
    if tier == peers.EAGER:
        return functools.partial(tg.hessian(function), at)
    program = tg.compile(function, native=tier == peers.NATIVE)
    for _ in range(3):
        program.hessian(at)
        program.wait()
    return functools.partial(program.hessian, at)


def cholesky_seconds(system, size=1000, times=5):
    """Return the least seconds of Cholesky's forward step and of its reverse step alone."""
    functions, best = matrix_systems.SYSTEMS[system](), [float("inf")] * 2
    a = matrix_workloads.definite(size)
    for _ in range(times + 1):
        if system == "PyTorch":
            x = functions.constant(a).requires_grad_()
        else:
            x = tg.tensor(a, requires_grad=True)
        seed = functions.constant(np.tril(np.ones((size, size))))
        made = []
        forward = figures.best(lambda x=x, made=made: made.append(functions.cholesky(x)), 1)
        backward = figures.best(lambda made=made, seed=seed: made[-1].backward(seed), 1)
        best = [min(best[0], forward), min(best[1], backward)]
    return best


class Gradients:
    """One call computes a value and its gradients."""

    params = [NAMES, [peers.EAGER, peers.NATIVE]]
    param_names = ["workload", "tier"]
    timeout = 300

    def setup(self, name, tier):
        """Record, and compile, once."""
        self.call = prepared(name, tier)
        self.call()

    def time_value_and_gradients(self, name, tier):
        """Compute the value and the gradients to all arguments."""
        self.call()


class Hessians:
    """One call computes the Hessian of a Gaussian process's likelihood, three parameters."""

    params = [[peers.EAGER, peers.NATIVE]]
    param_names = ["tier"]
    timeout = 300

    def setup(self, tier):
        """Record, and compile, once."""
        self.call = hessian_of_process(tier)
        self.call()

    def time_hessian(self, tier):
        """Compute the Hessian."""
        self.call()


def track_reverse_of_cholesky(size):
    """The reverse step of Cholesky's factor over its forward step."""
    forward, backward = cholesky_seconds(peers.EAGER, size)
    return backward / forward


track_reverse_of_cholesky.unit = "forward steps"
track_reverse_of_cholesky.params = [100, 1000]
track_reverse_of_cholesky.param_names = ["size"]


def table_of_gradients(names, others, budget, small=False):
    """Print times of values and gradients, and ratios; return what went wrong."""
    ratios = [cell for other in others for cell in (other, f"native / {other}")]
    peers.print_row("value and gradients, ms", peers.EAGER, peers.NATIVE, *ratios)
    peers.print_row("---", *["---:"] * (2 + len(ratios)))
    wrong = []
    for name in names:
        systems = [peers.EAGER, peers.NATIVE, *others]
        forms = {s: functools.partial(prepared, name, s, small) for s in systems}
        times, apart, failures = peers.measured(name, forms, budget)
        cells = [peers.shown(times.get(system)) for system in (peers.EAGER, peers.NATIVE)]
        for other in others:
            native = peers.ratio(times.get(peers.NATIVE), times.get(other))
            cells += [peers.shown(times.get(other)), native]
        peers.print_row(f"`{name}`", *cells)
        wrong += [f"{name}: {system} failed" for system in failures]
        wrong += [f"{name}: {s} differs by {d:.1e}" for s, d in apart.items() if not d < 1e-8]
    return wrong


def table_of_steps(others, quick=False):
    """Print what Cholesky's steps and a Hessian cost."""
    size, times = (50, 5) if quick else (1000, 5)
    print()
    peers.print_row("ms", "forward", "reverse", "reverse / forward")
    peers.print_row("---", *["---:"] * 3)
    for system in [peers.EAGER, *(other for other in others if other != "JAX")]:
        forward, backward = (1e3 * t for t in cholesky_seconds(system, size, times))
        cells = peers.shown(forward), peers.shown(backward), peers.ratio(backward, forward)
        peers.print_row(f"Cholesky's factor of {size}, {system}", *cells)
    print()
    peers.print_row("Hessian, ms", peers.EAGER, peers.NATIVE)
    peers.print_row("---", *["---:"] * 2)
    tiers = [hessian_of_process(tier, quick) for tier in (peers.EAGER, peers.NATIVE)]
    seconds = [figures.best(call, times) for call in tiers]
    peers.print_row("`gaussian_process`", *(peers.shown(1e3 * t) for t in seconds))


def main(given=None):
    """Print the tables; return 1 if a system failed or the systems disagree."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", metavar="workload", help=", ".join([*NAMES, "steps"]))
    parser.add_argument("--quick", action="store_true", help="shorter and less exact")
    parser.add_argument("--small", action="store_true", help="small sizes, as a check")
    options = parser.parse_args(given)
    if unknown := set(options.what) - {*NAMES, "steps"}:
        parser.error(f"no workload {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}, steps")
    names = [name for name in NAMES if name in (options.what or NAMES)]
    others = [other for other in OTHERS if other in peers.installed_peers()]
    wrong = table_of_gradients(names, others, 0.3 if options.quick else 3.0, options.small)
    if "steps" in (options.what or ["steps"]):
        table_of_steps(others, options.small)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
