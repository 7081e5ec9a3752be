"""Numba's reader of bytecode, which knows more statements here than Numba compiles."""

from __future__ import annotations

import dis
import types

from numba.core import bytecode, errors, interpreter, ir

from ..ir.flow_graph import SourceLine
from .code import FORMATTED, SAVED
from .forms import Refused

#: Instructions of statements that are not read, of every Python.
_UNREAD = {
    "BEFORE_WITH": "a with statement",
    "SETUP_WITH": "a with statement",
    "DELETE_GLOBAL": "a global variable that it deletes",
    "IMPORT_NAME": "an import",
    "DICT_MERGE": "a call with **",
}


def blocks(code: types.CodeType) -> dict:
    _refuse_unread(code)
    cells = tuple([types.CellType(None) for _ in code.co_freevars])
    function = types.FunctionType(code, _Everything(), code.co_name, None, cells)
    try:
        identity = bytecode.FunctionIdentity.from_function(function)
        read = bytecode.ByteCode(identity)
        _drop_handlers_of_comprehensions(read)
        return _with_one_return(_Interpreter(identity, _exchanged(read)).interpret(read).blocks)
    except Refused:
        raise
    except Exception as error:  # any error of Numba's reader for bytecode that it does not know
        first = str(error).strip().splitlines()[:1]
        raise Refused(
            f"{code.co_name} has bytecode that is not known ({' '.join(first)})"
        ) from None


def _with_one_return(blocks: dict) -> dict:
    """The blocks, of which all that return the same variable lead to one that does.

    Python copies `return total` to the ends of branches before it, so that they would not meet.
    """
    found: dict[str, list] = {}
    for block in blocks.values():
        if (name := _returned(block)) is not None:
            found.setdefault(name, []).append(block)
    for same in found.values():
        if len(same) > 1:
            label, first = max(blocks) + 1, same[0]
            blocks[label] = ir.Block(first.scope, first.body[-1].loc)
            blocks[label].body = first.body[-2:]
            for block in same:
                block.body = [*block.body[:-2], ir.Jump(label, block.body[-1].loc)]
    return blocks


def _returned(block) -> str | None:
    """The variable that a block returns, with its last two statements."""
    if len(block.body) < 2 or not isinstance(block.body[-1], ir.Return):
        return None
    made, end = block.body[-2:]
    if not isinstance(made, ir.Assign) or made.target.name != end.value.name:
        return None
    value = made.value
    is_variable = isinstance(value, ir.Expr) and value.op == "cast" and value.value.name[:1] != "$"
    return value.value.name if is_variable else None


def _refuse_unread(code: types.CodeType) -> None:
    """Refuse what Numba's reader does not know, or takes for its own, in the user's words."""
    number, starts = code.co_firstlineno, dict(dis.findlinestarts(code))
    for one in dis.get_instructions(code):
        number = starts.get(one.offset) or number
        if one.opname in _UNREAD:
            error = Refused(f"it has {_UNREAD[one.opname]}")
            error.line = SourceLine(code.co_filename, number, code.co_name)
            raise error


def _drop_handlers_of_comprehensions(read) -> None:
    """Keep the handlers that the source contains: these begin with PUSH_EXC_INFO.

    From Python 3.12 on, a comprehension has one that restores its variable and raises again.
    """
    entries = getattr(read, "exception_entries", ())
    kept = [entry for entry in entries if read.table[entry.target].opname != "SWAP"]
    if len(kept) < len(entries):
        read.exception_entries = tuple(kept)


#: Instructions that Numba's reader does not take, and those in their place, which take as much from
#: the stack: `_Interpreter` makes of them what they were.
_EXCHANGED = {
    "STORE_GLOBAL": "STORE_DEREF",
    "FORMAT_WITH_SPEC": "IS_OP",
}
_CONVERTS, _HAS_SPEC = 3, 4  # flags of FORMAT_VALUE


def _exchanged(read) -> dict[int, str]:
    """Exchange instructions that Numba's reader does not take; returns them by their offset."""
    found: dict[int, str] = {}
    for one in read.table.values():
        name = one.opname
        if name == "FORMAT_VALUE" and one.arg & _HAS_SPEC:
            name = "FORMAT_WITH_SPEC"
        elif name == "FORMAT_VALUE":
            one.arg = one.arg & ~_CONVERTS  # the text is one that no result depends on
        elif name == "CONVERT_VALUE":  # the same from Python 3.13 on
            one.opname, one.opcode = "NOP", dis.opmap["NOP"]
        if name in _EXCHANGED:
            found[one.offset] = name
            one.opname = _EXCHANGED[name]
            one.opcode = dis.opmap[one.opname]
    return found


class _Everything(dict):
    """Globals in which each name is something: names are looked up when the code is followed."""

    def __missing__(self, name: str):
        return None

    def get(self, name, default=None):
        return None


class _Assigner(interpreter.Assigner):
    """Simplifies assignments, but of variables that functions share: a call may set these."""

    def __init__(self, shared: set[str]):
        super().__init__()
        self._shared = shared

    def assign(self, srcvar, destvar):
        if srcvar.name not in self._shared:
            return super().assign(srcvar, destvar)
        for name in self.src_invalidate.pop(destvar.name, ()):
            self.dest_to_src.pop(name, None)
        return srcvar


class _Interpreter(interpreter.Interpreter):
    """Numba's, with variables read where Python reads them, and what was `_exchanged`."""

    def __init__(self, identity, exchanged: dict[int, str]):
        super().__init__(identity)
        self._exchanged = exchanged

    def op_STORE_DEREF(self, inst, value):
        if inst.offset in self._exchanged:
            name = self.func_id.code.co_names[inst.arg]
            self.store(value=self.get(value), name=name)
        else:
            super().op_STORE_DEREF(inst, value)

    def op_IS_OP(self, inst, lhs, rhs, res):
        if inst.offset in self._exchanged:
            spec = ir.Expr(FORMATTED, self.loc, value=self.get(lhs), spec=self.get(rhs))
            self.store(spec, res)
        else:
            super().op_IS_OP(inst, lhs, rhs, res)

    def _start_new_block(self, offset):
        super()._start_new_block(offset)
        self.assigner = _Assigner({*self.code_cellvars, *self.code_freevars})

    def op_LOAD_FAST_AND_CLEAR(self, inst, res):
        """Save a variable that may be unbound: a comprehension takes its name."""
        name = self.code_locals[inst.arg]
        if name in self.code_cellvars:
            raise Refused(f"a function made in a comprehension reads its variable {name}")
        try:
            value = ir.Expr(SAVED, self.loc, value=self.get(name))
        except errors.NotDefinedError:
            value = ir.Expr(SAVED, self.loc, value=None)
        self.store(value, res)
