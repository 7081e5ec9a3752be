"""Element-wise operations: special functions, named as in SciPy, declared as in `elementwise`."""

from __future__ import annotations

from .elementwise import POSITIVE, UNIT
from .scipy_lines import scipys
from .table import pointwise

pointwise(
    "sigmoid",
    "x",
    "np.sigmoid(x)",
    "np.sigmoid_slope(x, out)",
    doc="1 / (1 + e⁻ˣ)",
    numpy="scipy.special.expit",
)
pointwise(
    "erf",
    "x",
    "np.erf(x)",
    "1.1283791670955126 * np.exp(-x * x)",
    doc="error function",
    numpy="scipy.special.erf",
)
pointwise(
    "erfc",
    "x",
    "np.erfc(x)",
    "-1.1283791670955126 * np.exp(-x * x)",
    doc="1 − erf(x)",
    numpy="scipy.special.erfc",
)
pointwise(
    "gamma",
    "x",
    "np.gamma(x)",
    "out * np.digamma(x)",
    doc="Γ(x)",
    domain=POSITIVE,
    numpy="scipy.special.gamma",
)
pointwise(
    "gammaln",
    "x",
    "np.gammaln(x)",
    "np.digamma(x)",
    doc="log |Γ(x)|",
    domain=POSITIVE,
    numpy="scipy.special.gammaln",
    graph="LgammaBackward0",
    also="math.lgamma",
)
pointwise(
    "digamma",
    "x",
    "np.digamma(x)",
    "np.polygamma(1.0, x)",
    doc="the derivative of gammaln",
    domain=POSITIVE,
    numpy="scipy.special.digamma",
    also="scipy.special.psi",
)
pointwise(
    "polygamma",
    "x y",
    "np.polygamma(x, y)",
    "0.0",
    "np.polygamma(x + 1.0, y)",
    doc="derivative x of digamma at y",
    domain=((1.0, 1.0), POSITIVE),
    awkward="orders have no derivative; ±∞ for orders above 170",
    numpy="scipy.special.polygamma",
)
pointwise(
    "i0",
    "x",
    "np.i0(x)",
    "np.i1(x)",
    doc="modified Bessel function of the first kind of order 0",
    numpy="scipy.special.i0",
    also="numpy.i0",
)
pointwise(
    "i1",
    "x",
    "np.i1(x)",
    "select(np.absolute(x) < 0.3, 0.5 + x * x * (0.1875 + x * x * (0.013020833333333334 + x * x * "
    "(0.0003797743055555556 + x * x * (6.103515625e-06 + x * x * 6.216543692129629e-08)))), "
    "np.i0(x) - np.i1(x) / select(x == 0.0, 1.0, x))",
    doc="modified Bessel function of the first kind of order 1",
    awkward="near 0 the derivative is a series, since derivatives of the other form cancel",
    numpy="scipy.special.i1",
)

#: The derivatives of inverses of integrals of Gaussian curves.
scipys(
    "erfinv",
    "x",
    "",
    "0.886226925452758 * np.exp(out * out)",
    doc="inverse of erf",
    domain=UNIT,
)
scipys(
    "erfcinv",
    "x",
    "",
    "-0.886226925452758 * np.exp(out * out)",
    doc="inverse of erfc",
    domain=(0.1, 1.9),
)
scipys(
    "ndtri",
    "x",
    "",
    "2.5066282746310002 * np.exp(0.5 * out * out)",
    doc="inverse of ndtr",
    domain=(0.1, 0.9),
)


def alternating(step: str, first: int, last: int) -> str:
    """1 − k h (1 − (k + 2) h (1 − …)) for odd numbers k from the first one to the last."""
    total = "1.0"
    for k in range(last, first - 1, -2):
        total = f"(1.0 - {float(k)} * {step} * {total})"
    return total


scipys(
    "erfcx",
    "x",
    "",
    "select(x > 20.0, -1.1283791670955126 * halved * series, 2.0 * x * out - 1.1283791670955126)",
    doc="exp(x²) erfc(x)",
    awkward="beyond 20 the derivative is a series, since 2x out − 2/√π cancels",
    steps=(
        ("large", "select(x > 20.0, x, 20.0)"),
        ("halved", "0.5 / (large * large)"),
        ("series", alternating("halved", 3, 17)),
    ),
)
scipys(
    "k0",
    "x",
    "",
    "-np.k1(x)",
    doc="modified Bessel function of the second kind of order 0",
    domain=POSITIVE,
)
scipys(
    "k1",
    "x",
    "",
    "-np.k0(x) - out / x",
    doc="modified Bessel function of the second kind of order 1",
    domain=POSITIVE,
)

# probabilities
scipys(
    "logit",
    "x",
    "select(np.absolute(x - 0.5) < 0.2, np.log1p(2.0 * x - 1.0) - np.log1p(1.0 - 2.0 * x), "
    "np.log(x) - np.log1p(-x))",
    "1.0 / (x * (1.0 - x))",
    doc="log(x / (1 − x))",
    domain=(0.1, 0.9),
)
scipys(
    "log_expit",
    "x",
    "-np.logaddexp(0.0, -x)",
    "np.sigmoid(-x)",
    doc="log of the sigmoid",
)
scipys(
    "ndtr",
    "x",
    "0.5 * np.erfc(-0.7071067811865476 * x)",
    "0.3989422804014327 * np.exp(-0.5 * x * x)",
    doc="integral of the normal density up to x",
)
scipys(
    "log_ndtr",
    "x",
    "select(x > -1.0, np.log1p(-0.5 * np.erfc(0.7071067811865476 * x)), select(x > -12.0, "
    "np.log(0.5 * np.erfc(-0.7071067811865476 * select(x > -12.0, x, 0.0))), "
    "np.log(-series / low) - 0.5 * low * low - 0.9189385332046728))",
    "select(x > -12.0, np.exp(-0.5 * x * x - 0.9189385332046728 - out), -low / series)",
    doc="log of ndtr(x)",
    awkward="far below 0 it is an asymptotic series",
    steps=(
        ("low", "select(x > -12.0, -12.0, x)"),
        ("inverse", "1.0 / (low * low)"),
        ("series", alternating("inverse", 1, 27)),
    ),
)

# x log y: where x is 0 it is 0, and the derivative by x is log y, also where that is infinite
for _name, _zero, _log, _inner in (
    ("xlogy", "0.0", "np.log(y)", "y"),
    ("xlog1py", "-1.0", "np.log1p(y)", "(1.0 + y)"),
):
    scipys(
        _name,
        "x y",
        f"select((x == 0.0) & (y == y), 0.0, x * {_log})",
        _log,
        f"x / select((x == 0.0) & (y == {_zero}), 1.0, {_inner})",
        doc=f"x {_log[3:]}, 0 where x is 0",
        domain=POSITIVE,
    )
scipys(
    "entr",
    "x",
    "select(x > 0.0, -x * np.log(select(x > 0.0, x, 1.0)), select(x == 0.0, 0.0, "
    "select(x < 0.0, -1e999, x)))",
    "select(x < 0.0, 0.0, -np.log(x) - 1.0)",
    doc="−x log x",
    domain=POSITIVE,
    awkward="−∞ below 0",
)
# where it is infinite, and where x is 0, nothing is passed on by the other operand
_OUTSIDE = "(((x < 0.0) & (y == y)) | ((y < 0.0) & (x == x)) | ((y == 0.0) & (x > 0.0)))"
_RELATIVE = (
    ("outside", _OUTSIDE),
    ("is_zero", "(x == 0.0) & (y >= 0.0)"),
    ("safe_x", "select(outside | is_zero, 1.0, x)"),
    ("safe_y", "select(outside | is_zero, 1.0, y)"),
    ("ratio", "safe_x / safe_y"),
    # close numbers by their distance, those whose quotient overflows by their logarithms
    (
        "logarithm",
        "select(np.absolute(safe_x - safe_y) < 0.5 * safe_y, np.log1p((safe_x - safe_y) / safe_y), "
        "select((ratio > 1e-30) & (ratio < 1e30), np.log(ratio), np.log(safe_x) - np.log(safe_y)))",
    ),
)
for _name, _plus, _slope, _doc in (
    ("rel_entr", "", (" + 1.0", ""), "x log(x / y)"),
    ("kl_div", " - x + y", ("", " + 1.0"), "x log(x / y) − x + y"),
):
    scipys(
        _name,
        "x y",
        f"select(outside, 1e999, select(is_zero, 0.0, x * logarithm){_plus})",
        f"select(outside, 0.0, select(is_zero, -1e999, logarithm){_slope[0]})",
        f"select(outside, 0.0, -x / select((x == 0.0) & (y == 0.0), 1.0, y){_slope[1]})",
        doc=_doc,
        domain=POSITIVE,
        awkward="∞ where one is negative, or y alone is 0",
        steps=_RELATIVE,
    )
