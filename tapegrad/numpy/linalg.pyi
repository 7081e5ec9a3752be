from numpy.linalg import *
from numpy.linalg import __all__ as __all__
