"""Element-wise operations: special functions, named as in SciPy, declared as in `elementwise`."""

from __future__ import annotations

from .elementwise import POSITIVE
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
