"""Operations by rule in programs: values by LAPACK, rules as programs, and neither calls Python."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from program_parts import Arena, always
from ruled_programs import FUNCTIONS, definite, programs_of, refuse_python, rules_of

import tapegrad as tg
from tapegrad._core.ops.table import TABLE
from tapegrad._core.tensor.registry import load_families
from tapegrad._program.dispatch import rule_programs
from tapegrad._program.ir.kernel_step import Computed, Kernel
from tapegrad._program.ir.steps import View, contiguous
from tapegrad._program.replay import run_layout
from tapegrad._program.replay.operation_parts import error_of, part_of_rule

load_families()

SLOTS, OUT = 9000, 6000
CHOLESKY, SOLVE, LU = (TABLE[name].code for name in ("cholesky", "solve", "lu_factors"))
FACTORS, TURNED = 7000, (("transposed", 1),)


@pytest.fixture
def no_python(monkeypatch):
    refuse_python(monkeypatch)


# --- values ---------------------------------------------------------------------------------------


def views(n, lead=()):
    """Matrices in C order, in Fortran order, apart, backwards, and one for all of a batch."""
    size = n * n * int(np.prod(lead))
    whole = contiguous(1, (*lead, n, n))
    turned = View(1, (*lead, n, n), (*whole.strides[:-2], 1, n))
    apart = View(3, whole.shape, tuple(2 * s for s in whole.strides))
    back = View(size, whole.shape, tuple(-s for s in whole.strides))
    return [whole, turned, apart, back, View(1, whole.shape, (*[0] * len(lead), n, 1))]


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n,lead", [(0, ()), (1, ()), (5, ()), (3, (2, 2)), (2, (0,)), (40, ())])
def test_cholesky_reads_one_triangle_as_numpy_does(n, lead, upper, rng):
    for view in views(n, lead):
        out = contiguous(OUT, (*lead, n, n))
        arena = Arena(SLOTS, rng)
        arena.value(view)[...] = definite(rng, *lead, n, n)
        arena.value(view)[...] += (np.triu if not upper else np.tril)(
            np.full((n, n), 7.0), 1 if not upper else -1
        )
        given = arena.value(view).copy()
        part = part_of_rule(Kernel(CHOLESKY, [(("upper", upper),), view], out), always)
        assert arena.forward(part) == run_layout.FINISHED
        np.testing.assert_allclose(
            arena.value(out), np.linalg.cholesky(given, upper=upper), 1e-12, 1e-14
        )
        np.testing.assert_array_equal(arena.value(view), given)


SHAPES = [
    *[((n, n), (n,)) for n in (0, 1, 2, 7, 40)],
    *[((n, n), (n, k)) for n in (1, 4) for k in (0, 1, 3)],
    *[((2, 3, 3), (3,)), ((3, 3), (2, 3, 4)), ((2, 1, 3, 3), (5, 3, 2)), ((0, 3, 3), (3, 2))],
    ((4, 2, 3, 3), (2, 3, 1)),
]


@pytest.mark.parametrize("kind", ["full", "lower", "upper", "diagonal"])
@pytest.mark.parametrize("a_shape,b_shape", SHAPES)
def test_solutions_of_all_shapes(a_shape, b_shape, kind, rng):
    n = a_shape[-1]
    a = rng.normal(size=a_shape) + n * np.eye(n)
    a = {"full": a, "lower": np.tril(a), "upper": np.triu(a), "diagonal": a * np.eye(n)}[kind]
    b = rng.normal(size=b_shape)
    wanted = np.linalg.solve(a, b)
    for order in (1, -1):
        arena = Arena(SLOTS, rng)
        left, right = contiguous(5, a_shape[::order]), contiguous(4000, b_shape[::order])
        if order < 0:  # the same elements with the axes the other way round
            left = View(5, a_shape, left.strides[::-1])
            right = View(4000, b_shape, right.strides[::-1])
        arena.value(left)[...], arena.value(right)[...] = a, b
        out = contiguous(OUT, wanted.shape)
        factors = factored(arena, left)
        part = part_of_rule(Kernel(SOLVE, [(), left, right, factors], out), always)
        assert arena.forward(part) == run_layout.FINISHED
        np.testing.assert_allclose(arena.value(out), wanted, 1e-11, 1e-12)
        kept = arena.value(factors).copy()
        part = part_of_rule(Kernel(SOLVE, [TURNED, left, right, factors], out), always)
        assert arena.forward(part) == run_layout.FINISHED
        turned = np.linalg.solve(np.swapaxes(a, -1, -2), b)
        np.testing.assert_allclose(arena.value(out), turned, 1e-11, 1e-12)
        by_python = TABLE["solve"].value(a, b, kept, transposed=1)
        np.testing.assert_allclose(by_python, turned, 1e-11, 1e-12)
        np.testing.assert_array_equal(arena.value(factors), kept)
        np.testing.assert_array_equal(arena.value(left), a)
        np.testing.assert_array_equal(arena.value(right), b)


def factored(arena, a):
    """The factors of matrices, computed in an arena; where they are."""
    out = contiguous(FACTORS, (*a.shape[:-2], a.shape[-1] + 1, a.shape[-1]))
    part = part_of_rule(Kernel(LU, [(), a], out), always)
    assert arena.forward(part) == run_layout.FINISHED
    return out


REFUSED = {
    "not definite": (CHOLESKY, np.diag([1.0, -1.0, 1.0])),
    "zero": (CHOLESKY, np.zeros((3, 3))),
    "last of a batch": (CHOLESKY, np.stack([np.eye(3), -np.eye(3)])),
    "singular": (SOLVE, np.ones((3, 3))),
    "without a row": (SOLVE, np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0], [3.0, 2.0, 2.0]])),
    "triangular": (SOLVE, np.array([[1.0, 0.0, 0.0], [2.0, 0.0, 0.0], [3.0, 2.0, 2.0]])),
    "one by one": (SOLVE, np.zeros((1, 1))),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_numpy_refuses(name, rng):
    code, a = REFUSED[name]
    b = np.ones(a.shape[-1])
    with pytest.raises(np.linalg.LinAlgError) as wanted:
        np.linalg.solve(a, b) if code == SOLVE else np.linalg.cholesky(a)
    arena = Arena(SLOTS, rng)
    view, right = contiguous(5, a.shape), contiguous(1000, b.shape)
    arena.value(view)[...], arena.value(right)[...] = a, b
    operands = [(), view, right, factored(arena, view)] if code == SOLVE else [(), view]
    out = contiguous(OUT, b.shape if code == SOLVE else a.shape)
    part = part_of_rule(Kernel(code, operands, out), always)
    status = arena.forward(part)
    assert status == run_layout.REFUSED
    error = error_of(arena.run.address, status)
    assert type(error) is np.linalg.LinAlgError and str(error) == str(wanted.value)


@pytest.mark.parametrize("odd", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("place", [(0, 0), (1, 0), (0, 1), (2, 2)])
@pytest.mark.parametrize("triangular", [False, True])
def test_numbers_that_are_not_finite(odd, place, triangular, rng):
    """What NumPy gives: no finite number of LAPACK's where NumPy has none."""
    a = definite(rng, 3, 3)
    a = np.tril(a) if triangular else a
    a[place] = odd
    for f in (lambda a: np.linalg.solve(a, np.ones(3)), np.linalg.cholesky):
        c = tg.compile(f, verify="never", native=False)
        c(definite(rng, 3, 3))
        try:
            wanted = f(a)
        except np.linalg.LinAlgError:
            with pytest.raises(np.linalg.LinAlgError):
                c(a)
        else:
            np.testing.assert_allclose(c(a), wanted, rtol=1e-12)


# --- derivatives ----------------------------------------------------------------------------------


def gaussian(a, y):
    """Minus the log of a normal density."""
    factor = np.linalg.cholesky(a)
    z = np.linalg.solve(factor, y)
    return 0.5 * np.sum(z * z) + np.sum(np.log(np.diagonal(factor)))


def gaussian_gradient(a, y):
    inverse = np.linalg.inv(a)
    back = inverse @ y
    return 0.5 * (inverse - np.outer(back, back)), back


@pytest.mark.parametrize("n", [1, 2, 10, 33])
def test_a_gaussian_density_in_closed_form(n, rng, no_python):
    c = tg.compile(gaussian, argnums=(0, 1), verify="never", native=False)
    for _ in range(4):
        a, y = definite(rng, n, n), rng.normal(size=n)
        value, (of_a, of_y) = c.value_and_grad(a, y)
        wanted = 0.5 * y @ np.linalg.solve(a, y) + 0.5 * np.linalg.slogdet(a)[1]
        np.testing.assert_allclose(value, wanted, rtol=1e-12)
        wanted_a, wanted_y = gaussian_gradient(a, y)
        np.testing.assert_allclose(of_a, wanted_a, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(of_y, wanted_y, rtol=1e-9, atol=1e-12)
    found = [one for one in rules_of(c) if not one.op.constant]
    assert len(found) == 2 and all(one.made is not None for one in found)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_derivatives_at_other_inputs(name, rng, no_python):
    """Programs against the eager library, of orders 0 to 2."""
    f, v = FUNCTIONS[name], rng.normal(size=(4, 4))
    c = tg.compile(f, verify="never", native=False)
    for k in range(2):
        a = definite(rng, 4, 4)
        a = a[::-1, ::-1] if k and name in ("repeated", "view") else a  # in another memory order
        value, slope = c.value_and_grad(a)
        np.testing.assert_allclose(value, f(np.array(a)), rtol=1e-11)
        np.testing.assert_allclose(slope, tg.grad(f)(a), rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(c.hvp(a, v), tg.hvp(f)(a, v), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(c.hessian(a), tg.hessian(f)(a), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(c.jvp((a,), (v,)), tg.jvp(f, (a,), (v,)), rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(c.jacobian(a), slope, rtol=1e-9, atol=1e-11)
    assert c._reason is None
    steps = [step for program in programs_of(c) for step in program.code.steps]
    assert not any(step.calls_python for step in steps)
    assert not any(isinstance(step, Computed) for step in steps)


@pytest.mark.parametrize("name", ["cholesky", "repeated", "batch", "written"])
def test_ways_to_call(name, rng, no_python, tmp_path):
    """Rows on threads, sums, Numba, native code, files, several threads at once."""
    f = FUNCTIONS[name]
    many = np.stack([definite(rng, 4, 4) for _ in range(9)])
    values, slopes = [f(a) for a in many], [tg.grad(f)(a) for a in many]

    def same(found, wanted):
        for one, two in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-11)

    for native in (False, True):
        c = tg.compile(f, verify="never", native=native)
        c.grad(many[0])
        c.wait()
        same(c.map(many, threads=3), (values, slopes))
        same(c.sum(many, threads=2), (np.sum(values), slopes))
        value, value_and_grad = c.numba(many[0])
        for a, wanted, slope in zip(many, values, slopes, strict=True):
            out = np.full_like(a, np.nan)
            np.testing.assert_allclose(value(a), wanted, rtol=1e-11)
            same((value_and_grad(a, out), out), (wanted, slope))
        with ThreadPoolExecutor(4) as pool:
            same(list(pool.map(c.grad, many)), slopes)
    c.save(tmp_path / "f.npz")
    rule_programs._known.clear()
    loaded = tg.load(tmp_path / "f.npz")
    same([loaded.grad(a) for a in many], slopes)


def test_float32(rng):
    f = FUNCTIONS["repeated"]
    a = definite(rng, 4, 4).astype(np.float32)
    c = tg.compile(f)
    for _ in range(3):
        found = c.grad(a)
    assert found.dtype == np.float32 and c._reason is None
    np.testing.assert_allclose(found, tg.grad(f)(a.astype(float)), rtol=2e-3, atol=2e-3)


def test_an_adjoint_of_0_passes_on_nothing(rng):
    """However steep the rest is: a matrix that is all but singular, and no NaN."""
    c = tg.compile(
        lambda a, w: np.sum(np.linalg.solve(a, np.ones(2)) * w),
        argnums=0,
        verify="never",
        native=False,
    )
    c.grad(np.eye(2), np.ones(2))
    found = c.grad(np.array([[1e-300, 0.0], [0.0, 1e-300]]), np.zeros(2))
    np.testing.assert_array_equal(found, np.zeros((2, 2)))


def test_large_inputs_stay_with_the_caller(rng):
    """Their adjoints lie in memory that a run does not own."""
    n = 150
    f = lambda a, b: np.sum(np.linalg.solve(a, b) ** 2)
    a, b = definite(rng, n, n), rng.normal(size=(n, n))
    for argnums in (0, 1, (0, 1)):
        c = tg.compile(f, argnums=argnums, verify="never", native=False)
        for _ in range(2):
            found, wanted = c.grad(a, b), tg.grad(f, argnums)(a, b)
            np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-10)
        assert all(one.view.base for p in programs_of(c) for one in p.code.inputs)
