"""Compiled functions that other processes import by their names."""

import numpy as np

import tapegrad as tg


@tg.compile(native=True)
def decorated(x, a=2.0):
    s = 0.0
    for k in range(30):
        s = s + np.sin(s) * a + x[k % 3]
    return s


def undecorated(x):
    return np.sum(x**3)


def computed(c, x):
    """Value, gradient, Hessian, and whether the copy of another process has native code."""
    c.wait()
    native = [v.program.native for family in c._families.found.values() for v in family.found]
    return *c.value_and_grad(x), c.hessian(x), native
