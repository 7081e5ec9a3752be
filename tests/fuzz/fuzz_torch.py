"""Random programs run by PyTorch, as far as it can: a second judge of views and writes."""

import re

import numpy as np

try:
    import torch
except ImportError:
    torch = None

#: Writes of repeated elements are not defined there; numbers read from tensors are views of them.
UNDEFINED = re.compile(r"\[(0, -1, 0|1, 1|0, 0)\]|\], \[|\.at\(")
REFUSED = (AttributeError, IndexError, NameError, RuntimeError, TypeError, ValueError)


def gradient(program, point):
    """Value and gradients of a program at a point; None where PyTorch cannot do it."""
    kinds = {"numbers", "ufunc.at", "dtype float32", "zero sizes"}
    if torch is None or program.kinds & kinds or UNDEFINED.search(program.text):
        return None
    arguments = [torch.tensor(np.array(value)) for value in point]
    for one in arguments[: program.count]:
        one.requires_grad_()
    found = {"np": NumPy()}
    try:
        exec(program.text, found)
        value = found["f"](*arguments)
        value.backward()
    except REFUSED:
        return None
    leaves = arguments[: program.count]
    return value.item(), [np.zeros(x.shape) if x.grad is None else x.grad.numpy() for x in leaves]


def _along(function, whole):
    """A reduction, whose axis PyTorch calls dim."""

    def reduced(x, axis=None, keepdims=False):
        return whole(x) if axis is None else function(x, dim=axis, keepdim=keepdims)

    return reduced


def _binary(function):
    def called(x, y):
        numbers = [torch.as_tensor(one, dtype=torch.float64) for one in (x, y)]
        return function(*numbers)

    return called


def _variance(x, axis=None):
    return torch.var(x, dim=axis, correction=0)


class NumPy:
    """NumPy's functions, of tensors of PyTorch's."""

    inf = np.inf

    def __init__(self):
        t = torch
        self.arange = lambda *given: t.arange(*given, dtype=t.float64)
        self.sum, self.mean = _along(t.sum, t.sum), _along(t.mean, t.mean)
        self.max, self.min = _along(t.amax, t.amax), _along(t.amin, t.amin)
        self.amax, self.amin, self.prod = t.amax, t.amin, _along(t.prod, t.prod)
        self.var, self.trapezoid = _variance, t.trapezoid
        for name in ("maximum", "minimum", "fmax", "fmin", "hypot", "logaddexp", "remainder"):
            setattr(self, name, _binary(getattr(t, name)))
        self.arctan, self.arcsinh = t.atan, t.asinh
        self.arctan2, self.add = _binary(t.atan2), _binary(t.add)
        self.diff = lambda x, axis=-1: t.diff(x, dim=axis)
        self.cumsum = lambda x, axis=0: t.cumsum(x, axis)
        self.cumprod = lambda x, axis=0: t.cumprod(x, axis)
        self.sort = lambda x, axis=-1: t.sort(x, dim=axis).values
        self.argsort, self.argmax, self.argmin = t.argsort, t.argmax, t.argmin
        self.concatenate = lambda x, axis=0: t.cat(x, dim=axis)
        self.stack = lambda x, axis=0: t.stack([t.as_tensor(one) for one in x], dim=axis)
        self.expand_dims, self.swapaxes, self.moveaxis = t.unsqueeze, t.swapaxes, t.moveaxis
        self.clip = lambda x, low, high: t.clip(x, t.as_tensor(low), t.as_tensor(high))
        self.vdot = lambda x, y: t.sum(t.conj(t.as_tensor(x)) * y)

    def __getattr__(self, name):
        same = {"sin", "tanh", "cos", "exp", "log1p", "sqrt", "abs", "square", "sinh", "expm1",
                "negative", "where", "floor", "ceil", "trunc", "round", "sign", "dot", "outer",
                "diag", "diagonal", "tril", "triu", "ravel", "squeeze", "transpose", "hstack",
                "vstack", "zeros_like", "ones_like", "full_like", "broadcast_to", "einsum",
                "tile", "all"}  # fmt: skip
        if name not in same:
            raise AttributeError(name)
        return getattr(torch, name)
