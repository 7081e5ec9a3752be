"""What tests of `tapegrad.numpy` share: a point, and a derivative found in two ways."""

import numpy

import tapegrad as tg

X = numpy.array([1.2, 0.7, 2.1])


def both(f, x=X, *others):
    """The gradient of a function of `x`, the same by differences and of the compiled function."""
    gradient = tg.grad(f)(x)
    for k in range(x.size):
        step = numpy.zeros_like(x)
        step.flat[k] = 1e-6
        slope = (f(x + step) - f(x - step)) / 2e-6
        assert abs(gradient.flat[k] - slope) < 1e-6
    compiled = tg.compile(f, native=False)
    for point in (x, x, 1.1 * x, x[::-1].copy(), *others):
        value, found = compiled.value_and_grad(point)
        numpy.testing.assert_allclose(value, f(point), rtol=1e-12)
        numpy.testing.assert_allclose(found, tg.grad(f)(point), rtol=1e-12)
    v = numpy.cos(numpy.arange(x.size)).reshape(x.shape)
    numpy.testing.assert_allclose(compiled.hvp(x, v), tg.hvp(f)(x, v), rtol=1e-12)
    return gradient
