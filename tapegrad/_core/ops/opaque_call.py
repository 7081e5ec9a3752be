"""Rows of values without derivative, recorded while a program is traced; not in the table.

References: the call, as an object; the recorded operands; the output.
"""

from .table import BY_CODE, Structural


def computed_adjoint(frame, id, refs, task):
    """Nothing passes on."""


COMPUTED = Structural(
    "computed",
    "a mask, an index or another value without derivative, in a traced program",
    example="",
    awkward="",
    adjoint=computed_adjoint,
    helpers=(),
    forward=None,
    form="",
    writes=False,
    code=len(BY_CODE) + 1,
)
BY_CODE[COMPUTED.code] = COMPUTED
