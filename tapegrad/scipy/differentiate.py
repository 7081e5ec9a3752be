"""SciPy's `differentiate`, whose functions also take recorded values, or refuse them by name."""

from ._forwarding import forward as _forward

__getattr__, __dir__ = _forward(globals())
