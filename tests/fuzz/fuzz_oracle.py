"""Values and derivatives of a function by plain NumPy: differences in extended precision.

Directional derivatives come from five values of the function at steps of H, with an error of H⁴
(1e-16) and rounding of 1e-19 / H² (1e-11) where NumPy's longdouble has 64 bits of mantissa. Another
estimate, with steps half as large, and the two from one side, must agree with it, and those along
several directions with one another: where they do not, a kink or a jump is near, or elements are
tied, and the point is not used. What is compared must agree to `RTOL` of
the derivative's size, a thousand times what the estimates may differ by, and far below what a
missing, wrong or doubled term changes.
"""

import warnings
from dataclasses import dataclass

import numpy as np
from fuzz_wide import WIDE, as_wide

EXTENDED = np.finfo(WIDE).eps < 1e-18
H = WIDE(2.0**-13) if EXTENDED else WIDE(2.0**-10)
RTOL = 1e-7 if EXTENDED else 1e-4
CLOSE = 1e-10 if EXTENDED else 1e-7


class Rough(Exception):
    """A point near a kink or a jump, or where NumPy's numbers are not finite."""


@dataclass
class Truth:
    """At a point: the value, derivatives along v and w, second ones along (v, v) and (v, w)."""

    value: np.ndarray
    along: dict  # "v", "w" → derivative of the value, with the value's shape
    second: dict  # "vv", "vw"


def truth(f, point, count, directions) -> Truth:
    """Of a function of `count` differentiated arguments and data."""
    point = [wide(value) for value in point]
    v, w = ([wide(one) for one in directions[name]] for name in "vw")
    with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
        warnings.simplefilter("error")
        try:
            line = Line(f, point, count)
            (v1, v2), (w1, w2) = line.derivatives(v), line.derivatives(w)
            sum1, both = line.derivatives([a + b for a, b in zip(v, w, strict=True)])
            _, less = line.derivatives([a - b for a, b in zip(v, w, strict=True)])
            line.compare(sum1, v1 + w1, CLOSE)  # as derivatives are linear, and second ones square
            line.compare(both + less, 2 * (v2 + w2), 1e3 * CLOSE)
        except (ArithmeticError, ValueError, LookupError, Warning) as error:
            raise Rough(str(error)) from None
    return Truth(line.at_zero, {"v": v1, "w": w1}, {"vv": v2, "vw": (both - v2 - w2) / 2})


def wide(value):
    array = np.asarray(value)
    return np.array(array, as_wide(array.dtype))[()] if array.dtype.kind in "fc" else value


class Line:
    """A function along lines through a point."""

    def __init__(self, f, point, count):
        self.f, self.point, self.count = f, point, count
        self.at_zero = self.at([0.0] * count, WIDE(0.0))

    def at(self, tangent, t):
        moved = [x + t * d for x, d in zip(self.point[: self.count], tangent, strict=True)]
        return np.asarray(self.f(*moved, *self.point[self.count :]))

    def derivatives(self, tangent):
        """First and second, or Rough."""
        steps = [-2, -1, -0.5, 0.5, 1, 2]
        f = {k: self.at(tangent, k * H) for k in steps}
        f[0] = self.at_zero
        if len({one.shape for one in f.values()}) > 1:
            raise Rough("another shape")
        self.compare(first(f, 1), first(f, 0.5), CLOSE)
        self.compare(second(f, 1), second(f, 0.5), 1e3 * CLOSE)
        ahead = (-3 * f[0] + 4 * f[1] - f[2]) / (2 * H)
        back = (3 * f[0] - 4 * f[-1] + f[-2]) / (2 * H)
        self.compare(ahead, back, 1e-3)
        self.compare((f[0] - 2 * f[1] + f[2]) / H**2, (f[0] - 2 * f[-1] + f[-2]) / H**2, 0.05)
        return first(f, 1), second(f, 1)

    def compare(self, a, b, limit):
        if not close(a, b, limit):
            raise Rough("near a kink or a jump")


def close(a, b, limit) -> bool:
    """Whether arrays agree, relative to the largest of them and 1."""
    if not np.size(a):
        return np.shape(a) == np.shape(b)
    scale = max(1.0, float(np.max(np.abs(b))))
    return bool(np.all(np.abs(a - b) <= limit * scale))


def first(f, s):
    return (f[-2 * s] - 8 * f[-s] + 8 * f[s] - f[2 * s]) / (12 * s * H)


def second(f, s):
    return (-f[-2 * s] + 16 * f[-s] - 30 * f[0] + 16 * f[s] - f[2 * s]) / (12 * (s * H) ** 2)
