"""The compiled sweep: its parts and kernels, compiled on demand; one table of them per process."""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from ..codegen import layout
from ..codegen.factory import compile_source, functions, once
from ..codegen.shared_kernels import compile_group
from ..ops.table import BY_CODE, MOST_CODES
from ..sweep import kernels, reverse, scalar_rows, sweep_entry, timed_reverse, undo_log
from . import native_types

#: Parts of the sweep, by the status that requests them: name, number of arguments, frame's word.
PARTS = {
    layout.WANT_SCALARS: ("scalars", 4, layout.FRAME_SCALARS),
    layout.WANT_POINTWISE: ("pointwise", 2, layout.FRAME_POINTWISE),
}


class _Compiled:
    """The sweep's functions, by name, and the tables of kernels that it fills on demand."""

    begin: Any
    reverse: Any
    reverse_alone: Any
    idle: Any
    end: Any
    release: Any
    cell_of: Any
    adjoint_buffer_of: Any
    adjoint_at: Any
    add_array: Any
    references: Any
    take: Any
    free_memory: Any
    plant_scalar: Any
    read_scalar: Any
    adopt: Any

    def __init__(self):
        call = compile_source(sweep_entry.SOURCE, {"call": "int64(int64, int64, int64)"})["call"]
        self.__dict__.update(native_types.builtins(sweep_entry.BUILTINS, call))
        self.compile_sweep(
            reverse.SOURCE, reverse.EXPORTS, scalar_rows.source, lambda: reverse.POINTWISE_SOURCE
        )
        count = MOST_CODES * layout.MASKS  # memory that is never touched is never allocated
        self.kernels = {8: np.zeros(count, np.int64), 4: np.zeros(count, np.int64)}
        self.structural = np.zeros(MOST_CODES, np.int64)

    def compile_sweep(
        self, source: str, exports: dict[str, int], *texts: Callable[[], str]
    ) -> None:
        """Compile the sweep itself, and take over the texts of its parts, in the order of PARTS."""
        self.__dict__.update(functions(source, exports, keep_lock=False))
        prototype = ctypes.PYFUNCTYPE(ctypes.c_int64, ctypes.c_int64)
        self.reverse_alone = prototype(address_of(self.reverse))
        self.texts = dict(zip(PARTS, texts, strict=True))
        self.parts = dict.fromkeys(PARTS, 0)

    def part(self, status: int) -> int:
        """The address of a part of the sweep, compiled on first use."""
        if not self.parts[status]:
            name, arguments, _ = PARTS[status]
            signature = f"int64({', '.join(['int64'] * arguments)})"
            self.parts[status] = compile_source(self.texts[status](), {name: signature})[name]
        return self.parts[status]

    def want(self, status: int, frame: np.ndarray) -> None:
        """Compile what a sweep has requested; raise the error of an adjoint that has refused."""
        if status in PARTS:
            frame[PARTS[status][2] // 8] = self.part(status)
            return
        if status == layout.WANT_STRIDED:
            strided = compile_group("strided_memory")
            frame[layout.FRAME_BLOCK_OF // 8] = strided["block_of"]
            frame[layout.FRAME_ADD_BLOCK // 8] = strided["add_block"]
            return
        code = int(frame[layout.FRAME_WANTED // 8])
        op = BY_CODE[code]
        if status == layout.REFUSED:
            raise op.refusal(int(frame[layout.FRAME_WANTED_MASK // 8]))
        if status == layout.WANT_STRUCTURAL:
            self.structural[code] = self.compile_structural(op)
            return
        masks = int(frame[layout.FRAME_WANTED_MASK // 8])
        width = int(frame[layout.FRAME_WANTED_DTYPE // 8])
        kernel = self.compile_kernel(op, masks, width)
        self.kernels[width][code * layout.MASKS + masks] = kernel

    def compile_structural(self, op) -> int:
        """The address of the kernel of an operation on whole arrays."""
        return kernels.compile_structural(op, op.adjoint)

    def compile_kernel(self, op, masks: int, width: int) -> int:
        """The address of the kernel of an element-wise operation."""
        op.check(kernels.inputs_of(op, masks))
        return kernels.compile_adjoint(op, masks, width)

    def timed(self) -> _Compiled:
        """The same functions and kernels, with a sweep that notes what each row costs."""
        return compiled_timed()


@once
def undoing() -> dict:
    """The functions that find, undo and redo writes: compiled when a sweep meets one."""
    return functions(undo_log.SOURCE, undo_log.EXPORTS, keep_lock=True)


def address_of(function) -> int:
    """The address of a compiled function that Python can call."""
    return ctypes.cast(function, ctypes.c_void_p).value or 0


@once
def compiled() -> _Compiled:
    return _Compiled()


@once
def compiled_timed() -> _Compiled:
    """The same functions and kernels, with a sweep that notes what each row costs."""
    code = copy.copy(compiled())
    code.compile_sweep(
        timed_reverse.source(),
        timed_reverse.EXPORTS,
        timed_reverse.scalars_source,
        timed_reverse.pointwise_source,
    )
    return code
