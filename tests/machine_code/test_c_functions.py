"""The C functions that compiled code and ctypes call: none takes any number of arguments.

Such a function may be called in another way than those of a fixed number, as on Apple's arm64, and
neither compiled code nor ctypes knows of which kind one is.
"""

import ast
import ctypes
import re
import sys
import sysconfig
from pathlib import Path

import numpy as np
import pytest
from source_rules import FILES, nodes_of

import tapegrad as tg
from tapegrad._core.codegen import machine_code, prebuilt
from tapegrad._core.codegen.factory import compile_source

#: Those of CPython 3.10 to 3.13 and of the C library.
VARIADIC = {
    *("PyArg_Parse PyArg_ParseTuple PyArg_ParseTupleAndKeywords PyArg_UnpackTuple").split(),
    *("PyBytes_FromFormat PyErr_Format PyErr_FormatUnraisable PyErr_WarnFormat").split(),
    *("PyErr_ResourceWarning PyEval_CallFunction PyEval_CallMethod PyOS_snprintf").split(),
    *("PyObject_CallFunction PyObject_CallFunctionObjArgs PyObject_CallMethod").split(),
    *("PyObject_CallMethodObjArgs PySys_FormatStderr PySys_FormatStdout").split(),
    *("PyErr_WarnExplicitFormat PySys_Audit PySys_WriteStderr PySys_WriteStdout").split(),
    *("PyTuple_Pack PyUnicode_FromFormat").split(),
    *("Py_BuildValue _PyErr_FormatFromCause").split(),
    *("asprintf dprintf execl execle execlp fcntl fprintf fscanf ioctl mremap open openat").split(),
    *("prctl printf ptrace scanf semctl snprintf sprintf sscanf syscall syslog").split(),
}


def calls():
    """(file, name of the function called, its first argument if that is a string) of each call."""
    for path in FILES:
        for node in nodes_of(path):
            if isinstance(node, ast.Call):
                function = node.func
                called = getattr(function, "attr", getattr(function, "id", ""))
                first = node.args[0] if node.args else None
                text = first.value if isinstance(first, ast.Constant) else None
                yield path.name, called, text if isinstance(text, str) else None


def test_no_declaration_names_a_function_of_any_number_of_arguments():
    named = {text: file for file, called, text in calls() if called == "c_function" and text}
    assert {"PyObject_VectorcallDict", "malloc", "clock_gettime"} <= named.keys()
    assert not VARIADIC & named.keys(), {named[one]: one for one in VARIADIC & named.keys()}
    of_python = {name for name in named if name.startswith("Py")}
    macros = (
        {"PyObject_Vectorcall"} if sys.version_info < (3, 11) else set()
    )  # see codegen/cpython.py
    assert {one for one in of_python if not hasattr(ctypes.pythonapi, one)} == macros


def test_nothing_of_ctypes_does():
    """Attributes of `ctypes.pythonapi` and its like, and strings that name one."""
    named = set()
    for path in FILES:
        for node in nodes_of(path):
            text = getattr(node, "attr", getattr(node, "value", None))
            if isinstance(text, str) and re.fullmatch("_?Py[A-Za-z]*_[A-Za-z_]+", text):
                named.add(text)
    assert {"PyType_FromSpecWithBases", "PyObject_VectorcallDict"} <= named
    assert not VARIADIC & named


def test_what_compiled_code_has_called_so_far():
    tg.grad(lambda x: np.sum(np.sin(x) ** 2))(np.ones(3))
    if prebuilt.library(machine_code.address_of) is None:  # else the library has called it
        assert "PyObject_VectorcallDict" in machine_code._known
    assert not VARIADIC & machine_code._known


def test_the_headers_of_this_python_name_no_other():
    headers = Path(sysconfig.get_path("include"))
    if not (headers / "Python.h").exists():
        pytest.skip("Python's headers are not here")
    text = "\n".join(one.read_text("utf-8", "replace") for one in headers.rglob("*.h"))
    declared = r"PyAPI_FUNC\([^)]*\)\s*(\w+)\s*\([^;{]*?,\s*\.\.\.\s*\)"
    found = {name for name in re.findall(declared, text) if not name.startswith("_")}
    assert "PyObject_CallFunctionObjArgs" in found
    assert found <= VARIADIC


CALLER = """
from tapegrad._core.codegen.cpython import call_one, call_two, call_three

def call_with_one(callee, x):
    return call_one(callee, x)

def call_with_two(callee, x, y):
    return call_two(callee, x, y)

def call_with_three(callee, x, y, z):
    return call_three(callee, x, y, z)
"""


NAMES = ["call_with_one", "call_with_two", "call_with_three"]
SIGNATURES = {name: f"int64({', '.join(['int64'] * n)})" for n, name in enumerate(NAMES, 2)}


def called(callee, *given):
    """The result of a compiled call, whose reference ctypes takes over."""
    address = compile_source(CALLER, SIGNATURES)[NAMES[len(given) - 1]]
    kinds = [ctypes.py_object] * (len(given) + 2)
    return ctypes.PYFUNCTYPE(*kinds)(address)(callee, *given)


class Tuple(tuple):
    __slots__ = ()

    def __new__(cls, *given):
        return super().__new__(cls, given)


class Called:
    def __call__(self, *given):
        return given

    def method(self, *given):
        return given


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    "callee",
    [lambda *given: given, slice, Tuple, Called(), Called().method],
    ids=["function", "builtin", "class", "object", "method"],
)
def test_arguments_arrive_in_their_order(callee, count):
    """At callables that C calls with an array, and at those that it makes a tuple for."""
    given = [[1.5], [2.5], [3.5]][:count]
    before = [sys.getrefcount(one) for one in given]
    for _ in range(10):
        assert called(callee, *given) == callee(*given)
    assert [sys.getrefcount(one) for one in given] == before


@pytest.mark.parametrize("given", [(1,), (1, 2), (1, 2, 3)])
def test_an_error_of_the_callee_is_raised(given):
    def refuse(*given):
        raise ZeroDivisionError(given)

    with pytest.raises(ZeroDivisionError, match=re.escape(str(given))):
        called(refuse, *given)
