"""Values and gradients of workloads that pick rows by index, eager, replayed and native.

As a program it prints their times beside those of PyTorch and JAX, where they are installed, and of
loops by hand: one thread, float64, the best steady call, all systems in turns in one run. Values
and gradients must agree. Ratios below 1 are in favour of tapegrad.

    python -m benchmarks.rows                          everything
    python -m benchmarks.rows embeddings --quick       one workload, less exactly
"""

import argparse
import functools
import os
import sys

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

from benchmarks import (
    matrix_systems,
    peers,
    row_limits,
    row_systems,
    row_workloads,
)

NAMES = list(row_workloads.WORKLOADS)
OURS = [peers.EAGER, peers.REPLAY, peers.NATIVE]
OTHERS = ["PyTorch", "JAX"]


def prepared(name, system, small=False):
    """Return a call without arguments: a workload's value and gradients."""
    size = row_workloads.SIZES[name][small]
    if system == peers.LIMIT:
        return row_limits.LIMITS[name](size)
    functions = row_systems.SYSTEMS[system.split()[0]]()
    return matrix_systems.DIFFERENTIATE[system](*row_workloads.WORKLOADS[name](functions, size))


class Gradients:
    """One call computes a value and its gradients."""

    params = [NAMES, OURS]
    param_names = ["workload", "tier"]
    timeout = 300

    def setup(self, name, tier):
        """Record, and compile, once."""
        self.call = prepared(name, tier)
        self.call()

    def time_value_and_gradients(self, name, tier):
        """Compute the value and the gradients to all arguments."""
        self.call()


def table(names, others, budget, small=False):
    """Print times of values and gradients, and ratios; return what went wrong."""
    others = [*others, peers.LIMIT]
    ratios = [cell for other in others for cell in (other, f"native / {other}")]
    peers.print_row("value and gradients, ms", *OURS, *ratios)
    peers.print_row("---", *["---:"] * (len(OURS) + len(ratios)))
    wrong = []
    for name in names:
        forms = {s: functools.partial(prepared, name, s, small) for s in (*OURS, *others)}
        times, apart, failures = peers.measured(name, forms, budget)
        cells = [peers.shown(times.get(system)) for system in OURS]
        for other in others:
            native = peers.ratio(times.get(peers.NATIVE), times.get(other))
            cells += [peers.shown(times.get(other)), native]
        peers.print_row(f"`{name}`", *cells)
        wrong += [f"{name}: {system} failed" for system in failures]
        wrong += [f"{name}: {s} differs by {d:.1e}" for s, d in apart.items() if not d < 1e-8]
    return wrong


def main(given=None):
    """Print the table; return 1 if a system failed or the systems disagree."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", nargs="*", metavar="workload", help=", ".join(NAMES))
    parser.add_argument("--quick", action="store_true", help="shorter and less exact")
    parser.add_argument("--small", action="store_true", help="small sizes, as a check")
    options = parser.parse_args(given)
    if unknown := set(options.what) - {*NAMES}:
        parser.error(f"no workload {', '.join(sorted(unknown))}; known: {', '.join(NAMES)}")
    names = [name for name in NAMES if name in (options.what or NAMES)]
    others = [other for other in OTHERS if other in peers.installed_peers()]
    wrong = table(names, others, 0.3 if options.quick else 3.0, options.small)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
