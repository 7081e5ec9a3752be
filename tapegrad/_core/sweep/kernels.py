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
from ..codegen.parsing import text_of
from ..codegen.ufunc import make_ufunc
from ..ops.partial_products import product
from ..ops.python_call import python_adjoint
from ..ops.slopes import shorter
from ..ops.table import Pointwise, Structural

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


def adjoint_source(op: Pointwise, masks: int, width: int) -> str:
    """Text of the adjoint kernel of an operation for a set of inputs (see `split_masks`).

    The adjoints of an input of one value are summed.
    """
    mask, uniform, fresh = split_masks(op, masks)
    view, count = VIEW[width], len(op.inputs)
    wanted = [j for j in range(count) if mask >> j & 1 and op.partials[j] != "0.0"]
    head = ["def kernel(elements, arguments):", "    at = i64s(arguments)"]
    head += [f"    {name}_s = {view}(at[{j}])" for j, name in enumerate((*op.inputs, "out"))]
    head += [f"    gs = {view}(at[{count + 1}])"]
    head += [f"    t{j} = {view}(at[{count + 2 + j}])" for j in wanted]
    loads = []
    for j, name in enumerate((*op.inputs, "out")):
        if op.used >> j & 1 and uniform >> j & 1:
            head.append(f"    {name} = {name}_s[0]")
        elif op.used >> j & 1:
            loads.append(f"        {name} = {name}_s[i]")
    steps = op.needed(*[op.partials[j] for j in wanted])
    loads += [f"        {name} = {text}" for name, text in steps]
    tail = []
    for j in wanted:
        if uniform >> j & 1:
            head.append(f"    sum_{j} = 0.0")
            tail.append(f"    t{j}[0] = sum_{j}")

    def loop(partials) -> list[str]:
        lines = ["    for i in range(elements):", "        g = gs[i]", *loads]
        for j, partial in partials:
            part = product("g", partial)
            if uniform >> j & 1:
                lines.append(f"        sum_{j} = sum_of(sum_{j}, {part})")
            else:
                lines.append(f"        t{j}[i] {'' if fresh >> j & 1 else '+'}= {part}")
        return lines

    body = loop([(j, op.partials[j]) for j in wanted])
    short = [(j, *shorter(op.partials[j])) for j in wanted]
    if tests := [f"select({test}, 0.0, 1.0)" for *_, test in short if test]:
        tested = ["    far = 0.0", "    for i in range(elements):", *loads]
        tested.append(f"        far = sum_of(far, {' + '.join(tests)})")
        near, far = loop([(j, text) for j, text, _ in short]), body
        body = [*tested, "    if far == 0.0:", *_indented(near), "    else:", *_indented(far)]
    return HEAD + "\n".join(head + body + tail) + "\n"


def _indented(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def value_source(op: Pointwise, width: int, uniform: int) -> str:
    """Text of the kernel that computes the values of an operation.

    Inputs in the mask `uniform` have one value for all elements.
    """
    view = VIEW[width]
    lines = ["def kernel(elements, arguments):", "    at = i64s(arguments)"]
    lines += [f"    {name}_s = {view}(at[{j}])" for j, name in enumerate((*op.inputs, "out"))]
    once = [name for j, name in enumerate(op.inputs) if uniform >> j & 1]
    lines += [f"    {name} = {name}_s[0]" for name in once]
    lines += ["    for i in range(elements):"]
    lines += [f"        {name} = {name}_s[i]" for name in op.inputs if name not in once]
    lines += [f"        {name} = {text}" for name, text in op.needed(op.value)]
    lines += [f"        out_s[i] = {op.value}"]
    return HEAD + "\n".join(lines) + "\n"


def compile_adjoint(op: Pointwise, masks: int, width: int) -> int:
    """Address of the adjoint kernel."""
    text = adjoint_source(op, masks, width)
    return compile_source(text, {"kernel": "void(int64, int64)"}, fixed=op.is_fixed)["kernel"]


def compile_value(op: Pointwise, width: int, uniform: int = 0) -> int:
    """Address of the value kernel."""
    text = value_source(op, width, uniform)
    return compile_source(text, {"kernel": "void(int64, int64)"}, fixed=op.is_fixed)["kernel"]


_STRUCTURAL_HEAD = """
from typing import NamedTuple

from tapegrad._core.codegen import vector_math as np
from tapegrad._core.codegen.blas import *
from tapegrad._core.codegen import lapack, pocketfft
from tapegrad._core.codegen.descriptors import *
from tapegrad._core.codegen.sweep_frame import *
from tapegrad._core.codegen.strided_sums import *
from tapegrad._core.codegen.layout import *
from tapegrad._core.codegen.intrinsics import *
from tapegrad._core.codegen.matmul_tiles import *
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


def callable_value(op: Pointwise, width: int):
    """The value kernel as a Python function, called without the interpreter lock."""
    address = compile_value(op, width)
    return ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64)(address)
