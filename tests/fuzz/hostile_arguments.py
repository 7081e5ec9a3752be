"""Arguments of every wrong sort, for functions that take none of them (see hostile_calls.py)."""

import contextlib

import numpy as np

import tapegrad as tg

V = np.array([0.72, -1.2, 1.9, 0.4, -0.3])
ERRORS = (
    ArithmeticError,
    AttributeError,
    IndexError,
    KeyError,
    MemoryError,
    NotImplementedError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)


def leaf(values=V):
    return tg.tensor(values, requires_grad=True)


def curve(x):
    return np.sum(np.sin(x) * x) + x[0] * x[1]


compiled = tg.compile(curve)
STRANGE = [
    None,
    "text",
    b"",
    object(),
    [[1.0], [1.0, 2.0]],
    {},
    (),
    [],
    set(),
    1j,
    np.nan,
    10**400,
    True,
    np.zeros(0),
    np.zeros((3, 0)),
    np.zeros((0, 2, 2)),
    np.array(2.0),
    np.array("a"),
    np.int8(3),
    np.array([1 + 2j]),
    np.array([None, 1.0], object),
    np.ones(3, "f4"),
    np.ones(3, "f2"),
    np.broadcast_to(1.0, (3, 1 << 42)),
    np.ma.masked_array(V, V > 0),
    V[::-1],
    V[:0],
    V.astype(">f8"),
    np.frombuffer(bytes(41), np.uint8)[1:].view(np.float64),
    lambda x: x,
    np.sum,
    type,
    ...,
    slice(3),
    {"a": V, "b": [V, (1.0, None)]},
    [V, V],
    range(3),
    np.datetime64("2026-01-01"),
]
FUNCTIONS = [
    curve,
    np.sum,
    np.prod,
    np.max,
    np.linalg.norm,
    np.sort,
    np.cumsum,
    np.mean,
    lambda x: x,
    lambda x: x[0],
    lambda x: x @ x,
    lambda x: np.where(x > 0, x, 0.0),
    lambda x: x.astype(int),
    lambda x: np.einsum("i,i", x, x),
    lambda x: np.concatenate([x, x]),
    lambda x: None,
    lambda x: {"a": x},
    lambda x: float(np.sum(x)),
    lambda x: np.sum(x) ** "text",
]
STRANGE_USES = [
    lambda f, a: tg.grad(f)(a),
    lambda f, a: tg.compile(f)(a),
    lambda f, a: compiled(a),
    lambda f, a: compiled.grad(a),
    lambda f, a: compiled.map(a),
    lambda f, a: compiled.sum(a, in_axes=None),
    lambda f, a: compiled.value_and_grad(V, out=a),
    lambda f, a: compiled.hvp(V, a),
    lambda f, a: compiled.jvp((V,), (a,)),
    lambda f, a: compiled.vjp(V)[1](a),
    lambda f, a: tg.jvp(f, (a,), (a,)),
    lambda f, a: tg.vjp(f, a)[1](a),
    lambda f, a: tg.hessian(f)(a),
    lambda f, a: tg.tensor(a, requires_grad=True),
    lambda f, a: f(leaf()) * a,
    lambda f, a: leaf()[a],
    lambda f, a: np.add(leaf(), a),
    lambda f, a: tg.grad(a)(V),
    lambda f, a: tg.jacobian(f)(a),
    lambda f, a: tg.grad(f, a)(V),
    lambda f, a: np.sum(leaf(), axis=a),
    lambda f, a: leaf().reshape(a),
    lambda f, a: np.sum(leaf()).backward(a),
    lambda f, a: tg.compile(f).map(a),
    lambda f, a: tg.compile(a),
    lambda f, a: compiled.numba(a),
    lambda f, a: np.full_like(leaf(), a),
]


def strange_arguments(rng):
    """Any of these given to any function."""
    with contextlib.suppress(*ERRORS, np.exceptions.AxisError):
        rng.choice(STRANGE_USES)(rng.choice(FUNCTIONS), rng.choice(STRANGE))
