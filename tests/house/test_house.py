"""The rules of the house: which folder imports which, names, sizes, where the compiler is named."""

import ast
import collections
import functools
import subprocess
import sys

import pytest
from source_rules import FILES, PACKAGE, every_file, nodes_of, text_of

import tapegrad as tg

#: A folder imports from itself and from those before it. The last is the package itself.
FOLDERS = [
    *("_core", "_core/codegen", "_core/ops", "_core/recorder", "_core/sweep", "_core/tape"),
    *("_core/tensor", "_core/operations", "_derivatives", "_entering", "_transforms"),
    *("autograd", "autograd/profiler", "_custom"),
    *("_flow/kinds", "_flow/ir", "_flow/reading", "_flow/interpreted", "_flow/passes"),
    *("_flow/native", "_flow"),
    *("_program/ir", "_program/replay", "_program/native", "_program/lowering", "_program/build"),
    *("_program/passes", "_program/dispatch", "_program/files", "_program/reports"),
    *("_program/clusters", "_program"),
    "_implicit",
    *("_batching", "numpy", "numpy/polynomial", "math", "scipy"),
    *("nn/functional", "nn", "optim", "."),
]
#: Where each of two folders imports the other.
PAIRS = {("autograd", "autograd/profiler")}
#: Stems of two files that hold the same of different wings.
SAME = {
    **dict.fromkeys(("fft", "linalg"), "the modules of these names of NumPy's, of SciPy's"),
    "elementwise": "declarations of element-wise operations: ours, the user's",
    "testing": "checks of derivatives, and NumPy's of arrays",
}
#: The folders in which Numba and llvmlite may be imported.
COMPILING = {"_core/codegen", "_core/recorder", "_core/sweep", "_program/replay", "_flow/reading"}
LINES, FUNCTION_LINES, ARGUMENTS = 900, 40, 7
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
#: Functions with more positional arguments: those of LAPACK, NumPy, SciPy and PyTorch.
WIDE = {
    *("_core/codegen/complex_lapack.py gesdd", "_core/codegen/complex_lapack.py syevd"),
    *("_core/operations/complex_operations.py prod", "_core/operations/ufunc_methods.py reduce"),
    *("autograd/_engine.py grad", "nn/_layers.py __init__"),
    *("nn/functional/_layer_functions.py batch_norm", "nn/functional/_windows.py __init__"),
    "scipy/_signal_filters.py savgol_filter",
    *("scipy/_interpolate_grids.py __init__", "scipy/_interpolate_splines.py __init__"),
    *("scipy/_interpolate_splines.py splrep", "scipy/_interpolate_data.py __init__"),
    "scipy/_interpolate_splines.py splprep",
    *("scipy/_linalg_equations.py solve", "scipy/_linalg_spectra.py eig"),
    *("scipy/_ndimage_filters.py gaussian_filter1d", "scipy/_ndimage_interpolation.py rotate"),
    *("scipy/_ndimage_interpolation.py affine_transform", "scipy/_linalg_spectra.py eig_banded"),
    "scipy/_linalg_spectra.py eigh_tridiagonal",
    *("scipy/_quadpack.py dblquad", "scipy/_quadpack.py tplquad"),
}
names = [str(path.relative_to(PACKAGE)) for path in FILES]


def module_of(path):
    """The dotted name of a file inside the package, "" for the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def folder_of(module):
    """The folder of a module, as in FOLDERS."""
    path = PACKAGE.joinpath(*module.split(".")) if module else PACKAGE
    return str((path if path.is_dir() else path.parent).relative_to(PACKAGE))


KNOWN = {module_of(path) for path in FILES}


@functools.cache
def imports(path):
    """(module, line) of everything that a file imports, absolute names."""
    package, found = path.relative_to(PACKAGE).parent.parts, []
    for node in nodes_of(path):
        if isinstance(node, ast.Import):
            found += [(alias.name, node.lineno) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                kept = package[: len(package) - node.level + 1]
                base = ".".join(("tapegrad", *kept, *([node.module] if node.module else [])))
            for alias in node.names:
                deeper = f"{base}.{alias.name}"
                inside = deeper.removeprefix("tapegrad.") in KNOWN
                name = deeper if deeper.startswith("tapegrad.") and inside else base
                found.append((name, node.lineno))
    return found


def own_imports(path):
    for name, line in imports(path):
        if name == "tapegrad" or name.startswith("tapegrad."):
            yield name.removeprefix("tapegrad").removeprefix("."), line


def test_every_folder_has_its_place():
    assert {str(path.parent.relative_to(PACKAGE)) for path in FILES} == {*FOLDERS}


@every_file
def test_imports_go_down(path):
    mine = folder_of(module_of(path))
    for module, line in own_imports(path):
        if module not in KNOWN:
            yield f"{path}:{line} imports tapegrad.{module}, which is no module"
            continue
        theirs = folder_of(module)
        below = FOLDERS.index(theirs) < FOLDERS.index(mine)
        if mine != theirs and not below and (mine, theirs) not in PAIRS:
            yield f"{path}:{line} imports {module}"


def test_no_stem_occurs_twice():
    """Two files of one name would be taken for one another in errors, profiles and talk."""
    found = collections.Counter(path.stem.strip("_") for path in FILES)
    del found["init"]
    assert {stem for stem, count in found.items() if count > 1} == {*SAME}


def test_no_two_classes_have_one_name():
    """They would be taken for one another, as two files would."""
    classes = [
        (node.name, path)
        for path in FILES
        for node in nodes_of(path)
        if isinstance(node, ast.ClassDef)
    ]
    found = collections.Counter(name for name, _ in classes)
    assert not [f"{path} has {name}" for name, path in classes if found[name] > 1]


def test_private_modules_are_not_public():
    """Outside of private folders a module without underscore is one of PyTorch's, or documented."""
    public = {".".join(path.relative_to(PACKAGE).with_suffix("").parts) for path in FILES}
    public = {name for name in public if not any(p.startswith("_") for p in name.split("."))}
    assert public == {
        *("autograd.anomaly_mode", "autograd.function", "autograd.functional"),
        *("autograd.grad_mode", "autograd.gradcheck", "autograd.graph", "nn.init", "testing"),
        *(f"numpy.{name}" for name in ("fft", "linalg", "random", "testing", "typing")),
        *("numpy.polynomial.chebyshev", "numpy.polynomial.hermite", "numpy.polynomial.hermite_e"),
        *("numpy.polynomial.laguerre", "numpy.polynomial.legendre", "numpy.polynomial.polynomial"),
        "numpy.polynomial.polyutils",
        *(f"scipy.{name}" for name in tg.scipy.__all__),
    }


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
def test_the_compiler_is_named_in_its_folders_only(path):
    mine = module_of(path)
    for module, line in imports(path):
        if module.split(".")[0] in ("numba", "llvmlite") and folder_of(mine) not in COMPILING:
            yield f"{path}:{line} imports {module}"


def test_the_contraction_is_known_where_it_is_declared():
    """Its kernels, what a row of it refers to, its rules; passes ask its declaration."""
    found = {
        name
        for name, path in zip(names, FILES, strict=True)
        if "contraction" in text_of(path).lower()
    }
    assert found == {"_core/ops/contraction.py", "_core/operations/einsum.py"}


@functools.cache
def kinds_of_steps():
    """The names of the classes of steps."""
    bodies = [nodes_of(path)[0].body for path in (PACKAGE / "_program/ir").glob("*_step.py")]
    return {node.name for body in bodies for node in body if isinstance(node, ast.ClassDef)}


def test_kinds_of_steps_are_found():
    assert {"ArrayStep", "Scalars", "Link"} <= kinds_of_steps()


@every_file
def test_kinds_of_steps_are_known_where_they_are_declared(path):
    """What is asked of a step its class answers: elsewhere none asks for the class of a step."""
    kinds = kinds_of_steps()
    if folder_of(module_of(path)) == "_program/ir":
        return
    for node in nodes_of(path):
        asks = isinstance(node, ast.Compare) or (
            isinstance(node, ast.Call) and getattr(node.func, "id", "") == "isinstance"
        )
        if asks:
            names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
            if names & kinds:
                yield f"{path}:{node.lineno} asks for {names & kinds}"


def is_docstring(node):
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def docstring_lines(path):
    """How many lines of a file the docstrings of its classes and functions have."""
    bodies = [n.body for n in nodes_of(path) if isinstance(n, (ast.FunctionDef, ast.ClassDef))]
    found = [body[0] for body in bodies if is_docstring(body[0])]
    return sum(doc.end_lineno - doc.lineno + 1 for doc in found)


@every_file
def test_files_are_short(path):
    """Docstrings do not count."""
    count = len(text_of(path).splitlines()) - docstring_lines(path)
    if count > LINES:
        yield f"{path}:{LINES} has {count} lines"


@every_file
def test_functions_are_short(path):
    """A docstring does not count."""
    for node in nodes_of(path):
        if isinstance(node, FUNCTIONS):
            length = node.end_lineno - node.lineno + 1
            if is_docstring(node.body[0]):
                length -= node.body[0].end_lineno - node.body[0].lineno + 1
            if length > FUNCTION_LINES:
                yield f"{path}:{node.lineno} {node.name} has {length} lines"


def test_functions_take_few_arguments_by_position():
    found = set()
    for name, path in zip(names, FILES, strict=True):
        for node in nodes_of(path):
            if isinstance(node, FUNCTIONS):
                if len(node.args.posonlyargs + node.args.args) > ARGUMENTS:
                    found.add(f"{name} {node.name}")
    assert found == WIDE


@every_file
def test_no_imports_inside_functions(path):
    for node in nodes_of(path):
        if isinstance(node, FUNCTIONS):
            for inner in ast.walk(node):
                if isinstance(inner, (ast.Import, ast.ImportFrom)):
                    yield f"{path}:{inner.lineno} imports inside {node.name}"


def test_public_names_have_docstrings():
    missing = [n for n in tg.__all__ if callable(getattr(tg, n)) and not getattr(tg, n).__doc__]
    assert not missing


def test_an_import_compiles_nothing():
    """The names of modules that importing tapegrad must not load, nor start the recorder."""
    code = (
        "import sys, tapegrad; from tapegrad._core.tensor import runtime; print(runtime.started, "
        "*[name in sys.modules for name in ('torch', 'matplotlib', 'tapegrad._program.compile')])"
    )
    out = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=PACKAGE.parent
    )
    assert out.stdout.split() == ["False"] * 4


def test_names_that_are_imported_later():
    assert {"compile", "load", "grad"} <= set(dir(tg)) and tg.load is tg.load
    with pytest.raises(AttributeError, match="module 'tapegrad' has no attribute 'compose'"):
        tg.compose


def test_properties_take_no_lock():
    """Until Python 3.11 `functools.cached_property` takes one, which a fork could leave taken."""
    kept = [path.name for path in FILES if "@functools.cached_property" in text_of(path)]
    assert not kept, f"use `remembered` of _core/remembered.py in {kept}"
