"""Complex tensors: values, branch cuts and signed zeros are NumPy's, eager and compiled."""

import numpy as np
import pytest

import tapegrad as tg

#: Numbers of every quadrant, of both sides of the axes, and 0 with both signs.
POINTS = np.array([complex(a, b) for a in (2.0, -0.5, 0.0, -0.0) for b in (1.5, -3.0, 0.0, -0.0)])
NONZERO = POINTS[POINTS != 0.0]
REAL = [1.5, -2.0, 0.0, -0.0]

PRODUCTS = {
    "product": lambda z, w: z * w,
    "quotient": lambda z, w: z / w,
    "sum": lambda z, w: z + w,
    "difference": lambda z, w: w - z,
    "outer product": lambda z, w: np.outer(z, w),
    "Kronecker product": lambda z, w: np.kron(z, w),
    "ufunc": lambda z, w: np.multiply.outer(z, w),
    "in place": lambda z, w: np.multiply(np.multiply(z, 1.0), w),
}
OF_ONE = {
    "sqrt(-2z)": lambda z: np.sqrt(-2 * z),
    "log(z / -2)": lambda z: np.log(z / -2.0),
    "angle(1 / z)": lambda z: np.angle(1 / z),
    "angle(-1 / z)": lambda z: np.angle(-1.0 / z),
    "angle(z / (-1 + 0i))": lambda z: np.angle(z / (-1 + 0j)),
    "angle(reciprocal)": lambda z: np.angle(np.reciprocal(z)),
    "angle(square)": lambda z: np.angle(np.square(z) * -1),
    "angle(-exp)": lambda z: np.angle(np.exp(z) * -1),
    "angle(x (1 + 0i))": lambda z: np.angle(np.real(z) * (1 + 0j)),
    "angle(x / z)": lambda z: np.angle(np.real(z) / z),
    "angle(sum)": lambda z: np.angle(np.sum(z) * -1),
    "angle(mean)": lambda z: np.angle(np.mean(-1 * z)),
    "angle(prod)": lambda z: np.angle(np.prod(z[:2] * -0.5)),
    "angle(einsum)": lambda z: np.angle(np.einsum("i,i->i", z, -np.abs(z))),
    "angle(tensordot)": lambda z: np.angle(np.tensordot(z, np.array([[-1.0, 2.0]]), 0)),
    "angle(matmul)": lambda z: np.angle(np.reshape(z, (-1, 1)) @ np.array([[-1.0, 2.0]])),
    "angle(dot)": lambda z: np.angle(np.dot(z, -2.0)),
    "angle(where)": lambda z: np.angle(np.where(np.abs(z) > 2.0, -1 * z, z * 2)),
    "angle(fft)": lambda z: np.angle(np.fft.fft(-np.abs(z))[0]),
    "angle(ifft)": lambda z: np.angle(np.fft.ifft(-np.abs(z))[0]),
    "power 1 / 2": lambda z: (-2.0 * z) ** 0.5,
    "power 1.5": lambda z: (z * -1.0) ** 1.5,
}


def value(made):
    return made.detach().numpy() if hasattr(made, "detach") else np.asarray(made)


def same(found, wanted):
    """Check that parts are equal up to rounding, zeros with their signs."""
    for part in ("real", "imag"):
        a, b = getattr(np.asarray(found), part), getattr(np.asarray(wanted), part)
        np.testing.assert_allclose(a, b, rtol=1e-14, atol=0.0)
        np.testing.assert_array_equal(np.signbit(a), np.signbit(b))


def recorded(x):
    return tg.tensor(x, requires_grad=True)


def ways(f, *args):
    """Results of recorded arguments, of one after the other, and of a program, twice."""
    for k in range(len(args)):
        yield value(f(*args[:k], recorded(args[k]), *args[k + 1 :]))
    yield value(f(*map(recorded, args)))
    c = tg.compile(f, argnums=tuple(range(len(args))))
    yield c(*args)
    yield c(*args)
    assert c._reason is None


@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value)")
@pytest.mark.parametrize("what", PRODUCTS)
def test_products_with_real_and_complex_numbers(what):
    f = PRODUCTS[what]
    divisors = [x for x in REAL if x] if what == "quotient" else REAL
    for w in (*divisors, np.array(divisors)[:, None], NONZERO[:, None], NONZERO[3], -2):
        w = w if np.ndim(w) == 0 or what[:2] in ("pr", "qu", "su", "di", "in") else np.ravel(w)
        for found in (
            ways(f, POINTS, w)
            if isinstance(w, (np.ndarray, float))
            else [value(f(recorded(POINTS), w))]
        ):
            same(found, f(POINTS, w))
    if what[:2] in ("pr", "qu", "su", "di"):
        for w in REAL:
            for found in ways(lambda w, z: f(w, z), w, NONZERO):
                same(found, f(w, NONZERO))
        pairs = [(z, w) for z in NONZERO for w in (*divisors, *NONZERO[:3])]
        for z, w in pairs:
            same(value(f(recorded(z), w)), f(z, w))
            same(value(f(recorded(z), recorded(w))), f(z, w))


@pytest.mark.filterwarnings("ignore:(divide by zero|invalid value)")
@pytest.mark.parametrize("dtype", ["c16", "c8"])
def test_quotients_by_zero_and_infinite_parts(dtype):
    ends = [1.5, -2.5, 0.0, -0.0, np.inf, -np.inf, np.nan]
    z = np.array([complex(a, b) for a in ends for b in ends], dtype)
    for r in ends:
        for f in (lambda z, r: z * r, lambda z, r: r * z):
            np.testing.assert_array_equal(value(f(recorded(z), r)), f(z, r))
    finite = z[np.isfinite(z.real) & np.isfinite(z.imag)]
    for r in (0.0, -0.0, np.array(0.0), 1.5, -2.5):
        np.testing.assert_allclose(value(recorded(finite) / r), finite / r, rtol=1e-6)
        assert value(recorded(finite) / r).dtype == (finite / r).dtype
    for w in (0j, complex(-0.0, 0.0), 1 + 2j, np.complex64(-3.0)):
        np.testing.assert_allclose(value(recorded(finite) / w), finite / w, rtol=1e-6)
        assert value(recorded(finite) / w).dtype == (finite / w).dtype


@pytest.mark.parametrize("what", OF_ONE)
def test_sides_of_branch_cuts(what):
    f = OF_ONE[what]
    for z in (NONZERO, NONZERO * 1j, 3.0 * np.conj(NONZERO), np.array([1 + 0j, 4 - 0j])):
        for found in ways(f, z):
            np.testing.assert_allclose(found, f(z), rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("number", [-5, -3, -2, -1, 0, 1, 2, 3, 7, -1.0, 2.0, -1 + 0j, 0.5, -0.5])
def test_powers(number):
    for way in (lambda z: z**number, lambda z: np.power(z, number)):
        for found in (*ways(way, NONZERO), np.array([value(way(z)) for z in recorded(NONZERO)])):
            np.testing.assert_allclose(found, way(NONZERO), rtol=1e-13, atol=1e-14)
        loss = lambda z, way=way: np.sum(way(z))
        slopes = tg.grad(loss, holomorphic=True)(NONZERO)
        np.testing.assert_allclose(slopes, number * NONZERO ** (number - 1), rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8])
def test_signs_of_frequencies(n):
    for x in (np.linspace(-1.0, 2.0, n), -np.arange(1.0, n + 1.0), np.ones((2, n))):
        for f in (np.fft.fft, np.fft.ifft, np.fft.rfft, np.fft.ihfft):
            for found in ways(f, x):
                wanted = f(x)
                np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)
                ends = (..., [0, n // 2] if n % 2 == 0 and wanted.shape[-1] > n // 2 else [0])
                is_zero = (wanted[ends].imag == 0.0) & (found[ends].imag == 0.0)
                assert is_zero.all()
                signs = [np.signbit(one[ends].imag) for one in (found, wanted)]
                np.testing.assert_array_equal(*signs)


def test_derivatives_of_products_and_quotients():
    rng = np.random.default_rng(0)
    z, w = (rng.normal(size=6) + 1j * rng.normal(size=6) for _ in range(2))
    r = rng.normal(size=6)
    quotient = lambda z, w: np.sum(z / w)
    for found, wanted in zip(
        tg.grad(quotient, (0, 1), holomorphic=True)(z, w), (1 / w, -z / w**2), strict=True
    ):
        np.testing.assert_allclose(found, wanted, rtol=1e-13)
    for f in (
        lambda z, w, r: z * r,
        lambda z, w, r: z / r,
        lambda z, w, r: r / z,
        lambda z, w, r: z / w,
        lambda z, w, r: (2.0 * z - w / 3.0) / (r * w),
        lambda z, w, r: z[0] * r[1] / w[2] + r[3] / z[4],
    ):
        loss = lambda z, w, r, f=f: np.sum(np.abs(f(z, w, r)) ** 2)
        tg.check_grads(loss, (z, w, r), order=2)
        tg.check_grads(tg.compile(loss, argnums=(0, 1, 2)), (z, w, r), order=1)
