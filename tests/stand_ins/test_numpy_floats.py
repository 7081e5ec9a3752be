"""Element-wise functions of floats: signs, degrees, steps, gamma; their parts and neighbours."""

import numpy as np
import pytest
import scipy.special
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg

GAMMA = {"special": scipy.special}
TABLE = [
    Expression("np.copysign(x, -0.5)", "torch.copysign(x, torch.tensor(-0.5, dtype=float))"),
    Expression("np.copysign(x, np.sin(5 * x))", "torch.copysign(x, torch.sin(5 * x))"),
    Expression("np.copysign(2.0, x) * x", "torch.copysign(torch.tensor(2.0, dtype=float), x) * x"),
    Expression("np.degrees(x) * x", "torch.rad2deg(x) * x"),
    Expression("np.rad2deg(x) * x", "torch.rad2deg(x) * x"),
    Expression("np.radians(x) * x", "torch.deg2rad(x) * x"),
    Expression("np.deg2rad(x) * x", "torch.deg2rad(x) * x"),
    Expression("np.heaviside(x - 1.0, 0.5) * x", "(x > 1.0) * x"),
    Expression("np.heaviside([-1.0, 0.0, 0.0, 2.0], x)", low=0.3),
    Expression("special.gamma(x)", "torch.lgamma(x).exp()", names=GAMMA, choices=False),
    Expression("tg.gamma(x + 1.0) * x", "torch.lgamma(x + 1.0).exp() * x", other=(0.5, 2.0)),
    Expression("special.gamma(x - 3.0)", names=GAMMA, high=0.9, other=(0.5, 0.9), choices=False),
    Expression("np.ldexp(x, 3) * x", "torch.ldexp(x, torch.tensor(3)) * x"),
    Expression("np.ldexp(x, [[-1], [0], [2]]) * x", "torch.tensor([[0.5], [1.0], [4.0]]) * x * x"),
    Expression("np.ldexp(x, np.floor(2.1 * x).astype(int)) * x"),
    Expression("np.frexp(5.1 * x)[0] * x", "torch.frexp(5.1 * x).mantissa * x"),
    Expression("np.frexp(5.1 * x)[1] * x", "torch.frexp(5.1 * x).exponent * x"),
    Expression("np.modf(3.3 * x)[0] * x", "torch.frac(3.3 * x) * x"),
    Expression("np.modf(3.3 * x)[1] * x", "torch.trunc(3.3 * x) * x"),
    Expression("np.positive(x) * x", "torch.positive(x) * x"),
    Expression("np.conj(x) * np.conjugate(x)", "torch.conj(x) * x"),
    Expression("np.spacing(1.07 * x) * x * 1e16"),
]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    if "spacing" in expression.text and check == "float32":
        pytest.skip("in float32 it is another")
    CHECKS[check](expression)


@native_parts([e for e in TABLE if e.choices])
def test_native(part):
    check_native(part)


AWKWARD = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e308, 5e-324, -3e-310, 0.3])
FUNCTIONS = {
    "frexp": np.frexp,
    "modf": np.modf,
    "positive": np.positive,
    "conj": np.conj,
    "spacing": np.spacing,
    "degrees": np.degrees,
    "radians": np.radians,
    "gamma": scipy.special.gamma,
    "copysign": lambda x: np.copysign(x, [[1.0], [-0.0], [np.nan]]),
    "heaviside": lambda x: np.heaviside(x, [[0.5], [np.nan]]),
    "ldexp": lambda x: np.ldexp(x, np.array([[0], [3], [-1070], [1080], [2100], [-5000], [9999]])),
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("dtype", [float, np.float32, int, bool, "number", "empty", "fortran"])
def test_values_are_numpys(name, recorded, dtype):
    f, x = FUNCTIONS[name], AWKWARD
    if dtype == "number":
        x = x[3]
    elif dtype == "empty":
        x = x[:0]
    elif dtype == "fortran":
        x = np.asfortranarray(np.stack([x, x]))[:, None] if name in "copysign ldexp" else x[::-1]
    elif dtype is int or dtype is bool:
        x = np.array([1, 0, 7]).astype(dtype)
    elif dtype is np.float32:
        x = x[(np.absolute(x) < 1e300) | ~np.isfinite(x)].astype(dtype)
    if dtype in (int, bool) and recorded:
        return
    with np.errstate(all="ignore"):
        try:
            wanted = f(x)
        except TypeError:
            with pytest.raises(TypeError):
                f(tg.tensor(x))
            return
        found = f(tg.tensor(x, requires_grad=recorded))
    for one, other in zip(parts(found), parts(wanted), strict=True):
        assert isinstance(one, tg.Tensor)
        value = one.detach().numpy()
        assert (value.dtype, value.shape) == (np.asarray(other).dtype, np.shape(other))
        np.testing.assert_allclose(
            value, other, rtol=4 * np.finfo(value.dtype).eps if value.dtype.kind == "f" else 0
        )
        if value.dtype.kind == "f":
            known = ~np.isnan(value)
            assert np.array_equal(np.signbit(value)[known], np.signbit(other)[known])


def parts(result):
    return result if isinstance(result, tuple) else (result,)


def test_derivatives_where_they_are_awkward():
    assert tg.grad(lambda x: np.copysign(x, -1.0))(0.0) == 0.0
    gradient = tg.grad(lambda x: np.sum(np.modf(x)[0]))(np.array([np.inf, 2.5, -0.0]))
    assert gradient[1:].tolist() == [1.0, 1.0]
    mantissa = tg.grad(lambda x: np.sum(np.frexp(x)[0]))(np.array([1e-300, 0.0, 4.0]))
    assert mantissa.tolist() == [2.0**996, 1.0, 0.125]
    assert tg.grad(lambda x: np.sum(np.ldexp(x, 4)))(np.ones(2, np.float32)).dtype == np.float32


def test_what_is_refused_says_why():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match="tapegrad.ldexp: x2 has dtype float64; it must hold int"):
        np.ldexp(2.0, x)
    with pytest.raises(TypeError, match="tapegrad.nextafter: an argument is recorded"):
        np.nextafter(1.0, x)
    assert np.nextafter(tg.tensor([1.0]), 2.0).tolist() == [np.nextafter(1.0, 2.0)]


def test_programs_follow_other_powers():
    def f(x):
        mantissa, power = np.frexp(x)
        return np.sum(mantissa**2 * power)

    c = tg.compile(f)
    x = np.array([0.3, 5.0, -7.0])
    for scale in (1.0, 1.0, 3.0, -0.01, 1e5):
        np.testing.assert_allclose(c.grad(scale * x), tg.grad(f)(scale * x))
        assert c(scale * x) == pytest.approx(f(scale * x))
