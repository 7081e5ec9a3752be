"""Element-wise operations: elementary and special functions, named as in SciPy."""

from __future__ import annotations

from math import factorial

from ..codegen.vector_math import NO_PARTIAL, REFUSED, Special, declare_scipys
from .elementwise import POSITIVE, UNIT
from .table import STEERING, Pointwise, pointwise

# --- How functions of `scipy.special` are declared as element-wise operations ---------------------


def scipys(
    name, inputs, value, *partials, theirs="", outputs=0, which=0, whole=False, **fields
) -> Pointwise:
    """Declare a function of SciPy's; without an expression of the `value` kernels call SciPy's.

    `theirs` is SciPy's name for it. Of a function with several `outputs` this is the one at
    `which`. The first argument of those that are `whole` is mostly a whole number.
    Rows of them are computed by their own kernels: there are many, and few are in use at a time.
    """
    theirs = theirs or name
    if not value:
        arguments = inputs.split()
        declare_scipys(name, Special(theirs, len(arguments), outputs, which, whole))
        value = f"np.{name}({', '.join(arguments)})"
    if outputs:  # NumPy's kernels compute one of them
        fields |= {"numpy": f"numpy.{name}", "also": None, "table": STEERING}
    else:
        fields.setdefault("numpy", f"scipy.special.{theirs}")
    return pointwise(name, inputs, value, *partials, apart=True, **fields)


def ours(name: str, inputs: str, *partials: str, doc: str, **fields) -> None:
    """Declare a function of ours that derivatives use, and nobody else."""
    value = f"np.{name}({', '.join(inputs.split())})"
    fields = {"table": STEERING, "also": None, "apart": True, "domain": (0.1, 3.0)} | fields
    pointwise(name, inputs, value, *partials, doc=doc, **fields)


def refused(name: str, argument: str, what: str) -> str:
    """The partial derivative of SciPy's `name` by an argument that has none: an error.

    `what` says what the argument is.
    """
    REFUSED[f"no_{name}_{argument}"] = (
        f"tapegrad: scipy.special.{name}() has no derivative with respect to {argument}, {what}, "
        f"which is recorded; give a plain number or array, or tg.stop_gradient({argument})"
    )
    return f"{NO_PARTIAL}{name}_{argument}()"


def probable(p: str, slope: str) -> str:
    """A slope, NaN where p is no probability: SciPy gives numbers there that are no inverses."""
    return f"select(({p} >= 0.0) & ({p} <= 1.0), {slope}, 0.0 / (0.0 * {p}))"


def polynomial(x: str, coefficients) -> str:
    """A polynomial of a name, coefficients in ascending order, by Horner's rule."""
    *rest, total = [repr(float(c)) for c in coefficients]
    for c in reversed(rest):
        total = f"{c} + {x} * ({total})"
    return f"({total})"


# --------------------------------------------------------------------------------------------------
# Element-wise operations: special functions, named as in SciPy, declared as in `elementwise`.


pointwise(
    "sigmoid",
    "x",
    "np.sigmoid(x)",
    "np.sigmoid_slope(x, out)",
    doc="1 / (1 + e⁻ˣ)",
    numpy="scipy.special.expit",
)
pointwise(
    "erf",
    "x",
    "np.erf(x)",
    "1.1283791670955126 * np.exp(-x * x)",
    doc="error function",
    numpy="scipy.special.erf",
)
pointwise(
    "erfc",
    "x",
    "np.erfc(x)",
    "-1.1283791670955126 * np.exp(-x * x)",
    doc="1 − erf(x)",
    numpy="scipy.special.erfc",
)
pointwise(
    "gamma",
    "x",
    "np.gamma(x)",
    "out * np.digamma(x)",
    doc="Γ(x)",
    domain=POSITIVE,
    numpy="scipy.special.gamma",
)
pointwise(
    "gammaln",
    "x",
    "np.gammaln(x)",
    "np.digamma(x)",
    doc="log |Γ(x)|",
    domain=POSITIVE,
    numpy="scipy.special.gammaln",
    graph="LgammaBackward0",
    also="math.lgamma",
)
pointwise(
    "digamma",
    "x",
    "np.digamma(x)",
    "np.polygamma(1.0, x)",
    doc="the derivative of gammaln",
    domain=POSITIVE,
    numpy="scipy.special.digamma",
    also="scipy.special.psi",
)
pointwise(
    "polygamma",
    "x y",
    "np.polygamma(x, y)",
    "0.0",
    "np.polygamma(x + 1.0, y)",
    doc="derivative x of digamma at y",
    domain=((1.0, 1.0), POSITIVE),
    awkward="orders have no derivative; ±∞ for orders above 170",
    numpy="scipy.special.polygamma",
)
pointwise(
    "i0",
    "x",
    "np.i0(x)",
    "np.i1(x)",
    doc="modified Bessel function of the first kind of order 0",
    numpy="scipy.special.i0",
    also="numpy.i0",
)
pointwise(
    "i1",
    "x",
    "np.i1(x)",
    "select(np.absolute(x) < 0.3, 0.5 + x * x * (0.1875 + x * x * (0.013020833333333334 + x * x * "
    "(0.0003797743055555556 + x * x * (6.103515625e-06 + x * x * 6.216543692129629e-08)))), "
    "np.i0(x) - np.i1(x) / select(x == 0.0, 1.0, x))",
    doc="modified Bessel function of the first kind of order 1",
    awkward="near 0 the derivative is a series, since derivatives of the other form cancel",
    numpy="scipy.special.i1",
)

#: The derivatives of inverses of integrals of Gaussian curves.
scipys(
    "erfinv",
    "x",
    "",
    "0.886226925452758 * np.exp(out * out)",
    doc="inverse of erf",
    domain=UNIT,
)
scipys(
    "erfcinv",
    "x",
    "",
    "-0.886226925452758 * np.exp(out * out)",
    doc="inverse of erfc",
    domain=(0.1, 1.9),
)
scipys(
    "ndtri",
    "x",
    "",
    "2.5066282746310002 * np.exp(0.5 * out * out)",
    doc="inverse of ndtr",
    domain=(0.1, 0.9),
)


def alternating(step: str, first: int, last: int) -> str:
    """1 − k h (1 − (k + 2) h (1 − …)) for odd numbers k from the first one to the last."""
    total = "1.0"
    for k in range(last, first - 1, -2):
        total = f"(1.0 - {float(k)} * {step} * {total})"
    return total


scipys(
    "erfcx",
    "x",
    "",
    "select(x > 20.0, -1.1283791670955126 * halved * series, 2.0 * x * out - 1.1283791670955126)",
    doc="exp(x²) erfc(x)",
    awkward="beyond 20 the derivative is a series, since 2x out − 2/√π cancels",
    steps=(
        ("large", "select(x > 20.0, x, 20.0)"),
        ("halved", "0.5 / (large * large)"),
        ("series", alternating("halved", 3, 17)),
    ),
)
scipys(
    "k0",
    "x",
    "",
    "-np.k1(x)",
    doc="modified Bessel function of the second kind of order 0",
    domain=POSITIVE,
)
scipys(
    "k1",
    "x",
    "",
    "-np.k0(x) - out / x",
    doc="modified Bessel function of the second kind of order 1",
    domain=POSITIVE,
)

# probabilities
scipys(
    "logit",
    "x",
    "select(np.absolute(x - 0.5) < 0.2, np.log1p(2.0 * x - 1.0) - np.log1p(1.0 - 2.0 * x), "
    "np.log(x) - np.log1p(-x))",
    "1.0 / (x * (1.0 - x))",
    doc="log(x / (1 − x))",
    domain=(0.1, 0.9),
)
scipys(
    "log_expit",
    "x",
    "-np.logaddexp(0.0, -x)",
    "np.sigmoid(-x)",
    doc="log of the sigmoid",
)
scipys(
    "ndtr",
    "x",
    "0.5 * np.erfc(-0.7071067811865476 * x)",
    "0.3989422804014327 * np.exp(-0.5 * x * x)",
    doc="integral of the normal density up to x",
)
scipys(
    "log_ndtr",
    "x",
    "select(x > -1.0, np.log1p(-0.5 * np.erfc(0.7071067811865476 * x)), select(x > -12.0, "
    "np.log(0.5 * np.erfc(-0.7071067811865476 * select(x > -12.0, x, 0.0))), "
    "np.log(-series / low) - 0.5 * low * low - 0.9189385332046728))",
    "select(x > -12.0, np.exp(-0.5 * x * x - 0.9189385332046728 - out), -low / series)",
    doc="log of ndtr(x)",
    awkward="far below 0 it is an asymptotic series",
    steps=(
        ("low", "select(x > -12.0, -12.0, x)"),
        ("inverse", "1.0 / (low * low)"),
        ("series", alternating("inverse", 1, 27)),
    ),
)

# x log y: where x is 0 it is 0, and the derivative by x is log y, also where that is infinite
for _name, _zero, _log, _inner in (
    ("xlogy", "0.0", "np.log(y)", "y"),
    ("xlog1py", "-1.0", "np.log1p(y)", "(1.0 + y)"),
):
    scipys(
        _name,
        "x y",
        f"select((x == 0.0) & (y == y), 0.0, x * {_log})",
        _log,
        f"x / select((x == 0.0) & (y == {_zero}), 1.0, {_inner})",
        doc=f"x {_log[3:]}, 0 where x is 0",
        domain=POSITIVE,
    )
scipys(
    "entr",
    "x",
    "select(x > 0.0, -x * np.log(select(x > 0.0, x, 1.0)), select(x == 0.0, 0.0, "
    "select(x < 0.0, -1e999, x)))",
    "select(x < 0.0, 0.0, -np.log(x) - 1.0)",
    doc="−x log x",
    domain=POSITIVE,
    awkward="−∞ below 0",
)
# where it is infinite, and where x is 0, nothing is passed on by the other operand
_OUTSIDE = "(((x < 0.0) & (y == y)) | ((y < 0.0) & (x == x)) | ((y == 0.0) & (x > 0.0)))"
_RELATIVE = (
    ("outside", _OUTSIDE),
    ("is_zero", "(x == 0.0) & (y >= 0.0)"),
    ("safe_x", "select(outside | is_zero, 1.0, x)"),
    ("safe_y", "select(outside | is_zero, 1.0, y)"),
    ("ratio", "safe_x / safe_y"),
    # close numbers by their distance, those whose quotient overflows by their logarithms
    (
        "logarithm",
        "select(np.absolute(safe_x - safe_y) < 0.5 * safe_y, np.log1p((safe_x - safe_y) / safe_y), "
        "select((ratio > 1e-30) & (ratio < 1e30), np.log(ratio), np.log(safe_x) - np.log(safe_y)))",
    ),
)
for _name, _plus, _slope, _doc in (
    ("rel_entr", "", (" + 1.0", ""), "x log(x / y)"),
    ("kl_div", " - x + y", ("", " + 1.0"), "x log(x / y) − x + y"),
):
    scipys(
        _name,
        "x y",
        f"select(outside, 1e999, select(is_zero, 0.0, x * logarithm){_plus})",
        f"select(outside, 0.0, select(is_zero, -1e999, logarithm){_slope[0]})",
        f"select(outside, 0.0, -x / select((x == 0.0) & (y == 0.0), 1.0, y){_slope[1]})",
        doc=_doc,
        domain=POSITIVE,
        awkward="∞ where one is negative, or y alone is 0",
        steps=_RELATIVE,
    )


# --------------------------------------------------------------------------------------------------
# Element-wise operations: elementary functions, error functions, integrals, named as in SciPy.


_DEGREE = 0.017453292519943295
_ROOT = 2.5066282746310002  # √(2π)

scipys("exp10", "x", "", "2.302585092994046 * out", doc="10ˣ")
scipys("cosm1", "x", "", "-np.sin(x)", doc="cos(x) − 1")
scipys("sindg", "x", "", f"{_DEGREE} * np.cosdg(x)", doc="sine of degrees")
scipys("cosdg", "x", "", f"-{_DEGREE} * np.sindg(x)", doc="cosine of degrees")
scipys("tandg", "x", "", f"{_DEGREE} * (1.0 + out * out)", doc="tangent of degrees")
scipys(
    "cotdg",
    "x",
    "",
    f"-{_DEGREE} * (1.0 + out * out)",
    doc="cotangent of degrees",
    domain=(20.0, 70.0),
)
scipys(
    "radian",
    "d m s",
    "",
    f"{_DEGREE!r}",
    f"{_DEGREE / 60!r}",
    f"{_DEGREE / 3600!r}",
    doc="degrees, minutes and seconds in radians",
)


def _moment(k: int, x: str) -> str:
    """∫ tᵏ exp(x t) dt from 0 to 1: the derivative k of exprel."""
    return f"(np.hyp1f1({k + 1.0}, {k + 2.0}, {x}) / {k + 1.0})"


scipys("exprel", "x", "", _moment(1, "x"), doc="(eˣ − 1) / x")
scipys(
    "powm1",
    "x y",
    "",
    "y * np.power(x, y - 1.0)",
    "(out + 1.0) * np.log(x)",
    doc="xʸ − 1",
    domain=POSITIVE,
)

# Box and Cox: with l = log x it is l exprel(λ l)
for _name, _log, _inner in (("boxcox", "np.log(x)", "x"), ("boxcox1p", "np.log1p(x)", "(1.0 + x)")):
    scipys(
        _name,
        "x lmbda",
        "",
        f"np.power({_inner}, lmbda - 1.0)",
        f"logarithm * logarithm * {_moment(1, 'lmbda * logarithm')}",
        doc=f"({_inner}^lmbda − 1) / lmbda, {_log[3:]} where lmbda is 0",
        domain=POSITIVE,
        steps=(("logarithm", _log),),
    )
# the inverse is exp(y r(λ y)) with r(u) = log(1 + u) / u
for _name, _value in (("inv_boxcox", "out"), ("inv_boxcox1p", "(out + 1.0)")):
    scipys(
        _name,
        "y lmbda",
        "",
        f"{_value} / (1.0 + lmbda * y)",
        f"-{_value} * select(is_far, ratio * ratio * (np.log1p(far) - far / (1.0 + far)),"
        " 0.5 * y * y * np.hyp2f1(2.0, 2.0, 3.0, -near))",
        doc=f"inverse of {_name[4:]}",
        domain=POSITIVE,
        steps=(  # far from 0 SciPy's function is infinite, and r'(u) has no cancellation
            ("is_far", "lmbda * y > 10.0"),
            ("far", "select(is_far, lmbda * y, 1.0)"),
            ("near", "select(is_far, 0.0, lmbda * y)"),
            ("ratio", "y / far"),
        ),
    )
scipys(
    "huber",
    "delta r",
    "",
    "select((np.absolute(r) <= delta) | (delta < 0.0), 0.0, np.absolute(r) - delta)",
    "select(delta < 0.0, 0.0, select(np.absolute(r) <= delta, r, delta * np.sign(r)))",
    doc="Huber's loss",
    domain=POSITIVE,
)
scipys(
    "pseudo_huber",
    "delta r",
    "",
    "select(size == 0.0, 0.0, ratio * ratio / safe)",
    "r * delta / safe",
    doc="Huber's loss without kinks",
    domain=POSITIVE,
    steps=(
        ("size", "np.hypot(delta, r)"),
        ("safe", "select(size == 0.0, 1.0, size)"),
        ("ratio", "r * r / (delta + safe)"),
    ),
)
scipys("wrightomega", "x", "", "out / (1.0 + out)", doc="solution w of w + log w = x")
for _name, _partial in (
    ("wright_bessel", "np.wright_bessel(a, a + b, x)"),
    ("log_wright_bessel", "np.exp(np.log_wright_bessel(a, a + b, x) - out)"),
):
    scipys(
        _name,
        "a b x",
        "",
        refused(_name, "a", "a parameter"),
        refused(_name, "b", "a parameter"),
        _partial,
        doc="Wright's generalised Bessel function" if _name[0] == "w" else "its logarithm",
        domain=POSITIVE,
    )

# --- error functions -------------------------------------------------------------------------

scipys("erfi", "x", "", "1.1283791670955126 * np.exp(x * x)", doc="erf(i x) / i")
scipys(
    "dawsn",
    "x",
    "",
    "select(np.absolute(x) > 15.0, halved * series, 1.0 - 2.0 * x * out)",
    doc="Dawson's integral",
    awkward="beyond 15 the derivative is a series, since 1 and 2x out cancel",
    steps=(
        ("large", "select(np.absolute(x) > 15.0, x, 15.0)"),
        ("halved", "-0.5 / (large * large)"),
        ("series", alternating("halved", 3, 25)),
    ),
)
scipys(
    "ndtri_exp",
    "y",
    "",
    "1.2533141373155003 * np.erfcx(-0.7071067811865476 * out)",
    doc="inverse of log_ndtr",
    domain=(-3.0, -0.1),
)
scipys(
    "owens_t",
    "x a",
    "",
    "-0.19947114020071635 * np.exp(-0.5 * x * x) * np.erf(0.7071067811865476 * a * x)",
    "0.15915494309189535 * np.exp(-0.5 * x * x * (1.0 + a * a)) / (1.0 + a * a)",
    doc="Owen's T function",
)
scipys(
    "nrdtrimn",
    "p std x",
    "",
    f"-{_ROOT} * std * np.exp(0.5 * z * z)",
    "-z",
    "1.0",
    doc="mean of the normal distribution for which x has the probability p",
    domain=((0.2, 0.8), POSITIVE, POSITIVE),
    steps=(("z", "np.ndtri(p)"),),
)
scipys(
    "nrdtrisd",
    "mn p x",
    "",
    "-1.0 / z",
    f"-out * {_ROOT} * np.exp(0.5 * z * z) / z",
    "1.0 / z",
    doc="standard deviation of the normal distribution for which x has the probability p",
    domain=(POSITIVE, (0.6, 0.9), (3.5, 4.5)),
    steps=(("z", "np.ndtri(p)"),),
)

# --- integrals -------------------------------------------------------------------------------

_HALF_PI = "1.5707963267948966 * x * x"
_PARTS = (
    ("near", "select(np.absolute(x) < 1.0, x * x, 0.0)"),
    ("safe", "select(np.absolute(x) < 1.0, 1.0, x)"),
)


def _over_x(function: str, sign: int) -> str:
    """A sine over x, with a series near 0."""
    series = polynomial("near", [sign**k / factorial(2 * k + 1) for k in range(10)])
    return f"select(np.absolute(x) < 1.0, {series}, np.{function}(x) / safe)"


for _name, _one, _partial, _doc in (
    ("fresnel", 0, f"np.sin({_HALF_PI})", "Fresnel integral of the sine"),
    ("fresnel", 1, f"np.cos({_HALF_PI})", "Fresnel integral of the cosine"),
    ("sici", 0, _over_x("sin", -1), "integral of sin(x) / x"),
    ("sici", 1, "np.cos(x) / x", "integral of cos(x) / x"),
    ("shichi", 0, _over_x("sinh", 1), "integral of sinh(x) / x"),
    ("shichi", 1, "np.cosh(x) / x", "integral of cosh(x) / x"),
):
    scipys(
        f"{_name}_{'ab'[_one]}",
        "x",
        "",
        _partial,
        theirs=_name,
        outputs=2,
        which=_one,
        doc=_doc,
        domain=POSITIVE,
        steps=_PARTS if "safe" in _partial else (),
    )
scipys("expi", "x", "", "np.exp(x) / x", doc="exponential integral Ei", domain=POSITIVE)
scipys("exp1", "x", "", "-np.exp(-x) / x", doc="exponential integral E₁", domain=POSITIVE)
scipys(
    "expn",
    "n x",
    "",
    refused("expn", "n", "its order, a whole number"),
    "select(whole == 0.0, -out - out / x, -np.expn(np.maximum(whole - 1.0, 0.0), x))",
    doc="exponential integral of order n",
    steps=(("whole", "np.trunc(n)"),),
    domain=((2.0, 2.0), POSITIVE),
)

# --- hypergeometric functions ----------------------------------------------------------------

# F′ = (a b / c) F(a + 1, b + 1, c + 1, x); a and b are alike
_ABOVE = "(a + 1.0, b + 1.0, x)", "(a + 1.0, b + 1.0, c + 1.0, x)"
for _name, _parameters, _above, _firsts, _seconds in (
    (
        "hyp1f1",
        "a b",
        _ABOVE[0],
        {
            "a": ("aa(a, b, x)", "ab(a, b, x)", "(np.hyp1f1{0} + a * np.hyp1f1_da{0}) / b"),
            "b": ("ab(a, b, x)", "bb(a, b, x)", "a / b * (np.hyp1f1_db{0} - np.hyp1f1{0} / b)"),
        },
        ("aa", "ab", "bb"),
    ),
    (
        "hyp2f1",
        "a b c",
        _ABOVE[1],
        {
            "a": (
                "aa(a, b, c, x)",
                "ab(a, b, c, x)",
                "ac(a, b, c, x)",
                "b / c * (np.hyp2f1{0} + a * np.hyp2f1_da{0})",
            ),
            "c": (
                "ac(a, b, c, x)",
                "ac(b, a, c, x)",
                "cc(a, b, c, x)",
                "a * b / c * (np.hyp2f1_dc{0} - np.hyp2f1{0} / c)",
            ),
        },
        ("aa", "ab", "ac", "cc"),
    ),
):
    _inputs, _domain = f"{_parameters} x", (*[POSITIVE] * len(_parameters.split()), (0.1, 0.6))
    for _by, (*_next, _of_x) in _firsts.items():
        ours(
            f"{_name}_d{_by}",
            _inputs,
            *[f"np.{_name}_d{one}" for one in _next],
            _of_x.format(_above),
            doc=f"derivative of {_name} by {_by}",
            domain=_domain,
        )
    for _by in _seconds:
        ours(
            f"{_name}_d{_by}",
            _inputs,
            *[refused(_name, one, "a third time") for one in _inputs.split()],
            doc=f"second derivative of {_name} by {' and '.join(_by)}",
            domain=_domain,
        )
for _name, _inputs, _partials in (
    ("hyp0f1", "v", [refused("hyp0f1", "v", "a parameter"), "np.hyp0f1(v + 1.0, x) / v"]),
    (
        "hyp1f1",
        "a b",
        [
            "np.hyp1f1_da(a, b, x)",
            "np.hyp1f1_db(a, b, x)",
            "a / b * np.hyp1f1(a + 1.0, b + 1.0, x)",
        ],
    ),
    (
        "hyp2f1",
        "a b c",
        [
            "np.hyp2f1_da(a, b, c, x)",
            "np.hyp2f1_da(b, a, c, x)",
            "np.hyp2f1_dc(a, b, c, x)",
            "a * b / c * np.hyp2f1(a + 1.0, b + 1.0, c + 1.0, x)",
        ],
    ),
    (
        "hyperu",
        "a b",
        [
            *[refused("hyperu", one, "a parameter") for one in "ab"],
            "-a * np.hyperu(a + 1.0, b + 1.0, x)",
        ],
    ),
):
    scipys(
        _name,
        f"{_inputs} x",
        "",
        *_partials,
        doc=f"hypergeometric function {_name}",
        domain=(*[POSITIVE] * len(_inputs.split()), (0.1, 0.6)),
    )
