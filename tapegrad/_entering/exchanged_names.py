"""Code in which names are stand-ins where they are called, found by an abstract stack."""

from __future__ import annotations

import dis
import functools
import itertools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._core.tensor.pytree import ABSENT, outer
from .stand_ins import OF_PYTHON, is_of_scipys_class, made_of, stand_in, view_of

# --- How code uses what it loads, found by an abstract stack over its instructions ----------------
# Each item of the stack is a set of origins: which instruction loaded the value, or which local
# variable held it, and the attributes that were read of it since. Code with an instruction that is
# not in the table is not analysed.


#: The number of an instruction that loads a value, or the name of a local variable.
Load = int | str
#: Where a value comes from, with the attributes that were read of it.
Origin = tuple[Load, tuple[str, ...]]

_VERSION = sys.version_info[:2]
#: What LOAD_GLOBAL, LOAD_ATTR and calls hold besides a callee: NULL, below it or above it.
_HAS_NULL, _NULL_IS_ABOVE = _VERSION >= (3, 11), _VERSION >= (3, 13)
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


class UnreadCode(Exception):
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
    "END_FOR": lambda _: 1 if _NULL_IS_ABOVE else 2,
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
        (1 if _HAS_NULL else 2) + (0 if _NULL_IS_ABOVE else _count_bits(arg & 15))
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
                raise UnreadCode("stacks of two lengths meet")
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
                raise UnreadCode("stacks of two lengths meet")
            kept = [a | b for a, b in zip(before, kept, strict=True)]
        self._at[one.argval] = kept

    def _popped(self, count: int) -> list[frozenset[Origin]]:
        if count > len(self._stack):
            raise UnreadCode("more is taken than there is")
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
        elif _NULL_IS_ABOVE:
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
            raise UnreadCode("more is taken than there is")
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
            raise UnreadCode(f"the instruction {one.opname}")
        taken = _TAKEN[one.opname](one.arg or 0)
        put = dis.stack_effect(one.opcode, one.arg, jump=False) + taken
        if put < 0:
            raise UnreadCode(f"the instruction {one.opname}")
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


# --- Code in which names of NumPy, SciPy and `math` are stand-ins where they are called -----------
# The instructions keep their places, lines and effects on the stack: each one that loads such a
# name becomes one that loads a constant. What is stored, compared or used as a key stays the
# original.


_NULL_BIT, _METHOD_BIT = _VERSION >= (3, 11), _VERSION >= (3, 12)
_NULL_ABOVE = _VERSION >= (3, 13)
_PUSH_NULL, _NOP = dis.opmap.get("PUSH_NULL", 0), dis.opmap["NOP"]
_JUMP = dis.opmap["JUMP_FORWARD"]
_EXTENDED, _CONST = dis.opmap["EXTENDED_ARG"], dis.opmap["LOAD_CONST"]
#: Instructions that load a name; those of a module are in the class body or at the top of a file.
_LOADS = frozenset(("LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF", "IMPORT_NAME"))
#: Functions that call their arguments, and neither store nor compare them.
_CALLING = frozenset(
    "map filter sorted min max reduce vectorize partial apply_along_axis frompyfunc fromfunction "
    "piecewise".split()
)
#: Names in code that compiles functions itself: those that it makes stay as they are.
_COMPILERS = frozenset("njit jit guvectorize jitclass cfunc stencil".split())


class LoadedCode:
    """Code, and what its loads of names give, those in the code in it included.

    Two are equal where the code and all objects are the same ones. ABSENT stands for what is not
    known or may change.
    """

    __slots__ = ("_hash", "code", "values")

    def __init__(self, code: types.CodeType, resolve: Callable):
        self.code = code
        #: By the identity of the code that an instruction is in, and its place.
        self.values = {(id(one), at.offset): resolve(one, at) for one, at in _loads(code)}
        self._hash = hash((id(code), *map(id, self.values.values())))

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other) -> bool:
        if self.code is not other.code:
            return False
        pairs = zip(self.values.values(), other.values.values(), strict=True)
        return all([one is another for one, another in pairs])


class Watched(NamedTuple):
    """Originals that have to stay since code looks at them: no use of theirs is exchanged.

    `compared` are the identities of objects that code compares with others, `assigned` the
    attributes of modules that it writes, each with the identity of the module.
    """

    compared: frozenset[int] = frozenset()
    assigned: frozenset[tuple[int, str]] = frozenset()

    @classmethod
    def by_any(cls, every: Iterable[Watched]) -> Watched:
        """What is watched by one of several."""
        return cls(*[frozenset().union(*one) for one in zip(*every, strict=True)])


class Rewritten(NamedTuple):
    """Code with stand-ins; the names of originals that stay, with lines; attributes it relies on.

    An attribute is (the dict of a module, name, value).
    """

    code: types.CodeType
    left: frozenset[tuple[str, int]]
    attributes: tuple[tuple[dict, str, Any], ...]


def rewritten(loaded: LoadedCode, watched: Watched) -> Rewritten:
    """The code with stand-ins, those in it included; the code itself if it has none."""
    found = _rewritten(loaded, watched)
    is_current = all([space.get(name) is value for space, name, value in found.attributes])
    return found if is_current else _rewritten.__wrapped__(loaded, watched)


@functools.lru_cache(maxsize=1024)
def _rewritten(loaded: LoadedCode, watched: Watched) -> Rewritten:
    rewriter = _Rewriter(loaded, watched)
    made = rewriter.of(loaded.code)
    return Rewritten(made, frozenset(rewriter.left), tuple(rewriter.attributes.values()))


@functools.lru_cache(maxsize=1024)
def watched_in(loaded: LoadedCode) -> Watched:
    """What code, and the code in it, compares and assigns."""
    found = [*_Rewriter(loaded, Watched()).watched(loaded.code)]
    return Watched(
        frozenset([one for one, name in found if name is None]),
        frozenset([(one, name) for one, name in found if name is not None]),
    )


def _loads(code: types.CodeType) -> Iterator[tuple[types.CodeType, dis.Instruction]]:
    """The instructions of code, and of the code in it, that load names or import."""
    yield from zip(itertools.repeat(code), _own_loads(code))
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            yield from _loads(one)


@functools.lru_cache(maxsize=4096)
def _own_loads(code: types.CodeType) -> tuple[dis.Instruction, ...]:
    """The same without code in it; for code that is equal, not the same, it is what was found."""
    return tuple([one for one in instructions(code) if one.opname in _LOADS])


# --- which ----------------------------------------------------------------------------------------


def _uses_of(code: types.CodeType) -> dict:
    try:
        return uses(code)
    except UnreadCode:
        return {}


def _all_uses(found: dict, load, path: tuple[str, ...] = (), seen: frozenset = frozenset()):
    """The uses of a load; in place of a local variable those of the variable."""
    for use in found.get(load, ()):
        whole = use._replace(path=(*path, *use.path))
        if use.how != "local" or use.name in seen:
            yield whole
        else:
            yield from _all_uses(found, use.name, whole.path, seen | {use.name})


def _followed(original, ours, path: tuple[str, ...]) -> tuple[Any, Any]:
    """The original and the stand-in after the attributes of a path are read; ABSENT: not known.

    The second is ABSENT, too, where a module has another object than it was imported with.
    """
    for name in path:
        found = getattr(original, name, ABSENT) if _is_open(original) else ABSENT
        mine = ABSENT if found is ABSENT else getattr(ours, name, ABSENT)
        if isinstance(original, types.ModuleType) and mine is not found:
            is_view = isinstance(found, types.ModuleType) and mine is view_of(found)
            mine = mine if is_view or stand_in(found) is mine else ABSENT
        if found is ABSENT or mine is ABSENT:
            return found, ABSENT
        original, ours = found, mine
    return original, ours


def _stand_in_for(found: dict, number: int, value) -> Any:
    """The stand-in of what a load gives; of other modules a view, if code reads one of theirs."""
    ours = stand_in(value)
    if ours is not None or not isinstance(value, types.ModuleType):
        return ours
    for use in _all_uses(found, number):
        held: Any = value
        for name in use.path:
            is_numbas = isinstance(held, types.ModuleType) and outer(held.__name__) == "numba"
            if not is_numbas and (held is not value or name not in vars(value)):
                break
            held = getattr(held, name, None)
        if not isinstance(held, types.ModuleType) and stand_in(held) is not None:
            return view_of(value)
    return None


def _owners(value, path: tuple[str, ...]) -> Iterator[tuple[types.ModuleType, str]]:
    """The modules on a path of attributes, each with the name that is read of it."""
    for name in path:
        if not isinstance(value, types.ModuleType):
            return
        yield value, name
        value = getattr(value, name, ABSENT)


def _is_open(value) -> bool:
    """Whether reading an attribute of an object runs no code of the user."""
    return isinstance(value, (types.ModuleType, type, np.ufunc)) or is_of_scipys_class(value)


class _Rewriter:
    """What is made of code whose loads give some objects."""

    def __init__(self, loaded: LoadedCode, watched: Watched):
        self._values, self._watched = loaded.values, watched
        self.left: set[tuple[str, int]] = set()
        self.attributes: dict[tuple[int, str], tuple[dict, str, Any]] = {}

    def of(self, code: types.CodeType) -> types.CodeType:
        every, constants = instructions(code), list(code.co_consts)
        raw, changed, found = bytearray(code.co_code), False, _uses_of(code)
        for number, value in self._candidates(code, found):
            one, ours = every[number], _stand_in_for(found, number, value)
            is_replaced = number in found and self._is_replaced(code, found, number, value, ours)
            if is_replaced and _put_constant(code, raw, constants, number, ours):
                changed = True
            elif not is_replaced or all(ours is not one for one in OF_PYTHON.values()):
                self.left.add((one.argval, _line(code, one)))
        if not _COMPILERS & {*code.co_names}:
            for place, inner in enumerate(code.co_consts):
                if isinstance(inner, types.CodeType):
                    constants[place] = self.of(inner)
                    changed |= constants[place] is not inner
        return code.replace(co_code=bytes(raw), co_consts=tuple(constants)) if changed else code

    def watched(self, code: types.CodeType) -> Iterator[tuple[int, str | None]]:
        """The identities of what code compares, and of modules with the names that it writes."""
        looks = COMPARED | {"STORE_ATTR", "DELETE_ATTR"}
        if any([one.opname in looks for one in instructions(code)]):
            found = _uses_of(code)
            for number, value in self._candidates(code, found):
                for use in _all_uses(found, number):
                    ours = _stand_in_for(found, number, value)
                    original = _followed(value, ours, use.path)[0]
                    if use.how in ("compared", "assigned") and stand_in(original) is not None:
                        yield id(original), use.name if use.how == "assigned" else None
        for inner in code.co_consts:
            if isinstance(inner, types.CodeType):
                yield from self.watched(inner)

    def _candidates(self, code: types.CodeType, found: dict) -> list[tuple[int, Any]]:
        """The instructions that load what has a stand-in, by number, with the original."""
        values = [
            (number, self._values.get((id(code), one.offset), ABSENT))
            for number, one in enumerate(instructions(code))
            if one.opname in _LOADS
        ]
        known = [pair for pair in values if pair[1] is not ABSENT]
        return [pair for pair in known if _stand_in_for(found, *pair) is not None]

    def _is_replaced(self, code, found: dict, number: int, value, ours) -> bool:
        """Whether a load gives the stand-in: some use needs it, and no other can see it."""
        needs = False
        for use in _all_uses(found, number):
            original, mine = _followed(value, ours, use.path)
            if not self._is_steady(value, use.path):
                return False
            if use.how == "dropped" or (original is mine and original is not ABSENT):
                continue
            if mine is ABSENT or not self._fits(code, use, original):
                if mine is ABSENT:  # as of a function that a test has replaced for now
                    self._note(value, use.path)
                return False
            needs = True
        if needs:
            for use in _all_uses(found, number):
                self._note(value, use.path)
        return needs

    def _is_steady(self, value, path: tuple[str, ...]) -> bool:
        """Whether no code writes the attributes of modules that are read."""
        owners = [*_owners(value, path)]
        return self._watched.assigned.isdisjoint([(id(one), name) for one, name in owners])

    def _note(self, value, path: tuple[str, ...]) -> None:
        """Keep the attributes of modules that are read: another value is another code.

        So are those of which a stand-in has been made.
        """
        read = [*_owners(value, path), *[(value, name) for name in made_of(value)]]
        for owner, name in read:
            if name in vars(owner):
                self.attributes[id(owner), name] = vars(owner), name, vars(owner)[name]

    def _fits(self, code, use: Use, original) -> bool:
        """Whether a stand-in does in one use what the original does."""
        if use.how in ("call", "item"):
            return True
        if use.how != "argument" or id(original) in self._watched.compared:
            return False
        if isinstance(original, types.ModuleType):
            return stand_in(original) is not None
        return bool(use.callees) and all([self._is_calling(code, *one) for one in use.callees])

    def _is_calling(self, code, load, path: tuple[str, ...]) -> bool:
        """Whether a callee is a function of Python's or NumPy's that calls its arguments."""
        value = ABSENT
        if type(load) is int:
            place = instructions(code)[load].offset
            value = self._values.get((id(code), place), ABSENT)
        for name in path:
            value = getattr(value, name, ABSENT) if _is_open(value) else ABSENT
        module = getattr(value, "__module__", None)
        owner = outer(module) if isinstance(module, str) else ""
        is_known = owner in ("builtins", "functools", "_functools", "numpy")
        return is_known and getattr(value, "__name__", "") in _CALLING


# --- other code -----------------------------------------------------------------------------------


def _put_constant(code, raw: bytearray, constants: list, number: int, value) -> bool:
    """Make an instruction load a constant, if there is room for the number of the constant.

    Where those that follow read a function of a module, the constant is the function.
    """
    every = instructions(code)
    value, last = _function_of(every, number, value)
    one, first = every[number], number
    while first and every[first - 1].opcode == _EXTENDED:
        first -= 1
    if one.opname == "IMPORT_NAME":
        before = _before_import(every, first)
        if before is None:
            return False
        first = before
    start, stop = every[first].offset, every[last + 1].offset if last + 1 < len(every) else len(raw)
    place = len(constants)
    made = [_CONST, place & 255]
    if place > 255:
        made = [_EXTENDED, place >> 8, *made]
    nulls = [_PUSH_NULL, 0] * sum(map(_has_null, (one, every[last]) if last > number else (one,)))
    made = [*made, *nulls] if _NULL_ABOVE else [*nulls, *made]
    if place > 65535 or len(made) > stop - start:
        return False
    constants.append(value)
    count = (stop - start - len(made)) // 2
    rest = [_NOP, 0] * count
    if count > 2:  # which takes longer than to pass over them
        rest[:2] = _JUMP, count - 1
    raw[start:stop] = bytes(made + rest)
    return True


def _function_of(every, number: int, value) -> tuple[Any, int]:
    """The function that the instructions after a load read of a module, and the last of them.

    The value itself, and the number of the load, where they do something else.
    """
    found = value
    for last, one in enumerate(every[number + 1 :], number + 1):
        if not _NULL_BIT or type(found) is not types.ModuleType or one.is_jump_target:
            break
        if one.opname not in ("LOAD_ATTR", "LOAD_METHOD"):
            break
        found = getattr(found, one.argval, ABSENT)
        if callable(found):
            return found, last
    return value, number


def _has_null(one: dis.Instruction) -> bool:
    """Whether what an instruction puts on the stack comes with the NULL of a call."""
    with_bit = one.opname == "LOAD_GLOBAL" or (one.opname == "LOAD_ATTR" and _METHOD_BIT)
    return one.opname == "LOAD_METHOD" or (with_bit and _NULL_BIT and bool((one.arg or 0) & 1))


def _before_import(every, number: int) -> int | None:
    """The first of the two instructions that give an import its level and list of names."""
    first = number - 2
    if first < 0 or not all(one.opname.startswith("LOAD_") for one in every[first:number]):
        return None
    return None if first and every[first - 1].opcode == _EXTENDED else first


def _line(code: types.CodeType, one: dis.Instruction) -> int:
    return next((n for start, end, n in code.co_lines() if start <= one.offset < end and n), 0)
