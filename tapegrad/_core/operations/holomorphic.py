"""Special functions of complex tensors, by the parts that `ops.holomorphic_functions` declares."""

from __future__ import annotations

from ..ops.holomorphic_functions import NAMES
from ..tensor.apply import ELEMENTWISE_OF_COMPLEX, apply
from ..tensor.complex_tensors import combined, is_complex
from ..tensor.copies import unlisted
from ..tensor.registry import OF_NUMPY
from .complex_arithmetic import parts

#: Those whose operations of real numbers have other names.
_NAMED = {"psi": "digamma"}


def _of_complex(name: str):
    """The function of a complex operand."""

    def how(z):
        x, y = parts(z)
        return combined(apply(f"complex_{name}_real", x, y), apply(f"complex_{name}_imag", x, y))

    return how


for _name in NAMES:
    ELEMENTWISE_OF_COMPLEX[_NAMED.get(_name, _name)] = _of_complex(_name)


def wofz(z):
    """Faddeeva's function w, which is complex for real numbers, too."""
    z = unlisted(z)
    return ELEMENTWISE_OF_COMPLEX["wofz"](z if is_complex(z) else combined(z, 0.0 * z))


OF_NUMPY["wofz"] = wofz
