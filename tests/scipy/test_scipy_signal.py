"""SciPy's `signal` for recorded values: values, errors and differences of SciPy's own."""

import itertools

import numpy as np
import pytest
import scipy.signal

import tapegrad as tg
import tapegrad.scipy.signal as ours


def outcome(function, *args, **kwargs):
    """What a function gives, as a tuple, or the type of the error that it raises."""
    try:
        made = function(*args, **kwargs)
    except Exception as error:
        return type(error)
    return made if isinstance(made, tuple) else (made,)


def weighed(made):
    """A number of results, not linear in real ones."""
    made = made if isinstance(made, tuple) else (made,)
    return sum(np.sum(np.sin(one.real)) + 1.3 * np.sum(one.imag) for one in made)


def difference(function, operands, k, d, h):
    """The derivative of `weighed` results along d, of operand k."""
    moved = [[x + s * h * d if j == k else x for j, x in enumerate(operands)] for s in (1, -1)]
    plus, minus = (weighed(function(*one)) for one in moved)
    return (plus - minus) / (2.0 * h)


def check(name, operands, *args, rtol=1e-6, h=1e-5, compiled=False, **kwargs):
    """All operands recorded: value, dtype, error and gradients as SciPy's."""

    def called(module):
        return lambda *xs: getattr(module, name)(*xs, *args, **kwargs)

    theirs, mine = called(scipy.signal), called(ours)
    wanted = outcome(theirs, *operands)
    found = outcome(mine, *[tg.tensor(x, requires_grad=True) for x in operands])
    if isinstance(wanted, type):
        assert found is wanted, (name, args, kwargs)
        return
    assert not isinstance(found, type), (name, args, kwargs, found)
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-9, atol=1e-10)
    total, places = lambda *xs: weighed(mine(*xs)), tuple(range(len(operands)))
    gradients = tg.grad(total, places)(*operands)
    rng = np.random.default_rng(3)
    for k, (g, x) in enumerate(zip(gradients, operands, strict=True)):
        d = rng.normal(size=x.shape) * (x != 0.0) * (x != 1.0)
        wanted = difference(theirs, operands, k, d, h)
        np.testing.assert_allclose(np.sum(g.real * d), wanted, rtol=rtol, atol=1e-7)
        if np.iscomplexobj(x):
            wanted = difference(theirs, operands, k, 1j * d, h)
            np.testing.assert_allclose(np.sum(g.imag * d), wanted, rtol=rtol, atol=1e-7)
    if compiled:
        c = tg.compile(total, argnums=places, verify="never", native=False)
        for factor in (1.0, 0.9):
            point = [x * factor for x in operands]
            for g, wanted in zip(c.grad(*point), tg.grad(total, places)(*point), strict=True):
                np.testing.assert_allclose(g, wanted, rtol=1e-8, atol=1e-10)


# --- convolutions ---------------------------------------------------------------------------------

SHAPES = [
    *[((7,), (3,)), ((3,), (6,)), ((1,), (5,)), ((5, 4), (2, 3)), ((2, 3), (5, 4))],
    *[((5, 2), (2, 4)), ((4, 3, 2), (2, 2, 2)), ((40,), (33,)), ((), ()), ((3,), (2, 2))],
]


def pair(shapes, kind, rng):
    """Two operands: both real, one complex, both complex."""
    found = [rng.normal(size=shape) for shape in shapes]
    return [x + 1j * rng.normal(size=x.shape) if k < kind else x for k, x in enumerate(found)]


@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_convolutions(shapes, rng):
    for kind, mode in itertools.product((0, 1, 2), ("full", "same", "valid")):
        operands = pair(shapes, kind, rng)
        check("fftconvolve", operands, mode, compiled=kind == 0 and mode == "same")
        for name, method in itertools.product(("convolve", "correlate"), ("auto", "direct", "fft")):
            if shapes != ((), ()):
                check(name, operands, mode, method, compiled=kind == 0 and mode == "same")
    for mode, method in (("other", "auto"), ("full", "other")):
        check("correlate", pair(shapes, 0, rng), mode, method)


def test_images(rng):
    shapes = [((5, 4), (2, 3)), ((2, 3), (5, 4)), ((4, 4), (2, 2))]
    boundaries = ("fill", "wrap", "symm", "other")
    modes = ("full", "same", "valid", "other")
    for one, mode, boundary in itertools.product(shapes, modes, boundaries):
        for name, kind in itertools.product(("convolve2d", "correlate2d"), (0, 2)):
            more = {"fillvalue": 2.5} if boundary == "fill" else {}
            compiled = kind == 0 and mode == "same"
            check(name, pair(one, kind, rng), mode, boundary, compiled=compiled, **more)
    check("convolve2d", pair(((3,), (2,)), 0, rng))


def test_axes(rng):
    for shapes in (((3, 8), (3, 4)), ((3, 8), (1, 4))):
        forms = itertools.product(
            (1, (-1,), (), 5, (0, 1), (1, 1), None), ("full", "same", "valid")
        )
        for axes, mode in forms:
            for name in ("fftconvolve", "oaconvolve"):
                check(name, pair(shapes, 0, rng), mode, axes=axes)


# --- filters --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "counts", [(1, 3, 9), (3, 1, 9), (2, 4, 9), (4, 4, 2), (3, 5, 1), (1, 1, 4)]
)
def test_lfilter(counts, rng):
    b, a = rng.normal(size=counts[0]), 0.3 * rng.normal(size=counts[1])
    a[0], n, count = 1.5, counts[2], max(counts[:2]) - 1
    for axis, shape, states in ((-1, (3, n), (3, count)), (0, (n, 2), (count, 2))):
        x, zi = rng.normal(size=shape), rng.normal(size=states)
        check("lfilter", [b, a, x], axis, compiled=axis == 0)
        if count:
            check("lfilter", [b, a, x], axis, zi)
            total = lambda zi: weighed(ours.lfilter(b, a, x, axis, zi))
            theirs = lambda zi: scipy.signal.lfilter(b, a, x, axis, zi)
            d = rng.normal(size=states)
            wanted = difference(theirs, [zi], 0, d, 1e-5)
            np.testing.assert_allclose(np.sum(tg.grad(total)(zi) * d), wanted, rtol=1e-6)


def test_filters_that_are_none(rng):
    x, zero = rng.normal(size=4), np.array([0.0, 1.0])
    with pytest.raises(ValueError, match=r"a\[0\] == 0"):
        ours.lfilter([1.0], zero, tg.tensor(x, requires_grad=True))
    c = tg.compile(lambda a, x: np.sum(ours.lfilter([1.0], a, x) ** 2), argnums=(0, 1))
    c.grad(np.array([2.0, 1.0]), x)
    with pytest.raises(ValueError, match=r"a\[0\] == 0"):
        c.grad(zero, x)
    t = tg.tensor(x, requires_grad=True)
    for call in (
        lambda: ours.lfilter([], [1.0], t),
        lambda: ours.lfilter([1.0, 2.0], [1.0], t, zi=np.ones(2)),
        lambda: ours.sosfilt(np.ones((2, 5)), t),
        lambda: ours.sosfilt(2.0 * np.ones((2, 6)), t),
        lambda: ours.filtfilt([1.0, 2.0], [1.0], t, method="other"),
    ):
        with pytest.raises(ValueError, match="Unexpected|must|should|non-empty"):
            call()
    with pytest.raises(TypeError, match="lfilter: an operand is complex"):
        ours.lfilter([1.0], [1.0], 1j * t)


PADDINGS = [
    *[{}, {"padtype": "even"}, {"padtype": "constant"}, {"padtype": None}, {"padlen": 5}],
    *[{"padlen": 0}, {"padlen": 60}, {"padtype": "other"}],
]


def test_filters_of_no_phase(rng):
    b, a = scipy.signal.butter(3, 0.2)
    sos, x = scipy.signal.butter(5, 0.2, output="sos"), rng.normal(size=(2, 40))
    for form in PADDINGS:
        check("filtfilt", [b, a, x], **form, compiled=not form)
        if not isinstance(outcome(scipy.signal.sosfiltfilt, sos, x, **form), type):
            check("sosfiltfilt", [sos, x], **form, rtol=1e-3)
    check("filtfilt", [b, a, x.T], 0)
    check("filtfilt", [b, a, x], method="gust", compiled=True)
    check("filtfilt", [b, a, x], method="gust", irlen=12)
    check("sosfiltfilt", [sos, x.T], 0, rtol=1e-3)
    check("sosfilt", [sos, x.T], 0, rtol=1e-4)
    check("sosfilt", [sos, x], -1, rng.normal(size=(3, 2, 2)), rtol=1e-4)


# --- analytic signals, trends, smoothing ----------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_analytic_signals(n, rng):
    x = rng.normal(size=(n, 4, 3))
    check("hilbert", [x], None, 0, compiled=n == 5)
    check("hilbert", [x], 5)
    check("hilbert", [x], 0)
    check("hilbert", [x * 1j])
    if np.lib.NumpyVersion(scipy.__version__) < "1.17.0":
        return  # its hilbert2 has no axes
    check("hilbert2", [x], compiled=n == 5)
    check("hilbert2", [x], (3, 4), (0, 2))
    check("hilbert2", [x[0, 0]], 5)
    check("hilbert2", [x], axes=(1, 1))


def test_detrend(rng):
    x = rng.normal(size=(12, 3))
    for kind in ("linear", "constant", "other"):
        check("detrend", [x], 0, kind, compiled=True)
    for bp in (4, [3, 8], 20):
        check("detrend", [x], 0, bp=bp)
    check("detrend", [x[:1]], 0)


def test_savgol_filter(rng):
    x = rng.normal(size=(2, 12))
    modes = ("interp", "mirror", "nearest", "wrap", "constant", "other")
    for mode, (width, degree) in itertools.product(
        modes, ((5, 2), (4, 3), (12, 0), (13, 2), (3, 4))
    ):
        check("savgol_filter", [x], width, degree, 1 if degree else 0, 0.5, mode=mode)
        check("savgol_filter", [x.T], width, degree, axis=0, mode=mode, cval=1.5)


def test_second_derivatives_forward_mode_batches_float32(rng):
    def loss(x):
        b, a = scipy.signal.butter(2, 0.3)
        low = ours.filtfilt(b, a, x, padlen=3)
        envelope = np.abs(ours.hilbert(x)) ** 2
        return np.sum(np.sin(low)) + np.sum(ours.convolve(envelope, x[:3]) ** 2)

    x, v = rng.normal(size=12), rng.normal(size=12)
    product = tg.hvp(loss)(x, v)
    gradient = tg.grad(loss)
    wanted = (gradient(x + 1e-5 * v) - gradient(x - 1e-5 * v)) / 2e-5
    np.testing.assert_allclose(product, wanted, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(tg.jvp(gradient, (x,), (v,))[1], product, rtol=1e-9, atol=1e-9)
    batch = rng.normal(size=(5, 12))
    looped = np.stack([gradient(one) for one in batch])
    np.testing.assert_allclose(tg.vmap(gradient)(batch), looped, rtol=1e-9, atol=1e-9)
    narrow = tg.grad(loss)(x.astype(np.float32))
    np.testing.assert_allclose(narrow, gradient(x), rtol=1e-3, atol=1e-3)


@pytest.mark.skipif(
    np.lib.NumpyVersion(scipy.__version__) < "1.16.0", reason="butter has no derivative"
)
@pytest.mark.parametrize("order", [3, 4])
def test_programs_of_sections_that_are_designed(order):
    """Whether a section is of order 1 is decided anew, not by the numbers of the first call."""
    x = np.cos(0.7 * np.arange(60.0))

    def f(p):
        sos = scipy.signal.butter(order, p[0], output="sos")
        return np.sum(scipy.signal.sosfiltfilt(sos, x * p[1]) ** 2)

    compiled = tg.compile(f)
    for p in (np.array([0.2, 1.0]), np.array([0.2, 1.0]), np.array([0.35, 1.3])):
        wanted = []
        for h in 1e-4 * np.eye(2):
            ends = 8.0 * (f(p + h) - f(p - h)) - (f(p + 2 * h) - f(p - 2 * h))
            wanted.append(ends / 12e-4)
        np.testing.assert_allclose(compiled.grad(p), wanted, rtol=1e-7)
    assert "1 program" in repr(compiled)


def test_programs_of_sections_of_other_orders():
    x = np.cos(0.7 * np.arange(60.0))
    g = lambda sos: np.sum(scipy.signal.sosfiltfilt(sos, x))
    program = tg.compile(g)
    for rest in (0.1, 0.1, 0.0, 0.2):  # with a shorter padding at 0
        sos = np.array([[0.3, 0.2, rest, 1.0, -0.4, rest], [0.5, 0.1, rest, 1.0, 0.2, rest]])
        np.testing.assert_allclose(program(sos), g(sos), rtol=1e-12)
        np.testing.assert_allclose(program.grad(sos), tg.grad(g)(sos), rtol=1e-10)
