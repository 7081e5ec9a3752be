"""Complex matrices in programs: values and derivatives by LAPACK, and no step calls Python."""

import dataclasses
import itertools
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.linalg
from ruled_programs import programs_of, refuse_python

import tapegrad as tg
import tapegrad.scipy.linalg as la
from tapegrad._core.operations.declaring import by_kernel, parted, whole
from tapegrad._core.ops.table import COMPLEX, TABLE
from tapegrad._core.tensor.registry import load_families
from tapegrad._program.files.encode import check
from tapegrad._program.ir.kernel_step import Computed
from tapegrad._program.ir.uses import IllegalProgram

load_families()


@pytest.fixture
def no_python(monkeypatch):
    refuse_python(monkeypatch)


def normal(rng, *shape):
    return rng.normal(size=shape) + 1j * rng.normal(size=shape)


def turned(a):
    return np.conj(np.swapaxes(a, -1, -2))


def hermitian(a):
    return a + turned(a)


def definite(a):
    return a @ turned(a) + 2.0 * np.eye(a.shape[-1])


# --- values ---------------------------------------------------------------------------------------

#: Layouts of the real array with an axis of two parts.
LAYOUTS = {
    "C": lambda x: x,
    "parts apart": lambda x: np.moveaxis(np.ascontiguousarray(np.moveaxis(x, -1, 0)), 0, -1),
    "turned": lambda x: np.ascontiguousarray(np.swapaxes(x, -2, -3)).swapaxes(-2, -3),
    "backwards": lambda x: np.ascontiguousarray(x[..., ::-1, ::-1, :])[..., ::-1, ::-1, :],
    "parts exchanged": lambda x: np.ascontiguousarray(x[..., ::-1])[..., ::-1],
}
SQUARE = [(0, 0), (1, 1), (4, 4), (33, 33), (2, 0, 3, 3), (2, 3, 3)]
SHAPES = [*SQUARE, (3, 2), (2, 5, 3), (2, 3, 5), (0, 3)]
KEYWORDS = {
    "solve": [{"transposed": k} for k in (0, 1)],
    "cholesky": [{"upper": k} for k in (False, True)],
    "eigh": [{"lower": k} for k in (False, True)],
    "eigvalsh": [{"lower": k} for k in (False, True)],
    "svd": [{"full": k} for k in (False, True)],
    "qr": [{"complete": k} for k in (False, True)],
    "pinv": [{"hermitian": k} for k in (False, True)],
    "solve_triangular": [
        dict(trans=trans, lower=lower, unit_diagonal=unit)
        for trans, lower, unit in itertools.product((0, 1, 2), (False, True), (False, True))
    ],
}
OF_ANY = {"svd", "svdvals", "qr", "lu_factor", "pinv"}
NAMES = sorted({"lu_factors", "inv", "det", "slogdet", "svdvals", "lu_factor", *KEYWORDS})


def operands(name, shape, rng):
    a = normal(rng, *shape)
    if name in ("cholesky", "lu_factors", "solve", "inv", "det", "slogdet"):
        a = definite(a)
    if name in ("lu_factors", "solve", "inv", "det", "slogdet"):
        a[..., :1, 1:] += 1.0j
    if name == "lu_factors" and shape[-1] == 1:
        a = np.repeat(np.repeat(a, 2, -1), 2, -2) + np.eye(2)  # one number is its own factor
    factors = [TABLE["lu_factors"].value(a)] if name in ("solve", "inv", "det", "slogdet") else []
    right = [normal(rng, *shape)[..., :2]] if name in ("solve", "solve_triangular") else []
    return [a, *right, *factors, *([np.array([1e-13])] if name == "pinv" else [])]


@pytest.mark.parametrize("name", NAMES)
def test_values(name, rng):
    """Those of the function that computes with complex arrays, NumPy's or SciPy's."""
    op, form = TABLE[name], COMPLEX[f"{name}.complex"]
    for shape, static in itertools.product(SHAPES, KEYWORDS.get(name, [{}])):
        is_square = shape[-2] == shape[-1]
        if not is_square and (name not in OF_ANY or static.get("hermitian")):
            continue
        given = operands(name, shape, rng)
        wanted = op.value(*given, **static)
        for turn in LAYOUTS.values():
            views = [parted(x) if x.ndim < 2 else turn(parted(x)) for x in given]
            made = by_kernel(form, views, static)
            assert made.shape == (*wanted.shape, 2) and made.flags.c_contiguous
            np.testing.assert_allclose(whole(made), wanted, rtol=1e-11, atol=1e-12)


def test_triangular_matrices_are_their_own_factors(rng):
    """A solution by them is exact where a factorization rounds."""
    for a in (np.tril(normal(rng, 4, 4)), np.triu(normal(rng, 4, 4)), np.diag(normal(rng, 4))):
        factors = by_kernel(COMPLEX["lu_factors.complex"], [parted(a)], {})
        np.testing.assert_array_equal(whole(factors)[:-1].T, a)
        b, lu = normal(rng, 4, 2), whole(factors)
        made = [
            whole(by_kernel(COMPLEX[f"{name}.complex"], [*map(parted, given)], static))
            for name, given, static in [
                ("solve", (a, b, lu), {}),
                ("solve", (a, b, lu), {"transposed": 1}),
                ("inv", (a, lu), {}),
                ("det", (a, lu), {}),
            ]
        ]
        np.testing.assert_allclose(a @ made[0], b, atol=1e-12)
        np.testing.assert_allclose(turned(a) @ made[1], b, atol=1e-12)
        np.testing.assert_allclose(a @ made[2], np.eye(4), atol=1e-12)
        np.testing.assert_allclose(made[3], np.prod(np.diag(a)), rtol=1e-13)


def test_shapes_that_kernels_are_given():
    """A program from a file may have operands without two parts."""
    shape = COMPLEX["cholesky.complex"].shape
    assert shape((3, 3, 2)) == (3, 3, 2)
    for wrong in [(3, 3), (2, 2, 1), (2, 2, 3), (2, 2), ()]:
        with pytest.raises(ValueError):
            shape(wrong)


def test_pseudo_inverses_of_symmetric_matrices_read_the_lower_triangle(rng):
    a = rng.normal(size=(4, 4))
    wanted = np.linalg.pinv(a, hermitian=True)
    made = np.linalg.pinv(tg.tensor(a, requires_grad=True), hermitian=True)
    np.testing.assert_allclose(made.detach().numpy(), wanted, rtol=1e-11, atol=1e-12)


# --- derivatives ----------------------------------------------------------------------------------

FUNCTIONS = {
    "solve": lambda a: np.linalg.solve(a, 1j * a.T),
    "vector": lambda a: np.linalg.solve(a, a[0]),
    "real matrix": lambda a: np.linalg.solve(a.real + 3.0 * np.eye(4), a),
    "constant": lambda a: np.linalg.solve(np.diag([1.0, 2j, 3.0, 4.0]), a),
    "batch": lambda a: np.linalg.solve(np.stack([a, 2j * a]), a[:, :2]),
    "turned": lambda a: np.linalg.solve(a[::-1, ::-1].T, turned(a)[:, 1:]),
    "inv": lambda a: np.linalg.inv(np.stack([a, a.T @ a])),
    "slogdet": lambda a: np.linalg.slogdet(a)[0] * np.linalg.slogdet(a)[1],
    "cholesky": lambda a: np.linalg.cholesky(definite(a)),
    "upper": lambda a: np.linalg.cholesky(definite(np.stack([a, 1j * a])), upper=True),
    "eigvalsh": lambda a: np.linalg.eigvalsh(hermitian(a)) + 0j,
    "eigh": lambda a: rebuilt(*np.linalg.eigh(hermitian(a))),
    "svdvals": lambda a: np.linalg.svdvals(a[:3]) + 0j,
    "svd": lambda a: rebuilt_from_both(*np.linalg.svd(a[:, :3], full_matrices=False)),
    "qr": lambda a: np.linalg.qr(a[:, :3])[0] @ np.linalg.qr(a)[1][:3],
    "pinv": lambda a: np.linalg.pinv(a[:3]),
    "triangular": lambda a: la.solve_triangular(a + 2.0 * np.eye(4), a, trans=2, lower=True),
    "cho_solve": lambda a: la.cho_solve((np.linalg.cholesky(definite(a)), True), a[1]),
    "one": lambda a: np.linalg.solve(a[:1, :1], a[:1]) * np.linalg.inv(a[1:2, 1:2]),
    "nothing": lambda a: (
        np.linalg.solve(a[:0, :0], a[:0]).sum() + np.linalg.inv(a[:0, :0]).sum() + a
    ),
}


def rebuilt(w, v):
    return (v * np.exp(0.1j * w)) @ turned(v)


def rebuilt_from_both(u, s, vh):
    return (u * np.sin(s)) @ vh


def of_parts(f):
    """A real function of the parts of a matrix, in which all parts of the result count."""

    def loss(x):
        made = f(x[0] + 1j * x[1])
        return np.sum(np.abs(made) ** 2) * 0.3 + np.sum(np.sin(made.real)) + np.sum(made.imag) ** 2

    return loss


def of_plain(f, x):
    """Its value by NumPy and SciPy alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(la, "solve_triangular", scipy.linalg.solve_triangular)
        patch.setattr(la, "cho_solve", scipy.linalg.cho_solve)
        return of_parts(f)(x)


def steps_of(c):
    return [step for program in programs_of(c) for step in program.code.steps]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_at_other_inputs(name, rng, no_python):
    """Programs against NumPy and the eager library, of orders 0 to 2."""
    f, v = of_parts(FUNCTIONS[name]), rng.normal(size=(2, 4, 4))
    c = tg.compile(f, verify="never", native=False)
    for _ in range(2):
        x = rng.normal(size=(2, 4, 4))
        value, slope = c.value_and_grad(x)
        np.testing.assert_allclose(value, of_plain(FUNCTIONS[name], x), rtol=1e-11)
        np.testing.assert_allclose(slope, tg.grad(f)(x), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(c.hvp(x, v), tg.hvp(f)(x, v), rtol=1e-7, atol=1e-8)
    assert c._reason is None
    assert not any(step.calls_python or isinstance(step, Computed) for step in steps_of(c))


@pytest.mark.parametrize("name", ["solve", "inv", "slogdet", "cholesky", "eigh", "svdvals", "qr"])
def test_gradients_of_complex_arguments(name, rng, no_python):
    """PyTorch's convention, as the eager library has it."""

    def loss(a):
        made = FUNCTIONS[name](a)
        return np.sum(made * np.conj(made)).real + np.sum(np.cos(made.imag))

    c = tg.compile(loss, verify="never", native=False)
    for _ in range(2):
        a = normal(rng, 4, 4)
        h, step = normal(rng, 4, 4), 1e-6
        slope = c.grad(a)
        np.testing.assert_allclose(slope, tg.grad(loss)(a), rtol=1e-8, atol=1e-10)
        difference = (loss(a + step * h) - loss(a - step * h)) / (2.0 * step)
        np.testing.assert_allclose(np.sum(np.conj(slope) * h).real, difference, rtol=1e-5)


def test_determinants(rng):
    """Their values are without Python; the derivative, as of real matrices, is not."""
    f = of_parts(np.linalg.det)
    c = tg.compile(f, verify="never", native=False)
    for _ in range(3):
        x = rng.normal(size=(2, 4, 4))
        np.testing.assert_allclose(c(x), f(x), rtol=1e-11)
        np.testing.assert_allclose(c.grad(x), tg.grad(f)(x), rtol=1e-8, atol=1e-10)
    assert "det.complex: value without Python" in c.explain()
    singular = np.stack([np.ones((4, 4)), np.zeros((4, 4))])
    np.testing.assert_allclose(c(singular), f(singular))
    np.testing.assert_allclose(c.grad(singular), tg.grad(f)(singular), atol=1e-10)


@pytest.mark.parametrize("name", ["eigvalsh", "svdvals"])
def test_equal_values(name, rng, no_python):
    """Second derivatives turn the bases inside of spaces of equal values, Hermitian blocks."""
    q = np.linalg.qr(normal(rng, 4, 4))[0]
    a = (q * [1.0, 1.0, 1.0, 3.0]) @ turned(q)
    x, v = np.stack([a.real, a.imag]), rng.normal(size=(2, 4, 4))

    def f(x):
        a = x[0] + 1j * x[1]
        values = np.linalg.eigvalsh(hermitian(a)) if name == "eigvalsh" else np.linalg.svdvals(a)
        return np.sum(np.exp(values))

    c = tg.compile(f, verify="never", native=False)
    c.hvp(rng.normal(size=x.shape), v)
    found = c.hvp(x, v)
    np.testing.assert_allclose(found, tg.hvp(f)(x, v), rtol=1e-8, atol=1e-8)
    step = 1e-5
    ends = [tg.grad(f)(x + sign * step * v) for sign in (1.0, -1.0)]
    np.testing.assert_allclose(found, (ends[0] - ends[1]) / (2.0 * step), rtol=1e-5, atol=1e-5)


# --- ways to call ---------------------------------------------------------------------------------


def test_ways_to_call(rng, no_python, tmp_path):
    """Rows on threads, native code, files, several threads at once."""

    def f(x):
        a = x[0] + 1j * x[1]
        lower = np.linalg.cholesky(definite(a))
        w = np.linalg.eigvalsh(hermitian(a))
        return np.sum(np.abs(np.linalg.solve(a, lower)) ** 2) + np.sum(np.linalg.inv(a).real * w)

    many = rng.normal(size=(8, 2, 3, 3))
    values, slopes = [f(x) for x in many], [tg.grad(f)(x) for x in many]
    for native in (False, True):
        c = tg.compile(f, verify="never", native=native)
        c.grad(many[0])
        c.wait()
        found = c.map(many, threads=2)
        np.testing.assert_allclose(found[0], values, rtol=1e-10)
        np.testing.assert_allclose(found[1], slopes, rtol=1e-8, atol=1e-9)
        with ThreadPoolExecutor(4) as pool:
            np.testing.assert_allclose(list(pool.map(c.grad, many)), slopes, rtol=1e-8, atol=1e-9)
    c.save(tmp_path / "f.npz")
    loaded = tg.load(tmp_path / "f.npz")
    for x, value, slope in zip(many, values, slopes, strict=True):
        np.testing.assert_allclose(loaded(x), value, rtol=1e-10)
        np.testing.assert_allclose(loaded.grad(x), slope, rtol=1e-8, atol=1e-9)


def test_loops_in_native_code(rng):
    """Kernels are called from the loop."""

    def f(x):
        a, b = x[0] + 1j * x[1], np.ones(3) + 0j
        for _ in range(6):
            b = np.linalg.solve(a, b) + 0.5
        return np.sum(np.abs(b) ** 2)

    c = tg.compile(f, native=True)
    for _ in range(2):
        x = rng.normal(size=(2, 3, 3)) + 2.0 * np.eye(3)
        c.value_and_grad(x)
        c.wait()
        value, slope = c.value_and_grad(x)
        np.testing.assert_allclose(value, f(x), rtol=1e-10)
        np.testing.assert_allclose(slope, tg.grad(f)(x), rtol=1e-8, atol=1e-10)


def test_batches_of_functions(rng):
    f = of_parts(FUNCTIONS["vector"])
    many = rng.normal(size=(5, 2, 4, 4))
    c = tg.compile(tg.vmap(tg.grad(f)), verify="never", native=False)
    for x in (many, many[::-1] * 2.0):
        np.testing.assert_allclose(c(x), [tg.grad(f)(one) for one in x], rtol=1e-8, atol=1e-10)


def test_single_precision(rng):
    """Programs of complex64 call Python, and are right."""
    f = of_parts(FUNCTIONS["solve"])
    x = (rng.normal(size=(2, 4, 4)) + 2.0 * np.eye(4)).astype(np.float32)
    c = tg.compile(f, verify="never", native=False)
    for _ in range(2):
        found = c.grad(x)
    assert found.dtype == np.float32 and c._reason is None
    np.testing.assert_allclose(found, tg.grad(f)(x.astype(float)), rtol=2e-3, atol=2e-3)


# --- errors ---------------------------------------------------------------------------------------

SINGULAR = {
    "solve": (lambda a: np.linalg.solve(a, a), np.ones((3, 3)) * (1.0 + 1.0j)),
    "inv": (np.linalg.inv, np.zeros((3, 3)) * 1j),
    "one of several": (
        lambda a: np.linalg.inv(np.stack([np.eye(3) + a, a])),
        np.zeros((3, 3)) * 1j,
    ),
    "cholesky": (np.linalg.cholesky, np.diag([1.0, -1.0, 2.0]) + 0j),
    "svdvals": (np.linalg.svdvals, np.full((3, 3), np.nan) + 0j),
    "triangular": (lambda a: la.solve_triangular(a, a), np.diag([1.0, 0.0, 2.0]) + 0j),
}


@pytest.mark.parametrize("name", SINGULAR)
def test_errors(name, rng):
    """Every call of a program raises what the function itself raises, and serves other inputs."""
    f, bad = SINGULAR[name]
    good = definite(normal(rng, 3, 3))
    c = tg.compile(lambda a: np.sum(np.abs(f(a)) ** 2), verify="never", native=False)
    wanted = c.grad(good)
    with pytest.raises(np.linalg.LinAlgError) as eager:
        f(tg.tensor(bad, requires_grad=True))
    for call in (c, c.grad, c.value_and_grad) * 2:
        with pytest.raises(np.linalg.LinAlgError) as raised:
            call(bad)
        assert str(raised.value) == str(eager.value)
        np.testing.assert_allclose(c.grad(good), wanted, rtol=1e-10, atol=1e-12)
    assert c._reason is None


def test_logarithms_of_singular_matrices(rng):
    """They have values, but no derivative."""
    f = lambda a: np.linalg.slogdet(a)[1] + np.abs(np.linalg.slogdet(a)[0])
    c = tg.compile(f, verify="never", native=False)
    c.grad(definite(normal(rng, 3, 3)))
    for bad in (np.ones((3, 3)) * 1j, np.zeros((3, 3)) * 1j, np.diag([1j, 0.0, 2.0])):
        assert c(bad) == f(bad) == -np.inf
        for call in (c.grad, tg.grad(f)):
            with pytest.raises(np.linalg.LinAlgError, match="Singular matrix"):
                call(bad)


@pytest.mark.parametrize("name", ["solve", "inv", "slogdet", "cholesky"])
@pytest.mark.parametrize("bad", [np.nan, np.inf, complex(0.0, np.nan), complex(1.0, -np.inf)])
def test_numbers_that_are_not_finite(name, bad, rng):
    """NaN is where the eager library has it; what it raises is raised."""
    f = {
        "solve": lambda a: np.linalg.solve(a, a[0]),
        "inv": np.linalg.inv,
        "slogdet": lambda a: np.linalg.slogdet(a)[1] + 0j,
        "cholesky": np.linalg.cholesky,
    }[name]
    a = definite(normal(rng, 3, 3))
    c = tg.compile(f, verify="never", native=False)
    c(a), c(a)
    a[1, 0], a[0, 1] = bad, np.conj(bad)
    with np.errstate(all="ignore"):
        try:
            wanted = f(tg.tensor(a, requires_grad=True)).detach().numpy()
        except np.linalg.LinAlgError as error:
            with pytest.raises(np.linalg.LinAlgError, match=str(error)):
                c(a)
        else:
            np.testing.assert_array_equal(np.isfinite(c(a)), np.isfinite(wanted))


def test_programs_of_other_operands_are_refused(rng):
    """A step whose operand does not have two parts is no legal program."""
    c = tg.compile(lambda a: np.linalg.cholesky(a).real, verify="never", native=False)
    c(definite(normal(rng, 3, 3)))
    (program,) = programs_of(c)
    code = program.code
    at = next(
        k for k, step in enumerate(code.steps) if getattr(step, "called", "") == "cholesky.complex"
    )
    step = code.steps[at]
    view = step.operands[1]
    cut = dataclasses.replace(view, shape=(*view.shape[:-1], 1))
    changed = dataclasses.replace(step, operands=[step.operands[0], cut])
    code = dataclasses.replace(code, steps=[*code.steps[:at], changed, *code.steps[at + 1 :]])
    with pytest.raises(IllegalProgram):
        check(code)
