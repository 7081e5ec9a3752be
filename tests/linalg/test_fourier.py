"""Fourier transforms under NumPy's names: against PyTorch, NumPy and dense matrices."""

import dataclasses
import itertools

import declared
import numpy as np
import pytest
from assumed import needs
from expressions import CHECKS, Expression, check_native, native_parts, parametrized
from extent import rounds
from hypothesis import given, settings
from hypothesis import strategies as st

import tapegrad as tg
from tapegrad._core.codegen import compat, pocketfft, ufunc
from tapegrad._core.operations.fourier_rows import complex_fourier, hermitian_fourier, real_fourier
from tapegrad._core.ops.table import TABLE
from tapegrad._core.tensor.registry import load_families

load_families()

ROWS = {
    "complex_fourier": (complex_fourier, "inverse"),
    "real_fourier": (real_fourier, "doubled"),
    "hermitian_fourier": (hermitian_fourier, "halved"),
}
EXPRESSIONS = [
    Expression("np.fft.rfft(x).real * x[:, :3]", "torch.fft.rfft(x).real * x[:, :3]"),
    Expression(
        "np.abs(np.fft.fft(x, 3, norm='forward')) ** 2",
        "torch.fft.fft(x, 3, norm='forward').abs() ** 2",
    ),
    Expression("np.fft.ifft(x, 7, 0).imag", "torch.fft.ifft(x, 7, 0).imag.resolve_neg()"),
    Expression(
        "np.fft.irfft(np.fft.rfft(x, 5, 0, 'ortho') * (x + 2j), 4, 0)",
        "torch.fft.irfft(torch.fft.rfft(x, 5, 0, 'ortho') * (x + 2j), 4, 0)",
    ),
    Expression(
        "np.fft.hfft(x * (1 + 2j), 5, norm='ortho')",
        "torch.fft.hfft(x * (1 + 2j), 5, norm='ortho')",
    ),
    Expression("np.fft.ihfft(x, axis=0).imag", "torch.fft.ihfft(x, dim=0).imag.resolve_neg()"),
    Expression("np.fft.fft2(x, (2, 5)).real", "torch.fft.fft2(x, (2, 5)).real"),
    Expression(
        "np.fft.irfft2(np.fft.rfft2(x) * np.fft.fft(x)[:, :3], (3, 5))",
        "torch.fft.irfft2(torch.fft.rfft2(x) * torch.fft.fft(x)[:, :3], (3, 5))",
    ),
    Expression(
        "np.fft.ifftn(x * np.exp(1j * x), (4, 4), (1, 0), 'ortho').real",
        "torch.fft.ifftn(x * torch.exp(1j * x), (4, 4), (1, 0), 'ortho').real",
    ),
    Expression(
        "np.fft.fftshift(np.fft.fft(x, axis=0), 0).imag + np.fft.ifftshift(x)",
        "torch.fft.fftshift(torch.fft.fft(x, dim=0), 0).imag + torch.fft.ifftshift(x)",
    ),
]


@parametrized(EXPRESSIONS)
@pytest.mark.parametrize("check", CHECKS)
def test_expression(check, expression):
    CHECKS[check](expression)


@native_parts(EXPRESSIONS[1:5:3])
def test_native(part):
    check_native(part)


# --- rows -----------------------------------------------------------------------------------------


def matrix_of(f, shape):
    """The dense matrix of a linear function of arrays of a shape."""
    size = int(np.prod(shape))
    return np.stack([np.ravel(f(e.reshape(shape))) for e in np.eye(size)], 1)


def check_row(name, shape, static, x):
    """Value by definition is NumPy's; the adjoint and the tangent are those of its matrix."""
    f = lambda x: ROWS[name][0](x, **static)
    dense, rng = matrix_of(f, shape), np.random.default_rng(5)
    weights = rng.normal(size=f(x).shape)
    value, back = tg.vjp(f, x)
    np.testing.assert_allclose(value.ravel(), dense @ x.ravel(), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(
        back(weights)[0].ravel(), dense.T @ weights.ravel(), rtol=1e-12, atol=1e-12
    )
    return lambda x: np.sum(np.sin(f(x)) * weights)


statics = {
    "n": st.integers(1, 7),
    "axis": st.sampled_from([-1, -2]),
    "kept": st.integers(0, 7),
    "power": st.integers(0, 2),
}


@settings(max_examples=rounds(40, 13), deadline=None)
@given(
    st.sampled_from(sorted(ROWS)),
    st.tuples(st.integers(1, 4), st.integers(1, 5)),
    st.fixed_dictionaries(statics),
    st.booleans(),
)
def test_rows_are_their_matrices(name, shape, static, flag):
    shape = shape if name == "real_fourier" else (*shape, 2)
    x = np.cos(np.arange(np.prod(shape)) + 1.0).reshape(shape)
    check_row(name, shape, static | {ROWS[name][1]: flag}, x)


CASES = [
    (-1, 6, 6, 0),
    (-2, 5, 5, 1),
    (-3, 4, 2, 2),
    (-2, 3, 6, 0),
    (-1, 1, 1, 2),
]


@pytest.mark.parametrize("kernel", [True, False])
@pytest.mark.parametrize("name", ROWS)
def test_programs(name, kernel):
    """With NumPy's loops, or Python where they are not found; of arrays in any memory."""
    shape = (2, 4, 3) if name == "real_fourier" else (2, 4, 3, 2)
    op = TABLE[name]
    assert (op.value_kernel is not None) == pocketfft.is_available()
    x, y = (np.random.default_rng(k).normal(size=shape) for k in (1, 2))
    with declared.declared(op if kernel else dataclasses.replace(op, value_kernel=None)):
        for (axis, n, kept, power), flag in itertools.product(CASES, (False, True)):
            static = {"n": n, "axis": axis, "kept": kept, "power": power, ROWS[name][1]: flag}
            total = check_row(name, shape, static, x)
            for order in ((0, 1, 2, 3)[: x.ndim], (3, 2, 0, 1)[4 - x.ndim :]):
                if sorted(order) != [*range(x.ndim)]:
                    order = (1, 2, 0)
                places = np.argsort(order)
                turned = lambda x, p=places: total(np.transpose(x, p) * 1.0)
                views = lambda x, p=places: total(np.transpose(x, p))
                for f in (turned, views):
                    c = tg.compile(f, verify="never", native=False)
                    for point in (x, y):
                        point = np.ascontiguousarray(np.transpose(point, order))
                        for found, wanted in zip(
                            c.value_and_grad(point), tg.value_and_grad(f)(point), strict=True
                        ):
                            np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", ROWS)
def test_rows_that_are_no_transforms(name):
    shape, x = TABLE[name].shape, (3, 4) if name == "real_fourier" else (3, 4, 2)
    good = {"n": 4, "axis": -1, "kept": 4, "power": 0}
    assert shape(x, **good)[:2] == (3, 4)
    bad = [{"n": 0}, {"n": 1 << 40}, {"axis": 0}, {"axis": -3}, {"kept": -1}, {"power": 3}]
    for change in bad:
        with pytest.raises(ValueError, match="does not accept an operand of shape"):
            shape(x, **good | change)


@needs("numpy-ufunc-fields")
def test_loops_that_lie_elsewhere_are_not_called(monkeypatch):
    missing = ("fft", "ifft", "no", "rfft_n_odd", "irfft")
    others = ("ifft", "fft", "rfft_n_even", "rfft_n_odd", "irfft")
    fields = (ufunc, "_NTYPES", ufunc._NIN)
    for module, name, value in [
        (pocketfft, "_LOOPS", missing),
        fields,
        (pocketfft, "_LOOPS", others),
    ]:
        with monkeypatch.context() as patch:
            patch.setattr(compat, "_found", {})
            patch.setattr(module, name, value)
            with pytest.warns(RuntimeWarning, match="numpy-ufunc-fields"):
                assert not pocketfft.is_available()


# --- operands -------------------------------------------------------------------------------------


def weighed(values, w):
    """A number of complex or real results."""
    return np.sum(values.real**2 * w[0]) + np.sum(values.imag * w[1])


@pytest.mark.parametrize("name", ["fft", "ifft", "irfft", "hfft", "rfft", "ihfft"])
def test_gradients_are_pytorchs(name, rng):
    torch = pytest.importorskip("torch")
    x = rng.normal(size=(3, 5))
    operands = [x] if name in ("rfft", "ihfft") else [x, x + 1j * rng.normal(size=x.shape)]
    norms = (None, "ortho", "forward")
    for z, n, axis, norm in itertools.product(operands, (None, 4, 7), (-1, 0), norms):
        value = getattr(np.fft, name)(z, n, axis, norm)
        w = rng.normal(size=(2, *value.shape))
        found = tg.grad(lambda z: weighed(getattr(np.fft, name)(z, n, axis, norm), w))(z)
        leaf = torch.tensor(z, requires_grad=True)
        made = getattr(torch.fft, name)(leaf, n, axis, norm)
        parts = (made.real, made.imag) if made.is_complex() else (made, 0.0 * made)
        (parts[0] ** 2 * torch.tensor(w[0]) + parts[1] * torch.tensor(w[1])).sum().backward()
        wanted = leaf.grad.resolve_conj().numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("name", ["fft2", "ifft2", "fftn", "ifftn", "rfftn", "irfftn", "irfft2"])
def test_values_of_several_axes_are_numpys(name, rng):
    x = rng.normal(size=(3, 4, 5))
    forms = [{}, {"s": (2, 6), "axes": (0, 2)}, {"s": (-1, 3), "axes": (1, 0), "norm": "ortho"}]
    for form in forms:
        for z in [x] if name == "rfftn" else [x, x * (1 + 0.5j)]:
            wanted = getattr(np.fft, name)(z, **form)
            found = getattr(np.fft, name)(tg.tensor(z, requires_grad=True), **form)
            assert found.dtype == wanted.dtype and found.shape == wanted.shape
            np.testing.assert_allclose(found.detach().numpy(), wanted, rtol=1e-12, atol=1e-12)


def test_dtypes(rng):
    x = rng.normal(size=6)
    for dtype in (np.float64, np.float32):
        t = tg.tensor(x.astype(dtype), requires_grad=True)
        made = np.fft.fft(t)
        assert made.dtype == np.fft.fft(t.detach().numpy()).dtype
        assert np.fft.irfft(made).dtype == dtype
        assert tg.grad(lambda x: np.sum(np.fft.rfft(x).imag))(x.astype(dtype)).dtype == dtype
    for plain in (np.arange(4), np.arange(4.0), [1, 2, 3], np.arange(3) * 1j):
        assert type(tg.fft(plain)) is np.ndarray
        np.testing.assert_array_equal(tg.fft(plain), np.fft.fft(plain))
    made = np.fft.rfft(tg.tensor(np.arange(5)))
    np.testing.assert_array_equal(made.numpy(), np.fft.rfft(np.arange(5)))
    found = tg.grad(lambda a: np.sum(tg.numpy.fft.rfft([a, 2.0 * a, 3.0]).imag))(1.5)
    assert np.isclose(found, np.sum(np.fft.rfft([1.0, 2.0, 0.0]).imag))


def test_parts_of_a_result_are_no_copies(rng):
    x = tg.tensor(rng.normal(size=8), requires_grad=True)
    made = np.fft.rfft(x)
    assert np.may_share_memory(made.real._array, made.imag._array)
    with tg.autograd.profiler.profile() as found:
        np.fft.irfft(made)
    assert not any("stack" in str(event.key).lower() for event in found.key_averages())


def test_out(rng):
    x = rng.normal(size=6)
    t = tg.tensor(x, requires_grad=True)
    out = np.empty(4, complex)
    with pytest.raises(TypeError, match="tapegrad"):
        np.fft.rfft(t, out=out)
    assert np.fft.rfft(tg.tensor(x), out=out) is out
    np.testing.assert_allclose(out, np.fft.rfft(x))
    with pytest.raises(ValueError, match=r"tapegrad.rfft: output array has wrong shape"):
        np.fft.rfft(t, out=np.empty(3, complex))

    def written(x):
        real = tg.zeros(6)
        np.fft.irfft(np.fft.rfft(x) * 2.0, out=real)
        return np.sum(real**2)

    np.testing.assert_allclose(tg.grad(written)(x), 8.0 * x)


@pytest.mark.parametrize("axes", [[0, 1], (), np.array([1, 0]), np.array([-1]), np.int64(0)])
@pytest.mark.parametrize("shift", [np.fft.fftshift, np.fft.ifftshift])
def test_axes_of_shifts(shift, axes):
    x = np.arange(15.0).reshape(3, 5)
    compiled = tg.compile(lambda x: shift(x, axes) * x)
    for point in (x, x[::-1]):
        wanted = shift(point, axes) * point
        found = shift(tg.tensor(point, requires_grad=True), axes) * point
        np.testing.assert_array_equal(found.detach(), wanted)
        np.testing.assert_array_equal(compiled(point), wanted)


def test_frequencies_with_a_recorded_spacing():
    for f in (np.fft.fftfreq, np.fft.rfftfreq):
        found = tg.grad(lambda d: np.sum(f(6, d) ** 2))(0.5)
        assert np.isclose(found, -4.0 * np.sum(f(6, 0.5) ** 2))


def test_a_filter_in_a_program_called_elsewhere(rng):
    def loss(x, taps):
        spectrum = np.fft.rfft(x) * np.fft.rfft(taps, len(x))
        return np.sum(np.fft.irfft(spectrum, len(x)) ** 2)

    c = tg.compile(loss, argnums=(0, 1))
    for _ in range(3):
        x, taps = rng.normal(size=32), rng.normal(size=5)
        for found, wanted in zip(c.grad(x, taps), tg.grad(loss, (0, 1))(x, taps), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)


# --- errors ---------------------------------------------------------------------------------------

ERRORS = [
    ("fft", (0,), {}),
    ("fft", (), {"axis": 2}),
    ("fft", (), {"norm": "other"}),
    ("fft", (2.5,), {}),
    ("rfft", (-1,), {}),
    ("irfft", (), {"axis": -3}),
    ("fftn", ((2, 3), (0,)), {}),
    ("fftn", ((0, 3), (0, 1)), {}),
    ("rfftn", (None, ()), {}),
    ("irfftn", (None, (0, 5)), {}),
]


@pytest.mark.parametrize("name,args,kwargs", ERRORS)
def test_errors_are_of_numpys_types(name, args, kwargs):
    function, x = getattr(np.fft, name), np.ones((3, 4))
    with pytest.raises(Exception) as wanted:
        function(x, *args, **kwargs)
    with pytest.raises(wanted.type, match=f"^tapegrad.{name}: "):
        function(tg.tensor(x, requires_grad=True), *args, **kwargs)


def test_other_errors():
    z = tg.tensor(np.ones(3) * 1j, requires_grad=True)
    for name in ("rfft", "ihfft"):
        with pytest.raises(TypeError, match=f"tapegrad.{name}: the operand is complex, and must"):
            getattr(np.fft, name)(z)
    with pytest.raises(ValueError, match=r"tapegrad.irfft: Invalid number of FFT data points \(0"):
        np.fft.irfft(z[:1])
    with pytest.raises(IndexError, match=r"tapegrad.fft: the operand has no axis"):
        tg.grad(lambda a: np.abs(np.fft.fft(a)))(1.0)
    with pytest.warns(DeprecationWarning, match="`axes` should not be `None`"):
        np.fft.fftn(z, (3,))
    with pytest.warns(DeprecationWarning, match="`None` values to `s`"):
        np.fft.fftn(z, (None,), (0,))
