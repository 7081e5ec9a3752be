"""NumPy's `polynomial.hermite_e`, with recorded coefficients and points."""

from numpy.polynomial import hermite_e as _theirs

from ._series import fill as _fill

HermiteE: type
_fill(globals(), _theirs, "HermiteE")
