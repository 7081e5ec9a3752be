"""Containers of users: pandas, xarray, polars; dataclasses and attrs classes; arguments by name."""

import collections
import dataclasses
import functools
import warnings

import numpy as np
import pytest

import tapegrad as tg

X = np.array([0.5, 2.0, -1.5])
DATA = np.array([1.0, 2.0, 4.0])
FORMS = {
    "minus": lambda x, d: np.sum((x - d) ** 2),
    "times a number": lambda x, d: np.sum(x[0] * d + float(d.sum()) * x[1]),
    "divided": lambda x, d: np.sum(x / d),
    "power": lambda x, d: np.sum(abs(x) ** d),
    "in a function": lambda x, d: np.sum(np.logaddexp(x, d)),
    "dot": lambda x, d: np.dot(d, x) ** 2,
    "matmul": lambda x, d: x @ d,
    "where": lambda x, d: np.sum(np.where(x > d, x**2, x)),
    "concatenate": lambda x, d: np.sum(np.concatenate([x, np.asarray(d)]) ** 2),
    "lists": lambda x, d: np.sum(np.stack([x, x * 2.0]) * d),
    "its array": lambda x, d: np.sum(np.asarray(d) * x**2),
    "written": lambda x, d: np.sum(written(x, d) ** 2),
}
FIRST = {
    "minus, first": lambda x, d: np.sum((d - x) ** 2),
    "times a number, first": lambda x, d: np.sum(d * x[0]),
    "divided, first": lambda x, d: np.sum(d / x),
    "power, first": lambda x, d: np.sum(d**x),
    "compared, first": lambda x, d: np.sum(np.where(d < x, x**2, x)),
    "ufunc, first": lambda x, d: np.sum(np.multiply(d, x) ** 2),
    "methods": lambda x, d: ((d - x[0]) ** 2).mean() + (d * x).sum(),
}


def written(x, d):
    made = x * 1.0
    made[1:] *= d[1:]
    return made


def container(library):
    module = pytest.importorskip(library)
    return {
        "pandas": lambda: module.Series(DATA, index=list("abc")),
        "xarray": lambda: module.DataArray(DATA, dims="k"),
        "polars": lambda: module.Series("d", DATA),
    }[library]()


@pytest.mark.parametrize("library", ["pandas", "xarray", "polars"])
@pytest.mark.parametrize("form", [*FORMS, *FIRST])
def test_containers_as_data(library, form):
    f, d = {**FORMS, **FIRST}[form], container(library)
    if library != "pandas" and form in FIRST:
        try:  # xarray and polars do not leave the operation to the other operand
            found = tg.grad(f)(X, d)
        except (TypeError, ValueError) as error:
            assert library == "polars" or "tapegrad" in str(error) or "Tensor" in str(error)
            return
    else:
        found = tg.grad(f)(X, d)
    np.testing.assert_allclose(found, tg.grad(f)(X, DATA), rtol=1e-14)
    c = tg.compile(lambda x: f(x, d))
    for x in (X, X, -X, X[::-1].copy()):
        np.testing.assert_allclose(c.grad(x), tg.grad(f)(x, DATA), rtol=1e-12)


def test_frames_as_data():
    pd = pytest.importorskip("pandas")
    df = pd.DataFrame({"a": DATA, "b": DATA[::-1]})
    for f in (
        lambda x, df: np.sum(x @ df),
        lambda x, df: np.sum(df["a"] * x[0] + df["b"] * x[1] ** 2),
        lambda x, df: np.mean((df["a"] - x[0] - x[1] * df["b"]) ** 2),
        lambda x, df: np.sum((df - x[:2]) ** 2),
        lambda x, df: np.sum(df.to_numpy().T @ x),
        lambda x, df: np.sum(df["a"].values * x),
    ):
        found = tg.grad(f)(X, df)
        step = 1e-6 * np.eye(3)
        wanted = [(f(X + h, df) - f(X - h, df)) / 2e-6 for h in step]
        np.testing.assert_allclose(found, np.asarray(wanted, float), rtol=1e-6, atol=1e-6)
    for f in (
        lambda x: np.sum(df.T @ x),
        lambda x: np.sum(df.T.dot(x)),
        lambda x: df["a"] @ x,
    ):
        for call in (tg.grad(f), tg.compile(f).grad, tg.compile(f, verify="never").grad):
            text = r"tapegrad.*test_containers.py.*df.to_numpy\(\) @ t"
            with pytest.raises(tg.DerivativeLost, match=text):
                call(X)
    with pytest.raises(tg.DerivativeLost, match="written to a plain.*test_containers.py"):
        tg.grad(lambda x: df["a"].__setitem__(0, x[0]) or x[0])(X)
    c = tg.compile(lambda x: np.sum((x @ df) ** 2))
    for x in (X, X, -2.0 * X):
        wanted = 2.0 * df.to_numpy() @ (x @ df.to_numpy())
        np.testing.assert_allclose(c.grad(x), wanted, rtol=1e-14)
        np.testing.assert_allclose(tg.grad(lambda x: np.sum((x @ df) ** 2))(x), wanted, rtol=1e-14)


@pytest.mark.filterwarnings("ignore:tapegrad.compile:RuntimeWarning")
@pytest.mark.parametrize("library", ["xarray", "polars"])
def test_a_container_before_a_tensor_is_refused_and_its_array_works(library):
    """polars at times with words of its own, where it asks the tensor for nothing."""
    d = container(library)
    array = d.values if library == "xarray" else d.to_numpy()
    for f in (lambda x: np.sum((d * x) ** 2), lambda x: np.sum((d + x[0]) ** 2)):
        for call in (tg.grad(f), tg.compile(f).grad):
            with pytest.raises(TypeError, match="tapegrad.*values|polars takes plain|tapegrad.Te"):
                call(X)
    assert np.array_equal(tg.grad(lambda x: np.sum(array * x))(X), DATA)
    assert np.array_equal(tg.grad(lambda x: x @ d)(X), DATA)
    if library == "xarray":  # its arrays hold tensors, and reduce them
        f = lambda x: np.sum((d * x) ** 2).data
        for call in (tg.grad(f), tg.compile(f).grad):
            assert np.array_equal(call(X), 2.0 * DATA**2 * X)


def test_an_item_that_xarray_takes_is_no_items_of_the_user():
    xr = pytest.importorskip("xarray")
    data = xr.DataArray(DATA, dims="k")
    with pytest.raises(tg.DerivativeLost, match=r"item\(\), called by .*; xarray takes plain"):
        tg.grad(lambda x: xr.where(data > 1.5, x, 0.0).sum().item())(X)
    kept = tg.grad(lambda x: xr.where(data > 1.5, x, 0.0).sum().data)(X)
    assert kept.tolist() == [0.0, 1.0, 1.0]


@pytest.mark.parametrize("library", ["pandas", "xarray", "polars"])
def test_containers_as_parameters(library):
    d = container(library)
    f = lambda x: np.sum(x**3)
    assert tg.grad(f)(d).tolist() == tg.grad(f)(DATA).tolist()
    assert tg.hessian(f)(d).tolist() == tg.hessian(f)(DATA).tolist()
    c = tg.compile(f)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for k in range(3):
            assert c.grad(d * (k + 1.0)).tolist() == tg.grad(f)(DATA * (k + 1)).tolist()
    with pytest.warns(RuntimeWarning, match="an argument is of type .*; pass its array"):
        tg.compile(lambda x, d: np.sum(x * np.asarray(d)))(X, d)


def test_containers_without_numbers_are_refused():
    pd = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="tapegrad"):
        tg.grad(lambda x: np.sum(x * pd.Series(["a", "b", "c"])))(X)


@pytest.mark.parametrize(
    "f",
    [
        lambda x, m: np.sum(x * m),
        lambda x, m: np.sum(m * x),
        lambda x, m: np.sum(np.multiply(m, x)),
        lambda x, m: np.sum(np.stack([x, m])),
    ],
)
def test_masked_arrays_are_refused_by_name(f):
    masked = np.ma.array(DATA, mask=[0, 1, 0])
    with pytest.raises(TypeError, match="tapegrad.*mask would be ignored"):
        tg.grad(f)(X, masked)
    with pytest.raises(TypeError, match="numpy.ma.MaskedArray.*its mask would be ignored"):
        tg.grad(lambda m: np.sum(m))(masked)


# --- instances ------------------------------------------------------------------------------------

Pair = collections.namedtuple("Pair", "scale shift")


@dataclasses.dataclass
class Plain:
    scale: float
    shift: object
    name: str = "a"
    flag: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    scale: float
    shift: object

    def __post_init__(self):
        if not self.scale > 0.0:
            raise ValueError("scale")


def attrs_classes():
    attrs = pytest.importorskip("attrs")
    made = [attrs.make_class("A", ["scale", "shift"])]
    made += [attrs.make_class("B", ["scale", "shift"], frozen=True, slots=True)]
    return made


def loss(p, data):
    return p.scale**2 * np.sum((data - p.shift) ** 2)


@pytest.mark.parametrize("kind", [Pair, Plain, Frozen, "attrs"])
def test_instances_are_structures(kind):
    for cls in attrs_classes() if kind == "attrs" else [kind]:
        p = cls(1.5, X.copy())
        gradient = tg.grad(loss)(p, DATA)
        assert type(gradient) is cls
        wanted = tg.grad(lambda a, b: a**2 * np.sum((DATA - b) ** 2), (0, 1))(1.5, X)
        assert gradient.scale == wanted[0] and np.array_equal(gradient.shift, wanted[1])
        nested = tg.grad(lambda t: loss(t[0]["p"], DATA))([{"p": p}])
        assert type(nested[0]["p"]) is cls and nested[0]["p"].scale == wanted[0]
        c = tg.compile(loss)
        for k in (1.0, 1.0, 2.0, -3.0):
            q = cls(abs(k) * 1.5, k * X)
            value, found = c.value_and_grad(q, DATA)
            assert value == pytest.approx(loss(q, DATA)) and type(found) is cls
            eager = tg.grad(loss)(q, DATA)
            assert found.scale == pytest.approx(eager.scale)
            np.testing.assert_allclose(found.shift, eager.shift)
        blocks = tg.hessian(loss)(p, DATA)
        assert type(blocks) is type(blocks.shift) is cls and blocks.shift.shift.shape == (3, 3)
        assert tg.jvp(loss, (p, DATA), (p, 0.0 * DATA))[1] == pytest.approx(
            1.5 * wanted[0] + np.sum(X * wanted[1])
        )


def test_fields_that_are_no_numbers_stay():
    p = Plain(2.0, X, "name", False)
    gradient = tg.grad(lambda p: p.scale * (3.0 if p.name == "name" and not p.flag else 0.0))(p)
    assert (gradient.scale, gradient.name, gradient.flag) == (3.0, "name", False)
    assert gradient.shift.tolist() == [0.0, 0.0, 0.0]
    c = tg.compile(lambda p: p.scale * (3.0 if p.name == "a" else 5.0))
    for name in ("a", "b", "a", "b"):
        assert c.grad(Plain(2.0, 1.0, name)).scale == (3.0 if name == "a" else 5.0)
    assert type(c(Plain(2.0, 1.0))) is float


def test_results_in_instances():
    f = lambda x: Plain(np.sum(x), x**2)
    found = tg.jacobian(f)(X)
    assert type(found) is Plain and np.array_equal(found.shift, np.diag(2 * X))
    c = tg.compile(f)
    for x in (X, X, 2 * X):
        assert c(x).scale == np.sum(x) and np.array_equal(c(x).shift, x**2)
    batch = tg.vmap(lambda p: p.scale * p.shift)(Plain(np.arange(9.0), np.arange(9.0)))
    assert np.array_equal(batch, np.arange(9.0) ** 2)


def test_computed_fields_are_refused_and_cached_values_are_gone():
    @dataclasses.dataclass
    class Computed:
        a: float
        b: float = dataclasses.field(init=False)

        def __post_init__(self):
            self.b = 2.0 * self.a

    @dataclasses.dataclass
    class Cached:
        a: float

        @functools.cached_property
        def double(self):
            return 2.0 * self.a

        @property
        def triple(self):
            return 3.0 * self.a

    for transform in (tg.grad, lambda f: tg.compile(f).grad):
        with pytest.raises(TypeError, match="the field 'b' of Computed has init=False"):
            transform(lambda p: p.b)(Computed(1.0))
        with pytest.raises(TypeError, match="the field 'b' of Computed has init=False"):
            transform(lambda p: p[0].b)((Computed(1.0),))
        p = Cached(1.5)
        assert p.double == 3.0
        assert transform(lambda p: p.double * p.triple)(p).a == 18.0


def test_integer_starts():
    assert tg.grad(lambda x: x**2)(3) == 6.0
    assert tg.grad(lambda x: np.sum(x**0.5))(np.array([1, 4])).tolist() == [0.5, 0.25]
    assert tg.grad(lambda x: np.sum(x[0] / x[1]))([1, 2]) == [0.5, -0.25]
    c = tg.compile(lambda x: np.sum(x**2 / 3))
    for x in (np.array([1, 2]), np.array([3, 5])):
        np.testing.assert_allclose(c.grad(x), 2 * x / 3)


# --- arguments by name ----------------------------------------------------------------------------


def model(x, y=2.0, *rest, rate, data=DATA):
    return x**2 * y * rate**3 + np.sum(data) * rate * x


def test_arguments_by_name():
    f, wanted = model, tg.grad(lambda x, y, r, d: model(x, y, rate=r, data=d), (0, 1, 2, 3))
    gx, gy, gr, gd = wanted(1.5, 2.0, 0.5, DATA)
    assert tg.grad(f, argnames="rate")(1.5, rate=0.5) == gr
    assert tg.grad(f, argnames=["rate"])(1.5, rate=0.5) == (gr,)
    found = tg.grad(f, argnames=("data", "x", "rate"))(1.5, rate=0.5, data=DATA)
    assert np.array_equal(found[0], gd) and found[1:] == (gx, gr)
    assert tg.grad(f, argnames=("y", "x"))(1.5, 2.0, rate=0.5) == (gy, gx)
    assert tg.grad(f, argnames="x")(x=1.5, rate=0.5) == gx
    value, gradient = tg.value_and_grad(f, argnames="y")(1.5, y=2.0, rate=0.5)
    assert (value, gradient) == (f(1.5, rate=0.5), gy)
    assert tg.hessian(f, argnames="x")(1.5, rate=0.5) == 2.0 * 2.0 * 0.125
    assert tg.hessian(f, argnames=("x", "rate"))(1.5, rate=0.5)[0][1] == pytest.approx(
        2 * 1.5 * 2.0 * 3 * 0.25 + 7.0
    )
    assert tg.jacobian(f, argnames="data")(1.5, rate=0.5, data=DATA).tolist() == gd.tolist()
    each = tg.elementwise_grad(lambda x, k: x * k, argnames="k")(X, k=DATA)
    assert np.array_equal(each, X)
    nested = tg.grad(lambda r: tg.grad(f, argnames="x")(1.5, rate=r))(0.5)
    assert nested == pytest.approx(2 * 1.5 * 2.0 * 3 * 0.25 + 7.0)


def test_a_keyword_that_is_not_named_is_not_differentiated():
    seen = []

    def f(x, *, k):
        seen.append(type(k))
        return x * k

    assert tg.grad(f)(2.0, k=3.0) == 3.0 and seen == [float]


def test_wrong_names_are_refused():
    with pytest.raises(TypeError, match="argnames has 'z', which is not an argument of this call"):
        tg.grad(model, argnames="z")(1.0, rate=0.5)
    with pytest.raises(TypeError, match="argnames has 'data', which is not an argument"):
        tg.grad(model, argnames="data")(1.0, rate=0.5)
    with pytest.raises(ValueError, match="argnums and argnames are both given"):
        tg.grad(model, 1, argnames="x")
    with pytest.raises(TypeError, match=r"argnames is \(3,\)"):
        tg.compile(model, argnames=(3,))


def test_compiled_arguments_by_name():
    for names in ("rate", ("x", "rate"), ("data",)):
        c = tg.compile(model, argnames=names)
        for k in range(4):
            args, kwargs = (1.5 + k,), dict(rate=0.5 - k, data=DATA * (1 + k))
            assert c(*args, **kwargs) == pytest.approx(model(*args, **kwargs))
            same(c.grad(*args, **kwargs), tg.grad(model, argnames=names)(*args, **kwargs))
            found = c.value_and_grad(*args, **kwargs)
            same(found[1], tg.grad(model, argnames=names)(*args, **kwargs))
            same(c.hessian(*args, **kwargs), tg.hessian(model, argnames=names)(*args, **kwargs))
            same(c.jacobian(*args, **kwargs), tg.jacobian(model, argnames=names)(*args, **kwargs))
        assert c.__name__ == "model" and "1 program" in c.explain()
        with pytest.raises(AttributeError, match="numba takes arguments by position"):
            c.numba
    decorated = tg.compile(argnames="k")(lambda x, k: x * k)
    assert decorated.grad(2.0, k=3.0) == decorated.grad(2.0, 3.0) == 2.0
    gradient = tg.compile(tg.grad(lambda x, k: x * k), argnames="k")
    assert gradient(2.0, k=3.0) == 2.0


def same(found, wanted):
    if isinstance(wanted, tuple):
        assert type(found) is tuple
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    else:
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
