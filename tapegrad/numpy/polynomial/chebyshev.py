"""NumPy's `polynomial.chebyshev`, with recorded coefficients and points."""

from numpy.polynomial import chebyshev as _theirs

from ._series import fill as _fill

Chebyshev: type
_fill(globals(), _theirs, "Chebyshev")
