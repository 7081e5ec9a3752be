"""Random programs that use data as objects of Python: keys, text, types, state, float errors."""

import random

import numpy as np

PRELUDE = """
import bisect, collections, functools, math, numbers, types
import numpy as np

STATE = {"calls": 0, "scale": 1.5}
HISTORY = [0.75]
MEMBERS = {1, 7}
BUFFER = np.array([0.0, 1.25])
CONFIG = types.SimpleNamespace(calls=0, rate=0.5)
SCALED = functools.partial(lambda v, by: v * by, by=2.0)
TABLE = {0: 0.5, 1: 2.0, 2: -1.0, 0.5: 3.0, "1": 4.0, True: 2.5}


@functools.lru_cache
def looked_up(key):
    return TABLE.get(key, 0.25)
"""
#: What is done to the state from outside between calls, by number.
CHANGES = (
    'STATE["scale"] = 2.5', "HISTORY[0] = -0.5", "MEMBERS.discard(7)", "BUFFER[1] = 0.25",
    "CONFIG.rate = 2.0", 'SCALED.keywords["by"] = 3.0', "STATE['other'] = 1.0",
)  # fmt: skip

#: Statements by kind: they read x (differentiated), d (integers), e (floats), t (a float), k (an
#: int), a and b (arrays, perhaps one) and names; s is a number that has grown so far.
STATEMENTS = {
    "keys": [
        "s = s + sum([v * TABLE.get(j, 0.25) for v, j in zip(x, d)])",
        "s = s + x[0] * TABLE.get(t, 0.25)",
        "s = s + x[0] * {d[0]: 2.0}.get(1, 3.0)",
        "s = s + x[0] * TABLE[d[0]]",
        "s = s + sum([v * looked_up(j) for v, j in zip(x, d)])",
        "s = s + x[1] * looked_up(k)",
        "pairs = dict(zip(d, x)); s = s + sum(pairs.values()) * len(pairs)",
        "s = s + x[0] * {(0, 1): 2.0, (1, 1): 3.0}.get((d[0], d[1]), 0.5)",
        "s = s + x[0] * {0.5: 2.0}.get(e[0], 0.25)",
    ],
    "recorded keys": [
        "s = s + {0.5: 5.0}.get(x[0], 0.5) * x[1]",
        "s = s + (x[0] if x[1] in {0.5, 1.0} else x[1] * 2.0)",
        "s = s + len({x[0], x[0] * 1.0}) * x[1]",
    ],
    "sets": [
        "have = set()\nfor v, j in zip(x, d):\n    s = s + (v * 3.0 if j in have else v)\n"
        "    have.add(j)",
        "s = s + x[0] * len(set(d))",
        "s = s + x[0] * len({*d, *[1, 2]})",
        "s = s + (x[0] if d[0] in {1, 2} else x[1] * x[1])",
        "s = s + (x[0] if t in (0.0, 0.5) else x[1] * 2.0)",
        "s = s + x[0] * len(frozenset(e))",
    ],
    "counting": [
        "s = s + x[0] * collections.Counter(d)[1]",
        "s = s + x[0] * collections.Counter(d.tolist()).most_common(1)[0][1]",
        "s = s + x[1] * list(d).count(1)",
        "s = s + x[1] * np.bincount(np.abs(d)).max()",
        "s = s + x[0] * bisect.bisect([0.0, 0.5, 1.0], t)",
    ],
    "groups": [
        "groups = {}\nfor v, j in zip(x, d):\n    groups[j] = groups.get(j, 0.0) + v * v\n"
        "s = s + sum([groups[j] * (i + 1) for i, j in enumerate(sorted(groups))])",
        "lists = collections.defaultdict(list)\nfor v, j in zip(x, d):\n    lists[j].append(v)\n"
        "s = s + sum([sum(one) / len(one) for one in lists.values()])",
        "s = s + sum([np.sum(x[d == j]) * (i + 1) for i, j in enumerate(np.unique(d))])",
        "s = s + max(zip(d, x))[1]",
        "order = sorted(range(len(d)), key=lambda i: (d[i], i)); s = s + x[order[0]] * 2.0",
    ],
    "text": [
        's = s + (x[0] if str(d[0]) == "1" else x[1] * 2.0)',
        's = s + x[0] * len(f"{t}")',
        's = s + x[0] * len(f"{t:.2f}")',
        's = s + x[0] * float("%.1f" % t)',
        's = s + x[0] * len("%d" % d[1])',
        "s = s + x[0] * len(repr(e[0]))",
        "s = s + x[0] * len(repr(t) + str(k))",
        's = s + x[1] * TABLE.get("{}".format(d[0]), 0.5)',
        's = s + x[0] * len(str(d))',
        's = s + x[0] * len(format(e[1], ".3e"))',
    ],
    "repeats": [
        "s = s + x[0] * len([0] * d[0])",
        's = s + x[0] * len("ab" * d[1])',
        "s = s + sum([v * len([0] * k) for v in x])",
        "s = s + x[0] * len((1, 2) * k)",
        "try:\n    s = s + x[0] * len((1, 2) * t)\nexcept TypeError:\n    s = s + x[1] * 7.0",
        "s = s + sum([x[i % 2] for i in range(d[0])])",
    ],
    "types": [
        "s = s + (x[0] if isinstance(d, np.ndarray) else x[1] * 3.0)",
        "s = s + (x[0] if isinstance(t, float) else x[1] * 3.0)",
        "s = s + (x[0] if type(t) is float else x[1] * 3.0)",
        "s = s + sum([v * 2.0 if np.isscalar(j) else v for v, j in zip(x, d)])",
        "s = s + (x[0] if isinstance(d[0], numbers.Integral) else x[1] * 3.0)",
        "s = s + (x[0] if isinstance(e[0], np.floating) else x[1] * 3.0)",
        "s = s + (x[0] if isinstance(k, bool) else x[1] * 3.0)",
        "s = s + (x[0] if isinstance(t, numbers.Real) else x[1] * 3.0)",
        "s = s + x[0] * len(type(d[0]).__name__)",
        "s = s + (x[0] if isinstance(e[0], float) else x[1] * 3.0)",
        "s = s + (x[0] if isinstance(t, (int, np.ndarray)) else x[1] * 3.0)",
        "s = s + (x[0] if callable(t) else x[1])",
    ],
    "float errors": [
        "s = s + x[0] * (1.0 / t)",
        "s = s + x[0] * (10.0 ** t)",
        "s = s + x[0] * abs(t ** 0.5)",
        "s = s + x[0] * round(t, 1)",
        "s = s + x[0] * round(t * 0.15, 2)",
        "s = s + x[0] * (2.0 // t)",
        "s = s + x[0] * (2.5 % t)",
        "s = s + x[0] * math.sqrt(t)",
        "s = s + x[0] * math.log(abs(t))",
        "s = s + x[0] * int(t)",
        "s = s + x[0] * divmod(3.7, t)[1]",
        "s = s + x[0] * (t * 1e200 * 1e200)",
        "s = s + x[0] * t ** -1",
        "s = s + x[0] * (t / (t - 0.5))",
        "s = s + x[0] * math.exp(t)",
        "try:\n    s = s + x[0] * (1.0 / t)\nexcept ZeroDivisionError:\n    s = s + x[1] * 7.0",
        "try:\n    s = s + x[0] * 10.0 ** t\nexcept OverflowError:\n    s = s + x[1] * 7.0",
        "try:\n    s = s + x[0] * math.sqrt(t)\nexcept ValueError:\n    s = s + x[1] * 7.0",
        "try:\n    s = s + x[0] * TABLE[k]\nexcept KeyError:\n    s = s + x[1] * 7.0",
        "try:\n    s = s + x[d[0]] * 2.0\nexcept IndexError:\n    s = s + x[1] * 7.0",
    ],
    "error state": [
        'with np.errstate(divide="raise"):\n    try:\n        s = s + x[0] * np.sum(1.0 / e)\n'
        "    except FloatingPointError:\n        s = s + x[1] * 7.0",
        'with np.errstate(all="raise"):\n    try:\n        s = s + np.log(x[0])\n'
        "    except FloatingPointError:\n        s = s + x[1] * 7.0",
        'with np.errstate(all="raise"):\n    try:\n        s = s + np.sum(np.sqrt(x)) * e[1]\n'
        "    except FloatingPointError:\n        s = s + x[1] * 7.0",
        'with np.errstate(all="ignore"):\n    s = s + x[0] * np.isfinite(1.0 / e).sum()',
    ],
    "names": [
        "for i, one in enumerate(names.values()):\n    s = s + x[0] * one * (i + 1.0)",
        "s = s + x[1] * len(list(names)[0])",
        'for name in names:\n    s = s + (x[0] * names[name] if name == "aa" else x[1])',
    ],
    "aliases": [
        "s = s + (x[0] if a is b else x[1] * 2.0)",
        "s = s + (x[0] if a is not b else x[1] * 2.0) * b[0]",
        "a[0] = 2.0; s = s + x[0] * b[0]",
        "s = s + x[0] * len({id(a), id(b)})",
        "s = s + x[0] * np.shares_memory(a, b)",
        "s = s + (x[0] if x is a else x[1] * 3.0)",
        "x[1] = a[0] * 0.5 + b[1]; s = s + np.sum(x * a[0])",
        "s = s + x[0] * [b, d, a].index(b) if a is b else s - x[1]",
    ],
    "state": [
        'STATE["calls"] += 1; s = s * STATE["scale"]',
        'STATE.setdefault("seen", []).append(1); s = s + x[0] * STATE["scale"]',
        "HISTORY.append(k); s = s + x[0] * HISTORY[0]",
        "MEMBERS.add(len(MEMBERS) + 10); s = s + (x[0] if 7 in MEMBERS else x[1] * 2.0)",
        "BUFFER[0] += 1.0; s = s + x[0] * BUFFER[1]",
        "CONFIG.calls += 1; s = s + x[0] * CONFIG.rate",
        "s = s + SCALED(x[0])",
        's = s + x[0] * len([one for one in STATE if one != "seen"])',
        's = s + x[1] * STATE.get("other", 0.5)',
        "s = s + x[0] * sum([1 for one in MEMBERS if one < 10])",
    ],
    "caught": [
        "try:\n    s = s + math.exp(x[0])\nexcept Exception:\n    s = s + 5.0",
        "try:\n    s = s + math.exp(x[0])\nexcept (TypeError, OverflowError):\n    s = s + 5.0",
        "try:\n    s = s + float(x[0]) * x[1]\nexcept TypeError:\n    s = s + 5.0",
        "try:\n    s = s + np.array([float(x[0])])[0]\nexcept Exception:\n    s = s + 5.0",
        "try:\n    s = s + math.sqrt(x[0] - 9.0)\nexcept ValueError:\n    s = s + x[1]",
    ],
    "branches": [
        "for v in x:\n    s = s + (v * v if v > 0.3 else v * 2.0)",
        "s = s * 2.0 if s > 1.0 else s - x[0]",
        "for v, j in zip(x, d):\n    if j > 0:\n        s = s + v * j\n    else:\n"
        "        s = s - v",
        "n = 0\nwhile n < 3 and s < 5.0:\n    s = s + x[n % 2] * x[n % 2] * t\n    n = n + 1",
    ],
}  # fmt: skip


def kinds(seed: int) -> list[str]:
    """The kinds of statements of a program, in order."""
    rng = random.Random(seed)
    found = [rng.choice([*STATEMENTS]) for _ in range(rng.choice([1, 1, 2, 3]))]
    return found + ["branches"] * (rng.random() < 0.3)


def source(seed: int) -> str:
    """The program: its state, and `f`."""
    rng = random.Random(seed + 0.5)
    lines = [line for kind in kinds(seed) for line in rng.choice(STATEMENTS[kind]).split("\n")]
    body = ["s = np.sum(x * x) * 0.5", *lines, "return s"]
    f = "\n".join(["def f(x, d, e, t, k, a, b, **names):", *["    " + line for line in body]])
    return f"{PRELUDE}\n\n{f}\n"


def arguments(seed: int, number: int) -> tuple[tuple, dict]:
    """Arguments of a call: number 0 is an ordinary one, others go to the ends."""
    rng = np.random.default_rng([seed, number])
    x = rng.choice([0.5, 0.25, 1.5, -0.75, 2.0], 3, replace=False) + 0.01 * number
    d = rng.integers(0, 3, 3) if number < 2 else rng.integers(-1, 5, 3)
    e = rng.choice([0.5, 1.0, 2.0, 0.1], 3) * (rng.random(3) < 0.8 if number else 1.0)
    t = float(rng.choice([0.5, 1.5, 2.675, 2.0] if number < 2 else [0.0, -2.0, 400.0, 0.35, 1e300]))
    k = [1, 2, True, 0][int(rng.integers(4))]
    a = rng.choice([0.5, 1.0], 3) if rng.random() < 0.8 else x
    b = a if rng.random() < 0.5 else a.copy()
    pairs = [("aa", 1.5), ("c", 0.5)][:: 1 if rng.random() < 0.5 else -1]
    return (x, d, e, t, k, a, b), dict(pairs)
