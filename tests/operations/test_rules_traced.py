"""The programs that rules of operations become: traced once, refused, made at awkward moments."""

import dataclasses

import declared
import numpy as np
import pytest
import scipy.linalg
from ruled_programs import FUNCTIONS, definite, programs_of, rules_of

import tapegrad as tg
from tapegrad._core.operations.sparse_products import sparse_product
from tapegrad._core.ops.table import TABLE
from tapegrad._core.tensor.registry import load_families
from tapegrad._program.dispatch import rule_programs
from tapegrad._program.replay import operation_parts

load_families()

SLOTS, OUT = 9000, 6000
CHOLESKY, SOLVE = TABLE["cholesky"].code, TABLE["solve"].code


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
        with pytest.warns(RuntimeWarning, match="cholesky raises LinAlgError"):
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
        patch.setattr(operation_parts, "makers", [interrupted])
        with pytest.raises(KeyboardInterrupt):
            c.grad(a)
    np.testing.assert_allclose(c.grad(a), wanted, rtol=1e-11, atol=1e-13)


# --- large operands -------------------------------------------------------------------------------

#: A matrix of this many rows is read where the caller has it.
LARGE = 130


def product_of(a, x):
    """A sparse matrix of the numbers of a times x."""
    rows, columns = np.arange(float(LARGE**2)) % LARGE, np.arange(float(LARGE**2)) // LARGE
    numbers = np.reshape(a, (-1,))
    return sparse_product(numbers, rows, columns, x, count=LARGE, both=True) / LARGE


OF_LARGE = {
    "an input": lambda a: np.linalg.cholesky(a),
    "its transpose": lambda a: np.linalg.cholesky(a.T, upper=True),
    "its half": lambda a: np.linalg.cholesky(a[:-1, :-1]),
    "twice": lambda a: np.linalg.solve(a, a * 1.0),
    "an input twice": lambda a: np.linalg.solve(a, a.T),
    "a result": lambda a: np.linalg.cholesky(2.0 * a),
    "two readers": lambda a: np.linalg.cholesky(a) * a,
    "a product": lambda a: product_of(a, 0.1 * a),
    "a product with a transpose": lambda a: product_of(a, 0.1 * a.T),
    "a product with an input's transpose": lambda a: product_of(a, a.T),
}


@pytest.mark.parametrize("name", OF_LARGE)
def test_large_operands_are_read_where_they_are(name, rng):
    """Their adjoints are set, also where nothing comes back to them, in memory with other data."""
    loss = lambda a, scale: scale * np.sum(np.sin(OF_LARGE[name](a)))
    a, c = definite(rng, LARGE, LARGE), tg.compile(loss)
    a += np.triu(rng.normal(size=a.shape))  # which not all operations read
    for scale in (1.0, 2.0, 0.0, 1.0, 0.0):
        wanted, out = tg.grad(loss)(a, scale), np.full_like(a, np.nan)
        np.testing.assert_allclose(c.grad(a, scale), wanted, rtol=1e-9, atol=1e-12)
        c.value_and_grad(a, scale, out=out)
        np.testing.assert_allclose(out, wanted, rtol=1e-9, atol=1e-12)
        a = 1.1 * a


def test_an_adjoint_that_the_rule_leaves_out_is_zero(rng):
    """The rule of a sparse product has none for the places."""
    count, size = 20_000, 50
    numbers, x = rng.normal(size=count), rng.normal(size=(size, 1))
    rows, columns = (rng.integers(0, size, count).astype(float) for _ in range(2))
    product = lambda n, r, c: np.sum(sparse_product(n, r, c, x, count=size) ** 2)
    compiled = tg.compile(tg.grad(product, argnums=(0, 1, 2)))
    wanted = tg.grad(product)(numbers, rows, columns)
    for _ in range(4):
        found, *zeros = compiled(numbers, rows, columns)
        np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
        assert not np.any(zeros)
        for one in (found, *zeros):
            one[:] = np.nan  # the memory of the next gradients
        del found, zeros, one


def test_adjoints_of_constants_are_not_cleared(rng):
    weights = rng.normal(size=(300, 300))
    c = tg.compile(lambda x: np.sum(np.sin(weights @ x)))
    x = rng.normal(size=300)
    for _ in range(3):
        np.testing.assert_allclose(c.grad(x), weights.T @ np.cos(weights @ x), rtol=1e-12)
    cleared = [program.parts.touched() for program in programs_of(c)]
    assert cleared and all(one[:, 1].sum() < weights.nbytes // 10 for one in cleared)
