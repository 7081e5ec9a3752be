from numpy.polynomial.polynomial import *
from numpy.polynomial.polynomial import __all__ as __all__
