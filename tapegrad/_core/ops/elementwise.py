"""Element-wise operations, comparisons too: value and partial derivatives, one declaration each."""

from . import slopes
from .table import STEERING, pointwise

# --- Element-wise operations: value and partial derivatives, one declaration each -----------------
# `x`, `y`, `z` are the inputs, `out` the value. A partial derivative of "0.0" says that the
# derivative is zero wherever it exists.


assert slopes  # which partial derivatives name

ANY, POSITIVE, UNIT = (-2.0, 2.0), (0.1, 3.0), (-0.9, 0.9)

# arithmetic
pointwise("add", "x y", "x + y", "1.0", "1.0", doc="x + y", also="operator.add")
pointwise(
    "subtract",
    "x y",
    "x - y",
    "1.0",
    "-1.0",
    doc="x − y",
    graph="SubBackward0",
    also="operator.sub",
)
pointwise(
    "multiply", "x y", "x * y", "y", "x", doc="x · y", graph="MulBackward0", also="operator.mul"
)
pointwise(
    "divide",
    "x y",
    "x / y",
    "1.0 / y",
    "-out * (1.0 / y)",
    doc="x / y",
    domain=(ANY, POSITIVE),
    graph="DivBackward0",
    also="operator.truediv",
)
pointwise(
    "power",
    "x y",
    "np.power(x, y)",
    "select(y != 0.0, y * np.power(x, y - 1.0), select(np.absolute(x) > 0.0, "
    "y / select(np.absolute(x) > 0.0, x, 1.0), 0.0))",
    "select(x != 0.0, out * np.log(select(x == 0.0, 1.0, x)), 0.0)",
    doc="x to the power y",
    domain=(POSITIVE, ANY),
    awkward="at x = 0 the partial derivative to y is 0; for x < 0 it is NaN",
    graph="PowBackward0",
    also="operator.pow builtins.pow math.pow numpy.float_power",
)
pointwise(
    "remainder",
    "x y",
    "np.remainder(x, y)",
    "1.0",
    "-np.floor_divide(x, y)",
    doc="remainder with the sign of y, `%`",
    domain=(ANY, POSITIVE),
    awkward="at multiples of y: the partial derivative from inside",
    also="operator.mod",
)
pointwise(
    "fmod",
    "x y",
    "np.fmod(x, y)",
    "1.0",
    "-np.rint((x - out) / y)",
    doc="remainder with the sign of x",
    domain=(ANY, POSITIVE),
    awkward="at multiples of y: the partial derivative from inside",
)
pointwise("negative", "x", "-x", "-1.0", doc="−x", graph="NegBackward0", also="operator.neg")
pointwise("square", "x", "x * x", "2.0 * x", doc="x²", graph="PowBackward0")
pointwise("reciprocal", "x", "1.0 / x", "-out * out", doc="1 / x", domain=POSITIVE)
pointwise(
    "absolute",
    "x",
    "np.absolute(x)",
    "np.sign(x)",
    doc="|x|",
    awkward="0 at 0",
    graph="AbsBackward0",
    also="operator.abs builtins.abs math.fabs numpy.fabs",
)

pointwise(
    "copysign",
    "x y",
    "np.copysign(x, y)",
    "np.sign(x) * np.copysign(1.0, y)",
    "0.0",
    doc="|x| with the sign of y",
    awkward="0 at x = 0",
)
pointwise(
    "degrees",
    "x",
    "x * 57.29577951308232",
    "57.29577951308232",
    doc="radians to degrees",
    also="math.degrees numpy.rad2deg",
)
pointwise(
    "radians",
    "x",
    "x * 0.017453292519943295",
    "0.017453292519943295",
    doc="degrees to radians",
    also="math.radians numpy.deg2rad",
)

# powers, exponentials, logarithms
pointwise("sqrt", "x", "np.sqrt(x)", "0.5 / out", doc="√x", domain=POSITIVE, awkward="∞ at 0")
pointwise(
    "cbrt",
    "x",
    "np.cbrt(x)",
    "1.0 / (3.0 * out * out)",
    doc="cube root of x",
    domain=POSITIVE,
    also="math.cbrt scipy.special.cbrt",
    awkward="∞ at 0",
)
pointwise("exp", "x", "np.exp(x)", "out", doc="eˣ")
pointwise(
    "exp2",
    "x",
    "np.exp2(x)",
    "0.6931471805599453 * out",
    doc="2ˣ",
    also="math.exp2 scipy.special.exp2",
)
pointwise(
    "expm1",
    "x",
    "np.expm1(x)",
    "np.exp(x)",
    doc="eˣ − 1",
    also="math.expm1 scipy.special.expm1",
)
pointwise("log", "x", "np.log(x)", "1.0 / x", doc="natural logarithm", domain=POSITIVE)
pointwise(
    "log2",
    "x",
    "np.log2(x)",
    "1.4426950408889634 / x",
    doc="logarithm to base 2",
    domain=POSITIVE,
)
pointwise(
    "log10",
    "x",
    "np.log10(x)",
    "0.4342944819032518 / x",
    doc="logarithm to base 10",
    domain=POSITIVE,
)
pointwise(
    "log1p",
    "x",
    "np.log1p(x)",
    "1.0 / (1.0 + x)",
    doc="log(1 + x)",
    domain=UNIT,
    also="math.log1p scipy.special.log1p",
)
pointwise(
    "logaddexp",
    "x y",
    "np.logaddexp(x, y)",
    "select((x == y) & (x - x != 0.0), 0.5, np.sigmoid(x - y))",
    "select((x == y) & (x - x != 0.0), 0.5, np.sigmoid(y - x))",
    doc="log(eˣ + eʸ) without overflow",
    awkward="where the result is infinite: derivative 1 of the larger, ½ each of equal ones",
)
pointwise(
    "logaddexp2",
    "x y",
    "select(x == y, x + 1.0, np.maximum(x, y) + 1.4426950408889634 * "
    "np.log1p(np.exp2(-np.absolute(x - y))))",
    "select((x == y) & (x - x != 0.0), 0.5, np.sigmoid(0.6931471805599453 * (x - y)))",
    "select((x == y) & (x - x != 0.0), 0.5, np.sigmoid(0.6931471805599453 * (y - x)))",
    doc="log₂(2ˣ + 2ʸ) without overflow",
    awkward="where the result is infinite: derivative 1 of the larger, ½ each of equal ones",
)

# trigonometric and hyperbolic
pointwise("sin", "x", "np.sin(x)", "np.cos(x)", doc="sine of x in radians")
pointwise("cos", "x", "np.cos(x)", "-np.sin(x)", doc="cosine of x in radians")
pointwise("tan", "x", "np.tan(x)", "1.0 + out * out", doc="tangent", domain=(-1.2, 1.2))
pointwise(
    "sinc",
    "x",
    "select(x == 0.0, 1.0, np.sin(3.141592653589793 * x) / "
    "(3.141592653589793 * select(x == 0.0, 1.0, x)))",
    "select(np.absolute(x) < 0.1, x * (-3.289868133696453 + x * x * (3.246969701133414 + x * x * "
    "(-1.144510944732505 + x * x * (0.20918278254123832 - x * x * 0.023460810354558225)))), "
    "(np.cos(3.141592653589793 * x) - out) / select(x == 0.0, 1.0, x))",
    doc="sin(πx) / (πx)",
    awkward="1 at 0; near 0 the derivative is a series, since cos(πx) − out cancels",
)
pointwise(
    "arcsin",
    "x",
    "np.arcsin(x)",
    "1.0 / np.sqrt((1.0 - x) * (1.0 + x))",
    doc="inverse sine",
    domain=UNIT,
    also="math.asin",
)
pointwise(
    "arccos",
    "x",
    "np.arccos(x)",
    "-1.0 / np.sqrt((1.0 - x) * (1.0 + x))",
    doc="inverse cosine",
    domain=UNIT,
    also="math.acos",
)
pointwise(
    "arctan", "x", "np.arctan(x)", "1.0 / (1.0 + x * x)", doc="inverse tangent", also="math.atan"
)
pointwise(
    "arctan2",
    "x y",
    "np.arctan2(x, y)",
    "y / np.hypot(x, y) / np.hypot(x, y)",
    "-x / np.hypot(x, y) / np.hypot(x, y)",
    doc="angle of the point (y, x)",
    domain=POSITIVE,
    awkward="NaN at (0, 0)",
    also="math.atan2",
)
pointwise(
    "hypot",
    "x y",
    "np.hypot(x, y)",
    "select(out != 0.0, x / select(out == 0.0, 1.0, out), 0.0)",
    "select(out != 0.0, y / select(out == 0.0, 1.0, out), 0.0)",
    doc="√(x² + y²)",
    domain=POSITIVE,
    awkward="0 at (0, 0)",
)
pointwise("sinh", "x", "np.sinh(x)", "np.cosh(x)", doc="hyperbolic sine")
pointwise("cosh", "x", "np.cosh(x)", "np.sinh(x)", doc="hyperbolic cosine")
pointwise("tanh", "x", "np.tanh(x)", "np.tanh_slope(x, out)", doc="hyperbolic tangent")
pointwise(
    "arcsinh",
    "x",
    "np.arcsinh(x)",
    "1.0 / np.hypot(x, 1.0)",
    doc="inverse hyperbolic sine",
    also="math.asinh",
)
pointwise(
    "arccosh",
    "x",
    "np.arccosh(x)",
    "1.0 / (np.sqrt(x - 1.0) * np.sqrt(x + 1.0))",
    doc="inverse hyperbolic cosine",
    domain=(1.2, 3.0),
    also="math.acosh",
)
pointwise(
    "arctanh",
    "x",
    "np.arctanh(x)",
    "1.0 / ((1.0 - x) * (1.0 + x))",
    doc="inverse hyperbolic tangent",
    domain=UNIT,
    also="math.atanh",
)

# choice
_TIE = "1/2 to each at a tie"
pointwise(
    "maximum",
    "x y",
    "np.maximum(x, y)",
    "select(x == y, 0.5, select(x > y, 1.0, 0.0))",
    "select(x == y, 0.5, select(y > x, 1.0, 0.0))",
    doc="the larger; NaN if either is",
    awkward=_TIE,
)
pointwise(
    "minimum",
    "x y",
    "np.minimum(x, y)",
    "select(x == y, 0.5, select(x < y, 1.0, 0.0))",
    "select(x == y, 0.5, select(y < x, 1.0, 0.0))",
    doc="the smaller; NaN if either is",
    awkward=_TIE,
)
pointwise(
    "fmax",
    "x y",
    "np.fmax(x, y)",
    "select(x == y, 0.5, select((x > y) | (y != y), 1.0, 0.0))",
    "select(x == y, 0.5, select((y > x) | (x != x), 1.0, 0.0))",
    doc="the larger; a NaN loses",
    awkward=_TIE,
)
pointwise(
    "fmin",
    "x y",
    "np.fmin(x, y)",
    "select(x == y, 0.5, select((x < y) | (y != y), 1.0, 0.0))",
    "select(x == y, 0.5, select((y < x) | (x != x), 1.0, 0.0))",
    doc="the smaller; a NaN loses",
    awkward=_TIE,
)
pointwise(
    "clip",
    "x y z",
    "np.minimum(np.maximum(x, y), z)",
    "select((x >= y) & (x <= z), 1.0, 0.0)",
    "select((x < y) & (y <= z), 1.0, 0.0)",
    "select((x > z) | (y > z), 1.0, 0.0)",
    doc="x limited to the interval from y to z",
    domain=((-2.0, 2.0), (-1.0, -0.5), (0.5, 1.0)),
    awkward="on a bound the partial derivative to x is 1",
)
pointwise(
    "where",
    "x y z",
    "select(x != 0.0, y, z)",
    "0.0",
    "select(x != 0.0, 1.0, 0.0)",
    "select(x == 0.0, 1.0, 0.0)",
    doc="y where the condition x holds, else z",
    awkward="the branch not taken gets exactly 0, also where its own partial derivative is NaN",
)

# flat
pointwise("sign", "x", "np.sign(x)", "0.0", doc="−1, 0 or 1")
pointwise("floor", "x", "np.floor(x)", "0.0", doc="largest integer not above x")
pointwise("ceil", "x", "np.ceil(x)", "0.0", doc="smallest integer not below x")
pointwise(
    "rint",
    "x",
    "np.rint(x)",
    "0.0",
    doc="nearest integer, halves to even",
    graph="RoundBackward0",
    also="builtins.round",
)
pointwise("trunc", "x", "np.trunc(x)", "0.0", doc="x without its fraction")
pointwise(
    "heaviside",
    "x y",
    "select(x < 0.0, 0.0, select(x > 0.0, 1.0, select(x == 0.0, y, x)))",
    "0.0",
    "select(x == 0.0, 1.0, 0.0)",
    doc="0 below x = 0, y at it, 1 above",
    awkward="the partial derivative to x is 0 at the step too",
)
pointwise(
    "floor_divide",
    "x y",
    "np.floor_divide(x, y)",
    "0.0",
    "0.0",
    doc="how often y goes into x, rounded down, `//`",
    domain=(ANY, POSITIVE),
    also="operator.floordiv",
)


# --- Comparisons, logic and choices: element-wise operations of programs, not of users ------------
# A condition is a number in a program: 1.0 where it holds, else 0.0. As in NumPy, everything but 0
# is true in logic, NaN too. Eager code leaves these to NumPy and records no rows of them; adjoints
# that are recorded in a trace have rows of them where they are numbers (`sweep.write_adjoints`).


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
