"""The layout of scratch memory of a run of element-wise rows in the sweep: its rows and blocks."""

from ..codegen.layout import BLOCK, CACHE_LINE, DIMENSIONS, OPERANDS, RUN, UNTOUCHED

# A row of the run, as words: its id, code, references, number of inputs; masks of the inputs that
# need a derivative, whose partial derivative is 1, that the kernel computes, that are one value per
# block, whose adjoint the kernel sets; its kernel; the address of its own adjoint and the steps of
# that per element and per seed, the row that it takes the adjoint from (−1: none), whether it has
# passed it on, whether it begins at zero. And per input how its values and its adjoint are
# accessed, what becomes of the latter, and where that is; for a strided one the step and number of
# elements of a line, the axes outside it, and where in its array the block starts (−1 for more than
# one line).
(
    ID,
    CODE,
    REFS,
    INPUTS,
    MASK,
    UNITS,
    PARTIALS,
    UNIFORM,
    FRESH,
    KERNEL,
    OWN,
    OWN_STEP,
    SEED_STEP,
    FROM,
    GIVEN,
    CLEAR,
    HOW,
) = range(0, 17 * 8, 8)
ROUTE, WHERE, STEP, LINE, OUTER, PLACE, ENTRY = range(
    HOW + OPERANDS * 8, HOW + 8 * OPERANDS * 8, OPERANDS * 8
)
#: The kinds of access to an input.
ALIGNED, STRIDED, SINGLE = 0, 1, 2
#: The treatment of the adjoint of an input with partial derivative 1: it is added, copied as the
#: first contribution, or the block that holds it becomes the input's block.
ADDED, COPIED, TAKEN = 0, 1, 2
FULL_MASK = (1 << OPERANDS) - 1  # all inputs
#: Lines of one value that are shorter would make too many short blocks.
LEAST_LINE = BLOCK // 2
#: Cells of rows whose adjoint may live inside the run: the first row that adds to it (row of the
#: run times OPERANDS, plus input), then its own place in the run.
PENDING = UNTOUCHED + 1
INSIDE = PENDING + RUN * OPERANDS

# scratch memory: odometer, what blocks must not straddle multiples of, kernel arguments, entries,
# effective strides, blocks of values, adjoints, rows inside the run, tangents
AT_UNIT = DIMENSIONS * 8
AT_ARGUMENTS = AT_UNIT + 8
AT_ENTRIES = AT_ARGUMENTS + 4 * (OPERANDS + 1) * 8
AT_STRIDES = AT_ENTRIES + RUN * ENTRY
AT_VALUES = -(-(AT_STRIDES + RUN * OPERANDS * DIMENSIONS * 8) // CACHE_LINE) * CACHE_LINE
#: A little more than a block takes: same elements of neighbours fall on different cache sets.
BLOCK_BYTES = BLOCK * 8 + 2 * CACHE_LINE
AT_ADJOINTS = AT_VALUES + (OPERANDS + 1) * BLOCK_BYTES
AT_INSIDE = AT_ADJOINTS + OPERANDS * BLOCK_BYTES
#: From the blocks of adjoints to those of a second seed that is swept with the first.
NEXT_SEED = (OPERANDS + RUN) * BLOCK_BYTES
AT_TANGENTS = AT_ADJOINTS + 2 * NEXT_SEED
SCRATCH_BYTES = AT_TANGENTS + OPERANDS * BLOCK_BYTES
