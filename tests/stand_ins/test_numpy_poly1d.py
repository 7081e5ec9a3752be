"""`poly1d`, `vectorize` and windows of the stand-in, with recorded values."""

import numpy as np
import pytest
from expressions import CHECKS, Expression, parametrized

import tapegrad as tg
import tapegrad.numpy as stand_in

T = np.array([-0.7, 0.1, 0.4, 1.2, 1.7])
NAMES = {"s": stand_in, "T": T, "math": tg}


def E(text, torch=None, **options):
    return Expression(text, torch, shape=(5,), names=NAMES, **options)


TABLE = [
    E("s.poly1d([x[0], x[1]])(T)", "x[0] * torch.tensor(T) + x[1]", choices=False),
    E(
        "s.poly1d(x[:3], True).c",
        "torch.stack([x[0] * 0 + 1, -x[:3].sum(), x[0] * x[1] + x[0] * x[2] + x[1] * x[2], "
        "-x[:3].prod()])",
        choices=False,
    ),
    E("s.polyval(s.poly1d(x[:2]), T)", "x[0] * torch.tensor(T) + x[1]", choices=False),
    E("s.polyval([x[0], 1.0], [x[1], x[2]])", "x[0] * x[1:3] + 1.0"),
    E("(s.poly1d(x) / s.poly1d(x[:2]))[0].c", choices=False),
    E("(s.poly1d([1.0, x[0]]) / x[1] + [x[2], 1.0]).integ(k=x[3]).deriv(2).c", choices=False),
    E("(1.0 - s.poly1d(x) * [1.0, x[0]])(0.5)", choices=False),
    E("s.polyint([3.0, 1.0], 1, x[0])", "torch.stack([x[0] * 0 + 1.5, x[0] * 0 + 1, x[0]])"),
    E("s.polyfit(T, [x[0], x[1], x[2], 1.0, x[3]], 1)"),
    E(
        "s.vectorize(lambda v: v * v if v > 1.0 else np.sin(v))(x)",
        "torch.where(x > 1.0, x * x, x.sin())",
    ),
    E(
        "s.vectorize(lambda v, w: v * w, otypes=[float])(x[:, None], [1.0, x[0]])",
        "torch.stack([x, x * x[0]], 1)",
    ),
    E(
        "s.vectorize(lambda v, p: sum(c * v**k for k, c in enumerate(p)), excluded={1})(x, "
        "[1.0, x[0]])",
        "1 + x[0] * x",
    ),
    E("s.vectorize(lambda v, w: (v + w, v * w))(x, 2.0)[1]", "2 * x"),
    E("s.vectorize(np.dot, signature='(n),(n)->()')(x.reshape(5, 1), [2.0])", "2 * x"),
    E(
        "s.vectorize(lambda v: np.cumsum(v), signature='(n)->(m)')(np.stack([x, x**2]))",
        "torch.stack([x, x**2]).cumsum(1)",
    ),
    E("s.vectorize(lambda v: v * x[0])(T)", "x[0] * torch.tensor(T)"),
    E("s.vectorize(lambda v, scale: v * scale)(x, scale=x[1])", "x * x[1]"),
    E("np.kaiser(1, 2.0) * x"),
    E("s.kaiser(5, x[0])", other=(0.5, 2.0)),
    E("s.kaiser(4, 0.0 * x[0])", choices=False),
    E("s.hanning(5) * x + s.blackman(5) + s.bartlett(5) * s.hamming(5)"),
]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    CHECKS[check](expression)


def test_plain_values_are_numpys():
    ours, theirs = stand_in.poly1d([1, 2, 3]), np.poly1d([1, 2, 3])
    assert ours == theirs and isinstance(ours, np.poly1d) and repr(ours) == repr(theirs)
    assert type(ours.coeffs) is np.ndarray and type(ours * 2) is type(ours.deriv()) is type(ours)
    assert np.array_equal((ours / [1, 1])[0].c, (theirs / [1, 1])[0].c)
    double = stand_in.vectorize(lambda v: 2 * v)
    assert type(double([1, 2])) is np.ndarray and double([1, 2]).dtype == int
    assert isinstance(double, np.vectorize) and double(3) == 6


def test_vectorize_as_a_decorator_and_of_no_elements():
    @stand_in.vectorize(otypes=[float])
    def f(v):
        return v * v

    x = tg.tensor([1.0, 2.0], requires_grad=True)
    np.testing.assert_array_equal(f(x).detach(), [1.0, 4.0])
    assert f(x[:0]).shape == (0,) and f(x[0]).shape == ()


@pytest.mark.parametrize(
    "call, kind, text",
    [
        (lambda x: np.roots(x * 0.0), ValueError, "roots: .*coefficient is 0"),
        (lambda x: np.poly(x.reshape(1, 5) * np.ones((5, 1))), TypeError, "poly: .*eigenvalues"),
        (lambda x: np.polyfit(T, x, 1, full=True), TypeError, "full=True is not supported"),
        (
            lambda x: np.polyfit(x * 0.0, T, 1),
            np.linalg.LinAlgError,
            "rank 1, which does not",
        ),
        (lambda x: np.polyfit(T, x, 4, cov=True), ValueError, "5 points for 5 coefficients"),
        (lambda x: np.polyfit(T, x, -1), ValueError, "deg"),
        (lambda x: np.polyfit(T[:3], x, 1), TypeError, "same length"),
        (lambda x: np.polyint(x, 3, k=[1.0, 2.0]), ValueError, "k has 2"),
        (lambda x: np.polyder(x, -1), ValueError, "positive"),
        (lambda x: np.vander(x[:, None]), ValueError, "one axis"),
        (lambda x: stand_in.vectorize(lambda v: v)(x[:0]), ValueError, "otypes"),
        (lambda x: stand_in.vectorize(lambda v: v * x)(x), ValueError, "signature="),
        (
            lambda x: stand_in.vectorize(lambda v: v if v > 1 else 0)(x * [0.0, 1, 1, 1, 1]),
            TypeError,
            "return floats",
        ),
        (
            lambda x: stand_in.vectorize(np.dot, signature="(n),(n)->()")(x, x[:2]),
            ValueError,
            "sizes 5 and 2",
        ),
        (lambda x: stand_in.frompyfunc(lambda v: v, 1, 1)(x), TypeError, "vectorize"),
        (lambda x: np.vectorize(lambda v: v)(x), TypeError, "tapegrad"),
        (lambda x: tg.kaiser(5, x), TypeError, "beta has shape"),
        (lambda x: tg.kaiser(x[0], 2.0), TypeError, "number of points is recorded"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call(tg.tensor(T + 1.0, requires_grad=True))
