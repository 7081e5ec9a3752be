"""SciPy's `ndimage` for recorded images: beside SciPy and differences of its values."""

import inspect

import numpy as np
import pytest
import scipy
import scipy.ndimage as theirs
from extent import some
from numpy.testing import assert_allclose

import tapegrad as tg
from tapegrad.scipy import ndimage as ours

RNG = np.random.default_rng(3)
X = RNG.uniform(0.5, 2.0, (5, 6))
MODES = ["reflect", "constant", "nearest", "mirror", "wrap", "grid-mirror", "grid-constant"]
MODES += ["grid-wrap"]
W = np.array([0.5, -1.0, 2.0, 0.25])
W2 = RNG.uniform(-1.0, 1.0, (3, 2))
CROSS = np.array([[0, 1, 0], [1, 0, 1]], bool)
LABELS = RNG.integers(0, 4, (5, 6))
#: Another image: other elements are chosen of it.
OTHER = RNG.uniform(0.5, 2.0, (5, 6))
#: Points within and beyond the image, none where a spline of order 1 has a corner.
POINTS = RNG.integers(-8, 14, (2, 8)) + RNG.uniform(0.1, 0.4, (2, 8))
HOMOGENEOUS = np.array([[0.9, 0.1, 1.0], [0.0, 1.1, -0.3], [0.0, 0.0, 1.0]])
PLAIN = {"mode": "nearest", "cval": 0.0}


def _along(s):
    """A derivative along an axis, for functions that take one."""

    def along(x, axis, output, mode, cval, scale):
        return s.correlate1d(x, scale * np.array([0.5, 0.2, -1.0]), axis, output, mode, cval)

    return along


#: By name: functions of SciPy's module, an image, and the mode and the value beyond the ends.
FILTERS = {
    "correlate1d": [
        lambda s, x, k: s.correlate1d(x, W, 0, origin=1, **k),
        lambda s, x, k: s.correlate1d(X, x[0, :3] ** 2, origin=-1, **k),
    ],
    "convolve1d": [
        lambda s, x, k: s.convolve1d(x, W, **k),
        lambda s, x, k: s.convolve1d(X, x[:, 0], 0, origin=1, **k),
    ],
    "correlate": [
        lambda s, x, k: s.correlate(x, W2, origin=(1, 0), **k),
        lambda s, x, k: s.correlate(X, x[:4, :3], origin=(0, -1), **k),
        lambda s, x, k: s.correlate(x, x[0, :3], axes=1, **k),
    ],
    "convolve": [
        lambda s, x, k: s.convolve(x, W2, origin=(-1, 0), **k),
        lambda s, x, k: s.convolve(x, x[:4, :4], **k),
    ],
    "uniform_filter1d": [lambda s, x, k: s.uniform_filter1d(x, 3, 0, origin=1, **k)],
    "uniform_filter": [
        lambda s, x, k: s.uniform_filter(x, (4, 2), origin=(0, -1), **k),
        lambda s, x, k: s.uniform_filter(x, 3, axes=(0,), **k),
        lambda s, x, k: s.uniform_filter(x, 1, **k),
    ],
    "gaussian_filter1d": [
        lambda s, x, k: s.gaussian_filter1d(x, 0.7, 0, **k),
        lambda s, x, k: s.gaussian_filter1d(x, 1.2, order=1, radius=2, **k),
    ],
    "gaussian_filter": [
        lambda s, x, k: s.gaussian_filter(x, 0.8, **k),
        lambda s, x, k: s.gaussian_filter(x, (0.0, 1.3), (0, 3), truncate=2.0, **k),
        lambda s, x, k: s.gaussian_filter(x, 0.8, axes=1, radius=3, **k),
    ],
    "gaussian_laplace": [
        lambda s, x, k: s.gaussian_laplace(x, 0.8, **k),
        lambda s, x, k: s.gaussian_laplace(x, (0.8, 1.1), truncate=2.0, **k),
        lambda s, x, k: s.gaussian_laplace(x, [0.9], axes=(1,), **k),
    ],
    "gaussian_gradient_magnitude": [
        lambda s, x, k: s.gaussian_gradient_magnitude(x, (0.8, 1.1), **k)
    ],
    "sobel": [lambda s, x, k: s.sobel(x, **k)],
    "prewitt": [lambda s, x, k: s.prewitt(x, 0, **k)],
    "laplace": [lambda s, x, k: s.laplace(x, **k), lambda s, x, k: s.laplace(x, axes=(1,), **k)],
    "generic_laplace": [
        lambda s, x, k: s.generic_laplace(x, _along(s), extra_arguments=(2.0,), **k)
    ],
    "generic_gradient_magnitude": [
        lambda s, x, k: s.generic_gradient_magnitude(
            x, _along(s), extra_keywords={"scale": x[0, 0] if s is ours else float(x[0, 0])}, **k
        )
    ],
    "minimum_filter1d": [lambda s, x, k: s.minimum_filter1d(x, 3, 0, origin=1, **k)],
    "maximum_filter1d": [lambda s, x, k: s.maximum_filter1d(x, 4, **k)],
    "minimum_filter": [lambda s, x, k: s.minimum_filter(x, (2, 3), origin=(0, -1), **k)],
    "maximum_filter": [
        lambda s, x, k: s.maximum_filter(x, 3, **k),
        lambda s, x, k: s.maximum_filter(x, footprint=CROSS, **k),
    ],
    "median_filter": [
        lambda s, x, k: s.median_filter(x, 3, **k),
        lambda s, x, k: s.median_filter(x.ravel(), 5, **k),
        lambda s, x, k: s.median_filter(x, footprint=CROSS, origin=(0, 1), **k),
    ],
    "rank_filter": [lambda s, x, k: s.rank_filter(x, -2, (3, 2), **k)],
    "percentile_filter": [lambda s, x, k: s.percentile_filter(x, 30, 3, **k)],
    "grey_erosion": [
        lambda s, x, k: s.grey_erosion(x, (3, 2), **k),
        lambda s, x, k: s.grey_erosion(x, structure=W2, origin=(1, 0), **k),
        lambda s, x, k: s.grey_erosion(X, structure=x[:2, :3] ** 2, **k),
    ],
    "grey_dilation": [
        lambda s, x, k: s.grey_dilation(x, (3, 2), **k),
        lambda s, x, k: s.grey_dilation(x, footprint=CROSS, **k),
        lambda s, x, k: s.grey_dilation(x, structure=W2, origin=(1, 0), **k),
        lambda s, x, k: s.grey_dilation(x, None, CROSS, x[:2, :3] ** 2, **k),
    ],
    "grey_opening": [lambda s, x, k: s.grey_opening(x, 3, **k)],
    "grey_opening and closing": [
        lambda s, x, k: (
            s.grey_opening(x, structure=W2, **k) - s.grey_closing(x, None, None, W2, **k)
        )
    ],
    "grey_closing": [lambda s, x, k: s.grey_closing(x, 2, **k)],
    "morphological_gradient": [lambda s, x, k: s.morphological_gradient(x, 3, **k)],
    "morphological_laplace": [lambda s, x, k: s.morphological_laplace(x, 3, **k)],
    "white_tophat": [lambda s, x, k: s.white_tophat(x, footprint=CROSS, **k)],
    "black_tophat": [lambda s, x, k: s.black_tophat(x, 3, **k)],
    "spline_filter1d": [
        lambda s, x, k, n=n: s.spline_filter1d(x, n, n % 2, mode=k["mode"]) for n in range(6)
    ],
    "spline_filter": [lambda s, x, k: s.spline_filter(x, 4, mode=k["mode"])],
    "map_coordinates": [
        lambda s, x, k, n=n: s.map_coordinates(x, POINTS, order=n, **k) for n in range(6)
    ],
    "zoom": [
        lambda s, x, k: s.zoom(x, (1.7, 0.6), **k),
        lambda s, x, k: s.zoom(x, 2, order=1, grid_mode=k["mode"] not in ("constant", "wrap"), **k),
        lambda s, x, k: s.zoom(x, 1, **k),
    ],
    "shift": [
        lambda s, x, k: s.shift(x, (0.7, -2.2), **k),
        lambda s, x, k: s.shift(x, 1.0, order=2, prefilter=False, **k),
    ],
    "rotate": [
        lambda s, x, k: s.rotate(x, 20.0, **k),
        lambda s, x, k: s.rotate(x.reshape(5, 3, 2), 70.0, (2, 0), False, order=1, **k),
    ],
    "affine_transform": [
        lambda s, x, k: s.affine_transform(x, [[0.9, 0.3], [-0.2, 1.2]], 0.3, (4, 3), **k),
        lambda s, x, k: s.affine_transform(x, [0.8, 1.1], (0.3, -0.4), order=2, **k),
        lambda s, x, k: s.affine_transform(x, HOMOGENEOUS, order=5, **k),
    ],
}
#: Those of an image of float64.
MIXED = {("correlate1d", 1), ("convolve1d", 1), ("correlate", 1), ("grey_erosion", 2)}
MIXED |= {("generic_gradient_magnitude", 0)}
CASES = [(name, k) for name, every in FILTERS.items() for k in range(len(every))]
#: By name: functions of SciPy's module and numbers, and these: other arguments than the image.
NUMBERS = {
    "correlate1d": (lambda s, c: s.correlate1d(X, W, mode="constant", cval=c[0]), [0.3]),
    "uniform_filter": (lambda s, c: s.uniform_filter(X, 3, mode="constant", cval=c[0]), [0.3]),
    "median_filter": (lambda s, c: s.median_filter(X, 3, mode="constant", cval=c[0]), [1.2]),
    **{
        f"map_coordinates {mode}, {order}": (
            lambda s, c, mode=mode, order=order: s.map_coordinates(
                X, c, order=order, mode=mode, cval=0.2
            ),
            POINTS,
        )
        for mode, order in [
            *((mode, 3) for mode in MODES),
            *(("mirror", 0), ("mirror", 1), ("wrap", 1), ("reflect", 2), ("nearest", 4)),
        ]
    },
    "map_coordinates of constants": (
        lambda s, c: s.map_coordinates(X, POINTS, mode="grid-constant", cval=c[0]),
        [0.3],
    ),
    "shift": (lambda s, c: s.shift(X, c), [0.3, -1.2]),
    "shift of both": (lambda s, c: s.shift(X, c[0], order=1), [0.3]),
    "rotate": (lambda s, c: s.rotate(X, c[0], reshape=False, mode="mirror"), [20.0]),
    "affine_transform": (
        lambda s, c: s.affine_transform(X, c[:, :2], c[:, 2], mode="reflect", order=5),
        [[0.9, 0.3, 0.2], [-0.2, 1.2, 0.4]],
    ),
    "affine_transform, homogeneous": (
        lambda s, c: s.affine_transform(X, c, mode="mirror", order=5),
        [[0.9, 0.3, 0.2], [-0.2, 1.2, 0.4]],
    ),
    "affine_transform of each axis": (
        lambda s, c: s.affine_transform(X, c[:2], c[2], mode="mirror"),
        [0.87, 1.23, 0.3],
    ),
    "gaussian_filter1d": (lambda s, c: s.gaussian_filter1d(X, c[0], order=2), [0.9]),
    "gaussian_filter": (lambda s, c: s.gaussian_filter(X, c[0], (0, 4), radius=3), [0.9]),
    "gaussian_filter of each": (lambda s, c: s.gaussian_filter(X, (c[0], c[1])), [0.9, 1.4]),
    "gaussian_filter of a vector": (lambda s, c: s.gaussian_filter(X, c), [0.9, 1.4]),
    "gaussian_laplace": (lambda s, c: s.gaussian_laplace(X, c), [0.9, 1.4]),
    "gaussian_gradient_magnitude": (
        lambda s, c: s.gaussian_gradient_magnitude(X, c[0], mode="constant", cval=c[1]),
        [0.9, 0.2],
    ),
}
#: Functions of SciPy's module and an image.
FOURIER = {
    "fourier_gaussian": lambda s, x: s.fourier_gaussian(x, (1.2, 0.7)),
    "fourier_gaussian, half": lambda s, x: s.fourier_gaussian(x, 0.7, n=10),
    "fourier_gaussian of sigma": lambda s, x: s.fourier_gaussian(X, x[0, :2]),
    "fourier_uniform": lambda s, x: s.fourier_uniform(x, (3, 2)),
    "fourier_uniform of size": lambda s, x: s.fourier_uniform(X, x[0, 0], n=9, axis=0),
    "fourier_ellipsoid": lambda s, x: s.fourier_ellipsoid(x, size=3.0),
    "fourier_shift": lambda s, x: abs(s.fourier_shift(x, (1.2, 0.7), 10) + x),
    "fourier_shift of shift": lambda s, x: abs(s.fourier_shift(X, shift=x[0, :2]) + x),
    "both ways": lambda s, x: np.fft.ifft2(s.fourier_gaussian(np.fft.fft2(x), 1.0)).real,
}
#: Functions of SciPy's module, an image, and labels and an index.
MEASUREMENTS = {
    **{
        name: lambda s, x, *more, name=name: getattr(s, name)(x, *more)
        for name in "sum sum_labels mean variance standard_deviation minimum maximum median".split()
    },
    "center_of_mass": lambda s, x, *more: s.center_of_mass(x, *more),
    "extrema": lambda s, x, *more: s.extrema(x, *more)[:2],
}
PARTS = {
    "all": (),
    "labelled": (LABELS,),
    "one": (LABELS, 2),
    "some": (LABELS, [3, 0, 1]),
    "far": (LABELS * 1000 - 500, [[500, -500], [2500, 500]]),
    "of rows": (np.arange(6) % 2, np.array([0, 1])),
    "of other kinds": (LABELS * 0.5, [0.5, 1.5]),
}


def parts_of(result):
    if isinstance(result, list):
        return [one for pair in result for one in pair]
    return [*result] if isinstance(result, tuple) else [result]


#: Of SciPy 1.15, where a matrix has one axis.
pytestmark = pytest.mark.filterwarnings("ignore:The behavior of affine_transform")


def number_of(result):
    """A sum of all elements, each with another factor, and their squares."""
    parts = parts_of(result)
    factors = [np.cos(k + np.arange(np.size(one))) for k, one in enumerate(parts)]
    pairs = [(np.reshape(one, -1), c) for one, c in zip(parts, factors, strict=True)]
    return sum(np.sum(one * c) + np.sum(one * one * (1.0 + c)) for one, c in pairs)


def differences(f, x):
    """A gradient by central differences, extrapolated."""
    found = np.zeros(np.shape(x))
    for at in np.ndindex(np.shape(x)):
        e = np.zeros(np.shape(x))
        e[at] = 1.0
        slope = [float(f(x + h * e) - f(x - h * e)) / (2 * h) for h in (1e-3, 5e-4)]
        found[at] = (4 * slope[1] - slope[0]) / 3
    return found


def check(of, x, y=None):
    """A function of a module and an array: values and derivatives of both orders, compiled too."""
    f, plain = (lambda x: number_of(of(ours, x))), (lambda x: number_of(of(theirs, x)))
    found, wanted = of(ours, tg.tensor(x, requires_grad=True)), of(theirs, x)
    assert [*map(np.shape, parts_of(found))] == [*map(np.shape, parts_of(wanted))]
    compiled = tg.compile(f).value_and_grad
    for at in (x, x * 1.01 if y is None else y, x):
        wanted = differences(plain, at)
        for call in (tg.value_and_grad(f), compiled):
            value, gradient = call(at)
            assert_allclose(value, plain(at), rtol=1e-12)
            atol = 1e-7 * max(np.abs(wanted).max(), 1.0)
            assert_allclose(gradient, wanted, rtol=1e-7, atol=atol)
    v = np.cos(np.arange(x.size)).reshape(x.shape)
    slope = lambda x: np.sum(tg.grad(f)(x) * v)
    wanted = differences(slope, x)
    atol = 1e-7 * max(np.abs(wanted).max(), 1.0)
    assert_allclose(tg.hvp(f)(x, v), wanted, rtol=1e-7, atol=atol)
    assert_allclose(tg.jvp(f, (x,), (v,))[1], slope(x), rtol=1e-10)
    batch = np.stack([x, x * 1.01, x if y is None else y])
    rows = [tg.grad(f)(one) for one in batch]
    assert_allclose(tg.vmap(tg.grad(f))(batch), rows, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("name", "k"), CASES)
def test_filters(name, k):
    check(lambda s, x: FILTERS[name][k](s, x, PLAIN), X, OTHER)


@pytest.mark.skipif(scipy.__version__ == "1.15.0", reason="it writes outside of its memory")
@pytest.mark.parametrize("mode", MODES)
def test_modes(mode):
    for name, k in CASES:
        options = {"mode": mode, "cval": 0.7}
        plain = lambda x: number_of(FILTERS[name][k](theirs, x, options))
        f = lambda x: number_of(FILTERS[name][k](ours, x, options))
        value, gradient = tg.value_and_grad(f)(X)
        wanted = differences(plain, X)
        assert_allclose(value, plain(X), rtol=1e-12)
        atol = 1e-7 * np.abs(wanted).max()
        assert_allclose(gradient, wanted, rtol=1e-7, atol=atol, err_msg=f"{name} {k}")


@pytest.mark.parametrize("name", NUMBERS)
def test_other_arguments(name):
    of, numbers = NUMBERS[name]
    check(lambda s, c: of(s, c), np.array(numbers))


def test_points_at_ends():
    """SciPy rounds coordinates in a certain order; else points at the ends would be beyond."""
    x = RNG.uniform(0.5, 2.0, (10, 10))
    for angle in (0.0, 45.0, 90.0, 135.0, -180.0, 30.0):
        for order in (0, 1, 3):
            found = ours.rotate(tg.tensor(x, requires_grad=True), angle, order=order).detach()
            assert_allclose(found, theirs.rotate(x, angle, order=order), atol=1e-12)
    for factor in (0.3, 0.7, 1.5, 3.0, 7.1):
        found = ours.zoom(tg.tensor(x, requires_grad=True), factor).detach()
        assert_allclose(found, theirs.zoom(x, factor), atol=1e-12)


@pytest.mark.parametrize("mode", MODES)
def test_points_anywhere(mode):
    for shape in ((1,), (2,), (5,), (40,), (4, 3)):
        x, at = RNG.uniform(0.5, 2.0, shape), RNG.uniform(-14.0, 50.0, (len(shape), 60))
        at[:, :20] = np.round(at[:, :20] * 2) / 2
        for order in range(6):
            options = {"order": order, "mode": mode, "cval": 0.7, "prefilter": order != 4}
            found = ours.map_coordinates(tg.tensor(x, requires_grad=True), at, **options)
            wanted = theirs.map_coordinates(x, at, **options)
            assert_allclose(found.detach(), wanted, atol=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3, 31, 33, 60])
def test_splines_through_few_elements(n):
    for mode in MODES:
        for order in (2, 3, 5):
            wanted = np.array([theirs.spline_filter1d(e, order, mode=mode) for e in np.eye(n)])
            found = tg.jacobian(lambda x: ours.spline_filter1d(x, order, mode=mode))(np.ones(n))
            assert_allclose(found, wanted.T, atol=1e-14)


def test_points_that_are_nowhere():
    for at in (np.nan, np.inf):
        with pytest.raises(ValueError, match="a coordinate is not finite"):
            tg.grad(lambda x: np.sum(ours.map_coordinates(x, [[at], [0.5]])))(X)


def test_angles_of_other_shapes():
    f = lambda a: np.sum(ours.rotate(X, a, mode="mirror") ** 2)
    plain = lambda a: np.sum(theirs.rotate(X, a, mode="mirror") ** 2)
    compiled = tg.compile(f).grad
    for a in (10.0, 11.0, 40.0, 10.0):
        assert_allclose(compiled(a), differences(plain, np.asarray(a)), rtol=1e-6)


@pytest.mark.parametrize("name", FOURIER)
def test_transforms(name):
    check(FOURIER[name], X, OTHER)


def test_dtypes_of_transforms():
    for dtype in (np.float32, np.float64, np.complex64, np.complex128):
        for name in ("fourier_gaussian", "fourier_shift"):
            for output in (None, np.complex64):
                x = X.astype(dtype)
                found = getattr(ours, name)(tg.tensor(x, requires_grad=True), 0.7, output=output)
                wanted = getattr(theirs, name)(x, 0.7, output=output)
                assert found.dtype == wanted.dtype
                assert_allclose(found.detach().numpy(), wanted, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "key"),
    [(name, key) for k, name in enumerate(MEASUREMENTS) for key in some(PARTS, k, 3)],
)
def test_measurements(name, key):
    if name != "center_of_mass" or key != "far":
        check(lambda s, x: MEASUREMENTS[name](s, x, *PARTS[key]), X, OTHER)


def test_labels_of_no_element():
    index = [1, 9, 2]
    for name in ("sum", "minimum", "maximum"):
        check(lambda s, x: getattr(s, name)(x, LABELS, index), X, OTHER)
    for name in ("mean", "variance"):
        with np.errstate(invalid="ignore"):
            found = getattr(ours, name)(tg.tensor(X, requires_grad=True), LABELS, index)
            assert_allclose(found.detach(), getattr(theirs, name)(X, LABELS, index))
    with pytest.raises(tg.DerivativeLost, match="no element has some labels of index"):
        tg.grad(lambda x: np.sum(ours.median(x, LABELS, index)))(X)


def test_labels_of_programs():
    """Labels that are data, or choices, are those of each call, of images of any size."""
    x, marks = RNG.uniform(0.5, 2.0, (12, 12)), RNG.integers(0, 4, (12, 12))
    for name in MEASUREMENTS:
        f = lambda x, marks: number_of(MEASUREMENTS[name](ours, x, marks, [1, 3]))
        g = lambda x: number_of(MEASUREMENTS[name](ours, x, (x > 1.0) * 1, [1, 0]))
        compiled, of_choices = tg.compile(f).value_and_grad, tg.compile(g).value_and_grad
        for at in (x, x, x[::-1] ** 2, x):
            for labels in (marks, marks[::-1]):
                plain = number_of(MEASUREMENTS[name](theirs, at, labels, [1, 3]))
                value, gradient = compiled(at, labels)
                assert_allclose(value, plain, rtol=1e-10)
                assert_allclose(gradient, tg.grad(f)(at, labels), rtol=1e-10, atol=1e-12)
            assert_allclose(of_choices(at)[1], tg.grad(g)(at), rtol=1e-10, atol=1e-12)


def test_positions_of_extremes():
    x = tg.tensor(X, requires_grad=True)
    for part in PARTS.values():
        found, wanted = ours.extrema(x, *part), theirs.extrema(X, *part)
        assert np.array_equal(found[2], wanted[2])
        assert np.array_equal(found[3], wanted[3])
        assert ours.minimum_position(x, *part) == theirs.minimum_position(X, *part)
        assert ours.maximum_position(x, *part) == theirs.maximum_position(X, *part)
    for f in (lambda x: x[ours.extrema(x)[3]] ** 2, lambda x: x[ours.maximum_position(x)] ** 2):
        compiled = tg.compile(f).grad
        for at in (X, OTHER, -X, X):
            assert_allclose(compiled(at), 2 * at.max() * (at == at.max()))


def test_equal_elements():
    x = np.zeros((3, 3))
    for name in ("maximum_filter", "median_filter", "grey_opening"):
        gradient = tg.grad(lambda x: np.sum(getattr(ours, name)(x, 3)))(x)
        assert gradient.sum() == 9.0  # each result is one element
    assert_allclose(tg.grad(lambda x: ours.standard_deviation(x))(x), 0.0)


@pytest.mark.filterwarnings("ignore:tapegrad.compile")
def test_elements_that_have_no_order():
    x = np.where(X > 1.8, np.nan, X)
    for f in (lambda x: ours.median_filter(x, 3), lambda x: ours.grey_closing(x, 3)):
        with pytest.raises(ValueError, match="the image or cval contains NaN"):
            tg.grad(lambda x: np.sum(f(x)))(x)
        compiled = tg.compile(lambda x: np.sum(f(x))).grad
        compiled(X)
        with pytest.raises(ValueError, match="the image or cval contains NaN"):
            compiled(x)


@pytest.mark.parametrize("shape", [(1,), (2,), (300,), (1, 7), (4, 3, 2)])
def test_shapes(shape):
    x = RNG.uniform(0.5, 2.0, shape)
    ndim = len(shape)
    for mode in MODES[:5]:
        for of in (
            lambda s, x: s.gaussian_filter(x, 1.1, mode=mode, cval=0.2),
            lambda s, x: s.uniform_filter(x, 4, mode=mode, cval=0.2),
            lambda s, x: s.correlate(x, np.ones((3,) * ndim), mode=mode, cval=0.2),
        ):
            f = lambda x: number_of(of(ours, x))
            plain = lambda x: number_of(of(theirs, x))
            v = np.cos(np.arange(x.size)).reshape(shape)
            value, slope = tg.jvp(f, (x,), (v,))
            assert_allclose(value, plain(x), rtol=1e-12)
            wanted = differences(lambda t: plain(x + t * v), np.zeros(()))
            assert_allclose(slope, wanted, rtol=1e-7, atol=1e-7)
            assert_allclose(np.sum(tg.grad(f)(x) * v), slope, rtol=1e-10)


def test_no_elements():
    for f in (lambda x: ours.gaussian_filter(x, 1.0), lambda x: ours.convolve(x, W2)):
        assert tg.grad(lambda x: np.sum(f(x)))(np.zeros((0, 3))).shape == (0, 3)


def test_transposes_in_pytorch():
    torch = pytest.importorskip("torch")
    x, w = torch.tensor(X, requires_grad=True), torch.tensor(W2, requires_grad=True)
    padded = torch.nn.functional.pad(x[None, None], (1, 0, 1, 1))
    out = torch.nn.functional.conv2d(padded, w[None, None])[0, 0]
    wanted = torch.autograd.grad((out**3).sum(), (x, w))
    f = lambda x, w: np.sum(ours.correlate(x, w, mode="constant") ** 3)
    for found, one in zip(tg.grad(f, (0, 1))(X, W2), wanted, strict=True):
        assert_allclose(found, one.numpy(), rtol=1e-12)


def test_dtypes_and_orders():
    single = X.astype(np.float32)
    for x in (single, np.asfortranarray(X), np.repeat(X, 2, 1)[:, ::2]):
        f = lambda x: np.sum(ours.gaussian_filter(x, 0.8) ** 2)
        value, gradient = tg.value_and_grad(f)(x)
        assert gradient.dtype == x.dtype
        assert ours.gaussian_filter(tg.tensor(x, requires_grad=True), 0.8).dtype == x.dtype
        rtol = 1e-6 if x is single else 1e-14
        assert_allclose(value, np.sum(theirs.gaussian_filter(x, 0.8) ** 2), rtol=rtol)
        assert_allclose(gradient, tg.grad(f)(X), rtol=rtol)
    made = ours.sobel(tg.tensor(X, requires_grad=True), output=np.float32)
    assert made.dtype == np.float32
    assert_allclose(made.detach(), theirs.sobel(X, output=np.float32), rtol=1e-6)


def test_programs_of_single_precision():
    """Images of float32 are filtered in programs; where the result is float64, eagerly."""
    x = X.astype(np.float32)
    for name, k in CASES:
        if name.startswith("spline") or (name, k) in MIXED:
            continue
        f = lambda x: np.sum(FILTERS[name][k](ours, x, PLAIN) ** 2)
        compiled, wanted = tg.compile(f).value_and_grad, tg.grad(f)(X)
        for _ in range(2):
            value, gradient = compiled(x)
            assert gradient.dtype == np.float32
            assert_allclose(value, np.sum(FILTERS[name][k](theirs, x, PLAIN) ** 2), rtol=1e-5)
            assert_allclose(gradient, wanted, rtol=1e-4, atol=1e-4 * np.abs(wanted).max())


def test_complex_images():
    z = X + 1j * X[::-1]
    for of in (
        lambda s, z: s.gaussian_filter(z, 0.8, mode="constant", cval=0.5),
        lambda s, z: s.convolve(z, W2),
        lambda s, z: s.uniform_filter(z, 3),
        lambda s, z: s.correlate1d(z, W, mode="constant", cval=0.5 + 0.25j),
        lambda s, z: s.correlate1d(z, W * (1.0 - 0.5j)),
        lambda s, z: s.convolve1d(z, W * (1.0 - 0.5j), 0, mode="constant", cval=0.5 + 0.25j),
        lambda s, z: s.correlate(z.real, W2 * (1.0 - 0.5j)),
        lambda s, z: s.convolve(z, z[:2, :3]),
        lambda s, z: s.zoom(z, 1.5),
        lambda s, z: s.map_coordinates(z, POINTS, mode="grid-constant", cval=0.5j),
    ):
        wanted = of(theirs, z)
        found = of(ours, tg.tensor(z, requires_grad=True))
        assert_allclose(found.detach().numpy(), wanted, rtol=1e-14)
        f = lambda x: np.sum(np.abs(of(ours, x * (1.0 + 2.0j))) ** 2)
        plain = lambda x: np.sum(np.abs(of(theirs, x * (1.0 + 2.0j))) ** 2)
        assert_allclose(tg.grad(f)(X), differences(plain, X), rtol=1e-7, atol=1e-7)


def test_axes_in_any_order():
    x, w = RNG.uniform(0.5, 2.0, (4, 5, 3)), RNG.uniform(-1.0, 1.0, (3, 2))
    if "axes" not in inspect.signature(theirs.correlate).parameters:
        pytest.skip("not in this version of SciPy")
    for name in ("correlate", "convolve"):
        for axes, one in (((2, 0), w), ((-1, -2), w), ((2, 0, 1), w[:, :, None])):
            for origin in (0, (0, -1, 0)[: len(axes)], (0, 0, -1)[: len(axes)]):
                options = {"axes": axes, "origin": origin}
                try:
                    wanted = getattr(theirs, name)(x, one, **options)
                except ValueError:  # an origin that is outside of weights in another order
                    wanted = None
                tensor = tg.tensor(x, requires_grad=True)
                if wanted is None:
                    with pytest.raises(ValueError, match="Invalid origin"):
                        getattr(ours, name)(tensor, one, **options)
                else:
                    found = getattr(ours, name)(tensor, one, **options).detach()
                    assert_allclose(found, wanted, rtol=1e-12)


def test_flat_images_have_no_slope():
    f = lambda x: np.sum(ours.gaussian_gradient_magnitude(x, 1.0))
    assert_allclose(tg.grad(f)(np.zeros((4, 4))), 0.0)
    assert_allclose(tg.hessian(f)(np.zeros((2, 2))), 0.0)


def test_radius_of_other_sigmas():
    f = lambda s: np.sum(ours.gaussian_filter(X, s) ** 2)
    plain = lambda s: np.sum(theirs.gaussian_filter(X, s) ** 2)
    compiled = tg.compile(f).grad
    for s in (0.9, 0.95, 1.9, 0.3, 0.9):  # of three radii
        assert_allclose(compiled(s), differences(plain, np.asarray(s)), rtol=1e-7)
    assert tg.grad(f)(0.0) == 0.0


def test_entered_code_calls_them(monkeypatch):
    monkeypatch.setattr(tg.config, "enter", True)
    for name, k in CASES:
        f = lambda x: number_of(FILTERS[name][k](theirs, x, PLAIN))
        g = lambda x: number_of(FILTERS[name][k](ours, x, PLAIN))
        for call in (tg.grad(f), tg.compile(f).grad):
            assert_allclose(call(X), tg.grad(g)(X), rtol=1e-12, atol=1e-12)


def test_programs_from_files(tmp_path):
    def f(x):
        filtered = ours.gaussian_filter(ours.median_filter(x, 3), x[0, 0])
        return number_of(filtered + ours.shift(x, x[0, :2]))

    compiled = tg.compile(f)
    for _ in range(2):
        compiled.value_and_grad(X)
    compiled.save(tmp_path / "programs")
    found = tg.load(tmp_path / "programs").value_and_grad(X * 1.01)
    for one, wanted in zip(found, tg.value_and_grad(f)(X * 1.01), strict=True):
        assert_allclose(one, wanted, rtol=1e-12)


def test_several_adjoints():
    """Rules for several adjoints and directions at once."""
    v = np.sin(np.arange(X.size)).reshape(X.shape)
    for name, k in CASES:
        f = lambda x: FILTERS[name][k](ours, x, {"mode": "mirror", "cval": 0.3})
        found = np.tensordot(tg.jacobian(f)(X), v, 2)
        assert_allclose(tg.jvp(f, (X,), (v,))[1], found, rtol=1e-9, atol=1e-11)


def test_filters_along_an_axis_are_scipys_to_the_bit():
    for mode in MODES:
        for n in (1, 2, 3, 7, 20):
            x = RNG.uniform(-1.0, 1.0, (3, n))
            for size in (1, 2, 3, 4, 7, 12):
                w = RNG.uniform(-1.0, 1.0, size)
                for weights in (w, w + w[::-1], w - w[::-1]):
                    for image, axis in ((x, 1), (x.T, 0), (x.T.copy(), 0)):
                        options = {"axis": axis, "mode": mode, "cval": 0.3, "origin": -(size // 2)}
                        tensor = tg.tensor(image, requires_grad=True)
                        found = ours.correlate1d(tensor, weights, **options)
                        wanted = theirs.correlate1d(image, weights, **options)
                        assert np.array_equal(found.detach(), wanted)


def test_plain_arguments_are_scipys():
    for name, k in CASES:
        found = FILTERS[name][k](ours, X, PLAIN)
        assert type(found) is np.ndarray
        assert np.array_equal(found, FILTERS[name][k](theirs, X, PLAIN))


REFUSED = {
    "axes and several modes": lambda x: ours.grey_erosion(x, structure=W2, mode=["wrap", "mirror"]),
    "percentile is recorded": lambda x: ours.percentile_filter(x, x[0, 0], 3),
    "labels is recorded": lambda x: ours.sum(x, x, 1),
    "geometric_transform: SciPy calls": lambda x: ours.geometric_transform(x, lambda p: p),
    "zoom is recorded": lambda x: ours.zoom(x, x[0, 0]),
    "fourier_ellipsoid: size is recorded": lambda x: ours.fourier_ellipsoid(x, x[0, 0]),
    "size is recorded": lambda x: ours.uniform_filter1d(x, x[0, 0]),
    "output is an array": lambda x: ours.sobel(x, output=np.zeros((5, 6))),
    "the result has dtype int": lambda x: ours.convolve(np.ones((3, 3), int), x),
    "has dtype int": lambda x: ours.gaussian_filter(x, 1.0, output=int),
    "sobel: the image is complex": lambda x: ours.sobel(x * 1j),
    "the function returns None": lambda x: ours.generic_laplace(x, lambda *_: None),
    "generic_filter\\(\\) takes plain values": lambda x: ours.generic_filter(x, np.sum, 3),
}


@pytest.mark.parametrize("text", REFUSED)
def test_refusals(text):
    with pytest.raises(tg.DerivativeLost, match=rf"^tapegrad.scipy.ndimage.\w+: .*{text}|{text}"):
        tg.grad(lambda x: np.sum(REFUSED[text](x)))(X)


@pytest.mark.parametrize(
    ("error", "of"),
    [
        (RuntimeError, lambda s, x: s.correlate1d(x, [])),
        (TypeError, lambda s, x: s.sobel(x, other=1)),
        (TypeError, lambda s, x: s.sobel(x, cval=[1.0, 2.0])),
        (RuntimeError, lambda s, x: s.sobel(x, mode="other")),
        (RuntimeError, lambda s, x: s.uniform_filter1d(x, 0)),
        (RuntimeError, lambda s, x: s.gaussian_filter(x, (1.0, 2.0, 3.0))),
        (RuntimeError, lambda s, x: s.correlate(x, W)),
        (ValueError, lambda s, x: s.uniform_filter1d(x, 3, origin=2)),
        (ValueError, lambda s, x: s.correlate1d(x, W, origin=3)),
        (ValueError, lambda s, x: s.gaussian_filter(x, 1.0, axes=(0, 0))),
        (ValueError, lambda s, x: s.gaussian_filter(x, 1.0, axes=2)),
        (ValueError, lambda s, x: s.gaussian_filter1d(x, 1.0, order=-1)),
        (ValueError, lambda s, x: s.gaussian_filter1d(x, 1.0, radius=-1)),
        (RuntimeError, lambda s, x: s.map_coordinates(x, POINTS, order=6)),
        (RuntimeError, lambda s, x: s.map_coordinates(x, POINTS[:1])),
        (RuntimeError, lambda s, x: s.map_coordinates(x, POINTS, mode="other")),
        (RuntimeError, lambda s, x: s.spline_filter(x, 1)),
        (RuntimeError, lambda s, x: s.shift(x, [1.0, 2.0, 3.0])),
        (RuntimeError, lambda s, x: s.affine_transform(x, np.eye(4))),
        (ValueError, lambda s, x: s.affine_transform(x, np.ones((3, 3)))),
        (ValueError, lambda s, x: s.rotate(x, 10.0, (0, 2))),
        (ValueError, lambda s, x: s.rotate(x[0], 10.0)),
    ],
)
def test_errors_are_scipys(error, of):
    for module, x in ((theirs, X), (ours, tg.tensor(X, requires_grad=True))):
        with pytest.raises(error):
            of(module, x)
