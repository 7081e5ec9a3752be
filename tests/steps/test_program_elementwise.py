"""Element-wise steps of programs: parts that call kernels, and kernels of a step's own."""

import elementwise_steps as naive
import numpy as np
import pytest
from elementwise_steps import EXACT, ROUNDED, Arena, code, run, same, steps
from hypothesis import assume, given
from hypothesis import strategies as st

from tapegrad._core.ops.table import Pointwise, declare
from tapegrad._program.ir.elementwise_step import Elementwise
from tapegrad._program.ir.steps import View, contiguous
from tapegrad._program.ir.uses import is_injective
from tapegrad._program.native.fused_elementwise import native
from tapegrad._program.replay.elementwise_parts import interpreted

both_tiers = pytest.mark.parametrize("make", [interpreted, native])


def copies(memory):
    return [array.copy() for array in memory]


def everything(view):
    return True


def is_exact(step):
    """Whether nothing is summed in another order than in the naive evaluation."""
    views = {o for _, operands in step.ops for o in operands if isinstance(o, View)}
    apart = not any(a != b and a.overlaps(b) for a in views for b in views)
    return apart and all(map(is_injective, views)) and not step.sums


def compare(make, step, arena, exact, wanted=everything):
    """Values and adjoints of a step, in two passes and in one, against the naive ones.

    Native code multiplies and adds to an adjoint with one rounding. False if they overflow: then
    the order of sums decides.
    """
    rng = np.random.default_rng(5)
    memory, adjoints = arena.memory(rng), arena.memory(rng)
    right, right_adjoints = copies(memory), copies(adjoints)
    with np.errstate(all="ignore"):
        naive.forward(step, right)
        naive.reverse(step, right, right_adjoints, wanted)
    if not all(np.all(np.isfinite(a)) for a in (*right, *right_adjoints)):
        return False
    part, exact_adjoints = make(step, wanted), exact and make is not native
    two, two_adjoints = copies(memory), copies(adjoints)
    run(part, "forward", two, two_adjoints)
    same(two, right, exact)
    same(two_adjoints, adjoints, True)
    run(part, "reverse", two, two_adjoints)
    same(two, right, exact)
    same(two_adjoints, right_adjoints, exact_adjoints)
    run(part, "both", memory, adjoints)
    same(memory, right, exact)
    same(adjoints, right_adjoints, exact_adjoints)
    return True


@both_tiers
@given(steps())
def test_arithmetic(make, drawn):
    step, arena = drawn
    assume(compare(make, step, arena, is_exact(step)))


@both_tiers
@given(steps((*EXACT, *ROUNDED), bases=3), st.sets(st.integers(0, 4)))
def test_functions_and_views_without_adjoint(make, drawn, unwanted):
    step, arena = drawn
    views = [o for _, operands in step.ops for o in operands if isinstance(o, View)]
    views = list(dict.fromkeys(views))
    constant = {view for k, view in enumerate(views) if k in unwanted}
    assume(compare(make, step, arena, False, lambda view: view not in constant))


def of_view(view, name="square", shape=None):
    """A step of one operation of a view, and where its result is."""
    shape = shape or view.shape
    return Elementwise(shape, [(code(name), (view,))], [(0, contiguous(0, shape))], [])


@pytest.mark.parametrize("make, count", [(interpreted, 400), (native, 20)])
def test_long_lists_of_operations(make, count):
    """More blocks than the scratch memory holds at full length; every value is used twice."""
    arena, shape = Arena(), (3000,)
    x = contiguous(arena.slots(3000), shape)
    ops = [(code("add"), (x, x))]
    for k in range(count):
        ops.append((code("maximum" if k % 3 else "subtract"), (k, x)))
    for k in range(count):
        ops.append((code("add"), (k, len(ops) - 1)))
    out = contiguous(arena.slots(3000), shape)
    step = Elementwise(shape, ops, [(len(ops) - 1, out)], [])
    assert compare(make, step, arena, exact=make is interpreted)


@both_tiers
def test_fresh_bases_are_set(make):
    """Memory that nobody has set to 0: a whole view, one read twice, views that overlap."""
    n = 2000
    x, y, z = (View(0, (n,), (1,), base) for base in (1, 2, 3))
    back, later = View(n - 1, (n,), (-1,), 2), View(1, (n,), (1,), 3)
    flat = View(0, (n,), (1,), 4)
    ops = [(code("multiply"), (x, x)), (code("add"), (0, x)), (code("multiply"), (y, back))]
    ops += [(code("multiply"), (z, later)), (code("floor"), (flat,)), (code("add"), (1, 2))]
    ops += [(code("multiply"), (5, 3)), (code("add"), (6, 4))]
    step = Elementwise((n,), ops, [(7, contiguous(0, (n,)))], [])
    rng = np.random.default_rng(3)
    memory = [rng.uniform(0.5, 1.5, size) for size in (n, n, n, n + 1, n)]
    adjoints = [rng.uniform(0.5, 1.5, n)] + [np.zeros(m.size) for m in memory[1:]]
    right, right_adjoints = copies(memory), copies(adjoints)
    naive.forward(step, right)
    naive.reverse(step, right, right_adjoints, everything)
    part = make(step, everything, frozenset({1, 2, 3, 4}))
    for passes in (("forward", "reverse"), ("both",)):
        mine, garbage = copies(memory), [adjoints[0].copy()]
        garbage += [np.full(a.size, np.nan) for a in adjoints[1:]]
        for name in passes:
            run(part, name, mine, garbage)
        same(mine, right, True)
        same(garbage, right_adjoints, False)


@both_tiers
def test_a_fresh_base_read_along_two_axes_only_once_is_set(make):
    """A view that repeats its slots, over blocks that do not: the sum of all of them is wanted."""
    shape = (5, 400)
    row = View(0, shape, (0, 1), 1)
    step = of_view(row)
    memory = [np.zeros(2000), np.linspace(1.0, 2.0, 400)]
    adjoints = [np.linspace(0.0, 1.0, 2000), np.full(400, np.nan)]
    run(make(step, everything, frozenset({1})), "reverse", memory, adjoints)
    naive.forward(step, memory)
    wanted = 2.0 * memory[1] * adjoints[0].reshape(shape).sum(0)
    same(adjoints[1:], [wanted], False)


@both_tiers
@pytest.mark.parametrize("name", ["reverse", "both"])
def test_an_adjoint_of_zero_gives_zero(make, name):
    """0·∞ and 0·NaN never occur, also for an adjoint that becomes 0 inside of the step."""
    n = 40
    x = contiguous(n, (n,))
    ops = [(code("sqrt"), (x,)), (code("log"), (x,)), (code("add"), (0, 1))]
    condition = contiguous(2 * n, (n,))
    ops += [(code("where"), (condition, 2, x))]
    step = Elementwise((n,), ops, [(3, contiguous(0, (n,)))], [])
    values = np.zeros(3 * n)
    values[n : 2 * n : 2] = 4.0
    values[2 * n :: 2] = 1.0
    adjoints = np.zeros(3 * n)
    adjoints[:n:4] = 2.0
    adjoints[1:n:4] = 3.0
    memory, found = [values.copy()], [adjoints.copy()]
    naive.forward(step, memory)
    run(make(step, lambda view: view == x), name, memory, found)
    wanted = np.zeros(n)
    wanted[::4] = 2.0 * (0.25 + 0.25)
    wanted[1::4] = 3.0
    assert np.array_equal(found[0][n : 2 * n], wanted)


@both_tiers
def test_infinite_slopes_are_kept(make):
    x, out = contiguous(0, (9,)), contiguous(16, (9,))
    step = Elementwise((9,), [(code("sqrt"), (x,))], [(0, out)], [])
    memory, adjoints = [np.zeros(32)], [np.ones(32)]
    memory[0][4] = 4.0
    run(make(step, everything), "both", memory, adjoints)
    assert np.array_equal(adjoints[0][:9], [np.inf] * 4 + [1.25] + [np.inf] * 4)
    assert np.array_equal(adjoints[0][9:], np.ones(23))


@both_tiers
def test_nothing_wanted_nothing_done(make):
    step = of_view(contiguous(8, (4,)))
    memory, adjoints = [np.arange(16.0)], [np.ones(16)]
    part = make(step, lambda view: False)
    run(part, "reverse", memory, adjoints)
    assert np.array_equal(adjoints[0], np.ones(16))
    assert np.array_equal(memory[0], np.arange(16.0))
    run(part, "both", memory, adjoints)
    assert np.array_equal(adjoints[0], np.ones(16))
    assert np.array_equal(memory[0][:4], memory[0][8:12] ** 2)


@both_tiers
def test_sums_over_nothing_are_zero(make):
    shape = (3, 0, 2)
    target = View(0, shape, (2, 0, 1))
    step = Elementwise(shape, [(code("exp"), (contiguous(8, shape),))], [], [(0, target)])
    memory, adjoints = [np.ones(8)], [np.ones(8)]
    run(make(step, everything), "forward", memory, adjoints)
    assert np.array_equal(memory[0], [0, 0, 0, 0, 0, 0, 1, 1])


def four(code_of):
    """x·y·z + w² with a step that value and slopes share, as a user's operation has."""
    names, steps = ("x", "y", "z", "w"), (("xy", "x * y"), ("xyz", "xy * z"))
    slopes = ("y * z", "x * z", "xy", "2.0 * w")
    domain = ((-2.0, 2.0),) * 4
    return Pointwise("four", names, "xyz + w * w", slopes, "", domain, "", "", code_of, steps)


@both_tiers
def test_operations_of_users(make):
    op = declare(four)
    arena, shape = Arena(), (6, 300)
    x, y = (contiguous(arena.slots(1800), shape) for _ in range(2))
    z = View(arena.slots(300), shape, (0, 1))
    ops = [(op.code, (x, y, z, x)), (op.code, (0, 0, y, 0)), (op.code, (1, x, z, z))]
    out = contiguous(arena.slots(1800), shape)
    assert compare(make, Elementwise(shape, ops, [(2, out)], []), arena, False)


def test_equal_steps_share_their_code():
    """The text of a kernel names neither sizes nor places."""
    kernels = []
    for n, offset in ((9, 0), (5000, 64)):
        x, out = contiguous(offset, (n,)), contiguous(offset + n, (n,))
        step = Elementwise((n,), [(code("sin"), (x,))], [(0, out)], [])
        kernels.append(native(step, everything))
    assert len({part.forward for part in kernels}) == 1
