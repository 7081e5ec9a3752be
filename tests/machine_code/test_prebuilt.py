"""Machine code made when the package is built: found where it fits, and nowhere else."""

import ctypes
import functools
import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import mpmath
import numpy as np
import pytest
from assumed import needs

import tapegrad
from tapegrad._core.codegen import factory, library_files, machine_code, prebuilt
from tapegrad._core.codegen.prebuilt import Text
from tapegrad._core.codegen.vector_math import VECTOR, c_name
from tapegrad._core.tape import native_types

PACKAGE = Path(tapegrad.__file__).parent
HERE = machine_code.of_this_processor()
pytestmark = [
    needs("libmvec"),
    pytest.mark.skipif(sys.platform != "linux", reason="libraries are made on Linux only"),
    pytest.mark.skipif(library_files.linker() is None, reason="there is no linker"),
]
BINARY = ("power", "arctan2", "hypot")
KINDS = {"f64s": np.float64, "f32s": np.float32}
HEAD = """
from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.intrinsics import f32s, f64s, load_f64, store_f64
"""
UNARY_LOOP = """
def {name}_{kind}(n, x, y, z):
    x, z = {kind}(x), {kind}(z)
    for i in range(n):
        z[i] = np.{name}(x[i])
"""
BINARY_LOOP = """
def {name}_{kind}(n, x, y, z):
    x, y, z = {kind}(x), {kind}(y), {kind}(z)
    for i in range(n):
        z[i] = np.{name}(x[i], y[i])
"""
LOOPS = [(UNARY_LOOP, name) for name in VECTOR] + [(BINARY_LOOP, name) for name in BINARY]
FUNCTIONS = Text(
    HEAD + "".join(text.format(name=name, kind=kind) for text, name in LOOPS for kind in KINDS),
    {f"{name}_{kind}": "void(int64, int64, int64, int64)" for _, name in LOOPS for kind in KINDS},
    False,
)
#: A text that reads data by its name, and calls a function of SciPy's and one of Python's.
OUTSIDE = Text(
    HEAD
    + """
from tapegrad._core.codegen.cpython import tuple_size
from tapegrad._core.recorder.rows import state

def where(x):
    return state() + x

def size_of(x):
    return tuple_size(x)

def put_digamma(x):
    store_f64(x, 0, np.digamma(load_f64(x, 0)))
    return 0

def put_betainc(x):
    store_f64(x, 0, np.betainc(load_f64(x, 0), load_f64(x, 8), load_f64(x, 16)))
    return 0
""",
    dict.fromkeys(("where", "size_of", "put_digamma", "put_betainc"), "int64(int64)"),
    False,
)
#: A text that leads to fewer modules.
ALONE = Text("\ndef alone(x):\n    return x + 5\n", {"alone": "int64(int64)"}, False)
TEXTS = [OUTSIDE, ALONE]
machine_code.name_address("tapegrad_state", native_types.STATE.ctypes.data)
DIGAMMA_OF_ONE = -0.5772156649015329


def process(*words, **environment):
    """A process that runs with the package; its path can be another one."""
    path = environment.pop("path", PACKAGE.parent)
    inherited = {k: v for k, v in os.environ.items() if k not in prebuilt._PROCESSOR}
    return subprocess.Popen(
        [sys.executable, "-W", "error", *map(str, words)],
        cwd=path,
        env={**inherited, "PYTHONPATH": str(path), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(one):
    """What a process has printed."""
    out, error = one.communicate()
    assert one.returncode == 0, error
    return out.split()


def build(texts, level, folder):
    """A library of texts in a folder."""
    path = folder / "texts.json"
    path.write_text(json.dumps(texts))
    words = ("-m", "tapegrad._build", "--texts", path, "--out", folder)
    made = done(process(*words, **machine_code.environment(level)))
    assert made[1:4] == [str(len(texts)), "of", str(len(texts))], made
    return folder / f"{level.name}.so"


@pytest.fixture(scope="module")
def all_functions(tmp_path_factory):
    """A library for a level, with all functions that have vectors."""

    @functools.cache
    def made(level):
        return build([FUNCTIONS, *TEXTS], level, tmp_path_factory.mktemp(level.name))

    return made


@pytest.fixture(scope="module")
def few(tmp_path_factory):
    """A folder with a library for the narrowest level."""
    return build(TEXTS, HERE[-1], tmp_path_factory.mktemp("few")).parent


@pytest.fixture
def opened(tmp_path):
    """A library that nobody else has, opened."""

    def library(path, address_of=machine_code.address_of):
        mine = Path(shutil.copy(path, tmp_path))
        made = prebuilt.Library(mine, prebuilt.index_in(mine), address_of)
        assert made.is_ours()
        return made

    return library


def found(library, text, is_late=lambda symbol: symbol in machine_code.LATE):
    return library.find(text, text.key, is_late)


def call(address, *words):
    return ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(words))(address)(*words)


def check_outside(addresses):
    assert call(addresses["where"], 3) == native_types.STATE.ctypes.data + 3
    assert call(addresses["size_of"], id((7, 8, 9))) == 3
    for _ in range(2):  # found at the first call
        number = np.array([1.0])
        assert call(addresses["put_digamma"], number.ctypes.data) == 0
        assert abs(number[0] - DIGAMMA_OF_ONE) < 1e-15
        numbers = np.array([2.0, 1.0, 0.5])
        assert call(addresses["put_betainc"], numbers.ctypes.data) == 0
        assert abs(numbers[0] - 0.25) < 1e-15


def points(name, kind):
    """Arguments in the domain of a function, of a number that is no whole number of vectors."""
    rng = np.random.default_rng(5)
    low, high = {
        **dict.fromkeys(("arcsin", "arccos", "arctanh"), (-0.99, 0.99)),
        **dict.fromkeys(("log", "log2", "log10", "power"), (0.01, 30.0)),
        "log1p": (-0.9, 30.0),
        "arccosh": (1.01, 30.0),
    }.get(name, (-6.0, 6.0))
    return [rng.uniform(low, high, 37).astype(kind), rng.uniform(-3.0, 3.0, 37).astype(kind)]


def values(addresses, name, kind):
    x, y = points(name, KINDS[kind])
    out = np.empty(1000, x.dtype)[500 : 500 + len(x)]  # close behind x loops would use no vectors
    call(addresses[f"{name}_{kind}"], len(x), *(one.ctypes.data for one in (x, y, out)))
    return out


MPMATH = {
    "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "exp2": lambda x: mpmath.mpf(2) ** x,
    "log2": lambda x: mpmath.log(x, 2),
    "arctan2": mpmath.atan2,
    "power": mpmath.power,
}


def exact(name, kind):
    """The same in fifty digits."""
    short = {"arcsin": "asin", "arccos": "acos", "arctan": "atan"}
    short |= {"arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh"}
    function = MPMATH.get(name) or getattr(mpmath, short.get(name, name))
    x, y = points(name, KINDS[kind])
    with mpmath.workdps(50):
        pairs = zip(x.tolist(), y.tolist(), strict=True)
        return [function(*(pair if name in BINARY else pair[:1])) for pair in map(_of, pairs)]


def _of(pair):
    return [mpmath.mpf(one) for one in pair]


def by_single_numbers(name, kind):
    """The same by the functions of the C library."""
    number = ctypes.c_float if kind == "f32s" else ctypes.c_double
    function = getattr(ctypes.CDLL("libm.so.6"), c_name(name) + "f" * (kind == "f32s"))
    function.restype, function.argtypes = number, [number] * (1 + (name in BINARY))
    pairs = zip(*points(name, KINDS[kind]), strict=True)
    return [KINDS[kind](function(*pair[: len(function.argtypes)])) for pair in pairs]


def check_values(addresses, ulp):
    for _, name in LOOPS:
        for kind, dtype in KINDS.items():
            for value, wanted in zip(values(addresses, name, kind), exact(name, kind), strict=True):
                unit = float(np.spacing(dtype(abs(float(wanted)))))
                assert abs(float(value) - wanted) <= ulp * unit, (name, kind, value, wanted)


# --- what is found --------------------------------------------------------------------------------


@pytest.mark.parametrize("level", HERE, ids=lambda one: one.name)
def test_each_level_has_the_values_of_the_c_library(level, all_functions, opened):
    """At most 4 units in the last place off, of which glibc's scalar functions may have one."""
    library = opened(all_functions(level))
    check_outside(found(library, OUTSIDE))
    assert call(found(library, ALONE)["alone"], 2) == 7
    check_values(found(library, FUNCTIONS), 4)


def test_the_bits_are_those_of_code_that_is_compiled(all_functions, opened):
    """Of the widest level, if this processor has no wider vectors."""
    library = opened(all_functions(HERE[0]))
    here, there = found(library, FUNCTIONS), factory.compile_source(*FUNCTIONS[:2])
    assert not {*here.values()} & {*there.values()}
    for _, name in LOOPS:
        for kind in KINDS:
            same = values(here, name, kind) == values(there, name, kind)
            assert same.all(), (name, kind)


OLD = ("exp", "log", "pow", "sin", "cos", "sincos")


@pytest.mark.parametrize("has", [OLD, ()], ids=["old", "none"])
@pytest.mark.parametrize("level", HERE[:2], ids=lambda one: one.name)
def test_vector_functions_that_the_c_library_does_not_have(
    level, has, all_functions, opened, monkeypatch
):
    """Loops over functions of single numbers are in their places."""
    usual, missing = prebuilt.vector_function, []

    def vector_function(symbol):
        if symbol.split("_")[-1].removesuffix("f") in has:
            return usual(symbol)
        missing.append(symbol)

    monkeypatch.setattr(prebuilt, "vector_function", vector_function)
    addresses = found(opened(all_functions(level)), FUNCTIONS)
    check_values(addresses, 4)
    assert bool(missing) == bool(level.vectors)
    for _, name in [] if has else LOOPS:
        for kind in KINDS:
            same = values(addresses, name, kind) == by_single_numbers(name, kind)
            assert same.all(), (name, kind)


def test_a_symbol_that_this_process_does_not_have(few, opened):
    """As functions that a version of Python or SciPy does not have: the text is not found."""

    def address_of(symbol):
        return None if symbol in missing else machine_code.address_of(symbol)

    missing = ["PyTuple_Size"]
    library = opened(few / f"{HERE[-1].name}.so", address_of)
    assert found(library, OUTSIDE) is None
    assert found(library, ALONE)
    missing.clear()
    check_outside(found(library, OUTSIDE))


def test_what_is_found_at_the_first_call(few, opened, capsys, monkeypatch):
    """It is asked for until it is told; where SciPy cannot be imported the result is NaN."""
    asked, lost = [], []
    monkeypatch.setattr(sys, "unraisablehook", lost.append)

    def address_of(symbol):
        asked.append(symbol)
        if asked.count("tapegrad_digamma") == 1:
            raise KeyboardInterrupt
        if symbol == "tapegrad_betainc":
            raise ImportError("no SciPy")
        return machine_code.address_of(symbol)

    addresses = found(opened(few / f"{HERE[-1].name}.so", address_of), OUTSIDE)
    assert not {"tapegrad_digamma", "tapegrad_betainc"} & {*asked}
    for name, wanted in (("digamma", DIGAMMA_OF_ONE), ("betainc", math.nan)) * 2:
        numbers = np.array([1.0, 1.0, 0.5])
        call(addresses[f"put_{name}"], numbers.ctypes.data)
        assert np.allclose(numbers[0], wanted, 1e-15, 0.0, equal_nan=True)
    assert asked.count("tapegrad_digamma") == 2 and asked.count("tapegrad_betainc") == 1
    assert "no SciPy" in capsys.readouterr().err
    assert [one.exc_type for one in lost] == [KeyboardInterrupt]


def test_a_function_that_must_be_found_at_once(few, opened):
    addresses = found(opened(few / f"{HERE[-1].name}.so"), OUTSIDE, lambda symbol: False)
    check_outside(addresses)


def test_another_text_or_others_of_its_functions_are_not_found(few, opened):
    library = opened(few / f"{HERE[-1].name}.so")
    source, exports, single, _ = ALONE
    assert found(library, ALONE)
    assert not found(library, Text(source + "\n", exports, single))
    assert not found(library, Text(source, {"alone": "int64(int32)"}, single))
    assert not found(library, Text(source, exports, True))


def test_a_library_serves_whom_it_served_first(few, opened, monkeypatch):
    """Not another interpreter of the process: words of the library hold addresses of the first."""
    library = opened(few / f"{HERE[-1].name}.so")
    assert library.is_ours()
    monkeypatch.setattr(prebuilt, "_owner", ctypes.c_int64())
    assert not library.is_ours()


# --- files ----------------------------------------------------------------------------------------


def whole(path):
    return path.read_bytes()


DAMAGE = {
    "empty": lambda content: b"",
    "short": lambda content: content[: len(content) // 2],
    "end": lambda content: content[:-1],
    "longer": lambda content: content + b"\0",
    "code": lambda content: content[:3000] + bytes([content[3000] ^ 1]) + content[3001:],
    "index": lambda content: content[:-99] + bytes([content[-99] ^ 4]) + content[-98:],
    "another": lambda content: b"\x7fELF" + bytes(5000),
    "words": lambda content: b"words\n" * 30,
}


@pytest.fixture
def chosen(monkeypatch):
    """The library that is chosen of a folder."""

    def library(folder):
        monkeypatch.setattr(prebuilt, "FOLDER", folder)
        return prebuilt.library.__wrapped__(machine_code.address_of)

    return library


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_file_is_not_loaded(few, chosen, tmp_path, damage):
    name = f"{HERE[-1].name}.so"
    content = whole(few / name)
    (tmp_path / name).write_bytes(content)
    assert chosen(tmp_path) is not None
    (tmp_path / name).write_bytes(DAMAGE[damage](content))
    assert chosen(tmp_path) is None


def test_a_file_of_another_level_or_of_none(few, chosen, tmp_path):
    name = f"{HERE[-1].name}.so"
    for level in machine_code.LEVELS.values():
        if level != HERE[-1]:
            shutil.copy(few / name, tmp_path / f"{level.name}.so")
    assert chosen(tmp_path) is None
    assert chosen(tmp_path / "none") is None
    (tmp_path / name).mkdir()
    assert chosen(tmp_path) is None


def test_the_widest_level_of_which_there_is_a_whole_file(few, chosen, tmp_path):
    last = shutil.copy(few / f"{HERE[-1].name}.so", tmp_path)
    (tmp_path / f"{HERE[0].name}.so").write_bytes(whole(Path(last))[:-1])
    if len(HERE) > 1:
        assert chosen(tmp_path).path == Path(last)


def test_levels_by_what_numpy_tells_of_the_processor():
    """Newer releases tell of groups, too, which can be off while their parts are on."""
    has = dict.fromkeys(machine_code.LEVELS["x86-64-v4"].needs, True)
    names = ["x86-64-v4", "x86-64-v3", "x86-64-v2"]

    def runs(has):
        return [one.name for one in machine_code.LEVELS.values() if machine_code._runs(one, has)]

    assert runs(has) == runs(has | {"X86_V4": True, "X86_V3": True, "X86_V2": True}) == names
    assert runs(has | {"AVX512F": False}) == runs(has | {"X86_V4": False}) == names[1:]
    assert runs(has | {"AVX512_SKX": False}) == names[1:]
    assert runs(has | {"AVX2": False}) == runs(has | {"X86_V3": False}) == names[2:]
    assert runs(has | {"SSE42": False}) == runs({}) == []
    assert runs({"ASIMD": True}) == ["aarch64"]


# --- whole processes ------------------------------------------------------------------------------

SCRIPT = """
import ctypes, json, os, sys
from pathlib import Path
from tapegrad._core.codegen import machine_code, factory, prebuilt
machine_code.name_address("tapegrad_state", 64)
prebuilt.FOLDER = Path(sys.argv[1])
compiled = []
usual = factory._compile
factory._compile = lambda text, key: compiled.extend(text.exports) or usual(text, key)
def ask(number):
    source, exports, *_ = json.loads(Path(sys.argv[1], "texts.json").read_text())[number]
    addresses = factory.compile_source(source, exports)
    return ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(next(iter(addresses.values())))
"""
ONE = SCRIPT + "print(ask(1)(4), *compiled)\n"


def test_a_process_compiles_nothing_that_was_built(few, tmp_path):
    """Of several at once; nothing is written, where a home cannot be written, too."""
    home = tmp_path / "home"
    home.mkdir()
    home.chmod(0o500)
    given = {"HOME": str(home), "NUMBA_CACHE_DIR": str(home / "cache")}
    several = [process("-c", ONE, few, **given) for _ in range(3)]
    assert [done(one) for one in several] == [["9"]] * 3
    assert not [*home.iterdir()]


NOTHING_ELSE = """
import sys
from pathlib import Path
import numpy as np
import tapegrad as tg
from tapegrad._core.codegen import prebuilt
prebuilt.FOLDER = Path(sys.argv[1])

def f(x):
    return x[0] * x[1] + np.sum(np.sin(x))

print(*tg.grad(f)(np.zeros(2)), *tg.compile(f).value_and_grad(np.zeros(2))[1])
print(*[one for one in ("numba", "llvmlite", "scipy") if one in sys.modules])
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 has no PyObject_Vectorcall")
def test_what_was_built_needs_no_compiler_and_no_scipy(tmp_path):
    """The first gradient, and the first call of a compiled function."""
    collect = f"""
import json, sys
from pathlib import Path
from tapegrad._core.codegen import prebuilt
asked = {{}}
prebuilt.collected = lambda text: asked.setdefault(text.key, text)
{NOTHING_ELSE}
Path(sys.argv[1], "texts.json").write_text(json.dumps([*asked.values()]))
"""
    assert done(process("-c", collect, tmp_path))[:4] == ["1.0"] * 4
    path = tmp_path / "texts.json"
    words = ("-m", "tapegrad._build", "--texts", path, "--out", tmp_path)
    done(process(*words, **machine_code.environment(HERE[0])))
    home = {"HOME": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert done(process("-c", NOTHING_ELSE, tmp_path, **home)) == ["1.0"] * 4
    assert not (tmp_path / "cache").exists()


@pytest.mark.parametrize(
    "environment",
    [
        {"NUMBA_CPU_NAME": "x86-64"},
        {"NUMBA_CPU_FEATURES": "-avx512f"},
        {"TAPEGRAD_WITHOUT": "libmvec"},
    ],
    ids=lambda one: next(iter(one)),
)
def test_who_asks_for_other_code_gets_it(few, environment):
    assert done(process("-c", ONE, few, **environment)) == ["9", "alone"]


def test_features_that_are_switched_off_in_numpy():
    """Groups of them can be, of those that NumPy itself has other code for."""
    wide = [one for one in HERE if one.name in ("x86-64-v3", "x86-64-v4")]
    names = "X86_V4,AVX512_SKX,AVX512F,AVX512CD"
    off = names if len(wide) == 2 else f"{names},X86_V3,AVX2,FMA3"
    if not wide:
        pytest.skip("this processor has no level that NumPy can do without")
    code = (
        "import warnings; warnings.simplefilter('ignore'); import numpy; "
        "from tapegrad._core.codegen import machine_code; "
        "print(*(one.name for one in machine_code.of_this_processor()))"
    )
    one = process("-W", "ignore", "-c", code, NPY_DISABLE_CPU_FEATURES=off)
    assert done(one) == [one.name for one in HERE[1:]]


def test_the_child_of_a_fork(few):
    """It has what its parent has found, and finds more."""
    code = """
first = ask(1)
if (child := os.fork()) == 0:
    print(first(1), ask(1)(2), ask(0)(0), *compiled, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(first(3), *compiled)
"""
    assert done(process("-c", SCRIPT + code, few)) == ["6", "7", "64", "8"]


def changed(folder, file, before, after):
    """A copy of the package in which a file is changed; where it is."""
    shutil.copytree(PACKAGE, folder / "tapegrad", ignore=shutil.ignore_patterns("__pycache__"))
    path = folder / "tapegrad" / "_core" / file
    text = path.read_text()
    assert before in text
    path.write_text(text.replace(before, after, 1))
    return folder


BOTH = (
    SCRIPT
    + """
for number in (0, 1):
    text = prebuilt.Text(*json.loads(Path(sys.argv[1], "texts.json").read_text())[number])
    from tapegrad._core.codegen.machine_code import address_of, is_late
    print(prebuilt.find(text, text.key, address_of, is_late) is not None)
"""
)


@pytest.mark.parametrize(
    "file, before, after, found",
    [
        ("sweep/reverse.py", '"""', '"""Other words. ', ["True", "True"]),
        ("recorder/rows.py", "def ", "def _unused():\n    pass\n\n\ndef ", ["False", "True"]),
        ("codegen/machine_code.py", "opt=3", "opt=2", ["False", "False"]),
    ],
    ids=["elsewhere", "a helper", "the compiler"],
)
def test_code_of_changed_sources_is_not_found(few, tmp_path, file, before, after, found):
    copy = changed(tmp_path, file, before, after)
    assert done(process("-c", BOTH, few, path=copy)) == found


def test_sources_that_change_in_a_process_before_they_are_asked_for(few, tmp_path):
    copy = changed(tmp_path, "recorder/rows.py", '"""', '"""')
    code = (
        SCRIPT
        + f"""
import time
path = Path({str(copy)!r}, "tapegrad/_core/recorder/rows.py")
time.sleep(0.1)
path.write_text(path.read_text())
"""
        + BOTH.removeprefix(SCRIPT)
    )
    assert done(process("-c", code, few, path=copy)) == ["False", "True"]


# --- building -------------------------------------------------------------------------------------


def test_texts_that_ask_for_what_is_no_function_of_theirs_are_left_out(tmp_path):
    broken = Text("\ndef broken(x):\n    return undefined(x)\n", {"broken": "int64(int64)"}, False)
    path = tmp_path / "texts.json"
    path.write_text(json.dumps([broken, ALONE]))
    words = ("-m", "tapegrad._build", "--texts", path, "--out", tmp_path)
    made = done(process(*words, **machine_code.environment(HERE[-1])))
    assert made[1:4] == ["1", "of", "2"] and "broken:" in made
    assert prebuilt.index_in(tmp_path / f"{HERE[-1].name}.so")["keys"] == ALONE.key


def test_a_machine_without_a_linker(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert library_files.linker() is None
    one = process("-m", "tapegrad._build", "--out", tmp_path / "out", PATH=str(tmp_path))
    _, error = one.communicate()
    assert one.returncode == 1 and "cc, gcc, clang or ld is not found" in error
    assert not (tmp_path / "out").exists()
