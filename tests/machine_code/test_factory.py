"""The kernel factory: texts in, C functions out, machine code kept in files."""

import ctypes
import hashlib
import os
import subprocess
import sys
import tempfile
import threading

import numpy as np
import pytest
from source_rules import ROOT

from tapegrad._core.codegen import factory, text_functions
from tapegrad._core.codegen.intrinsics import apart, helper, load_i64, store_i64
from tapegrad._core.codegen.text_expressions import NotCompiled

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


def made_of(numbers, folder):
    """A file each for texts that return another number; where they are."""
    sources = [f"\ndef export(a):\n    return a + {number}\n" for number in numbers]
    for source in sources:
        before = set(folder.iterdir())
        factory.compile_source(source, {"export": WORD})
        yield source, next(iter(set(folder.iterdir()) - before))


def check_again(texts, numbers, monkeypatch):
    """What other processes get, from texts that this one has compiled."""
    monkeypatch.setattr(factory, "_loaded", {})
    for source, number in zip(texts, numbers, strict=True):
        assert call(factory.compile_source(source, {"export": WORD}), "export", 10) == 10 + number


def test_files_in_one_anothers_place_are_made_again(folder, counted, monkeypatch):
    numbers = [1001, 1002, 1003]
    texts, paths = zip(*made_of(numbers, folder), strict=True)
    contents = [path.read_bytes() for path in paths]
    for path, content in zip(paths, [*contents[1:], contents[0]], strict=True):
        path.write_bytes(content)
    check_again(texts, numbers, monkeypatch)
    assert len(counted) == 6 and [path.read_bytes() for path in paths] == contents
    check_again(texts, numbers, monkeypatch)
    assert len(counted) == 6 and len(list(folder.iterdir())) == 3


DAMAGES = {
    "a byte at the start": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "a byte in the code": lambda content: (
        content[:200] + bytes([content[200] ^ 64]) + content[201:]
    ),
    "half": lambda content: content[: len(content) // 2],
    "all but a byte": lambda content: content[:-1],
    "more": lambda content: content + b"x",
    "the checksum alone": lambda content: content[:32],
    "a checksum of nothing": lambda content: hashlib.sha256(b"").digest(),
    "a checksum of itself": lambda content: hashlib.sha256(content[40:]).digest() + content[40:],
    "zeros": lambda content: bytes(len(content)),
}


@pytest.mark.parametrize("number, damage", list(enumerate(DAMAGES)), ids=DAMAGES)
def test_another_content_is_made_again(folder, counted, monkeypatch, number, damage):
    ((text, path),) = made_of([2000 + number], folder)
    content = path.read_bytes()
    path.write_bytes(DAMAGES[damage](content))
    check_again([text], [2000 + number], monkeypatch)
    assert len(counted) == 2 and path.read_bytes() == content


def a_folder(path):
    path.unlink()
    path.mkdir()
    (path / "file").write_text("of somebody")


def a_link_to_nothing(path):
    path.unlink()
    path.symlink_to(path.parent / "nothing" / "there")


def a_link_to_a_folder(path):
    path.unlink()
    (path.parent / "folder").mkdir()
    path.symlink_to(path.parent / "folder")


@pytest.mark.parametrize(
    "number, put", list(enumerate([a_folder, a_link_to_nothing, a_link_to_a_folder]))
)
def test_what_is_no_file_gives_way(folder, counted, monkeypatch, number, put):
    ((text, path),) = made_of([3000 + number], folder)
    content = path.read_bytes()
    put(path)
    check_again([text], [3000 + number], monkeypatch)
    assert len(counted) == 2 and path.read_bytes() == content and not path.is_symlink()
    if put is a_folder:
        assert [one.read_text() for one in folder.glob("*.damaged/file")] == ["of somebody"]


def test_a_file_that_cannot_be_read_is_made_again(folder, counted, monkeypatch):
    ((text, path),) = made_of([4000], folder)

    def refuse(self):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(type(path), "read_bytes", refuse)
        check_again([text], [4000], monkeypatch)
    assert len(counted) == 2


@pytest.mark.parametrize("number, broken", list(enumerate(["mkstemp", "replace", "fdopen"])))
def test_what_cannot_be_written_is_used_all_the_same(folder, monkeypatch, number, broken):
    def refuse(*_, **__):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(tempfile if broken == "mkstemp" else os, broken, refuse)
        with pytest.warns(RuntimeWarning, match=r"k_.*\.o cannot be written \(No space left"):
            text = f"\ndef export(a):\n    return a + {5000 + number}\n"
            assert (
                call(factory.compile_source(text, {"export": WORD}), "export", 1) == 5001 + number
            )
    assert not list(folder.iterdir())


def test_a_folder_that_was_removed_is_made_again(folder, monkeypatch):
    folder.rmdir()
    text = "\ndef export(a):\n    return a + 6000\n"
    assert call(factory.compile_source(text, {"export": WORD}), "export", 1) == 6001
    assert len(list(folder.iterdir())) == 1


def test_processes_that_write_the_same_file(tmp_path):
    """Three at once in an empty folder, then one that finds what they made."""
    text = "\ndef export(a):\n    return a + 7000\n"
    code = (
        "import ctypes; from tapegrad._core.codegen import factory\n"
        f"at = factory.compile_source({text!r}, {{'export': 'int64(int64)'}})['export']\n"
        "print(ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(at)(1))"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    for count in (3, 1):
        running = [
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) for _ in range(count)
        ]
        assert [process.communicate()[0].strip() for process in running] == [b"7001"] * count
    files = [path.name.partition("_")[0] for path in tmp_path.rglob("*") if path.is_file()]
    assert sorted(files) == ["k", "modules", "texts"]


#: Prints sums of 1, 2, …, 199 in memory of float64 or float32, by two helpers of the same name.
SUMS = """
import sys
import numpy as np
from tapegrad._core.codegen.factory import functions
for bits in sys.argv[1:]:
    text = f'''
from tapegrad._core.codegen.strided_memory import sum{bits}
def total(address, n):
    sum{bits}(address, n)  # called twice, it is not inlined
    return int(sum{bits}(address, n))
'''
    numbers = np.arange(1, 200, dtype=f"float{bits}")
    print(functions(text, {"total": 2}, False)["total"](numbers.ctypes.data, numbers.size))
"""


def test_helpers_of_several_processes_are_not_mistaken_for_one_another(tmp_path):
    """Numba names helpers by a count of each process, and each compiles another one here."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    for bits in (["64"], ["32"], ["64", "32"], ["32", "64"]):
        command = [sys.executable, "-c", SUMS, *bits]
        assert subprocess.check_output(command, env=environment).split() == [b"19900"] * len(bits)


def test_without_a_home_code_is_kept_for_this_process(monkeypatch):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(factory.Path, "home", homeless)
    with pytest.warns(RuntimeWarning, match="cannot be written .Could not determine home"):
        made = factory.cache_folder.__wrapped__()
    assert made.is_dir()
    made.rmdir()


class Interrupt(BaseException):
    pass


@pytest.mark.parametrize("after", [1, 2, 3, 4])
def test_what_was_compiled_before_an_interrupt_is_used_after_it(folder, monkeypatch, after):
    source = f"""
from tapegrad._core.codegen.intrinsics import apart, helper

@helper
def inner(a):
    apart()
    return a + {after}

@helper
def outer(a):
    apart()
    return inner(a) * 2

def export(a):
    return outer(a) + inner(a)

def other(a):
    return outer(a)
"""
    usual, calls = text_functions.TextFunction.finish, []

    def finish(self, result):
        calls.append(self)
        if len(calls) == after:
            raise Interrupt
        return usual(self, result)

    exports = {"export": WORD, "other": WORD}
    with monkeypatch.context() as patch, pytest.raises(Interrupt):
        patch.setattr(text_functions.TextFunction, "finish", finish)
        factory.compile_source(source, exports)
    assert not list(folder.iterdir())
    addresses = factory.compile_source(source, exports)
    assert call(addresses, "export", 10) == 3 * (10 + after)
    assert call(addresses, "other", 10) == 2 * (10 + after)


def test_a_helper_of_an_interrupted_text_is_used_by_another(folder, monkeypatch):
    """Helpers of the package outlive the text that they were compiled for."""
    broken = "from test_factory import bumped\n\ndef export(a):\n    return bumped(a) + unknown\n"
    with pytest.raises(NotCompiled, match="unknown"):
        factory.compile_source(broken, {"export": WORD})
    source = "from test_factory import bumped\n\ndef export(a):\n    return bumped(a) + bumped(a)\n"
    word = np.array([5])
    assert call(factory.compile_source(source, {"export": WORD}), "export", word.ctypes.data) == 13


def test_what_is_made_once_is_made_by_the_first_thread_that_asks():
    inside, go, made = threading.Event(), threading.Event(), []

    @factory.once_for_each
    def make(*given):
        inside.set()
        go.wait(0.2)
        made.append(given)
        return object()

    found = []
    other = threading.Thread(target=lambda: found.append(make("a", 1)))
    other.start()
    inside.wait()
    assert make("a", 1) is make("a", 1) and make() is make()
    other.join()
    assert found == [make("a", 1)] and made == [("a", 1), ()]
    with pytest.raises(TypeError):
        make([])
