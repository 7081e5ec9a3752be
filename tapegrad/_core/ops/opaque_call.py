"""Rows of values without derivative, recorded while a program is traced; not in the table.

References: the call, as an object; the recorded operands; the output.
"""

from .table import structural


def computed_adjoint(frame, id, refs, task):
    """Nothing passes on."""


def no_adjoints(np, g, _out, *_operands):
    return (None,) * len(_operands)


def no_tangent(np, t, _out, *_operands):
    return None


COMPUTED = structural(
    "computed",
    computed_adjoint,
    vjp=no_adjoints,
    jvp=no_tangent,
    layout="call",
    doc="a mask, an index or another value without derivative, in a traced program",
    table={},
)
