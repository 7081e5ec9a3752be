"""NumPy's `polynomial.polynomial`, with recorded coefficients and points."""

from numpy.polynomial import polynomial as _theirs

from ._series import fill as _fill

Polynomial: type
_fill(globals(), _theirs, "Polynomial")
