"""Element-wise operations: elliptic integrals and Jacobi's functions, named as in SciPy."""

from __future__ import annotations

from .elementwise import POSITIVE
from .scipy_lines import refused, scipys

# near m = 0, where E and K cancel, by hypergeometric functions
_K_NEAR, _E_NEAR = [
    f"{sign}0.39269908169872414 * np.hyp2f1({a}, 1.5, 2.0, near)"
    for sign, a in (("", 1.5), ("-", 0.5))
]
_NEAR = (
    ("near", "select(np.absolute(m) < 0.5, m, 0.0)"),
    ("far", "select(np.absolute(m) < 0.5, -1.0, m)"),
)
scipys(
    "ellipk",
    "m",
    "",
    f"select(np.absolute(m) < 0.5, {_K_NEAR}, 0.5 * (np.ellipe(far) / (1.0 - far) - out) / far)",
    doc="complete elliptic integral of the first kind",
    domain=(-0.9, 0.9),
    steps=_NEAR,
)
scipys(
    "ellipe",
    "m",
    "",
    f"select(np.absolute(m) < 0.5, {_E_NEAR}, 0.5 * (out - np.ellipk(far)) / far)",
    doc="complete elliptic integral of the second kind",
    domain=(-0.9, 0.9),
    steps=_NEAR,
)
scipys(
    "ellipkm1",
    "p",
    "",
    f"select(np.absolute(1.0 - p) < 0.5, -{_K_NEAR}, "
    "0.5 * (out - np.ellipe(1.0 - far) / far) / (1.0 - far))",
    doc="complete elliptic integral of the first kind of 1 − p",
    domain=POSITIVE,
    steps=(
        ("near", "select(np.absolute(1.0 - p) < 0.5, 1.0 - p, 0.0)"),
        ("far", "select(np.absolute(1.0 - p) < 0.5, 2.0, p)"),
    ),
)
# Carlson's forms (DLMF 19.18.1)
scipys(
    "elliprf",
    "x y z",
    "",
    "np.elliprd(y, z, x) / -6.0",
    "np.elliprd(x, z, y) / -6.0",
    "np.elliprd(x, y, z) / -6.0",
    doc="Carlson's symmetric elliptic integral of the first kind",
    domain=(POSITIVE, POSITIVE, POSITIVE),
)
scipys(
    "elliprc",
    "x y",
    "",
    "np.elliprd(y, y, x) / -6.0",
    "np.elliprd(x, y, y) / -3.0",
    doc="Carlson's degenerate elliptic integral",
    domain=POSITIVE,
)
scipys(
    "elliprd",
    "x y z",
    "",
    *[refused("elliprd", one, "an argument") for one in "xyz"],
    doc="Carlson's elliptic integral of the second kind",
    domain=POSITIVE,
)
# of an angle, which is a multiple of π and the rest: of the rest by Carlson's forms
_ANGLE = (
    ("turns", "np.rint(phi / 3.141592653589793)"),
    ("s", "np.sin(phi - 3.141592653589793 * turns)"),
    ("c", "np.cos(phi)"),
    ("rest", "1.0 - m * s * s"),
    ("cube", "s * s * s / 6.0"),
)
scipys(
    "ellipkinc",
    "phi m",
    "",
    "1.0 / np.sqrt(1.0 - m * np.sin(phi) * np.sin(phi))",
    "cube * np.elliprd(c * c, 1.0, rest) + turns * np.elliprd(0.0, 1.0, 1.0 - m) / 3.0",
    doc="elliptic integral of the first kind",
    domain=((-2.0, 2.0), (-0.9, 0.9)),
    steps=_ANGLE,
)
scipys(
    "ellipeinc",
    "phi m",
    "",
    "np.sqrt(1.0 - m * np.sin(phi) * np.sin(phi))",
    "-cube * np.elliprd(c * c, rest, 1.0) - turns * np.elliprd(0.0, 1.0 - m, 1.0) / 3.0",
    doc="elliptic integral of the second kind",
    domain=((-2.0, 2.0), (-0.9, 0.9)),
    steps=_ANGLE,
)
# sn, cn, dn and the amplitude, whose derivative by m is that of the integral which it inverts
_AMPLITUDE = (
    ("sn", "np.ellipj_a(u, m)"),
    ("cn", "np.ellipj_b(u, m)"),
    ("dn", "np.ellipj_c(u, m)"),
    ("phi", "np.ellipj_d(u, m)"),
    *_ANGLE,
    (
        "of_m",
        "-dn * (cube * np.elliprd(c * c, 1.0, rest) + turns * np.elliprd(0.0, 1.0, 1.0 - m) / 3.0)",
    ),
)
for _k, (_of_u, _of_m, _doc) in enumerate(
    (
        ("cn * dn", "cn * of_m", "sn"),
        ("-sn * dn", "-sn * of_m", "cn"),
        ("-m * sn * cn", "(-0.5 * sn * sn - m * sn * cn * of_m) / dn", "dn"),
        ("dn", "of_m", "amplitude"),
    )
):
    scipys(
        f"ellipj_{'abcd'[_k]}",
        "u m",
        "",
        _of_u,
        _of_m,
        theirs="ellipj",
        outputs=4,
        which=_k,
        doc=f"Jacobi's elliptic function {_doc}",
        domain=((-2.0, 2.0), (0.1, 0.9)),
        steps=_AMPLITUDE,
    )
