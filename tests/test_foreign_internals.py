"""What tapegrad takes of Numba and llvmlite: an exact list, nothing of which is changed.

Public names may be imported where functions of users are compiled. What is not public is listed
with the assumption of `compat` that probes it.
"""

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tapegrad"
FILES = sorted(PACKAGE.rglob("*.py"))
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
    "_core/codegen/late_imports.py": {
        "llvmlite",
        "llvmlite.ir",
        "llvmlite.binding",
        "numba.core.ir",
    },
    "_core/codegen/uninterrupted.py": {"llvmlite.binding.ffi", "numba.core.compiler_lock"},
    "_entering/numba_functions.py": {"numba.typed", "numba"},
}
OTHERS = ("numba", "llvmlite")


def is_foreign(name):
    return name.partition(".")[0] in OTHERS


def imports_of(tree):
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and not node.level and is_foreign(node.module):
            found.setdefault(node.module, set()).update(one.name for one in node.names)
        elif isinstance(node, ast.Import):
            for one in node.names:
                if is_foreign(one.name):
                    found.setdefault(one.name, set())
    return found


def names_of(tree):
    """Names of their modules in calls, such as `importlib.import_module("numba.typed")`."""
    return {
        given.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for given in node.args
        if isinstance(given, ast.Constant)
        and isinstance(given.value, str)
        and is_foreign(given.value)
        and all(part.isidentifier() for part in given.value.split("."))
    }


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_what_is_taken_of_numba_and_llvmlite(path):
    tree, name = ast.parse(path.read_text()), str(path.relative_to(PACKAGE))
    found = imports_of(tree)
    assert found == IMPORTED.get(name, {})
    assert names_of(tree) <= NAMED.get(name, set())


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_nothing_of_theirs_is_changed(path):
    """No attribute of theirs is assigned, deleted or set by its name."""
    tree = ast.parse(path.read_text())
    theirs = {*OTHERS, "llvm", "numba_ir", "interpreter", "bytecode"}
    theirs |= {one for names in imports_of(tree).values() for one in names}
    for node in ast.walk(tree):
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
                assert owner.id not in theirs, ast.unparse(node)
