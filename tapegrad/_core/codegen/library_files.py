"""Shared libraries of machine code, as they are made when the package is built (see `prebuilt`).

The object files of texts are linked with one more. It defines each symbol that they call: as a
function of one instruction that jumps to the address in a word, or as the word itself. Until the
function is found the word leads to what asks for it and calls it, for a vector function to a loop
over that of single numbers.
"""

from __future__ import annotations

import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from . import machine_code, prebuilt, sources
from .factory import MAKER, code_of, symbols_of
from .factory import __name__ as _FACTORY
from .machine_code import SLOT, assembled
from .prebuilt import VECTOR, Text
from .process import llvm
from .sources import digest_of

# --------------------------------------------------------------------------------------------------
# Instructions that ask for the address of a function and jump to it, all registers as they were.
# Code jumps here with the number of a slot, on the stack or in a register. The function in the word
# `tapegrad_finder` fills the slot; where it has not, the slot leads here again. What is called
# takes no vectors, so the registers of arguments are those of words and the low halves of those of
# numbers.


_WORDS = "rdi rsi rdx rcx r8 r9 rax".split()
_NUMBERS = range(8)


def ask_x86() -> str:
    """For x86-64, as Unix calls functions; the number is on the stack."""
    room = 16 * len(_NUMBERS) + 8  # the stack is aligned for a call
    lines = [f"pushq %{one}" for one in _WORDS]
    lines.append(f"subq ${room}, %rsp")
    lines += [f"movups %xmm{k}, {16 * k}(%rsp)" for k in _NUMBERS]
    number = f"movq {room + 8 * len(_WORDS)}(%rsp)"
    lines += [f"{number}, %rdi", "callq *.Lfinder(%rip)"]
    lines += [f"{number}, %rax", "leaq .Lslots(%rip), %r11", "movq (%r11,%rax,8), %r11"]
    lines += [f"movups {16 * k}(%rsp), %xmm{k}" for k in _NUMBERS]
    lines.append(f"addq ${room}, %rsp")
    lines += [f"popq %{one}" for one in reversed(_WORDS)]
    return "; ".join([*lines, "addq $8, %rsp", "jmpq *%r11"])


def ask_aarch64() -> str:
    """For 64-bit ARM; the number is in x17."""
    lines = ["stp x29, x30, [sp, #-240]!", "mov x29, sp"]
    words = [("x0", "x1"), ("x2", "x3"), ("x4", "x5"), ("x6", "x7"), ("x8", "x17")]
    numbers = [(f"q{k}", f"q{k + 1}") for k in range(0, 8, 2)]
    places = [(*pair, 16 + 16 * k) for k, pair in enumerate(words)]
    places += [(*pair, 96 + 32 * k) for k, pair in enumerate(numbers)]
    lines += [f"stp {one}, {other}, [sp, #{place}]" for one, other, place in places]
    lines += ["mov x0, x17", "adrp x16, .Lfinder", "ldr x16, [x16, :lo12:.Lfinder]", "blr x16"]
    lines += ["ldr x17, [sp, #88]", "adrp x16, .Lslots", "add x16, x16, :lo12:.Lslots"]
    lines.append("ldr x16, [x16, x17, lsl #3]")
    lines += [f"ldp {one}, {other}, [sp, #{place}]" for one, other, place in places]
    return "; ".join([*lines, "ldp x29, x30, [sp], #240", "br x16"])


#: By the beginning of the names of levels: the instructions that jump to an address in a word,
#: those that ask for the address of a number first, and what all of the latter jump to.
_JUMPS = {
    "x86-64": ("jmpq *{word}(%rip)", "pushq ${number}; jmp .Lask", ask_x86()),
    "aarch64": (
        "adrp x16, {word}; ldr x16, [x16, :lo12:{word}]; br x16",
        "movz x17, #{number}; b .Lask",
        ask_aarch64(),
    ),
}
_One = TypeVar("_One")
_EXPORTED = [f"tapegrad_{name}" for name in "owner finder nowhere slots functions".split()]
_VECTOR_NAME = re.compile(rf"{VECTOR}[a-z]N(\d+)(v+)_(\w+)")
_SYMBOLS = 2  # the type of a section of symbols in an object file
#: What is told to a linker, some of it by way of a compiler.
_LINKED = ("-Bsymbolic", "--hash-style=gnu", "-z", "noexecstack", "-z", "now", "-O1", "-s")


def linker() -> list[str] | None:
    """The command that links a library; None if the machine has none."""
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            told = [word for one in _LINKED for word in ("-Xlinker", one)]
            return [found, "-shared", "-nostdlib", *told]
    found = shutil.which("ld")
    return [found, "-shared", *_LINKED] if found else None


def library(texts: Iterable[Text], command: list[str]) -> tuple[bytes, list[str]]:
    """The file of a library of texts, and why some are not in it."""
    level = machine_code.made()
    assert level is not None
    index: dict[str, Any] = {"level": level.name, "keys": "", "counts": []}
    index |= {"modules of": [], "slots of": []}
    objects: list[bytes] = []
    functions: list[str] = []
    why: list[str] = []
    slots, modules, sets = _Numbered[str](), _Numbered[str](), _Numbered[tuple[int, ...]]()
    for text in texts:
        try:
            code, called, reached = _made(text)
        except Exception as error:
            why.append(f"{', '.join(text.exports)}: {type(error).__name__}: {error}")
            continue
        objects.append(code)
        index["keys"] += text.key
        index["counts"].append(len(text.exports))
        index["modules of"].append(sets.number_of(modules.numbers_of(reached)))
        index["slots of"].append(sets.number_of(slots.numbers_of(called)))
        functions += symbols_of(text.exports, text.key).values()
    index["sets"] = [*sets]
    index["modules"] = [(one, digest_of(one)) for one in modules]
    index["symbols"] = [one.removeprefix(SLOT) for one in slots]
    index |= {"slots": len(slots), "functions": len(functions)}
    llvm.initialize_native_asmparser()
    objects.append(_object(assembled(_around([*slots], functions, level))))
    return prebuilt.packed(_linked(objects, command), index), why


class _Numbered(dict[_One, int]):
    """Names, or others, with numbers in the order in which they were first met."""

    def number_of(self, one: _One) -> int:
        return self.setdefault(one, len(self))

    def numbers_of(self, them: Iterable[_One]) -> tuple[int, ...]:
        return tuple(map(self.number_of, them))


def _made(text: Text) -> tuple[bytes, list[str], list[str]]:
    """The object file of a text, the symbols that it calls, the modules that it is made of."""
    reached = sources.modules_of(text.source, (_FACTORY, MAKER))
    code = _object(code_of(text, text.key))
    called = [*undefined(code)]
    if private := [one for one in called if one.startswith("_Py")]:
        raise ValueError(f"{', '.join(private)} is of one version of Python")
    return code, sorted({*called, *_of_one_number(called)}), reached


def _of_one_number(called: Iterable[str]) -> Iterator[str]:
    """The functions that stand in the places of vector functions call."""
    for found in filter(None, map(_VECTOR_NAME.fullmatch, called)):
        yield found[3]


def _object(code: bytes) -> bytes:
    return code.partition(b"\n")[2]


def undefined(code: bytes) -> Iterator[str]:
    """The symbols that an object file (ELF, of 64 bits) does not define."""
    (at,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, at + k * size) for k in range(count)]
    for section in sections:
        if section[1] != _SYMBOLS:
            continue
        names = sections[section[6]][4]
        for place in range(section[4] + section[9], section[4] + section[5], section[9]):
            name, _, _, defined = struct.unpack_from("<IBBH", code, place)
            if not defined:
                yield code[names + name : code.index(b"\0", names + name)].decode()


def _around(slots: list[str], functions: list[str], level: machine_code.Level) -> str:
    """The text, for LLVM, of what is linked with the code of texts."""
    jump, asks, ask = next(text for name, text in _JUMPS.items() if level.name.startswith(name))
    found = [match for match in map(_VECTOR_NAME.fullmatch, slots) if match]
    loops = {match[0]: _Loop(match[0], *match.groups()) for match in found}
    lines, words = [".text", ".p2align 4", f".Lask: {ask}"], []
    for number, symbol in enumerate(slots):
        lines += [f".globl {symbol}", f".hidden {symbol}"]
        word, first = f".Lslot{number}", f".Lfirst{number}"
        if symbol.startswith(SLOT):
            words += [f"{symbol}:", ".quad 0"]
            continue
        lines += [f".type {symbol}, %function", f"{symbol}: {jump.format(word=word)}"]
        if symbol in loops:
            first = loops[symbol].name
        else:
            lines.append(f"{first}: {asks.format(number=number)}")
        words += [f"{word}:", f".quad {first}"]
    lines += [f".globl {name}" for name in _EXPORTED] + [".data", ".p2align 6"]
    lines += ["tapegrad_owner: .quad 0", "tapegrad_finder:", ".Lfinder: .quad 0"]
    lines += ["tapegrad_slots:", ".Lslots:", *words]
    lines += ["tapegrad_functions:", *(f".quad {name}" for name in functions)]
    parts = [f'module asm "{line}"' for line in lines]
    parts += sorted({one.declaration for one in loops.values()})
    parts.append("define double @tapegrad_nowhere() { ret double 0x7FF8000000000000 }")
    return "\n".join([*parts, *(one.text for one in loops.values())])


class _Loop:
    """What is called where the C library has no vector function."""

    def __init__(self, symbol: str, lanes: str, arguments: str, function: str):
        number = "float" if function.endswith("f") and function != "erf" else "double"
        given = [f"%x{k}" for k in range(len(arguments))]
        vector = f"<{lanes} x {number}>"
        self.name = f"tapegrad_in_place_of{symbol}"
        self.declaration = f"declare {number} @{function}({', '.join([number] * len(given))})"
        lines = [f"define hidden {vector} @{self.name}("]
        lines[0] += ", ".join(f"{vector} {one}" for one in given) + ") {"
        for one in given:
            lines += [f"{one}.m = alloca {vector}", f"store {vector} {one}, ptr {one}.m"]
        lines += ["br label %loop", "loop:", "%k = phi i64 [0, %0], [%next, %loop]"]
        for one in given:
            lines.append(f"{one}.at = getelementptr {number}, ptr {one}.m, i64 %k")
            lines.append(f"{one}.of = load {number}, ptr {one}.at")
        words = ", ".join(f"{number} {one}.of" for one in given)
        lines.append(f"%found = call {number} @{function}({words})")
        lines.append(f"store {number} %found, ptr %x0.at")
        lines += ["%next = add i64 %k, 1", f"%ends = icmp eq i64 %next, {lanes}"]
        lines += ["br i1 %ends, label %done, label %loop", "done:"]
        lines += [f"%result = load {vector}, ptr %x0.m", f"ret {vector} %result", "}"]
        self.text = "\n".join(lines)


def _linked(objects: list[bytes], command: list[str]) -> bytes:
    """A library of object files that has no names but those that are exported."""
    with tempfile.TemporaryDirectory() as name:
        folder, paths = Path(name), []
        for number, code in enumerate(objects):
            paths.append(folder / f"{number}.o")
            paths[-1].write_bytes(code)
        exported = "".join(f"{one}; " for one in _EXPORTED)
        (folder / "exported").write_text(f"{{ global: {exported}local: *; }};")
        version = ["--version-script", str(folder / "exported")]
        if "-Xlinker" in command:
            version = [word for one in version for word in ("-Xlinker", one)]
        made = folder / "library.so"
        done = subprocess.run(
            [*command, *version, "-o", str(made), *map(str, paths)], capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command[:1])} links no library:\n{done.stderr[-2000:]}")
        return made.read_bytes()
