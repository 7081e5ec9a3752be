"""NumPy's `polynomial.legendre`, with recorded coefficients and points."""

from numpy.polynomial import legendre as _theirs

from ._series import fill as _fill

Legendre: type
_fill(globals(), _theirs, "Legendre")
