"""Methods of ufuncs (reduce, accumulate, reduceat, outer, at) and the keywords of their calls."""

import itertools

import numpy as np
import pytest
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg


def changed(x, ufunc, *args):
    """`x` after `ufunc.at(x, …)`, which changes it."""
    made = x * 1.0
    ufunc.at(made, *args)
    return made


MASK = np.array([[True, False, True, True], [False, False, True, True], [True, True, True, False]])
NAMES = {"mask": MASK, "changed": changed, "places": np.array([2, 0, 2, 2])}
POSITIVE = dict(other=(0.5, 2.0), choices=False)


def of(text, torch=None, **options):
    return Expression(text, torch, names=NAMES, **options)


TABLE = [
    of("np.add.reduce(x)", "x.sum(0)"),
    of("np.add.reduce(x, axis=None)", "x.sum()"),
    of(
        "np.add.reduce(x, 1, None, None, True, 0.5, x > 0.8)",
        "torch.where(x > 0.8, x, 0.0).sum(1, keepdim=True) + 0.5",
    ),
    of("np.multiply.reduce(x, (0, 1), initial=x[0, 0])", "x.prod() * x[0, 0]"),
    of("np.subtract.reduce(x, axis=1)", "x[:, 0] - x[:, 1:].sum(1)"),
    of("np.maximum.reduce(x, axis=-1, keepdims=True)", "x.amax(1, keepdim=True)"),
    of("np.minimum.reduce(x, initial=0.875)", "torch.minimum(x.amin(0), torch.tensor(0.875))"),
    of("np.fmax.reduce(x, 1)", "x.amax(1)"),
    of(
        "np.fmin.reduce(x, axis=(0, 1), where=mask, initial=1.0)",
        "torch.where(torch.tensor(mask), x, 1.0).amin()",
    ),
    of(
        "np.fmax.reduce(np.where(mask, x, np.nan), 0)",
        "torch.where(torch.tensor(mask), x, -torch.inf).amax(0)",
    ),
    of("np.logaddexp.reduce(x, 1)", "x.logsumexp(1)"),
    of(
        "np.logaddexp.reduce(x, None, where=mask)",
        "torch.where(torch.tensor(mask), x, -torch.inf).logsumexp((0, 1))",
    ),
    of(
        "np.logaddexp2.reduce(x, axis=0, keepdims=True)",
        "torch.log2((2.0 ** x).sum(0, keepdim=True))",
    ),
    of(
        "np.logaddexp2.reduce(x, axis=(0, 1), initial=0.3)",
        "torch.log2((2.0 ** x).sum() + 2.0 ** 0.3)",
    ),
    of("np.hypot.reduce(x, 1)", "(x * x).sum(1).sqrt()", **POSITIVE),
    of(
        "np.hypot.reduce(x, (1, 0), initial=2.0, where=mask)",
        "((x * x * torch.tensor(mask)).sum() + 4.0).sqrt()",
        **POSITIVE,
    ),
    of(
        "x * np.logical_and.reduce(x > 0.57, axis=1, keepdims=True)",
        "x * (x > 0.57).all(1, keepdim=True)",
    ),
    of("x * np.logical_xor.reduce(x > 0.8)"),
    of("np.add.accumulate(x)", "x.cumsum(0)"),
    of("np.add.accumulate(x, -1)", "x.cumsum(1)"),
    of("np.subtract.accumulate(x, 1)", "(x * torch.tensor([1.0, -1, -1, -1])).cumsum(1)"),
    of("np.multiply.accumulate(x, axis=1)", "x.cumprod(1)"),
    of("np.maximum.accumulate(x, 1)", "x.cummax(1).values"),
    of("np.minimum.accumulate(x)", "x.cummin(0).values"),
    of("np.fmin.accumulate(np.where(mask, x, np.nan)[:, 2:], 0)"),
    of("np.fmax.accumulate(x, axis=-2)", "x.cummax(0).values"),
    of("np.logaddexp.accumulate(x, axis=1)", "x.logcumsumexp(1)"),
    of("np.logaddexp2.accumulate(x)", "torch.log2((2.0 ** x).cumsum(0))"),
    of("np.hypot.accumulate(x, 1)", "(x * x).cumsum(1).sqrt()", **POSITIVE),
    of("np.add.reduceat(x, [0, 2], 1)", "torch.stack([x[:, :2].sum(1), x[:, 2:].sum(1)], 1)"),
    of("np.add.reduceat(x, [2, 0, 1, 1])", "torch.stack([x[2], x[0], x[1], x[1:].sum(0)])"),
    of(
        "np.multiply.reduceat(x, [1, 3, 0], axis=-1)",
        "torch.stack([x[:, 1] * x[:, 2], x[:, 3], x.prod(1)], 1)",
    ),
    of("np.maximum.reduceat(x, [0, 1], 1)", "torch.stack([x[:, 0], x[:, 1:].amax(1)], 1)"),
    of("np.minimum.reduceat(x, np.array([0]))", "x.amin(0, keepdim=True)"),
    of("np.fmax.reduceat(x, [0, 2])", "torch.stack([x[:2].amax(0), x[2]])"),
    of(
        "np.logaddexp.reduceat(x, [0, 3], axis=1)",
        "torch.stack([x[:, :3].logsumexp(1), x[:, 3]], 1)",
    ),
    of("np.add.outer(x, x[0])", "x[:, :, None] + x[0]"),
    of("np.subtract.outer(x[0], x)", "x[0][:, None, None] - x"),
    of("np.multiply.outer(x[0, 0], x)", "x[0, 0] * x"),
    of(
        "np.maximum.outer(x, [0.75, 1.25])",
        "torch.maximum(x[:, :, None], torch.tensor([0.75, 1.25]))",
    ),
    of("np.divide.outer([1.0, 2.0], x)", "torch.tensor([1.0, 2.0])[:, None, None] / x", **POSITIVE),
    of("np.power.outer(x[0], x[:, 1])", "x[0][:, None] ** x[:, 1]", **POSITIVE),
    of("np.arctan2.outer(x[1], 2.0)", "torch.atan2(x[1], torch.tensor(2.0))"),
    of(
        "np.hypot.outer(x[0], x[1], out=tg.zeros((4, 4)))",
        "torch.hypot(x[0][:, None], x[1])",
        **POSITIVE,
    ),
    of("x * np.less.outer(x[0], x[1]).sum()", "x * (x[0][:, None] < x[1]).sum()"),
    of(
        "changed(x, np.add, (slice(None), places), x)",
        "x.index_add(1, torch.tensor([2, 0, 2, 2]), x)",
    ),
    of(
        "changed(x, np.subtract, [0, 0, 2], x[1])",
        "x.index_add(0, torch.tensor([0, 0, 2]), -x[1].expand(3, 4))",
    ),
    of(
        "changed(x, np.multiply, (0, places), x[1])",
        "torch.cat([(x[0] * torch.stack([x[1, 1], x[1, 0] / x[1, 0], x[1, 0] * x[1, 2] * x[1, "
        "3], x[1, 0] / x[1, 0]]))[None], x[1:]])",
        **POSITIVE,
    ),
    of("changed(x, np.multiply, ([0, 0, 1], [1, 1, 2]), 3.0)"),
    of(
        "changed(x, np.divide, (1, [0, 0]), x[0, :2])",
        "torch.cat([x[:1], torch.cat([x[1, :1] / x[0, 0] / x[0, 1], x[1, 1:]])[None], x[2:]])",
        **POSITIVE,
    ),
    of("changed(x, np.maximum, (0, places), x[2])"),
    of("changed(x, np.minimum, [1, 1, 0], x * 0.9)"),
    of("changed(x, np.logaddexp, (0, [1, 1]), x[1, :2])"),
    of(
        "changed(x, np.negative, (0, [1, 1, 2]))",
        "x * torch.tensor([[1.0, 1, -1, 1], [1, 1, 1, 1], [1, 1, 1, 1]])",
    ),
    of("changed(x, np.exp, ([2, 2], [1, 1]))"),
    of("changed(x, np.square, x > 0.8)", "torch.where(x > 0.8, x * x, x)"),
    of("changed(x, np.add, np.argsort(x[:, 0])[[0, 0]], x[0])"),
    of("np.sin(x, out=tg.zeros((3, 4)), where=mask)", "torch.sin(x) * torch.tensor(mask)"),
    of(
        "np.log(x, where=x > 0.8, out=tg.asarray(x) * 1.0)",
        "torch.where(x > 0.8, x.log(), x)",
        choices=False,
        other=(0.9,),
    ),
    of(
        "np.divide(1.0, x, out=tg.ones((2, 3, 4)), where=mask)",
        "torch.where(torch.tensor(mask), 1 / x, 1.0).expand(2, 3, 4)",
        **POSITIVE,
    ),
    of("np.add(x, x, x * 3.0) if tg.Tensor in type(x).__mro__ else x + x", "x + x"),
    of("np.divmod(x, 0.7, out=(tg.zeros((3, 4)), tg.zeros((3, 4))))[1]", "x % 0.7"),
    of("np.multiply(x, x, casting='no', order='F', subok=False)", "x * x"),
    of("np.exp(x, dtype=np.float64)", "x.exp()"),
    of("np.exp(x, signature='d->d')", "x.exp()"),
    of("np.vecdot(x, x * x, axis=0)", "(x * x * x).sum(0)"),
    of("np.vecdot(x, x[:, :1], axis=0, keepdims=True)", "(x * x[:, :1]).sum(0, keepdim=True)"),
    of("np.vecdot(x, x[0], axes=[1, 0, ()])", "x @ x[0]"),
    of("np.matmul(x, x, axes=[(1, 0), (0, 1), (1, 0)])", "(x.T @ x).T"),
    of("np.matmul(x, x.T, out=tg.zeros((3, 3)))", "x @ x.T"),
]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    if check == "float32" and any(word in expression.text for word in ("out=", "nature=", "dtype")):
        pytest.skip("it names float64")
    CHECKS[check](expression)


@native_parts(TABLE)
def test_native(part):
    check_native(part)


# --- the same as NumPy ----------------------------------------------------------------------------

METHODS = ("reduce", "accumulate", "reduceat")
UFUNCS = (
    "add subtract multiply maximum minimum fmax fmin logaddexp logaddexp2 hypot logical_and "
    "logical_or logical_xor bitwise_and gcd less divide power"
).split()
ARRAYS = {
    "float64": np.array([[0.5, -1.5, np.nan, -0.0], [2.0, 0.0, 2.0, -np.inf]]),
    "float32": np.array([[0.5, -1.5, 3.25], [2.0, 0.0, 2.0]], np.float32),
    "fortran": np.asfortranarray(np.arange(1.0, 7.0).reshape(2, 3)),
    "int": np.array([[3, 1, 3], [0, 2, 2]]),
    "bool": np.array([[True, False, True], [True, True, True]]),
    "one": np.ones((1, 1)),
    "none": np.ones((2, 0)),
    "number": np.array(1.5),
}
FORMS = {
    "reduce": [(), (1,), (-1, None, None, True), ((0, 1),), (None,), ((),), (0, float), (5,)],
    "accumulate": [(), (1,), (-1,), (0, float), (3,)],
    "reduceat": [([0, 1],), ([1, 0, 1], 1), ([0, 2, 1], -1), ([],), ([9],), ([0.5],)],
}
#: Operations that are not associative, of which recorded tensors have no such method.
REFUSED = ("divide", "power")


def outcome(function, *args):
    try:
        with np.errstate(all="ignore"):
            return function(*args)
    except (ValueError, TypeError, IndexError) as error:
        return error


@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("method", METHODS)
def test_every_form_gives_what_numpy_gives(method, kind):
    """Recorded tensors and others: value, shape and dtype; an error where NumPy has one."""
    x = ARRAYS[kind]
    for name, args in itertools.product(UFUNCS, FORMS[method]):
        function = getattr(getattr(np, name), method)
        args = tuple(np.array(a, int) if a == [] else a for a in args)
        wanted = outcome(function, x, *args)
        recorded = [False, True] if x.dtype.kind == "f" else [False]
        for is_recorded in recorded:
            found = outcome(function, tg.tensor(x, requires_grad=is_recorded), *args)
            what = (name, method, args, is_recorded)
            if isinstance(wanted, Exception) or isinstance(found, Exception):
                refused = is_recorded and (name in REFUSED or (name, method) == NEITHER)
                assert isinstance(found, Exception), what
                assert isinstance(wanted, Exception) or refused, (what, found)
                continue
            value = np.asarray(found.detach())
            assert value.shape == np.shape(wanted) and value.dtype == wanted.dtype, what
            loose = 1e-5 if value.dtype == np.float32 else 1e-13
            np.testing.assert_allclose(value, wanted, loose, loose, err_msg=str(what))


NEITHER = ("subtract", "reduceat")


PLACES = ([], [1], [0, 2, 0], [2, 2, 2], -1, slice(0, 2), [True, False, True])


@pytest.mark.parametrize(
    "name", "add multiply divide maximum power negative exp logical_not".split()
)
@pytest.mark.parametrize("places", PLACES, ids=str)
def test_at_gives_what_numpy_gives(name, places):
    ufunc = getattr(np, name)
    places = np.array(places, int) if places == [] else places
    for x in (np.array([0.5, 0.2, 0.3]), np.array([0.5, 0.2, 0.3], np.float32)):
        wanted, found = x.copy(), tg.tensor(x, requires_grad=True) * np.float32(1.0)
        count = np.shape(x[places])
        values = [] if ufunc.nin == 1 else [1.5 + 0.5 * np.arange(np.prod(count)).reshape(count)]
        ufunc.at(wanted, places, *values)
        ufunc.at(found, places, *values)
        assert found.dtype == wanted.dtype
        np.testing.assert_allclose(found.detach().numpy(), wanted, 1e-6)
    if name not in ("divide", "exp"):
        wanted, found = np.array([5, 6, 7]), tg.tensor([5, 6, 7])
        values = [] if ufunc.nin == 1 else [2]
        ufunc.at(wanted, places, *values)
        ufunc.at(found, places, *values)
        np.testing.assert_array_equal(found.numpy(), wanted)


def test_ties_of_running_extremes_go_to_the_first():
    x = np.array([1.0, 3.0, 3.0, 2.0])
    found = tg.grad(lambda x: np.sum(np.maximum.accumulate(x)))(x)
    assert found.tolist() == [1.0, 3.0, 0.0, 0.0]
    assert tg.grad(lambda x: np.maximum.reduce(x))(x).tolist() == [0.0, 0.5, 0.5, 0.0]


def test_recorded_values_do_not_get_lost():
    t, plain = tg.tensor([1.0, 2.0], requires_grad=True), np.zeros(2)
    for attempt in (
        lambda: np.add.at(plain, [0], t[0]),
        lambda: np.multiply.at(plain, [0, 0], t),
        lambda: np.add.reduce(t, out=np.zeros(())),
        lambda: np.add.accumulate(t, out=plain),
        lambda: np.add.outer(t, t, out=np.zeros((2, 2))),
        lambda: np.sin(t, where=[True, False], out=plain),
        lambda: np.divmod(t, 2.0, out=(plain, plain)),
        lambda: np.exp(t, dtype=np.float16),
        lambda: np.exp(t, signature="g->g"),
        lambda: np.add(t, 1.0, dtype=int, casting="unsafe"),
    ):
        with pytest.raises(TypeError, match=r"^tapegrad[.:]"):
            attempt()
    assert not plain.any()


@pytest.mark.parametrize(
    ("call", "kind", "text"),
    [
        (lambda t: np.divide.reduce(t), TypeError, r"divide.reduce: .* use x\[0\] / np.prod"),
        (lambda t: np.sin(t, where=[True]), TypeError, "where= without out="),
        (lambda t: np.sin(t, where=[1.0], out=t * 1.0), TypeError, "it must be boolean"),
        (lambda t: np.sin(t, out=tg.zeros(3)), ValueError, "shape mismatch|the result has shape"),
        (lambda t: np.add(t[:, None], t, out=tg.zeros(2)), ValueError, "the result has shape"),
        (lambda t: np.maximum.reduce(t, where=[True, False]), ValueError, "needs initial="),
        (lambda t: np.subtract.reduce(t, initial=1.0), TypeError, "initial= are not supported"),
        (lambda t: np.multiply.at(t * 1.0, [0]), ValueError, "second operand needed"),
        (lambda t: np.divmod.at(t * 1.0, [0], 1.0), ValueError, "single output"),
        (lambda t: np.frexp.reduce(t), (TypeError, ValueError), "reduce"),
    ],
)
def test_errors(call, kind, text):
    with pytest.raises(kind, match=text):
        call(tg.tensor([1.0, 2.0], requires_grad=True))


def test_compiled_calls_see_indices_and_masks_anew():
    """Positions that depend on values are guards; masks are computed by the program."""

    def f(x):
        y = x * 1.0
        np.multiply.at(y, np.argsort(x)[[0, 0]], x[:2])
        np.exp(x, out=y, where=x > np.mean(x))
        return np.sum(y * np.arange(1.0, 5.0)) + np.maximum.accumulate(x)[2]

    compiled = tg.compile(f)
    for x in (
        [0.3, 0.7, 0.1, 0.5],
        [0.9, 0.2, 0.4, 0.3],
        [0.3, 0.7, 0.1, 0.6],
        [0.1, 0.2, 0.3, 0.0],
    ):
        value, gradient = compiled.value_and_grad(np.array(x))
        np.testing.assert_allclose(value, tg.value_and_grad(f)(np.array(x))[0], rtol=1e-12)
        np.testing.assert_allclose(gradient, tg.grad(f)(np.array(x)), rtol=1e-12)


def test_extremes_that_are_the_infinity_put_for_nan():
    """A NaN has no share in them."""
    x = np.array([-np.inf, np.nan, -np.inf])
    for f, sign in ((np.fmax.reduce, 1.0), (np.nanmax, 1.0), (np.fmin.reduce, -1.0)):
        np.testing.assert_array_equal(tg.grad(f)(sign * x), [0.5, 0.0, 0.5])


def test_extremes_of_nothing_are_the_initial_value():
    empty = tg.tensor(np.zeros((0, 2)), requires_grad=True)
    for f in (np.fmax.reduce, np.fmin.reduce):
        assert f(empty, initial=-2.0).tolist() == f(np.zeros((0, 2)), initial=-2.0).tolist()
        assert tg.grad(lambda t, f=f: np.sum(f(empty.detach(), initial=t)))(1.0) == 2.0
