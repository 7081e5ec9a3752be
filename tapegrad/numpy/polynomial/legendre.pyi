from numpy.polynomial.legendre import *
from numpy.polynomial.legendre import __all__ as __all__
