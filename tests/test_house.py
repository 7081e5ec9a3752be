"""The rules of the house: floors, sizes, and where the compiler may be named."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tapegrad as tg

PACKAGE = Path(__file__).resolve().parent.parent / "tapegrad"
FILES = sorted(PACKAGE.rglob("*.py"))
FOLDERS = {
    "codegen": 0,
    "ops": 1,
    "sweep": 2,
    "replay": 2,
    "program": 5,
    "tape": 3,
    "tensor": 4,
    "nn": 7,
    "optim": 7,
    "profiler": 7,
}
MODULES = {
    **dict.fromkeys("transforms jacobians mapping functional".split(), 6),
    **dict.fromkeys("replaying compiling loading".split(), 6),
    **dict.fromkeys(("gradcheck", "projections", "__init__"), 7),
}
OTHERS = 5
LINES, FUNCTION_LINES = 400, 40
names = [str(path.relative_to(PACKAGE)) for path in FILES]
every_file = pytest.mark.parametrize("path", FILES, ids=names)


def module_of(path):
    """The dotted name of a file inside the package, "" for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def floor(module):
    first, _, rest = module.partition(".")
    if first in FOLDERS:
        return FOLDERS[first]
    return MODULES.get(first or "__init__", OTHERS)


KNOWN = {module_of(path) for path in FILES}


def imports(path):
    """(module, line) of everything that a file imports, absolute names."""
    package = path.relative_to(PACKAGE).parent.parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name, node.lineno
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                kept = package[: len(package) - node.level + 1]
                base = ".".join(("tapegrad", *kept, *([node.module] if node.module else [])))
            for alias in node.names:
                deeper = f"{base}.{alias.name}"
                inside = deeper.removeprefix("tapegrad.") in KNOWN
                yield (deeper if deeper.startswith("tapegrad.") and inside else base), node.lineno


def own_imports(path):
    for name, line in imports(path):
        if name == "tapegrad" or name.startswith("tapegrad."):
            yield name.removeprefix("tapegrad").removeprefix("."), line


@every_file
def test_imports_go_down(path):
    mine = module_of(path)
    for module, line in own_imports(path):
        assert module in KNOWN, f"{path}:{line} imports tapegrad.{module}, which is no module"
        assert floor(module) <= floor(mine), f"{path}:{line} imports {module} from above"


def test_no_cycles():
    graph = {module_of(path): {m for m, _ in own_imports(path)} for path in FILES}
    done, path = set(), []

    def visit(module):
        assert module not in path, f"a cycle: {' → '.join([*path[path.index(module) :], module])}"
        if module not in done:
            path.append(module)
            for other in sorted(graph[module] - {module}):
                visit(other)
            path.pop()
            done.add(module)

    for module in sorted(graph):
        visit(module)


@every_file
def test_the_compiler_is_named_on_its_floors_only(path):
    mine = module_of(path)
    allowed = mine.split(".")[0] in ("codegen", "ops", "sweep", "replay") or mine == "tape.native"
    for module, line in imports(path):
        if module.split(".")[0] in ("numba", "llvmlite"):
            assert allowed, f"{path}:{line} imports {module}"


@every_file
def test_files_are_short(path):
    assert len(path.read_text().splitlines()) <= LINES


def is_docstring(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@every_file
def test_functions_are_short(path):
    """A docstring does not count."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = node.end_lineno - node.lineno + 1
            if is_docstring(node.body[0]):
                length -= node.body[0].end_lineno - node.body[0].lineno + 1
            assert length <= FUNCTION_LINES, f"{path}:{node.lineno} {node.name} has {length} lines"


@every_file
def test_no_imports_inside_functions(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            for inner in ast.walk(node):
                found = isinstance(inner, (ast.Import, ast.ImportFrom))
                assert not found, f"{path}:{inner.lineno} imports inside {node.name}"


def test_public_names_have_docstrings():
    missing = [n for n in tg.__all__ if callable(getattr(tg, n)) and not getattr(tg, n).__doc__]
    assert not missing


def test_an_import_compiles_nothing():
    """The names of modules that importing tapegrad must not load, nor start the recorder."""
    code = (
        "import sys, tapegrad; from tapegrad.tensor import runtime; print(runtime.started, "
        "*[name in sys.modules for name in ('torch', 'matplotlib', 'tapegrad._program.compile')])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    assert out.stdout.split() == ["False"] * 4


def test_names_that_are_imported_later():
    assert {"compile", "load", "grad"} <= set(dir(tg)) and tg.load is tg.load
    with pytest.raises(AttributeError, match="module 'tapegrad' has no attribute 'compose'"):
        tg.compose  # noqa: B018
