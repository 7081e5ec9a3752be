"""Structural operations in programs: values against NumPy, adjoints against the eager library."""

import numpy as np
import pytest
from program_parts import Arena, always, of_arena

import tapegrad as tg
from tapegrad._core.ops.table import TABLE
from tapegrad._core.tape.sweeps import inverse, memory_axes
from tapegrad._core.tensor.registry import load_families
from tapegrad._program.ir.kernel_step import Kernel
from tapegrad._program.ir.steps import View, contiguous
from tapegrad._program.replay import run_layout
from tapegrad._program.replay.operation_parts import part_of_kernel

load_families()

SLOTS, OUT = 30000, 20000


def placed(array, first, slot):
    """The view of slots that an array is, where `first` is an array at `slot`."""
    offset = (array.ctypes.data - first.ctypes.data) // 8
    return View(slot + offset, array.shape, tuple(stride // 8 for stride in array.strides))


def step_of(name, function, inputs):
    """The one structural row of a function as a step; inputs lie side by side from slot 0."""
    tape = tg.record(function, *inputs)
    slots, slot = {}, 0
    for number, row in enumerate(tape.rows):
        if row.op == "input":
            slots[number] = slot
            slot += row.value.size
    (row,) = [row for row in tape.rows if row.op == name]
    out = contiguous(OUT, np.shape(row.value))
    operands = []
    for operand in row.operands:
        if isinstance(operand, tuple):
            number, view = operand
            operand = placed(view, tape.rows[number].value, slots[number])
        elif isinstance(operand, np.ndarray) and np.may_share_memory(operand, row.value):
            operand = placed(operand, row.value, OUT)
        elif isinstance(operand, np.ndarray) and not operand.shape:
            operand = View(OUT, (), ())  # a product's only element, seen as a matrix
        operands.append(operand)
    return Kernel(TABLE[name].code, operands, out)


def check(name, function, *inputs, rtol=1e-14, at=None):
    """A step recorded with `inputs` at values `at`, which are others unless given."""
    rng = np.random.default_rng(3)
    step = step_of(name, function, inputs)
    arena = Arena(SLOTS, rng)
    at = [rng.normal(size=x.shape) for x in inputs] if at is None else at
    places, slot = [], 0
    for x in at:
        places.append(contiguous(slot, x.shape))
        arena.value(places[-1])[...] = x
        slot += x.size
    arena.run.adjoints[:slot] = 0.0
    part = part_of_kernel(step, always)
    with np.errstate(all="ignore"):
        value = np.asarray(function(*at))
        wanted, back = tg.vjp(function, *at)
    assert arena.forward(part) == run_layout.FINISHED
    size = max(1.0, np.max(np.abs(value[np.isfinite(value)]), initial=0.0))
    axes = memory_axes(np.asarray(wanted)) or tuple(range(value.ndim))  # in the row's order
    found = arena.value(step.out).transpose(inverse(axes))
    np.testing.assert_allclose(found, value, rtol, rtol * size)
    np.testing.assert_allclose(found, wanted, rtol, rtol * size)
    adjoints = back(np.array(arena.adjoint(step.out)).transpose(inverse(axes)))
    assert arena.reverse(part) == run_layout.FINISHED
    for place, adjoint in zip(places, adjoints, strict=True):
        np.testing.assert_allclose(arena.adjoint(place), adjoint, 1e-12, 1e-13)
    untouched = np.r_[slot:OUT, OUT + step.out.size : SLOTS]
    np.testing.assert_array_equal(arena.run.values[untouched], arena.values[untouched])
    np.testing.assert_array_equal(arena.run.adjoints[slot:], arena.adjoints[slot:])


# --- along axes -------------------------------------------------------------------------------

ALONG = {
    "max": np.max,
    "min": np.min,
    "prod": np.prod,
    "logsumexp": tg.logsumexp,
    "softmax": tg.softmax,
    "log_softmax": tg.log_softmax,
}
AXES = [None, 0, 1, (0, 2), (1, 2), -1]
SEEN = {
    "whole": lambda x: x,
    "reversed": lambda x: x[::-1, :, ::-1],
    "strided": lambda x: x[:, 1:, ::2],
    "turned": lambda x: x.transpose(2, 0, 1),
}


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("axis", AXES)
@pytest.mark.parametrize("name", ALONG)
def test_along_axes(name, axis, seen, rng):
    check(name, lambda x: ALONG[name](SEEN[seen](x), axis), rng.normal(size=(3, 4, 5)))


@pytest.mark.parametrize("name", ["max", "min", "prod", "logsumexp"])
def test_kept_axes(name, rng):
    check(name, lambda x: ALONG[name](x, 1, keepdims=True), rng.normal(size=(3, 4, 5)))


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", ["cumsum", "cumprod"])
def test_running(name, axis, seen, rng):
    function = getattr(np, name)
    check(name, lambda x: function(SEEN[seen](x), axis), rng.normal(size=(3, 4, 5)))


AWKWARD = [
    [np.nan, 1.0, 2.0],
    [np.inf, 1.0, -np.inf],
    [-np.inf, -np.inf, -np.inf],
    [np.inf, np.inf, 1.0],
    [1.0, 1.0, 1.0],
    [0.0, 2.0, 3.0],
    [0.0, 0.0, -0.0],
    [1e300, 1e300, -1e300],
    [-800.0, 0.0, 800.0],
    [np.nan, np.inf, -np.inf],
]


@pytest.mark.parametrize("values", AWKWARD, ids=str)
@pytest.mark.parametrize("name", [*ALONG, "cumsum", "cumprod"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_awkward_values(name, values, rng):
    function = ALONG.get(name) or getattr(np, name)
    recorded = rng.normal(size=3)
    check(name, lambda x: function(x, 0), recorded, at=[np.array(values)])
    both = np.stack([values, recorded])
    check(name, lambda x: function(x, 1), rng.normal(size=(2, 3)), at=[both])


@pytest.mark.parametrize("name", ["prod", "logsumexp"])
def test_reductions_of_nothing(name, rng):
    check(name, lambda x: ALONG[name](x, 1), rng.normal(size=(3, 0)))
    check(name, lambda x: ALONG[name](x, (1, 2)), rng.normal(size=(3, 0, 2)))
    check(name, lambda x: ALONG[name](x, 0), rng.normal(size=(3, 0)))


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "cumsum", "cumprod"])
def test_what_is_empty_stays_empty(name, rng):
    function = ALONG.get(name) or getattr(np, name)
    check(name, lambda x: function(x, 1), rng.normal(size=(3, 0)))


# --- products ---------------------------------------------------------------------------------

PRODUCTS = {
    "matrices": (np.matmul, (4, 5), (5, 3)),
    "large": (np.matmul, (40, 13), (13, 17)),
    "matrix and vector": (np.matmul, (14, 15), (15,)),
    "vector and matrix": (np.matmul, (15,), (15, 14)),
    "vectors": (np.dot, (70,), (70,)),
    "batch": (np.matmul, (6, 4, 5), (6, 5, 3)),
    "transposed": (lambda a, b: a.T @ b.T, (15, 14), (13, 15)),
    "strided": (lambda a, b: a[::2, 1:] @ b[::-1, ::2], (9, 16), (15, 9)),
    "mixture": (lambda a, b: np.einsum("kij,nkj->nki", a, b), (3, 10, 10), (20, 3, 10)),
    "two inner axes": (lambda a, b: np.einsum("ijk,kjl->li", a, b), (4, 5, 6), (6, 5, 7)),
    "packed result": (lambda a, b: np.einsum("abk,ck->acb", a, b), (4, 5, 6), (7, 6)),
    "batch of vectors": (lambda a, b: np.einsum("nk,nk->n", a, b), (30, 9), (30, 9)),
    "small batch": (lambda a, b: np.einsum("nij,nj->ni", a, b), (30, 3, 3), (30, 3)),
    "nothing inside": (np.matmul, (4, 0), (0, 3)),
    "nothing outside": (np.matmul, (0, 4), (4, 3)),
}


@pytest.mark.parametrize("case", PRODUCTS)
def test_products(case, rng):
    function, *shapes = PRODUCTS[case]
    check("contract", function, *[rng.normal(size=shape) for shape in shapes], rtol=1e-14)


NARROW = [(4, 5, 3), (12, 9, 300), (13, 600, 4), (24, 4, 24), (25, 8, 8), (7, 257, 23), (10, 3, 70)]


@pytest.mark.parametrize("sizes", NARROW, ids=str)
@pytest.mark.parametrize("turned", range(8))
def test_narrow_products(sizes, turned, rng):
    """Tiles of all heights and depths, of either operand turned, written in rows or in columns."""
    m, n, k = sizes
    a, b = ((m, k), (k, n)) if turned & 4 else ((n, k), (k, m))
    a, b = a[::-1] if turned & 1 else a, b[::-1] if turned & 2 else b

    def function(x, y):
        return np.matmul(x.T if turned & 1 else x, y.T if turned & 2 else y)

    check("contract", function, rng.normal(size=a), rng.normal(size=b))


@pytest.mark.parametrize("first", [True, False])
def test_a_product_with_a_constant(first, rng):
    constant = rng.normal(size=(6, 6))
    function = (lambda x: constant @ x) if first else (lambda x: x @ constant)
    check("contract", function, rng.normal(size=(6, 6)))


def test_not_a_number_in_a_product(rng):
    a, b = rng.normal(size=(2, 5, 5))
    a[0, 1], b[2, 3] = np.nan, np.inf
    check("contract", np.matmul, np.ones((5, 5)), np.ones((5, 5)), at=[a, b])


# --- others -----------------------------------------------------------------------------------


def test_scatter_adds(rng):
    place = np.array([3, 1, 3, 0])
    step = Kernel(TABLE["scatter_add"].code, [View(0, (4,), (2,)), place], contiguous(OUT, (6,)))
    arena = Arena(SLOTS, rng)
    before = arena.adjoint(step.operands[0]).copy()
    part = part_of_kernel(step, always)
    assert arena.forward(part) == 0 and arena.reverse(part) == 0
    wanted = np.zeros(6)
    np.add.at(wanted, place, arena.value(step.operands[0]))
    np.testing.assert_array_equal(arena.value(step.out), wanted)
    added = before + arena.adjoint(step.out)[place]
    np.testing.assert_array_equal(arena.adjoint(step.operands[0]), added)


@pytest.mark.parametrize("stride", [1, 2, -1])
def test_scatter_adds_at_computed_positions(stride, rng):
    """The position −1 is left out; the program stops at others that are none of the output."""
    first = 20 if stride > 0 else 24
    source, at = View(0, (5,), (2,)), View(first, (5,), (stride,))
    step = Kernel(TABLE["scatter_add"].code, [source, at], contiguous(OUT, (6,)))
    arena = Arena(SLOTS, rng)
    place, before = np.array([3, 1, 3, 5]), arena.adjoint(source).copy()
    arena.value(at)[...] = [*place, -1.0]
    part = part_of_kernel(step, always)
    assert arena.forward(part) == 0 and arena.reverse(part) == 0
    wanted = np.zeros(6)
    np.add.at(wanted, place, arena.value(source)[:4])
    np.testing.assert_array_equal(arena.value(step.out), wanted)
    before[:4] += arena.adjoint(step.out)[place]
    np.testing.assert_array_equal(arena.adjoint(source), before)
    for outside in (6.0, 1e300, -1e300, np.nan, np.inf):
        arena.value(at)[3] = outside
        assert arena.forward(part) != 0, outside


def test_every_operation_that_programs_leave_to_kernels_has_a_value():
    """The others have steps of their own, write in place, or call Python."""
    others = {"link", "sum", "pack", "convert", "gather", "write", "scatter", "function"}
    structural = {name for name, op in TABLE.items() if hasattr(op, "adjoint")}
    others |= {n for n in structural if TABLE[n].is_by_rule and not TABLE[n].value_kernel}
    assert {name for name in structural if TABLE[name].value_kernel} == structural - others


@pytest.mark.parametrize("memory", [True, False])
@pytest.mark.parametrize("wanted", [always, of_arena])
def test_operands_in_another_base(wanted, memory, rng):
    arena = Arena(SLOTS, rng, rng.normal(size=(5, 4)))
    values, adjoints = arena.bases[0]
    a, b, out = contiguous(0, (3, 5)), contiguous(0, (5, 4), 1), contiguous(OUT, (3, 4))
    part = part_of_kernel(Kernel(TABLE["contract"].code, [a, b, out, 0, 1], out), wanted)
    if not memory:
        arena.run.adjoint_bases[1] = 0
    before, theirs = arena.adjoint(a).copy(), adjoints.copy()
    assert arena.forward(part) == 0 and arena.reverse(part) == 0
    np.testing.assert_allclose(arena.value(out), arena.value(a) @ values, 1e-13)
    g = arena.adjoint(out)
    np.testing.assert_allclose(arena.adjoint(a), before + g @ values.T, 1e-12)
    added = arena.value(a).T @ g if memory and wanted is always else 0.0
    np.testing.assert_allclose(adjoints, theirs + added, 1e-12)


def test_no_reverse_where_nothing_is_wanted():
    out = contiguous(OUT, (3, 4))
    step = Kernel(TABLE["max"].code, [contiguous(0, (3, 4)), 1], contiguous(OUT, (3,)))
    assert part_of_kernel(step, always).reverse
    assert part_of_kernel(step, lambda view: view.offset == out.offset).reverse == 0
