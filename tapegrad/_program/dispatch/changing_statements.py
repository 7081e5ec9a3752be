"""Statements of code that change something, as a counter, and do nothing else with it."""

from __future__ import annotations

import dis
import types
from collections import deque
from collections.abc import Iterator

WRITES = ("STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE")
#: Methods that change containers.
METHODS = frozenset(
    name
    for kind in (list, dict, set, deque, bytearray)
    for name in dir(kind)
    if not name.startswith("_")
    and name not in dir(tuple) + dir(frozenset) + dir(str)
    and name not in ("copy", "get", "items", "keys", "values", "fromkeys")
)
#: Functions and methods that keep nothing of what they are given.
_PURE = frozenset("abs float int len max min round str repr sum get item".split())


def statements(code: types.CodeType) -> Iterator[tuple[int, list[dis.Instruction]]]:
    """The instructions of each statement, or of a part of it between jumps, with its line."""
    starts = dict(dis.findlinestarts(code))
    number = first = code.co_firstlineno
    found: list[dis.Instruction] = []
    depth = 0
    for one in dis.get_instructions(code):
        number = starts.get(one.offset, number) or number
        first = first if found else number
        found.append(one)
        depth += _effect(one)
        if depth <= 0 or _ends(one):
            yield first, found
            found, depth = [], 0
    yield first, found


def is_change(instructions: list[dis.Instruction], name: str) -> bool:
    """Whether a statement changes what it names and does nothing else with it."""
    ends = [one for one in instructions if _takes(one)]
    if ends != instructions[-1:]:
        return False
    (end,) = ends
    owner = [end]
    if end.opname == "POP_TOP":
        owner = _of_method(instructions)
    elif end.opname in WRITES:
        owner = _of_item(instructions)
    named = [one for one in instructions if one.argval == name]
    if not any(one in owner for one in named):
        return False
    return len([one for one in named if one is not end]) < 2 or _is_pure(instructions)


def _takes(one: dis.Instruction) -> bool:
    """Whether an instruction takes a value off the stack for good, or jumps."""
    return one.opname.startswith(("STORE", "DELETE", "POP_TOP")) or _ends(one)


def _ends(one: dis.Instruction) -> bool:
    jumps = one.opcode in dis.hasjrel or one.opcode in dis.hasjabs
    return jumps or one.opname.startswith(("RETURN", "YIELD", "RAISE", "BEFORE_WITH"))


def _effect(one: dis.Instruction) -> int:
    return dis.stack_effect(one.opcode, one.arg, jump=False)


def _of_method(instructions: list[dis.Instruction]) -> list[dis.Instruction]:
    """The instructions for the object of which a statement calls a method that changes it."""
    depth = 0
    for k, one in enumerate(instructions):
        if one.argval in METHODS and depth == 1 and _is_pure(instructions[:k]):
            return instructions[:k]
        depth += _effect(one)
    return []


def _of_item(instructions: list[dis.Instruction]) -> list[dis.Instruction]:
    """The instructions for the container of which a statement changes an item."""
    for k, one in enumerate(instructions):
        if one.opname in ("COPY", "DUP_TOP_TWO"):  # as `a[0] += 1` has, after `a` and `0`
            return instructions[:k]
    depths, depth = [], 0
    for one in instructions:
        depths.append(depth)
        depth += _effect(one)
    last = depths[-1]
    count = {"STORE_SLICE": 3, "DELETE_SUBSCR": 2}.get(instructions[-1].opname, 2)
    begin = max(k for k, here in enumerate(depths[:-1]) if here == last - count)
    end = max(k for k, here in enumerate(depths[:-1]) if here == last - count + 1)
    return instructions[begin:end]


def _is_pure(instructions: list[dis.Instruction]) -> bool:
    """Whether a statement calls nothing that may keep what it is given."""
    calls = [one for one in instructions if one.opname.startswith("CALL")]
    known = [one for one in instructions if one.argval in _PURE or one.argval in METHODS]
    return len(calls) <= len(known)
