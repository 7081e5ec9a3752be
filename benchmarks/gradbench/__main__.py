"""Times of GradBench's evaluations, by tapegrad and by PyTorch, in one process.

The figures are milliseconds of the best of many calls, by turns; they count the processor's time of
the thread that calls, so that other processes matter little. The first call of tapegrad, which
records and converts, is a column of its own. Results must agree to a relative 1e-8.

    python -m benchmarks.gradbench                 all; nested forward mode takes PyTorch minutes
    python -m benchmarks.gradbench gmm saddle.rr   some of them, and one function
"""

import argparse
import os
import sys
import time
import warnings

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")

import numpy as np

from benchmarks import peers
from benchmarks.gradbench import in_torch
from benchmarks.gradbench.inputs import EVALUATIONS, TIMED
from benchmarks.gradbench.run import module_of

TOLERANCE, TURNS = 1e-8, 3
#: A call of PyTorch that takes more seconds is made once: what it imports matters little then.
LONG = 10.0
#: Calls before tapegrad's are timed: a path that a function takes is converted when it comes again.
EARLIER = 3


def flat(output):
    """Return the numbers of an output, the decoded JSON, in one array."""
    if isinstance(output, dict):
        return np.concatenate([flat(part) for part in output.values()])
    return np.ravel(np.array(output, float))


def disagreement(ours, theirs):
    """Return the largest difference of two outputs, over the largest number."""
    ours, theirs = flat(ours), flat(theirs)
    if ours.shape != theirs.shape:
        return float("inf")
    return float(np.max(np.abs(ours - theirs)) / (np.max(np.abs(theirs)) or 1.0))


def prepared(evaluation, name, given):
    """Return the call of tapegrad, and what writes its result."""
    timed = module_of(evaluation).FUNCTIONS[name]
    arguments = timed.read(given)
    return (lambda: timed.call(*arguments)), timed.write


def seconds(call, budget):
    """Return the least processor time of the calls that fit into a time, at least of one."""
    best, end = float("inf"), time.perf_counter() + budget
    while best == float("inf") or time.perf_counter() < end:
        started = time.thread_time()
        call()
        best = min(best, time.thread_time() - started)
    return best


def timed(call):
    """Return the result of a call, and the processor time that it takes."""
    started = time.thread_time()
    return call(), time.thread_time() - started


def compared(evaluation, name, given, budget):
    """Return seconds of tapegrad's first and best call, of PyTorch's best, and the disagreement."""
    ours, write = prepared(evaluation, name, given)
    result, first = timed(ours)
    output, apart, best = write(result), 0.0, [first]
    calls = [ours]
    if in_torch.torch:
        theirs, write = in_torch.FORMS[evaluation][name](given)
        result, once = timed(theirs)
        apart = disagreement(output, write(result))
        best.append(once)
        calls += [theirs] if once < LONG else []
    for _ in range(EARLIER):
        ours()
    for _ in range(TURNS):
        for k, call in enumerate(calls):
            best[k] = min(best[k], seconds(call, budget / TURNS))
    return first, best[0], best[1] if in_torch.torch else None, apart


def mean(ratios):
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(ratios))))


def chosen(what):
    """Return evaluation → the functions that are meant by its name, or by "name.function"."""
    names = {name: functions for name, functions in EVALUATIONS.items() if name in what or not what}
    for name, functions in EVALUATIONS.items():
        some = tuple(one for one in functions if f"{name}.{one}" in what)
        if some and name not in names:
            names[name] = some
    return names


def rows(names, budget):
    """Print the rows of the table; return the means of ratios, and the largest disagreement."""
    means, worst = [], 0.0
    for evaluation, functions in names.items():
        ratios = []
        for described, given in TIMED[evaluation].items():
            for name in functions:
                first, ours, theirs, apart = compared(evaluation, name, given, budget)
                worst = max(worst, apart)
                cells = [peers.shown(t and 1e3 * t) for t in (first, ours, theirs)]
                cells.append(peers.ratio(ours, theirs))
                peers.print_row(f"`{evaluation}` {name}", described, *cells)
                ratios += [ours / theirs] if theirs else []
        means += [mean(ratios)] if ratios else []
    return means, worst


def main(given=None):
    """Print the table; return 1 if results differ."""
    known = [*EVALUATIONS, *(f"{name}.{one}" for name, all in EVALUATIONS.items() for one in all)]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", metavar="evaluation", help=", ".join(EVALUATIONS))
    parser.add_argument(
        "--budget", type=float, default=1.0, metavar="SECONDS", help="of a function"
    )
    options = parser.parse_args(given)
    if unknown := set(options.what) - {*known}:
        parser.error(f"no evaluation {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    if in_torch.torch:
        in_torch.torch.set_num_threads(1)
    peers.print_row("evaluation", "input", "first, ms", "tapegrad, ms", "PyTorch, ms", "ratio")
    peers.print_row("---", "---", "---:", "---:", "---:", "---:")
    means, worst = rows(chosen(options.what), options.budget)
    if means:
        print(f"\nGeometric mean of {len(means)} evaluations: {peers.shown(mean(means))}.")
        print(f"Largest relative difference of results: {worst:.1e}.")
    return 1 if not worst < TOLERANCE else 0


if __name__ == "__main__":
    warnings.filterwarnings("ignore", "tapegrad.compile", RuntimeWarning)  # of paths, see saddle
    sys.exit(main())
