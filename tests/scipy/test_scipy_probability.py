"""`scipy.special` of probabilities and entropies, `scipy.integrate` of samples, recorded."""

import numpy as np
import pytest
import scipy.integrate
import scipy.special
from assumed import needs
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg
from tapegrad.scipy import integrate, special

NAMES = {"special": special, "integrate": integrate}
POSITIVE = {"choices": False, "other": (0.5, 0.8)}


def expression(text, torch=None, **fields):
    return Expression(text, torch, names=NAMES, **fields)


TABLE = [
    expression("special.erfinv(0.4 * x) * x", "torch.special.erfinv(0.4 * x) * x"),
    expression("special.erfcinv(0.4 * x + 0.9)"),
    expression("special.ndtri(0.2 * x + 0.5)", "torch.special.ndtri(0.2 * x + 0.5)"),
    expression("special.erfcx(3.0 * x - 2.0)", "torch.special.erfcx(3.0 * x - 2.0)"),
    expression("special.k0(x) * x", **POSITIVE),
    expression("special.k1(x) * x", **POSITIVE),
    expression("special.logit(0.2 + 0.1 * x)", "torch.logit(0.2 + 0.1 * x)"),
    expression("special.logit(0.5 + 0.1 * x)", "torch.logit(0.5 + 0.1 * x)"),
    expression("special.log_expit(9.0 * x)", "torch.nn.functional.logsigmoid(9.0 * x)"),
    expression("special.ndtr(3.0 * x)", "torch.special.ndtr(3.0 * x)"),
    expression("special.log_ndtr(9.0 * x - 9.0)", "torch.special.log_ndtr(9.0 * x - 9.0)"),
    expression("0.01 * special.log_ndtr(-40.0 * x)"),
    expression("special.xlogy(x, x.T[0, 0] + x)", **POSITIVE),
    expression("special.xlog1py(x, 2.0 * x)", "torch.special.xlog1py(x, 2.0 * x)", **POSITIVE),
    expression("special.entr(x)", "torch.special.entr(x)", **POSITIVE),
    expression("special.rel_entr(x, x[::-1])", **POSITIVE),
    expression("special.kl_div(x[0], 0.3 + x)", **POSITIVE),
    expression("integrate.simpson(x * x, axis=0)"),
    expression("integrate.simpson(x * x, np.cumsum(x[0] ** 2))"),
    expression("integrate.simpson(x[:, :3], x=np.cumsum(x[:, :3] ** 2, 1))", choices=False),
    expression("integrate.simpson(x[:, :2] ** 2, dx=x[0, 0])"),
    expression("integrate.cumulative_trapezoid(x * x, x, axis=0)"),
    expression("integrate.cumulative_trapezoid(x * x, x[0], initial=0)"),
]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    CHECKS[check](expression)


@native_parts([e for e in TABLE if e.choices])
def test_native(part):
    check_native(part)


# --- values ---------------------------------------------------------------------------------------

LARGE = [np.inf, 1e300, 1e3, 40.0, 38.0, 37.0, 20.0001, 20.0, 19.99, 7.0, 1.5, 1.0001]
SMALL = [1.0, 1 - 1e-12, 0.9, 0.71, 0.69, 0.5 + 1e-9, 0.5, 0.31, 0.29, 0.2, 1e-10, 1e-300, 0.0]
EVERY = np.array([*LARGE, *SMALL, *(-np.array([*LARGE, *SMALL])), np.nan])
OF_ONE = "erfinv erfcinv ndtri erfcx k0 k1 logit log_expit ndtr log_ndtr entr".split()


@pytest.mark.parametrize("name", [*OF_ONE, "xlogy", "xlog1py", "rel_entr", "kl_div"])
def test_values_are_scipys(name):
    x = [EVERY] if name in OF_ONE else [one.ravel() for one in np.meshgrid(EVERY, EVERY)]
    if name == "kl_div":  # of numbers so far apart that SciPy's quotient overflows it is infinite
        x = [one[np.isin(np.abs(x).max(0), 1e300, invert=True)] for one in x]
    with np.errstate(all="ignore"):
        wanted = getattr(scipy.special, name)(*x)
        found = getattr(special, name)(tg.tensor(x[0], requires_grad=True), *x[1:])
    # Of kl_div the terms cancel where both numbers are close.
    atol = 1e-13 if name == "kl_div" else 1e-300
    np.testing.assert_allclose(found.detach(), wanted, rtol=1e-13, atol=atol)


@needs("numba-reader")
@pytest.mark.parametrize(
    "name,module",
    [
        *[("erfinv", special), ("log_ndtr", special), ("ndtr", scipy.special)],
        *[("kl_div", special), ("xlogy", scipy.special)],
    ],
)
def test_graphs_and_functions_of_users_know_them(name, module):
    """SciPy's own ufuncs, too."""
    function = getattr(module, name)
    if name in OF_ONE:
        within, rest = tg.elementwise(lambda x: x * function(x)), ()
    else:
        within, rest = tg.elementwise(lambda x, y: x * function(x, y)), (0.4,)

    def f(x):
        total = x[0] * 0.0
        for k in range(len(x)):
            if x[k] > 0.5:
                total = total + function(x[k], *rest) * x[0]
            else:
                total = total - within(x[k] * x[0], *rest)
        return total + np.sum(function(x, *rest))

    def plain(x):
        with np.errstate(all="ignore"):
            return f(x)

    c = tg.compile(f)
    rng = np.random.default_rng(3)
    for x in rng.uniform(0.1, 0.9, (8, 4)):
        value, gradient = c.value_and_grad(x)
        np.testing.assert_allclose(value, plain(x), 1e-12)
        wanted = [(plain(x + e) - plain(x - e)) / 2e-5 for e in 1e-5 * np.eye(4)]
        np.testing.assert_allclose(gradient, wanted, 1e-6, 1e-7)
        np.testing.assert_allclose(c.hvp(x, x), tg.hvp(f)(x, x), 1e-9, 1e-10)
    assert c._flows.found, c._flows.refused


@pytest.mark.parametrize("number", [0.5, 2, True, np.float64(0.5)])
@pytest.mark.parametrize("name", ["xlogy", "xlog1py", "rel_entr", "kl_div"])
def test_numbers_beside_float32(name, number):
    """NumPy's numbers do not take the dtype of the array; Python's do, if SciPy has them so."""
    x, f = np.array([0.3, 0.7], np.float32), getattr(special, name)
    for k in range(2):
        args, plain = [number, number], [number, number]
        args[k], plain[k] = tg.tensor(x, requires_grad=True), x
        wanted = getattr(scipy.special, name)(*plain)
        assert f(*args).dtype == wanted.dtype
        np.testing.assert_allclose(f(*args).detach(), wanted, rtol=1e-6)


@pytest.mark.parametrize(
    "name,at,slopes",
    [
        ("entr", (0.0,), (np.inf,)),
        ("rel_entr", (0.0, 1.0), (-np.inf, 0.0)),
        ("kl_div", (0.0, 2.0), (-np.inf, 1.0)),
        ("xlogy", (0.0, 3.0), (np.log(3.0), 0.0)),
        ("xlogy", (0.0, 0.0), (-np.inf, 0.0)),
        ("xlog1py", (0.0, -1.0), (-np.inf, 0.0)),
        ("log_ndtr", (-1e10,), (1e10,)),
        ("log_ndtr", (50.0,), (0.0,)),
        ("logit", (0.5,), (4.0,)),
        ("logit", (0.0,), (np.inf,)),
        ("erfinv", (1.0,), (np.inf,)),
    ],
)
def test_slopes_at_the_edges(name, at, slopes):
    every = tuple(range(len(at)))
    np.testing.assert_allclose(tg.grad(getattr(special, name), every)(*at), slopes, rtol=1e-14)


@pytest.mark.parametrize("n", range(1, 8))
@pytest.mark.parametrize("name", ["simpson", "cumulative_trapezoid"])
def test_integrals_are_scipys(name, n):
    rng = np.random.default_rng(n)
    y, x = rng.normal(size=(2, n, 3)), np.sort(rng.normal(size=n))
    equal = np.where(np.arange(n) < n // 2, x, 1.0)
    places = {"x": x}, {"x": equal}, {"x": np.cumsum(y * y, 1)}, {"dx": 0.3}, {}
    for given in places:
        wanted = getattr(scipy.integrate, name)(y, axis=1, **given)
        found = getattr(integrate, name)(tg.tensor(y, requires_grad=True), axis=1, **given)
        np.testing.assert_allclose(found.detach(), wanted, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("places", [{}, {"dx": 2}, {"dx": 0.3}, {"x": np.cumsum([0.1] * 6)}])
@pytest.mark.parametrize("n", range(1, 7))
def test_integrals_of_float32(n, places):
    """The dtype, too, is that of the installed SciPy: single precision from 1.18 on."""
    y = np.linspace(1.0, 2.0, 12, dtype=np.float32).reshape(2, 6)[:, :n]
    for dtype in (np.float32, np.float64):
        given = {key: x[:n].astype(dtype) if key == "x" else x for key, x in places.items()}
        for name in ("simpson", "cumulative_trapezoid"):
            wanted = getattr(scipy.integrate, name)(y, **given)
            found = getattr(integrate, name)(tg.tensor(y, requires_grad=True), **given)
            assert found.dtype == wanted.dtype
            np.testing.assert_allclose(found.detach(), wanted, rtol=1e-5)


@pytest.mark.parametrize("name", ["simpson", "cumulative_trapezoid"])
def test_wrong_places(name):
    y = tg.tensor(np.ones((2, 3)), requires_grad=True)
    for x in (np.ones(2), np.ones((2, 3, 1))):
        with pytest.raises(ValueError, match="If given, (length|shape) of x"):
            getattr(integrate, name)(y, x)
    with pytest.raises(ValueError, match="At least one point"):
        integrate.cumulative_trapezoid(y[:, :0])
    with pytest.raises(ValueError, match="`initial` must be"):
        integrate.cumulative_trapezoid(y, initial=1.0)
