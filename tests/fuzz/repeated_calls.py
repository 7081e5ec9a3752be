"""The same call again and again: neither memory nor the number of objects may grow.

`python tests/fuzz/repeated_calls.py 100000 [kind…]` makes so many calls of each kind, the slowest
of which take some milliseconds; the suite makes a few (test_hostile_calls.py). Half as many come
before: rows that are no longer used are freed when there are some 200 000 (of `jacobian`, those of
65 000 calls), and their memory is used again.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from hostile_calls import held

import tapegrad as tg

V = np.linspace(0.1, 1.2, 6)
W = V[::-1].copy()
#: What a run of calls may leave, however long it is: blocks of Python's memory, and bytes. Pools
#: and caches of a fixed size need a few thousand calls until they are full.
BLOCKS, BYTES = 8000, 24 << 20


def curve(x):
    return np.sum(np.sin(x) * x) + x[0] * x[1]


def number(a, b):
    return np.exp(a) * b + a / (1.0 + b * b)


def branching(x):
    total = 0.0
    for k in range(len(x)):
        total = total + (x[k] ** 2 if x[k] > 0.5 else 3.0 * x[k])
    return total


def backward():
    x = tg.tensor(V, requires_grad=True)
    curve(x).backward()
    return x.grad


def _native(f, *arguments):
    made = tg.compile(f, native=True)
    made.value_and_grad(*arguments)
    made.wait()
    return made


def _loaded():
    made = tg.compile(curve)
    made.value_and_grad(V)
    with tempfile.TemporaryDirectory() as folder:
        made.save(Path(folder) / "curve.tg")
        return tg.load(Path(folder) / "curve.tg")


def kinds():
    """Calls by name."""
    numbers, arrays, graph = tg.compile(number), tg.compile(curve), tg.compile(branching)
    in_native, graph_in_native = _native(curve, V), _native(branching, V)
    loaded, rows = _loaded(), np.tile(V, (3, 1))
    return {
        "grad": lambda: tg.grad(curve)(V),
        "value_and_grad": lambda: tg.value_and_grad(curve)(V),
        "grad of numbers": lambda: tg.grad(number)(0.3, 0.7),
        "backward": backward,
        "jacobian": lambda: tg.jacobian(lambda x: np.cumsum(x) * x)(V),
        "hessian": lambda: tg.hessian(curve)(V),
        "hvp": lambda: tg.hvp(curve)(V, W),
        "jvp": lambda: tg.jvp(curve, (V,), (W,)),
        "vjp": lambda: tg.vjp(curve, V)[1](1.0),
        "vmap": lambda: tg.vmap(tg.grad(curve))(rows),
        "compiled numbers": lambda: numbers.value_and_grad(0.3, 0.7),
        "compiled arrays": lambda: arrays.value_and_grad(V),
        "compiled value": lambda: arrays(V),
        "compiled hessian": lambda: arrays.hessian(V),
        "compiled map": lambda: arrays.map(rows),
        "graph": lambda: graph.value_and_grad(V),
        "graph, both branches": lambda: (graph.value_and_grad(V), graph.value_and_grad(W + 0.5)),
        "native": lambda: in_native.value_and_grad(V),
        "native graph": lambda: graph_in_native.value_and_grad(V),
        "loaded": lambda: loaded.value_and_grad(V),
        "compiled inside grad": lambda: tg.grad(lambda x: arrays(x) * 2.0)(V),
    }


def state():
    """Blocks of memory of Python, resident bytes, and what the store holds."""
    found = held()
    return {**found, "blocks": sys.getallocatedblocks()}


def growth(call, count):
    """What has grown in `count` calls, after half as many; "" if nothing has."""
    for _ in range(max(50, count // 2)):
        call()
    before = state()
    for _ in range(count):
        call()
    after = state()
    most = {"blocks": BLOCKS, "resident": BYTES, "rows": 8192, "inputs": 64, "chunks": 4}
    left = {name: after[name] - before[name] for name in most if after[name] > before[name]}
    wrong = {name: grown for name, grown in left.items() if grown > most[name]}
    return f"{wrong} more after {count} calls" if wrong else ""


def main(count, names=()):
    """Repeat each kind of call; returns what has grown."""
    calls, found = kinds(), []
    for name in names or calls:
        begin = time.perf_counter()
        grown = growth(calls[name], count)
        found += [f"{name}: {grown}"] if grown else []
        print(f"{name}: {grown or 'no growth'}, {time.perf_counter() - begin:.1f} s", flush=True)
    return found


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000, sys.argv[2:])))
