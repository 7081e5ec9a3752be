"""The check of programs: all that are made pass (see conftest); each rule refuses its breach."""

import dataclasses

import numpy as np
import pytest

from tapegrad._core.ops.elementwise import STEERING
from tapegrad._core.ops.table import PASSED, TABLE
from tapegrad._core.tensor.registry import load_families
from tapegrad._program.files.encode import check
from tapegrad._program.ir.elementwise_step import Elementwise
from tapegrad._program.ir.kernel_step import Computed, Kernel
from tapegrad._program.ir.moving_step import Gather, Link, Pack, Scatter
from tapegrad._program.ir.scalars_step import Scalars
from tapegrad._program.ir.steps import GUARD, Code, Input, Output, View, contiguous
from tapegrad._program.ir.uses import IllegalProgram

load_families()  # the kernels of softmax are loaded late

F8 = np.dtype(np.float64)
ADD, SIN, WHERE = (TABLE[name].code for name in ("add", "sin", "where"))
ALIKE = contiguous(1, (2, 3))  # the input


def column(*numbers):
    return np.array(numbers, np.int32)


def scalars(first, *rows):
    """Operations as (op, a, b, c)."""
    return Scalars(first, *(column(*one) for one in zip(*rows, strict=True)))


def code(*steps, output=contiguous(1, (2, 3)), clears=None):  # noqa: B008
    """Input at slots 1 to 6, constants 0 1 2 at 7 to 9, free slots from 10 to 39."""
    constants = [(7, np.arange(3.0))]
    return Code(40, constants, [Input(ALIKE, F8)], list(steps), [Output(output, F8)], clears or {})


def add(out, x=ALIKE, y=ALIKE):
    return Elementwise((2, 3), [(ADD, (x, y)), (SIN, (0,))], [(1, out)], [])


def shown(offset=20):
    return View(offset, (3, 2), (1, 3))


def kernel(name, *operands, out=contiguous(10, (2,))):  # noqa: B008
    return Kernel({**TABLE, **PASSED}[name].code, list(operands), out)


ROWS = contiguous(1, (2, 3))
LEGAL = {
    "scalars": scalars(10, (ADD, 1, 7, -1), (SIN, 10, -1, -1), (WHERE, 1, 10, 11)),
    "guard": scalars(10, (GUARD, 1, 7, -1), (SIN, 1, -1, -1)),
    "elementwise": add(contiguous(10, (2, 3))),
    "sums": Elementwise((2, 3), [(SIN, (ALIKE,))], [], [(0, View(10, (2, 3), (0, 1)))]),
    "link": Link(contiguous(10, (3, 2)), [(contiguous(10, (3, 2)), View(1, (3, 2), (1, 3)))]),
    "spread link": Link(View(10, (2,), (5,)), [(View(10, (2,), (5,)), View(1, (2,), (1,)))]),
    "gather": Gather(contiguous(10, (2,)), ALIKE, np.array([5, 0])),
    "rows": Gather(contiguous(10, (2, 3)), ALIKE, np.array([1, 0])),
    "gather of computed": Gather(contiguous(10, (2,)), ALIKE, contiguous(7, (2,))),
    "scatter": Scatter(contiguous(10, (2, 3)), ALIKE, contiguous(7, (2,)), contiguous(8, (2,))),
    "scatter rows": Scatter(contiguous(10, (2, 3)), ALIKE, contiguous(1, (3,)),
                            contiguous(8, (1,))),
    "pack": Pack(contiguous(10, (2,)), column(3, 9)),
    "max": kernel("max", ROWS, 1),
    "softmax": kernel("softmax", ROWS, 1, contiguous(10, (2, 3)), out=contiguous(10, (2, 3))),
    "contract": kernel("contract", ROWS, View(1, (3, 2), (1, 3)), contiguous(10, (2, 2)), 0, 1,
                       out=contiguous(10, (2, 2))),
    "scatter_add": kernel("scatter_add", ROWS, np.array([0, 1, 1, 0, 1, 1])),
    "scatter_add rows": kernel("scatter_add", ROWS, np.array([1, 0]), out=contiguous(10, (2, 3))),
    "scatter_add at computed": kernel("scatter_add", ALIKE, contiguous(1, (6,))),
    "sum": kernel("sum_in_order", 4, contiguous(7, (1,)), ROWS, View(6, (3, 2), (-2, 0)),
                  out=contiguous(10, (1,))),
    "computed": Computed(np.argsort, [(ALIKE, F8), (0, None)], contiguous(10, (2, 3))),
}  # fmt: skip


@pytest.mark.parametrize("name", LEGAL)
def test_legal_steps_pass(name):
    check(code(LEGAL[name], add(contiguous(20, (2, 3)))))


def breach(name, **changes):
    return dataclasses.replace(LEGAL[name], **changes)


ILLEGAL = {
    "reads later": (scalars(10, (ADD, 1, 11, -1), (SIN, 1, -1, -1)), "before it is written"),
    "reads itself": (scalars(10, (ADD, 1, 10, -1)), "before it is written"),
    "reads free": (add(contiguous(10, (2, 3)), contiguous(20, (2, 3))), "before it is written"),
    "reads a guard": (scalars(10, (GUARD, 1, 7, -1), (SIN, 10, -1, -1)), "before it is written"),
    "reads nothing": (scalars(10, (SIN, 0, -1, -1)), "before it is written"),
    "no operand": (scalars(10, (ADD, 1, -1, -1)), "a position is outside"),
    "operand too many": (scalars(10, (SIN, 1, 7, -1)), "does not take"),
    "slot outside": (scalars(10, (SIN, 40, -1, -1)), "a position is outside"),
    "writes outside": (scalars(39, (SIN, 1, -1, -1), (SIN, 2, -1, -1)), "39 to 41 in 40 slots"),
    "writes an input": (scalars(6, (SIN, 1, -1, -1)), "written twice"),
    "writes slot 0": (scalars(0, (SIN, 1, -1, -1)), "written twice"),
    "unknown": (scalars(10, (4095, 1, -1, -1)), "not one on numbers"),
    "structural": (scalars(10, (TABLE["max"].code, 1, -1, -1)), "not one on numbers"),
    "negative": (scalars(10, (-1, 1, -1, -1)), "an unknown operation"),
    "int64": (Scalars(10, *[np.zeros(1, np.int64)] * 4), "not of int32"),
    "lengths": (Scalars(10, column(SIN), column(1, 2), column(-1), column()), "two lengths"),
    "third": (Scalars(10, column(WHERE), column(1), column(1), column()), "is missing"),
    "writes a constant": (add(contiguous(5, (2, 3))), "written twice"),
    "overlong view": (add(contiguous(10, (2, 3)), View(1, (2, 3), (40, 1))), "in 40 slots"),
    "view before": (add(contiguous(10, (2, 3)), View(1, (2, 3), (-3, 1))), "-2 to"),
    "huge view": (add(contiguous(10, (2, 3)), View(1, (1 << 40, 1 << 40), (0, 0))), "has shape"),
    "huge empty": (add(contiguous(10, (2, 3)), View(1, (1 << 40, 0), (0, 0))), "has shape"),
    "negative shape": (add(contiguous(10, (2, 3)), View(1, (-2, -3), (3, 1))), "has shape"),
    "axes": (add(contiguous(10, (2, 3)), View(1, (2, 3), (1,))), "has shape"),
    "base": (add(contiguous(10, (2, 3)), View(0, (2, 3), (3, 1), 1)), "no base 1"),
    "shape": (add(contiguous(10, (2, 3)), contiguous(1, (3, 2))), "of another shape"),
    "arity": (Elementwise((), [(ADD, (View(1, (), ()),))], [], []), "1 operands of add"),
    "later op": (Elementwise((), [(SIN, (0,))], [], []), "comes later"),
    "no result": (breach("elementwise", stores=[(2, contiguous(10, (2, 3)))]), "no result 2"),
    "not in order": (breach("elementwise", stores=[(1, View(10, (2, 3), (1, 2)))]), "in C order"),
    "twice": (breach("elementwise", sums=[(0, contiguous(12, (2, 3)))]), "written twice"),
    "shared sum": (breach("sums", sums=[(0, View(10, (2, 3), (1, 1)))]), "share a slot"),
    "kernel": (breach("elementwise", ops=[(TABLE["max"].code, (ALIKE,))]), "not element-wise"),
    "link outside": (Link(contiguous(10, (2,)), [(contiguous(11, (2,)), contiguous(1, (2,)))]),
                     "leaves the result"),
    "link shapes": (Link(contiguous(10, (2,)), [(contiguous(10, (2,)), contiguous(1, (3,)))]),
                    "has another shape"),
    "link order": (Link(View(10, (2,), (5,)), []), "not in C order"),
    "spread twice": (Link(View(10, (2,), (0,)), [(View(10, (2,), (0,)), View(1, (2,), (1,)))]),
                     "share a slot"),
    "position": (breach("gather", positions=np.array([6, 0])), "a position is outside"),
    "position before": (breach("gather", positions=np.array([-1, 0])), "a position is outside"),
    "positions": (breach("gather", positions=np.array([1, 0, 1])), "equally many elements"),
    "rows outside": (breach("rows", positions=np.array([2, 0])), "a position is outside"),
    "rows of a part": (breach("rows", source=contiguous(1, (5,))), "whole rows"),
    "rows of free": (breach("rows", source=contiguous(30, (2, 3))), "before it is written"),
    "positions' type": (breach("gather", positions=np.array([1.0, 0.0])), "no int64"),
    "scatter of free": (breach("scatter", positions=contiguous(30, (2,))), "before it is written"),
    "scatter's number": (breach("scatter", source=contiguous(7, (3,))), "equally many elements"),
    "scatter's rows": (breach("scatter rows", before=contiguous(1, (2, 2)),
                              out=contiguous(10, (2, 2))), "whole rows"),
    "scatter's shape": (breach("scatter", before=contiguous(1, (6,))), "of another shape"),
    "pack outside": (breach("pack", slots=column(3, 40)), "a position is outside"),
    "pack of free": (breach("pack", slots=column(3, 30)), "before it is written"),
    "pack number": (breach("pack", slots=column(3)), "of another number"),
    "sum of free": (kernel("sum_in_order", 0, contiguous(30, (2,)), out=contiguous(10, (1,))),
                    "before it is written"),
    "sum outside": (kernel("sum_in_order", 0, View(6, (2,), (-5,)), View(6, (2,), (-7,)),
                           out=contiguous(10, (1,))), "-1 to"),
    "sum's number": (kernel("sum_in_order", ROWS, 1, out=contiguous(10, (1,))), "other kinds"),
    "sum's bits": (kernel("sum_in_order", 2, ROWS, out=contiguous(10, (1,))), "bits of other"),
    "sum of nothing": (kernel("sum_in_order", out=contiguous(10, (1,))), "other kinds"),
    "sums": (kernel("sum_in_order", 0, ROWS), "more than one"),
    "lines": (kernel("max", ROWS, 3), "groups of 3 of 2 lines"),
    "no lines": (kernel("max", ROWS, 0), "groups of 0"),
    "lines' type": (kernel("max", ROWS, 1.0), "other kinds"),
    "groups": (kernel("max", ROWS, 2), "a result for each group"),
    "softmax elsewhere": (kernel("softmax", ROWS, 1, contiguous(1, (2, 3)),
                                 out=contiguous(10, (2, 3))), "leaves the result"),
    "softmax shape": (kernel("softmax", ROWS, 1, shown(10), out=contiguous(10, (2, 3))),
                      "another shape"),
    "softmax in part": (kernel("softmax", ROWS, 1, View(10, (2, 3), (0, 1)),
                               out=contiguous(10, (2, 3))), "not all written"),
    "contract": (breach("contract", operands=[ROWS, ROWS, contiguous(10, (2, 2)), 0, 1]),
                 "do not meet"),
    "contract axes": (breach("contract", operands=[ROWS, ROWS, contiguous(10, (2, 2)), 0, -1]),
                      "axes of operands"),
    "scatter_add": (breach("scatter_add", operands=[ROWS, np.array([0, 1, 1, 0, 1, 2])]),
                    "is outside"),
    "scatter_add computed": (breach("scatter_add", operands=[ROWS, contiguous(1, (5,))]),
                         "equally many elements"),
    "scatter_add rows": (breach("scatter_add rows", operands=[ROWS, np.array([0, 2])]),
                         "is outside"),
    "scatter_add of a part": (breach("scatter_add rows", out=contiguous(10, (4,))), "whole rows"),
    "no kernel": (kernel("link", ROWS), "has no kernel"),
    "no dtype": (Computed(np.sort, [(ALIKE, None)], contiguous(10, (2, 3))), "an operand as None"),
}  # fmt: skip


@pytest.mark.parametrize("name", ILLEGAL)
def test_each_breach_is_refused(name):
    step, message = ILLEGAL[name]
    with pytest.raises(IllegalProgram, match=f"step 0 .*{message}"):
        check(code(step))


def test_results_constants_and_inputs_are_checked():
    for broken in (
        code(output=contiguous(10, (1,))),
        code(output=contiguous(38, (3,))),
        dataclasses.replace(code(), slots=8),
        dataclasses.replace(code(), slots=0),
        dataclasses.replace(code(), slots=2**31),
        dataclasses.replace(code(), constants=[(6, np.zeros(2))]),
        dataclasses.replace(code(), constants=[(10, np.zeros(2, np.float32))]),
        dataclasses.replace(code(), inputs=[Input(View(1, (2, 3), (1, 2)), F8)]),
        dataclasses.replace(code(), inputs=[Input(contiguous(0, (2, 3), 2), F8)]),
        dataclasses.replace(code(), outputs=[Output(ALIKE, np.dtype(object))]),
        dataclasses.replace(code(), clears={0: []}),
    ):
        with pytest.raises(IllegalProgram):
            check(broken)
    check(code())


def test_slots_are_used_again_only_where_their_values_are_not_needed():
    first, again = add(contiguous(10, (2, 3))), add(contiguous(10, (2, 3)))
    reader = add(contiguous(20, (2, 3)), x=contiguous(10, (2, 3)))
    shared = contiguous(10, (6,))
    with pytest.raises(IllegalProgram, match="written twice"):
        check(code(first, again))
    check(code(first, reader, again, clears={2: [shared]}))
    with pytest.raises(IllegalProgram, match="before it is written"):
        check(code(first, reader, clears={1: [shared]}))
    with pytest.raises(IllegalProgram, match="must last"):
        check(code(first, clears={0: [contiguous(1, (6,))]}))
    positions = Gather(contiguous(20, (6,)), ALIKE, shared)
    with pytest.raises(IllegalProgram, match="must last"):
        check(code(first, positions, again, clears={2: [shared]}))


def test_comparisons_are_operations_on_numbers():
    check(code(scalars(10, (STEERING["less"].code, 1, 7, -1))))
