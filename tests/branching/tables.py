"""Dynamic programming and sorting: tables and lists whose cells are chosen by values."""

import tapegrad.math as math
import tapegrad.numpy as np

from .cases import cases, numbers, uniform


def dtw(a, b, x, y):
    """Dynamic time warping in a list of lists, with Python's min."""
    n, m = len(x), len(y)
    cost = [[1e30] * (m + 1) for _ in range(n + 1)]
    cost[0][0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            d = (x[i - 1] - a * y[j - 1] - b) ** 2
            cost[i][j] = d + min(cost[i - 1][j], cost[i][j - 1], cost[i - 1][j - 1])
    return cost[n][m]


def dtw_of_minimum(a, b, x, y):
    """The same by np.minimum: no branch."""
    n, m = len(x), len(y)
    cost = [[1e30] * (m + 1) for _ in range(n + 1)]
    cost[0][0] = 0.0
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            least = np.minimum(np.minimum(cost[i - 1][j], cost[i][j - 1]), cost[i - 1][j - 1])
            cost[i][j] = (x[i - 1] - a * y[j - 1] - b) ** 2 + least
    return cost[n][m]


def alignment(gap, match, x, y):
    """Needleman and Wunsch's score by two rows, the cells appended."""
    above = [-gap * j for j in range(len(y) + 1)]
    for i in range(len(x)):
        row = [-gap * (i + 1)]
        for j in range(len(y)):
            score = match - (x[i] - y[j]) ** 2
            best = above[j] + score
            if above[j + 1] - gap > best:
                best = above[j + 1] - gap
            if row[j] - gap > best:
                best = row[j] - gap
            row.append(best)
        above = row
    return above[-1]


def american_put(spot, volatility, rate, steps=12):
    """A binomial tree: at each node exercised where that is worth more."""
    dt, strike = 1.0 / steps, 1.0
    up = math.exp(volatility * math.sqrt(dt))
    p = (math.exp(rate * dt) - 1 / up) / (up - 1 / up)
    discount = math.exp(-rate * dt)
    values = []
    for j in range(steps + 1):
        paid = strike - spot * up ** (2 * j - steps)
        values.append(paid if paid > 0 else 0.0)
    for i in range(steps - 1, -1, -1):
        for j in range(i + 1):
            held = discount * (p * values[j + 1] + (1 - p) * values[j])
            exercised = strike - spot * up ** (2 * j - i)
            if exercised > held:
                values[j] = exercised
            else:
                values[j] = held
    return values[0]


def bubble_sort(a, b, x):
    values = [a * v + b * v * v for v in x]
    n = len(values)
    for i in range(n):
        swapped = False
        for j in range(n - 1 - i):
            if values[j] > values[j + 1]:
                values[j], values[j + 1] = values[j + 1], values[j]
                swapped = True
        if not swapped:
            break
    return sum((i + 1) * v for i, v in enumerate(values))


def insertion_sort(a, b, x):
    """The median of values kept in order by a `while` that goes backwards."""
    ordered = []
    for v in x:
        value = a * v + b * math.sin(v)
        ordered.append(value)
        k = len(ordered) - 1
        while k > 0 and ordered[k - 1] > value:
            ordered[k] = ordered[k - 1]
            k -= 1
        ordered[k] = value
    return ordered[len(ordered) // 2] + 0.1 * ordered[0]


def viterbi(p, q, x):
    """The best path through three states, with back pointers that are read afterwards."""
    jump = [[0.0, -p * p, -1.0], [-1.0, 0.0, -q * q], [-q * q, -1.0, 0.0]]
    scores, pointers = [0.0, 0.0, 0.0], []
    for value in x:
        new, row = [], []
        for s in range(3):
            best, at = scores[0] + jump[0][s], 0
            for r in range(1, 3):
                if scores[r] + jump[r][s] > best:
                    best, at = scores[r] + jump[r][s], r
            new.append(best - (value - p * (s - 1)) ** 2)
            row.append(at)
        scores = new
        pointers.append(row)
    state = max(range(3), key=lambda s: scores[s])
    total = scores[state]
    for row in reversed(pointers):
        total = total + 0.1 * state * q
        state = row[state]
    return total


def triangle(a, b, x):
    total = 0.0
    for i in range(len(x)):
        for j in range(i):
            d = a * x[i] - b * x[j]
            if d > 0:
                total += d * d
            else:
                total -= d
    return total


def knapsack(a, b, weights):
    """Values by capacity in one list, from the back."""
    best = [0.0] * 9
    for w in weights:
        size = 1 + int(abs(w) * 1.5)
        worth = a * w + b
        for c in range(8, size - 1, -1):
            best[c] = max(best[c], best[c - size] + worth)
    return best[8]


def recent(a, b, x):
    """A window: appended at one end, popped at the other, sometimes emptied."""
    window, total = [], a * 0
    for v in x:
        window.append(a * v)
        if len(window) > 3:
            total = total + window.pop(0)
        if v < -1.5 * b:
            total = total - len(window)
            window.clear()
        elif window and v > 1:
            total = total * 0.5 + window[-1]
    return total + sum(window)


def series(n, m):
    def make(rng):
        return (
            uniform(rng, 0.5, 1.5),
            float(rng.normal(0, 0.3)),
            rng.normal(size=n),
            rng.normal(size=m),
        )

    return make


def option(rng):
    return uniform(rng, 0.7, 1.3), uniform(rng, 0.1, 0.4), uniform(rng, 0.01, 0.1)


CASES = cases(
    (dtw, series(8, 7), dict(calls=30)),
    (dtw_of_minimum, series(8, 7), dict(calls=30)),
    (alignment, series(6, 7), dict(calls=40)),
    (american_put, option, dict(argnums=(0, 1, 2), calls=30)),
    (bubble_sort, numbers(2, 10), dict(calls=40)),
    (bubble_sort, numbers(2, 30), dict(name="bubble_sort_30", calls=8)),
    (insertion_sort, numbers(2, 12), dict(calls=60)),
    (viterbi, numbers(2, 8), dict(calls=40)),
    (triangle, numbers(2, 9), dict(calls=60)),
    (knapsack, numbers(2, 7), dict(calls=60)),
    (recent, numbers(2, 15)),
)
