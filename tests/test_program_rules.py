"""Operations by rule in programs: values by LAPACK, rules as programs, and neither calls Python."""

import dataclasses
from concurrent.futures import ThreadPoolExecutor

import declared
import numpy as np
import pytest
import scipy.linalg
from program_parts import Arena, always

import tapegrad as tg
from tapegrad._core.ops.table import BY_CODE, TABLE
from tapegrad._program.dispatch import rule_programs
from tapegrad._program.ir.steps import Computed, Kernel, View, contiguous
from tapegrad._program.replay import rule_parts, run_layout
from tapegrad._program.replay.opaque_calls import error_of
from tapegrad._program.replay.rule_parts import calls_python, part_of_rule

SLOTS, OUT = 9000, 6000
CHOLESKY, SOLVE = TABLE["cholesky"].code, TABLE["solve"].code


def programs_of(c):
    """All programs of a compiled function and of its transforms."""
    for one in (c, *c._derived.values()):
        for family in one._families.found.values():
            yield from (variant.program for variant in family.found)


def rules_of(c):
    """The operations by rule in them."""
    parts = [part for p in programs_of(c) for step in p.parts.of for part in step]
    return [found for found in map(rule_parts.ruled_of, parts) if found is not None]


def definite(rng, *shape):
    a = rng.normal(size=shape)
    return a @ np.swapaxes(a, -1, -2) + shape[-1] * np.eye(shape[-1])


@pytest.fixture
def no_python(monkeypatch):
    """No step of a program may call Python, but for the first call of a rule, which makes it."""

    def refuse(*_):
        raise AssertionError("a program calls Python")

    monkeypatch.setattr(rule_parts.Ruled, "compute", refuse)
    monkeypatch.setattr(rule_parts.Use, "parts", _traced_only(rule_parts.Use.parts))


def _traced_only(parts):
    def asked(self, g, *others):
        assert rule_programs.rt.trace() is not None, "a rule is called in Python"
        return parts(self, g, *others)

    return asked


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
        part = part_of_rule(Kernel(SOLVE, [(), left, right], out), always)
        assert arena.forward(part) == run_layout.FINISHED
        np.testing.assert_allclose(arena.value(out), wanted, 1e-11, 1e-12)
        np.testing.assert_array_equal(arena.value(left), a)
        np.testing.assert_array_equal(arena.value(right), b)


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
    value, b = BY_CODE[code].value, np.ones(a.shape[-1])
    with pytest.raises(np.linalg.LinAlgError) as wanted:
        value(a, b) if code == SOLVE else value(a)
    arena = Arena(SLOTS, rng)
    view, right = contiguous(5, a.shape), contiguous(1000, b.shape)
    arena.value(view)[...], arena.value(right)[...] = a, b
    operands = [(), view, right] if code == SOLVE else [(), view]
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
    assert len(rules_of(c)) == 2 and all(found.made is not None for found in rules_of(c))


FUNCTIONS = {
    "cholesky": lambda a: np.sum(np.sin(np.linalg.cholesky(a))),
    "upper": lambda a: np.sum(np.sin(np.linalg.cholesky(a @ a.T, upper=True)) * a),
    "repeated": lambda a: np.sum(np.linalg.solve(a, a.T) * np.linalg.solve(a.T, a)),
    "itself": lambda a: np.sum(np.linalg.solve(a, a) * a),
    "vector": lambda a: np.sum(np.linalg.solve(a, a[0]) ** 2),
    "constant": lambda a: np.sum(np.linalg.solve(a, np.arange(4.0)) ** 3),
    "constant matrix": lambda a: np.sum(np.linalg.solve(np.diag([2.0, 3.0, 4.0, 5.0]), a) ** 2),
    "batch": lambda a: np.sum(np.linalg.solve(np.stack([a, 2.0 * a]), a[:, :2]) ** 2),
    "broadcast": lambda a: np.sum(np.linalg.solve(a, np.stack([a, a.T, a @ a])) ** 2),
    "factors": lambda a: np.sum(np.linalg.cholesky(np.stack([a, a @ a])) ** 3),
    "view": lambda a: np.sum(np.linalg.solve(a[::-1, ::-1].T, a[:, ::-1]) ** 2),
    "one": lambda a: np.sum(np.linalg.solve(a[:1, :1], a[:1]) * np.linalg.cholesky(a[1:2, 1:2])),
    "nothing": lambda a: np.sum(np.linalg.solve(a[:0, :0], a[:0]) ** 2) + np.sum(a * a),
    "written": lambda a: np.sum(written(a) ** 2),
    "number": lambda a: np.linalg.cholesky(a[:1, :1])[0, 0] * np.linalg.solve(a, a[0])[1],
}


def written(a):
    y = np.copy(a)
    y[0] = a[0] * 2.0
    y[1:3, 1:3] += np.linalg.cholesky(a[1:3, 1:3])
    return np.linalg.solve(y, a)


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
    assert not any(map(calls_python, steps))
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


def test_float32_runs_eagerly(rng):
    f = FUNCTIONS["repeated"]
    a = definite(rng, 4, 4).astype(np.float32)
    c = tg.compile(f)
    with pytest.warns(RuntimeWarning, match="float32"):
        found = c.grad(a)
    assert found.dtype == np.float32
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
    f = lambda a, b: np.sum(np.linalg.solve(a, b) ** 2)  # noqa: E731
    a, b = definite(rng, n, n), rng.normal(size=(n, n))
    for argnums in (0, 1, (0, 1)):
        c = tg.compile(f, argnums=argnums, verify="never", native=False)
        for _ in range(2):
            found, wanted = c.grad(a, b), tg.grad(f, argnums)(a, b)
            np.testing.assert_allclose(found, wanted, rtol=1e-7, atol=1e-10)
        assert all(one.view.base for p in programs_of(c) for one in p.code.inputs)


# --- the programs of rules ------------------------------------------------------------------------


def counted(op, calls):
    def vjp(np, g, out, *operands, **static):
        calls.append(rule_programs.rt.trace() is not None)
        return op.vjp(np, g, out, *operands, **static)

    return dataclasses.replace(op, vjp=vjp)


def test_a_rule_is_traced_once_for_the_process(rng):
    a, calls = definite(rng, 4, 4), []
    with declared.declared(counted(TABLE["cholesky"], calls)):
        for scale in (1.0, 2.0, 3.0):
            c = tg.compile(lambda a, s=scale: np.sum(np.linalg.cholesky(a) * s), verify="never")
            c(a)
            assert len(calls) == (scale > 1.0)  # nobody has asked for it
            for _ in range(3):
                c(a)
                assert c.grad(a).shape == (4, 4)
                c.value_and_grad(2.0 * a)
            assert "its rule is a program of" in c.explain()
        recorded = len([one for one in calls if not one])
        assert [one for one in calls if one] == [True] and recorded <= 3
        c = tg.compile(lambda a: np.sum(np.linalg.cholesky(a, upper=True)), verify="never")
        c.grad(a), c.grad(a), c.grad(a)
        assert calls.count(True) == 2  # of other keyword arguments


def test_a_rule_that_asks_about_values_is_called_in_python(rng):
    a, calls = definite(rng, 3, 3), []

    def asking(np, g, out, a):
        calls.append(1)
        scale = 1.0 if float(np.sum(g)) > 0.0 else 3.0
        return (scale * g,)

    op = dataclasses.replace(TABLE["cholesky"], vjp=asking, jvp=None)
    with declared.declared(op):
        c = tg.compile(lambda a, w: np.sum(np.linalg.cholesky(a) * w), verify="never")
        for sign in (1.0, -1.0, 1.0, -1.0):
            wanted = np.full((3, 3), sign if sign > 0 else 3.0 * sign)
            np.testing.assert_array_equal(c.grad(a, np.full((3, 3), sign)), wanted)
        assert "its rule is called in Python" in c.explain() and len(calls) >= 4


def test_a_rule_that_calls_python_is_called_in_python(rng):
    a = definite(rng, 3, 3)

    def sorting(np, g, out, a):
        return (np.sort(g, axis=None).reshape(3, 3),)

    def complex_(np, g, out, a):
        return (g + (np.unique(np.sign(g)).size - 1) * 0.0,)

    for vjp, wanted in ((sorting, lambda w: np.sort(w, axis=None).reshape(3, 3)), (complex_, abs)):
        op = dataclasses.replace(TABLE["cholesky"], vjp=vjp, jvp=None)
        with declared.declared(op):
            c = tg.compile(lambda a, w: np.sum(np.linalg.cholesky(a) * w), verify="never")
            for _ in range(4):
                w = np.abs(rng.normal(size=(3, 3)))
                np.testing.assert_allclose(c.grad(a, w), wanted(w), rtol=1e-13)


def test_a_planted_rule_that_looks_behind_the_trace_is_caught(rng):
    """A rule whose program keeps what it saw when it was traced."""

    def frozen(np, g, out, a):
        seen = values(g)
        return (g * (1.0 if seen.sum() > 0.0 else 3.0),)

    op = dataclasses.replace(TABLE["cholesky"], vjp=frozen, jvp=None)
    f, x = declared.example_of(op, op.examples[0]), declared.point(op, (3, 4), rng)
    with declared.declared(op) as planted, pytest.raises(AssertionError):
        declared.CHECKS["compiled"](planted, f, x, rng)


def values(x):
    return x._array if hasattr(x, "_array") else np.asarray(getattr(x, "_value", x))


def test_without_a_value_kernel_numpy_computes_values(rng):
    op = dataclasses.replace(TABLE["cholesky"], value_kernel=None, shape=None, refusal=None)
    with declared.declared(op):
        c = tg.compile(FUNCTIONS["cholesky"], verify="never", native=False)
        for _ in range(3):
            a = definite(rng, 4, 4)
            np.testing.assert_allclose(c(a), FUNCTIONS["cholesky"](a), rtol=1e-12)
            wanted = tg.grad(FUNCTIONS["cholesky"])(a)
            np.testing.assert_allclose(c.grad(a), wanted, rtol=1e-9, atol=1e-12)
        text = c.explain()
        assert "cholesky: value by NumPy, in Python; its rule is a program of" in text
        with pytest.raises(np.linalg.LinAlgError):
            c.grad(-a)


# --- errors ---------------------------------------------------------------------------------------


def test_errors_in_every_kind_of_call(tmp_path, rng):
    f = FUNCTIONS["cholesky"]
    good, bad = definite(rng, 3, 3), np.diag([1.0, -4.0, 1.0])
    c = tg.compile(f, native=False)
    value, value_and_grad = c.numba(good)
    strict = tg.compile(f, native=False, on_branch="error")
    c.hvp(good, good), c.hessian(good), c.grad(good), strict.grad(good), strict.grad(good)
    c.save(tmp_path / "f.npz")
    loaded = tg.load(tmp_path / "f.npz")
    rows, out = np.stack([good, bad, good]), np.zeros((3, 3))
    calls = [
        *[lambda: c(bad), lambda: c.grad(bad), lambda: c.hvp(bad, good), lambda: c.hessian(bad)],
        *[lambda: c.map(rows), lambda: c.sum(rows), lambda: c.map(rows, gradient=False)],
        *[lambda: strict(bad), lambda: strict.grad(bad), lambda: strict.map(rows)],
        *[lambda: loaded(bad), lambda: loaded.grad(bad), lambda: loaded.map(rows)],
    ]
    for _ in range(2):
        for call in calls:
            with pytest.raises(np.linalg.LinAlgError, match="^Matrix is not positive definite$"):
                call()
        for call in (lambda: value(bad), lambda: value_and_grad(bad, out)):
            with pytest.raises(np.linalg.LinAlgError, match="a compiled function"):
                call()
        for one in (c, strict, loaded):
            np.testing.assert_allclose(one.grad(good), tg.grad(f)(good), rtol=1e-10, atol=1e-13)
        np.testing.assert_allclose(value_and_grad(good, out), f(good), rtol=1e-13)


def test_what_a_rule_refuses_is_an_error_of_the_gradient(rng):
    """The value is there, the gradient is not."""

    def refusing(np, g, out, a):
        return (np.linalg.solve(a * 0.0 + out * (out > 100.0), g),)

    op = dataclasses.replace(TABLE["cholesky"], vjp=refusing, jvp=None)
    good, bad = 1e6 * definite(rng, 1, 1), definite(rng, 1, 1)
    with declared.declared(op):
        c = tg.compile(lambda a: np.sum(np.linalg.cholesky(a)), native=False, verify="never")
        _, value_and_grad = c.numba(good)
        for _ in range(3):
            wanted = 1.0 / np.linalg.cholesky(good)
            np.testing.assert_allclose(c.grad(good), wanted, rtol=1e-13)
            np.testing.assert_allclose(c(bad), np.sqrt(bad[0, 0]))
            for call in (
                lambda: c.grad(bad),
                lambda: c.map(np.stack([good, bad])),
                lambda: value_and_grad(bad, np.zeros((1, 1))),
            ):
                with pytest.raises(np.linalg.LinAlgError):
                    call()
        assert "its rule is a program of" in c.explain()


def test_an_error_that_is_caught_makes_no_program():
    good, bad = np.diag([1.0, 4.0]), np.diag([1.0, -4.0])

    def f(a):
        try:
            return np.sum(np.linalg.cholesky(a))
        except np.linalg.LinAlgError:
            return np.sum(a * a)

    for first, second in ((good, bad), (bad, good)):
        c = tg.compile(f, verify="never")
        with pytest.warns(RuntimeWarning, match="cholesky raises LinAlgError in it"):
            assert [c(first), c(second)] == [f(first), f(second)]
        assert [c(first), c(second)] == [f(first), f(second)]


def test_a_result_that_nobody_reads_is_an_error_all_the_same():
    good, bad = np.diag([1.0, 4.0]), np.diag([1.0, -4.0])

    def f(a, b):
        np.linalg.cholesky(a)  # sees that it is definite
        return np.sum(a * b)

    for argnums in (0, 1):
        c = tg.compile(f, argnums=argnums)
        for _ in range(3):
            np.testing.assert_array_equal(c.grad(good, good), good)
            for call in (c, c.grad):
                with pytest.raises(np.linalg.LinAlgError):
                    call(bad, good)
        assert c._reason is None


def test_against_scipy_with_a_factor(rng):
    """A triangular matrix is solved without being factored."""
    a, b = definite(rng, 6, 6), rng.normal(size=(6, 2))
    factor = scipy.linalg.cholesky(a, lower=True)
    c = tg.compile(lambda a, b: np.linalg.solve(np.linalg.cholesky(a), b), native=False)
    for _ in range(2):
        wanted = scipy.linalg.solve_triangular(factor, b, lower=True)
        np.testing.assert_allclose(c(a, b), wanted, rtol=1e-13)


# --- where a rule is asked for first --------------------------------------------------------------


@pytest.fixture
def unmade(rng):
    """A compiled function whose rule is traced at its next gradient, a matrix, that gradient."""
    rule_programs._known.clear()
    rule_programs._last.clear()
    f, a = FUNCTIONS["cholesky"], definite(rng, 3, 3)
    c = tg.compile(f, verify="never", native=False)
    c.grad(a)
    yield c, a, tg.grad(f)(a)
    assert rules_of(c)[0].made is not None


@pytest.mark.parametrize("mode", [tg.no_grad, tg.inference_mode, tg.autograd.profiler.profile])
def test_in_a_mode(mode, unmade):
    c, a, wanted = unmade
    with mode():
        np.testing.assert_allclose(c.grad(a), wanted, rtol=1e-11, atol=1e-13)


def test_inside_another_recording(unmade):
    c, a, wanted = unmade
    outer = tg.compile(lambda x: np.sum(x * c.grad(a)), verify="never")
    for _ in range(2):
        np.testing.assert_allclose(outer.grad(a), wanted, rtol=1e-11, atol=1e-13)
    assert outer._reason is None


def test_inside_a_backward_pass(unmade):
    c, a, wanted = unmade

    class Weighted(tg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return g * tg.tensor(c.grad(a))

    x = tg.tensor(a, requires_grad=True)
    Weighted.apply(x).sum().backward()
    np.testing.assert_allclose(x.grad, wanted, rtol=1e-11, atol=1e-13)


def test_an_interrupt_while_it_is_made(unmade, monkeypatch):
    c, a, wanted = unmade

    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(rule_parts, "makers", [interrupted])
        with pytest.raises(KeyboardInterrupt):
            c.grad(a)
    np.testing.assert_allclose(c.grad(a), wanted, rtol=1e-11, atol=1e-13)
