"""Numbers that are of one of Python's types on one branch and of another on others."""

import math

import numpy as np
import pytest
from assumed import needs
from count_graphs import EagerCalls, called, reason_of

import tapegrad as tg

pytestmark = needs("numba-reader")
POINTS = [[0.5, -0.3, 2.0], [-1.5, 0.3, 0.2], [2.5, -3.0, -0.1], [-0.5, -0.3, -0.1]]
TRUTHS, ZEROS, LARGE, WEIGHTS = [1, True], [0, 0.0], [2**53 + 1, 0.5], [1, 2.5, 3]
MANY_ZEROS, MANY_LARGE = ZEROS * 60, LARGE * 60


def truth_as_index(x):
    t = True if x[0] > 1 else 1
    return weighted(x, np.sum(x[t]))


def truth_of_a_list(x):
    t = TRUTHS[int(x[0] > 1)]
    return weighted(x, np.sum(x[t]))


def sign_of_zero(x):
    t = 0 if x[0] > 1 else 0.0
    return weighted(x, math.atan2(-t, -1.0))


def sign_by_copysign(x):
    t = 0 if x[0] > 1 else 0.0
    return weighted(x, np.copysign(1.0, -1 * t))


def sign_of_another_number(x):
    t = 0 if x[0] > 1 else 0.5
    return weighted(x, math.atan2(-t, -1.0))


def sign_after_abs(x):
    t = abs(0 if x[0] > 1 else 0.0)
    return weighted(x, math.atan2(-t, -1.0))


def sign_of_an_item(x):
    return weighted(x, math.atan2(-ZEROS[int(x[0] < 1)], -1.0))


def sign_of_an_item_of_many(x):
    return weighted(x, math.atan2(-MANY_ZEROS[int(x[0] < 1)], -1.0))


def sign_of_an_item_made(x):
    made = []
    for v in x:
        made.append(0 if v > 0 else 0.0)
    total = 0.0
    for t in made:
        total = total + x[0] * math.atan2(-t, -1.0)
    return total


def large_item(x):
    return weighted(x, LARGE[int(x[0] < 1)] % 2)


def large_item_of_many(x):
    return weighted(x, MANY_LARGE[int(x[0] < 1)] % 2)


def large_product(x):
    t = 1 if x[0] > 1 else 1.0
    return weighted(x, (t * (2**53 + 1)) % 2)


def large_computed(x):
    n = 2**53 + int(abs(x[0]))
    t = n + 1 if x[0] > 1 else 0.5
    return weighted(x, t - 2**53)


def array_of_integers(x):
    made = np.full(3, 1 if x[0] > 1 else 2.5)
    made[0] = 0.7
    return np.sum(x * made) if x[1] > 0 else x[0] * made[0]


def array_of_items(x):
    made = np.array([1 if x[0] > 1 else 2.5, 1])
    made[0] = 0.7
    return x[2] * made[0] if x[1] > 0 else x[0] * made[0]


def sum_of_a_list(x):
    found = WEIGHTS if x[0] > 0 else MANY_LARGE
    return weighted(x, sum(found) % 2 + found[0] * found[1])


def weighted(x, weight):
    total = 0.0
    for v in x:
        if v > 0:
            total = total + weight * v
    return total


def sum_from_0(x):
    s = 0
    for v in x:
        if v > 0:
            s = s + v * v
    return s


def negative_of_a_sum(x):
    s = 0
    for v in x:
        if v > 0:
            s -= v * v
    return -s * 2 + x[0]


def largest_from_0(x):
    best = 0
    for v in x:
        if v > best:
            best = v
    return best * best + 2 * best + x[0]


def truth_from_0(x):
    found, s = 0, 0
    for v in x:
        if v > 0 and not found:
            found, s = True, v * 3
    return s + x[0]


def several_from_0(x):
    s = n = low = 0
    for v in x:
        d = v - 1
        s += d if d > 0 else 0
        if v < low:
            low, n = v, n + 1
    return max(s, 0) + abs(s) + low * low + n * low + x[0]


def items_of_both_types(x):
    k = int(abs(x[0]))
    return x[0] * WEIGHTS[k] + x[1] if x[0] > 0 else x[1] * WEIGHTS[k]


def products_of_items(x):
    made = []
    for k in range(20):
        made.append([x[k % 3], k + 1])
    if x[0] > 1:
        return made[7][1] * made[4][0]
    return made[7][1] * made[4][0] + made[0][0] * made[1][0] + made[2][1] * made[3][1]


DIFFERENT = [
    truth_as_index,
    truth_of_a_list,
    sign_of_zero,
    sign_by_copysign,
    sign_of_another_number,
    sign_after_abs,
    sign_of_an_item,
    sign_of_an_item_of_many,
    sign_of_an_item_made,
    large_item,
    large_item_of_many,
    large_product,
    large_computed,
    array_of_integers,
    array_of_items,
    sum_of_a_list,
]
COMMON = [
    sum_from_0,
    negative_of_a_sum,
    largest_from_0,
    truth_from_0,
    several_from_0,
    items_of_both_types,
    products_of_items,
]


@pytest.mark.filterwarnings("ignore:.*loses its derivative")
@pytest.mark.parametrize("verify", ["once", "never"])
@pytest.mark.parametrize("f", DIFFERENT + COMMON)
def test_the_type_on_each_way_is_pythons(f, verify):
    points = POINTS if f is not sum_from_0 else POINTS[:3]  # 0, an int, has no derivative
    expected = called(EagerCalls(f), points, 1)
    c = tg.compile(f, verify=verify)
    for k, (value, gradient) in enumerate(called(c, points, 3)):
        wanted, derivative = expected[k % len(points)]
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        np.testing.assert_allclose(gradient, derivative, rtol=1e-12)
    if f in COMMON:
        assert reason_of(c) is None
