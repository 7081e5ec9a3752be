"""Kernels of single operations, compiled on first use and kept for the life of the process.

An element-wise kernel is `kernel(n, arguments)` over contiguous blocks; the arguments are the
addresses of the inputs, the output, its adjoint and the adjoints of the inputs, which it adds to.
"""

import ctypes
import functools
import inspect
import linecache
import types
from collections.abc import Callable

from ..codegen import elements
from ..codegen.factory import compile_source
from ..codegen.layout import FEW_OPERANDS
from ..codegen.sources import text_of
from ..codegen.ufunc import make_ufunc
from ..ops.call_rows import python_adjoint
from ..ops.elementwise_text import ElementwiseText
from ..ops.slopes import shorter
from ..ops.table import Pointwise, Structural, needed

HEAD = """
from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.intrinsics import f32s, f64s, i64s, sum_of
from tapegrad._core.codegen.vector_math import select
"""
VIEW = {8: "f64s", 4: "f32s"}


def split_masks(op: Pointwise, masks: int) -> tuple[int, int, int]:
    """The inputs that have an adjoint, that are one value all through a block, whose is set."""
    if len(op.inputs) > FEW_OPERANDS:
        return masks, 0, 0
    few = (1 << FEW_OPERANDS) - 1
    return masks & few, masks >> FEW_OPERANDS & few, masks >> 2 * FEW_OPERANDS


def inputs_of(op: Pointwise, masks: int) -> list[int]:
    """The inputs that have an adjoint, by number."""
    mask = split_masks(op, masks)[0]
    return [j for j in range(len(op.inputs)) if mask >> j & 1]


class KernelLoop:
    """The lines of a kernel before, in and after its loop over the elements of a block.

    Memory is in names that end in `_all`, with one element where it is `once`.
    """

    def __init__(self):
        self.head: list[str] = []
        self.loads: list[str] = []
        self.body: list[str] = []
        self.tail: list[str] = []

    def load(self, name: str, once: int) -> None:
        """Name an element."""
        lines, at = (self.head, "0") if once else (self.loads, "i")
        lines.append(f"{name} = {name}_all[{at}]")

    def give(self, name: str, part: str, once: int, fresh: int) -> None:
        """Add to memory, or set it if it is `fresh`; there is a sum for one element."""
        if once:
            self.head.append(f"{name}_sum = 0.0")
            self.body.append(f"{name}_sum = sum_of({name}_sum, {part})")
            self.tail.append(f"{name}_all[0] = {name}_sum")
        else:
            self.body.append(f"{name}_all[i] {'' if fresh else '+'}= {part}")

    def lines(self) -> list[str]:
        """All lines; the loop has shorter expressions where all elements allow them.

        Each line of the body assigns to one name.
        """
        short, tests = [], []
        for line in self.body:
            target, sign, text = line.partition("= ")
            text, test = shorter(text)
            short.append(target + sign + text)
            tests += [f"select({test}, 0.0, 1.0)"] if test else []
        if not tests:
            return [*self.head, *self.loop(self.body), *self.tail]
        once = " + ".join(dict.fromkeys(tests))
        steps = needed([line.partition(" = ")[::2] for line in self.body], once)
        found = [*map(" = ".join, steps), f"far = sum_of(far, {once})"]
        return [
            *self.head,
            "far = 0.0",
            *self.loop(found),
            "if far == 0.0:",
            *indented(self.loop(short)),
            "else:",
            *indented(self.loop(self.body)),
            *self.tail,
        ]

    def loop(self, lines: list[str]) -> list[str]:
        """A loop of some lines."""
        return ["for i in range(elements):", *indented([*self.loads, *lines])]


def indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _text(names: list[str], lines: list[str], width: int) -> str:
    """Text of a kernel whose arguments are memory with these names."""
    memory = [f"{name}_all = {VIEW[width]}(at[{j}])" for j, name in enumerate(names)]
    body = indented(["at = i64s(arguments)", *memory, *lines])
    return "\n".join([HEAD, "def kernel(elements, arguments):", *body, ""])


def adjoint_source(op: Pointwise, masks: int, width: int) -> str:
    """Text of the adjoint kernel of an operation for a set of inputs (see `split_masks`).

    The adjoints of an input of one value are summed.
    """
    mask, uniform, fresh = split_masks(op, masks)
    names, block = [*op.inputs, "out"], KernelLoop()
    block.load("g", 0)
    for j, name in enumerate(names):
        if op.used >> j & 1:
            block.load(name, uniform >> j & 1)
    wanted = [j for j in op.sloping if mask >> j & 1]
    for j, part in ElementwiseText(op, block.loads.append).adjoint("g", wanted).items():
        block.give(f"t{j}", part, uniform >> j & 1, fresh >> j & 1)
    names += ["g", *[f"t{j}" for j in range(len(op.inputs))]]
    return _text(names, block.lines(), width)


def value_source(op: Pointwise, width: int, uniform: int) -> str:
    """Text of the kernel that computes the values of an operation.

    Inputs in the mask `uniform` have one value for all elements.
    """
    block = KernelLoop()
    for j, name in enumerate(op.inputs):
        block.load(name, uniform >> j & 1)
    block.give("out", ElementwiseText(op, block.loads.append).value(), once=0, fresh=1)
    return _text([*op.inputs, "out"], [*block.head, *block.loop(block.body)], width)


def compile_text(op: Pointwise, text: str) -> int:
    """Address of the kernel of an operation that is in a text."""
    return compile_source(text, {"kernel": "void(int64, int64)"}, fixed=op.is_fixed)["kernel"]


def compile_adjoint(op: Pointwise, masks: int, width: int) -> int:
    """Address of the adjoint kernel."""
    return compile_text(op, adjoint_source(op, masks, width))


def compile_value(op: Pointwise, width: int, uniform: int = 0) -> int:
    """Address of the value kernel."""
    return compile_text(op, value_source(op, width, uniform))


_STRUCTURAL_HEAD = """
from typing import NamedTuple

from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.matrix_products import *
from tapegrad._core.codegen import lapack, pocketfft
from tapegrad._core.codegen.strided_memory import *
from tapegrad._core.codegen.sweep_frame import *
from tapegrad._core.codegen.strided_memory import *
from tapegrad._core.codegen.layout import *
from tapegrad._core.codegen.intrinsics import *
from tapegrad._core.codegen.matrix_products import *
from tapegrad._core.codegen.shared_kernels import *
from tapegrad._core.codegen.vector_math import select
from tapegrad._core.codegen import machine_types as types
"""

#: What stands for the same names in kernels of complex matrices.
_COMPLEX_HEAD = "from tapegrad._core.codegen.complex_lapack import invert_factors, lapack\n"


def structural_source(op: Structural, kernel: Callable, width: int) -> str:
    """Text of the module with a kernel of a structural operation, whose values have this width."""
    texts = map(_text_of, (*op.helpers, kernel))
    head = _STRUCTURAL_HEAD
    if op.in_pairs and kernel is op.value_kernel:
        head, width = head + _COMPLEX_HEAD, elements.PAIR
    return head + elements.head(width) + "\n\n".join(texts)


@functools.cache
def _text_of(function: Callable) -> str:
    """The text of a function or a class. `inspect` first makes a tokenizer, which takes 10 ms."""
    made = inspect.unwrap(function)
    if not isinstance(made, types.FunctionType) or "<locals>" in made.__qualname__:
        return text_of(function)
    lines = linecache.getlines(made.__code__.co_filename)[made.__code__.co_firstlineno - 1 :]
    head = next(k for k, line in enumerate(lines) if line.startswith("def "))
    ends = (k for k, line in enumerate(lines) if k > head and line[0] not in " )\n")
    return "".join(lines[: next(ends, None)])


def compile_structural(op: Structural, kernel: Callable | None = None, width: int = 8) -> int:
    """Address of the adjoint kernel of a structural operation, or of another of its kernels.

    Values, and positions that a program computes, have so many bytes; in value kernels of
    operations `in_pairs` numbers have 16.
    """
    kernel = kernel or op.adjoint or python_adjoint
    name, signature = kernel.__name__, "void(int64, int64, int64, int64)"
    return compile_source(structural_source(op, kernel, width), {name: signature})[name]


def ufunc(op: Pointwise):
    """The operation as a NumPy ufunc, with a float32 loop first where float32 is sufficient."""
    compiled = {letter: compile_value(op, width) for letter, width in (("f", 4), ("d", 8))}
    return make_ufunc(op.name, len(op.inputs), compiled)


def callable_value(op: Pointwise):
    """The value kernel as a Python function, called without the interpreter lock."""
    address = compile_value(op, 8)
    return ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(address)
