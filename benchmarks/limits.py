"""The limit: value and gradient of workloads written out by hand as loops compiled by Numba.

Each is what one would write who differentiates on paper: no tape, nothing computed twice that can
be kept in a register, memory only for what the way back needs. `LIMITS[workload]` is a builder like
those of peer_forms.py. Black-Scholes calls the vector forms of log, exp and erf that tapegrad's own
kernels call (glibc's libmvec, where it is), so both stand on the same mathematics.
"""

import ctypes
import functools

import numpy as np
from numba import njit

from benchmarks import workload_definitions as definitions
from tapegrad._core.codegen import vector_math
from tapegrad._core.codegen.factory import compile_source

#: Sums may be taken in any order, as several lanes of one register. Numba's files call vector
#: functions by name: a process without these must not load them.
_LANES = {
    "error_model": "numpy",
    "fastmath": {"reassoc", "contract", "nsz"},
    "cache": bool(vector_math.variants()),
}

#: Workload → builder of a call that returns (value, gradients).
LIMITS = {}


def limit(build):
    """Register a builder of (compiled function, arguments) under its own name.

    The function takes the arguments, then an array for each gradient, and returns the value.
    """

    def prepared():
        function, arguments = build()
        found = [np.empty(a.shape) for a in arguments]

        def call():
            return function(*arguments, *found), found

        return call

    LIMITS[build.__name__] = prepared
    return build


@njit(**_LANES)
def lorenz_slopes(x, y, z, s, r, b):
    """Return the right-hand sides."""
    return s * (y - x), x * (r - z) - y, x * y - b * z


@njit(**_LANES)
def lorenz_back(x, y, z, s, r, b, u, v, w):
    """Return the adjoints of the six operands of `lorenz_slopes` from those of its results."""
    return (
        (r - z) * v + y * w - s * u,
        s * u - v + x * w,
        -x * v - b * w,
        (y - x) * u,
        x * v,
        -z * w,
    )


@njit(**_LANES)
def lorenz_stages(x, y, z, s, r, b, h):
    """Return the points at which a step takes the slopes, and the slopes there."""
    a0, a1, a2 = lorenz_slopes(x, y, z, s, r, b)
    p0, p1, p2 = x + h / 2 * a0, y + h / 2 * a1, z + h / 2 * a2
    b0, b1, b2 = lorenz_slopes(p0, p1, p2, s, r, b)
    q0, q1, q2 = x + h / 2 * b0, y + h / 2 * b1, z + h / 2 * b2
    c0, c1, c2 = lorenz_slopes(q0, q1, q2, s, r, b)
    t0, t1, t2 = x + h * c0, y + h * c1, z + h * c2
    d0, d1, d2 = lorenz_slopes(t0, t1, t2, s, r, b)
    points = (p0, p1, p2, q0, q1, q2, t0, t1, t2)
    return points, a0 + 2 * (b0 + c0) + d0, a1 + 2 * (b1 + c1) + d1, a2 + 2 * (b2 + c2) + d2


@njit(**_LANES)
def lorenz_gradient(p, found, steps, h, states):
    """Forward, keeping the state before each step; back, computing the stages of it again."""
    x, y, z, s, r, b = p
    for i in range(steps):
        states[i, 0], states[i, 1], states[i, 2] = x, y, z
        _, e0, e1, e2 = lorenz_stages(x, y, z, s, r, b, h)
        x, y, z = x + h / 6 * e0, y + h / 6 * e1, z + h / 6 * e2
    value = x * x + y * y + z * z
    u, v, w, gs, gr, gb = 2 * x, 2 * y, 2 * z, 0.0, 0.0, 0.0
    for i in range(steps - 1, -1, -1):
        x, y, z = states[i, 0], states[i, 1], states[i, 2]
        (p0, p1, p2, q0, q1, q2, t0, t1, t2), _, _, _ = lorenz_stages(x, y, z, s, r, b, h)
        k, m = h / 6, h / 3
        d0, d1, d2, ds, dr, db = lorenz_back(t0, t1, t2, s, r, b, k * u, k * v, k * w)
        j0, j1, j2 = m * u + h * d0, m * v + h * d1, m * w + h * d2
        c0, c1, c2, cs, cr, cb = lorenz_back(q0, q1, q2, s, r, b, j0, j1, j2)
        j0, j1, j2 = m * u + h / 2 * c0, m * v + h / 2 * c1, m * w + h / 2 * c2
        b0, b1, b2, bs, br, bb = lorenz_back(p0, p1, p2, s, r, b, j0, j1, j2)
        j0, j1, j2 = k * u + h / 2 * b0, k * v + h / 2 * b1, k * w + h / 2 * b2
        a0, a1, a2, as_, ar, ab = lorenz_back(x, y, z, s, r, b, j0, j1, j2)
        u, v, w = u + a0 + b0 + c0 + d0, v + a1 + b1 + c1 + d1, w + a2 + b2 + c2 + d2
        gs, gr, gb = gs + as_ + bs + cs + ds, gr + ar + br + cr + dr, gb + ab + bb + cb + db
    found[0], found[1], found[2], found[3], found[4], found[5] = u, v, w, gs, gr, gb
    return value


@limit
def lorenz():
    """Runge-Kutta steps with their adjoints; 24 bytes are kept for a step."""
    steps, h = definitions.LORENZ_STEPS, definitions.LORENZ_H
    states = np.empty((steps, 3))
    return lambda p, g: lorenz_gradient(p, g, steps, h, states), definitions.lorenz().arguments


@njit(**_LANES)
def square_gradient(x, found):
    """One pass over the cells."""
    total = 0.0
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            total += x[i, j] * x[i, j]
            found[i, j] = 2 * x[i, j]
    return total


@limit
def loop_square():
    """The sum of squares and twice the cells."""
    return square_gradient, definitions.loop_square().arguments


#: Numba has no vector functions of its own, so this is compiled as kernels are.
_PRICES = """
from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.intrinsics import f64s, helper, sum_of, unaliased


@helper
def greeks(spot, strike, time, volatility, to_spot, to_strike, to_time, to_volatility, n):
    unaliased()
    rate, scale, density = 0.03, 0.7071067811865476, 0.3989422804014327
    total = 0.0
    for i in range(n):
        s, k, t, v = spot[i], strike[i], time[i], volatility[i]
        root = np.sqrt(t)
        d1 = (np.log(s / k) + (rate + 0.5 * v * v) * t) / (v * root)
        n1 = 0.5 * (1.0 + np.erf(d1 * scale))
        n2 = 0.5 * (1.0 + np.erf((d1 - v * root) * scale))
        discount = np.exp(-rate * t)
        peak = s * np.exp(-0.5 * d1 * d1) * density
        total = sum_of(total, s * n1 - k * discount * n2)
        to_spot[i] = n1
        to_strike[i] = -discount * n2
        to_time[i] = peak * v / (2.0 * root) + rate * k * discount * n2
        to_volatility[i] = peak * root
    return total


def prices(a, b, c, d, e, f, g, h, n):
    return greeks(f64s(a), f64s(b), f64s(c), f64s(d), f64s(e), f64s(f), f64s(g), f64s(h), n)
"""


@functools.cache
def _prices():
    words = [ctypes.c_int64] * 9
    signature = f"float64({', '.join(['int64'] * 9)})"
    address = compile_source(_PRICES, {"prices": signature})["prices"]
    return ctypes.CFUNCTYPE(ctypes.c_double, *words)(address)


def prices_gradient(*arrays):
    """One pass over the options, with the partial derivatives known as the Greeks."""
    return _prices()(*[one.ctypes.data for one in arrays], arrays[0].size)


@limit
def black_scholes():
    """The price and its four Greeks."""
    return prices_gradient, definitions.black_scholes().arguments


@njit(**_LANES)
def chain_round(a, x, y):
    """Return the end of four operations, and what their partial derivatives are made of."""
    c = a * y + x
    inverse = 1.0 / (1.0 + c * c)
    return c * c * inverse, 2.0 * c * inverse * inverse


@njit(**_LANES)
def chain_gradient(x, y, to_x, to_y):
    """One pass over the elements; all five rounds stay in registers."""
    total = 0.0
    for i in range(x.size):
        u, v = x[i], y[i]
        a1, s1 = chain_round(u, u, v)
        a2, s2 = chain_round(a1, u, v)
        a3, s3 = chain_round(a2, u, v)
        a4, s4 = chain_round(a3, u, v)
        a5, s5 = chain_round(a4, u, v)
        g4 = s5 * v * s4
        g3 = g4 * v * s3
        g2 = g3 * v * s2
        g1 = g2 * v * s1
        total += a5
        to_x[i] = s5 + g4 + g3 + g2 + g1 + g1 * v
        to_y[i] = s5 * a4 + g4 * a3 + g3 * a2 + g2 * a1 + g1 * u
    return total


@limit
def chain():
    """All rounds of an element forward and back before the next element."""
    return chain_gradient, definitions.chain().arguments


@njit(**_LANES)
def rosenbrock_gradient(x, found):
    """One pass over the neighbours."""
    value = 0.0
    found[:] = 0.0
    for i in range(x.size - 1):
        d, e = x[i + 1] - x[i] * x[i], 1.0 - x[i]
        value += 100.0 * d * d + e * e
        found[i] -= 400.0 * d * x[i] + 2.0 * e
        found[i + 1] += 200.0 * d
    return value


@limit
def small():
    """Rosenbrock's function; nearly all of its time is the call from Python."""
    return rosenbrock_gradient, definitions.small().arguments


@njit(**_LANES)
def diffuse(u, w, first, last, k):
    """Put one step of the heat equation into the cells of `w` between two cells."""
    for i in range(last - first):
        j = first + i
        w[j] = u[j] + k * (u[j + 1] - 2.0 * u[j] + u[j - 1])


@njit(**_LANES)
def heat_gradient(start, found, steps, k, other):
    """The stencil forward, then its transpose; it is linear, so nothing is kept."""
    n = start.size
    u, w = found, other
    u[:] = start
    for _ in range(steps):
        w[0], w[n - 1] = u[0], u[n - 1]
        diffuse(u, w, 1, n - 1, k)
        u, w = w, u
    value = 0.0
    for i in range(n):
        value += u[i] * u[i]
        u[i] *= 2.0
    for _ in range(steps):
        w[0], w[1] = u[0] + k * u[1], (1.0 - 2.0 * k) * u[1] + k * u[2]
        diffuse(u, w, 2, n - 2, k)
        w[n - 2] = (1.0 - 2.0 * k) * u[n - 2] + k * u[n - 3]
        w[n - 1] = u[n - 1] + k * u[n - 2]
        u, w = w, u
    return value


@limit
def heat():
    """Two rows of cells, taken in turns; after twice as many steps the last is the gradient."""
    steps, k = definitions.HEAT_STEPS, definitions.HEAT_K
    (start,) = definitions.heat().arguments
    other = np.empty(start.size)
    return lambda u, g: heat_gradient(u, g, steps, k, other), (start,)
