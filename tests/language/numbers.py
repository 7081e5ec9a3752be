"""Numbers and truths: arithmetic of Python, conversions, built-in functions."""

import numpy as np

SCALE = np.float64(2.0)
N64 = np.int64(3)
ZERO = np.array(2.5)


def built_in(x):
    total = min(x[0], x[1]) * max(x) + sum(x) + abs(x[1])
    for a, b in zip(x, x, strict=False):
        total += a * b
    return total + min(x, key=lambda value: value * value) + max([], default=x[2])


def integers(x):
    total, k = 0.0, 7
    for value in x:
        k = (3 * k + 1) % 11 if value > 0 else k // 2
        total += value * (k - 3)
    return total + k


def overflow(x):
    k = 1
    for _ in range(80):
        k = k * 3
    return x[0] * (k % 7)


def truths_counted(x):
    count = 0
    for value in x:
        count += value > 0
    return x[0] * count


def truths_added(x):
    return x[0] * ((x[0] > -9) + (x[1] > -9))


def rounded(x):
    return round(x[0], 1) * x[1]


def try_np(x):
    return x[0] * SCALE + x[1] ** N64 + ZERO * x[2]


def try_npdiv(x):
    return x[0] / (SCALE - 2.0)


def try_andor(x):
    y = x[0] and x[1]
    z = (x[0] > 0) or x[2]
    return y * 2 + (x[3] if z else 0.0)


def try_not(x):
    return x[0] * (not x[1] > 0)


def try_chain(x):
    return x[0] * (0 < x[0] < 1) + x[1] * (x[0] > x[1] > x[2])


def try_powf(x):
    h = 0.5
    s = 0.0
    for k in range(4):
        s += h**k * x[k]
        h = h * 0.9
    return s


def try_zdiv(x):
    h = 1.0
    for k in range(3):
        h = h - 0.5
    return x[0] / (h + 0.5)


def try_intdiv(x):
    s = 0.0
    for k in range(-3, 4):
        s += x[0] * (k // 2) + x[1] * (k % 3) + x[2] * (-k // 3)
    return s


def try_shift(x):
    s = 0.0
    for k in range(4):
        s += x[k] * (k << 1)
    return s


def try_isnum(x):
    k = 0
    for v in x:
        k = k + 1 if v > 0 else 0.5
    return x[0] * (k // 2)


def try_abs(x):
    return abs(-3) * x[0] + abs(x[1])


def try_maxint(x):
    return x[0] * max(1, 2.5) + x[1] * min(x[2], 0)


def try_power(x):
    return x[0] ** 2 + x[1] ** 3 + abs(x[2]) ** 0.5 + 2 ** x[3]


def try_int(x):
    return int(2.7) * x[0] + int(abs(x[1]) * 3) * x[2]


def try_floormod(x):
    return x[0] // 0.3 * x[1] + x[1] % 0.7


def try_bool2(x):
    f = False
    for v in x:
        f = f or v > 2
        f |= v < -1
    return x[0] if f else x[1]


def try_xor(x):
    f = False
    for v in x:
        f = f ^ (v > 0)
    return x[0] if f else x[1]


def try_negb(x):
    return x[0] * -(x[1] > 0)


def try_invb(x):
    return x[0] * (~(x[1] > 0))


def try_invb2(x):
    f = True
    for v in x:
        f = f and v > -10
    return x[0] * ~f


def try_sumbool(x):
    return sum([v > 0 for v in x]) * x[0]


def try_float(x):
    return float(x[0]) * 2


def try_float2(x):
    one = [x[0]]
    return float(one[0]) * x[1]
