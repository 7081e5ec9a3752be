"""Models that call solvers and integrators: prices, pipes, reactions, orbits, fits, designs."""

import itertools
import math
from collections import defaultdict, deque
from dataclasses import dataclass, field

import numpy as np
import scipy.integrate as si
import scipy.optimize as so
from scipy import integrate, optimize
from scipy.integrate import dblquad, nquad, odeint, quad, quad_vec, simpson, solve_bvp, solve_ivp
from scipy.interpolate import CubicSpline
from scipy.optimize import (
    LinearConstraint,
    NonlinearConstraint,
    brentq,
    curve_fit,
    fsolve,
    least_squares,
    linprog,
    minimize,
    minimize_scalar,
    newton,
    nnls,
    root,
    root_scalar,
)
from scipy.special import ndtr

# --- roots ----------------------------------------------------------------------------------------


class Quote:
    """A call option, whose volatility is sought by its price."""

    searches = 0

    def __init__(self, strike, years, price):
        self.strike, self.years, self.price = strike, years, price

    def value(self, sigma, spot, rate):
        Quote.searches += 1
        spread = sigma * math.sqrt(self.years)
        d = (np.log(spot / self.strike) + rate * self.years) / spread + 0.5 * spread
        return spot * ndtr(d) - self.strike * np.exp(-rate * self.years) * ndtr(d - spread)

    def volatility(self, spot, rate):
        def excess(sigma):
            return self.value(sigma, spot, rate) - self.price

        if excess(1e-3) > 0:
            return None
        sigma, told = brentq(excess, 1e-3, 4.0, xtol=1e-14, rtol=1e-14, full_output=True)
        return sigma if told.converged else None


QUOTES = [Quote(k, t, c) for k, t, c in [(90, 0.5, 14.0), (100, 0.5, 7.9), (115, 1.0, 5.0)]]


def smile(p):
    """The spread of implied volatilities about a line; a quote below its least price is left."""
    spot, rate = 100 + 5 * p[0], p[1]
    found = []
    for quote in QUOTES:
        sigma = quote.volatility(spot, rate)
        if sigma is None:
            continue
        found.append((sigma - 0.2 - p[2] * math.log(quote.strike / 100)) ** 2)
    return 100 * sum(found) / len(found)


PIPES = [
    {"length": 30.0, "width": 0.10, "rough": 1e-4},
    {"length": 12.0, "width": 0.08, "rough": 5e-5},
    {"length": 50.0, "width": 0.15, "rough": 2e-4},
]


def pumping(p):
    """Friction by Colebrook's equation, from that of the pipe before; laminar if it is slow."""
    flow, viscosity = 1e-3 * p[0], 1e-6 * p[1]
    loss, guess = 0.0, 7.0
    for pipe in PIPES:
        speed = flow / (0.25 * np.pi * pipe["width"] ** 2)
        reynolds = speed * pipe["width"] / viscosity
        if reynolds < 2300:
            friction = 64 / reynolds
        else:
            rough = pipe["rough"] / pipe["width"]

            def colebrook(x, re=reynolds):
                return x + 2 * np.log10(rough / 3.7 + 2.51 * x / re)

            def slope(x, re=reynolds):
                return 1 + 2 / np.log(10) * (2.51 / re) / (rough / 3.7 + 2.51 * x / re)

            guess = newton(colebrook, guess, fprime=slope, tol=1e-13)
            friction = guess**-2
        loss += friction * pipe["length"] / pipe["width"] * speed**2 / 19.62
    return 10 * loss


ROWS = np.array([[0.8, 1.1, 0.42], [1.3, 0.7, 0.35], [1.0, 1.0, 0.5], [2.1, 0.4, 0.3]])


def balances(c, totals, k):
    """Of two acids that bind a base and each other."""
    a, b = c
    pair = k["pair"] * a * b
    return [a + pair + 2 * k["self"] * a**2 - totals[0], b + pair - totals[1]]


def binding(p):
    """A likelihood over rows, with an equilibrium for each."""
    k = {"pair": np.exp(p[0]), "self": np.exp(p[1])}
    failed, total = [], 0.0
    for row in ROWS:
        found = root(balances, row[:2] / 2, args=(row[:2], k), method="hybr", tol=1e-13)
        if not found.success:
            failed.append(row)
            continue
        a, b = found.x
        total += (k["pair"] * a * b - row[2]) ** 2 / np.exp(2 * p[2]) + p[2]
    return total + 1e3 * len(failed)


def kepler(p):
    """A velocity curve; true anomalies by one array of equations for all times."""
    t = np.linspace(0.0, 3.0, 7)
    mean = 2 * np.pi * t / p[0]
    e = p[1]
    E = newton(
        lambda E: E - e * np.sin(E) - mean,
        mean,
        fprime=lambda E: 1 - e * np.cos(E),
        fprime2=lambda E: e * np.sin(E),
        tol=1e-14,
    )
    nu = 2 * np.arctan2(np.sqrt(1 + e) * np.sin(E / 2), np.sqrt(1 - e) * np.cos(E / 2))
    return np.mean((p[2] * (np.cos(nu + 0.3) + e * np.cos(0.3)) - np.sin(2 * t)) ** 2)


def every_method(p):
    """The pressure of a gas at given volumes, each solved by another method of `root_scalar`."""
    a, b = p[0], 0.1 * p[1]

    def gas(v, target):
        return 2.4 / (v - b) - a / v**2 - target

    def slope(v, target):
        return -2.4 / (v - b) ** 2 + 2 * a / v**3

    def bend(v, target):
        return 4.8 / (v - b) ** 3 - 6 * a / v**4

    def both(v, target):
        return gas(v, target), slope(v, target)

    ways = [
        ("brentq", {"bracket": [0.9, 9.0]}),
        ("toms748", {"bracket": [0.9, 9.0]}),
        ("secant", {"x0": 2.0, "x1": 2.1}),
        ("halley", {"x0": 2.0, "fprime": slope, "fprime2": bend}),
        ("newton", {"x0": 2.0, "fprime": both}),
    ]
    total = 0.0
    for k, (method, given) in enumerate(ways):
        f = gas
        if method == "newton":
            f, given = both, {"x0": 2.0, "fprime": True}
        found = root_scalar(
            f, args=(0.6 + 0.1 * k,), method=method, xtol=1e-13, rtol=1e-13, **given
        )
        if found.converged and found.flag == "converged":
            total += (k + 1) * found.root
    return total


def market(p):
    """Prices that clear, by `fsolve` with its full output, from the last ones."""
    logs, spent = np.zeros(3), 0.0
    for year in range(3):
        income = p[0] + 0.2 * year

        def excess(logs, shift):
            q = np.exp(logs)
            demand = income * np.array([0.5, 0.3, 0.2]) / q + shift * q[[1, 2, 0]]
            return demand - np.sqrt(q) * p[1]

        logs, told, flag, message = fsolve(
            excess, logs, args=(0.1 * p[2],), xtol=1e-13, full_output=True
        )
        if flag != 1:
            raise RuntimeError(message)
        spent += np.exp(logs) @ [1.0, 2.0, 0.5] / (1 + year)
    return spent


# --- integrals ------------------------------------------------------------------------------------


@dataclass
class Universe:
    matter: float
    dark: float
    hubble: float
    calls: dict = field(default_factory=lambda: defaultdict(int))

    @property
    def curvature(self):
        return 1 - self.matter - self.dark

    def rate(self, z):
        self.calls["rate"] += 1
        return np.sqrt(self.matter * (1 + z) ** 3 + self.curvature * (1 + z) ** 2 + self.dark)

    def distance(self, z):
        x, error = quad(lambda u: 1 / self.rate(u), 0, z, epsabs=1e-12, epsrel=1e-12)
        k = self.curvature
        if k > 1e-3:
            x = np.sinh(np.sqrt(k) * x) / np.sqrt(k)
        elif k < -1e-3:
            x = np.sin(np.sqrt(-k) * x) / np.sqrt(-k)
        return (1 + z) * x / self.hubble

    def age(self, z):
        return (
            quad(lambda u: 1 / ((1 + u) * self.rate(u)), z, np.inf, epsabs=1e-13)[0] / self.hubble
        )


def supernovae(p):
    """Distances, and the redshift of an age: an integral in a root."""
    universe = Universe(p[0], p[1], p[2])
    z = brentq(lambda z: universe.age(z) - 0.5, 0.0, 5.0, xtol=1e-13)
    moduli = [5 * np.log10(universe.distance(z)) for z in (0.1, 0.5, 1.2)]
    return np.sum((np.array(moduli) - [-3.5, 1.0, 3.6]) ** 2) + z


def weights(p):
    """A dispersion integral with a pole, transforms, ends with powers, kinks that are named."""
    a, w = p[0], 1 + p[1] ** 2
    tight = {"epsabs": 1e-13, "epsrel": 1e-13}
    pole = quad(lambda x: np.exp(-a * x * x), -2, 3, weight="cauchy", wvar=p[1], **tight)[0]
    wave = quad(lambda x: np.exp(-a * x), 0, 4, weight="cos", wvar=w, **tight)[0]
    ends = quad(lambda x: np.cos(a * x), 0, w, weight="alg", wvar=(-0.5, 0.25), **tight)[0]
    far = quad(lambda x: x / (a + x**2), 0, np.inf, weight="sin", wvar=w, epsabs=1e-11, limlst=90)[
        0
    ]
    kink = quad(lambda x: abs(x - a) ** 1.5 if x > 0.2 else x * w, -1, 2, points=[a, 0.2], **tight)
    both = quad(lambda x: np.exp(-abs(w) * (x - a) ** 2), -np.inf, np.inf, **tight)[0]
    return pole + 2 * wave + ends * far + kink[0] + both


def volumes(p):
    """Nested integrals, with limits that move and a dict of options."""
    a, b = p

    def inner(y, x, c):
        return np.exp(-a * x * y) * (1 + c * np.sin(x + y))

    lens, _ = nquad(
        inner,
        [lambda x, c: (0, b * (1 + x) ** c), lambda c: (0, 1 + 0.1 * c)],
        args=(0.3,),
        opts=[{"epsabs": 1e-9}, {"epsabs": 1e-9, "limit": 80}],
    )
    return lens + dblquad(lambda y, x: x * x + a * y, 0, b, lambda x: x * x, lambda x: b * x)[0]


def rules(p):
    """Fixed rules, sums of samples, vectors of integrals, a box."""
    t = np.linspace(0.0, 2.0, 9)
    y = np.exp(-p[0] * t) * np.cos(p[1] * t)
    total = simpson(y, x=t) + si.romb(y, dx=t[1]) + np.trapezoid(y, t)
    total += si.cumulative_trapezoid(y, t, initial=0)[-2] + si.cumulative_simpson(y, x=t)[3]
    total += si.fixed_quad(lambda x: np.sin(p[0] * x) / (1 + x), 0, p[1], n=6)[0]
    lines = quad_vec(lambda x: np.exp(-x * p[0]) * np.array([x, x * x * p[1], 1.0]), 0, 1)[0]
    total += lines @ [1.0, -2.0, 0.5]
    box = si.cubature(
        lambda x: np.exp(-p[0] * x[:, 0] * x[:, 1] ** 2), [0, 0], [1, p[1]], rtol=1e-10
    )
    return total + box.estimate


# --- differential equations -----------------------------------------------------------------------


class Reaction:
    """Robertson's, with its Jacobian, and counts of both."""

    def __init__(self, rates):
        self.rates, self.counts = rates, {"f": 0, "jac": 0}

    def __call__(self, t, y):
        self.counts["f"] += 1
        k1, k2, k3 = self.rates
        slow = k1 * y[0] - k2 * y[1] * y[2]
        return [-slow, slow - k3 * y[1] ** 2, k3 * y[1] ** 2]

    def jac(self, t, y):
        self.counts["jac"] += 1
        k1, k2, k3 = self.rates
        first = np.array([-k1, k2 * y[2], k2 * y[1]])
        last = np.array([0, 2 * k3 * y[1], 0])
        return np.array([first, -first - last, last])


def robertson(p):
    f = Reaction(np.exp(p) * [0.04, 1e2, 3e3])
    found = solve_ivp(f, (0, 0.5), [1, 0, 0], method="Radau", jac=f.jac, rtol=1e-8, atol=1e-10)
    if found.status != 0:
        return np.inf
    return 1e4 * found.y[1, -1] + found.y[2, -1]


def bounces(p):
    """A ball that falls, bounces and is caught; where it is meanwhile by dense output."""
    state, t, heights = [p[0], 0.0], 0.0, []

    def fall(t, y):
        return [y[1], -9.81 - p[2] * y[1] * abs(y[1])]

    def ground(t, y):
        return y[0]

    def top(t, y):
        return y[1]

    ground.terminal, ground.direction, top.direction = True, -1, -1
    while len(heights) < 2:
        found = solve_ivp(
            fall, (t, t + 5), state, events=[ground, top], dense_output=True, rtol=1e-10, atol=1e-12
        )
        (end,), tops = found.t_events[0], found.y_events[1]
        heights.append(tops[0, 0] if len(tops) else found.sol(0.5 * (t + end))[0])
        state, t = [0.0, -p[1] * found.y_events[0][0][1]], end
        if state[1] < 3.0:
            break
    return t + sum(heights)


DOSES = [(0.0, 50.0), (3.0, 30.0)]


def doses(p):
    """Each dose starts anew where the last one has come to; levels at the hours of samples."""
    ka, ke, vm = np.exp(p)

    def rate(y, t, ka, ke, vm):
        gut, blood = y
        return [-ka * gut, ka * gut - ke * blood - vm * blood / (10.0 + blood)]

    y, seen = np.zeros(2), []
    for (start, dose), end in zip(DOSES, [3.0, 5.0]):
        y = y + np.array([dose, 0.0])
        t = np.linspace(start, end, 4)
        path = odeint(rate, y, t, args=(ka, ke, vm), rtol=1e-8, atol=1e-8)
        seen.extend(path[1:, 1])
        y = path[-1]
    return np.sum((np.log(np.array(seen)) - 2.5) ** 2)


def cell(p):
    """A capacitor behind a diode: the current at each time is a root."""
    calls = deque(maxlen=5)

    def current(v):
        def kirchhoff(i):
            return p[0] * i + 0.1 * np.arcsinh(i / p[1]) - (1.0 - v)

        calls.append(float(v))
        return brentq(kirchhoff, -5, 5, xtol=1e-14, rtol=1e-14)

    found = solve_ivp(lambda t, v: [current(v[0])], (0, 0.5), [0.1], rtol=1e-8, atol=1e-9)
    return found.y[0, -1] * len(calls)


def shooting(p):
    """The slope at the start by which a beam ends where it is to, found by a root."""

    def bent(t, y):
        return [y[1], -p[0] * np.sin(y[0]) - p[1] * y[1]]

    def miss(slope):
        found = solve_ivp(bent, [0, 1.5], [0.0, slope], rtol=1e-10, atol=1e-10)
        return found.y[0, -1] - 1.0

    slope = brentq(miss, 0.1, 5.0, xtol=1e-13)
    path = solve_ivp(bent, [0, 1.5], [0.0, slope], t_eval=[0.5, 1.0], rtol=1e-10, atol=1e-10)
    return slope + path.y[0].sum()


def buckling(p):
    """An eigenvalue and its mode, followed from one load to the next."""
    x = np.linspace(0, 1, 9)
    y, q, total = np.vstack([np.sin(np.pi * x), np.pi * np.cos(np.pi * x)]), [3.0], 0.0
    for load in (0.0, 0.5 * p[0], p[0]):

        def rod(x, y, q):
            return np.vstack((y[1], -(q[0] ** 2) * y[0] * (1 + load * x) - p[1] * y[0] ** 3))

        def ends(a, b, q):
            return np.array([a[0], b[0], a[1] - 3.0])

        found = solve_bvp(rod, ends, x, y, p=q, tol=1e-9)
        if not found.success:
            break
        x, y, q = found.x, found.y, found.p
        total = total + q[0] * found.sol(0.3)[0]
    return total


# --- minima ---------------------------------------------------------------------------------------

PLACES = np.array([[0.0, 0.0], [2.0, 0.3], [1.0, 1.7], [0.2, 1.1]])


def depot(p):
    """The place with the shortest ways; a callback keeps those on the way there."""
    trail = []

    def ways(x, sharp):
        far = np.sqrt(np.sum((PLACES - x) ** 2, axis=1) + sharp)
        return np.sum(p * far), (p / far) @ (x - PLACES)

    found = minimize(
        ways, [1.0, 1.0], args=(0.5,), jac=True, method="BFGS",
        callback=lambda x: trail.append(x.copy()), options={"gtol": 1e-10, "maxiter": 200},
    )  # fmt: skip
    return found.fun + found.x[0] - 0.5 * found.x[1] if len(trail) < 200 else np.nan


TRAIN = np.column_stack([np.ones(8), np.cos(np.arange(8)), np.sin(2.0 * np.arange(8))])
TARGET = np.array([1.2, 0.9, -0.2, -0.3, 0.4, 1.4, 1.2, 0.1])


def ridge(p):
    """A penalty by the error on other data: a fit in a search. The data are sought."""
    target = TARGET + p[0] * TRAIN[:, 1] + np.array([p[1], *np.zeros(7)])

    def fit(penalty):
        def loss(w):
            return np.sum((TRAIN[:5] @ w - target[:5]) ** 2) + penalty * (w[1] ** 2 + w[2] ** 2)

        def slope(w):
            return 2 * TRAIN[:5].T @ (TRAIN[:5] @ w - target[:5]) + 2 * penalty * w * [0, 1, 1]

        return minimize(loss, np.zeros(3), jac=slope, method="BFGS", options={"gtol": 1e-10}).x

    def outside(log_penalty):
        return np.sum((TRAIN[5:] @ fit(np.exp(log_penalty)) - target[5:]) ** 2)

    best = minimize_scalar(outside, bounds=(-4, 4), method="bounded", options={"xatol": 1e-9})
    return best.fun + 0.1 * best.x


def shares(p):
    """Of a portfolio: none below 0, not too much in two, and the return that is asked for."""
    mean, S = portfolio(p)
    constraints = [
        {"type": "eq", "fun": lambda w: np.sum(w) - 1},
        {"type": "ineq", "fun": lambda w, asked: w @ mean - asked, "args": (0.06,)},
        {"type": "ineq", "fun": lambda w: 0.7 - w[0] - w[1]},
    ]
    found = minimize(
        lambda w: 500 * w @ S @ w, [0.25] * 4, method="SLSQP", jac=lambda w: 1e3 * S @ w,
        bounds=[(0, None)] * 4, constraints=constraints, options={"ftol": 1e-15, "maxiter": 300},
    )  # fmt: skip
    return 0.1 * found.fun + found.x @ [1, 2, 3, 4]


def portfolio(p):
    return np.array([0.05, 0.08, 0.12, 0.03]) * p[0], np.diag([0.02, 0.05, 0.2, 0.01]) + 0.004 * p[
        1
    ]


def design(p):
    """A can of least cost that holds enough, by a method of inner points."""

    def cost(x):
        return p[0] * 2 * np.pi * x[0] ** 2 + 2 * np.pi * x[0] * x[1] + 0.1 * x[2] ** 2

    def slope(x):
        return np.array([4 * np.pi * p[0] * x[0] + 2 * np.pi * x[1], 2 * np.pi * x[0], 0.2 * x[2]])

    holds = NonlinearConstraint(lambda x: np.pi * x[0] ** 2 * x[1], p[1], p[1])
    extra = LinearConstraint([[1.0, 0.0, 1.0]], 2.0, 2.0)
    found = minimize(
        cost, [0.6, 1.0, 1.4], jac=slope, method="trust-constr", constraints=[holds, extra],
        options={"gtol": 1e-9, "xtol": 1e-10},
    )  # fmt: skip
    return found.x[0] + 2 * found.x[1] * found.x[2]


def quiet_rotor(p):
    """The speed of least vibration, by the other searches along a line."""
    seen = []

    def vibration(w, damping):
        seen.append(w)
        return (w - p[0]) ** 2 * (1 + 0.2 * np.sin(w)) + damping * np.exp(-0.3 * w)

    one = minimize_scalar(vibration, args=(p[1],), bracket=(0.0, 1.0), tol=1e-10).x
    two = optimize.fminbound(vibration, 0.0, 1.5, args=(p[1],), xtol=1e-10, disp=0)
    three = so.golden(vibration, args=(p[1],), brack=(0.0, 1.0), tol=1e-10)
    return one + 2 * two * three if len(seen) > 3 else 0.0


# --- fits, programs -------------------------------------------------------------------------------

HOURS = np.linspace(0.2, 3.0, 10)
LEVELS = 2.0 * np.exp(-0.8 * HOURS) + 0.3 + 0.05 * np.cos(9.0 * HOURS)


TIGHT = {"xtol": 1e-15, "ftol": 1e-15, "gtol": 1e-12}


def decay(t, a, k, c):
    return a * np.exp(-k * t) + c


def slopes_of_decay(t, a, k, c):
    e = np.exp(-k * t)
    return np.column_stack([e, -a * t * e, np.ones_like(t)])


def bootstrap(p):
    return spread_of_rates(p, lambda *args, **named: curve_fit(*args, **named))


def spread_of_rates(p, fit):
    """The spread of a rate over samples of residuals, drawn with a seed."""
    levels = LEVELS + p[0] * np.sin(HOURS)
    sigma = 0.05 + 0.02 * p[1] * HOURS
    best, covariance = fit(decay, HOURS, levels, p0=[1, 1, 0], sigma=sigma, **TIGHT)
    left, rng = levels - decay(HOURS, *best), np.random.default_rng(3)
    rates = []
    for _ in range(4):
        drawn = decay(HOURS, *best) + rng.permutation(left)
        found, _ = fit(decay, HOURS, drawn, p0=best, sigma=sigma, jac=slopes_of_decay, **TIGHT)
        rates.append(found[1])
    return 10 * np.std(rates) + np.sqrt(covariance[1, 1])


def bounded_fit(p):
    """A robust fit whose bounds are at its parameters for some data."""

    def misfit(x, levels):
        return decay(HOURS, *x) - levels

    def slopes(x, levels):
        return slopes_of_decay(HOURS, *x)

    found = least_squares(
        misfit, [1.0, 1.0, 0.1], bounds=([0.0, 0.1, 0.0], [np.inf, 3.0, 0.5]), loss="soft_l1",
        f_scale=0.3, args=(LEVELS * (1 + p[0] * HOURS) - p[1],), jac=slopes,
        x_scale=[1.0, 1.0, 0.3], **TIGHT,
    )  # fmt: skip
    on_bound = int(np.sum(found.active_mask != 0))
    return found.cost + found.x[0] * found.x[1] + found.x[2] + 0.5 * on_bound


def diet(p):
    """The cheapest meal; which foods are in it depends on prices."""
    prices = np.array([2.0, 3.0 * p[0], 1.5, 4.0])
    foods = np.array([[2.0, 4.0, 1.0, 5.0], [3.0, 1.0, 2.0, 4.0]])
    found = linprog(
        prices, A_ub=-foods, b_ub=[-10.0 * p[1], -8.0], A_eq=[[1, 1, 1, 1]], b_eq=[4.0],
        bounds=[(0, 3)] * 4, method="highs",
    )  # fmt: skip
    if found.status != 0:
        return 1e3
    return found.fun + found.x @ [1, 2, 3, 4] + np.sum(found.slack)


def unmixing(p):
    """How much of each mineral is in a spectrum: none less than 0."""
    waves = np.linspace(0, 1, 12)
    lines = np.stack(
        [np.exp(-((waves - m) ** 2) / (0.02 + 0.01 * p[0])) for m in (0.2, 0.5, 0.7)], 1
    )
    seen = np.exp(-((waves - 0.4) ** 2) / 0.05) * p[1] + 0.1 * np.sin(7 * waves)
    parts, norm = nnls(lines, seen)
    bounded = so.lsq_linear(lines, seen, bounds=(0.0, [0.4, 0.5, 0.6]), tol=1e-14).x
    return parts @ [1, 2, 3] + norm + bounded @ [3, 2, 1]


def epidemic(p):
    """A fit of an equation: what its parameters are for other counts."""
    weeks, sick = np.array([1.0, 2.0, 3.0, 4.0]), 0.02 * np.exp(p[1])
    seen = np.array([0.05, 0.12, 0.2, 0.18]) + 0.02 * p[0] * weeks * (5 - weeks) / 6

    def infected(t, beta, gamma):
        def sir(_, y):
            new = beta * y[0] * y[1]
            return [-new, new - gamma * y[1]]

        return solve_ivp(sir, (0, 4), [1 - sick, sick], t_eval=t, rtol=1e-10, atol=1e-11).y[1]

    (beta, gamma), _ = curve_fit(infected, weeks, seen, p0=[2.0, 0.7], xtol=1e-12, ftol=1e-12)
    return beta / gamma


def cubic_table(p):
    """A table that is made once, and read by a root, an integral and an equation."""
    table = CubicSpline([0.0, 1.0, 2.0, 3.0], [0.0, p[0], 1.5, 1.0 + p[1]])
    x = brentq(lambda x: table(x) - 1.0, 0.2, 2.0, xtol=1e-14)
    area = quad(table, 0, x, epsabs=1e-12)[0]
    found = integrate.solve_ivp(lambda t, y: table(t) - y, (0, 2.5), [0.2], rtol=1e-9, atol=1e-10)
    return x + area * found.y[0, -1]


def fixed_points(p):
    """A queue in a network, by iterations of other kinds."""
    load = p[0] * np.array([0.5, 0.3, 0.2])
    mix = np.array([[0.0, 0.4, 0.1], [0.2, 0.0, 0.3], [0.1, 0.2, 0.0]])
    rate = lambda x, scale: load + scale * np.tanh(mix @ x)
    one = so.fixed_point(rate, np.ones(3), args=(p[1],), xtol=1e-13, method="iteration")
    two = so.broyden1(lambda x: rate(x, p[1]) - x, np.ones(3), f_tol=1e-12)
    three = so.root(lambda x: rate(x, p[1]) - x, np.ones(3), method="lm", tol=1e-13)["x"]
    return np.sum(one * two) + three[0]


# --- the same by hand, for minima of which only half of the digits are found ----------------------


def ridge_by_hand(p):
    target = TARGET + p[0] * TRAIN[:, 1] + np.array([p[1], *np.zeros(7)])
    A, b, D = TRAIN[:5], target[:5], np.diag([0.0, 1.0, 1.0])

    def slope(log_penalty):
        M = A.T @ A + np.exp(log_penalty) * D
        w = np.linalg.solve(M, A.T @ b)
        moved = -np.exp(log_penalty) * np.linalg.solve(M, D @ w)
        return 2 * (TRAIN[5:] @ w - target[5:]) @ (TRAIN[5:] @ moved), w

    if slope(4.0)[0] < 0:
        best = 4.0
    else:
        best = brentq(lambda x: slope(x)[0], -4, 4, xtol=1e-14)
    return np.sum((TRAIN[5:] @ slope(best)[1] - target[5:]) ** 2) + 0.1 * best


def design_by_hand(p):
    def slope(r):
        return 4 * np.pi * p[0] * r - 2 * p[1] / r**2 - 0.2 * (2 - r)

    r = brentq(slope, 0.1, 2.0, xtol=1e-14)
    return r + 2 * p[1] / (np.pi * r**2) * (2 - r)


def quiet_rotor_by_hand(p):
    def slope(w):
        far = w - p[0]
        bent = 2 * far * (1 + 0.2 * np.sin(w)) + 0.2 * far**2 * np.cos(w)
        return bent - 0.3 * p[1] * np.exp(-0.3 * w)

    w = brentq(slope, 0.0, 1.5, xtol=1e-14)
    return w + 2 * w * w


def gauss_newton(f, t, levels, p0, sigma, **options):
    x, _ = curve_fit(f, t, levels, p0, sigma)
    for _ in range(20):
        J, r = slopes_of_decay(t, *x) / sigma[:, None], (levels - f(t, *x)) / sigma
        x = x + np.linalg.lstsq(J, r, rcond=None)[0]
    return x, np.linalg.inv(J.T @ J) * (r @ r) / (len(t) - 3)


def bootstrap_by_hand(p):
    return spread_of_rates(p, gauss_newton)


def shares_by_hand(p):
    """By the least risk for each choice of what is at its limit."""
    mean, S = portfolio(p)
    limits = [(mean, 0.06), (-np.array([1.0, 1, 0, 0]), -0.7), *zip(np.eye(4), np.zeros(4))]
    best = (np.inf, None)
    for number in range(4):
        for chosen in itertools.combinations(limits, number):
            A = np.array([np.ones(4), *[row for row, _ in chosen]])
            zero = np.zeros((len(A), len(A)))
            M, b = np.block([[S, A.T], [A, zero]]), [0, 0, 0, 0, 1, *[one for _, one in chosen]]
            w = np.linalg.lstsq(M, b, rcond=None)[0][:4]
            if all(row @ w >= one - 1e-9 for row, one in limits) and abs(w.sum() - 1) < 1e-9:
                best = min(best, (500 * w @ S @ w, tuple(w)))
    return 0.1 * best[0] + np.array(best[1]) @ [1, 2, 3, 4]


BY_HAND = {
    "bootstrap": bootstrap_by_hand,
    "shares": shares_by_hand,
    "ridge": ridge_by_hand,
    "design": design_by_hand,
    "quiet_rotor": quiet_rotor_by_hand,
}

POINTS = {
    "smile": [[0.0, 0.02, -0.3], [1.6, 0.05, 0.1], [0.8, 0.02, 0.2]],
    "pumping": [[3.0, 1.0], [0.4, 3.0], [0.1, 20.0]],
    "binding": [[0.5, -0.7, -0.2], [1.5, 0.4, 0.3], [-1.0, -2.0, 0.1]],
    "kepler": [[1.7, 0.3, 1.0], [1.1, 0.4, 0.5], [2.5, 0.05, 2.0]],
    "every_method": [[0.3, 1.0], [0.6, 2.0], [0.2, 0.5]],
    "market": [[1.0, 1.0, 0.5], [1.6, 0.8, -0.4], [0.7, 1.3, 1.0]],
    "supernovae": [[0.3, 0.68, 1.0], [0.3, 0.5, 0.9], [0.5, 0.8, 0.8]],
    "weights": [[0.7, 0.4], [1.3, -0.8], [0.5, 1.1]],
    "volumes": [[0.7, 0.9], [1.2, 0.6], [0.3, 1.1]],
    "rules": [[0.7, 1.1], [1.4, 0.6], [-0.3, 1.5]],
    "robertson": [[0.0, 0.0, 0.0], [0.3, -0.4, 0.2], [-0.5, 0.3, -0.2]],
    "bounces": [[2.0, 0.8, 0.02], [3.0, 0.5, 0.05], [1.0, 0.9, 0.1]],
    "doses": [[0.2, -1.5, 0.5], [0.6, -1.0, -1.0], [-0.2, -2.0, 1.2]],
    "cell": [[0.4, 0.3], [0.8, 0.1], [0.2, 1.0]],
    "shooting": [[1.0, 0.1], [2.0, 0.4], [0.3, -0.2]],
    "buckling": [[0.5, 0.3], [1.0, 0.0], [-0.4, 0.6]],
    "depot": [[1.0, 1.2, 0.8, 1.0], [0.5, 1.5, 1.0, 0.7], [1.0, 0.6, 1.4, 1.1]],
    "ridge": [[0.1, 0.2], [0.3, -0.3], [-0.2, 0.5]],
    "shares": [[1.0, 1.0], [0.75, -0.5], [1.5, 2.0]],
    "design": [[1.0, 1.5], [2.0, 1.0], [0.8, 2.5]],
    "quiet_rotor": [[0.8, 0.3], [1.1, 1.0], [0.5, 0.1]],
    "bootstrap": [[0.1, 1.0], [-0.2, 2.0], [0.05, 0.3]],
    "bounded_fit": [[0.0, 0.0], [0.05, 0.6], [0.1, -0.4]],
    "diet": [[0.8, 1.1], [1.2, 1.05], [2.0, 0.9]],
    "unmixing": [[0.5, 0.7], [1.5, 1.0], [0.2, 0.3]],
    "epidemic": [[0.0, 0.0], [1.0, 0.3], [-0.5, -0.3]],
    "cubic_table": [[0.7, 0.2], [1.2, -0.3], [0.4, 0.6]],
    "fixed_points": [[1.0, 0.8], [2.0, 0.5], [0.4, 1.2]],
}
