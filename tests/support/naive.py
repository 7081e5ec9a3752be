"""Reverse differentiation one number at a time, as plain as it can be: the judge of programs.

Arrays are NumPy's own of dtype object, so indexing, views, overlaps and writes are NumPy's.
"""

import math

import numpy as np

import tapegrad as tg


class Number:
    """A value and what it was computed from: (operand, slope) pairs."""

    def __init__(self, value, *parents):
        self.value, self.parents = float(value), parents

    def __add__(self, other):
        return Number(self.value + of(other), (self, 1.0), (other, 1.0))

    def __sub__(self, other):
        return Number(self.value - of(other), (self, 1.0), (other, -1.0))

    def __mul__(self, other):
        return Number(self.value * of(other), (self, of(other)), (other, self.value))

    def __truediv__(self, other):
        y = of(other)
        return Number(self.value / y, (self, 1 / y), (other, -self.value / y**2))

    def __pow__(self, n):
        return Number(self.value**n, (self, n * self.value ** (n - 1)))

    def __neg__(self):
        return Number(-self.value, (self, -1.0))

    def __rsub__(self, other):
        return Number(other) - self

    def __rtruediv__(self, other):
        return Number(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __lt__(self, other):
        return self.value < of(other)

    def __gt__(self, other):
        return self.value > of(other)


def zeros(like):
    """Zeros that can be called on as numbers."""
    return np.array([Number(0.0) for _ in range(like.size)], object).reshape(like.shape)


def of(x):
    return x.value if isinstance(x, Number) else x


def _method(function, slope):
    def method(x):
        out = function(x.value)
        return Number(out, (x, slope(x.value, out)))

    return method


Number.sin = _method(math.sin, lambda x, out: math.cos(x))
Number.cos = _method(math.cos, lambda x, out: -math.sin(x))
Number.exp = _method(math.exp, lambda x, out: out)
Number.log = _method(math.log, lambda x, out: 1 / x)
Number.tanh = _method(math.tanh, lambda x, out: 1 - out**2)
Number.sqrt = _method(math.sqrt, lambda x, out: 0.5 / out)


def in_order(number, done, order):
    """Numbers below one, operands first, without recursion."""
    stack = [(number, False)]
    while stack:
        x, expanded = stack.pop()
        if expanded:
            order.append(x)
        elif isinstance(x, Number) and id(x) not in done:
            done.add(id(x))
            stack.append((x, True))
            stack.extend((parent, False) for parent, _ in x.parents)


def value_and_grad(f, *arrays):
    """Value of a function of arrays, and its gradients."""
    inputs = [np.array([Number(v) for v in a.ravel()], object).reshape(a.shape) for a in arrays]
    out = f(*inputs)
    out = out.item() if isinstance(out, np.ndarray) else out
    order, adjoint = [], {id(out): 1.0}
    in_order(out, set(), order)
    for x in reversed(order):
        for parent, slope in x.parents:
            if isinstance(parent, Number):
                adjoint[id(parent)] = adjoint.get(id(parent), 0.0) + adjoint.get(id(x), 0.0) * slope
    grads = [
        np.array([adjoint.get(id(v), 0.0) for v in a.ravel()]).reshape(a.shape) for a in inputs
    ]
    return of(out), grads


def close(got, wanted, tolerance=1e-12):
    """Equal relative to the largest entry."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    scale = np.max(np.abs(wanted), initial=1e-300)
    assert np.max(np.abs(got - wanted), initial=0.0) <= tolerance * scale


def check(f, *arrays, against=None):
    """Transforms, `backward` and the plain function against the naive judge or a torch twin."""
    every = tuple(range(len(arrays)))
    before = [a.copy() for a in arrays]
    value, found = tg.value_and_grad(f, every)(*arrays)
    for a, old in zip(arrays, before, strict=True):
        assert np.array_equal(a, old)
    close(value, f(*[a.copy() for a in arrays]))
    wanted_value, wanted = against(*arrays) if against else value_and_grad(f, *arrays)
    close(value, wanted_value)
    tensors = [tg.tensor(a, requires_grad=True) for a in arrays]
    out = f(*tensors)
    out.backward()
    close(out.item(), wanted_value)
    for gradient, tensor, right in zip(found, tensors, wanted, strict=True):
        close(gradient, right)
        close(tensor.grad.numpy(), right)
