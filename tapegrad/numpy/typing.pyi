from numpy.typing import *
from numpy.typing import __all__ as __all__
