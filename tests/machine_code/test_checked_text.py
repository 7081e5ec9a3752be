"""The text of the checked build: what is asked before each load and store, of whatever kind."""

import ctypes
import inspect
import textwrap

import llvmlite.binding as llvm
import numpy as np
import pytest
from checked_text import ACCESS, LANE, size, with_checks

from tapegrad._core.codegen import machine_code, text_functions
from tapegrad._core.codegen.intrinsics import f64s, load_i64, memcpy, store_f64, store_i64

HEAD = "from tapegrad._core.codegen.intrinsics import *\n"

seen: list = []


@ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_int64, ctypes.c_void_p)
def access(address, length, site):
    seen.append((address, length, bool(ctypes.string_at(site, 2)[1])))


@ctypes.CFUNCTYPE(None, ctypes.c_uint64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_bool)
def lane(address, length, site, used):
    if used:
        access(address, length, site)


for symbol, function in ((ACCESS, access), (LANE, lane)):
    llvm.add_symbol(symbol, ctypes.cast(function, ctypes.c_void_p).value)


def called(text, name, *arguments):
    """Bytes that a function of a text loads and stores, relative to its first argument, sorted."""
    usual = str(llvm.parse_assembly(text))  # in the words of the LLVM that is installed
    module = llvm.parse_assembly(with_checks(usual))
    module.verify()
    (address,) = machine_code.load(machine_code.emitted(module), [name])
    seen.clear()
    ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(arguments))(address)(*arguments)
    loaded, stored = set(), set()
    for start, length, is_store in seen:
        (stored if is_store else loaded).update(range(start, start + length))
    return [sorted(place - arguments[0] for place in places) for places in (loaded, stored)]


def compiled(function, name, arity):
    """The text of a function of words, as it is compiled."""
    source = HEAD + textwrap.dedent(inspect.getsource(function))
    signature = f"int64({', '.join(['int64'] * arity)})"
    made = text_functions.lowered(source, {name: (function.__name__, signature)})
    return str(machine_code.optimised(machine_code.parsed(made, [name])))


def text(name, body):
    return (
        f"define i64 @{name}(i64 %x) {{\n  %p = inttoptr i64 %x to ptr\n{body}\n  ret i64 0\n}}\n"
    )


X = np.arange(64.0)
AT = X.ctypes.data


@pytest.mark.parametrize("n", [0, 1, 3, 8, 61])
def test_a_loop_is_asked_for_each_of_its_bytes(n):
    def doubled(address, count):
        x = f64s(address)
        for k in range(count):
            x[k] = 2.0 * x[k]
        return 0

    X[:] = np.arange(64.0)
    everything = list(range(8 * n))
    name = f"checked_doubled_{n}"
    assert called(compiled(doubled, name, 2), name, AT, n) == [everything, everything]
    assert X[:n].tolist() == [2.0 * k for k in range(n)] and X[n:].tolist() == list(range(n, 64))


def test_words_and_c_functions():
    def moved(address):
        store_i64(address, 80, load_i64(address, 8))
        store_f64(address, 96, 1.5)
        memcpy(address + 256, address + 128, 24)
        return 0

    loaded, stored = called(compiled(moved, "checked_moved", 1), "checked_moved", AT)
    assert loaded == [*range(8, 16), *range(128, 152)]
    assert stored == [*range(80, 88), *range(96, 104), *range(256, 280)]


MASK = "<4 x i1> <i1 1, i1 0, i1 0, i1 1>"
LANES = {
    "load": f"%v = call <4 x double> @llvm.masked.load.v4f64.p0(ptr %p, i32 8, {MASK}, "
    "<4 x double> zeroinitializer)",
    "store": f"call void @llvm.masked.store.v4f64.p0(<4 x double> zeroinitializer, ptr %p, i32 8, "
    f"{MASK})",
    "gather": "%b = insertelement <4 x ptr> zeroinitializer, ptr %p, i32 0\n"
    "  %s = shufflevector <4 x ptr> %b, <4 x ptr> poison, <4 x i32> zeroinitializer\n"
    "  %q = getelementptr double, <4 x ptr> %s, <4 x i64> <i64 0, i64 9, i64 9, i64 3>\n"
    f"  %v = call <4 x double> @llvm.masked.gather.v4f64.v4p0(<4 x ptr> %q, i32 8, {MASK}, "
    "<4 x double> zeroinitializer)",
    "scatter": "%q = getelementptr double, ptr %p, <4 x i64> <i64 0, i64 9, i64 9, i64 3>\n"
    "  call void @llvm.masked.scatter.v4f64.v4p0(<4 x double> zeroinitializer, "
    f"<4 x ptr> %q, i32 8, {MASK})",
}


@pytest.mark.parametrize("kind", LANES)
def test_lanes_that_are_masked_are_not_asked_for(kind):
    many, each, mask = "<4 x double>", "<4 x ptr>", "i32, <4 x i1>"
    declared = {
        "load": f"{many} @llvm.masked.load.v4f64.p0(ptr, {mask}, {many})",
        "store": f"void @llvm.masked.store.v4f64.p0({many}, ptr, {mask})",
        "gather": f"{many} @llvm.masked.gather.v4f64.v4p0({each}, {mask}, {many})",
        "scatter": f"void @llvm.masked.scatter.v4f64.v4p0({many}, {each}, {mask})",
    }
    name, ends = f"checked_lanes_{kind}", [*range(8), *range(24, 32)]
    module = text(name, "  " + LANES[kind]) + f"declare {declared[kind]}\n"
    wanted = [[], ends] if kind in ("store", "scatter") else [ends, []]
    assert called(module, name, AT) == wanted


@pytest.mark.parametrize(
    "body, loaded, stored",
    [
        ("%v = load atomic i32, ptr %p seq_cst, align 4", range(4), ()),
        ("store volatile <3 x double> zeroinitializer, ptr %p, align 8", (), range(24)),
        ("%v = load { i8, double, i32 }, ptr %p, align 8", range(20), ()),
        ("%v = load [3 x i32], ptr %p, align 4", range(12), ()),
        ("%v = atomicrmw volatile xchg ptr %p, i64 7 seq_cst, align 8", (), range(8)),
        ("%v = cmpxchg ptr %p, i64 1, i64 2 seq_cst seq_cst, align 8", (), range(8)),
        ("call void @llvm.memset.p0.i64(ptr align 8 %p, i8 0, i64 40, i1 false)", (), range(40)),
    ],
)
def test_each_kind_of_instruction(body, loaded, stored):
    name = "checked_" + "".join(filter(str.isalnum, body))
    declared = "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)\n" if "memset" in body else ""
    assert called(text(name, "  " + body) + declared, name, AT) == [list(loaded), list(stored)]


def test_an_address_that_is_an_expression():
    pointer = "getelementptr (i8, ptr inttoptr (i64 64 to ptr), i64 8)"
    made = with_checks(text("f", f"  %v = load i64, ptr {pointer}, align 8"))
    assert f"@{ACCESS}(ptr {pointer}, i64 8, " in made


def test_variables_on_the_stack_are_asked_for_where_they_are_left():
    body = "  %v = alloca i64, align 8\n  store i64 1, ptr %v, align 8\n"
    assert f"call void @{ACCESS}" not in with_checks(text("f", body))
    body += "  %w = load <2 x i64>, ptr %v, align 8\n"
    assert with_checks(text("f", body)).count(f"call void @{ACCESS}") == 1


@pytest.mark.parametrize(
    "line",
    [
        "call void @llvm.masked.compressstore.v2f64(<2 x double> %v, ptr %p, <2 x i1> %m)",
        "%v = invoke i64 @f(i64 1) to label %a unwind label %b",
        "%v = load x86_fp80, ptr %p, align 16",
    ],
)
def test_what_is_not_known_is_an_error(line):
    with pytest.raises(NotImplementedError):
        with_checks(text("f", "  " + line))


def test_sizes():
    assert size("<8 x i1>") == 1 and size("<3 x double>") == 24 and size("ptr") == 8
