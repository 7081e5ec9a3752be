"""Code of a function from Numba's reader of bytecode: blocks, variables, liveness."""

from __future__ import annotations

import dis
import functools
import types

from numba.core import bytecode, errors, interpreter, ir

from ..._core.codegen import compat
from ..ir.flow_graph import Line
from .errors import Refused, Unread

#: An expression: a variable as it is, or nothing where it is unbound.
SAVED = "saved"
#: An expression: the text of a value, in the format that `spec` holds.
FORMATTED = "formatted"
#: Instructions of statements that are not read, of every Python.
_UNREAD = {
    "BEFORE_WITH": "a with statement",
    "SETUP_WITH": "a with statement",
    "DELETE_GLOBAL": "a global variable that it deletes",
    "IMPORT_NAME": "an import",
    "DICT_MERGE": "a call with **",
}


class Code:
    """Blocks of statements by label; the first one's label is `first`."""

    def __init__(self, code: types.CodeType):
        self.code = code
        self.name = code.co_name
        self.blocks = _blocks(code)
        self.saved = _saved(self.blocks)
        self.first = min(self.blocks)
        self.free = frozenset(code.co_freevars)
        #: Global names that it assigns, which are variables of no frame.
        self.assigned_globals = frozenset(
            [one.argval for one in dis.get_instructions(code) if one.opname == "STORE_GLOBAL"]
        )
        self.cells = frozenset(code.co_cellvars)
        self._live_in = self._liveness()
        self._live_at: dict[tuple[int, int], frozenset[str]] = {}
        self._ends_behind: dict[int, frozenset[int]] | None = None

    def live(self, label: int, at: int) -> frozenset[str]:
        """Variables that are read from statement `at` of a block on; cells are always live."""
        if (label, at) not in self._live_at:
            body = self.blocks[label].body
            live = set().union(*[self._live_in[after] for after in _targets(body[-1])])
            for statement in reversed(body[at:]):
                _before(statement, live)
            self._live_at[label, at] = frozenset(live | self.cells)
        return self._live_at[label, at]

    def join_of(self, label: int) -> tuple[int, list[int]] | None:
        """Where all ways from the end of a block meet again, and the blocks before that.

        None where there is no such block, since a way returns or raises, or the block comes again.
        """
        if self._ends_behind is None:
            self._ends_behind = _postdominators(self.blocks)
        after = _targets(self.blocks[label].body[-1])
        common = frozenset.intersection(*[self._ends_behind[one] for one in after])
        found = [one for one in common if self._ends_behind[one] == common]
        if not found:
            return None
        between, waiting = set(), list(after)
        while waiting:
            one = waiting.pop()
            if one != found[0] and one not in between:
                between.add(one)
                waiting.extend(_targets(self.blocks[one].body[-1]))
        return None if label in between else (found[0], sorted(between))

    def _liveness(self) -> dict[int, frozenset[str]]:
        found: dict[int, frozenset[str]] = dict.fromkeys(self.blocks, frozenset())
        changed = True
        while changed:
            changed = False
            for label in sorted(self.blocks, reverse=True):
                body = self.blocks[label].body
                live = set().union(*[found[after] for after in _targets(body[-1])])
                for statement in reversed(body):
                    _before(statement, live)
                if live != found[label]:
                    found[label], changed = frozenset(live), True
        return found


def _saved(blocks: dict) -> frozenset[str]:
    """Temporaries that hold the earlier variable of a comprehension, or nothing.

    From Python 3.12 on, comprehensions are part of the function around them.
    """
    pairs = [
        (one.target.name, one.value)
        for block in blocks.values()
        for one in block.body
        if isinstance(one, ir.Assign) and one.target.name.startswith("$")
    ]
    found = {name for name, value in pairs if isinstance(value, ir.Expr) and value.op == SAVED}
    count = -1
    while found and count != len(found):
        count = len(found)
        copies = [(name, value) for name, value in pairs if isinstance(value, ir.Var)]
        found.update(name for name, value in copies if value.name in found)
    return frozenset(found)


def _targets(end) -> list[int]:
    if isinstance(end, ir.Jump):
        return [end.target]
    if isinstance(end, ir.Branch):
        return [end.truebr, end.falsebr]
    return []


def _postdominators(blocks: dict) -> dict[int, frozenset[int]]:
    """For each block those that all ways from it to a return go through, itself included."""
    every = frozenset(blocks)
    found = dict.fromkeys(blocks, every)
    changed = True
    while changed:
        changed = False
        for label in sorted(blocks, reverse=True):
            end = blocks[label].body[-1]
            after = [found[one] for one in _targets(end)]
            made = frozenset.intersection(*after) if after else frozenset()
            if isinstance(end, (ir.Raise, ir.StaticRaise)):
                made = frozenset()
            made |= {label}
            if made != found[label]:
                found[label], changed = made, True
    return found


def _before(statement, live: set[str]) -> None:
    """The variables live before a statement, from those live after it."""
    if isinstance(statement, ir.Assign):
        live.discard(statement.target.name)
    live.update(read_by(statement))


def read_by(statement) -> list[str]:
    """The variables that a statement reads."""
    if not isinstance(statement, ir.Assign):
        return [one.name for one in statement.list_vars()]
    value = statement.value
    if isinstance(value, (ir.Var, ir.Arg)):
        return [value.name]
    return [one.name for one in value.list_vars()] if isinstance(value, (ir.Expr, ir.Yield)) else []


@functools.lru_cache(128)
def code_of(code: types.CodeType) -> Code:
    """The code read; Refused if Numba's reader does not know it."""
    if not compat.holds("numba-reader", _reads):
        raise Unread(f"{code.co_name} cannot be read: numba-reader is off, or does not hold here")
    return Code(code)


def _example(x, n):
    for k in range(n):
        if x > k:
            x = x * k
    return x


def _reads() -> bool:
    """Whether a loop with a branch is read as such: its expressions, ends and variables."""
    read = Code(_example.__code__)
    branches = [one for one in read.blocks.values() if isinstance(one.body[-1], ir.Branch)]
    names = {_op(one) for block in read.blocks.values() for one in block.body}
    (loop,) = [k for k, one in read.blocks.items() if "iternext" in map(_op, one.body)]
    live = read.live(loop, 0)
    wanted = {"call", "getiter", "iternext", "pair_first", "pair_second", "binop"}
    return len(branches) == 2 and wanted <= names and "x" in live and "n" not in live


def _op(statement):
    return getattr(getattr(statement, "value", None), "op", None)


def _blocks(code: types.CodeType) -> dict:
    _refuse_unread(code)
    cells = tuple([types.CellType(None) for _ in code.co_freevars])
    function = types.FunctionType(code, _Everything(), code.co_name, None, cells)
    try:
        identity = bytecode.FunctionIdentity.from_function(function)
        read = bytecode.ByteCode(identity)
        _drop_handlers_of_comprehensions(read)
        return _Interpreter(identity, _exchanged(read)).interpret(read).blocks
    except Refused:
        raise
    except Exception as error:  # any error of Numba's reader for bytecode that it does not know
        first = str(error).strip().splitlines()[:1]
        raise Refused(
            f"{code.co_name} has bytecode that is not known ({' '.join(first)})"
        ) from None


def _refuse_unread(code: types.CodeType) -> None:
    """Refuse what Numba's reader does not know, or takes for its own, in the user's words."""
    number, starts = code.co_firstlineno, dict(dis.findlinestarts(code))
    for one in dis.get_instructions(code):
        number = starts.get(one.offset) or number
        if one.opname in _UNREAD:
            error = Refused(f"it has {_UNREAD[one.opname]}")
            error.line = Line(code.co_filename, number, code.co_name)
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
