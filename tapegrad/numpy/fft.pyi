from numpy.fft import *
from numpy.fft import __all__ as __all__
