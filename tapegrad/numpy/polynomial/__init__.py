"""NumPy's `polynomial`, with recorded coefficients, points and domains.

>>> import tapegrad as tg
>>> import tapegrad.numpy as np
>>> def f(c):
...     p = np.polynomial.Chebyshev([c[0], 2.0, c[1]])
...     return p.deriv()(0.5)
>>> tg.grad(f)(np.array([1.0, 3.0]))
array([0., 2.])
"""

from numpy.polynomial import set_default_printstyle

from . import chebyshev, hermite, hermite_e, laguerre, legendre, polynomial, polyutils
from .chebyshev import Chebyshev
from .hermite import Hermite
from .hermite_e import HermiteE
from .laguerre import Laguerre
from .legendre import Legendre
from .polynomial import Polynomial

__all__ = [
    "Chebyshev",
    "Hermite",
    "HermiteE",
    "Laguerre",
    "Legendre",
    "Polynomial",
    "chebyshev",
    "hermite",
    "hermite_e",
    "laguerre",
    "legendre",
    "polynomial",
    "polyutils",
    "set_default_printstyle",
]
