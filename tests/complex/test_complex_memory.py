"""Results of complex tensors share memory as NumPy's do, so writes have the same effect."""

import numpy as np
import pytest

import tapegrad as tg

X = np.array([1.0, 2.0, -3.0])
#: Of a complex vector z of length 3.
EXPRESSIONS = """
z
z[:]
z[::-1]
z[None]
z[[0, 1, 2]]
z[[True, True, True]]
z.T
z.reshape(3, 1)
z.ravel()
z.flatten()
z.copy()
z.swapaxes(0, 0)
z.astype(complex)
z.astype(complex, copy=False)
z.real
z.imag
np.real(z)
np.imag(z)
z.conj()
z.conjugate()
np.conj(z)
z.reshape(1, 3).conj().T
z.conj().conj()
+z
-z
z + 0.0
z - X
X + z
z + z.real
z.real + 1j * z.imag
z.imag + 1j * z.real
z * 1.0
z / 1j
z ** 1
z ** 2
z ** (1 + 0j)
np.power(z, 1)
z.real ** (1 + 0j)
z.real ** (2 + 0j)
np.prod(z.reshape(1, 3), axis=0)
np.prod(z.reshape(1, 3), axis=0, keepdims=True)
np.prod(z, axis=())
np.sum(z.reshape(1, 3), axis=0)
np.mean(z.reshape(1, 3), axis=0)
np.cumsum(z.reshape(1, 3), axis=0)
np.where(True, z, 0.0)
np.where(X > 0.0, z, z.real)
np.select([X > -9.0], [z])
np.choose([0, 0, 0], [z, z])
np.compress([True, False, True], z)
np.extract([True, False, True], z)
np.take(z, [0, 1, 2])
np.concatenate([z])
np.stack([z, z.real])
np.block([z])
np.squeeze(z)
np.flip(z)
np.roll(z, 0)
np.pad(z, 0)
np.repeat(z, 1)
np.tile(z, 1)
np.delete(z, [])
np.append(z, [])
np.split(z, 1)[0]
np.einsum("i->i", z)
np.convolve(z, [1.0])
np.correlate(z, [1.0])
np.dot(z, 1.0)
np.linalg.matrix_power(np.stack([z, z, z]), 1)
np.fft.fftshift(z)
"""


def written_before(made, z):
    """A number of a result after what it was made from has been written."""
    z[::-1] *= 2.0
    z[0] = z[0] + 1.0 + 3.0j
    return np.sum(made.real * 0.7 + made.imag * 3.0)


def written_after(made, z):
    """A number of what a result was made from after that has been written."""
    made[...] *= 3.0
    made[0] = made[0] * 0.5
    return np.sum(z.real * 1.3 - z.imag * 0.4) + np.sum(made.real * 0.2 + made.imag)


@pytest.mark.parametrize("written", [written_before, written_after])
@pytest.mark.parametrize("text", EXPRESSIONS.strip().split("\n"))
def test_writes_have_numpys_effect(text, written):
    made = eval(f"lambda z: {text}", {"np": np, "X": X})

    def f(x):
        z = x + 1j * np.cos(x)
        return written(made(z), z)

    value, gradient = tg.value_and_grad(f)(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-13)
    steps = 1e-6 * np.eye(3)
    wanted = [(f(X + step) - f(X - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(gradient, wanted, rtol=1e-7, atol=1e-7)
    compiled = tg.compile(f)
    for _ in range(2):
        np.testing.assert_allclose(compiled.grad(X), gradient, rtol=1e-13)


def test_real_numbers_to_complex_powers_are_complex():
    """Hence their square roots are those of complex numbers."""

    def f(x):
        root = np.sqrt(x ** (1 + 0j)) + x[2] ** (1 + 0j)
        return np.sum(root.imag) + np.sum(root.real)

    value, gradient = tg.value_and_grad(f)(X)
    np.testing.assert_allclose(value, f(X), rtol=1e-13)
    wanted = [0.5, 0.5 / np.sqrt(2.0), -0.5 / np.sqrt(3.0) + 3.0]
    np.testing.assert_allclose(gradient, wanted, rtol=1e-13)
