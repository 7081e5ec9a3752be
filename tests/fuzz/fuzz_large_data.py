"""Random functions that read large arrays from outside, which change in place between calls.

`python fuzz_large_data.py --seed 5 --count 1` runs the function of seed 5. Values and gradients of
the compiled function are those of the function itself, after each change. Half of the programs
read some of the arrays where they lie. A finding is printed as a script. The exit status is 1
where there are any.
"""

import collections
import re
import sys
import warnings

import numpy as np
import seed_runs

import tapegrad as tg

ROWS = 17_000
BATCH = 50
#: How data may be reached: vectors.
DATA = ("y", "v", "z", "model.y", "state['y']", "items[0]", "items[1]", "pair.a")
DATA += ("x[:, 0]", "x[:, 1]", "y[::-1]", "-y", "(2.0 * y)", "(y - 0.5)", "np.log(np.abs(y) + 1.0)")
#: What is done with the residual r, the weights w and data d.
STATEMENTS = """
r = r - d
r = r + d * w[0]
r = d * r
r = r / (1.0 + d * d)
r += d
r = r * 1.0 | r *= d
r = np.maximum(r, d) + np.minimum(r, 0.5 * d)
r = np.where(r > 0.0, d, r)
r = r + np.where(d > 0.0, w[0], w[1])
r = r * float(d[3])
r = r + d.mean()
r = r * np.sign(d) + d.copy()
r = r + d[np.argsort(d)] * 0.1
r = r[::-1] + d[::-1]
r = r.reshape(2, -1) + d.reshape(2, -1) | r = r.ravel()
r = x @ (x.T @ r) / 17000.0
r = np.tensordot(x, w, 1) + r
r = np.einsum('ij,j->i', x, w) - r * 0.5
r = r + x[:, 1:] @ w[1:] - w[0] * x[:, 0]
r = r + np.sum((x - w) ** 2, 1)
r = r + x[3] @ w + x[4, 1] * w[1]
for i in range(3): |     r = r + x[i] @ w
for a, b in ((y, 1.0), (d, 2.0)): |     r = r + a * (w[0] * b)
for k, a in enumerate(items): |     r = r + a * w[k % 3]
for a, b in zip(items, (0.5, 1.5)): |     r = r * b - a
u = zip((d,), (w[0],)) | for a, b in u: |     r = r + a * b | for a, b in u: |     r = r + a[0]
a, b = pair | r = r - a + b * w[1]
t = (d, w) | r = r + t[0] * t[1][0]
t = d if model.flag else y | r = r + t
t = -d | r = r + t * w[0] + t
if model.flag: |     r = r + d * w[0] | else: |     r = r * np.mean(d)
if d[0] > 0.5: |     r = r * w[0]
if np.sum(r) > 0.0: |     r = r + d
i = int(abs(d[0]) * 10.0) % 3 | r = r + w[i]
r = model.residual(r, scale=2.0)
r = model.mixed(r)
r = r + model.level * w[0] + model[0] * w[1] + model * w[2]
model.calls += 1 | r = r + float(model.calls > 0) * d
state['n'] += 1 | r = r + state['y'] * w[2]
state['last'] = d | r = r + state['last'] * w[1]
seen.append(d) | r = r - items[0] * w[0]
r = part(r) + first(r, d) + first(q=d, r=r)
r = (lambda u: u * y)(r)
""".strip().splitlines()
AROUND = """
class Model:
    def __init__(self):
        self.y, self.flag, self.calls = y, flag, 0

    def residual(self, r, scale=1.0):
        return r * scale - self.y

    def mixed(self, r):
        t = self.y * 2.0
        return r + t if self.flag else r * np.mean(self.y)

    @property
    def level(self):
        return self.y[3]

    def __getitem__(self, k):
        return self.y[k]

    def __mul__(self, other):
        return self.y[5] * other


def first(r, q):
    return r * 0.5 + q


part = functools.partial(first, q=v)
model, seen, state = Model(), [], {"y": y, "n": 0}
items, pair = [y, v], collections.namedtuple("Pair", "a b")(y, v)

"""
SETUP = """
import collections
import functools

import numpy as np

rng = np.random.default_rng({seed})
whole, flag = rng.normal(size=({rows}, 4)), bool(rng.random() < 0.7)
x = whole[:, :3] if rng.random() < 0.5 else np.array(whole[:, :3], order="CF"[rng.integers(2)])
y = rng.normal(size={rows})
v = whole[:, 3] if rng.random() < 0.5 else y[::-1]
z = -y if rng.random() < 0.5 else rng.normal(size={rows})
"""
#: What the user does between calls.
CHANGES = (
    "x[rng.integers(0, len(x), 100)] *= -1.2",
    "y[rng.integers(0, len(y), 9000)] *= -1.2",
    "v[:5] += 1.0",
    "z[...] = -y",
    "x[:4] *= 0.5; y[:5] *= -1.1",
    "model.flag = not model.flag",
    "y = y.copy()",
)


def source(seed: int) -> str:
    """The text of a function, and of the data around it."""
    rng, lines = np.random.default_rng([seed, 1]), ["r = x @ w"]
    for _ in range(rng.integers(1, 7)):
        data, text = DATA[rng.integers(len(DATA))], STATEMENTS[rng.integers(len(STATEMENTS))]
        lines += re.sub(r"\bd\b", data, text).split(" | ")
    end = ("np.sum(np.tanh(r))", "np.sum(r * r) / 17000.0")[rng.integers(2)]
    body = "".join([f"    {line}\n" for line in (*lines, f"return {end}")])
    return f"{SETUP.format(seed=seed, rows=ROWS)}{AROUND}\ndef f(w):\n{body}"


def checked(seed: int, native: bool) -> tuple[int, str | None]:
    """The number of arrays that a program reads where they lie, and what is wrong."""
    names: dict = {"__name__": f"outside_{seed}"}
    exec(source(seed), names)
    f, rng = names["f"], np.random.default_rng([seed, 2])
    c, w, held = tg.compile(f, native=native or None), rng.normal(size=3), 0
    for k in range(6):
        with np.errstate(all="ignore"):
            expected, found = tg.value_and_grad(f)(w), c.value_and_grad(w)
            c.wait()
        for a, b in zip(found, expected, strict=True):
            most = 1e-6 * np.max(np.abs(b), initial=1e-3)
            if not np.allclose(a, b, rtol=1e-6, atol=most, equal_nan=True):
                return held, f"call {k}: {a}, and the function {b}"
        for family in c._families.found.values():
            held = max([held, *[len(one.program.code.held) for one in family.found]])
        w = w * (-1.0 if k == 2 else 1.1)
        exec(CHANGES[rng.integers(len(CHANGES))], names)
    return held, None


def batch(first: int, count: int, native: frozenset):
    """Check some seeds: counts, and (seed, what is wrong, script)."""
    counts: collections.Counter = collections.Counter()
    wrong = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for seed in range(first, first + count):
            try:
                held, text = checked(seed, seed in native)
            except Exception as error:  # of any kind
                held, text = 0, repr(error)
            counts[f"programs that read {held} arrays where they lie"] += 1
            if text is not None:
                wrong.append((seed, text, source(seed)))
    return counts, wrong


def main() -> int:
    """Check the seeds that the options say."""
    given = seed_runs.parser(__doc__, "in native code").parse_args()
    native = seed_runs.first_seeds(given, given.native)
    return seed_runs.run(given, "data", batch, native, size=BATCH)


if __name__ == "__main__":
    sys.exit(main())
