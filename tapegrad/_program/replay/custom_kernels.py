"""Calls of a user's operations in compiled code: by Python, or by what does the same without it.

The latter is a table, whose first words are the addresses of two functions of a run and the table:
values and adjoints. It is there once Python has made it. Where one of them returns another status
than FINISHED, it has written nothing, and Python is called; except for OTHER_FORM, which says that
the results have other shapes than the program has for them: it stops as at a guard.
"""

from ..._core.codegen import machine_types as types
from ..._core.codegen.intrinsics import call_address

#: The words of the data: the table or 0; Python's functions for values, for values before adjoints,
#: and for adjoints.
CUSTOM_TABLE, CUSTOM_VALUE, CUSTOM_AHEAD, CUSTOM_ADJOINTS = range(0, 32, 8)
CUSTOM_WORDS = 4
#: The first words of a table.
TABLE_VALUE, TABLE_ADJOINTS = 0, 8
#: The status of values that have another form, after the slot of the result is noted as failed; no
#: status of a part, and not `scalar_roots.NOT_FOUND`.
OTHER_FORM = -2

called = call_address(types.int64(types.int64, types.int64))

EXPORTS = ("custom_value", "custom_ahead", "custom_adjoints")
TEXT = """
from tapegrad._core.codegen.intrinsics import load_i64
from tapegrad._program.replay.custom_kernels import *
from tapegrad._program.replay.run_layout import FINISHED, GUARD_FAILED
"""
for _name, _table, _python in (
    ("custom_value", "TABLE_VALUE", "CUSTOM_VALUE"),
    ("custom_ahead", "TABLE_VALUE", "CUSTOM_AHEAD"),
    ("custom_adjoints", "TABLE_ADJOINTS", "CUSTOM_ADJOINTS"),
):
    TEXT += f"""

def {_name}(run, data):
    table = load_i64(data, CUSTOM_TABLE)
    if table != 0:
        status = called(load_i64(table, {_table}), run, table)
        if status == FINISHED:
            return FINISHED
        if status == OTHER_FORM:
            return GUARD_FAILED
    return called(load_i64(data, {_python}), run, data)
"""
