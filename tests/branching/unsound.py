"""Functions whose ways depend on more than recorded values: computed right, or refused."""

import random

import tapegrad as tg


class Tank:
    """An object with hidden state."""

    def __init__(self):
        self.level, self.drops = 0, {}

    def add(self, v):
        self.level += 1
        self.drops[self.level] = v
        return self.level > 3


def hidden_counter(a, b, x):
    tank, total = Tank(), 0.0
    for v in x:
        if a * v > 0 and tank.add(v):
            total = total + b
        total = total + a * v
    return total


def caught(a, b, x):
    """Errors of indices that values choose."""
    total = 0.0
    for v in x:
        try:
            total = total + a * x[int(abs(v * a) * 4)]
        except IndexError:
            total = total - b
    return total


def finally_counted(a, b, x):
    total, rounds = 0.0, 0
    for v in x:
        try:
            if v > b:
                continue
            total = total + a * v
        finally:
            rounds += 1
    return total * rounds


def by_type(a, b, x):
    total = 0
    for v in x:
        if isinstance(total, tg.Tensor):
            total = total * 0.9
        if v > b:
            total = total + a * v
    return total + 0.0 * a


def by_identity(a, b, x):
    best, total = a, 0.0
    for v in x:
        w = a * v
        if w > best:
            best = w
        total = total + (b if best is w else w)
    return total + (a if id(best) == id(a) else 0.0)


def by_order(a, b, x):
    """The order in which keys were written."""
    found = {}
    for i, v in enumerate(x):
        if v > 0:
            found[i] = a * v
    for i, v in enumerate(x):
        if v <= 0:
            found[i] = b * v
    return sum((k + 1) * v for k, v in enumerate(found.values()))


def plain_return(a, b, x):
    """Left early by data that are not differentiated."""
    total = 0.0
    for v in x:
        if v > 1.5:
            return total
        total = total + a * v * b
    return total * a


def seeded(a, b, x):
    draws = random.Random(len(x))
    return sum(a * v if draws.random() < 0.5 else b * v * v for v in x)


def iterator(a, b, x):
    """An iterator that two loops share."""
    values, total = iter(x), 0.0
    for v in values:
        if v > b:
            total = total + a * next(values, 0.5)
        else:
            total = total + v * b
    return total


def sets(a, b, x):
    seen, total = set(), 0.0
    for v in x:
        sign = v > 0, v > a
        if sign in seen:
            total = total + a * v
        seen.add(sign)
    return total + b * len(seen)


def aliased(a, b, x):
    """Two names of one list."""
    first = [a, b]
    second = first
    for v in x:
        if v > 0:
            second[0] = second[0] * 0.5 + v
        else:
            second = list(first)
        first[1] = first[1] + second[0]
    return first[0] + first[1] * second[1]


FUNCTIONS = [
    hidden_counter, caught, finally_counted, by_type, by_identity, by_order, plain_return, seeded,
    iterator, sets, aliased,
]  # fmt: skip
