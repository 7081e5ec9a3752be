"""Compare tapegrad with PyTorch, JAX, autograd and CasADi, whichever are installed, in one run.

Every workload is computed with its gradients, in float64 on one thread; the figure is the best
steady call. Values and gradients must agree between the systems to a relative 1e-8. The first table
is of functions recorded anew at each call, the second of their programs by `tg.compile`: replayed,
and with native code, beside the limit, which is a gradient written by hand and compiled by Numba.
The third says how far the programs are from their bars. The figures beside the workloads are the
costs of a scalar operation and of a call, memory, growth and start-up.

    python benchmarks/peers.py                           everything
    python benchmarks/peers.py small heat --only PyTorch two workloads, against PyTorch
    python benchmarks/peers.py figures                   only the figures beside the workloads
"""

import argparse
import gc
import importlib.util
import os
import sys
import time
import traceback
from pathlib import Path

for _variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
os.environ.setdefault(
    "XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
)
if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from benchmarks import figures, limits, peer_forms, workload_definitions

TOLERANCE = 1e-8
ROUNDS = 3

#: What tapegrad computes, and what a gradient costs that is written by hand.
EAGER, REPLAY, NATIVE, LIMIT = "tapegrad", "tapegrad replay", "tapegrad native", "limit"

#: Workload → the most that replay, and native code, may take: so many times another system's time.
BARS = {
    "lorenz": ((2, "CasADi"), (1.6, LIMIT)),
    "lynx_hare": ((2, "CasADi"), (1, "CasADi")),
    "loop_square": ((1 / 1000, "PyTorch"), (1 / 5000, "PyTorch")),
    "black_scholes": ((1 / 4, "JAX"), (1.4, LIMIT)),
    "chain": ((1 / 5, "JAX"), (1.4, LIMIT)),
    "small": ((1 / 5, "JAX"), (1 / 6, "JAX")),
    "gmm": ((1, "JAX"), (1 / 2, "JAX")),
    "heat": ((2, "JAX"), (1, "JAX")),
    "mlp": ((1, "PyTorch"), (1, "PyTorch")),
}


def installed_peers():
    """Return the names of the peers that can be imported."""
    return [name for name, module in peer_forms.MODULES.items() if importlib.util.find_spec(module)]


def builders(workload, peers):
    """Return system → builder of its timed call, tapegrad first."""
    forms = {
        EAGER: lambda: workload_definitions.value_and_gradients(workload),
        REPLAY: lambda: workload_definitions.replayed(workload, native=False),
        NATIVE: lambda: workload_definitions.replayed(workload, native=True),
    }
    if workload in limits.LIMITS:
        forms[LIMIT] = limits.LIMITS[workload]
    for peer in peers:
        if workload in peer_forms.FORMS[peer]:
            forms[peer] = peer_forms.FORMS[peer][workload]
    return forms


def steady(call, budget):
    """Return the seconds of the best of the calls that fit into `budget` seconds, at least one."""
    best, ends = float("inf"), time.perf_counter() + budget
    while best == float("inf") or time.perf_counter() < ends:
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
    return best


def disagreement(result, reference):
    """Return the largest relative difference of value and gradients between two systems."""
    pairs = [(result[0], reference[0]), *zip(result[1], reference[1], strict=True)]
    differences = []
    for ours, theirs in pairs:
        ours, theirs = np.asarray(ours), np.asarray(theirs)
        if ours.shape != theirs.shape:
            return float("inf")
        scale = np.max(np.abs(theirs)) or 1.0
        differences.append(np.max(np.abs(ours - theirs)) / scale)
    return float(np.max(differences))


def compare(workload, peers, budget):
    """Measure one workload in every system; return (milliseconds, disagreements, failures)."""
    return measured(workload, builders(workload, peers), budget)


def measured(workload, forms, budget):
    """Measure the calls that builders make, system by system, in turns."""
    calls, results, failures = {}, {}, []
    for system, build in forms.items():
        try:
            calls[system] = build()
            results[system] = calls[system]()
        except Exception:
            calls.pop(system, None)
            failures.append(system)
            print(f"{workload} in {system} failed:", file=sys.stderr)
            traceback.print_exc()
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for system, call in calls.items():
            gc.collect()
            best[system] = min(best[system], steady(call, budget / ROUNDS))
    milliseconds = {system: 1e3 * seconds for system, seconds in best.items()}
    reference = next(iter(results), None)
    apart = {s: disagreement(r, results[reference]) for s, r in results.items() if s != reference}
    return milliseconds, apart, failures


def shown(number):
    """Return a number with at least three significant digits, a dash for None."""
    if not number:
        return "–" if number is None else "0"
    digits = max(0, 2 - int(np.floor(np.log10(abs(number)))))
    return f"{number:.{digits}f}"


def ratio(ours, theirs):
    """Return the quotient of two numbers as text, a dash where one is missing."""
    return shown(ours / theirs if ours and theirs else None)


def print_row(*cells):
    """Print one row of a Markdown table."""
    print("| " + " | ".join(cells) + " |", flush=True)


def table_of_workloads(workloads, peers, budget):
    """Print times and ratios of the workloads, eager; return all times, and what went wrong."""
    columns = [cell for peer in peers for cell in (peer, f"tapegrad / {peer}")]
    print_row("eager, ms", EAGER, *columns)
    print_row("---", *["---:"] * (1 + len(columns)))
    found, wrong, agreed = {}, [], []
    for workload in workloads:
        times, apart, failures = compare(workload, peers, budget)
        found[workload] = times
        cells = [shown(times.get(EAGER))]
        for peer in peers:
            cells += [shown(times.get(peer)), ratio(times.get(EAGER), times.get(peer))]
        print_row(f"`{workload}`", *cells)
        wrong += [f"{workload}: {system} failed" for system in failures]
        wrong += [f"{workload}: {s} differs by {d:.1e}" for s, d in apart.items() if d > TOLERANCE]
        wrong += [f"{workload}: {s} gives NaN" for s, d in apart.items() if d != d]
        agreed += apart.values()
    if agreed and not wrong:
        print(f"\nValues and gradients agree: largest relative difference {max(agreed):.1e}.")
    return found, wrong


def table_of_programs(found, peers):
    """Print the times of the programs beside those of the other systems."""
    systems = [EAGER, REPLAY, NATIVE, LIMIT, *peers]
    print_row("programs, ms", *systems)
    print_row("---", *["---:"] * len(systems))
    for workload, times in found.items():
        print_row(f"`{workload}`", *[shown(times.get(system)) for system in systems])


def table_of_bars(found):
    """Print what the programs take as multiples of other systems, and what they may take."""
    print_row("bars", "replay", "at most", "native", "at most")
    print_row("---", *["---:"] * 4)
    for workload, times in found.items():
        cells = []
        for system, (most, other) in zip((REPLAY, NATIVE), BARS[workload], strict=True):
            ours, theirs = times.get(system), times.get(other)
            missed = " missed" if ours and theirs and ours > most * theirs else ""
            cells += [ratio(ours, theirs) + missed, f"{shown(most)} {other}"]
        print_row(f"`{workload}`", *cells)


def scalar_figures(peers, quick):
    """Return rows (what, tapegrad, PyTorch, ratio) for one scalar operation and its memory."""
    operations = 20_000 if quick else 100_000
    torch = "PyTorch" in peers
    ours = figures.scalar_costs("tapegrad", operations)
    theirs = figures.scalar_costs("PyTorch", operations // 5) if torch else (None, None)
    names = ("record a scalar operation, ns", "its reverse step, ns")
    rows = [(name, 1e9 * a, b and 1e9 * b) for name, a, b in zip(names, ours, theirs, strict=True)]
    ours = figures.bytes_per_node("tapegrad", 20 * operations)
    theirs = figures.bytes_per_node("PyTorch", 2 * operations) if torch else None
    return [*rows, ("memory per scalar node, bytes", ours, theirs)]


def start_up_figures(peers, quick):
    """Return rows (what, tapegrad, PyTorch) for import and the first gradient of a process."""
    times = 2 if quick else 5
    theirs = 1e3 * figures.import_time("torch", times) if "PyTorch" in peers else None
    rows = [("import beyond NumPy's, ms", 1e3 * figures.import_time("tapegrad", times), theirs)]
    warm = 1e3 * figures.first_gradient(cold=False, times=times)
    cold = 1e3 * figures.first_gradient(cold=True, times=1 if quick else 2)
    rows.append(("process with one gradient, warm cache, ms", warm, None))
    rows.append(("process with one gradient, cold cache, ms", cold, None))
    return rows


def program_figures(quick):
    """Return rows (what, tapegrad, None) for calls of programs, and for making them."""
    calls, threads = figures.call_costs(), figures.map_costs(1000 if quick else 10_000)
    eager, first, second = figures.first_calls("lynx_hare")
    rows = [(f"a call of `small`, ns, {how}", 1e9 * t, None) for how, t in calls.items()]
    rows += [(f"map of `small`, ns per row, {n} threads", 1e9 * t, None) for n, t in threads]
    rows.append(
        ("first call of the program of `lynx_hare`, over an eager one", first / eager, None)
    )
    rows.append(("its first two calls, over two eager ones", (first + second) / (2 * eager), None))
    count = 100 if quick else 1000
    loops = (
        (f"Kalman filter of {count} steps", figures.filter_costs(count)),
        (f"mixture of {count} observations", figures.mixture_costs(count)),
    )
    for what, costs in loops:
        tiers = zip(("eager", "interpreted", "native"), costs, strict=True)
        rows += [(f"{what}, µs, {tier}", 1e6 * t, None) for tier, t in tiers]
    for power in range(4, 6 if quick else 8):
        for name, cost in figures.program_growth(10**power).items():
            rows.append((f"a program of 10^{power} scalars, {name}", cost, None))
    return rows


def table_of_figures(peers, quick):
    """Print the figures beside the workloads."""
    print_row("figure", "tapegrad", "PyTorch", "tapegrad / PyTorch")
    print_row("---", "---:", "---:", "---:")
    rows = scalar_figures(peers, quick) + start_up_figures(peers, quick) + program_figures(quick)
    for name, ours, theirs in rows:
        print_row(name, shown(ours), shown(theirs), ratio(ours, theirs))
    for power in range(3, 7 if quick else 8):
        cost = 1e9 * figures.cost_per_node(10**power, 0.2 if quick else 1.0)
        print_row(f"record and reverse, ns per node of 10^{power}", shown(cost), "–", "–")


def arguments(names):
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = [*workload_definitions.WORKLOADS, "figures"]
    parser.add_argument("what", nargs="*", metavar="workload", help=", ".join(known))
    parser.add_argument("--only", metavar="PEER,...", help="peers to compare with")
    parser.add_argument("--budget", type=float, metavar="SECONDS", help="per workload and system")
    parser.add_argument("--quick", action="store_true", help="shorter and less exact")
    options = parser.parse_args(names)
    options.what = options.what or known
    if unknown := set(options.what) - set(known):
        parser.error(f"no workload {', '.join(sorted(unknown))}; known: {', '.join(known)}")
    options.peers = installed_peers()
    if options.only:
        wanted = {name.lower() for name in options.only.split(",")}
        if unknown := wanted - {name.lower() for name in peer_forms.MODULES}:
            parser.error(f"no peer {', '.join(sorted(unknown))}; known: {list(peer_forms.MODULES)}")
        options.peers = [name for name in options.peers if name.lower() in wanted]
    options.budget = options.budget or (0.5 if options.quick else 3.0)
    return options


def main(names=None):
    """Print the tables; return 1 if a system failed or the systems disagree."""
    options = arguments(names)
    sys.setrecursionlimit(1_000_000)
    workloads = [name for name in options.what if name != "figures"]
    wrong = []
    if workloads:
        found, wrong = table_of_workloads(workloads, options.peers, options.budget)
        print()
        table_of_programs(found, options.peers)
        print()
        table_of_bars(found)
    if "figures" in options.what:
        print()
        table_of_figures(options.peers, options.quick)
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
