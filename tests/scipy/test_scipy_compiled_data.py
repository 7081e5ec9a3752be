"""SciPy's functions of data that a compiled function does not differentiate."""

import warnings

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.scipy.linalg as la
import tapegrad.scipy.special as special
from tapegrad.scipy import fft, integrate, signal

OF_DATA = {
    "circulant": lambda x, d: np.sum(la.circulant(d) @ x),
    "companion": lambda x, d: np.sum(la.companion(d)) * x[0],
    "toeplitz": lambda x, d: np.sum(la.toeplitz(d) @ x),
    "hankel": lambda x, d: np.sum(la.hankel(d) @ x),
    "block_diag": lambda x, d: np.sum(la.block_diag(d, d)) * x[1],
    "expm": lambda x, d: np.sum(la.expm(np.diag(d)) @ x),
    "sqrtm": lambda x, d: np.sum(la.sqrtm(np.diag(d)) @ x),
    "norm": lambda x, d: la.norm(d) * x[0],
    "dct": lambda x, d: np.sum(fft.dct(d) * x),
    "convolve": lambda x, d: np.sum(signal.convolve(d, d)) * x[0],
    "lfilter": lambda x, d: np.sum(signal.lfilter([1.0], [1.0, 0.3], d) * x),
    "logsumexp": lambda x, d: special.logsumexp(d) * x[0],
    "trapezoid": lambda x, d: integrate.trapezoid(d) * x[0],
}


@pytest.mark.parametrize("name", [*OF_DATA])
def test_data_enter_programs(name):
    f, x, d = OF_DATA[name], np.arange(1.0, 4.0), np.array([2.0, 3.0, 4.0])
    c = tg.compile(f, native=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # that it runs eagerly
        for other in (d, d, d[::-1] ** 1.3, np.array([0.1, 7.0, 0.4])):
            value, gradient = c.value_and_grad(x, other)
            assert value == pytest.approx(f(x, other), rel=1e-12)
            np.testing.assert_allclose(gradient, tg.grad(f)(x, other), rtol=1e-12, atol=1e-12)
            x = x + 0.3
