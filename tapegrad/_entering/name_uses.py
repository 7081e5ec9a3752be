"""How code uses what it loads, found by an abstract stack over its instructions.

Each item of the stack is a set of origins: which instruction loaded the value, or which local
variable held it, and the attributes that were read of it since. Code with an instruction that is
not in the table is not analysed.
"""

from __future__ import annotations

import dis
import functools
import sys
import types
from collections.abc import Callable
from typing import NamedTuple

#: The number of an instruction that loads a value, or the name of a local variable.
Load = int | str
#: Where a value comes from, with the attributes that were read of it.
Origin = tuple[Load, tuple[str, ...]]

_VERSION = sys.version_info[:2]
#: What LOAD_GLOBAL, LOAD_ATTR and calls hold besides a callee: NULL, below it or above it.
_HAS_NULL, _NULL_ABOVE = _VERSION >= (3, 11), _VERSION >= (3, 13)
#: What stands in an origin for the items of a tuple.
ITEMS = "()"


class Use(NamedTuple):
    """One use of a loaded value, or of an attribute of it.

    `how` is "call", "item" for a subscript, "argument", "local" with the name of the variable,
    "compared", "assigned" for an attribute that is written, "dropped", or "value" for any other.
    """

    path: tuple[str, ...]
    how: str
    name: str = ""  # of the local variable, or of the attribute that is written
    callees: frozenset[Origin] = frozenset()  # whose argument it is


class Unread(Exception):
    """Code that is not analysed."""


def _count_bits(number: int) -> int:
    return bin(number).count("1")


def _by_count(names: str, count: int) -> dict[str, Callable[[int], int]]:
    return dict.fromkeys(names.split(), lambda _arg: count)


#: How many items an instruction takes from the stack, by its argument; how many it puts there
#: follows from `dis.stack_effect`. Names are those of Python 3.10 to 3.14.
_TAKEN: dict[str, Callable[[int], int]] = {
    **_by_count(
        "NOP CACHE RESUME EXTENDED_ARG KW_NAMES MAKE_CELL COPY_FREE_VARS POP_BLOCK "
        "SETUP_ANNOTATIONS LOAD_CONST LOAD_SMALL_INT LOAD_COMMON_CONSTANT LOAD_CLOSURE PUSH_NULL "
        "LOAD_BUILD_CLASS LOAD_ASSERTION_ERROR LOAD_LOCALS LOAD_FAST_AND_CLEAR GET_LEN "
        "MATCH_MAPPING MATCH_SEQUENCE MATCH_KEYS DELETE_FAST DELETE_GLOBAL DELETE_NAME "
        "DELETE_DEREF SETUP_FINALLY SETUP_WITH JUMP_FORWARD "
        "JUMP_ABSOLUTE JUMP_BACKWARD JUMP_BACKWARD_NO_INTERRUPT RETURN_CONST WITH_EXCEPT_START "
        "NOT_TAKEN FOR_ITER GET_ANEXT SETUP_ASYNC_WITH",
        0,
    ),
    **_by_count(
        "POP_TOP POP_ITER UNARY_POSITIVE UNARY_NEGATIVE UNARY_NOT UNARY_INVERT GET_ITER "
        "STORE_GLOBAL STORE_NAME STORE_DEREF RETURN_VALUE YIELD_VALUE LIST_TO_TUPLE TO_BOOL "
        "CONVERT_VALUE FORMAT_SIMPLE UNPACK_SEQUENCE UNPACK_EX POP_JUMP_IF_FALSE POP_JUMP_IF_TRUE "
        "POP_JUMP_IF_NONE POP_JUMP_IF_NOT_NONE POP_JUMP_FORWARD_IF_FALSE POP_JUMP_FORWARD_IF_TRUE "
        "POP_JUMP_FORWARD_IF_NONE POP_JUMP_FORWARD_IF_NOT_NONE POP_JUMP_BACKWARD_IF_FALSE "
        "POP_JUMP_BACKWARD_IF_TRUE POP_JUMP_BACKWARD_IF_NONE POP_JUMP_BACKWARD_IF_NOT_NONE "
        "LIST_APPEND SET_ADD LIST_EXTEND SET_UPDATE DICT_UPDATE DICT_MERGE DELETE_ATTR "
        "PUSH_EXC_INFO CHECK_EXC_MATCH CALL_INTRINSIC_1 BEFORE_WITH BEFORE_ASYNC_WITH "
        "SEND GET_AWAITABLE GET_AITER GET_YIELD_FROM_ITER LOAD_SPECIAL IMPORT_STAR ASYNC_GEN_WRAP",
        1,
    ),
    **_by_count(
        "BINARY_OP BINARY_ADD BINARY_AND BINARY_FLOOR_DIVIDE BINARY_LSHIFT "
        "BINARY_MATRIX_MULTIPLY BINARY_MODULO BINARY_MULTIPLY BINARY_OR BINARY_POWER "
        "BINARY_RSHIFT BINARY_SUBTRACT BINARY_TRUE_DIVIDE BINARY_XOR INPLACE_ADD INPLACE_AND "
        "INPLACE_FLOOR_DIVIDE INPLACE_LSHIFT INPLACE_MATRIX_MULTIPLY INPLACE_MODULO "
        "INPLACE_MULTIPLY INPLACE_OR INPLACE_POWER INPLACE_RSHIFT INPLACE_SUBTRACT "
        "INPLACE_TRUE_DIVIDE INPLACE_XOR DELETE_SUBSCR MAP_ADD FORMAT_WITH_SPEC "
        "SET_FUNCTION_ATTRIBUTE CALL_INTRINSIC_2 STORE_ATTR JUMP_IF_NOT_EXC_MATCH END_SEND "
        "CHECK_EG_MATCH PREP_RERAISE_STAR YIELD_FROM COPY_DICT_WITHOUT_KEYS",
        2,
    ),
    **_by_count("STORE_SUBSCR BINARY_SLICE LOAD_SUPER_ATTR MATCH_CLASS CLEANUP_THROW", 3),
    "STORE_SLICE": lambda _: 4,
    "END_ASYNC_FOR": lambda _: 2 if _HAS_NULL else 7,
    "END_FOR": lambda _: 1 if _NULL_ABOVE else 2,
    "POP_EXCEPT": lambda _: 1 if _HAS_NULL else 3,
    "RERAISE": lambda _: 1 if _HAS_NULL else 3,
    "RAISE_VARARGS": lambda arg: arg,
    "BUILD_LIST": lambda arg: arg,
    "BUILD_SET": lambda arg: arg,
    "BUILD_STRING": lambda arg: arg,
    "BUILD_SLICE": lambda arg: arg,
    "BUILD_MAP": lambda arg: 2 * arg,
    "BUILD_CONST_KEY_MAP": lambda arg: arg + 1,
    "FORMAT_VALUE": lambda arg: 1 + (arg & 4 == 4),
    "MAKE_FUNCTION": lambda arg: (
        (1 if _HAS_NULL else 2) + (0 if _NULL_ABOVE else _count_bits(arg & 15))
    ),
}
_NAMED = {
    "LOAD_GLOBAL",
    "LOAD_NAME",
    "LOAD_DEREF",
    "LOAD_CLASSDEREF",
    "LOAD_FROM_DICT_OR_GLOBALS",
    "LOAD_FROM_DICT_OR_DEREF",
}
_LOCAL = {"LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_FAST_BORROW"}
_LOCAL_PAIRS = {"LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW"}
#: Instructions that look at what an object is.
COMPARED = {"IS_OP", "COMPARE_OP", "CONTAINS_OP"}
#: Instructions after which the next one is not executed.
_ENDS = {
    "JUMP_FORWARD",
    "JUMP_ABSOLUTE",
    "JUMP_BACKWARD",
    "JUMP_BACKWARD_NO_INTERRUPT",
    "RETURN_VALUE",
    "RETURN_CONST",
    "RAISE_VARARGS",
    "RERAISE",
}

_NOTHING: frozenset[Origin] = frozenset()


@functools.lru_cache(maxsize=4096)
def instructions(code: types.CodeType) -> tuple[dis.Instruction, ...]:
    """The instructions of code, without those that belong to the one before them."""
    return tuple([one for one in dis.get_instructions(code) if one.opname != "CACHE"])


def names_imported(code: types.CodeType, one: dis.Instruction):
    """The names that an import takes from a module; None if it takes the module."""
    number = next(k for k, other in enumerate(instructions(code)) if other.offset == one.offset)
    return instructions(code)[number - 1].argval if number else None


@functools.lru_cache(maxsize=4096)
def uses(code: types.CodeType) -> dict[Load, list[Use]]:
    """The uses of what code loads by name, by the numbers of instructions and by local variables.

    Raises Unread for code that is not analysed.
    """
    return _Analysis(code).found


class _Analysis:
    def __init__(self, code: types.CodeType):
        self.found: dict[Load, list[Use]] = {}
        self._stack: list[frozenset[Origin]] = []
        self._at: dict[int, list[frozenset[Origin]]] = {}  # stacks at offsets that are jumped to
        is_live = True
        for start, count in _handlers(code):
            self._at[start] = [_NOTHING] * count
        for number, one in enumerate(instructions(code)):
            if one.offset in self._at:
                self._join(self._at[one.offset], is_live)
                is_live = True
            if not is_live:
                continue  # no way leads here
            if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs:
                self._jump(one)
            self._execute(number, one)
            is_live = one.opname not in _ENDS

    # --- the stack --------------------------------------------------------------------------------

    def _join(self, other: list[frozenset[Origin]], is_live: bool) -> None:
        if is_live:
            if len(other) != len(self._stack):
                raise Unread("stacks of two lengths meet")
            other = [a | b for a, b in zip(self._stack, other, strict=True)]
        self._stack = list(other)

    def _jump(self, one: dis.Instruction) -> None:
        """Keep the stack for the target of a jump forwards."""
        if one.argval <= one.offset:
            return
        effect = dis.stack_effect(one.opcode, one.arg, jump=True)
        kept = self._stack[: len(self._stack) + min(effect, 0)]
        kept = kept + [_NOTHING] * effect
        if one.argval in self._at:
            before = self._at[one.argval]
            if len(before) != len(kept):
                raise Unread("stacks of two lengths meet")
            kept = [a | b for a, b in zip(before, kept, strict=True)]
        self._at[one.argval] = kept

    def _popped(self, count: int) -> list[frozenset[Origin]]:
        if count > len(self._stack):
            raise Unread("more is taken than there is")
        start = len(self._stack) - count
        popped, self._stack[start:] = self._stack[start:], []
        return popped

    def _take(self, count: int, how: str = "value", **more) -> None:
        """Take items from the stack, which are used."""
        for origins in self._popped(count):
            for load, path in origins:
                self.found.setdefault(load, []).append(Use(path, how, **more))

    def _put(self, *items: frozenset[Origin]) -> None:
        self._stack.extend(items)

    def _put_callee(self, item: frozenset[Origin], has_null: bool) -> None:
        if not has_null:
            self._put(item)
        elif _NULL_ABOVE:
            self._put(item, _NOTHING)
        else:
            self._put(_NOTHING, item)

    # --- instructions -----------------------------------------------------------------------------

    def _execute(self, number: int, one: dis.Instruction) -> None:
        name, arg = one.opname, one.arg or 0
        if not (self._loads(number, one, arg) or self._stores(one) or self._moves(name, arg)):
            if name in _CALLS:
                self._call(*_CALLS[name](arg))
            elif name == "BINARY_SUBSCR":
                self._take(1)
                self._take(1, "item")
                self._put(_NOTHING)
            elif name in COMPARED:
                self._take(2, "compared")
                self._put(_NOTHING)
            elif name == "BUILD_TUPLE":
                items = self._popped(arg)
                self._put(_attribute_of(frozenset().union(*items), ITEMS))
            elif name == "POP_TOP":
                self._take(1, "dropped")
            elif name == "RETURN_GENERATOR":
                self._put(_NOTHING)  # `dis.stack_effect` says so from Python 3.13 on
            elif name not in ("PRECALL", "GEN_START"):  # CALL counts the first; the second takes
                self._other(one)  # what a generator is sent

    def _loads(self, number: int, one: dis.Instruction, arg: int) -> bool:
        """Instructions that load a name, a variable, a module or an attribute."""
        name = one.opname
        if name in _NAMED:
            if name.startswith("LOAD_FROM"):
                self._take(1)
            origin = frozenset([(number, ())])
            self._put_callee(origin, name == "LOAD_GLOBAL" and _HAS_NULL and arg & 1 == 1)
        elif name in _LOCAL:
            self._put(_of_local(one.argval))
        elif name in _LOCAL_PAIRS:
            self._put(*map(_of_local, one.argval))
        elif name == "IMPORT_NAME":
            self._take(2)
            self._put(frozenset([(number, ())]))
        elif name == "IMPORT_FROM":
            (module,) = self._popped(1)
            self._put(module, _attribute_of(module, one.argval))
        elif name in ("LOAD_ATTR", "LOAD_METHOD"):
            self._attribute(one, arg)
        else:
            return False
        return True

    def _stores(self, one: dis.Instruction) -> bool:
        """Instructions that store in a variable or an attribute."""
        name = one.opname
        if name in ("STORE_FAST", "STORE_FAST_MAYBE_NULL"):
            self._take(1, "local", name=one.argval)
        elif name == "STORE_FAST_STORE_FAST":
            for variable in one.argval:
                self._take(1, "local", name=variable)
        elif name == "STORE_FAST_LOAD_FAST":
            self._take(1, "local", name=one.argval[0])
            self._put(_of_local(one.argval[1]))
        elif name in ("STORE_ATTR", "DELETE_ATTR"):
            self._take(1, "assigned", name=one.argval)
            self._take(int(name == "STORE_ATTR"))
        else:
            return False
        return True

    def _attribute(self, one: dis.Instruction, arg: int) -> None:
        (owner,) = self._popped(1)
        read = _attribute_of(owner, one.argval)
        is_method = _HAS_NULL and _VERSION >= (3, 12) and arg & 1 == 1
        if one.opname == "LOAD_METHOD" or is_method:
            self._put_callee(read, True)
        else:
            self._put(read)

    def _call(self, below: int, arguments: int, above: int) -> None:
        """A call: `below` items for the callee, the arguments, and items that are no arguments."""
        self._take(above)
        if below + arguments > len(self._stack):
            raise Unread("more is taken than there is")
        start = len(self._stack) - arguments
        callees = frozenset().union(*self._stack[start - below : start])
        self._take(arguments, "argument", callees=callees)
        self._take(below, "call")
        self._put(_NOTHING)

    def _moves(self, name: str, arg: int) -> bool:
        """Instructions that move or copy items."""
        stack = self._stack
        if name == "COPY" and len(stack) >= arg:
            self._put(stack[-arg])
        elif name == "SWAP" and len(stack) >= arg:
            stack[-1], stack[-arg] = stack[-arg], stack[-1]
        elif name == "DUP_TOP" and stack:
            self._put(stack[-1])
        elif name == "DUP_TOP_TWO" and len(stack) > 1:
            self._put(*stack[-2:])
        elif name in _ROTATED or name == "ROT_N":
            count = _ROTATED.get(name, arg)
            stack.insert(len(stack) - count, stack.pop())
        elif name in ("JUMP_IF_FALSE_OR_POP", "JUMP_IF_TRUE_OR_POP"):
            self._take(1)
        else:
            return False
        return True

    def _other(self, one: dis.Instruction) -> None:
        if one.opname not in _TAKEN:
            raise Unread(f"the instruction {one.opname}")
        taken = _TAKEN[one.opname](one.arg or 0)
        put = dis.stack_effect(one.opcode, one.arg, jump=False) + taken
        if put < 0:
            raise Unread(f"the instruction {one.opname}")
        self._take(taken)
        self._put(*[_NOTHING] * put)


_ROTATED = {"ROT_TWO": 2, "ROT_THREE": 3, "ROT_FOUR": 4}
_BELOW = 2 if _HAS_NULL else 1
#: By the argument: items for the callee, arguments, items above them.
_CALLS: dict[str, Callable[[int], tuple[int, int, int]]] = {
    "CALL": lambda arg: (2, arg, 0),
    "CALL_KW": lambda arg: (2, arg, 1),
    "CALL_FUNCTION": lambda arg: (1, arg, 0),
    "CALL_METHOD": lambda arg: (2, arg, 0),
    "CALL_FUNCTION_KW": lambda arg: (1, arg, 1),
    "CALL_FUNCTION_EX": lambda arg: (_BELOW, 2 if _VERSION >= (3, 14) else 1 + (arg & 1), 0),
}


def _of_local(name: str) -> frozenset[Origin]:
    return frozenset([(name, ())])


def _attribute_of(origins: frozenset[Origin], name: str) -> frozenset[Origin]:
    return frozenset([(load, (*path, name)) for load, path in origins])


def _handlers(code: types.CodeType) -> list[tuple[int, int]]:
    """Where handlers of exceptions begin, and how many items are on the stack there."""
    if not _HAS_NULL:
        return []  # instructions that begin blocks jump there
    entries = dis._parse_exception_table(code)  # type: ignore[attr-defined]
    return [(one.target, one.depth + one.lasti + 1) for one in entries]
