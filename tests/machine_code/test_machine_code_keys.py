"""What machine code in files is named by: what it is made from, and nothing else."""

import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

import tapegrad
from tapegrad._core.codegen import sources
from tapegrad._core.codegen.sources import names_of, plain
from tapegrad._core.ops.table import TABLE, Structural
from tapegrad._core.recorder import scalar_operators
from tapegrad._core.sweep import kernels

PACKAGE = Path(tapegrad.__file__).parent

#: Compiles texts and kernels. Prints the names of functions that were compiled, of those that were
#: loaded, and results.
SCRIPT = '''
import ctypes
import numpy as np
from tapegrad._core.codegen import factory
from tapegrad._core.ops.table import TABLE
from tapegrad._core.sweep import kernels
import tapegrad

made, loaded = [], []
def code_of(text, name, usual=factory.code_of):
    made.extend(text.exports)
    return usual(text, name)

def by_llvm(text, exports, name, usual=factory._by_llvm):
    made.extend(exports)
    return usual(text, exports, name)

factory.code_of, factory._by_llvm = code_of, by_llvm

def load(code, symbols, usual=factory.load):
    loaded.extend(symbol.split("_", 2)[2] for symbol in symbols)
    return usual(code, symbols)

factory.load = load
TEXTS = {
    "sums": """
from tapegrad._core.codegen.strided_memory import *
def sums(at, n):
    # in any order
    return int(sum64(at, n))
""",
    "cells": """
from tapegrad._core.codegen import layout as names
from tapegrad._core.codegen.intrinsics import load_i64
def cells(at, n):
    return load_i64(at, 0) + names.CELL_OF_TEST + names.ROWS
""",
    "alone": """
def alone(at, n):
    return n + 7
""",
}
BEFORE
numbers = np.arange(4.0)
found = []
for name, text in TEXTS.items():
    address = factory.compile_source(text, {name: "int64(int64, int64)"})[name]
    call = ctypes.CFUNCTYPE(*[ctypes.c_int64] * 3)(address)
    found.append(call(numbers.ctypes.data, 3))
text = (
    "from tapegrad._core.codegen import vector_math as np\\n"
    "def smooth(x):\\n    return np.sigmoid(x)\\n"
)
address = factory.compile_source(text, {"smooth": "float64(float64)"})["smooth"]
found.append(ctypes.CFUNCTYPE(ctypes.c_double, ctypes.c_double)(address)(0.0))
text = "define i64 @seven() {\\n  ret i64 7\\n}\\n"
address = factory.compile_assembly(text, ["seven"])["seven"]
found.append(ctypes.CFUNCTYPE(ctypes.c_int64)(address)())
kernels.compile_value(TABLE["sin"], 8)
kernels.compile_structural(TABLE["sum"])
print(*made)
print(*loaded)
print(*found)
'''
EVERY = {
    *("sums", "cells", "alone", "smooth", "seven", "kernel", "sum_adjoint"),
    *("cell", "adjoint_buffer_memory", "forget"),  # what the last calls
}
RESULTS = ["3", "4101", "10", "0.5", "7"]


class Copy:
    """A copy of the package, with a constant for a test."""

    def __init__(self, folder: Path, cache: Path):
        self.folder, self.cache = folder, cache
        ignored = shutil.ignore_patterns("__pycache__", "*.pyi")
        shutil.copytree(PACKAGE, folder / "tapegrad", ignore=ignored)
        self.change("codegen/layout.py", "ROWS_BITS = 12\n", "ROWS_BITS = 12\nCELL_OF_TEST = 5\n")

    def path(self, file):
        return self.folder / "tapegrad" / "_core" / file

    def change(self, file, before, after):
        text = self.path(file).read_text()
        assert before in text
        self.path(file).write_text(text.replace(before, after, 1))

    def run(self, before="", **environment):
        """What a process compiles, what it loads, the results."""
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", SCRIPT.replace("BEFORE", before)],
            cwd=self.folder,
            env={**os.environ, "NUMBA_CACHE_DIR": str(self.cache), **environment}
            | {"PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        made, loaded, results = done.stdout.split("\n")[:3]
        return {*made.split()}, {*loaded.split()}, results.split()

    def files(self):
        return {path: path.stat().st_mtime_ns for path in self.cache.rglob("k_*.o")}


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A folder with the machine code of an unchanged copy."""
    folder = tmp_path_factory.mktemp("cache")
    copy = Copy(tmp_path_factory.mktemp("first"), folder)
    assert copy.run() == (EVERY, EVERY, RESULTS)
    return folder


@pytest.fixture
def copy(tmp_path, cache):
    return Copy(tmp_path, cache)


def test_words_are_not_compiled(copy):
    """Docstrings, comments, types, the table of operations, what is not included."""
    copy.change("ops/elementwise.py", '"""', '"""Other words. ')
    copy.change("ops/elementwise.py", '"2.0 * x"', '"x + x"')
    copy.change("codegen/layout.py", '"""', '"""Other words. ')
    copy.change("codegen/layout.py", "ROWS_BITS = 12\n", "\n\n#: Others.\nROWS_BITS = 12  # rows\n")
    copy.change("codegen/layout.py", "KEPT_CELLS = 16", "KEPT_CELLS = 15")
    copy.change("codegen/machine_code.py", '"""', '"""Other words. ')
    copy.change("codegen/strided_memory.py", "def _sums(", "def other():\n    pass\n\n\ndef _sums(")
    copy.change("codegen/factory.py", '"""Hash of ', '"""Other words: ')
    before = copy.files()
    assert copy.run() == (set(), EVERY, RESULTS)
    assert copy.files() == before


def test_what_includes_a_change_is_compiled(copy):
    """A helper, which elements of arrays lead to as well, a constant, a function of numbers."""
    copy.change("codegen/strided_memory.py", "floats(address), 0.0", "floats(address), 1.0")
    copy.change("codegen/layout.py", "CELL_OF_TEST = 5", "CELL_OF_TEST = 6")
    copy.change("codegen/vector_math.py", "return 1.0 / (1.0 +", "return 3.0 / (1.0 +")
    made, loaded, results = copy.run()
    assert made == {"sums", "sum_adjoint", "cells", "smooth"} and loaded == EVERY
    assert results == ["4", "4102", "10", "1.5", "7"]


def test_a_change_of_the_compiler(copy):
    """Texts and text for LLVM are made by functions of their own."""
    copy.change(
        "codegen/text_functions.py", "TextValue(result, made)", "TextValue(*(result, made))"
    )
    copy.change("codegen/machine_code.py", "speed_level=level", "speed_level=level - 1")
    assert copy.run() == (EVERY, EVERY, RESULTS)


def test_what_changes_while_a_process_runs_is_not_compiled(copy):
    """What the process has imported is no longer in the files."""
    before = copy.files()
    write = f"""
import pathlib
path = pathlib.Path({str(copy.path("codegen/strided_memory.py"))!r})
path.write_text(path.read_text().replace("floats(address), 0.0", "floats(address), 100.0"))
"""
    with pytest.raises(AssertionError, match="strided_memory.py has changed since it was imported"):
        copy.run(write)
    assert copy.files() == before
    made, _, results = copy.run()
    assert made == {"sums", "sum_adjoint"} and results == ["103", *RESULTS[1:]]
    assert len(copy.files()) == len(before) + 2


def test_notes_of_what_texts_include_may_be_damaged(copy):
    for path in copy.cache.rglob("*.json"):
        path.write_bytes(path.read_bytes()[:-9])
    assert copy.run() == (set(), EVERY, RESULTS)


def functions_of(given, found):
    """All functions of the package that a function of generated code leads to when it is called."""
    function = getattr(given, "py_func", getattr(given, "make", given))
    if not isinstance(function, types.FunctionType) or function in found:
        return
    if function.__module__ and function.__module__.partition(".")[0] not in ("tapegrad", "text"):
        return
    found.add(function)
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    codes, names = [function.__code__], set()
    while codes:
        code = codes.pop()
        names |= {*code.co_names}
        codes += [one for one in code.co_consts if isinstance(one, types.CodeType)]
    used = [function.__globals__[name] for name in names & function.__globals__.keys()]
    for one in [*used, *cells]:
        if isinstance(one, types.ModuleType) and one.__name__.startswith("tapegrad."):
            for inner in [getattr(one, name) for name in names if hasattr(one, name)]:
                functions_of(inner, found)
        functions_of(one, found)


def texts():
    yield scalar_operators.source()
    for op in TABLE.values():
        if isinstance(op, Structural):
            for kernel in (op.adjoint, op.value_kernel, op.tangent):
                if kernel is not None:
                    yield kernels.structural_source(op, kernel, 8)
        else:
            yield kernels.value_source(op, 4, 0)


def test_no_function_is_overlooked():
    """Every function that the objects in a text lead to is among the statements found in files."""
    known, seen = sources._sources, 0
    for text in texts():
        own = names_of(plain(text))
        start = [
            one for _, names in own.statements for name in names for one in own.elsewhere(name)
        ]
        reached = known.reached(start)
        module = {"__name__": "text"}
        exec(compile(text, "<text>", "exec"), module)
        found = set()
        for name in own.places.keys() & module.keys():
            functions_of(module[name], found)
        for function in found:
            if (function.__module__ or "text") != "text":
                seen += 1
                first = function.__qualname__.partition(".")[0]
                numbers = known.names(function.__module__).places[first]
                assert all((function.__module__, number) in reached for number in numbers), function
    assert seen > 1000
