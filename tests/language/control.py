"""Branches, loops, exceptions; variables that are None, or strings."""

import numpy as np


def loop(x):
    total = 0.0
    for value in x:
        total = total + value * value
    return total


def branches(x):
    total = 0.0
    for k in range(len(x)):
        if x[k] > 1:
            total += x[k] ** 2
        elif x[k] > 0:
            total -= x[k]
        else:
            total += np.sin(x[k]) * k
    return total


def while_with_break(x):
    y, rounds = x[0] * x[0] + 1, 0
    while True:
        y = y / 2 + 1 / y
        rounds += 1
        if abs(y * y - 2) < 1e-9 or rounds > 30:
            break
    return y * x[1] * rounds


def early_return(x):
    for k, value in enumerate(x):
        if value < 0:
            return value * k + x[0] ** 3
    return x[0]


def swap(x):
    a, b = x[0], x[1]
    for value in x:
        if value > 0:
            a, b = b, a * value
    return a * 2 + b


def none_until_found(x):
    best = None
    for value in x:
        if best is None or value < best:
            best = value
    return best * best


def chained(x):
    return sum([value * 2 if 0 < value < 1 else value**3 for value in x])


def walrus(x):
    total = 0.0
    for value in x:
        if (square := value * value) > 1:
            total += square
    return total


def deleted(x):
    y = x[0]
    z = y * 2
    del y
    if x[0] > 100:
        z = x[1]
    return x[2] * z


def try_try(x):
    try:
        y = x[0] / 0.0
    except ZeroDivisionError:
        y = x[1]
    return y * 2


def try_try2(x):
    d = {"a": x[0]}
    try:
        y = d["b"]
    except KeyError:
        y = x[1]
    return y * 2


def try_raise(x):
    if x[0] < 0:
        raise ValueError
    return x[0] * 2


def try_ternary(x):
    return (x[0] if x[1] > 0 else x[2]) * 3


def try_nest(x):
    t = 0.0
    for i in range(4):
        for j in range(i):
            if x[j] > x[i]:
                continue
            if j > 2:
                break
            t += x[i] * x[j]
        else:
            t += x[i]
    return t


def try_none2(x):
    p = None
    q = None
    for v in x:
        if v > 0:
            if p is None:
                p = v
            else:
                q = v
    return (p if p is not None else 1.0) * (q if q is not None else x[0])


def try_noneret(x):
    def find():
        for v in x:
            if v > 100:
                return v

    r = find()
    return x[0] if r is None else r


def try_while_else(x):
    k = 0
    while k < 3:
        if x[k] < -5:
            break
        k += 1
    else:
        return x[0] * k
    return x[1]


def try_strings(x):
    state, last = "up", "none"
    total = 0.0
    for value in x:
        if state == "up":
            total += value * 2
            state = "down" if value > 0.5 else "rest"
        elif state != "rest":
            total -= value * value
            last = state
            state = "up" if value < 0 else "down"
        elif last == "down" or state == "never":
            state = last
        else:
            total += value
            state = "up"
    return total + (x[0] if state == "up" else x[1] ** 2)


def try_string_truth(x):
    state = ""
    for value in x:
        if value > 0:
            state = "a"
    return x[0] if state else x[1]


def try_string_options(x):
    a, b = "p", "q"
    total = 0.0
    for value in x:
        if value > 0:
            a, b = b, a
        elif value < -1:
            b = "r"
        total += value * (1 if a == "p" else 2) * (3 if b == "q" else 5)
    return total
