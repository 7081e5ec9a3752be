"""Python with lists and its own functions; one import changed for math."""

import functools
from collections import namedtuple
from dataclasses import dataclass, field

import tapegrad.math as math


def determinant(rows):
    """Gaussian elimination with pivoting, on a list of lists."""
    a = [list(row) for row in rows]
    n, det = len(a), 1.0
    for i in range(n):
        p = max(range(i, n), key=lambda r: abs(a[r][i]))
        if a[p][i] == 0:
            return 0.0
        if p != i:
            a[i], a[p] = a[p], a[i]
            det = -det
        det *= a[i][i]
        for r in range(i + 1, n):
            factor = a[r][i] / a[i][i]
            for c in range(i, n):
                a[r][c] -= factor * a[i][c]
    return det


def edit_cost(costs):
    """Edit distance by recursion with a cache; each kind of edit has its cost."""
    insert, delete, change = costs
    s, t = "gradient", "grading"

    @functools.lru_cache(maxsize=None)
    def d(i, j):
        if i == 0:
            return j * insert
        if j == 0:
            return i * delete
        if s[i - 1] == t[j - 1]:
            return d(i - 1, j - 1)
        return min(d(i - 1, j) + delete, d(i, j - 1) + insert, d(i - 1, j - 1) + change)

    return d(len(s), len(t)) ** 2


Reading = namedtuple("Reading", "time level")


@dataclass
class Tank:
    level: float
    leak: float
    readings: list = field(default_factory=list)

    def step(self, t, inflow):
        outflow = self.leak * math.sqrt(self.level) if self.level > 0 else 0.0
        self.level = max(self.level + 0.2 * (inflow - outflow), 0.0)
        self.readings.append(Reading(t, self.level))


def tank_fit(parameters):
    """Simulate a tank, compare with what was read, weigh late readings less."""
    tank = Tank(level=parameters[0], leak=parameters[1])
    measured = [1.1, 1.0, 1.05, 0.9, 0.7, 0.6]
    for t in range(6):
        tank.step(t, inflow=0.6 if t < 3 else 0.1)
    lines = ["t level"] + ["%d %.3f" % (r.time, r.level) for r in tank.readings]
    assert len("\n".join(lines)) > 20
    return sum(0.9**r.time * (r.level - m) ** 2 for r, m in zip(tank.readings, measured))


def tower_heights(blocks):
    """sorted, sum, any, all, zip, enumerate; statistics by hand."""
    tall = sorted(blocks, reverse=True)
    middle = tall[len(tall) // 2]
    mean = sum(tall) / len(tall)
    spread = math.sqrt(sum((b - mean) ** 2 for b in tall) / (len(tall) - 1))
    bonus = 1.0 if any(b > mean + spread for b in tall) else 0.5
    stack = sum(b / (k + 1) for k, b in enumerate(tall))
    if all(b > 0 for b in blocks):
        stack *= math.prod(blocks) ** (1 / len(blocks))
    return bonus * stack + math.fsum(blocks) - middle


def simpson(f, a, b, tol, depth=0):
    """Adaptive quadrature by recursion."""
    m = (a + b) / 2
    fa, fm, fb = f(a), f(m), f(b)
    whole = (b - a) / 6 * (fa + 4 * fm + fb)
    left = (m - a) / 6 * (fa + 4 * f((a + m) / 2) + fm)
    right = (b - m) / 6 * (fm + 4 * f((m + b) / 2) + fb)
    if abs(left + right - whole) < 15 * tol or depth > 12:
        return left + right + (left + right - whole) / 15
    return simpson(f, a, m, tol / 2, depth + 1) + simpson(f, m, b, tol / 2, depth + 1)


def arc_length(shape):
    a, b, end = shape
    return simpson(lambda x: math.sqrt(1 + (a * math.cos(a * x) + 2 * b * x) ** 2), 0.0, end, 1e-4)


def compound(plan):
    """Savings until a goal; the year is counted, the part of the last one is exact."""
    balance, years = 100.0, 0
    while balance < 250.0 and years < 60:
        before = balance
        balance = balance * (1 + plan["rate"]) + plan["saved"]
        years += 1
    part = (250.0 - before) / (balance - before)
    return years - 1 + part


def route_length(points):
    """Nearest neighbour tour of points in a list of pairs, closed at the end."""
    left = list(range(1, len(points)))
    here, total = 0, 0.0
    while left:
        nearest = min(left, key=lambda k: math.dist(points[here], points[k]))
        total += math.dist(points[here], points[nearest])
        left.remove(nearest)
        here = nearest
    return total + math.hypot(points[here][0] - points[0][0], points[here][1] - points[0][1])
