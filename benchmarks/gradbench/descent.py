"""Gradient descent whose step doubles and halves, as the nested evaluations ask for it."""

import numpy as np

import tapegrad as tg

ENOUGH = 1e-5


def length(x):
    """Return the Euclidean length."""
    return np.sqrt(np.sum(x**2))


def argmin(f, gradient, x):
    """Return where the descent from `x` ends: at a short gradient, or before a short step."""
    value, slope, step, accepted = f(x), gradient(x), 1e-5, 0
    while length(slope) > ENOUGH:
        if accepted == 10:
            step, accepted = 2.0 * step, 0
            continue
        further = x - step * slope
        if length(x - further) <= ENOUGH:
            return x
        reached = f(further)
        if reached < value:
            x, value, slope, accepted = further, reached, gradient(further), accepted + 1
        else:
            step, accepted = 0.5 * step, 0
    return x


def argmax(f, gradient, x):
    """Return where the ascent from `x` ends."""
    return argmin(lambda x: -f(x), lambda x: -gradient(x), x)


def forward(f):
    """Return the gradient of `f` by forward mode, one direction after the other."""
    along = tg.compile(lambda x, e: tg.jvp(f, (x,), (e,))[1])
    return lambda x: np.array([along(x, e) for e in np.eye(len(x))])


def forward_within(f):
    """Return the gradient of `f` by forward mode, for functions that are differentiated."""
    return lambda x: np.stack([tg.jvp(f, (x,), (e,))[1] for e in np.eye(len(x))])


def reverse(f):
    """Return the gradient of `f` by reverse mode."""
    return tg.compile(f).grad


#: Letter in the names of functions of evaluations → transform of the descent, of what it descends.
OUTER, INNER = {"f": forward, "r": reverse}, {"f": forward_within, "r": tg.grad}
