from numpy.polynomial.hermite import *
from numpy.polynomial.hermite import __all__ as __all__
