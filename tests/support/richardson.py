"""Gradients by differences, extrapolated from three steps as Richardson does."""

import numpy as np


def differences(f, x, step):
    """The derivatives of f by the elements of x; the first of the steps is given."""
    found = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        slopes = []
        for h in (step, step / 2.0, step / 4.0):
            e = np.zeros(x.shape)
            e[at] = h
            slopes.append((f(x + e) - f(x - e)) / (2.0 * h))
        one, two = (4.0 * slopes[1] - slopes[0]) / 3.0, (4.0 * slopes[2] - slopes[1]) / 3.0
        found[at] = (16.0 * two - one) / 15.0
    return found
