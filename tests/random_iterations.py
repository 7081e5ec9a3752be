"""Random loops over arrays, written as text: states, data of each iteration, writes in place."""

import random

import numpy as np

import tapegrad.numpy as stand_in

#: By name of an operation what it assigns to a new array, given two earlier ones.
_ASSIGNED = {
    "add": "{a} + 0.5 * {b}",
    "product": "{a} * {b} * 0.3",
    "function": "np.sin({a})",
    "shift": "np.roll({a}, 2, 0)",
    "data": "{a} * 0.5 + data[i]",
    "number": "{a} * numbers[i] * 0.1",
    "choice": "np.where(masks[i], {a}, 0.5 * {b})",
    "matrix": "weights @ {a}",
    "join": "np.concatenate([{a}[1:], {b}[:1]])",
    "edge": "np.pad({a}, [(1, 1)] + [(0, 0)] * ({a}.ndim - 1))[:-2]",
    "constant": "{a} + constant",
    "maximum": "np.maximum({a}, 0.1 * {b})",
    "sum": "{a} - np.sum({b}, 0) * 0.1",
    "rows": "{a}[places]",
    "invariant": "{a} * np.exp(-x[0])",
    "ones": "-(-{a}) * np.ones(shape)",
    "running": "np.cumsum({a}, 0) * 0.3",
    "stack": "np.stack([{a}, {b}]).sum(0) * 0.4",
    "power": "{a} * np.abs({b}) ** 1.5 * 0.1",
}
#: The same of statements.
_WRITTEN = {
    "filled": ["{t} = np.zeros(shape)", "{t}[1:] = {a}[1:] * 0.9", "{t}[0] = {b}[0]"],
    "set": ["{t} = {a} * 1.0", "{t}[0] = {b}[-1] * numbers[i] * 0.1 + {t}[0]"],
    "element": ["v = v * 0.9 + {a}.reshape(-1)[0] * 0.1", "{t} = {a} * 0.5 + v"],
    "cell": ["{t} = {a} * 1.0", "{t}.reshape(-1)[0] = v * numbers[i]", "v = v * 0.5 + numbers[i]"],
    "before": ["{t} = 0.5 * s0 - 0.3 * old", "old = s0 * 1.0"],
    "added": ["{t} = {a} * 1.0", "{t}[1:] += 0.1 * {b}[:-1]"],
    "kept": ["kept[1:] = 0.5 * kept[1:] + 0.1 * {a}[:-1]", "{t} = {b} + kept"],
    "scattered": ["{t} = {a} * 1.0", "{t}[places] = 0.5 * {b}"],
}
_ENDS = [
    "np.sum(s0)",
    "np.sum(s0 * s0) + v",
    "np.sum(np.sin(s0)) + np.sum(kept)",
    "np.sum(old * s0)",
]
_HISTORIES = ["history[-1]", "np.sum(np.stack(history))", "history[3]", "sum(history)"]


def loop(seed):
    """Return a function of one array, its text, and an argument."""
    choose, rng = random.Random(seed), np.random.default_rng(seed)
    n, times = choose.choice([2, 5, 9, 12, 40]), choose.choice([30, 41, 60, 100])
    shape = choose.choice([(n,), (n,), (n, choose.choice([1, 2, 4]))])
    numbers = rng.standard_normal(times)
    given = {
        "np": stand_in,
        "times": times,
        "shape": shape,
        "data": rng.standard_normal((times, *shape)),
        "masks": rng.random((times, *shape)) > choose.choice([0.0, 0.3, 0.9]),
        "numbers": np.round(numbers) if choose.random() < 0.3 else numbers,
        "weights": 0.3 * rng.standard_normal((n, n)),
        "constant": rng.standard_normal(shape),
        "places": rng.permutation(n),
    }
    text = _text(choose, times)
    exec(text, given)
    return given["f"], text, 0.5 * rng.standard_normal(shape)


def _text(choose, times):
    states = [f"s{k}" for k in range(choose.randint(1, 3))]
    body = _body(choose, states)
    end = "loss + " + choose.choice(_ENDS)
    arrays = states + [f"t{k}" for k in range(len(body) // 8)]
    if choose.random() < 0.3:
        body.append(f"loss = loss + np.sum({choose.choice(states)} * {choose.choice(arrays)})")
    if choose.random() < 0.2:
        body.append(f"history.append(np.sum({choose.choice(states)}))")
        end += " + " + choose.choice(_HISTORIES)
    if choose.random() < 0.1:
        body.append(f"if i == {choose.randint(0, times)}: s0 = s0 * 2.0")
    if choose.random() < 0.1:
        body.append("if s0.reshape(-1)[0] > 5.0: s0 = s0 * 0.1")
    lines = ["s0 = x * 1.0", *[f"{name} = np.cos(x) * 0.{name[1]}5" for name in states[1:]]]
    lines += ["old, kept, v, loss, history = 0.0 * x, x * 0.5, 0.0, 0.0, []"]
    lines += ["for i in range(times):", *[f"    {line}" for line in body], f"return {end}"]
    return "def f(x):\n" + "".join(f"    {line}\n" for line in lines)


def _body(choose, states):
    """The statements of an iteration."""
    arrays, body = [*states], []
    for k in range(choose.randint(2, 7)):
        name = choose.choice([*_ASSIGNED, *_WRITTEN])
        names = {"a": choose.choice(arrays), "b": choose.choice(arrays), "t": f"t{k}"}
        lines = _WRITTEN[name] if name in _WRITTEN else ["{t} = " + _ASSIGNED[name]]
        body += [line.format(**names) for line in lines]
        arrays.append(f"t{k}")
    body += [f"{s} = 0.7 * np.tanh({choose.choice(arrays)}) + 0.2 * {s}" for s in states]
    return body
