"""Functions whose programs have steps of every kind, with arguments: for tests of files."""

import numpy as np
from compiled import by_ways

import tapegrad as tg
import tapegrad.numpy as tnp
from tapegrad._flow.reading.readings import Reading
from tapegrad._program.dispatch.evaluation import Compilation
from tapegrad._program.dispatch.flows import Flow
from tapegrad._program.passes.memory_reuse import LARGE

A = np.linspace(-1.0, 1.5, 30).reshape(5, 6)
X = np.array([0.3, -0.7, 1.1, 0.2, -0.4, 0.9, -1.2, 0.5, 1.7, -0.1, 0.8, 0.6])


def rosenbrock(x):
    return np.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def recurrence(x):
    f, s = np.zeros_like(x), 0.0
    for i in range(1, len(x)):
        f[i] = x[i] * 0.5 + f[i - 1]
        s = s + np.sin(f[i]) if f[i] > 0.3 else s - f[i] / 3
    return s + np.sum(np.tanh(f))


def products(x):
    return np.sum(np.tanh(x @ A.T) @ A * 0.1) + np.sum(np.einsum("ij,kj->ik", x, x) ** 2)


def along(x):
    y = x.reshape(3, 4)
    total = tg.logsumexp(x) + np.sum(tg.softmax(y, axis=1) ** 2) + np.sum(tg.log_softmax(x))
    return total + np.sum(np.cumsum(x) ** 2) + np.prod(x[:4]) + np.max(y, axis=0).sum()


def picked(x):
    mask = x > 0
    return np.sum(x[mask] ** 2) + np.sum(x[np.argsort(x)[:3]]) + x[np.argmax(x)] * np.median(x)


def written(x):
    y = np.zeros_like(x)
    y[np.argsort(x)[:4]] = x[:4] * 2.0
    y[x > 0] += 1.5
    return np.sum(y * y * x)


def stencil(u):
    for _ in range(4):
        inner = u[1:-1] + 0.2 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = np.concatenate((u[:1], inner, u[-1:]))
    return np.sum(u * u)


def spread(x):
    return np.sum((x[:, None] - x[None, :]) ** 2 * 0.5) + np.sum(np.pad(x, 2, mode="edge"))


def bisection(a):
    low, high = 0.0, 3.0 + 0.0 * a
    for _ in range(5):
        middle = (low + high) / 2
        low, high = (low, middle) if middle * middle > abs(a) else (middle, high)
    return (low + high) / 2 * a


def feedback(x):
    a = x[0]
    for _ in range(3):
        a = a * x[1] + np.sin(a)
    return a


def large(x):
    return np.sum(np.exp(-x * x) * np.where(x > 0.1, x, 0.5))


def structured(model, scale=2.0):
    return scale * np.sum(model["w"] * model["b"][1]) + model["b"][0]


def turned(x):
    y = np.sin(x)
    y.reshape(-1)[:4] = x[0, :4] ** 2  # a copy of what is in Fortran order
    return np.sum(y * x)


def factored(x):
    """Operations by rule: with several matrices, a keyword argument, and a vector."""
    a = np.outer(x[:3], x[:3]) + 3.0 * np.eye(3)
    factor = np.linalg.cholesky(np.stack([a, 2.0 * a]), upper=True)
    return (
        np.sum(np.sin(factor))
        + np.sum(np.linalg.solve(factor, x[:3]))
        + np.sum(np.linalg.solve(a, factor) ** 2)
    )


MODEL = {"w": X, "b": (0.5, X[::-1].copy())}
FUNCTIONS = {
    rosenbrock: (X,),
    recurrence: (X,),
    products: (A.copy(),),
    along: (X,),
    picked: (X,),
    written: (X,),
    stencil: (np.linspace(0.0, 1.0, 40) ** 2,),
    spread: (X,),
    bisection: (0.7,),
    feedback: (X[:3],),
    large: (np.linspace(-1.0, 1.0, LARGE),),
    structured: (MODEL,),
    turned: (np.array(A, order="F"),),
    factored: (X,),
}
#: Their Hessians are saved too.
WITH_HESSIAN = (feedback,)


# --- functions with graphs ------------------------------------------------------------------------


def robust(p, x, y):
    """Branches in a loop over data of any length."""
    total = 0.0
    for i in range(len(x)):
        r = abs(y[i] - p[0] * np.exp(-p[1] * x[i]))
        total = total + (r * r if r < 1.0 else 2.0 * r - 1.0)
    return total


def newton(a):
    """Rounds until a tolerance is reached."""
    x = 1.0 + 0.0 * a
    while abs(x * x - a) > 1e-12:
        x = 0.5 * (x + a / x)
    return x


def gathered(x, shift):
    """Lists filled in loops, sorted by sign."""
    low, high = [], []
    for v in x:
        if v < 0:
            low.append(v * shift)
        else:
            high.append(np.sin(v) + len(low))
    return sum(low) + sum([h * h for h in high]) + 2.0 * len(high)


def looked_up(x, places):
    """Numbers from outside, at places that are data."""
    total = 0.0
    for i in range(len(x)):
        k = int(places[i])
        total = total + (X[k] * x[i] if x[i] < 1.0 else x[i] * x[i])
    return total


def described(x, scale):
    """Several numbers and an array in a dict."""
    count, largest, total = 0, x[0], 0.0
    for v in x:
        if v > largest:
            largest = v
        if v > 0:
            count += 1
            total = total + v * scale
    return {"total": total, "largest": [largest, "x"], "count": count, "squares": x * x * total}


def cut(x, most):
    """An array, and a number."""
    made, count = tnp.zeros(len(x)), 0.0 * x[0]
    for i in range(len(x)):
        if x[i] > most:
            made[i] = most + 0.1 * (x[i] - most) ** 2
            count = count + x[i]
        else:
            made[i] = x[i] * x[0]
    return made * 2.0, count


def stepped(x, n):
    """The number of rounds is an argument; a negative one raises."""
    if n < 0:
        raise ValueError("n is negative")
    k = 0.0
    while k < n:
        x, k = (x * 0.5 + 1.0, k + 1.0) if x > 1.0 else (x * x + 0.25, k + 1.0)
    return x


_RNG = np.random.default_rng(11)


def _robust(n):
    return _RNG.normal(size=2), _RNG.normal(size=n), 2.0 * _RNG.normal(size=n)


#: By function argnums and calls that take different ways; the first ones of two are made before it
#: is saved.
GRAPHS = {
    robust: (0, [_robust(n) for n in (4, 4, 5, 0, 1, 13)]),
    newton: (0, [(a,) for a in (2.0, 50.0, 3.0, 0.01)]),
    gathered: ((1, 0), [(_RNG.normal(size=6), s) for s in (1.5, -0.5, 0.2, 3.0)]),
    looked_up: (0, [(_RNG.normal(size=5), _RNG.integers(0, 12, size=5)) for _ in range(5)]),
    cut: (0, [(_RNG.normal(size=5), s) for s in (0.5, -0.5, 0.2, 3.0)]),
    described: (0, [(_RNG.normal(size=5), s) for s in (1.5, -0.5, 0.2, 3.0)]),
    stepped: (0, [(0.7, 2.0), (1.9, 5.0), (0.3, 11.0), (1.1, 0.0)]),
}


def with_graph(f):
    """The function compiled, with a graph, and its calls."""
    argnums, calls = GRAPHS[f]
    made = tg.compile(f, argnums=argnums, native=False)
    for args in calls[:3]:
        made(*args)
    assert made._flows.found, made._flows.refused
    return made, calls


def of_graph(graph, arguments, form):
    """What files hold of a function of floats and arrays of fixed lengths, with this graph."""
    pairs = zip(graph.inputs, arguments, strict=True)
    parts = [(None, ("<f8", np.shape(value), one.differentiated)) for one, value in pairs]
    flow = Flow(Reading(graph, form, [], []), (len(parts), *parts))
    wanted = tuple([k for k, one in enumerate(graph.inputs) if one.differentiated])
    return Compilation("graph", "value", wanted, len(wanted) == 1, {}, {}, graphs=(flow,))


# --- functions with programs of one way -----------------------------------------------------------


def compiled(f):
    """The function compiled, called with its arguments and with others near."""
    made = by_ways(tg.compile(f, verify="never"))  # files hold programs of one way each
    for factor in (1.0, 0.9):
        made.value_and_grad(*near(FUNCTIONS[f], factor))
    if f in WITH_HESSIAN:
        made.hessian(*FUNCTIONS[f])
    return made


def near(tree, factor):
    """The same structure with other numbers."""
    if isinstance(tree, dict):
        return {key: near(item, factor) for key, item in tree.items()}
    if isinstance(tree, tuple):
        return tuple(near(item, factor) for item in tree)
    return tree * factor
