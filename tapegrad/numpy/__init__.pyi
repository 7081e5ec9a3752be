from numpy import *
from numpy import __all__ as __all__
