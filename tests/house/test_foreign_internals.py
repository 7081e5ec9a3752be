"""What tapegrad takes of Numba and llvmlite: an exact list, nothing of which is changed.

Public names may be imported where functions of users are compiled. What is not public is listed
with the assumption of `compat` that probes it.
"""

import ast

from source_rules import FILES, PACKAGE, every_file, nodes_of

#: By the file that imports: modules, and what is taken of them.
IMPORTED = {
    "_core/codegen/njit_adjoints.py": {
        "llvmlite": {"ir"},
        "numba": {"types"},
        "numba.extending": {"intrinsic", "is_jitted"},
        "numba.np.numpy_support": {"from_dtype"},
    },
    "_program/replay/njit_calls.py": {
        "llvmlite": {"ir"},
        "numba": {"types"},
        "numba.core.errors": {"TypingError"},
        "numba.extending": {"intrinsic"},
    },
    # `numba-reader`
    "_flow/reading/bytecode_reader.py": {
        "numba.core": {"bytecode", "errors", "interpreter", "ir"},
    },
}
#: Imported when they are first used, and modules that are looked at if they have been imported;
#: `global_compiler_lock._lock` and `lib._lock._lock` of the latter are `numba-locks`.
NAMED = {
    "_core/codegen/process.py": {
        "llvmlite",
        "llvmlite.ir",
        "llvmlite.binding",
        "numba.core.ir",
    },
    "_core/codegen/uninterrupted.py": {"llvmlite.binding.ffi", "numba.core.compiler_lock"},
    "_entering/stand_ins.py": {"numba.typed", "numba"},
}
OTHERS = ("numba", "llvmlite")


def is_foreign(name):
    return name.partition(".")[0] in OTHERS


def imports_of(path):
    found = {}
    for node in nodes_of(path):
        if isinstance(node, ast.ImportFrom) and not node.level and is_foreign(node.module):
            found.setdefault(node.module, set()).update(one.name for one in node.names)
        elif isinstance(node, ast.Import):
            for one in node.names:
                if is_foreign(one.name):
                    found.setdefault(one.name, set())
    return found


def names_of(path):
    """Names of their modules in calls, such as `importlib.import_module("numba.typed")`."""
    return {
        given.value
        for node in nodes_of(path)
        if isinstance(node, ast.Call)
        for given in node.args
        if isinstance(given, ast.Constant)
        and isinstance(given.value, str)
        and is_foreign(given.value)
        and all(part.isidentifier() for part in given.value.split("."))
    }


def test_the_files_listed_exist():
    assert {*IMPORTED, *NAMED} <= {str(path.relative_to(PACKAGE)) for path in FILES}


@every_file
def test_what_is_taken_of_numba_and_llvmlite(path):
    name, found = str(path.relative_to(PACKAGE)), imports_of(path)
    if found != IMPORTED.get(name, {}):
        yield f"{path} imports {found}, listed is {IMPORTED.get(name, {})}"
    if more := names_of(path) - NAMED.get(name, set()):
        yield f"{path} names {more}"


@every_file
def test_nothing_of_theirs_is_changed(path):
    """No attribute of theirs is assigned, deleted or set by its name."""
    theirs = {*OTHERS, "llvm", "numba_ir", "interpreter", "bytecode"}
    theirs |= {one for names in imports_of(path).values() for one in names}
    for node in nodes_of(path):
        targets = []
        if isinstance(node, (ast.Assign, ast.Delete)):
            targets = node.targets
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            targets = [node.target]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            targets = node.args[:1] if node.func.id in ("setattr", "delattr") else []
        for target in targets:
            owner = target.value if isinstance(target, ast.Attribute) else target
            while isinstance(owner, ast.Attribute):
                owner = owner.value
            if isinstance(owner, ast.Name) and not isinstance(target, ast.Name):
                if owner.id in theirs:
                    yield f"{path}:{node.lineno} {ast.unparse(node)}"
