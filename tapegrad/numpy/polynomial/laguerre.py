"""NumPy's `polynomial.laguerre`, with recorded coefficients and points."""

from numpy.polynomial import laguerre as _theirs

from ._series import fill as _fill

Laguerre: type
_fill(globals(), _theirs, "Laguerre")
