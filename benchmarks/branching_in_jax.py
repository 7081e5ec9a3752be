"""The functions of `branching_workloads` as they are written in JAX.

`where` in place of `if`, over whole arrays; `scan` where a round needs the round before, and
`while_loop` where the number of rounds is not known. JAX has no reverse mode through `while_loop`,
so those take forward mode. Collisions of discs one after the other have no natural form.
"""

import contextlib
import functools

from benchmarks.branching_workloads import SIZES, WORKLOADS

with contextlib.suppress(ImportError):  # asv imports every module
    import jax
    import jax.numpy as jnp


def robust(p, x, y):
    error = jnp.abs(y - p[0] * x - p[1])
    return jnp.where(error < 1, error**2, 2 * error - 1).sum()


def regimes(mean, low, high, returns):
    r = returns - mean
    below = -0.5 * (r / low) ** 2 - jnp.log(low * low)
    above = -0.5 * (r / high) ** 2 - jnp.log(high * high) + 0.1 * r
    return jnp.where(r < 0, below, above).sum()


def huber(weights, X, y):
    r = y - X @ weights
    return jnp.where(jnp.abs(r) <= 0.8, 0.5 * r * r, 0.8 * (jnp.abs(r) - 0.4)).sum() / len(y)


def dtw(a, b, x, y):
    def row(above, xi):
        def cell(left, operands):
            up, corner, d = operands
            new = d + jnp.minimum(jnp.minimum(up, left), corner)
            return new, new

        _, cells = jax.lax.scan(cell, 1e30, (above[1:], above[:-1], (xi - a * y - b) ** 2))
        return jnp.concatenate([jnp.array([1e30]), cells]), None

    start = jnp.full(len(y) + 1, 1e30).at[0].set(0.0)
    return jax.lax.scan(row, start, x)[0][-1]


def american_put(spot, volatility, rate, steps=50):
    dt, strike = 1.0 / steps, 1.0
    up = jnp.exp(volatility * jnp.sqrt(dt))
    p = (jnp.exp(rate * dt) - 1 / up) / (up - 1 / up)
    discount, j = jnp.exp(-rate * dt), jnp.arange(steps + 1)
    values = jnp.maximum(strike - spot * up ** (2.0 * j - steps), 0.0)

    def back(values, i):
        held = discount * (p * jnp.roll(values, -1) + (1 - p) * values)
        exercised = strike - spot * up ** (2.0 * j - i)
        return jnp.where(j <= i, jnp.maximum(held, exercised), 0.0), None

    return jax.lax.scan(back, values, jnp.arange(steps - 1, -1, -1))[0][0]


def metropolis(start, step, normals, uniforms):
    def energy_of(q):
        return q**2 + 0.5 * jnp.sin(3.0 * q)

    def move(state, draw):
        q, energy, total = state
        proposal = q + step * draw[0]
        other = energy_of(proposal)
        accepted = draw[1] < jnp.exp(jnp.minimum(energy - other, 0.0))
        q, energy = jnp.where(accepted, proposal, q), jnp.where(accepted, other, energy)
        return (q, energy, total + q * energy), None

    first = (start, start * start, 0.0 * start)
    return jax.lax.scan(move, first, (normals, uniforms))[0][2] / len(normals)


def bubble_sort(a, b, x):
    return jnp.sum((1.0 + jnp.arange(len(x))) * jnp.sort(a * x + b * x * x))


def bouncing_ball(height, speed, restitution):
    g, end = 9.81, 3.0

    def of(state):
        return (state[1] + jnp.sqrt(state[1] ** 2 + 2 * g * state[0])) / g

    def goes_on(state):
        _, speed, t, bounces = state
        rests = (bounces > 0) & ((speed < 0.5) | (bounces == 12))
        return (t + of(state) <= end) & ~rests & (t < end)

    def bounce(state):
        height, speed, t, bounces = state
        flight = of(state)
        return 0.0 * height, restitution * (g * flight - speed), t + flight, bounces + 1

    state = jax.lax.while_loop(goes_on, bounce, (height, speed, 0.0 * height, 0))
    height, speed, t, bounces = state
    rests = (bounces > 0) & ((speed < 0.5) | (bounces == 12))
    falls = (t < end) & (t + of(state) > end)
    at_end = height + speed * (end - t) - 0.5 * g * (end - t) ** 2
    return jnp.where(rests, speed * t, jnp.where(falls, at_end, height))


def rk45(start, mu, end=1.5, tolerance=1e-4):
    def rates(y):
        return jnp.array([y[1], mu * (1 - y[0] ** 2) * y[1] - y[0]])

    def step(state):
        t, h, y, k1 = state
        h = jnp.minimum(h, end - t)
        k2 = rates(y + h * k1 / 5)
        k3 = rates(y + h * (3 * k1 / 40 + 9 * k2 / 40))
        k4 = rates(y + h * (44 * k1 / 45 - 56 * k2 / 15 + 32 * k3 / 9))
        k5 = rates(
            y + h * (19372 * k1 / 6561 - 25360 * k2 / 2187 + 64448 * k3 / 6561 - 212 * k4 / 729)
        )
        k6 = rates(
            y + h * (9017 * k1 / 3168 - 355 * k2 / 33 + 46732 * k3 / 5247 + 49 * k4 / 176
                     - 5103 * k5 / 18656)
        )  # fmt: skip
        new = y + h * (35 * k1 / 384 + 500 * k3 / 1113 + 125 * k4 / 192 - 2187 * k5 / 6784
                       + 11 * k6 / 84)  # fmt: skip
        k7 = rates(new)
        error = h * (71 * k1 / 57600 - 71 * k3 / 16695 + 71 * k4 / 1920 - 17253 * k5 / 339200
                     + 22 * k6 / 525 - k7 / 40)  # fmt: skip
        norm = jnp.max(jnp.abs(error)) / tolerance
        taken = norm <= 1
        t, y, k1 = jnp.where(taken, t + h, t), jnp.where(taken, new, y), jnp.where(taken, k7, k1)
        return t, h * jnp.clip(0.9 * (norm + 1e-12) ** -0.2, 0.2, 4.0), y, k1

    first = (0.0, 0.3, start, rates(start))
    y = jax.lax.while_loop(lambda state: state[0] < end, step, first)[2]
    return y[0] + 0.5 * y[1]


def newton(a, b):
    def residual(x):
        return x**3 - a * a - jnp.exp(b)

    def step(x):
        return x - residual(x) / (3 * x**2)

    return b * jax.lax.while_loop(lambda x: jnp.abs(residual(x)) > 1e-9, step, 1.0 + a * a)


def bisection(a, b):
    def halved(ends):
        low, high = ends
        middle = 0.5 * (low + high)
        above = middle**3 + a * a * middle > b
        return jnp.where(above, low, middle), jnp.where(above, middle, high)

    first = (-10.0 - a * a, 10.0 + b * b)
    low, high = jax.lax.while_loop(lambda ends: ends[1] - ends[0] > 1e-6, halved, first)
    return low + 0.01 * a * high


def value_iteration(rewards, transitions, discount):
    def improved(state):
        values, _, rounds = state
        new = jnp.max(rewards + discount * (transitions @ values), axis=1)
        return new, jnp.max(jnp.abs(new - values)), rounds + 1

    def goes_on(state):
        return (state[1] > 1e-3) & (state[2] < 200)

    first = (jnp.zeros(len(rewards)), 1.0, 0)
    return jnp.sum(jax.lax.while_loop(goes_on, improved, first)[0])


def reverse(f, argnums):
    """Return value and gradient by reverse mode."""
    return jax.jit(jax.value_and_grad(f, argnums))


def forward(f, argnums):
    """Return value and gradient by forward mode, which goes through `while_loop`."""
    gradient = jax.jacfwd(f, argnums)
    return jax.jit(lambda *args: (f(*args), gradient(*args)))


_REVERSE = {
    "dtw_of_minimum": dtw,
    **{f"robust_{n}": robust for n in SIZES},
    **{f.__name__: f for f in (regimes, huber, dtw, american_put, metropolis, bubble_sort)},
}
_FORWARD = {f.__name__: f for f in (bouncing_ball, rk45, newton, bisection, value_iteration)}


@functools.cache
def forms():
    """Return workload → function of value and gradient."""
    jax.config.update("jax_enable_x64", True)
    return {
        **{name: reverse(f, WORKLOADS[name].argnums) for name, f in _REVERSE.items()},
        **{name: forward(f, WORKLOADS[name].argnums) for name, f in _FORWARD.items()},
    }
