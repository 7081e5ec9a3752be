"""SciPy's `fft` for recorded values: values, errors and adjoints against SciPy's own."""

import itertools

import numpy as np
import pytest
import scipy.fft

import tapegrad as tg
import tapegrad.scipy.fft as ours
from tapegrad._core.operations.fourier_rows import cosine_transform

FOURIER = ["fft", "ifft", "rfft", "irfft", "hfft", "ihfft"]
COSINE = ["dct", "idct", "dst", "idst"]
ALONG = [(), (3,), (6, 0), (0,), (4, 1, "ortho"), (None, 0, "forward"), (None, 5), (None, 0, "x")]
SEVERAL = [
    *[(), ((3, 4),), ((6, 3), (0, 1)), ((2, -1),), (3,), ((1, 2, 3),), ((2, 2, 2, 2),)],
    *[((2, 2, 2), (0, 1, 2), "forward"), (None, (0, 0)), (None, ()), ((0, 2),), ((2, 2.5),)],
]
X = np.random.default_rng(1).normal(size=(3, 4, 5))
Z = X + 1j * np.random.default_rng(2).normal(size=X.shape)
D = np.random.default_rng(3).normal(size=X.shape)


def outcome(function, *args, **kwargs):
    """What a function gives, or the type of the error that it raises."""
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return type(error)


def check(name, operands, *args, **kwargs):
    """A linear function: the value is SciPy's, the gradient gives SciPy's differences."""
    theirs, mine = getattr(scipy.fft, name), getattr(ours, name)
    for x in operands:
        wanted = outcome(theirs, x, *args, **kwargs)
        found = outcome(mine, tg.tensor(x, requires_grad=True), *args, **kwargs)
        if isinstance(wanted, type):
            assert found is wanted, (name, args, kwargs)
            continue
        found = found.detach().numpy()
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)
        w = np.random.default_rng(4).normal(size=(2, *wanted.shape))

        def total(x, f, w=w):
            made = f(x, *args, **kwargs)
            return np.sum(made.real * w[0]) + np.sum(made.imag * w[1])

        g = tg.grad(total)(x, mine)
        np.testing.assert_allclose(np.sum(g.real * D), _difference(total, theirs, x, D), atol=1e-9)
        if np.iscomplexobj(x):
            along = _difference(total, theirs, x, 1j * D)
            np.testing.assert_allclose(np.sum(g.imag * D), along, atol=1e-9)


def _difference(total, function, x, d):
    return (total(x + d, function) - total(x - d, function)) / 2.0


@pytest.mark.parametrize("name", FOURIER)
def test_fourier_transforms(name):
    operands = [X] if name in ("rfft", "ihfft") else [X, Z]
    for args in ALONG:
        if name not in ("irfft", "hfft") or args != (0,):  # of no points SciPy makes one
            check(name, operands, *args)
    check(name, [X], plan=None, workers=2)
    check(name, [X], workers=0)
    check(name, [X], plan=1)
    for args in SEVERAL:
        check(f"{name}2", operands, *args)
        check(f"{name}n", operands, *args)
    assert name not in ("rfft", "ihfft") or outcome(getattr(ours, name), tg.tensor(Z)) is TypeError


@pytest.mark.parametrize("name", COSINE)
def test_cosine_and_sine_transforms(name):
    for kind in (1, 2, 3, 4, 5):
        for args in ALONG:
            check(name, [X], kind, *args)
        for args in ((), ((3, 4),), ((6, 3), (0, 1)), (None, (0, 2), "ortho"), (None, ())):
            check(f"{name}n", [X], kind, *args)
        for orthogonal, norm in itertools.product((True, False), (None, "ortho")):
            check(name, [X, Z], kind, norm=norm, orthogonalize=orthogonal)
    check(name, [X], n=1)
    check(name, [X], 1, n=1)


def test_the_adjoints_of_cosine_transforms_are_transposed_matrices(rng):
    sizes, ends = ((2, 2), (3, 5), (5, 3)), ((0, 0), (1, 0), (1, -1))
    for kind, sine, (n, m), power, (before, after) in itertools.product(
        (1, 2, 3, 4), (False, True), sizes, (0, 1, 2), ends
    ):
        static = {"n": n, "axis": -1, "kept": n, "kind": kind, "sine": sine, "power": power}
        static |= {"before": before, "after": after}
        matrix, g = cosine_transform(np.eye(m), **static).T, rng.normal(size=n)
        _, back = tg.vjp(lambda x: cosine_transform(x, **static), np.ones(m))
        np.testing.assert_allclose(back(g)[0], matrix.T @ g, rtol=1e-12, atol=1e-12)


def test_programs_and_second_derivatives(rng):
    def loss(x):
        spectrum = ours.dctn(x, norm="ortho") ** 2
        return (
            np.sum(np.sin(spectrum))
            + np.sum(np.abs(ours.hfft2(x * (1 + 2j))))
            + np.sum(ours.fftshift(x, axes=0) * x)
        )

    c, v = tg.compile(loss), rng.normal(size=(3, 4))
    for _ in range(3):
        x = rng.normal(size=(3, 4))
        np.testing.assert_allclose(c.grad(x), tg.grad(loss)(x), rtol=1e-9, atol=1e-9)
        np.testing.assert_allclose(c.hvp(x, v), tg.hvp(loss)(x, v), rtol=1e-9, atol=1e-9)
    batch = rng.normal(size=(4, 3, 4))
    wanted = np.stack([tg.grad(loss)(x) for x in batch])
    np.testing.assert_allclose(tg.vmap(tg.grad(loss))(batch), wanted, rtol=1e-9, atol=1e-9)


def test_float32_and_plain_arguments(rng):
    x = rng.normal(size=6).astype(np.float32)
    for name in ("dct", "idst"):
        made = getattr(ours, name)(tg.tensor(x, requires_grad=True), norm="ortho")
        assert made.dtype == np.float32 == getattr(scipy.fft, name)(x).dtype
    assert tg.grad(lambda x: np.sum(ours.dct(x, 3)))(x).dtype == np.float32
    assert np.array_equal(ours.dct(x), scipy.fft.dct(x))
    assert ours.next_fast_len(11) == scipy.fft.next_fast_len(11)
    found = tg.grad(lambda a: np.sum(ours.dct([a, 2.0])))(1.0)
    assert np.isclose(found, np.sum(scipy.fft.dct([1.0, 0.0])))
