from numpy.testing import *
from numpy.testing import __all__ as __all__
