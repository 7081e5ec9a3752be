"""Iterators and generators, and what is written while they run."""


def generator(x):
    def squares(scale):
        for value in x:
            if value > 0:
                yield value * value * scale

    return sum(squares(x[1])) + sum(value * 2 for value in x if value < 0)


def ranges_again(x):
    places, total = range(len(x)), 0.0
    for i in places:
        for j in places:
            total += x[i] * x[j] * (i - j)
    for i in places:
        total += x[i] * i
    return total


def two_generators(x):
    def climb(start):
        y = start
        for value in x:
            y = y + value
            yield y

    total = 0.0
    first = climb(x[0])
    second = climb(x[1] * 2)
    for a in first:
        total += a
        for b in second:
            total += b * a
            break
    return total


def shared_iterator(x):
    values, total = iter([x[0], x[1], x[2], x[3]]), 0.0
    for a, b in zip(values, values, strict=False):
        total += a * b * b
    return total


def items_while_written(x):
    found, total = {"a": x[0], "b": x[1]}, 0.0
    for _, value in found.items():
        found["b"] = value * 2
        total += value
    return total


def list_while_written(x):
    values, total = [x[0], x[1], x[2]], 0.0
    for k, value in enumerate(values):
        if k < 2:
            values[k + 1] = value * 2
        total += value
    return total


def reversed_while_written(x):
    values, total = [x[0], x[1], x[2]], 0.0
    for value in reversed(values):
        values[0] = x[3]
        total += value * value
    return total


def array_while_written(x):
    y, total = x * 1.0, 0.0
    for k, value in enumerate(y):
        if k < 2:
            y[k + 1] = value * 2
        total += value
    return total


def zipped_iterator_goes_on(x):
    values = iter([x[0], x[1], x[2]])
    total = 0.0
    for a, b in zip(values, [x[3]], strict=False):
        total += a * b
    for value in values:
        total += value * value
    return total


def iterator_twice(x):
    pairs = zip(x, x, strict=False)
    total = 0.0
    for a, b in pairs:
        total += a * b
    for a, b in pairs:
        total += 100 * a * b
    return total


def generator_twice(x):
    doubles, total = (value * 2 for value in x), 0.0
    for value in doubles:
        total += value * value
    for value in doubles:
        total += 100 * value
    return total


def kept_range_iterator(x):
    places, total = iter(range(4)), 0.0
    for i in places:
        total += x[i]
        for j in places:
            total += x[j] * 3
            break
    return total


def try_gen2(x):
    def g():
        s = 0.0
        for v in x:
            s += v
            yield s

    a = g()
    t = 0.0
    for p, q in zip(a, x):
        t += p * q
    for p in a:
        t += p
    return t


def try_genclos(x):
    k = 2.0
    g = (v * k for v in x)
    k = 3.0
    return total_of(g)


def total_of(it):
    t = 0.0
    for v in it:
        t = t + v
    return t


def try_genfree(x):
    def mk():
        sc = x[0] * 2
        return (sc * v for v in x)

    return total_of(mk())


def try_map(x):
    return total_of(map(lambda v: v * v, x))


def try_2it(x):
    it = iter(x)
    t = 0.0
    for v in it:
        t += v
        for w in it:
            t += 2 * w
            break
    return t


def try_enumiter(x):
    it = iter([x[0], x[1], x[2]])
    t = 0.0
    for k, v in enumerate(it):
        t += k * v
    for v in it:
        t += v
    return t
