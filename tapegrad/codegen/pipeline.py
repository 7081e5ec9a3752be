"""What Numba does for our code, and what it leaves out: a first gradient waits for the compiler.

Generated code is plain: integers, doubles, loops and calls. It needs none of the rewriting of
closures, array expressions and literals, and its helpers are only ever included in exports.
"""

import contextlib
import gc

import llvmlite.binding as llvm
import numba
from numba import types
from numba.core import typed_passes as typed
from numba.core import untyped_passes as untyped
from numba.core.compiler import CompilerBase
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import FunctionPass, PassManager, register_pass
from numba.core.ir_utils import build_definitions
from numba.core.ssa import reconstruct_ssa


@register_pass(mutates_CFG=True, analysis_only=False)
class SingleAssignment(FunctionPass):
    """Each variable assigned once; no lifetimes, which only references counted need."""

    _name = "tapegrad_single_assignment"

    def __init__(self):
        super().__init__()

    def run_pass(self, state):
        state.func_ir = reconstruct_ssa(state.func_ir)
        state.func_ir._definitions = build_definitions(state.func_ir.blocks)
        return True


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
    """Numba's compiler with the passes that plain code needs."""

    def define_pipelines(self):
        passes = PassManager("tapegrad")
        for step in _PASSES:
            passes.add_pass(step, step.__name__)
        passes.finalize()
        return [passes]


@contextlib.contextmanager
def plain_code(exports):
    """Compile quickly inside this context: nothing but our code, of which `exports` are called.

    Where Numba is built otherwise than we know, its usual way is taken.
    """
    library, context = numba.core.codegen.CPUCodeLibrary, numba.core.cpu.CPUContext
    typing = numba.core.typing.BaseContext
    changes = [
        (library, "_optimize_functions", lambda usual: _only(exports, usual, _nothing)),
        (library, "_optimize_final_module", lambda usual: _only(exports, _optimised, _nothing)),
        (library, "_finalize_final_module", lambda usual: _only(exports, usual, _finalized)),
        (context, "get_executable", lambda usual: _ways_in(exports, usual)),
        (typing, "resolve_function_type", _remembered),
        (numba.core.ir.Inst, "_rec_list_vars", lambda usual: _variables),
        (getattr(llvm.ffi, "_LLVMLock", None), "__enter__", lambda usual: _lock),
        (getattr(llvm.ffi, "_LLVMLock", None), "__exit__", lambda usual: _unlock),
    ]
    usual = [getattr(owner, name, None) for owner, name, _ in changes]
    collecting = gc.isenabled()
    with global_compiler_lock:  # no other thread compiles meanwhile
        try:
            gc.disable()  # the compiler makes many objects and few cycles
            if None not in usual:
                for (owner, name, change), function in zip(changes, usual, strict=True):
                    setattr(owner, name, change(function))
            yield
        finally:
            if None not in usual:
                for (owner, name, _), function in zip(changes, usual, strict=True):
                    setattr(owner, name, function)
            if collecting:
                gc.enable()


def _only(exports, usual, otherwise):
    """A step of a library, taken for exported functions only.

    Numba makes machine code of every helper by itself, which nobody calls, and optimises it again
    in each of its callers.
    """

    def step(library, *args):
        return (usual if _is_export(library, exports) else otherwise)(library, *args)

    return step


def _is_export(library, exports) -> bool:
    return library.name.rpartition(".")[2] in exports


def _nothing(library, *args):
    pass


def _finalized(library):
    library._finalized = True


def _optimised(library):
    """LLVM's passes once: Numba runs them twice, to remove counts of references in between."""
    passes, builder = library._codegen._module_pass_manager()
    passes.run(library._final_module, builder)


def _lock(lock):
    """LLVM's lock, without Numba's two events for each call under it."""
    lock._lock.acquire()


def _unlock(lock, *_):
    lock._lock.release()


#: What the fields of an instruction hold beside variables, most often.
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


def _ways_in(exports, usual):
    """Numba wants a builtin, each time another one, as a function's way in from Python."""

    def get_executable(context, library, *args):
        return usual(context, library, *args) if _is_export(library, exports) else [].append

    return get_executable


def _remembered(usual):
    """Types of calls on plain numbers: found once per function and types, not once per call."""
    found: dict = {}

    def resolve_function_type(context, function, args, kwargs):
        plain = tuple(types.unliteral(a) if isinstance(a, types.Literal) else a for a in args)
        if kwargs or not all(isinstance(a, (types.Number, types.Boolean)) for a in plain):
            return usual(context, function, args, kwargs)
        key = (context, function, plain)
        if key not in found:
            found[key] = usual(context, function, plain, kwargs)
        return found[key]

    return resolve_function_type
