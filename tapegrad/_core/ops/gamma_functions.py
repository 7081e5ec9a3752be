"""Element-wise operations: gamma, beta and distribution functions, and their inverses."""

from __future__ import annotations

from .elementwise import POSITIVE
from .special_functions import ours, probable, refused, scipys
from .table import STEERING

# --------------------------------------------------------------------------------------------------
# Element-wise operations: gamma and beta functions, incomplete ones too, and their inverses.
# Derivatives by x are densities, of `codegen/densities.py`; those by parameters are integrals, of
# `codegen/gamma_derivatives.py` and its neighbours. An inverse has those of the function that it
# inverts.


_SHAPE = (1.0, 3.0)
THIRD = "a parameter, a third time"


# --- gamma functions -------------------------------------------------------------------------

ours(
    "digamma_difference",
    "p q",
    "np.polygamma(1.0, p + q) - np.polygamma(1.0, p)",
    "np.polygamma(1.0, p + q)",
    doc="digamma(p + q) − digamma(p)",
)
scipys("loggamma", "x", "", "np.digamma(x)", doc="log Γ(x)", domain=POSITIVE)
scipys(
    "rgamma",
    "x",
    "",
    "select(x < 0.5, (np.cos(turned) - 0.3183098861837907 * np.sin(turned) * np.digamma(left)) "
    "* np.gamma(left), -out * np.digamma(right))",
    doc="1 / Γ(x)",
    domain=POSITIVE,
    awkward="below ½ by reflection, so that it is right at poles of Γ",
    steps=(
        ("left", "select(x < 0.5, 1.0 - x, 1.0)"),
        ("right", "select(x < 0.5, 1.0, x)"),
        ("turned", "3.141592653589793 * x"),
    ),
)
scipys("gammasgn", "x", "", "0.0", doc="sign of Γ(x)", domain=POSITIVE)
scipys(
    "beta",
    "a b",
    "",
    "-out * np.digamma_difference(a, b)",
    "-out * np.digamma_difference(b, a)",
    doc="beta function",
    domain=POSITIVE,
)
scipys(
    "betaln",
    "a b",
    "",
    "-np.digamma_difference(a, b)",
    "-np.digamma_difference(b, a)",
    doc="log of the absolute beta function",
    domain=POSITIVE,
)
scipys(
    "poch",
    "z m",
    "",
    "out * np.digamma_difference(z, m)",
    "out * np.digamma(z + m)",
    doc="Γ(z + m) / Γ(z)",
    domain=POSITIVE,
)
scipys(
    "binom",
    "n k",
    "",
    "out * np.digamma_difference(n - k + 1.0, k)",
    "out * np.digamma_difference(k + 1.0, n - 2.0 * k)",
    doc="binomial coefficient",
    domain=((2.0, 4.0), (0.3, 1.5)),
)
for _by, _next, _of_q in (
    ("dx", "np.zeta_dxx(x, q)", "-np.zeta(x + 1.0, q) - x * np.zeta_dx(x + 1.0, q)"),
    (
        "dxx",
        refused("zeta", "x", "its exponent, a third time"),
        "-2.0 * np.zeta_dx(x + 1.0, q) - x * np.zeta_dxx(x + 1.0, q)",
    ),
):
    ours(
        f"zeta_{_by}",
        "x q",
        _next,
        _of_q,
        doc="derivative of zeta by its exponent",
        domain=((2.0, 3.0), POSITIVE),
    )
scipys(
    "zeta",
    "x q",
    "",
    "np.zeta_dx(x, q)",
    "-x * np.zeta(x + 1.0, q)",
    doc="Hurwitz zeta function",
    also=None,
    domain=((1.5, 3.0), POSITIVE),
)
scipys(
    "riemann_zeta",
    "x",
    "",
    "np.zeta_dx(x, 1.0)",
    theirs="_riemann_zeta",
    numpy="scipy.special._ufuncs._riemann_zeta",
    also=None,
    table=STEERING,
    doc="Riemann zeta function",
    domain=(1.5, 3.0),
)

# --- incomplete gamma functions --------------------------------------------------------------

ours(
    "gamma_density",
    "a x",
    "out * (np.log(x) - np.digamma(a))",
    "np.gamma_density(a - 1.0, x) - out",
    doc="x^(a − 1) e⁻ˣ / Γ(a)",
)
ours(
    "gammainc_da",
    "a x",
    "np.gammainc_daa(a, x)",
    "np.gamma_density(a, x) * (np.log(x) - np.digamma(a))",
    doc="derivative of gammainc by a",
)
ours(
    "gammainc_daa",
    "a x",
    refused("gammainc", "a", THIRD),
    "density * (distance * distance - np.polygamma(1.0, a))",
    doc="second derivative of gammainc by a",
    steps=(
        ("density", "np.gamma_density(a, x)"),
        ("distance", "np.log(x) - np.digamma(a)"),
    ),
)
for _name, _sign in (("gammainc", ""), ("gammaincc", "-")):
    scipys(
        _name,
        "a x",
        "",
        f"{_sign}np.gammainc_da(a, x)",
        f"{_sign}np.gamma_density(a, x)",
        doc=f"regularised {'lower' if not _sign else 'upper'} incomplete gamma function",
        domain=(_SHAPE, POSITIVE),
    )
    scipys(
        f"{_name}inv",
        "a y",
        "",
        "-np.gammainc_da(a, out) / slope",
        f"{_sign}1.0 / slope",
        doc=f"inverse of {_name}",
        steps=(("slope", probable("y", "np.gamma_density(a, out)")),),
        domain=(_SHAPE, (0.2, 0.8)),
    )

# --- incomplete beta functions ---------------------------------------------------------------

ours(
    "beta_density",
    "a b x y",
    "out * (np.log(x) + np.digamma_difference(a, b))",
    "out * (np.log(y) + np.digamma_difference(b, a))",
    "out * (a - 1.0) / x",
    "out * (b - 1.0) / y",
    doc="x^(a − 1) y^(b − 1) / B(a, b), for y = 1 − x",
)
# by y they have no other derivative than by x
_FACTORS = (
    ("density", "np.beta_density(a, b, x, y)"),
    ("of_a", "np.log(x) + np.digamma_difference(a, b)"),
    ("of_b", "np.log(y) + np.digamma_difference(b, a)"),
    ("common", "np.polygamma(1.0, a + b)"),
)
for _which, _by_a, _by_b, _factor in (
    ("a", "aa", "ab", "of_a"),
    ("b", "ab", "bb", "of_b"),
    ("aa", "", "", "(of_a * of_a - np.polygamma(1.0, a) + common)"),
    ("ab", "", "", "(of_a * of_b + common)"),
    ("bb", "", "", "(of_b * of_b - np.polygamma(1.0, b) + common)"),
):
    ours(
        f"betainc_d{_which}",
        "a b x y",
        f"np.betainc_d{_by_a}(a, b, x, y)" if _by_a else refused("betainc", "a", THIRD),
        f"np.betainc_d{_by_b}(a, b, x, y)" if _by_b else refused("betainc", "b", THIRD),
        f"density * {_factor}",
        "0.0",
        doc=f"derivative of betainc by {' and '.join(_which)}",
        steps=_FACTORS,
    )


def betainc(which: str, x: str = "x") -> str:
    """A derivative of the incomplete beta function of parameters a and b, or its density."""
    return f"np.{which}(a, b, {x}, 1.0 - {x})"


for _name, _sign in (("betainc", ""), ("betaincc", "-")):
    scipys(
        _name,
        "a b x",
        "",
        _sign + betainc("betainc_da"),
        _sign + betainc("betainc_db"),
        _sign + betainc("beta_density"),
        doc=f"regularised incomplete beta function{', its complement' if _sign else ''}",
        domain=(_SHAPE, _SHAPE, (0.2, 0.8)),
    )
    scipys(
        f"{_name}inv",
        "a b y",
        "",
        f"-{betainc('betainc_da', 'out')} / {betainc('beta_density', 'out')}",
        f"-{betainc('betainc_db', 'out')} / {betainc('beta_density', 'out')}",
        f"{_sign}1.0 / {betainc('beta_density', 'out')}",
        doc=f"inverse of {_name}",
        domain=(_SHAPE, _SHAPE, (0.2, 0.8)),
    )
scipys(
    "btdtria",
    "p b x",
    "",
    "1.0 / slope",
    "-np.betainc_db(out, b, x, 1.0 - x) / slope",
    "-np.beta_density(out, b, x, 1.0 - x) / slope",
    doc="parameter a of betainc",
    domain=((0.2, 0.8), _SHAPE, (0.2, 0.8)),
    steps=(("slope", "np.betainc_da(out, b, x, 1.0 - x)"),),
)
scipys(
    "btdtrib",
    "a p x",
    "",
    "-np.betainc_da(a, out, x, 1.0 - x) / slope",
    "1.0 / slope",
    "-np.beta_density(a, out, x, 1.0 - x) / slope",
    doc="parameter b of betainc",
    domain=(_SHAPE, (0.2, 0.8), (0.2, 0.8)),
    steps=(("slope", "np.betainc_db(a, out, x, 1.0 - x)"),),
)


# --- Element-wise operations: distribution functions and their inverses, named as in SciPy --------
# SciPy takes the whole part of a number of events: the derivative by it is 0.


_INNER = (0.2, 0.8)

# --- gamma, χ² and Poisson distributions -----------------------------------------------------

for _name, _sign, _doc in (
    ("gdtr", "", "gamma distribution"),
    ("gdtrc", "-", "gamma distribution, above x"),
):
    scipys(
        _name,
        "a b x",
        "",
        f"{_sign}x * np.gamma_density(b, a * x)",
        f"{_sign}np.gammainc_da(b, a * x)",
        f"{_sign}a * np.gamma_density(b, a * x)",
        doc=_doc,
        domain=(_SHAPE, _SHAPE, POSITIVE),
    )
scipys(
    "gdtrix",
    "a b p",
    "",
    "-out / a",
    "-np.gammainc_da(b, a * out) / slope",
    "1.0 / slope",
    doc="x of gdtr",
    domain=(_SHAPE, _SHAPE, _INNER),
    steps=(("slope", probable("p", "a * np.gamma_density(b, a * out)")),),
)
scipys(
    "gdtria",
    "p b x",
    "",
    "1.0 / slope",
    "-np.gammainc_da(b, out * x) / slope",
    "-out / x",
    doc="parameter a of gdtr",
    domain=(_INNER, _SHAPE, POSITIVE),
    steps=(("slope", probable("p", "x * np.gamma_density(b, out * x)")),),
)
scipys(
    "gdtrib",
    "a p x",
    "",
    "-x * np.gamma_density(out, a * x) / slope",
    "1.0 / slope",
    "-a * np.gamma_density(out, a * x) / slope",
    doc="parameter b of gdtr",
    domain=(_SHAPE, _INNER, POSITIVE),
    steps=(("slope", "np.gammainc_da(out, a * x)"),),
)
for _name, _sign in (("chdtr", ""), ("chdtrc", "-")):
    scipys(
        _name,
        "v x",
        "",
        f"{_sign}0.5 * np.gammainc_da(0.5 * v, 0.5 * x)",
        f"{_sign}0.5 * np.gamma_density(0.5 * v, 0.5 * x)",
        doc=f"χ² distribution{', above x' if _sign else ''}",
        domain=(_SHAPE, POSITIVE),
    )
scipys(
    "chdtri",
    "v p",
    "",
    "-np.gammainc_da(0.5 * v, 0.5 * out) / np.gamma_density(0.5 * v, 0.5 * out)",
    "-2.0 / np.gamma_density(0.5 * v, 0.5 * out)",
    doc="inverse of chdtrc",
    domain=(_SHAPE, _INNER),
)
for _name, _sign in (("pdtr", "-"), ("pdtrc", "")):
    scipys(
        _name,
        "k m",
        "",
        "0.0",
        f"{_sign}np.gamma_density(np.floor(k) + 1.0, m)",
        doc=f"Poisson distribution{'' if _sign else ', above k'}",
        domain=((2.0, 2.0), POSITIVE),
    )
scipys(
    "pdtri",
    "k y",
    "",
    "0.0",
    "-1.0 / np.gamma_density(np.trunc(k) + 1.0, out)",
    doc="inverse of pdtr",
    domain=((2.0, 2.0), _INNER),
)
_ROOTS = (
    ("apart", "np.sqrt(x) - np.sqrt(nc)"),
    ("safe", "select(nc == 0.0, 1.0, nc)"),
)


def _noncentral(df: str) -> str:
    """The density of the noncentral χ² distribution."""
    return (
        f"select(nc == 0.0, 0.5 * np.gamma_density(0.5 * {df}, 0.5 * x), "
        f"0.5 * np.exp(-0.5 * apart * apart) * np.power(x / safe, 0.25 * {df} - 0.5) "
        f"* np.ive(0.5 * {df} - 1.0, np.sqrt(safe * x)))"
    )


scipys(
    "chndtr",
    "x df nc",
    "",
    _noncentral("df"),
    refused("chndtr", "df", "the degrees of freedom"),
    f"-{_noncentral('(df + 2.0)')}",
    doc="noncentral χ² distribution",
    domain=(POSITIVE, _SHAPE, POSITIVE),
    steps=_ROOTS,
)

# --- binomial distributions ------------------------------------------------------------------


_WITHIN = "(np.floor(k) < np.trunc(n)) & (k >= 0.0)"
_EVENTS = (
    ("within", _WITHIN),
    ("more", "select(within, np.floor(k), 0.0) + 1.0"),
    ("others", "select(within, np.trunc(n) - np.floor(k), 1.0)"),
)
for _name, _sign, _value, _beyond in (
    ("bdtr", "-", "betaincc", "select(np.floor(k) == np.trunc(n), 1.0, 0.0 / (n - n))"),
    ("bdtrc", "", "betainc", "select(np.floor(k) == np.trunc(n), 0.0 * n, 0.0 / (n - n))"),
):
    scipys(
        _name,
        "k n p",
        f"select(within, np.{_value}(more, others, p), {_beyond})",
        "0.0",
        refused(_name, "n", "a whole number"),
        f"select(within, {_sign}np.beta_density(more, others, p, 1.0 - p), 0.0)",
        doc=f"binomial distribution{'' if _sign else ', above k'}",
        domain=((1.0, 1.0), (4.0, 4.0), _INNER),
        steps=_EVENTS,
    )
scipys(
    "bdtri",
    "k n y",
    "np.betainccinv(np.floor(k) + 1.0, np.trunc(n) - np.floor(k), y)",
    "0.0",
    refused("bdtri", "n", "a whole number"),
    "-1.0 / np.beta_density(np.floor(k) + 1.0, np.trunc(n) - np.floor(k), out, 1.0 - out)",
    doc="inverse of bdtr",
    domain=((1.0, 1.0), (4.0, 4.0), _INNER),
)
for _name, _sign in (("nbdtr", ""), ("nbdtrc", "-")):
    scipys(
        _name,
        "k n p",
        "",
        "0.0",
        refused(_name, "n", "a whole number"),
        f"{_sign}np.beta_density(np.trunc(n), np.trunc(k) + 1.0, p, 1.0 - p)",
        doc=f"negative binomial distribution{', above k' if _sign else ''}",
        domain=((2.0, 2.0), (4.0, 4.0), _INNER),
    )
# --- F and t distributions -------------------------------------------------------------------


def _quotient(x: str) -> tuple[tuple[str, str], ...]:
    """What betainc of an F distribution takes, and its derivatives."""
    return (
        ("whole", f"dfd + dfn * {x}"),
        ("u", f"dfn * {x} / whole"),
        ("v", "dfd / whole"),
        ("density", "np.beta_density(0.5 * dfn, 0.5 * dfd, u, v)"),
        # the two terms cancel: NaN where fewer than eight digits are left
        (
            "of_dfn",
            "select(dfn > 1e8, 0.0 / (dfn - dfn), 0.5 * np.betainc_da(0.5 * dfn, 0.5 * dfd, u, v) "
            f"+ density * {x} * v / whole)",
        ),
        (
            "of_dfd",
            "select(dfd > 1e8, 0.0 / (dfd - dfd), 0.5 * np.betainc_db(0.5 * dfn, 0.5 * dfd, u, v) "
            "- density * u / whole)",
        ),
        ("of_x", "density * dfn * v / whole"),
    )


for _name, _sign in (("fdtr", ""), ("fdtrc", "-")):
    scipys(
        _name,
        "dfn dfd x",
        "",
        *[_sign + one for one in ("of_dfn", "of_dfd", "of_x")],
        doc=f"F distribution{', above x' if _sign else ''}",
        domain=(_SHAPE, _SHAPE, POSITIVE),
        steps=_quotient("x"),
    )
scipys(
    "fdtri",
    "dfn dfd p",
    "",
    "-of_dfn / of_x",
    "-of_dfd / of_x",
    "1.0 / of_x",
    doc="inverse of fdtr",
    domain=(_SHAPE, _SHAPE, _INNER),
    steps=_quotient("out"),
)
ours(
    "t_density",
    "df t",
    "0.5 * out * (np.digamma_difference(0.5 * df, 0.5) - np.log1p(t * t / df) "
    "+ (t * t - 1.0) / (df + t * t))",
    "-out * (df + 1.0) * t / (df + t * t)",
    doc="density of Student's t distribution",
)


# the density's derivative by df over the density, and the derivative of that
_OF_T = (
    ("density", "np.t_density(df, t)"),
    ("square", "t * t"),
    ("whole", "df + square"),
    (
        "slope",
        "0.5 * (np.digamma_difference(0.5 * df, 0.5) - np.log1p(square / df) "
        "+ (square - 1.0) / whole)",
    ),
    (
        "bend",
        "0.25 * (np.polygamma(1.0, 0.5 * df + 0.5) - np.polygamma(1.0, 0.5 * df)) "
        "+ 0.5 * (square / df - (square - 1.0) / whole) / whole",
    ),
)
ours(
    "stdtr_ddf",
    "df t",
    "np.stdtr_dddf(df, t)",
    "density * slope",
    doc="derivative of stdtr by df",
    steps=_OF_T,
)
ours(
    "stdtr_dddf",
    "df t",
    refused("stdtr", "df", "the degrees of freedom, a third time"),
    "density * (slope * slope + bend)",
    doc="second derivative of stdtr by df",
    steps=_OF_T,
)
scipys(
    "stdtr",
    "df t",
    "",
    "np.stdtr_ddf(df, t)",
    "np.t_density(df, t)",
    doc="Student's t distribution",
    domain=(_SHAPE, POSITIVE),
)
scipys(
    "stdtrit",
    "df p",
    "",
    "-np.stdtr_ddf(df, out) / np.t_density(df, out)",
    "1.0 / np.t_density(df, out)",
    doc="inverse of stdtr",
    domain=(_SHAPE, (0.6, 0.9)),
)

# --- others ----------------------------------------------------------------------------------

# x = Q(p) with Q(p) = (p^λ − (1 − p)^λ) / λ, whose derivative by λ is that of two boxcox
_POWERS = (
    ("other", "np.tklmbda(-x, lmbda)"),
    ("within", "(out > 0.0) & (other > 0.0)"),
    ("p", "select(within, out, 0.5)"),
    ("q", "select(within, other, 0.5)"),
    ("log_p", "np.log(p)"),
    ("log_q", "np.log(q)"),
    ("slope", "np.exp((lmbda - 1.0) * log_p) + np.exp((lmbda - 1.0) * log_q)"),
    ("of_p", "log_p * log_p * np.hyp1f1(2.0, 3.0, lmbda * log_p)"),
    ("of_q", "log_q * log_q * np.hyp1f1(2.0, 3.0, lmbda * log_q)"),
)
scipys(
    "tklmbda",
    "x lmbda",
    "",
    "select(within, 1.0 / slope, 0.0)",
    "select(within, -0.5 * (of_p - of_q) / slope, 0.0)",
    doc="Tukey's lambda distribution",
    domain=((-0.9, 0.9), (0.2, 0.9)),
    steps=_POWERS,
)
for _name, _inputs, _domain, _theirs in (
    ("smirnov", "n d", ((4.0, 4.0), (0.3, 0.45)), "_smirnovp"),
    ("kolmogorov", "y", (0.5, 1.5), "_kolmogp"),
):
    _slope, _last = f"{_name}_slope", _inputs[-1]
    _counts = _inputs.split()[:-1]
    _no = [refused(_name, one, "a whole number") for one in _counts]
    scipys(
        _slope,
        _inputs,
        "",
        *_no,
        refused(_name, _last, "a second time"),
        theirs=_theirs,
        numpy=f"scipy.special._ufuncs.{_theirs}",
        also=None,
        doc=f"derivative of {_name}",
        domain=_domain,
    )
    scipys(
        _name,
        _inputs,
        "",
        *_no,
        f"np.{_slope}({', '.join(_inputs.split())})",
        doc=f"{_name.title()}'s distribution, above {_last}",
        domain=_domain,
    )
    _inverse = "smirnovi" if _counts else "kolmogi"
    scipys(
        _inverse,
        "n p" if _counts else "p",
        "",
        *[refused(_inverse, one, "a whole number") for one in _counts],
        f"1.0 / np.{_slope}({'n, ' if _counts else ''}out)",
        doc=f"inverse of {_name}",
        domain=((4.0, 4.0), _INNER) if _counts else _INNER,
    )
