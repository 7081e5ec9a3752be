"""The names that code uses, as far as its bytecode tells; whether it uses others by their text."""

from __future__ import annotations

import dis
import functools
import operator
import types
from collections.abc import Iterable
from typing import NamedTuple

from ..._core.tensor.own_code import own_code

#: Functions that read an attribute by its name, which may not exist.
_ASKING = frozenset(("getattr", "hasattr", "setattr", "delattr", "vars"))
_GETTERS = frozenset(("attrgetter", "methodcaller"))
#: Methods that read files, and that write to them.
_READING = frozenset("read readline readlines read1 readinto getvalue seek tell".split())
_WRITING = frozenset(("write", "writelines"))
#: Functions that read names of their caller, as far as a text tells.
_TEXTS = frozenset(("eval", "exec"))
_LOADS = ("LOAD_GLOBAL", "LOAD_NAME")


class Uses(NamedTuple):
    """The names that code reads, and those that it assigns."""

    names: frozenset[str]  # of globals
    variables: frozenset[str]  # of enclosing functions
    attributes: frozenset[str]
    modules: frozenset[str]  # that it imports
    strings: frozenset[str]  # that may be names
    operators: frozenset[str]  # methods that Python calls for its operators, if there are any
    routes: frozenset[str]  # by which it reads what names do not tell, see `_routes`
    assigned_names: frozenset[str]
    assigned_variables: frozenset[str]


@functools.lru_cache(maxsize=4096)
def uses_of(code: types.CodeType) -> Uses:
    found: list[set[str]] = [set() for _ in Uses._fields]
    names, variables, attributes, modules, strings, operators, routes, *assigned = found
    before = ""
    for one in dis.get_instructions(code):
        kind, _, what = one.opname.partition("_")
        operators |= _operators(before, one)
        before = one.opname
        is_assigned = kind in ("STORE", "DELETE")
        if one.opcode in dis.hasfree:
            (assigned[1] if is_assigned else variables).add(one.argval)
        elif one.opcode not in dis.hasname:
            continue
        elif one.opname == "IMPORT_NAME":
            modules.add(one.argval)
        elif what.endswith(("ATTR", "METHOD")) or one.opname == "IMPORT_FROM":
            attributes.add(one.argval)
        elif not (is_assigned and what == "NAME"):  # which is in the body of a class
            (assigned[0] if is_assigned else names).add(one.argval)
    strings |= _strings(code.co_consts)
    routes |= _routes(code)
    for inner in code.co_consts:
        if isinstance(inner, types.CodeType):
            for own, others in zip(found, uses_of(inner), strict=True):
                own |= others
    return Uses(*map(frozenset, found))


def _operators(before: str, one: dis.Instruction) -> set[str]:
    """The methods for an instruction that compares or asks for truth, after another."""
    if one.opname == "CONTAINS_OP" or (one.opname == "COMPARE_OP" and one.argval in ("==", "!=")):
        return {"__eq__", "__ne__"}
    asks = one.opname in ("UNARY_NOT", "TO_BOOL") or "IF_TRUE" in one.opname
    asks = asks or "IF_FALSE" in one.opname or (one.opname, one.argval) == ("LOAD_GLOBAL", "bool")
    if asks and before not in ("COMPARE_OP", "CONTAINS_OP", "IS_OP"):
        return {"__bool__", "__len__"}
    return set()


def _strings(constants: Iterable) -> set[str]:
    """The strings among constants that can be names of attributes."""
    inner = [_strings(one) for one in constants if isinstance(one, tuple)]
    own = {one for one in constants if isinstance(one, str) and one.isidentifier()}
    return own.union(*inner)


def asked_of(uses: list[Uses]) -> frozenset[str]:
    """The names for which getattr and hasattr may be called; those of others, by a helper."""
    asking = [one.strings for one in uses if _asks(one)]
    every = asking if all(asking) else [one.strings for one in uses]
    return frozenset().union(*every)


def _asks(uses: Uses) -> bool:
    names = uses.names | uses.attributes
    return "__dict__" in uses.attributes or not (_ASKING | _GETTERS).isdisjoint(names)


def texts_of(one) -> frozenset[str]:
    """The attributes that an object such as `operator.attrgetter("a.b")` reads of others."""
    if not isinstance(one, (operator.attrgetter, operator.methodcaller)):
        return frozenset()
    texts = [text for text in one.__reduce__()[1] if isinstance(text, str)]
    return frozenset(name for text in texts for name in text.split("."))


def writes_files(uses: list[Uses], attributes: frozenset[str]) -> bool:
    """Whether code uses files to write to them, as far as its names tell."""
    prints = any("print" in one.names for one in uses)
    reads = not _READING.isdisjoint(attributes)
    return not reads and (prints or not _WRITING.isdisjoint(attributes))


class NamesWanted(NamedTuple):
    """Names of attributes that code reads of any object, and of those that it asks for.

    `own` are those of code that is not of installed packages. `operators` are methods that Python
    calls, `routes` as in `Uses`. `writes` says that code uses files to write to them.
    """

    attributes: frozenset[str]
    own: frozenset[str]
    asked: frozenset[str]
    operators: frozenset[str]
    routes: frozenset[str]
    writes: bool


def wanted_by(functions: list, of_packages: list, every: list) -> NamesWanted:
    """What functions read of objects, of which some are of installed packages."""
    uses = [uses_of(own_code(one)) for one in functions]
    asked = asked_of(uses).union(*map(texts_of, every))
    own = frozenset().union(asked, *[one.attributes for one in uses])
    return NamesWanted(
        own.union(*[uses_of(own_code(one)).attributes for one in of_packages]),
        own,
        asked,
        frozenset().union(*[one.operators for one in uses]),
        frozenset().union(*[one.routes for one in uses]),
        writes_files(uses, own),
    )


# --- by their text --------------------------------------------------------------------------------


def _routes(code: types.CodeType) -> set[str]:
    """How code reads what its names and constants do not tell: "attributes", "globals()", …

    "globals" where it reads global names by constants.
    """
    found: set[str] = set()
    every = [*dis.get_instructions(code)]
    for k, one in enumerate(every):
        name = one.argval if one.opname in _LOADS else None
        if name == "vars" or (one.opcode in dis.hasname and one.argval == "__dict__"):
            found.add("attributes")
        elif name in _ASKING and not _has_constant(every[k + 1 :]):
            found.add("attributes")
        elif name in _TEXTS and len(_arguments(every[k + 1 :])) > 1:
            found.add("attributes")  # of what is in the namespace that it is given
        elif name == "globals":
            found.add("globals" if _is_indexed_by_constant(every[k + 1 :]) else "globals()")
        elif name in _TEXTS:
            found.add(f"{name}()")
    return found


def _has_constant(rest: list[dis.Instruction]) -> bool:
    """Whether the second argument of a call is a constant, from its first argument on."""
    found = _arguments(rest)
    return len(found) > 1 and found[1].opname == "LOAD_CONST"


def _arguments(rest: list[dis.Instruction]) -> list[dis.Instruction]:
    """What gives each argument of a call, from its first argument on; [] if that is not known."""
    pushed: list[dis.Instruction] = []  # of each thing on the stack, what pushed it
    for one in rest:
        if one.opname.startswith("CALL") and one.arg == len(pushed):
            return pushed
        if one.opcode in dis.hasjrel or one.opcode in dis.hasjabs or one.opname == "KW_NAMES":
            return []
        if one.opname == "PRECALL":
            continue
        is_call = one.opname == "CALL"
        effect = (
            -1 - (one.arg or 0) if is_call else dis.stack_effect(one.opcode, one.arg, jump=False)
        )
        if len(pushed) + effect < 0:
            return []
        pushed = pushed[: len(pushed) + min(effect, 0)] + [one] * effect
        if effect < 1 and pushed:
            pushed[-1] = one  # which is made of what was there
    return []


def _is_indexed_by_constant(rest: list[dis.Instruction]) -> bool:
    """Whether `globals` is called and the item of a constant is taken, or asked for by `get`."""
    names = [one for one in rest[:8] if one.opname not in ("PRECALL", "PUSH_NULL", "CACHE")]
    if len(names) < 3 or not names[0].opname.startswith("CALL"):
        return False
    is_method = names[1].argval == "get"
    return names[1 + is_method].opname == "LOAD_CONST"
