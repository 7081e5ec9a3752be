"""Complex tensors: values, branch cuts and signed zeros are NumPy's, eager and compiled."""

import numpy as np
import pytest

import tapegrad as tg

#: Numbers on the axes, with both signs of their zeros, and others.
POINTS = np.array([complex(a, b) for a in (2.0, -0.5, 0.0, -0.0) for b in (1.5, -3.0, 0.0, -0.0)])
AXES = POINTS[POINTS.real * POINTS.imag == 0.0]
NONZERO = POINTS[POINTS != 0.0]


def value(made):
    return made.detach().numpy() if hasattr(made, "detach") else np.asarray(made)


@pytest.mark.parametrize("number", [-5, -3, -2, -1, 0, 1, 2, 3, 7, -1.0, 2.0, -1 + 0j, 0.5, -0.5])
def test_powers(number):
    for way in (lambda z: z**number, lambda z: np.power(z, number)):
        found = [value(way(tg.tensor(NONZERO))), tg.compile(way)(NONZERO)]
        found.append(np.array([value(way(z)) for z in tg.tensor(NONZERO)]))
        for one in found:
            np.testing.assert_allclose(one, way(NONZERO), rtol=1e-13, atol=1e-14)
        (slopes,) = tg.grad(lambda z: np.sum(way(z)), (0,), holomorphic=True)(NONZERO)
        np.testing.assert_allclose(slopes, number * NONZERO ** (number - 1), rtol=1e-12, atol=1e-13)
