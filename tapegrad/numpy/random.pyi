from numpy.random import *
from numpy.random import __all__ as __all__
