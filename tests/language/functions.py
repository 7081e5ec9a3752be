"""Functions: closures, defaults, decorators, recursion."""

import functools

FACTOR = 1.5


def closure(x):
    total = 0.0

    def add(value, factor=FACTOR):
        nonlocal total
        total = total + value * factor

    for value in x:
        add(value)
        if value > 1:
            add(value, 2)
    return total


def late_binding(x):
    functions = []
    for k in range(3):
        functions.append(lambda value: value * k)
    return functions[0](x[0]) + functions[1](x[1])


def late_default(x):
    functions = []
    for k in range(3):
        functions.append(lambda value, k=k: value * k)
    return functions[0](x[0]) + functions[1](x[1]) * functions[2](x[2])


def makers(x):
    def maker(k):
        return lambda value: value * k

    functions = [maker(k) for k in (2.0, 3.0)]
    return functions[0](x[0]) + functions[1](x[1])


def makers_apart(x):
    def maker(k):
        return lambda value: value * k

    a, b = maker(x[0]), maker(x[1])
    return a(x[2]) * b(x[3])


def mutable_default(x):
    def keep(value, kept=[]):  # noqa: B006
        kept.append(value)
        return kept[0] * len(kept)

    return keep(x[0]) + keep(x[1]) + keep(x[2])


def sum(iterable):
    found = 0.0
    for value in iterable:
        found = found + value
    return found * 2


def shadowed(x):
    return sum(x) + min(x[0], x[1])


def kept_closure_of_loop(x):
    total = 0.0
    f = None
    for value in x:

        def g(y, value=value):
            return y * value

        if f is None:
            f = g
        total += f(value) - g(x[0])
    return total


def spread(x):
    def f(a, *others, scale=2.0):
        return a * len(others) + others[1] * scale

    return f(*[x[0], x[1], x[2]]) + f(x[0], x[1], x[3], scale=x[2])


def try_nonlocal(x):
    n = 0

    def inc():
        nonlocal n
        n += 1
        return n

    return x[0] * inc() + x[1] * inc() + x[2] * n


def try_rec(x):
    def f(k):
        return x[0] if k == 0 else x[k] * f(k - 1)

    return f(3)


def try_kwonly(x):
    def f(a, b=2.0):
        return a * b

    return f(b=x[0], a=x[1]) + f(x[2])


def try_globalfn(x):
    return helper(x, k=2)


def helper(x, *, k):
    return x[0] * k


def try_decor(x):
    return wrapped(x[0])


def deco(f):
    @functools.wraps(f)
    def g(v):
        return f(v) * 2

    return g


@deco
def wrapped(v):
    return v * v


def try_loopdef(x):
    fs = None
    t = 0.0
    for k in range(3):

        def f(v):
            return v * k

        if k == 0:
            fs = f
        t += fs(x[k]) + f(x[0])
    return t
