"""A reverse sweep of second order: adjoints as seed 0, their tangents as seed 1.

Each part or kernel of the sweep that reads values has a second-order version, which also reads the
tangents of values from a forward traversal. Parts that are linear in adjoints serve both seeds
unchanged.
"""

from __future__ import annotations

import copy

import numpy as np

from ..codegen import layout
from ..codegen.factory import once
from ..ops.symbolic import partials_of
from ..sweep import second_order_rows, second_order_run, timed_reverse
from ..sweep.kernels import compile_structural, compile_text
from ..sweep.second_order_kernels import second_order_source, used_word
from . import store
from .compiled_sweep import PARTS, _Compiled, compiled
from .forward_sweep import Carrying
from .reverse_sweep import Sweep

_VALUES = (1 << layout.FLAT_SHIFT) - 1  # the bits of the values that kernels of a row read


class UnderivableError(RuntimeError):
    """An operation has no second partial derivatives."""


class _SecondOrder(_Compiled):
    """The compiled sweep, with parts and kernels of its own for rows that read values."""

    used: np.ndarray

    def __init__(self):
        self.__dict__.update(compiled().__dict__)
        texts = second_order_rows.source, lambda: second_order_run.SOURCE
        self.texts = dict(zip(PARTS, texts, strict=True))
        self.parts = dict.fromkeys(PARTS, 0)
        self.kernels = {width: np.zeros_like(table) for width, table in self.kernels.items()}
        self.structural = np.zeros_like(self.structural)
        self.used = store.used_table().copy()

    def follow(self) -> None:
        """Take over the operations that have been declared since."""
        new = self.used == 0
        self.used[new] = store.used_table()[new]

    def compile_structural(self, op) -> int:
        return compile_structural(op, op.second_order or op.adjoint)

    def compile_kernel(self, op, masks: int, width: int) -> int:
        """The address of a kernel; 0 if the sweep must request it again."""
        if partials_of(op) is None:
            raise UnderivableError(op.name)
        word = self.used[op.code] & ~_VALUES | used_word(op)
        if self.used[op.code] != word:
            self.used[op.code] = word
            return 0
        return compile_text(op, second_order_source(op, masks, width))

    def timed(self) -> _Compiled:
        return _timed()


@once
def _compiled() -> _SecondOrder:
    return _SecondOrder()


@once
def _timed() -> _Compiled:
    """The same with a sweep that notes what each row costs."""
    code = copy.copy(_compiled())
    code.compile_sweep(
        timed_reverse.source(),
        timed_reverse.EXPORTS,
        lambda: timed_reverse.scalars_source(second_order_rows),
        lambda: timed_reverse.pointwise_source("second_order_run"),
    )
    return code


#: Words of a frame that differ in a sweep of second order.
_WORDS = (
    *("FRAME_SCALARS", "FRAME_POINTWISE", "FRAME_KERNELS64", "FRAME_KERNELS32"),
    *("FRAME_STRUCTURAL", "FRAME_USED"),
)


class SecondOrderSweep(Sweep):
    """One sweep of a result's adjoint and of the tangent of that, given tangents of the rows.

    It uses up its rows, unless some that the result needs were used up before.
    """

    def __init__(self, tangents: Carrying):
        super().__init__(2, tangents.met_used)
        self.tangents = tangents
        self.code = _compiled()
        self.code.follow()
        kernels, used = self.code.kernels, self.code.used
        self._plain = self.work.words(*_WORDS)
        self.work.set(
            FRAME_SCALARS=0,
            FRAME_POINTWISE=0,
            FRAME_KERNELS64=kernels[8].ctypes.data,
            FRAME_KERNELS32=kernels[4].ctypes.data,
            FRAME_STRUCTURAL=self.code.structural.ctypes.data,
            FRAME_USED=used.ctypes.data,
            FRAME_TANGENTS=tangents.work.address,
        )

    def give_again(self) -> None:
        """Let the rows be as they were before the sweep, which has not ended."""
        if not self.tangents.met_used:
            self.tangents.give_again()
            self.work.set(FRAME_RETAIN=1)

    def __exit__(self, *_):
        self.work.set(**self._plain)
        super().__exit__(*_)
