from numpy.polynomial import *
from numpy.polynomial import __all__ as __all__
from numpy.polynomial import polyutils as polyutils
