"""Programs of rules: the rule of an operation traced as a function is, once for the process.

A rule is a function of the adjoint of the output, the output and the operands. Its program computes
values alone. The steps in it may have rules themselves, which are not used.
"""

from __future__ import annotations

import collections
import weakref
from collections.abc import Hashable

import numpy as np

from ..._core.codegen import forks
from ..._core.tensor import runtime as rt
from ..._core.tensor.copies import pack
from ..ir.steps import ARENA
from ..ir.uses import any_in, mark_outputs, mark_reads
from ..replay.rule_parts import RuleProgram, Use
from .signature import Arguments
from .variants import NotRecorded, Variant, traced_call

#: Rules that are kept, by use: parts of programs.
_known: weakref.WeakValueDictionary[Hashable, RuleProgram] = weakref.WeakValueDictionary()
#: The most slots of programs that stay after the programs that requested them are freed.
LAST, SMALL = 64, 1 << 14
_last: collections.deque[RuleProgram] = collections.deque(maxlen=LAST)
_lock = forks.lock()
#: The pass that leaves large inputs where the caller has them, for which they must be in C order.
_IN_PLACE = "leave inputs"


def rule_program(use: Use, g, out, operands: list) -> RuleProgram | None:
    """The program of the rule of a use, made with these values unless there is one.

    None if there is none: the rule has guards, calls Python, or raises.
    """
    key = use, repr(use.static)  # 1 and True are equal
    try:
        with _lock:
            found = _known.get(key)
    except TypeError:  # keyword arguments that cannot be compared
        return None
    if found is not None:
        return found
    try:
        made = _made(use, g, out, operands)
    except NotRecorded:  # Python then raises the error, unless it is due to tracing
        return None
    if made is None:
        return None
    if made.program.code.slots <= SMALL:
        _last.append(made)
    with _lock:
        return _known.setdefault(key, made)


def _made(use: Use, g, out, operands: list) -> RuleProgram | None:
    reads = use.op.used
    numbers = [k for k in range(-1, len(operands)) if reads >> k + 1 & 1]
    plain = [out, *operands]

    def rule(g, *given):
        """The adjoints of the operands that need them."""
        read = dict(zip(numbers, map(_as_array, given), strict=True))
        unread = [np.broadcast_to(0.0, np.shape(x)) for x in plain]
        out, *operands = [read.get(k, x) for k, x in enumerate(unread, -1)]
        return use.parts(_as_array(g), out, operands)

    given = (g, *[plain[k + 1] for k in numbers])
    without = () if use.in_order else (_IN_PLACE,)
    with traced_call(rule, Arguments(given, {}, tuple(range(len(given)))), without) as traced:
        variant, _ = traced.program()
    return None if variant is None else _placed(use, variant, numbers)


def _as_array(x):
    """An argument of no axes as a rule gets it: an array."""
    return pack(x) if type(x) is rt.Scalar else np.asarray(x) if isinstance(x, float) else x


def _placed(use: Use, variant: Variant, numbers: list[int]) -> RuleProgram | None:
    """The places of inputs and results; None if the program has guards or calls Python."""
    code, results = variant.program.code, {}
    if variant.guards or any(step.calls_python_in(code.item) for step in code.steps):
        return None
    for k, (number, constant) in enumerate(variant.leaves):
        if number >= 0:
            results[k] = code.outputs[number].view
        elif constant is not None and np.any(constant):  # not linear in the adjoint
            return None
    if any(view.shape != use.shapes[k] for k, view in results.items()):
        return None
    read = np.zeros(code.slots, bool)
    for step in code.steps:
        mark_reads(step, read)
    mark_outputs(code, read)
    bases = {view.base for step in code.steps for view in step.views_read}
    seed, *given = [
        view if (any_in(read, view) if view.base == ARENA else view.base in bases) else None
        for view in [one.view for one in code.inputs]
    ]
    values = {k: view for k, view in zip(numbers, given, strict=True) if view is not None}
    return RuleProgram(variant.program, seed, values, results)
