"""Python's own means: swaps, counters, flags, closures, containers, early return."""

import tapegrad.math as math

from .cases import cases, numbers


def swap(a, b, x):
    for v in x:
        if v < a * b:
            a, b = b, a
        a = a + 0.1 * v * b
    return a - 2 * b


def history(a, b, x):
    h = [a, b]
    for i in range(2, len(x)):
        v = x[i] * h[i - 2] + 0.5 * h[-1]
        if v > 1:
            v = v / 2
        h.append(v)
    return h[-1] + b * h[3]


def scan(a, b, x):
    total = 0.0
    for v in x:
        w = a * v
        if w < -1.5:
            continue
        total = total + b * w
        if total > 3:
            break
        if w > 2.5:
            return total * w
    return total + a


def soft_clip(v, limit):
    if v > limit:
        return limit + math.log(1 + v - limit)
    if v < -limit:
        return -limit
    return v


def helper(a, b, x):
    total = a * b
    for v in x:
        total = total + soft_clip(a * v, 1.0)
        total = total - 0.5 * soft_clip(b * total, 2.0)
    return total


def closure(a, b, x):
    state = a

    def follow(v):
        nonlocal state
        if v > state:
            state = 0.9 * state + b * v
        else:
            state = 0.8 * state
        return v * state

    total = 0.0
    for v in x:
        total = total + follow(v)
    return total


def parity(a, b, x):
    total = 0.0
    for i in range(len(x)):
        if i % 3 == 1:
            total = total + a * x[i]
        elif x[i] > b:
            total = total * b
    return total


def count_outliers(a, b, x):
    """A counter of one arm decides in another."""
    total, count = 0.0, 0
    for i, v in enumerate(x):
        r = v - a
        if r > 1:
            count += 1
        if 3 * count > i + 4:
            total = total + b
        total = total + r * r
    return total


def last_outlier(a, b, x):
    total, found = 0.0, False
    for i in range(len(x)):
        r = a * x[i]
        if found:
            total = total + b * r
        found = bool(r > 1) and i > 0
    return total


class Box:
    def __init__(self):
        self.n = 0


def attribute(a, b, x):
    """The counter is an attribute of an object made here."""
    box, total = Box(), 0.0
    for v in x:
        r = a * v
        if r > 1.2:
            box.n += 1
        total = total + r * (b if box.n < 5 else a)
    return total


def by_names(a, b, x):
    """A dict whose entries are written in arms."""
    state = {"level": a, "trend": b}
    for v in x:
        if v > state["level"]:
            state["trend"] = 0.7 * state["trend"] + 0.3 * (v - state["level"])
        elif v < -1:
            state["low"] = state.get("low", 0) + 1
        state["level"] = state["level"] + 0.5 * state["trend"]
    return state["level"] * (1 + state.get("low", 0))


def recursion(a, b, depth=0):
    if depth == 6 or abs(a) < 0.05:
        return a * b
    if a > b:
        return recursion(0.5 * a, b, depth + 1) + b
    return recursion(0.4 * b, a, depth + 1) * 1.1


def conditions(a, b, x):
    total = a
    for i, v in enumerate(x):
        if -0.5 < v < b and (v > a or not total > 1):
            total += a * v
        elif v > 1.5 or (i % 2 and total < 0):
            total -= b if v > 2 else 0.5 * b
    return total


def rounding(a, b, x):
    """Integers made of values choose elements."""
    total, n = 0.0, len(x)
    for v in x:
        k = int(abs(a * v) * 2) % n
        total += b * x[k] + math.floor(v) * 0.1 * a
    return total + round(x[0].item(), 1) * a


def pairs(a, b, x, y):
    """zip, enumerate, slices with steps, unpacked tuples."""
    total, best = 0.0, (a, b)
    for (i, u), v in zip(enumerate(x[::-1]), y[::2]):
        first, second = best
        if u * first > v * second:
            best = second, first + 0.1 * u
        total += best[0] * (i + 1)
    return total + best[1]


def stack(a, b, x):
    """A work list: items are pushed and popped until none is left."""
    work, total, rounds = [a, b], a * b, 0
    while work and rounds < 25:
        v = work.pop()
        rounds += 1
        if abs(v) > 0.4:
            work.append(0.5 * v)
            if v > 0.8:
                work.append(v * x[rounds % len(x)] * 0.3)
        else:
            total = total + v
    return total


def nested_break(a, b, x):
    total = 0.0
    for i in range(len(x)):
        for j in range(len(x)):
            if a * x[i] + b * x[j] > 3:
                break
            if i == j or x[j] < -1:
                continue
            total += a * x[i] * x[j]
        else:
            total = total - b
        if total < -20:
            return total * a
    return total


def carried_functions(a, b, x):
    """Which function is called next depends on values."""

    def grow(v):
        return 1.1 * v + a

    def shrink(v):
        return 0.7 * v - b

    step, total = grow, 0.0
    for v in x:
        total = step(total) + 0.1 * v
        step = shrink if total > 1 else grow
    return total


def ties(a, b, x):
    """min and max of equal values, abs at 0: which side the derivative takes."""
    total = 0.0
    for v in x:
        w = a * (v if v > 0 else 0)
        total += max(w, 0.0) + min(w, b * 0) + abs(w) + max(a, b, a)
    return total


CASES = cases(
    (swap, numbers(2, 15)),
    (history, numbers(2, 15)),
    (scan, numbers(2, 12)),
    (helper, numbers(2, 12)),
    (closure, numbers(2, 15)),
    (parity, numbers(2, 15)),
    (count_outliers, numbers(2, 15)),
    (last_outlier, numbers(2, 15)),
    (attribute, numbers(2, 20)),
    (by_names, numbers(2, 12)),
    (recursion, numbers(2)),
    (conditions, numbers(2, 15)),
    (rounding, numbers(2, 8)),
    (pairs, numbers(2, 8, 16)),
    (stack, numbers(2, 5)),
    (nested_break, numbers(2, 6)),
    (carried_functions, numbers(2, 12)),
    (ties, numbers(2, 8)),
)
