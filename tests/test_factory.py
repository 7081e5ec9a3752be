"""The kernel factory: texts in, C functions out, machine code kept in files."""

import ctypes

import numba
import numpy as np
import pytest

from tapegrad.codegen import factory, pipeline
from tapegrad.codegen.memory import apart, helper, load_i64, store_i64

WORD = "int64(int64)"
TWO = """
from test_factory import largest

def first(a):
    return largest(a, 3) + 1

def second(a):
    return largest(a, 7) * 2
"""


@helper
def largest(a, b):
    apart()
    return max(a, b)


@helper
def bumped(address):
    store_i64(address, 0, load_i64(address, 0) + 1)
    return load_i64(address, 0)


def call(addresses, name, *arguments):
    words = [ctypes.c_int64] * (1 + len(arguments))
    return ctypes.CFUNCTYPE(*words)(addresses[name])(*arguments)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache, of which nothing is loaded."""
    monkeypatch.setattr(factory, "cache_folder", lambda: tmp_path)
    monkeypatch.setattr(factory, "_loaded", {})
    return tmp_path


@pytest.fixture
def counted(monkeypatch):
    """How often texts are compiled."""
    made = []
    usual = factory.machine_code
    monkeypatch.setattr(factory, "machine_code", lambda e: made.append(e) or usual(e))
    return made


def check_two(addresses):
    assert [call(addresses, "first", a) for a in (1, 5)] == [4, 6]
    assert [call(addresses, "second", a) for a in (1, 9)] == [14, 18]


def test_functions_of_a_text_are_compiled_together_and_once(folder, counted):
    exports = {"first": WORD, "second": WORD}
    check_two(factory.compile_source(TWO, exports))
    check_two(factory.compile_source(TWO, exports))
    assert len(counted) == 1 and len(list(folder.iterdir())) == 1


def test_one_text_with_other_functions_asked_for(folder, counted):
    one = factory.compile_source(TWO, {"first": WORD})
    two = factory.compile_source(TWO, {"second": WORD})
    check_two(one | two)
    assert list(one) == ["first"] and list(two) == ["second"] and len(counted) == 2


def test_machine_code_is_read_from_the_file(folder, counted, monkeypatch):
    # another process would find the symbols of this one unused
    source = TWO + "\n# read from a file\n"
    exports = {"first": WORD, "second": WORD}
    factory.compile_source(source, exports)
    monkeypatch.setattr(factory, "_loaded", {})
    check_two(factory.compile_source(source, exports))
    assert len(counted) == 1


@pytest.mark.parametrize("damage", [b"", b"\x00" * 7, None], ids=["empty", "short", "changed"])
def test_a_damaged_file_is_made_again(folder, counted, monkeypatch, damage):
    source = TWO + f"\n# damaged: {damage}\n"
    exports = {"first": WORD, "second": WORD}
    factory.compile_source(source, exports)
    (path,) = folder.iterdir()
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if damage is None else damage)
    monkeypatch.setattr(factory, "_loaded", {})
    check_two(factory.compile_source(source, exports))
    assert len(counted) == 2 and path.read_bytes() == content


class Interrupt(BaseException):
    pass


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_what_was_compiled_before_an_interrupt_is_used_after_it(folder, monkeypatch, after):
    source = f"""
from tapegrad.codegen.memory import helper

@helper
def inner(a):
    return a + {after}

@helper
def outer(a):
    return inner(a) * 2

def export(a):
    return outer(a) + inner(a)

def other(a):
    return outer(a)
"""
    lowering = pipeline.typed.NativeLowering
    usual, calls = lowering.run_pass, []

    def run_pass(self, state):
        calls.append(state)
        if len(calls) == after:
            raise Interrupt
        return usual(self, state)

    exports = {"export": WORD, "other": WORD}
    with monkeypatch.context() as patch, pytest.raises(Interrupt):
        patch.setattr(lowering, "run_pass", run_pass)
        factory.compile_source(source, exports)
    assert not list(folder.iterdir())
    addresses = factory.compile_source(source, exports)
    assert call(addresses, "export", 10) == 3 * (10 + after)
    assert call(addresses, "other", 10) == 2 * (10 + after)


def test_a_helper_of_an_interrupted_text_is_used_by_another(folder, monkeypatch):
    """Helpers of the package outlive the text that they were compiled for."""
    broken = "from test_factory import bumped\n\ndef export(a):\n    return bumped(a) + unknown\n"
    with pytest.raises(numba.TypingError, match="unknown"):
        factory.compile_source(broken, {"export": WORD})
    source = "from test_factory import bumped\n\ndef export(a):\n    return bumped(a) + bumped(a)\n"
    word = np.array([5])
    assert call(factory.compile_source(source, {"export": WORD}), "export", word.ctypes.data) == 13


def test_code_of_a_user_calls_a_helper_that_is_compiled(folder):
    check_two(factory.compile_source(TWO, {"first": WORD, "second": WORD}))

    @numba.njit
    def users(a):
        return largest(a, 2) + max(a, 3)

    assert users(1) == 5 and users(9) == 18
    assert numba.njit(lambda x: np.dot(x, x) + x.sum())(np.arange(4.0)) == 20.0


def test_nothing_of_numba_stays_changed(folder):
    before = [numba.core.codegen.JITCPUCodegen._library_class, numba.core.cpu.CPUContext.__dict__]
    before[1] = dict(before[1])
    factory.compile_source(TWO + "\n# unchanged\n", {"first": WORD})
    assert numba.core.codegen.JITCPUCodegen._library_class is before[0]
    assert dict(numba.core.cpu.CPUContext.__dict__) == before[1]
