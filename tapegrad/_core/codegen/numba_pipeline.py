"""Numba's pipeline for our code, without stages that would delay a first gradient.

Generated code is plain: integers, doubles, loops and calls. It needs none of the rewriting of
closures, array expressions and literals, and its helpers are only ever included in exports.
"""

import collections
import contextlib
import functools
import importlib
import re

import llvmlite.binding as llvm
import numba
from llvmlite import ir
from numba import types
from numba.core import analysis
from numba.core import typed_passes as typed
from numba.core import untyped_passes as untyped
from numba.core.cgutils import normalize_ir_text
from numba.core.codegen import CPUCodeLibrary, JITCodeLibrary
from numba.core.compiler import Compiler, CompilerBase
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.ir_utils import build_definitions, replace_vars_inner, replace_vars_stmt
from numba.core.ssa import reconstruct_ssa

from . import collection, compat
from .layout import CACHE_LINE
from .machine_code import read_text


@register_pass(mutates_CFG=True, analysis_only=False)
class SingleAssignment(FunctionPass):
    """Each variable assigned once; no lifetimes, which only references counted need."""

    _name = "tapegrad_single_assignment"

    def __init__(self):
        super().__init__()

    def run_pass(self, state):
        _rename_within_blocks(state.func_ir.blocks)
        state.func_ir = reconstruct_ssa(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


def _rename_within_blocks(blocks) -> None:
    """Rename variables that only their own block uses.

    Numba traverses the whole function for each variable that is assigned more than once. In
    generated code most of those are adjoints, which no other block reads.
    """
    uses = analysis.compute_use_defs(blocks)
    flow = analysis.compute_cfg_from_blocks(blocks)
    live = analysis.compute_live_map(flow, blocks, uses.usemap, uses.defmap)
    assignments = [s for block in blocks.values() for s in block.find_insts(numba.core.ir.Assign)]
    count = collections.Counter(s.target.name for s in assignments)
    several = {name for name, times in count.items() if times > 1}
    for label, block in blocks.items():
        later = set().union(*[live[successor] for successor, _ in flow.successors(label)])
        _rename(block, several, several & later)


def _rename(block, several: set[str], later: set[str]) -> None:
    """Rename in one block; of variables that are read `later` all assignments but the last."""
    last = {s.target.name: s for s in block.find_insts(numba.core.ir.Assign)}
    now: dict = {}
    for statement in block.body:
        if not isinstance(statement, numba.core.ir.Assign):
            replace_vars_stmt(statement, now)
            continue
        statement.value = replace_vars_inner(statement.value, now)
        target = statement.target
        if target.name in later and last[target.name] is statement:
            now.pop(target.name, None)
        elif target.name in several:
            now[target.name] = target.scope.redefine(target.name, loc=target.loc)
            statement.target = now[target.name]


@register_pass(mutates_CFG=True, analysis_only=False)
class WithoutPhis(FunctionPass):
    """Phi nodes as assignments in the blocks before, which lowering asks for."""

    _name = "tapegrad_without_phis"

    def __init__(self):
        super().__init__()

    def run_pass(self, state):
        state.func_ir = typed.PreLowerStripPhis()._strip_phi_nodes(state.func_ir)
        return True


_PASSES = (
    untyped.TranslateByteCode,
    untyped.FixupArgs,
    SingleAssignment,
    typed.NopythonTypeInference,
    WithoutPhis,
    typed.AnnotateTypes,
    typed.NativeLowering,
    typed.NoPythonBackend,
)


class Pipeline(CompilerBase):
    """Numba's compiler with the passes that plain code needs, or its own where they do not fit."""

    def define_pipelines(self):
        if not compat.is_assumed("numba-pipeline"):
            return Compiler.define_pipelines(self)
        passes = PassManager("tapegrad")
        for step in _PASSES:
            passes.add_pass(step, step.__name__)
        passes.finalize()
        return [passes]


def target():
    """Numba's context for the processor."""
    return numba.core.registry.cpu_target.target_context


#: The metadata of all our modules: a number means the same in each.
_metadata = ir.Module()


class Piece(JITCodeLibrary):
    """The compiled form of a function: text for LLVM, and the libraries that it calls.

    Numba makes LLVM read, link and optimise every function separately, again in each of its
    callers. Here functions that are called together are joined as text first.
    """

    def __init__(self, codegen, name):
        super(CPUCodeLibrary, self).__init__(codegen, name)
        self.declared: dict[str, str] = {}
        self.defined: dict[str, str] = {}
        self.called: list = []
        self._shared_module = None

    def create_ir_module(self, name):
        module = super().create_ir_module(name)
        module.metadata, module._metadatacache = _metadata.metadata, _metadata._metadatacache
        return module

    def add_ir_module(self, module):
        if module.metadata is not _metadata.metadata:
            return  # an entry point for Python or C that Numba adds to its functions
        for name, value in module.globals.items():
            if value.is_declaration if isinstance(value, ir.Function) else not value.initializer:
                self.declared[name] = normalize_ir_text(str(value))
            else:
                if value.linkage in ("", "common"):  # left out if it is never called
                    value.linkage = "linkonce_odr"
                self.defined[name] = normalize_ir_text(str(value))
        for function in module.functions:
            for block in function.blocks:  # freed now: in cycles they would wait for the collector
                block.instructions.clear()
                block.terminator = None

    def add_linking_library(self, library):
        self.called.append(library)

    def finalize(self):
        self._finalized = True

    def _get_module_for_linking(self):
        """The object that other Numba code receives when it calls this function."""
        if self._shared_module is None:
            self._shared_module = _joined(self)
        return self._shared_module


_GLOBAL = re.compile(r'@(?:"([^"]+)"|([\w.$-]+))')


def _metadata_text(value, known) -> str:
    """Metadata as text; empty if it names functions of other modules, as Numba 0.62 makes it."""
    text = str(value)
    names = [quoted or plain for quoted, plain in _GLOBAL.findall(text)]
    return text if all(name in known for name in names) else f"{value.get_reference()} = !{{}}"


def _joined(piece):
    """A module of LLVM's with a piece and all that it calls."""
    pieces, others, waiting = {}, {}, [piece]
    while waiting:
        library = waiting.pop()
        if not isinstance(library, Piece):
            others[library] = True
        elif library not in pieces:
            pieces[library] = True
            waiting += library.called
    declared: dict[str, str] = {}
    defined: dict[str, str] = {}
    for piece in pieces:
        declared |= piece.declared
        for name, text in piece.defined.items():
            if defined.setdefault(name, text) != text:
                raise RuntimeError(f"two functions of generated code define {name} differently")
    known = declared | defined
    texts = [str(piece.codegen._create_empty_module("joined")), *known.values()]
    metadata = [_metadata_text(value, known) for value in _metadata.metadata]
    module = read_text("\n".join([*texts, *metadata]))
    for library in others:
        module.link_in(library._get_module_for_linking(), preserve=True)
    module.verify()
    return module


def compiled(exports):
    """The LLVM module that Numba makes of `exports`."""
    with _plain_code():
        codegen = target().codegen()
        entries = Piece(codegen, "entries")
        ways_in = entries.create_ir_module("entries")
        for symbol, (function, signature) in exports.items():
            function.compile(signature)
            (compiled,) = function.overloads.values()
            entries.add_linking_library(compiled.library)
            _add_entry(ways_in, symbol, compiled.fndesc)
        entries.add_ir_module(ways_in)
        for symbol in exports:  # its loops are aligned to cache lines, whatever comes before
            text = entries.defined[symbol]
            entries.defined[symbol] = text.replace("\n{", f" align {CACHE_LINE}\n{{", 1)
        module = _joined(entries)
    for symbol in exports:
        module.get_function(symbol).linkage = "external"
    return module


def _add_entry(module, symbol, function):
    """A C function that calls a compiled function, which raises nothing."""
    context, kinds = target(), (function.restype, *function.argtypes)
    result, *arguments = [context.get_value_type(kind) for kind in kinds]
    entry = ir.Function(module, ir.FunctionType(result, arguments), symbol)
    builder = ir.IRBuilder(entry.append_basic_block())
    _, value = context.call_conv.call_function(
        builder,
        context.declare_function(module, function),
        function.restype,
        function.argtypes,
        entry.args,
        attrs=("alwaysinline",),
    )
    builder.ret(value)


@contextlib.contextmanager
def _plain_code():
    """Compile quickly inside this context: nothing but our code."""
    changes = [
        (numba.core.codegen.JITCPUCodegen, "_library_class", lambda usual: Piece),
        (numba.core.cpu.CPUContext, "get_executable", lambda usual: _no_way_in),
    ]
    if compat.holds("numba-shortcuts", _shortcuts_fit):
        changes += _shortcuts()
    with global_compiler_lock:  # no other thread compiles meanwhile
        _declare()
        usual = [getattr(owner, name) for owner, name, _ in changes]
        try:
            for (owner, name, change), function in zip(changes, usual, strict=True):
                setattr(owner, name, change(function))
            with collection.paused():
                yield
        finally:
            for (owner, name, _), function in zip(changes, usual, strict=True):
                setattr(owner, name, function)


def _shortcuts() -> list:
    """What takes Numba longest: whose, under which name, and what makes ours of its own."""
    return [
        (numba.core.typing.BaseContext, "resolve_function_type", _remembered),
        (types.functions.BaseFunction, "get_call_type", _resolved),
        (numba.core.interpreter.Interpreter, "post_process", lambda usual: _as_it_is),
        (numba.core.base, "_has_loc", functools.cache),
        (numba.core.base.BaseContext, "get_abi_sizeof", functools.cache),
        (numba.core.ir.Inst, "_rec_list_vars", lambda usual: _variables),
        (llvm.ffi._LLVMLock, "__enter__", lambda usual: _lock),
        (llvm.ffi._LLVMLock, "__exit__", lambda usual: _unlock),
    ]


#: How many arguments the functions have whose place shortcuts take, in their order.
_ARITIES = (4, 4, 3, 1, 2, 2, 1, 1)


def _shortcuts_fit() -> bool:
    found = [getattr(owner, name).__code__ for owner, name, _ in _shortcuts()]
    return tuple(code.co_argcount for code in found) == _ARITIES


def _declare():
    """Let Numba load its declarations; their compilation is left to its usual pipeline.

    It also looks whether SciPy has BLAS. That takes as long as all else; for us it has.
    """
    linalg = importlib.import_module("numba.np.linalg")
    usual, linalg.ensure_blas = linalg.ensure_blas, lambda: None
    try:
        target().refresh()
    finally:
        linalg.ensure_blas = usual


def _as_it_is(interpreter, rewritings, function):
    """Code of ours has no `with`, no starred arguments and no dicts, which would be rewritten."""
    return function


def _no_way_in(*_):
    """Numba requires a builtin, another one each time, as a function's Python entry point."""
    return [].append


def _lock(lock):
    """LLVM's lock, without Numba's two events for each call under it."""
    lock._lock.acquire()


def _unlock(lock, *_):
    lock._lock.release()


#: The fields of instructions that usually hold something other than variables.
_OTHERS = frozenset((str, int, float, bool, type(None), numba.core.ir.Loc))


def _variables(instruction, value) -> list:
    """The variables in the fields of an instruction, as Numba lists them."""
    if type(value) in _OTHERS:
        return []
    if isinstance(value, numba.core.ir.Var):
        return [value]
    if isinstance(value, numba.core.ir.Inst):
        return value.list_vars()
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, (list, tuple)):
        return []
    found = []
    for item in value:
        if type(item) not in _OTHERS:
            found.extend(_variables(instruction, item))
    return found


#: The types whose calls are remembered: all that generated code passes, but functions.
_REMEMBERED = (types.Number, types.Boolean, types.BaseTuple)


def _remembered(usual, known=types.unliteral):
    """Types of calls on numbers and tuples: found once per function and types, not once per call.

    A number in the text counts with its value, unless `known` forgets it.
    """
    found: dict = {}

    def types_of_call(first, second, args, kwargs):
        plain = tuple(map(known, args))
        if kwargs or not all(isinstance(a, _REMEMBERED) for a in plain):
            return usual(first, second, args, kwargs)
        key = (first, second, plain)
        if key not in found:
            found[key] = usual(first, second, plain, kwargs)
        return found[key]

    return types_of_call


def _resolved(usual):
    """The same for operators whose code is made from exact types."""
    return _remembered(usual, lambda given: given)
