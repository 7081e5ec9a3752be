"""Parts of structural operations: the memory of a sweep of one row, in which their kernels run."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from ..._core.codegen import layout
from ..._core.codegen.elements import ITEM
from ..._core.codegen.factory import compile_source, once
from ..._core.codegen.sweep_frame import ADJOINT_HEADER
from ..._core.ops.table import BY_CODE
from ..._core.sweep.kernels import compile_structural
from ..ir.kernel_step import Kernel
from ..ir.steps import ARENA, View
from . import structural_kernels as kernels
from .moves import words
from .parts import SIGNATURE, Part, Wanted

ARRAY_BYTES = 72
#: What dtypes are in such a memory, by the bytes of an element; that of integers is 0.
_DTYPES = {4: 1, 8: 2}


@once
def compiled() -> dict[str, int]:
    return compile_source(kernels.TEXT, dict.fromkeys(kernels.EXPORTS, SIGNATURE))


@functools.cache
def kernels_of(code: int, item: int) -> tuple[int, int]:
    """Addresses of the kernels of an operation, forward and reverse, for a width of elements."""
    op = BY_CODE[code]
    reverse = compile_structural(op, width=item) if op.adjoint or op.vjp else 0
    return compile_structural(op, op.value_kernel, item), reverse


class _Memory:
    """Words that grow, and which of them are addresses in them or in a base."""

    def __init__(self):
        self.words: list[int] = []
        self.inside: list[int] = []
        self.outside: list[tuple[int, int]] = []

    def add(self, *items: int) -> int:
        """Add words; returns the byte offset of the first."""
        at = 8 * len(self.words)
        self.words.extend(items)
        return at

    def set(self, at: int, value: int) -> None:
        self.words[at // 8] = value

    def point(self, at: int, to: int) -> None:
        """Let a word be the address of another."""
        self.set(at, to)
        self.inside.append(at)

    def describe(self, operand: View | np.ndarray, item: int) -> int:
        """Describe an array, as far as kernels read; returns where."""
        at = self.add(*[0] * (ARRAY_BYTES // 8))
        self.set(at + layout.ARRAY_NDIM, len(operand.shape))
        floats = isinstance(operand, View) or operand.dtype.kind == "f"
        self.set(at + layout.ARRAY_DTYPE, _DTYPES[item] if floats else 0)
        if isinstance(operand, View):
            strides = [item * stride for stride in operand.strides]
            self.set(at + layout.ARRAY_DATA, item * operand.offset)
            self.outside.append((at + layout.ARRAY_DATA, operand.base))
            flags = layout.C_CONTIGUOUS if operand.is_contiguous else 0
        else:
            strides = list(operand.strides)
            self.set(at + layout.ARRAY_DATA, operand.ctypes.data)
            flags = layout.C_CONTIGUOUS if operand.flags.c_contiguous else 0
        self.set(at + layout.ARRAY_FLAGS, flags)
        self.point(at + layout.ARRAY_SHAPE, self.add(*operand.shape))
        self.point(at + layout.ARRAY_STRIDES, self.add(*strides))
        return at

    def refer(self, at: int, operand: Any, number: int, item: int) -> None:
        """Set the reference at `at`; `number` is that of its row, −1 for none."""
        tag = layout.TAG_INT
        if isinstance(operand, (View, np.ndarray)):
            tag = layout.TAG_ARRAY
            self.point(at, self.describe(operand, item))
        elif isinstance(operand, float):
            tag = layout.TAG_CONSTANT
            self.set(at, int(np.float64(operand).view(np.int64)))
        else:
            self.set(at, operand)
        self.set(at + 8, number & 0xFFFFFFFF | tag << 32)


def _is_output(operand: Any, out: View) -> bool:
    """Whether an operand is the output, seen otherwise: it has no derivative of its own."""
    inside = isinstance(operand, View) and operand.base == ARENA
    return inside and out.offset <= operand.offset < out.offset + out.size


def _sweep(
    step: Kernel, wanted: Wanted, item: int
) -> tuple[_Memory, int, list[tuple[int, int, int]]]:
    """The sweep's memory, where references are in it, (place, base, reference) of adjoint buffers.

    Operand k is row k, and the output the row after the last of them.
    """
    operands = [*step.operands, step.out]
    memory = _Memory()
    frame = memory.add(*[0] * (layout.FRAME_BYTES // 8))
    memory.set(frame + layout.FRAME_SEEDS, 1)
    memory.set(frame + layout.FRAME_WANTED, step.code)
    memory.set(frame + layout.FRAME_FLOAT32, _DTYPES[4])
    memory.set(frame + layout.FRAME_FLOAT64, _DTYPES[8])
    memory.point(frame + layout.FRAME_LOWEST, memory.add(0))
    tables, cells = memory.add(0), memory.add(*[layout.UNTOUCHED] * len(operands))
    memory.point(tables, cells)
    memory.point(frame + layout.FRAME_ADJOINTS, tables)
    references = memory.add(*[0] * (2 * len(operands)))
    adjoint_buffers = []
    for k, operand in enumerate(operands):
        at = references + k * layout.REFERENCE_BYTES
        last = k == len(step.operands)
        has = isinstance(operand, View) and wanted(operand) and not _is_output(operand, step.out)
        memory.refer(at, operand, k if has or last else -1, item)
        if has or last:
            adjoint_buffer = memory.add(*[0] * (ADJOINT_HEADER // 8))
            memory.point(cells + 8 * k, adjoint_buffer)
            adjoint_buffers.append((adjoint_buffer, operand.base, at))
    return memory, references, adjoint_buffers


def _plain(operand: Any, item: int) -> Any:
    """An operand as kernels of floats and positions read it."""
    if not isinstance(operand, np.ndarray):
        return operand
    return operand.astype(f"f{item}" if operand.dtype.kind == "f" else np.int64, copy=False)


def _words(
    step: Kernel, wanted: Wanted, item: int, forward: int, reverse: int
) -> tuple[np.ndarray, int]:
    """The data of a part, given the addresses of its kernels, and the number of adjoint buffers."""
    memory, references, adjoint_buffers = _sweep(step, wanted, item)
    counts = (len(memory.inside), len(memory.outside), len(adjoint_buffers))
    head = (forward, reverse, len(step.operands), references, 8 * len(memory.words))
    data = words(head, counts, memory.words, memory.inside, memory.outside, adjoint_buffers)
    return data, len(adjoint_buffers)


def forward_words(step: Kernel, kernel: int, item: int) -> np.ndarray:
    """The data of a part that has a value kernel and no reverse one."""
    return _words(step, lambda view: False, item, kernel, 0)[0]


def part_of_kernel(step: Kernel, wanted: Wanted, item: int = ITEM) -> Part:
    step = Kernel(step.code, [_plain(operand, item) for operand in step.operands], step.out)
    forward, reverse = kernels_of(step.code, item)
    data, adjoint_buffers = _words(step, wanted, item, forward, reverse)
    code = compiled()
    has_reverse = reverse != 0 and adjoint_buffers > 1
    return Part(
        code["kernel_forward"],
        code["kernel_reverse"] if has_reverse else 0,
        data,
        keep=step.operands,
    )
