"""Results of arrays that are not recorded are numbers where NumPy's are: `+=` replaces them."""

import numpy as np
import pytest

import tapegrad as tg
import tapegrad.numpy as tnp
from tapegrad.scipy import special

X = np.array([1.0, 2.0])
RESULTS = {
    "sum": lambda c: np.sum(c),
    "method": lambda c: c.mean(),
    "max": lambda c: np.max(c),
    "product": lambda c: c @ c,
    "norm": lambda c: np.linalg.norm(c),
    "std": lambda c: np.std(c),
    "nanstd": lambda c: np.nanstd(c),
    "median": lambda c: np.median(c),
    "einsum": lambda c: np.einsum("i,i", c, c),
    "determinant": lambda c: np.linalg.det(np.diag(c)),
    "interpolated": lambda c: np.interp(0.5, c, c),
    "logsumexp": lambda c: special.logsumexp(c),
    "element": lambda c: np.tanh(c[0]),
    "detached": lambda c: c[1].detach() if isinstance(c[1], tg.Tensor) else c[1],
}


@pytest.mark.parametrize("dtype", [float, np.float32])
@pytest.mark.parametrize("name", RESULTS)
def test_another_name_keeps_the_number(name, dtype):
    def f(x):
        cells = np.arange(3.0) + 1.0 if isinstance(x, np.ndarray) else tnp.arange(3.0) + 1.0
        z = RESULTS[name](cells.astype(dtype))
        before = z
        z += x[0]
        return before * x[1] + z

    wanted = f(X)
    c = tg.compile(f, verify="never")
    for value, gradient in (tg.value_and_grad(f)(X), c.value_and_grad(X), c.value_and_grad(X)):
        np.testing.assert_allclose(value, wanted, rtol=1e-6)
        number = RESULTS[name]((np.arange(3.0) + 1.0).astype(dtype))
        np.testing.assert_allclose(gradient, [1.0, number], rtol=1e-6)


def test_arrays_without_axes_are_written():
    a = tg.zeros(())
    same = a
    a += 2.0
    assert same is a and a.item() == 2.0
