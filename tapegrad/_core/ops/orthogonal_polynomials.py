"""Element-wise operations: orthogonal polynomials of given degrees, named as in SciPy."""

from __future__ import annotations

from .scipy_lines import refused, scipys

_JACOBI = "0.5 * ({n} + {sum} + 1.0) * np.eval_jacobi({n} - 1.0, {a} + 1.0, {b} + 1.0, {x})"
_SECOND = "np.eval_gegenbauer(n - 1.0, 2.0, {0})"
#: By name: parameters, and the derivative for a degree that is not 0.
_FAMILIES = {
    "jacobi": ("alpha beta", _JACOBI.format(n="n", sum="alpha + beta", a="alpha", b="beta", x="x")),
    "sh_jacobi": (
        "p q",
        "(n + p) * np.eval_jacobi(n - 1.0, p - q + 1.0, q, 2.0 * x - 1.0) "
        "/ np.binom(2.0 * n + p - 1.0, n)",
    ),
    "gegenbauer": ("alpha", "2.0 * alpha * np.eval_gegenbauer(n - 1.0, alpha + 1.0, x)"),
    "chebyt": ("", "n * np.eval_chebyu(n - 1.0, x)"),
    "chebyu": ("", f"2.0 * {_SECOND.format('x')}"),
    "chebyc": ("", "n * np.eval_chebyu(n - 1.0, 0.5 * x)"),
    "chebys": ("", _SECOND.format("0.5 * x")),
    "sh_chebyt": ("", "2.0 * n * np.eval_chebyu(n - 1.0, 2.0 * x - 1.0)"),
    "sh_chebyu": ("", f"4.0 * {_SECOND.format('2.0 * x - 1.0')}"),
    "legendre": ("", _JACOBI.format(n="n", sum="0.0", a="0.0", b="0.0", x="x")),
    "sh_legendre": (
        "",
        "(n + 1.0) * np.eval_jacobi(n - 1.0, 1.0, 1.0, 2.0 * x - 1.0)",
    ),
    "genlaguerre": ("alpha", "-np.eval_genlaguerre(n - 1.0, alpha + 1.0, x)"),
    "laguerre": ("", "-np.eval_genlaguerre(n - 1.0, 1.0, x)"),
    "hermite": ("", "2.0 * n * np.eval_hermite(n - 1.0, x)"),
    "hermitenorm": ("", "n * np.eval_hermitenorm(n - 1.0, x)"),
}
for _name, (_parameters, _slope) in _FAMILIES.items():
    _full = f"eval_{_name}"
    scipys(
        _full,
        f"n {_parameters} x",
        "",
        refused(_full, "n", "the degree"),
        *[refused(_full, one, "a parameter") for one in _parameters.split()],
        # of a negative degree those that SciPy calls may be 0
        f"select(n == 0.0, 0.0, select(n < 0.0, 0.0 / (n - n), {_slope}))",
        whole=True,
        doc=f"polynomial of degree n: {_name}",
        domain=((3.0, 3.0), *[(1.2, 1.2)] * len(_parameters.split()), (0.1, 0.9)),
    )
