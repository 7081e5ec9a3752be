"""Special functions of complex numbers, named as in SciPy: each part is an element-wise operation.

With f' = a + ib of a holomorphic f = u + iv: u has the partial derivatives a and −b, v has b and a.
"""

from __future__ import annotations

from typing import NamedTuple

from ..codegen.vector_math import Special, declare_scipys
from .special_functions import ours, scipys
from .table import pointwise


class Complex(NamedTuple):
    """The texts of a real and an imaginary part."""

    real: str
    imag: str

    def __mul__(self, other):
        (a, b), (c, d) = self, other
        return Complex(f"({a} * {c} - {b} * {d})", f"({a} * {d} + {b} * {c})")

    def __add__(self, other):
        return Complex(f"({self.real} + {other.real})", f"({self.imag} + {other.imag})")

    def times(self, factor: str):
        """The product with a real number."""
        return Complex(f"({factor} * {self.real})", f"({factor} * {self.imag})")

    def over(self, other):
        """The quotient, for a divisor whose square is a number."""
        (a, b), (c, d) = self, other
        square = f"({c} * {c} + {d} * {d})"
        return Complex(
            f"(({a} * {c} + {b} * {d}) / {square})", f"(({b} * {c} - {a} * {d}) / {square})"
        )

    def selected(self, condition: str, other):
        """This one where a condition holds, else the other."""
        return Complex(
            *[f"select({condition}, {p}, {q})" for p, q in zip(self, other, strict=True)]
        )


def value(name: str, z: Complex, order: str = "") -> Complex:
    """A function at another place; of some order, if it has one."""
    first = f"{order}, " if order else ""
    return Complex(*[f"np.complex_{name}_{part}({first}{z.real}, {z.imag})" for part in z._fields])


def exponential(x: str, y: str) -> Complex:
    """exp(x + iy)."""
    return Complex(f"(np.exp({x}) * np.cos({y}))", f"(np.exp({x}) * np.sin({y}))")


#: What SciPy computes of complex numbers, with the name of the function for its values.
NAMES: list[str] = []


def holomorphic(
    name: str, slope: Complex, *, doc: str, domain, awkward: str = "", steps=()
) -> None:
    """Declare the parts of one of SciPy's functions, by those of its derivative."""
    NAMES.append(name)
    for k, part in enumerate(Complex._fields):
        full = f"complex_{name}_{part}"
        declare_scipys(full, Special(name, 2, 2, k, of_complex=True))
        pointwise(
            full,
            "x y",
            f"np.{full}(x, y)",
            *((slope.imag, slope.real) if k else (slope.real, f"-{slope.imag}")),
            doc=f"{'imaginary' if k else 'real'} part of {doc}",
            domain=domain,
            awkward=awkward,
            numpy=f"numpy.{full}",
            also=None,
            steps=steps,
            apart=True,
        )


def of_order(name: str, doc: str, domain) -> None:
    """Declare derivatives of any order, by functions of ours."""
    following = value(name, Z, "n + 1.0")
    for k, part in enumerate(Complex._fields):
        ours(
            f"complex_{name}_{part}",
            "n x y",
            "0.0",
            *((following.imag, following.real) if k else (following.real, f"-{following.imag}")),
            doc=f"{'imaginary' if k else 'real'} part of derivative n of {doc}",
            domain=((1.0, 1.0), *domain),
        )


Z = Complex("x", "y")
_PLANE = ((0.3, 2.0), (0.3, 2.0))
_TWO = "1.1283791670955126"  # 2 / √π
of_order("polygamma", "digamma", _PLANE)
of_order("wofz_slope", "wofz", _PLANE)

# --- error functions -----------------------------------------------------------------------------

_FALLING = exponential("y * y - x * x", "-2.0 * x * y")
_RISING = exponential("x * x - y * y", "2.0 * x * y")
holomorphic("erf", _FALLING.times(_TWO), doc="the error function", domain=_PLANE)
holomorphic("erfc", _FALLING.times(f"-{_TWO}"), doc="1 − erf(z)", domain=_PLANE)
holomorphic("erfi", _RISING.times(_TWO), doc="−i erf(iz)", domain=_PLANE)
holomorphic("wofz", value("wofz_slope", Z, "1.0"), doc="exp(−z²) erfc(−iz)", domain=_PLANE)
_OF_TURNED = value("wofz_slope", Complex("-y", "x"), "1.0")
holomorphic(
    "erfcx",
    Complex(f"(-{_OF_TURNED.imag})", _OF_TURNED.real),
    doc="exp(z²) erfc(z)",
    domain=_PLANE,
)
# i √π / 2 (exp(−z²) − w), which is odd, above the real axis
_UP = Complex("u", "v")
_INNER = (_FALLING * _UP).times("2.0") + value("wofz_slope", _UP, "1.0")
holomorphic(
    "dawsn",
    Complex(f"(0.886226925452758 * {_INNER.imag})", f"(-0.886226925452758 * {_INNER.real})"),
    doc="Dawson's integral",
    domain=_PLANE,
    steps=(("u", "select(y < 0.0, -x, x)"), ("v", "select(y < 0.0, -y, y)")),
)
_SCALED = value("erfcx", Complex("-0.7071067811865476 * x", "-0.7071067811865476 * y"))
holomorphic(
    "log_ndtr",
    Complex("0.7978845608028654", "0.0").over(Complex("p", "q")),
    doc="log of the integral of the normal density",
    domain=_PLANE,
    steps=(("p", _SCALED.real), ("q", _SCALED.imag)),
)
# the real part of w((x + iγ) / (σ √2)) / (σ √(2π)); homogeneous of degree −1
scipys(
    "voigt_profile",
    "x sigma gamma",
    "",
    "along",
    "-(out + x * along + gamma * across) / sigma",
    "across",
    doc="Voigt's profile",
    domain=((0.1, 3.0), (0.3, 3.0), (0.1, 3.0)),
    awkward="NaN where sigma is 0",
    steps=(
        ("scale", "0.7071067811865476 / sigma"),
        ("factor", "0.5641895835477563 * scale * scale"),
        ("along", "factor * np.complex_wofz_slope_real(1.0, scale * x, scale * gamma)"),
        ("across", "-factor * np.complex_wofz_slope_imag(1.0, scale * x, scale * gamma)"),
    ),
)

# --- gamma functions -----------------------------------------------------------------------------

_PSI = value("psi", Z)
holomorphic("psi", value("polygamma", Z, "1.0"), doc="digamma", domain=_PLANE)
holomorphic("loggamma", _PSI, doc="log Γ", domain=_PLANE)
holomorphic("gamma", value("gamma", Z) * _PSI, doc="Γ", domain=_PLANE)
# left of ½ by reflection: 1 / Γ(z) = sin(πz) Γ(1 − z) / π
_LEFT = Complex("(1.0 - left)", "(-y)")
_COSINE = Complex("(np.cos(turned) * np.cosh(across))", "(-np.sin(turned) * np.sinh(across))")
_SINE = Complex("(np.sin(turned) * np.cosh(across))", "(np.cos(turned) * np.sinh(across))")
_REFLECTED = (_COSINE + (_SINE * value("psi", _LEFT)).times("-0.3183098861837907")) * value(
    "gamma", _LEFT
)
_RIGHT = Complex("right", "y")
_DIRECT = (value("rgamma", _RIGHT) * value("psi", _RIGHT)).times("-1.0")
holomorphic(
    "rgamma",
    _REFLECTED.selected("x < 0.5", _DIRECT),
    doc="1 / Γ",
    domain=_PLANE,
    awkward="left of ½ by reflection, so that it is right at poles of Γ",
    steps=(
        ("left", "select(x < 0.5, x, 0.0)"),
        ("right", "select(x < 0.5, 1.0, x)"),
        ("turned", "3.141592653589793 * left"),
        ("across", "3.141592653589793 * select(x < 0.5, y, 0.0)"),
    ),
)

# --- exponential integrals -----------------------------------------------------------------------

holomorphic("expi", exponential("x", "y").over(Z), doc="the exponential integral Ei", domain=_PLANE)
holomorphic(
    "exp1",
    exponential("(-x)", "(-y)").over(Z).times("-1.0"),
    doc="the exponential integral E₁",
    domain=_PLANE,
)
