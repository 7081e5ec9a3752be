"""Element-wise functions of complex numbers: values, derivatives, programs, against NumPy."""

import numpy as np
import pytest

import tapegrad as tg

FUNCTIONS = (
    "exp log sqrt sin cos tan sinh cosh tanh arcsin arccos arctan arcsinh arccosh arctanh log10 "
    "log2 log1p expm1 exp2 square reciprocal negative"
).split()
BINARY = {
    "add": lambda z, w: z + w,
    "subtract": lambda z, w: z - w,
    "multiply": lambda z, w: z * w,
    "divide": lambda z, w: z / w,
    "power": lambda z, w: z**w,
    "cube": lambda z, w: z**3 * w,
    "inverse power": lambda z, w: z**-2 - w**0.5,
    "real powers": lambda z, w: z**1.7 + w**2.0 + z**0,
    "constants": lambda z, w: 1j * z + (2 - 1j) / w - 3.0 * w,
    "numbers": lambda z, w: z[0] * w[1] / z[1] + z[2] ** 2,
}
REAL = {
    "abs": lambda z: np.abs(z) + abs(z) ** 2,
    "angle": lambda z: np.angle(z) * np.angle(z * z, deg=True),
    "parts": lambda z: z.real * np.imag(z) + np.real(z) ** 3,
    "sign": lambda z: np.sign(z).real * np.sign(z * 1j).real,
    "conj": lambda z: (np.conj(z) * z.conjugate() * z.conj()).imag,
}
NUMERATORS = np.array([1.0 + 0j, -2.0 + 1j, 0j, 3.0 - 0.5j])
every_function = pytest.mark.parametrize("name", FUNCTIONS)


def points(rng, count=24, scale=1.0):
    return scale * (rng.normal(size=count) + 1j * rng.normal(size=count))


def difference(f, z, h=1e-5):
    """The derivative of a holomorphic function, by differences along both axes."""
    along = (8 * (f(z + h) - f(z - h)) - (f(z + 2 * h) - f(z - 2 * h))) / (12 * h)
    h = 1j * h
    across = (8 * (f(z + h) - f(z - h)) - (f(z + 2 * h) - f(z - 2 * h))) / (12 * h)
    return (along + across) / 2


@every_function
@pytest.mark.parametrize("scale", [0.05, 1.0, 4.0])
def test_values_are_numpys(name, scale, rng):
    z, f = points(rng, scale=scale), getattr(np, name)
    # NumPy's log1p rounds near 0, where 1 + z does
    np.testing.assert_allclose(f(tg.tensor(z)).numpy(), f(z), rtol=1e-14 if scale > 0.1 else 3e-13)


@every_function
def test_branch_cuts_and_signed_zeros_are_numpys(name):
    parts = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0]
    z = np.array([complex(x, y) for x in parts for y in parts])
    with np.errstate(all="ignore"):
        found, wanted = getattr(np, name)(tg.tensor(z)).numpy(), getattr(np, name)(z)
    fine = np.isfinite(wanted)
    np.testing.assert_allclose(found[fine], wanted[fine], rtol=1e-14, atol=1e-15)
    assert not np.any(np.isfinite(found[~fine]))


@every_function
def test_derivatives(name, rng):
    """First and second, and forward mode, of holomorphic functions."""
    z, f = points(rng), getattr(np, name)
    first = tg.grad(lambda z: np.sum(f(z)), holomorphic=True)
    np.testing.assert_allclose(first(z), difference(f, z), rtol=1e-7, atol=1e-8)
    second = tg.grad(lambda z: np.sum(first(z)), holomorphic=True)(z)
    np.testing.assert_allclose(second, difference(first, z), rtol=1e-6, atol=1e-7)
    v = points(rng)
    value, tangent = tg.jvp(f, (z,), (v,))
    np.testing.assert_allclose(value, f(z), rtol=1e-13)
    np.testing.assert_allclose(tangent, first(z) * v, rtol=1e-12, atol=1e-13)


@every_function
@pytest.mark.parametrize("compiled", [False, True])
def test_derivatives_on_the_axes(name, compiled):
    """Up to the third: as beside the axes, on the side that the signs of zeros tell."""
    sizes = [0.0, -0.0, 0.5, -0.5, 1.5, -1.5, 3.0, -3.0]
    z = np.array([complex(x, y) for x in sizes for y in sizes])
    beside = 1e-6 * np.where(z.real == 0, np.copysign(1.0, z.real), 0)
    beside = z + beside + 1e-6j * np.where(z.imag == 0, np.copysign(1.0, z.imag), 0)
    f = getattr(np, name)
    for _ in range(3):
        f = tg.grad(lambda z, f=f: np.sum(f(z)), holomorphic=True)
        g = tg.compile(f) if compiled else f
        with np.errstate(all="ignore"):
            g(beside), g(beside)
            found, wanted = g(z), f(beside)
        fine = np.abs(wanted) < 100.0  # not next to a pole, or the end of a branch cut
        assert np.count_nonzero(fine) > 50
        np.testing.assert_allclose(found[fine], wanted[fine], rtol=1e-3, atol=1e-4)


@every_function
def test_programs(name, rng):
    """At inputs other than those recorded; numbers too."""
    z, f = points(rng), getattr(np, name)
    loss = lambda z: np.sum(np.abs(f(z)) ** 2 + f(z).real) + f(z[3]).imag
    compiled, values = tg.compile(loss), tg.compile(f)
    for w in (z, points(rng), points(rng)):
        np.testing.assert_allclose(values(w), f(w), rtol=1e-13)
        np.testing.assert_allclose(compiled(w), loss(w), rtol=1e-13)
        wanted = tg.grad(loss)(w)
        np.testing.assert_allclose(compiled.grad(w), wanted, rtol=1e-10, atol=1e-11)


@pytest.mark.parametrize("f", BINARY.values(), ids=BINARY)
def test_operators(f, rng):
    """Of complex and real operands, arrays that broadcast and numbers, in reverse and compiled."""
    z, w, x = points(rng, 4), points(rng, 4), rng.uniform(0.5, 1.5, 4)
    for a, b in ((z, w), (z, x), (x + 0j, w)):
        loss = lambda a, b: np.sum(np.abs(f(a, b)) ** 2 + f(a, b).real)
        compiled = tg.compile(loss, argnums=(0, 1))
        for scale in (1.0, 1.3):
            found = tg.grad(loss, (0, 1))(scale * a, b)
            np.testing.assert_allclose(compiled(scale * a, b), loss(scale * a, b), rtol=1e-12)
            for one, other in zip(compiled.grad(scale * a, b), found, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-11)
        va, vb = points(rng, 4), points(rng, 4) if np.iscomplexobj(b) else rng.normal(size=4)
        found = sum(
            np.sum((np.conj(g) * v).real)
            for g, v in zip(tg.grad(loss, (0, 1))(a, b), (va, vb), strict=True)
        )
        h = 1e-6
        wanted = (loss(a + h * va, b + h * vb) - loss(a - h * va, b - h * vb)) / (2 * h)
        np.testing.assert_allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize("z", [NUMERATORS, NUMERATORS.real], ids=["complex", "real"])
def test_quotients_by_zero_are_numpys(z):
    """Elementwise the parts divided by 0; the derivative is not finite."""
    f = lambda z, w: z / w
    compiled = tg.compile(f)
    for zero in (0j, complex(-0.0, 0.0), 1j):
        w = np.full(len(z), zero)
        with np.errstate(all="ignore"):
            wanted = z / w
            for found in (f(tg.tensor(z), tg.tensor(w)).numpy(), compiled(z, w)):
                np.testing.assert_array_equal(found, wanted)
            numbers = [f(a, b).numpy() for a, b in zip(tg.tensor(z), tg.tensor(w), strict=True)]
            np.testing.assert_array_equal(numbers, wanted)
            slope = tg.grad(lambda w: np.sum((z / w).real))(w)
        assert np.isfinite(slope).all() == (zero != 0)


@pytest.mark.parametrize("f", REAL.values(), ids=REAL)
def test_real_functions(f, rng):
    z, v, h = points(rng), points(rng), 1e-6
    loss = lambda z: np.sum(f(z))
    found = np.sum((np.conj(tg.grad(loss)(z)) * v).real)
    np.testing.assert_allclose(found, (loss(z + h * v) - loss(z - h * v)) / (2 * h), rtol=1e-6)
    compiled = tg.compile(loss)
    for w in (z, 1.2 * z):
        np.testing.assert_allclose(compiled.grad(w), tg.grad(loss)(w), rtol=1e-12)


def test_gradients_are_torchs(rng):
    torch = pytest.importorskip("torch")
    z = points(rng)
    for name in "exp log sqrt sin cos tan sinh cosh tanh asin acos atan asinh acosh atanh".split():
        ours = getattr(np, name.replace("a", "arc", 1) if name[0] == "a" else name)
        t = torch.tensor(z, requires_grad=True)
        getattr(torch, name)(t).abs().sum().backward()
        found = tg.grad(lambda z, ours=ours: np.sum(np.abs(ours(z))))(z)
        np.testing.assert_allclose(found, t.grad.numpy(), rtol=1e-9, atol=1e-10)


def test_size_angle_and_sign_have_derivative_0_at_0():
    z = np.zeros(2, complex)
    for f in (np.abs, np.angle, lambda z: np.sign(z).real, lambda z: z * np.conj(z) * 0.5 + 0):
        loss = lambda z, f=f: np.sum(np.real(f(z)))
        assert tg.grad(loss)(z).tolist() == [0, 0]
        assert tg.compile(loss).grad(z).tolist() == [0, 0]


def test_parts_back_together_are_the_real_function(rng):
    """R → C → R: the same values and derivatives, to the second order."""
    x = rng.uniform(0.5, 1.5, 6)
    pairs = [
        (lambda x: np.exp(1j * x).real, np.cos),
        (lambda x: np.exp(1j * x).imag, np.sin),
        (lambda x: np.abs(x * np.exp(1j * x)), np.abs),
        (lambda x: np.log(x + 0j).real, np.log),
        (lambda x: ((x + 1j) * (x - 1j)).real, lambda x: x * x + 1.0),
        (lambda x: np.angle(np.exp(1j * x) * 2.0), lambda x: x * 1.0),
        (lambda x: (1.0 / (x + 0j)).real, lambda x: 1.0 / x),
        (lambda x: np.sqrt(-x + 0j).imag, np.sqrt),
        (lambda x: ((1j * x) ** 2).real, lambda x: -x * x),
        (lambda x: np.arctanh(1j * x).imag, np.arctan),
    ]
    for f, g in pairs:
        total = lambda x, f=f: np.sum(f(x) ** 2)
        wanted = lambda x, g=g: np.sum(g(x) ** 2)
        np.testing.assert_allclose(total(x), wanted(x), rtol=1e-14)
        np.testing.assert_allclose(tg.grad(total)(x), tg.grad(wanted)(x), rtol=1e-13, atol=1e-14)
        np.testing.assert_allclose(
            tg.hessian(total)(x), tg.hessian(wanted)(x), rtol=1e-12, atol=1e-13
        )
        np.testing.assert_allclose(
            tg.compile(total).hessian(x), tg.hessian(wanted)(x), rtol=1e-12, atol=1e-13
        )


def test_single_precision_stays():
    z = np.array([1 + 2j, 0.5 - 1j], np.complex64)
    for f in (np.exp, np.sqrt, lambda z: z * z / (z + 1.0), lambda z: z**3, lambda z: 1j * z):
        made = f(tg.tensor(z))
        assert made.dtype == np.complex64 and made.real.dtype == np.float32
        np.testing.assert_allclose(made.numpy(), f(z), rtol=1e-6)
    gradient = tg.grad(lambda z: np.sum(np.abs(np.exp(z))))(z)
    assert gradient.dtype == np.complex64


def test_comparisons():
    z = tg.tensor([1 + 1j, 2.0, 1j], requires_grad=True)
    assert (z == 2.0).tolist() == [False, True, False] and (z != 1j).tolist() == [True, True, False]
    assert (z < 1 + 2j).tolist() == [True, False, True] and bool(z[1] == 2)
    compiled = tg.compile(lambda x: np.sum(x * (1j * x == 2j)))
    assert [compiled(np.array([2.0, k])) for k in (1.0, 2.0)] == [2.0, 4.0]
