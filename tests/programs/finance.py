"""Prices, yields and books."""

import tapegrad.math as math
import tapegrad.numpy as np


def norm_cdf(x):
    return 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))


def black_scholes(inputs, kind="call"):
    spot, strike, rate, sigma, expiry = inputs
    if expiry <= 0:
        return max(spot - strike, 0.0)
    d1 = (math.log(spot / strike) + (rate + 0.5 * sigma**2) * expiry) / (sigma * math.sqrt(expiry))
    d2 = d1 - sigma * math.sqrt(expiry)
    call = spot * norm_cdf(d1) - strike * math.exp(-rate * expiry) * norm_cdf(d2)
    if kind == "call":
        return call
    return call - spot + strike * math.exp(-rate * expiry)


def american_put(inputs, steps=12):
    """Cox-Ross-Rubinstein tree, lists of floats rolled back in place."""
    s, k, r, sigma = inputs
    dt = 1.0 / steps
    u = math.exp(sigma * math.sqrt(dt))
    d = 1 / u
    p = (math.exp(r * dt) - d) / (u - d)
    values = [max(k - s * u**j * d ** (steps - j), 0.0) for j in range(steps + 1)]
    for i in range(steps - 1, -1, -1):
        for j in range(i + 1):
            hold = math.exp(-r * dt) * (p * values[j + 1] + (1 - p) * values[j])
            exercise = k - s * u**j * d ** (i - j)
            values[j] = max(hold, exercise)
    return values[0]


def yield_to_maturity(inputs):
    """Newton's method on the price of a bond."""
    price, coupon = inputs
    y = 0.05
    while True:
        value, slope = 0.0, 0.0
        for year in range(1, 6):
            cash = coupon + (100.0 if year == 5 else 0.0)
            value += cash / (1 + y) ** year
            slope -= year * cash / (1 + y) ** (year + 1)
        step = (value - price) / slope
        y = y - step
        if abs(step) < 1e-13:
            return y


NORMALS = np.array(
    [
        [0.3, -1.2, 0.8, 0.1],
        [-0.5, 0.4, -0.2, 1.6],
        [1.1, 0.9, -0.7, -0.3],
        [-1.4, -0.1, 0.6, -0.9],
        [0.0, 2.1, -1.0, 0.5],
    ]
)


def asian_option(market):
    """Monte Carlo with draws that are given."""
    dt = 0.25
    drift = (market["rate"] - 0.5 * market["vol"] ** 2) * dt
    growth = np.exp(drift + market["vol"] * np.sqrt(dt) * NORMALS)
    paths = market["spot"] * np.cumprod(growth, axis=1)
    payoff = np.maximum(paths.mean(axis=1) - market["strike"], 0)
    knocked = paths.min(axis=1) < 60.0
    payoff[knocked] = 0.0
    return np.exp(-market["rate"]) * payoff.mean()


BRACKETS = [(10_000.0, 0.0), (30_000.0, 0.2), (80_000.0, 0.35), (float("inf"), 0.45)]


def income_tax(income):
    tax, lower = 0.0, 0.0
    for upper, rate in BRACKETS:
        if income <= lower:
            break
        tax += (min(income, upper) - lower) * rate
        lower = upper
    return round(tax, 2) * 0.0 + tax


def household_tax(incomes):
    """Split, credit, early return."""
    if len(incomes) == 0:
        return 0.0
    total = sum(incomes)
    half = 2 * income_tax(total / 2)
    single = sum(income_tax(i) for i in incomes)
    due = min(half, single)
    if due < 500:
        return 0.1 * due
    return due - 500


class Account:
    """A book with costs: weights in, wealth out."""

    def __init__(self, cash, fee=0.002):
        self.cash = cash
        self.fee = fee
        self.units = {}
        self.history = []

    def value(self, prices):
        return self.cash + sum(n * prices[name] for name, n in self.units.items())

    def rebalance(self, prices, weights):
        wealth = self.value(prices)
        for name, weight in weights.items():
            held = self.units.get(name, 0.0)
            wanted = weight * wealth / prices[name]
            trade = wanted - held
            self.cash -= trade * prices[name]
            self.cash -= self.fee * abs(trade) * prices[name]
            self.units[name] = wanted
        self.history.append(self.value(prices))


def strategy(weights):
    """Final log wealth less a penalty for the deepest drawdown."""
    stock = [100.0, 108.0, 97.0, 104.0, 121.0, 93.0, 99.0]
    bond = [50.0, 50.4, 50.9, 50.7, 51.5, 51.9, 52.0]
    book = Account(1.0)
    for day in range(len(stock)):
        tilt = weights["momentum"] if day > 0 and stock[day] > stock[day - 1] else 0.0
        book.rebalance(
            {"stock": stock[day], "bond": bond[day]},
            {"stock": weights["stock"] + tilt, "bond": weights["bond"]},
        )
    wealth = np.array(book.history)
    peak = np.maximum.accumulate(wealth)
    drawdown = np.max(1 - wealth / peak)
    return math.log(wealth[-1]) - 2.0 * drawdown


RETURNS = [0.011, -0.024, 0.003, 0.017, -0.031, 0.008, 0.002, -0.012]


def garch_loglik(theta):
    omega, alpha, beta = theta
    if alpha + beta >= 1:
        return -1e6 * (alpha + beta)
    variances = [np.var(RETURNS)]
    for r in RETURNS[:-1]:
        variances.append(omega * 1e-4 + alpha * r**2 + beta * variances[-1])
    h = np.array(variances)
    r = np.array(RETURNS)
    return -0.5 * np.sum(np.log(2 * np.pi * h) + r**2 / h)


def swap_value(par_rates):
    """Bootstrap a discount curve from par swap rates, then price between its nodes."""
    n = len(par_rates)
    discount = np.empty(n + 1)
    discount[0] = 1.0
    for i in range(n):
        annuity = np.sum(discount[1 : i + 1])
        discount[i + 1] = (1 - par_rates[i] * annuity) / (1 + par_rates[i])
    times = np.arange(n + 1)
    halves = np.arange(0.5, n, 0.5)
    log_df = np.interp(halves, times, np.log(discount))
    forwards = -np.diff(np.concatenate([[0.0], log_df])) / 0.5
    fixed = np.full_like(halves, 0.03)
    return np.sum((forwards - fixed) * 0.5 * np.exp(log_df)) * 100
