"""Instructions that ask for the address of a function and jump to it, all registers as they were.

Code jumps here with the number of a slot, on the stack or in a register. The function in the word
`tapegrad_finder` fills the slot; where it has not, the slot leads here again. What is called takes
no vectors, so the registers of arguments are those of words and the low halves of those of numbers.
"""

from __future__ import annotations

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
