"""`numpy.polynomial` of the stand-in, with recorded coefficients, points and domains."""

import dataclasses
import pickle

import numpy as np
import pytest
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg
import tapegrad.numpy as stand_in

P = stand_in.polynomial
KINDS = {
    "poly": "Polynomial",
    "cheb": "Chebyshev",
    "leg": "Legendre",
    "lag": "Laguerre",
    "herm": "Hermite",
    "herme": "HermiteE",
}
MODULES = {
    "poly": "polynomial",
    "cheb": "chebyshev",
    "leg": "legendre",
    "lag": "laguerre",
    "herm": "hermite",
    "herme": "hermite_e",
}
T = np.array([-0.6, 0.1, 0.4, 0.9])
NAMES = {"T": T, "P": P, "tg": tg}
#: Of each kind; `K` is its module, `C` its class, `k` the beginning of names.
FUNCTIONS = [
    "K.kval(x[0], x)",
    "K.kval(T, x[0]) + K.kval(x[1], T)",
    "K.kval(x[0, 0], x[1])",
    "K.kval(x[0], x, tensor=False)",
    "K.kval2d(x[0], x[1], x)",
    "K.kval3d(x[0], x[1], x[2], np.reshape(x, (3, 2, 2)))",
    "K.kgrid2d(x[0], x[1, :2], x)",
    "K.kgrid3d(x[0, :2], x[1, :2], x[2, :2], np.reshape(x, (3, 2, 2)))",
    "K.kadd(x[0], x[1, :2])",
    "K.ksub(x[0, :2], T)",
    "K.kmul(x[0], x[1, :3])",
    "K.kmulx(x[0])",
    "K.kdiv(x[0], x[1, :2])[0]",
    "K.kdiv(x[0], T[1:])[1]",
    "K.kpow(x[0, :2], 3)",
    "K.kder(x, 2)",
    "K.kder(x, 1, scl=x[0, 0], axis=1)",
    "K.kint(x)",
    "K.kint(x[0], 2, k=[x[1, 0], 1.0], lbnd=x[2, 2], scl=x[2, 1])",
    "K.kfromroots(x[0])",
    "K.kvander(x, 3)",
    "K.kvander2d(x[0], x[1], [1, 2])",
    "K.kfit(T, x[0], 2)",
    "K.kfit(x[1], x[0], [0, 2], w=x[2])",
    "K.kline(x[0, 0], x[0, 1])",
    "K.kcompanion(x[0])",
    "P.C(x[0])(x)",
    "P.C(x[0], domain=x[1, :2] + [-2.0, 2.0], window=[x[2, 0], 2.0])(T)",
    "((P.C(x[0]) * P.C(x[1, :2]) - x[2, 2]) ** 2).deriv(2)(x[2, 1])",
    "(P.C(x[0]) // P.C(x[1, :2]) + P.C(x[0]) % P.C([1.0, x[1, 1], 0.5])).integ(lbnd=x[2, 0]).coef",
    "P.C(x[0]).convert(kind=P.Polynomial, domain=[0.0, x[2, 2]]).coef",
    "P.C.fit(x[1], x[0], 1)(x[2])",
    "P.C.fromroots(x[0], domain=[0.0, 3.0])(0.3)",
    "P.C(x[0]).linspace(5)[1]",
]
SHORT = FUNCTIONS[::5]


def of_kind(text, k):
    text = text.replace("K.k", f"P.{MODULES[k]}.{k}").replace("P.C", f"P.{KINDS[k]}")
    made = Expression(text, choices=False, low=0.3, high=1.3, names=NAMES)
    size = 3.0 * np.max(np.abs(made.function()(made.point())))  # differences need small values
    return made if size < 1.0 else dataclasses.replace(made, text=f"({text}) / {size:.0f}")


#: Of two kinds all, of the others every second one.
TABLES = {
    k: [of_kind(text, k) for text in FUNCTIONS[:: 1 if k in ("cheb", "lag") else 2]] for k in KINDS
}
ALL = [expression for table in TABLES.values() for expression in table]
#: In a program: of one kind all, of the others some; in other ways some.
COMPILED = [*TABLES["cheb"], *[of_kind(text, k) for k in KINDS if k != "cheb" for text in SHORT]]
SOME = [of_kind(text, k) for k in ("poly", "herme") for text in SHORT]


@parametrized(ALL)
def test_derivatives(expression):
    CHECKS["derivatives"](expression)


@parametrized(COMPILED)
def test_compiled(expression):
    CHECKS["compiled"](expression)


@parametrized(SOME)
@pytest.mark.parametrize(
    "check", [name for name in CHECKS if name not in ("derivatives", "compiled")]
)
def test_other_ways(check, expression):
    CHECKS[check](expression)


@native_parts([of_kind(text, "leg") for text in FUNCTIONS[:12:3]])
def test_native(part):
    check_native(part)


def test_plain_values_are_numpys():
    for k, kind in KINDS.items():
        ours, theirs = getattr(P, MODULES[k]), getattr(np.polynomial, MODULES[k])
        assert set(theirs.__all__) <= set(dir(ours))
        value = getattr(ours, f"{k}val")(T, [1.0, 2.0, 3.0])
        assert type(value) is np.ndarray
        assert np.array_equal(value, getattr(theirs, f"{k}val")(T, [1.0, 2.0, 3.0]))
        series, plain = getattr(P, kind)([1, 2]), getattr(np.polynomial, kind)([1, 2])
        assert isinstance(series, type(plain)) and type(series.coef) is np.ndarray
        assert repr(series) == repr(plain) and str(series) == str(plain)
        assert f"{series:ascii}" == f"{plain:ascii}" and series == pickle.loads(
            pickle.dumps(series)
        )


def test_text_of_recorded_coefficients_is_that_of_values():
    x = tg.tensor([1.0, -2.0, 0.5], requires_grad=True)
    for kind in KINDS.values():
        series, plain = getattr(P, kind)(x), getattr(np.polynomial, kind)([1.0, -2.0, 0.5])
        assert repr(series) == repr(plain) and str(series) == str(plain)
        assert series._repr_latex_() == plain._repr_latex_()


@pytest.mark.parametrize(
    "call, kind",
    [
        (lambda x: P.Polynomial(x).roots(), TypeError),
        (lambda x: P.polynomial.polyfit(T, x, 1, full=True), TypeError),
        (lambda x: P.polynomial.polyfit(T[:3], x, 1), TypeError),
        (lambda x: P.polynomial.polyfit(T, x, -1), ValueError),
        (lambda x: P.polynomial.polyfit(T * 0.0, x, 1), np.linalg.LinAlgError),
        (lambda x: P.chebyshev.chebval2d(x, x[:2], np.ones((2, 2))), ValueError),
        (lambda x: P.legendre.legdiv(x, x[:2] * 0.0), ZeroDivisionError),
        (lambda x: P.laguerre.lagder(x, -1), ValueError),
        (lambda x: P.hermite.hermpow(x, 20), ValueError),
        (lambda x: P.Hermite(x) + P.Legendre(x), TypeError),
        (lambda x: P.Hermite([]), ValueError),
    ],
)
def test_errors(call, kind):
    for x in (T, tg.tensor(T, requires_grad=True)):
        if x is not T or kind in (ValueError, ZeroDivisionError):
            with pytest.raises(kind):
                call(x)


def test_zeros_that_are_left_out_are_guarded():
    def f(x):
        return np.sum(P.polynomial.polyadd(x, [1.0, 2.0, -1.0]) ** 2)

    compiled = tg.compile(f, verify="never", native=False)
    for x in ([1.0, 2.0, 3.0], [1.0, 2.0, 1.0], [-1.0, -2.0, 1.0]):
        x = np.array(x)
        assert compiled(x) == f(x)
        np.testing.assert_array_equal(compiled.grad(x), tg.grad(f)(x))


def test_series_put_into_series():
    outer, inner = P.Polynomial([1.0, 2.0, 3.0]), P.Polynomial([0.5, -1.0])
    f = lambda c: np.sum(outer(P.Polynomial(c)).coef ** 2)
    wanted = np.sum(
        np.polynomial.Polynomial([1.0, 2, 3])(np.polynomial.Polynomial(inner.coef)).coef ** 2
    )
    np.testing.assert_allclose(f(inner.coef), wanted)
    tg.check_grads(f, (inner.coef,))


def test_series_of_both_classes_mix():
    ours, theirs = P.Legendre, np.polynomial.Legendre
    x = tg.tensor([1.0, 2.0, 4.0], requires_grad=True)
    a, b = ours(x), theirs([3.0, 0.5])
    plain = theirs([1.0, 2.0, 4.0])
    for made, wanted in [
        (a + b, plain + b),
        (b + a, b + plain),
        (b - a, b - plain),
        (b * a, b * plain),
        (a // b, plain // b),
        (a % b, plain % b),
        (2.0 - a, 2.0 - plain),
        ([1.0, 2.0] * a, [1.0, 2.0] * plain),
    ]:
        assert type(made) is ours and made.coef.requires_grad
        np.testing.assert_allclose(made.coef.detach(), wanted.coef)
