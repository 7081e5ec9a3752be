"""NumPy's `polynomial.legendre`, with recorded coefficients and points."""

from numpy.polynomial import legendre as _theirs

from ._series import fill as _fill

_fill(globals(), _theirs, "Legendre")
