"""How many of the functions of outside_functions.py have a graph, and why others have none.

usage: python tests/fuzz/count_graphs.py [--functions NAME …] [--ways NAME …] [--native] [--time]

Each is compiled, called three times at inputs that take other branches, and compared with eager
calls. The exit status is 1 if a result differs, or less than 95 % have a graph.
"""

import argparse
import collections
import sys
import time
import warnings

import numpy as np
from outside_functions import FUNCTIONS, WAYS, function

import tapegrad as tg


def called(c, points, rounds=3) -> list:
    """Value and gradient at each point, in rounds."""
    return [c.value_and_grad(np.array(p)) for _ in range(rounds) for p in points]


def reason_of(c) -> str | None:
    """Why a compiled function has no graph; None if it has one."""
    flows = c._flows
    if flows.found:
        return None
    return "; ".join(flows.refused.values()) or c._reason or "none was asked for"


def compared(name: str, way: str, **options) -> tuple[str | None, object]:
    """The reason for no graph, and the compiled function; AssertionError where results differ."""
    points = FUNCTIONS[name].points
    expected = called(EagerCalls(function(name, way)), points, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of effects, and of a lost graph
        c = tg.compile(function(name, way), **options)
        found = called(c, points)
    for k, (value, gradient) in enumerate(found):
        wanted, derivative = expected[k % len(points)]
        where = f"{name}, {way}, at {points[k % len(points)]}"
        np.testing.assert_allclose(value, wanted, rtol=1e-10, atol=1e-12, err_msg=where)
        np.testing.assert_allclose(gradient, derivative, rtol=1e-9, atol=1e-11, err_msg=where)
    return reason_of(c), c


class EagerCalls:
    """A function as called without compilation."""

    def __init__(self, f):
        self.value_and_grad = tg.value_and_grad(f)


def seconds(f, points) -> float:
    """The least time of a round of calls."""
    found = []
    for _ in range(5):
        begin = time.perf_counter()
        called(f, points, 1)
        found.append(time.perf_counter() - begin)
    return min(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--functions", nargs="*", default=[*FUNCTIONS])
    parser.add_argument("--ways", nargs="*", default=[*WAYS])
    parser.add_argument("--native", action="store_true")
    parser.add_argument("--time", action="store_true")
    given = parser.parse_args()
    options = {"native": True} if given.native else {}
    graphs, wrong, reasons = collections.Counter(), 0, {}
    for way in given.ways:
        for name in given.functions:
            try:
                reason, c = compared(name, way, **options)
            except AssertionError as error:
                print(f"WRONG {error}")
                wrong += 1
                continue
            graphs[way] += reason is None
            if reason is None:
                continue
            if given.time:
                points = FUNCTIONS[name].points
                times = seconds(c, points), seconds(EagerCalls(function(name, way)), points)
                reason += f" [{times[0] / times[1]:.2f} x eager]"
            reasons[name, way] = reason
        print(f"{way:15} {graphs[way]:3} of {len(given.functions)}", flush=True)
    for (name, way), reason in reasons.items():
        print(f"{name}, {way}: {reason}")
    total = len(given.ways) * len(given.functions)
    print(f"{graphs.total()} of {total} have a graph, {wrong} differ")
    return int(wrong > 0 or graphs.total() < 0.95 * total)


if __name__ == "__main__":
    sys.exit(main())
