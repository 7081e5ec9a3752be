from numpy.polynomial.hermite_e import *
from numpy.polynomial.hermite_e import __all__ as __all__
