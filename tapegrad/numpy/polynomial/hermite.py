"""NumPy's `polynomial.hermite`, with recorded coefficients and points."""

from numpy.polynomial import hermite as _theirs

from ._series import fill as _fill

Hermite: type
_fill(globals(), _theirs, "Hermite")
