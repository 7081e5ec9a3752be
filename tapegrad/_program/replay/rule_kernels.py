"""The reverse of an operation by its rule, in compiled code: the rule is a program that is run.

A step's data name the words of its rule (`K_REVERSE`). While there is no table yet, Python is
called, which makes the program of the rule and the table, or evaluates the rule itself. The table
is written once, and never changes.
"""

from ..._core.codegen import machine_types as types
from ..._core.codegen.elements import floats
from ..._core.codegen.intrinsics import call_address, helper, i64s, load_i64, memset, store_i64
from .driver import VALUE_COUNT, VALUE_PLAN, follow, return_run, take_run
from .move_kernels import (
    BYTES,
    SETS,
    SIDE_OFFSET,
    SOURCE,
    TARGET,
    base_at,
    move,
)
from .run_layout import (
    FINISHED,
    REFUSED,
    RUN_ADJOINT_BASES,
    RUN_ADJOINTS,
    RUN_ANSWER,
    RUN_REFUSED,
    RUN_SCRATCH,
    RUN_VALUE_BASES,
)
from .structural_kernels import K_REVERSE

#: The words of a rule: the address of its table or 0, the Python function, the address of the
#: adjoint of the output, and its number of elements; the address and number of rows of two words,
#: base and bytes: the adjoints that nothing else writes, so that they are set and not added to.
RULE_TABLE, RULE_PYTHON, RULE_SEED, RULE_SIZE, RULE_FRESH, RULE_FRESH_COUNT = range(0, 48, 8)
RULE_WORDS = 6
#: Python's result if there is a table now, and nothing else was done.
MADE = -1
#: A table: the program; whether it leaves out adjoints that are to be set, which are 0; how many
#: operands it reads where they are; the numbers of moves into a run of it of adjoints (0 or 1), of
#: values, and out of it; then those operands, and the moves (see `move_kernels`).
TABLE_PROGRAM, TABLE_IS_PARTIAL, TABLE_PLACES = 0, 8, 16
TABLE_SEEDS, TABLE_VALUES, TABLE_RESULTS, TABLE_ITEMS = 24, 32, 40, 48
#: An operand that is read where it is: its base in the program of the rule, whether it is an
#: adjoint, its base in the other program, and its byte offset there.
PLACE_OWN, PLACE_IS_ADJOINT, PLACE_BASE, PLACE_OFFSET = range(0, 32, 8)
PLACE_BYTES = 32

python = call_address(types.int64(types.int64, types.int64))


@helper
def any_set(address, n):
    """Whether one of n numbers is not 0."""
    x = floats(address)
    for i in range(n):
        if x[i] != 0.0:
            return True
    return False


@helper
def move_all(item, count, to, of, index):
    """Set or add, from bases of one run to those of another; returns the item after the last."""
    for _ in range(count):
        target = base_at(to, load_i64(item, TARGET))
        if target != 0:
            target += load_i64(item, TARGET + SIDE_OFFSET)
            source = base_at(of, load_i64(item, SOURCE)) + load_i64(item, SOURCE + SIDE_OFFSET)
            move(load_i64(item, SETS) != 0, item, target, TARGET, source, SOURCE, index)
        item += load_i64(item, BYTES)
    return item


@helper
def run_rule(run, table):
    """Run a rule, and add its results to adjoints; returns why it stopped."""
    program, index = load_i64(table, TABLE_PROGRAM), i64s(load_i64(run, RUN_SCRATCH))
    values, adjoints = load_i64(run, RUN_VALUE_BASES), load_i64(run, RUN_ADJOINT_BASES)
    own = take_run(program)
    if own == 0:  # there is no memory
        store_i64(run, RUN_REFUSED, 0)
        return REFUSED
    made, item = load_i64(own, RUN_VALUE_BASES), table + TABLE_ITEMS
    for _ in range(load_i64(table, TABLE_PLACES)):
        bases = adjoints if load_i64(item, PLACE_IS_ADJOINT) != 0 else values
        at = base_at(bases, load_i64(item, PLACE_BASE)) + load_i64(item, PLACE_OFFSET)
        store_i64(made, load_i64(item, PLACE_OWN) * 8, at)
        item += PLACE_BYTES
    item = move_all(item, load_i64(table, TABLE_SEEDS), made, adjoints, index)
    item = move_all(item, load_i64(table, TABLE_VALUES), made, values, index)
    status = follow(own, load_i64(program, VALUE_PLAN), load_i64(program, VALUE_COUNT))
    if status == FINISHED:
        move_all(item, load_i64(table, TABLE_RESULTS), adjoints, made, index)
    elif status == REFUSED:
        store_i64(run, RUN_REFUSED, load_i64(own, RUN_REFUSED))
        store_i64(run, RUN_ANSWER, load_i64(own, RUN_ANSWER))
    return_run(program, own)
    return status


@helper
def clear_fresh(run, rule):
    """Set to 0 the adjoints that nothing else writes."""
    row = load_i64(rule, RULE_FRESH)
    for _ in range(load_i64(rule, RULE_FRESH_COUNT)):
        at = base_at(load_i64(run, RUN_ADJOINT_BASES), load_i64(row, 0))
        if at != 0:
            memset(at, 0, load_i64(row, 8))
        row += 16


@helper
def rule_reverse(run, data):
    """An adjoint of 0 passes on nothing, however steep the operation."""
    rule = load_i64(data, K_REVERSE)
    seed = load_i64(run, RUN_ADJOINTS) + load_i64(rule, RULE_SEED)
    if not any_set(seed, load_i64(rule, RULE_SIZE)):
        clear_fresh(run, rule)
        return FINISHED
    if load_i64(rule, RULE_TABLE) == 0:
        clear_fresh(run, rule)
        status = python(load_i64(rule, RULE_PYTHON), run, rule)
        if status != MADE:
            return status
    table = load_i64(rule, RULE_TABLE)
    if load_i64(table, TABLE_IS_PARTIAL) != 0:
        clear_fresh(run, rule)
    return run_rule(run, table)


EXPORTS = ("rule_reverse",)
TEXT = "".join(
    f"\n\ndef {name}(run, data):\n    return rule_kernels.{name}(run, data)\n" for name in EXPORTS
)
