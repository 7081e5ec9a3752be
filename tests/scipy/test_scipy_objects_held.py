"""Objects that plain SciPy made, held in attributes, containers and defaults, or passed."""

import inspect
import threading
import types

import numpy as np
import pytest
from richardson import differences
from scipy import interpolate, signal, stats
from scipy.spatial import KDTree, cKDTree
from scipy.spatial.transform import Rotation, Slerp

import tapegrad as tg
from tapegrad.scipy._differentiable import is_before

P = np.array([0.31, 0.42, 0.55])
X = np.linspace(0.0, 1.0, 8)
_rng = np.random.default_rng(5)
PLACES, GRID = _rng.random((12, 2)), _rng.random((8, 8))
TURNS = [[0.1, 0.2, 0.3], [0.3, 0.1, 1.0], [0.2, 0.5, 0.1]]

#: By a name: what makes the object, and what is computed with it.
CASES = {
    "cubic": (
        lambda: interpolate.CubicSpline(X, np.sin(X)),
        lambda o, p: o(p[0]) + o.derivative()(p[1]) + o.integrate(0.0, p[2]),
    ),
    "pchip": (lambda: interpolate.PchipInterpolator(X, np.sin(X)), lambda o, p: o(p).sum()),
    "polynomials": (lambda: interpolate.PPoly(np.ones((3, 7)), X), lambda o, p: o(p).sum()),
    "splines": (
        lambda: interpolate.make_interp_spline(X, np.sin(X)),
        lambda o, p: o(p[0]) * o.antiderivative()(p[1]),
    ),
    "lines": (lambda: interpolate.interp1d(X, np.cos(X)), lambda o, p: o(p).sum()),
    "steps": (
        lambda: interpolate.interp1d(X, np.cos(X), kind="nearest"),
        lambda o, p: (o(p) * p).sum(),
    ),
    "interpolated": (
        lambda: interpolate.interp1d(X, np.cos(X), kind="cubic"),
        lambda o, p: o(p).sum(),
    ),
    "grid": (
        lambda: interpolate.RegularGridInterpolator((X, X), GRID),
        lambda o, p: o(p[:2])[0],
    ),
    "univariate": (
        lambda: interpolate.UnivariateSpline(X, np.sin(X), s=0),
        lambda o, p: o(p).sum(),
    ),
    "bivariate": (
        lambda: interpolate.RectBivariateSpline(X, X, GRID),
        lambda o, p: o.ev(p[0], p[1]),
    ),
    "radial": (
        lambda: interpolate.RBFInterpolator(PLACES, PLACES[:, 0] ** 2),
        lambda o, p: o(p[None, :2])[0],
    ),
    "barycentric": (
        lambda: interpolate.BarycentricInterpolator(X, np.sin(X)),
        lambda o, p: o(p).sum(),
    ),
    "frozen": (lambda: stats.norm(0.3, 2.0), lambda o, p: o.logpdf(p).sum() + o.ppf(p[0])),
    "named": (lambda: stats.norm(loc=0.3, scale=2.0), lambda o, p: o.logpdf(p).sum()),
    "discrete": (lambda: stats.poisson, lambda o, p: o.logpmf(2, p[0]) + o(p[1]).logpmf(3)),
    "distribution": (lambda: stats.gamma, lambda o, p: o(p[0]).cdf(p[1]) + o(2.0).cdf(p[2])),
    "normal": (
        lambda: stats.multivariate_normal([0.0, 1.0], np.eye(2)),
        lambda o, p: o.logpdf(p[:2]),
    ),
    "dirichlet": (lambda: stats.dirichlet, lambda o, p: o.logpdf(np.array([0.2, 0.3, 0.5]), p)),
    "kde": (
        lambda: stats.gaussian_kde(np.arange(5.0) ** 0.5),
        lambda o, p: o(p).sum() + o.integrate_box_1d(p[0], 1.0),
    ),
    "new": (
        lambda: stats.Normal(mu=0.2, sigma=1.5),
        lambda o, p: o.ccdf(p[0]) + o.icdf(p[1]) + o.cdf(p[0], p[2]),
    ),
    "tree": (lambda: KDTree(PLACES), lambda o, p: o.query(p[:2], k=3)[0].sum()),
    "system": (
        lambda: signal.TransferFunction([1.0], [1.0, 2.0]),
        lambda o, p: np.abs(o.freqresp(p)[1]).sum() + np.abs(o.to_zpk().freqresp(p)[1]).sum(),
    ),
    "slices": (
        lambda: signal.ShortTimeFFT(np.array([0.5, 1.0]), 1, 2.0),
        lambda o, p: o.spectrogram(p).sum(),
    ),
    "rotation": (
        lambda: Rotation.from_rotvec(TURNS[0]),
        lambda o, p: o.apply(p)[0] + (o ** p[1]).as_rotvec()[2],
    ),
    "slerp": (
        lambda: Slerp([0.0, 1.0, 2.0], Rotation.from_rotvec(TURNS)),
        lambda o, p: o(p[0]).as_rotvec().sum(),
    ),
}
#: Those whose classes are compiled in older versions of SciPy, so that nothing stands for methods.
COMPILED = ("rotation", "slerp") if is_before("1.17.0") else ()


def _attribute(use, made):
    held = types.SimpleNamespace(object=made)
    return lambda p: use(held.object, p), lambda other: setattr(held, "object", other)


def _item(use, made):
    held = [made]
    return lambda p: use(held[0], p), lambda other: held.__setitem__(0, other)


def _inner_item(use, made):
    held = {"one": {"another": (made,)}}
    return (
        lambda p: use(held["one"]["another"][0], p),
        lambda other: held["one"].update(another=(other,)),
    )


def _default(use, made):
    def f(p, held=made):
        return use(held, p)

    return f, lambda other: setattr(f, "__defaults__", (other,))


HOLDERS = {"attribute": _attribute, "item": _item, "inner": _inner_item, "default": _default}
TRANSFORMS = [tg.value_and_grad, lambda f: tg.compile(tg.value_and_grad(f))]


def _check(transformed, f):
    for _ in range(2):
        value, gradient = transformed(P)
        assert value == pytest.approx(float(f(P)), rel=1e-13)
        assert gradient == pytest.approx(differences(f, P, 1e-3), rel=1e-7, abs=1e-7)


def _arrays(made):
    """The public arrays of floats of an object that can be written to."""
    for name in dir(made):
        value = getattr(made, name, None) if name[0] != "_" else None
        if isinstance(value, np.ndarray) and value.dtype == float and value.flags.writeable:
            yield name, value


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("holder", HOLDERS)
@pytest.mark.parametrize("name", [name for name in CASES if name not in COMPILED])
def test_an_object_that_is_held(name, holder, transform):
    make, use = CASES[name]
    f, put = HOLDERS[holder](use, make())
    transformed = transform(f)
    _check(transformed, f)
    other = make()
    for _, values in _arrays(other):
        values *= 1.0 + 1e-3
    put(other)
    _check(transformed, f)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", [name for name in CASES if name not in COMPILED])
def test_an_object_that_changes(name, transform):
    """Its arrays are written to, and replaced where SciPy's object then computes with others."""
    make, use = CASES[name]
    made = make()
    f, _ = _attribute(use, made)
    transformed = transform(f)
    _check(transformed, f)
    for attribute, values in [*_arrays(made)]:
        values *= 1.0 + 1e-3
        _check(transformed, f)
        try:
            setattr(made, attribute, values * (1.0 + 1e-3))
        except AttributeError:
            continue
        _check(transformed, f)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_parameters_that_change(transform):
    held = [stats.norm(0.3, 2.0), stats.norm(loc=0.3, scale=2.0)]

    def f(p):
        return sum(one.logpdf(p).sum() for one in held)

    transformed = transform(f)
    _check(transformed, f)
    held[0].args = (1.0, 3.0)
    _check(transformed, f)
    held[1].kwds["loc"] = 1.0
    _check(transformed, f)
    held[1].kwds = {"scale": 0.5}
    _check(transformed, f)


class Model:
    def __init__(self):
        self.spline, self.maybe = interpolate.CubicSpline(X, np.sin(X)), None
        self.table = {"a": stats.norm(0.2, 1.0), "b": stats.t(3.0)}

    def steps(self, p):
        q = p[0]
        for k in range(3):
            q = self.spline(q) if q > 0.25 else q * p[k]
        return q

    def passed(self, p):
        return _called(self.spline, p[0]) + sum(map(self.spline, p))

    def named(self, p):
        return sum(getattr(one, "logpdf")(v) for one in self.table.values() for v in p)

    def optional(self, p):
        return p[0] ** 2 if self.maybe is None else self.maybe(p[0])


def _called(f, x):
    return f(x)


@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("name", ["steps", "passed", "named"])
def test_a_method_whose_object_holds_some(name, transform):
    method = getattr(Model(), name)

    def f(p):
        return method(p)

    _check(transform(f), f)
    slopes = differences(lambda p: tg.grad(f)(p).sum(), P, 1e-3)
    assert tg.hessian(f)(P).sum(axis=0) == pytest.approx(slopes, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_an_attribute_that_is_none_before(transform):
    model = Model()
    transformed = transform(lambda p: model.optional(p))
    for one in (None, model.spline, None, stats.gaussian_kde([0.1, 0.2, 0.7]).evaluate):
        model.maybe = one if one is None or one is model.spline else lambda x, f=one: f(x)[0]
        _check(transformed, model.optional)


@pytest.mark.parametrize("transform", [tg.grad, lambda f: tg.compile(tg.grad(f))])
def test_an_object_that_is_passed(transform):
    transformed = transform(lambda p, spline: spline(p).sum())
    for values in (np.sin(X), np.cos(X)):
        spline = interpolate.CubicSpline(X, values)
        assert transformed(P, spline) == pytest.approx(spline(P, 1), rel=1e-13)


def test_scipys_methods_are_scipys_meanwhile():
    """Another thread computes plain values, while a function is entered."""
    model, kinds, is_done = Model(), set(), threading.Event()

    def other():
        while not is_done.is_set():
            kinds.add(type(model.spline(0.3)))
            kinds.add(type(model.table["a"].pdf(0.3)))

    code = interpolate.PPoly.__call__.__code__
    parameters = inspect.signature(interpolate.PPoly.__call__)
    seen = []

    def f(p):
        seen.append(interpolate.PPoly.__call__.__code__ is code)
        seen.append(inspect.signature(interpolate.PPoly.__call__) == parameters)
        return model.passed(p)

    thread = threading.Thread(target=other)
    thread.start()
    for _ in range(50):
        tg.grad(f)(P)
    is_done.set()
    thread.join()
    assert all(seen)
    assert kinds <= {np.ndarray, np.float64}
    with pytest.raises(TypeError, match="takes plain values"):
        model.spline(tg.tensor(0.3, requires_grad=True))


def test_methods_take_arguments_as_scipys_do():
    held = [interpolate.CubicSpline(X, np.sin(X)), stats.gamma]

    def f(p):
        first = held[0](p, 1, extrapolate=False).sum() + held[0](x=p[0], nu=0)
        return first + held[1].pdf(p[0], a=2.0, scale=p[1]) + held[1].sf(p[0], p[1], 0.0, p[2])

    _check(tg.value_and_grad(f), f)


@pytest.mark.parametrize("transform", TRANSFORMS)
def test_bound_methods(transform):
    held = [stats.gamma.logpdf, stats.norm(0.3, 2.0).cdf, interpolate.make_interp_spline(X, X**2)]

    def f(p):
        first, second, third = held
        return first(p[0], p[1]) + second(p[2]) + third.__call__(p[0])

    transformed = transform(f)
    _check(transformed, f)
    held[1] = stats.norm(1.0, 3.0).sf
    _check(transformed, f)


class Derived(interpolate.CubicSpline):
    pass


@pytest.mark.parametrize(
    "made",
    [Derived(X, np.sin(X)), interpolate.LinearNDInterpolator(PLACES, PLACES[:, 0])],
)
def test_others_refuse(made):
    """A class that users derive, and compiled classes."""
    held = [made]
    with pytest.raises(TypeError, match="derivative"):
        tg.grad(lambda p: held[0](p[:2]).sum())(P)


def test_compiled_methods_refuse():
    held = [cKDTree(PLACES), Rotation.from_rotvec(TURNS[0])]
    with pytest.raises(TypeError, match="derivative"):
        tg.grad(lambda p: held[0].query(p[:2])[0])(P)
    if COMPILED:
        with pytest.raises(TypeError, match="derivative"):
            tg.grad(lambda p: held[1].apply(p).sum())(P)
