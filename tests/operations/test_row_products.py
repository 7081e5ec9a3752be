"""Products of picked rows are computed of each row once: values and derivatives are the same."""

import numpy as np
import pytest

import tapegrad as tg

RANDOM = np.random.default_rng(3)
TABLE, MATRIX = RANDOM.normal(size=(12, 5)), RANDOM.normal(size=(5, 4))
OFTEN = RANDOM.integers(0, 12, 200)
SOME = OFTEN // 3
BLOCKS = OFTEN.reshape(10, 20)


def products(f, *args):
    """The numbers of rows of the products in a program."""
    c = tg.compile(f, argnums=tuple(range(len(args))))
    for _ in range(2):
        c.value_and_grad(*args)
    (family,) = c._families.found.values()
    steps = family.found[0].program.code.steps
    return [s.out.shape for s in steps if hasattr(s, "code") and s.op.name == "contract"]


#: Functions of a table and a matrix, and the shapes of the products that they compute.
CASES = {
    "all rows": (lambda t, m: t[OFTEN] @ m, [(12, 4)]),
    "some rows": (lambda t, m: t[SOME] @ m, [(4, 4)]),
    "blocks of rows": (lambda t, m: t[BLOCKS] @ m, [(12, 4)]),
    "with a vector": (lambda t, m: t[OFTEN] @ m[:, 0], [(12,)]),
    "of a result": (lambda t, m: np.tanh(t)[OFTEN] @ np.exp(m), [(12, 4)]),
    "twice": (lambda t, m: (t[OFTEN] @ m) * (np.sin(t)[SOME] @ m), [(12, 4), (4, 4)]),
    "added to rows": (lambda t, m: np.tanh(t[OFTEN] @ m + t[SOME] @ m), [(12, 4), (4, 4)]),
    "few of a kind": (lambda t, m: t[np.arange(12)] @ m, [(12, 4)]),
    "once each": (lambda t, m: np.concatenate([t] * 20)[np.arange(240)] @ m, [(240, 4)]),
    "read elsewhere": (lambda t, m: (t[OFTEN] @ m).sum(1) * t[OFTEN].sum(1), [(200, 4)]),
    "with itself": (lambda t, m: t[OFTEN] @ t[OFTEN].T, [(200, 200)]),
    "columns": (lambda t, m: t.T[:, OFTEN].T @ m, [(200, 4)]),
    "short rows": (lambda t, m: t[:, :3][OFTEN] @ m[:3], [(200, 4)]),
}


@pytest.mark.parametrize("what", CASES)
def test_values_and_derivatives(what):
    f, shapes = CASES[what]

    def loss(t, m):
        return np.sum(np.sin(f(t, m)) * np.arange(1.0, f(t, m).size + 1).reshape(f(t, m).shape))

    assert products(lambda t, m: np.sum(np.sin(f(t, m))), TABLE, MATRIX) == shapes
    for native in (False, True) if what in ("some rows", "added to rows") else (False,):
        c = tg.compile(loss, argnums=(0, 1), native=native)
        for scale in (1.0, 0.5, 2.0):
            t, m = scale * TABLE, MATRIX / scale
            value, found = c.value_and_grad(t, m)
            wanted, slopes = tg.value_and_grad(loss, argnums=(0, 1))(t, m)
            assert value == pytest.approx(wanted, rel=1e-12)
            for one, other in zip(found, slopes, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-11)
    for product in (c.jvp, tg.compile(loss, argnums=(0, 1)).jvp):
        _, tangent = product((TABLE, MATRIX), (TABLE, MATRIX))
        slopes = tg.grad(loss, argnums=(0, 1))(TABLE, MATRIX)
        assert tangent == pytest.approx(np.vdot(slopes[0], TABLE) + np.vdot(slopes[1], MATRIX))


def test_rows_that_are_not_picked_may_hold_anything():
    table = TABLE.copy()
    table[4:] = np.nan
    table[5] = np.inf
    f = lambda t, m: np.sum(np.sin(t[SOME] @ m))
    assert products(f, table, MATRIX) == [(4, 4)]
    c = tg.compile(f, argnums=(0, 1))
    for _ in range(3):
        value, (of_table, of_matrix) = c.value_and_grad(table, MATRIX)
    wanted, slopes = tg.value_and_grad(f, argnums=(0, 1))(table, MATRIX)
    assert value == pytest.approx(wanted)
    np.testing.assert_allclose(of_table, slopes[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(of_matrix, slopes[1], rtol=1e-12)


def test_other_positions_in_the_next_call():
    f = lambda t, m, at: np.sum(np.sin(t[at] @ m))
    c = tg.compile(f, argnums=(0, 1))
    for at in (OFTEN, SOME, OFTEN[::-1], BLOCKS):
        for _ in range(2):
            value, slopes = c.value_and_grad(TABLE, MATRIX, at)
            wanted, expected = tg.value_and_grad(f, argnums=(0, 1))(TABLE, MATRIX, at)
            assert value == pytest.approx(wanted)
            for one, other in zip(slopes, expected, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13)


def test_single_precision():
    t, m = TABLE.astype(np.float32), MATRIX.astype(np.float32)
    f = lambda t, m: np.sum(np.sin(t[OFTEN] @ m))
    assert products(f, t, m) == [(12, 4)]
    c = tg.compile(f, argnums=(0, 1))
    for _ in range(3):
        value, slopes = c.value_and_grad(t, m)
    wanted, expected = tg.value_and_grad(f, argnums=(0, 1))(TABLE, MATRIX)
    assert value == pytest.approx(wanted, rel=1e-5)
    for one, other in zip(slopes, expected, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def test_files(tmp_path):
    f = lambda t, m: np.sum(np.sin(t[OFTEN] @ m))
    c = tg.compile(f, argnums=(0, 1))
    c.value_and_grad(TABLE, MATRIX)
    c.save(tmp_path / "rows")
    value, slopes = tg.load(tmp_path / "rows").value_and_grad(2.0 * TABLE, MATRIX)
    wanted, expected = tg.value_and_grad(f, argnums=(0, 1))(2.0 * TABLE, MATRIX)
    assert value == pytest.approx(wanted)
    np.testing.assert_allclose(slopes[0], expected[0], rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(slopes[1], expected[1], rtol=1e-12)
