"""Fifty functions with branches that read data from outside, each written in ten ways.

The text of a function names its data in capitals: numbers, and sequences of these. A way says where
they lie: in a list, a dict, an object, a module. `count_graphs.py` runs all of them.
"""

import dataclasses
import re
import textwrap
import types

import numpy as np

#: Inputs that take other branches.
POINTS = [[0.7, -0.4, 0.3], [-1.1, 0.9, 0.5], [2.3, 1.4, -0.8], [-0.2, -2.1, 1.7]]
POINTS += [[0.05, 0.6, -3.0]]


@dataclasses.dataclass
class Written:
    """A function: its data by name, the lines of its body, and inputs."""

    name: str
    data: dict
    body: str
    points: list


FUNCTIONS: dict[str, Written] = {}


def written(name: str, body: str, points=None, **data) -> None:
    FUNCTIONS[name] = Written(name, data, textwrap.dedent(body).strip(), points or POINTS)


# --- robust fits ----------------------------------------------------------------------------------

Y = [0.3, 1.9, -0.4, 4.1, 1.2]
T = [0.0, 0.5, 1.0, 1.5, 2.0]

written(
    "huber",
    """
    total = 0.0
    for i in range(len(Y)):
        r = x[0] + x[1] * T[i] - Y[i]
        if abs(r) <= DELTA:
            total = total + 0.5 * r**2
        else:
            total = total + DELTA * (abs(r) - 0.5 * DELTA)
    return total
    """,
    Y=Y,
    T=T,
    DELTA=0.8,
)
written(
    "tukey",
    """
    total = 0.0
    for i in range(len(Y)):
        u = (x[0] * np.exp(x[1] * T[i]) - Y[i]) / WIDTH
        if u * u < 1.0:
            total = total + 1.0 - (1.0 - u * u) ** 3
        else:
            total = total + 1.0
    return total * WIDTH**2 / 6.0 + 0.1 * np.sum(x**2)
    """,
    Y=Y,
    T=T,
    WIDTH=2.5,
)
written(
    "trimmed",
    """
    total, kept = 0.0, 0
    for i in range(len(Y)):
        r = x[0] + x[1] * T[i] + x[2] * T[i] ** 2 - Y[i]
        if r * r > CUT:
            continue
        total = total + r * r
        kept = kept + 1
    if kept == 0:
        return np.sum(x * x)
    return total / kept
    """,
    Y=Y,
    T=T,
    CUT=4.0,
)
written(
    "pinball",
    """
    total = 0.0
    for i in range(len(Y)):
        r = Y[i] - x[0] - x[1] * T[i]
        total += TAU * r if r >= 0 else (TAU - 1.0) * r
    return total + RIDGE * np.sum(x * x)
    """,
    Y=Y,
    T=T,
    TAU=0.3,
    RIDGE=0.05,
)
written(
    "weighted_median",
    """
    best = None
    for i in range(len(Y)):
        d = W[i] * abs(x[0] - Y[i])
        if best is None or d > best:
            best = d
    return best + x[1] ** 2
    """,
    Y=Y,
    W=[1.0, 2.0, 0.5, 0.25, 1.5],
)

# --- regimes --------------------------------------------------------------------------------------

written(
    "two_regimes",
    """
    total = 0.0
    for i in range(1, len(Y)):
        if Y[i - 1] > x[2]:
            e = Y[i] - x[0] * Y[i - 1]
        else:
            e = Y[i] - x[1] * Y[i - 1]
        total = total + e * e / SCALE
    return total
    """,
    Y=Y,
    SCALE=1.5,
)
written(
    "garch",
    """
    h, total = START, 0.0
    for i in range(len(Y)):
        total = total + 0.5 * (np.log(h) + Y[i] ** 2 / h)
        h = 0.1 + x[0] ** 2 * Y[i] ** 2 + 0.5 * h
        if Y[i] < 0.0:
            h = h + x[1] ** 2 * Y[i] ** 2
        if h > CAP:
            h = CAP + 0.1 * x[2] ** 2
    return total
    """,
    Y=Y,
    START=1.0,
    CAP=6.0,
)
written(
    "threshold_growth",
    """
    n = 1.0 + x[0] ** 2
    for i in range(len(RATES)):
        rate = RATES[i] * x[1]
        if n > LIMIT:
            n = n - HARVEST * (n - LIMIT)
        else:
            n = n + rate * n * (1.0 - n / LIMIT)
    return n
    """,
    RATES=[0.3, 0.5, 0.2, 0.8],
    LIMIT=1.6,
    HARVEST=0.4,
)
written(
    "change_point",
    """
    total = 0.0
    for i in range(len(Y)):
        if i < SPLIT:
            mean = x[0]
        elif T[i] > x[2]:
            mean = x[1]
        else:
            mean = 0.5 * (x[0] + x[1])
        total = total + (Y[i] - mean) ** 2
    return total
    """,
    Y=Y,
    T=T,
    SPLIT=2,
)
written(
    "seasons",
    """
    level, total = x[0], 0.0
    for i in range(len(Y)):
        e = Y[i] - level * FACTORS[i % 3]
        gain = x[1] if e > 0 else 0.5 * x[2]
        level = level + 0.3 * gain * e
        total = total + e * e
    return total / len(Y)
    """,
    Y=Y,
    FACTORS=[0.9, 1.1, 1.0],
)

# --- likelihoods with cases -----------------------------------------------------------------------

written(
    "censored",
    """
    total = 0.0
    for i in range(len(TIMES)):
        rate = np.exp(x[0] + x[1] * Z[i])
        if rate > MOST:
            rate = MOST + 0.1 * rate
        if SEEN[i] == 1:
            total = total - np.log(rate) + rate * TIMES[i]
        else:
            total = total + rate * TIMES[i]
    return total
    """,
    TIMES=[1.2, 0.4, 3.1, 2.2],
    Z=[0.1, -0.7, 0.4, 1.2],
    SEEN=[1, 0, 1, 1],
    MOST=1.5,
)
written(
    "zero_inflated",
    """
    p = 1.0 / (1.0 + np.exp(-x[0]))
    rate = np.exp(x[1])
    total = 0.0
    for i in range(len(COUNTS)):
        k = COUNTS[i]
        if k == 0:
            total = total - np.log(p + (1.0 - p) * np.exp(-rate))
        else:
            total = total - np.log(1.0 - p) - k * np.log(rate) + rate
    return total if total > FLOOR else FLOOR + 0.1 * total
    """,
    COUNTS=[0, 3, 0, 1, 2],
    FLOOR=8.0,
)
written(
    "ordinal",
    """
    total = 0.0
    for i in range(len(GRADES)):
        eta = x[0] * Z[i]
        if GRADES[i] == 0:
            p = 1.0 / (1.0 + np.exp(eta - CUTS[0]))
        elif GRADES[i] == 1:
            a = 1.0 / (1.0 + np.exp(eta - CUTS[1]))
            p = a - 1.0 / (1.0 + np.exp(eta - CUTS[0]))
        else:
            p = 1.0 - 1.0 / (1.0 + np.exp(eta - CUTS[1]))
        total = total - np.log(p)
    return total + (x[1] if x[1] > 0 else PRIOR * x[1] ** 2)
    """,
    GRADES=[0, 2, 1, 1],
    Z=[0.4, 1.1, -0.2, 0.6],
    CUTS=[-0.5, 0.9],
    PRIOR=0.5,
)
written(
    "mixture_by_side",
    """
    total = 0.0
    for v in Y:
        z = (v - x[0]) / (np.exp(x[1]) if v < x[0] else np.exp(x[2]))
        total = total + 0.5 * z * z
    return total + CONSTANT * (x[1] + x[2])
    """,
    Y=Y,
    CONSTANT=1.25,
)
written(
    "truncated",
    """
    total = 0.0
    for i in range(len(Y)):
        if Y[i] < LOW or Y[i] > HIGH:
            continue
        total = total + (Y[i] - x[0]) ** 2 / (1.0 + x[1] ** 2)
    return total + np.log(1.0 + x[1] ** 2) * (1.0 if x[2] > 0 else x[2])
    """,
    Y=Y,
    LOW=-0.1,
    HIGH=3.0,
)

# --- thresholds -----------------------------------------------------------------------------------

written(
    "dead_zone",
    """
    total = 0.0
    for i in range(len(x)):
        if x[i] > WIDTH:
            total = total + GAIN[i] * (x[i] - WIDTH)
        elif x[i] < -WIDTH:
            total = total + GAIN[i] * (x[i] + WIDTH) ** 2
    return total + 0.01 * x[0]
    """,
    WIDTH=0.35,
    GAIN=[1.0, 2.0, 3.0],
)
written(
    "soft_threshold",
    """
    total = 0.0
    for i in range(len(x)):
        z = x[i] * SCALES[i]
        if z > SHRINK:
            z = z - SHRINK
        elif z < -SHRINK:
            z = z + SHRINK
        else:
            z = 0.0 * z
        total = total + 0.5 * z * z
    return total
    """,
    SCALES=[1.0, 0.5, 2.0],
    SHRINK=0.5,
)
written(
    "leaky_network",
    """
    h = []
    for k in range(len(BIAS)):
        z = W[2 * k] * x[0] + W[2 * k + 1] * x[1] + BIAS[k]
        h.append(z if z > 0 else SLOPE * z)
    return h[0] * h[1] + x[2] * sum(h)
    """,
    W=[0.5, -1.0, 1.5, 0.3, -0.7, 0.2],
    BIAS=[0.1, -0.2, 0.05],
    SLOPE=0.01,
)
written(
    "hysteresis",
    """
    on, total = False, 0.0
    level = x[0]
    for u in INPUT:
        level = 0.7 * level + x[1] * u
        if on and level < LOW:
            on = False
        elif not on and level > HIGH:
            on = True
        total = total + (level * level if on else 0.1 * level)
    return total
    """,
    INPUT=[1.0, 0.5, -0.5, 2.0, 0.1],
    LOW=0.1,
    HIGH=0.6,
)
written(
    "hinge",
    """
    total = 0.5 * np.sum(x[:2] ** 2)
    for i in range(len(SIGNS)):
        margin = SIGNS[i] * (x[0] * A[i] + x[1] * B[i] + x[2])
        if margin < 1.0:
            total = total + COST * (1.0 - margin)
    return total
    """,
    SIGNS=[1, -1, 1, -1],
    A=[0.5, -1.0, 2.0, 0.2],
    B=[1.0, 0.3, -0.4, -2.0],
    COST=0.7,
)

# --- collisions -----------------------------------------------------------------------------------

written(
    "bouncing_ball",
    """
    h, v = 1.0 + x[0] ** 2, x[1]
    for _ in range(STEPS):
        v = v - GRAVITY * DT
        h = h + DT * v
        if h < 0.0:
            h, v = -h, -BOUNCE * v
    return h + x[2] * v
    """,
    STEPS=12,
    GRAVITY=9.81,
    DT=0.08,
    BOUNCE=0.7,
)
written(
    "spheres",
    """
    energy = 0.0
    for i in range(len(RADII)):
        for j in range(i):
            gap = abs(x[i] - x[j]) - RADII[i] - RADII[j]
            if gap < 0.0:
                energy = energy + 0.5 * STIFFNESS * gap * gap
    return energy + 0.01 * np.sum(x * x)
    """,
    RADII=[0.4, 0.6, 0.5],
    STIFFNESS=10.0,
)
written(
    "walls",
    """
    p, v, hits = x[0], x[1], 0
    for _ in range(10):
        p = p + 0.3 * v
        if p > RIGHT:
            p, v, hits = 2.0 * RIGHT - p, -v, hits + 1
        elif p < LEFT:
            p, v, hits = 2.0 * LEFT - p, -v, hits + 1
    return p * p + v * x[2] + hits * x[0]
    """,
    LEFT=-1.0,
    RIGHT=1.2,
)
written(
    "ray_and_discs",
    """
    nearest = FAR
    for i in range(len(CX)):
        b = CX[i] * x[0] + CY[i] * x[1]
        d = b * b - CX[i] ** 2 - CY[i] ** 2 + R[i] ** 2
        if d > 0.0:
            t = b - np.sqrt(d)
            if 0.0 < t < nearest:
                nearest = t
    return nearest * (1.0 + x[2] ** 2)
    """,
    CX=[2.0, -1.0, 3.0],
    CY=[0.5, 2.0, -1.0],
    R=[1.5, 2.1, 2.9],
    FAR=50.0,
)
written(
    "friction",
    """
    p, v = x[0], x[1]
    for i in range(len(FORCES)):
        f = FORCES[i] - p
        if abs(v) < 0.05 and abs(f) < STICK:
            v = 0.0 * v
        else:
            v = v + 0.1 * (f - SLIDE * (1.0 if v > 0 else -1.0))
        p = p + 0.1 * v
    return p * p + x[2] * v
    """,
    FORCES=[1.0, 0.2, -0.5, 2.0, 0.0],
    STICK=0.6,
    SLIDE=0.3,
)

# --- piecewise rates ------------------------------------------------------------------------------

written(
    "brackets",
    """
    income = 3.0 + x[0] + 2.0 * x[1] ** 2
    due, low = 0.0, 0.0
    for i in range(len(LIMITS)):
        if income > LIMITS[i]:
            due = due + RATES[i] * (LIMITS[i] - low)
            low = LIMITS[i]
        else:
            due = due + RATES[i] * (income - low)
            break
    else:
        due = due + TOP * (income - low)
    return due + x[2] ** 2
    """,
    LIMITS=[1.0, 3.0, 6.0],
    RATES=[0.0, 0.2, 0.35],
    TOP=0.5,
)
written(
    "tariff",
    """
    cost = 0.0
    for i in range(len(LOADS)):
        load = LOADS[i] + x[i % 3]
        price = PEAK if i >= 2 else NIGHT
        cost = cost + (price * load if load > 0 else 0.5 * price * load)
    return cost * cost
    """,
    LOADS=[0.5, 1.5, 0.3, 2.0],
    PEAK=0.4,
    NIGHT=0.1,
)
written(
    "ramp",
    """
    total = 0.0
    for a, b in zip(KNOTS, SLOPES):
        if x[0] > a:
            total = total + b * (x[0] - a)
    return total * x[1] + x[2] * x[2]
    """,
    KNOTS=[-1.0, 0.0, 1.0, 2.0],
    SLOPES=[1.0, -0.5, 2.0, 0.3],
)
written(
    "reservoir",
    """
    level, spilled = 0.5 + x[0] ** 2, 0.0
    for i in range(len(INFLOW)):
        level = level + INFLOW[i] - x[1] * 0.2
        if level > CAPACITY:
            spilled = spilled + (level - CAPACITY) ** 2
            level = CAPACITY
        elif level < 0:
            level = 0.0
    return spilled + level * x[2]
    """,
    INFLOW=[0.4, 1.2, 0.1, 0.9, -0.5],
    CAPACITY=2.0,
)
written(
    "battery",
    """
    charge, cost = START, 0.0
    for i in range(len(PRICES)):
        power = x[i % 3]
        after = charge + (EFFICIENCY * power if power > 0 else power / EFFICIENCY)
        if after > 1.5 or after < 0.0:
            power = 0.1 * power
            after = charge + power
        cost = cost + PRICES[i] * power
        charge = after
    return cost + (charge - START) ** 2
    """,
    PRICES=[1.0, 3.0, 2.0, 0.5],
    EFFICIENCY=0.9,
    START=0.7,
)

# --- payoffs --------------------------------------------------------------------------------------

DRAWS = [0.3, -1.2, 0.8, 0.1, -0.5, 1.6]

written(
    "barrier_option",
    """
    s, alive = START, True
    for z in DRAWS:
        s = s * np.exp(0.1 * x[0] + 0.2 * x[1] * z)
        if s > BARRIER:
            alive = False
            break
    if not alive:
        return REBATE * s
    return s - 1.0 if s > 1.0 else 0.1 * s
    """,
    DRAWS=DRAWS,
    START=1.0,
    BARRIER=1.25,
    REBATE=0.3,
)
written(
    "american_put",
    """
    up = np.exp(0.2 + 0.3 * x[0])
    values = [max(STRIKE - SPOT * up ** (2 * k - 4), 0.0 * x[0]) for k in range(5)]
    for n in range(3, -1, -1):
        for k in range(n + 1):
            hold = 0.5 * DISCOUNT * (values[k] + values[k + 1])
            now = STRIKE - SPOT * up ** (2 * k - n)
            values[k] = hold if hold > now else now
    return values[0] + x[1] ** 2
    """,
    STRIKE=1.05,
    SPOT=1.0,
    DISCOUNT=0.98,
)
written(
    "asian_with_cap",
    """
    s, total = 1.0, 0.0
    for i in range(len(DRAWS)):
        s = s * np.exp(0.05 + 0.3 * x[0] * DRAWS[i])
        total = total + min(s, CAP)
    mean = total / len(DRAWS)
    return mean - x[1] if mean > x[1] else 0.01 * mean * x[2]
    """,
    DRAWS=DRAWS,
    CAP=1.3,
)
written(
    "digital_spread",
    """
    payoff = 0.0
    for i in range(len(DRAWS)):
        a, b = np.exp(x[0] * DRAWS[i]), np.exp(x[1] * DRAWS[i])
        if a - b > GAP:
            payoff = payoff + 1.0 + x[2] * (a - b)
        elif a > b:
            payoff = payoff + (a - b) / GAP
    return payoff / len(DRAWS) + 0.001 * x[0]
    """,
    DRAWS=DRAWS,
    GAP=0.25,
)
written(
    "annuity",
    """
    value, paid = 0.0, 0.0
    for i in range(len(FLOWS)):
        amount = FLOWS[i] * (1.0 + x[0])
        if paid > LIMIT:
            break
        paid = paid + amount
        value = value + amount / (1.0 + 0.05 + 0.01 * x[1] ** 2) ** i
    return value + x[2] * x[2]
    """,
    FLOWS=[1.0, 1.5, 2.0, 1.0, 0.5],
    LIMIT=3.0,
)

# --- tables ---------------------------------------------------------------------------------------

written(
    "interpolated",
    """
    k = 0
    while k < len(GRID) - 2 and GRID[k + 1] < x[0]:
        k = k + 1
    t = (x[0] - GRID[k]) / (GRID[k + 1] - GRID[k])
    return (1.0 - t) * TABLE[k] + t * TABLE[k + 1] + x[1] ** 2
    """,
    GRID=[-2.0, -0.5, 0.5, 1.0, 3.0],
    TABLE=[1.0, 0.3, -0.7, 2.0, 2.2],
)
written(
    "steps_of_a_table",
    """
    total = 0.0
    for i in range(len(x)):
        k = int(abs(x[i].item()) * 2.0)
        if k >= len(TABLE):
            k = len(TABLE) - 1
        total = total + TABLE[k] * x[i]
    return total * SCALE
    """,
    TABLE=[1.0, -2.0, 0.5, 4.0],
    SCALE=0.3,
)
written(
    "codes",
    """
    value = x[0]
    for i in range(len(CODES)):
        c = CODES[i]
        if c == 0:
            value = value + x[1]
        elif c == 1:
            value = value * x[2]
        elif value > 0:
            value = np.log1p(value)
        else:
            value = OFFSET - value
    return value
    """,
    CODES=[0, 2, 1, 1, 0, 2],
    OFFSET=0.1,
)
written(
    "decision_tree",
    """
    node = 0
    while LEFT[node] >= 0:
        if x[FEATURE[node]] < CUT[node]:
            node = LEFT[node]
        else:
            node = LEFT[node] + 1
    return CUT[node] * x[0] + x[1] * x[2]
    """,
    LEFT=[1, 3, -1, -1, -1],
    FEATURE=[0, 1, 0, 0, 0],
    CUT=[0.1, -0.3, 2.0, 3.0, 5.0],
)
written(
    "nearest",
    """
    best, which = FAR, 0
    for i in range(len(PX)):
        d = (x[0] - PX[i]) ** 2 + (x[1] - PY[i]) ** 2
        if d < best:
            best, which = d, i
    return best * VALUES[which] + x[2]
    """,
    PX=[0.0, 1.0, -1.0, 2.0],
    PY=[0.0, 1.0, 0.5, -1.5],
    VALUES=[1.0, 2.0, 3.0, 4.0],
    FAR=100.0,
)

# --- rejection, and solvers that stop -------------------------------------------------------------

written(
    "rejection",
    """
    for i in range(len(PROPOSALS)):
        z = x[0] + x[1] * PROPOSALS[i]
        if z * z < LEVELS[i] * 2.0:
            return z * z + x[2]
    return np.sum(x * x)
    """,
    PROPOSALS=[1.5, -0.8, 2.5, 0.1],
    LEVELS=[0.1, 0.4, 0.2, 0.6],
)
written(
    "newton_root",
    """
    a = 1.0 + x[0] ** 2
    y = START
    for _ in range(50):
        step = (y**3 - a * y - x[1]) / (3.0 * y**2 - a)
        y = y - step
        if abs(step) < TOLERANCE:
            break
    return y * y + x[2]
    """,
    START=3.0,
    TOLERANCE=1e-9,
)
written(
    "kepler",
    """
    total = 0.0
    for m in ANOMALIES:
        e = m + 0.0 * x[0]
        ecc = 0.5 + 0.1 * x[1]
        while True:
            change = (e - ecc * np.sin(e) - m - 0.1 * x[0]) / (1.0 - ecc * np.cos(e))
            e = e - change
            if abs(change) < EPS:
                break
        total = total + e * e
    return total + x[2]
    """,
    ANOMALIES=[0.3, 1.2, 2.0],
    EPS=1e-10,
)
written(
    "series",
    """
    term, total, n = x[0], 0.0, 1
    while abs(term) > EPS and n < MOST:
        total = total + term
        n = n + 1
        term = -term * x[0] * 0.3 / n
    return total + x[1] * x[2]
    """,
    EPS=1e-8,
    MOST=40,
)
written(
    "descent",
    """
    p, q = START[0] + x[0], START[1] + x[1]
    for _ in range(200):
        gp, gq = 2.0 * (p - 1.0) + x[2] * q, 4.0 * q + x[2] * p
        if gp * gp + gq * gq < EPS:
            break
        p, q = p - RATE * gp, q - RATE * gq
    return p * p + 3.0 * q
    """,
    [[0.7, -0.4, 0.3], [-1.1, 0.9, 0.5], [1.0, 0.0, 0.0], [-0.2, -2.1, 1.7]],
    START=[0.0, 0.0],
    RATE=0.1,
    EPS=1e-6,
)

# --- control, queues, sequences -------------------------------------------------------------------

written(
    "thermostat",
    """
    temperature, energy = x[0], 0.0
    for i in range(len(OUTSIDE)):
        if temperature < TARGET - 0.5:
            power = 1.0 + x[1] ** 2
        elif temperature > TARGET:
            power = 0.0
        else:
            power = x[2]
        temperature = temperature + 0.3 * (OUTSIDE[i] - temperature) + power
        energy = energy + power * power
    return energy + (temperature - TARGET) ** 2
    """,
    OUTSIDE=[0.0, 1.0, -0.5, 0.3, 2.0],
    TARGET=1.5,
)
written(
    "queue",
    """
    wait, total = 0.0, 0.0
    for i in range(len(ARRIVALS)):
        wait = wait + SERVICE[i] * np.exp(0.3 * x[0]) - ARRIVALS[i] * np.exp(0.2 * x[1])
        if wait < 0.0:
            wait = 0.0
        total = total + wait
    return total / len(ARRIVALS) + x[2] ** 2
    """,
    ARRIVALS=[1.0, 0.3, 0.8, 1.5, 0.2],
    SERVICE=[0.9, 0.9, 1.1, 0.4, 1.3],
)
written(
    "inventory",
    """
    stock, cost = 2.0 + x[0], 0.0
    for d in DEMAND:
        stock = stock - d
        if stock < x[1]:
            cost = cost + FIXED + 0.5 * (LEVEL + x[2] - stock)
            stock = LEVEL + x[2]
        cost = cost + (0.1 * stock if stock > 0 else -2.0 * stock)
    return cost
    """,
    DEMAND=[1.0, 0.4, 1.7, 0.6],
    FIXED=0.3,
    LEVEL=2.5,
)
written(
    "alignment",
    """
    before = [0.1 * k * x[2] ** 2 for k in range(len(B) + 1)]
    for i in range(len(A)):
        now = [before[0] + GAP]
        for j in range(len(B)):
            here = before[j] + abs(A[i] * x[0] - B[j] * x[1])
            side = min(before[j + 1], now[j]) + GAP
            now.append(here if here < side else side)
        before = now
    return before[-1]
    """,
    A=[0.2, 1.0, -0.5],
    B=[0.1, 0.8, 0.9, -0.4],
    GAP=0.3,
)
written(
    "viterbi",
    """
    a, b = START[0] * x[0], START[1] * x[1]
    for v in Y:
        up, stay = b + x[2], a
        a, b = (up if up > stay else stay) - (v - 1.0) ** 2, max(a - SWITCH, b) - v * v
    return a if a > b else b
    """,
    Y=Y,
    START=[1.0, 0.5],
    SWITCH=0.4,
)

# --- ways -----------------------------------------------------------------------------------------


def _indented(body: str, by: int = 4) -> str:
    return textwrap.indent(body, " " * by)


def _renamed(one: Written, name_of, body: str | None = None) -> str:
    """The body with other expressions for its data."""
    found = one.body if body is None else body
    return re.sub(r"\b[A-Z]+\b", lambda m: name_of(m[0]) if m[0] in one.data else m[0], found)


def _constants(one: Written) -> str:
    return "".join(f"{name} = {value!r}\n" for name, value in one.data.items())


def _function(body: str) -> str:
    return f"def f(x):\n{_indented(body)}\n"


def _arrays(value):
    """Sequences as arrays, of floats or integers."""
    return np.array(value) if isinstance(value, list) else value


def _with_result(body: str, statement: str) -> str:
    """The body, with a statement about the result, which is `r`, before it is returned."""
    return re.sub(
        r"^( *)return (.*)$",
        lambda m: f"{m[1]}r = {m[2]}\n{m[1]}{statement}\n{m[1]}return r",
        body,
        flags=re.M,
    )


def counter(one: Written):
    text = _constants(one) + "calls = [0]\n" + _function("calls[0] += 1\n" + one.body)
    return text, {}


def history(one: Written):
    body = _with_result(one.body, "history.append(r.item())")
    return _constants(one) + "history = []\n" + _function(body), {}


def listed(one: Written):
    places = {name: f"data[{k}]" for k, name in enumerate(one.data)}
    return _function(_renamed(one, places.get)), {"data": [*one.data.values()]}


def dict_of_data(one: Written):
    return _function(_renamed(one, "cfg[{0!r}]".format)), {"cfg": dict(one.data)}


def dict_of_arrays(one: Written):
    arrays = {name.lower(): _arrays(value) for name, value in one.data.items()}
    return _function(_renamed(one, lambda n: f"cfg[{n.lower()!r}]")), {"cfg": arrays}


class Model:
    """Data as attributes, and a function of them as a method."""

    def __init__(self, data: dict):
        for name, value in data.items():
            setattr(self, name.lower(), _arrays(value))
        self.factor = 1.5

    def penalty(self, x):
        return self.factor * x[0] ** 2 if x[0] > 0 else -self.factor * x[0]


def of_object(one: Written):
    body = _with_result(_renamed(one, lambda n: f"model.{n.lower()}"), "r = r + model.penalty(x)")
    return _function(body), {"model": Model(one.data)}


def of_dataclass(one: Written):
    kind = dataclasses.make_dataclass("Settings", [name.lower() for name in one.data])
    settings = kind(*one.data.values())
    return _function(_renamed(one, lambda n: f"settings.{n.lower()}")), {"settings": settings}


def labelled(one: Written):
    """Items are found through integer labels, if there are sequences; else labels choose signs."""
    sequences = [name for name, value in one.data.items() if isinstance(value, list)]
    body, given = one.body, dict(one.data)
    for name in sequences:
        order = np.random.default_rng(len(given[name])).permutation(len(given[name]))
        given[name] = np.array(given[name])[np.argsort(order)]
        given[f"{name}_LABELS"] = order
        item = rf"\b{name}\[([^\[\]]*(?:\[\w+\])?)\]"
        body = re.sub(item, rf"{name}[{name}_LABELS[\1]]", body)
        body = re.sub(rf"\bfor (\w+) in {name}:", rf"for \1 in {name}[{name}_LABELS]:", body)
    given["GROUPS"] = np.array([0, 1, 1])
    return _function(_with_result(body, "r = r + (x[0] if GROUPS[1] == 1 else x[1])")), given


def in_module(one: Written):
    module = types.ModuleType("constants")
    vars(module).update(one.data)
    return _function(_renamed(one, "constants.{}".format)), {"constants": module}


def closure(one: Written):
    """Numbers and items come from functions that the function calls."""
    helpers, body = "", one.body
    for name, value in one.data.items():
        low = name.lower()
        if isinstance(value, list):
            helpers += f"def {low}_at(i):\n    return {low}[i]\n"
            body = re.sub(rf"\b{name}\[([^\[\]]*(?:\[\w+\])?)\]", rf"{low}_at(\1)", body)
            body = re.sub(rf"\b{name}\b", low, body)
        else:
            helpers += f"def the_{low}():\n    return {low}\n"
            body = re.sub(rf"\b{name}\b", f"the_{low}()", body)
    names = ", ".join(name.lower() for name in one.data)
    inner = helpers + _function(body) + "return f"
    text = f"def made({names}):\n{_indented(inner)}\nf = made(**data)\n"
    return text, {"data": {name.lower(): value for name, value in one.data.items()}}


WAYS = {
    "counter": counter,
    "history": history,
    "list": listed,
    "dict": dict_of_data,
    "dict of arrays": dict_of_arrays,
    "object": of_object,
    "dataclass": of_dataclass,
    "labels": labelled,
    "module": in_module,
    "closure": closure,
}


def function(name: str, way: str):
    """The function `name`, written in a way; its text is in `f.text`."""
    text, given = WAYS[way](FUNCTIONS[name])
    file = f"<{name}, {way}>"
    scope = {"np": np, **given}
    exec(compile(text, file, "exec"), scope)
    scope["f"].text = text
    return scope["f"]
