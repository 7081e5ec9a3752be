"""What code finds with plain numbers, and not with tensors: Python's floats, types, attributes."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Callable, Mapping

import numpy as np

from ..._core.codegen.layout import ARRAY, FIRST_CODE, LEAF, ROW_CONSTANT, ROW_ROW, ROWS, ROWS_BITS
from ..._core.ops.table import TABLE
from ..._core.tape.tape import Reader, constant_of
from ..._core.tensor.pytree import Reach, own_code
from ..._core.tensor.trace import Guard, Trace, steered
from ..._derivatives.tape_traversal import tensor_at
from ..replay.run_layout import FINISHED
from .signature import Arguments

_DIVISIONS = frozenset(TABLE[name].code for name in ("divide", "floor_divide", "remainder"))
_POWERS = frozenset(TABLE[name].code for name in ("power", "square"))
_OPS = np.array([4 * (code + 1) for code in sorted(_DIVISIONS | _POWERS)])
_OF_TWO = _OPS[_OPS != 4 * (TABLE["square"].code + 1)]
_DIVIDED, _RAISED = "a division", "a power"


def refused_by_python(trace: Trace, first: int, end: int) -> str | None:
    """Add the guards; returns what Python does otherwise at these arguments, if it does."""
    numbers = {row: kind for row, kind in trace.data.items() if kind in (float, np.float64)}
    if not numbers:
        return None
    rows, guarded = _Rows(numbers), set()
    for row in rows.of_operations(first, end):
        found, kinds = rows.condition(row), rows.kinds(row)
        if found is None or kinds is None or found in guarded:
            continue
        if kinds != {float}:
            trace.is_exact = True  # NumPy's do not raise
            continue
        guarded.add(found)
        number, is_divisor, how = found
        tensor = tensor_at(number, value=float(rows.reader.row(number)["value"]))
        holds = steered(np.not_equal, tensor, 0.0) if is_divisor else steered(np.isfinite, tensor)
        if not holds._array:
            return f"{how} of Python's floats does not give a float"
        trace.held.append(holds)
        trace.guards.append(Guard(holds, 0, 1.0, trace.now(), (), f"{how} of Python's floats"))
    return None


class _Rows:
    """The rows of numbers that are computed from some inputs and constants alone."""

    def __init__(self, inputs: Mapping[int, type]):
        self.reader = Reader()
        self._kinds: dict[int, set[type] | None] = {n: {kind} for n, kind in inputs.items()}

    def of_operations(self, first: int, end: int) -> list[int]:
        """The operations that Python may refuse, in order, without most that have other operands.

        Each number has an oldest one that it is computed from by its first operands: those where
        this is no input are left out.
        """
        begin, last = (self.reader.place[row >> ROWS_BITS] for row in (first, end))
        slots = [*self.reader.place][begin : last + 1]
        chunks = [self.reader.filled(slot) for slot in slots]
        op = np.concatenate([rows["op"] for rows in chunks])
        found = np.isin(op & ~3, _OPS)
        if not found.any():
            return []
        sizes = np.array([len(rows) for rows in chunks])
        ids = np.concatenate([np.arange(n) for n in sizes]) + np.repeat(slots, sizes) * ROWS
        starts = np.full(max(slots) + 2, -1)
        starts[slots] = np.cumsum(sizes) - sizes
        outside = len(op)

        def at(name: str):
            """The places of operands; those outside have a place after all others."""
            numbers = np.concatenate([rows[name] for rows in chunks])
            start = starts[np.clip(numbers >> ROWS_BITS, -1, len(starts) - 1)]
            return np.where(start < 0, outside, start + (numbers & (ROWS - 1)))

        is_scalar = (op >= 4 * FIRST_CODE) & (op < ARRAY)
        fits = np.append(np.isin(ids, [*self._kinds]), False)
        may_fit = fits | np.append(is_scalar, False)
        a = np.append(np.where(is_scalar, at("a"), np.arange(outside)), outside)
        has_two = found & (op & 3 == ROW_ROW) & np.isin(op & ~3, _OF_TWO)
        b = np.where(has_two, at("b"), a[:-1])
        found &= may_fit[a[:-1]] & may_fit[b]
        if not found.any():
            return []
        while not np.array_equal(older := a[a], a):
            a = older
        found &= fits[a[:-1]] & fits[a[b]]
        return ids[found].tolist()

    def condition(self, number: int) -> tuple[int, bool, str] | None:
        """A number that must be finite, or not 0 if it is a divisor, and the kind of operation."""
        row = self.reader.row(number)
        op = int(row["op"])
        if op // 4 - 1 in _POWERS:
            return number, False, _RAISED
        if op & 3 == ROW_CONSTANT:
            return None if constant_of(row) else (number, False, _DIVIDED)
        return int(row["b" if op & 3 == ROW_ROW else "a"]), True, _DIVIDED

    def kinds(self, number: int) -> set[type] | None:
        """The types of the inputs that a number is computed from; None if of anything else."""
        waiting = [number]
        while waiting:
            row = waiting[-1]
            if row in self._kinds:
                waiting.pop()
                continue
            op = int(self.reader.row(row)["op"])
            is_scalar = 4 * FIRST_CODE <= op < ARRAY and op != LEAF
            operands = self.reader.operands(row) if is_scalar else []
            left = [one for one in operands if one not in self._kinds]
            if any(one in self._kinds and self._kinds[one] is None for one in operands) or not left:
                found = [self._kinds.get(one) or set() for one in operands]
                self._kinds[row] = set().union(*found) if found and all(found) else None
            else:
                waiting.extend(left)
        return self._kinds[number]


# --- questions for types and attributes -----------------------------------------------------------
# Functions that ask for types and attributes of their arguments, which a trace cannot answer.
#
# `type(d) is float` says no while `d` is a tensor; a function that catches errors may catch that of
# C code which takes numbers alone, such as `json.dumps(d)`. The program of such a function is
# compared with the function before it is used, at the arguments of the call and at others nearby:
# two ways through a function seldom agree at both.


#: Built-in names that such code reads.
_ASKING = frozenset(("type", "hasattr", "getattr", "vars", "dir", "id", "AttributeError"))
_ATTRIBUTES = frozenset(("getsizeof",))
#: What handlers of errors begin with: the test of a class, or, for all errors, nothing; in Python
#: 3.10 the three parts of an error are dropped then.
_TESTS = frozenset(("CHECK_EXC_MATCH", "JUMP_IF_NOT_EXC_MATCH"))
_CATCHING = (("PUSH_EXC_INFO", "POP_TOP"), ("POP_TOP", "POP_TOP", "POP_TOP"))
#: Relative distances of places nearby.
_STEPS = (1e-4, -1e-4, 1e-7, -1e-7)


def asks_for_types(f: Callable, arguments: Arguments) -> str | None:
    """Where a function, or one that it calls, asks objects for types or attributes.

    Where there are data, also where it catches errors.
    """
    has_data = not all([differentiated for *_, differentiated in arguments.kinds])
    codes = [own_code(one) for one in Reach(f).functions()]
    found = [_asks(code, has_data) for code in codes if code.co_filename != "<string>"]
    return next(filter(None, found), None)  # without that of named tuples and dataclasses


@functools.lru_cache(maxsize=4096)
def _asks(code: types.CodeType, has_data: bool) -> str | None:
    last: tuple[str, ...] = ()
    for one in dis.get_instructions(code):
        last = (*last[-2:], one.opname)
        is_builtin = one.opname in ("LOAD_GLOBAL", "LOAD_NAME") and one.argval in _ASKING
        catches = one.opname in _TESTS or last[-2:] in _CATCHING or last in _CATCHING
        what = None
        if is_builtin or (one.opcode in dis.hasname and one.argval in _ATTRIBUTES):
            what = f"reads {one.argval}"
        elif has_data and (catches or one.argval == "suppress"):
            what = "catches errors"
        if what is not None:
            lines = [line for start, end, line in code.co_lines() if start <= one.offset < end]
            return f"{what} at {code.co_filename}:{lines[0]}"
    inner = [one for one in code.co_consts if isinstance(one, types.CodeType)]
    return next(filter(None, [_asks(one, has_data) for one in inner]), None)


def agrees(variant, f: Callable, arguments: Arguments) -> bool:
    """Whether a program gives what the function gives, at the arguments and nearby.

    Nearby it is compared where it takes the same branches; if there is no such place, this counts
    as no.
    """

    def again(values):
        return arguments.call(f, values)

    pairs = [*zip(arguments.values, arguments.kinds, strict=True)]
    nearby = ([_nearby(*pair, step) for pair in pairs] for step in _STEPS)
    try:
        with np.errstate(all="ignore"):
            places = [arguments.values, next(one for one in nearby if _is_taken(variant, one))]
            return all(variant.differs(one, again(one), again) is None for one in places)
    except Exception:
        return False


def _is_taken(variant, values: list) -> bool:
    """Whether a program gives a result for these values."""
    memory = variant.program.begin()
    try:
        return variant.program.forward(memory, values) == FINISHED
    finally:
        variant.program.end(memory)


def _nearby(value, kind: tuple, step: float):
    """A value of an input to be differentiated with other digits; data are as they are."""
    dtype, shape, differentiated = kind
    if not differentiated:
        return value
    steps = step * np.cos(np.arange(np.size(value))).reshape(shape)
    found = np.asarray(value * (1.0 + steps) + 0.01 * steps, dtype)
    return found if shape else float(found)
