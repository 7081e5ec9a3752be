"""Interpolation, differences, integrals, convolutions: derivatives, and NumPy's answers."""

import dataclasses
import functools
import itertools

import numpy as np
import pytest
from expressions import CHECKS, Expression, check_native, native_parts, parametrized, torch
from test_numpy_statistics import as_numpy, same

import tapegrad as tg
import tapegrad.numpy as tnp

XP, FP = np.array([-1.0, 0.2, 0.55, 1.35, 4.0]), np.array([0.3, 2.0, 1.0, 1.5, -2.0])
H = np.array([0.0, 0.5, 0.7, 1.6])
KNOWN = {"xp": XP, "fp": FP, "h": H, "torch": torch}

INTERPOLATION = [
    Expression(text, names=KNOWN)
    for text in (
        "np.interp(x, xp, fp)",
        "np.interp(x[0, 1], xp, fp) * x",
        "np.interp(3.0 * x, xp, fp, left=0.5, right=x[0, 0])",
        "np.interp(x, xp, fp, left=x[0, 1] ** 2)",
        "np.interp([0.3, 0.9, 2.0, 7.0], xp, fp * x[0, 0])",
        "np.interp(0.9, xp, np.concatenate([x[0], x[1, :1]]))",
        "np.interp(h, np.cumsum(x[0] ** 2 + 0.1), fp[:4])",
        "np.interp(x, np.cumsum(x[0] ** 2 + 0.1) - 0.05, x[1] * x[2])",
        "np.interp(5.0 * x, xp, fp, period=3.1)",
        "np.interp(x, x[0, :1], x[1, :1])",
        "np.interp(x + 0.01, xp[:4], x[0], period=2.5 + x[1, 1] ** 2)",
        "np.unwrap(7.0 * x, axis=0)",
        "np.unwrap(4.0 * x, period=2.0)",
        "np.unwrap(4.0 * x, 2.5, period=x[0, 0] ** 2 + 1.0)",
        "np.unwrap(np.cumsum(x) * 3.0, discont=4.0)",
    )
]

DIFFERENCES = [
    Expression(
        "np.gradient(x)[0] * np.gradient(x)[1]", "torch.gradient(x)[0]*torch.gradient(x)[1]"
    ),
    Expression("np.gradient(x, axis=1)", "torch.gradient(x, dim=1)[0]"),
    Expression("np.gradient(x, 0.5, axis=-1)", "torch.gradient(x, spacing=0.5, dim=1)[0]"),
    Expression(
        "np.gradient(x, h, axis=1)", "torch.gradient(x, spacing=[torch.tensor(h)], dim=1)[0]"
    ),
    Expression("np.gradient(x, axis=0, edge_order=2)", "torch.gradient(x, dim=0, edge_order=2)[0]"),
    Expression(
        "np.gradient(x, h, axis=1, edge_order=2)",
        "torch.gradient(x, spacing=[torch.tensor(h)], dim=1, edge_order=2)[0]",
    ),
    Expression("np.stack(np.gradient(x, x[0, 0] ** 2 + 1.0, 0.5))"),
    Expression("np.gradient(x, np.cumsum(x[0] ** 2 + 0.1), axis=1, edge_order=2)"),
    Expression("np.gradient(h**2, np.cumsum(x[0] ** 2 + 0.1))"),
    Expression("np.gradient(x[0], h + 3.0, edge_order=1)"),
    Expression("np.stack(np.gradient(x, axis=(1, 0), edge_order=2))"),
    Expression("np.gradient(x[:2], 0.3, axis=0)"),
    Expression("np.ediff1d(x)", "torch.diff(x.flatten())"),
    Expression("np.ediff1d(x, to_end=x[0], to_begin=1.0)"),
    Expression("np.ediff1d(h, x[0, 0], np.exp(x[:2, 1]))"),
    Expression("np.diff(x, 2, axis=0)", "torch.diff(x, 2, 0)"),
    Expression("np.diff(x, prepend=x[:, :1] ** 2, append=0.0)"),
    Expression("np.diff(h, append=x[0])"),
    Expression("np.trapezoid(x)", "torch.trapezoid(x)"),
    Expression("np.trapezoid(x, dx=0.5, axis=0)", "torch.trapezoid(x, dx=0.5, dim=0)"),
    Expression("np.trapezoid(x, h)", "torch.trapezoid(x, torch.tensor(h))"),
    Expression("np.trapezoid(x, x**2, axis=-2)", "torch.trapezoid(x, x**2, dim=0)"),
    Expression("np.trapezoid(h, x[0])", "torch.trapezoid(torch.tensor(h), x[0])"),
    Expression("np.trapezoid(x, dx=x[0, 0])", "x[0, 0] * torch.trapezoid(x)"),
]
DIFFERENCES = [dataclasses.replace(e, names=KNOWN) for e in DIFFERENCES]


def conv(a, v, padding):
    """The convolution in PyTorch: correlation with what is reversed."""
    return f"torch.conv1d({a}[None, None], {v}.flip(0)[None, None], padding={padding})[0, 0]"


CONVOLUTION = [
    Expression("np.convolve(x[0], x[1, :3])", conv("x[0]", "x[1, :3]", 2)),
    Expression("np.convolve(x[0], x[1, :3], 'same')", conv("x[0]", "x[1, :3]", 1)),
    Expression("np.convolve(x[0], x[1, :3], mode='valid')", conv("x[0]", "x[1, :3]", 0)),
    Expression("np.convolve(x[0, :2], x[1])", conv("x[1]", "x[0, :2]", 1)),
    Expression("np.convolve(x[0, :2], x[1], 'same')"),
    Expression("np.convolve(x[0], h, 'same')"),
    Expression("np.convolve(h, x.ravel(), 'valid')"),
    Expression("np.convolve(x[0, 0], x[1])", "x[0, 0] * x[1]"),
    Expression("np.correlate(x[0], x[1])", "(x[0] * x[1]).sum().reshape(1)"),
    Expression("np.correlate(x.ravel(), x[0, :3], 'full')"),
    Expression("np.correlate(x.ravel(), h, 'same')"),
    Expression("np.correlate(h, x.ravel(), 'same')"),
    Expression("np.correlate(x[0, :3], x.ravel(), 'full')"),
    Expression("np.correlate(x[0, :3], x.ravel())"),
    Expression(
        "np.convolve(x, x[:40] ** 2)",
        conv("x", "(x[:40] ** 2)", 39),
        shape=(60,),
    ),
    Expression("np.correlate(x[:50] ** 2, x, 'same')", shape=(60,)),
]
CONVOLUTION = [dataclasses.replace(e, names=KNOWN) for e in CONVOLUTION]
TABLE = [*INTERPOLATION, *DIFFERENCES, *CONVOLUTION]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    CHECKS[check](expression)


@native_parts(TABLE[::4])  # native code of all would take a minute
def test_native(part):
    check_native(part)


# --- interpolation ------------------------------------------------------------------------------


@pytest.mark.parametrize("period", [None, 2.5, -3.0])
def test_interp_gives_numpys_values(period):
    x = np.array([[-7.0, -1.0, 0.0, 0.2], [4.0, 4.1, np.nan, 0.55], [np.inf, -np.inf, 1.0, 3.99]])
    for left, right in itertools.product((None, 0.25), repeat=2):
        for places, values in ((XP, FP), (XP[:1], FP[:1]), (XP[[0, 1, 1, 3, 3]], FP)):
            for points in (x, x[0, 0], x[:, :0], x.astype(np.float32), np.arange(3)):
                call = functools.partial(np.interp, left=left, right=right, period=period)
                with np.errstate(all="ignore"):
                    as_numpy(call, points, places, values)


def test_interp_with_infinite_values():
    for values in ([np.inf, np.inf, 1.0], [-np.inf, 3.0, np.inf], [1.0, np.nan, 2.0]):
        as_numpy(np.interp, np.array([0.0, 0.5, 1.0, 1.5, 2.0, 9.0]), np.arange(3.0), values)
    compiled = tg.compile(
        lambda x, fp: np.interp(x, np.arange(3.0), fp), argnums=(0, 1), native=False
    )
    for values in ([1.0, 2.0, 3.0], [1.0, 2.0, 4.0], [np.inf, np.inf, 1.0]):
        for x in (0.5, 1.0, 1.5):
            assert compiled(x, np.array(values)) == np.interp(x, np.arange(3.0), values)


@pytest.mark.usefixtures("not_entered")
def test_arguments_that_numpy_does_not_dispatch_on():
    """With plain NumPy they raise; the stand-in and `tg` know them."""
    x, f = np.array([-2.0, 0.3]), lambda np: lambda t: np.sum(np.interp(x, XP, FP, left=t * t))
    assert tg.grad(f(tnp))(3.0) == tg.grad(f(tg))(3.0) == 6.0
    assert tg.grad(lambda t: np.sum(tnp.unwrap(7.0 * x, period=t)))(3.0) != 0.0
    with pytest.raises(TypeError, match="loses its derivative"):
        tg.grad(f(np))(3.0)


def test_slopes_of_interp_at_its_places():
    """To the right of each place; beyond the ends, and at the last one, the value is constant."""
    slopes = np.diff(FP) / np.diff(XP)
    gradient = tg.elementwise_grad(lambda x: np.interp(x, XP, FP))
    np.testing.assert_allclose(gradient(XP), [*slopes, 0.0])
    np.testing.assert_array_equal(gradient(np.array([-5.0, 9.0])), 0.0)
    found = tg.grad(lambda fp: np.sum(np.interp(np.array([-9.0, 4.0, 9.0]), XP, fp)))(FP)
    np.testing.assert_array_equal(found, [1.0, 0.0, 0.0, 0.0, 2.0])


def test_errors_of_interpolation():
    x = tg.tensor([1.0, 2.0], requires_grad=True)
    for attempt, text in {
        lambda: np.interp(x, [0.0, 1.0], [1.0]): r"xp has shape \(2,\) and fp \(1,\); they",
        lambda: np.interp(x, [], []): "must be vectors of the same length, at least 1",
        lambda: np.interp(x, [1.0, 0.0], [0.0, 1.0]): "interp: xp does not increase; sort xp",
        lambda: np.interp(0.5, x[::-1], x): "interp: xp does not increase; sort xp",
        lambda: np.interp(x, [0.0, 1.0], [0.0, 1.0], period=0): "interp: period is 0",
        lambda: np.gradient(x, [0.0, 1.0, 2.0]): "gradient: places have shape",
        lambda: np.gradient(x, edge_order=2): "length 2; edge_order 2 needs 3",
        lambda: np.gradient(x, edge_order=3): "edge_order is 3; it must be 1 or 2",
        lambda: np.gradient(x, axis=(0, 0)): "names an axis twice",
        lambda: np.convolve(x, []): r"convolve: an operand has shape \(0,\)",
        lambda: np.convolve(x, np.ones((2, 2))): r"an operand has shape \(2, 2\)",
        lambda: np.correlate(x, x[0]): r"correlate: an operand has shape \(\)",
        lambda: np.correlate(x, x, "some"): "mode is 'some'; it must be 'full', 'same' or",
    }.items():
        with pytest.raises(ValueError, match=text):
            attempt()
    with pytest.raises(TypeError, match="gradient: got 2 spacings for 1 axes"):
        np.gradient(x, 1.0, 2.0)
    with pytest.raises(TypeError, match="to_end has dtype float64, the tensor int64"):
        np.ediff1d(tg.tensor([1, 2]), to_end=x)


# --- differences and convolutions -----------------------------------------------------------------


@pytest.mark.parametrize("kind", [float, np.float32, int, bool])
def test_differences_give_numpys_values(kind):
    x = (np.array([[3.0, 1.0, 0.0, 2.0], [0.0, 1.0, 5.0, 5.0], [1.0, 1.0, 2.0, 3.0]])).astype(kind)
    for call in (
        lambda x: np.gradient(x) if kind is not bool else x,
        lambda x: np.gradient(x, 2, H, edge_order=2) if kind is not bool else x,
        lambda x: np.gradient(x[0], np.arange(4)) if kind is not bool else x,
        lambda x: np.ediff1d(x),
        lambda x: np.diff(x, 2, 0),
        lambda x: np.diff(x, append=x[:, :1]),
        lambda x: np.trapezoid(x),
        lambda x: np.trapezoid(x, H, axis=1),
        lambda x: np.unwrap(x, axis=0),
        lambda x: np.unwrap(x, period=4),
    ):
        try:
            wanted = call(x)
        except TypeError:
            continue
        found = call(tg.tensor(x, requires_grad=x.dtype.kind == "f"))
        if not isinstance(wanted, tuple):
            found, wanted = (found,), (wanted,)
        for one, other in zip(found, wanted, strict=True):
            same(one, other)


@pytest.mark.parametrize("function", [np.convolve, np.correlate])
@pytest.mark.parametrize("mode", ["full", "same", "valid"])
def test_convolutions_of_all_lengths(function, mode):
    rng = np.random.default_rng(1)
    for n, m in itertools.product((1, 2, 3, 33, 64, 70), repeat=2):
        a, v, along = (
            rng.normal(size=n),
            rng.normal(size=m),
            (rng.normal(size=n), rng.normal(size=m)),
        )
        wanted = function(a, v, mode)
        found = function(tg.tensor(a, requires_grad=True), v, mode)
        np.testing.assert_allclose(found.detach(), wanted, rtol=1e-12, atol=1e-12)
        weights = rng.normal(size=len(wanted))
        gradient = tg.vjp(functools.partial(function, mode=mode), a, v)[1](weights)
        slope = function(along[0], v, mode) + function(a, along[1], mode)  # it is linear in each
        total = sum(np.sum(g * d) for g, d in zip(gradient, along, strict=True))
        np.testing.assert_allclose(total, np.sum(slope * weights), rtol=1e-10, atol=1e-10)
    for kind in (np.float32, int, bool):
        a, v = np.arange(5).astype(kind), np.ones(3, kind)
        same(
            function(tg.tensor(a, requires_grad=kind is np.float32), v, mode), function(a, v, mode)
        )
