from numpy.polynomial.chebyshev import *
from numpy.polynomial.chebyshev import __all__ as __all__
