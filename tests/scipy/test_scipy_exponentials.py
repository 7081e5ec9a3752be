"""`expm_multiply` in differentiated functions: of dense and sparse matrices, plain and recorded."""

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as ss
import scipy.sparse.linalg as sl

import tapegrad as tg

RNG = np.random.default_rng(0)
A = ss.random_array((6, 6), density=0.4, rng=RNG, format="csr")
X, DENSE = RNG.random(6) + 0.2, RNG.normal(size=(6, 6))
FORMATS = {name: getattr(ss, f"{name}_array")(A) for name in ("csr", "csc", "coo", "dia", "lil")}


def made(d):
    return ss.csr_array((d, A.indices, A.indptr), shape=A.shape)


CASES = {
    **{name: (lambda x, a=a: sl.expm_multiply(a, x), X) for name, a in FORMATS.items()},
    "matrix": (lambda x: sl.expm_multiply(ss.csr_matrix(A), x), X),
    "columns": (lambda x: sl.expm_multiply(-2.0 * A, np.outer(x, [1.0, 2.0])), X),
    "numbers": (lambda d: sl.expm_multiply(made(d), X), A.data),
    "large numbers": (lambda d: sl.expm_multiply(made(-6.0 * d), X), A.data),
    "a factor": (lambda t: sl.expm_multiply(t[0] * A, X), X[:1]),
    "dense": (lambda a: sl.expm_multiply(a, X), DENSE),
    "dense to the vector": (lambda x: sl.expm_multiply(DENSE, x), X),
    "times": (lambda d: sl.expm_multiply(made(d), X, start=0.5, stop=2.0, num=4), A.data),
    "times to the vector": (lambda x: sl.expm_multiply(A, x, 0.0, 1.0, 3, False), X),
    "no numbers": (lambda x: sl.expm_multiply(ss.csr_array((6, 6)), x), X),
    "complex": (lambda x: np.real(sl.expm_multiply(1j * A, x)), X),
}


def differences(f, x):
    found = np.zeros(x.shape)
    for at in np.ndindex(x.shape):
        e = np.zeros(x.shape)
        e[at] = 1e-3
        near, far = f(x + e) - f(x - e), f(x + 2.0 * e) - f(x - 2.0 * e)
        found[at] = (8.0 * near - far) / 12e-3
    return found


@pytest.mark.parametrize("name", CASES)
def test_expm_multiply(name):
    f, x = CASES[name]
    loss = lambda x: np.sum(np.sin(f(x)))
    value, gradient = tg.value_and_grad(loss)(x)
    np.testing.assert_allclose(value, loss(x), rtol=1e-12)
    np.testing.assert_allclose(gradient, differences(loss, x), rtol=1e-8, atol=1e-8)
    compiled = tg.compile(loss)
    compiled.grad(x)
    for other in (1.1 * x, 4.0 * x):
        np.testing.assert_allclose(compiled(other), loss(other), rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(compiled.grad(other), tg.grad(loss)(other), rtol=1e-9)
    v = np.cos(np.arange(x.size)).reshape(x.shape)
    slopes = tg.grad(loss)
    second = (slopes(x + 1e-5 * v) - slopes(x - 1e-5 * v)) / 2e-5
    np.testing.assert_allclose(tg.hvp(loss)(x, v), second, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(tg.jvp(loss, (x,), (v,))[1], np.sum(gradient * v), rtol=1e-10)


def test_values_are_those_of_expm():
    for scale in (1e-3, 1.0, 30.0):
        found = tg.grad(lambda x: sl.expm_multiply(scale * DENSE, x)[0])(X)
        np.testing.assert_allclose(found, scipy.linalg.expm(scale * DENSE)[0], rtol=1e-9)
    single = tg.value_and_grad(lambda d: np.sum(sl.expm_multiply(made(d), X.astype("f4"))))
    assert single(A.data.astype("f4"))[1].dtype == np.float32


def test_others_are_refused_by_name():
    with pytest.raises(tg.DerivativeLost, match="LinearOperator"):
        tg.grad(lambda x: sl.expm_multiply(sl.aslinearoperator(A), x, traceA=1.0).sum())(X)
    with pytest.raises(tg.DerivativeLost, match="times are recorded"):
        tg.grad(lambda x: sl.expm_multiply(A, X, x[0], 2.0, 3).sum())(X)
    with pytest.raises(ValueError, match="square"):
        tg.grad(lambda x: sl.expm_multiply(A[:3], x).sum())(X)
    with pytest.raises(ValueError, match="incompatible"):
        tg.grad(lambda x: sl.expm_multiply(A, x[:3]).sum())(X)
