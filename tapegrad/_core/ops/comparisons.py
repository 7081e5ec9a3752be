"""Comparisons, logic and choices: element-wise operations of programs, not of users.

A condition is a number in a program: 1.0 where it holds, else 0.0. As in NumPy, everything but 0 is
true in logic, NaN too. Eager code leaves these to NumPy and records no rows of them; adjoints that
are recorded in a trace have rows of them where they are numbers (`sweep.write_adjoints`).
"""

from .table import STEERING, pointwise

_LARGEST = "1.7976931348623157e308"


def _steering(name, inputs, holds, doc, also=""):
    """Declare that an operation is 1.0 where an expression holds."""
    flat = ["0.0"] * len(inputs.split())
    value = f"select({holds}, 1.0, 0.0)"
    pointwise(name, inputs, value, *flat, doc=doc, also=also, table=STEERING)


pointwise(
    "detached",
    "x",
    "x",
    "0.0",
    doc="x without its derivative",
    numpy="numpy.positive",
    also=None,
    table=STEERING,
)
_steering("less", "x y", "x < y", "x < y", "operator.lt")
_steering("less_equal", "x y", "x <= y", "x ≤ y", "operator.le")
_steering("greater", "x y", "x > y", "x > y", "operator.gt")
_steering("greater_equal", "x y", "x >= y", "x ≥ y", "operator.ge")
_steering("equal", "x y", "x == y", "x = y", "operator.eq")
_steering("not_equal", "x y", "x != y", "x ≠ y", "operator.ne")
_steering("logical_and", "x y", "(x != 0.0) & (y != 0.0)", "both are true")
_steering("logical_or", "x y", "(x != 0.0) | (y != 0.0)", "one or both are true")
_steering("logical_xor", "x y", "(x != 0.0) != (y != 0.0)", "one is true")
_steering("logical_not", "x", "x == 0.0", "x is false")
_steering("isnan", "x", "x != x", "x is NaN")
_steering("isinf", "x", f"np.absolute(x) > {_LARGEST}", "x is ∞ or −∞")
_steering("isfinite", "x", f"np.absolute(x) <= {_LARGEST}", "x is a number")
_steering("signbit", "x", "np.copysign(1.0, x) < 0.0", "x has a minus, −0 and NaN included")

# A choice between two operands is a sum of two operations: −0 + x is x for every x.
pointwise(
    "keep_where",
    "x y",
    "select(x != 0.0, y, -0.0)",
    "0.0",
    "select(x != 0.0, 1.0, 0.0)",
    doc="y where x holds, else −0",
    table=STEERING,
)
pointwise(
    "drop_where",
    "x y",
    "select(x != 0.0, -0.0, y)",
    "0.0",
    "select(x == 0.0, 1.0, 0.0)",
    doc="y where x does not hold, else −0",
    table=STEERING,
)
pointwise(
    "times",
    "x y",
    "select(x == 0.0, 0.0, x * y)",
    "select((x == 0.0) & (y - y != 0.0), 0.0, y)",
    "x",
    doc="x · y, 0 where x is exactly 0 whatever y",
    table=STEERING,
)
pointwise(
    "masked",
    "x y",
    "x * y",
    "select(y != 0.0, y, 0.0)",
    "0.0",
    doc="x · y for y without derivative, such as a truth; where y is 0, x is not counted",
    numpy="numpy.multiply",
    also=None,
    table=STEERING,
)
pointwise(
    "weighted",
    "x y",
    "select(x == 0.0, 0.0, x * y)",
    "y",
    "x",
    doc="x · y, 0 where x is exactly 0 whatever y, which is counted x times",
    table=STEERING,
)
pointwise(
    "index",
    "x y",
    f"select((x >= -y) & (x < y), select(x < 0.0, x + y, x), -{_LARGEST})",
    "0.0",
    "0.0",
    doc="x as an index of y elements, counted from the first; far below 0 where it is outside",
    table=STEERING,
)
