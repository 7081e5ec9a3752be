"""Random programs with branches and loops: compiled against eager, at inputs never recorded.

`python fuzz_branches.py --seed 5 --count 1 --native 1` runs the program of seed 5, natively too.
The exit status is 1 where something differs or crashes.
"""

import collections
import importlib
import linecache
import math
import sys
import warnings

import numpy as np
import random_branches
import seed_runs

import tapegrad as tg
import tapegrad.math
import tapegrad.numpy

#: Calls of a program, by other numbers, data and lengths; the data have 2-D arrays, too.
CALLS, LENGTHS = 12, (5, 5, 5, 3, 8)
RTOL, ATOL = 1e-9, 1e-11
#: One program in this number is called from Numba code, which takes long to compile.
NUMBA = 20
#: Seeds that a task runs, and the seconds after which a program is taken to hang.
BATCH = 25


def function(seed: int, single: bool = False, plain: bool = False):
    """The function of a seed; its text can be read back as that of a file.

    Plain ones have the imports of NumPy and `math`, the others those of their stand-ins. That of
    float32 calls NumPy, since functions of `tapegrad.math` give float64.
    """
    text, name = source(seed), f"<random branches {seed}>"
    if single:
        text = text.replace("np.zeros(3)", "np.zeros(3, np.float32)").replace("math.", "np.")
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    scope = {"np": tapegrad.numpy, "math": tapegrad.math, "__name__": "random_branches"}
    if plain:
        scope |= {"np": np, "math": math}
    if seed_runs.have_scipy():
        scope |= names_of_scipy("" if plain else "tapegrad.")
    exec(compile(text, name, "exec"), scope)
    return scope["f"]


def source(seed: int) -> str:
    """The text of the program of a seed."""
    return random_branches.source(seed, seed_runs.have_scipy())


def names_of_scipy(prefix: str) -> dict:
    """SciPy's names in programs, and objects made outside of them."""
    found = {
        name: importlib.import_module(f"{prefix}scipy.{name}")
        for name in ("special", "stats", "ndimage", "optimize", "integrate")
    }
    distance = importlib.import_module(f"{prefix}scipy.spatial.distance")
    interpolate = importlib.import_module(f"{prefix}scipy.interpolate")
    knots = np.linspace(-3.0, 3.0, 9)
    found["spline"] = interpolate.CubicSpline(knots, np.cos(knots))
    return found | {"cdist": distance.cdist, "frozen": found["stats"].norm(0.3, 1.2)}


def arguments(rng, k: int):
    p, q = (float(v) for v in rng.normal(0.3, 0.9, 2))
    n = LENGTHS[k % len(LENGTHS)]
    return p, q, rng.normal(size=n), rng.normal(size=(2 + k % 2, 3))


def outcome(call, *args):
    """The numbers that a call gives, or the class of what it raises."""
    try:
        with np.errstate(all="ignore"):
            found = call(*args)
    except Exception as error:
        return type(error), str(error)
    return np.hstack([np.ravel(one) for one in np_leaves(found)])


def np_leaves(tree):
    return [leaf for one in tree for leaf in np_leaves(one)] if isinstance(tree, tuple) else [tree]


def is_refused_eagerly(wanted) -> bool:
    """Whether `y += t` was refused, with y an array without axes that is a number in a program.

    Such is `np.where` of numbers, where eagerly none of them is recorded (docs/limits.md).
    """
    return isinstance(wanted, tuple) and "out=: a recorded tensor cannot be written" in wanted[1]


def is_refused_by_name(found) -> bool:
    """Whether plain code has called a function of `math` that it stores (docs/limits.md)."""
    return isinstance(found, tuple) and "call it by its name: where it is stored" in found[1]


def differs(found, wanted, rtol: float = RTOL, atol: float = ATOL) -> str:
    """What differs, or nothing. Eager calls that fail are to fail alike.

    Where float() of a tensor is refused, plain numbers may meet the function's own error first.
    """
    if isinstance(wanted, tuple) or isinstance(found, tuple):
        both = isinstance(wanted, tuple) and isinstance(found, tuple)
        same = both and (found[0] is wanted[0] or "loses its derivative" in wanted[1])
        return "" if same else f"{found} in place of {wanted}"
    near = np.allclose(found, wanted, rtol=rtol, atol=atol, equal_nan=True)
    return "" if near else f"{found} in place of {wanted}"


def in_numba(c, rng) -> list[str]:
    """What differs from eager calls where Numba code calls the graph; calls may leave it."""
    try:
        _, both = c.numba(*arguments(rng, 0))
    except ValueError:
        return []  # its result is no float
    if not hasattr(both, "graph"):
        return []

    def called(*args):
        found = np.full((2, 1), np.nan)
        return both(*args, *found), tuple(found[:, 0])

    wrong, eager = [], tg.value_and_grad(c._f, (0, 1))
    for k in range(CALLS):
        p, q, data, table = arguments(rng, k)
        args = p, q, data[: k if k < 3 else None], table
        found, wanted = outcome(called, *args), outcome(eager, *args)
        left = isinstance(found, tuple) and "in Numba code" in found[1]
        if not left and (said := differs(found, wanted)):
            wrong.append(f"Numba code, call {k}: {said}")
    return wrong


def ways_of(c, first, g) -> dict:
    """By name what compiled functions give, by both arguments and the first, and `g` gives."""
    return {
        "value and gradient": (c.value_and_grad, tg.value_and_grad(g, (0, 1))),
        "value": (c, g),
        "Hessian-vector product": (
            lambda p, q, d, m: first.hvp(p, 0.7, q, d, m),
            lambda p, q, d, m: tg.hvp(g)(p, 0.7, q, d, m),
        ),
        "Hessian": (c.hessian, tg.hessian(g, (0, 1))),
        "Jacobian": (c.jacobian, tg.jacobian(g, (0, 1))),
        "tangent": (
            lambda *args: c.jvp(args, tuple(map(np.cos, args))),
            lambda *args: tg.jvp(g, args, tuple(map(np.cos, args))),
        ),
        "adjoint": (
            lambda *args: c.vjp(*args)[1](0.3),
            lambda *args: tg.vjp(g, *args)[1](0.3),
        ),
    }


def check(seed: int, native: bool) -> tuple[collections.Counter, list[str]]:
    """Call a program at other inputs each time; returns counts, and what went wrong."""
    rng, wrong, counts = np.random.default_rng(seed), [], collections.Counter(programs=1)
    f = g = function(seed)
    if seed_runs.are_plain():
        f = function(seed, plain=True)
    verify = ("never", "once")[seed % 2]  # unseen, a wrong graph is to show; seen, it is dropped
    c = tg.compile(f, argnums=(0, 1), native=native, verify=verify)
    first = tg.compile(f, native=native, verify=verify)
    ways = ways_of(c, first, g)
    if f is not g:  # entered, it is also called eagerly
        ways["eager value and gradient"] = (
            tg.value_and_grad(f, (0, 1)),
            ways["value and gradient"][1],
        )
    for k in range(CALLS):
        args = arguments(rng, k)
        for number, (name, (compiled, eager)) in enumerate(ways.items()):
            if number > 1 and (k + number) % 3:
                continue
            if native and k == CALLS // 2:
                c.wait()
            if name == "Hessian-vector product":
                outcome(first.grad, *args)  # which gives it a graph
            found, wanted = outcome(compiled, *args), outcome(eager, *args)
            if is_refused_eagerly(wanted) and not isinstance(found, tuple):
                counts["calls that raise eagerly alone"] += 1
                continue
            if is_refused_by_name(found):
                counts["calls refused for a stored function of math"] += 1
                continue
            counts["calls" if not isinstance(wanted, tuple) else "calls that raise"] += 1
            if said := differs(found, wanted):
                wrong.append(f"seed {seed}, {name}, call {k}: {said}")
    counts["recordings"] += sum(one.recorded for one in c._families.found.values())
    counts["compiled" if c._reason is None else f"eager: {c._reason}"[:100]] += 1
    for flow in c._flows.found.values():
        counts["graphs"] += 1
        counts["evaluations by graphs"] += sum(graph.calls for graph in flow.tiers)
        counts["left"] += sum(graph.left for graph in flow.tiers)
    if seed % NUMBA == 0 and c._flows.found and c._reason is None:
        counts["graphs in Numba code"] += 1
        wrong += [f"seed {seed}, {said}" for said in in_numba(c, rng)]
    for reason in {*c._flows.refused.values(), *first._flows.refused.values()}:
        counts[f"no graph: {reason}"[:100]] += 1
        if "a call gives" in reason or "failed" in reason:
            wrong.append(f"seed {seed}: {reason}")
    return counts, wrong


def check_single(seed: int, native: bool) -> tuple[collections.Counter, list[str]]:
    """The same of a program of float32: its values and gradients, never compared before."""
    rng, wrong, counts = np.random.default_rng(seed), [], collections.Counter()
    f = function(seed, single=True)
    c = tg.compile(f, argnums=(0, 1), native=native, verify="never")
    ways = {"value": (c, f), "gradient": (c.grad, tg.grad(f, (0, 1)))}
    for k in range(CALLS):
        args = [np.asarray(one, np.float32)[()] for one in arguments(rng, k)]
        for name, (compiled, eager) in ways.items():
            found, wanted = outcome(compiled, *args), outcome(eager, *args)
            if said := differs(found, wanted, rtol=1e-3, atol=1e-4):
                wrong.append(f"seed {seed}, {name} in float32, call {k}: {said}")
        if native and k == CALLS // 2:
            c.wait()
    for flow in c._flows.found.values():
        counts["graphs of float32"] += 1
        counts["evaluations by graphs of float32"] += flow.primal.calls
    return counts, wrong


def batch(first: int, count: int, native: frozenset, single: frozenset):
    """What the checks of some seeds say."""
    warnings.simplefilter("ignore")

    def both(seed):
        found, said = check(seed, seed in native)
        more, others = check_single(seed, seed in native) if seed in single else ({}, [])
        return found + collections.Counter(more), said + others

    return seed_runs.batch_of(both, source, range(first, first + count))


def main() -> int:
    options = seed_runs.parser(__doc__, "natively from the start")
    options.add_argument("--float32", type=int, default=100, help="of them, in float32, too")
    options.add_argument("--scipy", action="store_true", help="with functions of SciPy, too")
    given = options.parse_args()
    subsets = [seed_runs.first_seeds(given, count) for count in (given.native, given.float32)]
    return seed_runs.run(given, "branches", batch, *subsets, size=BATCH)


if __name__ == "__main__":
    sys.exit(main())
