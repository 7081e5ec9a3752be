"""Lists, tuples, dicts, sets, and what refers to them."""

import collections

QUEUE = collections.deque([1, 2])
FLAGS = (1, 2, 3)


def comprehension(x):
    chosen = [value * 3 for value in x if value > 0]
    total = 0.0
    for value in chosen:
        total += value * value
    return total + len(chosen)


def comprehensions_beside_variables(x):
    """Comprehensions take names that are bound before them, or unbound."""
    v = x[1]
    total = sum([v * v for v in x])
    for k in range(2):
        total = total + k * sum([u * k for u in x if u > 0])
    u = 3.0
    values = [[u * v for u in (1.0, 2.0)] for v in x]
    total = total + u + values[2][1] + len([k for k in values])
    return total + v if x[0] > 0 else total + 2 * u


def kept_by_comprehensions(x):
    """A variable that a comprehension takes is what it was, in each round of a loop."""
    found, w = [], x[1]
    for k in range(3):
        found.append(sum([k * w for w in x]))
        if k == 1:
            w = x[0]
    return found[0] + found[1] * found[2] + w


def stack(x):
    waiting, total = [x[0]], 0.0
    for value in x:
        waiting.append(value * 2)
        if value > 1:
            total += waiting.pop() * waiting.pop()
    for value in waiting:
        total += value
    return total


def table(x):
    rows = [[0.0] * 5 for _ in range(4)]
    for i in range(1, 4):
        for j in range(1, 5):
            rows[i][j] = max(rows[i - 1][j], rows[i][j - 1]) + x[i] * x[j - 1]
    return rows[3][4]


def dictionary(x):
    found = {"low": 0.0, "high": x[0]}
    for value in x:
        if value < 0:
            found["low"] += value * value
        else:
            found["high"] = value
    return found["low"] * found["high"]


def one_list_two_names(x):
    a = b = [x[0]]
    for value in x:
        if value > 0:
            a.append(value)
        else:
            b.append(value * value)
    total = 0.0
    for value in b:
        total = total * 2 + value
    return total


def list_in_a_list(x):
    inner = [x[0], x[1]]
    outer = [inner, inner]
    inner[0] = x[2]
    outer[1][1] += x[3]
    return outer[0][0] * outer[0][1] + inner[1]


def list_in_a_tuple(x):
    pair = ([x[0]], x[1])
    pair[0].append(x[2])
    return pair[0][1] * pair[1]


def older_list_kept(x):
    older, newer = [x[0]], [x[1]]
    for value in x:
        older, newer = newer, [value, value]
        newer[0] = value * 3
    return older[0] * newer[0] + older[1]


def negative_indices(x):
    values, total = [x[0], x[1], x[2]], 0.0
    for k in range(-3, 3):
        total += values[k] * x[k] * k
    return total


def augmented(x):
    values, y = [x[0], x[1]], x * 1.0
    k = 0
    for value in x:
        values[k % 2] += value
        y[k] -= values[k % 2]
        k += 1
    return values[0] * values[1] + (y * y).sum()


def added_lists(x):
    a = [x[0]]
    b = a
    a += [x[1]]
    c = a + [x[2]]
    a.append(x[3])
    return b[1] * b[2] + c[2] * len(c) + len(b)


def try_deque(x):
    return x[0] * len(QUEUE)


def try_deque2(x):
    return x[0] if QUEUE else x[1]


def try_flags(x):
    return sum([x[k] for k in FLAGS])


def try_tuple(x):
    t = (x[0], x[1])
    u = t
    t += (x[2],)
    return u[1] * t[2] * len(t)


def try_tupidx(x):
    t = (x[0], x[1], x[2])
    s = 0.0
    for k in range(-3, 3):
        s += t[k] * k
    return s


def try_fstr(x):
    d = {}
    for k in range(3):
        d[f"k{k}"] = x[k]
    return d["k1"] * d["k2"]


def try_star(x):
    a, *b = [x[0], x[1], x[2]]
    return a * b[1]


def try_set_(x):
    return x[0] * len({1, 2})


def try_mul(x):
    v = [0.0] * 3
    w = v
    w[1] = x[0]
    u = [x[1]] * 2
    u[0] = x[2]
    return v[1] * u[0] * u[1]


def try_lol(x):
    r = [[0.0] * 3] * 3
    r[0][1] = x[0]
    return r[2][1] * x[1]


def try_bigloop(x):
    out = []
    for k in range(50):
        out.append([x[k % 4], k])
    out[3][0] = x[1] * 5
    c = out[7]
    c[1] = 3
    return out[3][0] * out[7][1]


def try_alias_arena(x):
    out = []
    for k in range(10):
        out.append([x[k % 4]])
    a = out[2]
    out[2] = [x[0] * 9]
    a.append(x[1])
    out[3] = a
    out[3][0] = x[3] * x[2]
    return out[2][0] * a[0] * a[1] + out[3][0] * len(out[3])


def try_popgrow(x):
    s = [x[0]]
    n = 0
    while s and n < 40:
        v = s.pop()
        n += 1
        if v < 3.0 and len(s) < 10:
            s.append(v + 1.0)
            s.append(v * 1.5 + 0.5)
    t = 0.0
    for v in s:
        t += v
    return t + n * x[1]


def try_copy(x):
    a = [x[0], x[1]]
    b = a[:]
    c = list(a)
    d = a.copy()
    a[0] = x[2]
    return b[0] * c[0] * d[0] * a[0]


def try_strin(x):
    return x[0] if "a" in "abc" else x[1]


def try_in(x):
    s = 0.0
    for k in range(5):
        if k in (1, 3):
            s += x[k % 4]
    return s


def try_dictloop(x):
    d = {"a": x[0], "b": x[1]}
    for k in d:
        d[k] = d[k] * 2
    return d["a"] * d["b"]


def try_dictnum(x):
    d = {}
    for k in range(4):
        d[k] = x[k]
    return d[0] * d[3]


def try_dictget(x):
    d = {"a": x[0]}
    return d.get("a", 0.0) * d.get("b", x[1])


def try_del(x):
    a = [x[0], x[1]]
    del a[0]
    return a[0]


def try_insert(x):
    a = [x[0]]
    a.insert(0, x[1])
    a.extend([x[2], x[3]])
    b = [*a, x[0]]
    return a[0] * a[3] + b[1] * b[4]


def try_consts(x):
    w = [1.0, 2.0, 3.0, 4.0]
    s = 0.0
    for a, b in zip(w, x):
        s += a * b
    w[0] = x[1]
    return s * w[0]
