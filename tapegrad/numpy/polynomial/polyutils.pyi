from typing import Any

from numpy.polynomial.polyutils import *
from numpy.polynomial.polyutils import __all__ as __all__

FUNCTIONS: Any
