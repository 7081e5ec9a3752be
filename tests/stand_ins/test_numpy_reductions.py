"""Reductions in all argument forms: axes, keepdims, where=, initial=, out=, dtype=, ddof, mean=."""

import numpy as np
import pytest
import scipy.special
from expressions import CHECKS, Expression, check_native, native_parts, parametrized

import tapegrad as tg
import tapegrad.scipy.special

MASK = np.array([[True, False, True, True], [False, False, True, True], [True, True, True, False]])
NAMES = {"mask": MASK}
SCALED = dict(other=(0.5, 2.0), choices=False)

TABLE = [
    Expression("np.sum(x)", "x.sum()"),
    Expression("np.sum(x, 1, keepdims=True)", "x.sum(1, keepdim=True)"),
    Expression("np.sum(x, axis=(0, -1))", "x.sum((0, 1))"),
    Expression("np.sum(x, axis=())", "x * 1.0"),
    Expression("np.sum(x, -1, None, None, False, 2.0)", "x.sum(1) + 2.0"),
    Expression("np.sum(x, 0, initial=x[0, 0])", "x.sum(0) + x[0, 0]"),
    Expression("np.sum(x * x, 0, where=mask)", "(x * x * torch.tensor(mask)).sum(0)", names=NAMES),
    Expression("np.sum(x, where=x > 0.8)", "torch.where(x > 0.8, x, 0.0).sum()"),
    Expression("x.sum(1, where=x > 0.8, initial=0.5)", "torch.where(x > 0.8, x, 0.0).sum(1) + 0.5"),
    Expression("np.sum(x, 0, out=tg.zeros(4)) * x", "x.sum(0) * x"),
    Expression("np.prod(x, axis=1)", "x.prod(1)"),
    Expression("np.prod(x, axis=(0, 1), keepdims=True)", "x.prod().reshape(1, 1)"),
    Expression("np.prod(x, 0, None, None, True, x[0, 1])", "x.prod(0, keepdim=True) * x[0, 1]"),
    Expression(
        "np.prod(x, 1, where=x < 1.2, initial=2.0)", "2.0 * torch.where(x < 1.2, x, 1.0).prod(1)"
    ),
    Expression("np.prod(x, 1, out=tg.zeros(3))", "x.prod(1)"),
    Expression("np.mean(x, (0, 1))", "x.mean()"),
    Expression("np.mean(x, -2, keepdims=True) - x", "x.mean(0, keepdim=True) - x"),
    Expression(
        "np.mean(x, 1, where=mask)",
        "(x * torch.tensor(mask)).sum(1) / torch.tensor(mask).sum(1)",
        names=NAMES,
    ),
    Expression("np.mean(x, where=x >= np.min(x) + 0.2)"),
    Expression("x.mean(0, out=tg.zeros(4))", "x.mean(0)"),
    Expression("np.var(x)", "x.var(correction=0)", other=(-1.0, 0.5)),
    Expression("np.var(x, 1, ddof=1)", "x.var(1)"),
    Expression(
        "np.var(x, (0, 1), correction=2, keepdims=True)",
        "x.var((0, 1), correction=2, keepdim=True)",
    ),
    Expression("x.var(0, mean=x.mean(0, keepdims=True))", "x.var(0, correction=0)"),
    Expression("np.var(x, 0, mean=1.5)", "((x - 1.5) ** 2).mean(0)"),
    Expression("np.var(x, 1, mean=x[:, :1], ddof=1)", "((x - x[:, :1]) ** 2).sum(1) / 3"),
    Expression("np.var(x, 0, where=x > 0.57)", choices=False, other=(1.1,)),
    Expression("np.var(x, 1, out=tg.zeros(3))", "x.var(1, correction=0)"),
    Expression("np.std(x, 1)", "x.std(1, correction=0)", **SCALED),
    Expression("np.std(x, ddof=1, axis=0, keepdims=True)", "x.std(0, keepdim=True)", **SCALED),
    Expression("np.std(x, (0, 1), correction=1)", "x.std()", **SCALED),
    Expression("np.std(x, 0, mean=0.1)", "((x - 0.1) ** 2).mean(0).sqrt()", **SCALED),
    Expression("np.std(x, out=tg.zeros(()))", "x.std(correction=0)", **SCALED),
    Expression("np.max(x, (1, 0), keepdims=True)", "x.amax((0, 1), keepdim=True)"),
    Expression("np.max(x, 1, None, False, 1.1)", "torch.maximum(x.amax(1), torch.tensor(1.1))"),
    Expression("np.max(x, axis=0, initial=x[1, 2])", "torch.maximum(x.amax(0), x[1, 2])"),
    Expression(
        "np.max(x * x, 1, where=mask, initial=0.1)",
        "torch.maximum(torch.where(torch.tensor(mask), x * x, 0.1).amax(1), torch.tensor(0.1))",
        names=NAMES,
    ),
    Expression(
        "x.max(0, where=x < 1.0, initial=-5.0)",
        "torch.where(x < 1.0, x, -5.0).amax(0)",
        choices=False,
        other=(0.9,),
    ),
    Expression("np.max(x, 0, out=tg.zeros(4))", "x.amax(0)"),
    Expression("np.amin(x, -1)", "x.amin(1)"),
    Expression("np.min(x, (), initial=1.0)", "torch.minimum(x, torch.tensor(1.0))"),
    Expression("np.amax(x, keepdims=True)", "x.amax((0, 1), keepdim=True)"),
    Expression("np.min(x, 1, out=tg.zeros(3))", "x.amin(1)"),
    Expression("np.cumsum(x)", "x.reshape(-1).cumsum(0)"),
    Expression("np.cumsum(x, -1, out=tg.zeros((3, 4)))", "x.cumsum(1)"),
    Expression("x.cumsum(0)", "x.cumsum(0)"),
    Expression("np.cumprod(x, 1)", "x.cumprod(1)"),
    Expression("np.cumprod(x, axis=0, out=tg.ones((3, 4)))", "x.cumprod(0)"),
    Expression("np.cumprod(x)", "x.reshape(-1).cumprod(0)"),
    Expression(
        "x * np.all(x > 0.57, axis=1, keepdims=True)", "x * (x > 0.57).all(1, keepdim=True)"
    ),
    Expression("np.any(x > 1.5, 0) * x", "(x > 1.5).any(0) * x"),
    Expression("x * np.any(x > 1.2, axis=(0, 1), where=mask)", names=NAMES),
    Expression("x * np.all(x > 0.4, where=x > 0.6)"),
    Expression("x[np.argmax(x, 0), 1] * x[0, 0]", "x[x.argmax(0), 1] * x[0, 0]"),
    Expression("x * np.argmin(x, axis=1, keepdims=True)", "x * x.argmin(1, keepdim=True)"),
    Expression("x * np.sum(x > 1.0)", "x * (x > 1.0).sum()"),
    Expression("x * np.sum(x > 1.0, axis=0, where=x < 1.6)", "x * ((x > 1.0) & (x < 1.6)).sum(0)"),
    Expression(
        "x * np.count_nonzero(x > 1.0, axis=1, keepdims=True)", "x * (x > 1.0).sum(1, keepdim=True)"
    ),
]


@parametrized(TABLE)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    if check == "float32" and "out=" in expression.text:
        pytest.skip("its out= is float64")
    CHECKS[check](expression)


@native_parts(TABLE)
def test_native(part):
    check_native(part)


# --- the same as NumPy ----------------------------------------------------------------------------

REDUCTIONS = "sum prod mean var std max min any all argmax argmin cumsum cumprod".split()
ARRAYS = {
    "float64": np.array([[0.5, -1.5, np.nan], [2.0, 0.0, 2.0]]),
    "float32": np.array([[0.5, -1.5, 3.25], [2.0, 0.0, 2.0]], np.float32),
    "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3)),
    "int": np.array([[3, 1, 3], [0, 2, 2]]),
    "bool": np.array([[True, False, True], [True, True, True]]),
    "one": np.ones((1, 1)),
    "none": np.ones((2, 0)),
    "number": np.array(1.5),
}
FORMS = [
    {},
    {"axis": 0},
    {"axis": -1},
    {"axis": (0, 1)},
    {"axis": (-1,)},
    {"axis": ()},
    {"axis": 1, "keepdims": True},
    {"axis": (1, 0), "keepdims": True},
    {"axis": 2},
    {"axis": (0, 0)},
    {"initial": 2},
    {"axis": 1, "initial": 0.5},
    {"axis": 0, "where": np.array([True, False, True])},
    {"axis": 0, "where": np.array([True, False, True]), "initial": 1},
    {"where": 1},
    {"ddof": 1, "axis": 1},
    {"correction": 1},
    {"dtype": np.float32},
    {"axis": 0, "dtype": np.float64},
    {"dtype": int, "axis": 0},
]


def outcome(function, x, form):
    """The value that a call gives, or its error."""
    try:
        with np.errstate(all="ignore"):
            return function(x, **form)
    except (ValueError, TypeError, IndexError) as error:
        return error


@pytest.mark.filterwarnings("ignore")  # of NumPy's about empty slices
@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("kind", ARRAYS)
def test_every_form_gives_what_numpy_gives(name, kind):
    """Of recorded tensors and of others, functions and methods: value, shape, dtype."""
    x = ARRAYS[kind]
    leaves = [lambda: tg.tensor(x)]
    if x.dtype.kind == "f":
        leaves += [
            lambda: tg.tensor(x, requires_grad=True),
            lambda: tg.tensor(x, requires_grad=True) * 1.0,
        ]
    for form in FORMS:
        wanted = outcome(getattr(np, name), x, form)
        for make in leaves:
            compare(outcome(getattr(np, name), make(), form), wanted, (name, kind, form))
            method = getattr(type(make()), name)
            compare(outcome(method, make(), form), wanted, (name, kind, form))


def compare(found, wanted, what):
    if isinstance(wanted, Exception):
        assert isinstance(found, Exception), what
        return
    if isinstance(found, Exception):
        assert is_refused(what), (what, found)
        return
    value = np.asarray(found.detach())
    assert value.shape == np.shape(wanted) and value.dtype == np.asarray(wanted).dtype, what
    np.testing.assert_allclose(value, wanted, rtol=1e-6 if value.dtype == np.float32 else 1e-13)


def is_refused(what):
    """What tensors do not take: masks of numbers, variances of whole numbers."""
    name, kind, form = what
    if form.get("dtype") is int:
        return name in ("var", "std")
    return "where" in form


@pytest.mark.parametrize("name", ["sum", "mean", "max", "prod", "var", "cumsum"])
def test_out_is_what_comes_back(name):
    x = np.arange(1.0, 7.0).reshape(2, 3)
    wanted = getattr(np, name)(x, 0)
    out = tg.zeros(wanted.shape)
    leaf = tg.tensor(x, requires_grad=True)
    assert getattr(np, name)(leaf, 0, out=out) is out and out.requires_grad
    np.testing.assert_allclose(out.detach().numpy(), wanted)
    plain = np.zeros(wanted.shape)
    assert getattr(np, name)(tg.tensor(x), 0, out=plain) is plain
    np.testing.assert_allclose(plain, wanted)
    with pytest.raises(TypeError, match=f"tapegrad.{name}: out=: a recorded tensor cannot be"):
        getattr(np, name)(leaf, 0, out=plain)
    with pytest.raises(ValueError, match=f"tapegrad.{name}: the result has shape"):
        getattr(np, name)(leaf, 0, out=tg.zeros(7))
    narrow = tg.zeros(wanted.shape, dtype=int)
    with pytest.raises(TypeError, match=f"tapegrad.{name}: a result of dtype float64 cannot be"):
        getattr(np, name)(leaf, 0, out=narrow)


def test_out_in_other_dtypes():
    narrow = tg.tensor(np.float32([0.1, 0.2, 0.3]), requires_grad=True)
    out = tg.zeros(())
    np.sum(narrow, out=out)
    assert out.dtype == float and out.item() == np.sum(np.float32([0.1, 0.2, 0.3]), dtype=float)
    flags, places = tg.tensor([False, True]), tg.tensor([7, 7])
    np.any(tg.tensor([[0.0, 0.0], [1.0, 0.0]], requires_grad=True), 0, out=flags)
    np.argmax(tg.tensor([[0.0, 3.0], [1.0, 0.0]], requires_grad=True), 0, out=places)
    assert flags.tolist() == [True, False] and places.tolist() == [1, 0]


def test_extremes_of_nothing_are_initial():
    empty, start = (
        tg.tensor(np.ones((0, 2)), requires_grad=True),
        tg.tensor(3.0, requires_grad=True),
    )
    made = np.max(empty, 0, initial=start)
    assert made.tolist() == [3.0, 3.0]
    assert tg.grad(lambda s: np.sum(np.min(tg.zeros((0, 2)), 0, initial=s)))(2.0) == 2.0
    with pytest.raises(ValueError, match="zero-size array"):
        np.max(empty, 0)
    with pytest.raises(ValueError, match="initial has shape"):
        np.sum(start * np.ones(3), initial=start * np.ones(3))


def test_first_arguments_by_the_name_that_numpy_has():
    x = tg.tensor([[1.0, 2.0], [3.0, 5.0]], requires_grad=True)
    assert np.sum(a=x, axis=1).tolist() == [3.0, 8.0]
    assert np.cumsum(a=x).tolist() == [1.0, 3.0, 6.0, 11.0]
    assert np.sort(a=x, axis=0).tolist() == [[1.0, 2.0], [3.0, 5.0]]
    assert np.argsort(a=x, axis=1).tolist() == [[0, 1], [0, 1]]
    with pytest.raises(TypeError, match="argument 'b'"):
        np.sum(x, b=1)


#: What NumPy and SciPy allow the axes 0 and -1 of, where the operand is a number.
OF_NUMBERS = (
    "sum prod max min amax amin any all ptp count_nonzero argmax argmin argsort "
    "nansum nanprod nanmax nanmin nanmean nanstd nanvar cumsum cumprod nancumsum nancumprod "
    "cumulative_sum cumulative_prod add.reduce multiply.reduce maximum.reduce fmin.reduce "
    "logical_or.reduce subtract.reduce logaddexp.reduce hypot.reduce "
    "special.logsumexp special.softmax special.log_softmax"
).split()
ZERO_SLOPES = "ptp nanstd nanvar special.softmax special.log_softmax".split()
REFUSED_OF_NUMBERS = "mean std var median nanmedian average sort flip quantile".split()


def named(name, package=np):
    for part in name.split("."):
        package = getattr(package, part)
    return package


def number_at(name, **options):
    """A function of a vector that takes a number of it, along an axis."""
    first = (0.3,) if name == "quantile" else ()

    def function(x):
        own = tg.scipy if name.startswith("special") else np
        return named(name, own)(x[0] * x[1], *first, **options)

    return function


@pytest.mark.parametrize("axis", [0, -1])
@pytest.mark.parametrize("name", OF_NUMBERS)
def test_numbers_along_axes(name, axis):
    x = np.array([0.7, 1.4])
    package = scipy if name.startswith("special") else np
    wanted = named(name, package)(x[0] * x[1], axis=axis)
    function = number_at(name, axis=axis)
    for leaf in (tg.tensor(x, requires_grad=True), tg.tensor(x)):
        found = function(leaf)
        assert np.shape(found) == np.shape(wanted)
        np.testing.assert_allclose(np.asarray(tg.tensor(found).detach()), wanted, rtol=1e-15)
    slope = 0.0 if wanted.dtype != float or name in ZERO_SLOPES else 1.0
    f = lambda x: x[0] * 1.5 + np.sum(function(x))
    compiled = tg.compile(f)
    for at in (x, x + 0.5):
        right = [1.5 + slope * at[1], slope * at[0]]
        np.testing.assert_allclose(tg.grad(f)(at), right, rtol=1e-14)
        np.testing.assert_allclose(compiled.value_and_grad(at)[1], right, rtol=1e-14)
        np.testing.assert_allclose(compiled(at), f(at), rtol=1e-14)


@pytest.mark.parametrize("name", [*OF_NUMBERS, *REFUSED_OF_NUMBERS])
def test_numbers_have_no_other_axes(name):
    x = tg.tensor([0.7, 1.4], requires_grad=True)
    for axis in (1, -2, *([0] if name in REFUSED_OF_NUMBERS else [])):
        with pytest.raises(np.exceptions.AxisError):
            number_at(name, axis=axis)(x)
