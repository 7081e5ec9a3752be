"""The plugin of pytest that makes the checked build: see checked_build.py."""

import ctypes
import os

import llvmlite.binding as llvm
import pytest
from checked_forks import fork_again
from checked_memory import check_blas, cut_to_size, plain_arrays
from checked_text import ACCESS, LANE, with_checks

from tapegrad._core.codegen import factory, machine_code

library = ctypes.CDLL(os.environ["CHECKED_ACCESS"])
library.checked_reports.restype = ctypes.c_char_p
for name in (ACCESS, LANE):
    llvm.add_symbol(name, ctypes.cast(getattr(library, name), ctypes.c_void_p).value)


def reports():
    """What was found since the last call."""
    found = library.checked_reports().decode(errors="replace")
    library.checked_forget()
    return found


def _checked(usual):
    def optimised(module):
        return llvm.parse_assembly(with_checks(str(usual(module))))

    return optimised


for name in ("optimised", "simplified"):
    setattr(machine_code, name, _checked(getattr(machine_code, name)))
_usual_magic = factory.magic
factory.magic = lambda: _usual_magic() + "checked"
cut_to_size()
check_blas(library)
plain_arrays(library)
os.fork = fork_again(library)


def _fail_with_reports():
    if found := reports():
        pytest.fail(f"memory of others is used:\n{found}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    result = yield
    _fail_with_reports()
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item):
    result = yield
    _fail_with_reports()
    return result


#: Tests of the checks themselves, which put others in their place, and of the memory of a process,
#: which is AddressSanitizer's here.
_LEFT_OUT = ("test_checked_text.py", "test_hostile_calls.py")


def pytest_ignore_collect(collection_path):
    return True if collection_path.name in _LEFT_OUT else None
