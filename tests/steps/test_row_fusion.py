"""Element-wise steps of programs that read rows at positions themselves, and add to rows."""

import dataclasses

import numpy as np
import pytest

import tapegrad as tg
from tapegrad._core.ops.table import TABLE
from tapegrad._program.files.encode import check
from tapegrad._program.ir.elementwise_step import Picked, Rowwise
from tapegrad._program.ir.moving_step import Gather
from tapegrad._program.ir.steps import Code, Input, Output, View, contiguous
from tapegrad._program.ir.uses import IllegalProgram

F8 = np.dtype(np.float64)


def pairs(x, i, m):
    """Rows of one array twice, and something from outside."""
    d = x[i] - x[i[::-1]] * m
    return np.sum(np.exp(-0.1 * d * d))


def spread(x, i, m):
    """Beside numbers of rows, so that rows lie across blocks, or blocks across rows."""
    return np.sum(np.sqrt(np.sum((x[i] * m[:, :1]) ** 2, 1) + 1.0))


def added(x, i, m):
    """Results are added to rows, and read elsewhere."""
    t = np.tanh(x[i] * m)
    a = np.zeros_like(x)
    np.add.at(a, i[::-1], t)
    return np.sum(a * a * x) + np.sum(t[3])


def numbers(x, i, m):
    """Rows of one number."""
    y = np.sum(x, 1)
    return np.sum(np.sin(y[i]) * m[:, 0] + y[i[::-1]])


def several(x, i, m):
    """A gather that two steps read stays one."""
    y = x[i]
    return np.sum(y * m) + np.sum(np.sort(y, 0) * m)


def squares(x, i, m):
    """A square of the source beside its rows: adjoints of one array from both."""
    return np.sum(x * x) + np.sum(x[i] * x[i] * m)


USES = [pairs, spread, added, numbers, several, squares]


@pytest.mark.parametrize("function", USES)
@pytest.mark.parametrize("width", [1, 3, 16, 300])
@pytest.mark.parametrize("native", [False, True])
def test_fused_rows(function, width, native):
    rng = np.random.default_rng(width)
    count = 2500 if width <= 16 else 40
    x, m = rng.normal(size=(60, width)), rng.normal(size=(count, width))
    i = rng.integers(0, 60, count)
    plain = tg.value_and_grad(lambda x, m: function(x, i, m), argnums=(0, 1))
    program = tg.compile(lambda x, m: function(x, i, m), argnums=(0, 1), native=native)
    for k in range(4):
        found, wanted = program.value_and_grad(x, m), plain(x, m)
        assert found[0] == pytest.approx(wanted[0], rel=1e-11)
        for one, other in zip(found[1], wanted[1], strict=True):
            np.testing.assert_allclose(one, other, 1e-9, 1e-10)
        program.wait()
        x, m = x + 0.1 * k, m * 0.9
    assert program(x, m) == pytest.approx(function(x, i, m), rel=1e-11)


def test_large_inputs_that_rows_alone_are_read_of():
    """Their adjoints are where the caller wants them, which no other step sets to 0."""
    rng = np.random.default_rng(0)
    u, v = rng.normal(size=(2000, 10)), rng.normal(size=(3000, 10))
    i, j = rng.integers(0, 2000, 500), rng.integers(0, 3000, 500)
    f = lambda u, v: np.sum(np.sum(u[i] * v[j], 1) ** 2)
    for native in (False, True):
        program = tg.compile(f, argnums=(0, 1), native=native)
        for _ in range(4):
            found = program.value_and_grad(u, v)[1]
            wanted = tg.grad(f, argnums=(0, 1))(u, v)
            for one, other in zip(found, wanted, strict=True):
                np.testing.assert_allclose(one, other, 1e-10, 1e-12)
            program.wait()


def steps_of(function, x, m):
    program = tg.compile(function, argnums=(0, 1))
    for _ in range(2):
        program.value_and_grad(x, m)
    return next(iter(program._families.found.values())).found[0].program.code.steps


def test_which_steps_are_fused():
    rng = np.random.default_rng(1)
    x, m, i = rng.normal(size=(60, 8)), rng.normal(size=(90, 8)), rng.integers(0, 60, 90)
    for function, picks in ((pairs, 2), (added, 2), (spread, 1), (squares, 1)):
        steps = steps_of(lambda x, m, f=function: f(x, i, m), x, m)
        rowwise = [step for step in steps if isinstance(step, Rowwise)]
        assert sum(len(step.picks) for step in rowwise) == picks, function
        assert not any(isinstance(step, Gather) for step in steps), function
    assert any(isinstance(step, Gather) for step in steps_of(lambda x, m: several(x, i, m), x, m))


@pytest.mark.parametrize("function", [pairs, added, numbers])
def test_float32_files_and_other_derivatives(function, tmp_path):
    rng = np.random.default_rng(2)
    x, m, i = rng.normal(size=(40, 7)), rng.normal(size=(90, 7)), rng.integers(0, 40, 90)
    f = lambda x, m: function(x, i, m)
    program = tg.compile(f, argnums=(0, 1))
    small = [a.astype(np.float32) for a in (x, m)]
    for _ in range(2):
        for one, other in zip(program.grad(*small), tg.grad(f, (0, 1))(x, m), strict=True):
            assert one.dtype == np.float32
            np.testing.assert_allclose(one, other, 2e-3, 2e-3)
        program.value_and_grad(x, m)
    u, v = rng.normal(size=x.shape), rng.normal(size=m.shape)
    for _ in range(2):
        np.testing.assert_allclose(
            program.jvp((x, m), (u, v))[1], tg.jvp(f, (x, m), (u, v))[1], 1e-9
        )
    only = tg.compile(lambda x: f(x, m))
    for _ in range(2):
        np.testing.assert_allclose(only.hvp(x, u), tg.hvp(lambda x: f(x, m))(x, u), 1e-8, 1e-8)
    only.value_and_grad(x)
    only.save(tmp_path / "rows.npz")
    loaded = tg.load(tmp_path / "rows.npz")
    np.testing.assert_allclose(loaded.grad(x), tg.grad(lambda x: f(x, m))(x), 1e-10, 1e-12)


# --- the check of such steps --------------------------------------------------------------------

MULTIPLY, SIN = TABLE["multiply"].code, TABLE["sin"].code
ROWS = contiguous(0, (3, 2), -1)


def rowwise(**changes):
    """sin of rows 2 0 2 of the input at slots 1 to 6, added to rows of slots 10 to 15."""
    picks = [
        Picked(contiguous(1, (3, 2)), np.array([2, 0, 2])),
        Picked(contiguous(10, (3, 2)), np.array([1, 1, 0])),
    ]
    sums = [(0, contiguous(0, (3, 2), -2))]
    return dataclasses.replace(Rowwise((3, 2), [(SIN, (ROWS,))], [], sums, picks), **changes)


def code(step):
    whole = contiguous(1, (3, 2))
    return Code(20, [], [Input(whole, F8)], [step], [Output(contiguous(10, (3, 2)), F8)])


def picked(view=contiguous(1, (3, 2)), positions=(2, 0, 2)):  # noqa: B008
    return [Picked(view, np.array(positions)), rowwise().picks[1]]


BREACHES = {
    "outside": (rowwise(picks=picked(positions=[2, 3, 0])), "a position is outside"),
    "before": (rowwise(picks=picked(positions=[2, -1, 0])), "a position is outside"),
    "unequal": (rowwise(picks=picked(positions=[2, 1, 0, 0])), "equally many"),
    "none": (rowwise(picks=picked(positions=np.zeros(0, int))), "another shape"),
    "free": (rowwise(picks=picked(contiguous(14, (3, 2)))), "before it is written"),
    "turned": (rowwise(picks=picked(View(1, (3, 2), (1, 3)))), "whole rows"),
    "a part": (rowwise(picks=picked(contiguous(1, (5,)))), "whole rows"),
    "no rows": (rowwise(ops=[(SIN, (contiguous(0, (3, 2), -3),))]), "there are no rows"),
    "moved": (rowwise(ops=[(SIN, (contiguous(1, (3, 2), -1),))]), "another shape"),
    "twice": (rowwise(sums=[(0, contiguous(0, (3, 2), -2))] * 2), "written twice"),
    "stored": (rowwise(stores=[(0, ROWS)]), "no base -1"),
}


def test_legal_rows_pass():
    check(code(rowwise()))


@pytest.mark.parametrize("name", BREACHES)
def test_each_breach_is_refused(name):
    step, message = BREACHES[name]
    with pytest.raises(IllegalProgram, match=message):
        check(code(step))
