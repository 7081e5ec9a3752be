"""Polynomials of NumPy's main namespace, `poly1d` and windows, with recorded coefficients."""

import numpy as np
import pytest
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

E = Expression
T = np.array([-0.7, 0.1, 0.4, 1.2, 1.7])
NAMES = {"T": T, "W": np.array([1.0, 0.5, 2.0, 1.5, 0.7])}
POINTS = "torch.tensor(T)"
LSTSQ = (
    "torch.linalg.lstsq(torch.stack([{x} ** k for k in range({n})][::-1], 1){w}, "
    "{y}[:, None]{w}).solution[:, 0]"
)
VECTORS = [
    E("np.polyval(x, 1.5)", "x[0] * 1.5**4 + x[1] * 1.5**3 + x[2] * 1.5**2 + x[3] * 1.5 + x[4]"),
    E("np.polyval([2.0, -1.0, 3.0], x)", "2 * x**2 - x + 3"),
    E("np.polyval(x, x)", "x[0] * x**4 + x[1] * x**3 + x[2] * x**2 + x[3] * x + x[4]"),
    E("np.polyval(x[:2], x.reshape(5, 1))", "(x[0] * x + x[1])[:, None]"),
    E("np.polyval(np.poly1d([1.0, 2.0]), x)", "x + 2"),
    E("np.polyadd(x, x[:2])", "x + torch.cat([torch.zeros(3), x[:2]])"),
    E("np.polyadd([1.0], x)", "x + torch.tensor([0.0, 0, 0, 0, 1])"),
    E("np.polysub(x[:2], x)", "torch.cat([torch.zeros(3), x[:2]]) - x"),
    E("np.polysub(x, 2.0)", "x - torch.tensor([0.0, 0, 0, 0, 2])"),
    E(
        "np.polymul(x[:2], x[2:])",
        "torch.stack([x[0] * x[2], x[0] * x[3] + x[1] * x[2], x[0] * x[4] + x[1] * x[3], "
        "x[1] * x[4]])",
        choices=False,
    ),
    E(
        "np.polymul([1.0, 2.0], x)",
        "torch.cat([x, torch.zeros(1)]) + 2 * torch.cat([torch.zeros(1), x])",
        choices=False,
    ),
    E("np.polymul(x, x)", choices=False),
    E("np.polydiv(x, x[:2])[0]", choices=False),
    E("np.polydiv(x, [2.0, 1.0, 0.5])[1]", choices=False),
    E("np.polydiv(x[:2], x)[1]", "x[:2]", choices=False),
    E("np.polyder(x)", "x[:4] * torch.tensor([4.0, 3, 2, 1])"),
    E("np.polyder(x, 2)", "x[:3] * torch.tensor([12.0, 6, 2])"),
    E("np.polyint(x)", "torch.cat([x / torch.tensor([5.0, 4, 3, 2, 1]), torch.zeros(1)])"),
    E("np.polyint(x[:2], 2, k=x[3:])", "torch.stack([x[0] / 6, x[1] / 2, x[3], x[4]])"),
    E("tg.polyint([3.0, 1.0], 1, x[0])", "torch.stack([x[0] * 0 + 1.5, x[0] * 0 + 1, x[0]])"),
    E(
        "np.poly(x[:3])",
        "torch.stack([x[0] * 0 + 1, -x[:3].sum(), x[0] * x[1] + x[0] * x[2] + x[1] * x[2], "
        "-x[:3].prod()])",
    ),
    E("np.poly(x)[2:]"),
    E("np.vander(x)", "torch.stack([x**k for k in (4, 3, 2, 1, 0)], 1)"),
    E("np.vander(x, 3)", "torch.stack([x**k for k in (2, 1, 0)], 1)"),
    E("np.vander(x, N=4, increasing=True)", "torch.stack([x**k for k in range(4)], 1)"),
    E("np.vander(x, 1)", "torch.ones(5, 1) + 0 * x[:, None]"),
    E(
        "np.poly1d(x)(T)",
        "sum(x[k] * torch.tensor(T) ** (4 - k) for k in range(5))",
        choices=False,
        names=NAMES,
    ),
    E(
        "np.poly1d(x)(np.poly1d([1.0, 1.0]))(0.5)",
        "sum(x[k] * 1.5 ** (4 - k) for k in range(5))",
        choices=False,
    ),
    E("(np.poly1d(x[:2]) * np.poly1d(x[2:]) + 2.0).coeffs", choices=False),
    E("(np.poly1d(x) - np.poly1d(x[:2]) * x[3]).deriv()(0.1 * x[0])", choices=False),
    E("(np.poly1d(x) / np.poly1d([1.0, 2.0])[1]).integ(k=x[1]).c", choices=False),
    E("(np.poly1d(x) ** 2).c", choices=False),
]
FITTED = [
    E("np.polyfit(T, x, 2)", LSTSQ.format(x=POINTS, n=3, y="x", w=""), names=NAMES),
    E(
        "np.polyfit(T, x, 2, w=W)",
        LSTSQ.format(x=POINTS, n=3, y="x", w=" * torch.tensor(W)[:, None]"),
        names=NAMES,
    ),
    E("np.polyfit(x, T, 3)", LSTSQ.format(x="x", n=4, y=POINTS, w=""), names=NAMES, choices=False),
    E(
        "np.polyfit(x, x**2 + np.sin(T), 1)",
        LSTSQ.format(x="x", n=2, y="(x**2 + torch.tensor(np.sin(T)))", w=""),
        names=NAMES,
        choices=False,
    ),
    E(
        "np.polyfit(T, W, 1, w=x)",
        LSTSQ.format(x=POINTS, n=2, y="torch.tensor(W)", w=" * x[:, None]"),
        names=NAMES,
        other=(0.5, 2.0),
        choices=False,
    ),
    E("np.polyfit(T, np.stack([x, x**2], 1), 2)", names=NAMES),
    E("np.polyfit(T, x, 1, cov=True)[1]", names=NAMES),
    E("np.polyfit(x, T, 1, cov='unscaled')[1]", names=NAMES, choices=False),
    E("np.polyfit(T, np.stack([x, x**2], 1), 1, cov=True)[1]", names=NAMES),
    E("np.poly1d(np.polyfit(T, x, 2))(0.3)", names=NAMES, choices=False),
]
TABLE = [Expression(**{**vars(e), "shape": (5,)}) for e in (*VECTORS, *FITTED)]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    CHECKS[check](expression)


@native_parts([e for e in TABLE if "polydiv" not in e.text])
def test_native(part):
    check_native(part)
