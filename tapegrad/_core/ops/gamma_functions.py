"""Element-wise operations: gamma and beta functions, incomplete ones too, and their inverses.

Derivatives by x are densities, of `codegen/densities.py`; those by parameters are integrals, of
`codegen/gamma_derivatives.py` and its neighbours. An inverse has those of the function that it
inverts.
"""

from __future__ import annotations

from .elementwise import POSITIVE
from .scipy_lines import ours, probable, refused, scipys
from .table import STEERING

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
