from numpy.polynomial.laguerre import *
from numpy.polynomial.laguerre import __all__ as __all__
